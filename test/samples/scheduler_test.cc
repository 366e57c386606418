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

// Work of the model: slot, position, number of tokens, whether a token was wanted.
using Did = std::tuple<size_t, size_t, size_t, bool>;

// A scheduler without a thread. Its model follows a token with the next number. Time passes only in the model.
class Bench {
 public:
  explicit Bench(const SchedulerOptions& options, SchedulerHooks* hooks = nullptr)
      : scheduler(
            options, [this](std::span<const Slice> slices, pitot::Batch&) { return Run(slices); }, hooks,
            [this] { return now_ns; }) {}

  std::shared_ptr<TokenStream> Submit(size_t prompt, size_t max_tokens, Admission expected = Admission::kQueued,
                                      bool is_chunked = true, bool is_alone = true) {
    Job job;
    job.prompt.assign(prompt, static_cast<int32_t>(100 * ++submitted_));
    job.max_tokens = max_tokens;
    job.is_chunked = is_chunked;
    job.is_alone = is_alone;
    job.request_id = submitted_;
    job.stream = std::make_shared<TokenStream>();
    std::shared_ptr<TokenStream> stream = job.stream;
    pitot::Request request;  // inert
    CHECK(scheduler.Submit(std::move(job), request) == expected);
    return stream;
  }

  // Runs one iteration; returns the work of the model.
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

// Remembers each call, as "pass of 1 2", and lets requests join or not.
class Told : public SchedulerHooks {
 public:
  bool MayJoin(const Job& job, size_t needed, size_t free) override {
    asked.push_back({job.request_id, job.enqueued_ns, needed, free});
    return lets_join && needed <= free;
  }
  void IterationBegins(std::span<const uint64_t> requests) override { Add("iteration of", requests); }
  void PassBegins(std::span<const uint64_t> requests) override { Add("pass of", requests); }
  void PassEnds(std::span<const uint64_t> requests) override { Add("end of", requests); }

  bool lets_join = true;
  std::vector<std::vector<uint64_t>> asked;
  std::vector<std::string> lines;

 private:
  void Add(std::string what, std::span<const uint64_t> requests) {
    for (const uint64_t request : requests) what += " " + std::to_string(request);
    lines.push_back(what);
  }
};

TEST_CASE("a prompt that is not chunked has a pass by itself, then the others have theirs", "[scheduler]") {
  Told told;
  Bench bench({.prefill_chunk = 4}, &told);
  bench.Submit(2, 10);
  bench.Step();
  told.lines.clear();

  bench.Submit(100, 2, Admission::kQueued, /*is_chunked=*/false);

  CHECK(bench.Step() == std::vector<Did>{{1, 0, 100, true}, {0, 2, 1, true}});
  CHECK(told.lines ==
        std::vector<std::string>{"iteration of 2 1", "pass of 2", "end of 2", "pass of 2 1", "end of 2 1"});
  CHECK(bench.Step() == std::vector<Did>{{0, 3, 1, true}, {1, 100, 1, true}});
}

TEST_CASE("a prompt that is neither chunked nor alone is in the pass of the others", "[scheduler]") {
  Told told;
  Bench bench({.prefill_chunk = 4}, &told);
  bench.Submit(2, 10);
  bench.Step();
  told.lines.clear();

  bench.Submit(100, 2, Admission::kQueued, /*is_chunked=*/false, /*is_alone=*/false);

  CHECK(bench.Step() == std::vector<Did>{{1, 0, 100, true}, {0, 2, 1, true}});
  CHECK(told.lines == std::vector<std::string>{"iteration of 2 1", "pass of 2 1", "end of 2 1"});
}

TEST_CASE("a pass that fails ends, too", "[scheduler]") {
  Told told;
  Bench bench({}, &told);
  bench.Submit(2, 10);
  bench.fails = true;
  bench.Step();
  CHECK(told.lines == std::vector<std::string>{"iteration of 1", "pass of 1", "end of 1"});
}

TEST_CASE("hooks decide whether the oldest request joins", "[scheduler]") {
  Told told;
  Bench bench({.kv_tokens = 20}, &told);
  bench.Submit(2, 8);
  bench.Step();
  told.asked.clear();
  told.lets_join = false;
  bench.now_ns = 5000;
  bench.Submit(2, 2);
  bench.Submit(1, 1);

  CHECK(bench.Step() == std::vector<Did>{{0, 2, 1, true}});
  CHECK(told.asked == std::vector<std::vector<uint64_t>>{{2, 5000, 4, 10}});

  told.lets_join = true;
  CHECK(bench.Step() == std::vector<Did>{{1, 0, 2, true}, {2, 0, 1, true}, {0, 3, 1, true}});
}

TEST_CASE("a request that hooks keep waiting while nobody runs joins when they let it", "[scheduler]") {
  class Late : public SchedulerHooks {
   public:
    bool MayJoin(const Job&, size_t, size_t) override { return ++looks >= 3; }
    size_t looks = 0;
  } late;
  Bench bench({}, &late);
  const auto stream = bench.Submit(2, 1);

  bench.scheduler.Start();

  CHECK(stream->Take(10'000'000'000).tokens.size() == 1);
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
