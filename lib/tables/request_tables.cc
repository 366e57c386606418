// SPDX-License-Identifier: Apache-2.0
#include "model/request_text.h"
#include "pitot/model/index.h"
#include "pitot/request.h"
#include "tables/tables.h"

namespace pitot::tables {
namespace {

using model::Trace;

Table Requests(const Trace& trace, const Lazy<model::GpuTime>& gpu_time) {
  Table table{"requests", "", trace.requests.size(), {}};
  const auto& rows = trace.requests;
  Add(&table, Id("request_id"),
      HexId(
          "id", [&](uint64_t row) { return rows[row].id; }, "as `pitot why --request` takes"),
      Text(
          trace, "host_id", [&](uint64_t row) { return rows[row].host_id; }, "the host's own id"),
      HexId(
          "parent", [&](uint64_t row) { return rows[row].parent_id; }, "the `id` of the request around it"),
      HexId("trace_id_high", [&](uint64_t row) { return rows[row].trace_id_high; }),
      HexId("trace_id_low", [&](uint64_t row) { return rows[row].trace_id_low; }),
      Text(trace, "route", [&](uint64_t row) { return rows[row].route; }),
      Integer("size_bucket", [&](uint64_t row) { return rows[row].size_bucket; }));
  AddMoment(
      trace, "begin", [&](uint64_t row) { return rows[row].begin_ns; }, &table);
  Add(&table, Duration("duration_ns", [&](uint64_t row) { return rows[row].duration_ns; }),
      Bool("begin_known", [&](uint64_t row) { return rows[row].begin_known; }),
      Bool("end_known", [&](uint64_t row) { return rows[row].end_known; }),
      TextOf(
          "outcome", [](uint64_t row) { return row; },
          [&](uint64_t row, std::string*) { return std::string_view(model::OutcomeText(rows[row])); }),
      Text(trace, "reason", [&](uint64_t row) { return rows[row].reason; }),
      RowOf("begin_thread_id", [&](uint64_t row) { return rows[row].begin_thread; }),
      RowOf("end_thread_id", [&](uint64_t row) { return rows[row].end_thread; }),
      NotZero(
          "deadline_ns", [&](uint64_t row) { return rows[row].deadline_ns; }, "after begin"),
      Integer("output_tokens", [&](uint64_t row) { return rows[row].output_tokens; }),
      NotZero(
          "first_token_ns", [&](uint64_t row) { return rows[row].first_token_ns; }, "after begin"),
      NotZero("max_token_gap_ns", [&](uint64_t row) { return rows[row].max_token_gap_ns; }),
      Integer(
          "gpu_ns",
          [&trace, gpu_time](uint64_t row) -> std::optional<int64_t> {
            if (trace.gpu.size() == 0) return std::nullopt;
            return gpu_time->Request(static_cast<uint32_t>(row));
          },
          "with its shares of batches, as `pitot top --by request`; null: the trace has no GPU work"));
  return table;
}

Table Stages(const Trace& trace) {
  const auto elements = Elements(trace.requests, [&](uint32_t row) { return trace.requests[row].stages.size(); });
  const auto at = [&trace, elements](uint64_t row) -> const model::Stage& {
    return trace.requests[(*elements)[row].row].stages[(*elements)[row].place];
  };
  Table table{"stages", "of requests, in order", elements->size(), {}};
  Add(&table, RowOf("request_id", [elements](uint64_t row) { return (*elements)[row].row; }),
      Text(trace, "name", [at](uint64_t row) { return at(row).name; }));
  AddMoment(
      trace, "begin", [at](uint64_t row) { return at(row).begin_ns; }, &table);
  Add(&table, Duration("duration_ns", [at](uint64_t row) { return at(row).duration_ns; }));
  return table;
}

Table Labels(const Trace& trace) {
  const auto elements = Elements(trace.requests, [&](uint32_t row) { return trace.requests[row].labels.size(); });
  const auto at = [&trace, elements](uint64_t row) -> const model::Label& {
    return trace.requests[(*elements)[row].row].labels[(*elements)[row].place];
  };
  Table table{"labels", "of requests", elements->size(), {}};
  Add(&table, RowOf("request_id", [elements](uint64_t row) { return (*elements)[row].row; }),
      Text(trace, "key", [at](uint64_t row) { return at(row).key; }),
      Text(trace, "value", [at](uint64_t row) { return at(row).value; }));
  return table;
}

Table Sizes(const Trace& trace) {
  const auto elements = Elements(trace.requests, [&](uint32_t row) { return trace.requests[row].sizes.size(); });
  const auto at = [&trace, elements](uint64_t row) -> const model::Size& {
    return trace.requests[(*elements)[row].row].sizes[(*elements)[row].place];
  };
  Table table{"sizes", "of requests", elements->size(), {}};
  Add(&table, RowOf("request_id", [elements](uint64_t row) { return (*elements)[row].row; }),
      Text(trace, "name", [at](uint64_t row) { return at(row).name; }),
      Real("value", [at](uint64_t row) { return at(row).value; }));
  return table;
}

Table Batches(const Trace& trace, const Lazy<model::GpuTime>& gpu_time) {
  const auto& rows = trace.batches;
  Table table{"batches", "", rows.size(), {}};
  Add(&table, Id("batch_id"), HexId("id", [&](uint64_t row) { return rows[row].id; }),
      Text(trace, "executor", [&](uint64_t row) { return rows[row].executor; }),
      RowOf("thread_id", [&](uint64_t row) { return rows[row].thread; }));
  AddMoment(
      trace, "begin", [&](uint64_t row) { return rows[row].begin_ns; }, &table);
  Add(&table, Duration("duration_ns", [&](uint64_t row) { return rows[row].duration_ns; }),
      NotZero(
          "submitted_ns", [&](uint64_t row) { return rows[row].submitted_ns; }, "after begin"),
      Name(
          "closed_by", [&](uint64_t row) { return static_cast<BatchClose>(rows[row].close); }, BatchCloseName),
      Integer("members", [&](uint64_t row) { return rows[row].member_count; }),
      Integer(
          "launches", [&](uint64_t row) { return rows[row].launches; }, "counted without a record of each"),
      Integer("launch_ns", [&](uint64_t row) { return rows[row].launch_ns; }),
      Text(trace, "work_unit", [&](uint64_t row) { return rows[row].work_unit; }),
      Integer("gpu_ns", [&trace, gpu_time](uint64_t row) -> std::optional<int64_t> {
        if (trace.gpu.size() == 0) return std::nullopt;
        return gpu_time->Batch(static_cast<uint32_t>(row));
      }));
  return table;
}

Table Members(const Trace& trace) {
  const auto& rows = trace.members;
  Table table{"members", "requests in batches", rows.size(), {}};
  Add(&table, RowOf("batch_id", [&](uint64_t row) { return rows[row].batch; }),
      RowOf("request_id", [&](uint64_t row) { return rows[row].request; }));
  AddMoment(
      trace, "join", [&](uint64_t row) { return rows[row].join_ns; }, &table);
  AddMoment(
      trace, "leave", [&](uint64_t row) { return rows[row].leave_ns; }, &table, true);
  Add(&table, Real(
                  "work", [&](uint64_t row) { return rows[row].work; }, "0: not known"));
  return table;
}

Table Handoffs(const Trace& trace) {
  const auto& rows = trace.handoffs;
  Table table{"handoffs", "stays of requests in queues", rows.size(), {}};
  Add(&table, RowOf("request_id", [&](uint64_t row) { return rows[row].request; }),
      Text(trace, "queue", [&](uint64_t row) { return rows[row].queue; }),
      RowOf("from_thread_id", [&](uint64_t row) { return rows[row].from_thread; }),
      RowOf("to_thread_id", [&](uint64_t row) { return rows[row].to_thread; }));
  AddMoment(
      trace, "enqueue", [&](uint64_t row) { return rows[row].enqueue_ns; }, &table);
  AddMoment(
      trace, "take", [&](uint64_t row) { return rows[row].take_ns; }, &table, true);
  Add(&table, RowOf("batch_id", [&](uint64_t row) { return rows[row].batch; }));
  return table;
}

Table Asyncs(const Trace& trace) {
  const auto& rows = trace.asyncs;
  Table table{"asyncs", "parts of requests that belong to no thread", rows.size(), {}};
  Add(&table, Text(trace, "name", [&](uint64_t row) { return trace.sites[rows[row].site].name; }),
      RowOf("site_id", [&](uint64_t row) { return rows[row].site; }),
      RowOf("request_id", [&](uint64_t row) { return rows[row].request; }),
      RowOf("begin_thread_id", [&](uint64_t row) { return rows[row].begin_thread; }),
      RowOf("end_thread_id", [&](uint64_t row) { return rows[row].end_thread; }));
  AddMoment(
      trace, "begin", [&](uint64_t row) { return rows[row].begin_ns; }, &table);
  Add(&table, Duration("duration_ns", [&](uint64_t row) { return rows[row].duration_ns; }));
  return table;
}

Table Tokens(const Trace& trace) {
  const auto& rows = trace.tokens;
  Table table{"tokens", "output tokens of requests", rows.size(), {}};
  Add(&table, RowOf("request_id", [&](uint64_t row) { return rows[row].request; }),
      RowOf("thread_id", [&](uint64_t row) { return rows[row].thread; }));
  AddMoment(
      trace, "at", [&](uint64_t row) { return rows[row].at_ns; }, &table);
  Add(&table, Integer("count", [&](uint64_t row) { return rows[row].count; }));
  return table;
}

}  // namespace

void AddRequestTables(const Trace& trace, std::vector<Table>* tables) {
  const Lazy<model::GpuTime> gpu_time([&trace] { return model::GpuTime(trace); });
  tables->push_back(Requests(trace, gpu_time));
  tables->push_back(Stages(trace));
  tables->push_back(Labels(trace));
  tables->push_back(Sizes(trace));
  tables->push_back(Batches(trace, gpu_time));
  tables->push_back(Members(trace));
  tables->push_back(Handoffs(trace));
  tables->push_back(Asyncs(trace));
  tables->push_back(Tokens(trace));
}

}  // namespace pitot::tables
