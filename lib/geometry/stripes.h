#pragma once
// Stripes of a file system, and what follows from them: a geometry in which one server is one device, and what the loss of
// one server takes from the rows of a dataset (docs/design/overview.md §3, "Servers of a file system"). Pure: storage/stripes asks
// the file system.

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/record.h"
#include "base/status.h"
#include "geometry/layout.h"

namespace lzy {

/// How bytes [begin, end) of a file are spread over servers.
struct StripePiece {
  static constexpr std::uint64_t kNoEnd = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t begin = 0;
  std::uint64_t end = kNoEnd;
  /// Bytes in one place before the next one. Stripes are counted from the beginning of the file, not of the piece. At
  /// least 1; kNoEnd: all of the piece is in one place.
  std::uint64_t unit = kNoEnd;
  /// Stripe i is on server i % size(). An empty name: a place of its own, and the file system does not tell which. An
  /// empty list: so is each stripe.
  std::vector<std::string> servers = {};
  LZY_FIELDS(begin, end, unit, servers)
  friend bool operator==(const StripePiece&, const StripePiece&) = default;
};

/// What a file system tells of one file.
struct StripeLayout {
  std::string file_system;  ///< "Lustre": for messages
  /// Ascending and disjoint, at least one. What is in no piece is stored nowhere yet.
  std::vector<StripePiece> pieces;
  bool redundant = false;  ///< the file system itself bears the loss of one server
  /// The server of a byte; empty if it is not told.
  std::string_view ServerAt(std::uint64_t offset) const;
  LZY_FIELDS(file_system, pieces, redundant)
  friend bool operator==(const StripeLayout&, const StripeLayout&) = default;
};

/// The part of a geometry that follows from stripes.
struct ServerGeometry {
  std::uint64_t unit = 0;
  std::vector<std::vector<std::uint32_t>> groups;
  LZY_FIELDS(unit, groups)
  friend bool operator==(const ServerGeometry&, const ServerGeometry&) = default;
};

/// A geometry for a shared file of `size` bytes in which no two units of a row are on one server. The unit is the largest power of
/// two that divides the stripes, so that no unit is on two servers. There is a device for each unit of a round of stripes. Devices
/// of one server are in different groups. The piece that has most of the file decides.
/// kInvalidArgument, with the reason, if there is no such geometry: the servers are too few for m, for example.
Result<ServerGeometry> GeometryByServers(const StripeLayout& stripes, std::uint64_t size, std::uint32_t block_size,
                                         std::uint32_t max_group, std::uint32_t parity);

/// What the loss of one server takes at the worst: so many blocks of one row.
struct ServerLoss {
  std::string server;
  std::uint32_t blocks = 0;
};
/// Where a byte of a data file, or of a parity region, is; an empty name if it is not known, or cannot be lost with a
/// server.
using ServerOf = std::function<std::string_view(bool of_parity, std::uint32_t file_or_region, std::uint64_t offset)>;
/// The server whose loss takes most blocks of one row. It looks at the first rows of each group, up to 16384: the pattern
/// repeats after far fewer. Rows without data do not count.
ServerLoss WorstServer(const Layout& layout, const ServerOf& server_of);

/// The servers that have data or, if it has no data, parity of a device, in the order in which they come; at most `most`.
std::vector<std::string> ServersOfDevice(const Layout& layout, std::uint32_t device, const ServerOf& server_of, std::size_t most);

}  // namespace lzy
