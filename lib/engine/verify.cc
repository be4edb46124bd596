// Verify, repair and restore. All three are one sequence (Run): open, examine, judge, repair. A Job says how far it goes.
//
// Flow: GiveSidecarsNames (to write), OpenDataset with locks (to write), Examine, JudgeFindings, Repair. Every step is collective and
// ends with an agreement, so an error ends the call on all ranks.

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "comm/records.h"
#include "commit/protect.h"
#include "commit/renew_stamps.h"
#include "dataset/access.h"
#include "dataset/rehome.h"
#include "encode/check_parity.h"
#include "encode/resemblance.h"
#include "engine/engine.h"
#include "judge/last_proof.h"
#include "names/former_names.h"
#include "names/lookup.h"
#include "names/membership.h"
#include "names/proven.h"
#include "names/set_claim.h"
#include "names/set_names.h"
#include "remote/files.h"
#include "repair/lost_members.h"
#include "repair/repair.h"
#include "repair/repair_plan.h"
#include "repair/replica.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

// What Verify or Restore was asked to do.
struct Job {
  bool from_disk = false;
  bool repair = false;
  bool dry_run = false;
  Placing placing = Placing::kApart;
  LostNodes lost = {};
  RepairRequest request = {};
  std::optional<PortionRequest> portion = {};
  double encode = 0;
  bool leave_written = false;
  bool record_access = false;
  std::string replica = {};
  RemoteRanks* ranks = nullptr;  ///< the ranks that may see the replica
  bool adopted = false;         ///< content has already chosen the sidecar, so do not search again
  std::string parts_left = {};  ///< why missing parts are not made again; empty: they are

  bool writes() const { return repair && !dry_run; }
  /// Only then may survivors be read once. All other options need to know what is wrong with them.
  bool IsPlainRestore() const {
    return request.create_missing && !request.force && !request.salvage && request.devices.empty() && replica.empty();
  }
};

// An interrupted repair may have left only its intent and the file's mtime to repair.
bool RepairBrokeOff(const DatasetView& view) {
  return std::ranges::any_of(view.files(), [](const FileView& file) { return file.intent && IsOfRepair(*file.intent); });
}

// The state after a repair, from the damage that is left. Judged as before the repair (Assessment), so a repair that changes
// nothing keeps the state.
DatasetState StateAfter(const DatasetReport& report) {
  Assessment left{.unjudged = report.unjudged};
  bool repaired = false;
  for (const Damage& d : report.damage) {
    if (d.transient) continue;
    repaired = repaired || d.repaired;
    if (d.repaired) continue;
    left.Count(d.cause, d.part);
    left.beyond = left.beyond || (d.beyond_repair && !IsEdit(d.cause));
  }
  const DatasetState state = left.State();
  return state == DatasetState::kIntact && repaired ? DatasetState::kRestored : state;
}

// What the sidecars of this process's share of the members record.
struct SeenClaim : SetClaim {
  LZY_FIELDS(uuid, rank, members, generation, wall_time_ns, same_file, named, present)
};
std::vector<SeenClaim> ClaimsHere(const Context& context, const DatasetRef& dataset) {
  std::vector<SeenClaim> claims;
  for (const auto& [rank, path] : dataset.members) {
    const auto peek = dataset.IsDealtHere(rank) ? FindAndPeek(context.fs, path) : Result<Peek>(Code::kNotFound, "");
    if (!peek.ok() || !peek->committed || peek->kind != DatasetKind::kSet) continue;
    const auto stat = context.fs.Stat(path);
    const bool same_file = stat.ok() && IsSameFile(*stat, peek->stamp);
    const bool named = peek->rank == rank && PatternFromTail(path, peek->name, rank);
    claims.push_back({{peek->uuid, peek->rank, peek->members, peek->generation, peek->wall_time_ns, same_file, named, stat.ok()}});
  }
  return claims;
}

// What RehomeAll does, and what it found.
struct Renames {
  const bool only_look;
  bool any = false;      // there is a sidecar to rename
  bool unsure = false;   // another process may be renaming sidecars
};

