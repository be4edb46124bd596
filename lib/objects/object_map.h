#pragma once
// The extents of objects in a file, and the objects that a range of bytes overlaps. The input is hostile: numbers may be
// anything, so all arithmetic here is safe for all values.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/interval_set.h"
#include "base/record.h"
#include "request/report.h"

namespace lzy {

/// How the raw data of an object are stored.
struct RawLayout {
  std::uint64_t element_size = 0;    ///< bytes; 0: not known
  std::vector<std::uint64_t> shape;  ///< elements; empty: one element
  std::vector<std::uint64_t> chunk;  ///< elements of a chunk; empty: not chunked
  bool filtered = false;             ///< chunks are compressed or have other filters
  bool operator==(const RawLayout&) const = default;
  LZY_FIELDS(element_size, shape, chunk, filtered)
};

/// Bytes of one object that lie side by side, or in `count` pieces at equal distances, such as the records of a variable.
struct ObjectExtent {
  std::uint64_t begin = 0;
  std::uint64_t length = 0;
  std::uint32_t object = 0;  ///< as AddObject returned it
  bool raw = false;          ///< false: metadata
  /// Raw data: index of the first element, in row-major order; of chunked data, index of the chunk, in row-major order.
  std::uint64_t first = 0;
  std::uint64_t stride = 0;  ///< from the begin of one piece to the next; not less than the length
  std::uint64_t count = 1;
  bool operator==(const ObjectExtent&) const = default;
  LZY_FIELDS(begin, length, object, raw, first, stride, count)
};

/// Receives the results of parsers.
class MapSink {
 public:
  virtual ~MapSink() = default;
  /// "hdf5", "netcdf4" or "cdf". The last one counts.
  virtual void SetFormat(const std::string& format) = 0;
  /// Returns the number of the object.
  virtual std::uint32_t AddObject(const std::string& name) = 0;
  /// Before the first extent of raw data.
  virtual void SetLayout(std::uint32_t object, const RawLayout& layout) = 0;
  /// `shared`: other objects may have the same bytes.
  virtual void AddExtent(const ObjectExtent& extent, bool shared = false) = 0;
  /// All of the object is known.
  virtual void Finish(std::uint32_t object) { (void)object; }
  /// True if nothing that could be added would be of interest.
  virtual bool HasEnough() const { return false; }
};

/// The result of Find().
struct FoundObjects {
  std::vector<DamagedObject> objects;
  std::uint64_t left_off = 0;  ///< how many more there are
};

class ObjectMap : public MapSink {
 public:
  /// Objects that Find() lists at most; chunks of one object that it lists one by one.
  static constexpr std::size_t kMostObjects = 64;
  static constexpr std::size_t kMostChunks = 8;

  void SetFormat(const std::string& format) override { format_ = format; }
  std::uint32_t AddObject(const std::string& name) override;
  void SetLayout(std::uint32_t object, const RawLayout& layout) override;
  void AddExtent(const ObjectExtent& extent, bool shared = false) override;

  /// Everything was added: extents can be found now. `complete`: what no extent covers is unused.
  void Seal(bool complete);
  /// Objects in [range.begin, range.end). Call it after Seal().
  FoundObjects Find(Interval range) const;

  const std::string& format() const { return format_; }
  std::size_t object_count() const { return objects_.size(); }
  bool complete() const { return complete_; }

 private:
  struct Object {
    std::string name;
    RawLayout layout;
  };
  struct Hit;
  std::vector<Hit> HitsOf(Interval range) const;
  bool IsUnusedIn(Interval range, const std::vector<Hit>& hits) const;
  DamagedObject Describe(const Hit& hit) const;

  std::string format_ = "hdf5";
  std::vector<Object> objects_;
  std::vector<ObjectExtent> extents_;          // of one piece; sorted by their begins once sealed
  std::vector<std::uint64_t> ends_;      // the largest end of the extents up to each
  std::vector<ObjectExtent> repeated_;         // of several pieces
  bool complete_ = false;
};

/// Whether the parts of an extent make sense: a range within 2^63 bytes, pieces that do not overlap.
bool IsSound(const ObjectExtent& extent);
/// The same of a layout: shape and chunk of the same rank, at most 32, chunks that are not empty.
bool IsSound(const RawLayout& layout);

}  // namespace lzy
