// SPDX-License-Identifier: Apache-2.0
//
// Writes a trace for Perfetto (https://ui.perfetto.dev): TrackEvent protobuf, the fields of lib/serialize/proto/.
#ifndef PITOT_SERIALIZE_PERFETTO_H_
#define PITOT_SERIALIZE_PERFETTO_H_

#include <memory>

#include "pitot/extend/serializer.h"

PITOT_NAMESPACE_BEGIN

struct PerfettoOptions {
  const char* file_name = "trace.pftrace";
  // Compresses a run of packets (at most 512 KiB) with zlib or gzip framing. Returns the size, or 0 to leave it as it
  // is. Null: no compression. The library contains no compressor, so hosts link none; `pitot convert --compress` has
  // one.
  uint64_t (*compress)(void* context, const void* data, uint64_t size, void* out, uint64_t capacity) = nullptr;
  void* compress_context = nullptr;
};

PITOT_EXPORT std::unique_ptr<Serializer> MakePerfettoSerializer(const PerfettoOptions& options = {}) noexcept;

PITOT_NAMESPACE_END

#endif  // PITOT_SERIALIZE_PERFETTO_H_
