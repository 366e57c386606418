// SPDX-License-Identifier: Apache-2.0
#include "collect/torch/thread_state.h"

#include <cstdlib>
#include <new>
#include <utility>

#include "trace/names.h"

namespace pitot::libtorch {

__thread ThreadState* ThreadState::t_state = nullptr;

// Frees the thread's at its end. Operators that run after, in destructors of other thread-locals, make none anew.
struct Owner {
  ~Owner() {
    delete state;
    ThreadState::t_state = nullptr;
    is_over = true;
  }
  ThreadState* state = nullptr;
  bool is_over = false;
};

namespace {
thread_local Owner t_owner;
}  // namespace

ThreadState* ThreadState::Make() noexcept {
  if (t_owner.is_over) return nullptr;
  t_owner.state = new (std::nothrow) ThreadState;
  return t_state = t_owner.state;
}

ThreadState::~ThreadState() {
  while (spare_ != nullptr) std::free(std::exchange(spare_, spare_->next));
}

Name ThreadState::Learn(const char* text, Seen* seen) noexcept {
  const Name name = Intern(text);
  const std::string_view kept = trace::NameText(name.index);
  // What was cut, or found the table full, is looked up each time.
  if (kept == text) *seen = {text, kept.data(), static_cast<uint32_t>(kept.size()), name.index};
  return name;
}

void* ThreadState::Take() noexcept {
  if (spare_ == nullptr) return std::malloc(kContextBytes);
  --spare_count_;
  return std::exchange(spare_, spare_->next);
}

void ThreadState::Give(void* block) noexcept {
  if (counted_ == block) counted_ = nullptr;
  if (spare_count_ == kMostSpare) return std::free(block);
  ++spare_count_;
  spare_ = new (block) Spare{spare_};
}

}  // namespace pitot::libtorch
