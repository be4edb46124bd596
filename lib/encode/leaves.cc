#include "encode/leaves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "base/interval_set.h"
#include "base/numbers.h"

namespace lzy {
namespace {

// Size of the hashes that all ranks together send at once to the gathering rank: 16 MiB.
std::uint64_t GatherAtOnce() {
  return 4 * MostLeavesInMemory();
}

// A page as stored in a scratch file: leaves, which of them are known, and a hash of both with the page number as seed.
struct StoredPage {
  std::array<Hash, kPageFanout> leaves;
  std::array<std::uint8_t, kPageFanout / 8> known;
  Hash check;

  ByteSpan Bytes() const { return {reinterpret_cast<const std::uint8_t*>(this), sizeof *this}; }
  Hash CheckOf(std::uint64_t number) const {
    return HashBytes(HashTag::kScratchPage, number, Bytes().first(sizeof leaves + sizeof known));
  }
};
static_assert(sizeof(StoredPage) == 4096 + 32 + 16);

// Writes known leaves as runs: whether they are of parity (u8), number of the first (u64), how many (u64), hashes. A rank's
// leaves are mostly a few long runs. Begins at page `next`, and stops after `most` leaves. Returns the number of leaves
// written; sets `next` to the page to continue with.
std::uint64_t PutKnown(ByteWriter& out, bool parity, const Leaves& leaves, std::uint64_t most, std::uint64_t& next) {
  std::uint64_t put = 0;
  while (put < most) {
    const auto number = leaves.NextPage(next);
    next = number ? *number + 1 : CeilDiv(leaves.blocks(), kPageFanout);
    if (!number) break;
    const Leaves::Page page = leaves.PageAt(*number);
    for (std::size_t i = 0; i < kPageFanout;) {
      std::size_t end = i;
      while (end < kPageFanout && page.known.test(end)) ++end;
      if (end > i) {
        out.Put<std::uint8_t>(parity);
        out.Put<std::uint64_t>(*number * kPageFanout + i);
        out.Put<std::uint64_t>(end - i);
        out.PutBytes(BytesOf(std::span(page.leaves).subspan(i, end - i)));
        put += end - i;
      }
      i = end + 1;
    }
  }
  return put;
}

// Reads what PutKnown wrote. Ignores numbers beyond the end, so a malformed message cannot write out of bounds.
Status TakeKnown(ByteReader& in, Leaves& data, Leaves& parity) {
  while (in.remaining() > 0 && in.ok()) {
    Leaves& leaves = in.Get<std::uint8_t>() != 0 ? parity : data;
    auto first = in.Get<std::uint64_t>();
    for (auto count = in.Get<std::uint64_t>(); count > 0 && first < leaves.blocks(); --count, ++first) {
      Hash leaf;
      GetRecord(in, leaf.bytes);
      if (!in.ok()) break;
      leaves.Set(first, leaf);
    }
  }
  return in.ok() ? Status::Ok() : Status(Code::kInternal, "leaves of a rank are malformed");
}

}  // namespace

// Pages in memory are newer than pages in the file. Neighbouring pages belong to different shards, each with a lock of its
// own, so that threads that hash different parts of a file rarely wait for each other.
class Leaves::Pages {
 public:
  explicit Pages(ScratchMaker scratch) : scratch_(std::move(scratch)) {
    const std::uint64_t most = std::max<std::uint64_t>(2, MostLeavesInMemory() / kPageFanout);
    shards_ = std::vector<Shard>(most / kShards >= kLeastPages ? kShards : 1);
    most_ = most / shards_.size();
  }

  void Set(std::uint64_t block, const Hash& leaf) {
    Shard& shard = ShardOf(block / kPageFanout);
    const std::lock_guard lock(shard.mutex);
    Page& page = ForWriting(shard, block / kPageFanout);
    const std::size_t i = block % kPageFanout;
    shard.known += !page.known.test(i);
    page.leaves[i] = leaf;
    page.known.set(i);
  }

  Page At(std::uint64_t number) const {
    const Shard& shard = ShardOf(number);
    const std::lock_guard lock(shard.mutex);
    const auto at = shard.pages.find(number);
    if (at != shard.pages.end()) return *at->second;
    return IsStored(number) ? Read(number) : Page();
  }

