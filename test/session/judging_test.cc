// SPDX-License-Identifier: Apache-2.0
//
// Verdicts and samples, by clocks that stand still: judge_test.cc has them in a recorder.
#include "session/judging.h"

#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "session/case_queue.h"
#include "session/parts.h"

namespace {

using pitot::Hearing;
using pitot::Status;
using pitot::StatusCode;
using pitot::session::Case;
using pitot::session::CaseQueue;
using pitot::session::Judging;
using session_test::kMs;
using session_test::kSecond;
using session_test::MakeIncident;

struct FakeJudge final : pitot::Judge {
  FakeJudge(pitot::JudgeNeeds with, std::function<Status(Hearing&)> decide) : needs(with), call(std::move(decide)) {}
  const char* Name() const noexcept override { return "oracle"; }
  pitot::JudgeNeeds Needs() const noexcept override { return needs; }
  Status Decide(Hearing& hearing) override { return call(hearing); }
  Status AddFindings(Hearing& hearing) override { return call(hearing); }
  Status Learn(Hearing& hearing) override { return call(hearing); }
  Status AddNorms(pitot::model::Trace* trace) override {
    session_test::cpu_ns += norms_cost_ns;
    if (norm.empty()) return Status(StatusCode::kInternal, "it forgot");
    trace->norms.emplace_back().name = trace->strings.Add(norm);
    return Status();
  }
  pitot::JudgeNeeds needs;
  std::string norm;
  int64_t norms_cost_ns = 0;
  std::function<Status(Hearing&)> call;
};

struct Rig {
  Rig() {
    pitot::Hooks hooks;
    hooks.context = this;
    hooks.on_verdict = [](void* context, const pitot::IncidentInfo& info) {
      static_cast<Rig*>(context)->told.push_back({info.number, info.status});
    };
    parts.host.SetHooks(hooks);
  }
  void Add(pitot::JudgeNeeds needs, std::function<Status(Hearing&)> call) {
    REQUIRE(judging.Add(std::make_unique<FakeJudge>(needs, std::move(call))).ok());
  }
  Case Judge(uint64_t number) {
    Case judged;
    judged.incident = MakeIncident(number);
    judged.trace.emplace();
    judging.JudgeNow(&judged, [] { return false; });
    return judged;
  }
  std::vector<uint64_t> Judged(StatusCode code) const {
    std::vector<uint64_t> numbers;
    for (const Told& verdict : told) {
      if (verdict.status.code() == code) numbers.push_back(verdict.incident);
    }
    return numbers;
  }

  struct Told {
    uint64_t incident;
    Status status;
  };
  session_test::Parts parts;
  std::vector<Told> told;
  Judging judging{&parts.lifetime, &parts.host, parts.throttle.get(), parts.files.get(), &parts.counts};
};

}  // namespace

TEST_CASE("an incident is judged", "[judging]") {
  Rig rig;
  CHECK_FALSE(rig.judging.HasJudge());
  rig.Add({}, [](Hearing&) { return Status(); });
  CHECK(rig.judging.HasJudge());

  rig.Judge(7);
  CHECK(rig.Judged(StatusCode::kOk) == std::vector<uint64_t>{7});
  CHECK(rig.parts.counts.verdicts_given == 1);
}

TEST_CASE("a judge is cut off at its CPU budget", "[judging]") {
  Rig rig;
  bool is_over_before = true, is_over_after = false;
  rig.Add({.budget_ms = 10}, [&](Hearing& hearing) {
    session_test::cpu_ns += 10 * kMs;
    is_over_before = hearing.IsOver();
    session_test::cpu_ns += 1 * kMs;
    is_over_after = hearing.IsOver();
    return Status();
  });

  rig.Judge(1);
  CHECK_FALSE(is_over_before);
  CHECK(is_over_after);
  CHECK(rig.Judged(StatusCode::kResourceExhausted) == std::vector<uint64_t>{1});
  CHECK(session_test::Contains(rig.told[0].status.message(), "cut off: it took 11 ms of CPU time"));
  CHECK(rig.parts.counts.verdicts_failed == 1);
  CHECK(rig.parts.counts.verdicts_cut_off == 1);
}

