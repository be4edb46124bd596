#pragma once
// Names of sidecars and of lzy's other files (docs/format.md §1), and path patterns of sets (docs/format.md §10).
// All functions only compute names, without disk access. names/lookup.h finds the sidecar that a file really has.

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"

namespace lzy {

// First characters of the names of lzy's files. All are hidden files.
inline constexpr char kSidecarPrefix[] = ".LZY.";
inline constexpr char kNewSidecarPrefix[] = ".LZY-new.";
inline constexpr char kNewDataPrefix[] = ".LZY-data.";
inline constexpr char kCopyPrefix[] = ".LZY-copy.";
inline constexpr char kJournalPrefix[] = ".LZY-journal.";
inline constexpr char kIndexPrefix[] = ".LZY-index.";
inline constexpr char kTemporaryPrefix[] = ".LZY-tmp.";
inline constexpr char kPartPrefix[] = ".LZY-part.";

/// The path of the sidecar of a data file, in the same directory. kInvalidArgument if the name is so long that lzy's
/// longest prefix does not fit. So after success, the temporary names below fit, too.
Result<std::string> SidecarPath(const std::string& data_path);
/// Temporary paths of a new sidecar, and of a lost data file that is being restored.
std::string NewSidecarPath(const std::string& data_path);
std::string NewDataPath(const std::string& data_path);
/// Temporary path of a copy of a data file, and path of the record of its progress.
std::string NewCopyPath(const std::string& data_path);
std::string CopyJournalPath(const std::string& data_path);
/// Temporary path of the sidecar of a copy. If a crash leaves it after the data were renamed, it is the sidecar of these
/// data.
std::string CopySidecarPath(const std::string& data_path);
/// The index of the objects of a data file (docs/format.md §15): "dir/.LZY-index.name". It belongs to the sidecar with the
/// same name, and is moved and removed with it.
std::string IndexPath(const std::string& data_path);
/// A random temporary name, different at each call, for a sidecar that is renamed at once.
std::string TemporarySidecarPath(const std::string& sidecar_path);
/// The name of the parts of encoding `id` in the device directories. It is truncated to 255 bytes, so it may not contain
/// the whole name of the data file.
std::string PartName(const std::string& data_path, std::uint64_t id);
/// "dir/.LZY.name" -> "dir/name"; nullopt for any other name, also a temporary one.
std::optional<std::string> DataPathOf(const std::string& sidecar_path);
/// "dir/.LZY-tmp.N.name" -> "dir/name"; nullopt for any name that TemporarySidecarPath does not make.
std::optional<std::string> DataPathOfTemporary(const std::string& path);
/// True for sidecars, parts and temporary names. Such files are never protected themselves.
bool IsLzyName(const std::string& base_name);

/// True if `pattern` has a placeholder for the rank: %r or %0<digits>r.
bool HasRankPlaceholder(const std::string& pattern);
/// kInvalidArgument, with the position, unless every % begins %r, %0Nr or %%. Call it for patterns of users before the
/// functions below.
Status CheckPattern(const std::string& pattern);
/// The path of `rank`: %r in decimal, %04r zero-padded to four digits, %% a percent sign.
std::string ExpandPattern(const std::string& pattern, std::uint32_t rank);
/// The rank for which `path` is the expansion of `pattern`, if any. Compares the whole path, with its directories and the
/// width of numbers: "a.7" does not match "a.%02r".
std::optional<std::uint32_t> MatchPattern(const std::string& pattern, const std::string& path);
/// The part of a pattern that a sidecar records: from the first component with a placeholder on ("/a/b.%r/c" -> "b.%r/c").
/// Without a placeholder: the base name.
std::string PatternTail(const std::string& pattern);

}  // namespace lzy
