// SPDX-License-Identifier: Apache-2.0
#include "pitot/serialize/otlp_profiles.h"

#include <google/protobuf/text_format.h>

#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "fakes/string_sink.h"
#include "golden.h"
#include "pitot/model/trace.h"
#include "serialize/profile_sums.h"
#include "serialize/proto/otlp_profiles.pb.h"
#include "serialize/sample_trace.h"

namespace pitot::test {
namespace {

using fakes::StringSink;
using model::Trace;
using otlp_profiles::Location;
using otlp_profiles::Profile;
using otlp_profiles::ProfilesData;
using otlp_profiles::ProfilesDictionary;
using otlp_profiles::Sample;

ProfilesData Write(const Trace& trace) {
  StringSink sink;
  REQUIRE(MakeOtlpProfilesSerializer()->Serialize(trace, sink).ok());
  ProfilesData data;
  REQUIRE(data.ParseFromString(sink.bytes));
  return data;
}

std::vector<Profile> ProfilesOf(const ProfilesData& data) {
  std::vector<Profile> profiles;
  for (const auto& resource : data.resource_profiles()) {
    for (const auto& scope : resource.scope_profiles())
      profiles.insert(profiles.end(), scope.profiles().begin(), scope.profiles().end());
  }
  return profiles;
}

template <class Message>
std::map<std::string, std::string> AttributesOf(const Message& message, const ProfilesDictionary& dictionary) {
  std::map<std::string, std::string> attributes;
  for (const int index : message.attribute_indices()) {
    const auto& attribute = dictionary.attribute_table().at(index);
    attributes[dictionary.string_table().at(attribute.key_strindex())] = attribute.value().string_value();
  }
  CHECK(attributes.size() == static_cast<size_t>(message.attribute_indices_size()));
  return attributes;
}

const std::string& NameOf(const Location& location, const ProfilesDictionary& dictionary) {
  return dictionary.string_table().at(
      dictionary.function_table().at(location.lines(0).function_index()).name_strindex());
}

ProfileSums Sums(const ProfilesData& data) {
  const ProfilesDictionary& dictionary = data.dictionary();
  ProfileSums sums;
  for (const Profile& profile : ProfilesOf(data)) {
    CHECK(dictionary.string_table().at(profile.sample_type().unit_strindex()) == "nanoseconds");
    for (const Sample& sample : profile.samples()) {
      REQUIRE(sample.values_size() == 1);
      std::vector<std::string> frames;
      for (const int index : dictionary.stack_table().at(sample.stack_index()).location_indices())
        frames.push_back(NameOf(dictionary.location_table().at(index), dictionary));
      sums.Add(dictionary.string_table().at(profile.sample_type().type_strindex()), frames,
               AttributesOf(sample, dictionary), sample.values(0));
    }
  }
  return sums;
}

void CheckAgainstTop(const Trace& trace) { test::CheckAgainstTop(trace, Sums(Write(trace))); }

TEST_CASE("OTLP's profiles have the sums of the tables by scope, kernel and request", "[otlp_profiles]") {
  CheckAgainstTop(SampleTrace());
}

TEST_CASE("OTLP's profiles of random traces have the sums of the tables", "[otlp_profiles]") {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    INFO("seed " << seed);
    CheckAgainstTop(RandomTrace(seed, 20 + 60 * seed));
  }
}

TEST_CASE("OTLP's profiles of more samples than stay in memory have the same sums", "[otlp_profiles]") {
  CheckAgainstTop(LargeTrace(200'000));
}

TEST_CASE("GPU time in OTLP's profiles has the attributes of request, route, thread and stream", "[otlp_profiles]") {
  ProfileSums sums = Sums(Write(SampleTrace()));

  CHECK(sums.labels["pitot.device"] == ProfileSums::ByName{{"0", sums.total["gpu"]}});
  CHECK(sums.labels["pitot.stream"] == ProfileSums::ByName{{"7", 4'001'000}, {"14", 9'000'000}});
  CHECK(sums.labels["thread.name"] == ProfileSums::ByName{{"executor", 4'000'000}});
  CHECK(sums.labels["pitot.request.id"] == ProfileSums::ByName{{"1111222233338f0c", 3'000'000}});
  CHECK(sums.labels["http.route"] == ProfileSums::ByName{{"/classify", 3'000'000}});
}

TEST_CASE("only GPU work has frames of CUDA's type in OTLP's profiles", "[otlp_profiles]") {
  const ProfilesData data = Write(SampleTrace());
  ProfileSums sums = Sums(data);

  std::set<std::string> of_cuda, of_gpu;
  for (const Location& location : data.dictionary().location_table()) {
    const auto attributes = AttributesOf(location, data.dictionary());
    if (attributes.count("profile.frame.type") == 0) continue;
    CHECK(attributes.at("profile.frame.type") == "cuda");
    of_cuda.insert(NameOf(location, data.dictionary()));
  }
  for (const auto& [name, ns] : sums.flat["gpu"]) of_gpu.insert(name);
  CHECK(of_cuda == of_gpu);
}

TEST_CASE("a sample of a request with a trace links to the request's span", "[otlp_profiles]") {
  TraceMaker maker;
  maker.trace.window_end_ns = 1000;
  const uint32_t request = maker.Request(0x0102030405060708, "/a", 0, 900);
  maker.trace.requests[request].trace_id_high = 0x1112131415161718;
  maker.trace.requests[request].trace_id_low = 0x2122232425262728;
  Context context;
  context.request = request;
  maker.Event(maker.Thread("worker"), maker.Site(SiteKind::kScope, "work"), 100, 500, context);

  const ProfilesData data = Write(maker.Finish());

  const int link = ProfilesOf(data).at(0).samples(0).link_index();
  CHECK(data.dictionary().link_table().at(link).trace_id() ==
        "\x11\x12\x13\x14\x15\x16\x17\x18\x21\x22\x23\x24\x25\x26\x27\x28");
  CHECK(data.dictionary().link_table().at(link).span_id() == "\x01\x02\x03\x04\x05\x06\x07\x08");
}

TEST_CASE("the first row of each table of OTLP's dictionary is empty, and no row comes twice", "[otlp_profiles]") {
  const ProfilesDictionary dictionary = Write(SampleTrace()).dictionary();
  const auto check = [](const auto& table) {
    CHECK(table.at(0).ByteSizeLong() == 0);
    std::set<std::string> rows;
    for (const auto& row : table) CHECK(rows.insert(row.SerializeAsString()).second);
  };
  check(dictionary.location_table());
  check(dictionary.function_table());
  check(dictionary.link_table());
  check(dictionary.attribute_table());
  check(dictionary.stack_table());
  CHECK(dictionary.mapping_table_size() == 1);
  CHECK(dictionary.string_table(0).empty());
}

TEST_CASE("OTLP's profiles of the sample match the approved file", "[otlp_profiles][golden]") {
  std::string text;
  REQUIRE(google::protobuf::TextFormat::PrintToString(Write(SampleTrace()), &text));
  CheckGolden("sample.profiles.otlp.txt", text);
}

TEST_CASE("OTLP's profiles have the time of a trace with a date", "[otlp_profiles]") {
  CHECK(ProfilesOf(Write(SampleTrace())).at(0).time_unix_nano() > 1'600'000'000'000'000'000);
  Trace trace = SampleTrace();
  trace.clock = {};

  CHECK(ProfilesOf(Write(trace)).at(0).time_unix_nano() == 0);
}

TEST_CASE("OTLP's profiles that cannot be written return an error", "[otlp_profiles]") {
  StringSink sink(10);
  CHECK(MakeOtlpProfilesSerializer()->Serialize(SampleTrace(), sink).code() == StatusCode::kIoError);
}

}  // namespace
}  // namespace pitot::test
