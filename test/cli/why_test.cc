// SPDX-License-Identifier: Apache-2.0
//
// `pitot why` on the dump of a small server.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "analyze/decode_server.h"
#include "analyze/prompt_server.h"
#include "analyze/small_server.h"
#include "base/columns.h"
#include "cli/folder.h"
#include "golden.h"

namespace {

using cli_test::Dump;
using cli_test::Folder;
using cli_test::Result;
using nlohmann::json;
using pitot::model::kNone;
using small_server::Server;

bool Contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("why explains the abnormal time of the request that fired", "[cli]") {
  const Folder folder;
  folder.Write("dump.pitot", Dump(Server().Make(140)));

  const Result result = folder.Run("why dump.pitot");

  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  CheckGolden("cli_why.txt", result.out);
}

TEST_CASE("why prints the parts of a request, and a note if too few requests are like it", "[cli]") {
  const Folder folder;
  folder.Write("dump.pitot", Dump());

  const Result result = folder.Run("why dump.pitot");

  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  CheckGolden("cli_why_few.txt", result.out);
  CHECK(Contains(result.err, "`pitot why DUMP --baseline FILE --save-baseline FILE`"));
  CHECK(folder.Run("why dump.pitot --json").err.empty());
}

TEST_CASE("why reports losses in the time of similar requests as the reason for no verdict", "[cli]") {
  const Folder folder;
  pitot::model::Trace trace = Server().Make(140);
  using pitot::model::LossReason;
  trace.losses.push_back({2, LossReason::kCopying, trace.window_begin_ns, trace.window_end_ns, 9, 0});
  folder.Write("lost.pitot", Dump(trace));
  trace.losses.push_back({0, LossReason::kOverwritten, trace.window_begin_ns, trace.window_end_ns, 0, 0});
  folder.Write("two.pitot", Dump(trace));
  trace.losses.clear();
  trace.gpu_losses.push_back({kNone, kNone, trace.window_begin_ns, trace.window_end_ns, 0, 0});
  folder.Write("gpu.pitot", Dump(trace));

  const Result result = folder.Run("why lost.pitot");

  REQUIRE(result.exit_code == 0);
  CHECK(Contains(result.out, "why  undetermined: events of executor were lost during 141 requests to "));
  CHECK(Contains(result.out, "(Options::memory_budget_bytes)"));
  CHECK(result.err == "");
  CHECK(Contains(folder.Run("why two.pitot").out, "events of http-1 and executor were lost during 141 "));
  CHECK(Contains(folder.Run("why gpu.pitot").out, "undetermined: GPU records were lost during 141 "));
}

TEST_CASE("why prints the normal duration of a cause's scope from a baseline of another dump", "[cli]") {
  const Folder folder;
  folder.Write("before.pitot", Dump(Server().Make(140)));
  folder.Write("dump.pitot", Dump(Server().Make(3)));
  REQUIRE(folder.Run("why before.pitot --save-baseline " + folder / "normal").exit_code == 0);

  const Result result = folder.Run("why dump.pitot --baseline " + folder / "normal"),
               alone = folder.Run("why dump.pitot");

  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(Contains(result.out, "\nscope       \"forward\" took 15.0 ms; normally p50 "));
  CHECK_FALSE(Contains(alone.out, "scope   "));
}

TEST_CASE("why says how the request ended, and why it failed", "[cli]") {
  const Folder folder;
  pitot::model::Trace trace = Server().Make(140, false);
  const auto row = std::find_if(trace.requests.begin(), trace.requests.end(), [](auto& of) { return of.id == 0x8f0c; });
  REQUIRE(row != trace.requests.end());
  folder.Write("ok.pitot", Dump(trace));
  row->outcome = pitot::Outcome::kFailed;
  row->reason = trace.strings.Add("KV cache full");
  folder.Write("failed.pitot", Dump(trace));

  const json ok = json::parse(folder.Run("why ok.pitot --json --request 8f0c").out);
  const json failed = json::parse(folder.Run("why failed.pitot --json --request 8f0c").out);
  const std::string text = folder.Run("why failed.pitot --request 8f0c").out;

  CHECK((ok["outcome"] == "ok" && ok["reason"] == ""));
  CHECK((failed["outcome"] == "failed" && failed["reason"] == "KV cache full"));
  CHECK(Contains(text, " ms, failed: KV cache full"));
}

TEST_CASE("why prints JSON in whole ns that add up", "[cli]") {
  const Folder folder;
  folder.Write("dump.pitot", Dump(Server().Make(140, false)));

  const Result result = folder.Run("why dump.pitot --json --request 8f0c");

  REQUIRE(result.exit_code == 0);
  const json document = json::parse(result.out);
  CHECK(document["request"] == "0000000000008f0c");
  CHECK(document["verdict"] == "causes");
  CHECK(document["baseline"]["requests"] == 140);
  CHECK(document["baseline"]["level"] == "same route and size");
  const json& causes = document["causes"];
  REQUIRE(causes.size() == 2);
  CHECK(causes[0]["blame"] == "executor_busy");
  CHECK(causes[0]["by"]["requests"][0] == "00000000000077aa");
  CHECK(causes[1]["blame"] == "alloc_stall");
  CHECK(causes[1]["advice"]["code"] == "allocate_early");
  CHECK(causes[1]["place_ns"] == causes[1]["blame_ns"]);
  int64_t sum_ns = document["common_ns"].get<int64_t>() + document["rest_ns"].get<int64_t>(), blame_ns = 0, at_ns = 0;
  for (const json& cause : causes) {
    sum_ns += cause["excess_ns"].get<int64_t>();
    CHECK(cause["p"].get<double>() <= document["baseline"]["alpha"].get<double>());
  }
  for (const auto& [name, ns] : document["blame_ns"].items()) blame_ns += ns.get<int64_t>();
  for (const json& segment : document["segments"]) {
    CHECK(segment["begin_ns"] == at_ns);
    at_ns += segment["duration_ns"].get<int64_t>();
  }
  CHECK(sum_ns == document["latency_ns"].get<int64_t>() - document["typical_ns"].get<int64_t>());
  CHECK(blame_ns == document["latency_ns"]);
  CHECK(at_ns == document["latency_ns"]);
  CHECK(document["quality"]["reliable"] == true);
}

TEST_CASE("why explains the slowest request if none fired, or the one given by --request", "[cli]") {
  const Folder folder;
  folder.Write("dump.pitot", Dump(Server().Make(140, false)));

  CHECK(Contains(folder.Run("why dump.pitot").out, "request 0000000000008f0c  /classify"));
  const Result normal = folder.Run("why dump.pitot --request 1007");
  CHECK(Contains(normal.out, "request 0000000000001007  /classify"));
  CHECK(Contains(normal.out, "not unusual"));
}

TEST_CASE("an id may begin with 0x, and its beginning is enough if only one request matches", "[cli]") {
  const Folder folder;
  pitot::model::Trace trace = Server().Make(3, false);
  trace.requests[0].id = 0xabcdef0123456789;
  trace.requests[1].id = 0xabcde00000000000;
  trace.requests[2].id = 0xab;  // the whole id, not the beginning of another
  folder.Write("dump.pitot", Dump(trace));

  CHECK(Contains(folder.Run("why dump.pitot --request 0x8f0c").out, "request 0000000000008f0c  "));
  CHECK(Contains(folder.Run("why dump.pitot --request 0xABCDEF").out, "request abcdef0123456789  "));
  CHECK(Contains(folder.Run("why dump.pitot --request abcde0").out, "request abcde00000000000  "));
  CHECK(Contains(folder.Run("why dump.pitot --request ab").out, "request 00000000000000ab  "));
  const Result both = folder.Run("why dump.pitot --request abcde");
  CHECK(both.exit_code == 2);
  CHECK(Contains(both.err, "the ids of 2 requests begin with abcde, such as abcde00000000000 and abcdef0123456789"));
  CHECK(folder.Run("why dump.pitot --request 0x").exit_code == 1);
  for (const char* command : {"why", "top"}) {
    const Result unset = folder.Run(std::string(command) + " dump.pitot --request ''");
    CHECK(unset.exit_code == 2);
    CHECK(Contains(unset.err, "--request: the id is empty, as if a shell variable were not set"));
  }
  CHECK(folder.Run("why dump.pitot --request 0xabcdef01234567890").exit_code == 1);
  CHECK(folder.Run("why dump.pitot --request abcdf").exit_code == 1);
}

TEST_CASE("a request is found by the host's own id, or by its beginning if only one request matches", "[cli]") {
  const Folder folder;
  pitot::model::Trace trace = Server().Make(5, false);
  const auto name = [&](size_t row, const std::string& id) { trace.requests[row].host_id = trace.strings.Add(id); };
  const std::string longest(pitot::Request::kMaxIdBytes, 'x');
  name(0, "cmpl-17");
  name(1, "cmpl-170");
  name(2, "100");  // an id of Pitot's begins so, too
  trace.requests[3].id = 0x1001000000000000;
  name(3, "retried");
  name(4, longest);
  trace.requests[5].host_id = trace.requests[3].host_id;
  folder.Write("dump.pitot", Dump(trace));
  const auto run = [&](const std::string& id) { return folder.Run("why dump.pitot --request " + id); };

  CHECK(Contains(run("cmpl-17").out, "request cmpl-17  /classify"));
  CHECK(Contains(run("cmpl-170").out, "request cmpl-170  /classify"));
  CHECK(run("cmpl").exit_code == 2);
  CHECK(Contains(run("100").out, "request 100  /classify"));
  CHECK(Contains(run("1001000000000000").out, "request retried  /classify"));
  CHECK(Contains(run("retried").err, "the ids of 2 requests begin with retried, such as "));
  CHECK(Contains(run(longest + "-and-what-was-cut").out, "request " + longest));
  CHECK(run("cmpl-18").exit_code == 1);
}

TEST_CASE("verdicts name requests by the host's own ids, and JSON has both", "[cli]") {
  const Folder folder;
  pitot::model::Trace trace = Server().Make(140);
  for (pitot::model::RequestRow& request : trace.requests) {
    if (request.id == 0x8f0c) request.host_id = trace.strings.Add("cmpl-17");
    if (request.id == 0x77aa) request.host_id = trace.strings.Add("seg-4");
  }
  folder.Write("dump.pitot", Dump(trace));

  const std::string text = folder.Run("why dump.pitot").out;
  const json document = json::parse(folder.Run("why dump.pitot --json").out);

  CHECK(Contains(text, "Request cmpl-17 (/classify) took 33.5 ms"));
  CHECK(Contains(text, "behind a batch of unet (request seg-4 of /segment)"));
  CHECK_FALSE(Contains(text, "8f0c"));
  CHECK_FALSE(Contains(text, "77aa"));
  CHECK(document["request"] == "0000000000008f0c");
  CHECK(document["host_id"] == "cmpl-17");
}

TEST_CASE("zeros at the beginning of an id count like other digits", "[cli]") {
  const Folder folder;
  pitot::model::Trace trace = Server().Make(3, false);
  for (pitot::model::RequestRow& request : trace.requests) request.id |= 0xa000000000000000;
  trace.requests[0].id = 0x00cd096012959c71;
  folder.Write("one.pitot", Dump(trace));
  trace.requests[1].id = 0x00ce000000000000;
  folder.Write("two.pitot", Dump(trace));

  for (const char* zeros : {"0", "00", "0x00"})
    CHECK(Contains(folder.Run("why one.pitot --request " + std::string(zeros)).out, "request 00cd096012959c71  "));
  const Result two = folder.Run("why two.pitot --request 00");
  CHECK(two.exit_code == 2);
  CHECK(Contains(two.err, "the ids of 2 requests begin with 00, such as 00cd096012959c71 and 00ce000000000000"));
  CHECK(folder.Run("why two.pitot --request 000").exit_code == 1);
  CHECK(folder.Run("why two.pitot --request 0000000000000000").exit_code == 1);
  CHECK(folder.Run("top one.pitot --request 00 --by request").exit_code == 0);
}

TEST_CASE("the printed parts of a request's time add up to the printed sum", "[cli]") {
  const Folder folder;
  folder.Write("dump.pitot", Dump());  // two of its parts end in half a us
  std::string words = folder.Run("why dump.pitot").out;
  words = words.substr(words.find("all of it"));
  words = words.substr(0, words.find("evidence"));

  int64_t sum_us = 0, said_us = -1;
  for (size_t at = words.find('.'); at != std::string::npos; at = words.find('.', at + 1)) {
    const size_t begin = words.rfind(' ', at) + 1;
    const auto us = static_cast<int64_t>(std::llround(std::stod(words.substr(begin)) * 1e3));
    if (words.find("sum is") < at) {
      said_us = us;
    } else {
      sum_us += us;
    }
  }
  CHECK(sum_us == said_us);
}

TEST_CASE("an id in evidence is written in full as elsewhere, for a search or for --request", "[cli]") {
  const Folder folder;
  folder.Write("dump.pitot", Dump(Server().Make(140)));

  const std::string id = "00000000000077aa";  // kOther: its first digits are zeros
  CHECK(Contains(folder.Run("why dump.pitot").out, id));
  CHECK(Contains(folder.Run("report dump.pitot --html -o -").out, "request " + id));
  CHECK(Contains(folder.Run("requests dump.pitot --limit 0").out, id));
  CHECK(Contains(folder.Run("why dump.pitot --request " + id).out, "request " + id + "  "));
}

TEST_CASE("why --every has a line for each request that began and ended", "[cli]") {
  const Folder folder;
  pitot::model::Trace trace = Server().Make(140);
  trace.requests[3].parent_id = trace.requests[2].id;  // a child of another request
  trace.requests[4].parent_id = 0xabc;                 // the sender's request, not in the trace
  trace.requests[5].end_known = false;
  folder.Write("dump.pitot", Dump(trace));

  const Result result = folder.Run("why dump.pitot --every --json");

  REQUIRE(result.exit_code == 0);
  std::vector<std::string> ids;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) {
    const json one = json::parse(line);
    ids.push_back(one["request"]);
    if (ids.back() != "0000000000008f0c") continue;
    CHECK(one == json::parse(folder.Run("why dump.pitot --request 8f0c --json").out));
  }
  CHECK(ids.size() == trace.requests.size() - 2);
  CHECK(std::find(ids.begin(), ids.end(), "0000000000008f0c") != ids.end());
  CHECK(std::find(ids.begin(), ids.end(), pitot::base::RequestId(trace.requests[4].id)) != ids.end());
  CHECK(folder.Run("why dump.pitot --every").exit_code == 2);
  CHECK(folder.Run("why dump.pitot --every --json --request 8f0c").exit_code == 2);
}

