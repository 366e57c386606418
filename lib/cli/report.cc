// SPDX-License-Identifier: Apache-2.0
#include "pitot/serialize/report.h"

#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "cli/command.h"
#include "cli/files.h"
#include "pitot/analyze/report_html.h"

namespace pitot::cli {
namespace {

struct ReportOptions {
  std::string input, output = "-";
  bool html = false;
};

// The text report, opened by the verdict on the request that it is about.
class ReportWithVerdict : public Serializer {
 public:
  const char* FileName() const noexcept override { return report_->FileName(); }
  Status Serialize(const model::Trace& trace, ByteSink& sink) override {
    const uint32_t request = analyze::ChooseRequest(trace, 0);
    analyze::Judgement judgement;
    // Without one the report is what it was: of the reasons `pitot why` speaks.
    if (request != model::kNone && JudgeRequest(trace, request, nullptr, &judgement).ok()) {
      const std::string text = VerdictText(judgement.index, judgement.blame, judgement.verdict) + "\n";
      if (!sink.Write(text.data(), text.size())) return Status(StatusCode::kIoError, "the sink takes no more");
    }
    return report_->Serialize(trace, sink);
  }

 private:
  const std::unique_ptr<Serializer> report_ = MakeReportSerializer();
};

class HtmlFile : public Serializer {
 public:
  const char* FileName() const noexcept override { return "report.html"; }
  Status Serialize(const model::Trace& trace, ByteSink& sink) override {
    const uint32_t request = analyze::ChooseRequest(trace, 0);
    analyze::Judgement judgement;
    const Status judged = request == model::kNone ? Status(StatusCode::kNotFound, "no request began and ended in it")
                                                  : JudgeRequest(trace, request, nullptr, &judgement);
    analyze::HtmlReport page;
    if (judged.ok())
      page.judgement = &judgement;
    else
      page.why_not = judged.message();
    analyze::AnalysisReport analysis;
    analyze::AnalyzeOptions options;
    if (judgement.index.data() != nullptr) options.index = &judgement.index;
    if (Status status = Analyze(trace, analyze::MakeCatalogue(), options, &analysis); !status.ok()) return status;
    page.analysis = &analysis;
    const std::string text = ReportHtml(trace, page);
    return sink.Write(text.data(), text.size()) ? Status() : Status(StatusCode::kIoError, "the sink takes no more");
  }
};

int Report(const ReportOptions& options) {
  model::Trace trace;
  LoadReport report;
  const int loaded = Load(options.input, &trace, &report);
  if (loaded != kDone && loaded != kDamaged) return loaded;
  if (!AreDifferentFiles(options.input, options.output)) return kUsage;
  ReportWithVerdict text;
  HtmlFile html;
  uint64_t bytes = 0;
  const int written = WriteFile(options.html ? static_cast<Serializer&>(html) : text, trace, options.output, &bytes);
  return written != kDone ? written : loaded;
}

}  // namespace

void AddReport(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ReportOptions>();
  CLI::App* command = app.add_subcommand("report", "Prints the text report of a dump: its slow requests and why");
  command->add_option("dump", options->input, kDumpHelp)->required();
  command->add_option("-o,--output", options->output, "Where to; - is stdout")->capture_default_str();
  command->add_flag("--html", options->html,
                    "One page for a browser, with a picture of the request's time and what analyzers found");
  command->callback([options, &exit_code] {
    options->input = DumpPath(options->input);
    exit_code = Report(*options);
  });
}

}  // namespace pitot::cli
