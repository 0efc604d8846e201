#include "core/conform/open_queue.h"

#include <cstring>
#include <thread>

namespace tenon::conform {

void pause_a_while() {
  std::this_thread::sleep_for(kPause);
}

tenon_copy_t async_write(tenon_buffer_t* to, uint64_t offset, const void* from, uint64_t length) {
  tenon_copy_t copy = copy_record(TENON_COPY_HOST_TO_DEVICE, length);
  copy.to = to;
  copy.to_offset_bytes = offset;
  copy.host_from = from;
  return copy;
}

tenon_copy_t async_read(void* to, tenon_buffer_t* from, uint64_t offset, uint64_t length) {
  tenon_copy_t copy = copy_record(TENON_COPY_DEVICE_TO_HOST, length);
  copy.from = from;
  copy.from_offset_bytes = offset;
  copy.host_to = to;
  return copy;
}

tenon_copy_t async_between(tenon_buffer_t* to, uint64_t to_offset, tenon_buffer_t* from,
                           uint64_t from_offset, uint64_t length) {
  tenon_copy_t copy = copy_record(TENON_COPY_DEVICE_TO_DEVICE, length);
  copy.from = from;
  copy.from_offset_bytes = from_offset;
  copy.to = to;
  copy.to_offset_bytes = to_offset;
  return copy;
}

tenon_copy_t async_fill(tenon_buffer_t* to, uint64_t offset, uint64_t length, uint64_t pattern,
                        uint32_t pattern_bytes) {
  tenon_copy_t copy = copy_record(TENON_COPY_FILL, length);
  copy.to = to;
  copy.to_offset_bytes = offset;
  copy.pattern = pattern;
  copy.pattern_bytes = pattern_bytes;
  return copy;
}

Outcome OpenQueues::queue(tenon_queue_t** out) {
  forget_failure();
  tenon_queue_t* made = nullptr;
  const tenon_code_t code = api_->queue_create(api_->self, device_, &made);
  CONFORM_EXPECT(code == TENON_OK, "queue_create gives {}{}", code_text(code), said());
  CONFORM_EXPECT(made != nullptr, "queue_create gives OK and no queue");
  queues_.push_back(*out = made);
  return pass();
}

Outcome OpenQueues::fence(uint64_t initial, tenon_fence_t** out) {
  forget_failure();
  tenon_fence_t* made = nullptr;
  const tenon_code_t code = api_->fence_create(api_->self, device_, initial, &made);
  CONFORM_EXPECT(code == TENON_OK, "fence_create gives {}{}", code_text(code), said());
  CONFORM_EXPECT(made != nullptr, "fence_create gives OK and no fence");
  fences_.push_back(*out = made);
  return pass();
}

Outcome OpenQueues::destroy(tenon_queue_t* queue) {
  forget(queue);
  const tenon_code_t code = api_->queue_destroy(api_->self, queue);
  CONFORM_EXPECT(code == TENON_OK, "queue_destroy gives {}{}", code_text(code), said());
  return pass();
}

Outcome OpenQueues::destroy(tenon_fence_t* fence) {
  std::erase(fences_, fence);
  const tenon_code_t code = api_->fence_destroy(api_->self, fence);
  CONFORM_EXPECT(code == TENON_OK, "fence_destroy gives {}{}", code_text(code), said());
  return pass();
}

OpenQueues::~OpenQueues() {
  for (tenon_fence_t* fence : fences_) (void)api_->fence_signal(api_->self, fence, UINT64_MAX);
  for (tenon_queue_t* queue : queues_) (void)api_->queue_destroy(api_->self, queue);
  for (tenon_fence_t* fence : fences_) (void)api_->fence_destroy(api_->self, fence);
}

Outcome OpenQueues::open() {
  CONFORM_TRY(memory_.open());
  device_ = memory_.device();
  return pass();
}

Outcome OpenQueues::end_queues() {
  while (!queues_.empty()) CONFORM_TRY(destroy(queues_.back()));
  while (!fences_.empty()) CONFORM_TRY(destroy(fences_.back()));
  return pass();
}

Outcome OpenQueues::end() {
  CONFORM_TRY(end_queues());
  return memory_.close();
}

tenon_code_t OpenQueues::submit_code(tenon_queue_t* queue, const tenon_copy_t& copy,
                                     std::span<const tenon_fence_point_t> waits,
                                     tenon_fence_point_t signal) {
  forget_failure();
  return api_->copy_async(api_->self, queue, &copy, waits.data(),
                          static_cast<uint32_t>(waits.size()), signal);
}

Outcome OpenQueues::submit_behind(tenon_queue_t* queue, const tenon_copy_t& copy,
                                  std::span<const tenon_fence_point_t> waits,
                                  tenon_fence_point_t signal) {
  const tenon_code_t code = submit_code(queue, copy, waits, signal);
  CONFORM_EXPECT(code == TENON_OK, "copy_async of {} bytes gives {}{}", copy.length_bytes,
                 code_text(code), said());
  return pass();
}

Outcome OpenQueues::signal(tenon_fence_t* fence, uint64_t value) {
  const tenon_code_t code = api_->fence_signal(api_->self, fence, value);
  CONFORM_EXPECT(code == TENON_OK, "fence_signal of {} gives {}", value, code_text(code));
  return pass();
}

Outcome OpenQueues::value_of(tenon_fence_t* fence, uint64_t* out) {
  forget_failure();
  const tenon_code_t code = api_->fence_query(api_->self, fence, out);
  CONFORM_EXPECT(code == TENON_OK, "fence_query gives {}{}", code_text(code), said());
  return pass();
}

Outcome OpenQueues::reaches(tenon_fence_t* fence, uint64_t value, std::string_view what) {
  const tenon_code_t code = wait_code(fence, value, kPatienceNs);
  CONFORM_EXPECT(code != TENON_DEADLINE_EXCEEDED, "{}: the fence does not reach {} within {} s",
                 what, value, kPatienceNs / 1'000'000'000);
  CONFORM_EXPECT(code == TENON_OK, "{}: fence_wait for {} gives {}{}", what, value, code_text(code),
                 said());
  uint64_t now = 0;
  CONFORM_TRY(value_of(fence, &now));
  CONFORM_EXPECT(now >= value, "{}: fence_wait for {} gives OK, and the fence stands at {}", what,
                 value, now);
  return pass();
}

Outcome OpenQueues::stays_below(tenon_fence_t* fence, uint64_t value, std::string_view what) {
  for (int look = 0; look < 2; ++look) {
    if (look != 0) pause_a_while();
    uint64_t now = 0;
    CONFORM_TRY(value_of(fence, &now));
    CONFORM_EXPECT(now < value, "{}: the fence stands at {} already", what, now);
    const tenon_code_t code = wait_code(fence, value, 0);
    CONFORM_EXPECT(code == TENON_DEADLINE_EXCEEDED,
                   "{}: fence_wait for {} without time gives {}, and the fence stands at {}", what,
                   value, code_text(code), now);
  }
  return pass();
}

Outcome find_queues(Session& session, const tenon_queue_api_t** out) {
  CONFORM_TRY(session.load());
  *out = static_cast<const tenon_queue_api_t*>(session.table(TENON_QUEUE_ID));
  if (*out == nullptr) return not_offered(TENON_QUEUE_ID);
  for (const SlotList& list : slot_lists()) {
    if (list.id != TENON_QUEUE_ID) continue;
    for (uint32_t offset : list.required) {
      void* slot = nullptr;
      std::memcpy(&slot, reinterpret_cast<const char*>(*out) + offset, sizeof(slot));
      if (slot == nullptr) return skipped("a required slot is null, as B.required-slots tells");
    }
  }
  return pass();
}

}  // namespace tenon::conform
