// SPDX-License-Identifier: Apache-2.0
#include "collect/stacks/frames.h"

#include <catch2/catch.hpp>
#include <string>

using namespace pitot::stacks;

TEST_CASE("a function is named without its arguments", "[stacks]") {
  const char* const names[][2] = {
      {"MyCache::Get(int) [clone .isra.0]", "MyCache::Get"},
      {"main", "main"},
      {"(anonymous namespace)::Load(std::string const&)", "(anonymous namespace)::Load"},
      {"std::vector<int (*)(long)>::at(unsigned long) const", "std::vector<int (*)(long)>::at"},
      {"main::{lambda(int)#2}::operator()(int) const", "main::{lambda(int)#2}::operator()"},
      {"Money::operator<(Money const&) const", "Money::operator<"},
      {"Work [clone .cold]", "Work"},
  };
  for (const auto& [full, brief] : names) CHECK(ShortFunction(full) == brief);
  CHECK(ShortFunction(std::string(200, 'x')) == std::string(77, 'x') + "...");
}

TEST_CASE("names that are not mangled stay as they are", "[stacks]") {
  CHECK(Demangled("_ZN7MyCache3GetEi") == "MyCache::Get(int)");
  CHECK(Demangled("recv") == "recv");
  CHECK(FileOf("/usr/lib/libserver.so") == "libserver.so");
  CHECK(FileOf("server") == "server");
}

TEST_CASE("frames of the runtime are told from the program's", "[stacks]") {
  CHECK(IsRuntime("libc.so.6", "recv"));
  CHECK(IsRuntime("server", "std::condition_variable::wait"));
  CHECK(IsRuntime("server", "__gthread_mutex_lock"));
  CHECK(!IsRuntime("server", "MyCache::Get"));
  CHECK(!IsRuntime("libcache.so", "recv_all"));
}
