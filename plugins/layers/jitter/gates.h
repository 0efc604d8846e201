// Gates: fences of the layer's own that hold work back, and the thread that opens them.
#ifndef TENON_PLUGINS_LAYERS_JITTER_GATES_H_
#define TENON_PLUGINS_LAYERS_JITTER_GATES_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <thread>

#include "tenon/abi/queue.h"

namespace tenon::jitter {

// Work that was submitted and waits for a gate.
struct Held {
  const tenon_queue_api_t* api = nullptr;
  tenon_queue_t* queue = nullptr;
  tenon_fence_point_t gate = {};    // the work waits for it
  tenon_fence_point_t opens = {};   // what the host signals: the gate, or what a copy waits for
  tenon_fence_point_t signal = {};  // the work's own
  std::string_view slot;
  bool submitted = false;  // false: the device refused it
};

// Opens each gate after a while, in an order of its own. Threads: safe.
class Gates {
 public:
  // breach: the signal of work was made before its gate was open. Called with a lock held.
  using Breach = std::function<void(const Held&)>;
  Gates(uint64_t seed, uint64_t most_us, Breach breach)
      : random_(seed), most_us_(most_us), breach_(std::move(breach)) {}

  // A delay, in microseconds.
  uint64_t draw();
  void hold(const Held& held);
  // Nothing of the queue, or of the fence, is used after the call.
  void forget(const tenon_queue_t* queue);
  void forget(const tenon_fence_t* fence);
  // The host has seen a value of the fence.
  void seen(const tenon_fence_t* fence, uint64_t value);
  // Opens all, and ends the thread.
  void end();
  uint64_t count() const { return count_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Item {
    Held held;
    Clock::time_point due;
    bool reported = false;
  };
  void run();
  void open(Item& item);
  void report(Item& item);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Item> items_;
  std::thread thread_;
  bool ends_ = false;
  std::mt19937_64 random_;
  const uint64_t most_us_;
  const Breach breach_;
  uint64_t count_ = 0;
};

}  // namespace tenon::jitter

#endif
