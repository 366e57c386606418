// SPDX-License-Identifier: Apache-2.0
//
// The tree of blame: chains from a wait to its root, and sums that hold for any rows.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "analyze/soup.h"
#include "analyze/unwrapped.h"
#include "pitot/analyze/judgement.h"
#include "pitot/analyze/learn.h"
#include "pitot/analyze/verdict.h"
#include "pitot/wait.h"
#include "serialize/sample_trace.h"

namespace pitot::test {

using namespace analyze;
using model::GpuKind;
using model::kNone;

namespace {

constexpr int64_t kUs = 1'000, kMs = 1'000 * kUs;

// An executor that takes requests one by one, for 6 ms each. 150 normal requests, 20 ms apart; then whatever the test
// adds, from `late_ns` on.
struct ImageServer {
  explicit ImageServer(uint32_t normal = 150) {
    http = maker.Thread("http-1");
    other = maker.Thread("http-2");
    third = maker.Thread("http-3");
    loader = maker.Thread("loader");
    executor = maker.Thread("executor");
    wait = maker.WaitSite();
    decode = maker.Site(SiteKind::kScope, "decode");
    forward = maker.Site(SiteKind::kScope, "forward");
    reload = maker.Site(SiteKind::kScope, "reload");
    maker.trace.devices.push_back({});
    maker.trace.streams.push_back({0, 1, 7, 0, 0, 0});
    for (uint32_t i = 0; i < normal; ++i) {
      const int64_t at_ns = i * 20 * kMs, jitter_ns = (i * 7 % 11) * 10 * kUs;
      Serve(http, "/classify", at_ns, at_ns + kMs, at_ns + 7 * kMs + jitter_ns);
    }
    late_ns = normal * 20 * kMs;
  }
  // A request whose batch of its own runs from `taken_ns` to `done_ns`. Returns its row.
  uint32_t Serve(uint32_t thread, const char* route, int64_t at_ns, int64_t taken_ns, int64_t done_ns,
                 bool has_scope = true) {
    const auto number = static_cast<uint32_t>(maker.trace.requests.size());
    const uint32_t row = maker.Request(0x100 + number, route, at_ns, done_ns + kMs - at_ns);
    maker.trace.requests[row].begin_thread = maker.trace.requests[row].end_thread = thread;
    const uint32_t batch = maker.Batch(0x5000 + number, "resnet50", executor, taken_ns, done_ns - taken_ns);
    maker.Member(batch, row, taken_ns);
    maker.trace.handoffs.push_back(
        {row, maker.String("images"), thread, executor, std::min(at_ns + kMs, taken_ns), taken_ns, batch});
    Scope(thread, decode, at_ns, std::min(at_ns + kMs, taken_ns), {row, kNone});
    Scope(thread, decode, done_ns, done_ns + kMs, {row, kNone});
    if (has_scope) Scope(executor, forward, taken_ns, done_ns, {kNone, batch});
    return row;
  }
  // A request whose batch waits so long for members, until its timeout, and then works for 6 ms.
  uint32_t ServeAfterWindow(int64_t at_ns, int64_t window_ns) {
    const int64_t taken_ns = at_ns + kMs, closed_ns = taken_ns + window_ns;
    const uint32_t row = Serve(other, "/segment", at_ns, taken_ns, closed_ns + 6 * kMs, false);
    const uint32_t batch = BatchOf(row);
    maker.trace.batches[batch].close = static_cast<uint8_t>(BatchClose::kTimeout);
    Wait(executor, WaitKind::kQueue, "images", taken_ns, closed_ns, {kNone, batch});
    Scope(executor, forward, closed_ns, closed_ns + 6 * kMs, {kNone, batch});
    return row;
  }
  uint32_t BatchOf(uint32_t request) const {
    for (const model::MemberRow& member : maker.trace.members) {
      if (member.request == request) return member.batch;
    }
    return kNone;
  }
  // The same without a batch, on its thread alone.
  uint32_t Handle(uint32_t thread, const char* route, int64_t at_ns, int64_t done_ns) {
    const auto number = static_cast<uint32_t>(maker.trace.requests.size());
    const uint32_t row = maker.Request(0x100 + number, route, at_ns, done_ns - at_ns);
    maker.trace.requests[row].begin_thread = maker.trace.requests[row].end_thread = thread;
    Scope(thread, decode, at_ns, done_ns, {row, kNone});
    return row;
  }
  void Scope(uint32_t thread, uint32_t site, int64_t begin_ns, int64_t end_ns, Context context) {
    if (end_ns > begin_ns) maker.Event(thread, site, begin_ns, end_ns - begin_ns, context);
  }
  void Wait(uint32_t thread, WaitKind kind, const char* resource, int64_t begin_ns, int64_t end_ns, Context context,
            uint32_t owner_thread = kNone, uint32_t owner_request = kNone) {
    const uint64_t owner = owner_thread != kNone ? maker.trace.threads[owner_thread].number : 0;
    const uint64_t request = owner_request != kNone ? maker.trace.requests[owner_request].id : 0;
    maker.Event(thread, wait, begin_ns, end_ns - begin_ns, context,
                {static_cast<uint64_t>(kind), maker.String(resource), owner, request});
  }
  void Release(uint32_t thread, const char* lock, int64_t at_ns, Context context) {
    if (release == kNone)
      release = maker.Site(SiteKind::kInstant, "release", {{"kind", ArgType::kUint}, {"resource", ArgType::kName}});
    maker.Event(thread, release, at_ns, 0, context, {static_cast<uint64_t>(WaitKind::kLock), maker.String(lock)});
  }
  Judgement Judge(uint32_t request) {
    maker.trace.window_end_ns = late_ns + 2'000 * kMs;
    maker.trace.depths = {{0, maker.trace.window_end_ns, Depth::kKernels}};
    trace = maker.Finish();
    REQUIRE(FindInconsistency(trace) == "");
    Judgement judgement;
    REQUIRE(JudgeRequest(trace, request, nullptr, &judgement).ok());
    return judgement;
  }

