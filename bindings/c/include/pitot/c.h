// SPDX-License-Identifier: Apache-2.0
//
// Pitot for C and for every language that calls C: the stable ABI of libpitot_c.so.1. The C++ header of the same name
// (pitot/recorder.h, request.h, ...) and docs/guide/instrument.md explain each function in full.
//
//   pitot_options options;
//   pitot_options_init(&options, sizeof options);
//   options.incident_directory = "/var/lib/myserver/incidents";  // its parent must exist
//   pitot_recorder* recorder;
//   char message[256];
//   if (pitot_recorder_start(&options, &recorder, message, sizeof message) != PITOT_OK) Log(message);
//
// Rules for the whole header:
//
//  * Handles are opaque. NULL is an inert handle: every function accepts it and does nothing, so a server whose
//    recorder did not start runs on unchanged. Nothing here aborts, exits, prints or throws.
//  * A function that can fail returns a pitot_status and writes the reason to `message`. The text always ends with a
//    zero, is cut at `message_size` bytes, and is "" for PITOT_OK. NULL or 0: no text wanted.
//  * A struct begins with its size. Its pitot_..._init(&it, sizeof it) fills in the defaults. New fields are added at
//    the end. A program compiled against an older header gets their defaults from a newer library. An older library
//    refuses (PITOT_INVALID_ARGUMENT) the struct of a newer header if fields unknown to it are not zero.
//  * Strings end with a zero, are UTF-8, and are copied before the function returns. NULL means "" unless the comment
//    says otherwise.
//  * Unless a comment says otherwise, functions may be called from any thread. Recording takes no lock and, after a
//    thread's first event, allocates only handles.
#ifndef PITOT_C_H_
#define PITOT_C_H_

#include <stddef.h>
#include <stdint.h>

// The number in libpitot_c.so.PITOT_ABI. The revision grows with each addition to this header.
#define PITOT_ABI 1
#define PITOT_ABI_REVISION 8

#define PITOT_C_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

// ---- The library. ---------------------------------------------------------------------------------------------------

// PITOT_ABI and PITOT_ABI_REVISION of the loaded library, for programs that load it by hand.
PITOT_C_API uint32_t pitot_abi(void);
PITOT_C_API uint32_t pitot_abi_revision(void);
// "0.1.0".
PITOT_C_API const char* pitot_version(void);

// Numbers that never change, as in pitot::StatusCode.
typedef int32_t pitot_status;
enum {
  PITOT_OK = 0,
  PITOT_INVALID_ARGUMENT = 1,    // an option or argument is wrong; the message names it
  PITOT_ALREADY_RUNNING = 2,     // a recorder is running in this process; the message names its owner
  PITOT_NOT_RUNNING = 3,         // the recorder was stopped, never started, or belongs to the parent of a fork
  PITOT_RESOURCE_EXHAUSTED = 4,  // memory, threads, disk or an incident budget
  PITOT_UNAVAILABLE = 5,         // the machine does not support it: no such library, no permission
  PITOT_NOT_FOUND = 6,
  PITOT_DATA_LOSS = 7,
  PITOT_IO_ERROR = 8,
  PITOT_INTERNAL = 9,  // a defect of Pitot; please report it
  PITOT_DISABLED = 10  // switched off by PITOT_OFF
};
// "ok", "invalid_argument" and so on; never NULL.
PITOT_C_API const char* pitot_status_name(pitot_status status);

// ---- The recorder. --------------------------------------------------------------------------------------------------

typedef struct pitot_recorder pitot_recorder;

typedef int32_t pitot_clock;
enum { PITOT_CLOCK_AUTO = 0, PITOT_CLOCK_CYCLE_COUNTER = 1, PITOT_CLOCK_OPERATING_SYSTEM = 2 };

typedef int32_t pitot_log_level;
enum { PITOT_LOG_INFO = 0, PITOT_LOG_WARNING = 1, PITOT_LOG_ERROR = 2 };
// Takes a message of the library, which lives for the call. Called on Pitot's own threads and on threads that call
// pitot_recorder_... functions, never by recording. It must not call Pitot.
typedef void (*pitot_log_function)(void* context, pitot_log_level level, const char* message);

// How much is recorded, as in pitot::Depth.
typedef int32_t pitot_depth;
enum {
  PITOT_DEPTH_SCOPES = 0,
  PITOT_DEPTH_GRAPHS = 1,
  PITOT_DEPTH_KERNELS = 2,
  PITOT_DEPTH_OPS = 3,
  PITOT_DEPTH_AUTO = 255
};

// The language of the host's calls: advice in incidents names those. Since revision 8.
typedef int32_t pitot_language;
enum { PITOT_LANGUAGE_CPP = 0, PITOT_LANGUAGE_C = 1, PITOT_LANGUAGE_PYTHON = 2 };

// Ends of the process that are handled, as in pitot::Ends. Since revision 8.
typedef int32_t pitot_ends;
enum { PITOT_ENDS_NONE = 0, PITOT_ENDS_SHUTDOWN = 1, PITOT_ENDS_CRASH = 2, PITOT_ENDS_ALL = 3 };

// Fields as in pitot::Options, which explains each, with its limits and its default.
typedef struct pitot_options {
  uint32_t size;
  pitot_clock clock;
  const char* incident_directory;  // NULL or "": incidents are not stored
  const char* process_name;        // NULL: the executable's name
  uint64_t memory_budget_bytes;
  uint64_t max_ring_bytes;
  uint64_t min_ring_bytes;
  uint32_t max_open_requests;
  uint32_t pre_window_ms;
  uint32_t post_window_ms;
  uint32_t max_incidents_per_cause_and_hour;
  uint32_t max_incidents_kept;
  uint32_t worker_cpu_percent;
  uint64_t max_incident_directory_bytes;
  pitot_log_function log;  // NULL: no messages
  void* log_context;       // must live as long as the process: a hanging thread may call late
  // Since revision 1.
  double overhead_budget_percent;
  pitot_depth depth;
  uint32_t perfetto_file;  // 0 or 1; since revision 8, reserved before
  // Since revision 8.
  pitot_language language;           // by default PITOT_LANGUAGE_C
  uint32_t accept_unsafe_directory;  // 0 or 1
  uint64_t max_grown_ring_bytes;
  pitot_ends handle_ends;
  uint32_t end_grace_ms;
  const char* black_box_directory;  // NULL or "": none
} pitot_options;
// Fills in the defaults; `size` is sizeof(pitot_options).
PITOT_C_API void pitot_options_init(pitot_options* options, size_t size);
// The same, overlaid with PITOT_INCIDENT_DIRECTORY and the other variables of pitot::Options::FromEnvironment.
// Lifetime: the strings point into the environment.
PITOT_C_API void pitot_options_init_from_environment(pitot_options* options, size_t size);

// Starts the recorder of this process; in a server that forks workers, call it in each. NULL options mean the defaults.
// On failure *recorder is NULL.
// Errors: PITOT_INVALID_ARGUMENT names the field; PITOT_ALREADY_RUNNING (also for another copy of the library, for
//   example the C++ one); PITOT_RESOURCE_EXHAUSTED; PITOT_UNAVAILABLE; PITOT_DISABLED if the environment says
//   PITOT_OFF=1.
// Cost: about 1 ms.
PITOT_C_API pitot_status pitot_recorder_start(const pitot_options* options, pitot_recorder** recorder, char* message,
                                              size_t message_size);
