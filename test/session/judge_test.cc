// SPDX-License-Identifier: Apache-2.0
//
// Questions to judges, their times, and the use of the answers. The tests choose what these judges say.
#include "pitot/extend/judge.h"

#include <sys/stat.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "fakes/trace_text.h"
#include "pitot/extend/collector.h"
#include "session/host.h"
#include "session/sample_pace.h"

namespace {

using fakes::Gate;
using pitot::Hearing;
using pitot::Status;
using pitot::StatusCode;
using session_test::Contains;
using session_test::Host;
using session_test::Told;

using Answer = std::function<Status(Hearing&)>;

class CallJudge : public pitot::Judge {
 public:
  CallJudge(pitot::JudgeNeeds needs, Answer decide, Answer learn)
      : needs_(needs), decide_(std::move(decide)), learn_(std::move(learn)) {}
  const char* Name() const noexcept override { return "oracle"; }
  pitot::JudgeNeeds Needs() const noexcept override { return needs_; }
  Status Decide(Hearing& hearing) override { return decide_(hearing); }
  Status Learn(Hearing& hearing) override { return learn_(hearing); }

 private:
  pitot::JudgeNeeds needs_;
  Answer decide_, learn_;
};

// Knows how long a lock is held.
class KnowingJudge final : public CallJudge {
 public:
  using CallJudge::CallJudge;
  Status AddNorms(pitot::model::Trace* trace) override {
    pitot::model::NormRow norm;
    norm.kind = pitot::model::NormKind::kHold;
    norm.name = trace->strings.Add("cache");
    norm.count = 40;
    norm.total_ns = 7'000'000;
    trace->norms.push_back(norm);
    return {};
  }
};

// Counts the incidents and samples it is asked to keep something for.
class CountingCollector final : public pitot::Collector {
 public:
  CountingCollector(std::atomic<int>* incidents, std::atomic<int>* samples)
      : incidents_(incidents), samples_(samples) {}
  const char* Name() const noexcept override { return "counting"; }
  Status Start() noexcept override { return {}; }
  void Stop() noexcept override {}
  void Keep(int64_t, pitot::KeepFor what) noexcept override {
    ++*(what == pitot::KeepFor::kIncident ? incidents_ : samples_);
  }
  void AddTo(pitot::TraceBuilder&) override {}

