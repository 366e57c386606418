// SPDX-License-Identifier: Apache-2.0
#include "session/kernel_view.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <string_view>
#include <utility>

#include "base/columns.h"
#include "base/text.h"
#include "session/process_facts.h"

namespace pitot::session {
namespace {

// The beginning of a file; "": it cannot be read. `error` is then errno.
std::string TextIn(const std::string& path, int* error = nullptr) {
  constexpr size_t kMost = 16 << 10;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    if (error != nullptr) *error = errno;
    return "";
  }
  std::string text(kMost, '\0');
  const ssize_t got = read(fd, text.data(), text.size());
  if (got < 0 && error != nullptr) *error = errno;
  close(fd);
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return text;
}

// The rest of the line that begins with `key`; "": there is none.
std::string LineAfter(const std::string& text, std::string_view key) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (text.compare(at, key.size(), key) == 0) return text.substr(at + key.size(), end - at - key.size());
    at = end + 1;
  }
  return "";
}

uint64_t Count(const std::string& text, std::string_view key) {
  return std::strtoull(LineAfter(text, key).c_str(), nullptr, 10);
}

constexpr std::string_view kOomKills = "oom_kill ";
constexpr const char* kUnifiedRoots[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};

std::string GroupsOf(int64_t pid) { return TextIn("/proc/" + std::to_string(pid) + "/cgroup"); }

// The path of a group of version 1, below its controller's folder; "": there is none.
std::string PathOf(std::string_view controller, const std::string& groups) {
  const std::string key = ":" + std::string(controller) + ":";
  const size_t at = groups.find(key);
  return at != groups.npos ? LineAfter(groups.substr(at), key) : "";
}

bool IsFrozen(int64_t pid) {
  const std::string groups = GroupsOf(pid), unified = LineAfter(groups, "0::");
  for (const char* const root : kUnifiedRoots) {
    if (!unified.empty() && LineAfter(TextIn(root + unified + "/cgroup.events"), "frozen ") == "1") return true;
  }
  const std::string path = PathOf("freezer", groups);
  return !path.empty() &&
         TextIn("/sys/fs/cgroup/freezer" + path + "/freezer.state").compare(0, std::strlen("FROZEN"), "FROZEN") == 0;
}

std::string TasksOf(int64_t pid) { return "/proc/" + std::to_string(pid) + "/task"; }

// At most kMostThreads. `problem`: why there are not all; null: nobody asks.
std::vector<int64_t> ThreadsIn(const std::string& folder, std::string* problem) {
  std::vector<int64_t> threads;
  DIR* const directory = opendir(folder.c_str());
  if (directory == nullptr) {
    if (problem != nullptr) *problem = "threads: " + base::SystemText(errno);
    return threads;
  }
  const struct Closed {
    ~Closed() { closedir(directory); }  // even if there is no memory
    DIR* directory;
  } closed{directory};
  while (const dirent* entry = readdir(directory)) {
    const int64_t tid = std::strtoll(entry->d_name, nullptr, 10);
    if (tid <= 0) continue;
    if (threads.size() < kMostThreads) {
      threads.push_back(tid);
      continue;
    }
    if (problem != nullptr) *problem = "threads beyond " + std::to_string(kMostThreads);
    break;
  }
  return threads;
}

ThreadView ViewThread(const std::string& folder, int64_t tid, std::string* problem) {
  ThreadView view;
  view.tid = tid;
  int error = 0;
  const std::string stat = TextIn(folder + "/stat", &error);
  const std::string status = TextIn(folder + "/status");
  const std::string_view state = StatFrom(stat, 3);
  if (state.empty()) {
    *problem = "threads: " + base::SystemText(error);
    return view;
  }
  view.state = state[0];
  // In clock ticks.
  if (const std::string_view times = StatFrom(stat, 14); !times.empty()) {
    char* end = nullptr;
    const double user = std::strtod(times.data(), &end), system = std::strtod(end, nullptr);
    view.cpu_s = (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
  }
  view.name = LineAfter(status, "Name:\t");
  view.switches = Count(status, "voluntary_ctxt_switches:");
  view.preemptions = Count(status, "nonvoluntary_ctxt_switches:");
  view.wait = TextIn(folder + "/wchan", &error);
  if (view.wait == "0") view.wait.clear();
  error = 0;
  view.stack = TextIn(folder + "/stack", &error);
  if (error != 0 && problem->empty()) *problem = "stacks in the kernel: " + base::SystemText(error);
  return view;
}

// Stacks stand below their threads.
constexpr const char* kIndent = "              ";

class ThreadsFile final : public Serializer {
 public:
  explicit ThreadsFile(const KernelView* view) : view_(*view) {}
  const char* FileName() const noexcept override { return "threads.txt"; }
  Status Serialize(const model::Trace&, ByteSink& sink) override {
    std::string text = "The kernel's view of the process: " + Summary(view_) + "\n";
    if (!view_.problem.empty()) text += "Missing: " + view_.problem + "\n";
    text += "\n   thread state      CPU   switches  preempted  name             waits in\n";
    for (const ThreadView& thread : view_.threads) {
      char line[160];
      std::snprintf(line, sizeof line, "%9lld %5c %7.2f s %10llu %10llu  %-16.16s ", static_cast<long long>(thread.tid),
                    thread.state, thread.cpu_s, static_cast<unsigned long long>(thread.switches),
                    static_cast<unsigned long long>(thread.preemptions), base::SanitizeText(thread.name).c_str());
      text += line + base::SanitizeText(thread.wait) + "\n";
      AddStack(thread.stack, &text);
      for (const std::string& frame : thread.frames) text += kIndent + base::SanitizeText(frame) + "\n";
    }
    return sink.Write(text.data(), text.size()) ? Status() : Status(StatusCode::kUnavailable, "not written");
  }

 private:
  static void AddStack(const std::string& stack, std::string* text) {
    for (size_t at = 0; at < stack.size();) {
      const size_t end = std::min(stack.find('\n', at), stack.size());
      *text += kIndent + base::SanitizeText(stack.substr(at, end - at)) + "\n";
      at = end + 1;
    }
  }

  const KernelView& view_;
};

}  // namespace

