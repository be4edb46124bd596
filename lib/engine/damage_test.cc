// Random damage to random datasets: what Verify must name, what Repair and Restore must bring back, and what they must
// leave alone. The judge here compares bytes with what they were; it shares the geometry with the engine, nothing else.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "dataset/view.h"
#include "engine/engine.h"
#include "sidecar/contents.h"
#include "engine_fixture.h"
#include "sidecar/names.h"
#include "sidecar/sidecar.h"
#include "status_matchers.h"

namespace lzy::testing {
namespace {

using Ranges = std::vector<ByteRange>;

void AddRange(Ranges& ranges, std::uint64_t offset, std::uint64_t length) {
  if (length > 0) ranges.push_back({offset, length});
}

Ranges Merged(Ranges ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
  Ranges out;
  for (const ByteRange& r : ranges) {
    if (!out.empty() && out.back().offset + out.back().length >= r.offset) {
      out.back().length = std::max(out.back().length, r.offset + r.length - out.back().offset);
    } else {
      out.push_back(r);
    }
  }
  return out;
}

std::string Text(const Ranges& ranges) {
  std::string out;
  for (const ByteRange& r : ranges) out += fmt::format(" [{}, +{})", r.offset, r.length);
  return out.empty() ? " nothing" : out;
}

/// A file of the dataset as committed.
struct ModelFile {
  std::string path, sidecar;
  std::uint32_t rank = 0;
  FileImage data;
  Bytes sidecar_bytes;
  std::uint64_t parity_base = 0;
  bool parity_is_last = true;     ///< in the compact form it is not: the other copies follow
  std::uint64_t parity_size = 0;
  std::vector<Ranges> metadata;  ///< by copy: superblock first; the intent pages are a copy of their own, at the end
};
struct ModelGroup {
  Layout layout;
  std::vector<ModelFile> files;  ///< by file number of the layout; shared: one
};

/// What is on disk now, held against what was committed.
struct Judgement {
  std::map<std::pair<std::string, DamagePart>, Ranges> blocks;  ///< bad blocks, whole
  std::map<std::string, Ranges> metadata_hits;                  ///< changed bytes, by sidecar
  std::set<std::string> missing_sidecars, missing_empty;
  std::size_t worst_row = 0;
  bool anything = false;
  bool missing = false;  ///< a file or a sidecar is gone
  bool unjudged = false;  ///< of a file that is there, nothing tells what it should be
  bool data_damaged() const {
    return std::ranges::any_of(blocks, [](const auto& one) { return one.first.second == DamagePart::kData && !one.second.empty(); });
  }
};

class Model {
 public:
  Model(std::string directory, Sample sample) : directory_(std::move(directory)), sample_(std::move(sample)) { Load(); }

  void Load() {
    groups_.clear();
    std::map<std::vector<std::uint32_t>, std::size_t> known;
    for (std::uint32_t rank = 0; rank < sample_.files.size(); ++rank) {
      ModelFile file;
      file.path = sample_.files[rank];
      file.sidecar = *SidecarPath(file.path);
      file.rank = rank;
      auto sidecar = Sidecar::Load(PosixFileSystem(), file.sidecar, OpenMode::kRead);
      ASSERT_OK(sidecar);
      const SidecarContents& contents = (*sidecar)->contents();
      file.parity_base = (*sidecar)->ParityFileOffset(0);
      file.sidecar_bytes = ReadFile(file.sidecar);
      const Superblock& sb = contents.superblock;
      root_ = sb.dataset_root;
      file.parity_is_last = !sb.compact;
      file.parity_size = sb.parity_size;
      for (std::uint32_t c = 0; c < sb.copies; ++c) {
        auto copy = DecodeSuperblock(ByteSpan(file.sidecar_bytes).subspan(sb.PlaceOf(c)), c);
        ASSERT_OK(copy);
        Ranges& ranges = file.metadata.emplace_back();
        ranges.push_back({sb.PlaceOf(c), sb.bytes()});
        for (const Extent& e : copy->extents) {
          if (e.kind != ExtentKind::kParity && e.kind != ExtentKind::kIntent) AddRange(ranges, e.offset, e.length);
        }
      }
      // In the compact form they are there only while an intent is set.
      if (!sb.compact) file.metadata.push_back({{sb.spacing * sb.copies, kIntentPages * kIntentPageSize}});
      const auto members = sample_.kind == DatasetKind::kSet ? contents.info.groups[0] : std::vector<std::uint32_t>{0};
      auto at = known.find(members);
      if (at == known.end()) {
        auto layout = LayoutOf(contents);
        ASSERT_OK(layout);
        at = known.emplace(members, groups_.size()).first;
        groups_.push_back({std::move(layout).value(), std::vector<ModelFile>(members.size())});
      }
      const auto index = std::find(members.begin(), members.end(), rank) - members.begin();
      groups_[at->second].files[static_cast<std::size_t>(index)] = std::move(file);
    }
    image_ = ImageOf(directory_);
    for (ModelGroup& group : groups_) {
      for (ModelFile& file : group.files) file.data = image_.at(file.path);
    }
  }

