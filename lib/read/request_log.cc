// SPDX-License-Identifier: Apache-2.0
//
// Logs of vLLM (--enable-log-requests) and SGLang (--log-requests), and SGLang's metrics of requests
// (--export-metrics-to-file). A line is a request that came or ended, or the numbers of an engine. Other lines are
// passed over.
#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/columns.h"
#include "read/formats.h"
#include "read/log_line.h"
#include "read/log_lines.h"
#include "read/python_text.h"
#include "read/served_requests.h"
#include "read/server_counters.h"
#include "read/sglang_result.h"
#include "read/trace_builder.h"

namespace pitot::read {
namespace {

using simdjson::dom::object;

std::string_view TextAt(const object& from, const char* key) {
  std::string_view text;
  return from[key].get(text) == simdjson::SUCCESS ? text : std::string_view();
}

// The fraction by itself: a double of Unix time in ns is not exact to 100 ns.
int64_t NsOf(double seconds) {
  if (seconds >= 4e9) return model::kMaxTimeNs;
  const double whole = std::floor(seconds);
  return static_cast<int64_t>(whole) * 1'000'000'000 + std::llround((seconds - whole) * 1e9);
}
int64_t TokensOf(const std::optional<double>& tokens) {
  return tokens ? static_cast<int64_t>(std::min(*tokens, 1e15)) : -1;
}

// vLLM's ids begin with what their API calls an answer.
std::string_view RouteOf(std::string_view id) {
  if (id.starts_with("chatcmpl-")) return "/v1/chat/completions";
  if (id.starts_with("cmpl-")) return "/v1/completions";
  return id.starts_with("resp_") ? "/v1/responses" : "request";
}

class RequestLogReader {
 public:
  RequestLogReader(model::Trace* trace, TraceReport* report)
      : trace_(*trace), report_(*report), builder_(trace), requests_(trace), counters_(trace, &builder_) {}

  void Take(std::string_view text, bool is_too_long) {
    std::optional<LogLine> line = is_too_long ? std::nullopt : ParseLogLine(text);
    too_long_ += is_too_long;
    if (!line) return ++others_, void();
    at_ns_ = line->time ? clock_.At(*line->time) : last_ns_;
    is_timed_ = line->time.has_value();
    is_coarse_ = line->time && line->time->is_coarse;
    if (is_timed_) NoteTime(line->time->year != 0);
    const Taken taken = line->message.starts_with('{')           ? TakeJson(*line)
                        : line->writer == LogLine::Writer::kVllm ? TakeVllm(*line)
                                                                 : TakeSglang(*line);
    others_ += taken == Taken::kOther;
    report_.events += taken != Taken::kOther;
    report_.events_bad += taken == Taken::kBad;
  }

  void Finish();

 private:
  enum class Taken : uint8_t { kOther, kYes, kBad };

  void NoteTime(bool has_year) {
    if (!at_ns_) return;
    last_ns_ = at_ns_;
    first_ns_ = std::min(first_ns_.value_or(*at_ns_), *at_ns_);
    has_year_ |= has_year;
  }
  Taken Note(const LogLine& line, bool is_good) {
    const bool is_vllm = line.writer == LogLine::Writer::kVllm;
    (is_vllm ? has_vllm_ : has_sglang_) = true;
    if (line.pid != 0 && trace_.pid == 0) trace_.pid = line.pid;
    return is_good ? Taken::kYes : Taken::kBad;
  }
  // A line about a request is good if it has an id and a time.
  bool IsUsable(std::string_view id) {
    if (id.empty() || !at_ns_) return false;
    untimed_ += !is_timed_;
    are_coarse_ |= is_coarse_ || !is_timed_;
    return true;
  }

