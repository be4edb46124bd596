// The C interface of the engine (lzy/lzy.h): options from C, one engine call for each dataset, reports to C.
//
// The operations on datasets go through Run. It makes a Communicator, checks that all ranks were called with the same
// arguments, resolves the path, calls the engine, and agrees on the code. Nothing is thrown at C, printed, or kept
// between calls. A report owns all memory that its structs point to.

#include "lzy/lzy.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <exception>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/file.h"
#include "base/rate_limit.h"
#include "comm/records.h"
#include "engine/engine.h"
#include "mpi/mpi_communicator.h"
#include "mpi/versions.h"
#include "objects/ask.h"
#include "objects/name.h"
#include "repair/replica.h"
#include "sidecar/names.h"

namespace {

using lzy::Code;
using lzy::Communicator;
using lzy::DatasetReport;
using lzy::Status;

// One dataset of a report: the engine's report, and the same in C. The engine's report is kept because the C structure
// points to its texts. `view` and `damage` point into the other fields, so an entry must not move once Present has filled
// it.
struct Entry {
  explicit Entry(DatasetReport engine_report) : report(std::move(engine_report)) {}

  DatasetReport report;
  std::string root;
  std::string message;
  // By damage: the objects in its range.
  struct Objects {
    std::vector<const char*> names;
    std::vector<std::string> long_texts;
    std::vector<const char*> texts;
  };
  std::vector<Objects> objects;
  std::vector<lzy_damage> damage;
  std::vector<lzy_not_visible> not_visible;
  lzy_dataset view{};
};

// A pair of files of lzy_diff, in the same way.
struct DifferenceEntry {
  explicit DifferenceEntry(lzy::FileDiff engine_diff) : diff(std::move(engine_diff)) {}

  lzy::FileDiff diff;
  std::vector<lzy_range> ranges;
  lzy_difference view{};
};

}  // namespace

// The report that a caller gets and frees. Immutable once Run has returned it, so several threads may read it.
struct lzy_report {
  int code = LZY_OK;
  std::string message;
  // A deque: entries stay where they are when others are added.
  std::deque<Entry> entries;
  std::deque<DifferenceEntry> differences;
  std::uint64_t same = 0;
};

