// SPDX-License-Identifier: Apache-2.0
//
// In place of sqlite_database.cc where CMake did not find SQLite.
#include "read/sqlite_database.h"

#include <utility>

namespace pitot::read {

struct SqliteDatabase::Connection {
  Status status{StatusCode::kInvalidArgument,
                "this pitot was built without SQLite: install libsqlite3-dev and build it again"};
  std::set<std::string> tables;
};
struct SqliteDatabase::Rows::Statement {};

SqliteDatabase::SqliteDatabase(const Input&) : connection_(std::make_unique<Connection>()) {}
SqliteDatabase::~SqliteDatabase() = default;
const Status& SqliteDatabase::status() const { return connection_->status; }
const std::set<std::string>& SqliteDatabase::tables() const { return connection_->tables; }
bool SqliteDatabase::HasColumn(const std::string&, const std::string&) const { return false; }
SqliteDatabase::Rows SqliteDatabase::Read(const std::string&, std::initializer_list<const char*>) {
  return Rows(nullptr);
}

SqliteDatabase::Rows::Rows(std::unique_ptr<Statement> statement) : statement_(std::move(statement)) {}
SqliteDatabase::Rows::Rows(Rows&&) noexcept = default;
SqliteDatabase::Rows::~Rows() = default;
bool SqliteDatabase::Rows::Next() { return false; }
std::optional<int64_t> SqliteDatabase::Rows::Number(int) const { return std::nullopt; }
std::string_view SqliteDatabase::Rows::Text(int) { return {}; }

}  // namespace pitot::read
