// The proof of the library: it accepts what is right, and finds each fault that a version of ISA-L may have.
#include "erasure/proof.h"

#include <gtest/gtest.h>
#include <isa-l/erasure_code.h>

#include <cstring>
#include <memory>
#include <vector>

#include "erasure/codec.h"

namespace lzy {
namespace {

std::uint8_t Product(unsigned a, unsigned b) {
  unsigned product = 0;
  for (unsigned bit = 0; bit < 8; ++bit) {
    if ((b >> bit) & 1) product ^= a << bit;
  }
  for (unsigned bit = 15; bit >= 8; --bit) {
    if ((product >> bit) & 1) product ^= 0x11dU << (bit - 8);
  }
  return static_cast<std::uint8_t>(product);
}

TEST(Gf, MultipliesAndInvertsByTheDefinition) {
  for (unsigned a = 0; a < 256; ++a) {
    for (unsigned b = 0; b < 256; ++b) {
      ASSERT_EQ(GfMultiply(static_cast<std::uint8_t>(a), static_cast<std::uint8_t>(b)), Product(a, b)) << a << " " << b;
    }
    EXPECT_EQ(Product(GfInverse(static_cast<std::uint8_t>(a)), a), a == 0 ? 0 : 1) << a;
  }
}

/// The coefficients that encode k blocks of data to m of parity.
std::vector<std::uint8_t> MatrixOf(std::uint32_t k, std::uint32_t m) {
  std::vector<std::uint8_t> matrix;
  for (std::uint32_t q = 0; q < m; ++q) {
    for (std::uint32_t j = 0; j < k; ++j) matrix.push_back(m == 1 ? 1 : GfInverse(static_cast<std::uint8_t>((k + q) ^ j)));
  }
  return matrix;
}

/// A library that computes by plain arithmetic.
struct Plain {
  std::size_t sources, targets;
  std::vector<std::uint8_t> matrix;
  void operator()(std::span<const std::uint32_t> which, const std::uint8_t* const* inputs, std::uint8_t* const* outputs, std::size_t length,
                  bool accumulate) const {
    for (std::size_t t = 0; t < targets; ++t) {
      if (!accumulate) std::memset(outputs[t], 0, length);
      for (std::size_t s = 0; s < which.size(); ++s) {
        for (std::size_t i = 0; i < length; ++i) outputs[t][i] ^= GfMultiply(matrix[t * sources + which[s]], inputs[s][i]);
      }
    }
  }
};

/// What a fault does to the result of one call.
struct Call {
  std::size_t sources;  // that the call had
  std::uint8_t* const* outputs;
  std::size_t length;
  bool accumulate;
};
using Fault = std::function<void(const Call&)>;

/// Whether the proof accepts a library with this fault.
bool Accepts(std::uint32_t k, std::uint32_t m, const Fault& fault) {
  const Plain plain{k, m, MatrixOf(k, m)};
  return ComputesRightly(k, m, plain.matrix, [&](auto which, auto inputs, auto outputs, std::size_t length, bool accumulate) {
    plain(which, inputs, outputs, length, accumulate);
    fault({which.size(), outputs, length, accumulate});
  });
}

TEST(Proof, AcceptsWhatIsRight) {
  for (const auto& [k, m] : std::vector<std::pair<std::uint32_t, std::uint32_t>>{{1, 1}, {1, 2}, {3, 1}, {6, 2}, {4, 8}, {20, 13}}) {
    EXPECT_TRUE(Accepts(k, m, [](const Call&) {})) << k << " " << m;
  }
  EXPECT_TRUE(ComputesRightly(4, 0, {}, nullptr));
}

TEST(Proof, FindsFaultsOfLengthsAndTails) {
  for (std::size_t wrong = 1; wrong <= 191; ++wrong) {
    const auto last_byte = [&](const Call& call) {
      if (call.length == wrong) call.outputs[1][wrong - 1] ^= 1;
    };
    EXPECT_FALSE(Accepts(3, 2, last_byte)) << wrong;
  }
  for (std::size_t rest = 0; rest < 64; ++rest) {
    const auto tail = [&](const Call& call) {
      if (call.length > 64 && call.length % 64 == rest) call.outputs[0][call.length - 1] ^= 0x80;
    };
    EXPECT_FALSE(Accepts(3, 2, tail)) << rest;
  }
  EXPECT_FALSE(Accepts(3, 2, [](const Call& call) {
    if (call.length > 16000) call.outputs[0][16000] ^= 1;
  }));
  EXPECT_FALSE(Accepts(3, 2, [](const Call& call) {
    if (call.length > 16384) call.outputs[0][16384 + 70] ^= 1;
  }));
  EXPECT_FALSE(Accepts(3, 2, [](const Call& call) { call.outputs[0][call.length] = 1; }));  // behind the end
}

TEST(Proof, FindsFaultsOfTargetsAndSources) {
  for (std::size_t target = 0; target < 9; ++target) {
    EXPECT_FALSE(Accepts(4, 9, [&](const Call& call) { std::memset(call.outputs[target], 0, call.length); })) << target;
  }
  for (const bool accumulate : {false, true}) {
    EXPECT_FALSE(Accepts(4, 1, [&](const Call& call) {
      if (call.accumulate == accumulate) call.outputs[0][0] ^= 1;
    }));
  }
  for (const std::size_t sources : {1, 2, 7, 8, 20}) {
    EXPECT_FALSE(Accepts(20, 2, [&](const Call& call) {
      if (call.sources == sources) call.outputs[0][0] ^= 1;
    })) << sources;
  }
}

TEST(Proof, FindsEachWrongProduct) {
  const Plain plain{3, 2, MatrixOf(3, 2)};
  for (unsigned value = 0; value < 256; ++value) {
    const auto apply = [&](auto which, auto inputs, auto outputs, std::size_t length, bool accumulate) {
      plain(which, inputs, outputs, length, accumulate);
      if (which.size() < 3) return;
      for (std::size_t i = 0; i < length; ++i) outputs[1][i] ^= inputs[2][i] == value ? 1 : 0;
    };
    EXPECT_FALSE(ComputesRightly(3, 2, plain.matrix, apply)) << value;
  }
  for (std::size_t i = 0; i < plain.matrix.size(); ++i) {
    Plain other = plain;
    other.matrix[i] ^= 1;
    EXPECT_FALSE(ComputesRightly(3, 2, plain.matrix, other)) << i;
  }
}

// Two ways in which a library may lay out its tables. `update` adds the products of source `s` to `rows` outputs.
struct Layout {
  void (*init)(int k, int rows, std::uint8_t* matrix, std::uint8_t* tables);
  void (*update)(int length, int k, int rows, int s, std::uint8_t* tables, std::uint8_t* data, std::uint8_t** coding);
};
// As ISA-L 2.31 has it on processors with GFNI (intel/isa-l #391): eight bytes for each coefficient.
constexpr Layout kWithGfni = {
    [](int k, int rows, std::uint8_t* matrix, std::uint8_t* tables) {
      for (int i = 0; i < k * rows; ++i) std::memset(tables + std::ptrdiff_t{8} * i, matrix[i], 8);
    },
    [](int length, int k, int rows, int s, std::uint8_t* tables, std::uint8_t* data, std::uint8_t** coding) {
      for (int row = 0; row < rows; ++row) {
        for (int i = 0; i < length; ++i) coding[row][i] ^= GfMultiply(tables[8 * (row * k + s)], data[i]);
      }
    }};
constexpr Layout kOfThisMachine = {ec_init_tables, ec_encode_data_update};

/// Encodes 4 to 8 blocks, six rows a pass. With one set of tables for all passes, the second one begins at 32 bytes for each
/// coefficient of the first, as lzy had it at first.
ApplyFn EncoderWith(const Layout& layout, bool one_set) {
  const auto tables = std::make_shared<std::vector<std::uint8_t>>(4 * 8 * 32);
  const auto matrix = std::make_shared<std::vector<std::uint8_t>>(MatrixOf(4, 8));
  const std::size_t second = 6 * 4 * 32;
  layout.init(4, one_set ? 8 : 6, matrix->data(), tables->data());
  if (!one_set) layout.init(4, 2, matrix->data() + 6 * 4, tables->data() + second);
  return [=](auto which, auto inputs, auto outputs, std::size_t length, bool accumulate) {
    std::vector<std::uint8_t*> rows(outputs, outputs + 8);
    for (std::uint8_t* row : rows) {
      if (!accumulate) std::memset(row, 0, length);
    }
    for (std::size_t i = 0; i < which.size(); ++i) {
      auto* const data = const_cast<std::uint8_t*>(inputs[i]);
      layout.update(static_cast<int>(length), 4, 6, static_cast<int>(which[i]), tables->data(), data, rows.data());
      layout.update(static_cast<int>(length), 4, 2, static_cast<int>(which[i]), tables->data() + second, data, rows.data() + 6);
    }
  };
}

// What lzy did, and what happened to it.
TEST(Proof, FindsThatOneSetOfTablesDoesNotServeSeveralPasses) {
  const auto matrix = MatrixOf(4, 8);
  EXPECT_FALSE(ComputesRightly(4, 8, matrix, EncoderWith(kWithGfni, /*one_set=*/true)));
  EXPECT_TRUE(ComputesRightly(4, 8, matrix, EncoderWith(kWithGfni, /*one_set=*/false)));
  EXPECT_TRUE(ComputesRightly(4, 8, matrix, EncoderWith(kOfThisMachine, /*one_set=*/false)));
}

}  // namespace
}  // namespace lzy