namespace {

// ---- from C to the engine

// The size of lzy_options in its first version, whose last field was device_count. A smaller structure cannot have been
// initialised.
constexpr std::size_t kFirstOptionsSize = offsetof(lzy_options, device_count) + sizeof(std::size_t);
constexpr std::int32_t kParityNotGiven = -1;

// Copies a structure of a program that was compiled with an older or a newer lzy.h. Fields that the program does not
// know keep their defaults. Fields that this version does not know must be zero, which is the default of every later
// field: then ignoring them changes nothing. `name`: what messages call it. `first_size`: in the first version that had
// it. `init`: the function that sets the defaults.
template <class Struct>
Status CopyStruct(const Struct* from, const char* name, std::size_t first_size, int (*init)(Struct*, std::size_t),
                  const char* init_name, Struct& to) {
  // Set the defaults first: fields that the caller's structure does not have keep them.
  (void)init(&to, sizeof to);
  if (from == nullptr) return Status::Ok();
  if (from->size < first_size) return {Code::kInvalidArgument, fmt::format("{}: not initialised by {}", name, init_name)};
  const auto* bytes = reinterpret_cast<const unsigned char*>(from);
  if (from->size > sizeof to &&
      std::any_of(bytes + sizeof to, bytes + from->size, [](unsigned char byte) { return byte != 0; })) {
    return {Code::kInvalidArgument,
            fmt::format("{}: a field is set that version {} of the library does not have", name, lzy_version())};
  }
  std::memcpy(static_cast<void*>(&to), from, std::min(from->size, sizeof to));
  return Status::Ok();
}

Status CopyOptions(const lzy_options* from, lzy_options& to) {
  LZY_RETURN_IF_ERROR(CopyStruct(from, "options", kFirstOptionsSize, lzy_options_init, "lzy_options_init", to));
  if (to.devices == nullptr && to.device_count > 0) {
    return {Code::kInvalidArgument, fmt::format("devices: NULL is not accepted with device_count {}", to.device_count)};
  }
  return Status::Ok();
}

// The engine's options: a field that is set, else the environment if the caller wants that, else the default. Values
// are turned into texts, so that the engine checks them with its own messages.
lzy::Result<lzy::Options> MakeOptions(const lzy_options& from) {
  lzy::Options options;
  if (from.use_environment != 0) LZY_RETURN_IF_ERROR(lzy::ApplyEnvironment(options));
  // `not_given` is the value of the field's default, which leaves the option alone.
  const auto set = [&](const char* name, const char* field, auto value, auto not_given) {
    return value == not_given ? Status::Ok() : lzy::SetOption(options, name, std::to_string(value), field);
  };
  LZY_RETURN_IF_ERROR(set("parity", "parity", from.parity, kParityNotGiven));
  LZY_RETURN_IF_ERROR(set("group", "group", from.group, 0u));
  LZY_RETURN_IF_ERROR(set("block-size", "block_size", from.block_size, 0u));
  if (from.stripe == LZY_STRIPE_SERVERS) {
    LZY_RETURN_IF_ERROR(lzy::SetOption(options, "stripe", "servers", "stripe"));
  } else {
    LZY_RETURN_IF_ERROR(set("stripe", "stripe", from.stripe, 0u));
  }
  LZY_RETURN_IF_ERROR(set("memory", "memory", from.memory, 0u));
  LZY_RETURN_IF_ERROR(set("threads", "threads", from.threads, 0u));
  LZY_RETURN_IF_ERROR(set("timeout", "timeout", from.timeout, 0u));
  if (from.exchange != nullptr) LZY_RETURN_IF_ERROR(lzy::SetOption(options, "exchange", from.exchange, "exchange"));
  LZY_RETURN_IF_ERROR(lzy::CheckOptions(options));
  return options;
}

// MPI may be called only between its beginning and its end, except for the two questions here. The errors come before
// the first collective call, so they are this rank's alone.
lzy::Result<std::unique_ptr<Communicator>> MakeCommunicator(MPI_Comm comm) {
  if (comm == MPI_COMM_NULL) return lzy::SelfCommunicator();
  int initialized = 0;
  int finalized = 0;
  int inter = 0;
  if (MPI_Initialized(&initialized) != MPI_SUCCESS || MPI_Finalized(&finalized) != MPI_SUCCESS) {
    return Status(Code::kMpi, "MPI does not say whether it is initialised");
  }
  if (initialized == 0 || finalized != 0) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("comm: a communicator is not accepted while MPI is {}: MPI_COMM_NULL is, for this process alone",
                    finalized != 0 ? "finalized" : "not initialised"));
  }
  if (MPI_Comm_test_inter(comm, &inter) != MPI_SUCCESS || inter != 0) {
    return Status(Code::kInvalidArgument, "comm: only an intracommunicator, or MPI_COMM_NULL, is accepted");
  }
  std::string mixed;  // the library prints nothing
  LZY_RETURN_IF_ERROR(lzy::CompareVersions(comm, lzy::OwnVersion(), mixed));
  return lzy::MpiCommunicator(comm);
}

// The arguments of an operation, as C gave them and as the engine takes them. Both are kept: switches such as `force`
// belong to requests, not to the engine's options.
struct Call {
  std::string path;
  lzy_options given{};
  lzy::Options options;
};

// The arguments that must be the same on all ranks, because they decide which collective calls follow. Memory, threads and
// timeout may differ, because ranks may run on machines of different sizes. The bytes never leave the job, so their format
// may change freely.
Communicator::Bytes Fingerprint(const char* operation, const Call& call) {
  lzy::ByteWriter out;
  out.PutString(operation);
  out.PutString(call.path);
  out.Put(call.options.parity);
  out.Put(call.options.group);
  out.Put(call.options.block_size);
  out.Put(call.options.stripe);
  out.Put(static_cast<std::uint32_t>(call.options.stripe_servers));
  // Whether a value was given matters, too: an existing dataset keeps its geometry unless one is given.
  for (const std::string& name : call.options.given) {
    if (name == "parity" || name == "group" || name == "block-size" || name == "stripe") out.PutString(name);
  }
  for (const std::int32_t on : {call.given.from_disk, call.given.force, call.given.dry_run, call.given.salvage, call.given.no_objects,
                                call.given.lost_here}) {
    out.Put(static_cast<std::uint32_t>(on != 0));
  }
  for (std::size_t i = 0; i < call.given.device_count; ++i) out.Put(call.given.devices[i]);
  for (const char* const text : {call.given.replica, call.given.lost_nodes}) out.PutString(text == nullptr ? "" : text);
  return std::move(out.bytes());
}

// If ranks were called with different arguments, they would make different collective calls and wait for each other
// forever. So rank 0's fingerprint is sent to all, and all fail if one differs.
Status CheckSame(Communicator& comm, const char* operation, const Call& call, const std::string& more = "") {
  const Communicator::Bytes mine = Fingerprint((operation + more).c_str(), call);
  Communicator::Bytes first = mine;
  // A rank with other arguments still takes part here, so that all ranks reach the Agree below.
  LZY_RETURN_IF_ERROR(comm.Broadcast(first, 0));
  const Status same =
      first == mine ? Status::Ok()
                    : Status(Code::kInvalidArgument,
                             fmt::format("{}: called with another operation, path or options than rank 0", operation));
  return lzy::Agree(comm, same);
}

