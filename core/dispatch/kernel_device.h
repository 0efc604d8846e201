// A compile interface for devices that offer only kernels (tenon.kernels/1): an executable is a
// list of single kernel calls with a memory plan. The rest of core therefore uses all devices in
// one way.
#pragma once
#include <functional>
#include <string_view>

#include <tenon/abi/compile.h>
#include <tenon/abi/kernels.h>

#include "core/runtime/device.h"

namespace tenon::dispatch {

// Whether kernels may be asked about this version of an op: those that came with a definition of it
// do not fit another one.
using SuitsOp = std::function<bool(tenon_sym_t op, uint32_t version)>;

// A table that lives as long as the process. device: of the same kind as the kernels. suits: empty
// for kernels that are asked about every op.
const tenon_compile_api_t* compile_from_kernels(const tenon_device_api_t* device,
                                                const tenon_kernels_api_t* kernels,
                                                std::string_view plugin, SuitsOp suits = {});

}  // namespace tenon::dispatch
