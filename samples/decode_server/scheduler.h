// SPDX-License-Identifier: Apache-2.0
//
// Continuous batching: one thread runs iterations of the model. An iteration makes the next token of every running
// request, and takes a limited number of tokens of the prompts of new ones. Requests join and leave between
// iterations, in the order of their arrival, as far as there are places in the batch and room in the KV cache: each
// reserves room for all its tokens, so that no running request has to be put back.
//
// Pitot learns here: the queue (Enqueue, Join), each iteration as a batch with its members and the tokens that each
// brings to it (Batch), each request's stages "queue", "kv cache" (it is next, and waits for room), "prefill", "decode"
// and "respond", its output tokens (Emit), and how full the KV cache is (a counter).
#ifndef SAMPLES_DECODE_SERVER_SCHEDULER_H_
#define SAMPLES_DECODE_SERVER_SCHEDULER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "decode_server/token_stream.h"
#include "pitot/request.h"
#include "pitot/wait.h"
#include "server_common/monotonic.h"

namespace decode_server {

struct SchedulerOptions {
  size_t max_batch = 8;       // requests running at the same time
  size_t kv_tokens = 2048;    // room in the KV cache
  size_t max_queue = 32;      // waiting requests; more are refused
  size_t prefill_chunk = 64;  // tokens of prompts in one iteration
};

struct Sampling {
  float temperature = 0;  // 0: the likeliest token
  uint64_t seed = 0;
};

// One request on its way through the scheduler.
struct Job {
  std::vector<int32_t> prompt;
  size_t max_tokens = 1;
  Sampling sampling;
  bool is_chunked = true;    // false: its whole prompt in one iteration
  bool is_alone = true;      // and then in a pass by itself, while the others wait
  uint64_t request_id = 0;   // as the client knows it
  uint64_t enqueued_ns = 0;  // set by Submit
  std::shared_ptr<TokenStream> stream;
};

// A request's part of an iteration: `tokens` enter its slot of the KV cache, which holds `position` already.
struct Slice {
  size_t slot = 0;
  size_t position = 0;
  std::span<const int32_t> tokens;
  bool wants_token = false;  // the next after the last of `tokens`
  Sampling sampling;
};

enum class Admission : uint8_t { kQueued, kQueueFull, kNeverFits };

// For admission of your own, or metrics: the scheduler calls these on its thread.
class SchedulerHooks {
 public:
  virtual ~SchedulerHooks() = default;
  // Whether `job` joins now. It may need `needed` tokens of room in the KV cache, and `free` are left. Asked for the
  // oldest in the queue, with the queue locked.
  virtual bool MayJoin(const Job& /*job*/, size_t needed, size_t free) { return needed <= free; }
  // An iteration of these requests begins. It has one or more passes of the model, each for some of them.
  virtual void IterationBegins(std::span<const uint64_t> /*requests*/) {}
  virtual void PassBegins(std::span<const uint64_t> /*requests*/) {}
  virtual void PassEnds(std::span<const uint64_t> /*requests*/) {}  // their tokens are on their way
};

class Scheduler {
 public:
  // Runs one pass: returns the next token of each slice, anything where none is wanted; calls Submitted() of `batch`
  // once all work is launched. Slots are less than max_batch.
  using Model = std::function<std::vector<int32_t>(std::span<const Slice> slices, pitot::Batch& batch)>;
  using Clock = std::function<uint64_t()>;  // ns

  // `hooks` may be null, and outlives the scheduler.
  Scheduler(const SchedulerOptions& options, Model model, SchedulerHooks* hooks = nullptr,
            Clock clock = server_common::MonotonicNs);
  // Stops.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Queues the job of `request`. Unless the result is kQueued it is not taken: shed the request, or refuse it.
  // Threads: any.
  Admission Submit(Job job, pitot::Request& request);

  // Runs one iteration, if a request runs or can join; returns whether one did. For Start's thread, or a test's.
  bool Step();

  // Starts the thread, and returns when it has done `warm_up`: the first work of a thread (cuBLAS has handles of each
  // thread) delays no request then. Passes on its exceptions.
  void Start(const std::function<void()>& warm_up = {});
  // Runs the queued requests, then ends the thread. Idempotent.
  void Stop();

 private:
  struct Entry {
    Job job;
    pitot::Token token;              // stands for the request on this thread
    size_t slot = 0;                 // of the KV cache
    size_t prefilled = 0;            // tokens of the prompt in the KV cache
    size_t made = 0;                 // output tokens
    int32_t last = 0;                // of those
    bool is_first_for_room = false;  // next to join, and waits for room
    bool is_over = false;

    size_t room() const { return job.prompt.size() + job.max_tokens; }
    bool is_decoding() const { return prefilled == job.prompt.size(); }
    size_t cached() const { return prefilled + (made > 0 ? made - 1 : 0); }
  };
  struct Part {
    Entry* entry;
    Slice slice;
  };

  void Work();
  void DropCancelled();
  // Records the length of the queue. Called after each change, with mutex_ held.
  void CountQueue() const;
  void Admit();
  bool HasRoomFor(Entry& entry);
  std::vector<Part> Plan();
  void RunIteration();
  void RunPass(std::span<const uint64_t> requests, std::span<const Part> parts, pitot::Batch& batch);
  void Deliver(const Part& part, int32_t token);
  void Remove();

  const SchedulerOptions options_;
  const Model model_;
  SchedulerHooks no_hooks_;
  SchedulerHooks* const hooks_;
  const Clock clock_;

  pitot::Mutex mutex_{"decode queue"};
  pitot::ConditionVariable work_arrived_{"decode work"};
  // Guarded by mutex_.
  std::deque<Entry> queue_;
  bool has_arrived_ = false;  // since Admit looked at it
  bool is_stopping_ = false;

  // Only the thread of Step. In order of arrival.
  std::list<Entry> running_;
  std::vector<bool> is_slot_used_;
  size_t kv_reserved_ = 0;

  std::thread thread_;
};

}  // namespace decode_server

#endif  // SAMPLES_DECODE_SERVER_SCHEDULER_H_
