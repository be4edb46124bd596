#pragma once
// Finds the files that a command under lzy-run wrote, and which of them are protected: for --sweep, --explain and
// --summary.
//
// It combines three exact sources. Two looks at directories (names/changes) show which files were made or changed, by
// whatever calls. Sidecars show which files are protected in their present state. The layer records which files were opened
// for writing with MPI-IO, or by other calls that it sees, and why some of them are not protected (request/opened_record).

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "names/changes.h"
#include "names/protect_paths.h"
#include "request/opened_record.h"
#include "request/options.h"

namespace lzy {

class Written {
 public:
  struct Wish {
    std::vector<std::string> sweep;  ///< directories; they may be made later
    bool explain = false;
    bool summary = false;
    bool any() const { return !sweep.empty() || explain || summary; }
  };

  Written(const Wish& wish, const Options& options);
  ~Written();
  Written(const Written&) = delete;
  Written& operator=(const Written&) = delete;

  /// kInvalidArgument: one of the directories of --sweep is not a directory.
  Status Check() const;
  /// Before the command: looks at the directories, and sets the variable that names the layer's file of records.
  void LookBefore();
  /// After the command: looks again.
  void LookAfter();
  /// Protects the files below the directories of --sweep that were made or changed and are not protected, with the program
  /// `lzy_protect`. Reports the result on stderr.
  void Sweep(const std::string& lzy_protect);
  /// Prints the requested information on stderr.
  void PrintRequested() const;
  /// Removes what LookBefore made. The destructor does it, too.
  void Clean();

 private:
  struct File {
    bool by_mpi_io = false;       ///< the layer recorded it
    bool by_plain_calls = false;  ///< the layer recorded it, as a file that option posix makes it see
    bool while_it_ran = false;    ///< it was protected when the command ended
    bool below_sweep = false;
    bool is_protected = false;    ///< it is protected in its present state
    std::string why_not;          ///< the obstacle to its protection; empty: none is known
    bool left_out = false;        ///< an option excludes it, or lzy-run itself writes it
  };
  /// Files with the same result, in one dataset or PATH.
  struct Group {
    std::string path;
    std::size_t files = 0;
    File file;
  };

  void Add(const std::string& path, const FileStat& stat);
  void JudgeAll();
  std::vector<std::string> ToSweep() const;
  void ReportSweep(std::size_t wanted) const;
  std::vector<Group> Groups() const;
  void Explain() const;
  void Summarize() const;
  static std::string Way(const File& file);
  /// States whether the file is protected. If it is not, gives the reason and the remedy.
  std::string Fate(const Group& group) const;
  /// The path relative to the current directory, if it is below it.
  std::string Shown(const std::string& path) const;
  std::set<std::string> Shown(const std::vector<std::string>& paths) const;
  /// The command that protects `paths` (as given by Shown). Replaces many paths with their directories.
  static std::string ProtectCommand(const std::set<std::string>& paths);

  FileSystem& fs_;
  const Wish wish_;
  const Options options_;
  const std::string here_;                ///< the current directory
  std::vector<std::string> sweep_;        ///< absolute, links resolved
  std::unique_ptr<TreeLook> before_;
  std::string records_;                   ///< file of the layer's records; empty: none
  std::int64_t began_ns_ = 0;
  std::map<std::string, File> files_;     ///< by path
  std::vector<Status> troubles_;
};

}  // namespace lzy
