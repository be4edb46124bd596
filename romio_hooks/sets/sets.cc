#include "hooks/sets/sets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>
#include <utility>

#include "hooks/epochs/check_commit.h"
#include "hooks/files/settings.h"
#include "hooks/reports/commit_report.h"
#include "hooks/reports/messages.h"
#include "hooks/sets/healing.h"
#include "merkle/hash.h"
#include "mpi/mpi_communicator.h"
#include "names/set_names.h"

namespace lzy::hooks {
namespace {

/// The meeting at MPI_Finalize; no set can have this name.
const std::string kFinalMeeting;
constexpr std::size_t kMostText = 65536;

FileSystem& Disk() {
  return PosixFileSystem();
}

std::unique_ptr<Sets>& Instance() {
  static auto& instance = *new std::unique_ptr<Sets>;
  return instance;
}

enum class Decision : std::uint8_t { kNothingWritten, kCommit };

// Not negative; the same for the same patterns, and hardly ever for others.
int FingerprintOf(std::vector<std::string> patterns) {
  std::sort(patterns.begin(), patterns.end());
  ByteWriter bytes;
  for (const std::string& pattern : patterns) bytes.PutString(pattern);
  std::uint32_t start = 0;
  const Hash hash = HashBytes(HashTag::kInfo, 0, bytes.bytes());
  std::memcpy(&start, hash.bytes.data(), sizeof(start));
  return static_cast<int>(start & std::numeric_limits<int>::max());
}

}  // namespace

struct Sets::Arrival {
  enum class State : std::uint8_t { kUntouched, kTouched, kGone, kFailed };
  State state = State::kUntouched;
  std::string text;  ///< of kFailed

  // Not brought to the meeting.
  bool open_elsewhere = false;
  Rendezvous::Bytes part;   ///< for the commit, encoded while nobody waits for it yet
  Rendezvous::Bytes bytes;  ///< what is brought

