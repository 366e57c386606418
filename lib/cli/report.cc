// SPDX-License-Identifier: Apache-2.0
#include "pitot/serialize/report.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/appendix.h"
#include "base/columns.h"
#include "cli/command.h"
#include "cli/command_line.h"
#include "cli/files.h"
#include "cli/request_id.h"
#include "pitot/analyze/asked.h"
#include "pitot/analyze/report_html.h"
#include "session/text_sink.h"

namespace pitot::cli {
namespace {

struct ReportOptions {
  std::vector<std::string> inputs;  // `input`: their names, for messages
  std::string input, request, output = "-";
  bool html = false;
};

// The verdict on the request, or with 0 on the subject of the dump, and the findings of analyzers.
struct Answer {
  Answer(const model::Trace& trace, uint64_t request) {
    judged = analyze::BlameIndex::Make(trace, {}, &judgement.index);
    if (judged.ok()) judged = Choose(trace, request);
    if (judged.ok()) judged = JudgeAsked(trace, asked, nullptr, &judgement);
    if (judged.ok()) others = OthersThatFired(trace, nullptr, &judgement);
    analyze::AnalyzeOptions options;
    if (judgement.index.data() != nullptr) options.index = &judgement.index;
    analyzed = Analyze(trace, analyze::MakeCatalogue(), options, &analysis);
  }
  Status Choose(const model::Trace& trace, uint64_t request) {
    if (request == 0) return ChooseAsked(judgement.index, &asked);
    asked.request = analyze::ChooseRequest(trace, request);
    return asked.request != model::kNone ? Status() : Status(StatusCode::kNotFound, "the request is not in it");
  }
  analyze::HtmlReport Content(const model::Trace& trace) {
    analyze::HtmlReport content;
    if (judged.ok()) content.judgement = &judgement;
    content.why_not = judged.message();
    content.fired = FiredSentence(judgement.index, asked, content.judgement);
    content.is_about_latency = judged.ok() && IsAboutLatency(trace, asked, judgement.verdict);
    content.others = others;
    if (analyzed.ok()) content.analysis = &analysis;
    return content;
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
  TextFile(size_t columns, uint64_t request)
      : columns_(columns), request_(request), report_(MakeReportSerializer("report.txt", columns)) {}
  const char* FileName() const noexcept override { return report_->FileName(); }
  Status Serialize(const model::Trace& trace, ByteSink& sink) override {
    Answer answer(trace, request_);
    if (request_ != 0 && !answer.judged.ok()) return answer.judged;
    session::TextSink report;
    if (Status s = report_->Serialize(trace, report); !s.ok()) return s;
    base::OpeningSize size;
    const analyze::HtmlReport content = answer.Content(trace);
    if (answer.judged.ok() || !content.fired.empty()) {
      base::Open(&report.text, OpeningText(trace, content, {}, columns_), &size);
    } else if (answer.analyzed.ok()) {
      // `pitot why` gives the reasons for no verdict.
      base::AddToFront(&report.text, Findings(answer.analysis));
    }
    return sink.Write(report.text.data(), report.text.size())
               ? Status()
               : Status(StatusCode::kIoError, "the sink accepts no more data");
  }

 private:
  std::string Findings(const analyze::AnalysisReport& analysis) const {
    const std::string text = FindingsText(analysis, columns_);
    if (text.empty()) return "in window   no grave finding; `pitot top` shows where the time went\n\n";
    return text + "            `pitot analyze` lists all\n\n";
  }

  const size_t columns_;
  const uint64_t request_;
  const std::unique_ptr<Serializer> report_;
};

class HtmlFile : public Serializer {
 public:
  explicit HtmlFile(uint64_t request) : request_(request) {}
  const char* FileName() const noexcept override { return "report.html"; }
  Status Serialize(const model::Trace& trace, ByteSink& sink) override {
    Answer answer(trace, request_);
    if (request_ != 0 && !answer.judged.ok()) return answer.judged;
    if (!answer.analyzed.ok()) return answer.analyzed;
    const std::string text = ReportHtml(trace, answer.Content(trace));
    return sink.Write(text.data(), text.size()) ? Status()
                                                : Status(StatusCode::kIoError, "the sink accepts no more data");
  }

 private:
  const uint64_t request_;
};

int Report(const ReportOptions& options) {
  model::Trace trace;
  LoadReport report;
  const int loaded = Load(options.inputs, &trace, &report);
  if (loaded != kDone && loaded != kDamaged) return loaded;
  if (!IsNoInput(report.paths, options.output)) return kUsage;
  uint64_t request = 0;
  if (const int found = FindId(trace, options.request, options.input, &request); found != kDone) return found;
  TextFile text(options.output == "-" ? WrapWidth(base::kColumns) : base::kColumns, request);
  HtmlFile html(request);
  uint64_t bytes = 0;
  const int written = WriteFile(options.html ? static_cast<Serializer&>(html) : text, trace, options.output, &bytes);
  if (written != kDone) return written;
  if (options.output != "-")
    PrintLine("wrote " + options.output + " (" + base::Bytes(bytes) + ")" +
              (options.html ? ": open it in a browser" : ""));
  return loaded;
}

}  // namespace

void AddReport(CommandLine& line) {
  auto options = std::make_shared<ReportOptions>();
  const Command command = line.Command("report", "Prints the text report of a dump: its slow requests and the reasons");
  command.Add("dump", &options->inputs, std::string(kDumpHelp) + kSeveralHelp).Required();
  command.Add("-o,--output", &options->output, "Output file; - is stdout").ShowDefault();
  command
      .Add("--request", &options->request,
           "Judge the request with this id (the server's own or Pitot's), or with the only id that begins so. "
           "Default: the incident's own request")
      .Check(IsSomeId);
  command.AddFlag("--html", &options->html,
                  "Write one page for a browser, with a picture of the request's time and the analyzers' findings");
  command.Run([options] {
    options->input = DumpPaths(&options->inputs);
    return Report(*options);
  });
}

}  // namespace pitot::cli
