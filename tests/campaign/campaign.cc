#include "campaign/campaign.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "campaign/damage.h"
#include "campaign/truth.h"
#include "campaign/world.h"

namespace lzy::campaign {
namespace {

class Case {
 public:
  /// The form of the sidecars goes by the seed alone, so that all else of a case is the same in both.
  Case(std::uint64_t seed, Driver& driver) : world_(seed, driver.SectorSize()), truth_(world_), driver_(driver) {
    world_.options.compact = seed % 2 == 0;
  }

  Verdict Run() {
    Make();
    if (verdict_.wrong.empty()) {
      for (std::uint64_t n = 1 + world_.Below(4); n > 0; --n) Damage();
      for (std::uint64_t n = 1 + world_.Below(3); n > 0 && verdict_.wrong.empty() && !over_; --n) UseTool();
    }
    if (!verdict_.wrong.empty()) verdict_.wrong += "\n  after: " + log_ + details_;
    return verdict_;
  }

 private:
  /// What there was before a tool, and what is to be expected of it.
  struct Before {
    Files files;
    bool plain = false, right = false, missing = false, sidecar_left = false, anything_left = false;
    bool metadata_hit = false, bad_sectors = false;
    Losses losses;
    bool repairable(std::uint32_t parity) const { return losses.worst_row <= parity; }
  };

  void Log(const std::string& what) { log_ += what + "; "; }
  void Count(const std::string& what) { ++verdict_.count[what]; }
  void Wrong(const std::string& what) {
    if (verdict_.wrong.empty()) verdict_.wrong = what;
  }
  void Require(bool holds, const std::string& what) {
    if (!holds) Wrong(what);
  }

  // ------------------------------------------------------------------------------------------------------- the dataset

  void Make() {
    Options& options = world_.options;
    options.block_size = 512u << world_.Below(2);
    options.stripe = std::uint64_t{options.block_size} << world_.Below(3);
    options.group = static_cast<std::uint32_t>(3 + world_.Below(4));
    options.parity = static_cast<std::uint32_t>(1 + world_.Below(std::min<std::uint64_t>(3, options.group - 1)));
    options.threads = 1;
    options.timeout_seconds = 0;
    if (world_.OneIn(4)) options.key = LeafKey::Make(SecretBytes()).value();
    const std::uint64_t members = world_.OneIn(2) ? 0 : options.parity + 1 + world_.Below(8);
    world_.ref = {members > 0 ? DatasetKind::kSet : DatasetKind::kShared, members > 0 ? "d/s.%r" : "d/f", {}};
    for (std::uint32_t r = 0; r < std::max<std::uint64_t>(1, members); ++r) {
      world_.paths.push_back(members > 0 ? ExpandPattern(world_.ref.path, r) : world_.ref.path);
      if (members > 0) world_.ref.members[r] = world_.paths.back();
      const std::uint64_t size = world_.OneIn(12) ? world_.Below(2)
                                                  : 1 + world_.Below((members > 0 ? 8 : 40) * options.block_size);
      world_.fs.Put(world_.paths.back(), world_.RandomBytes(size));
    }
    world_.Tick();
    Log(fmt::format("{} files, n {}, m {}, block {}, stripe {}{}", world_.paths.size(), options.group, options.parity,
                    options.block_size, options.stripe, options.key ? ", sealed" : ""));
    if (!Commit() || world_.OneIn(2)) return;
    for (const std::string& path : world_.paths) {
      if (world_.OneIn(3)) continue;
      auto file = world_.fs.Open(path, OpenMode::kReadWrite);
      const std::uint64_t size = world_.At(path).bytes.size();
      (void)(*file)->WriteAt(world_.Below(size), world_.RandomBytes(1 + world_.Below(2000)));
    }
    world_.Tick();
    Log("edited and committed again");
    Commit();
  }

  bool Commit() {
    const Files before = world_.fs.Copy();
    const Outcome made = driver_.Run(world_, {Tool::kProtect});
    Require(made.wrong.empty(), "protect: " + made.wrong);
    Require(made.report.status.ok() && made.code == 0, "protect fails: " + made.report.status.message());
    world_.Tick();
    for (const std::string& path : world_.paths) {
      const Node& was = before.at(path);
      Require(world_.fs.Has(path) && world_.At(path).bytes == was.bytes &&
                  world_.At(path).stat.mtime_ns == was.stat.mtime_ns,
              path + " was changed by protect");
    }
    Require(world_.fs.nodes().size() == 2 * world_.paths.size(), "protect leaves more than sidecars");
    if (verdict_.wrong.empty()) TakeForTruth(made.report);
    return verdict_.wrong.empty();
  }
  void TakeForTruth(const DatasetReport& made) {
    const Status taken = truth_.Take(made.root.bytes);
    Require(taken.ok(), "what was committed is not what it should be: " + taken.message());
  }

