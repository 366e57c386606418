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

// Asks everything but GPUs. An empty `incident_directory` is PITOT_INCIDENT_DIRECTORY; where that is not set, either,
// none is looked at. `root` stands before /proc and /sys where evidence of the host is looked for. Leaves nothing
// behind.
std::vector<Finding> ExamineMachine(const std::string& incident_directory, const std::string& root);
// What is wrong with the file that a variable names, of which a tool is loaded; "" if nothing is known to be.
std::string WhyNoFile(const std::string& path);

}  // namespace pitot::cli

#endif  // PITOT_LIB_CLI_DOCTOR_MACHINE_H_
