#include "repair/replica.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <ranges>

#include "comm/records.h"
#include "names/survey.h"
#include "sidecar/names.h"
#include "storage/parallel.h"

namespace lzy {
namespace {

/// The blocks of one file that one rank found in the replica.
struct Offer {
  std::uint64_t ensemble = 0;
  std::uint64_t file = 0;
  std::vector<Interval> blocks;
  LZY_FIELDS(ensemble, file, blocks)
};

// Adds block `number`. Call it in ascending order.
void AddBlock(std::vector<Interval>& blocks, std::uint64_t number) {
  if (!blocks.empty() && blocks.back().end == number) {
    ++blocks.back().end;
  } else {
    blocks.push_back({number, number + 1});
  }
}

// One call of FindInReplica.
class Search {
 public:
  Search(const Context& context, DatasetView& view, ReplicaPlace& place, Findings& findings)
      : context_(context), view_(view), place_(place), path_(place.path), findings_(findings) {}

  Status Run(std::vector<std::string>& warnings) {
    LZY_RETURN_IF_ERROR(AgreeOn(context_.comm, [&] { FindWanted(/*edits=*/true); }));
    if (wanted_blocks_ == 0) return Status::Ok();
    LZY_RETURN_IF_ERROR(OpenAll());
    if (!place_.IsSeenByAll(context_.comm) && !place_.force) {
      LZY_RETURN_IF_ERROR(AgreeOn(context_.comm, [&] { FindWanted(/*edits=*/false); }));
      if (wanted_blocks_ == 0) return Status::Ok();
    }
    std::vector<Offer> mine;
    if (place_.elsewhere) {
      Status read;
      const Status ran = place_.ranks->Run(context_, [&](Caller& caller) { read = ReadAll(mine, &caller); });
      LZY_RETURN_IF_ERROR(Agree(context_.comm, ran.ok() ? read : ran));
    } else {
      LZY_RETURN_IF_ERROR(AgreeOn(context_.comm, [&] { return ReadAll(mine, nullptr); }));
    }
    LZY_ASSIGN_OR_RETURN(const auto offers, UniteRecords(context_.comm, mine));
    std::uint64_t found = 0;
    for (const Offer& offer : offers) {
      std::vector<Interval>& blocks = findings_.files[offer.ensemble][offer.file].in_replica;
      blocks.insert(blocks.end(), offer.blocks.begin(), offer.blocks.end());
    }
    for (auto& files : findings_.files) {
      for (FileFindings& file : files) {
        if (!file.in_replica.empty()) SortAndJoin(file.in_replica);
        for (const Interval& blocks : file.in_replica) found += blocks.end - blocks.begin;
      }
    }
    LZY_ASSIGN_OR_RETURN(const auto troubles, UniteRecords(context_.comm, troubles_));
    for (const std::string& trouble : troubles) {
      if (std::ranges::find(warnings, trouble) == warnings.end()) warnings.push_back(trouble);
    }
    if (found < wanted_blocks_) {
      warnings.push_back(fmt::format("{}: it has {} of {} blocks that parity cannot rebuild as they were committed", path_, found, wanted_blocks_));
    }
    return Status::Ok();
  }

 private:
  bool shared() const { return view_.ref.kind == DatasetKind::kShared; }
  bool Reads(const FileView& file) const { return shared() || file.owner == context_.comm.rank(); }
  std::string ReplicaOf(const FileView& file) const { return shared() ? path_ : ExpandPattern(path_, file.rank); }

  // Finds the lost data blocks of rows beyond parity; the same on all ranks. A block that is copied from another node can be
  // a source only where it was written, and edits are not overwritten. So without `edits`, edited blocks are left out.
  void FindWanted(bool edits) {
    wanted_.clear();
    wanted_blocks_ = 0;
    for (std::size_t e = 0; e < view_.ensembles.size(); ++e) {
      const Ensemble& ensemble = view_.ensembles[e];
      const Layout& layout = *ensemble.layout;
      auto& wanted = wanted_.emplace_back(ensemble.files.size());
      const std::vector<LostBlock> lost = LostBlocks(ensemble, findings_.files[e]);
      ForEachRow(lost, [&](std::size_t begin, std::size_t end) {
        if (end - begin <= layout.parity()) return;
        for (std::size_t i = begin; i < end; ++i) {
          if (lost[i].parity || (!edits && IsEdit(lost[i].cause))) continue;
          const BlockPlace place = layout.DataBlock(lost[i].device, lost[i].unit_row, lost[i].slice);
          if (place.length > 0) wanted[layout.file_of(lost[i].device)].push_back(place.index);
        }
      });
      for (std::vector<std::uint64_t>& blocks : wanted) {
        std::ranges::sort(blocks);
        wanted_blocks_ += blocks.size();
      }
    }
  }

