// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/columns.h"
#include "cli/command.h"
#include "cli/command_line.h"
#include "cli/files.h"
#include "cli/incidents.h"

namespace pitot::cli {
namespace {

namespace fs = std::filesystem;
using base::Duration;
using nlohmann::json;
using nlohmann::ordered_json;

struct ListArguments {
  std::string folder;
  bool json = false;
};

// How far the writing of an incident has come.
enum class State { kPartial, kNoVerdict, kJudged };
constexpr const char* kStates[] = {"partial", "no_verdict", "judged"};

struct Listed {
  std::string name;  // of its directory: "20261121T015359Z-0007-latency-classify"
  State state = State::kPartial;
  std::string problem;  // of its verdict
  json verdict;         // verdict.json; an object if it is judged
};

// Fields of a file that another program may have written: of another type, they are not there.
const json& Nothing() {
  static const json nothing;
  return nothing;
}
const json& At(const json& object, const char* key) {
  if (!object.is_object()) return Nothing();
  const auto found = object.find(key);
  return found != object.end() ? *found : Nothing();
}
std::string Text(const json& object, const char* key) {
  const json& value = At(object, key);
  return value.is_string() ? value.get<std::string>() : "";
}
json Number(const json& object, const char* key) {
  const json& value = At(object, key);
  return value.is_number() ? value : json();
}
json Whole(const json& object, const char* key) {
  const json& value = At(object, key);
  return value.is_number_integer() ? value : json();
}
std::string Ns(const json& object, const char* key) {
  const json value = Whole(object, key);
  return value.is_null() ? "-" : Duration(value.get<int64_t>());
}
std::string Sureness(const json& object) {
  const json value = Number(object, "confidence");
  return value.is_null() ? "" : absl::StrFormat(", confidence %.2f", value.get<double>());
}

Listed Read(const fs::path& directory) {
  std::error_code error;
  Listed incident;
  incident.name = directory.filename();
  if (!fs::is_regular_file(directory / kDumpFile, error)) return incident;
  incident.state = State::kNoVerdict;
  const fs::path path = directory / "verdict.json";
  if (!fs::exists(path, error)) return incident;
  std::ifstream file(path);
  incident.verdict = json::parse(file, nullptr, false);
  if (incident.verdict.is_object())
    incident.state = State::kJudged;
  else
    incident.problem = "verdict.json cannot be read";
  return incident;
}

// The incidents in a folder, the oldest first; a folder that is an incident has one. False, with a message: it cannot
// be read.
bool ReadAll(const std::string& folder, std::vector<Listed>* incidents) {
  std::error_code error, other;
  if (fs::is_regular_file(fs::path(folder) / kDumpFile, other)) {
    fs::path itself = fs::absolute(folder, other).lexically_normal();
    incidents->push_back(Read(itself.has_filename() ? itself : itself.parent_path()));
    return true;
  }
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (!fs::is_directory(entry->path(), other)) continue;
    Listed incident = Read(entry->path());
    const bool is_hidden = incident.name[0] == '.';
    // Incidents are begun in hidden directories. Other directories are not Pitot's.
    if (is_hidden ? incident.name.rfind(".pitot-partial-", 0) == 0
                  : incident.state != State::kPartial || !PartsOf(incident.name).at.empty()) {
      if (is_hidden) incident.state = State::kPartial;
      incidents->push_back(std::move(incident));
    }
  }
  if (error) {
    Complain(absl::StrFormat("cannot read %s: %s. Name the recorder's incident_directory.", folder, error.message()));
    return false;
  }
  // Names begin with the time, those of partial ones with a prefix.
  std::sort(incidents->begin(), incidents->end(), [](const Listed& a, const Listed& b) {
    const bool a_hidden = a.name[0] == '.', b_hidden = b.name[0] == '.';
    return a_hidden != b_hidden ? b_hidden : a.name < b.name;
  });
  return true;
}

const json& FirstCause(const json& verdict) {
  const json& causes = At(verdict, "causes");
  return causes.is_array() && !causes.empty() ? causes[0] : Nothing();
}

// The id by which people know the request of a verdict or culprit.
std::string RequestName(const json& of) {
  const std::string host_id = Text(of, "host_id");
  return host_id.empty() ? Text(of, "request") : host_id;
}

// "request 0950e380c9da42ef (/reload)", "thread executor"; "" if nobody is known.
std::string Who(const json& by) {
  if (const std::string request = RequestName(by); !request.empty())
    return absl::StrFormat("request %s (%s)", request, Text(by, "route"));
  if (const std::string holder = Text(by, "holder"); !holder.empty()) return holder;
  if (const std::string batch = Text(by, "batch"); !batch.empty())
    return absl::StrFormat("batch %s (%s)", batch, Text(by, "executor"));
  if (const std::string gpu = Text(by, "gpu"); !gpu.empty()) return gpu;
  const std::string thread = Text(by, "thread");
  return thread.empty() ? "" : "thread " + thread;
}

std::string RootText(const json& verdict) {
  const json& root = At(verdict, "root");
  if (!root.is_object()) return "";
  std::string text = absl::StrCat("root ", Text(root, "kind"), ", ", Text(root, "blame"));
  if (const std::string who = Who(At(root, "by")); !who.empty()) text += ", of " + who;
  return text + Sureness(root);
}

std::string CauseText(const json& verdict) {
  const json& cause = FirstCause(verdict);
  if (!cause.is_object()) return Text(verdict, "verdict");
  std::string text = absl::StrCat("cause ", Text(cause, "blame"), " +", Ns(cause, "excess_ns"));
  if (const std::string who = Who(At(cause, "by")); !who.empty()) text += ", by " + who;
  return text + Sureness(cause);
}

std::string TextOf(const std::vector<Listed>& incidents) {
  base::Lines lines(WrapWidth(base::kColumns));
  for (const Listed& incident : incidents) {
    const json& verdict = incident.verdict;
    std::string head = incident.name;
    if (incident.state == State::kJudged) {
      head += absl::StrCat("  ", RequestName(verdict), " ", Text(verdict, "route"), " ", Ns(verdict, "latency_ns"));
      if (const json times = Whole(At(verdict, "again"), "times"); !times.is_null())
        head += absl::StrCat(", again ", base::Count(times.get<uint64_t>()), times == 1 ? " time" : " times");
    }
    lines.AddWrapped(0, "", head);
    if (incident.state == State::kPartial) lines.Add(4, "not whole: it is being written, or its process ended");
    if (incident.state == State::kNoVerdict)
      lines.AddWrapped(4, "", incident.problem.empty() ? "no verdict: `pitot why` makes one" : incident.problem);
    if (incident.state != State::kJudged) continue;
    for (const std::string& text : {Text(verdict, "summary"), CauseText(verdict), RootText(verdict)}) {
      if (!text.empty()) lines.AddWrapped(4, "", text);
    }
  }
  return lines.text();
}

ordered_json WhoJson(const json& by) { return by.is_object() ? ordered_json(by) : ordered_json(); }

ordered_json JsonOf(const Listed& incident) {
  const NameParts parts = PartsOf(incident.name);
  const json &verdict = incident.verdict, &cause = FirstCause(verdict), &root = At(verdict, "root");
  ordered_json one = {{"directory", incident.name},
                      {"at", parts.at},
                      {"number", parts.number.empty() ? 0 : std::strtoull(parts.number.c_str(), nullptr, 10)},
                      {"trigger", parts.trigger},
                      {"state", kStates[static_cast<int>(incident.state)]},
                      {"problem", incident.problem}};
  if (incident.state != State::kJudged) return one;
  one["request"] = Text(verdict, "request");
  one["host_id"] = Text(verdict, "host_id");
  one["route"] = Text(verdict, "route");
  one["latency_ns"] = Whole(verdict, "latency_ns");
  one["typical_ns"] = Whole(verdict, "typical_ns");
  one["verdict"] = Text(verdict, "verdict");
  one["summary"] = Text(verdict, "summary");
  one["cause"] = nullptr;
  if (cause.is_object())
    one["cause"] = {{"blame", Text(cause, "blame")},
                    {"excess_ns", Whole(cause, "excess_ns")},
                    {"confidence", Number(cause, "confidence")},
                    {"by", WhoJson(At(cause, "by"))}};
  one["root"] = nullptr;
  if (root.is_object())
    one["root"] = {{"kind", Text(root, "kind")},
                   {"blame", Text(root, "blame")},
                   {"confidence", Number(root, "confidence")},
                   {"by", WhoJson(At(root, "by"))}};
  const json again = Whole(At(verdict, "again"), "times");
  one["again"] = again.is_null() ? json(0) : again;
  return one;
}

// Why there is nothing to list: incidents of workers may be in a folder each.
std::string WhyNone(const std::string& folder) {
  std::vector<std::string> folders;
  for (const std::string& dump : DumpsBelow(folder)) {
    const fs::path path(dump);
    const std::string of = path.filename() == kDumpFile ? path.parent_path().parent_path() : path.parent_path();
    if (std::find(folders.begin(), folders.end(), of) == folders.end()) folders.push_back(of);
  }
  const std::string none = "there is no incident in " + folder;
  return folders.empty() ? none + ": one is written when a trigger fires or the server calls Recorder::Trigger."
                         : none + ", but in folders below it: list " + absl::StrJoin(folders, ", ") + ".";
}

int List(const ListArguments& arguments) {
  std::vector<Listed> incidents;
  if (!ReadAll(arguments.folder, &incidents)) return kUnreadable;
  if (arguments.json) {
    ordered_json all = ordered_json::array();
    for (const Listed& incident : incidents) all.push_back(JsonOf(incident));
    Print(ordered_json{{"incidents", all}}.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
  } else {
    Print(TextOf(incidents));
    if (incidents.empty()) Complain(WhyNone(arguments.folder));
  }
  return incidents.empty() ? kNothingFound : kDone;
}

}  // namespace

void AddList(CommandLine& line) {
  auto arguments = std::make_shared<ListArguments>();
  const Command command =
      line.Command("list", "Lists the incidents of a directory, the oldest first: request, cause, root, how often");
  command.Add("folder", &arguments->folder, "A directory of incidents").Required();
  command.AddFlag("--json", &arguments->json, "For programs: docs/reference/cli.md");
  command.Run([arguments] { return List(*arguments); });
}

}  // namespace pitot::cli
