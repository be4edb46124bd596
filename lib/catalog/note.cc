// Writes the findings of tools to the tables of datasets and events.
//
// Lasting damage is one event. A finding is compared with the lasting events of the same file and part; only bytes that are
// in none of them become a new event. An event ends when its bytes were repaired, or when all of the dataset was read and
// none of its bytes was damaged.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "base/file.h"
#include "base/interval_set.h"
#include "catalog/catalog.h"
#include "catalog/event_objects.h"
#include "request/edits.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

// True if a report says anything about the state of the dataset. A failure to read or lock it does not, nor do members that
// may be on other nodes.
bool SaysState(const DatasetReport& report) {
  if (!report.not_visible.empty() && report.state == DatasetState::kUnprotected) return false;
  switch (report.status.code()) {
    case Code::kOk:
    case Code::kBeyondRepair:
    case Code::kCorrupt:
    case Code::kUnprotected:
    case Code::kWriteFailed:
      return true;
    default:
      return false;
  }
}

// Damage without a length, such as a missing sidecar, covers its first byte here.
Interval BytesOf(std::uint64_t offset, std::uint64_t length) {
  return {offset, offset + std::max<std::uint64_t>(length, 1)};
}

// The parts of `found` that are not in `known`.
std::vector<Interval> Remainder(Interval found, const IntervalSet& known) {
  std::vector<Interval> out;
  for (const Interval& one : known.intervals()) {
    if (one.end <= found.begin || one.begin >= found.end) continue;
    if (one.begin > found.begin) out.push_back({found.begin, one.begin});
    found.begin = std::min(one.end, found.end);
  }
  if (found.begin < found.end) out.push_back(found);
  return out;
}

/// One note, within a transaction.
class Noting {
 public:
  Noting(Database& database, Catalog& catalog, const CatalogNote& note, const DatasetReport& report)
      : database_(database),
        catalog_(catalog),
        note_(note),
        report_(report),
        partial_(!report.not_visible.empty()),
        read_(partial_ || report.met_commit ? CatalogNote::Read::kNothing : note.read) {}

  Result<CatalogNews> Run() {
    if (note_.unreadable) return NoteUnreadable();
    if (!SaysState(report_) || report_.left_for_later) return news_;
    LZY_RETURN_IF_ERROR(FindDataset());
    // A dataset that was never protected is not noted, nor is an unknown one that is being removed. A file beside the
    // sidecar of a member was protected.
    const bool was_protected = !report_.uuid.empty() || report_.another;
    if (!known_ && (!was_protected || note_.removed)) return news_;
    if (note_.removed) {
      LZY_RETURN_IF_ERROR(AddEvent("removed"));
      LZY_RETURN_IF_ERROR(EndDamage("protection removed"));
      LZY_RETURN_IF_ERROR(EndLosses(database_, row_.id, note_.now, "protection removed"));
      row_.state = "gone";
      row_.exit_code = 0;
      return Store();
    }
    if (!known_) LZY_RETURN_IF_ERROR(Insert());
    LZY_RETURN_IF_ERROR(NoteIdentity());
    LZY_RETURN_IF_ERROR(NoteDamage());
    LZY_RETURN_IF_ERROR(NoteState());
    return Store();
  }

 private:
  // The known damage may still exist.
  Result<CatalogNews> NoteUnreadable() {
    LZY_RETURN_IF_ERROR(FindDataset());
    if (!known_) return news_;
    row_.state = "unreadable";
    row_.exit_code = ExitCodeOf(report_);
    row_.last_seen = note_.now;
    row_.next = note_.next;
    return Store();
  }

  // Finds the dataset by path. A dataset that was renamed has the uuid of an entry whose files are gone.
  Status FindDataset() {
    LZY_ASSIGN_OR_RETURN(auto found, catalog_.Find(note_.path));
    known_ = found.has_value();
    if (found) row_ = std::move(*found);
    const bool again = known_ && (row_.state == "gone" || row_.state == "vanished");
    if (known_ && !again) return Status::Ok();
    LZY_RETURN_IF_ERROR(FindTwins());
    if (again) row_.first_seen = first_seen_;
    return Status::Ok();
  }

