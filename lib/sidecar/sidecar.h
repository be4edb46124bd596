#pragma once
// One sidecar file: loads it from its intact copies, builds it, updates it in place (docs/format.md §4, §8, §9).
//
// dataset/ loads sidecars under their lock, commit/ and mend/ write them, names/ and the hooks only read them. A Sidecar
// owns the open file, and with it its lock, until it is destroyed. It handles the bytes of one file; agreement between the
// members of a set is handled above it (dataset/roll_forward). All calls are local. Not thread-safe.
//
// Invariants kept by every method that writes:
//  - once the first commit has succeeded, one copy of the metadata is whole and durable at any moment;
//  - no copy is overwritten before another one is known to be whole and durable;
//  - an intent that was returned as set is durable.

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

/// Everything that a sidecar says, decoded. A value type. A large tree refers to the sidecar's file (merkle/tree.h), which
/// stays open as long as any copy of the tree does.
struct SidecarContents {
  /// For writing, fill in everything except `extents`, `copy`, `copies`, `spacing`, `info_hash`, `key_id`, `seal` and
  /// the roots of data and parity: the writer does that.
  Superblock superblock;
  InfoRecord info;
  Tree data_tree{TreeKind::kData};
  Tree parity_tree{TreeKind::kParity};
  /// The key that seals it when it is written; null: it is not sealed. After loading it is null until Sidecar::Unseal.
  std::shared_ptr<const LeafKey> key;
};

/// A range of a sidecar's metadata that is damaged, for reports. Offset and length are bytes of the file.
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

/// The `what` of a copy that is of an older generation than others.
inline constexpr char kOlderSuperblock[] = "older superblock";

class Sidecar {
 public:
  /// Loads the newest generation that is whole, page by page from all of its copies. If none is whole, loads the newest one
  /// that is usable in part; see unknown_data_leaves(). `mode`: kRead, or kReadWrite to lock or write it later.
  /// `accept_prepared`: also accept a generation that is only prepared, if it is the newest (see CompletePrepared).
  /// kNotFound: no such file. kUnprotected: it is not a sidecar, or no part of it is usable. kCorrupt: its hashes are
  /// right, but its contents are impossible. kNewerFormat: a newer lzy wrote it (with kReadWrite: only a newer lzy may
  /// write it). kIo: the file cannot be read at all. kBusy (kRead only): others commit faster than it can be read.
  static Result<std::unique_ptr<Sidecar>> Load(FileSystem& fs, const std::string& path, OpenMode mode,
                                               bool accept_prepared = false);

  /// The same from a file that is open already, e.g. under its lock. `file` is taken over only on success.
  static Result<std::unique_ptr<Sidecar>> Load(std::shared_ptr<File>&& file, OpenMode mode,
                                               bool accept_prepared = false);

  /// The same for reading, but hash pages are usually read only when needed, even in small trees. So it takes a few pages
  /// for any size of the file. damage() and the unknown leaves are incomplete then: if no copy has a page, the trees throw
  /// StatusError (merkle/tree.h). For callers that need few of the hashes.
  static Result<std::unique_ptr<Sidecar>> LoadPaged(FileSystem& fs, const std::string& path);

  /// Checks the seal against `key` (null: the caller has none). Call it before you use any loaded contents. On success
  /// contents().key is set, so the next commit is sealed, too. Ok for a sidecar that was never committed. kInvalidArgument:
  /// it is sealed with another key, or it is sealed and there is no key. kUnprotected: it is not sealed, but there is a
  /// key. kCorrupt: it was changed after sealing, or leaves are unknown, so the seal proves nothing.
  Status Unseal(std::shared_ptr<const LeafKey> key);

  /// Destroys the sidecar but keeps its file open, and so keeps the lock.
  static std::shared_ptr<File> ReleaseFile(std::unique_ptr<Sidecar> sidecar) { return std::move(sidecar->file_); }

