// The frame of the tools. RunTool, at the end, is the whole of main(). RunWithin parses and checks. ToolRun::HandlePath,
// HandleSome, HandleOne and CountAndPrint do the work. ToolRun::Finish ends the run.

#include "common/tool.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/printable.h"
#include "comm/records.h"
#include "common/alert.h"
#include "common/changed_places.h"
#include "common/failure_advice.h"
#include "common/held_members.h"
#include "common/helper.h"
#include "common/losses.h"
#include "common/moved_files.h"
#include "common/moved_in_tree.h"
#include "common/mpi_session.h"
#include "common/progress.h"
#include "common/streams.h"
#include "link/host_files.h"
#include "merkle/hash.h"
#include "names/former_names.h"
#include "names/lookup.h"
#include "names/proven.h"
#include "names/reach.h"
#include "objects/name.h"
#include "request/commit_record.h"
#include "sidecar/names.h"
#include "tuning/tuning.h"

namespace lzy {
namespace {

// docs/reference/tools.md "Exit codes".
constexpr int kExitInternal = 7;
constexpr int kExitNoMemory = 8;

// Number of the signal that asked the tool to end; 0: none.
volatile sig_atomic_t stop_wanted = 0;

/// Only notes the signal. Engine and ToolRun look at it where they can end without leaving anything half-written.
extern "C" void WantStop(int signal) {
  stop_wanted = signal;
}

// A second signal ends the process at once, in case the first one does not: SA_RESETHAND. Not at the far end of a link: it may get
// the signal from the user's end, and also from a terminal.
void CatchSignals(bool far_end = false) {
  struct sigaction action {};
  action.sa_handler = WantStop;
  action.sa_flags = far_end ? 0 : static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

// The document of --json if the tool has made none of its own.
Json Document(const Tool& tool, int exit_code, double seconds, Json datasets) {
  Json document = {{"schema", tool.schema}, {"tool", tool.name}, {"exit_code", exit_code}};
  if (tool.schema != Tool().schema) return document;
  document["seconds"] = seconds;
  document["datasets"] = std::move(datasets);
  return document;
}

/// The end of a tool that fails before there is anything to report on: message, JSON document if one is expected,
/// exit code.
int EndEarly(const Tool& tool, bool speaks, int argc, char** argv, const Status& status) {
  const int exit_code = ExitCodeOf(status);
  if (!speaks) return exit_code;
  Put(stderr, fmt::format("{}: {}\n", tool.name, Printable(status.message())));
  // The words themselves are looked at, because they may not be parsed yet.
  if (std::any_of(argv, argv + argc, [](const char* word) { return std::strcmp(word, "--json") == 0; })) {
    Json document = Document(tool, exit_code, 0, Json::array());
    document["errors"] = Json::array({ToJson(status)});
    Put(stdout, Dump(document, false));
  }
  return exit_code;
}

/// About the bytes of the dataset that this process has to read. For TuneForWork.
std::uint64_t BytesHere(FileSystem& fs, const Communicator& comm, const DatasetRef& dataset) {
  const auto size_of = [&](const std::string& path) {
    const auto stat = fs.Stat(path);
    return stat.ok() ? stat->size : 0;
  };
  if (dataset.kind == DatasetKind::kShared) return size_of(dataset.path) / static_cast<std::uint64_t>(comm.size());
  std::uint64_t bytes = 0;
  for (const auto& [rank, path] : dataset.members) bytes += dataset.IsDealtHere(rank) ? size_of(path) : 0;
  return bytes;
}

/// Options of this command that the next command needs, too. Options from the environment will be set again.
std::string RepeatedOptions(const Options& options) {
  std::string out;
  for (const char* name : {"key", "device-dirs"}) {
    const std::string value = OptionText(options, name);
    const char* const kept = std::getenv(EnvironmentName(name).c_str());
    if (!value.empty() && (kept == nullptr || value != kept)) out += fmt::format("--{} {} ", name, ShellQuote(value));
  }
  return out;
}

// The paths on this machine.
std::vector<std::string> PathsHere(std::vector<std::string> paths, const HostNames* names) {
  if (names == nullptr) return paths;
  std::erase_if(paths, [&](const std::string& path) { return !names->IsHere(path); });
  for (std::string& path : paths) path = names->PathOf(path);
  return paths;
}

// All that the user named, in which the guarded file system may follow links: PATHs and device directories, the
// latter also as sidecars record them.
std::vector<std::string> AllNamed(const Tool& tool, std::vector<std::string> paths, const Options& options) {
  if (tool.also_named) std::ranges::move(tool.also_named(), std::back_inserter(paths));
  std::vector<std::string> named = options.device_dirs;
  for (const std::string& directory : options.device_dirs) {  // as sidecars record them
    std::error_code failed;
    const auto real = std::filesystem::canonical(directory, failed);
    if (!failed) named.push_back(real.string());
  }
  for (const std::string& path : paths) {
    // A link of another user is refused, with the reason.
    const std::string directory = DirectoryOf(path);
    const auto link = PosixFileSystem().Stat(path, /*follow=*/false);
    const bool is_own = !tool.reads_through_links && link.ok() && link->uid == geteuid();
    if (is_own && Directory(PosixFileSystem(), directory).IsLinkInPlaceOfFile(BaseNameOf(path))) {
      named.push_back(directory.empty() ? "." : directory);
    } else {
      std::ranges::move(NamedBy(path), std::back_inserter(named));
    }
  }
  return named;
}

}  // namespace

/// The parts of the document of --json.
struct JsonParts {
  Json datasets = Json::array();
  Json errors = Json::array();
  Json extra = Json::object();
  std::optional<Json> document;
};

// Progress is for a terminal, and only on rank 0.
ToolRun::ToolRun(const Tool& tool, const Arguments& arguments, const Options& options, Communicator& comm, const HostNames* names)
    : tool_(tool),
      arguments_(arguments),
      options_(options),
      names_(names),
      guarded_(GuardedFileSystem(AllNamed(tool, PathsHere(arguments.paths, names), options))),
      named_(names == nullptr ? nullptr : FilesByName(*guarded_, *names)),
      fs_(named_ ? named_.get() : guarded_.get()),
      comm_(comm),
      speaks_(comm.rank() == 0),
      progress_(
          std::make_unique<Progress>(speaks_ && !arguments.quiet && !arguments.no_progress && isatty(STDERR_FILENO))),
      json_(std::make_unique<JsonParts>()) {}

ToolRun::~ToolRun() = default;

Json& ToolRun::extra() {
  return json_->extra;
}

void ToolRun::SetDocument(Json document) {
  json_->document = std::move(document);
}

void ToolRun::Say(const std::string& text) {
  if (!speaks_ || arguments_.json || arguments_.quiet) return;
  progress_->Clear();
  Put(stdout, text);
}

// A message and the command for it stay together, even if the user keeps only one of the streams.
void ToolRun::Advise(const std::string& text) {
  if (!speaks_ || arguments_.quiet || text.empty()) return;
  progress_->Clear();
  std::fflush(stdout);
  Put(stderr, text);
}

void ToolRun::Fail(const Status& status, int exit_code) {
  codes_.Add(exit_code);
  Complain(status);
}

// The same failure may come with every dataset; it is reported once.
void ToolRun::Complain(const Status& status) {
  if (!told_.insert(status.message()).second) return;
  json_->errors.push_back(ToJson(status));
  PrintOnStderr(status.message());
}

void ToolRun::Warn(const std::string& text) {
  if (!arguments_.quiet && options_.log >= Options::Log::kWarn) PrintOnStderr("warning: " + text);
}

void ToolRun::Finding(int exit_code, const std::string& text, const std::string& next) {
  codes_.Add(exit_code);
  if (arguments_.quiet) return PrintOnStderr(text);
  Say(text + "\n" + next);
}

const std::string& ToolRun::tool_name() const {
  return tool_.name;
}

// If both streams go to one place, their lines are in the order in which things happened.
void ToolRun::PrintOnStderr(const std::string& text) {
  if (!speaks_) return;
  progress_->Clear();
  std::fflush(stdout);
  Put(stderr, fmt::format("{}: {}\n", tool_.name, Printable(text)));
}

// The signal may have reached only some of the ranks. All must stop at the same dataset.
bool ToolRun::Interrupted() {
  if (interrupted_) return true;
  auto anywhere = comm_.AllReduceMax(stop_wanted != 0 ? 1 : 0);
  if (!anywhere.ok()) {
    Fail(anywhere.status());
    return true;
  }
  interrupted_ = *anywhere != 0;
  return interrupted_;
}

// If this rank got no signal, another rank did. Launchers may send different signals to ranks; the highest number is used.
int ToolRun::ReportInterrupted() {
  const auto anywhere = comm_.AllReduceMax(static_cast<std::uint64_t>(stop_wanted));
  const int signal = anywhere.ok() && *anywhere != 0 ? static_cast<int>(*anywhere) : SIGTERM;
  std::string text = fmt::format("interrupted by {}: ", signal == SIGINT ? "SIGINT" : "SIGTERM");
  text += finished_ == 0 ? "no dataset was finished"
                         : fmt::format("{} finished, the last is {}", Plural(finished_, "dataset"), last_finished_);
  if (!unfinished_.empty()) text += fmt::format("; {} is not finished", unfinished_);
  text += "; no file is half-written: " + tool_.rest;
  Complain(Status(Code::kInterrupted, text));
  // Exit codes of shells for programs that a signal has ended.
  constexpr int kSignalled = 128;
  return kSignalled + signal;
}

// If no dataset could be judged, each has had its own message already.
void ToolRun::ReportUnjudged() {
  const std::vector<std::string>& unjudged = codes_.unjudged();
  if (unjudged.empty()) return;
  json_->extra["unjudged"] = unjudged;
  if (!codes_.any_judged()) return;
  PrintOnStderr(fmt::format("{} could not be judged: {}", Plural(unjudged.size(), "dataset"), fmt::join(unjudged, ", ")));
}

// Ranks may see different files. If one rank has not met a dataset, all handle it: skipping is collective, too.
Status ToolRun::DropSeen(std::vector<DatasetRef>& datasets) {
  std::vector<bool> fresh;
  LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&] {
    for (const DatasetRef& dataset : datasets) {
      const std::string key = DatasetKey(*fs_, dataset);
      const ByteSpan bytes(reinterpret_cast<const std::uint8_t*>(key.data()), key.size());
      fresh.push_back(seen_.insert(HashBytes(HashTag::kInfo, 0, bytes).bytes).second);
    }
  }));
  LZY_ASSIGN_OR_RETURN(const auto all, AllGatherRecords(comm_, fresh));
  std::vector<DatasetRef> left;
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    if (std::ranges::any_of(all, [&](const auto& theirs) { return theirs.at(i); })) left.push_back(std::move(datasets[i]));
  }
  datasets = std::move(left);
  return Status::Ok();
}

