// SPDX-License-Identifier: Apache-2.0
#include "pitot/model/classes.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/call_class.h"
#include "model/kernel_name.h"
#include "model/python_function.h"

PITOT_NAMESPACE_BEGIN
namespace model {
namespace {

bool Contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }
bool Begins(std::string_view text, std::string_view with) { return text.substr(0, with.size()) == with; }

// Parts of the plain names of kernels that move data between GPUs.
constexpr std::string_view kCommunication[] = {
    // Collectives by name: PyTorch's symmetric memory (one_shot_, two_shot_, multimem_all_reduce_kernel), TensorRT-LLM
    // (oneShotAllReduceKernel, allreduce_fusion), FlashInfer, XLA, oneCCL, QuickReduce, Triton kernels.
    "allreduce", "allgather", "reducescatter", "alltoall", "all2all", "oneshotreduce", "multimem",
    // vLLM, sglang, AITER.
    "crossdevicereduce", "crossdevicestore", "quickreduce",
    // Experts on several GPUs: DeepEP and its like, MORI, TensorRT-LLM, pplx.
    "internode", "intranode", "deepep::", "dpsk::ep::", "hybridep", "epdispatch", "epcombine", "moea2a", "pplx",
    // Libraries.
    "nvshmem", "rocshmem", "ishmem", "mscclpp", "oneccl", "userbuffers", "uccl", "ucx", "mnnvl", "flashcomm",
    // Signals between GPUs.
    "symmmem", "symmetricmemory", "putsignal", "waitsignal", "multigpubarrier"};
constexpr std::string_view kNotCommunication[] = {"gemm", "matmul", "layout"};

// In small letters and without "_", because each library writes "AllReduce" in its own way.
std::string Plain(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c != '_') plain += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return plain;
}

// Asks a question about each name once and keeps the answers.
template <class Answer> class OncePerName {
 public:
  explicit OncePerName(const StringTable& strings) : strings_(strings) {}
  template <class Ask> Answer Of(StringId name, const Ask& ask) {
    const auto [found, is_new] = answers_.try_emplace(name);
    if (is_new) found->second = ask(strings_[name]);
    return found->second;
  }

 private:
  const StringTable& strings_;
  std::unordered_map<StringId, Answer> answers_;
};

constexpr auto kNoClass = static_cast<HostClass>(kHostClasses);

HostClass ClassOf(const Trace& trace, const SiteRow& site) {
  const std::string_view name = trace.strings[site.name];
  if (!IsScope(site.kind) || site.kind == SiteKind::kWait) return kNoClass;
  if (IsLoader(name)) return HostClass::kLoader;
  if (site.kind == SiteKind::kOperator) return HostClass::kOperator;
  return IsPythonFunction(trace, site) ? kNoClass : HostClass::kScope;
}
std::vector<HostClass> ClassesOfSites(const Trace& trace) {
  std::vector<HostClass> classes;
  classes.reserve(trace.sites.size());
  const Steps steps(trace);
  for (uint32_t site = 0; site < trace.sites.size(); ++site)
    classes.push_back(steps.IsSite(site) ? kNoClass : ClassOf(trace, trace.sites[site]));
  return classes;
}

// The activities of threads by class.
class HostWork {
 public:
  HostWork(const Trace& trace, const std::vector<HostClass>& sites)
      : trace_(trace), sites_(sites), calls_(trace.strings), sets_(kHostClasses) {}
  void AddCalls(uint32_t first, uint32_t last) {
    for (uint32_t row = first; row < last; ++row) {
      const HostClass of = calls_.Of(trace_.calls.name[row], [](std::string_view name) {
        const base::CallClass call = base::CallClassOf(name);
        return base::IsSynchronization(call) ? HostClass::kSynchronization
               : base::IsAllocation(call)    ? HostClass::kAllocation
                                             : HostClass::kApi;
      });
      Add(of, trace_.calls.begin_ns[row], trace_.CallEnd(row));
    }
  }
  void AddEvents(uint32_t first, uint32_t last) {
    for (uint32_t row = first; row < last; ++row) {
      const HostClass of = sites_[trace_.events.site[row]];
      if (of != kNoClass) Add(of, trace_.events.begin_ns[row], trace_.EventEnd(row));
    }
  }
  std::vector<Intervals> Take() {
    std::vector<Intervals> sets;
    for (std::vector<Interval>& intervals : sets_) sets.push_back(Union(std::move(intervals)));
    return sets;
  }

 private:
  void Add(HostClass of, int64_t begin_ns, int64_t end_ns) {
    std::vector<Interval>& set = sets_[static_cast<uint32_t>(of)];
    if (set.size() == set.capacity()) {  // many threads do the same at once: their union is small
      set = Union(std::move(set));
      set.reserve(2 * set.size() + 16);
    }
    AddTo(&set, {begin_ns, end_ns});
  }

  const Trace& trace_;
  const std::vector<HostClass>& sites_;
  OncePerName<HostClass> calls_;
  std::vector<std::vector<Interval>> sets_;
};

}  // namespace

const char* GpuClassName(GpuClass of) {
  constexpr const char* kNames[kGpuClasses] = {"compute", "communication", "memcpy", "memset"};
  return static_cast<uint32_t>(of) < kGpuClasses ? kNames[static_cast<uint32_t>(of)] : "unknown";
}
const char* HostClassName(HostClass of) {
  constexpr const char* kNames[kHostClasses] = {"synchronization", "allocation", "api", "loader", "operator", "scope"};
  return static_cast<uint32_t>(of) < kHostClasses ? kNames[static_cast<uint32_t>(of)] : "unknown";
}

