// SPDX-License-Identifier: Apache-2.0
//
// Reads dumps back into traces. For tools: component `reader`, which links libprotobuf; servers do not need it.
#ifndef PITOT_READ_DUMP_H_
#define PITOT_READ_DUMP_H_

#include <string>

#include "pitot/model/trace.h"
#include "pitot/status.h"

PITOT_NAMESPACE_BEGIN

// What a reader found besides the trace.
struct DumpReport {
  uint32_t version_major = 0, version_minor = 0;
  uint64_t chunks = 0;          // read whole
  uint64_t chunks_bad = 0;      // wrong CRC or contents: skipped
  uint64_t chunks_unknown = 0;  // of a newer minor version: skipped
  uint64_t rows_dropped = 0;    // of chunks that were read: refer to what is missing, or make no sense
  uint64_t bytes_skipped = 0;
  bool complete = false;  // the trailer is there and agrees with what was read
};

// Fills `trace` with everything up to the last whole chunk. Ok for a complete dump; kDataLoss, with the trace filled as
// far as it goes, for one that is truncated or has bad chunks; kNotFound, kIoError, or kInvalidArgument for what is no
// dump of a known version. Never crashes on any input; memory is at most about 20 times the file's size.
PITOT_EXPORT Status ReadDump(const std::string& path, model::Trace* trace, DumpReport* report);
PITOT_EXPORT Status ParseDump(const void* data, uint64_t size, model::Trace* trace, DumpReport* report);

PITOT_NAMESPACE_END

#endif  // PITOT_READ_DUMP_H_
