// SPDX-License-Identifier: Apache-2.0
//
// Two ways to keep CUPTI's records of kernels: decoded at once into compact records, or in CUPTI's own buffers, decoded
// when an incident needs them.
#include <cstring>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "benchmarks/register.h"
#include "benchmarks/rounds.h"
#include "collect/cupti/abi.h"
#include "collect/cupti/buffers.h"
#include "collect/cupti/clock_pairs.h"
#include "collect/cupti/decode.h"
#include "collect/cupti/history.h"

namespace pitot::benchmarks {
namespace {

constexpr uint32_t kStride = 216;  // of CUPTI 13
constexpr uint32_t kBufferBytes = 256 << 10, kRecords = kBufferBytes / kStride;
constexpr uint32_t kBuffers = 64;

// A buffer as CUPTI fills it.
std::vector<uint8_t> Filled() {
  namespace kernel = cupti::kernel;
  static constexpr const char* kNames[] = {"gemm", "norm", "relu", "add"};
  std::vector<uint8_t> buffer(kBufferBytes);
  const auto begin_ns = static_cast<uint64_t>(base::ClockNs(CLOCK_REALTIME)) - uint64_t{kRecords} * 5000;
  for (uint32_t i = 0; i < kRecords; ++i) {
    uint8_t* const record = &buffer[uint64_t{i} * kStride];
    const auto set = [record](uint32_t offset, auto value) { std::memcpy(record + offset, &value, sizeof value); };
    set(0, uint32_t{cupti::kConcurrentKernel});
    set(kernel::kStart, begin_ns + uint64_t{i} * 5000);
    set(kernel::kEnd, begin_ns + uint64_t{i} * 5000 + 4000);
    set(kernel::kDeviceId, uint32_t{0});
    set(kernel::kContextId, uint32_t{1});
    set(kernel::kStreamId, uint32_t{7});
    set(kernel::kCorrelation, i + 1);
    set(kernel::kName, kNames[i % 4]);
    set(kernel::kGridX, 1 + i % 7);
    set(kernel::kBlockX, uint32_t{128});
  }
  return buffer;
}

class Keeper {
 public:
  Keeper() {
    pairs_.Add(cupti::ReadClockPair());
    strides_[cupti::kConcurrentKernel] = kStride;
    if (pool_ != nullptr) pool_->Touch();
    decoder_ = std::make_unique<cupti::Decoder>(&api_, strides_, &pairs_, &tables_, nullptr);
  }
  bool HasMemory() const { return pool_ != nullptr && history_ != nullptr; }
  // CUPTI takes a buffer and gives it back. Its writing is its own cost: here the buffer is full except for the first
  // word, because zeroing takes that one.
  void Fill() {
    uint8_t* const buffer = pool_->Take();
    if (std::memcmp(buffer, filled_.data(), sizeof(uint32_t)) != 0) std::memcpy(buffer, filled_.data(), kBufferBytes);
    pool_->Complete(buffer, uint64_t{kRecords} * kStride);
  }
  void DecodeAll() {
    pool_->Drain([this](const uint8_t* buffer, uint64_t valid) {
      decoded_.clear();
      decoder_->Decode(buffer, valid, &decoded_);
      history_->Add(0, decoded_.data(), decoded_.size());
    });
  }

 private:
  cupti::Api api_{};
  cupti::Strides strides_{};
  cupti::ClockPairs pairs_;
  cupti::Tables tables_{64 << 20};
  std::unique_ptr<cupti::Decoder> decoder_;
  std::unique_ptr<cupti::BufferPool> pool_ = cupti::BufferPool::Make(kBuffers, kBufferBytes);
  std::unique_ptr<cupti::History> history_ = cupti::History::Make(48 << 20);
  const std::vector<uint8_t> filled_ = Filled();
  std::vector<cupti::GpuRecord> decoded_;
};

// Both include a copy of the buffer, in place of CUPTI's writing, and its zeroing.
template <bool kIsCompact> void Keep(benchmark::State& state, Rounds& rounds) {
  Keeper keeper;
  if (!keeper.HasMemory()) return state.SkipWithError("no memory");
  const auto keep = [&](uint64_t) {
    keeper.Fill();
    if (kIsCompact) keeper.DecodeAll();
  };
  for (auto _ : state) {
    const double begin_ns = ThreadCpuNs(), per_buffer_ns = TimeLoop(Scaled(4000), keep);
    rounds.Add(per_buffer_ns / kRecords, (ThreadCpuNs() - begin_ns) * 1e-9);
  }
  state.counters["bytes_per_record"] = kIsCompact ? sizeof(cupti::GpuRecord) : kStride;
  if (kIsCompact) return;
  const double begin_ns = ThreadCpuNs();
  keeper.DecodeAll();
  state.counters["ms_to_decode_all"] = (ThreadCpuNs() - begin_ns) * 1e-6;
}

}  // namespace

void RegisterGpuRecords() {
  Register("a kernel's record, compact", 16, Keep<true>, "ns", 0);
  Register("a kernel's record, raw", 16, Keep<false>, "ns", 0);
}

}  // namespace pitot::benchmarks
