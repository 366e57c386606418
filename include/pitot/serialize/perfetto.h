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
  // Compresses a run of packets (at most 512 KiB) into zlib or gzip framing and returns the size, 0 for "leave as it
  // is". Null: no compression. The library brings none, so that a host links none; `pitot convert --compress` does.
  uint64_t (*compress)(void* context, const void* data, uint64_t size, void* out, uint64_t capacity) = nullptr;
  void* compress_context = nullptr;
};

PITOT_EXPORT std::unique_ptr<Serializer> MakePerfettoSerializer(const PerfettoOptions& options = {}) noexcept;

PITOT_NAMESPACE_END

#endif  // PITOT_SERIALIZE_PERFETTO_H_
