#pragma once
// The commit of a file set being made; for protect_set.cc and protect_set_commit.cc only.
//
// First it is settled what the set is: members, groups, layouts, shapes of the sidecars (protect_set.cc). Then the set
// is encoded group by group, and committed in two phases (protect_set_commit.cc; docs/design/commit.md "Sets").
//
// Every rank knows the facts of all members, so all choose the same groups and layouts. Jobs, sidecars and trees are
// held by the owner of a member only.

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "commit/protector.h"
#include "encode/encode.h"
#include "encode/rebuild.h"
#include "geometry/grouping.h"

namespace lzy {

// What every rank knows of a member.
struct MemberFacts {
  FileStat before;
  std::string domain;
  std::string node;  // of its owner
  int owner = 0;
  std::uint64_t old_size = 0;  // as committed before
  const FileView* file = nullptr;
  bool other_writer = false;  // beside this program
  bool captured = false;      // its owner has a capture of it
};

// One group: its members, its layout, its communicator.
struct Group {
  std::vector<std::uint32_t> ranks;
  std::optional<Layout> layout;
  std::optional<PlanCache> plans;
  std::unique_ptr<Communicator> comm;  // null: all ranks of the dataset take part (or this one does not)
  std::vector<int> owner;              // by device: rank in the communicator
  bool mine = false;                   // this rank owns one of its members
};

// A member that this rank owns.
struct OwnMember {
  FileView* file = nullptr;
  FileJob job;
  IntervalSet touched;  // what may differ from the leaves that job is held to
  SidecarContents contents;
  std::unique_ptr<Sidecar> fresh;
};

/// One call of Protect() for a set. The order of its steps is that of FileSet::Protect(). Agreed are facts_, groups_,
/// uuid_, the flags, and of options_ the geometry; own_ is local.
class FileSet : public Protector {
 public:
  using Protector::Protector;

 protected:
  Status Protect() override;

 private:
  // Is this the set whose sidecars are there, or a new one that replaces it?
  Status ChooseSet();

  /// The members are those that are there: 0 to p-1 without a gap. Local.
  Status FindMembers();

  /// What owners know of their members goes to all ranks. kInvalidArgument if ranks have different options.
  Status GatherFacts();
  /// The failure domains of the members stay those of the last commit. Local.
  void KeepDomains();

  // Sizes that follow from the members' sizes: the block size, and what is in all of them together.
  Status AgreeOnSizes();

  // As they are, or dealt across failure domains.
  Status ChooseGroups();

  // Tells what the groups do not survive, as far as the user can do something about it.
  void Warn(const Grouping& dealt, std::size_t domains);

  // Groups that are kept stay as they were dealt: members may have come together in a domain since. Once, since the
  // new domains are recorded.
  void WarnOfMoves();
  // Local: the server that has all of a member; empty if it is not asked for, or not told.
  std::string ServerOfMember(const FileView& file) const;
  // What the domains of members are, for messages.
  const char* DomainKind() const;

  // One layout a group, all with the unit that the largest member gives.
  Status MakeLayouts();

  // Contents of the new sidecars as far as known before encoding; trees have their size already.
  Status MakeShapes();

  // The path of a member to the root of the dataset. A set of one member needs none.
  static void SetPath(InfoRecord& info, const Tree& members, std::uint32_t rank);

  // Only the touched rows, in place, if the sidecars that are there can serve as the rest; otherwise everything, in new
  // ones.
  Status ChooseWay();

  // Where parity of this rank's members goes: sidecars built aside, or those that are there. Local.
  Status OpenOutputs();

  // Each group gets a communicator of its owners, all of them before any is used, so that groups without a common rank
  // then work side by side.
  Status SplitGroups();

  // Encodes, syncs the data, and checks that no file changed meanwhile.
  Status Encode();

  // Finds out which blocks of this rank's member have a captured leaf that counts. Local, since each member has leaves
  // of its own.
  void UseCapture();

  // Sets these leaves, and makes the parity of rows void that were made of other bytes. Collective; the Status is this
  // rank's.
  Status TakeCaptured();

  // Makes the parity of the rows of these blocks void. Local.
  void Forsake(const RottenBlocks& by_rank);

  // Encodes the rows that are touched, or all. Groups without a common rank work side by side, so nobody stops before
  // all are done, and a failure is agreed on by everybody.
  Status EncodeGroups(const std::map<std::uint32_t, IntervalSet>& touched, bool all);

  Status EncodeGroup(Group& group, const std::map<std::uint32_t, IntervalSet>& touched, bool all);

  // Without parity, members have nothing in common: each owner hashes its own. lzy-protect may have thousands of members
  // of any sizes on one rank, so there they are dealt by rows all the same.
  bool IsHashedAlone() const { return parity_ == 0 && request_.touched.has_value(); }

  // Makes the leaves of this rank's members, less those that were captured. Local.
  Status HashMembers(const std::map<std::uint32_t, IntervalSet>& touched, bool all);

  // Rebuilds the rotten blocks of this rank's members that were files of their own, by the parity that they had. Local.
  Status RebuildFromFormer();

  // Encodes rows with rotten blocks again, with their right contents where the parity of before still gives them.
  Status HandleRot();

  // Roots of all members, the tree over them, and the two phases.
  Status Commit();

  // The roots of all members, from their owners, into the sidecars of this rank's members.
  Status FillContents();

  // The sets that this commit takes in whole: all members are committed here, and those of other names are as they were. The
  // same on every rank.
  Result<std::set<Uuid>> ReplacedSets();

  // After a failure: what was built aside. Not once publishing began.
  void RemoveTemporaries();

  // fn(group, index of the member in it, rank, member) for each member that this rank owns, until one fails.
  template <class Fn>
  Status ForEachOwn(const Fn& fn) {
    for (const Group& group : groups_) {
      for (std::uint32_t f = 0; f < group.ranks.size(); ++f) {
        const auto at = own_.find(group.ranks[f]);
        if (at != own_.end()) LZY_RETURN_IF_ERROR(fn(group, f, group.ranks[f], at->second));
      }
    }
    return Status::Ok();
  }

  Options options_;
  bool same_set_ = false;      // the uuid stays
  bool on_servers_ = false;  // domains are servers of the file system
  bool grown_ = false;         // there are files that the committed set did not have
  std::vector<FileView*> added_;  // members that the committed set did not have
  bool regroup_ = true;        // groups are dealt anew
  bool incremental_ = false;   // touched rows only, in the sidecars that are there
  bool publishing_ = false;    // some sidecar may have its final name
  std::uint64_t largest_member_ = 0;
  std::uint32_t block_size_ = 0;
  std::uint32_t parity_ = 0;
  std::uint32_t largest_group_ = 0;
  std::uint64_t total_bytes_ = 0;
  std::uint64_t generation_ = 1;
  std::map<std::uint32_t, MemberFacts> facts_;
  std::map<std::uint32_t, OwnMember> own_;
  std::vector<Interval> captured_;  // blocks of the only member here whose leaves were captured, and count
  Rot rot_;
  std::vector<Group> groups_;
  Uuid uuid_{};
  SidecarContents any_contents_;  // what all members have in common, for the report
};

}  // namespace lzy
