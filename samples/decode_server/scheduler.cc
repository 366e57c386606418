// SPDX-License-Identifier: Apache-2.0
#include "decode_server/scheduler.h"

#include <algorithm>
#include <exception>
#include <future>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

#include "pitot/trace.h"

namespace decode_server {
namespace {

// How long the thread sleeps when no request runs, and hooks let none join.
constexpr uint64_t kRetryNs = 1'000'000;

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options, Model model, SchedulerHooks* hooks, Clock clock)
    : options_(options),
      model_(std::move(model)),
      hooks_(hooks != nullptr ? hooks : &no_hooks_),
      clock_(std::move(clock)),
      is_slot_used_(options.max_batch) {}

Scheduler::~Scheduler() { Stop(); }

Admission Scheduler::Submit(Job job, pitot::Request& request) {
  Entry entry;
  entry.job = std::move(job);
  if (entry.room() > options_.kv_tokens) return Admission::kNeverFits;
  std::lock_guard lock(mutex_);
  if (is_stopping_ || queue_.size() >= options_.max_queue) return Admission::kQueueFull;
  request.Stage("queue");
  entry.token = request.Enqueue("prompts");
  entry.job.enqueued_ns = clock_();
  queue_.push_back(std::move(entry));
  has_arrived_ = true;
  CountQueue();
  work_arrived_.notify_one();
  return Admission::kQueued;
}

void Scheduler::Start(const std::function<void()>& warm_up) {
  std::packaged_task<void()> task([&] {
    pitot::SetThreadName("scheduler");
    if (warm_up) warm_up();
  });
  std::future<void> is_warm = task.get_future();
  thread_ = std::thread([this, first = std::move(task)]() mutable {
    first();
    Work();
  });
  is_warm.get();
}

void Scheduler::Stop() {
  {
    std::lock_guard lock(mutex_);
    is_stopping_ = true;
    work_arrived_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void Scheduler::Work() {
  while (true) {
    if (Step()) continue;
    std::unique_lock lock(mutex_);
    if (queue_.empty()) {
      if (is_stopping_) return;
      work_arrived_.wait(lock, [&] { return is_stopping_ || !queue_.empty(); });
    } else if (!has_arrived_) {
      work_arrived_.wait_for(lock, kRetryNs);
    }
  }
}

bool Scheduler::Step() {
  DropCancelled();
  Admit();
  if (running_.empty()) return false;
  RunIteration();
  return true;
}

void Scheduler::DropCancelled() {
  for (Entry& entry : running_) entry.is_over = entry.job.stream->is_cancelled();
  Remove();
  std::lock_guard lock(mutex_);
  if (std::erase_if(queue_, [](const Entry& entry) { return entry.job.stream->is_cancelled(); }) != 0) CountQueue();
}

void Scheduler::CountQueue() const { PITOT_COUNTER("queue depth", queue_.size()); }

// Lets requests join in the order of their arrival, as long as there is a place and room: none overtakes another.
void Scheduler::Admit() {
  std::lock_guard lock(mutex_);
  has_arrived_ = false;
  const size_t queued = queue_.size();
  while (!queue_.empty() && running_.size() < options_.max_batch && HasRoomFor(queue_.front())) {
    Entry entry = std::move(queue_.front());
    queue_.pop_front();
    const auto free = std::find(is_slot_used_.begin(), is_slot_used_.end(), false);
    *free = true;
    entry.slot = static_cast<size_t>(free - is_slot_used_.begin());
    kv_reserved_ += entry.room();
    pitot::Stage(entry.token, "prefill");
    running_.push_back(std::move(entry));
  }
  if (queue_.size() != queued) {
    CountQueue();
    PITOT_COUNTER("kv cache tokens", kv_reserved_);
  }
}

bool Scheduler::HasRoomFor(Entry& entry) {
  const size_t free = options_.kv_tokens - kv_reserved_;
  if (hooks_->MayJoin(entry.job, entry.room(), free)) return true;
  if (!entry.is_first_for_room) {
    pitot::Stage(entry.token, "kv cache");
    PITOT_INSTANT("kv cache full", entry.room(), free);
  }
  entry.is_first_for_room = true;
  return false;
}

// Prompts first, in order of arrival, as far as the chunk goes; then a token of each request past its prompt.
std::vector<Scheduler::Part> Scheduler::Plan() {
  std::vector<Part> parts;
  size_t chunk = options_.prefill_chunk;
  for (Entry& entry : running_) {
    const Job& job = entry.job;
    const std::span<const int32_t> rest = std::span(job.prompt).subspan(entry.prefilled);
    const size_t count = job.is_chunked ? std::min(chunk, rest.size()) : rest.size();
    if (count == 0) continue;
    if (job.is_chunked) chunk -= count;
    parts.push_back({&entry, {entry.slot, entry.prefilled, rest.first(count), count == rest.size(), job.sampling}});
  }
  for (Entry& entry : running_) {
    if (!entry.is_decoding()) continue;
    parts.push_back({&entry, {entry.slot, entry.cached(), {&entry.last, 1}, true, entry.job.sampling}});
  }
  return parts;
}

void Scheduler::RunIteration() {
  const std::vector<Part> parts = Plan();
  pitot::Batch batch = pitot::Batch::Begin("decode", "tokens");
  std::vector<uint64_t> members;
  for (const Part& part : parts) {
    batch.Join(part.entry->token, static_cast<double>(part.slice.tokens.size()));
    part.entry->token.enqueued_ticks = 0;  // it has been taken: the next iteration's Join is no taking
    members.push_back(part.entry->job.request_id);
  }
  batch.Close(pitot::BatchClose::kStep);
  hooks_->IterationBegins(members);

  std::vector<Part> rest;
  for (const Part& part : parts) {
    const Job& job = part.entry->job;
    if (job.is_chunked || !job.is_alone || part.slice.tokens.size() < 2) {
      rest.push_back(part);
      continue;
    }
    const pitot::Adopt adopted(part.entry->token);  // the others of the iteration wait for this request
    RunPass({&job.request_id, 1}, {&part, 1}, batch);
  }
  if (!rest.empty()) RunPass(members, rest, batch);

  for (Entry& entry : running_) {
    if (entry.is_over) batch.Leave(entry.token);
  }
  batch.Finish();
  Remove();
}

void Scheduler::RunPass(std::span<const uint64_t> requests, std::span<const Part> parts, pitot::Batch& batch) {
  hooks_->PassBegins(requests);
  std::vector<Slice> slices;
  for (const Part& part : parts) slices.push_back(part.slice);
  std::vector<int32_t> tokens;
  try {
    tokens = model_(slices, batch);
    if (tokens.size() != slices.size()) throw std::logic_error("the model answered for another number of requests");
  } catch (const std::exception& error) {  // all of them fail: the KV cache may hold anything
    for (const Part& part : parts) {
      part.entry->is_over = true;
      part.entry->job.stream->Fail(error.what());
    }
    tokens.clear();
  }
  for (size_t i = 0; i < tokens.size(); ++i) Deliver(parts[i], tokens[i]);
  hooks_->PassEnds(requests);
}

void Scheduler::Deliver(const Part& part, int32_t token) {
  Entry& entry = *part.entry;
  if (!entry.is_decoding()) entry.prefilled += part.slice.tokens.size();
  if (!part.slice.wants_token) return;
  entry.last = token;
  ++entry.made;
  entry.is_over = entry.made == entry.job.max_tokens;
  pitot::Emit(entry.token);
  if (entry.is_over) {
    pitot::Stage(entry.token, "respond");  // until the handler's thread has woken up and sent it
  } else if (entry.made == 1) {
    pitot::Stage(entry.token, "decode");
  }
  entry.job.stream->Push({token, clock_()});
  if (entry.is_over) entry.job.stream->End();
}

void Scheduler::Remove() {
  for (const Entry& entry : running_) {
    if (!entry.is_over) continue;
    is_slot_used_[entry.slot] = false;
    kv_reserved_ -= entry.room();
  }
  if (std::erase_if(running_, [](const Entry& entry) { return entry.is_over; }) > 0) {
    PITOT_COUNTER("kv cache tokens", kv_reserved_);
  }
}

}  // namespace decode_server
