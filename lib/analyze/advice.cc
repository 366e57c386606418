// SPDX-License-Identifier: Apache-2.0
//
// What to do about a cause: analyzers.md section 2.11 as a table. Evidence that no collector records has no row yet.
#include "pitot/analyze/verdict.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

namespace {

constexpr Advice kWarmUp = {"warm_up",
                            "it was done for the first time: before serving, run each model once with every batch size "
                            "and shape, and keep what was compiled"};

}  // namespace

Advice AdviceFor(Blame blame, BatchClose close, Proof proof) noexcept {
  switch (blame) {
    case Blame::kBatchWindow:
      if (close == BatchClose::kTimeout)
        return {"shorten_batch_delay", "the batch waited its whole delay: lower it, or adapt it to the load"};
      return {"check_batch_policy", "the batch waited for members: compare its size and delay with the arrivals"};
    case Blame::kExecutorBusy:
      if (proof == Proof::kInOwnBatch)
        return {"split_long_work",
                "its batch did another request's work by itself: do that in pieces (a prompt in chunks), or on an "
                "executor of its own"};
      if (proof == Proof::kFirstUse) return kWarmUp;
      [[fallthrough]];
    case Blame::kQueueWaitOthers:
      if (proof == Proof::kBehindLong)
        return {"look_at_blocker",
                "what it waited for took longer than twice the usual: ask why that was slow (pitot why --request, with "
                "its id) before adding capacity"};
      [[fallthrough]];
    case Blame::kAdmissionQueue:
      return {"add_capacity",
              "requests come faster than they are served: add an instance or threads, limit admission, or "
              "give this route priority"};
    case Blame::kNetIn:
      return {"check_network", "look at the network and at who sends"};
    case Blame::kHandoff:
      return {"speed_wake_up", "threads wake up late: fewer runnable threads, pinned ones, or spinning for a moment"};
    case Blame::kHostOncpuPre:
      return {"speed_preprocessing", "do it on several threads, on the GPU, or cache it"};
    case Blame::kHostOncpuFramework:
      if (proof == Proof::kFirstUse) return kWarmUp;
      return {"speed_model_code",
              "find the scope that grew with pitot top; graphs and compiled models take less of the CPU"};
    case Blame::kHostOncpuPost:
      return {"speed_postprocessing", "do it on several threads, on the GPU, or after the answer"};
    case Blame::kHostRunqueue:
      if (proof == Proof::kQuota)
        return {"raise_quota",
                "the CPU quota was spent: raise it, or run fewer threads (pools for work on the CPU, too)"};
      if (proof == Proof::kStolen)
        return {"own_cpus",
                "its CPU was taken from under it, by the machine's hypervisor or by interrupts: a machine whose CPUs "
                "are its own, or whose interrupts go to other CPUs"};
      return {"free_cpu", "others had the CPUs: give threads CPUs of their own, run fewer, or move others away"};
    case Blame::kHostLock:
      return {"shard_lock", "hold it for a shorter time, or divide it"};
    case Blame::kHostGil:
      return {"release_gil", "release the interpreter's lock around native work, or move it to another process"};
    case Blame::kHostGc:
      return {"tame_gc", "collect between requests, and allocate less"};
    case Blame::kHostPagefaultIo:
      if (proof == Proof::kMajorFaults)
        return {"fault_in_early", "memory was read from a disk: pre-fault or lock it, keep it in memory, no swap"};
      // A wait that the program itself calls input or output: of whatever kind, not of memory.
      return {
          "take_io_out",
          "its thread waited for input or output: do that ahead or after the answer, keep what was read, or look at "
          "who answers so late"};
    case Blame::kHostBlockedUnknown:
      if (proof == Proof::kHeldLock)
        return {"sleep_without_lock",
                "others came to wait for the lock that it held: let go of it before waiting, and say with PITOT_WAIT "
                "what for"};
      return {"name_waits", "say with PITOT_WAIT what its thread waits for, and who has it"};
    case Blame::kLaunchApi:
    case Blame::kLaunchLatency:
      if (proof == Proof::kMoreLaunches)
        return {"launch_less", "many launches of little work: a CUDA graph, fused kernels, larger batches"};
      if (proof == Proof::kInDriver)
        return {
            "keep_driver_free",
            "another thread was in the driver meanwhile: allocate before serving, copy from pinned memory, or launch "
            "from one thread"};
      if (proof == Proof::kSlowLaunches)
        return {"speed_launches",
                "each took longer, rather than that there were more: a CPU of its own for the thread that launches, "
                "and no other program on the GPU; a CUDA graph is one launch"};
      return {"check_launches",
              "launches took long: if they are many, a CUDA graph, fused kernels or larger batches; else a CPU of its "
              "own for their thread"};
    case Blame::kLaunchQueueFull:
      return {"gpu_bound", "launches wait for room because the GPU has enough to do: harmless; look at the kernels"};
    case Blame::kAllocStall:
      return {"allocate_early", "allocate before serving, keep the pool (no empty_cache), and reserve its peak"};
    case Blame::kLazyLoadJit:
      return {"load_early", "CUDA_MODULE_LOADING=EAGER, a warm-up of each shape, code compiled for this GPU"};
    case Blame::kSyncReturn:
      if (proof == Proof::kManyWaits)
        return {"wait_once", "many short waits for the GPU: read results back once, at the end, in one copy"};
      return {"return_from_sync", "the thread came back late from waiting for the GPU: spin, or free its CPU"};
    case Blame::kH2d:
    case Blame::kD2h:
    case Blame::kD2dMemset:
      return {"copy_better", "pinned memory, fewer and larger copies, and copies beside kernels"};
    case Blame::kGpuExecExpected:
      if (proof == Proof::kNoUsual)
        return {"compare_kernels",
                "a GPU worked longer; how long such work usually takes is not known, of its kind there is too little, "
                "or it was recorded as a whole: record kernels, and compare with a normal minute (pitot diff)"};
      return {"speed_kernels",
              "kernels took as long as they usually do, and there were more of them: pitot top --by kernel"};
    case Blame::kGpuContention:
    case Blame::kGpuQueueWaitOthers:
      return {"separate_gpu_work",
              "others' work was on the GPU: stream priorities, a GPU or MIG slice of its own, shorter "
              "pieces of the long job"};
    case Blame::kGpuClock:
      return {"keep_clock", "cooling or power limit: lock clocks, or route away"};
    case Blame::kGpuExcessUnknown:
      return {"look_closer_at_gpu",
              "another process on the GPU, errors of its memory, or a throttled clock: see the device's "
              "counters"};
    case Blame::kDispatchGap:
      return {"close_gaps", "the GPU idles between kernels: a CUDA graph, or fused kernels"};
    case Blame::kCommExposed:
      return {"overlap_communication", "overlap it with kernels; compare ranks for a straggler"};
    case Blame::kUntraced:
      if (proof == Proof::kUnseen)
        return {"watch_threads",
                "nothing says whether its thread worked or slept since it was seen last: record that (pitot::host, "
                "docs/host.md), and say with PITOT_WAIT what it waits for"};
      break;
  }
  return {"instrument", "nothing recorded this time: put scopes and waits where its threads are"};
}

}  // namespace analyze
PITOT_NAMESPACE_END
