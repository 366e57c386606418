// SPDX-License-Identifier: Apache-2.0
//
// CUPTI alone, without a recorder: its cost is the floor for comparisons with Pitot's. A library for gpu_overhead.py
// (records of kernels, copies and sets on or off, unused) and for gpu_after.py (step by step). Preloaded, it takes the
// steps of PITOT_CUPTI_ALONE ("register enable=10") at the program's start (server_overhead.py).
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "collect/cupti/api.h"
#include "collect/cupti/buffers.h"
#include "collect/cupti/calls.h"
#include "collect/cupti/strides.h"

namespace {

using namespace pitot::cupti;

constexpr uint32_t kKinds[] = {kConcurrentKernel, kMemcpy, kMemset};

struct Alone {
  Api api{};
  std::unique_ptr<BufferPool> pool;
  ApiCalls calls;
  Subscriber subscriber = nullptr;
};
Alone* g_alone = nullptr;
uint64_t g_buffers = 0, g_bytes = 0;

void Request(uint8_t** buffer, size_t* size, size_t* most) {
  *buffer = g_alone->pool->Take();
  *size = *buffer != nullptr ? g_alone->pool->bytes() : 0;
  *most = 0;
}
void Complete(void*, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  g_alone->pool->Complete(buffer, valid);
  g_alone->pool->Drain([](const uint8_t*, uint64_t bytes) { ++g_buffers, g_bytes += bytes; });
}
void OnCall(void*, int, uint32_t, const void*) {}

Result Load(uint32_t buffer_bytes) {
  if (g_alone != nullptr) return kSuccess;
  auto alone = std::make_unique<Alone>();
  alone->pool = BufferPool::Make((16 << 20) / buffer_bytes, buffer_bytes);
  if (alone->pool == nullptr || !LoadCupti("", &alone->api).ok()) return kUnknown;
  alone->pool->Touch();
  alone->calls.Find(alone->api);
  g_alone = alone.release();
  return kSuccess;
}

template <class T> Result SetAttribute(int attribute, T value) {
  size_t size = sizeof value;
  return g_alone->api.activity_set_attribute(attribute, &size, &value);
}

Result SwitchCalls(const std::vector<ApiCalls::Id>& ids, bool by_records, bool on) {
  Result result = kSuccess;
  for (const ApiCalls::Id& id : ids) {
    const auto enable =
        id.domain == kRuntimeApi ? g_alone->api.activity_enable_runtime_api : g_alone->api.activity_enable_driver_api;
    const Result done = by_records
                            ? enable(id.callback_id, on ? 1 : 0)
                            : g_alone->api.enable_callback(on ? 1 : 0, g_alone->subscriber, id.domain, id.callback_id);
    if (result == kSuccess) result = done;
  }
  return result;
}

Result Do(std::string_view what, uint64_t number) {
  if (what == "load")
    return Load(number != 0 ? static_cast<uint32_t>(number) : 256 << 10);  // bytes of a buffer; 16 MiB of them
  if (const Result loaded = Load(256 << 10); loaded != kSuccess) return loaded;
  const Api& api = g_alone->api;
  if (what == "subscribe") return api.subscribe(&g_alone->subscriber, OnCall, nullptr);
  if (what == "unsubscribe") return api.unsubscribe(g_alone->subscriber);
  if (what == "thread_ids")
    return api.set_thread_id_type != nullptr ? api.set_thread_id_type(kSystemThreadId) : kSuccess;
  if (what == "register") return api.activity_register_callbacks(Request, Complete);
  if (what == "enable") return api.activity_enable(static_cast<uint32_t>(number));
  if (what == "disable") return api.activity_disable(static_cast<uint32_t>(number));
  // For the calls that Pitot records, and for all others.
  if (what == "records_of_calls") return SwitchCalls(g_alone->calls.ids(), true, number != 0);
  if (what == "records_of_others") return SwitchCalls(g_alone->calls.others(), true, number != 0);
  if (what == "resource" || what == "state")  // that callback of the domain
    return api.enable_callback(1, g_alone->subscriber, what == "state" ? kState : kResource,
                               static_cast<uint32_t>(number));
  if (what == "callbacks") return SwitchCalls(g_alone->calls.ids(), false, number != 0);
  if (what == "strides") return ProbeStrides(api)[kConcurrentKernel] != 0 ? kSuccess : kUnknown;
  if (what == "flush") return api.activity_flush_all(0);
  if (what == "attribute_size") return SetAttribute<size_t>(static_cast<int>(number >> 32), number & 0xffffffff);
  if (what == "attribute_flag")
    return SetAttribute<uint8_t>(static_cast<int>(number >> 32), static_cast<uint8_t>(number));
  return kUnknown;
}

}  // namespace

// 0, or CUPTI's error (999 also for an unknown step).
extern "C" __attribute__((visibility("default"))) int pitot_cupti_do(const char* what, uint64_t number) {
  return Do(what, number);
}

// The bytes of buffers received.
extern "C" __attribute__((visibility("default"))) uint64_t pitot_cupti_bytes() { return g_bytes; }

// 0, or CUPTI's error.
extern "C" __attribute__((visibility("default"))) int pitot_cupti_alone(int on) {
  Result result = on != 0 ? Do("register", 0) : kSuccess;
  for (const uint32_t kind : kKinds) {
    const Result done = Do(on != 0 ? "enable" : "disable", kind);
    if (result == kSuccess) result = done;
  }
  if (on == 0) Do("flush", 0);
  return result;
}

namespace {

__attribute__((constructor)) void BeginWithTheProgram() {
  const char* const steps = std::getenv("PITOT_CUPTI_ALONE");
  std::istringstream words(steps != nullptr ? steps : "");
  for (std::string word; words >> word;) {
    const size_t end = word.find('=');
    const uint64_t number = end != std::string::npos ? std::strtoull(word.c_str() + end + 1, nullptr, 10) : 0;
    if (Do(word.substr(0, end), number) != kSuccess) std::abort();
  }
}

}  // namespace
