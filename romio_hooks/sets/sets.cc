#include "hooks/sets/sets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <limits>
#include <set>
#include <utility>

#include "comm/records.h"
#include "hooks/disk/set_pattern.h"
#include "hooks/epochs/check_commit.h"
#include "hooks/files/registry.h"
#include "hooks/files/settings.h"
#include "hooks/reports/commit_report.h"
#include "hooks/reports/messages.h"
#include "hooks/sets/healing.h"
#include "hooks/transfers/capturing.h"
#include "merkle/hash.h"
#include "mpi/mpi_communicator.h"
#include "mpi/versions.h"
#include "names/set_names.h"

namespace lzy::hooks {
namespace {

/// The name of the meeting at MPI_Finalize. It is empty, unlike any id of a set.
const std::string kFinalMeeting;

/// Index of the VersionVote's numbers in the first reduction.
constexpr std::size_t kVoteAt = 5;
/// Index of the number that says whether this rank announces members that are written without MPI-IO.
constexpr std::size_t kAnnouncesAt = 9;

/// The object, from Start to Finish. It is never destroyed.
constinit std::atomic<Sets*> instance{nullptr};

Status& VersionsStatus() {
  static auto& status = *new Status;
  return status;
}

/// Reports it on rank 0 if the ranks run different versions of lzy. False if these cannot communicate. Collective.
bool MayTalk(MPI_Comm comm, const VersionVote& least) {
  const Mixture mixture = JudgeVotes(least);
  if (mixture == Mixture::kSame) return true;
  int rank = 0;
  (void)PMPI_Comm_rank(comm, &rank);
  std::string versions;
  (void)NoThrow([&] { versions = DescribeVersions(comm, OwnVersion(), mixture); });
  const bool apart = mixture == Mixture::kApart;
  if (rank == 0) {
    Say(EnvironmentSettings().options, Options::Log::kWarn,
        apart ? fmt::format("the ranks run versions of lzy that do not understand each other: {}; nothing is protected. Install one version "
                            "on all nodes",
                            versions)
              : fmt::format("the ranks run different versions of lzy: {}; files are protected nevertheless. Install one version on all nodes",
                            versions));
  }
  return !apart;
}

using Named = std::map<std::string, std::string>;  // patterns by the id of the set
/// The decision of rank 0, and the pattern of the set as rank 0 has it.
enum class Decision : std::uint8_t {
  kNothing,  ///< no rank wrote anything
  kCommit,
  kLater,    ///< a member that is written without MPI-IO is being written again, or is gone: it will be announced again
};
using Verdict = std::pair<Decision, std::string>;

// A hash of the patterns that does not depend on their order. Not negative, because Start also reduces its negation.
int FingerprintOf(std::vector<std::string> patterns) {
  std::sort(patterns.begin(), patterns.end());
  std::uint32_t start = 0;
  const Hash hash = HashBytes(HashTag::kInfo, 0, EncodeRecord(patterns));
  std::memcpy(&start, hash.bytes.data(), sizeof(start));
  return static_cast<int>(start & std::numeric_limits<int>::max());
}

}  // namespace

struct Sets::Arrival {
  enum class State : std::uint8_t { kUntouched, kTouched, kGone, kFailed, kLater };
  State state = State::kUntouched;
  std::string text;  ///< reason for kFailed

  // The fields from here on stay on this rank.
  EpochPart part;           ///< for the commit
  Rendezvous::Bytes bytes;  ///< encoded, for the meeting

