#include "random_damage.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "sidecar/names.h"

namespace lzy::testing {

ModelGroup& RandomDamage::AnyGroup() {
  return model_.groups()[Below(rng_, model_.groups().size())];
}

ModelFile& RandomDamage::AnyFile() {
  ModelGroup& group = AnyGroup();
  return group.files[Below(rng_, group.files.size())];
}

void RandomDamage::RotBlock(const std::string& path, std::uint64_t offset, std::uint64_t length) {
  log_ += fmt::format("rot {} [{}, +{}); ", path, offset, length);
  Rot(rng_, path, offset, length);
}

std::vector<RandomDamage::Place> RandomDamage::BlocksOf(const ModelGroup& group, const RowId& row) {
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

std::optional<RowId> RandomDamage::AnyRow(const ModelGroup& group) {
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

void RandomDamage::RotRow(std::size_t most, bool parity_only) {
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

void RandomDamage::RotMetadata(ModelFile& file) {
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

void RandomDamage::RotParity(const ModelFile& file) {
  if (file.parity_is_last || file.parity_size > 0) {
    RotBlock(file.sidecar, file.parity_base, file.parity_is_last ? file.sidecar_bytes.size() : file.parity_size);
  }
}

void RandomDamage::Lose(const std::string& path) {
  log_ += "lose " + path + "; ";
  std::filesystem::remove(path);
}

void RandomDamage::Cut(const std::string& path, std::uint64_t size) {
  log_ += fmt::format("cut {} to {}; ", path, size);
  const std::int64_t mtime = MtimeOf(path);
  Truncate(path, size);
  SetMtime(path, mtime);
}

// By half at most: a file of which most is new would be another one.
void RandomDamage::Grow(const std::string& path, Bytes bytes) {
  bytes.resize(std::min<std::size_t>(bytes.size(), ReadFile(path).size() / 2));
  log_ += fmt::format("append {} to {}; ", bytes.size(), path);
  const std::int64_t mtime = MtimeOf(path);
  WriteAt(path, ReadFile(path).size(), bytes);
  SetMtime(path, mtime);
}

void RandomDamage::SpoilDevice(ModelGroup& group, std::uint32_t device) {
  if (model_.sample().kind == DatasetKind::kShared) {
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
      if (DirectoryOf(file.path) != model_.directory() && OneIn(rng_, 2))
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

void RandomDamage::SpoilDevices(std::size_t most, bool metadata_too) {
  for (ModelGroup& group : model_.groups()) {
    if (model_.groups().size() > 1 && OneIn(rng_, 3)) continue;
    std::vector<std::uint32_t> devices = group.layout.group(0);
    std::shuffle(devices.begin(), devices.end(), rng_);
    const std::size_t count = std::min<std::size_t>(devices.size(), 1 + Below(rng_, most));
    for (std::size_t i = 0; i < count && most > 0; ++i) SpoilDevice(group, devices[i]);
    if (metadata_too) RotMetadata(group.files[Below(rng_, group.files.size())]);
  }
}

std::uint64_t RandomDamage::LongestBurst(const ModelGroup& group, std::uint64_t size) const {
  // docs/format.md "Geometry": a burst of so many bytes costs no row more than m blocks.
  if (model_.sample().kind == DatasetKind::kSet) return size;
  return model_.parity() * group.layout.unit() - group.layout.block_size() + 1;
}

void RandomDamage::Burst() {
  ModelGroup& group = AnyGroup();
  ModelFile& file = group.files[Below(rng_, group.files.size())];
  const std::uint64_t size = file.data.bytes.size();
  const std::uint64_t most = LongestBurst(group, size);
  if (size == 0 || most == 0 || model_.parity() == 0) return;
  const std::uint64_t at = Below(rng_, size);
  RotBlock(file.path, at, std::min(most, size - at));
}

void RandomDamage::CutTail() {
  ModelGroup& group = AnyGroup();
  ModelFile& file = group.files[Below(rng_, group.files.size())];
  const std::uint64_t size = file.data.bytes.size();
  const std::uint64_t most = LongestBurst(group, size);
  if (size > 0 && most > 0 && model_.parity() > 0) Cut(file.path, size - 1 - Below(rng_, std::min(most, size)));
}

void RandomDamage::Swap() {
  ModelFile &a = AnyFile(), &b = AnyFile();
  const std::uint64_t block = model_.groups()[0].layout.block_size();
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

void RandomDamage::Apply(int kind) {
  const std::uint32_t m = model_.parity();
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

}  // namespace lzy::testing
