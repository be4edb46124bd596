#pragma once
// What somebody knows who has seen everything: what was committed, and so what is wrong with what is there now. Bytes
// are compared with what they were; geometry and sidecar format are shared with the engine, nothing else.

#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "base/interval_set.h"
#include "campaign/world.h"
#include "dataset/view.h"
#include "sidecar/sidecar.h"

namespace lzy::campaign {

using Root = std::array<std::uint8_t, 16>;

/// Which bytes of a dataset are wrong: as they are, or as a report names them.
struct Losses {
  using Place = std::tuple<std::string, DamagePart, bool>;  ///< file, part (not metadata), whether it is beyond repair
  std::map<Place, std::vector<Interval>> blocks;
  std::set<std::string> empty;     ///< data files that are missing and have no bytes that could be
  std::set<std::string> sidecars;  ///< that are missing, or of another generation
  // Not of a report:
  std::size_t worst_row = 0;   ///< how many blocks of the worst row are lost
  bool unjudged = false;      ///< of a file that is there, nothing says any more what it should be
  bool unknown_group = false;  ///< nothing says any more what some group was like
  bool anything() const { return unjudged || !blocks.empty() || !empty.empty() || !sidecars.empty(); }
};
Losses NamedIn(const DatasetReport& report);
/// What is in one and not in the other, for messages; empty: nothing.
std::string Differences(const Losses& truth, const Losses& named);

class Truth {
 public:
  explicit Truth(const World& world) : world_(world) {}

  /// What is there now is what was committed.
  Status Take(const Root& root);
  /// What was committed has been made whole: takes note of the sidecars as they are now. Parity must be what it was.
  Status TakeRepaired();
  const Files& old() const { return old_; }  ///< at the first commit
  const Files& committed() const { return committed_; }
  const Superblock& superblock(std::size_t file) const { return files_[file].superblock; }
  std::uint64_t parity_base(std::size_t file) const { return files_[file].parity_base; }
  const Root& root() const { return root_; }
  /// What there was at the commit of this root; null: there was none.
  const Files* Version(const Root& root) const;
  const std::map<Root, Files>& versions() const { return versions_; }

  /// These bytes of a file can be read, and are as they were committed.
  bool Same(const std::string& path, std::uint64_t offset, std::uint64_t length) const;
  /// Data are as they were committed.
  bool DataAreRight() const;
  bool SomethingIsMissing() const;
  /// What can be said of the damages is what was done to data and parity: each sidecar that is there has a copy of its
  /// metadata, times are as committed, and who is of an older generation is as a whole.
  bool IsPlain() const;
  /// Where IsPlain().
  Losses Find() const;
  /// What is wrong with what a report says about metadata; empty: nothing. Where IsPlain().
  std::string Misnamed(const DatasetReport& report) const;
  /// There is something to be had of a sidecar.
  static bool CanBeRead(const std::string& sidecar, const Files& files);
  /// There is metadata that is wrong, all generations being right.
  bool MetadataAreHit() const;
  /// A tool that did not come to its end wrote to sidecars: their metadata are not compared any more.
  void NoteWritten(const Files& before);

 private:
  struct File {
    Superblock superblock;
    std::uint64_t parity_base = 0;
    std::uint64_t old_parity_base = 0;  ///< at the first commit
    std::vector<std::vector<Interval>> copies;  ///< where each copy of the metadata is, superblock first
    Interval intents;
  };
  struct Group {
    std::vector<std::size_t> files;
    Layout layout;
  };

  Status TakeFile(std::size_t file, std::map<std::vector<std::size_t>, std::size_t>& known);
  bool IsOld(std::size_t file) const;
  bool IsWhatItWas(std::size_t file) const;
  bool HasUsableSidecar(std::size_t file) const;
  std::uint64_t ParityBaseNow(std::size_t file) const;
  bool IsKnown(const Group& group) const;
  bool FileIsPlain(std::size_t file) const;
  bool IsLost(const Group& group, std::uint32_t device, std::uint64_t row, std::uint32_t slice) const;
  void FindIn(const Group& group, Losses& losses) const;
  void FindInRow(const Group& group, std::uint32_t g, std::uint64_t row, std::uint32_t slice, Losses& losses) const;
  std::vector<Interval> Hits(std::size_t file, const std::vector<Interval>& ranges) const;
  std::vector<Interval> HitsOfIntents(std::size_t file) const;
  std::vector<std::vector<Interval>> HitsByCopy(std::size_t file) const;
  std::string MisnamedOf(std::size_t file, const std::vector<Interval>& named) const;

  const World& world_;
  std::vector<File> files_;
  std::vector<Group> groups_;
  Files old_, committed_;
  std::map<Root, Files> versions_;
  Root root_{};
  std::set<std::size_t> written_;
};

}  // namespace lzy::campaign
