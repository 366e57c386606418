// SPDX-License-Identifier: Apache-2.0
#include "collect/cupti/decode.h"

#include <malloc.h>
#include <sys/mman.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <random>
#include <string>

#include "collect/cupti/fake_records.h"

namespace {

namespace cupti = pitot::cupti;
using cupti::Activity;
using cupti::GpuRecord;
using fakes::FakeBuffer;

constexpr uint64_t kEpoch = 1'800'000'000'000'000'000;

struct EpochClock final : cupti::Clock {
  cupti::Conversion ToMonotonic(uint64_t cupti_ns, cupti::Stamper by, int64_t* monotonic_ns) const override {
    if (by == cupti::Stamper::kGpu && errs_about_gpu) return cupti::Conversion::kNotPlaced;
    if (cupti_ns == kNotPlacedNs) return cupti::Conversion::kNotPlaced;
    if (cupti_ns == kSteppedBackNs) return *monotonic_ns = 50, cupti::Conversion::kByRealtime;
    *monotonic_ns = static_cast<int64_t>(cupti_ns - kEpoch);
    return cupti::Conversion::kByRealtime;
  }
  bool errs_about_gpu = false;
  static constexpr uint64_t kNotPlacedNs = kEpoch + 13, kSteppedBackNs = kEpoch - 1'000'000;
};

cupti::Result NoNextRecord(uint8_t*, size_t, uint8_t**) { return cupti::kInvalidKind; }

struct Reader {
  explicit Reader(const fakes::Generation& generation) : decoder(&api, generation.Strides(), &clock, &tables, nullptr) {
    api.activity_get_next_record = NoNextRecord;
  }
  std::vector<GpuRecord> Decode(const FakeBuffer& buffer) {
    std::vector<GpuRecord> records;
    // In memory of its exact size, so that a sanitizer notices a read beyond it.
    const std::unique_ptr<uint8_t[]> exact(new uint8_t[buffer.bytes().size()]);
    std::copy(buffer.bytes().begin(), buffer.bytes().end(), exact.get());
    decoder.Decode(exact.get(), buffer.bytes().size(), &records);
    return records;
  }
  cupti::Api api{};
  EpochClock clock;
  cupti::Tables tables{64 << 20};
  cupti::Decoder decoder;
};

}  // namespace

TEST_CASE("records of every generation of CUPTI are read alike", "[cupti]") {
  for (const auto& generation : {fakes::kCupti11, fakes::kCupti12, fakes::kCupti13}) {
    INFO(generation.version);
    Reader reader(generation);
    FakeBuffer buffer(generation);
    buffer.Kernel("gemm", kEpoch + 100, kEpoch + 300, 41)
        .Memcpy(1, 1, 3, 4096, kEpoch + 10, kEpoch + 90, 40)
        .Memset(64, kEpoch + 91, kEpoch + 95, 42)
        .Graph(5, kEpoch + 400, kEpoch + 900, 43)
        .Overhead(5u << 16, kEpoch + 20, kEpoch + 30)
        .Call(cupti::kRuntime, 211, 1234, kEpoch + 1, kEpoch + 5, 41)
        .Kernel("gemm", kEpoch + 910, kEpoch + 920, 45, 8, uint64_t{5} << 32 | 17, 5);

    const std::vector<GpuRecord> records = reader.Decode(buffer);

    REQUIRE(records.size() == 7);
    CHECK(records[0].activity == Activity::kKernel);
    CHECK(records[0].begin_ns == 100);
    CHECK(records[0].duration_ns == 200);
    CHECK(records[0].correlation == 41);
    CHECK(reader.tables.names.names()[records[0].name] == "gemm");
    const cupti::KernelShape& shape = reader.tables.shapes.rows()[records[0].detail];
    CHECK(shape.grid[1] == 20);
    CHECK(shape.block[0] == 128);
    CHECK(shape.dynamic_shared_bytes == 2048);
    CHECK(shape.registers == 32);
    CHECK(reader.tables.streams.rows()[records[0].stream] == cupti::StreamKey{0, 1, 7});
    CHECK(records[1].activity == Activity::kMemcpy);
    CHECK(records[1].value == 4096);
    CHECK(records[1].detail == (1u << 16 | 1u << 8 | 3u));
    CHECK(records[2].activity == Activity::kMemset);
    CHECK(records[2].value == 64);
    CHECK(records[3].activity == Activity::kGraph);
    CHECK(records[3].graph == 5);
    CHECK(records[3].duration_ns == 500);
    CHECK(records[4].activity == Activity::kOverhead);
    CHECK(std::string(cupti::OverheadName(records[4].detail)) == "lazy function loading");
    CHECK(records[5].activity == Activity::kCall);
    CHECK(records[5].value == 1234);
    CHECK(records[5].detail == 211);
    CHECK(records[6].name == records[0].name);
    CHECK(records[6].detail == records[0].detail);
    CHECK(records[6].stream != records[0].stream);
    CHECK(records[6].graph == 5);
    CHECK(records[6].node == 17);
    CHECK(reader.decoder.counts().records == 7);
    CHECK(reader.decoder.counts().unreadable_bytes == 0);
  }
}

