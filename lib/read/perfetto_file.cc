// SPDX-License-Identifier: Apache-2.0
#include "read/perfetto_file.h"

#include <memory>
#include <string>

#include "base/columns.h"
#include "read/format.h"
#include "read/perfetto_packets.h"
#include "read/wire_stream.h"

namespace pitot::read {

using base::WireField;
using base::WireType;

Status ReadPerfettoFile(const Input& input, PerfettoTarget* target, PerfettoClocks* clocks, TraceReport* report) {
  const std::unique_ptr<ByteSource> source = input.Open(&report->is_gzip);
  WireStream stream(source.get());
  PerfettoPackets packets(target, clocks, report);
  WireField field;
  uint64_t bad = 0;
  while (stream.Next(&field)) {
    if (!field.Is(1, WireType::kBytes)) continue;
    const std::string_view packet = stream.Take();
    if (!stream.has_ended()) bad += !packets.Take(packet);
  }
  report->events_bad += bad;
  const StatusCode code = source->status().code();
  if (code != StatusCode::kOk && code != StatusCode::kDataLoss) return source->status();
  std::string loss;
  const auto add = [&](const std::string& what) { loss += (loss.empty() ? "" : "; ") + what; };
  if (code == StatusCode::kDataLoss) add(source->status().message());
  if (stream.is_damaged()) add("it is damaged at byte " + base::Count(stream.at()) + "; what follows was not read");
  if (stream.is_cut() || (!stream.is_damaged() && code == StatusCode::kOk && target->LacksEnd())) add("it is cut off");
  if (stream.skipped() != 0) add(base::Plural(stream.skipped(), "packet") + " of more than 64 MiB were left out");
  if (report->events_bad != 0) add(base::Plural(report->events_bad, "packet") + " or event could not be read");
  if (packets.without_state() != 0)
    report->problems =
        base::Plural(packets.without_state(), "event") + " before the names that they refer to were left out";
  if (packets.lost() != 0) AddProblem("its writer lost packets " + base::Plural(packets.lost(), "time"), report);
  if (packets.untied() != 0)
    AddProblem(base::Plural(packets.untied(), "event") +
                   " before the first snapshot of clocks have times of another clock, taken as they are",
               report);
  report->complete = loss.empty();
  return loss.empty() ? Status() : Status(StatusCode::kDataLoss, loss.c_str());
}

}  // namespace pitot::read
