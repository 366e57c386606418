// SPDX-License-Identifier: Apache-2.0
//
// Traces recorded by others, and the numbers of the recorders' own tools: every value must be the same to the last
// digit that the other tool prints. The traces are not in this repository: PITOT_PUBLIC_TRACES (environment or CMake)
// names their folder; without it the test is skipped.
//
// Prints every value. Exits with 1 if one differs, with 77 if there is no folder.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "peers/catalogue.h"
#include "pitot/analyze/analyze.h"
#include "pitot/read/kineto.h"

namespace {

using pitot::analyze::AnalysisReport;
using pitot::analyze::MeasureRow;
using pitot::peers::MakeHtaCatalogue;
using pitot::peers::MakeTbPluginCatalogue;
using pitot::peers::MakeTraceLensCatalogue;

// A measure times `factor`, as the tool prints it.
struct Value {
  const char* analyzer;
  const char* measure;
  const char* subject;
  double factor;
  const char* expected;
};
struct Case {
  const char* file;
  std::vector<std::unique_ptr<pitot::Analyzer>> (*make)();
  std::vector<Value> values;
};

constexpr double kUs = 1e-3, kMs = 1e-6, kPercent = 100, kOne = 1;

// HTA's values: its temporal breakdown in us, and launches.
std::vector<Value> Hta(const char* kernel, const char* idle, const char* compute, const char* non_compute,
                       std::vector<Value> more) {
  std::vector<Value> values = {{"a01", "kernel_time", "all", kUs, kernel},
                               {"a01", "idle", "all", kUs, idle},
                               {"a01", "compute", "all", kUs, compute},
                               {"a01", "non_compute", "all", kUs, non_compute}};
  values.insert(values.end(), more.begin(), more.end());
  return values;
}
std::vector<Value> HtaLaunches(const char* launches, const char* short_ones, const char* slow_calls,
                               const char* slow_launches, const char* mean_delay, const char* queue_mean,
                               const char* queue_most, std::vector<Value> more = {}) {
  std::vector<Value> values = {
      {"a10", "launches", "all", kOne, launches},     {"a10", "shorter_than_call", "all", kOne, short_ones},
      {"a10", "slow_calls", "all", kOne, slow_calls}, {"a10", "slow_launches", "all", kOne, slow_launches},
      {"a10", "mean_delay", "all", kUs, mean_delay},  {"a11", "mean_of_changes", "stream 7", kOne, queue_mean},
      {"a11", "most", "stream 7", kOne, queue_most}};
  values.insert(values.end(), more.begin(), more.end());
  return values;
}
// HTA's values of its stream 7.
std::vector<Value> HtaIdle(const char* host_wait, const char* kernel_wait, const char* other,
                           std::vector<Value> more = {}) {
  std::vector<Value> values = {{"a04", "host_wait", "stream 7", kUs, host_wait},
                               {"a04", "kernel_wait", "stream 7", kUs, kernel_wait},
                               {"a04", "other", "stream 7", kUs, other}};
  values.insert(values.end(), more.begin(), more.end());
  return values;
}
std::vector<Value> HtaOverlap(const char* overlap) { return {{"a01", "overlap", "all", kPercent, overlap}}; }
std::vector<Value> TraceLens(const char* total, const char* busy, const char* idle) {
  return {{"a01", "total", "all", kMs, total},
          {"a01", "busy", "all", kMs, busy},
          {"a01", "idle_share", "all", kPercent, idle}};
}

const std::vector<Case>& Cases() {
  static const std::vector<Case> kCases = {
      {"hta_alexnet.json.gz", MakeHtaCatalogue,
       Hta("12996011", "12929684", "10630", "55697",
           HtaLaunches(
               "98", "23", "11", "43", "400.847", "3.346", "18",
               {{"a11", "mean_of_changes", "stream 20", kOne, "0.643"}, {"a11", "most", "stream 20", kOne, "2"}}))},
      {"hta_simple_add.json.gz", MakeHtaCatalogue,
       Hta("16464339", "16414376", "10670", "39293", HtaLaunches("98", "29", "10", "22", "104.735", "0.918", "5"))},
      {"hta_ns_resolution.json.gz", MakeHtaCatalogue,
       Hta("480029", "12143", "464915", "2971",
           HtaLaunches("6095", "2661", "921", "5932", "68686.106", "847.049", "1022", HtaIdle("1709", "10434", "0")))},
      {"hta_nccl.json.gz", MakeHtaCatalogue,
       Hta("660550", "506512", "113012", "41026",
           HtaLaunches("3774", "2023", "1", "267", "28.343", "0.817", "10",
                       HtaIdle("542749", "3224", "0", HtaOverlap("15.14"))))},
      {"hta_diff_control.json.gz", MakeHtaCatalogue,
       Hta("464594", "76007", "281336", "107251",
           HtaLaunches("9450", "3674", "30", "6098", "2122.421", "36.366~", "288",
                       HtaIdle("133311", "17152", "32751", HtaOverlap("46.24"))))},
      {"hta_diff_test.json.gz", MakeHtaCatalogue,
       Hta("744514", "51692", "514576", "178246",
           HtaLaunches("9972", "5449", "84", "9774", "39055.626", "544.631~", "1013",
                       HtaIdle("2960", "51853", "48809", HtaOverlap("69.07"))))},
      {"kineto_resnet50_workers0.pt.trace.json.gz", MakeHtaCatalogue,
       Hta("996477", "392919", "591532", "12026",
           HtaLaunches("9096", "5742", "6", "7267", "11018.198", "155.319", "569", HtaIdle("382676", "10243", "0")))},
      {"kineto_resnet50_workers4.pt.trace.json.gz", MakeHtaCatalogue,
       Hta("801550", "187137", "594868", "19545",
           HtaLaunches("9258", "6069", "7", "7010", "5862.010", "105.953", "522", HtaIdle("175026", "10642", "1469")))},
      {"kineto_resnet50_workers0.pt.trace.json.gz",
       MakeTbPluginCatalogue,
       {{"a01", "step", "all", kUs, "177592"},
        {"a01", "kernel", "all", kUs, "98589"},
        {"a01", "kernel_share", "all", kPercent, "55.51"},
        {"a01", "memcpy", "all", kUs, "1915"},
        {"a01", "memset", "all", kUs, "89"},
        {"a01", "runtime", "all", kUs, "2908"},
        {"a01", "dataloader", "all", kUs, "59262"},
        {"a01", "dataloader_share", "all", kPercent, "33.37"},
        {"a01", "cpu_exec", "all", kUs, "13674"},
        {"a01", "other", "all", kUs, "1156"},
        {"a03", "utilisation", "GPU 0", kPercent, "55.51"},
        {"a03", "efficiency", "GPU 0", kPercent, "54.68"},
        {"a03", "occupancy", "GPU 0", kPercent, "49.13"},
        {"a05", "input_bound", "all", kOne, "1"}}},
      {"kineto_resnet50_workers4.pt.trace.json.gz",
       MakeTbPluginCatalogue,
       {{"a01", "step", "all", kUs, "141068"},
        {"a01", "kernel", "all", kUs, "99145"},
        {"a01", "kernel_share", "all", kPercent, "70.28"},
        {"a01", "runtime", "all", kUs, "10564"},
        {"a01", "dataloader", "all", kUs, "1186"},
        {"a01", "dataloader_share", "all", kPercent, "0.84"},
        {"a01", "cpu_exec", "all", kUs, "22665"},
        {"a01", "other", "all", kUs, "4251"},
        {"a03", "utilisation", "GPU 0", kPercent, "70.27"},
        {"a03", "efficiency", "GPU 0", kPercent, "69.22"},
        {"a03", "occupancy", "GPU 0", kPercent, "48.91"},
        {"a05", "input_bound", "all", kOne, "0"}}},
      {"tracelens_h100_bert_small.json.gz", MakeTraceLensCatalogue, TraceLens("3.907825", "0.309438", "92.0816")},
      {"tracelens_h100_falconsai.json.gz", MakeTraceLensCatalogue, TraceLens("7.559844", "1.225309", "83.7919")},
      {"tracelens_h100_timesformer.json.gz", MakeTraceLensCatalogue, TraceLens("159.992427", "158.433173", "0.9746")},
      {"tracelens_mi300_falconsai.json.gz", MakeTraceLensCatalogue, TraceLens("6.868849", "1.716299", "75.0133")},
      {"tracelens_sglang_decode.json.gz", MakeTraceLensCatalogue, TraceLens("473.749943", "9.772929", "97.9371")},
      {"tracelens_sglang_prefill_decode.json.gz", MakeTraceLensCatalogue,
       TraceLens("987.288887", "492.806864", "50.0848")},
  };
  return kCases;
}

// Whether they are the same or, if `expected` ends in "~", differ by at most one in their last digit. HTA's results for
// things of the same us depend on their order in the file, and the model does not keep that.
bool IsSame(const std::string& got, std::string expected) {
  if (expected.back() != '~') return got == expected;
  expected.pop_back();
  return std::abs(std::atof(got.c_str()) - std::atof(expected.c_str())) < 0.0011;
}

// Prints as many digits after the point as `like` has.
std::string Print(double value, const std::string& like) {
  const size_t point = like.find('.');
  const size_t end = std::min(like.find('~'), like.size());
  const int digits = point == std::string::npos ? 0 : static_cast<int>(end - point - 1);
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

int Compare(const Case& of, const AnalysisReport& report) {
  int wrong = 0;
  for (const Value& value : of.values) {
    const MeasureRow* const measure = report.Find(value.analyzer, value.measure, value.subject);
    const std::string got = measure == nullptr ? "missing" : Print(measure->value * value.factor, value.expected);
    const bool is_same = IsSame(got, value.expected);
    wrong += !is_same;
    std::printf("%-9s %-45s %s %-18s %-9s %15s %15s\n", is_same ? "same" : "DIFFERENT", of.file, value.analyzer,
                value.measure, value.subject, value.expected, got.c_str());
  }
  return wrong;
}

}  // namespace

int main() {
  const char* const named = std::getenv("PITOT_PUBLIC_TRACES");
  const std::filesystem::path folder = named != nullptr && *named != 0 ? named : PITOT_PUBLIC_TRACES;
  if (folder.empty() || !std::filesystem::is_directory(folder)) {
    std::printf("skipped: PITOT_PUBLIC_TRACES names no folder of traces\n");
    return 77;
  }
  int wrong = 0, values = 0;
  for (const Case& of : Cases()) {
    pitot::model::Trace trace;
    pitot::KinetoReport read;
    AnalysisReport report;
    pitot::Status status = pitot::ReadKineto(folder / of.file, &trace, &read);
    if (status.ok()) status = Analyze(trace, of.make(), {}, &report);
    if (!status.ok()) std::printf("%s: %s\n", of.file, status.message());
    wrong += Compare(of, report);
    values += static_cast<int>(of.values.size());
  }
  std::printf("%d values, %d different\n", values, wrong);
  return wrong == 0 ? 0 : 1;
}
