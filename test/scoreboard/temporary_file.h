// SPDX-License-Identifier: Apache-2.0
//
// A log of faults, gone with the test.
#ifndef PITOT_TEST_SCOREBOARD_TEMPORARY_FILE_H_
#define PITOT_TEST_SCOREBOARD_TEMPORARY_FILE_H_

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace pitot::test {

class TemporaryFile {
 public:
  TemporaryFile() { close(mkstemp(name_)); }
  ~TemporaryFile() { unlink(name_); }
  std::string name() const { return name_; }
  std::vector<nlohmann::json> lines() const {
    std::ifstream file(name_);
    std::vector<nlohmann::json> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }
  // The injections. The other lines depend on the machine.
  std::vector<nlohmann::json> injections() const {
    std::vector<nlohmann::json> found;
    for (const nlohmann::json& line : lines()) {
      if (line.contains("as")) found.push_back(line);
    }
    return found;
  }

 private:
  char name_[32] = "/tmp/pitot_faults_XXXXXX";
};

}  // namespace pitot::test

#endif  // PITOT_TEST_SCOREBOARD_TEMPORARY_FILE_H_
