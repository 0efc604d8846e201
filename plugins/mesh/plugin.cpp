// The device `mesh`: ops that several processes compute together, by the engines of
// tenon.collective/1.
#include "tenon/cpp/plugin.hpp"
#include "device.h"
#include "kernels.h"

namespace {
constexpr tenon_interface_t kInterfaces[] = {
    tenon::offer(TENON_DEVICE_ID, tenon::mesh::kDeviceTable),
    tenon::offer(TENON_QUEUE_ID, tenon::mesh::kQueueTable),
    tenon::offer(TENON_KERNELS_ID, tenon::mesh::kKernelsTable),
};
}

TENON_PLUGIN_THAT_ENDS("mesh", "0.1.0", kInterfaces, tenon::entry<tenon::mesh::end_devices>)
