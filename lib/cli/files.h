// SPDX-License-Identifier: Apache-2.0
//
// Files in and out: traces with clear messages where they are damaged, output that is replaced as a whole or not at
// all.
#ifndef PITOT_LIB_CLI_FILES_H_
#define PITOT_LIB_CLI_FILES_H_

#include <stdint.h>

#include <string>

#include "pitot/extend/serializer.h"
#include "pitot/model/trace.h"
#include "pitot/read/dump.h"
#include "pitot/read/kineto.h"

namespace pitot::cli {

// The dump that `path` means: an incident's directory stands for the dump.pitot in it, a directory of incidents for the
// newest one's, which is said on stderr if there are others.
std::string DumpPath(const std::string& path);

// What a file turned out to be, and what the reader of its format found.
struct LoadReport {
  bool is_kineto = false;  // JSON of PyTorch's profiler; else a dump
  DumpReport dump;
  KinetoReport kineto;
  bool IsComplete() const { return is_kineto ? kineto.complete && kineto.events_bad == 0 : dump.complete; }
};

// Reads a trace, whichever format the file's first bytes are of. kDone or kDamaged (what was lost is said on stderr)
// with the trace filled; else the exit code, said on stderr with what to do next.
int Load(const std::string& path, model::Trace* trace, LoadReport* report);

// Writes `trace` to `path` through a new file beside it, mode 0600; "-" is stdout. Returns kDone or, with a message,
// kNotWritten. `bytes` becomes the size; `option` is the one that named the place.
int WriteFile(Serializer& serializer, const model::Trace& trace, const std::string& path, uint64_t* bytes,
              const char* option = "-o");

// `path` with its last extension replaced: "a/dump.pitot" and ".pftrace" is "a/dump.pftrace".
std::string WithExtension(const std::string& path, const std::string& extension);

// False, with a message, if both name one file.
bool AreDifferentFiles(const std::string& input, const std::string& output);

// "pitot: " and the message, to stderr.
void Complain(const std::string& message);

// The width at which answers are wrapped: COLUMNS, from 60 to 200, where that is a number, else `otherwise`.
size_t WrapWidth(size_t otherwise);

// To stdout.
void Print(const std::string& text);
// At the end: what standard output could not take, as errno; 0 if nothing.
int FlushOutput();

}  // namespace pitot::cli

#endif  // PITOT_LIB_CLI_FILES_H_
