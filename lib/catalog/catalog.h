#pragma once
// What lzy remembers of datasets: the catalogue. Tools note what they found; lzy-scrub asks what was read longest ago,
// lzy-status asks for everything.
//
// It holds no truth that sidecars do not, and may be deleted at any time. So every failure here is a warning to whoever
// called, never a reason to stop. Times are nanoseconds since 1970, 0 for "never"; the caller says what time it is.
// Local: one rank uses it.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "catalog/database.h"
#include "request/report.h"

namespace lzy {

/// A dataset, as it was when a tool last looked at it.
struct CatalogDataset {
  std::int64_t id = 0;
  std::string path;  ///< absolute: the file, or the pattern of a set
  std::string kind;  ///< "shared" or "set"
  std::string uuid;
  std::string root;
  /// As in reports; or "unreadable": the last look at it failed (exit code 6); or "vanished": neither the data nor a sidecar is there,
  /// and nobody is known to have wanted that; or "gone": it is no business of anybody any more.
  std::string state;
  int exit_code = 0;
  std::uint32_t devices = 0, parity = 0, groups = 0, block_size = 0;
  std::uint64_t bytes = 0, sidecar_bytes = 0, generation = 0;
  std::int64_t first_seen = 0, last_seen = 0, last_commit = 0;
  /// All of it has been read since then.
  std::int64_t last_verified = 0;
  /// A pass of lzy-scrub that is not complete: when it began, how many unit rows it has read, and how many there are.
  std::int64_t pass_began = 0;
  std::uint64_t pass_rows = 0, rows = 0;
  /// Its data were edited, and nothing else is wrong with them. Edits are no damage, so there are no events of them.
  bool waits = false;
  bool only_a_commit_helps = false;  ///< the same, and all that is damaged waits for that commit, too
  /// The commands to type next that the last look at all of it led to (CatalogNote). Empty: they follow from the rest.
  std::string next = {};
};

/// Something that happened. Damage is an event that lasts until it is repaired; "vanished" and "unprotected" last until
/// the dataset is protected again, or somebody acknowledges them.
struct CatalogEvent {
  std::int64_t id = 0;
  std::int64_t time = 0;
  std::int64_t dataset = 0;  ///< 0: it is about a run of a tool
  std::string dataset_path;
  std::string tool;
  /// "damage", "transient", "protected", "removed", "moved", "replaced", "vanished", "unprotected", "gone", "run".
  std::string what;
  std::string path;   ///< damage: the file. moved: the old path
  std::string part;   ///< damage: data, parity, metadata
  std::string place;  ///< damage: the failure domain of the device, or its directory
  std::string cause;
  std::uint32_t device = 0;
  std::uint64_t offset = 0, length = 0;  ///< run: length is the bytes that were read
  bool beyond_repair = false;
  /// Damage: what lies there. Of a finding of which a part was known before, all that lies in the finding. At most
  /// kMostEventObjects (event_objects.h).
  std::vector<DamagedObject> objects = {};
  std::uint64_t objects_left_off = 0;  ///< how many more there are
  std::int64_t ended = 0;  ///< damage: 0 while it lasts
  std::string outcome;     ///< how it ended: "repaired", "committed", "not found again"; run: its options
  double seconds = 0;      ///< of a run
};

/// What a tool did with a dataset.
struct CatalogNote {
  enum class Read { kNothing, kPart, kWhole };
  std::string tool;
  std::string path;  ///< absolute (CatalogPath)
  std::int64_t now = 0;
  /// What was compared with its hashes. If not all of it, damage that is not reported may still be there. kPart is
  /// explained by report.portion.
  Read read = Read::kWhole;
  bool removed = false;  ///< the sidecars were removed on purpose
  bool unreadable = false;  ///< it was only to be read, and that failed
  /// Lines with the commands to type next, in which paths are absolute. They depend on more than the catalogue knows.
  std::string next = {};
};

/// How much damage was found at one place: in a failure domain or a directory.
struct CatalogPlace {
  std::string place;
  std::uint64_t lately = 0;  ///< since the time that was asked for
  std::uint64_t ever = 0;
  std::uint64_t open = 0;
};

/// A dataset that the catalogue knows, and that is not where it was.
struct CatalogLoss {
  enum class Kind {
    kVanished,     ///< neither data nor sidecar are there
    kUnprotected,  ///< the data are there, without a sidecar
    kWanted,       ///< either of them, and it is right so: `why` says why
    kBack,         ///< it was one of the first two, and is protected again
  };
  std::int64_t dataset = 0;
  Kind kind = Kind::kVanished;
  std::string why = {};
};

/// What a note told that was not known before.
struct CatalogNews {
  std::vector<Damage> damage;
  /// It is beyond repair, or cannot be judged any more, since the last note.
  bool worse = false;
};

class Catalog {
 public:
  /// The newest form of the file that this lzy knows (PRAGMA user_version).
  static int Version();
  /// See DefaultCatalogPath.
  static std::string DefaultPath(const std::function<const char*(const char*)>& get = nullptr);

