// SPDX-License-Identifier: Apache-2.0
#include "fuzz/reader.h"

// Planes of hosts, GPUs and TPUs; a first plane of Pitot's makes the whole space its own.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return fuzz::ReadAs(pitot::read::kXSpaceFormat, data, size);
}

#ifdef PITOT_CORPUS_WRITER
#include "fakes/string_sink.h"
#include "pitot/serialize/xspace.h"
#include "serialize/sample_trace.h"
#include "serialize/wire.h"

namespace {

using pitot::serialize::WireBuffer;

// An entry of a table of names: of events (4) or stats (5).
void AddName(uint32_t field, uint64_t id, const char* name, WireBuffer* plane) {
  const size_t entry = plane->Open(field);
  plane->Varint(1, id);
  const size_t value = plane->Open(2);
  plane->String(2, name);
  plane->Close(value);
  plane->Close(entry);
}

// A plane with one event on one line, which has a stat of each type.
std::string OneEvent(const char* plane_name, const char* line_name, const char* name) {
  WireBuffer space;
  const size_t plane = space.Open(1);
  space.String(2, plane_name);
  const size_t line = space.Open(3);
  space.Varint(1, 7);
  space.String(2, line_name);
  space.Varint(3, 5000);
  const size_t event = space.Open(4);
  space.Varint(1, 1);
  space.Varint(2, 2'000'000);
  space.Varint(3, 3'000'000);
  // Doubles, numbers, texts, bytes and references.
  for (uint32_t type = 2; type <= 7; ++type) {
    const size_t stat = space.Open(4);
    space.Varint(1, 1);
    if (type == 2) space.Double(type, 0.5);
    if (type == 3 || type == 4 || type == 7) space.Varint(type, 2);
    if (type == 5 || type == 6) space.String(type, "size:4096 grid:8,2,1 block:256,1,1 regs:40");
    space.Close(stat);
  }
  space.Close(event);
  space.Close(line);
  AddName(4, 1, name, &space);
  AddName(5, 1, "kernel_details", &space);
  AddName(5, 2, "hlo_op", &space);
  space.Close(plane);
  return {reinterpret_cast<const char*>(space.data()), space.size()};
}

}  // namespace

bool fuzz::WriteCorpus(const std::string& folder) {
  fakes::StringSink own;
  if (!pitot::MakeXSpaceSerializer()->Serialize(pitot::test::SampleTrace(), own).ok()) return false;
  // A call on a thread, a copy on a stream, and an operation of a device without streams.
  const std::string others = OneEvent("/host:CPU", "python", "cuLaunchKernel") +
                             OneEvent("/device:GPU:0", "Stream #7(Compute)", "MemcpyH2D") +
                             OneEvent("/device:TPU:0", "XLA Ops", "fusion.1");
  return fuzz::WriteFile(folder + "/own", own.bytes) && fuzz::WriteFile(folder + "/others", others) &&
         fuzz::WriteFile(folder + "/cut", others.substr(0, others.size() / 2));
}
#endif
