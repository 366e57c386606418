// SPDX-License-Identifier: Apache-2.0
//
// Commands ended by a signal leave nothing over: neither files nor the program they started.
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/folder.h"
#include "fakes/child.h"

namespace {

namespace fs = std::filesystem;
using cli_test::Dump;
using cli_test::Folder;
using fakes::NamesIn;
using fakes::ReadFile;

// A pipe. Its reader learns of the end of the last writer.
class Pipe {
 public:
  Pipe() { REQUIRE(pipe2(ends_, O_CLOEXEC) == 0); }
  ~Pipe() {
    CloseReader();
    CloseWriter();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  int reader() const { return ends_[0]; }
  int writer() const { return ends_[1]; }
  void CloseReader() { Close(&ends_[0]); }
  void CloseWriter() { Close(&ends_[1]); }
  // Takes its room: the next writer waits.
  void Fill() const {
    REQUIRE(fcntl(writer(), F_SETFL, O_NONBLOCK) == 0);
    for (const std::string block(4096, ' '); write(writer(), block.data(), block.size()) > 0;) {}
    REQUIRE(fcntl(writer(), F_SETFL, 0) == 0);
  }

 private:
  static void Close(int* end) {
    if (*end >= 0) close(*end);
    *end = -1;
  }
  int ends_[2];
};

// Reads a line, or until there is no writer.
std::string ReadLine(int descriptor) {
  std::string line;
  for (char c = 0; read(descriptor, &c, 1) == 1 && c != '\n';) line += c;
  return line;
}

// `pitot`, leading a group of its own in the folder, with TMPDIR "tmp".
pid_t Start(const Folder& folder, std::vector<std::string> arguments, int out, int err) {
  fs::create_directory(folder / "tmp");
  return fakes::StartChild([&] {
    HOLDS(chdir((folder / "").c_str()) == 0 && setpgid(0, 0) == 0 &&
          setenv("TMPDIR", (folder / "tmp").c_str(), 1) == 0);
    HOLDS(dup2(out, STDOUT_FILENO) >= 0 && dup2(err, STDERR_FILENO) >= 0);
    std::vector<char*> pointers = {const_cast<char*>(PITOT_PROGRAM)};
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    execv(PITOT_PROGRAM, pointers.data());
    return 1;
  });
}

constexpr int kSignalled = 1000;  // WaitForChild's

// A DuckDB behind a wrapper, as of PyPI: it reports its start, waits for a line, and answers at length.
struct Query {
  Query() {
    folder.Write("dump.pitot", Dump());
    const std::string path = folder.Write("duckdb", "#!/bin/sh\ntrap 'echo Traceback >&2; exit 1' INT\nexec 3>" +
                                                        (folder / "runs") + "\n(echo runs >&3; read line <" +
                                                        (folder / "go") + "; yes answer | head -c 200000)\n");
    chmod(path.c_str(), 0700);
    for (const char* const name : {"runs", "go"}) REQUIRE(mkfifo((folder / name).c_str(), 0600) == 0);
    pid = Start(folder, {"query", "dump.pitot", "select 1", "--duckdb", "./duckdb"}, out.writer(), err.writer());
    out.CloseWriter();
    err.CloseWriter();
    runs = open((folder / "runs").c_str(), O_RDONLY | O_CLOEXEC);
    REQUIRE(ReadLine(runs) == "runs");
    REQUIRE_FALSE(fs::is_empty(folder / "tmp"));
  }
  ~Query() { close(runs); }