TEST_CASE("findings are added to a judged incident, if the judge has any", "[judging]") {
  Rig rig;
  rig.Add({}, [](Hearing&) { return Status(); });
  CHECK_FALSE(rig.Judge(1).has_findings);
  rig.Add({.has_findings = true}, [](Hearing&) { return Status(); });
  Case judged = rig.Judge(2);
  REQUIRE(judged.has_findings);

  CHECK(rig.judging.AddFindings(&judged, [] { return false; }));
  CHECK(rig.parts.counts.findings_added == 1);
  CHECK(rig.told.size() == 2);  // of the verdicts only
}

TEST_CASE("findings give way to a verdict, and are not counted as left out", "[judging]") {
  Rig rig;
  bool is_over = false;
  rig.Add({.has_findings = true}, [&](Hearing& hearing) {
    is_over = hearing.IsOver();
    return Status(is_over ? StatusCode::kResourceExhausted : StatusCode::kOk, "");
  });
  Case judged = rig.Judge(1);
  CHECK_FALSE(is_over);

  CHECK_FALSE(rig.judging.AddFindings(&judged, [] { return true; }));
  CHECK(is_over);
  CHECK(rig.parts.counts.findings_left_out == 0);
  CHECK(rig.judging.AddFindings(&judged, [] { return false; }));
  CHECK(rig.parts.counts.findings_added == 1);
}

TEST_CASE("findings over the judge's budget are left out and counted, and the verdict stays", "[judging]") {
  Rig rig;
  bool is_verdict = true;
  rig.Add({.budget_ms = 10, .has_findings = true}, [&](Hearing&) {
    session_test::cpu_ns += (is_verdict ? 1 : 11) * kMs;
    return Status();
  });
  Case judged = rig.Judge(1);
  is_verdict = false;

  CHECK(rig.judging.AddFindings(&judged, [] { return false; }));
  CHECK(rig.parts.counts.findings_left_out == 1);
  CHECK(rig.parts.counts.verdicts_given == 1);
  CHECK(rig.parts.counts.verdicts_failed == 0);
}

namespace {

Case MakeCase(uint64_t number, size_t events = 0) {
  Case made;
  made.incident = MakeIncident(number);
  made.trace.emplace();
  made.trace->tokens.resize(events);
  return made;
}

// There is room.
void Add(CaseQueue* queue, Case&& added) { CHECK_FALSE(queue->Add(std::move(added))); }

std::vector<uint64_t> Displaced(CaseQueue* queue) {
  std::vector<uint64_t> displaced;
  queue->Close();
  while (const auto next = queue->Await()) {
    CHECK(next->is_displaced != next->trace.has_value());
    if (next->is_displaced) displaced.push_back(next->incident->number);
  }
  return displaced;
}

}  // namespace

TEST_CASE("incidents wait for the worker in their order, and the oldest of more than eight lose their traces",
          "[judging]") {
  CaseQueue queue;
  Add(&queue, MakeCase(1));
  const auto first = queue.Await();
  REQUIRE(first);
  CHECK(first->incident->number == 1);
  CHECK_FALSE(first->has_waited);
  for (uint64_t number = 2; number <= 11; ++number) Add(&queue, MakeCase(number));
  const auto second = queue.Await();
  CHECK(second->incident->number == 2);
  CHECK(second->has_waited);
  CHECK(second->is_displaced);

  CHECK(Displaced(&queue) == std::vector<uint64_t>{3});
}

TEST_CASE("before another trace is made, those that wait have room with the judge's work on the largest", "[judging]") {
  CaseQueue queue;
  const uint64_t bytes = 1 << 19;
  const size_t tokens = bytes / sizeof(pitot::model::TokenRow);
  for (uint64_t number = 1; number <= 3; ++number) Add(&queue, MakeCase(number, tokens));

  queue.MakeRoom({5 * bytes + 1000, 4});

  CHECK(Displaced(&queue) == std::vector<uint64_t>{1});
}

TEST_CASE("a trace waits, however large, until another is made", "[judging]") {
  CaseQueue queue;
  Add(&queue, MakeCase(1, 1 << 20));
  const auto judged = queue.Await();
  Add(&queue, MakeCase(2, 1 << 20));

  CHECK(Displaced(&queue).empty());
}

