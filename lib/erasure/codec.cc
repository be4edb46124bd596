#include "erasure/codec.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <isa-l/erasure_code.h>
#include <isa-l/raid.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <cassert>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <tuple>

#include "erasure/proof.h"

namespace lzy {
namespace {

constexpr std::uint32_t kMaxSymbols = 255;
constexpr std::size_t kTableBytes = 32;  // ISA-L's expanded form of one coefficient
// The most rows that ISA-L's widest kernel computes in one pass over a source.
constexpr std::size_t kRowsPerPass = 6;
// Work is done strip by strip, so outputs stay in the cache while sources are added to them, and lengths fit ISA-L's int.
// Strips are multiples of 64 bytes, so they are as aligned as the buffers.
constexpr std::size_t kStripBytes = 16 * 1024;

[[maybe_unused]] bool IsAligned(const std::uint8_t* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % 32 == 0;
}

// The generator matrix: n rows of k coefficients; row p expresses position p by the data. With one parity, plain XOR also
// gives a code in which any one loss can be repaired, and it is faster.
std::vector<std::uint8_t> Generator(std::uint32_t n, std::uint32_t m) {
  const std::size_t k = n - m;
  std::vector<std::uint8_t> rows(n * k);
  for (std::size_t q = 0; q < m; ++q) {
    for (std::size_t j = 0; j < k; ++j) rows[q * k + j] = m == 1 ? 1 : GfInverse(static_cast<std::uint8_t>((k + q) ^ j));
  }
  for (std::size_t j = 0; j < k; ++j) rows[(m + j) * k + j] = 1;
  return rows;
}

// The file from which the dynamic linker loaded ISA-L, for messages.
std::string NameOfLibrary() {
  Dl_info found;
  const bool known = dladdr(reinterpret_cast<const void*>(&ec_encode_data_update), &found) != 0 && found.dli_fname != nullptr;
  return known ? fmt::format("ISA-L ({})", found.dli_fname) : "ISA-L";
}

// The properties of a plan that select code in ISA-L: whether it encodes, its sources, and its targets of both kinds. They
// determine the coefficients of an encoding plan, so the proof uses these. Nothing else would show that parity is wrong.
using Kind = std::tuple<bool, std::size_t, std::size_t, std::size_t>;

// Kept until the process ends, for all threads.
class ProvenKinds {
 public:
  bool Has(const Kind& kind) {
    const std::lock_guard lock(mutex_);
    return kinds_.contains(kind);
  }
  void Add(const Kind& kind) {
    const std::lock_guard lock(mutex_);
    kinds_.insert(kind);
  }

