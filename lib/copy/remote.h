#pragma once
// Copies of files that only other ranks see: one rank reads and proves the source, another one writes and proves the
// copy (docs/design.md "Copies between nodes").
//
// A rank that sees the source answers by SourceServer. The rank that copies has a RemoteSource in place of a
// LocalSource, and calls the server for ranges of the file (comm/calls.h). It asks ahead, so that reading, the network
// and writing overlap. What travels is proven by its hashes on the way.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "comm/calls.h"
#include "copy/source.h"

namespace lzy {

/// Answers for the files that this rank sees. Thread-safe.
class SourceServer {
 public:
  /// As LocalSource::Open. `progress`: told of bytes that were read; may be empty. All references must outlive it.
  SourceServer(FileSystem& fs, const Options& options, bool salvage, std::function<void(std::uint64_t bytes)> progress = {})
      : fs_(fs), options_(options), salvage_(salvage), progress_(std::move(progress)) {}
  /// What Communicator::RunWithCalls needs to answer by this server, on `threads` threads.
  CallHandler Handler(unsigned threads);

 private:
  std::size_t Answer(ByteSpan call, MutableByteSpan answer);
  std::shared_ptr<CopySource> Find(std::uint64_t handle);

  FileSystem& fs_;
  const Options& options_;
  const bool salvage_;
  const std::function<void(std::uint64_t bytes)> progress_;
  std::mutex mutex_;  // for what follows
  std::uint64_t last_handle_ = 0;
  std::map<std::uint64_t, std::shared_ptr<CopySource>> open_;
};

/// Opens `path` as the ranks `holders` see it; the first one counts, and what another one sees must be the same file.
/// A large file comes from all of them. Errors are those of LocalSource::Open, and kCorrupt if something could not be
/// proven on its way. `caller` must outlive it.
Result<std::unique_ptr<CopySource>> OpenRemoteSource(Caller& caller, const std::vector<int>& holders,
                                                     const std::string& path, CopySource::Wait wait);

}  // namespace lzy