TEST_CASE("the judge's work on a trace leaves the others less room", "[judging]") {
  CaseQueue queue;
  const uint64_t bytes = 1 << 19;
  const size_t tokens = bytes / sizeof(pitot::model::TokenRow);
  Add(&queue, MakeCase(1, tokens));
  const auto judged = queue.Await();
  Add(&queue, MakeCase(2, tokens));

  queue.MakeRoom({4 * bytes + 1000, 4});

  CHECK(Displaced(&queue) == std::vector<uint64_t>{2});
}

TEST_CASE("what is usual takes room, too, while a trace waits", "[judging]") {
  CaseQueue queue;
  const uint64_t bytes = 1 << 19;
  for (uint64_t number = 1; number <= 3; ++number) {
    Case made = MakeCase(number);
    made.trace->norms.resize(bytes / sizeof(pitot::model::NormRow) / 2);
    for (pitot::model::NormRow& norm : made.trace->norms)
      norm.parts.resize(sizeof(pitot::model::NormRow) / sizeof(pitot::model::NormPart));
    Add(&queue, std::move(made));
  }

  queue.MakeRoom({5 * bytes + 1000, 4});

  CHECK(Displaced(&queue) == std::vector<uint64_t>{1});
}

TEST_CASE("the worker gets all verdicts before any findings", "[judging]") {
  CaseQueue queue;
  Case judged = MakeCase(1);
  judged.is_judged = true;
  queue.PutBack(std::move(judged));
  CHECK_FALSE(queue.IsVerdictAwaited());
  Add(&queue, MakeCase(2));
  Add(&queue, MakeCase(3));
  CHECK(queue.IsVerdictAwaited());

  CHECK(queue.Await()->incident->number == 2);
  CHECK(queue.Await()->incident->number == 3);
  CHECK_FALSE(queue.IsVerdictAwaited());
  CHECK(queue.Await()->incident->number == 1);
  CHECK(queue.IsEmpty());
}

TEST_CASE("incidents that wait for findings lose their traces before those that wait for a verdict", "[judging]") {
  CaseQueue queue;
  const uint64_t bytes = 1 << 19;
  const size_t tokens = bytes / sizeof(pitot::model::TokenRow);
  Add(&queue, MakeCase(1, tokens));
  Case judged = MakeCase(2, tokens);
  judged.is_judged = true;
  queue.PutBack(std::move(judged));
  Add(&queue, MakeCase(3, tokens));

  queue.MakeRoom({5 * bytes + 1000, 4});

  CHECK(Displaced(&queue) == std::vector<uint64_t>{2});
}

TEST_CASE("at most 64 incidents wait for the worker, and the oldest goes", "[judging]") {
  CaseQueue queue;
  for (uint64_t number = 1; number <= 64; ++number) Add(&queue, MakeCase(number));
  const auto oldest = queue.Add(MakeCase(65));
  REQUIRE(oldest);
  CHECK(oldest->incident->number == 1);
  CHECK(queue.Await()->incident->number == 2);
}

TEST_CASE("an incident that lost its trace says so in its report and to the host", "[judging]") {
  Rig rig;
  Case displaced = MakeCase(7);
  displaced.trace.reset();

  const auto give_up = [&] {
    rig.judging.GiveUp(&displaced, Status(StatusCode::kResourceExhausted, "no room"),
                       &pitot::session::IncidentCounts::verdicts_displaced);
  };
  give_up();
  CHECK(rig.Judged(StatusCode::kResourceExhausted) == std::vector<uint64_t>{7});
  CHECK(rig.parts.counts.verdicts_failed == 0);  // nobody was to judge it
  rig.Add({}, [](Hearing&) { return Status(); });
  give_up();
  CHECK(rig.Judged(StatusCode::kResourceExhausted) == std::vector<uint64_t>{7, 7});
  CHECK(rig.parts.counts.verdicts_failed == 1);
  CHECK(rig.parts.counts.verdicts_displaced == 1);
}

TEST_CASE("a sample is due as often as the judge asks, and less often if learning is expensive", "[judging]") {
  Rig rig;
  int64_t& now_ns = rig.parts.timer.now_ns;
  CHECK_FALSE(rig.judging.TakeSampleIfDue(now_ns));
  rig.Add({.sample_every_ms = 1000, .sample_window_ms = 500, .sample_permille = 10, .sample_bytes = 4096},
          [](Hearing&) {
            session_test::cpu_ns += 30 * kMs;
            return Status();
          });
  const auto sample = rig.judging.TakeSampleIfDue(now_ns);
  REQUIRE(sample);
  CHECK(sample->window_ms == 500);
  CHECK(sample->most_bytes == 4096);
  CHECK_FALSE(rig.judging.TakeSampleIfDue(now_ns + 999 * kMs));

  rig.judging.Learn([] { return pitot::model::Trace(); }, [] { return false; });
  CHECK(rig.parts.counts.samples_learned == 1);
  CHECK_FALSE(rig.judging.TakeSampleIfDue(now_ns + 2999 * kMs));
  CHECK(rig.judging.TakeSampleIfDue(now_ns + 3 * kSecond));
}

