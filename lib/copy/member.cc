#include "copy/member.h"

#include <mutex>
#include <optional>

#include "names/lookup.h"
#include "names/membership.h"
#include "names/resolve.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

bool HasAllHashes(const FileView& file) {
  return file.sidecar_usable() && (file.sidecar == nullptr || file.sidecar->knows_all_leaves());
}

// Members of sets by their real paths. Kept with the file system.
class KnownMembers {
 public:
  // `fresh`: opens the set again. nullopt: the file is no member of a committed set. Resolves `path` as it is given: the looks at its
  // directory, which are shared, may have such paths.
  Result<std::optional<MemberRule>> Find(FileSystem& fs, const Options& options, const std::string& path, bool fresh) {
    const std::lock_guard lock(mutex_);
    LZY_ASSIGN_OR_RETURN(const std::string real, fs.RealPath(path));
    const auto kept = by_path_.find(real);
    if (!fresh && kept != by_path_.end()) return kept->second;
    by_path_[real] = std::nullopt;
    LZY_RETURN_IF_ERROR(LookAt(fs, options, path));
    return by_path_[real];
  }

 private:
  Status LookAt(FileSystem& fs, const Options& options, const std::string& path) {
    const auto self = SelfCommunicator();
    LZY_ASSIGN_OR_RETURN(const auto found, ResolvePath(fs, *self, path, Resolve::kProtected));
    if (found.size() != 1 || found[0].kind != DatasetKind::kSet) return Status::Ok();
    LZY_ASSIGN_OR_RETURN(const DatasetView view, OpenDataset({fs, *self, options}, found[0], {}));
    if (!view.committed) return Status::Ok();
    const auto keep = [&](const std::string& member, const std::optional<MemberRule>& rule) {
      if (const auto real = fs.RealPath(member); real.ok()) by_path_[*real] = rule;
    };
    for (const FileView& extra : view.extras) keep(extra.path, std::nullopt);
    for (const auto& [rank, rule] : RulesOf(view)) keep(ExpandPattern(found[0].path, rank), rule);
    return Status::Ok();
  }

  std::mutex mutex_;
  std::map<std::string, std::optional<MemberRule>> by_path_;
};

}  // namespace

std::map<std::uint32_t, MemberRule> RulesOf(const DatasetView& view) {
  std::map<std::uint32_t, MemberRule> rules;
  const Superblock& sb = view.superblock;
  for (const Ensemble& ensemble : view.ensembles) {
    for (std::size_t f = 0; f < ensemble.files.size() && f < ensemble.records.size(); ++f) {
      const FileView& file = ensemble.files[f];
      const MemberRecord& record = ensemble.records[f];
      rules[record.rank] = {.record = {.sidecar = file.sidecar_path, .path = file.path, .block_size = sb.block_size, .key_id = sb.key_id, .set = sb.uuid,
                                       .generation = sb.generation, .size = record.size, .commit_clock_ns = file.commit_clock_ns,
                                       .root = record.data_root},
                            .usable = HasAllHashes(file)};
    }
  }
  for (const std::uint32_t rank : view.unknown_ranks) rules[rank] = {.record = {}, .known = false};
  return rules;
}

bool IsAsRecorded(FileSystem& fs, const std::string& path, const RecordedMember& record, const LeafKey* key) {
  const std::string real = FollowLink(fs, path);
  const auto stat = fs.Stat(real, /*follow=*/false);
  return stat.ok() && stat->size == record.size && RootsOf(fs, real, key).Are(record);
}

Result<ByItsSet> JudgeByItsSet(FileSystem& fs, const Options& options, const std::string& path, const Superblock* own) {
  const std::string real = FollowLink(fs, path);
  if (own == nullptr && !IsClaimedByASet(fs, real)) return ByItsSet::kNotAsked;
  // What was kept may be out of date, so it decides nothing but that all is well.
  for (const bool fresh : {false, true}) {
    LZY_ASSIGN_OR_RETURN(const auto rule, fs.Memo<KnownMembers>().Find(fs, options, real, fresh));
    if (!rule && own == nullptr) break;
    if (!rule) continue;
    const bool of_last = own != nullptr && rule->record.set == own->uuid && own->generation >= rule->record.generation;
    if (of_last && (rule->usable || own->generation > rule->record.generation)) return ByItsSet::kNotAsked;
    if (!rule->known) return ByItsSet::kUnknown;
    if (IsAsRecorded(fs, real, rule->record, options.key.get())) return ByItsSet::kRight;
    if (fresh) return ByItsSet::kWrong;
  }
  return ByItsSet::kNotAsked;
}

}  // namespace lzy
