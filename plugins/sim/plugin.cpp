// A simulated accelerator: exercises separate memory and asynchronous queues on machines without a
// real device.
#include "tenon/cpp/plugin.hpp"

#include "plugins/sim/collective/engine.h"
#include "plugins/sim/compile/executable.h"
#include "plugins/sim/device/device.h"

namespace {
constexpr tenon_interface_t kInterfaces[] = {
    tenon::offer(TENON_DEVICE_ID, tenon::sim::kDeviceTable),
    tenon::offer(TENON_QUEUE_ID, tenon::sim::kQueueTable),
    tenon::offer(TENON_EXCHANGE_ID, tenon::sim::kExchangeTable),
    tenon::offer(TENON_COMPILE_ID, tenon::sim::kCompileTable),
    tenon::offer(TENON_COLLECTIVE_ID, tenon::sim::kCollectiveTable),
    tenon::offer(SIM_STATISTICS_ID, tenon::sim::kStatisticsTable),
    tenon::offer(SIM_NATIVE_ID, tenon::sim::kNativeTable),
};
}

TENON_PLUGIN("sim", "0.1.0", kInterfaces)
