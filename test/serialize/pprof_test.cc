// SPDX-License-Identifier: Apache-2.0
#include "pitot/serialize/pprof.h"

#include <google/protobuf/text_format.h>

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "fakes/string_sink.h"
#include "golden.h"
#include "pitot/model/trace.h"
#include "serialize/profile_sums.h"
#include "serialize/proto/pprof_profile.pb.h"
#include "serialize/sample_trace.h"

namespace pitot::test {
namespace {

using fakes::StringSink;
using model::Trace;
using perftools::profiles::Profile;
using perftools::profiles::Sample;

Profile Write(const Trace& trace) {
  StringSink sink;
  REQUIRE(MakePprofSerializer()->Serialize(trace, sink).ok());
  Profile profile;
  REQUIRE(profile.ParseFromString(sink.bytes));
  return profile;
}

// The profile as its readers add it up.
ProfileSums Sums(const Profile& profile) {
  ProfileSums sums;
  const auto text = [&](int64_t index) { return profile.string_table(static_cast<int>(index)); };
  std::map<uint64_t, std::string> functions, locations;
  for (const auto& function : profile.function()) functions[function.id()] = text(function.name());
  for (const auto& location : profile.location())
    locations[location.id()] = functions.at(location.line(0).function_id());
  for (const Sample& sample : profile.sample()) {
    REQUIRE(sample.value_size() == profile.sample_type_size());
    std::vector<std::string> frames;
    for (const uint64_t id : sample.location_id()) frames.push_back(locations.at(id));
    std::map<std::string, std::string> labels;
    for (const auto& label : sample.label()) labels[text(label.key())] = text(label.str());
    for (int type = 0; type < sample.value_size(); ++type)
      sums.Add(text(profile.sample_type(type).type()), frames, labels, sample.value(type));
  }
  return sums;
}

void CheckAgainstTop(const Trace& trace) { test::CheckAgainstTop(trace, Sums(Write(trace))); }

TEST_CASE("a profile's sums are those of the tables by scope, kernel and request", "[pprof]") {
  CheckAgainstTop(SampleTrace());
}

TEST_CASE("profiles of random traces have the sums of the tables", "[pprof]") {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    INFO("seed " << seed);
    CheckAgainstTop(RandomTrace(seed, 20 + 20 * seed));
  }
}

TEST_CASE("a profile of more samples than stay in memory has the same sums", "[pprof]") {
  CheckAgainstTop(LargeTrace(200'000));
}

TEST_CASE("waits in a profile are named by cause: the resource, or the call that waits for a GPU", "[pprof]") {
  TraceMaker maker;
  maker.trace.window_end_ns = 1000;
  const uint32_t thread = maker.Thread("worker"), work = maker.Site(SiteKind::kScope, "work"), wait = maker.WaitSite();
  maker.trace.streams.push_back({model::kNone, 1, 7, 0, 0, 0});
  maker.Event(thread, work, 100, 500);
  maker.Event(thread, wait, 150, 40, {}, {4, maker.String("journal"), 0, 0});
  maker.Call(thread, "cudaStreamSynchronize", 300, 60, {}, 0);

  ProfileSums sums = Sums(Write(maker.Finish()));

  CHECK(sums.flat["wait"] == ProfileSums::ByName{{"wait: journal", 40}, {"cudaStreamSynchronize", 60}});
  CHECK(sums.cumulative["wait"]["work"] == 100);
  CHECK(sums.flat["host"] == ProfileSums::ByName{{"work", 460}, {"wait: journal", 40}});
}

TEST_CASE("GPU time in a profile is labelled by request, trace, route, thread, stream and device", "[pprof]") {
  const Trace trace = SampleTrace();

  ProfileSums sums = Sums(Write(trace));

  CHECK(sums.labels["device"] == ProfileSums::ByName{{"0", sums.total["gpu"]}});
  CHECK(sums.labels["stream"] == ProfileSums::ByName{{"7", 4'001'000}, {"14", 9'000'000}});
  CHECK(sums.labels["thread"] == ProfileSums::ByName{{"executor", 4'000'000}});
  CHECK(sums.labels["executor"] == ProfileSums::ByName{{"resnet50", 4'000'000}});
  CHECK(sums.labels["request"] == ProfileSums::ByName{{"1111222233338f0c", 3'000'000}});
  CHECK(sums.labels["route"] == ProfileSums::ByName{{"/classify", 3'000'000}});
}

TEST_CASE("the profile of the sample matches the approved file", "[pprof][golden]") {
  std::string text;
  REQUIRE(google::protobuf::TextFormat::PrintToString(Write(SampleTrace()), &text));
  CheckGolden("sample.pb.txt", text);
}

TEST_CASE("a profile has the time of a trace with a date", "[pprof]") {
  CHECK(Write(SampleTrace()).time_nanos() > 1'600'000'000'000'000'000);
  Trace trace = SampleTrace();
  trace.clock = {};

  CHECK(Write(trace).time_nanos() == 0);
}

TEST_CASE("an empty trace becomes a profile without samples", "[pprof]") { CHECK(Write(Trace()).sample_size() == 0); }

TEST_CASE("of many scopes that overlap, a profile's stacks have the innermost ones", "[pprof]") {
  TraceMaker maker;
  constexpr uint32_t kScopes = 20'000;
  maker.trace.window_end_ns = 2 * kScopes;
  const uint32_t thread = maker.Thread("worker");
  for (uint32_t i = 0; i < kScopes; ++i)
    maker.Event(thread, maker.Site(SiteKind::kScope, "scope " + std::to_string(i)), i, kScopes);

  const Profile profile = Write(maker.Finish());

  int most_frames = 0;
  for (const Sample& sample : profile.sample()) most_frames = std::max(most_frames, sample.location_id_size());
  CHECK(most_frames == 129);  // 128 and "(more scopes)"
  ProfileSums sums = Sums(profile);
  CHECK(sums.flat["host"].size() == kScopes);
  CHECK(sums.total["host"] == 2 * kScopes - 1);
  CHECK(sums.cumulative["host"]["(more scopes)"] > kScopes);
}

int FramesOf(const Profile& profile, int* most) {
  int all = 0;
  *most = 0;
  for (const Sample& sample : profile.sample()) {
    all += sample.location_id_size();
    *most = std::max(*most, sample.location_id_size());
  }
  return all;
}

TEST_CASE("a scope that is nested deep is below the outermost ones in a profile, with its own time", "[pprof]") {
  TraceMaker maker;
  constexpr uint32_t kScopes = 2'000;
  maker.trace.window_end_ns = 2 * kScopes;
  const uint32_t thread = maker.Thread("worker");
  for (uint32_t i = 0; i < kScopes; ++i)
    maker.Event(thread, maker.Site(SiteKind::kScope, "scope " + std::to_string(i)), i, 2 * (kScopes - i));
  const Trace trace = maker.Finish();

  const Profile profile = Write(trace);

  int most = 0;
  FramesOf(profile, &most);
  CHECK(most == 130);  // 128, "(more scopes)" and its own
  ProfileSums sums = Sums(profile);
  CHECK(Text(sums.flat["host"]) ==
        Text(ByName(TopOf(trace, analyze::TopBy::kScope), [](const auto& row) { return row.self_cpu_ns; })));
  CHECK(sums.cumulative["host"]["scope 127"] == 2 * (kScopes - 127));
  CHECK(sums.cumulative["host"]["(more scopes)"] == 2 * (kScopes - 128));
}

TEST_CASE("a profile of ever more scopes that overlap has stacks of bounded size in all", "[pprof]") {
  TraceMaker maker;
  constexpr uint32_t kScopes = 30'000;
  maker.trace.window_end_ns = 2 * kScopes;
  const uint32_t thread = maker.Thread("worker");
  for (uint32_t i = 0; i < kScopes; ++i)
    maker.Event(thread, maker.Site(SiteKind::kScope, "scope " + std::to_string(i)), i, kScopes);

  const Profile profile = Write(maker.Finish());

  int most = 0;
  CHECK(FramesOf(profile, &most) < 1'200'000);
  CHECK(Sums(profile).total["host"] == 2 * kScopes - 1);
}

TEST_CASE("a profile that cannot be written returns an error", "[pprof]") {
  StringSink sink(10);
  CHECK(MakePprofSerializer()->Serialize(SampleTrace(), sink).code() == StatusCode::kIoError);
}

}  // namespace
}  // namespace pitot::test