Status RehomeOne(const Context& context, const std::string& path, Renames& renames, std::optional<SetMember> lost = {}) {
  // A name that is too long for a sidecar is not a mistake of the user who asks what is protected.
  const Status found = FindSidecar(context.fs, path).status();
  if (found.code() == Code::kUnprotected) return found;
  const RehomeOptions options{context.options.timeout_seconds, Occupants::kStay, lost};
  if (!renames.only_look) return Rehome(context.fs, path, options).status();
  LZY_ASSIGN_OR_RETURN(const RehomeNeed need, LookForRehome(context.fs, path, options));
  renames.any = renames.any || need == RehomeNeed::kSome;
  renames.unsure = renames.unsure || need == RehomeNeed::kUnsure;
  return Status::Ok();
}

// A member that was renamed alone leaves its sidecar where it is: its set may need the parity in it, and finds it there.
bool IsSidecarOfItsSet(FileSystem& fs, const std::string& path) {
  const auto peek = FindAndPeek(fs, path);
  return peek.ok() && peek->committed && peek->kind == DatasetKind::kSet;
}

// Gives each sidecar the name of its file, before locks are taken. Existing members come first, so that the names of lost
// members are free for their own sidecars.
Status RehomeAll(const Context& context, const DatasetRef& dataset, Renames& renames) {
  if (dataset.kind == DatasetKind::kShared) {
    return AgreeOn(context.comm, [&] {
      const bool moves = context.comm.rank() == 0 && !IsSidecarOfItsSet(context.fs, dataset.path);
      return moves ? RehomeOne(context, dataset.path, renames) : Status::Ok();
    });
  }
  std::vector<std::pair<std::uint32_t, std::string>> gone;  // lost, or protected alone: its sidecar does not record a set
  LZY_RETURN_IF_ERROR(AgreeOn(context.comm, [&]() -> Status {
    for (const auto& [rank, path] : dataset.members) {
      // A link in the place of a member is none: what it leads to has another sidecar.
      if (!dataset.IsDealtHere(rank) || context.fs.ReadLink(path).ok()) continue;
      const bool there = context.fs.Stat(path).ok();
      const auto peek = there ? FindAndPeek(context.fs, path) : Result<Peek>(Code::kNotFound, path);
      const bool committed = peek.ok() && peek->committed, alone = committed && peek->kind == DatasetKind::kShared;
      if (!there || alone) gone.emplace_back(rank, path);
      // OpenDataset renames sidecars that have the name of another member.
      renames.any = renames.any || (committed && !alone && peek->rank != rank);
      const auto found = alone ? FindSidecar(context.fs, path) : Result<std::string>(Code::kNotFound, path);
      if (found.ok() && SidecarOfDisplaced(context.fs, path, *found)) continue;
      LZY_RETURN_IF_ERROR(RehomeOne(context, path, renames));
    }
    return Status::Ok();
  }));
  LZY_ASSIGN_OR_RETURN(const std::uint64_t any_gone, context.comm.AllReduceMax(gone.empty() ? 0 : 1));
  if (any_gone == 0) return Status::Ok();
  std::vector<SeenClaim> mine;
  LZY_RETURN_IF_ERROR(AgreeOn(context.comm, [&] { mine = ClaimsHere(context, dataset); }));
  LZY_ASSIGN_OR_RETURN(const auto all, AllGatherRecords(context.comm, mine));
  std::vector<SetClaim> claims;
  for (const auto& theirs : all) claims.insert(claims.end(), theirs.begin(), theirs.end());
  const auto counts = WhichSetCounts(claims);
  return AgreeOn(context.comm, [&]() -> Status {
    if (!counts) return Status::Ok();
    for (const auto& [rank, path] : gone) LZY_RETURN_IF_ERROR(RehomeOne(context, path, renames, SetMember{claims[*counts].uuid, rank}));
    return Status::Ok();
  });
}

