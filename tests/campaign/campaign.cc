#include "campaign/campaign.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "engine/engine.h"
#include "engine/view.h"
#include "memory_files.h"
#include "sidecar/names.h"
#include "sidecar/sidecar.h"

namespace lzy::campaign {
namespace {

using testing::MemoryFileSystem;
using Bytes = std::vector<std::uint8_t>;
using Files = std::map<std::string, MemoryFileSystem::Node>;
using Root = std::array<std::uint8_t, 16>;

constexpr std::int64_t kPast = 1'600'000'000'000'000'000;
constexpr std::int64_t kTick = 1'000'000'000;

class Case {
 public:
  explicit Case(std::uint64_t seed) : rng_(seed) {
    fs_.now = [this] { return clock_ += kTick; };
  }

  Verdict Run() {
    Make();
    if (verdict_.wrong.empty()) {
      for (std::uint64_t n = 1 + Below(4); n > 0; --n) Damage();
      for (std::uint64_t n = 1 + Below(3); n > 0 && verdict_.wrong.empty(); --n) UseTool();
    }
    if (!verdict_.wrong.empty()) verdict_.wrong += "\n  after: " + log_ + details_;
    return verdict_;
  }

 private:
  std::uint64_t Below(std::uint64_t limit) { return limit == 0 ? 0 : rng_() % limit; }
  bool OneIn(std::uint64_t n) { return Below(n) == 0; }
  void Log(const std::string& what) { log_ += what + "; "; }
  void Count(const std::string& what) { ++verdict_.count[what]; }
  void Wrong(const std::string& what) {
    if (verdict_.wrong.empty()) verdict_.wrong = what;
  }
  void Require(bool holds, const std::string& what) {
    if (!holds) Wrong(what);
  }

  // ------------------------------------------------------------------------------------------------------- the dataset

  Context Here() { return {fs_, *self_, options_}; }
  bool IsSet() const { return ref_.kind == DatasetKind::kSet; }
  DatasetRef Ref() {
    DatasetRef ref = ref_;
    std::erase_if(ref.members, [&](const auto& m) { return !fs_.Has(m.second) && !fs_.Has(*SidecarPath(m.second)); });
    return ref;
  }
  Bytes RandomBytes(std::uint64_t size) {
    Bytes bytes(size);
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(rng_());
    return bytes;
  }

  void Make() {
    options_.block_size = 512u << Below(2);
    options_.stripe = std::uint64_t{options_.block_size} << Below(3);
    options_.group = static_cast<std::uint32_t>(3 + Below(4));
    options_.parity = static_cast<std::uint32_t>(1 + Below(std::min<std::uint64_t>(3, options_.group - 1)));
    options_.threads = 1;
    options_.timeout_seconds = 0;
    const std::uint64_t members = OneIn(2) ? 0 : options_.parity + 1 + Below(8);
    ref_ = {members > 0 ? DatasetKind::kSet : DatasetKind::kShared, members > 0 ? "d/s.%r" : "d/f", {}};
    for (std::uint32_t r = 0; r < std::max<std::uint64_t>(1, members); ++r) {
      paths_.push_back(members > 0 ? ExpandPattern(ref_.path, r) : ref_.path);
      if (members > 0) ref_.members[r] = paths_.back();
      fs_.Put(paths_.back(),
              RandomBytes(OneIn(12) ? Below(2) : 1 + Below((members > 0 ? 8 : 40) * options_.block_size)));
    }
    clock_ += kTick;
    Log(fmt::format("{} files, n {}, m {}, block {}, stripe {}", paths_.size(), options_.group, options_.parity,
                    options_.block_size, options_.stripe));
    if (!Commit()) return;
    old_ = fs_.Copy();
    if (OneIn(2)) return;
    for (const std::string& path : paths_) {
      if (OneIn(3)) continue;
      auto file = fs_.Open(path, OpenMode::kReadWrite);
      const std::uint64_t size = fs_.At(path).bytes.size();
      (void)(*file)->WriteAt(Below(size), RandomBytes(1 + Below(2000)));
    }
    clock_ += kTick;
    Log("edited and committed again");
    Commit();
  }

