// SPDX-License-Identifier: Apache-2.0
//
// A SQLite database of unknown origin. Its tables are read from begin to end, and nothing in it is executed: no view,
// trigger, function, extension or virtual table. Nothing is written. A write-ahead log next to the file is read if its
// index is there, too. Only this part uses SQLite. A build without SQLite has no_sqlite.cc instead.
#ifndef PITOT_LIB_READ_SQLITE_DATABASE_H_
#define PITOT_LIB_READ_SQLITE_DATABASE_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "pitot/status.h"
#include "read/input.h"

namespace pitot::read {

class SqliteDatabase {
 public:
  // Whether the content begins like a database.
  static bool Looks(std::string_view bytes) { return bytes.substr(0, 15) == "SQLite format 3"; }

  // `input` must outlive the database.
  explicit SqliteDatabase(const Input& input);
  ~SqliteDatabase();

  // kInvalidArgument: not opened. kDataLoss: opened, but it is cut off, its write-ahead log could not be read, or a
  // table could not be read to its end.
  const Status& status() const;
  const std::set<std::string>& tables() const;
  bool HasTable(const std::string& name) const { return tables().count(name) != 0; }
  bool HasColumn(const std::string& table, const std::string& column) const;

  class Rows {
   public:
    ~Rows();
    Rows(Rows&&) noexcept;
    bool Next();
    // By the place of the column in Read. nullopt: NULL, not a whole number, or the table has no such column.
    std::optional<int64_t> Number(int column) const;
    int64_t Number(int column, int64_t otherwise) const { return Number(column).value_or(otherwise); }
    // Valid until Next. "": NULL, or the table has no such column.
    std::string_view Text(int column);

   private:
    friend class SqliteDatabase;
    struct Statement;
    explicit Rows(std::unique_ptr<Statement> statement);
    std::unique_ptr<Statement> statement_;
  };
  // Without rows if there is no such table.
  Rows Read(const std::string& table, std::initializer_list<const char*> columns);

 private:
  struct Connection;
  std::unique_ptr<Connection> connection_;
};

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_SQLITE_DATABASE_H_
