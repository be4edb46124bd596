#pragma once
// Proof that a library computes what a plan says, by arithmetic that shares nothing with the library.
//
// Parity that was computed wrongly gets right hashes, so the error would show only when the parity is needed. Versions of
// ISA-L differ in their kernels and in the layout of their tables, and the kernel depends on the processor. So codec.cc
// proves each kind of plan before its first use in a process. Pure: no I/O, no MPI.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace lzy {

/// a * b in GF(256) modulo x^8+x^4+x^3+x^2+1 (docs/format.md §7).
std::uint8_t GfMultiply(std::uint8_t a, std::uint8_t b);
/// The inverse of a. 0 has none; returns 0.
std::uint8_t GfInverse(std::uint8_t a);

/// As Plan::Apply.
using ApplyFn = std::function<void(std::span<const std::uint32_t> which, const std::uint8_t* const* inputs,
                                   std::uint8_t* const* outputs, std::size_t length, bool accumulate)>;

/// True if `apply` computes what `matrix` (targets x sources) says. Each source contains all byte values. Tests all lengths
/// up to two of the widest steps of any kernel (64 bytes) plus each remainder, with up to eight sources; a length above one
/// strip with all sources; with and without `accumulate`. Also tests that nothing is written behind the end. Takes 0.1 to
/// 0.6 milliseconds for up to 20 sources and 8 targets, and tens of milliseconds for the widest codes.
bool ComputesRightly(std::size_t sources, std::size_t targets, std::span<const std::uint8_t> matrix, const ApplyFn& apply);

}  // namespace lzy
