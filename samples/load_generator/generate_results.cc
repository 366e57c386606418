// SPDX-License-Identifier: Apache-2.0
#include "load_generator/generate_results.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <numeric>

#include <nlohmann/json.hpp>

#include "load_generator/percentile.h"

namespace load_generator {
namespace {

struct Times {
  std::vector<uint64_t> first_token, gap, longest_gap, total, send_lag;  // ns, sorted
  size_t tokens = 0;
};

Times TimesOf(const GenerateRun& run) {
  Times times;
  for (const GenerateSample& sample : run.samples) {
    if (sample.intended_ns < run.measured_from_ns) continue;
    times.send_lag.push_back(sample.sent_ns - sample.intended_ns);
    if (!sample.is_ok()) continue;
    times.first_token.push_back(sample.first_token_ns());
    times.longest_gap.push_back(sample.longest_gap_ns());
    times.total.push_back(sample.total_ns());
    times.tokens += sample.token_ns.size();
    for (size_t i = 1; i < sample.token_ns.size(); ++i) {
      times.gap.push_back(sample.token_ns[i] - sample.token_ns[i - 1]);
    }
  }
  for (std::vector<uint64_t>* each :
       {&times.first_token, &times.gap, &times.longest_gap, &times.total, &times.send_lag}) {
    std::sort(each->begin(), each->end());
  }
  return times;
}

double MeasuredSeconds(const GenerateRun& run) { return static_cast<double>(run.end_ns - run.measured_from_ns) * 1e-9; }

nlohmann::json Distribution(const std::vector<uint64_t>& sorted) {
  const double sum = static_cast<double>(std::accumulate(sorted.begin(), sorted.end(), uint64_t{0}));
  return {{"count", sorted.size()},
          {"mean", sorted.empty() ? 0 : sum * 1e-6 / static_cast<double>(sorted.size())},
          {"p50", Ms(Percentile(sorted, 0.5))},
          {"p90", Ms(Percentile(sorted, 0.9))},
          {"p95", Ms(Percentile(sorted, 0.95))},
          {"p99", Ms(Percentile(sorted, 0.99))},
          {"p999", Ms(Percentile(sorted, 0.999))},
          {"max", Ms(Percentile(sorted, 1))}};
}

nlohmann::json RequestsJson(const GenerateRun& run) {
  std::map<std::string, size_t> by_status, errors;
  size_t sent = 0, ok = 0, left = 0;
  for (const GenerateSample& sample : run.samples) {
    if (sample.intended_ns < run.measured_from_ns) continue;
    ++sent;
    ok += sample.is_ok();
    left += sample.leaves_half_way;
    if (sample.status != 0) ++by_status[std::to_string(sample.status)];
    if (!sample.error.empty()) ++errors[sample.error];
  }
  return {{"sent", sent}, {"ok", ok}, {"left", left}, {"by_status", by_status}, {"errors", errors}};
}

nlohmann::json SlowestJson(const GenerateRun& run, size_t count) {
  std::vector<const GenerateSample*> samples;
  for (const GenerateSample& sample : run.samples) {
    if (sample.intended_ns >= run.measured_from_ns) samples.push_back(&sample);
  }
  std::stable_sort(samples.begin(), samples.end(),
                   [](const auto* a, const auto* b) { return a->total_ns() > b->total_ns(); });
  samples.resize(std::min(count, samples.size()));
  nlohmann::json slowest = nlohmann::json::array();
  for (const GenerateSample* sample : samples) {
    slowest.push_back({{"id", sample->id},
                       {"total_ms", Ms(sample->total_ns())},
                       {"ttft_ms", Ms(sample->first_token_ns())},
                       {"longest_gap_ms", Ms(sample->longest_gap_ns())},
                       {"prompt_length", sample->prompt_length},
                       {"tokens", sample->token_ns.size()},
                       {"status", sample->status},
                       {"intended_ns", sample->intended_ns},
                       {"is_long", sample->is_long},
                       {"is_burst", sample->is_burst}});
  }
  return slowest;
}

}  // namespace

std::string ToJson(const Options& options, const GenerateRun& run) {
  const Times times = TimesOf(run);
  nlohmann::json json;
  json["options"] = {{"rate", options.arrivals.rate},
                     {"concurrency", options.concurrency},
                     {"duration_s", options.arrivals.duration_s - options.warm_up_s},
                     {"warm_up_s", options.warm_up_s},
                     {"burst", options.arrivals.burst},
                     {"burst_every_s", options.arrivals.burst_every_s},
                     {"prompt_mean", options.prompt.mean},
                     {"prompt_max", options.prompt.most},
                     {"output_mean", options.output.mean},
                     {"output_max", options.output.most},
                     {"long_share", options.arrivals.big_share},
                     {"long_prompt", options.long_prompt},
                     {"cancel_share", options.cancel_share},
                     {"seed", options.arrivals.seed}};
  json["clock"] = {{"begin_ns", run.begin_ns}, {"measured_from_ns", run.measured_from_ns}, {"end_ns", run.end_ns}};
  json["requests"] = RequestsJson(run);
  json["throughput_per_s"] = static_cast<double>(times.total.size()) / MeasuredSeconds(run);
  json["tokens_per_s"] = static_cast<double>(times.tokens) / MeasuredSeconds(run);
  json["ttft_ms"] = Distribution(times.first_token);
  json["gap_ms"] = Distribution(times.gap);
  json["longest_gap_ms"] = Distribution(times.longest_gap);
  json["total_ms"] = Distribution(times.total);
  json["send_lag_ms"] = Distribution(times.send_lag);
  json["slowest"] = SlowestJson(run, options.slowest);
  return json.dump(1);
}

std::string ToFaultLog(const Options& options, const GenerateRun& run) {
  std::string lines;
  const auto add = [&lines](const GenerateSample& sample, const char* fault, const std::string& more) {
    lines += "{\"time_ns\":" + std::to_string(sample.intended_ns) + ",\"request\":\"" + sample.id + "\",\"fault\":\"" +
             fault + "\",\"injected_ns\":0," + more + "}\n";
  };
  for (const GenerateSample& sample : run.samples) {
    if (sample.id.empty()) continue;
    if (sample.is_burst) add(sample, "bursts", "\"requests\":" + std::to_string(options.arrivals.burst));
    if (sample.is_long) add(sample, "bigger_input", "\"prompt_tokens\":" + std::to_string(sample.prompt_length));
  }
  return lines;
}

std::string ToText(const GenerateRun& run) {
  const Times times = TimesOf(run);
  char text[384];
  std::snprintf(
      text, sizeof text,
      "%zu requests, %zu with all their tokens, %.1f/s, %.0f tokens/s; ms: first token p50 %.1f  p99 %.1f  "
      "gap p50 %.1f  p99 %.1f  total p50 %.0f  p99 %.0f  max %.0f\n",
      times.send_lag.size(), times.total.size(), static_cast<double>(times.total.size()) / MeasuredSeconds(run),
      static_cast<double>(times.tokens) / MeasuredSeconds(run), Ms(Percentile(times.first_token, 0.5)),
      Ms(Percentile(times.first_token, 0.99)), Ms(Percentile(times.gap, 0.5)), Ms(Percentile(times.gap, 0.99)),
      Ms(Percentile(times.total, 0.5)), Ms(Percentile(times.total, 0.99)), Ms(Percentile(times.total, 1)));
  return text;
}

}  // namespace load_generator
