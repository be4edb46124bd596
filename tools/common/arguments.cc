// Options of a tool, by CLI11. Handles here what CLI11 does differently from lzy: list syntax, missing PATHs, texts of
// errors.

#include "common/arguments.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <sstream>
#include <string_view>

#include "base/nearest.h"

namespace lzy {
namespace {

// For --help. docs/reference/tools.md "Exit codes" has them in full.
constexpr const char* kExitCodes =
    "0 intact, or repaired; 1 damaged, all of it repairable; 2 damaged beyond repair; 3 bad option or path;\n"
    "4 no usable sidecar; 5 repair or restore failed; 6 I/O error or no permission; 7 internal or MPI error; 8 out of\n"
    "memory; 9 stale or at risk: changed since its last commit";

std::string Footer(const std::string& exit_codes) {
  return "Options may also be given as environment variables: --block-size as LZY_BLOCK_SIZE.\nExit codes: " + exit_codes +
         ";\n130 and 143 interrupted by SIGINT and SIGTERM.";
}

/// CLI11 takes "[a,b]" for a list of two values. A file or a glob may have such a name, so it gets this character in
/// front while CLI11 has it.
constexpr char kGuard = '\x01';

std::string Guarded(const std::string& text) {
  const bool bracketed = text.size() > 1 && text.front() == '[' && text.back() == ']';
  return bracketed ? kGuard + text : text;
}
void Unguard(std::string& text) {
  if (!text.empty() && text.front() == kGuard) text.erase(0, 1);
}

// Options with lists as values: the lists of repeated options are joined. For all other options the last one counts.
constexpr std::string_view kLists[] = {"set", "drain", "include", "exclude", "device-dirs"};

}  // namespace

// The options of all tools: those here, and memory, threads, topology, exchange, log and key.
Arguments::Arguments(const std::string& tool, const std::string& summary, const std::string& changes)
    : tool_(tool),
      summary_(summary),
      changes_(changes),
      app_(std::make_unique<CLI::App>(summary + "\nChanges " + changes + ".", tool)) {
  app_->set_version_flag("--version", tool + " " LZY_VERSION, "print the version and exit");
  app_->set_help_flag("-h,--help", "print this and exit");
  app_->add_flag("--json", json, "print one JSON document on stdout, and nothing else there");
  app_->add_flag("-q,--quiet", quiet, "print errors only");
  app_->add_flag("--no-progress", no_progress, "show no progress on a terminal");
  SetExitCodes(kExitCodes);
  AddTableOptions({"memory", "threads", "topology", "exchange", "log", "key"});
}

Arguments::~Arguments() = default;

void Arguments::AddFlag(const std::string& name, bool& given, const std::string& help) {
  app_->add_flag(name, given, help);
}

// One value each time, so that PATHs behind it are not taken for values.
void Arguments::AddValues(const std::string& name, const std::string& value_name, std::vector<std::string>& values,
                          const std::string& help, const std::string& choices) {
  if (!choices.empty()) choices_[name] = choices;
  app_->add_option(name, values, help)
      ->type_name(value_name)
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void Arguments::TakeCommand(const std::string& usage, const std::string& footer) {
  usage_ = usage;
  app_->description(fmt::format("{} [options] {}\n\n{}", tool_, usage, app_->get_description()));
  app_->prefix_command();
  app_->footer(footer);
}

void Arguments::SetExitCodes(const std::string& codes) {
  app_->footer(Footer(codes));
}

void Arguments::Hide(const std::string& name) {
  app_->get_option(name)->group("");
}

std::vector<std::string> Arguments::command() const {
  return app_->remaining();
}

void Arguments::AddTableOptions(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    for (const OptionSpec& spec : OptionSpecs()) {
      if (name == spec.name) AddTableOption(spec);
    }
  }
}

// An option without a value is "on" if it is given. All others are kept as texts; the table turns them into values.
// So messages are the same for the command line, the environment and hints.
void Arguments::AddTableOption(const OptionSpec& spec) {
  TableOption& option = table_.emplace_back(TableOption{spec.name, false, {}});
  option.list = std::ranges::find(kLists, option.name) != std::end(kLists);
  if (*spec.value == '\0') {
    // Also accepts a value behind '=', as the environment does; the table checks it.
    app_->add_flag("--" + option.name, option.values, std::string(spec.help))
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
        ->transform([](const std::string& value) { return value == "true" ? "on" : value; });
    return;
  }
  app_->add_option("--" + option.name, option.values, std::string(spec.help))
      ->type_name(spec.value)
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(option.list ? CLI::MultiOptionPolicy::TakeAll : CLI::MultiOptionPolicy::TakeLast);
}

// CLI11 does not know that a PATH is required: it would report a missing PATH before an unknown option. Parse checks it.
void Arguments::AddPaths(const std::function<bool()>& without, const std::string& help, bool optional) {
  const std::string usual = "a file, a file-set pattern (name.%r), or a directory" + std::string(optional ? "" : "; at least one");
  app_->add_option("PATH", paths, help.empty() ? usual : help)->type_name("");
  needs_paths_ = !optional;
  without_paths_ = without;
}

std::string Arguments::Describe() const {
  // No text of --help has tabs. Its line ends are only for terminals.
  const auto line = [](std::string text) {
    std::ranges::replace(text, '\n', ' ');
    return text;
  };
  std::string options;
  std::string usage = usage_;
  for (const CLI::Option* option : app_->get_options()) {
    if (option->get_group().empty()) continue;
    if (option->get_positional()) {
      usage += fmt::format("{}{}{}", usage.empty() ? "" : " ", option->get_name(), option->get_items_expected_max() > 1 ? "..." : "");
      continue;
    }
    const std::string name = option->get_lnames().empty() ? "" : option->get_lnames().front();
    OptionSpec spec{"", "", "", ""};
    for (const OptionSpec& row : OptionSpecs()) {
      const bool of_table = std::ranges::any_of(table_, [&](const TableOption& known) { return known.name == row.name; });
      if (of_table && name == row.name) spec = row;
    }
    const auto own = choices_.find("--" + name);
    const std::string choices = own == choices_.end() ? spec.choices : own->second;
    const std::string variable = *spec.name == '\0' ? "" : EnvironmentName(name);
    std::string names;
    for (const std::string& each : option->get_snames()) names += "-" + each + ",";
    for (const std::string& each : option->get_lnames()) names += "--" + each + ",";
    if (!names.empty()) names.pop_back();
    options += fmt::format("option\t{}\t{}\t{}\t{}\t{}\t{}\n", names,
                           option->get_items_expected_max() == 0 ? "" : option->get_type_name(), variable, choices,
                           spec.accepts, line(option->get_description()));
  }
  return fmt::format("tool\t{}\nsummary\t{}\nchanges\t{}\nusage\t{}\n{}", tool_, line(summary_), line(changes_), usage,
                     options);
}

Arguments::Outcome Arguments::Parse(int argc, const char* const* argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--describe") return {0, Describe(), ""};
  std::vector<std::string> words;
  // CLI11 wants the last word first.
  for (int i = argc - 1; i > 0; --i) words.push_back(Guarded(argv[i]));
  try {
    app_->parse(std::move(words));
    const bool without = without_paths_ && without_paths_();
    // Throws CLI11's own error, so that the message has the usual form.
    if (needs_paths_ && !without && paths.empty()) throw CLI::RequiredError("PATH");
    for (std::string& path : paths) Unguard(path);
    for (TableOption& option : table_) {
      for (std::string& value : option.values) Unguard(value);
    }
    if (without && !paths.empty()) {
      return {
          kExitUsage, "",
          fmt::format("'{}' is not accepted: this option takes no PATH (see {} --help)", paths[0], tool_)};
    }
    return {};
  } catch (const CLI::ParseError& error) {
    // Exit code 0 is --help or --version, which CLI11 reports as errors.
    std::ostringstream output, ignored;
    if (error.get_exit_code() == 0) {
      app_->exit(error, output, ignored);
      return {0, output.str(), ""};
    }
    return {kExitUsage, "", ErrorText(error)};
  }
}

// Suggests the option with the nearest name, if one is near enough.
std::string Arguments::UnknownOption(const std::string& word) const {
  const std::string name = word.substr(0, word.find('='));
  std::vector<std::string> known;
  for (const CLI::Option* option : app_->get_options()) {
    for (const std::string& each : option->get_lnames()) known.push_back(each);
  }
  const std::string nearest = Nearest(name.substr(std::min<std::size_t>(2, name.size())), known);
  return fmt::format("{}: there is no such option{} (see {} --help)", name,
                     nearest.empty() ? "" : fmt::format("; did you mean --{}?", nearest), tool_);
}

std::string Arguments::ErrorText(const CLI::ParseError& error) const {
  const std::string text = error.what();
  // CLI11 says "The following argument was not expected: --partiy". Only the first word is named.
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError)) {
    const std::string first = text.substr(text.rfind(": ") + 2);
    if (!first.starts_with('-')) return fmt::format("'{}' is not accepted: {} takes no PATH (see {} --help)", first, tool_, tool_);
    return UnknownOption(first.substr(0, first.find(' ')));
  }
  // An option without its value: the message says what would be accepted.
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ArgumentMismatch) && text.starts_with("--")) {
    const std::string name = text.substr(2, text.find(':') - 2);
    for (const OptionSpec& spec : OptionSpecs()) {
      if (name == spec.name) return fmt::format("--{}: no value is given: {}", name, spec.accepts);
    }
    return fmt::format("--{}: no value is given (see {} --help)", name, tool_);
  }
  return fmt::format("{} (see {} --help)", text, tool_);
}

// A list option that was given several times is one list.
std::vector<Arguments::Given> Arguments::given() const {
  std::vector<Given> out;
  for (const TableOption& option : table_) {
    if (option.values.empty()) continue;
    out.push_back({option.name, option.list ? fmt::format("{}", fmt::join(option.values, ":")) : option.values.back()});
  }
  return out;
}

// Later settings replace earlier ones. The checks of options against each other come last.
Result<Options> Arguments::MakeOptions() const {
  Options options;
  LZY_RETURN_IF_ERROR(ApplyEnvironment(options));
  for (const Given& option : given()) LZY_RETURN_IF_ERROR(SetOption(options, option.name, option.value));
  LZY_RETURN_IF_ERROR(CheckOptions(options));
  return options;
}

}  // namespace lzy
