// In-order queues on streams, work on its way to them, and fences (tenon.queue/1).
//
// A fence is a timeline in host memory. Work that signals it leaves an event, so that work on
// another queue of the same device waits for it without the host. Work that waits for anything else
// (a signal of the host, another device, work that is not submitted yet) is held until the fence
// calls back, and so is all later work. The thread that signals submits it: a copy between the
// device and memory that is not pinned may keep that thread until the copy is done. It waits for no
// signal then, only for work on the device, which waits for events alone, so it comes to an end.
// Each queue has a thread that waits for its events in order, reads what the work found, and
// signals.
#ifndef TENON_STREAM_QUEUE_H_
#define TENON_STREAM_QUEUE_H_

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tenon/abi/queue.h"
#include "tenon/cpp/timeline.hpp"
#include "tenon/stream/runtime.h"

namespace tenon::stream {

struct Device;

// An event of a device, which keeps it for the next user.
class Event {
 public:
  Event(Device& device, EventHandle handle, bool timed)
      : device_(device), handle_(handle), timed_(timed) {}
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  EventHandle handle() const { return handle_; }

 private:
  Device& device_;
  EventHandle handle_;
  bool timed_;
};
using EventRef = std::shared_ptr<Event>;

// An event of another library's, of which a fence was made; kForeignValue is its point. The event
// outlives the fence, and is not touched when that is gone. Threads: safe.
class ForeignEvent {
 public:
  static constexpr uint64_t kForeignValue = 1;
  ForeignEvent(Device& device, EventHandle handle, bool signals, std::shared_ptr<Timeline> point)
      : to_signal(signals), device_(device), handle_(handle), point_(std::move(point)) {}
  void let_go();  // the fence is being destroyed

  // To wait for it. `look` passes on what has happened. Work that a stream gets after `wait_on`
  // begins after the event; the stream's device is current.
  void look();
  // Whether a stream can wait for it in place of the value. Not if that has failed: the device
  // knows nothing of it, and the work must not run.
  bool stands_for(uint64_t value) const {
    return !to_signal && value <= kForeignValue && !point_->failed(value);
  }
  Status wait_on(Runtime& runtime, StreamHandle stream);
  void happened() { point_->signal(kForeignValue); }

  // To signal it: records it on a stream of its context, whose device is current; or now.
  // For a signal of the value.
  Status record(Runtime& runtime, StreamHandle stream, uint64_t value);
  Status record_now(uint64_t value);

  const bool to_signal;

 private:
  Device& device_;
  std::mutex mutex_;
  EventHandle handle_;  // null: let go
  bool recorded_ = false;
  const std::shared_ptr<Timeline> point_;
};

// A fence: the timeline, and the events of submitted work that will signal it. Threads: safe.
class Fence {
 public:
  // Submitted work that will signal a value.
  struct Point {
    uint64_t value = 0;
    const Device* device = nullptr;
    EventRef event;
  };

  // device: gives events out for this fence, and is closed after it.
  explicit Fence(uint64_t initial, Device* device = nullptr)
      : kept(std::make_shared<Timeline>(initial)), timeline(*kept), device_(device) {}
  ~Fence();
  Fence(const Fence&) = delete;
  Fence& operator=(const Fence&) = delete;
  void will_signal(uint64_t value, const Device* device, EventRef event);
  // The first submitted work on the device after which the value is reached, and the value that it
  // signals; without an event if there is none.
  Point point_for(uint64_t value, const Device* device) const;
  void done(uint64_t value, const Fault& fault);  // and forgets the event

  // Makes it the fence of an event, before anybody else has it.
  void follow(EventHandle event, bool to_signal);
  Status query(uint64_t* out_value);
  Status wait(uint64_t value, uint64_t timeout_ns);
  Status signal(uint64_t value);  // from the host

  // Also of work that its stream makes wait, which may look at it when the fence is gone (R-D24).
  const std::shared_ptr<Timeline> kept;
  Timeline& timeline;
  std::shared_ptr<ForeignEvent> foreign;  // may be null

