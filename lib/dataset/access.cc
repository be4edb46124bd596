#include "dataset/access.h"

#include <algorithm>

#include "base/acl.h"

namespace lzy {
namespace {

// A file that is not open on this rank counts as recorded: another rank compares it.
Result<bool> IsRecorded(const FileView& file, const MemberRecord& record) {
  if (!file.data || !file.sidecar) return true;
  LZY_ASSIGN_OR_RETURN(const FileStat now, StatToRecord(*file.data));
  if (now.mode != record.mode || now.uid != record.uid || now.gid != record.gid) return false;
  if (!HasOwnerOfFile(file)) return true;
  LZY_ASSIGN_OR_RETURN(const Acl acl, file.data->AccessAcl());
  LZY_ASSIGN_OR_RETURN(const Acl beside, file.sidecar->file().AccessAcl());
  return beside == WithoutExecute(acl);
}

}  // namespace

bool HasOwnerOfFile(const FileView& file) {
  return file.sidecar_uid == file.stat.uid && file.sidecar_gid == file.stat.gid;
}

Result<bool> AccessIsRecorded(const Context& context, const DatasetView& view) {
  bool recorded = true;
  LZY_RETURN_IF_ERROR(AgreeOn(context.comm, [&]() -> Status {
    for (const Ensemble& ensemble : view.ensembles) {
      const bool shared = view.ref.kind == DatasetKind::kShared;
      const std::vector<MemberRecord>& records = shared ? view.info.members : ensemble.records;
      for (std::size_t f = 0; f < std::min(records.size(), ensemble.files.size()); ++f) {
        LZY_ASSIGN_OR_RETURN(const bool one, IsRecorded(ensemble.files[f], records[f]));
        recorded = recorded && one;
      }
    }
    return Status::Ok();
  }));
  LZY_ASSIGN_OR_RETURN(const std::uint64_t differ, context.comm.AllReduceMax(recorded ? 0 : 1));
  return differ == 0;
}

}  // namespace lzy
