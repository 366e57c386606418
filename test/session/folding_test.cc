// SPDX-License-Identifier: Apache-2.0
//
// Incidents with the same verdict: which are kept, and what is said of the others.
#include "session/folding.h"

#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "fakes/trace_text.h"
#include "pitot/trigger/latency.h"
#include "session/calibrate.h"
#include "session/incident_budget.h"
#include "session/judging.h"
#include "session/parts.h"
#include "session/pending_incident.h"
#include "trigger/make.h"

namespace {

using pitot::Hearing;
using pitot::Status;
using pitot::session::Case;
using pitot::session::Folding;
using pitot::session::IncidentBudget;
using pitot::session::JudgedIncident;
using pitot::session::Judging;
using session_test::Contains;
using session_test::kSecond;

using Others = pitot::session::IncidentFiles::Others;

constexpr auto kReserve = IncidentBudget::Reserve::kForNewVerdicts;

JudgedIncident Incident(uint64_t number, int64_t excess_ns = 0) {
  return {number, "/incidents/" + std::to_string(number), static_cast<int64_t>(number) * kSecond, excess_ns, 2, 0,
          "slow"};
}

// Says the verdict that the test chooses.
struct SaysJudge final : pitot::Judge {
  SaysJudge(const std::string* says, const int64_t* ns, bool is_called_again)
      : signature(*says), excess_ns(*ns), has_findings(is_called_again) {}
  const char* Name() const noexcept override { return "oracle"; }
  pitot::JudgeNeeds Needs() const noexcept override { return {.has_findings = has_findings}; }
  Status Decide(Hearing& hearing) override {
    hearing.OpenReport("It was slow.\nincident\n\nmore\n");
    hearing.SetSignature(signature.c_str(), excess_ns);
    return hearing.AddFile(*fakes::MakeCallSerializer("verdict.json", [](const auto&, pitot::ByteSink& sink) {
      sink.Write("{\n  \"summary\": 1\n}\n", 19);
      return Status();
    }));
  }
  const std::string& signature;
  const int64_t& excess_ns;
  const bool has_findings;
};

// Incidents on disk, judged one after the other.
struct Rig {
  explicit Rig(bool has_findings = true) {
    REQUIRE(parts.files->OpenDirectory().ok());
    REQUIRE(parts.files->AddBuiltIns().ok());
    REQUIRE(judging.Add(std::make_unique<SaysJudge>(&signature, &excess_ns, has_findings)).ok());
  }
  Case Judge(uint64_t number, const std::string& cause = "latency /classify") {
    const std::unique_ptr<pitot::session::Incident> incident = session_test::MakeIncident(number);
    incident->cause = cause;
    return Judge(incident.get());
  }
  Case Judge(const pitot::session::Incident* of) {
    Case judged;
    const uint64_t number = of->number;
    judged.incident = session_test::MakeIncident(number);
    judged.incident->cause = of->cause;
    judged.incident->more_like_it = of->more_like_it;
    judged.trace.emplace();
    judged.trace->clock.realtime_ns = 1'000'000 * kSecond + static_cast<int64_t>(number) * kSecond;
    REQUIRE(parts.files->WriteDump(*judged.incident, *judged.trace, parts.throttle.get(), &judged.path).ok());
    judging.JudgeNow(&judged, [this] { return is_next_waiting; });
    return judged;
  }
  std::vector<std::string> Kept() const { return fakes::NamesIn(parts.directory.path()); }
  std::string File(size_t at, const std::string& name) const {
    return fakes::ReadFile(parts.directory / Kept().at(at) + "/" + name);
  }

  std::string signature = "/classify: host_lock";
  int64_t excess_ns = 0;
  bool is_next_waiting = false;
  session_test::Parts parts{true};
  Judging judging{&parts.lifetime, &parts.host, parts.throttle.get(), parts.files.get(), &parts.counts};
};

// Requests of a route, each slow, with default options and a clock of its own: a trigger, the budget, and the judge.
struct Storm final : pitot::FiringSink {
  explicit Storm(Rig* its) : rig(*its) {
    pitot::session::CalibrateTicks(true);  // one tick is one ns
    pitot::LatencyTriggerOptions slow;
    slow.above_ms = 50;
    trigger = pitot::trigger::MakeLatency(slow, []() noexcept { return static_cast<uint64_t>(now_ns); });
  }
  // Half a second later a request is slow. What that begins is judged before the next.
  void Strike() {
    now_ns += kSecond / 2;
    pitot::RequestView view{};
    view.id = ++requests;
    view.route = "/classify";
    view.outcome = pitot::Outcome::kOk;
    view.latency_ns = 100'000'000;
    trigger->OnFinish(view, *this);
    const std::unique_ptr<pitot::session::Incident> incident = pending.Release();
    if (incident == nullptr) return;
    const Case judged = rig.Judge(incident.get());
    pending.NoteVerdict(*incident, judged.is_repeat ? IncidentBudget::Verdict::kKnown : IncidentBudget::Verdict::kNew,
                        now_ns);
  }
  bool Fire(const pitot::Firing& firing) noexcept override {
    pitot::session::QueuedFiring queued{};
    queued.Set(firing, static_cast<uint64_t>(now_ns), static_cast<uint64_t>(now_ns));
    refused += pending.Take(queued, now_ns, kReserve) != pitot::session::PendingIncident::Answer::kBegan;
    return true;
  }