  bool Commit() {
    const DatasetReport made = Protect(Here(), ref_, {});
    Require(made.status.ok() && ExitCodeOf(made) == 0, "protect fails: " + made.status.message());
    clock_ += kTick;
    TakeForTruth(made);
    return verdict_.wrong.empty();
  }
  void TakeForTruth(const DatasetReport& made) {
    committed_ = fs_.Copy();
    versions_[made.root.bytes] = committed_;
    root_ = made.root.bytes;
    metadata_.clear();
    intents_hit_ = false;
  }

  std::string SidecarOf(std::size_t file) const { return *SidecarPath(paths_[file]); }
  std::size_t AnyFile() { return Below(paths_.size()); }

  // ----------------------------------------------------------------------------------------------------------- damages

  /// Changes bytes as bad storage does: the times stay.
  void Change(const std::string& path, std::uint64_t offset, std::uint64_t length) {
    if (!fs_.Has(path)) return;
    Bytes& bytes = fs_.At(path).bytes;
    if (offset >= bytes.size()) return;
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(offset);
    const auto end = begin + static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(length, bytes.size() - offset));
    switch (Below(3)) {
      case 0:
        *begin ^= static_cast<std::uint8_t>(1u << Below(8));
        break;
      case 1:
        std::fill(begin, end, std::uint8_t{0});
        break;
      default:
        for (auto at = begin; at != end; ++at) *at = static_cast<std::uint8_t>(rng_());
    }
  }

  std::uint64_t ParityBase(std::size_t file) const {
    const auto sidecar = CommittedSuperblock(file);
    const Extent* parity = sidecar ? FindExtent(sidecar->extents, ExtentKind::kParity) : nullptr;
    return parity != nullptr ? parity->offset : 1u << 30;
  }
  static std::optional<Superblock> SuperblockOf(const Bytes& sidecar) {
    if (sidecar.size() < kSuperblockSize) return std::nullopt;
    auto superblock = DecodeSuperblock(ByteSpan(sidecar).first(kSuperblockSize), 0);
    return superblock.ok() ? std::optional(*superblock) : std::nullopt;
  }
  std::optional<Superblock> CommittedSuperblock(std::size_t file) const {
    const auto at = committed_.find(SidecarOf(file));
    return at == committed_.end() ? std::nullopt : SuperblockOf(at->second.bytes);
  }

  void Lose(const std::string& path) {
    if (fs_.Has(path)) (void)fs_.Remove(path);
  }

  void PutBack(const std::string& path, const Files& from) {
    const auto at = from.find(path);
    if (at == from.end() || !fs_.Has(path)) return;
    fs_.At(path).bytes = at->second.bytes;
    fs_.At(path).stat.mtime_ns = at->second.stat.mtime_ns;
  }

