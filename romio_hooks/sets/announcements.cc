#include "hooks/sets/announcements.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "hooks/files/registry.h"
#include "hooks/files/settings.h"
#include "hooks/reports/messages.h"
#include "hooks/sets/rendezvous.h"
#include "sidecar/names.h"
#include "storage/parallel.h"
#include "transport/beside.h"

namespace lzy::hooks {
namespace {

using LookPause = std::chrono::milliseconds;
/// Between looks at messages: the shortest after something happened, then twice as long each time.
constexpr LookPause kShortestPause{1};
constexpr LookPause kLongestPause{20};
constexpr LookPause kPauseInFinalize{5};
/// After a call that came too early: until the ranks that were not ready have said so.
constexpr LookPause kAfterTooEarly{50};
/// In MPI_Finalize, a set whose members still change after so many calls is given up.
constexpr int kMostTooEarly = 20;
/// How long MPI_Finalize waits until its last messages have left.
constexpr LookPause kToSend{2000};
/// MPI_Finalize waits for this many times option timeout: ranks may come from a commit that took twice as long.
constexpr double kPatience = 3;

std::chrono::steady_clock::duration Seconds(double seconds) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

Announcements::Announcements(MPI_Comm comm, double timeout_seconds, bool threads, Commit commit, MakeMember make_member)
    : comm_(comm), outbox_(comm, kTag), timeout_seconds_(timeout_seconds), threads_(threads), commit_(std::move(commit)), make_member_(std::move(make_member)) {
  PMPI_Comm_rank(comm_, &rank_);
  PMPI_Comm_size(comm_, &size_);
}

// ------------------------------------------------------------------------------------------------ Called by the program

void Announcements::Opens(const SetName& set) {
  {
    std::unique_lock lock(mutex_);
    // The entry may be removed meanwhile.
    changed_.wait(lock, [&] {
      const auto at = members_.find(set.id);
      return BesideProgram::Interrupted() || at == members_.end() || !at->second.committing;
    });
    Member& member = members_[set.id];
    member.set = set;
    ++member.writers;
  }
  StartThread();
}

bool Announcements::Complete(const std::shared_ptr<OpenFile>& file, bool changed) {
  std::shared_ptr<OpenFile> replaced;  // destroyed after the lock is released
  bool waits = false;
  {
    const std::lock_guard lock(mutex_);
    Member& member = members_[file->set->id];
    member.set = *file->set;
    member.writers = std::max(member.writers - 1, 0);
    if (changed) {
      replaced = std::exchange(member.file, file);
      if (replaced) (void)Registry::Get().Leave(*replaced);
      member.complete = true;
      member.announced = false;
    }
    waits = member.complete;
  }
  changed_.notify_all();
  return waits;
}

bool Announcements::Withdraw(const std::string& id, bool done) {
  std::shared_ptr<OpenFile> replaced;
  bool waited = false;
  {
    const std::lock_guard lock(mutex_);
    Member& member = members_[id];
    member.writers = std::max(member.writers - 1, 0);
    if (done) {
      replaced = std::exchange(member.file, nullptr);
      waited = std::exchange(member.complete, false);
    }
    if (replaced) (void)Registry::Get().Leave(*replaced);
  }
  changed_.notify_all();
  return waited;
}

bool Announcements::Await(const std::string& path, std::optional<std::chrono::duration<double>> patience) {
  const auto rank = static_cast<std::uint32_t>(rank_);
  std::unique_lock lock(mutex_);
  const auto none = [&] {
    return BesideProgram::Interrupted() || std::ranges::none_of(members_, [&](const auto& one) {
      const Member& member = one.second;
      return (member.complete || member.committing) && (path.empty() || ExpandPattern(member.set.pattern, rank) == path);
    });
  };
  if (!threads_ || finishing_) return none();
  if (patience) return changed_.wait_for(lock, *patience, none);
  changed_.wait(lock, none);
  return true;
}

// The thread needs MPI_THREAD_MULTIPLE. If it cannot be started, MPI_Finalize does its work.
void Announcements::StartThread() {
  const std::lock_guard lock(mutex_);
  if (!threads_ || finishing_ || thread_.joinable() || BesideProgram::Ending()) return;
  BesideProgram::Expect();
  try {
    thread_ = lzy::StartThread([this] { Work(); });
  } catch (...) {
    BesideProgram::DoNotExpect();
  }
}

void Announcements::Finish() {
  bool by_thread = false;
  {
    const std::lock_guard lock(mutex_);
    finishing_ = true;
    end_by_ = Clock::now() + Seconds(kPatience * timeout_seconds_);
    by_thread = thread_.joinable();
  }
  changed_.notify_all();
  if (BesideProgram::Interrupted()) return;
  if (by_thread) {
    thread_.join();
  } else {
    Work();
  }
  for (const auto end = Clock::now() + kToSend; !outbox_.IsEmpty() && Clock::now() < end;) std::this_thread::sleep_for(kShortestPause);
  outbox_.GiveUp();
}

// ------------------------------------------------------------------------------------------------------- The thread

void Announcements::Work() {
  std::optional<BesideProgram> beside;
  {
    const std::lock_guard lock(mutex_);
    if (std::this_thread::get_id() == thread_.get_id()) beside.emplace();
  }
  LookPause pause = kShortestPause;
  while (!ended_) {
    BesideProgram::StopIfEnding();
    bool happened = false;
    (void)NoThrow([&] { happened = Step(); });
    if (ended_) break;
    std::unique_lock lock(mutex_);
    pause = happened ? kShortestPause : std::min(pause * 2, finishing_ ? kPauseInFinalize : kLongestPause);
    changed_.wait_for(lock, pause);
  }
}

bool Announcements::Step() {
  Announce();
  bool happened = false;
  while (Receive()) happened = true;
  if (Leads()) happened |= Decide();
  bool is_late = false;
  bool waits = false;
  {
    const std::lock_guard lock(mutex_);
    // Rank 0 may wait so long itself before it lets the others go.
    is_late = finishing_ && Clock::now() > end_by_ + (Leads() ? Clock::duration{} : Seconds(timeout_seconds_));
    waits = std::ranges::any_of(members_, [](const auto& one) { return one.second.complete; });
  }
  if (is_late && Leads()) gave_up_ = true;
  if (is_late && !Leads()) {
    ended_ = true;
    if (waits) {
      Say(EnvironmentSettings().options, Options::Log::kWarn, "MPI_Finalize waited for rank 0; sets that it could not commit stay at risk");
    }
  }
  return happened;
}

void Announcements::Announce() {
  std::list<Message> messages;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [id, member] : members_) {
      if (member.committing) continue;
      const bool complete = member.complete && member.writers == 0;
      if (complete == member.announced) continue;
      messages.push_back({complete ? Kind::kComplete : Kind::kAgain, id, member.set.pattern, false});
      member.announced = complete;
    }
    if (finishing_ && !told_last_) {
      messages.push_back({Kind::kLast, {}, {}, false});
      told_last_ = true;
    }
  }
  for (const Message& message : messages) Tell(0, message);
}

