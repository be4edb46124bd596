// Puts together what the ranks found. In four exchanges all ranks tell all others what they found, which version of
// each set is the newest they see, what there is to say about each dataset, and which datasets are the same. All
// decode the same bytes in the same order, so all get the same list.

#include "names/resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/bytes.h"
#include "names/set_names.h"
#include "names/survey.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

using Bytes = Communicator::Bytes;

// One rank's findings: troubles, then kind and path of each dataset.
Bytes EncodeFound(const Survey& survey) {
  ByteWriter out;
  out.Put(static_cast<std::uint32_t>(survey.troubles().size()));
  for (const Status& trouble : survey.troubles()) {
    out.Put(static_cast<std::uint32_t>(trouble.code()));
    out.PutString(trouble.message());
  }
  out.Put(static_cast<std::uint32_t>(survey.found().size()));
  for (const auto& [path, dataset] : survey.found()) {
    out.Put(static_cast<std::uint32_t>(dataset.kind));
    out.PutString(path);
  }
  return std::move(out.bytes());
}

// Bound for texts of other ranks. They are trusted, so it only guards against nonsense.
constexpr std::size_t kMostText = 64u << 20;

/// What all ranks found, in a fixed order.
struct Union {
  std::map<std::string, DatasetKind> datasets;
  std::vector<Status> troubles;
};
Union DecodeFound(const std::vector<Bytes>& all) {
  Union out;
  std::set<std::string> told;
  for (const Bytes& bytes : all) {
    ByteReader in(bytes);
    for (auto count = in.Get<std::uint32_t>(); count > 0 && in.ok(); --count) {
      const auto code = static_cast<Code>(in.Get<std::uint32_t>());
      std::string message = in.GetString(kMostText);
      if (told.insert(message).second) out.troubles.emplace_back(code, std::move(message));
    }
    for (auto count = in.Get<std::uint32_t>(); count > 0 && in.ok(); --count) {
      const auto kind = static_cast<DatasetKind>(in.Get<std::uint32_t>());
      std::string path = in.GetString(kMostText);
      // One rank may see only a file where another one sees a set of this name. Then it is a set for all.
      auto [at, fresh] = out.datasets.emplace(std::move(path), kind);
      if (!fresh && kind == DatasetKind::kSet) at->second = kind;
    }
  }
  return out;
}

/// The newest version of each of `patterns` that any rank sees. Collective; `patterns` must be the same on all ranks.
Result<std::vector<SetVersion>> AgreeOnVersions(Survey& survey, Communicator& comm,
                                                const std::vector<std::string>& patterns) {
  ByteWriter mine;
  for (const std::string& pattern : patterns) {
    const SetVersion version = survey.NewestOf(pattern);
    mine.Put(version.wall_time_ns);
    mine.PutBytes(version.uuid);
    mine.Put(version.members);
  }
  LZY_ASSIGN_OR_RETURN(const auto all, comm.AllGather(mine.bytes()));
  std::vector<SetVersion> newest(patterns.size());
  for (const Bytes& bytes : all) {
    ByteReader in(bytes);
    for (SetVersion& version : newest) {
      SetVersion seen;
      seen.wall_time_ns = in.Get<std::int64_t>();
      if (const ByteSpan raw = in.GetBytes(seen.uuid.size()); raw.size() == seen.uuid.size()) {
        std::copy(raw.begin(), raw.end(), seen.uuid.begin());
      }
      seen.members = in.Get<std::uint32_t>();
      version = std::max(version, seen);
    }
  }
  return newest;
}

/// What to tell the user about `leftover`: a file of the pattern that is not a member of the newest version of
/// `members` files.
std::string LeftoverText(const Leftover& leftover, const std::string& pattern, std::uint32_t members) {
  if (leftover.members == 0) {
    return fmt::format("'{}' was being written and was never committed: nothing protects it", leftover.path);
  }
  const std::string what =
      fmt::format("of an older set of {} files; '{}' has {} since its last commit", leftover.members, pattern, members);
  if (!leftover.present) {
    return fmt::format(
        "'{}' is gone, and was a member only {}; what is left of it is removed with: lzy-info --prune "
        "on its directory",
        leftover.path, what);
  }
  return fmt::format(
      "'{0}' is left over from a member {1}, and nothing protects it. If it is not wanted, remove it and "
      "'{2}'; to protect it, remove '{2}' and then run lzy-protect on it",
      leftover.path, what, leftover.sidecar);
}

