// SPDX-License-Identifier: Apache-2.0
#include "read/rocprof_builder.h"

#include <algorithm>

#include "base/columns.h"

namespace pitot::read {
namespace {

uint32_t Clamped(int64_t number) { return static_cast<uint32_t>(std::clamp<int64_t>(number, 0, UINT32_MAX)); }

// "HtoD" for "MEMORY_COPY_HOST_TO_DEVICE".
std::string_view CopyDirection(std::string_view name) {
  const auto has = [name](std::string_view part) { return name.find(part) != std::string_view::npos; };
  return has("HOST_TO_DEVICE")     ? "HtoD"
         : has("DEVICE_TO_HOST")   ? "DtoH"
         : has("DEVICE_TO_DEVICE") ? "DtoD"
         : has("HOST_TO_HOST")     ? "HtoH"
                                   : name;
}

}  // namespace

void RocprofBuilder::BeginPart() {
  EndPart();
  ++parts_;
  gpus_.clear();
  kernels_.clear();
  queues_.clear();
  processes_.clear();
  with_work_.clear();
  thread_names_.clear();
  threads_.clear();
}

void RocprofBuilder::AddAgent(int64_t id, RocprofAgent agent) {
  if (agent.is_gpu) gpus_.try_emplace(id, Gpu{static_cast<int64_t>(gpus_.size()), std::move(agent)});
}

void RocprofBuilder::SetProcess(int64_t pid) {
  std::string& text = processes_[pid];
  if (text.empty()) {
    const bool is_new = known_processes_.insert(pid).second;
    const std::string number = std::to_string(pid);
    text = "[pid " + number + (is_new ? "" : ", part " + std::to_string(parts_)) + "] " + number;
  }
  event_.pid = {pid, text};
}

void RocprofBuilder::NameThread(int64_t pid, int64_t thread, std::string_view name) {
  if (!name.empty()) thread_names_[{pid, thread}] = name;
}

void RocprofBuilder::Add(const RocprofRecord& record) {
  event_ = KinetoEvent();
  SetProcess(record.pid);
  event_.begin_ns = record.begin_ns;
  int64_t duration_ns = 0;
  if (record.begin_ns && record.end_ns && !__builtin_sub_overflow(*record.end_ns, *record.begin_ns, &duration_ns))
    event_.duration_ns = duration_ns;
  event_.correlation = record.correlation;
  if (record.kind == "KERNEL_DISPATCH") return AddKernelWork(record);
  if (record.kind == "MEMORY_COPY") return AddCopy(record);
  event_.tid = {record.thread, {}};
  event_.name = record.message.empty() ? record.name : record.message;
  const bool is_mark = record.kind.starts_with("MARKER_");
  const bool is_library =
      record.kind.starts_with("RCCL_") || record.kind.starts_with("ROCDECODE_") || record.kind.starts_with("ROCJPEG_");
  Category category = Category::kUnused;
  if (record.kind.starts_with("HIP_") || record.kind.starts_with("HSA_")) {
    category = Category::kCall;
  } else if (is_library || (is_mark && !record.message.empty())) {
    category = is_mark && duration_ns == 0 ? Category::kInstant : Category::kScope;
  }
  if (category == Category::kUnused) return void(++kineto_.events), void(++kineto_.events_unused);
  threads_.insert({record.pid, record.thread});
  builder_.Add(category, event_);
}

void RocprofBuilder::AddKernelWork(const RocprofRecord& record) {
  const auto gpu = gpus_.find(record.agent);
  event_.device = gpu == gpus_.end() ? 0 : gpu->second.ordinal;
  // On the default stream, queues tell apart what can run at the same time.
  event_.stream = record.stream;
  event_.context = record.stream != 0 || record.queue == 0
                       ? 0
                       : queues_.try_emplace(record.queue, static_cast<int64_t>(queues_.size()) + 1).first->second;
  static const RocprofKernel unknown = {"(unknown kernel)"};
  const auto found = kernels_.find(record.kernel);
  const RocprofKernel& kernel = found == kernels_.end() || found->second.name.empty() ? unknown : found->second;
  unknown_kernels_ += &kernel == &unknown;
  event_.name = kernel.name;
  event_.has_shape = record.block[0] > 0;
  for (int i = 0; i < 3; ++i) {
    const int64_t block = std::max<int64_t>(1, record.block[i]), threads = std::max<int64_t>(0, record.threads[i]);
    event_.shape.block[i] = Clamped(block);
    event_.shape.grid[i] = Clamped(threads / block + (threads % block != 0));
  }
  event_.shape.static_shared_bytes = Clamped(kernel.local_bytes);
  event_.shape.dynamic_shared_bytes =
      Clamped(std::max<int64_t>(0, record.local_bytes) - std::max<int64_t>(0, kernel.local_bytes));
  event_.shape.registers_per_thread = Clamped(kernel.registers);
  with_work_.insert({record.pid, record.agent});
  builder_.Add(Category::kKernel, event_);
}

void RocprofBuilder::AddCopy(const RocprofRecord& record) {
  auto gpu = gpus_.find(record.agent);
  int64_t agent = record.agent;
  if (gpu == gpus_.end()) gpu = gpus_.find(agent = record.source_agent);
  event_.device = gpu == gpus_.end() ? 0 : gpu->second.ordinal;
  event_.context = 0;
  event_.stream = record.stream;
  event_.bytes = record.bytes;
  event_.name = CopyDirection(record.name);
  with_work_.insert({record.pid, agent});
  builder_.Add(Category::kMemcpy, event_);
}

void RocprofBuilder::EndPart() {
  for (const auto& [pid, id] : with_work_) {
    const auto gpu = gpus_.find(id);
    if (gpu == gpus_.end()) continue;
    const RocprofAgent& agent = gpu->second.agent;
    KinetoDevice device;
    device.id = gpu->second.ordinal;
    device.name = agent.name;
    device.multiprocessors = agent.compute_units;
    device.threads = Clamped(agent.waves) * int64_t{Clamped(agent.wave)};
    device.shared_bytes = agent.local_bytes;
    device.warp = agent.wave;
    device.compute_major = agent.version / 10000;
    device.compute_minor = agent.version / 100 % 100;
    builder_.AddDevice({pid, processes_[pid]}, device);
  }
  for (const auto& [key, name] : thread_names_) {
    if (threads_.count(key) == 0) continue;
    event_ = KinetoEvent();
    SetProcess(key.first);
    event_.tid = {key.second, {}};
    event_.phase = "M";
    event_.name = "thread_name";
    event_.thread_name = name;
    builder_.Add(event_);
  }
}

Status RocprofBuilder::Finish(const Status& status) {
  EndPart();
  kineto_.complete = status.ok();
  builder_.Finish(!kineto_.complete);
  trace_.clock = {};  // its times have no date
  TakeKinetoReport(kineto_, &report_);
  if (unknown_kernels_ != 0)
    report_.problems +=
        (report_.problems.empty() ? "" : "; ") + base::Plural(unknown_kernels_, "kernel") + " had no name in the file";
  if (!status.ok() || kineto_.events_bad == 0) return status;
  return Status(StatusCode::kDataLoss, (base::Plural(kineto_.events_bad, "record") + " made no sense").c_str());
}

}  // namespace pitot::read
