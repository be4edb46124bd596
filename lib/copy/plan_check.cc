#include "copy/plan_check.h"

#include <fmt/format.h>

#include <set>

#include "base/printable.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

// The names that the copies of the sources may have. Whether a source is a directory is known to the other process only.
std::set<std::string> TopNames(const ExpectedPlan& expected) {
  const bool into = expected.sources.size() > 1 || expected.destination.ends_with('/');
  std::set<std::string> names;
  if (into || expected.is_directory) {
    for (const std::string& source : expected.sources) names.insert(JoinPath(expected.destination, BaseNameOf(source)));
  }
  if (!into && (!expected.is_directory || expected.resume)) names.insert(expected.destination);
  return names;
}

Status Refuse(const std::string& what, const std::string& why) {
  return {Code::kWriteFailed, fmt::format("{}: the other end is not to be trusted, so nothing was copied: {}", Printable(what), why)};
}

// A name below a directory of the copy.
bool IsOrdinary(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('\0') == std::string::npos && !IsLzyName(name);
}

}  // namespace

Status CheckPlan(const CopyPlan& plan, const ExpectedPlan& expected) {
  if (plan.destination != expected.destination || plan.sight != expected.sight)
    return Refuse(expected.destination, "the other end has planned another copy");
  const std::set<std::string> tops = TopNames(expected);
  std::set<std::string> names, directories, files;
  const auto check = [&](const std::string& to) -> Status {
    if (!names.insert(to).second) return Refuse(to, "the other end wants to write it twice");
    if (tops.contains(to) || (directories.contains(DirectoryOf(to)) && IsOrdinary(BaseNameOf(to)))) return Status::Ok();
    return Refuse(to, "the other end wants to write it, but it is no copy of what was named");
  };
  for (const CopyPlan::Entry& directory : plan.directories) {
    LZY_RETURN_IF_ERROR(check(directory.to));
    directories.insert(directory.to);
  }
  for (const CopyPlan::Entry& file : plan.files) {
    LZY_RETURN_IF_ERROR(check(file.to));
    files.insert(file.to);
  }
  for (const CopyPlan::Entry& link : plan.links) LZY_RETURN_IF_ERROR(check(link.to));
  for (const CopyPlan::Entry& name : plan.further_names) {
    LZY_RETURN_IF_ERROR(check(name.to));
    if (!files.contains(name.from)) return Refuse(name.from, "the other end wants to give it another name, but it is no copy");
  }
  return Status::Ok();
}

}  // namespace lzy
