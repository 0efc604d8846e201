// Runners of one plan for calls from any thread: each call leases one, and idle ones keep the
// buffers of their last run for the next.
//
// Threads: safe; taking and giving back wait for no call, and for a lock only where large buffers
// are kept, which calls of other plans may take meanwhile.
#pragma once
#include <array>
#include <atomic>
#include <memory>

#include "core/runtime/run/run.h"

namespace tenon::runtime {

class RunnerPool {
 public:
  explicit RunnerPool(std::shared_ptr<const Plan> plan) : plan_(std::move(plan)) {}
  ~RunnerPool();
  RunnerPool(const RunnerPool&) = delete;
  RunnerPool& operator=(const RunnerPool&) = delete;

  // Frees the idle runners with all that they keep; false when there was none.
  bool trim();

  // Goes back to the pool, which must still be there, when it ends.
  class Lease {
   public:
    explicit Lease(RunnerPool& pool);
    ~Lease();
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Runner* operator->() const { return runner_.get(); }
    Runner* get() const { return runner_.get(); }

   private:
    RunnerPool& pool_;
    size_t place_;
    std::unique_ptr<Runner> runner_;
  };

 private:
  // More calls at once than this make runners that end with them.
  static constexpr size_t kIdleMost = 64;
  // On a cache line of its own, since each thread mostly writes to one of its own.
  struct alignas(64) Idle {
    std::atomic<Runner*> runner{nullptr};
  };
  std::shared_ptr<const Plan> plan_;
  std::array<Idle, kIdleMost> idle_;
};

}  // namespace tenon::runtime
