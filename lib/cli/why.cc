// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/causes.h"
#include "base/columns.h"
#include "cli/command.h"
#include "cli/command_line.h"
#include "cli/files.h"
#include "cli/request_id.h"
#include "model/lacking.h"
#include "model/request_text.h"
#include "pitot/analyze/asked.h"
#include "pitot/analyze/judge.h"
#include "pitot/analyze/learn.h"
#include "pitot/analyze/tokens.h"

namespace pitot::cli {
namespace {

using model::kNone;
using model::Trace;

struct WhyArguments {
  std::vector<std::string> inputs;  // `input`: their names, for messages
  std::string input, request, baseline, save_baseline;
  uint32_t token = 0;  // the number of the token asked about; 0: none
  bool every = false;
  bool json = false;
};

constexpr const char* kSaveFirst = "`pitot why DUMP --save-baseline FILE` writes one.";
constexpr const char* kWithoutRequests = ". `pitot analyze` and `pitot top` work without requests.";

class Bytes final : public Serializer {
 public:
  explicit Bytes(std::string bytes) : bytes_(std::move(bytes)) {}
  const char* FileName() const noexcept override { return "baseline"; }
  Status Serialize(const Trace&, ByteSink& sink) override {
    return sink.Write(bytes_.data(), bytes_.size()) ? Status()
                                                    : Status(StatusCode::kIoError, "the sink accepts no more data");
  }

 private:
  std::string bytes_;
};

// Fills `baseline` from a file. Returns kDone, or the exit code after a message.
int LoadBaseline(const std::string& path, int64_t now_ns, analyze::Baseline* baseline) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file.is_open() || file.bad()) {
    Complain("--baseline: cannot read " + path + ". " + kSaveFirst);
    return kUnreadable;
  }
  const Status status = baseline->Load(bytes, now_ns);
  if (!status.ok()) Complain("--baseline: " + path + ": " + status.message() + ". " + kSaveFirst);
  return status.ok() ? kDone : kUnreadable;
}

// Whether a file may be replaced by a baseline: it is not there, is empty, or holds one. Otherwise prints why not.
bool MayReplace(const std::string& path, int64_t now_ns) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (bytes.empty()) return true;
  analyze::Baseline there;
  const Status status = there.Load(bytes, now_ns);
  if (status.ok()) return true;
  Complain("--save-baseline: " + path + " was left unchanged: " + status.message() + ". Name another file.");
  return false;
}

// Adds the ordinary requests of the trace and writes all to a file, unless there are none. Prints their number. Returns
// kDone, or the exit code.
int SaveBaseline(const Trace& trace, const analyze::BlameIndex& index, const WhyArguments& arguments, int64_t now_ns,
                 analyze::Baseline* baseline) {
  const std::string& path = arguments.save_baseline;
  if (!IsNoInput(arguments.inputs, path, "--save-baseline")) return kUsage;
  if (!MayReplace(path, now_ns)) return kUsage;
  analyze::LearnOptions options;
  options.most_per_cell = analyze::BaselineOptions().requests_per_cell;
  // With room for all, so that its size gives the number of new ones; the file keeps those that fit.
  analyze::BaselineOptions roomy;
  roomy.requests_per_cell = 1 << 20;
  analyze::Baseline grown(roomy);
  std::string bytes;
  Status status = baseline->Save(&bytes);
  if (status.ok()) status = grown.Load(bytes, now_ns);
  const uint64_t known = grown.size();
  for (const uint32_t row : FindOrdinary(trace, options)) {
    if (status.ok()) status = LearnRequest(index, row, &grown, nullptr);
  }
  if (status.ok()) status = LearnStays(index, options, &grown);
  const uint64_t added = grown.size() - std::min(known, grown.size());
  if (status.ok() && added == 0) {
    Complain("--save-baseline: nothing was added, and " + path + " was left unchanged: no request of " +
             arguments.input +
             " is ordinary. Ordinary requests end well, after the first quarter of the window and before the first "
             "firing request began, take at most a quarter of that time, and lost no events. Take a dump of a longer "
             "window.");
    return kNothingFound;
  }
  if (status.ok()) status = grown.Save(&bytes);
  if (status.ok()) status = baseline->Load(bytes, now_ns);
  if (status.ok()) status = baseline->Save(&bytes);
  if (!status.ok()) {
    Complain("--save-baseline: " + std::string(status.message()));
    return kNotWritten;
  }
  std::error_code error;
  const bool is_over = arguments.baseline.empty() && std::filesystem::is_regular_file(path, error);
  Bytes file(std::move(bytes));
  uint64_t size = 0;
  const int written = WriteFile(file, trace, path, &size, "--save-baseline");
  if (written != kDone) return written;
  Complain("--save-baseline: " + base::Plural(added, "request") + " added; " + path + " holds " +
           base::Count(baseline->size()) + " now" +
           (is_over ? ". Its previous content was replaced; pass `--baseline " + path + "` as well to keep it." : "."));
  return kDone;
}

