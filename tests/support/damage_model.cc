#include "damage_model.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "dataset/view.h"
#include "sidecar/contents.h"
#include "sidecar/names.h"
#include "sidecar/sidecar.h"
#include "status_matchers.h"

namespace lzy::testing {
namespace {

void AddRange(Ranges& ranges, std::uint64_t offset, std::uint64_t length) {
  if (length > 0) ranges.push_back({offset, length});
}

bool Same(const Bytes& now, const Bytes& was, std::uint64_t offset, std::uint64_t length) {
  return now.size() >= offset + length && std::equal(was.begin() + static_cast<std::ptrdiff_t>(offset),
                                                     was.begin() + static_cast<std::ptrdiff_t>(offset + length),
                                                     now.begin() + static_cast<std::ptrdiff_t>(offset));
}

// Bytes of the metadata that are not what they were.
void JudgeMetadata(const ModelFile& file, const Bytes& sidecar, Judgement& out) {
  for (const Ranges& copy : file.metadata) {
    for (const ByteRange& r : copy) {
      for (std::uint64_t b = r.offset; b < r.offset + r.length; ++b) {
        if (b < sidecar.size() && sidecar[b] == file.sidecar_bytes[b]) continue;
        AddRange(out.metadata_hits[file.sidecar], b, 1);
        out.anything = true;
      }
    }
  }
}

void JudgeGroup(const ModelGroup& group, Judgement& out) {
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
    if (has_sidecar) JudgeMetadata(file, sidecar, out);
  }
}

}  // namespace

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

void DamageModel::Load() {
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

Judgement DamageModel::Judge() const {
  Judgement out;
  for (const ModelGroup& group : groups_) JudgeGroup(group, out);
  return out;
}

namespace {

bool Overlap(const ByteRange& a, const ByteRange& b) {
  return a.offset < b.offset + b.length && b.offset < a.offset + a.length;
}

// `metadata`: what the report names, by sidecar. All hits are named, and nothing else is.
void ExpectMetadataNamed(std::map<std::string, Ranges>& metadata, const Judgement& truth, const DamageModel& model) {
  for (const auto& [path, hits] : truth.metadata_hits) {
    const ModelFile* file = nullptr;
    for (const ModelGroup& group : model.groups()) {
      for (const ModelFile& one : group.files) file = one.sidecar == path ? &one : file;
    }
    ASSERT_NE(file, nullptr);
    for (const ByteRange& hit : hits) {
      // Where a superblock is lost, nothing else of its copy can be looked at.
      bool found = false;
      for (const ByteRange& r : metadata[path]) found = found || Overlap(r, hit);
      for (const Ranges& copy : file->metadata) {
        const bool here = std::any_of(copy.begin(), copy.end(), [&](const ByteRange& r) { return Overlap(r, hit); });
        for (const ByteRange& r : metadata[path]) found = found || (here && Overlap(r, copy[0]));
      }
      EXPECT_TRUE(found) << path << ": byte " << hit.offset << " of the metadata changed and nobody says so";
    }
  }
  for (const auto& [path, ranges] : metadata) {
    const auto at = truth.metadata_hits.find(path);
    for (const ByteRange& r : ranges) {
      const bool hit =
          at != truth.metadata_hits.end() &&
          std::any_of(at->second.begin(), at->second.end(), [&](const ByteRange& b) { return Overlap(r, b); });
      EXPECT_TRUE(hit) << path << ": metadata [" << r.offset << ", +" << r.length << ") named for nothing";
    }
  }
}

}  // namespace

void ExpectNamed(const DatasetReport& report, const Judgement& truth, const DamageModel& model,
                 std::optional<DamageCause> data_cause) {
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

  ExpectMetadataNamed(metadata, truth, model);
}

}  // namespace lzy::testing
