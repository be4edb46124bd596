#pragma once
// Records: structs that list their fields once, and are encoded and decoded by this list. Messages between ranks and the
// contents of sidecars are records, so that writer and reader cannot disagree.
//
//   struct Site {
//     bool reachable = false;
//     std::uint64_t room = 0;
//     LZY_FIELDS(reachable, room)
//   };
//   DecodeRecord<Site>(EncodeRecord(site))
//
// The encoding is that of docs/format.md §1: little-endian numbers of their own width, enumerations as their underlying type, bool as
// one byte; strings and containers as a 32-bit count and their items; std::array, pairs and tuples as their items alone;
// std::optional as a bool and, if it is true, the value.

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"

/// The fields of a struct in the order of their encoding. Fields that are left out are not encoded.
#define LZY_FIELDS(...)                                    \
  auto Fields() { return std::tie(__VA_ARGS__); }          \
  auto Fields() const { return std::tie(__VA_ARGS__); }

namespace lzy {
namespace record {

template <class T>
concept Struct = requires(T& value) { value.Fields(); };
template <class T>
concept Number = std::is_arithmetic_v<T> || std::is_enum_v<T>;
template <class T>
concept Fixed = requires { std::tuple_size<T>::value; };  // std::array, pairs, tuples
template <class T>
concept Text = std::is_same_v<T, std::string> || std::is_same_v<T, std::string_view>;
template <class T>
concept ByteArray = Fixed<T> && std::is_same_v<typename T::value_type, std::uint8_t>;

/// The item of a container as a modifiable variable: keys in maps are const.
template <class T>
struct Item {
  using Type = T;
};
template <class Key, class Value>
struct Item<std::pair<const Key, Value>> {
  using Type = std::pair<Key, Value>;
};

/// The integer that encodes a number.
template <Number T>
auto Coded(T value) {
  if constexpr (std::is_enum_v<T>) {
    return static_cast<std::underlying_type_t<T>>(value);
  } else if constexpr (std::is_same_v<T, bool>) {
    return static_cast<std::uint8_t>(value);
  } else if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<std::uint64_t>(value);
  } else {
    return value;
  }
}

}  // namespace record

/// Appends `value`.
template <class T>
void PutRecord(ByteWriter& out, const T& value) {
  if constexpr (record::Struct<const T>) {
    PutRecord(out, value.Fields());
  } else if constexpr (record::Number<T>) {
    out.Put(record::Coded(value));
  } else if constexpr (record::Text<T>) {
    out.PutString(value);
  } else if constexpr (record::ByteArray<T>) {
    out.PutBytes(value);
  } else if constexpr (record::Fixed<T>) {
    std::apply([&](const auto&... items) { (PutRecord(out, items), ...); }, value);
  } else if constexpr (requires { value.has_value(); }) {
    PutRecord(out, value.has_value());
    if (value) PutRecord(out, *value);
  } else {
    out.Put(static_cast<std::uint32_t>(value.size()));
    for (const auto& item : value) PutRecord<typename T::value_type>(out, item);
  }
}

/// Reads what PutRecord() wrote. If the input ends early, in.ok() is false afterwards and `value` is undefined. A count in
/// hostile input creates no more items than there are bytes.
template <class T>
void GetRecord(ByteReader& in, T& value) {
  if constexpr (record::Struct<T>) {
    auto fields = value.Fields();
    GetRecord(in, fields);
  } else if constexpr (record::Number<T>) {
    const auto coded = in.Get<decltype(record::Coded(value))>();
    if constexpr (std::is_same_v<T, double>) {
      value = std::bit_cast<double>(coded);
    } else if constexpr (std::is_same_v<T, bool>) {
      value = coded != 0;
    } else {
      value = static_cast<T>(coded);
    }
  } else if constexpr (record::Text<T>) {
    value = in.GetString(in.remaining());
  } else if constexpr (record::ByteArray<T>) {
    if (const ByteSpan raw = in.GetBytes(value.size()); raw.size() == value.size()) std::copy(raw.begin(), raw.end(), value.begin());
  } else if constexpr (record::Fixed<T>) {
    std::apply([&](auto&... items) { (GetRecord(in, items), ...); }, value);
  } else if constexpr (requires { value.has_value(); }) {
    bool there = false;
    GetRecord(in, there);
    if (there) {
      GetRecord(in, value.emplace());
    } else {
      value.reset();
    }
  } else {
    value = {};
    for (auto count = in.Get<std::uint32_t>(); count > 0 && in.ok(); --count) {
      typename record::Item<typename T::value_type>::Type item{};
      GetRecord(in, item);
      if (in.ok()) value.insert(value.end(), std::move(item));
    }
  }
}

template <class T>
std::vector<std::uint8_t> EncodeRecord(const T& value) {
  ByteWriter out;
  PutRecord(out, value);
  return std::move(out.bytes());
}

/// Replaces `value` by the record in `bytes`. kInternal unless `bytes` are exactly one record of this type; then `value` is
/// undefined.
template <class T>
Status DecodeRecord(ByteSpan bytes, T& value) {
  ByteReader in(bytes);
  GetRecord(in, value);
  if (!in.ok() || in.remaining() != 0) return {Code::kInternal, "a record of another process is malformed"};
  return Status::Ok();
}
template <class T>
Result<T> DecodeRecord(ByteSpan bytes) {
  Result<T> value = T();
  LZY_RETURN_IF_ERROR(DecodeRecord(bytes, *value));
  return value;
}

}  // namespace lzy