TEST_CASE("copies between devices and compilations are read with their device", "[cupti]") {
  for (const auto& generation : {fakes::kCupti11, fakes::kCupti12, fakes::kCupti13}) {
    Reader reader(generation);
    FakeBuffer buffer(generation);
    buffer.Peer(1 << 20, kEpoch + 10, kEpoch + 60, 7).Jit(2, kEpoch + 100, kEpoch + 900, 8);

    const std::vector<GpuRecord> records = reader.Decode(buffer);

    REQUIRE(records.size() == 2);
    CHECK(records[0].activity == Activity::kMemcpy);
    CHECK(records[0].value == 1 << 20);
    CHECK(records[0].detail == (10u << 16 | 3u << 8 | 3u));
    CHECK(records[0].correlation == 7);
    CHECK(records[0].graph == 6);
    CHECK(records[0].node == 4);
    CHECK(reader.tables.streams.rows()[records[0].stream] == cupti::StreamKey{1, 2, 9});
    CHECK(records[1].activity == Activity::kJit);
    CHECK(records[1].detail == 2);
    CHECK(records[1].duration_ns == 800);
    CHECK(reader.tables.streams.rows()[records[1].stream].device == 1);
    CHECK(reader.tables.streams.rows()[records[1].stream].stream == ~0u);
  }
}

TEST_CASE("records without times, or with an end before their begin, are counted and left out", "[cupti]") {
  Reader reader(fakes::kCupti13);
  FakeBuffer buffer(fakes::kCupti13);
  buffer.Kernel("a", 0, 0, 1).Kernel("b", kEpoch + 20, kEpoch + 10, 2).Kernel("c", kEpoch + 20, 0, 3);
  buffer.Kernel("d", kEpoch + 20, kEpoch + 20, 4);

  const auto records = reader.Decode(buffer);

  REQUIRE(records.size() == 1);
  CHECK(records[0].correlation == 4);
  CHECK(reader.decoder.counts().bad_timestamps == 3);
}

TEST_CASE("records left without a place by a clock step are counted apart, each once", "[cupti]") {
  Reader reader(fakes::kCupti13);
  FakeBuffer buffer(fakes::kCupti13);
  buffer.Kernel("begins there", EpochClock::kNotPlacedNs, kEpoch + 20, 1);
  buffer.Kernel("ends there", kEpoch + 10, EpochClock::kNotPlacedNs, 2);
  buffer.Kernel("both", EpochClock::kNotPlacedNs, EpochClock::kNotPlacedNs, 3);
  buffer.Kernel("well", kEpoch + 20, kEpoch + 30, 4);

  const auto records = reader.Decode(buffer);

  REQUIRE(records.size() == 1);
  CHECK(records[0].correlation == 4);
  CHECK(reader.decoder.counts().unplaced == 3);
  CHECK(reader.decoder.counts().bad_timestamps == 0);
}

