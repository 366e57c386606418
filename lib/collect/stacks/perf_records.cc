// SPDX-License-Identifier: Apache-2.0
#include "collect/stacks/perf_records.h"

#include <time.h>

#include <algorithm>
#include <cstring>

namespace pitot::stacks {

namespace {

constexpr uint64_t kPeriodNs = 3'900'000;  // of CPU time; no multiple of the usual turns of a scheduler
constexpr uint32_t kStackBytes = 8 << 10;

// The registers in a record, in its order (asm/perf_regs.h): DWARF's numbers, and the program counter.
constexpr uint32_t kInstruction = 16;
constexpr uint32_t kOrder[] = {0, 3, 2, 1, 4, 5, 6, 7, kInstruction, 8, 9, 10, 11, 12, 13, 14, 15};
constexpr uint64_t kRegisterMask = 0xff01ff;  // AX to IP, R8 to R15

// Reads bytes of the ring one after the other. After the end, or beyond the ring, nothing is read.
class Cursor {
 public:
  Cursor(const RecordRing& ring, uint64_t begin, uint64_t end) : ring_(ring), at_(begin), end_(end) {}

  uint64_t left() const { return end_ - at_; }
  bool Copy(void* to, uint64_t count) {
    if (count > left()) return false;
    const uint64_t from = at_ % ring_.size, first = std::min(count, ring_.size - from);
    if (first != 0) memcpy(to, ring_.bytes + from, first);
    if (count != first) memcpy(static_cast<uint8_t*>(to) + first, ring_.bytes, count - first);
    at_ += count;
    return true;
  }
  template <class T> bool Read(T* value) { return Copy(value, sizeof *value); }

 private:
  const RecordRing& ring_;
  uint64_t at_;
  const uint64_t end_;
};

bool ReadRegisters(Cursor* cursor, Sample* sample) {
  uint64_t abi = 0;
  if (!cursor->Read(&abi) || abi != PERF_SAMPLE_REGS_ABI_64) return false;
  for (const uint32_t number : kOrder) {
    uint64_t* const to = number == kInstruction ? &sample->instruction : &sample->registers[number];
    if (!cursor->Read(to)) return false;
  }
  return true;
}

// The stack has room for `size` bytes; at its end stands how many of them are valid.
bool ReadStack(Cursor* cursor, Sample* sample) {
  uint64_t size = 0, valid = 0;
  if (!cursor->Read(&size) || size == 0 || size > cursor->left()) return false;
  sample->stack.resize(size);
  if (!cursor->Copy(sample->stack.data(), size) || !cursor->Read(&valid)) return false;
  sample->stack.resize(std::min(valid, size));
  return true;
}

// In the order of SampleAttributes' sample_type.
void ReadSample(Cursor cursor, Sample* sample) {
  *sample = {.stack = std::move(sample->stack)};
  uint32_t process = 0, thread = 0;
  uint64_t at_ns = 0;
  const bool has_head = cursor.Read(&process) && cursor.Read(&thread) && cursor.Read(&at_ns);
  sample->tid = thread;
  sample->at_ns = static_cast<int64_t>(at_ns);
  if (!has_head || !ReadRegisters(&cursor, sample) || !ReadStack(&cursor, sample)) sample->stack.clear();
}

}  // namespace

perf_event_attr SampleAttributes() {
  perf_event_attr attributes = {};
  attributes.size = sizeof attributes;
  attributes.type = PERF_TYPE_SOFTWARE;
  attributes.config = PERF_COUNT_SW_CPU_CLOCK;
  attributes.sample_period = kPeriodNs;
  attributes.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
  attributes.exclude_kernel = 1;
  attributes.exclude_hv = 1;
  attributes.use_clockid = 1;
  attributes.clockid = CLOCK_MONOTONIC;
  attributes.sample_regs_user = kRegisterMask;
  attributes.sample_stack_user = kStackBytes;
  attributes.watermark = 1;  // nobody waits for records
  attributes.wakeup_watermark = UINT32_MAX;
  return attributes;
}

bool NextSample(const RecordRing& ring, uint64_t head, uint64_t* tail, Sample* sample) {
  while (*tail != head) {
    perf_event_header header = {};
    const uint64_t begin = *tail;
    *tail = head;
    if (head - begin > ring.size) return false;
    Cursor cursor(ring, begin, head);
    if (!cursor.Read(&header) || header.size < sizeof header || header.size > head - begin) return false;
    *tail = begin + header.size;
    if (header.type != PERF_RECORD_SAMPLE) continue;
    ReadSample(Cursor(ring, begin + sizeof header, *tail), sample);
    return true;
  }
  return false;
}

}  // namespace pitot::stacks