// The datasets are the same on all ranks: ResolvePath gathers the findings of all ranks.
std::vector<DatasetRef> ToolRun::DatasetsOf(const std::string& path) {
  // Paths that could not be examined, such as a directory without permission. The rest is still handled.
  std::vector<Status> troubles;
  auto datasets = ResolvePath(*fs_, comm_, path, tool_.resolve(), &troubles, options_.key.get());
  for (const Status& trouble : troubles) Fail(trouble);
  if (!datasets.ok()) {
    Fail(datasets.status());
    // The path is right, but nothing there is protected.
    if (datasets.status().code() == Code::kUnprotected && ResolvePath(*fs_, comm_, path, Resolve::kProtectable).ok()) {
      Advise(fmt::format("  protect it with: lzy-protect {}\n", ShellQuote(path)));
    }
    return {};
  }
  if (tool_.select) {
    if (Status selected = tool_.select(*this, path, *datasets); !selected.ok()) {
      Fail(selected);
      return {};
    }
  }
  return *std::move(datasets);
}

void ToolRun::HandlePath(const std::string& path) {
  if (tool_.before_path && tool_.before_path(*this, path)) return;
  HandleAll(DatasetsOf(path));
}

void ToolRun::HandleArranged() {
  std::vector<DatasetRef> all;
  for (const std::string& path : arguments_.paths) {
    if (Interrupted()) return;
    std::vector<DatasetRef> some = DatasetsOf(path);
    // Remove duplicates already here: a dataset that was named twice must not count twice.
    if (Status dropped = DropSeen(some); !dropped.ok()) return Fail(dropped);
    std::ranges::move(some, std::back_inserter(all));
  }
  seen_.clear();
  if (Status arranged = tool_.arrange(*this, all); !arranged.ok()) return Fail(arranged);
  HandleAll(all);
}

