#pragma once
// Random damage to random datasets, judged by somebody who knows the truth: seeds in, verdicts out. A seed is the same
// case whoever does the work on it: the engine in this process, on files in memory, so that a case takes a millisecond;
// or the tools, on real files. (engine/damage_test.cc holds fewer cases to more of what the engine can do.)

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "request/report.h"

namespace lzy::campaign {

struct World;

struct Verdict {
  std::string wrong;                           ///< empty: nothing was; else what, and all that was done before it
  std::map<std::string, std::uint64_t> count;  ///< what kinds of damages, tools and outcomes there were
};

enum class Tool { kProtect, kVerify, kRepair, kRestore, kSalvage, kInfo };
const char* Name(Tool tool);

struct Call {
  Tool tool = Tool::kVerify;
  bool from_disk = false;  ///< kVerify
};

struct Outcome {
  int code = 0;  ///< docs/reference/tools.md "Exit codes"
  DatasetReport report;
  std::string wrong;  ///< what shows already by the way in which it was said
};

/// Who does what a case asks for.
class Driver {
 public:
  virtual ~Driver() = default;
  /// Does it to the dataset of `world`, whose files are then what they have become.
  virtual Outcome Run(World& world, const Call& call) = 0;
  /// Bytes that cannot be read together if one of them cannot.
  virtual std::uint64_t SectorSize() const = 0;
};

/// lzy's engine, in this process.
std::unique_ptr<Driver> EngineDriver();

struct ToolsOptions {
  std::uint64_t seed = 0;  ///< of what the tools alone leave to chance: how options are given, how PATH is written
  int ranks = 0;           ///< 0: without mpiexec
};
/// The built programs, in a scratch directory that goes with the driver.
std::unique_ptr<Driver> ToolsDriver(const ToolsOptions& options);

/// One dataset, one to four damages, and one to three tools after them.
Verdict RunCase(std::uint64_t seed, Driver& driver);

}  // namespace lzy::campaign