// PITOT_OK while it records; otherwise the reason.
PITOT_C_API pitot_status pitot_recorder_status(pitot_recorder* recorder, char* message, size_t message_size);
// Requests an incident now, with a sentence for its report.
// Errors: PITOT_NOT_RUNNING; PITOT_RESOURCE_EXHAUSTED.
PITOT_C_API pitot_status pitot_recorder_trigger(pitot_recorder* recorder, const char* reason, char* message,
                                                size_t message_size);
// Waits until every incident requested before the call is on disk and judged (or failed), at most `timeout_ms`.
// Errors: PITOT_NOT_RUNNING; PITOT_UNAVAILABLE if the time was up.
PITOT_C_API pitot_status pitot_recorder_flush(pitot_recorder* recorder, uint32_t timeout_ms, char* message,
                                              size_t message_size);
// Sets how deep to record from now on. Since revision 1, like the functions for CUPTI and NVML below.
// Errors: PITOT_NOT_RUNNING; PITOT_INVALID_ARGUMENT.
PITOT_C_API pitot_status pitot_recorder_set_depth(pitot_recorder* recorder, pitot_depth depth, char* message,
                                                  size_t message_size);

// As pitot::CuptiAttach, since revision 6. In older headers 0 and 1 were false and true.
enum { PITOT_ATTACH_WHEN_ASKED = 0, PITOT_ATTACH_AT_START = 1, PITOT_ATTACH_NEVER = 2 };
// Fields as in pitot::CuptiOptions.
typedef struct pitot_cupti {
  uint32_t size;
  uint32_t graph_level;  // 0 or 1; 1 turns PITOT_ATTACH_WHEN_ASKED into PITOT_ATTACH_AT_START
  const char* library;   // NULL: found automatically
  uint64_t memory_bytes;
  double lasting_cost_percent;    // since revision 2
  uint32_t allow_torch_profiler;  // 0 or 1; since revision 4
  uint32_t attach_at_start;       // PITOT_ATTACH_..., not a boolean any more; since revision 5
} pitot_cupti;
PITOT_C_API void pitot_cupti_init(pitot_cupti* cupti, size_t size);
// Records kernels and copies of NVIDIA GPUs by CUPTI until the recorder stops. By default CUPTI is called once a depth
// above PITOT_DEPTH_SCOPES is fixed. With PITOT_ATTACH_AT_START, call it before the first use of CUDA. NULL: the
// defaults.
// Errors: PITOT_INVALID_ARGUMENT names the field; PITOT_NOT_RUNNING; PITOT_RESOURCE_EXHAUSTED. If CUPTI is called here:
//   PITOT_UNAVAILABLE and PITOT_NOT_FOUND say what is missing, or which tool has CUPTI; PITOT_ALREADY_RUNNING.
PITOT_C_API pitot_status pitot_recorder_add_cupti(pitot_recorder* recorder, const pitot_cupti* cupti, char* message,
                                                  size_t message_size);
// Hands over what only one profiler of a process can use at a time, and takes it back. `collector` is the name of the
// collector that holds it: "cupti". Both do nothing if a collector of Pitot's was not added.
// Errors: PITOT_INVALID_ARGUMENT: NULL; PITOT_NOT_FOUND: not a collector's name; PITOT_NOT_RUNNING; for resume
// PITOT_UNAVAILABLE: another tool still has it.
PITOT_C_API pitot_status pitot_recorder_pause(pitot_recorder* recorder, const char* collector, char* message,
                                              size_t message_size);
PITOT_C_API pitot_status pitot_recorder_resume(pitot_recorder* recorder, const char* collector, char* message,
                                               size_t message_size);

// Fields as in pitot::NvmlOptions.
typedef struct pitot_nvml {
  uint32_t size;
  uint32_t rate_hz;
  const char* library;  // NULL: found automatically
  uint64_t memory_bytes;
} pitot_nvml;
PITOT_C_API void pitot_nvml_init(pitot_nvml* nvml, size_t size);
// Samples the state of NVIDIA GPUs (clocks, power, memory, errors) on its own thread, until the recorder stops. NULL:
// the defaults.
// Errors: PITOT_UNAVAILABLE and PITOT_NOT_FOUND say what is missing; PITOT_INVALID_ARGUMENT names the field;
//   PITOT_NOT_RUNNING; PITOT_RESOURCE_EXHAUSTED.
// Cost: waits until the driver has answered, at most 10 s.
PITOT_C_API pitot_status pitot_recorder_add_nvml(pitot_recorder* recorder, const pitot_nvml* nvml, char* message,
                                                 size_t message_size);

// Fields as in pitot::CounterOptions. Since revision 6, like all that follows up to pitot_host.
typedef struct pitot_counters {
  uint32_t size;
  uint32_t interval_us;
  const char* library;  // NULL: found automatically
  double most_cpu_percent;
  uint64_t memory_bytes;
} pitot_counters;
PITOT_C_API void pitot_counters_init(pitot_counters* counters, size_t size);
// Samples hardware counters of NVIDIA GPUs (SMs, tensor cores, DRAM, PCIe) on its own thread, from the first use of a
// GPU until the recorder stops. NULL: the defaults.
// Errors: PITOT_INVALID_ARGUMENT names the field; PITOT_NOT_FOUND: `library` is a path without a file;
//   PITOT_ALREADY_RUNNING; PITOT_NOT_RUNNING; PITOT_RESOURCE_EXHAUSTED. A GPU that cannot be sampled is named in
//   incidents.
PITOT_C_API pitot_status pitot_recorder_add_counters(pitot_recorder* recorder, const pitot_counters* counters,
                                                     char* message, size_t message_size);
// Changes the interval of this process's counters while they run; 0: chosen again. As pitot::SetCounterInterval. Since
// revision 8.
// Threads: any, also in hooks; lock-free.
// Errors: PITOT_INVALID_ARGUMENT: not 0 or 100 to 1,000,000. PITOT_UNAVAILABLE: no counters run in this process.
PITOT_C_API pitot_status pitot_set_counter_interval(uint32_t interval_us, char* message, size_t message_size);

// Fields as in pitot::CudaCallOptions.
typedef struct pitot_cuda_calls {
  uint32_t size;
  uint32_t slow_copy_us;
} pitot_cuda_calls;
PITOT_C_API void pitot_cuda_calls_init(pitot_cuda_calls* calls, size_t size);
// Records the calls of CUDA in which threads wait, through the import tables of the process's libraries, until the
// recorder stops. NULL: the defaults.
// Errors: PITOT_INVALID_ARGUMENT names the field; PITOT_ALREADY_RUNNING; PITOT_NOT_RUNNING; PITOT_RESOURCE_EXHAUSTED;
//   PITOT_UNAVAILABLE: Pitot's library cannot be kept loaded.
PITOT_C_API pitot_status pitot_recorder_add_cuda_calls(pitot_recorder* recorder, const pitot_cuda_calls* calls,
                                                       char* message, size_t message_size);

