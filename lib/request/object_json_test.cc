#include "request/object_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace lzy {
namespace {

using ObjectJsonText = nlohmann::ordered_json;

TEST(ObjectJson, WhatItMakesComesBack) {
  const std::vector<DamagedObject> all = {
      {.format = "hdf5", .name = "/fields/T", .kind = "raw", .chunk = {{3, 0}}, .elements = {{{768, 0}, {799, 255}}}, .chunks = 1},
      {.format = "hdf5", .name = "/zipped", .kind = "raw", .filtered = true, .chunks = 12},
      {.format = "cdf", .name = "/scalar", .kind = "raw", .elements = {{{}, {}}}},
      {.format = "netcdf4", .name = "/\"\n<b>", .kind = "metadata"},
      {.format = "hdf5", .name = "", .kind = "unused"},
      {.format = "hdf5", .name = "/x", .kind = "raw", .chunk = {{~std::uint64_t{0}}}, .chunks = ~std::uint64_t{0}},
  };
  for (const DamagedObject& one : all) {
    const auto read = DamagedObjectOf(ObjectJsonText::parse(ToJson(one).dump()));
    ASSERT_TRUE(read) << one.name;
    EXPECT_EQ(*read, one) << one.name;
  }
}

TEST(ObjectJson, AnythingElseIsRefused) {
  const char* const wrong[] = {
      "null", "7", "\"x\"", "[]", "{}", R"({"format":"hdf5","name":"/x"})", R"({"format":7,"name":"/x","kind":"raw"})",
      R"({"format":"hdf5","name":"/x","kind":"other"})", R"({"format":"hdf5","name":null,"kind":"raw"})",
      R"({"format":"hdf5","name":"/x","kind":"raw","chunk":7})", R"({"format":"hdf5","name":"/x","kind":"raw","chunk":[-1]})",
      R"({"format":"hdf5","name":"/x","kind":"raw","chunk":[1e300]})", R"({"format":"hdf5","name":"/x","kind":"raw","elements":[[1]]})",
      R"({"format":"hdf5","name":"/x","kind":"raw","elements":[[1],[1,2]]})", R"({"format":"hdf5","name":"/x","kind":"raw","elements":{}})",
  };
  for (const char* const text : wrong) EXPECT_FALSE(DamagedObjectOf(ObjectJsonText::parse(text))) << text;
  // Numbers of chunks that are none say nothing.
  const auto odd = DamagedObjectOf(ObjectJsonText::parse(R"({"format":"hdf5","name":"/x","kind":"raw","chunks":-5,"filtered":1})"));
  ASSERT_TRUE(odd);
  EXPECT_EQ(odd->chunks, 0u);
  EXPECT_FALSE(odd->filtered);
  ObjectJsonText many = ToJson({.format = "hdf5", .name = "/x", .kind = "raw"});
  many["chunk"] = std::vector<int>(100000, 1);
  EXPECT_FALSE(DamagedObjectOf(many));
}

}  // namespace
}  // namespace lzy
