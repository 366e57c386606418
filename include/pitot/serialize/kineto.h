// SPDX-License-Identifier: Apache-2.0
//
// Writes a trace as JSON of PyTorch's profiler (Kineto's dialect of Chrome's trace JSON), for TensorBoard, HTA and
// everything else that reads it: docs/reference/formats/kineto.md. pitot/read/kineto.h reads it back.
#ifndef PITOT_SERIALIZE_KINETO_H_
#define PITOT_SERIALIZE_KINETO_H_

#include <memory>

#include "pitot/extend/serializer.h"

PITOT_NAMESPACE_BEGIN

// TensorBoard takes files named WORKER.SPAN.pt.trace.json, or .gz if compressed.
// Threads: any. Errors: null if there is no memory. Lifetime: `file_name` is copied.
// Cost of Serialize: O(n log n) of the trace's rows; 256 KiB of the file are in memory, and a few bytes per event.
PITOT_EXPORT std::unique_ptr<Serializer> MakeKinetoSerializer(const char* file_name = "trace.pt.trace.json") noexcept;

PITOT_NAMESPACE_END

#endif  // PITOT_SERIALIZE_KINETO_H_
