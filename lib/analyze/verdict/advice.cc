// SPDX-License-Identifier: Apache-2.0
//
// What to do about a cause, as a table (docs/reference/blame.md#advice). Evidence that no collector records has no row
// yet.
#include "analyze/verdict/namespace.h"
#include "pitot/analyze/verdict.h"

namespace pitot::verdict {

namespace {

constexpr auto kAnyClose = BatchClose::kUnknown;
constexpr auto kAnyProof = Proof::kNone;

struct AdviceRow {
  uint32_t blames;
  BatchClose close;
  Proof proof;
  Advice advice;
};
constexpr Advice kLookAtCode = {
    "look_at_code",
    "Look at the function that the stacks show: find out why it ran longer than usual. Give it less to do, make it "
    "faster, cache its result, or move it to another thread or process."};

// The first row that fits.
constexpr AdviceRow kRows[] = {
    {BlameBit(Blame::kBatchWindow),
     BatchClose::kTimeout,
     kAnyProof,
     {"shorten_batch_delay", "The batch waited its whole delay. Shorten the delay, or adapt it to the load."}},
    {BlameBit(Blame::kBatchWindow),
     kAnyClose,
     kAnyProof,
     {"check_batch_policy", "The batch waited for members. Compare its size and delay with the arrival rate."}},
    {BlameBit(Blame::kExecutorBusy),
     kAnyClose,
     Proof::kLargeMember,
     {"limit_step_work",
      "Another request brought much more work than usual to its batch. Divide such work (read a prompt in chunks), "
      "limit the work of a batch (tokens in a step), or give large requests an executor of their own."}},
    {BlameBit(Blame::kExecutorBusy),
     kAnyClose,
     Proof::kInOwnBatch,
     {"split_long_work",
      "Its batch spent this time on another request. Split that work (a prompt into chunks), or give it an executor of "
      "its own."}},
    {BlameBit(Blame::kExecutorBusy) | BlameBit(Blame::kHostOncpuFramework) | BlameBit(Blame::kLazyLoadJit),
     kAnyClose,
     Proof::kFirstUse,
     {"warm_up",
      "This was done for the first time. Before serving, run each model once with every batch size and shape, and keep "
      "the compiled code."}},
    {BlameBit(Blame::kQueueWaitOthers),
     kAnyClose,
     Proof::kHeldLoop,
     {"free_loop",
      "A task held the event loop without a pause. Move its work to a thread or another process, await its input and "
      "output, or give it pauses."}},
    {BlameBit(Blame::kExecutorBusy) | BlameBit(Blame::kQueueWaitOthers),
     kAnyClose,
     Proof::kBehindLong,
     {"look_at_blocker",
      "The work ahead of it took more than twice its usual time. Find out why (pitot why --request, with its id) "
      "before adding capacity."}},
    {BlameBit(Blame::kExecutorBusy) | BlameBit(Blame::kQueueWaitOthers) | BlameBit(Blame::kAdmissionQueue),
     kAnyClose,
     kAnyProof,
     {"add_capacity",
      "Requests arrive faster than they are served. Add an instance or threads, limit admission, or give this route "
      "priority."}},
    {BlameBit(Blame::kNetIn), kAnyClose, kAnyProof, {"check_network", "Check the network and the sender."}},
    {BlameBit(Blame::kHandoff),
     kAnyClose,
     kAnyProof,
     {"speed_wake_up",
      "Threads woke up late. Keep fewer threads runnable, pin them, or spin for a moment before sleeping."}},
    {BlameBit(Blame::kHostOncpuPre) | BlameBit(Blame::kHostOncpuFramework) | BlameBit(Blame::kHostOncpuPost),
     kAnyClose,
     Proof::kUncounted,
     {"watch_threads",
      "Nothing recorded shows whether this code ran or slept. Record threads (pitot::host, docs/guide/host.md), and "
      "annotate their waits with PITOT_WAIT. If it ran, pitot top shows which scope grew."}},
    {BlameBit(Blame::kHostOncpuPre) | BlameBit(Blame::kHostOncpuFramework) | BlameBit(Blame::kHostOncpuPost), kAnyClose,
     Proof::kPlaced, kLookAtCode},
    {BlameBit(Blame::kUntraced), kAnyClose, Proof::kBusy, kLookAtCode},
    {BlameBit(Blame::kHostOncpuPre),
     kAnyClose,
     kAnyProof,
     {"speed_preprocessing", "Make this code faster, run it on several threads or on the GPU, or cache its result."}},
    {BlameBit(Blame::kHostBlockedUnknown) | BlameBit(Blame::kUntraced),
     kAnyClose,
     Proof::kStoodStill,
     {"find_who_stopped_it",
      "The whole process stood still. A signal (SIGSTOP), a debugger or tracer, the freezer of a container, or a "
      "paused virtual machine stops all threads at once. Look at what else the machine did then."}},
    {BlameBit(Blame::kHostOncpuFramework) | BlameBit(Blame::kHostBlockedUnknown),
     kAnyClose,
     Proof::kMayBeMixed,
     {"say_size",
      "Another request's work or something else in this iteration took long. With the work of each member "
      "(Batch::Join) or the length of each prompt (Request::SetSize), and 8 iterations with prompts, a long prompt is "
      "told from slow code."}},
    {BlameBit(Blame::kHostBlockedUnknown),
     kAnyClose,
     Proof::kMayAwaitGpu,
     {"record_gpu",
      "The thread waited for a GPU. Add pitot::gpu::Enable (docs/guide/gpu.md): it records what GPUs do, and the waits "
      "for them. If it is there, report.txt says what it could not record, and why."}},
    {BlameBit(Blame::kHostOncpuFramework),
     kAnyClose,
     Proof::kMayAwaitGpu,
     {"record_gpu",
      "The thread ran this code, or waited for a GPU in it. Add pitot::gpu::Enable (docs/guide/gpu.md): it records "
      "what GPUs do, and the waits for them. If it is there, report.txt says what it could not record, and why."}},
    {BlameBit(Blame::kHostOncpuFramework),
     kAnyClose,
     Proof::kMayPollGpu,
     {"wait_in_calls",
      "The GPU worked for most of that time, and the thread made no call that waits for it: it ran code, or asked the "
      "GPU "
      "again and again (cudaStreamQuery). A synchronisation, or kernels recorded (docs/guide/kernels.md), would "
      "tell."}},
    {BlameBit(Blame::kSyncReturn) | BlameBit(Blame::kHostOncpuFramework) | BlameBit(Blame::kLaunchApi) |
         BlameBit(Blame::kLaunchLatency),
     kAnyClose,
     Proof::kManyWaits,
     {"wait_once", "There were many short waits for the GPU. Read results back once, at the end, in one copy."}},
    {BlameBit(Blame::kHostOncpuFramework),
     kAnyClose,
     Proof::kMoreLaunches,
     {"launch_less",
      "Many launches do little work each, and the code around them takes longer than they do. Use a CUDA graph, fused "
      "kernels or larger batches."}},
    {BlameBit(Blame::kHostOncpuFramework),
     kAnyClose,
     kAnyProof,
     {"speed_model_code",
      "Use pitot top to find the scope with the growth. CUDA graphs and compiled models need less CPU time."}},
    {BlameBit(Blame::kHostOncpuPost),
     kAnyClose,
     kAnyProof,
     {"speed_postprocessing", "Postprocess on several threads, on the GPU, or after the response."}},
    {BlameBit(Blame::kHostRunqueue),
     kAnyClose,
     Proof::kQuota,
     {"raise_quota", "The CPU quota was used up. Raise it, or run fewer threads (pools for CPU work included)."}},
    {BlameBit(Blame::kHostRunqueue),
     kAnyClose,
     Proof::kStolen,
     {"own_cpus",
      "The hypervisor or interrupts took its CPU. Use a machine with CPUs of its own, or send interrupts to other "
      "CPUs."}},
    {BlameBit(Blame::kHostRunqueue),
     kAnyClose,
     kAnyProof,
     {"free_cpu",
      "Other threads had the CPUs. Give these threads CPUs of their own, run fewer, or move the others away."}},
    {BlameBit(Blame::kHostLock),
     kAnyClose,
     kAnyProof,
     {"shard_lock", "Hold the lock for a shorter time, or split it."}},
    {BlameBit(Blame::kHostGil),
     kAnyClose,
     kAnyProof,
     {"release_gil",
      "Release the interpreter's lock around native work, give long Python code pauses, or move that work to another "
      "process."}},
    {BlameBit(Blame::kHostGc),
     kAnyClose,
     Proof::kAllStopped,
     {"stop_seldom",
      "The interpreter stopped all threads. Profilers and looks at all frames or objects (sys._current_frames, "
      "gc.get_objects, gc.freeze) do that, and so does a fork. Do it between requests."}},
    {BlameBit(Blame::kHostGc),
     kAnyClose,
     kAnyProof,
     {"tame_gc",
      "Freeze what lives long (gc.freeze), raise the collector's thresholds, and collect between requests."}},
    {BlameBit(Blame::kHostPagefaultIo),
     kAnyClose,
     Proof::kMajorFaults,
     {"fault_in_early", "Memory was read from a disk. Pre-fault or lock it, keep it in memory, and do not swap."}},
    // A wait marked by the program as input or output: of any kind, but not of memory.
    {BlameBit(Blame::kHostPagefaultIo),
     kAnyClose,
     kAnyProof,
     {"take_io_out",
      "The thread waited for input or output. Do that ahead of time or after the response, cache the result, or find "
      "out why the storage or peer is slow."}},
    {BlameBit(Blame::kHostBlockedUnknown),
     kAnyClose,
     Proof::kHeldLock,
     {"sleep_without_lock",
      "Other threads queued for a lock this thread held while it slept. Release the lock first, and annotate the wait "
      "with PITOT_WAIT."}},
    {BlameBit(Blame::kHostBlockedUnknown),
     kAnyClose,
     Proof::kNamedWait,
     {"name_owner",
      "The thread was in a recorded wait, and nothing says what the one it waited for did. Record that, and name the "
      "owner in PITOT_WAIT (pitot::Owner) if the wait has none."}},
    {BlameBit(Blame::kHostBlockedUnknown) | BlameBit(Blame::kUntraced),
     kAnyClose,
     Proof::kPlaced,
     {"look_at_stack",
      "Look at the line that the stacks show: find out what it waits for. Record that wait with PITOT_WAIT, so that "
      "verdicts name the resource."}},
    {BlameBit(Blame::kHostBlockedUnknown),
     kAnyClose,
     kAnyProof,
     {"name_waits", "Annotate this thread's waits with PITOT_WAIT: the resource and its owner."}},
    {BlameBit(Blame::kLaunchApi) | BlameBit(Blame::kLaunchLatency),
     kAnyClose,
     Proof::kMoreLaunches,
     {"launch_less", "Many launches do little work each. Use a CUDA graph, fused kernels or larger batches."}},
    {BlameBit(Blame::kLaunchApi) | BlameBit(Blame::kLaunchLatency),
     kAnyClose,
     Proof::kInDriver,
     {"keep_driver_free",
      "Another thread was in the driver meanwhile. Allocate before serving, copy from pinned memory, or launch from "
      "one thread."}},
    {BlameBit(Blame::kLaunchApi) | BlameBit(Blame::kLaunchLatency),
     kAnyClose,
     Proof::kSlowLaunches,
     {"speed_launches",
      "Each launch took longer; there were not more of them. Give the launching thread a CPU of its own, and keep "
      "other programs off the GPU. A CUDA graph is one launch."}},
    {BlameBit(Blame::kLaunchApi) | BlameBit(Blame::kLaunchLatency),
     kAnyClose,
     kAnyProof,
     {"check_launches",
      "Launches took long. If they are many, use a CUDA graph, fused kernels or larger batches; otherwise give their "
      "thread a CPU of its own."}},
    {BlameBit(Blame::kLaunchQueueFull),
     kAnyClose,
     kAnyProof,
     {"gpu_bound",
      "Launches wait for room because the GPU has enough to do. Its work is the cause: launch less of it, or find the "
      "slow kernels."}},
    {BlameBit(Blame::kAllocStall),
     kAnyClose,
     kAnyProof,
     {"allocate_early", "Allocate before serving, keep the pool (no empty_cache), and reserve its peak."}},
    {BlameBit(Blame::kLazyLoadJit),
     kAnyClose,
     kAnyProof,
     {"load_early", "Set CUDA_MODULE_LOADING=EAGER, warm up each shape, and compile code for this GPU."}},
    {BlameBit(Blame::kSyncReturn),
     kAnyClose,
     kAnyProof,
     {"return_from_sync", "The thread resumed late after its wait for the GPU. Let it spin, or free its CPU."}},
    {BlameBit(Blame::kH2d) | BlameBit(Blame::kD2h) | BlameBit(Blame::kD2dMemset),
     kAnyClose,
     kAnyProof,
     {"copy_better", "Use pinned memory, fewer and larger copies, and overlap them with kernels."}},
    {BlameBit(Blame::kGpuExecExpected),
     kAnyClose,
     Proof::kLowClock,
     {"keep_clock", "Check cooling and the power limit. Lock the clocks, or route requests to other GPUs."}},
    {BlameBit(Blame::kGpuExecExpected) | BlameBit(Blame::kGpuExcessUnknown),
     kAnyClose,
     Proof::kOthersOnGpu,
     {"keep_gpu_to_itself",
      "Another process probably worked on this GPU around then: it was active without work of this one. Find it "
      "(nvidia-smi), and give it a GPU or MIG slice of its own."}},
    {BlameBit(Blame::kGpuExecExpected),
     kAnyClose,
     Proof::kMemoryBound,
     {"move_fewer_bytes",
      "The GPU's memory was busier than usual, and bounds its work. Move fewer bytes: larger batches, fused kernels, "
      "smaller types, or a "
      "quantised cache. See pitot top --by layer."}},
    {BlameBit(Blame::kGpuExecExpected),
     kAnyClose,
     Proof::kNoUsual,
     {"compare_kernels",
      "A GPU worked longer. Without its kernels nothing tells more work from slower work, or from others' work. Record "
      "kernels, and compare with a normal minute (pitot diff)."}},
    {BlameBit(Blame::kGpuExecExpected),
     kAnyClose,
     kAnyProof,
     {"speed_kernels", "Kernels took their usual time, but there were more of them. See pitot top --by kernel."}},
    {BlameBit(Blame::kGpuContention) | BlameBit(Blame::kGpuQueueWaitOthers),
     kAnyClose,
     kAnyProof,
     {"separate_gpu_work",
      "Other work was on the GPU. Use stream priorities or a GPU or MIG slice of its own, or cut the long job into "
      "shorter pieces."}},
    {BlameBit(Blame::kGpuClock),
     kAnyClose,
     kAnyProof,
     {"keep_clock", "Check cooling and the power limit. Lock the clocks, or route requests to other GPUs."}},
    {BlameBit(Blame::kGpuExcessUnknown),
     kAnyClose,
     kAnyProof,
     {"look_closer_at_gpu",
      "Look at the device's counters for another process on the GPU, memory errors or a throttled clock."}},
    {BlameBit(Blame::kDispatchGap),
     kAnyClose,
     kAnyProof,
     {"close_gaps", "The GPU idles between kernels. Use a CUDA graph or fused kernels."}},
    {BlameBit(Blame::kCommExposed),
     kAnyClose,
     kAnyProof,
     {"overlap_communication", "Overlap communication with kernels, and compare ranks to find a straggler."}},
    {BlameBit(Blame::kUntraced),
     kAnyClose,
     Proof::kInSpan,
     {"look_at_span",
      "Look at what this span or stage does: find out why it took longer than usual. Put scopes and waits where its "
      "work is done, so that verdicts name the reason."}},
    {BlameBit(Blame::kUntraced),
     kAnyClose,
     Proof::kUnseen,
     {"watch_threads",
      "Nothing recorded shows whether the thread ran or slept after its last event. Record threads (pitot::host, "
      "docs/guide/host.md), and annotate their waits with PITOT_WAIT."}},
};

constexpr Advice kInstrument = {"instrument",
                                "Nothing was recorded in this time. Put scopes and waits where its threads are."};

}  // namespace
}  // namespace pitot::verdict

PITOT_NAMESPACE_BEGIN
namespace analyze {

Advice AdviceFor(Blame blame, BatchClose close, Proof proof) noexcept {
  if (static_cast<uint32_t>(blame) >= kBlames) return verdict::kInstrument;
  for (const verdict::AdviceRow& row : verdict::kRows) {
    if ((row.blames & BlameBit(blame)) != 0 && (row.close == verdict::kAnyClose || row.close == close) &&
        (row.proof == verdict::kAnyProof || row.proof == proof))
      return row.advice;
  }
  return verdict::kInstrument;
}

Advice AdviceFor(VerdictKind kind) noexcept {
  if (kind == VerdictKind::kMoreWork)
    return {"limit_work",
            "It had more to do than others of its route. Limit or split large inputs, or give them an executor of "
            "their own."};
  if (kind != VerdictKind::kUniform) return {"", ""};
  return {"look_at_machine",
          "Look for something that slows a whole machine at once: CPU and GPU clocks and their thermal limits, other "
          "programs, time taken by the hypervisor. `pitot info` lists the recorded counters, and `pitot analyze` their "
          "findings. docs/guide/host.md and docs/guide/nvml.md record more."};
}

}  // namespace analyze
PITOT_NAMESPACE_END