  // Other entries of the same uuid.
  Status FindTwins() {
    if (report_.uuid.empty()) return Status::Ok();
    LZY_ASSIGN_OR_RETURN(Statement twin, database_.Prepare("SELECT path FROM datasets WHERE uuid = ?1"));
    twin.Bind(report_.uuid);
    while (true) {
      LZY_ASSIGN_OR_RETURN(const bool more, twin.Step());
      if (!more) return Status::Ok();
      const std::string path = twin.Text(0);
      LZY_ASSIGN_OR_RETURN(auto found, catalog_.Find(path));
      if (!found || path == note_.path) continue;
      if (IsThere(*found)) {
        // A copy. Both exist now, so neither ever counts as the other one after a move (LossOf in the tools).
        first_seen_ = std::min(first_seen_, found->last_seen);
        continue;
      }
      if (known_ || report_.kind != DatasetKind::kShared) continue;
      row_ = std::move(*found);
      known_ = true;
      LZY_RETURN_IF_ERROR(AddEvent("moved", path));
      row_.path = note_.path;
      return Status::Ok();
    }
  }

  // For a set, looks for one of the first members.
  static bool IsThere(const CatalogDataset& dataset) {
    if (dataset.kind != "set") return access(dataset.path.c_str(), F_OK) == 0;
    constexpr std::uint32_t kMost = 16;
    for (std::uint32_t rank = 0; rank < std::min(dataset.devices, kMost); ++rank) {
      if (access(ExpandPattern(dataset.path, rank).c_str(), F_OK) == 0) return true;
    }
    return false;
  }

  Status Insert() {
    LZY_ASSIGN_OR_RETURN(Statement insert,
                         database_.Prepare("INSERT INTO datasets VALUES (NULL, ?, '', '', '', '', 0, 0, 0, 0, 0, 0, 0, 0, ?, 0, 0, 0, "
                                           "0, 0, 0, 0, '')"));
    LZY_RETURN_IF_ERROR(insert.Bind(note_.path).Bind(first_seen_).Run());
    row_.id = database_.last_row();
    row_.path = note_.path;
    row_.first_seen = first_seen_;
    row_.uuid = report_.uuid;
    return Status::Ok();
  }

  // A new encoding, or an older commit (from a backup), has not been read yet. Damage of the old one is not damage of the
  // new one, unless it is found again.
  Status NoteIdentity() {
    if (row_.kind.empty()) row_.kind = report_.kind == DatasetKind::kShared ? "shared" : "set";
    if (report_.uuid.empty()) return Status::Ok();
    if (known_ && row_.exit_code != 0) LZY_RETURN_IF_ERROR(EndLosses(database_, row_.id, note_.now, "protected again"));
    const bool replaced = !row_.uuid.empty() && (row_.uuid != report_.uuid || report_.generation < row_.generation);
    if (known_ && replaced) {
      LZY_RETURN_IF_ERROR(AddEvent("replaced"));
      LZY_RETURN_IF_ERROR(EndDamage("replaced"));
      row_.last_verified = row_.pass_began = 0;
      row_.pass_rows = 0;
    }
    if (report_.committed) LZY_RETURN_IF_ERROR(AddEvent("protected"));
    row_.kind = report_.kind == DatasetKind::kShared ? "shared" : "set";
    row_.uuid = report_.uuid;
    row_.root = report_.root.Hex();
    row_.devices = report_.devices;
    row_.parity = report_.parity;
    row_.groups = report_.groups;
    row_.block_size = report_.block_size;
    row_.generation = report_.generation;
    row_.last_commit = report_.commit_time_ns;
    if (report_.bytes != 0) row_.bytes = report_.bytes;
    if (report_.sidecar_bytes != 0) row_.sidecar_bytes = report_.sidecar_bytes;
    return Status::Ok();
  }