 private:
  std::atomic<int>*const incidents_, *const samples_;
};

// A budget no test uses up.
pitot::JudgeNeeds Ample() { return {.budget_ms = 600'000}; }

Status SayGuilty(Hearing& hearing) {
  hearing.OpenReport("guilty\n");
  return {};
}
Status Nothing(Hearing&) { return {}; }

std::unique_ptr<pitot::Judge> MakeJudge(Answer decide, pitot::JudgeNeeds needs = Ample(), Answer learn = Nothing) {
  return std::make_unique<CallJudge>(needs, std::move(decide), std::move(learn));
}

std::string File(const Host& host, const std::string& incident, const std::string& name) {
  return fakes::ReadFile(host.directory / incident + "/" + name);
}
// In a hearing: `n` more incidents come and are written. False if they are not.
bool WriteMore(Host* host, Hearing& hearing, size_t n) {
  for (const size_t all = host->incidents().size() + n; host->incidents().size() < all;) {
    const size_t before = host->incidents().size();
    if (!host->recorder.Trigger("another").ok() ||
        !fakes::WaitUntil([&] { return hearing.IsOver() || host->incidents().size() > before; }))
      return false;
  }
  return true;
}
bool Opens(const std::string& text, const std::string& with) { return text.compare(0, with.size(), with) == 0; }

}  // namespace

TEST_CASE("an incident is on disk and told of when it is judged, and its report then opens with the verdict",
          "[judge]") {
  Host host;
  REQUIRE(host.Start());
  std::vector<std::string> before;
  std::string inconsistency;
  size_t told = 0;
  REQUIRE(host.recorder
              .Add(MakeJudge([&](Hearing& hearing) {
                told = host.told().size();
                before = fakes::NamesIn(host.directory / host.incidents().at(0));
                inconsistency = pitot::model::FindInconsistency(hearing.trace());
                return SayGuilty(hearing);
              }))
              .ok());
  REQUIRE(host.TriggerAndFlush());

  REQUIRE(host.incidents().size() == 1);
  CHECK(told == 1);
  CHECK(inconsistency == "");
  CHECK(before == std::vector<std::string>{"dump.pitot"});
  CHECK(Opens(File(host, host.incidents()[0], "report.txt"), "guilty\n\nPitot incident: "));
  struct stat info {};
  REQUIRE(stat((host.directory / host.incidents()[0] + "/report.txt").c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0600);
  REQUIRE(host.told().size() == 2);
  CHECK(host.told()[0].verdict.empty());
  CHECK(host.told()[1].hook == "verdict");
  CHECK(host.told()[1].verdict == "guilty\n\n");
  CHECK(host.told()[1].code == StatusCode::kOk);
  CHECK(host.recorder.Stats().verdicts_given == 1);
  CHECK(host.recorder.Stats().verdicts_failed == 0);
}

TEST_CASE("a judge's files are added to the incident, and replace those of their name", "[judge]") {
  Host host;
  REQUIRE(host.Start());
  const auto write = [](Hearing& hearing, const char* name, const std::string& text) {
    const auto file = fakes::MakeCallSerializer(name, [text](const auto&, pitot::ByteSink& sink) {
      sink.Write(text.data(), text.size());
      return Status();
    });
    return hearing.AddFile(*file);
  };
  const auto fail = fakes::MakeCallSerializer("dump.pitot", [](const auto&, pitot::ByteSink& sink) {
    sink.Write("half", 4);
    return Status(StatusCode::kInternal, "no more");
  });
  Status first, second, failed;
  REQUIRE(host.recorder
              .Add(MakeJudge([&](Hearing& hearing) {
                first = write(hearing, "verdict.json", "first");
                second = write(hearing, "verdict.json", "second");
                failed = hearing.AddFile(*fail);
                return Status();
              }))
              .ok());
  REQUIRE(host.TriggerAndFlush());

  const std::string incident = host.incidents().at(0);
  CHECK(first.ok());
  CHECK(second.ok());
  CHECK(File(host, incident, "verdict.json") == "second");
  CHECK(failed.code() == StatusCode::kInternal);
  CHECK(File(host, incident, "dump.pitot").size() > 100);  // unchanged
  for (const std::string& name : fakes::NamesIn(host.directory / incident)) CHECK(name[0] != '.');
}

TEST_CASE("the judge's appendix comes after the report's own line APPENDIX, and its findings take its place",
          "[judge]") {
  Host host;
  REQUIRE(host.Start());
  REQUIRE(host.recorder
              .Add(MakeJudge([](Hearing& hearing) {
                hearing.OpenReport("guilty\nAPPENDIX\n\nTHE VERDICT IN FULL\n");
                return Status(StatusCode::kInternal, "ink");
              }))
              .ok());
  REQUIRE(host.TriggerAndFlush());

  const std::string report = File(host, host.incidents().at(0), "report.txt");
  INFO(report);
  CHECK(Opens(report, "guilty\nthe verdict is incomplete: judge oracle: ink\n\nPitot incident: "));
  CHECK(Contains(report, "\nAPPENDIX\n\nTHE VERDICT IN FULL\n\n"));
  CHECK(report.find("APPENDIX") == report.rfind("APPENDIX"));
  CHECK(report.find("RECORDER\n") > report.find("THE VERDICT IN FULL"));
}

TEST_CASE("a failing or throwing judge is named in the report, in the log and to hooks, and is counted", "[judge]") {
  const auto [answer, what] = GENERATE(table<Answer, std::string>({
      {[](Hearing&) { return Status(StatusCode::kNotFound, "no witness"); }, "no verdict: judge oracle: no witness"},
      {[](Hearing&) -> Status { throw std::runtime_error("out"); },
       "no verdict: judge oracle: it threw an exception: out"},
      {[](Hearing&) -> Status { throw 1; }, "no verdict: judge oracle: it threw an exception"},
      {[](Hearing& hearing) {
         SayGuilty(hearing);
         return Status(StatusCode::kInternal, "ink");
       },
       "guilty\nthe verdict is incomplete: judge oracle: ink"},
  }));
  Host host;
  REQUIRE(host.Start());
  REQUIRE(host.recorder.Add(MakeJudge(answer)).ok());
  REQUIRE(host.TriggerAndFlush());

  CHECK(Opens(File(host, host.incidents().at(0), "report.txt"), what + "\n\n"));
  CHECK(host.log.Has(pitot::LogLevel::kWarning, "incident 1: " + what.substr(Opens(what, "guilty") ? 7 : 0)));
  REQUIRE(host.told().size() == 2);
  CHECK(host.told()[1].code != StatusCode::kOk);
  CHECK(host.recorder.Stats().verdicts_given == 0);
  CHECK(host.recorder.Stats().verdicts_failed == 1);
  CHECK(host.recorder.Stats().incidents_written == 1);
}

TEST_CASE("a judge over its budget is told so, cut off and named; its words so far stay", "[judge]") {
  Host host;
  REQUIRE(host.Start());
  Status late;
  REQUIRE(host.recorder
              .Add(MakeJudge(
                  [&](Hearing& hearing) {
                    SayGuilty(hearing);
                    while (!hearing.IsOver()) {}
                    late = hearing.AddFile(*fakes::MakeCallSerializer("f", [](auto&, auto&) { return Status(); }));
                    return Status();
                  },
                  {.budget_ms = 1}))
              .ok());
  REQUIRE(host.TriggerAndFlush());

  CHECK(late.code() == StatusCode::kUnavailable);
  const std::string report = File(host, host.incidents().at(0), "report.txt");
  CHECK(Opens(report, "guilty\nthe verdict is incomplete: judge oracle: cut off: it took "));
  CHECK(Contains(report, " ms of CPU time, and its limit is 1 ms\nRun `pitot why DIR` for a verdict: DIR is "));
  CHECK(host.recorder.Stats().verdicts_failed == 1);
}

TEST_CASE("a judge is told what it may remember before anything else", "[judge]") {
  struct Forgetful final : CallJudge {
    using CallJudge::CallJudge;
    void LimitMemory(uint64_t bytes) noexcept override { *limit = bytes; }
    pitot::JudgeNeeds Needs() const noexcept override {
      *asked_at = *limit;
      return CallJudge::Needs();
    }
    uint64_t* limit = nullptr;
    uint64_t* asked_at = nullptr;
  };
  Host host;
  REQUIRE(host.Start());
  CHECK(host.recorder.Stats().memory.learned == 0);
  uint64_t limit = 0, asked_at = 0;
  auto judge = std::make_unique<Forgetful>(Ample(), SayGuilty, Nothing);
  judge->limit = &limit;
  judge->asked_at = &asked_at;

  REQUIRE(host.recorder.Add(std::move(judge)).ok());
  CHECK(limit > 0);
  CHECK(limit == host.recorder.Stats().memory.learned);
  CHECK(asked_at == limit);
}

TEST_CASE("incidents that come while one is judged are written meanwhile, and the newest are judged after it",
          "[judge]") {
  constexpr size_t kMeanwhile = 10, kWait = 8;
  Host host;
  REQUIRE(host.Start());
  std::atomic<size_t> judged{0};
  REQUIRE(host.recorder
              .Add(MakeJudge([&](Hearing& hearing) {
                if (judged == 0 && !WriteMore(&host, hearing, kMeanwhile))
                  return Status(StatusCode::kInternal, "nobody writes them");
                ++judged;
                return SayGuilty(hearing);
              }))
              .ok());
  REQUIRE(host.TriggerAndFlush());

  // The last of them may come to the worker after the first was judged.
  const size_t displaced = host.recorder.Stats().verdicts_failed;
  CHECK(displaced <= kMeanwhile - kWait);
  CHECK(displaced + 1 >= kMeanwhile - kWait);
  CHECK(judged == 1 + kMeanwhile - displaced);
  const auto incidents = host.incidents();
  REQUIRE(incidents.size() == 1 + kMeanwhile);
  for (size_t i = 0; i < incidents.size(); ++i) {
    const bool is_displaced = 1 <= i && i <= displaced;
    CHECK(Opens(File(host, incidents[i], "report.txt"),
                is_displaced ? "no report and no verdict: too many newer incidents were waiting for theirs\nRun `pitot "
                               "why DIR` for a verdict: DIR is"
                             : "guilty\n\n"));
  }
  CHECK(host.told().size() == 2 * incidents.size());
  CHECK(host.recorder.Stats().verdicts_given == 1 + kMeanwhile - displaced);
}

TEST_CASE("a directory that was removed gets the next incident with its verdict", "[judge]") {
  const fakes::TempDirectory parent;
  const std::string path = parent / "incidents";
  Host host;
  host.options.incident_directory = path.c_str();
  REQUIRE(host.Start());
  REQUIRE(host.recorder
              .Add(MakeJudge([](Hearing& hearing) {
                const auto file = fakes::MakeCallSerializer("verdict.json", [](auto&, auto& sink) {
                  return sink.Write("{}", 2) ? Status() : Status(StatusCode::kIoError, "full");
                });
                return hearing.AddFile(*file);
              }))
              .ok());
  REQUIRE(host.TriggerAndFlush());
  std::filesystem::remove_all(path);
  REQUIRE(host.TriggerAndFlush());

  CHECK(host.recorder.Stats().verdicts_given == 2);
  REQUIRE(fakes::NamesIn(path).size() == 1);
  CHECK(std::filesystem::exists(path + "/" + fakes::NamesIn(path)[0] + "/verdict.json"));
}

TEST_CASE("in a storm of one fault, the incidents that stay are whole, and the others cost a verdict each", "[judge]") {
  Host host;
  REQUIRE(host.Start());
  REQUIRE(host.recorder.Add(pitot::MakeFailureTrigger({.cool_down_ms = 1, .post_window_ms = 1})).ok());
  std::atomic<int> completed{0};
  const auto count = [&](const auto&, pitot::ByteSink& sink) {
    ++completed;
    return sink.Write("x", 1) ? Status() : Status(StatusCode::kIoError, "full");
  };
  REQUIRE(host.recorder.Add(fakes::MakeCallSerializer("other", count)).ok());
  // One after another: more at once than may wait are not judged.
  const auto fail = [&](size_t incidents) {
    return fakes::WaitUntil([&] {
      const size_t before = host.incidents().size();
      if (before >= incidents) return true;
      const pitot::Stats stats = host.recorder.Stats();
      pitot::Request::Begin("/r").Finish(pitot::Outcome::kFailed);
      static_cast<void>(host.recorder.Flush(0));
      const auto has_fired = [&] { return host.recorder.Stats().triggers_fired > stats.triggers_fired; };
      const auto is_written = [&] {
        return host.incidents().size() > before ||
               host.recorder.Stats().incidents_suppressed > stats.incidents_suppressed;
      };
      return has_fired() && fakes::WaitUntil(is_written) && host.incidents().size() >= incidents;
    });
  };
  int64_t judged = 0;
  pitot::JudgeNeeds needs = Ample();
  needs.has_findings = true;
  REQUIRE(host.recorder
              .Add(MakeJudge(
                  [&](Hearing& hearing) {
                    if (++judged == 1 && !fail(4)) return Status(StatusCode::kInternal, "nobody writes them");
                    hearing.SetSignature("the disk", judged == 3 ? 9 : 1);
                    return SayGuilty(hearing);
                  },
                  needs))
              .ok());
  REQUIRE(fail(1));
  REQUIRE(host.Flush());

  REQUIRE(judged >= 4);
  const auto incidents = host.incidents();
  REQUIRE(incidents.size() == 3);
  CHECK(Contains(incidents[1], "-0003-"));
  for (const std::string& incident : incidents) {
    CHECK(fakes::NamesIn(host.directory / incident) ==
          std::vector<std::string>{"dump.pitot", "keep", "other", "report.txt"});
    CHECK(!Contains(File(host, incident, "report.txt"), "the verdict alone"));
  }
  CHECK(completed < judged);
  CHECK(host.recorder.Stats().files_failed == 0);
}

TEST_CASE("incidents waiting for verdicts take no more memory together than one may alone", "[judge]") {
  constexpr size_t kMeanwhile = 3;
  Host host;
  host.options.max_ring_bytes = 1 << 20;
  host.options.pre_window_ms = 600'000;
  REQUIRE(host.Start());
  // More than half of an incident's limit: their rings are kept.
  for (int i = 0; i < 12; ++i) {
    std::thread([] {
      for (int n = 0; n < 20'000; ++n) PITOT_INSTANT("event");
    }).join();
  }
  std::atomic<size_t> judged{0};
  REQUIRE(host.recorder
              .Add(MakeJudge([&](Hearing& hearing) {
                if (judged == 0 && !WriteMore(&host, hearing, kMeanwhile))
                  return Status(StatusCode::kInternal, "nobody writes them");
                ++judged;
                return SayGuilty(hearing);
              }))
              .ok());
  REQUIRE(host.TriggerAndFlush());

  // As above.
  const size_t displaced = host.recorder.Stats().verdicts_failed;
  CHECK(displaced <= kMeanwhile - 1);
  CHECK(displaced + 1 >= kMeanwhile - 1);
  const auto incidents = host.incidents();
  REQUIRE(incidents.size() == 1 + kMeanwhile);
  for (size_t i = 0; i < incidents.size(); ++i) {
    const bool is_judged = i == 0 || i > displaced;
    CHECK(Opens(File(host, incidents[i], "report.txt"),
                is_judged ? "guilty\n\n" : "no report and no verdict: too many newer incidents"));
  }
  CHECK(judged == 1 + kMeanwhile - displaced);
}

TEST_CASE("Stop ends a slow verdict, and the incident stays as it was", "[judge]") {
  Host host;
  REQUIRE(host.Start());
  const auto gate = std::make_shared<Gate>();
  REQUIRE(host.recorder
              .Add(MakeJudge([gate](Hearing& hearing) {
                gate->inside = true;
                while (!hearing.IsOver()) {}
                return SayGuilty(hearing);
              }))
              .ok());
  REQUIRE(host.recorder.Trigger("endless").ok());
  REQUIRE(gate->WaitUntilReached());
  host.recorder.Stop(50);

  REQUIRE(host.incidents().size() == 1);
  CHECK(!Contains(File(host, host.incidents()[0], "report.txt"), "guilty"));
  CHECK(fakes::NamesIn(host.directory / host.incidents()[0]) == std::vector<std::string>{"dump.pitot"});
  CHECK(host.recorder.Stats().files_failed == 2);  // report.txt, and the one of the fake serializer
  CHECK(host.recorder.Stats().verdicts_failed == 1);
  CHECK(host.recorder.Stats().incidents_written == 1);
}

TEST_CASE("Stop waits for the verdict in progress, and for none waiting for its turn", "[judge]") {
  constexpr size_t kMeanwhile = 3, kAll = 1 + kMeanwhile + 1;
  Host host;
  REQUIRE(host.Start());
  pitot::FailureTriggerOptions long_after;
  long_after.post_window_ms = 60'000;
  REQUIRE(host.recorder.Add(pitot::MakeFailureTrigger(long_after)).ok());
  const auto gate = std::make_shared<Gate>();
  REQUIRE(host.recorder
              .Add(MakeJudge([&](Hearing& hearing) {
                if (!WriteMore(&host, hearing, kMeanwhile)) return Status(StatusCode::kInternal, "nobody writes them");
                pitot::Request::Begin("/r").Finish(pitot::Outcome::kFailed);
                gate->inside = true;
                // Stop does not wait for its post window.
                if (!fakes::WaitUntil([&] { return hearing.IsOver() || host.incidents().size() == kAll; }))
                  return Status(StatusCode::kInternal, "nobody stops");
                return SayGuilty(hearing);
              }))
              .ok());
  REQUIRE(host.recorder.Trigger("first").ok());
  REQUIRE(gate->WaitUntilReached());
  host.recorder.Stop(60'000);

  const auto incidents = host.incidents();
  REQUIRE(incidents.size() == kAll);
  CHECK(Opens(File(host, incidents[0], "report.txt"), "guilty\n\n"));
  for (size_t i = 1; i < incidents.size(); ++i)
    CHECK(Opens(File(host, incidents[i], "report.txt"),
                "no verdict: the recorder was stopped\nRun `pitot why DIR` for a verdict"));
  for (const Told& told : host.told())
    CHECK((told.hook == "incident" || told.number == 1) == (told.code == StatusCode::kOk));
  CHECK(host.told().size() == 2 * kAll);
  CHECK(host.recorder.Stats().verdicts_given == 1);
  CHECK(host.recorder.Stats().verdicts_failed == kAll - 1);
}

TEST_CASE("Stop does not wait forever for a judge that does not return", "[judge]") {
  Host host;
  REQUIRE(host.Start());
  const auto gate = std::make_shared<Gate>();
  REQUIRE(host.recorder
              .Add(MakeJudge([gate](Hearing&) {
                gate->Pass();
                return Status();
              }))
              .ok());
  REQUIRE(host.recorder.Trigger("stuck").ok());
  REQUIRE(gate->WaitUntilReached());
  host.recorder.Stop(10);

  CHECK(!gate->left);
  CHECK(host.log.Has(pitot::LogLevel::kWarning, "a serializer, judge, hook, trigger or collector did not return"));
  CHECK(host.incidents().size() == 1);
  const size_t told = host.told().size();
  gate->open = true;
  REQUIRE(fakes::WaitUntil([&] { return gate->left.load(); }));
  CHECK(host.told().size() == told);
}

TEST_CASE("a judge learns from samples between incidents; they are not incidents and leave no file", "[judge]") {
  Host host;
  REQUIRE(host.Start());
  std::atomic<int> learned{0}, firings{0}, marks{0}, kept{0}, kept_incidents{0}, kept_samples{0};
  REQUIRE(host.recorder.Add(std::make_unique<CountingCollector>(&kept_incidents, &kept_samples)).ok());
  pitot::JudgeNeeds needs = Ample();
  needs.sample_every_ms = 1;
  needs.sample_window_ms = 60'000;
  needs.sample_permille = 1000;
  PITOT_INSTANT("before the sample");
  REQUIRE(host.recorder
              .Add(MakeJudge(SayGuilty, needs,
                             [&](Hearing& hearing) {
                               firings += static_cast<int>(hearing.trace().firings.size());
                               marks +=
                                   static_cast<int>(fakes::EventsNamed(hearing.trace(), "before the sample").size());
                               const auto file = fakes::MakeCallSerializer("f", [](auto&, auto&) { return Status(); });
                               kept += hearing.AddFile(*file).ok();
                               ++learned;
                               return Status();
                             }))
              .ok());
  REQUIRE(fakes::WaitUntil([&] {
    PITOT_INSTANT("something to sample");
    return learned >= 2;
  }));

  CHECK(marks >= 2);
  CHECK(kept_samples >= 2);
  CHECK(kept_incidents == 0);
  CHECK(firings == 0);
  CHECK(kept == 0);
  CHECK(host.incidents().empty());
  CHECK(host.told().empty());
  CHECK(host.TriggerAndFlush());
  CHECK(host.incidents().size() == 1);
  CHECK(kept_incidents == 1);
  const pitot::Stats stats = host.recorder.Stats();
  CHECK(stats.samples_learned >= 2);
  CHECK(stats.samples_failed == 0);
  CHECK(stats.incidents_written == 1);
}

TEST_CASE("an incident's dump has what the judge had learned", "[judge]") {
  Host host;
  REQUIRE(host.Start());
  size_t known = 0;
  const auto decide = [&](Hearing& hearing) {
    known = hearing.trace().norms.size();
    return Status();
  };
  REQUIRE(host.recorder.Add(std::make_unique<KnowingJudge>(Ample(), decide, Nothing)).ok());
  REQUIRE(host.TriggerAndFlush());

  const pitot::model::Trace trace = host.traces().at(0);
  REQUIRE(trace.norms.size() == 1);
  CHECK(trace.strings[trace.norms[0].name] == "cache");
  CHECK(trace.norms[0].total_ns == 7'000'000);
  CHECK(known == 1);
}

TEST_CASE("samples a judge fails to learn from are counted and harm nothing", "[judge]") {
  Host host;
  REQUIRE(host.Start());
  pitot::JudgeNeeds needs = Ample();
  needs.sample_every_ms = 1;
  needs.sample_window_ms = 1000;
  needs.sample_permille = 1000;
  REQUIRE(host.recorder.Add(MakeJudge(SayGuilty, needs, [](Hearing&) -> Status { throw 1; })).ok());
  REQUIRE(fakes::WaitUntil([&] {
    PITOT_INSTANT("something to sample");
    return host.recorder.Stats().samples_failed >= 2;
  }));

  CHECK(host.TriggerAndFlush());
  CHECK(Opens(File(host, host.incidents().at(0), "report.txt"), "guilty"));
}

TEST_CASE("the hook gets the verdict if no incident is kept on disk", "[judge]") {
  Host host;
  host.options.incident_directory = nullptr;
  REQUIRE(host.Start());
  REQUIRE(host.recorder.Add(MakeJudge(SayGuilty)).ok());
  REQUIRE(host.TriggerAndFlush());

  REQUIRE(host.told().size() == 2);
  CHECK(host.told()[1].verdict == "guilty\n\n");
  CHECK(host.told()[1].directory.empty());
}

TEST_CASE("another judge replaces the first", "[judge]") {
  Host host;
  REQUIRE(host.Start());
  REQUIRE(host.recorder.Add(MakeJudge([](Hearing&) { return Status(StatusCode::kInternal, "retired"); })).ok());
  REQUIRE(host.recorder.Add(MakeJudge(SayGuilty)).ok());
  CHECK(host.recorder.Add(std::unique_ptr<pitot::Judge>()).code() == StatusCode::kResourceExhausted);
  REQUIRE(host.TriggerAndFlush());

  CHECK(Opens(File(host, host.incidents().at(0), "report.txt"), "guilty\n\n"));
}

TEST_CASE("findings of samples have half of their share, and leave their length alone", "[judge]") {
  constexpr int64_t kMs = 1'000'000;
  pitot::session::SamplePace pace;
  pitot::JudgeNeeds needs;
  needs.sample_every_ms = 1000;
  needs.sample_window_ms = 800;
  needs.sample_permille = 5;
  needs.has_findings = true;
  pace.Begin(needs);
  REQUIRE(pace.AreFindingsDue(0));

  pace.Take(0);
  pace.Learned(0, 1 * kMs, 100 * kMs);

  CHECK(pace.window_ms() == 800);
  CHECK(pace.IsDue(1000 * kMs));
  CHECK(!pace.AreFindingsDue(39'999 * kMs));  // at 0.25 % of a CPU: 40 seconds
  CHECK(pace.AreFindingsDue(40'000 * kMs));
  pace.Learned(1000 * kMs, 10 * kMs);
  CHECK(!pace.IsDue(4999 * kMs));
  CHECK(pace.IsDue(5000 * kMs));
  CHECK(pace.AreFindingsDue(40'000 * kMs));
}

TEST_CASE("samples come as often as requested, and less often and shorter if they cost more", "[judge]") {
  constexpr int64_t kMs = 1'000'000;
  pitot::session::SamplePace pace;
  CHECK(!pace.IsDue(0));
  pitot::JudgeNeeds needs;
  needs.sample_every_ms = 1000;
  needs.sample_window_ms = 800;
  needs.sample_permille = 5;
  pace.Begin(needs);
  REQUIRE(pace.IsDue(0));

  pace.Take(0);
  pace.Learned(0, 1 * kMs);
  CHECK(!pace.IsDue(999 * kMs));
  CHECK(pace.IsDue(1000 * kMs));
  CHECK(pace.window_ms() == 800);

  pace.Take(1000 * kMs);
  pace.Learned(1100 * kMs, 100 * kMs);  // at 0.5 % of a CPU: 20 seconds
  CHECK(!pace.IsDue(21'099 * kMs));
  CHECK(pace.IsDue(21'100 * kMs));
  CHECK(pace.window_ms() == 400);
  pace.Learned(0, 100 * kMs);
  pace.Learned(0, 100 * kMs);
  CHECK(pace.window_ms() == 250);

  for (int i = 0; i < 3; ++i) pace.Learned(0, 5 * kMs);
  CHECK(pace.window_ms() == 800);
}
