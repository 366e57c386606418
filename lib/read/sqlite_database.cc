// SPDX-License-Identifier: Apache-2.0
#include "read/sqlite_database.h"

#include <sqlite3.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <new>
#include <utility>

#include "base/text.h"
#include "read/sqlite_log.h"

namespace pitot::read {
namespace {

// What a database of so many bytes can hold. A hostile one repeats pages, and would never end.
constexpr uint64_t kBytesOfRow = 4;   // the smallest
constexpr uint64_t kStepsOfByte = 8;  // of SQLite's machine
constexpr uint64_t kTextsOfByte = 4;  // bytes of text: it may be stored as UTF-16
constexpr int kStepsAtOnce = 1000;    // between two looks at the limits
constexpr int kMostCellBytes = 16 << 20;
constexpr uint64_t kLeastSteps = 1 << 20, kLeastTextBytes = 1 << 16;

uint64_t SizeOfFile(const std::string& path) {
  struct stat facts {};
  return stat(path.c_str(), &facts) == 0 ? static_cast<uint64_t>(facts.st_size) : 0;
}

// Immutable: SQLite takes no lock, and does not look for a log. With a log it needs the index next to it, which it
// would make: so that it only looks at one.
constexpr const char *kImmutable = "immutable=1", *kWithLog = "readonly_shm=1";

std::string UriOf(const std::string& path, const char* mode) {
  std::string uri = "file:";
  for (const char c : path) {
    if (c == '%' || c == '?' || c == '#') {
      constexpr char kDigits[] = "0123456789abcdef";
      const auto byte = static_cast<unsigned char>(c);
      uri += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    } else {
      uri += c;
    }
  }
  return uri + "?mode=ro&" + mode;
}

std::string Quoted(std::string_view name) {
  std::string quoted = "\"";
  for (const char c : name) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

constexpr std::string_view kColumnsOf = "table_xinfo";

int AllowReading(void*, int action, const char* name, const char*, const char*, const char*) {
  const bool is_asking = action == SQLITE_PRAGMA && name != nullptr && name == kColumnsOf;
  return action == SQLITE_SELECT || action == SQLITE_READ || is_asking ? SQLITE_OK : SQLITE_DENY;
}

// The bytes of the whole file, as its head says. 0: unknown.
uint64_t SizeInHead(const Input& input) {
  unsigned char head[100] = {};
  bool is_gzip = false;
  const std::unique_ptr<ByteSource> source = input.Open(&is_gzip);
  size_t have = 0;
  for (size_t got = 1; got != 0 && have < sizeof head; have += got)
    got = source->Read(reinterpret_cast<char*>(head) + have, sizeof head - have);
  const auto number = [&](size_t at) {
    return uint64_t{head[at]} << 24 | uint64_t{head[at + 1]} << 16 | uint64_t{head[at + 2]} << 8 | head[at + 3];
  };
  const uint64_t page = uint64_t{head[16]} << 8 | head[17], pages = number(28);
  const bool is_known = number(24) == number(92);  // otherwise an old version changed the file
  return is_known ? pages * (page == 1 ? 65536 : page) : 0;
}

}  // namespace

struct SqliteDatabase::Connection {
  sqlite3* handle = nullptr;
  Status status;
  std::set<std::string> tables;
  std::map<std::string, std::set<std::string>> columns;  // of tables that were asked for
  uint64_t file_bytes = 0, log_bytes = 0;
  std::string unread;                            // what next to the file was not read, and what to do; "": nothing
  uint64_t steps = 0, rows = 0, text_bytes = 0;  // left
  bool is_endless = false;

  ~Connection() { sqlite3_close(handle); }

  void Fail(StatusCode code, int result) {
    if (result == SQLITE_NOMEM) throw std::bad_alloc();
    if (!status.ok()) return;
    const std::string why = is_endless ? "its tables hold more than a file of its size can: it is damaged"
                                       : base::SanitizeText(sqlite3_errmsg(handle));
    status = Status(code, why.c_str());
  }
  bool IsDamaged(int result) const {
    return is_endless || result == SQLITE_CORRUPT || result == SQLITE_NOTADB || result == SQLITE_TOOBIG;
  }

  int Open(const std::string& name) {
    sqlite3_close(std::exchange(handle, nullptr));
    constexpr int kFlags = SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE;
    return sqlite3_open_v2(name.c_str(), &handle, kFlags, nullptr);
  }

