// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <random>

#include "simulator/simulator.h"

namespace simulator {
namespace {

constexpr int64_t kUs = 1'000;
using Kind = Step::Kind;

class Maker {
 public:
  explicit Maker(uint64_t seed) : random_(seed * 0x9e3779b97f4a7c15 + 1) { spec_.seed = seed + 1; }

  ServerSpec Make() {
    spec_.requests = 20 + Below(230);
    spec_.mean_interval_ns = Log(15 * kUs, 600 * kUs);
    spec_.burst_factor = Chance(50) ? 1 : 2 + Below(20);
    spec_.mean_burst_ns = Log(300 * kUs, 5'000 * kUs);
    if (Chance(30)) spec_.cut_ns = Log(1'000 * kUs, 50'000 * kUs);
    spec_.stamps_arrivals = Chance(70);
    spec_.wake_up = {Chance(20) ? 1 : 500, Chance(20) ? 0 : Log(kUs, 60 * kUs)};
    for (uint32_t i = 0, n = Below(4); i < n; ++i) spec_.locks.push_back(Pick({"cache", "tokenizer", "weights"}, i));
    MakePools();
    for (uint32_t i = 0, n = 1 + Below(3); i < n; ++i) MakeModel(i);
    for (uint32_t i = 0, n = 1 + Below(4); i < n; ++i) MakeRoute(i);
    return spec_;
  }

 private:
  bool Chance(uint32_t percent) { return random_() % 100 < percent; }
  uint32_t Below(uint32_t limit) { return static_cast<uint32_t>(random_() % limit); }
  // Each order of magnitude as likely as another.
  int64_t Log(int64_t least, int64_t most) {
    int64_t limit = least;
    while (limit < most && Chance(80)) limit *= 2;
    return least + static_cast<int64_t>(random_() % static_cast<uint64_t>(std::min(limit, most)));
  }
  static std::string Pick(std::vector<std::string> from, uint32_t i) { return from[i % from.size()]; }
  Time Work() { return {1 + Log(1, 20 * kUs), Log(kUs, 100 * kUs)}; }

  QueueSpec MakeQueue(const std::string& name) {
    QueueSpec queue{name, 0, false};
    if (Chance(50)) queue.capacity = 1 + Below(12);
    queue.sheds = queue.capacity != 0 && Chance(40);
    return queue;
  }

  void MakePools() {
    Pool network;
    network.name = "http";
    network.threads = 1 + Below(8);
    network.queue = {"accept", 0, false};
    spec_.pools.push_back(network);
    Pool workers;
    workers.name = "worker";
    workers.threads = 1 + Below(4);
    workers.queue = MakeQueue("jobs");
    spec_.pools.push_back(workers);
    Pool responders;  // gets results: never refuses
    responders.name = "responder";
    responders.threads = 1 + Below(3);
    responders.queue = {"results", 0, false};
    spec_.pools.push_back(responders);
    for (Pool& pool : spec_.pools) {
      pool.percent_maintenance = Chance(30) ? Below(20) : 0;
      if (Chance(40)) pool.after_sending = "log";
      if (Chance(40)) pool.after_finishing = "clean up";
    }
  }

  void MakeModel(uint32_t i) {
    Model model;
    model.name = Pick({"resnet50", "bert", "llama"}, i);
    model.batcher = static_cast<Model::Batcher>(Below(3));
    model.executors = 1 + Below(3);
    model.queue = MakeQueue(model.name + " queue");
    model.groups = {model.name + " groups", Chance(50) ? 1 + Below(3) : 0, false};
    model.max_batch = 1 + Below(12);
    model.max_delay_ns = Chance(30) ? 0 : Log(10 * kUs, 3'000 * kUs);
    model.leave_early = Chance(40);
    model.scatter = {100, Log(100, 20 * kUs)};
    model.most_tokens = 1 + Below(25);
    model.percent_maintenance = Chance(30) ? Below(30) : 0;
    if (Chance(50)) model.steps.push_back({Kind::kStage, model.name, {}, 0, 0, 0, {}});
    if (Chance(40)) model.steps.push_back({Kind::kUntraced, "", {1, 3 * kUs}, 0, 0, 0, {}});
    if (Chance(30)) model.steps.push_back(MakeLocked(0, "copy weights"));
    Step forward{Kind::kCompute, "forward", {10 * kUs, Log(10 * kUs, 700 * kUs)}, Log(1, 20 * kUs), 0, 0, {}};
    if (Chance(50)) forward.inner.push_back({Kind::kCompute, "softmax", Work(), 0, 0, 0, {}});
    model.steps.push_back(forward);
    if (Chance(50)) model.steps.push_back({Kind::kSubmitted, "", {}, 0, 0, 0, {}});
    if (Chance(20)) model.steps.push_back({Kind::kIo, "device", {kUs, 100 * kUs}, 0, 0, 0, {}});
    spec_.models.push_back(model);
  }

  // A lock of a number from `least` on, or a computation if there is none.
  Step MakeLocked(uint32_t least, const std::string& name) {
    Step held{Kind::kCompute, name, Work(), 0, 0, 0, {}};
    if (least >= spec_.locks.size()) return held;
    Step lock{Kind::kLock, "", {}, 0, least + Below(static_cast<uint32_t>(spec_.locks.size()) - least), 0, {}};
    lock.inner.push_back(held);
    if (Chance(30)) lock.inner.push_back(MakeLocked(lock.target + 1, name + " again"));
    if (Chance(30)) lock.inner.push_back({Kind::kIo, "disk", Work(), 0, 0, 0, {}});
    return lock;
  }

  void AddWork(std::vector<Step>* steps) {
    for (uint32_t i = 0, n = Below(4); i < n; ++i) {
      switch (Below(8)) {
        case 0: steps->push_back({Kind::kUntraced, "", {1, 5 * kUs}, 0, 0, 0, {}}); break;
        case 1: steps->push_back({Kind::kIo, Pick({"disk", "redis"}, Below(2)), Work(), 0, 0, 0, {}}); break;
        case 2: steps->push_back({Kind::kSleep, "", Work(), 0, 0, 0, {}}); break;
        case 3:
        case 4: steps->push_back(MakeLocked(0, "look up")); break;
        case 5: {
          Step outer{Kind::kCompute, "decode", {1, 0}, 0, 0, 0, {}};
          AddWork(&outer.inner);
          steps->push_back(outer);
          break;
        }
        case 6: {
          Step call{Kind::kCall, "/embed", {}, 0, 0, 0, {}};
          call.inner.push_back({Kind::kCompute, "embed", Work(), 0, 0, 0, {}});
          steps->push_back(call);
          break;
        }
        default: steps->push_back({Kind::kCompute, Pick({"resize", "parse", "tokenize"}, Below(3)), Work(), 0, 0, 0, {}});
      }
    }
  }
  void AddStage(std::vector<Step>* steps, const char* name) {
    if (Chance(60)) steps->push_back({Kind::kStage, name, {}, 0, 0, 0, {}});
  }

  void MakeRoute(uint32_t i) {
    Route route;
    route.name = Pick({"/classify", "/segment", "/generate", "/health"}, i);
    route.weight = 1 + Below(5);
    if (Chance(30)) route.deadline_ns = Log(500 * kUs, 20'000 * kUs);
    if (Chance(20)) route.patience_ns = Log(1'000 * kUs, 20'000 * kUs);
    if (Chance(70)) route.size_name = "pixels", route.size_most = Log(1, 1 << 20);
    route.percent_failed = Chance(30) ? Below(15) : 0;
    route.percent_abandoned = Chance(20) ? Below(10) : 0;
    AddStage(&route.steps, "read");
    route.steps.push_back({Kind::kCompute, "read", Work(), 0, 0, 0, {}});
    AddWork(&route.steps);
    if (Chance(40)) {
      route.steps.push_back({Kind::kSend, "", {}, 0, 1, 0, {}});
      AddStage(&route.steps, "preprocess");
      route.steps.push_back({Kind::kCompute, "preprocess", Work(), 0, 0, 0, {}});
      AddWork(&route.steps);
    }
    for (uint32_t n = Below(3); n > 0; --n) {
      const uint32_t model = Below(static_cast<uint32_t>(spec_.models.size()));
      AddStage(&route.steps, "queue");
      if (Chance(50)) {
        Step wait{Kind::kInferAndWait, "", {}, 0, model, 0, {}};
        for (uint32_t m = Below(3); m > 0; --m) wait.inner.push_back({Kind::kCompute, "audit", Work(), 0, 0, 0, {}});
        route.steps.push_back(wait);
      } else {
        route.steps.push_back({Kind::kInfer, "", {}, 0, model, 2, {}});
      }
      AddStage(&route.steps, "postprocess");
      route.steps.push_back({Kind::kCompute, "postprocess", Work(), 0, 0, 0, {}});
      AddWork(&route.steps);
    }
    AddStage(&route.steps, "respond");
    route.steps.push_back({Kind::kIo, "socket", {kUs, 20 * kUs}, 0, 0, 0, {}});
    spec_.routes.push_back(route);
  }

  ServerSpec spec_;
  std::mt19937_64 random_;
};

}  // namespace

ServerSpec RandomServer(uint64_t seed) { return Maker(seed).Make(); }

}  // namespace simulator
