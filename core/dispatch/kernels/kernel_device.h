// A compile interface for devices that offer only kernels (tenon.kernels/1), and for kernels that
// other plugins have for a device: an executable is a list of kernel calls with a memory plan. The
// rest of core therefore uses all devices in one way.
#pragma once
#include <tenon/abi/compile.h>

#include "core/dispatch/kernels/kernel_call.h"
#include "core/runtime/device/device.h"

namespace tenon::dispatch {

// A table that lives as long as the process. The device and the kernels are of the same kind.
// Options are refused if the kernels are all of the device; for a set of another plugin they are
// those of the device's own code (`has_options` of the set).
const tenon_compile_api_t* compile_from_kernels(KernelsOfPlugin set);

}  // namespace tenon::dispatch