  const Sample& sample() const { return sample_; }
  const std::string& directory() const { return directory_; }
  std::vector<ModelGroup>& groups() { return groups_; }
  const Image& image() const { return image_; }
  const Hash& root() const { return root_; }
  std::uint32_t parity() const { return groups_[0].layout.parity(); }

  Judgement Judge() const {
    Judgement out;
    for (const ModelGroup& group : groups_) JudgeGroup(group, out);
    return out;
  }

 private:
  static bool Same(const Bytes& now, const Bytes& was, std::uint64_t offset, std::uint64_t length) {
    return now.size() >= offset + length && std::equal(was.begin() + static_cast<std::ptrdiff_t>(offset),
                                                       was.begin() + static_cast<std::ptrdiff_t>(offset + length),
                                                       now.begin() + static_cast<std::ptrdiff_t>(offset));
  }

  static void JudgeGroup(const ModelGroup& group, Judgement& out) {
    const Layout& layout = group.layout;
    if (std::none_of(group.files.begin(), group.files.end(),
                     [](const ModelFile& file) { return Exists(file.sidecar); })) {
      // Nothing says any more what the group was like (only possible with more losses than parity): it is named as a
      // whole.
      for (const ModelFile& file : group.files) {
        if (Exists(file.path)) {
          out.unjudged = true;
          continue;
        }
        out.missing_empty.insert(file.path);
        out.worst_row = SIZE_MAX;
      }
      out.anything = out.missing = true;
      return;
    }
    std::map<std::tuple<std::uint64_t, std::uint32_t, std::uint32_t>, std::size_t> rows;
    auto count = [&](const RowId& row) {
      out.worst_row = std::max(out.worst_row, ++rows[{row.unit_row, row.group, row.slice}]);
      out.anything = true;
    };
    for (std::uint32_t f = 0; f < group.files.size(); ++f) {
      const ModelFile& file = group.files[f];
      const bool present = Exists(file.path), has_sidecar = Exists(file.sidecar);
      const Bytes now = ReadFile(file.path), sidecar = ReadFile(file.sidecar);
      const std::uint64_t size = file.data.bytes.size(), block = layout.block_size();
      const bool whole = present && Same(now, file.data.bytes, 0, size);
      Ranges& data = out.blocks[{file.path, DamagePart::kData}];
      for (std::uint64_t i = 0; i < layout.data_blocks(f); ++i) {
        const std::uint64_t offset = i * block, length = std::min(block, size - offset);
        // Without a sidecar there are no leaves: the file proves itself as a whole, or not at all.
        if (has_sidecar ? Same(now, file.data.bytes, offset, length) : whole) continue;
        AddRange(data, offset, length);
        count(layout.LocateData(f, i).row);
      }
      if (present && now.size() > size) {
        AddRange(data, size, now.size() - size);
        out.anything = true;
      }
      if (!present && size == 0) out.missing_empty.insert(file.path);
      if (!has_sidecar) out.missing_sidecars.insert(file.sidecar);
      if (!present || !has_sidecar) out.missing = out.anything = true;

      Ranges& parity = out.blocks[{file.sidecar, DamagePart::kParity}];
      for (std::uint64_t i = 0; i < layout.parity_blocks(f); ++i) {
        const Layout::DeviceRow at = layout.LocateParity(f, i);
        const BlockPlace place = layout.ParityBlock(at.device, at.row.unit_row, at.row.slice);
        if (place.length == 0) continue;
        if (has_sidecar && Same(sidecar, file.sidecar_bytes, file.parity_base + place.offset, place.length)) continue;
        AddRange(parity, (has_sidecar ? file.parity_base : 0) + place.offset, place.length);
        count(at.row);
      }
      for (const Ranges& copy : file.metadata) {
        for (const ByteRange& r : copy) {
          for (std::uint64_t b = r.offset; has_sidecar && b < r.offset + r.length; ++b) {
            if (b < sidecar.size() && sidecar[b] == file.sidecar_bytes[b]) continue;
            AddRange(out.metadata_hits[file.sidecar], b, 1);
            out.anything = true;
          }
        }
      }
    }
  }

