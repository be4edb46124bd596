#pragma once
// Keyed leaves, which only the holder of a secret can make, for datasets that somebody might forge: BLAKE2b with a key (RFC
// 7693; libsodium). docs/format.md §12 defines the use of the secret. docs/design/commit.md §12 describes the protection
// and its limits. Option `key` (request/options) gives the secret; storage/, encode/ and sidecar/ use the key.

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
/// Proves that somebody who knew the key vouched for the contents of a sidecar.
using Seal = std::array<std::uint8_t, 32>;

/// A key, made from a secret. Immutable and thread-safe. Its memory is wiped when the last owner releases it.
class LeafKey {
 public:
  static constexpr std::size_t kLeastSecret = 16, kMostSecret = 65536;

  /// kInvalidArgument unless `secret` has kLeastSecret to kMostSecret bytes. Every byte counts, also a newline at the
  /// end of a file. The caller wipes the secret afterwards.
  static Result<std::shared_ptr<const LeafKey>> Make(ByteSpan secret);
  /// Overwrites a secret that is no longer needed, in a way that the compiler does not optimise away.
  static void Wipe(MutableByteSpan secret);
  ~LeafKey();
  LeafKey(const LeafKey&) = delete;
  LeafKey& operator=(const LeafKey&) = delete;

  const KeyId& id() const { return id_; }
  /// The keyed counterpart of HashBytes. Precondition: index < 2^56.
  Hash Leaf(HashTag tag, std::uint64_t index, ByteSpan bytes) const;
  /// The seal of concatenated parts. `parts` passes one part after the other to the function `put`. Fails if `parts` fails.
  /// The contents themselves must show where one part ends; otherwise two different lists of parts could have the same
  /// seal.
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
