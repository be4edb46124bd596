// The built programs on real files: the world's files are written to a scratch directory, a program is run there, and
// what it left is read back. What it says is taken from its exit code and its JSON alone.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "campaign/campaign.h"
#include "campaign/world.h"

namespace lzy::campaign {
namespace {

using Json = nlohmann::json;

constexpr int kMostSeconds = 120;
constexpr std::uint64_t kPage = 4096, kSector = 512;  // what is read together, and what is written

std::string ReadText(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

/// The value of `E` with this name; the first `count` have one each.
template <class E>
E Named(const std::string& name, int count) {
  for (int i = 0; i < count; ++i) {
    if (name == lzy::Name(static_cast<E>(i))) return static_cast<E>(i);
  }
  throw std::invalid_argument("'" + name + "'");
}

class BuiltTools final : public Driver {
 public:
  explicit BuiltTools(const ToolsOptions& options) : rng_(options.seed), ranks_(options.ranks) {
    std::string name = std::filesystem::temp_directory_path() / "lzy-campaign-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) throw std::system_error(errno, std::generic_category(), name);
    scratch_ = std::filesystem::canonical(name);
    std::filesystem::create_directories(scratch_ + "/files/d");
    auto key = PosixFileSystem().Open(KeyFile(), OpenMode::kCreate, /*follow=*/false, 0600);
    Must(key.status());
    Must((*key)->WriteAt(0, SecretBytes()));
  }
  ~BuiltTools() override {
    std::error_code ignored;
    std::filesystem::remove_all(scratch_, ignored);
  }

  Outcome Run(World& world, const Call& call) override {
    Outcome outcome;
    Push(world);
    const Command command = CommandFor(world, call);
    const std::optional<int> status = Execute(command);
    Pull(world);
    if (!status) {
      outcome.wrong = fmt::format("did not end within {} seconds", kMostSeconds);
    } else if (!WIFEXITED(*status)) {
      outcome.wrong = fmt::format("was ended by signal {}", WTERMSIG(*status));
    } else {
      outcome.code = WEXITSTATUS(*status);
      Read(command.words.front(), outcome);
    }
    if (!outcome.wrong.empty()) {
      outcome.wrong += fmt::format(" ({}; stderr: {})", fmt::join(command.words, " "), ReadText(scratch_ + "/err"));
    }
    return outcome;
  }

  std::uint64_t SectorSize() const override { return kPage; }

 private:
  struct Command {
    std::vector<std::string> words, settings;
  };

  std::uint64_t Below(std::uint64_t limit) { return rng_() % limit; }
  std::string KeyFile() const { return scratch_ + "/key"; }
  std::string Real(const std::string& path) const { return scratch_ + "/files/" + path; }

  // ------------------------------------------------------------------------------------------------------------- files

  static void Must(const Status& status) {
    if (!status.ok()) throw std::runtime_error(status.message());
  }

  /// What is there of a file; null where there is none.
  std::optional<Node> NodeOf(const std::string& path) {
    auto file = PosixFileSystem().Open(Real(path), OpenMode::kRead);
    if (!file.ok()) return std::nullopt;
    Node node;
    const auto stat = (*file)->Stat();
    Must(stat.status());
    node.stat = *stat;
    node.bytes.resize(stat->size);
    Must(ReadExactly(**file, 0, node.bytes));
    return node;
  }

  std::vector<std::string> Paths() const {
    std::vector<std::string> paths;
    const std::filesystem::path root = scratch_ + "/files";
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
      if (!entry.is_directory()) paths.push_back(entry.path().lexically_relative(root));
    }
    return paths;
  }

  void Push(const World& world) {
    for (const std::string& path : Paths()) {
      if (!world.fs.Has(path)) Must(PosixFileSystem().Remove(Real(path)));
    }
    std::ofstream bad(scratch_ + "/bad");
    for (const auto& [path, node] : world.fs.nodes()) {
      auto now = NodeOf(path);
      if (!now || now->bytes != node->bytes || now->stat.mtime_ns != node->stat.mtime_ns) {
        auto file = PosixFileSystem().Open(Real(path), OpenMode::kCreate, true, 0644);
        Must(file.status());
        Must((*file)->Truncate(node->bytes.size()));
        Must((*file)->WriteAt(0, node->bytes));
        Must((*file)->SetTimes(node->stat.mtime_ns, node->stat.mtime_ns));
        now = NodeOf(path);
      }
      for (const auto& [offset, length] : node->unreadable) {
        for (std::uint64_t at = offset; at < offset + length; at += kSector) {
          bad << fmt::format("{} {} {}\n", now->stat.inode, at, std::min(kSector, offset + length - at));
        }
      }
      has_bad_sectors_ = has_bad_sectors_ || !node->unreadable.empty();
    }
  }

  void Pull(World& world) {
    Files files;
    std::map<std::uint64_t, Node*> by_inode;
    for (const std::string& path : Paths()) {
      auto node = NodeOf(path);
      if (!node) throw std::runtime_error(path + " cannot be read");
      by_inode[node->stat.inode] = &(files[path] = std::move(*node));
    }
    std::ifstream bad(scratch_ + "/bad");
    for (std::uint64_t inode, offset, length; bad >> inode >> offset >> length;) {
      const auto at = by_inode.find(inode);
      if (at != by_inode.end()) at->second->unreadable.emplace_back(offset, length);
    }
    world.fs.Restore(files);
  }

  // ---------------------------------------------------------------------------------------------------------- programs

  /// An option as on the command line or in the environment.
  void Give(Command& command, const std::string& name, const std::string& value) {
    if (Below(2) == 0) {
      command.words.push_back("--" + name);
      command.words.push_back(value);
    } else {
      command.settings.push_back(EnvironmentName(name) + "=" + value);
    }
  }

  Command CommandFor(const World& world, const Call& call) {
    Command command;
    const char* const tool = call.tool == Tool::kProtect                                ? "lzy-protect"
                             : call.tool == Tool::kInfo                                 ? "lzy-info"
                             : call.tool == Tool::kVerify || call.tool == Tool::kRepair ? "lzy-verify"
                                                                                        : "lzy-restore";
    command.words = {tool, "--json"};
    if (call.tool == Tool::kProtect) {
      for (const char* name : {"parity", "group", "block-size", "stripe"}) {
        Give(command, name, OptionText(world.options, name));
      }
    }
    if (world.options.key) Give(command, "key", KeyFile());
    if (call.from_disk) command.words.push_back("--from-disk");
    if (call.tool == Tool::kRepair) command.words.push_back("--repair");
    if (call.tool == Tool::kSalvage) command.words.push_back("--salvage");
    if (call.tool == Tool::kInfo && Below(2) == 0) command.words.push_back("--map");
    if (Below(2) == 0) Give(command, "threads", std::to_string(1 + Below(3)));
    if (Below(3) == 0) Give(command, "memory", "64K");
    if (Below(2) == 0) command.settings.push_back("LZY_TIMEOUT=1");
    command.words.push_back(PathFor(world, call));
    return command;
  }

  /// PATH, written in one of the ways that mean the dataset.
  std::string PathFor(const World& world, const Call& call) {
    std::vector<std::string> ways{world.ref.path, world.ref.path, Real(world.ref.path)};
    if (world.IsSet()) ways.push_back("d/*.%r");
    // These are told by a sidecar.
    const auto has_sidecar = [&](const std::string& path) {
      const std::string sidecar = *SidecarPath(path);
      if (!world.fs.Has(sidecar) || world.At(sidecar).bytes.empty()) return false;
      return DecodeSuperblock(world.At(sidecar).bytes, 0).ok();
    };
    if (call.tool != Tool::kProtect && std::all_of(world.paths.begin(), world.paths.end(), has_sidecar)) {
      ways.emplace_back("d");
      ways.push_back(world.paths[Below(world.paths.size())]);
    }
    return ways[Below(ways.size())];
  }

  /// The status of wait(2), or nothing if it had to be ended.
  std::optional<int> Execute(const Command& command) {
    std::vector<std::string> words = command.words;
    words[0] = std::string(CAMPAIGN_BIN "/") + words[0];
    if (ranks_ > 0) words.insert(words.begin(), {CAMPAIGN_MPIEXEC, "-n", std::to_string(ranks_)});
    std::vector<std::string> settings = command.settings;
    for (char** entry = environ; *entry != nullptr; ++entry) {
      if (std::strncmp(*entry, "LZY_", 4) != 0) settings.emplace_back(*entry);
    }
    settings.push_back("XDG_CACHE_HOME=" + scratch_ + "/cache");
    settings.push_back("XDG_STATE_HOME=" + scratch_ + "/state");
    if (has_bad_sectors_) {
      settings.emplace_back("LD_PRELOAD=" CAMPAIGN_BAD_SECTORS);
      settings.push_back("BAD_SECTORS=" + scratch_ + "/bad");
    }
    const auto pointers = [](std::vector<std::string>& texts) {
      std::vector<char*> out;
      for (std::string& text : texts) out.push_back(text.data());
      out.push_back(nullptr);
      return out;
    };
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addchdir_np(&actions, (scratch_ + "/files").c_str());
    constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC;
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, (scratch_ + "/out").c_str(), kFlags, 0600);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, (scratch_ + "/err").c_str(), kFlags, 0600);
    pid_t child = 0;
    const int error =
        posix_spawn(&child, words[0].c_str(), &actions, nullptr, pointers(words).data(), pointers(settings).data());
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) throw std::system_error(error, std::generic_category(), words[0]);
    return Await(child);
  }

  static std::optional<int> Await(pid_t child) {
    const int fd = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
    pollfd ended{fd, POLLIN, 0};
    const bool in_time = fd < 0 || poll(&ended, 1, kMostSeconds * 1000) != 0;
    if (!in_time) kill(child, SIGKILL);
    if (fd >= 0) close(fd);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    return in_time ? std::optional(status) : std::nullopt;
  }

  // -------------------------------------------------------------------------------------------------------------- JSON

  /// As PATH may have been written in two ways, so may the paths in the report.
  std::string Plain(const std::string& path) const {
    const std::string prefix = scratch_ + "/files/";
    return path.starts_with(prefix) ? path.substr(prefix.size()) : path;
  }

  lzy::Damage DamageFrom(const Json& json) const {
    lzy::Damage damage;
    damage.path = Plain(json.at("path"));
    damage.device = json.at("device");
    damage.part = Named<DamagePart>(json.at("part"), 3);
    damage.offset = json.at("offset");
    damage.length = json.at("length");
    damage.cause = Named<DamageCause>(json.at("cause"), 5);
    damage.transient = json.at("transient");
    damage.repaired = json.at("repaired");
    damage.beyond_repair = json.at("beyond_repair");
    return damage;
  }

  DatasetReport ReportFrom(const Json& json) const {
    DatasetReport report;
    report.path = Plain(json.at("path"));
    report.kind = json.at("kind") == "set" ? DatasetKind::kSet : DatasetKind::kShared;
    report.state = Named<DatasetState>(json.at("state"), 7);
    report.devices = json.at("devices");
    report.parity = json.at("parity");
    report.groups = json.at("groups");
    report.block_size = json.at("block_size");
    report.bytes = json.at("bytes");
    report.sidecar_bytes = json.at("sidecar_bytes");
    const std::string root = json.at("root");
    if (root.size() != 2 * sizeof report.root.bytes) throw std::invalid_argument("root " + root);
    for (std::size_t i = 0; i < sizeof report.root.bytes; ++i) {
      report.root.bytes[i] = static_cast<std::uint8_t>(std::stoul(root.substr(2 * i, 2), nullptr, 16));
    }
    for (const Json& damage : json.at("damage")) report.damage.push_back(DamageFrom(damage));
    // Which failure it was is in the exit code.
    if (json.contains("error")) report.status = Status(Code::kIo, json.at("error").at("message"));
    return report;
  }

  void Read(const std::string& tool, Outcome& outcome) const {
    try {
      const Json document = Json::parse(ReadText(scratch_ + "/out"));
      const Json& datasets = document.at("datasets");
      if (document.at("schema") != "lzy-report/1" || document.at("tool") != tool ||
          document.at("exit_code") != outcome.code || !document.at("seconds").is_number() || datasets.size() > 1) {
        outcome.wrong = fmt::format("exit code {}, but it says {}", outcome.code, document.dump());
        return;
      }
      if (datasets.empty()) {
        if (outcome.code != 3 && outcome.code != 4) {
          outcome.wrong = fmt::format("reports nothing, with exit code {}", outcome.code);
        }
        if (document.contains("errors")) {
          outcome.report.status = Status(Code::kUnprotected, document.at("errors").at(0).at("message"));
        }
        return;
      }
      outcome.report = ReportFrom(datasets.at(0));
      if (outcome.report.status.ok() && ExitCodeOf(outcome.report) != outcome.code) {
        outcome.wrong = fmt::format("exit code {} does not go with the report: {}", outcome.code, document.dump());
      }
    } catch (const std::exception& error) {
      outcome.wrong = fmt::format("JSON that cannot be: {}: {}", error.what(), ReadText(scratch_ + "/out"));
    }
  }

  std::mt19937_64 rng_;
  const int ranks_;
  std::string scratch_;
  bool has_bad_sectors_ = false;
};

}  // namespace

std::unique_ptr<Driver> ToolsDriver(const ToolsOptions& options) {
  return std::make_unique<BuiltTools>(options);
}

}  // namespace lzy::campaign