  const std::string directory_;
  const Sample sample_;
  std::vector<ModelGroup> groups_;
  Image image_;
  Hash root_;
};

/// `report` names exactly what `truth` has: no block missed, none falsely accused.
void ExpectNamed(const DatasetReport& report, const Judgement& truth, const Model& model_const,
                 std::optional<DamageCause> data_cause = {}) {
  Model& model = const_cast<Model&>(model_const);
  std::map<std::pair<std::string, DamagePart>, Ranges> named;
  std::set<std::string> empty_missing, sidecars_missing;
  std::map<std::string, Ranges> metadata;
  for (const Damage& d : report.damage) {
    EXPECT_FALSE(d.transient) << d.path << " at " << d.offset;
    if (d.part == DamagePart::kMetadata) {
      if (d.length == 0) {
        sidecars_missing.insert(d.path);
      } else {
        metadata[d.path].push_back({d.offset, d.length});
      }
      continue;
    }
    if (d.length == 0) {
      empty_missing.insert(d.path);
    } else {
      named[{d.path, d.part}].push_back({d.offset, d.length});
    }
    if (d.part == DamagePart::kData && data_cause) {
      EXPECT_EQ(Name(d.cause), std::string(Name(*data_cause))) << d.path << " " << d.offset;
    }
  }
  EXPECT_EQ(empty_missing, truth.missing_empty);
  EXPECT_EQ(sidecars_missing, truth.missing_sidecars);
  for (const auto& [key, ranges] : truth.blocks) {
    const Ranges want = Merged(ranges), got = Merged(named[key]);
    EXPECT_EQ(want, got) << key.first << " " << Name(key.second) << ": damaged" << Text(want) << ", named" << Text(got);
    named.erase(key);
  }
  for (const auto& [key, ranges] : named)
    EXPECT_TRUE(ranges.empty()) << key.first << " named for nothing:" << Text(ranges);

  auto overlaps = [](const ByteRange& a, const ByteRange& b) {
    return a.offset < b.offset + b.length && b.offset < a.offset + a.length;
  };
  for (const auto& [path, hits] : truth.metadata_hits) {
    const ModelFile* file = nullptr;
    for (ModelGroup& group : model.groups()) {
      for (ModelFile& one : group.files) file = one.sidecar == path ? &one : file;
    }
    ASSERT_NE(file, nullptr);
    for (const ByteRange& hit : hits) {
      // Where a superblock is lost, nothing else of its copy can be looked at.
      bool found = false;
      for (const ByteRange& r : metadata[path]) found = found || overlaps(r, hit);
      for (const Ranges& copy : file->metadata) {
        const bool here = std::any_of(copy.begin(), copy.end(), [&](const ByteRange& r) { return overlaps(r, hit); });
        for (const ByteRange& r : metadata[path]) found = found || (here && overlaps(r, copy[0]));
      }
      EXPECT_TRUE(found) << path << ": byte " << hit.offset << " of the metadata changed and nobody says so";
    }
  }
  for (const auto& [path, ranges] : metadata) {
    const auto at = truth.metadata_hits.find(path);
    for (const ByteRange& r : ranges) {
      const bool hit =
          at != truth.metadata_hits.end() &&
          std::any_of(at->second.begin(), at->second.end(), [&](const ByteRange& b) { return overlaps(r, b); });
      EXPECT_TRUE(hit) << path << ": metadata [" << r.offset << ", +" << r.length << ") named for nothing";
    }
  }
}

class Campaign {
 public:
  Campaign(Rng& rng, std::string directory, Sample sample)
      : rng_(rng), comm_(SelfCommunicator()), options_(sample.options), context_{PosixFileSystem(), *comm_, options_} {
    const DatasetReport made = Protect(context_, RefOf(*comm_, sample.path, Resolve::kProtectable), {});
    EXPECT_OK(made.status);
    EXPECT_EQ(made.state, DatasetState::kIntact);
    if (!::testing::Test::HasFailure()) model_.emplace(std::move(directory), std::move(sample));
    if (model_) {
      EXPECT_EQ(made.root, model_->root());
    }
  }

  Model& model() { return *model_; }

