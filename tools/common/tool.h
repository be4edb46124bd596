#pragma once
// What lzy-protect, -verify, -restore and -info have in common: from the command line to the exit code.

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/arguments.h"
#include "common/json.h"
#include "common/print.h"
#include "engine/engine.h"

namespace lzy {

class Progress;

/// One run of a tool. Only the first rank prints; all have the same exit code in the end.
class ToolRun {
 public:
  ToolRun(const std::string& tool, const Arguments& arguments, const Options& options, Communicator& comm);
  ~ToolRun();

  FileSystem& fs() { return *fs_; }
  Communicator& comm() { return comm_; }
  const Arguments& arguments() const { return arguments_; }
  const Options& options() const { return options_; }

  /// Text for people on stdout; nothing with --json or --quiet.
  void Say(const std::string& text);
  /// A failure: on stderr, and in the exit code.
  void Fail(const Status& status);
  /// Something worth knowing, on stderr unless --quiet or --log=error. Complete sentences.
  void Warn(const std::string& text);
  /// More fields of the JSON document.
  Json& extra() { return extra_; }
  /// What --json prints instead of a report.
  void SetDocument(Json document) { document_ = std::move(document); }

  /// Whether the user wants the tool to end (SIGINT, SIGTERM). Collective.
  bool Interrupted();

 private:
  friend int RunTool(const struct Tool& tool, int argc, char** argv);
  void HandlePath(const struct Tool& tool, const std::string& path);
  void HandleDataset(const struct Tool& tool, const DatasetRef& dataset);
  /// True on all ranks when all of them have seen the dataset before.
  bool SeenBefore(const DatasetRef& dataset);
  /// A failure on stderr and in the JSON document, whose exit code is counted elsewhere.
  void Complain(const Status& status);
  /// Names the datasets that could not be judged, beside others that were.
  void TellUnjudged();
  /// Says what was finished before the interrupt; the exit code. Collective.
  int TellInterrupted();
  int Finish(double seconds);

  const std::string tool_;
  const Arguments& arguments_;
  const Options& options_;
  const std::unique_ptr<FileSystem> fs_;
  Communicator& comm_;
  const bool speaks_;
  std::unique_ptr<Progress> progress_;
  std::set<std::string> seen_;
  std::set<std::string> told_;  ///< failures
  Json datasets_ = Json::array();
  Json errors_ = Json::array();
  Json extra_ = Json::object();
  std::optional<Json> document_;
  CodeOfMany codes_;
  bool interrupted_ = false;
  std::size_t finished_ = 0;     ///< datasets
  std::string last_finished_;
  std::string unfinished_;       ///< the dataset that an interrupt was the end of
};

/// A tool: what is different about it.
struct Tool {
  std::string name;
  std::string summary;
  std::string changes;                     ///< what it modifies, for --help
  std::vector<std::string> table_options;  ///< beside memory, threads and log
  std::function<Resolve()> resolve = [] { return Resolve::kProtected; };
  std::function<void(CLI::App&)> add_options = {};
  /// Options that do not go together; the Status goes to the user as a usage error.
  std::function<Status()> check_options = {};
  std::function<Action()> action;
  /// Whether the options parsed ask for something that is about no PATH, and what does it (collective). May be empty.
  std::function<bool()> without_path = {};
  std::function<void(ToolRun&)> run_without_path = {};
  /// The engine call. Collective.
  std::function<DatasetReport(const Context&, const DatasetRef&)> engine;
  /// Called with each PATH first; true: there is nothing more to do about it. May be empty. Collective.
  std::function<bool(ToolRun&, const std::string& path)> before_path = {};
  /// Called with the datasets that a PATH stands for, to drop or replace some. May be empty. Collective.
  std::function<Status(ToolRun&, const std::string& path, std::vector<DatasetRef>&)> select = {};
  /// Called with each report, on the first rank. May be empty.
  std::function<void(ToolRun&, const DatasetReport&)> after_dataset = {};
};

/// The whole of main().
int RunTool(const Tool& tool, int argc, char** argv);

}  // namespace lzy
