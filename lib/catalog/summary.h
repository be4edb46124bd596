#pragma once
// What the catalogue says, put together for people and for monitoring. Pure: the caller reads the catalogue.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "catalog/catalog.h"

namespace lzy {

/// What a summary is made of.
struct CatalogSummaryInput {
  std::vector<CatalogDataset> datasets;
  std::vector<CatalogPlace> places;
  std::optional<CatalogEvent> last_scrub;
  std::int64_t now = 0;
};

/// Datasets that are gone are counted nowhere. Those that vanished are counted by state only: they have no bytes any more,
/// and cannot be verified. A time after `now` is that of a clock that was set back since, or of a node whose clock is
/// ahead: nobody knows when it was, so it counts as never (as for PlanScrub).
struct CatalogSummary {
  std::int64_t now = 0;
  /// By state; states that no dataset has are there, too.
  std::map<std::string, std::uint64_t> states;
  std::uint64_t datasets = 0, bytes = 0, sidecar_bytes = 0;
  std::uint64_t never_verified = 0;
  std::uint64_t verified_in_future = 0;  ///< how many of them have such a time
  /// The dataset that was verified longest ago; of those that never were, the one known longest. Null: there is none.
  const CatalogDataset* oldest = nullptr;
  std::int64_t oldest_ns = 0;  ///< how long ago that was
  std::vector<const CatalogDataset*> not_intact;  ///< the gravest first: 2, 1, vanished, 6, 9, 4; then by path
  std::uint64_t damage_found = 0, damage_open = 0;
  std::vector<CatalogPlace> places;  ///< as given
  std::optional<CatalogEvent> last_scrub;
};

/// When `dataset` was last verified; 0: never, or at a time after `now`.
std::int64_t VerifiedBefore(const CatalogDataset& dataset, std::int64_t now);

/// The pointers are into `input`.
CatalogSummary SummarizeCatalog(const CatalogSummaryInput& input);

/// In the text format of Prometheus' node_exporter (textfile collector).
std::string PrometheusText(const CatalogSummary& summary);

/// "3 of 4 new damages are at n7: look there for failing hardware"; empty: no place stands out.
std::string SuspectText(const CatalogSummary& summary);

}  // namespace lzy
