// SPDX-License-Identifier: Apache-2.0
//
// The bytes of a database made by SQL.
#ifndef PITOT_TEST_READ_SQLITE_FILE_H_
#define PITOT_TEST_READ_SQLITE_FILE_H_

#include <sqlite3.h>

#include <stdexcept>
#include <string>

namespace read_test {

inline std::string Database(const std::string& sql) {
  sqlite3* database = nullptr;
  sqlite3_open(":memory:", &database);
  char* error = nullptr;
  sqlite3_exec(database, sql.c_str(), nullptr, nullptr, &error);
  const std::string problem = error == nullptr ? "" : error;
  sqlite3_free(error);
  sqlite3_int64 size = 0;
  unsigned char* const bytes = sqlite3_serialize(database, "main", &size, 0);
  const std::string file(reinterpret_cast<const char*>(bytes), bytes == nullptr ? 0 : static_cast<size_t>(size));
  sqlite3_free(bytes);
  sqlite3_close(database);
  if (!problem.empty()) throw std::runtime_error(problem + " in: " + sql.substr(0, 2000));
  return file;
}

}  // namespace read_test

#endif  // PITOT_TEST_READ_SQLITE_FILE_H_