  std::optional<std::uint64_t> Next(std::uint64_t number) const {
    std::optional<std::uint64_t> next;
    const auto take = [&](std::uint64_t found) { next = next ? std::min(*next, found) : found; };
    for (const Shard& shard : shards_) {
      const std::lock_guard lock(shard.mutex);
      const auto at = shard.pages.lower_bound(number);
      if (at != shard.pages.end()) take(at->first);
    }
    const std::lock_guard lock(file_mutex_);
    const auto& stored = stored_.intervals();
    const auto run = std::ranges::upper_bound(stored, number, {}, &Interval::end);
    if (run != stored.end()) take(std::max(run->begin, number));
    return next;
  }

  std::uint64_t known() const {
    std::uint64_t known = 0;
    for (const Shard& shard : shards_) {
      const std::lock_guard lock(shard.mutex);
      known += shard.known;
    }
    return known;
  }

 private:
  static constexpr std::size_t kShards = 16, kLeastPages = 16;  // less memory than that is not divided
  // A cache line of its own, at least. A lock of a shard is taken before that of the file.
  struct alignas(64) Shard {
    mutable std::mutex mutex;  // for the fields below
    std::map<std::uint64_t, std::unique_ptr<Page>> pages;
    std::uint64_t latest_number = 0;  // number of the page that was written last
    Page* latest = nullptr;
    std::uint64_t known = 0;
  };

  Shard& ShardOf(std::uint64_t number) { return shards_[number % shards_.size()]; }
  const Shard& ShardOf(std::uint64_t number) const { return shards_[number % shards_.size()]; }

  bool IsStored(std::uint64_t number) const {
    const std::lock_guard lock(file_mutex_);
    return stored_.Overlaps({number, number + 1});
  }

  Page& ForWriting(Shard& shard, std::uint64_t number) {
    if (shard.latest != nullptr && shard.latest_number == number) return *shard.latest;
    auto at = shard.pages.find(number);
    if (at == shard.pages.end()) {
      if (shard.pages.size() >= most_) MakeRoom(shard);
      at = shard.pages.emplace(number, std::make_unique<Page>(IsStored(number) ? Read(number) : Page())).first;
    }
    shard.latest_number = number;
    shard.latest = at->second.get();
    return *shard.latest;
  }

  // Stores half of the pages: first complete pages, because these do not change any more, then the lowest. If there is no
  // file or it cannot be written, all pages stay in memory.
  void MakeRoom(Shard& shard) {
    shard.latest = nullptr;
    const std::lock_guard lock(file_mutex_);
    if (scratch_ && !file_) file_ = scratch_();
    scratch_ = nullptr;
    if (!file_) return;
    std::size_t left = most_ / 2;
    for (const bool complete_only : {true, false}) {
      for (auto at = shard.pages.begin(); at != shard.pages.end() && left > 0;) {
        if (complete_only && !at->second->known.all()) {
          ++at;
          continue;
        }
        if (!Store(at->first, *at->second)) return;
        at = shard.pages.erase(at);
        --left;
      }
    }
  }

  // The caller has the lock of the file.
  bool Store(std::uint64_t number, const Page& page) {
    StoredPage stored{page.leaves, {}, {}};
    for (std::size_t i = 0; i < kPageFanout; ++i) {
      stored.known[i / 8] = static_cast<std::uint8_t>(stored.known[i / 8] | page.known.test(i) << i % 8);
    }
    stored.check = stored.CheckOf(number);
    if (!file_->WriteAt(number * sizeof stored, stored.Bytes()).ok()) return false;
    stored_.Add({number, number + 1});
    return true;
  }

  Page Read(std::uint64_t number) const {
    StoredPage stored;
    const MutableByteSpan bytes(reinterpret_cast<std::uint8_t*>(&stored), sizeof stored);
    const Status read = ReadExactly(*file_, number * sizeof stored, bytes);
    if (!read.ok() || stored.check != stored.CheckOf(number)) {
      throw StatusError({Code::kIo, fmt::format("{}: hashes that were stored there read back wrong", file_->path())});
    }
    Page page{stored.leaves, {}};
    for (std::size_t i = 0; i < kPageFanout; ++i) page.known[i] = (stored.known[i / 8] >> i % 8 & 1) != 0;
    return page;
  }

