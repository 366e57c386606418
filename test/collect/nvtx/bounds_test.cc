// SPDX-License-Identifier: Apache-2.0
//
// Tests that fill a table, or load a tool, for the life of the process: a program of its own.
#include <catch2/catch.hpp>
#include <string>

#include "collect/nvtx/capture.h"
#include "collect/nvtx/fake_tool.h"
#include "collect/nvtx/rig.h"
#include "trace/names.h"

namespace {

using fakes::Attribute;
using fakes::Captured;
using fakes::Library;
using fakes::Message;
using fakes::NvtxHost;

}  // namespace

TEST_CASE("ranges never ended by an earlier recorder's host leave the next one their room", "[nvtx]") {
  NvtxHost host;
  REQUIRE(host.StartCapturing());
  const Library library(PITOT_FAKE_EMITTER);
  for (uint32_t i = 0; i < pitot::nvtx::kMaxRangesUnderWay; ++i) library->start_a("never ended");
  CHECK(library->start_a("one too many") == 0);
  host.recorder.Stop();
  REQUIRE(host.StartCapturing());

  library->end(library->start_a("of the next"));

  CHECK(Captured(host.Incident()) == fakes::Texts{"of the next(domain=(none))"});
}

TEST_CASE("a tool without registered strings gets the names given to scopes at run time", "[nvtx]") {
  void* const object = dlopen(PITOT_PLAIN_TOOL, RTLD_NOW | RTLD_LOCAL);
  FakeTool& tool = *reinterpret_cast<FakeTool* (*)()>(dlsym(object, "GetFakeTool"))();
  const fakes::Variable tools(PITOT_PLAIN_TOOL);
  NvtxHost host;
  REQUIRE(host.StartCapturing());
  tool.TakeLog();
  {
    PITOT_SCOPE("outer");
    PITOT_SCOPE_NAMED(pitot::Intern("layer 7"), 1);
  }
  CHECK(tool.TakeLog() ==
        fakes::Texts{"push pitot/outer, plain", "push pitot/layer 7, plain", "pop pitot", "pop pitot"});
}

TEST_CASE("names and domains without bound leave the host's names their room, and are counted", "[nvtx]") {
  NvtxHost host;
  REQUIRE(host.StartCapturing());
  const Library library(PITOT_FAKE_EMITTER);
  for (uint32_t i = 0; i < pitot::nvtx::kMaxDomains; ++i)
    library->create_domain(("domain " + std::to_string(i)).c_str());
  const uint32_t names = pitot::trace::CountNames();
  for (uint32_t i = 0; i < pitot::nvtx::kMaxNames + 100; ++i) library->mark_a(("step " + std::to_string(i)).c_str());
  const auto attributes = Message("step 1");
  void* const beyond = library->create_domain("one too many");
  library->domain_push(beyond, &attributes);
  library->domain_pop(beyond);

  const auto trace = host.Incident();

  CHECK(pitot::trace::CountNames() - names <= pitot::nvtx::kMaxNames);
  CHECK(std::stoi(Attribute(trace, "nvtx.names_folded")) >= 100);
  CHECK(std::stoi(Attribute(trace, "nvtx.domains_folded")) >= 1);
  CHECK(Captured(trace).back() == "step 1(domain=(other))");
}
