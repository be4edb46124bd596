#pragma once
// The command line of a tool: options that all tools have, options of the engine's table that this one takes, and its
// own. Used by RunTool (tool.cc) and lzy-run. CLI11 does the parsing; the texts of errors are lzy's. Local: no
// communication, and nothing is printed. Only arguments.cc includes CLI11, which takes seconds to compile.

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "request/options.h"

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace lzy {

inline constexpr int kExitUsage = 3;  ///< docs/reference/tools.md "Exit codes"

/// First add options and PATHs, then call Parse once, then read the members and MakeOptions(). CLI11 keeps pointers into
/// this object, so it must not move.
class Arguments {
 public:
  /// `tool` is the program's name; `summary` describes its purpose, `changes` the files that it modifies.
  Arguments(const std::string& tool, const std::string& summary, const std::string& changes);
  ~Arguments();

  /// Adds options that only this tool has. Call it before Parse, which sets `given` or fills `values`. An option with
  /// values may be repeated, with one value each time; --help calls a value `value_name`. `choices`: the accepted values,
  /// separated by spaces; they are for completions, and are not checked here.
  void AddFlag(const std::string& name, bool& given, const std::string& help);
  void AddValues(const std::string& name, const std::string& value_name, std::vector<std::string>& values,
                 const std::string& help, const std::string& choices = "");
  /// Adds options of the table (request/options.h) by their names. The constructor adds those of all tools.
  void AddTableOptions(const std::vector<std::string>& names);
  /// Accepts one or more PATHs; with `optional`, none as well. If `without` is given and returns true after parsing, no
  /// PATH is accepted. `help` describes a PATH; empty: a dataset.
  void AddPaths(const std::function<bool()>& without = {}, const std::string& help = "", bool optional = false);
  /// For lzy-run: the first word that is not an option begins a command. `usage`: the usage line; `footer`: the end of
  /// --help.
  void TakeCommand(const std::string& usage, const std::string& footer);
  /// For a tool whose codes 0 to 9 mean something else than those of lzy-verify: what --help says of them.
  void SetExitCodes(const std::string& codes);
  /// Hides an option from --help. It is still accepted.
  void Hide(const std::string& name);

  /// If `exit_code` has a value, the tool shall print `output` on stdout and `error` on stderr, and exit. This is so after
  /// --help, --version, and errors.
  struct Outcome {
    std::optional<int> exit_code;
    std::string output;
    std::string error;
  };
  /// Parses the command line. Values of table options are not checked here; MakeOptions does that. `--describe` alone,
  /// which --help does not show, prints Describe().
  Outcome Parse(int argc, const char* const* argv);
  /// The message for an option that does not exist: "--partiy: there is no such option; did you mean --parity? (see
  /// ...)".
  std::string UnknownOption(const std::string& word) const;

  /// The engine's options: command line before environment before default. kInvalidArgument, with lzy's own text, for
  /// values that are not accepted or do not go together.
  Result<Options> MakeOptions() const;
  /// An option of the table and its text, as it was given on the command line.
  struct Given {
    std::string name;  ///< its name in the table
    std::string value;
  };
  /// The contents of --help for programs, which make man pages and completions from it (tools/pages). Lines of fields that
  /// are separated by tabs:
  ///   tool NAME | summary TEXT | changes TEXT | usage TEXT | option NAMES VALUE VARIABLE CHOICES ACCEPTS HELP
  /// NAMES is "-q,--quiet". VALUE is empty for a switch. CHOICES are separated by spaces. VARIABLE and ACCEPTS are empty
  /// for options that are not in the table.
  std::string Describe() const;
  /// The options of the table that were given on the command line. A list option that was given several times is one
  /// entry, joined by ":".
  std::vector<Given> given() const;

  /// The words of the command, after TakeCommand and Parse. A "--" before the command is the first of them.
  std::vector<std::string> command() const;

  /// Parsed values of the options that all tools have.
  bool json = false;
  bool quiet = false;
  bool no_progress = false;
  std::vector<std::string> paths;

 private:
  /// The values that CLI11 collects for an option of the table.
  struct TableOption {
    std::string name;
    bool list = false;
    std::vector<std::string> values;
  };
  void AddTableOption(const OptionSpec& spec);
  /// The texts of CLI11's errors, in lzy's words.
  std::string ErrorText(const CLI::ParseError& error) const;

  const std::string tool_;
  const std::string summary_;
  const std::string changes_;
  /// Behind the options; empty: the PATHs.
  std::string usage_;
  bool needs_paths_ = false;
  /// Null: PATHs are required.
  std::function<bool()> without_paths_;
  const std::unique_ptr<CLI::App> app_;
  /// A list, because CLI11 keeps pointers into it.
  std::list<TableOption> table_;
  /// Choices of options that are not in the table.
  std::map<std::string, std::string> choices_;
};

}  // namespace lzy
