#include "core/runtime/run/runner_pool.h"

namespace tenon::runtime {
namespace {

// Where this thread looks first, so that it finds the runner whose memory it touched last.
size_t home() {
  static std::atomic<size_t> next{0};
  thread_local const size_t place = next.fetch_add(1, std::memory_order_relaxed);
  return place;
}

}  // namespace

RunnerPool::~RunnerPool() {
  (void)trim();
}

bool RunnerPool::trim() {
  bool any = false;
  for (Idle& idle : idle_) {
    const std::unique_ptr<Runner> runner(idle.runner.exchange(nullptr, std::memory_order_acquire));
    any = any || runner != nullptr;
  }
  return any;
}

RunnerPool::Lease::Lease(RunnerPool& pool) : pool_(pool), place_(home() % kIdleMost) {
  for (size_t i = 0; i < kIdleMost && runner_ == nullptr; ++i) {
    std::atomic<Runner*>& idle = pool_.idle_[(place_ + i) % kIdleMost].runner;
    if (idle.load(std::memory_order_relaxed) == nullptr) continue;
    runner_.reset(idle.exchange(nullptr, std::memory_order_acquire));
  }
  if (runner_ == nullptr) {
    runner_ = std::make_unique<Runner>(pool_.plan_);
    runner_->set_timed(false);  // calls do not report times
    runner_->set_reclaim([&idle = pool_] { return idle.trim(); });
  }
  runner_->begin_call();
}

RunnerPool::Lease::~Lease() {
  runner_->end_call();
  for (size_t i = 0; i < kIdleMost; ++i) {
    Runner* none = nullptr;
    std::atomic<Runner*>& idle = pool_.idle_[(place_ + i) % kIdleMost].runner;
    if (!idle.compare_exchange_strong(none, runner_.get(), std::memory_order_release,
                                      std::memory_order_relaxed))
      continue;
    (void)runner_.release();
    return;
  }
}

}  // namespace tenon::runtime
