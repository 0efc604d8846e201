// The floating-point control state of a thread: rounding, exception masks, flushing of denormals.
// Generated code runs in the default state of IEEE 754, whatever the embedding program set; the
// program finds its own state unchanged afterwards.
#pragma once
#include <cstdint>

namespace tenon {

#if defined(__x86_64__)
using FloatControl = uint32_t;
inline constexpr FloatControl kFloatDefault = 0x1F80;         // all exceptions masked, nearest even
inline constexpr FloatControl kFloatFlushDenormals = 0x8040;  // FTZ and DAZ
inline constexpr FloatControl kFloatStickyFlags = 0x3F;       // results, not control
inline FloatControl float_control() {
  return __builtin_ia32_stmxcsr();
}
inline void set_float_control(FloatControl control) {
  __builtin_ia32_ldmxcsr(control);
}
#elif defined(__aarch64__)
using FloatControl = uint64_t;
inline constexpr FloatControl kFloatDefault = 0;
inline constexpr FloatControl kFloatFlushDenormals = uint64_t{1} << 24;
inline constexpr FloatControl kFloatStickyFlags = 0;
inline FloatControl float_control() {
  uint64_t control;
  __asm__ volatile("mrs %0, fpcr" : "=r"(control));
  return control;
}
inline void set_float_control(FloatControl control) {
  __asm__ volatile("msr fpcr, %0" : : "r"(control));
}
#else
#error "Name this architecture's floating-point control register here."
#endif

// Runs a scope under `control` and restores the previous state. If anything was changed, the sticky
// flags are restored too.
class FloatScope {
 public:
  explicit FloatScope(FloatControl control) : saved_(float_control()) {
    if ((saved_ & ~kFloatStickyFlags) != control) set_float_control(control);
  }
  ~FloatScope() {
    if (((float_control() ^ saved_) & ~kFloatStickyFlags) != 0) set_float_control(saved_);
  }
  FloatScope(const FloatScope&) = delete;
  FloatScope& operator=(const FloatScope&) = delete;

 private:
  FloatControl saved_;
};

// The control state for regions that this thread starts: the default, with flushing added while a
// FlushDenormalsScope is alive.
FloatControl region_float_control();

class FlushDenormalsScope {
 public:
  explicit FlushDenormalsScope(bool flush);
  ~FlushDenormalsScope();
  FlushDenormalsScope(const FlushDenormalsScope&) = delete;
  FlushDenormalsScope& operator=(const FlushDenormalsScope&) = delete;

 private:
  FloatControl saved_;
};

}  // namespace tenon
