#pragma once
// Explicit little-endian encoding. All data that go to disk or to another rank are written and read field by field with
// these functions, never by copying structs. So formats depend on neither byte order nor padding (docs/format.md).
// ByteWriter and ByteReader are not thread-safe; each belongs to one function.

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lzy {

using ByteSpan = std::span<const std::uint8_t>;
using MutableByteSpan = std::span<std::uint8_t>;

/// Store an integer to, or load it from, sizeof(T) bytes, lowest byte first. No alignment is needed. Signed integers are
/// two's complement.
template <class T>
inline void StoreLe(std::uint8_t* to, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i)
    to[i] = static_cast<std::uint8_t>(static_cast<std::uint64_t>(value) >> (8 * i));
}
template <class T>
inline T LoadLe(const std::uint8_t* from) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) value |= static_cast<std::uint64_t>(from[i]) << (8 * i);
  return static_cast<T>(value);
}

/// Appends little-endian fields to a growing buffer.
class ByteWriter {
 public:
  /// Write the type where the width is not obvious: Put<std::uint32_t>(x). The type decides how many bytes are written.
  template <class T>
  void Put(T value) {
    std::uint8_t raw[sizeof(T)];
    StoreLe(raw, value);
    Append(raw, sizeof(T));
  }
  void PutBytes(ByteSpan bytes) { Append(bytes.data(), bytes.size()); }
  /// u32 length, then the bytes.
  void PutString(std::string_view text) {
    Put<std::uint32_t>(static_cast<std::uint32_t>(text.size()));
    Append(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  }
  /// Appends zeros until there are `size` bytes. If there are more already, it does nothing.
  void PadTo(std::size_t size) {
    if (bytes_.size() < size) bytes_.resize(size, 0);
  }
  std::size_t size() const { return bytes_.size(); }
  /// The bytes written so far. Move them out at the end.
  std::vector<std::uint8_t>& bytes() { return bytes_; }

 private:
  /// Not inlined: GCC 12 (PR 105329 and similar) gives false warnings of overflows in vectors that it has seen grow
  /// twice.
  [[gnu::noinline]] void Append(const std::uint8_t* from, std::size_t count) {
    bytes_.insert(bytes_.end(), from, from + count);
  }

  std::vector<std::uint8_t> bytes_;
};

/// Reads fields from a buffer that may be hostile. Reading past the end yields zeros and makes ok() false for good. So
/// a decoder can read everything and check ok() once at the end. But check counts before you loop over or allocate
/// them. The buffer must outlive the reader and the spans that it returns.
class ByteReader {
 public:
  explicit ByteReader(ByteSpan bytes) : bytes_(bytes) {}
  template <class T>
  T Get() {
    if (!Need(sizeof(T))) return T{};
    T value = LoadLe<T>(bytes_.data() + at_);
    at_ += sizeof(T);
    return value;
  }
  /// The next `count` bytes, in place; an empty span if there are fewer.
  ByteSpan GetBytes(std::size_t count) {
    if (!Need(count)) return {};
    ByteSpan out = bytes_.subspan(at_, count);
    at_ += count;
    return out;
  }
  /// A string written by PutString. If it is longer than `limit` bytes, it is refused (ok() becomes false).
  std::string GetString(std::size_t limit) {
    auto length = Get<std::uint32_t>();
    if (length > limit) {
      ok_ = false;
      return {};
    }
    ByteSpan raw = GetBytes(length);
    return std::string(raw.begin(), raw.end());
  }
  void Skip(std::size_t count) {
    if (Need(count)) at_ += count;
  }
  bool ok() const { return ok_; }
  std::size_t remaining() const { return bytes_.size() - at_; }

 private:
  /// Invariant: at_ <= bytes_.size(), so the subtraction cannot wrap, whatever `count` a hostile buffer gave.
  bool Need(std::size_t count) {
    if (!ok_ || count > bytes_.size() - at_) {
      ok_ = false;
      return false;
    }
    return true;
  }
  ByteSpan bytes_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

}  // namespace lzy
