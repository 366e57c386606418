// SPDX-License-Identifier: Apache-2.0
//
// The programs of the server's threads. They read like a real server's, except that each thing is also noted as truth.
// Actor::Block stands next to a scope or wait, Actor::context_* next to changes of the recorder's context, and Path
// where requests move.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <random>

#include "simulator/actor.h"
#include "simulator/gpus.h"
#include "simulator/simulator.h"
#include "simulator/slow.h"
#include "simulator/world.h"

namespace simulator {
namespace {

using pitot::BatchClose;
using pitot::Intern;
using pitot::Outcome;
using pitot::SiteKind;
using pitot::WaitKind;
using Doing = Actor::Doing;

// PITOT_WAIT takes literals only, but this server's resources have names made at run time.
using WaitArgs = pitot::detail::ArgList<uint64_t, pitot::Name, uint64_t, uint64_t>;
constexpr pitot::Site kWaitSite{pitot::kSiteMagic,
                                SiteKind::kWait,
                                WaitArgs::kCount,
                                0,
                                __LINE__,
                                WaitArgs::Types(),
                                "wait",
                                "simulator/server.cc",
                                "wait",
                                "\"\", kind, resource, owner_thread, owner_request"};

using Random = std::mt19937_64;

// A request on its way.
struct Job {
  uint32_t number = 0;                // in order of arrival
  Random* random = nullptr;           // of steps for it alone
  Random* random_of_batch = nullptr;  // and for batches with it as the first member
  uint32_t steps_alone = 0, steps_in_batches = 0;
  const Route* route = nullptr;
  int64_t arrival_ns = 0;
  int64_t patience_end_ns = kForever;
  Outcome fate = Outcome::kOk;  // its end before step `fate_step`
  size_t fate_step = 0;
  size_t next_step = 0;
  double size = 0;
  uint32_t tokens_left = 0;

  pitot::Request request;
  pitot::Token token;  // of the queue it is in
  pitot::AsyncScope inference;
  uint64_t id = 0;
  uint64_t parent_id = 0;  // of a child: the context again when it is finished
  bool is_finished = false;

  // Its rows in the truth.
  size_t row = 0, handoff = 0, async = 0;
  Path path;
  // While a thread waits for its result: the way through the model, next to that on the thread.
  bool is_awaited = false;
  int64_t awaited_from_ns = 0;
  int64_t result_ns = 0;  // 0: not there yet
  Path detour;
  Actor* waiter = nullptr;
  uint32_t reply = 0;  // pool that goes on, unless it is awaited

  Path* MovingPath() { return is_awaited ? &detour : &path; }
};

// An item of a queue: a request, or a batcher's group.
struct Work {
  static Work Of(Job* job) { return {{job}, BatchClose::kUnknown}; }
  std::vector<Job*> jobs;
  BatchClose close = BatchClose::kUnknown;
};

struct Queue {
  explicit Queue(const QueueSpec& queue) : spec(queue) {}
  QueueSpec spec;
  std::deque<Work> items;
  std::deque<Actor*> idle;     // wait for work
  std::deque<Actor*> blocked;  // wait for room
  bool IsFull() const { return spec.capacity != 0 && items.size() >= spec.capacity; }
};

struct Lock {
  explicit Lock(const std::string& lock) : name(lock) {}
  std::string name;
  Actor* holder = nullptr;
  pitot::Owner owner;  // as the holder told the recorder
  Culprit culprit;     // the same, and its batch
  std::deque<Actor*> waiters;
};

struct Serving {  // a batch
  pitot::Batch batch;
  size_t row = 0;
  std::vector<Job*> members;
};

// Whether a step takes its given time.
bool IsWork(Step::Kind kind) {
  return kind == Step::Kind::kCompute || kind == Step::Kind::kUntraced || kind == Step::Kind::kIo ||
         kind == Step::Kind::kSleep || kind == Step::Kind::kLaunch;
}

class Server {
 public:
  Server(const ServerSpec& spec, const Recording& recording);
  Run Play();

 private:
  struct PoolState {
    explicit PoolState(const Pool& pool) : spec(&pool), queue(pool.queue) {}
    const Pool* spec;
    Queue queue;
  };
  struct ModelState {
    explicit ModelState(const Model& model) : spec(&model), queue(model.queue), groups(model.groups) {}
    const Model* spec;
    Queue queue, groups;
  };

  // Chance.
  static bool Chance(Random* random, uint32_t percent) { return (*random)() % 100 < percent; }
  static uint64_t Below(Random* random, uint64_t limit) { return (*random)() % limit; }
  static int64_t Exponential(Random* random, double mean_ns);
  static int64_t Draw(Random* random, const Time& time) {
    return std::max<int64_t>(1, time.least_ns + Exponential(random, double(time.mean_ns)));
  }
  static int64_t WakeUp(Random* random, const Time& time) {
    return time.least_ns + time.mean_ns == 0 ? 0 : Draw(random, time);
  }
  Random* Apart(uint64_t of, uint64_t what);
  int64_t DelayOf(Job* job, bool is_in_batch);

  int64_t now_ns() const { return World::now_ns(); }
  TrueRequest& RowOf(const Job& job) { return truth_.requests[job.row]; }

  // The threads' programs.
  Task<> Arrivals(Actor* self);
  Task<> Worker(Actor* self, PoolState* pool);
  Task<> Executor(Actor* self, ModelState* model);
  Task<> Batcher(Actor* self, ModelState* model);
  Task<> ContinuousExecutor(Actor* self, ModelState* model);