  std::vector<Shard> shards_;
  std::uint64_t most_ = 0;  // pages of a shard in memory
  mutable std::mutex file_mutex_;  // for the fields below
  ScratchMaker scratch_;           // until it was called
  std::unique_ptr<File> file_;
  IntervalSet stored_;  // numbers of pages that are in the file
};

Leaves::Leaves() = default;
Leaves::~Leaves() = default;
Leaves::Leaves(Leaves&&) noexcept = default;
Leaves& Leaves::operator=(Leaves&&) noexcept = default;

void Leaves::Init(std::uint64_t blocks, ScratchMaker scratch) {
  blocks_ = blocks;
  pages_ = std::make_unique<Pages>(std::move(scratch));
}

void Leaves::Set(std::uint64_t block, const Hash& leaf) {
  pages_->Set(block, leaf);
}

std::optional<Hash> Leaves::Get(std::uint64_t block) const {
  if (!pages_) return std::nullopt;
  const Page page = pages_->At(block / kPageFanout);
  return page.known.test(block % kPageFanout) ? std::optional(page.leaves[block % kPageFanout]) : std::nullopt;
}

std::uint64_t Leaves::known() const {
  return pages_ ? pages_->known() : 0;
}

Leaves::Page Leaves::PageAt(std::uint64_t number) const {
  return pages_ ? pages_->At(number) : Page();
}

std::optional<std::uint64_t> Leaves::NextPage(std::uint64_t number) const {
  return pages_ ? pages_->Next(number) : std::nullopt;
}

// Few leaves are sent at once. If there are many, every rank sends a part in each round, so no rank holds all of them. A
// rank that fails takes part without leaves, so no rank waits for it. Its failure is returned at the end.
Status GatherLeaves(Communicator& comm, int root, std::uint64_t blocks, Leaves& data, Leaves& parity) {
  const auto ranks = static_cast<std::uint64_t>(comm.size());
  const std::uint64_t most = std::max<std::uint64_t>(kPageFanout, GatherAtOnce() / ranks);
  std::uint64_t rounds = 1;
  if (blocks > GatherAtOnce()) {
    // Each round sends at least `most` leaves of a rank, as long as it has any.
    const std::uint64_t mine = comm.rank() == root ? 0 : data.known() + parity.known();
    LZY_ASSIGN_OR_RETURN(rounds, comm.AllReduceMax(CeilDiv(mine, most)));
  }
  Status status;
  std::uint64_t next_data = 0, next_parity = 0;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    ByteWriter out;
    Status one = NoThrow([&] {
      if (comm.rank() == root) return;
      const std::uint64_t room = rounds > 1 ? most : kEverythingBehind;
      const std::uint64_t put = PutKnown(out, false, data, room, next_data);
      if (put < room) PutKnown(out, true, parity, room - put, next_parity);
    });
    const auto all = comm.Gather(one.ok() ? ByteSpan(out.bytes()) : ByteSpan(), root);
    LZY_RETURN_IF_ERROR(all.status());
    if (one.ok()) {
      one = NoThrow([&]() -> Status {
        for (const auto& bytes : *all) {
          ByteReader in(bytes);
          LZY_RETURN_IF_ERROR(TakeKnown(in, data, parity));
        }
        return Status::Ok();
      });
    }
    if (status.ok()) status = one;
  }
  return status;
}

Status MakeTree(TreeKind kind, const Leaves& made, const Tree* old, std::uint64_t bytes,
                const std::function<bool(std::uint64_t block)>& is_hole, const ScratchMaker& scratch, Tree& tree) {
  TreeBuilder builder(kind, made.blocks(), bytes, scratch);
  for (std::uint64_t first = 0; first < made.blocks(); first += kPageFanout) {
    Leaves::Page page = made.PageAt(first / kPageFanout);
    const std::uint64_t count = std::min<std::uint64_t>(kPageFanout, made.blocks() - first);
    for (std::uint64_t i = 0; i < count; ++i) {
      if (page.known.test(i)) continue;
      const std::uint64_t block = first + i;
      if (is_hole(block)) {
        page.leaves[i] = Hash{};
      } else if (old != nullptr && block < old->leaf_count()) {
        page.leaves[i] = old->leaf(block);
      } else {
        return {Code::kInternal, fmt::format("block {} of {} was not encoded", block, made.blocks())};
      }
    }
    builder.Add(std::span(page.leaves).first(count));
  }
  tree = builder.Finish();
  return Status::Ok();
}

}  // namespace lzy