  static inline int64_t now_ns = 0;
  Rig& rig;
  pitot::Options options;
  pitot::session::PendingIncident pending{&options};
  std::unique_ptr<pitot::Trigger> trigger;
  uint64_t requests = 0;
  int refused = 0;
};

}  // namespace

TEST_CASE("the first, the worst and the last incident with a verdict are kept", "[folding]") {
  Folding folding;
  std::vector<std::string> folded, all;
  for (uint64_t number = 1; number <= 40; ++number) {
    folding.Add("a", Incident(number, number == 7 ? 100 : 10), &folded);
    all.insert(all.end(), folded.begin(), folded.end());
    folded.clear();
  }
  const auto& repeats = folding.Add("a", Incident(41), &folded);

  CHECK(repeats.first.number == 1);
  CHECK(repeats.worst.number == 7);
  CHECK(repeats.last.number == 41);
  CHECK(repeats.again == 40);
  CHECK(repeats.requests == 2 * 41);
  CHECK(repeats.at_ns.size() == 41);
  CHECK(folded == std::vector<std::string>{"/incidents/40"});
  CHECK(all.size() == 40 - 3);
}

TEST_CASE("a new worst incident takes the place of the worst and of the last", "[folding]") {
  Folding folding;
  std::vector<std::string> folded;
  for (uint64_t number = 1; number <= 3; ++number) folding.Add("a", Incident(number, number == 2 ? 5 : 1), &folded);
  REQUIRE(folded.empty());

  folding.Add("a", Incident(4, 9), &folded);
  CHECK(folded == std::vector<std::string>{"/incidents/2", "/incidents/3"});
}

TEST_CASE("other verdicts are counted apart, and a verdict not seen for an hour begins anew", "[folding]") {
  Folding folding;
  std::vector<std::string> folded;
  folding.Add("a", Incident(1), &folded);
  folding.Add("b", Incident(2), &folded);
  CHECK(folding.Add("a", Incident(3600), &folded).again == 1);
  CHECK(folding.Add("a", Incident(7201), &folded).again == 0);
  CHECK(folding.Add("b", Incident(7201), &folded).again == 0);
  CHECK(folded.empty());
}

TEST_CASE("verdicts are remembered in bounded memory, the latest ones", "[folding]") {
  Folding folding;
  std::vector<std::string> folded;
  for (uint64_t number = 1; number <= Folding::kMostSignatures + 1; ++number)
    folding.Add(std::to_string(number), Incident(number), &folded);
  for (int i = 0; i < 100; ++i) folding.Add("257", Incident(258), &folded);

  CHECK(folding.Add("2", Incident(300), &folded).again == 1);
  CHECK(folding.Add("257", Incident(301), &folded).at_ns.size() == Folding::kMostTimes);
  CHECK(folding.Add("1", Incident(302), &folded).again == 0);
}

TEST_CASE("a fault that strikes 40 times ends as three incidents and a count", "[folding]") {
  Rig rig;
  for (uint64_t number = 1; number <= 40; ++number) {
    rig.excess_ns = number == 7 ? 100 : 10;
    const Case judged = rig.Judge(number);
    CHECK(judged.is_repeat == (number > 1));
    CHECK(judged.incident->again == number - 1);
  }

  REQUIRE(rig.Kept().size() == 3);
  CHECK(Contains(rig.Kept()[1], "-0007-"));
  CHECK(rig.parts.counts.incidents_folded == 37);
  CHECK(rig.parts.counts.verdicts_given == 40);
  for (size_t i = 0; i < 3; ++i) {
    const std::string report = rig.File(i, "report.txt"), json = rig.File(i, "verdict.json");
    CHECK(report.find("It was slow.\nincident\n"
                      "again       39 times in 39.00 s, from 13:46:41 to 13:47:20 UTC: 40 requests fired in all\n"
                      "            kept: incidents 0001 (the first), 0007 (the worst), 0040 (the last)\n"
                      "\nmore\n") == 0);
    CHECK(report.find("again ") == report.rfind("again "));
    CHECK(json.find("{\n  \"again\": {\"times\": 39, \"requests\": 40, \"more_like_it\": 0, \"first\": 1, \"worst\": "
                    "7, \"last\": 40, "
                    "\"first_at_ns\": 1000001000000000, \"at_ns\": [1000001000000000, ") == 0);
    CHECK(Contains(json, "]},\n  \"summary\": 1\n}\n"));
  }
}

