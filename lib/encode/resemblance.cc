#include "encode/resemblance.h"

#include <algorithm>
#include <span>
#include <vector>

#include "comm/records.h"
#include "encode/rebuild.h"

namespace lzy {
namespace {

// The most blocks of an ensemble that are compared. If they do not decide about a file, its verdict stays.
constexpr std::size_t kMostCompared = 64;

// The result of comparing blocks of one file.
struct Compared {
  std::uint32_t ensemble = 0, file = 0;
  std::uint64_t same = 0, total = 0;  // bytes
  LZY_FIELDS(ensemble, file, same, total)
};

// A renamed file is known by its birth. If births are unknown, it may have an inode that another file had before.
bool IsSuspect(const FileView& file) {
  const Identity& identity = file.identity;
  if (identity.Is(Identity::Kind::kRenamed)) return !BirthIdentifiesFile(file.stat.birth_ns);
  return identity.Is(Identity::Kind::kAnother) || identity.Is(Identity::Kind::kUnlike);
}

// Rows with lost blocks of suspects, but no more lost blocks than parity can rebuild.
Result<std::vector<RowRun>> RunsOf(const Ensemble& ensemble, const std::vector<FileFindings>& findings) {
  const Layout& layout = *ensemble.layout;
  const std::vector<LostBlock> lost = LostBlocks(ensemble, findings);
  PlanCache plans(layout);
  std::vector<RowRun> runs;
  Status status;
  std::size_t blocks = 0;
  ForEachRow(lost, [&](std::size_t begin, std::size_t end) {
    std::vector<std::uint32_t> devices, wanted;
    for (const LostBlock& block : std::span(lost).subspan(begin, end - begin)) {
      devices.push_back(block.device);
      if (!block.parity && IsSuspect(ensemble.files[layout.HolderOf(false, block.device)])) wanted.push_back(block.device);
    }
    blocks += wanted.size();
    if (!status.ok() || wanted.empty() || devices.size() > layout.parity() || blocks > kMostCompared) return;
    const LostBlock& row = lost[begin];
    auto plan = plans.Rebuild(row.group, row.unit_row, devices, wanted);
    status = plan.status();
    if (plan.ok()) runs.push_back({row.group, row.unit_row, row.slice, 1, std::move(*plan)});
  });
  if (!status.ok()) return status;
  return runs;
}

// `compared`: the result for file number `f`.
bool IsTheCommitted(const FileView& file, const Layout& layout, std::uint32_t f, const FileFindings& found, const Compared& compared) {
  const std::uint64_t size = layout.file_size(f);
  if (file.stat.size / 2 > size) return false;  // rot does not make a file much longer
  std::uint64_t differing = 0;  // blocks that are there
  for (const BadBlocks& bad : found.data) {
    if (!bad.transient && bad.first * layout.block_size() < file.stat.size) differing += bad.count;
  }
  // If only a few of the differing blocks could be compared, the result says nothing about the others.
  const bool enough = 2 * compared.total >= std::min<std::uint64_t>(differing, kMostCompared) * std::min<std::uint64_t>(layout.block_size(), file.stat.size);
  return enough && AreOfOneFile(compared.same, compared.total);
}

// Rebuilds these rows, and compares. `comm`: the ranks that take part; they own the devices as `owners` says.
Status Compare(const Context& context, const Ensemble& ensemble, Communicator& comm, std::vector<int> owners,
               std::span<const RowRun> runs, std::vector<Compared>& found) {
  const Layout& layout = *ensemble.layout;
  const RowStreams streams = StreamsOf(ensemble);
  const auto take = [&](const RowBlock& block, ByteSpan rebuilt) {
    const BlockStream& stream = streams.of(layout, block);
    std::vector<std::uint8_t> there(rebuilt.size());
    const auto read = stream.file == nullptr ? Result<std::size_t>(Code::kNotFound, "")
                                             : stream.file->ReadAt(stream.base + block.place.offset, there);
    if (!read.ok()) return;
    Compared& of_file = found[layout.HolderOf(block.parity, block.device)];
    for (std::size_t i = 0; i < *read; ++i) of_file.same += there[i] == rebuilt[i];
    of_file.total += *read;
  };
  return RebuildInMemory(context, layout, streams, comm, std::move(owners), runs, ensemble.files[0].path, take);
}

}  // namespace

Status RecognizeRot(const Context& context, DatasetView& view, const Findings& findings) {
  if (std::ranges::none_of(view.files(), IsSuspect)) return Status::Ok();
  const bool shared = view.ref.kind == DatasetKind::kShared;
  std::vector<Compared> mine;
  for (std::uint32_t e = 0; e < view.ensembles.size(); ++e) {
    const Ensemble& ensemble = view.ensembles[e];
    if (std::ranges::none_of(ensemble.files, IsSuspect)) continue;
    std::vector<RowRun> runs;
    LZY_RETURN_IF_ERROR(AgreeOn(context.comm, [&]() -> Status {
      LZY_ASSIGN_OR_RETURN(runs, RunsOf(ensemble, findings.files[e]));
      return Status::Ok();
    }));
    std::vector<Compared> found(ensemble.files.size());
    for (std::uint32_t f = 0; f < found.size(); ++f) found[f] = {e, f, 0, 0};
    // After a failure nothing counts as compared.
    if (shared) {
      const auto self = SelfCommunicator();
      if (context.comm.rank() == 0) {
        (void)NoThrow([&] { return Compare(context, ensemble, *self, std::vector<int>(ensemble.layout->devices(), 0), runs, found); });
      }
    } else if (Communicator* const comm = ensemble.group_comm ? ensemble.group_comm.get()
                                          : view.ensembles.size() == 1 || context.comm.size() == 1 ? &context.comm : nullptr) {
      (void)Compare(context, ensemble, *comm, OwnersIn(ensemble, *comm), runs, found);
    }
    mine.insert(mine.end(), found.begin(), found.end());
  }
  LZY_ASSIGN_OR_RETURN(const auto all, UniteRecords(context.comm, mine));
  std::vector<std::vector<Compared>> sums;
  for (const Ensemble& ensemble : view.ensembles) sums.emplace_back(ensemble.files.size());
  for (const Compared& one : all) {
    sums.at(one.ensemble).at(one.file).same += one.same;
    sums.at(one.ensemble).at(one.file).total += one.total;
  }
  for (std::size_t e = 0; e < sums.size(); ++e) {
    for (std::size_t f = 0; f < sums[e].size(); ++f) {
      FileView& file = view.ensembles[e].files[f];
      const auto number = static_cast<std::uint32_t>(f);
      const bool whole_seconds = file.identity.whole_seconds;
      if (IsSuspect(file) && IsTheCommitted(file, *view.ensembles[e].layout, number, findings.files[e][f], sums[e][f])) {
        // If it is not the very file, it may be a similar version of it. So a repair keeps a copy.
        file.identity = {};
        if (!MayBe(file.stat, file.stamp) || whole_seconds) file.identity.kind = Identity::Kind::kUnlike;
        file.identity.whole_seconds = whole_seconds;
      } else if (whole_seconds && file.identity.Is(Identity::Kind::kAnother)) {
        file.identity = {};  // it has another time than the committed file, so it is an edit
      }
    }
  }
  return Status::Ok();
}

}  // namespace lzy
