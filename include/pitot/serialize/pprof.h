// SPDX-License-Identifier: Apache-2.0
//
// Writes where a trace's time went, for `go tool pprof` and everything else that reads profile.proto:
// docs/reference/formats/pprof.md. Times are sums by stack, request and thread; no single event is in the file.
#ifndef PITOT_SERIALIZE_PPROF_H_
#define PITOT_SERIALIZE_PPROF_H_

#include <memory>

#include "pitot/extend/serializer.h"

PITOT_NAMESPACE_BEGIN

// The file is not compressed; readers take it as it is.
// Threads: any. Errors: null if there is no memory. Lifetime: `file_name` is copied.
// Cost of Serialize: O(n log n) of the trace's rows. In memory are each stack and name, and 32,768 samples at
// most.
PITOT_EXPORT std::unique_ptr<Serializer> MakePprofSerializer(const char* file_name = "profile.pb") noexcept;

PITOT_NAMESPACE_END

#endif  // PITOT_SERIALIZE_PPROF_H_