  void Damage() {
    const std::size_t f = AnyFile();
    const std::string path = paths_[f], sidecar = SidecarOf(f);
    const std::uint32_t block = options_.block_size;
    const std::uint64_t size = committed_.at(path).bytes.size();
    const auto superblock = CommittedSuperblock(f);
    const char* const kinds[] = {"data",
                                 "data",
                                 "data",
                                 "burst",
                                 "parity",
                                 "parity",
                                 "one copy of metadata",
                                 "superblocks",
                                 "hashes",
                                 "file lost",
                                 "sidecar lost",
                                 "device lost",
                                 "device lost",
                                 "truncated",
                                 "grown",
                                 "blocks swapped",
                                 "files swapped",
                                 "old block",
                                 "old file and sidecar",
                                 "old sidecar",
                                 "bad sectors",
                                 "intent pages",
                                 "sidecar truncated"};
    const std::string kind = kinds[Below(std::size(kinds))];
    Count("damage: " + kind);
    Log(fmt::format("{} of {}", kind, path));
    if (kind == "data") {
      Change(path, Below(size), 1 + Below(block));
    } else if (kind == "burst") {
      Change(path, Below(size), 1 + Below(options_.parity * options_.stripe));
    } else if (kind == "parity") {
      Change(sidecar, ParityBase(f) + Below(superblock ? superblock->parity_size : 0), 1 + Below(2ull * block));
    } else if (kind == "one copy of metadata") {
      const std::uint64_t copy = Below(superblock->copies);
      metadata_[f].insert(copy);
      Change(sidecar, superblock->spacing * copy + Below(OneIn(2) ? 300 : superblock->spacing), 1 + Below(64));
    } else if (kind == "superblocks") {
      for (std::uint64_t c = 0; c < superblock->copies; ++c) {
        metadata_[f].insert(c);
        Change(sidecar, superblock->spacing * c, 4000);
      }
    } else if (kind == "hashes") {
      for (std::uint64_t c = 0; c < superblock->copies; ++c) {
        metadata_[f].insert(c);
        Change(sidecar, superblock->spacing * c + kSuperblockSize, superblock->spacing - kSuperblockSize);
      }
    } else if (kind == "file lost") {
      Lose(path);
    } else if (kind == "sidecar lost") {
      Lose(sidecar);
    } else if (kind == "device lost") {
      if (!IsSet()) return Change(path, Below(size / (block + 1)) * block, options_.stripe);
      Lose(path);
      Lose(sidecar);
    } else if (kind == "truncated") {
      if (fs_.Has(path)) fs_.At(path).bytes.resize(Below(size));
    } else if (kind == "grown") {
      if (fs_.Has(path)) fs_.At(path).bytes.resize(fs_.At(path).bytes.size() + 1 + Below(3000), 0x55);
    } else if (kind == "blocks swapped") {
      const std::string other = paths_[AnyFile()];
      if (!fs_.Has(path) || !fs_.Has(other)) return;
      Bytes &a = fs_.At(path).bytes, &b = fs_.At(other).bytes;
      const std::uint64_t i = Below(a.size() / block), j = Below(b.size() / block);
      if ((i + 1) * block > a.size() || (j + 1) * block > b.size()) return;
      std::swap_ranges(a.begin() + static_cast<std::ptrdiff_t>(i * block),
                       a.begin() + static_cast<std::ptrdiff_t>((i + 1) * block),
                       b.begin() + static_cast<std::ptrdiff_t>(j * block));
    } else if (kind == "files swapped") {
      const std::string other = paths_[AnyFile()];
      if (fs_.Has(path) && fs_.Has(other)) std::swap(fs_.At(path).bytes, fs_.At(other).bytes);
    } else if (kind == "old block") {
      const Bytes& old = old_.at(path).bytes;
      const std::uint64_t at = Below(old.size() / block) * block;
      if (!fs_.Has(path) || at + block > old.size() || at + block > fs_.At(path).bytes.size()) return;
      std::copy_n(old.begin() + static_cast<std::ptrdiff_t>(at), block,
                  fs_.At(path).bytes.begin() + static_cast<std::ptrdiff_t>(at));
    } else if (kind == "old file and sidecar") {
      PutBack(path, old_);
      PutBack(sidecar, old_);
    } else if (kind == "old sidecar") {
      PutBack(sidecar, old_);
    } else if (kind == "bad sectors") {
      if (!fs_.Has(path)) return;
      const std::uint64_t now = std::min<std::uint64_t>(size, fs_.At(path).bytes.size());
      for (std::uint64_t at = Below(size) / 512 * 512, n = 1 + Below(3); n > 0 && at < now; --n, at += 512) {
        fs_.At(path).unreadable.emplace_back(at, std::min<std::uint64_t>(512, now - at));
      }
    } else if (kind == "intent pages") {
      intents_hit_ = true;
      Change(sidecar, superblock->spacing * superblock->copies, kIntentPages * kIntentPageSize);
    } else if (fs_.Has(sidecar)) {
      Bytes& bytes = fs_.At(sidecar).bytes;
      const std::uint64_t left = Below(bytes.size());
      for (std::uint64_t c = 0; c < superblock->copies; ++c) {
        if (superblock->spacing * (c + 1) > left) metadata_[f].insert(c);
      }
      bytes.resize(left);
    }
  }

  // ------------------------------------------------------------------------------------------------------------- truth

