#pragma once
// One commit of a file set. Only protect_set.cc and protect_set_commit.cc use this header.
//
// protect_set.cc chooses members, groups, layouts and the shapes of the sidecars. protect_set_commit.cc encodes the set
// group by group, and commits it in two phases (docs/design/commit.md "Sets").
//
// Every rank knows the facts of all members, so all ranks choose the same groups and layouts. Only the owner of a member
// has its FileJob, sidecar and trees.

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

// Facts of a member, the same on every rank.
struct MemberFacts {
  FileStat before;
  std::string domain;
  std::string node;  // node of the owner
  int owner = 0;
  std::uint64_t old_size = 0;  // size at the last commit
  const FileView* file = nullptr;
  bool other_writer = false;  // a writer other than this program has set an intent
  bool captured = false;      // the owner captured writes of this member
};

// One group of the set.
struct Group {
  std::vector<std::uint32_t> ranks;
  std::optional<Layout> layout;
  std::optional<PlanCache> plans;
  std::unique_ptr<Communicator> comm;  // null if all ranks of the dataset take part, or if this rank does not
  std::vector<int> owner;              // by device: rank of the owner in `comm`
  bool mine = false;                   // this rank owns a member of the group
};

// A member that this rank owns.
struct OwnMember {
  FileView* file = nullptr;
  FileJob job;
  IntervalSet touched;  // bytes that may differ from the leaves that `job` is held to
  SidecarContents contents;
  std::unique_ptr<Sidecar> fresh;
};

/// One call of Protect() for a set. FileSet::Protect() calls the functions below in the order of their declarations.
/// facts_, groups_, uuid_, the flags, and the geometry in options_ are the same on all ranks. own_ is local.
class FileSet : public Protector {
 public:
  using Protector::Protector;

 protected:
  Status Protect() override;
  /// In the communicators of the groups. Ranks that belong to several groups take part in each, in the same order.
  Status MeasureExchange(double seconds) override;

 private:
  // Decides whether this commit continues the committed set or makes a new set. Collective.
  Status ChooseSet();

  /// Takes all present files as members. Returns kIo if a rank between 0 and p-1 has no file. Local.
  Status FindMembers();

  /// Sends the owners' facts of the members to all ranks. Returns kInvalidArgument if the options of ranks differ.
  Status GatherFacts();
  /// Keeps the failure domains of the last commit. Local.
  void KeepDomains();

  // Computes the total size and the largest size of members, and agrees on the block size. Collective.
  Status AgreeOnSizes();

  // Keeps the groups of the last commit, or deals the members across failure domains. Local.
  Status ChooseGroups();

  // Warns if the groups give less protection than the options asked for.
  void Warn(const Grouping& dealt, std::size_t domains);

  // Warns if, in groups that are kept, more members than before share a failure domain. The commit records the new domains,
  // so this warning comes once.
  void WarnOfMoves();
  // With stripe=servers: returns the server that has all of the member, else an empty string. Local.
  std::string ServerOfMember(const FileView& file) const;
  // The kind of failure domain, for messages.
  const char* DomainKind() const;

  // Makes a layout for each group. All layouts have one unit, which follows from the largest member.
  Status MakeLayouts();

  // Fills in the new sidecars as far as possible before encoding. Trees get their size, but no leaves.
  Status MakeShapes();

  // Sets the Merkle path from a member to the root of the dataset. A set with one member has an empty path.
  static void SetPath(InfoRecord& info, const Tree& members, std::uint32_t rank);

  // Decides: encode only the touched rows, in place, or encode all rows into new sidecars. Collective.
  Status ChooseWay();

  // Opens the files that get the parity of this rank's members: the existing sidecars, or new ones. Local.
  Status OpenOutputs();

  // Makes a communicator of its owners for each group. All communicators exist before the first is used, so groups without
  // a common rank work at the same time.
  Status SplitGroups();

  // Encodes the rows, syncs the data, and checks that no file changed meanwhile.
  Status Encode();

  // Decides which captured leaves of this rank's member count. Local: the capture of one member does not affect other
  // members.
  void UseCapture();

  // Takes over the captured leaves. If a captured leaf differs from the bytes that were encoded, forsakes the parity of its
  // row. Collective, but each rank returns its own status.
  Status TakeCaptured();

  // Records that the rows of these blocks have no parity. Local.
  void Forsake(const RottenBlocks& by_rank);

  // Encodes the touched rows, or all rows. Groups without a common rank work at the same time, so a rank continues after an
  // error, and all ranks agree on the status at the end.
  Status EncodeGroups(const std::map<std::uint32_t, IntervalSet>& touched, bool all);

  Status EncodeGroup(Group& group, const std::map<std::uint32_t, IntervalSet>& touched, bool all);

  // True if each owner hashes its member alone. This is so without parity, in a program. lzy-protect may have thousands of
  // members on one rank, so it deals their rows to all ranks.
  bool IsHashedAlone() const { return parity_ == 0 && request_.touched.has_value(); }

  // Hashes the members of this rank, except for captured blocks. Local.
  Status HashMembers(const std::map<std::uint32_t, IntervalSet>& touched, bool all);

  // Rebuilds rotten blocks of members that were shared files before, with the parity of their own sidecars. Local.
  Status RebuildFromFormer();

  // Rebuilds rotten blocks with the old parity where possible, and encodes their rows again.
  Status HandleRot();

  // Computes the roots, builds the tree over all members, and commits in two phases.
  Status Commit();

  // Gathers the roots of all members, and writes them into the sidecar contents of this rank's members.
  Status FillContents();

  // Returns the uuids of sets that this commit replaces completely: every member of the set takes part in this commit, and
  // was not edited or is a member of the set that is committed again. The same on every rank.
  Result<std::set<Uuid>> ReplacedSets();

  // Removes new sidecars after a failure. Does nothing once publishing has begun.
  void RemoveTemporaries();

  // Calls fn(group, index of the member in the group, rank, member) for each member that this rank owns. Stops at the first
  // error.
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
  bool same_set_ = false;      // the set keeps its uuid
  bool on_servers_ = false;  // failure domains are servers of the file system
  bool grown_ = false;         // added_ is not empty
  std::vector<FileView*> added_;  // members that the committed set did not have
  bool regroup_ = true;        // members are dealt to groups anew
  bool incremental_ = false;   // encode only touched rows, in the existing sidecars
  bool publishing_ = false;    // a sidecar may have its final name already
  std::uint64_t largest_member_ = 0;
  std::uint32_t block_size_ = 0;
  std::uint32_t parity_ = 0;
  std::uint32_t largest_group_ = 0;
  std::uint64_t total_bytes_ = 0;
  std::uint64_t generation_ = 1;
  std::map<std::uint32_t, MemberFacts> facts_;
  std::map<std::uint32_t, OwnMember> own_;
  std::vector<Interval> captured_;  // blocks of this rank's only member whose captured leaves count
  Rot rot_;
  std::vector<Group> groups_;
  Uuid uuid_{};
  SidecarContents any_contents_;  // fields that all members have in common, for the report
};

}  // namespace lzy
