#include "catalog/database.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <limits>
#include <thread>

#include "base/file.h"

namespace lzy {
namespace {

constexpr int kBusyMilliseconds = 10'000;

// Magic numbers of statfs(2). A file system that is not known to be local counts as a network file system.
constexpr std::array<std::uint64_t, 8> kLocal = {
    0xEF53,      // ext2, ext3, ext4
    0x58465342,  // XFS
    0x9123683E,  // Btrfs
    0x01021994,  // tmpfs
    0x794C7630,  // overlayfs
    0x2FC12FC1,  // ZFS
    0xF2F52010,  // F2FS
    0xCA451A4E,  // bcachefs
};

bool IsLocal(const std::string& path) {
  struct statfs about {};
  if (statfs(path.c_str(), &about) != 0) return false;
  return std::ranges::find(kLocal, static_cast<std::uint64_t>(about.f_type)) != kLocal.end();
}

// The name as a URI: the only way to request "immutable".
std::string Immutable(const std::string& path) {
  std::string uri = "file:";
  for (const char c : path) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '/' || c == '.' || c == '-' || c == '_';
    uri += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return uri + "?immutable=1";
}

// Repeats `call` while it is busy. SQLite itself does not wait if a reader wants the whole file, for example for another
// kind of journal.
template <class Call>
Status WaitFor(const Call& call) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(kBusyMilliseconds);
  for (;;) {
    Status status = call();
    if (status.code() != Code::kBusy || std::chrono::steady_clock::now() >= deadline) return status;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

// The error of the last call.
Status FailureOf(sqlite3* handle) {
  const int code = sqlite3_errcode(handle);
  const Code kind = code == SQLITE_BUSY                              ? Code::kBusy
                    : code == SQLITE_NOTADB || code == SQLITE_CORRUPT ? Code::kCorrupt
                    : code == SQLITE_NOMEM                            ? Code::kNoMemory
                                                                      : Code::kIo;
  return {kind, sqlite3_errmsg(handle)};
}

}  // namespace

Statement& Statement::Bind(std::int64_t value) {
  sqlite3_bind_int64(statement_.get(), ++bound_, value);
  return *this;
}

Statement& Statement::Bind(std::uint64_t value) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  return Bind(static_cast<std::int64_t>(std::min(value, kMost)));
}

Statement& Statement::Bind(double value) {
  sqlite3_bind_double(statement_.get(), ++bound_, value);
  return *this;
}

Statement& Statement::Bind(const std::string& text) {
  sqlite3_bind_text(statement_.get(), ++bound_, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
  return *this;
}

Result<bool> Statement::Step() {
  const int result = sqlite3_step(statement_.get());
  if (result == SQLITE_ROW) return true;
  if (result == SQLITE_DONE) return false;
  return FailureOf(sqlite3_db_handle(statement_.get()));
}

Status Statement::Run() {
  const Status done = Step().status();
  Reset();
  return done;
}

void Statement::Reset() {
  sqlite3_reset(statement_.get());
  bound_ = 0;
}

std::int64_t Statement::Integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

std::uint64_t Statement::Count(int column) const {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(Integer(column), 0));
}

double Statement::Real(int column) const {
  return sqlite3_column_double(statement_.get(), column);
}

std::string Statement::Text(int column) const {
  const auto* const text = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
  return text == nullptr ? std::string() : std::string(text, sqlite3_column_bytes(statement_.get(), column));
}

Statement::Idle::~Idle() {
  for (const auto& [sql, statements] : statements_) {
    for (sqlite3_stmt* const statement : statements) sqlite3_finalize(statement);
  }
}

sqlite3_stmt* Statement::Idle::Take(const std::string& sql) {
  const auto found = statements_.find(sql);
  if (found == statements_.end() || found->second.empty()) return nullptr;
  sqlite3_stmt* const statement = found->second.back();
  found->second.pop_back();
  return statement;
}

void Statement::Idle::Give(sqlite3_stmt* statement) noexcept {
  sqlite3_reset(statement);
  sqlite3_clear_bindings(statement);
  try {
    statements_[sqlite3_sql(statement)].push_back(statement);
  } catch (...) {  // no memory to keep it
    sqlite3_finalize(statement);
  }
}

Status Database::Failure() const {
  return FailureOf(handle_.get());
}

// A reader that may not create the files of the WAL can still read the file if its WAL is empty, because the file is then
// complete.
Result<Database> Database::Open(const std::string& path, DatabaseMode mode) {
  const bool write = mode == DatabaseMode::kWrite;
  if (write) {
    LZY_RETURN_IF_ERROR(PosixFileSystem().MakeDirectories(DirectoryOf(path)));
  } else if (access(path.c_str(), F_OK) != 0) {
    return Status(Code::kNotFound, "there is no such file");
  }
  const auto connect = [&](const std::string& name, int flags) -> Result<Database> {
    Database out;
    out.path_ = path;
    sqlite3* handle = nullptr;
    const int opened = sqlite3_open_v2(name.c_str(), &handle, flags | SQLITE_OPEN_NOMUTEX, nullptr);
    out.handle_.reset(handle);
    if (handle == nullptr) return Status(Code::kNoMemory, "out of memory");
    if (opened != SQLITE_OK) return out.Failure();
    sqlite3_busy_timeout(handle, kBusyMilliseconds);
    // A hostile file must not make this process run its code.
    sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
    sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
    // The first access: opening alone reads nothing.
    LZY_RETURN_IF_ERROR(out.Integer("PRAGMA user_version").status());
    return out;
  };
  if (!write) {
    auto read = connect(path, SQLITE_OPEN_READONLY);
    struct stat wal {};
    const bool has_wal = stat((path + "-wal").c_str(), &wal) == 0 && wal.st_size != 0;
    if (read.ok() || has_wal || read.status().code() == Code::kCorrupt) return read;
    return connect(Immutable(path), SQLITE_OPEN_READONLY | SQLITE_OPEN_URI);
  }
  // Accessible to the user alone, because file names may be confidential.
  const mode_t others = umask(0077);
  auto out = connect(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  umask(others);
  if (!out.ok()) return out;
  LZY_RETURN_IF_ERROR(WaitFor([&] { return out->Execute(IsLocal(path) ? "PRAGMA journal_mode = WAL" : "PRAGMA journal_mode = DELETE"); }));
  // After a power loss, the last transactions of a WAL may be lost; the file stays whole.
  LZY_RETURN_IF_ERROR(out->Execute("PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON"));
  return out;
}

Status Database::Execute(const std::string& sql) {
  return sqlite3_exec(handle_.get(), sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK ? Status::Ok() : Failure();
}

Result<Statement> Database::Prepare(const std::string& sql) {
  Statement out;
  sqlite3_stmt* statement = idle_->Take(sql);
  if (statement == nullptr &&
      sqlite3_prepare_v2(handle_.get(), sql.data(), static_cast<int>(sql.size()), &statement, nullptr) != SQLITE_OK) {
    return Failure();
  }
  out.statement_ = {statement, Statement::GiveBack{idle_}};
  return out;
}

Result<std::int64_t> Database::Integer(const std::string& sql) {
  LZY_ASSIGN_OR_RETURN(Statement statement, Prepare(sql));
  LZY_ASSIGN_OR_RETURN(const bool row, statement.Step());
  return row ? statement.Integer(0) : 0;
}

}  // namespace lzy
