// SPDX-License-Identifier: Apache-2.0
//
// The peak rates of GPUs, by their data sheets.
#ifndef PITOT_LIB_ANALYZE_FACTS_PEAKS_H_
#define PITOT_LIB_ANALYZE_FACTS_PEAKS_H_

#include <cstdint>
#include <string_view>

#include "pitot/export.h"

namespace pitot::facts {

// Number types with peaks of their own. TF32: floats on tensor cores.
enum class Precision : uint8_t { kF8, kF16, kTf32, kF32, kUnknown };
inline constexpr uint32_t kPrecisions = static_cast<uint32_t>(Precision::kUnknown);  // the known ones
const char* NameOf(Precision precision);                                             // "f16"; "" for kUnknown
// Reads pitot::torch's names of types: "f16" and "bf16", "f32", "Float8_e4m3fn".
Precision PrecisionOf(std::string_view type);
// Whether a kernel computes floats on tensor cores, by its name.
bool UsesTf32(std::string_view kernel);
// Bytes of one value of a type; 0: unknown.
uint32_t BytesOf(std::string_view type);

struct Peaks {
  double flops_per_clock = 0;  // of a multiprocessor, dense; 0: unknown
  uint32_t multiprocessors = 0;
  double megahertz = 0;     // the clock of the data sheet's numbers
  double bytes_per_ns = 0;  // of memory; 0: unknown
};
// The peaks of a device, by its name in CUDA: "NVIDIA H100 80GB HBM3". For dense products; a multiplication and an
// addition are two operations. From NVIDIA's data sheets and architecture papers of V100, T4, A100, A30, A10, L4, L40S,
// H100, H200, GH200 and B200 (HGX), and AMD's of MI300X, MI325X,
// MI350X and MI355X.
Peaks PeaksOf(std::string_view device, Precision precision);

}  // namespace pitot::facts

#endif  // PITOT_LIB_ANALYZE_FACTS_PEAKS_H_