TEST_CASE("an incident without a signature is unlike any other", "[folding]") {
  Rig rig;
  rig.signature = "";
  for (uint64_t number = 1; number <= 5; ++number) CHECK_FALSE(rig.Judge(number).is_repeat);

  CHECK(rig.Kept().size() == 5);
  CHECK(rig.parts.counts.incidents_folded == 0);
  CHECK(!Contains(rig.File(0, "report.txt"), "again "));
}

TEST_CASE("incidents that the host asked for are all kept, whatever their verdict", "[folding]") {
  Rig rig;
  for (uint64_t number = 1; number <= 5; ++number) CHECK_FALSE(rig.Judge(number, "manual").is_repeat);

  CHECK(rig.Kept().size() == 5);
}

TEST_CASE("incidents of different triggers do not fold with each other", "[folding]") {
  Rig rig;
  CHECK_FALSE(rig.Judge(1, "latency /classify").is_repeat);
  CHECK_FALSE(rig.Judge(2, "failure /classify").is_repeat);
  CHECK(rig.Judge(3, "latency /classify").is_repeat);
}

TEST_CASE("findings come into a report that counts repeats, and the count stays", "[folding]") {
  Rig rig;
  Case first = rig.Judge(1);
  rig.Judge(2);
  REQUIRE(rig.parts.files->OpenReport(&first, "It was slow.\nincident\n\nmore\nin window\n\n", Others::kNow).ok());

  const std::string report = rig.File(0, "report.txt");
  INFO(report);
  CHECK(report.find("It was slow.\nincident\nagain       1 time in 1") == 0);
  CHECK(Contains(report, "(the last)\n\nmore\nin window\n\n"));
  CHECK(report.find("more\n") == report.rfind("more\n"));
}

TEST_CASE("another opening takes the place of both parts of the one before", "[folding]") {
  Rig rig;
  Case first = rig.Judge(1);
  for (const char* opening : {"one\n\nfirst\nAPPENDIX\n\nnumbers\n\n", "two\n\nsecond\nAPPENDIX\n\nother numbers\n\n"})
    REQUIRE(rig.parts.files->OpenReport(&first, opening, Others::kNow).ok());

  const std::string report = rig.File(0, "report.txt");
  INFO(report);
  CHECK(report.find("two\n\nsecond\n\n") == 0);
  CHECK(Contains(report, "\nAPPENDIX\n\nother numbers\n\n"));
  CHECK(!Contains(report, "first"));
  CHECK(!Contains(report, "\nnumbers"));
}

TEST_CASE("while the next waits for its verdict, a repeat has its verdict only, and the rest comes later",
          "[folding]") {
  Rig rig;
  rig.Judge(1);
  rig.is_next_waiting = true;
  Case second = rig.Judge(2);
  CHECK_FALSE(second.is_complete);
  CHECK(rig.parts.counts.verdicts_given == 2);
  const std::string opening = "It was slow.\nincident\nagain       1 time in 1.00 s";
  CHECK(rig.File(1, "report.txt").find(opening) == 0);
  CHECK(Contains(rig.File(1, "report.txt"), "This is the verdict alone. Tables and pages follow"));
  CHECK(!Contains(rig.File(1, "report.txt"), "\nFILES\n"));
  CHECK(Contains(rig.File(1, "verdict.json"), "\"summary\": 1"));

  rig.parts.files->Complete(&second);
  CHECK(second.written.ok());
  const std::string whole = rig.File(1, "report.txt");
  INFO(whole);
  CHECK(whole.find(opening) == 0);
  CHECK(Contains(whole, "(the last)\n\nmore\n"));
  CHECK(Contains(whole, "\nFILES\n"));
  CHECK(!Contains(whole, "the verdict alone"));
}