TEST_CASE("the host's stamps are placed even while the GPU's cannot be", "[cupti]") {
  Reader reader(fakes::kCupti13);
  reader.clock.errs_about_gpu = true;
  FakeBuffer buffer(fakes::kCupti13);
  buffer.Kernel("gemm", kEpoch + 100, kEpoch + 300, 1).Memcpy(1, 1, 3, 4096, kEpoch + 10, kEpoch + 90, 2);
  buffer.Memset(64, kEpoch + 91, kEpoch + 95, 3).Graph(5, kEpoch + 400, kEpoch + 900, 4);
  buffer.Peer(1 << 20, kEpoch + 10, kEpoch + 60, 5);
  buffer.Call(cupti::kRuntime, 211, 1234, kEpoch + 1, kEpoch + 5, 6);
  buffer.Overhead(5u << 16, kEpoch + 20, kEpoch + 30).Jit(2, kEpoch + 100, kEpoch + 900, 7);

  const auto records = reader.Decode(buffer);

  REQUIRE(records.size() == 3);
  CHECK(records[0].activity == Activity::kCall);
  CHECK(records[1].activity == Activity::kOverhead);
  CHECK(records[2].activity == Activity::kJit);
  CHECK(reader.decoder.counts().unplaced == 5);
}

TEST_CASE("a record with a clock step back inside has a smaller number as its end, and is kept", "[cupti]") {
  Reader reader(fakes::kCupti13);
  FakeBuffer buffer(fakes::kCupti13);
  buffer.Kernel("straddles", kEpoch + 20, EpochClock::kSteppedBackNs, 1);

  const auto records = reader.Decode(buffer);

  REQUIRE(records.size() == 1);
  CHECK(records[0].begin_ns == 20);
  CHECK(records[0].duration_ns == 30);
}

TEST_CASE("a record with an end in hundreds of years is not taken for one with its end before its begin", "[cupti]") {
  Reader reader(fakes::kCupti13);
  FakeBuffer buffer(fakes::kCupti13);
  buffer.Kernel("never ends", kEpoch, ~0ull, 1).Kernel("ends at the end of time", kEpoch, INT64_MAX, 2);

  const auto records = reader.Decode(buffer);

  REQUIRE(records.size() == 1);
  CHECK(records[0].correlation == 2);
  CHECK(records[0].duration_ns > 0);
  CHECK(reader.decoder.counts().bad_timestamps == 1);
}

TEST_CASE("a buffer cut at any byte gives its whole records", "[cupti]") {
  FakeBuffer whole(fakes::kCupti12);
  whole.Kernel("a", kEpoch + 1, kEpoch + 2, 1).Call(cupti::kDriver, 307, 1, kEpoch, kEpoch + 1, 1);
  whole.Kernel("b", kEpoch + 3, kEpoch + 4, 2);
  for (size_t size = 0; size <= whole.bytes().size(); ++size) {
    Reader reader(fakes::kCupti12);
    const std::unique_ptr<uint8_t[]> cut(new uint8_t[size]);
    std::copy_n(whole.bytes().begin(), size, cut.get());
    std::vector<GpuRecord> records;
    reader.decoder.Decode(cut.get(), size, &records);
    CHECK(records.size() == size_t{size >= 208} + size_t{size >= 248} + size_t{size >= 456});
    const size_t used = size >= 456 ? 456 : size >= 248 ? 248 : size >= 208 ? 208 : 0;
    CHECK(reader.decoder.counts().unreadable_bytes == size - used);
  }
}

TEST_CASE("a kind of unknown length is stepped over by the library, or ends the buffer", "[cupti]") {
  FakeBuffer buffer(fakes::kCupti13);
  buffer.Unknown(61, 24).Kernel("after", kEpoch + 1, kEpoch + 2, 1);
  {
    Reader reader(fakes::kCupti13);
    CHECK(reader.Decode(buffer).empty());
    CHECK(reader.decoder.counts().unreadable_bytes == buffer.bytes().size());
  }
  Reader reader(fakes::kCupti13);
  reader.api.activity_get_next_record = [](uint8_t*, size_t, uint8_t** record) {
    *record += 24;
    return cupti::kSuccess;
  };
  CHECK(reader.Decode(buffer).size() == 1);
  CHECK(reader.decoder.counts().unknown == 1);
  CHECK(reader.decoder.counts().unreadable_bytes == 0);
}

