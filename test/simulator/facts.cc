// SPDX-License-Identifier: Apache-2.0
#include "simulator/facts.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <unordered_map>

namespace simulator {
namespace {

using pitot::ArgType;
using pitot::SiteKind;
using pitot::model::kNone;
using pitot::model::kOpen;
using pitot::model::StringId;
using pitot::model::Trace;

// Numbers and words, separated by spaces.
template <class... Parts> std::string Line(const char* what, const Parts&... parts) {
  std::string line = what;
  const auto add = [&line](const auto& part) {
    line += ' ';
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(part)>>)
      line += std::to_string(part);
    else
      line += part;
  };
  (add(parts), ...);
  return line;
}

class Collector {
 public:
  void Add(std::string text, std::vector<Fact::Record> records = {}) {
    facts_.push_back({std::move(text), std::move(records)});
  }
  std::vector<Fact> Sorted() {
    std::sort(facts_.begin(), facts_.end(), [](const Fact& a, const Fact& b) { return a.text < b.text; });
    return std::move(facts_);
  }

 private:
  std::vector<Fact> facts_;
};

std::string EventLine(uint32_t thread, SiteKind kind, std::string_view name, int64_t begin_ns, int64_t end_ns) {
  return Line("event on", thread, static_cast<int>(kind), name, begin_ns, end_ns);
}
// The details recorded at a request's end, or while it is open.
std::string DetailLine(int64_t deadline_ns, std::string_view label, std::string_view size_name, double size,
                       uint32_t bucket) {
  return Line("deadline", deadline_ns, "label", label, "size", size_name, size, "bucket", bucket);
}

struct Tokens {
  uint32_t count = 0;
  int64_t first_ns = 0, last_ns = 0, max_gap_ns = 0;
};

}  // namespace

std::vector<Fact> Facts(const Truth& truth) {
  Collector facts;
  std::unordered_map<uint64_t, Tokens> tokens;
  for (const TrueToken& token : truth.tokens) {
    facts.Add(Line("tokens", token.request, token.thread, token.at_ns, token.count), {{token.thread, token.at_ns}});
    Tokens& of = tokens[token.request];
    if (of.count == 0)
      of.first_ns = token.at_ns;
    else
      of.max_gap_ns = std::max(of.max_gap_ns, token.at_ns - of.last_ns);
    of.last_ns = token.at_ns;
    of.count += token.count;
  }
  for (const TrueRequest& request : truth.requests) {
    const Fact::Record begin{request.begin_thread, request.accepted_ns}, end{request.end_thread, request.end_ns};
    facts.Add(Line("request", request.id, request.route, "began", request.begin_ns, "child of", request.parent_id),
              {begin});
    facts.Add(Line("request", request.id, "trace", request.trace_id_high, request.trace_id_low), {begin});
    facts.Add(Line("request", request.id, "began on", request.begin_thread), {begin});
    const bool is_open = request.end_ns == kOpen;
    const std::vector<Fact::Record> records = is_open ? std::vector<Fact::Record>{} : std::vector<Fact::Record>{end};
    if (!is_open)
      facts.Add(Line("request", request.id, pitot::OutcomeName(request.outcome), request.end_ns, request.end_thread),
                records);
    const Tokens& of = tokens[request.id];
    if (is_open && request.label.empty()) continue;  // a child: the trace cannot tell that it has no details
    facts.Add(Line("request", request.id, "tokens", of.count, of.count != 0 ? of.first_ns - request.begin_ns : 0,
                   of.max_gap_ns),
              records);
    const uint32_t bucket =
        request.size_name.empty() ? 0 : static_cast<uint32_t>(std::bit_width(static_cast<uint64_t>(request.size)));
    facts.Add(Line("request", request.id,
                   DetailLine(request.deadline_ns, request.label, request.size_name, request.size, bucket)),
              records);
    for (size_t i = 0; i < request.stages.size(); ++i) {
      const int64_t stage_end_ns = i + 1 < request.stages.size() ? request.stages[i + 1].second : request.end_ns;
      facts.Add(
          Line("request", request.id, "stage", i, request.stages[i].first, request.stages[i].second, stage_end_ns),
          records);
    }
  }
  for (const TrueBatch& batch : truth.batches) {
    facts.Add(Line("batch", batch.id, batch.executor, "on", batch.thread, batch.begin_ns),
              {{batch.thread, batch.begin_ns}});
    if (batch.end_ns != kOpen) {
      const int64_t submitted_ns = batch.submitted_ns != 0 ? batch.submitted_ns - batch.begin_ns : 0;
      facts.Add(Line("batch", batch.id, "ended", batch.end_ns, pitot::BatchCloseName(batch.close), submitted_ns),
                {{batch.thread, batch.end_ns}});
    }
    for (const TrueMember& member : batch.members) {
      facts.Add(Line("batch", batch.id, "joined by", member.request, member.join_ns), {{batch.thread, member.join_ns}});
      // A leaving member is known only if its join is.
      if (member.leave_ns != 0)
        facts.Add(Line("batch", batch.id, "left by", member.request, member.leave_ns),
                  {{batch.thread, member.join_ns}});
    }
  }
  for (const TrueHandoff& handoff : truth.handoffs) {
    facts.Add(Line("enqueued", handoff.request, handoff.queue, "from", handoff.from_thread, handoff.enqueue_ns),
              {{handoff.from_thread, handoff.enqueue_ns}});
    if (handoff.to_thread != 0)
      facts.Add(Line("taken", handoff.request, handoff.queue, handoff.enqueue_ns, "by", handoff.to_thread,
                     handoff.take_ns, handoff.batch),
                {{handoff.to_thread, handoff.take_ns}});
  }
  for (const TrueEvent& event : truth.events) {
    std::string text = EventLine(event.thread, event.kind, event.name, event.begin_ns, event.end_ns);
    if (event.kind == SiteKind::kCounter) text += Line(" value", event.value);
    if (event.kind == SiteKind::kWait)
      text += Line(" for", pitot::WaitKindName(event.wait), event.owner.thread, event.owner.request);
    facts.Add(text, event.end_ns == kOpen ? std::vector<Fact::Record>{}
                                          : std::vector<Fact::Record>{{event.thread, event.end_ns}});
  }
  for (const TrueAsync& async : truth.asyncs) {
    facts.Add(Line("async", async.request, async.begin_thread, async.begin_ns), {{async.begin_thread, async.begin_ns}});
    if (async.end_ns != kOpen)
      facts.Add(Line("async", async.request, async.begin_thread, async.begin_ns, "to", async.end_thread, async.end_ns),
                {{async.begin_thread, async.begin_ns}, {async.end_thread, async.end_ns}});
  }
  return facts.Sorted();
}

