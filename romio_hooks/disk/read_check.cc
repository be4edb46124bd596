// Compares reads with leaves. The quick way uses only memory and hashes. If a block differs, the slow way finds out which
// commit counts, whether the file was edited, and which data parity gives back.
//
// Locks: mutex_ is only held for moments, never while files are read. healing_ is held for the whole slow way, and locked
// first. So a read with only right blocks never waits for one that is being healed.

#include "hooks/disk/read_check.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "base/program_memory.h"
#include "hooks/disk/commit_state.h"
#include "names/lookup.h"
#include "repair/heal.h"

namespace lzy::hooks {
namespace {

// Blocks that were read in part may use option memory divided by this number.
constexpr std::uint64_t kKeptPart = 4;
// The commit is checked again after this time, because other processes commit, too.
constexpr std::chrono::seconds kRecently{1};
// A commit or repair during an attempt voids its findings.
constexpr int kAttempts = 3;

// True if all parts are in memory that can be read and corrected.
bool InSight(std::span<const ReadPiece> parts) {
  return std::all_of(parts.begin(), parts.end(), [](const ReadPiece& part) { return part.memory != nullptr; });
}

// False if a part of the memory cannot be written.
bool PutRight(std::span<const ReadPiece> parts, std::uint64_t block_begin, ByteSpan block) {
  return std::all_of(parts.begin(), parts.end(), [&](const ReadPiece& part) {
    return WriteProgramMemory(part.memory, block.subspan(part.offset - block_begin, part.length));
  });
}

// Copies the parts of a block to their places in `block`. Sets `memory` to null in parts that cannot be copied.
void CopyParts(std::span<ReadPiece> parts, std::uint64_t block_begin, MutableByteSpan block) {
  for (ReadPiece& part : parts) {
    const MutableByteSpan to = block.subspan(part.offset - block_begin, part.length);
    if (part.memory != nullptr && !ReadProgramMemory(part.memory, to)) part.memory = nullptr;
  }
}

}  // namespace

/// The committed state of the file.
struct ReadCheck::Committed {
  SidecarVersion version;
  Stamp stamp;
  std::uint64_t block_size = 0;
  Tree leaves;
  std::shared_ptr<const LeafKey> key;

  std::uint64_t size() const { return stamp.size; }
  std::uint64_t LengthOf(std::uint64_t index) const { return std::min(block_size, size() - index * block_size); }
  /// The most blocks held at once for one purpose.
  std::size_t MostBlocks(const Options& options) const {
    return std::max<std::uint64_t>(1, options.memory / kKeptPart / block_size);
  }
  /// A leaf of a large tree cannot be read if the sidecar was written since. Then everything is loaded again, and the block
  /// is checked once more.
  mutable std::atomic<bool> outdated = false;
  bool IsLeaf(std::uint64_t index, ByteSpan bytes) const {
    bool same = false;
    const Status read = NoThrow([&] { same = LeafHash(key.get(), HashTag::kDataLeaf, index, bytes) == leaves.leaf(index); });
    if (!read.ok()) outdated = true;
    return same;
  }
};

/// Blocks as they were committed. The least recently used ones are dropped.
class ReadCheck::KeptBlocks {
 public:
  using Block = std::shared_ptr<const std::vector<std::uint8_t>>;
  explicit KeptBlocks(std::uint64_t most) : most_(most) {}

  Block Get(std::uint64_t index) {
    const auto at = blocks_.find(index);
    if (at == blocks_.end()) return nullptr;
    order_.splice(order_.begin(), order_, at->second.second);
    return at->second.first;
  }
  void Put(std::uint64_t index, Block block) {
    if (blocks_.contains(index) || block->size() > most_) return;
    bytes_ += block->size();
    order_.push_front(index);
    blocks_[index] = {std::move(block), order_.begin()};
    while (bytes_ > most_) {
      const auto oldest = blocks_.find(order_.back());
      bytes_ -= oldest->second.first->size();
      blocks_.erase(oldest);
      order_.pop_back();
    }
  }
  void Clear() {
    blocks_.clear();
    order_.clear();
    bytes_ = 0;
  }

