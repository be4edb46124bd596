#include "remote/files.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "base/numbers.h"
#include "comm/records.h"
#include "dataset/view.h"
#include "remote/answer.h"
#include "storage/parallel.h"

namespace lzy {

namespace {

// An answer that cannot be proven is no corruption of the file.
Status NotBrought(const Status& failure, const std::string& path) {
  if (failure.code() != Code::kCorrupt) return failure.WithContext(path);
  return {Code::kIo, fmt::format("{}: could not be proven on its way: {}", path, failure.message())};
}

// Bytes of a file in one answer.
constexpr std::uint64_t kMostBytes = 1u << 20;
// Beside them: names, attributes.
constexpr std::size_t kMostBeside = 64u << 10;
constexpr std::size_t kMostAnswer = kMostBytes + kMostBeside;
// Bytes that are hashed for one call at most, or one block.
constexpr std::uint64_t kMostHashed = kMaxBlockSize;
constexpr std::uint64_t kMostHashes = kMostBytes / sizeof(Hash);
// The least number of concurrent calls for hashes: a waiting thread needs no core.
constexpr unsigned kLeastAsking = 4;

enum class FileCallKind : std::uint8_t { kStat, kList, kReadLink, kRealPath, kOpen, kStatOpen, kRead, kReadUncached, kNextData, kSync, kHash, kClose };

struct FileCall {
  FileCallKind kind = FileCallKind::kStat;
  std::string path = {};     ///< of the calls up to kOpen
  bool follow = true;        ///< kStat, kOpen
  std::uint64_t handle = 0;  ///< of the others
  std::uint64_t first = 0;   ///< offset; kList: number of a name; kHash: of a block
  std::uint64_t count = 0;   ///< kRead, kReadUncached: bytes; kHash: blocks
  BlockHashing hashing = {};
  LZY_FIELDS(kind, path, follow, handle, first, count, hashing)
};

struct CallFacts {
  Status status;
  FileStat stat;
  std::uint64_t number = 0;  ///< handle, offset; of a list: how many names there are
  std::string text;
  std::vector<std::string> names;
  LZY_FIELDS(status, stat, number, text, names)
};

// ------------------------------------------------------------------------------------------------------ hashing here

// Hashes of blocks that lie back to back in `bytes`, which end where the file does, or what counts of it.
void HashBytesOf(const BlockHashing& how, const LeafKey* key, std::uint64_t first, std::uint64_t got, ByteSpan bytes, std::span<Hash> to) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    const std::uint64_t at = i * how.block_size, length = std::min(how.block_size, bytes.size() - at);
    to[i] = at + length <= got ? LeafHash(how.keyed ? key : nullptr, HashTag::kDataLeaf, first + i, bytes.subspan(at, length)) : Hash{};
  }
}

// Preconditions: the blocks begin before how.size, and are kMostHashed bytes at most, or one block.
Status HashHere(File& file, const BlockHashing& how, const LeafKey* key, std::uint64_t first, std::span<Hash> to) {
  thread_local AlignedBuffer buffer;
  const std::uint64_t begin = first * how.block_size, end = std::min(how.size, begin + to.size() * how.block_size);
  buffer.Reserve(end - begin);
  const auto read = [&](std::uint64_t from, std::uint64_t until) {
    const MutableByteSpan bytes(buffer.data(), until - from);
    return how.uncached ? file.ReadAtUncached(from, bytes) : file.ReadAt(from, bytes);
  };
  const auto got = read(begin, end);
  if (got.ok()) {
    HashBytesOf(how, key, first, *got, {buffer.data(), end - begin}, to);
    return Status::Ok();
  }
  if (got.status().code() != Code::kUnreadable) return got.status();
  // Some of it may be readable.
  for (std::size_t i = 0; i < to.size(); ++i) {
    const std::uint64_t from = begin + i * how.block_size, until = std::min(end, from + how.block_size);
    const auto one = read(from, until);
    if (!one.ok() && one.status().code() != Code::kUnreadable) return one.status();
    HashBytesOf(how, key, first + i, one.ok() ? *one : 0, {buffer.data(), until - from}, to.subspan(i, 1));
  }
  return Status::Ok();
}

// ------------------------------------------------------------------------------------------------------- who sees them

/// Answers about the files that this rank sees. Thread-safe.
class FileServer {
 public:
  FileServer(FileSystem& fs, const LeafKey* key) : fs_(fs), key_(key) {}
  CallHandler Handler(unsigned threads) {
    return AnswerBy<CallFacts>([this](ByteSpan call, MutableByteSpan answer) { return Answer(call, answer); }, threads, kMostAnswer);
  }

