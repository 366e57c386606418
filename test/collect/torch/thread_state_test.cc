// SPDX-License-Identifier: Apache-2.0
#include "collect/torch/thread_state.h"

#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>
#include <thread>

using pitot::libtorch::kMaxNames;
using pitot::libtorch::kMaxRangeNames;
using pitot::libtorch::NamesFolded;
using pitot::libtorch::ThreadState;

namespace {

// A thread-local made before the thread's state and destroyed after it: what does it find?
struct Late {
  ~Late() { found = ThreadState::Get(); }
  static inline ThreadState* found = nullptr;
  bool is_used = false;
};
thread_local Late t_late;

}  // namespace

TEST_CASE("operators in a thread's last destructors do not make its state anew", "[thread_state]") {
  bool had_state = false;
  std::thread([&] {
    t_late.is_used = true;
    had_state = ThreadState::Get() != nullptr;
  }).join();

  CHECK(had_state);
  CHECK(Late::found == nullptr);
}

TEST_CASE("memory kept by threads for operators is counted until they end", "[thread_state]") {
  ThreadState::Get();
  const uint64_t before = ThreadState::HeldBytes();
  uint64_t with_state = 0, with_contexts = 0;
  void* elsewhere = nullptr;
  std::thread([&] {
    ThreadState* const state = ThreadState::Get();
    with_state = ThreadState::HeldBytes();
    elsewhere = state->Take();
    void* const block = state->Take();
    with_contexts = ThreadState::HeldBytes();
    state->Give(block);
  }).join();

  CHECK(with_state == before + sizeof(ThreadState));
  CHECK(with_contexts == with_state + 2 * ThreadState::kContextBytes);
  CHECK(ThreadState::HeldBytes() == before + ThreadState::kContextBytes);
  ThreadState::Free(elsewhere);
  CHECK(ThreadState::HeldBytes() == before);
}

TEST_CASE("a name is read no further than it is kept", "[thread_state]") {
  ThreadState* const state = ThreadState::Get();
  std::string text(pitot::trace::kMaxNameBytes, 'n');
  // Memory behind it cannot be read.
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* const pages = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(pages != MAP_FAILED);
  char* const end = static_cast<char*>(pages) + page;
  REQUIRE(mprotect(end, page, PROT_NONE) == 0);
  text.copy(end - text.size(), text.size());
  const pitot::Name name = state->NameOf(end - text.size());
  CHECK(pitot::trace::NameText(name.index) == text);
  CHECK(state->NameOf(end - text.size()).index == name.index);  // from its memory of names
  munmap(pages, 2 * page);
  text += "more";
  CHECK(state->NameOf(text.c_str()).index == name.index);
  // At the same place, first cut elsewhere and then with another beginning.
  char place[pitot::trace::kMaxNameBytes + 8] = {};
  text.copy(place, sizeof place - 1);
  CHECK(state->NameOf(place).index == name.index);
  place[pitot::trace::kMaxNameBytes] = 'x';
  CHECK(state->NameOf(place).index == name.index);
  place[3] = 'x';
  CHECK(state->NameOf(place).index != name.index);
  CHECK(pitot::trace::NameText(state->NameOf(place).index) == std::string_view(place, pitot::trace::kMaxNameBytes));
}

// The last test: names are used up for the life of the process.
TEST_CASE("numbered ranges and operators leave the host's names alone", "[thread_state]") {
  ThreadState* const state = ThreadState::Get();
  REQUIRE(state != nullptr);
  pitot::libtorch::ClearNamesFolded();
  const uint32_t before = pitot::trace::CountNames() - 1;
  const uint32_t first = state->RangeNameOf("step 0").index;
  for (uint32_t i = 0; i < 2 * kMaxRangeNames; ++i) state->RangeNameOf(("step " + std::to_string(i)).c_str());

  CHECK(NamesFolded() == kMaxRangeNames + before);
  CHECK(pitot::trace::CountNames() <= kMaxRangeNames + 64);
  CHECK(state->RangeNameOf("step of another kind").index == 0);
  CHECK(state->RangeNameOf("step 0").index == first);
  CHECK(pitot::trace::NameText(state->NameOf("aten::add").index) == "aten::add");
  for (uint32_t i = 0; i < 8 * kMaxNames; ++i) state->NameOf(("function " + std::to_string(i)).c_str());
  CHECK(NamesFolded() == kMaxRangeNames + before + 1 + 8 * kMaxNames - (kMaxNames - kMaxRangeNames - 1));
  CHECK(pitot::trace::CountNames() <= kMaxNames + 64);
  CHECK(pitot::trace::NameText(state->NameOf("aten::add").index) == "aten::add");
  CHECK(pitot::Intern("the host's").index != 0);
}
