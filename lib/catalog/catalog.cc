// Opens and reads the catalogue. note.cc writes it.

#include "catalog/catalog.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "catalog/event_objects.h"
#include "request/deletion_record.h"

namespace lzy {
namespace {

// The oldest form that can be read without an update.
constexpr std::int64_t kOldestReadable = 1;

// The column, or `without` if an older form does not have it. (A file that is opened for reading is not updated.)
Result<std::string> ColumnOr(Database& database, const char* table, const char* column, const char* without) {
  LZY_ASSIGN_OR_RETURN(
      const std::int64_t has,
      database.Integer(fmt::format("SELECT count(*) FROM pragma_table_info('{}') WHERE name = '{}'", table, column)));
  return std::string(has != 0 ? column : without);
}

// The columns that DatasetOf reads.
Result<std::string> DatasetColumns(Database& database) {
  LZY_ASSIGN_OR_RETURN(const std::string waits, ColumnOr(database, "datasets", "waits", "0"));
  LZY_ASSIGN_OR_RETURN(const std::string next, ColumnOr(database, "datasets", "next", "''"));
  return "id, path, kind, uuid, root, state, exit_code, devices, parity, groups, block_size, bytes, sidecar_bytes, "
         "generation, first_seen, last_seen, last_commit, last_verified, pass_began, pass_rows, rows, " + waits + ", " + next;
}

CatalogDataset DatasetOf(const Statement& row) {
  const auto number = [&](int column) { return static_cast<std::uint32_t>(row.Count(column)); };
  return {.id = row.Integer(0),
          .path = row.Text(1),
          .kind = row.Text(2),
          .uuid = row.Text(3),
          .root = row.Text(4),
          .state = row.Text(5),
          .exit_code = static_cast<int>(number(6)),
          .devices = number(7),
          .parity = number(8),
          .groups = number(9),
          .block_size = number(10),
          .bytes = row.Count(11),
          .sidecar_bytes = row.Count(12),
          .generation = row.Count(13),
          .first_seen = row.Time(14),
          .last_seen = row.Time(15),
          .last_commit = row.Time(16),
          .last_verified = row.Time(17),
          .pass_began = row.Time(18),
          .pass_rows = row.Count(19),
          .rows = row.Count(20),
          .waits = row.Integer(21) != 0,
          .only_a_commit_helps = row.Integer(21) == 2,
          .next = row.Text(22)};
}

// The columns that EventOf reads.
Result<std::string> EventColumns(Database& database) {
  LZY_ASSIGN_OR_RETURN(const std::string objects, ColumnOr(database, "events", "objects", "''"));
  return "e.id, e.time, e.dataset, d.path, e.tool, e.what, e.path, e.part, e.place, e.cause, e.device, e.offset, e.length, "
         "e.beyond_repair, e.ended, e.outcome, e.seconds, " + objects;
}

CatalogEvent EventOf(const Statement& row) {
  CatalogEvent event = {.id = row.Integer(0),
          .time = row.Time(1),
          .dataset = row.Integer(2),
          .dataset_path = row.Text(3),
          .tool = row.Text(4),
          .what = row.Text(5),
          .path = row.Text(6),
          .part = row.Text(7),
          .place = row.Text(8),
          .cause = row.Text(9),
          .device = static_cast<std::uint32_t>(row.Count(10)),
          .offset = row.Count(11),
          .length = row.Count(12),
          .beyond_repair = row.Integer(13) != 0,
          .ended = row.Time(14),
          .outcome = row.Text(15),
          .seconds = row.Real(16)};
  DecodeEventObjects(row.Text(17), event);
  return event;
}

template <class Row, class Make>
Result<std::vector<Row>> All(Statement& statement, const Make& make) {
  std::vector<Row> out;
  while (true) {
    LZY_ASSIGN_OR_RETURN(const bool more, statement.Step());
    if (!more) return out;
    out.push_back(make(statement));
  }
}

// Below a directory means: equal, or between "DIRECTORY/" and "DIRECTORY0"; '0' is the character after '/'.
constexpr const char* kBelow = "(?1 = '' OR path = ?1 OR (path >= ?1 || '/' AND path < ?1 || '0'))";

std::string Base(const std::string& directory) {
  return directory == "/" ? "" : directory;
}

}  // namespace

std::string Catalog::DefaultPath(const std::function<const char*(const char*)>& getenv_like) {
  return DefaultCatalogPath(getenv_like);
}

Status Catalog::Named(const Status& status) const {
  return status.WithContext(path_);
}

Result<Catalog> Catalog::Open(const std::string& path, DatabaseMode mode) {
  const auto refuse = [&](const Status& status) {
    const char* const advice = status.code() == Code::kCorrupt
                                   ? "; remove it, or use another one (--catalog FILE); to fill a new one: lzy-status --rescan PATH"
                                   : "";
    return Status(status.code(), fmt::format("{}: {}{}", path, status.message(), advice));
  };
  auto database = Database::Open(path, mode);
  if (!database.ok()) return refuse(database.status());
  if (mode == DatabaseMode::kWrite) {
    if (Status migrated = Migrate(*database); !migrated.ok()) return refuse(migrated);
  }
  const auto version = database->Integer("PRAGMA user_version");
  if (!version.ok()) return refuse(version.status());
  if (*version > Version()) {
    return refuse({Code::kNewerFormat, fmt::format("a newer version of lzy made it (form {}, this lzy knows {})", *version, Version())});
  }
  // The next tool that may write an older file updates it.
  if (*version < kOldestReadable) return refuse({Code::kNotFound, fmt::format("its form {} is too old to be read only", *version)});
  auto of_datasets = DatasetColumns(*database), of_events = EventColumns(*database);
  for (const auto& columns : {of_datasets, of_events}) {
    if (!columns.ok()) return refuse(columns.status());
  }
  return Catalog(std::move(*database), path, std::move(*of_datasets), std::move(*of_events));
}

Result<std::vector<CatalogDataset>> Catalog::Datasets(const std::string& directory) {
  auto rows = [&]() -> Result<std::vector<CatalogDataset>> {
    LZY_ASSIGN_OR_RETURN(Statement statement, database_.Prepare(fmt::format(
                                                  "SELECT {} FROM datasets WHERE {} ORDER BY path", dataset_columns_, kBelow)));
    statement.Bind(Base(directory));
    return All<CatalogDataset>(statement, DatasetOf);
  }();
  return rows.ok() ? std::move(rows) : Named(rows.status());
}

Result<std::optional<CatalogDataset>> Catalog::Find(const std::string& path) {
  auto rows = [&]() -> Result<std::vector<CatalogDataset>> {
    LZY_ASSIGN_OR_RETURN(Statement statement,
                         database_.Prepare(fmt::format("SELECT {} FROM datasets WHERE path = ?1", dataset_columns_)));
    statement.Bind(path);
    return All<CatalogDataset>(statement, DatasetOf);
  }();
  if (!rows.ok()) return Named(rows.status());
  return rows->empty() ? std::optional<CatalogDataset>() : std::move(rows->front());
}

// A range of paths, so that the index serves it. No path is the end itself, because it would not begin with the prefix.
Result<std::map<std::string, std::int64_t>> Catalog::FilesBeginningWith(const std::string& prefix) {
  std::string end = prefix;
  while (!end.empty() && static_cast<unsigned char>(end.back()) == 0xff) end.pop_back();
  if (end.empty()) return Status(Code::kInvalidArgument, "the prefix of a path");
  ++end.back();
  auto rows = [&]() -> Result<std::map<std::string, std::int64_t>> {
    LZY_ASSIGN_OR_RETURN(Statement statement, database_.Prepare("SELECT path, id FROM datasets WHERE path >= ? AND path < ? AND "
                                                                "kind = 'shared' AND state <> 'gone'"));
    statement.Bind(prefix).Bind(end);
    std::map<std::string, std::int64_t> found;
    for (;;) {
      LZY_ASSIGN_OR_RETURN(const bool row, statement.Step());
      if (!row) return found;
      found.emplace(statement.Text(0), statement.Integer(1));
    }
  }();
  return rows.ok() ? std::move(rows) : Named(rows.status());
}

Result<std::vector<CatalogEvent>> Catalog::OpenEvents(const char* what, const std::string& directory) {
  auto rows = [&]() -> Result<std::vector<CatalogEvent>> {
    LZY_ASSIGN_OR_RETURN(
        Statement statement,
        database_.Prepare(fmt::format("SELECT {} FROM events e JOIN datasets d ON d.id = e.dataset WHERE e.what {} AND "
                                      "e.ended = 0 AND e.dataset IN (SELECT id FROM datasets WHERE {}) ORDER BY d.path, e.path, e.offset",
                                      event_columns_, what, kBelow)));
    statement.Bind(Base(directory));
    return All<CatalogEvent>(statement, EventOf);
  }();
  return rows.ok() ? std::move(rows) : Named(rows.status());
}

Result<std::vector<CatalogEvent>> Catalog::OpenDamage(const std::string& directory) {
  return OpenEvents("= 'damage'", directory);
}

Result<std::vector<CatalogEvent>> Catalog::OpenLosses(const std::string& directory) {
  return OpenEvents("IN ('vanished', 'unprotected')", directory);
}

Result<std::vector<CatalogEvent>> Catalog::Events(const std::string& directory, std::size_t most) {
  auto rows = [&]() -> Result<std::vector<CatalogEvent>> {
    LZY_ASSIGN_OR_RETURN(
        Statement statement,
        database_.Prepare(fmt::format("SELECT {} FROM events e LEFT JOIN datasets d ON d.id = e.dataset WHERE ?1 = '' OR e.dataset IN "
                                      "(SELECT id FROM datasets WHERE {}) ORDER BY e.id DESC LIMIT ?2",
                                      event_columns_, kBelow)));
    statement.Bind(Base(directory)).Bind(most == 0 ? std::int64_t{-1} : static_cast<std::int64_t>(most));
    return All<CatalogEvent>(statement, EventOf);
  }();
  if (!rows.ok()) return Named(rows.status());
  std::ranges::reverse(*rows);
  return rows;
}

Result<std::vector<CatalogPlace>> Catalog::Places(const std::string& directory, std::int64_t since) {
  auto rows = [&]() -> Result<std::vector<CatalogPlace>> {
    LZY_ASSIGN_OR_RETURN(
        Statement statement,
        database_.Prepare(fmt::format("SELECT place, sum(time >= ?2), count(*), sum(ended = 0) FROM events WHERE what = 'damage' AND "
                                      "(?1 = '' OR dataset IN (SELECT id FROM datasets WHERE {})) GROUP BY place ORDER BY 2 DESC, 3 DESC, 1",
                                      kBelow)));
    statement.Bind(Base(directory)).Bind(since);
    return All<CatalogPlace>(statement, [](const Statement& row) {
      return CatalogPlace{row.Text(0), row.Count(1), row.Count(2), row.Count(3)};
    });
  }();
  return rows.ok() ? std::move(rows) : Named(rows.status());
}

Result<std::optional<CatalogEvent>> Catalog::LastRun(const std::string& tool) {
  auto rows = [&]() -> Result<std::vector<CatalogEvent>> {
    LZY_ASSIGN_OR_RETURN(Statement statement,
                         database_.Prepare(fmt::format("SELECT {} FROM events e LEFT JOIN datasets d ON d.id = e.dataset WHERE e.what = 'run' "
                                                       "AND e.tool = ?1 ORDER BY e.id DESC LIMIT 1",
                                                       event_columns_)));
    statement.Bind(tool);
    return All<CatalogEvent>(statement, EventOf);
  }();
  if (!rows.ok()) return Named(rows.status());
  return rows->empty() ? std::optional<CatalogEvent>() : std::move(rows->front());
}

// Resolves only the directory, because the file itself may be gone. A directory that does not exist stays as it is written.
std::string CatalogPath(const std::string& path, bool pattern) {
  std::error_code failed;
  std::filesystem::path whole = std::filesystem::absolute(path, failed).lexically_normal();
  if (failed) return path;
  if (!whole.has_filename()) whole = whole.parent_path();  // "d/" and "." now end with a slash; the root stays the root
  if (pattern) return whole.string();
  const std::filesystem::path directory = std::filesystem::canonical(whole.parent_path(), failed);
  return failed ? whole.string() : (directory / whole.filename()).string();
}

// Compares the base name first, which is nearly always enough and costs nothing.
bool IsOfCatalog(const std::string& path, const std::string& catalog) {
  const std::string name = BaseNameOf(catalog);
  if (catalog.empty() || !BaseNameOf(path).starts_with(name)) return false;
  const std::string rest = BaseNameOf(path).substr(name.size());
  for (const char* beside : {"", "-wal", "-shm", "-journal", ".deleted", ".deleted.old"}) {
    if (rest == beside) return DirectoryOf(CatalogPath(path, false)) == DirectoryOf(CatalogPath(catalog, false));
  }
  return false;
}

}  // namespace lzy
