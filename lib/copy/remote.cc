#include "copy/remote.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <limits>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "base/record.h"
#include "dataset/view.h"
#include "remote/answer.h"
#include "storage/parallel.h"

namespace lzy {
namespace {

// Bytes of a file that are sent together. Ranges begin at multiples of it.
constexpr std::uint64_t kRange = 4u << 20;
// The number of ranges that are requested ahead, and that are kept at most.
constexpr std::uint64_t kAhead = 4;
constexpr std::size_t kMostKept = 16;
// The answer that opens a file up to this size contains its bytes.
constexpr std::uint64_t kWhole = 1u << 20;
// No file system has larger files.
constexpr std::uint64_t kMostSize = std::numeric_limits<std::int64_t>::max() - kRange;
// From this size on, a file comes from all ranks that see it.
constexpr std::uint64_t kFromAll = 16 * kRange;
// The granularity of holes.
constexpr std::uint64_t kHoleUnit = 64u << 10;
// The most bytes of an answer besides those of the file: names, attributes, ranges.
constexpr std::size_t kMostFacts = 256u << 10;

// Bytes that cannot be proven on the way make the copy fail.
Status OnTheWay(const Status& failure, const std::string& path) {
  if (failure.code() != Code::kCorrupt) return failure.WithContext(path);
  return {Code::kWriteFailed, fmt::format("{}: could not be proven on its way: {}", path, failure.message())};
}

enum class Kind : std::uint8_t { kOpen, kRead, kCheck, kClose };

/// A request of RemoteSource.
struct SourceCall {
  Kind kind = Kind::kOpen;
  std::string path = {};       ///< kOpen, kCheck
  FileStat stat = {};          ///< kCheck
  bool whole = false;          ///< kOpen: also read it, if it is small
  std::uint64_t handle = 0;    ///< kRead, kClose
  std::uint64_t offset = 0;    ///< kRead
  std::uint64_t length = 0;    ///< kRead
  LZY_FIELDS(kind, path, stat, whole, handle, offset, length)
};

/// The result of a read. Bytes of the file are at the beginning of the answer, unless all of them are a hole.
struct ReadFacts {
  Status status;
  bool changed = false;
  bool is_hole = false;
  std::vector<Interval> holes;  ///< in the bytes that were read
  std::vector<Interval> lost;   ///< damaged ranges, with salvage
  std::uint64_t reread = 0, healed = 0;
  LZY_FIELDS(status, changed, is_hole, holes, lost, reread, healed)
};

/// The result of opening a file.
struct OpenFacts {
  Status status;
  std::uint64_t handle = 0;  ///< 0: the whole file has been read
  FileStat stat;
  std::optional<SourceCommit> commit;
  std::vector<std::string> notes;
  std::vector<std::uint8_t> acl;
  Attributes attributes;
  ReadFacts read;
  bool unsealed = false, unjudged = false;
  Status unchanged;  ///< of a file that was read as a whole: CheckUnchanged after that
  LZY_FIELDS(status, handle, stat, commit, notes, acl, attributes, unsealed, unjudged, read, unchanged)
};

// The other rank may be on a machine that is hostile. It may answer with fewer bytes than were asked for.
Status CheckAnswered(std::size_t bytes, std::uint64_t asked, const ReadFacts& facts, const std::string& path) {
  if (!facts.status.ok() || bytes == (facts.is_hole ? 0 : asked)) return Status::Ok();
  return {Code::kWriteFailed, fmt::format("{}: {} bytes came, where {} were expected", path, bytes, facts.is_hole ? 0 : asked)};
}

// Reads a range into the beginning of the answer. Returns the number of its bytes in the answer.
std::uint64_t ReadRange(CopySource& source, std::uint64_t offset, std::uint64_t length, MutableByteSpan answer,
                        ReadFacts& facts) {
  const std::uint64_t reread = source.reread(), healed = source.healed();
  const MutableByteSpan to = answer.first(length);
  facts.status = source.Read(offset, to);
  facts.changed = source.changed();
  // If several threads read the file, their counts may be divided in any way; the sum is right.
  facts.reread = source.reread() - reread;
  facts.healed = source.healed() - healed;
  if (!facts.status.ok()) return 0;
  const auto is_hole = [&](std::uint64_t begin, std::uint64_t size) {
    const auto bytes = to.subspan(begin - offset, size);
    return std::ranges::all_of(bytes, [](std::uint8_t byte) { return byte == 0; }) && source.IsHole(begin, size);
  };
  IntervalSet holes;
  for (std::uint64_t at = offset, end = offset + length; at < end;) {
    const std::uint64_t size = std::min(end, (at / kHoleUnit + 1) * kHoleUnit) - at;
    if (is_hole(at, size)) holes.Add({at, at + size});
    at += size;
  }
  for (const Interval& range : source.lost()) {
    if (range.begin < offset + length && offset < range.end) facts.lost.push_back(range);
  }
  facts.holes = holes.intervals();
  facts.is_hole = facts.holes.size() == 1 && facts.holes[0] == Interval{offset, offset + length};
  return facts.is_hole ? 0 : length;
}

// ---------------------------------------------------------------------------------- the rank that sees the source

/// Answers calls about files that this rank sees. Thread-safe.
class SourceServer {
 public:
  /// Parameters as for LocalSource::Open. `given`: the paths that other ranks may open, because they may be on a hostile machine.
  /// `progress` is called with the bytes that were read; may be empty. All references must outlive the object.
  SourceServer(FileSystem& fs, const Options& options, SourceRules rules, const std::set<std::string>& given,
               std::function<void(std::uint64_t bytes)> progress)
      : fs_(fs), options_(options), rules_(rules), given_(given), progress_(std::move(progress)) {}
  /// The handler for RunWithCalls.
  CallHandler Handler(unsigned threads);

