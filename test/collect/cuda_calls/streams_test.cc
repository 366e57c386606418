// SPDX-License-Identifier: Apache-2.0
//
// The collectors of CUDA calls and of CUDA events together: a wait and the work that it waits for have the same stream.
#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <string>

#include "collect/cuda_calls/collector.h"
#include "collect/cuda_calls/fake_cudart.h"
#include "collect/cuda_events/rig.h"

namespace {

namespace model = pitot::model;
using fakes::EventHost;
using fakes::kMs;

constexpr std::string_view kRuntime[] = {"libfake_cudart"};

fakes::Caller LoadCaller() {
  void* const library = dlopen(PITOT_NOW_CALLER, RTLD_LAZY | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  return reinterpret_cast<fakes::Caller (*)()>(dlsym(library, "cuda_caller"))();
}

}  // namespace

TEST_CASE("waits for a stream, an event or the device are tied to the stream of the batch's span", "[cuda_calls]") {
  const fakes::Caller caller = LoadCaller();
  EventHost host;
  REQUIRE(host.StartTiming());
  pitot::cuda_calls::Environment environment;
  environment.providers = kRuntime;
  REQUIRE(host.recorder.Add(pitot::cuda_calls::MakeCollector({}, environment)).ok());
  void* const event = reinterpret_cast<void*>(uintptr_t{101});
  {
    const auto batch = pitot::Batch::Begin("net");
    caller.launch(nullptr, {1, 1, 1}, {1, 1, 1}, nullptr, 0, host.stream);
    host.cuda.Enqueue(host.stream, kMs);
    caller.record_event(event, host.stream);
    caller.synchronize(host.stream);
  }
  caller.synchronize_event(event);
  caller.synchronize_device();
  REQUIRE(host.Settle());
  const model::Trace trace = host.traces().back();

  CHECK(model::FindInconsistency(trace) == "");
  const uint32_t span = EventHost::Find(trace, "net");
  REQUIRE(span != model::kNone);
  const uint32_t stream = trace.gpu.stream[span];
  for (const auto& [name, of_stream] :
       {std::pair{"cudaEventSynchronize", true}, std::pair{"cudaStreamSynchronize", true},
        std::pair{"cudaDeviceSynchronize", false}}) {
    INFO(name);
    uint32_t waits = 0;
    for (uint32_t call = 0; call < trace.calls.size(); ++call) {
      if (trace.strings[trace.calls.name[call]] != name) continue;
      ++waits;
      CHECK(trace.calls.stream[call] == (of_stream ? stream : model::kNone));
      CHECK(trace.calls.device[call] == (of_stream ? model::kNone : trace.streams[stream].device));
    }
    CHECK(waits == 1);
  }
  CHECK(host.cuda.broken_rules() == "");
}
