#pragma once
// Damages a dataset at random: rotten rows and metadata, lost and spoilt devices, bursts, cut, grown and swapped files.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "damage_model.h"
#include "engine_fixture.h"

namespace lzy::testing {

class RandomDamage {
 public:
  RandomDamage(Rng& rng, DamageModel& model) : rng_(rng), model_(model) {}

  ModelFile& AnyFile();
  /// Changes bytes behind the back of the layer: the mtime stays.
  void RotBlock(const std::string& path, std::uint64_t offset, std::uint64_t length);
  /// Damages the dataset in one of the ways, 0 to 10. 8 and 9 may go beyond parity.
  void Apply(int kind);
  /// What was done since Clear(), for messages.
  const std::string& log() const { return log_; }
  void Clear() { log_.clear(); }

 private:
  /// Bytes of the blocks of a row, by device.
  struct Place {
    std::string path;
    std::uint64_t offset, length;
  };

  ModelGroup& AnyGroup();
  static std::vector<Place> BlocksOf(const ModelGroup& group, const RowId& row);
  std::optional<RowId> AnyRow(const ModelGroup& group);
  void RotRow(std::size_t most, bool parity_only);
  void RotMetadata(ModelFile& file);
  void RotParity(const ModelFile& file);
  void Lose(const std::string& path);
  void Cut(const std::string& path, std::uint64_t size);
  void Grow(const std::string& path, Bytes bytes);
  /// All of one device, in some way.
  void SpoilDevice(ModelGroup& group, std::uint32_t device);
  void SpoilDevices(std::size_t most, bool metadata_too);
  /// Bytes in a row of a file that parity can repair wherever they begin.
  std::uint64_t LongestBurst(const ModelGroup& group, std::uint64_t size) const;
  void Burst();
  void CutTail();
  void Swap();

  Rng& rng_;
  DamageModel& model_;
  std::string log_;
};

}  // namespace lzy::testing
