// SPDX-License-Identifier: Apache-2.0
//
// The run as a list of facts, to compare a trace with the truth: one line for the contents of one record.
#ifndef PITOT_TEST_SIMULATOR_FACTS_H_
#define PITOT_TEST_SIMULATOR_FACTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "pitot/model/trace.h"
#include "simulator/simulator.h"

namespace simulator {

struct Fact {
  std::string text;
  // The records it rests on: the thread and time of each. If one of them is lost, the fact may be missing.
  struct Record {
    uint32_t thread;
    int64_t at_ns;
  };
  std::vector<Record> records;
};

// In order of their text. Facts of a trace have no records.
std::vector<Fact> Facts(const Truth& truth);
std::vector<Fact> Facts(const pitot::model::Trace& trace);
// The request and batch each event was recorded for.
std::vector<Fact> Contexts(const Truth& truth);
std::vector<Fact> Contexts(const pitot::model::Trace& trace);
// Contexts that a trace with losses may have: without the request or the batch, or without knowing the request's end.
std::vector<Fact> PossibleContexts(const Truth& truth);

// The facts of `from` that are not in `in`; each as often as `from` has it more often.
std::vector<Fact> Missing(const std::vector<Fact>& from, const std::vector<Fact>& in);

// "" if they are the same, otherwise the first facts that only one of them has.
std::string Difference(const std::vector<Fact>& truth, const std::vector<Fact>& trace);

}  // namespace simulator

#endif  // PITOT_TEST_SIMULATOR_FACTS_H_
