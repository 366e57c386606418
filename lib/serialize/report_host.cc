// SPDX-License-Identifier: Apache-2.0
#include "serialize/report_host.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace pitot::report {
namespace {

using base::Count;
using base::Duration;
using base::Format;
using base::PadLeft;
using base::PadRight;

constexpr size_t kMaxHostThreads = 8;
constexpr double kLeastStolen = 0.01;  // share of the CPUs' time; less is normal with neighbours
constexpr int64_t kEdgeNs =
    1'000'000;  // threads read their CPU time where requests and batches begin or end, within this
constexpr double kStolenEveryNs = 1e9;  // read once a second: a shorter window may have a whole second's

std::string Number(const std::optional<double>& value) {
  return value ? Count(static_cast<uint64_t>(*value)) : std::string("-");
}
std::string Time(const std::optional<double>& ns) {
  return ns ? Duration(static_cast<int64_t>(*ns)) : std::string("-");
}

}  // namespace

HostReport::HostReport(const model::Trace& trace) : trace_(trace), parts_(trace), of_threads_(parts_.OfThreads()) {
  for (uint32_t row = 0; row < trace.counters.size(); ++row) {
    const std::string_view name = trace.strings[trace.counters[row].name];
    if (base::IsHostCounter(parts_.Split(name).own)) counters_.emplace(name, row);
  }
}

std::pair<uint32_t, uint32_t> HostReport::SamplesOf(const std::string& name) const {
  const auto counter = counters_.find(name);
  if (counter == counters_.end()) return {0, 0};
  const std::vector<uint32_t>& of = trace_.samples.counter;
  const auto [first, last] = std::equal_range(of.begin(), of.end(), counter->second);
  return {static_cast<uint32_t>(first - of.begin()), static_cast<uint32_t>(last - of.begin())};
}

std::optional<HostReport::Values> HostReport::Of(const std::string& name) const {
  const auto [from, to] = SamplesOf(name);
  if (from == to) return std::nullopt;
  const double* const values = trace_.samples.value.data();
  const auto [least, most] = std::minmax_element(values + from, values + to);
  const int64_t span_ns = trace_.samples.at_ns[to - 1] - trace_.samples.at_ns[from];
  return Values{values[from], values[to - 1], *least, *most, span_ns};
}

std::optional<int64_t> HostReport::CpuNs(uint32_t thread, const model::Intervals& times) const {
  const auto [first, last] = SamplesOf(ThreadCounter(thread, base::kOnCpu));
  if (first == last) return std::nullopt;
  const int64_t* const read_ns = trace_.samples.at_ns.data();
  const double* const values = trace_.samples.value.data();
  const auto value_at = [&, from = first, to = last](int64_t at_ns) {
    const auto after = static_cast<uint32_t>(std::upper_bound(read_ns + from, read_ns + to, at_ns) - read_ns);
    if (after == from) return values[from];
    if (after == to) return values[to - 1];
    const double share =
        static_cast<double>(at_ns - read_ns[after - 1]) / static_cast<double>(read_ns[after] - read_ns[after - 1]);
    return values[after - 1] + share * (values[after] - values[after - 1]);
  };
  double grew = 0;
  for (const model::Interval& time : times) {
    if (time.begin_ns < read_ns[first] - kEdgeNs || time.end_ns > read_ns[last - 1] + kEdgeNs) return std::nullopt;
    grew += value_at(time.end_ns) - value_at(time.begin_ns);
  }
  return static_cast<int64_t>(std::max(0.0, grew));
}

// "the hypervisor took 240 ms of the machine's 2 CPUs, 1.2 % of their time". Older dumps lack host.cpus, the number of
// CPUs; the share is then that of one CPU.
std::string HostReport::Stolen(uint32_t part) const {
  const std::optional<Values> of = OfHost(part, base::kStolenTime);
  const double window_ns = of ? std::max(kStolenEveryNs, WindowNs(*of)) : kStolenEveryNs;
  const std::string said(parts_.AttributeOf(part, base::kCpusAttribute));
  const int64_t cpus = std::clamp(std::strtol(said.c_str(), nullptr, 10), 0L, 1L << 20);
  const double share = of ? of->Growth() / (window_ns * static_cast<double>(std::max<int64_t>(1, cpus))) : 0;
  if (!(share >= kLeastStolen)) return "";
  const std::string took = "the hypervisor took " + Time(of->Growth()) + " of the machine's ";
  if (cpus == 0) return took + "CPUs (their number is not recorded)";
  return took + base::Plural(static_cast<uint64_t>(cpus), "CPU") + Format(", %.1f %% of their time", 100 * share);
}

// "CPU 3.2 %", "I/O 0.5 % (all threads 0.1 %)".
std::string HostReport::Pressure(uint32_t part, const char* shown, const base::CounterName& some,
                                 const base::CounterName* full) const {
  const std::optional<Values> of = OfHost(part, some), of_all = full != nullptr ? OfHost(part, *full) : std::nullopt;
  const double window_ns = of ? WindowNs(*of) : 0;
  if (window_ns <= 0) return "";
  std::string text = shown + Format(" %.1f %%", 100 * of->Growth() / window_ns);
  if (of_all) text += Format(" (all at once %.1f %%)", 100 * of_all->Growth() / window_ns);
  return text;
}

