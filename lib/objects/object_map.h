#pragma once
// The extents of objects in a file; finds the objects that overlap a range of bytes. The input may be hostile: numbers may
// have any value, so all arithmetic here is safe for all values.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/interval_set.h"
#include "base/record.h"
#include "request/report.h"

namespace lzy {

/// The layout of the raw data of an object.
struct RawLayout {
  std::uint64_t element_size = 0;    ///< bytes; 0: not known
  std::vector<std::uint64_t> shape;  ///< elements; empty: one element
  std::vector<std::uint64_t> chunk;  ///< elements of a chunk; empty: not chunked
  bool filtered = false;             ///< chunks are compressed or have other filters
  bool operator==(const RawLayout&) const = default;
  LZY_FIELDS(element_size, shape, chunk, filtered)
};

/// Contiguous bytes of one object, or `count` pieces at equal distances, such as the records of a variable.
struct ObjectExtent {
  std::uint64_t begin = 0;
  std::uint64_t length = 0;
  std::uint32_t object = 0;  ///< the result of AddObject
  bool raw = false;          ///< false: metadata
  /// Raw data: index of the first element; if chunked, index of the chunk. Both are in row-major order.
  std::uint64_t first = 0;
  std::uint64_t stride = 0;  ///< distance between the begins of two pieces; not less than the length
  std::uint64_t count = 1;
  bool operator==(const ObjectExtent&) const = default;
  LZY_FIELDS(begin, length, object, raw, first, stride, count)
};

/// Receives the results of a parser.
class MapSink {
 public:
  virtual ~MapSink() = default;
  /// "hdf5", "netcdf4" or "cdf". The last call counts.
  virtual void SetFormat(const std::string& format) = 0;
  /// Returns the number of the object.
  virtual std::uint32_t AddObject(const std::string& name) = 0;
  /// Call it before adding the first extent of raw data.
  virtual void SetLayout(std::uint32_t object, const RawLayout& layout) = 0;
  /// `shared`: other objects may have extents with the same bytes.
  virtual void AddExtent(const ObjectExtent& extent, bool shared = false) = 0;
  /// All extents of the object were added.
  virtual void Finish(std::uint32_t object) { (void)object; }
  /// True if no further object or extent is wanted.
  virtual bool HasEnough() const { return false; }
};

/// The result of Find().
struct FoundObjects {
  std::vector<DamagedObject> objects;
  std::uint64_t left_off = 0;  ///< number of objects that the list does not have
};

class ObjectMap : public MapSink {
 public:
  /// The most objects that Find() lists; the most chunks of one object that it lists one by one.
  static constexpr std::size_t kMostObjects = 64;
  static constexpr std::size_t kMostChunks = 8;

  void SetFormat(const std::string& format) override { format_ = format; }
  std::uint32_t AddObject(const std::string& name) override;
  void SetLayout(std::uint32_t object, const RawLayout& layout) override;
  void AddExtent(const ObjectExtent& extent, bool shared = false) override;

  /// Call it after the last extent; then Find() may be called. `complete`: bytes that no extent covers are unused.
  void Seal(bool complete);
  /// Objects that overlap [range.begin, range.end). Call it after Seal().
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
  std::vector<ObjectExtent> extents_;          // extents of one piece; sorted by begin after Seal()
  std::vector<std::uint64_t> ends_;      // largest end of this and all previous extents
  std::vector<ObjectExtent> repeated_;         // extents of several pieces
  bool complete_ = false;
};

/// Whether an extent is valid: its range is within 2^63 bytes, and its pieces do not overlap.
bool IsSound(const ObjectExtent& extent);
/// Whether a layout is valid: shape and chunk have the same rank, at most 32, and chunks are not empty.
bool IsSound(const RawLayout& layout);

}  // namespace lzy
