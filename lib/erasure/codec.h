#pragma once
// Erasure codes over a row: one interface for XOR (m = 1) and Cauchy Reed-Solomon (any m), computed by ISA-L.
//
// A codeword has n symbols (blocks of equal length): positions [0, m) are parity, [m, n) are data. Any n - m correct
// symbols determine all others. Encoding, decoding and everything in between is one operation: a Plan that expresses
// wanted positions (targets) as GF(256)-linear combinations of k = n - m known ones (sources). Because it is linear,
// each process may apply the part of the plan that concerns the sources it holds, and XOR of the partial results
// (MPI_Reduce_scatter with MPI_BXOR) gives the targets.
//
// m = 1: parity = XOR of the data. m > 1: parity q = sum over data index j of c(q, j) * data j with
// c(q, j) = inverse((n - m + q) XOR j) in GF(256) modulo x^8+x^4+x^3+x^2+1 (0x11d): ISA-L's gf_gen_cauchy1_matrix.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"

namespace lzy {

class Plan {
 public:
  Plan() = default;

  std::size_t sources() const { return sources_; }
  std::size_t targets() const { return targets_; }
  /// Coefficient of source s in target t.
  std::uint8_t coefficient(std::size_t t, std::size_t s) const { return matrix_[t * sources_ + s]; }

  /// outputs[t] = (accumulate ? outputs[t] : 0) XOR sum over i of coefficient(t, which[i]) * inputs[i], for all t.
  /// `which` names the plan's sources that inputs[] holds: any subset in any order, none twice. `length` is bytes, any
  /// value; pointers aligned to 32 bytes, outputs overlapping neither inputs nor each other (preconditions). Inputs
  /// shorter than `length` must be zero-padded by the caller. Thread-safe; allocates nothing.
  void Apply(std::span<const std::uint32_t> which, const std::uint8_t* const* inputs, std::uint8_t* const* outputs,
             std::size_t length, bool accumulate) const;

 private:
  friend class Codec;
  Plan(std::size_t sources, std::size_t targets, std::vector<std::uint8_t> matrix);
  void ApplyXor(std::span<const std::uint32_t> which, const std::uint8_t* const* inputs, std::uint8_t* const* outputs,
                std::size_t offset, std::size_t bytes, bool accumulate) const;
  void ApplyProducts(std::span<const std::uint32_t> which, const std::uint8_t* const* inputs,
                     std::uint8_t* const* outputs, std::size_t offset, std::size_t bytes, bool accumulate) const;

  std::size_t sources_ = 0;
  std::size_t targets_ = 0;
  std::vector<std::uint8_t> matrix_;          // targets_ x sources_
  std::vector<std::size_t> xor_targets_;      // rows of zeros and ones: XOR (or, of a single one, a copy) suffices
  std::vector<std::size_t> product_targets_;  // the other rows
  std::vector<std::uint8_t> tables_;          // ISA-L's tables for product_targets_, row by row
};

class Codec {
 public:
  /// 0 <= m < n <= 255, otherwise kInvalidArgument naming n and m.
  static Result<Codec> Create(std::uint32_t n, std::uint32_t m);

  std::uint32_t n() const { return n_; }
  std::uint32_t m() const { return m_; }
  std::uint32_t k() const { return n_ - m_; }

  /// All parity positions 0..m-1 from all data positions m..n-1 (in that order).
  Plan EncodePlan() const;
  /// `sources`: exactly k distinct positions; `targets`: any positions. kInvalidArgument otherwise. Costs O(k^3), tens
  /// of milliseconds for k > 200: make one plan for all blocks with the same losses.
  Result<Plan> MakePlan(std::span<const std::uint32_t> sources, std::span<const std::uint32_t> targets) const;

 private:
  const std::uint8_t* Row(std::uint32_t position) const { return generator_.data() + std::size_t{position} * k(); }

  std::uint32_t n_ = 1;
  std::uint32_t m_ = 0;
  std::vector<std::uint8_t> generator_;  // n x k: row p expresses position p in terms of the data
};

}  // namespace lzy
