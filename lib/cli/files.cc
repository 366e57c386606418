// SPDX-License-Identifier: Apache-2.0
#include "cli/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/columns.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/incidents.h"
#include "cli/leftovers.h"
#include "cli/piped.h"
#include "cli/several_files.h"
#include "serialize/dump_format.h"

namespace pitot::cli {
namespace {

namespace fs = std::filesystem;

class FileSink final : public ByteSink {
 public:
  explicit FileSink(FILE* file) : file_(file) {}
  bool Write(const void* data, uint64_t size) noexcept override {
    if (error_ == 0 && fwrite(data, 1, size, file_) != size) error_ = errno != 0 ? errno : EIO;
    bytes_ += size;
    return error_ == 0;
  }
  int error() const { return error_; }
  uint64_t bytes() const { return bytes_; }

 private:
  FILE* file_;
  int error_ = 0;
  uint64_t bytes_ = 0;
};

Status SystemError(int error) { return Status(StatusCode::kIoError, strerror(error)); }

// Serializes and closes.
Status WriteAndClose(Serializer& serializer, const model::Trace& trace, FILE* file, uint64_t* bytes) {
  FileSink sink(file);
  const Status status = serializer.Serialize(trace, sink);
  *bytes = sink.bytes();
  const bool is_closed = fclose(file) == 0;
  if (sink.error() != 0) return SystemError(sink.error());
  return !status.ok() || is_closed ? status : SystemError(errno);
}

// The exit code for a dump, with a message for a status that is not ok.
int AnswerOfDump(const std::string& path, const Status& status, const DumpReport& report, bool is_recovering) {
  const bool is_known = report.version_major == dump_format::kVersionMajor;
  if (is_known && report.version_minor > dump_format::kVersionMinor)
    Complain(absl::StrFormat("%s has format %d.%d, and this version knows %d.%d: newer parts are left out, %d chunks.",
                             path, report.version_major, report.version_minor, dump_format::kVersionMajor,
                             dump_format::kVersionMinor, report.chunks_unknown));
  switch (status.code()) {
    case StatusCode::kOk:
      if (report.bytes_skipped == 0) return kDone;
      Complain(
          absl::StrFormat("%s has %s before or behind its dump, which were not read. Unpack an archive, and give each "
                          "dump a file of its own.",
                          path, base::Plural(report.bytes_skipped, "byte")));
      return kDamaged;
    case StatusCode::kDataLoss:
      if (report.chunks == 0) {
        Complain(
            absl::StrFormat("%s holds no whole chunk: %s. Nothing can be recovered from it.", path, status.message()));
        return kNotADump;
      }
      Complain(
          absl::StrFormat("%s is damaged: %s; %d chunks were read, %d are bad, %d bytes were skipped. The output "
                          "covers the whole chunks%s.",
                          path, status.message(), report.chunks, report.chunks_bad, report.bytes_skipped,
                          is_recovering ? "" : "; `pitot recover` writes them to a file of their own"));
      return kDamaged;
    case StatusCode::kInvalidArgument:
      Complain(
          absl::StrFormat("%s is not a dump readable by this version: %s. Dumps are named dump.pitot in an incident's "
                          "directory.",
                          path, WithoutPath(status, path)));
      return kNotADump;
    default:
      return ComplainUnreadable(path, status);
  }
}

// The same for another tool's file.
int AnswerOf(const std::string& path, const Status& status, const TraceReport& report) {
  switch (status.code()) {
    case StatusCode::kOk:
      if (!report.problems.empty()) Complain(absl::StrFormat("%s: %s", path, report.problems));
      return kDone;
    case StatusCode::kDataLoss:
      Complain(absl::StrFormat("%s is damaged: %s; %d events were read.%s", path, status.message(),
                               report.events - std::min(report.events, report.events_bad),
                               report.events == report.events_bad ? "" : " The output covers these."));
      return kDamaged;
    case StatusCode::kInvalidArgument:
      if (report.is_empty) {
        Complain(absl::StrFormat("nothing happened in %s: it is %s.", path, status.message()));
        return kNothingFound;
      }
      Complain(absl::StrFormat("%s is not a trace readable by this version: %s. It reads %s, plain or gzipped.", path,
                               WithoutPath(status, path), ReadableFormats()));
      return kNotADump;
    default:
      return ComplainUnreadable(path, status);
  }
}

bool IsNamedPipe(const std::string& path) {
  struct stat facts = {};
  return stat(path.c_str(), &facts) == 0 && S_ISFIFO(facts.st_mode);
}

int LoadFile(const std::string& path, model::Trace* trace, LoadReport* report) {
  report->paths.push_back(path);
  std::string file;
  if (const int kept = KeepPiped(path, &file); kept != kDone) return kept;
  if (IsNamedPipe(file)) {
    Complain(
        absl::StrFormat("%s is a named pipe, and a reader opens its file more than once. Read it from standard "
                        "input: `cat %s | pitot info -`.",
                        path, path));
    return kNotADump;
  }
  const Status status = ReadTrace(file, trace, &report->file);
  return report->IsDump() ? AnswerOfDump(path, status, report->file.dump, report->is_recovering)
                          : AnswerOf(path, status, report->file);
}

// Each of these writes the trace. An error of the place is kIoError.
Status WriteTo(int descriptor, Serializer& serializer, const model::Trace& trace, uint64_t* bytes) {
  FILE* const file = descriptor < 0 ? nullptr : fdopen(descriptor, "wb");
  return file == nullptr ? SystemError(errno) : WriteAndClose(serializer, trace, file, bytes);
}
Status WriteStdout(Serializer& serializer, const model::Trace& trace, uint64_t* bytes) {
  return WriteTo(dup(STDOUT_FILENO), serializer, trace, bytes);
}
// Devices and pipes are written directly.
Status WriteSpecial(Serializer& serializer, const model::Trace& trace, const std::string& path, uint64_t* bytes) {
  return WriteTo(open(path.c_str(), O_WRONLY | O_CLOEXEC), serializer, trace, bytes);
}
// Files are replaced only once the output is complete.
Status Replace(Serializer& serializer, const model::Trace& trace, const std::string& path, uint64_t* bytes) {
  TemporaryFile file(path);
  const Status status = WriteTo(file.descriptor(), serializer, trace, bytes);
  return !status.ok() || file.MoveTo(path) ? status : SystemError(errno);
}

bool IsSpecial(const std::string& path) {
  struct stat existing = {};
  return stat(path.c_str(), &existing) == 0 && !S_ISREG(existing.st_mode) && !S_ISDIR(existing.st_mode);
}

}  // namespace

void Complain(const std::string& message, const std::string& below) {
  absl::FPrintF(stderr, "pitot: %s\n%s%s", base::SanitizeText(message), base::SanitizeText(below),
                below.empty() ? "" : "\n");
}
void Print(const std::string& text) { fwrite(text.data(), 1, text.size(), stdout); }
void PrintLine(const std::string& text) { Print(text + "\n"); }

size_t WrapWidth(size_t otherwise) {
  constexpr int64_t kLeast = 60, kMost = 200;
  const char* const said = getenv("COLUMNS");
  int64_t columns = 0;
  if (said == nullptr || !absl::SimpleAtoi(said, &columns) || columns <= 0) return otherwise;
  return static_cast<size_t>(std::clamp(columns, kLeast, kMost));
}

int FlushOutput() {
  errno = 0;  // that of something earlier, otherwise
  if (fflush(stdout) == 0 && ferror(stdout) == 0) return 0;
  return errno != 0 ? errno : EIO;
}

std::string WithoutPath(const Status& status, const std::string& path) {
  const std::string_view message = status.message();
  const std::string named = path + ": ";
  return std::string(message.substr(0, named.size()) == named ? message.substr(named.size()) : message);
}

int ComplainUnreadable(const std::string& path, const Status& status) {
  if (status.code() == StatusCode::kResourceExhausted) {
    Complain(
        absl::StrFormat("cannot read %s: %s. Read it on a machine with more memory.", path, WithoutPath(status, path)));
    return kUnreadable;
  }
  Complain(
      absl::StrFormat("cannot read %s: %s. Check the path and its permissions (incidents belong to the server's "
                      "user, mode 0600).",
                      path, WithoutPath(status, path)));
  return kUnreadable;
}

std::string DumpPath(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return path;
  if (const fs::path own = fs::path(path) / kDumpFile; fs::exists(own, error)) return own;
  const std::vector<std::string> below = DumpsBelow(path);
  if (OfLastMoment(below).size() != 1) return path;  // Load reads several, or complains
  if (below.size() > 1)
    Complain(absl::StrFormat("%s has %d incidents; using the newest, %s. Name another to read it.", path, below.size(),
                             ShortNames({below.back()})[0]));
  ComplainOfDumpsIn(path);
  return below.back();
}

std::string DumpPaths(std::vector<std::string>* paths) {
  for (std::string& path : *paths) path = DumpPath(path);
  return absl::StrJoin(*paths, ", ");
}

int Load(const std::string& path, model::Trace* trace, LoadReport* report) {
  if (std::error_code error; fs::is_directory(path, error)) {
    report->paths.push_back(path);
    return LoadFolder(path, trace, report);
  }
  return LoadFile(path, trace, report);
}

int Load(const std::vector<std::string>& paths, model::Trace* trace, LoadReport* report) {
  return paths.size() == 1 ? Load(paths[0], trace, report) : LoadSeveral(paths, trace, report);
}

std::string HowToRecord(const LoadReport& report, const std::string& what, const std::string& ours) {
  if (report.IsDump()) return ours;
  const auto& how = report.file.how;
  const auto found = std::find_if(how.begin(), how.end(), [&](const auto& one) { return one.first == what; });
  if (found != how.end()) return found->second + ".";
  return report.file.tool == "Pitot" ? "the file has none; look into the trace it was converted from."
                                     : report.file.tool + " does not record them.";
}

int ExitCodeOf(int loaded, int answered) {
  return loaded == kDamaged && (answered == kDone || answered == kNothingFound) ? kDamaged : answered;
}

int WriteFile(Serializer& serializer, const model::Trace& trace, const std::string& path, uint64_t* bytes,
              const char* option) {
  const bool is_stdout = path == "-";
  const Status status = is_stdout         ? WriteStdout(serializer, trace, bytes)
                        : IsSpecial(path) ? WriteSpecial(serializer, trace, path, bytes)
                                          : Replace(serializer, trace, path, bytes);
  if (status.ok()) return kDone;
  if (status.code() != StatusCode::kIoError) {
    Complain(absl::StrFormat("%s was not written: %s.", is_stdout ? "stdout" : path, status.message()));
  } else if (is_stdout) {
    Complain(absl::StrCat("cannot write to stdout: ", status.message()));
  } else {
    Complain(absl::StrFormat("cannot write %s: %s. Choose another place with %s.", path, status.message(), option));
  }
  return kNotWritten;
}

std::string WithExtension(const std::string& path, const std::string& extension) {
  if (IsDescriptor(path)) return "stdin" + extension;
  std::error_code error;
  if (fs::is_directory(path, error)) {
    fs::path folder = fs::path(path).lexically_normal();
    if (!folder.has_filename()) folder = folder.parent_path();
    if (const fs::path& name = folder.filename(); name == "." || name == "..") folder = fs::canonical(path, error);
    return folder.native() + extension;
  }
  const size_t slash = path.rfind('/'), dot = path.rfind('.');
  const size_t name = slash == std::string::npos ? 0 : slash + 1;
  const bool has_extension = dot != std::string::npos && dot > name;
  return (has_extension ? path.substr(0, dot) : path) + extension;
}

bool IsNoInput(const std::vector<std::string>& inputs, const std::string& output, const char* option) {
  std::error_code error;
  const auto is_output = [&](const std::string& input) { return fs::equivalent(input, output, error); };
  if (std::none_of(inputs.begin(), inputs.end(), is_output)) return true;
  Complain(absl::StrFormat("%s is an input. Choose another place with %s.", output, option));
  return false;
}

}  // namespace pitot::cli
