#include "objects/frames.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "status_matchers.h"

namespace lzy {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using Bytes = std::vector<std::uint8_t>;

// What a parser tells of a file with a group and a dataset.
void Fill(MapSink& sink) {
  sink.SetFormat("netcdf4");
  const auto group = sink.AddObject("/g"), data = sink.AddObject("/g/T");
  sink.AddExtent({.begin = 0, .length = 100, .object = group});
  sink.SetLayout(data, {4, {100, 10}, {}, false});
  sink.AddExtent({.begin = 100, .length = 4000, .object = data, .raw = true});
}

Bytes Written(const std::vector<Interval>& wanted, const std::function<void(FrameWriter&)>& tell = Fill) {
  Bytes out;
  FrameWriter writer(wanted, [&](ByteSpan frame) { out.insert(out.end(), frame.begin(), frame.end()); });
  tell(writer);
  writer.End(true);
  return out;
}

TEST(Frames, AreReadAsTheyWereWritten) {
  const Bytes bytes = Written({});
  // Cut anywhere.
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, bytes.size()}) {
    ObjectMap map;
    FrameReader reader(map);
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      ASSERT_OK(reader.Add(ByteSpan(bytes).subspan(at, std::min(piece, bytes.size() - at))));
    }
    EXPECT_TRUE(reader.ended() && reader.complete());
    map.Seal(reader.complete());
    const auto found = map.Find({90, 104});
    ASSERT_THAT(found.objects, SizeIs(2));
    EXPECT_EQ(found.objects[0].name, "/g");
    EXPECT_EQ(found.objects[1].format, "netcdf4");
    EXPECT_EQ(found.objects[1].elements->second, (std::vector<std::uint64_t>{0, 0}));
  }
}

TEST(Frames, TellOnlyWhatIsWanted) {
  const auto objects = [](const std::vector<Interval>& wanted) {
    ObjectMap map;
    FrameReader reader(map);
    EXPECT_OK(reader.Add(Written(wanted)));
    return map.object_count();
  };
  EXPECT_EQ(objects({{0, 10}}), 1u);
  EXPECT_EQ(objects({{99, 101}}), 2u);
  EXPECT_EQ(objects({{4100, 5000}}), 0u);
  EXPECT_EQ(objects({{0, 1}, {50, 60}, {4099, 4101}}), 2u);
}

TEST(Frames, HaveEnoughWhenAllThatIsWantedIsExplained) {
  FrameWriter writer({{10, 20}, {50, 60}}, [](ByteSpan) {});
  const auto object = writer.AddObject("/a");
  writer.AddExtent({.begin = 0, .length = 55, .object = object}, /*shared=*/true);
  EXPECT_FALSE(writer.HasEnough());
  writer.AddExtent({.begin = 0, .length = 55, .object = object});
  writer.AddExtent({.begin = 0, .length = 55, .object = object});  // once more
  EXPECT_FALSE(writer.HasEnough());
  writer.AddExtent({.begin = 55, .length = 5, .object = object});
  EXPECT_TRUE(writer.HasEnough());
}

TEST(Frames, ASecondPassAddsOnlyToWhatIsNotFinished) {
  const Bytes bytes = Written({}, [](FrameWriter& writer) {
    const auto a = writer.AddObject("/a"), b = writer.AddObject("/b");
    writer.AddExtent({.begin = 0, .length = 10, .object = a});
    writer.Finish(a);
    writer.AddExtent({.begin = 10, .length = 10, .object = b});
    writer.BeginAgain();
    EXPECT_EQ(writer.AddObject("/b"), b);
    writer.AddExtent({.begin = 100, .length = 10, .object = writer.AddObject("/a")});
    writer.AddExtent({.begin = 110, .length = 10, .object = b});
    writer.AddExtent({.begin = 120, .length = 10, .object = writer.AddObject("/c")});
  });
  ObjectMap map;
  FrameReader reader(map);
  ASSERT_OK(reader.Add(bytes));
  map.Seal(true);
  EXPECT_EQ(map.object_count(), 3u);
  EXPECT_EQ(map.Find({100, 105}).objects.at(0).kind, "unused");
  EXPECT_EQ(map.Find({112, 115}).objects.at(0).name, "/b");
  EXPECT_EQ(map.Find({122, 125}).objects.at(0).name, "/c");
}

Status Read(const Bytes& bytes) {
  ObjectMap map;
  return FrameReader(map).Add(bytes);
}

TEST(Frames, RefuseWhatTheyCannotMean) {
  const Bytes bytes = Written({});
  Bytes more = bytes;
  more.insert(more.end(), bytes.begin(), bytes.end());
  EXPECT_EQ(Read(more).code(), Code::kCorrupt);  // something behind the end
  EXPECT_EQ(Read(Bytes(100, 0)).code(), Code::kCorrupt);
  EXPECT_EQ(Read(Bytes(100, 255)).code(), Code::kCorrupt);
  const auto frame = [](FrameTag tag, const auto& body) {
    const Bytes record = EncodeRecord(body);
    ByteWriter out;
    out.Put(static_cast<std::uint8_t>(tag));
    out.Put(static_cast<std::uint32_t>(record.size()));
    out.PutBytes(record);
    return out.bytes();
  };
  EXPECT_EQ(Read(frame(FrameTag::kFormat, std::string("exe"))).code(), Code::kCorrupt);
  EXPECT_EQ(Read(frame(FrameTag::kObject, std::pair(1u, std::string("/a")))).code(), Code::kCorrupt);  // not the next number
  EXPECT_EQ(Read(frame(FrameTag::kLayout, std::pair(0u, RawLayout()))).code(), Code::kCorrupt);       // of no object
  EXPECT_EQ(Read(frame(FrameTag::kExtents, std::vector<ObjectExtent>{{.begin = 0, .length = 1}})).code(), Code::kCorrupt);
}

TEST(Frames, SurviveAnyBytes) {
  const Bytes bytes = Written({});
  std::mt19937 random(5);
  for (int turn = 0; turn < 3000; ++turn) {
    Bytes changed = bytes;
    for (int i = 0; i < 1 + turn % 4; ++i) changed[random() % changed.size()] = static_cast<std::uint8_t>(random());
    changed.resize(1 + random() % changed.size());
    ObjectMap map;
    FrameReader reader(map);
    (void)reader.Add(changed).ok();
    map.Seal(true);
    EXPECT_LE(map.Find({0, 5000}).objects.size(), 65u);
  }
}

}  // namespace
}  // namespace lzy
