#include "objects/name.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/record.h"
#include "comm/records.h"
#include "names/lookup.h"
#include "objects/ask.h"
#include "objects/index.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

/// The names that one rank sends to the others.
struct NamedHere {
  struct Entry {
    std::uint64_t number = 0;  ///< in report.damage
    std::vector<DamagedObject> objects;
    std::uint64_t left_off = 0;
    LZY_FIELDS(number, objects, left_off)
  };
  std::vector<Entry> entries;
  std::vector<std::string> missing;
  LZY_FIELDS(entries, missing)
};

const Status kNoHelper(Code::kNotFound, "the program lzy-objects-helper is not installed");

// The files of the report's data that are damaged, with their entries. An entry without length is no place.
std::map<std::string, std::vector<Damage*>> DamagedFiles(DatasetReport& report) {
  std::map<std::string, std::vector<Damage*>> files;
  for (Damage& damage : report.damage) {
    if (damage.part == DamagePart::kData && damage.length > 0) files[damage.path].push_back(&damage);
  }
  return files;
}

// The file, if it is one that can be asked about. With context.fs, since a hostile user may put another file in its place.
Result<std::unique_ptr<File>> OpenWithObjects(FileSystem& fs, const std::string& path) {
  LZY_ASSIGN_OR_RETURN(auto file, fs.Open(path, OpenMode::kRead));
  if (!HasObjects(*file)) return Status(Code::kNotFound, "its format is not known any more");
  return file;
}

Status NamesFromFile(FileSystem& fs, const Helper& helper, const std::string& path, const std::vector<Damage*>& damage) {
  if (helper.program.empty()) return kNoHelper;
  LZY_ASSIGN_OR_RETURN(const auto file, OpenWithObjects(fs, path));
  return NameObjects(helper, *file, damage);
}

}  // namespace

std::vector<std::string> NameObjects(const Context& context, const std::string& program, DatasetReport& report) {
  Communicator& comm = context.comm;
  std::vector<std::string> missing;
  const auto files = DamagedFiles(report);
  if (files.empty()) return missing;
  // The files in which this rank can name objects. On shared storage, ranks take turns.
  std::vector<std::uint8_t> sees;
  for (const auto& [path, damage] : files) sees.push_back(OpenWithObjects(context.fs, path).ok() || context.fs.Stat(FindIndex(context.fs, path)).ok());
  const auto all_see = AllGatherRecords(comm, sees);
  if (!all_see.ok()) return missing;
  const Helper helper{.program = program, .stop = context.stop};
  NamedHere mine;
  std::size_t f = 0;
  for (const auto& [path, damage] : files) {
    std::vector<int> ranks;
    for (int rank = 0; rank < comm.size(); ++rank) {
      const std::vector<std::uint8_t>& theirs = (*all_see)[static_cast<std::size_t>(rank)];
      if (f < theirs.size() && theirs[f] != 0) ranks.push_back(rank);
    }
    const std::size_t turn = f++;
    if (ranks.empty() || ranks[turn % ranks.size()] != comm.rank()) continue;
    // Edits may have moved objects since the index was made.
    const bool edited = std::ranges::any_of(damage, [](const Damage* one) { return IsEdit(one->cause); });
    const auto index = edited ? Result<ObjectMap>(Status(Code::kNotFound, "")) : ReadIndex(context.fs, path, {report.uuid, report.root});
    const Status named = index.ok() ? Status::Ok() : NamesFromFile(context.fs, helper, path, damage);
    if (index.ok()) NameObjects(*index, damage);
    if (!named.ok()) mine.missing.push_back(fmt::format("{}: not all names of what is damaged in it are known: {}", path, named.message()));
    for (const Damage* one : damage) {
      mine.entries.push_back({static_cast<std::uint64_t>(one - report.damage.data()), one->objects, one->objects_left_off});
    }
  }
  const auto all = AllGatherRecords(comm, mine);
  if (!all.ok()) return missing;
  for (const NamedHere& theirs : *all) {
    missing.insert(missing.end(), theirs.missing.begin(), theirs.missing.end());
    for (const NamedHere::Entry& entry : theirs.entries) {
      if (entry.number >= report.damage.size()) continue;
      report.damage[entry.number].objects = entry.objects;
      report.damage[entry.number].objects_left_off = entry.left_off;
    }
  }
  return missing;
}

std::vector<std::string> IndexObjects(const Context& context, const std::string& program, const DatasetRef& dataset,
                                      const DatasetReport& report, bool anew) {
  // A shared file is looked at by the first rank that sees it, a member by the one that it is dealt to.
  std::vector<std::string> paths;
  if (dataset.kind == DatasetKind::kShared) {
    const auto all = AllGatherRecords(context.comm, context.fs.Stat(dataset.path).ok());
    if (!all.ok()) return {all.status().message()};
    const auto first = std::ranges::find(*all, true) - all->begin();
    if (first == context.comm.rank()) paths.push_back(dataset.path);
  } else {
    for (const auto& [rank, path] : dataset.members) {
      if (dataset.IsDealtHere(rank)) paths.push_back(path);
    }
  }
  const IndexedCommit commit{report.uuid, report.root};
  std::vector<std::string> missing;
  for (const std::string& path : paths) {
    // After the commit, the sidecar has the file's own name.
    if (!anew && !context.fs.Stat(IndexPath(FollowLink(context.fs, path))).ok()) continue;
    const auto file = OpenWithObjects(context.fs, path);
    if (!file.ok() || ReadIndex(context.fs, path, commit).ok()) continue;
    Status indexed = kNoHelper;
    if (const Helper helper{.program = program, .stop = context.stop}; !helper.program.empty()) {
      const Answer answer = Ask(helper, **file, {});
      indexed = answer.failed.ok() ? WriteIndex(context.fs, path, commit, answer.frames) : answer.failed;
    }
    if (!indexed.ok()) missing.push_back(fmt::format("{}: its objects are not indexed: {}", path, indexed.message()));
  }
  const auto all = UniteRecords(context.comm, missing);
  return all.ok() ? *all : missing;
}

void RemoveIndexes(FileSystem& fs, DatasetReport& report) {
  const std::vector<std::string> sidecars = report.removed;
  for (const std::string& sidecar : sidecars) {
    const auto data = DataPathOf(sidecar);
    if (data && fs.Remove(IndexPath(*data)).ok()) report.removed.push_back(IndexPath(*data));
  }
}

}  // namespace lzy
