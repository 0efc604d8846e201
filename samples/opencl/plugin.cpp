// OpenCL devices as a Tenon plugin, built against an installed Tenon alone.
#include "tenon/cpp/plugin.hpp"
#include "device.h"

namespace {

constexpr tenon_interface_t kInterfaces[] = {
    tenon::offer(TENON_DEVICE_ID, opencl_sample::kDeviceTable),
    tenon::offer(TENON_QUEUE_ID, opencl_sample::kQueueTable),
    tenon::offer(TENON_EXCHANGE_ID, opencl_sample::kExchangeTable),
    tenon::offer(TENON_COMPILE_ID, opencl_sample::kCompileTable),
};

}  // namespace

TENON_PLUGIN("opencl", "0.1.0", kInterfaces)
