// The code of OpenDataset that shared files and sets share, streams of blocks, and geometries that follow from options.

#include "dataset/view.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <thread>

#include "dataset/member.h"
#include "geometry/grouping.h"

namespace lzy {

std::uint64_t DatasetView::data_bytes() const {
  std::uint64_t total = 0;
  for (const FileView& file : files()) total += committed ? file.stamp.size : file.stat.size;
  return total;
}

const FileView* DatasetView::UnknownFile(std::uint32_t rank) const {
  const auto at = std::ranges::find_if(extras, [&](const FileView& file) { return file.rank == rank && file.present; });
  return at == extras.end() ? nullptr : &*at;
}

bool DatasetView::IsUnknownMember(const FileView& file) const {
  return std::ranges::count(unknown_ranks, file.rank) != 0;
}

bool DatasetView::IsLeftover(const FileView& file) const {
  const bool of_another = file.fault == SidecarFault::kForeign || file.fault == SidecarFault::kOutdated;
  return of_another && !IsUnknownMember(file);
}

bool DatasetView::IsPartial() const {
  return unknown_elsewhere || std::ranges::any_of(files(), &FileView::not_visible);
}

bool DatasetView::UnknownFilesAreThere() const {
  return std::ranges::all_of(unknown_ranks, [&](std::uint32_t rank) { return UnknownFile(rank) != nullptr; });
}

namespace {

// Leaves made with several keys could never be proven. Ranks compare the ids of their keys; no rank sends the secret.
Status AgreeOnKey(const Context& context) {
  if (context.comm.size() == 1) return Status::Ok();
  const KeyId mine = context.options.key ? context.options.key->id() : KeyId{};
  LZY_ASSIGN_OR_RETURN(const auto all, context.comm.AllGather(mine));
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    return {Code::kInvalidArgument, fmt::format("key: ranks 0 and {} were given different keys, or one of them none", rank)};
  }
  return Status::Ok();
}

}  // namespace

Result<DatasetView> OpenDataset(const Context& context, const DatasetRef& ref, const OpenRequest& request) {
  LZY_RETURN_IF_ERROR(AgreeOnKey(context));
  return ref.kind == DatasetKind::kShared ? OpenShared(context, ref, request) : OpenSet(context, ref, request);
}

HeldLocks ReleaseLocks(DatasetView view) {
  HeldLocks held;
  const auto take = [&](FileView& file) {
    if (file.sidecar) held[file.path] = Sidecar::ReleaseFile(std::move(file.sidecar));
    if (file.former) held[file.path] = Sidecar::ReleaseFile(std::move(file.former));
    if (file.held) held[file.path] = std::move(file.held);
  };
  std::ranges::for_each(view.files(), take);
  std::ranges::for_each(view.extras, take);
  return held;
}

// The last block of a file may be short; blocks behind the end have length 0.
BlockStream DataStream(std::uint64_t block_size, std::uint64_t size, File* data, const Tree* expected, const LeafKey* key) {
  return {data, 0, HashTag::kDataLeaf, key, expected, [block_size, size](std::uint64_t index) {
            const std::uint64_t offset = index * block_size;
            const std::uint64_t left = offset < size ? size - offset : 0;
            return BlockPlace{offset, static_cast<std::uint32_t>(std::min(block_size, left)), index};
          }};
}

BlockStream DataStream(const Layout& layout, std::uint32_t file, File* data, const Tree* expected, const LeafKey* key) {
  return DataStream(layout.block_size(), layout.file_size(file), data, expected, key);
}

// Blocks of padding behind the last unit row have length 0.
BlockStream ParityStream(const Layout& layout, std::uint32_t region, File* sidecar, std::uint64_t base, const Tree* expected,
                         const LeafKey* key) {
  return {sidecar, base, HashTag::kParityLeaf, key, expected, [&layout, region](std::uint64_t index) {
            const Layout::DeviceRow at = layout.LocateParity(region, index);
            if (at.row.unit_row >= layout.unit_rows(at.row.group)) return BlockPlace{0, 0, index};
            return layout.ParityBlock(at.device, at.row.unit_row, at.row.slice);
          }};
}

BlockStream StreamOf(const Ensemble& ensemble, bool of_parity, std::uint32_t f) {
  const FileView& file = ensemble.files[f];
  const LeafKey* key = ensemble.key.get();
  if (!of_parity) return DataStream(*ensemble.layout, f, file.data.get(), file.data_tree(), key);
  return ParityStream(*ensemble.layout, f, file.parity(), file.parity_base, file.parity_tree(), key);
}

// Compares the recorded directories with those in which the parts were found.
bool PartsMoved(const DatasetView& view) {
  if (view.info.parts.directories.empty()) return false;
  const std::vector<std::string>& paths = view.ensembles[0].files[0].part_paths;
  return !std::equal(paths.begin(), paths.end(), view.info.parts.directories.begin(), view.info.parts.directories.end(),
                     [](const std::string& path, const std::string& recorded) { return DirectoryOf(path) == recorded; });
}

