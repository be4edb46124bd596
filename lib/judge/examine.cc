// Reads and hashes a dataset. Each rank makes findings about its part. Then all ranks merge the findings of all in the same
// order.

#include "judge/examine.h"


#include <algorithm>
#include <atomic>
#include <span>

#include "base/file.h"
#include "base/late_file.h"
#include "base/numbers.h"
#include "comm/records.h"
#include "dataset/parts.h"
#include "dataset/seen_late.h"
#include "names/former_names.h"
#include "names/lookup.h"
#include "names/neighbours.h"
#include "names/proven.h"
#include "names/provers.h"
#include "sidecar/names.h"
#include "tuning/tuning.h"

namespace lzy {
namespace {

// The number of blocks that differ, also in storage, among the first `blocks`.
std::uint64_t CountBad(const std::vector<BadBlocks>& list, std::uint64_t blocks) {
  std::uint64_t count = 0;
  for (const BadBlocks& bad : list) {
    if (!bad.transient && bad.first < blocks) count += std::min(bad.count, blocks - bad.first);
  }
  return count;
}

// The identity of one file that a rank found.
struct FoundIdentity {
  std::uint32_t ensemble = 0, file = 0;
  std::uint8_t kind = 0;  // Identity::Kind
  std::string name;
  bool has_free_sidecar = false, elsewhere = false;
  LZY_FIELDS(ensemble, file, kind, name, has_free_sidecar, elsewhere)
};

// True if the file was written since the commit. This is an edit whatever its content is, so nothing must be proven.
bool IsEdited(const FileView& file) {
  return IsSameFile(file.stat, file.stamp) && file.stat.mtime_ns != file.stamp.mtime_ns && !file.intent && !file.past;
}

// True if the data that were read are not as committed.
bool Differs(const Layout& layout, std::uint32_t f, const FileFindings& found) {
  return found.extra_bytes > 0 || CountBad(found.data, layout.data_blocks(f)) > 0;
}

// The findings of a rank in one file.
struct FoundIn {
  std::uint32_t ensemble = 0, file = 0;
  bool changed = false;  // the file changed while it was read; size and mtime are the new ones
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;
  FileFindings found = {};
  LZY_FIELDS(ensemble, file, changed, size, mtime_ns, found)
};

bool HasBadData(const FoundIn& one) {
  return std::ranges::any_of(one.found.data, [](const BadBlocks& bad) { return !bad.transient; });
}

template <class T>
void Append(const std::vector<T>& from, std::vector<T>& to) {
  to.insert(to.end(), from.begin(), from.end());
}

// Adds the findings of one rank in one file to those of all. Every rank merges the same list in the same order, so findings,
// sizes and times are the same everywhere.
void Merge(const FoundIn& one, DatasetView& view, Findings& findings) {
  FileFindings& to = findings.files.at(one.ensemble).at(one.file);
  FileView& file = view.ensembles[one.ensemble].files[one.file];
  // One rank that saw a change is enough: the others may have looked before it.
  if (one.changed) {
    file.stat.size = one.size;
    file.stat.mtime_ns = one.mtime_ns;
  }
  Append(one.found.data, to.data);
  Append(one.found.parity, to.parity);
  Append(one.found.metadata, to.metadata);
  to.extra_bytes = std::max(to.extra_bytes, one.found.extra_bytes);
  to.whole_device = to.whole_device || one.found.whole_device;
  to.hashes_lost = to.hashes_lost || one.found.hashes_lost;
  if (to.hashes_lost) {
    file.fault = SidecarFault::kDestroyed;
    file.fault_text = "the sidecar has lost hashes in all of its copies";
  }
}

// Computes lost pages of hashes from the blocks. A page is right if it has the hash that the level above records.
// `computed`: whole pages of leaves, from block `first` on. Adds the proven pages to `proven`.
void ProveUnknown(const Tree& stored, TreeKind kind, const Hash& root, const std::vector<std::uint64_t>& unknown,
                  std::uint64_t first, std::span<const Hash> computed, KnownPages& proven) {
  for (auto at = std::ranges::lower_bound(unknown, first); at != unknown.end() && *at < first + computed.size();) {
    const std::uint64_t page = *at / kPageFanout, begin = page * kPageFanout;
    at = std::lower_bound(at, unknown.end(), begin + kPageFanout);
    const std::uint64_t count = std::min<std::uint64_t>(kPageFanout, first + computed.size() - begin);
    const auto leaves = computed.subspan(begin - first, count);
    // A single leaf has only the root above it.
    const bool right = stored.leaf_count() == 1 ? Tree::RootOf(kind, 1, stored.bytes(), leaves[0]) == root
                                                : Tree::NodeOf(kind, 1, page, BytesOf(leaves)) == stored.node(1, page);
    if (right) proven[page] = {leaves.begin(), leaves.end()};
  }
}

// True if all unknown leaves are proven.
bool AllKnown(const std::vector<std::uint64_t>& unknown, const std::optional<Tree>& proven) {
  return std::ranges::all_of(unknown, [&](std::uint64_t index) { return proven && !proven->leaf(index).IsZero(); });
}

// Calls change(block) for each block of `list`, then joins neighbouring blocks with equal fields again, so that lists stay
// short.
template <class Change>
void ForEachBlock(std::vector<BadBlocks>& list, const Change& change) {
  std::vector<BadBlocks> out;
  for (const BadBlocks& bad : list) {
    for (std::uint64_t i = bad.first; i < bad.first + bad.count; ++i) {
      BadBlocks one = bad;
      one.first = i;
      one.count = 1;
      change(one);
      const bool same = !out.empty() && out.back().fault == one.fault && out.back().transient == one.transient &&
                        out.back().unproven == one.unproven && out.back().first + out.back().count == i;
      if (same) {
        ++out.back().count;
      } else {
        out.push_back(one);
      }
    }
  }
  list = std::move(out);
}

// One call of Examine. Progress is counted over all of this rank's files.
class Examiner {
 public:
  Examiner(const Context& context, DatasetView& view, bool from_disk) : context_(context), view_(view) {
    settings_ = SettingsFor(context, from_disk);
    if (context.progress) {
      settings_.progress = [this](std::uint64_t bytes) {
        done_ += bytes;
        context_.progress("verify", done_, std::max<std::uint64_t>(total_, done_));
      };
    }
  }

