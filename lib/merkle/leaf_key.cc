#include "merkle/leaf_key.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sodium.h>

#include <algorithm>
#include <string_view>

#include "merkle/xxh3.h"

namespace lzy {
namespace {

using Block = std::array<std::uint8_t, crypto_generichash_blake2b_PERSONALBYTES>;
static_assert(crypto_generichash_blake2b_PERSONALBYTES == 16 && crypto_generichash_blake2b_SALTBYTES == 16);

// The personalization of BLAKE2b names the purpose of a digest, so a digest for one purpose is never valid for another. The
// names are part of the format (docs/format.md §12).
constexpr Block Use(std::string_view name) {
  Block block{};
  std::copy(name.begin(), name.end(), block.begin());
  return block;
}
constexpr Block kMakeKey = Use("lzy key"), kMakeId = Use("lzy key id"), kMakeLeaf = Use("lzy leaf"),
                kMakeSeal = Use("lzy seal");
constexpr Block kNoSalt{};

}  // namespace

std::string KeyText(const KeyId& id) {
  return fmt::format("{:02x}", fmt::join(id, ""));
}

Result<std::shared_ptr<const LeafKey>> LeafKey::Make(ByteSpan secret) {
  if (secret.size() < kLeastSecret || secret.size() > kMostSecret) {
    return {Code::kInvalidArgument, fmt::format("a key of {} bytes is not accepted: {} to {} bytes", secret.size(),
                                                kLeastSecret, kMostSecret)};
  }
  if (sodium_init() < 0) return {Code::kInternal, "libsodium cannot be used"};
  std::shared_ptr<LeafKey> made(new LeafKey);
  // The secret is hashed to a key of fixed size. The identifier is made from the key, so it reveals neither.
  auto& key = made->key_;
  crypto_generichash_blake2b_salt_personal(key.data(), key.size(), secret.data(), secret.size(), nullptr, 0,
                                           kNoSalt.data(), kMakeKey.data());
  crypto_generichash_blake2b_salt_personal(made->id_.data(), made->id_.size(), nullptr, 0, key.data(), key.size(),
                                           kNoSalt.data(), kMakeId.data());
  return std::shared_ptr<const LeafKey>(std::move(made));
}

void LeafKey::Wipe(MutableByteSpan secret) {
  sodium_memzero(secret.data(), secret.size());
}

LeafKey::~LeafKey() {
  Wipe(key_);
}

Hash LeafKey::Leaf(HashTag tag, std::uint64_t index, ByteSpan bytes) const {
  // The salt replaces the seed of XXH3: it binds the leaf to its tag and index.
  Block salt{};
  StoreLe(salt.data(), SeedOf(tag, index));
  Hash hash;
  crypto_generichash_blake2b_salt_personal(hash.bytes.data(), hash.bytes.size(), bytes.data(), bytes.size(),
                                           key_.data(), key_.size(), salt.data(), kMakeLeaf.data());
  return hash;
}

Result<Seal> LeafKey::SealOf(const std::function<Status(const std::function<void(ByteSpan)>& put)>& parts) const {
  Seal seal;
  crypto_generichash_blake2b_state state;
  crypto_generichash_blake2b_init_salt_personal(&state, key_.data(), key_.size(), seal.size(), kNoSalt.data(),
                                                kMakeSeal.data());
  const auto put = [&](ByteSpan part) { crypto_generichash_blake2b_update(&state, part.data(), part.size()); };
  const Status all = NoThrow([&] { return parts(put); });
  crypto_generichash_blake2b_final(&state, seal.data(), seal.size());
  // The state holds the key.
  sodium_memzero(&state, sizeof state);
  LZY_RETURN_IF_ERROR(all);
  return seal;
}

}  // namespace lzy
