// The cpu plugin's entry.
#include "tenon/cpp/plugin.hpp"

#include "compile_api.h"
#include "device.h"
#include "toolchain/toolchain.h"

namespace {

constexpr tenon_interface_t kInterfaces[] = {
    tenon::offer(TENON_DEVICE_ID, tenon::cpu::kDeviceTable),
    tenon::offer(TENON_COMPILE_ID, tenon::cpu::kCompileTable),
    tenon::offer(TENON_TOOLCHAIN_ID, tenon::cpu::kToolchainTable),
};

}  // namespace

TENON_PLUGIN("cpu", "0.1.0", kInterfaces)
