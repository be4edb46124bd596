#include "geometry/stripes.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "geometry/grouping.h"

namespace lzy {
namespace {

// The most devices of all groups. Lustre has at most 2000 stripes, so more are an error of the file system.
constexpr std::uint64_t kMostDevices = 4096;
constexpr std::uint64_t kMostRows = 16384;

// The piece with most bytes of the file; the first one if the file is empty.
const StripePiece& MainPiece(const StripeLayout& stripes, std::uint64_t size) {
  const auto bytes = [&](const StripePiece& piece) { return std::min(piece.end, size) - std::min(piece.begin, size); };
  return *std::ranges::max_element(stripes.pieces, {}, bytes);
}

// The failure domain of each unit of a round of stripes. Places without a name fail alone.
std::vector<std::string> DomainsOf(const StripePiece& piece, std::uint64_t places, std::uint64_t units_of_stripe) {
  std::vector<std::string> domains;
  for (std::uint64_t d = 0; d < places * units_of_stripe; ++d) {
    const std::uint64_t stripe = d / units_of_stripe;
    const std::string name = piece.servers.empty() ? "" : piece.servers[stripe];
    domains.push_back(name.empty() ? fmt::format("stripe {}", stripe) : "server " + name);
  }
  return domains;
}

}  // namespace

std::string_view StripeLayout::ServerAt(std::uint64_t offset) const {
  for (const StripePiece& piece : pieces) {
    if (offset < piece.begin || offset >= piece.end || piece.servers.empty()) continue;
    return piece.servers[offset / piece.unit % piece.servers.size()];
  }
  return {};
}

Result<ServerGeometry> GeometryByServers(const StripeLayout& stripes, std::uint64_t size, std::uint32_t block_size,
                                         std::uint32_t max_group, std::uint32_t parity) {
  const auto refuse = [](std::string why) { return Status(Code::kInvalidArgument, std::move(why)); };
  const StripePiece& piece = MainPiece(stripes, size);
  const std::set<std::string> servers(piece.servers.begin(), piece.servers.end());
  const bool named = !servers.contains("") && !servers.empty();
  if (named && servers.size() == 1) {
    return refuse(fmt::format("all of it is on one server, {}, so no geometry can bear its loss", *servers.begin()));
  }
  if (named && servers.size() < std::uint64_t{parity} + 1) {
    return refuse(fmt::format("it is on {} servers, which are too few for parity {}: at least {} are needed", servers.size(), parity,
                              parity + 1));
  }
  ServerGeometry geometry;
  geometry.unit = std::min(piece.unit & (~piece.unit + 1), kMaxUnit);
  if (geometry.unit < block_size) {
    return refuse(fmt::format("its stripes of {} bytes are no multiple of its blocks of {}", piece.unit, block_size));
  }
  const std::uint64_t places = piece.servers.empty() ? max_group : piece.servers.size();
  const std::uint64_t units_of_stripe = piece.unit / geometry.unit;
  if (units_of_stripe > kMostDevices || places * units_of_stripe > kMostDevices) {
    return refuse(fmt::format("its stripes of {} bytes in {} places would make more than {} devices", piece.unit, places, kMostDevices));
  }
  const Grouping dealt = DealGroups(DomainsOf(piece, places, units_of_stripe), max_group, parity);
  if (dealt.too_few_devices) {
    return refuse(fmt::format("it is in {} places, which are too few for parity {}: at least {} are needed", places, parity, parity + 1));
  }
  geometry.groups = dealt.groups;
  return geometry;
}

// If the sidecar is not laid out by stripes, a block may cross the end of a stripe. So both ends of a block are examined.
ServerLoss WorstServer(const Layout& layout, const ServerOf& server_of) {
  ServerLoss worst;
  for (std::uint32_t g = 0; g < layout.group_count(); ++g) {
    std::uint64_t looked_at = 0;
    for (std::uint64_t t = 0; t < layout.unit_rows(g); ++t) {
      for (std::uint32_t slice = 0; slice < layout.slices(); ++slice) {
        if (++looked_at > kMostRows) break;
        std::map<std::string_view, std::uint32_t> blocks;
        for (const std::uint32_t device : layout.group(g)) {
          const bool of_parity = layout.IsParity(device, t);
          const BlockPlace place = layout.Block(of_parity, device, t, slice);
          if (place.length == 0) continue;
          const std::uint32_t holder = layout.HolderOf(of_parity, device);
          const std::string_view first = server_of(of_parity, holder, place.offset);
          const std::string_view last = server_of(of_parity, holder, place.offset + place.length - 1);
          if (!first.empty()) ++blocks[first];
          if (!last.empty() && last != first) ++blocks[last];
        }
        for (const auto& [server, count] : blocks) {
          if (count > worst.blocks) worst = {std::string(server), count};
        }
      }
      if (looked_at > kMostRows) break;
    }
  }
  return worst;
}

std::vector<std::string> ServersOfDevice(const Layout& layout, std::uint32_t device, const ServerOf& server_of, std::size_t most) {
  std::vector<std::string> servers;
  const std::uint32_t g = layout.group_of(device);
  const std::uint64_t rows = std::min(layout.unit_rows(g), kMostRows / layout.slices() + 1);
  for (const bool of_parity : {false, true}) {
    for (std::uint64_t t = 0; t < rows && servers.size() < most; ++t) {
      if (layout.IsParity(device, t) != of_parity) continue;
      for (std::uint32_t slice = 0; slice < layout.slices() && servers.size() < most; ++slice) {
        const BlockPlace place = layout.Block(of_parity, device, t, slice);
        const std::string name(place.length == 0 ? "" : server_of(of_parity, layout.HolderOf(of_parity, device), place.offset));
        if (!name.empty() && std::ranges::count(servers, name) == 0) servers.push_back(name);
      }
    }
    if (!servers.empty()) break;
  }
  return servers;
}

}  // namespace lzy