// Fields as in pitot::CudaEventOptions.
typedef struct pitot_cuda_events {
  uint32_t size;
  uint32_t pairs_per_context;
  uint64_t memory_bytes;
  uint32_t layers;        // 0 or 1
  uint32_t graph_scopes;  // since revision 8, reserved before
  double layer_cost_percent;
} pitot_cuda_events;
PITOT_C_API void pitot_cuda_events_init(pitot_cuda_events* events, size_t size);
// Measures by CUDA events how long GPUs worked for each batch, its layers, and each pitot_cuda_scope, until the
// recorder stops. NULL: the defaults. Errors: PITOT_INVALID_ARGUMENT names the field; PITOT_ALREADY_RUNNING;
// PITOT_NOT_RUNNING; PITOT_RESOURCE_EXHAUSTED.
PITOT_C_API pitot_status pitot_recorder_add_cuda_events(pitot_recorder* recorder, const pitot_cuda_events* events,
                                                        char* message, size_t message_size);

// As pitot::GpuOptions. A pointer that is NULL stands for that collector's defaults.
typedef struct pitot_gpu {
  uint32_t size;
  uint32_t with_counters;  // 0: left out, otherwise 1, like the three below
  uint32_t with_cuda_calls;
  uint32_t with_cuda_events;
  uint32_t with_nvml;
  uint32_t reserved;  // 0
  const pitot_counters* counters;
  const pitot_cuda_calls* cuda_calls;
  const pitot_cuda_events* cuda_events;
  const pitot_nvml* nvml;
} pitot_gpu;
PITOT_C_API void pitot_gpu_init(pitot_gpu* gpu, size_t size);
// Adds everything of NVIDIA GPUs that may run all the time: counters, waits for GPUs, layers and NVML. It has no
// kernels: add CUPTI for these. A machine without a driver or GPU is not an error. NULL: the defaults.
// Errors: the first of any collector. Options are checked first: a wrong one adds no collector. After an error at a
//   start the others stay added.
// Cost: waits until NVML has answered, at most 10 s.
PITOT_C_API pitot_status pitot_recorder_enable_gpu(pitot_recorder* recorder, const pitot_gpu* gpu, char* message,
                                                   size_t message_size);

// Fields as in pitot::HostOptions.
typedef struct pitot_host {
  uint32_t size;
  uint32_t rate_hz;
  uint32_t thread_rate_hz;
  uint32_t most_threads;
  uint64_t memory_bytes;
} pitot_host;
PITOT_C_API void pitot_host_init(pitot_host* host, size_t size);
// Records what stops threads (lack of a CPU, quota, page faults, pressure) on its own thread, until the recorder stops.
// NULL: the defaults. Since revision 4.
// Errors: PITOT_INVALID_ARGUMENT names the field; PITOT_ALREADY_RUNNING; PITOT_NOT_RUNNING; PITOT_RESOURCE_EXHAUSTED.
PITOT_C_API pitot_status pitot_recorder_add_host(pitot_recorder* recorder, const pitot_host* host, char* message,
                                                 size_t message_size);

// As pitot::RunningThreads. Since revision 8.
enum { PITOT_RUNNING_UNLESS_FILTERED = 0, PITOT_RUNNING_ALWAYS = 1, PITOT_RUNNING_NEVER = 2 };
// Fields as in pitot::StackOptions. Since revision 8.
typedef struct pitot_stacks {
  uint32_t size;
  uint32_t most_stacks;
  uint32_t most_threads;
  uint32_t running_threads;  // PITOT_RUNNING_...
} pitot_stacks;
PITOT_C_API void pitot_stacks_init(pitot_stacks* stacks, size_t size);
// Reads where threads are while a request is late, blocked or busy, on its own thread, until the recorder stops. NULL:
// the defaults. A system where that is impossible is not an error: incidents say why ("stacks.not_recorded").
// Errors: PITOT_INVALID_ARGUMENT names the field; PITOT_ALREADY_RUNNING; PITOT_NOT_RUNNING; PITOT_RESOURCE_EXHAUSTED.
PITOT_C_API pitot_status pitot_recorder_add_stacks(pitot_recorder* recorder, const pitot_stacks* stacks, char* message,
                                                   size_t message_size);

// Fields as in pitot::NvtxOptions.
typedef struct pitot_nvtx {
  uint32_t size;
  uint32_t capture;        // 0 or 1
  uint32_t mirror_scopes;  // 0 or 1
  uint32_t reserved;       // 0
} pitot_nvtx;
PITOT_C_API void pitot_nvtx_init(pitot_nvtx* nvtx, size_t size);
// Records NVTX events of other libraries, and mirrors scopes to an attached tool. Call it in the first lines of main,
// because it changes the environment. NULL: the defaults. Since revision 3, like pitot_recorder_add_torch.
// Errors: PITOT_UNAVAILABLE says why NVTX cannot find Pitot; PITOT_ALREADY_RUNNING; PITOT_NOT_RUNNING;
//   PITOT_RESOURCE_EXHAUSTED.
PITOT_C_API pitot_status pitot_recorder_add_nvtx(pitot_recorder* recorder, const pitot_nvtx* nvtx, char* message,
                                                 size_t message_size);

// Fields as in pitot::TorchOptions.
typedef struct pitot_torch {
  uint32_t size;
  uint32_t shapes;    // 0 or 1
  uint32_t memory;    // 0 or 1
  uint32_t reserved;  // 0
} pitot_torch;
PITOT_C_API void pitot_torch_init(pitot_torch* torch, size_t size);
// Records LibTorch's operators (at PITOT_DEPTH_OPS), ranges and memory, as described in pitot/collect/torch.h, from the
// time LibTorch is loaded. One in a process, and another in the child of a fork. NULL: the defaults.
// Errors: PITOT_UNAVAILABLE if this library was built without LibTorch (PITOT_C_WITH_TORCH) or with another version
//   than the process has, or in the child of a fork in the middle of a change; PITOT_ALREADY_RUNNING;
//   PITOT_NOT_RUNNING; PITOT_RESOURCE_EXHAUSTED.
PITOT_C_API pitot_status pitot_recorder_add_torch(pitot_recorder* recorder, const pitot_torch* torch, char* message,
                                                  size_t message_size);

// Fields as in pitot::WhyJudgeOptions.
typedef struct pitot_why {
  uint32_t size;
  uint32_t budget_ms;
  uint32_t html;             // 0 or 1
  uint32_t sample_every_ms;  // 0: only incidents teach what is normal
  uint32_t sample_window_ms;
  uint32_t warm_up_ms;
  const char* baseline_file;  // NULL: what is normal is not stored
} pitot_why;
PITOT_C_API void pitot_why_init(pitot_why* why, size_t size);
// Explains in each incident why its request was slow. report.txt then opens with the verdict, and verdict.json and
// report.html are added once it is found. pitot_recorder_flush waits for it. Stays until the recorder stops, or
// until another call replaces it. report.txt names any problem with the file. NULL: the defaults. Since revision 5.
// Errors: PITOT_NOT_RUNNING; PITOT_RESOURCE_EXHAUSTED.
PITOT_C_API pitot_status pitot_recorder_add_why(pitot_recorder* recorder, const pitot_why* why, char* message,
                                                size_t message_size);