// Prints a line of JSON for each request that began and ended; parts of requests have no line of their own.
int WhyEach(const Trace& trace) {
  analyze::Judgement judgement;  // makes its index once, and walks the requests it learns from once
  std::unordered_set<uint64_t> ids;
  for (const model::RequestRow& request : trace.requests) ids.insert(request.id);
  bool is_empty = true;
  for (uint32_t row = 0; row < trace.requests.size(); ++row) {
    const model::RequestRow& request = trace.requests[row];
    if (!request.begin_known || !request.end_known || ids.count(request.parent_id) != 0) continue;
    if (const Status status = JudgeRequest(trace, row, nullptr, &judgement); !status.ok()) {
      Complain("request " + model::RequestName(trace, request) + ": " + status.message());
      return kUnreadable;
    }
    const std::string one = VerdictJson(judgement.index, judgement.blame, judgement.verdict);
    Print(nlohmann::ordered_json::parse(one).dump() + "\n");
    is_empty = false;
  }
  if (is_empty) Complain("no request began and ended in the dump" + std::string(kWithoutRequests));
  return is_empty ? kNothingFound : kDone;
}

// Without an id it is the subject of the incident. For comparison with a kept baseline, which holds requests, it is a
// request. An incident that is about none has a slowest request all the same: the user asks about one.
Status Choose(const Trace& trace, const analyze::BlameIndex& index, uint64_t id, bool is_kept, analyze::Asked* asked) {
  if (id == 0 && !is_kept) {
    const Status status = ChooseAsked(index, asked);
    const bool is_about_none = asked->kind == analyze::FiredKind::kScope || asked->kind == analyze::FiredKind::kWindow;
    if (status.code() != StatusCode::kNotFound || !is_about_none) return status;
  }
  asked->request = analyze::ChooseRequest(trace, id);
  return asked->request != kNone ? Status() : Status(StatusCode::kNotFound, "no request began and ended in it");
}

// Names the choice of the request if the file does not know the firings: the dump behind it may be about another.
void NoteChoice(const Trace& trace) {
  if (!model::IsLacking(trace, "tokens") || !trace.tokens.empty()) return;  // of several files, one has some
  const std::string lacks = model::IsLacking(trace, "triggers") ? "triggers or tokens" : "tokens";
  Complain("the file has no " + lacks + ": asked of the slowest request" +
           (trace.firings.empty() ? "" : " a trigger fired for"));
}

// Whether the given baseline is to be read. The first of several dumps creates the file that the next ones add to.
bool IsKept(const WhyArguments& arguments) {
  if (arguments.baseline.empty()) return false;
  std::error_code error;
  return arguments.baseline != arguments.save_baseline ||
         std::filesystem::status(arguments.baseline, error).type() != std::filesystem::file_type::not_found;
}

// Finds the token asked about, if any. Returns kDone, or the exit code after a message.
int ChooseToken(const Trace& trace, const WhyArguments& arguments, analyze::Asked* asked) {
  if (arguments.token == 0) return kDone;
  asked->token = analyze::TokenOf(trace, asked->request, arguments.token);
  if (asked->token != kNone) return kDone;
  uint64_t recorded = 0;
  for (const model::TokenRow& row : trace.tokens) recorded += row.request == asked->request ? row.count : 0;
  const model::RequestRow& request = trace.requests[asked->request];
  Complain(absl::StrFormat("token %d of request %s is not in %s: it has only the last %d of its %s.", arguments.token,
                           model::RequestName(trace, request), arguments.input, recorded,
                           base::Plural(request.output_tokens, "token")));
  return kNothingFound;
}

// The exit code for a question without an answer.
int ExitCodeOfFailure(const Status& failure) {
  return failure.code() == StatusCode::kNotFound ? kNothingFound : kUnreadable;
}

// The place of a process that crashed or hangs.
std::string ThreadText(const Trace& trace) {
  const std::string_view thread = trace.AttributeOf(base::kIncidentThread);
  base::Lines lines(WrapWidth(base::kColumns));
  if (!thread.empty()) lines.AddWrapped(0, "thread  ", thread);
  return lines.text();
}