  // Of a shared file, the ranks that see its replica read it. Of a set, the owner of a member does.
  Status OpenAll() {
    bool missing = false;
    LZY_RETURN_IF_ERROR(AgreeOn(context_.comm, [&]() -> Status {
      for (std::size_t e = 0; e < view_.ensembles.size(); ++e) {
        for (std::size_t f = 0; f < wanted_[e].size(); ++f) {
          FileView& file = view_.ensembles[e].files[f];
          if (wanted_[e][f].empty() || !Reads(file)) continue;
          LZY_ASSIGN_OR_RETURN(const bool open, OpenOne(file));
          missing = missing || !open;
        }
      }
      return Status::Ok();
    }));
    LZY_ASSIGN_OR_RETURN(const auto all, AllGatherRecords(context_.comm, missing));
    std::vector<int> seers, others;
    for (int rank = 0; rank < context_.comm.size(); ++rank) (all[static_cast<std::size_t>(rank)] ? others : seers).push_back(rank);
    place_.elsewhere = shared() ? seers.empty() : !others.empty();
    place_.readers = shared() && place_.elsewhere ? others : seers;
    return Status::Ok();
  }

  // Returns false, and stores the reason in unseen_, if this rank does not see the replica.
  Result<bool> OpenOne(FileView& file) {
    const std::string path = ReplicaOf(file);
    auto open = context_.fs.Open(path, OpenMode::kRead);
    if (!open.ok()) {
      if (open.status().code() == Code::kNoMemory) return open.status();
      unseen_[path] = open.status().message();
      return false;
    }
    LZY_ASSIGN_OR_RETURN(const FileStat stat, (*open)->Stat());
    if (file.present && stat.file_system == file.stat.file_system && stat.inode == file.stat.inode) {
      return Status(Code::kInvalidArgument, fmt::format("--from: {} is {} itself; a replica is another copy", path, file.path));
    }
    file.replica = std::move(open).value();
    return true;
  }

  // `caller` reads replicas that only other ranks see; null if there are none.
  Status ReadAll(std::vector<Offer>& mine, Caller* caller) {
    for (std::size_t e = 0; e < view_.ensembles.size(); ++e) {
      for (std::uint32_t f = 0; f < wanted_[e].size(); ++f) {
        FileView& file = view_.ensembles[e].files[f];
        if (wanted_[e][f].empty() || !Reads(file)) continue;
        std::unique_ptr<File> elsewhere;
        if (file.replica == nullptr && caller != nullptr) {
          auto open = OpenElsewhere(*caller, *place_.ranks, ReplicaOf(file));
          if (!open.ok() && open.status().code() != Code::kNotFound) unseen_[ReplicaOf(file)] = open.status().message();
          if (open.ok()) elsewhere = std::move(open).value();
        }
        if (File* const replica = elsewhere ? elsewhere.get() : file.replica.get(); replica != nullptr) {
          LZY_RETURN_IF_ERROR(ReadReplica(e, f, *replica, /*is_elsewhere=*/elsewhere != nullptr, mine));
        } else if (!shared() || place_.elsewhere) {
          troubles_.push_back(fmt::format("the replica cannot be used: {}", unseen_[ReplicaOf(file)]));
        }
      }
    }
    return Status::Ok();
  }

  Status ReadReplica(std::size_t e, std::uint32_t f, File& replica, bool is_elsewhere, std::vector<Offer>& mine) {
    Ensemble& ensemble = view_.ensembles[e];
    LZY_RETURN_IF_ERROR(ProveHashes(ensemble, f, replica, is_elsewhere));
    std::span<const std::uint64_t> part = wanted_[e][f];
    if (shared()) {
      const auto at = std::ranges::find(place_.readers, context_.comm.rank()) - place_.readers.begin();
      const Interval own = PartOf(part.size(), static_cast<int>(at), static_cast<int>(place_.readers.size()));
      part = part.subspan(own.begin, own.end - own.begin);
    }
    Offer offer{e, f, {}};
    if (const BlockStream stream = StreamOfReplica(ensemble, f, replica); stream.expected != nullptr) {
      LZY_RETURN_IF_ERROR(is_elsewhere ? AskForHashes(*ensemble.layout, f, stream, replica, part, offer.blocks) : ReadOne(stream, part, offer.blocks));
    }
    if (!offer.blocks.empty()) mine.push_back(std::move(offer));
    return Status::Ok();
  }