// Stops recording and frees memory and threads. An incident being written is finished, in at most `timeout_ms`. The
// handle stays valid. Idempotent. Must not be called from a callback.
PITOT_C_API void pitot_recorder_stop(pitot_recorder* recorder, uint32_t timeout_ms);
// Stops (5 s) and frees the handle. The handle must not be used afterwards.
PITOT_C_API void pitot_recorder_free(pitot_recorder* recorder);

// As pitot::Overhead: the cost of recording at a depth for the host's work, percent, with the 95 % interval. Never
// grows. Since revision 2.
typedef struct pitot_overhead {
  uint32_t is_known;  // 0: too little was measured, and the rest is invalid
  uint32_t reserved;  // 0
  double percent;
  double low_percent;
  double high_percent;
} pitot_overhead;

// Fields as in pitot::Stats. Set `size` to sizeof(pitot_stats) before the call.
typedef struct pitot_stats {
  uint32_t size;
  uint32_t threads_recording;
  uint32_t threads_retired;
  uint32_t requests_open;
  uint64_t rings_bytes;
  uint64_t requests_and_names_bytes;
  uint64_t snapshot_reserve_bytes;
  uint64_t analysis_arena_bytes;
  uint64_t ring_bytes_used;
  uint64_t address_bytes_parked;
  uint64_t history_shortest_ms;
  uint64_t history_median_ms;
  uint64_t events_recorded;
  uint64_t requests_begun;
  uint64_t requests_finished;
  uint64_t requests_abandoned;
  uint64_t threads_refused;
  uint64_t events_refused;
  uint64_t requests_refused;
  uint64_t names_refused;
  uint64_t labels_folded;
  uint64_t details_refused;
  uint64_t scopes_closed_elsewhere;
  uint64_t scopes_misnested;
  uint64_t triggers_fired;
  uint64_t incidents_written;
  uint64_t incidents_suppressed;
  uint64_t incidents_failed;
  uint64_t files_failed;
  double recording_cpu_percent;    // negative: unknown
  double own_threads_cpu_percent;  // negative: unknown
  double scope_cost_ns;
  // Since revision 2: as pitot::DepthStats. Arrays are indexed by depth. The cost of PITOT_DEPTH_SCOPES is never known,
  // because the others are measured against it.
  pitot_depth depth;     // the current one
  uint32_t reserved;     // 0
  char depth_state[96];  // in words, ended by a zero; "" without a collector or at a fixed depth
  pitot_overhead depth_cost;
  pitot_overhead depth_mean[4];
  pitot_overhead depth_p99[4];
  uint64_t depth_works[4];
  double depth_armed_percent;
  uint64_t depth_works_lost;
  // Since revision 8.
  uint64_t incidents_folded;
  uint64_t verdicts_given;
  uint64_t verdicts_failed;
  uint64_t verdicts_displaced;
  uint64_t verdicts_cut_off;
  uint64_t verdicts_stopped;
  uint64_t findings_added;
  uint64_t findings_left_out;
  uint64_t samples_learned;
  uint64_t samples_failed;
  // Since revision 8: the other parts of the budget, as in pitot::MemorySplit, and what collectors hold.
  uint64_t judging_bytes;
  uint64_t learned_bytes;
  uint64_t collectors_bytes;
  uint64_t own_bytes;
  uint64_t collector_bytes;  // above collectors_bytes: on top of the budget
} pitot_stats;
// Fills in as much as `size` has room for; fields unknown to the library are zero.
// Errors: PITOT_INVALID_ARGUMENT.
PITOT_C_API pitot_status pitot_recorder_stats(pitot_recorder* recorder, pitot_stats* stats, char* message,
                                              size_t message_size);

// Numbers that never change, as in pitot::HealthState. Since revision 8.
typedef int32_t pitot_health_state;
enum {
  PITOT_HEALTH_UNKNOWN = 0,      // no recorder runs
  PITOT_HEALTH_IDLE = 1,         // no request and no batch is open, and no route fails
  PITOT_HEALTH_PROGRESSING = 2,  // all open requests make progress
  PITOT_HEALTH_SLOW = 3,         // most open requests are late; or one makes no progress, while others of its route do
  PITOT_HEALTH_STALLED = 4       // a request makes no progress, nor does any other of its route; or a batch; or all
                                 // requests of a route fail
};

// Fields as in pitot::Health. Set `size` to sizeof(pitot_health) before the call. Since revision 8.
typedef struct pitot_health {
  uint32_t size;
  pitot_health_state state;
  uint32_t requests_open;
  uint32_t requests_waiting;
  uint64_t request;
  uint64_t open_ms;
  uint64_t quiet_ms;
  char route[128];
  char stage[128];
  char text[384];
} pitot_health;
// Whether requests make progress, for a probe. `stalled_after_ms` is longer than the longest time of a healthy request
// without any; 10000 is usual, and routes with short requests stall sooner. Fills in as much as `size` has room for.
// Since revision 8. Errors: PITOT_INVALID_ARGUMENT.
PITOT_C_API pitot_status pitot_recorder_health(pitot_recorder* recorder, uint32_t stalled_after_ms,
                                               pitot_health* health, char* message, size_t message_size);

// An incident as the host sees it. Everything lives for the call. The library fills it: read only fields within `size`,
// which is at least the size in this header unless the library is older.
typedef struct pitot_incident {
  uint32_t size;
  // PITOT_OK, or the reason why nothing is on disk; with a directory, the reason why one of its files is missing.
  pitot_status status;
  const char* message;    // of the status
  const char* cause;      // from the firing that began it
  const char* detail;     // likewise, in words
  const char* directory;  // absolute; NULL if incidents are not stored or writing failed
  uint64_t number;        // counts from 1 in this recorder
  uint64_t slow_requests;
  uint64_t first_request;  // id of the request that began it; 0: none
  // Since revision 8: the opening of report.txt, for pitot_recorder_on_verdict; "" before that, and without a judge.
  const char* verdict;
  // Since revision 8: earlier incidents with the same verdict, for pitot_recorder_on_verdict. The first, the worst and
  // this one stay on disk; the others are removed.
  uint64_t again;
} pitot_incident;
typedef void (*pitot_incident_function)(void* context, const pitot_incident* incident);
// Has `function` called when an incident's dump is on disk or its files have failed. Reports, verdicts and other files
// come later: see pitot_recorder_on_verdict. (Libraries before revision 8 called it when all files were there.) This
// happens on Pitot's threads, one call at a time. A slow one delays the next dumps; it must not stop the recorder.
// Replaces an earlier function; NULL: none. Errors: PITOT_NOT_RUNNING; PITOT_RESOURCE_EXHAUSTED. Lifetime: `context`
// must live as long as the process (a thread that hangs in it outlives the recorder).
PITOT_C_API pitot_status pitot_recorder_on_incident(pitot_recorder* recorder, pitot_incident_function function,
                                                    void* context, char* message, size_t message_size);