 private:
  const std::uint64_t most_;
  std::uint64_t bytes_ = 0;
  std::list<std::uint64_t> order_;
  std::unordered_map<std::uint64_t, std::pair<Block, std::list<std::uint64_t>::iterator>> blocks_;
};

void ReadVerdict::Add(const ReadVerdict& other) {
  as_committed &= other.as_committed;
  if (unknown.empty()) unknown = other.unknown;
  if (unusable.empty()) unusable = other.unusable;
  healed += other.healed;
  repaired += other.repaired;
  reread += other.reread;
  repaired_elsewhere |= other.repaired_elsewhere;
  if (!first) first = other.first;
  if (!other.lost) return;
  if (!lost) {
    lost = other.lost;
    why = other.why;
  }
  lost->length = other.lost->offset + other.lost->length - lost->offset;
}

ReadCheck::ReadCheck(FileSystem& fs, const Options& options, std::string path, std::uint64_t inode)
    : fs_(fs),
      options_(options),
      path_(std::move(path)),
      inode_(inode),
      kept_(std::make_unique<KeptBlocks>(options.memory / kKeptPart)) {
  if (const auto stat = fs_.Stat(path_); stat.ok()) seen_ctime_ns_ = stat->ctime_ns;
}

ReadCheck::~ReadCheck() = default;

void ReadCheck::Forget() {
  const std::lock_guard lock(mutex_);
  looked_ = {};
}

// The commit may change at any time, by this process or another. The result stays valid, so a check continues with the
// commit that it began with.
std::shared_ptr<const ReadCheck::Committed> ReadCheck::Current(Trust trust) {
  const auto now = Clock::now();
  std::shared_ptr<const Committed> known;
  {
    const std::lock_guard lock(mutex_);
    if (trust == Trust::kRecently && looked_ != Clock::time_point() && now - looked_ < kRecently) return committed_;
    known = committed_;
  }
  const auto state = ReadCommitState(fs_, path_);
  if (!known || !state || state->version != known->version || known->outdated) return LoadAgain();
  const std::lock_guard lock(mutex_);
  looked_ = now;
  return known;
}

// Reports an unusable sidecar only if it exists, or if a key was given. Without a key, most files have no sidecar, which is
// normal.
std::shared_ptr<const ReadCheck::Committed> ReadCheck::LoadAgain() {
  const auto now = Clock::now();
  auto made = std::make_shared<Committed>();
  std::string unusable;
  const auto load = [&]() -> Status {
    LZY_ASSIGN_OR_RETURN(const FileStat stat, fs_.Stat(path_));
    if (stat.inode != inode_) return {Code::kNotFound, "another file has its name"};
    const auto found = FindSidecar(fs_, path_);
    if (!found.ok() && options_.key) unusable = found.status().message();  // the sidecar may have been removed on purpose
    LZY_ASSIGN_OR_RETURN(const std::string path, found);
    auto loaded = Sidecar::Load(fs_, path, OpenMode::kRead);
    if (!loaded.ok()) unusable = loaded.status().message();
    LZY_RETURN_IF_ERROR(loaded.status());
    const auto& sidecar = *loaded;
    if (!sidecar->committed() && options_.key) unusable = "its sidecar holds no commit";
    if (!sidecar->committed()) return {Code::kUnprotected, "never committed"};
    const Status unsealed = sidecar->Unseal(options_.key);
    if (!unsealed.ok()) unusable = unsealed.message();
    LZY_RETURN_IF_ERROR(unsealed);
    const SidecarContents& contents = sidecar->contents();
    made->version = {contents.superblock.uuid, sidecar->generation()};
    made->stamp = contents.superblock.stamp;
    made->block_size = contents.superblock.block_size;
    made->leaves = contents.data_tree;
    made->key = contents.key;
    return Status::Ok();
  };
  const bool usable = NoThrow(load).ok();
  const std::lock_guard lock(mutex_);
  looked_ = now;
  kept_->Clear();
  committed_ = usable ? std::move(made) : nullptr;
  unusable_ = std::move(unusable);
  return committed_;
}

// After a short read, the size must be that of the commit that counts now.
std::uint64_t ReadCheck::CommittedSize() {
  const auto committed = Current(Trust::kNow);
  return committed ? committed->size() : 0;
}

// If the whole block was read, hashes the copy. Otherwise reads the whole block again, compares it with its leaf, and
// compares the copies of the parts with it.
bool ReadCheck::IsRight(const Committed& committed, std::uint64_t index, std::span<ReadPiece> parts, AlignedBuffer& copy) {
  const std::uint64_t begin = index * committed.block_size;
  const std::uint64_t length = committed.LengthOf(index);
  copy.Reserve(length);
  CopyParts(parts, begin, {copy.data(), length});
  if (parts.size() == 1 && parts[0].length == length && parts[0].memory != nullptr) {
    return committed.IsLeaf(index, {copy.data(), length});
  }
  KeptBlocks::Block whole;
  {
    const std::lock_guard lock(mutex_);
    whole = kept_->Get(index);
  }
  // A kept block is right, but says nothing about bytes in memory that cannot be examined.
  if (!whole || !InSight(parts)) {
    std::vector<std::uint8_t> bytes(length);
    // No descriptor of the data stays open, because programs may need all their descriptors.
    const auto data = fs_.Open(path_, OpenMode::kRead);
    const auto stat = data.ok() ? (*data)->Stat() : Result<FileStat>(data.status());
    if (!stat.ok() || stat->inode != inode_) return false;
    const auto got = (*data)->ReadAt(begin, bytes);
    if (!got.ok() || *got < length || !committed.IsLeaf(index, bytes)) return false;
    whole = std::make_shared<const std::vector<std::uint8_t>>(std::move(bytes));
    const std::lock_guard lock(mutex_);
    if (committed_.get() == &committed) kept_->Put(index, whole);
  }
  return std::all_of(parts.begin(), parts.end(), [&](const ReadPiece& part) {
    const std::uint64_t at = part.offset - begin;
    return part.memory == nullptr || std::memcmp(copy.data() + at, whole->data() + at, part.length) == 0;
  });
}

// Pieces are in the order of the file, so the parts of a block follow one another.
std::vector<ReadCheck::Suspect> ReadCheck::FindSuspects(const Committed& committed, std::span<const ReadPiece> pieces,
                                                        bool unread, ReadVerdict& verdict) {
  std::vector<Suspect> suspects;
  Suspect block;
  AlignedBuffer copy;  // for the parts of a block
  const auto finish = [&] {
    if (!block.parts.empty() && (unread || !IsRight(committed, block.index, block.parts, copy))) suspects.push_back(block);
    block.parts.clear();
  };
  for (const ReadPiece& piece : pieces) {
    if (piece.offset + piece.length > committed.size()) verdict.as_committed = false;  // the file has grown since
    const std::uint64_t end = std::min(piece.offset + piece.length, committed.size());
    for (std::uint64_t at = piece.offset; at < end;) {
      const std::uint64_t index = at / committed.block_size;
      if (index != block.index) finish();
      block.index = index;
      const std::uint64_t length = std::min(end, (index + 1) * committed.block_size) - at;
      block.parts.push_back({at, length, piece.memory == nullptr ? nullptr : piece.memory + (at - piece.offset)});
      at += length;
    }
  }
  finish();
  return suspects;
}

// True also if the name belongs to another file now. During a repair of the file, its mtime means nothing.
bool ReadCheck::IsEdited(const Committed& committed) const {
  for (int looks = 0; looks < 2; ++looks) {  // a repair may begin between ReadCommitState and the next calls
    const auto state = ReadCommitState(fs_, path_);
    const auto stat = fs_.Stat(path_);
    if (!stat.ok() || stat->inode != inode_ || (state && state->whole_file_intent)) return true;
    if (stat->mtime_ns == committed.stamp.mtime_ns || (state && state->repairing)) return false;
  }
  return true;
}

// Verdicts of one attempt hold for one commit. If another commit came meanwhile, the next attempt starts again.
ReadVerdict ReadCheck::Check(std::span<const ReadPiece> pieces, bool unread) {
  ReadVerdict verdict;
  auto committed = Current(Trust::kRecently);
  std::vector<Suspect> suspects;
  if (committed) suspects = FindSuspects(*committed, pieces, unread, verdict);
  if (suspects.empty()) {
    verdict.as_committed &= committed != nullptr;
    const std::lock_guard lock(mutex_);
    verdict.unusable = unusable_;
    return verdict;
  }
  const std::lock_guard one_at_a_time(healing_);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const auto now = Current(Trust::kNow);
    if (now != committed) healed_.clear();
    committed = now;
    verdict = {};
    verdict.as_committed = committed != nullptr;
    suspects.clear();
    if (committed) suspects = FindSuspects(*committed, pieces, unread, verdict);
    if (suspects.empty()) return verdict;
    // This check is cheaper than an examination of the whole dataset, and often suffices: programs read data that they have
    // just written.
    if (IsEdited(*committed)) break;
    ServeHealed(*committed, suspects);
    bool done = true;
    const std::size_t batch = committed->MostBlocks(options_);
    for (std::size_t i = 0; i < suspects.size() && done; i += batch) {
      done = Heal(*committed, std::span(suspects).subspan(i, std::min(batch, suspects.size() - i)), verdict);
    }
    if (done) return verdict;
  }
  verdict.as_committed = false;
  return verdict;
}