 private:
  Device* const device_;
  mutable std::mutex mutex_;
  std::vector<Point> submitted_;
};

class Line;

// Called on the line's thread when all commands are done; may fail the signal.
using Done = std::function<tenon_code_t(std::span<const kernelgen::KernelTime>, std::string* why)>;
// Puts a command on the stream.
using Command = std::function<Status()>;

// A wait that the stream does, for work that signals a value from the wanted one on. The event is
// kept until the waiting work is done: a runtime may look at it only when the stream gets there,
// and would wait for whatever the event was recorded for again.
struct NativeWait {
  std::shared_ptr<Timeline> timeline;
  uint64_t wanted, signalled;
  EventRef event;
  // Instead of the event; has happened when the waiting work is done.
  std::shared_ptr<ForeignEvent> foreign = {};
};

struct Work {
  explicit Work(std::shared_ptr<Line> on) : line(std::move(on)) {}

  const std::shared_ptr<Line> line;
  tenon_fence_point_t signal = {};
  Done done;
  std::vector<Command> commands;  // of held work
  bool held = false;
  std::atomic<uint32_t> waits{0};  // that hold it
  std::vector<NativeWait> native;
  std::vector<GraphRef> graphs;                      // that it has started
  std::vector<std::pair<EventRef, EventRef>> timed;  // begin and end of each timed kernel
  EventRef end;
  std::mutex mutex;
  Fault fault;  // of its waits, or of its start
};
using WorkRef = std::shared_ptr<Work>;

// One stream, its work in flight and its thread. Threads: safe.
class Line {
 public:
  // On a failure, whose reason is in the status, the line can only be stopped.
  Line(Device& device, Status* status);
  // On a stream of another library, which outlives the line.
  Line(Device& device, StreamHandle stream, Status* status);
  ~Line();
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  // Waits for submitted work, and for the fences that other work was to wait for, and ends the
  // thread. Every line is stopped before its last owner lets go: work owns its line, and the
  // thread, which finishes work, must not destroy itself.
  void stop();
  bool holds();  // whether work waits that is not on the stream yet
  StreamHandle stream() const { return stream_; }
  Device& device() { return device_; }

 private:
  friend void wait_for(std::span<const tenon_fence_point_t>, const WorkRef&);
  friend Status put(Work&, Command);
  friend Status finish(const WorkRef&);
  friend class Gate;
  void add_gate();
  void drop_gate();
  void hold(WorkRef work);
  void advance();  // submits held work whose waits are over
  void start_held(const WorkRef& work);
  // Calls `puts`, which puts work on the stream. If it fails, or throws, what it has put there has
  // ended when this returns, so that memory may be given back.
  template <class Puts>
  Fault attempt(Puts puts);
  Status issue(Work& work);  // its commands
  Status submit(const WorkRef& work);
  void settle(Work& work, const Fault& fault);
  Status start();  // the thread
  void complete(const WorkRef& work);
  void run();

  Device& device_;
  StreamHandle stream_ = nullptr;
  bool own_stream_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t in_flight_ = 0;
  uint32_t gates_ = 0;  // of fences that have yet to call back, or whose call is at work here
  bool advancing_ = false, stopping_ = false;
  std::list<WorkRef> held_;
  std::deque<WorkRef> submitted_;
  std::thread thread_;
};

// Commands that follow wait for the points. If a wait fails, the signal fails in the same way, and
// held commands do not run.
void wait_for(std::span<const tenon_fence_point_t> points, const WorkRef& work);
// On an error nothing of the work is in flight.
Status put(Work& work, Command command);
// Signals when all commands are done. On an error nothing of the work is in flight.
Status finish(const WorkRef& work);

inline Fence* fence_of(tenon_fence_t* f) {
  return reinterpret_cast<Fence*>(f);
}

std::shared_ptr<Line> line_of(tenon_queue_t* queue);

// A queue on a stream of another library. Current on the calling thread.
Status queue_on_stream(Device& device, StreamHandle stream, tenon_queue_t** out);

extern const tenon_queue_api_t kQueueTable;

}  // namespace tenon::stream
#endif