TEST_CASE("why refuses wrong arguments and files", "[cli]") {
  const Folder folder;
  const std::string dump = Dump(Server().Make(140));
  folder.Write("dump.pitot", dump);
  folder.Write("cut.pitot", dump.substr(0, dump.size() - 30));
  folder.Write("garbage", "garbage");
  pitot::test::TraceMaker empty;
  folder.Write("empty.pitot", Dump(empty.Finish()));

  CHECK(folder.Run("why").exit_code == 2);
  CHECK(folder.Run("why dump.pitot --request r2").exit_code == 1);
  CHECK(folder.Run("why none.pitot").exit_code == 3);
  CHECK(folder.Run("why garbage").exit_code == 5);
  const Result cut = folder.Run("why cut.pitot"), unknown = folder.Run("why dump.pitot --request 1234"),
               nothing = folder.Run("why empty.pitot");
  CHECK(cut.exit_code == 4);
  CHECK(unknown.exit_code == 1);
  CHECK(Contains(unknown.err, "there is no request 1234 in"));
  CHECK(Contains(unknown.err, "`pitot requests --limit 0` lists all"));
  CHECK(nothing.exit_code == 1);
  CHECK(Contains(nothing.err, "no request began and ended"));
  CHECK(Contains(nothing.err, "`pitot analyze` and `pitot top` work without requests"));
}

