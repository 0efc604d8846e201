// Apple's GPUs: packages of Metal's language. Tenon runs on Linux, where there is no Metal, so
// there is never a device; the plugin says so, and makes packages with the text that Metal
// compiles.
#include "tenon/cpp/plugin.hpp"

#include "tenon/stream/group_limits.h"
#include "tenon/stream/queue.h"
#include "tenon/stream/text_device.h"

namespace tenon::mps {
namespace {

namespace kg = kernelgen;

constexpr std::string_view kPrefix = "mps ";
// Versions of Metal's language. Shuffles of 32 lanes came with the first.
constexpr std::string_view kVersions[] = {"metal2.4", "metal3.0", "metal3.1", "metal3.2"};
constexpr stream::GroupLimits kLimits = {1024, 32 << 10};  // of every GPU since the A11

Status no_device() {
  return fail(
      TENON_UNAVAILABLE,
      "mps: Metal is a part of macOS, and this is Linux: there is never a device here. "
      "Packages for Apple's GPUs can be made (--target metal3.0), but nothing here runs them");
}

Status count(void*, uint32_t* out) {
  *out = 0;
  return {};
}
Status info(void*, uint32_t, tenon_device_info_t*) {
  return no_device();
}
Status open(void*, uint32_t, tenon_device_t**) {
  return no_device();
}

const tenon_device_api_t kDeviceTable =
    stream::device_table(entry<count>, entry<info>, entry<open>);

bool version(std::string_view target) {
  if (target.starts_with(kPrefix)) target.remove_prefix(kPrefix.size());
  target = stream::without_limits(target);
  for (std::string_view v : kVersions) {
    if (v == target) return true;
  }
  return false;
}

class Mps final : public stream::TextDevice {
 public:
  Mps() : stream::TextDevice(kDeviceTable) {}

  std::string_view name() const override { return "mps"; }
  kg::DeviceRates rates() const override { return {200, 2000, 10000}; }
  kg::Target target(std::string_view text) const override {
    return stream::within(kg::Target::metal(), stream::limits_of(text, kLimits));
  }

  Status check_target(std::string_view target) const override {
    if (version(target)) return stream::check_limits("mps", target);
    std::string names;
    for (std::string_view v : kVersions) names += cat(names.empty() ? "" : ", ", v);
    return fail(TENON_INVALID_ARGUMENT,
                cat("mps: the target ", quoted(target), " is none of ", names));
  }
  // Metal compiles text when it is loaded. What it would refuse is refused here.
  Status compile(std::string_view, std::string_view text, std::string* out_binary) const override {
    if (text.find("[[buffer(31)]]") != std::string_view::npos)
      return fail(TENON_UNIMPLEMENTED,
                  "mps: a kernel of this model needs more than the 31 arguments that Metal allows");
    out_binary->assign(text);
    return {};
  }
  Status load(tenon_device_t*, const kg::DeviceProgram&, std::span<const std::string_view>,
              std::string_view, std::unique_ptr<kg::LoadedText>*) const override {
    return no_device();
  }
};

Mps device;
const tenon_compile_api_t kCompileTable = device.table();

constexpr tenon_interface_t kInterfaces[] = {
    offer(TENON_DEVICE_ID, kDeviceTable),
    offer(TENON_QUEUE_ID, stream::kQueueTable),
    offer(TENON_COMPILE_ID, kCompileTable),
};

}  // namespace
}  // namespace tenon::mps

TENON_PLUGIN("mps", "0.1.0", tenon::mps::kInterfaces)