  void Damage() {
    const DamageDone done = DamageSomething(world_, truth_);
    Count("damage: " + done.kind);
    Log(fmt::format("{} of {}", done.kind, done.path));
  }

  // ------------------------------------------------------------------------------------------------------------- tools

  Before Look() {
    Before before;
    before.files = world_.fs.Copy();
    before.plain = truth_.IsPlain();
    before.right = truth_.DataAreRight();
    before.missing = truth_.SomethingIsMissing();
    before.anything_left = !before.files.empty();
    for (std::size_t f = 0; f < world_.paths.size(); ++f) before.sidecar_left |= world_.HasSidecar(f);
    for (const auto& [path, node] : before.files) before.bad_sectors |= !node.unreadable.empty();
    if (!before.plain) return before;
    before.losses = truth_.Find();
    before.metadata_hit = truth_.MetadataAreHit();
    return before;
  }

  Outcome Do(const Call& call) {
    const Outcome outcome = driver_.Run(world_, call);
    world_.Tick();
    const DatasetReport& report = outcome.report;
    Count(fmt::format("exit code: {} {}", Name(call.tool), outcome.code));
    Log(fmt::format("{} says {} ({} {})", Name(call.tool), outcome.code, lzy::Name(report.state),
                    report.status.message()));
    for (const lzy::Damage& d : report.damage) {
      details_ += fmt::format("\n    {} {} [{}, +{}) {}{}{}", d.path, lzy::Name(d.part), d.offset, d.length,
                              lzy::Name(d.cause), d.repaired ? " repaired" : "",
                              d.beyond_repair ? " beyond repair" : "");
    }
    Require(outcome.wrong.empty(), fmt::format("{}: {}", Name(call.tool), outcome.wrong));
    return outcome;
  }

  void UseTool() {
    const Tool tools[] = {Tool::kVerify,  Tool::kVerify,  Tool::kRepair, Tool::kRestore,
                          Tool::kRestore, Tool::kSalvage, Tool::kProtect};
    Call call{tools[world_.Below(std::size(tools))]};
    if (call.tool == Tool::kVerify) call.from_disk = world_.OneIn(2);
    Count(fmt::format("tool: {}", Name(call.tool)));
    const Before before = Look();
    Count(before.plain ? "known to the byte" : "known in part");
    LookIn(before);
    const Outcome outcome = Do(call);
    ExpectNoSurprise(call.tool, outcome.code, before);
    if (outcome.code == 0) ExpectAsCommittedOnce(call.tool, outcome.report, before);
    ExpectOnlyRepair(call.tool, outcome.code, before);
    ExpectNothingElse(call.tool, outcome.code, before);
    if (!verdict_.wrong.empty() || over_) return;
    if (outcome.code == 0 && call.tool == Tool::kProtect) return TakeForTruth(outcome.report);
    if (before.plain) JudgeByTruth(call.tool, outcome, before);
    if (call.tool != Tool::kVerify) truth_.NoteWritten(before.files);
  }

  /// Info goes by metadata and times alone, but must not be wrong about those, and changes nothing.
  void LookIn(const Before& before) {
    const Outcome outcome = Do({Tool::kInfo});
    ExpectNoSurprise(Tool::kInfo, outcome.code, before);
    ExpectUnchanged(Tool::kInfo, before);
    if (!before.plain) return;
    const DatasetReport& report = outcome.report;
    Require(report.root.bytes == truth_.root(), "info tells another root");
    Require(report.devices == truth_.superblock(0).members && report.parity == truth_.superblock(0).parity &&
                report.block_size == truth_.superblock(0).block_size,
            "info tells another geometry");
    Require(outcome.code != 0 || !before.missing, "info does not say what is missing");
    Require(outcome.code == 0 || before.losses.anything(), "info says that something is wrong");
    Require(outcome.code != 9, "info takes damage for an edit");
  }

  void ExpectNoSurprise(Tool tool, int code, const Before& before) {
    // (Of members that are left there may be too few to carry parity.)
    const bool bad_path = tool == Tool::kProtect || !before.anything_left;
    Require(code != 7 && code != 8 && (code != 3 || bad_path), "an internal error");
  }

