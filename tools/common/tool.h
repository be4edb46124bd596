#pragma once
// The common frame of lzy-protect, lzy-verify, lzy-restore and lzy-info, from the command line to the exit code. A tool
// fills in a Tool and returns RunTool. RunTool parses options, resolves each PATH into datasets, makes one engine call for
// each, and prints the reports.
//
// Tools run alone or under mpiexec with any number of ranks. All functions that handle a PATH or a dataset are collective,
// so all ranks take the same steps. Only rank 0 prints. All ranks exit with the same code.

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/arguments.h"
#include "common/bookkeeping.h"
#include "common/json.h"
#include "common/print.h"
#include "engine/engine.h"
#include "engine/side_by_side.h"

namespace lzy {

class HostNames;
class Progress;
struct JsonParts;

/// Two machines, for a tool that works on both (lzy-copy). The user started it on one; there it is rank 0.
struct TwoEnds {
  Communicator& comm;
  const HostNames& names;
};

/// One run of a tool: its file system, its ranks, and its findings so far. The functions of a Tool get it. The
/// constructor's references must outlive it.
class ToolRun {
 public:
  /// `names`: of a run on two machines; else null.
  ToolRun(const struct Tool& tool, const Arguments& arguments, const Options& options, Communicator& comm, const HostNames* names = nullptr);
  ~ToolRun();
  /// Handles all PATHs. Returns the exit code. Collective, called once.
  int Run();

  /// The guarded file system: follows symbolic links only in paths that the user named (docs/design/hooks.md §10).
  FileSystem& fs() { return *fs_; }
  Communicator& comm() { return comm_; }
  /// Null unless it is a run on two machines.
  const HostNames* names() const { return names_; }
  const Arguments& arguments() const { return arguments_; }
  const Options& options() const { return options_; }
  const std::string& tool_name() const;

  /// Prints text for people on stdout; nothing with --json or --quiet. Rank 0 prints, the others do nothing. `text`
  /// ends its own lines.
  void Say(const std::string& text);
  /// Prints what to type next after a message on stderr: there, too, so that both stay together. Nothing with --quiet. What to type next
  /// after a report is part of the report.
  void Advise(const std::string& text);
  /// Reports a failure of the run, not of a dataset: on stderr, in the JSON document, and in the exit code. Prints each
  /// message once.
  void Fail(const Status& status) { Fail(status, ExitCodeOf(status)); }
  /// The same with an exit code that does not follow from the status.
  void Fail(const Status& status, int exit_code);
  /// Prints complete sentences on stderr, unless --quiet or --log=error is given.
  void Warn(const std::string& text);
  /// Reports a fault that no dataset of the PATHs has: counts the exit code, and prints `text`, one line without its end,
  /// also with --quiet (then on stderr). `next`: lines with the commands to type. Rank 0 only.
  void Finding(int exit_code, const std::string& text, const std::string& next);
  /// Fields that the tool adds to the JSON document.
  Json& extra();
  /// Counts a dataset that the tool judged itself: for the exit code.
  void Count(const std::string& path, int exit_code) { codes_.AddDataset(path, exit_code); }
  /// Writes to the catalogue; null on ranks other than 0, and for tools without option catalog.
  Bookkeeping* books() { return books_.get(); }
  /// True if this dataset was handled and nothing protects it: it was found because a sidecar of another name may be of it.
  bool WasWithoutSidecar(const std::string& path) const { return without_sidecar_.contains(path); }
  /// Handles all PATHs in the order given. For Tool::run. Collective.
  void HandleNamed();
  /// Sets the document that --json prints instead of the usual one.
  void SetDocument(Json document);

  /// True on all ranks if any of them got SIGINT or SIGTERM. Collective.
  bool Interrupted();
  /// The Context for an engine call: shows progress, and stops if the user interrupts.
  Context MakeContext();
  /// Shows the line of progress, for work that the engine does not report. From any thread. `note`: text at the end.
  void ShowProgress(const char* phase, std::uint64_t done, std::uint64_t total, const std::string& note);
  /// Counts something that was finished, for the message after an interrupt.
  void CountFinished(const std::string& path);

