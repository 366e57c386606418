// SPDX-License-Identifier: Apache-2.0
//
// Extend: a collector records what the macros cannot see (a GPU, a driver, a runtime) in its own memory, and hands it
// over when an incident is made. The built-in ones (pitot/collect/) use this interface.
#ifndef PITOT_EXTEND_COLLECTOR_H_
#define PITOT_EXTEND_COLLECTOR_H_

#include <stdint.h>

#include "pitot/depth.h"
#include "pitot/export.h"
#include "pitot/gpu_kind.h"
#include "pitot/status.h"

PITOT_NAMESPACE_BEGIN

inline constexpr uint32_t kNoRow = 0xffffffff;

// An activity on a stream of a device. Times are ns of CLOCK_MONOTONIC.
struct GpuActivity {
  int64_t begin_ns = 0, duration_ns = 0;
  GpuKind kind{};
  uint32_t stream = kNoRow;  // from AddStream
  uint32_t name = 0;         // from AddText
  uint32_t shape = kNoRow;   // kernels: from AddShape
  uint32_t correlation = 0;  // links it to the call of the same collector that caused it; 0: unknown
  uint32_t graph = 0, node = 0;
  uint32_t scope_path = 0;  // from AddText: the scopes in which a graph's node was captured, "forward / attention"
  uint64_t bytes = 0;
};

// A device, and its limits for the number of concurrent blocks of a kernel; 0: unknown.
struct GpuDevice {
  uint32_t ordinal = 0;  // CUDA's
  uint32_t name = 0;     // from AddText
  uint32_t multiprocessors = 0;
  uint32_t threads_per_multiprocessor = 0;
  uint32_t blocks_per_multiprocessor = 0;
  uint32_t registers_per_multiprocessor = 0;
  uint32_t shared_bytes_per_multiprocessor = 0;
  uint32_t threads_per_warp = 0;
  uint32_t uuid = 0;  // from AddText: "GPU-5c0f...", the same in all processes
};

// Missing GPU records, and when.
struct GpuLoss {
  int64_t begin_ns = 0, end_ns = 0;
  uint32_t stream = kNoRow;  // kNoRow: any stream
  uint32_t reason = 0;       // from AddText: "overwritten"
  uint64_t records = 0;      // 0: number unknown
  // From AddDevice: any of its streams; kNoRow: the stream's device, or any device.
  uint32_t device = kNoRow;
};

// A call of the device's API that was not recorded in its thread's ring. Only the outermost of a thread's nested calls
// is kept; activities caused by inner calls are tied to it.
struct GpuCall {
  int64_t begin_ns = 0, duration_ns = 0;
  int64_t tid = 0;  // the operating system's thread id; 0: unknown
  uint32_t name = 0;
  uint32_t correlation = 0;
};

// Receives what collectors have for one incident. Add activities, calls and overheads newest first: the first row
// without room is left out and counted as lost, and so are all that follow. Samples come in any order; the attribute
// "collector.<name>.samples_left_out" counts those without room (Collector::IncidentBytes).
// "collector.<name>.invalid_rows" counts rows left out for an impossible time or an unknown stream or counter. Row
// numbers are valid for this trace.
class TraceBuilder {
 public:
  virtual uint32_t AddText(const char* text) = 0;
  // Returns the same row for the same ordinal, whoever adds it.
  virtual uint32_t AddDevice(const GpuDevice& device) = 0;
  // Returns the same row for the same three numbers of one collector. Each collector has numbers of its own: CUPTI's
  // differ from the driver's.
  virtual uint32_t AddStream(uint32_t device, uint32_t context, uint32_t stream) = 0;
  virtual uint32_t AddShape(const uint32_t grid[3], const uint32_t block[3], uint32_t static_shared_bytes,
                            uint32_t dynamic_shared_bytes, uint32_t local_bytes, uint32_t registers) = 0;
  virtual void Add(const GpuActivity& activity) = 0;
  virtual void Add(const GpuCall& call) = 0;
  virtual void AddOverhead(int64_t begin_ns, int64_t duration_ns, uint32_t name) = 0;
  virtual void Add(const GpuLoss& loss) = 0;
  // From `begin_ns` to `end_ns` GPUs were recorded at `depth`. The second function is for a framework's operators:
  // recorded at kOps, not recorded at less.
  virtual void AddDepth(int64_t begin_ns, int64_t end_ns, Depth depth) = 0;
  virtual void AddOperatorDepth(int64_t begin_ns, int64_t end_ns, Depth depth) = 0;
  // Adds a quantity over time, of a device or (kNoRow) of the process; then its value from a moment on. Units are "%",
  // "MHz", "bytes" and so on. Returns the same row for the same device and name, whoever adds it.
  virtual uint32_t AddCounter(uint32_t device, const char* name, const char* unit) = 0;
  virtual void AddSample(uint32_t counter, int64_t at_ns, double value) = 0;
  // A key ending in ".not_recorded" gives a reason and a remedy for missing data; it is also logged to the host, once
  // per reason. A key ending in ".lasting_cost" describes a cost that remains at any depth for the life of the process.
  // The overhead shown in incidents excludes that cost, and says so.
  virtual void AddAttribute(const char* key, const char* value) = 0;

