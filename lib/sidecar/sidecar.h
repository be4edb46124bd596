#pragma once
// A sidecar file: loading from whatever copies are left, building, updating in place (docs/format.md §4, §8, §9).
//
// Invariants kept by every method that writes:
//  - at any moment one copy of the metadata is whole and durable, once the first commit has succeeded;
//  - no copy is overwritten before another one is known to be whole and durable;
//  - an intent returned as set is durable.

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

/// Everything a sidecar says, decoded.
struct SidecarContents {
  Superblock superblock;  ///< `extents`, `copy`, `spacing`, `info_hash` and roots are filled in by whoever writes
  InfoRecord info;
  Tree data_tree{TreeKind::kData};
  Tree parity_tree{TreeKind::kParity};
  /// What it is sealed with when it is written; null: not at all. Of what was loaded it is known after Sidecar::Unseal.
  std::shared_ptr<const LeafKey> key;
};

/// A part of a sidecar's metadata that is not as it should be.
struct MetadataDamage {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::string what;
  std::uint32_t part = 0;  ///< 0: of the sidecar itself; d + 1: of the part in device directory d
  LZY_FIELDS(offset, length, what, part)
};

class Sidecar {
 public:
  /// Reads the newest copy that can be put together (page by page from all copies of its generation).
  /// kNotFound: no such file. kUnprotected: not a sidecar, or nothing of it usable. kCorrupt: its hashes are right, but
  /// what it says is impossible. kNewerFormat. kIo.
  /// `accept_prepared`: of several generations present, also accept one that is only prepared (see FinishPrepared).
  static Result<std::unique_ptr<Sidecar>> Load(FileSystem& fs, const std::string& path, OpenMode mode,
                                               bool accept_prepared = false);

  /// The same from a file that is open already, e.g. under its lock; taken only on success.
  static Result<std::unique_ptr<Sidecar>> Load(std::unique_ptr<File>&& file, OpenMode mode, bool accept_prepared = false);

  /// Holds what was loaded to `key` (null: none). kInvalidArgument: it is sealed, and that is not its key, or there is none;
  /// kUnprotected: it is not sealed, but there is a key; kCorrupt: it is not what was sealed, or leaves are not known. What was
  /// never committed has nothing to be sealed.
  Status Unseal(std::shared_ptr<const LeafKey> key);

  /// Gives up the sidecar but not its file, and with that not its lock.
  static std::unique_ptr<File> ReleaseFile(std::unique_ptr<Sidecar> sidecar) { return std::move(sidecar->file_); }

  /// Creates (or replaces) the file `path` with room for metadata of the shape of `shape` (leaf counts, info size) and
  /// its parity. Nothing is valid in it before WriteAll. Access is made no wider than that of `like`. `least_spacing`: of
  /// the dataset's other sidecars, where parity has to begin at the same place in all of them.
  static Result<std::unique_ptr<Sidecar>> Create(FileSystem& fs, const std::string& path, const SidecarContents& shape,
                                                 File& like, std::uint64_t least_spacing = kMinSpacing);
  /// A file that is there, with parity that stays: its metadata, whatever they were, are to be written as those of a fresh one.
  /// Until WriteAll has returned none of them may count. For parts, whose metadata are a spare (docs/format.md §13).
  static Result<std::unique_ptr<Sidecar>> Renew(std::unique_ptr<File> part, const SidecarContents& shape,
                                                std::uint64_t least_spacing);

  /// What was loaded from a part of the dataset's parity stands in for the sidecar beside the file, which is lost. Nothing can be
  /// written with it.
  void StandIn();

  const SidecarContents& contents() const { return contents_; }
  const std::string& path() const { return file_->path(); }
  File& file() { return *file_; }
  std::uint64_t generation() const { return contents_.superblock.generation; }
  bool committed() const { return contents_.superblock.state != SidecarState::kNeverCommitted; }
  /// Bytes of the sidecar file.
  std::uint64_t file_size() const { return size_; }

  /// What was wrong with the metadata when it was loaded (redundant copies included), and was noted since.
  const std::vector<MetadataDamage>& damage() const { return damage_; }
  void NoteDamage(MetadataDamage damage) { damage_.push_back(std::move(damage)); }
  /// Leaves of the data and of the parity tree that no copy had intact: their hash is not known.
  const std::vector<std::uint64_t>& unknown_data_leaves() const { return unknown_data_; }
  const std::vector<std::uint64_t>& unknown_parity_leaves() const { return unknown_parity_; }
  /// Whether there are no such leaves. If there are, WriteAll would pass the nothing in their place off as hashes.
  bool knows_all_leaves() const { return unknown_data_.empty() && unknown_parity_.empty(); }
  /// The intent that is set, if any.
  const std::optional<Intent>& intent() const { return intent_; }
  /// A prepared, not yet committed generation found beside the one loaded (0: none).
  std::uint64_t prepared_generation() const { return prepared_generation_; }

