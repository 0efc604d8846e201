// Carries fence points from one device to others: when the source's fence reaches a value, the host
// signals a fence of the target. So work of both can be submitted long before, and only the
// target's queue waits.
//
// Threads: one thread of its own, which calls only fence_wait, fence_query and fence_signal of a
// plugin. Its owner calls add and drain.
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "core/runtime/device/device.h"

namespace tenon::runtime {

// Set once a device's results are no longer valid, because work of another device that they depend
// on failed.
using Tainted = std::atomic<bool>;

// A fence that the host signals, for values that one device sends to another.
class RelayFence {
 public:
  static Result<std::unique_ptr<RelayFence>> create(std::shared_ptr<Device> target);
  ~RelayFence();
  tenon_fence_t* fence() const { return fence_; }
  uint64_t next() { return ++promised_; }
  // Whether signal() was called with this value or a later one, even if the device refused it.
  bool signalled(uint64_t value) const {
    return signalled_.load(std::memory_order_acquire) >= value;
  }
  Status signal(uint64_t value);
  bool given_up() const { return target_->abandoned(); }

 private:
  explicit RelayFence(std::shared_ptr<Device> target) : target_(std::move(target)) {}
  std::shared_ptr<Device> target_;
  tenon_fence_t* fence_ = nullptr;
  uint64_t promised_ = 0;
  std::atomic<uint64_t> signalled_{0};
};

class Relay {
 public:
  explicit Relay(std::shared_ptr<Device> source);
  ~Relay();  // after drain
  Relay(const Relay&) = delete;

  struct Item {
    tenon_fence_t* fence = nullptr;  // the source's
    uint64_t value = 0;
    RelayFence* target = nullptr;
    uint64_t target_value = 0;
    const Tainted* source_tainted = nullptr;
    Tainted* target_tainted = nullptr;
  };
  // Items of one source are added in order of their values.
  void add(const Item& item);
  // Waits until every item has been passed on.
  void drain();
  // The first wait on a source that failed while the source was not yet tainted, or the first
  // signal that a target refused. The source's own fence may be fine, so only the relay knows. OK
  // on further calls. Call it after drain.
  Status take_failure();

 private:
  void work();
  tenon_code_t wait_for(const Item& item) const;
  void pass_on(const Item& item);
  void keep(tenon_code_t code, Status failure);

  const std::shared_ptr<Device> source_;
  std::mutex mutex_;
  std::condition_variable added_, idle_;
  std::deque<Item> items_;
  bool busy_ = false, stopping_ = false;
  tenon_code_t failed_ = TENON_OK;
  Status failure_;      // OK, with failed_ set, if there was no memory for the message
  std::thread thread_;  // last: it uses the other members
};

}  // namespace tenon::runtime
