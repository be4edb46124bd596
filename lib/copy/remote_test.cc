// Copies of files that other ranks see. tests/cluster/copy_test.py tests them between nodes.
#include "copy/remote.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "comm/records.h"
#include "copy/copy_tree.h"
#include "copy/set.h"
#include "copy/sight.h"
#include "engine/engine.h"
#include "engine_fixture.h"
#include "memory_files.h"
#include "passing_files.h"
#include "status_matchers.h"
#include "thread_communicator.h"

namespace lzy::testing {
namespace {

/// The view of a rank: everything except some directories.
class Hiding final : public PassingFileSystem {
 public:
  Hiding(FileSystem& fs, std::vector<std::string> hidden) : PassingFileSystem(fs), hidden_(std::move(hidden)) {}
  Result<std::unique_ptr<File>> Open(const std::string& path, OpenMode mode, bool follow,
                                     std::uint32_t create_mode) override {
    LZY_RETURN_IF_ERROR(Look(path));
    return PassingFileSystem::Open(path, mode, follow, create_mode);
  }
  Result<FileStat> Stat(const std::string& path, bool follow) override {
    LZY_RETURN_IF_ERROR(Look(path));
    return PassingFileSystem::Stat(path, follow);
  }
  Result<std::vector<std::string>> List(const std::string& path) override {
    LZY_RETURN_IF_ERROR(Look(path));
    return PassingFileSystem::List(path);
  }
  Status MakeDirectories(const std::string& path) override {
    LZY_RETURN_IF_ERROR(Look(path));
    return PassingFileSystem::MakeDirectories(path);
  }
  // Each rank is a node of its own.
  std::string View() override { return std::to_string(reinterpret_cast<std::uintptr_t>(this)); }

 private:
  Status Look(const std::string& path) const {
    for (const std::string& directory : hidden_) {
      if (path == directory || path.starts_with(directory + "/")) return {Code::kNotFound, path + ": No such file or directory"};
    }
    return Status::Ok();
  }
  const std::vector<std::string> hidden_;
};

class RemoteTest : public ::testing::Test {
 protected:
  RemoteTest() {
    options_.threads = 2;
    std::filesystem::create_directories(scratch_ / "s/sub");
    std::filesystem::create_directories(scratch_ / "d");
  }
  /// Runs work on ranks; each does not see some directories of the scratch directory.
  void OnRanks(const std::vector<std::vector<std::string>>& hidden,
               const std::function<void(Communicator&, FileSystem&)>& work) {
    std::vector<std::string> names;
    for (std::size_t r = 0; r < hidden.size(); ++r) names.push_back("n" + std::to_string(r));
    RunRanks(static_cast<int>(hidden.size()), [&](Communicator& comm) {
      std::vector<std::string> paths;
      for (const std::string& name : hidden[static_cast<std::size_t>(comm.rank())]) paths.push_back(scratch_ / name);
      Hiding fs(PosixFileSystem(), paths);
      work(comm, fs);
    }, names);
  }
  /// Copies s to d/s; the reports by name of the copy, as rank 0 has them.
  std::map<std::string, CopyReport> Copy(const std::vector<std::vector<std::string>>& hidden) {
    std::map<std::string, CopyReport> reports;
    OnRanks(hidden, [&](Communicator& comm, FileSystem& fs) {
      const auto plan = PlanTogether(comm, fs, {scratch_ / "s"}, (scratch_ / "d") + "/", request_.resume, false);
      ASSERT_OK(plan);
      if (comm.rank() == 0) sight_ = plan->sight;
      EXPECT_OK(CopyAll({fs, comm, options_}, *plan, request_, [&](CopyReport report) {
        if (comm.rank() == 0) reports[BaseNameOf(report.to)] = std::move(report);
      }));
    });
    return reports;
  }
  void Protect(const std::string& path) {
    const auto self = SelfCommunicator();
    const DatasetRef ref{DatasetKind::kShared, path, {}};
    EXPECT_OK(lzy::Protect({PosixFileSystem(), *self, options_}, ref, {}).status);
  }
  std::vector<std::string> Debris() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(scratch_ / "d")) {
      const std::string name = entry.path().filename();
      if (name.starts_with(".LZY-")) found.push_back(entry.path());
    }
    return found;
  }