// The same, but when an incident was judged and its files are on disk; `status` has the reason if a file or the verdict
// is missing. In a storm, a repeat no worse than an earlier incident with its verdict has only the dump, verdict.json
// and a short report.txt by then, and gets its other files later. Without a judge (pitot_recorder_add_why) it comes
// with the last file. It comes after pitot_recorder_on_incident's function, also for an incident that could not be
// written. A slow one delays the next verdicts. Since revision 8.
PITOT_C_API pitot_status pitot_recorder_on_verdict(pitot_recorder* recorder, pitot_incident_function function,
                                                   void* context, char* message, size_t message_size);

// ---- A profile of kernels. ------------------------------------------------------------------------------------------

// Numbers that never change, as in pitot::ProfileReplay, pitot::ProfileMetrics and pitot::OccupancyLimit. Since
// revision 6, like this whole part.
typedef int32_t pitot_profile_replay;
enum { PITOT_PROFILE_REPLAY_NONE = 0, PITOT_PROFILE_REPLAY_KERNEL = 1 };
typedef int32_t pitot_profile_metrics;
enum { PITOT_PROFILE_METRICS_BASIC = 0, PITOT_PROFILE_METRICS_ALL = 1 };
typedef int32_t pitot_occupancy_limit;
enum {
  PITOT_OCCUPANCY_LIMIT_UNKNOWN = 0,
  PITOT_OCCUPANCY_LIMIT_REGISTERS = 1,
  PITOT_OCCUPANCY_LIMIT_SHARED_MEMORY = 2,
  PITOT_OCCUPANCY_LIMIT_THREADS = 3,
  PITOT_OCCUPANCY_LIMIT_BLOCKS = 4
};
// Fields as in pitot::ProfileOptions.
typedef struct pitot_profile_options {
  uint32_t size;
  uint32_t launches;
  const char* kernel;  // a part of the name; NULL or "": every kernel
  uint32_t timeout_ms;
  pitot_profile_replay replay;
  pitot_profile_metrics metrics;
  uint32_t device;
  const char* library;       // NULL: found automatically
  uint32_t pauses_counters;  // 0 or 1
  uint32_t reserved;         // 0
} pitot_profile_options;
PITOT_C_API void pitot_profile_options_init(pitot_profile_options* options, size_t size);

// Measured kernels.
// Threads: any; it never changes.
typedef struct pitot_profile pitot_profile;
// Measures chosen kernels by the GPU's hardware counters while the process launches them, and returns once there are
// enough, or after `timeout_ms`. As pitot::ProfileKernels; docs/guide/profile_kernels.md has its needs and its cost. On
// an error *profile has what was measured before; it is NULL if nothing began. Free it with pitot_profile_free. NULL
// options: the defaults.
// Threads: any, one call at a time; not the thread that launches the kernels, which would wait for itself.
// Errors: as pitot::ProfileKernels; the message says what to do.
PITOT_C_API pitot_status pitot_profile_kernels(pitot_recorder* recorder, const pitot_profile_options* options,
                                               pitot_profile** profile, char* message, size_t message_size);
PITOT_C_API void pitot_profile_free(pitot_profile* profile);

// Fields as in pitot::Profile. Set `size` to sizeof(pitot_profile_counts) before the call.
typedef struct pitot_profile_counts {
  uint32_t size;
  uint32_t kernels;
  uint64_t launches_seen;
  uint64_t launches_measured;
  uint64_t launches_disturbed;
  uint64_t launches_captured;
  uint64_t launches_elsewhere;
  uint64_t launches_left_out;
} pitot_profile_counts;
// Fills in as much as `size` has room for; zeros for a NULL profile.
// Errors: PITOT_INVALID_ARGUMENT.
PITOT_C_API pitot_status pitot_profile_count(const pitot_profile* profile, pitot_profile_counts* counts, char* message,
                                             size_t message_size);

// Fields as in pitot::KernelProfile. A negative number was not measured. Set `size` to sizeof(pitot_kernel_profile)
// before the call.
typedef struct pitot_kernel_profile {
  uint32_t size;
  uint32_t launches;
  const char* name;  // lives as long as the profile
  uint32_t grid[3];
  uint32_t block[3];
  uint64_t dynamic_shared_bytes;
  int64_t registers_per_thread;
  int64_t static_shared_bytes;
  pitot_occupancy_limit limited_by;
  uint32_t reserved;  // 0
  double theoretical_occupancy_percent;
  double waves;
  double duration_ns;
  double achieved_occupancy_percent;
  double l2_hit_percent;
  double dram_percent;
  double dram_read_bytes;
  double dram_written_bytes;
  double tensor_percent;
  double sm_percent;
} pitot_kernel_profile;
// The kernel of this number, from 0 on, the longest launch first. Fills in as much as `size` has room for.
// Errors: PITOT_INVALID_ARGUMENT; PITOT_NOT_FOUND: fewer kernels.
PITOT_C_API pitot_status pitot_profile_kernel(const pitot_profile* profile, uint32_t number,
                                              pitot_kernel_profile* kernel, char* message, size_t message_size);

// Both write a text for people, which ends with a zero and is cut at `text_size` bytes. They return its full length,
// without the zero. The first is a table; the second says how the longest kernels of two profiles differ. Names stand
// for the profiles: "fused", "SDPA".
PITOT_C_API size_t pitot_profile_text(const pitot_profile* profile, char* text, size_t text_size);
PITOT_C_API size_t pitot_profile_compare(const char* name, const pitot_profile* profile, const char* other_name,
                                         const pitot_profile* other, char* text, size_t text_size);

// ---- Triggers: they decide when to make an incident. ----------------------------------------------------------------

// Each stays until the recorder stops; a recorder takes 32. The fields are those of pitot::LatencyTriggerOptions and so
// on, in pitot/trigger/*.h, with their limits and defaults. A window of 0 ms means the recorder's; a NULL route means
// every route.
// Errors: PITOT_INVALID_ARGUMENT names the field; PITOT_NOT_RUNNING; PITOT_RESOURCE_EXHAUSTED.

typedef struct pitot_latency_trigger {
  uint32_t size;
  uint32_t memory;
  const char* route;
  double above_ms;           // 0: no fixed threshold; one of the two must be set
  double or_above_quantile;  // 0: off, otherwise 0.5 to 0.9999
  uint32_t warm_up_requests;
  uint32_t k;  // of the last n
  uint32_t n;
  uint32_t cool_down_ms;
  uint32_t pre_window_ms;
  uint32_t post_window_ms;
} pitot_latency_trigger;
PITOT_C_API void pitot_latency_trigger_init(pitot_latency_trigger* trigger, size_t size);
PITOT_C_API pitot_status pitot_recorder_add_latency_trigger(pitot_recorder* recorder,
                                                            const pitot_latency_trigger* trigger, char* message,
                                                            size_t message_size);

typedef struct pitot_failure_trigger {
  uint32_t size;
  uint32_t on_failed;  // 0 or 1, like the two below
  const char* route;
  uint32_t on_timed_out;
  uint32_t on_abandoned;
  uint32_t cool_down_ms;
  uint32_t pre_window_ms;
  uint32_t post_window_ms;
  uint32_t reserved;  // 0
} pitot_failure_trigger;
PITOT_C_API void pitot_failure_trigger_init(pitot_failure_trigger* trigger, size_t size);
PITOT_C_API pitot_status pitot_recorder_add_failure_trigger(pitot_recorder* recorder,
                                                            const pitot_failure_trigger* trigger, char* message,
                                                            size_t message_size);