// Adds the devices of --device to the findings, and describes the findings in the report.
Status JudgeFindings(const Context& context, const DatasetView& view, Findings& findings, RepairRequest& request,
                     DatasetReport& report) {
  return AgreeOn(context.comm, [&]() -> Status {
    Findings with_devices = findings;
    LZY_RETURN_IF_ERROR(AddLostDevices(view, request, with_devices));
    if (!request.devices.empty()) {
      // Intact blocks must not be given up if parity cannot rebuild them.
      LZY_ASSIGN_OR_RETURN(const RepairPlan plan, PlanRepair(view, with_devices, request));
      LZY_ASSIGN_OR_RETURN(const RepairPlan without, PlanRepair(view, findings, request));
      if (plan.beyond && !without.beyond && !request.salvage) {
        Describe(view, findings, report);
        return {Code::kBeyondRepair,
                fmt::format("--device: without {} device{}, more of {} would be lost than parity {} can rebuild; nothing was "
                            "written. Name fewer devices; to see the groups: lzy-info --map PATH",
                            request.devices.size() == 1 ? "this" : "these", request.devices.size() == 1 ? "" : "s", view.ref.path,
                            view.superblock.parity)};
      }
      if (plan.beyond && request.salvage) {
        report.warnings.push_back(
            fmt::format("{}: --device is ignored: with it, parity could not rebuild everything that is lost", view.ref.path));
        request.devices.clear();
        with_devices = findings;
      }
    }
    findings = std::move(with_devices);
    Describe(view, findings, report);
    return Status::Ok();
  });
}

// The error if force should set edits back, and parity cannot.
Status NothingReset(const DatasetView& view) {
  return {Code::kBeyondRepair, fmt::format("{}: nothing was reset: more of it changed than parity can rebuild", view.ref.path)};
}

// Repairs, and sets the state by what is left. kBeyondRepair of Repair becomes a state: the report says what is lost.
Status RepairFound(const Context& context, DatasetView& view, const Findings& findings, const RepairRequest& request,
                   DatasetReport& report) {
  Status repaired = Repair(context, view, findings, request, report);
  if (repaired.code() == Code::kBeyondRepair) {
    // The report says which ranges are lost, and that nothing was written. If only force asked for too much, nothing is
    // lost: the edits and the state stay.
    const bool lost = std::ranges::any_of(report.damage, &Damage::beyond_repair);
    if (lost && !report.unjudged) report.state = DatasetState::kUnrepairable;
    return lost || !request.force ? Status::Ok() : NothingReset(view);
  }
  LZY_RETURN_IF_ERROR(repaired);
  report.state = StateAfter(report);
  return Status::Ok();
}

// Tries to restore whole members, reading the survivors once. Returns true if only members were lost, and they were made
// again. Returns false if more is wrong; then no file has its final name, and the view may have been opened again.
Result<bool> RestoreLostMembers(const Context& context, const DatasetRef& dataset, DatasetView& view, const Job& job,
                                DatasetReport& report) {
  RepairRequest request = job.request;
  LZY_ASSIGN_OR_RETURN(auto findings, AssumeOnlyMembersLost(context, view, request));
  if (!findings) return false;
  request.assumed = true;
  DatasetReport attempt = report;
  Status status = JudgeFindings(context, view, *findings, request, attempt);
  if (status.ok()) status = RepairFound(context, view, *findings, request, attempt);
  // A wrong source may be the cause of any failure except kBusy, which means that another process writes.
  if (!status.ok() && status.code() != Code::kBusy) {
    HeldLocks held;
    LZY_RETURN_IF_ERROR(AgreeOn(context.comm, [&] { held = ReleaseLocks(std::move(view)); }));
    LZY_ASSIGN_OR_RETURN(view, OpenDataset(context, dataset, {/*write=*/true, job.placing, job.lost, /*stripes=*/false, &held}));
    return false;
  }
  report = std::move(attempt);
  LZY_RETURN_IF_ERROR(status);
  return true;
}

// Reports where restored members are: a job that starts again does not see the disks of other nodes.
void ReportPlaces(const DatasetView& view, DatasetReport& report) {
  if (view.nodes.empty()) return;
  for (const FileView& file : view.files()) {
    if (!file.seen && !file.not_visible) report.placed.push_back({file.rank, file.path, view.nodes[static_cast<std::size_t>(file.owner)]});
  }
}

/// True if a part of a shared file's parity does not exist. The same on every rank.
bool IsMissing(const FileView& file, std::size_t part) {
  return file.parts == nullptr || file.parts->part(part) == nullptr;
}

