// SPDX-License-Identifier: Apache-2.0
//
// The files of a writer next to a SQLite database, looked at before SQLite believes them: it takes the damaged part of
// a write-ahead log for the end of it, sleeps if the log and its index contradict each other, and waits at a pipe.
#ifndef PITOT_LIB_READ_SQLITE_LOG_H_
#define PITOT_LIB_READ_SQLITE_LOG_H_

#include <cstdint>
#include <string>

namespace pitot::read {

enum class SqliteLog : uint8_t {
  kNone,     // or it holds nothing
  kWhole,    // SQLite may read it
  kNoIndex,  // SQLite would have to write the index
  kDamaged,  // or it is not a file
};
// The write-ahead log at `log` with its index at `index`. Reads the whole log.
SqliteLog LookAtLog(const std::string& log, const std::string& index);

// Whether there is a journal by which the last transaction is to be undone, or something else of its name.
bool IsHotJournal(const std::string& path);

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_SQLITE_LOG_H_