namespace {

// A trace's rows in the words of the truth.
class Reader {
 public:
  explicit Reader(const Trace& trace) : trace_(trace) {}
  std::string_view Text(StringId id) const { return trace_.strings[id]; }
  uint32_t Number(uint32_t thread) const { return thread != kNone ? trace_.threads[thread].number : 0; }
  uint64_t Request(uint32_t row) const { return row != kNone ? trace_.requests[row].id : 0; }
  uint64_t Batch(uint32_t row) const { return row != kNone ? trace_.batches[row].id : 0; }
  static int64_t End(int64_t begin_ns, int64_t duration_ns) {
    return duration_ns == kOpen ? kOpen : begin_ns + duration_ns;
  }

  std::string Event(uint32_t event) const {
    const pitot::model::SiteRow& site = trace_.sites[trace_.events.site[event]];
    const uint64_t* args = trace_.events.args[event] != kNone ? &trace_.arg_values[trace_.events.args[event]] : nullptr;
    std::string_view name = trace_.EventName(event);
    if (site.kind == SiteKind::kWait && args != nullptr) name = Text(static_cast<StringId>(args[1]));
    std::string text = EventLine(Number(trace_.events.thread[event]), site.kind, name, trace_.events.begin_ns[event],
                                 End(trace_.events.begin_ns[event], trace_.events.duration_ns[event]));
    if (site.kind == SiteKind::kCounter) text += Line(" value", args[0]);
    if (site.kind == SiteKind::kWait && args != nullptr)
      text += Line(" for", pitot::WaitKindName(static_cast<pitot::WaitKind>(args[0])), static_cast<uint32_t>(args[2]),
                   args[3]);
    return text;
  }

 private:
  const Trace& trace_;
};

}  // namespace

