// An open OpenCL device, shared by the files of this plugin.
#ifndef OPENCL_SAMPLE_DEVICE_H_
#define OPENCL_SAMPLE_DEVICE_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "opencl_symbols.h"
#include "tenon/abi/compile.h"
#include "tenon/abi/exchange.h"
#include "tenon/cpp/timeline.hpp"

namespace opencl_sample {

// Looked up once for each device of the machine.
struct Found {
  cl_device_id id = nullptr;
  std::string name;
  cl_ulong memory_bytes = 0, most_bytes = 0;
  cl_uint alignment_bits = 0;
  std::string options;  // for the driver's compiler
  // "opencl fp64=1 group=256 device=... driver=..."; for Intel's text, " sub_groups=16", or
  // " emulated=16" where the runtime has no sub-groups of that width
  std::string target;
  std::string uuid;  // of cl_khr_device_uuid; empty without it
};

struct Work;

// One in-order command queue, with its work in flight. Work that waits
// for an event of the driver waits there. Work that waits for anything else is held back here, and
// so is all later work, so that nothing has started when the wait fails. Threads: safe.
class Line : public std::enable_shared_from_this<Line> {
 public:
  Line(const Functions* cl, cl_context context, cl_device_id id, cl_int* code);
  // On an existing queue of another owner, which is retained.
  Line(const Functions* cl, cl_context context, cl_command_queue stream);
  ~Line();
  Line(const Line&) = delete;

  void begin();
  void end();
  void wait_idle();
  bool holds();  // whether work is held
  void hold(std::shared_ptr<Work> work);
  void advance();  // submits held work whose waits are over
  // Adds or removes work that the driver has. Its ends are reported in this order.
  void marked(const std::shared_ptr<Work>& work);
  void unmarked(const std::shared_ptr<Work>& work);
  void report_ended();

  const Functions* cl;
  cl_context context;
  cl_command_queue queue = nullptr;

 private:
  std::mutex mutex_;
  std::condition_variable idle_;
  uint64_t in_flight_ = 0;
  bool advancing_ = false;  // a thread is submitting held work
  std::deque<std::shared_ptr<Work>> held_, marked_;
  bool reporting_ = false;  // a thread reports what has ended
};

struct Device {
  const Functions* cl = nullptr;
  const Found* found = nullptr;
  cl_context context = nullptr;
  std::shared_ptr<Line> own;  // for blocking calls
  std::mutex mutex;
  std::vector<std::shared_ptr<Line>> lines;  // its own, and those of queues
  struct Pinned {
    cl_mem memory;
    void* mapped;  // where the runtime mapped it; the memory given out begins later, aligned
  };
  std::map<void*, Pinned> pinned;
  uint64_t used_bytes = 0, peak_bytes = 0;

  ~Device();
};

struct Buffer {
  cl_mem memory = nullptr;
  uint64_t size_bytes = 0;
  bool imported = false;
};

struct Queue {
  Device* device = nullptr;
  std::shared_ptr<Line> line;
};

// A user event that is complete once a fence has a value, or fails with it.
class FollowingEvent {
 public:
  // Takes over a reference to the event.
  FollowingEvent(const Functions* cl, cl_event event) : cl_(cl), event_(event) {}
  ~FollowingEvent() { cl_->clReleaseEvent(event_); }
  FollowingEvent(const FollowingEvent&) = delete;
  // An event that its owner has set already stays as it is.
  static void settle(void* self, const tenon::Fault& fault);  // for Timeline::when

 private:
  const Functions* cl_;
  cl_event event_;
};

// An event with a reference of its own; null for none.
class EventRef {
 public:
  EventRef() = default;
  EventRef(const Functions* cl, cl_event event) : cl_(cl), event_(event) {
    if (event_ != nullptr) cl_->clRetainEvent(event_);
  }
  EventRef(const EventRef& other) : EventRef(other.cl_, other.event_) {}
  EventRef& operator=(EventRef other) {
    std::swap(cl_, other.cl_);
    std::swap(event_, other.event_);
    return *this;
  }
  ~EventRef() {
    if (event_ != nullptr) cl_->clReleaseEvent(event_);
  }
  cl_event get() const { return event_; }

 private:
  const Functions* cl_ = nullptr;
  cl_event event_ = nullptr;
};

struct Fence : tenon::Timeline {
  // The end of work that is with the driver, in whose context, and the value that it signals.
  struct Point {
    uint64_t value = 0;
    cl_context context = nullptr;
    EventRef end;
  };

  Fence(Device* on, uint64_t initial) : Timeline(initial), device(on) {}
  Device* const device;
  std::mutex mutex;
  std::vector<Point> points;

  // What to wait for in that context to have the value; without an event if there is nothing.
  Point point_for(uint64_t value, cl_context context);
  // Not if the work has ended: its end was or will be reported.
  void will_signal(const Work& work, cl_event end);
  // The waiter may destroy the fence, so it is not touched afterwards.
  void done(uint64_t value, const tenon::Fault& fault);

  // Takes over a reference to the event, which is set when the fence has the value, or cannot.
  void set_event(cl_event event, uint64_t value);
};

inline Device* device_of(tenon_device_t* d) {
  return reinterpret_cast<Device*>(d);
}
inline Buffer* buffer_of(tenon_buffer_t* b) {
  return reinterpret_cast<Buffer*>(b);
}
inline Queue* queue_of(tenon_queue_t* q) {
  return reinterpret_cast<Queue*>(q);
}
// Shared with callbacks of native events, which may come after the fence was destroyed.
inline std::shared_ptr<Fence>* shared_fence_of(tenon_fence_t* f) {
  return reinterpret_cast<std::shared_ptr<Fence>*>(f);
}
inline Fence* fence_of(tenon_fence_t* f) {
  return shared_fence_of(f)->get();
}

uint64_t alignment_of(const Found& found);
// The device of this machine with that target; null if there is none.
const Found* find_target(std::string_view target);

// Checks that a copy lies inside its buffers; submits a copy to a queue. `to_end`: returns when it
// is done.
tenon::Status check_copy(const tenon_copy_t& copy);
tenon::Status enqueue_copy(const Line& line, const tenon_copy_t& copy, bool to_end);

extern const tenon_device_api_t kDeviceTable;
extern const tenon_queue_api_t kQueueTable;
extern const tenon_exchange_api_t kExchangeTable;
extern const tenon_compile_api_t kCompileTable;

}  // namespace opencl_sample
#endif
