// SPDX-License-Identifier: Apache-2.0
#include "load_generator/results.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <numeric>

#include <nlohmann/json.hpp>

#include "load_generator/percentile.h"

namespace load_generator {
namespace {

std::vector<const Sample*> Measured(const Run& run) {
  std::vector<const Sample*> samples;
  for (const Sample& sample : run.samples) {
    if (sample.intended_ns >= run.measured_from_ns) samples.push_back(&sample);
  }
  return samples;
}

std::vector<uint64_t> SortedLatencies(const std::vector<const Sample*>& samples) {
  std::vector<uint64_t> latencies;
  for (const Sample* sample : samples) {
    if (sample->status == 200) latencies.push_back(sample->latency_ns());
  }
  std::sort(latencies.begin(), latencies.end());
  return latencies;
}

double MeanMs(const std::vector<uint64_t>& latencies) {
  if (latencies.empty()) return 0;
  return Ms(std::accumulate(latencies.begin(), latencies.end(), uint64_t{0})) / static_cast<double>(latencies.size());
}

double MeasuredSeconds(const Run& run) { return static_cast<double>(run.end_ns - run.measured_from_ns) * 1e-9; }

nlohmann::json OptionsJson(const Options& options) {
  return {{"loop", options.is_closed_loop ? "closed" : "open"},
          {"rate", options.arrivals.rate},
          {"concurrency", options.concurrency},
          {"duration_s", options.arrivals.duration_s - options.warm_up_s},
          {"warm_up_s", options.warm_up_s},
          {"burst", options.arrivals.burst},
          {"burst_every_s", options.arrivals.burst_every_s},
          {"image_size", options.image_size},
          {"big_share", options.arrivals.big_share},
          {"big_size", options.big_size},
          {"seed", options.arrivals.seed}};
}

nlohmann::json RequestsJson(const std::vector<const Sample*>& samples) {
  std::map<std::string, size_t> by_status, errors;
  size_t ok = 0;
  for (const Sample* sample : samples) {
    if (sample->status == 0) {
      ++errors[sample->error];
    } else {
      ++by_status[std::to_string(sample->status)];
      ok += sample->status == 200;
    }
  }
  return {{"sent", samples.size()}, {"ok", ok}, {"by_status", by_status}, {"errors", errors}};
}

nlohmann::json SendLagJson(const std::vector<const Sample*>& samples) {
  std::vector<uint64_t> lags;
  for (const Sample* sample : samples) lags.push_back(sample->sent_ns - sample->intended_ns);
  std::sort(lags.begin(), lags.end());
  return {{"p50", Ms(Percentile(lags, 0.5))}, {"p99", Ms(Percentile(lags, 0.99))}, {"max", Ms(Percentile(lags, 1))}};
}

nlohmann::json TimelineJson(const std::vector<const Sample*>& samples, uint64_t from_ns) {
  std::map<uint64_t, std::vector<const Sample*>> by_second;
  for (const Sample* sample : samples) by_second[(sample->intended_ns - from_ns) / 1'000'000'000u].push_back(sample);
  nlohmann::json timeline = nlohmann::json::array();
  for (const auto& [second, of_second] : by_second) {
    const std::vector<uint64_t> latencies = SortedLatencies(of_second);
    timeline.push_back({{"second", second},
                        {"arrivals", of_second.size()},
                        {"ok", latencies.size()},
                        {"p50_ms", Ms(Percentile(latencies, 0.5))},
                        {"p99_ms", Ms(Percentile(latencies, 0.99))},
                        {"max_ms", Ms(Percentile(latencies, 1))}});
  }
  return timeline;
}

nlohmann::json SlowestJson(std::vector<const Sample*> samples, uint64_t from_ns, size_t count) {
  const auto end = samples.begin() + static_cast<std::ptrdiff_t>(std::min(count, samples.size()));
  std::partial_sort(samples.begin(), end, samples.end(),
                    [](const Sample* a, const Sample* b) { return a->latency_ns() > b->latency_ns(); });
  nlohmann::json slowest = nlohmann::json::array();
  for (auto at = samples.begin(); at != end; ++at) {
    const Sample& sample = **at;
    slowest.push_back({{"id", sample.id},
                       {"latency_ms", Ms(sample.latency_ns())},
                       {"status", sample.status},
                       {"second", static_cast<double>(sample.intended_ns - from_ns) * 1e-9},
                       {"intended_ns", sample.intended_ns},
                       {"is_big", sample.is_big},
                       {"is_burst", sample.is_burst}});
  }
  return slowest;
}

}  // namespace

std::string ToJson(const Options& options, const Run& run) {
  const std::vector<const Sample*> samples = Measured(run);
  const std::vector<uint64_t> latencies = SortedLatencies(samples);
  nlohmann::json json;
  json["options"] = OptionsJson(options);
  json["clock"] = {{"begin_ns", run.begin_ns}, {"measured_from_ns", run.measured_from_ns}, {"end_ns", run.end_ns}};
  json["requests"] = RequestsJson(samples);
  json["throughput_per_s"] = static_cast<double>(latencies.size()) / MeasuredSeconds(run);
  json["latency_ms"] = {{"count", latencies.size()},
                        {"mean", MeanMs(latencies)},
                        {"p50", Ms(Percentile(latencies, 0.5))},
                        {"p90", Ms(Percentile(latencies, 0.9))},
                        {"p95", Ms(Percentile(latencies, 0.95))},
                        {"p99", Ms(Percentile(latencies, 0.99))},
                        {"p999", Ms(Percentile(latencies, 0.999))},
                        {"max", Ms(Percentile(latencies, 1))}};
  json["send_lag_ms"] = SendLagJson(samples);
  json["timeline"] = TimelineJson(samples, run.measured_from_ns);
  json["slowest"] = SlowestJson(samples, run.measured_from_ns, options.slowest);
  if (options.list_latencies) {
    nlohmann::json all = nlohmann::json::array();
    for (const Sample* sample : samples) {
      if (sample->status == 200) all.push_back(Ms(sample->latency_ns()));
    }
    json["latencies_ms"] = std::move(all);
  }
  return json.dump(1);
}

std::string ToFaultLog(const Options& options, const Run& run) {
  std::string lines;
  const auto add = [&lines](const Sample& sample, const char* fault, const std::string& more) {
    lines += "{\"time_ns\":" + std::to_string(sample.intended_ns) + ",\"request\":\"" + sample.id + "\",\"fault\":\"" +
             fault + "\",\"injected_ns\":0," + more + "}\n";
  };
  for (const Sample& sample : run.samples) {
    if (sample.id.empty()) continue;
    if (sample.is_burst) add(sample, "bursts", "\"requests\":" + std::to_string(options.arrivals.burst));
    if (sample.is_big) add(sample, "bigger_input", "\"pixels\":" + std::to_string(options.big_size * options.big_size));
  }
  return lines;
}

std::string ToText(const Run& run) {
  const std::vector<const Sample*> samples = Measured(run);
  const std::vector<uint64_t> latencies = SortedLatencies(samples);
  char text[256];
  std::snprintf(text, sizeof text,
                "%zu requests, %zu ok, %.1f/s; latency ms: mean %.2f  p50 %.2f  p95 %.2f  p99 %.2f  max %.2f\n",
                samples.size(), latencies.size(), static_cast<double>(latencies.size()) / MeasuredSeconds(run),
                MeanMs(latencies), Ms(Percentile(latencies, 0.5)), Ms(Percentile(latencies, 0.95)),
                Ms(Percentile(latencies, 0.99)), Ms(Percentile(latencies, 1)));
  return text;
}

}  // namespace load_generator