  /// Place of a byte of the parity region in the sidecar file.
  std::uint64_t ParityFileOffset(std::uint64_t offset) const;

  /// True when `next` can be written in place: same geometry and room for its metadata.
  bool Fits(const SidecarContents& next) const;
  /// Its part of that: metadata so long do not make the copies grow, and with that move the parity.
  bool HasRoom(const SidecarContents& next) const;
  /// One-phase commit of a further generation, in place: Prepare and FinishPrepared. When it fails, the generation before
  /// still counts, and with it its intent, unless the device takes nothing at all any more. Also the way to write a fresh
  /// sidecar, and, with contents() as they are, to heal damaged copies.
  Status WriteAll(SidecarContents next);
  /// Two-phase commit in place, for sets: after Prepare the generation is durable in the copies other than 0;
  /// FinishPrepared makes it the committed one. Between the two the old generation is what Load returns. Once the new one
  /// counts, FinishPrepared succeeds, even if not all copies of the metadata could be brought up to it: damage() tells
  /// when the sidecar is loaded again.
  Status Prepare(SidecarContents next);
  Status FinishPrepared();
  /// The second phase for what was prepared before a crash and loaded with `accept_prepared`.
  Status CompletePrepared();

  /// Durably declares that data may change from now on, as one of this sidecar's present generation: an intent of this process
  /// (NewIntent), or another writer's once more. In a sidecar that was created and not written yet it is written with the rest.
  Status SetIntent(Intent intent);
  /// Takes the intent back; for use when nothing was changed after all.
  Status ClearIntent();

 private:
  Sidecar() = default;
  Status ReadEverything(OpenMode mode, bool accept_prepared);
  /// Puts together what `best` and the other superblocks of its generation describe.
  Status ReadGeneration(const std::map<std::uint32_t, Superblock>& found, const Superblock& best);
  void ReadIntent(const Superblock& superblock);
  Result<std::uint64_t> IntentOffset() const;
  Status PutIntent(std::optional<Intent> intent);
  Status WriteIntentPages();
  Status PlanExtents(const SidecarContents& shape, std::uint64_t least_spacing);
  Status WriteCopy(std::uint32_t copy, const SidecarContents& contents, SidecarState state);
  /// The superblock of `copy`, saying that the copy lies where `extents` are.
  Status WriteSuperblock(std::uint32_t copy, const SidecarContents& contents, SidecarState state,
                         const std::vector<Extent>& extents);
  Status SyncFile();
  /// The note of the decision lies where intents do: before one is written over it, there must be no need of it.
  Status MendTorn();
  Status WriteOtherCopies(SidecarContents& contents, SidecarState state);
  Status Complete(SidecarContents& contents) const;
  Status NoteDecision(const Superblock& next);
  Status MakeCount(const SidecarContents& next);
  Status FinishCopies(const SidecarContents& next);
  void Adopt(SidecarContents contents);
  Status CutToLength();

  std::unique_ptr<File> file_;
  std::uint64_t size_ = 0;
  bool fresh_ = false;  // created here and not yet written: nothing in it needs to stay valid
  bool synced_ = false;  // what was there when it was loaded is durable
  bool torn_ = false;    // what counts is prepared, and decided: no superblock says yet that it is committed
  SidecarContents contents_;
  std::optional<SidecarContents> prepared_;
  std::vector<std::vector<Extent>> extents_;  // by copy
  std::vector<bool> copy_whole_;
  std::vector<MetadataDamage> damage_;
  std::vector<std::uint64_t> unknown_data_;
  std::vector<std::uint64_t> unknown_parity_;
  std::optional<Intent> intent_;
  std::uint64_t prepared_generation_ = 0;
};

/// What intents that this process sets say of their writer (process and host).
Intent IntentOfThisProcess();
/// One for Sidecar::SetIntent: the whole file or `ranges`, from now on. Where there are too many ranges, the whole file.
Intent NewIntent(std::uint32_t flags, const std::vector<ByteRange>& ranges = {});

}  // namespace lzy