TEST_CASE("a report.txt that could not be written is whole when the findings come", "[folding]") {
  Rig rig;
  int left = 1;  // failures
  const auto fail_first = [&](const auto&, pitot::ByteSink& sink) {
    if (left-- > 0) return Status(pitot::StatusCode::kIoError, "no ink");
    return sink.Write("tables\n", 7) ? Status() : Status(pitot::StatusCode::kIoError, "full");
  };
  REQUIRE(rig.parts.files->Add(fakes::MakeCallSerializer("report.txt", fail_first)).ok());
  rig.Judge(1);
  rig.is_next_waiting = true;
  left = 1;
  Case second = rig.Judge(2);
  rig.parts.files->Complete(&second);
  REQUIRE(!second.written.ok());

  REQUIRE(rig.parts.files->OpenReport(&second, "It was slow.\n\nmore\n", Others::kNow).ok());
  const std::string whole = fakes::ReadFile(second.path + "/report.txt");
  INFO(whole);
  CHECK(whole.find("It was slow.") == whole.rfind("It was slow."));
  CHECK(Contains(whole, "tables"));
  CHECK(!Contains(whole, "the verdict alone"));
}

TEST_CASE("the worst of its kind so far has all of its files at once", "[folding]") {
  Rig rig;
  rig.Judge(1);
  rig.is_next_waiting = true;
  rig.excess_ns = 5;
  CHECK(rig.Judge(2).is_complete);
  CHECK_FALSE(rig.Judge(3).is_complete);
}

TEST_CASE("a judge that gets no further call has to write everything at once", "[folding]") {
  Rig rig(false);
  rig.Judge(1);
  rig.is_next_waiting = true;
  CHECK(rig.Judge(2).is_complete);
}

TEST_CASE("a verdict not seen for an hour is new, and has all of its files at once", "[folding]") {
  Rig rig;
  rig.Judge(1);
  rig.is_next_waiting = true;
  CHECK(rig.Judge(3602).is_complete);
}

TEST_CASE("a report.txt of the host that throws fails only that file, also with a verdict", "[folding]") {
  Rig rig;
  REQUIRE(rig.parts.files
              ->Add(fakes::MakeCallSerializer(
                  "report.txt", [](const auto&, pitot::ByteSink&) -> Status { throw std::runtime_error("no ink"); }))
              .ok());
  const Case judged = rig.Judge(1);
  CHECK(Contains(judged.written.message(), "no ink"));
  CHECK(rig.parts.counts.files_failed == 1);
  CHECK(rig.parts.counts.verdicts_given == 0);
  CHECK(fakes::NamesIn(judged.path) == std::vector<std::string>{"dump.pitot", "verdict.json"});
}

TEST_CASE("the first incident with a verdict has all of its files, whoever waits", "[folding]") {
  Rig rig;
  rig.is_next_waiting = true;
  CHECK(rig.Judge(1).is_complete);
  CHECK(Contains(rig.File(0, "report.txt"), "\nFILES\n"));
  CHECK(!Contains(rig.File(0, "report.txt"), "the verdict alone"));
}

TEST_CASE("a kept incident that was removed from the disk does not keep others from being counted", "[folding]") {
  Rig rig;
  const Case first = rig.Judge(1);
  rig.parts.files->Remove(first.path);
  rig.Judge(2);

  REQUIRE(rig.Kept().size() == 1);
  CHECK(Contains(rig.File(0, "report.txt"), "again       1 time"));
}

TEST_CASE("a quarter of a cause's budget is left for verdicts that are new", "[budget]") {
  using Answer = IncidentBudget::Answer;
  IncidentBudget budget(12);
  int64_t now_ns = 1000 * kSecond;
  for (int i = 0; i < 9; ++i) REQUIRE(budget.Take("slow", now_ns, kReserve) == Answer::kTaken);

  // One on trial, and the next after 75 s.
  CHECK(budget.Has("slow", now_ns, kReserve));
  CHECK(budget.Take("slow", now_ns, kReserve) == Answer::kTakenOfReserve);
  CHECK_FALSE(budget.Has("slow", now_ns, kReserve));
  CHECK(budget.Take("slow", now_ns, kReserve) == Answer::kRefused);
  CHECK(budget.Take("slow", now_ns, kReserve) == Answer::kRefusedAgain);
  budget.NoteVerdict("slow", Answer::kTakenOfReserve, IncidentBudget::Verdict::kKnown, now_ns);
  CHECK(budget.Take("slow", now_ns + 74 * kSecond, kReserve) == Answer::kRefusedAgain);
  now_ns += 75 * kSecond;
  CHECK(budget.Take("slow", now_ns, kReserve) == Answer::kTakenOfReserve);

  // The verdict is new: the next may come at once, until the reserve is used up.
  budget.NoteVerdict("slow", Answer::kTakenOfReserve, IncidentBudget::Verdict::kNew, now_ns);
  CHECK(budget.Take("slow", now_ns, kReserve) == Answer::kTakenOfReserve);
  budget.NoteVerdict("slow", Answer::kTakenOfReserve, IncidentBudget::Verdict::kNew, now_ns);
  CHECK(budget.Take("slow", now_ns, kReserve) == Answer::kTakenOfReserve);
  budget.NoteVerdict("slow", Answer::kTakenOfReserve, IncidentBudget::Verdict::kNew, now_ns);
  CHECK_FALSE(budget.Has("slow", now_ns, kReserve));
}

