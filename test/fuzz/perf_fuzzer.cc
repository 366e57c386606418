// SPDX-License-Identifier: Apache-2.0
//
// Any ring of records of the kernel, torn or whole, must give samples within it, and an end. The first byte chooses the
// ring's size, and the next ones how far it was read and written. The rest is the ring.
#include <string.h>

#include <algorithm>
#include <memory>
#include <string>

#include "collect/stacks/fake_kernel.h"
#include "collect/stacks/perf_records.h"
#include "fuzz/fuzz.h"

namespace {

using fuzz::Require;
using pitot::stacks::NextSample;
using pitot::stacks::RecordRing;
using pitot::stacks::Sample;

struct Head {
  uint8_t log_of_size;
  uint64_t tail, head;
} __attribute__((packed));

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Head at;
  if (size < sizeof at) return 0;
  memcpy(&at, data, sizeof at);
  // The ring has its exact size, so that a sanitizer sees a read beyond it.
  const uint64_t ring_size = uint64_t{1} << (at.log_of_size % 16);
  const std::unique_ptr<uint8_t[]> bytes(new uint8_t[ring_size]());
  memcpy(bytes.get(), data + sizeof at, std::min<uint64_t>(ring_size, size - sizeof at));

  const RecordRing ring{bytes.get(), ring_size};
  uint64_t tail = at.tail;
  Sample sample;
  for (uint64_t before = tail; NextSample(ring, at.head, &tail, &sample); before = tail) {
    Require(tail - before >= sizeof(perf_event_header), "the tail", "stands still");
    Require(at.head - tail <= ring_size, "the tail", "is beyond the head");
    Require(sample.stack.size() <= ring_size, "a stack", "is larger than the ring");
  }
  Require(tail == at.head, "the tail", "is not at the head in the end");
  return 0;
}

#ifdef PITOT_CORPUS_WRITER
namespace {

std::string Input(uint8_t log_of_size, uint64_t tail, uint64_t head, const std::string& ring) {
  const Head at{log_of_size, tail, head};
  return std::string(reinterpret_cast<const char*>(&at), sizeof at) + ring;
}

}  // namespace

bool fuzz::WriteCorpus(const std::string& folder) {
  const auto text = [](const fakes::RecordBytes& record) {
    return std::string(record.bytes().begin(), record.bytes().end());
  };
  const std::string sample = text(fakes::SampleRecord(7, 99, {1, 2, 3, 4}, 24));
  const std::string lost = text(fakes::RecordBytes(PERF_RECORD_LOST).Put(uint64_t{1}).Put(uint64_t{7}));
  std::string whole = lost + sample + sample;
  const uint64_t end = whole.size();
  whole.resize(1024);
  std::string wrapped = whole;
  std::rotate(wrapped.begin(), wrapped.begin() + 100, wrapped.end());
  return fuzz::WriteFile(folder + "/empty", Input(10, 5, 5, "")) &&
         fuzz::WriteFile(folder + "/whole", Input(10, 0, end, whole)) &&
         fuzz::WriteFile(folder + "/wrapped", Input(10, 924, 924 + end, wrapped)) &&
         fuzz::WriteFile(folder + "/torn", Input(10, 0, end - 40, whole)) &&
         fuzz::WriteFile(folder + "/overrun", Input(8, 0, end, whole)) &&
         fuzz::WriteFile(folder + "/backwards", Input(10, end, 8, whole));
}
#endif
