// SPDX-License-Identifier: Apache-2.0
//
// Random programs of virtual threads, compared with a straightforward model of their expected trace: every event,
// request, stage, batch, member, handoff, asynchronous scope and token, exactly.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "fakes/recording.h"
#include "fakes/scale.h"
#include "fakes/trace_text.h"
#include "fakes/virtual_clock.h"
#include "pitot/request.h"
#include "pitot/trace.h"

namespace {

using pitot::Adopt;
using pitot::Batch;
using pitot::Outcome;
using pitot::Request;
using pitot::Token;
using pitot::model::kNone;
using pitot::model::kOpen;
using pitot::model::Trace;

using Id = pitot::detail::ArgList<uint64_t>;
using Scope = pitot::detail::Scope<pitot::detail::Keep::kOpen, Id>;
using Leaf = pitot::detail::Scope<pitot::detail::Keep::kLeaf, Id>;
constexpr pitot::Site SiteOf(pitot::SiteKind kind, const char* name) {
  return {pitot::kSiteMagic, kind, 1, 0, 1, Id::Types(), name, "", "", "\"\", id"};
}
constexpr pitot::Site kScopeSite = SiteOf(pitot::SiteKind::kScope, "scope");
constexpr pitot::Site kLeafSite = SiteOf(pitot::SiteKind::kLeaf, "leaf");
constexpr pitot::Site kInstantSite = SiteOf(pitot::SiteKind::kInstant, "instant");

// ---- The expected trace. -------------------------------------------------------------------------------------------

struct EventModel {
  std::string name;
  uint32_t thread;
  int64_t begin, duration;
  uint64_t request, batch;  // the thread's context when it ended
  std::string id;           // "" while open: arguments are not known yet
  auto operator<=>(const EventModel&) const = default;
};
struct StageModel {
  std::string name;
  int64_t begin, duration;
  auto operator<=>(const StageModel&) const = default;
};
struct RequestModel {
  uint64_t id = 0, parent = 0;
  std::string host_id, route;
  int64_t begin = 0, duration = kOpen;
  Outcome outcome = Outcome::kOk;
  std::string reason;
  uint32_t begin_thread = kNone, end_thread = kNone;
  uint32_t tokens = 0;
  int64_t first_token = 0, max_gap = 0;
  std::vector<std::string> labels;
  std::vector<double> sizes;
  std::vector<StageModel> stages;
  auto operator<=>(const RequestModel&) const = default;
};
struct BatchModel {
  uint64_t id = 0;
  std::string executor;
  uint32_t thread = 0;
  int64_t begin = 0, duration = kOpen, submitted = 0;
  uint8_t close = 0;
  auto operator<=>(const BatchModel&) const = default;
};
using MemberModel = std::tuple<uint64_t, uint64_t, int64_t, int64_t>;  // batch, request, join, leave
struct HandoffModel {
  uint64_t request;
  std::string queue;
  uint32_t from, to;
  int64_t enqueue, take;
  uint64_t batch;
  auto operator<=>(const HandoffModel&) const = default;
};
using AsyncModel = std::tuple<uint64_t, uint32_t, uint32_t, int64_t, int64_t>;  // request, threads, begin, duration
using TokenModel = std::tuple<uint64_t, uint32_t, int64_t, uint32_t>;           // request, thread, at, count

struct Model {
  std::vector<EventModel> events;
  std::map<uint64_t, RequestModel> requests;
  std::map<uint64_t, BatchModel> batches;
  std::vector<MemberModel> members;
  std::vector<HandoffModel> handoffs;
  std::vector<AsyncModel> asyncs;
  std::vector<TokenModel> tokens;

