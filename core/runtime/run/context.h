// What the parts of a run work on: its data, sizes, queues and memory.
#pragma once
#include "core/runtime/run/buffer_pool.h"
#include "core/runtime/run/queues.h"
#include "core/runtime/run/run_state.h"
#include "core/runtime/run/sizes.h"

namespace tenon::runtime {

struct RunContext : RunState {
  explicit RunContext(const Plan& of) : RunState(of) {}
  RunContext(const RunContext&) = delete;

  Sizes sizes{plan};
  Queues queues{*this};
  RunMemory memory{plan, [this](uint32_t device) { return queues.wait(device); }};
};

}  // namespace tenon::runtime
