// SPDX-License-Identifier: Apache-2.0
#include <unordered_set>

#include "pitot/analyze/judgement.h"
#include "pitot/analyze/verdict.h"
#include "tables/tables.h"

namespace pitot::tables {
namespace {

using model::kNone;
using model::Trace;

struct VerdictRow {
  uint32_t request;
  analyze::VerdictKind kind;
  std::string sentence;
  int64_t latency_ns, typical_ns;
  uint32_t root;  // of its tree
};
struct CauseRow {
  uint32_t request;
  analyze::Cause cause;
  std::string evidence;
};
struct NodeRow {
  uint32_t request, node;
  analyze::VerdictNode data;
};
struct StepRow {
  uint32_t request;
  analyze::BlameSegment data;
};

// All findings about requests.
struct Judged {
  std::vector<VerdictRow> verdicts;
  std::vector<CauseRow> causes;
  std::vector<NodeRow> nodes;
  std::vector<StepRow> steps;
};

// Requests that fired; without any, the choice of `pitot why`.
std::vector<uint32_t> AskedRequests(const Trace& trace) {
  std::unordered_set<uint64_t> fired;
  for (const model::FiringRow& firing : trace.firings) fired.insert(firing.request_id);
  std::vector<uint32_t> asked;
  for (uint32_t row = 0; row < trace.requests.size(); ++row) {
    const model::RequestRow& request = trace.requests[row];
    if (fired.count(request.id) != 0 && request.begin_known && request.end_known) asked.push_back(row);
  }
  const uint32_t chosen = asked.empty() ? analyze::ChooseRequest(trace, 0) : kNone;
  if (chosen != kNone) asked.push_back(chosen);
  return asked;
}

Judged Judge(const Trace& trace) {
  Judged judged;
  analyze::Judgement judgement;
  for (const uint32_t request : AskedRequests(trace)) {
    if (!JudgeRequest(trace, request, nullptr, &judgement).ok()) continue;
    const analyze::Verdict& verdict = judgement.verdict;
    judged.verdicts.push_back({request, verdict.kind, VerdictSentence(judgement.index, judgement.blame, verdict),
                               verdict.latency_ns, verdict.typical_ns, verdict.root.node});
    for (const analyze::Cause& cause : verdict.causes)
      judged.causes.push_back({request, cause, EvidenceText(judgement.index, judgement.blame, cause)});
    for (uint32_t node = 0; node < verdict.tree.size(); ++node)
      judged.nodes.push_back({request, node, verdict.tree[node]});
    for (const analyze::BlameSegment& segment : judgement.blame.segments) judged.steps.push_back({request, segment});
  }
  return judged;
}

// A text of the row.
template <class Value> Column RowText(std::string name, Value value, std::string note = "") {
  return TextOf(
      std::move(name), [](uint64_t row) { return row; },
      [value = std::move(value)](uint64_t row, std::string*) { return std::string_view(value(row)); }, std::move(note));
}

// The culprit of at(row).
template <class At> void AddCulprit(Table* table, At at) {
  Add(table,
      RowOf(
          "by_request_id", [at](uint64_t row) { return at(row).request; }, "the culprit, as below"),
      RowOf("by_batch_id", [at](uint64_t row) { return at(row).batch; }),
      RowOf("by_thread_id", [at](uint64_t row) { return at(row).thread; }),
      RowOf("by_event_id", [at](uint64_t row) { return at(row).event; }),
      RowOf("by_gpu_work_id", [at](uint64_t row) { return at(row).gpu; }));
}

Table Verdicts(const Lazy<Judged>& judged) {
  const auto at = [judged](uint64_t row) -> const VerdictRow& { return judged->verdicts[row]; };
  Table table{"verdicts",
              "why requests were slow: those that fired, otherwise the one that `pitot why` takes",
              0,
              {},
              [judged] { return judged->verdicts.size(); }};
  Add(&table, RowOf("request_id", [at](uint64_t row) { return at(row).request; }),
      Name(
          "kind", [at](uint64_t row) { return at(row).kind; }, analyze::VerdictKindName),
      RowText("sentence", [at](uint64_t row) -> const std::string& { return at(row).sentence; }),
      Integer("latency_ns", [at](uint64_t row) { return at(row).latency_ns; }),
      Integer("typical_ns", [at](uint64_t row) { return at(row).typical_ns; }),
      RowOf(
          "root_node", [at](uint64_t row) { return at(row).root; }, "`verdict_nodes.node`"));
  return table;
}

Table Causes(const Lazy<Judged>& judged) {
  const auto at = [judged](uint64_t row) -> const CauseRow& { return judged->causes[row]; };
  Table table{"causes", "of verdicts, the largest first", 0, {}, [judged] { return judged->causes.size(); }};
  Add(&table, RowOf("request_id", [at](uint64_t row) { return at(row).request; }),
      Name(
          "blame", [at](uint64_t row) { return at(row).cause.blame; }, analyze::BlameName),
      Integer("blame_ns", [at](uint64_t row) { return at(row).cause.blame_ns; }),
      Integer("normal_ns", [at](uint64_t row) { return at(row).cause.normal_ns; }),
      Integer("lost_ns", [at](uint64_t row) { return at(row).cause.lost_ns; }),
      Integer("saving_ns", [at](uint64_t row) { return at(row).cause.saving_ns; }),
      Real("confidence", [at](uint64_t row) { return at(row).cause.confidence; }),
      RowText("evidence", [at](uint64_t row) -> const std::string& { return at(row).evidence; }),
      RowText("advice", [at](uint64_t row) { return at(row).cause.advice.text; }));
  AddCulprit(&table, [at](uint64_t row) -> const analyze::Culprit& { return at(row).cause.by; });
  return table;
}

Table Nodes(const Lazy<Judged>& judged) {
  const auto at = [judged](uint64_t row) -> const analyze::VerdictNode& { return judged->nodes[row].data; };
  Table table{"verdict_nodes", "the trees of blame", 0, {}, [judged] { return judged->nodes.size(); }};
  Add(&table, RowOf("request_id", [judged](uint64_t row) { return judged->nodes[row].request; }),
      Integer(
          "node", [judged](uint64_t row) { return judged->nodes[row].node; }, "its number in the tree"),
      RowOf("parent_node", [at](uint64_t row) { return at(row).parent; }),
      Name(
          "kind", [at](uint64_t row) { return at(row).kind; }, analyze::NodeKindName),
      Name(
          "blame", [at](uint64_t row) { return at(row).blame; }, analyze::BlameName),
      Integer("ns", [at](uint64_t row) { return at(row).ns; }),
      Integer("whole_ns", [at](uint64_t row) { return at(row).whole_ns; }),
      Duration(
          "normal_ns", [at](uint64_t row) { return at(row).normal_ns; }, "null: not known"),
      Integer("excess_ns", [at](uint64_t row) { return at(row).excess_ns; }),
      NotZero("count", [at](uint64_t row) { return at(row).count; }),
      Bool("is_explained", [at](uint64_t row) { return at(row).is_explained; }));
  AddCulprit(&table, [at](uint64_t row) -> const analyze::Culprit& { return at(row).by; });
  return table;
}

Table Steps(const Trace& trace, const Lazy<Judged>& judged) {
  const auto at = [judged](uint64_t row) -> const analyze::BlameSegment& { return judged->steps[row].data; };
  Table table{"blame", "the time of these requests, step by step", 0, {}, [judged] { return judged->steps.size(); }};
  Add(&table, RowOf("request_id", [judged](uint64_t row) { return judged->steps[row].request; }),
      Name(
          "blame", [at](uint64_t row) { return at(row).blame; }, analyze::BlameName));
  AddMoment(
      trace, "begin", [at](uint64_t row) { return at(row).begin_ns; }, &table);
  Add(&table, Integer("duration_ns", [at](uint64_t row) { return at(row).end_ns - at(row).begin_ns; }),
      RowOf("thread_id", [at](uint64_t row) { return at(row).thread; }),
      RowOf("event_id", [at](uint64_t row) { return at(row).event; }),
      RowOf("call_id", [at](uint64_t row) { return at(row).call; }),
      RowOf("gpu_work_id", [at](uint64_t row) { return at(row).gpu; }),
      RowOf("batch_id", [at](uint64_t row) { return at(row).batch; }));
  AddCulprit(&table, [at](uint64_t row) -> const analyze::Culprit& { return at(row).by; });
  return table;
}

}  // namespace

void AddVerdictTables(const Trace& trace, std::vector<Table>* tables) {
  const Lazy<Judged> judged([&trace] { return Judge(trace); });
  tables->push_back(Verdicts(judged));
  tables->push_back(Causes(judged));
  tables->push_back(Nodes(judged));
  tables->push_back(Steps(trace, judged));
}

}  // namespace pitot::tables
