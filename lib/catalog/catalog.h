#pragma once
// The catalogue: what lzy remembers of datasets. Tools note what they found. lzy-scrub asks which datasets were read longest
// ago, and lzy-status asks for everything (docs/design/repair.md §8, "Portions, scrubs and the catalogue").
//
// No verdict depends on the catalogue, and the user may delete it at any time. So a caller treats every failure as a warning.
// Times are nanoseconds since 1970, 0 for "never"; the caller passes the present time. Local: one rank uses it.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "catalog/database.h"
#include "request/report.h"

namespace lzy {

/// A dataset as it was when a tool last examined it.
struct CatalogDataset {
  std::int64_t id = 0;
  std::string path;  ///< absolute: the file, or the pattern of a set
  std::string kind;  ///< "shared" or "set"
  std::string uuid;
  std::string root;
  /// As in reports; or "unreadable": the last attempt to read it failed (exit code 6); or "vanished": data and sidecar are
  /// gone, and nothing shows that the user wanted this; or "gone": they are gone, and this is no loss.
  std::string state;
  int exit_code = 0;
  std::uint32_t devices = 0, parity = 0, groups = 0, block_size = 0;
  std::uint64_t bytes = 0, sidecar_bytes = 0, generation = 0;
  std::int64_t first_seen = 0, last_seen = 0, last_commit = 0;
  /// All of it was read after this time.
  std::int64_t last_verified = 0;
  /// An unfinished pass of lzy-scrub: when it began, how many unit rows it has read, and how many there are.
  std::int64_t pass_began = 0;
  std::uint64_t pass_rows = 0, rows = 0;
  /// Its data were edited, and nothing else is wrong. Edits are not damage, so they make no events.
  bool waits = false;
  bool only_a_commit_helps = false;  ///< its data were edited, and its damage also waits for the next commit
  /// The commands to type next after the last complete examination (CatalogNote). Empty: they follow from the other fields.
  std::string next = {};
};

/// Something that happened. "damage" lasts until it is repaired. "vanished" and "unprotected" last until the dataset is
/// protected again, or the user acknowledges them.
struct CatalogEvent {
  std::int64_t id = 0;
  std::int64_t time = 0;
  std::int64_t dataset = 0;  ///< 0: the event is a run of a tool
  std::string dataset_path;
  std::string tool;
  /// "damage", "transient", "protected", "removed", "moved", "replaced", "vanished", "unprotected", "gone", "run".
  std::string what;
  std::string path;   ///< damage: the file. moved: the old path
  std::string part;   ///< damage: data, parity, metadata
  std::string place;  ///< damage: the failure domain of the device, or its directory
  std::string cause;
  std::uint32_t device = 0;
  std::uint64_t offset = 0, length = 0;  ///< run: length is the number of bytes that were read
  bool beyond_repair = false;
  /// Damage: the objects in the range. If the event is only a part of a finding, it has all objects of the finding. At most
  /// kMostEventObjects (event_objects.h).
  std::vector<DamagedObject> objects = {};
  std::uint64_t objects_left_off = 0;  ///< number of further objects
  std::int64_t ended = 0;  ///< damage: 0 while it lasts
  std::string outcome;     ///< how it ended: "repaired", "committed", "not found again"; run: its options
  double seconds = 0;      ///< duration of a run
};

/// An operation of a tool on a dataset.
struct CatalogNote {
  enum class Read { kNothing, kPart, kWhole };
  std::string tool;
  std::string path;  ///< absolute (CatalogPath)
  std::int64_t now = 0;
  /// How much of the data was compared with its hashes. If less than kWhole, there may be damage that is not reported. For
  /// kPart, report.portion has the part.
  Read read = Read::kWhole;
  bool removed = false;  ///< the sidecars were removed on purpose
  bool unreadable = false;  ///< reading it failed
  /// Lines with the commands to type next, with absolute paths. They depend on more than the catalogue knows.
  std::string next = {};
};

/// The number of damages at one place: a failure domain or a directory.
struct CatalogPlace {
  std::string place;
  std::uint64_t lately = 0;  ///< since the requested time
  std::uint64_t ever = 0;
  std::uint64_t open = 0;
};

/// A change of the protection of a known dataset.
struct CatalogLoss {
  enum class Kind {
    kVanished,     ///< neither data nor sidecar exist
    kUnprotected,  ///< the data exist without a sidecar
    kWanted,       ///< one of these two, and on purpose; `why` has the reason
    kBack,         ///< it was one of the first two and is protected again
  };
  std::int64_t dataset = 0;
  Kind kind = Kind::kVanished;
  std::string why = {};
};

/// The findings of a note that the catalogue did not have.
struct CatalogNews {
  std::vector<Damage> damage;
  /// Since the last note, the dataset has become beyond repair, or cannot be judged any more.
  bool worse = false;
};

class Catalog {
 public:
  /// The newest form of the file that this lzy knows (PRAGMA user_version).
  static int Version();
  /// See DefaultCatalogPath.
  static std::string DefaultPath(const std::function<const char*(const char*)>& get = nullptr);

