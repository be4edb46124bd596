#include <array>
#include <string_view>

#include "fuzz/targets.h"
#include "base/file.h"
#include "names/set_names.h"
#include "request/options.h"
#include "sidecar/names.h"

namespace lzy::fuzz {
namespace {

/// Three texts, which lie between zero bytes.
std::array<std::string, 3> Texts(const std::uint8_t* bytes, std::size_t size) {
  std::array<std::string, 3> texts;
  std::size_t at = 0;
  for (std::size_t i = 0; i < size && at < texts.size(); ++i) {
    if (bytes[i] == 0 && at + 1 < texts.size()) {
      ++at;
    } else {
      texts[at] += static_cast<char>(bytes[i]);
    }
  }
  return texts;
}

void CheckSetPattern(const std::string& pattern, const std::string& path, std::uint32_t rank) {
  if (!CheckPattern(pattern).ok()) return;
  const std::string expanded = ExpandPattern(pattern, rank);
  if (HasRankPlaceholder(pattern)) {
    const auto found = MatchPattern(pattern, expanded);
    Require(found.has_value() && ExpandPattern(pattern, *found) == expanded, "a pattern matches its own expansion");
    Require(HasRankPlaceholder(PatternTail(pattern)), "the tail of a pattern has its placeholder");
  }
  if (const auto found = MatchPattern(pattern, path)) {
    Require(ExpandPattern(pattern, *found) == path, "a path is the expansion for the rank it matches");
  }
  (void)PatternFromTail(path, pattern, rank);
}

void CheckNames(const std::string& path, std::uint32_t rank) {
  const std::string escaped = EscapePercent(path);
  Require(ExpandPattern(escaped, rank) == path, "what is escaped means itself");
  for (const std::string& pattern : GuessPatterns(path, rank)) {
    Require(ExpandPattern(pattern, rank) == path, "a guessed pattern leads to the path");
  }
  if (const auto sidecar = SidecarPath(path); sidecar.ok()) (void)DataPathOf(*sidecar);
  (void)Components(path);
}

void CheckOptionValues(const std::string& value) {
  for (const OptionSpec& spec : OptionSpecs()) {
    Options options;
    if (!SetOption(options, spec.name, value).ok()) continue;
    const std::string text = OptionText(options, spec.name);
    Options again;
    if (text.empty()) continue;
    Require(SetOption(again, spec.name, text).ok(), "an option's text is accepted");
    Require(OptionText(again, spec.name) == text, "an option's text means the option");
    (void)CheckOptions(options);
  }
  if (const auto size = ParseSize(value)) (void)FormatSize(*size);
}

void Run(const std::uint8_t* bytes, std::size_t size) {
  if (size > 4096) return;
  const auto [pattern, path, value] = Texts(bytes, size);
  const std::uint32_t rank = static_cast<std::uint32_t>(size) * 37 % 1000;
  CheckSetPattern(pattern, path, rank);
  CheckNames(path, rank);
  CheckOptionValues(value);
  Options options;
  options.include = {pattern};
  options.exclude = {value};
  (void)IsSelected(options, "/" + path);
  constexpr std::size_t kLongestName = 255;
  (void)MatchComponent(pattern, path.substr(0, kLongestName), std::nullopt);
}

std::vector<Input> Seeds() {
  using namespace std::string_view_literals;
  std::vector<Input> seeds;
  for (const std::string_view text :
       {"state.%r\0state.17\0004K"sv, "node%04r/a*b\0node0003/a-b\0on"sv, "%%%r\0%9\0a:b"sv, "*.dat\0x.dat\00016M"sv,
        "a*b*c*%r\0aabbcc1\0warn"sv, "****************x\0yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\0on"sv, "d%r/%r\0d2/2\0001"sv}) {
    seeds.emplace_back(text.begin(), text.end());
  }
  return seeds;
}

}  // namespace

const Target kNames{"names", Run, Seeds};

}  // namespace lzy::fuzz
