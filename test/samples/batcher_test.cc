// SPDX-License-Identifier: Apache-2.0
#include "image_server/batcher.h"

#include <catch2/catch.hpp>
#include <future>
#include <mutex>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "session/host.h"

namespace image_server {
namespace {

constexpr uint64_t kForEverNs = 3'600'000'000'000;

// A network: waits for its gate, then answers with the first number of each input.
class FakeNetwork {
 public:
  std::vector<Prediction> operator()(std::span<const Job> jobs, pitot::Batch& batch) {
    {
      std::lock_guard lock(mutex_);
      sizes_.push_back(jobs.size());
    }
    gate_.wait();
    batch.Submitted();
    std::vector<Prediction> predictions;
    for (const Job& job : jobs) predictions.push_back({{static_cast<int64_t>(job.input.at(0)), 1.0f}});
    return predictions;
  }
  void Open() { open_.set_value(); }
  std::vector<size_t> sizes() {
    std::lock_guard lock(mutex_);
    return sizes_;
  }

 private:
  std::promise<void> open_;
  std::shared_future<void> gate_ = open_.get_future().share();
  std::mutex mutex_;
  std::vector<size_t> sizes_;
};

Batcher::Model ModelOf(FakeNetwork* network) {
  return [network](std::span<const Job> jobs, pitot::Batch& batch) { return (*network)(jobs, batch); };
}

std::future<Prediction> Submit(Batcher* batcher, float value) {
  pitot::Request request;  // inert
  std::optional<std::future<Prediction>> result = batcher->Submit({value}, request, 1);
  REQUIRE(result.has_value());
  return std::move(*result);
}

TEST_CASE("a full batch does not wait for its delay", "[batcher]") {
  FakeNetwork network;
  network.Open();
  Batcher batcher({.workers = 1, .max_batch = 3, .max_delay_ns = kForEverNs, .max_queue = 10}, ModelOf(&network));

  std::vector<std::future<Prediction>> results;
  for (int i = 0; i < 3; ++i) results.push_back(Submit(&batcher, static_cast<float>(i)));

  for (size_t i = 0; i < 3; ++i) CHECK(results[i].get().at(0).class_index == static_cast<int64_t>(i));
  CHECK(network.sizes() == std::vector<size_t>{3});
}

TEST_CASE("a batch that is not full runs when the first member has waited its delay", "[batcher]") {
  FakeNetwork network;
  network.Open();
  Batcher batcher({.workers = 2, .max_batch = 100, .max_delay_ns = 1'000'000, .max_queue = 10}, ModelOf(&network));

  CHECK(Submit(&batcher, 5).get().at(0).class_index == 5);
}

TEST_CASE("members that arrive while one worker gathers join its batch, whoever else is idle", "[batcher]") {
  FakeNetwork network;
  network.Open();
  Batcher batcher({.workers = 4, .max_batch = 6, .max_delay_ns = kForEverNs, .max_queue = 100}, ModelOf(&network));

  std::vector<std::future<Prediction>> results;
  for (int i = 0; i < 12; ++i) results.push_back(Submit(&batcher, static_cast<float>(i)));
  for (std::future<Prediction>& result : results) result.wait();

  CHECK(network.sizes() == std::vector<size_t>{6, 6});
}

TEST_CASE("a full queue refuses", "[batcher]") {
  FakeNetwork network;
  Batcher batcher({.workers = 1, .max_batch = 1, .max_delay_ns = 0, .max_queue = 2}, ModelOf(&network));
  std::vector<std::future<Prediction>> results;
  results.push_back(Submit(&batcher, 0));
  while (network.sizes().empty()) std::this_thread::yield();  // the worker has taken it and waits at the gate
  results.push_back(Submit(&batcher, 1));
  results.push_back(Submit(&batcher, 2));

  pitot::Request request;
  CHECK_FALSE(batcher.Submit({3}, request, 1).has_value());

  network.Open();
  for (size_t i = 0; i < results.size(); ++i) CHECK(results[i].get().at(0).class_index == static_cast<int64_t>(i));
}

TEST_CASE("members leave their batch as each gets its result, and it is over when all have theirs", "[batcher]") {
  session_test::Host host;
  REQUIRE(host.Start());
  FakeNetwork network;
  network.Open();
  std::vector<pitot::Request> requests;
  for (int i = 0; i < 3; ++i) requests.push_back(pitot::Request::Begin("/classify"));
  {
    Batcher batcher({.workers = 1, .max_batch = 3, .max_delay_ns = kForEverNs, .max_queue = 10}, ModelOf(&network));
    for (pitot::Request& request : requests) (void)batcher.Submit({1}, request, request.id());
  }
  for (pitot::Request& request : requests) request.Finish(pitot::Outcome::kOk);
  REQUIRE(host.TriggerAndFlush());

  const pitot::model::Trace trace = host.traces().back();
  REQUIRE(trace.batches.size() == 1);
  const int64_t end_ns = trace.batches[0].begin_ns + trace.batches[0].duration_ns;
  int64_t last_ns = trace.batches[0].begin_ns;
  REQUIRE(trace.members.size() == 3);
  for (const auto& member : trace.members) {
    CHECK((member.leave_ns > last_ns && member.leave_ns < end_ns));
    last_ns = member.leave_ns;
  }
  for (uint32_t event = 0; event < trace.events.size(); ++event) {
    if (trace.EventName(event) == "hand out results") CHECK(trace.events.batch[event] == 0);
  }
}

TEST_CASE("stopping runs what is queued and refuses what comes later", "[batcher]") {
  FakeNetwork network;
  network.Open();
  Batcher batcher({.workers = 2, .max_batch = 4, .max_delay_ns = kForEverNs, .max_queue = 100}, ModelOf(&network));
  std::vector<std::future<Prediction>> results;
  for (int i = 0; i < 7; ++i) results.push_back(Submit(&batcher, static_cast<float>(i)));

  batcher.Stop();
  batcher.Stop();

  for (size_t i = 0; i < results.size(); ++i) CHECK(results[i].get().at(0).class_index == static_cast<int64_t>(i));
  pitot::Request request;
  CHECK_FALSE(batcher.Submit({3}, request, 1).has_value());
}

TEST_CASE("every worker has warmed up before the batcher is there", "[batcher]") {
  FakeNetwork network;
  network.Open();
  std::mutex mutex;
  std::set<std::thread::id> warm;
  const auto warm_up = [&] {
    const std::lock_guard lock(mutex);
    warm.insert(std::this_thread::get_id());
  };
  Batcher batcher({.workers = 3, .max_batch = 1, .max_delay_ns = 0, .max_queue = 10}, ModelOf(&network), warm_up);

  CHECK(warm.size() == 3);
  CHECK(warm.count(std::this_thread::get_id()) == 0);
  CHECK(Submit(&batcher, 5).get().at(0).class_index == 5);
}

TEST_CASE("a model that cannot warm up is no batcher, and what it threw is thrown", "[batcher]") {
  FakeNetwork network;
  const BatcherOptions options{.workers = 2, .max_batch = 1, .max_delay_ns = 0, .max_queue = 10};
  CHECK_THROWS_WITH(Batcher(options, ModelOf(&network), [] { throw std::runtime_error("out of memory"); }),
                    "out of memory");
}

TEST_CASE("an exception of the network reaches every member, and the next batch runs", "[batcher]") {
  bool fails = true;
  Batcher batcher({.workers = 1, .max_batch = 2, .max_delay_ns = kForEverNs, .max_queue = 10},
                  [&](std::span<const Job> jobs, pitot::Batch&) {
                    if (fails) throw std::runtime_error("out of memory");
                    return std::vector<Prediction>(jobs.size());
                  });

  std::future<Prediction> first = Submit(&batcher, 1), second = Submit(&batcher, 2);
  CHECK_THROWS_AS(first.get(), std::runtime_error);
  CHECK_THROWS_AS(second.get(), std::runtime_error);

  fails = false;
  std::future<Prediction> third = Submit(&batcher, 3), fourth = Submit(&batcher, 4);
  CHECK(third.get().empty());
  CHECK(fourth.get().empty());
}

TEST_CASE("a network that answers for another number of pictures is an error", "[batcher]") {
  Batcher batcher({.workers = 1, .max_batch = 1, .max_delay_ns = 0, .max_queue = 10},
                  [](std::span<const Job>, pitot::Batch&) { return std::vector<Prediction>(7); });

  CHECK_THROWS_AS(Submit(&batcher, 1).get(), std::logic_error);
}

// Remembers each call, as "queued 1".
class Told : public BatcherHooks {
 public:
  uint64_t DelayNs(uint64_t max_delay_ns) override {
    asked_ns = max_delay_ns;
    return delay_ns;
  }
  void Queued(const Job& job) override { Add("queued", {&job, 1}); }
  void Taken(const Job& job) override { Add("taken", {&job, 1}); }
  void Answering(std::span<const Job> jobs) override { Add("answering", jobs); }
  void Finished(std::span<const Job> jobs) override {
    Add("finished", jobs);
    finished.set_value();
  }

