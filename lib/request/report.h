#pragma once
// The result of an operation on a dataset: the data behind messages, JSON and exit codes (docs/reference/tools.md).
//
// Every engine call returns one DatasetReport. judge/ fills in the damage, mend/ and commit/ their results; tools, hooks
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

/// The summary of all findings, after a repair if one was made. kUnprotected also means that the dataset cannot be judged;
/// kRestored: it was damaged, and is intact now.
enum class DatasetState { kIntact, kDamaged, kUnrepairable, kStale, kAtRisk, kUnprotected, kRestored };
/// kMetadata: of the sidecar, and of its spares in device directories.
enum class DamagePart { kData, kParity, kMetadata };
/// Why a block is not as committed: the line of the table in docs/design/repair.md §8. kNotVisible: a member of a set that
/// no process sees, and that may be on another node (report.not_visible). kEncoding: parity that does not fit the data of
/// its row, often with the right hash.
enum class DamageCause { kHash, kUnreadable, kMissing, kStale, kAtRisk, kNotVisible, kEncoding };

/// The result of checking the stamps of an intact dataset, which distinguish edits from damage. kRacy: the last commit came
/// within the tick of the last change, so later edits may not show. kTimesDiffer: the times of a file differ from those of
/// its commit (for example in a copy). kMoved: the sidecar that the content proves has the name of another file. kTaken:
/// the new stamps were recorded.
enum class StampNote : std::uint8_t { kNone, kRacy, kTimesDiffer, kMoved, kTaken };

/// An object in a damaged range, by the file's own format (room `objects`): a dataset of HDF5, a variable of netCDF.
struct DamagedObject {
  std::string format = {};  ///< "hdf5", "netcdf4" or "cdf"
  std::string name = {};    ///< "/fields/T"; of metadata, the nearest object; empty if unused
  std::string kind = {};    ///< "raw", "metadata" or "unused"
  /// Raw data: which chunk, counted in chunks. None: not chunked, or several chunks (chunks > 1).
  std::optional<std::vector<std::uint64_t>> chunk = {};
  /// Raw data: the first and the last damaged element in the order in which they are stored.
  std::optional<std::pair<std::vector<std::uint64_t>, std::vector<std::uint64_t>>> elements = {};
  bool filtered = false;    ///< the chunk is compressed or has another filter, so all of it is unreadable
  std::uint64_t chunks = 0; ///< how many chunks are meant
  bool operator==(const DamagedObject&) const = default;
  LZY_FIELDS(format, name, kind, chunk, elements, filtered, chunks)
};

/// Stale and at-risk blocks are edits, which only force takes back.
inline bool IsEdit(DamageCause cause) {
  return cause == DamageCause::kStale || cause == DamageCause::kAtRisk;
}

/// A range of bytes that is not as committed. Neighbouring blocks with the same fields are one entry (MergeDamage).
struct Damage {
  std::string path = {};  ///< the file that offset and length are about (data file, or sidecar for parity and metadata)
  std::uint32_t device = 0;
  DamagePart part = DamagePart::kData;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  DamageCause cause = DamageCause::kHash;
  bool transient = false;     ///< a second reading from the device was right
  bool repaired = false;
  bool beyond_repair = false; ///< more losses in one of its rows than parity can mend
  std::vector<DamagedObject> objects = {};  ///< objects in the range, filled in by objects/name.h
  std::uint64_t objects_left_off = 0;       ///< how many more there are
  std::string domain = {};  ///< failure domain of the device, as committed; empty: unknown, or no member of a set
  LZY_FIELDS(path, device, part, offset, length, cause, transient, repaired, beyond_repair, objects, objects_left_off,
             domain)
};

/// Whether the block is damaged on the device: neither an edit nor one that was read wrong only once, nor on another node.
inline bool IsLastingDamage(const Damage& damage) {
  return !damage.transient && !IsEdit(damage.cause) && damage.cause != DamageCause::kNotVisible;
}

/// Seconds of one operation, the slowest rank's.
struct Phases {
  double read = 0, hash = 0, encode = 0, exchange = 0, write = 0, sync = 0, total = 0;
  Phases& operator+=(const Phases& other);
  /// For seconds that several threads spent at once: makes their sum a duration.
  Phases& operator/=(unsigned threads);
  LZY_FIELDS(read, hash, encode, exchange, write, sync, total)
};

/// All of them, for code that treats them alike.
inline constexpr std::array kPhases = {&Phases::read,  &Phases::hash, &Phases::encode, &Phases::exchange,
                                       &Phases::write, &Phases::sync, &Phases::total};

/// Adds the seconds since it was made, or since the last time, to a field. For one thread; adjustments of the system's
/// clock do not show in it.
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

/// Unit rows [begin, end) of `of`. Groups with fewer unit rows end earlier.
struct Portion {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t of = 0;
  bool whole() const { return begin == 0 && end == of; }
  LZY_FIELDS(begin, end, of)
};

/// The devices of one group, whose data share parity.
struct GroupMap {
  struct Device {
    std::uint32_t device = 0;
    std::string path;    ///< member's path; empty for stripe positions
    std::string domain;  ///< failure domain; empty when unknown
    std::string server = {};  ///< of the file system, which has its data; several: with commas; empty when unknown
    LZY_FIELDS(device, path, domain, server)
  };
  std::vector<Device> devices;
  LZY_FIELDS(devices)
};

