// Group G: what plugins without a device are asked, by kind.
#include <vector>

#include "core/conform/group_tables.h"

namespace tenon::conform {

std::span<const Check> kind_checks() {
  static const auto* all = [] {
    auto* made = new std::vector<Check>;
    for (std::span<const Check> checks :
         {op_checks(), pass_checks(), frontend_checks(), layer_checks()})
      made->insert(made->end(), checks.begin(), checks.end());
    return made;
  }();
  return *all;
}

}  // namespace tenon::conform
