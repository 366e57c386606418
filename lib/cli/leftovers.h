// SPDX-License-Identifier: Apache-2.0
//
// Whatever must not be left over when the program ends: incomplete files, folders for its own use, and the program it
// started. Each has an object. A signal to end the program removes them first.
//
// Threads: one thread uses these objects.
#ifndef PITOT_LIB_CLI_LEFTOVERS_H_
#define PITOT_LIB_CLI_LEFTOVERS_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace pitot::cli {

// A file until it is complete.
class TemporaryFile {
 public:
  // Makes "PATH.XXXXXX" with a unique end, mode 0600.
  explicit TemporaryFile(const std::string& path);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  int descriptor() const { return descriptor_; }  // closed by the caller; -1: see errno
  // Replaces the file `path`, and stays. False: see errno.
  bool MoveTo(const std::string& path);

 private:
  std::string path_;
  int descriptor_;
};

// A folder for this user alone, with the files in it.
class TemporaryFolder {
 public:
  // Makes the folder. XXXXXX at the end of its path become unique.
  explicit TemporaryFolder(std::string path);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }
  int error() const { return error_; }  // 0, or why it could not be made, as errno
  void Keep();
  // Replaces the files of the same names in `folder`, and no signal ends the program meanwhile. Returns 0 or errno;
  // `failed` becomes the path that could not be replaced. A folder of such a name keeps all as it is.
  int MoveFilesTo(const std::string& folder, std::string* failed) const;

 private:
  std::string path_;
  int error_ = 0;
};

// A program in a process group of its own: a terminal's Ctrl-C does not reach it. Only one at a time.
class RunningProgram {
 public:
  // Looks for arguments[0] in PATH.
  RunningProgram(std::vector<std::string> arguments, std::vector<std::string> environment, const std::string& input,
                 int output);
  // Call Wait before.
  ~RunningProgram() = default;
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;
  int error() const { return error_; }  // 0, or why it could not be started, as errno
  int Wait();                           // returns waitpid's status

 private:
  int error_ = 0;
};

}  // namespace pitot::cli

#endif  // PITOT_LIB_CLI_LEFTOVERS_H_
