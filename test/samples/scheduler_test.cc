// SPDX-License-Identifier: Apache-2.0
#include "decode_server/scheduler.h"

#include <catch2/catch.hpp>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

namespace decode_server {
namespace {

constexpr uint64_t kIterationNs = 1000;

// What the scheduler had the model do: slot, position, how many tokens, whether one was wanted.
using Did = std::tuple<size_t, size_t, size_t, bool>;

// A scheduler that runs an iteration when it is told to, on a model that follows a token with the next number, in a
// time that passes only in the model.
class Bench {
 public:
  explicit Bench(const SchedulerOptions& options, Scheduler::Experiment experiment = {})
      : scheduler(
            options, [this](std::span<const Slice> slices, pitot::Batch&) { return Run(slices); },
            std::move(experiment), [this] { return now_ns; }) {}

  std::shared_ptr<TokenStream> Submit(size_t prompt, size_t max_tokens, Admission expected = Admission::kQueued,
                                      bool is_chunked = true) {
    Job job;
    job.prompt.assign(prompt, static_cast<int32_t>(100 * ++submitted_));
    job.max_tokens = max_tokens;
    job.is_chunked = is_chunked;
    job.request_id = submitted_;
    job.stream = std::make_shared<TokenStream>();
    std::shared_ptr<TokenStream> stream = job.stream;
    pitot::Request request;  // inert
    CHECK(scheduler.Submit(std::move(job), request) == expected);
    return stream;
  }

  // One iteration; what the model did in it.
  std::vector<Did> Step() {
    did_.clear();
    scheduler.Step();
    return did_;
  }

  uint64_t now_ns = 0;
  bool fails = false;

 private:
  std::vector<int32_t> Run(std::span<const Slice> slices) {
    now_ns += kIterationNs;
    if (fails) throw std::runtime_error("out of memory");
    std::vector<int32_t> tokens;
    for (const Slice& slice : slices) {
      did_.emplace_back(slice.slot, slice.position, slice.tokens.size(), slice.wants_token);
      tokens.push_back(slice.tokens.back() + 1);
    }
    return tokens;
  }

  uint64_t submitted_ = 0;
  std::vector<Did> did_;

