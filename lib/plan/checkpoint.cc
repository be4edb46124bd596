#include "plan/checkpoint.h"

#include <cmath>

namespace lzy {

double YoungInterval(double cost, double mtbf) {
  return std::sqrt(2 * cost * mtbf);
}

double BestInterval(double cost, double mtbf) {
  if (!std::isfinite(mtbf)) return mtbf;
  if (cost >= 2 * mtbf) return mtbf;
  const double x = std::sqrt(cost / (2 * mtbf));
  return YoungInterval(cost, mtbf) * (1 + x / 3 + x * x / 9) - cost;
}

double CheckpointOverhead(double interval, double cost, double restart, double mtbf) {
  if (!std::isfinite(mtbf)) return std::isfinite(interval) ? cost / interval : 0;
  return mtbf * std::exp(restart / mtbf) * std::expm1((interval + cost) / mtbf) / interval - 1;
}

double StartAgainOverhead(double hours, double losses) {
  const double x = hours * losses;
  return x < 1e-12 ? x / 2 : std::expm1(x) / x - 1;
}

}  // namespace lzy
