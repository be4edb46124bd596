#pragma once
// Proof that a library computes what a plan says, by arithmetic that shares nothing with the library.
//
// Parity that is computed wrongly gets right hashes, so nobody would notice it before it is needed. Versions of ISA-L
// differ in their kernels and in the layout of their tables, and which kernel runs depends on the processor. So
// codec.cc has each kind of plan proven before its first use in a process. Pure: no I/O, no MPI.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace lzy {

/// a * b in GF(256) modulo x^8+x^4+x^3+x^2+1 (docs/format.md §7).
std::uint8_t GfMultiply(std::uint8_t a, std::uint8_t b);
/// The inverse of a; 0 for 0, which has none.
std::uint8_t GfInverse(std::uint8_t a);

/// As Plan::Apply.
using ApplyFn = std::function<void(std::span<const std::uint32_t> which, const std::uint8_t* const* inputs,
                                   std::uint8_t* const* outputs, std::size_t length, bool accumulate)>;

/// Whether `apply` computes what `matrix` says (targets x sources). Each source has every value of a byte. Tried are all
/// lengths up to two of the widest steps of any kernel (64 bytes) and each rest behind them, with up to eight sources; a
/// length of more than a strip with all of them; with and without adding to what is there. Nothing may be written behind
/// the end. Takes 0.1 to 0.6 milliseconds for up to 20 sources and 8 targets, and tens of them for the widest codes.
bool ComputesRightly(std::size_t sources, std::size_t targets, std::span<const std::uint8_t> matrix, const ApplyFn& apply);

}  // namespace lzy