  bool SameBytes(const std::string& path, std::uint64_t offset, std::uint64_t length) const {
    const Bytes& was = committed_.at(path).bytes;
    if (!fs_.Has(path)) return false;
    const auto& node = *fs_.nodes().at(path);
    for (const auto& [at, count] : node.unreadable) {
      if (at < offset + length && offset < at + count && at < node.bytes.size()) return false;
    }
    if (node.bytes.size() < offset + length) return false;
    return std::equal(was.begin() + static_cast<std::ptrdiff_t>(offset),
                      was.begin() + static_cast<std::ptrdiff_t>(offset + length),
                      node.bytes.begin() + static_cast<std::ptrdiff_t>(offset));
  }
  /// Data and sidecars are as they were committed.
  bool DataAreRight() const {
    return std::all_of(paths_.begin(), paths_.end(), [&](const std::string& path) {
      return fs_.Has(path) && fs_.nodes().at(path)->bytes == committed_.at(path).bytes &&
             fs_.nodes().at(path)->unreadable.empty();
    });
  }
  /// The sidecar's metadata are all there in one copy at least, and of the generation that counts.
  bool IsUsable(std::size_t file) const {
    if (!fs_.Has(SidecarOf(file))) return false;
    const auto at = metadata_.find(file);
    const auto superblock = CommittedSuperblock(file);
    return at == metadata_.end() || at->second.size() < superblock->copies;
  }
  bool IsOld(std::size_t file) const {
    if (!fs_.Has(SidecarOf(file))) return false;
    const auto now = SuperblockOf(fs_.nodes().at(SidecarOf(file))->bytes);
    return now && now->generation != CommittedSuperblock(file)->generation;
  }
  /// What can be said of the damages is what was done to data and parity: no metadata are gone in all copies, no
  /// sidecar is of another generation, sizes are as committed, and times.
  bool IsPlain() const {
    if (intents_hit_) return false;
    bool present_is_known = false;
    for (std::size_t f = 0; f < paths_.size(); ++f) present_is_known |= fs_.Has(SidecarOf(f)) && !IsOld(f);
    if (!present_is_known) return false;
    for (std::size_t f = 0; f < paths_.size(); ++f) {
      if (fs_.Has(SidecarOf(f)) && (!IsUsable(f) || metadata_.contains(f))) return false;
      if (IsOld(f)) {
        // Of a set it is told by its generation, and both are made again; but only if the file is no edit.
        if (!IsSet() || !IsWhatItWas(paths_[f])) return false;
        continue;
      }
      if (!fs_.Has(paths_[f])) continue;
      const auto& node = *fs_.nodes().at(paths_[f]);
      const auto& was = committed_.at(paths_[f]);
      if (node.stat.mtime_ns != was.stat.mtime_ns || node.bytes.size() > was.bytes.size()) return false;
      // Whether a file without a sidecar is what it was is told by its root alone.
      const bool as_it_was = node.bytes == was.bytes && node.unreadable.empty();
      if (!fs_.Has(SidecarOf(f)) && IsSet() && !as_it_was) return false;
    }
    return true;
  }
  /// At the first commit.
  bool IsWhatItWas(const std::string& path) const {
    if (!fs_.Has(path)) return false;
    const auto &now = *fs_.nodes().at(path), &was = old_.at(path);
    return now.bytes == was.bytes && now.stat.mtime_ns == was.stat.mtime_ns && now.unreadable.empty();
  }
  bool SomethingIsMissing() const {
    for (std::size_t f = 0; f < paths_.size(); ++f) {
      if (!fs_.Has(paths_[f]) || !fs_.Has(SidecarOf(f)) || IsOld(f)) return true;
    }
    return false;
  }

  /// The worst row of all: how many of its blocks are lost. (Only where IsPlain.)
  std::uint32_t WorstRow() {
    MemoryFileSystem before;
    before.Restore(committed_);
    std::uint32_t worst = 0;
    std::set<std::vector<std::uint32_t>> seen;
    for (std::size_t f = 0; f < paths_.size(); ++f) {
      const auto sidecar = Sidecar::Load(before, SidecarOf(f), OpenMode::kRead);
      const SidecarContents& contents = (*sidecar)->contents();
      const auto ranks = IsSet() ? contents.info.groups[0] : std::vector<std::uint32_t>{0};
      if (!seen.insert(ranks).second) continue;
      const auto layout = LayoutOf(contents);
      for (std::uint32_t g = 0; g < layout->group_count(); ++g) {
        for (std::uint64_t row = 0; row < layout->unit_rows(g); ++row) {
          for (std::uint32_t slice = 0; slice < layout->slices(); ++slice) {
            std::uint32_t lost = 0;
            for (const std::uint32_t device : layout->group(g)) lost += IsLost(*layout, ranks, device, row, slice);
            worst = std::max(worst, lost);
          }
        }
      }
    }
    return worst;
  }
  bool IsLost(const Layout& layout, const std::vector<std::uint32_t>& ranks, std::uint32_t device, std::uint64_t row,
              std::uint32_t slice) {
    const bool parity = layout.IsParity(device, row);
    const std::size_t file = ranks[parity ? layout.region_of(device) : layout.file_of(device)];
    const BlockPlace place = parity ? layout.ParityBlock(device, row, slice) : layout.DataBlock(device, row, slice);
    if (place.length == 0) return false;
    if (IsOld(file)) return parity || fs_.nodes().at(paths_[file])->bytes != committed_.at(paths_[file]).bytes;
    return !SameBytes(parity ? SidecarOf(file) : paths_[file], place.offset + (parity ? ParityBase(file) : 0),
                      place.length);
  }