  // Puts the rows without an id into one order.
  void Sort() {
    std::sort(events.begin(), events.end());
    std::sort(members.begin(), members.end());
    std::sort(handoffs.begin(), handoffs.end());
    std::sort(asyncs.begin(), asyncs.end());
    std::sort(tokens.begin(), tokens.end());
  }
};

// ---- The program. --------------------------------------------------------------------------------------------------

struct Frame {  // an open scope or an adoption
  std::unique_ptr<Scope> scope;
  std::unique_ptr<Leaf> leaf;
  std::unique_ptr<Adopt> adopt;
  bool adopts_nothing = false;  // the request had ended
  int64_t begin = 0;
  uint64_t id = 0;
  uint64_t request_before = 0;
};
struct Thread {
  std::vector<Frame> frames;
  uint64_t request = 0, batch = 0;  // context
  std::unique_ptr<Batch> open_batch;
};
struct OpenRequest {
  std::unique_ptr<Request> handle;
  Token token;
  int64_t last_token = 0;
  uint64_t context_after = 0;
};
struct Enqueued {
  Token token;
  std::string queue;
  uint32_t from;
  size_t row;  // of handoffs, until it is taken
  bool taken = false;
};
struct OpenAsync {
  std::unique_ptr<pitot::AsyncScope> scope;
  size_t row;
};

class Program {
 public:
  explicit Program(uint32_t seed) : random_(seed) {
    threads_.resize(1 + Random(4));
    for (size_t i = 0; i < threads_.size(); ++i) {
      virtual_.Become(i);
      numbers_.push_back(virtual_.ring(i)->number);
    }
  }
  void Run(int steps) {
    for (int i = 0; i < steps; ++i) Step();
  }
  const fakes::Recording& recording() const { return recording_; }
  int64_t now() const { return static_cast<int64_t>(clock_.now_ns()); }
  void Wait() { clock_.Advance(1); }

  // The model as it stands now, including open scopes.
  Model Expected() const {
    Model model = model_;
    for (uint32_t t = 0; t < threads_.size(); ++t) {
      for (const Frame& frame : threads_[t].frames) {
        if (frame.scope != nullptr)
          model.events.push_back({"scope", t, frame.begin, kOpen, threads_[t].request, threads_[t].batch, ""});
      }
    }
    // A context counts only for events that overlap its request, and only if the request exists.
    for (EventModel& event : model.events) {
      const auto at = model.requests.find(event.request);
      const int64_t end = event.duration == kOpen ? now() : event.begin + event.duration;
      if (at == model.requests.end()) {
        event.request = 0;
      } else {
        const RequestModel& r = at->second;
        const int64_t request_end = r.duration == kOpen ? now() : r.begin + r.duration;
        if (event.begin > request_end || end < r.begin) event.request = 0;
      }
    }
    for (auto& [id, request] : model.requests) {
      for (size_t i = 0; i < request.stages.size(); ++i) {
        const bool last = i + 1 == request.stages.size();
        const int64_t end = !last ? request.stages[i + 1].begin : request.begin + request.duration;
        request.stages[i].duration = last && request.duration == kOpen ? kOpen : end - request.stages[i].begin;
      }
    }
    model.Sort();
    return model;
  }

 private:
  uint32_t Random(uint32_t below) { return static_cast<uint32_t>(random_() % below); }
  template <class T> T* Any(std::vector<T>& of) {
    return of.empty() ? nullptr : &of[Random(static_cast<uint32_t>(of.size()))];
  }

  void Step() {
    clock_.Advance(1 + Random(100));
    at_ = Random(static_cast<uint32_t>(threads_.size()));
    virtual_.Become(at_);
    switch (Random(16)) {
      case 0:
      case 1:
        return OpenScope();
      case 2:
      case 3:
        return CloseFrame();
      case 4:
        return Instant();
      case 5:
      case 6:
        return BeginRequest();
      case 7:
        return FinishRequest();
      case 8:
        return Detail();
      case 9:
        return Stage();
      case 10:
        return EmitTokens();
      case 11:
        return Enqueue();
      case 12:
        return AdoptToken();
      case 13:
        return BeginOrFinishBatch();
      case 14:
        return JoinOrLeave();
      default:
        return Async();
    }
  }
  Thread& thread() { return threads_[at_]; }

  void OpenScope() {
    Frame frame;
    frame.begin = now();
    frame.id = next_id_++;
    if (Random(3) != 0)
      frame.scope = std::make_unique<Scope>(&kScopeSite, "", frame.id);
    else
      frame.leaf = std::make_unique<Leaf>(&kLeafSite, "", frame.id);
    thread().frames.push_back(std::move(frame));
  }
  void CloseFrame() {
    Thread& t = thread();
    if (t.frames.empty()) return;
    const Frame& frame = t.frames.back();
    if (frame.adopt != nullptr) {
      if (!frame.adopts_nothing) t.request = frame.request_before;
    } else {
      model_.events.push_back({frame.scope != nullptr ? "scope" : "leaf", at_, frame.begin, now() - frame.begin,
                               t.request, t.batch, std::to_string(frame.id)});
    }
    t.frames.pop_back();
  }
  void Instant() {
    const uint64_t id = next_id_++;
    pitot::detail::EmitNow(&kInstantSite, "", id);
    model_.events.push_back({"instant", at_, now(), 0, thread().request, thread().batch, std::to_string(id)});
  }

