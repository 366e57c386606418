// SPDX-License-Identifier: Apache-2.0
#include "read/xla_rows.h"

#include <algorithm>
#include <vector>

#include "pitot/model/classes.h"
#include "read/xla_details.h"

namespace pitot::read {
namespace {

constexpr std::string_view kDevicePrefix = "/device:", kStreamPrefix = "Stream #";

}  // namespace

void XlaRows::ForgetNames() {
  planes_.clear();
  lines_.clear();
  with_streams_.clear();
}

void XlaRows::NamePlane(int64_t plane, std::string_view name) {
  planes_[plane] = name;
  builder_.NameProcess(plane, name);
}

void XlaRows::NameLine(int64_t plane, int64_t line, std::string_view name) {
  lines_[{plane, line}] = {std::string(name), name.starts_with(kStreamPrefix)};
  builder_.NameThread(plane, line, name);
  if (name.starts_with(kStreamPrefix)) with_streams_.insert(plane);
}

void XlaRows::Take(int64_t plane, int64_t line, const ChromeEvent& event) {
  const TraceBuilder::Span span = {*event.begin_ns, *event.duration_ns};
  const auto name = planes_.find(plane);
  if (name != planes_.end() && name->second.starts_with(kDevicePrefix)) {
    TakeOnDevice(event, span, *name, &lines_[{plane, line}]);
  } else {
    TakeOnHost(event, span, builder_.Thread(plane, line));
  }
}

void XlaRows::Finish() {
  builder_.Finish(!report_.complete);
  // A plane is not a process.
  trace_.pid = 0;
  trace_.process_name = 0;
  trace_.attributes.push_back({trace_.strings.Add(model::kStepArgumentKey), trace_.strings.Add("step_num")});
  report_.counts = {{"unused", unused_}, {"derived", derived_}, {"gpu", gpu_}};
  builder_.ReportTimes(&report_);
  if (gpu_ == 0) report_.lacks.push_back("GPU work (the file has no stream of a device)");
}

// On a CPU, XLA's operations run on threads.
void XlaRows::TakeOnHost(const ChromeEvent& event, const TraceBuilder::Span& span, uint32_t thread) {
  const int64_t correlation = event.Number("correlation_id", 0);
  if (correlation > 0 && (event.name.starts_with("cu") || event.name.starts_with("hip"))) {
    builder_.AddCall(thread, span, event.name, correlation);
    return;
  }
  const bool is_operation = event.Find("hlo_op") != nullptr;
  const std::vector<ChromeValue>* args = &event.args;
  if (event.Find("_src") != nullptr) {
    args_ = event.args;
    std::erase_if(args_, [](const ChromeValue& arg) { return arg.key == "_src"; });
    args = &args_;
  }
  const size_t known = trace_.sites.size();
  const uint32_t site = builder_.Site(is_operation ? SiteKind::kOperator : SiteKind::kScope, event.name, *args);
  if (site == known) SetPlace(site, event.name);
  builder_.AddEvent(thread, site, span, *args);
}

// A Python function is called "$file.py:12 name".
void XlaRows::SetPlace(uint32_t site, std::string_view name) {
  const size_t space = name.find(' '), colon = name.rfind(':', space);
  if (!name.starts_with("$") || space == std::string_view::npos || colon == std::string_view::npos) return;
  if (const uint32_t line = XlaNumber(name.substr(colon + 1, space - colon - 1)); line != 0)
    builder_.SetPlace(site, name.substr(space + 1), name.substr(1, colon - 1), line);
}

// Lines without a stream repeat its work by operation, module and step. Where there are no streams, as on TPUs, the
// operations are the work.
void XlaRows::TakeOnDevice(const ChromeEvent& event, const TraceBuilder::Span& span, const Planes::value_type& of,
                           Line* line) {
  const auto& [number_of_plane, plane] = of;
  if (!line->is_stream && (line->name != "XLA Ops" || with_streams_.count(number_of_plane) != 0)) {
    ++derived_;
    return;
  }
  ++gpu_;
  TraceBuilder::Work work;
  work.kind = event.name.starts_with("Memcpy")   ? model::GpuKind::kMemcpy
              : event.name.starts_with("Memset") ? model::GpuKind::kMemset
                                                 : model::GpuKind::kKernel;
  if (line->stream == model::kNone) {
    const uint32_t device = builder_.Device(plane, plane.substr(kDevicePrefix.size()));
    const std::string_view name = line->name;
    const uint32_t number = line->is_stream ? XlaNumber(name.substr(kStreamPrefix.size())) : 0;
    line->stream = builder_.Stream(device, number, name);
  }
  work.stream = line->stream;
  work.name = event.name;
  work.correlation = event.Number("correlation_id", 0);
  const std::string_view module = event.Text("hlo_module"), operation = event.Text("hlo_op");
  scope_path_ = module;
  if (!operation.empty()) {
    scope_path_.append(module.empty() ? "" : " / ").append(operation);
    builder_.Site(SiteKind::kOperator, operation);  // for `top`: it counts as an operator
  }
  work.scope_path = scope_path_;
  const std::string_view details = event.Text("kernel_details"), copy = event.Text("memcpy_details");
  if (!details.empty() && work.kind == model::GpuKind::kKernel) {
    work.has_shape = true;
    work.shape = launches_.Of(details);
  }
  // "HtoD, pageable to device", as collectors name copies.
  std::string name;
  if (work.kind == model::GpuKind::kMemcpy && !copy.empty()) {
    work.bytes = CopiedBytes(copy);
    name = std::string(event.name.substr(6));
    std::replace(name.begin(), name.end(), '2', 't');
    const size_t t = name.find('t');
    if (t != std::string::npos) name.insert(t + 1, "o");
    name += ", " + std::string(XlaDetail(copy, "kind_src:")) + " to " + std::string(XlaDetail(copy, "kind_dst:"));
    work.name = name;
  }
  builder_.AddGpu(span, work);
}

}  // namespace pitot::read
