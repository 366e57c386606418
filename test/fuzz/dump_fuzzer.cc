// SPDX-License-Identifier: Apache-2.0
//
// Any bytes must read as a consistent trace or as an error. A trace must serialize, Kineto's as valid JSON, and answer
// every question. CRCs are corrected before reading, because a fuzzer would never get past them. An input with an odd
// first byte is read as it is.
#include <string.h>

#include <string>
#include <utility>

#include "fuzz/fuzz.h"
#include "fuzz/questions.h"
#include "fuzz/writers.h"
#include "pitot/analyze/analyze.h"
#include "pitot/model/index.h"
#include "pitot/model/trace.h"
#include "pitot/read/dump.h"
#include "serialize/crc32c.h"
#include "serialize/dump_format.h"
#include "tables/parquet.h"
#include "tables/tables.h"

namespace {

using fuzz::Require;

uint32_t Load32(const std::string& bytes, size_t at) {
  uint32_t value;
  memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// Makes a chunk wherever bytes begin like one: each gets the next sequence number and its CRC.
void PutRight(std::string* bytes) {
  namespace format = pitot::dump_format;
  uint32_t sequence = 0;
  for (size_t at = 0; at + format::kChunkHeaderBytes <= bytes->size();) {
    if (Load32(*bytes, at) != format::kMagic) {
      ++at;
      continue;
    }
    const uint32_t size = Load32(*bytes, at + 8);
    if (size > bytes->size() - at - format::kChunkHeaderBytes) {
      ++at;
      continue;
    }
    memcpy(bytes->data() + at + 12, &sequence, sizeof sequence);
    ++sequence;
    const uint32_t crc = pitot::serialize::ExtendCrc32c(pitot::serialize::ExtendCrc32c(0, bytes->data() + at, 16),
                                                        bytes->data() + at + format::kChunkHeaderBytes, size);
    memcpy(bytes->data() + at + 16, &crc, sizeof crc);
    at += format::kChunkHeaderBytes + size;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if ((data[0] & 1) == 0) PutRight(&bytes);

  pitot::model::Trace trace;
  pitot::DumpReport report;
  const pitot::Status status = pitot::ParseDump(bytes.data(), bytes.size(), &trace, &report);
  Require(status.code() != pitot::StatusCode::kInternal, "reading", status.message());
  Require(FindInconsistency(trace).empty(), "the trace", FindInconsistency(trace).c_str());
  const pitot::model::ThreadFlatten flatten(trace);
  fuzz::AskWhy(trace);
  fuzz::AskTop(trace);
  fuzz::AskDiff(trace);
  pitot::analyze::AnalysisReport answers;
  Require(Analyze(trace, pitot::analyze::MakeCatalogue(), {}, &answers).ok(), "analyzing", "failed");
  for (const pitot::analyze::AnalyzerReport& analyzer : answers.analyzers)
    Require(analyzer.status.ok(), analyzer.name.c_str(), analyzer.status.message());
  fuzz::WriteAll(trace);
  fuzz::NullSink sink;
  for (pitot::tables::Table& table : pitot::tables::TablesOf(trace))
    Require(pitot::tables::MakeParquet(std::move(table))->Serialize(trace, sink).ok(), "parquet", "failed");
  return 0;
}

#ifdef PITOT_CORPUS_WRITER
#include "serialize/sample_trace.h"

namespace {

std::string Dump(const pitot::model::Trace& trace) {
  fakes::StringSink sink;
  Require(pitot::MakeDumpSerializer()->Serialize(trace, sink).ok(), "dump", "failed");
  return sink.bytes;
}

}  // namespace

bool fuzz::WriteCorpus(const std::string& folder) {
  const auto write = [&](const char* name, char first, const std::string& bytes) {
    return fuzz::WriteFile(folder + "/" + name, first + bytes);
  };
  const std::string sample = Dump(pitot::test::SampleTrace());
  bool ok = write("empty", 0, Dump(pitot::model::Trace())) && write("sample", 0, sample) &&
            write("sample_as_is", 1, sample) && write("cut", 1, sample.substr(0, 1000));
  for (uint32_t seed = 1; seed <= 3 && ok; ++seed) {
    ok = write(("random_" + std::to_string(seed)).c_str(), 0, Dump(pitot::test::RandomTrace(seed, 30)));
  }
  return ok;
}
#endif
