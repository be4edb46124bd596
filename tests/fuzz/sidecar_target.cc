#include <algorithm>
#include <map>
#include <string>

#include "engine/engine.h"
#include "fuzz/targets.h"
#include "memory_files.h"
#include "sidecar/names.h"
#include "sidecar/sidecar.h"

namespace lzy::fuzz {
namespace {

using testing::MemoryFileSystem;

constexpr std::int64_t kPast = 1'600'000'000'000'000'000;
constexpr std::uint32_t kMembers = 3;

/// What the first byte of an input says is done. All inputs are tried with files whose sidecars are of either form: the
/// form of the input itself is what its bytes say.
struct Plan {
  bool set;       ///< the input is the sidecar of a set's member 0; those of the others are as they should be
  bool reseal;    ///< hashes are made right first, as far as that goes, so that what they hide is looked at
  int operation;  ///< 0 … 5
};

Plan PlanOf(std::uint8_t byte) {
  return {(byte & 1) != 0, (byte & 2) != 0, (byte >> 2) % 6};
}

Options FewBlocks() {
  Options options;
  options.block_size = 512;
  options.stripe = 1024;
  options.group = 4;
  options.parity = 1;
  options.threads = 1;
  options.memory = 1u << 20;
  options.timeout_seconds = 0;
  return options;
}

DatasetRef RefOf(bool set) {
  DatasetRef ref{set ? DatasetKind::kSet : DatasetKind::kShared, set ? "d/s.%r" : "d/f", {}};
  for (std::uint32_t r = 0; set && r < kMembers; ++r) ref.members[r] = ExpandPattern(ref.path, r);
  return ref;
}

void Reseal(Input& sidecar);
void ResealIntents(Input& sidecar, std::uint64_t offset, std::uint64_t length);

/// A sidecar with a uuid and a time of commit that are not of this run's, so that an input means the same in all of them.
void MakeAlikeInEveryRun(Input& sidecar) {
  constexpr std::uint8_t kUuid[16] = {0x1c, 0xea, 0x11, 0x5e, 0xed, 0, 0x4b, 0, 0x80};
  constexpr std::size_t kUuidAt = 40, kWallTimeAt = 128;
  for (std::uint64_t at = 0; at + kCompactSuperblockSize <= sidecar.size(); at += kCompactStep) {
    if (!std::equal(sidecar.begin(), sidecar.begin() + 8, sidecar.begin() + static_cast<std::ptrdiff_t>(at))) continue;
    std::copy(std::begin(kUuid), std::end(kUuid), sidecar.begin() + static_cast<std::ptrdiff_t>(at + kUuidAt));
    StoreLe(&sidecar[at + kWallTimeAt], kPast);
  }
  Reseal(sidecar);
}

/// Files as they are protected: a shared one, or a set.
std::map<std::string, MemoryFileSystem::Node> Protected(bool set, bool compact) {
  MemoryFileSystem fs;
  fs.now = [] { return kPast; };
  const DatasetRef ref = RefOf(set);
  for (std::uint32_t r = 0; r < (set ? kMembers : 1); ++r) {
    Input bytes(9 * 512 + 100 * r);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 131 + i / 256 + r);
    fs.Put(set ? ref.members.at(r) : ref.path, bytes, kPast - 1'000'000'000);
  }
  Options options = FewBlocks();
  options.compact = compact;
  const auto self = SelfCommunicator();
  (void)Protect(Context{fs, *self, options}, ref, {});
  auto files = fs.Copy();
  for (auto& [path, node] : files) {
    if (BaseNameOf(path).front() == '.') MakeAlikeInEveryRun(node.bytes);
  }
  return files;
}

void ResealIntents(Input& sidecar, std::uint64_t offset, std::uint64_t length) {
  for (std::uint64_t page = 0; page < length / kIntentPageSize; ++page) {
    const std::uint64_t at = offset + page * kIntentPageSize;
    if (sidecar[at] == 0) continue;  // none is set
    const ByteSpan sealed = ByteSpan(sidecar).subspan(at, kIntentPageSize - sizeof(Hash));
    const Hash hash = HashBytes(HashTag::kIntent, page, sealed);
    std::copy(hash.bytes.begin(), hash.bytes.end(), sidecar.begin() + static_cast<std::ptrdiff_t>(at + sealed.size()));
  }
}

void Reseal(Input& sidecar) {
  const auto put = [](Input& to, std::size_t at, const Hash& hash) {
    std::copy(hash.bytes.begin(), hash.bytes.end(), to.begin() + static_cast<std::ptrdiff_t>(at));
  };
  if (sidecar.size() < kCompactSuperblockSize) return;
  Superblock places;
  places.compact = (sidecar[32] & 4) != 0;
  places.spacing = std::min<std::uint64_t>(LoadLe<std::uint64_t>(&sidecar[72]), sidecar.size());
  for (std::uint32_t copy = 0; copy < 4; ++copy) {
    const std::uint64_t at = places.PlaceOf(copy);
    if (copy > 0 && places.spacing < (places.compact ? kCompactStep : kMinSpacing)) break;
    if (at + places.bytes() > sidecar.size()) break;
    // The info record, then the page that holds its hash.
    const std::uint32_t extents = LoadLe<std::uint32_t>(&sidecar[at + 256]);
    for (std::uint32_t e = 0; e < std::min<std::uint64_t>(extents, places.max_extents()); ++e) {
      const std::uint8_t* extent = &sidecar[at + 264 + 40ull * e];
      const auto kind = LoadLe<std::uint16_t>(extent);
      const auto offset = LoadLe<std::uint64_t>(extent + 16), length = LoadLe<std::uint64_t>(extent + 24);
      if (offset > sidecar.size() || length > sidecar.size() - offset) continue;
      if (kind == 2) ResealIntents(sidecar, offset, length);
      if (kind != 1) continue;
      put(sidecar, at + 240, HashBytes(HashTag::kInfo, 0, ByteSpan(sidecar).subspan(offset, length)));
    }
    const ByteSpan sealed = ByteSpan(sidecar).subspan(at, places.bytes() - sizeof(Hash));
    put(sidecar, at + sealed.size(), HashBytes(HashTag::kSuperblock, copy, sealed));
  }
}

void Run(const std::uint8_t* bytes, std::size_t size) {
  if (size < 1 || size > (1u << 18)) return;
  static const std::map<std::string, MemoryFileSystem::Node> files[2][2] = {
      {Protected(false, false), Protected(false, true)}, {Protected(true, false), Protected(true, true)}};
  const Plan plan = PlanOf(bytes[0]);
  Input sidecar(bytes + 1, bytes + size);
  if (plan.reseal) Reseal(sidecar);

  MemoryFileSystem fs;
  fs.now = [] { return kPast; };
  const bool compact = sidecar.size() > 32 && (sidecar[32] & 4) != 0;
  fs.Restore(files[plan.set][compact]);
  const DatasetRef ref = RefOf(plan.set);
  const std::string first = plan.set ? ref.members.at(0) : ref.path;
  fs.Put(*SidecarPath(first), sidecar, kPast);
  const auto before = fs.Copy();

  const Options options = FewBlocks();
  const auto self = SelfCommunicator();
  const Context context{fs, *self, options};
  VerifyRequest repair;
  repair.repair = true;
  repair.force = plan.operation == 3;
  ProtectRequest forced;
  forced.force = true;
  switch (plan.operation) {
    case 0:
      (void)Verify(context, ref, {});
      break;
    case 1:
      (void)Info(context, ref);
      break;
    case 2:
    case 3:
      (void)Verify(context, ref, repair);
      break;
    case 4:
      (void)Restore(context, ref, {.devices = {1}});
      break;
    default:
      (void)Protect(context, ref, forced);
  }

  for (const auto& [path, node] : before) {
    const bool is_data = BaseNameOf(path).front() != '.';
    if (!is_data) continue;
    Require(fs.Has(path), "no operation removes a file");
    if (plan.operation == 2 || plan.operation == 3 || plan.operation == 4) continue;
    Require(fs.At(path).bytes == node.bytes, "what is not to change data does not");
  }
  for (const auto& [path, node] : fs.nodes()) Require(DirectoryOf(path) == "d", "nothing is made elsewhere");
}

/// States that a sidecar is in between commits, or is left in by one that breaks off.
enum class Moment { kCommitted, kPrepared, kDecided, kTorn, kWriting, kWritingRanges, kRepairing, kNeverCommitted };
constexpr Moment kMoments[] = {Moment::kCommitted, Moment::kPrepared,      Moment::kDecided,   Moment::kTorn,
                               Moment::kWriting,   Moment::kWritingRanges, Moment::kRepairing, Moment::kNeverCommitted};

/// Whether a sidecar of the compact form can be in it: nothing is prepared in it, and a commit makes it.
bool IsOfCompact(Moment moment) {
  return moment == Moment::kCommitted || moment == Moment::kWriting || moment == Moment::kWritingRanges ||
         moment == Moment::kRepairing;
}

Input SidecarAt(bool set, bool compact, Moment moment) {
  MemoryFileSystem fs;
  fs.now = [] { return kPast; };
  fs.Restore(Protected(set, compact));
  const std::string data = set ? "d/s.0" : "d/f", path = *SidecarPath(data);
  if (moment == Moment::kNeverCommitted) {
    (void)fs.Remove(path);
    (void)BeginEpoch(fs, FewBlocks(), data, set ? RefOf(set).path : "");
    return fs.At(path).bytes;
  }
  {
    auto sidecar = Sidecar::Load(fs, path, OpenMode::kReadWrite);
    Require(sidecar.ok(), "a sidecar that was just made can be read");
    SidecarContents next = (*sidecar)->contents();
    ++next.superblock.generation;
    const std::vector<ByteRange> ranges = {{512, 100}, {2048, 600}};
    if (moment == Moment::kPrepared || moment == Moment::kDecided || moment == Moment::kTorn) {
      Require((*sidecar)->Prepare(next).ok(), "a commit can be prepared");
      // Breaks off where copy 0 would be written, behind the note that all was decided.
      fs.fault = [](MemoryFileSystem::Op op, const std::string&, std::uint64_t offset, std::uint64_t) {
        return op == MemoryFileSystem::Op::kWrite && offset == 0 ? Status(Code::kIo, "broken off") : Status::Ok();
      };
      if (moment != Moment::kPrepared) (void)(*sidecar)->FinishPrepared();
      fs.fault = nullptr;
    }
    if (moment == Moment::kWriting) (void)(*sidecar)->SetIntent(NewIntent(kIntentWholeFile));
    if (moment == Moment::kWritingRanges) (void)(*sidecar)->SetIntent(NewIntent(0, ranges));
    if (moment == Moment::kRepairing) (void)(*sidecar)->SetIntent(NewIntent(kIntentRepair, ranges));
  }
  Input& bytes = fs.At(path).bytes;
  if (moment == Moment::kTorn) std::fill_n(bytes.begin(), kSuperblockSize / 2, std::uint8_t{0});
  return bytes;
}

std::vector<Input> Seeds() {
  std::vector<Input> seeds;
  for (const bool set : {false, true}) {
    for (const bool compact : {false, true}) {
      for (const Moment moment : kMoments) {
        if (compact && !IsOfCompact(moment)) continue;
        const Input sidecar = SidecarAt(set, compact, moment);
        for (std::uint8_t operation = 0; operation < 6; ++operation) {
          Input& seed = seeds.emplace_back(sidecar);
          seed.insert(seed.begin(), static_cast<std::uint8_t>(operation << 2 | 2 | (set ? 1 : 0)));
        }
      }
    }
  }
  return seeds;
}

}  // namespace

const Target kSidecar{"sidecar", Run, Seeds};

}  // namespace lzy::fuzz
