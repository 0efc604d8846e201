// Injects faults and latencies into a simulated device, chosen by two variables.
//
//   TENON_SIM_FAULTS   comma-separated [ORDINAL/]WHAT=N: the N-th such event of device ORDINAL
//                      (without it: of every device) fails. N+: that one and all later ones.
//                      Events count from 1, from the moment that the variable was set.
//     alloc   an allocation fails with RESOURCE_EXHAUSTED
//     copy    a copy fails with DATA_LOSS, half done
//     launch  an execution fails with INTERNAL, before its first kernel
//     fence   a wait for a fence gives DEADLINE_EXCEEDED at once
//     stall   a copy or an execution on a queue does not complete until its queue is destroyed or
//             its device closed
//     lost    the device is lost at a copy or an execution
//   TENON_SIM_LATENCY  comma-separated copy=LO-HI, launch=LO-HI (the minimum duration of a command
//                      in microseconds, uniformly distributed) and seed=N: the same seed gives the
//                      same times for each queue.
//
// Both variables are read again at each event, so that a program may change them; a new value
// restarts the counts.
//
// Threads: safe.
#ifndef TENON_PLUGINS_SIM_INJECTION_H_
#define TENON_PLUGINS_SIM_INJECTION_H_

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "tenon/cpp/status.hpp"

namespace tenon::sim {

enum class Event : uint8_t { kAlloc, kCopy, kLaunch, kFence, kStall, kLost };
inline constexpr size_t kEventCount = 6;

class Injection {
 public:
  explicit Injection(uint32_t ordinal) : ordinal_(ordinal) {}
  Injection(const Injection&) = delete;

  // INVALID_ARGUMENT, naming the error in one of the variables.
  Status check();
  // Counts one event; true if it is to fail. A value that check() refuses injects nothing.
  bool strikes(Event event);
  // The duration of the next command in microseconds. `state` belongs to the queue and starts at 0.
  uint64_t latency_us(Event event, uint64_t* state);

 private:
  struct Rule {
    uint64_t at = 0, seen = 0;  // at 0: never
    bool onwards = false;
  };
  struct Range {
    uint64_t low = 0, high = 0;
  };
  bool read_faults(std::string_view text, std::string* why);
  bool read_latency(std::string_view text, std::string* why);
  bool refresh(std::string* why);

  const uint32_t ordinal_;
  std::mutex mutex_;
  std::string faults_text_, latency_text_;
  std::array<Rule, kEventCount> rules_{};
  Range copy_, launch_;
  uint64_t seed_ = 1;
};

}  // namespace tenon::sim
#endif