  void Put(ByteWriter& to) const {
    to.Put<std::uint8_t>(static_cast<std::uint8_t>(state));
    to.PutString(text);
  }
  static Arrival Get(ByteSpan bytes) {
    ByteReader from(bytes);
    Arrival arrival;
    arrival.state = static_cast<State>(from.Get<std::uint8_t>());
    arrival.text = from.GetString(kMostText);
    // A rank that had no memory to say what it wanted to.
    if (!from.ok()) {
      arrival.state = State::kFailed;
      arrival.text = "out of memory";
    }
    return arrival;
  }
};

void Sets::Start() {
  if (Instance()) return;
  MPI_Comm comm = MPI_COMM_NULL;
  if (PMPI_Comm_dup(MPI_COMM_WORLD, &comm) != MPI_SUCCESS) return;
  PMPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  std::unique_ptr<Sets> made;
  bool checks_reads = false;
  bool heals = false;
  int declared = 0;
  const Status mine = NoThrow([&] {
    const Settings& environment = EnvironmentSettings();
    checks_reads = environment.status.ok() && environment.options.verify_reads;
    heals = environment.status.ok() && environment.options.heal;
    declared = FingerprintOf(environment.options.set);
    auto world = MpiCommunicator(comm);
    if (!world.ok()) return world.status();
    (*world)->SetTopology(environment.options.topology);
    made = std::make_unique<Sets>(comm, std::move(*world));
    return Status::Ok();
  });
  // All ranks meet, or none does.
  int have[5] = {mine.ok() ? 1 : 0, checks_reads ? 1 : 0, heals ? 1 : 0, declared, -declared};
  int all[5] = {0, 0, 0, 0, 0};
  if (PMPI_Allreduce(have, all, 5, MPI_INT, MPI_MIN, comm) == MPI_SUCCESS && all[0] != 0) {
    made->all_check_reads_ = all[1] != 0;
    made->declared_alike_ = all[3] == -all[4];
    made->all_heal_ = all[2] != 0 && made->declared_alike_;
    if (all[2] != 0 && !made->declared_alike_ && made->rank() == 0) {
      Say(EnvironmentSettings().options, Options::Log::kWarn, "LZY_SET is not the same on all ranks: no set of it is healed");
    }
    Instance() = std::move(made);
    return;
  }
  if (!mine.ok()) Say("file sets cannot be protected", mine.message().c_str());
  if (made) {
    made.reset();  // frees `comm`
  } else {
    PMPI_Comm_free(&comm);
  }
}

Sets* Sets::Get() {
  return Instance().get();
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

void Sets::Finish() {
  if (!Instance()) return;
  Instance()->CommitPending();
  Instance().reset();
}

Sets::Sets(MPI_Comm comm, std::unique_ptr<Communicator> world)
    : comm_(comm), world_(std::move(world)), rendezvous_(comm) {}

Sets::~Sets() {
  world_.reset();
  PMPI_Comm_free(&comm_);
}

// --------------------------------------------------------------------------------------------------- At sync and close

Result<Rendezvous::Bytes> Sets::DecideCommit(const std::vector<Rendezvous::Bytes>& brought,
                                             const std::string& pattern) {
  std::set<int> gone;
  bool touched = false;
  for (std::size_t rank = 0; rank < brought.size(); ++rank) {
    const Arrival arrival = Arrival::Get(brought[rank]);
    if (arrival.state == Arrival::State::kFailed) {
      return {Code::kIo, fmt::format("rank {}: {}", rank, arrival.text)};
    }
    if (arrival.state == Arrival::State::kGone) gone.insert(static_cast<int>(rank));
    touched |= arrival.state == Arrival::State::kTouched;
  }
  if (!gone.empty() && gone.size() < brought.size()) {
    return {Code::kNotFound, fmt::format("the files of {} were removed or renamed while they were open", RankList(gone))};
  }
  ByteWriter writer;
  writer.Put<std::uint8_t>(static_cast<std::uint8_t>(touched ? Decision::kCommit : Decision::kNothingWritten));
  writer.PutString(pattern);
  return std::move(writer.bytes());
}

// This rank's own part, before anybody waits for it.
void Sets::Arrive(OpenFile& file, Moment moment, bool data_safe, Arrival& mine) {
  const Part part = TakePart(file, moment, data_safe, file.failed.ok(), IntervalsEach(size()));
  mine.open_elsewhere = part.open_elsewhere;
  if (part.Touched()) mine.state = Arrival::State::kTouched;
  Status local = file.failed;
  if (local.ok() && !data_safe) local = {Code::kIo, fmt::format("{}: its data could not be synced", file.path)};
  if (local.ok() && part.presence != Part::Presence::kThere) {
    // A member that was renamed while open is no member any more: its name says what it is. Its sidecar stays, since it has
    // parity that the others need and an intent that says what was written; it is found by the file's stamp.
    mine.state = Arrival::State::kGone;
    if (part.presence == Part::Presence::kMoved) {
      SayOnce(file.options, Options::Log::kWarn, file.path, "moved",
              fmt::format("{}: renamed to {} while it was open as a member of set {}: it is not committed, and stays at risk",
                          file.path, part.path, file.set->pattern));
    } else if (!Disk().Stat(file.path, /*follow=*/false).ok()) {
      (void)Forget(Disk(), file.path);
    }
  } else if (local.ok() && moment == Moment::kClose && part.Touched()) {
    local = SyncData(file.path);
  }
  if (!local.ok()) {
    mine.state = Arrival::State::kFailed;
    mine.text = local.message();
  }
  ByteWriter for_commit;
  part.Put(for_commit);
  mine.part = std::move(for_commit.bytes());
  ByteWriter writer;
  mine.Put(writer);
  mine.bytes = std::move(writer.bytes());
}

Status Sets::Commit(OpenFile& file, Moment moment, bool data_safe) {
  const std::lock_guard lock(mutex_);
  Arrival mine;
  // Should it fail, nothing is brought, which says so.
  if (!NoThrow([&] { Arrive(file, moment, data_safe, mine); }).ok()) mine.state = Arrival::State::kFailed;
  const auto decide = [&](const std::vector<Rendezvous::Bytes>& brought) {
    return DecideCommit(brought, file.set->pattern);
  };
  const Rendezvous::Outcome met = rendezvous_.Meet(file.set->id, mine.bytes, file.options.timeout_seconds, decide);
  Status status = met.status;
  if (status.ok()) {
    if (!met.decision.empty() && met.decision.front() == static_cast<std::uint8_t>(Decision::kNothingWritten)) {
      if (moment == Moment::kClose && !mine.open_elsewhere && mine.state == Arrival::State::kUntouched) {
        TakeIntentBack(file);
      }
      return Status::Ok();
    }
    Written written;
    status = CommitTogether(file, mine, met.decision, written);
    if (status.ok()) {
      pending_.erase(file.set->id);
      return CheckTogether(file, written);
    }
    if (rank() == 0) TellOfFailure(file.options, file.set->pattern, status, "set ");
  } else {
    TellOfFailedMeeting(file, moment, met);
  }
  Untake(file);
  // Also what could not be protected so far: the trouble may be over by then, and nobody is called missing who came.
  if (moment == Moment::kClose && mine.state != Arrival::State::kGone) {
    const std::lock_guard disk_lock(file.disk->mutex);
    const auto& start = file.disk->start;
    pending_[file.set->id] = {file.set->pattern, file.path, file.options,
                              start ? std::optional(start->intent) : std::nullopt};
  }
  return status;
}

// Rank 0 speaks for all, but for those that it cannot know of.
void Sets::TellOfFailedMeeting(const OpenFile& file, Moment moment, const Rendezvous::Outcome& met) const {
  using Own = Rendezvous::Outcome::Own;
  if (rank() != 0 && met.own == Own::kNothing) return;
  const std::string why = met.own == Own::kCameLate
                              ? fmt::format("came late on rank {}: the others had given up", rank())
                              : met.status.message();
  Say(file.options, Options::Log::kWarn,
      fmt::format("set {}: {} {}; its members stay at risk until the next commit", file.set->pattern,
                  moment == Moment::kClose ? "close" : "sync", why));
}

// A set that leaves out the member of a rank is not the set that the program wrote.
DatasetReport Sets::Protect(Attempt& attempt, const Status& prepared) {
  DatasetReport report = ProtectPatiently(*world_, attempt, prepared);
  if (report.status.ok() && report.devices != static_cast<std::uint32_t>(size())) {
    report.status = {Code::kInternal, fmt::format("{} of {} members were committed", report.devices, size())};
  }
  return report;
}

// All ranks are here, and nobody leaves: from now on the calls are collective over world_.
Status Sets::CommitTogether(OpenFile& file, const Arrival& mine, const Rendezvous::Bytes& decision, Written& written) {
  const auto all = world_->AllGather(mine.part);
  Attempt attempt;
  bool met_others = false;
  const Status prepared = NoThrow([&] {
    if (!all.ok()) return all.status();
    ByteReader reader(decision);
    (void)reader.Get<std::uint8_t>();
    attempt.options = file.options;
    attempt.dataset = {
        .kind = DatasetKind::kSet, .path = reader.GetString(kMostText), .members = {{rank(), file.path}}};
    attempt.request.touched.emplace();
    std::vector<Part> parts;
    for (const auto& bytes : *all) {
      ByteReader from(bytes);
      parts.push_back(Part::Get(from));
    }
    attempt.request.own_intents = OwnIntents(parts);
    for (std::size_t r = 0; r < parts.size(); ++r) {
      Part& theirs = parts[r];
      theirs.cover_all |= MetOthers(theirs, *attempt.request.own_intents);
      if (r == rank()) met_others = MetOthers(theirs, *attempt.request.own_intents);
      if (!theirs.Touched() && !theirs.cover_all) continue;
      theirs.touched.Add(theirs.resized);
      (*attempt.request.touched)[static_cast<std::uint32_t>(r)] =
          theirs.cover_all ? Touched{} : ToTouched(theirs.touched, theirs.size);
    }
    return Status::Ok();
  });
  const DatasetReport report = Protect(attempt, prepared);
  if (!report.status.ok()) return report.status;
  const auto stat = Disk().Stat(file.path);
  EndEpoch(file, report.generation, stat.ok() ? stat->size : 0, met_others || report.kept_intents.contains(rank()));
  if (file.usage) file.usage->NoteCommit(report);
  if (rank() == 0) TellOfCommit(file.options, report);
  written.dataset = attempt.dataset;
  written.touched = std::move(*attempt.request.touched);
  written.generation = report.generation;
  return report.status;
}

// Ranks may have options of their own, but all come here. The commit stands, whatever comes out. Nothing of members is captured,
// so that nothing can be written again.
Status Sets::CheckTogether(const OpenFile& file, const Written& written) {
  LZY_ASSIGN_OR_RETURN(const std::uint64_t wanted, world_->AllReduceMax(file.options.verify_writes));
  if (wanted == 0) return Status::Ok();
  return CheckCommit({.fs = Disk(), .comm = *world_, .options = file.options}, written,
                     [](const WrittenCheck&, Written&) { return false; });
}

// -------------------------------------------------------------------------------------------------------- At the end

void Sets::CommitPending() {
  const std::lock_guard lock(mutex_);
  const Options& options = EnvironmentSettings().options;
  // Whoever has declared sets says so on all ranks, by LZY_SET or by hints at open.
  const bool declared = !options.set.empty() && declared_alike_;
  if (size() == 1 ? pending_.empty() : !declared && !members_seen_) return;
  Rendezvous::Bytes mine;
  (void)NoThrow([&] { mine = ListPending(); });  // nothing is none
  const auto decide = [this](const std::vector<Rendezvous::Bytes>& brought) { return DecidePending(brought); };
  // Others may come straight from a close that waited as long as closes do, twice the time-out.
  const double timeout = 3.0 * options.timeout_seconds;
  const Rendezvous::Outcome met = rendezvous_.Meet(kFinalMeeting, mine, timeout, decide);
  if (!met.status.ok()) {
    if (!pending_.empty() && (rank() == 0 || met.own != Rendezvous::Outcome::Own::kNothing)) {
      Say(options, Options::Log::kWarn,
          fmt::format("MPI_Finalize {}; sets that could not be committed stay at risk", met.status.message()));
    }
    return;
  }
  // All ranks are here: the calls are collective over world_ again.
  std::vector<std::pair<std::string, std::string>> sets;
  const Status read = NoThrow([&] {
    ByteReader reader(met.decision);
    const auto count = reader.Get<std::uint32_t>();
    for (std::uint32_t i = 0; i < count && reader.ok(); ++i) {
      std::string id = reader.GetString(kMostText);
      sets.emplace_back(std::move(id), reader.GetString(kMostText));
    }
  });
  if (!Agree(*world_, read).ok()) return;
  for (const auto& [id, pattern] : sets) CommitPendingSet(id, pattern);
}

Rendezvous::Bytes Sets::ListPending() const {
  ByteWriter writer;
  writer.Put<std::uint32_t>(static_cast<std::uint32_t>(pending_.size()));
  for (const auto& [id, member] : pending_) {
    writer.PutString(id);
    writer.PutString(member.pattern);
  }
  return std::move(writer.bytes());
}

// The sets that every rank has a member of to commit, by id: the list is in the same order everywhere.
Result<Rendezvous::Bytes> Sets::DecidePending(const std::vector<Rendezvous::Bytes>& brought) {
  std::map<std::string, std::pair<std::string, std::set<int>>> sets;
  for (std::size_t rank = 0; rank < brought.size(); ++rank) {
    ByteReader reader(brought[rank]);
    const auto count = reader.Get<std::uint32_t>();
    for (std::uint32_t i = 0; i < count && reader.ok(); ++i) {
      const std::string id = reader.GetString(kMostText);
      auto& [pattern, ranks] = sets[id];
      std::string theirs = reader.GetString(kMostText);
      if (pattern.empty()) pattern = std::move(theirs);
      ranks.insert(static_cast<int>(rank));
    }
  }
  for (auto at = sets.begin(); at != sets.end();) {
    const auto& [pattern, ranks] = at->second;
    std::set<int> missing;
    for (int rank = 0; rank < size(); ++rank) {
      if (!ranks.contains(rank)) missing.insert(rank);
    }
    if (missing.empty()) {
      ++at;
      continue;
    }
    Say(EnvironmentSettings().options, Options::Log::kWarn,
        fmt::format("set {}: never committed: {} did not close a member of it; the other members stay at risk", pattern,
                    RankList(missing)));
    at = sets.erase(at);
  }
  ByteWriter writer;
  writer.Put<std::uint32_t>(static_cast<std::uint32_t>(sets.size()));
  for (const auto& [id, set] : sets) {
    writer.PutString(id);
    writer.PutString(set.first);
  }
  return std::move(writer.bytes());
}

void Sets::CommitPendingSet(const std::string& id, const std::string& pattern) {
  const auto at = pending_.find(id);
  Rendezvous::Bytes part;
  Status local = NoThrow([&] {
    Part mine;
    if (at != pending_.end()) mine.intent = at->second.intent;
    ByteWriter writer;
    mine.Put(writer);
    part = std::move(writer.bytes());
  });
  const auto all = world_->AllGather(part);
  Attempt attempt;
  if (local.ok()) {
    local = NoThrow([&] {
      if (!all.ok()) return all.status();
      if (at == pending_.end()) return Status(Code::kInternal, "no member of it is known here");
      attempt.options = at->second.options;
      attempt.dataset = {.kind = DatasetKind::kSet, .path = pattern, .members = {{rank(), at->second.path}}};
      attempt.request.touched.emplace();
      for (std::uint32_t r = 0; r < static_cast<std::uint32_t>(size()); ++r) (*attempt.request.touched)[r] = Touched{};
      std::vector<Part> parts;
      for (const auto& bytes : *all) {
        ByteReader from(bytes);
        parts.push_back(Part::Get(from));
      }
      attempt.request.own_intents = OwnIntents(parts);
      return Status::Ok();
    });
  }
  const DatasetReport report = Protect(attempt, local);
  if (rank() != 0) return;
  (void)NoThrow([&] {  // more sets may follow
    const Options& options = at == pending_.end() ? EnvironmentSettings().options : at->second.options;
    if (options.summary && report.status.ok()) Usage::Of(pattern)->NoteCommit(report);
    TellOfCommit(options, report);
    if (!report.status.ok()) TellOfFailure(options, pattern, report.status, "set ");
  });
}

}  // namespace lzy::hooks