 private:
  std::size_t Answer(ByteSpan call, MutableByteSpan answer);
  std::shared_ptr<CopySource> Find(std::uint64_t handle);

  FileSystem& fs_;
  const Options& options_;
  const SourceRules rules_;
  const std::set<std::string>& given_;
  const std::function<void(std::uint64_t bytes)> progress_;
  std::mutex mutex_;  // for the fields below
  std::uint64_t last_handle_ = 0;
  std::map<std::uint64_t, std::shared_ptr<CopySource>> open_;
};

CallHandler SourceServer::Handler(unsigned threads) {
  return AnswerBy<ReadFacts>([this](ByteSpan call, MutableByteSpan answer) { return Answer(call, answer); }, threads, kRange + kMostFacts);
}

std::shared_ptr<CopySource> SourceServer::Find(std::uint64_t handle) {
  const std::lock_guard lock(mutex_);
  const auto at = open_.find(handle);
  return at == open_.end() ? nullptr : at->second;
}

std::size_t SourceServer::Answer(ByteSpan call, MutableByteSpan answer) {
  SourceCall asked;
  ReadFacts read;
  read.status = DecodeRecord(call, asked);
  if (!read.status.ok()) return PutAnswer(answer, 0, read);
  Status refused;
  if (!given_.contains(asked.path)) refused = {Code::kInvalidArgument, asked.path + ": is no part of this copy"};
  switch (asked.kind) {
    case Kind::kOpen: {
      OpenFacts facts;
      facts.status = refused;
      if (!refused.ok()) return PutAnswer(answer, 0, facts);
      auto opened = LocalSource::Open(fs_, options_, asked.path, rules_, {});
      facts.status = opened.status();
      if (!opened.ok()) return PutAnswer(answer, 0, facts);
      const std::shared_ptr<CopySource> source = std::move(*opened);
      facts.stat = source->stat();
      if (source->committed() != nullptr) facts.commit = *source->committed();
      facts.notes = source->notes();
      facts.unsealed = source->unsealed();
      facts.unjudged = source->unjudged();
      auto acl = source->file().AccessAcl();
      if (!acl.ok()) {
        facts = {};
        facts.status = acl.status();
        return PutAnswer(answer, 0, facts);
      }
      facts.acl = std::move(*acl);
      if (auto attributes = source->file().UserAttributes(); attributes.ok()) facts.attributes = std::move(*attributes);
      if (asked.whole && facts.stat.size <= kWhole) {
        const std::uint64_t bytes = ReadRange(*source, 0, facts.stat.size, answer, facts.read);
        facts.unchanged = LocalSource::CheckUnchanged(fs_, asked.path, facts.stat);
        if (progress_) progress_(facts.stat.size);
        return PutAnswer(answer, bytes, facts);
      }
      {
        const std::lock_guard lock(mutex_);
        facts.handle = ++last_handle_;
        open_[facts.handle] = source;
      }
      return PutAnswer(answer, 0, facts);
    }
    case Kind::kRead: {
      const auto source = Find(asked.handle);
      if (source == nullptr || asked.length > kRange || asked.offset > source->stat().size ||
          asked.length > source->stat().size - asked.offset) {
        read.status = {Code::kInternal, fmt::format("no bytes {} to {} of file {} are to be had", asked.offset,
                                                    asked.offset + asked.length, asked.handle)};
        return PutAnswer(answer, 0, read);
      }
      const std::uint64_t bytes = ReadRange(*source, asked.offset, asked.length, answer, read);
      if (progress_) progress_(asked.length);
      return PutAnswer(answer, bytes, read);
    }
    case Kind::kCheck:
      read.status = refused.ok() ? LocalSource::CheckUnchanged(fs_, asked.path, asked.stat) : refused;
      return PutAnswer(answer, 0, read);
    case Kind::kClose: {
      const std::lock_guard lock(mutex_);
      open_.erase(asked.handle);
      break;
    }
  }
  return PutAnswer(answer, 0, read);
}

// ------------------------------------------------------------------------------------------ the rank that copies it

/// The attributes of a file that another rank sees.
class RemoteFile final : public ReadOnlyFile {
 public:
  RemoteFile(std::string path, OpenFacts facts) : ReadOnlyFile(std::move(path)), facts_(std::move(facts)) {}
  Result<FileStat> Stat() override { return facts_.stat; }
  Result<std::vector<std::uint8_t>> AccessAcl() override { return facts_.acl; }
  Result<Attributes> UserAttributes() override { return facts_.attributes; }