  void BeginRequest() {
    if (open_.size() >= 12) return;
    OpenRequest open;
    RequestModel row;
    row.route = "/route/" + std::to_string(Random(5));
    OpenRequest* parent = Random(3) == 0 ? Any(open_) : nullptr;
    if (parent != nullptr) {
      row.parent = parent->handle->id();
      open.context_after = row.parent;
      open.handle = std::make_unique<Request>(parent->handle->BeginChild(row.route.c_str()));
    } else if (Random(4) == 0) {
      const uint64_t ago = Random(50);
      open.handle = std::make_unique<Request>(
          Request::Begin(row.route.c_str(), nullptr, pitot::Timestamp{clock_.now_ns() - ago}));
      row.begin = -static_cast<int64_t>(ago);
    } else {
      open.handle = std::make_unique<Request>(Request::Begin(row.route.c_str()));
    }
    row.begin += now();
    row.id = open.handle->id();
    if (Random(2) == 0) row.host_id = "cmpl-" + std::to_string(Random(1'000'000));
    open.handle->SetId(row.host_id.c_str());
    row.begin_thread = at_;
    open.token = open.handle->token();
    thread().request = row.id;
    model_.requests[row.id] = row;
    open_.push_back(std::move(open));
  }
  void FinishRequest() {
    if (open_.empty()) return;
    const size_t i = Random(static_cast<uint32_t>(open_.size()));
    OpenRequest& open = open_[i];
    RequestModel& row = model_.requests[open.handle->id()];
    row.duration = now() - row.begin;
    row.end_thread = at_;
    if (thread().request == row.id) thread().request = open.context_after;
    if (Random(5) == 0) {
      row.outcome = Outcome::kAbandoned;
      open.handle.reset();
    } else {
      row.outcome = static_cast<Outcome>(1 + Random(5));
      row.reason = Random(2) == 0 ? "" : "reason " + std::to_string(Random(3));
      open.handle->Finish(row.outcome, row.reason.c_str());
    }
    finished_.push_back(open.token);
    open_.erase(open_.begin() + static_cast<ptrdiff_t>(i));
  }
  void Detail() {
    OpenRequest* open = Any(open_);
    if (open == nullptr) return;
    RequestModel& row = model_.requests[open->handle->id()];
    if (Random(2) == 0) {
      const std::string value = "value " + std::to_string(Random(6));
      open->handle->SetLabel("key", value.c_str());
      if (row.labels.size() < Request::kMaxLabels) row.labels.push_back(value);
    } else {
      const double size = Random(1000);
      open->handle->SetSize("size", size);
      if (row.sizes.size() < Request::kMaxSizes) row.sizes.push_back(size);
    }
  }
  void Stage() {
    if (!finished_.empty() && Random(4) == 0) return pitot::Stage(*Any(finished_), "of a stale token");
    OpenRequest* open = Any(open_);
    if (open == nullptr) return;
    const std::string name = "stage " + std::to_string(Random(6));
    if (Random(2) == 0)
      open->handle->Stage(name.c_str());
    else
      pitot::Stage(open->token, name.c_str());
    RequestModel& row = model_.requests[open->handle->id()];
    if (row.stages.size() < Request::kMaxStages) row.stages.push_back({name, now(), 0});
  }
  void EmitTokens() {
    if (!finished_.empty() && Random(4) == 0) return pitot::Emit(*Any(finished_), 3);
    OpenRequest* open = Any(open_);
    if (open == nullptr) return;
    RequestModel& row = model_.requests[open->handle->id()];
    const uint32_t count = 1 + Random(3);
    open->handle->Emit(count);
    if (row.tokens == 0)
      row.first_token = now() - row.begin;
    else
      row.max_gap = std::max(row.max_gap, now() - open->last_token);
    open->last_token = now();
    row.tokens += count;
    model_.tokens.emplace_back(row.id, at_, now(), count);
  }
  void Enqueue() {
    OpenRequest* open = Any(open_);
    if (open == nullptr) return;
    Enqueued enqueued;
    enqueued.queue = "queue " + std::to_string(Random(3));
    enqueued.token = open->handle->Enqueue(enqueued.queue.c_str());
    enqueued.from = at_;
    enqueued.row = model_.handoffs.size();
    model_.handoffs.push_back({enqueued.token.request, enqueued.queue, at_, kNone, now(), 0, 0});
    enqueued_.push_back(enqueued);
  }
  bool IsOver(const Token& token) const {
    return std::none_of(open_.begin(), open_.end(),
                        [&](const OpenRequest& open) { return open.handle->id() == token.request; });
  }
  void Take(Enqueued* enqueued, uint64_t batch) {
    HandoffModel row = model_.handoffs[enqueued->row];
    // The entry taken last is not taken again: a token may be adopted twice, or adopted and joined.
    std::pair<int64_t, std::string>& last = last_taken_[enqueued->token.request];
    if (last == std::pair(row.enqueue, row.queue)) return;
    last = {row.enqueue, row.queue};
    row.to = at_;
    row.take = now();
    row.batch = batch;
    if (!enqueued->taken)
      model_.handoffs[enqueued->row] = row;
    else
      model_.handoffs.push_back(row);  // the same token, taken once more
    enqueued->taken = true;
  }
  void AdoptToken() {
    Enqueued* enqueued = Any(enqueued_);
    if (enqueued == nullptr || thread().frames.size() > 10) return;
    Frame frame;
    frame.request_before = thread().request;
    frame.adopt = std::make_unique<Adopt>(enqueued->token);
    frame.adopts_nothing = IsOver(enqueued->token);
    if (!frame.adopts_nothing) {
      Take(enqueued, 0);
      thread().request = enqueued->token.request;
    }
    thread().frames.push_back(std::move(frame));
  }
  void BeginOrFinishBatch() {
    Thread& t = thread();
    if (t.open_batch == nullptr) {
      BatchModel row;
      row.executor = "executor " + std::to_string(Random(3));
      t.open_batch = std::make_unique<Batch>(Batch::Begin(row.executor.c_str()));
      row.id = t.open_batch->id();
      row.thread = at_;
      row.begin = now();
      t.batch = row.id;
      model_.batches[row.id] = row;
    } else if (Random(3) == 0 && model_.batches[t.open_batch->id()].submitted == 0) {
      BatchModel& row = model_.batches[t.open_batch->id()];
      row.close = static_cast<uint8_t>(Random(5));
      t.open_batch->Close(static_cast<pitot::BatchClose>(row.close));
      t.open_batch->Submitted();
      row.submitted = now() - row.begin;
    } else {
      BatchModel& row = model_.batches[t.open_batch->id()];
      row.duration = now() - row.begin;
      t.open_batch.reset();
      t.batch = 0;
    }
  }
  void JoinOrLeave() {
    Thread& t = thread();
    Enqueued* enqueued = Any(enqueued_);
    if (t.open_batch == nullptr || enqueued == nullptr) return;
    const uint64_t batch = t.open_batch->id(), request = enqueued->token.request;
    // The latest unfinished stay of the request.
    MemberModel* stay = nullptr;
    for (MemberModel& member : model_.members) {
      if (std::get<0>(member) == batch && std::get<1>(member) == request && std::get<3>(member) == 0) stay = &member;
    }
    if (stay != nullptr && Random(2) == 0) {
      t.open_batch->Leave(enqueued->token);
      std::get<3>(*stay) = now();
    } else if (stay == nullptr) {
      t.open_batch->Join(enqueued->token);
      if (IsOver(enqueued->token)) return;
      model_.members.emplace_back(batch, request, now(), 0);
      Take(enqueued, batch);
    }
  }
  void Async() {
    if (!asyncs_.empty() && Random(2) == 0) {
      const size_t i = Random(static_cast<uint32_t>(asyncs_.size()));
      AsyncModel& row = model_.asyncs[asyncs_[i].row];
      std::get<2>(row) = at_;
      std::get<4>(row) = now() - std::get<3>(row);
      asyncs_.erase(asyncs_.begin() + static_cast<ptrdiff_t>(i));
      return;
    }
    OpenRequest* open = Any(open_);
    if (open == nullptr) return;
    OpenAsync async;
    async.scope = std::make_unique<pitot::AsyncScope>(PITOT_ASYNC_SCOPE("async", open->token));
    async.row = model_.asyncs.size();
    model_.asyncs.emplace_back(open->token.request, at_, kNone, now(), kOpen);
    asyncs_.push_back(std::move(async));
  }

