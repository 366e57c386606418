// SPDX-License-Identifier: Apache-2.0
//
// A TraceBuilder for collectors that add counters alone: everything else goes nowhere.
#ifndef PITOT_TEST_FAKES_COUNTER_BUILDER_H_
#define PITOT_TEST_FAKES_COUNTER_BUILDER_H_

#include <cstdint>

#include "pitot/extend/collector.h"

namespace fakes {

class CounterBuilder : public pitot::TraceBuilder {
 public:
  uint32_t AddText(const char*) override { return 0; }
  uint32_t AddDevice(const pitot::GpuDevice&) override { return 0; }
  uint32_t AddStream(uint32_t, uint32_t, uint32_t) final { return 0; }
  uint32_t AddShape(const uint32_t*, const uint32_t*, uint32_t, uint32_t, uint32_t, uint32_t) final { return 0; }
  void Add(const pitot::GpuActivity&) final {}
  void Add(const pitot::GpuCall&) final {}
  void AddOverhead(int64_t, int64_t, uint32_t) final {}
  void Add(const pitot::GpuLoss&) final {}
  void AddDepth(int64_t, int64_t, pitot::Depth) final {}
  void AddOperatorDepth(int64_t, int64_t, pitot::Depth) final {}

 protected:
  ~CounterBuilder() = default;
};

}  // namespace fakes

#endif  // PITOT_TEST_FAKES_COUNTER_BUILDER_H_
