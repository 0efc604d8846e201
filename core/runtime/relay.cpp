#include "core/runtime/relay.h"

#include <cstring>

#include "core/base/failure.h"
#include "core/base/signal_mask.h"
#include "core/base/str.h"

namespace tenon::runtime {
namespace {

// How often a waiting thread looks whether the device was given up.
constexpr uint64_t kPollNs = 50'000'000;

}  // namespace

Result<std::unique_ptr<RelayFence>> RelayFence::create(std::shared_ptr<Device> target) {
  TENON_RETURN_IF_ERROR(target->open());
  std::unique_ptr<RelayFence> out(new RelayFence(target));
  const tenon_queue_api_t* api = target->apis().queue;
  auto guard = target->serialise();
  clear_failure();
  tenon_fence_t* fence = nullptr;  // a local: what stands beside an error is not ours to destroy
  TENON_RETURN_IF_ERROR(target->check(api->fence_create(api->self, target->handle(), 0, &fence), "fence"));
  out->fence_ = fence;
  if (fence == nullptr) return error(TENON_INTERNAL, "T0612", "device {} made no fence", quoted(target->name()));
  return out;
}

RelayFence::~RelayFence() {
  if (fence_ == nullptr || plugins_shut_down()) return;
  if (target_->abandoned()) {
    target_->leave_behind(fence_);
    return;
  }
  const tenon_queue_api_t* api = target_->apis().queue;
  auto guard = target_->serialise();
  (void)api->fence_destroy(api->self, fence_);
}

void RelayFence::signal(uint64_t value) {
  const tenon_queue_api_t* api = target_->apis().queue;
  (void)api->fence_signal(api->self, fence_, value);
  signalled_.store(value, std::memory_order_release);
}

Relay::Relay(std::shared_ptr<Device> source) : source_(std::move(source)) {
  const SignalsBlocked blocked;
  thread_ = std::thread([this] { work(); });
}

Relay::~Relay() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  added_.notify_all();
  thread_.join();
}

void Relay::add(const Item& item) {
  {
    const std::lock_guard lock(mutex_);
    items_.push_back(item);
  }
  added_.notify_one();
}

void Relay::drain() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return items_.empty() && !busy_; });
}

void Relay::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    added_.wait(lock, [this] { return stopping_ || !items_.empty(); });
    if (items_.empty()) return;
    const Item item = items_.front();
    items_.pop_front();
    busy_ = true;
    lock.unlock();
    pass_on(item);
    lock.lock();
    busy_ = false;
    if (items_.empty()) idle_.notify_all();
  }
}

void Relay::pass_on(const Item& item) {
  const tenon_queue_api_t* api = source_->apis().queue;
  tenon_code_t code;
  do {
    code = source_->abandoned() ? TENON_DEVICE_LOST : api->fence_wait(api->self, item.fence, item.value, kPollNs);
  } while (code == TENON_DEADLINE_EXCEEDED);
  clear_failure();  // whoever waits for the source is told
  if (code != TENON_OK || item.source_spoilt->load(std::memory_order_acquire)) {
    item.target_spoilt->store(true, std::memory_order_release);
    // The copy that should have filled the memory waits for what failed, and so does not come; of a lost device nobody knows.
    if (code != TENON_OK && code != TENON_DEVICE_LOST && item.size_bytes != 0) std::memset(item.data, 0, item.size_bytes);
  }
  item.target->signal(item.target_value);
}

}  // namespace tenon::runtime