 private:
  std::size_t Answer(ByteSpan call, MutableByteSpan answer) {
    FileCall asked;
    CallFacts facts;
    std::uint64_t bytes = 0;
    facts.status = DecodeRecord(call, asked);
    if (facts.status.ok()) {
      facts.status = asked.kind <= FileCallKind::kOpen ? OfPath(asked, facts) : OfHandle(asked, answer, facts, bytes);
    }
    return PutAnswer(answer, facts.status.ok() ? bytes : 0, facts);
  }

  Status OfPath(const FileCall& asked, CallFacts& facts) {
    switch (asked.kind) {
      case FileCallKind::kStat: {
        LZY_ASSIGN_OR_RETURN(facts.stat, fs_.Stat(asked.path, asked.follow));
        return Status::Ok();
      }
      case FileCallKind::kList:
        return List(asked, facts);
      case FileCallKind::kReadLink: {
        LZY_ASSIGN_OR_RETURN(facts.text, fs_.ReadLink(asked.path));
        return Status::Ok();
      }
      case FileCallKind::kRealPath: {
        LZY_ASSIGN_OR_RETURN(facts.text, fs_.RealPath(asked.path));
        return Status::Ok();
      }
      default: {
        LZY_ASSIGN_OR_RETURN(std::shared_ptr<File> file, fs_.Open(asked.path, OpenMode::kRead, asked.follow));
        const std::lock_guard lock(mutex_);
        facts.number = ++last_handle_;
        open_[facts.number] = std::move(file);
        return Status::Ok();
      }
    }
  }

  // Lists as many names as fit.
  Status List(const FileCall& asked, CallFacts& facts) {
    LZY_ASSIGN_OR_RETURN(const auto names, fs_.List(asked.path));
    facts.number = names.size();
    std::size_t room = kMostBytes;
    for (std::uint64_t i = asked.first; i < names.size() && names[i].size() + 4 <= room; ++i) {
      room -= names[i].size() + 4;
      facts.names.push_back(names[i]);
    }
    return Status::Ok();
  }

  Status OfHandle(const FileCall& asked, MutableByteSpan answer, CallFacts& facts, std::uint64_t& bytes) {
    std::shared_ptr<File> file;
    {
      const std::lock_guard lock(mutex_);
      const auto at = open_.find(asked.handle);
      if (at != open_.end()) file = at->second;
      if (asked.kind == FileCallKind::kClose) open_.erase(asked.handle);
    }
    if (file == nullptr) return {Code::kInternal, fmt::format("file {} is not open", asked.handle)};
    switch (asked.kind) {
      case FileCallKind::kStatOpen: {
        LZY_ASSIGN_OR_RETURN(facts.stat, file->Stat());
        return Status::Ok();
      }
      case FileCallKind::kRead:
      case FileCallKind::kReadUncached: {
        if (asked.count > kMostBytes) return {Code::kInternal, fmt::format("{} bytes are too many for one call", asked.count)};
        const MutableByteSpan to = answer.first(asked.count);
        LZY_ASSIGN_OR_RETURN(bytes, asked.kind == FileCallKind::kRead ? file->ReadAt(asked.first, to) : file->ReadAtUncached(asked.first, to));
        return Status::Ok();
      }
      case FileCallKind::kNextData:
        facts.number = file->NextData(asked.first);
        return Status::Ok();
      case FileCallKind::kSync:
        return file->Sync();
      case FileCallKind::kHash: {
        const BlockHashing& how = asked.hashing;
        const bool allowed = how.block_size > 0 && how.block_size <= kMaxBlockSize && asked.count > 0 && asked.count <= kMostHashes &&
                             asked.count <= std::max<std::uint64_t>(1, kMostHashed / how.block_size) &&
                             asked.first < CeilDiv(how.size, how.block_size) && asked.count <= CeilDiv(how.size, how.block_size) - asked.first;
        if (!allowed) return {Code::kInternal, fmt::format("{} blocks of {} bytes cannot be hashed by one call", asked.count, how.block_size)};
        std::vector<Hash> hashes(asked.count);
        LZY_RETURN_IF_ERROR(HashHere(*file, how, key_, asked.first, hashes));
        bytes = hashes.size() * sizeof(Hash);
        std::ranges::copy(BytesOf(hashes), answer.begin());
        return Status::Ok();
      }
      default:
        return Status::Ok();
    }
  }

  FileSystem& fs_;
  const LeafKey* const key_;
  std::mutex mutex_;  // for the fields below
  std::uint64_t last_handle_ = 0;
  std::map<std::uint64_t, std::shared_ptr<File>> open_;
};