  LZY_FIELDS(state, text)
  static Arrival Of(ByteSpan bytes) {
    auto arrival = DecodeRecord<Arrival>(bytes);
    // A rank that ran out of memory brings nothing.
    return arrival.ok() ? std::move(*arrival) : Arrival{State::kFailed, "out of memory", EpochPart(), {}};
  }
};

/// Waits until all meetings that succeeded before this one have been dealt with, and says at its end that this one has. So
/// all ranks make the collective calls of different sets in the same order. `number`: Outcome::turn; 0: no turn.
class Sets::Turn {
 public:
  Turn(Turns& turns, std::uint64_t number) : turns_(turns), number_(number) {
    if (number_ == 0) return;
    std::unique_lock lock(turns_.mutex);
    turns_.changed.wait(lock, [&] { return turns_.done + 1 == number_; });
  }
  ~Turn() {
    if (number_ == 0) return;
    {
      const std::lock_guard lock(turns_.mutex);
      turns_.done = number_;
    }
    turns_.changed.notify_all();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Turns& turns_;
  const std::uint64_t number_;
};

const Status& Sets::Versions() {
  return VersionsStatus();
}

void Sets::Start(const PlainCalls& plain) {
  if (instance.load() != nullptr) return;
  MPI_Comm comm = MPI_COMM_NULL;
  if (PMPI_Comm_dup(MPI_COMM_WORLD, &comm) != MPI_SUCCESS) return;
  PMPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  Sets* made = nullptr;
  bool checks_reads = false;
  bool heals = false;
  bool announces = false;
  int declared = 0;
  const Status mine = NoThrow([&] {
    const Settings& environment = EnvironmentSettings();
    checks_reads = environment.status.ok() && environment.options.verify_reads;
    heals = environment.status.ok() && environment.options.heal;
    declared = FingerprintOf(environment.options.set);
    announces = environment.status.ok() && AnnouncesMembers(environment.options);
    // The engine's collectives get a communicator of their own, so the messages of meetings cannot mix with them.
    auto world = MpiCommunicator(comm);
    if (!world.ok()) return world.status();
    (*world)->SetTopology(environment.options.topology);
    (*world)->SetExchange(environment.options.exchange);
    made = new Sets(comm, std::move(*world));
    return Status::Ok();
  });
  // One reduction gives all ranks the same answers: whether all succeeded, which options all environments request, and
  // whether all have the same version. A number is the same on all ranks if its minimum and maximum (by its negation) are
  // equal. This is the first message of a job, and ranks may have different versions. So it has these 16 numbers in all
  // versions, for ever. The numbers from 10 on are not used and 0.
  const VersionVote vote = VoteOf(OwnVersion());
  std::array<int, 16> have = {mine.ok() ? 1 : 0, checks_reads ? 1 : 0, heals ? 1 : 0, declared, -declared};
  std::ranges::copy(vote, have.begin() + kVoteAt);
  have[kAnnouncesAt] = announces ? 1 : 0;
  std::array<int, 16> all{};
  const bool told = PMPI_Allreduce(have.data(), all.data(), static_cast<int>(all.size()), MPI_INT, MPI_MIN, comm) == MPI_SUCCESS;
  VersionVote least = vote;
  if (told) std::copy_n(all.begin() + kVoteAt, least.size(), least.begin());
  if (!MayTalk(comm, least)) {
    VersionsStatus() = Status(Code::kIo, "the ranks run versions of lzy that do not understand each other");
  } else if (told && all[0] != 0) {
    made->all_check_reads_ = all[1] != 0;
    made->declared_alike_ = all[3] == -all[4];
    if (all[kAnnouncesAt] != 0 && made->declared_alike_) {
      // Without memory for it, members are committed in their close, and ranks may wait for each other.
      (void)NoThrow([&] {
        made->announcements_ = new Announcements(comm, EnvironmentSettings().options.timeout_seconds, plain.may_use_threads(),
                                                 plain.commit, plain.make_member);
      });
    }
    made->all_heal_ = all[2] != 0 && made->declared_alike_;
    if (all[2] != 0 && !made->declared_alike_ && made->rank() == 0) {
      Say(EnvironmentSettings().options, Options::Log::kWarn,
          "LZY_SET is not the same on all ranks, so its sets are not healed");
    }
    instance.store(made);
    return;
  }
  // A rank failed. Every rank has a communicator to free, in one of two places.
  if (!mine.ok()) Say("file sets cannot be protected", mine.message().c_str());
  if (made != nullptr) {
    made->Close();  // frees `comm`
  } else {
    PMPI_Comm_free(&comm);
  }
}

Sets* Sets::Get() {
  return instance.load();
}

void Sets::Heal() {
  if (!all_heal_) return;
  std::vector<std::string> patterns;
  const Status known = AgreeOn(*world_, [&] {
    const Settings& environment = EnvironmentSettings();
    for (const std::string& pattern : environment.options.set) {
      patterns.push_back(pattern.starts_with('/') ? pattern : JoinPath(EscapePercent(environment.directory), pattern));
    }
  });
  if (known.ok()) HealSets(*world_, patterns);
}

// A member that is closed after this stays at risk, because Get() is null then.
void Sets::Finish() {
  Sets* const sets = instance.load();
  if (sets == nullptr) return;
  sets->CommitPending();
  // No rank waits for the drains of other ranks.
  Drains drains = std::move(sets->drains_);
  instance.store(nullptr);
  sets->Close();
  drains.Finish(EnvironmentSettings().options);
}

Sets::Sets(MPI_Comm comm, std::unique_ptr<Communicator> world)
    : comm_(comm),
      world_(std::move(world)),
      rank_(static_cast<std::uint32_t>(world_->rank())),
      size_(world_->size()),
      rendezvous_(std::make_unique<Rendezvous>(comm)) {}

void Sets::Close() {
  rendezvous_.reset();
  world_.reset();
  PMPI_Comm_free(&comm_);
}

// --------------------------------------------------------------------------------------------------- At sync and close

// Runs on rank 0. One failed member stops the commit, because parity needs all of them. If the files of some ranks are
// gone, nothing is committed either. If the files of all ranks are gone, the program has removed the set; that is no
// failure.
Result<Rendezvous::Bytes> Sets::DecideCommit(const std::vector<Rendezvous::Bytes>& brought,
                                             const std::string& pattern) {
  std::set<int> gone;
  bool touched = false;
  bool later = false;
  for (std::size_t rank = 0; rank < brought.size(); ++rank) {
    const Arrival arrival = Arrival::Of(brought[rank]);
    if (arrival.state == Arrival::State::kFailed) {
      return {Code::kIo, fmt::format("rank {}: {}", rank, arrival.text)};
    }
    if (arrival.state == Arrival::State::kGone) gone.insert(static_cast<int>(rank));
    touched |= arrival.state == Arrival::State::kTouched;
    later |= arrival.state == Arrival::State::kLater;
  }
  if (later) return EncodeRecord(Verdict(Decision::kLater, pattern));
  if (!gone.empty() && gone.size() < brought.size()) {
    return {Code::kNotFound, fmt::format("the files of {} were removed or renamed while they were open", RankList(gone))};
  }
  return EncodeRecord(Verdict(touched ? Decision::kCommit : Decision::kNothing, pattern));
}

// Prepares the part of this rank, before the meeting. After an error the rank still joins the meeting and reports the
// error, so no rank waits for it.
void Sets::Arrive(OpenFile& file, Moment moment, bool data_safe, Arrival& mine) {
  EpochPart& part = mine.part;
  if (file.options.verify_writes) RestoreEnd(file);
  part = TakePart(file, moment, data_safe, file.failed.ok(), IntervalsEach(size()));
  if (part.Touched()) mine.state = Arrival::State::kTouched;
  Status local = file.failed;
  if (local.ok() && !data_safe) local = {Code::kIo, fmt::format("{}: its data could not be synced", file.path)};
  if (local.ok() && part.presence != EpochPart::Presence::kThere) {
    // A member that was renamed while it was open is no longer a member, because its name contains the rank. Its sidecar
    // stays: it has parity that the others need, and an intent that covers the writes. The file is found by its stamp.
    mine.state = Arrival::State::kGone;
    if (part.presence == EpochPart::Presence::kMoved && !file.plain) {
      SayOnce(file.options, Options::Log::kWarn, file.path, "moved",
              fmt::format("{}: renamed to {} while it was open as a member of set {}: it is not committed, and stays at risk",
                          file.path, part.path, file.set->pattern));
    } else if (!PosixFileSystem().Stat(file.path, /*follow=*/false).ok()) {
      (void)Forget(PosixFileSystem(), file.path);
    }
  } else if (local.ok() && moment == Moment::kClose && part.Touched()) {
    local = SyncData(file.path);
  }
  const bool not_ready = part.open_elsewhere || mine.state == Arrival::State::kGone || local.code() == Code::kBusy;
  if (file.plain && not_ready) {
    mine.state = Arrival::State::kLater;
    file.not_ready = true;
  } else if (!local.ok()) {
    mine.state = Arrival::State::kFailed;
    mine.text = local.message();
  }
  mine.bytes = EncodeRecord(mine);
}

// Phases: this rank's part; the meeting; the collective commit and its check; after a failure, everything is marked as
// touched again, and the member is remembered for MPI_Finalize.
Status Sets::Commit(OpenFile& file, Moment moment, bool data_safe) {
  Arrival mine;
  // If Arrive throws, this rank still joins without a contribution, which DecideCommit treats as a failure.
  if (!NoThrow([&] { Arrive(file, moment, data_safe, mine); }).ok()) mine.state = Arrival::State::kFailed;
  const auto decide = [&](const std::vector<Rendezvous::Bytes>& brought) {
    return DecideCommit(brought, file.set->pattern);
  };
  const Rendezvous::Outcome met = rendezvous_->Meet(file.set->id, mine.bytes, file.options.timeout_seconds, decide);
  const Turn turn(turns_, met.turn);
  const std::lock_guard lock(mutex_);
  Status status = met.status;
  if (status.ok()) {
    // If the decision cannot be decoded here, this rank goes on into the collective commit, where the others wait for it.
    const auto verdict = DecodeRecord<Verdict>(met.decision);
    if (verdict.ok() && verdict->first == Decision::kLater) {
      // A member that is written with MPI-IO is not announced again.
      if (!file.plain) Untake(file);
      if (!file.plain && moment == Moment::kClose) Remember(file);
      return {Code::kBusy, "a member is being written again"};
    }
    if (verdict.ok() && verdict->first == Decision::kNothing) {
      // No rank wrote anything: the intent of the open is cleared, unless another handle may still write.
      if (moment == Moment::kClose && !mine.part.open_elsewhere && mine.state == Arrival::State::kUntouched) {
        TakeIntentBack(file);
      }
      return Status::Ok();
    }
    const std::string pattern = verdict.ok() ? verdict->second : std::string();
    const auto committed = CommitTogether(file, mine.part, Status::Ok(), pattern);
    status = committed.status();
    if (status.ok()) {
      pending_.erase(file.set->id);
      status = CheckTogether(file, pattern, *committed);
      // After kWriteFailed, rewritten blocks may be not committed.
      if (moment == Moment::kClose && !status.ok() && status.code() != Code::kWriteFailed) Remember(file);
      Drain(file.options, file.path);  // also after blocks were written again
      return status;
    }
    if (rank() == 0) ReportFailure(file.options, file.set->pattern, status, "set ");
  } else {
    ReportFailedMeeting(file, moment, met);
  }
  Untake(file);
  if (mine.part.open_elsewhere) Registry::Get().TouchWholeElsewhere(file);  // its commit must cover these writes
  // This includes a member that could not be protected since its open: that may be possible later. Without this entry,
  // MPI_Finalize would name this rank as missing.
  if (moment == Moment::kClose && mine.state != Arrival::State::kGone) Remember(file);
  return status;
}

void Sets::Postpone(OpenFile& file) {
  (void)Registry::Get().Leave(file);
  const std::lock_guard lock(mutex_);
  Remember(file);
}

void Sets::Remember(const OpenFile& file) {
  const std::lock_guard disk_lock(file.disk->mutex);
  const auto& start = file.disk->start;
  pending_[file.set->id] = {file.set->pattern, file.path, file.options,
                            start ? std::optional(MarkOf(start->intent)) : std::nullopt};
}

// Rank 0 reports for all ranks. Another rank reports only what rank 0 cannot know.
void Sets::ReportFailedMeeting(const OpenFile& file, Moment moment, const Rendezvous::Outcome& met) const {
  using Own = Rendezvous::Outcome::Own;
  if (rank() != 0 && met.own == Own::kNothing) return;
  const std::string why = met.own == Own::kCameLate
                              ? fmt::format("came late on rank {}: the others had given up", rank())
                              : met.status.message();
  Say(file.options, Options::Log::kWarn,
      fmt::format("set {}: {} {}; its members stay at risk until the next commit", file.set->pattern,
                  moment == Moment::kClose ? "close" : "sync", why));
}

// ProtectPatiently for a set. A commit without the member of some rank would be another set than the one that the program
// wrote.
DatasetReport Sets::Protect(Attempt& attempt, const Status& prepared) {
  DatasetReport report = ProtectPatiently(*world_, attempt, prepared);
  if (report.status.ok() && report.devices != static_cast<std::uint32_t>(size())) {
    report.status = {Code::kInternal, fmt::format("{} of {} members were committed", report.devices, size())};
  }
  return report;
}

// All ranks have promised to stay, so from here on calls are collective over world_. No rank may return before the last of
// them, even if it fails: a failure goes into `prepared`, on which Protect agrees.
Result<Sets::Committed> Sets::CommitTogether(OpenFile& file, const EpochPart& mine, const Status& prepared, const std::string& pattern) {
  // Each rank gets the parts of all, so all make the same request: which ranges of which member are touched, and which
  // intents this program has set.
  auto all = AllGatherRecords(*world_, mine);
  Attempt attempt;
  bool met_others = false;
  const Status ready = NoThrow([&] {
    LZY_RETURN_IF_ERROR(prepared);
    if (!all.ok()) return all.status();
    if (mine.open_elsewhere) Registry::Get().TouchWholeElsewhere(file);
    attempt.options = file.options;
    attempt.dataset = {.kind = DatasetKind::kSet, .path = pattern, .members = {{rank(), file.path}}};
    attempt.request.touched.emplace();
    std::vector<EpochPart>& parts = *all;
    attempt.request.own_intents = OwnIntents(parts);
    for (std::size_t r = 0; r < parts.size(); ++r) {
      EpochPart& theirs = parts[r];
      // Another handle of a member has written bytes that this handle does not know.
      theirs.cover_all |= theirs.open_elsewhere || MetOthers(theirs, *attempt.request.own_intents);
      if (r == rank()) met_others = MetOthers(theirs, *attempt.request.own_intents);
      if (!theirs.Touched() && !theirs.cover_all) continue;
      // A change of size counts as touched only if the rank wrote anything.
      theirs.touched.Add(theirs.resized);
      theirs.touched.Clip(theirs.size);
      if (theirs.cover_all) theirs.touched.AddWhole();
      (*attempt.request.touched)[static_cast<std::uint32_t>(r)] = std::move(theirs.touched);
    }
    // Other ranks may have come late, so another program may have written meanwhile.
    bool counts = mine.capture_counts && !met_others;
    if (counts && file.options.verify_writes) {
      const auto others = OthersWroteLast(file);
      counts = others.ok() && !*others;
    }
    if (counts) attempt.request.capture = mine.capture.get();
    FillFromEpoch(file, attempt.request);
    return Status::Ok();
  });
  DatasetReport report = Protect(attempt, ready);
  if (!report.status.ok()) return report.status;
  NoteTimes(file, report);
  file.handed_over.reset();  // from here on, the commit says what the file is
  // Each rank ends only the epoch of its own member.
  const auto stat = PosixFileSystem().Stat(file.path);
  EndEpoch(file, report.generation, stat.ok() ? stat->size : 0, met_others || report.kept_intents.contains(rank()));
  ExpectSameGeometry(file, report);
  if (file.usage) file.usage->NoteCommit(report);
  // Without verify-writes, a rank has not checked who wrote last.
  const bool checked = report.captures_count && file.options.verify_writes;
  Written written{attempt.dataset, std::move(*attempt.request.touched), report.generation,
                  checked ? attempt.request.capture : nullptr};
  return Committed{std::move(written), std::move(report)};
}

void Sets::Drain(const Options& options, const std::string& path) {
  if (options.drain.empty()) return;
  (void)NoThrow([&] {
    const auto to = DrainTarget(PosixFileSystem(), options.drain, EnvironmentSettings().directory, rank(), path);
    if (to) drains_.Begin(options, path, *to);
  });
}

// Option verify-writes. The options of ranks may differ, but all ranks come here and agree on whether to check. The commit
// stays valid, whatever is found.
Status Sets::CheckTogether(OpenFile& file, const std::string& pattern, const Committed& committed) {
  const auto wanted = world_->AllReduceMax(file.options.verify_writes);
  if (!wanted.ok() || *wanted == 0) {
    if (rank() == 0) ReportCommit(file.options, committed.report);
    return wanted.status();
  }
  const auto commit = [&]() -> Result<std::uint64_t> {
    EpochPart again;
    const Status prepared = NoThrow([&] {
      again = TakePart(file, Moment::kSync, true, /*look=*/true, IntervalsEach(size()));
      return again.Touched() ? SyncData(file.path) : Status::Ok();
    });
    LZY_ASSIGN_OR_RETURN(const Committed rewritten, CommitTogether(file, again, prepared, pattern));
    if (rank() == 0) ReportCommit(file.options, rewritten.report);
    return rewritten.written.generation;
  };
  const auto tell = [&](const UncomparedBytes& uncompared) {
    if (file.usage) file.usage->NoteUncompared(uncompared.total());
    if (rank() == 0) ReportCommit(file.options, committed.report, uncompared.total());
  };
  // With std::cref, the std::function allocates nothing, so no rank can fail here alone.
  return CheckCommit({.fs = PosixFileSystem(), .comm = *world_, .options = file.options}, committed.written,
                     {file, std::cref(commit), std::cref(tell)});
}

// -------------------------------------------------------------------------------------------------------- At the end

// The meeting at MPI_Finalize. If LZY_SET declares sets, all ranks come. Otherwise the ranks that opened a member come. If
// other ranks opened none, these ranks wait until the time-out.
void Sets::CommitPending() {
  const Options& options = EnvironmentSettings().options;
  // Sets are declared on all ranks, by LZY_SET or by hints at the open of members.
  const bool declared = !options.set.empty() && declared_alike_;
  Rendezvous::Bytes mine;
  {
    const std::lock_guard lock(mutex_);
    if (size() == 1 ? pending_.empty() : !declared && !members_seen_) return;
    // If this fails, the rank brings nothing, and DecidePending treats it as a rank without a member to commit.
    (void)NoThrow([&] { mine = ListPending(); });
  }
  const auto decide = [this](const std::vector<Rendezvous::Bytes>& brought) { return DecidePending(brought); };
  // Other ranks may come from a close in which they waited for twice the time-out.
  const double timeout = 3.0 * options.timeout_seconds;
  const Rendezvous::Outcome met = rendezvous_->Meet(kFinalMeeting, mine, timeout, decide);
  const Turn turn(turns_, met.turn);
  const std::lock_guard lock(mutex_);
  if (!met.status.ok()) {
    if (!pending_.empty() && (rank() == 0 || met.own != Rendezvous::Outcome::Own::kNothing)) {
      Say(options, Options::Log::kWarn,
          fmt::format("MPI_Finalize {}; sets that could not be committed stay at risk", met.status.message()));
    }
    return;
  }
  // All ranks are here: the calls are collective over world_ again.
  Named sets;
  const Status read = NoThrow([&] { return DecodeRecord(met.decision, sets); });
  if (!Agree(*world_, read).ok()) return;
  for (const auto& [id, pattern] : sets) CommitPendingSet(id, pattern);
}

Rendezvous::Bytes Sets::ListPending() const {
  // Sets are identified by id: a relative pattern gives different absolute ones if the working directories of ranks differ.
  Named named;
  for (const auto& [id, member] : pending_) named.emplace(id, member.pattern);
  return EncodeRecord(named);
}

// Runs on rank 0: returns the sets of which every rank has a member to commit. Reports the missing ranks of other sets. The
// map is ordered by id, so all ranks commit the sets in the same order.
Result<Rendezvous::Bytes> Sets::DecidePending(const std::vector<Rendezvous::Bytes>& brought) {
  std::map<std::string, std::pair<std::string, std::set<int>>> sets;
  for (std::size_t rank = 0; rank < brought.size(); ++rank) {
    const auto named = DecodeRecord<Named>(brought[rank]);
    if (!named.ok()) continue;  // the rank brought nothing
    for (const auto& [id, theirs] : *named) {
      auto& [pattern, ranks] = sets[id];
      if (pattern.empty()) pattern = theirs;
      ranks.insert(static_cast<int>(rank));
    }
  }
  Named named;
  for (const auto& [id, set] : sets) {
    const auto& [pattern, ranks] = set;
    std::set<int> missing;
    for (int rank = 0; rank < size(); ++rank) {
      if (!ranks.contains(rank)) missing.insert(rank);
    }
    if (missing.empty()) {
      named.emplace(id, pattern);
      continue;
    }
    Say(EnvironmentSettings().options, Options::Log::kWarn,
        fmt::format("set {}: never committed: {} did not close a member of it; the other members stay at risk", pattern,
                    RankList(missing)));
  }
  return EncodeRecord(named);
}

// Collective over world_. The touched ranges are no longer known, so all members are committed completely. The ranks
// exchange their intents, so that intents of other programs are kept.
void Sets::CommitPendingSet(const std::string& id, const std::string& pattern) {
  // After DecidePending, every rank has the member. If one does not, all ranks skip this set.
  const auto at = pending_.find(id);
  EpochPart mine;
  const Status noted = NoThrow([&] {
    if (at != pending_.end()) mine.intent = at->second.intent;
  });
  const auto all = AllGatherRecords(*world_, mine);
  Attempt attempt;
  const Status prepared = NoThrow([&]() -> Status {
    LZY_RETURN_IF_ERROR(noted);
    LZY_RETURN_IF_ERROR(all.status());
    if (at == pending_.end()) return {Code::kInternal, "no member of it is known here"};
    attempt.options = at->second.options;
    attempt.dataset = {.kind = DatasetKind::kSet, .path = pattern, .members = {{rank(), at->second.path}}};
    attempt.request.touched.emplace();
    for (std::uint32_t r = 0; r < static_cast<std::uint32_t>(size()); ++r) (*attempt.request.touched)[r].AddWhole();
    attempt.request.own_intents = OwnIntents(*all);
    return Status::Ok();
  });
  const DatasetReport report = Protect(attempt, prepared);
  if (report.status.ok() && at != pending_.end()) Drain(at->second.options, at->second.path);
  if (rank() != 0) return;
  (void)NoThrow([&] {  // more sets may follow
    const Options& options = at == pending_.end() ? EnvironmentSettings().options : at->second.options;
    if (options.summary && report.status.ok()) Usage::Of(pattern)->NoteCommit(report);
    ReportCommit(options, report);
    if (!report.status.ok()) ReportFailure(options, pattern, report.status, "set ");
  });
}

}  // namespace lzy::hooks
