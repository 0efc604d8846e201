#include "sdk/tools/conform/runner/check.h"

#include <algorithm>

#include "sdk/tools/conform/checks/tables.h"

namespace tenon::conform {

std::string_view verdict_name(Verdict verdict) {
  static constexpr std::string_view kNames[] = {"pass", "fail", "skip", "not offered"};
  return kNames[static_cast<size_t>(verdict)];
}

std::span<const Group> groups() {
  static const Group kGroups[] = {
      {'A', "Manifest and packaging", 1, 30, manifest_checks()},
      {'B', "ABI hygiene", 1, 60, abi_checks()},
      {'C', "Device and memory", 2, 60, device_checks()},
      {'D', "Queues and fences", 4, 120, queue_checks()},
      {'E', "Compile and partition", 3, 120, compile_checks()},
      {'F', "Kernels", 3, 300, kernel_checks()},
      {'G', "Ops, passes, frontends, toolchains, layers, engines", 2, 120, kind_checks()},
      {'I', "Threads and lifecycle", 2, 30, lifecycle_checks()},
      {'J', "Faults", 4, 240, fault_checks()},
      {kSpeed, "Speed", 4, 60, speed_checks()},
  };
  return kGroups;
}

int highest_level() {
  int highest = 0;
  for (const Group& group : groups()) highest = std::max(highest, group.level);
  return highest;
}

std::string full_name(const Group& group, const Check& check) {
  return fmt::format("{}.{}", group.letter, check.name);
}

}  // namespace tenon::conform