/// Encodes what one rank has to say about one dataset; Remarks::Merge reads it.
void PutRemarks(ByteWriter& out, bool meant, const std::vector<Leftover>& leftovers, const DatasetRef& dataset) {
  out.Put<std::uint8_t>(meant);
  out.Put(static_cast<std::uint32_t>(leftovers.size()));
  for (const Leftover& leftover : leftovers) {
    out.PutString(leftover.path);
    out.PutString(leftover.sidecar);
    out.Put(leftover.members);
    out.Put<std::uint8_t>(leftover.present);
  }
  for (const auto* texts : {&dataset.notes, &dataset.hints}) {
    out.Put(static_cast<std::uint32_t>(texts->size()));
    for (const std::string& text : *texts) out.PutString(text);
  }
}

/// What all ranks have to say about one dataset. It is meant if any rank's PATH leads to it by more than leftovers.
/// Each leftover and each sentence counts once, however many ranks see it.
struct Remarks {
  bool meant = false;
  std::map<std::string, Leftover> leftovers;
  std::vector<std::string> notes;
  std::vector<std::string> hints;

  void Merge(ByteReader& in) {
    meant = in.Get<std::uint8_t>() != 0 || meant;
    for (auto count = in.Get<std::uint32_t>(); count > 0 && in.ok(); --count) {
      Leftover leftover;
      leftover.path = in.GetString(kMostText);
      leftover.sidecar = in.GetString(kMostText);
      leftover.members = in.Get<std::uint32_t>();
      leftover.present = in.Get<std::uint8_t>() != 0;
      leftovers.emplace(leftover.path, leftover);
    }
    for (auto* texts : {&notes, &hints}) {
      for (auto count = in.Get<std::uint32_t>(); count > 0 && in.ok(); --count) {
        std::string text = in.GetString(kMostText);
        if (std::find(texts->begin(), texts->end(), text) == texts->end()) texts->push_back(std::move(text));
      }
    }
  }
};

/// Fills in members, notes and hints. Collective. A set to which PATH leads only by leftovers of an older version is
/// not what the user asked for. It is dropped, and the leftovers are added to `troubles` as unprotected.
Status AgreeOnMembers(Survey& survey, Communicator& comm, std::vector<DatasetRef>& datasets,
                      std::vector<Status>& troubles) {
  std::vector<std::string> patterns;
  for (const DatasetRef& dataset : datasets) {
    if (dataset.kind == DatasetKind::kSet) patterns.push_back(dataset.path);
  }
  LZY_ASSIGN_OR_RETURN(const std::vector<SetVersion> versions, AgreeOnVersions(survey, comm, patterns));
  // Each rank's part. `version` advances with the sets among the datasets.
  ByteWriter mine;
  auto version = versions.begin();
  for (DatasetRef& dataset : datasets) {
    const auto found = survey.found().find(dataset.path);
    if (found != survey.found().end()) dataset.notes = found->second.notes;
    bool meant = true;
    std::vector<Leftover> leftovers;
    if (dataset.kind == DatasetKind::kSet) {
      meant = survey.IsMeant(dataset.path, *version);
      leftovers = survey.FillMembers(dataset, *version++);
    }
    PutRemarks(mine, meant, leftovers, dataset);
  }
  LZY_ASSIGN_OR_RETURN(const auto all, comm.AllGather(mine.bytes()));
  std::vector<Remarks> remarks(datasets.size());
  for (const Bytes& bytes : all) {
    ByteReader in(bytes);
    for (Remarks& remark : remarks) remark.Merge(in);
  }
  // Everything from here on is the same on all ranks, except members.
  version = versions.begin();
  std::vector<DatasetRef> meant;
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    DatasetRef& dataset = datasets[i];
    dataset.notes = std::move(remarks[i].notes);
    dataset.hints = std::move(remarks[i].hints);
    const std::uint32_t members = dataset.kind == DatasetKind::kSet ? (version++)->members : 0;
    for (const auto& [path, leftover] : remarks[i].leftovers) {
      std::string text = LeftoverText(leftover, dataset.path, members);
      if (!remarks[i].meant) {
        troubles.emplace_back(Code::kUnprotected, std::move(text));
      } else if (leftover.present) {
        dataset.notes.push_back(std::move(text));
      }
    }
    if (remarks[i].meant) meant.push_back(std::move(dataset));
  }
  datasets = std::move(meant);
  return Status::Ok();
}

