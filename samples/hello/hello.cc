// SPDX-License-Identifier: Apache-2.0
//
// A whole server: three handlers, a queue, batches, and a cache behind a lock. One request holds the lock for 90 ms.
// The trigger watches only the requests that wait for the lock, and the incident names the one that held it.
#include <pitot/analyze/judge.h>
#include <pitot/pitot.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace std::chrono_literals;

constexpr size_t kHandlers = 3, kRequestsEach = 200;

struct Job {
  pitot::Token request;  // 32 plain bytes that stand for a request on other threads
  std::promise<void> done;
};

// Used like the standard ones. Each has a name, and records who waited for it and who held it.
pitot::Mutex g_cache_mutex("cache"), g_queue_mutex("queue");
pitot::ConditionVariable g_job_arrived("job arrived");
std::vector<Job> g_queue;

// What this thread does from Begin to Finish belongs to the request.
void Classify() {
  auto request = pitot::Request::Begin("/classify");
  request.Stage("look up");  // lasts until the next stage
  { std::lock_guard lock(g_cache_mutex); }

  request.Stage("model");
  std::future<void> result;
  {
    std::lock_guard lock(g_queue_mutex);
    g_queue.push_back({request.Enqueue("jobs"), {}});
    result = g_queue.back().done.get_future();
    g_job_arrived.notify_one();
  }
  {
    PITOT_WAIT(pitot::WaitKind::kFuture, "result", pitot::Owner{});  // this block is a wait
    result.wait();
  }
  request.Finish(pitot::Outcome::kOk);  // now the triggers see it
}

// The culprit: it holds the lock while it reads a file.
void Reload() {
  auto request = pitot::Request::Begin("/reload");
  {
    std::lock_guard lock(g_cache_mutex);
    PITOT_SCOPE("read file");  // this block is in the trace
    std::this_thread::sleep_for(90ms);
  }
  request.Finish(pitot::Outcome::kOk);
}

void Handle() {
  pitot::SetThreadName("handler");
  for (size_t i = 0; i < kRequestsEach; ++i) Classify();
}

// Waits for a job, then at most 1 ms (in ns) for one of every handler, and serves them as one batch.
void Execute() {
  pitot::SetThreadName("executor");
  for (size_t served = 0; served < kHandlers * kRequestsEach;) {
    std::unique_lock lock(g_queue_mutex);
    g_job_arrived.wait(lock, [] { return !g_queue.empty(); });
    g_job_arrived.wait_for(lock, 1'000'000, [] { return g_queue.size() == kHandlers; });
    std::vector<Job> jobs = std::exchange(g_queue, {});
    lock.unlock();

    auto batch = pitot::Batch::Begin("model");
    for (const Job& job : jobs) batch.Join(job.request);  // this thread now works for all of them
    {
      PITOT_SCOPE("forward");
      std::this_thread::sleep_for(2ms);
    }
    batch.Finish();  // before the handlers wake up, because they wait for this batch
    for (Job& job : jobs) job.done.set_value();
    served += jobs.size();
  }
}

int main() {
  pitot::Options options;
  options.incident_directory = "hello_incidents";
  auto recorder = pitot::Recorder::Start(options);  // first thing in main; it stops when destroyed
  pitot::LatencyTriggerOptions slow;
  slow.route = "/classify";
  slow.above_ms = 80;
  recorder.Add(pitot::MakeLatencyTrigger(slow));
  recorder.Add(pitot::MakeWhyJudge());  // explains each incident
  recorder.SetHooks({.on_verdict = [](void*, const pitot::IncidentInfo& incident) {
    const bool is_on_disk = incident.directory != nullptr;
    std::string verdict = incident.verdict;
    verdict.resize(std::min(verdict.size(), verdict.find("in window ")));  // report.txt gets that part later
    std::printf("%sThe incident is in %s\n", verdict.c_str(),
                is_on_disk ? incident.directory : incident.status.message());
  }});

  std::thread threads[] = {std::thread(Execute), std::thread(Handle), std::thread(Handle), std::thread(Handle)};
  std::this_thread::sleep_for(400ms);
  Reload();
  for (std::thread& thread : threads) thread.join();

  const pitot::Status flushed = recorder.Flush(5000);  // until the incident is on disk and judged
  if (recorder.Stats().verdicts_given > 0) return 0;
  std::fprintf(stderr, "hello: no incident was explained. %s\n", flushed.message());
  return 1;
}
