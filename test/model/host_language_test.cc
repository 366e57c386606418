// SPDX-License-Identifier: Apache-2.0
#include "model/host_language.h"

#include <catch2/catch.hpp>

using namespace pitot;
using model::HostLanguage;
using model::InHostLanguage;

namespace {

model::Trace Recorded(HostLanguage language) {
  model::Trace trace;
  model::SetHostLanguage(language, &trace);
  return trace;
}
void AddSiteOf(const char* file, model::Trace* trace) {
  model::SiteRow site;
  site.file = trace->strings.Add(file);
  trace->sites.push_back(site);
}

}  // namespace

TEST_CASE("advice names the calls of the host's language", "[model]") {
  const std::string text = "Annotate waits with PITOT_WAIT, and add pitot::gpu::Enable.";

  CHECK(InHostLanguage(Recorded(HostLanguage::kCpp), text) == text);
  CHECK(InHostLanguage(Recorded(HostLanguage::kC), text) ==
        "Annotate waits with pitot_wait_begin, and add pitot_recorder_enable_gpu.");
  CHECK(InHostLanguage(Recorded(HostLanguage::kPython), text) ==
        "Annotate waits with pitot.Wait, and add pitot.start(gpu=True).");
}

TEST_CASE("a name that begins another name does not spoil it", "[model]") {
  const model::Trace python = Recorded(HostLanguage::kPython);

  CHECK(InHostLanguage(python, "name the owner in PITOT_WAIT (pitot::Owner)") == "name the owner in Wait.set_owner");
  CHECK(InHostLanguage(python, "set CuptiOptions::memory_bytes") == "set add_cupti's memory_bytes");
}

TEST_CASE("a dump that does not tell the language tells it by its names and places", "[model]") {
  model::Trace python, evidence, c, cpp;
  python.process_name = python.strings.Add("python3");
  AddSiteOf("pitot/interpreter.h", &evidence);
  AddSiteOf("pitot/c.h", &c);
  AddSiteOf("server.cc", &cpp);

  CHECK(InHostLanguage(python, "PITOT_WAIT") == "pitot.Wait");
  CHECK(InHostLanguage(evidence, "PITOT_WAIT") == "pitot.Wait");
  CHECK(InHostLanguage(c, "PITOT_WAIT") == "pitot_wait_begin");
  CHECK(InHostLanguage(cpp, "PITOT_WAIT") == "PITOT_WAIT");
}

TEST_CASE("a C++ recorder in an interpreter's process is told in C++", "[model]") {
  model::Trace trace = Recorded(HostLanguage::kCpp);
  trace.process_name = trace.strings.Add("python3");

  CHECK(InHostLanguage(trace, "PITOT_WAIT") == "PITOT_WAIT");
}
