// SPDX-License-Identifier: Apache-2.0
//
// Bounded tables of the process: routes, label values, names. Each test fills one for the process's life, so the order
// matters.
#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "fakes/observer.h"
#include "fakes/recording.h"
#include "fakes/scale.h"
#include "fakes/trace_text.h"
#include "pitot/request.h"
#include "trace/names.h"

namespace {
using pitot::Outcome;
using pitot::Request;
using pitot::trace::CountRequests;
}  // namespace

TEST_CASE("the first 63 routes are kept apart, the rest become (other) and are counted", "[limits]") {
  const fakes::Recording recording({.max_open_requests = 1024});
  const fakes::Observer observer;
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 100; ++i) Request::Begin(("/route/" + std::to_string(i)).c_str()).Finish(Outcome::kOk);
  }

  const auto trace = recording.Trace();

  std::set<std::string> routes, told;
  std::set<uint32_t> indices;
  for (const auto& row : trace.requests) routes.insert(std::string(trace.strings[row.route]));
  for (const auto& finished : observer.finished()) {
    told.insert(finished.route);
    indices.insert(finished.view.route_index);
  }
  CHECK(routes.size() == pitot::trace::kMaxRoutes);
  CHECK(routes.count("(other)") == 1);
  CHECK(routes.count("/route/62") == 1);
  CHECK(routes.count("/route/63") == 0);
  CHECK(told == routes);
  CHECK(indices.size() == pitot::trace::kMaxRoutes);
  CHECK(*indices.rbegin() == pitot::trace::kMaxRoutes - 1);
  CHECK(CountRequests().labels_folded == 2 * 37);
}

TEST_CASE("the first 255 values of labels are kept apart, the rest become (other) and are counted", "[limits]") {
  const fakes::Recording recording({.max_open_requests = 1024});
  for (int i = 0; i < 300; ++i) {
    Request request = Request::Begin("/r");
    request.SetLabel("tenant", ("tenant " + std::to_string(i)).c_str());
    request.Finish(Outcome::kOk);
  }

  const auto trace = recording.Trace();

  std::set<std::string> values;
  for (const auto& row : trace.requests) {
    REQUIRE(row.labels.size() == 1);
    CHECK(trace.strings[row.labels[0].key] == "tenant");
    values.insert(std::string(trace.strings[row.labels[0].value]));
  }
  CHECK(values.size() == pitot::trace::kMaxLabelValues);
  CHECK(values.count("(other)") == 1);
  CHECK(CountRequests().labels_folded == 300 - 255 + 300);  // the routes are full since the test before
}

TEST_CASE("the first 255 reasons are kept apart, the rest become (other) and are counted", "[limits]") {
  const fakes::Recording recording({.max_open_requests = 1024});
  for (int i = 0; i < 300; ++i)
    Request::Begin("/route/7").Finish(Outcome::kFailed, ("reason " + std::to_string(i)).c_str());

  const auto trace = recording.Trace();

  std::set<std::string> reasons;
  for (const auto& row : trace.requests) reasons.insert(std::string(trace.strings[row.reason]));
  CHECK(reasons.size() == pitot::trace::kMaxReasons);
  CHECK(reasons.count("(other)") == 1);
  CHECK(CountRequests().labels_folded == 300 - 255);
}

TEST_CASE("values, reasons and routes without bound take no room among the names", "[limits]") {
  constexpr uint64_t kRequests = fakes::Scaled(100'000);
  const fakes::Recording recording({.max_open_requests = 1024});
  const uint32_t names = pitot::trace::CountNames();
  const uint64_t refused = pitot::trace::NamesRefused();
  for (uint64_t i = 0; i < kRequests; ++i) {
    Request request = Request::Begin(("/user/" + std::to_string(i)).c_str());
    request.SetLabel("tenant", ("unbounded " + std::to_string(i)).c_str());
    request.Finish(Outcome::kFailed, ("after " + std::to_string(i)).c_str());
  }

  CHECK(pitot::trace::CountNames() == names);
  CHECK(pitot::trace::NamesRefused() == refused);
  CHECK(CountRequests().labels_folded == 3 * kRequests);
  // An early one still has its name, and there is room for others.
  Request request = Request::Begin("/route/7");
  request.SetLabel("tenant", "tenant 7");
  CHECK(CountRequests().labels_folded == 3 * kRequests);
  CHECK(pitot::Intern("a name after all that").index == names);
}

TEST_CASE("the table holds 16,384 names, then everything new is (other)", "[limits]") {
  const uint64_t refused_before = pitot::trace::NamesRefused();
  std::set<uint32_t> indices;
  int kept = 0;
  for (int i = 0; i < 17'000; ++i) {
    const pitot::Name name = pitot::Intern(("n" + std::to_string(i)).c_str());
    if (name.index == 0) continue;
    ++kept;
    indices.insert(name.index);
  }

  CHECK(indices.size() == static_cast<size_t>(kept));
  CHECK(kept > 15'000);
  CHECK(*indices.rbegin() == pitot::trace::kMaxNames - 1);
  CHECK(pitot::trace::NamesRefused() - refused_before == static_cast<uint64_t>(17'000 - kept));
  // Known names stay known.
  CHECK(pitot::trace::NameText(pitot::Intern("n7").index) == "n7");
  CHECK(pitot::Intern("one too many").index == 0);
  CHECK(pitot::trace::NameText(pitot::Intern("one too many").index) == "(other)");
}

TEST_CASE("events that need a name are recorded when the table of names is full", "[limits]") {
  REQUIRE(pitot::Intern("not another one").index == 0);
  const fakes::Recording recording;
  Request request = Request::Begin("/a new route");
  const uint64_t id = request.id();
  request.Stage("a new stage");
  request.SetLabel("a new key", "a new value");
  const pitot::Token token = request.Enqueue("a new queue");
  {
    pitot::Batch batch = pitot::Batch::Begin("a new executor");
    batch.Join(token);
  }
  request.Finish(Outcome::kFailed, "a new reason");

  const auto trace = recording.Trace();

  CHECK(pitot::model::FindInconsistency(trace) == "");
  const auto* row = fakes::RequestOf(trace, id);
  REQUIRE(row != nullptr);
  CHECK(trace.strings[row->route] == "(other)");
  REQUIRE(row->stages.size() == 1);
  CHECK(trace.strings[row->stages[0].name] == "(other)");
  CHECK(trace.strings[row->labels[0].value] == "(other)");
  CHECK(trace.strings[row->reason] == "(other)");
  REQUIRE(trace.batches.size() == 1);
  CHECK(trace.strings[trace.batches[0].executor] == "(other)");
}
