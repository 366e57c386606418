// SPDX-License-Identifier: Apache-2.0
#include "cli/incidents.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/columns.h"
#include "cli/files.h"
#include "model/one_start.h"
#include "pitot/read/dump.h"

namespace pitot::cli {
namespace {

namespace fs = std::filesystem;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

struct FoundDump {
  std::string at;      // by a name above it; "": none has a date
  int64_t end_ns = 0;  // of its window, in Unix time; 0: unknown
  std::string path;
};

int64_t EndOf(const std::string& path) {
  model::Trace head;
  if (!ReadDumpHead(path, &head).ok()) return 0;
  return head.clock.realtime_ns - head.clock.monotonic_ns + head.window_end_ns;
}

// By its name.
bool IsDump(const fs::directory_entry& entry) {
  std::error_code gone;
  const fs::path& path = entry.path();
  return path.filename().native()[0] != '.' && path.extension() == ".pitot" && entry.is_regular_file(gone);
}

void FindBelow(const fs::path& folder, const std::string& at, int levels, std::vector<FoundDump>* found) {
  std::error_code error, other;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const fs::path& path = entry->path();
    const std::string name = path.filename();
    if (name[0] == '.') continue;
    if (!fs::is_directory(path, other)) {
      const bool is_of_subfolder = levels < kLevelsBelow;
      if (is_of_subfolder && IsDump(*entry)) found->push_back({at, EndOf(path), path});
      continue;
    }
    if (levels == 0) continue;
    const std::string own = at.empty() ? PartsOf(name).at : at;
    if (fs::is_regular_file(path / kDumpFile, other)) {
      found->push_back({own, EndOf(path / kDumpFile), path / kDumpFile});
    } else {
      FindBelow(path, own, levels - 1, found);
    }
  }
}

// By the heads of two dumps.
bool AreOfOneMoment(const model::Trace& a, const model::Trace& b) {
  return model::AreOfOneStart(a, b) && a.window_begin_ns <= b.window_end_ns && b.window_begin_ns <= a.window_end_ns;
}

// The process of a dump. Two processes may have one number in containers; then they have a folder each.
std::pair<int64_t, fs::path> ProcessOf(const std::string& path, const model::Trace& head) {
  const fs::path folder = fs::path(path).parent_path();
  return {head.pid, fs::path(path).filename() == kDumpFile ? folder.parent_path() : folder};
}

std::vector<std::string> ComponentsOf(const std::string& path) {
  fs::path whole = fs::path(path).lexically_normal();
  const bool is_of_directory = whole.filename() == kDumpFile && whole.has_parent_path();
  if (is_of_directory) whole = whole.parent_path();
  std::vector<std::string> components(whole.begin(), whole.end());
  std::string& last = components.back();
  if (!is_of_directory) last.resize(std::min(last.size(), last.find('.', 1)));
  return components;
}

}  // namespace

NameParts PartsOf(const std::string& name) {
  constexpr size_t kAt = 16;
  const size_t dash = name.find('-', kAt + 1);
  const std::string at = name.substr(0, kAt),
                    number = dash != std::string::npos ? name.substr(kAt + 1, dash - kAt - 1) : "";
  const bool fits = name.size() > kAt && name[8] == 'T' && name[15] == 'Z' && name[kAt] == '-' && !number.empty() &&
                    std::all_of(number.begin(), number.end(), IsDigit) &&
                    std::all_of(at.begin(), at.begin() + 8, IsDigit);
  if (!fits) return {};
  return {at.substr(0, 4) + "-" + at.substr(4, 2) + "-" + at.substr(6, 2) + "T" + at.substr(9, 2) + ":" +
              at.substr(11, 2) + ":" + at.substr(13, 3),
          number, name.substr(dash + 1)};
}

std::vector<std::string> DumpsBelow(const std::string& folder) {
  std::vector<FoundDump> found;
  FindBelow(folder, "", kLevelsBelow, &found);
  std::sort(found.begin(), found.end(), [](const FoundDump& a, const FoundDump& b) {
    return std::tie(a.at, a.end_ns, a.path) < std::tie(b.at, b.end_ns, b.path);
  });
  std::vector<std::string> paths;
  for (FoundDump& dump : found) paths.push_back(std::move(dump.path));
  return paths;
}

void ComplainOfDumpsIn(const std::string& folder) {
  std::error_code error;
  const auto count = std::count_if(fs::directory_iterator(folder, error), fs::directory_iterator(), IsDump);
  if (count == 0) return;
  Complain(absl::StrFormat("%s has %s next to its incidents; left out. Name files to read them.", folder,
                           base::Plural(static_cast<uint64_t>(count), "dump")));
}

std::vector<std::string> OfLastMoment(const std::vector<std::string>& dumps) {
  if (dumps.empty()) return {};
  std::vector<std::string> chosen = {dumps.back()};
  model::Trace last;
  if (!ReadDumpHead(dumps.back(), &last).ok()) return chosen;
  std::set<std::pair<int64_t, fs::path>> processes = {ProcessOf(dumps.back(), last)};
  for (auto dump = dumps.rbegin() + 1; dump != dumps.rend(); ++dump) {
    model::Trace head;
    if (ReadDumpHead(*dump, &head).ok() && AreOfOneMoment(head, last) &&
        processes.insert(ProcessOf(*dump, head)).second)
      chosen.push_back(*dump);
  }
  std::reverse(chosen.begin(), chosen.end());
  return chosen;
}

std::vector<std::string> ShortNames(const std::vector<std::string>& paths) {
  std::vector<std::vector<std::string>> components;
  size_t longest = 0;
  for (const std::string& path : paths) {
    components.push_back(ComponentsOf(path));
    longest = std::max(longest, components.back().size());
  }
  std::vector<std::string> names;
  for (size_t last = 1; last <= longest; ++last) {
    names.clear();
    for (const std::vector<std::string>& of : components) {
      std::string name;
      for (size_t i = of.size() - std::min(last, of.size()); i < of.size(); ++i)
        name += (name.empty() ? "" : "/") + of[i];
      names.push_back(std::move(name));
    }
    if (std::set<std::string>(names.begin(), names.end()).size() == names.size()) return names;
  }
  return paths;
}

}  // namespace pitot::cli