  uint64_t delay_ns = kForEverNs;
  uint64_t asked_ns = 0;
  std::vector<std::string> lines;
  std::promise<void> finished;

 private:
  void Add(std::string what, std::span<const Job> jobs) {
    for (const Job& job : jobs) what += " " + std::to_string(job.request_id);
    const std::lock_guard lock(mutex_);
    lines.push_back(what);
  }
  std::mutex mutex_;
};

TEST_CASE("hooks choose the delay of a batch", "[batcher]") {
  FakeNetwork network;
  network.Open();
  Told told;
  told.delay_ns = 0;
  Batcher batcher({.workers = 1, .max_batch = 100, .max_delay_ns = kForEverNs, .max_queue = 10}, ModelOf(&network), {},
                  &told);

  CHECK(Submit(&batcher, 5).get().at(0).class_index == 5);
  CHECK(told.asked_ns == kForEverNs);
}

TEST_CASE("hooks are told where each job is, also where the network failed", "[batcher]") {
  const bool fails = GENERATE(false, true);
  const auto network = [&](std::span<const Job> jobs, pitot::Batch&) {
    if (fails) throw std::runtime_error("out of memory");
    return std::vector<Prediction>(jobs.size());
  };
  Told told;
  Batcher batcher({.workers = 1, .max_batch = 2, .max_delay_ns = 0, .max_queue = 10}, network, {}, &told);
  pitot::Request request;  // inert

  const auto first = batcher.Submit({}, request, 7), second = batcher.Submit({}, request, 8);
  told.finished.get_future().wait();

  // The worker may take the first before the second is queued.
  const std::vector<std::string>& lines = told.lines;
  REQUIRE(lines.size() == 7);
  CHECK(lines[0] == "queued 7");
  CHECK(std::set<std::string>(lines.begin() + 1, lines.begin() + 4) ==
        std::set<std::string>{"taken 7", "queued 8", "taken 8"});
  CHECK(std::vector<std::string>(lines.begin() + 4, lines.end()) ==
        std::vector<std::string>{"answering 7 8", "answering 8", "finished 7 8"});
}

}  // namespace
}  // namespace image_server