// Checks the arguments of this rank. Does not communicate.
Status MakeCall(const char* path, const lzy_options* options, Call& call) {
  if (path == nullptr) return {Code::kInvalidArgument, "path: NULL is not accepted: a file, a pattern or a directory"};
  call.path = path;
  LZY_RETURN_IF_ERROR(CopyOptions(options, call.given));
  LZY_ASSIGN_OR_RETURN(call.options, MakeOptions(call.given));
  return Status::Ok();
}

// ---- from the engine to C

// The C enumerations have the engine's values in the engine's order, so casts are enough. These tests notice a new one
// in the middle.
static_assert(LZY_STATE_INTACT == static_cast<int>(lzy::DatasetState::kIntact));
static_assert(LZY_STATE_RESTORED == static_cast<int>(lzy::DatasetState::kRestored));
static_assert(LZY_PART_DATA == static_cast<int>(lzy::DamagePart::kData));
static_assert(LZY_PART_METADATA == static_cast<int>(lzy::DamagePart::kMetadata));
static_assert(LZY_CAUSE_HASH == static_cast<int>(lzy::DamageCause::kHash));
static_assert(LZY_CAUSE_AT_RISK == static_cast<int>(lzy::DamageCause::kAtRisk));
static_assert(LZY_CAUSE_NOT_VISIBLE == static_cast<int>(lzy::DamageCause::kNotVisible));
static_assert(LZY_CAUSE_ENCODING == static_cast<int>(lzy::DamageCause::kEncoding));

// The name of a value of one of these enumerations, whose last value is `last`. The names are those in the JSON of the
// tools. A program may pass any int.
template <class Enum>
const char* NameOf(int value, Enum last) {
  return value < 0 || value > static_cast<int>(last) ? "unknown" : lzy::Name(static_cast<Enum>(value));
}

// The result points into `from` and `objects`. Here and in Present, each field is set by name: a field that a later version
// adds stays zero until code sets it, whatever its place in the struct.
lzy_damage ToC(const lzy::Damage& from, const Entry::Objects& objects) {
  lzy_damage to{};
  to.path = from.path.c_str();
  to.device = from.device;
  to.part = static_cast<lzy_part>(from.part);
  to.offset = from.offset;
  to.length = from.length;
  to.cause = static_cast<lzy_cause>(from.cause);
  to.transient = from.transient ? 1 : 0;
  to.repaired = from.repaired ? 1 : 0;
  to.beyond_repair = from.beyond_repair ? 1 : 0;
  to.objects = objects.names.data();
  to.object_count = objects.names.size();
  to.object_texts = objects.texts.data();
  to.objects_left_off = from.objects_left_off;
  return to;
}

// Fills in the C side of an entry that has its final place.
void Present(Entry& entry) {
  const DatasetReport& from = entry.report;
  lzy_dataset& to = entry.view;
  entry.root = from.root.IsZero() ? "" : from.root.Hex();
  // A message of the engine names the file that it is about, which need not be the path of the dataset. Here the
  // reader must learn both.
  const bool named = from.status.message().find(from.path) != std::string::npos;
  entry.message = named ? from.status.message() : from.status.WithContext(from.path).message();
  entry.objects.reserve(from.damage.size());
  for (const lzy::Damage& damage : from.damage) {
    Entry::Objects& objects = entry.objects.emplace_back();
    for (const lzy::DamagedObject& object : damage.objects) {
      objects.names.push_back(object.name.c_str());
      objects.long_texts.push_back(lzy::Text(object));
    }
    for (const std::string& text : objects.long_texts) objects.texts.push_back(text.c_str());
    entry.damage.push_back(ToC(damage, objects));
  }
  for (const lzy::GroupMap::Device& member : from.not_visible) {
    entry.not_visible.push_back({member.device, member.path.c_str(), member.domain.c_str()});
  }
  to.not_visible_count = entry.not_visible.size();
  to.path = from.path.c_str();
  to.kind = from.kind == lzy::DatasetKind::kShared ? LZY_KIND_SHARED : LZY_KIND_SET;
  to.state = static_cast<lzy_state>(from.state);
  // The same code that the tools would exit with for this dataset alone.
  to.code = static_cast<lzy_code>(lzy::ExitCodeOf(from));
  to.message = entry.message.c_str();
  to.root = entry.root.c_str();
  to.devices = from.devices;
  to.parity = from.parity;
  to.groups = from.groups;
  to.group_size = from.group_size;
  to.block_size = from.block_size;
  to.unit = from.unit;
  to.bytes = from.bytes;
  to.sidecar_bytes = from.sidecar_bytes;
  to.generation = from.generation;
  to.commit_time_ns = from.commit_time_ns;
  to.committed = from.committed ? 1 : 0;
  to.bytes_read = from.bytes_read;
  to.bytes_encoded = from.bytes_encoded;
  to.damage_count = from.damage.size();
  to.warning_count = from.warnings.size();
  to.seconds_read = from.phases.read;
  to.seconds_hash = from.phases.hash;
  to.seconds_encode = from.phases.encode;
  to.seconds_exchange = from.phases.exchange;
  to.seconds_write = from.phases.write;
  to.seconds_sync = from.phases.sync;
  to.seconds_total = from.phases.total;
}

