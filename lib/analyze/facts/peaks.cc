// SPDX-License-Identifier: Apache-2.0
#include "analyze/facts/peaks.h"

namespace pitot::facts {
namespace {

// By a part of the name, the longer ones first. Operations of a multiprocessor and clock: f8, f16, tf32, f32. Dense
// rates of the makers' data sheets, divided by their multiprocessors and boost clocks; these and the rates by clock are
// in the white papers on Volta, Turing, Ampere, Ada, Hopper and Blackwell (NVIDIA), CDNA 3 and CDNA 4 (AMD). Memory:
// the data sheets. H100 SXM, f16: 4096 * 132 * 1.830 GHz = 989 TFLOP/s.
struct Sheet {
  std::string_view name;
  double flops[4];
  uint32_t multiprocessors;
  double megahertz, bytes_per_ns;
};
constexpr Sheet kSheets[] = {
    {"H100 PCIe", {8192, 4096, 2048, 256}, 114, 1620, 2000},
    {"H100 NVL", {8192, 4096, 2048, 256}, 132, 1545, 3900},
    {"H100", {8192, 4096, 2048, 256}, 132, 1830, 3350},
    {"GH200", {8192, 4096, 2048, 256}, 132, 1830, 4000},
    {"H200", {8192, 4096, 2048, 256}, 132, 1830, 4800},
    {"NVIDIA B200", {16384, 8192, 4096, 256}, 148, 1850, 8000},
    {"A100-SXM4-80GB", {0, 2048, 1024, 128}, 108, 1410, 2039},
    {"A100 80GB PCIe", {0, 2048, 1024, 128}, 108, 1410, 1935},
    {"A100", {0, 2048, 1024, 128}, 108, 1410, 1555},
    {"NVIDIA A10", {0, 1024, 512, 256}, 72, 1695, 600},
    {"A30", {0, 2048, 1024, 128}, 56, 1440, 933},
    {"L40S", {2048, 1024, 512, 256}, 142, 2520, 864},
    {"NVIDIA L4", {2048, 1024, 512, 256}, 58, 2040, 300},
    {"V100", {0, 1024, 0, 128}, 80, 1530, 900},
    {"Tesla T4", {0, 1024, 0, 128}, 40, 1590, 320},
    {"MI300X", {4096, 2048, 1024, 256}, 304, 2100, 5300},
    {"MI325X", {4096, 2048, 1024, 256}, 304, 2100, 6000},
    {"MI350X", {8192, 4096, 0, 256}, 256, 2200, 8000},
    {"MI355X", {8192, 4096, 0, 256}, 256, 2400, 8000},
};

}  // namespace

Precision PrecisionOf(std::string_view type) {
  if (type == "f16" || type == "bf16") return Precision::kF16;
  if (type == "f32") return Precision::kF32;
  return type.substr(0, 6) == "Float8" ? Precision::kF8 : Precision::kUnknown;
}

const char* NameOf(Precision precision) {
  constexpr const char* kNames[] = {"f8", "f16", "tf32", "f32", ""};
  return kNames[static_cast<uint32_t>(precision)];
}

bool UsesTf32(std::string_view kernel) {
  return kernel.find("tf32") != std::string_view::npos || kernel.find("s1688") != std::string_view::npos;
}

uint32_t BytesOf(std::string_view type) {
  if (type == "f64" || type == "i64") return 8;
  if (type == "f32" || type == "i32") return 4;
  if (type == "f16" || type == "bf16" || type == "i16") return 2;
  return type == "i8" || type == "u8" || type == "bool" || type.substr(0, 6) == "Float8" ? 1 : 0;
}

Peaks PeaksOf(std::string_view device, Precision precision) {
  if (precision == Precision::kUnknown) return {};
  for (const Sheet& sheet : kSheets) {
    const size_t at = device.find(sheet.name);
    if (at == std::string_view::npos) continue;
    // An A10G is not an A10.
    const std::string_view next = device.substr(at + sheet.name.size(), 1);
    if (next.empty() || next == " " || next == "-")
      return {sheet.flops[static_cast<uint32_t>(precision)], sheet.multiprocessors, sheet.megahertz,
              sheet.bytes_per_ns};
  }
  return {};
}

}  // namespace pitot::facts
