#include "objects/frames.h"

#include <algorithm>

#include "base/record.h"

namespace lzy {
namespace {

// A name may be long; nothing else is.
constexpr std::size_t kMostBody = std::size_t{1} << 20;
constexpr std::size_t kHead = 5;
constexpr std::size_t kExtentsInFrame = 1000;
constexpr std::size_t kLongestName = std::size_t{1} << 16;
constexpr std::uint32_t kMostObjects = 20'000'000;

using ObjectBody = std::pair<std::uint32_t, std::string>;
using LayoutBody = std::pair<std::uint32_t, RawLayout>;

Status Malformed(const char* what) {
  return {Code::kCorrupt, std::string("the list of objects is malformed: ") + what};
}

}  // namespace

FrameWriter::FrameWriter(std::vector<Interval> wanted, std::function<void(ByteSpan)> write)
    : wanted_(std::move(wanted)), write_(std::move(write)) {
  for (const Interval& range : wanted_) wanted_bytes_ += range.end - range.begin;
}

template <class T>
void FrameWriter::Put(FrameTag tag, const T& body) {
  const std::vector<std::uint8_t> record = EncodeRecord(body);
  ByteWriter out;
  out.Put(static_cast<std::uint8_t>(tag));
  out.Put(static_cast<std::uint32_t>(record.size()));
  out.PutBytes(record);
  write_(out.bytes());
}

void FrameWriter::SetFormat(const std::string& format) {
  Put(FrameTag::kFormat, format);
}

void FrameWriter::BeginAgain() {
  again_ = true;
  for (std::size_t i = 0; i < objects_.size(); ++i) known_.emplace(objects_[i].name, static_cast<std::uint32_t>(i));
}

std::uint32_t FrameWriter::AddObject(const std::string& name) {
  if (const auto known = known_.find(name); known != known_.end()) return known->second;
  objects_.push_back({name.substr(0, kLongestName), {}});
  return static_cast<std::uint32_t>(objects_.size() - 1);
}

void FrameWriter::SetLayout(std::uint32_t object, const RawLayout& layout) {
  if (again_ && objects_[object].finished) return;
  objects_[object].layout = layout;
  objects_[object].layout_told = false;
}

bool FrameWriter::IsWanted(const ObjectExtent& extent) const {
  if (wanted_.empty()) return true;
  const std::uint64_t end = extent.begin + (extent.count - 1) * extent.stride + extent.length;
  const auto at = std::ranges::upper_bound(wanted_, extent.begin, {}, &Interval::end);
  return at != wanted_.end() && at->begin < end;
}

void FrameWriter::AddExtent(const ObjectExtent& extent, bool shared) {
  if (!IsSound(extent) || !IsWanted(extent)) return;
  Object& object = objects_[extent.object];
  // Only requested objects are kept: these are few.
  if (!wanted_.empty() || again_) {
    const bool fresh = told_extents_.emplace(extent.begin, extent.raw, extent.object).second;
    if (again_ && ((object.finished && !shared) || !fresh)) return;
  }
  const bool tells_layout = extent.raw && !object.layout_told && IsSound(object.layout);
  if (!object.told || tells_layout) Flush();
  if (!object.told) {
    object.number = told_++;
    object.told = true;
    Put(FrameTag::kObject, ObjectBody(object.number, object.name));
  }
  if (tells_layout) {
    object.layout_told = true;
    Put(FrameTag::kLayout, LayoutBody(object.number, object.layout));
  }
  ObjectExtent told = extent;
  told.object = object.number;
  pending_.push_back(told);
  // Requested objects are few, and the process may die at any time.
  if (!wanted_.empty() || pending_.size() >= kExtentsInFrame) Flush();
  if (wanted_.empty() || extent.count > 1 || shared) return;
  auto at = std::ranges::upper_bound(wanted_, extent.begin, {}, &Interval::end);
  for (; at != wanted_.end() && at->begin < extent.begin + extent.length; ++at) {
    const Interval met{std::max(at->begin, extent.begin), std::min(at->end, extent.begin + extent.length)};
    covered_.Add(met);
    added_bytes_ += met.end - met.begin;
  }
}

// The sum of all that was added counts overlaps twice, so it is only a bound.
bool FrameWriter::HasEnough() const {
  if (wanted_.empty() || added_bytes_ < wanted_bytes_) return false;
  std::uint64_t covered = 0;
  for (const Interval& range : covered_.intervals()) covered += range.end - range.begin;
  return covered >= wanted_bytes_;
}

void FrameWriter::Flush() {
  if (pending_.empty()) return;
  Put(FrameTag::kExtents, pending_);
  pending_.clear();
}

void FrameWriter::End(bool complete) {
  Flush();
  Put(FrameTag::kEnd, complete);
}

Status FrameReader::Add(ByteSpan bytes) {
  rest_.insert(rest_.end(), bytes.begin(), bytes.end());
  std::size_t at = 0;
  while (rest_.size() - at >= kHead) {
    const auto length = LoadLe<std::uint32_t>(&rest_[at + 1]);
    if (length > kMostBody) return Malformed("a frame is too long");
    if (rest_.size() - at - kHead < length) break;
    LZY_RETURN_IF_ERROR(Frame(static_cast<FrameTag>(rest_[at]), ByteSpan(rest_).subspan(at + kHead, length)));
    at += kHead + length;
  }
  rest_.erase(rest_.begin(), rest_.begin() + static_cast<std::ptrdiff_t>(at));
  return Status::Ok();
}

// Objects come in order, before their extents.
Status FrameReader::Frame(FrameTag tag, ByteSpan body) {
  if (ended_) return Malformed("something follows its end");
  switch (tag) {
    case FrameTag::kFormat: {
      const auto format = DecodeRecord<std::string>(body);
      if (!format.ok() || (*format != "hdf5" && *format != "netcdf4" && *format != "cdf")) return Malformed("an unknown format");
      map_.SetFormat(*format);
      return Status::Ok();
    }
    case FrameTag::kObject: {
      const auto object = DecodeRecord<ObjectBody>(body);
      if (!object.ok() || object->first != map_.object_count() || object->first >= kMostObjects || object->second.size() > kLongestName) {
        return Malformed("an object");
      }
      map_.AddObject(object->second);
      return Status::Ok();
    }
    case FrameTag::kLayout: {
      const auto layout = DecodeRecord<LayoutBody>(body);
      if (!layout.ok() || layout->first >= map_.object_count() || !IsSound(layout->second)) return Malformed("a layout");
      map_.SetLayout(layout->first, layout->second);
      return Status::Ok();
    }
    case FrameTag::kExtents: {
      const auto extents = DecodeRecord<std::vector<ObjectExtent>>(body);
      if (!extents.ok()) return Malformed("extents");
      for (const ObjectExtent& extent : *extents) {
        if (extent.object >= map_.object_count() || !IsSound(extent)) return Malformed("an extent");
        map_.AddExtent(extent);
      }
      return Status::Ok();
    }
    case FrameTag::kEnd: {
      const auto complete = DecodeRecord<bool>(body);
      if (!complete.ok()) return Malformed("its end");
      ended_ = true;
      complete_ = *complete;
      return Status::Ok();
    }
  }
  return Malformed("an unknown frame");
}

}  // namespace lzy