/// Keeps datasets once that are named in several ways (through a link, say). Collective. A dataset is dropped only if
/// every rank finds it to be the same as an earlier one. So all ranks drop the same ones.
Status DropDoubles(FileSystem& fs, Communicator& comm, std::vector<DatasetRef>& datasets) {
  ByteWriter mine;
  std::map<std::string, std::uint32_t> first;
  for (std::uint32_t i = 0; i < datasets.size(); ++i) {
    mine.Put(first.emplace(DatasetKey(fs, datasets[i]), i).first->second);
  }
  LZY_ASSIGN_OR_RETURN(const auto all, comm.AllGather(mine.bytes()));
  std::vector<bool> distinct(datasets.size(), false);
  for (const Bytes& bytes : all) {
    ByteReader in(bytes);
    for (std::uint32_t i = 0; i < datasets.size(); ++i) {
      if (in.Get<std::uint32_t>() == i) distinct[i] = true;
    }
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    if (distinct[i]) std::swap(datasets[kept++], datasets[i]);
  }
  datasets.resize(kept);
  return Status::Ok();
}

}  // namespace

Result<std::vector<DatasetRef>> ResolvePath(FileSystem& fs, Communicator& comm, const std::string& path, Resolve what,
                                            std::vector<Status>* troubles) {
  if (path.empty())
    return Status(Code::kInvalidArgument, "an empty PATH: a file, a pattern or a directory is accepted");
  // A rank that finds nothing must not fail alone: another one may see the files. Real errors are agreed on at once.
  Survey survey(fs, what);
  const Status mine = survey.Add(path);
  const bool absent = mine.code() == Code::kInvalidArgument || mine.code() == Code::kUnprotected;
  LZY_RETURN_IF_ERROR(Agree(comm, absent ? Status::Ok() : mine));
  LZY_ASSIGN_OR_RETURN(const auto all, comm.AllGather(EncodeFound(survey)));
  Union found = DecodeFound(all);
  // Only if no rank has found anything, PATH stands for nothing.
  if (found.datasets.empty() && found.troubles.empty()) {
    LZY_RETURN_IF_ERROR(Agree(comm, mine));
    return Status(Code::kInternal, fmt::format("{}: nothing found and nothing wrong", path));
  }
  std::vector<DatasetRef> datasets;
  for (const auto& [name, kind] : found.datasets) datasets.push_back({kind, name, {}, {}});
  LZY_RETURN_IF_ERROR(AgreeOnMembers(survey, comm, datasets, found.troubles));
  LZY_RETURN_IF_ERROR(DropDoubles(fs, comm, datasets));
  if (troubles == nullptr && !found.troubles.empty()) return found.troubles.front();
  if (troubles != nullptr) troubles->insert(troubles->end(), found.troubles.begin(), found.troubles.end());
  return datasets;
}

// The directory ends before the first component that is not literal. In a pattern %% is a percent sign; in a glob
// without a rank, '%' is an ordinary character.
std::vector<std::string> NamedBy(const std::string& path) {
  std::vector<std::string> named{path};
  const bool pattern = HasRankPlaceholder(path);
  if (!pattern && path.find('*') == std::string::npos) return named;
  std::string directory = path.starts_with('/') ? "/" : "";
  for (const std::string& component : Components(path)) {
    if (component.find('*') != std::string::npos || HasRankPlaceholder(component)) break;
    directory = JoinPath(directory, pattern ? ExpandPattern(component, 0) : component);
  }
  named.push_back(directory.empty() ? "." : directory);
  return named;
}

std::string DatasetKey(FileSystem& fs, const DatasetRef& dataset) {
  const auto real = [&](const std::string& path) {
    auto resolved = fs.RealPath(path);
    return resolved.ok() ? *resolved : path;
  };
  if (dataset.kind == DatasetKind::kShared) return "file:" + real(dataset.path);
  // Of a set only the directory before the pattern can be resolved: there is no file of the pattern's name.
  const std::string tail = PatternTail(dataset.path);
  const std::string base = dataset.path.substr(0, dataset.path.size() - tail.size());
  return "set:" + JoinPath(EscapePercent(real(base.empty() ? "." : ExpandPattern(base, 0))), tail);
}

}  // namespace lzy
