// SPDX-License-Identifier: Apache-2.0
//
// A discrete-event simulator of an inference server, for tests. It plays threads, queues, batchers and locks in virtual
// time on one real thread, and records through Pitot's public API as a real server would. Next to that it keeps the
// truth: for every request, the cause and culprit of each nanosecond between its arrival and its end.
//
//   const simulator::Run run = simulator::Simulate(simulator::RandomServer(seed));
//   run.trace   // the recorder's contents at the end, assembled
//   run.truth   // the real events, kept without looking at any recorded one; the same ids
//
// A server is data (ServerSpec): pools of threads fed by queues, models whose executors form batches, locks, and routes
// whose requests walk through them step by step. To play something new, add a step or a thread's program in server.cc,
// and its cause here. One simulation at a time; no recorder may run in the process meanwhile.
#ifndef PITOT_TEST_SIMULATOR_SIMULATOR_H_
#define PITOT_TEST_SIMULATOR_SIMULATOR_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "pitot/model/trace.h"
#include "pitot/request.h"
#include "pitot/wait.h"

namespace simulator {

inline constexpr int64_t kForever = int64_t{1} << 62;
inline constexpr uint32_t kNobody = 0xffffffff;

// ---- The server.
// -----------------------------------------------------------------------------------------------------

// A random time: `least_ns` plus an exponential part with that mean. Always at least 1 ns.
struct Time {
  int64_t least_ns = 1;
  int64_t mean_ns = 0;
};

// One thing done for a request (or, in a model, for a batch).
struct Step {
  enum class Kind : uint8_t {
    kCompute,
    kUntraced,
    kIo,
    kSleep,
    kLock,
    kStage,
    kCall,
    kSubmitted,
    kSend,
    kInfer,
    kInferAndWait,
    kLaunch,
    kSync,
    kSyncDevice
  };

  // A scope of that name, and `inner` at its end. `each_ns`: more for every member of a batch.
  static Step Compute(std::string name, Time time, std::vector<Step> inner = {}, int64_t each_ns = 0) {
    return {
        .kind = Kind::kCompute, .name = std::move(name), .time = time, .each_ns = each_ns, .inner = std::move(inner)};
  }
  // Computing outside every scope.
  static Step Untraced(Time time) { return {.kind = Kind::kUntraced, .time = time}; }
  // Waits for a resource.
  static Step Io(std::string name, Time time) { return {.kind = Kind::kIo, .name = std::move(name), .time = time}; }
  static Step Sleep(Time time) { return {.kind = Kind::kSleep, .time = time}; }
  // Holds a lock while doing `inner`. Locks within it must have higher numbers.
  static Step Lock(uint32_t lock, std::vector<Step> inner) {
    return {.kind = Kind::kLock, .target = lock, .inner = std::move(inner)};
  }
  // Begins a stage of the request, or of all members.
  static Step Stage(std::string name) { return {.kind = Kind::kStage, .name = std::move(name)}; }
  // A child request that does `inner`. Routes only.
  static Step Call(std::string route, std::vector<Step> inner) {
    return {.kind = Kind::kCall, .name = std::move(route), .inner = std::move(inner)};
  }
  // All of the batch is launched. Models only.
  static Step Submitted() { return {.kind = Kind::kSubmitted}; }

  // Launches a kernel that takes `time` on a stream, by a call of length `api`. Sync on that stream, or SyncDevice on
  // one of its device, must follow before the request or batch goes anywhere else or launches on another device.
  static Step Launch(uint32_t stream, std::string kernel, Time time, Time api) {
    return {.kind = Kind::kLaunch, .name = std::move(kernel), .time = time, .target = stream, .api = api};
  }
  // Waits for everything launched on the stream. `time`: the length of a call without a need to wait, and of its
  // return.
  static Step Sync(uint32_t stream, Time time) { return {.kind = Kind::kSync, .time = time, .target = stream}; }

  // The same for all streams of that stream's device.
  static Step SyncDevice(uint32_t stream, Time time) {
    return {.kind = Kind::kSyncDevice, .time = time, .target = stream};
  }

  // These move the request to other threads; they stand in Route::steps itself, not within other steps. Send: goes on
  // in that pool.
  static Step Send(uint32_t pool) { return {.kind = Kind::kSend, .target = pool}; }
  // Is served by the model, then goes on in pool `reply` (whose queue must be unbounded).
  static Step Infer(uint32_t model, uint32_t reply) { return {.kind = Kind::kInfer, .target = model, .reply = reply}; }
  // Is served by the model, while the thread does `meanwhile` (computations) and then waits for the result.
  static Step InferAndWait(uint32_t model, std::vector<Step> meanwhile = {}) {
    return {.kind = Kind::kInferAndWait, .target = model, .inner = std::move(meanwhile)};
  }

