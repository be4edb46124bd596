// Commits a set. The owner of each member reads it, unless it was captured. The ranks of each group add up its parity, and
// all sidecars are committed in two phases (docs/design/commit.md "Sets"). This file has the steps before encoding: which
// files are members, how they are grouped, and whether the existing sidecars can be updated in place.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "comm/records.h"
#include "commit/file_set.h"
#include "dataset/access.h"
#include "dataset/by_servers.h"
#include "dataset/seen_late.h"
#include "sidecar/names.h"

namespace lzy {

// After each step all ranks have agreed on its status, so the next step may communicate.
Status FileSet::Protect() {
  if (request_.touched) LZY_RETURN_IF_ERROR(TakeRequestedRanges());
  LZY_RETURN_IF_ERROR(SeeMembersAlike(context_.fs, comm_, caches_.seen_by, view_));
  LZY_RETURN_IF_ERROR(ChooseSet());
  if (!request_.touched && view_.committed) {
    LZY_ASSIGN_OR_RETURN(const bool done, JudgeExisting(options_));
    if (done && !(grown_ && report_.state == DatasetState::kIntact)) return Status::Ok();
    if ((request_.only_access || request_.parity_anew) && grown_) return Status::Ok();
  }
  if (!request_.touched) {
    std::vector<const FileView*> files(added_.begin(), added_.end());
    for (const FileView& file : view_.files()) files.push_back(&file);
    LZY_ASSIGN_OR_RETURN(const bool refused, JudgeFormer(files));
    if (refused) return Status::Ok();
  }
  LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&] { return FindMembers(); }));
  LZY_RETURN_IF_ERROR(GatherFacts());
  if (request_.parity_anew) KeepDomains();
  LZY_RETURN_IF_ERROR(AgreeOnSizes());
  uuid_ = view_.superblock.uuid;
  if (!same_set_) {
    LZY_ASSIGN_OR_RETURN(uuid_, CommonUuid());
  }
  LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&]() -> Status {
    LZY_RETURN_IF_ERROR(ChooseGroups());
    LZY_RETURN_IF_ERROR(MakeLayouts());
    return MakeShapes();
  }));
  LZY_RETURN_IF_ERROR(ChooseWay());
  Status status = AgreeOn(comm_, [&]() -> Status {
    LZY_RETURN_IF_ERROR(OpenOutputs());
    UseCapture();
    return Status::Ok();
  });
  if (status.ok() && !IsHashedAlone()) status = SplitGroups();
  if (status.ok()) status = Encode();
  if (status.ok()) status = Commit();
  if (!status.ok()) RemoveTemporaries();
  return status;
}

// The uuid distinguishes sets. Members of two sets of one name must never be mixed, so another number of members makes a
// new set.
Status FileSet::ChooseSet() {
  std::uint64_t present = 0;
  for (const FileView& file : view_.files()) present += file.present ? 1 : 0;
  same_set_ = view_.committed;
  // New files that match the pattern make a new set. Left-over members of an older, larger set do not.
  for (FileView& file : view_.extras) {
    if (file.present && (request_.touched || !view_.IsLeftover(file))) added_.push_back(&file);
  }
  present += added_.size();
  grown_ = !added_.empty();
  if (view_.committed && !request_.touched && !request_.force && !view_.UnknownFilesAreThere() && !view_.IsPartial()) {
    return {Code::kBeyondRepair, fmt::format("{}: a whole group of the set is missing", ref_.path)};
  }
  // If the program has another number of ranks, it makes a new set, without members of the old one.
  const bool other_ranks = request_.touched && static_cast<std::uint32_t>(comm_.size()) != view_.superblock.members;
  // With --force, the present members make a new set.
  const bool other_members = (request_.touched || request_.force) && present != view_.superblock.members;
  if (grown_ || other_ranks || other_members) same_set_ = false;
  options_ = same_set_ || (view_.committed && !request_.touched) ? EffectiveOptions() : context_.options;
  return Status::Ok();
}