TEST_CASE("why has a help text", "[cli]") {
  const Result result = Folder().Run("why --help");
  REQUIRE(result.exit_code == 0);
  CheckGolden("cli_why_help.txt", result.out);
}

TEST_CASE("a baseline saved from one dump serves for another", "[cli]") {
  const Folder folder;
  folder.Write("before.pitot", Dump(Server().Make(140)));
  folder.Write("dump.pitot", Dump(Server().Make(3)));

  CHECK(Contains(folder.Run("why dump.pitot").out, "undetermined"));
  const Result saved = folder.Run("why before.pitot --save-baseline normal");
  INFO(saved.err);
  REQUIRE(saved.exit_code == 0);
  const Result compared = folder.Run("why dump.pitot --baseline normal --json");
  REQUIRE(compared.exit_code == 0);
  const json document = json::parse(compared.out);
  CHECK(document["baseline"]["requests"] == 105);  // the last three quarters of 140
  CHECK(document["causes"][0]["blame"] == "executor_busy");
}

TEST_CASE("why reports the requests added to a baseline, its new total, and a replacement", "[cli]") {
  const Folder folder;
  folder.Write("before.pitot", Dump(Server().Make(140)));

  const Result first = folder.Run("why before.pitot --baseline normal --save-baseline normal"),
               second = folder.Run("why before.pitot --baseline normal --save-baseline normal"),
               anew = folder.Run("why before.pitot --save-baseline normal");

  for (const Result* result : {&first, &second, &anew}) CHECK(result->exit_code == 0);
  CHECK(Contains(first.err, "--save-baseline: 105 requests added; normal holds 105 now.\n"));
  CHECK(Contains(second.err, "--save-baseline: 105 requests added; normal holds 210 now.\n"));
  CHECK(Contains(
      anew.err,
      "105 requests added; normal holds 105 now. Its previous content was replaced; pass `--baseline normal`"));
}

