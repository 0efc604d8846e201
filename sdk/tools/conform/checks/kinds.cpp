// Group G: the checks of plugins without a device, by kind.
#include "sdk/tools/conform/checks/tables.h"

namespace tenon::conform {

std::span<const Check> kind_checks() {
  static const auto* all =
      new std::vector<Check>(joined({op_checks(), pass_checks(), frontend_checks(),
                                     importer_checks(), layer_checks(), engine_checks()}));
  return *all;
}

}  // namespace tenon::conform
