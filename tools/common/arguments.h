#pragma once
// The command line of a tool: the options all of them take, those of the engine's table it wants, and its own.

#include <CLI/CLI.hpp>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "request/options.h"

namespace lzy {

inline constexpr int kExitUsage = 3;  ///< docs/reference/tools.md "Exit codes"

class Arguments {
 public:
  /// `tool` is the program's name; `summary` says what it does, `changes` what it modifies.
  Arguments(const std::string& tool, const std::string& summary, const std::string& changes);

  /// For options that only this tool has.
  CLI::App& app() { return app_; }
  /// Options of the table (request/options.h), besides memory, threads and log, which every tool has.
  void AddTableOptions(const std::vector<std::string>& names);
  /// PATHs; when `without` is given and true once all is parsed, there must be none.
  void AddPaths(const std::function<bool()>& without = {});

  /// When `exit_code` has a value the tool is done: `output` is for stdout, `error` for stderr.
  struct Outcome {
    std::optional<int> exit_code;
    std::string output;
    std::string error;
  };
  Outcome Parse(int argc, const char* const* argv);
  /// What to say about an option that there is not: "--partiy: there is no such option; did you mean --parity? (see ...)".
  std::string UnknownOption(const std::string& word) const;

  /// The engine's options: command line before environment before default, checked. With Spelled() below, what was
  /// given on the command line.
  Result<Options> MakeOptions() const;
  struct Given {
    std::string name;  ///< as in the table
    std::string value;
  };
  std::vector<Given> given() const;

  bool json = false;
  bool quiet = false;
  bool no_progress = false;
  std::vector<std::string> paths;

 private:
  struct TableOption {
    std::string name;
    bool list = false;
    std::vector<std::string> values;
  };
  void AddTableOption(const OptionSpec& spec);
  /// The texts of CLI11's errors, in the words of lzy's.
  std::string ErrorText(const CLI::ParseError& error) const;

  const std::string tool_;
  bool takes_paths_ = false;
  std::function<bool()> without_paths_;
  CLI::App app_;
  std::list<TableOption> table_;  // a list: CLI11 keeps pointers into it
};

}  // namespace lzy
