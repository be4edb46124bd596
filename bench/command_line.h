#pragma once
// The command lines of benchmarks under mpiexec, by CLI11. Apart from under_mpi.h, because SimGrid's macro `exit` does
// not go with CLI11 (scale/).

#include <CLI/CLI.hpp>
#include <optional>

#include "under_mpi.h"

/// Adds an option for a number of bytes, which may have a suffix such as k or M (of 1024). Its help shows the default.
template <class Size>
void AddSize(CLI::App& app, const char* name, Size& to, const char* help) {
  app.add_option(name, to, help)->transform(CLI::AsSizeValue(false))->capture_default_str();
}

/// Reads the command line. Returns the exit code if the program must end: after --help, or because of an error. Only
/// rank 0 prints.
inline std::optional<int> Parse(CLI::App& app, int argc, char** argv) {
  // All ranks have the same words, so all of them end, without a message to each other.
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return Rank() == 0 ? app.exit(error) : error.get_exit_code();
  }
  return std::nullopt;
}
