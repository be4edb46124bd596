#include "common/objects.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/record.h"
#include "comm/records.h"
#include "objects/ask.h"

namespace lzy {
namespace {

/// What one rank tells the others.
struct Named {
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

// Beside the tools in the build tree; where it is installed, with the layer.
std::string HelperProgram() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return "";
  for (const auto* place : {".", LZY_BIN_TO_LAYER}) {
    const auto path = self.parent_path() / place / "lzy-objects-helper";
    if (access(path.c_str(), X_OK) == 0) return path.string();
  }
  return "";
}

// The files of the report's data that are damaged, with their entries. An entry without length is no place.
std::map<std::string, std::vector<Damage*>> DamagedFiles(DatasetReport& report) {
  std::map<std::string, std::vector<Damage*>> files;
  for (Damage& damage : report.damage) {
    if (damage.part == DamagePart::kData && damage.length > 0) files[damage.path].push_back(&damage);
  }
  return files;
}

}  // namespace

std::vector<std::string> NameObjects(Communicator& comm, DatasetReport& report, const std::function<bool()>& stop) {
  std::vector<std::string> missing;
  const auto files = DamagedFiles(report);
  if (files.empty()) return missing;
  // Which of the files this rank can name something in. On shared storage, ranks take turns.
  std::vector<std::uint8_t> sees;
  for (const auto& [path, damage] : files) sees.push_back(HasObjects(path));
  const auto all_see = AllGatherRecords(comm, sees);
  if (!all_see.ok()) return missing;
  const Helper helper{.program = HelperProgram(), .stop = stop};
  Named mine;
  std::size_t f = 0;
  for (const auto& [path, damage] : files) {
    std::vector<int> ranks;
    for (int rank = 0; rank < comm.size(); ++rank) {
      const std::vector<std::uint8_t>& theirs = (*all_see)[static_cast<std::size_t>(rank)];
      if (f < theirs.size() && theirs[f] != 0) ranks.push_back(rank);
    }
    const std::size_t turn = f++;
    if (ranks.empty() || ranks[turn % ranks.size()] != comm.rank()) continue;
    const Status named = helper.program.empty() ? Status(Code::kNotFound, "the program lzy-objects-helper is not installed")
                                                : NameObjects(helper, path, damage, nullptr);
    if (!named.ok()) mine.missing.push_back(fmt::format("{}: not all names of what is damaged in it are known: {}", path, named.message()));
    for (const Damage* one : damage) {
      mine.entries.push_back({static_cast<std::uint64_t>(one - report.damage.data()), one->objects, one->objects_left_off});
    }
  }
  const auto all = AllGatherRecords(comm, mine);
  if (!all.ok()) return missing;
  for (const Named& theirs : *all) {
    missing.insert(missing.end(), theirs.missing.begin(), theirs.missing.end());
    for (const Named::Entry& entry : theirs.entries) {
      if (entry.number >= report.damage.size()) continue;
      report.damage[entry.number].objects = entry.objects;
      report.damage[entry.number].objects_left_off = entry.left_off;
    }
  }
  return missing;
}

}  // namespace lzy
