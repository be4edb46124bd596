#pragma once
// What a loss of power leaves of files: whatever was not synced is there or not, in any combination, down to single
// sectors. This is stricter than any file system people use (compare Pillai et al., "All File Systems Are Not Created
// Equal", OSDI 2014): also names that were made or moved one after the other reach the disk in any order, and a file's
// mtime without its data or after them.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "memory_files.h"

namespace lzy::testing {

class PowerLoss {
 public:
  using Files = std::map<std::string, MemoryFileSystem::Node>;
  /// Says, each time it is asked, whether the next part of what was not synced survives.
  using Survives = std::function<bool()>;

  /// `start`: all durable. `ops`: what was done from then on.
  PowerLoss(Files start, std::vector<StorageOp> ops) : start_(std::move(start)), ops_(std::move(ops)) {}

  std::size_t operations() const { return ops_.size(); }
  const StorageOp& operation(std::size_t i) const { return ops_[i]; }

  /// What is left when the power fails after the first `count` operations. Writes survive sector by sector, or as
  /// wholes where `sector` is 0.
  Files After(std::size_t count, std::uint64_t sector, const Survives& survives) const {
    Disk disk;
    for (const auto& [path, node] : start_) {
      disk.names[path] = node.stat.inode;
      disk.files[node.stat.inode].node = node;
    }
    for (std::size_t i = 0; i < count; ++i) disk.Take(ops_[i]);
    return disk.Left(sector, survives);
  }

 private:
  struct OnDisk {
    MemoryFileSystem::Node node;  // what is durable
    std::vector<const StorageOp*> pending;
  };

  struct Disk {
    std::map<std::string, std::uint64_t> names;
    std::map<std::uint64_t, OnDisk> files;
    std::vector<const StorageOp*> pending_names;

    void Take(const StorageOp& op) {
      using Kind = StorageOp::Kind;
      switch (op.kind) {
        case Kind::kCreate:
          files[op.inode].node.stat = {.file_system = 7, .inode = op.inode, .mtime_ns = op.mtime_ns, .ctime_ns = op.mtime_ns, .mode = 0600};
          [[fallthrough]];
        case Kind::kRename:
        case Kind::kRemove:
          pending_names.push_back(&op);
          break;
        case Kind::kWrite:
        case Kind::kTruncate:
        case Kind::kSetTimes:
          files[op.inode].pending.push_back(&op);
          break;
        case Kind::kSync:
          Apply(files[op.inode], 0, [] { return true; });
          break;
        case Kind::kSyncDirectory:
          for (const StorageOp* one : pending_names) {
            if (DirectoryOf(one->path) == op.path) ApplyName(*one);
          }
          std::erase_if(pending_names, [&](const StorageOp* one) { return DirectoryOf(one->path) == op.path; });
          break;
      }
    }

    Files Left(std::uint64_t sector, const Survives& survives) {
      for (const StorageOp* op : pending_names) {
        if (survives()) ApplyName(*op);
      }
      for (auto& [inode, file] : files) Apply(file, sector, survives);
      Files left;
      for (const auto& [path, inode] : names) {
        MemoryFileSystem::Node& node = left[path] = files[inode].node;
        node.durable = node.bytes;
        node.locked = false;
      }
      return left;
    }

    void ApplyName(const StorageOp& op) {
      const auto at = names.find(op.path);
      const bool still_it = at != names.end() && at->second == op.inode;
      if (op.kind == StorageOp::Kind::kCreate) names[op.path] = op.inode;
      if (op.kind != StorageOp::Kind::kCreate && still_it) names.erase(at);
      if (op.kind == StorageOp::Kind::kRename) names[op.to] = op.inode;
    }

    static void Apply(OnDisk& file, std::uint64_t sector, const Survives& survives) {
      if (file.pending.empty()) return;
      if (survives()) file.node.stat.mtime_ns = file.pending.back()->mtime_ns;
      auto& bytes = file.node.bytes;
      for (const StorageOp* op : file.pending) {
        if (op->kind == StorageOp::Kind::kTruncate && survives()) bytes.resize(op->offset, 0);
        if (op->kind != StorageOp::Kind::kWrite) continue;
        // Sectors are those of the file, not of the write.
        const std::uint64_t end = op->offset + op->bytes.size();
        for (std::uint64_t at = op->offset; at < end;) {
          const std::uint64_t next = sector == 0 ? end : std::min(end, (at / sector + 1) * sector);
          if (survives()) {
            if (bytes.size() < next) bytes.resize(next, 0);
            std::copy(op->bytes.begin() + static_cast<std::ptrdiff_t>(at - op->offset),
                      op->bytes.begin() + static_cast<std::ptrdiff_t>(next - op->offset),
                      bytes.begin() + static_cast<std::ptrdiff_t>(at));
          }
          at = next;
        }
      }
      file.pending.clear();
    }
  };

  Files start_;
  std::vector<StorageOp> ops_;
};

}  // namespace lzy::testing