void PrintVerdict(const analyze::Judgement& judgement, const analyze::Asked& asked, const analyze::Baseline& baseline,
                  bool may_lack_baseline, const Trace& trace) {
  const size_t columns = WrapWidth(base::kColumns);
  Print(AskedText(judgement.index, asked, &judgement, ThreadText(trace), columns) +
        baseline.scopes().Text(judgement.index, judgement.blame, judgement.verdict, columns));
  // Not part of the verdict, because that also opens reports.
  if (may_lack_baseline && judgement.verdict.level == analyze::Baseline::Level::kNone &&
      judgement.learned.why_few.empty())
    Complain(
        "a baseline can be learned from dumps with more such requests: run "
        "`pitot why DUMP --baseline FILE --save-baseline FILE` on each, then pass --baseline FILE here.");
}

// Prints the verdict on one request or token, and saves the baseline if asked to. Returns kDone, or the exit code.
int WhyOne(const WhyArguments& arguments, uint64_t id, Trace* dump) {
  const Trace& trace = *dump;
  const bool is_kept = IsKept(arguments);
  analyze::Judgement judgement;
  analyze::Asked asked;
  Status status = analyze::BlameIndex::Make(trace, {}, &judgement.index);
  if (status.ok()) status = Choose(trace, judgement.index, id, is_kept, &asked);
  if (!status.ok()) {
    const bool is_none = status.code() == StatusCode::kNotFound && trace.firings.empty();
    if (!arguments.json) Print(ThreadText(trace));
    Complain(is_none ? "no request began and ended in " + arguments.input + kWithoutRequests : status.message());
    return ExitCodeOfFailure(status);
  }
  if (id == 0) NoteChoice(trace);
  analyze::Baseline baseline;
  const int64_t now_ns = trace.RequestEnd(trace.requests[asked.request]);
  if (const int read = is_kept ? LoadBaseline(arguments.baseline, now_ns, &baseline) : kDone; read != kDone)
    return read;
  // The dump's own are nearer. The index has no part of them.
  if (is_kept && trace.norms.empty()) status = baseline.AddNorms(now_ns, dump);
  if (const int chosen = ChooseToken(trace, arguments, &asked); chosen != kDone) return chosen;
  if (status.ok()) status = JudgeAsked(trace, asked, is_kept ? &baseline : nullptr, &judgement);
  if (!status.ok()) {
    Complain(status.message());
    return ExitCodeOfFailure(status);
  }
  const int saved =
      arguments.save_baseline.empty() ? kDone : SaveBaseline(trace, judgement.index, arguments, now_ns, &baseline);
  if (saved == kNotWritten) return saved;
  if (arguments.json) {
    Print(FiredJson(judgement.index, asked, &judgement, ""));
  } else {
    PrintVerdict(judgement, asked, baseline, !is_kept && asked.token == kNone, trace);
  }
  return saved;
}

int Why(const WhyArguments& arguments) {
  Trace trace;
  LoadReport report;
  const int loaded = Load(arguments.inputs, &trace, &report);
  if (loaded != kDone && loaded != kDamaged) return loaded;
  if (arguments.every) return ExitCodeOf(loaded, WhyEach(trace));
  uint64_t id = 0;
  const int found = FindId(trace, arguments.request, arguments.input, &id);
  return ExitCodeOf(loaded, found != kDone ? found : WhyOne(arguments, id, &trace));
}

}  // namespace

void AddWhy(CommandLine& line) {
  auto arguments = std::make_shared<WhyArguments>();
  const Command command = line.Command(
      "why", "Explains why a request was slow: the unusual parts of its time, their size, and the culprit");
  command.Add("dump", &arguments->inputs, std::string(kDumpHelp) + kSeveralHelp).Required();
  const Option request =
      command
          .Add("--request", &arguments->request,
               "The request with this id (the server's own or Pitot's), or with the only id that begins so. By "
               "default the late token of the incident, "
               "the slowest request a trigger fired for, or the slowest request")
          .Check(IsSomeId);
  const Option baseline = command.Add(
      "--baseline", &arguments->baseline,
      "A file of normal requests, written by --save-baseline or a server. By default the other requests of the dump");
  command
      .Add("--token", &arguments->token,
           "Explain the gap before the request's Nth output token (from 1), compared with the dump's other tokens")
      .Whole(1, UINT32_MAX)
      .Needs(request)
      .Excludes(baseline);
  const Option save_baseline = command.Add(
      "--save-baseline", &arguments->save_baseline,
      "Adds the ordinary requests of the dump to those of --baseline, and writes all to this file. It may be the "
      "same file");
  const Option json =
      command.AddFlag("--json", &arguments->json, "For programs, in whole ns: docs/reference/formats/json.md");
  command.AddFlag("--every", &arguments->every, "One line for every request that began and ended; with --json")
      .Needs(json)
      .Excludes(request)
      .Excludes(baseline)
      .Excludes(save_baseline);
  command.Run([arguments] {
    arguments->input = DumpPaths(&arguments->inputs);
    return Why(*arguments);
  });
}

}  // namespace pitot::cli
