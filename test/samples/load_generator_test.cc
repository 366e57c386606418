// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include <nlohmann/json.hpp>

#include "load_generator/arrivals.h"
#include "load_generator/generate.h"
#include "load_generator/generate_results.h"
#include "load_generator/jpeg_maker.h"
#include "load_generator/lengths.h"
#include "load_generator/percentile.h"
#include "load_generator/results.h"

namespace load_generator {
namespace {

TEST_CASE("percentiles of small samples are the known ones", "[percentile]") {
  CHECK(Percentile({}, 0.5) == 0);
  const std::vector<uint64_t> one = {7};
  CHECK(Percentile(one, 0) == 7);
  CHECK(Percentile(one, 1) == 7);

  const std::vector<uint64_t> five = {15, 20, 35, 40, 50};  // the textbook's
  CHECK(Percentile(five, 0.05) == 15);
  CHECK(Percentile(five, 0.30) == 20);
  CHECK(Percentile(five, 0.40) == 20);
  CHECK(Percentile(five, 0.50) == 35);
  CHECK(Percentile(five, 1.00) == 50);
}

TEST_CASE("a percentile of 1 to n is its rank, whatever floating point makes of it", "[percentile]") {
  for (const size_t count : {100u, 1000u, 2000u, 100'000u}) {
    std::vector<uint64_t> sorted(count);
    for (size_t i = 0; i < count; ++i) sorted[i] = i + 1;
    for (const uint64_t per_cent : {1u, 10u, 29u, 50u, 55u, 57u, 90u, 95u, 99u}) {
      CHECK(Percentile(sorted, static_cast<double>(per_cent) / 100) == count * per_cent / 100);
    }
  }
}

TEST_CASE("a percentile is the smallest value that enough others do not exceed", "[percentile]") {
  std::mt19937_64 random(5);
  for (int round = 0; round < 200; ++round) {
    std::vector<uint64_t> values(1 + random() % 50);
    for (uint64_t& value : values) value = random() % 20;
    std::sort(values.begin(), values.end());
    const double quantile = static_cast<double>(random() % 1001) / 1000;

    const uint64_t result = Percentile(values, quantile);

    const auto share = [&](uint64_t limit) {
      return static_cast<double>(std::count_if(values.begin(), values.end(), [&](uint64_t v) { return v <= limit; })) /
             static_cast<double>(values.size());
    };
    CHECK(share(result) >= quantile - 1e-9);
    if (result > values.front()) CHECK(share(result - 1) < quantile);
  }
}

TEST_CASE("arrivals are sorted, reproducible and as many as the rate says", "[arrivals]") {
  ArrivalOptions options;
  options.rate = 100;
  options.duration_s = 100;

  const std::vector<Arrival> arrivals = DrawArrivals(options);

  CHECK(arrivals.size() > 9600);  // four standard deviations
  CHECK(arrivals.size() < 10400);
  CHECK(std::is_sorted(arrivals.begin(), arrivals.end(),
                       [](const Arrival& a, const Arrival& b) { return a.at_ns < b.at_ns; }));
  CHECK(arrivals.back().at_ns < 100'000'000'000);
  const std::vector<Arrival> again = DrawArrivals(options);
  CHECK(std::equal(arrivals.begin(), arrivals.end(), again.begin(), again.end(),
                   [](const Arrival& a, const Arrival& b) { return a.at_ns == b.at_ns; }));
  options.seed = 2;
  CHECK(DrawArrivals(options).front().at_ns != arrivals.front().at_ns);
}

TEST_CASE("gaps between arrivals scatter as a Poisson process does", "[arrivals]") {
  ArrivalOptions options;
  options.rate = 100;
  options.duration_s = 200;
  const std::vector<Arrival> arrivals = DrawArrivals(options);

  double sum = 0, sum_of_squares = 0;
  for (size_t i = 1; i < arrivals.size(); ++i) {
    const double gap_s = static_cast<double>(arrivals[i].at_ns - arrivals[i - 1].at_ns) * 1e-9;
    sum += gap_s, sum_of_squares += gap_s * gap_s;
  }
  const double count = static_cast<double>(arrivals.size() - 1), mean = sum / count;

  CHECK(mean == Approx(0.01).epsilon(0.05));
  CHECK(sum_of_squares / count - mean * mean == Approx(0.0001).epsilon(0.1));
}

TEST_CASE("bursts come at their distance, big pictures at their share", "[arrivals]") {
  ArrivalOptions options;
  options.rate = 100;
  options.duration_s = 16;
  options.burst = 12;
  options.burst_every_s = 5;
  options.big_share = 0.25;

  size_t big = 0, normal = 0;
  std::vector<uint64_t> bursts;
  for (const Arrival& arrival : DrawArrivals(options)) {
    if (arrival.is_burst) {
      bursts.push_back(arrival.at_ns);
    } else {
      ++(arrival.is_big ? big : normal);
    }
  }

  REQUIRE(bursts.size() == 36);
  CHECK(bursts.front() == 5'000'000'000);
  CHECK(bursts.back() == 15'000'000'000);
  CHECK(static_cast<double>(big) / static_cast<double>(big + normal) == Approx(0.25).margin(0.05));
}

TEST_CASE("the fault log names the requests of bursts and of big pictures that a server answered", "[results]") {
  load_generator::Options options;
  options.arrivals.burst = 40;
  options.big_size = 100;
  load_generator::Run run;
  run.samples.resize(4);
  run.samples[0].id = "00000000000000aa";
  run.samples[1].id = "00000000000000bb", run.samples[1].is_burst = true, run.samples[1].intended_ns = 7;
  run.samples[2].id = "00000000000000cc", run.samples[2].is_big = true, run.samples[2].intended_ns = 9;
  run.samples[3].is_big = true;  // never answered

  CHECK(load_generator::ToFaultLog(options, run) ==
        R"({"time_ns":7,"request":"00000000000000bb","fault":"bursts","injected_ns":0,"requests":40})"
        "\n"
        R"({"time_ns":9,"request":"00000000000000cc","fault":"bigger_input","injected_ns":0,"pixels":10000})"
        "\n");
}

TEST_CASE("lengths scatter around their mean and end at the most", "[lengths]") {
  const LengthOptions options{.mean = 50, .sigma = 0.7, .most = 400};
  const std::vector<size_t> lengths = DrawLengths(options, 10'000, 1);

  double sum = 0;
  for (const size_t length : lengths) sum += static_cast<double>(length);
  CHECK(sum / 10'000 == Approx(50).epsilon(0.05));
  CHECK(*std::min_element(lengths.begin(), lengths.end()) >= 1);
  CHECK(*std::max_element(lengths.begin(), lengths.end()) <= 400);
  CHECK(DrawLengths(options, 10'000, 1) == lengths);
  CHECK(DrawLengths(options, 10'000, 2) != lengths);
}

TEST_CASE("prompts are the same for a seed, long and left at their shares", "[prompts]") {
  load_generator::Options options;
  options.arrivals.rate = 100;
  options.arrivals.big_share = 0.2;
  options.cancel_share = 0.1;

  const std::vector<GenerateSample> samples = DrawPrompts(options), again = DrawPrompts(options);

  REQUIRE(samples.size() == again.size());
  double count = 0, are_long = 0, leave = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    CHECK(samples[i].prompt_length == again[i].prompt_length);
    CHECK(samples[i].max_tokens == again[i].max_tokens);
    CHECK((samples[i].prompt_length == options.long_prompt) == samples[i].is_long);
    ++count, are_long += samples[i].is_long, leave += samples[i].leaves_half_way;
  }
  CHECK(are_long / count == Approx(0.2).margin(0.03));
  CHECK(leave / count == Approx(0.1).margin(0.03));
}

TEST_CASE("times of prompts are of requests that got all their tokens after the warm-up", "[results]") {
  load_generator::GenerateRun run;
  run.measured_from_ns = 1'000'000'000, run.end_ns = 2'000'000'000;
  run.samples.resize(4);
  for (GenerateSample& sample : run.samples) {
    sample.intended_ns = sample.sent_ns = 1'100'000'000;
    sample.status = 200, sample.max_tokens = 3;
    sample.token_ns = {1'110'000'000, 1'113'000'000, 1'120'000'000};
    sample.done_ns = 1'121'000'000;
  }
  run.samples[1].intended_ns = 900'000'000;  // before
  run.samples[2].token_ns.pop_back();        // not all
  run.samples[3].error = "out of memory";

  const nlohmann::json json = nlohmann::json::parse(ToJson({}, run));

  CHECK(json["requests"]["sent"] == 3);
  CHECK(json["requests"]["ok"] == 1);
  CHECK(json["requests"]["errors"] == nlohmann::json{{"out of memory", 1}});
  CHECK(json["ttft_ms"]["p50"] == Approx(10));
  CHECK(json["gap_ms"]["count"] == 2);
  CHECK(json["gap_ms"]["max"] == Approx(7));
  CHECK(json["longest_gap_ms"]["p50"] == Approx(7));
  CHECK(json["total_ms"]["max"] == Approx(21));
  CHECK(json["tokens_per_s"] == Approx(3));
  CHECK(json["slowest"].size() == 3);
}

TEST_CASE("pictures are the same for a seed and differ between seeds", "[jpeg]") {
  CHECK(MakeJpeg(40, 30, 1) == MakeJpeg(40, 30, 1));
  CHECK(MakeJpeg(40, 30, 1) != MakeJpeg(40, 30, 2));
}

}  // namespace
}  // namespace load_generator