/// The stripes of a dataset in the file system, and the effect of losing one server.
struct StripeNote {
  std::string file_system;
  std::uint64_t unit = 0;     ///< bytes in one place before the next; the largest number: each file is in one place
  std::uint32_t servers = 0;  ///< servers with data; 0: their number is not known
  bool redundant = false;     ///< the file system itself bears the loss of a server
  bool by_servers = false;    ///< the dataset was made by stripe=servers
  std::string worst_server;   ///< server whose loss takes most blocks of a row, and their number
  std::uint32_t worst_blocks = 0;
  LZY_FIELDS(file_system, unit, servers, redundant, by_servers, worst_server, worst_blocks)
};

/// The answer to one engine call about one dataset. Sizes are bytes, times are nanoseconds since 1970. Fields that a
/// call does not fill in keep their defaults.
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
  bool automatic_block_size = false;  ///< it follows from the size of the file
  std::uint64_t unit = 0;
  std::uint64_t bytes = 0;
  std::uint64_t sidecar_bytes = 0;
  bool unsealed = false;  ///< a part of it is not sealed with the given key, or was changed after sealing
  std::string key;  ///< of a sealed dataset: which (KeyText); empty: it is not sealed
  std::string uuid;  ///< of the encoding (docs/format.md §4), as text; a new one if all of it is encoded anew
  std::uint64_t generation = 0;
  std::int64_t commit_time_ns = 0;
  Hash root;
  std::vector<Damage> damage;
  /// Hashes are lost in all copies of a sidecar. Data (`unchecked`) or parity without hashes can neither be checked nor
  /// made again. This does not mean that they are damaged.
  bool unjudged = false;
  struct Unchecked {
    std::string path;
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    LZY_FIELDS(path, offset, length)
  };
  std::vector<Unchecked> unchecked;
  /// Some rows have more edited blocks than parity can rebuild: the edits cannot be taken back.
  bool cannot_undo = false;
  /// A file differs that is another one by inode or birth, or has the committed content of a file in another directory. So
  /// it is neither repaired nor committed without force. Or: a shared file has the sidecar of a member of a set.
  bool another = false;
  /// A file has the committed content of another file.
  bool holds_another = false;
  /// Shared file: it does not exist.
  bool gone = false;
  std::vector<std::string> warnings;  ///< things the user should know, complete sentences
  std::vector<GroupMap> map;          ///< filled in by Info
  std::optional<StripeNote> stripes;  ///< filled in by Info, if the file system reports stripes
  std::optional<ServerGeometry> by_servers;  ///< geometry of the file, if it follows from stripes
  bool met_commit = false;            ///< another process committed meanwhile, so the damage found is not valid any more
  bool in_epoch = false;              ///< Info: a file has the intent of an epoch
  /// Restore, where nodes have disks of their own: the members that were nowhere, and the nodes that have them now.
  std::vector<GroupMap::Device> placed;
  /// Members of a set that no process sees, and that may be on the disks of other nodes. `domain` is the node, if known.
  /// Nothing was written then.
  std::vector<GroupMap::Device> not_visible;
  /// If no process sees all members: the known nodes that have them. The next command needs a process on each.
  std::vector<std::string> needed_nodes;
  /// Restore: bytes that were taken from a replica, or, by a dry run, would be.
  std::uint64_t from_replica = 0;
  /// Verify: the portion that was compared with its hashes. The state is that of these rows.
  Portion portion;
  /// Verify of an intact dataset, all of it.
  StampNote stamps = StampNote::kNone;
  /// Verify with leave_written: a program is writing the dataset, so nothing was read.
  bool left_for_later = false;
  /// Nothing was done, because the caller stopped; there is nothing to report.
  bool skipped = false;
  std::uint64_t bytes_read = 0;
  std::uint64_t bytes_captured = 0;   ///< data bytes that were not read, having been captured while they were written
  std::uint64_t bytes_encoded = 0;    ///< data bytes of the rows that were (re-)encoded
  bool parity_compared = false;       ///< Verify: all rows with right data were encoded again and compared
  /// Protect with captures on all ranks: no other writer was found, so the captured contents are the right ones. In a set,
  /// each rank sets this for its own member.
  bool captures_count = false;
  bool committed = false;             ///< Protect: a new generation was made (false: it was up to date already)
  /// The request was carried out, or would be by a dry run. The state is the one before, or the intended one.
  bool planned = false;
  std::vector<std::string> removed;   ///< Unprotect: files
  /// Protect: files that are damaged by what another dataset committed of them, which can repair them.
  std::vector<std::string> repair_first;
  /// Protect with own_intents: intents of other writers, which are still set; by rank of the member (0: shared file).
  std::map<std::uint32_t, Intent> kept_intents;
  Phases phases;
  /// Not ok: the operation failed (bad options, I/O, no sidecar, ...); `state` is the knowledge until then.
  Status status;

  LZY_FIELDS(path, kind, state, devices, parity, groups, group_size, block_size, automatic_block_size, unit, bytes,
             sidecar_bytes, unsealed, key, uuid, generation, commit_time_ns, root, damage, unjudged, unchecked, cannot_undo, another,
             holds_another, gone, warnings, map, stripes, by_servers, met_commit, in_epoch, placed, not_visible, needed_nodes, from_replica, portion, stamps, left_for_later, skipped, bytes_read, bytes_captured,
             bytes_encoded, parity_compared, captures_count, committed, planned, removed, repair_first, kept_intents, phases, status)
};

/// The words of messages and JSON. They live forever; "unknown" for a number that is no enumerator.
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
/// The graver of two: of 2, 3, 1, 9, 4 in this order; 5-8 win over all of these.
int CombineExitCodes(int a, int b);

/// The exit code of one run over several datasets. If one was refused (3: its key is missing, for example), it counts
/// as one that cannot be judged (4) as soon as another was judged.
class CodeOfMany {
 public:
  /// For a path, a rank, or anything else that is not a dataset.
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
