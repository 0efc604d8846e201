// AMD's GPUs, through HIP's runtime.
#include "tenon/cpp/plugin.hpp"

#include "device.h"
#include "tenon/stream/queue.h"

namespace {

constexpr tenon_interface_t kInterfaces[] = {
    tenon::offer(TENON_DEVICE_ID, tenon::rocm::kDeviceTable),
    tenon::offer(TENON_QUEUE_ID, tenon::stream::kQueueTable),
    tenon::offer(TENON_EXCHANGE_ID, tenon::rocm::kExchangeTable),
    tenon::offer(TENON_COMPILE_ID, tenon::rocm::kCompileTable),
};

}  // namespace

TENON_PLUGIN("rocm", "0.1.0", kInterfaces)
