// SPDX-License-Identifier: Apache-2.0
#include "fuzz/reader.h"

// Traces by others and by Pitot; an attribute at the beginning makes a trace Pitot's.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return fuzz::ReadAs(pitot::read::kPerfettoFormat, data, size);
}

#ifdef PITOT_CORPUS_WRITER
#include "fakes/string_sink.h"
#include "pitot/serialize/perfetto.h"
#include "serialize/sample_trace.h"
#include "serialize/wire.h"

namespace {

using pitot::serialize::WireBuffer;

// One packet: `fill` writes its fields.
template <class Fill> void Add(WireBuffer* trace, const Fill& fill) {
  const size_t packet = trace->Open(1);
  fill();
  trace->Close(packet);
}

// A thread with a slice that has annotations of all kinds, scheduling, a counter, and a stage of a GPU.
std::string Others() {
  WireBuffer trace;
  Add(&trace, [&] {
    const size_t track = trace.Open(60);
    trace.Varint(1, 7);
    const size_t thread = trace.Open(4);
    trace.Varint(1, 42);
    trace.Varint(2, 43);
    trace.String(5, "worker");
    trace.Close(thread);
    trace.Close(track);
  });
  // Names, and the sequence's clock.
  Add(&trace, [&] {
    trace.Varint(10, 1);
    trace.Varint(13, 1);
    const size_t interned = trace.Open(12);
    for (const uint32_t field : {1u, 2u, 3u, 24u, 29u, 1000u}) {
      const size_t entry = trace.Open(field);
      trace.Varint(1, 1);
      trace.String(2, "decode");
      trace.Close(entry);
    }
    trace.Close(interned);
    const size_t snapshot = trace.Open(6);
    for (const uint64_t id : {64u, 6u, 1u}) {
      const size_t clock = trace.Open(1);
      trace.Varint(1, id);
      trace.Varint(2, 1000);
      if (id == 64) trace.Varint(3, 1);
      trace.Close(clock);
    }
    trace.Close(snapshot);
  });
  // A slice with annotations.
  for (const uint64_t type : {1u, 2u, 3u}) {
    Add(&trace, [&] {
      trace.Varint(8, 100);
      trace.Varint(58, 64);
      trace.Varint(10, 1);
      const size_t event = trace.Open(11);
      trace.Varint(9, type);
      trace.Varint(10, 1);
      trace.Varint(11, 7);
      for (uint32_t value = 2; value <= 7; ++value) {
        const size_t annotation = trace.Open(4);
        trace.Varint(1, 1);
        if (value == 5) trace.Double(value, 0.5);
        if (value == 6) trace.String(value, "text");
        if (value < 5 || value == 7) trace.Varint(value, 1);
        trace.Close(annotation);
      }
      trace.Close(event);
    });
  }
  // A thread runs on a CPU.
  Add(&trace, [&] {
    const size_t bundle = trace.Open(1);
    for (const uint64_t at : {500u, 700u}) {
      const size_t event = trace.Open(2);
      trace.Varint(1, at);
      const size_t change = trace.Open(4);
      trace.String(5, "worker");
      trace.Varint(6, 43);
      trace.Close(change);
      trace.Close(event);
    }
    trace.Close(bundle);
  });
  // A kernel, and a sample of a GPU's counter.
  Add(&trace, [&] {
    trace.Varint(8, 900);
    trace.Varint(10, 1);
    const size_t stage = trace.Open(53);
    trace.Varint(1, 5);
    trace.Varint(2, 50);
    trace.Varint(13, 1);
    trace.Varint(19, 1);
    trace.Close(stage);
  });
  Add(&trace, [&] {
    trace.Varint(8, 950);
    const size_t counters = trace.Open(52);
    const size_t descriptor = trace.Open(1);
    const size_t spec = trace.Open(1);
    trace.Varint(1, 3);
    trace.String(2, "clock");
    trace.Close(spec);
    trace.Close(descriptor);
    const size_t sample = trace.Open(2);
    trace.Varint(1, 3);
    trace.Double(3, 1.5);
    trace.Close(sample);
    trace.Close(counters);
  });
  return {reinterpret_cast<const char*>(trace.data()), trace.size()};
}

}  // namespace

bool fuzz::WriteCorpus(const std::string& folder) {
  fakes::StringSink own;
  if (!pitot::MakePerfettoSerializer()->Serialize(pitot::test::SampleTrace(), own).ok()) return false;
  const std::string others = Others();
  return fuzz::WriteFile(folder + "/own", own.bytes) && fuzz::WriteFile(folder + "/others", others) &&
         fuzz::WriteFile(folder + "/cut", others.substr(0, others.size() / 2));
}
#endif
