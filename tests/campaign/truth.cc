#include "campaign/truth.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "sidecar/contents.h"

namespace lzy::campaign {
namespace {

bool Overlap(const Interval& a, const Interval& b) {
  return a.begin < b.end && b.begin < a.end;
}
bool OverlapsAny(const Interval& one, const std::vector<Interval>& many) {
  return std::any_of(many.begin(), many.end(), [&](const Interval& other) { return Overlap(one, other); });
}

std::optional<Superblock> SuperblockAt(const Bytes& sidecar, std::uint64_t offset, std::uint32_t copy) {
  if (sidecar.size() < offset) return std::nullopt;
  auto superblock = DecodeSuperblock(ByteSpan(sidecar).subspan(offset), copy);
  return superblock.ok() ? std::optional(*superblock) : std::nullopt;
}

std::string Text(const std::vector<Interval>& intervals) {
  std::string out;
  for (const Interval& i : intervals) out += fmt::format(" [{}, +{})", i.begin, i.end - i.begin);
  return out.empty() ? " nothing" : out;
}

std::string TextOf(const std::set<std::string>& names) {
  return names.empty() ? "nothing" : fmt::format("{}", fmt::join(names, " "));
}

}  // namespace

Losses NamedIn(const DatasetReport& report) {
  Losses named;
  for (const lzy::Damage& d : report.damage) {
    if (d.length == 0) {
      (d.part == DamagePart::kData ? named.empty : named.sidecars).insert(d.path);
    } else if (d.part != DamagePart::kMetadata) {
      named.blocks[{d.path, d.part, d.beyond_repair}].push_back({d.offset, d.offset + d.length});
    }
  }
  for (auto& [place, intervals] : named.blocks) SortAndJoin(intervals);
  return named;
}

std::string Differences(const Losses& truth, const Losses& named) {
  std::string out;
  std::set<Losses::Place> places;
  for (const auto& [place, intervals] : truth.blocks) places.insert(place);
  for (const auto& [place, intervals] : named.blocks) places.insert(place);
  for (const Losses::Place& place : places) {
    const auto is = truth.blocks.find(place), said = named.blocks.find(place);
    const std::vector<Interval> none;
    const auto& a = is == truth.blocks.end() ? none : is->second;
    const auto& b = said == named.blocks.end() ? none : said->second;
    if (a == b) continue;
    out += fmt::format("; of {} {}{} lost{}, named{}", std::get<0>(place), Name(std::get<1>(place)),
                       std::get<2>(place) ? " beyond repair" : "", Text(a), Text(b));
  }
  if (truth.empty != named.empty)
    out += fmt::format("; empty files missing: {}, named: {}", TextOf(truth.empty), TextOf(named.empty));
  if (truth.sidecars != named.sidecars)
    out += fmt::format("; sidecars missing: {}, named: {}", TextOf(truth.sidecars), TextOf(named.sidecars));
  return out;
}

// ----------------------------------------------------------------------------------------------------------- commits

Status Truth::Take(const Root& root) {
  committed_ = world_.fs.Copy();
  if (old_.empty()) old_ = committed_;
  versions_[root] = committed_;
  root_ = root;
  written_.clear();
  groups_.clear();
  files_.resize(world_.paths.size());
  std::map<std::vector<std::size_t>, std::size_t> known;
  for (std::size_t f = 0; f < files_.size(); ++f) LZY_RETURN_IF_ERROR(TakeFile(f, known));
  return Status::Ok();
}

Status Truth::TakeFile(std::size_t f, std::map<std::vector<std::size_t>, std::size_t>& known) {
  testing::MemoryFileSystem files;
  files.Put(world_.SidecarOf(f), committed_.at(world_.SidecarOf(f)).bytes);
  LZY_ASSIGN_OR_RETURN(const auto sidecar, Sidecar::Load(files, world_.SidecarOf(f), OpenMode::kRead));
  const SidecarContents& contents = sidecar->contents();
  File& file = files_[f];
  const bool first = file.superblock.generation == 0;
  file.superblock = contents.superblock;
  file.parity_base = sidecar->ParityFileOffset(0);
  if (first) file.old_parity_base = file.parity_base;
  file.copies.clear();
  const Superblock& sb = contents.superblock;
  for (std::uint32_t c = 0; c < sb.copies; ++c) {
    const auto copy = SuperblockAt(committed_.at(world_.SidecarOf(f)).bytes, sb.PlaceOf(c), c);
    if (!copy) return {Code::kCorrupt, fmt::format("{}: copy {} is not whole after a commit", world_.SidecarOf(f), c)};
    auto& ranges = file.copies.emplace_back();
    ranges.push_back({sb.PlaceOf(c), sb.PlaceOf(c) + sb.bytes()});
    for (const Extent& e : copy->extents) {
      if (e.kind == ExtentKind::kIntent) file.intents = {e.offset, e.offset + e.length};
      if (e.kind == ExtentKind::kParity || e.kind == ExtentKind::kIntent || e.length == 0) continue;
      ranges.push_back({e.offset, e.offset + e.length});
    }
  }
  std::vector<std::size_t> members{0};
  if (world_.IsSet()) members.assign(contents.info.groups[0].begin(), contents.info.groups[0].end());
  if (!known.emplace(members, groups_.size()).second) return Status::Ok();
  LZY_ASSIGN_OR_RETURN(Layout layout, LayoutOf(contents));
  groups_.push_back({members, std::move(layout)});
  return Status::Ok();
}

Status Truth::TakeRepaired() {
  const Files was = committed_;
  const std::vector<File> files = files_;
  LZY_RETURN_IF_ERROR(Take(root_));
  for (const Group& group : groups_) {
    for (std::uint32_t region = 0; region < group.layout.regions(); ++region) {
      const std::size_t f = group.files[region];
      const std::string path = world_.SidecarOf(f);
      const Bytes &then = was.at(path).bytes, &now = committed_.at(path).bytes;
      for (std::uint64_t i = 0; i < group.layout.parity_blocks(region); ++i) {
        const Layout::DeviceRow at = group.layout.LocateParity(region, i);
        const BlockPlace place = group.layout.ParityBlock(at.device, at.row.unit_row, at.row.slice);
        const auto part = [&](const Bytes& bytes, std::uint64_t base) {
          return base + place.offset + place.length > bytes.size()
                     ? ByteSpan()
                     : ByteSpan(bytes).subspan(base + place.offset, place.length);
        };
        const ByteSpan a = part(then, files[f].parity_base), b = part(now, files_[f].parity_base);
        if (!std::equal(a.begin(), a.end(), b.begin(), b.end()))
          return {Code::kCorrupt, fmt::format("{}: parity at {} is another", path, place.offset)};
      }
    }
  }
  return Status::Ok();
}

const Files* Truth::Version(const Root& root) const {
  const auto at = versions_.find(root);
  return at == versions_.end() ? nullptr : &at->second;
}

// ------------------------------------------------------------------------------------------------------- what is there

bool Truth::Same(const std::string& path, std::uint64_t offset, std::uint64_t length) const {
  if (!world_.fs.Has(path)) return false;
  const Bytes& was = committed_.at(path).bytes;
  const Node& node = world_.At(path);
  for (const auto& [at, count] : node.unreadable) {
    if (at < offset + length && offset < at + count && at < node.bytes.size()) return false;
  }
  if (node.bytes.size() < offset + length) return false;
  return std::equal(was.begin() + static_cast<std::ptrdiff_t>(offset),
                    was.begin() + static_cast<std::ptrdiff_t>(offset + length),
                    node.bytes.begin() + static_cast<std::ptrdiff_t>(offset));
}

bool Truth::DataAreRight() const {
  return std::all_of(world_.paths.begin(), world_.paths.end(), [&](const std::string& path) {
    const std::uint64_t size = committed_.at(path).bytes.size();
    return world_.fs.Has(path) && world_.At(path).bytes.size() == size && Same(path, 0, size);
  });
}

bool Truth::IsOld(std::size_t file) const {
  if (!world_.HasSidecar(file)) return false;
  const auto now = SuperblockAt(world_.SidecarFile(file).bytes, 0, 0);
  return now && now->generation != files_[file].superblock.generation;
}

// File and sidecar are as at the first commit.
bool Truth::IsWhatItWas(std::size_t file) const {
  if (!world_.HasData(file) || !world_.HasSidecar(file)) return false;
  const Node &now = world_.Data(file), &was = old_.at(world_.paths[file]);
  return now.bytes == was.bytes && now.stat.mtime_ns == was.stat.mtime_ns && now.unreadable.empty() &&
         world_.SidecarFile(file).bytes == old_.at(world_.SidecarOf(file)).bytes;
}

// Nothing but what some copy of the metadata has whole counts. (The engine puts more together, page by page.)
bool Truth::HasUsableSidecar(std::size_t file) const {
  if (!world_.HasSidecar(file) || IsOld(file)) return false;
  const auto hits = HitsByCopy(file);
  return std::any_of(hits.begin(), hits.end(), [](const auto& copy) { return copy.empty(); });
}

// Where parity lies by what the sidecar says that is there.
std::uint64_t Truth::ParityBaseNow(std::size_t file) const {
  if (!world_.HasSidecar(file)) return 0;
  return IsOld(file) ? files_[file].old_parity_base : files_[file].parity_base;
}

bool Truth::SomethingIsMissing() const {
  for (std::size_t f = 0; f < files_.size(); ++f) {
    if (!world_.HasData(f) || !world_.HasSidecar(f) || IsOld(f)) return true;
  }
  return false;
}

bool Truth::IsPlain() const {
  bool something_is_known = false;
  for (std::size_t f = 0; f < files_.size(); ++f) {
    if (!FileIsPlain(f)) return false;
    something_is_known |= HasUsableSidecar(f);
  }
  return something_is_known;
}

bool Truth::FileIsPlain(std::size_t f) const {
  if (written_.contains(f)) return false;
  // Of a set it is told by its generation, and both are made again; but only if the file is no edit.
  if (IsOld(f)) return world_.IsSet() && IsWhatItWas(f);
  if (world_.HasSidecar(f) && !HasUsableSidecar(f)) return false;
  if (!world_.HasData(f)) return true;
  const Node &node = world_.Data(f), &was = committed_.at(world_.paths[f]);
  // A sector that is bad stays so if but a part of it is written, as at the end of a file that is too long.
  if (node.bytes.size() > was.bytes.size() && !node.unreadable.empty()) return false;
  return node.stat.mtime_ns == was.stat.mtime_ns;
}

bool Truth::IsKnown(const Group& group) const {
  return std::any_of(group.files.begin(), group.files.end(), [&](std::size_t f) { return HasUsableSidecar(f); });
}

Losses Truth::Find() const {
  Losses losses;
  for (const Group& group : groups_) {
    if (IsKnown(group)) {
      FindIn(group, losses);
      continue;
    }
    // Nothing says any more what the group was like: what is missing of it is named as a whole.
    for (const std::size_t f : group.files) {
      if (world_.HasData(f)) {
        losses.unjudged = true;
        continue;
      }
      losses.empty.insert(world_.paths[f]);
      losses.worst_row = std::numeric_limits<std::size_t>::max();
    }
    losses.unknown_group = true;
  }
  for (auto& [place, intervals] : losses.blocks) SortAndJoin(intervals);
  return losses;
}

void Truth::FindIn(const Group& group, Losses& losses) const {
  const Layout& layout = group.layout;
  for (std::uint32_t g = 0; g < layout.group_count(); ++g) {
    for (std::uint64_t row = 0; row < layout.unit_rows(g); ++row) {
      for (std::uint32_t slice = 0; slice < layout.slices(); ++slice) FindInRow(group, g, row, slice, losses);
    }
  }
  for (const std::size_t f : group.files) {
    const std::uint64_t size = committed_.at(world_.paths[f]).bytes.size();
    if (!world_.HasData(f) && size == 0) losses.empty.insert(world_.paths[f]);
    if (!world_.HasSidecar(f) || IsOld(f)) losses.sidecars.insert(world_.SidecarOf(f));
    if (world_.HasData(f) && world_.Data(f).bytes.size() > size) {
      losses.blocks[{world_.paths[f], DamagePart::kData, false}].push_back({size, world_.Data(f).bytes.size()});
    }
  }
}

void Truth::FindInRow(const Group& group, std::uint32_t g, std::uint64_t row, std::uint32_t slice,
                      Losses& losses) const {
  const Layout& layout = group.layout;
  std::vector<std::uint32_t> lost;
  for (const std::uint32_t device : layout.group(g)) {
    if (IsLost(group, device, row, slice)) lost.push_back(device);
  }
  losses.worst_row = std::max(losses.worst_row, lost.size());
  for (const std::uint32_t device : lost) {
    const bool parity = layout.IsParity(device, row);
    const std::size_t f = group.files[parity ? layout.region_of(device) : layout.file_of(device)];
    const BlockPlace place = parity ? layout.ParityBlock(device, row, slice) : layout.DataBlock(device, row, slice);
    const std::uint64_t begin = place.offset + (parity ? ParityBaseNow(f) : 0);
    losses.blocks[{parity ? world_.SidecarOf(f) : world_.paths[f], parity ? DamagePart::kParity : DamagePart::kData,
                   lost.size() > layout.parity()}]
        .push_back({begin, begin + place.length});
  }
}

bool Truth::IsLost(const Group& group, std::uint32_t device, std::uint64_t row, std::uint32_t slice) const {
  const Layout& layout = group.layout;
  const bool parity = layout.IsParity(device, row);
  const std::size_t f = group.files[parity ? layout.region_of(device) : layout.file_of(device)];
  const BlockPlace place = parity ? layout.ParityBlock(device, row, slice) : layout.DataBlock(device, row, slice);
  if (place.length == 0) return false;
  if (!HasUsableSidecar(f)) {
    // Without leaves a file proves itself as a whole, or not at all.
    return parity || !Same(world_.paths[f], 0, committed_.at(world_.paths[f]).bytes.size());
  }
  return parity ? !Same(world_.SidecarOf(f), files_[f].parity_base + place.offset, place.length)
                : !Same(world_.paths[f], place.offset, place.length);
}

// ------------------------------------------------------------------------------------------------------------ metadata

std::vector<Interval> Truth::Hits(std::size_t file, const std::vector<Interval>& ranges) const {
  const Bytes &now = world_.SidecarFile(file).bytes, &was = committed_.at(world_.SidecarOf(file)).bytes;
  std::vector<Interval> hits;
  for (const Interval& range : ranges) {
    const bool here = range.end <= now.size() && range.end <= was.size();
    if (here && std::equal(now.begin() + static_cast<std::ptrdiff_t>(range.begin),
                           now.begin() + static_cast<std::ptrdiff_t>(range.end),
                           was.begin() + static_cast<std::ptrdiff_t>(range.begin)))
      continue;
    for (std::uint64_t at = range.begin; at < range.end; ++at) {
      if (at >= now.size() || at >= was.size() || now[at] != was[at]) hits.push_back({at, at + 1});
    }
  }
  SortAndJoin(hits);
  return hits;
}

std::vector<std::vector<Interval>> Truth::HitsByCopy(std::size_t file) const {
  std::vector<std::vector<Interval>> hits;
  for (const auto& ranges : files_[file].copies) hits.push_back(Hits(file, ranges));
  return hits;
}

// A page without anything is as good as one with an intent of the past.
std::vector<Interval> Truth::HitsOfIntents(std::size_t file) const {
  const Bytes& now = world_.SidecarFile(file).bytes;
  std::vector<Interval> hits;
  for (std::uint64_t at = files_[file].intents.begin; at < files_[file].intents.end; at += kIntentPageSize) {
    const std::uint64_t end = std::min<std::uint64_t>(at + kIntentPageSize, now.size());
    const bool empty = at >= end || std::all_of(now.begin() + static_cast<std::ptrdiff_t>(at),
                                                now.begin() + static_cast<std::ptrdiff_t>(end),
                                                [](std::uint8_t byte) { return byte == 0; });
    if (empty) continue;
    for (const Interval& hit : Hits(file, {{at, at + kIntentPageSize}})) hits.push_back(hit);
  }
  return hits;
}

bool Truth::CanBeRead(const std::string& sidecar, const Files& files) {
  testing::MemoryFileSystem fs;
  fs.Put(sidecar, files.at(sidecar).bytes);
  return Sidecar::Load(fs, sidecar, OpenMode::kRead).ok();
}

bool Truth::MetadataAreHit() const {
  for (std::size_t f = 0; f < files_.size(); ++f) {
    if (!HasUsableSidecar(f)) continue;
    const auto hits = HitsByCopy(f);
    if (std::any_of(hits.begin(), hits.end(), [](const auto& copy) { return !copy.empty(); })) return true;
    if (!HitsOfIntents(f).empty()) return true;
  }
  return false;
}

std::string Truth::Misnamed(const DatasetReport& report) const {
  std::map<std::string, std::vector<Interval>> named;
  for (const lzy::Damage& d : report.damage) {
    if (d.part == DamagePart::kMetadata && d.length > 0) named[d.path].push_back({d.offset, d.offset + d.length});
  }
  for (std::size_t f = 0; f < files_.size(); ++f) {
    const std::vector<Interval> of_file = named[world_.SidecarOf(f)];
    named.erase(world_.SidecarOf(f));
    if (!HasUsableSidecar(f)) continue;
    if (std::string wrong = MisnamedOf(f, of_file); !wrong.empty()) return wrong;
  }
  for (const auto& [path, intervals] : named) {
    if (!intervals.empty()) return "metadata are named of " + path;
  }
  return "";
}

std::string Truth::MisnamedOf(std::size_t f, const std::vector<Interval>& named) const {
  std::vector<Interval> all = HitsOfIntents(f);
  for (const Interval& hit : all) {
    if (!OverlapsAny(hit, named))
      return fmt::format("{}: bytes{} of intents changed, named{}", world_.SidecarOf(f), Text({hit}), Text(named));
  }
  const auto hits = HitsByCopy(f);
  for (std::size_t c = 0; c < hits.size(); ++c) {
    // Where a superblock is lost, nothing else of its copy can be looked at.
    const bool superblock = OverlapsAny(files_[f].copies[c][0], named);
    for (const Interval& hit : hits[c]) {
      all.push_back(hit);
      if (!superblock && !OverlapsAny(hit, named))
        return fmt::format("{}: bytes{} of copy {} changed, named{}", world_.SidecarOf(f), Text({hit}), c, Text(named));
    }
  }
  for (const Interval& one : named) {
    if (OverlapsAny(one, all)) continue;
    return fmt::format("{}: metadata{} named for nothing", world_.SidecarOf(f), Text({one}));
  }
  return "";
}

void Truth::NoteWritten(const Files& before) {
  for (std::size_t f = 0; f < files_.size(); ++f) {
    if (!world_.HasSidecar(f)) continue;
    const auto was = before.find(world_.SidecarOf(f));
    if (was != before.end() && was->second.bytes == world_.SidecarFile(f).bytes) continue;
    const auto hits = HitsByCopy(f);
    const bool as_committed = std::all_of(hits.begin(), hits.end(), [](const auto& copy) { return copy.empty(); });
    if (!as_committed || !HitsOfIntents(f).empty()) written_.insert(f);
  }
}

}  // namespace lzy::campaign
