#include "campaign/campaign.h"
#include "campaign/world.h"

namespace lzy::campaign {
namespace {

class InProcess final : public Driver {
 public:
  Outcome Run(World& world, const Call& call) override {
    const Context context{world.fs, *self_, world.options};
    DatasetRef ref = world.ref;
    std::erase_if(ref.members,
                  [&](const auto& m) { return !world.fs.Has(m.second) && !world.fs.Has(*SidecarPath(m.second)); });
    Outcome outcome;
    outcome.report = Use(context, ref, call);
    outcome.code = ExitCodeOf(outcome.report);
    return outcome;
  }

  std::uint64_t SectorSize() const override { return 512; }

 private:
  static DatasetReport Use(const Context& context, const DatasetRef& ref, const Call& call) {
    switch (call.tool) {
      case Tool::kProtect:
        return Protect(context, ref, {});
      case Tool::kVerify:
        return Verify(context, ref, {.from_disk = call.from_disk});
      case Tool::kRepair:
        return Verify(context, ref, {.repair = true});
      case Tool::kRestore:
        return Restore(context, ref, {});
      case Tool::kSalvage:
        return Restore(context, ref, {.devices = {}, .dry_run = false, .salvage = true});
      case Tool::kInfo:
        return Info(context, ref);
    }
    return {};
  }

  std::unique_ptr<Communicator> self_ = SelfCommunicator();
};

}  // namespace

std::unique_ptr<Driver> EngineDriver() {
  return std::make_unique<InProcess>();
}

}  // namespace lzy::campaign
