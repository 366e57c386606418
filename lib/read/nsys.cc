// SPDX-License-Identifier: Apache-2.0
//
// The SQLite export of Nsight Systems. The schema is NVIDIA's ("SQLite Schema Reference", up to version 3.28); columns
// and tables that a version lacks are missing values. A number named "global" has a machine in its bits from 48 on, a
// process in those from 24 on, and a thread in the rest.
#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/columns.h"
#include "base/text.h"
#include "read/formats.h"
#include "read/kineto_builder.h"
#include "read/sqlite_database.h"

namespace pitot::read {
namespace {

using Rows = SqliteDatabase::Rows;

constexpr int kThreadBits = 24;
constexpr int64_t kThreadMask = (1 << kThreadBits) - 1;
constexpr size_t kDiagnosticsShown = 2;

// ENUM_NSYS_EVENT_TYPE, of NVTX.
enum NvtxType {
  kMark = 34,
  kThreadName = 39,
  kPushPop = 59,
  kStartEnd = 60,
  kImportedPushPop = 70,
  kImportedStartEnd = 71
};

// "cudaLaunchKernel" for "cudaLaunchKernel_v7000": nsys appends the version of the function's interface.
std::string_view WithoutVersion(std::string_view name) {
  const size_t at = name.rfind("_v");
  if (name.substr(0, 4) != "cuda" || at == std::string_view::npos || name.size() - at < 6) return name;
  const std::string_view version = name.substr(at + 2);
  const bool is_version = std::all_of(version.begin(), version.end(), [](char c) { return c >= '0' && c <= '9'; });
  return is_version ? name.substr(0, at) : name;
}

// ENUM_CUDA_MEMCPY_OPER.
const char* CopyKind(int64_t operation) {
  static constexpr const char* kDirections[] = {"copy", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD",
                                                "DtoA", "DtoD", "HtoH", "PtoP", "HtoD", "DtoH", "DtoD"};
  return kDirections[operation >= 0 && operation < std::ssize(kDirections) ? operation : 0];
}
constexpr int64_t kFirstUnified = 11;  // copies between host and device by page faults

// ENUM_CUDA_MEM_KIND.
const char* MemoryOf(int64_t kind) {
  static constexpr const char* kKinds[] = {"pageable", "pinned",        "device",        "array",
                                           "managed",  "device static", "managed static"};
  return kind >= 0 && kind < std::ssize(kKinds) ? kKinds[kind] : "unknown";
}

// What PyTorch's emit_nvtx writes: "aten::mm, seq = 7, op_id = 12, sizes = [[2, 3], [3, 4]]".
struct TorchRange {
  std::string_view name, sizes;
  bool is_operator = false;
};
TorchRange TorchRangeOf(std::string_view text) {
  constexpr std::string_view kSequence = ", seq = ", kSizes = ", sizes = ", kOperands = ", input_op_ids = ";
  TorchRange range = {text, {}, text.substr(0, 6) == "aten::"};
  if (text.find(',') == std::string_view::npos) return range;
  const size_t sequence = text.find(kSequence);
  const size_t end = std::min({sequence, text.find(", op_id = "), text.find(kSizes)});
  if (end == std::string_view::npos) return range;
  range.name = text.substr(0, end);
  range.is_operator |= sequence != std::string_view::npos;
  if (const size_t at = text.find(kSizes); at != std::string_view::npos) {
    range.sizes = text.substr(at + kSizes.size());
    range.sizes = range.sizes.substr(0, range.sizes.find(kOperands));
  }
  return range;
}

class NsysReader {
 public:
  NsysReader(const Input& input, model::Trace* trace, TraceReport* report)
      : trace_(*trace), report_(*report), database_(input), builder_(trace, &kineto_) {}

