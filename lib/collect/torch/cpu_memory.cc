// SPDX-License-Identifier: Apache-2.0
//
// LibTorch has one allocator for tensors on the CPU, and it can be replaced: ours calls it and counts. LibTorch's own
// reports go to a slot of PyTorch's profiler, one for each thread.
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <malloc.h>
#include <torch/version.h>

#include "collect/torch/memory.h"
#include "pitot/collect/torch.h"

namespace pitot::libtorch {
namespace {

constinit at::Allocator* g_base = nullptr;  // written before ours is in place
constinit at::DeleterFnPtr g_base_delete = nullptr;
constinit Memory* g_memory = nullptr;

// LibTorch for AArch64 may be built with mimalloc (its USE_MIMALLOC), and the C library knows nothing about its blocks.
#if defined(__aarch64__)
constexpr bool kIsOfCLibrary = false;
#else
constexpr bool kIsOfCLibrary = true;
#endif

// The C library's size of this very block, so nothing needs to be kept for it.
int64_t BytesOf(void* block) { return static_cast<int64_t>(malloc_usable_size(block)); }

void Delete(void* block) {
  if (block != nullptr) NoteFreed(g_memory, BytesOf(block), MemoryNow());
  g_base_delete(block);
}

class CpuAllocator final : public at::Allocator {
 public:
#if TORCH_VERSION_MAJOR >= 2
  at::DataPtr allocate(size_t bytes) override { return Allocate(bytes); }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { g_base->copy_data(to, from, bytes); }
#else
  at::DataPtr allocate(size_t bytes) const override { return Allocate(bytes); }
#endif
  at::DeleterFnPtr raw_deleter() const override { return &Delete; }

 private:
  static at::DataPtr Allocate(size_t bytes) {
    at::DataPtr data = g_base->allocate(bytes);
    // A block freed in a way unknown to us is not counted.
    void* const block = data.get();
    if (block != nullptr && block == data.get_context() && data.compare_exchange_deleter(g_base_delete, &Delete))
      NoteAllocated(g_memory, BytesOf(block), MemoryNow());
    return data;
  }
};

}  // namespace

std::string WatchCpu() {
  if (g_memory != nullptr) return {};
  if (!kIsOfCLibrary) return "on AArch64 LibTorch may allocate CPU memory with another allocator than the C library's";
  at::Allocator* const base = c10::GetAllocator(c10::DeviceType::CPU);
  // The C library may know nothing about another allocator's blocks.
  if (base != c10::GetDefaultCPUAllocator() || base->raw_deleter() == nullptr)
    return "the host has its own allocator for CPU tensors; to record this memory: leave LibTorch's in "
           "place";
  static CpuAllocator* const allocator = new CpuAllocator;  // for the life of the process, like its blocks
  Memory* const memory = MakeMemory(torch::kCpu);
  if (memory == nullptr) return "no memory";
  g_base = base, g_base_delete = base->raw_deleter(), g_memory = memory;
  c10::SetAllocator(c10::DeviceType::CPU, allocator);
  return {};
}

}  // namespace pitot::libtorch
