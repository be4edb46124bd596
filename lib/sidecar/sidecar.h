#pragma once
// A sidecar file: loads it from its intact copies, creates it, updates it in place (docs/format.md §4, §8, §9).
//
// dataset/ loads sidecars under their lock, commit/ and repair/ write them, names/ and the hooks only read them. A Sidecar
// owns the open file, and so its lock, until it is destroyed. It handles only one file; dataset/roll_forward makes the
// members of a set agree. All calls are local. Not thread-safe.
//
// Invariants kept by every method that writes:
//  - once the first commit has succeeded, one copy of the metadata is whole and durable at any moment;
//  - no copy is overwritten before another one is known to be whole and durable;
//  - an intent that was returned as set is durable;
//  - if other names lead to the file (hard links), they keep the file as it was (Separate).

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "sidecar/sidecar_format.h"

namespace lzy {

/// The decoded contents of a sidecar. A value type. A large tree refers to the file of the sidecar (merkle/tree.h), which
/// stays open as long as any copy of the tree exists.
struct SidecarContents {
  /// For writing, fill in everything except `extents`, `copy`, `copies`, `spacing`, `info_hash`, `key_id`, `seal` and
  /// the roots of data and parity: the writer does that.
  Superblock superblock;
  InfoRecord info;
  Tree data_tree{TreeKind::kData};
  Tree parity_tree{TreeKind::kParity};
  /// Key that seals the sidecar when it is written; null: it is not sealed. After loading it is null until Sidecar::Unseal.
  std::shared_ptr<const LeafKey> key;
};

/// A damaged range of the metadata of a sidecar, for reports. Offset and length are bytes of the file.
struct MetadataDamage {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::string what;
  std::uint32_t part = 0;  ///< 0: the sidecar itself; d + 1: the part in device directory d
  /// Not damage, but the trace of an interrupted or unfinished commit. The next commit or repair completes it.
  bool unfinished = false;
  LZY_FIELDS(offset, length, what, part, unfinished)
  friend bool operator==(const MetadataDamage&, const MetadataDamage&) = default;
};

/// MetadataDamage::what of a copy that has an older generation than other copies.
inline constexpr char kOlderSuperblock[] = "older superblock";

class Sidecar {
 public:
  /// Loads the newest generation that is complete, page by page from all of its copies. If none is complete, loads the
  /// newest one that is partly usable; see unknown_data_leaves(). `mode`: kRead, or kReadWrite to lock or write it later.
  /// `accept_prepared`: if the newest generation is only prepared, load it (see CompletePrepared). kNotFound: no such file.
  /// kUnprotected: it is not a sidecar, or no part of it is usable. kCorrupt: its hashes are right, but its contents are
  /// impossible. kNewerFormat: a newer lzy wrote it (with kReadWrite: only a newer lzy may write it). kIo: the file cannot
  /// be read at all. kBusy (kRead only): others commit faster than it can be read.
  static Result<std::unique_ptr<Sidecar>> Load(FileSystem& fs, const std::string& path, OpenMode mode,
                                               bool accept_prepared = false);

  /// The same for an open file, for example one that is locked. Takes `file` only on success.
  static Result<std::unique_ptr<Sidecar>> Load(std::shared_ptr<File>&& file, OpenMode mode,
                                               bool accept_prepared = false);

  /// The same for reading, but reads hash pages only when they are needed (usually also in small trees). So it reads a few
  /// pages, whatever the size of the file. damage() and the unknown leaves are incomplete: if no copy has a page intact,
  /// the trees throw StatusError (merkle/tree.h). For callers that need few hashes.
  static Result<std::unique_ptr<Sidecar>> LoadPaged(FileSystem& fs, const std::string& path);

  /// Checks the seal against `key` (null: the caller has none). Call it before you use any loaded contents. On success
  /// contents().key is set, so the next commit is sealed, too. Ok for a sidecar that was never committed. kInvalidArgument:
  /// it is sealed with another key, or it is sealed and there is no key. kUnprotected: it is not sealed, but there is a
  /// key. kCorrupt: it was changed after sealing, or leaves are unknown, so the seal proves nothing.
  Status Unseal(std::shared_ptr<const LeafKey> key);

  /// Destroys the sidecar, and returns its file, which stays open and locked.
  static std::shared_ptr<File> ReleaseFile(std::unique_ptr<Sidecar> sidecar) { return std::move(sidecar->file_); }

  /// Creates the file `path`, and replaces a leftover. Reserves room for parity and for metadata as large as those of
  /// `shape` (numbers of leaves, size of the info record). The sidecar is compact if `shape` requests it and is small
  /// enough. It is not valid before WriteAll. Nobody gets more access to it than to `like`, the data file. `least_spacing`:
  /// the spacing of the dataset's other sidecars, if parity must begin at the same place in all of them.
  static Result<std::unique_ptr<Sidecar>> Create(FileSystem& fs, const std::string& path, const SidecarContents& shape,
                                                 File& like, std::uint64_t least_spacing = kMinSpacing);
  /// The same for an existing file that keeps its parity. WriteAll overwrites all of its metadata; until it returns, the
  /// file may have no valid metadata. Only for parts, whose metadata are spare copies (docs/format.md §13).
  static Result<std::unique_ptr<Sidecar>> Renew(std::unique_ptr<File> part, const SidecarContents& shape,
                                                std::uint64_t least_spacing);