  // Between collective calls, each rank reads its part within one AgreeOn, where a failure of one rank stops all of them.
  Result<Findings> Run() {
    Stopwatch watch;
    CountTotal();
    Findings findings = NoFindings();
    if (shared_) {
      LZY_ASSIGN_OR_RETURN(prove_, HashesAreLost());
    }
    std::vector<FoundIn> mine;
    const auto examine = [&](Ensemble& ensemble, std::uint32_t e, std::uint32_t f) -> Status {
      LZY_ASSIGN_OR_RETURN(FoundIn found, ExamineFile(ensemble, e, f));
      mine.push_back(std::move(found));
      return Status::Ok();
    };
    LZY_RETURN_IF_ERROR(AgreeOn(context_.comm, [&] { return ForEachFileOfMine(examine); }));
    LZY_RETURN_IF_ERROR(Unite(mine, findings));
    LZY_RETURN_IF_ERROR(FillIdentities(findings));
    watch.AddTo(findings.seconds);
    return findings;
  }

  // Reads some rows at a time, so that all ranks stop behind the same row. Rows that a rank did not finish are read again
  // next time.
  Result<Findings> RunPortion(const PortionRequest& request, Portion& portion) {
    LZY_ASSIGN_OR_RETURN(const bool together, MustBeReadTogether());
    std::uint64_t rows = 0;
    for (const Ensemble& ensemble : view_.ensembles) rows = std::max(rows, ensemble.layout->most_unit_rows());
    if (together) {
      portion = {0, rows, rows};
      return Run();
    }
    Stopwatch watch;
    CountTotal();
    Findings findings = NoFindings();
    std::vector<FoundIn> mine;
    portion = {std::min(request.first, rows), std::min(request.first, rows), rows};
    const std::uint64_t step = RowsAtOnce(request.bytes_at_once);
    for (std::uint64_t bytes = 0; portion.end < rows && (request.most_bytes == 0 || bytes < request.most_bytes);) {
      const Interval some{portion.end, std::min(rows, (portion.end / step + 1) * step)};
      LZY_ASSIGN_OR_RETURN(const bool finished, ExamineRows(some, mine));
      if (!finished) break;
      portion.end = some.end;
      bytes += BytesOfRows(some);
    }
    LZY_RETURN_IF_ERROR(AgreeOn(context_.comm, [&] { return FinishPortion(mine); }));
    LZY_RETURN_IF_ERROR(Unite(mine, findings));
    LZY_RETURN_IF_ERROR(FillIdentities(findings));
    watch.AddTo(findings.seconds);
    return findings;
  }

