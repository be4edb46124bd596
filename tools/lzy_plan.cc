// lzy-plan: how likely a loss is, and what protection costs, for each group size and parity. Looks at no dataset.
//
// Options become a PlanRequest; lib/plan makes the table; this prints it. Under mpiexec rank 0 does everything.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/printable.h"
#include "common/measure.h"
#include "common/tool.h"
#include "plan/page.h"
#include "plan/parse.h"
#include "plan/plan.h"

namespace {

using lzy::Code;
using lzy::HoursText;
using lzy::Json;
using lzy::PlanRow;
using lzy::ProbabilityText;
using lzy::Status;

using Texts = std::vector<std::string>;

/// The options of the user. The last value of each option counts.
struct Wish {
  Texts devices, per_node, domain_nodes, size;
  Texts device_loss, node_loss, domain_loss, crash, read_errors, rot, scrub, replace;
  Texts read_rate, write_rate, parity_rate, network_rate, shared_rate;
  Texts interval, run_time, groups, parities, target, seed, measure, html;
  bool in_place = false, no_simulation = false;
  lzy::PlanRequest request;  ///< as parsed
};

// Values of options that are not given. docs/guide/planning.md says where they come from.
constexpr const char* kDeviceLoss = "2%/y";
constexpr const char* kNever = "never";
constexpr const char* kCrash = "5y";
constexpr const char* kReadErrors = "1e-15/bit";
constexpr const char* kRot = "0.03/T/y";
constexpr const char* kScrub = "30d";
constexpr const char* kReplace = "1h";
constexpr const char* kFileRate = "500M/s";
constexpr const char* kParityRate = "2G/s";
constexpr const char* kNetworkRate = "1G/s";
constexpr const char* kRunTime = "24h";
constexpr const char* kGroups = "4,8,16,32";
constexpr const char* kParities = "1,2,3";
constexpr const char* kTarget = "1e-4";

constexpr const char* kTimes = "a time with its unit, such as 90s, 15m, 36h, 30d, 2w or 1y";
constexpr const char* kLosses = "a mean time of at least 1m, such as 1.2Mh, 90d or 50y, a share a year, such as 2%/y, or never";
constexpr const char* kSpeeds = "bytes a second, such as 500M/s or 2G/s";
constexpr std::uint32_t kMostDevices = 1'000'000;

Status Refused(const char* option, const std::string& value, const std::string& accepted) {
  return {Code::kInvalidArgument, fmt::format("--{}: '{}' is not accepted: {}", option, value, accepted)};
}

std::string TextOf(const Texts& given, const char* otherwise) {
  return given.empty() ? otherwise : given.back();
}

template <class Parser, class Number>
Status Take(const char* option, const Texts& given, const char* otherwise, Parser parse, const std::string& accepted, Number& to) {
  const std::string text = TextOf(given, otherwise);
  const auto value = parse(text);
  if (!value) return Refused(option, text, accepted);
  to = static_cast<Number>(*value);
  return Status::Ok();
}

Status TakeCount(const char* option, const Texts& given, std::uint32_t most, std::uint32_t& to) {
  if (given.empty()) return Status::Ok();
  const auto numbers = lzy::ParseNumbers(given.back(), 1, most);
  if (!numbers || numbers->size() != 1) return Refused(option, given.back(), fmt::format("a number from 1 to {}", most));
  to = numbers->front();
  return Status::Ok();
}

Status ParseCounts(Wish& wish) {
  lzy::PlanSystem& s = wish.request.system;
  if (wish.devices.empty()) return {Code::kInvalidArgument, "--devices: no value is given: how many devices (files of a set) are there?"};
  LZY_RETURN_IF_ERROR(TakeCount("devices", wish.devices, kMostDevices, s.devices));
  LZY_RETURN_IF_ERROR(TakeCount("per-node", wish.per_node, kMostDevices, s.per_node));
  if (s.per_node > s.devices) return Refused("per-node", wish.per_node.back(), fmt::format("at most the number of devices, {}", s.devices));
  LZY_RETURN_IF_ERROR(TakeCount("domain-nodes", wish.domain_nodes, kMostDevices, s.nodes_per_domain));
  if (s.nodes_per_domain > s.nodes()) {
    return Refused("domain-nodes", wish.domain_nodes.back(), fmt::format("at most the number of nodes, {}", s.nodes()));
  }
  const auto parse_group = [](const std::string& text) { return lzy::ParseNumbers(text, 2, lzy::kMaxGroup); };
  const auto parse_parity = [](const std::string& text) { return lzy::ParseNumbers(text, 0, lzy::kMaxGroup - 1); };
  const auto groups = parse_group(TextOf(wish.groups, kGroups)), parities = parse_parity(TextOf(wish.parities, kParities));
  if (!groups) return Refused("groups", wish.groups.back(), fmt::format("numbers from 2 to {}, separated by ','", lzy::kMaxGroup));
  if (!parities) return Refused("parities", wish.parities.back(), fmt::format("numbers from 0 to {}, separated by ','", lzy::kMaxGroup - 1));
  wish.request.groups = *groups;
  wish.request.parities = *parities;
  if (groups->back() <= parities->front()) {
    return Refused("parities", TextOf(wish.parities, kParities),
                   fmt::format("numbers below the largest of --groups, {}: a group needs more devices than it may lose", groups->back()));
  }
  return Status::Ok();
}

Status ParseFailures(Wish& wish) {
  lzy::PlanSystem& s = wish.request.system;
  LZY_RETURN_IF_ERROR(Take("device-loss", wish.device_loss, kDeviceLoss, lzy::ParseFailureRate, kLosses, s.device_rate));
  LZY_RETURN_IF_ERROR(Take("node-loss", wish.node_loss, kNever, lzy::ParseFailureRate, kLosses, s.node_rate));
  LZY_RETURN_IF_ERROR(Take("domain-loss", wish.domain_loss, kNever, lzy::ParseFailureRate, kLosses, s.domain_rate));
  if (s.nodes_per_domain == 0 && s.domain_rate > 0) {
    return {Code::kInvalidArgument, "--domain-loss: how many nodes a domain has is not known: give --domain-nodes, too"};
  }
  LZY_RETURN_IF_ERROR(Take("crash", wish.crash, kCrash, lzy::ParseFailureRate, kLosses, s.crash_rate));
  LZY_RETURN_IF_ERROR(Take("read-errors", wish.read_errors, kReadErrors, lzy::ParseBitErrors,
                           "a probability from 0 to 1e-6 for each bit or byte, such as 1e-15/bit or 1e-14/byte, or 0", s.read_error_bit));
  double rot = 0;
  LZY_RETURN_IF_ERROR(Take("rot", wish.rot, kRot, lzy::ParseRot,
                           "new bad blocks on so many bytes in such a time, such as 0.03/T/y or 2/G/y, or 0", rot));
  s.latent_rate = rot * s.bytes;
  LZY_RETURN_IF_ERROR(Take("scrub", wish.scrub, kScrub, [](const std::string& text) { return lzy::ParseHours(text); }, kTimes, s.scrub_hours));
  LZY_RETURN_IF_ERROR(Take("replace", wish.replace, kReplace, [](const std::string& text) { return lzy::ParseHours(text, true); }, kTimes, s.replace_hours));
  return Status::Ok();
}

Status ParseRates(Wish& wish) {
  lzy::PlanSystem& s = wish.request.system;
  LZY_RETURN_IF_ERROR(Take("read-rate", wish.read_rate, kFileRate, lzy::ParseSpeed, kSpeeds, s.read_rate));
  LZY_RETURN_IF_ERROR(Take("write-rate", wish.write_rate, kFileRate, lzy::ParseSpeed, kSpeeds, s.write_rate));
  LZY_RETURN_IF_ERROR(Take("parity-rate", wish.parity_rate, kParityRate, lzy::ParseSpeed, kSpeeds, s.parity_rate));
  LZY_RETURN_IF_ERROR(Take("network-rate", wish.network_rate, kNetworkRate, lzy::ParseSpeed, kSpeeds, s.network_rate));
  if (!wish.shared_rate.empty()) {
    LZY_RETURN_IF_ERROR(Take("shared-rate", wish.shared_rate, "", lzy::ParseSpeed, kSpeeds, s.shared_rate));
  }
  return Status::Ok();
}

Status Parse(Wish& wish) {
  lzy::PlanSystem& s = wish.request.system;
  const auto hours = [](const std::string& text) { return lzy::ParseHours(text); };
  LZY_RETURN_IF_ERROR(ParseCounts(wish));
  if (wish.size.empty()) return {Code::kInvalidArgument, "--size: no value is given: how many bytes of data does each device hold?"};
  LZY_RETURN_IF_ERROR(Take("size", wish.size, "", lzy::ParseBytes, "a size above 0 (K, M, G, T)", s.bytes));
  LZY_RETURN_IF_ERROR(ParseFailures(wish));
  LZY_RETURN_IF_ERROR(ParseRates(wish));
  if (!wish.interval.empty()) LZY_RETURN_IF_ERROR(Take("interval", wish.interval, "", hours, kTimes, s.interval_hours));
  LZY_RETURN_IF_ERROR(Take("run-time", wish.run_time, kRunTime, hours, kTimes, s.run_hours));
  s.in_place = wish.in_place;
  LZY_RETURN_IF_ERROR(Take("target", wish.target, kTarget, lzy::ParseProbability, "a probability above 0 and below 1, such as 1e-6 or 0.01%", wish.request.target));
  std::uint32_t seed = 1;
  LZY_RETURN_IF_ERROR(TakeCount("seed", wish.seed, 1'000'000'000, seed));
  wish.request.limits.seed = seed;
  wish.request.simulate = !wish.no_simulation;
  // More failures than restores at all times: no parity is of use, and neither method says anything.
  const double lost = (s.device_rate + s.node_rate + (s.nodes_per_domain == 0 ? 0 : s.domain_rate)) * lzy::RestoreHours(s);
  if (lost > 0.5) {
    return {Code::kInvalidArgument,
            fmt::format("these rates make no sense: a device fails every {} on average, and its restore takes {}; look at --device-loss, "
                        "--node-loss, --domain-loss, --replace and --size",
                        HoursText(lzy::RestoreHours(s) / lost), HoursText(lzy::RestoreHours(s)))};
  }
  return Status::Ok();
}

// --------------------------------------------------------------------------------------------------------------- text

std::string SpeedText(double bytes_an_hour) {
  return lzy::FormatSize(static_cast<std::uint64_t>(bytes_an_hour / 3600)) + "/s";
}
std::string RateText(double per_hour) {
  return per_hour == 0 ? "never" : "every " + HoursText(1 / per_hour);
}
// Beyond this, the job hardly gets anywhere.
std::string OverheadText(double share) {
  if (share > 1e4) return ">10000 x";
  return share >= 10 ? fmt::format("{:.0f} x", 1 + share) : fmt::format("+{:.2f}%", 100 * share);
}

/// The basis of the numbers, including defaults.
std::string HeadText(const lzy::PlanSystem& s) {
  std::string out = fmt::format("{} with {} of data each on {}", lzy::Plural(s.devices, "device"), lzy::FormatSize(static_cast<std::uint64_t>(s.bytes)),
                                lzy::Plural(s.nodes(), "node"));
  if (s.domains() > 0) out += fmt::format(" in {}", lzy::Plural(s.domains(), "domain"));
  out += fmt::format("\nlost:    a device {}, a node {}", RateText(s.device_rate), RateText(s.node_rate));
  if (s.domains() > 0) out += fmt::format(", a domain {}", RateText(s.domain_rate));
  out += fmt::format("; restores begin after {}\n", HoursText(s.replace_hours));
  out += fmt::format("crashes: a node {}, without loss of data\n", RateText(s.crash_rate));
  out += fmt::format("errors:  a bad block on a device {}, found by scrubs every {}; unreadable bits {:.2g}\n", RateText(s.latent_rate),
                     HoursText(s.scrub_hours), s.read_error_bit);
  out += fmt::format("rates:   read {}, write {}, parity {}, network {} a node\n\n", SpeedText(s.read_rate), SpeedText(s.write_rate),
                     SpeedText(s.parity_rate), SpeedText(s.network_rate));
  return out;
}

std::string SimulatedText(const PlanRow& row) {
  const lzy::Comparison& c = row.comparison;
  if (!c.made) return "-";
  if (c.losses == 0) return "none seen";
  return fmt::format("{} +-{:.0f}%", ProbabilityText(row.loss_simulated), 100 / std::sqrt(static_cast<double>(c.losses)));
}

std::string TableText(const lzy::PlanTable& table) {
  std::string out = fmt::format("{:<9} {:>2}  {:>9}  {:>14}  {:>9}  {:>7}  {:>9}  {:>9}  {:>9}  {:>8}\n", "n", "m", "loss/year", "simulated",
                                "window/y", "space", "restore", "commit", "every", "run time");
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const PlanRow& row = table.rows[i];
    // The groups that the placement really makes.
    const std::string n = row.largest == row.n ? fmt::format("{}", row.n) : fmt::format("{} ({})", row.n, row.largest);
    out += fmt::format("{:<9} {:>2}  {:>9}  {:>14}  {:>9.2g}  {:>7}  {:>9}  {:>9}  {:>9}  {:>8}{}{}\n", n, row.m, ProbabilityText(row.loss_year),
                       SimulatedText(row), row.window_year, fmt::format("+{:.1f}%", 100 * row.overhead), HoursText(row.restore_hours),
                       HoursText(row.commit_hours), HoursText(row.interval_hours), OverheadText(row.run_overhead),
                       row.worst_share > row.m ? " !" : "", i == table.recommended ? " <" : "");
  }
  return out;
}

std::string NotesText(const lzy::PlanTable& table) {
  std::string out;
  bool resized = false, shared = false;
  for (const PlanRow& row : table.rows) {
    resized |= row.largest != row.n;
    shared |= row.worst_share > row.m;
  }
  if (resized) out += "n (k): groups have up to k devices, so that they divide the devices and keep nodes or domains apart\n";
  if (shared) out += "!: a group has more than m devices of one node or domain; losing that loses data\n";
  for (const std::string& text : table.left_out) out += "left out: " + text + "\n";
  return out;
}

std::string WithoutText(const lzy::PlanWithout& without) {
  std::string out = fmt::format("without lzy, same place: {:.2g} losses a year, a checkpoint in {} every {}, run time {}\n", without.losses_year,
                                HoursText(without.commit_hours), HoursText(without.interval_hours), OverheadText(without.run_overhead));
  if (without.shared) {
    out += fmt::format("without lzy, shared file system: a checkpoint in {} every {}, run time {}\n", HoursText(without.shared_commit_hours),
                       HoursText(without.shared_interval_hours), OverheadText(without.shared_overhead));
  }
  return out;
}

/// Whether the two methods agree; rows in which they do not are named.
std::string AgreementText(const lzy::PlanTable& table) {
  std::string apart;
  std::uint64_t losses = 0;
  double most = 1;
  for (const PlanRow& row : table.rows) {
    const lzy::Comparison& c = row.comparison;
    losses += c.losses;
    most = std::max(most, c.factor);
    if (!c.agrees()) apart += fmt::format("n = {}, m = {}: {} losses simulated, {:.1f} expected\n", row.n, row.m, c.losses, c.expected);
  }
  if (!apart.empty()) return "chain and simulation differ by more than chance:\n" + apart;
  return fmt::format("chain and simulation agree within three standard deviations ({} losses, failures up to {:.3g} times as often)\n", losses, most);
}

// --------------------------------------------------------------------------------------------------------------- JSON

// JSON has no infinity.
Json Number(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

Json ToJson(const PlanRow& row) {
  Json out = {{"group", row.n},
              {"parity", row.m},
              {"groups", row.groups},
              {"largest_group", row.largest},
              {"worst_domain_share", row.worst_share},
              {"loss_per_year", row.loss_year},
              {"mean_years_to_loss", Number(row.mean_years)},
              {"window_losses_per_year", row.window_year},
              {"space_overhead", row.overhead},
              {"restore_seconds", Number(row.restore_hours * 3600)},
              {"commit_seconds", Number(row.commit_hours * 3600)},
              {"checkpoint_seconds", Number(row.interval_hours * 3600)},
              {"young_seconds", Number(row.young_hours * 3600)},
              {"run_overhead", Number(row.run_overhead)}};
  const lzy::Comparison& c = row.comparison;
  if (c.made) {
    out["simulation"] = {{"loss_per_year", row.loss_simulated}, {"factor", c.factor},
                         {"years", c.years},                    {"losses", c.losses},
                         {"expected", c.expected},              {"sigmas", c.sigmas},
                         {"window_losses", c.window_losses},    {"window_expected", c.window_expected},
                         {"agrees", c.agrees()}};
  }
  return out;
}

Json DocumentOf(const Wish& wish, const lzy::PlanTable& table) {
  const lzy::PlanSystem& s = wish.request.system;
  Json document = {{"schema", "lzy-plan/1"},
                   {"tool", "lzy-plan"},
                   {"exit_code", 0},
                   {"devices", s.devices},
                   {"nodes", s.nodes()},
                   {"domains", s.domains()},
                   {"bytes", s.bytes},
                   {"rates", {{"read", s.read_rate / 3600}, {"write", s.write_rate / 3600}, {"parity", s.parity_rate / 3600}, {"network", s.network_rate / 3600}}},
                   {"failures_per_year",
                    {{"device", s.device_rate * lzy::kHoursAYear},
                     {"node", s.node_rate * lzy::kHoursAYear},
                     {"domain", s.domain_rate * lzy::kHoursAYear},
                     {"crash", s.crash_rate * lzy::kHoursAYear},
                     {"bad_block", s.latent_rate * lzy::kHoursAYear}}},
                   {"target", wish.request.target},
                   {"rows", Json::array()},
                   {"left_out", table.left_out},
                   {"recommended", nullptr}};
  if (table.recommended) {
    const PlanRow& best = table.rows[*table.recommended];
    document["recommended"] = {{"group", best.n}, {"parity", best.m}, {"reaches_target", table.reaches_target}, {"text", table.recommendation}};
  }
  for (const PlanRow& row : table.rows) document["rows"].push_back(ToJson(row));
  const lzy::PlanWithout& w = table.without;
  document["without"] = {{"losses_per_year", w.losses_year},
                         {"checkpoint_seconds", Number(w.interval_hours * 3600)},
                         {"commit_seconds", w.commit_hours * 3600},
                         {"run_overhead", Number(w.run_overhead)}};
  if (w.shared) {
    document["without_shared"] = {{"checkpoint_seconds", Number(w.shared_interval_hours * 3600)},
                                  {"commit_seconds", w.shared_commit_hours * 3600},
                                  {"run_overhead", Number(w.shared_overhead)}};
  }
  return document;
}

// ---------------------------------------------------------------------------------------------------------- the tool

/// Uses measured rates, unless the user gave rates.
Status Measure(Wish& wish) {
  if (wish.measure.empty()) return Status::Ok();
  LZY_ASSIGN_OR_RETURN(const lzy::MeasuredRates rates, lzy::MeasureRates(lzy::PosixFileSystem(), wish.measure.back()));
  lzy::PlanSystem& s = wish.request.system;
  if (wish.read_rate.empty()) s.read_rate = rates.read * 3600;
  if (wish.write_rate.empty()) s.write_rate = rates.write * 3600;
  if (wish.parity_rate.empty()) s.parity_rate = rates.parity * 3600;
  return Status::Ok();
}

// On rank 0.
void Show(lzy::ToolRun& run, Wish& wish, const std::string& command) {
  if (const Status measured = Measure(wish); !measured.ok()) return run.Fail(measured);
  const auto made = lzy::MakePlanTable(wish.request);
  if (!made.ok()) return run.Fail(made.status());
  const lzy::PlanTable& table = *made;
  if (!wish.html.empty()) {
    const std::string page = lzy::PlanPage(wish.request, table, command);
    const Status stored = lzy::ReplaceFile(lzy::PosixFileSystem(), wish.html.back(), page, 0644);
    if (!stored.ok()) return run.Fail(stored);
  }
  if (run.arguments().json) return run.SetDocument(DocumentOf(wish, table));
  run.Say(HeadText(wish.request.system) + TableText(table) + NotesText(table) + "\n" + WithoutText(table.without));
  if (wish.request.simulate) run.Say(AgreementText(table));
  run.Say(fmt::format("recommended: {}\n", table.recommendation));
}

void AddOptions(lzy::Arguments& arguments, Wish& wish) {
  arguments.SetExitCodes("0 done; 3 bad value; 6 a file could not be written or measured; 7 internal error; 8 out of memory");
  const auto add = [&](const char* name, const char* value, Texts& to, const std::string& help, const char* otherwise = "") {
    arguments.AddValues(name, value, to, *otherwise == '\0' ? help : fmt::format("{} (default {})", help, otherwise));
  };
  add("--devices", "COUNT", wish.devices, "devices: files of a set, or stripe positions; required");
  add("--size", "BYTES", wish.size, "data on each device; required");
  add("--per-node", "COUNT", wish.per_node, "devices of a node", "1");
  add("--domain-nodes", "COUNT", wish.domain_nodes, "nodes that fail together, such as those of a rack");
  add("--device-loss", "OFTEN", wish.device_loss, "how often a device is lost: a mean time (1.2Mh, 50y) or a share (2%/y)", kDeviceLoss);
  add("--node-loss", "OFTEN", wish.node_loss, "how often a node is lost with all its devices", kNever);
  add("--domain-loss", "OFTEN", wish.domain_loss, "how often a domain is lost with all its nodes", kNever);
  add("--crash", "OFTEN", wish.crash, "how often a node ends the job without losing data", kCrash);
  add("--read-errors", "P", wish.read_errors, "probability that a bit cannot be read (1e-15/bit)", kReadErrors);
  add("--rot", "RATE", wish.rot, "new bad blocks (0.03/T/y: so many on a TiB in a year)", kRot);
  add("--scrub", "T", wish.scrub, "time in which lzy-scrub reads everything once", kScrub);
  add("--replace", "T", wish.replace, "time from a loss until its restore begins", kReplace);
  add("--read-rate", "RATE", wish.read_rate, "reading a device", kFileRate);
  add("--write-rate", "RATE", wish.write_rate, "writing a device", kFileRate);
  add("--parity-rate", "RATE", wish.parity_rate, "computing one parity, in each process", kParityRate);
  add("--network-rate", "RATE", wish.network_rate, "network of a node", kNetworkRate);
  add("--shared-rate", "RATE", wish.shared_rate, "shared file system as a whole, for comparison");
  add("--measure", "DIR", wish.measure, "measure the rates of reading, writing and parity in DIR, with up to 256M");
  add("--interval", "T", wish.interval, "time from one commit to the next (default: the best one)");
  add("--run-time", "T", wish.run_time, "how long the job computes", kRunTime);
  arguments.AddFlag("--in-place", wish.in_place, "each checkpoint overwrites the last one");
  add("--groups", "LIST", wish.groups, "group sizes (n) to compare, ','-separated", kGroups);
  add("--parities", "LIST", wish.parities, "parities (m) to compare, ','-separated", kParities);
  add("--target", "P", wish.target, "probability of loss in a year that is accepted", kTarget);
  add("--seed", "NUMBER", wish.seed, "seed of the simulation", "1");
  arguments.AddFlag("--no-simulation", wish.no_simulation, "only the chain");
  add("--html", "FILE", wish.html, "write the table and plots to FILE, which needs no network");
}

}  // namespace

int main(int argc, char** argv) {
  Wish wish;
  std::string command = "lzy-plan";
  for (int i = 1; i < argc; ++i) {
    // Quoted as a file, an option would get "./" in front.
    std::string word = lzy::ShellQuote(argv[i]);
    if (argv[i][0] == '-' && word.starts_with("./")) word.erase(0, 2);
    command += " " + word;
  }
  lzy::Tool tool;
  tool.name = "lzy-plan";
  tool.summary = "Compares group sizes and parities before anything is protected: probability of loss, space, and time. Reads no dataset.";
  tool.changes = "nothing but FILE of --html; --measure uses a temporary file";
  tool.schema = "lzy-plan/1";
  tool.takes_paths = false;
  tool.add_options = [&](lzy::Arguments& arguments) { AddOptions(arguments, wish); };
  tool.check_options = [&] { return Parse(wish); };
  tool.action = [] { return lzy::Action::kInfo; };
  tool.run = [&](lzy::ToolRun& run) {
    if (run.comm().rank() == 0) Show(run, wish, command);
  };
  return lzy::RunTool(tool, argc, argv);
}