  /// Call this after loading a part whose metadata replace those of the lost sidecar. damage() then reports that the
  /// sidecar is lost. Do not write with this object.
  void StandIn();

  /// Sets the file system in which Separate can make a copy of the file. Load(fs, …) calls it.
  void MayReplaceFileIn(FileSystem& fs) { fs_ = &fs; }
  /// If several names lead to the file, such as in a snapshot by `cp -al`: gives this name a copy, with the lock, which this
  /// object then uses instead. All methods that write do this first. Call it before you write to file(), and before other
  /// processes open the file by its name. Does nothing to a fresh sidecar. file() may be another object afterwards.
  Status Separate();

  const SidecarContents& contents() const { return contents_; }
  const std::string& path() const { return file_->path(); }
  File& file() { return *file_; }
  std::uint64_t generation() const { return contents_.superblock.generation; }
  bool committed() const { return contents_.superblock.state != SidecarState::kNeverCommitted; }
  /// Bytes of the sidecar file.
  std::uint64_t file_size() const { return size_; }

  /// Damage of the metadata, also in redundant copies: found by loading, or noted later. A commit clears it.
  const std::vector<MetadataDamage>& damage() const { return damage_; }
  void NoteDamage(MetadataDamage damage) { damage_.push_back(std::move(damage)); }
  /// Numbers of the leaves of the data tree and of the parity tree that no copy had intact, ascending. The hashes at
  /// their places in the trees are zero and mean nothing. judge/ may prove them from the data.
  const std::vector<std::uint64_t>& unknown_data_leaves() const { return unknown_data_; }
  const std::vector<std::uint64_t>& unknown_parity_leaves() const { return unknown_parity_; }
  /// True if there are no such leaves. If there are any, do not call WriteAll: it would store zeros as hashes.
  bool knows_all_leaves() const { return unknown_data_.empty() && unknown_parity_.empty(); }
  /// The union of all intents that are set for the loaded generation; nullopt if there is none.
  const std::optional<Intent>& intent() const { return intent_; }
  /// Number of a newer generation that is only prepared, 0 if there is none.
  std::uint64_t prepared_generation() const { return prepared_generation_; }

  /// Offset in the sidecar file of byte `offset` of the parity region. Offsets past its end are allowed: the region lies at
  /// the end of the file and may grow.
  std::uint64_t ParityFileOffset(std::uint64_t offset) const;

  /// True if `next` can be written in place: it has the same geometry and groups, and there is room for its metadata.
  /// False in the compact form.
  bool Fits(const SidecarContents& next) const;
  /// Whether the metadata of `next` fit into the copies. Larger metadata would overlap the parity.
  bool HasRoom(const SidecarContents& next) const;
  /// Commits a further generation in place, in one phase: Prepare and FinishPrepared. If it fails, the previous generation
  /// and its intent still count (unless the storage accepts no more writes, not even that of the old superblock). Not for
  /// the compact form, whose commits build a new file.
  ///
  /// Also writes a fresh sidecar of either form. If `next` equals contents(), with the same generation, repairs damaged
  /// copies.
  Status WriteAll(SidecarContents next);
  /// Two-phase commit in place, for sets (docs/format.md §9), not for the compact form. After Prepare the generation is
  /// durable in all copies but copy 0, and Load still returns the old one. FinishPrepared commits it. Once the generation
  /// counts, FinishPrepared succeeds, even if not all copies could be updated; the next Load reports these in damage(). If
  /// it fails, the old generation counts. For the compact form, Prepare returns kInternal and changes nothing.
  Status Prepare(SidecarContents next);
  Status FinishPrepared();
  /// The second phase for a generation that was prepared before a crash. Precondition: loaded with `accept_prepared`,
  /// and another member of the set has committed it.
  Status CompletePrepared();

  /// States durably that data may change from now on. `intent` is one of this process (NewIntent), or that of another
  /// writer that must stay set; this function sets its uuid and generation. Replaces the present intent. If the sidecar was
  /// created and not written yet, the intent is kept and written with the rest. After an error, the old intent stays.
  Status SetIntent(Intent intent);
  /// Adds kIntentHandedOver to the intent that is set. Only readers that describe it need this, so it is not made durable.
  /// Precondition: the sidecar is locked.
  Status MarkHandedOver();
  /// Clears the intent durably. Call it only if nothing was changed, or if all changes were undone.
  Status ClearIntent();