  Kind kind = Kind::kCompute;
  std::string name = {};
  Time time = {};
  int64_t each_ns = 0;
  uint32_t target = 0;
  uint32_t reply = 0;
  std::vector<Step> inner = {};
  Time api = {};
};

struct Route {
  std::string name;
  uint32_t weight = 1;             // how often, against other routes
  int64_t deadline_ns = 0;         // 0: none; late requests end as timed out when next looked at
  int64_t patience_ns = 0;         // mean time until the client gives up; 0: never
  std::string size_name;           // "": no size
  int64_t size_most = 1;           // sizes are uniform in [1, size_most]
  uint32_t percent_failed = 0;     // end as failed somewhere on their way
  uint32_t percent_abandoned = 0;  // lose their handle there
  std::vector<Step> steps;
};

struct QueueSpec {
  std::string name;
  uint32_t capacity = 0;  // 0: unbounded
  bool sheds = false;     // when full: turns requests away; otherwise senders wait for room
};

// Threads that take requests from a queue and do their steps. Pool 0 takes them from the network.
struct Pool {
  std::string name;
  uint32_t threads = 1;
  QueueSpec queue;
  uint32_t percent_maintenance = 0;  // how often a thread does something of its own after a request
  std::string after_sending;         // scope after a request was handed on, in its context; "": none
  std::string after_finishing;       // scope after a request ended, in no context; "": none
};

// Serves requests in batches.
struct Model {
  enum class Batcher : uint8_t {
    kExecutor,    // the executor waits for members itself
    kOwnThread,   // a thread forms groups and hands them to the executors
    kContinuous,  // one batch a step; members come and go: language models
  };
  std::string name;  // of the executor
  Batcher batcher = Batcher::kExecutor;
  uint32_t executors = 1;
  QueueSpec queue;
  QueueSpec groups;  // between batcher and executors (kOwnThread)
  uint32_t max_batch = 8;
  int64_t max_delay_ns = 0;
  std::vector<Step> steps;   // for a batch, or for each step of continuous batching
  Time scatter;              // a scope "scatter" for each member, before its result is handed out
  bool leave_early = false;  // members leave when they are scattered, otherwise at the end of the batch
  uint32_t most_tokens = 0;  // kContinuous: members stay for 1 to as many steps
  uint32_t percent_maintenance = 0;
};

// From `begin_ns` to `end_ns` after the start something has this share of its speed.
struct Slow {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  double speed = 1;  // more than 0, up to 1
};

// Lengthens something done for a request: the `step`-th (from 0) of the timed steps for it alone, or for batches it is
// in.
struct Delay {
  uint32_t request = 0;  // in order of arrival, from 0
  bool is_in_batch = false;
  uint32_t step = 0;
  int64_t ns = 0;
};

struct ServerSpec {
  uint64_t seed = 1;
  uint32_t requests = 200;  // number of arrivals
  int64_t mean_interval_ns = 100'000;
  uint32_t burst_factor = 1;          // how many times as dense arrivals are in bursts
  int64_t mean_burst_ns = 2'000'000;  // length of bursts, and of the time between them
  int64_t cut_ns = kForever;          // time of the snapshot after the start, with everything still open
  bool stamps_arrivals = true;        // requests begin at their arrival, otherwise when a thread takes them
  Time wake_up{500, 4'000};           // from a thread's wake-up until it runs
  Time lock_wake_up{0, 0};            // the same for the next owner of a lock; least_ns 0 and no mean: at once
  std::vector<Pool> pools;
  std::vector<Model> models;
  std::vector<std::string> locks;  // first come, first served
  uint32_t streams = 0;            // of GPUs; each first come, first served
  uint32_t streams_per_device = 1;
  uint32_t percent_told = 100;  // of the otherwise ambiguous waits for GPUs: how many record their target
  std::vector<Route> routes;
  // In order, without overlaps. If there are any, the clock of the (one) GPU or the threads' CPU time is recorded.
  std::vector<Slow> slow_clocks;  // kernels do nothing but compute
  std::vector<Slow> taken_cpus;   // others have the rest of the CPUs' time
  std::vector<Delay> delays;
  // Each request draws its own times: a delay changes those of no other request, so that two plays can be compared.
  bool draws_apart = false;
};

// A random server: topologies, loads and routes of all kinds.
ServerSpec RandomServer(uint64_t seed);
// The same with streams shared by models and routes.
ServerSpec RandomGpuServer(uint64_t seed);

// ---- The truth.
// ------------------------------------------------------------------------------------------------------
// Threads by Pitot's number, requests and batches by the ids from the recorder, times in ns of the virtual clock.

enum class Cause : uint8_t {
  kOnCpu,        // its thread computed, in scope `name` ("": in none)
  kQueueWait,    // was in queue `name` while the thread that took it later was busy: culprit
  kHandoff,      // in queue `name` (or its result or lock was there), and the thread it needed was being woken
  kBatchWindow,  // was taken, but its batch waited for more members
  kLockWait,     // its thread waited for lock `name`, held by the culprit
  kIoWait,
  kSleep,
  // For GPUs. A kernel's last cause is the later of its launch and the end of the work before it on its stream.
  kCall,           // its thread was in call `name` of the GPU's API
  kLaunchLatency,  // its kernel `name` was launched, and nothing was before it
  kKernel,         // its kernel `name` ran
  kDispatchGap,    // before its kernel `name`, after another of its own
  kGpuQueueWait,   // a kernel of the culprit was before its own, or before the end of its synchronisation
  kSyncReturn,     // its kernels were done, and its thread had not returned from call `name` yet
};
const char* CauseName(Cause cause);

// The owner of a thread's work: a batch or a request; or only its activity.
struct Culprit {
  uint32_t thread = 0;
  uint64_t request = 0;
  uint64_t batch = 0;
  std::string doing;  // scope or resource, if it is neither for a request nor for a batch
  bool operator==(const Culprit&) const = default;
};

struct Segment {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  Cause cause = Cause::kOnCpu;
  uint32_t thread = 0;                                    // of its stay, or of its taker
  std::string name;                                       // scope, queue, lock or resource
  Culprit culprit;                                        // of kQueueWait and kLockWait; of kBatchWindow the batch;
                                                          // of kOnCpu another request that its thread did this for
  pitot::BatchClose close = pitot::BatchClose::kUnknown;  // of kBatchWindow
  bool operator==(const Segment&) const = default;
};

// Appends `segment`, joined to the last one if it continues it; nothing if it is empty.
void AppendSegment(const Segment& segment, std::vector<Segment>* to);
// One line, for messages.
std::string ToString(const Segment& segment);

struct TrueRequest {
  uint64_t id = 0;
  uint32_t number = 0;  // in order of arrival; of a child its parent's
  uint64_t parent_id = 0;
  uint64_t trace_id_high = 0, trace_id_low = 0;
  std::string route;
  int64_t begin_ns = 0;     // arrival
  int64_t accepted_ns = 0;  // when a thread took it from the network
  int64_t end_ns = pitot::model::kOpen;
  pitot::Outcome outcome = pitot::Outcome::kOk;
  uint32_t begin_thread = 0, end_thread = 0;
  int64_t deadline_ns = 0;
  std::string label;  // of the key "tenant"
  std::string size_name;
  double size = 0;
  std::vector<std::pair<std::string, int64_t>> stages;  // and when they began
  std::vector<Segment> path;                            // of finished ones: tiles [begin_ns, end_ns)
};

struct TrueMember {
  uint64_t request = 0;
  int64_t join_ns = 0;
  int64_t leave_ns = 0;  // 0: at the end
};
struct TrueBatch {
  uint64_t id = 0;
  std::string executor;
  uint32_t thread = 0;
  int64_t begin_ns = 0;
  int64_t end_ns = pitot::model::kOpen;
  int64_t submitted_ns = 0;  // 0: not recorded
  pitot::BatchClose close = pitot::BatchClose::kUnknown;
  std::vector<TrueMember> members;
};

struct TrueHandoff {
  uint64_t request = 0;
  std::string queue;
  uint32_t from_thread = 0;
  uint32_t to_thread = 0;  // 0: not taken yet
  int64_t enqueue_ns = 0;
  int64_t take_ns = 0;
  uint64_t batch = 0;  // took it
};

// A scope, wait, instant or counter.
struct TrueEvent {
  uint32_t thread = 0;
  pitot::SiteKind kind = pitot::SiteKind::kScope;
  std::string name;  // of a wait: the resource
  int64_t begin_ns = 0;
  int64_t end_ns = 0;               // kOpen
  uint64_t request = 0, batch = 0;  // the context when it was recorded
  uint64_t value = 0;               // of a counter
  pitot::WaitKind wait = pitot::WaitKind::kOther;
  pitot::Owner owner;
};

struct TrueToken {
  uint64_t request = 0;
  uint32_t thread = 0;
  int64_t at_ns = 0;
  uint32_t count = 0;
};

struct TrueAsync {
  uint64_t request = 0;
  uint32_t begin_thread = 0, end_thread = 0;
  int64_t begin_ns = 0;
  int64_t end_ns = pitot::model::kOpen;
};

struct Truth {
  int64_t begin_ns = 0, end_ns = 0;
  std::vector<Slow> slow_clocks, taken_cpus;  // of the server, in times of the virtual clock
  std::vector<std::string> threads;           // names; number 1 first
  std::vector<TrueRequest> requests;
  std::vector<TrueBatch> batches;
  std::vector<TrueHandoff> handoffs;
  std::vector<TrueEvent> events;
  std::vector<TrueToken> tokens;
  std::vector<TrueAsync> asyncs;
};

// ---- Both.
// -----------------------------------------------------------------------------------------------------------

// Settings of the recorder. The rings hold everything unless told otherwise.
struct Recording {
  uint64_t ring_bytes = 16 << 20;     // of every thread
  uint64_t reserve_bytes = 64 << 20;  // for the snapshot
  int64_t window_ns = kForever;       // before the end
};

struct Run {
  Truth truth;
  pitot::model::Trace trace;
};

// Plays the server from the first arrival until nothing is left to do, or the cut. The same arguments give the same
// result, to the last byte. Errors: throws std::runtime_error if the recorder cannot be opened.
Run Simulate(const ServerSpec& server, const Recording& recording = {});

}  // namespace simulator

#endif  // PITOT_TEST_SIMULATOR_SIMULATOR_H_
