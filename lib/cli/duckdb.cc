// SPDX-License-Identifier: Apache-2.0
#include "cli/duckdb.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/files.h"
#include "cli/leftovers.h"

namespace pitot::cli {
namespace {

constexpr const char* kGetIt =
    "Install it with `pip install duckdb-cli`, or from https://duckdb.org, and put it into PATH or name it with "
    "--duckdb. "
    "`pitot convert --to parquet` writes the same tables for other programs.";

std::string Quoted(const std::string& text) { return "'" + absl::StrReplaceAll(text, {{"'", "''"}}) + "'"; }

// The settings come first: nothing can be changed after .safe_mode.
std::string ScriptOf(const DuckDb& database, const std::string& sql) {
  std::string script = absl::StrFormat("SET memory_limit='%dMB';\nSET temp_directory=%s;\n", database.memory_mb,
                                       Quoted(database.folder));
  script += "SET autoinstall_known_extensions=false;\nSET autoload_known_extensions=false;\n";
  for (const std::string& table : database.tables) {
    const std::string file = database.folder + "/" + table + ".parquet";
    absl::StrAppend(&script, "CREATE VIEW ", table, " AS SELECT * FROM read_parquet(", Quoted(file), ");\n");
  }
  absl::StrAppend(&script, "SET allowed_directories=[", Quoted(database.folder + "/"), "];\n.safe_mode\n", sql,
                  "\n;\n");
  return script;
}

// The file that is DuckDB's input; with SQL from the command line it is bounded. "" if it could not be written whole.
std::string WriteScript(const DuckDb& database, const std::string& sql) {
  const std::string path = database.folder + "/query.sql";
  std::ofstream file(path);
  file << ScriptOf(database, sql);
  file.close();
  return file ? path : "";
}

std::vector<std::string> ArgumentsOf(const DuckDb& database) {
  std::vector<std::string> arguments = {database.program, "-init", "/dev/null", "-batch", "-bail"};
  switch (database.layout) {
    case Layout::kTable:
      arguments.emplace_back("-box");
      break;
    case Layout::kCsv:
      arguments.insert(arguments.end(), {"-csv", "-nullvalue", ""});
      break;
    case Layout::kJson:
      arguments.emplace_back("-json");
      break;
  }
  return arguments;
}

// Its environment: this one, with times in UTC.
std::vector<std::string> UtcEnvironment() {
  std::vector<std::string> environment = {"TZ=UTC"};
  for (char** one = environ; *one != nullptr; ++one) {
    if (std::string_view(*one).substr(0, 3) != "TZ=") environment.emplace_back(*one);
  }
  return environment;
}

// Passes the output on. Whether it has rows.
bool Relay(int output, Layout layout) {
  constexpr size_t kFrameLines = 4, kTitleLines = 1;  // of an answer without rows
  size_t lines = 0;
  std::string begin;
  char buffer[16 << 10];
  for (;;) {
    const ssize_t size = read(output, buffer, sizeof buffer);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    lines += static_cast<size_t>(std::count(buffer, buffer + size, '\n'));
    if (begin.size() < 2) begin.append(buffer, static_cast<size_t>(size));
    Print({buffer, static_cast<size_t>(size)});
  }
  close(output);
  if (layout == Layout::kJson) return !begin.empty() && begin.substr(0, 2) != "[]";
  return lines > (layout == Layout::kCsv ? kTitleLines : kFrameLines);
}

int CannotRun(const DuckDb& database, int error) {
  Complain(absl::StrFormat("cannot run DuckDB (%s): %s. %s", database.program, base::SystemText(error), kGetIt));
  return kUnreadable;
}

}  // namespace

int Ask(const DuckDb& database, const std::string& sql) {
  const std::string script = WriteScript(database, sql);
  if (script.empty()) {
    Complain(
        absl::StrFormat("cannot write to %s: is the disk full? Set TMPDIR to a folder elsewhere.", database.folder));
    return kNotWritten;
  }
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return CannotRun(database, errno);
  RunningProgram program(ArgumentsOf(database), UtcEnvironment(), script, ends[1]);
  close(ends[1]);
  if (program.error() != 0) {
    close(ends[0]);
    return CannotRun(database, program.error());
  }
  const bool has_rows = Relay(ends[0], database.layout);
  const int status = program.Wait();
  if (WIFSIGNALED(status)) {
    Complain("DuckDB was ended by " + base::SignalText(WTERMSIG(status)) + ".");
    return kUnreadable;
  }
  if (WEXITSTATUS(status) != 0) return kUsage;
  return has_rows ? kDone : kNothingFound;
}

}  // namespace pitot::cli