  int Open(const Input& input) {
    if (input.IsFile()) return OpenFile(input.path);
    file_bytes = input.size;
    if (const int result = Open(":memory:"); result != SQLITE_OK) return result;
    // It only reads them.
    auto* const bytes = static_cast<unsigned char*>(const_cast<void*>(input.data));
    return sqlite3_deserialize(handle, "main", bytes, static_cast<sqlite3_int64>(file_bytes),
                               static_cast<sqlite3_int64>(file_bytes), SQLITE_DESERIALIZE_READONLY);
  }

  int OpenFile(const std::string& path) {
    file_bytes = SizeOfFile(path);
    if (const int result = Open(UriOf(path, kImmutable)); result != SQLITE_OK) return result;
    const char* const name = sqlite3_db_filename(handle, "main");
    const std::string log = sqlite3_filename_wal(name), journal = sqlite3_filename_journal(name);
    if (IsHotJournal(journal)) {
      unread =
          "its writer left a transaction half done: run `sqlite3 FILE 'PRAGMA schema_version'` first, which undoes "
          "it by " +
          base::SanitizeText(journal);
      return SQLITE_OK;
    }
    const SqliteLog found = LookAtLog(log, std::string(name) + "-shm");
    if (found == SqliteLog::kNone) return SQLITE_OK;
    log_bytes = SizeOfFile(log);
    if (found == SqliteLog::kWhole && Open(UriOf(path, kWithLog)) == SQLITE_OK &&
        sqlite3_exec(handle, "PRAGMA schema_version", nullptr, nullptr, nullptr) == SQLITE_OK)
      return SQLITE_OK;
    unread = "its latest rows are in " + base::SanitizeText(log) +
             (found == SqliteLog::kDamaged ? ", which is damaged and was not read"
                                           : ", which was not read: run `sqlite3 FILE 'PRAGMA wal_checkpoint'` first");
    return Open(UriOf(path, kImmutable));
  }

  // Without columns that the database computes: it would choose what is executed.
  const std::set<std::string>& ColumnsOf(const std::string& table) {
    const auto [known, is_new] = columns.try_emplace(table);
    if (!is_new) return known->second;
    const std::string sql = "PRAGMA main." + std::string(kColumnsOf) + "(" + Quoted(table) + ")";
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v2(handle, sql.c_str(), -1, &statement, nullptr) != SQLITE_OK) return known->second;
    constexpr int kName = 1, kHidden = 6;
    while (sqlite3_step(statement) == SQLITE_ROW) {
      if (sqlite3_column_int(statement, kHidden) == 0)
        known->second.insert(reinterpret_cast<const char*>(sqlite3_column_text(statement, kName)));
    }
    sqlite3_finalize(statement);
    return known->second;
  }

