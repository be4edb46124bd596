// lzy's exchanges in virtual time: built with smpicxx and run by smpirun, one simulated process a rank
// (docs/performance/scale.md). Rank 0 prints one JSON object.
//
// protect and restore: Layout, plans, ExecuteRows and PairwiseExchange are lzy's own, as the engine uses them for a set
// (one member a rank, no helper threads); disks, hashes and arithmetic are delays. multicast: RunSchedule, beside
// MPI_Bcast. exchange: the ways of option exchange between nodes.
//
// All times are of the slowest rank, in virtual seconds: they do not depend on the machine or on other programs.

//
// To add a kind of simulation, add its name in Run and a call in bench/scale/scale_page.py; `run` passes settings on as
// they are, and keeps results by them.

#include <mpi.h>
#include <sys/resource.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>
#include <string>

#include "rows/rows.h"
#include "transport/multicast_mpi.h"
#include "simulated.h"
#include "under_mpi.h"

namespace {

using lzy::Status;

/// What is to be simulated: names and numbers, as `run` passes them. at() throws if one is missing.
using Json = nlohmann::ordered_json;

/// One group of a set as the engine sees it, with one member a rank.
struct Group {
  Group(const Json& settings, std::uint32_t n) : layout(MakeLayout(settings, n)), plans(layout) {}

