#pragma once
// Erasure codes over a row: one interface for XOR (m = 1) and Cauchy Reed-Solomon (any m), computed by ISA-L.
//
// Callers: rows/ (encoding and rebuilding of rows, plans cached in rows/plan_cache) and encode/capture. No I/O, no MPI.
//
// A codeword has n symbols (blocks of equal length): positions [0, m) are parity, [m, n) are data. Any n - m correct
// symbols determine all others. Encoding and decoding are one operation: a Plan. It expresses wanted positions (targets) as
// GF(256)-linear combinations of k = n - m known ones (sources). Because it is linear, each process may apply the part of
// the plan for the sources that it holds. The XOR of all partial results (Communicator::ReduceScatterXor) gives the
// targets.
//
// A plan is returned only after a proof that ISA-L computes plans of its kind correctly in this process (erasure/proof.h;
// docs/design/overview.md §3, "Proof of the library").
//
// docs/format.md §7: with m = 1, parity is the XOR of the data. With m > 1, parity q is the sum over data index j of
// c(q, j) * data j, where c(q, j) = inverse((n - m + q) XOR j) in GF(256) modulo x^8+x^4+x^3+x^2+1 (0x11d). This is the
// Cauchy matrix of ISA-L's gf_gen_cauchy1_matrix.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"

namespace lzy {

/// A matrix over GF(256) with the tables that ISA-L needs to apply it. Made by a Codec; immutable, so threads may share it.
/// A default plan has no sources and no targets.
class Plan {
 public:
  Plan() = default;

  std::size_t sources() const { return sources_; }
  std::size_t targets() const { return targets_; }
  /// Coefficient of source s in target t.
  std::uint8_t coefficient(std::size_t t, std::size_t s) const { return matrix_[t * sources_ + s]; }

  /// outputs[t] = (accumulate ? outputs[t] : 0) XOR sum over i of coefficient(t, which[i]) * inputs[i], for all targets t.
  /// `which`: the sources of the plan that inputs[] contains, any subset in any order, none twice. Source s is the s-th
  /// position that was passed to MakePlan. `length`: bytes of each input and output, any number. Preconditions: pointers
  /// are aligned to 32 bytes; outputs overlap neither inputs nor each other; inputs that are shorter than `length` were
  /// padded with zeros. Thread-safe; allocates nothing; cannot fail.
  void Apply(std::span<const std::uint32_t> which, const std::uint8_t* const* inputs, std::uint8_t* const* outputs,
             std::size_t length, bool accumulate) const;

 private:
  friend class Codec;
  Plan(std::size_t sources, std::size_t targets, std::vector<std::uint8_t> matrix);
  /// Returns kInternal if ISA-L computes this plan wrongly. Remembers kinds that were proven. `encodes`: EncodePlan made
  /// it.
  Status Prove(bool encodes) const;
  void ApplyXor(std::span<const std::uint32_t> which, const std::uint8_t* const* inputs, std::uint8_t* const* outputs,
                std::size_t offset, std::size_t bytes, bool accumulate) const;
  void ApplyProducts(std::span<const std::uint32_t> which, const std::uint8_t* const* inputs,
                     std::uint8_t* const* outputs, std::size_t offset, std::size_t bytes, bool accumulate) const;

  std::size_t sources_ = 0;
  std::size_t targets_ = 0;
  std::vector<std::uint8_t> matrix_;          // targets_ x sources_
  std::vector<std::size_t> xor_targets_;      // rows of zeros and ones: XOR, or a copy for a single one, suffices
  std::vector<std::size_t> product_targets_;  // the other rows
  // ISA-L's tables for product_targets_, one for each pass (kRowsPerPass). The layout of rows within a table differs by
  // version and processor of ISA-L, so passes share no table.
  std::vector<std::vector<std::uint8_t>> tables_;
};

/// The code of one n and m: makes plans. Immutable and thread-safe.
class Codec {
 public:
  /// 0 <= m < n <= 255, otherwise kInvalidArgument naming n and m.
  static Result<Codec> Create(std::uint32_t n, std::uint32_t m);

  std::uint32_t n() const { return n_; }
  std::uint32_t m() const { return m_; }
  std::uint32_t k() const { return n_ - m_; }

  /// Makes all parity positions 0..m-1 from all data positions m..n-1 (in that order). Returns kInternal if ISA-L computes
  /// wrongly: then this machine cannot make parity. The first call for an n and m in a process includes a proof, which
  /// takes less than half a millisecond for up to 20 devices.
  Result<Plan> EncodePlan() const;
  /// Makes `targets` (any positions) from `sources` (exactly k distinct positions); kInvalidArgument otherwise. kInternal
  /// as for EncodePlan. Plans with equal numbers of sources and targets share one proof, because their results are compared
  /// with hashes. Costs O(k^3), tens of milliseconds for k > 200. So make one plan for all rows with the same losses.
  Result<Plan> MakePlan(std::span<const std::uint32_t> sources, std::span<const std::uint32_t> targets) const;

 private:
  const std::uint8_t* Row(std::uint32_t position) const { return generator_.data() + std::size_t{position} * k(); }

  std::uint32_t n_ = 1;
  std::uint32_t m_ = 0;
  std::vector<std::uint8_t> generator_;  // n x k: row p expresses position p in terms of the data
};

}  // namespace lzy