// Adds a failure to a report. The gravest code and the first message count: later failures are as a rule consequences
// of the first one.
void Fail(lzy_report& report, const Status& status) {
  if (status.ok()) return;
  report.code = lzy::CombineExitCodes(report.code, lzy::ExitCodeOf(status));
  if (report.message.empty()) report.message = status.message();
}

// ---- operations

// The differences between operations on datasets: which datasets a path means, and the engine call.
struct Operation {
  const char* name;
  lzy::Resolve resolve;
  DatasetReport (*engine)(const lzy::Context& context, const lzy::DatasetRef& dataset, const lzy_options& given);
  bool takes_replica = false;
  bool names_objects = true;
};

// The process that parses damaged files. It is where this library was installed or built; empty if it is missing.
std::string ObjectsHelper() {
  Dl_info own{};
  // Uses a function that only this library has: for exported ones, a program may have an address of its own.
  if (dladdr(reinterpret_cast<const void*>(&ObjectsHelper), &own) == 0 || own.dli_fname == nullptr) return "";
  std::error_code failed;
  const auto library = std::filesystem::canonical(own.dli_fname, failed);
  if (failed) return "";
  for (const char* const place : {LZY_LIB_TO_LAYER, "../bin"}) {
    const auto path = (library.parent_path() / place / "lzy-objects-helper").lexically_normal();
    if (access(path.c_str(), X_OK) == 0) return path.string();
  }
  return "";
}

// All datasets of a path, one after the other, in an order that is the same on all ranks (ResolvePath). Trouble with
// one is in its own entry and does not stop the others.
Status Work(const Operation& operation, Communicator& comm, const Call& call, lzy_report& report) {
  // Not the guarded file system of the tools: the library acts for its program, and follows links as the program
  // does.
  lzy::FileSystem& fs = lzy::PosixFileSystem();
  std::vector<Status> troubles;
  LZY_ASSIGN_OR_RETURN(const auto datasets, lzy::ResolvePath(fs, comm, call.path, operation.resolve, &troubles, call.options.key.get()));
  // For example, directories that could not be read. The datasets that were found are still processed.
  for (const Status& trouble : troubles) Fail(report, trouble);
  lzy::Context context{fs, comm, call.options};
  if (call.given.progress != nullptr) {
    context.progress = [&call](const char* phase, std::uint64_t done, std::uint64_t total) {
      // If several ranks share the work, the engine's total is an estimate.
      call.given.progress(call.given.progress_data, phase, std::min(done, total), total);
    };
  }
  std::map<std::string, std::string> replicas;
  if (operation.takes_replica && call.given.replica != nullptr) {
    LZY_ASSIGN_OR_RETURN(replicas, lzy::FindReplicas(fs, comm, call.path, datasets, call.given.replica));
  }
  lzy::CodeOfMany codes;
  for (const lzy::DatasetRef& dataset : datasets) {
    lzy_options given = call.given;
    if (const auto at = replicas.find(dataset.path); at != replicas.end()) given.replica = at->second.c_str();
    Entry& entry = report.entries.emplace_back(operation.engine(context, dataset, given));
    if (operation.names_objects && given.no_objects == 0) {
      std::ranges::move(lzy::NameObjects(context, ObjectsHelper(), entry.report), std::back_inserter(entry.report.warnings));
    }
    Present(entry);
    codes.AddDataset(dataset.path, entry.view.code);
  }
  report.code = lzy::CombineExitCodes(report.code, codes.code());
  return Status::Ok();
}

// Reports are the same on all ranks. If they ever differ, the code is still the same, so a program decides alike on
// all ranks.
Status AgreeOnCode(Communicator& comm, lzy_report& report) {
  LZY_ASSIGN_OR_RETURN(const auto all, lzy::AllGatherRecords(comm, int{report.code}));
  for (const int code : all) report.code = lzy::CombineExitCodes(report.code, code);
  return Status::Ok();
}

