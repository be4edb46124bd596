#include "read_check.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/heal.h"
#include "engine/lookup.h"
#include "peek.h"

namespace lzy::hooks {
namespace {

// So much of option memory is for blocks that were read in part.
constexpr std::uint64_t kKeptPart = 4;

}  // namespace

/// What a commit says of the file.
struct ReadCheck::Committed {
  std::unique_ptr<Sidecar> sidecar;
  std::unique_ptr<File> data;

  const Superblock& superblock() const { return sidecar->contents().superblock; }
  std::uint64_t size() const { return superblock().stamp.size; }
  std::uint64_t block_size() const { return superblock().block_size; }
  std::uint64_t LengthOf(std::uint64_t index) const {
    return std::min(block_size(), size() - index * block_size());
  }
  bool IsLeaf(std::uint64_t index, ByteSpan bytes) const {
    return HashBytes(HashTag::kDataLeaf, index, bytes) == sidecar->contents().data_tree.leaf(index);
  }
  bool IsOf(const SidecarVersion& version) const { return version == SidecarVersion{superblock().uuid, sidecar->generation()}; }
};

/// Blocks as they were committed, the least recently wanted of which go.
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
  checked += other.checked;
  healed += other.healed;
  mended += other.mended;
  reread += other.reread;
  if (!first) first = other.first;
  if (!other.lost) return;
  if (!lost) {
    lost = other.lost;
    why = other.why;
  }
  lost->length = other.lost->offset + other.lost->length - lost->offset;
}

ReadCheck::ReadCheck(FileSystem& fs, const Options& options, std::string path)
    : fs_(fs), options_(options), path_(std::move(path)), kept_(std::make_unique<KeptBlocks>(options.memory / kKeptPart)) {}

ReadCheck::~ReadCheck() = default;

std::shared_ptr<const ReadCheck::Committed> ReadCheck::Current() {
  {
    const std::lock_guard lock(mutex_);
    if (looked_) return committed_;
  }
  return LoadAgain();
}

std::shared_ptr<const ReadCheck::Committed> ReadCheck::LoadAgain() {
  auto made = std::make_shared<Committed>();
  const auto path = FindSidecar(fs_, path_);
  if (path.ok()) {
    auto sidecar = Sidecar::Load(fs_, *path, OpenMode::kRead);
    if (sidecar.ok() && (*sidecar)->committed()) made->sidecar = std::move(*sidecar);
  }
  auto data = fs_.Open(path_, OpenMode::kRead);
  const bool usable = made->sidecar && data.ok();
  if (usable) made->data = std::move(*data);
  const std::lock_guard lock(mutex_);
  looked_ = true;
  kept_->Clear();
  committed_ = usable ? std::move(made) : nullptr;
  return committed_;
}

std::uint64_t ReadCheck::CommittedSize() {
  const auto committed = Current();
  return committed ? committed->size() : 0;
}

bool ReadCheck::IsRight(const Committed& committed, std::uint64_t index, std::span<const ReadPiece> parts) {
  const std::uint64_t begin = index * committed.block_size();
  const std::uint64_t length = committed.LengthOf(index);
  if (parts.size() == 1 && parts[0].length == length && parts[0].memory != nullptr) {
    return committed.IsLeaf(index, {parts[0].memory, length});
  }
  KeptBlocks::Block whole;
  {
    const std::lock_guard lock(mutex_);
    whole = kept_->Get(index);
  }
  // What is kept says what is right, not what was read into memory that cannot be looked at.
  const bool in_sight = std::all_of(parts.begin(), parts.end(), [](const ReadPiece& part) { return part.memory != nullptr; });
  if (!whole || !in_sight) {
    std::vector<std::uint8_t> bytes(length);
    const auto got = committed.data->ReadAt(begin, bytes);
    if (!got.ok() || *got < length || !committed.IsLeaf(index, bytes)) return false;
    whole = std::make_shared<const std::vector<std::uint8_t>>(std::move(bytes));
    const std::lock_guard lock(mutex_);
    if (committed_.get() == &committed) kept_->Put(index, whole);
  }
  return std::all_of(parts.begin(), parts.end(), [&](const ReadPiece& part) {
    return part.memory == nullptr || std::memcmp(part.memory, whole->data() + (part.offset - begin), part.length) == 0;
  });
}

