// SPDX-License-Identifier: Apache-2.0
#include "cli/several_files.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/columns.h"
#include "base/message.h"
#include "cli/command.h"
#include "cli/incidents.h"
#include "model/lacking.h"
#include "model/one_start.h"
#include "model/same_recording.h"
#include "pitot/read/join.h"

namespace pitot::cli {
namespace {

namespace fs = std::filesystem;
using model::Trace;

struct Part {
  std::string path;
  size_t place = 0;  // in the order in which they are joined
  Trace trace;
  LoadReport report;
};

// What is in a folder, without hidden names, by name.
std::vector<std::string> PathsIn(const std::string& folder, fs::file_type type) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code gone;
    if (entry->path().filename().native()[0] != '.' && entry->status(gone).type() == type)
      paths.push_back(entry->path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}
std::vector<std::string> FilesIn(const std::string& folder) { return PathsIn(folder, fs::file_type::regular); }

// The folders with traces below a folder, by name. Looks at `most_files` files, and reduces it.
void FindTraces(const std::string& folder, int levels, size_t* most_files, std::vector<std::string>* found) {
  for (const std::string& below : PathsIn(folder, fs::file_type::directory)) {
    for (const std::string& file : FilesIn(below)) {
      if (*most_files == 0) return;
      --*most_files;
      if (!LooksLikeTrace(file)) continue;
      found->push_back(below);
      break;
    }
    if (levels > 1) FindTraces(below, levels - 1, most_files, found);
  }
}

// Adds a file of a folder, unless it is no trace. Returns kDone or kDamaged.
int AddFile(const std::string& path, std::vector<Part>* parts) {
  Part part;
  part.path = path;
  TraceReport& file = part.report.file;
  const Status status = ReadTrace(path, &part.trace, &file);
  if (status.code() == StatusCode::kInvalidArgument) {
    if (file.is_empty || file.events != 0)
      Complain(absl::StrFormat("%s is left out: %s.", path, WithoutPath(status, path)));
    return kDone;
  }
  if (!status.ok() && status.code() != StatusCode::kDataLoss) {
    static_cast<void>(ComplainUnreadable(path, status));
    return kDamaged;
  }
  if (!file.problems.empty()) Complain(absl::StrFormat("%s: %s", path, file.problems));
  if (!status.ok())
    Complain(absl::StrFormat("%s is damaged: %s. The output covers what was read.", path, status.message()));
  parts->push_back(std::move(part));
  return status.ok() ? kDone : kDamaged;
}

// Incidents of a process at several times are not one trace: the newest stays.
void KeepNewestOfEachProcess(std::vector<Part>* parts) {
  std::map<std::pair<std::string, int64_t>, std::vector<size_t>> newest;  // by host and number
  std::vector<bool> is_older(parts->size());
  for (size_t i = 0; i < parts->size(); ++i) {
    const Trace& trace = (*parts)[i].trace;
    if (!(*parts)[i].report.IsDump() || trace.pid == 0) continue;
    std::vector<size_t>& known = newest[{std::string(trace.AttributeOf("host")), trace.pid}];
    const auto same = std::find_if(known.begin(), known.end(),
                                   [&](size_t one) { return model::MayBeOfOneProcess((*parts)[one].trace, trace); });
    if (same == known.end()) {
      known.push_back(i);
      continue;
    }
    size_t older = i;
    if ((*parts)[*same].trace.window_end_ns < trace.window_end_ns) std::swap(older, *same);
    is_older[older] = true;
    Complain(absl::StrFormat("%s is left out: it is an older incident of the process in %s. Name it to read it.",
                             (*parts)[older].path, (*parts)[*same].path));
  }
  std::vector<Part> kept;
  for (size_t i = 0; i < parts->size(); ++i) {
    if (!is_older[i]) kept.push_back(std::move((*parts)[i]));
  }
  *parts = std::move(kept);
}

// Whether they are of one run of JAX's profiler. HOST.trace.json.gz and perfetto_trace.json.gz repeat HOST.xplane.pb
// without its date.
bool IsJaxTwin(const Part& part, const Part& whole) {
  constexpr std::string_view kJson = ".trace.json", kPacked = ".gz", kXSpace = ".xplane.pb";
  if (part.report.file.format != "jax" || whole.report.file.format != "xspace") return false;
  if (fs::path(part.path).parent_path() != fs::path(whole.path).parent_path()) return false;
  std::string name = fs::path(part.path).filename();
  if (name.ends_with(kPacked)) name.resize(name.size() - kPacked.size());
  if (name == "perfetto_trace.json") return true;
  if (!name.ends_with(kJson)) return false;
  name.resize(name.size() - kJson.size());
  return fs::path(whole.path).filename() == name + std::string(kXSpace);
}

// Files of one recording count once, such as a trace and its conversion: of such twins the dump stays, or another
// tool's file, or the fullest.
void LeaveOutTwins(std::vector<Part>* parts) {
  const auto rank = [](const Part& part) {
    const TraceReport& file = part.report.file;
    const int of_format = part.report.IsDump() ? 0 : file.format == "jax" || file.tool == "Pitot" ? 2 : 1;
    const Trace& trace = part.trace;
    const uint64_t rows = trace.requests.size() + trace.events.size() + trace.calls.size() + trace.gpu.size();
    return std::pair(of_format, UINT64_MAX - rows);
  };
  for (size_t i = 0; i < parts->size(); ++i) (*parts)[i].place = i;
  std::stable_sort(parts->begin(), parts->end(), [&](const Part& a, const Part& b) { return rank(a) < rank(b); });
  std::vector<Part> kept;
  for (Part& part : *parts) {
    const auto whole = std::find_if(kept.begin(), kept.end(), [&](const Part& one) {
      return IsJaxTwin(part, one) || model::Repeats(part.trace, one.trace);
    });
    if (whole != kept.end())
      Complain(absl::StrFormat("%s is left out: it repeats %s. Name it to read it.", part.path, whole->path));
    else
      kept.push_back(std::move(part));
  }
  std::sort(kept.begin(), kept.end(), [](const Part& a, const Part& b) { return a.place < b.place; });
  *parts = std::move(kept);
}

// For a folder without a trace: reads the only one below it, or names the folders with some.
int LoadBelow(const std::string& folder, Trace* trace, LoadReport* report) {
  constexpr size_t kMostFiles = 256, kMostNamed = 5;
  size_t left = kMostFiles;
  std::vector<std::string> below;
  FindTraces(folder, kLevelsBelow, &left, &below);
  const bool has_more = left == 0;  // unread files
  if (below.size() == 1 && !has_more) {
    Complain(absl::StrFormat("%s has no trace; using %s below it.", folder, below[0]));
    return LoadFolder(below[0], trace, report);
  }
  if (below.empty() && has_more) {
    Complain(absl::StrFormat("there is no trace in %s, nor in the first %d files below it. Name its folder.", folder,
                             kMostFiles));
    return kUnreadable;
  }
  if (below.empty()) {
    Complain(absl::StrFormat(
        "there is no incident and no trace in %s: an incident is written when a trigger fires or the server calls "
        "Recorder::Trigger.",
        folder));
    return kUnreadable;
  }
  const size_t named = std::min(below.size(), kMostNamed);
  std::string more = below.size() > named ? absl::StrFormat(" and %d more", below.size() - named) : "";
  if (has_more) more += absl::StrFormat(" (%d files were looked at, not all)", kMostFiles);
  below.resize(named);
  Complain(absl::StrFormat("there is no trace in %s, but in folders below it: name one of %s%s.", folder,
                           absl::StrJoin(below, ", "), more));
  return kUnreadable;
}

// Joins two parts or more. A dump knows most about its process, so the first of them comes first. Returns kDone or,
// with a message, the exit code.
int Join(const std::string& what, std::vector<Part> parts, Trace* trace, LoadReport* report) {
  const auto first = std::find_if(parts.begin(), parts.end(), [](const Part& part) { return part.report.IsDump(); });
  if (first != parts.end()) std::rotate(parts.begin(), first, first + 1);
  TraceReport& file = report->file;
  file = parts[0].report.file;
  std::vector<std::string> paths;
  for (const Part& part : parts) {
    paths.push_back(part.path);
    file.complete = file.complete && part.report.file.complete;
  }
  const std::vector<std::string> names = ShortNames(paths);
  std::vector<TracePart> to_join;
  for (size_t i = 0; i < parts.size(); ++i)
    to_join.push_back(
        {names[i], std::move(parts[i].trace), (parts[i].report.IsDump() ? "dump " : "") + FormatName(parts[i].report)});
  JoinReport joined;
  if (const Status status = JoinTraces(&to_join, trace, &joined); !status.ok()) {
    Complain(absl::StrFormat("cannot join %s: %s. Give one of the files.", what, status.message()));
    return kUnreadable;
  }
  const std::vector<std::string_view> lacks = model::LacksOf(*trace);
  file.lacks.assign(lacks.begin(), lacks.end());
  if (!joined.apart.empty())
    Complain(absl::StrFormat("the windows of these files overlap no other: %s. Check them with `pitot info`.",
                             absl::StrJoin(joined.apart, ", ")));
  if (joined.devices_without_uuid != 0)
    Complain(
        absl::StrFormat("the files do not tell the UUID of %s: a GPU that several processes used counts once for "
                        "each",
                        base::Plural(joined.devices_without_uuid, "GPU")));
  return kDone;
}

}  // namespace

std::string FormatName(const LoadReport& report) {
  if (report.IsDump()) return absl::StrFormat("%d.%d", report.file.dump.version_major, report.file.dump.version_minor);
  return report.file.name + (report.file.is_gzip ? ", gzip" : "");
}

int LoadFolder(const std::string& folder, Trace* trace, LoadReport* report) {
  std::error_code unreadable;
  if (fs::directory_iterator entry(folder, unreadable); unreadable)
    return ComplainUnreadable(folder, base::Error(StatusCode::kIoError, "%s", unreadable.message().c_str()));
  const std::vector<std::string> below = DumpsBelow(folder);
  if (!below.empty()) ComplainOfDumpsIn(folder);
  std::vector<Part> parts;
  int loaded = kDone;
  for (const std::string& path : below.empty() ? FilesIn(folder) : OfLastMoment(below))
    loaded = std::max(loaded, AddFile(path, &parts));
  for (const Part& part : parts) report->paths.push_back(part.path);
  KeepNewestOfEachProcess(&parts);
  LeaveOutTwins(&parts);
  if (parts.empty()) return loaded == kDamaged ? kUnreadable : LoadBelow(folder, trace, report);
  const size_t count = parts.size();
  if (count == 1) {
    *trace = std::move(parts[0].trace);
    report->file = std::move(parts[0].report.file);
    return loaded;
  }
  std::vector<std::string> paths;
  for (const Part& part : parts) paths.push_back(part.path);
  if (const int joined = Join("the traces in " + folder, std::move(parts), trace, report); joined != kDone)
    return joined;
  if (below.empty())
    Complain(absl::StrFormat("%s has %d traces; joined by their clocks", folder, count));
  else
    Complain(
        absl::StrFormat("%s has %d incidents; those of the newest moment are joined by their clocks: %s. Name "
                        "others to read them.",
                        folder, below.size(), absl::StrJoin(ShortNames(paths), ", ")));
  return loaded;
}

int LoadSeveral(const std::vector<std::string>& paths, Trace* trace, LoadReport* report) {
  std::vector<Part> parts(paths.size());
  int loaded = kDone;
  for (size_t i = 0; i < paths.size(); ++i) {
    parts[i].path = paths[i];
    const int one = Load(paths[i], &parts[i].trace, &parts[i].report);
    if (one != kDone && one != kDamaged) return one;
    loaded = std::max(loaded, one);
    const std::vector<std::string>& read = parts[i].report.paths;
    report->paths.insert(report->paths.end(), read.begin(), read.end());
    for (size_t before = 0; before < i; ++before) {
      const Trace &a = parts[before].trace, &b = parts[i].trace;
      if (!model::Repeats(a, b) && !model::Repeats(b, a)) continue;
      Complain(absl::StrFormat("%s and %s are of the same recording, which would count twice. Name one of them.",
                               paths[before], paths[i]));
      return kUsage;
    }
  }
  const int joined = Join(absl::StrJoin(paths, " and "), std::move(parts), trace, report);
  return joined == kDone ? loaded : joined;
}

}  // namespace pitot::cli