TEST_CASE("incidents have what the judge learned by then, and keep it if it fails to say more", "[judging]") {
  Rig rig;
  const auto known = [&] {
    pitot::model::Trace trace;
    trace.strings.Add("some name of its own");
    rig.judging.AddNorms(&trace);
    return trace.norms.empty() ? std::string() : std::string(trace.strings[trace.norms[0].name]);
  };
  CHECK(known().empty());
  auto judge = std::make_unique<FakeJudge>(pitot::JudgeNeeds(), [](Hearing&) { return Status(); });
  FakeJudge& knows = *judge;
  knows.norm = "of a file";
  REQUIRE(rig.judging.Add(std::move(judge)).ok());
  CHECK(known() == "of a file");
  knows.norm = "learned";
  const auto learn = [&] { rig.judging.Learn([] { return pitot::model::Trace(); }, [] { return false; }); };
  learn();
  CHECK(known() == "learned");
  knows.norm = "";
  learn();
  CHECK(known() == "learned");
  knows.norm = "of a failure";
  knows.call = [](Hearing&) { return Status(StatusCode::kInternal, "it learned nothing"); };
  learn();
  CHECK(known() == "learned");
  knows.call = [](Hearing& hearing) {
    CHECK(hearing.IsOver());
    return Status();
  };
  rig.judging.Learn([] { return pitot::model::Trace(); }, [] { return true; });  // an incident waits
  CHECK(known() == "learned");
}

TEST_CASE("what a replaced judge had learned is not said for its successor", "[judging]") {
  Rig rig;
  const auto known = [&] {
    pitot::model::Trace trace;
    rig.judging.AddNorms(&trace);
    return trace.norms.empty() ? std::string() : std::string(trace.strings[trace.norms[0].name]);
  };
  const auto add = [&](const char* norm, std::function<Status(Hearing&)> call) {
    auto judge = std::make_unique<FakeJudge>(pitot::JudgeNeeds(), std::move(call));
    judge->norm = norm;
    REQUIRE(rig.judging.Add(std::move(judge)).ok());
  };
  const auto nothing = [](Hearing&) { return Status(); };
  add("first", [&](Hearing&) {
    add("second", nothing);
    return Status();
  });
  CHECK(known() == "first");
  rig.judging.Learn([] { return pitot::model::Trace(); }, [] { return false; });
  CHECK(known() == "second");
  add("", nothing);
  CHECK(known().empty());
}

TEST_CASE("computing what is usual makes samples rarer, but not shorter", "[judging]") {
  Rig rig;
  const int64_t now_ns = rig.parts.timer.now_ns;
  auto judge = std::make_unique<FakeJudge>(
      pitot::JudgeNeeds{.sample_every_ms = 1000, .sample_window_ms = 500, .sample_permille = 10},
      [](Hearing&) { return Status(); });
  judge->norm = "cache";
  judge->norms_cost_ns = 60 * kMs;
  REQUIRE(rig.judging.Add(std::move(judge)).ok());

  rig.judging.Learn([] { return pitot::model::Trace(); }, [] { return false; });

  CHECK_FALSE(rig.judging.TakeSampleIfDue(now_ns + 5999 * kMs));
  const auto sample = rig.judging.TakeSampleIfDue(now_ns + 6 * kSecond);
  REQUIRE(sample);
  CHECK(sample->window_ms == 500);
}

TEST_CASE("a sample that cannot be made is counted", "[judging]") {
  Rig rig;
  rig.Add({}, [](Hearing&) { return Status(); });

  rig.judging.Learn([]() -> pitot::model::Trace { throw std::runtime_error("no memory"); }, [] { return false; });
  CHECK(rig.parts.counts.samples_failed == 1);
  CHECK(rig.parts.counts.samples_learned == 0);
}
