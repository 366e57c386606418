// SPDX-License-Identifier: Apache-2.0
//
// CUDA scopes of C, over a fake driver.
#include <catch2/catch.hpp>

#include "collect/cuda_events/fake_cuda.h"
#include "fakes/wait_until.h"
#include "pitot/c.h"

TEST_CASE("a CUDA scope of C records an event at its begin and one at its end", "[bindings]") {
  fakes::FakeCuda& cuda = *fakes::LoadFakeCuda(PITOT_FAKE_CUDA);
  cuda.Reset();
  cuda.MakeContext();
  void* const stream = cuda.MakeStream();
  pitot_recorder* recorder = nullptr;
  REQUIRE(pitot_recorder_start(nullptr, &recorder, nullptr, 0) == PITOT_OK);
  REQUIRE(pitot_recorder_add_cuda_events(recorder, nullptr, nullptr, 0) == PITOT_OK);
  const pitot_name forward = pitot_intern("forward");

  // The first scopes of a context are not timed.
  REQUIRE(fakes::WaitUntil([&] {
    pitot_cuda_scope scope;
    pitot_cuda_scope_begin(&scope, stream, forward);
    cuda.Enqueue(stream, 1000);
    pitot_cuda_scope_end(&scope);
    return cuda.StampsOn(stream).size() == 2;
  }));
  pitot_cuda_scope scope;
  pitot_cuda_scope_begin(&scope, stream, forward);
  CHECK(cuda.StampsOn(stream).size() == 3);
  pitot_cuda_scope_end(&scope);
  CHECK(cuda.StampsOn(stream).size() == 4);
  pitot_cuda_scope_end(&scope);  // it has ended
  CHECK(cuda.StampsOn(stream).size() == 4);
  pitot_recorder_free(recorder);
  CHECK(cuda.broken_rules().empty());
}