bool ToolRun::HadEnough() {
  return tool_.enough && OnAnyRank(comm_, tool_.enough());
}

void ToolRun::HandleAll(const std::vector<DatasetRef>& datasets) {
  // Number of datasets that are handled side by side, and reported together.
  constexpr std::size_t kOfARank = 256;
  const std::size_t most = kOfARank * static_cast<std::size_t>(comm_.size());
  for (std::size_t i = 0; i < datasets.size() && !interrupted_ && !HadEnough(); i += most) {
    const auto begin = datasets.begin() + static_cast<std::ptrdiff_t>(i);
    const std::size_t some = std::min(most, datasets.size() - i);
    HandleSome({begin, begin + static_cast<std::ptrdiff_t>(some)}, i, datasets.size());
  }
}

namespace {

// Adds what an earlier repair of the same dataset has done to the report of a later one.
void AddRepairs(const DatasetReport& earlier, DatasetReport& later) {
  std::vector<Damage> damage;
  std::ranges::copy_if(earlier.damage, std::back_inserter(damage), [](const Damage& d) { return d.repaired || d.transient; });
  later.damage.insert(later.damage.begin(), damage.begin(), damage.end());
  std::vector<std::string> warnings;
  std::ranges::copy_if(earlier.warnings, std::back_inserter(warnings), [&](const std::string& text) {
    return std::ranges::find(later.warnings, text) == later.warnings.end();
  });
  later.warnings.insert(later.warnings.begin(), warnings.begin(), warnings.end());
}

}  // namespace

