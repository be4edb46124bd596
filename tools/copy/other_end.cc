#include "copy/other_end.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/printable.h"
#include "common/streams.h"
#include "mpi/versions.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

constexpr unsigned kMostStreams = 64;
// One stream of ssh has a window of 2 MiB: with a round trip of 89 ms, it carries 23 MB/s.
constexpr unsigned kUsualStreams = 8;
// Fewer bytes are there before further streams are.
constexpr std::uint64_t kWorthStreams = 16u << 20;
// Variables of options that count at both ends.
constexpr const char* kPassed[] = {"parity", "group", "block-size", "stripe", "key"};

// The path in a name, so that DirectoryOf(name) is a name, too.
std::string PathInName(const std::string& path) {
  if (path.starts_with('/') || path.starts_with("./") || path.starts_with("../") || path == "." || path == "..") return path;
  if (path.empty() || path == "~") return ".";
  // ssh starts the command in the home directory.
  return "./" + (path.starts_with("~/") ? path.substr(2) : path);
}

// ssh takes the words of the command together, and a shell takes them apart. "~/" must stay outside the quotes.
std::string ForShell(const std::string& path) {
  return path.starts_with("~/") ? "~/" + ShellQuote(path.substr(2)) : ShellQuote(path);
}

}  // namespace

std::optional<HostPath> ParseHostPath(const std::string& text) {
  const bool bracketed = text.starts_with('[') || text.find("@[") < text.find_first_of(":/");
  const std::size_t colon = bracketed ? text.find("]:") : text.find(':');
  if (colon == std::string::npos || colon == 0 || text.find('/') < colon) return std::nullopt;
  const bool is_pattern = HasRankPlaceholder(text);
  if (PosixFileSystem().Stat(is_pattern ? ExpandPattern(text, 0) : text, /*follow=*/false).ok()) return std::nullopt;
  HostPath found{text.substr(0, colon), text.substr(colon + (bracketed ? 2 : 1))};
  if (bracketed) found.host.erase(found.host.find('['), 1);
  return found;
}

Result<std::vector<std::string>> SplitCommand(const std::string& text) {
  std::vector<std::string> words;
  char quote = 0;
  bool in_word = false;
  for (const char c : text) {
    if (quote != 0 ? c == quote : c == '\'' || c == '"') {
      quote = quote != 0 ? 0 : c;
      if (!in_word) words.emplace_back();
      in_word = true;
    } else if (quote == 0 && c == ' ') {
      in_word = false;
    } else {
      if (!in_word) words.emplace_back();
      in_word = true;
      words.back() += c;
    }
  }
  if (quote != 0) return Status(Code::kInvalidArgument, fmt::format("--rsh: '{}' is not accepted: a quote is not closed", text));
  if (words.empty()) return Status(Code::kInvalidArgument, "--rsh: '' is not accepted: a command, such as 'ssh -p 2222'");
  return words;
}

void OtherEnd::AddOptions(Arguments& arguments) {
  arguments.AddValues("--rsh", "COMMAND", rsh_, "the command that connects to HOST (ssh): 'ssh -p 2222'");
  arguments.AddValues("--streams", "N", streams_text_, fmt::format("connections to HOST ({}), of which all but one start when there is much to copy", kUsualStreams));
  arguments.AddValues("--remote-command", "PATH", remote_command_, "lzy-copy on HOST, if it is not in the PATH there");
}

Status OtherEnd::CheckOptions() {
  LZY_ASSIGN_OR_RETURN(command_, SplitCommand(rsh_.empty() ? "ssh" : rsh_.back()));
  streams_ = kUsualStreams;
  if (streams_text_.empty()) return Status::Ok();
  const std::string& text = streams_text_.back();
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), streams_);
  if (error == std::errc() && end == text.data() + text.size() && streams_ >= 1 && streams_ <= kMostStreams) return Status::Ok();
  return {Code::kInvalidArgument, fmt::format("--streams: '{}' is not accepted: a number from 1 to {}", text, kMostStreams)};
}

