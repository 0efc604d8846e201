// Which outputs of a call a device may write where the caller wants them, without a copy.
#pragma once
#include <memory_resource>
#include <span>
#include <vector>

#include "core/runtime/run/run.h"
#include "core/session/call/call.h"

namespace tenon::session {

// One per output; null for one that is not GIVEN, that has strides, or whose memory is shared with
// an input or with another output. A dense array of the same type may have exactly this memory, and
// is named then. Empty if there is none. The inputs are checked, and so are the
// types of GIVEN outputs, not their dims.
void find_homes(std::span<const runtime::Argument> inputs, std::span<const CallOutput> outputs,
                std::pmr::vector<runtime::Home>* homes);

}  // namespace tenon::session