  // The blocks of the replica in place of those of the file.
  static BlockStream StreamOfReplica(const Ensemble& ensemble, std::uint32_t f, File& replica) {
    BlockStream stream = StreamOf(ensemble, false, f);
    stream.file = &replica;
    stream.synced = false;
    return stream;
  }

  // The other sidecars of the group record the data root of a member. If the replica has this root, its leaves are the
  // committed ones.
  Status ProveHashes(Ensemble& ensemble, std::uint32_t f, File& replica, bool is_elsewhere) {
    FileView& file = ensemble.files[f];
    if (shared() || file.data_tree() != nullptr) return Status::Ok();
    const std::uint64_t size = ensemble.layout->file_size(f), blocks = ensemble.layout->data_blocks(f);
    LZY_ASSIGN_OR_RETURN(const FileStat stat, replica.Stat());
    if (stat.size != size) return Status::Ok();
    TreeBuilder builder(TreeKind::kData, blocks, size, {});  // in memory: nothing is written here
    bool whole = true;
    if (is_elsewhere) {
      constexpr std::uint64_t kAtOnce = 256 * kPageFanout;
      for (std::uint64_t first = 0; first < blocks; first += kAtOnce) {
        LZY_ASSIGN_OR_RETURN(const auto leaves, HashesOf(replica, ensemble.layout->block_size(), size, first, std::min(kAtOnce, blocks - first), false));
        whole = whole && std::ranges::none_of(leaves, &Hash::IsZero);
        builder.Add(leaves);
      }
    } else {
      LZY_RETURN_IF_ERROR(CheckInPieces(StreamOfReplica(ensemble, f, replica), {0, blocks}, Settings(), [&](std::uint64_t, const CheckResult& found) {
        whole = whole && found.bad.empty();
        builder.Add(found.leaves);
      }));
    }
    Tree tree = builder.Finish();
    if (whole && tree.Root() == ensemble.records[f].data_root) file.proven_data = std::move(tree);
    return Status::Ok();
  }

  // The leaves of blocks of a replica on another node.
  Result<std::vector<Hash>> HashesOf(File& replica, std::uint64_t block_size, std::uint64_t size, std::uint64_t first, std::uint64_t count,
                                     bool uncached) const {
    const BlockHashing how{.block_size = block_size, .size = size, .keyed = true, .uncached = uncached};
    return HashBlocks(replica, how, context_.options.key.get(), first, count, ThreadsFor(context_), context_.stop);
  }

  CheckSettings Settings() const {
    CheckSettings settings = SettingsFor(context_, /*from_disk=*/false);
    settings.stop = context_.stop;
    return settings;
  }

  // The second read is past the page cache, as in CheckBlocks.
  Status AskForHashes(const Layout& layout, std::uint32_t f, const BlockStream& stream, File& replica, std::span<const std::uint64_t> wanted,
                      std::vector<Interval>& found) {
    constexpr std::size_t kAtOnce = 1024;
    constexpr unsigned kLeastAsking = 4;  // a thread that waits needs no core
    const std::uint64_t block_size = layout.block_size(), size = layout.file_size(f);
    std::vector<Interval> runs;
    for (const std::uint64_t block : wanted) {
      if (!runs.empty() && runs.back().end == block && block - runs.back().begin < kAtOnce) {
        ++runs.back().end;
      } else {
        runs.push_back({block, block + 1});
      }
    }
    std::mutex mutex;
    Status status;
    std::vector<Interval> right;
    ParallelFor(runs.size(), std::max(ThreadsFor(context_), kLeastAsking), [&](std::size_t r) {
      std::vector<Interval> of_run;
      const Status done = NoThrow([&]() -> Status {
        Interval left = runs[r];
        for (const bool uncached : {false, true}) {
          LZY_ASSIGN_OR_RETURN(const auto leaves, HashesOf(replica, block_size, size, left.begin, left.end - left.begin, uncached));
          Interval wrong{left.end, left.begin};
          for (std::uint64_t i = 0; i < leaves.size(); ++i) {
            const std::uint64_t block = left.begin + i;
            if (!leaves[i].IsZero() && leaves[i] == stream.expected->leaf(block)) {
              of_run.push_back({block, block + 1});
            } else {
              wrong = {std::min(wrong.begin, block), block + 1};
            }
          }
          if (wrong.begin >= wrong.end) break;
          left = wrong;
        }
        return Status::Ok();
      });
      const std::lock_guard lock(mutex);
      if (status.ok()) status = done;
      std::ranges::copy(of_run, std::back_inserter(right));
      ReportProgress(runs[r].end - runs[r].begin, block_size);
    });
    LZY_RETURN_IF_ERROR(status);
    if (!right.empty()) SortAndJoin(right);
    found = std::move(right);
    return Status::Ok();
  }

