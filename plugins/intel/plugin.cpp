// Intel's GPUs, through Level Zero.
#include "tenon/cpp/plugin.hpp"

#include "device.h"
#include "tenon/stream/queue.h"

namespace {

constexpr tenon_interface_t kInterfaces[] = {
    tenon::offer(TENON_DEVICE_ID, tenon::intel::kDeviceTable),
    tenon::offer(TENON_QUEUE_ID, tenon::stream::kQueueTable),
    tenon::offer(TENON_EXCHANGE_ID, tenon::intel::kExchangeTable),
    tenon::offer(TENON_COMPILE_ID, tenon::intel::kCompileTable),
};

}  // namespace

TENON_PLUGIN("intel", "0.1.0", kInterfaces)
