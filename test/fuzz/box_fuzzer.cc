// SPDX-License-Identifier: Apache-2.0
//
// Any bytes in a black box must give a consistent trace, or none. A child records, opens a request and kills itself;
// each input changes words of the file that it left. The first byte cuts the file short: 255 keeps it whole. Then come
// changes: where (3 bytes, of the file's data), how many words (1 byte, 8 at most), and the words.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fakes/temp_directory.h"
#include "fuzz/fuzz.h"
#include "pitot/model/trace.h"
#include "pitot/pitot.h"
#include "session/health.h"
#include "session/post_mortem.h"
#include "snapshot/box_reader.h"
#include "trace/box.h"
#include "trace/clock.h"
#include "trace/last_rows.h"

namespace {

using fuzz::Require;

constexpr uint64_t kMostWords = 1 << 18, kMostRowBytes = 64 << 20;

// A sparse file: its size, and the parts with data.
struct Base {
  off_t size = 0;
  std::vector<std::pair<off_t, std::string>> parts;
  size_t bytes = 0;  // of all parts
};

[[noreturn]] void RecordAndDie(const std::string& folder) {
  pitot::Options options;
  options.memory_budget_bytes = 4 << 20;
  options.max_ring_bytes = 1 << 14;
  options.max_open_requests = 16;
  options.black_box_directory = folder.c_str();
  pitot::Recorder recorder = pitot::Recorder::Start(options);
  if (!recorder.status().ok()) _exit(1);
  std::thread([] {
    pitot::SetThreadName("worker");
    for (int i = 0; i < 500; ++i) {
      PITOT_SCOPE("work", i, "literal", 0.5);
    }
  }).join();
  const pitot::trace::LastWork kernel{pitot::trace::MonotonicNs(),    2000, 4096, 0, 1, 7, 0,
                                      pitot::trace::LastText("gemm"), 1};
  for (int i = 0; i < 40; ++i) pitot::trace::AddLast({&kernel, 1});
  pitot::trace::LastCounter memory;
  const auto memory_name = [] { return "memory"; };
  for (int i = 0; i < 40; ++i) memory.Note(pitot::trace::MonotonicNs() + i * 1'000'000'000LL, i, memory_name, "bytes");
  for (uint64_t i = 0; i < 40; ++i)
    pitot::trace::AddLast(pitot::trace::LastDepth{pitot::trace::MonotonicNs(), i % 2 * 3});
  for (const char* const name : {"first", "second", "third"}) {  // one ring, handed on
    std::thread([name] {
      pitot::SetThreadName(name);
      PITOT_INSTANT("brief", 7);
    }).join();
  }
  pitot::Request request =
      pitot::Request::Begin("/classify", "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01");
  request.SetId("cmpl-17");
  request.SetLabel("tenant", "acme");
  request.SetSize("pixels", 4096);
  request.Stage("decode");
  pitot::Batch batch = pitot::Batch::Begin("resnet50", "images");
  batch.Join(request.token(), 2);
  pitot::Emit(pitot::Enqueue(request.token(), "waiting"));
  PITOT_SCOPE("open");
  kill(getpid(), SIGKILL);
  _exit(1);
}

Base MakeBase() {
  const fakes::TempDirectory directory;
  const std::string folder = directory.path() + "/boxes";
  const pid_t child = fork();
  if (child == 0) RecordAndDie(folder);
  int status = 0;
  waitpid(child, &status, 0);
  const std::vector<std::string> boxes = pitot::session::BoxesIn(folder);
  Require(boxes.size() == 1, "the child", "left no black box");
  const int fd = open(boxes[0].c_str(), O_RDONLY | O_CLOEXEC);
  struct stat info {};
  Require(fd >= 0 && fstat(fd, &info) == 0, "the black box", "cannot be read");
  Base base;
  base.size = info.st_size;
  for (off_t at = lseek(fd, 0, SEEK_DATA); at >= 0 && at < base.size; at = lseek(fd, at, SEEK_DATA)) {
    const off_t end = lseek(fd, at, SEEK_HOLE);
    std::string data(static_cast<size_t>(end - at), '\0');
    Require(pread(fd, data.data(), data.size(), at) == end - at, "the black box", "cannot be read");
    base.bytes += data.size();
    base.parts.emplace_back(at, std::move(data));
    at = end;
  }
  close(fd);
  return base;
}

void Write(int fd, off_t at, const void* bytes, size_t size) {
  Require(pwrite(fd, bytes, size, at) == static_cast<ssize_t>(size), "the copy", "cannot be written");
}

// Where the `offset`th byte of all data is in the file.
off_t PlaceOf(const Base& base, size_t offset) {
  for (const auto& [at, data] : base.parts) {
    if (offset < data.size()) return at + static_cast<off_t>(offset);
    offset -= data.size();
  }
  return 0;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Base* const base = new Base(MakeBase());
  if (size == 0) return 0;
  const int fd = memfd_create("box", MFD_CLOEXEC);
  Require(fd >= 0 && ftruncate(fd, base->size) == 0, "the copy", "cannot be made");
  for (const auto& [at, bytes] : base->parts) Write(fd, at, bytes.data(), bytes.size());
  const uint8_t kept = data[0];
  for (size_t at = 1; at + 4 <= size;) {
    const size_t offset = (data[at] | size_t{data[at + 1]} << 8 | size_t{data[at + 2]} << 16) * 8 % base->bytes;
    const size_t bytes = std::min(size_t{8} * (data[at + 3] % 8 + 1), size - at - 4);
    Write(fd, PlaceOf(*base, offset), data + at + 4, bytes);
    at += 4 + bytes;
  }
  Require(kept == 255 || ftruncate(fd, base->size * kept / 255) == 0, "the copy", "cannot be cut");

  pitot::snapshot::BoxReader reader;
  if (*reader.Open(fd) == '\0') {
    const pitot::model::Trace trace = pitot::session::TraceOf(&reader, {}, kMostWords, kMostRowBytes);
    const std::string wrong = pitot::model::FindInconsistency(trace);
    Require(wrong.empty(), "the trace", wrong.c_str());
    Require(!pitot::session::LastWords(reader.facts(), pitot::session::NoteOf(reader.DeathNote()), {}, trace).empty(),
            "the last words", "are missing");
    const pitot::Health health = pitot::session::HealthIn(&reader, {}, 0).health;
    const bool has_no_requests = std::string(health.text).find("no room in the black box") != std::string::npos;
    Require((health.state == pitot::HealthState::kUnknown) == has_no_requests, "the health", "is missing");
  }
  close(fd);
  return 0;
}

#ifdef PITOT_CORPUS_WRITER
namespace {

// Sets a word of the file's data.
std::string Change(size_t word, uint64_t to) {
  std::string text;
  for (const size_t part : {word, word >> 8, word >> 16}) text += static_cast<char>(part);
  text += '\0';
  return text.append(reinterpret_cast<const char*>(&to), sizeof to);
}

// The word of the file's data in which the record of the first thread's end has its name.
size_t WordOfEnd() {
  constexpr char kName[8] = "first";
  size_t before = 0, found = 0;
  for (const auto& [at, data] : MakeBase().parts) {
    for (size_t byte = 0; byte + sizeof kName <= data.size() && found == 0; byte += sizeof kName) {
      if (std::memcmp(data.data() + byte, kName, sizeof kName) == 0) found = (before + byte) / sizeof kName;
    }
    before += data.size();
  }
  return found;
}

}  // namespace

bool fuzz::WriteCorpus(const std::string& folder) {
  // A last look long before the start, by a later count of ticks.
  using pitot::trace::BoxHeader;
  const size_t start = offsetof(BoxHeader, start) / sizeof(uint64_t),
               pulse = offsetof(BoxHeader, pulse) / sizeof(uint64_t);
  const std::string clocks = "\xff" + Change(start + 1, uint64_t{1} << 50) + Change(pulse, 1 << 20) +
                             Change(pulse + 1, uint64_t{1} << 61) + Change(pulse + 2, 1);
  if (!fuzz::WriteFile(folder + "/clocks", clocks)) return false;
  // The thread's number, its events, its name, the number of words, the end, the site.
  for (const int at : {-5, -4, 0, 1, 2, 3}) {
    const std::string end = "\xff" + Change(WordOfEnd() + static_cast<size_t>(at), uint64_t{2} << 40 | 7);
    if (!fuzz::WriteFile(folder + "/end" + std::to_string(at + 5), end)) return false;
  }
  std::string header = "\xff", rings = "\xff";
  for (size_t word = 4; word < 40; word += 3) header += Change(word, ~uint64_t{0} >> word);
  for (size_t word = 512; word < 40'000; word += 509) rings += Change(word, word << 40 | 7);
  return fuzz::WriteFile(folder + "/whole", "\xff") && fuzz::WriteFile(folder + "/cut", "\x40") &&
         fuzz::WriteFile(folder + "/header", header) && fuzz::WriteFile(folder + "/rings", rings);
}
#endif
