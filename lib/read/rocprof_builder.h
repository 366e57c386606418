// SPDX-License-Identifier: Apache-2.0
//
// Makes a trace of rocprofv3's records, for the readers of its database and of its JSON.
#ifndef PITOT_LIB_READ_ROCPROF_BUILDER_H_
#define PITOT_LIB_READ_ROCPROF_BUILDER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "read/kineto_builder.h"

namespace pitot::read {

// A CPU or a GPU.
struct RocprofAgent {
  bool is_gpu = false;
  std::string name;
  int64_t compute_units = 0, waves = 0, wave = 0;  // waves of a compute unit, threads of a wave
  int64_t local_bytes = 0;                         // of a compute unit
  int64_t version = 0;                             // 90402 for gfx942
};
struct RocprofKernel {
  std::string name;
  int64_t local_bytes = 0, registers = 0;
};
// What a record does not say is unset.
struct RocprofRecord {
  std::string_view kind;  // "HIP_RUNTIME_API", "KERNEL_DISPATCH"
  std::string_view name, message;
  std::optional<int64_t> begin_ns, end_ns;
  int64_t pid = 0, thread = 0, correlation = 0;
  int64_t agent = 0, source_agent = 0;  // of a copy: its target and source
  int64_t queue = 0, stream = 0, kernel = 0;
  int64_t local_bytes = 0, bytes = 0;
  int64_t block[3] = {0, 0, 0}, threads[3] = {0, 0, 0};  // of a block, and of all blocks
};

class RocprofBuilder {
 public:
  RocprofBuilder(model::Trace* trace, TraceReport* report)
      : trace_(*trace), report_(*report), builder_(trace, &kineto_) {}

  // The records of another process, or of several. Their agents, kernels and queues have numbers of their own.
  void BeginPart();
  // In the order in which HIP numbers GPUs.
  void AddAgent(int64_t id, RocprofAgent agent);
  void AddKernel(int64_t id, RocprofKernel kernel) { kernels_[id] = std::move(kernel); }
  void NameThread(int64_t pid, int64_t thread, std::string_view name);
  void AddAttribute(std::string_view key, std::string_view value) { builder_.AddAttribute(key, value); }
  void Add(const RocprofRecord& record);
  void AddBad() { builder_.Add(Category::kScope, KinetoEvent()); }
  // `status`: of the reader. Returns it, or the loss of single records.
  Status Finish(const Status& status);

 private:
  void SetProcess(int64_t pid);
  void AddKernelWork(const RocprofRecord& record);
  void AddCopy(const RocprofRecord& record);
  // Names its threads, and gives its devices their properties.
  void EndPart();

  model::Trace& trace_;
  TraceReport& report_;
  KinetoReport kineto_;
  KinetoBuilder builder_;
  KinetoEvent event_;
  struct Gpu {
    int64_t ordinal;
    RocprofAgent agent;
  };
  std::map<int64_t, Gpu> gpus_;
  std::map<int64_t, RocprofKernel> kernels_;
  std::map<int64_t, int64_t> queues_;                // numbered
  std::map<int64_t, std::string> processes_;         // of this part, with their label: "[pid 7] 7"
  std::set<int64_t> known_processes_;                // of all parts
  std::set<std::pair<int64_t, int64_t>> with_work_;  // of this part: process and agent
  std::map<std::pair<int64_t, int64_t>, std::string> thread_names_;
  std::set<std::pair<int64_t, int64_t>> threads_;  // that did something
  uint64_t unknown_kernels_ = 0;
  int parts_ = 0;
};

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_ROCPROF_BUILDER_H_