  std::mt19937 random_;
  fakes::VirtualClock clock_;
  fakes::Recording recording_{{.max_ring_bytes = 1 << 17}};
  fakes::VirtualThreads virtual_;
  std::vector<uint32_t> numbers_;
  std::vector<Thread> threads_;
  uint32_t at_ = 0;
  uint64_t next_id_ = 1;
  std::vector<OpenRequest> open_;
  std::vector<Token> finished_;
  std::vector<Enqueued> enqueued_;
  std::map<uint64_t, std::pair<int64_t, std::string>> last_taken_;
  std::vector<OpenAsync> asyncs_;
  Model model_;
};

// ---- The recorded trace, in the model's terms. ---------------------------------------------------------------------

Model Recorded(const Trace& trace) {
  Model model;
  const auto text = [&](pitot::model::StringId id) { return std::string(trace.strings[id]); };
  const auto request_id = [&](uint32_t row) { return row != kNone ? trace.requests[row].id : 0; };
  const auto batch_id = [&](uint32_t row) { return row != kNone ? trace.batches[row].id : 0; };
  for (uint32_t i = 0; i < trace.events.size(); ++i) {
    const fakes::EventText event = fakes::Event(trace, i);
    model.events.push_back({event.name, trace.events.thread[i], event.begin_ns, event.duration_ns, event.request_id,
                            event.batch_id, event.args.empty() ? "" : event.args[0].second});
  }
  for (const auto& row : trace.requests) {
    RequestModel request{row.id,
                         row.parent_id,
                         text(row.host_id),
                         text(row.route),
                         row.begin_ns,
                         row.duration_ns,
                         row.outcome,
                         text(row.reason),
                         row.begin_thread,
                         row.end_thread,
                         row.output_tokens,
                         row.first_token_ns,
                         row.max_token_gap_ns,
                         {},
                         {},
                         {}};
    for (const auto& label : row.labels) request.labels.push_back(text(label.value));
    for (const auto& size : row.sizes) request.sizes.push_back(size.value);
    for (const auto& stage : row.stages)
      request.stages.push_back({text(stage.name), stage.begin_ns, stage.duration_ns});
    model.requests[row.id] = request;
  }
  for (const auto& row : trace.batches)
    model.batches[row.id] = {row.id,          text(row.executor), row.thread, row.begin_ns,
                             row.duration_ns, row.submitted_ns,   row.close};
  for (const auto& row : trace.members)
    model.members.emplace_back(batch_id(row.batch), request_id(row.request), row.join_ns, row.leave_ns);
  for (const auto& row : trace.handoffs)
    model.handoffs.push_back({request_id(row.request), text(row.queue), row.from_thread, row.to_thread, row.enqueue_ns,
                              row.take_ns, batch_id(row.batch)});
  for (const auto& row : trace.asyncs)
    model.asyncs.emplace_back(request_id(row.request), row.begin_thread, row.end_thread, row.begin_ns, row.duration_ns);
  for (const auto& row : trace.tokens)
    model.tokens.emplace_back(request_id(row.request), row.thread, row.at_ns, row.count);
  model.Sort();
  return model;
}

// The first event that differs, as text for people.
std::string FirstDifference(const std::vector<EventModel>& recorded, const std::vector<EventModel>& expected) {
  std::ostringstream text;
  const auto say = [&](const char* who, const std::vector<EventModel>& events, size_t i) {
    if (i >= events.size()) return;
    const EventModel& e = events[i];
    text << who << ": " << e.name << " " << e.id << " of thread " << e.thread << " at " << e.begin << " for "
         << e.duration << ", request " << e.request << ", batch " << e.batch << "\n";
  };
  for (size_t i = 0; i < std::max(recorded.size(), expected.size()); ++i) {
    if (i < recorded.size() && i < expected.size() && recorded[i] == expected[i]) continue;
    say("recorded", recorded, i), say("expected", expected, i);
    break;
  }
  return text.str();
}

constexpr uint32_t kPrograms = static_cast<uint32_t>(fakes::Scaled(300));

}  // namespace