  Status NoteDamage() {
    LZY_ASSIGN_OR_RETURN(const std::vector<CatalogEvent> open, OpenDamage());
    std::map<std::pair<std::string, std::string>, IntervalSet> known, found;
    for (const CatalogEvent& event : open) known[{event.path, event.part}].Add(BytesOf(event.offset, event.length));
    LZY_ASSIGN_OR_RETURN(const bool unnamed, AnyUnnamed());
    for (const Damage& damage : report_.damage) {
      const std::string path = CatalogPath(damage.path, false), part = Name(damage.part);
      if (damage.transient) LZY_RETURN_IF_ERROR(AddDamage("transient", damage, path, {damage.offset, damage.offset + damage.length}));
      if (!IsLastingDamage(damage)) continue;
      const Interval bytes = BytesOf(damage.offset, damage.length);
      if (!damage.repaired) found[{path, part}].Add(bytes);
      if (unnamed && !damage.objects.empty()) LZY_RETURN_IF_ERROR(NameKnown(damage, path, bytes));
      for (const Interval& rest : Remainder(bytes, known[{path, part}])) {
        LZY_RETURN_IF_ERROR(AddDamage("damage", damage, path, rest));
      }
      if (damage.repaired) LZY_RETURN_IF_ERROR(EndRepaired(open, path, part, bytes));
    }
    // A commit accepts what it reads. After a complete read, damage that was not found again has gone. Without usable hashes
    // nothing was compared, so nothing is known to have gone.
    const bool accepted = report_.committed && report_.damage.empty();
    const Code code = report_.status.code();
    const bool compared = code != Code::kUnprotected && code != Code::kCorrupt;
    if ((read_ != CatalogNote::Read::kWhole || !compared) && !accepted) return Status::Ok();
    LZY_ASSIGN_OR_RETURN(const std::vector<CatalogEvent> left, OpenDamage());
    for (const CatalogEvent& event : left) {
      if (event.cause == Name(DamageCause::kEncoding) && !EncodedAll(accepted)) continue;
      const auto at = found.find({event.path, event.part});
      if (at != found.end() && at->second.Overlaps(BytesOf(event.offset, event.length))) continue;
      LZY_RETURN_IF_ERROR(EndEvent(event.id, accepted ? "committed" : "not found again"));
    }
    return Status::Ok();
  }

  // Hashes do not show parity that was computed wrongly. It has gone if all rows were compared, or made again.
  bool EncodedAll(bool accepted) const {
    return accepted ? report_.bytes_encoded >= report_.bytes : report_.parity_compared;
  }

  // True if there is lasting damage whose objects are not known.
  Result<bool> AnyUnnamed() {
    LZY_ASSIGN_OR_RETURN(Statement any, database_.Prepare("SELECT 1 FROM events WHERE dataset = ? AND what = 'damage' AND ended = 0 AND "
                                                          "objects = '' LIMIT 1"));
    return any.Bind(row_.id).Step();
  }

  // Adds the objects to such events when they become known. (An older version noted the event, or the helper was missing.)
  Status NameKnown(const Damage& damage, const std::string& path, Interval bytes) {
    LZY_ASSIGN_OR_RETURN(Statement update,
                         database_.Prepare("UPDATE events SET objects = ? WHERE dataset = ? AND what = 'damage' AND ended = 0 AND objects = '' "
                                           "AND path = ? AND part = ? AND offset >= ? AND offset + max(length, 1) <= ?"));
    update.Bind(EncodeEventObjects(damage)).Bind(row_.id).Bind(path).Bind(Name(damage.part));
    return update.Bind(bytes.begin).Bind(bytes.end).Run();
  }

  // Ends only events whose bytes were all repaired.
  Status EndRepaired(const std::vector<CatalogEvent>& open, const std::string& path, const std::string& part, Interval bytes) {
    for (const CatalogEvent& event : open) {
      const Interval its = BytesOf(event.offset, event.length);
      if (event.path != path || event.part != part || its.begin < bytes.begin || its.end > bytes.end) continue;
      LZY_RETURN_IF_ERROR(EndEvent(event.id, "repaired"));
    }
    return Status::Ok();
  }

