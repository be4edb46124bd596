#include <string_view>

#include "fuzz/targets.h"
#include "tuning/exchange_tuning.h"
#include "tuning/tuning.h"

namespace lzy::fuzz {
namespace {

void RunExchange(const std::uint8_t* bytes, std::size_t size) {
  const auto tuning = DecodeExchange({reinterpret_cast<const char*>(bytes), size});
  if (!tuning) return;
  const std::string text = EncodeExchange(tuning->place, tuning->times);
  const auto again = DecodeExchange(text);
  Require(again.has_value() && again->place == tuning->place && again->times == tuning->times,
          "times that were read can be kept and read again");
}

void Run(const std::uint8_t* bytes, std::size_t size) {
  RunExchange(bytes, size);
  const auto tuning = DecodeTuning({reinterpret_cast<const char*>(bytes), size});
  if (!tuning) return;
  const std::string text = EncodeTuning(*tuning);
  const auto again = DecodeTuning(text);
  Require(again.has_value() && EncodeTuning(*again) == text, "a tuning that was read can be kept and read again");
}

std::vector<Input> Seeds() {
  const std::string text = EncodeTuning(Calibrate(1));
  ExchangeTimes times;
  (void)times.Set({ExchangeShape::kFew, 2}, {10, 20.5, 3});
  const std::string exchange = EncodeExchange({"MPI 1.0", 8, 4, 2}, times);
  return {Input(text.begin(), text.end()), Input(exchange.begin(), exchange.end())};
}

}  // namespace

const Target kTuning{"tuning", Run, Seeds};

}  // namespace lzy::fuzz
