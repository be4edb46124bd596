#pragma once
// Leaves that only the holder of a secret can make: for datasets that somebody might forge, not only accidents befall.
// BLAKE2b with a key (RFC 7693; libsodium). docs/format.md §12 says what is made of the secret and how; docs/design.md
// §12 what that is good for, and what not.

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/status.h"
#include "merkle/hash.h"

namespace lzy {

/// Tells one key from another, and nothing of what they are. All zero: no key.
using KeyId = std::array<std::uint8_t, 16>;
/// 32 hexadecimal digits.
std::string KeyText(const KeyId& id);
/// What says that whoever knew the key vouched for something.
using Seal = std::array<std::uint8_t, 32>;

/// A key, made of a secret. Immutable; its memory is wiped at the end. Thread-safe.
class LeafKey {
 public:
  static constexpr std::size_t kLeastSecret = 16, kMostSecret = 65536;

  /// kInvalidArgument unless `secret` has kLeastSecret to kMostSecret bytes. Each byte counts, a line's end too.
  static Result<std::shared_ptr<const LeafKey>> Make(ByteSpan secret);
  /// Overwrites a secret that is not needed any more.
  static void Wipe(MutableByteSpan secret);
  ~LeafKey();
  LeafKey(const LeafKey&) = delete;
  LeafKey& operator=(const LeafKey&) = delete;

  const KeyId& id() const { return id_; }
  /// What HashBytes is without a key. Precondition: index < 2^56.
  Hash Leaf(HashTag tag, std::uint64_t index, ByteSpan bytes) const;
  /// Of the parts as if they were one: where one ends and the next begins has to be told by what they hold.
  Seal SealOf(std::span<const ByteSpan> parts) const;

 private:
  LeafKey() = default;
  std::array<std::uint8_t, 32> key_{};
  KeyId id_{};
};

/// The leaf of a block: with a key or (null) without.
inline Hash LeafHash(const LeafKey* key, HashTag tag, std::uint64_t index, ByteSpan bytes) {
  return key != nullptr ? key->Leaf(tag, index, bytes) : HashBytes(tag, index, bytes);
}

}  // namespace lzy
