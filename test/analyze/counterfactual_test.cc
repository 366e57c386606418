// SPDX-License-Identifier: Apache-2.0
//
// The proof of savings: random servers are played with something that takes longer, and again without it. The most that
// a verdict says it would save is compared with the actual saving. PITOT_SERVERS in the environment is the number of
// servers; the test prints the table of docs/lab/verdicts.md.
#include "analyze/verdict/counterfactual.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "fakes/scale.h"
#include "pitot/analyze/verdict.h"
#include "simulator/simulator.h"

namespace pitot::test {

using namespace analyze;
using simulator::Delay;
using simulator::ServerSpec;

namespace {

constexpr int64_t kUs = 1'000, kMs = 1'000 * kUs;

bool IsNone(const BlameSegment& /*segment*/) { return false; }
auto Of(Blame blame) {
  return [blame](const BlameSegment& segment) { return segment.blame == blame; };
}

// Code before and after 10 ms in a model; the thread waited for 4 ms of these.
RequestBlame WithDetour() {
  RequestBlame blame;
  const auto add = [&](int64_t ms, Blame of) {
    BlameSegment segment;
    segment.begin_ns = blame.end_ns;
    segment.end_ns = blame.end_ns += ms * kMs;
    segment.blame = of;
    blame.segments.push_back(segment);
    blame.blame[of] += ms * kMs;
  };
  add(2, Blame::kHostOncpuPre);
  add(7, Blame::kHostOncpuFramework);
  add(3, Blame::kGpuExecExpected);
  add(1, Blame::kHostOncpuPost);
  blame.detours = {{2 * kMs, 12 * kMs, 4 * kMs}};
  return blame;
}

// ---- Servers.

uint64_t Servers() {
  const char* const many = std::getenv("PITOT_SERVERS");
  return many != nullptr ? std::strtoull(many, nullptr, 10) : 10;
}

enum class Load { kAlone, kCrowded };  // at most one request at a time; some

// The same server, but nobody is turned away, gives up or is in a hurry.
ServerSpec Patient(ServerSpec spec, Load load) {
  const int64_t interval_ns = std::max(spec.mean_interval_ns, 50 * kUs);
  spec.mean_interval_ns = load == Load::kAlone ? 2'000 * interval_ns : 8 * interval_ns;
  if (load == Load::kAlone) spec.burst_factor = 1;
  spec.requests = 300;
  spec.cut_ns = simulator::kForever;
  spec.draws_apart = true;
  for (simulator::Pool& pool : spec.pools) pool.queue.sheds = false;
  for (simulator::Model& model : spec.models) model.queue.sheds = model.groups.sheds = false;
  for (simulator::Route& route : spec.routes) {
    route.deadline_ns = route.patience_ns = 0;
    route.percent_failed = route.percent_abandoned = 0;
    route.size_name.clear();
  }
  return spec;
}

Delay SomeDelay(uint32_t request, std::mt19937_64* random) {
  Delay delay;
  delay.request = request;
  delay.is_in_batch = (*random)() % 2 == 0;
  delay.step = static_cast<uint32_t>((*random)() % 5);
  delay.ns = kMs << (*random)() % 5;
  return delay;
}

class Played {
 public:
  Played(ServerSpec spec, const std::vector<Delay>& delays) {
    spec.delays = delays;
    run_ = Simulate(spec);
    REQUIRE(BlameIndex::Make(run_.trace, {}, &index_).ok());
    std::map<uint64_t, uint32_t> rows;
    for (uint32_t row = 0; row < run_.trace.requests.size(); ++row) rows[run_.trace.requests[row].id] = row;
    for (const simulator::TrueRequest& request : run_.truth.requests) {
      if (request.end_ns != model::kOpen) rows_.emplace(request.number, rows.at(request.id));  // before its parts
    }
  }
  // By number, as they arrived.
  const std::map<uint32_t, uint32_t>& rows() const { return rows_; }
  int64_t LatencyNs(uint32_t number) const { return Row(number).duration_ns; }
  RequestBlame BlameOf(uint32_t number) const {
    RequestBlame blame;
    REQUIRE(FindBlame(index_, rows_.at(number), &blame).ok());
    return blame;
  }
  void Teach(uint32_t number, int times, Baseline* baseline) const {
    const RequestBlame blame = BlameOf(number);
    const BaselineRow row{0, blame.blame, WorkOf(index_, blame)};
    for (int i = 0; i < times; ++i) REQUIRE(baseline->Add(run_.trace.strings[Row(number).route], 0, row).ok());
  }
  Verdict Judge(uint32_t number, const Baseline& baseline) const {
    Verdict verdict;
    REQUIRE(FindVerdict(index_, BlameOf(number), baseline, 0, {}, &verdict).ok());
    return verdict;
  }