// Gives every missing part an obstacle, so the plan leaves it out (FilePlan::parts_left), and a warning says why.
void LeaveMissingParts(const std::string& why, DatasetView& view) {
  for (FileView& file : view.files()) {
    for (std::size_t d = 0; d < file.part_obstacles.size(); ++d) {
      if (IsMissing(file, d) && file.part_obstacles[d].empty()) file.part_obstacles[d] = why;
    }
  }
}

// If the metadata say that a program is writing the dataset, fills in the report and returns true.
bool LeaveForLater(const DatasetView& view, DatasetReport& report) {
  const bool written = std::ranges::any_of(view.files(), [](const FileView& file) { return file.intent && !IsOfRepair(*file.intent); });
  if (!written) return false;
  DescribeMetadata(view, report);
  report.state = DatasetState::kAtRisk;
  report.left_for_later = true;
  return true;
}

// Reads and hashes the dataset, or the requested portion.
Result<Findings> ExamineAsAsked(const Context& context, DatasetView& view, const Job& job, DatasetReport& report) {
  if (job.portion) return ExaminePortion(context, view, job.from_disk, *job.portion, report.portion);
  LZY_ASSIGN_OR_RETURN(Findings findings, Examine(context, view, job.from_disk));
  return findings;
}

// Finds lost blocks in the replica; the devices of --device count as lost.
Status LookInReplica(const Context& context, DatasetView& view, const Job& job, ReplicaPlace& place, Findings& findings, DatasetReport& report) {
  Findings all = findings;
  LZY_RETURN_IF_ERROR(AgreeOn(context.comm, [&] { return AddLostDevices(view, job.request, all); }));
  LZY_RETURN_IF_ERROR(FindInReplica(context, view, place, all, report.warnings));
  for (std::size_t e = 0; e < findings.files.size(); ++e) {
    for (std::size_t f = 0; f < findings.files[e].size(); ++f) findings.files[e][f].in_replica = std::move(all.files[e][f].in_replica);
  }
  return Status::Ok();
}

// If content shows that the file has another sidecar than by its stamp, returns true, with view and report as before
// RunOnce.
Result<bool> Adopt(const Context& context, const DatasetRef& dataset, const Job& job, DatasetView& view, DatasetReport& report) {
  if (job.adopted || dataset.kind != DatasetKind::kShared) return false;
  LZY_ASSIGN_OR_RETURN(const bool adopted, AdoptShared(context, view));
  if (!adopted) return false;
  view = DatasetView();  // and with it the locks
  report = DatasetReport(dataset.path, dataset.kind);
  return true;
}

Job AfterAdopting(Job job) {
  job.adopted = true;
  return job;
}

// Compares parity with the data, as far as requested. If a portion is stopped, its finished part counts.
Status EncodeAgain(const Context& context, const DatasetView& view, const Job& job, Findings& findings, DatasetReport& report) {
  if (job.encode <= 0) return Status::Ok();
  ParityCheck check{.share = job.encode};
  if (job.portion) check.unit_rows = {report.portion.begin, report.portion.end};
  const Status done = CheckParity(context, view, check, findings, report.bytes_encoded);
  if (done.code() == Code::kInterrupted && job.portion) return Status::Ok();
  LZY_RETURN_IF_ERROR(done);
  report.parity_compared = job.encode >= 1 && (!job.portion || report.portion.whole());
  return Status::Ok();
}

bool IsWrongParity(const Damage& damage) {
  return damage.cause == DamageCause::kEncoding && !damage.repaired;
}