// ------------------------------------------------------------------------------------------------------ who reads them

// Calls one rank about its files. Thread-safe.
class Asker {
 public:
  Asker(Caller& caller, int rank) : caller_(caller), rank_(rank) {}

  /// Also returns the facts about the file. `bytes` is valid until this thread asks again.
  Result<CallFacts> Ask(const FileCall& call, const std::string& path, ByteSpan* bytes = nullptr) const {
    thread_local AlignedBuffer buffer;
    CallFacts facts;
    LZY_RETURN_IF_ERROR(NoThrow([&] {
      buffer.Reserve(kMostAnswer);
      return Status::Ok();
    }));
    LZY_ASSIGN_OR_RETURN(const std::size_t length,
                         lzy::Ask(caller_, rank_, call, path, NotBrought, {buffer.data(), kMostAnswer}, facts));
    LZY_RETURN_IF_ERROR(facts.status);
    if (bytes != nullptr) *bytes = {buffer.data(), length};
    facts.stat.file_system = Foreign(facts.stat.file_system);
    return facts;
  }
  // Does not wait for the answer.
  void Close(std::uint64_t handle) const {
    (void)NoThrow([&] {
      const auto answer = std::make_shared<AlignedBuffer>(kMostAnswer);
      caller_.Begin(rank_, EncodeRecord(FileCall{.kind = FileCallKind::kClose, .handle = handle}), {answer->data(), answer->size()},
                    [answer](const Result<std::size_t>&) {});
    });
  }

 private:
  // Linux has file system ids of 32 bits.
  std::uint64_t Foreign(std::uint64_t file_system) const { return file_system ^ (static_cast<std::uint64_t>(rank_) + 1) << 33; }

  Caller& caller_;
  const int rank_;
};

class RemoteFile final : public ReadOnlyFile {
 public:
  RemoteFile(Asker asker, std::string path, std::uint64_t handle) : ReadOnlyFile(std::move(path)), asker_(asker), handle_(handle) {}
  ~RemoteFile() override { asker_.Close(handle_); }

  Result<std::size_t> ReadAt(std::uint64_t offset, MutableByteSpan to) override { return Read(FileCallKind::kRead, offset, to); }
  Result<std::size_t> ReadAtUncached(std::uint64_t offset, MutableByteSpan to) override {
    return Read(FileCallKind::kReadUncached, offset, to);
  }
  Result<FileStat> Stat() override {
    LZY_ASSIGN_OR_RETURN(const CallFacts facts, Ask({.kind = FileCallKind::kStatOpen}));
    return facts.stat;
  }
  std::uint64_t NextData(std::uint64_t offset) override {
    const auto facts = Ask({.kind = FileCallKind::kNextData, .first = offset});
    return facts.ok() ? facts->number : offset;
  }
  Status Sync() override { return Ask({.kind = FileCallKind::kSync}).status(); }
  Status Hash(const BlockHashing& how, std::uint64_t first, std::span<lzy::Hash> to) {
    ByteSpan bytes;
    LZY_RETURN_IF_ERROR(Ask({.kind = FileCallKind::kHash, .first = first, .count = to.size(), .hashing = how}, &bytes).status());
    if (bytes.size() != to.size_bytes()) return {Code::kInternal, path() + ": a rank told another number of hashes"};
    std::ranges::copy(bytes, WritableBytesOf(to).begin());
    return Status::Ok();
  }

 private:
  Result<CallFacts> Ask(FileCall call, ByteSpan* bytes = nullptr) {
    call.handle = handle_;
    return asker_.Ask(call, path(), bytes);
  }
  Result<std::size_t> Read(FileCallKind kind, std::uint64_t offset, MutableByteSpan to) {
    std::size_t done = 0;
    while (done < to.size()) {
      const std::uint64_t wanted = std::min<std::uint64_t>(kMostBytes, to.size() - done);
      ByteSpan bytes;
      LZY_RETURN_IF_ERROR(Ask({.kind = kind, .first = offset + done, .count = wanted}, &bytes).status());
      std::ranges::copy(bytes.first(std::min<std::size_t>(bytes.size(), wanted)), to.begin() + static_cast<std::ptrdiff_t>(done));
      done += bytes.size();
      if (bytes.size() < wanted) break;
    }
    return done;
  }

  const Asker asker_;
  const std::uint64_t handle_;
};

class RemoteFileSystem final : public FileSystem {
 public:
  RemoteFileSystem(Caller& caller, int rank) : asker_(caller, rank) {}

