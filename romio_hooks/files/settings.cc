#include "hooks/files/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <string_view>

namespace lzy::hooks {
namespace {

constexpr std::string_view kHintPrefix = "lzy_";
/// Options that decide which files are protected, and what happens if one cannot be.
constexpr std::array<std::string_view, 4> kOfTrouble = {"include", "exclude", "on-error", "log"};

Settings ReadEnvironment() {
  Settings settings;
  std::error_code ignored;
  const std::filesystem::path directory = std::filesystem::current_path(ignored);
  settings.directory = directory.empty() ? std::string(1, '/') : directory.string();
  settings.status = ApplyEnvironment(settings.options);
  if (settings.status.ok()) settings.status = CheckOptions(settings.options);
  for (const OptionSpec& spec : OptionSpecs()) {
    const char* value = std::getenv(EnvironmentName(spec.name).c_str());
    if (value == nullptr) continue;
    // The program may change its directory before the key file is read, so make its path absolute now.
    const bool of_directory = std::string_view(spec.name) == "key" && *value != '/';
    settings.texts.push_back({spec.name, (of_directory ? settings.directory + "/" : std::string()) + value});
  }
  return settings;
}

/// "lzy_block_size" -> "block-size"
std::string OptionOfHint(std::string_view hint) {
  std::string name(hint.substr(kHintPrefix.size()));
  std::ranges::replace(name, '_', '-');
  return name;
}

std::string HintValue(MPI_Info info, const char* key) {
  int length = 0;
  int found = 0;
  if (PMPI_Info_get_valuelen(info, key, &length, &found) != MPI_SUCCESS || !found) return {};
  std::string value(static_cast<std::size_t>(length) + 1, '\0');
  if (PMPI_Info_get(info, key, length, value.data(), &found) != MPI_SUCCESS || !found) return {};
  value.resize(static_cast<std::size_t>(length));
  return value;
}

/// All hints that begin with "lzy_", not validated.
OptionTexts HintsIn(MPI_Info info) {
  OptionTexts hints;
  int keys = 0;
  if (info == MPI_INFO_NULL || PMPI_Info_get_nkeys(info, &keys) != MPI_SUCCESS) return hints;
  for (int i = 0; i < keys; ++i) {
    std::array<char, MPI_MAX_INFO_KEY + 1> key{};
    if (PMPI_Info_get_nthkey(info, i, key.data()) != MPI_SUCCESS) continue;
    if (!std::string_view(key.data()).starts_with(kHintPrefix)) continue;
    hints.push_back({OptionOfHint(key.data()), HintValue(info, key.data())});
  }
  return hints;
}

}  // namespace

const Settings& EnvironmentSettings() {
  static const auto& settings = *new Settings(ReadEnvironment());  // never destroyed: files may close at exit
  return settings;
}

Result<OptionTexts> TextsWithHints(MPI_Info info) {
  const Settings& environment = EnvironmentSettings();
  LZY_RETURN_IF_ERROR(environment.status);
  OptionTexts texts = environment.texts;
  Options checked = environment.options;
  for (GivenOption& hint : HintsIn(info)) {
    LZY_RETURN_IF_ERROR(SetOption(checked, hint.name, hint.value, HintName(hint.name)));
    texts.push_back(std::move(hint));
  }
  LZY_RETURN_IF_ERROR(CheckOptions(checked));
  return texts;
}

OptionTexts UsableTexts(MPI_Info info) {
  OptionTexts texts;
  for (const auto& from : {EnvironmentSettings().texts, HintsIn(info)}) {
    for (const GivenOption& one : from) {
      const bool asked = std::ranges::find(kOfTrouble, one.name) != kOfTrouble.end();
      Options tried;
      if (asked && SetOption(tried, one.name, one.value).ok()) texts.push_back(one);
    }
  }
  return texts;
}

Result<Options> Parse(const OptionTexts& texts) {
  Options options;
  for (const GivenOption& one : texts) LZY_RETURN_IF_ERROR(SetOption(options, one.name, one.value));
  LZY_RETURN_IF_ERROR(CheckOptions(options));
  if (!options.report.empty() && options.report.front() != '/') {
    options.report = EnvironmentSettings().directory + "/" + options.report;
  }
  return options;
}

bool AnnouncesMembers(const Options& options) {
  const bool waits = !options.background && options.given.contains("commit");
  return !options.set.empty() && options.posix != Options::Posix::kOff && !waits;
}

void AddHints(MPI_Info info, const Options& options) {
  for (const OptionSpec& spec : OptionSpecs()) {
    const std::string value = OptionText(options, spec.name);
    if (value.empty() || value.size() >= MPI_MAX_INFO_VAL) continue;
    PMPI_Info_set(info, HintName(spec.name).c_str(), value.c_str());
  }
}

}  // namespace lzy::hooks
