// SPDX-License-Identifier: Apache-2.0
#include "base/depth_name.h"
#include "pitot/analyze/why.h"
#include "tables/tables.h"

namespace pitot::tables {
namespace {

using model::Trace;

Table Counters(const Trace& trace) {
  const auto& rows = trace.counters;
  Table table{"counters", "quantities over time", rows.size(), {}};
  Add(&table, Id("counter_id"),
      RowOf(
          "device_id", [&](uint64_t row) { return rows[row].device; }, "null: the process"),
      Text(trace, "name", [&](uint64_t row) { return rows[row].name; }),
      Text(trace, "unit", [&](uint64_t row) { return rows[row].unit; }));
  return table;
}

Table Samples(const Trace& trace) {
  const model::SampleColumns& samples = trace.samples;
  Table table{"samples", "values of counters, each until the next", samples.size(), {}};
  Add(&table, RowOf("counter_id", [&](uint64_t row) { return samples.counter[row]; }));
  AddMoment(
      trace, "at", [&](uint64_t row) { return samples.at_ns[row]; }, &table);
  Add(&table, Real("value", [&](uint64_t row) { return samples.value[row]; }));
  return table;
}

Table Overheads(const Trace& trace) {
  const auto& rows = trace.overheads;
  Table table{"overheads", "work of a driver or a profiler", rows.size(), {}};
  AddMoment(
      trace, "begin", [&](uint64_t row) { return rows[row].begin_ns; }, &table);
  Add(&table, Integer("duration_ns", [&](uint64_t row) { return rows[row].duration_ns; }),
      Text(trace, "name", [&](uint64_t row) { return rows[row].name; }));
  return table;
}

Table Depths(const Trace& trace, const char* name, const char* note, const std::vector<model::DepthRow>& rows) {
  Table table{name, note, rows.size(), {}};
  AddMoment(
      trace, "begin", [&rows](uint64_t row) { return rows[row].begin_ns; }, &table);
  AddMoment(
      trace, "end", [&rows](uint64_t row) { return rows[row].end_ns; }, &table);
  Add(&table, Name(
                  "depth", [&rows](uint64_t row) { return rows[row].depth; }, base::DepthName));
  return table;
}

Table Losses(const Trace& trace) {
  const auto& rows = trace.losses;
  Table table{"losses", "missing events", rows.size(), {}};
  Add(&table,
      RowOf(
          "thread_id", [&](uint64_t row) { return rows[row].thread; }, "null: the process"),
      Name(
          "reason", [&](uint64_t row) { return rows[row].reason; }, model::LossReasonName));
  AddMoment(
      trace, "begin", [&](uint64_t row) { return rows[row].begin_ns; }, &table);
  AddMoment(
      trace, "end", [&](uint64_t row) { return rows[row].end_ns; }, &table);
  Add(&table,
      NotZero(
          "events", [&](uint64_t row) { return rows[row].events; }, "null: not known"),
      NotZero("bytes", [&](uint64_t row) { return rows[row].bytes; }));
  return table;
}

Table GpuLosses(const Trace& trace) {
  const auto& rows = trace.gpu_losses;
  Table table{"gpu_losses", "missing GPU records", rows.size(), {}};
  Add(&table,
      RowOf(
          "stream_id", [&](uint64_t row) { return rows[row].stream; }, "null: any"),
      RowOf(
          "device_id", [&](uint64_t row) { return rows[row].device; }, "null: any"),
      Text(trace, "reason", [&](uint64_t row) { return rows[row].reason; }));
  AddMoment(
      trace, "begin", [&](uint64_t row) { return rows[row].begin_ns; }, &table);
  AddMoment(
      trace, "end", [&](uint64_t row) { return rows[row].end_ns; }, &table);
  Add(&table, NotZero(
                  "records", [&](uint64_t row) { return rows[row].records; }, "null: not known"));
  return table;
}

Table Firings(const Trace& trace) {
  const auto& rows = trace.firings;
  Table table{"firings", "of triggers", rows.size(), {}};
  AddMoment(
      trace, "at", [&](uint64_t row) { return rows[row].at_ns; }, &table);
  Add(&table,
      HexId(
          "request", [&](uint64_t row) { return rows[row].request_id; }, "`requests.id`"),
      Text(trace, "cause", [&](uint64_t row) { return rows[row].cause; }),
      Text(trace, "detail", [&](uint64_t row) { return rows[row].detail; }));
  return table;
}

Table Norms(const Trace& trace) {
  const auto& rows = trace.norms;
  Table table{"norms", "what like things took before the window", rows.size(), {}};
  Add(&table, Id("norm_id"),
      Integer(
          "kind", [&](uint64_t row) { return static_cast<uint32_t>(rows[row].kind); },
          "NormKind of pitot/model/trace.h"),
      Name(
          "depth", [&](uint64_t row) { return rows[row].depth; }, base::DepthName),
      Text(trace, "name", [&](uint64_t row) { return rows[row].name; }),
      Integer("much", [&](uint64_t row) { return rows[row].much; }),
      Integer("count", [&](uint64_t row) { return rows[row].count; }),
      Integer("total_ns", [&](uint64_t row) { return rows[row].total_ns; }),
      Real("work", [&](uint64_t row) { return rows[row].work; }));
  return table;
}

Table NormParts(const Trace& trace) {
  const auto elements = Elements(trace.norms, [&](uint32_t row) { return trace.norms[row].parts.size(); });
  const auto at = [&trace, elements](uint64_t row) -> const model::NormPart& {
    return trace.norms[(*elements)[row].row].parts[(*elements)[row].place];
  };
  Table table{"norm_parts", "of their walks", elements->size(), {}};
  Add(&table, RowOf("norm_id", [elements](uint64_t row) { return (*elements)[row].row; }),
      Name(
          "blame", [at](uint64_t row) { return static_cast<analyze::Blame>(at(row).blame); }, analyze::BlameName),
      Integer("ns", [at](uint64_t row) { return at(row).ns; }));
  return table;
}

Table Attributes(const Trace& trace) {
  const auto& rows = trace.attributes;
  Table table{"attributes", "version, host, cost of recording, options", rows.size(), {}};
  Add(&table, Text(trace, "key", [&](uint64_t row) { return rows[row].key; }),
      Text(trace, "value", [&](uint64_t row) { return rows[row].value; }));
  return table;
}

}  // namespace

void AddRecordingTables(const Trace& trace, std::vector<Table>* tables) {
  tables->push_back(Counters(trace));
  tables->push_back(Samples(trace));
  tables->push_back(Overheads(trace));
  tables->push_back(Depths(trace, "gpu_depths", "how deep GPUs were recorded", trace.depths));
  tables->push_back(Depths(trace, "operator_depths", "`ops`: operators were recorded", trace.operator_depths));
  tables->push_back(Losses(trace));
  tables->push_back(GpuLosses(trace));
  tables->push_back(Firings(trace));
  tables->push_back(Norms(trace));
  tables->push_back(NormParts(trace));
  tables->push_back(Attributes(trace));
}

}  // namespace pitot::tables
