// SPDX-License-Identifier: Apache-2.0
//
// How long scopes usually take.
#include "pitot/analyze/scopes.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/quantile.h"
#include "pitot/analyze/why.h"
#include "serialize/sample_trace.h"

namespace pitot::test {

using analyze::DurationSketch;

TEST_CASE("quantiles of a sketch are within 1/32 of the value at their rank", "[scopes]") {
  std::mt19937_64 random(7);
  std::lognormal_distribution<double> draw(std::log(2e6), 1.5);
  DurationSketch sketch;
  std::vector<int64_t> values;
  for (int i = 0; i < 8000; ++i) {
    values.push_back(std::clamp<int64_t>(static_cast<int64_t>(draw(random)), 1024, 60'000'000'000));
    sketch.Add(values.back());
  }
  std::sort(values.begin(), values.end());
  REQUIRE(sketch.size() == values.size());
  for (const double q : {0.0, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const int64_t exact = values[static_cast<size_t>(q * static_cast<double>(values.size() - 1) + 0.5)];
    CHECK(std::abs(sketch.Quantile(q) - exact) <= exact / 32 + 1);
  }
}

TEST_CASE("a sketch is bounded, forgets the older half, and takes any duration", "[scopes]") {
  DurationSketch sketch;
  CHECK(sketch.Quantile(0.5) == 0);
  for (const int64_t ns : {INT64_MIN, int64_t{-1}, int64_t{0}, int64_t{1}}) sketch.Add(ns);
  CHECK(sketch.Quantile(1) < 1100);
  sketch.Add(INT64_MAX);
  CHECK(sketch.Quantile(1) > int64_t{130} * 1'000'000'000);

  DurationSketch changed;
  for (uint32_t i = 0; i < 3 * DurationSketch::kMost; ++i) changed.Add(2'000'000);
  CHECK(changed.size() <= DurationSketch::kMost);
  for (uint32_t i = 0; i < DurationSketch::kMost; ++i) changed.Add(8'000'000);
  CHECK(changed.size() <= DurationSketch::kMost);
  CHECK(changed.Quantile(0.5) == Approx(8e6).epsilon(0.032));
}

TEST_CASE("scopes named at run time have usual times of their own", "[scopes]") {
  TraceMaker maker;
  maker.trace.window_end_ns = 1'000'000'000;
  const uint32_t thread = maker.Thread("python3");
  const uint32_t site = maker.Site(SiteKind::kScope, "", {{"name", ArgType::kName}});
  maker.trace.sites[site].name_is_first_arg = true;
  const uint32_t request = maker.Request(1, "/x", 0, 3'000'000);
  maker.trace.requests[request].begin_thread = maker.trace.requests[request].end_thread = thread;
  maker.Event(thread, site, 0, 1'000'000, {request, model::kNone}, {maker.String("decode")});
  maker.Event(thread, site, 1'000'000, 2'000'000, {request, model::kNone}, {maker.String("forward")});
  const model::Trace trace = maker.Finish();
  analyze::BlameIndex index;
  REQUIRE(analyze::BlameIndex::Make(trace, {}, &index).ok());
  analyze::RequestBlame blame;
  REQUIRE(FindBlame(index, request, &blame).ok());
  analyze::ScopeTimes times;
  REQUIRE(times.Add(index, blame).ok());

  CHECK(times.Find("/x", "") == nullptr);
  REQUIRE((times.Find("/x", "decode") != nullptr && times.Find("/x", "forward") != nullptr));
  CHECK(times.Find("/x", "decode")->Quantile(0.5) == Approx(1e6).epsilon(0.032));
  CHECK(times.Find("/x", "forward")->Quantile(0.5) == Approx(2e6).epsilon(0.032));
}

}  // namespace pitot::test