  // A file that differs may be right: it may be the content of another sidecar, or another file. No repair may write to it,
  // so this is found out before anything is judged. Collective only if anything differs.
  Status FillIdentities(const Findings& findings) {
    bool any = false;
    for (std::uint32_t e = 0; e < view_.ensembles.size(); ++e) {
      for (std::uint32_t f = 0; f < view_.ensembles[e].files.size(); ++f) {
        FileView& file = view_.ensembles[e].files[f];
        const Layout& layout = *view_.ensembles[e].layout;
        const std::vector<BadBlocks>& bad = findings.files[e][f].data;
        any = any || (Differs(layout, f, findings.files[e][f]) && file.present && !IsEdited(file));
        file.identity = {};
        // An inode without a birth proves little: a backup that was put back may have it.
        const bool in_place = MayBe(file.stat, file.stamp);
        if (!file.present || (IsSameFile(file.stat, file.stamp) && file.stat.size == layout.file_size(f))) continue;
        // Counts only blocks that exist, because a copy may be shorter or longer than the committed file.
        const std::uint64_t there = CeilDiv(file.stat.size, layout.block_size()), extra = there - std::min(there, layout.data_blocks(f));
        const std::uint64_t unlike = CountBad(bad, there) + extra;
        const bool differs = 2 * unlike > there;
        // Another version of the file, or rot in a copy: lzy cannot know. If only a few blocks differ, it is rot.
        const bool version = !in_place && (file.stat.size != layout.file_size(f) || MayBeVersion(unlike, there));
        if (!file.sidecar_usable()) continue;
        // With other times this is certain only if most of the file is as committed: RecognizeRot decides.
        file.identity.whole_seconds = WasPutBackInSeconds(file, layout.file_size(f)) && Differs(layout, f, findings.files[e][f]);
        if (file.identity.whole_seconds) file.identity.kind = differs ? Identity::Kind::kAnother : Identity::Kind::kUnlike;
        if (file.stat.mtime_ns != file.stamp.mtime_ns) continue;
        if (differs && !in_place && file.stat.size != 0) {
          file.identity.kind = Identity::Kind::kAnother;
        } else if (differs || (version && Differs(layout, f, findings.files[e][f]))) {
          file.identity.kind = Identity::Kind::kUnlike;
        }
      }
    }
    if (!any) return Status::Ok();
    std::vector<FoundIdentity> mine;
    LZY_RETURN_IF_ERROR(AgreeOn(context_.comm, [&] {
      if (shared_ && context_.comm.rank() != 0) return Status::Ok();
      return ForEachFileOfMine([&](const Ensemble& ensemble, std::uint32_t e, std::uint32_t f) -> Status {
        const FileView& file = ensemble.files[f];
        const FileFindings& found = findings.files[e][f];
        if (!Differs(*ensemble.layout, f, found) || !file.present || IsEdited(file)) return Status::Ok();
        const bool mostly = found.extra_bytes > 0 || 2 * CountBad(found.data, ensemble.layout->data_blocks(f)) > ensemble.layout->data_blocks(f);
        if (const auto identity = IdentityOf(ensemble, f, mostly)) {
          mine.push_back({e, f, static_cast<std::uint8_t>(identity->kind), identity->name, identity->has_free_sidecar, identity->elsewhere});
        }
        return Status::Ok();
      });
    }));
    LZY_ASSIGN_OR_RETURN(const auto all, UniteRecords(context_.comm, mine));
    for (const FoundIdentity& one : all) {
      view_.ensembles.at(one.ensemble).files.at(one.file).identity = {static_cast<Identity::Kind>(one.kind), one.name, one.has_free_sidecar, one.elsewhere};
    }
    return Status::Ok();
  }

 private:
  bool IsMine(const FileView& file) const { return shared_ || file.owner == context_.comm.rank(); }

  template <class Fn>
  Status ForEachFileOfMine(const Fn& fn) {
    for (std::uint32_t e = 0; e < view_.ensembles.size(); ++e) {
      Ensemble& ensemble = view_.ensembles[e];
      for (std::uint32_t f = 0; f < ensemble.files.size(); ++f) {
        if (IsMine(ensemble.files[f])) LZY_RETURN_IF_ERROR(fn(ensemble, e, f));
      }
    }
    return Status::Ok();
  }

  // Which file this is, by other sidecars; nullopt if they prove nothing. `mostly`: most of the file differs.
  std::optional<Identity> IdentityOf(const Ensemble& ensemble, std::uint32_t f, bool mostly) {
    using Kind = Identity::Kind;
    const FileView& file = ensemble.files[f];
    const std::string real = FollowLink(context_.fs, file.path);
    // An older commit of this file, such as one in a backup, proves no other file. A restore keeps what is there.
    if (file.IsOfThePast()) return std::nullopt;
    const auto prover = FindProver(context_.fs, real, ProvesNothing(file) ? file.sidecar_path : "", context_.options.key.get());
    if (prover.ok() && *prover) {
      const bool elsewhere = !(*prover)->beside && (*prover)->named && !IsOfThisSet((*prover)->owner);
      return Identity{Kind::kProven, CommittedName(**prover, real), (*prover)->usable, elsewhere};
    }
    const bool of_set = !shared_ && mostly;
    if (const auto other = of_set ? OtherMemberIn(ensemble, f) : std::nullopt) return Identity{Kind::kProven, *other, false, false};
    if (const auto was = CommittedAs(file, real)) return Identity{Kind::kRenamed, *was, false, false};
    if (of_set && !file.sidecar_usable() && TookThePlaceOfMember(file)) return Identity{Kind::kAnother, "", false, false};
    if (file.identity.Is(Kind::kCommitted) && IsCommittedBeside(file, real)) return Identity{Kind::kUnlike, "", false, false};
    return std::nullopt;
  }

  // Computes the number of bytes that this rank will read, for the progress display.
  void CountTotal() {
    (void)ForEachFileOfMine([&](const Ensemble& ensemble, std::uint32_t, std::uint32_t f) {
      total_ += ensemble.layout->file_size(f) + ensemble.layout->parity_size(f);
      return Status::Ok();
    });
    if (shared_) total_ /= static_cast<std::uint64_t>(context_.comm.size());
  }

