// How values of a run go from one place to another: straight, by import, or by a copy through the
// host, where a relay signals to the device that the value is there (README.md, ADR 0022). Large
// copies run on a queue of their own during the work (ADR 0053).
#pragma once
#include "core/runtime/run/context.h"

namespace tenon::runtime {

// Does nothing if the value is there.
Status copy_to_device(RunContext& run, uint32_t slot, uint32_t device);

// Afterwards SlotState::host is where the value is, or will be after Queues::wait_for_host.
Status copy_to_host(RunContext& run, uint32_t slot);

// The same right after the work on `from` that made the value, if it is wanted on the host or goes
// to a device that cannot fetch it.
Status copy_to_host_at_once(RunContext& run, uint32_t slot, uint32_t from);

}  // namespace tenon::runtime