// Makes parity again by a commit. Other damage has been repaired before. The commit compares the data with their hashes, so
// it accepts only committed data.
Status MakeParityAgain(const Context& context, const DatasetRef& dataset, DatasetView& view, DatasetReport& report) {
  const bool others = std::ranges::any_of(
      report.damage, [](const Damage& d) { return !d.repaired && !d.transient && d.cause != DamageCause::kEncoding; });
  DatasetReport done(dataset.path, dataset.kind);
  if (!others) {
    HeldLocks held;
    LZY_RETURN_IF_ERROR(AgreeOn(context.comm, [&] { held = ReleaseLocks(std::move(view)); }));
    ProtectRequest request;
    request.parity_anew = true;
    request.held = &held;
    done = Protect(context, dataset, request);
    LZY_RETURN_IF_ERROR(done.status);
  }
  if (!done.committed) {
    report.warnings.push_back(fmt::format("{}: parity that is not what its data give was not made again: something else of the dataset is "
                                          "not as committed, a program may be writing it, or files were added", dataset.path));
    return Status::Ok();
  }
  for (Damage& d : report.damage) d.repaired = d.repaired || d.cause == DamageCause::kEncoding;
  std::tie(report.uuid, report.generation, report.commit_time_ns) = std::tie(done.uuid, done.generation, done.commit_time_ns);
  report.warnings.insert(report.warnings.end(), done.warnings.begin(), done.warnings.end());
  // Blocks that rotted after they were judged keep their hash and are reported.
  std::ranges::move(done.damage, std::back_inserter(report.damage));
  report.state = StateAfter(report);
  return Status::Ok();
}

// Records the present owner, mode and ACL of an intact dataset, so that a later restore does not give access that was taken
// away. `write`: `view` has locks, and the commit keeps them.
Status RecordAccess(const Context& context, const DatasetRef& dataset, bool write, DatasetView& view, DatasetReport& report) {
  LZY_ASSIGN_OR_RETURN(const bool recorded, AccessIsRecorded(context, view));
  if (recorded) return Status::Ok();
  HeldLocks held;
  if (write) LZY_RETURN_IF_ERROR(AgreeOn(context.comm, [&] { held = ReleaseLocks(std::move(view)); }));
  view = DatasetView();
  ProtectRequest request;
  request.only_access = true;
  request.held = write ? &held : nullptr;
  const DatasetReport done = Protect(context, dataset, request);
  if (done.status.ok()) return Status::Ok();
  report.warnings.push_back(fmt::format("{}: its owner, mode or ACL changed since the last commit, and that could not be recorded: {}",
                                        dataset.path, done.status.message()));
  return Status::Ok();
}

// True if content has proven that the sidecar of a shared file has another name. Until it is renamed, tools that read no
// data do not know that it belongs to the file.
Result<bool> HasMovedSidecar(const Context& context, const DatasetRef& dataset) {
  if (dataset.kind != DatasetKind::kShared) return false;
  const std::string real = FollowLink(context.fs, dataset.path), name = BaseNameOf(real);
  const auto proven = ProvenSidecar(context.fs, DirectoryOf(real), name);
  const bool moved = context.comm.rank() == 0 && proven && *proven != kSidecarPrefix + name;
  LZY_ASSIGN_OR_RETURN(const std::uint64_t any, context.comm.AllReduceMax(moved));
  return any != 0;
}

// Warns of edits that lzy-protect would refuse: of files that hold what others were, in a mixture of two sets, or in the place of a file
// that was renamed and is damaged. For other edits, lzy-protect compares the files around with the sidecar, which would cost too much here.
Status WarnOfRefusedEdits(const Context& context, const DatasetView& view, DatasetReport& report) {
  const bool edits = std::ranges::any_of(report.damage, [](const Damage& d) { return d.part == DamagePart::kData && IsEdit(d.cause); });
  if (!edits) return Status::Ok();
  const bool mixed = std::ranges::any_of(view.files(), [](const FileView& file) { return file.fault == SidecarFault::kForeign; });
  if (!report.another && (report.holds_another || mixed)) return WarnWhyNotToCommit(context, view, report);
  return HasReplacedFile(view) ? WarnOfRotten(context, view, report) : Status::Ok();
}

// A file without a sidecar may be one that was renamed and is damaged, although another file has its sidecar now, by content.
Status RefuseIfRotten(const Context& context, const DatasetRef& dataset) {
  const bool asked = dataset.kind == DatasetKind::kShared && context.comm.rank() == 0;
  return AgreeOn(context.comm, [&] { return asked ? RefuseRotten(context.fs, dataset.path, dataset.path, context.options.key.get()) : Status::Ok(); });
}

Status RunOnce(const Context& context, const DatasetRef& dataset, const Job& job, DatasetReport& report, bool& met_commit);