Result<std::optional<TwoEnds>> OtherEnd::Meet(const std::vector<std::string>& words, Arguments& arguments, const Options& options,
                                              Communicator& comm) {
  std::vector<std::optional<HostPath>> parsed;
  for (const std::string& path : arguments.paths) parsed.push_back(ParseHostPath(path));
  const auto is_far = [](const std::optional<HostPath>& path) { return path.has_value(); };
  if (parsed.size() < 2 || std::ranges::none_of(parsed, is_far)) return std::optional<TwoEnds>();
  const auto refuse = [](const std::string& text) { return Status(Code::kInvalidArgument, text); };
  const std::span sources(parsed.begin(), parsed.end() - 1);
  source_ = !parsed.back();
  if (!source_ && std::ranges::any_of(sources, is_far))
    return refuse(fmt::format("{} and {}: both ends are on other machines; start lzy-copy on one of them", arguments.paths[0], arguments.paths.back()));
  host_ = (source_ ? *std::ranges::find_if(parsed, is_far) : parsed.back())->host;
  if (source_ && !std::ranges::all_of(sources, [&](const auto& path) { return path && path->host == host_; }))
    return refuse("all sources must be on one machine");
  if (comm.size() > 1) return refuse(fmt::format("{}: with mpiexec, paths on other machines are not accepted", arguments.paths.back()));
  if (host_.starts_with('-')) return refuse(fmt::format("{}: is no name of a host", host_));
  const std::string prefix = host_ + ":";
  names_.emplace(prefix, /*is_host=*/false);
  for (std::size_t i = 0; i < parsed.size(); ++i) {
    std::string& path = arguments.paths[i];
    if (parsed[i]) {
      if (parsed[i]->path.starts_with('~') && parsed[i]->path != "~" && !parsed[i]->path.starts_with("~/"))
        return refuse(fmt::format("{}: home directories of other users are not known here; write the whole path", path));
      path = prefix + PathInName(parsed[i]->path);
    } else if (path.starts_with(prefix)) {
      path = "./" + path;
    }
  }
  NearEnd::Request request;
  request.host = host_;
  request.tool = "lzy-copy";
  request.messages = kMessages;
  request.version = OwnVersion().text;
  request.assignment = {"", prefix, arguments.paths, words, {}};
  for (const char* name : kPassed) {
    const std::string variable = EnvironmentName(name);
    if (const char* value = std::getenv(variable.c_str()); value != nullptr) request.assignment.environment[variable] = value;
  }
  const std::string serve = ForShell(remote_command_.empty() ? "lzy-copy" : remote_command_.back()) + " --serve";
  request.command = command_;
  request.more_command = command_;
  // A host that is gone is noticed. ssh uses the first of several values, so that of the user counts.
  const bool ssh = BaseNameOf(command_[0]) == "ssh";
  if (ssh) {
    for (std::vector<std::string>* command : {&request.command, &request.more_command}) command->push_back("-oServerAliveInterval=15");
  }
  // The user is asked for a password once.
  if (ssh) request.more_command.insert(request.more_command.begin() + 1, "-oBatchMode=yes");
  for (std::vector<std::string>* command : {&request.command, &request.more_command}) command->insert(command->end(), {host_, serve});
  request.signal = SignalCaught;
  signal(SIGPIPE, SIG_IGN);  // the other end may go at any time
  LZY_ASSIGN_OR_RETURN(near_, NearEnd::Start(std::move(request)));
  if (near_->other().version != OwnVersion().text && !arguments.quiet && options.log >= Options::Log::kWarn) {
    Put(stderr, fmt::format("lzy-copy: warning: lzy on {} has version {}, here it has version {}. Install one version on both\n", host_,
                            Printable(near_->other().version), OwnVersion().text));
  }
  return std::optional<TwoEnds>(TwoEnds{near_->communicator(), *names_});
}

void OtherEnd::AddStreams(std::uint64_t bytes) {
  if (near_ && bytes >= kWorthStreams && streams_ > 1) near_->AddStreams(streams_ - 1);
}

Json OtherEnd::Describe() const {
  return {{"host", host_},
          {"node", near_->other().node},
          {"end", source_ ? "source" : "destination"},
          {"streams", near_->channel().streams()},
          {"damaged_on_the_way", near_->channel().damaged() + near_->channel().sent_again()}};
}

int ServeCopy(const Tool& tool) {
  KeepStandardDescriptors();
  signal(SIGPIPE, SIG_IGN);
  auto end = FarEnd::Serve(kMessages, OwnVersion().text, [](int signal) { kill(getpid(), signal); });
  if (!end.ok()) {
    if (!end.status().message().empty()) Put(stderr, fmt::format("{} --serve: {}\n", tool.name, Printable(end.status().message())));
    return ExitCodeOf(end.status());
  }
  if (*end == nullptr) return 0;
  const Assignment& assignment = (*end)->assignment();
  for (const auto& [variable, value] : assignment.environment) {
    if (!variable.starts_with("LZY_")) continue;
    // A path of this machine counts before one of the other machine.
    (void)setenv(variable.c_str(), value.c_str(), variable != EnvironmentName("key"));
  }
  const HostNames names(assignment.prefix, /*is_host=*/true);
  int exit_code = 0;
  const Status done = NoThrow([&] {
    exit_code = RunToolAtFarEnd(tool, assignment.words, assignment.paths, {(*end)->communicator(), names});
  });
  return done.ok() ? exit_code : ExitCodeOf(done);
}

}  // namespace lzy
