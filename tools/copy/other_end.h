#pragma once
// lzy-copy between machines: options, paths of the form HOST:PATH, and the other end (docs/design/repair.md §9, "Copies between
// machines").

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/tool.h"
#include "link/far_end.h"
#include "link/host_files.h"

namespace lzy {

/// Text of the form HOST:PATH.
struct HostPath {
  std::string host;  ///< for ssh: "user@host", or an address without its brackets
  std::string path;
};
/// nullopt if `text` is a path of this machine: a slash is before the first colon, or there is a file of this name.
std::optional<HostPath> ParseHostPath(const std::string& text);

/// The words of --rsh: split at blanks, as rsync does; quotes keep blanks together. kInvalidArgument: a quote is not closed.
Result<std::vector<std::string>> SplitCommand(const std::string& text);

/// Gives lzy-copy its other end.
class OtherEnd {
 public:
  /// Adds the options.
  void AddOptions(Arguments& arguments);
  Status CheckOptions();
  /// For Tool::meet_other_end. Keeps what is started until this object ends. `words`: the command line.
  Result<std::optional<TwoEnds>> Meet(const std::vector<std::string>& words, Arguments& arguments, const Options& options, Communicator& comm);

  /// Null unless there is another end.
  const NearEnd* near_end() const { return near_.get(); }
  /// Further streams, if so many bytes are worth them.
  void AddStreams(std::uint64_t bytes);
  /// The host, its end ("source" or "destination"), streams, and bytes that were damaged on the way; for JSON.
  Json Describe() const;

 private:
  std::vector<std::string> rsh_, remote_command_, streams_text_;
  std::vector<std::string> command_;  // --rsh, in words
  unsigned streams_ = 0;
  std::string host_;
  bool source_ = false;  // the sources are on the host
  std::optional<HostNames> names_;
  std::unique_ptr<NearEnd> near_;
};

/// The whole of `lzy-copy --serve`: the end that ssh starts. Returns the exit code.
int ServeCopy(const Tool& tool);

}  // namespace lzy
