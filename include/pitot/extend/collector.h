// SPDX-License-Identifier: Apache-2.0
//
// Extend: a collector records what the macros cannot see (a GPU, a driver, a runtime) in memory of its own, and is
// asked for it when an incident is made. The built-in ones (pitot/collect/) use this interface.
#ifndef PITOT_EXTEND_COLLECTOR_H_
#define PITOT_EXTEND_COLLECTOR_H_

#include <stdint.h>

#include "pitot/depth.h"
#include "pitot/export.h"
#include "pitot/gpu_kind.h"
#include "pitot/status.h"

PITOT_NAMESPACE_BEGIN

inline constexpr uint32_t kNoRow = 0xffffffff;

// What a span's call is called: correlations of these calls are of spans only, of all others never.
inline constexpr char kSpanCallName[] = "CudaEventScope";

// What a stream of a device did. Times are ns of CLOCK_MONOTONIC.
struct GpuActivity {
  int64_t begin_ns = 0, duration_ns = 0;
  GpuKind kind{};
  uint32_t stream = kNoRow;  // as AddStream returned it
  uint32_t name = 0;         // as AddText returned it
  uint32_t shape = kNoRow;   // of kernels: as AddShape returned it
  uint32_t correlation = 0;  // with the call that caused it; 0: unknown
  uint32_t graph = 0, node = 0;
  uint32_t scope_path = 0;  // as AddText returned it: the scopes a graph's node was captured in, "forward / attention"
  uint64_t bytes = 0;
};

// A device, and what of it limits how many blocks of a kernel run at once; 0: unknown.
struct GpuDevice {
  uint32_t ordinal = 0;  // CUDA's
  uint32_t name = 0;     // as AddText returned it
  uint32_t multiprocessors = 0;
  uint32_t threads_per_multiprocessor = 0;
  uint32_t blocks_per_multiprocessor = 0;
  uint32_t registers_per_multiprocessor = 0;
  uint32_t shared_bytes_per_multiprocessor = 0;
};

// What is missing of what GPUs did, from when to when.
struct GpuLoss {
  int64_t begin_ns = 0, end_ns = 0;
  uint32_t stream = kNoRow;  // kNoRow: of any stream
  uint32_t reason = 0;       // as AddText returned it: "overwritten"
  uint64_t records = 0;      // 0: number unknown
  uint32_t device = kNoRow;  // as AddDevice returned it: of any stream of it; kNoRow: the stream's, or of any device
};

// A call of the device's API that was not recorded in its thread's ring. Of calls inside calls of a thread the
// outermost alone is kept; what correlates with the others is tied to it.
struct GpuCall {
  int64_t begin_ns = 0, duration_ns = 0;
  int64_t tid = 0;  // the operating system's; 0: unknown
  uint32_t name = 0;
  uint32_t correlation = 0;
};

// Takes what collectors have for one incident: activities, calls and overheads the newest first, because what has no
// room is left out, counted, and all of them that follow with it. Numbers are of this trace.
class TraceBuilder {
 public:
  virtual uint32_t AddText(const char* text) = 0;
  // The same row for the same ordinal, whoever adds it.
  virtual uint32_t AddDevice(const GpuDevice& device) = 0;
  // The same row for the same three numbers of one collector. Each has numbers of its own: CUPTI's are not the
  // driver's.
  virtual uint32_t AddStream(uint32_t device, uint32_t context, uint32_t stream) = 0;
  virtual uint32_t AddShape(const uint32_t grid[3], const uint32_t block[3], uint32_t static_shared_bytes,
                            uint32_t dynamic_shared_bytes, uint32_t local_bytes, uint32_t registers) = 0;
  virtual void Add(const GpuActivity& activity) = 0;
  virtual void Add(const GpuCall& call) = 0;
  virtual void AddOverhead(int64_t begin_ns, int64_t duration_ns, uint32_t name) = 0;
  virtual void Add(const GpuLoss& loss) = 0;
  // What GPUs did was recorded at `depth` from `begin_ns` to `end_ns`; a framework's operators were, at kOps, or were
  // not, at less.
  virtual void AddDepth(int64_t begin_ns, int64_t end_ns, Depth depth) = 0;
  virtual void AddOperatorDepth(int64_t begin_ns, int64_t end_ns, Depth depth) = 0;
  // A quantity over time, of a device or (kNoRow) of the process; and its value from a moment on. The unit as
  // "%", "MHz", "bytes". The same row for the same device and name, whoever adds it.
  virtual uint32_t AddCounter(uint32_t device, const char* name, const char* unit) = 0;
  virtual void AddSample(uint32_t counter, int64_t at_ns, double value) = 0;
  // A key that ends in ".not_recorded" says why something is not, and what to do about it: the host's log gets it, too,
  // once for each reason. One that ends in ".lasting_cost" says what stays for good at whatever depth, which what
  // incidents say of overhead leaves out, and says so.
  virtual void AddAttribute(const char* key, const char* value) = 0;