  Findings NoFindings() const {
    Findings findings;
    for (const Ensemble& ensemble : view_.ensembles) findings.files.emplace_back(ensemble.files.size());
    return findings;
  }

  // All ranks must agree: if one rank could not read the metadata, it must not be the only one that proves hashes.
  Result<bool> HashesAreLost() {
    bool lost = false;
    (void)ForEachFileOfMine([&](const Ensemble& ensemble, std::uint32_t, std::uint32_t f) {
      const Sidecar* sidecar = ensemble.files[f].sidecar.get();
      lost = lost || sidecar == nullptr || !sidecar->knows_all_leaves();
      return Status::Ok();
    });
    LZY_ASSIGN_OR_RETURN(const std::uint64_t any, context_.comm.AllReduceMax(lost));
    return any != 0;
  }

  Result<bool> MustBeReadTogether() {
    const bool missing = std::ranges::any_of(view_.files(), [](const FileView& file) { return !file.present || !file.sidecar_usable(); });
    LZY_ASSIGN_OR_RETURN(const bool lost, HashesAreLost());
    return missing || lost || !view_.unknown_ranks.empty();
  }

  // Merges the findings of all ranks, and adds what follows from sizes.
  Status Unite(const std::vector<FoundIn>& mine, Findings& findings) {
    LZY_ASSIGN_OR_RETURN(const auto all, UniteRecords(context_.comm, mine));
    for (const FoundIn& one : all) Merge(one, view_, findings);
    for (std::uint32_t e = 0; e < view_.ensembles.size(); ++e) {
      for (std::uint32_t f = 0; f < view_.ensembles[e].files.size(); ++f) {
        const FileView& file = view_.ensembles[e].files[f];
        const std::uint64_t size = view_.ensembles[e].layout->file_size(f);
        if (file.present && file.stat.size > size) findings.files[e][f].extra_bytes = file.stat.size - size;
      }
    }
    LZY_ASSIGN_OR_RETURN(findings.bytes_read, context_.comm.AllReduceSum(bytes_read_));
    return Status::Ok();
  }

  // The name of the file for which the sidecar was committed. If a file was renamed together with its sidecar, the sidecar
  // still records the old name, but not the old directory.
  std::string CommittedName(const Prover& prover, const std::string& path) const {
    const auto peek = prover.owner == path ? PeekSidecar(context_.fs, prover.sidecar) : Result<Peek>(Code::kNotFound, "");
    if (!peek.ok()) return prover.owner;
    return peek->kind == DatasetKind::kSet ? ExpandPattern(peek->name, peek->rank) : peek->name;
  }

  // True if the file is another member of this set. Without a usable sidecar the member has no stamp. But the sidecar beside
  // it may be that of another member and fit this file. Or the sidecar of its rank is beside a file of another name: that
  // member was renamed together with its sidecar.
  bool TookThePlaceOfMember(const FileView& file) {
    const auto is_of = [&](const Result<Peek>& peek) {
      return peek.ok() && peek->committed && peek->kind == DatasetKind::kSet && peek->uuid == view_.superblock.uuid;
    };
    const auto own = PeekSidecar(context_.fs, file.sidecar_path);
    if (is_of(own) && own->rank != file.rank) return IsSameFile(file.stat, own->stamp);
    const std::string real = FollowLink(context_.fs, file.path);
    Directory around(context_.fs, DirectoryOf(real));
    return std::ranges::any_of(around.Sidecars(), [&](const std::string& name) {
      const auto& peek = around.PeekAt(name);
      const auto home = is_of(peek) && peek->rank == file.rank ? around.HomeOf(name) : std::nullopt;
      return home && *home != BaseNameOf(real);
    });
  }
  // The name under which this file (inode, size and mtime) was committed. Then it was renamed, and differences are damage:
  // an edit would have changed the mtime.
  std::optional<std::string> CommittedAs(const FileView& file, const std::string& real) {
    // If files have equal times and no births, the inode alone proves nothing. A file that was protected again after a move is that of
    // both sidecars; then its own one counts.
    const bool is_own = file.sidecar_usable() && IsSameFile(file.stat, file.stamp);
    if (HasSizeAndTime(file.stat, file.stamp) && (is_own || !BirthIdentifiesFile(file.stat.birth_ns))) return std::nullopt;
    for (const FormerName& one : lzy::CommittedAs(context_.fs, real, file.stat, file.sidecar_usable() ? file.sidecar_path : "", Within::kReach)) {
      if (one.peek.uuid != view_.superblock.uuid || one.peek.rank != file.rank) return one.name;  // else: an older commit of this file
    }
    if (HasSizeAndTime(file.stat, file.stamp)) return std::nullopt;
    for (const FormerName& one : MostlyAs(context_.fs, real, file.stat, file.sidecar_usable() ? file.sidecar_path : "", context_.options.key.get())) {
      if (one.peek.uuid != view_.superblock.uuid || one.peek.rank != file.rank) return one.name;
    }
    return std::nullopt;
  }
  // True if the committed file is beside this one, under another name: then this one is another version of it, however similar.
  bool IsCommittedBeside(const FileView& file, const std::string& real) {
    if (!file.sidecar_usable() || MayBe(file.stat, file.stamp)) return false;
    const std::string directory = DirectoryOf(real);
    const auto look = Neighbours::For(context_.fs, directory, BaseNameOf(real), file.stat).look;
    return std::ranges::any_of(look->FilesOfSize(file.stamp.size, file.stamp.mtime_ns), [&](const std::string& name) {
      const auto stat = context_.fs.Stat(JoinPath(directory, name), /*follow=*/false);
      return stat.ok() && HasSizeAndTime(*stat, file.stamp) && IsSameFile(*stat, file.stamp);
    });
  }
  bool IsOfThisSet(const std::string& path) const {
    return std::ranges::any_of(view_.ref.members, [&](const auto& member) { return IsSamePath(member.second, path); });
  }
  bool IsSamePath(const std::string& a, const std::string& b) const {
    const auto one = context_.fs.RealPath(a), other = context_.fs.RealPath(b);
    return one.ok() && other.ok() && *one == *other;
  }

