#pragma once
// Reads files that only other ranks see, through calls (comm/calls.h; docs/design/repair.md §9, "Files of other ranks").
//
// diff/ uses it to compare copies on two nodes, and repair/ to read blocks of a replica on another node. While all ranks are
// in WithRemoteFiles, each answers calls about its own files, and a rank uses the files of another rank as a FileSystem.
// Only bytes that are read are transferred. Bytes that only need to be compared are hashed on their own rank (HashBlocks).
//
// Nothing is ever changed: there are no calls that could.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "comm/calls.h"
#include "merkle/leaf_key.h"
#include "request/context.h"

namespace lzy {

/// Runs `work`, which may read files of other ranks (FilesOf), while this rank answers others. `work` must not communicate
/// otherwise. Collective over context.comm; returns what RunWithCalls does.
Status WithRemoteFiles(const Context& context, const std::function<void(Caller&)>& work);

/// The files of rank `rank`, with its paths and its working directory. Read-only: changes are refused. File system ids
/// differ from those of all files on this rank, so that no file is mistaken for a local one. Errors of the communication
/// are kIo, never kCorrupt. `caller` must outlive the result and its files.
std::unique_ptr<FileSystem> FilesOf(Caller& caller, int rank);

/// Selects the hashes of a file.
struct BlockHashing {
  std::uint64_t block_size = 0;  ///< at most kMaxBlockSize
  std::uint64_t size = 0;        ///< bytes of the file that count: the last block may be short
  bool keyed = false;            ///< leaves made with the key of option `key`, if there is one
  bool uncached = false;         ///< read past the page cache
  LZY_FIELDS(block_size, size, keyed, uncached)
};

/// Hashes (data leaves) of blocks [first, first + count) of `file`. A file of another rank is hashed there, and only the
/// hashes are transferred. Zero for a block that is incomplete in the file, or cannot be read. `key` is the key of this
/// rank; other ranks use the key in their options. Uses up to `threads` threads. `stop` may be empty.
Result<std::vector<Hash>> HashBlocks(File& file, const BlockHashing& how, const LeafKey* key, std::uint64_t first, std::uint64_t count,
                                     unsigned threads, const std::function<bool()>& stop);

/// Ranks that work on something (workers), and other ranks of a larger communicator that only answer calls. The workers
/// have a communicator of their own; a worker calls these functions together with the other workers.
class RemoteRanks {
 public:
  /// All ranks of `comm` work.
  explicit RemoteRanks(Communicator& comm) : all_(comm) {}
  /// Only some ranks of `all` work, one of them is `leader`. The others are in Serve.
  RemoteRanks(Communicator& all, int leader) : all_(all), leader_(leader), others_(true) {}

  /// Runs `work` as WithRemoteFiles does, over all ranks. Collective over the workers.
  Status Run(const Context& context, const std::function<void(Caller&)>& work);
  /// Ends Serve on the other ranks. Collective over the workers; call it once, even after an error.
  Status End();
  /// For the others: answers until End. `context.comm` is `all`.
  static Status Serve(const Context& context, int leader);
  /// This rank's number in `all`, for FilesOf.
  int rank() const { return all_.rank(); }
  int size() const { return all_.size(); }

 private:
  Communicator& all_;
  const int leader_ = 0;
  const bool others_ = false;
};

}  // namespace lzy
