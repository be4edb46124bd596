// Goes through the tables of docs/design/commit.md §7 ("Owners of sidecars").

#include "names/provers.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "engine/engine.h"
#include "engine_fixture.h"
#include "memory_files.h"
#include "names/lookup.h"
#include "sidecar/sidecar.h"
#include "status_matchers.h"

namespace lzy::testing {
namespace {

constexpr std::int64_t kMtime = 1'600'000'000'000'000'000, kBirth = 1'500'000'000'123'456'789;
constexpr std::uint64_t kNumber = 5000;  // the inode of the file

// How the stamp of a sidecar fits the file. Sizes are all the same.
enum class Fit {
  kNone,      // there is no such sidecar
  kFull,      // mtime, inode and birth
  kEdited,    // inode and birth
  kRecycled,  // mtime and inode, but another birth: the inode was given out again
  kInode,     // inode alone
  kTimes,     // mtime alone: a copy that kept its times, or chance
  kForeign,   // nothing
};
constexpr Fit kFits[] = {Fit::kNone, Fit::kFull, Fit::kEdited, Fit::kRecycled, Fit::kInode, Fit::kTimes, Fit::kForeign};
constexpr const char* kFitNames[] = {"none", "full", "edited", "recycled", "inode", "times", "foreign"};

enum class Content { kOwn, kOther, kNeither };
// The file that has the name of the other sidecar: gone, as that sidecar committed it, or another file.
enum class Namesake { kGone, kCommitted, kAnother };

struct Row {
  Fit own, other;
  Content content;
  Namesake namesake;
  std::string Name() const {
    return fmt::format("own {} other {} content {} namesake {}", kFitNames[static_cast<int>(own)], kFitNames[static_cast<int>(other)],
                       static_cast<int>(content), static_cast<int>(namesake));
  }
};

// The sidecar that the file has by stamps, without reading data.
std::string ByStamp(const Row& row) {
  const bool claims_own = row.own == Fit::kFull || row.own == Fit::kEdited || row.own == Fit::kRecycled || row.own == Fit::kTimes;
  if (claims_own) return ".LZY.f";
  const bool is_same_as_other = row.other == Fit::kFull || row.other == Fit::kEdited;
  if (is_same_as_other && row.namesake != Namesake::kCommitted) return ".LZY.g";
  return row.own != Fit::kNone ? ".LZY.f" : "";
}

// The sidecar by which the file is judged if it differs from the first one.
std::string ByContent(const Row& row) {
  const std::string stamped = ByStamp(row);
  if (row.content == Content::kOwn && row.own != Fit::kNone) return ".LZY.f";
  if (row.content == Content::kOther && row.other != Fit::kNone && row.namesake != Namesake::kCommitted) return ".LZY.g";
  return stamped;
}

class OwnersTest : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  OwnersTest() {
    options_.block_size = 512;
    options_.stripe = 512;
    options_.group = 4;
    options_.threads = 1;
    options_.timeout_seconds = 0;
    for (const char* name : {"d/f", "d/g"}) {
      fs_.Put(name, name == std::string("d/f") ? own_ : other_, kMtime);
      EXPECT_OK(Protect(Here(), {DatasetKind::kShared, name, {}}, {}).status);
    }
    protected_ = fs_.Copy();
  }
  Context Here() { return {fs_, *self_, options_}; }

