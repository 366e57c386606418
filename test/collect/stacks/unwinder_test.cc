// SPDX-License-Identifier: Apache-2.0
//
// libdw of the system on real threads of this process.
#include "collect/stacks/unwinder.h"

#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <fstream>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>

#include "trace/system_call.h"

using pitot::stacks::Frame;
using pitot::stacks::Unwinder;

namespace blocked {

int g_socket = -1;
std::mutex g_mutex;

// Work after the call keeps these frames on the stack.
[[gnu::noinline]] long ReceiveAnswer() {
  char byte = 0;
  return recv(g_socket, &byte, 1, 0) + byte;
}
[[gnu::noinline]] long HandleRequest() { return ReceiveAnswer() + 1; }
[[gnu::noinline]] long LoadModel() {
  pthread_mutex_lock(g_mutex.native_handle());
  pthread_mutex_unlock(g_mutex.native_handle());
  return 1;
}

}  // namespace blocked

namespace {

std::string TextOf(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// The stack of a thread, once it sleeps in that call.
std::vector<Frame> StackIn(int64_t number, int64_t tid, Unwinder* unwinder) {
  pitot::trace::SystemCall call;
  while (!pitot::trace::ParseSystemCall(TextOf("/proc/self/task/" + std::to_string(tid) + "/syscall").c_str(), &call) ||
         call.number != number)
    std::this_thread::yield();
  return unwinder->Unwind(call.stack, call.instruction);
}

bool HasFunction(const std::vector<Frame>& frames, const std::string& name) {
  for (const Frame& frame : frames) {
    if (frame.text.rfind(name + " (", 0) == 0 && !frame.is_runtime) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("a thread blocked in a call is seen below the function that called it", "[stacks]") {
  std::string why_not;
  const auto unwinder = pitot::stacks::OpenUnwinder(&why_not);
  if (unwinder == nullptr) {
    WARN("left out: " << why_not);
    return;
  }
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  blocked::g_socket = ends[0];
  std::atomic<int64_t> reader_tid{0}, waiter_tid{0};
  std::thread reader([&] {
    reader_tid = gettid();
    blocked::HandleRequest();
  });
  blocked::g_mutex.lock();
  std::thread waiter([&] {
    waiter_tid = gettid();
    blocked::LoadModel();
  });
  while (reader_tid == 0 || waiter_tid == 0) std::this_thread::yield();

  for (int i = 0; i < 2; ++i) {
    const std::vector<Frame> reading = StackIn(45, reader_tid, unwinder.get());
    REQUIRE(reading.size() >= 2);
    CHECK(reading[0].text == "recv (libc.so.6)");
    CHECK(reading[0].is_runtime);
    CHECK(HasFunction(reading, "blocked::ReceiveAnswer"));
    CHECK(HasFunction(StackIn(202, waiter_tid, unwinder.get()), "blocked::LoadModel"));
    unwinder->Reset();
  }

  blocked::g_mutex.unlock();
  close(ends[1]);
  reader.join();
  waiter.join();
  close(ends[0]);
}

TEST_CASE("memory that is no stack gives no stack", "[stacks]") {
  std::string why_not;
  const auto unwinder = pitot::stacks::OpenUnwinder(&why_not);
  if (unwinder == nullptr) return;
  for (const auto& [stack, instruction] : {std::pair<uint64_t, uint64_t>(0, 0), {8, 8}, {~uint64_t{7}, ~uint64_t{0}}})
    CHECK(unwinder->Unwind(stack, instruction).size() <= 1);
}

TEST_CASE("a sample with a stack that leads nowhere, or beyond its copy, has the frames before it", "[stacks]") {
  std::string why_not;
  const auto unwinder = pitot::stacks::OpenUnwinder(&why_not);
  if (unwinder == nullptr) return;
  pitot::stacks::Sample sample;
  sample.instruction = reinterpret_cast<uintptr_t>(&blocked::HandleRequest);  // its caller is at the stack pointer
  CHECK(unwinder->UnwindSample(sample).empty());
  sample.stack.assign(4, 7);
  CHECK(unwinder->UnwindSample(sample).size() == 1);
  for (const uint64_t stack : {uint64_t{0}, uint64_t{4096}, ~uint64_t{3}}) {
    sample.registers[pitot::stacks::Sample::kStackPointer] = stack;
    sample.stack.assign(4096, 0);
    CHECK(HasFunction(unwinder->UnwindSample(sample), "blocked::HandleRequest"));
  }
}
