// SPDX-License-Identifier: Apache-2.0
//
// Records made through pitot/c.h, read back from a dump.
#ifndef PITOT_TEST_BINDINGS_RECORDED_H_
#define PITOT_TEST_BINDINGS_RECORDED_H_

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "fakes/temp_directory.h"
#include "fakes/trace_text.h"
#include "pitot/c.h"
#include "pitot/read/dump.h"

namespace bindings_test {

// Runs `record` with a recorder, triggers an incident, and reads its dump.
template <class Record> pitot::model::Trace Recorded(Record record) {
  const fakes::TempDirectory directory;
  static std::string dump;  // a hook's context lives for the life of the process
  pitot_options options;
  pitot_options_init(&options, sizeof options);
  options.incident_directory = directory.path().c_str();
  options.post_window_ms = 0;
  pitot_recorder* recorder = nullptr;
  REQUIRE(pitot_recorder_start(&options, &recorder, nullptr, 0) == PITOT_OK);
  const auto keep = [](void* context, const pitot_incident* incident) {
    *static_cast<std::string*>(context) = std::string(incident->directory) + "/dump.pitot";
  };
  REQUIRE(pitot_recorder_on_incident(recorder, keep, &dump, nullptr, 0) == PITOT_OK);

  record(recorder);

  REQUIRE(pitot_recorder_trigger(recorder, "the test", nullptr, 0) == PITOT_OK);
  REQUIRE(pitot_recorder_flush(recorder, 60000, nullptr, 0) == PITOT_OK);
  pitot_recorder_free(recorder);
  pitot::model::Trace trace;
  pitot::DumpReport report;
  REQUIRE(pitot::ReadDump(dump, &trace, &report).ok());
  return trace;
}

inline std::vector<fakes::EventText> Events(const pitot::model::Trace& trace) {
  std::vector<fakes::EventText> events;
  for (uint32_t event = 0; event < trace.events.size(); ++event) events.push_back(fakes::Event(trace, event));
  return events;
}

}  // namespace bindings_test

#endif  // PITOT_TEST_BINDINGS_RECORDED_H_
