#pragma once
// Names of sidecars and of lzy's other files (docs/format.md §1), and path patterns of sets (docs/format.md §10).
// Pure text: nothing here looks at a disk. names/lookup.h finds out which sidecar a file really has.

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"

namespace lzy {

// How the names of lzy's files begin. All are hidden files.
inline constexpr char kSidecarPrefix[] = ".LZY.";
inline constexpr char kNewSidecarPrefix[] = ".LZY-new.";
inline constexpr char kNewDataPrefix[] = ".LZY-data.";
inline constexpr char kCopyPrefix[] = ".LZY-copy.";
inline constexpr char kJournalPrefix[] = ".LZY-journal.";
inline constexpr char kIndexPrefix[] = ".LZY-index.";
inline constexpr char kTemporaryPrefix[] = ".LZY-tmp.";
inline constexpr char kPartPrefix[] = ".LZY-part.";

/// The path of the sidecar of a data file, in the same directory. kInvalidArgument if the name leaves no room for lzy's
/// longest prefix. So if this succeeds, the temporary names below fit, too.
Result<std::string> SidecarPath(const std::string& data_path);
/// Temporary paths of a new sidecar, and of a lost data file that is being restored.
std::string NewSidecarPath(const std::string& data_path);
std::string NewDataPath(const std::string& data_path);
/// Temporary path of a copy of a data file, and path of the record of its progress.
std::string NewCopyPath(const std::string& data_path);
std::string CopyJournalPath(const std::string& data_path);
/// Temporary path of the sidecar of a copy. If a crash leaves it there after the data were renamed, it belongs to them.
std::string CopySidecarPath(const std::string& data_path);
/// The index of the objects of a data file (docs/format.md §15): "dir/.LZY-index.name". It belongs to the sidecar of the same
/// name, and goes where that goes.
std::string IndexPath(const std::string& data_path);
/// A random name, different at each call, for a sidecar that is renamed at once.
std::string TemporarySidecarPath(const std::string& sidecar_path);
/// The name of the parts of encoding `id` in the device directories. It is cut at 255 bytes, so it need not end in the
/// name of the data file.
std::string PartName(const std::string& data_path, std::uint64_t id);
/// "dir/.LZY.name" -> "dir/name"; nullopt if it is not the name of a sidecar. Temporary names are not.
std::optional<std::string> DataPathOf(const std::string& sidecar_path);
/// "dir/.LZY-tmp.N.name" -> "dir/name"; nullopt if it is no name of TemporarySidecarPath.
std::optional<std::string> DataPathOfTemporary(const std::string& path);
/// True for sidecars, parts and temporary names. Such files are never protected themselves.
bool IsLzyName(const std::string& base_name);

/// True if `pattern` has a placeholder for the rank: %r or %0<digits>r.
bool HasRankPlaceholder(const std::string& pattern);
/// kInvalidArgument, with the place in the pattern, unless every % begins %r, %0Nr or %%. Check patterns of users
/// first.
Status CheckPattern(const std::string& pattern);
/// The path of `rank`: %r in decimal, %04r zero-padded to four digits, %% a percent sign.
std::string ExpandPattern(const std::string& pattern, std::uint32_t rank);
/// The rank for which `path` is the expansion of `pattern`, if any.
/// Widths count: "a.7" is not of "a.%02r". The whole path is compared, with its directories.
std::optional<std::uint32_t> MatchPattern(const std::string& pattern, const std::string& path);
/// The part that a sidecar records: from the first component with a placeholder on ("/a/b.%r/c" -> "b.%r/c"). The base
/// name if there is no placeholder.
std::string PatternTail(const std::string& pattern);

}  // namespace lzy