// A gap in the ranks means that a member is missing. A set without it would hide the loss.
Status FileSet::FindMembers() {
  std::map<std::uint32_t, FileView*> present;
  for (FileView& file : view_.files()) {
    if (file.present) present[file.rank] = &file;
  }
  for (FileView* file : added_) present[file->rank] = file;
  if (present.empty()) return {Code::kNotFound, fmt::format("{}: no member of the set exists", ref_.path)};
  std::uint32_t expected = 0;
  for (const auto& [rank, file] : present) {
    if (rank != expected++) {
      return {Code::kIo, fmt::format("{}: the member of rank {} is missing ({}); a set has members 0 to p-1. If {} is no member, give it "
                                     "another name", ref_.path, expected - 1, ExpandPattern(ref_.path, expected - 1), file->path)};
    }
  }
  for (const auto& [rank, file] : present) {
    facts_[rank].old_size = file->stamp.size;
    facts_[rank].file = file;
    facts_[rank].other_writer = HasOtherWriter(*file);
    if (file->owner != comm_.rank()) continue;
    OwnMember& member = own_[rank];
    member.file = file;
    member.job.data = file->data.get();
    LZY_RETURN_IF_ERROR(Settle(*file, member.job));
  }
  return Status::Ok();
}

// The new generation is higher than that of any member, because a member of an interrupted commit may be ahead.
Status FileSet::GatherFacts() {
  struct Fact {
    std::uint32_t rank = 0;
    FileStat stat;
    std::uint64_t generation = 0;  // 0: never committed
    std::string domain;
    std::string node;
    bool captured = false;
    bool on_server = false;  // `domain` is a server
    LZY_FIELDS(rank, stat, generation, domain, node, captured, on_server)
  };
  // Options that all ranks must have alike. Device directories are only for shared files.
  constexpr std::array kGeometry = {"parity", "group", "block-size", "stripe"};
  using Geometry = std::array<std::uint64_t, kGeometry.size()>;
  std::pair<Geometry, std::vector<Fact>> mine{{options_.parity, options_.group, options_.block_size, options_.stripe}, {}};
  for (const auto& [rank, member] : own_) {
    const std::string server = ServerOfMember(*member.file);
    const std::string& domain = context_.options.domain;
    mine.second.push_back({rank, member.job.before, member.file->sidecar ? member.file->sidecar->generation() : 0,
                           !domain.empty()   ? domain
                           : !server.empty() ? server
                                             : comm_.ProcessorName(),
                           comm_.ProcessorName(), request_.capture != nullptr, !server.empty()});
  }
  LZY_ASSIGN_OR_RETURN(const auto all, AllGatherRecords(comm_, mine));
  for (std::size_t p = 0; p < all.size(); ++p) {
    const auto& [theirs, facts] = all[p];
    for (std::size_t i = 0; i < kGeometry.size(); ++i) {
      const std::uint64_t wanted = all[0].first[i];
      if (theirs[i] == wanted) continue;
      return {Code::kInvalidArgument,
              fmt::format("{}: {} is {} on rank 0 and {} on rank {}: the ranks must agree on it", ref_.path, kGeometry[i],
                          wanted, theirs[i], p)};
    }
    for (const Fact& fact : facts) {
      MemberFacts& f = facts_[fact.rank];
      f.before = fact.stat;
      f.domain = fact.domain;
      f.node = fact.node;
      f.captured = fact.captured;
      on_servers_ = on_servers_ || fact.on_server;
      f.owner = static_cast<int>(p);
      generation_ = std::max(generation_, fact.generation + 1);
    }
  }
  return Status::Ok();
}

// Only with stripe=servers, and only if option domain is not given.
std::string FileSet::ServerOfMember(const FileView& file) const {
  const bool asked = context_.options.stripe_servers && context_.options.domain.empty() && file.data != nullptr;
  return asked ? OnlyServerOf(context_.fs, *file.data) : std::string();
}

const char* FileSet::DomainKind() const {
  if (!context_.options.domain.empty()) return "failure domain";
  return on_servers_ ? "server" : "node";
}

// A process that makes parity again may run on other nodes than the program that wrote the members.
void FileSet::KeepDomains() {
  for (const Ensemble& ensemble : view_.ensembles) {
    for (const MemberRecord& record : ensemble.records) {
      if (const auto at = facts_.find(record.rank); at != facts_.end()) at->second.domain = record.domain;
    }
    for (const FileView& file : ensemble.files) {
      if (const auto at = facts_.find(file.rank); at != facts_.end()) at->second.node = file.written_on;
    }
  }
}

