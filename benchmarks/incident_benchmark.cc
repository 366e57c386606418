// SPDX-License-Identifier: Apache-2.0
//
// The cost of an incident: for threads that record while one is written, and of copying a ring. Also that of a million
// events on their way from the rings to both files.
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "assemble/assemble.h"
#include "benchmarks/recording.h"
#include "benchmarks/register.h"
#include "benchmarks/rounds.h"
#include "pitot/serialize/dump.h"
#include "pitot/serialize/perfetto.h"
#include "pitot/trace.h"
#include "snapshot/snapshot.h"
#include "trace/clock.h"
#include "trace/rings.h"

namespace pitot::benchmarks {
namespace {

// A folder of its own in the temporary one, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string path = (std::filesystem::temp_directory_path() / "pitot_benchmark_XXXXXX").string();
    if (mkdtemp(path.data()) != nullptr) path_ = path;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

double Scopes(uint64_t count) {
  auto body = [](uint64_t) {
    PITOT_SCOPE("scope");
    asm volatile("" ::: "memory");
  };
  return TimeLoop(count, body);
}

// The thread records without pause, from the moment an incident is asked for until it is on disk, against the same
// number of scopes before.
void WhileAnIncidentIsWritten(benchmark::State& state, Rounds& rounds) {
  const TemporaryFolder folder;
  Options options;
  options.incident_directory = folder.path().c_str();
  options.max_incidents_per_cause_and_hour = 1'000'000;
  options.post_window_ms = 0;
  Recorder recorder;
  if (!StartOrSkip(state, options, &recorder)) return;
  Scopes(200'000);  // the ring is full
  constexpr uint64_t kPiece = 5000;
  uint64_t written = 0;
  for (auto _ : state) {
    const double before_ns = Scopes(200'000);
    if (!OkOrSkip(state, recorder.Trigger("benchmark"))) return;
    double ns = 0;
    uint64_t pieces = 0;
    const uint64_t wanted = ++written;
    for (Stats stats = recorder.Stats(); stats.incidents_written < wanted; stats = recorder.Stats()) {
      if (stats.incidents_failed != 0 || pieces > 1'000'000) return state.SkipWithError("the incident was not written");
      ns += Scopes(kPiece);
      ++pieces;
    }
    if (pieces == 0) continue;
    rounds.Add(ns / static_cast<double>(pieces) / before_ns, ns * 1e-9);
  }
  state.counters["incidents"] = static_cast<double>(written);
}

// `kFreshPages`: into pages that the system must give first, as for every incident, because a session gives them back.
template <bool kFreshPages> void CopyRing(benchmark::State& state, Rounds& rounds) {
  Options options;
  options.max_ring_bytes = 1 << 20;
  Recorder recorder;
  if (!StartOrSkip(state, options, &recorder)) return;
  snapshot::ReserveMemory reserve;
  if (!reserve.Map(2 << 20)) return state.SkipWithError("no memory for the copy");
  // Another thread filled the ring, and its core may hold the lines.
  std::thread([] { Scopes(200'000); }).join();
  for (auto _ : state) {
    double copy_ns = 0;
    {
      const trace::PinnedRings rings;
      for (const trace::ThreadRing* ring : rings) {
        snapshot::Reserve room = reserve.Whole();
        snapshot::RingCopy copy;
        const double begin_ns = ThreadCpuNs();
        snapshot::CopyRing(*ring, 0, &room, &copy);
        const double ns = ThreadCpuNs() - begin_ns;
        if (copy.last - copy.first > 100'000) copy_ns = ns;
      }
    }
    if (kFreshPages) reserve.GiveBackPages(reserve.Whole());
    if (copy_ns == 0) return state.SkipWithError("the ring was not copied");
    rounds.Add(copy_ns * 1e-6, copy_ns * 1e-9);
  }
}

// Writes to a file in pieces of 256 KiB, as incidents are written.
class FileSink final : public ByteSink {
 public:
  explicit FileSink(const std::string& path) : fd_(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)) {
    buffer_.reserve(kPiece);
  }
  ~FileSink() {
    Flush();
    if (fd_ >= 0) close(fd_);
  }
  FileSink(const FileSink&) = delete;
  FileSink& operator=(const FileSink&) = delete;
  bool Write(const void* data, uint64_t size) noexcept override {
    bytes_ += size;
    const char* bytes = static_cast<const char*>(data);
    if (buffer_.size() + size > kPiece && !Flush()) return false;
    if (size > kPiece) return WriteAll(bytes, size);
    buffer_.append(bytes, size);
    return true;
  }
  bool Flush() {
    const bool ok = WriteAll(buffer_.data(), buffer_.size());
    buffer_.clear();
    return ok;
  }
  uint64_t bytes() const { return bytes_; }

 private:
  static constexpr uint64_t kPiece = 256 << 10;
  bool WriteAll(const char* data, uint64_t size) {
    while (size > 0) {
      const ssize_t written = write(fd_, data, size);
      if (written < 0) return false;
      data += written;
      size -= static_cast<uint64_t>(written);
    }
    return true;
  }
  int fd_;
  std::string buffer_;
  uint64_t bytes_ = 0;
};

constexpr uint64_t kEvents = 1'000'000;
constexpr int kThreads = 8;

// Work of varying length: events at equal distances would compress unlike any server's.
void Spin(uint32_t* seed) {
  *seed = *seed * 1664525 + 1013904223;
  for (uint32_t i = *seed >> 25; i > 0; --i) asm volatile("" ::: "memory");
}

// A million scopes without arguments on eight threads, three deep like a server's, with four names.
void RecordMillion() {
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([i] {
      uint32_t seed = static_cast<uint32_t>(i);
      for (uint64_t at = 0; at < Scaled(kEvents) / kThreads / 4; ++at) {
        PITOT_SCOPE("handle");
        Spin(&seed);
        {
          PITOT_SCOPE("decode");
          Spin(&seed);
          PITOT_LEAF("read header");
          Spin(&seed);
        }
        PITOT_SCOPE("resize");
        Spin(&seed);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

struct Million {
  double cpu_s = 0, snapshot_s = 0, assemble_s = 0, perfetto_s = 0, dump_s = 0;
  double events = 0, perfetto_bytes = 0, dump_bytes = 0;
};

// Takes the snapshot and writes both files; empty `problem` if it went well.
Million WriteMillion(const std::string& folder, Compress compress, std::string* problem) {
  Million result;
  const trace::ClockReading start = trace::ReadClocks(false);
  snapshot::ReserveMemory reserve;
  if (!reserve.Map(64 << 20)) {
    *problem = "no memory for the snapshot";
    return result;
  }
  PerfettoOptions perfetto_options;
  perfetto_options.compress = compress;
  const std::unique_ptr<Serializer> perfetto = MakePerfettoSerializer(perfetto_options), dump = MakeDumpSerializer();
  const double begin_ns = ThreadCpuNs();
  snapshot::Snapshot snapshot;
  snapshot::TakeSnapshot(start, false, 0, {}, reserve.Whole(), &snapshot);
  const double snapshot_ns = ThreadCpuNs();
  const model::Trace trace = assemble::Assemble(snapshot);
  const double assemble_ns = ThreadCpuNs();
  {
    FileSink sink(folder + "/trace.pftrace");
    const Status status = perfetto->Serialize(trace, sink);
    if (!status.ok() || !sink.Flush()) *problem = std::string("trace.pftrace: ") + status.message();
    result.perfetto_bytes = static_cast<double>(sink.bytes());
  }
  const double perfetto_ns = ThreadCpuNs();
  {
    FileSink sink(folder + "/dump.pitot");
    const Status status = dump->Serialize(trace, sink);
    if (!status.ok() || !sink.Flush()) *problem = std::string("dump.pitot: ") + status.message();
    result.dump_bytes = static_cast<double>(sink.bytes());
  }
  const double end_ns = ThreadCpuNs();
  result.events = trace.events.size();
  result.cpu_s = (end_ns - begin_ns) * 1e-9;
  result.snapshot_s = (snapshot_ns - begin_ns) * 1e-9;
  result.assemble_s = (assemble_ns - snapshot_ns) * 1e-9;
  result.perfetto_s = (perfetto_ns - assemble_ns) * 1e-9;
  result.dump_s = (end_ns - perfetto_ns) * 1e-9;
  if (result.events < static_cast<double>(Scaled(kEvents)) * 0.99)
    *problem = "events are missing: " + std::to_string(result.events);
  return result;
}

enum class What { kSeconds, kPerfettoBytes, kDumpBytes };

template <What kWhat, bool kCompressed> void MillionEvents(benchmark::State& state, Rounds& rounds) {
  const Compress compress = kCompressed ? ZlibCompress() : nullptr;
  if (kCompressed && compress == nullptr) return state.SkipWithError("built without zlib");
  const TemporaryFolder folder;
  Options options;
  options.memory_budget_bytes = 256ull << 20;
  options.max_ring_bytes = 4 << 20;
  Recorder recorder;
  if (!StartOrSkip(state, options, &recorder)) return;
  RecordMillion();
  for (auto _ : state) {
    std::string problem;
    const Million million = WriteMillion(folder.path(), compress, &problem);
    if (!problem.empty()) return state.SkipWithError(problem.c_str());
    rounds.Add(kWhat == What::kSeconds         ? million.cpu_s
               : kWhat == What::kPerfettoBytes ? million.perfetto_bytes / million.events
                                               : million.dump_bytes / million.events,
               million.cpu_s);
    state.counters["events"] = million.events;
    state.counters["snapshot_s"] = million.snapshot_s;
    state.counters["assemble_s"] = million.assemble_s;
    state.counters["perfetto_s"] = million.perfetto_s;
    state.counters["dump_s"] = million.dump_s;
  }
}

}  // namespace

void RegisterIncidents() {
  Register("scope while an incident is written", 9, WhileAnIncidentIsWritten, "x", 1.2);
  Register("copy of a 1 MiB ring", 21, CopyRing<true>, "ms", 1);
  Register("copy of a 1 MiB ring, pages at hand", 21, CopyRing<false>, "ms", 0);
  Register("1 M events, rings to both files, CPU", 5, MillionEvents<What::kSeconds, false>, "s", 1.0);
  Register("Perfetto file, per event", 1, MillionEvents<What::kPerfettoBytes, false>, "B", 80);
  Register("Perfetto file, compressed, per event", 1, MillionEvents<What::kPerfettoBytes, true>, "B", 30);
  Register("native file, per event", 1, MillionEvents<What::kDumpBytes, false>, "B", 24);
}

}  // namespace pitot::benchmarks