void ToolRun::HandleSome(std::vector<DatasetRef> datasets, std::size_t before, std::size_t total) {
  // Only between datasets: a dataset that was begun is ended by the engine, which looks at context.stop.
  if (Interrupted()) {
    if (unfinished_.empty()) unfinished_ = datasets.front().path;
    return;
  }
  if (Status dropped = DropSeen(datasets); !dropped.ok()) return Fail(dropped);
  std::vector<std::optional<DatasetReport>> reports(datasets.size()), earlier_reports(datasets.size());
  if (datasets.size() > 1 && tool_.side_by_side()) {
    Context context{*fs_, comm_, options_};
    context.stop = [] { return stop_wanted != 0; };
    const EngineCall unforced = tool_.unforced ? tool_.unforced() : EngineCall();
    auto small = HandleSmall(context, datasets, unforced ? unforced : tool_.engine, [&, done = before](std::uint64_t bytes) mutable {
      // Rank 0 shows its own share of what all do.
      done = std::min(done + static_cast<std::size_t>(comm_.size()), total);
      progress_->Count(done, total, bytes * static_cast<std::uint64_t>(comm_.size()));
    });
    if (!small.ok()) return Fail(small.status());
    for (std::size_t i = 0; i < reports.size(); ++i) {
      std::optional<DatasetReport>& report = (*small)[i].report;
      const bool wrote = report && std::ranges::any_of(report->damage, &Damage::repaired);
      const bool forces = unforced && report && ExitCodeOf(*report) != 0;
      if (!(*small)[i].again && !forces) {
        reports[i] = std::move(report);
      } else if (forces || wrote) {
        earlier_reports[i] = std::move(report);
      }
    }
  }
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    if (!reports[i]) {
      // Datasets that were handled side by side with this one are still reported.
      if (Interrupted()) {
        if (unfinished_.empty()) unfinished_ = datasets[i].path;
        continue;
      }
      if (HadEnough()) continue;
      reports[i] = HandleOne(datasets[i]);
      if (earlier_reports[i]) AddRepairs(*earlier_reports[i], *reports[i]);
    }
    const bool gone = HasGone(datasets[i], *reports[i]);
    const bool bare = reports[i]->status.code() == Code::kUnprotected && !FindSidecar(*fs_, datasets[i].path).ok();
    // ReportLeftBare tells of those that lost their sidecar just now.
    const auto is_told = [&](const LeftBare& one) { return one.path == FollowLink(*fs_, datasets[i].path); };
    if ((gone || bare) && !std::ranges::any_of(FindLeftBare(*fs_), is_told)) without_sidecar_.insert(datasets[i].path);
    if (!gone) CountAndPrint(datasets[i], *std::move(reports[i]));
  }
}

// Other programs run while a directory is processed. lzy-protect needs the file, other tools a sidecar.
bool ToolRun::HasGone(const DatasetRef& dataset, const DatasetReport& report) {
  const bool makes = tool_.resolve() == Resolve::kProtectable;
  if (dataset.kind != DatasetKind::kShared || report.status.code() == Code::kInterrupted) return false;
  if (report.status.ok() && (!makes || ExitCodeOf(report) == 0)) return false;
  const bool named = std::ranges::find(arguments_.paths, dataset.path) != arguments_.paths.end();
  if (named) return false;
  // A renamed and damaged file may have lost its sidecar just now, to the file that it proves.
  const auto rotten = [&] { return RottenAs(*fs_, FollowLink(*fs_, dataset.path), options_.key.get()).has_value(); };
  const bool here = makes ? fs_->Stat(dataset.path).ok() : FindSidecar(*fs_, dataset.path).ok() || rotten();
  const auto anywhere = comm_.AllReduceMax(here);
  return anywhere.ok() && *anywhere == 0;
}

// The engine reports progress, and asks whether to stop, from any of its threads.
Context ToolRun::MakeContext() {
  Context context{*fs_, comm_, options_};
  context.progress = [this](const char* phase, std::uint64_t done, std::uint64_t total) {
    progress_->Update(phase, done, total);
  };
  context.stop = [] { return stop_wanted != 0; };
  return context;
}

void ToolRun::ShowProgress(const char* phase, std::uint64_t done, std::uint64_t total, const std::string& note) {
  progress_->Update(phase, done, total, &note);
}

void ToolRun::CountFinished(const std::string& path) {
  ++finished_;
  last_finished_ = path;
}

DatasetReport ToolRun::HandleOne(const DatasetRef& dataset) {
  const Context context = MakeContext();
  // Store the findings so far: they must not wait for a large dataset.
  if (books_) books_->Flush();
  // Info reads metadata only.
  if (tool_.action() != Action::kInfo) TuneForWork(BytesHere(*fs_, comm_, dataset));
  return tool_.engine(context, dataset);
}

// Each look for the content of a file elsewhere stats all files around. In a directory with very many lost files, only the first reports
// have the result.
constexpr std::size_t kMostLooks = 64;

// True if a shared file was lost, and was made again, perhaps in part.
bool MadeAgain(const DatasetReport& report) {
  return report.kind == DatasetKind::kShared && std::ranges::any_of(report.damage, [](const Damage& damage) {
           return damage.part == DamagePart::kData && damage.cause == DamageCause::kMissing && damage.repaired;
         });
}

// The commands of HeldElsewhereText are about other files, and of no use after these were renamed or protected.
std::string HeldNote(const DatasetReport& report) {
  return fmt::format("  other files hold what it was; to see which ones, and what to type: lzy-verify {}\n", ShellQuote(report.path));
}

