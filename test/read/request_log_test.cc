// SPDX-License-Identifier: Apache-2.0
//
// The files in data/ were written by the loggers of these versions of vLLM and SGLang
// (docs/reference/formats/request_log.md).
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <string>

#include "read/log_lines.h"
#include "read/parse.h"

using pitot::Outcome;
using pitot::StatusCode;
using pitot::model::kOpen;
using pitot::model::RequestRow;
using read_test::Parse;
using read_test::Read;

namespace {

std::string DataFile(const std::string& name) {
  std::ifstream file(std::string(PITOT_READ_DATA) + "/" + name, std::ios::binary);
  REQUIRE(file);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// "id route begin+duration outcome [reason] [finish reason]" of each request. Times are in ms, begins from the first
// on.
std::string Requests(const Read& read) {
  std::string text;
  const auto ms = [](int64_t ns) { return std::to_string(ns / 1'000'000); };
  for (const RequestRow& row : read.trace.requests) {
    const bool is_open = row.duration_ns == kOpen;
    text += read.Name(row.host_id) + " " + read.Name(row.route) + " " + (row.begin_known ? "" : "before ") +
            ms(row.begin_ns - read.trace.requests[0].begin_ns) + "+" + (is_open ? "open" : ms(row.duration_ns)) + " " +
            (row.end_known ? OutcomeName(row.outcome) : "unknown");
    if (row.reason != 0) text += " [" + read.Name(row.reason) + "]";
    for (const auto& label : row.labels) text += " " + read.Name(label.value);
    text += "\n";
  }
  return text;
}
std::string Counters(const Read& read) {
  std::string text;
  const auto& samples = read.trace.samples;
  for (uint32_t row = 0; row < samples.counter.size(); ++row) {
    const auto& counter = read.trace.counters[samples.counter[row]];
    const bool is_first = row == 0 || samples.counter[row - 1] != samples.counter[row];
    text += is_first ? (row == 0 ? "" : "\n") + read.Name(counter.name) + " [" + read.Name(counter.unit) + "]" : "";
    char value[32];
    snprintf(value, sizeof value, " %g", samples.value[row]);
    text += value;
  }
  return text;
}
bool Lacks(const Read& read, const std::string& what) {
  return std::any_of(read.report.lacks.begin(), read.report.lacks.end(),
                     [&](const std::string& lack) { return lack == what || lack.rfind(what + " (", 0) == 0; });
}

constexpr char kVllmRequests[] =
    "chatcmpl-a1 /v1/chat/completions 0+3000 ok stop\n"
    "chatcmpl-b2 /v1/chat/completions 1000+13000 ok length\n"
    "cmpl-c3-0 /v1/completions 1000+0 unknown\n"
    "chatcmpl-d4 /v1/chat/completions 15000+1000 cancelled\n"
    "chatcmpl-e5 /v1/chat/completions 17000+1000 failed [failed (bad request): max_tokens must be at least 1.]\n"
    "chatcmpl-f6 /v1/chat/completions 19000+open unknown\n";
constexpr char kEngine[] = "INFO 11-26 12:00:00 [async_llm.py:1] ";

std::string Received(const std::string& date, const std::string& id) {
  return "INFO " + date + " [logger.py:42] Received request " + id +
         ": params: SamplingParams(n=1), lora_request: None.\n";
}
std::string Generated(const std::string& date, const std::string& id, const std::string& finish = "stop") {
  return "INFO " + date + " [logger.py:42] Generated response " + id + ": output: 'x', finish_reason: " + finish + "\n";
}

}  // namespace

TEST_CASE("a log of vLLM is requests, whatever is in their texts, also over a new year", "[request_log]") {
  for (const char* const name : {"vllm_0.15.1.log", "vllm_0.32.0.log", "vllm_0.32.0_color.log"}) {
    const Read read = Parse(DataFile(name));
    INFO(name);
    REQUIRE(read.status.ok());
    CHECK(Requests(read) == kVllmRequests);
    CHECK(read.report.format == "request_log");
    CHECK(read.report.tool == "vLLM");
    CHECK(read.trace.pid == 4242);
    CHECK(Lacks(read, "times below 1 s"));
    CHECK(Lacks(read, "the date"));
    CHECK(Lacks(read, "queues"));
    CHECK(read.trace.clock.realtime_ns == 0);
  }
}

TEST_CASE("vLLM's log in JSON has milliseconds", "[request_log]") {
  const Read read = Parse(DataFile("vllm_0.32.0_json.log"));

  REQUIRE(read.status.ok());
  CHECK(Requests(read) == kVllmRequests);
  CHECK(read.trace.requests[0].begin_ns % 1'000'000'000 == 123'000'000);
  CHECK(!Lacks(read, "times below 1 s"));
  CHECK(Lacks(read, "the time zone"));
}

TEST_CASE("a log of vLLM without its answers leaves the ends of requests unknown", "[request_log]") {
  const Read read = Parse(DataFile("vllm_0.9.2.log"));

  REQUIRE(read.status.ok());
  CHECK(Requests(read) ==
        "chatcmpl-a1 /v1/chat/completions 0+0 unknown\n"
        "chatcmpl-b2 /v1/chat/completions 1000+0 unknown\n"
        "cmpl-c3-0 /v1/completions 1000+0 unknown\n"
        "chatcmpl-d4 /v1/chat/completions 15000+1000 cancelled\n"
        "chatcmpl-e5 /v1/chat/completions 17000+1000 failed [failed (bad request).]\n"
        "chatcmpl-f6 /v1/chat/completions 19000+0 unknown\n");
  CHECK(Lacks(read, "ends of requests"));
}

TEST_CASE("vLLM's numbers of an engine are counters with units", "[request_log]") {
  const Read read = Parse(DataFile("vllm_0.32.0.log"));

  CHECK(Counters(read) ==
        "Avg prompt throughput [tokens/s] 12.5 12.5 12.5\nAvg generation throughput [tokens/s] 340.2 340.2 340.2\n"
        "Running [reqs] 3 2 1\nWaiting [reqs] 0 1 0\nGPU KV cache usage [%] 3.2 3.2 3.2\n"
        "Prefix cache hit rate [%] 0 0 0");
}

TEST_CASE("counters of several engines have their names", "[request_log]") {
  std::string log;
  for (const char* const engine : {"000", "001"})
    log += std::string("INFO 11-26 12:00:00 [loggers.py:1] Engine ") + engine +
           ": Avg prompt throughput: 1.0 tokens/s, Running: 2 reqs\n";

  CHECK(Counters(Parse(log)) ==
        "Engine 000: Avg prompt throughput [tokens/s] 1\nEngine 000: Running [reqs] 2\n"
        "Engine 001: Avg prompt throughput [tokens/s] 1\nEngine 001: Running [reqs] 2");
}

TEST_CASE("a text log of SGLang has exact latencies and tokens", "[request_log]") {
  const Read read = Parse(DataFile("sglang_0.5.23.log"));

  REQUIRE(read.status.ok());
  CHECK(Requests(read) ==
        "a1 request 0+1500 ok stop\n"
        "b2 request 0+2000 ok length\n"
        "b3 request 0+2500 cancelled [Request timed out, isn't it] abort\n"
        "c4 request 3000+open unknown\n");
  CHECK(read.report.tool == "SGLang");
  CHECK(read.trace.requests[0].output_tokens == 8);
  REQUIRE(read.trace.requests[0].sizes.size() == 2);
  CHECK(read.trace.requests[0].sizes[0].value == 12);
  CHECK(read.Name(read.trace.requests[0].sizes[0].name) == "input tokens");
  CHECK(Lacks(read, "queues"));
  CHECK(read.trace.handoffs.empty());
}

TEST_CASE("SGLang's batches are counters", "[request_log]") {
  CHECK(Counters(Parse(DataFile("sglang_0.5.23.log"))) ==
        "new-seq [] 2\nnew-token [] 20\ncached-token [] 8\ntoken usage [] 0.01 0.02\nrunning-req [] 1 2\n"
        "queue-req [] 0 0\npending-token [] 0\ninput throughput [token/s] 33.3\ntoken [] 64\n"
        "gen throughput [token/s] 81.25");
}

TEST_CASE("SGLang's log in JSON with metrics has queues, stages and the date", "[request_log]") {
  const Read read = Parse(DataFile("sglang_0.5.23_json.log"));

  REQUIRE(read.status.ok());
  CHECK(Requests(read) ==
        "a1 request 0+1500 ok stop\n"
        "b2 request 500+2000 ok length\n"
        "b3 request 500+2500 cancelled [Request timed out, isn't it] abort\n"
        "c4 request 3200+open unknown\n");
  const auto& trace = read.trace;
  REQUIRE(trace.handoffs.size() == 3);
  CHECK(trace.handoffs[0].take_ns - trace.handoffs[0].enqueue_ns == 250'000'000);
  CHECK(trace.requests[0].first_token_ns == 500'000'000);
  REQUIRE(trace.requests[0].stages.size() == 3);
  CHECK(trace.requests[0].stages[2].duration_ns == 1'000'000'000);
  // 12:00:00.25 in a zone of 5 h 30 min.
  const int64_t unix_ns = trace.requests[0].begin_ns + trace.clock.realtime_ns - trace.clock.monotonic_ns;
  CHECK(unix_ns == 1'795'674'600'250'000'000);
  CHECK(!Lacks(read, "queues"));
  CHECK(!Lacks(read, "the time zone"));
}

TEST_CASE("SGLang's file of metrics is requests in Unix time", "[request_log]") {
  const Read read = Parse(DataFile("sglang_0.5.23_metrics.log"));

  REQUIRE(read.status.ok());
  CHECK(Requests(read) ==
        "a1 request 0+1500 ok stop\n"
        "b2 request 500+2000 ok length\n"
        "b3 request 500+2500 cancelled [Request timed out, isn't it] abort\n");
  CHECK(read.trace.requests[0].begin_ns == 1'795'674'600'250'000'000);
  CHECK(read.trace.clock.realtime_ns == read.trace.clock.monotonic_ns);
  CHECK(Lacks(read, "counters"));
}

TEST_CASE("lines of SGLang without a time take that of the line before, and are counted", "[request_log]") {
  const Read read = Parse(DataFile("sglang_0.5.9.log"));

  REQUIRE(read.status.ok());
  CHECK(read.Count("lines_without_time") == 7);
  CHECK(read.report.problems.find("use --log-requests-format json") != std::string::npos);
  CHECK(Requests(read).find("a1 request 0+1500 ok stop\n") == 0);
}

TEST_CASE("health checks of SGLang are not requests", "[request_log]") {
  const std::string begin = "[2026-11-26 12:00:00] Receive: obj=GenerateReqInput(rid='";
  const Read read = Parse(begin + "HEALTH_CHECK_1', text='x')\n" + begin + "a', text='x')\n");

  CHECK(read.trace.requests.size() == 1);
  CHECK(read.Count("health_checks") == 1);
}

TEST_CASE("vLLM's random suffix of ids is the same request, and an abort after the answer changes nothing",
          "[request_log]") {
  const Read read =
      Parse(Received("11-26 12:00:00", "x") + kEngine + "Added request x-0a1b2c3d.\n" +
            Generated("11-26 12:00:01", "x") + kEngine + "Aborted request(s) x,y.\n" + Received("11-26 12:00:02", "x"));

  CHECK(Requests(read) == "x request 0+1000 ok stop\ny request before 0+0 cancelled\nx request 2000+open unknown\n");
}

TEST_CASE("an id that begins again is another request, and the end of the first is unknown", "[request_log]") {
  const Read read =
      Parse(Received("11-26 12:00:00", "x") + Received("11-26 12:00:01", "x") + Generated("11-26 12:00:03", "x"));
  CHECK(Requests(read) == "x request 0+0 unknown\nx request 1000+2000 ok stop\n");

  const std::string metrics = DataFile("sglang_0.5.23_metrics.log");
  CHECK(Parse(metrics + metrics).trace.requests.size() == 6);
}

TEST_CASE("lines of old versions of vLLM, and of Docker Compose, are read", "[request_log]") {
  const Read read = Parse(
      "api-1  | INFO 02-22 16:52:30 async_llm_engine.py:433] Received request a: prompt: 'x', prefix_pos: None\n"
      "api-1  | INFO 02-22 16:52:30 metrics.py:161] Avg prompt throughput: 0.9 tokens/s, Pending: 0 reqs, CPU KV cache "
      "usage: 0.5%.\n"
      "api-1  | INFO 02-22 16:52:31 engine.py:255] Added request b.\n"
      "api-1  | INFO 02-22 16:52:32 async_llm_engine.py:110] Finished request a.\n");

  CHECK(Requests(read) == "a request 0+2000 ok\nb request 1000+open unknown\n");
  CHECK(Counters(read) == "Avg prompt throughput [tokens/s] 0.9\nPending [reqs] 0\nCPU KV cache usage [%] 0.5");
}

TEST_CASE("SGLang's requests have the exact begin that it prints of them", "[request_log]") {
  const std::string meta = R"('meta_info': {'id': 'a', 'e2e_latency': 2.5}})";
  const std::string meta_json = R"("meta_info": {"id": "a", "e2e_latency": 2.5}})";
  const std::string text =
      "[2026-11-26 12:00:03] Finish: obj=GenerateReqInput(received_time=1795674600.25, rid='a'), out={" + meta + "\n";
  const std::string json =
      R"({"timestamp": "2026-11-26T12:00:02.75", "event": "request.finished", "rid": "a", "obj": {"received_time": )"
      R"(1795674600.25}, "out": {)" +
      meta_json + "}\n";
  for (const std::string& log : {text, json}) {
    const Read read = Parse(log);
    REQUIRE(read.trace.requests.size() == 1);
    const RequestRow& row = read.trace.requests[0];
    CHECK(row.duration_ns == 2'500'000'000);
    CHECK(row.begin_ns + read.trace.clock.realtime_ns - read.trace.clock.monotonic_ns == 1'795'674'600'250'000'000);
  }
}

TEST_CASE("a line of another file or module is not a request's", "[request_log]") {
  const Read read = Parse(Received("11-26 12:00:00", "a") +
                          "INFO 11-26 12:00:00 [serving.py:7] Received request b: params: x\n"
                          "Received request c: params: x\n");

  CHECK(Requests(read) == "a request 0+0 unknown\n");
  CHECK(read.Count("other_lines") == 2);
}

TEST_CASE("the 29th of February counts if a line has it", "[request_log]") {
  CHECK(Requests(Parse(Received("02-28 23:59:59", "a") + Generated("03-01 00:00:00", "a"))) ==
        "a request 0+1000 ok stop\n");
  CHECK(Requests(Parse(Received("02-28 23:59:59", "a") + Received("02-29 12:00:00", "b") +
                       Generated("03-01 00:00:00", "a"))) ==
        "a request 0+86401000 ok stop\nb request 43201000+open unknown\n");
}

TEST_CASE("damaged lines are counted, and the others read", "[request_log]") {
  const std::string whole = DataFile("sglang_0.5.23_metrics.log");
  const size_t second = whole.find('\n') + 1;
  const Read read = Parse(whole.substr(0, second + 300));

  CHECK(read.status.code() == StatusCode::kDataLoss);
  CHECK(std::string(read.status.message()) == "1 line of 2 about requests or engines could not be read");
  CHECK(read.trace.requests.size() == 1);
  CHECK(read.report.events_bad == 1);
  CHECK(!read.trace.losses.empty());
  CHECK(!read.report.complete);
  const Read cut =
      Parse(Received("11-26 12:00:00", "a") + "INFO 11-26 12:00:01 [logger.py:4] Generated response a: out");
  CHECK(cut.report.events_bad == 1);
  const Read text = Parse("[2026-11-26 12:00:00] Finish: obj=GenerateReqInput(rid='a'), out={'meta_info': {'id': 'a");
  CHECK(text.report.events_bad == 1);
}

TEST_CASE("a time that is none is a damaged line", "[request_log]") {
  const Read read = Parse(Received("11-26 12:00:00", "a") + Received("13-26 12:00:00", "b"));

  CHECK(read.report.events_bad == 1);
  CHECK(read.trace.requests.size() == 1);
}

TEST_CASE("a line of any length is read in bounded memory", "[request_log]") {
  const std::string before = Received("11-26 12:00:00", "a");
  const std::string log =
      before + std::string(pitot::read::LogLines::kMostBytes + (1 << 20), 'x') + "\n" + Received("11-26 12:00:01", "b");
  const Read read = Parse(log);

  CHECK(read.status.code() == StatusCode::kDataLoss);
  CHECK(read.Count("lines_too_long") == 1);
  CHECK(Requests(read) == "a request 0+0 unknown\nb request 1000+0 unknown\n");
}

TEST_CASE("a line may have 16 MiB, and not a byte more", "[request_log]") {
  const std::string longest(pitot::read::LogLines::kMostBytes, 'x'), rest = "\n" + Received("11-26 12:00:01", "b");

  CHECK(Parse(Received("11-26 12:00:00", "a") + longest + rest).Count("lines_too_long") == 0);
  CHECK(Parse(Received("11-26 12:00:00", "a") + longest + "x" + rest).Count("lines_too_long") == 1);
}

TEST_CASE("a log of vLLM without requests says what to switch on", "[request_log]") {
  const Read read = Parse("INFO 11-26 12:00:00 [__init__.py:239] Automatically detected platform cuda.\n");

  CHECK(read.status.code() == StatusCode::kInvalidArgument);
  CHECK(std::string(read.status.message()).find("--enable-log-requests") != std::string::npos);
  CHECK(read.report.is_empty);
}

TEST_CASE("other logs are not taken for logs of requests", "[request_log]") {
  for (const char* const log : {"[2026-11-26 12:00:00] Something else\n", "INFO: started\n",
                                R"({"timestamp": "2026-11-26T12:00:00", "event": "login"})", "Received request a.\n"})
    CHECK(Parse(log).report.format != "request_log");
}