TEST_CASE("random programs are recorded exactly", "[program]") {
  uint64_t events = 0, requests = 0, batches = 0, handoffs = 0;
  for (uint32_t seed = 1; seed <= kPrograms; ++seed) {
    INFO("seed " << seed);
    Program program(seed);
    program.Run(20 + static_cast<int>(seed % 400));
    program.Wait();

    const Trace trace = program.recording().Trace();
    const Model expected = program.Expected(), recorded = Recorded(trace);

    REQUIRE(pitot::model::FindInconsistency(trace) == "");
    REQUIRE(FirstDifference(recorded.events, expected.events) == "");
    REQUIRE(recorded.requests.size() == expected.requests.size());
    for (const auto& [id, request] : expected.requests) {
      INFO("request " << id << " " << request.route);
      REQUIRE((recorded.requests.at(id) == request));
    }
    REQUIRE((recorded.batches == expected.batches));
    REQUIRE((recorded.members == expected.members));
    REQUIRE((recorded.handoffs == expected.handoffs));
    REQUIRE((recorded.asyncs == expected.asyncs));
    REQUIRE((recorded.tokens == expected.tokens));
    REQUIRE(trace.losses.empty());
    events += recorded.events.size(), requests += recorded.requests.size();
    batches += recorded.batches.size(), handoffs += recorded.handoffs.size();
  }
  // Otherwise this would have tested little.
  CHECK(events > kPrograms * 4);
  CHECK(requests > kPrograms * 3);
  for (const uint64_t count : {batches, handoffs}) CHECK(count > kPrograms / 2);
}

