// SPDX-License-Identifier: Apache-2.0
//
// Verdicts, case by case. For how often they are right see verdict_statistics_test.cc.
#include "pitot/analyze/verdict.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analyze/unwrapped.h"
#include "analyze/verdict/contradictions.h"
#include "base/host_counters.h"
#include "pitot/analyze/judgement.h"
#include "pitot/wait.h"
#include "serialize/sample_trace.h"

namespace pitot::test {

using namespace analyze;
using model::kNone;

namespace {

constexpr int64_t kUs = 1'000, kMs = 1'000 * kUs;

// A route whose requests take 2 ms of code before, 10 ms in the model, 1 ms after, 3 ms on the GPU and 1 ms in a queue.
class Route {
 public:
  Route() {
    maker_.trace.window_end_ns = 100'000 * kMs;
    const uint32_t thread = maker_.Thread("executor");
    request = maker_.Request(0x8f0c, "/classify", 0, 100 * kMs);
    other = maker_.Request(0x77, "/segment", 0, 100 * kMs);
    maker_.trace.requests[request].size_bucket = 4;
    const uint32_t batch = maker_.Batch(0x11, "resnet50", thread, 10 * kMs, 50 * kMs);
    maker_.Member(batch, request, 10 * kMs);
    maker_.trace.batches[batch].close = static_cast<uint8_t>(BatchClose::kTimeout);
    maker_.trace.depths = {{0, 100'000 * kMs, Depth::kKernels}};
    trace_ = maker_.Finish();
    REQUIRE(BlameIndex::Make(trace_, BlameOptions(), &index).ok());
  }
  BlameVector Typical() const {
    BlameVector blame;
    blame[Blame::kHostOncpuPre] = 2 * kMs;
    blame[Blame::kHostOncpuFramework] = 10 * kMs;
    blame[Blame::kHostOncpuPost] = 1 * kMs;
    blame[Blame::kGpuExecExpected] = 3 * kMs;
    blame[Blame::kQueueWaitOthers] = 1 * kMs;
    return blame;
  }
  BlameVector Draw() {
    std::normal_distribution<double> normal;
    BlameVector blame = Typical();
    for (int64_t& part : blame.ns) part = std::llround(static_cast<double>(part) * std::exp(0.05 * normal(random_)));
    return blame;
  }
  void Learn(int n, const WorkDone& work = {224, 0, 1, 0, Depth::kKernels}) {
    for (int i = 0; i < n; ++i) {
      BaselineRow row;
      row.blame = Draw();
      row.work = work;
      REQUIRE(baseline.Add("/classify", 4, row).ok());
    }
  }
  // Learns 512 rows: each is drawn, then altered by `change`, which also gets its number.
  template <class Change> void LearnEach(const Change& change) {
    for (int i = 0; i < 512; ++i) {
      BaselineRow row;
      row.work.depth = Depth::kKernels;
      row.blame = Draw();
      change(i, row.blame);
      REQUIRE(baseline.Add("/classify", 4, row).ok());
    }
  }
  // The request itself, with segments as long as in the blame, in the order of the enum.
  RequestBlame Make(const BlameVector& vector) const {
    RequestBlame blame;
    blame.request = request;
    blame.blame = vector;
    for (uint32_t k = 0; k < kBlames; ++k) {
      if (vector.ns[k] == 0) continue;
      BlameSegment segment;
      segment.begin_ns = blame.end_ns;
      segment.end_ns = blame.end_ns += vector.ns[k];
      segment.blame = static_cast<Blame>(k);
      blame.segments.push_back(segment);
    }
    return blame;
  }
  Verdict Judge(const RequestBlame& blame, const VerdictOptions& options = {}) const {
    Verdict verdict;
    REQUIRE(FindVerdict(index, blame, baseline, 0, options, &verdict).ok());
    return verdict;
  }

  // Sets the depth of GPU records, in the first and in the second half.
  void Record(Depth first, Depth second) {
    trace_.depths = {{0, 50 * kMs, first}, {50 * kMs, 100'000 * kMs, second}};
    index = BlameIndex();
    REQUIRE(BlameIndex::Make(trace_, BlameOptions(), &index).ok());
  }
  void Record(Depth depth) { Record(depth, depth); }

  const model::Trace& trace() const { return trace_; }

  BlameIndex index;
  Baseline baseline;
  uint32_t request, other;

 protected:
  TraceMaker maker_;
  model::Trace trace_;
  std::mt19937_64 random_{7};
};

// The same with a size of its own; normal ones have 224.
class Sized : public Route {
 public:
  explicit Sized(double size) {
    maker_.trace.requests[request].sizes = {{maker_.String("pixels"), size}};
    trace_ = maker_.Finish();
    REQUIRE(BlameIndex::Make(trace_, BlameOptions(), &index).ok());
  }
};

// The same; its executor has a lock, and every ms another thread begins to wait for it.
class Locking : public Route {
 public:
  static constexpr uint32_t kHolder = 0, kWaiter = 1;
  // `held_ns`: for so long from the beginning on, the thread `tid` had the interpreter (0: it is not known which).
  // `file`: where waits are recorded; by default in Python.
  explicit Locking(int64_t held_ns = 0, uint64_t tid = 77, const char* file = "pitot/c.h") {
    REQUIRE(maker_.Thread("http") == kWaiter);
    const uint32_t wait = maker_.WaitSite();
    maker_.trace.sites[wait].file = maker_.String(file);
    for (int64_t ms = 0; ms < 100; ++ms)
      maker_.Event(kWaiter, wait, ms * kMs, kMs / 2, {},
                   {static_cast<uint64_t>(pitot::WaitKind::kLock), maker_.String("cache"),
                    maker_.trace.threads[kHolder].number, 0});
    if (held_ns != 0) {
      const uint32_t held = maker_.Site(SiteKind::kScope, "waited for the interpreter's lock",
                                        {{"tid", pitot::ArgType::kInt},
                                         {"thread", pitot::ArgType::kName},
                                         {"place", pitot::ArgType::kName},
                                         {"on_cpu_ns", pitot::ArgType::kUint}});
      maker_.trace.sites[held].file = maker_.String("pitot/interpreter.h");
      maker_.trace.sites[held].function = maker_.String("RecordLockHeld");
      maker_.Event(maker_.Thread("pitot-python"), held, 0, held_ns, {},
                   {tid, maker_.String("cruncher"), maker_.String("app.py:88 render"), 0});
    }
    trace_ = maker_.Finish();
    REQUIRE(BlameIndex::Make(trace_, BlameOptions(), &index).ok());
  }
};

// The same, and the waiter waited for a CPU for so long in all.
class Delayed : public Locking {
 public:
  explicit Delayed(int64_t delay_ns) {
    constexpr int64_t kTid = 41;
    trace_.threads[kWaiter].tid = kTid;
    const auto count = [&](const pitot::base::CounterName& what, int64_t value) {
      const auto counter = static_cast<uint32_t>(trace_.counters.size());
      trace_.counters.push_back(
          {kNone, trace_.strings.Add(pitot::base::ThreadCounter(kTid, what)), trace_.strings.Add("ns")});
      for (const auto& [at_ns, reading] : {std::pair<int64_t, int64_t>{0, 0}, {100 * kMs, value}}) {
        trace_.samples.counter.push_back(counter);
        trace_.samples.at_ns.push_back(at_ns);
        trace_.samples.value.push_back(static_cast<double>(reading));
      }
    };
    count(pitot::base::kOnCpu, 0);
    count(pitot::base::kRunQueueDelay, delay_ns);
    REQUIRE(BlameIndex::Make(trace_, BlameOptions(), &index).ok());
  }
};

BlameSegment* Find(RequestBlame* blame, Blame of) {
  for (BlameSegment& segment : blame->segments) {
    if (segment.blame == of) return &segment;
  }
  return nullptr;
}

// The same, with two scopes on the executor.
class Scoped : public Route {
 public:
  static constexpr uint32_t kForward = 0, kConvolve = 1;
  explicit Scoped(const std::vector<std::pair<const char*, int64_t>>& stages = {}) {
    for (const auto& [name, begin_ns] : stages)
      maker_.trace.requests[request].stages.push_back({maker_.String(name), begin_ns, 0});
    maker_.Event(0, maker_.Site(SiteKind::kScope, "forward"), 10 * kMs, 40 * kMs);
    maker_.Event(0, maker_.Site(SiteKind::kScope, "convolve"), 11 * kMs, 30 * kMs);
    trace_ = maker_.Finish();
    REQUIRE(BlameIndex::Make(trace_, BlameOptions(), &index).ok());
  }
};

// The same, with more batches of `members` requests of its route and size, each `ms` long. The last batch takes 40 ms,
// and may have waited for members for 35 of these.
class Busy : public Route {
 public:
  explicit Busy(int64_t ms, int others = 10, int members = 1, bool has_waited = false) {
    for (int i = 0; i < others; ++i) {
      const int64_t begin_ns = (200 + 100 * i) * kMs;
      const uint32_t batch = maker_.Batch(0x20 + i, "resnet50", 0, begin_ns, ms * kMs);
      for (int member = 0; member < members; ++member) {
        const uint32_t row = maker_.Request(0x200 + 8 * i + member, "/classify", begin_ns, ms * kMs);
        maker_.trace.requests[row].size_bucket = 4;
        maker_.Member(batch, row, begin_ns);
      }
    }
    last = maker_.Batch(0x99, "resnet50", 0, 9000 * kMs, 40 * kMs);
    maker_.Member(last, other, 9000 * kMs);
    if (has_waited) maker_.Event(0, maker_.WaitSite(), 9000 * kMs, 35 * kMs, {model::kNone, last});
    trace_ = maker_.Finish();
    REQUIRE(BlameIndex::Make(trace_, BlameOptions(), &index).ok());
  }
  uint32_t last;
};

// The same, with others of its route and size in flight at 10 ms: some take 38 ms, and the rest 36. As many others are
// not in flight while the request is.
class Meanwhile : public Route {
 public:
  Meanwhile(int slow, int others) {
    for (int i = 0; i < others; ++i) {
      const int64_t took_ns = (i < slow ? 38 : 36) * kMs;
      for (const int64_t begin_ns : {10 * kMs, 300 * kMs})
        maker_.trace.requests[maker_.Request(0x300 + 2 * i + begin_ns / (300 * kMs), "/classify", begin_ns, took_ns)]
            .size_bucket = 4;
    }
    trace_ = maker_.Finish();
    REQUIRE(BlameIndex::Make(trace_, BlameOptions(), &index).ok());
  }
};

// The same; its batch launched a kernel for 5 ms at 30 ms, and nine times for 10 us from 36 ms on. Calls are recorded
// since another one.
class Loading : public Route {
 public:
  static constexpr uint32_t kFirst = 1;
  explicit Loading(int64_t recorded_since_ms) {
    maker_.trace.streams.push_back({0, 1, 7, 0, 0, 0});
    maker_.Call(0, "cudaGetDevice", recorded_since_ms * kMs, kUs, {model::kNone, 0});
    for (int i = 0; i < 10; ++i) {
      const int64_t begin_ns = i == 0 ? 30 * kMs : 36 * kMs + i * kMs / 2, took_ns = i == 0 ? 5 * kMs : 10 * kUs;
      maker_.Call(0, "cudaLaunchKernel", begin_ns, took_ns, {model::kNone, 0});
      maker_.Gpu(0, model::GpuKind::kKernel, "add", begin_ns + took_ns + kUs, kUs, maker_.trace.calls.size() - 1);
    }
    trace_ = maker_.Finish();
    REQUIRE(BlameIndex::Make(trace_, BlameOptions(), &index).ok());
  }
};

// Divides its first segment of a part into equal ones of `each_ns`.
void Split(RequestBlame* blame, Blame of, int64_t each_ns) {
  const auto whole = std::find_if(blame->segments.begin(), blame->segments.end(),
                                  [&](const BlameSegment& segment) { return segment.blame == of; });
  std::vector<BlameSegment> parts;
  for (int64_t at_ns = whole->begin_ns; at_ns < whole->end_ns; at_ns += each_ns) {
    parts.push_back(*whole);
    parts.back().begin_ns = at_ns;
    parts.back().end_ns = at_ns + each_ns;
  }
  blame->segments.insert(blame->segments.erase(whole), parts.begin(), parts.end());
}

// The same; its batch has 40 known operations of a GPU, of one kernel or of as many.
class Launching : public Route {
 public:
  static constexpr uint32_t kMatmul = 0, kRelu = 1;  // events of one site, like all operators
  explicit Launching(bool is_one_kernel = true) {
    const uint32_t site = maker_.Site(SiteKind::kOperator, "operator", {{"name", ArgType::kName}});
    maker_.trace.sites[site].name_is_first_arg = true;
    maker_.Event(0, site, 15 * kMs, 4 * kMs, {}, {maker_.String("aten::matmul")});
    maker_.Event(0, site, 16 * kMs, 2 * kMs, {}, {maker_.String("aten::relu")});
    maker_.trace.streams.push_back({0, 1, 7, 0, 0, 0});
    for (int i = 0; i < 40; ++i) {
      maker_.Call(0, "cudaLaunchKernel", 20 * kMs + i * kMs / 2, 10 * kUs, {model::kNone, 0});
      const std::string kernel = is_one_kernel ? "add" : "add" + std::to_string(i);
      maker_.Gpu(0, model::GpuKind::kKernel, kernel.c_str(), 20 * kMs + i * kMs / 2 + 20 * kUs, 5 * kUs,
                 maker_.trace.calls.size() - 1);
    }
    trace_ = maker_.Finish();
    REQUIRE(BlameIndex::Make(trace_, BlameOptions(), &index).ok());
  }
};

}  // namespace

TEST_CASE("a verdict names the part, its excess, the culprit and the advice", "[verdict]") {
  Route route;
  route.Learn(512);
  BlameVector slow = route.Draw();
  slow[Blame::kQueueWaitOthers] += 15 * kMs;
  RequestBlame blame = route.Make(slow);
  Find(&blame, Blame::kQueueWaitOthers)->by.request = route.other;

  const Verdict verdict = route.Judge(blame);

  REQUIRE(verdict.kind == VerdictKind::kCauses);
  REQUIRE(verdict.causes.size() == 1);
  const Cause& cause = verdict.causes[0];
  CHECK(cause.blame == Blame::kQueueWaitOthers);
  CHECK(std::llabs(cause.excess_ns - 15 * kMs) < 500 * kUs);
  CHECK(cause.by.request == route.other);
  CHECK(cause.by_ns == slow[Blame::kQueueWaitOthers]);
  CHECK(cause.p <= 0.02);
  CHECK(cause.p >= verdict.least_p);
  CHECK(cause.confidence > 0.95);
  CHECK(cause.saving_ns == cause.excess_ns);
  CHECK(std::string(cause.advice.code) == "add_capacity");
  CHECK(verdict.level == Baseline::Level::kCell);
  CHECK(verdict.baseline_size == 512);
  CHECK(verdict.percentile == 1);
}

TEST_CASE("causes, the common part and the rest add up to the excess for any request", "[verdict]") {
  Route route;
  route.Learn(300);
  std::mt19937_64 random(3);
  for (int i = 0; i < 300; ++i) {
    BlameVector blame = route.Draw();
    for (uint64_t faults = random() % 4; faults > 0; --faults)
      blame.ns[random() % kBlames] += static_cast<int64_t>(random() % (20 * kMs));
    const Verdict verdict = route.Judge(route.Make(blame));
    REQUIRE(verdict.normal.Total() == verdict.typical_ns);
    // By blame and normal values, part by part.
    uint32_t named = 0;
    int64_t common_ns = verdict.common_ns;
    for (const Cause& cause : verdict.causes) {
      REQUIRE((named & BlameBit(cause.blame)) == 0);
      named |= BlameBit(cause.blame);
      REQUIRE(cause.excess_ns == blame[cause.blame] - verdict.normal[cause.blame] - cause.common_ns);
      REQUIRE(cause.saving_ns <= std::max<int64_t>(blame[cause.blame] - verdict.normal[cause.blame], 0));
      REQUIRE(cause.confidence >= 0);
      REQUIRE(cause.confidence <= 1);
      common_ns -= cause.common_ns;
    }
    int64_t rest_ns = 0;
    for (uint32_t k = 0; k < kBlames; ++k) rest_ns += (named >> k & 1) != 0 ? 0 : blame.ns[k] - verdict.normal.ns[k];
    REQUIRE(verdict.rest_ns == rest_ns - common_ns);
    REQUIRE(verdict.causes.size() <= 3);
  }
}

TEST_CASE("inferred causes have less confidence than proved ones", "[verdict]") {
  Route route;
  route.Learn(512);
  BlameVector slow = route.Draw();
  slow[Blame::kQueueWaitOthers] += 15 * kMs;
  RequestBlame blame = route.Make(slow);
  Find(&blame, Blame::kQueueWaitOthers)->by.thread = 0;  // at work for an unknown owner

  const Cause inferred = route.Judge(blame).causes.at(0);
  Find(&blame, Blame::kQueueWaitOthers)->by.request = route.other;
  const Cause proved = route.Judge(blame).causes.at(0);
  slow = route.Draw();
  slow[Blame::kHostOncpuPre] += 15 * kMs;  // and no counter says that it was on a CPU
  const Cause code = route.Judge(route.Make(slow)).causes.at(0);

  CHECK(inferred.confidence == Approx(0.7 * proved.confidence));
  CHECK(std::string(inferred.unsure) == "the owner of that work is not known");
  CHECK(std::string(proved.unsure).empty());
  slow = route.Draw();
  slow[Blame::kLaunchApi] += 15 * kMs;
  const Cause launches = route.Judge(route.Make(slow)).causes.at(0);
  CHECK(launches.confidence == Approx(0.8 * (1 - launches.p)).margin(0.02));
  REQUIRE(code.blame == Blame::kHostOncpuPre);
  CHECK(code.confidence == Approx(0.8 * (1 - code.p)).margin(0.02));
  for (const Cause& cause : {code, launches})
    CHECK(std::string(cause.unsure) == "it may have slept: no counter shows its thread on a CPU");
}

TEST_CASE("GPU work of unknown usual length is inferred to take as long as usual", "[verdict]") {
  const auto judge = [](bool is_one_kernel) {
    Launching route(is_one_kernel);
    route.Learn(512);
    BlameVector slow = route.Draw();
    slow[Blame::kGpuExecExpected] += 15 * kMs;
    RequestBlame blame = route.Make(slow);
    Find(&blame, Blame::kGpuExecExpected)->gpu = 0;
    return route.Judge(blame).causes.at(0);
  };
  const Cause known = judge(true), unknown = judge(false);

  CHECK(unknown.confidence == Approx(0.7 * known.confidence));
  CHECK(std::string(unknown.unsure) == "the usual time of such work, or whose it was, is not known");
  CHECK(std::string(known.advice.code) == "speed_kernels");
  CHECK(std::string(unknown.advice.code) == "compare_kernels");
}

TEST_CASE("a verdict that blames a kernel has the command to measure it", "[verdict]") {
  Launching route;
  route.Learn(512);
  BlameVector slow = route.Draw();
  SECTION("slow") {
    slow[Blame::kGpuExecExpected] += 15 * kMs;
    RequestBlame blame = route.Make(slow);
    Find(&blame, Blame::kGpuExecExpected)->gpu = 0;
    const Verdict verdict = route.Judge(blame);

    const std::string text = VerdictText(route.index, blame, verdict);
    CHECK(text.find("\nmeasure it  pitot counters release --for 600; ncu ") != std::string::npos);
    CHECK(text.find("--kernel-name 'regex:^add$'") != std::string::npos);
    CHECK(VerdictJson(route.index, blame, verdict).find("\"ncu\":") != std::string::npos);
  }
  SECTION("not for launches") {
    slow[Blame::kLaunchApi] += 15 * kMs;
    RequestBlame blame = route.Make(slow);
    Find(&blame, Blame::kLaunchApi)->gpu = 0;
    const Verdict verdict = route.Judge(blame);

    CHECK(VerdictText(route.index, blame, verdict).find("ncu") == std::string::npos);
    CHECK(VerdictJson(route.index, blame, verdict).find("\"ncu\"") == std::string::npos);
  }
}

TEST_CASE("work that only moved from a thread to the GPU, or back, is not a cause", "[verdict]") {
  const auto judge = [](int64_t launching_ms) {
    Route route;
    route.LearnEach(
        [&](int, BlameVector& blame) { blame[Blame::kLaunchApi] = 5 * kMs + blame[Blame::kHostOncpuPre] % 9; });
    BlameVector slow = route.Typical();
    slow[Blame::kGpuQueueWaitOthers] += 8 * kMs;
    slow[Blame::kGpuExecExpected] += 2 * kMs;  // otherwise hidden behind launches
    slow[Blame::kLaunchApi] = launching_ms * kMs;
    std::string named;
    for (const Cause& cause : route.Judge(route.Make(slow)).causes) named += std::string(BlameName(cause.blame)) + " ";
    return named;
  };
  CHECK(judge(5) == "gpu_queue_wait_others gpu_exec_expected ");
  CHECK(judge(3) == "gpu_queue_wait_others ");
}

TEST_CASE("a launch that is only the first in the trace is less sure to be loading than one of a new kernel",
          "[verdict]") {
  const auto cause = [](int64_t recorded_since_ms) {
    Loading route(recorded_since_ms);
    route.Learn(512);
    BlameVector slow = route.Typical();
    slow[Blame::kLazyLoadJit] += 15 * kMs;
    RequestBlame blame = route.Make(slow);
    Find(&blame, Blame::kLazyLoadJit)->call = Loading::kFirst;
    return route.Judge(blame).causes.at(0);
  };
  CHECK(cause(29).confidence == Approx(0.6 * cause(1).confidence));
  CHECK(std::string(cause(29).unsure) == "the first in this trace need not be new");
}

TEST_CASE("faults that may have been short are less sure than a wait marked as input or output", "[verdict]") {
  const auto cause = [](uint32_t counter) {
    Route route;
    route.Learn(512);
    BlameVector slow = route.Typical();
    slow[Blame::kHostPagefaultIo] += 15 * kMs;
    RequestBlame blame = route.Make(slow);
    Find(&blame, Blame::kHostPagefaultIo)->counter = counter;
    return route.Judge(blame).causes.at(0);
  };
  CHECK(cause(0).confidence == Approx(0.6 * cause(model::kNone).confidence));
  CHECK(std::string(cause(0).unsure) == "so few page faults may take no time");
}

TEST_CASE("few requests are tested for their times alone if half of alpha is below their least p", "[verdict]") {
  const int normal = GENERATE(80, 200);  // with 80, half of 5 % is also less than the least p
  CAPTURE(normal);
  Launching route;
  for (int i = 0; i < normal; ++i) {
    BaselineRow row;
    row.blame = route.Draw();
    row.blame[Blame::kLaunchApi] = 3 * kMs + i % 8 * kMs / 2;
    row.work = {0, i % 8 == 0 ? 40u : 10u, 1, 0, Depth::kKernels};
    REQUIRE(route.baseline.Add("/classify", 4, row).ok());
  }
  BlameVector slow = route.Typical();
  slow[Blame::kLaunchApi] = 20 * kMs;

  const Verdict verdict = route.Judge(route.Make(slow));

  REQUIRE(verdict.more_of == "launches");
  REQUIRE(verdict.least_p > 0.01);
  REQUIRE(verdict.causes.size() == 1);
  CHECK(verdict.causes[0].blame == Blame::kLaunchApi);
  CHECK(verdict.causes[0].p <= verdict.alpha);
}

TEST_CASE("requests are compared with those recorded at the same depth", "[verdict]") {
  Route route;
  const auto fine = [&] {  // 10 ms of the model: 2 ms of code, and a kernel
    BlameVector blame = route.Draw();
    blame[Blame::kGpuExecExpected] += blame[Blame::kHostOncpuFramework] - 2 * kMs;
    blame[Blame::kHostOncpuFramework] = 2 * kMs;
    return blame;
  };
  const auto coarse = [&] {
    BlameVector blame = route.Draw();
    blame[Blame::kHostOncpuFramework] += blame[Blame::kGpuExecExpected];
    blame[Blame::kGpuExecExpected] = 0;
    return blame;
  };
  const auto learn = [&](int n, Depth depth) {
    for (int i = 0; i < n; ++i) {
      WorkDone work{224, depth == Depth::kScopes ? 0u : 3u, 1, 0};
      work.depth = depth;
      REQUIRE(route.baseline.Add("/classify", 4, {0, depth == Depth::kScopes ? coarse() : fine(), work}).ok());
    }
  };

  SECTION("a late one with its kernels, among others without: a slow kernel is not why") {
    route.Record(Depth::kKernels);
    learn(200, Depth::kScopes);
    BlameVector slow = fine();
    slow[Blame::kQueueWaitOthers] += 15 * kMs;
    const Verdict verdict = route.Judge(route.Make(slow));
    CHECK(verdict.is_coarse);
    REQUIRE(verdict.causes.size() == 1);
    CHECK(verdict.causes[0].blame == Blame::kQueueWaitOthers);
    CHECK(verdict.typical_ns == verdict.normal.Total());

    slow = fine();
    slow[Blame::kGpuQueueWaitOthers] += 15 * kMs;  // it is the GPU, but only the whole is known to be so much more
    const RequestBlame blame = route.Make(slow);
    const Verdict gpu = route.Judge(blame);
    REQUIRE(gpu.causes.size() == 1);
    CHECK(gpu.causes[0].blame == Blame::kHostOncpuFramework);
    CHECK(std::llabs(gpu.causes[0].excess_ns - 15 * kMs) < 2 * kMs);
    CHECK(gpu.causes[0].confidence <= 0.8);
    CHECK(std::string(gpu.causes[0].unsure) == "recorded at different depths");
    CHECK(blame.segments.at(gpu.causes[0].longest.at(0)).blame == Blame::kGpuQueueWaitOthers);
    CHECK(VerdictText(route.index, blame, gpu).find("recorded at different depths") != std::string::npos);
  }
  SECTION("one without, among others with theirs: its code is not why") {
    route.Record(Depth::kScopes);
    learn(200, Depth::kKernels);
    BlameVector slow = coarse();
    slow[Blame::kQueueWaitOthers] += 15 * kMs;
    const Verdict verdict = route.Judge(route.Make(slow));
    CHECK(verdict.is_coarse);
    REQUIRE(verdict.causes.size() == 1);
    CHECK(verdict.causes[0].blame == Blame::kQueueWaitOthers);
  }
  SECTION("one that was recorded deeper when it was late is compared as those that never were") {
    route.Record(Depth::kScopes, Depth::kKernels);
    learn(200, Depth::kScopes);
    BlameVector slow = fine();
    slow[Blame::kQueueWaitOthers] += 15 * kMs;
    const Verdict verdict = route.Judge(route.Make(slow));
    CHECK(verdict.is_coarse);
    REQUIRE(verdict.causes.size() == 1);
    CHECK(verdict.causes[0].blame == Blame::kQueueWaitOthers);
  }
  SECTION("where enough were recorded as deep, by these alone") {
    route.Record(Depth::kKernels);
    learn(200, Depth::kScopes);
    learn(150, Depth::kOps);
    BlameVector slow = fine();
    slow[Blame::kGpuQueueWaitOthers] += 15 * kMs;
    const Verdict verdict = route.Judge(route.Make(slow));
    CHECK_FALSE(verdict.is_coarse);
    CHECK(verdict.baseline_size == 150);
    REQUIRE(verdict.causes.size() == 1);
    CHECK(verdict.causes[0].blame == Blame::kGpuQueueWaitOthers);
    CHECK(verdict.kind == VerdictKind::kCauses);
  }
}

TEST_CASE("abnormal parts without a cause do not pass for the normal range", "[verdict]") {
  Route route;
  route.Learn(512);
  BlameVector slow = route.Draw();
  for (const Blame part : {Blame::kAllocStall, Blame::kHostLock, Blame::kHandoff, Blame::kExecutorBusy})
    slow[part] += 10 * kMs + static_cast<int64_t>(part);  // four, three of them named
  const RequestBlame blame = route.Make(slow);

  const Verdict verdict = route.Judge(blame);

  REQUIRE(verdict.causes.size() == 3);
  CHECK(verdict.unnamed == 1);
  CHECK(verdict.unnamed_ns >= 10 * kMs);
  const std::string text = VerdictText(route.index, blame, verdict);
  CHECK(text.find(": +10.0 ms of 1 lesser cause") != std::string::npos);
}

TEST_CASE("the rest offsets causes longer than the excess, and no saving exceeds the excess", "[verdict]") {
  Route route;
  route.Learn(512);
  BlameVector slow = route.Typical();
  slow[Blame::kHostLock] += 6 * kMs;
  slow[Blame::kAllocStall] += 6 * kMs;
  slow[Blame::kHostOncpuFramework] -= 9 * kMs;
  const RequestBlame blame = route.Make(slow);

  const Verdict verdict = route.Judge(blame);

  const int64_t excess_ns = verdict.latency_ns - verdict.typical_ns;
  REQUIRE(verdict.causes.size() == 2);
  REQUIRE(excess_ns < 4 * kMs);
  CHECK(verdict.rest_ns < -8 * kMs);
  CHECK(verdict.causes[0].saving_ns == excess_ns);
  CHECK(verdict.joint_saving_ns == excess_ns);
  const std::string text = VerdictText(route.index, blame, verdict);
  CHECK(text.find("offset by -9.") != std::string::npos);
  CHECK(text.find(" ms of parts shorter than usual") != std::string::npos);
  CHECK(text.find("within the normal range") == std::string::npos);
}

TEST_CASE("a rest of lesser causes and offsets names both, in lines of a hundred columns", "[verdict]") {
  Route route;
  route.Learn(512);
  BlameVector slow = route.Typical();
  for (const Blame part : {Blame::kAllocStall, Blame::kHostLock, Blame::kHandoff, Blame::kExecutorBusy})
    slow[part] += 10 * kMs + static_cast<int64_t>(part);  // four, three of them named
  slow[Blame::kHostOncpuFramework] -= 8 * kMs;
  const RequestBlame blame = route.Make(slow);

  const std::string text = VerdictText(route.index, blame, route.Judge(blame));

  const auto at = text.find("rest +");
  REQUIRE(at != std::string::npos);
  const std::string line = text.substr(at, text.find('\n', at) - at);
  CHECK(line.find(": +10.0 ms of 1 lesser cause, -8") != std::string::npos);
  CHECK(line.find(" ms of parts shorter than usual") != std::string::npos);
  CHECK(line.size() < 96);
  CHECK(text.find("\n     sum of excess ", at) != std::string::npos);
}

TEST_CASE("only the first line of a verdict gives the reason, and parts of 0.0 ms are not listed", "[verdict]") {
  Route route;
  route.Learn(512);
  BlameVector slow = route.Draw();
  slow[Blame::kHostBlockedUnknown] += 20 * kMs;
  const RequestBlame blame = route.Make(slow);
  const Verdict verdict = route.Judge(blame);
  REQUIRE(verdict.kind == VerdictKind::kUndetermined);
  REQUIRE(verdict.causes.size() == 1);
  const std::string text = VerdictText(route.index, blame, verdict);
  CHECK(text.find("why  ") == text.rfind("why  "));
  CHECK(text.find("\n     1) was blocked for ") != std::string::npos);

  VerdictOptions names_nothing;
  names_nothing.least_excess_ns = 1'000 * kMs;
  names_nothing.least_common_factor = 9;
  BlameVector longer = route.Typical();
  longer[Blame::kHostLock] += 20 * kMs;
  longer[Blame::kHandoff] += 30 * kUs;
  const Verdict diffuse = route.Judge(route.Make(longer), names_nothing);
  REQUIRE(diffuse.kind == VerdictKind::kDiffuse);
  REQUIRE_FALSE(diffuse.largest.empty());
  for (const Cause& part : diffuse.largest) CHECK(part.excess_ns >= 50 * kUs);
}

TEST_CASE("a size that is not a number counts as none", "[verdict]") {
  for (const double size : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    Route route;
    route.Learn(512, {size, 0, 1, 0, Depth::kKernels});
    std::vector<BaselineRow> rows;
    REQUIRE(route.baseline.Find("/classify", 4, 0, 1, &rows) == Baseline::Level::kCell);
    CHECK(rows[0].work.size == 0);
  }
}

TEST_CASE("two causes come in the order of their excess", "[verdict]") {
  Route route;
  route.Learn(512);
  BlameVector slow = route.Draw();
  slow[Blame::kAllocStall] += 5 * kMs;
  slow[Blame::kGpuQueueWaitOthers] += 14 * kMs;

  const Verdict verdict = route.Judge(route.Make(slow));

  REQUIRE(verdict.causes.size() == 2);
  CHECK(verdict.causes[0].blame == Blame::kGpuQueueWaitOthers);
  CHECK(verdict.causes[1].blame == Blame::kAllocStall);
  CHECK(verdict.joint_saving_ns == verdict.causes[0].saving_ns + verdict.causes[1].saving_ns);
}

TEST_CASE("one slow part is not a slow clock, even if it is most of the time", "[verdict]") {
  Route route;
  route.Learn(512);
  BlameVector slow = route.Draw();
  slow[Blame::kHostOncpuFramework] *= 2;

  const Verdict verdict = route.Judge(route.Make(slow));

  REQUIRE(verdict.kind == VerdictKind::kCauses);
  CHECK(verdict.causes[0].blame == Blame::kHostOncpuFramework);
}

TEST_CASE("all code and kernels slower by the same factor are a slow clock, and not a cause", "[verdict]") {
  Route route;
  route.Learn(512);
  BlameVector slow = route.Typical();
  for (const Blame part :
       {Blame::kHostOncpuPre, Blame::kHostOncpuFramework, Blame::kHostOncpuPost, Blame::kGpuExecExpected})
    slow[part] = slow[part] * 14 / 10;

  const Verdict verdict = route.Judge(route.Make(slow));

  CHECK(verdict.kind == VerdictKind::kUniform);
  CHECK_THAT(VerdictSentence(route.index, route.Make(slow), verdict),
             Catch::Contains(" % slower, ") && Catch::EndsWith(" ms in all."));
  CHECK(verdict.common_factor == Approx(0.4).margin(0.02));
  CHECK(verdict.causes.empty());
  CHECK(verdict.common_ns > 5 * kMs);
}

TEST_CASE("a little code next to a long wait is not everything, however much slower it is", "[verdict]") {
  const auto judge = [](int64_t waited_ms) {
    Route route;
    route.LearnEach([&](int, BlameVector& blame) { blame[Blame::kQueueWaitOthers] = waited_ms * kMs; });
    BlameVector slow = route.Typical();
    slow[Blame::kQueueWaitOthers] = waited_ms * kMs;
    for (const Blame part :
         {Blame::kHostOncpuPre, Blame::kHostOncpuFramework, Blame::kHostOncpuPost, Blame::kGpuExecExpected})
      slow[part] = slow[part] * 14 / 10;
    return route.Judge(route.Make(slow)).kind;
  };
  CHECK(judge(50) == VerdictKind::kUniform);  // 16 ms of 66 ms
  CHECK(judge(80) != VerdictKind::kUniform);  // of 96 ms
}

TEST_CASE("a machine is not slower by more than clocks can fall", "[verdict]") {
  for (const int64_t times : {5, 7}) {
    Route route;
    route.Learn(512);
    BlameVector slow = route.Typical();
    for (const Blame part :
         {Blame::kHostOncpuPre, Blame::kHostOncpuFramework, Blame::kHostOncpuPost, Blame::kGpuExecExpected})
      slow[part] = slow[part] * times;
    VerdictOptions options;
    options.most_common_factor = 5;

    CHECK((route.Judge(route.Make(slow), options).kind == VerdictKind::kUniform) == (times == 5));
  }
}

TEST_CASE("a general slowdown is not the verdict if it is little of the excess", "[verdict]") {
  const auto judge = [](int64_t waited_ms) {
    Route route;
    route.Learn(512);
    BlameVector slow = route.Typical();
    for (const Blame part :
         {Blame::kHostOncpuPre, Blame::kHostOncpuFramework, Blame::kHostOncpuPost, Blame::kGpuExecExpected})
      slow[part] = slow[part] * 14 / 10;  // 6.4 ms more
    slow[Blame::kQueueWaitOthers] += waited_ms * kMs;
    return route.Judge(route.Make(slow));
  };
  CHECK(judge(5).kind == VerdictKind::kUniform);
  const Verdict verdict = judge(50);
  CHECK(verdict.kind == VerdictKind::kCauses);
  REQUIRE(!verdict.causes.empty());
  CHECK(verdict.causes[0].blame == Blame::kQueueWaitOthers);
  CHECK(verdict.common_ns == 0);
}

TEST_CASE("code and its launches are one part: both slower are not a slow clock", "[verdict]") {
  Route route;
  const auto draw = [&] {  // of a launch-bound server
    BlameVector blame = route.Draw();
    blame[Blame::kLaunchApi] = blame[Blame::kHostOncpuFramework] * 7 / 10;
    blame[Blame::kGpuExecExpected] = 0;
    return blame;
  };
  for (int i = 0; i < 512; ++i) {
    BaselineRow row;
    row.work.depth = Depth::kKernels;
    row.blame = draw();
    REQUIRE(route.baseline.Add("/classify", 4, row).ok());
  }
  BlameVector slow = draw();
  for (const Blame part : {Blame::kHostOncpuFramework, Blame::kLaunchApi}) slow[part] = slow[part] * 15 / 10;

  const Verdict verdict = route.Judge(route.Make(slow));

  CHECK(verdict.kind == VerdictKind::kCauses);
  REQUIRE(verdict.causes.size() == 2);
  CHECK(verdict.causes[0].blame == Blame::kHostOncpuFramework);
  CHECK(verdict.causes[1].blame == Blame::kLaunchApi);
}

TEST_CASE("more launches for a request of the same size are not more work: their part is named", "[verdict]") {
  for (const uint32_t bucket : {4u, 3u}) {  // its own, or another one: then it may be larger
    Launching route;
    for (int i = 0; i < 512; ++i) {
      BaselineRow row;
      row.blame = route.Draw();
      row.blame[Blame::kLaunchApi] = 2 * kMs;
      row.work = {0, 10, 1, 0, Depth::kKernels};
      REQUIRE(route.baseline.Add("/classify", bucket, row).ok());
    }
    BlameVector slow = route.Draw();
    slow[Blame::kLaunchApi] = 8 * kMs;

    const RequestBlame blame = route.Make(slow);
    const Verdict verdict = route.Judge(blame);

    CHECK(verdict.more_of == "launches");
    CHECK(verdict.more_factor == Approx(4));
    CHECK((verdict.kind == VerdictKind::kCauses) == (bucket == 4));
    CHECK((verdict.kind == VerdictKind::kMoreWork) == (bucket == 3));
    REQUIRE(verdict.causes.size() == (bucket == 4 ? 1 : 0));
    if (bucket == 3) continue;
    CHECK(verdict.causes[0].blame == Blame::kLaunchApi);
    BlameVector hardly = route.Typical();  // too little of any part to name it
    hardly[Blame::kLaunchApi] = 2 * kMs + 190 * kUs;
    VerdictOptions options;
    options.normal_percentile = 0.5;
    const Verdict unnamed = route.Judge(route.Make(hardly), options);
    CHECK(unnamed.kind == VerdictKind::kMoreWork);
    const std::string said = VerdictText(route.index, route.Make(hardly), unnamed);
    CHECK(said.find("the same work with 4 times the usual launches, and no part stands out") != std::string::npos);
    CHECK(said.find("more work") == std::string::npos);
    CHECK(VerdictText(route.index, blame, verdict).find("it had 4 times the usual launches") != std::string::npos);
  }
}

namespace {

// Its batch waited 100 times for a GPU.
class Waiting : public Route {
 public:
  explicit Waiting(uint32_t launches = 0) {
    for (int i = 0; i < 100; ++i)
      maker_.Call(0, "cudaStreamSynchronize", 20 * kMs + i * kMs / 5, 10 * kUs, {model::kNone, 0});
    trace_ = maker_.Finish();
    trace_.batches[0].launches = launches;
    REQUIRE(BlameIndex::Make(trace_, BlameOptions(), &index).ok());
  }
};

}  // namespace

TEST_CASE("a batch that waited for the GPU again and again is said to, as far as so many waits may cost", "[verdict]") {
  Waiting route;
  for (int i = 0; i < 512; ++i) {
    BaselineRow row;
    row.blame = route.Draw();
    row.work.waits = 2;
    REQUIRE(route.baseline.Add("/classify", 4, row).ok());
  }
  const auto judge = [&](int64_t more_ns) {
    BlameVector slow = route.Typical();
    slow[Blame::kHostOncpuFramework] += more_ns;
    return route.Judge(route.Make(slow));
  };

  const Verdict many = judge(4 * kMs);  // 98 more waits cost 6.4 ms at most
  CHECK(many.kind == VerdictKind::kCauses);
  CHECK(many.more_of == "waits for a GPU");
  CHECK(many.more_factor == Approx(50));
  REQUIRE(many.causes.size() == 1);
  CHECK(many.causes[0].blame == Blame::kHostOncpuFramework);
  CHECK(std::string(many.causes[0].advice.code) == "wait_once");
  BlameVector slow = route.Typical();
  slow[Blame::kHostOncpuFramework] += 4 * kMs;
  CHECK(VerdictSentence(route.index, route.Make(slow), many).find(", with 50 times the usual waits for a GPU.") !=
        std::string::npos);
  CHECK(judge(15 * kMs).more_of.empty());
}

TEST_CASE("requests whose waits for a GPU were not recorded say nothing of the usual number", "[verdict]") {
  const bool is_recorded = GENERATE(false, true);
  Waiting route;
  for (int i = 0; i < 512; ++i) {
    BaselineRow row;
    row.blame = route.Draw();
    row.work.waits = 95;
    if (i % 8 != 0) row.work.waits = is_recorded ? std::optional<uint32_t>(2) : std::nullopt;
    REQUIRE(route.baseline.Add("/classify", 4, row).ok());
  }
  BlameVector slow = route.Typical();
  slow[Blame::kHostOncpuFramework] += kMs;

  CHECK(route.Judge(route.Make(slow)).more_of == (is_recorded ? "waits for a GPU" : ""));
}

TEST_CASE("a request with more launches and more waits is said to have what grew more", "[verdict]") {
  const uint32_t usual_launches = GENERATE(2u, 25u);  // and 50 now
  Waiting route(50);
  route.Record(Depth::kKernels);
  for (int i = 0; i < 512; ++i) {
    BaselineRow row;
    row.blame = route.Draw();
    row.work = {0, usual_launches, 1, 0, Depth::kKernels, 20};
    REQUIRE(route.baseline.Add("/classify", 4, row).ok());
  }
  BlameVector slow = route.Typical();
  slow[Blame::kHostOncpuFramework] += 2 * kMs;

  CHECK(route.Judge(route.Make(slow)).more_of == (usual_launches == 2 ? "launches" : "waits for a GPU"));
}

TEST_CASE("launches are named if hardly a similar request makes so many, however much their time varies", "[verdict]") {
  for (const int every : {0, 96, 8}) {  // one in so many normal requests launches so often: none, 1.3 %, 12.5 %
    Launching route;
    for (int i = 0; i < 512; ++i) {
      BaselineRow row;
      row.blame = route.Draw();
      row.blame[Blame::kLaunchApi] = 3 * kMs + i % 8 * kMs / 2;
      row.work = {0, every != 0 && i % every == 0 ? 40u : 10u, 1, 0, Depth::kKernels};
      REQUIRE(route.baseline.Add("/classify", 4, row).ok());
    }
    BlameVector slow = route.Typical();
    slow[Blame::kLaunchApi] = 6 * kMs;
    const RequestBlame blame = route.Make(slow);

    const Verdict verdict = route.Judge(blame);

    CHECK(verdict.more_of == "launches");
    CHECK((verdict.kind == VerdictKind::kCauses) == (every == 0));
    REQUIRE(verdict.causes.size() == (every == 0 ? 1 : 0));
    const Cause& launches = every == 0 ? verdict.causes[0] : verdict.largest.at(0);
    CHECK(launches.blame == Blame::kLaunchApi);
    CHECK(launches.p > 0.02);                                 // its time varies as much
    CHECK((launches.p_of_launches <= 0.01) == (every == 0));  // each of the two tests has half
    CHECK((launches.p_of_launches <= 0.02) == (every != 8));
    CHECK(verdict.alpha == Approx(every == 0 ? 0.02 : 0.01));
    if (every != 8) CHECK(VerdictText(route.index, blame, verdict).find(" of launches") != std::string::npos);
  }
}

TEST_CASE("a part in which one of forty requests waits long does not hide one farther from usual", "[verdict]") {
  Route route;
  route.LearnEach([](int i, BlameVector& blame) {
    const bool waits = i % 40 == 0 || i % 40 == 21;  // of those that learn and of those that calibrate
    blame[Blame::kExecutorBusy] = waits ? 3 * kMs : 20 * kUs;
    blame[Blame::kHostOncpuFramework] -= waits ? 3 * kMs : 0;  // no slower for it
  });
  BlameVector slow = route.Typical();
  slow[Blame::kHostOncpuPre] += 5 * kMs / 2;

  const Verdict verdict = route.Judge(route.Make(slow));

  REQUIRE(verdict.causes.size() == 1);
  CHECK(verdict.causes[0].blame == Blame::kHostOncpuPre);
}

TEST_CASE("seldom and small parts of normal requests do not hide a larger one", "[verdict]") {
  constexpr Blame kSeldom[] = {Blame::kNetIn,       Blame::kHostLock,           Blame::kHostGil,
                               Blame::kHostGc,      Blame::kHostPagefaultIo,    Blame::kAdmissionQueue,
                               Blame::kHandoff,     Blame::kHostBlockedUnknown, Blame::kAllocStall,
                               Blame::kExecutorBusy};
  Route route;
  route.LearnEach([&](int i, BlameVector& blame) {  // 1 in 170 each, 1 in 17 in all
    if (i % 17 != 0) return;
    blame[kSeldom[i / 17 % 10]] = 4 * kMs / 5;
    blame[Blame::kHostOncpuFramework] -= 4 * kMs / 5;  // no slower for it
  });
  BlameVector slow = route.Typical();
  slow[Blame::kHostOncpuFramework] += 2 * kMs;

  const Verdict verdict = route.Judge(route.Make(slow));

  REQUIRE(verdict.causes.size() == 1);
  CHECK(verdict.causes[0].blame == Blame::kHostOncpuFramework);
}

TEST_CASE("a GPU wait in which the thread went on launching is not lost time, and hides no other", "[verdict]") {
  Route route;
  route.Learn(300);
  for (int i = 0; i < 30; ++i) {  // no slower for it
    BaselineRow row;
    row.blame = route.Draw();
    row.blame[Blame::kGpuQueueWaitOthers] = 6 * kMs;
    row.blame[Blame::kHostOncpuFramework] -= 6 * kMs;
    row.work = {224, 0, 1, 0, Depth::kKernels};
    REQUIRE(route.baseline.Add("/classify", 4, row).ok());
  }
  const auto names_wait = [&](int64_t code_ms) {
    BlameVector blame = route.Typical();
    blame[Blame::kGpuQueueWaitOthers] = 5 * kMs;
    blame[Blame::kHostOncpuFramework] += code_ms * kMs;
    blame[Blame::kHostOncpuPost] += 4 * kMs;  // slow in any case
    const Verdict verdict = route.Judge(route.Make(blame));
    return std::any_of(verdict.causes.begin(), verdict.causes.end(),
                       [](const Cause& cause) { return cause.blame == Blame::kGpuQueueWaitOthers; });
  };
  CHECK(names_wait(0));
  CHECK(!names_wait(-5));
}

TEST_CASE("a wait for others lost no time as far as another wait went on meanwhile", "[verdict]") {
  Route route;
  route.LearnEach(
      [](int i, BlameVector& blame) { blame[Blame::kHostPagefaultIo] = 20 * kMs + (i * 37 % 11 - 5) * 100 * kUs; });
  const auto judge = [&](int64_t queued_ms, int64_t io_ms, int64_t code_ms) {
    BlameVector slow = route.Typical();
    slow[Blame::kQueueWaitOthers] += queued_ms * kMs;
    slow[Blame::kHostPagefaultIo] = io_ms * kMs;
    slow[Blame::kHostOncpuPre] += code_ms * kMs;
    return route.Judge(route.Make(slow));
  };
  const auto excess_in_tree = [](const Verdict& verdict, Blame part) {
    const auto found = std::find_if(verdict.tree.begin(), verdict.tree.end(),
                                    [&](auto& node) { return node.parent == 0 && node.blame == part; });
    return found == verdict.tree.end() ? 0 : found->excess_ns;
  };

  const Verdict both = judge(17, 12, 15);  // the answer came after 8 ms of the turn of others

  REQUIRE(both.causes.size() == 2);
  CHECK(both.causes[0].blame == Blame::kHostOncpuPre);
  CHECK(both.root.blame == Blame::kHostOncpuPre);
  CHECK(both.causes[1].blame == Blame::kQueueWaitOthers);
  CHECK(both.causes[1].excess_ns == Approx(17 * kMs).epsilon(0.02));
  CHECK(both.causes[1].lost_ns == Approx(9 * kMs).epsilon(0.05));
  CHECK(excess_in_tree(both, Blame::kQueueWaitOthers) == both.causes[1].lost_ns);
  int64_t sum_ns = 0;
  for (const auto& node : both.tree) sum_ns += node.parent == 0 ? node.excess_ns : 0;
  CHECK(sum_ns == both.latency_ns - both.typical_ns);

  const Verdict whole = judge(17, 20, 15);  // nothing else went on
  REQUIRE(whole.causes.size() == 2);
  CHECK(whole.causes[0].blame == Blame::kQueueWaitOthers);
  CHECK(whole.causes[0].lost_ns == whole.causes[0].excess_ns);

  const Verdict nothing_lost = judge(8, 12, 5);
  REQUIRE(nothing_lost.causes.size() == 1);
  CHECK(nothing_lost.causes[0].blame == Blame::kHostOncpuPre);
}

TEST_CASE("recorded clocks say whether they were lower during a general slowdown", "[verdict]") {
  // The request is in the tenth second. A clock is sampled once a second.
  class Clocked : public Route {
   public:
    explicit Clocked(const char* name, double usually, double then) {
      trace_.counters.push_back({kNone, trace_.strings.Add(name), trace_.strings.Add("MHz")});
      for (int64_t second = 0; second < 100; ++second) {
        trace_.samples.counter.push_back(0);
        trace_.samples.at_ns.push_back(second * 1'000 * kMs);
        trace_.samples.value.push_back(second == 10 ? then : usually + static_cast<double>(second % 3));
      }
      REQUIRE(FindInconsistency(trace_) == "");
      Learn(512);
    }
    Verdict JudgeSlower() {
      BlameVector slow = Typical();
      for (int64_t& part : slow.ns) part = part * 14 / 10;
      RequestBlame blame = Make(slow);
      const int64_t length = blame.end_ns - blame.begin_ns;
      blame.begin_ns = 10'200 * kMs;
      blame.end_ns = blame.begin_ns + length;
      for (BlameSegment& segment : blame.segments) segment.begin_ns += blame.begin_ns, segment.end_ns += blame.begin_ns;
      Verdict verdict = Judge(blame);
      REQUIRE(verdict.kind == VerdictKind::kUniform);
      text = VerdictText(index, blame, verdict);
      json = VerdictJson(index, blame, verdict);
      return verdict;
    }
    std::string text, json;
  };
  Clocked gpu("GPU 0 (NVIDIA H100): SM clock", 1980, 1200), cpu("host: mean CPU frequency", 3000, 2000);
  CHECK(gpu.JudgeSlower().clocks == "SM clock of GPU 0 (NVIDIA H100) at 1200 MHz, otherwise 1981 MHz");
  CHECK(gpu.text.find("SM clock of GPU 0 (NVIDIA H100) at 1200 MHz") != std::string::npos);
  CHECK(gpu.text.find("\nwhat to do  Look for something that slows a whole machine at once: CPU and GPU clocks") !=
        std::string::npos);
  CHECK(gpu.json.find("\"code\": \"look_at_machine\"") != std::string::npos);
  CHECK(cpu.JudgeSlower().clocks == "mean CPU frequency at 2000 MHz, otherwise 3001 MHz");
  CHECK(Clocked("GPU 0 (NVIDIA H100): SM clock", 1980, 1950).JudgeSlower().clocks == "no recorded clock was lower");
  CHECK(Clocked("GPU 0 (NVIDIA H100): power", 300, 100).JudgeSlower().clocks == "");
}

TEST_CASE("more of the same work is named as such, with its factor", "[verdict]") {
  for (const double size : {224.0, 896.0}) {
    Sized sized(size);
    sized.Learn(512);
    BlameVector slow = sized.Draw();
    for (const Blame part : {Blame::kHostOncpuPre, Blame::kHostOncpuFramework}) slow[part] *= 4;

    const Verdict verdict = sized.Judge(sized.Make(slow));

    CHECK((verdict.kind == VerdictKind::kMoreWork) == (size > 224));
    if (size > 224) CHECK(verdict.more_of == "size");
    if (size > 224) CHECK(verdict.more_factor == Approx(4));
  }
}

TEST_CASE("a cause is placed in the scope with most of it, not in the longest single one", "[verdict]") {
  Scoped route;
  route.Learn(512);
  BlameVector slow = route.Typical();
  slow[Blame::kHostOncpuPre] += 18 * kMs;
  RequestBlame blame = route.Make(slow);
  Split(&blame, Blame::kHostOncpuPre, 5 * kMs);  // four
  BlameSegment* const once = Find(&blame, Blame::kHostOncpuPre);
  once->thread = 0, once->event = Scoped::kForward;
  for (BlameSegment* often = once + 1; often < once + 4; ++often) {
    often->thread = 0, often->event = Scoped::kConvolve;
    often->end_ns -= kMs;
  }

  const Cause cause = route.Judge(blame).causes.at(0);

  CHECK(cause.place_ns == 12 * kMs);
  CHECK(EvidenceText(route.index, blame, cause) == "in \"convolve\" on executor (12.0 ms of it)");
}

TEST_CASE("places are the same if their names are", "[verdict]") {
  Launching route(false);  // 40 kernels, one launch each
  route.Learn(512);
  const auto place = [&](Blame of, const auto& change) {
    BlameVector slow = route.Typical();
    slow[of] += 20 * kMs;
    RequestBlame blame = route.Make(slow);
    Split(&blame, of, kMs);
    int number = 0;
    for (BlameSegment& segment : blame.segments) {
      if (segment.blame == of) change(number++, &segment);
    }
    const Cause cause = route.Judge(blame).causes.at(0);
    return std::pair(EvidenceText(route.index, blame, cause), cause.place_ns);
  };
  const auto launches = place(Blame::kLaunchLatency, [](int i, BlameSegment* one) {
    one->thread = 0, one->call = one->gpu = static_cast<uint32_t>(i);
  });
  CHECK(launches == std::pair(std::string("cudaLaunchKernel on executor"), 20 * kMs));
  const auto kernels = place(Blame::kGpuExecExpected, [](int i, BlameSegment* one) { one->gpu = i < 8 ? 3 : i; });
  CHECK(kernels == std::pair(std::string("add3 (8.00 ms of it)"), 8 * kMs));
  const auto operators = place(Blame::kHostOncpuPre, [](int i, BlameSegment* one) {
    one->thread = 0, one->event = i < 8 ? Launching::kMatmul : Launching::kRelu;
  });
  CHECK(operators.second == 14 * kMs);
  CHECK(operators.first.find("in \"aten::relu\" on executor") == 0);
}

TEST_CASE("a wait for something unusually long is told to ask why that was slow, before adding capacity", "[verdict]") {
  const Blame where = GENERATE(Blame::kExecutorBusy, Blame::kQueueWaitOthers);
  const auto advice = [&](const Busy& made, Culprit by) {
    BlameVector slow = made.Typical();
    slow[where] += 40 * kMs;
    RequestBlame blame = made.Make(slow);
    Find(&blame, where)->by = by;
    return std::string(made.Judge(blame).causes.at(0).advice.code);
  };
  const auto behind_batch = [&](int64_t usual_ms, int others, int members = 1, bool has_waited = false) {
    Busy route(usual_ms, others, members, has_waited);
    route.Learn(512);
    Culprit by;
    by.batch = route.last;
    return advice(route, by);
  };
  CHECK(behind_batch(10, 10) == "look_at_blocker");
  CHECK(behind_batch(25, 10) == "add_capacity");
  CHECK(behind_batch(10, 3) == "add_capacity");            // too few to know the usual length
  CHECK(behind_batch(10, 10, 2) == "add_capacity");        // of others, with other batches as their like
  CHECK(behind_batch(10, 10, 1, true) == "add_capacity");  // it was at work for 5 ms

  Busy route(10);
  route.Learn(512);
  Culprit by;
  by.request = route.request;  // 100 ms
  by.batch = model::kNone;
  by.thread = 0;
  if (where == Blame::kQueueWaitOthers) CHECK(advice(route, by) == "look_at_blocker");
}

TEST_CASE("a request in a backlog is compared with others of the whole trace, not only with the nearest", "[verdict]") {
  const auto typical_ns = [](int64_t slow_ms) {
    TraceMaker maker;
    maker.trace.window_end_ns = 1'000'000 * kMs;
    const uint32_t thread = maker.Thread("http");
    for (int i = 0; i < 3000; ++i) {
      const int64_t begin_ns = 100 * i * kMs, took_ns = (i < 2400 ? 10 : slow_ms) * kMs;
      const uint32_t row = maker.Request(0x1000 + i, "/classify", begin_ns, took_ns);
      maker.Event(thread, 0, begin_ns, took_ns, {row, model::kNone});
    }
    maker.Site(SiteKind::kScope, "handle");
    const model::Trace trace = maker.Finish();
    BlameIndex index;
    REQUIRE(BlameIndex::Make(trace, BlameOptions(), &index).ok());
    RequestBlame blame;
    REQUIRE(FindBlame(index, 2990, &blame).ok());
    Baseline baseline;
    REQUIRE(LearnBaseline(index, 2990, VerdictOptions(), &baseline).ok());
    Verdict verdict;
    REQUIRE(FindVerdict(index, blame, baseline, blame.end_ns, VerdictOptions(), &verdict).ok());
    REQUIRE(verdict.baseline_size > 500);
    return verdict.typical_ns;
  };
  CHECK(typical_ns(40) == 10 * kMs);
  CHECK(typical_ns(14) == 14 * kMs);  // not more than 1.5 times as long: the moment is its measure
}

TEST_CASE("a fault that slows all requests for a while is not usual, however few others there are", "[verdict]") {
  const auto judge = [](int requests, const std::function<bool(int)>& is_slow) {
    TraceMaker maker;
    maker.trace.window_end_ns = 1'000'000 * kMs;
    const uint32_t thread = maker.Thread("http");
    for (int i = 0; i < requests; ++i) {
      const int64_t begin_ns = 100 * i * kMs, took_ns = (is_slow(i) ? 40 : 10) * kMs + i % 7;
      const uint32_t row = maker.Request(0x1000 + i, "/classify", begin_ns, took_ns);
      maker.Event(thread, 0, begin_ns, took_ns, {row, model::kNone});
    }
    maker.Site(SiteKind::kScope, "handle");
    const model::Trace trace = maker.Finish();
    Judgement judgement;
    REQUIRE(JudgeRequest(trace, static_cast<uint32_t>(requests / 2), nullptr, &judgement).ok());
    return judgement.verdict;
  };
  const Verdict all_slow = judge(400, [](int i) { return i >= 150 && i < 250; });
  CHECK(all_slow.kind == VerdictKind::kCauses);
  CHECK(all_slow.baseline_size == 300);
  const Verdict some_slow = judge(400, [](int i) { return i % 4 == 0; });
  CHECK(some_slow.baseline_size == 399);  // at any time: it is how the route is
  CHECK(judge(90, [](int i) { return i >= 30 && i < 60; }).baseline_size == 60);
  CHECK(judge(89, [](int i) { return i >= 30 && i < 60; }).baseline_size == 88);  // better than too few
}

TEST_CASE("slow neighbours are reported to be no measure", "[verdict]") {
  const auto text = [](int64_t usual_ms) {
    Busy route(usual_ms, 40);
    route.Learn(512);
    BlameVector slow = route.Typical();
    slow[Blame::kHostOncpuPre] += 40 * kMs;
    const RequestBlame blame = route.Make(slow);
    return VerdictText(route.index, blame, route.Judge(blame));
  };
  const std::string slow_too = text(5);
  const auto json = [](int64_t usual_ms) {
    Busy route(usual_ms, 40);
    route.Learn(512);
    BlameVector slow = route.Typical();
    slow[Blame::kHostOncpuPre] += 40 * kMs;
    const RequestBlame blame = route.Make(slow);
    return VerdictJson(route.index, blame, route.Judge(blame));
  };
  CHECK(json(5).find("\"slow_too\": {\n    \"requests\": 41,\n    \"median_ns\": 5000000\n") != std::string::npos);
  CHECK(json(15).find("slow_too") == std::string::npos);
  CHECK(slow_too.find("these were slow, too: half of all 41 requests of its route and size in the trace") !=
        std::string::npos);
  CHECK(slow_too.find(" 5.0 ms\n") != std::string::npos);
  CHECK(text(15).find("these were slow") == std::string::npos);
}

TEST_CASE("slow requests in flight are counted if they are half of those in flight", "[verdict]") {
  const auto text = [](int slow, int others) {
    Meanwhile route(slow, others);
    route.Learn(512);
    BlameVector blame = route.Typical();  // 17 ms
    blame[Blame::kHostOncpuPre] += 40 * kMs;
    const RequestBlame late = route.Make(blame);
    return VerdictText(route.index, late, route.Judge(late));
  };
  CHECK(
      text(2, 4).find("2 of the 4 similar requests in flight were slow, too, each with at least half of this excess") !=
      std::string::npos);
  CHECK(text(1, 4).find("meanwhile") == std::string::npos);
  Meanwhile crowd(2, 4);
  crowd.Learn(512);
  BlameVector slow = crowd.Typical();
  slow[Blame::kHostOncpuPre] += 40 * kMs;
  const RequestBlame late = crowd.Make(slow);
  const std::string json = VerdictJson(crowd.index, late, crowd.Judge(late));
  CHECK(json.find("\"meanwhile\": {\n    \"requests\": 4,\n    \"slow\": 2\n") != std::string::npos);
  CHECK(text(2, 2).find("meanwhile") == std::string::npos);  // too few
  Meanwhile route(4, 4);
  route.Learn(512);
  const RequestBlame usual = route.Make(route.Typical());
  CHECK(VerdictText(route.index, usual, route.Judge(usual)).find("meanwhile") == std::string::npos);
}

TEST_CASE("a wait for another's work in the own batch is told to split the batch", "[verdict]") {
  for (const bool is_in_queue : {false, true}) {
    Route route;
    route.Learn(512);
    BlameVector slow = route.Typical();
    slow[Blame::kExecutorBusy] += 40 * kMs;
    RequestBlame blame = route.Make(slow);
    Find(&blame, Blame::kExecutorBusy)->by.request = route.other;
    if (is_in_queue) Find(&blame, Blame::kExecutorBusy)->by.batch = 0;

    const Verdict verdict = route.Judge(blame);

    REQUIRE(verdict.causes.size() == 1);
    CHECK(verdict.causes[0].by.request == route.other);
    CHECK(std::string(verdict.causes[0].advice.code) == (is_in_queue ? "add_capacity" : "split_long_work"));
  }
}

TEST_CASE("advice on launches depends on their number, and on the thread in the way", "[verdict]") {
  const auto advice = [](int64_t normal_launches, bool is_in_driver) {
    Launching route;  // of 40
    for (int i = 0; i < 512; ++i) {
      BaselineRow row;
      row.blame = route.Draw();
      row.blame[Blame::kLaunchApi] = 2 * kMs;
      row.work = {0, static_cast<uint32_t>(normal_launches), 1, 0, Depth::kKernels};
      REQUIRE(route.baseline.Add("/classify", 4, row).ok());
    }
    BlameVector slow = route.Typical();
    slow[Blame::kLaunchApi] = 8 * kMs;
    RequestBlame blame = route.Make(slow);
    if (is_in_driver) Find(&blame, Blame::kLaunchApi)->by.thread = 0;
    const Verdict verdict = route.Judge(blame);
    REQUIRE(verdict.causes.size() == 1);
    return std::string(verdict.causes[0].advice.code);
  };
  CHECK(advice(10, false) == "launch_less");
  CHECK(advice(40, false) == "speed_launches");  // one of 8 ms, where most take 10 us
  CHECK(advice(40, true) == "keep_driver_free");
}

TEST_CASE("more launches than usual are not reported as slower launches", "[verdict]") {
  Launching route;  // with launches of 10 us
  route.LearnEach([](int, BlameVector& blame) { blame[Blame::kLaunchApi] = 2 * kMs; });
  BlameVector slow = route.Typical();
  slow[Blame::kLaunchApi] = 30 * kMs;
  RequestBlame blame = route.Make(slow);
  Split(&blame, Blame::kLaunchApi, 30 * kUs);

  CHECK(std::string(route.Judge(blame).causes.at(0).advice.code) == "launch_less");
}

TEST_CASE("a culprit needs a tenth of a cause's time", "[verdict]") {
  const auto culprit = [](int64_t theirs_ms) {
    Route route;
    route.Learn(512);
    BlameVector slow = route.Typical();
    slow[Blame::kQueueWaitOthers] += 40 * kMs;
    RequestBlame blame = route.Make(slow);
    BlameSegment* const all = Find(&blame, Blame::kQueueWaitOthers);
    BlameSegment theirs = *all;
    theirs.begin_ns = all->end_ns -= theirs_ms * kMs;
    theirs.by.request = route.other;
    blame.segments.insert(blame.segments.begin() + (all - blame.segments.data()) + 1, theirs);
    const Cause cause = route.Judge(blame).causes.at(0);
    return std::pair(cause.by.request == route.other, cause.by_ns);
  };
  CHECK(culprit(3) == std::pair(false, int64_t{0}));
  CHECK(culprit(10) == std::pair(true, 10 * kMs));
}

TEST_CASE("coming back from the GPU often is not coming back late", "[verdict]") {
  const auto advice = [](int64_t each_ns) {
    Route route;
    route.Learn(512);
    BlameVector slow = route.Typical();
    slow[Blame::kSyncReturn] += 2 * kMs;
    RequestBlame blame = route.Make(slow);
    Split(&blame, Blame::kSyncReturn, each_ns);
    const Verdict verdict = route.Judge(blame);
    REQUIRE(verdict.causes.size() == 1);
    return std::string(verdict.causes[0].advice.code);
  };
  CHECK(advice(5 * kUs) == "wait_once");
  CHECK(advice(40 * kUs) == "return_from_sync");
}

TEST_CASE("parts explained by more work are not a cause next to a longer wait, and the text says so", "[verdict]") {
  Sized sized(896);
  sized.Learn(512);
  BlameVector slow = sized.Draw();
  for (const Blame part : {Blame::kHostOncpuPre, Blame::kHostOncpuFramework}) slow[part] *= 4;
  slow[Blame::kHostRunqueue] += 60 * kMs;
  const RequestBlame blame = sized.Make(slow);

  const Verdict verdict = sized.Judge(blame);

  CHECK(verdict.kind == VerdictKind::kCauses);
  REQUIRE(verdict.causes.size() == 1);
  CHECK(verdict.causes[0].blame == Blame::kHostRunqueue);
  CHECK(verdict.more_of == "size");
  CHECK(verdict.more_ns > 30 * kMs);
  CHECK(verdict.rest_ns + verdict.causes[0].excess_ns == verdict.latency_ns - verdict.typical_ns);
  CHECK(VerdictText(sized.index, blame, verdict).find("and more work, not slower: 4 times the usual size, +3") !=
        std::string::npos);
}

TEST_CASE("the sentence has the more work next to a wait first if it explains more than that", "[verdict]") {
  const auto sentence = [](int64_t waited_ms) {
    Sized sized(896);
    sized.Learn(512);
    BlameVector slow = sized.Typical();
    for (const Blame part : {Blame::kHostOncpuPre, Blame::kHostOncpuFramework}) slow[part] *= 4;
    slow[Blame::kHostRunqueue] += waited_ms * kMs;
    const RequestBlame blame = sized.Make(slow);
    const Verdict verdict = sized.Judge(blame);
    REQUIRE(verdict.kind == VerdictKind::kCauses);
    return Unwrapped(VerdictText(sized.index, blame, verdict));
  };
  CHECK(sentence(30).find(": it had 4 times the usual size (3") != std::string::npos);
  CHECK(sentence(30).find(" ms) and waited 30.") != std::string::npos);
  CHECK(sentence(60).find("it had 4 times the usual size (") == std::string::npos);
}

TEST_CASE("parts explained by more work are neither a general slowdown nor diffuse", "[verdict]") {
  Sized sized(896);
  sized.Learn(512);
  BlameVector slow = sized.Typical();
  for (const Blame part :
       {Blame::kHostOncpuPre, Blame::kHostOncpuFramework, Blame::kHostOncpuPost, Blame::kGpuExecExpected})
    slow[part] *= 4;
  slow[Blame::kHostRunqueue] += 60 * kMs;
  VerdictOptions names_nothing;
  names_nothing.least_excess_ns = 1'000 * kMs;

  CHECK(sized.Judge(sized.Make(slow)).kind == VerdictKind::kCauses);
  CHECK(sized.Judge(sized.Make(slow), names_nothing).kind == VerdictKind::kMoreWork);
}

TEST_CASE("a part much longer than more work explains is still a cause", "[verdict]") {
  Sized sized(280);
  sized.Learn(512);
  BlameVector slow = sized.Typical();
  slow[Blame::kHostOncpuPre] += 60 * kMs;

  const Verdict verdict = sized.Judge(sized.Make(slow));

  CHECK(verdict.kind == VerdictKind::kCauses);
  REQUIRE(verdict.causes.size() == 1);
  CHECK(verdict.causes[0].blame == Blame::kHostOncpuPre);
  CHECK(verdict.more_of.empty());
}

TEST_CASE("a part that grew without more work is a cause, even if another's saving hides it in the sum", "[verdict]") {
  Sized sized(280);
  sized.Learn(512);
  BlameVector slow = sized.Typical();
  slow[Blame::kHostOncpuFramework] -= 5 * kMs;
  slow[Blame::kHostOncpuPre] += 7 * kMs;  // of 2 ms, by a quarter more pixels
  slow[Blame::kHostRunqueue] += 10 * kMs;

  const Verdict verdict = sized.Judge(sized.Make(slow));

  CHECK(verdict.kind == VerdictKind::kCauses);
  REQUIRE(verdict.causes.size() == 2);
  CHECK(verdict.causes[0].blame == Blame::kHostRunqueue);
  CHECK(verdict.causes[1].blame == Blame::kHostOncpuPre);
}

TEST_CASE("one of a few large requests is more work than the rest of its route", "[verdict]") {
  Route route;
  for (const uint32_t bucket : {3u, 5u}) {  // none of its own size
    for (int i = 0; i < (bucket == 3 ? 190 : 10); ++i) {
      BaselineRow row;
      row.work.depth = Depth::kKernels;
      row.blame = route.Draw();
      row.work = {bucket == 3 ? 224.0 : 1024.0, 0, 1, 0, Depth::kKernels};
      if (bucket == 5) row.blame[Blame::kHostOncpuPre] += 8 * kMs;
      REQUIRE(route.baseline.Add("/classify", bucket, row).ok());
    }
  }
  model::Trace trace = route.trace();
  trace.requests[route.request].sizes.push_back({0, 1024});
  BlameIndex index;
  REQUIRE(BlameIndex::Make(trace, BlameOptions(), &index).ok());
  BlameVector large = route.Typical();
  large[Blame::kHostOncpuPre] += 8 * kMs;

  Verdict verdict;
  REQUIRE(FindVerdict(index, route.Make(large), route.baseline, 0, {}, &verdict).ok());

  CHECK(verdict.level == Baseline::Level::kRoute);
  CHECK(verdict.kind == VerdictKind::kMoreWork);
  CHECK(verdict.more_of == "size");
}

TEST_CASE("a request no slower than three quarters of its like is not slow, whatever its parts", "[verdict]") {
  Route route;
  route.Learn(512);
  BlameVector odd = route.Typical();
  odd[Blame::kHostOncpuPost] += 4 * kMs;
  odd[Blame::kHostOncpuFramework] -= 7 * kMs / 2;

  const Verdict verdict = route.Judge(route.Make(odd));

  CHECK(verdict.percentile <= 0.9);
  CHECK((verdict.kind == VerdictKind::kNotUnusual) == (verdict.percentile <= 0.75));
  odd[Blame::kHostOncpuFramework] += 2 * kMs;
  CHECK(route.Judge(route.Make(odd)).kind == VerdictKind::kCauses);
}

TEST_CASE("a part that is nearly always 0 and now and then long does not hide a longer one", "[verdict]") {
  Route route;
  route.LearnEach([](int i, BlameVector& blame) {
    blame[Blame::kHandoff] = i % 16 == 1 ? 2 * kMs : 20 * kUs;
    blame[Blame::kHostOncpuFramework] -= i % 16 == 1 ? 2 * kMs : 0;  // no slower for it
  });
  BlameVector slow = route.Typical();
  slow[Blame::kHostOncpuPre] += 4 * kMs;

  const Verdict verdict = route.Judge(route.Make(slow));

  REQUIRE(verdict.causes.size() == 1);
  CHECK(verdict.causes[0].blame == Blame::kHostOncpuPre);
}

TEST_CASE("one part with nearly all the stretched time does not prove a general slowdown", "[verdict]") {
  Route route;
  route.LearnEach([](int, BlameVector& blame) {
    blame[Blame::kHostOncpuPre] /= 10, blame[Blame::kHostOncpuPost] /= 10, blame[Blame::kGpuExecExpected] = 0;
  });
  BlameVector slow = route.Typical();
  slow[Blame::kHostOncpuPre] = 300 * kUs, slow[Blame::kHostOncpuPost] = 150 * kUs, slow[Blame::kGpuExecExpected] = 0;
  slow[Blame::kHostOncpuFramework] = 15 * kMs;

  const Verdict verdict = route.Judge(route.Make(slow));

  CHECK(verdict.kind == VerdictKind::kCauses);
  REQUIRE(verdict.causes.size() == 1);
  CHECK(verdict.causes[0].blame == Blame::kHostOncpuFramework);
}

TEST_CASE("unrecorded time is not a sure cause", "[verdict]") {
  Route route;
  route.Learn(512);
  BlameVector slow = route.Draw();
  slow[Blame::kUntraced] += 20 * kMs;

  const Verdict verdict = route.Judge(route.Make(slow));

  CHECK(verdict.kind == VerdictKind::kUndetermined);
  CHECK(verdict.why_not.find("nothing recorded explains") != std::string::npos);
  for (const Cause& cause : verdict.causes) CHECK(cause.confidence < 0.1);
}

TEST_CASE("unrecorded time is told by its stage and the recorded parts next to it", "[verdict]") {
  Scoped route({{"decode", 0}, {"model", 10 * kMs}, {"answer", 90 * kMs}});
  route.Learn(512);
  BlameVector slow = route.Typical();
  slow[Blame::kUntraced] += 60 * kMs;
  const auto text = [&](size_t at, uint32_t before, uint32_t after) {
    RequestBlame late = route.Make(slow);
    BlameSegment dark = late.segments.back();
    late.segments.pop_back();
    late.segments.insert(late.segments.begin() + static_cast<std::ptrdiff_t>(at), dark);
    int64_t now_ns = 0;
    for (BlameSegment& segment : late.segments) {
      segment.end_ns += now_ns - segment.begin_ns;
      segment.begin_ns = std::exchange(now_ns, segment.end_ns);
    }
    if (at > 0) late.segments[0].event = before;
    late.segments.back().event = after;
    const std::string all = VerdictText(route.index, late, route.Judge(late), 1000);
    const size_t begin = all.find("for no recorded reason", all.find("\nwhy  "));
    return begin == std::string::npos ? all : all.substr(begin, all.find('\n', begin) - begin);
  };

  CHECK(text(2, Scoped::kForward, Scoped::kConvolve) ==
        R"(for no recorded reason, between "forward" and "convolve", from stage "decode" to "model")");
  CHECK(text(0, kNone, Scoped::kConvolve) ==
        R"(for no recorded reason, before "convolve", from stage "decode" to "model")");
  CHECK(text(1, Scoped::kForward, kNone) ==
        R"(for no recorded reason, after "forward", from stage "decode" to "model")");
  CHECK(text(3, kNone, kNone) == R"(for no recorded reason, in stage "model")");
}

TEST_CASE("the sleep of a thread is known, even if its reason is not", "[verdict]") {
  Route route;
  route.Learn(512);
  BlameVector slow = route.Draw();
  slow[Blame::kHostBlockedUnknown] += 20 * kMs;

  const Verdict verdict = route.Judge(route.Make(slow));

  CHECK(verdict.kind == VerdictKind::kUndetermined);
  CHECK(verdict.why_not == "a thread serving this request was blocked, and no recorded wait explains why");
  REQUIRE(verdict.causes.size() == 1);
  CHECK(verdict.causes[0].confidence == Approx(0.9 * (1 - verdict.causes[0].p)).margin(0.02));
  CHECK(std::string(verdict.causes[0].unsure) == "no recorded wait explains the sleep");
  slow[Blame::kUntraced] += 20 * kMs;
  CHECK(route.Judge(route.Make(slow)).causes.at(0).confidence < 0.5);
}

TEST_CASE("a recorded wait names the reason of a sleep, but not the holder", "[verdict]") {
  Locking route;
  route.Learn(512);
  BlameVector slow = route.Draw();
  slow[Blame::kHostBlockedUnknown] += 20 * kMs;
  RequestBlame blame = route.Make(slow);
  Find(&blame, Blame::kHostBlockedUnknown)->event = 0;  // "cache"

  const Verdict verdict = route.Judge(blame);

  CHECK(verdict.kind == VerdictKind::kCauses);
  REQUIRE(verdict.causes.size() == 1);
  CHECK(std::string(verdict.causes[0].advice.code) == "name_owner");
  CHECK(std::string(verdict.causes[0].unsure) != "no recorded wait explains the sleep");
  CHECK(verdict.causes[0].confidence == Approx(1 - verdict.causes[0].p).margin(0.02));
  CHECK(verdict.causes[0].confidence <= 1);
  CHECK(VerdictText(route.index, blame, verdict).find("no recorded wait") == std::string::npos);
}

namespace {

// The verdict on a request that waited so much longer than usual for "cache", from `begin_ns` on.
Verdict JudgeWait(Locking* route, int64_t longer_ns, int64_t* begin_ns = nullptr) {
  BlameVector slow = route->Typical();
  slow[Blame::kHostBlockedUnknown] += longer_ns;
  RequestBlame blame = route->Make(slow);
  BlameSegment* const slept = Find(&blame, Blame::kHostBlockedUnknown);
  slept->event = 0;  // "cache"
  slept->thread = Locking::kWaiter;
  if (begin_ns != nullptr) *begin_ns = slept->begin_ns;
  return route->Judge(blame);
}
Cause JudgeLongWait(Locking* route, int64_t* begin_ns = nullptr) {
  route->Learn(512);
  const Verdict verdict = JudgeWait(route, 20 * kMs, begin_ns);
  REQUIRE(verdict.causes.size() == 1);
  return verdict.causes[0];
}
bool IsOpenAfterLongWait(Locking* route) {
  route->Learn(512);
  const Verdict verdict = JudgeWait(route, 20 * kMs);
  return verdict.kind == VerdictKind::kUndetermined && verdict.causes.empty();
}

}  // namespace

TEST_CASE("a recorded wait is the less sure, the more of it may have been for a CPU", "[verdict]") {
  Delayed never(0), ten(10 * kMs), thirty(30 * kMs);
  const Cause sure = JudgeLongWait(&never), half = JudgeLongWait(&ten);
  CHECK(sure.confidence > 0.95);
  CHECK(half.confidence == Approx(sure.confidence / 2).margin(0.02));
  CHECK(std::string(half.unsure) == "its thread may have waited for a CPU in it");
  CHECK(IsOpenAfterLongWait(&thirty));
}

TEST_CASE("a recorded wait is the less sure, the longer another thread had the interpreter in it", "[verdict]") {
  int64_t begin_ns = 0;
  Locking never;
  const Cause sure = JudgeLongWait(&never, &begin_ns);
  const uint64_t tid = GENERATE(77, 0);
  Locking ten(begin_ns + 10 * kMs, tid), always(1'000 * kMs, tid);
  const Cause half = JudgeLongWait(&ten);
  CHECK(sure.confidence > 0.95);
  CHECK(half.confidence == Approx(sure.confidence / 2).margin(0.02));
  CHECK(std::string(half.unsure) == "another thread may have had the interpreter in it");
  CHECK(IsOpenAfterLongWait(&always));
}

TEST_CASE("where threads want the interpreter at once, a recorded wait may hide a turn of 5 ms", "[verdict]") {
  const auto judge = [](int64_t longer_ns) {
    Locking route(3 * kMs);  // before the wait
    route.Learn(512);
    return JudgeWait(&route, longer_ns);
  };
  const Verdict longer = judge(20 * kMs);
  REQUIRE(longer.causes.size() == 1);
  CHECK(longer.causes[0].confidence == Approx(0.75).margin(0.03));
  CHECK(judge(9 * kMs).causes.empty());
}

TEST_CASE("a thread that runs no Python waits for no interpreter of its process", "[verdict]") {
  const auto judge = [](int64_t held_ns, const char* file) {
    Locking route(held_ns, 77, file);
    route.Learn(512);
    return JudgeWait(&route, 9 * kMs);
  };
  CHECK(judge(3 * kMs, "pitot/c.h").causes.empty());
  for (const int64_t held_ns : {3 * kMs, 1'000 * kMs}) {
    const Verdict verdict = judge(held_ns, "server.cc");
    REQUIRE(verdict.causes.size() == 1);
    CHECK(verdict.causes[0].confidence > 0.9);
  }
}

TEST_CASE("a recorded wait is a cause only as far as it is longer than threads wake up late", "[verdict]") {
  const auto judge = [](int64_t wake_up_ns, int64_t longer_ns) {
    Locking route;
    // Each fortieth thread wakes up so late.
    route.LearnEach([&](int i, BlameVector& blame) { blame[Blame::kHandoff] = i % 40 == 0 ? wake_up_ns : 100 * kUs; });
    return JudgeWait(&route, longer_ns);
  };
  const Verdict sure = judge(100 * kUs, 3 * kMs), half = judge(1'500 * kUs, 3 * kMs), none = judge(2 * kMs, 3 * kMs);
  REQUIRE(sure.causes.size() == 1);
  CHECK(sure.causes[0].confidence > 0.9);
  REQUIRE(half.causes.size() == 1);
  CHECK(half.causes[0].confidence == Approx(0.5).margin(0.06));
  CHECK(std::string(half.causes[0].unsure) == "its thread may have woken up late");
  CHECK(none.causes.empty());
  CHECK(none.kind == VerdictKind::kUndetermined);
  CHECK_THAT(none.why_not, Catch::Contains("a recorded wait took longer than usual, and its thread may have waited"));
}

TEST_CASE("a doubted wait is the reason for no verdict only if it is most of what is unexplained", "[verdict]") {
  const auto why_not = [](int64_t waited_ns, int64_t untraced_ns) {
    Delayed route(30 * kMs);
    route.Learn(512);
    BlameVector slow = route.Typical();
    slow[Blame::kHostBlockedUnknown] += waited_ns;
    slow[Blame::kUntraced] += untraced_ns;
    RequestBlame blame = route.Make(slow);
    BlameSegment* const slept = Find(&blame, Blame::kHostBlockedUnknown);
    slept->event = 0;  // "cache"
    slept->thread = Locking::kWaiter;
    const Verdict verdict = route.Judge(blame);
    CHECK(verdict.kind == VerdictKind::kUndetermined);
    return verdict.why_not;
  };
  CHECK_THAT(why_not(20 * kMs, 15 * kMs), Catch::StartsWith("a recorded wait took longer than usual"));
  CHECK(why_not(20 * kMs, 25 * kMs) == "nothing recorded explains most of the excess");
  CHECK(why_not(50 * kUs, 100 * kMs) == "nothing recorded explains most of the excess");
}

TEST_CASE("a thread that slept with an awaited lock is told to release it", "[verdict]") {
  Locking route;
  route.Learn(512);
  BlameVector slow = route.Draw();
  slow[Blame::kHostBlockedUnknown] += 20 * kMs;
  RequestBlame blame = route.Make(slow);
  const auto advice = [&](uint32_t thread) {
    Find(&blame, Blame::kHostBlockedUnknown)->thread = thread;
    return std::string(route.Judge(blame).causes.at(0).advice.code);
  };

  CHECK(advice(Locking::kHolder) == "sleep_without_lock");
  // Others waited for it for 50 ms: in a second that does not matter.
  Find(&blame, Blame::kHostBlockedUnknown)->end_ns += 1'000 * kMs;
  CHECK(advice(Locking::kHolder) == "name_waits");
  Find(&blame, Blame::kHostBlockedUnknown)->end_ns -= 1'000 * kMs;
  CHECK(advice(Locking::kWaiter) == "name_waits");
  CHECK(advice(model::kNone) == "name_waits");
}

TEST_CASE("a p can be as small as alpha even if few of the normal requests calibrate", "[verdict]") {
  std::set<double> alphas;
  for (int n = 131; n <= 150; ++n) {
    Route route;
    route.Learn(n);
    BlameVector slow = route.Draw();
    slow[Blame::kQueueWaitOthers] += 15 * kMs;

    const Verdict verdict = route.Judge(route.Make(slow));

    INFO(n);
    CHECK(verdict.least_p <= verdict.alpha);
    CHECK(verdict.causes.size() == 1);
    alphas.insert(verdict.alpha);
  }
  CHECK(alphas == std::set<double>{0.02, 0.05});
}

TEST_CASE("a cause of more than the whole excess is as sure as one of all of it", "[verdict]") {
  Route route;
  route.Learn(512);
  BlameVector slow = route.Typical();
  slow[Blame::kHostLock] += 8 * kMs;
  const Cause all = route.Judge(route.Make(slow)).causes.at(0);
  slow[Blame::kHostOncpuFramework] -= 7 * kMs;
  const Cause more = route.Judge(route.Make(slow)).causes.at(0);

  REQUIRE(more.share > 5);
  CHECK(more.confidence == Approx(all.confidence).margin(0.01));
}

TEST_CASE("requests of two alternating kinds are all compared with", "[verdict]") {
  Route route;
  route.LearnEach([](int i, BlameVector& blame) {
    if (i % 2 == 1) blame[Blame::kGpuExecExpected] += 10 * kMs;
  });
  BlameVector slow = route.Typical();
  slow[Blame::kHostLock] += 60 * kMs;

  const Verdict verdict = route.Judge(route.Make(slow));

  REQUIRE(verdict.causes.size() == 1);
  CHECK(verdict.causes[0].blame == Blame::kHostLock);
  CHECK(verdict.least_p < 0.01);
}

TEST_CASE("nothing can be said if no part could stand out", "[verdict]") {
  Route route;
  route.Learn(64);
  BlameVector slow = route.Draw();
  slow[Blame::kQueueWaitOthers] += 15 * kMs;
  VerdictOptions strict;
  strict.alpha_few = 0.01;  // less than one of those that calibrate

  const Verdict verdict = route.Judge(route.Make(slow), strict);

  REQUIRE(verdict.least_p > verdict.alpha);
  CHECK(verdict.kind == VerdictKind::kUndetermined);
  CHECK(verdict.why_not == "too few of the similar requests are typical: no part could stand out");
  CHECK(route.Judge(route.Make(slow)).kind == VerdictKind::kCauses);
}

TEST_CASE("a cause is less sure the smaller its share of the excess is", "[verdict]") {
  Route route;
  route.Learn(512);
  BlameVector slow = route.Draw();
  slow[Blame::kHostLock] += 20 * kMs;
  const Cause alone = route.Judge(route.Make(slow)).causes.at(0);
  slow[Blame::kExecutorBusy] += 80 * kMs;
  const Verdict both = route.Judge(route.Make(slow));

  REQUIRE(both.causes.size() == 2);
  REQUIRE(both.causes[1].blame == Blame::kHostLock);
  CHECK(both.causes[1].confidence == Approx(alone.confidence * (1 - 0.1 * 0.64)).margin(0.01));
}

TEST_CASE("blame comes without a verdict if there are too few normal requests", "[verdict]") {
  Route route;
  route.Learn(19);
  BlameVector slow = route.Draw();
  slow[Blame::kHostLock] += 20 * kMs;

  const Verdict verdict = route.Judge(route.Make(slow));

  CHECK(verdict.kind == VerdictKind::kUndetermined);
  CHECK(verdict.level == Baseline::Level::kNone);
  CHECK(verdict.causes.empty());
  REQUIRE(verdict.largest.size() == 3);
  CHECK(verdict.largest[0].blame == Blame::kHostLock);
}

TEST_CASE("twenty normal requests are enough for a cause, at half its confidence", "[verdict]") {
  const auto judge = [](int n) {
    Route route;
    route.Learn(n);
    BlameVector slow = route.Draw();
    slow[Blame::kHostLock] += 20 * kMs;
    return route.Judge(route.Make(slow));
  };

  const Verdict few = judge(20), most = judge(59), many = judge(60);

  for (const Verdict* verdict : {&few, &most}) {
    REQUIRE(verdict->kind == VerdictKind::kCauses);
    CHECK(verdict->causes.at(0).blame == Blame::kHostLock);
    CHECK(verdict->alpha == Approx(std::max(0.05, verdict->least_p)));
    CHECK(verdict->causes[0].confidence < 0.5);
    CHECK(verdict->causes[0].unsure == std::string("very few normal requests"));
  }
  CHECK(few.causes[0].confidence < most.causes[0].confidence);
  CHECK(most.causes[0].confidence < many.causes.at(0).confidence);
}

TEST_CASE("few normal requests, others' sizes and losses lower the confidence, and are named", "[verdict]") {
  const auto cause = [](int n, const char* route_name, uint32_t bucket, bool is_reliable) {
    Route route;
    route.Learn(1);
    for (int i = 0; i < n; ++i) {
      BaselineRow row;
      row.work.depth = Depth::kKernels;
      row.blame = route.Draw();
      REQUIRE(route.baseline.Add(route_name, bucket, row).ok());
    }
    BlameVector slow = route.Draw();
    slow[Blame::kHostLock] += 20 * kMs;
    RequestBlame blame = route.Make(slow);
    blame.is_reliable = is_reliable;
    const Verdict verdict = route.Judge(blame);
    return verdict.causes.at(0);
  };
  const double whole = cause(512, "/classify", 4, true).confidence;
  const Cause few = cause(100, "/classify", 4, true), sizes = cause(512, "/classify", 5, true),
              routes = cause(512, "/segment", 5, true), lossy = cause(512, "/classify", 4, false);

  CHECK(whole > 0.95);
  CHECK(few.confidence < 0.8);
  CHECK(std::string(few.unsure) == "few normal requests");
  CHECK(sizes.confidence < 0.85 * whole);
  CHECK(std::string(sizes.unsure) == "compared with other sizes");
  CHECK(routes.confidence < 0.6 * whole);
  CHECK(std::string(routes.unsure) == "compared with other routes");
  CHECK(lossy.confidence < 0.6 * whole);
  CHECK(std::string(lossy.unsure) == "events were lost during it");
}

TEST_CASE("a request that is the only one of its route is compared with none", "[verdict]") {
  Route route;
  route.Learn(512);
  RequestBlame blame = route.Make(route.Draw());
  blame.request = route.other;

  const Verdict verdict = route.Judge(blame);

  CHECK(verdict.level == Baseline::Level::kNone);
  CHECK(verdict.typical_ns == 0);
  CHECK(verdict.kind == VerdictKind::kUndetermined);
  CHECK(verdict.why_not == "no normal request of its route is known, and other routes do other work");
}

TEST_CASE("times that contradict each other leave nothing to be said", "[verdict]") {
  Route route;
  route.Learn(512);
  BlameVector slow = route.Draw();
  slow[Blame::kHostLock] += 20 * kMs;
  RequestBlame blame = route.Make(slow);
  blame.clamped_ns = 2 * kMs;

  const Verdict verdict = route.Judge(blame);

  CHECK(verdict.kind == VerdictKind::kUndetermined);
  CHECK(verdict.why_not.find("contradict") != std::string::npos);
}

TEST_CASE("a normal request is not unusual, and a slow one without a slow part is diffuse", "[verdict]") {
  Route route;
  route.Learn(512);
  BlameVector fast = route.Draw(), slow = route.Draw();
  for (int64_t& part : fast.ns) part = part * 9 / 10;
  VerdictOptions options;
  options.least_excess_ns = 1'000 * kMs;  // nothing is ever a cause
  options.least_common_factor = 9;
  slow[Blame::kHostLock] += 20 * kMs;

  CHECK(route.Judge(route.Make(fast)).kind == VerdictKind::kNotUnusual);
  const Verdict diffuse = route.Judge(route.Make(slow), options);
  CHECK(diffuse.kind == VerdictKind::kDiffuse);
  REQUIRE_FALSE(diffuse.largest.empty());
  CHECK(diffuse.largest[0].blame == Blame::kHostLock);
}

TEST_CASE("a cause next to a way nearly as long saves only the difference", "[verdict]") {
  Route route;
  route.Learn(512);
  BlameVector slow = route.Draw();
  slow[Blame::kGpuQueueWaitOthers] += 20 * kMs;
  RequestBlame blame = route.Make(slow);
  blame.detours.push_back({0, blame.end_ns, 3 * kMs});

  const Verdict verdict = route.Judge(blame);

  REQUIRE(verdict.causes.size() == 1);
  CHECK(verdict.causes[0].excess_ns == 20 * kMs);
  CHECK(verdict.causes[0].saving_ns == 3 * kMs);
  CHECK(verdict.causes[0].without_ns == verdict.latency_ns - 3 * kMs);
  REQUIRE(verdict.drags.size() == 3);
  CHECK(blame.segments[verdict.drags[0].segment].blame == Blame::kGpuQueueWaitOthers);
  CHECK(verdict.drags[0].ns == 3 * kMs);
}

TEST_CASE("two causes next to one way nearly as long save together at most the difference", "[verdict]") {
  Route route;
  route.Learn(512);
  BlameVector slow = route.Typical();
  slow[Blame::kGpuQueueWaitOthers] += 20 * kMs;
  slow[Blame::kHostLock] += 20 * kMs;
  RequestBlame blame = route.Make(slow);
  blame.detours.push_back({0, blame.end_ns, 3 * kMs});

  const Verdict verdict = route.Judge(blame);

  REQUIRE(verdict.causes.size() == 2);
  CHECK(verdict.causes[0].saving_ns == 3 * kMs);
  CHECK(verdict.causes[1].saving_ns == 3 * kMs);
  CHECK(verdict.joint_saving_ns == 3 * kMs);
}

TEST_CASE("a largely usual part also has the limit of removing all of it", "[verdict]") {
  Route route;
  route.Learn(512);
  const auto judge = [&](Blame slow) {
    BlameVector vector = route.Typical();
    vector[slow] += 10 * kMs;
    const RequestBlame blame = route.Make(vector);
    const Verdict verdict = route.Judge(blame);
    REQUIRE(verdict.causes.size() == 1);
    CHECK(verdict.causes[0].without_ns == verdict.latency_ns - vector[slow]);
    CHECK(verdict.drags[0].ns == vector[slow]);
    return std::pair(VerdictText(route.index, blame, verdict), VerdictJson(route.index, blame, verdict, nullptr, 0));
  };
  const auto [code, code_json] = judge(Blame::kHostOncpuFramework);
  CHECK(pitot::test::Unwrapped(code).find(
            "; if it took no time at all, the request would be at most 3.9 times as fast") !=
        std::string::npos);  // 27 ms, 20 of them
  CHECK(code_json.find("\"without_ns\": 7000000") != std::string::npos);
  CHECK(code_json.find("\"speedup_limit\": 3.857") != std::string::npos);
  CHECK(code_json.find("\"drag_ns\": 20000000") != std::string::npos);
  const auto [lock, lock_json] = judge(Blame::kHostLock);
  CHECK(lock.find("without it the request") == std::string::npos);
}

TEST_CASE("a request of a single part has no speed limit without it", "[verdict]") {
  Route route;
  route.LearnEach([](int, BlameVector& blame) { blame = {}, blame[Blame::kHostOncpuPre] = 5 * kMs; });
  BlameVector slow;
  slow[Blame::kHostOncpuPre] = 15 * kMs;
  const RequestBlame blame = route.Make(slow);

  const Verdict verdict = route.Judge(blame);

  REQUIRE((verdict.causes.size() + verdict.largest.size()) == 1);
  const std::string text = VerdictText(route.index, blame, verdict);
  CHECK(text.find("without it the request") == std::string::npos);
  const std::string json = VerdictJson(route.index, blame, verdict, nullptr, 0);
  CHECK(json.find("\"speedup_limit\": null") != std::string::npos);
}

TEST_CASE("a limit of a hundred times the speed is not mentioned", "[verdict]") {
  Route route;
  route.LearnEach([](int, BlameVector& blame) {
    blame = {}, blame[Blame::kHostOncpuPre] = 5 * kMs, blame[Blame::kHostOncpuPost] = 100'000;
  });
  BlameVector slow;
  slow[Blame::kHostOncpuPre] = 15 * kMs;
  slow[Blame::kHostOncpuPost] = 100'000;
  const RequestBlame blame = route.Make(slow);

  const Verdict verdict = route.Judge(blame);

  REQUIRE(verdict.causes.size() == 1);
  CHECK(verdict.causes[0].without_ns == 100'000);
  CHECK(VerdictText(route.index, blame, verdict).find("without it the request") == std::string::npos);
}

TEST_CASE("making a part normal also saves its common share, unless everything was slower", "[verdict]") {
  Route route;
  route.Learn(512);
  const auto judge = [&](double factor) {
    BlameVector slow = route.Typical();
    for (int64_t& part : slow.ns) part = std::llround(static_cast<double>(part) * factor);
    slow[Blame::kHostOncpuPre] += 10 * kMs;
    const Verdict verdict = route.Judge(route.Make(slow));
    REQUIRE(verdict.causes.size() == 1);
    CHECK(verdict.causes[0].common_ns > 0);
    return verdict;
  };
  const Verdict one = judge(1.04), all = judge(1.5);
  REQUIRE(one.kind == VerdictKind::kCauses);
  CHECK(one.causes[0].saving_ns == one.causes[0].excess_ns + one.causes[0].common_ns);
  REQUIRE(all.kind == VerdictKind::kUniform);
  CHECK(all.causes[0].saving_ns == all.causes[0].excess_ns);
}

TEST_CASE("each part has the advice for its evidence", "[verdict]") {
  struct Row {
    Blame blame;
    const char* code;
    Proof proof = Proof::kNone;
    BatchClose close = BatchClose::kUnknown;
  };
  const Row rows[] = {
      {Blame::kNetIn, "check_network"},
      {Blame::kAdmissionQueue, "add_capacity"},
      {Blame::kHandoff, "speed_wake_up"},
      {Blame::kQueueWaitOthers, "add_capacity"},
      {Blame::kQueueWaitOthers, "look_at_blocker", Proof::kBehindLong},
      {Blame::kBatchWindow, "check_batch_policy"},
      {Blame::kBatchWindow, "check_batch_policy", Proof::kNone, BatchClose::kFull},
      {Blame::kBatchWindow, "shorten_batch_delay", Proof::kNone, BatchClose::kTimeout},
      {Blame::kExecutorBusy, "add_capacity", Proof::kNone, BatchClose::kFull},
      {Blame::kExecutorBusy, "look_at_blocker", Proof::kBehindLong},
      {Blame::kExecutorBusy, "split_long_work", Proof::kInOwnBatch, BatchClose::kStep},
      {Blame::kExecutorBusy, "warm_up", Proof::kFirstUse},
      {Blame::kHostOncpuPre, "speed_preprocessing"},
      {Blame::kHostOncpuFramework, "speed_model_code"},
      {Blame::kHostOncpuFramework, "warm_up", Proof::kFirstUse},
      {Blame::kHostOncpuPost, "speed_postprocessing"},
      {Blame::kHostRunqueue, "free_cpu"},
      {Blame::kHostRunqueue, "raise_quota", Proof::kQuota},
      {Blame::kHostRunqueue, "own_cpus", Proof::kStolen},
      {Blame::kHostLock, "shard_lock"},
      {Blame::kHostGil, "release_gil"},
      {Blame::kHostGc, "tame_gc"},
      {Blame::kHostGc, "stop_seldom", Proof::kAllStopped},
      {Blame::kHostPagefaultIo, "take_io_out"},
      {Blame::kHostPagefaultIo, "fault_in_early", Proof::kMajorFaults},
      {Blame::kHostBlockedUnknown, "name_waits"},
      {Blame::kHostBlockedUnknown, "name_owner", Proof::kNamedWait},
      {Blame::kHostBlockedUnknown, "sleep_without_lock", Proof::kHeldLock},
      {Blame::kHostOncpuFramework, "launch_less", Proof::kMoreLaunches},
      {Blame::kLaunchApi, "check_launches"},
      {Blame::kLaunchApi, "launch_less", Proof::kMoreLaunches},
      {Blame::kLaunchApi, "keep_driver_free", Proof::kInDriver},
      {Blame::kLaunchApi, "speed_launches", Proof::kSlowLaunches},
      {Blame::kLaunchLatency, "check_launches"},
      {Blame::kLaunchLatency, "launch_less", Proof::kMoreLaunches},
      {Blame::kLaunchLatency, "keep_driver_free", Proof::kInDriver},
      {Blame::kLaunchLatency, "speed_launches", Proof::kSlowLaunches},
      {Blame::kLaunchQueueFull, "gpu_bound"},
      {Blame::kAllocStall, "allocate_early"},
      {Blame::kLazyLoadJit, "load_early"},
      {Blame::kLazyLoadJit, "warm_up", Proof::kFirstUse},
      {Blame::kSyncReturn, "return_from_sync"},
      {Blame::kSyncReturn, "wait_once", Proof::kManyWaits},
      {Blame::kH2d, "copy_better"},
      {Blame::kD2h, "copy_better"},
      {Blame::kD2dMemset, "copy_better"},
      {Blame::kGpuExecExpected, "speed_kernels"},
      {Blame::kGpuExecExpected, "compare_kernels", Proof::kNoUsual},
      {Blame::kGpuExecExpected, "keep_clock", Proof::kLowClock},
      {Blame::kGpuExecExpected, "keep_gpu_to_itself", Proof::kOthersOnGpu},
      {Blame::kGpuExecExpected, "move_fewer_bytes", Proof::kMemoryBound},
      {Blame::kGpuExcessUnknown, "keep_gpu_to_itself", Proof::kOthersOnGpu},
      {Blame::kExecutorBusy, "limit_step_work", Proof::kLargeMember},
      {Blame::kHostBlockedUnknown, "find_who_stopped_it", Proof::kStoodStill},
      {Blame::kHostBlockedUnknown, "look_at_stack", Proof::kPlaced},
      {Blame::kHostOncpuPre, "look_at_code", Proof::kPlaced},
      {Blame::kHostOncpuFramework, "look_at_code", Proof::kPlaced},
      {Blame::kHostOncpuPost, "look_at_code", Proof::kPlaced},
      {Blame::kQueueWaitOthers, "free_loop", Proof::kHeldLoop},
      {Blame::kUntraced, "look_at_stack", Proof::kPlaced},
      {Blame::kUntraced, "look_at_code", Proof::kBusy},
      {Blame::kUntraced, "look_at_span", Proof::kInSpan},
      {Blame::kHostBlockedUnknown, "say_size", Proof::kMayBeMixed},
      {Blame::kHostOncpuFramework, "say_size", Proof::kMayBeMixed},
      {Blame::kHostBlockedUnknown, "record_gpu", Proof::kMayAwaitGpu},
      {Blame::kHostOncpuFramework, "record_gpu", Proof::kMayAwaitGpu},
      {Blame::kHostOncpuFramework, "wait_in_calls", Proof::kMayPollGpu},
      {Blame::kUntraced, "watch_threads", Proof::kUnseen},
      {Blame::kGpuContention, "separate_gpu_work"},
      {Blame::kGpuClock, "keep_clock"},
      {Blame::kGpuExcessUnknown, "look_closer_at_gpu"},
      {Blame::kGpuQueueWaitOthers, "separate_gpu_work"},
      {Blame::kDispatchGap, "close_gaps"},
      {Blame::kCommExposed, "overlap_communication"},
      {Blame::kUntraced, "instrument"},
  };
  std::set<std::string> listed, given;
  std::set<uint32_t> blames;
  for (const Row& row : rows) {
    INFO(BlameName(row.blame) << ", proof " << static_cast<int>(row.proof));
    const Advice advice = AdviceFor(row.blame, row.close, row.proof);
    CHECK(std::string(advice.code) == row.code);
    CHECK(std::string(advice.text).size() > 20);
    listed.insert(row.code);
    blames.insert(static_cast<uint32_t>(row.blame));
  }
  CHECK(blames.size() == kBlames);
  // Only advice covered by a line above is ever given.
  for (uint32_t k = 0; k < kBlames; ++k) {
    for (int proof = 0; proof <= static_cast<int>(Proof::kInSpan); ++proof) {
      for (int close = 0; close < 8; ++close)
        given.insert(AdviceFor(static_cast<Blame>(k), static_cast<BatchClose>(close), static_cast<Proof>(proof)).code);
    }
  }
  CHECK(given == listed);
  const std::string named = AdviceFor(Blame::kHostPagefaultIo, BatchClose::kUnknown).text;
  CHECK(named.find("waited for input or output") != std::string::npos);
  CHECK(named.find("fault") == std::string::npos);
  CHECK(named.find("page cache") == std::string::npos);
}

TEST_CASE("a verdict without causes has advice if it is a general slowdown, or more work", "[verdict]") {
  CHECK(std::string(AdviceFor(VerdictKind::kUniform).code) == "look_at_machine");
  CHECK(std::string(AdviceFor(VerdictKind::kMoreWork).code) == "limit_work");
  for (const VerdictKind kind :
       {VerdictKind::kCauses, VerdictKind::kDiffuse, VerdictKind::kNotUnusual, VerdictKind::kUndetermined})
    CHECK(std::string(AdviceFor(kind).code).empty());
}

TEST_CASE("two causes for the same kernels or calls are half as sure, and each names the other", "[verdict]") {
  struct Pair {
    Blame one, other;
    uint32_t BlameSegment::*row;
  };
  const Pair pairs[] = {{Blame::kGpuClock, Blame::kGpuContention, &BlameSegment::gpu},
                        {Blame::kLaunchApi, Blame::kLaunchQueueFull, &BlameSegment::call}};
  size_t rows = 0;
  for (const verdict::Exclusion* row = verdict::kExclusions; row->one != nullptr; ++row)
    rows += row->of != verdict::Meeting::kSameGpu ? 1 : 0;
  REQUIRE(rows == std::size(pairs));
  for (const Pair& pair : pairs) {
    INFO(BlameName(pair.one));
    // 2 ms of one in each of three rows; 1 ms of the other in `shared` of these, and in as many others.
    const auto causes = [&](uint32_t shared) {
      RequestBlame blame;
      const auto add = [&](Blame part, uint32_t row, int64_t ns) {
        BlameSegment segment;
        segment.blame = part;
        segment.*pair.row = row;
        segment.begin_ns = blame.end_ns;
        segment.end_ns = blame.end_ns += ns;
        blame.segments.push_back(segment);
      };
      for (uint32_t row = 0; row < 3; ++row) {
        add(pair.one, row, 2 * kMs);
        add(pair.other, row < shared ? row : 10 + row, kMs);
      }
      std::vector<Cause> found(3);
      found[0].blame = pair.one, found[1].blame = pair.other, found[2].blame = Blame::kHostLock;
      for (Cause& cause : found) cause.confidence = 0.8;
      verdict::MarkContradictions(blame, &found);
      return found;
    };

    const std::vector<Cause> same = causes(2), apart = causes(1);

    CHECK(same[0].confidence == Approx(0.4));
    CHECK(same[1].confidence == Approx(0.4));
    CHECK(std::string(same[0].contradicted_by) == BlameName(pair.other));
    CHECK(std::string(same[1].contradicted_by) == BlameName(pair.one));
    CHECK(std::string(same[1].contradiction).substr(0, 7) == "either ");
    CHECK(same[2].confidence == Approx(0.8));
    for (const Cause& cause : apart) {
      CHECK(cause.confidence == Approx(0.8));
      CHECK(std::string(cause.contradicted_by).empty());
    }
  }
}

TEST_CASE("a contradiction of causes is in the verdict, its text and its JSON", "[verdict]") {
  Loading route(0);
  route.Learn(512);
  BlameVector slow = route.Draw();
  slow[Blame::kGpuClock] += 20 * kMs;
  slow[Blame::kGpuContention] += 10 * kMs;
  RequestBlame blame = route.Make(slow);
  for (BlameSegment& segment : blame.segments) {
    if (segment.blame == Blame::kGpuClock || segment.blame == Blame::kGpuContention) segment.gpu = 0;
  }

  const Verdict verdict = route.Judge(blame);

  REQUIRE(verdict.causes.size() == 2);
  CHECK(std::string(verdict.causes[0].contradicted_by) == "gpu_contention");
  CHECK(verdict.causes[0].confidence < 0.5);
  const std::string text = VerdictText(route.index, blame, verdict), json = VerdictJson(route.index, blame, verdict);
  CHECK(text.find("but contradicted by gpu_contention: either a low clock made") != std::string::npos);
  CHECK(text.find("but contradicted by gpu_clock: either a low clock made") != std::string::npos);
  CHECK(json.find("\"contradiction\": {") != std::string::npos);
  CHECK(json.find("\"blame\": \"gpu_contention\",") != std::string::npos);
}

TEST_CASE("a cause names its weakest factor if it takes a twentieth or more", "[verdict]") {
  Route route;
  route.Learn(512);
  BlameVector slow = route.Draw();
  slow[Blame::kHostLock] += 40 * kMs;
  slow[Blame::kAllocStall] += 8 * kMs;
  const RequestBlame blame = route.Make(slow);
  const Verdict verdict = route.Judge(blame);
  REQUIRE(verdict.causes.size() == 2);
  CHECK(std::string(verdict.causes[0].unsure).empty());
  CHECK(std::string(verdict.causes[1].unsure) == "so small a part may be a side effect of another");
  const std::string text = VerdictText(route.index, blame, verdict), json = VerdictJson(route.index, blame, verdict);
  CHECK(pitot::test::Unwrapped(text).find(
            " (so small a part may be a side effect of another); fixing it would save at most") != std::string::npos);
  CHECK(json.find("\"unsure\": \"so small a part may be a side effect of another\"") != std::string::npos);

  Route few;
  few.Learn(70);
  slow[Blame::kAllocStall] = 0;
  const Verdict of_few = few.Judge(few.Make(slow));
  REQUIRE(of_few.causes.size() == 1);
  CHECK(std::string(of_few.causes[0].unsure) == "few normal requests");

  slow[Blame::kHostBlockedUnknown] = 12 * kMs;
  const Verdict unknown = route.Judge(route.Make(slow));
  REQUIRE_FALSE(unknown.causes.empty());
  CHECK(std::string(unknown.causes[0].unsure) == "nothing explains some of the excess");
  slow[Blame::kUntraced] += 60 * kMs;
  const Verdict dark = route.Judge(route.Make(slow));
  REQUIRE_FALSE(dark.causes.empty());
  CHECK(std::string(dark.causes[0].unsure) == "nothing explains most of the excess");
}

TEST_CASE("a verdict on a missing row is refused", "[verdict]") {
  Route route;
  RequestBlame blame;
  Verdict verdict;
  CHECK(FindVerdict(route.index, blame, route.baseline, 0, VerdictOptions(), &verdict).code() ==
        StatusCode::kInvalidArgument);
  CHECK(FindVerdict(BlameIndex(), blame, route.baseline, 0, VerdictOptions(), &verdict).code() ==
        StatusCode::kInvalidArgument);
}

}  // namespace pitot::test
