#include "core/runtime/device/relay.h"

#include <exception>
#include <utility>

#include "core/base/errors/failure.h"
#include "core/base/process/signal_mask.h"
#include "core/base/str.h"
#include "core/runtime/device/queue.h"

namespace tenon::runtime {

Result<std::unique_ptr<RelayFence>> RelayFence::create(std::shared_ptr<Device> target) {
  TENON_RETURN_IF_ERROR(target->open());
  std::unique_ptr<RelayFence> out(new RelayFence(target));
  const tenon_queue_api_t* api = target->apis().queue;
  auto guard = target->serialise();
  clear_failure();
  tenon_fence_t* fence = nullptr;  // a local: a handle stored despite an error is not ours
  TENON_RETURN_IF_ERROR(
      target->check(api->fence_create(api->self, target->handle(), 0, &fence), "fence"));
  out->fence_ = fence;
  if (fence == nullptr)
    return error(TENON_INTERNAL, "T0612", "device {} made no fence", quoted(target->name()));
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

Status RelayFence::signal(uint64_t value) {
  const tenon_queue_api_t* api = target_->apis().queue;
  clear_failure();
  const tenon_code_t code = api->fence_signal(api->self, fence_, value);
  // Refused or not, from now on it is the target that others wait for.
  signalled_.store(value, std::memory_order_release);
  return target_->check(code, "fence_signal");
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

Status Relay::take_failure() {
  const std::lock_guard lock(mutex_);
  const tenon_code_t code = std::exchange(failed_, TENON_OK);
  if (code == TENON_OK || !failure_.ok()) return std::exchange(failure_, Status());
  return error(code, "T0617", "device {} (run): it failed with {}", quoted(source_->name()),
               code_name(code));
}

void Relay::keep(tenon_code_t code, Status failure) {
  const std::lock_guard lock(mutex_);
  if (failed_ != TENON_OK) return;
  failed_ = code;
  failure_ = std::move(failure);
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

// Also ends once the source is abandoned or the target is given up: a fence that never signals must
// not hold up the run for good.
tenon_code_t Relay::wait_for(const Item& item) const {
  const tenon_queue_api_t* api = source_->apis().queue;
  while (!item.target->given_up()) {
    if (source_->abandoned()) return TENON_DEVICE_LOST;
    const tenon_code_t code = wait_a_moment(api, item.fence, item.value);
    if (code != TENON_DEADLINE_EXCEEDED) return code;
  }
  return TENON_OK;
}

void Relay::pass_on(const Item& item) {
  clear_failure();
  const tenon_code_t code = wait_for(item);
  const bool tainted = item.source_tainted->load(std::memory_order_acquire);
  // A failed wait ends no work, so the memory that the target reads may still be written. It is
  // left as it is; it was initialised when it was taken.
  if (code != TENON_OK || tainted) item.target_tainted->store(true, std::memory_order_release);
  Status failure, refused;
  try {
    failure = source_->check(code, "run");
    if (!failure.ok())
      failure = std::move(failure).with_context(
          fmt::format("waiting for device {}", quoted(source_->name())));
  } catch (const std::exception&) {  // no memory for the message
  }
  if (code != TENON_OK && !tainted && !source_->abandoned()) keep(code, std::move(failure));
  try {
    refused = item.target->signal(item.target_value);
  } catch (const std::exception&) {
    keep(TENON_RESOURCE_EXHAUSTED, {});
  }
  if (!refused.ok()) {
    const tenon_code_t refusal = refused.code();
    keep(refusal, std::move(refused));
  }
  clear_failure();
}

}  // namespace tenon::runtime