Status FileSet::AgreeOnSizes() {
  for (const auto& [rank, f] : facts_) {
    largest_member_ = std::max(largest_member_, f.before.size);
    total_bytes_ += f.before.size;
  }
  std::vector<const FileView*> own;
  for (const auto& [rank, member] : own_) own.push_back(member.file);
  LZY_ASSIGN_OR_RETURN(block_size_, AgreeOnBlockSize(options_, largest_member_, own));
  return Status::Ok();
}

// Existing groups stay, because new groups would need a new encoding of everything.
Status FileSet::ChooseGroups() {
  regroup_ = !same_set_ || options_.parity != view_.superblock.parity || options_.group != view_.info.group_option;
  if (!regroup_) {
    parity_ = options_.parity;
    for (const Ensemble& ensemble : view_.ensembles) {
      Group& group = groups_.emplace_back();
      for (const FileView& file : ensemble.files) group.ranks.push_back(file.rank);
    }
    WarnOfMoves();
    return Status::Ok();
  }
  std::vector<std::string> domains;
  for (const auto& [rank, f] : facts_) domains.push_back(f.domain);
  const Grouping dealt = DealGroups(domains, options_.group, options_.parity);
  parity_ = dealt.parity;
  for (const auto& ranks : dealt.groups) groups_.emplace_back().ranks = ranks;
  if (dealt.too_few_devices && (!request_.touched || options_.fail_on_error)) {
    return {Code::kInvalidArgument, fmt::format("{}: {} members are too few for parity {}: at least {} are needed",
                                                ref_.path, facts_.size(), options_.parity, options_.parity + 1)};
  }
  Warn(dealt, std::set<std::string>(domains.begin(), domains.end()).size());
  return Status::Ok();
}

// These warnings come at every commit that makes groups, because each means less protection than the options asked for.
void FileSet::Warn(const Grouping& dealt, std::size_t domains) {
  auto& warnings = report_.warnings;
  if (dealt.too_few_devices) {
    warnings.push_back(fmt::format("{}: {} members are too few for parity {}; there are hashes only, and nothing can be rebuilt",
                                   ref_.path, facts_.size(), options_.parity));
  }
  if (dealt.groups_grown) {
    warnings.push_back(fmt::format("{}: groups are larger than {}, since smaller ones could not hold {} members each",
                                   ref_.path, options_.group, options_.parity + 1));
  }
  // On a single node the groups cannot be chosen better. With servers as domains, warn in any case.
  if ((domains > 1 || on_servers_) && dealt.worst_domain_share > dealt.parity) {
    warnings.push_back(
        fmt::format("{}: {} members of one {domain} are in one group; if this {domain} is lost, parity {} cannot rebuild them",
                    ref_.path, dealt.worst_domain_share, dealt.parity,
                    fmt::arg("domain", DomainKind())));
  }
}

void FileSet::WarnOfMoves() {
  std::uint32_t most = 0;
  std::set<std::string> domains;
  for (const Ensemble& ensemble : view_.ensembles) {
    std::map<std::string, std::uint32_t> before, now;
    std::uint32_t most_before = 0, most_now = 0;
    for (std::size_t i = 0; i < ensemble.files.size(); ++i) {
      const std::string& domain = facts_.at(ensemble.files[i].rank).domain;
      domains.insert(domain);
      most_before = std::max(most_before, ++before[ensemble.records[i].domain]);
      most_now = std::max(most_now, ++now[domain]);
    }
    if (most_now > most_before) most = std::max(most, most_now);
  }
  // All members are in one domain, a single node: the groups cannot be chosen better.
  if (most <= parity_ || (domains.size() == 1 && context_.options.domain.empty())) return;
  const char* const what = DomainKind();
  report_.warnings.push_back(fmt::format("{}: {} members of one {} are in one group now, more than when the groups were "
                                         "made. If this {} is lost, parity {} cannot rebuild them. Groups are made again for "
                                         "another parity or group, or if the set has no sidecars",
                                         ref_.path, most, what, what, parity_));
}

// Files and devices of a group are numbered in the order of its ranks.
Status FileSet::MakeLayouts() {
  for (const Group& group : groups_) {
    largest_group_ = std::max(largest_group_, static_cast<std::uint32_t>(group.ranks.size()));
  }
  const std::uint64_t unit =
      ChooseUnit(DatasetKind::kSet, block_size_, options_.stripe, largest_group_, largest_member_);
  for (Group& group : groups_) {
    std::vector<std::uint64_t> sizes;
    for (const std::uint32_t rank : group.ranks) {
      sizes.push_back(facts_.at(rank).before.size);
      group.mine = group.mine || own_.contains(rank);
    }
    const auto members = group.ranks.size();
    LZY_ASSIGN_OR_RETURN(group.layout, Layout::Create(GroupGeometry(block_size_, unit, parity_, members), std::move(sizes)));
    group.plans.emplace(*group.layout);
  }
  return Status::Ok();
}

