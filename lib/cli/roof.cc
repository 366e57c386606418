// SPDX-License-Identifier: Apache-2.0
#include "cli/roof.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_join.h"
#include "cli/grid.h"

namespace pitot::cli {

using analyze::TopBound;
using analyze::TopDevice;
using analyze::TopEvidence;
using analyze::TopRoof;
using analyze::TopRow;
using analyze::TopTable;
using nlohmann::ordered_json;

namespace {

bool IsLeast(const TopRoof& roof) { return roof.bytes_from == TopEvidence::kOperators; }

const char* NameOf(TopEvidence evidence) {
  return evidence == TopEvidence::kOperators ? "operators" : evidence == TopEvidence::kCounters ? "counters" : "";
}

ordered_json Known(double value) { return value < 0 ? ordered_json() : ordered_json(value); }
ordered_json Known(const char* text) { return *text == '\0' ? ordered_json() : ordered_json(text); }

}  // namespace

void AddPeaks(const Command& command, PeakArguments* peaks) {
  command
      .Add("--peak-flops", &peaks->tflops,
           "Peak of computing that you measured, in Tflop/s, for all number types [the data sheet's]")
      .Number(0, 1e9);
  command.Add("--peak-bandwidth", &peaks->gigabytes, "Peak of DRAM that you measured, in GB/s [the data sheet's]")
      .Number(0, 1e9);
}

std::string FlopRate(const TopRoof& roof) { return roof.flop_per_s < 0 ? "-" : Prefixed(roof.flop_per_s); }
std::string ByteRate(const TopRoof& roof) {
  return roof.bytes_per_s < 0 ? "-" : (IsLeast(roof) ? ">" : "") + Prefixed(roof.bytes_per_s);
}
std::string Intensity(const TopRoof& roof) {
  return roof.flop_per_byte < 0 ? "-" : (IsLeast(roof) ? "<" : "") + Short(roof.flop_per_byte);
}
std::string PercentOf(double share) { return share < 0 ? "-" : Short(100 * share) + "%"; }
std::string BindingRoof(const TopRoof& roof) {
  if (roof.bound == TopBound::kUnknown) return "-";
  return (roof.bound == TopBound::kMemory ? "memory " : "compute ") + PercentOf(roof.BoundShare());
}
std::string OccupancyOf(const TopRow& row) {
  return row.occupancy_percent < 0 ? "-" : Short(row.occupancy_percent) + "%";
}

std::string RoofNote(const TopTable& table) {
  const auto any = [&](auto has) {
    return std::any_of(table.rows.begin(), table.rows.end(), [&](const TopRow& row) { return has(row.roof); });
  };
  std::vector<std::string> notes;
  if (any([](const TopRoof& roof) { return roof.flop_per_s >= 0; }))
    notes.push_back("flop/s are those of operators with recorded shapes");
  if (any(IsLeast)) notes.push_back("bytes/s after \">\" are the least that these operators must move");
  if (any([](const TopRoof& roof) { return roof.samples != 0; }))
    notes.push_back("counters are means over samples that the work fills to 80 %");
  if (notes.empty()) return "";
  std::vector<std::string> peaks;
  for (uint32_t i = 0; i < table.devices.size(); ++i) {
    const TopDevice& device = table.devices[i];
    if (!any([i](const TopRoof& roof) { return roof.device == i; })) continue;
    if (device.bytes_per_s == 0 && device.flop_per_s.empty()) {
      peaks.push_back("the peaks of " + (device.name.empty() ? "the device" : device.name) +
                      " are not known: pass --peak-flops and --peak-bandwidth");
    } else {
      peaks.push_back("the peaks of " + device.name + " are " +
                      (device.is_given ? "given by options" : "its data sheet's, for dense products"));
    }
  }
  std::sort(peaks.begin(), peaks.end());
  peaks.erase(std::unique(peaks.begin(), peaks.end()), peaks.end());
  notes.insert(notes.end(), peaks.begin(), peaks.end());
  return "roofs: " + absl::StrJoin(notes, "; ");
}

ordered_json RoofJson(const TopRoof& roof) {
  if (roof.device == model::kNone) return {};
  const bool is_compute = roof.bound == TopBound::kCompute, is_bound = roof.bound != TopBound::kUnknown;
  return {{"device", roof.device},
          {"gpu_ns", roof.gpu_ns},
          {"has_spans", roof.has_spans},
          {"precision", Known(roof.precision)},
          {"flop_per_s", Known(roof.flop_per_s)},
          {"peak_flop_per_s", Known(roof.peak_flop_per_s)},
          {"bytes_per_s", Known(roof.bytes_per_s)},
          {"bytes_from", Known(NameOf(roof.bytes_from))},
          {"flop_per_byte", Known(roof.flop_per_byte)},
          {"compute_share", Known(roof.compute_share)},
          {"compute_from", Known(NameOf(roof.compute_from))},
          {"memory_share", Known(roof.memory_share)},
          {"tensor_share", Known(roof.tensor_share)},
          {"sm_share", Known(roof.sm_share)},
          {"samples", roof.samples},
          {"bound", is_bound ? ordered_json(is_compute ? "compute" : "memory") : ordered_json()},
          {"bound_share", Known(roof.BoundShare())}};
}

ordered_json PeaksJson(const TopTable& table) {
  ordered_json devices = ordered_json::array();
  for (const TopDevice& device : table.devices) {
    ordered_json peaks = ordered_json::object();
    for (const auto& [precision, peak] : device.flop_per_s) peaks[precision] = peak;
    devices.push_back({{"name", device.name},
                       {"peaks_given", device.is_given},
                       {"bytes_per_s", device.bytes_per_s > 0 ? ordered_json(device.bytes_per_s) : ordered_json()},
                       {"flop_per_s", std::move(peaks)}});
  }
  return devices;
}

}  // namespace pitot::cli