 private:
  const OpenFacts facts_;
};

/// A range of the file that was requested or has arrived.
struct Range {
  std::uint64_t begin = 0, length = 0;
  std::uint64_t used = 0;  ///< bytes of it that were read
  bool come = false;
  Status status;
  AlignedBuffer answer;
  ReadFacts facts;
};

class RemoteSource final : public CopySource {
 public:
  RemoteSource(Caller& caller, std::string path, Wait wait)
      : caller_(caller), path_(std::move(path)), wait_(std::move(wait)) {}

  // Waits for answers that are still being written into ranges.
  ~RemoteSource() override {
    {
      std::unique_lock lock(mutex_);
      changed_cv_.wait(lock, [&] { return under_way_ == 0; });
    }
    // If there is no memory for the call, the file stays open there until all copies end.
    for (const auto& opened : handles_) (void)NoThrow([&] { Close(opened.first, opened.second); });
  }

  Status Open(const std::vector<int>& holders) {
    auto first = std::make_shared<Range>();
    OpenFacts facts;
    LZY_ASSIGN_OR_RETURN(const std::size_t came, OpenAt(holders[0], /*whole=*/true, *first, facts));
    if (facts.stat.size > kMostSize || (facts.handle == 0 && facts.stat.size > kWhole)) {
      return {Code::kWriteFailed, fmt::format("{}: its size of {} bytes cannot be right", path_, facts.stat.size)};
    }
    if (facts.handle == 0) LZY_RETURN_IF_ERROR(CheckAnswered(came, facts.stat.size, facts.read, path_));
    stat_ = facts.stat;
    notes_ = facts.notes;
    unsealed_ = facts.unsealed;
    unjudged_ = facts.unjudged;
    commit_ = facts.commit;
    holder_ = holders[0];
    if (facts.handle == 0) {
      unchanged_ = facts.unchanged;
      first->length = stat_.size;
      first->facts = facts.read;
      first->status = facts.read.status;
      first->come = true;
      Note(*first);
      if (stat_.size > 0) kept_.push_back(first);
    } else {
      handles_.emplace_back(holders[0], facts.handle);
      if (stat_.size >= kFromAll) OpenAtOthers(holders);
    }
    taken_.resize((stat_.size + kRange - 1) / kRange);
    if (!taken_.empty() && facts.handle == 0) taken_[0] = true;
    file_ = std::make_unique<RemoteFile>(path_, std::move(facts));
    return Status::Ok();
  }

  File& file() override { return *file_; }
  const SourceCommit* committed() const override { return commit_ ? &*commit_ : nullptr; }
  bool is_local() const override { return false; }

  Status Read(std::uint64_t offset, MutableByteSpan to) override {
    if (wait_) wait_(to.size());
    for (std::uint64_t at = offset, end = offset + to.size(); at < end;) {
      const std::uint64_t size = std::min(end, (at / kRange + 1) * kRange) - at;
      LZY_RETURN_IF_ERROR(ReadWithin(at, to.subspan(at - offset, size)));
      at += size;
    }
    return Status::Ok();
  }

  bool IsHole(std::uint64_t offset, std::uint64_t length) override {
    const std::lock_guard lock(mutex_);
    const auto& holes = holes_.intervals();
    auto after = std::ranges::upper_bound(holes, offset, {}, &Interval::begin);
    return after != holes.begin() && offset + length <= std::prev(after)->end;
  }