// What LookElsewhere found.
struct ToolRun::Found {
  bool looked = false;
  std::string held;               // HeldElsewhereText
  std::vector<HeldMember> moved;  // of a set that can be repaired
};

// Info reads no data, and nothing is read for texts that nobody gets.
ToolRun::Found ToolRun::LookElsewhere(const DatasetReport& report, bool shown, bool noted) {
  Found found;
  const bool beyond = report.state == DatasetState::kUnrepairable;
  const bool may_be = beyond || report.state == DatasetState::kStale || (report.kind == DatasetKind::kSet && !LostFiles(report).empty());
  if (tool_.action() == Action::kInfo || !may_be || (!shown && !noted)) return found;
  found.looked = looks_++ < kMostLooks;
  if (!found.looked) return found;
  if (beyond) found.held = HeldElsewhereText(*fs_, report, RepeatedOptions(options_), options_.key.get());
  else found.moved = FindHeldMembers(*fs_, report, /*beyond=*/false, options_.key.get());
  return found;
}

// lzy-status prints the same commands, from any directory, so paths in them are absolute there. A failure to write says nothing.
CatalogNote ToolRun::NoteOf(const DatasetRef& dataset, const DatasetReport& report, CatalogNote::Read read, const Found& found) {
  CatalogNote note;
  note.read = read;
  note.removed = !report.removed.empty();
  const bool proven = report.stamps != StampNote::kNone && report.stamps != StampNote::kTaken;  // and something is to be recorded
  if ((ExitCodeOf(report) == 0 && !proven) || note.removed) return note;
  const Code code = report.status.code();
  note.unreadable = tool_.action() == Action::kVerify && (code == Code::kIo || code == Code::kUnreadable);
  DatasetReport there = report;
  DatasetRef ref = dataset;
  there.path = ref.path = CatalogPath(report.path, report.kind == DatasetKind::kSet);
  for (Damage& damage : there.damage) damage.path = CatalogPath(damage.path, false);
  for (auto& [rank, path] : ref.members) path = CatalogPath(path, false);
  std::vector<HeldMember> moved = found.moved;
  for (HeldMember& one : moved) {
    for (std::string* const path : {&one.place, &one.copy, &one.sidecar}) {
      if (!path->empty()) *path = CatalogPath(*path, false);
    }
  }
  if (note.unreadable) {
    note.next = fmt::format("  to see why: lzy-verify {}\n", ShellQuote(there.path));
  } else if (report.status.ok() || code == Code::kBeyondRepair) {
    const bool looked = tool_.action() == Action::kInfo;  // at metadata only
    note.next = AdviceBeforeRestore(*fs_, there, moved) +
                (!found.held.empty() ? HeldNote(there) : NextText(there, looked ? Action::kInfo : Action::kVerify, "", ""));
  } else {
    note.next = AdviceAfterFailure(*fs_, there, ref, Action::kVerify, "", comm_.size() == 1, moved);
  }
  return note;
}

void ToolRun::SayReport(const DatasetRef& dataset, const DatasetReport& report, const std::string& state, const Found& found) {
  const std::string repeated = RepeatedOptions(options_);
  const bool none = tool_.action() == Action::kInfo && report.status.ok() && report.state == DatasetState::kUnprotected && comm_.size() == 1;
  const std::string first = AdviceBeforeRestore(*fs_, report, found.moved) +
                            (found.looked ? ReplacedText(*fs_, report, repeated, options_.key.get()) : std::string());
  std::string places = found.looked ? ChangedPlacesText(*fs_, report, options_.key.get()) : std::string();
  // Typed twice, the command would undo itself.
  if (!places.empty() && !told_places_.insert(places).second) places = "  files changed places: the command is in a report above\n";
  const std::string before_held = !places.empty() || !report.holds_another ? places : "  first, if files changed places, give them their names or contents back\n";
  const std::string instead = none ? NoSetAdvice(*fs_, report, dataset, repeated) : found.held.empty() ? found.held : before_held + found.held;
  Say(ReportText(report, tool_.action(), {state, first, repeated, tool_.again ? tool_.again() : std::string(), instead, places}));
}

