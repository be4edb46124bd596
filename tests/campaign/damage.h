#pragma once
// What happens to datasets.

#include "campaign/truth.h"
#include "campaign/world.h"

namespace lzy::campaign {

struct DamageDone {
  std::string kind, path;
};
/// Damages the dataset in one of many ways, unless chance hits what is gone already; tells which and where.
DamageDone DamageSomething(World& world, const Truth& truth);

}  // namespace lzy::campaign