  Folder folder;
  Pipe out, err;
  pid_t pid = -1;
  int runs = -1;
};

TEST_CASE("a query that a signal ends leaves neither its tables nor DuckDB", "[cli]") {
  for (const int number : {SIGTERM, SIGHUP, SIGQUIT}) {
    INFO(sigabbrev_np(number));
    const Query query;

    kill(query.pid, number);

    CHECK(fakes::WaitForChild(query.pid) == kSignalled + number);
    CHECK(ReadLine(query.runs).empty());  // and returns: all of DuckDB's processes have ended
    CHECK(fs::is_empty(query.folder / "tmp"));
  }
}

TEST_CASE("Ctrl-C ends a query with a message of its own", "[cli]") {
  const Query query;

  kill(-query.pid, SIGINT);  // as a terminal does

  CHECK(fakes::WaitForChild(query.pid) == kSignalled + SIGINT);
  CHECK(ReadLine(query.err.reader()) == "pitot: ended by SIGINT; its unfinished output was removed.");
  CHECK(ReadLine(query.err.reader()).empty());
  CHECK(ReadLine(query.runs).empty());
  CHECK(fs::is_empty(query.folder / "tmp"));
}

TEST_CASE("a query whose reader goes leaves nothing over", "[cli]") {
  Query query;
  query.out.CloseReader();

  const int go = open((query.folder / "go").c_str(), O_WRONLY | O_CLOEXEC);
  CHECK(write(go, "\n", 1) == 1);
  close(go);

  CHECK(fakes::WaitForChild(query.pid) == kSignalled + SIGPIPE);
  CHECK(ReadLine(query.runs).empty());
  CHECK(ReadLine(query.err.reader()).empty());
  CHECK(fs::is_empty(query.folder / "tmp"));
}

TEST_CASE("a signal that the program was told to ignore does not end it", "[cli]") {
  void (*const before)(int) = signal(SIGHUP, SIG_IGN);
  const Query query;
  signal(SIGHUP, before);

  kill(query.pid, SIGHUP);
  const int go = open((query.folder / "go").c_str(), O_WRONLY | O_CLOEXEC);
  CHECK(write(go, "\n", 1) == 1);
  close(go);

  CHECK(ReadLine(query.out.reader()) == "answer");
  for (char block[4096]; read(query.out.reader(), block, sizeof block) > 0;) {}
  CHECK(fakes::WaitForChild(query.pid) == 0);
}

TEST_CASE("a conversion that a signal ends leaves no partial file", "[cli]") {
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) {
    INFO(sigabbrev_np(number));
    const Folder folder;
    folder.Write("whole.pitot", Dump());
    folder.Write("damaged.pitot", Dump().substr(0, Dump().size() - 10));
    const int changes = inotify_init1(IN_CLOEXEC);
    REQUIRE(inotify_add_watch(changes, (folder / "").c_str(), IN_CREATE) >= 0);
    // It waits to complain of the second dump, with the file begun.
    const Pipe err;
    err.Fill();
    const pid_t pid =
        Start(folder, {"convert", "whole.pitot", "damaged.pitot", "-o", "all.tar"}, err.writer(), err.writer());
    const auto is_begun = [&] {
      const std::vector<std::string> names = NamesIn(folder / "");
      return std::any_of(names.begin(), names.end(),
                         [](const std::string& name) { return name.rfind("all.tar.", 0) == 0; });
    };
    for (char events[4096]; !is_begun() && read(changes, events, sizeof events) > 0;) {}
    close(changes);

    kill(pid, number);

    CHECK(fakes::WaitForChild(pid) == kSignalled + number);
    CHECK(NamesIn(folder / "") == std::vector<std::string>{"damaged.pitot", "tmp", "whole.pitot"});
  }
}

// The exit of a conversion whose files may have `most` bytes.
int ConvertBounded(const Folder& folder, const std::string& output, rlim_t most) {
  const rlimit none{RLIM_INFINITY, RLIM_INFINITY}, small{most, RLIM_INFINITY};
  const Pipe out;
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  const pid_t pid =
      Start(folder, {"convert", "dump.pitot", "--to", "parquet", "-o", output}, out.writer(), out.writer());
  REQUIRE(setrlimit(RLIMIT_FSIZE, &none) == 0);
  return fakes::WaitForChild(pid);
}

TEST_CASE("a folder of tables is written as a whole or not at all", "[cli]") {
  const Folder folder;
  folder.Write("dump.pitot", Dump());
  REQUIRE(ConvertBounded(folder, "old", RLIM_INFINITY) == 0);
  uintmax_t most = 0;
  for (const auto& entry : fs::directory_iterator(folder / "old")) most = std::max(most, entry.file_size());
  const std::string requests = ReadFile(folder / "old/requests.parquet");
  folder.Write("old/requests.parquet", "before");
  const std::vector<std::string> names = NamesIn(folder / "old");

  CHECK(ConvertBounded(folder, "new", most - 1) == kSignalled + SIGXFSZ);
  CHECK(ConvertBounded(folder, "old", most - 1) == kSignalled + SIGXFSZ);
  CHECK_FALSE(fs::exists(folder / "new"));
  CHECK(NamesIn(folder / "old") == names);
  CHECK(ReadFile(folder / "old/requests.parquet") == "before");

  fs::remove(folder / "old/gpu_work.parquet");
  fs::create_directory(folder / "old/gpu_work.parquet");
  const cli_test::Result blocked = folder.Run("convert dump.pitot --to parquet -o old");
  CHECK(blocked.exit_code == 6);
  CHECK(blocked.err == "pitot: cannot write old/gpu_work.parquet: Is a directory. Choose another place with -o.\n");
  CHECK(NamesIn(folder / "old") == names);
  CHECK(ReadFile(folder / "old/requests.parquet") == "before");
  fs::remove(folder / "old/gpu_work.parquet");

  CHECK(ConvertBounded(folder, "old", most) == 0);
  CHECK(NamesIn(folder / "old") == names);
  CHECK(ReadFile(folder / "old/requests.parquet") == requests);
}

}  // namespace
