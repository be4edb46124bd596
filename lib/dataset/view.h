#pragma once
// An open dataset: files, sidecars, layout, and the facts that all ranks share. All operations of the engine call
// OpenDataset first, and pass the view to judge/, repair/ and commit/.
//
// A shared file is one ensemble, whose layout has all groups. A set has one ensemble for each group, because groups are
// independent. Within an ensemble, files are numbered by their index in the ranks of the group (0 for a shared file).
//
// Fields are agreed (the same on every rank) unless they are marked local. The view owns the open files and their locks.

#include <memory>
#include <optional>
#include <ranges>
#include <string>
#include <vector>

#include "base/interval_set.h"
#include "dataset/lock.h"
#include "dataset/placement.h"
#include "geometry/layout.h"
#include "geometry/stripes.h"
#include "names/resolve.h"
#include "request/context.h"
#include "request/report.h"
#include "sidecar/sidecar.h"
#include "storage/block_stream.h"
#include "storage/parted_file.h"

namespace lzy {

/// The leaf of a parity block that was made from contents that do not have their leaves. No block has this leaf
/// (docs/format.md §3 "Rows without parity").
inline constexpr Hash kNoParityLeaf{
    {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};

/// Why a sidecar cannot be used; the same on every rank. kUnsealed: it is not sealed with the given key, or its contents do
/// not match its seal. kUnreadable: the storage failed, so it is not known whether the sidecar is destroyed.
enum class SidecarFault : std::uint8_t { kNone = 0, kMissing = 1, kDestroyed = 2, kOutdated = 3, kForeign = 4, kUnsealed = 5,
                                         kUnreadable = 6 };

/// The stripes of a data file, its sidecar and its parts, if the file system reports them.
struct FileStripes {
  std::optional<StripeLayout> data;
  std::optional<StripeLayout> sidecar;
  std::vector<std::optional<StripeLayout>> parts;  ///< by device
  std::string fault;  ///< the reason, if the answer of the file system makes no sense
  LZY_FIELDS(data, sidecar, parts, fault)
};

/// The facts about a file and its sidecar that its owner sends to all ranks.
struct FileFacts {
  std::uint32_t rank = 0;     ///< of the member; 0 for a shared file
  std::string sidecar_path;   ///< present path of the sidecar, which may differ from SidecarPath after a rename
  bool present = false;       ///< the data file exists
  FileStat stat;              ///< if present
  SidecarFault fault = SidecarFault::kMissing;
  std::string fault_text;  ///< for messages
  /// The committed stamp, if the sidecar is of an older generation than its set. While the file has this size and mtime, it
  /// is not edited: it is as that older commit left it (a node that was away, a backup). Each rank derives this field from
  /// the summaries.
  std::optional<Stamp> past;
  bool IsOfThePast() const { return past && past->size == stat.size && past->mtime_ns == stat.mtime_ns; }
  std::uint64_t sidecar_bytes = 0;
  std::uint32_t sidecar_uid = 0;  ///< Unix owner of a usable sidecar
  std::uint32_t sidecar_gid = 0;
  std::uint64_t parity_base = 0;  ///< offset of the parity region in FileView::parity()
  std::vector<std::string> part_paths;  ///< paths of the parts, by device, also of missing ones; empty: the parity is in the sidecar
  std::uint64_t part_base = 0;          ///< offset of the region in each part
  std::vector<std::string> part_obstacles;  ///< by device: why a repair cannot write the part; empty string: it can
  std::optional<Intent> intent;
  FileStripes stripes;  ///< only if OpenRequest::stripes asks for it
};

/// Which file now has the name of a file of a dataset.
struct Identity {
  enum class Kind {
    kCommitted,  ///< the committed file, as far as known. Differences are damage or edits
    kProven,     ///< another sidecar in reach, or another member of this set, proves that it has the committed content of `name`. So
                 ///< somebody put it here, and it is not damaged
    kAnother,    ///< inode or birth differ, the mtime is the committed one, and most blocks differ
    kRenamed,    ///< the file that was committed as `name`, by inode, size and mtime. It was renamed and is damaged
    kUnlike,     ///< it may be another version of the file. A repair writes, and keeps a copy. There are two cases. Inode, birth
                 ///< and mtime are the committed ones, but most blocks differ, and the size differs or births are unknown. Or
                 ///< inode or birth differ, and the size or at least an eighth of the blocks differ, too, or the committed file is
                 ///< beside it under another name
  };
  Kind kind = Kind::kCommitted;
  std::string name;
  bool has_free_sidecar = false;  ///< kProven: the proving sidecar may be used for this file (AdoptByContent)
  bool elsewhere = false;         ///< kProven: the proving sidecar is in another directory of the command, and not of this set
  /// kAnother, kUnlike: the mtime is the committed one, cut to whole seconds. So a tool put the file back from a backup, and the
  /// differences are damage. With kAnother, this is so only if most of the content is as committed (RecognizeRot); otherwise
  /// the file was edited.
  bool whole_seconds = false;
  bool Is(Kind one) const { return kind == one; }
  /// True if it is another file than the committed one. Without --force, nothing writes to it or commits it.
  bool IsOther() const { return kind == Kind::kProven || kind == Kind::kAnother || kind == Kind::kRenamed; }
};

/// A data file and its sidecar. The inherited facts are agreed.
struct FileView : FileFacts {
  // Local: set only if this rank owns the file (shared file: on every rank).
  std::unique_ptr<File> data;        ///< null: missing
  std::unique_ptr<Sidecar> sidecar;  ///< null: not usable
  std::unique_ptr<PartedFile> parts;  ///< the parity region of a file with device directories
  std::unique_ptr<File> replica;     ///< a copy of the data, from which a restore may take blocks (repair/replica)
  std::shared_ptr<File> held;        ///< the file of an unusable sidecar; it keeps the lock
  /// A sound sidecar of another dataset, with its lock. The file was committed as a part of that dataset before, and this
  /// sidecar records its content.
  std::unique_ptr<Sidecar> former;
  /// Leaves that were computed and proven. proven_data: the sidecar is lost, but the data have the root that the other
  /// sidecars of the group record. Both: pages of hashes that no copy of the sidecar had intact were computed again.
  std::optional<Tree> proven_data;
  std::optional<Tree> proven_parity;

  // Agreed.
  std::string path;
  int owner = 0;      ///< the rank of the communicator that reads and writes the file
  bool seen = false;  ///< a rank sees the data or the sidecar
  /// Member: no rank sees it, but it may be on the disk of a node without a process (written_on).
  bool not_visible = false;
  std::string written_on;  ///< member: its node, if known
  Stamp stamp;  ///< as committed
  std::int64_t commit_clock_ns = 0;
  /// The commit of the sidecar at the time when it was opened, also if the sidecar is unusable. Zeros: it could not be loaded.
  struct Commit {
    Uuid uuid{};
    std::uint64_t generation = 0;
    std::int64_t wall_time_ns = 0;
    friend bool operator==(const Commit&, const Commit&) = default;
  } opened;
  /// Examine sets this for a file that differs from its sidecar (docs/design/commit.md §7, "Owners of sidecars").
  Identity identity;
  /// Committed leaves, if this rank knows them; else null. Local.
  const Tree* data_tree() const {
    return proven_data ? &*proven_data : sidecar ? &sidecar->contents().data_tree : nullptr;
  }
  const Tree* parity_tree() const {
    return proven_parity ? &*proven_parity : sidecar ? &sidecar->contents().parity_tree : nullptr;
  }
  /// The file that contains the parity region, from parity_base on; null if there is no sidecar. Local.
  File* parity() const { return parts ? parts.get() : sidecar ? &sidecar->file() : nullptr; }
  bool sidecar_usable() const { return fault == SidecarFault::kNone; }
};

/// A place in a file, as reports name it.
struct PlaceInFile {
  std::string path;
  std::uint64_t offset = 0;
};
/// The place of byte `offset` of the parity region. `unit`: of the layout.
PlaceInFile ParityPlace(const FileView& file, std::uint64_t unit, std::uint64_t offset);
/// The inverse of ParityPlace: the byte of the region at `offset` of the sidecar, or of the part of `device`. nullopt if no
/// parity is there.
std::optional<std::uint64_t> ParityOffset(const FileView& file, std::uint64_t unit, std::uint32_t device, std::uint64_t offset);

/// Files that share parity, and their layout.
struct Ensemble {
  std::vector<FileView> files;
  std::vector<MemberRecord>
      records;  ///< sets only: as committed, by file (from a usable sidecar of the group)
  std::optional<Layout> layout;
  std::shared_ptr<const LeafKey> key;  ///< the key of the leaves; null: not sealed
  std::unique_ptr<Communicator>
      group_comm;  ///< sets with several ensembles: the owners of this one; null on other ranks
};

/// The result of OpenDataset. If `committed` is false, only paths, intents and faults are valid.
struct DatasetView {
  DatasetRef ref;
  bool committed = false;  ///< a usable sidecar has a committed generation
  Status unusable;        ///< why not, if there are sidecars but none is usable
  Superblock superblock;  ///< from a usable sidecar (geometry, uuid, generation, dataset root)
  InfoRecord info;        ///< from the same sidecar
  std::vector<Ensemble> ensembles;
  /// The files of all ensembles, in their order.
  auto files() { return ensembles | std::views::transform(&Ensemble::files) | std::views::join; }
  auto files() const { return ensembles | std::views::transform(&Ensemble::files) | std::views::join; }
  std::vector<FileView> extras;  ///< files that match the pattern but are not members of the committed set
  std::vector<std::string> warnings;
  bool recovered = false;  ///< OpenDataset made the sidecar again from a spare
  /// By process: its node. Empty unless members are missing, and some members are seen by one node only.
  std::vector<std::string> nodes;
  /// The nodes that have the members, as far as known. Empty if a process sees all members that are seen, and none may be
  /// elsewhere.
  std::vector<std::string> needed_nodes;
  std::uint32_t written_on = 0;  ///< set: number of nodes on which it was written; 0: not recorded
  std::vector<std::uint32_t> unknown_ranks;  ///< members of groups of which no sidecar is left
  bool unknown_elsewhere = false;  ///< unknown_ranks without a file may be on nodes without a process
  /// True if members of the set may be on nodes without a process. Then nothing is written.
  bool IsPartial() const;
  /// The file of member `rank`, one of unknown_ranks; null if it does not exist.
  const FileView* UnknownFile(std::uint32_t rank) const;
  /// True if `file`, one of `extras`, is a member in unknown_ranks.
  bool IsUnknownMember(const FileView& file) const;
  /// True if `file`, one of `extras`, is of another or an older set.
  bool IsLeftover(const FileView& file) const;
  bool UnknownFilesAreThere() const;
  std::uint64_t data_bytes() const;
};

/// True if some parts are not in the directories that the sidecar records, but in those of option device-dirs.
bool PartsMoved(const DatasetView& view);

/// How to open a dataset. The same on all ranks.
struct OpenRequest {
  bool write = false;  ///< open for writing and lock the sidecars
  Placing placing = Placing::kApart;  ///< as in RestoreRequest
  LostNodes lost = {};                ///< as in RestoreRequest
  bool stripes = false;               ///< fill in FileFacts::stripes
  HeldLocks* held = nullptr;          ///< locks of an earlier view (ReleaseLocks); removes those that it uses. Local
};

/// Opens a dataset. Collective. With request.write, each owner locks its sidecars, and waits up to options.timeout_seconds
/// for each lock (then kBusy). Completes interrupted commits of sets; without request.write, only in the view. A missing
/// file or an unusable sidecar is a fact of the view, not an error; I/O errors are errors.
Result<DatasetView> OpenDataset(const Context& context, const DatasetRef& ref, const OpenRequest& request);

/// Ends `view`, which was opened for writing, and returns its locks for the next one (OpenRequest::held). Local.
HeldLocks ReleaseLocks(DatasetView view);

/// Sets the options that determine the geometry (parity, group, block-size, stripe) to those of the last commit. Options
/// that the user gave stay, unless `all` is true. Device directories are not part of it. If the dataset was made with
/// stripe=servers, sets Options::by_servers to the recorded geometry.
void KeepGeometry(const Superblock& superblock, const InfoRecord& info, bool all, Options& options);

/// The geometry of a shared file of `size` bytes with these options.
GeometryParameters SharedGeometry(const Options& options, std::uint64_t size);

/// The geometry of a group with `members` files. Device i is file i.
GeometryParameters GroupGeometry(std::uint32_t block_size, std::uint64_t unit, std::uint32_t parity, std::size_t members);

/// The blocks of a data file or a parity region, for the storage layer. Layout, trees and key must outlive the stream.
BlockStream DataStream(const Layout& layout, std::uint32_t file, File* data, const Tree* expected, const LeafKey* key);
/// The same for a file of `size` bytes in blocks of any size.
BlockStream DataStream(std::uint64_t block_size, std::uint64_t size, File* data, const Tree* expected, const LeafKey* key);
BlockStream ParityStream(const Layout& layout, std::uint32_t region, File* sidecar, std::uint64_t base, const Tree* expected,
                         const LeafKey* key);

/// The stream of file `f` of a committed ensemble, with the file that this rank has open. It has no file if this rank has
/// none, or if there is no sidecar. The ensemble must outlive it.
BlockStream StreamOf(const Ensemble& ensemble, bool of_parity, std::uint32_t f);

/// The part of [0, total) for rank `rank` of `size`. Parts are disjoint, in the order of ranks, and their sizes differ by at
/// most one.
Interval PartOf(std::uint64_t total, int rank, int size);

/// The number of threads for this process: option threads, or the cores that it may use divided among the ranks of its node.
unsigned ThreadsFor(const Context& context);

}  // namespace lzy