  Status ReadOne(const BlockStream& stream, std::span<const std::uint64_t> wanted, std::vector<Interval>& found) {
    constexpr std::size_t kAtOnce = 1024;
    for (std::size_t i = 0; i < wanted.size();) {
      std::size_t next = i + 1;
      while (next < wanted.size() && next - i < kAtOnce && wanted[next] == wanted[next - 1] + 1) ++next;
      LZY_ASSIGN_OR_RETURN(const CheckResult checked, CheckBlocks(stream, wanted[i], next - i, Settings()));
      auto bad = checked.bad.begin();
      ReportProgress(next - i, stream.place(0).length);
      for (; i < next; ++i) {
        while (bad != checked.bad.end() && bad->first + bad->count <= wanted[i]) ++bad;
        const bool wrong = bad != checked.bad.end() && bad->first <= wanted[i] && !bad->transient;
        if (!wrong) AddBlock(found, wanted[i]);
      }
    }
    return Status::Ok();
  }

  // Reports progress, assuming that all ranks are as far as this one.
  void ReportProgress(std::uint64_t blocks, std::uint64_t block_size) {
    done_ += blocks * (shared() ? static_cast<std::uint64_t>(context_.comm.size()) : 1);
    if (context_.progress) context_.progress("replica", std::min(done_, wanted_blocks_) * block_size, wanted_blocks_ * block_size);
  }