  Status Read() {
    if (database_.status().code() == StatusCode::kInvalidArgument) return database_.status();
    ReadStrings();
    ReadNames();
    ReadCalls();
    ReadKernels();
    ReadCopies();
    ReadSets();
    ReadGraphs();
    ReadWaits();
    ReadFunctions();
    ReadOverheads();
    ReadNvtx();
    ReadDevices();
    ReadFacts();
    const Status& status = database_.status();
    kineto_.complete = status.ok();
    builder_.Finish(!kineto_.complete);
    TakeKinetoReport(kineto_, &report_);
    AddProblems();
    if (status.ok() && kineto_.events_bad != 0)
      return Status(StatusCode::kDataLoss, (base::Plural(kineto_.events_bad, "row") + " made no sense").c_str());
    return status;
  }

 private:
  // A text of StringIds, with its ids in the trace after the first use.
  struct KnownName {
    std::string text;
    model::StringId id = 0, call_id = 0;  // as it is, and of a call: without its version
  };

  KnownName& NameOf(std::optional<int64_t> id) {
    const auto found = id ? strings_.find(*id) : strings_.end();
    return found == strings_.end() ? nameless_ : found->second;
  }
  std::string_view String(std::optional<int64_t> id) { return NameOf(id).text; }

  void SetName(std::string_view text, model::StringId* id) {
    if (*id == 0 && text.size() <= kMostNameBytes) *id = builder_.Intern(text);
    event_.name = text;
    event_.name_id = *id;
  }
  void SetName(std::optional<int64_t> id) {
    KnownName& name = NameOf(id);
    SetName(name.text, &name.id);
  }

  void ReadStrings() {
    Rows rows = database_.Read("StringIds", {"id", "value"});
    while (rows.Next()) strings_.try_emplace(rows.Number(0, 0), KnownName{std::string(rows.Text(1))});
  }

  void SetTime(std::optional<int64_t> begin_ns, std::optional<int64_t> end_ns) {
    event_ = KinetoEvent();
    event_.begin_ns = begin_ns;
    int64_t duration_ns = 0;
    if (!begin_ns || !end_ns || __builtin_sub_overflow(*end_ns, *begin_ns, &duration_ns)) return;
    event_.duration_ns = duration_ns;
    if (duration_ns >= 0 && *end_ns <= model::kMaxTimeNs) last_ns_ = std::max(last_ns_, *end_ns);
  }

  // Processes of a file have ids of correlation and devices of their own.
  void SetProcess(std::optional<int64_t> global) {
    const int64_t process = global ? *global >> kThreadBits : std::max<int64_t>(0, process_);
    if (process == current_process_) return void(event_.pid = pid_);
    if (process_ < 0) process_ = process;
    current_process_ = process;
    std::string& text = processes_[process];
    if (text.empty()) {
      const std::string pid = std::to_string(process & kThreadMask);
      const int64_t machine = process >> kThreadBits, first = process_ >> kThreadBits;
      text = "[pid " + pid + (machine == first ? "" : " of machine " + std::to_string(machine)) + "] " + pid;
    }
    event_.pid = pid_ = {process & kThreadMask, text};
  }
  void SetThread(std::optional<int64_t> global) {
    SetProcess(global);
    event_.tid = {global ? *global & kThreadMask : 0, {}};
  }

  void Name(const char* name, std::string_view value) {
    event_.phase = "M";
    event_.name = name;
    event_.thread_name = value;
    builder_.Add(event_);
  }

  void ReadNames() {
    Rows threads = database_.Read("ThreadNames", {"globalTid", "nameId"});
    while (threads.Next()) {
      thread_names_[threads.Number(0, 0)] = String(threads.Number(1));
    }
    Rows processes = database_.Read("PROCESSES", {"globalPid", "name"});
    while (processes.Next()) process_names_[processes.Number(0, 0) >> kThreadBits] = processes.Text(1);
  }

