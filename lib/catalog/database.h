#pragma once
// SQLite with Status and RAII: one connection, its statements and transactions. Knows nothing about datasets.
//
// Several processes may use the file at once, and each may be killed at any time: SQLite's journal keeps the file whole. On
// local file systems the journal is a WAL, with which readers do not wait for writers. A WAL needs shared memory of all
// processes, so on network file systems the journal is a rollback journal.

#include <sqlite3.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"

namespace lzy {

/// One statement, made by Database::Prepare. Bind its parameters in order, then Step through its rows. For one thread.
class Statement {
 public:
  Statement& Bind(std::int64_t value);
  Statement& Bind(std::uint64_t value);  ///< at most 2^63 - 1; larger values become that
  Statement& Bind(std::uint32_t value) { return Bind(std::uint64_t{value}); }
  Statement& Bind(int value) { return Bind(std::int64_t{value}); }
  Statement& Bind(double value);
  /// Any bytes except NUL. File names need not be UTF-8.
  Statement& Bind(const std::string& text);
  Statement& Bind(const char* text) { return Bind(std::string(text)); }

  /// Moves to the next row. Returns false if there is none.
  Result<bool> Step();
  /// Runs a statement without rows.
  Status Run();
  /// Makes the statement ready to be bound again.
  void Reset();

  std::int64_t Integer(int column) const;
  /// Never negative: a hostile or damaged file gives 0 instead.
  std::uint64_t Count(int column) const;
  /// Nanoseconds since 1970, never negative, so any two times can be subtracted.
  std::int64_t Time(int column) const { return static_cast<std::int64_t>(Count(column)); }
  double Real(int column) const;
  std::string Text(int column) const;

 private:
  friend class Database;
  /// A cache of the unused statements of one database, by their SQL: preparing a statement takes longer than running it.
  class Idle {
   public:
    Idle() = default;
    Idle(const Idle&) = delete;
    Idle& operator=(const Idle&) = delete;
    ~Idle();
    /// Null if there is none.
    sqlite3_stmt* Take(const std::string& sql);
    void Give(sqlite3_stmt* statement) noexcept;

   private:
    std::map<std::string, std::vector<sqlite3_stmt*>> statements_;
  };
  struct GiveBack {
    std::shared_ptr<Idle> idle;
    void operator()(sqlite3_stmt* statement) const { idle->Give(statement); }
  };
  std::unique_ptr<sqlite3_stmt, GiveBack> statement_;
  int bound_ = 0;
};

enum class DatabaseMode { kRead, kWrite };

class Database {
 public:
  /// kWrite creates the file and its directory if they do not exist, accessible to the user alone. kRead fails with
  /// kNotFound then. Every call waits up to ten seconds for other processes.
  static Result<Database> Open(const std::string& path, DatabaseMode mode);

  /// Runs SQL without parameters or rows, one or more statements.
  Status Execute(const std::string& sql);
  Result<Statement> Prepare(const std::string& sql);
  /// The only value of the only row; 0 if there is no row.
  Result<std::int64_t> Integer(const std::string& sql);
  std::int64_t last_row() const { return sqlite3_last_insert_rowid(handle_.get()); }

  /// Runs `work` in a transaction, all of it or nothing. Takes the write lock first, so `work` sees what it changes.
  template <class Work>
  Status Transact(const Work& work) {
    LZY_RETURN_IF_ERROR(Execute("BEGIN IMMEDIATE"));
    Status done = NoThrow(work);
    if (done.ok()) done = Execute("COMMIT");
    // After a failed COMMIT the transaction may still be open. If it is not, ROLLBACK does nothing.
    if (!done.ok()) (void)Execute("ROLLBACK");
    return done;
  }

 private:
  struct Close {
    void operator()(sqlite3* handle) const { sqlite3_close_v2(handle); }
  };
  Status Failure() const;
  std::unique_ptr<sqlite3, Close> handle_;
  std::shared_ptr<Statement::Idle> idle_ = std::make_shared<Statement::Idle>();
  std::string path_;
};

}  // namespace lzy