// Gives sidecars the names of their files, but not for a repair that would fail: a mistyped pattern may lead to a part of a set that
// was renamed. So if there is anything to rename, first looks what the repair would find. Returns true if it would fail; then the
// report, with its status, is that of the look.
Result<bool> GiveSidecarsNames(const Context& context, const DatasetRef& dataset, const Job& job, DatasetReport& report) {
  Renames look{.only_look = true}, names{.only_look = false};
  LZY_RETURN_IF_ERROR(RehomeAll(context, dataset, look));
  LZY_ASSIGN_OR_RETURN(const std::uint64_t any, context.comm.AllReduceMax(look.any ? 2 : look.unsure ? 1 : 0));
  if (any == 0) return false;
  if (any == 1) {
    LZY_RETURN_IF_ERROR(RehomeAll(context, dataset, names));
    return false;
  }
  Job dry = job;
  dry.dry_run = true;
  DatasetReport seen(dataset.path, dataset.kind);
  bool met_commit = false;
  seen.status = RunOnce(context, dataset, dry, seen, met_commit);
  const bool fails = !seen.status.ok() || seen.state == DatasetState::kUnprotected ||
                     (seen.state == DatasetState::kUnrepairable && !job.request.salvage) ||
                     (seen.state == DatasetState::kStale && !job.request.force);
  if (fails && !met_commit) {
    report = std::move(seen);
    return true;
  }
  LZY_RETURN_IF_ERROR(RehomeAll(context, dataset, names));
  return false;
}

