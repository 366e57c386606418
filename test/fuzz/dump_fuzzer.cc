// SPDX-License-Identifier: Apache-2.0
//
// Any bytes must read as a consistent trace or as an error, and what reads must serialize. CRCs are put right before
// reading, or a fuzzer would never get behind them: an input whose first byte is odd is read as it is. The same file
// without libFuzzer (PITOT_CORPUS_WRITER) writes the corpus, or runs the files it is given.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <string>

#include "pitot/model/index.h"
#include "pitot/model/trace.h"
#include "pitot/read/dump.h"
#include "pitot/serialize/dump.h"
#include "pitot/serialize/perfetto.h"
#include "serialize/crc32c.h"
#include "serialize/dump_format.h"

namespace {

class NullSink final : public pitot::ByteSink {
 public:
  bool Write(const void*, uint64_t) noexcept override { return true; }
};

void Require(bool is_true, const char* what, const char* why) {
  if (is_true) return;
  fprintf(stderr, "%s: %s\n", what, why);
  abort();
}

uint32_t Load32(const std::string& bytes, size_t at) {
  uint32_t value;
  memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// Makes chunks of what begins like one: each gets the next sequence number and its CRC.
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
  NullSink sink;
  Require(pitot::MakePerfettoSerializer()->Serialize(trace, sink).ok(), "perfetto", "failed");
  Require(pitot::MakeDumpSerializer()->Serialize(trace, sink).ok(), "dump", "failed");
  return 0;
}

#ifdef PITOT_CORPUS_WRITER
#include "fakes/string_sink.h"
#include "serialize/sample_trace.h"

namespace {

bool WriteFile(const std::string& path, char first, const std::string& bytes) {
  FILE* const file = fopen(path.c_str(), "wb");
  if (file == nullptr) return false;
  const bool written = fputc(first, file) != EOF && fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  return fclose(file) == 0 && written;
}

std::string Dump(const pitot::model::Trace& trace) {
  fakes::StringSink sink;
  Require(pitot::MakeDumpSerializer()->Serialize(trace, sink).ok(), "dump", "failed");
  return sink.bytes;
}

int WriteCorpus(const std::string& folder) {
  const std::string sample = Dump(pitot::test::SampleTrace());
  bool ok = WriteFile(folder + "/empty", 0, Dump(pitot::model::Trace())) && WriteFile(folder + "/sample", 0, sample) &&
            WriteFile(folder + "/sample_as_is", 1, sample) && WriteFile(folder + "/cut", 1, sample.substr(0, 1000));
  for (uint32_t seed = 1; seed <= 3 && ok; ++seed) {
    ok = WriteFile(folder + "/random_" + std::to_string(seed), 0, Dump(pitot::test::RandomTrace(seed, 30)));
  }
  return ok ? 0 : 1;
}

int RunFile(const char* path) {
  FILE* const file = fopen(path, "rb");
  if (file == nullptr) return 1;
  std::string bytes;
  for (int c; (c = fgetc(file)) != EOF;) bytes += static_cast<char>(c);
  fclose(file);
  return LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

// Deterministic mutations of the files, for machines without libFuzzer.
int Mutate(const char* path, uint32_t rounds) {
  FILE* const file = fopen(path, "rb");
  if (file == nullptr) return 1;
  std::string original;
  for (int c; (c = fgetc(file)) != EOF;) original += static_cast<char>(c);
  fclose(file);
  uint64_t state = 88172645463325252u;
  const auto next = [&] { return state ^= state << 13, state ^= state >> 7, state ^= state << 17; };
  for (uint32_t round = 0; round < rounds && !original.empty(); ++round) {
    std::string bytes = original;
    for (uint64_t changes = 1 + next() % 8; changes > 0; --changes) {
      const size_t at = next() % bytes.size();
      if (next() % 3 == 0) {
        bytes[at] = static_cast<char>(next());
      } else {
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << next() % 8));
      }
    }
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--write-corpus") return WriteCorpus(argv[2]);
  const uint32_t rounds = argc > 2 && std::string(argv[1]) == "--mutate" ? static_cast<uint32_t>(atoi(argv[2])) : 0;
  int result = 0;
  for (int i = rounds != 0 ? 3 : 1; i < argc; ++i) result |= rounds != 0 ? Mutate(argv[i], rounds) : RunFile(argv[i]);
  return result;
}
#endif