 private:
  /// The datasets of one PATH; empty, with a message, if there are none. Collective.
  std::vector<DatasetRef> DatasetsOf(const std::string& path);
  /// Handles all datasets of all PATHs, in the order of Tool::arrange. Collective.
  void HandleArranged();
  /// True on all ranks if the tool needs no more datasets (Tool::enough). Collective.
  bool HadEnough();
  /// Records the end of the run in the catalogue, and passes news to the user's command. Rank 0 only.
  void EndBooks(int exit_code, double seconds);
  /// HandlePath: all datasets of one PATH. HandleAll: a list. HandleSome: a part of the list. HandleOne: one dataset.
  /// Collective.
  void HandlePath(const std::string& path);
  void HandleAll(const std::vector<DatasetRef>& datasets);
  void HandleSome(std::vector<DatasetRef> datasets, std::size_t before, std::size_t total);
  DatasetReport HandleOne(const DatasetRef& dataset);
  /// True on all ranks if the dataset was found in a directory, could not be handled, and no longer exists: somebody
  /// renamed or removed the file meanwhile. Collective if the dataset could not be handled.
  bool HasGone(const DatasetRef& dataset, const DatasetReport& report);
  /// Counts a report, and prints it.
  void CountAndPrint(const DatasetRef& dataset, DatasetReport report);
  struct Found;
  /// Looks for the content of lost files elsewhere. `shown`: the report is printed; `noted`: the catalogue gets it. Rank 0 only.
  Found LookElsewhere(const DatasetReport& report, bool shown, bool noted);
  /// Prints the report, then what to type next.
  void SayReport(const DatasetRef& dataset, const DatasetReport& report, const std::string& state, const Found& found);
  CatalogNote NoteOf(const DatasetRef& dataset, const DatasetReport& report, CatalogNote::Read read, const Found& found);
  /// Drops datasets that the run has already handled. Collective.
  Status DropSeen(std::vector<DatasetRef>& datasets);
  /// Reports a failure on stderr and in the JSON document. The caller counts its exit code.
  void Complain(const Status& status);
  /// Prints "lzy-verify: TEXT" on stderr, after everything that was printed before. Rank 0 only.
  void PrintOnStderr(const std::string& text);
  /// Names files that nothing protects any more, since another file got their sidecars. Collective.
  void ReportLeftBare();
  /// Names the datasets that could not be judged, if other datasets were judged.
  void ReportUnjudged();
  /// Reports the work finished before the interrupt. Returns the exit code. Collective.
  int ReportInterrupted();
  /// Agrees on the exit code of the run, and prints the JSON document. Collective.
  int Finish(double seconds);

