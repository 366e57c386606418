// SPDX-License-Identifier: Apache-2.0
//
// `pitot query` with a stand-in for DuckDB, and the folder of tables. test/real_reader asks DuckDB itself.
#include <sys/resource.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <string>

#include "cli/folder.h"

namespace {

namespace fs = std::filesystem;
using cli_test::Dump;
using cli_test::Folder;
using cli_test::Result;
using fakes::ReadFile;

// A program that keeps its arguments and its input, and prints `output`.
void WriteDuckDb(const Folder& folder, const std::string& output, int exit_code) {
  const std::string path = folder.Write(
      "duckdb", "#!/bin/sh\ncd " + (folder / "") +
                    "\necho \"$@\" >arguments\necho \"$TZ\" >zone\ncat >script\nprintf '" + output +
                    "'\necho 'Binder Error: no such column' >&2\nexit " + std::to_string(exit_code) + "\n");
  chmod(path.c_str(), 0700);
}

// Asks in a folder whose TMPDIR is "tmp".
Result Ask(const Folder& folder, const std::string& arguments) {
  fs::create_directory(folder / "tmp");
  setenv("TMPDIR", (folder / "tmp").c_str(), 1);
  const Result result = folder.Run("query dump.pitot " + arguments + " --duckdb ./duckdb");
  unsetenv("TMPDIR");
  return result;
}

TEST_CASE("query gives DuckDB the named tables, and locks everything else before the question", "[cli]") {
  const Folder folder;
  folder.Write("dump.pitot", Dump());
  WriteDuckDb(folder, "a\\n1\\n", 0);

  const Result result = Ask(folder, "'select count(*) from Requests, stages -- x' --csv --memory 77");

  CHECK(result.exit_code == 0);
  CHECK(result.out == "a\n1\n");
  CHECK(ReadFile(folder / "arguments").find("-init /dev/null -batch -bail -csv") == 0);
  CHECK(ReadFile(folder / "zone") == "UTC\n");
  const std::string script = ReadFile(folder / "script");
  const auto at = [&](const std::string& text) { return script.find(text); };
  CHECK(at("SET memory_limit='77MB';") == 0);
  CHECK(at("CREATE VIEW requests AS SELECT * FROM read_parquet('") != std::string::npos);
  CHECK(at("CREATE VIEW stages AS") != std::string::npos);
  CHECK(at("CREATE VIEW events AS") == std::string::npos);
  CHECK(at("SET autoinstall_known_extensions=false;") < at(".safe_mode\n"));
  CHECK(at("SET allowed_directories=['") < at(".safe_mode\n"));
  CHECK(at(".safe_mode\nselect count(*) from Requests, stages -- x\n;\n") != std::string::npos);
  CHECK(fs::is_empty(folder / "tmp"));
}

TEST_CASE("a question that could not be written whole is not asked", "[cli]") {
  const Folder folder;
  folder.Write("dump.pitot", Dump());
  WriteDuckDb(folder, "a\\n1\\n", 0);
  const rlimit none{RLIM_INFINITY, RLIM_INFINITY}, small{32 << 10, RLIM_INFINITY};
  void (*const before)(int) = signal(SIGXFSZ, SIG_IGN);  // a file beyond the limit is an error, as on a full disk
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);

  const Result result = Ask(folder, "'select * from stages" + std::string(40'000, ' ') + "where 1 = 0'");
  setrlimit(RLIMIT_FSIZE, &none);
  signal(SIGXFSZ, before);

  CHECK(result.exit_code == 6);
  CHECK(result.err.find("is the disk full?") != std::string::npos);
  CHECK_FALSE(fs::exists(folder / "script"));
}

TEST_CASE("query has all tables for a question that names none", "[cli]") {
  const Folder folder;
  folder.Write("dump.pitot", Dump());
  WriteDuckDb(folder, "", 0);

  Ask(folder, "'show tables'");

  const std::string script = ReadFile(folder / "script");
  for (const char* const table : {"requests", "events", "gpu_work", "verdict_nodes", "attributes"})
    CHECK(script.find(std::string("CREATE VIEW ") + table + " AS") != std::string::npos);
}

TEST_CASE("query's exit code tells an empty answer, an error by DuckDB, and that it is missing", "[cli]") {
  const Folder folder;
  folder.Write("dump.pitot", Dump());

  WriteDuckDb(folder, "a,b\\n", 0);
  CHECK(Ask(folder, "'select 1' --csv").exit_code == 1);
  WriteDuckDb(folder, "[]\\n", 0);
  CHECK(Ask(folder, "'select 1' --json").exit_code == 1);
  WriteDuckDb(folder, "[{\"a\":1}]\\n", 0);
  CHECK(Ask(folder, "'select 1' --json").exit_code == 0);
  WriteDuckDb(folder, "+\\n|\\n+\\n+\\n", 0);
  CHECK(Ask(folder, "'select 1'").exit_code == 1);
  WriteDuckDb(folder, "+\\n|\\n+\\n|\\n+\\n", 0);
  CHECK(Ask(folder, "'select 1'").exit_code == 0);

  WriteDuckDb(folder, "", 1);
  const Result wrong = Ask(folder, "'select nothing'");
  CHECK(wrong.exit_code == 2);
  CHECK(wrong.err == "Binder Error: no such column\n");

  fs::remove(folder / "duckdb");
  const Result missing = Ask(folder, "'select 1'");
  CHECK(missing.exit_code == 3);
  CHECK(missing.err.find("pip install duckdb-cli") != std::string::npos);
  CHECK(fs::is_empty(folder / "tmp"));
  CHECK(folder.Run("query dump.pitot 'select 1' --csv --json").exit_code == 2);
  CHECK(folder.Run("query none.pitot 'select 1'").exit_code == 3);
  const Result blank = Ask(folder, "' '");
  CHECK(blank.exit_code == 2);
  CHECK(blank.err == "pitot: the query is empty: \"show tables\" lists the tables.\n");
}

TEST_CASE("convert --to parquet writes a folder of tables, which only the user can read", "[cli]") {
  const Folder folder;
  folder.Write("dump.pitot", Dump());

  const Result result = folder.Run("convert dump.pitot --to parquet");

  CHECK(result.exit_code == 0);
  CHECK(result.out.find("wrote dump.tables/*.parquet (") == 0);
  CHECK(fs::status(folder / "dump.tables").permissions() == fs::perms::owner_all);
  for (const char* const table : {"requests", "events", "gpu_work", "verdicts"}) {
    const std::string bytes = ReadFile(folder / (std::string("dump.tables/") + table + ".parquet"));
    CHECK(bytes.substr(0, 4) == "PAR1");
    CHECK(bytes.substr(bytes.size() - 4) == "PAR1");
  }
  CHECK(folder.Run("convert dump.pitot --to parquet -o -").exit_code == 2);
  CHECK(folder.Run("convert dump.pitot --to parquet -o none/tables").exit_code == 6);
  CHECK(folder.Run("convert dump.pitot --to parquet --compress -o packed").exit_code == 0);
  CHECK(ReadFile(folder / "packed/events.parquet").find("\x1f\x8b") != std::string::npos);
  CHECK(ReadFile(folder / "dump.tables/events.parquet").find("\x1f\x8b") == std::string::npos);
}

}  // namespace