 private:
  const model::RequestRow& Row(uint32_t number) const { return run_.trace.requests[rows_.at(number)]; }

  simulator::Run run_;
  BlameIndex index_;
  std::map<uint32_t, uint32_t> rows_;
};

// The errors of stated savings, relative to the actual ones.
class Errors {
 public:
  void Add(int64_t said_ns, int64_t saved_ns) {
    errors_.push_back(static_cast<double>(said_ns - saved_ns) / static_cast<double>(std::max(saved_ns, 100 * kUs)));
  }
  size_t size() const { return errors_.size(); }
  double Share(double least, double most) const {
    const auto count =
        std::count_if(errors_.begin(), errors_.end(), [&](double error) { return least <= error && error <= most; });
    return static_cast<double>(count) / static_cast<double>(std::max<size_t>(errors_.size(), 1));
  }
  double Held() const { return Share(-0.05, 1e9); }
  void Print(const std::string& name) const {
    if (std::getenv("PITOT_SERVERS") == nullptr || errors_.empty()) return;
    std::vector<double> sizes;
    for (const double error : errors_) sizes.push_back(std::abs(error));
    std::sort(sizes.begin(), sizes.end());
    const auto at = [&](double quantile) {
      return 100 * sizes[static_cast<size_t>(quantile * static_cast<double>(sizes.size() - 1))];
    };
    std::printf("%-32s %6zu: error %5.1f %%, of 95 %% up to %5.1f %%; at most so much %5.1f %%\n", name.c_str(), size(),
                at(0.5), at(0.95), 100 * Held());
  }

