#pragma once
// The result of an operation on a dataset: the data behind messages, JSON and exit codes (docs/reference/tools.md).
//
// Every engine call returns one DatasetReport. judge/ fills in the damage, repair/ and commit/ their results; tools, hooks
// and the C API only print it. A report is the same on all ranks of the call. It is sent between ranks as a record
// (engine/side_by_side), so every field that a tool prints must be in LZY_FIELDS.
//
// Names and exit codes are promises (CONTRIBUTING.md): enumerators may be added at the end, in the order of the names in
// report.cc, and none may change.

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/record.h"
#include "base/status.h"
#include "geometry/layout.h"
#include "geometry/stripes.h"
#include "merkle/hash.h"
#include "sidecar/sidecar_format.h"

namespace lzy {

/// The summary of all findings; after a repair, that of the repaired dataset. kUnprotected also means that the dataset
/// cannot be judged. kRestored: it was damaged, and is intact now.
enum class DatasetState { kIntact, kDamaged, kUnrepairable, kStale, kAtRisk, kUnprotected, kRestored };
/// kMetadata: metadata of the sidecar, or of its spare copies in device directories.
enum class DamagePart { kData, kParity, kMetadata };
/// The difference between a block and its committed state: see the table in docs/design/repair.md §8. kNotVisible: a member
/// of a set that no process sees, and that may be on another node (report.not_visible). kEncoding: parity that does not
/// match the data of its row, often with the right hash.
enum class DamageCause { kHash, kUnreadable, kMissing, kStale, kAtRisk, kNotVisible, kEncoding };

/// The result of checking the stamps of an intact dataset; stamps distinguish edits from damage. kRacy: the last change
/// came within the same clock tick as the last commit, so later edits may go unnoticed. kTimesDiffer: the times of a file
/// differ from those of its commit (for example in a copy). kMoved: the sidecar that matches the content has the name of
/// another file. kTaken: the new stamps were recorded.
enum class StampNote : std::uint8_t { kNone, kRacy, kTimesDiffer, kMoved, kTaken };

/// An object in a damaged range, found with the format of the file (lib/objects): an HDF5 dataset, a netCDF variable.
struct DamagedObject {
  std::string format = {};  ///< "hdf5", "netcdf4" or "cdf"
  std::string name = {};    ///< "/fields/T"; for metadata, the nearest object; empty if unused
  std::string kind = {};    ///< "raw", "metadata" or "unused"
  /// Raw data: coordinates of the chunk, in chunks. nullopt: not chunked, or several chunks (chunks > 1).
  std::optional<std::vector<std::uint64_t>> chunk = {};
  /// Raw data: the first and the last damaged element in the order in which they are stored.
  std::optional<std::pair<std::vector<std::uint64_t>, std::vector<std::uint64_t>>> elements = {};
  bool filtered = false;    ///< the chunk is compressed or has another filter, so all of it is unreadable
  std::uint64_t chunks = 0; ///< number of chunks that this entry describes
  bool operator==(const DamagedObject&) const = default;
  LZY_FIELDS(format, name, kind, chunk, elements, filtered, chunks)
};

/// True for stale and at-risk blocks. They are edits; a repair undoes them only with `force`.
inline bool IsEdit(DamageCause cause) {
  return cause == DamageCause::kStale || cause == DamageCause::kAtRisk;
}

/// A range of bytes that differs from the commit. Neighbouring blocks with the same fields are one entry (MergeDamage).
struct Damage {
  std::string path = {};  ///< the file of offset and length (the data file; for parity and metadata the sidecar)
  std::uint32_t device = 0;
  DamagePart part = DamagePart::kData;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  DamageCause cause = DamageCause::kHash;
  bool transient = false;     ///< a second read past the page cache was right
  bool repaired = false;
  bool beyond_repair = false; ///< one of its rows has lost more blocks than parity can rebuild
  std::vector<DamagedObject> objects = {};  ///< objects in the range, filled in by objects/name.h
  std::uint64_t objects_left_off = 0;       ///< number of objects that `objects` does not list
  std::string domain = {};  ///< failure domain of the device at the commit; empty: unknown, or no member of a set
  LZY_FIELDS(path, device, part, offset, length, cause, transient, repaired, beyond_repair, objects, objects_left_off,
             domain)
};

/// True if the block is damaged in storage. False for an edit, for a block that was wrong only in the first read, and
/// for a block on another node.
inline bool IsLastingDamage(const Damage& damage) {
  return !damage.transient && !IsEdit(damage.cause) && damage.cause != DamageCause::kNotVisible;
}

/// Seconds that one operation spent in each phase, on the slowest rank.
struct Phases {
  double read = 0, hash = 0, encode = 0, exchange = 0, write = 0, sync = 0, total = 0;
  Phases& operator+=(const Phases& other);
  /// Converts the sum of the seconds of `threads` threads into a duration.
  Phases& operator/=(unsigned threads);
  LZY_FIELDS(read, hash, encode, exchange, write, sync, total)
};

/// All phases, for loops over them.
inline constexpr std::array kPhases = {&Phases::read,  &Phases::hash, &Phases::encode, &Phases::exchange,
                                       &Phases::write, &Phases::sync, &Phases::total};

/// Adds the seconds since the previous call, or since construction, to a field. Not thread-safe. Uses a steady clock.
class Stopwatch {
 public:
  void AddTo(double& seconds) {
    const auto now = std::chrono::steady_clock::now();
    seconds += std::chrono::duration<double>(now - start_).count();
    start_ = now;
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Unit rows [begin, end) of all `of` unit rows. A group may have fewer unit rows, and then ends earlier.
struct Portion {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t of = 0;
  bool whole() const { return begin == 0 && end == of; }
  LZY_FIELDS(begin, end, of)
};

/// The devices of one group. Parity is computed over their data.
struct GroupMap {
  struct Device {
    std::uint32_t device = 0;
    std::string path;    ///< member's path; empty for stripe positions
    std::string domain;  ///< failure domain; empty when unknown
    std::string server = {};  ///< server of the file system that has its data; several are separated by commas; empty when unknown
    LZY_FIELDS(device, path, domain, server)
  };
  std::vector<Device> devices;
  LZY_FIELDS(devices)
};

/// The distribution of a dataset over the servers of its file system, and the result of losing one server.
struct StripeNote {
  std::string file_system;
  std::uint64_t unit = 0;     ///< bytes on one server before the next server; the largest number: each file is on one server
  std::uint32_t servers = 0;  ///< servers with data; 0: their number is not known
  bool redundant = false;     ///< the file system itself survives the loss of a server
  bool by_servers = false;    ///< the dataset was made by stripe=servers
  std::string worst_server;   ///< the server whose loss takes the most blocks of a row, and the number of these blocks
  std::uint32_t worst_blocks = 0;
  LZY_FIELDS(file_system, unit, servers, redundant, by_servers, worst_server, worst_blocks)
};

/// The result of one engine call for one dataset. Sizes are in bytes, times in nanoseconds since 1970. Fields that a call
/// does not fill in keep their defaults.
struct DatasetReport {
  DatasetReport() = default;
  DatasetReport(std::string of, DatasetKind of_kind) : path(std::move(of)), kind(of_kind) {}

  std::string path;  ///< as the user wrote it or as found: file, or pattern of a set
  DatasetKind kind = DatasetKind::kShared;
  DatasetState state = DatasetState::kUnprotected;
  std::uint32_t devices = 0;
  std::uint32_t parity = 0;
  std::uint32_t groups = 0;
  std::uint32_t group_size = 0;  ///< devices of the largest group
  std::uint32_t block_size = 0;
  bool automatic_block_size = false;  ///< lzy chose block_size by the size of the file
  std::uint64_t unit = 0;
  std::uint64_t bytes = 0;
  std::uint64_t sidecar_bytes = 0;
  bool unsealed = false;  ///< a part of it is not sealed with the given key, or was changed after it was sealed
  std::string key;  ///< text that identifies the key of a sealed dataset (KeyText); empty: it is not sealed
  std::string uuid;  ///< identifies the dataset (docs/format.md §4), as text; changes if all of it is encoded anew
  std::uint64_t generation = 0;
  std::int64_t commit_time_ns = 0;
  Hash root;
  std::vector<Damage> damage;
  /// All copies of the hashes of some blocks are lost. Their data (`unchecked`) or parity can neither be checked nor
  /// rebuilt. They need not be damaged.
  bool unjudged = false;
  struct Unchecked {
    std::string path;
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    LZY_FIELDS(path, offset, length)
  };
  std::vector<Unchecked> unchecked;
  /// Some rows have more edited blocks than parity can rebuild, so a repair cannot undo the edits.
  bool cannot_undo = false;
  /// A file differs from its commit, and is another file than the committed one: it has another inode or birth, or the
  /// committed content of a file in another directory. It is neither repaired nor committed without `force`. Also true if a
  /// shared file has the sidecar of a member of a set.
  bool another = false;
  /// A file has the committed content of another file.
  bool holds_another = false;
  /// Shared file: it does not exist.
  bool gone = false;
  std::vector<std::string> warnings;  ///< complete sentences for the user
  std::vector<GroupMap> map;          ///< filled in by Info
  std::optional<StripeNote> stripes;  ///< filled in by Info, if the file system reports stripes
  std::optional<ServerGeometry> by_servers;  ///< geometry of a file whose geometry follows from stripes
  bool met_commit = false;            ///< another process committed during the call, so the damage found may not exist any more
  /// A process that has closed the file, and whose commit of it is under way in the background: "HOST:PID". Only if that
  /// process runs, or if it is on another machine (`commit_elsewhere`), so that this cannot be told.
  std::string commit_under_way;
  bool commit_elsewhere = false;
  bool in_epoch = false;              ///< Info: a program has a file open for writing (the sidecar has its intent)
  /// Restore, if nodes have disks of their own: members that existed on no node, and the nodes that have them now.
  std::vector<GroupMap::Device> placed;
  /// Members of a set that no process sees, and that may be on the disks of other nodes. `domain` is the node, if known. If
  /// there are any, nothing was written.
  std::vector<GroupMap::Device> not_visible;
  /// If no process sees all members: the known nodes that have members. The next command needs a process on each of them.
  std::vector<std::string> needed_nodes;
  /// Restore: bytes read from a replica. Dry run: bytes that would be read from it.
  std::uint64_t from_replica = 0;
  /// Verify: the portion that was compared with its hashes. `state` is the state of these rows.
  Portion portion;
  /// Verify, if the whole dataset is intact.
  StampNote stamps = StampNote::kNone;
  /// Verify with leave_written: a program is writing the dataset, so nothing was read.
  bool left_for_later = false;
  /// The caller stopped the run before this dataset. There is nothing to report.
  bool skipped = false;
  std::uint64_t bytes_read = 0;
  std::uint64_t bytes_captured = 0;   ///< data bytes that were captured while a program wrote them, so they were not read
  std::uint64_t bytes_encoded = 0;    ///< data bytes of rows that were encoded, for the first time or again
  bool parity_compared = false;       ///< Verify: encoded all rows with right data again, and compared the parity
  /// Protect with captures on all ranks: the captured contents are the right ones, because there was no other writer. In a
  /// set, each rank sets this for its own member.
  bool captures_count = false;
  bool committed = false;             ///< Protect: made a new generation; false: the dataset was up to date
  /// Unprotect: files were removed, or would be by a dry run. lzy-protect --dry-run: the dataset would be committed. Then
  /// `state` may be the state before.
  bool planned = false;
  std::vector<std::string> removed;   ///< Unprotect: files that were removed
  /// Protect: files that another dataset committed, and that are damaged according to it, or edited as it would not accept (`another`).
  std::vector<std::string> repair_first;
  /// Protect with own_intents: intents of other writers, which stay set; by rank of the member (0: shared file).
  std::map<std::uint32_t, Intent> kept_intents;
  Phases phases;
  /// Layer only, for the record of a commit; not sent to other ranks: how long sync or close took beyond the real call, and
  /// how long the commit took after that (0 with commit=wait).
  std::optional<double> seconds_blocked, seconds_background;
  /// Not ok: the operation failed (bad options, I/O, no sidecar, ...). `state` is what was known before the failure.
  Status status;

  LZY_FIELDS(path, kind, state, devices, parity, groups, group_size, block_size, automatic_block_size, unit, bytes,
             sidecar_bytes, unsealed, key, uuid, generation, commit_time_ns, root, damage, unjudged, unchecked, cannot_undo, another,
             holds_another, gone, warnings, map, stripes, by_servers, met_commit, commit_under_way, commit_elsewhere, in_epoch, placed, not_visible, needed_nodes, from_replica, portion, stamps, left_for_later, skipped, bytes_read, bytes_captured,
             bytes_encoded, parity_compared, captures_count, committed, planned, removed, repair_first, kept_intents, phases, status)
};

/// The words for messages and JSON, as string literals. "unknown" for a number that is not an enumerator.
const char* Name(DatasetState state);   ///< "intact", "at-risk", ...
const char* Name(DamagePart part);
const char* Name(DamageCause cause);
const char* Name(StampNote note);

/// The exit code (docs/reference/tools.md "Exit codes") of one dataset, and of one failure.
int ExitCodeOf(const DatasetReport& report);
int ExitCodeOf(const Status& status);
/// True if the user must be alerted to this exit code even if no damage is located: beyond repair, no usable sidecar, or a
/// failed repair.
bool IsGrave(int exit_code);
/// The graver of two exit codes. In descending order: 7, 8, 5, 6, 2, 3, 1, 9, 4, 0.
int CombineExitCodes(int a, int b);

/// The exit code of one run over several datasets. A dataset may be refused (3: for example, its key is missing). If at
/// least one other dataset was judged, a refused one counts as one that cannot be judged (4).
class CodeOfMany {
 public:
  /// Adds the code of a path, a rank, or anything else that is not a dataset.
  void Add(int code) { code_ = CombineExitCodes(code_, code); }
  void AddDataset(const std::string& path, int code);
  int code() const;
  /// Datasets that could not be judged, in the order of Add.
  const std::vector<std::string>& unjudged() const { return unjudged_; }
  bool any_judged() const { return any_judged_; }

 private:
  int code_ = 0;
  std::vector<std::string> unjudged_;
  bool any_judged_ = false;
  bool any_refused_ = false;
};

}  // namespace lzy