StopView StopOf(int64_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid);
  const std::string stat = TextIn(folder + "/stat");
  const std::string_view state = StatFrom(stat, 3);
  if (state.empty()) return {};
  StopView view;
  if (state[0] == 'T') {
    view.stop = Stop::kSignal;
  } else if (state[0] == 't') {
    view.stop = Stop::kTracer;
  } else if (IsFrozen(pid)) {
    view.stop = Stop::kFreezer;
  } else {
    return {};
  }
  const std::string status = TextIn(folder + "/status");
  view.switches = Count(status, "voluntary_ctxt_switches:") + Count(status, "nonvoluntary_ctxt_switches:");
  return view;
}

OomKills::OomKills(int64_t pid) {
  const std::string groups = GroupsOf(pid), unified = LineAfter(groups, "0::"), own = PathOf("memory", groups);
  std::vector<std::string> paths;
  for (const char* const root : kUnifiedRoots) paths.push_back(root + unified + "/memory.events");
  if (!own.empty()) paths.push_back("/sys/fs/cgroup/memory" + own + "/memory.oom_control");
  // In a container, the path may be the host's, and the mount is the container's group.
  if (pid == getpid()) {
    for (const char* const file : {"/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"})
      paths.push_back(file);
  }
  for (const std::string& path : paths) {
    const std::string count = LineAfter(TextIn(path), kOomKills);
    if (count.empty()) continue;
    path_ = path;
    before_ = last_ = std::strtoull(count.c_str(), nullptr, 10);
    return;
  }
}

uint64_t OomKills::Now() const { return path_.empty() ? 0 : Count(TextIn(path_), kOomKills); }
bool OomKills::HaveGrown() const { return Now() > before_; }
void OomKills::Renew() { before_ = std::exchange(last_, Now()); }

bool IsWatcherReady(int64_t pid) {
  const std::string folder = TasksOf(pid);
  for (const int64_t tid : ThreadsIn(folder, nullptr)) {
    const std::string stat = TextIn(folder + "/" + std::to_string(tid) + "/stat");
    const std::string_view state = StatFrom(stat, 3);
    if (!state.empty() && state[0] == 'R' && stat.find("(pitot-watch)") != stat.npos) return true;
  }
  return false;
}

std::vector<int64_t> RunningOf(int64_t pid, const std::vector<int64_t>& tids) {
  constexpr timespec kBetween{0, 10'000'000};
  constexpr uint64_t kLeastNs = 1'000'000;  // less is a wait with a timeout, as for an interpreter's lock
  struct Use {
    bool is_ready;
    uint64_t ns;
  };
  const auto use_of = [folder = TasksOf(pid)](int64_t tid) {
    const std::string thread = folder + "/" + std::to_string(tid), stat = TextIn(thread + "/stat");
    const std::string_view state = StatFrom(stat, 3);
    return Use{!state.empty() && state[0] == 'R', std::strtoull(TextIn(thread + "/schedstat").c_str(), nullptr, 10)};
  };
  std::vector<Use> before;
  for (const int64_t tid : tids) before.push_back(use_of(tid));
  nanosleep(&kBetween, nullptr);
  std::vector<int64_t> running;
  for (size_t i = 0; i < tids.size(); ++i) {
    const Use now = use_of(tids[i]);
    if ((before[i].is_ready && now.is_ready) || now.ns >= before[i].ns + kLeastNs) running.push_back(tids[i]);
  }
  return running;
}

KernelView ViewOf(int64_t pid) {
  KernelView view;
  view.stop = StopOf(pid).stop;
  const std::string folder = TasksOf(pid);
  for (const int64_t tid : ThreadsIn(folder, &view.problem))
    view.threads.push_back(ViewThread(folder + "/" + std::to_string(tid), tid, &view.problem));
  return view;
}

std::string Summary(const KernelView& view) {
  std::map<char, size_t> states;
  for (const ThreadView& thread : view.threads) ++states[thread.state];
  std::string text = base::Plural(view.threads.size(), "thread");
  const char* before = ": ";
  for (const auto& [state, count] : states) {
    text += before + std::to_string(count) + " " + state;
    before = ", ";
  }
  return text;
}

std::unique_ptr<Serializer> MakeThreadsFile(const KernelView* view) {
  return std::unique_ptr<Serializer>(new (std::nothrow) ThreadsFile(view));
}

}  // namespace pitot::session