TEST_CASE("why replaces neither the dump nor another file by a baseline", "[cli]") {
  const Folder folder;
  folder.Write("before.pitot", Dump(Server().Make(140)));
  folder.Write("notes.txt", "important");

  const Result itself = folder.Run("why before.pitot --save-baseline before.pitot");
  CHECK(itself.exit_code == 2);
  CHECK(Contains(itself.err, "is an input. Choose another place with --save-baseline."));
  CHECK(folder.Run("info before.pitot").exit_code == 0);
  const Result other = folder.Run("why before.pitot --save-baseline notes.txt");
  CHECK(other.exit_code == 2);
  CHECK(Contains(other.err, "notes.txt was left unchanged"));
  CHECK(fakes::ReadFile(folder / "notes.txt") == "important");
}

TEST_CASE("a full baseline counts added requests that replace older ones", "[cli]") {
  const Folder folder;
  folder.Write("before.pitot", Dump(Server().Make(140)));

  Result last;
  for (int i = 0; i < 6; ++i) last = folder.Run("why before.pitot --baseline normal --save-baseline normal");

  CHECK(Contains(last.err, "--save-baseline: 105 requests added; normal holds 512 now.\n"));
}

TEST_CASE("a dump without ordinary requests leaves the baseline's file unchanged, with a message", "[cli]") {
  const Folder folder;
  folder.Write("before.pitot", Dump(Server().Make(140)));
  folder.Write("dump.pitot", Dump());
  REQUIRE(folder.Run("why before.pitot --save-baseline normal").exit_code == 0);
  const std::string before = fakes::ReadFile(folder / "normal");

  for (const char* arguments : {"--save-baseline normal", "--baseline normal --save-baseline normal"}) {
    const Result result = folder.Run("why dump.pitot " + std::string(arguments));
    CHECK(result.exit_code == 1);
    CHECK(Contains(result.out, "request 0000000000008f0c"));
    CHECK(Contains(result.err, "--save-baseline: nothing was added, and normal was left unchanged: no request of "));
    CHECK(fakes::ReadFile(folder / "normal") == before);
  }
}

