// SPDX-License-Identifier: Apache-2.0
#include "collect/cuda_events/history.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <new>
#include <span>
#include <string>
#include <tuple>

#include "trace/last_rows.h"
#include "trace/names.h"

namespace pitot::cuda_events {

namespace {

// The rows of one trace, each made for its first span.
class Rows {
 public:
  explicit Rows(TraceBuilder* trace) : trace_(*trace) {}

  uint32_t Device(uint32_t ordinal, const char* name) {
    const auto [row, is_new] = devices_.try_emplace(ordinal, kNoRow);
    if (is_new) {
      GpuDevice device;
      device.ordinal = ordinal;
      if (name[0] != '\0') device.name = trace_.AddText(name);
      row->second = trace_.AddDevice(device);
    }
    return row->second;
  }
  uint32_t Stream(const Span& span) {
    const auto [row, is_new] = streams_.try_emplace({span.device, span.context, span.stream}, kNoRow);
    if (is_new) row->second = trace_.AddStream(Device(span.device, ""), span.context, span.stream);
    return row->second;
  }
  uint32_t Name(uint32_t name) {
    const auto [text, is_new] = names_.try_emplace(name, 0);
    if (is_new) text->second = trace_.AddText(std::string(trace::NameText(name)).c_str());
    return text->second;
  }

 private:
  TraceBuilder& trace_;
  std::map<uint32_t, uint32_t> devices_, names_;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, uint32_t> streams_;
};

}  // namespace

void History::NameDevice(uint32_t device, const char* name) noexcept {
  const base::MutexLock lock(&mutex_);
  for (Device& known : devices_) {
    if (known.name[0] != '\0' && known.ordinal != device) continue;
    known.ordinal = device;
    std::strncpy(known.name, name, sizeof known.name - 1);
    return;
  }
}

void History::Add(const Span& span) noexcept {
  spans_.Add(span);
  if (!trace::AreLastRowsKept()) return;
  const trace::LastWork row{span.begin_ns,    span.duration_ns,      0,
                            span.device,      span.context,          span.stream,
                            span.correlation, LastTextOf(span.name), static_cast<uint32_t>(GpuKind::kSpan)};
  trace::AddLast({&row, 1});
}

uint32_t History::LastTextOf(uint32_t name) noexcept try {
  const auto [text, is_new] = last_texts_.try_emplace(name, 0);
  return is_new ? text->second = trace::LastText(trace::NameText(name)) : text->second;
} catch (const std::bad_alloc&) {
  return 0;
}

void History::AddTo(TraceBuilder& trace) const {
  Rows rows(&trace);
  const std::span<const Span> kept = spans_.kept();
  {
    const base::MutexLock lock(&mutex_);
    for (const Device& device : devices_) {
      if (device.name[0] != '\0' && !kept.empty()) rows.Device(device.ordinal, device.name);
    }
  }
  uint32_t error_us = 0;
  for (auto span = kept.rbegin(); span != kept.rend(); ++span) {  // newest first
    GpuActivity activity;
    activity.begin_ns = span->begin_ns;
    activity.duration_ns = span->duration_ns;
    activity.kind = GpuKind::kSpan;
    activity.stream = rows.Stream(*span);
    activity.name = rows.Name(span->name);
    activity.correlation = span->correlation;
    trace.Add(activity);
    error_us = std::max(error_us, span->error_us);
  }
  if (!kept.empty()) trace.AddAttribute("cuda_events.clock_error_us", std::to_string(error_us).c_str());
  if (spans_.lost_until_ns() != 0)
    trace.AddAttribute("cuda_events.overwritten",
                       "the window's oldest spans: CudaEventOptions::memory_bytes is too small");
}

}  // namespace pitot::cuda_events
