#pragma once
// Servers of a parallel file system: the geometry that option stripe=servers gives a file, and what lzy-info reports about
// the loss of one server (docs/design/overview.md §3, "Servers of a file system").

#include <optional>
#include <string>
#include <vector>

#include "dataset/view.h"
#include "geometry/stripes.h"

namespace lzy {

/// The result of option stripe=servers for one shared file.
struct ServersChoice {
  std::optional<ServerGeometry> geometry;  ///< for Options::by_servers
  std::uint64_t stripe = 0;                ///< for Options::stripe
  std::string why_not;  ///< if the file system reports stripes, but no geometry follows from them
  std::optional<StripeLayout> stripes = {};  ///< as the file system reported them; only on the rank that asked
  LZY_FIELDS(geometry, stripe, why_not)
};
/// Asks the file system for the stripes of `file` and derives a geometry for `size` bytes. If the file system reports no
/// stripes, or tolerates the loss of a server itself, the result has the values of `options`. With device directories, only
/// the unit is derived, and only if the stripes give as many devices as there are directories. Local.
ServersChoice ChooseByServers(FileSystem& fs, File& file, const Options& options, std::uint64_t size);
/// Calls ChooseByServers and stores the result in `options`. Returns `why_not`.
std::string ApplyServers(FileSystem& fs, File& file, std::uint64_t size, Options& options);

/// The server that stores all of `file`. Empty if several servers store it, if the server is not known, or if the file
/// system tolerates the loss of a server. Local.
std::string OnlyServerOf(FileSystem& fs, File& file);

/// The stripes of the data file, the sidecar and the parts of `file`, if this rank has them open. Local.
FileStripes StripesOfFile(FileSystem& fs, const FileView& file);

/// Returns a function that finds the server of a byte by the stripes in `files`: a byte of a data file, or of a parity
/// region. `layout` and `files` must outlive the function.
ServerOf ServersOf(const Layout& layout, const std::vector<FileView>& files);

/// Fills in report.stripes. Adds a warning if the loss of one server takes more blocks of a row than parity can rebuild.
/// Uses only agreed facts. Does nothing if no stripes are known.
void DescribeServers(const DatasetView& view, DatasetReport& report);
/// A server that stores data of the file, and all copies beside the file of some page of its hashes. Empty if there is none.
std::string ServerOfAllCopies(const FileStripes& stripes, const Superblock& superblock);
/// Adds a warning, and returns true, if the file has parity but cannot be rebuilt after the loss `worst`. `by_servers`: the
/// file was made with stripe=servers. `could_be`: stripe=servers would give the file another geometry.
bool WarnOfServer(const std::string& path, const ServerLoss& worst, std::uint32_t parity, bool by_servers, bool could_be,
                  std::vector<std::string>& warnings);
/// Adds a warning, and returns true, if `server` (from ServerOfAllCopies) is not empty.
bool WarnOfCopies(const std::string& path, const std::string& server, std::vector<std::string>& warnings);

}  // namespace lzy
