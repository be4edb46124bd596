#pragma once
// Names of sidecars (docs/format.md §1) and path patterns of sets.
#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"

namespace lzy {

inline constexpr char kSidecarPrefix[] = ".LZY.";
inline constexpr char kNewSidecarPrefix[] = ".LZY-new.";
inline constexpr char kNewDataPrefix[] = ".LZY-data.";
inline constexpr char kTemporaryPrefix[] = ".LZY-tmp.";
inline constexpr char kPartPrefix[] = ".LZY-part.";

/// The sidecar of a data file, and the temporary names used while it or its data are being built. kInvalidArgument for
/// names that leave no room for the prefix.
Result<std::string> SidecarPath(const std::string& data_path);
std::string NewSidecarPath(const std::string& data_path);
std::string NewDataPath(const std::string& data_path);
/// A name of this process's own, for what is renamed to the sidecar's at once.
std::string TemporarySidecarPath(const std::string& sidecar_path);
/// What the parts of encoding `id` of a data file are called in its device directories; a very long name is cut.
std::string PartName(const std::string& data_path, std::uint64_t id);
/// "dir/.LZY.name" -> "dir/name"; nullopt when it is not a sidecar's name.
std::optional<std::string> DataPathOf(const std::string& sidecar_path);
/// Sidecars and lzy's temporaries, which are never protected themselves.
bool IsLzyName(const std::string& base_name);

/// True when `pattern` has a rank placeholder: %r or %0<digits>r.
bool HasRankPlaceholder(const std::string& pattern);
/// kInvalidArgument unless every % begins %r, %0Nr or %%.
Status CheckPattern(const std::string& pattern);
/// The path of `rank`: %r in decimal, %04r zero-padded to four digits, %% a percent sign.
std::string ExpandPattern(const std::string& pattern, std::uint32_t rank);
/// The rank for which `path` is the expansion of `pattern`, if any.
std::optional<std::uint32_t> MatchPattern(const std::string& pattern, const std::string& path);
/// The part from the first component with a placeholder on: what a sidecar records ("/a/b.%r/c" -> "b.%r/c").
std::string PatternTail(const std::string& pattern);

}  // namespace lzy
