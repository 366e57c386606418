// SPDX-License-Identifier: Apache-2.0
//
// Collect: NVTX, in both directions. Events of other libraries (ranges, marks, payloads; NCCL's collectives and bytes)
// become scopes of the threads that run them. Pitot's scopes are mirrored to an attached tool, for example Nsight
// Systems.
//
//   int main() {
//     auto recorder = pitot::Recorder::Start(options);  // first of all: before threads, before models are loaded
//     recorder.Add(pitot::MakeNvtxCollector());
//
// docs/guide/nvtx.md says what is captured, what is not, and at what cost.
#ifndef PITOT_COLLECT_NVTX_H_
#define PITOT_COLLECT_NVTX_H_

#include <memory>

#include "pitot/export.h"
#include "pitot/extend/collector.h"

PITOT_NAMESPACE_BEGIN

struct NvtxOptions {
  // Records the events of other libraries. Sets NVTX_INJECTION64_PATH in the environment of this process if it is not
  // set, or was inherited from another process with Pitot. Each library then finds Pitot at its first NVTX call. A
  // library that has called NVTX before is missed until the process ends, and named in incidents ("nvtx.missed").
  bool capture = true;
  // Mirrors scopes to the tool in NVTX_INJECTION64_PATH, if there is one, as ranges of the domain "pitot". Without a
  // tool this costs nothing; with one, as much as the tool takes. The tool then gets all other NVTX events, and none
  // are captured.
  bool mirror_scopes = true;
};

// One in a process. Add it in the first lines of main: it changes the environment, which other threads must not read at
// that time. Recorder::Add reports an error if NVTX cannot find Pitot in this program, or if there is an unusable tool.
// Null if there is no memory.
// Cost: docs/guide/nvtx.md. Nothing if no library emits events. Captured libraries stay attached after Recorder::Stop;
//   each call of NVTX then costs a load or two.
PITOT_EXPORT std::unique_ptr<Collector> MakeNvtxCollector(const NvtxOptions& options = {}) noexcept;

PITOT_NAMESPACE_END

#endif  // PITOT_COLLECT_NVTX_H_
