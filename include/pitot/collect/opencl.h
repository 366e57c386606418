// SPDX-License-Identifier: Apache-2.0
//
// Collect: kernels, copies and waits of OpenCL, from any vendor, seen by a layer under the ICD loader.
//
//   OPENCL_LAYERS=/usr/lib/libpitot_opencl_layer.so ./server
//   recorder.Add(pitot::MakeOpenClCollector());    // in the server
//
// docs/guide/opencl.md explains how to read the result.
#ifndef PITOT_COLLECT_OPENCL_H_
#define PITOT_COLLECT_OPENCL_H_

#include <stdint.h>

#include <memory>

#include "pitot/export.h"
#include "pitot/extend/collector.h"

PITOT_NAMESPACE_BEGIN

struct OpenClOptions {
  // Host memory for finished work, bytes, 64 KiB to 1 GiB, part of Options::memory_budget_bytes. Half holds the
  // newest, 72 bytes each; half holds the copy for an incident.
  uint64_t memory_bytes = 4ull << 20;
};

// Records clEnqueueNDRangeKernel, clEnqueueReadBuffer, clEnqueueWriteBuffer, clEnqueueCopyBuffer and
// clEnqueueFillBuffer, with the times the device reports, and the waits clFinish and clWaitForEvents. Blocking copies
// are also waits: "clEnqueueReadBuffer (blocking)" and "clEnqueueWriteBuffer (blocking)". At most 256 queues at a time,
// 16 devices, and 4,096 commands in flight. The rest is counted, and incidents list it as lost, with its device and
// time. Devices get ordinals from 100 on, in the order of their first queue, apart from CUDA's.
//
// The layer switches profiling on in each queue that the process creates, whether a recorder runs or not.
// Recorder::Pause("opencl") stops recording until Resume; the depth changes nothing.
// Null if there is no memory.
// Threads: any. One collector in a process at a time.
// Errors: from Recorder::Add kInvalidArgument, which names the option; kAlreadyRunning; kResourceExhausted. A
//   missing layer is not an error: incidents say so ("opencl.not_recorded").
// Lifetime: the recorder's. The child of a fork has no collector and no queues until it makes its own.
// Cost: on a thread that enqueues, a scope, two clock reads, an event, and for a kernel the look-up of its name. A
//   thread of the driver then reads three times and copies a row under a lock. Next to memory_bytes 1 MiB, of which
//   unused parts take no memory.
PITOT_EXPORT std::unique_ptr<Collector> MakeOpenClCollector(const OpenClOptions& options = {}) noexcept;

PITOT_NAMESPACE_END

#endif  // PITOT_COLLECT_OPENCL_H_
