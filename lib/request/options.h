#pragma once
// The options of docs/reference/options.md. One table (options.cc) serves command lines, LZY_* variables and lzy_* info
// hints, so an option has the same values and messages everywhere.
//
// Each source sets single values (SetOption): first the environment, then the command line of a tool, or the hints of a
// file. CheckOptions compares the values with each other. After that the options are constant, and Context has a reference
// to them. Local: ranks may have different options. Values that all ranks must agree on are compared at their use: the key
// in OpenDataset, the geometry in the commit of a set.
//
// To add an option: a field here, a row in the table, a line in docs/reference/options.md (docs/design/overview.md §15).

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/exchange_way.h"
#include "base/status.h"
#include "base/topology.h"
#include "geometry/layout.h"
#include "geometry/stripes.h"
#include "merkle/leaf_key.h"

namespace lzy {

/// Values as parsed. Sizes are bytes, times are seconds. The defaults are those of docs/reference/options.md.
struct Options {
  std::uint32_t parity = 1;
  std::uint32_t group = 8;
  std::uint32_t block_size = kAutomaticBlockSize;  ///< kAutomaticBlockSize: ChooseBlockSize chooses it
  std::uint64_t stripe = 1u << 20;
  bool stripe_servers = false;  ///< stripe=servers: one server of the file system is one device, if the file system reports stripes
  /// Not an option for users: the result of stripe=servers for one file, or the geometry of its last commit. nullopt: the
  /// geometry does not follow from stripes.
  std::optional<ServerGeometry> by_servers;
  std::vector<std::string> set;
  bool background = false;  ///< commit=background: sync and close of a program return before their commit has ended
  /// Files that a program writes without MPI-IO are protected if they match `set` (kAuto), or `set` or `include` (kOn).
  enum class Posix { kAuto, kOn, kOff } posix = Posix::kAuto;
  std::vector<std::string> drain;  ///< "FROM=TO": see DrainPatterns
  std::vector<std::string> include;
  std::vector<std::string> exclude;
  std::vector<std::string> device_dirs;
  bool fail_on_error = false;  ///< on-error=fail
  std::uint64_t memory = 256u << 20;
  std::uint32_t threads = 0;  ///< 0: cores this process may use, shared among the ranks of its node
  bool capture = true;
  bool verify_reads = false;
  bool verify_writes = false;
  bool set_sync = false;
  /// Name of the failure domain of this process; empty: its processor name. Differs between ranks.
  std::string domain;
  /// Topology of broadcasts. If ranks have different ones, that of the root counts.
  TopologyChoice topology;
  /// How parity is added up among ranks. If ranks have different ways, that of rank 0 counts.
  ExchangeWay exchange = ExchangeWay::kAuto;
  bool summary = false;
  bool heal = false;
  /// Small files get sidecars of the compact form (docs/format.md §14). Not an option for users: tests of the ordinary
  /// form switch it off.
  bool compact = true;
  std::uint32_t timeout_seconds = 60;
  std::string report;
  /// Path of the catalogue (catalog/); "off": none; empty: the default path.
  std::string catalog;
  /// Key that seals datasets; null: datasets are not sealed.
  std::shared_ptr<const LeafKey> key;
  std::string key_file;  ///< path of the file that contains `key`
  enum class Log { kError, kWarn, kInfo, kDebug } log = Log::kWarn;

  /// Names of the options that were set (by SetOption): only these change the geometry of an existing dataset.
  std::set<std::string> given;
};

/// One row of the table: the texts of one option for --help and error messages. `name` is the name on the command line
/// ("block-size"); LZY_BLOCK_SIZE and lzy_block_size follow from it. All texts are string literals.
struct OptionSpec {
  const char* name;
  const char* value;    ///< placeholder for help, e.g. "BYTES"; empty: on the command line the name alone switches it on
  const char* help;     ///< one line
  const char* accepts;  ///< accepted values, for error messages
  const char* choices = "";  ///< accepted words, separated by spaces, if the option accepts (nearly) nothing else
};
/// All options, in the order of the documentation.
std::span<const OptionSpec> OptionSpecs();

/// The other two spellings of an option's name: "block-size" -> "LZY_BLOCK_SIZE", "lzy_block_size".
std::string EnvironmentName(const std::string& name);
std::string HintName(const std::string& name);

/// Sets one option from its text. kInvalidArgument names the option, the value and the accepted values. `spelled` is the
/// option as the user wrote it (empty: "--name"). After an error `options` is unchanged.
Status SetOption(Options& options, const std::string& name, const std::string& value, const std::string& spelled = "");
/// The text with which SetOption would set this value: "on", "64K", "a:b"; empty for an empty list or name.
std::string OptionText(const Options& options, const std::string& name);
/// The two patterns of an item of option drain. Precondition: CheckOptions accepts the item.
std::pair<std::string, std::string> DrainPatterns(const std::string& item);
/// Checks values against each other (parity < group, stripe a power-of-two multiple of block-size, ...), and refuses values
/// that this version does not support.
Status CheckOptions(const Options& options);
/// Applies every LZY_* variable set in the environment. An unknown LZY_ variable that is not one of lzy's own is an error.
/// `getenv_like` is for tests; the default reads the environment of the process. With `getenv_like`, unknown variables are
/// not found, because it cannot list all names.
Status ApplyEnvironment(Options& options, const std::function<const char*(const char*)>& getenv_like = nullptr);

/// Whether the options `include` and `exclude` select the file `path` (absolute). A glob may match the whole path ('*' also
/// matches slashes) or only the name of the file. `exclude` takes precedence.
bool IsSelected(const Options& options, const std::string& path);

/// "64K" -> 65536; K, M, G and T are powers of 1024. nullopt if `text` is not a size.
std::optional<std::uint64_t> ParseSize(const std::string& text);
/// 65536 -> "64 KiB", 65540 -> "64 KiB", 1536 -> "1.5 KiB": for people.
std::string FormatSize(std::uint64_t bytes);

}  // namespace lzy