  /// Opens the file, makes it (kWrite only), and brings an older one up to date. The message names the file, and says
  /// what to do. kNotFound: there is none (kRead). kNewerFormat: a newer lzy made it. kCorrupt: it is damaged, or no
  /// catalogue.
  static Result<Catalog> Open(const std::string& path, DatabaseMode mode);
  const std::string& path() const { return path_; }

  /// Several notes, all or none; what is new, for each of them. Damage that is known is not noted twice. Reports of
  /// failures that say nothing about the dataset are ignored.
  Result<std::vector<CatalogNews>> Note(const std::vector<std::pair<CatalogNote, DatasetReport>>& notes);
  /// A run of a tool: how much it read, and how fast.
  Status NoteRun(const std::string& tool, std::int64_t now, double seconds, std::uint64_t bytes, const std::string& how);
  /// Datasets that were found to be gone, or back; all or none. Those that last already need not be noted again.
  Status NoteLosses(const std::string& tool, std::int64_t now, const std::vector<CatalogLoss>& losses);
  /// Ends the losses that last and that `which` picks: somebody knows of them. Returns how many.
  Result<std::size_t> Acknowledge(const std::string& tool, std::int64_t now, const std::function<bool(const CatalogEvent&)>& which);

  /// All datasets, by path; those below `directory` or equal to it, if it is given.
  Result<std::vector<CatalogDataset>> Datasets(const std::string& directory = "");
  Result<std::optional<CatalogDataset>> Find(const std::string& path);
  /// Damage that lasts; and the newest events, at most `most` (0: all), oldest first. `directory` as above.
  Result<std::vector<CatalogEvent>> OpenDamage(const std::string& directory = "");
  /// The same of "vanished" and "unprotected", by path of the dataset.
  Result<std::vector<CatalogEvent>> OpenLosses(const std::string& directory = "");
  Result<std::vector<CatalogEvent>> Events(const std::string& directory = "", std::size_t most = 0);
  /// All places where damage was found, those with most damage since `since` first. `directory` as above.
  Result<std::vector<CatalogPlace>> Places(const std::string& directory, std::int64_t since);
  /// The newest run of a tool, if there was one.
  Result<std::optional<CatalogEvent>> LastRun(const std::string& tool);

 private:
  Catalog(Database database, std::string path, std::string dataset_columns, std::string event_columns)
      : database_(std::move(database)),
        path_(std::move(path)),
        dataset_columns_(std::move(dataset_columns)),
        event_columns_(std::move(event_columns)) {}
  Status Named(const Status& status) const;
  /// Events that last and are one of `what` (SQL), below `directory`.
  Result<std::vector<CatalogEvent>> OpenEvents(const char* what, const std::string& directory);
  Database database_;
  std::string path_;
  std::string dataset_columns_, event_columns_;  // those that this form has
};

/// The path by which the catalogue knows a dataset: absolute, with links in its directory resolved. `path` may be a
/// pattern, whose directory part is taken as it is.
std::string CatalogPath(const std::string& path, bool pattern);

/// Whether `path` is the file `catalog` (may be empty: there is none), or one of those beside it: SQLite's journals, and the
/// notes of deletions. Such a file changes all the time, so there is no use in protecting it.
bool IsOfCatalog(const std::string& path, const std::string& catalog);

/// Ends what lasts of "vanished" and "unprotected" (losses.cc).
Status EndLosses(Database& database, std::int64_t dataset, std::int64_t now, const std::string& outcome);

/// Makes or updates the tables (migrations.cc).
Status Migrate(Database& database);

}  // namespace lzy
