#include "target.h"

#include "tenon/cpp/plugin.hpp"

namespace tenon::intel {
namespace {

constexpr std::string_view kPrefix = "intel ";
constexpr stream::GroupLimits kXeLp = {512, 64 << 10}, kLater = {1024, 64 << 10};
constexpr Architecture kArchitectures[] = {{"tgllp", false, kXeLp},
                                           {"dg1", false, kXeLp},
                                           {"adl-p", false, kXeLp},
                                           {"dg2", false, kLater},
                                           {"pvc", true, kLater}};

// PCI devices from first to last.
struct Range {
  uint32_t first, last;
  std::string_view architecture;
};
constexpr Range kRanges[] = {{0x9a40, 0x9af8, "tgllp"}, {0x4905, 0x4909, "dg1"},
                             {0x46a0, 0x46c3, "adl-p"}, {0x4626, 0x462a, "adl-p"},
                             {0x5690, 0x56c1, "dg2"},   {0x0bd0, 0x0be5, "pvc"},
                             {0x0b69, 0x0b6e, "pvc"}};

}  // namespace

const Architecture* architecture(std::string_view target) {
  if (target.starts_with(kPrefix)) target.remove_prefix(kPrefix.size());
  target = stream::without_limits(target);
  for (const Architecture& a : kArchitectures) {
    if (a.name == target) return &a;
  }
  return nullptr;
}

const Architecture* architecture_of_device(uint32_t pci_device) {
  for (const Range& r : kRanges) {
    if (pci_device >= r.first && pci_device <= r.last) return architecture(r.architecture);
  }
  return nullptr;
}

stream::GroupLimits limits(std::string_view target) {
  const Architecture* a = architecture(target);
  return stream::limits_of(target, a == nullptr ? kXeLp : a->limits);
}

std::string architecture_names() {
  std::string out;
  for (const Architecture& a : kArchitectures) out += cat(out.empty() ? "" : ", ", a.name);
  return out;
}

Status full_target(std::string_view text, std::string* out) {
  if (const Architecture* a = architecture(text)) {
    *out = cat(kPrefix, a->name);
    return stream::check_limits("intel", text);
  }
  return fail(TENON_INVALID_ARGUMENT,
              cat("intel: the target ", quoted(text), " is none of ", architecture_names()));
}

}  // namespace tenon::intel
