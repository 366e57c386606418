// SPDX-License-Identifier: Apache-2.0
//
// CUPTI alone: records of kernels, copies and sets are switched on and nothing is done with them. What that costs is
// the floor that Pitot's cost is compared with. A library for gpu_overhead.py; preloaded, with PITOT_CUPTI_ALONE set,
// it does so from the program's start (server_overhead.py).
#include <cstdlib>
#include <mutex>

#include "collect/cupti/api.h"
#include "collect/cupti/buffers.h"

namespace {

using namespace pitot::cupti;

constexpr uint32_t kKinds[] = {kConcurrentKernel, kMemcpy, kMemset};

struct Alone {
  Api api{};
  std::unique_ptr<BufferPool> pool = BufferPool::Make(64, 256 << 10);
};
Alone* g_alone = nullptr;

void Request(uint8_t** buffer, size_t* size, size_t* most) {
  *buffer = g_alone->pool->Take();
  *size = *buffer != nullptr ? g_alone->pool->bytes() : 0;
  *most = 0;
}
void Complete(void*, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  g_alone->pool->Complete(buffer, valid);
  g_alone->pool->Drain([](const uint8_t*, uint64_t) {});
}

}  // namespace

// 0, or CUPTI's error.
extern "C" __attribute__((visibility("default"))) int pitot_cupti_alone(int on) {
  if (g_alone == nullptr) {
    g_alone = new Alone;
    if (g_alone->pool == nullptr || !LoadCupti("", &g_alone->api).ok()) return kUnknown;
    g_alone->pool->Touch();
  }
  Result result = kSuccess;
  if (on != 0) result = g_alone->api.activity_register_callbacks(Request, Complete);
  for (const uint32_t kind : kKinds) {
    const Result done = on != 0 ? g_alone->api.activity_enable(kind) : g_alone->api.activity_disable(kind);
    if (result == kSuccess) result = done;
  }
  if (on == 0) g_alone->api.activity_flush_all(0);
  return result;
}

namespace {

__attribute__((constructor)) void BeginWithTheProgram() {
  if (std::getenv("PITOT_CUPTI_ALONE") != nullptr && pitot_cupti_alone(1) != kSuccess) std::abort();
}

}  // namespace
