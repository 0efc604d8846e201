#include "core/runtime/run/run.h"

#include <algorithm>

#include "core/base/process/operation.h"
#include "core/runtime/run/inputs.h"

namespace tenon::runtime {

Runner::Runner(std::shared_ptr<const Plan> plan)
    : plan_(std::move(plan)), repeat_(Repeat::of(run_)) {}

Runner::~Runner() {
  run_.queues.end();
  drop_run_state();
}

Status Runner::run(std::span<const Argument> inputs, std::span<const uint8_t> stays,
                   std::span<const GivenSize> sizes, std::span<const Home> homes,
                   const Natives& natives) {
  const uint64_t begin = timed_ ? now_ns() : 0;
  begin_run(stays, homes);
  Status status;
  try {
    status = do_steps(inputs, sizes, natives);
  } catch (...) {  // no memory, or no thread can be started
    drop_thrown();
    throw;
  }
  // Also after a failure: nothing may be in flight when memory is returned. Of several failures the
  // first counts.
  Status waited = run_.queues.wait_all();
  if (!waited.ok() && status.code() != TENON_CANCELLED) status = std::move(waited);
  if (status.ok()) {
    run_.kept.clear();
    keep_copies(run_);
    if (can_repeat(inputs, sizes, natives))
      repeat_->remember(inputs, outputs_.arrays(), !stays.empty());
    drop_imports(run_);
  } else {
    // Work after the failed work may still run, in memory that the run's state owns: wait for the
    // queues to end.
    if (std::ranges::any_of(run_.devices, &DeviceState::failed)) run_.queues.end();
    drop_run_state();
  }
  streams_.leave();
  run_.statistics.arena_bytes = run_.memory.end_run();
  if (timed_) run_.statistics.run_ms = static_cast<double>(now_ns() - begin) / 1e6;
  return status;
}

void Runner::begin_run(std::span<const uint8_t> stays, std::span<const Home> homes) {
  if (repeat_ != nullptr) {  // all is found out again
    repeat_->forget();
    repeat_->release_workspace(0);
  }
  drop_run_state();
  clean_ = false;
  run_.statistics = {};
  run_.memory.begin_run();
  run_.queues.begin_run();
  steps_.begin_run();
  outputs_.begin_run(stays, homes);
}

Status Runner::do_steps(std::span<const Argument> inputs, std::span<const GivenSize> sizes,
                        const Natives& natives) {
  TENON_RETURN_IF_ERROR(streams_.join(natives));
  TENON_RETURN_IF_ERROR(run_.sizes.solve(inputs, sizes));
  TENON_RETURN_IF_ERROR(place_inputs(run_, inputs));
  TENON_RETURN_IF_ERROR(steps_.run());
  take_donated(run_);
  TENON_RETURN_IF_ERROR(outputs_.take());
  return streams_.signal();
}

// Submitted work uses memory that the run's state owns. Waiting for it first gives up a device that
// does not respond.
void Runner::drop_thrown() {
  try {
    (void)run_.queues.wait_all();
  } catch (const std::exception&) {  // no memory for its message
  }
  run_.queues.end();
  streams_.leave();
  drop_run_state();
}

// Whether the run that has just succeeded is one whose like can be repeated: with plain arrays and
// tensors, of which nothing was copied.
bool Runner::can_repeat(std::span<const Argument> inputs, std::span<const GivenSize> sizes,
                        const Natives& natives) const {
  if (repeat_ == nullptr || steps_.traced() || !sizes.empty() || !natives.empty()) return false;
  if (run_.statistics.repacked_bytes != 0 || run_.statistics.copied_bytes != 0) return false;
  return std::ranges::none_of(inputs, &Argument::donated);
}

std::optional<Status> Runner::run_again(bool timed) {
  const uint64_t begin = timed ? now_ns() : 0;
  std::optional<Status> status = repeat_->run();
  if (timed) run_.statistics.run_ms = static_cast<double>(now_ns() - begin) / 1e6;
  if (status && status->ok()) return status;
  repeat_->drop_failed();
  if (status) drop_run_state();  // a run that failed has no outputs
  return status;
}

void Runner::end_call() {
  // Others find a large workspace in the pool. Work that needs so much takes far longer than to
  // look for it again.
  constexpr uint64_t kLarge = 1 << 20;
  drop_run_state();
  if (repeat_ != nullptr) repeat_->release_workspace(kLarge);
  run_.memory.offer();
}

// A device that was given up may still write to memory that was lent to it, or that a copy named:
// that memory is kept for good.
void Runner::drop_run_state() {
  if (clean_) return;
  clean_ = true;
  if (repeat_ != nullptr && !repeat_->outputs_leave()) repeat_->forget();  // they go now
  const bool abandoned =
      std::ranges::any_of(plan_->devices, [](const auto& device) { return device->abandoned(); });
  for (SlotState& value : run_.slots) {
    for (uint32_t d = 0; d < value.places.size(); ++d) run_.memory.release(d, value.places[d]);
    if (abandoned && value.host_owner != nullptr) keep_for_good(std::move(value.host_owner));
    value.forget();
  }
  if (abandoned) {
    keep_for_good(std::make_shared<std::deque<std::vector<int64_t>>>(std::move(run_.out_symbols)));
    for (std::shared_ptr<void>& memory : run_.kept) keep_for_good(std::move(memory));
  }
  run_.out_symbols.clear();
  run_.kept.clear();
  outputs_.drop();
}

}  // namespace tenon::runtime
