// SPDX-License-Identifier: Apache-2.0
//
// What `pitot doctor` asks the machine, one finding per question.
#ifndef PITOT_LIB_CLI_DOCTOR_MACHINE_H_
#define PITOT_LIB_CLI_DOCTOR_MACHINE_H_

#include <string>
#include <vector>

namespace pitot::cli {

enum class Health { kGood, kNote, kProblem };

struct Finding {
  std::string topic;  // stable, for programs
  Health health;
  std::string answer;  // a sentence
  std::string advice;  // what to do; "" if nothing
};

// Asks everything but GPUs; an empty `incident_directory` is not looked at. Leaves nothing behind.
std::vector<Finding> ExamineMachine(const std::string& incident_directory);

}  // namespace pitot::cli

#endif  // PITOT_LIB_CLI_DOCTOR_MACHINE_H_
