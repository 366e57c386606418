// SPDX-License-Identifier: Apache-2.0
//
// A process that lives: a child with a recorder and a black box.
#ifndef PITOT_TEST_CLI_LIVING_H_
#define PITOT_TEST_CLI_LIVING_H_

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <functional>
#include <string>

#include "pitot/pitot.h"

namespace cli_test {

class Living {
 public:
  // In that process.
  inline static pitot::Recorder* recorder = nullptr;
  inline static const pitot::Options* options = nullptr;

  // Its recorder runs when this returns; `work` is then called. It lives until this object does not. `enter` is called
  // before: it may lead to other namespaces.
  Living(
      const std::string& boxes, const std::function<void()>& work, const std::string& incidents = "",
      bool (*enter)() = [] { return true; }) {
    int fds[2];
    REQUIRE(pipe(fds) == 0);
    pid_ = fork();
    if (pid_ == 0) {
      alarm(300);
      if (!enter()) _exit(1);
      pitot::Options own;
      own.memory_budget_bytes = 8 << 20;
      own.max_open_requests = 256;
      own.black_box_directory = boxes.c_str();
      own.incident_directory = incidents.c_str();
      own.process_name = "server";
      pitot::Recorder started = pitot::Recorder::Start(own);
      recorder = &started;
      options = &own;
      PITOT_INSTANT("started");
      const bool has_written = write(fds[1], "x", 1) == 1;
      if (has_written) work();
      for (;;) pause();
    }
    close(fds[1]);
    char byte = 0;
    const bool is_started = read(fds[0], &byte, 1) == 1;
    close(fds[0]);
    CHECK(is_started);
  }
  ~Living() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Living(const Living&) = delete;
  Living& operator=(const Living&) = delete;
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
};

}  // namespace cli_test

#endif  // PITOT_TEST_CLI_LIVING_H_