// A block that could not be repaired on disk would be found damaged at every read. It is reported once, and rebuilt once.
void ReadCheck::ServeHealed(const Committed& committed, std::vector<Suspect>& suspects) const {
  std::erase_if(suspects, [&](const Suspect& suspect) {
    const auto healed = healed_.find(suspect.index);
    if (healed == healed_.end() || !InSight(suspect.parts)) return false;
    return PutRight(suspect.parts, suspect.index * committed.block_size, healed->second);
  });
}

// False if there was another commit meanwhile: then the findings are void, and Check begins again. A failure of HealBlocks
// is no verdict about the data. The read is then reported as unknown, and the program gets the bytes that MPI read.
bool ReadCheck::Heal(const Committed& committed, std::span<const Suspect> suspects, ReadVerdict& verdict) {
  if (!may_write_) may_write_ = fs_.Open(path_, OpenMode::kReadWrite).ok();
  HealRequest request{.path = path_,
                      .inode = inode_,
                      .uuid = committed.version.uuid,
                      .generation = committed.version.generation,
                      .blocks = {},
                      .write = *may_write_,
                      .patient = patient_};
  for (const Suspect& suspect : suspects) request.blocks.push_back(suspect.index);
  Options options = options_;
  // Another process that holds the locks is working on the file. Data in memory are corrected all the same.
  options.timeout_seconds = std::min<std::uint32_t>(options.timeout_seconds, 1);
  const auto healed = HealBlocks(fs_, options, request);
  const std::uint64_t first = suspects.front().index * committed.block_size;
  if (!healed.ok()) {
    verdict.as_committed = false;
    verdict.first = {first, committed.LengthOf(suspects.front().index)};
    verdict.unknown = healed.status().message();
    return true;
  }
  if (healed->other_commit) return false;
  if (healed->gave_up_waiting) patient_ = false;
  // A repair changes the ctime. Repairs by this process are not reported as wrong reads.
  const auto stat = fs_.Stat(path_);
  const bool repaired_elsewhere = stat.ok() && stat->ctime_ns != seen_ctime_ns_;
  if (stat.ok()) seen_ctime_ns_ = stat->ctime_ns;
  for (std::size_t i = 0; i < suspects.size(); ++i) {
    const HealedBlock& block = healed->blocks[i];
    const Suspect& suspect = suspects[i];
    const ByteRange range{block.index * committed.block_size, committed.LengthOf(block.index)};
    ReadVerdict one;
    one.first = range;
    one.as_committed = false;
    if (block.verdict == HealedBlock::Verdict::kNotJudged) {
      one.first.reset();
    } else if (block.verdict == HealedBlock::Verdict::kLost) {
      one.lost = range;
      one.why = block.why;
    } else if (!InSight(suspect.parts) || !PutRight(suspect.parts, range.offset, block.bytes)) {
      one.lost = range;
      one.why = block.repaired || !block.damaged ? "it is repaired on disk now, but not in the program's buffer: read it again"
                                                 : "it cannot be repaired in the program's buffer";
    } else {
      one.as_committed = true;
      (block.damaged ? one.healed : one.reread) = range.length;
      one.repaired_elsewhere = !block.damaged && repaired_elsewhere;
      if (block.repaired) one.repaired = range.length;
      const bool stays_damaged = block.damaged && !block.repaired;
      if (stays_damaged && healed_.size() < committed.MostBlocks(options_)) {
        healed_[block.index] = block.bytes;
      }
    }
    verdict.Add(one);
  }
  return true;
}

}  // namespace lzy::hooks