  // If all bytes came with the open, so did this.
  Status CheckUnchanged() override {
    if (unchanged_ && !alone_) {
      if (unchanged_->code() == Code::kBusy) changed_ = true;
      return *unchanged_;
    }
    AlignedBuffer answer(kRange + kMostFacts);
    ReadFacts facts;
    LZY_RETURN_IF_ERROR(Ask(holder_, {.kind = Kind::kCheck, .path = path_, .stat = stat_}, answer, facts).status());
    if (facts.status.code() == Code::kBusy) changed_ = true;
    return facts.status;
  }

 private:
  template <class Facts>
  Result<std::size_t> Ask(int rank, const SourceCall& call, AlignedBuffer& answer, Facts& facts) {
    answer.Reserve(kRange + kMostFacts);
    return lzy::Ask(caller_, rank, call, path_, OnTheWay, {answer.data(), kRange + kMostFacts}, facts);
  }

  // Returns the number of bytes of the file in the answer.
  Result<std::size_t> OpenAt(int rank, bool whole, Range& range, OpenFacts& facts) {
    LZY_ASSIGN_OR_RETURN(const std::size_t came, Ask(rank, {.kind = Kind::kOpen, .path = path_, .whole = whole}, range.answer, facts));
    LZY_RETURN_IF_ERROR(facts.status);
    return came;
  }

  // Ranks that see another file, or none, are not used.
  void OpenAtOthers(const std::vector<int>& holders) {
    for (std::size_t i = 1; i < holders.size(); ++i) {
      Range range;
      OpenFacts facts;
      if (!OpenAt(holders[i], /*whole=*/false, range, facts).ok()) continue;
      const bool same = facts.stat.size == stat_.size && facts.stat.mtime_ns == stat_.mtime_ns &&
                        facts.stat.inode == stat_.inode && facts.commit.has_value() == commit_.has_value() &&
                        (!commit_ || facts.commit->superblock.dataset_root == commit_->superblock.dataset_root);
      if (same) {
        handles_.emplace_back(holders[i], facts.handle);
      } else {
        Close(holders[i], facts.handle);
      }
    }
  }

  // Does not wait for the answer.
  void Close(int rank, std::uint64_t handle) {
    const auto answer = std::make_shared<AlignedBuffer>(kRange + kMostFacts);
    caller_.Begin(rank, EncodeRecord(SourceCall{.kind = Kind::kClose, .handle = handle}),
                  {answer->data(), answer->size()}, [answer](const Result<std::size_t>&) {});
  }

  // Reads bytes within one range.
  Status ReadWithin(std::uint64_t offset, MutableByteSpan to) {
    const std::uint64_t index = offset / kRange;
    std::shared_ptr<Range> range;
    std::vector<std::shared_ptr<Range>> begun;
    {
      const std::lock_guard lock(mutex_);
      range = Kept(index);
      if (range == nullptr && (range = Take(index)) != nullptr) begun.push_back(range);
      for (std::uint64_t next = index + 1; range != nullptr && next <= index + kAhead; ++next) {
        if (auto ahead = next < taken_.size() ? Take(next) : nullptr) begun.push_back(std::move(ahead));
      }
    }
    for (const auto& one : begun) Begin(one);
    if (range == nullptr) return ReadAlone(offset, to);
    std::unique_lock lock(mutex_);
    changed_cv_.wait(lock, [&] { return range->come; });
    LZY_RETURN_IF_ERROR(range->status);
    range->used += to.size();
    if (range->used >= range->length) std::erase(kept_, range);
    lock.unlock();
    if (range->facts.is_hole) {
      std::ranges::fill(to, std::uint8_t{0});
    } else {
      std::copy_n(range->answer.data() + (offset - range->begin), to.size(), to.begin());
    }
    return Status::Ok();
  }

  // The mutex must be held here and in Take.
  std::shared_ptr<Range> Kept(std::uint64_t index) {
    const auto at = std::ranges::find(kept_, index * kRange, [](const auto& one) { return one->begin; });
    return at == kept_.end() ? nullptr : *at;
  }
  // Takes each range once. If too many are kept, drops those that were not used yet; later reads of them are done alone.
  std::shared_ptr<Range> Take(std::uint64_t index) {
    if (taken_[index]) return nullptr;
    if (kept_.size() >= kMostKept) {
      const auto idle = std::ranges::find_if(kept_, [](const auto& one) { return one->come && one->used == 0; });
      if (idle == kept_.end()) return nullptr;
      kept_.erase(idle);
    }
    auto range = std::make_shared<Range>();
    range->begin = index * kRange;
    range->length = std::min(kRange, stat_.size - range->begin);
    taken_[index] = true;
    kept_.push_back(range);
    ++under_way_;
    return range;
  }

