// SPDX-License-Identifier: Apache-2.0
#include "pitot/model/classes.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

PITOT_NAMESPACE_BEGIN
namespace model {
namespace {

bool Contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }
bool Begins(std::string_view text, std::string_view with) { return text.substr(0, with.size()) == with; }

// "Malloc" of "cudaMalloc" and "hipMalloc", "MemAlloc_v2" of "cuMemAlloc_v2"; "" of what is no such call.
std::string_view WithoutVendor(std::string_view call) {
  for (const std::string_view vendor : {"cuda", "hip", "cu"}) {
    if (Begins(call, vendor)) return call.substr(vendor.size());
  }
  return {};
}

// Of a PyTorch trace: "folder/file.py(12): function".
bool IsPythonFunction(const Trace& trace, const SiteRow& site) {
  const std::string_view name = trace.strings[site.name], file = trace.strings[site.file];
  return !file.empty() && Begins(name, file) && name.substr(file.size(), 1) == "(";
}

// A question to a name, answered once for each.
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

}  // namespace

const char* GpuClassName(GpuClass of) {
  constexpr const char* kNames[kGpuClasses] = {"compute", "communication", "memcpy", "memset"};
  return static_cast<uint32_t>(of) < kGpuClasses ? kNames[static_cast<uint32_t>(of)] : "unknown";
}
const char* HostClassName(HostClass of) {
  constexpr const char* kNames[kHostClasses] = {"synchronization", "allocation", "api", "loader", "operator", "scope"};
  return static_cast<uint32_t>(of) < kHostClasses ? kNames[static_cast<uint32_t>(of)] : "unknown";
}

bool IsCommunicationKernel(std::string_view name) {
  return Contains(name, "nccl") || Contains(name, "rccl") || Contains(name, "hccl");
}
bool IsSynchronization(std::string_view call) {
  const std::string_view name = WithoutVendor(call);
  return Contains(name, "Synchronize");
}
bool IsAllocation(std::string_view call) {
  const std::string_view name = WithoutVendor(call);
  for (const std::string_view prefix :
       {"Malloc", "Free", "HostAlloc", "HostRegister", "HostUnregister", "HostMalloc", "HostFree", "MemAlloc",
        "MemFree", "MemHostAlloc", "MemCreate", "MemMap", "MemUnmap", "MemRelease"}) {
    if (Begins(name, prefix)) return true;
  }
  return false;
}
bool IsLoader(std::string_view scope) {
  return (Begins(scope, "enumerate(DataLoader)#") && scope.size() >= 9 &&
          scope.substr(scope.size() - 9) == ".__next__") ||
         Begins(scope, "enumerate(DataPipe)#");
}
bool IsProfilerStep(std::string_view scope) { return Begins(scope, "ProfilerStep"); }

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
  std::vector<std::vector<Interval>> gpu((size_t{devices_} + 1) * kGpuClasses), host(kHostClasses);
  OncePerName<bool> communicates(trace.strings);
  for (uint32_t row = 0; row < trace.gpu.size(); ++row) {
    const GpuKind kind = trace.gpu.kind[row];
    if (kind == GpuKind::kSpan) continue;
    GpuClass of = kind == GpuKind::kMemcpy ? GpuClass::kMemcpy : GpuClass::kMemset;
    if (kind == GpuKind::kKernel || kind == GpuKind::kGraph)
      of = communicates.Of(trace.gpu.name[row], IsCommunicationKernel) ? GpuClass::kCommunication : GpuClass::kCompute;
    const uint32_t device = std::min(trace.streams[trace.gpu.stream[row]].device, devices_);
    gpu[device * kGpuClasses + static_cast<uint32_t>(of)].push_back(
        {trace.gpu.begin_ns[row], trace.gpu.begin_ns[row] + trace.gpu.duration_ns[row]});
  }

  const auto add = [&](HostClass of, int64_t begin_ns, int64_t end_ns) {
    host[static_cast<uint32_t>(of)].push_back({begin_ns, end_ns});
  };
  OncePerName<HostClass> calls(trace.strings);
  for (uint32_t row = 0; row < trace.calls.size(); ++row) {
    const HostClass of = calls.Of(trace.calls.name[row], [](std::string_view name) {
      return IsSynchronization(name) ? HostClass::kSynchronization
             : IsAllocation(name)    ? HostClass::kAllocation
                                     : HostClass::kApi;
    });
    const int64_t begin_ns = trace.calls.begin_ns[row], duration_ns = trace.calls.duration_ns[row];
    add(of, begin_ns, duration_ns == kOpen ? trace.window_end_ns : begin_ns + duration_ns);
  }
  enum class Scope { kNoClass, kLoader, kOperator, kScope };
  std::vector<Scope> sites;
  for (const SiteRow& site : trace.sites) {
    if (!IsScope(site.kind) || site.kind == SiteKind::kWait) {
      sites.push_back(Scope::kNoClass);
    } else if (IsLoader(trace.strings[site.name])) {
      sites.push_back(Scope::kLoader);
    } else if (site.kind == SiteKind::kOperator) {
      sites.push_back(Scope::kOperator);
    } else {
      const bool is_frame = IsProfilerStep(trace.strings[site.name]) || IsPythonFunction(trace, site);
      sites.push_back(is_frame ? Scope::kNoClass : Scope::kScope);
    }
  }
  for (uint32_t row = 0; row < trace.events.size(); ++row) {
    const Scope scope = sites[trace.events.site[row]];
    if (scope == Scope::kNoClass) continue;
    const HostClass of = scope == Scope::kLoader     ? HostClass::kLoader
                         : scope == Scope::kOperator ? HostClass::kOperator
                                                     : HostClass::kScope;
    add(of, trace.events.begin_ns[row], trace.EventEnd(row));
  }
  for (std::vector<Interval>& intervals : gpu) gpu_.push_back(Union(std::move(intervals)));
  for (std::vector<Interval>& intervals : host) host_.push_back(Union(std::move(intervals)));
}

GpuEnds::GpuEnds(const Trace& trace) : trace_(trace) {
  for (uint32_t row = 0; row < trace.gpu.size(); ++row) {
    if (trace.gpu.kind[row] != GpuKind::kSpan) rows_.push_back(row);
  }
  std::stable_sort(rows_.begin(), rows_.end(), [&](uint32_t a, uint32_t b) {
    return trace.gpu.begin_ns[a] + trace.gpu.duration_ns[a] < trace.gpu.begin_ns[b] + trace.gpu.duration_ns[b];
  });
}

RowRange GpuEnds::Between(int64_t after_ns, int64_t until_ns) const {
  const auto end_of = [&](uint32_t row) { return trace_.gpu.begin_ns[row] + trace_.gpu.duration_ns[row]; };
  const auto past = [&](int64_t at_ns) {
    return std::partition_point(rows_.begin(), rows_.end(), [&](uint32_t row) { return end_of(row) <= at_ns; });
  };
  const uint32_t* const rows = rows_.data();
  const auto first = past(after_ns) - rows_.begin(), last = past(std::max(after_ns, until_ns)) - rows_.begin();
  return {rows + first, rows + last};
}

}  // namespace model
PITOT_NAMESPACE_END
