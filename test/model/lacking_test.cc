// SPDX-License-Identifier: Apache-2.0
#include "model/lacking.h"

#include <catch2/catch.hpp>
#include <string>
#include <string_view>
#include <vector>

using namespace pitot;

namespace {

model::Trace Lacking(std::string_view list) {
  model::Trace trace;
  trace.attributes.push_back({trace.strings.Add(model::kNotRecorded), trace.strings.Add(list)});
  return trace;
}

}  // namespace

TEST_CASE("a trace lacks what its list names, with a reason or without", "[model]") {
  const model::Trace trace = Lacking("queues; GPU work (no stages; none known); the date");

  CHECK(model::IsLacking(trace, "queues"));
  CHECK(model::IsLacking(trace, "GPU work"));
  CHECK(model::IsLacking(trace, "the date"));
  CHECK_FALSE(model::IsLacking(trace, "GPU"));
  CHECK_FALSE(model::IsLacking(model::Trace(), "queues"));
}

TEST_CASE("a list of what is lacking comes back as it was written", "[model]") {
  const std::vector<std::string_view> lacks = {"queues", "GPU work (no stages of a GPU)", "losses"};

  CHECK(model::LacksText(lacks) == "queues; GPU work (no stages of a GPU); losses");
  CHECK(model::LacksOf(Lacking(model::LacksText(lacks))) == lacks);
  CHECK(model::LacksOf(model::Trace()).empty());
}

TEST_CASE("a list of what is lacking has one entry about a thing", "[model]") {
  std::vector<std::string_view> lacks = {"GPU work (no stages of a GPU)"};

  model::AddLack("GPU work", &lacks);
  model::AddLack("GPU work (another reason)", &lacks);
  model::AddLack("queues", &lacks);

  CHECK(lacks == std::vector<std::string_view>{"GPU work (no stages of a GPU)", "queues"});
}

TEST_CASE("losses are unknown if the format does not say them and a reader found none", "[model]") {
  model::Trace trace = Lacking("losses");

  CHECK(model::AreLossesUnknown(trace));
  trace.losses.emplace_back();
  CHECK_FALSE(model::AreLossesUnknown(trace));
  CHECK_FALSE(model::AreLossesUnknown(model::Trace()));
}

TEST_CASE("threads are lacking if a format knows none, or does not join them to requests", "[model]") {
  CHECK(model::IsLackingThreads(Lacking("the threads that work for a request")));
  CHECK(model::IsLackingThreads(Lacking("queues; what threads did")));
  CHECK_FALSE(model::IsLackingThreads(Lacking("queues")));
}
