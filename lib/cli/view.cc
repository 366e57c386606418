// SPDX-License-Identifier: Apache-2.0
//
// `pitot view`: traces as one page with a timeline.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/columns.h"
#include "cli/command.h"
#include "cli/command_line.h"
#include "cli/files.h"
#include "cli/view/data.h"
#include "cli/view/page.h"
#include "model/is_empty.h"
#include "pitot/analyze/asked.h"
#include "pitot/analyze/judgement.h"

namespace pitot::cli {
namespace {

struct ViewOptions {
  std::vector<std::string> inputs;
  std::string output;
};

class PageFile final : public Serializer {
 public:
  PageFile(std::string title, std::vector<std::string> data) : title_(std::move(title)), data_(std::move(data)) {}
  const char* FileName() const noexcept override { return "view.html"; }
  Status Serialize(const model::Trace&, ByteSink& sink) override {
    return view::WritePage(title_, data_, &sink) ? Status()
                                                 : Status(StatusCode::kIoError, "the sink accepts no more data");
  }

 private:
  std::string title_;
  std::vector<std::string> data_;
};

// The verdict that `pitot why` gives without an id, if there is one.
void Judge(view::ViewedFile* file) {
  // The index is large: none is made in vain, and it ends here.
  if (file->trace.requests.empty() && file->trace.firings.empty())
    return void(file->why_not = "no request began and ended in its window");
  analyze::Asked asked;
  analyze::Judgement judgement;
  Status status = analyze::BlameIndex::Make(file->trace, {}, &judgement.index);
  if (status.ok()) status = ChooseAsked(judgement.index, &asked);
  if (status.ok()) status = JudgeAsked(file->trace, asked, nullptr, &judgement);
  file->is_judged = status.ok();
  file->why_not = status.message();
  if (!status.ok()) return;
  file->sentence = VerdictSentence(judgement.index, judgement.blame, judgement.verdict);
  file->tree = TreeLines(judgement.index, judgement.blame, judgement.verdict);
  file->blame = std::move(judgement.blame);
  file->verdict = std::move(judgement.verdict);
}

int View(const ViewOptions& options) {
  std::vector<view::ViewedFile> files(options.inputs.size());
  int loaded = kDone;
  std::string title;
  for (size_t i = 0; i < files.size(); ++i) {
    files[i].name = options.inputs[i];
    LoadReport report;
    const int one = Load(files[i].name, &files[i].trace, &report);
    if (one != kDone && one != kDamaged) return one;
    if (IsEmpty(files[i].trace)) {
      Complain("nothing happened in " + files[i].name + ": there is nothing to show");
      return ExitCodeOf(one, kNothingFound);
    }
    if (!IsNoInput(report.paths, options.output)) return kUsage;
    if (one == kDamaged) loaded = one;
    files[i].format = report.file.format;
    files[i].is_damaged = one == kDamaged;
    Judge(&files[i]);
    title += (title.empty() ? "" : ", ") + files[i].name;
  }
  PageFile page(title, view::ViewData(files));
  uint64_t bytes = 0;
  const int written = WriteFile(page, files[0].trace, options.output, &bytes);
  if (written == kDone && options.output != "-")
    PrintLine("wrote " + options.output + " (" + base::Bytes(bytes) + "): open it in a browser");
  return written != kDone ? written : loaded;
}

}  // namespace

void AddView(CommandLine& line) {
  auto options = std::make_shared<ViewOptions>();
  const Command command = line.Command("view", "Makes a page with the timeline of a trace, for any browser");
  command.Add("dump", &options->inputs, std::string(kDumpHelp) + ". Several are shown below each other").Required();
  command.Add("-o,--output", &options->output, "Output file; - is stdout. Default: the first file's name, with .html");
  command.Footer(
      "The page holds the trace: anyone who has it can read all names and arguments. It needs no network.\n"
      "docs/guide/view.md describes it.");
  command.Run([options] {
    for (std::string& input : options->inputs) input = DumpPath(input);
    if (options->output.empty()) options->output = WithExtension(options->inputs[0], ".html");
    return View(*options);
  });
}

}  // namespace pitot::cli
