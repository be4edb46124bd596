#include "common/bookkeeping.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/file.h"
#include "sidecar/names.h"

namespace lzy {

std::string CatalogInUse(const Options& options) {
  if (options.catalog == "off") return "";
  return options.catalog.empty() ? Catalog::DefaultPath() : options.catalog;
}

Bookkeeping::Bookkeeping(std::string tool, const Options& options, std::function<void(const std::string&)> warn)
    : tool_(std::move(tool)), warn_(std::move(warn)) {
  if (options.catalog == "off") return;
  const std::string path = CatalogInUse(options);
  if (path.empty()) {
    Drop({Code::kNotFound, "neither XDG_STATE_HOME nor HOME is an absolute path; name a file with --catalog FILE"});
    return;
  }
  auto opened = Catalog::Open(path, DatabaseMode::kWrite);
  if (opened.ok()) {
    catalog_ = std::move(*opened);
  } else {
    Drop(opened.status());
  }
}

void Bookkeeping::Drop(const Status& status) {
  catalog_.reset();
  failed_ = true;
  warn_(fmt::format("the catalogue is not used, so lzy-status will not know of this: {}", status.message()));
}

// One transaction records many small datasets. Old findings must not wait for it.
void Bookkeeping::Add(const DatasetReport& report, CatalogNote note) {
  note.tool = tool_;
  note.path = CatalogPath(report.path, report.kind == DatasetKind::kSet);
  note.now = WallClockNs();
  pending_.emplace_back(std::move(note), report);
  constexpr std::size_t kMostPending = 1000;
  constexpr auto kLongest = std::chrono::milliseconds(500);
  if (pending_.size() >= kMostPending || std::chrono::steady_clock::now() - flushed_ > kLongest) Flush();
}

void Bookkeeping::Flush() {
  flushed_ = std::chrono::steady_clock::now();
  if (pending_.empty()) return;
  std::vector<CatalogNews> told;
  if (catalog_) {
    auto noted = catalog_->Note(pending_);
    if (noted.ok()) {
      told = std::move(*noted);
    } else {
      Drop(noted.status());
    }
  }
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    DatasetReport& report = pending_[i].second;
    std::erase_if(report.damage, [](const Damage& damage) { return !IsLastingDamage(damage); });
    const bool worse = told.empty() ? IsGrave(ExitCodeOf(report)) : told[i].worse;
    if (!told.empty()) report.damage = std::move(told[i].damage);
    if (worse || !report.damage.empty()) news_.push_back(std::move(report));
  }
  pending_.clear();
}

void Bookkeeping::AddRun(double seconds, std::uint64_t bytes, const std::string& how) {
  Flush();
  if (!catalog_) return;
  if (Status noted = catalog_->NoteRun(tool_, WallClockNs(), seconds, bytes, how); !noted.ok()) Drop(noted);
}

namespace {

// What the catalogue in use has; nothing if it cannot be read.
std::vector<CatalogDataset> DatasetsInCatalog(const Options& options) {
  const std::string path = CatalogInUse(options);
  auto catalog = path.empty() ? Result<Catalog>(Code::kNotFound, path) : Catalog::Open(path, DatabaseMode::kRead);
  const auto datasets = catalog.ok() ? catalog->Datasets() : Result<std::vector<CatalogDataset>>(catalog.status());
  return datasets.ok() ? *datasets : std::vector<CatalogDataset>();
}

}  // namespace

std::vector<std::string> DirectoriesInCatalog(const Options& options) {
  constexpr std::size_t kMost = 4096;
  std::set<std::string> directories;
  for (const CatalogDataset& dataset : DatasetsInCatalog(options)) {
    const bool many = dataset.kind == "set" && HasRankPlaceholder(DirectoryOf(dataset.path));
    for (std::uint32_t rank = 0; rank < (many ? dataset.devices : 1) && directories.size() < kMost; ++rank) {
      directories.insert(DirectoryOf(dataset.kind == "set" ? ExpandPattern(dataset.path, rank) : dataset.path));
    }
  }
  return {directories.begin(), directories.end()};
}

std::vector<std::string> FilesInCatalog::OfSize(std::uint64_t bytes) {
  constexpr std::size_t kMost = 4096;
  if (!by_size_) {
    by_size_.emplace();
    for (const CatalogDataset& dataset : DatasetsInCatalog(options_)) {
      const std::uint32_t members = dataset.kind == "set" ? dataset.devices : 0;
      if (dataset.kind != "set" || members > 0) by_size_->emplace(dataset.bytes / std::max(members, 1U), Known{dataset.path, members});
    }
  }
  std::vector<std::string> paths;
  const auto [begin, end] = by_size_->equal_range(bytes);
  for (auto at = begin; at != end; ++at) {
    const Known& known = at->second;
    for (std::uint32_t rank = 0; rank < std::max(known.members, 1U) && paths.size() < kMost; ++rank) {
      paths.push_back(known.members == 0 ? known.path : ExpandPattern(known.path, rank));
    }
  }
  return paths;
}

}  // namespace lzy
