// SPDX-License-Identifier: Apache-2.0
//
// What happened, as a list of facts that a trace and the truth can be compared by: one line for all that one record
// says.
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
  // The records it stands on: when which thread wrote them. If one of them is lost the fact may be missing.
  struct Record {
    uint32_t thread;
    int64_t at_ns;
  };
  std::vector<Record> records;
};

// In order of their text. Those of a trace have no records.
std::vector<Fact> Facts(const Truth& truth);
std::vector<Fact> Facts(const pitot::model::Trace& trace);
// Which request and batch each event was recorded for.
std::vector<Fact> Contexts(const Truth& truth);
std::vector<Fact> Contexts(const pitot::model::Trace& trace);
// What a trace with losses may say of it: it may not know the request or the batch, or not that the request had ended.
std::vector<Fact> PossibleContexts(const Truth& truth);

// Those of `from` that are not in `in`; each as often as it is there more often.
std::vector<Fact> Missing(const std::vector<Fact>& from, const std::vector<Fact>& in);

// "" if they are the same, else the first facts that only one of them has.
std::string Difference(const std::vector<Fact>& truth, const std::vector<Fact>& trace);

}  // namespace simulator

#endif  // PITOT_TEST_SIMULATOR_FACTS_H_