  // Their parts.
  Task<> Serve(Actor* self, const Pool& pool, Job* job);
  Task<> InferAndWait(Actor* self, const Step& step, Job* job);
  Task<> Do(Actor* self, const Step& step, Job* job, Serving* serving);
  Task<> Compute(Actor* self, const std::string& name, int64_t ns);
  Task<> OnCpu(Actor* self, int64_t ns);
  void ReadCpu(Actor* self, int64_t on_cpu_ns, int64_t delay_ns);
  Task<> Call(Actor* self, const Step& step, Job* parent);
  Task<> Acquire(Actor* self, Lock* lock);
  void Release(Actor* self, Lock* lock, Random* random);
  Task<> Launch(Actor* self, const Step& step, int64_t ns, Random* random);
  Task<> Sync(Actor* self, const Step& step, int64_t ns, Random* random);
  Task<Work> Pop(Actor* self, Queue* queue, int64_t until_ns);
  Task<> Put(Actor* self, Queue* queue, Work work);
  Task<bool> Send(Actor* self, Queue* queue, Job* job);
  Task<> Maintain(Actor* self, uint32_t percent, Random* random);
  Task<> Scatter(Actor* self, const Model& model, Serving* serving);
  Task<> Respond(Actor* self, Serving* serving);

  void Accept(Actor* self, const std::string& queue, Job* job);
  void Enqueue(Actor* self, Queue* queue, Job* job);
  void PutNow(Actor* self, Queue* queue, Work work);
  void Take(Actor* self, Job* job, uint64_t batch);
  bool IsOver(const Job& job, Outcome* outcome) const;
  void DropOver(Actor* self, Work* work);
  void Finish(Actor* self, Job* job, Outcome outcome);
  void Reply(Actor* self, Job* job);
  void MarkStage(Job* job, const std::string& name);

  Serving Begin(Actor* self, const Model& model);
  void Join(Actor* self, Serving* serving, const Work& work);
  void JoinAgain(Serving* serving, Job* job);
  void LeaveBatch(Serving* serving, Job* job);
  void Close(Serving* serving, BatchClose close);
  void End(Actor* self, Serving* serving);

  // Makes a request an actor's context, for a block.
  class Adopted {
   public:
    Adopted(Actor* actor, const pitot::Token& token) : actor_(actor), before_(actor->context_request), adopt_(token) {
      actor->context_request = token.request;
    }
    ~Adopted() { actor_->context_request = before_; }
    Adopted(const Adopted&) = delete;
    Adopted& operator=(const Adopted&) = delete;

   private:
    Actor* actor_;
    uint64_t before_;
    pitot::Adopt adopt_;
  };

