#include "merkle/hash.h"

#include <string_view>

#include "merkle/xxh3.h"

namespace lzy {

std::string Hash::Hex() const {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

Hash HashBytes(HashTag tag, std::uint64_t index, ByteSpan bytes) {
  return StoredForm(LZY_XXH3_128(bytes.data(), bytes.size(), SeedOf(tag, index)));
}

}  // namespace lzy
