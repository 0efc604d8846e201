#include <tenon/cpp/plugin.hpp>

#include "compile.h"
#include "device.h"
#include "interpreter.h"

namespace {

tenon::Status accept() {
  if (tenon::context().query<tenon_host_registry_t>(TENON_HOST_REGISTRY_ID) != nullptr) return {};
  return tenon::fail(TENON_FAILED_PRECONDITION,
                     "The reference device needs tenon.host.registry/1.");
}

constexpr tenon_interface_t kInterfaces[] = {
    tenon::offer(TENON_DEVICE_ID, tenon::reference::kDeviceApi),
    tenon::offer(TENON_COMPILE_ID, tenon::reference::kCompileApi),
};

}  // namespace

TENON_PLUGIN("reference", "0.1.0", kInterfaces, accept)
