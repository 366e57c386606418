// SPDX-License-Identifier: Apache-2.0
//
// Reports of running scopes to another tool.
#include "trace/mirror.h"

#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <vector>

#include "fakes/recording.h"
#include "fakes/trace_text.h"
#include "pitot/manual.h"
#include "pitot/phase.h"
#include "pitot/request.h"
#include "pitot/wait.h"
#include "trace/names.h"

namespace {

using fakes::EventsNamed;
using pitot::trace::MirrorUse;
using pitot::trace::SetMirror;

thread_local std::vector<std::string> t_told;

constexpr pitot::trace::Mirror kMirror{
    [](const pitot::Site* site, pitot::Name name) noexcept {
      const bool is_named = (site->flags & pitot::kNameIsFirstArg) != 0;
      t_told.push_back("begin " + std::string(is_named ? pitot::trace::NameText(name.index) : site->name));
    },
    []() noexcept { t_told.push_back("end"); }};

std::vector<std::string> Told() { return std::exchange(t_told, {}); }

void OneScope(const char*) { PITOT_SCOPE("scope"); }

}  // namespace

TEST_CASE("a mirror gets every kind of scope as it begins and ends", "[mirror]") {
  const fakes::Recording recording;
  Told();
  SetMirror(MirrorUse::kTool, &kMirror);
  {
    PITOT_SCOPE("scope", 1);
    PITOT_LEAF("leaf");
  }
  CHECK(Told() == std::vector<std::string>{"begin scope", "begin leaf", "end", "end"});
  {
    const pitot::Name name = pitot::Intern("layer 3");
    PITOT_SCOPE_NAMED(name, 7);
  }
  CHECK(Told() == std::vector<std::string>{"begin layer 3", "end"});
  {
    PITOT_PHASES(phases);
    PITOT_PHASE(phases, "one");
    PITOT_PHASE(phases, "two");
  }
  CHECK(Told() == std::vector<std::string>{"begin one", "end", "begin two", "end"});
  pitot::BeginScope(pitot::Intern("of two calls"));
  pitot::EndScope();
  CHECK(Told() == std::vector<std::string>{"begin of two calls", "end"});
  { PITOT_WAIT(pitot::WaitKind::kIo, "journal", pitot::Owner{}); }
  CHECK(Told() == std::vector<std::string>{"begin wait", "end"});
  SetMirror(MirrorUse::kTool, nullptr);
}

TEST_CASE("events keep their clock and their ring when a mirror comes and goes", "[mirror]") {
  const fakes::Recording recording;
  OneScope("before");
  SetMirror(MirrorUse::kTool, &kMirror);
  OneScope("mirrored");
  SetMirror(MirrorUse::kTool, nullptr);
  OneScope("after");
  Told();

  const auto trace = recording.Trace();

  CHECK(pitot::model::FindInconsistency(trace) == "");
  CHECK(trace.threads.size() == 1);
  const auto scopes = EventsNamed(trace, "scope");
  REQUIRE(scopes.size() == 3);
  for (size_t i = 0; i < scopes.size(); ++i) {
    CHECK(scopes[i].duration_ns < 1'000'000'000);
    if (i > 0) CHECK(scopes[i].begin_ns >= scopes[i - 1].begin_ns + scopes[i - 1].duration_ns);
  }
}

TEST_CASE("a mirror gets the end of every scope it was told to begin, and no later scope", "[mirror]") {
  const fakes::Recording recording;
  OneScope("attach");
  SetMirror(MirrorUse::kTool, &kMirror);
  Told();
  {
    PITOT_SCOPE("around");
    SetMirror(MirrorUse::kTool, nullptr);
    CHECK(Told() == std::vector<std::string>{"begin around"});
  }
  CHECK(Told() == std::vector<std::string>{"end"});
  OneScope("later");
  CHECK(Told().empty());
}

TEST_CASE("a new recorder tells nobody of its scopes", "[mirror]") {
  {
    const fakes::Recording recording;
    SetMirror(MirrorUse::kTool, &kMirror);
  }
  const fakes::Recording recording;
  Told();
  OneScope("of the next");

  CHECK(Told().empty());
}

TEST_CASE("recording threads learn of a mirror", "[mirror]") {
  const fakes::Recording recording;
  std::atomic<bool> is_set{false}, is_recording{false};
  size_t told = 0;
  std::thread thread([&] {
    while (!is_set) {
      OneScope("before");
      is_recording = true;
    }
    t_told.clear();
    OneScope("after");
    told = t_told.size();
  });
  while (!is_recording) std::this_thread::yield();
  SetMirror(MirrorUse::kTool, &kMirror);
  for (int i = 0; i < 10; ++i) CHECK(recording.Trace().threads.size() == 1);
  is_set = true;
  thread.join();
  SetMirror(MirrorUse::kTool, nullptr);

  CHECK(told == 2);
}

TEST_CASE("two mirrors get the same scopes, and one goes without the other", "[mirror]") {
  static thread_local int t_layers = 0;
  static constexpr pitot::trace::Mirror kLayers{[](const pitot::Site*, pitot::Name) noexcept { ++t_layers; },
                                                []() noexcept { --t_layers; }};
  const fakes::Recording recording;
  Told();
  t_layers = 0;
  SetMirror(MirrorUse::kTool, &kMirror);
  SetMirror(MirrorUse::kLayers, &kLayers);
  {
    PITOT_SCOPE("both");
    CHECK(t_layers == 1);
    SetMirror(MirrorUse::kTool, nullptr);
    PITOT_SCOPE("one");
    CHECK(t_layers == 2);
  }
  CHECK(t_layers == 0);
  CHECK(Told() == std::vector<std::string>{"begin both", "end", "end"});
  SetMirror(MirrorUse::kLayers, nullptr);
}

TEST_CASE("a mirror hears for what its thread works", "[mirror]") {
  struct Work {
    uint64_t id;
    std::string executor;
    bool operator==(const Work&) const = default;
  };
  static thread_local std::vector<Work> t_work;
  static constexpr pitot::trace::Mirror kWork{
      [](const pitot::Site*, pitot::Name) noexcept {}, []() noexcept {},
      [](uint64_t id, pitot::Name executor) noexcept {
        t_work.push_back({id, executor.index != 0 ? std::string(pitot::trace::NameText(executor.index)) : ""});
      }};
  const fakes::Recording recording;
  t_work.clear();
  SetMirror(MirrorUse::kLayers, &kWork);
  pitot::Request request = pitot::Request::Begin("/classify");
  const uint64_t request_id = request.id();
  pitot::Batch batch = pitot::Batch::Begin("resnet50");
  const uint64_t batch_id = batch.id();
  batch.Finish();
  request.Finish(pitot::Outcome::kOk);
  SetMirror(MirrorUse::kLayers, nullptr);
  CHECK(t_work == std::vector<Work>{{request_id, ""}, {batch_id, "resnet50"}, {request_id, ""}, {0, ""}});
}
