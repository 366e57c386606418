// SPDX-License-Identifier: Apache-2.0
//
// The machine part of `pitot doctor`: one finding per question.
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

// Checks everything except GPUs. An empty `incident_directory` means PITOT_INCIDENT_DIRECTORY; if that is not set
// either, no directory is checked. `root` is put before /proc and /sys for the host's evidence. Leaves nothing behind.
std::vector<Finding> ExamineMachine(const std::string& incident_directory, const std::string& root);
// The problem with a file from which a variable loads a tool; "" if none is known.
std::string WhyNoFile(const std::string& path);

}  // namespace pitot::cli

#endif  // PITOT_LIB_CLI_DOCTOR_MACHINE_H_