  /// Creates the file `path` (removes a leftover) with room for parity and for metadata of the shape of `shape` (numbers of
  /// leaves, size of the info record). It is compact if `shape` requests it and is small enough. Nothing in it is valid
  /// before WriteAll. It gets no wider access than `like`, the data file, has. `least_spacing`: the spacing of the
  /// dataset's other sidecars, if parity must begin at the same place in all of them.
  static Result<std::unique_ptr<Sidecar>> Create(FileSystem& fs, const std::string& path, const SidecarContents& shape,
                                                 File& like, std::uint64_t least_spacing = kMinSpacing);
  /// The same for an existing file whose parity stays. WriteAll writes all of its metadata without regard to the old ones,
  /// which may be torn until it returns. Only for parts, whose metadata are a spare (docs/format.md §13).
  static Result<std::unique_ptr<Sidecar>> Renew(std::unique_ptr<File> part, const SidecarContents& shape,
                                                std::uint64_t least_spacing);

  /// Call this after loading a part whose metadata replace the lost sidecar beside the file. Its damage() then reports that
  /// the sidecar is lost. Do not write with it.
  void StandIn();

  const SidecarContents& contents() const { return contents_; }
  const std::string& path() const { return file_->path(); }
  File& file() { return *file_; }
  std::uint64_t generation() const { return contents_.superblock.generation; }
  bool committed() const { return contents_.superblock.state != SidecarState::kNeverCommitted; }
  /// Bytes of the sidecar file.
  std::uint64_t file_size() const { return size_; }

  /// Damage of the metadata found by loading, including redundant copies, and damage noted since. A commit clears it.
  const std::vector<MetadataDamage>& damage() const { return damage_; }
  void NoteDamage(MetadataDamage damage) { damage_.push_back(std::move(damage)); }
  /// Numbers of the leaves of the data tree and of the parity tree that no copy had intact, ascending. The hashes at
  /// their places in the trees are zero and mean nothing. judge/ may prove them from the data.
  const std::vector<std::uint64_t>& unknown_data_leaves() const { return unknown_data_; }
  const std::vector<std::uint64_t>& unknown_parity_leaves() const { return unknown_parity_; }
  /// Whether there are no such leaves. If there are, do not call WriteAll: it would store the zeros as hashes.
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
  /// Only the second half: the metadata fit into the copies as they are. Larger ones would move the parity.
  bool HasRoom(const SidecarContents& next) const;
  /// Commits a further generation in place, in one phase: Prepare and FinishPrepared. If it fails, the previous generation
  /// and its intent still count (unless the device accepts no more writes, not even that of the old superblock). Not for
  /// the compact form, whose commits build a new file.
  ///
  /// Also writes a fresh sidecar of either form. If `next` equals contents(), with the same generation, heals damaged
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

  /// Declares durably that data may change from now on. `intent` is one of this process (NewIntent), or that of another
  /// writer that is set again; this function sets its uuid and generation. Replaces the present intent. If the sidecar was
  /// created and not written yet, the intent is kept and written with the rest. After an error, the old intent stays.
  Status SetIntent(Intent intent);
  /// Clears the intent durably. Only if nothing was changed, or all changes were undone.
  Status ClearIntent();