  void ReadCalls() {
    for (const char* table : {"CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_DRIVER"}) {
      Rows rows = database_.Read(table, {"start", "end", "globalTid", "correlationId", "nameId"});
      while (rows.Next()) {
        SetTime(rows.Number(0), rows.Number(1));
        SetThread(rows.Number(2));
        event_.correlation = rows.Number(3, 0);
        KnownName& name = NameOf(rows.Number(4));
        SetName(WithoutVersion(name.text), &name.call_id);
        builder_.Add(Category::kCall, event_);
      }
    }
  }

  // From the columns start, end, globalPid, deviceId, contextId, streamId, correlationId and graphNodeId.
  void SetWork(const Rows& rows) {
    SetTime(rows.Number(0), rows.Number(1));
    SetProcess(rows.Number(2));
    event_.device = rows.Number(3, 0);
    event_.context = rows.Number(4, 0);
    event_.stream = rows.Number(5, 0);
    event_.correlation = rows.Number(6, 0);
    // CUPTI has the graph in the upper half of a node's number.
    const int64_t node = rows.Number(7, 0);
    event_.graph = node >> 32;
    event_.node = node & UINT32_MAX;
    if (const std::pair device(current_process_, event_.device); device != last_device_)
      devices_.insert(last_device_ = device);
  }

  void ReadKernels() {
    Rows rows = database_.Read("CUPTI_ACTIVITY_KIND_KERNEL", {"start",
                                                              "end",
                                                              "globalPid",
                                                              "deviceId",
                                                              "contextId",
                                                              "streamId",
                                                              "correlationId",
                                                              "graphNodeId",
                                                              "graphId",
                                                              "demangledName",
                                                              "shortName",
                                                              "mangledName",
                                                              "gridX",
                                                              "gridY",
                                                              "gridZ",
                                                              "blockX",
                                                              "blockY",
                                                              "blockZ",
                                                              "staticSharedMemory",
                                                              "dynamicSharedMemory",
                                                              "localMemoryPerThread",
                                                              "registersPerThread"});
    const auto small = [&](int column) {
      return static_cast<uint32_t>(std::clamp<int64_t>(rows.Number(column, 0), 0, UINT32_MAX));
    };
    while (rows.Next()) {
      SetWork(rows);
      event_.graph = rows.Number(8, event_.graph);
      for (int column = 9; column < 12 && event_.name.empty(); ++column) SetName(rows.Number(column));
      event_.has_shape = rows.Number(12).has_value();
      event_.shape = {{small(12), small(13), small(14)},
                      {small(15), small(16), small(17)},
                      small(18),
                      small(19),
                      small(20),
                      small(21)};
      builder_.Add(Category::kKernel, event_);
    }
  }

  void ReadCopies() {
    Rows rows = database_.Read("CUPTI_ACTIVITY_KIND_MEMCPY",
                               {"start", "end", "globalPid", "deviceId", "contextId", "streamId", "correlationId",
                                "graphNodeId", "bytes", "copyKind", "srcKind", "dstKind"});
    while (rows.Next()) {
      SetWork(rows);
      event_.bytes = rows.Number(8, 0);
      const int64_t operation = rows.Number(9, 0);
      std::string name = CopyKind(operation);
      if (operation >= kFirstUnified) {
        name += ", unified memory";
      } else if (rows.Number(10) && rows.Number(11)) {
        name += std::string(", ") + MemoryOf(*rows.Number(10)) + " to " + MemoryOf(*rows.Number(11));
      }
      event_.name = name;
      builder_.Add(Category::kMemcpy, event_);
    }
  }

  void ReadSets() {
    Rows rows =
        database_.Read("CUPTI_ACTIVITY_KIND_MEMSET", {"start", "end", "globalPid", "deviceId", "contextId", "streamId",
                                                      "correlationId", "graphNodeId", "bytes", "memKind"});
    while (rows.Next()) {
      SetWork(rows);
      event_.bytes = rows.Number(8, 0);
      const std::string name = rows.Number(9) ? std::string("Memset (") + MemoryOf(*rows.Number(9)) + ")" : "Memset";
      event_.name = name;
      builder_.Add(Category::kMemset, event_);
    }
  }