TEST_CASE("why refuses a file that is not a baseline", "[cli]") {
  const Folder folder;
  folder.Write("dump.pitot", Dump(Server().Make(140)));
  folder.Write("garbage", "garbage");

  const Result none = folder.Run("why dump.pitot --baseline none"),
               garbage = folder.Run("why dump.pitot --baseline garbage"),
               nowhere = folder.Run("why dump.pitot --save-baseline no/where");
  CHECK(none.exit_code == 3);
  CHECK(Contains(none.err, "--baseline: cannot read none"));
  CHECK(garbage.exit_code == 3);
  CHECK(Contains(garbage.err, "--baseline: garbage: not a baseline, or not a whole one"));
  for (const Result& result : {none, garbage}) CHECK(Contains(result.err, "--save-baseline FILE` writes one"));
  CHECK(nowhere.exit_code == 6);
  CHECK(Contains(nowhere.err, "Choose another place with --save-baseline."));
}

TEST_CASE("why and report explain the late token of the incident", "[cli]") {
  const Folder folder;
  folder.Write("dump.pitot", Dump(decode_server::DecodeServer().Finish()));

  const std::string why = folder.Run("why dump.pitot").out, report = folder.Run("report dump.pitot").out,
                    page = folder.Run("report dump.pitot --html").out;

  CHECK(Contains(why, "  100.0 ms between two tokens (p100; typical of this route: 10.0)\n"));
  CHECK(report.find(why.substr(0, why.find("\n\n"))) == 0);  // the sentence and the tree
  CHECK(Contains(page, "; 10.0 ms is typical of this route."));
}

