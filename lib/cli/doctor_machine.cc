// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor_machine.h"

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/clock.h"
#include "base/columns.h"
#include "base/exports.h"
#include "cli/control_group.h"
#include "collect/host/sources.h"
#include "collect/stacks/collector.h"
#include "collect/stacks/sampler.h"
#include "session/incident_directory.h"
#include "session/options.h"
#include "session/worker_priority.h"
#include "trace/clock.h"

namespace pitot::cli {
namespace {

constexpr uint64_t kDefaultBudgetBytes = 128ull << 20;

Finding Switch() {
  const char* off = getenv("PITOT_OFF");
  if (!session::IsSwitchedOff()) {
    const std::string how = off != nullptr ? absl::StrCat("PITOT_OFF=", off) : "PITOT_OFF is not set";
    return {"switch", Health::kGood, how + ": recorders start when the server asks", ""};
  }
  return {"switch", Health::kProblem, absl::StrCat("PITOT_OFF=", off, ": no recorder starts in this environment"),
          "unset PITOT_OFF"};
}

// Each set variable for options, and variables without a reader.
std::vector<Finding> Environment() {
  constexpr const char* kTopic = "environment";
  std::vector<Finding> findings;
  const auto add = [&](Health health, std::string answer, std::string advice) {
    findings.push_back({kTopic, health, std::move(answer), std::move(advice)});
  };
  std::vector<std::string> known = {"PITOT_OFF", "PITOT_LIBRARY"};  // read by Start, and by the Python package
  session::OwnedOptions owned;
  const Status together = session::CheckAndCopy(Options::FromEnvironment(), &owned);
  bool is_one_wrong = false;
  for (const session::EnvironmentVariable& variable : session::EnvironmentVariables()) {
    known.push_back(variable.name);
    const char* const text = getenv(variable.name);
    if (text == nullptr) continue;
    Options alone;
    variable.read(text, &alone);
    const std::string what = absl::StrCat(variable.name, "=", text, ": ", variable.what);
    // A value that is too large next to a default may be right next to another value.
    const Status status = together.ok() ? Status() : session::CheckAndCopy(alone, &owned);
    if (status.ok()) {
      add(Health::kGood, what, "");
    } else {
      is_one_wrong = true;
      add(Health::kProblem, absl::StrCat(what, "; not valid: ", status.message()),
          "correct or unset it: with it, servers using Options::FromEnvironment start no recorder");
    }
  }
  if (!together.ok() && !is_one_wrong)
    add(Health::kProblem, absl::StrCat("each variable is valid, but not all of them together: ", together.message()),
        "change one of them: with these, servers using Options::FromEnvironment start no recorder");
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string name = *entry, bare = name.substr(0, name.find('='));
    if (absl::StartsWith(bare, "PITOT_") && std::find(known.begin(), known.end(), bare) == known.end())
      add(Health::kNote, absl::StrCat(bare, " is set, and Pitot does not read it"),
          absl::StrCat("if it is misspelt, Pitot reads: ", absl::StrJoin(known, ", ")));
  }
  if (findings.empty()) add(Health::kGood, "no variable of Options::FromEnvironment is set", "");
  return findings;
}

Finding Nvtx() {
  const char* const tool = getenv("NVTX_INJECTION64_PATH");
  if (tool == nullptr)
    return {"nvtx", Health::kGood, "NVTX_INJECTION64_PATH is not set: recorders can capture the libraries' NVTX", ""};
  // The same test as in the collector (lib/collect/nvtx/claim.cc).
  if (*tool == '\0' || base::FileExports(tool, {"InitializeInjectionNvtx2", "pitot_process"}))
    return {
        "nvtx", Health::kGood,
        absl::StrCat(
            "NVTX_INJECTION64_PATH=", tool,
            ": set by a parent process for its own Pitot; recorders take its place and capture the libraries' NVTX"),
        ""};
  if (const std::string why = WhyNoFile(tool); !why.empty())
    return {"nvtx", Health::kNote,
            absl::StrCat("NVTX_INJECTION64_PATH=", tool, ": ", why,
                         ": the libraries' NVTX goes nowhere, and recorders capture none of it"),
            "unset NVTX_INJECTION64_PATH, or name the profiler's file"};
  return {
      "nvtx", Health::kNote,
      absl::StrCat("NVTX_INJECTION64_PATH=", tool,
                   ": the libraries' NVTX goes to that tool; recorders capture none of it and mirror their scopes to "
                   "it"),
      "unset NVTX_INJECTION64_PATH if you do not want a profiler"};
}

Finding CycleCounter() {
  const std::string source = FirstLine("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  const std::string kernel = source.empty() ? "" : "; the kernel keeps time by " + source;
  const char* why_not = "";
  if (trace::CycleCounterIsInvariant(&why_not))
    return {"cycle_counter", Health::kGood, "recorders stamp events with the CPU's cycle counter" + kernel, ""};
  return {"cycle_counter", Health::kNote, "the CPU's cycle counter is not used: " + std::string(why_not) + kernel,
          "nothing to do: recorders use the operating system's clock here, at about 1.7 times the cost per event"};
}

// ns per call, the lowest of several rounds.
template <class Read> double CostNs(const Read& read) {
  double least = 1e9;
  for (int round = 0; round < 5; ++round) {
    constexpr int kCalls = 20000;
    const uint64_t begin = base::MonotonicNs();
    for (int i = 0; i < kCalls; ++i) read();
    least = std::min(least, static_cast<double>(base::MonotonicNs() - begin) / kCalls);
  }
  return least;
}

Finding ClockCost() {
  const double system_ns = CostNs([] { base::MonotonicNs(); });
  std::string answer = absl::StrFormat("reading CLOCK_MONOTONIC costs %.0f ns", system_ns);
#if defined(__x86_64__)
  volatile uint64_t sink = 0;
  absl::StrAppendFormat(&answer, ", the cycle counter %.0f ns", CostNs([&] { sink = __builtin_ia32_rdtsc(); }));
#endif
  if (system_ns > 200) {
    return {"clock_cost", Health::kNote, answer,
            "reading the clock needs a system call: boot with a clock source of the vDSO (tsc, kvm-clock) if you can"};
  }
  return {"clock_cost", Health::kGood, answer, ""};
}

std::string LimitText(rlim_t limit) { return limit == RLIM_INFINITY ? "unlimited" : base::Count(limit); }

Finding LockedMemory() {
  rlimit limit = {};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  const std::string bytes = limit.rlim_cur == RLIM_INFINITY ? "unlimited" : base::Bytes(limit.rlim_cur);
  return {"locked_memory", Health::kGood, "ulimit -l is " + bytes + "; recorders lock no memory", ""};
}

Finding Threads() {
  rlimit limit = {};
  getrlimit(RLIMIT_NPROC, &limit);
  const bool is_tight = limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < 64;
  return {"threads", is_tight ? Health::kNote : Health::kGood,
          "this user may run " + LimitText(limit.rlim_cur) + " threads; a recorder needs three",
          is_tight ? "raise ulimit -u: Start fails with resource_exhausted if it cannot make a thread" : ""};
}

Finding Memory() {
  const MemoryLimit memory = ReadMemoryLimit();
  if (!memory.is_known) return {"memory", Health::kGood, "no memory limit of a cgroup was found", ""};
  if (!memory.is_limited) return {"memory", Health::kGood, "no memory limit (" + memory.version + ")", ""};
  const uint64_t free = memory.limit > memory.used ? memory.limit - memory.used : 0;
  const bool is_tight = free < 2 * kDefaultBudgetBytes;
  return {"memory", is_tight ? Health::kNote : Health::kGood,
          absl::StrFormat("limited to %s, %s of it free (%s); a recorder holds 128 MiB by default",
                          base::Bytes(memory.limit), base::Bytes(free), memory.version),
          is_tight ? "lower Options::memory_budget_bytes (at least 4 MiB), or raise the limit" : ""};
}

// A limit of a cgroup on the CPUs of its processes.
struct Quota {
  double cpus = 0;      // 0: none
  std::string version;  // of the cgroups; "" if none was found
};

// `quota` and `period` as in the files of cgroups; 0 if they are not numbers, or set no limit.
double CpusOf(const std::string& quota, const std::string& period) {
  double quota_us = 0, period_us = 0;
  const bool is_limit = absl::SimpleAtod(quota, &quota_us) && absl::SimpleAtod(period, &period_us) && period_us > 0;
  return is_limit ? std::max(0.0, quota_us / period_us) : 0;
}

Quota ReadQuota() {
  if (const std::string v2 = CgroupDirectory(""); !v2.empty() && access((v2 + "/cpu.max").c_str(), R_OK) == 0) {
    const std::vector<std::string> parts = absl::StrSplit(FirstLine(v2 + "/cpu.max"), ' ');
    return {parts.size() == 2 ? CpusOf(parts[0], parts[1]) : 0, "cgroup v2"};
  }
  const std::string v1 = CgroupDirectory("cpu");
  if (v1.empty()) return {};
  return {CpusOf(FirstLine(v1 + "/cpu.cfs_quota_us"), FirstLine(v1 + "/cpu.cfs_period_us")), "cgroup v1"};
}

Finding CpuQuota() {
  const Quota quota = ReadQuota();
  cpu_set_t set;
  CPU_ZERO(&set);
  const int usable = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
  std::string answer = absl::StrFormat("%d CPUs are usable, ", usable);
  if (quota.cpus <= 0) {
    answer += quota.version.empty() ? "no quota was found" : "no quota (" + quota.version + ")";
    return {"cpu", Health::kGood, answer, ""};
  }
  absl::StrAppendFormat(&answer, "the quota is %.2f CPUs (%s)", quota.cpus, quota.version);
  const bool is_tight = quota.cpus < 0.5;
  return {
      "cpu", is_tight ? Health::kNote : Health::kGood, answer,
      is_tight ? "lower Options::worker_cpu_percent (25 by default) so that writing incidents is not throttled" : ""};
}

Finding ReadOwnMemory() {
  uint64_t from = 0x5049544f54, to = 0;
  const iovec local = {&to, sizeof to}, remote = {&from, sizeof from};
  if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == static_cast<ssize_t>(sizeof to) && to == from) {
    return {"unloaded_sites", Health::kGood, "process_vm_readv works: sites of unloaded libraries are read safely", ""};
  }
  return {"unloaded_sites", Health::kNote, absl::StrCat("process_vm_readv is refused (", strerror(errno), ")"),
          "allow the system call in the container's seccomp profile"};
}

Finding IdlePriority() {
  int error = 0;
  std::thread([&error] {
    const sched_param param = {};
    if (sched_setscheduler(0, SCHED_IDLE, &param) != 0) error = errno;
  }).join();
  const bool may_return = session::MayReturnFromIdle();
  // A process with a higher nice value keeps it.
  const int own = getpriority(PRIO_PROCESS, 0);
  const std::string nice = absl::StrCat("incidents are written at nice ", std::max(own, session::kWorkerNice));
  if (error == 0 && may_return)
    return {"idle_priority", Health::kGood, "SCHED_IDLE and the way back are allowed: idle CPUs write incidents", ""};
  if (error == 0)
    return {"idle_priority", Health::kNote, "SCHED_IDLE is allowed, but not the way back: " + nice,
            "give the server CAP_SYS_NICE or RLIMIT_NICE 20 (systemd: LimitNICE=20)"};
  return {
      "idle_priority", Health::kNote,
      absl::StrCat("SCHED_IDLE is refused (", strerror(error),
                   "): ", may_return ? "incidents are written at normal priority" : nice),
      "allow sched_setscheduler in the container's seccomp profile; Options::worker_cpu_percent holds the writer back"};
}

Finding HostEvidence(const std::string& root) {
  std::vector<std::string> there, missing;
  bool is_sure = true;
  const host::Sources sources(root);
  for (const host::Source& source : sources.all()) {
    (source.is_there ? there : missing).push_back(absl::StrCat(source.name, " (", source.said, ")"));
    // Only this source tells whether a thread without a CPU was ready to run.
    is_sure &= source.is_there || source.name != base::kRunQueueDelay.name;
  }
  there.push_back("switches and faults (getrusage)");
  std::string answer = "evidence of blocked threads: " + absl::StrJoin(there, ", ");
  if (!missing.empty()) absl::StrAppend(&answer, "; missing: ", absl::StrJoin(missing, ", "));
  return {"host_evidence", is_sure ? Health::kGood : Health::kNote, answer,
          is_sure ? "" : "only switches tell waiting for a CPU from sleeping: use a kernel with CONFIG_SCHED_INFO"};
}

Finding Stacks() {
  if (const std::string why_not = stacks::WhyNoStacks(); !why_not.empty())
    return {"stacks", Health::kNote, "stacks of threads cannot be read: " + why_not,
            "without it verdicts do not name the function in which a thread of native code was blocked or busy"};
  const std::string blocked = "stacks of blocked threads can be read (libdw, /proc/self/task/*/syscall)";
  const std::string why_not = stacks::WhyNoSamples(stacks::SystemKernel());
  if (why_not.empty())
    return {"stacks", Health::kGood, blocked + ", and stacks of running threads (perf_event_open)", ""};
  return {"stacks", Health::kNote, blocked + "; stacks of running threads cannot be read: " + why_not,
          "without them verdicts do not name the function in which a thread of native code was busy. Allow "
          "perf_event_open: kernel.perf_event_paranoid 2 or less, and the container's seccomp profile"};
}

Finding IncidentDirectory(const std::string& path) {
  struct stat existing = {};
  std::string directory = path;
  bool is_there = true;
  if (stat(path.c_str(), &existing) != 0) {
    if (errno != ENOENT)
      return {"incident_directory", Health::kProblem, path + ": " + strerror(errno), "check the path"};
    is_there = false;  // Start creates one level
    directory = session::ParentOf(path);
  } else if (!S_ISDIR(existing.st_mode)) {
    return {"incident_directory", Health::kProblem, path + " is not a directory", "name a directory"};
  }
  std::string probe = directory + "/.pitot-doctor-XXXXXX";
  if (mkdtemp(probe.data()) == nullptr) {
    const int error = errno;
    const bool has_parent = is_there || access(directory.c_str(), F_OK) == 0;
    return {"incident_directory", Health::kProblem,
            path + (is_there ? " cannot be written: " : " does not exist and cannot be created: ") +
                (has_parent ? strerror(error) : "its parent does not exist"),
            "create it with write permission for the server's user"};
  }
  rmdir(probe.c_str());
  if (const std::string doubt = is_there ? session::DoubtAbout(path) : ""; !doubt.empty())
    return {"incident_directory", Health::kProblem, path + " is not safe: " + doubt,
            "name a folder inside it, which Start creates for the server's user, or set "
            "Options::accept_unsafe_directory"};
  struct statvfs space = {};
  statvfs(directory.c_str(), &space);
  const uint64_t free = static_cast<uint64_t>(space.f_bavail) * space.f_frsize;
  const bool is_tight = free < (1ull << 30);
  return {
      "incident_directory", is_tight ? Health::kNote : Health::kGood,
      absl::StrFormat("%s %s; %s are free", path, is_there ? "is writable" : "does not exist, but Start can make it",
                      base::Bytes(free)),
      is_tight ? "incidents may take 1 GiB by default: lower Options::max_incident_directory_bytes or make room" : ""};
}

}  // namespace