// The leaves are not known yet, so the path to the root is filled with zeros. It has its final number of pages, so the
// metadata have their final size. If one member is too large for the compact form, no member gets it, because a set is
// updated in place in all members or in none.
Status FileSet::MakeShapes() {
  const bool small = std::ranges::all_of(facts_, [](const auto& f) { return f.second.before.size <= kMaxCompactData; });
  std::set<std::string> nodes;
  for (const auto& [rank, f] : facts_) nodes.insert(f.node);
  const Tree placeholder = Tree::Build(TreeKind::kDataset, std::vector<Hash>(facts_.size()), total_bytes_);
  return ForEachOwn([&](const Group& group, std::uint32_t f, std::uint32_t rank, OwnMember& member) {
    const Layout& layout = *group.layout;
    FillShape(context_.fs, options_, ref_.kind, layout, f, member.job, member.contents);
    Superblock& sb = member.contents.superblock;
    sb.uuid = uuid_;
    sb.generation = generation_;
    sb.members = static_cast<std::uint32_t>(facts_.size());
    sb.largest_group = largest_group_;
    sb.rank = rank;
    sb.compact = sb.compact && small;
    InfoRecord& info = member.contents.info;
    info.name = PatternTail(ref_.path);
    info.groups = {group.ranks};
    for (std::uint32_t i = 0; i < group.ranks.size(); ++i) {
      const MemberFacts& m = facts_.at(group.ranks[i]);
      info.members.push_back(RecordOf(group.ranks[i], m.before, layout.parity_size(i), m.domain));
      info.written_on.nodes.push_back(m.node);
    }
    info.written_on.count = static_cast<std::uint32_t>(nodes.size());
    SetPath(info, placeholder, rank);
    return Status::Ok();
  });
}

void FileSet::SetPath(InfoRecord& info, const Tree& members, std::uint32_t rank) {
  info.path = members.Prove(rank);
  if (members.leaf_count() == 1) info.path.pages.clear();
}

// First completes the touched ranges: changes of size, files that changed after they were judged, and members with another
// writer. If one member cannot be updated in place, all members get new sidecars, because the two phases are the same for
// all.
Status FileSet::ChooseWay() {
  for (const auto& [rank, f] : facts_) {
    const auto [at, added] = touched_.try_emplace(rank);
    if (added || f.other_writer) at->second.AddWhole();
    if (!holds_) continue;
    CheckJudged(*f.file, f.before);
    AddResize(at->second, f.old_size, f.before.size, block_size_);
  }
  bool fits = holds_ && same_set_ && !regroup_ && (request_.touched || only_access_);
  for (auto& [rank, member] : own_) {
    const Sidecar* sidecar = LeavesOf(*member.file);
    // The sidecar's leaves of this file are valid even if the set is a new one, or the file was not a member before.
    const bool trusted = holds_ && sidecar != nullptr && !touched_.at(rank).whole();
    if (trusted && sidecar->contents().superblock.block_size == block_size_) {
      member.touched = touched_.at(rank);
      // The size in the member's own sidecar may differ from that of the set.
      AddResize(member.touched, sidecar->contents().superblock.stamp.size, member.job.before.size, block_size_);
      HoldToLeaves(*sidecar, member.touched, member.job);
    }
    fits = fits && trusted && (request_.touched || HasOwnerOfFile(*member.file)) && sidecar == member.file->sidecar.get() &&
           sidecar->knows_all_leaves() && sidecar->Fits(member.contents);
  }
  LZY_ASSIGN_OR_RETURN(const std::uint64_t obstacles, comm_.AllReduceMax(fits ? 0 : 1));
  incremental_ = obstacles == 0;
  return Status::Ok();
}

std::unique_ptr<Protector> SetProtector(const Context& context, const DatasetRef& ref, const ProtectRequest& request,
                                        DatasetReport& report) {
  return std::make_unique<FileSet>(context, ref, request, report);
}

}  // namespace lzy