typedef struct pitot_tokens_trigger {
  uint32_t size;
  uint32_t cool_down_ms;
  const char* route;
  double first_token_above_ms;  // 0: not watched; one of the four thresholds must be set
  double gap_above_ms;
  uint32_t pre_window_ms;
  uint32_t post_window_ms;
  // Since revision 8: fires above this quantile of first tokens of the route and size, or of gaps of the route. 0: off,
  // otherwise 0.5 to 0.9999.
  double first_token_or_above_quantile;
  double gap_or_above_quantile;
  uint32_t memory;
  uint32_t warm_up_marks;
} pitot_tokens_trigger;
PITOT_C_API void pitot_tokens_trigger_init(pitot_tokens_trigger* trigger, size_t size);
PITOT_C_API pitot_status pitot_recorder_add_tokens_trigger(pitot_recorder* recorder,
                                                           const pitot_tokens_trigger* trigger, char* message,
                                                           size_t message_size);

typedef struct pitot_stall_trigger {
  uint32_t size;
  uint32_t cool_down_ms;
  const char* route;
  double request_open_ms;  // 0: not watched; one of the two must be set
  const char* scope;       // NULL: every scope except waits
  double scope_open_ms;
  uint32_t pre_window_ms;
  uint32_t post_window_ms;
} pitot_stall_trigger;
PITOT_C_API void pitot_stall_trigger_init(pitot_stall_trigger* trigger, size_t size);
PITOT_C_API pitot_status pitot_recorder_add_stall_trigger(pitot_recorder* recorder, const pitot_stall_trigger* trigger,
                                                          char* message, size_t message_size);

// Fires when a route has become slower as a whole. Since revision 5.
typedef struct pitot_drift_trigger {
  uint32_t size;
  uint32_t cool_down_ms;
  const char* route;
  double above_percent;
  uint32_t recent_requests;
  uint32_t reference_requests;
  uint32_t pre_window_ms;
  uint32_t post_window_ms;
} pitot_drift_trigger;
PITOT_C_API void pitot_drift_trigger_init(pitot_drift_trigger* trigger, size_t size);
PITOT_C_API pitot_status pitot_recorder_add_drift_trigger(pitot_recorder* recorder, const pitot_drift_trigger* trigger,
                                                          char* message, size_t message_size);

// How a request ended. The numbers are written to files; any other number counts as PITOT_OUTCOME_ABANDONED.
typedef int32_t pitot_outcome;
enum {
  PITOT_OUTCOME_OK = 1,
  PITOT_OUTCOME_FAILED = 2,
  PITOT_OUTCOME_CANCELLED = 3,
  PITOT_OUTCOME_TIMED_OUT = 4,
  PITOT_OUTCOME_SHED = 5,      // refused to protect the server
  PITOT_OUTCOME_ABANDONED = 6  // dropped without an outcome
};

// A finished request, as a predicate sees it. The rules of pitot_incident apply.
typedef struct pitot_request_view {
  uint32_t size;
  pitot_outcome outcome;
  uint64_t id;
  const char* route;
  uint32_t route_index;
  uint32_t size_bucket;
  uint64_t latency_ns;
  uint64_t deadline_ns;  // 0: none
  uint64_t output_tokens;
  uint64_t first_token_ns;
  uint64_t max_token_gap_ns;
} pitot_request_view;
// Returns 0 for a request that does not deserve an incident. Runs on the thread that finishes the request, concurrently
// on many; the request pays for its time.
typedef int32_t (*pitot_predicate_function)(void* context, const pitot_request_view* request);

typedef struct pitot_predicate_trigger {
  uint32_t size;
  uint32_t cool_down_ms;
  pitot_predicate_function predicate;
  void* context;      // must live until pitot_recorder_free has returned
  const char* cause;  // names incidents and their budget
  uint32_t pre_window_ms;
  uint32_t post_window_ms;
} pitot_predicate_trigger;
PITOT_C_API void pitot_predicate_trigger_init(pitot_predicate_trigger* trigger, size_t size);
PITOT_C_API pitot_status pitot_recorder_add_predicate_trigger(pitot_recorder* recorder,
                                                              const pitot_predicate_trigger* trigger, char* message,
                                                              size_t message_size);

// ---- Scopes, moments, values, waits of the calling thread. ----------------------------------------------------------

// A name made at run time, valid for the life of the process, and in children of a fork. 0 is "(other)": new names get
// it once the table of 16,384 is full.
typedef uint32_t pitot_name;
// Returns the name for `text`. Works without a recorder. Keep the result: a known name costs a hash and a compare, a
// new one a lock.
PITOT_C_API pitot_name pitot_intern(const char* text);
// Names the calling thread in traces (cut at 63 bytes).
PITOT_C_API void pitot_set_thread_name(const char* name);

// pitot_scope_begin begins a scope; pitot_scope_end ends the newest one begun in this way on the thread.
// Cost: PITOT_SCOPE plus two calls.
PITOT_C_API void pitot_scope_begin(pitot_name name);
PITOT_C_API void pitot_scope_end(void);
// Records a moment, with a detail of at most 48 bytes (the rest is cut); NULL: without.
PITOT_C_API void pitot_instant(pitot_name name, const char* detail);
// Records a value that holds until the next one of that name.
PITOT_C_API void pitot_counter(pitot_name name, double value);

// The numbers are written to files.
typedef int32_t pitot_wait_kind;
enum {
  PITOT_WAIT_LOCK = 1,
  PITOT_WAIT_CONDITION = 2,
  PITOT_WAIT_QUEUE = 3,
  PITOT_WAIT_IO = 4,
  PITOT_WAIT_FUTURE = 5,
  PITOT_WAIT_SLEEP = 6,
  PITOT_WAIT_DEVICE = 7,
  PITOT_WAIT_OTHER = 8
};
// The holder of a resource: a thread, by Pitot's number, and the request it works for; 0 if unknown.
typedef struct pitot_owner {
  uint64_t thread;
  uint64_t request;
} pitot_owner;
// The calling thread and its request, to be stored next to the lock it took; zeros while no recorder runs.
PITOT_C_API pitot_owner pitot_this_owner(void);
// Room for an open wait, in the caller's stack frame; all zeros: not open.
typedef struct pitot_wait {
  uint64_t opaque[12];
} pitot_wait;
// Begins to wait for `resource`. While it is open, incidents show the resource. Put one around the whole loop of a
// condition: its owner is the thread that made the condition true. It must end on the thread where it began, like
// scopes, the newest first.
PITOT_C_API void pitot_wait_begin(pitot_wait* wait, pitot_wait_kind kind, pitot_name resource, pitot_owner owner);
// Sets the owner, if it is known only after the wait began.
PITOT_C_API void pitot_wait_set_owner(pitot_wait* wait, pitot_owner owner);
PITOT_C_API void pitot_wait_end(pitot_wait* wait);

