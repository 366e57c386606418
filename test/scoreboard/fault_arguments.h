// SPDX-License-Identifier: Apache-2.0
//
// The options of faults.
#ifndef PITOT_TEST_SCOREBOARD_FAULT_ARGUMENTS_H_
#define PITOT_TEST_SCOREBOARD_FAULT_ARGUMENTS_H_

#include <string>
#include <string_view>
#include <vector>

#include "scoreboard/fault_schedule.h"
#include "server_common/command_line.h"

namespace scoreboard {

// Must outlive CommandLine::Parse.
class FaultArguments {
 public:
  // `names`: the faults and doses of --fault, for --help.
  FaultArguments(const std::string& names, server_common::CommandLine* command_line, FaultOptions* options);

  // For CommandLine::Parse: sets options->faults. Throws server_common::BadOption.
  void Take(Fault (*parse)(std::string_view text));

 private:
  FaultOptions* const options_;
  std::vector<std::string> texts_;
};

}  // namespace scoreboard

#endif  // PITOT_TEST_SCOREBOARD_FAULT_ARGUMENTS_H_