std::vector<ReadCheck::Suspect> ReadCheck::FindSuspects(const Committed& committed, std::span<const ReadPiece> pieces,
                                                        ReadVerdict& verdict) {
  std::vector<Suspect> suspects;
  Suspect block;
  const auto finish = [&] {
    if (!block.parts.empty() && !IsRight(committed, block.index, block.parts)) suspects.push_back(block);
    block.parts.clear();
  };
  for (const ReadPiece& piece : pieces) {
    if (piece.offset + piece.length > committed.size()) verdict.as_committed = false;  // it has grown since
    const std::uint64_t end = std::min(piece.offset + piece.length, committed.size());
    for (std::uint64_t at = piece.offset; at < end;) {
      const std::uint64_t index = at / committed.block_size();
      if (index != block.index) finish();
      block.index = index;
      const std::uint64_t length = std::min(end, (index + 1) * committed.block_size()) - at;
      block.parts.push_back({at, length, piece.memory == nullptr ? nullptr : piece.memory + (at - piece.offset)});
      at += length;
      verdict.checked += length;
    }
  }
  finish();
  return suspects;
}

ReadVerdict ReadCheck::Check(std::span<const ReadPiece> pieces) {
  ReadVerdict verdict;
  auto committed = Current();
  std::vector<Suspect> suspects;
  if (committed) suspects = FindSuspects(*committed, pieces, verdict);
  if (suspects.empty()) {
    verdict.as_committed &= committed != nullptr;
    return verdict;
  }
  const std::lock_guard one_at_a_time(healing_);
  const auto peek = PeekAt(fs_, path_);
  if (!peek || !committed->IsOf(peek->version)) {
    committed = LoadAgain();
    verdict = {};
    verdict.as_committed = committed != nullptr;
    suspects.clear();
    if (committed) suspects = FindSuspects(*committed, pieces, verdict);
    if (suspects.empty()) return verdict;
  }
  // Cheaper than to find it out by looking at the whole dataset: programs read what they have just written.
  const auto stat = fs_.Stat(path_);
  const bool edited = !stat.ok() || (stat->mtime_ns != committed->superblock().stamp.mtime_ns && !(peek && peek->repairing));
  if (edited || (peek && peek->whole_file_intent)) {
    verdict.as_committed = false;
    return verdict;
  }
  const std::size_t batch = std::max<std::uint64_t>(1, options_.memory / kKeptPart / committed->block_size());
  for (std::size_t i = 0; i < suspects.size(); i += batch) {
    Heal(*committed, std::span(suspects).subspan(i, std::min(batch, suspects.size() - i)), verdict);
  }
  return verdict;
}

void ReadCheck::Heal(const Committed& committed, std::span<const Suspect> suspects, ReadVerdict& verdict) {
  if (!may_write_) may_write_ = fs_.Open(path_, OpenMode::kReadWrite).ok();
  HealRequest request{path_, {}, *may_write_};
  for (const Suspect& suspect : suspects) request.blocks.push_back(suspect.index);
  Options options = options_;
  // Whoever else has the locks is at work on the file; what was read is put right all the same.
  options.timeout_seconds = std::min<std::uint32_t>(options.timeout_seconds, 1);
  const auto healed = HealBlocks(fs_, options, request);
  if (!healed.ok()) {  // the dataset cannot be looked at (any more): then nothing is known
    verdict.as_committed = false;
    return;
  }
  for (std::size_t i = 0; i < suspects.size(); ++i) {
    const HealedBlock& block = (*healed)[i];
    const Suspect& suspect = suspects[i];
    const std::uint64_t begin = block.index * committed.block_size();
    const ByteRange range{begin, committed.LengthOf(block.index)};
    ReadVerdict one;
    one.first = range;
    const bool in_sight = std::all_of(suspect.parts.begin(), suspect.parts.end(), [](const ReadPiece& p) { return p.memory != nullptr; });
    if (block.verdict == HealedBlock::Verdict::kNotJudged) {
      one.as_committed = false;
      one.first.reset();
    } else if (block.verdict == HealedBlock::Verdict::kLost) {
      one.as_committed = false;
      one.lost = range;
      one.why = block.why;
    } else if (!in_sight) {
      one.as_committed = false;
      one.lost = range;
      one.why = block.mended || !block.damaged ? "it is mended now, but not where the program has it: read it again"
                             : "it cannot be put right where the program has it";
    } else {
      for (const ReadPiece& part : suspect.parts) {
        std::memcpy(part.memory, block.bytes.data() + (part.offset - begin), part.length);
      }
      (block.damaged ? one.healed : one.reread) = range.length;
      if (block.mended) one.mended = range.length;
    }
    verdict.Add(one);
  }
}

}  // namespace lzy::hooks