 private:
  std::vector<double> errors_;
};

struct Found {
  Errors usual;    // one delay, compared with what is usual; for requests that are not unusual without it
  Errors itself;   // the same, compared with itself without the delay
  Errors of_two;   // two delays, for the cause that one of them is; compared with itself without either
  Errors meeting;  // one delay of another request, compared with itself without it
};

// The part that a delay lengthens most.
Blame Grown(const BlameVector& with, const BlameVector& without) {
  uint32_t most = 0;
  for (uint32_t k = 0; k < kBlames; ++k) {
    if (with.ns[k] - without.ns[k] > with.ns[most] - without.ns[most]) most = k;
  }
  return static_cast<Blame>(most);
}

void PlayTwo(uint32_t number, const Played& clean, const Played& with_a, const Played& with_b, const Played& both,
             Found* found) {
  Baseline own;
  clean.Teach(number, 140, &own);
  const Verdict verdict = both.Judge(number, own);
  const BlameVector blame = both.BlameOf(number).blame;
  const Blame of_a = Grown(blame, with_b.BlameOf(number).blame), of_b = Grown(blame, with_a.BlameOf(number).blame);
  if (of_a == of_b || verdict.kind != VerdictKind::kCauses) return;
  for (const Cause& cause : verdict.causes) {
    if (cause.blame != of_a && cause.blame != of_b) continue;
    const Played& without = cause.blame == of_a ? with_b : with_a;
    found->of_two.Add(cause.saving_ns, both.LatencyNs(number) - without.LatencyNs(number));
  }
}

// Plays each server without and with a delay, with another delay of the same request, and with both.
template <class Make> Found PlayServers(const Make& make, Load load) {
  constexpr int kMostMeeting = 8;  // of a server
  Found found;
  for (uint64_t seed = 0; seed < Servers(); ++seed) {
    std::mt19937_64 random(seed + 77);
    const ServerSpec spec = Patient(make(seed), load);
    const auto struck = 50 + static_cast<uint32_t>(random() % 200);
    const Delay a = SomeDelay(struck, &random), b = SomeDelay(struck, &random);
    const Played clean(spec, {}), with_a(spec, {a}), with_b(spec, {b}), both(spec, {a, b});
    PlayTwo(struck, clean, with_a, with_b, both, &found);

    Baseline usual;
    for (const auto& [number, row] : clean.rows()) clean.Teach(number, 1, &usual);
    int meeting = 0;
    for (const auto& [number, row] : with_a.rows()) {
      const int64_t saved_ns = with_a.LatencyNs(number) - clean.LatencyNs(number);
      if (saved_ns < 300 * kUs || (number != struck && ++meeting > kMostMeeting)) continue;
      Baseline own;
      clean.Teach(number, 140, &own);
      if (const Verdict verdict = with_a.Judge(number, own); verdict.kind == VerdictKind::kCauses)
        (number == struck ? found.itself : found.meeting).Add(verdict.joint_saving_ns, saved_ns);
      if (number != struck || clean.Judge(number, usual).kind != VerdictKind::kNotUnusual) continue;
      if (const Verdict verdict = with_a.Judge(number, usual); verdict.kind == VerdictKind::kCauses)
        found.usual.Add(verdict.joint_saving_ns, saved_ns);
    }
  }
  const std::string name = load == Load::kAlone ? "alone" : "crowded";
  found.usual.Print(name + ", usual");
  found.itself.Print(name + ", itself");
  found.of_two.Print(name + ", one of two");
  found.meeting.Print(name + ", others");
  return found;
}

}  // namespace

TEST_CASE("the latency is unchanged if nothing is taken from it, on any server", "[verdict]") {
  for (uint64_t seed = 0; seed < Servers() * static_cast<uint64_t>(fakes::Scaled(10)); ++seed) {
    const Played played(seed % 2 == 0 ? simulator::RandomServer(seed) : simulator::RandomGpuServer(seed), {});
    for (const auto& [number, row] : played.rows()) {
      const RequestBlame blame = played.BlameOf(number);
      const verdict::Counterfactual play(blame);
      INFO("seed " << seed << " request " << number);
      REQUIRE(play.LatencyWithout(IsNone) == blame.blame.Total());
      for (uint32_t k = 0; k < kBlames; ++k) {
        const int64_t without_ns = play.LatencyWithout(Of(static_cast<Blame>(k)));
        REQUIRE(without_ns <= blame.blame.Total());
        REQUIRE(without_ns >= blame.blame.Total() - blame.blame.ns[k]);
      }
    }
  }
}

TEST_CASE("a request is shorter by a removed part, and in a detour at most by its thread's wait", "[verdict]") {
  const RequestBlame blame = WithDetour();
  const verdict::Counterfactual play(blame);
  CHECK(play.LatencyWithout(IsNone) == 13 * kMs);
  CHECK(play.LatencyWithout(Of(Blame::kHostOncpuPre)) == 11 * kMs);
  CHECK(play.LatencyWithout(Of(Blame::kGpuExecExpected)) == 10 * kMs);
  CHECK(play.LatencyWithout(Of(Blame::kHostOncpuFramework)) == 9 * kMs);
  CHECK(play.LatencyWithout([](const BlameSegment&) { return true; }) == 6 * kMs);
}

TEST_CASE("a nested detour leaves no more than either detour", "[verdict]") {
  RequestBlame blame = WithDetour();
  blame.detours = {{9 * kMs, 12 * kMs, 1 * kMs}, {2 * kMs, 12 * kMs, 4 * kMs}};
  const verdict::Counterfactual play(blame);
  CHECK(play.LatencyWithout(IsNone) == 13 * kMs);
  CHECK(play.LatencyWithout(Of(Blame::kGpuExecExpected)) == 12 * kMs);
  CHECK(play.LatencyWithout(Of(Blame::kHostOncpuFramework)) == 9 * kMs);
}

TEST_CASE("a cause saves at most the stated amount on random servers with one request at a time", "[verdict]") {
  for (const auto make : {simulator::RandomServer, simulator::RandomGpuServer}) {
    const Found found = PlayServers(make, Load::kAlone);
    REQUIRE(found.itself.size() + found.of_two.size() >= Servers());
    CHECK(found.itself.Held() >= 0.95);
    CHECK(found.of_two.Held() >= 0.95);
    CHECK(found.of_two.Share(-0.05, 0.05) >= 0.85);
    CHECK(found.usual.Held() >= 0.6);
  }
}

TEST_CASE("where requests meet, a cause mostly saves no more than stated", "[verdict]") {
  for (const auto make : {simulator::RandomServer, simulator::RandomGpuServer}) {
    const Found found = PlayServers(make, Load::kCrowded);
    CHECK(found.itself.Held() >= 0.6);
    CHECK(found.of_two.Held() >= 0.6);
    CHECK(found.meeting.Held() >= 0.5);
  }
}

}  // namespace pitot::test
