// SPDX-License-Identifier: Apache-2.0
//
// Writes a trace as XSpace, the format of JAX's and TensorFlow's profilers, for XProf: a plane for the host and one for
// each GPU. docs/reference/formats/xspace.md says what is in each.
#ifndef PITOT_SERIALIZE_XSPACE_H_
#define PITOT_SERIALIZE_XSPACE_H_

#include <memory>

#include "pitot/extend/serializer.h"

PITOT_NAMESPACE_BEGIN

// XProf finds files named plugins/profile/RUN/HOST.xplane.pb.
// Threads: any. Errors: null if there is no memory. Lifetime: `file_name` is copied.
// Cost of Serialize: O(n log n) of the trace's rows, which are encoded twice; a few bytes per event are in memory, and
// each name once.
PITOT_EXPORT std::unique_ptr<Serializer> MakeXSpaceSerializer(const char* file_name = "trace.xplane.pb") noexcept;

PITOT_NAMESPACE_END

#endif  // PITOT_SERIALIZE_XSPACE_H_
