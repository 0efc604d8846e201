// An open device with queues and fences, for checks. Work may still be in flight when a check fails:
// what the work uses outlives it, host memory too, which is why copies of a queue are given what
// keep() holds and never a local variable.
#pragma once
#include <chrono>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include <tenon/abi/queue.h>

#include "core/conform/open_device.h"

namespace tenon::conform {

// How long a check waits for what has to come: a device that is right needs no such time, however
// busy its machine.
constexpr uint64_t kPatienceNs = 50'000'000'000;
// How long it looks before it believes that something does not happen before its time. A device
// that is right does not fail by it, however slow.
constexpr std::chrono::milliseconds kPause{60};
void pause_a_while();

// Copies, as records.
tenon_copy_t async_write(tenon_buffer_t* to, uint64_t offset, const void* from, uint64_t length);
tenon_copy_t async_read(void* to, tenon_buffer_t* from, uint64_t offset, uint64_t length);
tenon_copy_t async_between(tenon_buffer_t* to, uint64_t to_offset, tenon_buffer_t* from,
                           uint64_t from_offset, uint64_t length);
tenon_copy_t async_fill(tenon_buffer_t* to, uint64_t offset, uint64_t length, uint64_t pattern,
                        uint32_t pattern_bytes);

class OpenQueues {
 public:
  OpenQueues(const tenon_device_api_t* device, const tenon_queue_api_t* queues, uint32_t ordinal)
      : memory_(device, ordinal), api_(queues) {}

  // Queues of a device that is open already.
  OpenQueues(const tenon_device_api_t* device, const tenon_queue_api_t* queues, OpenDevice& open)
      : memory_(device, open.ordinal()), device_(open.device()), api_(queues) {}

  OpenQueues(const OpenQueues&) = delete;
  OpenQueues& operator=(const OpenQueues&) = delete;
  // Lets what waits go on, and destroys queues, fences, buffers and device in this order: destroying
  // a queue waits for its work.
  ~OpenQueues();

  Outcome open();
  // Destroys queues and fences; frees buffers and closes as well.
  Outcome end_queues();
  Outcome end();

  OpenDevice& memory() { return memory_; }
  // Host memory for copies on the queues. It stays where it is as long as they do.
  Bytes& keep(Bytes bytes) { return host_.emplace_back(std::move(bytes)); }
  const tenon_queue_api_t& api() const { return *api_; }

  Outcome queue(tenon_queue_t** out);
  Outcome fence(uint64_t initial, tenon_fence_t** out);
  Outcome destroy(tenon_queue_t* queue);
  Outcome destroy(tenon_fence_t* fence);
  void forget(tenon_queue_t* queue) { std::erase(queues_, queue); }

  tenon_code_t submit_code(tenon_queue_t* queue, const tenon_copy_t& copy,
                           std::span<const tenon_fence_point_t> waits, tenon_fence_point_t signal);
  // The same, which has to succeed.
  Outcome submit_behind(tenon_queue_t* queue, const tenon_copy_t& copy,
                        std::span<const tenon_fence_point_t> waits, tenon_fence_point_t signal);
  Outcome submit(tenon_queue_t* queue, const tenon_copy_t& copy, tenon_fence_point_t wait,
                 tenon_fence_point_t signal) {
    return submit_behind(queue, copy, {&wait, 1}, signal);
  }

  tenon_code_t wait_code(tenon_fence_t* fence, uint64_t value, uint64_t timeout_ns) {
    forget_failure();
    return api_->fence_wait(api_->self, fence, value, timeout_ns);
  }
  // From the host.
  Outcome signal(tenon_fence_t* fence, uint64_t value);
  // Waits for it; the fence then stands at `value` or higher.
  Outcome reaches(tenon_fence_t* fence, uint64_t value, std::string_view what);
  // Fails when the fence stands at `value` or higher, now or a while later.
  Outcome stays_below(tenon_fence_t* fence, uint64_t value, std::string_view what);
  Outcome value_of(tenon_fence_t* fence, uint64_t* out);

 private:
  OpenDevice memory_;
  tenon_device_t* device_ = nullptr;
  const tenon_queue_api_t* api_;
  std::vector<tenon_queue_t*> queues_;
  std::vector<tenon_fence_t*> fences_;
  std::deque<Bytes> host_;
};

// The table of the queue interface, every slot of it there. Not offered or skipped otherwise.
Outcome find_queues(Session& session, const tenon_queue_api_t** out);

}  // namespace tenon::conform