  void Restrict() {
    for (const auto& [option, value] : {std::pair{SQLITE_DBCONFIG_DEFENSIVE, 1},
                                        {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
                                        {SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0},
                                        {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},
                                        {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
                                        {SQLITE_DBCONFIG_WRITABLE_SCHEMA, 0},
                                        {SQLITE_DBCONFIG_DQS_DML, 0},
                                        {SQLITE_DBCONFIG_DQS_DDL, 0}})
      sqlite3_db_config(handle, option, value, nullptr);
    for (const auto& [limit, value] : {std::pair{SQLITE_LIMIT_LENGTH, kMostCellBytes},
                                       {SQLITE_LIMIT_SQL_LENGTH, 1 << 20},
                                       {SQLITE_LIMIT_EXPR_DEPTH, 200},
                                       {SQLITE_LIMIT_COMPOUND_SELECT, 50},
                                       {SQLITE_LIMIT_VDBE_OP, 100'000},
                                       {SQLITE_LIMIT_ATTACHED, 0},
                                       {SQLITE_LIMIT_WORKER_THREADS, 0}})
      sqlite3_limit(handle, limit, value);
    sqlite3_progress_handler(
        handle, kStepsAtOnce,
        [](void* connection) -> int {
          auto& self = *static_cast<Connection*>(connection);
          self.is_endless |= self.steps < kStepsAtOnce;
          self.steps -= std::min<uint64_t>(self.steps, kStepsAtOnce);
          return self.is_endless;
        },
        this);
    sqlite3_set_authorizer(handle, AllowReading, nullptr);
  }
};

struct SqliteDatabase::Rows::Statement {
  Connection& connection;
  sqlite3_stmt* handle = nullptr;
  explicit Statement(Connection* of) : connection(*of) {}
  ~Statement() { sqlite3_finalize(handle); }
};

SqliteDatabase::SqliteDatabase(const Input& input) : connection_(std::make_unique<Connection>()) {
  if (const int result = connection_->Open(input); result != SQLITE_OK) {
    connection_->Fail(StatusCode::kInvalidArgument, result);
    return;
  }
  const uint64_t size = connection_->file_bytes + connection_->log_bytes;
  connection_->steps = kLeastSteps + size * kStepsOfByte;
  connection_->rows = size / kBytesOfRow;
  connection_->text_bytes = kLeastTextBytes + size * kTextsOfByte;
  connection_->Restrict();
  // Virtual tables are tables, too.
  Rows rows = Read("sqlite_master", {"type", "name", "sql"});
  while (rows.Next()) {
    const bool is_table = rows.Text(0) == "table";
    const std::string name(rows.Text(1));
    if (is_table && sqlite3_strnicmp(std::string(rows.Text(2)).c_str(), "CREATE TABLE", 12) == 0)
      connection_->tables.insert(name);
  }
  if (!connection_->status.ok()) {
    connection_->status = Status(StatusCode::kInvalidArgument, std::string(connection_->status.message()).c_str());
  } else if (!connection_->unread.empty()) {
    connection_->status = Status(StatusCode::kDataLoss, connection_->unread.c_str());
  } else if (connection_->file_bytes < SizeInHead(input)) {
    connection_->status = Status(StatusCode::kDataLoss, "it is cut off");
  }
}
SqliteDatabase::~SqliteDatabase() = default;

const Status& SqliteDatabase::status() const { return connection_->status; }
const std::set<std::string>& SqliteDatabase::tables() const { return connection_->tables; }

bool SqliteDatabase::HasColumn(const std::string& table, const std::string& column) const {
  return HasTable(table) && connection_->ColumnsOf(table).count(column) != 0;
}

SqliteDatabase::Rows SqliteDatabase::Read(const std::string& table, std::initializer_list<const char*> columns) {
  const bool is_schema = table == "sqlite_master";
  if (!is_schema && !HasTable(table)) return Rows(nullptr);
  std::string sql;
  for (const char* column : columns)
    sql += (sql.empty() ? "SELECT " : ", ") + (is_schema || HasColumn(table, column) ? Quoted(column) : "NULL");
  sql += " FROM main." + Quoted(table);
  auto statement = std::make_unique<Rows::Statement>(connection_.get());
  const int result = sqlite3_prepare_v2(connection_->handle, sql.c_str(), -1, &statement->handle, nullptr);
  if (result == SQLITE_OK) return Rows(std::move(statement));
  connection_->Fail(connection_->IsDamaged(result) ? StatusCode::kDataLoss : StatusCode::kInvalidArgument, result);
  return Rows(nullptr);
}

SqliteDatabase::Rows::Rows(std::unique_ptr<Statement> statement) : statement_(std::move(statement)) {}
SqliteDatabase::Rows::Rows(Rows&&) noexcept = default;
SqliteDatabase::Rows::~Rows() = default;

bool SqliteDatabase::Rows::Next() {
  if (statement_ == nullptr) return false;
  Connection& connection = statement_->connection;
  connection.is_endless |= connection.rows == 0 || connection.text_bytes == 0;
  const int result = connection.is_endless ? SQLITE_INTERRUPT : sqlite3_step(statement_->handle);
  if (result == SQLITE_ROW) return --connection.rows, true;
  if (result != SQLITE_DONE) connection.Fail(StatusCode::kDataLoss, result);
  statement_.reset();
  return false;
}

std::optional<int64_t> SqliteDatabase::Rows::Number(int column) const {
  sqlite3_value* const value = sqlite3_column_value(statement_->handle, column);
  if (sqlite3_value_type(value) != SQLITE_INTEGER) return std::nullopt;
  return sqlite3_value_int64(value);
}

std::string_view SqliteDatabase::Rows::Text(int column) {
  sqlite3_value* const value = sqlite3_column_value(statement_->handle, column);
  if (sqlite3_value_type(value) == SQLITE_NULL) return {};
  const auto* const text = reinterpret_cast<const char*>(sqlite3_value_text(value));
  if (text == nullptr) {
    if (sqlite3_errcode(statement_->connection.handle) == SQLITE_NOMEM) throw std::bad_alloc();
    return {};
  }
  const auto size = static_cast<size_t>(sqlite3_value_bytes(value));
  statement_->connection.text_bytes -= std::min<uint64_t>(statement_->connection.text_bytes, size);
  return {text, size};
}

}  // namespace pitot::read