// The order matters: ranks agree on whether their arguments are usable before they compare them, and compare them
// before anything else that is collective.
Status RunOn(const Operation& operation, MPI_Comm mpi_comm, const char* path, const lzy_options* options,
             lzy_report& report) {
  LZY_ASSIGN_OR_RETURN(const auto comm, MakeCommunicator(mpi_comm));
  Call call;
  LZY_RETURN_IF_ERROR(lzy::Agree(*comm, MakeCall(path, options, call)));
  // Local, so they may differ between ranks: the root of a broadcast sends its topology, and rank 0 its way of exchanges.
  comm->SetTopology(call.options.topology);
  comm->SetExchange(call.options.exchange);
  LZY_RETURN_IF_ERROR(CheckSame(*comm, operation.name, call));
  Fail(report, Work(operation, *comm, call, report));
  return AgreeOnCode(*comm, report);
}

// The edge to C: calls work(report). The report comes first, so that there is a place for what goes wrong after.
template <class Work>
int AtTheEdge(lzy_report** to, const Work& work) noexcept {
  if (to != nullptr) *to = nullptr;
  // Only this can leave a caller without a report.
  std::unique_ptr<lzy_report> report(new (std::nothrow) lzy_report);
  if (!report) return LZY_NO_MEMORY;
  // Texts that are short enough for std::string's own room: there is no memory left.
  const auto give_up = [&](int code, const char* text) {
    report->code = lzy::CombineExitCodes(report->code, code);
    if (report->message.empty()) report->message = text;
  };
  try {
    Fail(*report, work(*report));
  } catch (const lzy::StatusError& error) {
    give_up(lzy::ExitCodeOf(error.status), error.what());
  } catch (const std::bad_alloc&) {
    give_up(LZY_NO_MEMORY, "out of memory");
  } catch (...) {
    give_up(LZY_INTERNAL, "internal error");
  }
  const int code = report->code;
  if (to != nullptr) *to = report.release();
  return code;
}

int Run(const Operation& operation, MPI_Comm comm, const char* path, const lzy_options* options,
        lzy_report** to) noexcept {
  return AtTheEdge(to, [&](lzy_report& report) { return RunOn(operation, comm, path, options, report); });
}

// ---- copies

// The sizes of these structures in the first versions that had them.
constexpr std::size_t kFirstCopyOptionsSize = offsetof(lzy_copy_options, progress_data) + sizeof(void*);
constexpr std::size_t kFirstCopiedSize = offsetof(lzy_copied, lost_bytes) + sizeof(std::uint64_t);

Status MakeCopyRequest(const lzy_copy_options* from, lzy_copy_options& given, lzy::CopyRequest& request) {
  LZY_RETURN_IF_ERROR(CopyStruct(from, "copy", kFirstCopyOptionsSize, lzy_copy_options_init, "lzy_copy_options_init", given));
  switch (given.verify) {
    case LZY_VERIFY_DEVICE:
      request.read_back = lzy::ReadBack::kUncached;
      break;
    case LZY_VERIFY_CACHE:
      request.read_back = lzy::ReadBack::kCache;
      break;
    case LZY_VERIFY_NONE:
      request.read_back = lzy::ReadBack::kNone;
      break;
    default:
      return {Code::kInvalidArgument, fmt::format("verify: {} is not accepted: one of lzy_verify_copy", static_cast<int>(given.verify))};
  }
  request.protect = given.no_protect == 0;
  request.resume = given.resume != 0;
  request.salvage = given.salvage != 0;
  return Status::Ok();
}

void Count(const lzy::CopyReport& report, lzy_copied& copied) {
  copied.healed_bytes += report.healed;
  copied.sent_again_bytes += report.sent_again;
  for (const lzy::ByteRange& range : report.lost) copied.lost_bytes += range.length;
  if (!report.status.ok()) {
    ++copied.failed;
  } else {
    ++(report.already ? copied.already : copied.files);
    if (!report.already) copied.bytes += report.bytes;
  }
}

// Calls the program's function, in one thread at a time. Remembers that it asked to stop.
class ProgressInC {
 public:
  ProgressInC(const lzy_copy_options& given, std::uint64_t total) : given_(given), total_(total) {}
  void Add(std::uint64_t bytes) {
    if (given_.progress == nullptr) return;
    const std::lock_guard lock(mutex_);
    done_ += bytes;
    if (!stopped_ && given_.progress(given_.progress_data, done_, total_) != 0) stopped_ = true;
  }
  bool stopped() const { return stopped_; }

