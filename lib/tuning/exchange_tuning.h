#pragma once
// Measured times of the ways of adding up parity between the nodes of a job, and the choice of the fastest (option
// exchange=auto; docs/performance/exchange.md, "The rule"). lib/mpi measures the times. They are kept in files beside that of
// tuning.h, one for each number of ranks and nodes, MPI library and kind of machine. They change the speed of lzy, never its
// output.
//
// All ranks of an exchange must go the same way. So only rank 0 of a communicator uses these functions, and broadcasts the
// ways that it picked. This code does not use MPI.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/exchange_way.h"
#include "base/file.h"

namespace lzy {

/// How the result is divided among the ranks.
enum class ExchangeShape : std::uint8_t {
  kEven,  ///< about the same for each rank, as in most commits
  kFew,   ///< few ranks get most of it, as in most restores
};
inline constexpr std::size_t kExchangeShapes = 2;
/// The measured sizes: bytes that one rank brings to an exchange, for all ranks together. Between them, times grow evenly with the
/// bytes.
inline constexpr std::array<std::uint64_t, 4> kExchangeBytes = {4u << 10, 64u << 10, 1u << 20, 8u << 20};
/// The ways that are measured; the default first.
inline constexpr std::array<ExchangeWay, 3> kMeasuredWays = {ExchangeWay::kMpi, ExchangeWay::kPairwise, ExchangeWay::kRing};

/// A class of exchanges that is measured. `size`: index into kExchangeBytes.
struct ExchangeClass {
  ExchangeShape shape = ExchangeShape::kEven;
  std::size_t size = 0;
  /// From 0 to kExchangeClasses - 1; sizes ascend.
  std::size_t index() const { return size * kExchangeShapes + static_cast<std::size_t>(shape); }
  static ExchangeClass At(std::size_t index) {
    return {static_cast<ExchangeShape>(index % kExchangeShapes), index / kExchangeShapes};
  }
};
inline constexpr std::size_t kExchangeClasses = kExchangeShapes * kExchangeBytes.size();
/// Exchanges that go the same way: those of one shape and of about the same size. There are four steps of size for each factor of
/// two, from the smallest measured size to the largest; what is smaller or larger belongs to the first or the last.
struct ExchangeStep {
  ExchangeShape shape = ExchangeShape::kEven;
  std::size_t size = 0;
  std::size_t index() const { return size * kExchangeShapes + static_cast<std::size_t>(shape); }
  static ExchangeStep At(std::size_t index) { return {static_cast<ExchangeShape>(index % kExchangeShapes), index / kExchangeShapes}; }
  /// The bytes in its middle, as in kExchangeBytes.
  std::uint64_t bytes() const;
};
inline constexpr std::size_t kExchangeSteps =
    kExchangeShapes * (4 * (std::bit_width(kExchangeBytes.back()) - std::bit_width(kExchangeBytes.front())) + 1);
/// The step of an exchange. `counts`: as in Communicator::ReduceScatterXor. Whole numbers only, so it is the same on all ranks.
ExchangeStep ExchangeStepOf(std::span<const std::uint64_t> counts);
/// "even", "few".
const char* ExchangeShapeName(ExchangeShape shape);

/// The conditions of the times, apart from the kind of machine.
struct ExchangePlace {
  std::string mpi;  ///< the MPI library and its version
  std::uint64_t ranks = 0;
  std::uint64_t nodes = 0;
  std::uint64_t most_on_node = 0;  ///< ranks of the node that has most
  friend bool operator==(const ExchangePlace&, const ExchangePlace&) = default;
};

/// The time of each way for each class. A small value type. As constructed, nothing is measured.
class ExchangeTimes {
 public:
  using Ways = std::array<double, kMeasuredWays.size()>;

  /// Takes the times of all ways for a class, in microseconds, in the order of kMeasuredWays. They are rounded to one decimal, as
  /// they are written. Returns false, and takes nothing, unless each is from 0.1 to 10^9.
  bool Set(ExchangeClass which, const Ways& microseconds);
  /// False: nothing was measured for this class.
  bool measured(ExchangeClass which) const { return times_[which.index()][0] > 0; }
  bool complete() const;
  bool empty() const;
  const Ways& microseconds(ExchangeClass which) const { return times_[which.index()]; }
  /// The fastest way for exchanges of `bytes`, but kMpi unless another one is more than 5 % faster. If `bytes` is more than the
  /// largest measured size of this shape, the way for that size. kMpi if nothing as small was measured.
  ExchangeWay Pick(ExchangeShape shape, std::uint64_t bytes) const;
  ExchangeWay Pick(ExchangeClass which) const { return Pick(which.shape, kExchangeBytes[which.size]); }

  friend bool operator==(const ExchangeTimes&, const ExchangeTimes&) = default;

 private:
  std::array<Ways, kExchangeClasses> times_{};
};

/// The contents of a file.
struct ExchangeTuning {
  ExchangePlace place;
  ExchangeTimes times;
};

/// JSON with the schema "lzy-exchange/1": machine, place, and for each measured class its times and the picked way.
std::string EncodeExchange(const ExchangePlace& place, const ExchangeTimes& times);
/// nullopt unless `text` is exactly the text that this version writes on this machine for some place and times. So a forged
/// file can only pick a slow way.
std::optional<ExchangeTuning> DecodeExchange(std::string_view text);

/// Path of the file for a place, in the directory of TuningCachePath(); empty if there is no such directory.
std::string ExchangeCachePath(const ExchangePlace& place);
/// All files of this machine that can be read, sorted by ranks and nodes. At most 1000.
std::vector<ExchangeTuning> ListExchange(FileSystem& fs, const std::string& directory);

/// The knowledge of this process about a place.
struct KnownExchange {
  ExchangeTimes times;
  /// This process need not measure here: it has done so, or everything is measured.
  bool done = false;
};
/// Returns the times that this process has in memory, or else those of the file. Failures are ignored without a message.
/// Thread-safe.
KnownExchange RecallExchange(const ExchangePlace& place) noexcept;
/// Remembers that this process has measured, and keeps the times in the file. If `times` is empty, writes no file, and the process
/// counts as one that has not measured: a later, longer commit may have the time. Failures with the file are ignored without a
/// message. Thread-safe.
void KeepExchange(const ExchangePlace& place, const ExchangeTimes& times) noexcept;

}  // namespace lzy
