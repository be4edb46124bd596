#include "dataset/member.h"
#include "fuzz/targets.h"
#include "sidecar/sidecar_format.h"

namespace lzy::fuzz {
namespace {

enum Kind : std::uint8_t { kSuperblock, kInfo, kIntent, kSummary, kKinds };

/// Page with the hash that the format asks for, so that the fields behind it are looked at.
Input Sealed(ByteSpan bytes, HashTag tag, std::uint64_t index) {
  Input page(bytes.begin(), bytes.end());
  const bool compact = tag == HashTag::kSuperblock && page.size() > 32 && (page[32] & 4) != 0;
  page.resize(compact ? kCompactSuperblockSize : kSuperblockSize, 0);
  const Hash hash = HashBytes(tag, index, ByteSpan(page).first(page.size() - sizeof(Hash)));
  std::copy(hash.bytes.begin(), hash.bytes.end(), page.end() - sizeof(Hash));
  return page;
}

void CheckSuperblock(ByteSpan bytes) {
  const auto superblock = DecodeSuperblock(Sealed(bytes, HashTag::kSuperblock, 0), 0);
  if (!superblock.ok()) return;
  (void)CheckExtents(*superblock);
  const Input encoded = EncodeSuperblock(*superblock);
  const auto again = DecodeSuperblock(encoded, 0);
  Require(again.ok() && EncodeSuperblock(*again) == encoded,
          "a superblock that was read can be written and read again");
}

void CheckInfo(ByteSpan bytes) {
  const auto info = DecodeInfo(bytes);
  if (!info.ok()) return;
  const Input encoded = EncodeInfo(*info);
  const auto again = DecodeInfo(encoded);
  Require(again.ok() && EncodeInfo(*again) == encoded, "an info record that was read can be written and read again");
}

void CheckIntent(ByteSpan bytes) {
  const auto intent = DecodeIntent(Sealed(bytes, HashTag::kIntent, 0), 0);
  if (!intent.ok()) return;
  Require(intent->ranges.size() <= kMaxIntentRanges, "an intent has no more ranges than it may");
  Require(DecodeIntent(EncodeIntent(*intent, 0), 0).ok(), "an intent that was read can be written and read again");
}

void CheckSummary(ByteSpan bytes) {
  ByteReader reader(bytes);
  while (reader.ok() && reader.remaining() > 0) {
    Summary summary;
    GetRecord(reader, summary);
    if (!reader.ok()) return;
    const Input encoded = EncodeRecord(summary);
    const auto again = DecodeRecord<Summary>(encoded);
    Require(again.ok() && EncodeRecord(*again) == encoded, "a summary that was read can be written and read again");
  }
}

void Run(const std::uint8_t* bytes, std::size_t size) {
  if (size == 0 || size > (1u << 20)) return;
  const ByteSpan rest(bytes + 1, size - 1);
  switch (bytes[0] % kKinds) {
    case kSuperblock:
      return CheckSuperblock(rest);
    case kInfo:
      return CheckInfo(rest);
    case kIntent:
      return CheckIntent(rest);
    default:
      return CheckSummary(rest);
  }
}

std::vector<Input> Seeds() {
  Superblock superblock;
  superblock.generation = 3;
  superblock.block_size = 4096;
  superblock.unit = 16384;
  superblock.parity = 1;
  superblock.members = superblock.largest_group = 4;
  superblock.stamp.size = 100'000;
  superblock.parity_size = 40'000;
  superblock.parity_stride = 16384;
  superblock.extents = {{ExtentKind::kInfo, 0, 0, 4096, 300, 300}, {ExtentKind::kIntent, 0, 0, 16384, 8192, 8192}};
  InfoRecord info;
  info.name = "state.%r";
  info.groups = {{0, 1, 2, 3}};
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    MemberRecord& member = info.members.emplace_back();
    member.rank = rank;
    member.size = 1000 + rank;
    member.domain = "node";
  }
  Intent intent;
  intent.generation = 3;
  intent.host = "host";
  intent.ranges = {{0, 100}, {4096, 1}};
  Summary summary;
  summary.rank = 2;
  summary.present = true;
  summary.fault = SidecarFault::kNone;
  summary.intent = intent;
  summary.superblock = superblock;
  summary.info = EncodeInfo(info);
  std::vector<Input> seeds = {EncodeSuperblock(superblock), EncodeInfo(info), EncodeIntent(intent, 0), EncodeRecord(summary)};
  for (std::uint8_t kind = 0; kind < kKinds; ++kind) seeds[kind].insert(seeds[kind].begin(), kind);
  superblock.compact = true;
  superblock.spacing = 6144;
  superblock.extents = {{ExtentKind::kInfo, 0, 0, 1024, 300, 300}, {ExtentKind::kIntent, 0, 0, 8192, 8192, 8192}};
  Input& compact = seeds.emplace_back(EncodeSuperblock(superblock));
  compact.insert(compact.begin(), kSuperblock);
  return seeds;
}

}  // namespace

const Target kFormat{"format", Run, Seeds};

}  // namespace lzy::fuzz