void HostReport::Write(size_t indent, base::Lines* lines) const {
  for (const uint32_t part : parts_.All()) {
    const auto is_of_part = [&](const auto& counter) { return parts_.Split(counter.first).part == part; };
    if (std::none_of(counters_.begin(), counters_.end(), is_of_part)) continue;
    if (parts_.is_joined()) lines->Add(indent, "host of    " + std::string(parts_[part].name));
    WritePart(part, indent, lines);
  }
}

void HostReport::WritePart(uint32_t part, size_t indent, base::Lines* lines) const {
  const auto growth = [&](const base::CounterName& what) {
    const std::optional<Values> values = OfHost(part, what);
    return values ? std::optional<double>(values->Growth()) : std::nullopt;
  };
  if (const auto voluntary = growth(base::kVoluntary)) {
    lines->AddWrapped(indent, "process    ",
                      "went to sleep " + Number(voluntary) + " times, lost its CPU " +
                          Number(growth(base::kInvoluntary)) + " times; " + Number(growth(base::kMajorFaults)) +
                          " page faults waited for a disk, " + Number(growth(base::kMinorFaults)) + " did not");
  }
  if (const auto throttled = growth(base::kThrottledTime)) {
    lines->AddWrapped(indent, "CPU quota  ",
                      *throttled > 0 ? "throttled for " + Time(throttled) + " in " +
                                           Number(growth(base::kThrottledPeriods)) + " periods"
                                     : "not throttled");
  }
  if (const std::string stolen = Stolen(part); !stolen.empty()) lines->AddWrapped(indent, "stolen     ", stolen);
  std::string pressure;
  for (const std::string& one : {Pressure(part, "CPU", base::kCpuPressure, nullptr),
                                 Pressure(part, "I/O", base::kIoPressure, &base::kIoPressureFull),
                                 Pressure(part, "memory", base::kMemoryPressure, &base::kMemoryPressureFull)}) {
    if (!one.empty()) pressure += (pressure.empty() ? "" : ", ") + one;
  }
  if (!pressure.empty())
    lines->AddWrapped(indent, "pressure   ", pressure + " of the window, with waiting tasks anywhere on the machine");
  if (const auto resident = OfHost(part, base::kResident)) {
    const auto text = [](double bytes) { return base::Bytes(static_cast<uint64_t>(bytes)); };
    lines->AddWrapped(
        indent, "memory     ",
        text(resident->last) + " resident (" + text(resident->least) + ".." + text(resident->most) + " in the window)");
  }
  if (const auto mean = OfHost(part, base::kCpuFrequency)) {
    std::string text = Format("mean %.0f MHz (%.0f..%.0f)", mean->last, mean->least, mean->most);
    if (const auto least = OfHost(part, base::kLeastCpuFrequency))
      text += Format(", the lowest CPU's %.0f MHz", least->least);
    lines->AddWrapped(indent, "CPU clocks ", text);
  }
  Threads(part, indent, lines);
}

void HostReport::Threads(uint32_t part, size_t indent, base::Lines* lines) const {
  struct Row {
    uint32_t thread;
    std::optional<double> delay, cpu, voluntary, involuntary, major;
  };
  std::vector<Row> rows;
  for (uint32_t thread = 0; thread < trace_.threads.size(); ++thread) {
    if (of_threads_[thread] != part) continue;
    const auto growth = [&](const base::CounterName& what) {
      const std::optional<Values> values = Of(ThreadCounter(thread, what));
      return values ? std::optional<double>(values->Growth()) : std::nullopt;
    };
    const Row row = {thread,
                     growth(base::kRunQueueDelay),
                     growth(base::kOnCpu),
                     growth(base::kVoluntary),
                     growth(base::kInvoluntary),
                     growth(base::kMajorFaults)};
    if (row.cpu) rows.push_back(row);
  }
  if (rows.empty()) return;
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.delay.value_or(0) > b.delay.value_or(0); });
  lines->Add(indent, PadRight("threads, by wait for a CPU", 34) + PadLeft("run queue", 11) + PadLeft("on CPU", 11) +
                         PadLeft("slept", 9) + PadLeft("lost CPU", 10) + PadLeft("disk faults", 13));
  for (size_t i = 0; i < std::min(rows.size(), kMaxHostThreads); ++i) {
    const Row& row = rows[i];
    const model::ThreadRow& thread = trace_.threads[row.thread];
    const std::string name = std::string(trace_.strings[thread.name]) + " #" + std::to_string(thread.number);
    lines->Add(indent, PadRight(name, 34) + PadLeft(Time(row.delay), 11) + PadLeft(Time(row.cpu), 11) +
                           PadLeft(Number(row.voluntary), 9) + PadLeft(Number(row.involuntary), 10) +
                           PadLeft(Number(row.major), 13));
  }
  if (rows.size() > kMaxHostThreads)
    lines->Add(indent, "and " + base::Plural(rows.size() - kMaxHostThreads, "thread") + " more");
}

}  // namespace pitot::report