 public:
  Scheduler scheduler;
};

std::vector<int32_t> TokensOf(TokenStream& stream) {
  std::vector<int32_t> tokens;
  for (const MadeToken& made : stream.Take(0).tokens) tokens.push_back(made.token);
  return tokens;
}

TEST_CASE("a request's prompt is prefilled, then each iteration makes the token that follows", "[scheduler]") {
  Bench bench({.prefill_chunk = 64});
  const auto stream = bench.Submit(10, 3);

  CHECK(bench.Step() == std::vector<Did>{{0, 0, 10, true}});
  CHECK(bench.Step() == std::vector<Did>{{0, 10, 1, true}});
  CHECK(bench.Step() == std::vector<Did>{{0, 11, 1, true}});
  CHECK(bench.Step().empty());

  const TokenStream::Taken taken = stream->Take(0);
  REQUIRE(taken.tokens.size() == 3);
  CHECK(taken.has_ended);
  CHECK(taken.error.empty());
  for (size_t i = 0; i < 3; ++i) {
    CHECK(taken.tokens[i].token == 101 + static_cast<int32_t>(i));
    CHECK(taken.tokens[i].made_ns == (i + 1) * kIterationNs);
  }
}

TEST_CASE("a request joins those that run between two iterations and leaves when it has its tokens", "[scheduler]") {
  Bench bench({});
  bench.Submit(4, 3);
  bench.Step();

  bench.Submit(5, 1);

  CHECK(bench.Step() == std::vector<Did>{{1, 0, 5, true}, {0, 4, 1, true}});
  CHECK(bench.Step() == std::vector<Did>{{0, 5, 1, true}});
}

TEST_CASE("a long prompt is prefilled in chunks, and who is past his goes on meanwhile", "[scheduler]") {
  Bench bench({.prefill_chunk = 8});
  bench.Submit(2, 10);
  bench.Step();

  bench.Submit(20, 2);

  CHECK(bench.Step() == std::vector<Did>{{1, 0, 8, false}, {0, 2, 1, true}});
  CHECK(bench.Step() == std::vector<Did>{{1, 8, 8, false}, {0, 3, 1, true}});
  CHECK(bench.Step() == std::vector<Did>{{1, 16, 4, true}, {0, 4, 1, true}});
  CHECK(bench.Step() == std::vector<Did>{{0, 5, 1, true}, {1, 20, 1, true}});
}

TEST_CASE("prompts share an iteration's chunk in the order of their arrival", "[scheduler]") {
  Bench bench({.prefill_chunk = 8});
  bench.Submit(5, 1);
  bench.Submit(6, 1);
  bench.Submit(6, 1);

  CHECK(bench.Step() == std::vector<Did>{{0, 0, 5, true}, {1, 0, 3, false}});
  CHECK(bench.Step() == std::vector<Did>{{1, 3, 3, true}, {2, 0, 5, false}});
  CHECK(bench.Step() == std::vector<Did>{{2, 5, 1, true}});
}

TEST_CASE("no more run at a time than a batch has places, and a slot that is free is used again", "[scheduler]") {
  Bench bench({.max_batch = 2});
  bench.Submit(1, 1);
  bench.Submit(1, 3);
  bench.Submit(1, 1);

  CHECK(bench.Step() == std::vector<Did>{{0, 0, 1, true}, {1, 0, 1, true}});
  CHECK(bench.Step() == std::vector<Did>{{0, 0, 1, true}, {1, 1, 1, true}});
}

TEST_CASE("a request waits until what it may need has room in the KV cache, and nobody overtakes it", "[scheduler]") {
  Bench bench({.max_batch = 8, .kv_tokens = 20});
  bench.Submit(10, 2);  // 12
  bench.Submit(8, 1);   // 9: no room beside it
  const auto small = bench.Submit(1, 1);

  CHECK(bench.Step() == std::vector<Did>{{0, 0, 10, true}});
  CHECK(bench.Step() == std::vector<Did>{{0, 10, 1, true}});
  CHECK(TokensOf(*small).empty());
  CHECK(bench.Step() == std::vector<Did>{{0, 0, 8, true}, {1, 0, 1, true}});
}

TEST_CASE("what can never have room is refused, and so is what finds the queue full", "[scheduler]") {
  Bench bench({.kv_tokens = 20, .max_queue = 2});

  bench.Submit(19, 2, Admission::kNeverFits);
  bench.Submit(19, 1);
  bench.Submit(1, 1);
  bench.Submit(1, 1, Admission::kQueueFull);
  bench.Step();  // one is taken from the queue
  bench.Submit(1, 1);
}

TEST_CASE("a request that is cancelled is out before the next iteration, queued or running", "[scheduler]") {
  Bench bench({.max_batch = 2});
  const auto first = bench.Submit(3, 10);
  bench.Submit(3, 10);
  const auto queued = bench.Submit(3, 10);
  const auto last = bench.Submit(4, 1);
  bench.Step();

  first->Cancel();
  queued->Cancel();

  CHECK(bench.Step() == std::vector<Did>{{0, 0, 4, true}, {1, 3, 1, true}});
  CHECK(TokensOf(*first).size() == 1);
  CHECK(TokensOf(*queued).empty());
  CHECK(TokensOf(*last).size() == 1);
}

TEST_CASE("a model that fails ends the requests of its iteration with its message, and the next one runs",
          "[scheduler]") {
  Bench bench({.max_batch = 2});
  const auto first = bench.Submit(1, 5), second = bench.Submit(1, 5), queued = bench.Submit(1, 1);

  bench.fails = true;
  bench.Step();
  bench.fails = false;
  bench.Step();

  for (const auto& stream : {first, second}) {
    const TokenStream::Taken taken = stream->Take(0);
    CHECK(taken.has_ended);
    CHECK(taken.error == "out of memory");
  }
  CHECK(TokensOf(*queued).size() == 1);
}

TEST_CASE("a model that answers for another number of requests is an error", "[scheduler]") {
  Scheduler scheduler({}, [](std::span<const Slice>, pitot::Batch&) { return std::vector<int32_t>(7); });
  Job job;
  job.prompt = {1};
  job.stream = std::make_shared<TokenStream>();
  const auto stream = job.stream;
  pitot::Request request;
  CHECK(scheduler.Submit(std::move(job), request) == Admission::kQueued);

  scheduler.Step();

  CHECK_THAT(stream->Take(0).error, Catch::Contains("another number"));
}

TEST_CASE("an experiment is told who had to wait for a prompt that was taken in one piece", "[scheduler]") {
  struct Told {
    uint64_t request = 0;
    std::vector<uint64_t> others;
    uint64_t took_ns = 0;
  };
  std::vector<Told> told;
  Scheduler::Experiment experiment;
  experiment.on_unchunked = [&](uint64_t request, std::span<const uint64_t> others, uint64_t from_ns,
                                uint64_t until_ns) {
    told.push_back({request, {others.begin(), others.end()}, until_ns - from_ns});
  };
  std::vector<std::vector<uint64_t>> ran;
  experiment.on_run = [&](std::span<const uint64_t> requests, const server_common::Delays&,
                          const server_common::Work&) { ran.emplace_back(requests.begin(), requests.end()); };
  Bench bench({.prefill_chunk = 4}, experiment);
  bench.Submit(2, 10);
  bench.Step();
  ran.clear();

  bench.Submit(100, 2, Admission::kQueued, /*is_chunked=*/false);

  CHECK(bench.Step() == std::vector<Did>{{1, 0, 100, true}, {0, 2, 1, true}});
  REQUIRE(told.size() == 1);
  CHECK(told[0].request == 2);
  CHECK(told[0].others == std::vector<uint64_t>{1});
  CHECK(told[0].took_ns == kIterationNs);
  CHECK(ran == std::vector<std::vector<uint64_t>>{{2}, {2, 1}});  // alone, then what is left for all of them
  CHECK(bench.Step() == std::vector<Did>{{0, 3, 1, true}, {1, 100, 1, true}});
}

TEST_CASE("an experiment that takes room in the KV cache is told whom it held back and for how long", "[scheduler]") {
  size_t taken = 0;
  std::vector<uint64_t> told;
  Scheduler::Experiment experiment;
  experiment.kv_tokens_taken = [&] { return taken; };
  experiment.on_held_back = [&](uint64_t request, uint64_t from_ns, uint64_t until_ns) {
    told = {request, from_ns, until_ns};
  };
  Bench bench({.kv_tokens = 20}, experiment);
  bench.Submit(2, 8);
  bench.Step();
  taken = 10;
  bench.Submit(2, 2);
  bench.now_ns = 5000;

  CHECK(bench.Step() == std::vector<Did>{{0, 2, 1, true}});
  CHECK(told.empty());
  bench.now_ns = 9000;
  taken = 0;

  CHECK(bench.Step() == std::vector<Did>{{1, 0, 2, true}, {0, 3, 1, true}});
  CHECK(told == std::vector<uint64_t>{2, 5000, 9000});
}

TEST_CASE("an experiment is told who came while an iteration ran, and for whom that was", "[scheduler]") {
  std::vector<uint64_t> told;
  Scheduler::Experiment experiment;
  experiment.on_queued = [&](uint64_t request, uint64_t from_ns, uint64_t until_ns, std::span<const uint64_t> others) {
    told = {request, from_ns, until_ns, others.size(), others[0]};
  };
  Bench bench({}, experiment);
  bench.Submit(2, 8);
  bench.Step();
  bench.Submit(2, 2);  // after it
  bench.Step();
  CHECK(told.empty());

  const uint64_t over_ns = bench.now_ns;
  bench.now_ns = over_ns - kIterationNs / 2;
  bench.Submit(2, 2);
  bench.now_ns = over_ns;
  bench.Step();

  CHECK(told == std::vector<uint64_t>{3, over_ns - kIterationNs / 2, over_ns, 2, 2});
}

TEST_CASE("an experiment that takes all room while nobody runs lets the request in afterwards", "[scheduler]") {
  size_t looks = 0;
  Scheduler::Experiment experiment;
  experiment.kv_tokens_taken = [&]() -> size_t { return ++looks < 3 ? 20 : 0; };
  Bench bench({.kv_tokens = 20}, experiment);
  const auto stream = bench.Submit(2, 1);

  bench.scheduler.Start();

  const TokenStream::Taken taken = stream->Take(10'000'000'000);
  CHECK(taken.tokens.size() == 1);
}

TEST_CASE("the thread that runs iterations has warmed up before it is said to have started, or says why not",
          "[scheduler]") {
  std::thread::id warm;
  Bench bench({});
  bench.scheduler.Start([&] { warm = std::this_thread::get_id(); });
  CHECK(warm != std::thread::id());
  CHECK(warm != std::this_thread::get_id());

  Bench failing({});
  CHECK_THROWS_WITH(failing.scheduler.Start([] { throw std::runtime_error("out of memory"); }), "out of memory");
}

TEST_CASE("stopping runs what is queued and refuses what comes later", "[scheduler]") {
  Bench bench({.max_batch = 2});
  std::vector<std::shared_ptr<TokenStream>> streams;
  for (int i = 0; i < 5; ++i) streams.push_back(bench.Submit(3, 4));

  bench.scheduler.Start();
  bench.scheduler.Stop();
  bench.scheduler.Stop();

  for (const auto& stream : streams) CHECK(TokensOf(*stream).size() == 4);
  bench.Submit(1, 1, Admission::kQueueFull);
}

}  // namespace
}  // namespace decode_server
