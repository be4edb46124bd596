#include "hooks/transfers/verifying.h"

#include <mpi.h>

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/file.h"
#include "base/printable.h"
#include "comm/records.h"
#include "hooks/contract/guarded.h"
#include "hooks/disk/commit_state.h"
#include "hooks/disk/read_check.h"
#include "hooks/files/pointers.h"
#include "hooks/ranges/user_buffer.h"
#include "hooks/reports/messages.h"
#include "hooks/reports/mpi_error.h"
#include "hooks/transfers/pending.h"

namespace lzy::hooks {
namespace {

/// One read, from before its real call until it is checked. It holds the file, but only points to the program's buffer,
/// which MPI forbids the program to free before the read is done.
class CheckedRead : public UnfinishedRead {
 public:
  int Finish(int code, void* status) override;

  std::shared_ptr<OpenFile> file;
  Word handle = 0;
  Place place = Place::kExplicit;
  MpiView view;
  UserBuffer buffer;
  bool in_place = false;  ///< the place of each byte in the buffer is known
  bool told = true;       ///< the status has the number of bytes read
  bool blocking = false;
  std::uint64_t bytes = 0;
  std::optional<MPI_Offset> position;  ///< in etypes
  /// If the position is not known: the pointer before and after the call, in etypes; the data lie between them. -1: not
  /// known.
  MPI_Offset low = -1, high = -1;
  std::uint64_t seeks = 0;         ///< OpenFile::seeks_begun when the read began
  std::optional<FileStat> before;  ///< the file when the read began