  Rng rng_{SeedOf(9)};
  Scratch scratch_;
  Options options_;
  CopyRequest request_;
  CopySight sight_;
};

TEST_F(RemoteTest, CopiesWhatOnlyOthersSee) {
  // Several ranges of 4 MiB; damage; a hole; small files; an empty one.
  Bytes large = RandomBytes(rng_, 9'000'001);
  std::fill(large.begin() + 2'000'000, large.begin() + 3'000'000, std::uint8_t{0});
  const Bytes small = RandomBytes(rng_, 70'000), other = RandomBytes(rng_, 5);
  WriteFile(scratch_ / "s/large", large);
  WriteFile(scratch_ / "s/sub/small", small);
  WriteFile(scratch_ / "s/sub/other", other);
  WriteFile(scratch_ / "s/empty", {});
  WriteFile(scratch_ / "s/hole", {});
  std::filesystem::resize_file(scratch_ / "s/hole", 100u << 20);
  Protect(scratch_ / "s/large");
  Protect(scratch_ / "s/sub/small");
  Rot(rng_, scratch_ / "s/large", 8'000'000, 1);
  Rot(rng_, scratch_ / "s/sub/small", 3, 1);
  const auto reports = Copy({{"d"}, {"s"}});
  EXPECT_TRUE(sight_.apart);
  EXPECT_EQ(sight_.targets, std::vector<int>{1});
  ASSERT_EQ(reports.size(), 5u);
  for (const auto& [name, report] : reports) EXPECT_OK(report.status);
  EXPECT_EQ(ReadFile(scratch_ / "d/s/large"), large);
  EXPECT_EQ(ReadFile(scratch_ / "d/s/sub/small"), small);
  EXPECT_EQ(ReadFile(scratch_ / "d/s/sub/other"), other);
  EXPECT_EQ(std::filesystem::file_size(scratch_ / "d/s/empty"), 0u);
  EXPECT_EQ(std::filesystem::file_size(scratch_ / "d/s/hole"), 100u << 20);
  struct stat hole {};
  ASSERT_EQ(::stat((scratch_ / "d/s/hole").c_str(), &hole), 0);
  EXPECT_LT(hole.st_blocks, 100);
  EXPECT_GT(reports.at("large").healed, 0u);
  EXPECT_GT(reports.at("small").healed, 0u);
  EXPECT_TRUE(reports.at("large").same_root);
  EXPECT_FALSE(reports.at("other").compared);
  EXPECT_EQ(Debris(), std::vector<std::string>());
  EXPECT_EQ(std::filesystem::last_write_time(scratch_ / "s/large"), std::filesystem::last_write_time(scratch_ / "d/s/large"));
}

TEST_F(RemoteTest, GoesOnWhereItEnded) {
  MemoryFileSystem files;
  const Bytes bytes = RandomBytes(rng_, 100u << 20);
  files.Put("s/f", bytes, 1'600'000'000'000'000'000);
  files.Put("d/other", {}, 1'600'000'000'000'000'000);
  const auto copy = [&] {
    CopyReport told;
    RunRanks(2, [&](Communicator& comm) {
      Hiding fs(files, {comm.rank() == 0 ? "d" : "s"});
      CopyPlan plan;
      plan.files.push_back({"s/f", "d/f", fs.Stat("s/f", true).ok() ? *fs.Stat("s/f", true) : FileStat()});
      plan.destination = "d";
      plan.sight = {{1}, {0}, true};
      EXPECT_OK(BroadcastRecord(comm, plan));
      EXPECT_OK(CopyAll({fs, comm, options_}, plan, request_, [&](CopyReport report) {
        if (comm.rank() == 0) told = std::move(report);
      }));
    });
    return told;
  };
  files.fault = [](MemoryFileSystem::Op op, const std::string& path, std::uint64_t offset, std::uint64_t) -> Status {
    if (op == MemoryFileSystem::Op::kWrite && path == "d/.LZY-copy.f" && offset > (95u << 20)) return {Code::kIo, path + ": No space left on device"};
    return Status::Ok();
  };
  const CopyReport broken = copy();
  files.fault = nullptr;
  EXPECT_CODE(broken.status, Code::kWriteFailed);
  EXPECT_TRUE(broken.kept);
  EXPECT_FALSE(files.Has("d/f"));
  request_.resume = true;
  const CopyReport report = copy();
  EXPECT_OK(report.status);
  EXPECT_GE(report.resumed, CopyTarget::kBatch);
  EXPECT_EQ(files.At("d/f").bytes, bytes);
}

TEST_F(RemoteTest, ComesFromAllThatSeeIt) {
  const Bytes bytes = RandomBytes(rng_, 70u << 20);
  WriteFile(scratch_ / "s/f", bytes);
  const auto reports = Copy({{"d"}, {"s"}, {"d"}});
  EXPECT_EQ(sight_.sources, (std::vector<int>{0, 2}));
  EXPECT_OK(reports.at("f").status);
  EXPECT_EQ(ReadFile(scratch_ / "d/s/f"), bytes);
}

/// Shortens each answer with bytes of a file, as a hostile host may do.
class Shortening final : public Caller {
 public:
  explicit Shortening(Caller& caller) : caller_(caller) {}
  void Begin(int rank, std::vector<std::uint8_t> call, MutableByteSpan answer, Done done) override {
    caller_.Begin(rank, std::move(call), answer, [answer, done](const Result<std::size_t>& length) {
      constexpr std::size_t kCut = 20'000;
      if (!length.ok() || *length <= kCut) return done(length);
      std::copy(answer.begin() + kCut, answer.begin() + static_cast<std::ptrdiff_t>(*length), answer.begin());
      done(*length - kCut);
    });
  }

 private:
  Caller& caller_;
};

// What lies in memory behind a short answer is no content of the file.
TEST_F(RemoteTest, AShortAnswerIsAnError) {
  for (const std::size_t size : {std::size_t{50'000}, std::size_t{5'000'000}}) {
    const std::string path = scratch_ / "s/f";
    WriteFile(path, RandomBytes(rng_, size));
    OnRanks({{"s"}, {"d"}}, [&](Communicator& comm, FileSystem& fs) {
      const Context context{fs, comm, options_};
      EXPECT_OK(WithRemoteSources(context, {}, {path}, {}, [&](Caller& caller) {
        if (comm.rank() != 0) return;
        Shortening shortening(caller);
        const auto source = OpenRemoteSource(shortening, {1}, path, {});
        Bytes bytes(size);
        EXPECT_CODE(source.ok() ? (*source)->Read(0, bytes) : source.status(), Code::kWriteFailed);
      }));
    });
  }
}

// Rank 1 is hostile: it wants to read a file of rank 0 that is no part of the copy.
TEST_F(RemoteTest, GivesAwayWhatIsCopiedOnly) {
  WriteFile(scratch_ / "d/secret", RandomBytes(rng_, 100));
  std::filesystem::create_directories(scratch_ / "theirs");
  OnRanks({{}, {}}, [&](Communicator& comm, FileSystem& fs) {
    CopyPlan plan;
    const FileStat stat = *fs.Stat(scratch_ / "d/secret", true);
    plan.files.push_back({scratch_ / "s/f", scratch_ / "d/f", stat});
    plan.sight = {{0}, {1}, true};
    if (comm.rank() == 1) {
      plan.files.push_back({scratch_ / "d/secret", scratch_ / "theirs/got", stat});
      plan.sight = {{0, 1}, {0}, true};
    }
    (void)CopyAll({fs, comm, options_}, plan, request_, [](const CopyReport&) {});
  });
  EXPECT_FALSE(Exists(scratch_ / "theirs/got"));
}

// Rank 1 is hostile: it plans more than a copy of s/f.
TEST_F(RemoteTest, WritesOnlyWhatWasNamed) {
  WriteFile(scratch_ / "s/f", RandomBytes(rng_, 100));
  const std::string from = scratch_ / "s/f", to = (scratch_ / "d") + "/";
  const auto plan_with = [&](const std::function<void(CopyPlan&)>& change) {
    Status said;
    OnRanks({{"s"}, {"d"}}, [&](Communicator& comm, FileSystem& fs) {
      if (comm.rank() == 0) {
        said = PlanTogether(comm, fs, {from}, to, false, false).status();
        return;
      }
      const auto sight = LookAround(comm, fs, {from}, to, false);
      ASSERT_OK(sight);
      bool is_directory = false;
      EXPECT_OK(BroadcastRecord(comm, is_directory, 0));
      auto plan = PlanCopy(fs, {from}, to, false, is_directory);
      EXPECT_OK(Agree(comm, plan.status()));
      plan->sight = *sight;
      change(*plan);
      EXPECT_OK(BroadcastRecord(comm, *plan, 1));
    });
    return said;
  };
  const std::string d = scratch_ / "d";
  const auto entry = [&](const std::string& name) { return CopyPlan::Entry{from, name, {}}; };
  EXPECT_OK(plan_with([](CopyPlan&) {}));
  for (const std::string& name : {d + "/.bashrc", d, d + "/../x", d + "/f/../../x", std::string("/tmp/x"), d + "/f"}) {
    EXPECT_CODE(plan_with([&](CopyPlan& plan) { plan.files.push_back(entry(name)); }), Code::kWriteFailed) << name;
    EXPECT_CODE(plan_with([&](CopyPlan& plan) { plan.links.push_back(entry(name)); }), Code::kWriteFailed) << name;
    EXPECT_CODE(plan_with([&](CopyPlan& plan) { plan.directories.push_back(entry(name)); }), Code::kWriteFailed) << name;
    EXPECT_CODE(plan_with([&](CopyPlan& plan) { plan.further_names.push_back({plan.files[0].to, name, {}}); }), Code::kWriteFailed) << name;
  }
  // d/f may be a link from an earlier copy, so nothing goes below it unless it is a directory of the plan.
  const auto below = [&](const std::string& name) {
    return plan_with([&](CopyPlan& plan) {
      plan.directories.push_back(entry(plan.files[0].to));
      plan.files[0].to += "/" + name;
    });
  };
  EXPECT_OK(below("x"));
  for (const char* const name : {"..", ".", "x/y", ".LZY.x", ""}) EXPECT_CODE(below(name), Code::kWriteFailed) << name;
  const auto name_of_another = [](CopyPlan& plan) { plan.further_names.push_back({"/etc/passwd", plan.files[0].to + "2", {}}); };
  EXPECT_CODE(plan_with(name_of_another), Code::kWriteFailed);
  EXPECT_CODE(plan_with([](CopyPlan& plan) { plan.destination = "/"; }), Code::kWriteFailed);
  EXPECT_CODE(plan_with([](CopyPlan& plan) { plan.sight = {{0}, {0}, false}; }), Code::kWriteFailed);
}

TEST_F(RemoteTest, TellsDamageThatCannotBeHealed) {
  WriteFile(scratch_ / "s/f", RandomBytes(rng_, 50'000));
  Protect(scratch_ / "s/f");
  for (std::uint64_t at = 0; at < 50'000; at += 4096) Rot(rng_, scratch_ / "s/f", at, 1);
  const Bytes bytes = ReadFile(scratch_ / "s/f");
  auto reports = Copy({{"d"}, {"s"}});
  EXPECT_CODE(reports.at("f").status, Code::kBeyondRepair);
  EXPECT_FALSE(Exists(scratch_ / "d/s/f"));
  request_.salvage = request_.resume = true;
  reports = Copy({{"d"}, {"s"}});
  EXPECT_OK(reports.at("f").status);
  EXPECT_EQ(ReadFile(scratch_ / "d/s/f"), bytes);
  EXPECT_FALSE(reports.at("f").lost.empty());
}

// Files are dealt only to ranks that see the same directory. The same path on another rank is another directory.
TEST_F(RemoteTest, DealsToRanksThatSeeOneDestination) {
  WriteFile(scratch_ / "s/f", RandomBytes(rng_, 10));
  OnRanks({{}, {"s"}, {}, {"d"}}, [&](Communicator& comm, FileSystem& fs) {
    const auto sight = LookAround(comm, fs, {scratch_ / "s"}, (scratch_ / "d") + "/", false);
    ASSERT_OK(sight);
    EXPECT_FALSE(sight->apart);
    EXPECT_EQ(sight->targets, (std::vector<int>{0, 2}));
    const auto dry = LookAround(comm, fs, {scratch_ / "s"}, (scratch_ / "d") + "/", true);
    ASSERT_OK(dry);
    EXPECT_EQ(dry->targets, std::vector<int>{0}) << "nothing may be written to find out";
    const auto missing = PlanTogether(comm, fs, {scratch_ / "none"}, (scratch_ / "d") + "/", false, false);
    EXPECT_CODE(missing.status(), Code::kInvalidArgument);
    EXPECT_NE(missing.status().message().find("none: there is no such file"), std::string::npos);
    const auto nowhere = PlanTogether(comm, fs, {scratch_ / "s"}, scratch_ / "none/f", false, false);
    EXPECT_CODE(nowhere.status(), Code::kInvalidArgument);
  });
  EXPECT_EQ(Debris(), std::vector<std::string>());
}

// The limit of the rate is divided in this way. A rank with little to copy must not keep the others from using it.
TEST_F(RemoteTest, TellsEachRankItsShareOfTheBytes) {
  const auto share_of = [&](Communicator& comm, const auto& copy) {
    double share = -1;
    CopyRequest request = request_;
    request.dealt = [&](double mine) { share = mine; };
    copy(request, [&](const CopyReport& one) { EXPECT_OK(one.status); });
    EXPECT_DOUBLE_EQ(share, comm.rank() == 0 ? 0.9 : 0.1);
  };
  WriteFile(scratch_ / "s/a", RandomBytes(rng_, 90'000));
  WriteFile(scratch_ / "s/b", RandomBytes(rng_, 10'000));
  WriteFile(scratch_ / "m.0", RandomBytes(rng_, 90'000));
  WriteFile(scratch_ / "m.1", RandomBytes(rng_, 10'000));
  OnRanks({{}, {}}, [&](Communicator& comm, FileSystem& fs) {
    const auto plan = PlanTogether(comm, fs, {scratch_ / "s"}, scratch_ / "to", false, false);
    ASSERT_OK(plan);
    share_of(comm, [&](const CopyRequest& request, const auto& finished) {
      EXPECT_OK(CopyAll({fs, comm, options_}, *plan, request, finished));
    });
    share_of(comm, [&](const CopyRequest& request, const auto& finished) {
      EXPECT_OK(CopySet({fs, comm, options_}, scratch_ / "m.%r", scratch_ / "n.%r", request, finished).status);
    });
  });
}

// From disks of nodes to a shared one that two other ranks see, and back.
TEST_F(RemoteTest, CopiesSetsBetweenNodes) {
  std::map<int, Bytes> members;
  for (int r = 0; r < 3; ++r) {
    std::filesystem::create_directories(scratch_ / ("local" + std::to_string(r)));
    members[r] = RandomBytes(rng_, 100'000);
    WriteFile(scratch_ / ("local" + std::to_string(r) + "/m"), members[r]);
  }
  const std::vector<std::vector<std::string>> views = {{"local1", "local2", "d"}, {"local0", "local2"}, {"local0", "local1"}};
  const auto copy = [&](const std::string& from, const std::string& to, std::size_t by) {
    OnRanks(views, [&](Communicator& comm, FileSystem& fs) {
      CopyRequest request = request_;
      double share = -1;
      request.dealt = [&](double mine) { share = mine; };
      const auto report = CopySet({fs, comm, options_}, from, to, request, [&](const CopyReport& one) { EXPECT_OK(one.status); });
      EXPECT_OK(report.status);
      EXPECT_GE(share, 0);
      EXPECT_EQ(*comm.AllReduceSum(share > 0), by);
      EXPECT_EQ(report.members, 3u);
      EXPECT_FALSE(report.root.empty());
    });
  };
  copy(scratch_ / "local%r/m", scratch_ / "d/m.%r", 2);
  for (int r = 0; r < 3; ++r) {
    EXPECT_EQ(ReadFile(scratch_ / ("d/m." + std::to_string(r))), members[r]);
    std::filesystem::remove_all(scratch_ / ("local" + std::to_string(r)));
    std::filesystem::create_directories(scratch_ / ("local" + std::to_string(r)));
  }
  copy(scratch_ / "d/m.%r", scratch_ / "local%r/m", 3);
  for (int r = 0; r < 3; ++r) EXPECT_EQ(ReadFile(scratch_ / ("local" + std::to_string(r) + "/m")), members[r]);
}

}  // namespace
}  // namespace lzy::testing