  // True if the sidecar beside the file cannot prove its content: it is the file's own and differs, or is of an older commit
  // of this member. False if it is a sidecar of another dataset that came here with the file. That may be a set of the same
  // name from another directory, so the name does not decide.
  bool ProvesNothing(const FileView& file) const {
    if (file.sidecar_usable()) return true;
    const auto peek = PeekSidecar(context_.fs, file.sidecar_path);
    return !peek.ok() || (peek->uuid == view_.superblock.uuid && peek->rank == file.rank);
  }

  // Members may have been exchanged, also between nodes that do not see each other's sidecars. The roots of the group, which
  // each sidecar of the set records, are enough to find out.
  std::optional<std::string> OtherMemberIn(const Ensemble& ensemble, std::uint32_t f) {
    const FileView& file = ensemble.files[f];
    const std::uint64_t size = file.stat.size, block = ensemble.layout->block_size();
    const auto is_candidate = [&](const MemberRecord& record) { return record.rank != file.rank && record.size == size; };
    const bool any = std::ranges::any_of(view_.ensembles, [&](const Ensemble& one) {
      return std::ranges::any_of(one.records, is_candidate);
    });
    if (!any || size == 0 || file.data == nullptr) return std::nullopt;
    const std::uint64_t blocks = (size + block - 1) / block;
    TreeBuilder builder(TreeKind::kData, blocks, size, {});
    bool readable = true;
    const BlockStream stream = DataStream(block, size, file.data.get(), nullptr, ensemble.key.get());
    const Status read = CheckInPieces(stream, {0, blocks}, settings_, [&](std::uint64_t, const CheckResult& found) {
      readable = readable && found.bad.empty();
      builder.Add(found.leaves);
    });
    if (!read.ok() || !readable) return std::nullopt;
    const Hash root = builder.Finish().Root();
    for (const Ensemble& one : view_.ensembles) {
      for (std::uint32_t i = 0; i < one.records.size(); ++i) {
        if (is_candidate(one.records[i]) && one.records[i].data_root == root) return one.files[i].path;
      }
    }
    return std::nullopt;
  }

  std::uint64_t BytesOfRows(Interval rows) const {
    std::uint64_t bytes = 0;
    for (const Ensemble& ensemble : view_.ensembles) {
      const Layout& layout = *ensemble.layout;
      for (std::uint32_t g = 0; g < layout.group_count(); ++g) {
        const std::uint64_t end = std::min(rows.end, layout.unit_rows(g));
        if (rows.begin < end) bytes += (end - rows.begin) * layout.group(g).size() * layout.unit();
      }
    }
    return bytes;
  }

  // Takes whole turns if a turn is not larger: the data of a turn are consecutive bytes.
  std::uint64_t RowsAtOnce(std::uint64_t bytes_of_a_rank) const {
    const std::uint64_t wanted = bytes_of_a_rank * static_cast<std::uint64_t>(context_.comm.size());
    const std::uint64_t rows = std::max<std::uint64_t>(1, wanted / std::max<std::uint64_t>(1, BytesOfRows({0, 1})));
    const std::uint64_t turn = view_.ensembles[0].layout->largest_group();
    return rows < turn ? rows : rows / turn * turn;
  }

