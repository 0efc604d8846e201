// The architectures of Intel's GPUs that code is made for.
#ifndef TENON_PLUGINS_INTEL_TARGET_H_
#define TENON_PLUGINS_INTEL_TARGET_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "tenon/cpp/status.hpp"
#include "tenon/stream/group_limits.h"

namespace tenon::intel {

// A target is "intel dg2". Code runs on its own architecture alone.
struct Architecture {
  std::string_view name;  // as ocloc calls it
  bool fp64 = false;      // the rest refuse the word `double`
  stream::GroupLimits limits;
};

// The architecture of a target or a mere name; null for what is neither.
const Architecture* architecture(std::string_view target);
// The architecture of a GPU by its PCI device; null for one that code is not made for.
const Architecture* architecture_of_device(uint32_t pci_device);
// Those of its architecture, or less if the target says so.
stream::GroupLimits limits(std::string_view target);
// "tgllp, dg1, ..."
std::string architecture_names();
// The text of a target in full: also "dg2" is one. INVALID_ARGUMENT for what is none.
Status full_target(std::string_view text, std::string* out);

}  // namespace tenon::intel
#endif