PlaceInFile ParityPlace(const FileView& file, std::uint64_t unit, std::uint64_t offset) {
  if (file.part_paths.empty()) return {file.sidecar_path, file.parity_base + offset};
  const std::uint64_t x = offset / unit, parts = file.part_paths.size();
  return {file.part_paths[x % parts], file.part_base + x / parts * unit + offset % unit};
}

std::optional<std::uint64_t> ParityOffset(const FileView& file, std::uint64_t unit, std::uint32_t device, std::uint64_t offset) {
  const std::uint64_t base = file.part_paths.empty() ? file.parity_base : file.part_base;
  if (offset < base) return std::nullopt;
  const std::uint64_t in_file = offset - base, parts = file.part_paths.size();
  if (parts == 0) return in_file;
  if (device >= parts || in_file / unit > ~std::uint64_t{0} / unit / parts - 1) return std::nullopt;
  return (in_file / unit * parts + device) * unit + in_file % unit;
}

void KeepGeometry(const Superblock& superblock, const InfoRecord& info, bool all, Options& options) {
  const auto keep = [&](const char* name) { return all || !options.given.contains(name); };
  if (keep("parity")) options.parity = superblock.parity;
  if (keep("group")) options.group = info.group_option;
  if (keep("block-size")) options.block_size = BlockSizeOptionOf(superblock);
  // With stripe=servers, the size of a unit follows from the servers. The recorded number stays for files whose stripes are
  // unknown.
  if (keep("stripe") || options.stripe_servers) options.stripe = info.stripe_option;
  const bool striped = superblock.placement == ParityPlacement::kStriped;
  if (keep("stripe")) options.stripe_servers = striped;
  if (!options.stripe_servers || !striped) return;
  options.by_servers = {superblock.unit, info.groups};
  if (options.parity == superblock.parity && options.group == info.group_option) return;
  // The servers are not known here, so devices of one server may come into one group.
  std::vector<std::string> devices;
  for (std::uint32_t d = 0; d < superblock.members; ++d) devices.push_back(std::to_string(d));
  options.by_servers->groups = DealGroups(devices, options.group, options.parity).groups;
}

GeometryParameters SharedGeometry(const Options& options, std::uint64_t size) {
  if (options.by_servers) {
    const std::uint32_t block_size = ChooseBlockSize(options.block_size, size);
    return {DatasetKind::kShared, options.device_dirs.empty() ? ParityPlacement::kStriped : ParityPlacement::kDirectories, block_size,
            std::max<std::uint64_t>(options.by_servers->unit, block_size), options.parity, options.by_servers->groups};
  }
  // Stripe positions of one file fail one by one, so each device is a failure domain.
  std::vector<std::string> domains;
  const bool parted = !options.device_dirs.empty();
  const std::size_t devices = parted ? options.device_dirs.size() : options.group;
  for (std::size_t d = 0; d < devices; ++d) domains.push_back(std::to_string(d));
  GeometryParameters parameters{.kind = DatasetKind::kShared,
                                .placement = parted ? ParityPlacement::kDirectories : ParityPlacement::kPooled,
                                .block_size = ChooseBlockSize(options.block_size, size),
                                .parity = options.parity,
                                .groups = DealGroups(domains, options.group, options.parity).groups};
  std::size_t largest = 0;
  for (const auto& group : parameters.groups) largest = std::max(largest, group.size());
  parameters.unit =
      ChooseUnit(DatasetKind::kShared, parameters.block_size, options.stripe, static_cast<std::uint32_t>(largest), size);
  return parameters;
}

GeometryParameters GroupGeometry(std::uint32_t block_size, std::uint64_t unit, std::uint32_t parity, std::size_t members) {
  std::vector<std::uint32_t> devices(members);
  std::iota(devices.begin(), devices.end(), 0u);
  return {DatasetKind::kSet, ParityPlacement::kPerDevice, block_size, unit, parity, {std::move(devices)}};
}

// Written so that nothing overflows.
Interval PartOf(std::uint64_t total, int rank, int size) {
  const std::uint64_t ranks = static_cast<std::uint64_t>(size), r = static_cast<std::uint64_t>(rank);
  const auto begin = [&](std::uint64_t of) { return total / ranks * of + std::min(of, total % ranks); };
  return {begin(r), begin(r + 1)};
}

// Launchers of MPI set variables with the number of ranks on this node. Without them, assumes that all ranks are here.
unsigned ThreadsFor(const Context& context) {
  if (context.options.threads > 0) return context.options.threads;
  cpu_set_t cpus;
  unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  if (sched_getaffinity(0, sizeof cpus, &cpus) == 0) cores = std::max(1, CPU_COUNT(&cpus));
  unsigned local = static_cast<unsigned>(context.comm.size());
  for (const char* name : {"MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_NTASKS_PER_NODE"}) {
    if (const char* text = std::getenv(name)) local = std::max(1u, static_cast<unsigned>(std::atoi(text)));
  }
  return std::max(1u, cores / std::max(1u, local));
}

}  // namespace lzy