  const ServerSpec spec_;
  Truth truth_;
  Random random_;
  std::deque<Random> apart_;
  std::vector<PoolState> pools_;
  std::vector<ModelState> models_;
  std::vector<Lock> locks_;
  Gpus gpus_;
  std::map<const Actor*, CpuReading> last_readings_;
  std::vector<CpuReading> cpu_readings_;
  std::vector<std::unique_ptr<Job>> jobs_;
  std::vector<std::unique_ptr<Actor>> actors_;
  World world_;  // goes first, while everything its threads use is still there
};

// ---- Chance and set-up.
// ----------------------------------------------------------------------------------------------

int64_t Server::Exponential(Random* random, double mean_ns) {
  const double uniform = (static_cast<double>((*random)() >> 11) + 0.5) * 0x1p-53;
  return static_cast<int64_t>(-mean_ns * std::log(uniform));
}

// A generator of its own, if asked for.
Random* Server::Apart(uint64_t of, uint64_t what) {
  if (!spec_.draws_apart) return &random_;
  std::seed_seq seed{spec_.seed, of, what};
  apart_.emplace_back(seed);
  return &apart_.back();
}

// Counts steps for a request, and returns the step's delay.
int64_t Server::DelayOf(Job* job, bool is_in_batch) {
  int64_t delay_ns = 0;
  const uint32_t step = is_in_batch ? job->steps_in_batches++ : job->steps_alone++;
  for (const Delay& delay : spec_.delays) {
    if (delay.request == job->number && delay.is_in_batch == is_in_batch && delay.step == step) delay_ns += delay.ns;
  }
  return delay_ns;
}

Server::Server(const ServerSpec& spec, const Recording& recording)
    : spec_(spec),
      random_(spec.seed),
      gpus_(spec.streams, spec.streams_per_device, &truth_.slow_clocks),
      world_(recording, spec.seed) {
  for (const Pool& pool : spec_.pools) pools_.emplace_back(pool);
  for (const Model& model : spec_.models) models_.emplace_back(model);
  for (const std::string& name : spec_.locks) locks_.emplace_back(name);
  truth_.begin_ns = now_ns();
  for (const auto& [slows, of] :
       {std::pair(&spec_.slow_clocks, &truth_.slow_clocks), std::pair(&spec_.taken_cpus, &truth_.taken_cpus)}) {
    for (const Slow& slow : *slows)
      of->push_back({truth_.begin_ns + slow.begin_ns, truth_.begin_ns + slow.end_ns, slow.speed});
  }

  const auto start = [this](const std::string& name, auto program) {
    actors_.push_back(std::make_unique<Actor>());
    Actor* actor = actors_.back().get();
    actor->SetTruth(&truth_);
    world_.Start(actor, name.empty() ? nullptr : name.c_str(), program(actor));
    if (!name.empty()) truth_.threads.push_back(name);
  };
  for (PoolState& pool : pools_) {
    for (uint32_t i = 1; i <= pool.spec->threads; ++i)
      start(pool.spec->name + "-" + std::to_string(i), [&](Actor* self) { return Worker(self, &pool); });
  }
  for (ModelState& model : models_) {
    const bool is_continuous = model.spec->batcher == Model::Batcher::kContinuous;
    for (uint32_t i = 1; i <= model.spec->executors; ++i)
      start(model.spec->name + "-" + std::to_string(i),
            [&](Actor* self) { return is_continuous ? ContinuousExecutor(self, &model) : Executor(self, &model); });
    if (model.spec->batcher == Model::Batcher::kOwnThread)
      start(model.spec->name + "-batcher", [&](Actor* self) { return Batcher(self, &model); });
  }
  start("", [&](Actor* self) { return Arrivals(self); });
}

Run Server::Play() {
  world_.RunUntil(spec_.cut_ns < kForever ? truth_.begin_ns + spec_.cut_ns : kForever);
  Run run;
  run.trace = world_.TakeTrace();
  gpus_.AddTo(now_ns(), &run.trace);
  if (!truth_.slow_clocks.empty()) AddClock(truth_.slow_clocks, truth_.begin_ns, now_ns(), &run.trace);
  if (!truth_.taken_cpus.empty()) AddCpuReadings(cpu_readings_, &run.trace);
  truth_.end_ns = now_ns();
  for (const auto& actor : actors_) actor->NoteOpen();
  // The reason for closing a batch is known only afterwards.
  std::vector<std::pair<uint64_t, BatchClose>> closes;
  for (const TrueBatch& batch : truth_.batches) closes.emplace_back(batch.id, batch.close);
  std::sort(closes.begin(), closes.end());
  std::map<uint64_t, uint64_t> parents;
  for (const TrueRequest& request : truth_.requests) parents[request.id] = request.parent_id;
  const auto outermost = [&](uint64_t id) {
    while (id != 0 && parents.count(parents[id]) != 0) id = parents[id];
    return id;
  };
  for (TrueRequest& request : truth_.requests) {
    std::vector<Segment> path;
    path.swap(request.path);
    for (Segment& segment : path) {
      if (segment.cause == Cause::kOnCpu) {  // of another request alone; parts of a request count as the request
        segment.culprit.request = outermost(segment.culprit.request);
        if (segment.culprit.request == outermost(request.id)) segment.culprit = {};
      }
      AppendSegment(segment, &request.path);
    }
    for (Segment& segment : request.path) {
      if (segment.cause != Cause::kBatchWindow) continue;
      const auto of = std::lower_bound(closes.begin(), closes.end(), std::pair(segment.culprit.batch, BatchClose{}));
      if (of != closes.end() && of->first == segment.culprit.batch) segment.close = of->second;
    }
  }
  run.truth = truth_;
  return run;
}

Task<> Server::Arrivals(Actor* self) {
  uint64_t weights = 0;
  for (const Route& route : spec_.routes) weights += route.weight;
  bool is_burst = false;
  Random* random = Apart(0, 0);
  int64_t phase_end_ns = now_ns() + Exponential(random, double(spec_.mean_burst_ns));
  for (uint32_t i = 0; i < spec_.requests; ++i) {
    for (; phase_end_ns <= now_ns(); phase_end_ns += 1 + Exponential(random, double(spec_.mean_burst_ns)))
      is_burst = !is_burst;
    const double interval_ns = double(spec_.mean_interval_ns) / (is_burst ? spec_.burst_factor : 1);
    co_await world_.Delay(self, Exponential(random, interval_ns));

    uint64_t at = Below(random, weights);
    const Route* route = spec_.routes.data();
    for (; at >= route->weight; ++route) at -= route->weight;
    jobs_.push_back(std::make_unique<Job>());
    Job* job = jobs_.back().get();
    job->number = i;
    job->random = Apart(i, 1);
    job->random_of_batch = Apart(i, 2);
    job->route = route;
    job->arrival_ns = now_ns();
    if (route->patience_ns != 0) job->patience_end_ns = now_ns() + 1 + Exponential(random, double(route->patience_ns));
    if (Chance(random, route->percent_failed)) job->fate = Outcome::kFailed;
    if (Chance(random, route->percent_abandoned)) job->fate = Outcome::kAbandoned;
    job->fate_step = 1 + Below(random, route->steps.size());
    job->size = static_cast<double>(1 + Below(random, static_cast<uint64_t>(route->size_most)));
    // The network's queue is not a queue of the recorder.
    Queue& queue = pools_[0].queue;
    queue.items.push_back(Work::Of(job));
    if (!queue.idle.empty()) {
      world_.Wake(queue.idle.front(), WakeUp(random, spec_.wake_up));
      queue.idle.pop_front();
    }
  }
}

// ---- Threads that serve requests.
// ------------------------------------------------------------------------------------

Task<> Server::Worker(Actor* self, PoolState* pool) {
  const bool is_first = pool == &pools_[0];
  for (;;) {
    Work work = co_await Pop(self, &pool->queue, kForever);
    Job* job = work.jobs[0];
    if (is_first) {
      Accept(self, pool->spec->queue.name, job);
      co_await Serve(self, *pool->spec, job);
      self->WorkFor(0, 0);
      continue;
    }
    {
      const Adopted adopted(self, job->token);
      Take(self, job, 0);
      self->WorkFor(job->id, 0);
      co_await Serve(self, *pool->spec, job);
      self->WorkFor(0, 0);
    }
    co_await Maintain(self, pool->spec->percent_maintenance, job->random);
  }
}

void Server::Accept(Actor* self, const std::string& queue, Job* job) {
  TrueRequest row;
  char traceparent[56] = "";
  Random& random = *job->random;
  if (Chance(&random, 25)) {
    row.trace_id_high = random() | 1, row.trace_id_low = random(), row.parent_id = random() | 1;
    std::snprintf(traceparent, sizeof traceparent, "00-%016llx%016llx-%016llx-01",
                  static_cast<unsigned long long>(row.trace_id_high), static_cast<unsigned long long>(row.trace_id_low),
                  static_cast<unsigned long long>(row.parent_id));
  }
  const int64_t begin_ns = spec_.stamps_arrivals ? job->arrival_ns : now_ns();
  const pitot::Timestamp arrival{spec_.stamps_arrivals ? static_cast<uint64_t>(job->arrival_ns) : 0};
  job->request =
      pitot::Request::Begin(job->route->name.c_str(), traceparent[0] != '\0' ? traceparent : nullptr, arrival);
  job->id = job->request.id();
  if (row.parent_id == 0) {  // the recorder made up a trace
    job->request.WriteTraceparent(traceparent);
    row.trace_id_high = std::stoull(std::string(traceparent + 3, 16), nullptr, 16);
    row.trace_id_low = std::stoull(std::string(traceparent + 19, 16), nullptr, 16);
  }
  self->context_request = job->id;
  self->WorkFor(job->id, 0);

  row.id = job->id;
  row.number = job->number;
  row.route = job->route->name;
  row.begin_ns = begin_ns;
  row.accepted_ns = now_ns();
  row.begin_thread = self->number();
  row.label = "tenant-" + std::to_string(Below(&random, 5));
  job->request.SetLabel("tenant", row.label.c_str());
  if (!job->route->size_name.empty()) {
    row.size_name = job->route->size_name;
    row.size = job->size;
    job->request.SetSize(row.size_name.c_str(), row.size);
  }
  if (job->route->deadline_ns != 0) {
    row.deadline_ns = job->route->deadline_ns;
    job->request.SetDeadline(static_cast<uint64_t>(row.deadline_ns));
  }
  job->row = truth_.requests.size();
  truth_.requests.push_back(row);
  if (begin_ns < now_ns()) job->path.Append(self->TileQueue(queue, begin_ns));
  self->Board(&job->path);
}

Task<> Server::Serve(Actor* self, const Pool& pool, Job* job) {
  while (!job->is_finished) {
    Outcome outcome;
    if (IsOver(*job, &outcome)) {
      Finish(self, job, outcome);
      break;
    }
    const Step& step = job->route->steps[job->next_step++];
    if (step.kind == Step::Kind::kSend || step.kind == Step::Kind::kInfer) {
      const bool is_inference = step.kind == Step::Kind::kInfer;
      job->reply = step.reply;
      Queue* queue = is_inference ? &models_[step.target].queue : &pools_[step.target].queue;
      const bool was_sent = co_await Send(self, queue, job);
      if (!was_sent) break;
      if (job->is_finished) self->WorkFor(0, 0);  // elsewhere, meanwhile: the rest of the work is nobody's
      if (!pool.after_sending.empty()) co_await Compute(self, pool.after_sending, Draw(job->random, {500, 5'000}));
      co_return;
    }
    if (step.kind == Step::Kind::kInferAndWait)
      co_await InferAndWait(self, step, job);
    else
      co_await Do(self, step, job, nullptr);
  }
  if (!pool.after_finishing.empty()) {
    self->WorkFor(0, 0);
    co_await Compute(self, pool.after_finishing, Draw(job->random, {500, 5'000}));
  }
}

Task<> Server::InferAndWait(Actor* self, const Step& step, Job* job) {
  job->is_awaited = true;
  job->awaited_from_ns = now_ns();
  job->result_ns = 0;
  job->detour = Path();
  job->waiter = nullptr;
  const bool was_sent = co_await Send(self, &models_[step.target].queue, job);
  if (!was_sent) co_return;
  for (const Step& meanwhile : step.inner) {
    if (job->is_finished) self->WorkFor(0, 0);
    co_await Do(self, meanwhile, job, nullptr);
  }
  if (job->result_ns == 0) {
    {
      const pitot::Wait wait(&kWaitSite, WaitKind::kFuture, Intern("result"), {});
      const Actor::Block block(self, Doing::kAwaitResult, "result");
      job->waiter = self;
      co_await world_.Park(self);
    }
    if (!job->is_finished) {
      std::vector<Segment> way = job->detour.Until(job->result_ns);
      AppendSegment({job->result_ns, now_ns(), Cause::kHandoff, self->number(), "result", {}, {}}, &way);
      job->path.Replace(job->awaited_from_ns, way);
    }
  }
  job->is_awaited = false;
  if (job->is_finished) self->Leave(&job->path);
}

// ---- Steps.
// ----------------------------------------------------------------------------------------------------------

Task<> Server::Compute(Actor* self, const std::string& name, int64_t ns) {
  PITOT_SCOPE_NAMED(Intern(name.c_str()));
  const Actor::Block block(self, Doing::kScope, name);
  co_await OnCpu(self, ns);
}

// Computes for so long, longer where CPUs are taken.
Task<> Server::OnCpu(Actor* self, int64_t ns) {
  const int64_t begin_ns = now_ns(), end_ns = EndOfWork(begin_ns, ns, truth_.taken_cpus);
  ReadCpu(self, 0, 0);
  co_await world_.Delay(self, end_ns - begin_ns);
  ReadCpu(self, ns, end_ns - begin_ns - ns);
}

// Adds a reading of its counters, grown by this much since the last one.
void Server::ReadCpu(Actor* self, int64_t on_cpu_ns, int64_t delay_ns) {
  if (truth_.taken_cpus.empty()) return;
  CpuReading& last = last_readings_[self];
  last = {self->number(), now_ns(), last.on_cpu_ns + on_cpu_ns, last.delay_ns + delay_ns};
  cpu_readings_.push_back(last);
}

Task<> Server::Do(Actor* self, const Step& step, Job* job, Serving* serving) {
  const size_t members = serving != nullptr ? serving->members.size() : 1;
  Random* random = serving != nullptr ? serving->members[0]->random_of_batch : job->random;
  int64_t ns = Draw(random, step.time) + step.each_ns * static_cast<int64_t>(members);
  if (IsWork(step.kind)) {
    if (job != nullptr) ns += DelayOf(job, false);
    if (serving != nullptr) {
      for (Job* member : serving->members) ns += DelayOf(member, true);
    }
  }
  switch (step.kind) {
    case Step::Kind::kCompute: {
      PITOT_SCOPE_NAMED(Intern(step.name.c_str()), members);
      const Actor::Block block(self, Doing::kScope, step.name);
      co_await OnCpu(self, ns);
      for (const Step& inner : step.inner) co_await Do(self, inner, job, serving);
      break;
    }
    case Step::Kind::kUntraced:
      co_await OnCpu(self, ns);
      break;
    case Step::Kind::kIo: {
      const pitot::Wait wait(&kWaitSite, WaitKind::kIo, Intern(step.name.c_str()), {});
      const Actor::Block block(self, Doing::kIo, step.name);
      co_await world_.Delay(self, ns);
      break;
    }
    case Step::Kind::kSleep: {
      PITOT_WAIT(WaitKind::kSleep, "sleep", pitot::Owner{});
      const Actor::Block block(self, Doing::kSleep, "sleep");
      co_await world_.Delay(self, ns);
      break;
    }
    case Step::Kind::kLock: {
      Lock* lock = &locks_[step.target];
      co_await Acquire(self, lock);
      for (const Step& inner : step.inner) co_await Do(self, inner, job, serving);
      Release(self, lock, random);
      break;
    }
    case Step::Kind::kStage:
      if (job != nullptr) MarkStage(job, step.name);
      if (serving != nullptr) {
        for (Job* member : serving->members) MarkStage(member, step.name);
      }
      break;
    case Step::Kind::kCall:
      co_await Call(self, step, job);
      break;
    case Step::Kind::kSubmitted:
      serving->batch.Submitted();
      truth_.batches[serving->row].submitted_ns = now_ns();
      break;
    case Step::Kind::kLaunch:
      co_await Launch(self, step, ns, random);
      break;
    case Step::Kind::kSync:
    case Step::Kind::kSyncDevice:
      co_await Sync(self, step, ns, random);
      break;
    case Step::Kind::kSend:
    case Step::Kind::kInfer:
    case Step::Kind::kInferAndWait:
      break;  // Serve does them
  }
}

Task<> Server::Launch(Actor* self, const Step& step, int64_t ns, Random* random) {
  while (gpus_.IsCalled(step.target, now_ns())) co_await world_.Delay(self, 1);
  const Culprit whose = self->culprit();
  const Gpus::Context context{self->number(), self->context_request, self->context_batch};
  const int64_t api_ns = Draw(random, step.api);
  gpus_.Launch(step.target, step.name, {now_ns(), api_ns, ns, std::min<int64_t>(Draw(random, {1'000, 3'000}), 15'000)},
               context, whose);
  const Actor::Block block(self, Doing::kCall, Gpus::kLaunchName);
  co_await world_.Delay(self, api_ns);
  ReadCpu(self, api_ns, 0);
}

Task<> Server::Sync(Actor* self, const Step& step, int64_t ns, Random* random) {
  while (gpus_.IsCalled(step.target, now_ns())) co_await world_.Delay(self, 1);
  const Gpus::Context context{self->number(), self->context_request, self->context_batch};
  const bool is_of_device = step.kind == Step::Kind::kSyncDevice;
  const uint32_t stream = is_of_device ? gpus_.DoneLast(step.target) : step.target;
  const int64_t begin_ns = now_ns(), done_ns = gpus_.DoneNs(stream);
  const int64_t end_ns = std::max(begin_ns, done_ns) + std::min<int64_t>(ns, 40'000);
  // Own work decides; or the device that the thread launched on last.
  const bool says_itself = is_of_device ? done_ns > begin_ns : gpus_.EndsWithOwn(stream, begin_ns, self->culprit());
  const bool is_told = !says_itself || Chance(random, spec_.percent_told);
  const char* const name = is_of_device ? Gpus::kSyncDeviceName : Gpus::kSyncName;
  Gpus::Way way = gpus_.Sync(stream, {is_of_device, begin_ns, end_ns, is_told}, context, self->culprit());
  const Actor::Block block(self, Doing::kCall, name);
  co_await world_.Delay(self, end_ns - begin_ns);
  if (done_ns <= begin_ns) co_return;  // it had no need to wait
  AppendSegment({done_ns, end_ns, Cause::kSyncReturn, self->number(), name, {}, {}}, &way.segments);
  self->Reroute(way.from_ns, way.segments);
}

Task<> Server::Call(Actor* self, const Step& step, Job* parent) {
  Job child;
  child.number = parent->number;
  child.random = parent->random;
  child.steps_alone = parent->steps_alone;
  child.parent_id = parent->id;
  child.request = parent->request.BeginChild(step.name.c_str());
  child.id = child.request.id();
  self->context_request = child.id;
  child.row = truth_.requests.size();
  TrueRequest row;
  row.id = child.id;
  row.number = child.number;
  row.parent_id = child.parent_id;
  row.trace_id_high = RowOf(*parent).trace_id_high, row.trace_id_low = RowOf(*parent).trace_id_low;
  row.route = step.name;
  row.begin_ns = row.accepted_ns = now_ns();
  row.begin_thread = self->number();
  truth_.requests.push_back(row);
  self->Board(&child.path);
  for (const Step& inner : step.inner) co_await Do(self, inner, &child, nullptr);
  parent->steps_alone = child.steps_alone;
  Finish(self, &child, Outcome::kOk);
}

Task<> Server::Acquire(Actor* self, Lock* lock) {
  const Culprit culprit{self->number(), self->context_request, self->context_batch, {}};
  if (lock->holder != nullptr) {
    const pitot::Wait wait(&kWaitSite, WaitKind::kLock, Intern(lock->name.c_str()), lock->owner);
    const Actor::Block block(self, Doing::kLock, lock->name, lock->culprit);
    lock->waiters.push_back(self);
    co_await world_.Park(self);
  } else {
    lock->holder = self;
  }
  lock->owner = pitot::ThisOwner();
  lock->culprit = culprit;
}

void Server::Release(Actor* self, Lock* lock, Random* random) {
  lock->holder = nullptr;
  if (lock->waiters.empty()) return;
  const auto kind = static_cast<uint64_t>(WaitKind::kLock);
  const pitot::Name resource = Intern(lock->name.c_str());
  PITOT_INSTANT("release", kind, resource);  // as pitot::Mutex does
  self->Note(SiteKind::kInstant, "release");
  // Handed on at once, in order.
  Actor* next = lock->waiters.front();
  lock->waiters.pop_front();
  lock->holder = next;
  next->SetGranted();
  lock->culprit = {next->number(), next->context_request, next->context_batch, {}};
  lock->owner = {next->number(), next->context_request};
  for (Actor* waiter : lock->waiters) waiter->SetLockOwner(lock->culprit);
  world_.Wake(next, WakeUp(random, spec_.lock_wake_up));
}

Task<> Server::Maintain(Actor* self, uint32_t percent, Random* random) {
  if (Chance(random, percent)) co_await Compute(self, "maintenance", Draw(random, {5'000, 100'000}));
}

void Server::MarkStage(Job* job, const std::string& name) {
  if (job->is_finished) return;
  TrueRequest& row = RowOf(*job);
  if (row.stages.size() < pitot::Request::kMaxStages)
    row.stages.emplace_back(name, now_ns());
  else
    row.stages.back().first = "(later stages)";
  if (row.stages.size() % 2 == 0)
    pitot::Stage(job->request.token(), name.c_str());
  else
    job->request.Stage(name.c_str());
}

// ---- Queues.
// ---------------------------------------------------------------------------------------------------------

// Work, or none if the time is up.
Task<Work> Server::Pop(Actor* self, Queue* queue, int64_t until_ns) {
  while (queue->items.empty()) {
    if (until_ns <= now_ns()) co_return Work{};
    const pitot::Wait wait(&kWaitSite, WaitKind::kQueue, Intern(queue->spec.name.c_str()), {});
    const Actor::Block block(self, Doing::kAwaitWork, queue->spec.name);
    queue->idle.push_back(self);
    const bool was_woken = co_await world_.Park(self, until_ns);
    if (!was_woken) std::erase(queue->idle, self);
  }
  Work work = std::move(queue->items.front());
  queue->items.pop_front();
  if (!queue->blocked.empty()) {
    world_.Wake(queue->blocked.front(), WakeUp(work.jobs[0]->random, spec_.wake_up));
    queue->blocked.pop_front();
  }
  co_return work;
}

void Server::PutNow(Actor* self, Queue* queue, Work work) {
  Random* random = work.jobs[0]->random;
  queue->items.push_back(std::move(work));
  const uint64_t depth = queue->items.size();
  PITOT_COUNTER("queue depth", depth);
  self->Note(SiteKind::kCounter, "queue depth", depth);
  if (queue->idle.empty()) return;
  world_.Wake(queue->idle.front(), WakeUp(random, spec_.wake_up));
  queue->idle.pop_front();
}

Task<> Server::Put(Actor* self, Queue* queue, Work work) {
  PutNow(self, queue, std::move(work));
  if (queue->spec.capacity == 0 || queue->items.size() <= queue->spec.capacity) co_return;
  const std::string room = queue->spec.name + " room";
  const pitot::Wait wait(&kWaitSite, WaitKind::kCondition, Intern(room.c_str()), {});
  const Actor::Block block(self, Doing::kAwaitRoom, room);
  queue->blocked.push_back(self);
  co_await world_.Park(self);
}

// False if it was turned away.
Task<bool> Server::Send(Actor* self, Queue* queue, Job* job) {
  if (queue->spec.sheds && queue->IsFull()) {
    PITOT_INSTANT("shed");
    self->Note(SiteKind::kInstant, "shed");
    job->is_awaited = false;
    Finish(self, job, Outcome::kShed);
    co_return false;
  }
  if (job->is_awaited) {
    job->inference = PITOT_ASYNC_SCOPE("inference", job->request.token());
    job->async = truth_.asyncs.size();
    truth_.asyncs.push_back({job->id, self->number(), 0, now_ns(), pitot::model::kOpen});
  } else {
    self->Leave(&job->path);
  }
  Enqueue(self, queue, job);
  co_await Put(self, queue, Work::Of(job));
  co_return true;
}

void Server::Enqueue(Actor* self, Queue* queue, Job* job) {
  job->token = job->request.Enqueue(queue->spec.name.c_str());
  job->handoff = truth_.handoffs.size();
  truth_.handoffs.push_back({job->id, queue->spec.name, self->number(), 0, now_ns(), 0, 0});
}

void Server::Take(Actor* self, Job* job, uint64_t batch) {
  TrueHandoff& handoff = truth_.handoffs[job->handoff];
  handoff.to_thread = self->number();
  handoff.take_ns = now_ns();
  handoff.batch = batch;
  job->MovingPath()->Append(self->TileQueue(handoff.queue, handoff.enqueue_ns));
  self->Board(job->MovingPath());
}

// ---- Ends.
// -----------------------------------------------------------------------------------------------------------

bool Server::IsOver(const Job& job, Outcome* outcome) const {
  const TrueRequest& row = truth_.requests[job.row];
  if (now_ns() >= job.patience_end_ns) {
    *outcome = Outcome::kCancelled;
  } else if (row.deadline_ns != 0 && now_ns() > row.begin_ns + row.deadline_ns) {
    *outcome = Outcome::kTimedOut;
  } else if (job.fate != Outcome::kOk && job.next_step >= job.fate_step) {
    *outcome = job.fate;
  } else {
    *outcome = Outcome::kOk;
    return job.next_step == job.route->steps.size();
  }
  return job.next_step > 0;  // each is read at least
}

// Ends requests that nobody waits for any more, where they are taken.
void Server::DropOver(Actor* self, Work* work) {
  std::erase_if(work->jobs, [&](Job* job) {
    Outcome outcome;
    if (!IsOver(*job, &outcome) || outcome == Outcome::kOk || outcome == job->fate) return false;
    const Adopted adopted(self, job->token);
    Take(self, job, 0);
    Finish(self, job, outcome);
    return true;
  });
}

void Server::Finish(Actor* self, Job* job, Outcome outcome) {
  if (job->is_awaited) {
    job->inference.End();
    truth_.asyncs[job->async].end_ns = now_ns();
    truth_.asyncs[job->async].end_thread = self->number();
  }
  if (outcome == Outcome::kAbandoned)
    job->request = pitot::Request();
  else
    job->request.Finish(outcome);
  if (self->context_request == job->id) self->context_request = job->parent_id;
  if (self->worked_for_request() == job->id) self->WorkFor(0, 0);
  job->is_finished = true;
  self->Leave(job->MovingPath());

  TrueRequest& row = RowOf(*job);
  row.end_ns = now_ns();
  row.end_thread = self->number();
  row.outcome = outcome;
  if (job->is_awaited) {
    row.path = job->path.Until(job->awaited_from_ns);
    for (const Segment& segment : job->detour.Until(now_ns())) AppendSegment(segment, &row.path);
    job->result_ns = now_ns();
    if (job->waiter != nullptr) world_.Wake(job->waiter, WakeUp(job->random_of_batch, spec_.wake_up));
  } else {
    row.path = job->path.Until(now_ns());
  }
}

// Hands the result to its waiter.
void Server::Reply(Actor* self, Job* job) {
  self->Leave(job->MovingPath());
  if (job->is_awaited) {
    job->inference.End();
    truth_.asyncs[job->async].end_ns = now_ns();
    truth_.asyncs[job->async].end_thread = self->number();
    job->result_ns = now_ns();
    if (job->waiter != nullptr) world_.Wake(job->waiter, WakeUp(job->random_of_batch, spec_.wake_up));
  } else {
    Enqueue(self, &pools_[job->reply].queue, job);
    PutNow(self, &pools_[job->reply].queue, Work::Of(job));
  }
}

// ---- Batches.
// --------------------------------------------------------------------------------------------------------

Serving Server::Begin(Actor* self, const Model& model) {
  Serving serving;
  serving.batch = pitot::Batch::Begin(model.name.c_str());
  serving.row = truth_.batches.size();
  TrueBatch row;
  row.id = serving.batch.id();
  row.executor = model.name;
  row.thread = self->number();
  row.begin_ns = now_ns();
  truth_.batches.push_back(row);
  self->context_batch = row.id;
  self->WorkFor(0, row.id);
  return serving;
}

void Server::Join(Actor* self, Serving* serving, const Work& work) {
  for (Job* job : work.jobs) {
    serving->batch.Join(job->token);
    Take(self, job, serving->batch.id());
    JoinAgain(serving, job);
  }
}

// Notes a member; one that stayed from the batch before was in no queue.
void Server::JoinAgain(Serving* serving, Job* job) {
  serving->members.push_back(job);
  truth_.batches[serving->row].members.push_back({job->id, now_ns(), 0});
  job->MovingPath()->SetBatch(serving->batch.id());
}

void Server::LeaveBatch(Serving* serving, Job* job) {
  serving->batch.Leave(job->request.token());
  for (TrueMember& member : truth_.batches[serving->row].members) {
    if (member.request == job->id) member.leave_ns = now_ns();
  }
}

void Server::Close(Serving* serving, BatchClose close) {
  serving->batch.Close(close);
  truth_.batches[serving->row].close = close;
}

void Server::End(Actor* self, Serving* serving) {
  serving->batch.Finish();
  truth_.batches[serving->row].end_ns = now_ns();
  self->context_batch = 0;
  self->WorkFor(0, 0);
}

Task<> Server::Executor(Actor* self, ModelState* state) {
  const Model& model = *state->spec;
  const bool is_grouped = model.batcher == Model::Batcher::kOwnThread;
  Queue* queue = is_grouped ? &state->groups : &state->queue;
  for (;;) {
    Work work = co_await Pop(self, queue, kForever);
    DropOver(self, &work);
    if (work.jobs.empty()) continue;
    const Job* const first = work.jobs[0];
    {
      Serving serving = Begin(self, model);
      Join(self, &serving, work);
      BatchClose close = is_grouped ? work.close : BatchClose::kFull;
      const int64_t until_ns = now_ns() + model.max_delay_ns;
      while (!is_grouped && serving.members.size() < model.max_batch) {
        Work more = co_await Pop(self, queue, until_ns);
        if (more.jobs.empty()) {
          close = BatchClose::kTimeout;
          break;
        }
        DropOver(self, &more);
        Join(self, &serving, more);
      }
      Close(&serving, close);
      for (const Step& step : model.steps) co_await Do(self, step, nullptr, &serving);
      co_await Scatter(self, model, &serving);
      End(self, &serving);
      co_await Respond(self, &serving);
    }
    co_await Maintain(self, model.percent_maintenance, first->random_of_batch);
  }
}

// Inside the batch. Members that leave early are answered here.
Task<> Server::Scatter(Actor* self, const Model& model, Serving* serving) {
  for (Job* job : serving->members) {
    co_await Compute(self, "scatter", Draw(job->random_of_batch, model.scatter));
    if (!model.leave_early) continue;
    LeaveBatch(serving, job);
    Reply(self, job);
  }
  if (model.leave_early) serving->members.clear();
}

// After the batch. Threads waiting for its end learn it first; the others are handed on one by one.
Task<> Server::Respond(Actor* self, Serving* serving) {
  for (Job* job : serving->members) {
    if (job->is_awaited) Reply(self, job);
  }
  std::erase_if(serving->members, [](const Job* job) { return job->is_awaited; });
  for (Job* job : serving->members) {
    const Adopted adopted(self, job->request.token());
    self->WorkFor(job->id, 0);
    co_await Compute(self, "respond", Draw(job->random_of_batch, {300, 2'000}));
    Reply(self, job);
    self->WorkFor(0, 0);
  }
}

// Only collects: its time goes into waiting, for members or for room.
Task<> Server::Batcher(Actor* self, ModelState* state) {
  const Model& model = *state->spec;
  for (;;) {
    Work group = co_await Pop(self, &state->queue, kForever);
    DropOver(self, &group);
    if (group.jobs.empty()) continue;
    const int64_t until_ns = now_ns() + model.max_delay_ns;
    for (size_t taken = 0;;) {
      for (; taken < group.jobs.size(); ++taken) {
        const Adopted adopted(self, group.jobs[taken]->token);
        Take(self, group.jobs[taken], 0);
      }
      group.close = BatchClose::kFull;
      if (group.jobs.size() >= model.max_batch) break;
      Work more = co_await Pop(self, &state->queue, until_ns);
      group.close = BatchClose::kTimeout;
      if (more.jobs.empty()) break;
      DropOver(self, &more);
      group.jobs.insert(group.jobs.end(), more.jobs.begin(), more.jobs.end());
    }
    for (Job* job : group.jobs) {
      self->Leave(job->MovingPath());
      Enqueue(self, &state->groups, job);
    }
    co_await Put(self, &state->groups, std::move(group));
  }
}

Task<> Server::ContinuousExecutor(Actor* self, ModelState* state) {
  const Model& model = *state->spec;
  std::vector<Job*> running;
  for (;;) {
    std::vector<Work> admitted;
    if (running.empty()) {
      admitted.push_back(co_await Pop(self, &state->queue, kForever));
      DropOver(self, &admitted.back());
      if (admitted.back().jobs.empty()) continue;
    }
    {
      Serving serving = Begin(self, model);
      Random* random = (running.empty() ? admitted[0].jobs[0] : running[0])->random_of_batch;
      co_await Compute(self, "schedule", Draw(random, {200, 1'000}));
      while (!state->queue.items.empty() && running.size() + admitted.size() < model.max_batch) {
        admitted.push_back(co_await Pop(self, &state->queue, kForever));
        DropOver(self, &admitted.back());
      }
      for (Job* job : running) {
        serving.batch.Join(job->request.token());
        JoinAgain(&serving, job);
      }
      for (const Work& work : admitted) {
        Join(self, &serving, work);
        for (Job* job : work.jobs) {
          job->tokens_left = 1 + static_cast<uint32_t>(Below(job->random_of_batch, model.most_tokens));
          running.push_back(job);
        }
      }
      Close(&serving, BatchClose::kStep);
      for (const Step& step : model.steps) co_await Do(self, step, nullptr, &serving);
      for (Job* job : serving.members) {
        const uint32_t count = 1 + static_cast<uint32_t>(Below(job->random_of_batch, 2));
        job->request.Emit(count);
        truth_.tokens.push_back({job->id, self->number(), now_ns(), count});
        --job->tokens_left;
      }
      std::vector<Job*> done;
      for (Job* job : running) {
        if (job->tokens_left != 0) continue;
        LeaveBatch(&serving, job);
        if (job->is_awaited)
          Reply(self, job);
        else
          done.push_back(job);
      }
      std::erase_if(running, [](const Job* job) { return job->tokens_left == 0; });
      co_await Compute(self, "update", Draw(random, {200, 1'000}));
      End(self, &serving);
      serving.members = done;
      co_await Respond(self, &serving);
    }
  }
}

}  // namespace

Run Simulate(const ServerSpec& server, const Recording& recording) { return Server(server, recording).Play(); }

}  // namespace simulator