void Announcements::Tell(int to, const Message& message) {
  if (to == rank_) return Handle(rank_, message);
  std::list<Outbox::Sending> one;
  one.push_back({EncodeRecord(message)});
  outbox_.SendFirst(to, one);
}

void Announcements::TellAll(const Message& message) {
  for (int rank = size_ - 1; rank >= 0; --rank) Tell(rank, message);  // this rank last: it may commit at once
}

bool Announcements::Receive() {
  int there = 0;
  MPI_Status status;
  if (ended_ || PMPI_Iprobe(MPI_ANY_SOURCE, kTag, comm_, &there, &status) != MPI_SUCCESS || !there) return false;
  int length = 0;
  if (PMPI_Get_count(&status, MPI_BYTE, &length) != MPI_SUCCESS || length < 0) return false;
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(length));
  if (PMPI_Recv(bytes.data(), length, MPI_BYTE, status.MPI_SOURCE, kTag, comm_, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
  if (const auto message = DecodeRecord<Message>(bytes); message.ok()) Handle(status.MPI_SOURCE, *message);
  return true;
}

void Announcements::Handle(int from, const Message& message) {
  switch (message.kind) {
    case Kind::kCome:
      return Come(message);
    case Kind::kAsk:
      return Tell(0, {Kind::kHave, message.id, message.pattern, Has(message.id, message.pattern)});
    case Kind::kEnd:
      ended_ = true;
      return;
    default:
      return HandleOnLeader(from, message);
  }
}

bool Announcements::Has(const std::string& id, const std::string& pattern) {
  const std::string path = ExpandPattern(pattern, static_cast<std::uint32_t>(rank_));
  const auto stat = PosixFileSystem().Stat(path, /*follow=*/false);
  if (!stat.ok() || stat->type != FileStat::Type::kRegular) return false;
  const std::lock_guard lock(mutex_);
  const auto at = members_.find(id);
  return at == members_.end() || at->second.writers == 0;
}

void Announcements::Come(const Message& message) {
  std::shared_ptr<OpenFile> file;
  SetName set{message.id, message.pattern};
  bool finishing = false;
  bool busy = false;
  bool complete = false;
  {
    const std::lock_guard lock(mutex_);
    finishing = finishing_;
    const bool known = members_.contains(message.id);
    Member& member = members_[message.id];
    if (!known) member.set = set;
    set = member.set;
    busy = member.writers > 0;
    complete = member.complete;
    if (!busy) {
      file = std::exchange(member.file, nullptr);
      member.committing = true;
    }
  }
  const auto done = [this, id = message.id, busy](const Status& status, bool was_ready) {
    {
      const std::lock_guard lock(mutex_);
      Member& member = members_[id];
      if (!busy) member.committing = false;
      if (status.code() == Code::kBusy) {
        // It is gone. Announce takes the announcement back.
        if (!busy && !was_ready) member.complete = false;
      } else if (!busy) {
        member.complete = member.announced = false;  // rank 0 forgets the announcement, too (NoteResults)
      }
      if (!member.complete && !member.announced && member.writers == 0 && !member.committing) members_.erase(id);
      if (rank_ == 0) results_.emplace_back(id, status.code());
    }
    changed_.notify_all();
  };
  const Status made = NoThrow([&] {
    if (file) return;
    file = make_member_(set, busy);
    // Its writes came before an earlier call that was too early.
    const std::lock_guard lock(file->mutex);
    if (complete) file->touched.AddWhole();
  });
  if (!made.ok()) return done(made, /*was_ready=*/true);
  commit_(file, threads_ && !finishing, [done, file](const Status& status) { done(status, !file->not_ready); });
}

// -------------------------------------------------------------------------------------------------------------- Rank 0

void Announcements::HandleOnLeader(int from, const Message& message) {
  if (message.kind == Kind::kLast) {
    last_.insert(from);
    return;
  }
  State& state = states_[message.id];
  if (message.kind == Kind::kHave) {
    if (state.asking) state.answers[from] = message.have;
    return Answered(message.id, state);
  }
  if (state.pattern.empty() || from == 0) state.pattern = message.pattern;
  if (message.kind == Kind::kComplete) {
    state.complete[from] = ++announcements_;
  } else {
    state.complete.erase(from);
  }
  state.changed = Clock::now();
  state.asked = false;
}

bool Announcements::IsDue(const State& state) const {
  return state.complete.size() == static_cast<std::size_t>(size_);
}

void Announcements::NoteResults() {
  std::list<std::pair<std::string, Code>> results;
  {
    const std::lock_guard lock(mutex_);
    results.swap(results_);
  }
  for (const auto& [id, code] : results) {
    State& state = states_[id];
    state.under_way = false;
    if (code == Code::kBusy) {
      // The ranks that were not ready take their announcements back.
      state.too_early = std::min(state.too_early + 1, kMostTooEarly);
      state.asked = state.too_early == kMostTooEarly;
      state.changed = Clock::now();
      state.not_before = state.changed + kAfterTooEarly * state.too_early;
      continue;
    }
    state.asked = false;
    // A member that was announced again meanwhile has another number. After a failure, Sets::Commit remembers the members for
    // MPI_Finalize.
    std::erase_if(state.complete, [&](const auto& one) {
      const auto before = state.committing.find(one.first);
      return before != state.committing.end() && before->second == one.second;
    });
    state.too_early = 0;
  }
  std::erase_if(states_, [](const auto& one) {
    return one.second.complete.empty() && !one.second.under_way && !one.second.asking;
  });
}

bool Announcements::Decide() {
  NoteResults();
  bool happened = false;
  const bool all_here = AllAreHere();
  if (all_here && !std::exchange(all_were_here_, true)) {
    // A rank that had no member may have one now.
    for (auto& [id, state] : states_) state.asked = false;
  }
  for (auto& [id, state] : states_) {
    if (state.under_way || state.asking || state.complete.empty() || Clock::now() < state.not_before) continue;
    const bool quiet = Clock::now() - state.changed > Seconds(timeout_seconds_);
    const bool at_end = gave_up_ || all_here;
    if (IsDue(state) && (!at_end || state.too_early < kMostTooEarly)) {
      CallTogether(id, state);
      happened = true;
    } else if ((quiet || at_end) && !state.asked && !gave_up_) {
      Ask(id, state);
      happened = true;
    }
  }
  LeadTheEnd();
  return happened;
}

void Announcements::Ask(const std::string& id, State& state) {
  state.asking = true;
  state.asked = true;
  state.answers.clear();
  TellAll({Kind::kAsk, id, state.pattern, false});
}

void Announcements::Answered(const std::string& id, State& state) {
  if (!state.asking || state.answers.size() < static_cast<std::size_t>(size_)) return;
  state.asking = false;
  const bool all = std::ranges::all_of(state.answers, [](const auto& answer) { return answer.second; });
  if (all && !state.complete.empty()) return CallTogether(id, state);
  if (!AllAreHere()) return;
  NameMissing(state);
  state.complete.clear();
}

void Announcements::NameMissing(const State& state) const {
  std::set<int> missing;
  for (const auto& [rank, has] : state.answers) {
    if (!has) missing.insert(rank);
  }
  if (missing.size() == state.answers.size()) return;  // the program has removed it
  Say(EnvironmentSettings().options, Options::Log::kWarn,
      fmt::format("set {}: not committed: {} wrote no member of it, or did not close it; the other members stay at risk", state.pattern,
                  RankList(missing)));
}

void Announcements::CallTogether(const std::string& id, State& state) {
  state.under_way = true;
  state.asked = true;
  state.committing = state.complete;
  TellAll({Kind::kCome, id, state.pattern, false});
}

void Announcements::LeadTheEnd() {
  const bool all = AllAreHere();
  if (ended_ || (!all && !gave_up_)) return;
  const bool busy = std::ranges::any_of(states_, [](const auto& one) {
    const State& state = one.second;
    return state.under_way || state.asking || (!state.complete.empty() && !state.asked);
  });
  if (busy && !gave_up_) return;
  const bool waits = std::ranges::any_of(states_, [](const auto& one) { return !one.second.complete.empty(); });
  if (!all && waits) {
    std::set<int> missing;
    for (int rank = 0; rank < size_; ++rank) {
      if (!last_.contains(rank)) missing.insert(rank);
    }
    Say(EnvironmentSettings().options, Options::Log::kWarn,
        fmt::format("MPI_Finalize waited {} s for {}; sets that could not be committed stay at risk", kPatience * timeout_seconds_,
                    RankList(missing)));
  }
  for (const auto& [id, state] : states_) {
    if (!all || state.complete.empty()) continue;
    Say(EnvironmentSettings().options, Options::Log::kWarn,
        fmt::format("set {}: not committed: its members are written or removed while MPI_Finalize runs; they stay at risk", state.pattern));
  }
  TellAll({Kind::kEnd, {}, {}, false});
}

}  // namespace lzy::hooks
