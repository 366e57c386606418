// SPDX-License-Identifier: Apache-2.0
//
// Reads dumps back into traces. For tools: component `reader`, which links libprotobuf. Servers do not need it.
#ifndef PITOT_READ_DUMP_H_
#define PITOT_READ_DUMP_H_

#include <string>

#include "pitot/model/trace.h"
#include "pitot/status.h"

PITOT_NAMESPACE_BEGIN

// A reader's findings about the file.
struct DumpReport {
  uint32_t version_major = 0, version_minor = 0;
  uint64_t chunks = 0;          // read whole
  uint64_t chunks_bad = 0;      // skipped: wrong CRC or contents
  uint64_t chunks_unknown = 0;  // skipped: of a newer minor version
  uint64_t rows_dropped = 0;    // from chunks that were read: they refer to missing rows, or are invalid
  uint64_t bytes_skipped = 0;
  bool complete = false;  // the trailer exists and agrees with the rest
};

// Fills `trace` with everything up to the last whole chunk. Ok for a complete dump. kDataLoss for one that is truncated
// or has bad chunks; the trace then holds the readable part. kNotFound, kIoError, or kInvalidArgument if it is not a
// dump of a known version. Never crashes on any input; memory is at most about 20 times the file's size. A file is read
// through a window of 2 MiB: beyond it, memory is for the trace only.
PITOT_EXPORT Status ReadDump(const std::string& path, model::Trace* trace, DumpReport* report);
PITOT_EXPORT Status ParseDump(const void* data, uint64_t size, model::Trace* trace, DumpReport* report);
// Fills `trace` with the dump's process, window and clocks only, from its first 4 KiB. kDataLoss if they are damaged;
// otherwise as above.
PITOT_EXPORT Status ReadDumpHead(const std::string& path, model::Trace* trace);

PITOT_NAMESPACE_END

#endif  // PITOT_READ_DUMP_H_