  // After a part was read, the state is not better than the lasting damage elsewhere.
  Status NoteState() {
    LZY_ASSIGN_OR_RETURN(const std::vector<CatalogEvent> left, OpenDamage());
    const bool beyond = std::ranges::any_of(left, &CatalogEvent::beyond_repair);
    const bool intact = report_.state == DatasetState::kIntact || report_.state == DatasetState::kRestored;
    const int before = row_.exit_code;
    row_.last_seen = note_.now;
    row_.waits = WaitsForACommit(report_);
    row_.only_a_commit_helps = OnlyACommitHelps(report_);
    // Commands that follow from a part do not fit what is known of the rest.
    row_.next = note_.read == CatalogNote::Read::kPart ? "" : note_.next;
    row_.exit_code = ExitCodeOf(report_);
    row_.state = intact ? Name(DatasetState::kIntact) : Name(report_.state);
    if (intact && !left.empty()) {
      row_.state = Name(beyond ? DatasetState::kUnrepairable : DatasetState::kDamaged);
      row_.exit_code = beyond ? 2 : 1;
      row_.next.clear();
    }
    news_.worse = IsGrave(row_.exit_code) && row_.exit_code != before;
    const auto began = note_.now - static_cast<std::int64_t>(report_.phases.total * 1e9);
    if (read_ == CatalogNote::Read::kWhole && report_.status.ok()) {
      row_.last_verified = began;
      row_.pass_began = 0;
      row_.pass_rows = 0;
    }
    if (read_ == CatalogNote::Read::kPart) NotePass(began);
    return Status::Ok();
  }

  // A pass that reached the end has read everything since it began.
  void NotePass(std::int64_t began) {
    const Portion& portion = report_.portion;
    // A portion of an unknown pass: another tool has read everything meanwhile, or hashes were lost.
    if (portion.begin != 0 && (row_.pass_began == 0 || portion.begin != row_.pass_rows)) return;
    if (portion.begin == 0) row_.pass_began = began;
    row_.rows = portion.of;
    row_.pass_rows = portion.end;
    if (portion.end < portion.of) return;
    row_.last_verified = row_.pass_began;
    row_.pass_began = 0;
    row_.pass_rows = 0;
  }

  Result<CatalogNews> Store() {
    LZY_ASSIGN_OR_RETURN(
        Statement update,
        database_.Prepare("UPDATE datasets SET path = ?, kind = ?, uuid = ?, root = ?, state = ?, exit_code = ?, devices = ?, parity = ?, "
                          "groups = ?, block_size = ?, bytes = ?, sidecar_bytes = ?, generation = ?, first_seen = ?, last_seen = ?, last_commit = ?, "
                          "last_verified = ?, pass_began = ?, pass_rows = ?, rows = ?, waits = ?, next = ? WHERE id = ?"));
    update.Bind(row_.path).Bind(row_.kind).Bind(row_.uuid).Bind(row_.root).Bind(row_.state).Bind(row_.exit_code);
    update.Bind(row_.devices).Bind(row_.parity).Bind(row_.groups).Bind(row_.block_size).Bind(row_.bytes).Bind(row_.sidecar_bytes);
    update.Bind(row_.generation).Bind(row_.first_seen).Bind(row_.last_seen).Bind(row_.last_commit).Bind(row_.last_verified).Bind(row_.pass_began);
    LZY_RETURN_IF_ERROR(update.Bind(row_.pass_rows).Bind(row_.rows).Bind(row_.only_a_commit_helps ? 2 : row_.waits ? 1 : 0).Bind(row_.next).Bind(row_.id).Run());
    return std::move(news_);
  }

  Result<std::vector<CatalogEvent>> OpenDamage() {
    LZY_ASSIGN_OR_RETURN(Statement rows, database_.Prepare("SELECT id, path, part, offset, length, beyond_repair, cause FROM events WHERE "
                                                           "dataset = ?1 AND what = 'damage' AND ended = 0"));
    rows.Bind(row_.id);
    std::vector<CatalogEvent> out;
    while (true) {
      LZY_ASSIGN_OR_RETURN(const bool more, rows.Step());
      if (!more) return out;
      CatalogEvent& event = out.emplace_back();
      event.id = rows.Integer(0);
      event.path = rows.Text(1);
      event.part = rows.Text(2);
      event.offset = rows.Count(3);
      event.length = rows.Count(4);
      event.beyond_repair = rows.Integer(5) != 0;
      event.cause = rows.Text(6);
    }
  }

