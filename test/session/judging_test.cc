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

#include "session/parts.h"

namespace {

using pitot::Hearing;
using pitot::Status;
using pitot::StatusCode;
using pitot::session::Case;
using pitot::session::Judging;
using session_test::kMs;
using session_test::kSecond;
using session_test::MakeIncident;

struct FakeJudge final : pitot::Judge {
  FakeJudge(pitot::JudgeNeeds with, std::function<Status(Hearing&)> decide) : needs(with), call(std::move(decide)) {}
  const char* Name() const noexcept override { return "oracle"; }
  pitot::JudgeNeeds Needs() const noexcept override { return needs; }
  Status Decide(Hearing& hearing) override { return call(hearing); }
  Status Learn(Hearing& hearing) override { return call(hearing); }
  pitot::JudgeNeeds needs;
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
  void Take(uint64_t number) {
    Case to_judge;
    to_judge.incident = MakeIncident(number);
    to_judge.trace.emplace();
    judging.Take(std::move(to_judge));
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
  std::function<bool()> write_waiting = [] { return false; };
  Judging judging{1 << 20, &parts.lifetime, &parts.host, parts.pace.get(), parts.files.get(), &parts.counts, [this] {
                    return write_waiting();
                  }};
};

}  // namespace

TEST_CASE("an incident is judged at once if no other is being judged", "[judging]") {
  Rig rig;
  CHECK_FALSE(rig.judging.HasJudge());
  rig.Add({}, [](Hearing&) { return Status(); });
  CHECK(rig.judging.HasJudge());

  rig.Take(7);
  CHECK(rig.Judged(StatusCode::kOk) == std::vector<uint64_t>{7});
  CHECK(rig.parts.counts.verdicts_given == 1);
}

TEST_CASE("a judge's CPU budget does not pay for incidents written meanwhile", "[judging]") {
  Rig rig;
  rig.write_waiting = [] {
    session_test::cpu_ns += 500 * kMs;
    return true;
  };
  bool is_over_before = true, is_over_after = false;
  rig.Add({.budget_ms = 10}, [&](Hearing& hearing) {
    session_test::cpu_ns += 10 * kMs;
    is_over_before = hearing.IsOver();
    session_test::cpu_ns += 1 * kMs;
    is_over_after = hearing.IsOver();
    return Status();
  });

  rig.Take(1);
  CHECK_FALSE(is_over_before);
  CHECK(is_over_after);
  CHECK(rig.Judged(StatusCode::kResourceExhausted) == std::vector<uint64_t>{1});
  CHECK(session_test::Contains(rig.told[0].status.message(), "cut off: it took 11 ms of CPU time"));
  CHECK(rig.parts.counts.verdicts_failed == 1);
}

TEST_CASE("incidents written meanwhile wait for their verdicts, and the oldest of more than eight gets none",
          "[judging]") {
  Rig rig;
  uint64_t newest = 1;
  rig.write_waiting = [&] {
    if (newest == 10) return false;
    rig.Take(++newest);
    return true;
  };
  rig.Add({}, [&](Hearing& hearing) {
    while (newest < 10) hearing.IsOver();
    return Status();
  });

  rig.Take(1);
  CHECK(rig.Judged(StatusCode::kResourceExhausted) == std::vector<uint64_t>{2});
  CHECK(rig.Judged(StatusCode::kOk) == std::vector<uint64_t>{1});
  rig.judging.JudgeWaiting();
  CHECK(rig.Judged(StatusCode::kOk) == std::vector<uint64_t>{1, 3, 4, 5, 6, 7, 8, 9, 10});
}

TEST_CASE("an incident still waiting at the end gets no verdict", "[judging]") {
  Rig rig;
  bool has_written = false;
  rig.write_waiting = [&] {
    if (!std::exchange(has_written, true)) rig.Take(2);
    return true;
  };
  rig.Add({}, [](Hearing& hearing) { return hearing.IsOver() ? Status() : Status(); });
  rig.Take(1);

  rig.parts.pace->Finish();
  rig.judging.JudgeWaiting();
  CHECK(rig.Judged(StatusCode::kUnavailable) == std::vector<uint64_t>{2});
  CHECK(session_test::Contains(rig.told.back().status.message(), "the recorder was stopped"));
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

  rig.judging.Learn([] { return pitot::model::Trace(); });
  CHECK(rig.parts.counts.samples_learned == 1);
  CHECK_FALSE(rig.judging.TakeSampleIfDue(now_ns + 2999 * kMs));
  CHECK(rig.judging.TakeSampleIfDue(now_ns + 3 * kSecond));
}

TEST_CASE("a sample that cannot be made is counted", "[judging]") {
  Rig rig;
  rig.Add({}, [](Hearing&) { return Status(); });

  rig.judging.Learn([]() -> pitot::model::Trace { throw std::runtime_error("no memory"); });
  CHECK(rig.parts.counts.samples_failed == 1);
  CHECK(rig.parts.counts.samples_learned == 0);
}
