// SPDX-License-Identifier: Apache-2.0
#define CATCH_CONFIG_RUNNER
#include <pthread.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <thread>

#include "fakes/child.h"
#include "fakes/not_run.h"
#include "fakes/quiet_process.h"

namespace {

std::ptrdiff_t Threads() {
  std::error_code error;
  const std::filesystem::directory_iterator tasks("/proc/self/task", error);
  return error ? 1 : std::distance(begin(tasks), end(tasks));
}

}  // namespace

// Threads left behind on purpose, and released by their test, get up to 5 seconds to end. LeakSanitizer crashes on a
// thread that ends while the process exits ("Tracer caught signal 11").
int main(int argc, char** argv) {
  if (PITOT_ADDRESS_SANITIZER) pthread_atfork([] { fakes::WaitUntilOthersWait(1); }, nullptr, nullptr);
  const std::ptrdiff_t before = Threads();
  const int result = Catch::Session().run(argc, argv);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (Threads() > before && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  return result == 0 && fakes::cases_not_run != 0 ? fakes::kCannotRun : result;
}