std::string WhyNoFile(const std::string& path) {
  // A name without a folder is searched for in the same way as the loader does.
  if (path.find('/') == std::string::npos || access(path.c_str(), R_OK) == 0) return "";
  return errno == ENOENT ? "that file does not exist" : absl::StrCat("that file cannot be read: ", strerror(errno));
}

std::vector<Finding> ExamineMachine(const std::string& incident_directory, const std::string& root) {
  std::vector<Finding> findings = {Switch()};
  for (Finding& finding : Environment()) findings.push_back(std::move(finding));
  for (Finding& finding :
       std::vector<Finding>{CycleCounter(), ClockCost(), Memory(), CpuQuota(), Threads(), LockedMemory(),
                            ReadOwnMemory(), IdlePriority(), HostEvidence(root), Stacks(), Nvtx()})
    findings.push_back(std::move(finding));
  const char* const of_environment = getenv("PITOT_INCIDENT_DIRECTORY");
  const std::string directory =
      incident_directory.empty() && of_environment != nullptr ? of_environment : incident_directory;
  if (!directory.empty()) findings.push_back(IncidentDirectory(directory));
  findings.push_back({"collector_host", Health::kGood, "scopes, requests, batches and waits need nothing", ""});
  return findings;
}

}  // namespace pitot::cli