// Room for a CUDA scope, in the caller's stack frame; all zeros: not open. Since revision 6.
typedef struct pitot_cuda_scope {
  uint64_t opaque[4];
} pitot_cuda_scope;
// Times the work that is enqueued on a stream while the scope is open, as pitot::CudaEventScope does. `stream` is a
// CUstream or cudaStream_t of the current context; NULL is the legacy default stream. Does nothing without
// pitot_recorder_add_cuda_events. It may end on another thread.
PITOT_C_API void pitot_cuda_scope_begin(pitot_cuda_scope* scope, void* stream, pitot_name name);
PITOT_C_API void pitot_cuda_scope_end(pitot_cuda_scope* scope);
// Says on which stream the calling thread enqueues the work of its batch (outside of batches: of its request), as
// pitot::SetWorkStream does. Not needed where pitot_recorder_add_cuda_calls sees the thread's launches.
PITOT_C_API void pitot_set_work_stream(void* stream);

// ---- Requests, tokens and batches. ----------------------------------------------------------------------------------

// A moment on the recorder's clock, for arrivals known before the request is; 0 while no recorder runs.
PITOT_C_API uint64_t pitot_now(void);

// Represents a request in a queue, on another thread, or in another process of this machine: plain bytes, free to copy.
// All zeros: no request. A token whose request has ended does nothing.
typedef struct pitot_token {
  uint64_t opaque[4];
} pitot_token;
// The id of its request; 0: none.
PITOT_C_API uint64_t pitot_token_request(const pitot_token* token);
// Returns 1 if the request already exceeds its route's latency objective or its deadline, otherwise 0.
PITOT_C_API int32_t pitot_token_is_late(const pitot_token* token);
// Begins the stage `name`, which ends the previous stage.
// Threads: any, one at a time.
PITOT_C_API void pitot_token_stage(const pitot_token* token, const char* name);
// Marks `count` output tokens.
PITOT_C_API void pitot_token_emit(const pitot_token* token, uint32_t count);
// Records that its request was put into `queue` (again: deferred, preempted), and returns the token to put there:
// without a request if that has ended. In another process the queue is "(other)". Since revision 8.
PITOT_C_API pitot_token pitot_token_enqueue(const pitot_token* token, const char* queue);
// As for its request. They do nothing in another process. Since revision 8.
PITOT_C_API void pitot_token_set_label(const pitot_token* token, const char* key, const char* value);
PITOT_C_API void pitot_token_set_size(const pitot_token* token, const char* name, double value);

// A unit of service.
// Threads: one at a time; its tokens any.
typedef struct pitot_request pitot_request;
// Begins a request and makes it the calling thread's context. `route` is a template from a small set. `traceparent` is
// W3C's header; NULL or an invalid one starts a new trace. `arrival` is an earlier pitot_now(); 0: now. Returns NULL
// while no recorder runs and when too many are open (counted). Every handle must be finished.
// Cost: a fraction of a microsecond and an allocation.
PITOT_C_API pitot_request* pitot_request_begin(const char* route, const char* traceparent, uint64_t arrival);
// Begins a part of the request. When the part is finished there, the request is the thread's context again.
PITOT_C_API pitot_request* pitot_request_begin_child(pitot_request* parent, const char* route);
// Begins a request with the token's as parent; it arrived when the token was enqueued.
PITOT_C_API pitot_request* pitot_request_begin_from(const pitot_token* parent, const char* route);
// Ends it, calls the triggers, and frees the handle. The handle must not be used afterwards.
PITOT_C_API void pitot_request_finish(pitot_request* request, pitot_outcome outcome);
// The same, with a few words about why it failed or was cancelled, from a small set: "KV cache full". NULL or "": none.
// Since revision 8.
PITOT_C_API void pitot_request_finish_reason(pitot_request* request, pitot_outcome outcome, const char* reason);

// 0 when inert.
PITOT_C_API uint64_t pitot_request_id(const pitot_request* request);
// Writes the traceparent for services called for this request: 55 characters and a zero; "" when inert.
PITOT_C_API void pitot_request_write_traceparent(const pitot_request* request, char out[56]);
// The host's own id of the request: "cmpl-123". It is cut at 64 bytes, and may differ for each request. The first one
// stays. NULL or "" changes nothing. Since revision 8.
PITOT_C_API void pitot_request_set_id(pitot_request* request, const char* id);
// A bounded dimension: model, version, tenant. At most 4.
PITOT_C_API void pitot_request_set_label(pitot_request* request, const char* key, const char* value);
// The amount of work: pixels, prompt tokens, bytes. At most 4; the first one divides the route into size buckets.
PITOT_C_API void pitot_request_set_size(pitot_request* request, const char* name, double value);
// Sets the deadline, ns after its arrival; 0 changes nothing.
PITOT_C_API void pitot_request_set_deadline(pitot_request* request, uint64_t ns);
// Like the functions of the same names that take tokens. At most 16 stages.
PITOT_C_API void pitot_request_stage(pitot_request* request, const char* name);
PITOT_C_API void pitot_request_emit(pitot_request* request, uint32_t count);
PITOT_C_API int32_t pitot_request_is_late(const pitot_request* request);
// Returns a token without an enqueue time.
PITOT_C_API pitot_token pitot_request_token(const pitot_request* request);
// Records the hand-over to `queue` and returns the token to put there.
PITOT_C_API pitot_token pitot_request_enqueue(pitot_request* request, const char* queue);

// Room for an open adoption, in the caller's stack frame; all zeros: not open.
typedef struct pitot_adopt {
  uint64_t opaque[4];
} pitot_adopt;
// pitot_adopt_begin makes the token's request the calling thread's context and records its leaving the queue.
// pitot_adopt_end restores the former context. Both must run on the same thread.
PITOT_C_API void pitot_adopt_begin(pitot_adopt* adopt, const pitot_token* token);
PITOT_C_API void pitot_adopt_end(pitot_adopt* adopt);

// Why a batch was closed. The numbers are written to files; any other number counts as unknown.
typedef int32_t pitot_batch_close_reason;
enum {
  PITOT_BATCH_UNKNOWN = 0,
  PITOT_BATCH_FULL = 1,
  PITOT_BATCH_TIMEOUT = 2,
  PITOT_BATCH_FLUSH = 3,
  PITOT_BATCH_STEP = 4
};
// One execution that serves several requests.
// Threads: one at a time, which works for it until it ends.
typedef struct pitot_batch pitot_batch;
// Begins a batch; NULL while no recorder runs. Every handle must be finished.
PITOT_C_API pitot_batch* pitot_batch_begin(const char* executor);
// The same, with the unit of its members' work in the plural: "tokens", "pixels". NULL: "tokens" if members put out
// tokens.
PITOT_C_API pitot_batch* pitot_batch_begin_unit(const char* executor, const char* work_unit);
PITOT_C_API uint64_t pitot_batch_id(const pitot_batch* batch);
// Join makes a request a member and records its leaving the queue. Leave ends its membership early; at the end all
// members leave.
PITOT_C_API void pitot_batch_join(pitot_batch* batch, const pitot_token* token);
// The same, with how much work the member brings to this batch or step. Say it for every member. Not finite, or not
// above 0: unknown.
PITOT_C_API void pitot_batch_join_work(pitot_batch* batch, const pitot_token* token, double work);
// Joins `count` members, 64 at a time at the same moment. `work` has as many values; NULL: all unknown.
PITOT_C_API void pitot_batch_join_many(pitot_batch* batch, const pitot_token* tokens, const double* work,
                                       uint64_t count);
