#pragma once
// Tests with sidecars of the compact form and of the ordinary one (docs/format.md §14). The parameter: whether compact.
#include <gtest/gtest.h>

#include <string>

namespace lzy::testing {

inline std::string NameOfForm(const ::testing::TestParamInfo<bool>& test) {
  return test.param ? "Compact" : "Ordinary";
}
/// For the name of a test that has another parameter beside the form.
inline std::string SuffixOfForm(bool compact) {
  return compact ? "Compact" : "";
}

}  // namespace lzy::testing