 private:
  const lzy_copy_options& given_;
  const std::uint64_t total_;
  std::mutex mutex_;
  std::uint64_t done_ = 0;
  std::atomic<bool> stopped_{false};
};

// The plan is rank 0's, so all ranks copy the same.
Status CopyOn(Communicator& comm, const Call& call, const std::string& destination, const lzy_copy_options& given,
              lzy::CopyRequest request, lzy_copied& copied, lzy_report& report) {
  lzy::FileSystem& fs = lzy::PosixFileSystem();
  const bool set = lzy::HasRankPlaceholder(call.path);
  lzy::CopyPlan plan;
  if (!set) {
    LZY_RETURN_IF_ERROR(lzy::AgreeOn(comm, [&]() -> Status {
      if (comm.rank() != 0) return Status::Ok();
      LZY_ASSIGN_OR_RETURN(plan, lzy::PlanCopy(fs, {call.path}, destination, request.resume));
      return Status::Ok();
    }));
    LZY_RETURN_IF_ERROR(lzy::BroadcastRecord(comm, plan));
  }
  ProgressInC progress(given, plan.bytes);
  const lzy::Context context{fs, comm, call.options, {}, [&] { return progress.stopped(); }};
  std::optional<lzy::RateLimit> limit;
  request.dealt = [&](double share) { limit.emplace(static_cast<double>(given.limit) * share); };
  request.wait = [&](std::uint64_t bytes) { limit->Take(bytes, context.stop); };
  request.progress = [&](std::uint64_t bytes) { progress.Add(bytes); };
  const auto finished = [&](const lzy::CopyReport& one) {
    Count(one, copied);
    report.code = lzy::CombineExitCodes(report.code, ExitCodeOf(one));
    if (report.message.empty()) report.message = one.status.message();
  };
  return set ? lzy::CopySet(context, call.path, destination, request, finished).status : lzy::CopyAll(context, plan, request, finished);
}

// ---- comparisons

static_assert(LZY_VERDICT_SAME == static_cast<int>(lzy::DiffVerdict::kSame));
static_assert(LZY_VERDICT_UNKNOWN == static_cast<int>(lzy::DiffVerdict::kUnknown));

// As Present for a dataset.
void Present(DifferenceEntry& entry) {
  const lzy::FileDiff& from = entry.diff;
  for (const lzy::Interval& range : from.ranges) entry.ranges.push_back({range.begin, range.end - range.begin});
  lzy_difference& to = entry.view;
  to.name = from.name.c_str();
  to.a = from.a.c_str();
  to.b = from.b.c_str();
  to.verdict = static_cast<lzy_verdict>(from.verdict);
  to.code = static_cast<lzy_code>(lzy::ExitCodeOf(from));
  to.bytes_a = from.bytes_a;
  to.bytes_b = from.bytes_b;
  to.block_size = from.block_size;
  to.ranges_known = from.ranges_known ? 1 : 0;
  to.ranges = entry.ranges.data();
  to.range_count = entry.ranges.size();
  to.message = from.status.message().c_str();
}

// The code of all pairs; the message of the first that is not known.
void TakeDiff(lzy::DiffReport diff, lzy_report& report) {
  report.code = lzy::CombineExitCodes(report.code, ExitCodeOf(diff));
  report.same = diff.same;
  if (report.message.empty()) report.message = diff.status.message();
  for (lzy::FileDiff& one : diff.differences) {
    if (report.message.empty() && one.verdict == lzy::DiffVerdict::kUnknown) report.message = one.status.message();
    Present(report.differences.emplace_back(std::move(one)));
  }
}

// Null for a bad index, and for a null report: a program that ignores the code of an operation must not crash when it
// looks at the report.
const Entry* EntryOf(const lzy_report* report, std::size_t index) {
  return report != nullptr && index < report->entries.size() ? &report->entries[index] : nullptr;
}

}  // namespace