  // ------------------------------------------------------------------------------------------------------------- tools

  void UseTool() {
    const char* const tools[] = {"verify", "verify", "repair", "restore", "restore", "salvage", "protect"};
    const std::string tool = tools[Below(std::size(tools))];
    Count("tool: " + tool);
    const Files before = fs_.Copy();
    const bool plain = IsPlain();
    const bool right = DataAreRight();
    const bool missing = SomethingIsMissing();
    const std::uint32_t worst = plain ? WorstRow() : 0;
    const bool sidecar_left =
        std::any_of(paths_.begin(), paths_.end(), [&](const auto& path) { return fs_.Has(*SidecarPath(path)); });
    DatasetReport report;
    if (tool == "verify") {
      report = Verify(Here(), Ref(), {.from_disk = OneIn(2)});
    } else if (tool == "repair") {
      report = Verify(Here(), Ref(), {.repair = true});
    } else if (tool == "protect") {
      report = Protect(Here(), Ref(), {});
    } else {
      RestoreRequest request;
      request.salvage = tool == "salvage";
      report = Restore(Here(), Ref(), request);
    }
    clock_ += kTick;
    const int code = ExitCodeOf(report);
    Count(fmt::format("exit code: {} {}", tool, code));
    Log(fmt::format("{} says {} ({} {})", tool, code, Name(report.state), report.status.message()));
    for (const lzy::Damage& d : report.damage) {
      details_ += fmt::format("\n    {} {} [{}, +{}) {}{}{}", d.path, Name(d.part), d.offset, d.length, Name(d.cause),
                              d.repaired ? " repaired" : "", d.beyond_repair ? " beyond repair" : "");
    }

    // (Of members that are left there may be too few to carry parity.)
    Require(code != 7 && code != 8 && (code != 3 || tool == "protect"), "an internal error");
    // Intact, or made so, means what it says.
    if (code == 0) {
      const auto version = versions_.find(report.root.bytes);
      if (tool == "protect" && version == versions_.end()) {
        // It may have taken an edit, or what looks like one, for the new truth; but not damage.
        Require(!plain || right || !sidecar_left, "protect blessed damage");
      } else if (version == versions_.end()) {
        Wrong("intact, with a root that no commit had");
      } else {
        for (const std::string& path : paths_) {
          if (fs_.Has(path))
            Require(fs_.At(path).bytes == version->second.at(path).bytes, path + " is called intact and is not");
          Require(fs_.Has(path), path + " is missing, and that is not said");
        }
      }
      if (tool == "protect") TakeForTruth(report);
    }
    // Nothing is changed but to what was committed.
    for (const auto& [path, node] : before) {
      const bool data = std::find(paths_.begin(), paths_.end(), path) != paths_.end();
      if (!data) continue;
      Require(fs_.Has(path), path + " was removed");
      if (!fs_.Has(path) || fs_.At(path).bytes == node.bytes) continue;
      Require(tool != "verify" && tool != "protect", path + " was changed by " + tool);
      // A sector that is bad stays so if but a part of it is written, as at the end of a file that is too long.
      if (code != 5 || node.unreadable.empty()) ExpectTowardsCommitted(path, node);
    }
    if (tool == "verify") {
      for (const auto& [path, node] : before) {
        Require(fs_.Has(path) && fs_.At(path).bytes == node.bytes && fs_.At(path).stat.mtime_ns == node.stat.mtime_ns,
                "verify changed " + path);
      }
      Require(before.size() == fs_.nodes().size(), "verify made a file");
    }
    for (const std::string& path : paths_) {
      if (!before.contains(path) && fs_.Has(path) && tool != "salvage")
        ExpectTowardsCommitted(path, MemoryFileSystem::Node());
    }
    if (!plain || !sidecar_left) return;
    // What parity can mend is mended; what it cannot is said, and nothing is written.
    if (tool == "verify") {
      const int expected = worst == 0 && !missing ? 0 : worst <= options_.parity ? 1 : 2;
      Require(code == expected, fmt::format("verify says {} where {} of a row are lost", code, worst));
    } else if (tool == "restore" || (tool == "repair" && !missing)) {
      if (worst <= options_.parity) {
        Require(code == 0, fmt::format("{} says {} where {} of a row are lost", tool, code, worst));
        Require(DataAreRight(), tool + " says it is done, and it is not");
        if (verdict_.wrong.empty()) {
          const DatasetReport after = Verify(Here(), Ref(), {});
          Require(after.state == DatasetState::kIntact && after.damage.empty() && after.root.bytes == root_,
                  "not intact after " + tool);
          metadata_.clear();
        }
      } else {
        Require(code == 2, fmt::format("{} says {} where {} of a row are lost", tool, code, worst));
        for (const auto& [path, node] : before) {
          Require(fs_.Has(path) && fs_.At(path).bytes == node.bytes,
                  path + " was written to, though rows are beyond repair");
        }
      }
    } else if (tool == "protect" && (worst > 0 || missing) && !right) {
      Require(code != 0, "protect blesses damage");
    }
  }