  const struct Tool& tool_;
  const Arguments& arguments_;
  const Options& options_;
  const HostNames* const names_;
  const std::unique_ptr<FileSystem> guarded_;
  const std::unique_ptr<FileSystem> named_;  ///< with `names_`
  FileSystem* const fs_;
  Communicator& comm_;
  /// This is rank 0.
  const bool speaks_;
  std::unique_ptr<Progress> progress_;
  /// Hashes of the keys of datasets that were handled.
  std::set<std::array<std::uint8_t, 16>> seen_;
  /// Paths, see WasWithoutSidecar.
  std::set<std::string> without_sidecar_;
  /// Messages of failures that were printed.
  std::set<std::string> told_;
  const std::unique_ptr<JsonParts> json_;
  std::unique_ptr<Bookkeeping> books_;
  std::uint64_t bytes_read_ = 0;
  CodeOfMany codes_;
  bool interrupted_ = false;
  /// Datasets that were finished; for the message after an interrupt.
  std::vector<std::string> made_again_;  // shared files, see ReportLeftBare
  std::set<std::string> told_places_;    // lines for files that changed places
  std::size_t looks_ = 0;                // for the content of files elsewhere
  std::size_t finished_ = 0;
  std::string last_finished_;
  /// The dataset that an interrupt ended.
  std::string unfinished_;
};

/// The properties of one tool. Functions marked as collective are called on all ranks with the same arguments, and must
/// take the same steps on all of them.
struct Tool {
  std::string name;
  std::string summary;
  std::string changes;                     ///< the files that the tool modifies, for --help
  /// Schema of its JSON document, also if the tool fails early. Documents of other schemas have no list of datasets.
  std::string schema = "lzy-report/1";
  /// Options in the engine's table, in addition to those that all tools accept.
  std::vector<std::string> table_options;
  /// The datasets to which a PATH resolves.
  std::function<Resolve()> resolve = [] { return Resolve::kProtected; };
  /// Adds the tool's own options.
  std::function<void(Arguments&)> add_options = {};
  /// Called after parsing: checks combinations of options. Its message is a usage error. Local; ranks agree on the result.
  std::function<Status()> check_options = {};
  /// Called after check_options. If the PATHs are on two machines, starts the tool on the other one, and makes the PATHs names of
  /// HostNames. Otherwise returns nothing. What it returns must live as long as the tool. May be empty.
  std::function<Result<std::optional<TwoEnds>>(Arguments&, const Options&, Communicator&)> meet_other_end = {};
  /// The action that the options request; it decides the words of the report.
  std::function<Action()> action;
  /// Own options that the same command needs when it is repeated without --dry-run ("--device 1 "). May be empty.
  std::function<std::string()> again = {};
  /// True if the options request an action that has no PATH. Then run_without_path does it. Collective. May be empty.
  std::function<bool()> without_path = {};
  std::function<void(ToolRun&)> run_without_path = {};
  /// Other names given by the user, in which symbolic links are followed, too. May be empty.
  std::function<std::vector<std::string>()> also_named = {};
  /// If a PATH is a link with the name of a protected file, use its target, as cp does.
  bool reads_through_links = false;
  /// Description of a PATH, for --help; empty: a dataset.
  std::string path_help = {};
  bool paths_optional = false;
  /// False: a PATH is a usage error. Then `run` does everything.
  bool takes_paths = true;
  /// Advice after an interrupt.
  std::string rest = "run the same command again to do the rest";
  /// Handles all PATHs together. For tools whose work is not a loop over datasets; only ToolRun::HandleNamed calls `engine`
  /// then. Collective. May be empty.
  std::function<void(ToolRun&)> run = {};
  /// The engine call. Collective.
  EngineCall engine;
  /// With --force: returns the engine call without it. Small datasets are handled side by side without force first. Those that are
  /// not intact after that are handled one by one, with force. Otherwise the result would depend on which thread is first, if files
  /// exchanged names. May be empty, and may return an empty call.
  std::function<EngineCall()> unforced = {};
  /// False if only one engine call may be made at a time, because it asks the user.
  std::function<bool()> side_by_side = [] { return true; };
  /// Called first with each PATH. True: the PATH needs no further work. Collective. May be empty.
  std::function<bool(ToolRun&, const std::string& path)> before_path = {};
  /// Drops or replaces some of the datasets that a PATH stands for. Must leave the same list on all ranks.
  /// Collective. May be empty.
  std::function<Status(ToolRun&, const std::string& path, std::vector<DatasetRef>&)> select = {};
  /// Puts all datasets of all PATHs into an order, and drops some. Must leave the same list on all ranks. Collective.
  /// Empty: each PATH is handled on its own, in the order given.
  std::function<Status(ToolRun&, std::vector<DatasetRef>&)> arrange = {};
  /// True if no further dataset shall be started, although there are more. Local: one rank suffices. May be empty.
  std::function<bool()> enough = {};
  /// How much of a dataset was read, for the catalogue; nullopt: records nothing. For tools with the table option catalog.
  std::function<std::optional<CatalogNote::Read>(const DatasetReport&)> note = {};
  /// If true, committed datasets get an index of objects. May be empty.
  std::function<bool()> indexes_objects = {};
  /// The value of option --on-damage. May be empty.
  std::function<std::string()> on_damage = {};
  /// False: the catalogue is not opened for writing.
  std::function<bool()> keeps_books = [] { return true; };
  /// True: if a catalogue is configured but cannot be used, this is an error, not a warning.
  bool needs_books = false;
  /// False: reports are neither printed nor counted, but the catalogue gets them.
  std::function<bool()> tells = [] { return true; };
  /// Returns the state of a dataset in words, instead of StateText. May add fields to its entry of the JSON document. Rank
  /// 0 only. May be empty.
  std::function<std::string(ToolRun&, const DatasetReport&, Json& entry)> state_text = {};
  /// Called with each report, on rank 0 only, so it must not communicate. May be empty.
  std::function<void(ToolRun&, const DatasetReport&)> after_dataset = {};
};

/// The whole of the tool at the other end. `words` is the command line, and `paths` are its PATHs as names. Returns the exit code.
int RunToolAtFarEnd(const Tool& tool, const std::vector<std::string>& words, const std::vector<std::string>& paths, const TwoEnds& ends);
/// The number of the signal that asked this tool to end, or 0.
int SignalCaught();

/// True on all ranks if `here` is true on any of them; false if the ranks cannot communicate. Collective.
bool OnAnyRank(Communicator& comm, bool here);

/// The value of option --limit, in bytes per second: the last one given, 0 if there is none.
Result<std::uint64_t> ParseLimit(const std::vector<std::string>& given);

/// Adds option --on-damage; its last value counts.
void AddOnDamage(Arguments& arguments, std::vector<std::string>& command);

/// The whole of main(): starts MPI under a launcher, runs the tool, ends MPI. Returns the exit code.
int RunTool(const Tool& tool, int argc, char** argv);

}  // namespace lzy
