#include "catalog/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/printable.h"

namespace lzy {
namespace {

constexpr const char* kStates[] = {"intact", "damaged", "unrepairable", "stale", "at-risk", "unprotected", "unreadable", "vanished"};

// When the dataset was last verified; if never, when it became known.
std::int64_t VerifiedOrSeen(const CatalogDataset& dataset, std::int64_t now) {
  const std::int64_t verified = VerifiedBefore(dataset, now);
  return verified != 0 ? verified : std::min(dataset.first_seen, now);
}

// The order of exit codes, but "vanished" comes right after "damaged".
int Gravity(const CatalogDataset& dataset) {
  constexpr int kOrder[] = {2, 1, 6, 9, 4};
  const auto* const at = std::ranges::find(kOrder, dataset.exit_code);
  return dataset.state == "vanished" ? 3 : static_cast<int>(at - std::begin(kOrder)) * 2;
}

/// The value of a label in the format: UTF-8, with backslash and quote escaped. Control characters and other bytes become
/// \xNN, because one wrong byte would make the whole file unreadable.
std::string Label(const std::string& text) {
  std::string out;
  for (const char c : AsUtf8(Printable(text))) {
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

class Metrics {
 public:
  void Begin(const char* name, const char* type, const char* help) { out_ += fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, help); }
  void Add(const std::string& sample, double value) { out_ += fmt::format("{} {}\n", sample, value); }
  /// A metric of one sample.
  void One(const char* name, const char* type, const char* help, double value) {
    Begin(name, type, help);
    Add(name, value);
  }
  std::string Take() { return std::move(out_); }

 private:
  std::string out_;
};

double Number(std::uint64_t value) {
  return static_cast<double>(value);
}

}  // namespace

std::int64_t VerifiedBefore(const CatalogDataset& dataset, std::int64_t now) {
  return dataset.last_verified > now ? 0 : dataset.last_verified;
}

CatalogSummary SummarizeCatalog(const CatalogSummaryInput& input) {
  CatalogSummary out;
  out.now = input.now;
  out.places = input.places;
  out.last_scrub = input.last_scrub;
  for (const char* state : kStates) out.states[state] = 0;
  for (const CatalogPlace& place : input.places) {
    out.damage_found += place.ever;
    out.damage_open += place.open;
  }
  for (const CatalogDataset& dataset : input.datasets) {
    if (dataset.state == "gone") continue;
    ++out.states[dataset.state];
    if (dataset.state != "intact") out.not_intact.push_back(&dataset);
    if (dataset.state == "vanished") continue;
    ++out.datasets;
    out.bytes += dataset.bytes;
    out.sidecar_bytes += dataset.sidecar_bytes;
    const std::int64_t verified = VerifiedBefore(dataset, input.now);
    out.never_verified += verified == 0;
    out.verified_in_future += verified != dataset.last_verified;
    const auto since = [&](const CatalogDataset& one) { return VerifiedOrSeen(one, input.now); };
    if (out.oldest == nullptr || since(dataset) < since(*out.oldest)) out.oldest = &dataset;
  }
  std::ranges::stable_sort(out.not_intact, {}, [](const CatalogDataset* dataset) { return Gravity(*dataset); });
  if (out.oldest != nullptr) out.oldest_ns = input.now - VerifiedOrSeen(*out.oldest, input.now);
  return out;
}

// Two damages at one place may be chance.
std::string SuspectText(const CatalogSummary& summary) {
  std::uint64_t lately = 0;
  for (const CatalogPlace& place : summary.places) lately += place.lately;
  if (summary.places.empty() || summary.places[0].lately < 3 || 2 * summary.places[0].lately <= lately) return "";
  return fmt::format("{} of {} new damages are at {}: look there for failing hardware", summary.places[0].lately, lately,
                     Printable(summary.places[0].place));
}

std::string PrometheusText(const CatalogSummary& summary) {
  Metrics metrics;
  metrics.Begin("lzy_datasets", "gauge", "Datasets in the catalogue, by state.");
  for (const auto& [state, count] : summary.states) metrics.Add(fmt::format("lzy_datasets{{state=\"{}\"}}", Label(state)), Number(count));
  metrics.Begin("lzy_bytes", "gauge", "Bytes of all datasets and of their sidecars.");
  metrics.Add("lzy_bytes{of=\"data\"}", Number(summary.bytes));
  metrics.Add("lzy_bytes{of=\"sidecars\"}", Number(summary.sidecar_bytes));
  metrics.One("lzy_never_verified_datasets", "gauge", "Datasets that were never read back as a whole.", Number(summary.never_verified));
  metrics.One("lzy_oldest_verification_seconds", "gauge",
              "Time since the dataset was verified that was verified longest ago; if it never was, since it is known.",
              static_cast<double>(summary.oldest_ns) / 1e9);
  metrics.One("lzy_damage_found_total", "counter", "Damages found so far.", Number(summary.damage_found));
  metrics.One("lzy_damage_open", "gauge", "Damages that last.", Number(summary.damage_open));
  if (!summary.places.empty()) {
    metrics.Begin("lzy_place_damage_found_total", "counter", "Damages found so far, by failure domain or directory.");
    for (const CatalogPlace& place : summary.places) {
      metrics.Add(fmt::format("lzy_place_damage_found_total{{place=\"{}\"}}", Label(place.place)), Number(place.ever));
    }
  }
  if (summary.last_scrub) {
    const CatalogEvent& scrub = *summary.last_scrub;
    metrics.One("lzy_last_scrub_timestamp_seconds", "gauge", "When the last run of lzy-scrub ended.", static_cast<double>(scrub.time) / 1e9);
    metrics.One("lzy_last_scrub_bytes", "gauge", "Bytes that the last run of lzy-scrub read.", Number(scrub.length));
    metrics.One("lzy_last_scrub_bytes_per_second", "gauge", "How fast the last run of lzy-scrub read.",
                scrub.seconds > 0 ? Number(scrub.length) / scrub.seconds : 0);
  }
  metrics.One("lzy_status_timestamp_seconds", "gauge", "When this file was made.", static_cast<double>(summary.now) / 1e9);
  return metrics.Take();
}

}  // namespace lzy