  // Checks this rank's part of some rows, and adds its findings to `mine`. Returns false on all ranks if any rank was
  // stopped.
  Result<bool> ExamineRows(Interval rows, std::vector<FoundIn>& mine) {
    std::vector<FoundIn> here;
    bool stopped = false;
    LZY_RETURN_IF_ERROR(AgreeOn(context_.comm, [&]() -> Status {
      const Status done = ForEachFileOfMine([&](Ensemble& ensemble, std::uint32_t e, std::uint32_t f) -> Status {
        FoundIn& found = here.emplace_back(FoundIn{.ensemble = e, .file = f});
        return ExamineRowsOf(ensemble, f, rows, found.found);
      });
      stopped = done.code() == Code::kInterrupted;
      return stopped ? Status::Ok() : done;
    }));
    LZY_ASSIGN_OR_RETURN(const std::uint64_t any, context_.comm.AllReduceMax(stopped));
    if (any != 0) return false;
    std::erase_if(here, [](const FoundIn& found) { return found.found.data.empty() && found.found.parity.empty(); });
    Append(here, mine);
    return true;
  }

  // Of a shared file, every rank reads its part of each range.
  Status ExamineRowsOf(const Ensemble& ensemble, std::uint32_t f, Interval rows, FileFindings& found) {
    const int rank = shared_ ? context_.comm.rank() : 0, size = shared_ ? context_.comm.size() : 1;
    for (const bool of_parity : {false, true}) {
      for (const Interval& blocks : BlocksOfRows(*ensemble.layout, of_parity, f, rows)) {
        Interval part = PartOf(blocks.end - blocks.begin, rank, size);
        part.begin += blocks.begin;
        part.end += blocks.begin;
        if (part.begin == part.end) continue;
        LZY_RETURN_IF_ERROR(Check(StreamOf(ensemble, of_parity, f), part, of_parity ? found.parity : found.data,
                                  [](std::uint64_t, const CheckResult&) {}));
      }
    }
    return Status::Ok();
  }

  // Does what ExamineFile does besides reading blocks: metadata, rows without parity, and changes of files meanwhile.
  Status FinishPortion(std::vector<FoundIn>& mine) {
    for (FoundIn& one : mine) MarkForsaken(view_.ensembles[one.ensemble].files[one.file], one.found);
    return ForEachFileOfMine([&](Ensemble& ensemble, std::uint32_t e, std::uint32_t f) -> Status {
      FileView& file = ensemble.files[f];
      FoundIn& found = mine.emplace_back(FoundIn{.ensemble = e, .file = f});
      if (!shared_ || context_.comm.rank() == 0) found.found.metadata = file.sidecar->damage();
      if (shared_) CheckSpares(file, found.found);
      const bool differs = std::ranges::any_of(mine, [&](const FoundIn& one) { return one.ensemble == e && one.file == f && HasBadData(one); });
      return NoteChange(file, differs, found);
    });
  }

  // Notes whether the file changed while it was read; differences are then edits. Called after reading, so that no edit is
  // missed. Bytes from another node may be here before their mtime is.
  static Status NoteChange(const FileView& file, bool differs, FoundIn& found) {
    FileStat now = file.stat;
    if (file.data != nullptr) {
      // Waiting takes about a second. Do so only before an edit could be called damage.
      const bool looks_damaged = file.stat.mtime_ns == file.stamp.mtime_ns && (!file.intent || IsOfRepair(*file.intent));
      if (differs) (void)Refresh(*file.data);
      LZY_ASSIGN_OR_RETURN(now, differs && looks_damaged ? StatPatiently(*file.data, file.stat) : file.data->Stat());
    }
    found.changed = now.size != file.stat.size || now.mtime_ns != file.stat.mtime_ns;
    found.size = now.size;
    found.mtime_ns = now.mtime_ns;
    return Status::Ok();
  }

  // Parity that was never made is not damaged.
  static void MarkForsaken(const FileView& file, FileFindings& found) {
    const Tree* parity = file.parity_tree();
    ForEachBlock(found.parity, [&](BadBlocks& bad) {
      const bool none = parity != nullptr && bad.first < parity->leaf_count() && parity->leaf(bad.first) == kNoParityLeaf;
      if (none) bad.fault = BlockFault::kForsaken;
    });
  }

  // If the file turns out to have the committed size and mtime after all, this node learnt of them late, and perhaps of the
  // bytes, too. Then reads it once more.
  Result<FoundIn> ExamineFile(Ensemble& ensemble, std::uint32_t e, std::uint32_t f) {
    FileView& file = ensemble.files[f];
    for (bool again = false;; again = true) {
      FoundIn found{.ensemble = e, .file = f};
      LZY_RETURN_IF_ERROR(shared_ ? ExamineShared(ensemble, file, found.found) : ExamineMember(ensemble, f, file, found.found));
      MarkForsaken(file, found.found);
      LZY_RETURN_IF_ERROR(NoteChange(file, HasBadData(found), found));
      const bool seen_late = found.changed && found.size == file.stamp.size && found.mtime_ns == file.stamp.mtime_ns;
      if (again || !seen_late || !HasBadData(found)) return found;
    }
  }

  // Checks a range of one stream piece by piece, and adds wrong blocks to `bad`.
  Status Check(const BlockStream& stream, const Interval& share, std::vector<BadBlocks>& bad, const CheckedPiece& fn) {
    return CheckInPieces(stream, share, settings_, [&](std::uint64_t first, const CheckResult& found) {
      bytes_read_ += found.bytes_read;
      AppendBad(bad, found.bad);
      fn(first, found);
    });
  }

