// SPDX-License-Identifier: Apache-2.0
#include "pitot/serialize/report.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/columns.h"
#include "cli/command.h"
#include "cli/command_line.h"
#include "cli/files.h"
#include "pitot/analyze/asked.h"
#include "pitot/analyze/report_html.h"

namespace pitot::cli {
namespace {

struct ReportOptions {
  std::string input, output = "-";
  bool html = false;
};

// The verdict on the subject of the dump, and the findings of analyzers.
struct Answer {
  explicit Answer(const model::Trace& trace) {
    judged = analyze::BlameIndex::Make(trace, {}, &judgement.index);
    if (judged.ok()) judged = ChooseAsked(judgement.index, &asked);
    if (judged.ok()) judged = JudgeAsked(trace, asked, nullptr, &judgement);
    if (judged.ok()) others = OthersThatFired(trace, nullptr, &judgement);
    analyze::AnalyzeOptions options;
    if (judgement.index.data() != nullptr) options.index = &judgement.index;
    analyzed = Analyze(trace, analyze::MakeCatalogue(), options, &analysis);
  }
  analyze::Asked asked;
  analyze::Judgement judgement;
  Status judged, analyzed;
  std::vector<std::string> others;
  analyze::AnalysisReport analysis;
};

// The text report, with the opening of an incident's report. It lacks what only the server knows: the former normal
// state, and drifts of routes.
class TextFile : public Serializer {
 public:
  explicit TextFile(size_t columns) : columns_(columns), report_(MakeReportSerializer("report.txt", columns)) {}
  const char* FileName() const noexcept override { return report_->FileName(); }
  Status Serialize(const model::Trace& trace, ByteSink& sink) override {
    const Answer answer(trace);
    // Without a verdict the report stays as it is; `pitot why` gives the reasons.
    std::string text;
    text = AskedText(answer.judgement.index, answer.asked, answer.judged.ok() ? &answer.judgement : nullptr, "",
                     columns_) +
           analyze::AlsoFiredText(answer.others, columns_);
    if (answer.analyzed.ok())
      text += FindingsText(answer.analysis, columns_, answer.judged.ok() ? &answer.judgement : nullptr);
    if (!text.empty()) text += "\n";
    if (!sink.Write(text.data(), text.size())) return Status(StatusCode::kIoError, "the sink accepts no more data");
    return report_->Serialize(trace, sink);
  }

 private:
  const size_t columns_;
  const std::unique_ptr<Serializer> report_;
};

class HtmlFile : public Serializer {
 public:
  const char* FileName() const noexcept override { return "report.html"; }
  Status Serialize(const model::Trace& trace, ByteSink& sink) override {
    Answer answer(trace);
    if (!answer.analyzed.ok()) return answer.analyzed;
    analyze::HtmlReport page;
    if (answer.judged.ok())
      page.judgement = &answer.judgement;
    else
      page.why_not = answer.judged.message();
    page.fired = FiredSentence(answer.judgement.index, answer.asked, page.judgement);
    page.is_about_latency = answer.judged.ok() && IsAboutLatency(trace, answer.asked, answer.judgement.verdict);
    page.others = std::move(answer.others);
    page.analysis = &answer.analysis;
    const std::string text = ReportHtml(trace, page);
    return sink.Write(text.data(), text.size()) ? Status()
                                                : Status(StatusCode::kIoError, "the sink accepts no more data");
  }
};

int Report(const ReportOptions& options) {
  model::Trace trace;
  LoadReport report;
  const int loaded = Load(options.input, &trace, &report);
  if (loaded != kDone && loaded != kDamaged) return loaded;
  if (!AreDifferentFiles(options.input, options.output)) return kUsage;
  TextFile text(options.output == "-" ? WrapWidth(base::kColumns) : base::kColumns);
  HtmlFile html;
  uint64_t bytes = 0;
  const int written = WriteFile(options.html ? static_cast<Serializer&>(html) : text, trace, options.output, &bytes);
  return written != kDone ? written : loaded;
}

}  // namespace

void AddReport(CommandLine& line) {
  auto options = std::make_shared<ReportOptions>();
  const Command command = line.Command("report", "Prints the text report of a dump: its slow requests and the reasons");
  command.Add("dump", &options->input, kDumpHelp).Required();
  command.Add("-o,--output", &options->output, "Output file; - is stdout").ShowDefault();
  command.AddFlag("--html", &options->html,
                  "Write one page for a browser, with a picture of the request's time and the analyzers' findings");
  command.Run([options] {
    options->input = DumpPath(options->input);
    return Report(*options);
  });
}

}  // namespace pitot::cli