// The part before `speaks_` runs on all ranks, the part after it on rank 0.
void ToolRun::CountAndPrint(const DatasetRef& dataset, DatasetReport report) {
  if (report.skipped) return;
  // Notes say how the dataset was found, such as under an old name. Hints are of use only if there is damage.
  report.warnings.insert(report.warnings.begin(), dataset.notes.begin(), dataset.notes.end());
  if (!report.damage.empty()) {
    report.warnings.insert(report.warnings.begin(), dataset.hints.begin(), dataset.hints.end());
  }
  // Not counted as finished; ReportInterrupted names it.
  if (report.status.code() == Code::kInterrupted) {
    interrupted_ = true;
    if (unfinished_.empty()) unfinished_ = report.path;
    return;
  }
  // Counted on all ranks: ReportInterrupted and Finish are collective. A portion counts even if it was cut short.
  if (report.portion.end < report.portion.of && Interrupted()) {
    if (unfinished_.empty()) unfinished_ = report.path;
  } else {
    ++finished_;
    last_finished_ = report.path;
  }
  if (tool_.tells()) codes_.AddDataset(report.path, ExitCodeOf(report));
  if (tool_.action() != Action::kInfo) {
    std::ranges::move(NameObjects(MakeContext(), ObjectsHelper(), report), std::back_inserter(report.warnings));
  }
  if (tool_.action() == Action::kProtect && report.status.ok() && report.state == DatasetState::kIntact) {
    const bool anew = tool_.indexes_objects && tool_.indexes_objects();
    std::ranges::move(IndexObjects(MakeContext(), ObjectsHelper(), dataset, report, anew), std::back_inserter(report.warnings));
  }
  if (tool_.action() == Action::kRemove) RemoveIndexes(*fs_, report);
  if (!speaks_) return;
  bytes_read_ += report.bytes_read;
  if (MadeAgain(report) && made_again_.size() < kMostLooks) made_again_.push_back(report.path);
  const auto read = books_ && tool_.note ? tool_.note(report) : std::nullopt;
  const bool shown = tool_.tells() && !arguments_.quiet && !arguments_.json;
  const Found found = LookElsewhere(report, shown, read.has_value());
  if (read) {
    books_->Add(report, NoteOf(dataset, report, *read, found));
    ForgetMembersOf(*this, report);
  }
  if (!tool_.tells()) return;
  progress_->Clear();
  for (const std::string& warning : report.warnings) {
    Warn(warning.starts_with(report.path + ":") ? warning : fmt::format("{}: {}", report.path, warning));
  }
  // A failure of the operation itself, apart from findings.
  if (!report.status.ok()) {
    // The engine's messages name the file they are about, which need not be the dataset's path.
    const bool named = report.status.message().find(report.path) != std::string::npos;
    Complain(named ? report.status : report.status.WithContext(report.path));
  }
  // For cron: silent while all is well, one line otherwise.
  if (arguments_.quiet && report.status.ok() && ExitCodeOf(report) != 0) {
    PrintOnStderr(fmt::format("{}: {}", report.path, StateText(report, tool_.action())));
  }
  Json entry = arguments_.json ? ToJson(report) : Json::object();
  const std::string state = tool_.state_text ? tool_.state_text(*this, report, entry) : StateText(report, tool_.action());
  if (shown) SayReport(dataset, report, state, found);
  if (!report.status.ok() && !arguments_.quiet) {
    const std::string next = AdviceAfterFailure(*fs_, report, dataset, tool_.action(), RepeatedOptions(options_), comm_.size() == 1, found.moved);
    const bool reported = report.devices > 0 || report.status.code() == Code::kBeyondRepair;  // not only a message (ReportText)
    if (reported) {
      Say(next);
    } else {
      Advise(next);
    }
  }
  // --log=info: where the time went.
  if (options_.log >= Options::Log::kInfo && !arguments_.quiet) {
    PrintOnStderr(fmt::format("{}: {}", report.path, PhasesText(report.phases)));
  }
  // Kept to the end, since JSON is one document.
  if (arguments_.json) json_->datasets.push_back(std::move(entry));
  if (tool_.after_dataset) tool_.after_dataset(*this, report);
}

void ToolRun::HandleNamed() {
  for (const std::string& path : arguments_.paths) {
    if (Interrupted()) break;
    HandlePath(path);
  }
}

