// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "cli/command.h"
#include "cli/command_line.h"
#include "cli/duckdb.h"
#include "cli/files.h"
#include "cli/leftovers.h"
#include "cli/table_files.h"
#include "tables/tables.h"

namespace pitot::cli {
namespace {

struct QueryOptions {
  std::string input, sql;
  DuckDb database;
  bool csv = false, json = false;
};

std::set<std::string> WordsOf(const std::string& sql) {
  std::set<std::string> words;
  std::string word;
  for (const char c : sql + " ") {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_') {
      word += absl::ascii_tolower(static_cast<unsigned char>(c));
    } else if (!word.empty()) {
      words.insert(std::exchange(word, {}));
    }
  }
  return words;
}

// The tables that a query names; all if it names none, such as "show tables".
std::vector<tables::Table> NamedTables(const model::Trace& trace, const std::string& sql) {
  const std::set<std::string> words = WordsOf(sql);
  std::vector<tables::Table> all = tables::TablesOf(trace), named;
  std::copy_if(all.begin(), all.end(), std::back_inserter(named),
               [&](const tables::Table& table) { return words.count(table.name) != 0; });
  return named.empty() ? all : named;
}

int Query(QueryOptions options) {
  if (absl::StripAsciiWhitespace(options.sql).empty()) {
    Complain("the query is empty: \"show tables\" lists the tables.");
    return kUsage;
  }
  model::Trace trace;
  LoadReport report;
  const int loaded = Load(options.input, &trace, &report);
  if (loaded != kDone && loaded != kDamaged) return loaded;

  std::error_code ignored;
  const TemporaryFolder folder(std::filesystem::temp_directory_path(ignored) / "pitot_query_XXXXXX");
  if (folder.error() != 0) {
    Complain("cannot make a folder for the tables in TMPDIR. Name another folder there.");
    return kNotWritten;
  }
  std::vector<tables::Table> tables = NamedTables(trace, options.sql);
  for (const tables::Table& table : tables) options.database.tables.push_back(table.name);
  uint64_t bytes = 0;
  if (const int written = WriteTables(trace, std::move(tables), folder.path(), false, &bytes); written != kDone)
    return written;
  options.database.folder = folder.path();
  options.database.layout = options.csv ? Layout::kCsv : options.json ? Layout::kJson : Layout::kTable;
  return ExitCodeOf(loaded, Ask(options.database, options.sql));
}

}  // namespace

void AddQuery(CommandLine& line) {
  auto options = std::make_shared<QueryOptions>();
  const Command command = line.Command("query", "Answers a question in SQL about the trace's tables, with DuckDB");
  command.Add("dump", &options->input, kDumpHelp).Required();
  command.Add("sql", &options->sql, "The query: \"select route, count(*) from requests group by route\"").Required();
  const Option csv = command.AddFlag("--csv", &options->csv, "Print CSV");
  command.AddFlag("--json", &options->json, "Print JSON").Excludes(csv);
  command.Add("--memory", &options->database.memory_mb, "What DuckDB may take, in MB").Whole(64, 1 << 20).ShowDefault();
  command.Add("--duckdb", &options->database.program, "The program of DuckDB 1.2 or later").ShowDefault();
  command.Footer(
      "The tables are those of `pitot convert --to parquet`; \"show tables\" and \"describe requests\" list them and "
      "their columns. A query can read nothing else and change nothing: it has no network, no other files and no "
      "extensions.");
  command.Run([options] {
    options->input = DumpPath(options->input);
    return Query(*options);
  });
}

}  // namespace pitot::cli