  Status AddEvent(const std::string& what, const std::string& path = "") {
    LZY_ASSIGN_OR_RETURN(Statement insert,
                         database_.Prepare("INSERT INTO events (time, dataset, tool, what, path) VALUES (?, ?, ?, ?, ?)"));
    return insert.Bind(note_.now).Bind(row_.id).Bind(note_.tool).Bind(what).Bind(path).Run();
  }

  Status AddDamage(const std::string& what, const Damage& damage, const std::string& path, Interval bytes) {
    const bool over = damage.repaired || damage.transient;
    const bool empty = damage.length == 0;
    LZY_ASSIGN_OR_RETURN(Statement insert,
                         database_.Prepare("INSERT INTO events (time, dataset, tool, what, path, part, place, cause, device, offset, "
                                           "length, beyond_repair, ended, outcome, objects) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
    insert.Bind(note_.now).Bind(row_.id).Bind(note_.tool).Bind(what).Bind(path).Bind(Name(damage.part));
    insert.Bind(damage.domain.empty() ? DirectoryOf(path) : damage.domain).Bind(Name(damage.cause)).Bind(damage.device);
    insert.Bind(bytes.begin).Bind(empty ? 0 : bytes.end - bytes.begin).Bind(damage.beyond_repair ? 1 : 0);
    insert.Bind(over ? note_.now : 0).Bind(damage.transient ? "read right again" : damage.repaired ? "repaired" : "");
    insert.Bind(EncodeEventObjects(damage));
    if (what == "damage") {
      news_.damage.push_back(damage);
      news_.damage.back().offset = bytes.begin;
      news_.damage.back().length = empty ? 0 : bytes.end - bytes.begin;
    }
    return insert.Run();
  }

  Status EndEvent(std::int64_t id, const std::string& outcome) {
    LZY_ASSIGN_OR_RETURN(Statement update, database_.Prepare("UPDATE events SET ended = ?, outcome = ? WHERE id = ?"));
    return update.Bind(note_.now).Bind(outcome).Bind(id).Run();
  }

  Status EndDamage(const std::string& outcome) {
    LZY_ASSIGN_OR_RETURN(const std::vector<CatalogEvent> open, OpenDamage());
    for (const CatalogEvent& event : open) LZY_RETURN_IF_ERROR(EndEvent(event.id, outcome));
    return Status::Ok();
  }

  Database& database_;
  Catalog& catalog_;
  const CatalogNote& note_;
  const DatasetReport& report_;
  // Members may be on other nodes. Damage that was seen counts, but nothing is known to be intact.
  const bool partial_;
  const CatalogNote::Read read_;
  /// The dataset's row, as it will be stored.
  CatalogDataset row_;
  bool known_ = false;
  std::int64_t first_seen_ = note_.now;  // for a dataset that is not known yet
  CatalogNews news_;
};

}  // namespace

Result<std::vector<CatalogNews>> Catalog::Note(const std::vector<std::pair<CatalogNote, DatasetReport>>& notes) {
  std::vector<CatalogNews> fresh;
  const Status done = database_.Transact([&]() -> Status {
    fresh.clear();
    for (const auto& [note, report] : notes) {
      LZY_ASSIGN_OR_RETURN(auto its, Noting(database_, *this, note, report).Run());
      fresh.push_back(std::move(its));
    }
    return Status::Ok();
  });
  if (!done.ok()) return Named(done);
  return fresh;
}

Status Catalog::NoteRun(const std::string& tool, std::int64_t now, double seconds, std::uint64_t bytes, const std::string& how) {
  const auto add = [&]() -> Status {
    LZY_ASSIGN_OR_RETURN(Statement insert, database_.Prepare("INSERT INTO events (time, tool, what, length, seconds, outcome) VALUES "
                                                             "(?, ?, 'run', ?, ?, ?)"));
    return insert.Bind(now).Bind(tool).Bind(bytes).Bind(seconds).Bind(how).Run();
  };
  return Named(add());
}

}  // namespace lzy