TEST_CASE("a window of a random program has all events that ended in it or are open, with their context", "[program]") {
  for (uint32_t seed = 1; seed <= kPrograms; ++seed) {
    INFO("seed " << seed);
    Program program(seed);
    const int64_t start = program.now();
    program.Run(20 + static_cast<int>(seed % 400));
    program.Wait();
    const int64_t window = start + (program.now() - start) * (seed % 7) / 7;

    const Trace trace = program.recording().Trace(static_cast<uint64_t>(window));
    Model expected = program.Expected(), recorded = Recorded(trace);

    REQUIRE(pitot::model::FindInconsistency(trace) == "");
    REQUIRE(trace.losses.empty());
    const auto ended_before = [&](int64_t begin, int64_t duration) {
      return duration != kOpen && begin + duration < window;
    };
    std::erase_if(expected.events, [&](const EventModel& e) { return ended_before(e.begin, e.duration); });
    for (std::vector<EventModel>* events : {&expected.events, &recorded.events}) {
      for (EventModel& event : *events) {
        // A request that ended before the window is unknown, except perhaps for its existence.
        const auto at = expected.requests.find(event.request);
        if (at != expected.requests.end() && ended_before(at->second.begin, at->second.duration)) event.request = 0;
        // A batch is known if any of its records is in the window.
        if (event.batch != 0 && recorded.batches.count(event.batch) == 0) event.batch = 0;
      }
    }
    std::sort(recorded.events.begin(), recorded.events.end());
    std::sort(expected.events.begin(), expected.events.end());
    REQUIRE(FirstDifference(recorded.events, expected.events) == "");
    for (const auto& [id, request] : expected.requests) {
      if (ended_before(request.begin, request.duration)) continue;
      INFO("request " << id);
      REQUIRE(recorded.requests.count(id) == 1);
      REQUIRE((recorded.requests.at(id) == request));
    }
    std::erase_if(expected.tokens, [&](const TokenModel& t) { return std::get<2>(t) < window; });
    REQUIRE((recorded.tokens == expected.tokens));
  }
}

TEST_CASE("traces taken in the middle of a program do not change its final trace", "[program]") {
  for (uint32_t seed = 1; seed <= kPrograms / 4 + 1; ++seed) {
    Program often(seed);
    for (int i = 0; i < 20; ++i) {
      often.Run(10);
      (void)often.recording().Trace();
    }
    often.Wait();
    const Model expected = often.Expected(), recorded = Recorded(often.recording().Trace());
    REQUIRE(FirstDifference(recorded.events, expected.events) == "");
    REQUIRE((recorded.requests == expected.requests));
  }
}