// There may be no PATH if the tool allows it; Parse has checked that.
int ToolRun::Run() {
  const auto begin = std::chrono::steady_clock::now();
  const bool keeps_books = std::ranges::find(tool_.table_options, "catalog") != tool_.table_options.end();
  if (speaks_ && keeps_books && tool_.note && tool_.keeps_books()) {
    books_ = std::make_unique<Bookkeeping>(tool_.name, options_, [this](const std::string& text) {
      tool_.needs_books ? Fail({Code::kIo, text}) : Warn(text);
    });
  }
  // Files that are proven elsewhere must not be overwritten, even if the command names only one dataset.
  if (keeps_books) AddToReach(*fs_, [this] { return DirectoriesInCatalog(options_); }, Reach::kKnown);
  AddFilesToReach(*fs_, [this, files = std::make_shared<FilesInCatalog>(options_)](std::uint64_t bytes) {
    auto paths = files->OfSize(bytes);
    for (auto& path : paths) path = names_ == nullptr ? path : names_->NameOf(path);
    return paths;
  });
  LookForMovedIn(*fs_, [this] { return DirectoriesOf(*fs_, arguments_.paths, Resolve::kProtectable); });
  // A file that was moved is in one directory, and its sidecar in another.
  for (const Resolve what : std::set{Resolve::kProtected, tool_.resolve()}) {
    if (arguments_.paths.size() > 1) AddToReach(*fs_, [this, what] { return DirectoriesOf(*fs_, arguments_.paths, what); }, Reach::kNamed);
  }
  if (tool_.run) {
    tool_.run(*this);
  } else if (tool_.arrange) {
    HandleArranged();
  } else if (arguments_.paths.empty()) {
    tool_.run_without_path(*this);
  } else {
    HandleNamed();
  }
  ReportLeftBare();
  return Finish(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
}

// A file may have got the sidecar that another one was judged by. The other one now has no sidecar, and no report of its own.
void ToolRun::ReportLeftBare() {
  auto all = UniteRecords(comm_, TakeLeftBare(*fs_));
  if (!all.ok()) return Fail(all.status());
  std::set<std::string> told;
  for (const LeftBare& bare : *all) {
    if (made_again_.size() < kMostLooks) made_again_.push_back(bare.by);
    told.insert(bare.path);
  }
  for (const std::string& by : made_again_) {
    for (const std::string& path : speaks_ ? LeftBareBy(*fs_, by, options_.key.get()) : std::vector<std::string>()) {
      if (told.insert(path).second) all->push_back({path, by, ""});
    }
  }
  for (const LeftBare& bare : *all) {
    if (std::ranges::find(codes_.unjudged(), bare.path) != codes_.unjudged().end()) continue;
    Fail({Code::kUnprotected, fmt::format("{}: it is not protected any more: by its content, the sidecar that it was judged by is that of '{}'",
                                          bare.path, bare.by)});
    if (const Status rotten = RefuseRotten(*fs_, bare.path, bare.path, options_.key.get()); !rotten.ok()) {
      Fail(rotten);
      continue;
    }
    // Before the other one has its sidecar, a commit of this one would need --force.
    const bool first = !bare.sidecar.empty() && fs_->Stat(bare.sidecar, /*follow=*/false).ok();
    Advise(fmt::format("  to protect it as it is: lzy-protect {}{}{}\n", RepeatedOptions(options_), first ? ShellQuote(bare.by) + " " : "",
                       ShellQuote(bare.path)));
  }
}

// The command gets the findings even if the tool was interrupted.
void ToolRun::EndBooks(int exit_code, double seconds) {
  if (!books_) return;
  books_->Flush();
  if (tool_.note && bytes_read_ > 0) books_->AddRun(seconds, bytes_read_, "");
  const std::string command = tool_.on_damage ? tool_.on_damage() : std::string();
  if (command.empty() || books_->news().empty()) return;
  progress_->Clear();
  std::fflush(stdout);
  const Status told = RunAlert(command, {tool_.name, exit_code, books_->news(), seconds});
  if (!told.ok()) Warn(fmt::format("--on-damage: {}: {}", command, told.message()));
}

// Reports are the same on all ranks. If they ever differ, the exit code is still the same.
int ToolRun::Finish(double seconds) {
  int exit_code = codes_.code();
  const std::uint8_t mine[] = {static_cast<std::uint8_t>(exit_code)};
  // The gravest code of all ranks, by the same rule as for datasets.
  if (auto all = comm_.AllGather(mine); all.ok()) {
    for (const auto& code : *all) exit_code = CombineExitCodes(exit_code, code.empty() ? kExitInternal : code[0]);
  } else {
    Fail(all.status());
    exit_code = CombineExitCodes(exit_code, codes_.code());
  }
  ReportUnjudged();
  if (interrupted_) exit_code = ReportInterrupted();
  EndBooks(exit_code, seconds);
  if (!speaks_) return exit_code;
  if (arguments_.json) {
    Json document = json_->document ? std::move(*json_->document)
                                    : Document(tool_, exit_code, seconds, std::move(json_->datasets));
    if (!json_->errors.empty()) document["errors"] = std::move(json_->errors);
    document.update(json_->extra);
    Put(stdout, Dump(document, false));
  }
  return exit_code;
}

namespace {

void AddOptions(const Tool& tool, Arguments& arguments) {
  arguments.AddTableOptions(tool.table_options);
  if (tool.add_options) tool.add_options(arguments);
  if (tool.takes_paths) arguments.AddPaths(tool.without_path, tool.path_help, tool.paths_optional);
}

/// Everything between the beginning and the end of MPI. `session` outlives all that is made here.
int RunWithin(MpiSession& session, const Tool& tool, int argc, char** argv) {
  Communicator& comm = session.comm();
  const bool speaks = comm.rank() == 0;
  // Without MPI every process is its own rank 0.
  if (!session.status().ok()) return EndEarly(tool, speaks, argc, argv, session.status());

  // All ranks have the same command line, but not the same environment: so they agree on whether the options are
  // usable.
  Arguments arguments(tool.name, tool.summary, tool.changes);
  AddOptions(tool, arguments);
  // --help and --version end here, on all ranks alike.
  const Arguments::Outcome outcome = arguments.Parse(argc, argv);
  if (outcome.exit_code == 0) {
    if (speaks) Put(stdout, outcome.output);
    return 0;
  }
  Status usable = outcome.exit_code ? Status(Code::kInvalidArgument, outcome.error) : Status::Ok();
  Result<Options> options = usable.ok() ? arguments.MakeOptions() : Result<Options>(usable);
  usable = options.status();
  if (usable.ok() && tool.check_options) usable = tool.check_options();
  // Rank 0 writes the report. It is better to fail now than after the work.
  const bool reports = std::ranges::find(tool.table_options, "report") != tool.table_options.end();
  if (usable.ok() && speaks && reports && !options->report.empty()) usable = CheckReportFile(options->report);
  usable = Agree(comm, usable);
  if (!usable.ok()) return EndEarly(tool, speaks, argc, argv, usable);
  comm.SetTopology(options->topology);
  comm.SetExchange(options->exchange);
  if (session.started_apart() > 0 && !arguments.quiet && options->log >= Options::Log::kWarn) {
    Put(stderr, fmt::format("{}: warning: the launcher started {} processes, and each works alone: {} is built for another MPI, {}. Use the "
               "mpiexec of that MPI\n",
               tool.name, session.started_apart(), tool.name, LZY_MPI_SONAME));
  }
  if (!session.versions().empty() && !arguments.quiet && options->log >= Options::Log::kWarn) {
    Put(stderr, fmt::format("{}: warning: the ranks run different versions of lzy: {}. Install one version on all nodes\n", tool.name,
               session.versions()));
  }
  std::optional<TwoEnds> ends;
  if (tool.meet_other_end) {
    auto met = tool.meet_other_end(arguments, *options, comm);
    if (met.ok() && *met) ends.emplace(**met);
    // The other end may find that its options cannot be used.
    const Status agreed = !met.ok() ? met.status() : ends ? Agree(ends->comm, Status::Ok()) : Status::Ok();
    if (!agreed.ok()) return EndEarly(tool, speaks, argc, argv, agreed);
  }
  // Not before: until here, a signal may simply end the process.
  CatchSignals();
  return ToolRun(tool, arguments, *options, ends ? ends->comm : comm, ends ? &ends->names : nullptr).Run();
}

}  // namespace

int RunToolAtFarEnd(const Tool& tool, const std::vector<std::string>& words, const std::vector<std::string>& paths, const TwoEnds& ends) {
  Arguments arguments(tool.name, tool.summary, tool.changes);
  AddOptions(tool, arguments);
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  const Arguments::Outcome outcome = arguments.Parse(static_cast<int>(argv.size()), argv.data());
  Status usable = outcome.exit_code ? Status(Code::kInvalidArgument, outcome.error) : Status::Ok();
  Result<Options> options = usable.ok() ? arguments.MakeOptions() : Result<Options>(usable);
  usable = options.status();
  if (usable.ok() && tool.check_options) usable = tool.check_options();
  usable = Agree(ends.comm, usable);
  if (!usable.ok()) return ExitCodeOf(usable);
  arguments.paths = paths;
  CatchSignals(/*far_end=*/true);
  return ToolRun(tool, arguments, *options, ends.comm, &ends.names).Run();
}

int SignalCaught() {
  return stop_wanted;
}

bool OnAnyRank(Communicator& comm, bool here) {
  const auto anywhere = comm.AllReduceMax(here);
  return anywhere.ok() && *anywhere != 0;
}

Result<std::uint64_t> ParseLimit(const std::vector<std::string>& given) {
  if (given.empty()) return std::uint64_t{0};
  const auto rate = ParseSize(given.back());
  if (rate && *rate > 0) return *rate;
  return Status(Code::kInvalidArgument, fmt::format("--limit: '{}' is not accepted: bytes a second, such as 50M (K, M, G, T)", given.back()));
}

void AddOnDamage(Arguments& arguments, std::vector<std::string>& command) {
  arguments.AddValues("--on-damage", "COMMAND", command,
                      "if there is damage that the catalogue does not know yet: run COMMAND, with the report on its standard input");
}

// An exception on this rank alone would leave the others in a collective call. Only MPI_Abort can end them.
int RunTool(const Tool& tool, int argc, char** argv) {
  KeepStandardDescriptors();
  MpiSession session;
  int exit_code = kExitInternal;
  try {
    exit_code = RunWithin(session, tool, argc, argv);
  } catch (const StatusError& error) {
    Put(stderr, fmt::format("{}: {}\n", tool.name, Printable(error.status.message())));
    exit_code = ExitCodeOf(error.status);
    session.AbortOthers(exit_code);
  } catch (const std::bad_alloc&) {
    Put(stderr, fmt::format("{}: out of memory\n", tool.name));
    exit_code = kExitNoMemory;
    session.AbortOthers(exit_code);
  } catch (const std::exception& error) {
    Put(stderr, fmt::format("{}: internal error: {}\n", tool.name, error.what()));
    session.AbortOthers(exit_code);
  }
  // A full disk shows here at the latest: a report that is lost must not look like success.
  return EndStreams(tool.name, exit_code);
}

}  // namespace lzy