TEST_CASE("bytes of any kind are never read beyond their end", "[cupti]") {
  std::mt19937_64 random(7);
  for (int round = 0; round < 2000; ++round) {
    Reader reader(fakes::kCupti13);
    const size_t size = random() % 600;
    const std::unique_ptr<uint8_t[]> bytes(new uint8_t[size]);
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(random());
    // Kinds that are read, except the one whose memory would be freed.
    constexpr uint32_t kKinds[] = {cupti::kGraphTrace, cupti::kDriver, cupti::kRuntime, cupti::kConcurrentKernel};
    for (size_t at = 0; at + 4 <= size; at += 8) {
      const uint32_t kind = kKinds[random() % 4];
      std::memcpy(&bytes[at], &kind, sizeof kind);
    }
    std::vector<GpuRecord> records;
    reader.decoder.Decode(bytes.get(), size, &records);
    CHECK(records.size() <= size / 40);
  }
}

TEST_CASE("a name is read once, and again after it may have changed", "[cupti]") {
  cupti::NameTable names(64 << 10);
  char text[16] = "first";
  const uint32_t first = names.Of(text);
  std::strcpy(text, "second");
  CHECK(names.Of(text) == first);
  names.Forget();
  const uint32_t second = names.Of(text);
  CHECK(second != first);
  CHECK(names.names()[first] == "first");
  CHECK(names.names()[second] == "second");
  const char* const again = "first";
  CHECK(names.Of(again) == first);
  CHECK(names.names().size() == 3);
}

TEST_CASE("a name of an unloaded module is called so, and nothing faults", "[cupti]") {
  void* const page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(page != MAP_FAILED);
  auto* const text = static_cast<char*>(page);
  std::strcpy(text, "gemm");
  munmap(page, 4096);
  cupti::NameTable names(64 << 10);
  CHECK(names.names()[names.Of(text)] == "(unloaded)");
}

TEST_CASE("tables stay within their memory, whatever comes", "[cupti]") {
  constexpr uint64_t kMemory = 8 << 20;  // the tables may have a fifth of it
  std::vector<std::string> texts;
  SECTION("names of a megabyte") {
    for (int i = 0; i < 500; ++i) texts.push_back(std::to_string(i) + std::string(1 << 20, 'x'));
  }
  SECTION("very many names") {
    for (int i = 0; i < 100'000; ++i) texts.push_back("kernel " + std::to_string(i));
  }
  const auto allocated = [] {
    const auto info = mallinfo2();
    return info.uordblks + info.hblkhd;  // 0 under a sanitizer
  };
  const uint64_t before = allocated();
  cupti::Tables tables(kMemory);
  for (const std::string& text : texts) tables.names.Of(text.c_str());
  for (uint32_t i = 0; i < 100'000; ++i) {
    tables.shapes.Of({{i, 1, 1}, {32, 1, 1}, 0, 0, 0, 0});
    tables.streams.Of({0, i, 7});
  }

  CHECK(allocated() - before <= tables.bytes() + (16 << 10));
  CHECK(tables.bytes() <= kMemory / 8 + kMemory / 16 + kMemory / 64);
  CHECK(tables.names.refused() > 0);
  CHECK(tables.names.refused() + tables.names.names().size() == texts.size() + 1);
  CHECK(tables.shapes.refused() + tables.shapes.rows().size() == 100'001);
  CHECK(tables.streams.refused() + tables.streams.rows().size() == 100'001);
}

TEST_CASE("tables are bounded: new rows of a full table are other, and counted", "[cupti]") {
  cupti::NameTable names(64 << 10);
  const auto of = [&](const std::string& name) {
    names.Forget();
    return names.Of(name.c_str());
  };
  uint32_t count = 1;
  while (of(std::to_string(count)) == count) ++count;
  CHECK(count > 20);
  CHECK(of("another") == 0);
  CHECK(of("17") == 17);
  CHECK(names.refused() == 2);
  CHECK(names.names()[0] == "(other)");

  cupti::RowTable<cupti::StreamKey> streams({~0u, ~0u, ~0u}, 256);
  for (uint32_t i = 1; i < 256; ++i) CHECK(streams.Of({0, 1, i}) == i);
  CHECK(streams.Of({0, 1, 256}) == 0);
  CHECK(streams.Of({0, 1, 7}) == 7);
  CHECK(streams.refused() == 1);
}
