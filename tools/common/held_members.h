#pragma once
// Where the content of lost members of a set is now: they were renamed, moved or copied, or protected under other names. For the advice of
// reports.
//
// Local to one process; nothing is written. Only members that are missing, or damaged beyond repair, cost anything: then the files of the
// committed size are read that are beside the sidecar or in reach. If the sidecar of a member is lost, too, files are read as a whole, but
// only those whose own sidecars do not prove another content, and each once for all members.

#include <string>
#include <vector>

#include "base/file.h"
#include "merkle/leaf_key.h"
#include "request/report.h"

namespace lzy {

/// A file that holds what a member of a set was at the last commit.
struct HeldMember {
  std::string place;      ///< path of the member
  std::string copy;       ///< path of the file
  std::string sidecar;    ///< the member's sidecar, if it has the name of the copy: then both are moved together; else empty
  bool stays = false;     ///< the copy has a sidecar of its own, or the name of another member: it is copied, not moved
  std::string away;       ///< if the member exists, and is damaged: a free name for it; else empty
};

/// The members of a set that lack data, and that other files hold. `beyond`: also members that exist and are damaged beyond repair, and
/// files that stay where they are; false: only members that were moved, so files with a place of their own are not opened.
/// `key`: of a sealed set. Nothing for a shared file, or if very many members are lost.
std::vector<HeldMember> FindHeldMembers(FileSystem& fs, const DatasetReport& report, bool beyond, const LeafKey* key);

/// A line that names these files, with one command that gives the members their names or contents back. The command overwrites nothing, and
/// moves all of them, so a set that was renamed as a whole is not torn apart. Empty if there are none.
std::string HeldMembersText(const std::vector<HeldMember>& held);

/// Lines for a set of which all members have other names now, and these make one pattern: it was renamed as a whole. Empty in other cases.
/// `repeated`: see ReportWords.
std::string RenamedSetText(const DatasetReport& report, const std::vector<HeldMember>& held, const std::string& repeated);

}  // namespace lzy