TEST_CASE("why says that it asks of the slowest request where the format has no triggers or tokens", "[cli]") {
  const Folder folder;
  pitot::model::Trace trace = decode_server::DecodeServer().Finish();
  trace.clock.monotonic_ns = trace.window_end_ns;
  trace.clock.realtime_ns = 1'790'000'000'000'000'000;
  folder.Write("dump.pitot", Dump(trace));
  REQUIRE(folder.Run("convert dump.pitot --to xspace -o a.xplane.pb").exit_code == 0);
  REQUIRE(folder.Run("convert dump.pitot --to otlp -o a.otlp.pb").exit_code == 0);
  REQUIRE(folder.Run("convert dump.pitot --to perfetto -o a.pftrace").exit_code == 0);

  const std::string note = "asked of the slowest request";
  CHECK(Contains(folder.Run("why a.xplane.pb").err, "the file has no triggers or tokens: " + note + "\n"));
  CHECK(Contains(folder.Run("why a.otlp.pb").err, "the file has no tokens: " + note));
  for (const char* const command : {"why dump.pitot", "why a.pftrace", "why a.xplane.pb --request 000000000000000a"}) {
    CAPTURE(command);
    CHECK(!Contains(folder.Run(command).err, note));
  }
}

TEST_CASE("why judges a first token by those that the dump has from before its window", "[cli]") {
  const Folder folder;
  constexpr uint32_t kFramework = 7;  // Blame::kHostOncpuFramework
  prompt_server::PromptServer server(5);
  server.ServeLate();
  for (int64_t i = 0; i < 64; ++i)
    server.maker.trace.norms.push_back({pitot::model::NormKind::kFirstToken,
                                        pitot::Depth::kScopes,
                                        server.maker.String("/generate"),
                                        0,
                                        1,
                                        20'000'000 + i,
                                        {{kFramework, 20'000'000 + i}}});
  folder.Write("dump.pitot", Dump(server.Finish()));

  const Result result = folder.Run("why dump.pitot --json");

  REQUIRE(result.exit_code == 0);
  const auto verdict = nlohmann::json::parse(result.out);
  CHECK(verdict["verdict"] == "causes");
  CHECK(verdict["baseline"]["requests"] == 64);
  CHECK(verdict["baseline"]["is_kept"] == true);
  CHECK(verdict["causes"][0]["blame"] == "host_pagefault_io");
}