  /// The layout that lzy-protect would choose for `n` members of `data` bytes each.
  static lzy::Layout MakeLayout(const Json& settings, std::uint32_t n) {
    lzy::GeometryParameters parameters;
    parameters.kind = lzy::DatasetKind::kSet;
    parameters.placement = lzy::ParityPlacement::kPerDevice;
    parameters.block_size = settings.at("block");
    parameters.parity = settings.at("parity");
    const std::uint64_t data = settings.at("data");
    parameters.unit = lzy::ChooseUnit(parameters.kind, parameters.block_size, settings.at("stripe"), n, data);
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

/// The way that is to be simulated: auto, mpi, pairwise or ring.
lzy::ExchangeWay WayOf(const Json& settings) {
  const auto way = lzy::ParseExchangeWay(settings.at("way"));
  if (!way || *way == lzy::ExchangeWay::kShared) throw std::runtime_error("way: not auto, mpi, pairwise or ring");
  return *way;
}

/// Encodes the rows of this rank's group, or rebuilds the devices `lost`, and adds to `out` what the most loaded rank
/// took. Collective. The time ends with the agreement of all ranks.
void RunRows(const Json& settings, MPI_Comm group_comm, const std::vector<std::uint32_t>& lost, Json& out) {
  const scale::Rates rates = {settings.at("disk_read"), settings.at("disk_write"), settings.at("hash"),
                              settings.at("encode"), settings.at("add")};
  scale::Spent spent;
  std::uint64_t read = 0, written = 0;
  const lzy::ExchangeWay way = WayOf(settings);
  scale::SimulatedCommunicator world(MPI_COMM_WORLD, rates, spent, way);
  scale::SimulatedCommunicator comm(group_comm, rates, spent, way);
  if (way == lzy::ExchangeWay::kAuto) Check(comm.Measure());
  Group group(settings, static_cast<std::uint32_t>(comm.size()));
  const std::vector<lzy::RowRun> runs = group.Runs(lost);
  scale::SimulatedFile file(rates, spent);
  const lzy::BlockStream stream{.file = &file};
  lzy::RowPipelineSetup setup;
  setup.layout = &group.layout;
  setup.comm = &comm;
  setup.owner.resize(static_cast<std::size_t>(comm.size()));
  std::iota(setup.owner.begin(), setup.owner.end(), 0);
  setup.data.assign(group.layout.files(), &stream);
  setup.parity.assign(group.layout.regions(), &stream);
  // As option memory has it; buffers are simulated too, so their limit shapes batches and messages as in a real run.
  setup.memory = settings.at("memory");
  // Without helper threads, reading, exchange and writing do not overlap. Sums cannot be proven, since the payloads are
  // not there.
  setup.threads = 1;
  setup.prove = false;
  // Parity blocks that each source is added to, or lost blocks.
  const double targets = lost.empty() ? settings.at("parity").get<double>() : static_cast<double>(lost.size());
  lzy::RowStats stats;
  MPI_Barrier(MPI_COMM_WORLD);
  // Opening files, sidecars and locks are not simulated, so the clock starts at the rows.
  const double start = scale::Now();
  const Status done = lzy::ExecuteRows(
      setup, runs,
      [&](const lzy::RowBlock&, lzy::MutableByteSpan bytes) {
        // Each source block: hashed, and added into the targets.
        read += bytes.size();
        const auto size = static_cast<double>(bytes.size());
        scale::Pass(size / rates.hash + size * targets / rates.encode, spent.compute);
        return Status::Ok();
      },
      [&](std::span<const lzy::RowBlock> blocks, lzy::ByteSpan bytes) {
        // Each target block: hashed and written.
        written += bytes.size();
        scale::Pass(static_cast<double>(bytes.size()) / rates.hash, spent.compute);
        return file.WriteAt(blocks[0].place.offset, bytes);
      },
      stats);
  Check(lzy::Agree(world, done));
  // Each from the rank with the most of it, so the parts may add up to more than the whole.
  out["seconds"] = Most(scale::Now() - start);
  out["read"] = Most(spent.read);
  out["compute"] = Most(spent.compute);
  out["exchange"] = Most(spent.exchange);
  out["write"] = Most(spent.write);
  out["bytes_read"] = Most(static_cast<double>(read));
  out["bytes_written"] = Most(static_cast<double>(written));
  out["buffers"] = Most(static_cast<double>(scale::HeldHere().most));
}

/// Resident memory of the simulation, all simulated processes together, because they share one real process. Bytes.
std::uint64_t Resident() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

/// protect or restore: making the communicators of the groups, then the rows of all groups at the same time. A restore
/// rebuilds the first device of every group.
void Rows(const Json& settings, bool restore) {
  const int n = settings.at("group");
  const int groups = std::max(1, Ranks() / n);
  if (Ranks() % groups != 0) throw std::runtime_error("groups are not of one size");
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = scale::Now();
  // Groups are of ranks that are p / n apart, as they are when they are dealt across nodes.
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, Rank() % groups, Rank(), &comm);
  const double split = Most(scale::Now() - start);
  // The first device of each group, so all groups have the same work.
  const std::vector<std::uint32_t> lost(restore ? 1 : 0, 0);
  Json out = {{"ranks", Ranks()}, {"group", Ranks() / groups}, {"groups", groups}, {"split", split}};
  RunRows(settings, comm, lost, out);
  out["resident"] = Resident();
  if (Rank() == 0) fmt::print("{}\n", out.dump());
}

/// Seconds until the last rank has what rank 0 sends. `data` is ones on rank 0 and zeros elsewhere before, ones
/// everywhere after. Virtual time has no noise, so once is enough, after the first time, in which SMPI's collectives
/// make communicators for their own use.
double SpreadTime(lzy::Topology topology, const lzy::RankGroups& groups, std::vector<std::uint8_t>& data) {
  std::fill(data.begin(), data.end(), static_cast<std::uint8_t>(Rank() == 0));
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

/// multicast: the time of every topology from rank 0 to all, and the one that `auto` chooses by costs that it measures
/// in the same simulation.
void Multicast(const Json& settings) {
  const int m = settings.at("groups");
  if (m < 1 || Ranks() % m != 0) throw std::runtime_error("groups are not of one size");
  const lzy::RankGroups groups = lzy::EvenGroups(m, Ranks() / m);
  std::vector<std::uint8_t> data(settings.at("bytes").get<std::size_t>());
  auto model = lzy::MeasureCosts(MPI_COMM_WORLD, Rank(), Ranks());
  Check(model.status());
  // Not counted: SMPI's first collective of this kind makes its communicators.
  SpreadTime(lzy::Topology::kBcast, groups, data);
  Json out = {{"ranks", Ranks()}, {"groups", m}, {"bytes", data.size()}};
  for (const lzy::Topology topology : {lzy::Topology::kPipelined, lzy::Topology::kDaisy, lzy::Topology::kHierarchical,
                                       lzy::Topology::kHypercube, lzy::Topology::kBcast}) {
    const double seconds = SpreadTime(topology, groups, data);
    if (!std::all_of(data.begin(), data.end(), [](std::uint8_t byte) { return byte == 1; })) {
      throw std::runtime_error("not what was sent");
    }
    out[lzy::TopologyName(topology)] = seconds;
  }
  const lzy::Topology chosen = lzy::ChooseTopology(groups, 0, data.size(), *model);
  out["auto"] = lzy::TopologyName(chosen);
  if (Rank() == 0) fmt::print("{}\n", out.dump());
}

/// exchange: the time of one exchange by each way, for each shape and size (bytes that a rank brings), and the way that option
/// exchange=auto takes after a measurement in the same simulation.
void Exchanges(const Json& settings) {
  const scale::Rates rates;
  scale::Spent spent;
  scale::SimulatedCommunicator comm(MPI_COMM_WORLD, rates, spent, lzy::ExchangeWay::kAuto);
  Check(comm.Measure());
  Json rows = Json::array();
  for (const auto shape : {lzy::ExchangeShape::kEven, lzy::ExchangeShape::kFew}) {
    for (const std::uint64_t bytes : settings.at("sizes")) {
      const std::vector<std::uint64_t> counts = comm.Counts(shape, bytes);
      Json row = {{"shape", lzy::ExchangeShapeName(shape)}, {"bytes", bytes}, {"auto", lzy::ExchangeWayName(comm.WayFor(counts))}};
      for (const auto way : lzy::kMeasuredWays) {
        const auto seconds = comm.Time(way, counts);
        Check(seconds.status());
        row[lzy::ExchangeWayName(way)] = *seconds;
      }
      rows.push_back(std::move(row));
    }
  }
  if (Rank() == 0) fmt::print("{}\n", Json{{"ranks", Ranks()}, {"exchanges", std::move(rows)}}.dump());
}

int Run(int argc, char** argv) {
  const std::string what = argc == 3 ? argv[1] : "";
  const Json settings = Json::parse(argc == 3 ? argv[2] : "{}");
  if (what == "protect" || what == "restore") {
    Rows(settings, what == "restore");
  } else if (what == "multicast") {
    Multicast(settings);
  } else if (what == "exchange") {
    Exchanges(settings);
  } else {
    throw std::runtime_error("usage: bench_scale protect|restore|multicast|exchange SETTINGS");
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return UnderMpi("scale", argc, argv, Run);
}