  TraceMaker maker;
  model::Trace trace;
  uint32_t http, other, third, loader, executor, wait, decode, forward, reload, release = kNone;
  int64_t late_ns = 0;
};

// Checks that the children of each node add up to it, to the nanosecond, and that the tree is bounded.
void CheckSums(const Verdict& verdict) {
  const std::vector<VerdictNode>& tree = verdict.tree;
  REQUIRE(tree.size() < 2'000);
  for (uint32_t row = 0; row < tree.size(); ++row) {
    REQUIRE((row == 0 ? tree[row].parent == kNone : tree[row].parent < row));
    REQUIRE(tree[row].hops <= 6);
    int64_t sum_ns = 0;
    bool has_children = false;
    for (const VerdictNode& child : tree) {
      if (child.parent != row) continue;
      has_children = true;
      sum_ns += child.excess_ns;
      if (row != 0) REQUIRE(child.excess_ns > 0);
    }
    if (has_children) REQUIRE(sum_ns == tree[row].excess_ns);
  }
  REQUIRE(verdict.root.confidence >= 0);
  REQUIRE(verdict.root.confidence <= 1);
  for (const Cause& cause : verdict.causes) {
    INFO(BlameName(cause.blame) << ": confidence " << cause.confidence);
    REQUIRE((cause.confidence >= 0 && cause.confidence <= 1));
  }
}

// A late request whose time, and its executor's, is made of random parts.
uint32_t AddRandom(uint32_t seed, ImageServer* server) {
  std::mt19937 random(seed);
  const auto draw = [&](uint32_t limit) { return static_cast<uint32_t>(random() % limit); };
  TraceMaker& maker = server->maker;
  const int64_t at_ns = server->late_ns, taken_ns = at_ns + (1 + draw(60)) * kMs;
  const int64_t done_ns = taken_ns + (6 + draw(100)) * kMs, end_ns = done_ns + (1 + draw(60)) * kMs;
  const uint32_t other = server->Handle(server->third, "/other", at_ns, end_ns);
  const uint32_t late = server->Handle(server->http, "/classify", at_ns, at_ns);
  maker.trace.requests[late].duration_ns = end_ns - at_ns;
  const uint32_t batch = maker.Batch(0x9999, "resnet50", server->executor, taken_ns, done_ns - taken_ns);
  maker.Member(batch, late, taken_ns);
  if (draw(3) == 0) maker.Member(batch, other, taken_ns);
  if (draw(3) != 0)
    maker.trace.handoffs.push_back(
        {late, maker.String("images"), server->http, server->executor, at_ns, taken_ns, batch});
  const char* const calls[] = {"cudaLaunchKernel", "cudaStreamSynchronize", "cudaMemcpy", "cudaMalloc"};
  const auto fill = [&](uint32_t thread, int64_t from_ns, int64_t until_ns, Context context) {
    while (from_ns < until_ns) {
      const int64_t to_ns = std::min(until_ns, from_ns + (1 + draw(40)) * kMs);
      const Context of = draw(4) == 0 ? Context{other, kNone} : context;
      switch (draw(5)) {
        case 0:
          break;  // nothing recorded
        case 1:
          server->Scope(thread, server->decode, from_ns, to_ns, of);
          break;
        case 2:
          maker.Call(thread, calls[draw(4)], from_ns, to_ns - from_ns, of);
          break;
        default:
          server->Wait(thread, static_cast<WaitKind>(1 + draw(8)), draw(2) == 0 ? "cache" : "tasks", from_ns, to_ns, of,
                       draw(2) == 0 ? server->other : kNone, draw(3) == 0 ? other : kNone);
      }
      from_ns = to_ns;
    }
  };
  fill(server->http, at_ns, taken_ns, {late, kNone});
  fill(server->http, done_ns, end_ns, {late, kNone});
  fill(server->executor, taken_ns, done_ns, {kNone, batch});
  if (draw(4) == 0)
    maker.trace.losses.push_back({server->executor, model::LossReason::kOverwritten, at_ns, taken_ns, 7, 0});
  return late;
}

std::string TextOf(const Judgement& judgement) {
  return Unwrapped(VerdictText(judgement.index, judgement.blame, judgement.verdict, 1'000));
}
bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a copy in the batch ahead is the root, and the request that it was made for its culprit", "[tree]") {
  ImageServer server;
  const int64_t at_ns = server.late_ns;
  const uint32_t copier = server.Serve(server.other, "/segment", at_ns, at_ns + kMs, at_ns + 191 * kMs, false);
  const uint32_t late = server.Serve(server.http, "/classify", at_ns + 2 * kMs, at_ns + 191 * kMs, at_ns + 197 * kMs);
  const Context context = {copier, server.BatchOf(copier)};
  server.Scope(server.executor, server.forward, at_ns + kMs, at_ns + 4 * kMs, context);
  server.maker.Call(server.executor, "cudaMemcpy", at_ns + 4 * kMs, 183 * kMs, context, 0);
  server.maker.Gpu(0, GpuKind::kMemcpy, "HtoD pageable", at_ns + 4 * kMs, 183 * kMs, 0, kNone, 700'000'000);
  server.Scope(server.executor, server.forward, at_ns + 187 * kMs, at_ns + 191 * kMs, context);

  const Judgement judgement = server.Judge(late);
  const Verdict& verdict = judgement.verdict;
  const std::string text = TextOf(judgement);
  INFO(text);

  REQUIRE(verdict.kind == VerdictKind::kCauses);
  CHECK(verdict.causes[0].blame == Blame::kExecutorBusy);
  CHECK(verdict.root.kind == NodeKind::kPart);
  CHECK(verdict.root.blame == Blame::kH2d);
  CHECK(verdict.root.by.request == copier);
  CHECK(verdict.root.hops == 1);
  CHECK(verdict.root.excess_ns == 183 * kMs);
  CHECK(verdict.root.confidence > 0.8);
  CHECK(std::string(verdict.root.advice.code) == "copy_better");
  CheckSums(verdict);
  CHECK(Has(
      text,
      "Request 0000000000000197 (/classify) took 196.0 ms instead of 8.06 ms: it waited 188.0 ms for its "
      "executor, behind a batch of resnet50 (request 0000000000000196 of /segment), which spent 183.0 ms "
      "copying to the GPU: memcpy HtoD pageable (667 MiB), for request 0000000000000196 (/segment); usually none."));
  CHECK(text.find("Use pinned memory") < text.find("all of it"));
  CHECK(!Has(text, "Find out why"));  // the tree did
  const std::string json = VerdictJson(judgement.index, judgement.blame, verdict);
  CHECK(Has(json, "\"summary\": \"Request 0000000000000197"));
  CHECK(Has(json, "\"for_request\": \"0000000000000196\""));
}

TEST_CASE("a culprit has its labels, as far as they are not the victim's own", "[tree]") {
  ImageServer server;
  const int64_t at_ns = server.late_ns;
  const uint32_t copier = server.Serve(server.other, "/segment", at_ns, at_ns + kMs, at_ns + 191 * kMs, false);
  const uint32_t late = server.Serve(server.http, "/classify", at_ns + 2 * kMs, at_ns + 191 * kMs, at_ns + 197 * kMs);
  const auto label = [&](uint32_t request, const char* key, const char* value) {
    server.maker.trace.requests[request].labels.push_back({server.maker.String(key), server.maker.String(value)});
  };
  label(copier, "model", "resnet50");
  label(copier, "tenant", "acme");
  label(late, "model", "resnet50");
  label(late, "tenant", "initech");
  const Context context = {copier, server.BatchOf(copier)};
  server.maker.Call(server.executor, "cudaMemcpy", at_ns + 4 * kMs, 183 * kMs, context, 0);
  server.maker.Gpu(0, GpuKind::kMemcpy, "HtoD pageable", at_ns + 4 * kMs, 183 * kMs, 0, kNone, 700'000'000);

  const Judgement judgement = server.Judge(late);
  const std::string text = TextOf(judgement);
  INFO(text);
  CHECK(Has(text, ", for request 0000000000000196 (/segment, tenant acme); usually none."));
  const std::string json = Unwrapped(VerdictJson(judgement.index, judgement.blame, judgement.verdict));
  INFO(json);
  CHECK(Has(json, "\"labels\": { \"model\": \"resnet50\", \"tenant\": \"acme\" }"));
}

TEST_CASE("what a batch ahead does usually is load, not its fault", "[tree]") {
  ImageServer server;
  // 40 come within 20 ms, 6 ms each.
  const int64_t at_ns = server.late_ns;
  uint32_t last = kNone;
  for (int64_t i = 0; i < 40; ++i) {
    const int64_t taken_ns = at_ns + kMs + i * 6 * kMs;
    last = server.Serve(i % 2 == 0 ? server.http : server.other, "/classify", at_ns + i * kMs / 2, taken_ns,
                        taken_ns + 6 * kMs);
  }
  const Judgement judgement = server.Judge(last);
  const Verdict& verdict = judgement.verdict;
  const std::string text = TextOf(judgement);
  INFO(text);

  REQUIRE(verdict.kind == VerdictKind::kCauses);
  CHECK(verdict.root.kind == NodeKind::kLoad);
  CHECK(verdict.root.hops == 0);
  CHECK(verdict.load.ahead == 35);  // four were done, or on the executor
  CHECK(verdict.load.threads == 1);
  CHECK(std::string(verdict.root.advice.code) == "add_capacity");
  CHECK(Has(text,
            "because of load: none of the 36 batches ahead took longer than usual, and 35 requests that had come "
            "within 17.5 ms were ahead of it in queue \"images\" of 1 thread"));
  CheckSums(verdict);
  Verdict one = verdict;
  one.causes[0].by = {};
  one.causes[0].by.request = 0;
  one.causes[0].by_ns = one.causes[0].blame_ns / 2 + 1;
  CHECK(Has(VerdictSentence(judgement.index, judgement.blame, one),
            " ms of the wait were behind request 0000000000000100 (/c"));
  one.causes[0].by_ns -= 2;
  CHECK(!Has(VerdictSentence(judgement.index, judgement.blame, one), "of the wait were behind"));
}

TEST_CASE("members of its own batch were with it, and not ahead of it", "[tree]") {
  ImageServer server;
  constexpr uint32_t kMembers = 12;
  const int64_t at_ns = server.late_ns, taken_ns = at_ns + kMs, done_ns = taken_ns + kMembers * 6 * kMs;
  const uint32_t batch = server.maker.Batch(0x9000, "resnet50", server.executor, taken_ns, done_ns - taken_ns);
  uint32_t last = kNone;
  for (uint32_t i = 0; i < kMembers; ++i) {
    const uint32_t thread = i % 2 == 0 ? server.http : server.other;
    last = server.maker.Request(0x900 + i, "/classify", at_ns + i, done_ns + kMs - at_ns);
    server.maker.trace.requests[last].begin_thread = server.maker.trace.requests[last].end_thread = thread;
    server.maker.Member(batch, last, taken_ns);
    server.maker.trace.handoffs.push_back(
        {last, server.maker.String("images"), thread, server.executor, at_ns + i, taken_ns, batch});
    server.Scope(server.executor, server.forward, taken_ns + i * 6 * kMs, taken_ns + (i + 1) * 6 * kMs, {last, batch});
  }

  const std::string text = TextOf(server.Judge(last));

  INFO(text);
  CHECK(Has(text, "because of load: none of the 11 others in its batch took longer than usual"));
}

TEST_CASE("what a batch ahead does usually is load, though it had a small fault as well", "[tree]") {
  ImageServer server;
  // Six are usual. The batch ahead took twice as long, and the request waited for nearly all of it.
  const int64_t at_ns = server.late_ns;
  server.Serve(server.other, "/classify", at_ns, at_ns + kMs, at_ns + 13 * kMs);
  const uint32_t late = server.Serve(server.http, "/classify", at_ns + kMs, at_ns + 13 * kMs, at_ns + 19 * kMs);

  const Verdict verdict = server.Judge(late).verdict;

  REQUIRE(verdict.kind == VerdictKind::kCauses);
  CHECK(verdict.causes[0].blame == Blame::kExecutorBusy);
  const auto load = std::find_if(verdict.tree.begin(), verdict.tree.end(),
                                 [](const VerdictNode& node) { return node.kind == NodeKind::kLoad; });
  REQUIRE(load != verdict.tree.end());
  CHECK(load->excess_ns == Approx(5e6).margin(2e5));
  CHECK_FALSE(load->is_explained);  // not all that was ahead took as long as usual
  CheckSums(verdict);
}

TEST_CASE("a backlog is the fault of the batch that left it, though that was done before the request came", "[tree]") {
  const auto root_of = [](int64_t pause_ns) {
    ImageServer server;
    const int64_t at_ns = server.late_ns;
    const uint32_t slow = server.Serve(server.other, "/segment", at_ns, at_ns + kMs, at_ns + 200 * kMs);
    server.Wait(server.executor, WaitKind::kIo, "weights", at_ns + 2 * kMs, at_ns + 195 * kMs,
                {kNone, server.BatchOf(slow)});
    int64_t taken_ns = at_ns + 200 * kMs + pause_ns;
    for (int64_t i = 0; i < 20; ++i, taken_ns += 6 * kMs)
      server.Serve(server.other, "/classify", at_ns + (20 + i) * kMs, taken_ns, taken_ns + 6 * kMs);
    const uint32_t late = server.Serve(server.http, "/classify", at_ns + 205 * kMs, taken_ns, taken_ns + 6 * kMs);
    const Judgement judgement = server.Judge(late);
    INFO(TextOf(judgement));
    CheckSums(judgement.verdict);
    if (pause_ns == 0) {
      CHECK(judgement.verdict.root.by.batch == server.BatchOf(slow));
      CHECK(Has(TextOf(judgement),
                "for its executor, in the backlog left by a batch of resnet50 (request "
                "0000000000000196 of /segment), which waited 193.0 ms for input"));
    }
    return judgement.verdict.root.blame;
  };
  CHECK(root_of(0) == Blame::kHostPagefaultIo);
  CHECK(root_of(kMs) == Blame::kExecutorBusy);  // the executor was idle in between: it is load
}

TEST_CASE("a batch that waited for members as long as its policy says did nothing unusual", "[tree]") {
  const auto root_of = [](int64_t window_ms) {
    ImageServer server;
    int64_t at_ns = server.late_ns;
    // Each waits 30 ms for members, until the timeout.
    for (int i = 0; i < 12; ++i, at_ns += 60 * kMs) server.ServeAfterWindow(at_ns, 30 * kMs);
    server.ServeAfterWindow(at_ns, window_ms * kMs);
    int64_t taken_ns = at_ns + (window_ms + 7) * kMs;
    const int64_t came_ns = taken_ns - 2 * kMs;
    for (int64_t i = 0; i < 15; ++i, taken_ns += 6 * kMs)
      server.Serve(server.other, "/classify", came_ns - 2 * kMs, taken_ns, taken_ns + 6 * kMs);
    const uint32_t late = server.Serve(server.http, "/classify", came_ns, taken_ns, taken_ns + 6 * kMs);
    const Judgement judgement = server.Judge(late);
    INFO(TextOf(judgement));
    CheckSums(judgement.verdict);
    return judgement.verdict.root;
  };
  CHECK(root_of(30).kind == NodeKind::kLoad);
  CHECK(root_of(90).blame == Blame::kBatchWindow);
  CHECK(root_of(90).kind == NodeKind::kPart);
}

TEST_CASE("a batch is compared with what the process learned before a window in which most are slow", "[tree]") {
  const auto root_of = [](uint32_t known) {
    ImageServer server;
    // From now on all batches take 60 ms, in an unrecorded wait for a disk.
    int64_t at_ns = server.late_ns;
    for (int i = 0; i < 200; ++i, at_ns += 70 * kMs) {
      const uint32_t slow = server.Serve(server.other, "/segment", at_ns, at_ns + kMs, at_ns + 61 * kMs, false);
      server.Wait(server.executor, WaitKind::kIo, "weights", at_ns + kMs, at_ns + 61 * kMs,
                  {kNone, server.BatchOf(slow)});
    }
    at_ns -= 70 * kMs;
    const uint32_t late = server.Serve(server.http, "/classify", at_ns + 2 * kMs, at_ns + 61 * kMs, at_ns + 67 * kMs);
    server.late_ns = at_ns;
    model::NormRow norm;
    norm.kind = model::NormKind::kBatchOfMembers;
    norm.depth = Depth::kKernels;
    norm.name = server.maker.String("resnet50");
    norm.much = 1;
    norm.count = known;
    norm.total_ns = 6 * kMs;
    norm.parts = {{static_cast<uint32_t>(Blame::kHostOncpuFramework), 6 * kMs}};
    server.maker.trace.norms.push_back(norm);
    const Judgement judgement = server.Judge(late);
    const std::string text = TextOf(judgement);
    INFO(text);
    CheckSums(judgement.verdict);
    CHECK(Has(text, "usually 6.00 ms before") == (known >= 32));
    CHECK(Has(VerdictJson(judgement.index, judgement.blame, judgement.verdict), "\"is_normal_kept\": true") ==
          (known >= 32));
    return judgement.verdict.root;
  };
  CHECK(root_of(64).blame == Blame::kHostPagefaultIo);
  CHECK(root_of(64).kind == NodeKind::kPart);
  CHECK(root_of(31).kind == NodeKind::kLoad);  // the window has more, and they are all slow
}

TEST_CASE("without requests to compare with, a stay in a queue that is usual there is not the reason", "[tree]") {
  const auto root_of = [](int64_t usual_ms) {
    ImageServer server(0);
    int64_t at_ns = 0;
    for (int i = 0; i < 12; ++i, at_ns += 100 * kMs)
      server.Serve(server.http, "/classify", at_ns, at_ns + (1 + usual_ms) * kMs, at_ns + (7 + usual_ms) * kMs);
    server.late_ns = at_ns;
    server.Serve(server.other, "/segment", at_ns, at_ns, at_ns + 45 * kMs);
    const uint32_t late = server.Serve(server.http, "/classify", at_ns, at_ns + 46 * kMs, at_ns + 66 * kMs);
    const Judgement judgement = server.Judge(late);
    CHECK(judgement.verdict.level == analyze::Baseline::Level::kNone);
    CheckSums(judgement.verdict);
    INFO(TextOf(judgement));
    CHECK(judgement.verdict.tree[0].excess_ns == judgement.verdict.latency_ns);
    return judgement.verdict.root;
  };
  CHECK(root_of(40).blame == Blame::kHostOncpuFramework);
  CHECK(root_of(40).hops == 0);
  CHECK(root_of(1).hops == 1);
}

TEST_CASE("a holder of a lock that waits for a disk is followed to the disk", "[tree]") {
  ImageServer server;
  const int64_t at_ns = server.late_ns;
  const uint32_t holder = server.Handle(server.other, "/reload", at_ns, at_ns + 90 * kMs);
  const uint32_t late = server.Serve(server.http, "/classify", at_ns + 10 * kMs, at_ns + 91 * kMs, at_ns + 97 * kMs);
  server.maker.trace.handoffs.back().enqueue_ns = at_ns + 90 * kMs;
  server.Wait(server.other, WaitKind::kIo, "journal", at_ns + 5 * kMs, at_ns + 85 * kMs, {holder, kNone});
  server.Wait(server.http, WaitKind::kLock, "cache", at_ns + 11 * kMs, at_ns + 86 * kMs, {late, kNone}, server.other,
              holder);

  const Judgement judgement = server.Judge(late);
  const Verdict& verdict = judgement.verdict;
  const std::string text = TextOf(judgement);
  INFO(text);

  CHECK(verdict.causes.at(0).blame == Blame::kHostLock);
  CHECK(verdict.root.blame == Blame::kHostPagefaultIo);
  CHECK(verdict.root.by.request == holder);
  CHECK(verdict.root.hops == 1);
  CHECK(std::string(verdict.root.advice.code) == "take_io_out");
  CHECK(Has(text,
            "it waited 75.0 ms for lock \"cache\", held by request 0000000000000196 (/reload), which waited "
            "74.0 ms for input, output or memory on a disk in \"journal\" on http-2."));
  CheckSums(verdict);
}

TEST_CASE("a thread that sleeps with a lock is the root, though its request waits elsewhere by then", "[tree]") {
  ImageServer server;
  const int64_t at_ns = server.late_ns;
  server.Serve(server.third, "/segment", at_ns, at_ns + kMs, at_ns + 95 * kMs);
  const uint32_t holder = server.Serve(server.other, "/segment", at_ns, at_ns + 95 * kMs, at_ns + 101 * kMs);
  server.Wait(server.other, WaitKind::kSleep, "back-off", at_ns + 2 * kMs, at_ns + 90 * kMs, {holder, kNone});
  const uint32_t late = server.Serve(server.http, "/classify", at_ns + 3 * kMs, at_ns + 101 * kMs, at_ns + 107 * kMs);
  server.maker.trace.handoffs.back().enqueue_ns = at_ns + 92 * kMs;
  server.Wait(server.http, WaitKind::kLock, "cache", at_ns + 5 * kMs, at_ns + 90 * kMs, {late, kNone}, server.other,
              holder);

  const Judgement judgement = server.Judge(late);
  const Verdict& verdict = judgement.verdict;
  INFO(TextOf(judgement));

  CheckSums(verdict);
  CHECK(verdict.root.kind == NodeKind::kPart);
  CHECK(verdict.root.blame == Blame::kHostBlockedUnknown);
  CHECK(verdict.root.hops == 1);
  CHECK(verdict.root.by.request == holder);
}

TEST_CASE("a thread that keeps a lock after it put its request in a queue is the root, and not the idle taker",
          "[tree]") {
  // The taker cannot take what is in the queue before the lock is free.
  ImageServer server;
  const int64_t at_ns = server.late_ns;
  const uint32_t holder = server.Serve(server.other, "/segment", at_ns, at_ns + 90 * kMs, at_ns + 96 * kMs, false);
  const Context context = {kNone, server.BatchOf(holder)};
  server.Wait(server.executor, WaitKind::kQueue, "images", at_ns - 5 * kMs, at_ns + 90 * kMs, {});
  server.Scope(server.executor, server.decode, at_ns + 90 * kMs, at_ns + 90 * kMs + 500 * kUs, context);
  server.Scope(server.executor, server.forward, at_ns + 90 * kMs + 500 * kUs, at_ns + 96 * kMs, context);
  const uint32_t late = server.Serve(server.http, "/classify", at_ns + 3 * kMs, at_ns + 101 * kMs, at_ns + 107 * kMs);
  server.maker.trace.handoffs.back().enqueue_ns = at_ns + 92 * kMs;
  server.Wait(server.http, WaitKind::kLock, "images", at_ns + 5 * kMs, at_ns + 91 * kMs, {late, kNone}, server.other,
              holder);

  const Judgement judgement = server.Judge(late);
  const Verdict& verdict = judgement.verdict;
  INFO(TextOf(judgement));

  CheckSums(verdict);
  CHECK(verdict.root.blame == Blame::kUntraced);
  CHECK(verdict.root.hops == 1);
  CHECK(verdict.root.by.request == holder);
  CHECK(Has(TextOf(judgement), "(/segment), which did something unrecorded for"));
}

TEST_CASE("a request waits for the thread that put it in a queue as long as that keeps the queue's lock", "[tree]") {
  for (const bool is_release_known : {false, true}) {
    ImageServer server;
    const int64_t at_ns = server.late_ns;
    const uint32_t late = server.Serve(server.http, "/classify", at_ns, at_ns + 91 * kMs, at_ns + 97 * kMs);
    const uint32_t other = server.Serve(server.other, "/segment", at_ns, at_ns + 98 * kMs, at_ns + 104 * kMs);
    server.Wait(server.executor, WaitKind::kQueue, "images", at_ns - 5 * kMs, at_ns + 91 * kMs, {});
    server.Wait(server.other, WaitKind::kLock, "images", at_ns + 5 * kMs, at_ns + 91 * kMs, {other, kNone}, server.http,
                late);
    if (is_release_known) server.Release(server.http, "images", at_ns + 90 * kMs, {late, kNone});

    const Judgement judgement = server.Judge(late);
    INFO(TextOf(judgement));

    CHECK(judgement.blame.blame[Blame::kHandoff] == (is_release_known ? kMs : 0));
    CHECK(judgement.blame.blame[Blame::kUntraced] == (is_release_known ? 89 : 90) * kMs);
  }
}

TEST_CASE("a thread that waits for its request with a lock is followed to where the request is", "[tree]") {
  ImageServer server;
  const int64_t at_ns = server.late_ns;
  const uint32_t ahead = server.Serve(server.third, "/segment", at_ns, at_ns + kMs, at_ns + 95 * kMs);
  const uint32_t holder = server.Serve(server.other, "/segment", at_ns, at_ns + 95 * kMs, at_ns + 101 * kMs);
  server.Wait(server.other, WaitKind::kFuture, "result", at_ns + 2 * kMs, at_ns + 101 * kMs, {holder, kNone});
  const uint32_t late = server.Serve(server.http, "/classify", at_ns + 3 * kMs, at_ns + 110 * kMs, at_ns + 116 * kMs);
  server.maker.trace.handoffs.back().enqueue_ns = at_ns + 104 * kMs;
  server.Wait(server.http, WaitKind::kLock, "cache", at_ns + 5 * kMs, at_ns + 102 * kMs, {late, kNone}, server.other,
              holder);

  const Judgement judgement = server.Judge(late);
  const Verdict& verdict = judgement.verdict;
  INFO(TextOf(judgement));

  CheckSums(verdict);
  CHECK(verdict.root.hops == 2);
  CHECK(verdict.root.by.batch == server.BatchOf(ahead));
}

TEST_CASE("GPU work without a usual time may be another's, and is half as sure as a root", "[tree]") {
  ImageServer server;
  const int64_t at_ns = server.late_ns;
  const uint32_t late = server.Serve(server.http, "/classify", at_ns, at_ns + kMs, at_ns + 107 * kMs, false);
  const Context context = {late, server.BatchOf(late)};
  server.Scope(server.executor, server.forward, at_ns + kMs, at_ns + 6 * kMs, context);
  server.maker.Call(server.executor, "cudaLaunchKernel", at_ns + 5 * kMs, 10 * kUs, context, 0);
  server.maker.Gpu(0, GpuKind::kKernel, "fused", at_ns + 6 * kMs, 100 * kMs, 0);
  server.maker.Call(server.executor, "cudaStreamSynchronize", at_ns + 6 * kMs, 100 * kMs + 10 * kUs, context, 0);

  const Judgement judgement = server.Judge(late);
  const Verdict& verdict = judgement.verdict;
  INFO(TextOf(judgement));

  REQUIRE(verdict.root.blame == Blame::kGpuExecExpected);
  CHECK(verdict.root.confidence == Approx(verdict.causes.at(0).confidence / 2));
}

TEST_CASE("a wait until a thread at work for nobody notified it is followed to what kept that thread", "[tree]") {
  const bool is_recorded = GENERATE(true, false);  // otherwise nothing says what the notifier did
  ImageServer server;
  const int64_t at_ns = server.late_ns;
  const uint32_t holder = server.Handle(server.other, "/reload", at_ns, at_ns + 100 * kMs);
  const uint32_t late = server.Serve(server.http, "/classify", at_ns, at_ns + 2 * kMs, at_ns + 90 * kMs, false);
  const Context batch = {kNone, server.BatchOf(late)};
  server.Scope(server.executor, server.forward, at_ns + 2 * kMs, at_ns + 3 * kMs, batch);
  server.Wait(server.executor, WaitKind::kCondition, "tasks", at_ns + 3 * kMs, at_ns + 84 * kMs, batch, server.third);
  server.Scope(server.executor, server.forward, at_ns + 84 * kMs, at_ns + 90 * kMs, batch);
  if (is_recorded)
    server.Wait(server.third, WaitKind::kLock, "tasks", at_ns + 3 * kMs, at_ns + 83 * kMs, {}, server.other, holder);
  server.Wait(server.other, WaitKind::kIo, "journal", at_ns + kMs, at_ns + 82 * kMs, {holder, kNone});

  const Judgement judgement = server.Judge(late);
  const Verdict& verdict = judgement.verdict;
  INFO(TextOf(judgement));
  REQUIRE(verdict.kind == VerdictKind::kCauses);
  CHECK(verdict.causes[0].blame == Blame::kHostBlockedUnknown);
  CHECK(verdict.root.hops == (is_recorded ? 2 : 0));
  CHECK(verdict.root.blame == (is_recorded ? Blame::kHostPagefaultIo : Blame::kHostBlockedUnknown));
  if (is_recorded) CHECK(verdict.root.by.request == holder);
  CheckSums(verdict);
}

TEST_CASE("a convoy of three is followed to its end, and named", "[tree]") {
  ImageServer server;
  const int64_t at_ns = server.late_ns;
  // A batch waits for a lock of the loader, which waits for one of a request, which waits for a disk.
  const uint32_t slow = server.Handle(server.third, "/store", at_ns, at_ns + 200 * kMs);
  const uint32_t ahead = server.Serve(server.other, "/segment", at_ns + kMs, at_ns + 2 * kMs, at_ns + 150 * kMs);
  const uint32_t late = server.Serve(server.http, "/classify", at_ns + 4 * kMs, at_ns + 150 * kMs, at_ns + 156 * kMs);
  server.Scope(server.loader, server.reload, at_ns, at_ns + 145 * kMs, {});
  server.Wait(server.third, WaitKind::kIo, "disk", at_ns, at_ns + 139 * kMs, {slow, kNone});
  server.Wait(server.loader, WaitKind::kLock, "files", at_ns + kMs, at_ns + 140 * kMs, {}, server.third, slow);
  server.Wait(server.executor, WaitKind::kLock, "weights", at_ns + 3 * kMs, at_ns + 144 * kMs,
              {kNone, server.BatchOf(ahead)}, server.loader);

  const Judgement judgement = server.Judge(late);
  const Verdict& verdict = judgement.verdict;
  const std::string text = TextOf(judgement);
  INFO(text);

  CHECK(verdict.root.blame == Blame::kHostPagefaultIo);
  CHECK(verdict.root.by.request == slow);
  CHECK(verdict.root.hops == 3);
  CHECK(Has(text,
            "for its executor, behind a batch of resnet50 (request 0000000000000197 of /segment), which waited "
            "139.0 ms for lock \"weights\", held by loader, which waited 135.0 ms for lock \"files\", held by "
            "request 0000000000000196 (/store), which waited 134.0 ms for input, output or memory on a disk in "
            "\"disk\" on http-3: a convoy."));
  CheckSums(verdict);
}

TEST_CASE("a batch that waits for a lock of the request behind it is a cycle", "[tree]") {
  ImageServer server;
  const int64_t at_ns = server.late_ns;
  const uint32_t ahead = server.Serve(server.other, "/segment", at_ns, at_ns + kMs, at_ns + 120 * kMs);
  const uint32_t late = server.Serve(server.http, "/classify", at_ns + 2 * kMs, at_ns + 120 * kMs, at_ns + 126 * kMs);
  server.Wait(server.executor, WaitKind::kLock, "cache", at_ns + 2 * kMs, at_ns + 116 * kMs,
              {kNone, server.BatchOf(ahead)}, server.http, late);

  const Judgement judgement = server.Judge(late);
  const Verdict& verdict = judgement.verdict;
  const std::string text = TextOf(judgement);
  INFO(text);

  CHECK(verdict.root.kind == NodeKind::kCycle);
  CHECK(std::string(verdict.root.advice.code) == "break_cycle");
  CHECK(Has(text, "for lock \"cache\", held by the request itself, which waits for it in turn: a cycle."));
  CheckSums(verdict);
}

TEST_CASE("a holder of a lock that lost its CPU is followed, even if it is the request behind it", "[tree]") {
  // Its own thread enqueued the request, and still holds the lock in code that takes long.
  ImageServer server;
  const int64_t at_ns = server.late_ns;
  const uint32_t ahead = server.Serve(server.other, "/segment", at_ns, at_ns + kMs, at_ns + 120 * kMs);
  const uint32_t late = server.Serve(server.http, "/classify", at_ns + 2 * kMs, at_ns + 120 * kMs, at_ns + 126 * kMs);
  server.Scope(server.http, server.reload, at_ns + 3 * kMs, at_ns + 117 * kMs, {late, kNone});
  server.Wait(server.executor, WaitKind::kLock, "cache", at_ns + 2 * kMs, at_ns + 116 * kMs,
              {kNone, server.BatchOf(ahead)}, server.http, late);

  const Judgement judgement = server.Judge(late);
  INFO(TextOf(judgement));

  CHECK(judgement.verdict.root.kind != NodeKind::kCycle);
  CHECK(judgement.verdict.root.by.request == late);
  CHECK(Has(TextOf(judgement),
            "for lock \"cache\", held by the request itself, which spent 113.0 ms in \"reload\" on http-1, running or "
            "asleep"));
  CheckSums(judgement.verdict);
}

TEST_CASE("small faults of many culprits are one culprit", "[tree]") {
  ImageServer server;
  const int64_t at_ns = server.late_ns;
  int64_t taken_ns = at_ns + kMs;
  uint32_t late = kNone;
  for (int64_t i = 0; i < 61; ++i, taken_ns += 8 * kMs) {  // 2 ms longer than usual, for a disk
    late = server.Serve(i == 60 ? server.http : server.other, "/classify", at_ns + i * kMs / 10, taken_ns,
                        taken_ns + 8 * kMs);
    server.Wait(server.executor, WaitKind::kIo, "weights", taken_ns + kMs, taken_ns + 3 * kMs,
                {kNone, server.BatchOf(late)});
  }
  const Judgement judgement = server.Judge(late);
  const std::vector<VerdictNode>& tree = judgement.verdict.tree;
  INFO(TextOf(judgement));

  // Most of the wait is the usual time of so many.
  CHECK(judgement.verdict.root.kind == NodeKind::kLoad);
  const auto several =
      std::find_if(tree.begin(), tree.end(), [](auto& node) { return node.kind == NodeKind::kSeveral; });
  REQUIRE(several != tree.end());
  CHECK(several->count > 40);
  CHECK(std::any_of(tree.begin(), tree.end(), [](const VerdictNode& node) {
    return node.kind == NodeKind::kPart && node.hops == 1 && node.blame == Blame::kHostPagefaultIo;
  }));
  CheckSums(judgement.verdict);
}

TEST_CASE("a culprit of which nothing usual is known makes a root less sure", "[tree]") {
  const auto confidence_of = [](bool is_known) {
    ImageServer server;
    const int64_t at_ns = server.late_ns;
    const uint32_t ahead = server.Serve(server.other, "/segment", at_ns, at_ns + kMs, at_ns + 120 * kMs);
    if (!is_known) server.maker.trace.batches[server.BatchOf(ahead)].executor = server.maker.String("unet");
    const Judgement judgement =
        server.Judge(server.Serve(server.http, "/classify", at_ns + 2 * kMs, at_ns + 120 * kMs, at_ns + 126 * kMs));
    // Without a usual time its code is no fault: the batch is named.
    CHECK(judgement.verdict.root.kind == (is_known ? NodeKind::kPart : NodeKind::kBatch));
    CHECK(judgement.verdict.root.blame == (is_known ? Blame::kHostOncpuFramework : Blame::kExecutorBusy));
    CHECK(Has(TextOf(judgement), "usual time not known") == !is_known);
    CheckSums(judgement.verdict);
    return judgement.verdict.root.confidence;
  };
  CHECK(confidence_of(false) < confidence_of(true));
}

TEST_CASE("a root that says how long but not why is half as sure", "[tree]") {
  const auto judge = [](bool has_wait) {
    ImageServer server;
    const int64_t at_ns = server.late_ns;
    const uint32_t ahead = server.Serve(server.other, "/segment", at_ns, at_ns + kMs, at_ns + 120 * kMs, false);
    if (has_wait)
      server.Wait(server.executor, WaitKind::kSleep, "back-off", at_ns + kMs, at_ns + 120 * kMs,
                  {kNone, server.BatchOf(ahead)});
    const Judgement judgement =
        server.Judge(server.Serve(server.http, "/classify", at_ns + 2 * kMs, at_ns + 120 * kMs, at_ns + 126 * kMs));
    CheckSums(judgement.verdict);
    CHECK(judgement.verdict.root.hops == 1);
    CHECK(Has(TextOf(judgement),
              has_wait ? "which was blocked for 117.0 ms in \"back-off\" on executor"
                       : "which did something unrecorded for 117.0 ms, outside of all scopes on executor"));
    return judgement.verdict;
  };
  const Verdict slept = judge(true), unrecorded = judge(false);
  CHECK(slept.root.blame == Blame::kHostBlockedUnknown);
  CHECK(unrecorded.root.blame == Blame::kUntraced);
  CHECK(slept.root.confidence == Approx(2 * unrecorded.root.confidence));
}

TEST_CASE("a verdict without a baseline follows waits, too, and is less sure", "[tree]") {
  ImageServer server(11);
  const int64_t at_ns = server.late_ns;
  const uint32_t copier = server.Serve(server.other, "/segment", at_ns, at_ns + kMs, at_ns + 150 * kMs);
  const uint32_t late = server.Serve(server.http, "/classify", at_ns + 2 * kMs, at_ns + 150 * kMs, at_ns + 156 * kMs);
  server.Wait(server.executor, WaitKind::kIo, "weights", at_ns + 3 * kMs, at_ns + 140 * kMs,
              {kNone, server.BatchOf(copier)});

  const Judgement judgement = server.Judge(late);
  const Verdict& verdict = judgement.verdict;
  INFO(TextOf(judgement));

  CHECK(verdict.kind == VerdictKind::kUndetermined);
  CHECK(verdict.root.blame == Blame::kHostPagefaultIo);
  CHECK(verdict.root.by.batch == server.BatchOf(copier));
  CHECK(verdict.root.confidence > 0.4);
  CHECK(verdict.root.confidence < 0.75);
  CHECK(verdict.tree[0].excess_ns == verdict.latency_ns);
  CheckSums(verdict);
}

TEST_CASE("a verdict without the time for a tree has none, and is whole otherwise", "[tree]") {
  ImageServer server;
  const int64_t at_ns = server.late_ns;
  server.Serve(server.other, "/segment", at_ns, at_ns + kMs, at_ns + 50 * kMs);
  const uint32_t late = server.Serve(server.http, "/classify", at_ns + 2 * kMs, at_ns + 50 * kMs, at_ns + 56 * kMs);
  REQUIRE(!server.Judge(late).verdict.tree.empty());
  bool is_over = false;
  BlameOptions options;
  options.is_over = [](void* flag) { return *static_cast<bool*>(flag); };
  options.is_over_context = &is_over;
  Judgement judgement;
  REQUIRE(BlameIndex::Make(server.trace, options, &judgement.index).ok());
  REQUIRE(FindBlame(judgement.index, late, &judgement.blame).ok());
  Baseline baseline;
  REQUIRE(LearnBaseline(judgement.index, late, {}, &baseline).ok());

  is_over = true;
  REQUIRE(FindVerdict(judgement.index, judgement.blame, baseline, judgement.blame.end_ns, {}, &judgement.verdict).ok());

  CHECK(judgement.verdict.causes.size() == 1);
  CHECK(judgement.verdict.tree.empty());
  CHECK(judgement.verdict.root.node == kNone);
  CHECK(Has(TextOf(judgement), "it waited 47.0 ms for its executor in queue \"images\", behind a batch of resnet50"));
}

TEST_CASE("the stage with the largest difference from usual is named", "[tree]") {
  ImageServer server;
  const auto stages = [&](uint32_t row, int64_t queue_ns) {
    server.maker.trace.requests[row].stages = {
        {server.maker.String("read"), server.maker.trace.requests[row].begin_ns, kMs},
        {server.maker.String("queue"), server.maker.trace.requests[row].begin_ns + kMs, queue_ns},
        {server.maker.String("model"), server.maker.trace.requests[row].begin_ns + kMs + queue_ns,
         server.maker.trace.requests[row].duration_ns - kMs - queue_ns}};
  };
  for (uint32_t row = 0; row < server.maker.trace.requests.size(); ++row) stages(row, 0);
  const int64_t at_ns = server.late_ns;
  server.Serve(server.other, "/segment", at_ns, at_ns + kMs, at_ns + 50 * kMs);
  const uint32_t late = server.Serve(server.http, "/classify", at_ns + 2 * kMs, at_ns + 50 * kMs, at_ns + 56 * kMs);
  stages(late, 47 * kMs);

  const Judgement judgement = server.Judge(late);

  CHECK(server.trace.strings[judgement.verdict.stage.name] == "queue");
  CHECK(judgement.verdict.stage.ns == 47 * kMs);
  CHECK(judgement.verdict.stage.usual_ns == 0);
  CHECK(Has(TextOf(judgement), "stage \"queue\" 47.0 ms, usually 0 us"));
}

TEST_CASE("trees of any rows add up to the nanosecond, and are bounded", "[tree]") {
  uint32_t trees = 0, followed = 0, deep = 0;
  for (uint32_t seed = 0; seed < 1'000; ++seed) {
    const model::Trace trace = Stretched(Soup(seed));
    INFO("seed " << seed);
    Judgement judgement;
    REQUIRE(BlameIndex::Make(trace, BlameOptions(), &judgement.index).ok());
    for (uint32_t row = 0; row < trace.requests.size(); ++row) {
      RequestBlame blame;
      if (!FindBlame(judgement.index, row, &blame).ok()) continue;
      for (const uint32_t least : {4u, 60u}) {
        VerdictOptions options;
        options.least = least;
        options.alpha = options.alpha_few = 0.5;
        Baseline baseline;
        REQUIRE(LearnBaseline(judgement.index, row, options, &baseline).ok());
        Verdict verdict;
        REQUIRE(FindVerdict(judgement.index, blame, baseline, blame.end_ns, options, &verdict).ok());
        CheckSums(verdict);
        const std::string sentence = VerdictSentence(judgement.index, blame, verdict);
        REQUIRE(Unwrapped(VerdictText(judgement.index, blame, verdict)).find(Unwrapped(sentence)) == 0);
        REQUIRE(Has(VerdictJson(judgement.index, blame, verdict), "\"summary\": \""));
        trees += verdict.tree.empty() ? 0 : 1;
        followed += std::any_of(verdict.tree.begin(), verdict.tree.end(), [](auto& node) { return node.hops > 0; });
        deep += std::any_of(verdict.tree.begin(), verdict.tree.end(), [](auto& node) { return node.hops > 1; }) ? 1 : 0;
      }
    }
  }
  CHECK(trees > 1'000);
  CHECK(followed > 200);
  CHECK(deep > 30);
}

TEST_CASE("every confidence of a request made of random parts is from 0 to 1, and its tree adds up", "[tree]") {
  uint32_t causes = 0, slept = 0, followed = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    INFO("seed " << seed);
    ImageServer server(70);
    const uint32_t late = AddRandom(seed, &server);

    const Verdict verdict = server.Judge(late).verdict;

    CheckSums(verdict);
    followed += std::any_of(verdict.tree.begin(), verdict.tree.end(), [](auto& node) { return node.hops > 0; }) ? 1 : 0;
    for (const Cause& cause : verdict.causes) {
      ++causes;
      slept += cause.blame == Blame::kHostBlockedUnknown ? 1 : 0;
    }
  }
  CHECK(causes > 400);
  CHECK(slept > 100);
  CHECK(followed > 10);
}

TEST_CASE("what a member's own scope took beyond the usual is the root of those that waited for it in their batch",
          "[tree]") {
  TraceMaker maker;
  const uint32_t thread = maker.Thread("gpu 0"), decode = maker.Site(SiteKind::kScope, "decode"),
                 forward = maker.Site(SiteKind::kScope, "forward");
  maker.trace.window_end_ns = 100'000 * kMs;
  uint32_t slow = kNone;
  for (uint32_t i = 0; i < 200; ++i) {
    const int64_t begin_ns = i * 200 * kMs + kMs, late_ns = i == 150 ? 60 * kMs : (i % 5) * kMs / 10;
    const uint32_t batch = maker.Batch(1'000 + i, "resnet50", thread, begin_ns, 10 * kMs + late_ns);
    int64_t at_ns = begin_ns;
    for (uint32_t one = 0; one < 3; ++one) {
      const uint32_t request = maker.Request(10 + 3 * i + one, "/classify", begin_ns, 10 * kMs + late_ns);
      maker.trace.requests[request].begin_thread = maker.trace.requests[request].end_thread = thread;
      maker.Member(batch, request, begin_ns);
      const bool is_large = i == 150 && one == 1;
      maker.trace.requests[request].sizes = {{maker.String("pixels"), is_large ? 8'000.0 : 24.0}};
      const int64_t length_ns = kMs + (one == 1 ? late_ns : 0);
      maker.Event(thread, decode, at_ns, length_ns, {request, batch});
      at_ns += length_ns;
      if (is_large) slow = request;
    }
    maker.Event(thread, forward, at_ns, 7 * kMs, {kNone, batch});
  }
  const model::Trace trace = maker.Finish();
  REQUIRE(FindInconsistency(trace) == "");
  Judgement judgement;
  REQUIRE(JudgeRequest(trace, slow - 1, nullptr, &judgement).ok());
  const Verdict& verdict = judgement.verdict;
  const std::string text = TextOf(judgement);
  INFO(text);
  REQUIRE(verdict.kind == VerdictKind::kCauses);
  CHECK(verdict.root.kind == NodeKind::kPart);
  CHECK(verdict.root.blame == Blame::kHostOncpuFramework);
  CHECK(verdict.root.by.request == slow);
  CHECK(verdict.root.excess_ns > 59 * kMs);
  CHECK(std::string(verdict.root.advice.code) == "limit_step_work");
  CHECK(Has(text,
            "(/classify, 8000 pixels, typical 24), which spent 61.0 ms in \"decode\" on gpu 0, running or asleep."));
  CheckSums(verdict);
}

}  // namespace pitot::test
