// SPDX-License-Identifier: Apache-2.0
//
// Files in and out: traces are read with clear messages about damage, and output files are replaced as a whole or not
// at all.
#ifndef PITOT_LIB_CLI_FILES_H_
#define PITOT_LIB_CLI_FILES_H_

#include <stdint.h>

#include <string>
#include <vector>

#include "pitot/extend/serializer.h"
#include "pitot/model/trace.h"
#include "pitot/read/trace.h"

namespace pitot::cli {

// The dump meant by `path`. An incident's directory means the dump.pitot in it. A directory with incidents below it
// means the newest one's dump; a message on stderr names it if there are others. If several processes recorded that
// moment, and if there is no incident, the directory itself is returned: Load joins its traces, or refuses it.
std::string DumpPath(const std::string& path);
// The same for each of several paths; returns their names for messages.
std::string DumpPaths(std::vector<std::string>* paths);

// The format of a file, and the findings of its reader.
struct LoadReport {
  bool is_recovering = false;  // set before Load: no hint at `pitot recover`
  TraceReport file;
  std::vector<std::string> paths;  // of what was read: files, and their folder
  bool IsDump() const { return file.format == "dump"; }
};

// Reads a file of any known format, recognised by its content, or a pipe (piped.h). Returns kDone or kDamaged with the
// trace filled; losses are listed on stderr. Otherwise returns the exit code, with a message on stderr that says what
// to do.
int Load(const std::string& path, model::Trace* trace, LoadReport* report);
// Several as one trace, joined by their clocks.
int Load(const std::vector<std::string>& paths, model::Trace* trace, LoadReport* report);

// What to do to record `what` ("kernel"): `ours` for a dump, otherwise the advice of the file's own tool.
std::string HowToRecord(const LoadReport& report, const std::string& what, const std::string& ours);

// The exit code of an answer about a file for which Load returned `loaded`. A damaged file outranks an empty answer,
// but not an error.
int ExitCodeOf(int loaded, int answered);

// Writes `trace` to `path` through a new file next to it, mode 0600; "-" is stdout. Returns kDone or, with a message,
// kNotWritten. `bytes` becomes the size; `option` is the option that named the place.
int WriteFile(Serializer& serializer, const model::Trace& trace, const std::string& path, uint64_t* bytes,
              const char* option = "-o");

// `path` with its last extension replaced: "a/dump.pitot" and ".pftrace" is "a/dump.pftrace". A folder's name keeps its
// extension: "a/run.1/" is "a/run.1.pftrace", and "." the folder's own name, next to it. For standard input and pipes
// "stdin.pftrace".
std::string WithExtension(const std::string& path, const std::string& extension);

// False, with a message, if `output` is one of the inputs.
bool IsNoInput(const std::vector<std::string>& inputs, const std::string& output, const char* option = "-o");

// A status's message without the path, which our own message names already.
std::string WithoutPath(const Status& status, const std::string& path);
// Complains of a file that cannot be read. Returns kUnreadable.
int ComplainUnreadable(const std::string& path, const Status& status);
// Prints "pitot: " and the message to stderr, in one line: it may have names of files, and these any character. `below`
// is a second line.
void Complain(const std::string& message, const std::string& below = "");

// The width for wrapping answers: COLUMNS, limited to 60 to 200, if it is a number; otherwise `otherwise`.
size_t WrapWidth(size_t otherwise);

// Prints to stdout.
void Print(const std::string& text);
void PrintLine(const std::string& text);
// Call it at the end. Returns 0, or the error of standard output as errno.
int FlushOutput();

}  // namespace pitot::cli

#endif  // PITOT_LIB_CLI_FILES_H_