  /// Damages the dataset in one of the ways, and puts everything to the proof.
  void Round(int kind) {
    SCOPED_TRACE(fmt::format("damage of kind {} to {}", kind, model_->sample().Describe()));
    log_.clear();
    Apply(kind);
    SCOPED_TRACE(log_);
    const auto has_sidecar = [](const ModelGroup& group) {
      return std::any_of(group.files.begin(), group.files.end(),
                         [](const ModelFile& file) { return Exists(file.sidecar); });
    };
    if (std::none_of(model_->groups().begin(), model_->groups().end(), has_sidecar)) {
      PutBack(model_->directory(), model_->image());  // no dataset is left
      return;
    }
    const Judgement truth = model_->Judge();
    const Image before = ImageOf(model_->directory());
    const bool beyond = truth.worst_row > model_->parity();
    VerifyRequest verify;
    verify.from_disk = OneIn(rng_, 4);
    const DatasetReport found = Verify(context_, Ref(), verify);
    ASSERT_OK(found.status);
    ExpectNamed(found, truth, *model_);
    EXPECT_EQ(std::string(Name(found.state)), Name(beyond           ? DatasetState::kUnrepairable
                                                   : truth.unjudged && !truth.data_damaged() ? DatasetState::kUnprotected
                                                   : truth.anything ? DatasetState::kDamaged
                                                                    : DatasetState::kIntact));
    EXPECT_EQ(found.root, model_->root());
    EXPECT_EQ(Differences(before, ImageOf(model_->directory())), "") << "verifying changes nothing";
    if (::testing::Test::HasFailure()) return;
    if (beyond) {
      ExpectRefusal(before);
    } else if (truth.unjudged) {
      ExpectAsMuchAsIsKnown();
    } else {
      ExpectMended(truth);
    }
  }