std::vector<Fact> Facts(const Trace& trace) {
  Collector facts;
  const Reader read(trace);
  for (const pitot::model::TokenRow& token : trace.tokens)
    facts.Add(Line("tokens", read.Request(token.request), read.Number(token.thread), token.at_ns, token.count));
  for (const pitot::model::RequestRow& request : trace.requests) {
    if (!request.begin_known) continue;
    const int64_t end_ns = read.End(request.begin_ns, request.duration_ns);
    facts.Add(Line("request", request.id, read.Text(request.route), "began", request.begin_ns, "child of",
                   request.parent_id));
    facts.Add(Line("request", request.id, "trace", request.trace_id_high, request.trace_id_low));
    if (request.begin_thread != kNone)
      facts.Add(Line("request", request.id, "began on", read.Number(request.begin_thread)));
    if (request.end_known)
      facts.Add(
          Line("request", request.id, pitot::OutcomeName(request.outcome), end_ns, read.Number(request.end_thread)));
    // A request without an end that is not open: its end was lost, with the rest of it.
    if (!request.end_known && request.labels.empty()) continue;
    facts.Add(
        Line("request", request.id, "tokens", request.output_tokens, request.first_token_ns, request.max_token_gap_ns));
    const bool has_size = !request.sizes.empty();
    facts.Add(Line("request", request.id,
                   DetailLine(request.deadline_ns, request.labels.empty() ? "" : read.Text(request.labels[0].value),
                              has_size ? read.Text(request.sizes[0].name) : "", has_size ? request.sizes[0].value : 0,
                              request.size_bucket)));
    for (size_t i = 0; i < request.stages.size(); ++i) {
      const pitot::model::Stage& stage = request.stages[i];
      facts.Add(Line("request", request.id, "stage", i, read.Text(stage.name), stage.begin_ns,
                     read.End(stage.begin_ns, stage.duration_ns)));
    }
  }
  for (const pitot::model::BatchRow& batch : trace.batches) {
    const bool begin_known = batch.thread != kNone;
    if (begin_known)
      facts.Add(Line("batch", batch.id, read.Text(batch.executor), "on", read.Number(batch.thread), batch.begin_ns));
    if (batch.duration_ns != kOpen)
      facts.Add(Line("batch", batch.id, "ended", batch.begin_ns + batch.duration_ns,
                     pitot::BatchCloseName(static_cast<pitot::BatchClose>(batch.close)), batch.submitted_ns));
    for (uint32_t m = batch.first_member; m < batch.first_member + batch.member_count; ++m) {
      const pitot::model::MemberRow& member = trace.members[m];
      facts.Add(Line("batch", batch.id, "joined by", read.Request(member.request), member.join_ns));
      if (member.leave_ns != 0)
        facts.Add(Line("batch", batch.id, "left by", read.Request(member.request), member.leave_ns));
    }
  }
  for (const pitot::model::HandoffRow& handoff : trace.handoffs) {
    const uint64_t request = read.Request(handoff.request);
    facts.Add(Line("enqueued", request, read.Text(handoff.queue), "from", read.Number(handoff.from_thread),
                   handoff.enqueue_ns));
    if (handoff.take_ns != 0)
      facts.Add(Line("taken", request, read.Text(handoff.queue), handoff.enqueue_ns, "by",
                     read.Number(handoff.to_thread), handoff.take_ns, read.Batch(handoff.batch)));
  }
  for (uint32_t event = 0; event < trace.events.size(); ++event) facts.Add(read.Event(event));
  for (const pitot::model::AsyncRow& async : trace.asyncs) {
    const uint64_t request = read.Request(async.request);
    facts.Add(Line("async", request, read.Number(async.begin_thread), async.begin_ns));
    if (async.duration_ns != kOpen)
      facts.Add(Line("async", request, read.Number(async.begin_thread), async.begin_ns, "to",
                     read.Number(async.end_thread), async.begin_ns + async.duration_ns));
  }
  return facts.Sorted();
}

namespace {
std::string ContextLine(uint32_t thread, int64_t begin_ns, int64_t end_ns, uint64_t request, uint64_t batch) {
  return Line("context of", thread, begin_ns, end_ns, request, batch);
}
}  // namespace

std::vector<Fact> Contexts(const Truth& truth) {
  Collector facts;
  std::unordered_map<uint64_t, int64_t> ends;
  for (const TrueRequest& request : truth.requests) ends[request.id] = request.end_ns;
  for (const TrueEvent& event : truth.events) {
    // A thread's context does not outlive the request, although only the thread itself changes it.
    const auto end = ends.find(event.request);
    const bool is_over = end != ends.end() && end->second != kOpen && end->second < event.begin_ns;
    facts.Add(ContextLine(event.thread, event.begin_ns, event.end_ns, is_over ? 0 : event.request, event.batch));
  }
  return facts.Sorted();
}

std::vector<Fact> PossibleContexts(const Truth& truth) {
  Collector facts;
  for (const TrueEvent& event : truth.events) {
    for (const uint64_t request : {uint64_t{0}, event.request}) {
      for (const uint64_t batch : {uint64_t{0}, event.batch})
        facts.Add(ContextLine(event.thread, event.begin_ns, event.end_ns, request, batch));
    }
  }
  return facts.Sorted();
}

std::vector<Fact> Contexts(const Trace& trace) {
  Collector facts;
  const Reader read(trace);
  for (uint32_t event = 0; event < trace.events.size(); ++event) {
    facts.Add(ContextLine(read.Number(trace.events.thread[event]), trace.events.begin_ns[event],
                          read.End(trace.events.begin_ns[event], trace.events.duration_ns[event]),
                          read.Request(trace.events.request[event]), read.Batch(trace.events.batch[event])));
  }
  return facts.Sorted();
}

std::vector<Fact> Missing(const std::vector<Fact>& from, const std::vector<Fact>& in) {
  std::vector<Fact> missing;
  std::set_difference(from.begin(), from.end(), in.begin(), in.end(), std::back_inserter(missing),
                      [](const Fact& a, const Fact& b) { return a.text < b.text; });
  return missing;
}

std::string Difference(const std::vector<Fact>& truth, const std::vector<Fact>& trace) {
  std::string text;
  const auto add = [&text](const char* what, const std::vector<Fact>& facts) {
    for (size_t i = 0; i < facts.size() && i < 5; ++i) text += what + facts[i].text + "\n";
  };
  add("only in the truth: ", Missing(truth, trace));
  add("only in the trace: ", Missing(trace, truth));
  return text;
}

}  // namespace simulator
