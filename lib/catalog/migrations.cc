// The form of the catalogue. To change it, add a step at the end of kSteps. Never change a step that was released.

#include <fmt/format.h>

#include <iterator>

#include "catalog/catalog.h"

namespace lzy {
namespace {

// "lzyc": distinguishes a catalogue from other SQLite files.
constexpr std::int64_t kApplication = 0x6c7a7963;

constexpr const char* kSteps[] = {
    // 1
    R"sql(
CREATE TABLE datasets (
  id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, uuid TEXT NOT NULL, root TEXT NOT NULL,
  state TEXT NOT NULL, exit_code INTEGER NOT NULL,
  devices INTEGER NOT NULL, parity INTEGER NOT NULL, groups INTEGER NOT NULL, block_size INTEGER NOT NULL,
  bytes INTEGER NOT NULL, sidecar_bytes INTEGER NOT NULL, generation INTEGER NOT NULL,
  first_seen INTEGER NOT NULL, last_seen INTEGER NOT NULL, last_commit INTEGER NOT NULL,
  last_verified INTEGER NOT NULL, pass_began INTEGER NOT NULL, pass_rows INTEGER NOT NULL, rows INTEGER NOT NULL);
CREATE INDEX datasets_by_uuid ON datasets (uuid);
CREATE TABLE events (
  id INTEGER PRIMARY KEY, time INTEGER NOT NULL, dataset INTEGER REFERENCES datasets (id) ON DELETE CASCADE,
  tool TEXT NOT NULL, what TEXT NOT NULL,
  path TEXT NOT NULL DEFAULT '', part TEXT NOT NULL DEFAULT '', place TEXT NOT NULL DEFAULT '',
  cause TEXT NOT NULL DEFAULT '', device INTEGER NOT NULL DEFAULT 0,
  offset INTEGER NOT NULL DEFAULT 0, length INTEGER NOT NULL DEFAULT 0, beyond_repair INTEGER NOT NULL DEFAULT 0,
  ended INTEGER NOT NULL DEFAULT 0, outcome TEXT NOT NULL DEFAULT '', seconds REAL NOT NULL DEFAULT 0);
CREATE INDEX events_of_dataset ON events (dataset);
CREATE INDEX open_damage ON events (dataset) WHERE what = 'damage' AND ended = 0;
)sql",
    // 2: names of what damage lies in (event_objects.h)
    R"sql(
ALTER TABLE events ADD COLUMN objects TEXT NOT NULL DEFAULT '';
)sql",
    // 3: whether what is wrong waits for a commit (request/edits.h)
    "ALTER TABLE datasets ADD COLUMN waits INTEGER NOT NULL DEFAULT 0;",
    // 4: what to type next
    "ALTER TABLE datasets ADD COLUMN next TEXT NOT NULL DEFAULT '';",
};

}  // namespace

int Catalog::Version() {
  return static_cast<int>(std::size(kSteps));
}

// Uses one transaction, which begins with the write lock. So of several processes that find an old file, one updates it.
Status Migrate(Database& database) {
  return database.Transact([&]() -> Status {
    LZY_ASSIGN_OR_RETURN(const std::int64_t version, database.Integer("PRAGMA user_version"));
    LZY_ASSIGN_OR_RETURN(const std::int64_t application, database.Integer("PRAGMA application_id"));
    LZY_ASSIGN_OR_RETURN(const std::int64_t objects, database.Integer("SELECT count(*) FROM sqlite_schema"));
    if (application != kApplication && (objects != 0 || version != 0)) {
      return {Code::kCorrupt, "it is an SQLite file of another program"};
    }
    if (version > Catalog::Version()) {
      return {Code::kNewerFormat, fmt::format("a newer version of lzy made it (form {}, this lzy knows {})", version,
                                              Catalog::Version())};
    }
    if (version < 0) return {Code::kCorrupt, fmt::format("its form is {}", version)};
    for (auto step = static_cast<std::size_t>(version); step < std::size(kSteps); ++step) {
      LZY_RETURN_IF_ERROR(database.Execute(kSteps[step]));
    }
    if (version == Catalog::Version()) return Status::Ok();
    return database.Execute(
        fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}", kApplication, Catalog::Version()));
  });
}

}  // namespace lzy
