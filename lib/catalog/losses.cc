// Notes datasets that were protected and are not any more, and the end of such losses.
//
// A loss lasts (ended = 0) until the dataset is found protected again, or the user acknowledges it. So a scrub that runs
// every night reports it every night.

#include <algorithm>

#include "catalog/catalog.h"

namespace lzy {
namespace {

const char* NameOf(CatalogLoss::Kind kind) {
  switch (kind) {
    case CatalogLoss::Kind::kVanished:
      return "vanished";
    case CatalogLoss::Kind::kUnprotected:
      return "unprotected";
    case CatalogLoss::Kind::kWanted:
    case CatalogLoss::Kind::kBack:
      break;
  }
  return "gone";
}

// The caller checks whether the state is new: it looks at what lasts already.
Status NoteOne(Database& database, const std::string& tool, std::int64_t now, const CatalogLoss& loss) {
  const bool back = loss.kind == CatalogLoss::Kind::kBack;
  const bool lasts = loss.kind == CatalogLoss::Kind::kVanished || loss.kind == CatalogLoss::Kind::kUnprotected;
  LZY_RETURN_IF_ERROR(EndLosses(database, loss.dataset, now, back ? "protected again" : lasts ? "see the next event" : loss.why));
  // A dataset that is back has not been read since.
  LZY_ASSIGN_OR_RETURN(Statement update, database.Prepare("UPDATE datasets SET state = ?, exit_code = ?, last_verified = CASE WHEN ?3 THEN 0 "
                                                          "ELSE last_verified END WHERE id = ?4"));
  update.Bind(back ? "intact" : NameOf(loss.kind)).Bind(lasts ? 4 : 0).Bind(back ? 1 : 0);
  LZY_RETURN_IF_ERROR(update.Bind(loss.dataset).Run());
  if (back) return Status::Ok();
  LZY_ASSIGN_OR_RETURN(Statement end, database.Prepare("UPDATE events SET ended = ?, outcome = 'dataset is gone' WHERE dataset = ? AND "
                                                       "what = 'damage' AND ended = 0"));
  LZY_RETURN_IF_ERROR(end.Bind(now).Bind(loss.dataset).Run());
  LZY_ASSIGN_OR_RETURN(Statement insert, database.Prepare("INSERT INTO events (time, dataset, tool, what, ended, outcome) VALUES (?, ?, ?, ?, ?, ?)"));
  return insert.Bind(now).Bind(loss.dataset).Bind(tool).Bind(NameOf(loss.kind)).Bind(lasts ? 0 : now).Bind(loss.why).Run();
}

}  // namespace

Status EndLosses(Database& database, std::int64_t dataset, std::int64_t now, const std::string& outcome) {
  LZY_ASSIGN_OR_RETURN(Statement update, database.Prepare("UPDATE events SET ended = ?, outcome = ? WHERE dataset = ? AND what IN ('vanished', "
                                                          "'unprotected') AND ended = 0"));
  return update.Bind(now).Bind(outcome).Bind(dataset).Run();
}

Status Catalog::NoteLosses(const std::string& tool, std::int64_t now, const std::vector<CatalogLoss>& losses) {
  if (losses.empty()) return Status::Ok();
  const Status done = database_.Transact([&]() -> Status {
    for (const CatalogLoss& loss : losses) LZY_RETURN_IF_ERROR(NoteOne(database_, tool, now, loss));
    return Status::Ok();
  });
  return done.ok() ? done : Named(done);
}

Result<std::size_t> Catalog::Acknowledge(const std::string& tool, std::int64_t now, const std::function<bool(const CatalogEvent&)>& which) {
  LZY_ASSIGN_OR_RETURN(const std::vector<CatalogEvent> open, OpenLosses());
  std::vector<CatalogLoss> losses;
  for (const CatalogEvent& event : open) {
    if (which(event)) losses.push_back({event.dataset, CatalogLoss::Kind::kWanted, "acknowledged"});
  }
  LZY_RETURN_IF_ERROR(NoteLosses(tool, now, losses));
  return losses.size();
}

}  // namespace lzy
