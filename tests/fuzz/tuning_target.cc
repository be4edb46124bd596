#include <string_view>

#include "fuzz/targets.h"
#include "tuning/tuning.h"

namespace lzy::fuzz {
namespace {

void Run(const std::uint8_t* bytes, std::size_t size) {
  const auto tuning = DecodeTuning({reinterpret_cast<const char*>(bytes), size});
  if (!tuning) return;
  const std::string text = EncodeTuning(*tuning);
  const auto again = DecodeTuning(text);
  Require(again.has_value() && EncodeTuning(*again) == text, "a tuning that was read can be kept and read again");
}

std::vector<Input> Seeds() {
  const std::string text = EncodeTuning(Calibrate(1));
  return {Input(text.begin(), text.end())};
}

}  // namespace

const Target kTuning{"tuning", Run, Seeds};

}  // namespace lzy::fuzz