  /// Intact, or made so, means what it says.
  void ExpectAsCommittedOnce(Tool tool, const DatasetReport& report, const Before& before) {
    const Files* version = truth_.Version(report.root.bytes);
    if (version == nullptr && tool != Tool::kProtect) return Wrong("intact, with a root that no commit had");
    if (version == nullptr) {
      // It may have taken an edit, or what looks like one, for the new truth; but not damage.
      Require(!before.plain || before.right || !before.sidecar_left, "protect blessed damage");
      // What is left of a set of which nobody knows any more is a set of its own.
      for (std::size_t f = 0; f < world_.paths.size(); ++f) over_ |= !world_.HasData(f) || !world_.HasSidecar(f);
      Require(!over_ || !before.plain, "protect leaves out files");
      return;
    }
    for (const std::string& path : world_.paths) {
      if (!world_.fs.Has(path)) {
        Wrong(path + " is missing, and that is not said");
      } else {
        Require(world_.At(path).bytes == version->at(path).bytes, path + " is called intact and is not");
      }
    }
  }

  /// Data are changed but to what was committed.
  void ExpectOnlyRepair(Tool tool, int code, const Before& before) {
    for (const std::string& path : world_.paths) {
      const auto was = before.files.find(path);
      if (was == before.files.end()) {
        if (world_.fs.Has(path) && tool != Tool::kSalvage) ExpectTowardsCommitted(path, Node(), code == 5);
        continue;
      }
      Require(world_.fs.Has(path), path + " was removed");
      if (!world_.fs.Has(path) || world_.At(path).bytes == was->second.bytes) continue;
      Require(tool != Tool::kVerify && tool != Tool::kProtect, fmt::format("{} was changed by {}", path, Name(tool)));
      // A sector that is bad stays so if but a part of it is written, as at the end of a file that is too long.
      if (code != 5 || was->second.unreadable.empty()) ExpectTowardsCommitted(path, was->second, code == 5);
    }
    if (tool == Tool::kVerify) ExpectUnchanged(tool, before);
  }

  void ExpectUnchanged(Tool tool, const Before& before) {
    for (const auto& [path, node] : before.files) {
      Require(world_.fs.Has(path) && world_.At(path).bytes == node.bytes &&
                  world_.At(path).stat.mtime_ns == node.stat.mtime_ns,
              fmt::format("{} changed {}", Name(tool), path));
    }
    Require(before.files.size() == world_.fs.nodes().size(), fmt::format("{} made a file", Name(tool)));
  }

  /// Nothing is left behind, and nothing is made by who makes no files.
  void ExpectNothingElse(Tool tool, int code, const Before& before) {
    std::set<std::string> data(world_.paths.begin(), world_.paths.end()), sidecars;
    for (const std::string& path : world_.paths) sidecars.insert(*SidecarPath(path));
    for (const auto& [path, node] : world_.fs.nodes()) {
      if (before.files.contains(path)) continue;
      const bool makes_data = tool == Tool::kRestore || tool == Tool::kSalvage;
      const bool makes_sidecars = makes_data || tool == Tool::kRepair || (tool == Tool::kProtect && code == 0);
      // A member of an older commit is kept under another name, as it was; so is one without a sidecar that is mostly damage.
      const auto older = before.files.find(path.substr(0, std::min(path.find(".commit-"), path.find(".replaced"))));
      const bool kept = (makes_data || tool == Tool::kRepair) && older != before.files.end() && data.contains(older->first) && older->second.bytes == node->bytes;
      Require(kept || (makes_data && data.contains(path)) || (makes_sidecars && sidecars.contains(path)),
              fmt::format("{} with exit code {} left {} behind", Name(tool), code, path));
    }
    for (const auto& [path, node] : before.files) {
      // Ruins that hold nothing any more are taken away before a new sidecar is made, which may fail.
      const bool ruins = sidecars.contains(path) && tool == Tool::kProtect && !truth_.CanBeRead(path, before.files);
      Require(world_.fs.Has(path) || ruins, path + " was removed");
    }
  }

