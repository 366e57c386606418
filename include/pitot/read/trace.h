// SPDX-License-Identifier: Apache-2.0
//
// Reads a file of any known format into the model: Pitot's dumps, and the traces of other tools. The content decides on
// the format, not the name. For tools: component `reader`. docs/reference/formats has a page for each format.
#ifndef PITOT_READ_TRACE_H_
#define PITOT_READ_TRACE_H_

#include <stdint.h>

#include <string>
#include <utility>
#include <vector>

#include "pitot/model/trace.h"
#include "pitot/read/dump.h"
#include "pitot/status.h"

PITOT_NAMESPACE_BEGIN

// A reader's findings about the file.
struct TraceReport {
  std::string format;              // for programs: "dump", "kineto"
  std::string name;                // for people: "Kineto JSON"
  std::string tool;                // its writer: "PyTorch's profiler"
  bool is_gzip = false;            // it was unpacked
  bool complete = false;           // the file ends where its content does, and nothing in it is damaged
  bool is_empty = false;           // its format is known, and there is no event in it
  uint64_t events = 0;             // in the file; 0 for dumps
  uint64_t events_bad = 0;         // left out: not readable, or incomplete for their kind
  std::string problems;            // of the file, for people; "" if there are none
  std::vector<std::string> lacks;  // what such a file does not say: "requests and batches"
  // How its tool records things that may be missing, by their name: {"kernel", "record with ..."}.
  std::vector<std::pair<std::string, std::string>> how;
  std::vector<std::pair<std::string, uint64_t>> counts;  // the reader's own, by name
  DumpReport dump;                                       // for dumps
};

// Fills `trace`. What the format does not say is empty, and the trace's attribute "not_recorded" names it.
// Ok for a complete file. kDataLoss for one that is cut off or damaged; the trace then holds the readable part, which
// may be empty. kNotFound, kIoError, kResourceExhausted. kInvalidArgument for a file of no known format, and for one
// from which no reader gets an event; the message says what the file is. Never crashes on any input. Threads: any.
// Cost: that of the format's reader, and a few ms for the first 2 MiB of the content, which decide.
PITOT_EXPORT Status ReadTrace(const std::string& path, model::Trace* trace, TraceReport* report) noexcept;
PITOT_EXPORT Status ParseTrace(const void* data, uint64_t size, model::Trace* trace, TraceReport* report) noexcept;

// Whether the beginning of the file, the first 2 MiB of its content, is that of a known format: for a choice among many
// files. ReadTrace may still refuse it. Threads: any. Cost: that of these bytes.
PITOT_EXPORT bool LooksLikeTrace(const std::string& path) noexcept;

// The formats, for people: "Pitot's dumps, JSON of PyTorch's profiler and Chrome JSON". Threads: any. Throws bad_alloc.
PITOT_EXPORT std::string ReadableFormats();

PITOT_NAMESPACE_END

#endif  // PITOT_READ_TRACE_H_
