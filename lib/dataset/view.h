#pragma once
// A dataset opened: files, sidecars, layout, and what every rank knows of them. All operations of the engine begin with
// OpenDataset, and hand the view to judge/, mend/ and commit/.
//
// A shared file is one ensemble, whose layout has all groups. A set has an ensemble for each group, since groups are
// independent. Within an ensemble, the number of a file is its index in the list of ranks of the group (0 for a shared
// file).
//
// Fields are agreed (the same on every rank) unless they are marked local. The view owns the open files, and with them
// the locks: destroying it lets them go.

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

/// The leaf of a parity block that was made from contents which are not what their leaves say; no bytes have it
/// (docs/format.md §3 "Rows without parity").
inline constexpr Hash kNoParityLeaf{
    {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};

/// Why a member's sidecar cannot be used, as every rank knows it. kUnsealed: it is not sealed with the key that was
/// given, or not what was sealed. kUnreadable: the device failed, so nobody knows whether the sidecar is destroyed.
enum class SidecarFault : std::uint8_t { kNone = 0, kMissing = 1, kDestroyed = 2, kOutdated = 3, kForeign = 4, kUnsealed = 5,
                                         kUnreadable = 6 };

/// How a data file, its sidecar and its parts are striped, as far as the file system tells it.
struct FileStripes {
  std::optional<StripeLayout> data;
  std::optional<StripeLayout> sidecar;
  std::vector<std::optional<StripeLayout>> parts;  ///< by device
  std::string fault;  ///< why not, if what it tells makes no sense
  LZY_FIELDS(data, sidecar, parts, fault)
};

/// What the owner of a file tells the others about it and its sidecar.
struct FileFacts {
  std::uint32_t rank = 0;     ///< of the member; 0 for a shared file
  std::string sidecar_path;   ///< where the sidecar is now (may still have the name of before a rename)
  bool present = false;       ///< the data file exists
  FileStat stat;              ///< if present
  SidecarFault fault = SidecarFault::kMissing;
  std::string fault_text;  ///< for messages
  /// What the file was when its sidecar, which is of an older generation than its set's, was committed: while it is
  /// that still, it is no edit but a state of the past (a node that was away, a backup). Not told, but found from what
  /// is.
  std::optional<Stamp> past;
  bool IsOfThePast() const { return past && past->size == stat.size && past->mtime_ns == stat.mtime_ns; }
  std::uint64_t sidecar_bytes = 0;
  std::uint32_t sidecar_uid = 0;  ///< whose a usable sidecar is
  std::uint32_t sidecar_gid = 0;
  std::uint64_t parity_base = 0;  ///< offset of the parity region in what FileView::parity() is
  std::vector<std::string> part_paths;  ///< where its parts are, or would be, by device; none: it is in the sidecar
  std::uint64_t part_base = 0;          ///< offset of the region in each part
  std::vector<std::string> part_obstacles;  ///< why a repair leaves a part as it is; empty: it need not
  std::optional<Intent> intent;
  FileStripes stripes;  ///< only if OpenRequest::stripes asks for it
};

/// Which file has the name of a file of a dataset.
struct Identity {
  enum class Kind {
    kCommitted,  ///< that which was committed, as far as known. What differs in it is damage or an edit
    kProven,     ///< that which another sidecar in reach, or this set, committed as `name`. Somebody put it here; it is no damage
    kAnother,    ///< another one by inode or birth, with the committed mtime; most of its blocks are not as committed
    kRenamed,    ///< the one that was committed as `name`, by its inode, size and mtime. It was renamed, and is damaged
    kUnlike,     ///< the same by inode and birth, with the committed mtime, but most of its blocks are not as committed; and it has another
                 ///< size, or births are not told
  };
  Kind kind = Kind::kCommitted;
  std::string name;
  bool has_free_sidecar = false;  ///< kProven: that sidecar may be used for this file (AdoptByContent)
  bool elsewhere = false;         ///< kProven: that sidecar is in another directory that the command names, and not of this set
  bool Is(Kind one) const { return kind == one; }
  /// Another file than the committed one: nothing writes to it, and nothing commits it, without force.
  bool IsOther() const { return kind == Kind::kProven || kind == Kind::kAnother || kind == Kind::kRenamed; }
};

/// A data file and its sidecar. The facts are agreed: the same on every rank. So is the second part here.
struct FileView : FileFacts {
  // Local: set only where this rank owns the file (shared: everywhere).
  std::unique_ptr<File> data;        ///< null: missing
  std::unique_ptr<Sidecar> sidecar;  ///< null: not usable
  std::unique_ptr<PartedFile> parts;  ///< of a file with device directories: its parity region
  std::unique_ptr<File> replica;     ///< a copy of the data, of which a restore may take blocks (mend/replica)
  std::shared_ptr<File> held;        ///< a sidecar that is not usable: its file, with the lock where that was taken
  /// A sidecar that is sound but of another dataset than its set is by now, with its lock. It still says what was
  /// committed of this file.
  std::unique_ptr<Sidecar> former;
  /// Leaves of the data when the sidecar is lost but the data have the root that the group's other sidecars record; and
  /// of data or parity when hash pages that no copy had intact could be computed again.
  std::optional<Tree> proven_data;
  std::optional<Tree> proven_parity;

  // Agreed.
  std::string path;
  int owner = 0;      ///< rank of the communicator that reads and writes it
  bool seen = false;  ///< somebody sees data or sidecar
  /// Set: nobody sees it, but it may be on the disk of a node on which no process runs: `written_on`.
  bool not_visible = false;
  std::string written_on;  ///< set: its node, as far as known
  Stamp stamp;  ///< as committed
  std::int64_t commit_clock_ns = 0;
  /// Of which commit the sidecar was when it was opened, whether it can be used or not. Zeros: it could not be loaded.
  struct Commit {
    Uuid uuid{};
    std::uint64_t generation = 0;
    std::int64_t wall_time_ns = 0;
    friend bool operator==(const Commit&, const Commit&) = default;
  } opened;
  /// Set by Examine for a file that differs from its sidecar: which file it is (docs/design/commit.md §7, "Owners of sidecars").
  Identity identity;
  /// Committed leaves, as far as known here.
  const Tree* data_tree() const {
    return proven_data ? &*proven_data : sidecar ? &sidecar->contents().data_tree : nullptr;
  }
  const Tree* parity_tree() const {
    return proven_parity ? &*proven_parity : sidecar ? &sidecar->contents().parity_tree : nullptr;
  }
  /// What the parity region is in, from parity_base on; null where there is no sidecar.
  File* parity() const { return parts ? parts.get() : sidecar ? &sidecar->file() : nullptr; }
  bool sidecar_usable() const { return fault == SidecarFault::kNone; }
};

/// Bytes of a file, as reports name them: the path of what has them, and where they begin there.
struct PlaceInFile {
  std::string path;
  std::uint64_t offset = 0;
};
/// Where a byte of the parity region is. `unit`: that of the layout.
PlaceInFile ParityPlace(const FileView& file, std::uint64_t unit, std::uint64_t offset);
/// The inverse: the byte of the region that lies at `offset` of the sidecar, or of the part of `device`. Nothing lies
/// there: nullopt.
std::optional<std::uint64_t> ParityOffset(const FileView& file, std::uint64_t unit, std::uint32_t device, std::uint64_t offset);

/// Files that are coded together, with the layout that says how.
struct Ensemble {
  std::vector<FileView> files;
  std::vector<MemberRecord>
      records;  ///< as committed, by file (sets only; from whichever sidecar of the group is usable)
  std::optional<Layout> layout;
  std::shared_ptr<const LeafKey> key;  ///< that the leaves were made with; null: none
  std::unique_ptr<Communicator>
      group_comm;  ///< set: its owners, when there are several ensembles; null where not one of them
};

/// What OpenDataset found. If `committed` is false, only paths, intents and faults mean anything.
struct DatasetView {
  DatasetRef ref;
  bool committed = false;  ///< there is a usable sidecar with a committed generation
  Status unusable;        ///< why not, when there are sidecars but none is usable
  Superblock superblock;  ///< of any usable sidecar (geometry, uuid, generation, dataset root)
  InfoRecord info;        ///< of the same
  std::vector<Ensemble> ensembles;
  /// The files of all ensembles, in their order.
  auto files() { return ensembles | std::views::transform(&Ensemble::files) | std::views::join; }
  auto files() const { return ensembles | std::views::transform(&Ensemble::files) | std::views::join; }
  std::vector<FileView> extras;  ///< files that match the set's pattern but are not members of what is committed
  std::vector<std::string> warnings;
  bool recovered = false;  ///< its sidecar was lost, and has just been made again from a spare
  /// Where several nodes see members of a set that the others do not, and some are seen by none: the node of each
  /// process.
  std::vector<std::string> nodes;
  /// Where no process sees all members that are seen, or some may be elsewhere: the nodes that have them, as far as known.
  std::vector<std::string> needed_nodes;
  std::uint32_t written_on = 0;  ///< set: on how many nodes; 0: not recorded
  std::vector<std::uint32_t> unknown_ranks;  ///< members of whose whole group no sidecar is left
  bool unknown_elsewhere = false;  ///< those without a file may be on disks of nodes on which no process runs
  /// Whether it is a set of which members may be elsewhere. Then nothing is written.
  bool IsPartial() const;
  /// The file of such a member, which nothing is known of; null: it is gone, too.
  const FileView* UnknownFile(std::uint32_t rank) const;
  /// Whether `file`, one of `extras`, is such a member.
  bool IsUnknownMember(const FileView& file) const;
  /// Whether it is a file of an older, larger set.
  bool IsLeftover(const FileView& file) const;
  bool UnknownFilesAreThere() const;
  std::uint64_t data_bytes() const;
};

/// Whether some of a file's parts are not in the directories that its sidecar names, but in those that option
/// device-dirs does.
bool PartsMoved(const DatasetView& view);

/// How a dataset is opened. The same on all ranks.
struct OpenRequest {
  bool write = false;  ///< open for writing and take the commit locks
  Placing placing = Placing::kApart;  ///< as in RestoreRequest
  LostNodes lost = {};                ///< as in RestoreRequest
  bool stripes = false;               ///< ask the file system how the files are striped
  HeldLocks* held = nullptr;          ///< locks of an earlier view of the dataset (ReleaseLocks); those that are used are taken out. Local
};

/// Opens what is there. Collective. To write, each owner takes the locks of its sidecars, and waits for them up to
/// options.timeout_seconds (then kBusy). Commits that broke off are completed, in the view alone if it is for reading.
/// A member that cannot be opened is absent, with a warning. Other I/O trouble is an error.
Result<DatasetView> OpenDataset(const Context& context, const DatasetRef& ref, const OpenRequest& request);

/// The locks of a view that was opened to write, for the next opening (OpenRequest::held). The view is of no use any more. Local.
HeldLocks ReleaseLocks(DatasetView view);

/// Gives `options` what the geometry of a dataset follows from: parity, group, block-size and stripe of its last commit,
/// but for options that were given. `all`: also these. Device directories are no part of it. Of a dataset that was made by
/// stripe=servers, Options::by_servers is what that came to.
void KeepGeometry(const Superblock& superblock, const InfoRecord& info, bool all, Options& options);

/// The geometry that a shared file of `size` bytes gets by these options.
GeometryParameters SharedGeometry(const Options& options, std::uint64_t size);

/// The geometry of one group of a set, which has `members` files: device i is file i.
GeometryParameters GroupGeometry(std::uint32_t block_size, std::uint64_t unit, std::uint32_t parity, std::size_t members);

/// Blocks of data file or parity region as the storage layer reads them. The layout, trees and key must outlive the
/// stream.
BlockStream DataStream(const Layout& layout, std::uint32_t file, File* data, const Tree* expected, const LeafKey* key);
/// The same for a file of `size` bytes in blocks of any size.
BlockStream DataStream(std::uint64_t block_size, std::uint64_t size, File* data, const Tree* expected, const LeafKey* key);
BlockStream ParityStream(const Layout& layout, std::uint32_t region, File* sidecar, std::uint64_t base, const Tree* expected,
                         const LeafKey* key);

/// The stream of file `f` of a committed ensemble, as this rank has it open. It has no file where this rank has none,
/// or where there is no sidecar. The ensemble must outlive it.
BlockStream StreamOf(const Ensemble& ensemble, bool of_parity, std::uint32_t f);

/// The part of 0 to `total` (not included) that one of `size` ranks gets. Parts are in the order of ranks, disjoint,
/// and differ by one at most.
Interval PartOf(std::uint64_t total, int rank, int size);

/// Ranks as the engine shares work: threads for this process by option, or the cores it may use divided among local
/// ranks.
unsigned ThreadsFor(const Context& context);

}  // namespace lzy
