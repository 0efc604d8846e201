#include "core/runtime/run/queues.h"

#include "core/base/errors/failure.h"
#include "core/base/limits.h"
#include "core/base/process/log.h"
#include "core/base/process/operation.h"
#include "core/runtime/run/trace.h"

namespace tenon::runtime {
namespace {

// To order two queues takes about as long as to copy so many bytes.
constexpr uint64_t kApartFewestBytes = 32768;

}  // namespace

void Queues::begin_run() {
  for (DeviceState& device : run_.devices) {
    device.tainted->store(false, std::memory_order_relaxed);
    device.dependences.clear();
    device.released = false;
  }
  given_up_ = {};
}

Result<Queue*> Queues::of(uint32_t device) {
  DeviceState& state = run_.devices[device];
  if (state.queue == nullptr) {
    TENON_ASSIGN_OR_RETURN(state.queue, Queue::create(state.device));
  }
  return state.queue.get();
}

// The device's only one where it has no second, or where a second gains nothing.
Result<Queue*> Queues::for_copies(uint32_t device, uint64_t bytes) {
  DeviceState& state = run_.devices[device];
  if (bytes < kApartFewestBytes || state.one_queue) return of(device);
  if (state.copies != nullptr) return state.copies.get();
  auto made = Queue::create(state.device);
  const tenon_code_t code = made.ok() ? TENON_OK : made.status().code();
  if (!made.ok() && code != TENON_DEVICE_LOST) {
    log_info("runtime", "copies of device {} go where its work goes: {}", state.device->name(),
             made.status().message());
    clear_failure();
    state.one_queue = true;
    return of(device);
  }
  TENON_ASSIGN_OR_RETURN(state.copies, std::move(made));
  return state.copies.get();
}

Result<bool> Queues::reaches(uint32_t device, uint32_t from) {
  using Reach = DeviceState::Reach;
  DeviceState& state = run_.devices[device];
  Device& source = *run_.devices[from].device;
  if (device == from || !state.device->has_queue() || !state.device->same_plugin(source))
    return false;
  if (state.reach[from] == Reach::kUnknown) {
    TENON_ASSIGN_OR_RETURN(Queue* const queue, of(device));
    TENON_ASSIGN_OR_RETURN(const bool yes, queue->reaches(source));
    state.reach[from] = yes ? Reach::kYes : Reach::kNo;
  }
  return state.reach[from] == Reach::kYes;
}

Status Queues::wait_for(uint32_t device, Queue& queue, uint64_t value) {
  if (queue.reached(value)) return {};
  uint64_t seen = progress(), since = now_ns();
  for (;;) {
    TENON_ASSIGN_OR_RETURN(const bool reached, queue.poll(value));
    (void)cancelled();  // lets the operation ask its owner
    if (reached) return check_cancelled();
    if (queue.device().abandoned()) return given_up_.ok() ? queue.device().alive() : given_up_;
    if (const uint64_t now = progress(); now != seen) {
      seen = now;
      since = now_ns();
    } else if ((now_ns() - since) / 1'000'000'000 >= limit(Limit::kDeviceWaitSeconds)) {
      if (!release_abandoned()) give_up_one(device);
      since = now_ns();
    }
  }
}

// For both queues, also if the first one reports an error, such as a cancellation: the second may
// still copy.
Status Queues::wait(uint32_t device) {
  Status first;
  for (Queue* queue : run_.devices[device].queues()) {
    if (queue == nullptr) continue;
    Status status = wait_for(device, *queue, queue->submitted());
    if (first.ok()) first = std::move(status);
  }
  return first;
}

Status Queues::wait_for_host(uint32_t slot) {
  SlotState& state = run_.slots[slot];
  if (state.ready == 0) return {};
  const DeviceState& source = run_.devices[state.source];
  Queue& queue = state.apart ? *source.copies : *source.queue;
  TENON_RETURN_IF_ERROR(wait_for(state.source, queue, state.ready));
  state.ready = 0;
  return {};
}

uint64_t Queues::progress() const {
  uint64_t sum = 0;
  for (const DeviceState& device : run_.devices) {
    for (const Queue* queue : device.queues()) sum += queue == nullptr ? 0 : queue->progress();
  }
  return sum;
}

// No device makes progress: gives up the first one with work left that waits for no other.
void Queues::give_up_one(uint32_t waited_for) {
  uint32_t culprit = waited_for;
  for (uint32_t d = 0; d < run_.devices.size(); ++d) {
    const DeviceState& state = run_.devices[d];
    if (state.queue == nullptr || state.device->abandoned()) continue;
    if (!state.has_work() || state.waits()) continue;
    culprit = d;
    break;
  }
  Device& device = *run_.devices[culprit].device;
  device.abandon();
  release_readers(culprit);
  given_up_ = error(TENON_DEVICE_LOST, "T0618",
                    "device {} finished none of its work for {} s; it is given up, and what it "
                    "holds is not freed",
                    quoted(device.name()), limit(Limit::kDeviceWaitSeconds))
                  .with("device", device.name());
}

// Of devices that another run gave up. False if this run released all of those before.
bool Queues::release_abandoned() {
  bool any = false;
  for (uint32_t d = 0; d < run_.devices.size(); ++d) {
    if (run_.devices[d].released || !run_.devices[d].device->abandoned()) continue;
    release_readers(d);
    any = true;
  }
  return any;
}

// Devices that read its memory wait for its fence, which the host now signals. They find there what
// it left.
void Queues::release_readers(uint32_t given_up) {
  DeviceState& source = run_.devices[given_up];
  source.released = true;
  bool any = false;
  for (DeviceState& device : run_.devices) {
    if (!device.reads(source)) continue;
    device.tainted->store(true, std::memory_order_release);
    any = true;
  }
  if (!any) return;
  const tenon_queue_api_t* api = run_.devices[given_up].device->apis().queue;
  (void)api->fence_signal(api->self, source.queue->fence(), source.queue->submitted());
  clear_failure();
}

Status Queues::wait_all() {
  std::vector<Status> failures(run_.devices.size());
  for (uint32_t d = 0; d < failures.size(); ++d) {
    Status status = wait(d);
    if (!status.ok())
      failures[d] = std::move(status).with_context(kernel_context(*run_.devices[d].device));
  }
  Status first = given_up_, tainted;
  for (uint32_t d = 0; d < failures.size(); ++d) {
    if (failures[d].ok()) continue;
    const DeviceState& state = run_.devices[d];
    const bool excused = state.tainted->load(std::memory_order_acquire) || state.failed_by_others();
    Status& kept = excused ? tainted : first;
    if (kept.ok()) kept = std::move(failures[d]);
  }
  Status relayed = drain_relays();
  if (!first.ok()) return first;
  return relayed.ok() ? tainted : relayed;
}

// The first failure that a relay saw. Every queue has ended, failed or was given up, so no relay
// waits for long.
Status Queues::drain_relays() {
  Status first;
  for (DeviceState& state : run_.devices) {
    if (state.relay == nullptr) continue;
    state.relay->drain();
    Status status = state.relay->take_failure();
    if (first.ok() && !status.ok())
      first = std::move(status).with_context(kernel_context(*state.device));
  }
  return first;
}

// Fences go when no queue is left whose work may wait for them.
void Queues::end() {
  for (DeviceState& device : run_.devices) {
    if (device.relay != nullptr) device.relay->drain();
  }
  for (DeviceState& device : run_.devices) {
    for (Queue* queue : device.queues()) {
      if (queue != nullptr) queue->end();
    }
  }
  for (DeviceState& device : run_.devices) {
    device.queue.reset();
    device.forget_reach();
    device.copies.reset();
    for (auto& fence : device.from) fence.reset();
  }
}

}  // namespace tenon::runtime