  void Begin(const std::shared_ptr<Range>& range) {
    const Status begun = NoThrow([&] {
      range->answer.Reserve(kRange + kMostFacts);
      const auto& [rank, handle] = handles_[range->begin / kRange % handles_.size()];
      const SourceCall call{.kind = Kind::kRead, .handle = handle, .offset = range->begin, .length = range->length};
      caller_.Begin(rank, EncodeRecord(call), {range->answer.data(), kRange + kMostFacts},
                    [this, range](const Result<std::size_t>& length) { Come(range, length); });
    });
    if (!begun.ok()) Come(range, begun);
  }

  void Come(const std::shared_ptr<Range>& range, const Result<std::size_t>& length) {
    Status status = length.ok() ? Status::Ok() : OnTheWay(length.status(), path_);
    if (length.ok()) {
      status = NoThrow([&]() -> Status {
        LZY_ASSIGN_OR_RETURN(const std::size_t came, GetAnswer(ByteSpan(range->answer.data(), *length), range->facts));
        return CheckAnswered(came, range->length, range->facts, path_);
      });
    }
    const std::lock_guard lock(mutex_);
    range->status = status.ok() ? range->facts.status : status;
    range->come = true;
    Note(*range);
    --under_way_;
    changed_cv_.notify_all();
  }

  // The mutex must be held, or no other thread may know this source yet.
  void Note(const Range& range) {
    if (range.facts.changed) changed_ = true;
    reread_ += range.facts.reread;
    healed_ += range.facts.healed;
    holes_.Add(range.facts.holes);
    for (const Interval& lost : range.facts.lost) AddLost(lost);
  }

  // Reads exactly these bytes, if the range was read already, or too many are kept.
  Status ReadAlone(std::uint64_t offset, MutableByteSpan to) {
    alone_ = true;
    Range range;
    std::pair<int, std::uint64_t> from;
    {
      const std::lock_guard opening(opening_);
      if (handles_.empty()) {
        OpenFacts facts;
        LZY_RETURN_IF_ERROR(OpenAt(holder_, /*whole=*/false, range, facts).status());
        handles_.emplace_back(holder_, facts.handle);
      }
      from = handles_[0];
    }
    const SourceCall call{.kind = Kind::kRead, .handle = from.second, .offset = offset, .length = to.size()};
    LZY_ASSIGN_OR_RETURN(const std::size_t came, Ask(from.first, call, range.answer, range.facts));
    {
      const std::lock_guard lock(mutex_);
      Note(range);
    }
    LZY_RETURN_IF_ERROR(range.facts.status);
    LZY_RETURN_IF_ERROR(CheckAnswered(came, to.size(), range.facts, path_));
    if (range.facts.is_hole) {
      std::ranges::fill(to, std::uint8_t{0});
    } else {
      std::copy_n(range.answer.data(), to.size(), to.begin());
    }
    return Status::Ok();
  }

  Caller& caller_;
  const std::string path_;
  const Wait wait_;
  int holder_ = 0;
  std::optional<Status> unchanged_;  // of a file that came as a whole
  std::atomic<bool> alone_ = false;  // some of it was read again
  std::unique_ptr<RemoteFile> file_;
  std::optional<SourceCommit> commit_;
  std::mutex opening_;                                  // for handles_, if it is empty after Open
  std::vector<std::pair<int, std::uint64_t>> handles_;  // ranks that have it open, and their handles
  std::mutex mutex_;                                    // for all fields below
  std::condition_variable changed_cv_;
  std::vector<bool> taken_;                     // by range: it was requested
  std::list<std::shared_ptr<Range>> kept_;      // the oldest first
  std::uint64_t under_way_ = 0;
  IntervalSet holes_;
};

}  // namespace

Result<std::unique_ptr<CopySource>> OpenRemoteSource(Caller& caller, const std::vector<int>& holders,
                                                     const std::string& path, CopySource::Wait wait) {
  auto source = std::make_unique<RemoteSource>(caller, path, std::move(wait));
  LZY_RETURN_IF_ERROR(source->Open(holders));
  return std::unique_ptr<CopySource>(std::move(source));
}

Status WithRemoteSources(const Context& context, SourceRules rules, const std::set<std::string>& given,
                         std::function<void(std::uint64_t bytes)> progress, const std::function<void(Caller&)>& work) {
  SourceServer server(context.fs, context.options, rules, given, std::move(progress));
  return context.comm.RunWithCalls(server.Handler(ThreadsFor(context)), work);
}

}  // namespace lzy
