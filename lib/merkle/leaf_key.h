#pragma once
// Leaves that only the holder of a secret can make, for datasets that somebody might forge: BLAKE2b with a key (RFC
// 7693; libsodium). docs/format.md §12 says what is made of the secret and how. docs/design/commit.md §12 says what this
// protects against, and what it does not. Option `key` (request/options) gives the secret; storage/, encode/ and
// sidecar/ use the key.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/status.h"
#include "merkle/hash.h"

namespace lzy {

/// Distinguishes keys without revealing them. All zero: no key.
using KeyId = std::array<std::uint8_t, 16>;
/// 32 hexadecimal digits.
std::string KeyText(const KeyId& id);
/// Proves that somebody who knew the key vouched for what a sidecar says.
using Seal = std::array<std::uint8_t, 32>;

/// A key, made from a secret. Immutable and thread-safe. Its memory is wiped when the last owner goes.
class LeafKey {
 public:
  static constexpr std::size_t kLeastSecret = 16, kMostSecret = 65536;

  /// kInvalidArgument unless `secret` has kLeastSecret to kMostSecret bytes. Every byte counts, also a newline at the
  /// end of a file. The caller wipes the secret afterwards.
  static Result<std::shared_ptr<const LeafKey>> Make(ByteSpan secret);
  /// Overwrites a secret that is no longer needed, in a way that the compiler does not remove.
  static void Wipe(MutableByteSpan secret);
  ~LeafKey();
  LeafKey(const LeafKey&) = delete;
  LeafKey& operator=(const LeafKey&) = delete;

  const KeyId& id() const { return id_; }
  /// The keyed counterpart of HashBytes. Precondition: index < 2^56.
  Hash Leaf(HashTag tag, std::uint64_t index, ByteSpan bytes) const;
  /// The seal of the concatenated parts, which `parts` puts one after the other into the function that it gets. Fails
  /// as `parts` does. The contents themselves must tell where one part ends, or two different lists of parts would have
  /// the same seal.
  Result<Seal> SealOf(const std::function<Status(const std::function<void(ByteSpan)>& put)>& parts) const;

 private:
  LeafKey() = default;
  std::array<std::uint8_t, 32> key_{};
  KeyId id_{};
};

/// The leaf of a block, with a key or (null) without one. Make every leaf by this function.
inline Hash LeafHash(const LeafKey* key, HashTag tag, std::uint64_t index, ByteSpan bytes) {
  return key != nullptr ? key->Leaf(tag, index, bytes) : HashBytes(tag, index, bytes);
}

}  // namespace lzy