TEST_CASE("why takes a token by its number, and reports the number of tokens if it does not exist", "[cli]") {
  const Folder folder;
  pitot::model::Trace trace = decode_server::DecodeServer().Finish();
  const pitot::model::RequestRow request = trace.requests[trace.tokens.front().request];
  const std::string asked = "why dump.pitot --request " + pitot::base::RequestId(request.id) + " --token ";
  folder.Write("dump.pitot", Dump(trace));

  const Result first = folder.Run(asked + "1"), late = folder.Run(asked + "1000000"), none = folder.Run(asked + "0");

  CHECK(first.exit_code == 0);
  CHECK(Contains(first.out, " ms to its first token"));
  CHECK(late.exit_code == 1);
  CHECK(Contains(late.err, "token 1000000 of request " + pitot::base::RequestId(request.id) +
                               " is not in dump.pitot: it has only the last "));
  CHECK(Contains(late.err, " of its " + std::to_string(request.output_tokens) + " tokens."));
  CHECK(none.exit_code == 2);
  CHECK(Contains(none.err, "--token: 0 was given; allowed: a whole number"));
}

TEST_CASE("report lists the other requests that fired, like an incident's report", "[cli]") {
  const Folder folder;
  pitot::model::Trace trace = Server().Make(140);
  trace.firings.push_back({trace.window_end_ns, 0x1000, trace.strings.Add("latency /classify"), 0});
  folder.Write("dump.pitot", Dump(trace));

  const std::string text = folder.Run("report dump.pitot").out, page = folder.Run("report dump.pitot --html").out;

  CHECK(Contains(text, "\nalso fired  0000000000001000 "));
  CHECK(text.find("\nwhat to do  ") < text.find("\nalso fired"));
  CHECK(text.find("\nalso fired") < text.find("\nAPPENDIX\n"));
  CHECK(text.find("\nAPPENDIX\n") < text.find("\nwhy  1)"));
  CHECK(Contains(page, "Also fired: 0000000000001000 "));
}

TEST_CASE("why and report wrap text at COLUMNS, but not in a file", "[cli]") {
  Folder folder;
  pitot::model::Trace trace = Server().Make(140);
  std::string words;
  for (int i = 0; i < 100; ++i) words += "word ";
  trace.attributes.push_back({trace.strings.Add("said"), trace.strings.Add(words)});
  folder.Write("dump.pitot", Dump(trace));
  const auto widest = [](const std::string& text, const char* with) {
    std::istringstream lines(text);
    size_t most = 0;
    for (std::string line; std::getline(lines, line);) {
      if (line.find(with) != std::string::npos) most = std::max(most, line.size());
    }
    return most;
  };
  folder.columns = "60";
  const std::string why = folder.Run("why dump.pitot").out, report = folder.Run("report dump.pitot").out;
  folder.Run("report dump.pitot -o report.txt");
  folder.columns = "160";
  const std::string wide = folder.Run("why dump.pitot").out;

  CHECK(widest(why, "") <= 60 + 25);  // rows of tables keep their numbers
  CHECK(widest(why, "what to do") <= 60);
  CHECK(Contains(why, "\n     sum of excess "));
  CHECK(widest(report, "word word") <= 60);
  CHECK(widest(fakes::ReadFile(folder / "report.txt"), "word word") > 90);
  CHECK(widest(wide, "what to do") > 100);
}

TEST_CASE("report --html prints one page", "[cli]") {
  const Folder folder;
  folder.Write("dump.pitot", Dump(Server().Make(140)));

  const Result result = folder.Run("report dump.pitot --html");

  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  CheckGolden("report.html", result.out);
}

TEST_CASE("a page without a verdict has the reason", "[cli]") {
  const Folder folder;
  pitot::test::TraceMaker empty;
  folder.Write("empty.pitot", Dump(empty.Finish()));

  const Result result = folder.Run("report empty.pitot --html");
  REQUIRE(result.exit_code == 0);
  CHECK(Contains(result.out, "<h1>No verdict</h1>\n<p>no request began and ended in its window</p>"));
}