// Names, not arguments: a compute kernel may be instantiated with a communication library's type.
bool IsCommunicationKernel(std::string_view name) {
  if (IsCollectiveLibrary(name)) return true;
  const std::string brief = Plain(ReadKernelName(name).brief);
  const auto has = [&](std::string_view part) { return Contains(brief, part); };
  // A product with a collective fused into it is mostly the product; a layout is made before anything is sent.
  if (std::any_of(std::begin(kNotCommunication), std::end(kNotCommunication), has)) return false;
  return brief == "barrierkernel" || std::any_of(std::begin(kCommunication), std::end(kCommunication), has);
}
bool IsCollectiveLibrary(std::string_view kernel) {
  return Contains(kernel, "nccl") || Contains(kernel, "rccl") || Contains(kernel, "hccl");
}
bool IsSynchronization(std::string_view call) { return base::IsSynchronization(base::CallClassOf(call)); }
bool IsSubmission(std::string_view call) { return base::IsSubmission(base::CallClassOf(call)); }
bool IsAllocation(std::string_view call) { return base::IsAllocation(base::CallClassOf(call)); }
bool IsMark(std::string_view call) { return base::CallClassOf(call) == base::CallClass::kMark; }
bool IsLoader(std::string_view scope) {
  return (Begins(scope, "enumerate(DataLoader)#") && scope.size() >= 9 &&
          scope.substr(scope.size() - 9) == ".__next__") ||
         Begins(scope, "enumerate(DataPipe)#") || Begins(scope, "IteratorGetNext") || scope == "next batch" ||
         scope == "[DALI][C API] daliOutputCopy";
}
bool IsProfilerStep(std::string_view scope) { return Begins(scope, "ProfilerStep"); }
Steps::Steps(const Trace& trace) : trace_(trace) {
  const std::string_view argument = trace.AttributeOf(kStepArgumentKey);
  const auto is_argument = [&](StringId name) { return !argument.empty() && trace.strings[name] == argument; };
  for (const SiteRow& site : trace.sites)
    is_step_.push_back(IsProfilerStep(trace.strings[site.name]) ||
                       (IsScope(site.kind) && std::any_of(site.arg_names.begin(), site.arg_names.end(), is_argument)));
}
bool Steps::Is(uint32_t event) const {
  return is_step_[trace_.events.site[event]] || IsProfilerStep(trace_.EventName(event));
}

GpuClass GpuClassOf(const Trace& trace, uint32_t row) {
  switch (trace.gpu.kind[row]) {
    case GpuKind::kMemcpy:
      return GpuClass::kMemcpy;
    case GpuKind::kMemset:
      return GpuClass::kMemset;
    default:
      return IsCommunicationKernel(trace.strings[trace.gpu.name[row]]) ? GpuClass::kCommunication : GpuClass::kCompute;
  }
}

IntervalSets::IntervalSets(const Trace& trace) : devices_(static_cast<uint32_t>(trace.devices.size())) {
  std::vector<std::vector<Interval>> gpu((size_t{devices_} + 1) * kGpuClasses);
  OncePerName<bool> communicates(trace.strings);
  for (uint32_t row = 0; row < trace.gpu.size(); ++row) {
    const GpuKind kind = trace.gpu.kind[row];
    if (kind == GpuKind::kSpan) continue;
    GpuClass of = kind == GpuKind::kMemcpy ? GpuClass::kMemcpy : GpuClass::kMemset;
    if (kind == GpuKind::kKernel || kind == GpuKind::kGraph)
      of = communicates.Of(trace.gpu.name[row], IsCommunicationKernel) ? GpuClass::kCommunication : GpuClass::kCompute;
    const uint32_t device = std::min(trace.streams[trace.gpu.stream[row]].device, devices_);
    AddTo(&gpu[device * kGpuClasses + static_cast<uint32_t>(of)],
          {trace.gpu.begin_ns[row], trace.gpu.begin_ns[row] + trace.gpu.duration_ns[row]});
  }

  const std::vector<HostClass> sites = ClassesOfSites(trace);
  HostWork host(trace, sites);
  host.AddCalls(0, trace.calls.size());
  host.AddEvents(0, trace.events.size());
  for (std::vector<Interval>& intervals : gpu) gpu_.push_back(Union(std::move(intervals)));
  host_ = host.Take();
}

ThreadSets::ThreadSets(const Trace& trace) : trace_(trace), sites_(ClassesOfSites(trace)) {}

std::vector<Intervals> ThreadSets::Of(uint32_t thread) const {
  const std::vector<uint32_t>& threads = trace_.calls.thread;  // ascending, kNone last
  const auto [first, last] = std::equal_range(threads.begin(), threads.end(), thread);
  HostWork host(trace_, sites_);
  host.AddCalls(static_cast<uint32_t>(first - threads.begin()), static_cast<uint32_t>(last - threads.begin()));
  if (thread != kNone) {
    const ThreadRow& row = trace_.threads[thread];
    host.AddEvents(row.first_event, row.first_event + row.event_count);
  }
  return host.Take();
}

}  // namespace model
PITOT_NAMESPACE_END
