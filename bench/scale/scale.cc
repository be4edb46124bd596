// lzy's exchanges in virtual time: built with smpicxx and run by smpirun, one simulated process a rank
// (docs/performance/scale.md). Rank 0 prints one JSON object a line.
//
// protect and restore: Layout, plans, ExecuteRows and PairwiseExchange are lzy's own, as the engine uses them for a set
// (one member a rank, no helper threads); disks, hashes and arithmetic are delays. multicast: RunSchedule, beside
// MPI_Bcast.

#include <mpi.h>
#include <sys/resource.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

#include "rows/rows.h"
#include "transport/multicast_mpi.h"
#include "simulated.h"
#include "under_mpi.h"

namespace {

using lzy::Status;

/// key=value
class Settings {
 public:
  Settings(int argc, char** argv) {
    for (int i = 2; i < argc; ++i) {
      const std::string one = argv[i];
      const auto equals = one.find('=');
      if (equals == std::string::npos) throw std::runtime_error(one + ": not key=value");
      values_[one.substr(0, equals)] = std::stod(one.substr(equals + 1));
    }
  }
  double Number(const std::string& key) const {
    const auto at = values_.find(key);
    if (at == values_.end() || at->second < 0) throw std::runtime_error(key + " is missing, or below 0");
    return at->second;
  }
  std::uint64_t Whole(const std::string& key) const { return static_cast<std::uint64_t>(Number(key)); }
  std::uint32_t Small(const std::string& key) const { return static_cast<std::uint32_t>(Number(key)); }

 private:
  std::map<std::string, double> values_;
};

/// One group of a set as the engine sees it, with one member a rank.
struct Group {
  Group(const Settings& settings, std::uint32_t n) : layout(MakeLayout(settings, n)), plans(layout) {}

  static lzy::Layout MakeLayout(const Settings& settings, std::uint32_t n) {
    lzy::GeometryParameters parameters;
    parameters.kind = lzy::DatasetKind::kSet;
    parameters.placement = lzy::ParityPlacement::kPerDevice;
    parameters.block_size = settings.Small("block");
    parameters.parity = settings.Small("parity");
    const std::uint64_t data = settings.Whole("data");
    parameters.unit = lzy::ChooseUnit(parameters.kind, parameters.block_size, settings.Whole("stripe"), n, data);
    auto& devices = parameters.groups.emplace_back(n);
    std::iota(devices.begin(), devices.end(), 0u);
    auto made = lzy::Layout::Create(parameters, std::vector<std::uint64_t>(n, data));
    Check(made.status());
    return std::move(*made);
  }

  /// All rows: to be encoded, or with the devices `lost` to be rebuilt.
  std::vector<lzy::RowRun> Runs(const std::vector<std::uint32_t>& lost) {
    std::vector<lzy::RowRun> runs;
    for (std::uint64_t t = 0; t < layout.unit_rows(0); ++t) {
      const std::uint64_t length = layout.UnitRowLength(0, t);
      if (length == 0) continue;
      auto plan = lost.empty() ? plans.Encode(0) : plans.Rebuild(0, t, lost, lost);
      Check(plan.status());
      const std::uint64_t slices = (length + layout.block_size() - 1) / layout.block_size();
      runs.push_back({0, t, 0, static_cast<std::uint32_t>(slices), *plan});
    }
    return runs;
  }

  lzy::Layout layout;
  lzy::PlanCache plans;
};

/// Groups are of ranks that are p / n apart, as they are when they are dealt across nodes. With split=each there is a
/// call for each group in turn, with split=once one for all.
MPI_Comm MakeGroup(const Settings& settings, int groups) {
  const int mine = Rank() % groups;
  MPI_Comm comm = MPI_COMM_NULL;
  if (settings.Small("split_each") == 0) {
    MPI_Comm_split(MPI_COMM_WORLD, mine, Rank(), &comm);
    return comm;
  }
  for (int g = 0; g < groups; ++g) {
    MPI_Comm part = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, g == mine ? 0 : MPI_UNDEFINED, Rank(), &part);
    if (part != MPI_COMM_NULL) comm = part;
  }
  return comm;
}

scale::Rates RatesOf(const Settings& settings) {
  return {settings.Number("disk_read"), settings.Number("disk_write"), settings.Number("hash"),
          settings.Number("encode"), settings.Number("add")};
}

/// Virtual seconds of the rows of this rank's group, with the agreement of all ranks at the end.
struct Measured {
  double rows = 0;
  scale::Spent spent;
  std::uint64_t read = 0, written = 0;
};

