// A shared file opened: rank 0 holds its lock.

#include <fmt/format.h>

#include "engine/member.h"

namespace lzy {

Result<DatasetView> OpenShared(const Context& context, const DatasetRef& ref, const OpenRequest& request) {
  DatasetView view;
  view.ref = ref;
  Ensemble& ensemble = view.ensembles.emplace_back();
  FileView& file = ensemble.files.emplace_back();
  // Rank 0 takes the lock; the others read what it leaves.
  const bool first = context.comm.rank() == 0;
  Status opened;
  Summary summary;
  auto open = [&](bool write) {
    auto result = OpenMember(context, ref.path, write, file);
    if (result.ok()) summary = std::move(result).value();
    return result.status();
  };
  if (first) opened = open(request.write);
  LZY_RETURN_IF_ERROR(Agree(context.comm, opened));
  if (!first) {
    opened = open(false);
    if (opened.ok() && request.write && file.data != nullptr) {
      if (auto writable = OpenData(context.fs, ref.path, true); writable.ok()) file.data = std::move(writable).value();
    }
  }
  LZY_RETURN_IF_ERROR(Agree(context.comm, opened));
  Communicator::Bytes bytes;
  if (first) {
    ByteWriter out;
    PutSummary(out, summary);
    bytes = std::move(out.bytes());
  }
  LZY_RETURN_IF_ERROR(context.comm.Broadcast(bytes, 0));
  ByteReader in(bytes);
  LZY_ASSIGN_OR_RETURN(summary, GetSummary(in));
  Fill(file, summary);
  file.path = ref.path;
  if (!file.sidecar_usable()) {
    if (!file.fault_text.empty()) view.unusable = {Code::kUnprotected, file.fault_text};
    return view;
  }
  view.superblock = summary.superblock;
  LZY_ASSIGN_OR_RETURN(view.info, DecodeInfo(summary.info));
  view.committed = view.superblock.state == SidecarState::kCommitted && view.superblock.kind == DatasetKind::kShared;
  Status same;
  if (view.committed) {
    if (!file.sidecar || file.sidecar->generation() != view.superblock.generation) {
      same = {Code::kIo,
              fmt::format("{}: ranks see different sidecars; is the directory shared by all of them?", ref.path)};
    } else if (auto layout = LayoutOf(file.sidecar->contents()); layout.ok()) {
      ensemble.layout = std::move(layout).value();
    } else {
      view.committed = false;
      view.unusable = {Code::kUnprotected, layout.status().message()};
    }
  }
  LZY_RETURN_IF_ERROR(Agree(context.comm, same));
  return view;
}

}  // namespace lzy
