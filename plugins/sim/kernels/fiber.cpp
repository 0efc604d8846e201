#include "plugins/sim/kernels/fiber.h"

#include <sys/mman.h>

#include <new>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TENON_SIM_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define TENON_SIM_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define TENON_SIM_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__)
#define TENON_SIM_TSAN 1
#endif
#ifdef TENON_SIM_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef TENON_SIM_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace tenon::sim {

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)) {
  void* p = mmap(nullptr, kStackBytes + kGuardBytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
  mapping_ = static_cast<char*>(p);
  stack_ = mapping_ + kGuardBytes;
  mprotect(mapping_, kGuardBytes, PROT_NONE);  // below the stack, which grows down
  getcontext(&own_);
  own_.uc_stack.ss_sp = stack_;
  own_.uc_stack.ss_size = kStackBytes;
  own_.uc_link = nullptr;
  const auto self = reinterpret_cast<uint64_t>(this);
  makecontext(&own_, reinterpret_cast<void (*)()>(&Fiber::enter), 2,
              static_cast<uint32_t>(self >> 32), static_cast<uint32_t>(self));
#ifdef TENON_SIM_TSAN
  own_tsan_ = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
#ifdef TENON_SIM_TSAN
  __tsan_destroy_fiber(own_tsan_);
#endif
#ifdef TENON_SIM_ASAN
  // Frames that never returned left their poison on it.
  ASAN_UNPOISON_MEMORY_REGION(stack_, kStackBytes);
#endif
  munmap(mapping_, kStackBytes + kGuardBytes);
}

void Fiber::resume() {
#ifdef TENON_SIM_ASAN
  __sanitizer_start_switch_fiber(&outer_fake_, stack_, kStackBytes);
#endif
#ifdef TENON_SIM_TSAN
  outer_tsan_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(own_tsan_, 0);
#endif
  swapcontext(&back_, &own_);
#ifdef TENON_SIM_ASAN
  __sanitizer_finish_switch_fiber(outer_fake_, nullptr, nullptr);
#endif
}

void Fiber::suspend() {
  leave(false);
}

void Fiber::leave([[maybe_unused]] bool for_good) {
#ifdef TENON_SIM_ASAN
  __sanitizer_start_switch_fiber(for_good ? nullptr : &own_fake_, outer_stack_, outer_bytes_);
#endif
#ifdef TENON_SIM_TSAN
  __tsan_switch_to_fiber(outer_tsan_, 0);
#endif
  swapcontext(&own_, &back_);
#ifdef TENON_SIM_ASAN
  __sanitizer_finish_switch_fiber(own_fake_, &outer_stack_, &outer_bytes_);
#endif
}

void Fiber::enter(uint32_t high, uint32_t low) {
  reinterpret_cast<Fiber*>(uint64_t{high} << 32 | low)->main();
}

void Fiber::main() {
#ifdef TENON_SIM_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &outer_stack_, &outer_bytes_);
#endif
  body_();
  done_ = true;
  leave(true);
}

}  // namespace tenon::sim
