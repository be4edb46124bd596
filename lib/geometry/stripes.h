#pragma once
// The stripes of a file system, and a geometry in which one server is one device. Also computes what the loss of one server
// takes from the rows of a dataset (docs/design/overview.md §3, "Servers of a file system"). Pure; storage/file_stripes asks the
// file system.

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
  /// Length of a stripe in bytes. Stripes are counted from the beginning of the file, not of the piece. At least 1; kNoEnd:
  /// the whole piece is one stripe.
  std::uint64_t unit = kNoEnd;
  /// Stripe i is on server i % size(). An empty name: a place of its own, whose name the file system does not report. An
  /// empty list: each stripe is on a place of its own.
  std::vector<std::string> servers = {};
  LZY_FIELDS(begin, end, unit, servers)
  friend bool operator==(const StripePiece&, const StripePiece&) = default;
};

/// The stripes of one file, as the file system reports them.
struct StripeLayout {
  std::string file_system;  ///< "Lustre": for messages
  /// Ascending and disjoint, at least one. Bytes outside all pieces are not stored yet.
  std::vector<StripePiece> pieces;
  bool redundant = false;  ///< the file system itself survives the loss of one server
  /// The server of a byte; empty if it is not known.
  std::string_view ServerAt(std::uint64_t offset) const;
  LZY_FIELDS(file_system, pieces, redundant)
  friend bool operator==(const StripeLayout&, const StripeLayout&) = default;
};

/// The part of a geometry that stripes determine.
struct ServerGeometry {
  std::uint64_t unit = 0;
  std::vector<std::vector<std::uint32_t>> groups;
  LZY_FIELDS(unit, groups)
  friend bool operator==(const ServerGeometry&, const ServerGeometry&) = default;
};

/// A geometry for a shared file of `size` bytes in which no two units of a row are on one server. The unit is the largest
/// power of two that divides the stripes, so that no unit is on two servers. There is one device for each unit of a round
/// of stripes. Devices of one server are in different groups. Uses the piece with most of the file. Returns
/// kInvalidArgument, with the reason, if there is no such geometry, for example because there are too few servers for m.
Result<ServerGeometry> GeometryByServers(const StripeLayout& stripes, std::uint64_t size, std::uint32_t block_size,
                                         std::uint32_t max_group, std::uint32_t parity);

/// The worst loss of one server: the most blocks of one row.
struct ServerLoss {
  std::string server;
  std::uint32_t blocks = 0;
};
/// The server of a byte of a data file or a parity region. An empty name: it is not known, or a loss of a server cannot
/// take the byte.
using ServerOf = std::function<std::string_view(bool of_parity, std::uint32_t file_or_region, std::uint64_t offset)>;
/// The server whose loss takes most blocks of one row. Examines the first rows of each group, up to 16384, because the
/// pattern repeats after far fewer. Ignores rows without data.
ServerLoss WorstServer(const Layout& layout, const ServerOf& server_of);

/// The servers with data of a device, or with its parity if it has no data, in order of place; at most `most`.
std::vector<std::string> ServersOfDevice(const Layout& layout, std::uint32_t device, const ServerOf& server_of, std::size_t most);

}  // namespace lzy
