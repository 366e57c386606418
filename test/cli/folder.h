// SPDX-License-Identifier: Apache-2.0
//
// Runs the built program and keeps its output and exit code. Needs PITOT_PROGRAM defined by the build.
#ifndef PITOT_TEST_CLI_FOLDER_H_
#define PITOT_TEST_CLI_FOLDER_H_

#include <stdlib.h>
#include <sys/wait.h>

#include <fstream>
#include <string>

#include "fakes/temp_directory.h"
#include "pitot/serialize/dump.h"
#include "report/incident_trace.h"

namespace cli_test {

struct Result {
  int exit_code;
  std::string out;
  std::string err;
};

// A directory of its own to run the program in.
class Folder {
 public:
  std::string operator/(const std::string& name) const { return directory_ / name; }
  std::string Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(*this / name, std::ios::binary) << bytes;
    return *this / name;
  }
  // COLUMNS in the program's environment, independent of the terminal of the tests; "" sets an empty value.
  std::string columns;
  // Runs `pitot` with the arguments in this folder.
  Result Run(const std::string& arguments, const char* out = "out") const {
    const std::string command = "cd " + directory_.path() + " && COLUMNS='" + columns + "' " PITOT_PROGRAM " " +
                                arguments + " >" + out + " 2>err </dev/null";
    const int status = system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, fakes::ReadFile(*this / "out"),
            fakes::ReadFile(*this / "err")};
  }

 private:
  fakes::TempDirectory directory_;
};

inline std::string Dump(const pitot::model::Trace& trace = incident::MakeTrace()) {
  return incident::Serialize(*pitot::MakeDumpSerializer(), trace);
}

}  // namespace cli_test

#endif  // PITOT_TEST_CLI_FOLDER_H_