// The whole sequence. A plain restore of lost members first tries RestoreLostMembers. `met_commit`: a reader found
// differences, or could not read, because another process commits; the report has the differences.
Status RunOnce(const Context& context, const DatasetRef& dataset, const Job& job, DatasetReport& report, bool& met_commit) {
  const bool write = job.writes();
  if (write) {
    LZY_ASSIGN_OR_RETURN(const bool left, GiveSidecarsNames(context, dataset, job, report));
    if (left) return report.status;
  }
  auto opened = OpenDataset(context, dataset, {write, job.placing, job.lost});
  met_commit = !write && opened.status().code() == Code::kBusy;
  if (!opened.ok()) return opened.status();
  DatasetView view = std::move(opened).value();
  if (job.leave_written && LeaveForLater(view, report)) return Status::Ok();
  if (!job.parts_left.empty()) LeaveMissingParts(job.parts_left, view);
  if (job.request.create_missing) ReportPlaces(view, report);
  if (view.committed && write && job.IsPlainRestore() && dataset.kind == DatasetKind::kSet) {
    LZY_ASSIGN_OR_RETURN(const bool restored, RestoreLostMembers(context, dataset, view, job, report));
    if (restored) return Status::Ok();
  }
  if (!view.committed) {
    LZY_ASSIGN_OR_RETURN(const bool adopted, Adopt(context, dataset, job, view, report));
    if (adopted) return RunOnce(context, dataset, AfterAdopting(job), report, met_commit);
    if (!write) {
      LZY_ASSIGN_OR_RETURN(met_commit, CommittedMeanwhile(context, view));
    }
    DescribeMetadata(view, report);
    if (report.state == DatasetState::kAtRisk || met_commit) return Status::Ok();
    LZY_RETURN_IF_ERROR(RefuseIfRotten(context, dataset));
    if (!view.unusable.ok()) return view.unusable;
    return {Code::kUnprotected, fmt::format("{}: no sidecar", dataset.path)};
  }
  StampRenewal stamps(context, view);
  if (write) LZY_RETURN_IF_ERROR(AgreeOn(context.comm, [&] { stamps.Begin(); }));
  auto examined = ExamineAsAsked(context, view, job, report);
  if (!write && examined.status().code() == Code::kBusy) {
    LZY_ASSIGN_OR_RETURN(met_commit, CommittedMeanwhile(context, view));
  }
  if (!examined.ok()) return examined.status();
  Findings findings = std::move(examined).value();
  if (std::ranges::any_of(view.files(), [](const FileView& file) { return file.identity.has_free_sidecar; })) {
    LZY_ASSIGN_OR_RETURN(const bool adopted, Adopt(context, dataset, job, view, report));
    if (adopted) return RunOnce(context, dataset, AfterAdopting(job), report, met_commit);
  }
  LZY_RETURN_IF_ERROR(RecognizeRot(context, view, findings));
  LZY_RETURN_IF_ERROR(EncodeAgain(context, view, job, findings, report));
  RepairRequest request = job.request;
  ReplicaPlace place{.path = job.replica, .ranks = job.ranks, .force = request.force};
  if (!job.replica.empty()) {
    LZY_RETURN_IF_ERROR(LookInReplica(context, view, job, place, findings, report));
    request.replica = &place;
  }
  if (view.IsPartial()) request.devices.clear();  // it is not known whether they can be rebuilt
  LZY_RETURN_IF_ERROR(JudgeFindings(context, view, findings, request, report));
  if (write && view.IsPartial()) return Status::Ok();
  LZY_RETURN_IF_ERROR(WarnOfRefusedEdits(context, view, report));
  if (!write) {
    if (!job.replica.empty()) {
      LZY_ASSIGN_OR_RETURN(const RepairPlan plan, PlanRepair(view, findings, request));
      if (!plan.beyond || request.salvage) report.from_replica = BytesFromReplica(plan);
    }
    if (report.state != DatasetState::kIntact) {
      LZY_ASSIGN_OR_RETURN(met_commit, CommittedMeanwhile(context, view));
      if (met_commit) return Status::Ok();
    }
    if (report.state == DatasetState::kIntact && (!job.portion || report.portion.whole())) {
      LZY_ASSIGN_OR_RETURN(report.stamps, NoteOfStamps(context, view));
      LZY_ASSIGN_OR_RETURN(const bool moved, HasMovedSidecar(context, dataset));
      if (moved) report.stamps = StampNote::kMoved;
    }
    if (request.force && !request.salvage && report.cannot_undo) return NothingReset(view);
    const bool intact = report.state == DatasetState::kIntact && report.damage.empty();
    return job.record_access && intact ? RecordAccess(context, dataset, write, view, report) : Status::Ok();
  }
  if (report.state == DatasetState::kIntact && report.damage.empty() && !RepairBrokeOff(view) && !PartsMoved(view)) {
    if (view.recovered) report.state = DatasetState::kRestored;
    LZY_ASSIGN_OR_RETURN(const bool taken, stamps.Finish());
    if (taken) report.stamps = StampNote::kTaken;
    return RecordAccess(context, dataset, write, view, report);
  }
  LZY_RETURN_IF_ERROR(RepairFound(context, view, findings, request, report));
  if (std::ranges::any_of(report.damage, IsWrongParity)) return MakeParityAgain(context, dataset, view, report);
  const bool same_sidecars = std::ranges::all_of(view.files(), &FileView::sidecar_usable);
  if (report.state != DatasetState::kRestored || !same_sidecars) return Status::Ok();
  // Files whose data were repaired are not as they were when they were read.
  for (const Damage& d : report.damage) {
    if (d.part == DamagePart::kData && !d.transient) stamps.Leave(d.path);
  }
  LZY_ASSIGN_OR_RETURN(const bool taken, stamps.Finish());
  if (taken) report.stamps = StampNote::kTaken;
  return Status::Ok();
}

// A reader that meets a commit reads once more. If it meets another commit, the report says only that.
Status Run(const Context& context, const DatasetRef& dataset, const Job& job, DatasetReport& report) {
  bool met_commit = false;
  Status status = RunOnce(context, dataset, job, report, met_commit);
  if (!met_commit) return status;
  report = DatasetReport(dataset.path, dataset.kind);
  status = RunOnce(context, dataset, job, report, met_commit);
  if (!met_commit) return status;
  ReportCommitUnderWay(report);
  report.left_for_later = job.leave_written;
  return Status::Ok();
}

