// SPDX-License-Identifier: Apache-2.0
//
// Any bytes from a CUPTI of any generation must decode to records fit for the history. The first byte chooses the
// generation (two bits) and the library's way of stepping over unknown records (two bits). The rest is a buffer.
#include <string.h>

#include <memory>
#include <string>
#include <vector>

#include "collect/cupti/clock_pairs.h"
#include "collect/cupti/decode.h"
#include "collect/cupti/fake_records.h"
#include "collect/cupti/history.h"
#include "fuzz/fuzz.h"

namespace {

namespace cupti = pitot::cupti;
using fuzz::Require;

constexpr int64_t kEpochNs = 1'800'000'000'000'000'000;
const fakes::Generation kGenerations[] = {fakes::kCupti11, fakes::kCupti12, fakes::kCupti13};

enum class Stepping { kRefuses, kSteps, kStepsBeyond, kStaysWhereItIs };
Stepping g_stepping;

// Records begin at multiples of eight bytes.
cupti::Result NextRecord(uint8_t* buffer, size_t valid, uint8_t** record) {
  if (g_stepping == Stepping::kRefuses) return cupti::kInvalidKind;
  if (g_stepping == Stepping::kStaysWhereItIs) return cupti::kSuccess;
  if (g_stepping == Stepping::kStepsBeyond) return *record = buffer + valid, cupti::kSuccess;
  const size_t next = static_cast<size_t>(*record - buffer) + 8 * (1 + cupti::Field<uint32_t>(*record, 0) % 8);
  if (next >= valid) return cupti::kMaxLimitReached;
  return *record = buffer + next, cupti::kSuccess;
}

template <class T> void Put(uint8_t* at, const T& value) { memcpy(at, &value, sizeof value); }

// Sets pointers at every possible place of a record. A name is null, a valid name, or an address from the input without
// memory behind it, which must not fault. Data to be freed is null, because the fuzzer cannot own it.
void SetPointers(uint8_t* bytes, size_t size) {
  static const char* const kNames[] = {nullptr, "gemm", "", "void at::native::vectorized_elementwise_kernel<4>()"};
  for (size_t at = 0; at + cupti::kernel::kName + sizeof(char*) <= size; at += 8) {
    if (cupti::Field<uint32_t>(bytes, static_cast<uint32_t>(at)) != cupti::kConcurrentKernel) continue;
    uint8_t* const name = bytes + at + cupti::kernel::kName;
    if (const auto number = cupti::Field<uint64_t>(name, 0); number < 4) Put(name, kNames[number]);
  }
  for (size_t at = 0; at + cupti::overhead::kReadWithData <= size; at += 8) {
    if (cupti::Field<uint32_t>(bytes, static_cast<uint32_t>(at)) == cupti::kOverhead)
      Put(bytes + at + cupti::overhead::kOwnedData, uint64_t{0});
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  // The buffer has its exact size, so that a sanitizer sees a read beyond it.
  const size_t valid = size - 1;
  const std::unique_ptr<uint8_t[]> buffer(new uint8_t[valid]);
  if (valid != 0) memcpy(buffer.get(), data + 1, valid);
  SetPointers(buffer.get(), valid);
  g_stepping = static_cast<Stepping>(data[0] >> 2 & 3);

  cupti::Api api{};
  api.activity_get_next_record = NextRecord;
  cupti::ClockPairs clock;
  clock.Add({kEpochNs, 1'000'000'000});
  clock.Add({kEpochNs + 100'000'000, 1'100'002'000});  // slewed
  clock.Add({kEpochNs + 200'000'000, 1'300'000'000});  // and stepped
  cupti::Tables tables(64 << 20);
  cupti::Decoder decoder(&api, kGenerations[(data[0] & 3) % 3].Strides(), &clock, &tables, nullptr);
  std::vector<cupti::GpuRecord> records;
  decoder.Decode(buffer.get(), valid, &records);

  Require(decoder.counts().unreadable_bytes <= valid, "counts", "more bytes are unreadable than exist");
  const cupti::DecodeCounts& counts = decoder.counts();
  Require(records.size() + counts.bad_timestamps + counts.unplaced == counts.records, "counts", "records are missing");
  const auto history = cupti::History::Make(16 * cupti::History::kChunkBytes);
  if (history == nullptr) return 0;
  for (const cupti::GpuRecord& record : records) {
    int64_t end_ns = 0;
    Require(record.duration_ns >= 0, "a record", "ends before it begins");
    Require(!__builtin_add_overflow(record.begin_ns, record.duration_ns, &end_ns), "a record", "has no end");
    Require(record.name < tables.names.names().size(), "a record", "has a name outside the table");
    Require(record.stream < tables.streams.rows().size(), "a record", "has a stream outside the table");
    Require(record.activity != cupti::Activity::kKernel || record.detail < tables.shapes.rows().size(), "a kernel",
            "has a shape outside the table");
    history->Add(tables.streams.rows()[record.stream].device, &record, 1);
  }
  cupti::History::Pinned pinned;
  history->Pin(INT64_MIN, &pinned);
  size_t held = 0;
  pinned.ForEach([&](const cupti::GpuRecord&) { ++held; });
  Require(held <= records.size(), "the history", "has more records than it was given");
  return 0;
}

#ifdef PITOT_CORPUS_WRITER
namespace {

// A buffer as filled by the library of this generation.
std::string Buffer(const fakes::Generation& generation) {
  constexpr uint64_t kBegin = static_cast<uint64_t>(kEpochNs) + 50'000'000;
  const auto* const gemm = reinterpret_cast<const char*>(uintptr_t{1});  // SetPointers' number
  fakes::FakeBuffer buffer(generation);
  buffer.Kernel(gemm, kBegin + 100, kBegin + 300, 41)
      .Memcpy(1, 1, 3, 4096, kBegin + 400, kBegin + 450, 42)
      .Memset(64, kBegin + 500, kBegin + 510, 43)
      .Graph(5, kBegin + 600, kBegin + 1100, 44)
      .Call(cupti::kRuntime, 211, 1234, kBegin + 1, kBegin + 5, 41)
      .Peer(1 << 20, kBegin + 10, kBegin + 60, 7)
      .Unknown(61, 24)
      .Overhead(5u << 16, kBegin + 20, kBegin + 30)
      .Jit(2, kBegin + 100, kBegin + 900, 8)
      .Kernel(gemm, kBegin + 100'000'910, kBegin + 100'000'920, 45, 8, uint64_t{5} << 32 | 17, 5);
  std::vector<uint8_t> bytes = buffer.bytes();
  const cupti::Strides strides = generation.Strides();
  for (size_t at = 0; at < bytes.size();) {
    const auto kind = cupti::Field<uint32_t>(&bytes[at], 0);
    if (kind == cupti::kOverhead && strides[kind] >= cupti::overhead::kReadWithData) {
      free(cupti::Field<void*>(&bytes[at], cupti::overhead::kOwnedData));
      Put(&bytes[at + cupti::overhead::kOwnedData], uint64_t{0});
    }
    at += strides[kind] != 0 ? strides[kind] : 24;
  }
  return {bytes.begin(), bytes.end()};
}

}  // namespace

bool fuzz::WriteCorpus(const std::string& folder) {
  bool is_written = fuzz::WriteFile(folder + "/empty", std::string(1, '\0'));
  for (int i = 0; i < 3 && is_written; ++i) {
    const std::string bytes = Buffer(kGenerations[i]), name = folder + "/generation_" + std::to_string(i);
    for (int stepping = 0; stepping < 4 && is_written; ++stepping)
      is_written = fuzz::WriteFile(name + "_" + std::to_string(stepping), static_cast<char>(stepping << 2 | i) + bytes);
    is_written = is_written && fuzz::WriteFile(name + "_cut", static_cast<char>(4 | i) + bytes.substr(0, 300));
  }
  return is_written;
}
#endif
