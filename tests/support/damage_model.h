#pragma once
// What a dataset was when it was committed, and what is damaged now. It compares bytes with what they were. It shares
// the geometry with the engine, nothing else.
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine_fixture.h"
#include "geometry/layout.h"

namespace lzy::testing {

using Ranges = std::vector<ByteRange>;

/// Sorted, with neighbours joined.
Ranges Merged(Ranges ranges);
std::string Text(const Ranges& ranges);

/// A file of the dataset as committed.
struct ModelFile {
  std::string path, sidecar;
  std::uint32_t rank = 0;
  FileImage data;
  Bytes sidecar_bytes;
  std::uint64_t parity_base = 0;
  bool parity_is_last = true;  ///< not in the compact form: other copies of the metadata follow
  std::uint64_t parity_size = 0;
  std::vector<Ranges> metadata;  ///< by copy: superblock first; the intent pages, if always there, are a copy of their own, at the end
};
struct ModelGroup {
  Layout layout;
  std::vector<ModelFile> files;  ///< by file number of the layout; shared: one
};

/// What is on disk now, held against what was committed.
struct Judgement {
  std::map<std::pair<std::string, DamagePart>, Ranges> blocks;  ///< bad blocks, whole
  std::map<std::string, Ranges> metadata_hits;                  ///< changed bytes, by sidecar
  std::set<std::string> missing_sidecars, missing_empty;
  std::size_t worst_row = 0;
  bool anything = false;
  bool missing = false;  ///< a file or a sidecar is gone
  bool unjudged = false;  ///< of a file that is there, nothing tells what it should be
  bool data_damaged() const {
    return std::ranges::any_of(blocks, [](const auto& one) { return one.first.second == DamagePart::kData && !one.second.empty(); });
  }
};

class DamageModel {
 public:
  DamageModel(std::string directory, Sample sample) : directory_(std::move(directory)), sample_(std::move(sample)) {
    Load();
  }

  /// Takes what is on disk now for what was committed.
  void Load();

  const Sample& sample() const { return sample_; }
  const std::string& directory() const { return directory_; }
  std::vector<ModelGroup>& groups() { return groups_; }
  const std::vector<ModelGroup>& groups() const { return groups_; }
  const Image& image() const { return image_; }
  const Hash& root() const { return root_; }
  std::uint32_t parity() const { return groups_[0].layout.parity(); }

  /// Compares what is on disk now with what was committed.
  Judgement Judge() const;

 private:
  const std::string directory_;
  const Sample sample_;
  std::vector<ModelGroup> groups_;
  Image image_;
  Hash root_;
};

/// `report` names exactly what `truth` has: no block missed, none falsely accused.
void ExpectNamed(const DatasetReport& report, const Judgement& truth, const DamageModel& model,
                 std::optional<DamageCause> data_cause = {});

}  // namespace lzy::testing
