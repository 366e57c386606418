// SPDX-License-Identifier: Apache-2.0
//
// What hostile databases may not do.
#include "read/sqlite_database.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "fakes/temp_directory.h"
#include "read/nsys_file.h"
#include "read/parse.h"
#include "read/sqlite_file.h"

using namespace read_test;
using pitot::StatusCode;
using pitot::read::Input;
using pitot::read::SqliteDatabase;

namespace {

// Rows of column `value` of table `t`.
std::pair<size_t, pitot::Status> CountRows(const std::string& bytes) {
  const Input input = {"", bytes.data(), bytes.size()};
  SqliteDatabase database(input);
  size_t count = 0;
  SqliteDatabase::Rows rows = database.Read("t", {"value", "missing"});
  while (rows.Next()) {
    rows.Text(0);
    CHECK_FALSE(rows.Number(1).has_value());
    ++count;
  }
  return {count, database.status()};
}

// A database whose writer keeps `rows` rows in the write-ahead log, which it opened.
class OpenDatabase {
 public:
  OpenDatabase(const std::string& path, const std::string& sql) {
    sqlite3_open(path.c_str(), &handle_);
    Run("PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0;");
    Run(sql);
  }
  ~OpenDatabase() { sqlite3_close(handle_); }
  OpenDatabase(const OpenDatabase&) = delete;
  OpenDatabase& operator=(const OpenDatabase&) = delete;
  void Run(const std::string& sql) {
    REQUIRE(sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
  }

 private:
  sqlite3* handle_ = nullptr;
};

Read ReadFile(const std::string& path) {
  Read read;
  read.status = pitot::ReadTrace(path, &read.trace, &read.report);
  return read;
}

std::string ContentOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}
// The names and contents of a directory.
std::string ContentsOf(const std::string& directory) {
  std::string contents;
  for (const std::string& name : fakes::NamesIn(directory)) contents += name + ContentOf(directory + "/" + name);
  return contents;
}

size_t Big(const std::string& bytes, size_t at, size_t size) {
  size_t value = 0;
  for (size_t i = 0; i < size; ++i) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

// A table whose pages are a tree: all children of the root become one page, whose children are one page, and so on for
// 17 levels.
std::string RepeatedPages() {
  std::string bytes = Database(
      "PRAGMA page_size=512; CREATE TABLE t (value TEXT); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n "
      "WHERE i < 20000) INSERT INTO t SELECT 'abcdefgh' FROM n;");
  REQUIRE(CountRows(bytes).first == 20000);
  constexpr size_t kPage = 512, kRoot = 2, kLevels = 17;
  constexpr char kInterior = 5, kLeaf = 13;
  const std::string root = bytes.substr((kRoot - 1) * kPage, kPage);
  REQUIRE(root[0] == kInterior);
  size_t leaf = kRoot + kLevels;
  while (bytes[(leaf - 1) * kPage] != kLeaf) ++leaf;
  for (size_t level = 0; level < kLevels; ++level) {
    const size_t child = level + 1 < kLevels ? kRoot + level + 1 : leaf;
    const std::string number = {0, 0, static_cast<char>(child >> 8), static_cast<char>(child & 255)};
    std::string page = root;
    page.replace(8, 4, number);
    for (size_t cell = 0; cell < Big(page, 3, 2); ++cell) page.replace(Big(page, 12 + 2 * cell, 2), 4, number);
    bytes.replace((kRoot + level - 1) * kPage, kPage, page);
  }
  return bytes;
}

void WriteContent(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

}  // namespace

TEST_CASE("a table without a column has no values of it, and a missing table no rows", "[sqlite]") {
  CHECK(CountRows(Database("CREATE TABLE t (value TEXT); INSERT INTO t VALUES ('a'), (NULL);")).first == 2);
  CHECK(CountRows(Database("CREATE TABLE u (value TEXT); INSERT INTO u VALUES ('a');")).first == 0);
}

TEST_CASE("views, virtual tables and functions of a database are not run", "[sqlite]") {
  const auto [of_view, view] =
      CountRows(Database("CREATE TABLE u (value); INSERT INTO u VALUES (1);"
                         "CREATE VIEW t AS SELECT value FROM u;"));
  CHECK(of_view == 0);
  const auto [of_virtual, virtual_table] = CountRows(Database("CREATE VIRTUAL TABLE t USING fts5(value);"));
  CHECK(of_virtual == 0);
  const std::string bytes =
      Database("CREATE TABLE t (a INT, value TEXT AS (hex(zeroblob(a)))); INSERT INTO t (a) VALUES (1000000);");
  const auto [of_function, function] = CountRows(bytes);
  CHECK(of_function == 1);
  CHECK(function.ok());
  const Input input = {"", bytes.data(), bytes.size()};
  CHECK_FALSE(SqliteDatabase(input).HasColumn("t", "value"));
}

TEST_CASE("a tree of pages that repeats ends", "[sqlite]") {
  const std::string bytes = RepeatedPages();

  const auto [rows, status] = CountRows(bytes);

  CHECK(rows <= bytes.size() / 4);
  CHECK(std::string(status.message()) == "its tables hold more than a file of its size can: it is damaged");
}

TEST_CASE("few rows that take many steps end, too", "[sqlite]") {
  const std::string bytes = RepeatedPages();
  const Input input = {"", bytes.data(), bytes.size()};
  SqliteDatabase database(input);
  SqliteDatabase::Rows rows =
      database.Read("t", {"value", "value", "value", "value", "value", "value", "value", "value", "value", "value",
                          "value", "value", "value", "value", "value", "value", "value", "value", "value", "value",
                          "value", "value", "value", "value", "value", "value", "value", "value", "value", "value",
                          "value", "value", "value", "value", "value", "value", "value", "value", "value", "value",
                          "value", "value", "value", "value", "value", "value", "value", "value", "value", "value",
                          "value", "value", "value", "value", "value", "value", "value", "value", "value", "value"});
  size_t count = 0;
  while (rows.Next()) ++count;

  CHECK(count < bytes.size() / 5);  // fewer than the limit of rows
  CHECK(std::string(database.status().message()) == "its tables hold more than a file of its size can: it is damaged");
}

TEST_CASE("a damaged page costs the rest of its table, and says so", "[sqlite]") {
  std::string bytes = Database(
      "CREATE TABLE t (value TEXT); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n "
      "WHERE i < 5000) INSERT INTO t SELECT 'abcdefgh' FROM n;");
  bytes.replace(bytes.size() / 2 & ~size_t{4095}, 64, std::string(64, '\xff'));

  const auto [rows, status] = CountRows(bytes);

  CHECK(rows > 100);
  CHECK(rows < 5000);
  CHECK(status.code() == StatusCode::kDataLoss);
}

TEST_CASE("a database that is cut off is damaged wherever it is cut", "[sqlite]") {
  const std::string bytes = Database(NsysSql());
  for (size_t size = 0; size < bytes.size(); size += 997) {
    const Read read = Parse(bytes.substr(0, size));
    CHECK_FALSE(read.status.ok());
  }
}

TEST_CASE("a part of an export is read where the rest is damaged", "[sqlite]") {
  std::string sql = kNsysNames + kNsysRuntime;
  for (int i = 0; i < 2000; ++i)
    sql += "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (" + std::to_string(10 * i) + "," +
           std::to_string(10 * i + 5) + ",0," + Thread(100, 101) + "," + std::to_string(i) + ",4,0,NULL);";
  std::string bytes = Database(sql);
  bytes.replace(bytes.size() / 2 & ~size_t{4095}, 64, std::string(64, '\xff'));

  const Read read = Parse(bytes);

  CHECK(read.status.code() == StatusCode::kDataLoss);
  CHECK(read.trace.calls.size() > 100);
  CHECK(read.trace.calls.size() < 2000);
  CHECK_FALSE(read.report.complete);
  CHECK(read.trace.losses.size() == 1);
}

// In one process they share the index, so that its marks of readers may change.
TEST_CASE("rows in the write-ahead log of a writer at work are read", "[sqlite]") {
  const fakes::TempDirectory directory;
  const OpenDatabase writer(directory / "x.sqlite", NsysSql());
  const std::vector<std::string> names = fakes::NamesIn(directory.path());
  const std::string log = ContentOf(directory / "x.sqlite-wal");

  const Read read = ReadFile(directory / "x.sqlite");

  CHECK(read.status.ok());
  CHECK(read.trace.gpu.size() == 3);
  CHECK(fakes::NamesIn(directory.path()) == names);
  CHECK((ContentOf(directory / "x.sqlite-wal") == log));
}

TEST_CASE("rows in the write-ahead log of a dead writer are read, and nothing is written", "[sqlite]") {
  const fakes::TempDirectory directory, copy;
  const OpenDatabase writer(directory / "x.sqlite", NsysSql());
  for (const std::string& name : fakes::NamesIn(directory.path()))
    std::filesystem::copy_file(directory / name, copy / name);
  const std::string before = ContentsOf(copy.path());

  const Read read = ReadFile(copy / "x.sqlite");

  CHECK(read.status.ok());
  CHECK(read.trace.gpu.size() == 3);
  CHECK((ContentsOf(copy.path()) == before));
}

TEST_CASE("a link to a database finds its write-ahead log", "[sqlite]") {
  const fakes::TempDirectory directory, links;
  const OpenDatabase writer(directory / "x.sqlite", NsysSql());
  std::filesystem::create_symlink(directory / "x.sqlite", links / "link");

  const Read read = ReadFile(links / "link");

  CHECK(read.status.ok());
  CHECK(read.trace.gpu.size() == 3);
}

TEST_CASE("a write-ahead log without its index is named, and the rest is read", "[sqlite]") {
  const fakes::TempDirectory directory, copy;
  OpenDatabase writer(directory / "x.sqlite", NsysSql());
  std::filesystem::copy_file(directory / "x.sqlite", copy / "empty.sqlite");
  std::filesystem::copy_file(directory / "x.sqlite-wal", copy / "empty.sqlite-wal");
  writer.Run("PRAGMA wal_checkpoint(TRUNCATE); DELETE FROM OSRT_API;");
  std::filesystem::copy_file(directory / "x.sqlite", copy / "x.sqlite");
  std::filesystem::copy_file(directory / "x.sqlite-wal", copy / "x.sqlite-wal");
  const std::string before = ContentsOf(copy.path());

  const Read read = ReadFile(copy / "x.sqlite");
  CHECK(read.status.code() == StatusCode::kDataLoss);
  CHECK(std::string(read.status.message()).find("x.sqlite-wal, which was not read: run `sqlite3") != std::string::npos);
  CHECK(read.trace.gpu.size() == 3);
  CHECK_FALSE(read.report.complete);

  const Read empty = ReadFile(copy / "empty.sqlite");
  CHECK(empty.status.code() == StatusCode::kInvalidArgument);
  CHECK(std::string(empty.status.message()).find("empty.sqlite-wal, which was not read") != std::string::npos);
  CHECK((ContentsOf(copy.path()) == before));
}

TEST_CASE("a damaged write-ahead log is named, and the rest is read", "[sqlite]") {
  const fakes::TempDirectory directory;
  OpenDatabase writer(directory / "x.sqlite", NsysSql());
  writer.Run("PRAGMA wal_checkpoint(TRUNCATE); DELETE FROM OSRT_API; CREATE TABLE more (a);");
  const std::string database = ContentOf(directory / "x.sqlite"), log = ContentOf(directory / "x.sqlite-wal"),
                    index = ContentOf(directory / "x.sqlite-shm");
  constexpr size_t kMagic = 0, kVersion = 7, kSalt = 16, kHeadSum = 24, kPage = 32 + 24 + 1000;
  const auto with_other_byte = [&](size_t at) {
    std::string bytes = log;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    return bytes;
  };
  REQUIRE(log.size() > 5000);
  for (const std::string& damaged :
       {with_other_byte(kMagic), with_other_byte(kVersion), with_other_byte(kSalt), with_other_byte(kHeadSum),
        with_other_byte(kPage), log.substr(0, 5000), log.substr(0, 20), std::string(33, 'x')}) {
    const fakes::TempDirectory copy;
    WriteContent(copy / "x.sqlite", database);
    WriteContent(copy / "x.sqlite-wal", damaged);
    WriteContent(copy / "x.sqlite-shm", index);

    const Read read = ReadFile(copy / "x.sqlite");

    CHECK(read.status.code() == StatusCode::kDataLoss);
    CHECK(std::string(read.status.message()).find("x.sqlite-wal, which is damaged and was not read") !=
          std::string::npos);
    CHECK(read.trace.gpu.size() == 3);
  }
}

TEST_CASE("a pipe in the place of a database's log, index or journal is not opened", "[sqlite]") {
  const fakes::TempDirectory directory;
  OpenDatabase writer(directory / "x.sqlite", NsysSql());
  writer.Run("PRAGMA wal_checkpoint(TRUNCATE); DELETE FROM OSRT_API;");
  for (const std::string& name : std::vector<std::string>{"x.sqlite-wal", "x.sqlite-shm", "x.sqlite-journal"}) {
    CAPTURE(name);
    const fakes::TempDirectory copy;
    for (const std::string& other : fakes::NamesIn(directory.path())) {
      if (other != name) std::filesystem::copy_file(directory / other, copy / other);
    }
    REQUIRE(mkfifo((copy / name).c_str(), 0600) == 0);

    const Read read = ReadFile(copy / "x.sqlite");

    CHECK(read.status.code() == StatusCode::kDataLoss);
    CHECK(read.trace.gpu.size() == 3);
  }
}

TEST_CASE("a database with a transaction that is to be undone says so", "[sqlite]") {
  const fakes::TempDirectory directory, copy;
  sqlite3* handle = nullptr;
  sqlite3_open((directory / "x.sqlite").c_str(), &handle);
  REQUIRE(sqlite3_exec(handle, (NsysSql() + "BEGIN; DELETE FROM OSRT_API;").c_str(), nullptr, nullptr, nullptr) ==
          SQLITE_OK);
  sqlite3_db_cacheflush(handle);
  for (const std::string& name : fakes::NamesIn(directory.path()))
    std::filesystem::copy_file(directory / name, copy / name);
  sqlite3_close(handle);

  const Read read = ReadFile(copy / "x.sqlite");
  CHECK(read.status.code() == StatusCode::kDataLoss);
  CHECK(std::string(read.status.message()).find("which undoes it by " + (copy / "x.sqlite-journal")) !=
        std::string::npos);
  CHECK_FALSE(read.report.complete);

  // As PRAGMA journal_mode=PERSIST leaves it.
  WriteContent(copy / "x.sqlite-journal", std::string(512, '\0'));
  CHECK(ReadFile(copy / "x.sqlite").status.ok());
}