 protected:
  ~TraceBuilder() = default;
};

// The purpose of kept data: an incident, or a sample of normal operation, which a judge requests every few seconds.
enum class KeepFor : uint8_t { kIncident, kSample };

class PITOT_EXPORT Collector {
 public:
  virtual ~Collector();
  // Used in messages and traces: "cupti".
  virtual const char* Name() const noexcept = 0;
  // Tells the depth fixed by the host, or kAuto if the governor chooses among Depths. Called by Recorder::Add before
  // Start, and at each change before SetDepth of the new depth. The rules of SetDepth apply.
  virtual void ExpectDepth(Depth depth) noexcept;
  // Tells whether the collector may record as much as it can. True if the host has fixed the depth, and while
  // everything is recorded for an incident because a trigger fired or a request is late. False while the governor holds
  // a depth or tries one. False until told; then called at each change, before the SetDepth that comes with it, if any.
  // Otherwise the rules of SetDepth apply.
  virtual void Arm(bool is_armed) noexcept;
  // Called once, by Recorder::Add. On error the message is logged and the collector is discarded.
  virtual Status Start() noexcept = 0;
  // Called once on the thread that stops the recorder, after the last call of SetDepth, Pause and Resume has returned.
  // Not called if a thread hangs in one of these, or if one of Pitot's threads hangs in the host's code; that thread
  // then keeps all it works on.
  virtual void Stop() noexcept = 0;
  // Ok, or what failed in Stop and how often: it is logged, because no incident follows. Ok by default. Called once,
  // right after Stop.
  virtual Status Stopped() const noexcept;
  // The depths at which it would now record more than at the one before, as a set of BitOf; 0: none. Called about a
  // hundred times a second, only while the depth is governed.
  // Threads: any.
  virtual uint32_t Depths() const noexcept;
  // Host memory, bytes, that its rows may take while one incident is made and written. All collectors together have a
  // quarter of the budget's part for rows. If they ask for more, each gets less, and what the others' rows leave.
  // A row of activities takes 144, one of calls 112, a sample 44. 1 MiB by default. Called before AddTo.
  virtual uint64_t IncidentBytes() const noexcept;
  // Host memory, bytes, that it holds or has reserved now: part of Options::memory_budget_bytes. Incidents have less
  // room for it. Stats::collector_bytes adds these up. 0 by default.
  // Threads: any, at any time.
  // Cost: some loads, at most a lock of its own.
  virtual uint64_t HeldBytes() const noexcept;
  // Sets how much to record from now on; never kAuto. A depth fixed by the host is passed on unchanged. If governed, it
  // is the deepest of the collector's Depths up to the process's depth, otherwise kScopes.
  // Threads: any, one call at a time; Keep and AddTo may run meanwhile. A slow call delays only what other collectors
  //   are told.
  // Cost: should be at most a few hundred us.
  virtual void SetDepth(Depth depth) noexcept;
  // Hands a resource that only one user in a process can have (CUPTI) to others, and takes it back.
  // Threads: any, one call at a time, never during SetDepth.
  virtual Status Pause() noexcept;
  virtual Status Resume() noexcept;
  // Keeps its data from `begin_ns` (CLOCK_MONOTONIC) to now until the next AddTo. On Pitot's watcher, right after the
  // rings were copied; while data of an earlier window are kept, later, right before AddTo and on its thread.
  virtual void Keep(int64_t begin_ns, KeepFor what) noexcept = 0;
  // Hands over the kept data. On Pitot's writer, or for a sample on its worker at idle priority; may allocate. An
  // exception ends this collector's part: the rows already added stay.
  virtual void AddTo(TraceBuilder& trace) = 0;
};

PITOT_NAMESPACE_END

#endif  // PITOT_EXTEND_COLLECTOR_H_
