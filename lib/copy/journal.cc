#include "copy/journal.h"

#include <algorithm>
#include <cstring>

#include "merkle/crc32c.h"

namespace lzy {
namespace {

// Header: magic, size, inode, mtime and birth of the source, CRC.
constexpr char kMagic[] = "LZYCOPY1";
constexpr std::size_t kHeader = 8 + 4 * 8 + 4;
// Entry: offset, length, hash, CRC.
constexpr std::size_t kEntry = 8 + 8 + 16 + 4;

void StoreCrc(std::uint8_t* record, std::size_t size) {
  StoreLe(record + size - 4, Crc32c(0, {record, size - 4}));
}
bool HasCrc(const std::uint8_t* record, std::size_t size) {
  return LoadLe<std::uint32_t>(record + size - 4) == Crc32c(0, {record, size - 4});
}

std::vector<std::uint8_t> HeaderOf(const FileStat& source) {
  std::vector<std::uint8_t> header(kHeader);
  std::memcpy(header.data(), kMagic, 8);
  StoreLe(header.data() + 8, source.size);
  StoreLe(header.data() + 16, source.inode);
  StoreLe(header.data() + 24, static_cast<std::uint64_t>(source.mtime_ns));
  StoreLe(header.data() + 32, static_cast<std::uint64_t>(source.birth_ns));
  StoreCrc(header.data(), kHeader);
  return header;
}

}  // namespace

Result<std::unique_ptr<CopyJournal>> CopyJournal::Open(FileSystem& fs, const std::string& path, const FileStat& source,
                                                       bool resume) {
  LZY_ASSIGN_OR_RETURN(auto file, fs.Open(path, OpenMode::kCreate, /*follow=*/false));
  LZY_ASSIGN_OR_RETURN(const FileStat stat, file->Stat());
  if (stat.links > 1) {  // a hard link to another file, which must not be overwritten
    LZY_RETURN_IF_ERROR(fs.Remove(path));
    LZY_ASSIGN_OR_RETURN(file, fs.Open(path, OpenMode::kCreateNew, /*follow=*/false));
  }
  auto journal = std::unique_ptr<CopyJournal>(new CopyJournal(std::move(file), source.size));
  const std::vector<std::uint8_t> header = HeaderOf(source);
  if (resume) LZY_RETURN_IF_ERROR(journal->Load(header));
  if (journal->end_ > 0) return journal;
  LZY_RETURN_IF_ERROR(journal->file_->Truncate(0));
  LZY_RETURN_IF_ERROR(journal->file_->WriteAt(0, header));
  journal->end_ = kHeader;
  return journal;
}

// Stops at the first incomplete entry, where new ones will be written. end_ stays 0 if the journal belongs to another
// source.
Status CopyJournal::Load(const std::vector<std::uint8_t>& header) {
  LZY_ASSIGN_OR_RETURN(const FileStat stat, file_->Stat());
  const std::uint64_t most = kHeader + (size_ / kCopyChunk + 1) * kEntry * 4;  // a hostile one may be of any size
  std::vector<std::uint8_t> bytes(std::min(stat.size, most));
  LZY_ASSIGN_OR_RETURN(const std::size_t got, file_->ReadAt(0, bytes));
  if (got < kHeader || !std::equal(header.begin(), header.end(), bytes.begin())) return Status::Ok();
  std::size_t at = kHeader;
  for (; at + kEntry <= got && HasCrc(bytes.data() + at, kEntry); at += kEntry) {
    CopyChunk chunk{LoadLe<std::uint64_t>(bytes.data() + at), LoadLe<std::uint64_t>(bytes.data() + at + 8), {}};
    std::copy_n(bytes.data() + at + 16, 16, chunk.hash.bytes.begin());
    if (Fits(chunk)) chunks_[chunk.offset] = chunk;
  }
  end_ = at;
  return Status::Ok();
}

std::optional<std::vector<CopyChunk>> CopyJournal::Find(std::uint64_t offset, std::uint64_t length) const {
  std::vector<CopyChunk> found;
  const std::uint64_t end = offset + length;
  while (offset < end) {
    const auto at = chunks_.find(offset);
    if (at == chunks_.end() || offset + at->second.length > end) return std::nullopt;
    found.push_back(at->second);
    offset += at->second.length;
  }
  return found;
}

Status CopyJournal::Add(const std::vector<CopyChunk>& chunks) {
  std::vector<std::uint8_t> bytes;
  for (const CopyChunk& chunk : chunks) {
    const std::size_t at = bytes.size();
    bytes.resize(at + kEntry);
    StoreLe(bytes.data() + at, chunk.offset);
    StoreLe(bytes.data() + at + 8, chunk.length);
    std::copy_n(chunk.hash.bytes.begin(), 16, bytes.data() + at + 16);
    StoreCrc(bytes.data() + at, kEntry);
  }
  const std::lock_guard lock(mutex_);
  LZY_RETURN_IF_ERROR(file_->WriteAt(end_, bytes));
  end_ += bytes.size();
  return Status::Ok();
}

}  // namespace lzy