 private:
  Sidecar() = default;
  static Result<std::unique_ptr<Sidecar>> Load(std::shared_ptr<File>&& file, OpenMode mode, bool accept_prepared,
                                               bool paged);
  Status ReadUntilSettled(OpenMode mode, bool accept_prepared, bool paged);
  Status ReadEverything(OpenMode mode, bool accept_prepared, bool paged);
  /// Superblocks that were found, by copy.
  using Superblocks = std::map<std::uint32_t, Superblock>;
  /// By copy: the extents of its parts; null if it does not take part.
  using Copies = std::vector<const std::vector<Extent>*>;
  /// Reads the first of `candidates` that is whole, or else the first that can be read, and returns it.
  Result<const Superblock*> ReadBest(const Superblocks& found, const std::vector<const Superblock*>& candidates);
  /// Puts together what `best` and the other superblocks of its generation describe.
  Status ReadGeneration(const Superblocks& found, const Superblock& best);
  /// The steps of ReadGeneration. CopiesOf sets extents_ and copy_whole_.
  Copies CopiesOf(const Superblocks& found, const Superblock& best);
  Status ReadInfo(const Copies& same, const Superblock& best);
  void ReadNodes(const Copies& same);
  Status ReadTrees(const Copies& same, const Superblock& best);
  /// The same for LoadPaged; false if the top of a tree cannot be had.
  Result<bool> ReferToTrees(const Copies& same, const Superblock& best);
  void ReadIntent(const Superblock& superblock);
  /// From now on, large trees of `contents` are read from the copies `first` and later, at the places in extents_. These
  /// must have been written. Trees contain places in the file, and a copy may have been written to other places.
  void ReadPagesFrom(std::uint32_t first, SidecarContents& contents) const;
  /// Offset of the intent pages. kNewerFormat if a later version placed them in another way.
  Result<std::uint64_t> IntentOffset() const;
  Status PutIntent(std::optional<Intent> intent);
  Status WriteIntentPages();
  /// Fills extents_ with the places of all copies of metadata of this shape, as this version lays them out.
  Status PlanExtents(const SidecarContents& shape, std::uint64_t least_spacing);
  /// Whether a new sidecar of this shape gets the compact form.
  static bool FitsCompact(const SidecarContents& shape);
  /// Plans the places of a sidecar that has its form already.
  Status PlanAgain(const SidecarContents& contents);
  /// The same for copy 0 alone, with the metadata that were loaded.
  Status PlanFirstCopy();
  /// Metadata and superblock of one copy, at the places in extents_. Does not sync.
  Status WriteCopy(std::uint32_t copy, const SidecarContents& contents, SidecarState state);
  /// The superblock of `copy`, which says that its metadata lie at `extents`. Does not sync.
  Status WriteSuperblock(std::uint32_t copy, const SidecarContents& contents, SidecarState state,
                         const std::vector<Extent>& extents);
  Status SyncFile();
  /// Completes a commit whose last page was torn. Call it before an intent is written: the note of a set's decision lies in
  /// an intent page, and without the note that commit would no longer count.
  Status MendTorn();
  /// Makes copy 0 whole if it is not, then writes `contents` to all others, durably (a fresh file is synced by
  /// WriteAll).
  Status WriteOtherCopies(SidecarContents& contents, SidecarState state);
  /// Sets the fields that follow from the others: roots, info hash, key and seal.
  Status Complete(SidecarContents& contents) const;
  /// The steps of FinishPrepared, in this order.
  Status NoteDecision(const Superblock& next);
  Status MakeCount(const SidecarContents& next);
  Status FinishCopies(const SidecarContents& next);
  /// Makes the committed `contents` those of this object, without damage.
  void Adopt(SidecarContents contents);
  /// Makes the file end with its last part.
  Status CutToLength();

  std::shared_ptr<File> file_;
  std::uint64_t size_ = 0;
  // Created here (or renewed) and not yet written: nothing in it needs to stay valid.
  bool fresh_ = false;
  // The loaded contents of the file are durable.
  bool synced_ = false;
  // The generation that counts is prepared and decided, but no superblock says yet that it is committed.
  bool torn_ = false;
  SidecarContents contents_;
  std::optional<SidecarContents> prepared_;
  // By copy: the places of its parts, and whether it was found or written whole.
  std::vector<std::vector<Extent>> extents_;
  std::vector<bool> copy_whole_;
  std::vector<MetadataDamage> damage_;
  std::vector<std::uint64_t> unknown_data_;
  std::vector<std::uint64_t> unknown_parity_;
  std::optional<Intent> intent_;
  std::uint64_t prepared_generation_ = 0;
  bool paged_ = false;  // loaded by LoadPaged, if that was possible
};

/// The superblock of a sidecar by a few small reads, if all of its copies agree, as they do but for a commit that is under
/// way or broke off. Anything unusual is an error: load the sidecar then.
Result<Superblock> AgreedSuperblock(File& file);
/// An intent with only process and host filled in.
Intent IntentOfThisProcess();
/// An intent for Sidecar::SetIntent, from now on: for `ranges`, or with kIntentWholeFile in `flags` for the whole
/// file. More than kMaxIntentRanges ranges become the whole file.
Intent NewIntent(std::uint32_t flags, const std::vector<ByteRange>& ranges = {});

}  // namespace lzy