  std::uint64_t etype() const { return view.etype_size(); }
  MPI_Offset Etypes() const { return static_cast<MPI_Offset>(bytes / etype()); }
};

/// Position of this rank's part of an ordered read, in etypes; nullopt if MPI does not report it. Each part begins where
/// that of the previous rank ends. Rank 0 asks for the pointer after the all-gather: then all ranks have come to the call,
/// and no earlier call can still move it. Collective over the file's communicator.
std::optional<MPI_Offset> OrderedPosition(const CheckedRead& read) {
  Communicator& comm = *read.file->comm;
  const auto all = AllGatherRecords(comm, std::int64_t{read.Etypes()});
  std::int64_t at = comm.rank() == 0 ? PositionOf(As<MPI_File>(read.handle), read.place) : 0;
  if (!BroadcastRecord(comm, at).ok() || !all.ok() || at < 0) return std::nullopt;
  for (int rank = 0; rank < comm.rank(); ++rank) at += (*all)[static_cast<std::size_t>(rank)];
  return at;
}

/// The number of seeks so far; `under_way`: one has begun and not ended.
std::uint64_t SeeksOf(OpenFile& file, bool& under_way) {
  const std::lock_guard lock(file.mutex);
  under_way = file.seeks_begun != file.seeks_ended;
  return file.seeks_begun;
}

/// Collects everything that must be known before the read. Null if the read cannot be checked, or has no data.
std::shared_ptr<CheckedRead> Begin(const DataCall& call, const std::shared_ptr<OpenFile>& file) {
  auto read = std::make_shared<CheckedRead>();
  read->file = file;
  read->handle = call.fh;
  read->place = call.place;
  read->told = call.done != Done::kUntold;
  read->blocking = call.done == Done::kAtReturn;
  const auto bytes = DataBytes(call.count, As<MPI_Datatype>(call.type));
  read->bytes = bytes.value_or(0);
  {
    const std::lock_guard lock(file->mutex);
    read->view = file->view;
  }
  // With several threads, another call may move the shared pointer meanwhile, so the ranks' sums would be wrong.
  if (call.place == Place::kOrdered && file->ranks_agree && !SeveralThreads() && !file->sequential) {
    read->position = OrderedPosition(*read);
  } else if (call.place == Place::kExplicit) {
    read->position = call.offset;
  } else if (file->sequential) {  // MPI reports no positions
    SayOnce(file->options, Options::Log::kWarn, file->path, "sequential",
            fmt::format("{}: verify-reads: what is read in MPI_MODE_SEQUENTIAL is not checked", file->path));
    return nullptr;
  } else if (call.place == Place::kOwnPointer && !SeveralThreads()) {
    read->position = TakeOwnPosition(*file, call);
  } else {
    bool under_way = false;
    read->seeks = SeeksOf(*file, under_way);
    if (auto stat = PosixFileSystem().Stat(file->path); stat.ok()) read->before = *stat;
    if (!under_way) read->low = PositionOf(As<MPI_File>(call.fh), call.place);
  }
  // Only now: with kOrdered, this rank had to take part in the collective calls above even without data.
  if (read->bytes == 0) return nullptr;
  try {
    read->in_place = read->buffer.Open(call, UserBuffer::Belief::kUndoubted);
  } catch (...) {  // bounds beyond the range of an offset
  }
  return read;
}

/// For a read without a known position: asks for the pointer again. MPI moves it when the read begins. If it moved by
/// exactly the size of this read, nobody else moved it, and the position is known. If a seek came between, both positions
/// are useless.
void LocateAfter(CheckedRead& read) {
  if (read.position || read.low < 0) return;
  bool under_way = false;
  const std::uint64_t seeks = SeeksOf(*read.file, under_way);
  read.high = PositionOf(As<MPI_File>(read.handle), read.place);
  if (under_way || seeks != read.seeks || read.high < read.low) {
    read.low = read.high = -1;
  } else if (read.high - read.low == read.Etypes()) {
    read.position = read.low;
  }
}

/// Checks bytes [first, last) of the data, and corrects damaged ones. `unread`: MPI did not read them, so the buffer has
/// other bytes, and all of it must be filled in. Precondition: the position is known.
ReadVerdict CheckData(CheckedRead& read, std::uint64_t first, std::uint64_t last, bool unread) {
  ReadVerdict verdict;
  ReadCheck& check = *read.file->check;
  DataWalk walk(read.view, *read.position, last, read.in_place ? &read.buffer : nullptr, first);
  std::vector<ReadPiece> pieces;
  while (walk.Next()) {
    if (!walk.ranges()) {
      verdict.as_committed = false;
      SayOnce(read.file->options, Options::Log::kWarn, read.file->path, "unfollowed",
              fmt::format("{}: verify-reads: what is read through this view is not checked", read.file->path));
      return verdict;
    }
    pieces.clear();
    for (const Interval& range : *walk.ranges()) {
      for (std::uint64_t at = range.begin; at < range.end;) {
        ReadPiece piece{at, range.end - at, nullptr};
        if (walk.InPieces()) {
          const MutableByteSpan bytes = read.buffer.NextInPlace(range.end - at);
          piece = {at, bytes.size(), bytes.data()};
        }
        at += piece.length;
        pieces.push_back(piece);
      }
    }
    // If the place of each byte in the buffer is not known, the bytes cannot be filled in.
    if (unread && !walk.InPieces()) {
      verdict.as_committed = false;
    } else {
      verdict.Add(check.Check(pieces, unread));
    }
  }
  return verdict;
}

/// Number of data bytes that the read should have got: the first `got`, and those behind them that were in the file at its
/// last commit. If damage made the file shorter, the read got less.
std::uint64_t BytesThatShouldBeThere(CheckedRead& read, std::uint64_t got) {
  const std::uint64_t committed = read.file->check->CommittedSize();
  std::uint64_t there = got;
  DataWalk walk(read.view, *read.position, read.bytes, nullptr, got);
  while (walk.Next() && walk.ranges()) {
    for (const Interval& range : *walk.ranges()) {
      if (range.begin >= committed) return there;
      there += std::min(range.end, committed) - range.begin;
    }
  }
  return std::min(there, read.bytes);
}

/// True if another process has repaired the file since the read began, or is repairing it. A repair changes the ctime and
/// restores the mtime; while it runs, its intent is in the sidecar.
bool RepairedSince(const CheckedRead& read) {
  const auto now = PosixFileSystem().Stat(read.file->path);
  if (!read.before || !now.ok() || now->inode != read.before->inode || now->ctime_ns == read.before->ctime_ns) return false;
  if (now->mtime_ns == read.before->mtime_ns) return true;
  const auto state = ReadCommitState(PosixFileSystem(), read.file->path);
  return state && state->repairing;
}

/// For a read somewhere between two positions: checks everything between them on disk, not in the buffer. If another
/// process repaired it meanwhile, the disk is right now, but the buffer may have the old bytes. That is an error, too.
ReadVerdict CheckSomewhere(CheckedRead& read) {
  const auto ranges = read.view.Ranges(read.low, static_cast<std::uint64_t>(read.high - read.low) * read.etype(),
                                       kMostTouched);
  std::vector<ReadPiece> pieces;
  if (ranges) {
    for (const Interval& range : *ranges) pieces.push_back({range.begin, range.end - range.begin, nullptr});
  }
  ReadVerdict verdict = read.file->check->Check(pieces);
  if (verdict.as_committed && !verdict.lost && !pieces.empty() && RepairedSince(read)) {
    verdict.as_committed = false;
    verdict.lost = {pieces.front().offset, pieces.back().offset + pieces.back().length - pieces.front().offset};
    verdict.why = "some may have been read before they were repaired just now: read it again";
  }
  return verdict;
}

/// Reports the findings on stderr, except those that LostCode reports.
void ReportVerdict(const CheckedRead& read, const ReadVerdict& verdict) {
  const std::string& path = read.file->path;
  if (verdict.healed > 0) {
    const std::string repair = "lzy-verify --repair " + ShellQuote(path);
    const std::string disk = verdict.repaired == verdict.healed ? "and repaired on disk"
                             : verdict.repaired > 0 ? "and partly repaired on disk; to repair the rest: " + repair
                                                    : "but not on disk; to repair it there: " + repair;
    Say(read.file->options, Options::Log::kWarn,
        fmt::format("{}: {} bytes that were read, from byte {} on, were damaged; rebuilt from parity {}", path, verdict.healed,
                    verdict.first->offset, disk));
  }
  if (verdict.reread > 0 && verdict.repaired_elsewhere) {
    Say(read.file->options, Options::Log::kWarn,
        fmt::format("{}: {} bytes that were read, from byte {} on, were damaged or read wrongly; they are right on disk now, where "
                    "another process may have repaired them, and were read again",
                    path, verdict.reread, verdict.first->offset));
  } else if (verdict.reread > 0) {
    Say(read.file->options, Options::Log::kWarn,
        fmt::format("{}: {} bytes, from byte {} on, were read wrongly, but correctly when they were read again", path, verdict.reread,
                    verdict.first->offset));
  }
  if (!verdict.unusable.empty()) {
    SayOnce(read.file->options, Options::Log::kWarn, path, "unusable",
            fmt::format("{}: reads are not checked: {}", path, verdict.unusable));
  }
  if (!verdict.unknown.empty()) {
    SayOnce(read.file->options, Options::Log::kWarn, path, "unknown",
            fmt::format("{}: what was read at byte {} is not what was committed, and it is unknown whether it is damaged: {}",
                        path, verdict.first->offset, verdict.unknown));
  }
}

/// Calls the file's error handler for an error that it has not got yet, and returns the code.
int Raise(const CheckedRead& read, int code) {
  PMPI_File_call_errhandler(As<MPI_File>(read.handle), code);
  return code;
}

/// An error code of the layer for damaged data that cannot be rebuilt; its string names the file and the bytes.
int LostCode(const CheckedRead& read, const ReadVerdict& verdict) {
  const std::string text =
      fmt::format("{}: bytes {} to {} are damaged: {}; lzy-verify shows more, lzy-restore repairs what can be repaired", read.file->path,
                  verdict.lost->offset, verdict.lost->offset + verdict.lost->length - 1, verdict.why);
  Say(read.file->options, Options::Log::kError, text);
  return IoErrorCode("lzy: " + text);
}

std::uint64_t BytesRead(const CheckedRead& read, int code, const void* status) {
  if (code != MPI_SUCCESS) return 0;
  return read.told ? std::min(read.bytes, BytesTold(status).value_or(read.bytes)) : read.bytes;
}

/// Puts the individual pointer where it would be if the read had got `bytes` bytes. Only for blocking reads: after
/// others, later calls may have moved the pointer already.
void SetPointerBehind(const CheckedRead& read, std::uint64_t bytes) {
  if (read.place != Place::kOwnPointer || !read.blocking) return;
  PMPI_File_seek(As<MPI_File>(read.handle), *read.position + static_cast<MPI_Offset>(bytes / read.etype()), MPI_SEEK_SET);
}

bool IsIoError(int code) {
  int error_class = MPI_SUCCESS;
  return PMPI_Error_class(code, &error_class) == MPI_SUCCESS && error_class == MPI_ERR_IO;
}

/// Checks a completed read, and returns its code for the program. Sets `lost` if the code is one of the layer's, and the
/// error handler has not been called. Checks failed reads only after an I/O error, which may be a bad sector.
int CheckedCode(CheckedRead& read, int code, void* status, bool& lost) {
  // In an epoch of this process, the committed hashes do not cover data that it has written since the last commit.
  if (read.file->disk && read.file->disk->epoch_open.load()) return code;
  const bool whole_etypes = read.bytes % read.etype() == 0;
  if (code != MPI_SUCCESS && (!read.position || !IsIoError(code) || !read.in_place || !whole_etypes)) return code;
  ReadVerdict verdict;
  if (!read.position) {
    if (read.low < 0) return code;
    verdict = CheckSomewhere(read);
  } else {
    const std::uint64_t got = BytesRead(read, code, status);
    if (got > 0) verdict = CheckData(read, 0, got, /*unread=*/false);
    // A damaged file may be too short, and a bad sector gives no bytes. The missing bytes are rebuilt into the buffer, from
    // the last whole etype on.
    const std::uint64_t from = got / read.etype() * read.etype();
    const std::uint64_t should = from < read.bytes && read.in_place ? BytesThatShouldBeThere(read, from) : 0;
    if (should > got && read.buffer.IsWritable(should)) {
      const ReadVerdict rest = CheckData(read, from, should, /*unread=*/true);
      // A failed read becomes a success only if damage was found and healed. Otherwise the failure had another reason.
      if (rest.as_committed && (code == MPI_SUCCESS || rest.healed > 0)) {
        if (status != nullptr) {
          PMPI_Status_set_elements_x(static_cast<MPI_Status*>(status), MPI_BYTE, static_cast<MPI_Count>(should));
        }
        SetPointerBehind(read, should);
        code = MPI_SUCCESS;
      }
      verdict.Add(rest);
    }
  }
  ReportVerdict(read, verdict);
  lost = verdict.lost.has_value();
  return lost ? LostCode(read, verdict) : code;
}

}  // namespace

int CheckedRead::Finish(int code, void* status) {
  int result = code;
  bool lost = false;
  Guarded("MPI_File_read", [&] { result = CheckedCode(*this, code, status, lost); });
  // Outside of Guarded: the program's own handler may throw, or jump away.
  return lost ? Raise(*this, result) : result;
}

int ReadChecked(RealCall real, const DataCall& call, const std::shared_ptr<OpenFile>& file) {
  std::shared_ptr<CheckedRead> read;
  Guarded("MPI_File_read", [&] { read = Begin(call, file); });
  if (!read) return real();
  MPI_Status own{};
  if (call.done != Done::kAtReturn) {
    int code = real();
    Guarded("MPI_File_read", [&] {
      if (code != MPI_SUCCESS) return;
      LocateAfter(*read);
      if (call.done == Done::kAtEnd) {
        const std::lock_guard lock(file->mutex);
        file->split_read = read;
      } else {
        code = WatchRead(call.request, read);
      }
    });
    return code;
  }
  WantStatus(call.status, own);
  // The error handler is not called before the layer has tried to heal the read. Not with several threads: that would
  // silence the errors of other calls on this file.
  std::optional<QuietErrors> quiet;
  if (!SeveralThreads()) quiet.emplace(As<MPI_File>(call.fh));
  const int code = real();
  const bool untold = quiet && quiet->End();
  Guarded("MPI_File_read", [&] { LocateAfter(*read); });
  const int result = read->Finish(code, *call.status);
  // The error remains, so the program's handler must be called.
  if (result == code && code != MPI_SUCCESS && untold) Raise(*read, code);
  if (code == MPI_SUCCESS && read->position && BytesRead(*read, code, *call.status) == read->bytes) {
    KeepOwnPosition(*file, call, *read->position, read->bytes, read->etype());
  }
  return result;
}

}  // namespace lzy::hooks
