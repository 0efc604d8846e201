// Plans of one executable by the values of its symbols. The first few are kept as long as the
// executable and found without a lock, since a program of fixed sizes has one and most others have
// few; of further ones the least recently used goes.
//
// Threads: safe.
#ifndef TENON_PLUGINS_CPU_PLAN_CACHE_H_
#define TENON_PLUGINS_CPU_PLAN_CACHE_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace tenon::cpu {

// Plan: has its `symbols`, a vector.
template <class Plan>
class PlanCache {
 public:
  PlanCache() = default;
  PlanCache(const PlanCache&) = delete;
  PlanCache& operator=(const PlanCache&) = delete;
  ~PlanCache() {
    for (std::atomic<const Plan*>& kept : first_) {
      delete kept.load(std::memory_order_acquire);
    }
  }

  // Null if there is none. `holder` keeps one that might go.
  const Plan* find(std::span<const int64_t> symbols, std::shared_ptr<const Plan>& holder) {
    for (const std::atomic<const Plan*>& kept : first_) {
      const Plan* const plan = kept.load(std::memory_order_acquire);
      if (!plan) {
        return nullptr;  // They come in order, and others only after them.
      }
      if (std::ranges::equal(symbols, plan->symbols)) {
        return plan;
      }
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto it = further_.begin(); it != further_.end(); ++it) {
      if (std::ranges::equal(symbols, (*it)->symbols)) {
        further_.splice(further_.begin(), further_, it);
        holder = further_.front();
        return holder.get();
      }
    }
    return nullptr;
  }

  // Where another thread has added a plan of the same symbols meanwhile, that is the one.
  const Plan* add(std::unique_ptr<const Plan> plan, std::shared_ptr<const Plan>& holder) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (std::atomic<const Plan*>& place : first_) {
      const Plan* const kept = place.load(std::memory_order_relaxed);
      if (!kept) {
        place.store(plan.get(), std::memory_order_release);
        return plan.release();
      }
      if (kept->symbols == plan->symbols) {
        return kept;
      }
    }
    for (const std::shared_ptr<const Plan>& kept : further_) {
      if (kept->symbols == plan->symbols) {
        holder = kept;
        return kept.get();
      }
    }
    holder = std::move(plan);
    further_.push_front(holder);
    if (further_.size() > kMostFurther) {
      further_.pop_back();
    }
    return holder.get();
  }

 private:
  static constexpr size_t kMostFirst = 8, kMostFurther = 56;
  std::array<std::atomic<const Plan*>, kMostFirst> first_{};
  std::mutex mutex_;  // Held to change anything, and to use `further_`.
  std::list<std::shared_ptr<const Plan>> further_;  // Most recently used first.
};

}  // namespace tenon::cpu
#endif
