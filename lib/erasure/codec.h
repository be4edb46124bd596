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
// c(q, j) = inverse(( n - m + q ) XOR j) in GF(256) modulo x^8+x^4+x^3+x^2+1 (0x11d): ISA-L's gf_gen_cauchy1_matrix.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"

namespace lzy {

class Plan {
 public:
  std::size_t sources() const { return sources_; }
  std::size_t targets() const { return targets_; }
  /// Coefficient of source s in target t.
  std::uint8_t coefficient(std::size_t t, std::size_t s) const { return matrix_[t * sources_ + s]; }

  /// outputs[t] = (accumulate ? outputs[t] : 0) XOR sum over i of coefficient(t, which[i]) * inputs[i], for all t.
  /// `which` names the plan's sources that inputs[] holds, any subset in any order. `length` is bytes, any value;
  /// pointers aligned to 32 bytes (precondition, asserted). Inputs shorter than `length` must be zero-padded by the
  /// caller. Thread-safe.
  void Apply(std::span<const std::uint32_t> which, const std::uint8_t* const* inputs, std::uint8_t* const* outputs,
             std::size_t length, bool accumulate) const;

 private:
  friend class Codec;
  std::size_t sources_ = 0;
  std::size_t targets_ = 0;
  std::vector<std::uint8_t> matrix_;  // targets_ x sources_
  bool all_ones_ = false;             // XOR suffices
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
  /// `sources`: exactly k distinct positions; `targets`: any positions. kInvalidArgument otherwise.
  Result<Plan> MakePlan(std::span<const std::uint32_t> sources, std::span<const std::uint32_t> targets) const;

 private:
  std::uint32_t n_ = 1;
  std::uint32_t m_ = 0;
  std::vector<std::uint8_t> generator_;  // n x k: row p expresses position p in terms of the data
};

}  // namespace lzy