  const Context& context_;
  DatasetView& view_;
  ReplicaPlace& place_;
  const std::string& path_;
  Findings& findings_;
  std::vector<std::vector<std::vector<std::uint64_t>>> wanted_;  // [ensemble][file]: numbers of blocks, sorted
  std::uint64_t wanted_blocks_ = 0;
  std::uint64_t done_ = 0;
  std::map<std::string, std::string> unseen_;  // why this rank cannot open a replica
  std::vector<std::string> troubles_;
};

}  // namespace

Status FindInReplica(const Context& context, DatasetView& view, ReplicaPlace& place, Findings& findings,
                     std::vector<std::string>& warnings) {
  return Search(context, view, place, findings).Run(warnings);
}

Result<std::unique_ptr<File>> OpenElsewhere(Caller& caller, const RemoteRanks& ranks, const std::string& path) {
  Status status(Code::kNotFound, path);
  for (int rank = 0; rank < ranks.size(); ++rank) {
    if (rank == ranks.rank()) continue;
    auto open = FilesOf(caller, rank)->Open(path, OpenMode::kRead);
    if (open.ok()) return open;
    if (status.code() == Code::kNotFound) status = open.status();
  }
  return status;
}

Result<std::string> ReplicaBelow(const std::string& directory, const std::string& path, bool is_directory, const DatasetRef& dataset) {
  const std::size_t star = path.find('*');
  if (!is_directory && star == std::string::npos) return JoinPath(directory, PatternTail(dataset.path));
  // The part of `path` before the first component that differs between datasets.
  std::string above = path;
  if (!is_directory) {
    const std::size_t slash = path.rfind('/', std::min(star, path.find('%')));
    above = slash == std::string::npos ? "." : path.substr(0, slash);
  }
  while (above.size() > 1 && above.ends_with('/')) above.pop_back();
  if (above == ".") return JoinPath(directory, dataset.path);
  if (above != "/") above += '/';
  if (dataset.path.starts_with(above)) return JoinPath(directory, dataset.path.substr(above.size()));
  return {Code::kInvalidArgument, fmt::format("--from: {} is not below {}, so its replica cannot be found below {}", dataset.path, path, directory)};
}

Result<std::map<std::string, std::string>> FindReplicas(FileSystem& fs, Communicator& comm, const std::string& path,
                                                        const std::vector<DatasetRef>& datasets, const std::string& replica) {
  // If nodes have disks of their own, some ranks may not see it.
  const auto is_directory = [&](const std::string& name) -> Result<bool> {
    LZY_ASSIGN_OR_RETURN(const std::uint64_t anywhere, comm.AllReduceMax(IsDirectory(fs, name)));
    return anywhere != 0;
  };
  // A path that cannot be examined may exist.
  const auto is_there = [&](const std::string& name) {
    const auto there = [&](const std::string& one) { const auto stat = fs.Stat(one); return stat.ok() || stat.status().code() != Code::kNotFound; };
    if (!HasRankPlaceholder(name)) return there(name);
    Survey survey(fs, Resolve::kProtectable);
    return std::ranges::any_of(survey.MembersOf(name), [&](const auto& member) { return there(member.second.path); });
  };
  const auto is_there_anywhere = [&](const auto& names) -> Result<bool> {
    bool here = false;
    LZY_RETURN_IF_ERROR(AgreeOn(comm, [&] { here = std::ranges::any_of(names, is_there); }));
    LZY_ASSIGN_OR_RETURN(const std::uint64_t anywhere, comm.AllReduceMax(here));
    return anywhere != 0;
  };
  LZY_ASSIGN_OR_RETURN(const bool in_directory, is_directory(replica));
  LZY_ASSIGN_OR_RETURN(const bool of_directory, is_directory(path));
  if (!in_directory && !HasRankPlaceholder(replica)) {
    LZY_ASSIGN_OR_RETURN(const bool there, is_there_anywhere(std::vector<std::string>{replica}));
    if (!there) return Status(Code::kInvalidArgument, fmt::format("--from: {}: there is no such file or directory", replica));
  }
  if (!in_directory && datasets.size() > 1) {
    return Status(Code::kInvalidArgument, fmt::format("--from: {} is not accepted for several datasets: a directory that has all of them", replica));
  }
  std::map<std::string, std::string> found;
  for (const DatasetRef& dataset : datasets) {
    const bool set = dataset.kind == DatasetKind::kSet;
    if (!in_directory && set != HasRankPlaceholder(replica)) {
      return Status(Code::kInvalidArgument, fmt::format("--from: '{}' is not accepted: {}", replica,
                                                        set ? "for a set, a pattern with %r, or a directory" : "for a file, a file or a directory"));
    }
    if (!in_directory && set) LZY_RETURN_IF_ERROR(CheckPattern(replica));
    found[dataset.path] = replica;
    if (!in_directory) continue;
    LZY_ASSIGN_OR_RETURN(found[dataset.path], ReplicaBelow(replica, path, of_directory, dataset));
  }
  // Some datasets may have no replica in the directory. If none has one, it is the wrong directory.
  if (found.empty()) return found;
  LZY_ASSIGN_OR_RETURN(const bool any, is_there_anywhere(found | std::views::values));
  if (any) return found;
  return Status(Code::kInvalidArgument, in_directory ? fmt::format("--from: {}: it has no replica of {}: there is no {}", replica, path, found.begin()->second)
                                                     : fmt::format("--from: {}: nothing matches", replica));
}

// Reads each range from where it is. If one read is short, the whole read is.
Result<std::size_t> PatchedFile::Read(std::uint64_t offset, MutableByteSpan to, Reading read) {
  std::size_t done = 0;
  while (done < to.size()) {
    const std::uint64_t at = offset + done, end = offset + to.size();
    const auto next = std::ranges::upper_bound(from_replica_, at, {}, &Interval::begin);
    const bool inside = next != from_replica_.begin() && at < std::prev(next)->end;
    const std::uint64_t until = std::min(end, inside ? std::prev(next)->end : next == from_replica_.end() ? end : next->begin);
    File* const from = inside ? &replica_ : data_;
    if (from == nullptr) return Status(Code::kIo, path() + ": is missing");
    LZY_ASSIGN_OR_RETURN(const std::size_t got, (from->*read)(at, to.subspan(done, until - at)));
    done += got;
    if (got < until - at) break;
  }
  return done;
}

}  // namespace lzy
