// NVIDIA's GPUs, through CUDA's driver.
#include "tenon/cpp/plugin.hpp"

#include "device.h"
#include "tenon/stream/queue.h"

namespace {

constexpr tenon_interface_t kInterfaces[] = {
    tenon::offer(TENON_DEVICE_ID, tenon::cuda::kDeviceTable),
    tenon::offer(TENON_QUEUE_ID, tenon::stream::kQueueTable),
    tenon::offer(TENON_EXCHANGE_ID, tenon::cuda::kExchangeTable),
    tenon::offer(TENON_COMPILE_ID, tenon::cuda::kCompileTable),
};

}  // namespace

TENON_PLUGIN("cuda", "0.1.0", kInterfaces)