TEST_CASE("without a judge all of a cause's budget is for any incident", "[budget]") {
  IncidentBudget budget(12);
  for (int i = 0; i < 12; ++i)
    REQUIRE(budget.Take("slow", kSecond, IncidentBudget::Reserve::kNone) == IncidentBudget::Answer::kTaken);
  CHECK_FALSE(budget.Has("slow", kSecond, IncidentBudget::Reserve::kNone));
}

TEST_CASE("known verdicts do not use up the reserve, however long a fault lasts", "[budget]") {
  IncidentBudget budget(12);
  int taken = 0, of_reserve = 0;
  for (int64_t second = 0; second < 3600; ++second) {
    const auto answer = budget.Take("slow", second * kSecond, kReserve);
    taken += answer == IncidentBudget::Answer::kTaken;
    of_reserve += answer == IncidentBudget::Answer::kTakenOfReserve;
    if (answer == IncidentBudget::Answer::kTakenOfReserve)
      budget.NoteVerdict("slow", answer, IncidentBudget::Verdict::kKnown, second * kSecond);
  }
  CHECK(taken <= 9 + 12);
  CHECK(of_reserve <= 3600 / 75 + 1);
  CHECK(of_reserve >= 30);
  CHECK(budget.Take("slow", 3600 * kSecond + 75 * kSecond, kReserve) != IncidentBudget::Answer::kRefusedAgain);
}

TEST_CASE("a known verdict gives its place back, up to five times as often as the budget has places", "[budget]") {
  using Answer = IncidentBudget::Answer;
  IncidentBudget budget(12);
  REQUIRE(budget.Take("slow", kSecond, kReserve) == Answer::kTaken);
  budget.NoteVerdict("slow", Answer::kTaken, IncidentBudget::Verdict::kNew, kSecond);
  int returned = 0;
  while (budget.Take("slow", kSecond, kReserve) == Answer::kTaken) {
    budget.NoteVerdict("slow", Answer::kTaken, IncidentBudget::Verdict::kKnown, kSecond);
    ++returned;
  }
  CHECK(returned == 5 * 12 + 8);

  // Later refusals are counted until somebody asks.
  CHECK(budget.TakeRefusals("slow") == 0);
  budget.Take("slow", kSecond, kReserve);
  budget.Take("slow", kSecond, kReserve);
  CHECK(budget.TakeRefusals("slow") == 2);
  CHECK(budget.TakeRefusals("slow") == 0);
}

TEST_CASE("by default a fault that strikes 40 requests in 20 s leaves room for the next fault of its route",
          "[folding]") {
  Rig rig;
  Storm storm(&rig);
  for (int i = 0; i < 40; ++i) {
    rig.excess_ns = i == 10 ? 100 : 10;
    storm.Strike();
  }
  CHECK(rig.Kept().size() == 3);
  CHECK(storm.refused == 0);

  rig.signature = "/classify: host_gc";
  rig.excess_ns = 50;
  const uint64_t judged = rig.parts.counts.verdicts_given;
  storm.Strike();
  storm.Strike();
  REQUIRE(rig.Kept().size() == 4);
  CHECK(rig.parts.counts.verdicts_given == judged + 1);
  CHECK(!Contains(rig.File(3, "report.txt"), "again "));
  const std::string last = rig.File(2, "report.txt");
  INFO(last);
  CHECK(Contains(last, "19 times in 19.00 s"));
  CHECK(Contains(last, ": 20 requests fired in all\n"));
  CHECK(Contains(last, "19 more events of this trigger and route began no incident meanwhile\n\nmore\n"));
}

TEST_CASE("events between two incidents count only if both have the verdict", "[folding]") {
  Folding folding;
  std::vector<std::string> folded;
  const auto add = [&](const char* signature, uint64_t number) {
    JudgedIncident incident = Incident(number);
    incident.more_like_it = 10;
    return folding.Add(signature, incident, &folded).more_like_it;
  };
  CHECK(add("a", 1) == 0);
  CHECK(add("a", 2) == 10);
  CHECK(add("b", 3) == 0);
  CHECK(add("a", 4) == 10);
  CHECK(add("a", 5) == 20);
}