  // Checks a range of one stream, and proves unknown leaves. If leaves were proven, reads the range again and compares it
  // with them. That is rare, so its cost does not matter.
  Status CheckStretch(BlockStream stream, const Interval& share, TreeKind kind, const Hash& root,
                      const std::vector<std::uint64_t>& unknown, std::optional<Tree>& proven, std::vector<BadBlocks>& bad) {
    KnownPages pages;
    LZY_RETURN_IF_ERROR(Check(stream, share, bad, [&](std::uint64_t first, const CheckResult& found) {
      ProveUnknown(*stream.expected, kind, root, unknown, first, found.leaves, pages);
    }));
    if (!pages.empty()) {
      proven = stream.expected->WithPages(std::move(pages));
      stream.expected = &*proven;
      bad.clear();
      LZY_RETURN_IF_ERROR(Check(stream, share, bad, [](std::uint64_t, const CheckResult&) {}));
    }
    ForEachBlock(bad, [&](BadBlocks& one) {
      const bool known = !std::ranges::binary_search(unknown, one.first) || (proven && !proven->leaf(one.first).IsZero());
      one.unproven = !known;
    });
    return Status::Ok();
  }

  // Checks a part of the data and a part of the parity of a file that has a sidecar.
  Status CheckParts(const Ensemble& ensemble, std::uint32_t f, FileView& file, const Interval& data, const Interval& parity,
                    FileFindings& own) {
    const Superblock& sb = file.sidecar->contents().superblock;
    LZY_RETURN_IF_ERROR(CheckStretch(StreamOf(ensemble, false, f), data, TreeKind::kData, sb.data_root,
                                     file.sidecar->unknown_data_leaves(), file.proven_data, own.data));
    return CheckStretch(StreamOf(ensemble, true, f), parity, TreeKind::kParity, sb.parity_root,
                        file.sidecar->unknown_parity_leaves(), file.proven_parity, own.parity);
  }

  // Each rank checks a part. If pages of hashes must be proven, which is rare, every rank reads everything, because pages
  // are proven as a whole. Then only the findings of rank 0 count.
  Status ExamineShared(Ensemble& ensemble, FileView& file, FileFindings& own) {
    const Layout& layout = *ensemble.layout;
    const int rank = context_.comm.rank();
    const int part = prove_ ? 0 : rank, parts = prove_ ? 1 : context_.comm.size();
    LZY_RETURN_IF_ERROR(CheckParts(ensemble, 0, file, PartOf(layout.data_blocks(0), part, parts),
                                   PartOf(layout.parity_blocks(0), part, parts), own));
    if (prove_ && rank != 0) own = FileFindings();
    // Each rank reports metadata that it could not read.
    if (rank == 0 || !file.sidecar->knows_all_leaves()) own.metadata = file.sidecar->damage();
    CheckSpares(file, own);
    return Status::Ok();
  }

  // Checks the spares in parts; each rank takes some of them.
  void CheckSpares(const FileView& file, FileFindings& own) const {
    const auto size = static_cast<std::size_t>(context_.comm.size());
    for (auto d = static_cast<std::size_t>(context_.comm.rank()); d < file.part_paths.size(); d += size) {
      Append(CheckPart(context_.fs, file.sidecar->contents(), file.part_paths[d], static_cast<std::uint32_t>(d)), own.metadata);
    }
  }

  // The owner checks the whole member. If hashes of the sidecar are lost and cannot be proven, the sidecar counts as lost:
  // its other hashes could be wrong, too.
  Status ExamineMember(Ensemble& ensemble, std::uint32_t f, FileView& file, FileFindings& own) {
    const Layout& layout = *ensemble.layout;
    const Interval data{0, layout.data_blocks(f)};
    const Interval parity{0, layout.parity_blocks(f)};
    if (file.sidecar != nullptr) {
      LZY_RETURN_IF_ERROR(CheckParts(ensemble, f, file, data, parity, own));
      own.metadata = file.sidecar->damage();
      if (AllKnown(file.sidecar->unknown_data_leaves(), file.proven_data) &&
          AllKnown(file.sidecar->unknown_parity_leaves(), file.proven_parity)) {
        return Status::Ok();
      }
      own = FileFindings();
      own.hashes_lost = true;
      file.proven_data.reset();
      file.proven_parity.reset();
      file.sidecar.reset();
    }
    // Without a sidecar, the parity is lost. The data count as right only if they have the root that the other members
    // record.
    if (parity.end > 0) own.parity.push_back({0, parity.end, BlockFault::kMissing, false});
    own.metadata.push_back({0, 0, "sidecar"});
    if (file.data != nullptr && file.stat.size >= layout.file_size(f)) {
      TreeBuilder builder(TreeKind::kData, data.end, layout.file_size(f), {});  // in memory: nothing is written here
      std::vector<BadBlocks> bad;
      LZY_RETURN_IF_ERROR(Check(StreamOf(ensemble, false, f), data, bad,
                                [&](std::uint64_t, const CheckResult& found) { builder.Add(found.leaves); }));
      Tree tree = builder.Finish();
      if (bad.empty() && tree.Root() == ensemble.records[f].data_root) {
        file.proven_data = std::move(tree);
        return Status::Ok();
      }
    }
    if (data.end > 0) {
      // The file as a whole is damaged. Nothing tells which of its blocks are right.
      own.data.push_back({0, data.end, file.data == nullptr ? BlockFault::kMissing : BlockFault::kHash, false});
    }
    own.whole_device = true;
    return Status::Ok();
  }

