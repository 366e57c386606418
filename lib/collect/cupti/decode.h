// SPDX-License-Identifier: Apache-2.0
//
// Reads buffers filled by CUPTI.
#ifndef PITOT_LIB_COLLECT_CUPTI_DECODE_H_
#define PITOT_LIB_COLLECT_CUPTI_DECODE_H_

#include <cstdint>
#include <vector>

#include "collect/cupti/graph_scopes.h"
#include "collect/cupti/records.h"
#include "collect/cupti/strides.h"

namespace pitot::cupti {

// How a time of CUPTI's became one of CLOCK_MONOTONIC, or why not.
enum class Conversion : uint8_t {
  kByRealtime,
  kByCycles,   // of the CPU
  kNoTime,     // of no known clock, or later than now
  kNotPlaced,  // CLOCK_REALTIME stepped, and it may be from before or after, or fits neither
};

// The reader of the clock. CUPTI has converted the GPU's own stamps.
enum class Stamper : uint8_t { kHost, kGpu };

// Converts CUPTI's clock to CLOCK_MONOTONIC.
class Clock {
 public:
  // Sets `monotonic_ns` if it can convert. Cost: about 5 ns.
  virtual Conversion ToMonotonic(uint64_t cupti_ns, Stamper by, int64_t* monotonic_ns) const = 0;

 protected:
  ~Clock() = default;
};

struct DecodeCounts {
  uint64_t records = 0;         // read, of kept kinds
  uint64_t calls = 0;           // of those
  uint64_t bad_timestamps = 0;  // of records left out: zero, later than now, or the end before the beginning
  uint64_t unplaced = 0;        // left out, too: from around a step of the clock
  uint64_t unknown = 0;         // of kinds not kept
  uint64_t unreadable_bytes = 0;
  bool is_by_cycles = false;  // the last record's time
};

class Decoder {
 public:
  // All live as long as this. `scopes` may be null.
  Decoder(const Api* api, const Strides& strides, const Clock* clock, Tables* tables, GraphScopes* scopes)
      : api_(api), strides_(strides), clock_(clock), tables_(tables), scopes_(scopes) {}

  // Appends the records in the `valid` bytes of `buffer`. Never reads beyond them, whatever they are. Frees memory left
  // by CUPTI to its clients to free. Cost: about 50 ns a record. Throws bad_alloc.
  void Decode(const uint8_t* buffer, size_t valid, std::vector<GpuRecord>* out);

  const DecodeCounts& counts() const { return counts_; }

 private:
  void TakeDetail(uint32_t kind, const uint8_t* record, GpuRecord* made);
  void Take(uint32_t kind, const uint8_t* record, std::vector<GpuRecord>* out);

  const Api* const api_;
  const Strides strides_;
  const Clock* const clock_;
  Tables* const tables_;
  GraphScopes* const scopes_;
  DecodeCounts counts_;
};

// Meanings of GpuRecord::detail.
const char* OverheadName(uint32_t kind);
inline Domain DomainOf(const GpuRecord& call) { return call.detail >> 31 != 0 ? kDriverApi : kRuntimeApi; }
inline uint32_t CallbackOf(const GpuRecord& call) { return call.detail & 0x7fffffff; }

}  // namespace pitot::cupti

#endif  // PITOT_LIB_COLLECT_CUPTI_DECODE_H_
