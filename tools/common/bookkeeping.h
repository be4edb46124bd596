#pragma once
// Writes the results of tools to the catalogue (catalog/catalog.h), for all tools. For rank 0.
//
// No result depends on the catalogue: after an error of the catalogue, one message is written, and the catalogue is not
// used any more.

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "catalog/catalog.h"
#include "request/options.h"
#include "request/report.h"

namespace lzy {

/// Path of the catalogue for these `options`; empty: none.
std::string CatalogInUse(const Options& options);

class Bookkeeping {
 public:
  /// Opens the catalogue that `options` name. `warn` is called at most once, with a complete sentence.
  Bookkeeping(std::string tool, const Options& options, std::function<void(const std::string&)> warn);

  /// Adds a report; it is written now or together with later ones. Sets tool, path and time of `note`.
  void Add(const DatasetReport& report, CatalogNote note);
  void Flush();
  /// Records the end of a run. `bytes`: data and parity that it read. `how`: its options.
  void AddRun(double seconds, std::uint64_t bytes, const std::string& how);

  /// Null if there is no catalogue, or after an error of the catalogue.
  Catalog* catalog() { return catalog_ ? &*catalog_ : nullptr; }
  /// Reports of flushed datasets that have news, with only the damage that was not known before. Without a catalogue all
  /// damage is news.
  const std::vector<DatasetReport>& news() const { return news_; }
  /// True if the options ask for a catalogue, but it cannot be used.
  bool failed() const { return failed_; }
  /// Adds news that are not in a report of the engine.
  void AddNews(DatasetReport report) { news_.push_back(std::move(report)); }
  /// Reports an error of the catalogue, and stops using it.
  void Drop(const Status& status);

 private:
  std::string tool_;
  bool failed_ = false;
  std::function<void(const std::string&)> warn_;
  std::optional<Catalog> catalog_;
  std::vector<std::pair<CatalogNote, DatasetReport>> pending_;
  std::chrono::steady_clock::time_point flushed_ = std::chrono::steady_clock::now();
  std::vector<DatasetReport> news_;
};

/// The directories in which the catalogue knows protected files, up to a few thousand. Empty if it cannot be read.
std::vector<std::string> DirectoriesInCatalog(const Options& options);
/// The protected files that the catalogue knows, by size: a few thousand of each size. Of sets, those whose members have equal sizes.
class FilesInCatalog {
 public:
  explicit FilesInCatalog(const Options& options) : options_(options) {}
  /// Reads the catalogue at the first call.
  std::vector<std::string> OfSize(std::uint64_t bytes);

 private:
  struct Known {
    std::string path;
    std::uint32_t members = 0;  // 0: a single file
  };
  const Options& options_;
  std::optional<std::multimap<std::uint64_t, Known>> by_size_;
};

}  // namespace lzy
