// SPDX-License-Identifier: Apache-2.0
//
// A host with a recorder, as small as tests like it. It remembers every call of its hooks.
#ifndef PITOT_TEST_SESSION_HOST_H_
#define PITOT_TEST_SESSION_HOST_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "fakes/log.h"
#include "fakes/serializers.h"
#include "fakes/temp_directory.h"
#include "fakes/wait_until.h"
#include "pitot/pitot.h"

namespace session_test {

inline uint64_t SumOf(const pitot::MemorySplit& split) {
  return split.rings + split.requests_and_names + split.snapshot_reserve + split.analysis_arena + split.judging +
         split.learned + split.collectors + split.own;
}

inline pitot::Options SmallOptions() {
  pitot::Options options;
  options.memory_budget_bytes = 16 << 20;
  options.max_ring_bytes = 1 << 18;
  options.max_grown_ring_bytes = options.max_ring_bytes;
  options.max_open_requests = 1024;
  options.post_window_ms = 0;
  options.worker_cpu_percent = 100;
  options.max_incidents_per_cause_and_hour = 1000;
  return options;
}

// A call of a hook.
struct Told {
  std::string hook;
  uint64_t number;
  std::string cause, detail;
  std::string directory;  // "" for none
  uint64_t slow_requests, first_request;
  pitot::StatusCode code;
  std::string message;
  std::string verdict;
};

class Host {
 public:
  Host() : options(SmallOptions()) {
    options.incident_directory = directory.path().c_str();
    options.process_name = "test host";
    log.Listen(&options);
  }
  ~Host() { recorder.Stop(); }
  // Starts with `options`, hooks and a serializer that keeps the trace. False if the recorder does not start.
  bool Start() {
    recorder = pitot::Recorder::Start(options);
    pitot::Hooks hooks;
    hooks.context = this;
    hooks.on_incident = [](void* context, const pitot::IncidentInfo& info) { Tell(context, "incident", info); };
    hooks.on_verdict = [](void* context, const pitot::IncidentInfo& info) { Tell(context, "verdict", info); };
    return recorder.status().ok() && recorder.SetHooks(hooks).ok() &&
           recorder
               .Add(fakes::MakeCallSerializer("keep",
                                              [this](const pitot::model::Trace& trace, pitot::ByteSink&) {
                                                const std::lock_guard lock(mutex_);
                                                traces_.push_back(trace);
                                                return pitot::Status();
                                              }))
               .ok();
  }
  // Asks for an incident and waits for it.
  bool TriggerAndFlush(const char* reason = "because") {
    return recorder.Trigger(reason).ok() && recorder.Flush(60'000).ok();
  }
  bool Flush() { return recorder.Flush(60'000).ok(); }

  // Calls for all incidents so far.
  std::vector<Told> told() const {
    const std::lock_guard lock(mutex_);
    return told_;
  }
  std::vector<pitot::model::Trace> traces() const {
    const std::lock_guard lock(mutex_);
    return traces_;
  }
  std::vector<std::string> incidents() const { return fakes::NamesIn(directory.path()); }

  fakes::TempDirectory directory;
  fakes::Log log;
  pitot::Options options;
  pitot::Recorder recorder;

 private:
  static void Tell(void* context, const char* hook, const pitot::IncidentInfo& info) {
    auto* host = static_cast<Host*>(context);
    const std::lock_guard lock(host->mutex_);
    host->told_.push_back({hook, info.number, info.cause, info.detail, info.directory != nullptr ? info.directory : "",
                           info.slow_requests, info.first_request, info.status.code(), info.status.message(),
                           info.verdict});
  }

  mutable std::mutex mutex_;
  std::vector<Told> told_;
  std::vector<pitot::model::Trace> traces_;
};

// Counts the rounds of the watcher: it begins each by asking the triggers which work they watch.
class Rounds {
 public:
  explicit Rounds(Host* host) : host_(*host), added_(host->recorder.Add(std::make_unique<Counter>(count_)).ok()) {}
  // Waits until the watcher has seen every firing before this call, and has copied the incident if it was due. False if
  // this takes too long.
  bool Pass() const {
    const uint64_t seen = *count_;
    return added_ && fakes::WaitUntil([&] {
             static_cast<void>(host_.recorder.Flush(0));  // wakes the watcher
             return *count_ >= seen + 2;
           });
  }

 private:
  struct Counter final : pitot::Trigger {
    explicit Counter(std::shared_ptr<std::atomic<uint64_t>> to) : count(std::move(to)) {}
    bool WatchesOpenRequests() const noexcept override {
      ++*count;
      return false;
    }
    std::shared_ptr<std::atomic<uint64_t>> count;
  };
  Host& host_;
  std::shared_ptr<std::atomic<uint64_t>> count_ = std::make_shared<std::atomic<uint64_t>>(0);
  bool added_;
};

inline bool Contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace session_test

#endif  // PITOT_TEST_SESSION_HOST_H_
