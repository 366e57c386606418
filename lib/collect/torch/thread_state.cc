// SPDX-License-Identifier: Apache-2.0
#include "collect/torch/thread_state.h"
#include "base/memory_order.h"

#include <atomic>
#include <cstdlib>
#include <new>
#include <utility>

namespace pitot::libtorch {

__thread ThreadState* ThreadState::t_state = nullptr;

namespace {

// Outlives the owner, because nobody may read the owner's members after its end.
__thread bool t_is_over = false;

}  // namespace

// Frees the thread's state at its end. Operators that run later, in destructors of other thread-locals, do not make a
// new one.
struct Owner {
  ~Owner() {
    delete state;
    ThreadState::t_state = nullptr;
    t_is_over = true;
  }
  ThreadState* state = nullptr;
};

namespace {

using base::kRelaxed;

thread_local Owner t_owner;
constinit trace::NameQuota g_quota;
constinit std::atomic<uint64_t> g_names_folded{0};
constinit std::atomic<uint64_t> g_held_bytes{0};

}  // namespace

uint64_t NamesFolded() noexcept { return g_names_folded.load(kRelaxed); }
void ClearNamesFolded() noexcept { g_names_folded.store(0, kRelaxed); }

ThreadState* ThreadState::Make() noexcept {
  if (t_is_over) return nullptr;
  t_owner.state = new (std::nothrow) ThreadState;
  if (t_owner.state != nullptr) g_held_bytes.fetch_add(sizeof(ThreadState), kRelaxed);
  return t_state = t_owner.state;
}

ThreadState::~ThreadState() {
  g_held_bytes.fetch_sub(sizeof(ThreadState) + spare_count_ * kContextBytes, kRelaxed);
  while (spare_ != nullptr) std::free(std::exchange(spare_, spare_->next));
}

uint64_t ThreadState::HeldBytes() noexcept { return g_held_bytes.load(kRelaxed); }

void ThreadState::Free(void* block) noexcept {
  if (block != nullptr) g_held_bytes.fetch_sub(kContextBytes, kRelaxed);
  std::free(block);
}

Name ThreadState::Learn(const char* text, Seen* seen, uint32_t most) noexcept {
  const std::string_view read(text, strnlen(text, trace::kMaxNameBytes));
  const Name name = g_quota.Intern(read, most);
  if (name.index == 0) g_names_folded.fetch_add(1, kRelaxed);
  const std::string_view kept = trace::NameText(name.index);
  // A name that found the table full is looked up each time.
  if (kept == read) *seen = {text, kept.data(), static_cast<uint32_t>(kept.size()), name.index};
  return name;
}

void* ThreadState::Take() noexcept {
  if (spare_ == nullptr) {
    void* const block = std::malloc(kContextBytes);
    if (block != nullptr) g_held_bytes.fetch_add(kContextBytes, kRelaxed);
    return block;
  }
  --spare_count_;
  return std::exchange(spare_, spare_->next);
}

void ThreadState::Give(void* block) noexcept {
  if (flops_owner_ == block) flops_owner_ = nullptr;
  if (spare_count_ == kMostSpare) return Free(block);
  ++spare_count_;
  spare_ = new (block) Spare{spare_};
}

}  // namespace pitot::libtorch