Measured RunRows(const Settings& settings, MPI_Comm group_comm, const std::vector<std::uint32_t>& lost) {
  const scale::Rates rates = RatesOf(settings);
  Measured out;
  const auto way = static_cast<scale::Way>(settings.Small("way"));
  if (way > scale::Way::kRing) throw std::runtime_error("way: not 0 (as chosen), 1 (in pairs) or 2 (in a ring)");
  scale::SimulatedCommunicator world(MPI_COMM_WORLD, rates, out.spent, way);
  scale::SimulatedCommunicator comm(group_comm, rates, out.spent, way);
  Group group(settings, static_cast<std::uint32_t>(comm.size()));
  const std::vector<lzy::RowRun> runs = group.Runs(lost);
  scale::SimulatedFile file(rates, out.spent);
  const lzy::BlockStream stream{.file = &file};
  lzy::RowPipelineSetup setup;
  setup.layout = &group.layout;
  setup.comm = &comm;
  setup.owner.resize(static_cast<std::size_t>(comm.size()));
  std::iota(setup.owner.begin(), setup.owner.end(), 0);
  setup.data.assign(group.layout.files(), &stream);
  setup.parity.assign(group.layout.regions(), &stream);
  setup.memory = settings.Whole("memory");
  setup.threads = 1;
  setup.prove = false;
  const double targets = static_cast<double>(lost.empty() ? settings.Small("parity") : lost.size());
  lzy::RowStats stats;
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = scale::Now();
  const Status done = lzy::ExecuteRows(
      setup, runs,
      [&](const lzy::RowBlock&, lzy::MutableByteSpan bytes) {
        out.read += bytes.size();
        const auto size = static_cast<double>(bytes.size());
        scale::Pass(size / rates.hash + size * targets / rates.encode, out.spent.compute);
        return Status::Ok();
      },
      [&](std::span<const lzy::RowBlock> blocks, lzy::ByteSpan bytes) {
        out.written += bytes.size();
        scale::Pass(static_cast<double>(bytes.size()) / rates.hash, out.spent.compute);
        return file.WriteAt(blocks[0].place.offset, bytes);
      },
      stats);
  Check(lzy::Agree(world, done));
  out.rows = Most(scale::Now() - start);
  return out;
}

/// Resident memory of the simulation, all processes together. Bytes.
std::uint64_t Resident() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

void Rows(const Settings& settings, bool restore) {
  const auto n = static_cast<int>(settings.Small("group"));
  const int groups = std::max(1, Ranks() / n);
  if (Ranks() % groups != 0) throw std::runtime_error("groups are not of one size");
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = scale::Now();
  const MPI_Comm comm = MakeGroup(settings, groups);
  const double split = Most(scale::Now() - start);
  const std::vector<std::uint32_t> lost(restore ? 1 : 0, 0);
  const Measured found = RunRows(settings, comm, lost);
  std::string line = fmt::format(R"({{"ranks": {}, "group": {}, "groups": {}, "split": {:.9g})", Ranks(),
                                 Ranks() / groups, groups, split);
  const std::pair<const char*, double> values[] = {{"seconds", found.rows},
                                                   {"read", found.spent.read},
                                                   {"compute", found.spent.compute},
                                                   {"exchange", found.spent.exchange},
                                                   {"write", found.spent.write},
                                                   {"bytes_read", static_cast<double>(found.read)},
                                                   {"bytes_written", static_cast<double>(found.written)},
                                                   {"buffers", static_cast<double>(scale::PeakBuffers())}};
  for (const auto& [name, value] : values) line += fmt::format(R"(, "{}": {:.17g})", name, Most(value));
  if (Rank() == 0) fmt::print("{}, \"resident\": {}}}\n", line, Resident());
}

/// Seconds until the last rank has what rank 0 sends: virtual time has no noise, so once is enough, after the first
/// time, in which SMPI's collectives make communicators for their own use.
double SpreadTime(lzy::Topology topology, const lzy::RankGroups& groups, std::vector<std::uint8_t>& data) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = Most(scale::Now());
  if (topology == lzy::Topology::kBcast) {
    MPI_Bcast(data.data(), static_cast<int>(data.size()), MPI_BYTE, 0, MPI_COMM_WORLD);
  } else {
    Check(lzy::RunSchedule(MPI_COMM_WORLD, Rank(), lzy::MakeSchedule(topology, groups, 0), data.data(), data.size(),
                           std::uint64_t{1} << 30));
  }
  return Most(scale::Now()) - start;
}

void Multicast(const Settings& settings) {
  const auto m = static_cast<int>(settings.Small("groups"));
  if (m < 1 || Ranks() % m != 0) throw std::runtime_error("groups are not of one size");
  const lzy::RankGroups groups = lzy::EvenGroups(m, Ranks() / m);
  std::vector<std::uint8_t> data(settings.Whole("bytes"), static_cast<std::uint8_t>(Rank() == 0));
  auto model = lzy::MeasureCosts(MPI_COMM_WORLD, Rank(), Ranks());
  Check(model.status());
  SpreadTime(lzy::Topology::kBcast, groups, data);
  std::fill(data.begin(), data.end(), static_cast<std::uint8_t>(Rank() == 0));
  std::string line;
  for (const lzy::Topology topology : {lzy::Topology::kPipelined, lzy::Topology::kDaisy, lzy::Topology::kHierarchical,
                                       lzy::Topology::kHypercube, lzy::Topology::kBcast}) {
    const double seconds = SpreadTime(topology, groups, data);
    if (!std::all_of(data.begin(), data.end(), [](std::uint8_t byte) { return byte == 1; })) {
      throw std::runtime_error("not what was sent");
    }
    std::fill(data.begin(), data.end(), static_cast<std::uint8_t>(Rank() == 0));
    line += fmt::format(", \"{}\": {:.9g}", lzy::TopologyName(topology), seconds);
  }
  const lzy::Topology chosen = lzy::ChooseTopology(groups, 0, data.size(), *model);
  if (Rank() != 0) return;
  fmt::print(R"({{"ranks": {}, "groups": {}, "bytes": {}{}, "auto": "{}", "latency": {:.9g}, "gap": {:.9g}, "byte_time": {:.9g}}})"
             "\n",
             Ranks(), m, data.size(), line, lzy::TopologyName(chosen), model->latency, model->gap, model->byte_time);
}

int Run(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const Settings settings(argc, argv);
  if (what == "protect" || what == "restore") {
    Rows(settings, what == "restore");
  } else if (what == "multicast") {
    Multicast(settings);
  } else {
    throw std::runtime_error("'" + what + "' is not accepted: protect, restore or multicast");
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return UnderMpi("scale", argc, argv, Run);
}
