#include "dataset/by_servers.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "storage/file_stripes.h"

namespace lzy {
namespace {

/// The stripes of `file`. nullopt if it is not open (null) or the answer makes no sense; `fault` then gets the reason.
std::optional<StripeLayout> Ask(FileSystem& fs, File* file, std::string* fault = nullptr) {
  if (file == nullptr) return std::nullopt;
  Stripes told = StripesOf(fs, *file);
  if (told.ok()) return std::move(*told);
  if (fault != nullptr) *fault = told.status().message();
  return std::nullopt;
}

/// The server whose loss takes the byte at `offset`. Empty if the file system tolerates the loss.
std::string_view Loses(const std::optional<StripeLayout>& stripes, std::uint64_t offset) {
  return stripes && !stripes->redundant ? stripes->ServerAt(offset) : std::string_view();
}

/// True if option stripe=servers would give a shared file another geometry.
bool CouldBeByServers(const FileView& file, const Superblock& sb, std::uint32_t group) {
  const auto& stripes = file.stripes.data;
  return stripes && !stripes->redundant && file.part_paths.empty() &&
         GeometryByServers(*stripes, file.stat.size, sb.block_size, group, sb.parity).ok();
}

}  // namespace

ServersChoice ChooseByServers(FileSystem& fs, File& file, const Options& options, std::uint64_t size) {
  ServersChoice choice{options.by_servers, options.stripe, {}, {}};
  choice.stripes = Ask(fs, &file, &choice.why_not);
  const auto& stripes = choice.stripes;
  if (!stripes || stripes->redundant) return choice;
  auto geometry = GeometryByServers(*stripes, size, ChooseBlockSize(options.block_size, size), options.group, options.parity);
  if (!geometry.ok()) {
    choice.why_not = geometry.status().message();
    return choice;
  }
  if (options.device_dirs.empty()) {
    choice.stripe = geometry->unit;
    choice.geometry = std::move(*geometry);
    return choice;
  }
  std::size_t devices = 0;
  for (const auto& group : geometry->groups) devices += group.size();
  if (devices == options.device_dirs.size()) {
    choice.stripe = geometry->unit;
  } else {
    choice.why_not = fmt::format("its stripes make {} devices, and there are {} device-dirs", devices, options.device_dirs.size());
  }
  return choice;
}

std::string ApplyServers(FileSystem& fs, File& file, std::uint64_t size, Options& options) {
  ServersChoice choice = ChooseByServers(fs, file, options, size);
  options.by_servers = std::move(choice.geometry);
  options.stripe = choice.stripe;
  return std::move(choice.why_not);
}

std::string OnlyServerOf(FileSystem& fs, File& file) {
  const auto stripes = Ask(fs, &file);
  if (!stripes || stripes->redundant) return {};
  std::set<std::string> servers;
  for (const StripePiece& piece : stripes->pieces) {
    if (piece.servers.empty()) return {};
    servers.insert(piece.servers.begin(), piece.servers.end());
  }
  return servers.size() == 1 ? *servers.begin() : std::string();
}

FileStripes StripesOfFile(FileSystem& fs, const FileView& file) {
  FileStripes stripes;
  stripes.data = Ask(fs, file.data.get(), &stripes.fault);
  if (!stripes.data) return stripes;
  stripes.sidecar = Ask(fs, file.sidecar ? &file.sidecar->file() : nullptr);
  for (std::size_t d = 0; file.parts && d < file.part_paths.size(); ++d) stripes.parts.push_back(Ask(fs, file.parts->part(d)));
  return stripes;
}

ServerOf ServersOf(const Layout& layout, const std::vector<FileView>& files) {
  return [&layout, &files](bool of_parity, std::uint32_t f, std::uint64_t offset) -> std::string_view {
    const FileView& file = files[f];
    const FileStripes& stripes = file.stripes;
    if (!of_parity) return Loses(stripes.data, offset);
    if (file.part_paths.empty()) return Loses(stripes.sidecar, file.parity_base + offset);
    const std::uint64_t unit = layout.unit(), x = offset / unit, parts = file.part_paths.size();
    if (stripes.parts.size() != parts) return {};
    return Loses(stripes.parts[x % parts], file.part_base + x / parts * unit + offset % unit);
  };
}

bool WarnOfServer(const std::string& path, const ServerLoss& worst, std::uint32_t parity, bool by_servers, bool could_be,
                  std::vector<std::string>& warnings) {
  if (parity == 0 || worst.blocks <= parity) return false;
  const char* advice = by_servers ? ". Some of its parity is on servers of its data: a larger parity bears that, or device-dirs, one on each server"
                       : could_be ? ". Option stripe=servers makes a device of each server"
                                  : "";
  warnings.push_back(fmt::format("{}: if server {} is lost, parity {} cannot rebuild it: {} blocks of one row are there{}", path,
                                 worst.server, parity, worst.blocks, advice));
  return true;
}

// The distance of copies is a power of two, so corresponding pages may be on one server although the sidecar is on many.
std::string ServerOfAllCopies(const FileStripes& stripes, const Superblock& superblock) {
  constexpr std::uint64_t kPage = 4096, kMostLooks = 4096;
  if (!stripes.data || !stripes.sidecar || stripes.data->redundant || stripes.sidecar->redundant || superblock.parity == 0) return {};
  std::set<std::string_view> with_data;
  for (const StripePiece& piece : stripes.data->pieces) with_data.insert(piece.servers.begin(), piece.servers.end());
  const std::uint64_t length = superblock.compact ? kPage : superblock.spacing;
  for (std::uint64_t at = 0; at < length; at += std::max(kPage, length / kMostLooks)) {
    const std::string_view server = stripes.sidecar->ServerAt(superblock.PlaceOf(0) + at);
    bool everywhere = !server.empty() && with_data.contains(server);
    for (std::uint32_t c = 1; everywhere && c < superblock.copies; ++c) {
      everywhere = stripes.sidecar->ServerAt(superblock.PlaceOf(c) + at) == server;
    }
    if (everywhere) return std::string(server);
  }
  return {};
}

bool WarnOfCopies(const std::string& path, const std::string& server, std::vector<std::string>& warnings) {
  if (server.empty()) return false;
  warnings.push_back(fmt::format("{}: if server {} is lost, all copies of some of its hashes are lost together with data. Device-dirs bear "
                                 "that, one on each server", path, server));
  return true;
}

void DescribeServers(const DatasetView& view, DatasetReport& report) {
  ServerLoss worst;
  std::set<std::string> servers;
  for (const Ensemble& ensemble : view.ensembles) {
    for (const FileView& file : ensemble.files) {
      if (!file.stripes.fault.empty()) report.warnings.push_back(fmt::format("{}: {}", file.path, file.stripes.fault));
      if (!file.stripes.data) continue;
      const StripeLayout& stripes = *file.stripes.data;
      StripeNote& note = report.stripes ? *report.stripes : report.stripes.emplace();
      note.file_system = stripes.file_system;
      note.unit = std::max(note.unit, stripes.pieces.back().unit);
      note.redundant = stripes.redundant;
      for (const StripePiece& piece : stripes.pieces) servers.insert(piece.servers.begin(), piece.servers.end());
    }
    if (!report.stripes || !ensemble.layout) continue;
    const ServerLoss here = WorstServer(*ensemble.layout, ServersOf(*ensemble.layout, ensemble.files));
    if (here.blocks > worst.blocks) worst = here;
  }
  if (!report.stripes) return;
  servers.erase("");
  report.stripes->servers = static_cast<std::uint32_t>(servers.size());
  report.stripes->worst_server = worst.server;
  report.stripes->worst_blocks = worst.blocks;
  const bool shared = view.ref.kind == DatasetKind::kShared;
  const bool by_servers = view.superblock.placement == ParityPlacement::kStriped;
  const bool could_be = shared && !by_servers && CouldBeByServers(view.ensembles[0].files[0], view.superblock, view.info.group_option);
  report.stripes->by_servers = by_servers;
  const bool warned = WarnOfServer(view.ref.path, worst, view.superblock.parity, by_servers, could_be, report.warnings);
  if (warned || !shared || view.superblock.parted()) return;
  WarnOfCopies(view.ref.path, ServerOfAllCopies(view.ensembles[0].files[0].stripes, view.superblock), report.warnings);
}

}  // namespace lzy
