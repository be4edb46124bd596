// Opens files, and deletes them at the end. Rank 0 of the communicator decides whether the file is protected, and begins
// its epoch. The other ranks get the decision from it. All ranks of the open agree before any of them has an entry: commits
// are collective, and a rank without an entry would not take part.
//
// An entry is made by OpenedAlone (a communicator of one rank, as for members of sets), OpenedTogether, or OpenedToRead.
// All run after the real open and before it returns to the program. So the entry exists before the first write of the
// program.

#include "hooks/calls/open.h"

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>

#include "base/status.h"
#include "comm/records.h"
#include "hooks/background/background.h"
#include "hooks/calls/committing.h"
#include "hooks/contract/guarded.h"
#include "hooks/disk/page_cache.h"
#include "hooks/disk/selection.h"
#include "hooks/epochs/file_epoch.h"
#include "hooks/files/registry.h"
#include "hooks/files/settings.h"
#include "hooks/reports/commit_report.h"
#include "hooks/reports/messages.h"
#include "hooks/reports/opened.h"
#include "hooks/sets/sets.h"
#include "mpi/mpi_communicator.h"
#include "mpi/versions.h"
#include "request/deletion_record.h"
#include "request/options.h"
#include "sidecar/names.h"

namespace lzy::hooks {
namespace {

/// While this is true, files are opened by the MPI library itself (ROMIO probes file systems that way).
thread_local bool inside_open = false;

/// Reports errors in LZY_* variables once. True if there are any.
bool ReportEnvironment() {
  const Settings& environment = EnvironmentSettings();
  if (environment.status.ok()) return false;
  SayOnce(environment.options, Options::Log::kError, "", "environment",
          fmt::format("{}; nothing is protected", environment.status.message()));
  return true;
}

/// The reason why the name alone excludes a file from protection; empty if it does not.
std::string WhyNotByName(const Options& options, const std::string& path) {
  if (IsSelected(options, path)) return "";
  Options without = options;
  without.exclude.clear();
  return IsSelected(without, path) ? "option exclude leaves it out" : "option include leaves it out";
}

}  // namespace

void Refuse(const Options& options, const std::string& path, const Status& why) {
  SayOnce(options, Options::Log::kWarn, path, "refused", fmt::format("{}: not protected: {}", path, why.message()));
}

void RefuseForNow(const OpenFile& file) {
  const std::string command = ProtectCommand(file.options, file.set ? file.set->pattern : file.path);
  NoteOpened(file.path, file.failed.message(), file.plain);
  Refuse(file.options, file.path,
         {file.failed.code(), fmt::format("{}; after you have fixed that: {}", file.failed.message(), command)});
}

Candidate ConsiderFile(const char* name, MPI_Info info) {
  Candidate candidate;
  const bool told = ReportEnvironment();
  const auto path = PosixFileSystem().RealPath(PathOfName(PosixFileSystem(), name));
  if (!path.ok()) return candidate;
  candidate.path = *path;
  candidate.why_not = "files of this name, or in this directory, are never protected";
  if (IsNeverProtected(*path)) return candidate;
  auto texts = TextsWithHints(info);
  auto options = texts.ok() ? Parse(*texts) : Result<Options>(texts.status());
  if (!options.ok()) {
    if (!told) Refuse(EnvironmentSettings().options, *path, options.status());
    candidate.refused = options.status();
    candidate.why_not = options.status().message();
    texts = UsableTexts(info);
    options = Parse(*texts);
    if (!options.ok()) return candidate;
  }
  candidate.texts = std::move(*texts);
  candidate.options = *options;
  const auto stat = PosixFileSystem().Stat(*path);
  const bool regular = stat.ok() && stat->type == FileStat::Type::kRegular;
  candidate.why_not = regular ? WhyNotByName(*options, *path) : "it is no regular file";
  if (!candidate.why_not.empty()) return candidate;
  candidate.stat = *stat;
  if (const auto sidecar = SidecarPath(*path); !sidecar.ok()) {
    Refuse(*options, *path, sidecar.status());
    candidate.refused = sidecar.status();
  }
  candidate.why_not = candidate.refused.message();
  candidate.wanted = candidate.refused.ok() || options->fail_on_error;
  return candidate;
}

namespace {

/// False if the last component alone shows that `path` is not the member of `rank`. MatchSet looks directories up, for each rank.
bool MayBeMember(const std::string& pattern, std::uint32_t rank, const std::string& path) {
  const std::string name = BaseNameOf(path);
  const std::string wanted = BaseNameOf(ExpandPattern(pattern, rank));
  const std::size_t star = wanted.find('*');
  return star == std::string::npos ? name == wanted : name.compare(0, star, wanted, 0, star) == 0;
}

}  // namespace

Result<std::optional<SetName>> FindSet(const OptionTexts& texts, const Options& options, const std::string& path) {
  if (options.set.empty()) return std::optional<SetName>();
  Sets* sets = Sets::Get();
  if (sets == nullptr) {
    return {Code::kInvalidArgument, "set: file sets need a program that calls MPI_Init or MPI_Init_thread"};
  }
  const std::string& directory = EnvironmentSettings().directory;
  // Hints come last. It is not known here whether all ranks give the same hints.
  const auto counted = [](const OptionTexts& in) { return std::ranges::count(in, "set", &GivenOption::name); };
  const bool alike = sets->declared_alike() || counted(texts) > counted(EnvironmentSettings().texts);
  for (const std::string& pattern : options.set) {
    auto set = MatchSet(PosixFileSystem(), pattern, directory, sets->rank(), path);
    if (set && !alike) {
      return {Code::kInvalidArgument,
              fmt::format("it is a member of set {} on rank {}, but LZY_SET is not the same on all ranks", pattern, sets->rank())};
    }
    if (set) return {std::move(set)};
  }
  for (const std::string& pattern : options.set) {
    for (int rank = 0; rank < sets->size(); ++rank) {
      const auto other = static_cast<std::uint32_t>(rank);
      if (!MayBeMember(pattern, other, path)) continue;
      if (!MatchSet(PosixFileSystem(), pattern, directory, other, path)) continue;
      return {Code::kInvalidArgument,
              fmt::format("it is the member of rank {} of set {}, but rank {} opened it", rank, pattern, sets->rank())};
    }
  }
  return std::optional<SetName>();
}

namespace {

/// True if `mine` is true on all ranks; the same answer on all ranks. Collective over `comm`, unless that has one rank.
/// This is the only message of the layer on a communicator of the program. Collective calls come in the same order on all
/// ranks, so it cannot be confused with one of the program's own.
///
/// In programs with sessions, or that were spawned, MPI_Init has not compared the versions of all these ranks. So this call
/// sends them, too; these five numbers are the same in all versions, for ever. Ranks that cannot communicate return false.
bool OnAll(MPI_Comm comm, int size, bool mine) {
  if (size == 1) return mine;
  const VersionVote vote = VoteOf(OwnVersion());
  const std::array<int, 5> have = {mine ? 1 : 0, vote[0], vote[1], vote[2], vote[3]};
  std::array<int, 5> all{};
  if (PMPI_Allreduce(have.data(), all.data(), 5, MPI_INT, MPI_MIN, comm) != MPI_SUCCESS) return false;
  const bool apart = JudgeVotes({all[1], all[2], all[3], all[4]}) == Mixture::kApart;
  int rank = 0;
  if (apart && PMPI_Comm_rank(comm, &rank) == MPI_SUCCESS && rank == 0) {
    SayOnce(EnvironmentSettings().options, Options::Log::kWarn, "", "versions",
            "the processes that open a file run versions of lzy that do not understand each other; what they open together is not "
            "protected. Install one version on all nodes");
  }
  return all[0] != 0 && !apart;
}

// True if no other rank of this program can write the file.
bool InWorldOfOne() {
  int initialized = 0;
  int size = 0;
  return PMPI_Initialized(&initialized) == MPI_SUCCESS && initialized &&
         PMPI_Comm_size(MPI_COMM_WORLD, &size) == MPI_SUCCESS && size == 1;
}

/// With verify-reads: prepares the checks of reads. Call it before the entry exists, because `check` is constant
/// afterwards. Without an inode nothing is checked, because another file may have the name.
void CheckReads(OpenFile& file, int mode, std::uint64_t inode) {
  file.sequential = (mode & MPI_MODE_SEQUENTIAL) != 0;
  if (!file.options.verify_reads || (mode & MPI_MODE_WRONLY) != 0 || inode == 0) return;
  file.check = std::make_unique<ReadCheck>(PosixFileSystem(), file.options, file.path, inode);
}

/// For a file opened by this process alone: a member of a set, or a file of its own. Needs no agreement, so a failure only
/// removes the entry again. If the program has more processes, another one may open the same file by itself; then nothing
/// is captured, and every commit covers the whole file (`uncoordinated`).
void OpenedAlone(Candidate candidate, int mode, Word handle) {
  auto file = std::make_shared<OpenFile>();
  file->path = candidate.path;
  file->options = candidate.options;
  CheckReads(*file, mode, candidate.stat.inode);
  file->comm = SelfCommunicator();
  file->failed = candidate.refused;
  auto set = FindSet(candidate.texts, file->options, file->path);
  if (set.ok()) {
    file->set = std::move(*set);
  } else {
    Refuse(file->options, file->path, set.status());
    NoteOpened(file->path, set.status().message());
    if (!file->options.fail_on_error) return;
    file->failed = set.status();
  }
  if (file->set) {
    Sets::Get()->NoteMember();
    file->pages_stay = !file->options.capture || PagesStay(file->path);
  }
  file->uncoordinated = !file->set && !InWorldOfOne();
  if (file->options.summary && !file->set) file->usage = Usage::Of(file->path);
  if (file->options.summary && file->set && Sets::Get()->rank() == 0) file->usage = Usage::Of(file->set->pattern);
  Registry::Get().Insert(handle, file, candidate.stat.file_system, candidate.stat.inode);
  DecideBackground(*file);
  if (!file->failed.ok()) return;  // sync and close report it
  file->failed = BeginFirstEpoch(*file);
  if (file->failed.ok()) return;
  RefuseForNow(*file);
  // A member must still join the commits of its set, to inform the others.
  if (!file->set && !file->options.fail_on_error) {
    Registry::Get().Take(handle);
    Registry::Get().Leave(*file);
  }
}

/// The message of rank 0 to the ranks that open the file, too.
struct Opening {
  std::string path;
  OptionTexts texts;
  bool must_cover_all = false;
  bool epoch_open = false;
  Epoch epoch;
  MadeWith expected;
  Status failed;
  LZY_FIELDS(path, texts, must_cover_all, epoch_open, epoch, expected, failed)
};

/// On rank 0, while the others wait: begins the epoch, and returns the message for the other ranks.
Opening LeadOpening(OpenFile& file, const Candidate& candidate, int mode, Word handle) {
  file.path = candidate.path;
  file.options = candidate.options;
  file.comm->SetTopology(file.options.topology);
  file.comm->SetExchange(file.options.exchange);
  CheckReads(file, mode, candidate.stat.inode);
  if (file.options.summary) file.usage = Usage::Of(file.path);
  // The entry comes before the epoch, and the epoch before the first write: all ranks wait for this rank.
  Registry::Get().Insert(handle, file.shared_from_this(), candidate.stat.file_system, candidate.stat.inode);
  file.failed = candidate.refused;
  if (file.failed.ok()) {
    file.failed = BeginFirstEpoch(file);
    if (!file.failed.ok()) RefuseForNow(file);
  }
  return {file.path,  candidate.texts, file.must_cover_all, file.disk->epoch_open.load(),
          file.epoch, file.expected,   file.failed};
}

/// On the other ranks. Fails if the message of rank 0 cannot be used here; then there is no entry.
Status FollowOpening(OpenFile& file, const Opening& opening, int mode, Word handle) {
  LZY_ASSIGN_OR_RETURN(file.options, Parse(opening.texts));
  file.path = opening.path;
  file.comm->SetTopology(file.options.topology);
  file.comm->SetExchange(file.options.exchange);
  file.must_cover_all = opening.must_cover_all;
  file.epoch = opening.epoch;
  file.expected = opening.expected;
  file.failed = opening.failed;
  const auto stat = PosixFileSystem().Stat(file.path);
  CheckReads(file, mode, stat.ok() ? stat->inode : 0);
  Registry::Get().Insert(handle, file.shared_from_this(), stat.ok() ? stat->file_system : 0, stat.ok() ? stat->inode : 0);
  if (opening.epoch_open) file.disk->epoch_open = true;  // rank 0 has made the intent durable
  return Status::Ok();
}

/// For a file opened by several processes together. Collective over `comm`. Rank 0 has a candidate that is wanted.
void OpenedTogether(MPI_Comm comm, int size, const Candidate& candidate, int mode, Word handle) {
  std::shared_ptr<OpenFile> file;
  Status local = NoThrow([&] {
    auto own = MpiCommunicator(comm);
    if (!own.ok()) return own.status();
    file = std::make_shared<OpenFile>();
    file->comm = std::move(*own);
    return Status::Ok();
  });
  if (!OnAll(comm, size, local.ok())) {
    if (!local.ok()) Say("MPI_File_open: not protected", local.message().c_str());
    return;
  }
  Opening opening;
  if (file->Leads()) local = NoThrow([&] { opening = LeadOpening(*file, candidate, mode, handle); });
  const Status sent = BroadcastRecord(*file->comm, opening);
  if (local.ok()) local = sent;
  if (local.ok() && !file->Leads()) local = NoThrow([&] { return FollowOpening(*file, opening, mode, handle); });
  // A rank without an entry would not take part in commits.
  const Status agreed = Agree(*file->comm, local);
  const bool failed = !agreed.ok();
  if (failed && file->Leads()) {
    Say("MPI_File_open: not protected", agreed.message().c_str());
    NoteOpened(candidate.path, agreed.message());
    if (file->disk) TakeIntentBack(*file);
  }
  if (failed || (!file->failed.ok() && !file->options.fail_on_error)) {
    if (Registry::Get().Take(handle)) Registry::Get().Leave(*file);
    return;
  }
  DecideBackground(*file);
  // The rank that writes first begins the epoch. The others must recognise its intent as one of this program.
  if (file->options.verify_reads) (void)MeetProcesses(*file);
}

/// For a file opened for reading. It gets its own communicator only if the ranks agreed in MPI_Init that all of them check
/// their reads. Otherwise nothing here is collective, because a rank without the option does not come here.
void OpenedToRead(MPI_Comm comm, int size, const Candidate& candidate, bool wanted, int mode, Word handle) {
  std::shared_ptr<OpenFile> file;
  const Sets* sets = Sets::Get();
  const bool agreed = size == 1 || (sets != nullptr && sets->all_check_reads());
  const Status made = NoThrow([&]() -> Status {
    file = std::make_shared<OpenFile>();
    file->ranks_agree = agreed;
    file->path = candidate.path;
    file->options = candidate.options;
    file->reads_only = true;
    if (wanted) CheckReads(*file, mode, candidate.stat.inode);
    file->comm = SelfCommunicator();
    return Status::Ok();
  });
  if (size > 1 && agreed) {
    auto own = MpiCommunicator(comm);
    const bool all = OnAll(comm, size, made.ok() && own.ok() && file->check != nullptr);
    if (file) file->ranks_agree = all;
    if (all) file->comm = std::move(*own);
  }
  if (!made.ok()) Say("MPI_File_open: reads are not checked", made.message().c_str());
  if (made.ok() && file->check) Registry::Get().Insert(handle, std::move(file), 0, 0);
}

/// For ranks that cannot communicate (Sets::Versions). With on-error=fail, sync and close report this, on each rank
/// separately.
void OpenedApart(const char* name, MPI_Info info, int mode, Word handle) {
  const Candidate candidate = ConsiderFile(name, info);
  if ((mode & MPI_MODE_RDONLY) == 0) NoteOpened(candidate.path, Sets::Versions().message());
  if (!candidate.wanted || !candidate.options.fail_on_error || (mode & MPI_MODE_RDONLY) != 0) return;
  auto file = std::make_shared<OpenFile>();
  file->path = candidate.path;
  file->options = candidate.options;
  file->comm = SelfCommunicator();
  file->failed = Sets::Versions();
  Registry::Get().Insert(handle, file, candidate.stat.file_system, candidate.stat.inode);
}

/// True if hints or environment of this rank ask for verify-reads.
bool WantsChecks(MPI_Info info) {
  const auto texts = TextsWithHints(info);
  const auto options = texts.ok() ? Parse(*texts) : Result<Options>(texts.status());
  return EnvironmentSettings().status.ok() && options.ok() && options->verify_reads;
}

/// Runs after the real MPI_File_open returned `code`, for files that outlive their close. All ranks must decide alike about
/// collective calls: the decisions depend on `mode`, on `size`, and on what was agreed in MPI_Init.
void AfterOpen(MPI_Comm comm, const char* name, int mode, MPI_Info info, int code, Word handle) {
  // MPICH 5 returns success, but no file, if an error handler of the program was called for the failure.
  const bool opened = code == MPI_SUCCESS && As<MPI_File>(handle) != MPI_FILE_NULL;
  int error_class = MPI_SUCCESS;
  // Do not use a communicator that MPI refused.
  if (!opened && (PMPI_Error_class(code, &error_class) != MPI_SUCCESS || error_class == MPI_ERR_COMM)) return;
  int between = 0;
  int rank = 0;
  int size = 0;
  if (comm == MPI_COMM_NULL || PMPI_Comm_test_inter(comm, &between) != MPI_SUCCESS || between ||
      PMPI_Comm_rank(comm, &rank) != MPI_SUCCESS || PMPI_Comm_size(comm, &size) != MPI_SUCCESS) {
    return;
  }
  if (!Sets::Versions().ok()) {
    if (opened) OpenedApart(name, info, mode, handle);
    return;
  }
  const bool reads_only = (mode & MPI_MODE_RDONLY) != 0;
  if (reads_only && rank == 0) (void)NoThrow([] { (void)ReportEnvironment(); });
  const bool agreed = Sets::Get() != nullptr && Sets::Get()->all_check_reads();
  if (reads_only && !WantsChecks(info) && (size == 1 || !agreed)) return;
  Candidate candidate;
  Status considered;
  if (opened && (rank == 0 || reads_only)) considered = NoThrow([&] { candidate = ConsiderFile(name, info); });
  if (!considered.ok()) Say("MPI_File_open: not protected", considered.message().c_str());
  // Ranks whose real open failed take part: with some MPIs it fails only on some ranks, and the others must not wait for
  // these.
  if (reads_only) {
    const bool wanted = opened && considered.ok() && candidate.wanted && candidate.options.verify_reads;
    return OpenedToRead(comm, size, candidate, wanted, mode, handle);
  }
  const bool agrees = opened && considered.ok() && (rank != 0 || candidate.wanted);
  const bool all_agree = OnAll(comm, size, agrees);
  if (opened && considered.ok()) NoteOpened(candidate.path, agrees && !all_agree ? "not all ranks can protect it" : candidate.why_not);
  if (!all_agree) return;
  if (size == 1) return OpenedAlone(std::move(candidate), mode, handle);
  OpenedTogether(comm, size, candidate, mode, handle);
}

/// The catalogue of this user's tools; empty if there is none. The environment may name it relative to the directory in
/// which the program started.
std::string CatalogOfUser() {
  const std::string& given = EnvironmentSettings().options.catalog;
  if (given == "off") return "";
  if (given.empty()) return DefaultCatalogPath();
  return given.front() == '/' ? given : JoinPath(EnvironmentSettings().directory, given);
}

// Records the deletion, so that a scrub does not take it for a loss (request/deletion_record.h). Files without a sidecar
// need no record.
void NoteDeletion(const std::string& path) {
  const auto sidecar = SidecarPath(path);
  if (!sidecar.ok() || !PosixFileSystem().Stat(*sidecar, /*follow=*/false).ok()) return;
  const std::string catalog = CatalogOfUser();
  if (catalog.empty()) return;
  const Status noted = AppendDeletion(catalog, {WallClockNs(), path});
  if (!noted.ok()) Say(EnvironmentSettings().options, Options::Log::kDebug, noted.message());
}

}  // namespace

std::string PathToDelete(const char* name) {
  FileSystem& disk = PosixFileSystem();
  const std::string given = PathOfName(disk, name);
  const auto itself = disk.Stat(given, /*follow=*/false);
  const auto resolved = disk.RealPath(given);
  const bool deletes_it = itself.ok() && itself->type == FileStat::Type::kRegular && resolved.ok();
  return deletes_it && !IsNeverProtected(*resolved) ? *resolved : std::string();
}

// The program has deleted its file already, so a sidecar that cannot be deleted is no error of the call.
void ForgetDeleted(const std::string& path) {
  NoteDeletion(path);
  const Status status = Forget(PosixFileSystem(), path);
  if (!status.ok()) Say(EnvironmentSettings().options, Options::Log::kInfo, status.message());
}

// The real open may call MPI_File_open itself, or throw from an error handler.
int Open(RealCall real, Word comm, const char* name, int mode, Word info, Word* fh) {
  if (inside_open) return real();
  Usage::StartClock();
  // The program may be about to overwrite its only committed checkpoint, while the commit of the next one is under way.
  // A file that is not committed yet cannot be checked when it is read.
  const bool changes = (mode & MPI_MODE_RDONLY) == 0 || (mode & MPI_MODE_DELETE_ON_CLOSE) != 0;
  if (name != nullptr && Background::Get().IsBusy() && (changes || WantsChecks(As<MPI_Info>(info)))) {
    Guarded("MPI_File_open", [&] { Background::Get().AwaitBeforeOpen(PathOfName(PosixFileSystem(), name)); });
  }
  inside_open = true;
  const int code = [&] {
    // An error handler written in C++ may throw through MPI.
    struct Leave {
      ~Leave() { inside_open = false; }
    } leave;
    return real();
  }();
  if (fh == nullptr || name == nullptr) return code;
  // A file that its close deletes is not protected.
  if ((mode & MPI_MODE_DELETE_ON_CLOSE) != 0) {
    const bool opened = code == MPI_SUCCESS && As<MPI_File>(*fh) != MPI_FILE_NULL;
    if (opened) Guarded("MPI_File_open", [&] { Registry::Get().InsertDoomed(*fh, PathToDelete(name)); });
    return code;
  }
  const auto start = Usage::Clock::now();
  Guarded("MPI_File_open", [&] {
    AfterOpen(As<MPI_Comm>(comm), name, mode, As<MPI_Info>(info), code, *fh);
    const auto file = code == MPI_SUCCESS ? Registry::Get().Find(*fh) : nullptr;
    if (file && file->usage) file->usage->AddTime(Usage::Clock::now() - start);
  });
  return code;
}

/// Any rank may delete the file in its close. When the close returns, the file is gone.
void AfterCloseOfDoomed(const std::string& path) {
  if (PosixFileSystem().Stat(path, /*follow=*/false).status().code() == Code::kNotFound) ForgetDeleted(path);
}

// The path is resolved before the file is gone. If the real call fails, the file may still exist, so the sidecar stays.
int Delete(RealCall real, const char* name, Word) {
  if (name == nullptr) return real();
  std::string path;
  // The same as for an open: the next checkpoint must be committed before this one is gone.
  Guarded("MPI_File_delete", [&] { Background::Get().AwaitAll(); });
  Guarded("MPI_File_delete", [&] { path = PathToDelete(name); });
  const int code = real();
  if (code == MPI_SUCCESS && !path.empty()) Guarded("MPI_File_delete", [&] { ForgetDeleted(path); });
  return code;
}

}  // namespace lzy::hooks