  void Stamp(const std::string& sidecar, Fit fit) {
    if (fit == Fit::kNone) {
      ASSERT_OK(fs_.Remove(sidecar));
      return;
    }
    auto loaded = Sidecar::Load(fs_, sidecar, OpenMode::kReadWrite);
    ASSERT_OK(loaded);
    SidecarContents contents = (*loaded)->contents();
    lzy::Stamp& stamp = contents.superblock.stamp;
    const bool inode = fit != Fit::kTimes && fit != Fit::kForeign, birth = fit == Fit::kFull || fit == Fit::kEdited;
    stamp.inode = inode ? kNumber : kNumber + 100;
    stamp.birth_ns = birth ? kBirth : kBirth + 77;
    stamp.mtime_ns = fit == Fit::kFull || fit == Fit::kRecycled || fit == Fit::kTimes ? kMtime : kMtime - 5'000'000'000;
    other_mtime_ = stamp.mtime_ns;  // of the one that is stamped last
    ASSERT_OK((*loaded)->WriteAll(contents));
  }
  void Put(const std::string& name, const Bytes& bytes, std::uint64_t inode, std::int64_t mtime) {
    auto& node = fs_.Put(name, bytes, mtime);
    node.stat.inode = inode;
    node.stat.birth_ns = kBirth + static_cast<std::int64_t>(inode - kNumber);
  }
  void Make(const Row& row) {
    fs_.Restore(protected_);
    ASSERT_OK(fs_.Remove("d/f"));
    ASSERT_OK(fs_.Remove("d/g"));
    Stamp("d/.LZY.f", row.own);
    Stamp("d/.LZY.g", row.other);
    const Bytes& content = row.content == Content::kOwn ? own_ : row.content == Content::kOther ? other_ : neither_;
    Put("d/f", content, kNumber, kMtime);
    if (row.namesake == Namesake::kCommitted) Put("d/g", other_, kNumber + 1, row.other == Fit::kNone ? kMtime : other_mtime_);
    if (row.namesake == Namesake::kAnother) Put("d/g", another_, kNumber + 1, kMtime + 1'000'000'000);
  }
  std::string SidecarName() {
    auto found = FindSidecar(fs_, "d/f");
    return found.ok() ? BaseNameOf(*found) : "";
  }

  template <class Fn>
  void ForEachRow(const Fn& fn) {
    for (const Fit own : kFits) {
      for (const Fit other : kFits) {
        for (const Content content : {Content::kOwn, Content::kOther, Content::kNeither}) {
          for (const Namesake namesake : {Namesake::kGone, Namesake::kCommitted, Namesake::kAnother}) {
            const Row row{own, other, content, namesake};
            SCOPED_TRACE(row.Name());
            Make(row);
            fn(row);
            if (HasFailure()) return;
          }
        }
      }
    }
  }

  Rng rng_{2718};
  const std::uint64_t size_ = GetParam();
  const Bytes own_ = RandomBytes(rng_, size_), other_ = RandomBytes(rng_, size_), neither_ = RandomBytes(rng_, size_),
              another_ = RandomBytes(rng_, size_);
  MemoryFileSystem fs_;
  std::unique_ptr<Communicator> self_ = SelfCommunicator();
  Options options_;
  std::map<std::string, MemoryFileSystem::Node> protected_;
  std::int64_t other_mtime_ = 0;
};

TEST_P(OwnersTest, StampsAndContentDecideAsTheTableSays) {
  ForEachRow([&](const Row& row) {
    EXPECT_EQ(SidecarName(), ByStamp(row));
    ASSERT_OK(AdoptByContent(fs_, "d/f", nullptr));
    EXPECT_EQ(SidecarName(), ByContent(row));
  });
}

// For all stamps: no repair writes to a content that a sidecar beside the file proves, and no sidecar is lost.
TEST_P(OwnersTest, NoRepairWritesToWhatASidecarProves) {
  ForEachRow([&](const Row& row) {
    const auto before = fs_.Copy();
    const DatasetReport report = Verify(Here(), {DatasetKind::kShared, "d/f", {}}, {.repair = true});
    const bool proven = (row.content == Content::kOwn && row.own != Fit::kNone) ||
                        (row.content == Content::kOther && row.other != Fit::kNone);
    EXPECT_TRUE(!proven || fs_.At("d/f").bytes == before.at("d/f").bytes);
    EXPECT_TRUE(row.namesake == Namesake::kGone || fs_.At("d/g").bytes == before.at("d/g").bytes);
    const std::string sidecar = ByContent(row);
    const bool fits = (sidecar == ".LZY.f" && row.content == Content::kOwn) || (sidecar == ".LZY.g" && row.content == Content::kOther);
    // A file that was edited in place is stale, whatever its content is.
    const Fit stamped = ByStamp(row) == ".LZY.f" ? row.own : row.other;
    EXPECT_TRUE(!fits || stamped == Fit::kEdited || report.state == DatasetState::kIntact) << report.status.message();
    std::size_t sidecars = 0;
    for (const auto& [path, node] : fs_.nodes()) sidecars += path.starts_with("d/.LZY.");
    EXPECT_EQ(sidecars, before.count("d/.LZY.f") + before.count("d/.LZY.g"));
  });
}

INSTANTIATE_TEST_SUITE_P(OneBlockAndSeveral, OwnersTest, ::testing::Values(400, 1400));

}  // namespace
}  // namespace lzy::testing