 private:
  Sidecar() = default;
  static Result<std::unique_ptr<Sidecar>> Load(std::shared_ptr<File>&& file, OpenMode mode, bool accept_prepared,
                                               bool paged);
  Status ReadUntilSettled(OpenMode mode, bool accept_prepared, bool paged);
  Status ReadEverything(OpenMode mode, bool accept_prepared, bool paged);
  /// The superblocks that were found, by copy number.
  using Superblocks = std::map<std::uint32_t, Superblock>;
  /// By copy number: the extents of a copy; null if the copy cannot be used.
  using Copies = std::vector<const std::vector<Extent>*>;
  /// Reads the first of `candidates` that is complete, or else the first that is readable, and returns it.
  Result<const Superblock*> ReadBest(const Superblocks& found, const std::vector<const Superblock*>& candidates);
  /// Reads the contents of the generation of `best` from all copies that have it.
  Status ReadGeneration(const Superblocks& found, const Superblock& best);
  /// The steps of ReadGeneration. CopiesOf sets extents_ and copy_whole_.
  Copies CopiesOf(const Superblocks& found, const Superblock& best);
  Status ReadInfo(const Copies& same, const Superblock& best);
  void ReadNodes(const Copies& same);
  Status ReadTrees(const Copies& same, const Superblock& best);
  /// The same for LoadPaged. False if no copy has the top of a tree.
  Result<bool> ReferToTrees(const Copies& same, const Superblock& best);
  void ReadIntent(const Superblock& superblock);
  /// From now on, large trees of `contents` are read from the copies `first` and later, at the places in extents_. The
  /// trees must have been written there. Other copies may have been written to other places.
  void ReadPagesFrom(std::uint32_t first, SidecarContents& contents) const;
  /// Offset of the intent pages. kNewerFormat if a later version placed them in another way.
  Result<std::uint64_t> IntentOffset() const;
  Status PutIntent(std::optional<Intent> intent);
  Status WriteIntentPages();
  /// Sets extents_ to the places of all copies of metadata with this shape, in the layout of this version.
  Status PlanExtents(const SidecarContents& shape, std::uint64_t least_spacing);
  /// Whether Create uses the compact form for this shape.
  static bool FitsCompact(const SidecarContents& shape);
  /// Plans the places of the parts again. Does not change the form of the sidecar.
  Status PlanAgain(const SidecarContents& contents);
  /// The same, only for copy 0 and the loaded metadata.
  Status PlanFirstCopy();
  /// Writes metadata and superblock of one copy, at the places in extents_. Does not sync.
  Status WriteCopy(std::uint32_t copy, const SidecarContents& contents, SidecarState state);
  /// Writes the superblock of `copy`, which refers to metadata at `extents`. Does not sync.
  Status WriteSuperblock(std::uint32_t copy, const SidecarContents& contents, SidecarState state,
                         const std::vector<Extent>& extents);
  Status SyncFile();
  /// Completes a commit whose last page was torn. Call it before you write an intent: only the note in an intent page shows
  /// that this commit was decided.
  Status RepairTorn();
  /// Writes copy 0 again if it is damaged, then writes `contents` to all other copies, durably (WriteAll syncs a fresh
  /// file).
  Status WriteOtherCopies(SidecarContents& contents, SidecarState state);
  /// Sets the fields that are computed from others: roots, info hash, key and seal.
  Status Complete(SidecarContents& contents) const;
  /// The steps of FinishPrepared, in this order.
  Status NoteDecision(const Superblock& next);
  Status MakeCount(const SidecarContents& next);
  Status FinishCopies(const SidecarContents& next);
  /// Replaces the contents of this object with the committed `contents`, without damage.
  void Adopt(SidecarContents contents);
  /// Cuts or extends the file to the end of its last part.
  Status CutToLength();

  std::shared_ptr<File> file_;
  FileSystem* fs_ = nullptr;
  enum class Names { kUnknown, kReplaced, kOne };
  Names names_ = Names::kUnknown;  // kReplaced: file_ is a copy, and the directory is not synced yet
  std::uint64_t size_ = 0;
  // Created or renewed here and not written yet, so it has no valid contents that must be kept.
  bool fresh_ = false;
  // The loaded contents of the file are durable.
  bool synced_ = false;
  // The generation that counts is prepared and decided, but no superblock with state kCommitted exists yet.
  bool torn_ = false;
  SidecarContents contents_;
  std::optional<SidecarContents> prepared_;
  // By copy number: the places of its parts, and whether it was found complete or written completely.
  std::vector<std::vector<Extent>> extents_;
  std::vector<bool> copy_whole_;
  std::vector<MetadataDamage> damage_;
  std::vector<std::uint64_t> unknown_data_;
  std::vector<std::uint64_t> unknown_parity_;
  std::optional<Intent> intent_;
  std::uint64_t prepared_generation_ = 0;
  bool paged_ = false;  // loaded by LoadPaged, and only one generation can count
};

/// Reads the superblocks of all copies, and returns that of copy 0 if they agree. This takes a few small reads. Error if
/// copies differ (for example while a commit is under way) or anything is unusual: load the sidecar then.
Result<Superblock> AgreedSuperblock(File& file);
/// An intent that has only process and host.
Intent IntentOfThisProcess();
/// The intent for Sidecar::SetIntent of a writer that starts now: for `ranges`, or for the whole file if `flags` has
/// kIntentWholeFile. More than kMaxIntentRanges ranges become the whole file.
Intent NewIntent(std::uint32_t flags, const std::vector<ByteRange>& ranges = {});

}  // namespace lzy
