#pragma once
// The process that parses a file sends its answer in frames. If it crashes, the frames before the crash are usable. A
// stored index of objects (docs/format.md) contains the same bytes.
//
// A frame has a byte with its kind, the length of its body as u32, and the body, a record (base/record.h).

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "base/bytes.h"
#include "base/interval_set.h"
#include "base/status.h"
#include "objects/object_map.h"

namespace lzy {

enum class FrameTag : std::uint8_t {
  kFormat = 1,  ///< the name of the format
  kObject = 2,  ///< number and name of an object
  kLayout = 3,  ///< number of an object, and its RawLayout
  kExtents = 4, ///< several ObjectExtent
  kEnd = 5,     ///< whether the map is complete
};

/// The request to the parsing process.
struct MapRequest {
  static constexpr std::uint32_t kVersion = 1;
  std::uint32_t version = kVersion;
  /// Only objects in these ranges of the file are wanted; empty: all objects. Sorted and disjoint.
  std::vector<Interval> wanted;
  /// Ranges with wrong bytes. Sorted and disjoint.
  std::vector<Interval> wrong;
  LZY_FIELDS(version, wanted, wrong)
};

/// Writes frames for the objects that have an extent in `wanted`. Objects are numbered in the order in which AddObject was
/// called. An object is written together with its first wanted extent.
class FrameWriter : public MapSink {
 public:
  /// `write` receives complete frames. `wanted`: sorted and disjoint; empty: everything.
  FrameWriter(std::vector<Interval> wanted, std::function<void(ByteSpan)> write);
  void SetFormat(const std::string& format) override;
  std::uint32_t AddObject(const std::string& name) override;
  void SetLayout(std::uint32_t object, const RawLayout& layout) override;
  void AddExtent(const ObjectExtent& extent, bool shared = false) override;
  void Finish(std::uint32_t object) override { objects_[object].finished = true; }
  bool HasEnough() const override;
  /// Call it before the file is parsed a second time, with fewer checks. Objects with the same names are the same objects.
  /// Finished objects, and extents that were added before, are not written again.
  void BeginAgain();
  void End(bool complete);

 private:
  struct Object {
    std::string name;
    RawLayout layout;
    std::uint32_t number = 0;
    bool told = false, layout_told = false, finished = false;
  };
  template <class T>
  void Put(FrameTag tag, const T& body);
  bool IsWanted(const ObjectExtent& extent) const;
  void Flush();

  const std::vector<Interval> wanted_;
  const std::function<void(ByteSpan)> write_;
  IntervalSet covered_;  // the ranges of wanted_ that extents cover
  std::uint64_t wanted_bytes_ = 0, added_bytes_ = 0;
  std::vector<Object> objects_;
  bool again_ = false;
  std::map<std::string, std::uint32_t> known_;  // object of each name, after BeginAgain
  std::set<std::tuple<std::uint64_t, bool, std::uint32_t>> told_extents_;  // begin, raw, object
  std::uint32_t told_ = 0;
  std::vector<ObjectExtent> pending_;
};

/// Reads frames into a map. Rejects malformed frames.
class FrameReader {
 public:
  explicit FrameReader(ObjectMap& map) : map_(map) {}
  /// Adds the next bytes of the answer; frames may be cut at any byte. kCorrupt: do not add more bytes.
  Status Add(ByteSpan bytes);
  /// True if kEnd was read.
  bool ended() const { return ended_; }
  bool complete() const { return complete_; }

 private:
  Status Frame(FrameTag tag, ByteSpan body);

  ObjectMap& map_;
  std::vector<std::uint8_t> rest_;
  bool ended_ = false;
  bool complete_ = false;
};

}  // namespace lzy
