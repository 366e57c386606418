// SPDX-License-Identifier: Apache-2.0
#include "fakes/failing_allocations.h"

#include <cstdlib>
#include <new>

namespace fakes {

thread_local constinit int t_until_failure = -1;
constinit std::atomic<size_t> g_refused_bytes{0};
constinit std::atomic<size_t> g_largest_bytes{0};

}  // namespace fakes

void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  if (size != 0 && size == fakes::g_refused_bytes.load()) return nullptr;
  for (size_t largest = fakes::g_largest_bytes; size > largest;)
    if (fakes::g_largest_bytes.compare_exchange_weak(largest, size)) break;
  const bool fails = fakes::t_until_failure >= 0 && fakes::t_until_failure-- == 0;
  return fails ? nullptr : std::malloc(size != 0 ? size : 1);
}
void* operator new(std::size_t size) {
  if (void* const memory = operator new(size, std::nothrow)) return memory;
  throw std::bad_alloc();
}
void* operator new[](std::size_t size) { return operator new(size); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return operator new(size, std::nothrow); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