 private:
  std::mutex mutex_;
  std::set<Kind> kinds_;
};
ProvenKinds& Proven() {
  static auto& proven = *new ProvenKinds;  // never destroyed: commits may go on while the process ends
  return proven;
}

// output = (accumulate ? output : 0) XOR vectors[0] XOR ... XOR vectors[count - 1]. `vectors` has room for two more.
void XorStrip(void** vectors, int count, std::uint8_t* output, std::size_t length, bool accumulate) {
  if (accumulate) {
    if (count == 0) return;
    // The output is one more source. This is safe: each of ISA-L's kernels reads a byte from all sources before it
    // writes that byte.
    vectors[count++] = output;
  }
  if (count == 0) {
    std::memset(output, 0, length);
  } else if (count == 1) {
    std::memcpy(output, vectors[0], length);
  } else {
    // xor_gen takes the destination as the last vector, and needs at least two sources.
    vectors[count++] = output;
    [[maybe_unused]] const int failed = xor_gen(count, static_cast<int>(length), vectors);
    assert(!failed);
  }
}

}  // namespace

// Sorts the targets by how they are computed: rows of zeros and ones need no multiplication. Tables are made only for
// the other rows; an encoding with m = 1 needs none.
Plan::Plan(std::size_t sources, std::size_t targets, std::vector<std::uint8_t> matrix)
    : sources_(sources), targets_(targets), matrix_(std::move(matrix)) {
  std::vector<std::uint8_t> product_rows;
  for (std::size_t t = 0; t < targets_; ++t) {
    const std::span<const std::uint8_t> row(matrix_.data() + t * sources_, sources_);
    if (std::all_of(row.begin(), row.end(), [](std::uint8_t c) { return c <= 1; })) {
      xor_targets_.push_back(t);
    } else {
      product_targets_.push_back(t);
      product_rows.insert(product_rows.end(), row.begin(), row.end());
    }
  }
  for (std::size_t first = 0; first < product_targets_.size(); first += kRowsPerPass) {
    const std::size_t rows = std::min(kRowsPerPass, product_targets_.size() - first);
    std::vector<std::uint8_t>& tables = tables_.emplace_back(rows * sources_ * kTableBytes);
    ec_init_tables(static_cast<int>(sources_), static_cast<int>(rows), product_rows.data() + first * sources_, tables.data());
  }
}

Status Plan::Prove(bool encodes) const {
  const Kind kind{encodes, sources_, xor_targets_.size(), product_targets_.size()};
  if (Proven().Has(kind)) return Status::Ok();
  const auto apply = [&](auto... arguments) { Apply(arguments...); };
  if (!ComputesRightly(sources_, targets_, matrix_, apply)) {
    return {Code::kInternal,
            fmt::format("{} computes wrongly on this processor: {} blocks of parity or of lost data from {} blocks. No parity was made "
                        "and nothing was rebuilt. Install another version of the library", NameOfLibrary(), targets_, sources_)};
  }
  Proven().Add(kind);
  return Status::Ok();
}

void Plan::Apply(std::span<const std::uint32_t> which, const std::uint8_t* const* inputs, std::uint8_t* const* outputs,
                 std::size_t length, bool accumulate) const {
  assert(which.size() <= sources_);
  assert(std::all_of(which.begin(), which.end(), [&](std::uint32_t s) { return s < sources_; }));
  assert(std::all_of(inputs, inputs + which.size(), IsAligned));
  assert(std::all_of(outputs, outputs + targets_, IsAligned));
  for (std::size_t offset = 0; offset < length; offset += kStripBytes) {
    const std::size_t bytes = std::min(kStripBytes, length - offset);
    ApplyXor(which, inputs, outputs, offset, bytes, accumulate);
    ApplyProducts(which, inputs, outputs, offset, bytes, accumulate);
  }
}

void Plan::ApplyXor(std::span<const std::uint32_t> which, const std::uint8_t* const* inputs,
                    std::uint8_t* const* outputs, std::size_t offset, std::size_t bytes, bool accumulate) const {
  std::array<void*, kMaxSymbols + 2> vectors;
  for (const std::size_t t : xor_targets_) {
    int count = 0;
    for (std::size_t i = 0; i < which.size(); ++i) {
      if (coefficient(t, which[i]) == 1) vectors[count++] = const_cast<std::uint8_t*>(inputs[i] + offset);
    }
    XorStrip(vectors.data(), count, outputs[t] + offset, bytes, accumulate);
  }
}

void Plan::ApplyProducts(std::span<const std::uint32_t> which, const std::uint8_t* const* inputs,
                         std::uint8_t* const* outputs, std::size_t offset, std::size_t bytes, bool accumulate) const {
  for (std::size_t first = 0; first < product_targets_.size(); first += kRowsPerPass) {
    const std::size_t rows = std::min(kRowsPerPass, product_targets_.size() - first);
    std::array<std::uint8_t*, kRowsPerPass> strips;
    for (std::size_t row = 0; row < rows; ++row) {
      strips[row] = outputs[product_targets_[first + row]] + offset;
      if (!accumulate) std::memset(strips[row], 0, bytes);
    }
    // Adding source by source lets one set of tables serve any subset of the sources. It was measured to be no slower
    // than ISA-L's dot products over the full set.
    auto* const tables = const_cast<std::uint8_t*>(tables_[first / kRowsPerPass].data());
    for (std::size_t i = 0; i < which.size(); ++i) {
      ec_encode_data_update(static_cast<int>(bytes), static_cast<int>(sources_), static_cast<int>(rows),
                            static_cast<int>(which[i]), tables, const_cast<std::uint8_t*>(inputs[i] + offset),
                            strips.data());
    }
  }
}

Result<Codec> Codec::Create(std::uint32_t n, std::uint32_t m) {
  if (n > kMaxSymbols || m >= n) {
    return {Code::kInvalidArgument,
            fmt::format("no erasure code with n = {}, m = {}: 0 <= m < n <= {} is needed", n, m, kMaxSymbols)};
  }
  Codec codec;
  codec.n_ = n;
  codec.m_ = m;
  codec.generator_ = Generator(n, m);
  return codec;
}

Result<Plan> Codec::EncodePlan() const {
  const auto parity_end = generator_.begin() + static_cast<std::ptrdiff_t>(std::size_t{m_} * k());
  Plan plan(k(), m_, {generator_.begin(), parity_end});
  LZY_RETURN_IF_ERROR(plan.Prove(/*encodes=*/true));
  return plan;
}

Result<Plan> Codec::MakePlan(std::span<const std::uint32_t> sources, std::span<const std::uint32_t> targets) const {
  if (sources.size() != k()) {
    return {Code::kInvalidArgument,
            fmt::format("{} source positions given; n = {}, m = {} needs exactly {}", sources.size(), n_, m_, k())};
  }
  // Check the positions first: they may follow from findings about a damaged dataset.
  std::bitset<kMaxSymbols> seen;
  for (const std::uint32_t position : sources) {
    if (position >= n_) {
      return {Code::kInvalidArgument, fmt::format("source position {}: the last one is {}", position, n_ - 1)};
    }
    if (seen[position]) {
      return {Code::kInvalidArgument, fmt::format("source position {} is given twice", position)};
    }
    seen.set(position);
  }
  for (const std::uint32_t position : targets) {
    if (position >= n_) {
      return {Code::kInvalidArgument, fmt::format("target position {}: the last one is {}", position, n_ - 1)};
    }
  }

  // sources = S * data and targets = T * data, so targets = T * inverse(S) * sources. S and T are rows of the
  // generator. S is never singular: every square submatrix of a Cauchy matrix can be inverted.
  const std::size_t width = k();
  std::vector<std::uint8_t> source_rows;
  source_rows.reserve(width * width);
  for (const std::uint32_t position : sources) {
    source_rows.insert(source_rows.end(), Row(position), Row(position) + width);
  }
  std::vector<std::uint8_t> inverse(width * width);
  if (gf_invert_matrix(source_rows.data(), inverse.data(), static_cast<int>(width)) != 0) {
    return {Code::kInternal, fmt::format("the generator of n = {}, m = {} has a singular submatrix", n_, m_)};
  }
  // T * inverse(S). Most factors of a data position are zero, because its generator row is a unit vector.
  std::vector<std::uint8_t> matrix(targets.size() * width);
  for (std::size_t t = 0; t < targets.size(); ++t) {
    for (std::size_t j = 0; j < width; ++j) {
      const std::uint8_t factor = Row(targets[t])[j];
      if (factor == 0) continue;
      for (std::size_t s = 0; s < width; ++s) matrix[t * width + s] ^= gf_mul(factor, inverse[j * width + s]);
    }
  }
  Plan plan(width, targets.size(), std::move(matrix));
  LZY_RETURN_IF_ERROR(plan.Prove(/*encodes=*/false));
  return plan;
}

}  // namespace lzy
