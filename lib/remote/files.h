#pragma once
// Files that only other ranks see: reading them through calls (comm/calls.h; docs/design/repair.md §9, "Files of other ranks").
//
// diff/ compares copies on two nodes by it, and mend/ takes blocks of a replica on another node. While all ranks are in
// WithRemoteFiles, each answers others about what it sees itself, and whoever needs files of another rank has them as a
// FileSystem. What travels is what is read. Bytes that need only be compared are hashed where they are (HashBlocks).
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

/// Files as rank `rank` sees them: its paths, its working directory. For reading only: what would change something is
/// refused. Device numbers are others than those of any file seen here, so that no file is taken for one of this rank.
/// kCorrupt does not come from the way: what cannot be proven there is kIo. `caller` must outlive it and its files.
std::unique_ptr<FileSystem> FilesOf(Caller& caller, int rank);

/// Which hashes of a file are wanted.
struct BlockHashing {
  std::uint64_t block_size = 0;  ///< at most kMaxBlockSize
  std::uint64_t size = 0;        ///< bytes of the file that count: the last block may be short
  bool keyed = false;            ///< leaves made with the key of option `key`, if there is one
  bool from_device = false;      ///< read past the page cache
  LZY_FIELDS(block_size, size, keyed, from_device)
};

/// Hashes (data leaves) of blocks [first, first + count) of `file`. A file of another rank is hashed there, and only the
/// hashes travel. Zeros stand for a block that the file does not have whole, or that cannot be read. `key`: that of this
/// rank; of other ranks it is that of their options. Uses up to `threads` threads. `stop` may be empty.
Result<std::vector<Hash>> HashBlocks(File& file, const BlockHashing& how, const LeafKey* key, std::uint64_t first, std::uint64_t count,
                                     unsigned threads, const std::function<bool()>& stop);

/// Ranks that work on something, and those of a larger communicator that can only tell what they see. The workers have a
/// communicator of their own; a worker runs the functions together with the other workers.
class RemoteRanks {
 public:
  /// All ranks of `comm` work.
  explicit RemoteRanks(Communicator& comm) : all_(comm) {}
  /// Only some of `all` work, of which `leader` is one. The others are in Serve.
  RemoteRanks(Communicator& all, int leader) : all_(all), leader_(leader), others_(true) {}

  /// Runs `work` as WithRemoteFiles does, over all ranks. Collective over the workers.
  Status Run(const Context& context, const std::function<void(Caller&)>& work);
  /// Lets the others go. Collective over the workers; call it once, whatever happened.
  Status End();
  /// For the others: answers until End. `context.comm` is `all`.
  static Status Serve(const Context& context, int leader);
  /// Of all: for FilesOf.
  int rank() const { return all_.rank(); }
  int size() const { return all_.size(); }

 private:
  Communicator& all_;
  const int leader_ = 0;
  const bool others_ = false;
};

}  // namespace lzy
