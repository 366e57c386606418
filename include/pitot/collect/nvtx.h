// SPDX-License-Identifier: Apache-2.0
//
// Collect: NVTX, both ways. What other libraries emit (ranges, marks, payloads; NCCL's collectives and bytes) becomes
// scopes of the threads that run it; and scopes are mirrored to a tool that is attached, Nsight Systems say.
//
//   int main() {
//     auto recorder = pitot::Recorder::Start(options);  // first of all: before threads, before models are loaded
//     recorder.Add(pitot::MakeNvtxCollector());
//
// What is captured, what not, and what it costs: docs/guide/nvtx.md.
#ifndef PITOT_COLLECT_NVTX_H_
#define PITOT_COLLECT_NVTX_H_

#include <memory>

#include "pitot/export.h"
#include "pitot/extend/collector.h"

PITOT_NAMESPACE_BEGIN

struct NvtxOptions {
  // Record what other libraries emit. Sets NVTX_INJECTION64_PATH in the environment of this process where it is not
  // set, or was inherited from a process with Pitot of its own, so that each library finds Pitot at its first NVTX
  // call. One that has called NVTX before is missed until the process ends, and named in incidents ("nvtx.missed").
  bool capture = true;
  // Tell the tool that NVTX_INJECTION64_PATH names, if there is one, of scopes: ranges of the domain "pitot". Without a
  // tool it costs nothing; with one, as much as the tool takes. NVTX's other events are the tool's then, and none are
  // captured.
  bool mirror_scopes = true;
};

// One in a process. Add it in the first lines of main: the environment is changed, which other threads must not read at
// that time. Where NVTX cannot find Pitot in this program, or a tool is there that cannot be used, Recorder::Add says
// why. Null if there is no memory.
// Cost: docs/guide/nvtx.md. Nothing where no library emits. What is captured stays attached after Recorder::Stop and then
// costs each call of NVTX a load or two.
PITOT_EXPORT std::unique_ptr<Collector> MakeNvtxCollector(const NvtxOptions& options = {}) noexcept;

PITOT_NAMESPACE_END

#endif  // PITOT_COLLECT_NVTX_H_