  // Whole graphs, without --cuda-graph-trace=node.
  void ReadGraphs() {
    Rows rows =
        database_.Read("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", {"start", "end", "globalPid", "deviceId", "contextId",
                                                           "streamId", "correlationId", "", "graphId", "graphExecId"});
    while (rows.Next()) {
      SetWork(rows);
      event_.graph = rows.Number(9, rows.Number(8, 0));
      event_.name = "CUDA graph";
      builder_.Add(Category::kGraph, event_);
    }
  }

  // ENUM_CUPTI_SYNC_TYPE, by Kineto's names.
  void ReadWaits() {
    static constexpr const char* kNames[] = {"Sync", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync"};
    constexpr int64_t kEvent = 1, kContext = 4;
    Rows rows = database_.Read(
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
        {"start", "end", "globalPid", "deviceId", "contextId", "streamId", "correlationId", "", "syncType"});
    while (rows.Next()) {
      SetWork(rows);
      const int64_t type = rows.Number(8, 0);
      event_.name = kNames[type > 0 && type <= kContext ? type : 0];
      if (type == kEvent) event_.stream = KinetoEvent::kNone;
      if (type == kContext) event_.stream = UINT32_MAX;
      builder_.Add(Category::kSync, event_);
    }
  }

  // Functions of libraries, as scopes of their threads.
  void ReadFunctions() {
    for (const auto& [table, name] : {std::pair{"OSRT_API", "nameId"},
                                      {"CUDNN_EVENTS", "nameId"},
                                      {"CUBLAS_EVENTS", "nameId"},
                                      {"MPI_P2P_EVENTS", "textId"},
                                      {"MPI_COLLECTIVES_EVENTS", "textId"},
                                      {"MPI_START_WAIT_EVENTS", "textId"},
                                      {"MPI_OTHER_EVENTS", "textId"}}) {
      Rows rows = database_.Read(table, {"start", "end", "globalTid", name});
      while (rows.Next()) {
        SetTime(rows.Number(0), rows.Number(1));
        SetThread(rows.Number(2));
        SetName(rows.Number(3));
        builder_.Add(Category::kScope, event_);
      }
    }
  }

  void ReadOverheads() {
    for (const char* table : {"CUPTI_ACTIVITY_KIND_OVERHEAD", "PROFILER_OVERHEAD"}) {
      Rows rows = database_.Read(table, {"start", "end", "globalTid", "nameId"});
      while (rows.Next()) {
        SetTime(rows.Number(0), rows.Number(1));
        SetThread(rows.Number(2));
        SetName(rows.Number(3));
        builder_.Add(Category::kOverhead, event_);
      }
    }
  }

  // After all others: ranges without an end last as long as they.
  void ReadNvtx() {
    Rows rows =
        database_.Read("NVTX_EVENTS", {"start", "end", "eventType", "globalTid", "endGlobalTid", "text", "textId"});
    struct Open {
      int64_t begin_ns;
      std::optional<int64_t> thread;
      std::string text;
    };
    std::vector<Open> open;
    const auto add = [&](bool is_mark, std::string_view text) {
      const TorchRange range = TorchRangeOf(text);
      event_.name = range.name;
      event_.dimensions = range.sizes;
      builder_.Add(is_mark ? Category::kInstant : range.is_operator ? Category::kOperator : Category::kScope, event_);
    };
    while (rows.Next()) {
      const int64_t type = rows.Number(2, kPushPop);
      std::string_view text = rows.Text(5);
      if (text.empty()) text = String(rows.Number(6));
      const int64_t begin_ns = rows.Number(0, 0), thread = rows.Number(3, 0);
      if (type == kThreadName) {
        thread_names_[thread] = text;
        continue;
      }
      const bool is_stretch = type == kPushPop || type == kImportedPushPop;
      const bool is_range = is_stretch || type == kStartEnd || type == kImportedStartEnd;
      if (!is_range && type != kMark) continue;
      if (is_range && !is_stretch && rows.Number(4, thread) != thread && rows.Number(4, 0) != 0) {
        ++ranges_of_threads_;
        continue;
      }
      // Older versions write -1.
      std::optional<int64_t> end_ns = rows.Number(1);
      if (!end_ns || *end_ns < begin_ns) {
        if (type != kMark) {
          open.push_back({begin_ns, rows.Number(3), std::string(text)});
          if (begin_ns <= model::kMaxTimeNs) last_ns_ = std::max(last_ns_, begin_ns);
          continue;
        }
        end_ns = begin_ns;
      }
      SetTime(rows.Number(0), end_ns);
      SetThread(rows.Number(3));
      add(type == kMark, text);
    }
    for (const Open& range : open) {
      SetTime(range.begin_ns, std::max(range.begin_ns, last_ns_));
      SetThread(range.thread);
      add(false, range.text);
    }
  }

  // The devices that did something. A process numbers those that it sees.
  void ReadDevices() {
    std::map<int64_t, KinetoDevice> gpus;
    Rows rows = database_.Read("TARGET_INFO_GPU",
                               {"id", "name", "smCount", "maxWarpsPerSm", "threadsPerWarp", "maxRegistersPerSm",
                                "maxShmemPerSm", "computeMajor", "computeMinor", "maxRegistersPerBlock"});
    while (rows.Next()) {
      const int64_t warps = std::clamp<int64_t>(rows.Number(3, 0), 0, UINT32_MAX);
      const int64_t warp = std::clamp<int64_t>(rows.Number(4, 0), 0, UINT32_MAX);
      gpus[rows.Number(0, 0)] = {rows.Number(0, 0),
                                 std::string(rows.Text(1)),
                                 rows.Number(2, 0),
                                 warps * warp,
                                 rows.Number(5, 0),
                                 rows.Number(6, 0),
                                 warp,
                                 rows.Number(9, 0),
                                 rows.Number(7, 0),
                                 rows.Number(8, 0)};
    }
    std::map<std::pair<int64_t, int64_t>, int64_t> seen;  // a GPU, by process and its number there
    Rows mapping = database_.Read("TARGET_INFO_CUDA_DEVICE", {"gpuId", "cudaId", "pid"});
    while (mapping.Next()) seen[{mapping.Number(2, 0), mapping.Number(1, 0)}] = mapping.Number(0, 0);
    for (const auto& [process, number] : devices_) {
      const auto mapped = seen.find({process & kThreadMask, number});
      const auto gpu = gpus.find(mapped != seen.end() ? mapped->second : number);
      if (gpu == gpus.end()) continue;
      KinetoDevice device = gpu->second;
      device.id = number;
      builder_.AddDevice({process & kThreadMask, processes_[process]}, device);
    }
  }

  void ReadFacts() {
    for (const auto& [thread, name] : thread_names_) {
      if (processes_.count(thread >> kThreadBits) == 0) continue;
      SetThread(thread);
      Name("thread_name", name);
    }
    for (const auto& [process, name] : process_names_) {
      if (processes_.count(process) == 0) continue;
      SetThread(process << kThreadBits);
      Name("process_name", name);
    }
    Rows begin = database_.Read("TARGET_INFO_SESSION_START_TIME", {"utcEpochNs"});
    has_date_ = begin.Next() && begin.Number(0).has_value();
    if (has_date_) builder_.SetBaseTime(*begin.Number(0));
    Rows versions = database_.Read("META_DATA_EXPORT", {"name", "value"});
    while (versions.Next()) {
      const std::string_view name = versions.Text(0);
      if (name == "EXPORT_PRODUCT_VERSION") builder_.AddAttribute("nsys.version", versions.Text(1));
      if (name == "EXPORT_SCHEMA_VERSION") builder_.AddAttribute("nsys.schema", versions.Text(1));
    }
    constexpr int64_t kWarning = 2, kError = 3;
    Rows diagnostics = database_.Read("DIAGNOSTIC_EVENT", {"severity", "text"});
    while (diagnostics.Next()) {
      const int64_t severity = diagnostics.Number(0, 0);
      if ((severity != kWarning && severity != kError) || ++warnings_ > kDiagnosticsShown) continue;
      Problem("nsys warned: " + base::Cut(base::SanitizeText(diagnostics.Text(1)), 200));
    }
  }

  void Problem(const std::string& text) { problems_ += (problems_.empty() ? "" : "; ") + text; }

  void AddProblems() {
    if (warnings_ > kDiagnosticsShown)
      Problem(base::Count(warnings_ - kDiagnosticsShown) + " more warnings are in its DIAGNOSTIC_EVENT");
    if (ranges_of_threads_ != 0)
      Problem(base::Plural(ranges_of_threads_, "NVTX range") + " from one thread to another were left out");
    if (!problems_.empty()) report_.problems += (report_.problems.empty() ? "" : "; ") + problems_;
    report_.counts.push_back({"ranges_of_threads", ranges_of_threads_});
    if (has_date_) return;
    report_.lacks.push_back("the date");
    trace_.clock = {};
  }

  model::Trace& trace_;
  TraceReport& report_;
  KinetoReport kineto_;
  SqliteDatabase database_;
  KinetoBuilder builder_;
  KinetoEvent event_;
  std::unordered_map<int64_t, KnownName> strings_;
  KnownName nameless_;
  std::map<int64_t, std::string> processes_;                     // with their label, "[pid 7] 7"
  std::map<int64_t, std::string> thread_names_, process_names_;  // by global number of the thread, of the process
  std::set<std::pair<int64_t, int64_t>> devices_;                // with work, by process
  std::pair<int64_t, int64_t> last_device_ = {INT64_MIN, 0};
  int64_t process_ = -1, current_process_ = INT64_MIN;  // the first, and that of event_
  KinetoId pid_;                                        // of that
  int64_t last_ns_ = 0;                                 // the latest end
  uint64_t ranges_of_threads_ = 0, warnings_ = 0;
  bool has_date_ = false;
  std::string problems_;
};

// Whether nsys wrote it: others have tables with CUPTI's names, too.
bool IsNsys(const Head& head) {
  static constexpr std::string_view kPrefixes[] = {
      "CUPTI_ACTIVITY_KIND_", "TARGET_INFO_", "NVTX_EVENTS",     "OSRT_API",
      "META_DATA_EXPORT",     "SCHED_EVENTS", "COMPOSITE_EVENTS"};
  return head.tables.count("StringIds") != 0 &&
         std::any_of(std::begin(kPrefixes), std::end(kPrefixes), [&](std::string_view prefix) {
           const auto found = head.tables.lower_bound(std::string(prefix));
           return found != head.tables.end() && std::string_view(*found).substr(0, prefix.size()) == prefix;
         });
}

Status ReadNsys(const Input& input, model::Trace* trace, TraceReport* report) {
  return NsysReader(input, trace, report).Read();
}

}  // namespace

const Format kNsysFormat = {"nsys",
                            "SQLite export of Nsight Systems",
                            "SQLite exports of Nsight Systems",
                            "Nsight Systems",
                            "profile while the program works, with `nsys profile --trace=cuda,nvtx,osrt`",
                            {"requests and batches"},
                            {{"kernel", "record with --trace=cuda --cuda-graph-trace=node"},
                             {"call", "record with --trace=cuda"},
                             {"op", "run the model in torch.autograd.profiler.emit_nvtx()"},
                             {"scope", "name them with NVTX, and record with --trace=nvtx"},
                             {"layer", "name them with NVTX, and record with --trace=nvtx"},
                             {"shapes", "run the model in torch.autograd.profiler.emit_nvtx(record_shapes=True)"}},
                            IsNsys,
                            ReadNsys};

}  // namespace pitot::read
