// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <random>

#include "simulator/simulator.h"

namespace simulator {
namespace {

constexpr int64_t kUs = 1'000;

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
    spec_.lock_wake_up = {Chance(50) ? 0 : 300, Chance(50) ? 0 : Log(kUs, 20 * kUs)};
    return spec_;
  }
  ServerSpec MakeWithGpus() {
    Make();
    spec_.streams_per_device = 1 + Below(3);
    spec_.streams = spec_.streams_per_device * (1 + Below(2));
    spec_.percent_told = 50 * Below(3);
    for (Model& model : spec_.models) AddKernels(&model.steps);
    for (Route& route : spec_.routes) {
      if (Chance(30)) {
        std::vector<Step> kernels;
        AddKernels(&kernels);
        // Not before its first scope, because that is the sign of its begin.
        const auto first = std::find_if(route.steps.begin(), route.steps.end(),
                                        [](const Step& step) { return step.kind == Step::Kind::kCompute; });
        route.steps.insert(first + 1, kernels.begin(), kernels.end());
      }
    }
    return spec_;
  }

 private:
  bool Chance(uint32_t percent) { return random_() % 100 < percent; }
  uint32_t Below(uint32_t limit) { return static_cast<uint32_t>(random_() % limit); }
  // Each order of magnitude is as likely as another.
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

  // Launches with code between, then a wait for the stream; sometimes more than once.
  void AddKernels(std::vector<Step>* steps) {
    for (uint32_t rounds = 1 + Below(2); rounds > 0; --rounds) {
      const uint32_t stream = Below(spec_.streams);
      const bool waits_for_device = Chance(30);
      const Time kernel{kUs, Log(kUs, 150 * kUs)}, api{500, Log(kUs, 12 * kUs)};
      for (uint32_t i = 0, n = 1 + Below(6); i < n; ++i) {
        const uint32_t first = stream - stream % spec_.streams_per_device;
        const uint32_t on = waits_for_device ? first + Below(spec_.streams_per_device) : stream;
        std::vector<Step> launch = {Step::Launch(on, Pick({"gemm", "norm", "relu"}, i), kernel, api)};
        if (Chance(30)) launch = {Step::Compute("layer", Work(), launch)};
        if (Chance(20)) steps->push_back(Step::Untraced({1, 3 * kUs}));
        steps->insert(steps->end(), launch.begin(), launch.end());
      }
      if (Chance(40)) steps->push_back(Step::Compute("meanwhile", Work()));
      const Time time{300, 4 * kUs};
      steps->push_back(waits_for_device ? Step::SyncDevice(stream, time) : Step::Sync(stream, time));
    }
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
    if (Chance(50)) model.steps.push_back(Step::Stage(model.name));
    if (Chance(40)) model.steps.push_back(Step::Untraced({1, 3 * kUs}));
    if (Chance(30)) model.steps.push_back(MakeLocked(0, "copy weights"));
    std::vector<Step> inner;
    if (Chance(50)) inner.push_back(Step::Compute("softmax", Work()));
    const Time forward{10 * kUs, Log(10 * kUs, 700 * kUs)};
    model.steps.push_back(Step::Compute("forward", forward, inner, Log(1, 20 * kUs)));
    if (Chance(50)) model.steps.push_back(Step::Submitted());
    if (Chance(20)) model.steps.push_back(Step::Io("device", {kUs, 100 * kUs}));
    spec_.models.push_back(model);
  }

  // A lock of a number from `least` on, or a computation if there is none.
  Step MakeLocked(uint32_t least, const std::string& name) {
    const Step held = Step::Compute(name, Work());
    if (least >= spec_.locks.size()) return held;
    const uint32_t lock = least + Below(static_cast<uint32_t>(spec_.locks.size()) - least);
    std::vector<Step> inner = {held};
    if (Chance(30)) inner.push_back(MakeLocked(lock + 1, name + " again"));
    if (Chance(30)) inner.push_back(Step::Io("disk", Work()));
    return Step::Lock(lock, inner);
  }

  std::vector<Step> SomeWork() {
    std::vector<Step> steps;
    for (uint32_t i = 0, n = Below(4); i < n; ++i) {
      switch (Below(8)) {
        case 0:
          steps.push_back(Step::Untraced({1, 5 * kUs}));
          break;
        case 1:
          steps.push_back(Step::Io(Pick({"disk", "redis"}, Below(2)), Work()));
          break;
        case 2:
          steps.push_back(Step::Sleep(Work()));
          break;
        case 3:
        case 4:
          steps.push_back(MakeLocked(0, "look up"));
          break;
        case 5:
          steps.push_back(Step::Compute("decode", {1, 0}, SomeWork()));
          break;
        case 6:
          steps.push_back(Step::Call("/embed", {Step::Compute("embed", Work())}));
          break;
        default:
          steps.push_back(Step::Compute(Pick({"resize", "parse", "tokenize"}, Below(3)), Work()));
      }
    }
    return steps;
  }
  void AddWork(const char* stage, const char* first, std::vector<Step>* steps) {
    if (Chance(60)) steps->push_back(Step::Stage(stage));
    steps->push_back(Step::Compute(first, Work()));
    for (const Step& step : SomeWork()) steps->push_back(step);
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
    AddWork("read", "read", &route.steps);
    if (Chance(40)) {
      route.steps.push_back(Step::Send(1));
      AddWork("preprocess", "preprocess", &route.steps);
    }
    for (uint32_t n = Below(3); n > 0; --n) {
      const uint32_t model = Below(static_cast<uint32_t>(spec_.models.size()));
      if (Chance(60)) route.steps.push_back(Step::Stage("queue"));
      if (Chance(50)) {
        const std::vector<Step> meanwhile(Below(3), Step::Compute("audit", Work()));
        route.steps.push_back(Step::InferAndWait(model, meanwhile));
      } else {
        route.steps.push_back(Step::Infer(model, 2));
      }
      AddWork("postprocess", "postprocess", &route.steps);
    }
    if (Chance(60)) route.steps.push_back(Step::Stage("respond"));
    route.steps.push_back(Step::Io("socket", {kUs, 20 * kUs}));
    spec_.routes.push_back(route);
  }

  ServerSpec spec_;
  std::mt19937_64 random_;
};

}  // namespace

ServerSpec RandomServer(uint64_t seed) { return Maker(seed).Make(); }
ServerSpec RandomGpuServer(uint64_t seed) { return Maker(seed).MakeWithGpus(); }

}  // namespace simulator