  Taken TakeVllm(const LogLine& line);
  Taken TakeVllmRequest(const LogLine& line);
  Taken TakeVllmEngine(const LogLine& line);
  bool TakeEnd(std::string_view id, Outcome outcome, std::string_view reason);
  bool TakeGenerated(std::string_view message);
  Taken TakeJson(const LogLine& line);
  Taken TakeVllmJson(const object& members);
  bool TakeSglangJson(const object& members);
  Taken TakeSglang(const LogLine& line);
  bool TakeSglangText(std::string_view message, bool is_end);
  bool TakeBegin(std::string_view id, std::string_view route);
  bool TakeResult(const SglangResult& result, std::string_view id);
  void FindZone(const SglangResult& result);

  void NoteLacks();

  model::Trace& trace_;
  TraceReport& report_;
  TraceBuilder builder_;
  ServedRequests requests_;
  ServerCounters counters_;
  LogClock clock_;
  simdjson::dom::parser parser_;
  std::optional<int64_t> at_ns_, first_ns_, last_ns_;  // by the server's local clock
  bool is_timed_ = false, is_coarse_ = false;          // this line
  bool are_coarse_ = false, has_year_ = false, has_vllm_ = false, has_sglang_ = false;
  std::optional<int64_t> zone_ns_;  // the local clock is ahead of UTC
  uint64_t others_ = 0, too_long_ = 0, untimed_ = 0, health_checks_ = 0, samples_ = 0;
};

// The file whose code wrote a line keeps texts of requests from being taken for lines.
RequestLogReader::Taken RequestLogReader::TakeVllm(const LogLine& line) {
  const std::string_view place = line.place;
  const bool is_old = place == "async_llm_engine";  // which logged everything about requests
  if (place == "logger" || place == "request_logger" || (is_old && line.message.starts_with("Received")))
    return TakeVllmRequest(line);
  if (place == "async_llm" || place == "engine" || is_old) return TakeVllmEngine(line);
  if (place != "loggers" && place != "metrics") return Taken::kOther;
  const size_t begin = line.message.find("Avg prompt throughput: ");
  if (begin > 64) return Taken::kOther;  // or npos
  const std::string_view engine = line.message.substr(0, begin);
  const bool is_good =
      at_ns_ && counters_.Take(engine.substr(0, engine.find(": ")), line.message.substr(begin), *at_ns_);
  samples_ += is_good;
  return Note(line, is_good);
}

RequestLogReader::Taken RequestLogReader::TakeVllmRequest(const LogLine& line) {
  constexpr std::string_view kReceived = "Received request ", kGenerated = "Generated response ";
  if (line.message.starts_with(kReceived)) {
    const std::string_view rest = line.message.substr(kReceived.size());
    const size_t end = std::min(rest.find(": params: "), rest.find(": prompt: "));
    return Note(line, end != std::string_view::npos && TakeBegin(rest.substr(0, end), RouteOf(rest)));
  }
  if (!line.message.starts_with(kGenerated)) return Taken::kOther;
  const std::string_view rest = line.message.substr(kGenerated.size());
  const size_t details = rest.find(" details: ");
  if (details < rest.find(": output: ")) return Taken::kOther;
  return Note(line, TakeGenerated(rest));
}

// "ID (streaming delta): output: '...', finish_reason: stop". A part of a stream is a sign of life.
bool RequestLogReader::TakeGenerated(std::string_view rest) {
  constexpr std::string_view kOutput = ": output: ", kReason = ", finish_reason: ";
  const size_t output = rest.find(kOutput), reason = rest.rfind(kReason);
  if (output == std::string_view::npos || reason == std::string_view::npos || reason < output) return false;
  std::string_view id = rest.substr(0, output), finish = rest.substr(reason + kReason.size());
  const size_t stream = id.find(" (streaming ");
  const bool is_part = stream != std::string_view::npos && id.substr(stream) == " (streaming delta)";
  id = id.substr(0, stream);
  if (!IsUsable(id)) return false;
  ServedRequest* const request = requests_.FindOrAdd(id, RouteOf(id));
  request->last_ns = std::max(request->last_ns, *at_ns_);
  if (finish != "None" && finish != "streaming_complete" && request->finish == 0)
    request->finish = requests_.Intern(finish);
  if (is_part || (request->is_ended && request->outcome != Outcome::kOk)) return true;
  request->is_ended = true;
  request->end_ns = request->last_ns;  // several answers to one request each have a line
  if (finish == "abort") request->outcome = Outcome::kCancelled;
  if (finish == "error") request->outcome = Outcome::kFailed;
  return true;
}

RequestLogReader::Taken RequestLogReader::TakeVllmEngine(const LogLine& line) {
  constexpr std::string_view kAdded = "Added request ", kRequest = "Request ", kFinished = "Finished request ";
  constexpr std::string_view kAborted[] = {"Aborted request ", "Aborted request(s) "};
  std::string_view rest = line.message;
  const auto eat = [&](std::string_view begin) {
    const bool is_there = rest.starts_with(begin);
    if (is_there) rest.remove_prefix(begin.size());
    return is_there;
  };
  const auto without_dot = [&] { return rest.ends_with('.') ? rest.substr(0, rest.size() - 1) : std::string_view(); };
  if (eat(kAdded)) {
    const std::string_view id = without_dot();
    ServedRequest* const known = id.empty() ? nullptr : requests_.Find(id);
    if (known == nullptr || known->is_ended) return Note(line, TakeBegin(id, RouteOf(id)));
    return Note(line, IsUsable(id));
  }
  if (eat(kFinished)) return Note(line, TakeEnd(without_dot(), Outcome::kOk, ""));
  if (eat(kAborted[0]) || eat(kAborted[1])) {
    std::string_view ids = without_dot();
    bool is_good = !ids.empty();
    while (!ids.empty()) {
      const size_t size = std::min(ids.find(','), ids.size());
      is_good &= TakeEnd(ids.substr(0, size), Outcome::kCancelled, "");
      ids.remove_prefix(std::min(size + 1, ids.size()));
    }
    return Note(line, is_good);
  }
  if (!eat(kRequest)) return Taken::kOther;
  const size_t end = rest.find(' ');
  if (end == std::string_view::npos) return Taken::kOther;
  const std::string_view id = rest.substr(0, end), what = rest.substr(end + 1);
  if (what == "aborted.") return Note(line, TakeEnd(id, Outcome::kCancelled, ""));
  if (!what.starts_with("failed")) return Taken::kOther;
  return Note(line, TakeEnd(id, Outcome::kFailed, what));
}

// The first end counts: an abort comes by two lines, and may come after an answer.
bool RequestLogReader::TakeEnd(std::string_view id, Outcome outcome, std::string_view reason) {
  if (!IsUsable(id)) return false;
  ServedRequest* const request = requests_.FindOrAdd(id, RouteOf(id));
  if (request->is_ended) return true;
  request->is_ended = true;
  request->end_ns = request->last_ns = std::max(request->last_ns, *at_ns_);
  request->outcome = outcome;
  request->reason = requests_.Intern(reason);
  return true;
}

bool RequestLogReader::TakeBegin(std::string_view id, std::string_view route) {
  if (!IsUsable(id)) return false;
  if (id.find("HEALTH_CHECK") != std::string_view::npos) return ++health_checks_, true;
  ServedRequest* const request = requests_.Add(id, route);
  request->is_begun = true;
  request->begin_ns = request->last_ns = *at_ns_;
  return true;
}

RequestLogReader::Taken RequestLogReader::TakeJson(const LogLine& line) {
  object members;
  if (parser_.parse(line.message.data(), line.message.size()).get(members) != simdjson::SUCCESS)
    return IsServersLogLine(line.message) ? Note(line, false) : Taken::kOther;
  if (line.writer == LogLine::Writer::kVllm) return TakeVllmJson(members);
  const bool is_event = TextAt(members, "event").starts_with("request.");
  if (!is_event && members["request_parameters"].error() != simdjson::SUCCESS) return Taken::kOther;
  if (TextAt(members, "event") == "request.received.openai") return Taken::kOther;
  return Note(line, TakeSglangJson(members));
}

// The members of a line of text, by the formatter "json".
RequestLogReader::Taken RequestLogReader::TakeVllmJson(const object& members) {
  LogLine line;
  line.time = ParseLogTime(TextAt(members, "asctime"));
  line.message = TextAt(members, "message");
  line.place = TextAt(members, "name");
  if (!line.place.starts_with("vllm")) return Taken::kOther;
  line.place.remove_prefix(line.place.rfind('.') + 1);  // npos + 1 is 0
  if (members["process"].get(line.pid) != simdjson::SUCCESS) line.pid = 0;
  at_ns_ = line.time ? clock_.At(*line.time) : std::nullopt;
  is_timed_ = line.time.has_value();
  is_coarse_ = line.time && line.time->is_coarse;
  NoteTime(true);
  return TakeVllm(line);
}

// A request that came or ended; or one of the file of metrics, which has no event.
bool RequestLogReader::TakeSglangJson(const object& members) {
  const std::string_view event = TextAt(members, "event");
  if (const auto time = ParseLogTime(TextAt(members, "timestamp"))) {
    at_ns_ = clock_.At(*time);
    is_timed_ = true;
    is_coarse_ = time->is_coarse;
    NoteTime(true);
  }
  if (event == "request.received") {
    simdjson::dom::array ids;
    if (members["rid"].get(ids) != simdjson::SUCCESS) return TakeBegin(TextAt(members, "rid"), "request");
    bool is_good = true;
    for (const auto id : ids) {
      std::string_view text;
      is_good &= id.get(text) == simdjson::SUCCESS && TakeBegin(text, "request");
    }
    return is_good;
  }
  if (event.empty()) return TakeResult(ResultOf(members), "");
  object meta_info;
  const bool has_result = members["out"]["meta_info"].get(meta_info) == simdjson::SUCCESS;
  SglangResult result = has_result ? ResultOf(meta_info) : SglangResult();
  double received_s;
  if (!result.received_s && members["obj"]["received_time"].get(received_s) == simdjson::SUCCESS)
    result.Set("request_received_ts", received_s);
  return TakeResult(result, TextAt(members, "rid"));
}

RequestLogReader::Taken RequestLogReader::TakeSglang(const LogLine& line) {
  std::string_view message = line.message;
  const bool is_end = message.starts_with("Finish: obj=");
  if (is_end || message.starts_with("Receive: obj=")) return Note(line, TakeSglangText(message, is_end));
  if (!message.starts_with("Prefill batch") && !message.starts_with("Decode batch")) return Taken::kOther;
  const size_t begin = message.find('#');
  if (begin > 64) return Taken::kOther;  // or npos
  const bool is_good = at_ns_ && counters_.Take(line.process, message.substr(begin), *at_ns_);
  samples_ += is_good;
  return Note(line, is_good);
}

// "Receive: obj=GenerateReqInput(rid='a', ...)", "Finish: obj=GenerateReqInput(...), out={'meta_info': {...}}".
bool RequestLogReader::TakeSglangText(std::string_view message, bool is_end) {
  PythonFields fields(message.substr(message.find(' ') + 1), "=");
  std::string_view object, out;
  while (fields.Next()) {
    if (fields.key() == "obj") object = fields.value();
    if (fields.key() == "out") out = fields.value();
  }
  if (fields.is_cut()) return false;
  std::vector<std::string_view> ids;
  std::string_view received;
  for (PythonFields inner(WithinBrackets(object), "="); inner.Next();) {
    if (inner.key() == "rid") ids = TextsOf(inner.value());
    if (inner.key() == "received_time") received = inner.value();
  }
  if (!is_end) {
    bool is_good = !ids.empty();
    for (const std::string_view id : ids) is_good &= TakeBegin(id, "request");
    return is_good;
  }
  SglangResult result;
  for (PythonFields inner(WithinBrackets(out), ": "); inner.Next();) {
    if (inner.key() == "meta_info") result = ResultOf(inner.value());
  }
  if (!result.received_s) result.SetPrinted("request_received_ts", received);
  return TakeResult(result, ids.empty() ? "" : ids[0]);
}

// The local clock is whole quarters of an hour ahead of UTC.
void RequestLogReader::FindZone(const SglangResult& result) {
  constexpr int64_t kQuarterNs = 900'000'000'000;
  if (zone_ns_ || !result.received_s || *result.received_s > 4e9) return;
  if (!at_ns_) return void(zone_ns_ = 0);  // a file of metrics has no local time
  const int64_t end_ns = NsOf(*result.received_s) + NsOf(result.end_to_end_s.value_or(0));
  const double quarters = static_cast<double>(*at_ns_ - end_ns) / static_cast<double>(kQuarterNs);
  zone_ns_ = std::llround(quarters) * kQuarterNs;
}

bool RequestLogReader::TakeResult(const SglangResult& result, std::string_view id) {
  if (!result.id.empty()) id = result.id;
  if (id.find("HEALTH_CHECK") != std::string_view::npos) return ++health_checks_, true;
  FindZone(result);
  const bool is_exact = result.received_s && zone_ns_;
  if (id.empty() || (!is_exact && !at_ns_)) return false;
  if (!is_exact && !IsUsable(id)) return false;
  ServedRequest* request = requests_.Find(id);
  if (request == nullptr || request->is_ended) request = requests_.Add(id, "request");
  const bool has_length = result.end_to_end_s.has_value();
  const int64_t length_ns = NsOf(result.end_to_end_s.value_or(0));
  if (is_exact) {
    request->begin_ns = NsOf(*result.received_s) + *zone_ns_;
  } else if (!request->is_begun && has_length) {
    request->begin_ns = *at_ns_ - length_ns;
  }
  request->is_begun |= is_exact || has_length;
  request->end_ns = has_length ? request->begin_ns + length_ns : at_ns_.value_or(request->begin_ns);
  request->last_ns = request->end_ns;
  request->is_ended = has_length || at_ns_;
  request->finish = requests_.Intern(result.finish);
  if (result.finish == "abort") {
    request->outcome = Outcome::kCancelled;
    request->reason = requests_.Intern(result.reason);
  }
  if (result.queue_s) request->queue_ns = NsOf(*result.queue_s);
  if (result.first_token_s) request->first_token_ns = NsOf(*result.first_token_s);
  if (result.first_token_at_s && result.received_s && *result.first_token_at_s > *result.received_s &&
      !result.first_token_s)
    request->first_token_ns = NsOf(*result.first_token_at_s - *result.received_s);
  request->input_tokens = TokensOf(result.prompt_tokens);
  request->cached_tokens = TokensOf(result.cached_tokens);
  request->output_tokens = TokensOf(result.completion_tokens);
  return true;
}

void RequestLogReader::NoteLacks() {
  std::vector<std::string>& lacks = report_.lacks;
  const std::vector<ServedRequest>& all = requests_.all();
  const auto has = [&](const auto& what) { return std::any_of(all.begin(), all.end(), what); };
  if (all.empty()) lacks.push_back("requests (start vLLM with --enable-log-requests, SGLang with --log-requests)");
  if (are_coarse_) lacks.push_back("times below 1 s (the log's lines have whole seconds)");
  if (!all.empty() && !has([](const ServedRequest& one) { return one.queue_ns != 0; }))
    lacks.push_back(has_vllm_ ? "queues" : "queues (SGLang says them with --enable-metrics)");
  if (!all.empty() && !has([](const ServedRequest& one) { return one.output_tokens >= 0; }))
    lacks.push_back("numbers of tokens");
  if (!requests_.RoutesWithoutEnds().empty())
    lacks.push_back(has_vllm_ ? "ends of requests (vLLM says those of chats with --enable-log-outputs)"
                              : "ends of requests");
  if (samples_ == 0) lacks.push_back("counters (the log has no line of an engine)");
  if (!zone_ns_) lacks.push_back(has_year_ ? "the time zone" : "the date (the log has no year and no time zone)");
}

void RequestLogReader::Finish() {
  report_.complete = report_.events_bad == 0 && too_long_ == 0 && report_.complete;
  NoteLacks();
  if (zone_ns_) builder_.SetUnixOffset(-*zone_ns_);
  requests_.AddTo(&builder_, first_ns_.value_or(0));
  builder_.Finish(!report_.complete);
  if (has_vllm_ != has_sglang_) report_.tool = has_vllm_ ? "vLLM" : "SGLang";
  trace_.process_name = requests_.Intern(report_.tool);
  if (too_long_ != 0) AddProblem(base::Plural(too_long_, "line") + " above 16 MiB: left out", &report_);
  if (untimed_ != 0)
    AddProblem(base::Plural(untimed_, "line") +
                   " about a request without a time, for which that of the line before was taken: use "
                   "--log-requests-format json",
               &report_);
  report_.counts = {{"requests", requests_.all().size()},
                    {"samples", samples_},
                    {"other_lines", others_},
                    {"lines_too_long", too_long_},
                    {"lines_without_time", untimed_},
                    {"health_checks", health_checks_}};
  builder_.ReportTimes(&report_);
}

// A server prints other lines first.
bool IsRequestLog(const Head& head) {
  constexpr size_t kMostLines = 2000, kMostLineBytes = 4096;
  if (head.is_database || head.json.events != 0) return false;
  std::string_view rest = head.bytes;
  if (rest.substr(0, kMostLineBytes).find('\0') != std::string_view::npos) return false;
  for (size_t line = 0; line < kMostLines && !rest.empty(); ++line) {
    const size_t size = std::min(rest.find('\n'), rest.size());
    if (IsServersLogLine(rest.substr(0, std::min(size, kMostLineBytes)))) return true;
    rest.remove_prefix(std::min(size + 1, rest.size()));
  }
  return false;
}

Status ReadRequestLog(const Input& input, model::Trace* trace, TraceReport* report) {
  const std::unique_ptr<ByteSource> source = input.Open(&report->is_gzip);
  RequestLogReader reader(trace, report);
  LogLines lines(source.get());
  while (lines.Next()) reader.Take(lines.text(), lines.is_too_long());
  const Status& status = source->status();
  if (!status.ok() && status.code() != StatusCode::kDataLoss) return status;
  report->complete = status.ok();
  reader.Finish();
  if (report->complete) return {};
  std::string loss = status.ok() ? "" : status.message();
  if (report->events_bad != 0)
    loss += (loss.empty() ? "" : "; ") + base::Plural(report->events_bad, "line") + " of " +
            base::Count(report->events) + " about requests or engines could not be read";
  if (loss.empty()) loss = "lines above 16 MiB were left out";
  return Status(StatusCode::kDataLoss, loss.c_str());
}

}  // namespace

const Format kRequestLogFormat = {
    "request_log",
    "request log",
    "logs of requests by vLLM and SGLang",
    "vLLM or SGLang",
    "start vLLM with --enable-log-requests and --enable-log-outputs, SGLang with --log-requests and --enable-metrics",
    {"scopes and calls", "GPU work", "what threads did", "batches", "tokens", "triggers", "losses"},
    {{"request", "start vLLM with --enable-log-requests and --enable-log-outputs, SGLang with --log-requests"},
     {"kernel", "a log has none: record with Pitot or a profiler"},
     {"layer", "a log has none: record with Pitot or a profiler"}},
    IsRequestLog,
    ReadRequestLog};

}  // namespace pitot::read