extern "C" {

// The codes are the exit codes of the tools (docs/reference), so a script and a program read the same numbers.
const char* lzy_strerror(int code) {
  // Indexed by code, from 0.
  static constexpr const char* kTexts[] = {
      "intact, or made so",
      "damage found, all of it repairable",
      "damage beyond repair",
      "bad option, path or argument",
      "no usable sidecar: not protected, or metadata destroyed",
      "repair, restore or copy was tried, and writing or checking the result failed",
      "I/O error or no permission",
      "internal or MPI error",
      "out of memory",
      "stale or at risk: the file changed since its last commit",
  };
  static_assert(std::size(kTexts) == LZY_STALE + 1, "each code has a text");
  return code < 0 || code > LZY_STALE ? "unknown code" : kTexts[code];
}

const char* lzy_version(void) {
  return LZY_VERSION;
}

// Zero is the default of all fields except parity, where 0 means hashes only. `size` may be that of an older version.
int lzy_options_init(lzy_options* options, size_t size) {
  if (options == nullptr || size < kFirstOptionsSize) return LZY_USAGE;
  std::memset(static_cast<void*>(options), 0, size);
  options->size = size;
  options->parity = kParityNotGiven;
  return LZY_OK;
}

// The switches of lzy_options that concern an operation go into its request. All others have no effect on it.
int lzy_protect(MPI_Comm comm, const char* path, const lzy_options* options, lzy_report** report) {
  const auto engine = [](const lzy::Context& context, const lzy::DatasetRef& dataset, const lzy_options& given) {
    lzy::ProtectRequest request;
    request.force = given.force != 0;
    return lzy::Protect(context, dataset, request);
  };
  return Run({"lzy_protect", lzy::Resolve::kProtectable, engine}, comm, path, options, report);
}

int lzy_verify(MPI_Comm comm, const char* path, const lzy_options* options, lzy_report** report) {
  const auto engine = [](const lzy::Context& context, const lzy::DatasetRef& dataset, const lzy_options& given) {
    return lzy::Verify(context, dataset, {.from_disk = given.from_disk != 0});
  };
  return Run({"lzy_verify", lzy::Resolve::kProtected, engine}, comm, path, options, report);
}

int lzy_repair(MPI_Comm comm, const char* path, const lzy_options* options, lzy_report** report) {
  const auto engine = [](const lzy::Context& context, const lzy::DatasetRef& dataset, const lzy_options& given) {
    return lzy::Verify(context, dataset, {given.from_disk != 0, /*repair=*/true, given.force != 0});
  };
  return Run({"lzy_repair", lzy::Resolve::kProtected, engine}, comm, path, options, report);
}

// The layer is another library. It is in the program if it was preloaded or linked.
int lzy_commit_wait(const char* path, double seconds) {
  using Await = int(const char*, double, char*, size_t);
  auto* const await = reinterpret_cast<Await*>(dlsym(RTLD_DEFAULT, "lzy_mpiio_await_commits"));
  if (await == nullptr) return LZY_OK;
  // CommitWait in romio_hooks/contract/layer.h.
  switch (await(path, seconds, nullptr, 0)) {
    case 0:
      return LZY_OK;
    case 2:
      return LZY_STALE;
    default:
      return LZY_IO;
  }
}

int lzy_copy_options_init(lzy_copy_options* options, size_t size) {
  if (options == nullptr || size < kFirstCopyOptionsSize) return LZY_USAGE;
  std::memset(static_cast<void*>(options), 0, size);
  options->size = size;
  return LZY_OK;
}

int lzy_copied_init(lzy_copied* copied, size_t size) {
  if (copied == nullptr || size < kFirstCopiedSize) return LZY_USAGE;
  std::memset(static_cast<void*>(copied), 0, size);
  copied->size = size;
  return LZY_OK;
}

int lzy_copy(MPI_Comm comm, const char* source, const char* destination, const lzy_options* options, const lzy_copy_options* copy,
             lzy_copied* copied, lzy_report** report) {
  lzy_copied counted{};
  const bool can_count = copied == nullptr || copied->size >= kFirstCopiedSize;
  const int code = AtTheEdge(report, [&](lzy_report& to) -> Status {
    LZY_ASSIGN_OR_RETURN(const auto ranks, MakeCommunicator(comm));
    Call call;
    lzy_copy_options given{};
    lzy::CopyRequest request;
    Status usable = MakeCall(source, options, call);
    if (usable.ok() && destination == nullptr) usable = {Code::kInvalidArgument, "destination: NULL is not accepted"};
    if (usable.ok() && !can_count) usable = {Code::kInvalidArgument, "copied: not initialised by lzy_copied_init"};
    if (usable.ok()) usable = MakeCopyRequest(copy, given, request);
    LZY_RETURN_IF_ERROR(lzy::Agree(*ranks, usable));
    ranks->SetTopology(call.options.topology);
    ranks->SetExchange(call.options.exchange);
    const std::string all = fmt::format(" {} {} {} {} {} {}", static_cast<int>(given.verify), request.protect, request.resume,
                                        request.salvage, given.limit, destination);
    LZY_RETURN_IF_ERROR(CheckSame(*ranks, "lzy_copy", call, all));
    Fail(to, CopyOn(*ranks, call, destination, given, request, counted, to));
    return AgreeOnCode(*ranks, to);
  });
  // Fields that only one of the two sides knows stay as they are.
  if (copied != nullptr && can_count) {
    counted.size = copied->size;
    std::memcpy(static_cast<void*>(copied), &counted, std::min(copied->size, sizeof counted));
  }
  return code;
}

int lzy_restore(MPI_Comm comm, const char* path, const lzy_options* options, lzy_report** report) {
  const auto engine = [](const lzy::Context& context, const lzy::DatasetRef& dataset, const lzy_options& given) {
    lzy::LostNodes lost{.named = {}, .all = given.lost_here != 0};
    if (given.lost_nodes != nullptr) lost.named = lzy::NodesIn(given.lost_nodes);
    return lzy::Restore(context, dataset, {.devices = {given.devices, given.devices + given.device_count},
                                           .dry_run = given.dry_run != 0,
                                           .salvage = given.salvage != 0,
                                           .force = given.force != 0,
                                           .replica = given.replica == nullptr ? "" : given.replica,
                                           .lost = lost});
  };
  return Run({"lzy_restore", lzy::Resolve::kProtected, engine, /*takes_replica=*/true}, comm, path, options, report);
}

int lzy_info(MPI_Comm comm, const char* path, const lzy_options* options, lzy_report** report) {
  const auto engine = [](const lzy::Context& context, const lzy::DatasetRef& dataset, const lzy_options&) {
    return lzy::Info(context, dataset);
  };
  return Run({"lzy_info", lzy::Resolve::kProtected, engine, /*takes_replica=*/false, /*names_objects=*/false}, comm, path, options, report);
}

int lzy_diff(MPI_Comm comm, const char* a, const char* b, int deep, const lzy_options* options, lzy_report** report) {
  return AtTheEdge(report, [&](lzy_report& to) -> Status {
    LZY_ASSIGN_OR_RETURN(const auto ranks, MakeCommunicator(comm));
    Call call;
    Status usable = MakeCall(a, options, call);
    if (usable.ok() && b == nullptr) usable = {Code::kInvalidArgument, "b: NULL is not accepted"};
    LZY_RETURN_IF_ERROR(lzy::Agree(*ranks, usable));
    ranks->SetTopology(call.options.topology);
    ranks->SetExchange(call.options.exchange);
    LZY_RETURN_IF_ERROR(CheckSame(*ranks, "lzy_diff", call, fmt::format(" {} {}", deep != 0, b)));
    TakeDiff(lzy::Diff({lzy::PosixFileSystem(), *ranks, call.options}, call.path, b, deep != 0), to);
    return AgreeOnCode(*ranks, to);
  });
}

const char* lzy_state_name(int state) {
  return NameOf(state, lzy::DatasetState::kRestored);
}

const char* lzy_part_name(int part) {
  return NameOf(part, lzy::DamagePart::kMetadata);
}

const char* lzy_cause_name(int cause) {
  return NameOf(cause, lzy::DamageCause::kEncoding);
}

int lzy_report_code(const lzy_report* report) {
  return report == nullptr ? static_cast<int>(LZY_NO_MEMORY) : report->code;
}

const char* lzy_report_message(const lzy_report* report) {
  return report == nullptr ? "" : report->message.c_str();
}

size_t lzy_report_count(const lzy_report* report) {
  return report == nullptr ? 0 : report->entries.size();
}

const lzy_dataset* lzy_report_dataset(const lzy_report* report, size_t index) {
  const Entry* entry = EntryOf(report, index);
  return entry == nullptr ? nullptr : &entry->view;
}

const lzy_damage* lzy_report_damage(const lzy_report* report, size_t index, size_t entry) {
  const Entry* dataset = EntryOf(report, index);
  return dataset == nullptr || entry >= dataset->damage.size() ? nullptr : &dataset->damage[entry];
}

const char* lzy_report_warning(const lzy_report* report, size_t index, size_t entry) {
  const Entry* dataset = EntryOf(report, index);
  if (dataset == nullptr || entry >= dataset->report.warnings.size()) return nullptr;
  return dataset->report.warnings[entry].c_str();
}

const lzy_not_visible* lzy_report_not_visible(const lzy_report* report, size_t index, size_t entry) {
  const Entry* found = EntryOf(report, index);
  return found != nullptr && entry < found->not_visible.size() ? &found->not_visible[entry] : nullptr;
}

size_t lzy_report_difference_count(const lzy_report* report) {
  return report == nullptr ? 0 : report->differences.size();
}

const lzy_difference* lzy_report_difference(const lzy_report* report, size_t index) {
  return report == nullptr || index >= report->differences.size() ? nullptr : &report->differences[index].view;
}

uint64_t lzy_report_same(const lzy_report* report) {
  return report == nullptr ? 0 : report->same;
}

void lzy_report_free(lzy_report* report) {
  delete report;
}

}  // extern "C"
