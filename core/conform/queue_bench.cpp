#include "core/conform/queue_bench.h"

namespace tenon::conform {

Outcome make_bench(OpenQueues& d, Bench* b) {
  CONFORM_TRY(d.queue(&b->first));
  CONFORM_TRY(d.queue(&b->second));
  CONFORM_TRY(d.fence(0, &b->gate));
  CONFORM_TRY(d.fence(0, &b->done));
  CONFORM_TRY(d.memory().alloc(kBenchBytes, &b->buffer));
  CONFORM_TRY(d.memory().alloc(kBenchBytes, &b->other));
  CONFORM_TRY(d.memory().write(b->buffer, pattern_bytes(kBenchBytes, 1)));
  return d.memory().write(b->other, pattern_bytes(kBenchBytes, 2));
}

Outcome same_bytes(const Bytes& got, const Bytes& expected, std::string_view what) {
  const std::string difference = first_difference(got, expected);
  CONFORM_EXPECT(difference.empty(), "{}: {}", what, difference);
  return pass();
}

Outcome stands_at(OpenQueues& d, tenon_fence_t* fence, uint64_t value, std::string_view when) {
  uint64_t now = 0;
  CONFORM_TRY(d.value_of(fence, &now));
  CONFORM_EXPECT(now == value, "{} the fence stands at {} and not at {}", when, now, value);
  return pass();
}

std::shared_ptr<Waiter> start_waiter(OpenQueues& d, tenon_fence_t* fence, uint64_t value,
                                     uint64_t timeout) {
  auto waiter = std::make_shared<Waiter>();
  std::thread([&d, fence, value, timeout, waiter] {
    waiter->code = d.api().fence_wait(d.api().self, fence, value, timeout);
    waiter->over = true;
  }).detach();
  return waiter;
}

}  // namespace tenon::conform