  /// Opens the file. With kWrite, creates it if it does not exist, and updates an older form. The message names the file and
  /// says what to do. kNotFound: there is none (kRead). kNewerFormat: a newer lzy made it. kCorrupt: it is damaged, or is no
  /// catalogue.
  static Result<Catalog> Open(const std::string& path, DatabaseMode mode);
  const std::string& path() const { return path_; }

  /// Stores several notes, all or none. Returns what is new in each. Known damage is not noted again. Reports of failures
  /// that say nothing about the dataset are ignored.
  Result<std::vector<CatalogNews>> Note(const std::vector<std::pair<CatalogNote, DatasetReport>>& notes);
  /// Stores a run of a tool: how much it read, and how fast. `how`: its options.
  Status NoteRun(const std::string& tool, std::int64_t now, double seconds, std::uint64_t bytes, const std::string& how);
  /// Stores that datasets were lost or came back, all or none. Losses that already last need not be noted again.
  Status NoteLosses(const std::string& tool, std::int64_t now, const std::vector<CatalogLoss>& losses);
  /// Ends the lasting losses for which `which` returns true, because the user knows them. Returns their number.
  Result<std::size_t> Acknowledge(const std::string& tool, std::int64_t now, const std::function<bool(const CatalogEvent&)>& which);

  /// All datasets, sorted by path. If `directory` is given, only those below it or equal to it. The functions below use
  /// `directory` in the same way.
  Result<std::vector<CatalogDataset>> Datasets(const std::string& directory = "");
  Result<std::optional<CatalogDataset>> Find(const std::string& path);
  /// Files that are protected each for itself, and not gone, whose paths begin with `prefix` (not empty): their ids, by path.
  Result<std::map<std::string, std::int64_t>> FilesBeginningWith(const std::string& prefix);
  /// Lasting damage.
  Result<std::vector<CatalogEvent>> OpenDamage(const std::string& directory = "");
  /// Lasting "vanished" and "unprotected" events, sorted by path of the dataset.
  Result<std::vector<CatalogEvent>> OpenLosses(const std::string& directory = "");
  /// The newest events, at most `most` (0: all), oldest first.
  Result<std::vector<CatalogEvent>> Events(const std::string& directory = "", std::size_t most = 0);
  /// All places where damage was found, sorted by the number of damages since `since`, highest first.
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
  /// Lasting events that are one of `what` (SQL), below `directory`.
  Result<std::vector<CatalogEvent>> OpenEvents(const char* what, const std::string& directory);
  Database database_;
  std::string path_;
  std::string dataset_columns_, event_columns_;  // the columns of the file's form
};

/// The path by which the catalogue knows a dataset: absolute, with links in its directory resolved. The directory of a
/// pattern is not resolved.
std::string CatalogPath(const std::string& path, bool pattern);

/// True if `path` is the file `catalog` (may be empty: none) or a file beside it: SQLite's journals, and the notes of
/// deletions. Such files change all the time, so it is useless to protect them.
bool IsOfCatalog(const std::string& path, const std::string& catalog);

/// Ends the lasting "vanished" and "unprotected" events of a dataset (losses.cc).
Status EndLosses(Database& database, std::int64_t dataset, std::int64_t now, const std::string& outcome);

/// Creates or updates the tables (migrations.cc).
Status Migrate(Database& database);

}  // namespace lzy
