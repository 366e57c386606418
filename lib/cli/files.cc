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
#include <iterator>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/command.h"
#include "cli/leftovers.h"
#include "pitot/read/join.h"
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

// A status's message without the path, which our own message names already.
std::string Reason(const Status& status, const std::string& path) {
  const std::string_view message = status.message();
  const std::string named = path + ": ";
  return std::string(message.substr(0, named.size()) == named ? message.substr(named.size()) : message);
}

int ComplainUnreadable(const std::string& path, const Status& status) {
  if (status.code() == StatusCode::kResourceExhausted) {
    Complain(absl::StrFormat("cannot read %s: %s. Read it on a machine with more memory.", path, Reason(status, path)));
    return kUnreadable;
  }
  Complain(
      absl::StrFormat("cannot read %s: %s. Check the path and its permissions (incidents belong to the server's "
                      "user, mode 0600).",
                      path, Reason(status, path)));
  return kUnreadable;
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
      return kDone;
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
                          path, Reason(status, path)));
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
                               Reason(status, path), ReadableFormats()));
      return kNotADump;
    default:
      return ComplainUnreadable(path, status);
  }
}

int LoadFile(const std::string& path, model::Trace* trace, LoadReport* report) {
  const Status status = ReadTrace(path, trace, &report->file);
  return report->IsDump() ? AnswerOfDump(path, status, report->file.dump, report->is_recovering)
                          : AnswerOf(path, status, report->file);
}

// The files of a folder, without hidden ones, by name.
std::vector<fs::path> FilesIn(const std::string& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code gone;
    if (entry->path().filename().native()[0] != '.' && entry->is_regular_file(gone)) paths.push_back(entry->path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::vector<std::string> InBoth(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  std::vector<std::string> both;
  std::copy_if(a.begin(), a.end(), std::back_inserter(both),
               [&](const std::string& one) { return std::find(b.begin(), b.end(), one) != b.end(); });
  return both;
}

// All traces of a folder as one, such as those of ranks or workers. Other files are left out.
int LoadFolder(const std::string& folder, model::Trace* trace, LoadReport* report) {
  std::vector<TracePart> parts;
  int loaded = kDone;
  for (const fs::path& path : FilesIn(folder)) {
    TracePart part;
    LoadReport own;
    const Status status = ReadTrace(path, &part.trace, &own.file);
    const bool is_trace = status.ok() || status.code() == StatusCode::kDataLoss;
    if (!is_trace && status.code() == StatusCode::kInvalidArgument) {
      if (own.file.is_empty || own.file.events != 0)
        Complain(absl::StrFormat("%s is left out: %s.", path.native(), Reason(status, path.native())));
      continue;
    }
    if (!is_trace) {
      static_cast<void>(ComplainUnreadable(path.native(), status));
      loaded = kDamaged;
      continue;
    }
    if (!own.file.problems.empty()) Complain(absl::StrFormat("%s: %s", path.native(), own.file.problems));
    if (!status.ok()) {
      Complain(absl::StrFormat("%s is damaged: %s. The output covers what was read.", path.native(), status.message()));
      loaded = kDamaged;
    }
    part.name = path.filename().native();
    part.name.resize(std::min(part.name.size(), part.name.find('.')));
    // A dump knows most about its process, so it comes first.
    const bool is_first = parts.empty() || (own.IsDump() && !report->IsDump());
    std::vector<std::string> lacks = parts.empty() ? own.file.lacks : InBoth(report->file.lacks, own.file.lacks);
    const bool is_complete = own.file.complete && (parts.empty() || report->file.complete);
    if (is_first) report->file = own.file;
    report->file.lacks = std::move(lacks);
    report->file.complete = is_complete;
    parts.insert(is_first ? parts.begin() : parts.end(), std::move(part));
  }
  if (parts.empty() && loaded == kDamaged) return kUnreadable;
  if (parts.empty()) {
    Complain(
        absl::StrFormat("there is no incident in %s: one is written when a trigger fires or the server calls "
                        "Recorder::Trigger.",
                        folder));
    return kUnreadable;
  }
  if (parts.size() == 1) return *trace = std::move(parts[0].trace), loaded;
  const size_t count = parts.size();
  if (const Status status = JoinTraces(&parts, trace); !status.ok()) {
    Complain(absl::StrFormat("cannot join the traces in %s: %s. Give one of its files.", folder, status.message()));
    return kUnreadable;
  }
  Complain(absl::StrFormat("%s has %d traces; joined by their clocks", folder, count));
  return loaded;
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

void Complain(const std::string& message) { absl::FPrintF(stderr, "pitot: %s\n", message); }
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

std::string DumpPath(const std::string& path) {
  constexpr const char* kName = "dump.pitot";
  std::error_code error;
  if (!fs::is_directory(path, error)) return path;
  const fs::path directory(path);
  if (fs::exists(directory / kName, error)) return directory / kName;
  // Names of incidents begin with their time.
  fs::path newest;
  int incidents = 0;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code missing;
    if (entry->path().filename().native()[0] == '.' || !fs::exists(entry->path() / kName, missing)) continue;
    newest = std::max(newest, entry->path());
    ++incidents;
  }
  if (incidents == 0) return path;  // Load complains
  if (incidents > 1)
    Complain(absl::StrFormat("%s has %d incidents; using the newest, %s", path, incidents, newest.filename().native()));
  return newest / kName;
}

int Load(const std::string& path, model::Trace* trace, LoadReport* report) {
  if (std::error_code error; fs::is_directory(path, error)) return LoadFolder(path, trace, report);
  return LoadFile(path, trace, report);
}

std::string HowToRecord(const LoadReport& report, const std::string& what, const std::string& ours) {
  if (report.IsDump()) return ours;
  const auto& how = report.file.how;
  const auto found = std::find_if(how.begin(), how.end(), [&](const auto& one) { return one.first == what; });
  return found == how.end() ? report.file.tool + " does not record them." : found->second + ".";
}

bool IsEmpty(const model::Trace& trace) {
  return trace.events.size() == 0 && trace.calls.size() == 0 && trace.gpu.size() == 0 && trace.samples.size() == 0 &&
         trace.requests.empty() && trace.batches.empty() && trace.handoffs.empty() && trace.asyncs.empty() &&
         trace.tokens.empty() && trace.overheads.empty();
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
  const size_t slash = path.rfind('/'), dot = path.rfind('.');
  const size_t name = slash == std::string::npos ? 0 : slash + 1;
  const bool has_extension = dot != std::string::npos && dot > name;
  return (has_extension ? path.substr(0, dot) : path) + extension;
}

bool AreDifferentFiles(const std::string& input, const std::string& output, const char* option) {
  struct stat a = {}, b = {};
  if (stat(input.c_str(), &a) != 0 || stat(output.c_str(), &b) != 0) return true;
  if (a.st_dev != b.st_dev || a.st_ino != b.st_ino) return true;
  Complain(absl::StrFormat("%s is the input itself. Choose another place with %s.", output, option));
  return false;
}

}  // namespace pitot::cli