PITOT_C_API void pitot_batch_leave(pitot_batch* batch, const pitot_token* token);
// Says why no more members are accepted.
PITOT_C_API void pitot_batch_close(pitot_batch* batch, pitot_batch_close_reason why);
// All of its work is launched; GPU work may still run.
PITOT_C_API void pitot_batch_submitted(pitot_batch* batch);
// The results are available. Frees the handle.
PITOT_C_API void pitot_batch_finish(pitot_batch* batch);

// ---- Evidence of an interpreter and its event loops. ----------------------------------------------------------------

// For bindings of languages that have an interpreter. Since revision 8.

// As pitot::BeginStep, EndStep and RecordStep (pitot/interpreter.h): a part of a task that an event loop runs on the
// calling thread. pitot_step_end returns 1 if the step took 1 ms or more; pitot_step_record then names it.
PITOT_C_API void pitot_step_begin(uint64_t request);
PITOT_C_API int32_t pitot_step_end(void);
PITOT_C_API void pitot_step_record(pitot_name name, uint64_t request);

// Records a garbage collection by the calling thread that took `duration_ns`, until `ago_ns` before now.
PITOT_C_API void pitot_collection(uint64_t ago_ns, uint64_t duration_ns, uint32_t generation, uint64_t collected);
// An entry for gc.callbacks of Python, through ctypes.PyDLL: an entry in Python may have to wait for the interpreter's
// lock before it reads the clock. `phase` is "start" or "stop". After a collection of 1 ms or more it calls `function`
// with its end (CLOCK_MONOTONIC, ns), its length and `info`. pitot_on_collection sets that; NULL: none.
// Threads: the collecting one, with the interpreter's lock.
// Cost: a clock read.
typedef void (*pitot_collection_function)(uint64_t end_ns, uint64_t duration_ns, void* info);
PITOT_C_API void pitot_on_collection(pitot_collection_function function);
PITOT_C_API void pitot_see_collection(const wchar_t* phase, void* info);
// Records that the calling thread waited for the interpreter's lock for `duration_ns`, until `ago_ns` before now. The
// thread with the lock has the operating system's id `tid` (0: unknown), a name, and a place in its code; it ran for
// `on_cpu_ns` of that time.
PITOT_C_API void pitot_lock_held(uint64_t ago_ns, uint64_t duration_ns, int64_t tid, pitot_name thread,
                                 pitot_name place, uint64_t on_cpu_ns);
// Records that an interpreter without a lock stopped all of its threads. The calling thread waited for that. Thread
// `tid` (0: several, or unknown) ran meanwhile, for `on_cpu_ns`.
PITOT_C_API void pitot_threads_stopped(uint64_t ago_ns, uint64_t duration_ns, int64_t tid, pitot_name thread,
                                       uint64_t on_cpu_ns);
// Sleeps for `sleep_us`, then fills in the CPU time of `count` threads (0: no such thread). Returns CLOCK_MONOTONIC in
// ns after that.
PITOT_C_API uint64_t pitot_sleep_and_read_cpu(uint32_t sleep_us, const int64_t* tids, uint64_t* cpu_ns, uint32_t count);
// What a thread watches an interpreter for, and what it finds: bits.
typedef int32_t pitot_watch_event;
enum {
  PITOT_WATCH_LOCK = 1,     // it waited for the interpreter's lock for 2 ms or more
  PITOT_WATCH_LATE = 2,     // a request is late, or none is any more
  PITOT_WATCH_STEP = 4,     // a step of a task is running
  PITOT_WATCH_THREADS = 8,  // other threads live or record than before; found at the first look, too
  PITOT_WATCH_TIME = 16,    // `most_us` are over, or it was told to end
  PITOT_WATCH_STOP = 32     // without a lock: `take` waited for 2 ms or more, because all threads were stopped
};
// Functions that let go of the interpreter's lock and take it again, as PyEval_SaveThread and PyEval_RestoreThread of
// Python do. The second may end the thread.
typedef void* (*pitot_let_go_function)(void);
typedef void (*pitot_take_function)(void* state);
// Set to zero what is not named "in". Owned by one thread, except for `is_over`.
typedef struct pitot_interpreter_watch {
  pitot_let_go_function let_go;  // in
  pitot_take_function take;      // in
  // In: `count` threads, in arrays of that length. All three are sorted, threads that lately ran most first. `cpu_ns`
  // is their CPU time when the lock was asked for; of threads after the first 32 it is up to 100 ms older.
  int64_t* tids;
  uint64_t* cpu_ns;
  uint64_t* listed_ns;
  uint32_t count;
  uint32_t pause_us;         // in: before each look
  uint32_t most_us;          // in
  int32_t looks_for;         // in: PITOT_WATCH_LOCK, _LATE, _STEP, _STOP; it looks for the other two always
  int32_t is_over;           // in: another than 0 ends it; any thread may set it
  uint32_t is_late;          // private
  uint64_t asked_ns;         // out: CLOCK_MONOTONIC when it asked for the lock, and when it had it
  uint64_t got_ns;           // out
  uint64_t next_refresh_ns;  // private
  uint64_t threads_known;    // private
} pitot_interpreter_watch;
// Looks again and again, without the interpreter's lock, until there is something to do. Returns what it found. Between
// looks it asks for the lock only if PITOT_WATCH_LOCK or PITOT_WATCH_STOP is set, and gives it back at once. With
// PITOT_WATCH_LOCK it does not ask if one of at most 32 threads ran since the last look, 6 ms ago or more, and for
// a fifth of that time: no other waits for the lock then. For PITOT_WATCH_STOP its wait for a CPU does not count:
// `got_ns` is earlier by that. Threads: one with the interpreter's lock, which it has again afterwards. Cost: a look is
// two system calls for each thread, 64 at most; every 100 ms one for each of `count`, and a directory.
PITOT_C_API pitot_watch_event pitot_watch_interpreter(pitot_interpreter_watch* watch);
// Stacks of threads while a request is late (pitot/stack.h says more of each). pitot_watch_late_requests begins (1) or
// ends (0) to learn what routes usually take. pitot_find_late_threads writes the ids of at most `most` threads at work
// while a request is late, and returns how many there are; 0: no request is late.
PITOT_C_API void pitot_watch_late_requests(int32_t is_on);
PITOT_C_API uint32_t pitot_find_late_threads(int64_t* tids, uint32_t most);
// The system call in which a thread of this process sleeps, "recv"; the name of "" if it is in none, or not known.
PITOT_C_API pitot_name pitot_system_call_of(int64_t tid);
// Records a stack that the calling thread has just read, innermost frame first; at most 3 of `count` are kept. `own` is
// the first frame outside of libraries, at most 1; 3: none. `missed` stacks were left out since the last record.
PITOT_C_API void pitot_record_stack(int64_t tid, pitot_name call, uint32_t own, const pitot_name* frames,
                                    uint32_t count, uint32_t missed);
// Names the recorded thread with that id of the operating system, unless it has named itself. Returns 0 if it recorded
// nothing yet.
PITOT_C_API int32_t pitot_name_thread(int64_t tid, const char* name);

#ifdef __cplusplus
}
#endif

#endif  // PITOT_C_H_
