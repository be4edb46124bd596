#include "judge/last_proof.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/printable.h"
#include "comm/records.h"
#include "judge/examine.h"
#include "names/content_match.h"
#include "names/holders.h"
#include "names/lookup.h"
#include "names/peek.h"
#include "names/reach.h"
#include "names/set_names.h"

namespace lzy {
namespace {

// `holder`: a file with the content that `file` had at its last commit.
struct HolderOf {
  std::string file, holder;
  bool rotten = false;  // it has most of that content only: it was renamed, and damaged
  bool lost_its_size = false;  // rotten: it was cut off, or has grown
  LZY_FIELDS(file, holder, rotten, lost_its_size)
};

// The sidecar that knows the last commit of `file`: the one that is used for it; or that of its rank in the set, if the member was
// renamed or moved and another file has its name, so that another sidecar is found for it. Empty: none.
std::string SidecarOfLastCommit(const Context& context, const DatasetView& view, const FileView& file) {
  if (file.sidecar_usable() || view.ref.kind == DatasetKind::kShared) return file.sidecar_path;
  const std::string directory = DirectoryOf(FollowLink(context.fs, file.path));
  Directory around(context.fs, directory);
  for (const std::string& name : around.Sidecars()) {
    const auto& peek = around.PeekAt(name);
    if (peek.ok() && peek->committed && peek->uuid == view.superblock.uuid && peek->rank == file.rank) return JoinPath(directory, name);
  }
  return SidecarOfMemberInReach(context.fs, directory, view.superblock.uuid, file.rank).value_or("");
}

// Only a file with the committed mtime could be mistaken for this one: from an archive, with a coarse clock, or written
// within the same tick. If two sets exchanged names, each proves the other, whatever the times are.
void AddHolder(const Context& context, const DatasetView& view, const FileView& file, bool only_rotten, std::vector<HolderOf>& mine) {
  const std::string real = FollowLink(context.fs, file.path);
  const Holders which = file.identity.Is(Identity::Kind::kProven) ? Holders::kProtected : Holders::kOfItsTime;
  const std::string sidecar = SidecarOfLastCommit(context, view, file);
  if (sidecar.empty()) return;
  const auto holder = file.sidecar_usable() && !only_rotten ? FindHolder(context.fs, sidecar, real, context.options.key.get(), which) : std::nullopt;
  const bool is_member = holder && std::ranges::any_of(view.ref.members, [&](const auto& member) {
    return FollowLink(context.fs, member.second) == holder->path;
  });
  if (holder && !is_member) mine.push_back({file.path, holder->path});
  if (holder) return;
  const auto rotten = FindRotten(context.fs, sidecar, real, context.options.key.get());
  if (!rotten) return;
  const auto stat = context.fs.Stat(*rotten, /*follow=*/false);
  const auto peek = PeekSidecar(context.fs, sidecar);
  mine.push_back({file.path, *rotten, /*rotten=*/true, stat.ok() && peek.ok() && stat->size != peek->stamp.size});
}

// A file was copied over another one, or two files were exchanged by copying. The next repair would take the new content
// for rot.
Status WarnOfHolders(const Context& context, const DatasetView& view, DatasetReport& report, bool only_rotten) {
  const bool shared = view.ref.kind == DatasetKind::kShared;
  std::vector<HolderOf> mine;
  std::set<std::uint32_t> edited;  // ranks of members
  for (const Damage& d : report.damage) {
    if (d.part == DamagePart::kData && IsEdit(d.cause)) edited.insert(d.device);
  }
  LZY_RETURN_IF_ERROR(AgreeOn(context.comm, [&] {
    for (const FileView& file : view.files()) {
      const int rank = context.comm.rank();
      const bool asked = shared ? rank == 0 : file.owner == rank && edited.contains(file.rank);
      if (asked) AddHolder(context, view, file, only_rotten, mine);
    }
  }));
  LZY_ASSIGN_OR_RETURN(const std::vector<HolderOf> all, UniteRecords(context.comm, mine));
  // A set cannot be committed without one of its files.
  const bool lacks_file = std::ranges::any_of(view.files(), [](const FileView& file) { return !file.present; });
  const std::string commit = lacks_file ? "" : fmt::format(". Or commit this one as it is: lzy-protect --force {}", ShellQuote(view.ref.path));
  for (const HolderOf& one : all) {
    report.another = true;
    const bool both = std::ranges::any_of(view.files(), [&](const FileView& file) {
      return file.path == one.file && file.identity.Is(Identity::Kind::kProven) && BaseNameOf(file.identity.name) == BaseNameOf(one.holder);
    });
    if (one.lost_its_size) {
      report.warnings.push_back(fmt::format("{}: '{}' is by its inode and time what this file was at its last commit, but it has another size: it was renamed, "
                                            "and is damaged. Only the parity of that commit can give its content back, and a commit replaces it. First "
                                            "give that file its name back, and repair it", one.file, one.holder));
      continue;
    }
    if (one.rotten) {
      report.warnings.push_back(fmt::format("{}: '{}' has the size and time of what this file was at its last commit, and most of its content: it was "
                                            "renamed, and is damaged. Only the parity of that commit can give its content back, and a commit replaces it. First "
                                            "give that file its name back, and repair it", one.file, one.holder));
      continue;
    }
    if (!both) {
      report.warnings.push_back(fmt::format("{}: '{}' holds what this file was at its last commit, and nothing else proves that. First commit "
                                            "that one, or give the files their contents back", one.file, one.holder));
      continue;
    }
    report.warnings.push_back(fmt::format("{}: it and '{}' hold what the other one was at its last commit, and nothing else proves that. Give the files "
                                          "their contents back{}", one.file, one.holder, commit));
  }
  return Status::Ok();
}

// True if a commit would take away what parity can still give: by size and mtime the file is as committed, and nobody knows
// whether it rotted before its content was copied and protected elsewhere, or whether somebody put that content here. The set of a
// member without a usable sidecar records its size and time. If a tool that keeps whole seconds put the file back, most of it must be as
// committed, as for any such file.
bool LooksUntouched(const Context& context, const FileView& file, bool shared) {
  if (!file.identity.Is(Identity::Kind::kProven) || !file.present || file.intent || (shared && !file.sidecar_usable())) return false;
  if (IsRacy(file.stamp, file.commit_clock_ns)) return false;
  if (HasSizeAndTime(file.stat, file.stamp)) return true;
  return WasPutBackInSeconds(file, file.stamp.size) &&
         (!file.sidecar_usable() || MayBeRot(context.fs, FollowLink(context.fs, file.path), file.sidecar_path, context.options.key.get()));
}

// True if another file has what `file` was at its last commit, and nothing shows that this one is what is left of it: then somebody put
// its content here.
bool IsReplaced(const Context& context, const FileView& file) {
  const std::string real = FollowLink(context.fs, file.path);
  const LeafKey* const key = context.options.key.get();
  return file.sidecar_usable() && IsHeldByAnother(context.fs, file.sidecar_path, real, key) &&
         !IsMostlyAs(context.fs, real, file.sidecar_path, key);
}

// True if `name`, that of an identity, means the file `path`: it is a path, or the end that a pattern has in common in all directories.
bool IsNameOf(FileSystem& fs, const std::string& name, const std::string& path) {
  return name == path || path.ends_with("/" + name) || RealPathOf(fs, name) == RealPathOf(fs, FollowLink(fs, path));
}

// Files that only their parity can give back, or that may be damaged. Members that exchanged their contents have each other's.
Status WarnOfLast(const Context& context, const DatasetView& view, DatasetReport& report) {
  if (report.cannot_undo) return Status::Ok();
  const bool shared = view.ref.kind == DatasetKind::kShared;
  // Of two members that have one content, one has lost its own.
  const auto is_second = [&](const FileView& file) {
    return !shared && file.present && !file.intent && file.identity.Is(Identity::Kind::kProven) &&
           std::ranges::any_of(view.files(), [&](const FileView& other) {
             return &other != &file && other.present && !other.identity.IsOther() && IsNameOf(context.fs, file.identity.name, other.path);
           });
  };
  const auto is_in_the_set = [&](const FileView& file) {
    return !shared && std::ranges::any_of(view.files(), [&](const FileView& other) {
      return &other != &file && other.identity.Is(Identity::Kind::kProven) && IsNameOf(context.fs, other.identity.name, file.path);
    });
  };
  // A file, and the holder of its present content.
  struct Held {
    std::string file, holder;
    bool second = false;
    LZY_FIELDS(file, holder, second)
  };
  std::vector<Held> mine;
  LZY_RETURN_IF_ERROR(AgreeOn(context.comm, [&] {
    for (const FileView& file : view.files()) {
      const bool here = shared ? context.comm.rank() == 0 : file.owner == context.comm.rank();
      const bool second = here && is_second(file);
      if (!here || is_in_the_set(file) || !(second || LooksUntouched(context, file, shared))) continue;
      if (!IsReplaced(context, file)) mine.push_back({file.path, file.identity.name, second});
    }
  }));
  LZY_ASSIGN_OR_RETURN(const std::vector<Held> all, UniteRecords(context.comm, mine));
  for (const Held& one : all) {
    report.another = true;
    if (one.second) {
      report.warnings.push_back(fmt::format("{0}: it has the content of '{1}', another member of the set, and no file has what it was itself at the "
                                            "last commit. The parity of that commit has it, and a commit replaces the parity. A repair keeps the "
                                            "present content as NAME.replaced", one.file, one.holder));
      continue;
    }
    // The commands for both follow in the advice, since this sets `another`.
    report.warnings.push_back(fmt::format("{0}: it has the size and time of its last commit, but the content of '{1}'. Either it was damaged before "
                                          "'{1}' was protected, or somebody put that content here. Its parity has what it was, and a commit "
                                          "replaces the parity. A repair keeps the present content as NAME.replaced", one.file, one.holder));
  }
  return Status::Ok();
}

// A member that was moved here with its sidecar may make the set here look older than it is. A commit of all files would
// dissolve that set.
Status WarnOfMixture(const Context& context, const DatasetView& view, DatasetReport& report) {
  struct Member {
    std::string path;
    std::uint32_t members = 0;  // of its set
    LZY_FIELDS(path, members)
  };
  std::vector<Member> mine;
  for (const FileView& file : view.files()) {
    if (view.ref.kind == DatasetKind::kShared || file.owner != context.comm.rank() || file.fault != SidecarFault::kForeign) continue;
    const auto peek = PeekSidecar(context.fs, file.sidecar_path);
    if (!peek.ok() || peek->kind != DatasetKind::kSet || peek->uuid == view.superblock.uuid || !HasSizeAndTime(file.stat, peek->stamp)) continue;
    if (PatternFromTail(file.path, peek->name, peek->rank) == view.ref.path) mine.push_back({file.path, peek->members});
  }
  LZY_ASSIGN_OR_RETURN(const auto all, UniteRecords(context.comm, mine));
  for (const Member& one : all) {
    report.another = true;
    report.warnings.push_back(fmt::format("{}: it is as another set of this name left it, of {} files: members of two sets are mixed here. Move away "
                                          "those that do not belong here, with their sidecars; or commit all as they are: lzy-protect --force {}",
                                          one.path, one.members, ShellQuote(view.ref.path)));
  }
  return Status::Ok();
}

}  // namespace

Status WarnWhyNotToCommit(const Context& context, const DatasetView& view, DatasetReport& report) {
  LZY_RETURN_IF_ERROR(WarnOfMixture(context, view, report));
  LZY_RETURN_IF_ERROR(WarnOfHolders(context, view, report, /*only_rotten=*/false));
  return WarnOfLast(context, view, report);
}

bool HasReplacedFile(const DatasetView& view) {
  return std::ranges::any_of(view.files(), [](const FileView& file) {
    return file.present && file.sidecar_usable() && !MayBe(file.stat, file.stamp);
  });
}

Status WarnOfRotten(const Context& context, const DatasetView& view, DatasetReport& report) {
  return WarnOfHolders(context, view, report, /*only_rotten=*/true);
}

}  // namespace lzy
