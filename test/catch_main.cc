// SPDX-License-Identifier: Apache-2.0
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <thread>

namespace {

std::ptrdiff_t Threads() {
  std::error_code error;
  const std::filesystem::directory_iterator tasks("/proc/self/task", error);
  return error ? 1 : std::distance(begin(tasks), end(tasks));
}

}  // namespace

// Threads that were left behind on purpose, and let go by their test, have a while to end: LeakSanitizer crashes on one
// that is about to when the process does ("Tracer caught signal 11").
int main(int argc, char** argv) {
  const std::ptrdiff_t before = Threads();
  const int result = Catch::Session().run(argc, argv);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (Threads() > before && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  return result;
}