  /// A legitimate edit: never taken back but by force.
  void Stale() {
    SCOPED_TRACE("edit of " + model_->sample().Describe());
    log_.clear();
    const ModelFile& file = AnyFile();
    const std::uint64_t size = file.data.bytes.size();
    const std::uint64_t edits = 1 + Below(rng_, 3);
    for (std::uint64_t i = 0; i < edits; ++i) {
      const std::uint64_t at = Below(rng_, size + 2000);
      WriteAt(file.path, at, RandomBytes(rng_, 1 + Below(rng_, 3000)));
    }
    if (OneIn(rng_, 4)) Truncate(file.path, Below(rng_, size));
    SetMtime(file.path, file.data.mtime_ns +
                            (OneIn(rng_, 2) ? 1 : -1) * static_cast<std::int64_t>(1 + Below(rng_, 1'000'000'000)));
    const Judgement truth = model_->Judge();
    const Image before = ImageOf(model_->directory());
    const DatasetReport found = Verify(context_, Ref(), {});
    ASSERT_OK(found.status);
    ExpectNamed(found, truth, *model_, DamageCause::kStale);
    const DatasetState expected = truth.anything ? DatasetState::kStale : DatasetState::kIntact;
    EXPECT_EQ(std::string(Name(found.state)), Name(expected));
    for (const bool restore : {false, true}) {
      const DatasetReport left = Try(restore, /*force=*/false);
      ASSERT_OK(left.status);
      EXPECT_EQ(std::string(Name(left.state)), Name(expected));
      EXPECT_EQ(Differences(before, ImageOf(model_->directory())), "") << "an edit is not to be touched";
    }
    const DatasetReport forced = Try(OneIn(rng_, 2), /*force=*/true);
    if (truth.worst_row > model_->parity()) {
      EXPECT_EQ(forced.status.code(), Code::kBeyondRepair);
      EXPECT_EQ(std::string(Name(forced.state)), Name(expected)) << "nothing is lost";
      EXPECT_EQ(Differences(before, ImageOf(model_->directory())), "");
    } else if (truth.anything) {
      ASSERT_OK(forced.status);
      EXPECT_EQ(ExitCodeOf(forced), 0);
      ExpectAsCommitted();
    }
    PutBack(model_->directory(), model_->image());
    ExpectIntact();
  }

  /// A set: one member edited, another damaged. The damage is mended where parity suffices, the edit stays.
  void StaleAndDamaged() {
    ModelGroup& group = model_->groups()[Below(rng_, model_->groups().size())];
    if (model_->sample().kind != DatasetKind::kSet || group.files.size() < 2) return;
    SCOPED_TRACE("edit and damage of " + model_->sample().Describe());
    log_.clear();
    const std::uint32_t a = static_cast<std::uint32_t>(Below(rng_, group.files.size()));
    const std::uint32_t b =
        static_cast<std::uint32_t>((a + 1 + Below(rng_, group.files.size() - 1)) % group.files.size());
    if (group.layout.file_size(a) == 0 || group.layout.file_size(b) == 0) return;
    WriteAt(group.files[a].path, Below(rng_, group.layout.file_size(a)), RandomBytes(rng_, 1));
    SetMtime(group.files[a].path, group.files[a].data.mtime_ns + 1);
    const FileImage edited = ImageOf(model_->directory()).at(group.files[a].path);
    RotBlock(group.files[b].path, Below(rng_, group.layout.data_blocks(b)) * group.layout.block_size(), 100);
    const Judgement truth = model_->Judge();
    const Image before = ImageOf(model_->directory());
    const DatasetReport mended = Try(OneIn(rng_, 2), /*force=*/false);
    ASSERT_OK(mended.status);
    const Image after = ImageOf(model_->directory());
    if (truth.worst_row > model_->parity()) {
      EXPECT_EQ(ExitCodeOf(mended), 2);
      EXPECT_EQ(Differences(before, after), "");
    } else {
      EXPECT_EQ(std::string(Name(mended.state)), edited == group.files[a].data               ? "restored"
                                                 : edited.bytes == group.files[a].data.bytes ? "restored"
                                                                                             : "stale");
      EXPECT_EQ(after.at(group.files[a].path), edited) << "the edit was touched";
      EXPECT_EQ(after.at(group.files[b].path), group.files[b].data) << "the damage was not mended";
    }
    PutBack(model_->directory(), model_->image());
    ExpectIntact();
  }

 private:
  DatasetRef Ref() { return RefOf(*comm_, model_->sample().path); }

  DatasetReport Try(bool restore, bool force) {
    if (restore) {
      RestoreRequest request;
      request.force = force;
      return Restore(context_, Ref(), request);
    }
    VerifyRequest request;
    request.repair = true;
    request.force = force;
    return Verify(context_, Ref(), request);
  }

  void ExpectRefusal(const Image& before) {
    for (const bool restore : {false, true}) {
      const DatasetReport refused = Try(restore, false);
      ASSERT_OK(refused.status);
      EXPECT_EQ(ExitCodeOf(refused), 2);
      EXPECT_EQ(Differences(before, ImageOf(model_->directory())), "") << "beyond repair: nothing may be written";
    }
    PutBack(model_->directory(), model_->image());
    ExpectIntact();
  }

  /// Where the sidecars of a whole group are gone, what others tell of is mended, and the rest is not touched.
  void ExpectAsMuchAsIsKnown() {
    const Image damaged = ImageOf(model_->directory());
    for (const bool restore : {false, true}) {
      const DatasetReport report = Try(restore, false);
      ASSERT_OK(report.status);
      EXPECT_NE(ExitCodeOf(report), 0);
      EXPECT_NE(ExitCodeOf(report), 2);
      for (const auto& [path, now] : ImageOf(model_->directory())) {
        const auto was = damaged.find(path);
        const bool touched = was == damaged.end() || was->second.bytes != now.bytes;
        const bool right = model_->image().contains(path) && model_->image().at(path).bytes == now.bytes;
        EXPECT_TRUE(!touched || right || path.find(".LZY.") != std::string::npos) << path;
      }
    }
    PutBack(model_->directory(), model_->image());
    ExpectIntact();
  }

  void ExpectMended(const Judgement& truth) {
    if (truth.missing && OneIn(rng_, 3)) {
      // Verify mends what it may and makes no files.
      std::set<std::string> names;
      for (const auto& [path, one] : ImageOf(model_->directory())) names.insert(path);
      const DatasetReport partly = Try(/*restore=*/false, false);
      ASSERT_OK(partly.status);
      EXPECT_EQ(ExitCodeOf(partly), 1);
      std::set<std::string> after;
      for (const auto& [path, one] : ImageOf(model_->directory())) after.insert(path);
      EXPECT_EQ(names, after);
    }
    const bool restore = truth.missing || OneIn(rng_, 2);
    const DatasetReport mended = Try(restore, false);
    ASSERT_OK(mended.status);
    EXPECT_EQ(ExitCodeOf(mended), 0);
    EXPECT_EQ(std::string(Name(mended.state)), truth.anything ? "restored" : "intact");
    for (const Damage& d : mended.damage) EXPECT_TRUE(d.repaired) << d.path << " " << Name(d.part) << " " << d.offset;
    ExpectAsCommitted();
    ExpectIntact();
    if (!::testing::Test::HasFailure()) model_->Load();
  }

  /// Every byte, time and mode of the data, and every byte of parity, are back; nothing else is there.
  void ExpectAsCommitted() {
    const Image now = ImageOf(model_->directory());
    for (const auto& [path, was] : model_->image()) EXPECT_EQ(now.count(path), 1u) << path << " is missing";
    for (const auto& [path, is] : now) EXPECT_EQ(model_->image().count(path), 1u) << path << " was left behind";
    if (::testing::Test::HasFailure()) return;
    for (const ModelGroup& group : model_->groups()) {
      for (const ModelFile& file : group.files) {
        EXPECT_EQ(Differences({{file.path, file.data}}, {{file.path, now.at(file.path)}}), "");
        EXPECT_EQ(now.at(file.sidecar).mode, model_->image().at(file.sidecar).mode) << file.sidecar;
      }
    }
    const Judgement truth = model_->Judge();
    for (const auto& [key, ranges] : truth.blocks) EXPECT_EQ(Text(Merged(ranges)), " nothing") << key.first;
  }

  void ExpectIntact() {
    const DatasetReport again = Verify(context_, Ref(), {});
    ASSERT_OK(again.status);
    EXPECT_EQ(std::string(Name(again.state)), "intact");
    EXPECT_TRUE(again.damage.empty());
    EXPECT_EQ(again.root, model_->root());
    for (const std::string& warning : again.warnings) ADD_FAILURE() << "warning: " << warning;
  }

  ModelGroup& AnyGroup() { return model_->groups()[Below(rng_, model_->groups().size())]; }
  ModelFile& AnyFile() {
    ModelGroup& group = AnyGroup();
    return group.files[Below(rng_, group.files.size())];
  }

  void RotBlock(const std::string& path, std::uint64_t offset, std::uint64_t length) {
    log_ += fmt::format("rot {} [{}, +{}); ", path, offset, length);
    Rot(rng_, path, offset, length);
  }

  /// Bytes of the blocks of a row, by device.
  struct Place {
    std::string path;
    std::uint64_t offset, length;
  };
  static std::vector<Place> BlocksOf(const ModelGroup& group, const RowId& row) {
    std::vector<Place> out;
    const Layout& layout = group.layout;
    for (std::uint32_t device : layout.group(row.group)) {
      const bool parity = layout.IsParity(device, row.unit_row);
      const BlockPlace place = parity ? layout.ParityBlock(device, row.unit_row, row.slice)
                                      : layout.DataBlock(device, row.unit_row, row.slice);
      if (place.length == 0) continue;
      const ModelFile& file = group.files[parity ? layout.region_of(device) : layout.file_of(device)];
      out.push_back({parity ? file.sidecar : file.path, place.offset + (parity ? file.parity_base : 0), place.length});
    }
    return out;
  }
  std::optional<RowId> AnyRow(const ModelGroup& group) {
    const Layout& layout = group.layout;
    for (int tries = 0; tries < 20; ++tries) {
      RowId row;
      row.group = static_cast<std::uint32_t>(Below(rng_, layout.group_count()));
      row.unit_row = Below(rng_, layout.unit_rows(row.group));
      row.slice = static_cast<std::uint32_t>(Below(rng_, layout.slices()));
      if (layout.unit_rows(row.group) > 0 && layout.RowLength(row) > 0) return row;
    }
    return std::nullopt;
  }

  void RotRow(std::size_t most, bool parity_only) {
    ModelGroup& group = AnyGroup();
    const auto row = AnyRow(group);
    if (!row) return;
    auto places = BlocksOf(group, *row);
    std::shuffle(places.begin(), places.end(), rng_);
    if (parity_only)
      std::erase_if(places, [](const Place& p) { return BaseNameOf(p.path).rfind(kSidecarPrefix, 0) != 0; });
    const std::size_t count = std::min<std::size_t>(places.size(), most);
    for (std::size_t i = 0; i < count; ++i) RotBlock(places[i].path, places[i].offset, places[i].length);
  }

  void RotMetadata(ModelFile& file) {
    if (!Exists(file.sidecar)) return;
    const Ranges& copy = file.metadata[Below(rng_, file.metadata.size())];
    for (std::uint64_t count = 1 + Below(rng_, 3); count > 0; --count) {
      const ByteRange& r = copy[Below(rng_, copy.size())];
      const std::uint64_t at =
          r.offset + Below(rng_, OneIn(rng_, 2) ? std::min<std::uint64_t>(r.length, 64) : r.length);
      const std::uint64_t length = OneIn(rng_, 3) ? r.offset + r.length - at : 1;
      RotBlock(file.sidecar, at, length);
    }
  }

  void Lose(const std::string& path) {
    log_ += "lose " + path + "; ";
    std::filesystem::remove(path);
  }

  void Cut(const std::string& path, std::uint64_t size) {
    log_ += fmt::format("cut {} to {}; ", path, size);
    const std::int64_t mtime = MtimeOf(path);
    Truncate(path, size);
    SetMtime(path, mtime);
  }

  void Grow(const std::string& path, const Bytes& bytes) {
    log_ += fmt::format("append {} to {}; ", bytes.size(), path);
    const std::int64_t mtime = MtimeOf(path);
    WriteAt(path, ReadFile(path).size(), bytes);
    SetMtime(path, mtime);
  }

  /// All of one device, in some way.
  void SpoilDevice(ModelGroup& group, std::uint32_t device) {
    if (model_->sample().kind == DatasetKind::kShared) {
      const Layout& layout = group.layout;
      for (std::uint64_t t = 0; t < layout.unit_rows(layout.group_of(device)); ++t) {
        for (std::uint32_t slice = 0; slice < layout.slices(); ++slice) {
          const bool parity = layout.IsParity(device, t);
          const BlockPlace place = parity ? layout.ParityBlock(device, t, slice) : layout.DataBlock(device, t, slice);
          if (place.length == 0 || OneIn(rng_, 8)) continue;
          RotBlock(parity ? group.files[0].sidecar : group.files[0].path,
                   place.offset + (parity ? group.files[0].parity_base : 0), place.length);
        }
      }
      return;
    }
    ModelFile& file = group.files[device];
    const std::uint64_t size = file.data.bytes.size();
    switch (Below(rng_, 8)) {
      case 0:
        Lose(file.path);
        break;
      case 1:
        Lose(file.sidecar);
        break;
      case 2:
        Lose(file.path);
        Lose(file.sidecar);
        // With node-local disks the directory may be new and empty, or not there at all.
        if (DirectoryOf(file.path) != model_->directory() && OneIn(rng_, 2))
          std::filesystem::remove(DirectoryOf(file.path));
        break;
      case 3:
        if (size > 0) Cut(file.path, Below(rng_, size));
        break;
      case 4:
        Grow(file.path, RandomBytes(rng_, 1 + Below(rng_, 5000)));
        if (OneIn(rng_, 2)) RotBlock(file.path, Below(rng_, size), 1 + Below(rng_, size));
        break;
      case 5:
        RotBlock(file.path, 0, size);
        if (OneIn(rng_, 2)) Lose(file.sidecar);
        break;
      case 6:
        RotBlock(file.path, Below(rng_, size), 1 + Below(rng_, size));
        RotParity(file);
        break;
      default:
        // Its parity is cut off.
        file.parity_is_last ? Cut(file.sidecar, file.parity_base) : RotParity(file);
        break;
    }
  }

  void RotParity(const ModelFile& file) {
    if (file.parity_is_last || file.parity_size > 0) {
      RotBlock(file.sidecar, file.parity_base, file.parity_is_last ? file.sidecar_bytes.size() : file.parity_size);
    }
  }

  void SpoilDevices(std::size_t most, bool metadata_too) {
    for (ModelGroup& group : model_->groups()) {
      if (model_->groups().size() > 1 && OneIn(rng_, 3)) continue;
      std::vector<std::uint32_t> devices = group.layout.group(0);
      std::shuffle(devices.begin(), devices.end(), rng_);
      const std::size_t count = std::min<std::size_t>(devices.size(), 1 + Below(rng_, most));
      for (std::size_t i = 0; i < count && most > 0; ++i) SpoilDevice(group, devices[i]);
      if (metadata_too) RotMetadata(group.files[Below(rng_, group.files.size())]);
    }
  }

  void Burst() {
    ModelGroup& group = AnyGroup();
    ModelFile& file = group.files[Below(rng_, group.files.size())];
    const std::uint64_t size = file.data.bytes.size();
    std::uint64_t most = size;
    // docs/format.md "Geometry": a burst of so many bytes costs no row more than m blocks.
    if (model_->sample().kind == DatasetKind::kShared)
      most = model_->parity() * group.layout.unit() - group.layout.block_size() + 1;
    if (size == 0 || most == 0 || model_->parity() == 0) return;
    const std::uint64_t at = Below(rng_, size);
    RotBlock(file.path, at, std::min(most, size - at));
  }

  void CutTail() {
    ModelGroup& group = AnyGroup();
    ModelFile& file = group.files[Below(rng_, group.files.size())];
    const std::uint64_t size = file.data.bytes.size();
    std::uint64_t most = size;
    if (model_->sample().kind == DatasetKind::kShared)
      most = model_->parity() * group.layout.unit() - group.layout.block_size() + 1;
    if (size > 0 && most > 0 && model_->parity() > 0) Cut(file.path, size - 1 - Below(rng_, std::min(most, size)));
  }

  void Swap() {
    ModelFile &a = AnyFile(), &b = AnyFile();
    const std::uint64_t block = model_->groups()[0].layout.block_size();
    const std::uint64_t blocks_a = a.data.bytes.size() / block, blocks_b = b.data.bytes.size() / block;
    if (blocks_a == 0 || blocks_b == 0) return;
    const std::uint64_t i = Below(rng_, blocks_a) * block, j = Below(rng_, blocks_b) * block;
    log_ += fmt::format("swap {} {} with {} {}; ", a.path, i, b.path, j);
    const auto cut = [&](const ModelFile& f, std::uint64_t at) {
      return Bytes(f.data.bytes.begin() + static_cast<std::ptrdiff_t>(at),
                   f.data.bytes.begin() + static_cast<std::ptrdiff_t>(at + block));
    };
    const Bytes from_a = cut(a, i), from_b = cut(b, j);
    const std::int64_t mtime_a = MtimeOf(a.path), mtime_b = MtimeOf(b.path);
    WriteAt(a.path, i, from_b);
    WriteAt(b.path, j, from_a);
    SetMtime(a.path, mtime_a);
    SetMtime(b.path, mtime_b);
  }

  void Apply(int kind) {
    const std::uint32_t m = model_->parity();
    switch (kind) {
      case 0:
        for (std::uint64_t rows = 1 + Below(rng_, 4); rows > 0; --rows) RotRow(1 + Below(rng_, m), false);
        break;
      case 1:
        RotRow(1 + Below(rng_, m), true);
        break;
      case 2:
        RotMetadata(AnyFile());
        break;
      case 3:
        SpoilDevices(m, false);
        break;
      case 4:
        CutTail();
        break;
      case 5: {
        ModelFile& file = AnyFile();
        Grow(file.path, OneIn(rng_, 2) ? Bytes(1 + Below(rng_, 100000), 0) : RandomBytes(rng_, 1 + Below(rng_, 3000)));
        break;
      }
      case 6:
        Swap();
        break;
      case 7:
        Burst();
        break;
      case 8:
        RotRow(m + 1 + Below(rng_, 2), false);
        break;
      case 9:
        SpoilDevices(m + 1, true);
        break;
      case 10:
        SpoilDevices(m, true);
        break;
      default:
        break;
    }
  }

  Rng& rng_;
  std::unique_ptr<Communicator> comm_;
  const Options options_;
  const Context context_;
  std::optional<Model> model_;
  std::string log_;
};

/// 1,100 damages in all, in parts that may run beside each other.
class DamageCampaign : public ::testing::TestWithParam<int> {};

TEST_P(DamageCampaign, EveryDamageIsNamedAndMended) {
  const std::uint64_t seed = SeedOf(20250101) + static_cast<std::uint64_t>(GetParam()) * 1000003;
  const std::uint64_t datasets = RoundsOf(25);
  std::uint64_t damages = 0;
  for (std::uint64_t i = 0; i < datasets && !HasFailure(); ++i) {
    SCOPED_TRACE(fmt::format("part {}, dataset {}", GetParam(), i));
    Rng rng(seed + i);
    Scratch scratch;
    Campaign campaign(rng, scratch.path(), MakeSample(rng, scratch.path()));
    for (int round = 0; round < 11 && !HasFailure(); ++round, ++damages) {
      SCOPED_TRACE(fmt::format("round {}", round));
      campaign.Round(round);
    }
    if (!HasFailure()) campaign.Stale();
    if (!HasFailure()) campaign.StaleAndDamaged();
    damages += 2;
  }
  RecordProperty("damages", std::to_string(damages));
}

INSTANTIATE_TEST_SUITE_P(Parts, DamageCampaign, ::testing::Range(0, 4));

}  // namespace
}  // namespace lzy::testing
