// A separate stack to run on, suspended and resumed on one thread. Work items wait at barriers on
// fibers.
//
// Threads: a fiber belongs to the thread that made it.
#ifndef TENON_PLUGINS_SIM_FIBER_H_
#define TENON_PLUGINS_SIM_FIBER_H_

#include <ucontext.h>

#include <cstdint>
#include <functional>

namespace tenon::sim {

class Fiber {
 public:
  // `body` starts at the first resume(). Throws std::bad_alloc when there is no memory for a stack.
  explicit Fiber(std::function<void()> body);
  // A fiber whose body did not return is abandoned: nothing on its stack is destroyed.
  ~Fiber();
  Fiber(const Fiber&) = delete;

  // Runs the fiber until it suspends or its body returns. Call only outside of all fibers.
  void resume();
  // Returns to the caller of resume(). Call only on the fiber.
  void suspend();
  bool done() const { return done_; }
  // Whether an address is on the fiber's stack.
  bool owns(const void* address) const {
    const auto at = reinterpret_cast<uintptr_t>(address), low = reinterpret_cast<uintptr_t>(stack_);
    return at >= low && at - low < kStackBytes;
  }

 private:
  static constexpr uint64_t kStackBytes = 256 << 10, kGuardBytes = 4096;
  static void enter(uint32_t high, uint32_t low);
  void main();
  void leave(bool for_good);

  std::function<void()> body_;
  char* mapping_ = nullptr;
  char* stack_ = nullptr;
  ucontext_t own_{}, back_{};
  bool done_ = false;
  // For sanitizers, which track stacks: the stack we came from, and the fiber's.
  [[maybe_unused]] const void* outer_stack_ = nullptr;
  [[maybe_unused]] uint64_t outer_bytes_ = 0;
  [[maybe_unused]] void *outer_fake_ = nullptr, *own_fake_ = nullptr;
  [[maybe_unused]] void *outer_tsan_ = nullptr, *own_tsan_ = nullptr;
};

}  // namespace tenon::sim
#endif
