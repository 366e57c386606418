// SPDX-License-Identifier: Apache-2.0
//
// The decode server's handler (samples/decode_server/generate.h) with faults in it: a copy, so that users read one
// without.
#ifndef PITOT_TEST_SCOREBOARD_DECODE_SERVER_FAULTY_GENERATE_H_
#define PITOT_TEST_SCOREBOARD_DECODE_SERVER_FAULTY_GENERATE_H_

#include <string_view>

#include "decode_server/generate.h"
#include "scoreboard/decode_server/faults.h"
#include "scoreboard/decode_server/faulty_scheduling.h"

namespace decode_server {

class FaultyGenerate {
 public:
  // `scheduling` are the hooks of `scheduler`. All outlive it.
  FaultyGenerate(const GenerateOptions& options, Scheduler* scheduler, FaultyScheduling* scheduling, Faults* faults);

  // As Generate, with one more stage after "tokenize": "look up", in which requests take a shared lock.
  server_common::Reply Handle(std::string_view body, server_common::Exchange& exchange);

 private:
  const GenerateOptions options_;
  Scheduler* const scheduler_;
  FaultyScheduling* const scheduling_;
  Faults* const faults_;
};

}  // namespace decode_server

#endif  // PITOT_TEST_SCOREBOARD_DECODE_SERVER_FAULTY_GENERATE_H_
