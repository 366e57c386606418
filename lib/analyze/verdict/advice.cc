// SPDX-License-Identifier: Apache-2.0
//
// What to do about a cause, as a table (docs/reference/blame.md#advice). Evidence that no collector records has no row
// yet.
#include "pitot/analyze/verdict.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

namespace {

constexpr auto kAnyClose = BatchClose::kUnknown;
constexpr auto kAnyProof = Proof::kNone;

struct AdviceRow {
  uint32_t blames;
  BatchClose close;
  Proof proof;
  Advice advice;
};
// The first row that fits.
constexpr AdviceRow kRows[] = {
    {BlameBit(Blame::kBatchWindow),
     BatchClose::kTimeout,
     kAnyProof,
     {"shorten_batch_delay", "the batch waited its whole delay: lower it, or adapt it to the load"}},
    {BlameBit(Blame::kBatchWindow),
     kAnyClose,
     kAnyProof,
     {"check_batch_policy", "the batch waited for members: compare its size and delay with the arrivals"}},
    {BlameBit(Blame::kExecutorBusy),
     kAnyClose,
     Proof::kInOwnBatch,
     {"split_long_work",
      "its batch did another request's work by itself: do that in pieces (a prompt in chunks), or on an executor of "
      "its own"}},
    {BlameBit(Blame::kExecutorBusy) | BlameBit(Blame::kHostOncpuFramework),
     kAnyClose,
     Proof::kFirstUse,
     {"warm_up",
      "it was done for the first time: before serving, run each model once with every batch size and shape, and keep "
      "what was compiled"}},
    {BlameBit(Blame::kExecutorBusy) | BlameBit(Blame::kQueueWaitOthers),
     kAnyClose,
     Proof::kBehindLong,
     {"look_at_blocker",
      "what it waited for took longer than twice the usual: ask why that was slow (pitot why --request, with its id) "
      "before adding capacity"}},
    {BlameBit(Blame::kExecutorBusy) | BlameBit(Blame::kQueueWaitOthers) | BlameBit(Blame::kAdmissionQueue),
     kAnyClose,
     kAnyProof,
     {"add_capacity",
      "requests come faster than they are served: add an instance or threads, limit admission, or give this route "
      "priority"}},
    {BlameBit(Blame::kNetIn), kAnyClose, kAnyProof, {"check_network", "look at the network and at who sends"}},
    {BlameBit(Blame::kHandoff),
     kAnyClose,
     kAnyProof,
     {"speed_wake_up", "threads wake up late: fewer runnable threads, pinned ones, or spinning for a moment"}},
    {BlameBit(Blame::kHostOncpuPre),
     kAnyClose,
     kAnyProof,
     {"speed_preprocessing", "do it on several threads, on the GPU, or cache it"}},
    {BlameBit(Blame::kHostOncpuFramework),
     kAnyClose,
     kAnyProof,
     {"speed_model_code", "find the scope that grew with pitot top; graphs and compiled models take less of the CPU"}},
    {BlameBit(Blame::kHostOncpuPost),
     kAnyClose,
     kAnyProof,
     {"speed_postprocessing", "do it on several threads, on the GPU, or after the answer"}},
    {BlameBit(Blame::kHostRunqueue),
     kAnyClose,
     Proof::kQuota,
     {"raise_quota", "the CPU quota was spent: raise it, or run fewer threads (pools for work on the CPU, too)"}},
    {BlameBit(Blame::kHostRunqueue),
     kAnyClose,
     Proof::kStolen,
     {"own_cpus",
      "its CPU was taken from under it, by the machine's hypervisor or by interrupts: a machine whose CPUs are its "
      "own, or whose interrupts go to other CPUs"}},
    {BlameBit(Blame::kHostRunqueue),
     kAnyClose,
     kAnyProof,
     {"free_cpu", "others had the CPUs: give threads CPUs of their own, run fewer, or move others away"}},
    {BlameBit(Blame::kHostLock), kAnyClose, kAnyProof, {"shard_lock", "hold it for a shorter time, or divide it"}},
    {BlameBit(Blame::kHostGil),
     kAnyClose,
     kAnyProof,
     {"release_gil", "release the interpreter's lock around native work, or move it to another process"}},
    {BlameBit(Blame::kHostGc), kAnyClose, kAnyProof, {"tame_gc", "collect between requests, and allocate less"}},
    {BlameBit(Blame::kHostPagefaultIo),
     kAnyClose,
     Proof::kMajorFaults,
     {"fault_in_early", "memory was read from a disk: pre-fault or lock it, keep it in memory, no swap"}},
    // A wait marked by the program as input or output: of any kind, but not of memory.
    {BlameBit(Blame::kHostPagefaultIo),
     kAnyClose,
     kAnyProof,
     {"take_io_out",
      "its thread waited for input or output: do that ahead or after the answer, keep what was read, or look at who "
      "answers so late"}},
    {BlameBit(Blame::kHostBlockedUnknown),
     kAnyClose,
     Proof::kHeldLock,
     {"sleep_without_lock",
      "others came to wait for the lock that it held: let go of it before waiting, and say with PITOT_WAIT what "
      "for"}},
    {BlameBit(Blame::kHostBlockedUnknown),
     kAnyClose,
     Proof::kNamedWait,
     {"name_owner",
      "its thread waited there, and nothing says for whom: look at what makes that late, and say with PITOT_WAIT who "
      "has it (pitot::Owner)"}},
    {BlameBit(Blame::kHostBlockedUnknown),
     kAnyClose,
     kAnyProof,
     {"name_waits", "say with PITOT_WAIT what its thread waits for, and who has it"}},
    {BlameBit(Blame::kLaunchApi) | BlameBit(Blame::kLaunchLatency),
     kAnyClose,
     Proof::kMoreLaunches,
     {"launch_less", "many launches of little work: a CUDA graph, fused kernels, larger batches"}},
    {BlameBit(Blame::kLaunchApi) | BlameBit(Blame::kLaunchLatency),
     kAnyClose,
     Proof::kInDriver,
     {"keep_driver_free",
      "another thread was in the driver meanwhile: allocate before serving, copy from pinned memory, or launch from "
      "one thread"}},
    {BlameBit(Blame::kLaunchApi) | BlameBit(Blame::kLaunchLatency),
     kAnyClose,
     Proof::kSlowLaunches,
     {"speed_launches",
      "each took longer, rather than that there were more: a CPU of its own for the thread that launches, and no "
      "other program on the GPU; a CUDA graph is one launch"}},
    {BlameBit(Blame::kLaunchApi) | BlameBit(Blame::kLaunchLatency),
     kAnyClose,
     kAnyProof,
     {"check_launches",
      "launches took long: if they are many, a CUDA graph, fused kernels or larger batches; else a CPU of its own for "
      "their thread"}},
    {BlameBit(Blame::kLaunchQueueFull),
     kAnyClose,
     kAnyProof,
     {"gpu_bound", "launches wait for room because the GPU has enough to do: harmless; look at the kernels"}},
    {BlameBit(Blame::kAllocStall),
     kAnyClose,
     kAnyProof,
     {"allocate_early", "allocate before serving, keep the pool (no empty_cache), and reserve its peak"}},
    {BlameBit(Blame::kLazyLoadJit),
     kAnyClose,
     kAnyProof,
     {"load_early", "CUDA_MODULE_LOADING=EAGER, a warm-up of each shape, code compiled for this GPU"}},
    {BlameBit(Blame::kSyncReturn),
     kAnyClose,
     Proof::kManyWaits,
     {"wait_once", "many short waits for the GPU: read results back once, at the end, in one copy"}},
    {BlameBit(Blame::kSyncReturn),
     kAnyClose,
     kAnyProof,
     {"return_from_sync", "the thread came back late from waiting for the GPU: spin, or free its CPU"}},
    {BlameBit(Blame::kH2d) | BlameBit(Blame::kD2h) | BlameBit(Blame::kD2dMemset),
     kAnyClose,
     kAnyProof,
     {"copy_better", "pinned memory, fewer and larger copies, and copies beside kernels"}},
    {BlameBit(Blame::kGpuExecExpected),
     kAnyClose,
     Proof::kNoUsual,
     {"compare_kernels",
      "a GPU worked longer; how long such work usually takes is not known, of its kind there is too little, or it was "
      "recorded as a whole: record kernels, and compare with a normal minute (pitot diff)"}},
    {BlameBit(Blame::kGpuExecExpected),
     kAnyClose,
     kAnyProof,
     {"speed_kernels", "kernels took as long as they usually do, and there were more of them: pitot top --by kernel"}},
    {BlameBit(Blame::kGpuContention) | BlameBit(Blame::kGpuQueueWaitOthers),
     kAnyClose,
     kAnyProof,
     {"separate_gpu_work",
      "others' work was on the GPU: stream priorities, a GPU or MIG slice of its own, shorter pieces of the long "
      "job"}},
    {BlameBit(Blame::kGpuClock),
     kAnyClose,
     kAnyProof,
     {"keep_clock", "cooling or power limit: lock clocks, or route away"}},
    {BlameBit(Blame::kGpuExcessUnknown),
     kAnyClose,
     kAnyProof,
     {"look_closer_at_gpu",
      "another process on the GPU, errors of its memory, or a throttled clock: see the device's counters"}},
    {BlameBit(Blame::kDispatchGap),
     kAnyClose,
     kAnyProof,
     {"close_gaps", "the GPU idles between kernels: a CUDA graph, or fused kernels"}},
    {BlameBit(Blame::kCommExposed),
     kAnyClose,
     kAnyProof,
     {"overlap_communication", "overlap it with kernels; compare ranks for a straggler"}},
    {BlameBit(Blame::kUntraced),
     kAnyClose,
     Proof::kUnseen,
     {"watch_threads",
      "nothing says whether its thread worked or slept since it was seen last: record that (pitot::host, "
      "docs/guide/host.md), and say with PITOT_WAIT what it waits for"}},
};

constexpr Advice kInstrument = {"instrument", "nothing recorded this time: put scopes and waits where its threads are"};

}  // namespace

Advice AdviceFor(Blame blame, BatchClose close, Proof proof) noexcept {
  if (static_cast<uint32_t>(blame) >= kBlames) return kInstrument;
  for (const AdviceRow& row : kRows) {
    if ((row.blames & BlameBit(blame)) != 0 && (row.close == kAnyClose || row.close == close) &&
        (row.proof == kAnyProof || row.proof == proof))
      return row.advice;
  }
  return kInstrument;
}

Advice AdviceFor(VerdictKind kind) noexcept {
  if (kind != VerdictKind::kUniform) return {"", ""};
  return {"look_at_machine",
          "look at what slows all of a machine at once: clocks of CPUs and GPUs and their thermal limits, other "
          "programs, time that the hypervisor took. `pitot info` says what was recorded of it, `pitot analyze` what "
          "that shows; docs/guide/host.md and docs/guide/nvml.md record more"};
}

}  // namespace analyze
PITOT_NAMESPACE_END