  const Context& context_;
  DatasetView& view_;
  const bool shared_ = view_.ref.kind == DatasetKind::kShared;
  bool prove_ = false;  // shared file: on some rank, pages of hashes are lost in all copies
  CheckSettings settings_;
  std::atomic<std::uint64_t> done_{0};
  std::uint64_t total_ = 0;
  std::uint64_t bytes_read_ = 0;
};

}  // namespace

// Transient findings do not count, because the second read was right.
bool Findings::clean() const {
  return std::ranges::all_of(files | std::views::join, [](const FileFindings& f) {
    return std::ranges::all_of(f.data, &BadBlocks::transient) && std::ranges::all_of(f.parity, &BadBlocks::transient) &&
           f.metadata.empty() && f.extra_bytes == 0;
  });
}

// All threads together use a quarter of the memory at most, because the caller may hold blocks, too.
CheckSettings SettingsFor(const Context& context, bool from_disk) {
  CheckSettings settings;
  settings.uncached = from_disk;
  settings.threads = ThreadsFor(context);
  // If each read waits for the device, large reads are best, whatever is best for the processor.
  const std::uint64_t most = from_disk ? 1u << 20 : CurrentTuning().check_buffer_bytes();
  settings.buffer_bytes = std::clamp<std::uint64_t>(context.options.memory / (4 * settings.threads), 64u << 10, most);
  settings.stop = context.stop;
  return settings;
}

bool WasPutBackInSeconds(const FileView& file, std::uint64_t size) {
  const std::int64_t mtime_ns = file.stamp.mtime_ns, rest = (mtime_ns % kNsPerSecond + kNsPerSecond) % kNsPerSecond;
  const bool cut = rest != 0 && file.stat.mtime_ns == mtime_ns - rest;
  return cut && file.present && !file.intent && !file.past && file.stat.size == size && !IsSameFile(file.stat, file.stamp);
}

Result<Findings> Examine(const Context& context, DatasetView& view, bool from_disk) {
  return Examiner(context, view, from_disk).Run();
}

Status FillIdentities(const Context& context, DatasetView& view, const Findings& findings) {
  return Examiner(context, view, false).FillIdentities(findings);
}

// After the view was opened, another thread may have proven this file, because it has the sidecar of another file.
Result<bool> AdoptShared(const Context& context, const DatasetView& view) {
  bool adopted = false;
  LZY_RETURN_IF_ERROR(AgreeOn(context.comm, [&] {
    if (context.comm.rank() != 0) return;
    // Content that cannot be read proves nothing. Other code reports the error.
    const std::string real = FollowLink(context.fs, view.ref.path);
    const auto found = AdoptByContent(context.fs, real, context.options.key.get());
    const auto sidecar = ProvenSidecar(context.fs, DirectoryOf(real), BaseNameOf(real));
    adopted = (found.ok() && *found) || (sidecar && *sidecar != BaseNameOf(view.ensembles[0].files[0].sidecar_path));
  }));
  LZY_ASSIGN_OR_RETURN(const std::uint64_t any, context.comm.AllReduceMax(adopted));
  return any != 0;
}

Result<Findings> ExaminePortion(const Context& context, DatasetView& view, bool from_disk, const PortionRequest& request,
                                Portion& portion) {
  return Examiner(context, view, from_disk).RunPortion(request, portion);
}

// A unit has `slices` consecutive blocks in its file or region. Blocks without a byte have no leaf.
std::vector<Interval> BlocksOfRows(const Layout& layout, bool of_parity, std::uint32_t f, Interval rows) {
  std::vector<Interval> out;
  const std::uint64_t blocks = layout.Blocks(of_parity, f);
  for (std::uint32_t device = 0; device < layout.devices(); ++device) {
    if (layout.HolderOf(of_parity, device) != f) continue;
    const std::uint64_t end = std::min(rows.end, layout.unit_rows(layout.group_of(device)));
    for (std::uint64_t row = rows.begin; row < end; ++row) {
      if (layout.IsParity(device, row) != of_parity) continue;
      const BlockPlace first = layout.Block(of_parity, device, row, 0);
      if (first.length == 0 || first.index >= blocks) continue;
      out.push_back({first.index, std::min(blocks, first.index + layout.slices())});
    }
  }
  SortAndJoin(out);
  return out;
}

}  // namespace lzy
