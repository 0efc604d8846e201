// What a device declares of everything that it compiles (tenon_compile_api_t::properties).
#pragma once
#include <cstdint>

#include "core/runtime/device/device.h"
#include "core/runtime/values/views.h"

namespace tenon::dispatch {

// TENON_COMPILE_* of one of the device's compilers; none if it declares nothing, or fails.
uint32_t compile_properties(runtime::Device& device, const tenon_compile_api_t* api);
// Of the device's own compiler.
uint32_t compile_properties(runtime::Device& device);

// Whether a node, or a node inside it, has a size that is not a number: in the type of an operand
// or a result, or in an attribute. A device with TENON_COMPILE_STATIC does not get such nodes.
bool mentions_symbols(const runtime::GraphReader& reader, tenon_node_t node);

}  // namespace tenon::dispatch