// No exception leaves the engine. After an I/O error, tries once more without the missing parts of parity, if there are any.
// If that fails, too, reports the first error.
DatasetReport RunGuarded(const Context& context, const DatasetRef& dataset, const Job& job) {
  DatasetReport report(dataset.path, dataset.kind);
  Stopwatch watch;
  report.status = NoThrow([&] { return Run(context, dataset, job, report); });
  // A full replacement directory, for example, must not prevent the repair of data.
  const Code code = report.status.code();
  const bool parts_missing = std::ranges::any_of(report.damage, [](const Damage& damage) {
    return damage.part == DamagePart::kMetadata && damage.cause == DamageCause::kMissing;
  });
  if (job.writes() && (code == Code::kIo || code == Code::kWriteFailed) && dataset.kind == DatasetKind::kShared && parts_missing) {
    Job again = job;
    again.parts_left = fmt::format("{}; what is missing of the parity was not made again", report.status.message());
    DatasetReport second(dataset.path, dataset.kind);
    second.status = NoThrow([&] { return Run(context, dataset, again, second); });
    if (second.status.ok()) report = std::move(second);
  }
  // If nothing can be written, for example in a read-only snapshot, an intact dataset needs no repair.
  if (job.writes() && report.status.code() == Code::kIo && report.uuid.empty()) {  // it could not be opened
    Job look = job;
    look.repair = look.record_access = false;
    DatasetReport looked(dataset.path, dataset.kind);
    looked.status = NoThrow([&] { return Run(context, dataset, look, looked); });
    if (looked.status.ok() && looked.state == DatasetState::kIntact && looked.damage.empty()) report = std::move(looked);
  }
  report.phases.total = 0;
  watch.AddTo(report.phases.total);
  return report;
}

// RunGuarded with a replica. If only some ranks see a shared file, these restore it, and the others let them read the
// replica.
Status RunWithReplica(const Context& context, const DatasetRef& dataset, Job job, DatasetReport& report) {
  Communicator& comm = context.comm;
  std::vector<int> workers;
  if (dataset.kind == DatasetKind::kShared && comm.size() > 1) {
    bool sees = false;
    LZY_RETURN_IF_ERROR(AgreeOn(comm, [&] { sees = context.fs.Stat(dataset.path).ok() || FindSidecar(context.fs, dataset.path).ok(); }));
    LZY_ASSIGN_OR_RETURN(const auto all, AllGatherRecords(comm, sees));
    for (int rank = 0; rank < comm.size(); ++rank) {
      if (all[static_cast<std::size_t>(rank)]) workers.push_back(rank);
    }
  }
  if (workers.empty() || workers.size() == static_cast<std::size_t>(comm.size())) {
    RemoteRanks ranks(comm);
    job.ranks = &ranks;
    report = RunGuarded(context, dataset, job);
    return Status::Ok();
  }
  const bool works = std::ranges::find(workers, comm.rank()) != workers.end();
  LZY_ASSIGN_OR_RETURN(const auto inside, comm.Split(works ? 0 : -1));
  Status served;
  if (works) {
    RemoteRanks ranks(comm, workers[0]);
    job.ranks = &ranks;
    const Context of_workers{context.fs, *inside, context.options, context.progress, context.stop, context.share_page_cache};
    report = RunGuarded(of_workers, dataset, job);
    served = ranks.End();
  } else {
    served = RemoteRanks::Serve(context, workers[0]);
  }
  LZY_RETURN_IF_ERROR(served);
  return BroadcastRecord(comm, report, workers[0]);
}

}  // namespace

DatasetReport Verify(const Context& context, const DatasetRef& dataset, const VerifyRequest& request) {
  return RunGuarded(context, dataset,
                    {.from_disk = request.from_disk,
                     .repair = request.repair,
                     .request = {.force = request.force},
                     .portion = request.portion,
                     .encode = request.encode,
                     .leave_written = request.leave_written,
                     .record_access = request.record_access});
}

DatasetReport Restore(const Context& context, const DatasetRef& dataset, const RestoreRequest& request) {
  Job job;
  job.repair = true;
  job.dry_run = request.dry_run;
  job.placing = request.placing;
  job.lost = request.lost;
  job.lost.replaced = true;
  job.replica = request.replica;
  job.request.create_missing = true;
  job.request.force = request.force;
  job.request.salvage = request.salvage;
  job.request.devices.insert(request.devices.begin(), request.devices.end());
  if (job.replica.empty()) return RunGuarded(context, dataset, job);
  DatasetReport report(dataset.path, dataset.kind);
  const Status ran = NoThrow([&] { return RunWithReplica(context, dataset, job, report); });
  if (!ran.ok()) report.status = ran;
  return report;
}

}  // namespace lzy
