#pragma once
// Option stripe=servers, and what lzy-info tells of servers: which geometry a file gets from its stripes, and what the loss of one
// server takes from a dataset, its parity included (docs/design/overview.md §3, "Servers of a file system").

#include <optional>
#include <string>
#include <vector>

#include "dataset/view.h"
#include "geometry/stripes.h"

namespace lzy {

/// What option stripe=servers came to for one shared file.
struct ServersChoice {
  std::optional<ServerGeometry> geometry;  ///< for Options::by_servers
  std::uint64_t stripe = 0;                ///< for Options::stripe
  std::string why_not;  ///< if the file system tells stripes, and nothing follows from them
  std::optional<StripeLayout> stripes = {};  ///< as they were told, on the rank that asked
  LZY_FIELDS(geometry, stripe, why_not)
};
/// Asks the file system about `file`, of `size` bytes, which `options` are for. With device directories there is one device for
/// each directory in any case: then only the unit follows, if there are as many stripes. If the file system tells nothing, or bears
/// the loss of a server itself, `options` keep what they have. Local.
ServersChoice ChooseByServers(FileSystem& fs, File& file, const Options& options, std::uint64_t size);
/// The same, applied to `options`, which are those of stripe=servers. Returns `why_not`.
std::string ApplyServers(FileSystem& fs, File& file, std::uint64_t size, Options& options);

/// The server that has all of `file`, if it is one and the file system does not bear its loss itself; empty otherwise. Local.
std::string OnlyServerOf(FileSystem& fs, File& file);

/// How the data file, the sidecar and the parts of `file` are striped, as far as this rank has them open. Local.
FileStripes StripesOfFile(FileSystem& fs, const FileView& file);

/// Where the bytes of the files of an ensemble are, and of their parity regions, by the stripes in their facts. Both must outlive it.
ServerOf ServersOf(const Layout& layout, const std::vector<FileView>& files);

/// Fills in report.stripes, and a warning if the loss of one server takes more blocks of a row than parity has. From agreed facts.
/// Without stripes it does nothing.
void DescribeServers(const DatasetView& view, DatasetReport& report);
/// The server that has data of the file and, of some of its hashes, all copies that are beside it. Empty: none.
std::string ServerOfAllCopies(const FileStripes& stripes, const Superblock& superblock);
/// Adds a warning if parity does not bear `worst`, and there is any parity. `could_be`: stripe=servers would make another geometry.
/// Returns whether it did.
bool WarnOfServer(const std::string& path, const ServerLoss& worst, std::uint32_t parity, bool by_servers, bool could_be,
                  std::vector<std::string>& warnings);
/// The same for what ServerOfAllCopies returns.
bool WarnOfCopies(const std::string& path, const std::string& server, std::vector<std::string>& warnings);

}  // namespace lzy