  Result<std::unique_ptr<File>> Open(const std::string& path, OpenMode mode, bool follow, std::uint32_t) override {
    if (mode != OpenMode::kRead) return Refuse(path);
    LZY_ASSIGN_OR_RETURN(const CallFacts facts, asker_.Ask({.kind = FileCallKind::kOpen, .path = path, .follow = follow}, path));
    return std::unique_ptr<File>(std::make_unique<RemoteFile>(asker_, path, facts.number));
  }
  Result<FileStat> Stat(const std::string& path, bool follow) override {
    LZY_ASSIGN_OR_RETURN(const CallFacts facts, asker_.Ask({.kind = FileCallKind::kStat, .path = path, .follow = follow}, path));
    return facts.stat;
  }
  // If the directory changes meanwhile, names may be missing, as with any list that is read in pieces.
  Result<std::vector<std::string>> List(const std::string& path) override {
    std::vector<std::string> all;
    for (;;) {
      LZY_ASSIGN_OR_RETURN(CallFacts facts, asker_.Ask({.kind = FileCallKind::kList, .path = path, .first = all.size()}, path));
      std::ranges::move(facts.names, std::back_inserter(all));
      if (facts.names.empty() || all.size() >= facts.number) return all;
    }
  }
  Result<std::string> ReadLink(const std::string& path) override { return TextOf(FileCallKind::kReadLink, path); }
  Result<std::string> RealPath(const std::string& path) override { return TextOf(FileCallKind::kRealPath, path); }

  Status Rename(const std::string& from, const std::string&) override { return Refuse(from); }
  Result<bool> RenameIfAbsent(const std::string& from, const std::string&) override { return Refuse(from); }
  Status Remove(const std::string& path) override { return Refuse(path); }
  Status SyncDirectory(const std::string& path) override { return Refuse(path); }
  Status MakeDirectories(const std::string& path) override { return Refuse(path); }

 private:
  static Status Refuse(const std::string& path) { return {Code::kInternal, path + ": files of other ranks are only read"}; }
  Result<std::string> TextOf(FileCallKind kind, const std::string& path) {
    LZY_ASSIGN_OR_RETURN(CallFacts facts, asker_.Ask({.kind = kind, .path = path}, path));
    return std::move(facts.text);
  }

  const Asker asker_;
};

}  // namespace

Status WithRemoteFiles(const Context& context, const std::function<void(Caller&)>& work) {
  FileServer server(context.fs, context.options.key.get());
  return context.comm.RunWithCalls(server.Handler(ThreadsFor(context)), work);
}

std::unique_ptr<FileSystem> FilesOf(Caller& caller, int rank) {
  return std::make_unique<RemoteFileSystem>(caller, rank);
}

Result<std::vector<Hash>> HashBlocks(File& file, const BlockHashing& how, const LeafKey* key, std::uint64_t first, std::uint64_t count,
                                     unsigned threads, const std::function<bool()>& stop) {
  auto* const remote = dynamic_cast<RemoteFile*>(&file);
  std::vector<Hash> hashes(count);
  const std::uint64_t at_once = std::clamp<std::uint64_t>(kMostHashed / how.block_size, 1, kMostHashes);
  std::mutex mutex;
  Status status;
  ParallelFor(CeilDiv(count, at_once), remote != nullptr ? std::max(threads, kLeastAsking) : threads, [&](std::size_t piece) {
    const std::uint64_t begin = piece * at_once;
    const std::span<Hash> to = std::span(hashes).subspan(begin, std::min(at_once, count - begin));
    const Status done = stop && stop() ? Status(Code::kInterrupted, "interrupted")
                        : remote != nullptr ? remote->Hash(how, first + begin, to)
                                            : HashHere(file, how, key, first + begin, to);
    const std::lock_guard lock(mutex);
    if (status.ok()) status = done;
  });
  LZY_RETURN_IF_ERROR(status);
  return hashes;
}

Status RemoteRanks::Run(const Context& context, const std::function<void(Caller&)>& work) {
  if (others_) {
    bool more = true;
    LZY_RETURN_IF_ERROR(BroadcastRecord(all_, more, leader_));
  }
  Context of_all{context.fs, all_, context.options};
  return WithRemoteFiles(of_all, work);
}

Status RemoteRanks::End() {
  bool more = false;
  return others_ ? BroadcastRecord(all_, more, leader_) : Status::Ok();
}

Status RemoteRanks::Serve(const Context& context, int leader) {
  for (;;) {
    bool more = false;
    LZY_RETURN_IF_ERROR(BroadcastRecord(context.comm, more, leader));
    if (!more) return Status::Ok();
    LZY_RETURN_IF_ERROR(WithRemoteFiles(context, [](Caller&) {}));
  }
}

}  // namespace lzy
