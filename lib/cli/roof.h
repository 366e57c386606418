// SPDX-License-Identifier: Apache-2.0
//
// Roofs of rows as text and JSON, for `pitot top` and `pitot roofline`.
#ifndef PITOT_LIB_CLI_ROOF_H_
#define PITOT_LIB_CLI_ROOF_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/command_line.h"
#include "pitot/analyze/top.h"

namespace pitot::cli {

// Peaks that the user measured; 0: those of the data sheet.
struct PeakArguments {
  double tflops = 0, gigabytes = 0;
};
void AddPeaks(const Command& command, PeakArguments* peaks);

// "-" for what was not measured. A rate of least bytes begins with ">", and an intensity derived from it with "<".
std::string FlopRate(const analyze::TopRoof& roof);
std::string ByteRate(const analyze::TopRoof& roof);
std::string Intensity(const analyze::TopRoof& roof);
std::string PercentOf(double share);
std::string BindingRoof(const analyze::TopRoof& roof);  // "memory 83%"
std::string OccupancyOf(const analyze::TopRow& row);
// Where the numbers come from; "" if there are none.
std::string RoofNote(const analyze::TopTable& table);

// Null without GPU work; null members were not measured.
nlohmann::ordered_json RoofJson(const analyze::TopRoof& roof);
nlohmann::ordered_json PeaksJson(const analyze::TopTable& table);

}  // namespace pitot::cli

#endif  // PITOT_LIB_CLI_ROOF_H_