  /// What parity can repair is repaired, what it cannot is said, and all of it is named, and nothing else.
  void JudgeByTruth(Tool tool, const Outcome& outcome, const Before& before) {
    const std::size_t worst = before.losses.worst_row;
    const bool repairable = before.repairable(world_.options.parity);
    const bool damaged = before.losses.anything() || before.metadata_hit;
    if (before.losses.unjudged && repairable) return JudgeByWhatIsKnown(tool, outcome, before);
    const auto expect_code = [&](int expected) {
      Require(outcome.code == expected, fmt::format("{} says {} instead of {}, where {} of a row are lost", Name(tool),
                                                    outcome.code, expected, worst));
    };
    if (tool == Tool::kVerify) {
      expect_code(!damaged ? 0 : repairable ? 1 : 2);
      ExpectNamed(tool, outcome.report, before, false);
    } else if (tool == Tool::kRestore || (tool == Tool::kRepair && !before.missing)) {
      expect_code(repairable ? 0 : 2);
      ExpectNamed(tool, outcome.report, before, repairable);
      repairable ? ExpectWhole(tool) : ExpectDataUntouched(before);
    } else if (tool == Tool::kRepair && repairable) {
      expect_code(1);
      ExpectPresentOnesRight(before);
    } else if (tool == Tool::kRepair) {
      expect_code(2);
      ExpectDataUntouched(before);
    } else if (tool == Tool::kSalvage) {
      // A sector that is bad stays so if but a part of it is written.
      if (repairable || outcome.code != 5 || !before.bad_sectors) expect_code(repairable ? 0 : 2);
      if (repairable) ExpectNamed(tool, outcome.report, before, true);
      if (repairable) return ExpectWhole(tool);
      if (outcome.code == 2) ExpectRestRight(before);
    } else if (tool == Tool::kProtect) {
      // (Without a word it was blessed, or there was nothing to bless.)
      Require(!before.right, "protect fails, though data are right");
    }
  }

  /// Of some files nothing says any more what they should be: that is said, and they are not called damaged.
  void JudgeByWhatIsKnown(Tool tool, const Outcome& outcome, const Before& before) {
    const bool data_damaged = std::ranges::any_of(before.losses.blocks, [](const auto& one) { return std::get<1>(one.first) == DamagePart::kData; });
    if (tool == Tool::kVerify) {
      Require(outcome.code == (data_damaged ? 1 : 4), fmt::format("verify says {} where files cannot be judged", outcome.code));
      ExpectNamed(tool, outcome.report, before, false);
    } else {
      Require(outcome.code != 0 && outcome.code != 2, fmt::format("{} says {} where files cannot be judged", Name(tool), outcome.code));
    }
  }

  void ExpectNamed(Tool tool, const DatasetReport& report, const Before& before, bool repaired) {
    const std::string differences = Differences(before.losses, NamedIn(report));
    Require(differences.empty(), fmt::format("{} does not name what is wrong{}", Name(tool), differences));
    for (const lzy::Damage& d : report.damage) {
      Require(d.repaired == repaired && !d.transient, fmt::format("{} {} at {} is called {}repaired", d.path,
                                                                  lzy::Name(d.part), d.offset, repaired ? "not " : ""));
      Require(d.cause != DamageCause::kStale && d.cause != DamageCause::kAtRisk, d.path + ": damage taken for an edit");
    }
    if (repaired) return;  // what the metadata were like before is gone
    const std::string misnamed = truth_.Misnamed(report);
    Require(misnamed.empty(), fmt::format("{} does not name what is wrong; {}", Name(tool), misnamed));
  }

  /// All is as it was committed, bit for bit, parity and metadata too, and a second look finds nothing.
  void ExpectWhole(Tool tool) {
    Require(truth_.DataAreRight(), fmt::format("{} says it is done, and it is not", Name(tool)));
    for (const std::string& path : world_.paths) {
      if (!world_.fs.Has(path)) continue;
      const FileStat &now = world_.At(path).stat, &was = truth_.committed().at(path).stat;
      Require(now.mtime_ns == was.mtime_ns && now.mode == was.mode, path + " has another mtime or mode");
    }
    if (!verdict_.wrong.empty()) return;
    const Outcome after = Do({Tool::kVerify});
    Require(after.code == 0 && after.report.state == DatasetState::kIntact && after.report.damage.empty() &&
                after.report.root.bytes == truth_.root(),
            fmt::format("not intact after {}", Name(tool)));
    if (!verdict_.wrong.empty()) return;
    const Status same = truth_.TakeRepaired();
    Require(same.ok(), fmt::format("not as committed after {}: {}", Name(tool), same.message()));
  }

