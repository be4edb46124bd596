#pragma once
// Summarises the catalogue for people and for monitoring. No I/O: the caller reads the catalogue.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "catalog/catalog.h"

namespace lzy {

/// The input of a summary.
struct CatalogSummaryInput {
  std::vector<CatalogDataset> datasets;
  std::vector<CatalogPlace> places;
  std::optional<CatalogEvent> last_scrub;
  std::int64_t now = 0;
};

/// A summary. Datasets in state "gone" are not counted. Those in state "vanished" are counted by state only: they have no
/// bytes, and cannot be verified. A time after `now` counts as never, as for PlanScrub: the clock was set back since, or a
/// node's clock is ahead.
struct CatalogSummary {
  std::int64_t now = 0;
  /// Number of datasets by state, including states that no dataset has.
  std::map<std::string, std::uint64_t> states;
  std::uint64_t datasets = 0, bytes = 0, sidecar_bytes = 0;
  std::uint64_t never_verified = 0;
  std::uint64_t verified_in_future = 0;  ///< number of datasets whose time of verification is after `now`
  /// The dataset that was verified longest ago. Of those that never were, the one that has been known longest. Null if there
  /// is none.
  const CatalogDataset* oldest = nullptr;
  std::int64_t oldest_ns = 0;  ///< age of that time
  std::vector<const CatalogDataset*> not_intact;  ///< the gravest first: 2, 1, vanished, 6, 9, 4; then by path
  std::uint64_t damage_found = 0, damage_open = 0;
  std::vector<CatalogPlace> places;  ///< as in the input
  std::optional<CatalogEvent> last_scrub;
};

/// When `dataset` was last verified; 0: never, or at a time after `now`.
std::int64_t VerifiedBefore(const CatalogDataset& dataset, std::int64_t now);

/// Summarises `input`, which must outlive the result.
CatalogSummary SummarizeCatalog(const CatalogSummaryInput& input);

/// The summary in the text format of Prometheus' node_exporter (textfile collector).
std::string PrometheusText(const CatalogSummary& summary);

/// A text such as "3 of 4 new damages are at n7: look there for failing hardware". Empty if no place stands out.
std::string SuspectText(const CatalogSummary& summary);

}  // namespace lzy