  /// Each block is as it was before, or as it was committed once.
  void ExpectTowardsCommitted(const std::string& path, const MemoryFileSystem::Node& node) {
    // What could not be read is zero now.
    Bytes before = node.bytes;
    for (const auto& [at, length] : node.unreadable) {
      if (at >= before.size()) continue;
      const std::uint64_t count = std::min<std::uint64_t>(length, before.size() - at);
      std::fill_n(before.begin() + static_cast<std::ptrdiff_t>(at), count, std::uint8_t{0});
    }
    const Bytes& now = fs_.At(path).bytes;
    const std::uint32_t block = options_.block_size;
    const auto part = [&](const Bytes& bytes, std::uint64_t at) {
      const std::size_t begin = std::min<std::size_t>(at, bytes.size());
      return Bytes(bytes.begin() + static_cast<std::ptrdiff_t>(begin),
                   bytes.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(begin + block, bytes.size())));
    };
    for (std::uint64_t at = 0; at < now.size(); at += block) {
      const Bytes piece = part(now, at);
      bool known = false;
      for (const auto& [root, files] : versions_) known = known || piece == part(files.at(path).bytes, at);
      // A file that salvage gives its length again is zero where nothing is known, and cut where it is too long.
      const Bytes was = part(before, at);
      for (Bytes kept : {part(node.bytes, at), was}) {
        kept.resize(piece.size());
        known = known || piece == kept;
      }
      const bool zeros = std::all_of(piece.begin(), piece.end(), [](std::uint8_t b) { return b == 0; });
      Require(known, fmt::format("{} at {} is what nobody ever wrote: {} bytes{}, before {}", path, at, piece.size(),
                                 zeros ? " of zeros" : "", was.size()));
    }
  }

  std::mt19937_64 rng_;
  std::int64_t clock_ = kPast;
  MemoryFileSystem fs_;
  Options options_;
  std::unique_ptr<Communicator> self_ = SelfCommunicator();
  DatasetRef ref_;
  std::vector<std::string> paths_;
  Files old_, committed_;  // at the first and the last commit
  std::map<Root, Files> versions_;
  Root root_{};
  std::map<std::size_t, std::set<std::uint64_t>> metadata_;  // copies that were damaged, by file
  bool intents_hit_ = false;
  std::string log_, details_;
  Verdict verdict_;
};

}  // namespace

Verdict RunCase(std::uint64_t seed) {
  return Case(seed).Run();
}

}  // namespace lzy::campaign