 protected:
  ~TraceBuilder() = default;
};

// What a collector keeps something for: an incident, or a sample of what is normal, which a judge asks for every few
// seconds.
enum class KeepFor : uint8_t { kIncident, kSample };

class PITOT_EXPORT Collector {
 public:
  virtual ~Collector();
  // Named in messages and traces: "cupti".
  virtual const char* Name() const noexcept = 0;
  // The depth that the host has fixed, or kAuto, where the governor chooses among Depths: told before Start, by
  // Recorder::Add, and whenever it changes, before the SetDepth of the new depth and as that is called.
  virtual void ExpectDepth(Depth depth) noexcept;
  // Whether as much may be recorded as the collector can: where the host has fixed the depth, and while all is recorded
  // for an incident because something fired or is late; not while the governor holds a depth or tries one out. False
  // until told, then told when it changes, before the SetDepth that comes with it, if one does. As SetDepth otherwise.
  virtual void Arm(bool is_armed) noexcept;
  // Called once, by Recorder::Add. An error is said, and the collector not used.
  virtual Status Start() noexcept = 0;
  // Called once, when the recorder stops, on the thread that stops it, after and never beside the last call of
  // SetDepth, Pause and Resume; not where a thread hangs in one of these, or one of Pitot's in the host's code: that
  // keeps all it works on.
  virtual void Stop() noexcept = 0;
  // The depths at which it would at present record more than at the one before: a set of BitOf; 0: none. Asked about a
  // hundred times a second while depth is governed, and only then. Threads: any.
  virtual uint32_t Depths() const noexcept;
  // Host memory, bytes, that its rows of one incident may take while that is made and written, beside what the
  // recorder's own leave of Options::memory_budget_bytes. A row of activities takes 144, one of calls 112. 1 MiB by
  // default. Asked before AddTo.
  virtual uint64_t IncidentBytes() const noexcept;
  // Host memory, bytes, that it holds at present or has set aside, beside Options::memory_budget_bytes: what
  // Stats::collector_bytes adds up. 0 by default. Threads: any, at any time. Cost: some loads, at most a lock of its
  // own.
  virtual uint64_t HeldBytes() const noexcept;
  // How much to record from now on; never kAuto. Governed, the deepest of its Depths that the process is at, else
  // kScopes; what the host has fixed, as it is. One call at a time, on any thread; Keep and AddTo may be
  // called meanwhile. One that waits holds up what other collectors are told, and nothing else. Cost: some 10 to 200
  // us.
  virtual void SetDepth(Depth depth) noexcept;
  // Hands what only one in the process may have (CUPTI) to others, and takes it back. On any thread, one call at a
  // time, never beside SetDepth.
  virtual Status Pause() noexcept;
  virtual Status Resume() noexcept;
  // Keeps what it has from `begin_ns` (CLOCK_MONOTONIC) to now until the next AddTo. On Pitot's watcher, right after
  // the rings were copied.
  virtual void Keep(int64_t begin_ns, KeepFor what) noexcept = 0;
  // Hands over what Keep kept. On Pitot's worker at idle priority; may allocate; exceptions cost this collector's part.
  virtual void AddTo(TraceBuilder& trace) = 0;
};

PITOT_NAMESPACE_END

#endif  // PITOT_EXTEND_COLLECTOR_H_