  /// Verify makes no files, and leaves alone what has no sidecar.
  void ExpectPresentOnesRight(const Before& before) {
    for (const std::string& path : world_.paths) {
      const bool whole = before.files.contains(path) && before.files.contains(*SidecarPath(path)) &&
                         !before.losses.sidecars.contains(*SidecarPath(path));
      if (!whole) continue;
      Require(world_.At(path).bytes == truth_.committed().at(path).bytes && world_.At(path).unreadable.empty(),
              path + " could be repaired and is not");
    }
  }

  /// What is not in the rows that are beyond repair is as it was committed.
  void ExpectRestRight(const Before& before) {
    if (before.losses.unknown_group) return;
    for (const std::string& path : world_.paths) {
      const auto at = before.losses.blocks.find({path, DamagePart::kData, true});
      IntervalSet lost;
      if (at != before.losses.blocks.end()) lost.Add(at->second);
      const std::uint64_t size = truth_.committed().at(path).bytes.size(), block = world_.options.block_size;
      for (std::uint64_t offset = 0; offset < size; offset += block) {
        const std::uint64_t length = std::min(block, size - offset);
        Require(lost.Overlaps({offset, offset + length}) || truth_.Same(path, offset, length),
                fmt::format("{} at {} could be salvaged and is not", path, offset));
      }
    }
  }

  void ExpectDataUntouched(const Before& before) {
    for (const auto& [path, node] : before.files) {
      Require(world_.At(path).bytes == node.bytes, path + " was written to, though rows are beyond repair");
    }
    Require(world_.fs.nodes().size() == before.files.size(), "files were made, though rows are beyond repair");
  }

  /// Each block is as it was before, or as it was committed once. Who `broke_off` may have repaired the last block of a
  /// file that is too long, and not have cut it yet.
  void ExpectTowardsCommitted(const std::string& path, const Node& node, bool broke_off) {
    // What could not be read is zero now.
    Bytes before = node.bytes;
    for (const auto& [at, length] : node.unreadable) {
      if (at >= before.size()) continue;
      const std::uint64_t count = std::min<std::uint64_t>(length, before.size() - at);
      std::fill_n(before.begin() + static_cast<std::ptrdiff_t>(at), count, std::uint8_t{0});
    }
    const Bytes& now = world_.At(path).bytes;
    const std::uint32_t block = world_.options.block_size;
    const auto part = [&](const Bytes& bytes, std::uint64_t at) {
      const std::size_t begin = std::min<std::size_t>(at, bytes.size());
      return Bytes(bytes.begin() + static_cast<std::ptrdiff_t>(begin),
                   bytes.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(begin + block, bytes.size())));
    };
    for (std::uint64_t at = 0; at < now.size(); at += block) {
      const Bytes piece = part(now, at);
      bool known = false;
      const Bytes was = part(before, at);
      for (const auto& [root, files] : truth_.versions()) {
        Bytes committed = part(files.at(path).bytes, at);
        if (broke_off && committed.size() < piece.size() && was.size() == piece.size()) {
          committed.insert(committed.end(), was.begin() + static_cast<std::ptrdiff_t>(committed.size()), was.end());
        }
        known = known || piece == committed;
      }
      // A file that salvage gives its length again is zero where nothing is known, and cut where it is too long.
      for (Bytes kept : {part(node.bytes, at), was}) {
        kept.resize(piece.size());
        known = known || piece == kept;
      }
      const bool zeros = std::all_of(piece.begin(), piece.end(), [](std::uint8_t b) { return b == 0; });
      Require(known, fmt::format("{} at {} is what nobody ever wrote: {} bytes{}, before {}", path, at, piece.size(),
                                 zeros ? " of zeros" : "", was.size()));
    }
  }

  World world_;
  Truth truth_;
  Driver& driver_;
  bool over_ = false;  ///< what is left is another dataset
  std::string log_, details_;
  Verdict verdict_;
};

}  // namespace

const char* Name(Tool tool) {
  switch (tool) {
    case Tool::kProtect:
      return "protect";
    case Tool::kVerify:
      return "verify";
    case Tool::kRepair:
      return "repair";
    case Tool::kRestore:
      return "restore";
    case Tool::kSalvage:
      return "salvage";
    case Tool::kInfo:
      return "info";
  }
  return "unknown";
}

Verdict RunCase(std::uint64_t seed, Driver& driver) {
  return Case(seed, driver).Run();
}

}  // namespace lzy::campaign
