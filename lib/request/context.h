#pragma once
// The arguments of every operation: file system, ranks, options, and the function that reports progress.
//
// Functions that take a Context are collective over its communicator unless they say otherwise: all ranks call them with
// the same arguments (except DatasetRef::members) and get the same result. None throws, prints or exits.

#include <cstdint>
#include <functional>

#include "base/file.h"
#include "comm/communicator.h"
#include "request/options.h"

namespace lzy {

/// One for each call of the engine. A function that gives a part of its work to fewer ranks makes another Context with
/// their communicator. Lives as long as the call. References must outlive it.
struct Context {
  FileSystem& fs;
  Communicator& comm;
  const Options& options;
  /// Called now and then by one thread of each rank with bytes done and to do of the current phase; may be empty.
  std::function<void(const char* phase, std::uint64_t done, std::uint64_t total)> progress = {};
  /// Polled between batches; when it returns true the operation stops cleanly with kInterrupted. May be empty.
  std::function<bool()> stop = {};
  /// Whether ranks of one node may read each other's files, so they need fewer messages. If false, all data go by messages.
  bool share_page_cache = true;
};

}  // namespace lzy
