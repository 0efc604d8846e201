#include "tenon/stream/queue.h"

#include <algorithm>
#include <system_error>

#include "tenon/cpp/copy.hpp"
#include "tenon/cpp/thread.hpp"
#include "tenon/stream/device.h"

namespace tenon::stream {

Event::~Event() {
  device_.runtime->event_idle(handle_);
  const std::lock_guard lock(device_.mutex);
  device_.free_events[timed_].push_back(handle_);
}

void Fence::will_signal(uint64_t value, const Device* device, EventRef event) {
  const std::lock_guard lock(mutex_);
  submitted_.push_back({value, device, std::move(event)});
}

Fence::Point Fence::point_for(uint64_t value, const Device* device) const {
  const std::lock_guard lock(mutex_);
  const Point* best = nullptr;
  for (const Point& p : submitted_) {
    if (p.device == device && p.value >= value && (best == nullptr || p.value < best->value))
      best = &p;
  }
  return best == nullptr ? Point() : *best;
}

// The waiter may destroy the fence, so it is not touched after the signal.
void Fence::done(uint64_t value, const Fault& fault) {
  std::vector<Point> forgotten;  // events are given back without the lock
  {
    const std::lock_guard lock(mutex_);
    const auto keep = std::partition(submitted_.begin(), submitted_.end(),
                                     [&](const Point& p) { return p.value != value; });
    std::move(keep, submitted_.end(), std::back_inserter(forgotten));
    submitted_.erase(keep, submitted_.end());
  }
  fault.ok() ? timeline.signal(value) : timeline.fail(value, fault);
}

Fence::~Fence() {
  if (foreign != nullptr) foreign->let_go();
}

// ---- Events of other libraries ----

void ForeignEvent::let_go() {
  const std::lock_guard lock(mutex_);
  handle_ = nullptr;
}

void ForeignEvent::look() {
  Fault fault;
  {
    const std::lock_guard lock(mutex_);
    if (handle_ == nullptr || point_->reached(kForeignValue)) return;
    const Current current(*device_.runtime);
    bool done = false;
    Status status = current.status();
    if (status.ok()) status = device_.runtime->event_query(handle_, &done);
    // An event that its owner records into a graph has not failed.
    if (status.code() == TENON_UNAVAILABLE || (status.ok() && !done)) return;
    fault = fault_of(status.code());
  }
  fault.ok() ? happened() : point_->fail(kForeignValue, fault);
}

// What has happened needs no wait, and may be gone with its fence.
Status ForeignEvent::wait_on(Runtime& runtime, StreamHandle stream) {
  const std::lock_guard lock(mutex_);
  if (point_->failed(kForeignValue)) return point_->wait(kForeignValue, 0);
  if (handle_ == nullptr || point_->reached(kForeignValue)) return {};
  return runtime.stream_wait(stream, handle_);
}

// The event stands for kForeignValue alone: later values do not record it once more.
Status ForeignEvent::record(Runtime& runtime, StreamHandle stream, uint64_t value) {
  const std::lock_guard lock(mutex_);
  if (handle_ == nullptr || value < kForeignValue || (recorded_ && value > kForeignValue))
    return {};
  const Status status = runtime.event_record(handle_, stream);
  recorded_ = recorded_ || status.ok();
  if (status.ok() || status.code() == TENON_DEVICE_LOST) return status;
  return fail(status.code(), cat(device_.name,
                                 ": the event to signal must be one of this device's "
                                 "own context: ",
                                 fault_of(status.code()).text));
}

Status ForeignEvent::record_now(uint64_t value) {
  const Current current(*device_.runtime);
  TENON_TRY(current.status());
  return record(*device_.runtime, device_.own->stream(), value);
}

void Fence::follow(EventHandle event, bool to_signal) {
  foreign = std::make_shared<ForeignEvent>(*device_, event, to_signal, kept);
}

Status Fence::query(uint64_t* out_value) {
  if (foreign != nullptr && !foreign->to_signal) foreign->look();
  return timeline.query(out_value);
}

// No callback says that an event of others has happened, and a wait inside of the driver has no
// limit: this thread looks again and again.
Status Fence::wait(uint64_t value, uint64_t timeout_ns) {
  if (foreign == nullptr || foreign->to_signal) return timeline.wait(value, timeout_ns);
  using Clock = std::chrono::steady_clock;
  constexpr uint64_t kShortest = 20'000, kLongest = 1'000'000;  // ns
  const Clock::time_point begin = Clock::now();
  for (uint64_t pause = kShortest;; pause = std::min(2 * pause, kLongest)) {
    const auto passed = static_cast<uint64_t>((Clock::now() - begin) / std::chrono::nanoseconds(1));
    const uint64_t left = timeout_ns > passed ? timeout_ns - passed : 0;
    foreign->look();  // also when no time is left
    const Status status = timeline.wait(value, std::min(pause, left));
    if (status.code() != TENON_DEADLINE_EXCEEDED) return status;
    if (left == 0)
      return fail(TENON_DEADLINE_EXCEEDED, cat("The fence of an event did not reach ", value,
                                               " within ", timeout_ns, " ns."));
  }
}

Status Fence::signal(uint64_t value) {
  if (foreign != nullptr && foreign->to_signal) TENON_TRY(foreign->record_now(value));
  timeline.signal(value);
  return {};
}

// ---- Lines ----

namespace {

Fault shortage() {
  return {TENON_RESOURCE_EXHAUSTED, "There is not enough memory."};
}

}  // namespace

Line::Line(Device& device, Status* status) : device_(device) {
  *status = device.runtime->stream_create(&stream_);
  if (!status->ok()) return;
  own_stream_ = true;
  *status = start();
}

Line::Line(Device& device, StreamHandle stream, Status* status) : device_(device), stream_(stream) {
  *status = start();
}

Status Line::start() {
  try {
    thread_ = start_thread([this] { run(); });
  } catch (const std::system_error& error) {
    return fail(TENON_RESOURCE_EXHAUSTED,
                cat(device_.name, ": no thread can be started: ", error.what()));
  }
  return {};
}

void Line::stop() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return in_flight_ == 0 && gates_ == 0; });
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

Line::~Line() {
  if (!own_stream_) return;
  const Current current(*device_.runtime);
  (void)device_.runtime->stream_destroy(stream_);
}

void Line::add_gate() {
  const std::lock_guard lock(mutex_);
  ++gates_;
}

// Notifies under the lock: see settle.
void Line::drop_gate() {
  const std::lock_guard lock(mutex_);
  if (--gates_ == 0) changed_.notify_all();
}

bool Line::holds() {
  const std::lock_guard lock(mutex_);
  return !held_.empty();
}

void Line::hold(WorkRef work) {
  {
    const std::lock_guard lock(mutex_);
    held_.push_back(std::move(work));
    ++in_flight_;
  }
  advance();
}

template <class Puts>
Fault Line::attempt(Puts puts) {
  Fault fault;
  try {
    const Status status = puts();
    if (status.ok()) return fault;
    fault = fault_of(status.code());
  } catch (const std::bad_alloc&) {
    fault = shortage();
  }
  (void)wait_out(*device_.runtime, stream_);
  return fault;
}

Status Line::issue(Work& work) {
  for (const Command& command : std::exchange(work.commands, {})) TENON_TRY(command());
  return {};
}

// One thread at a time submits held work, without holding the lock. A thread that finds another one
// submitting leaves its own work, which is ready, to that one. Nothing here may throw: the thread
// is another line's, or one that signals a fence.
void Line::advance() {
  std::list<WorkRef> failed;
  std::unique_lock lock(mutex_);
  if (std::exchange(advancing_, true)) return;
  while (!held_.empty() && held_.front()->waits == 0) {
    const WorkRef work = held_.front();
    lock.unlock();
    start_held(work);
    lock.lock();
    if (work->fault.ok()) {
      held_.pop_front();
    } else {
      failed.splice(failed.end(), held_, held_.begin());
    }
  }
  advancing_ = false;
  lock.unlock();
  for (const WorkRef& work : failed) settle(*work, work->fault);
}

// Its waits are over, so no other thread changes the fault.
void Line::start_held(const WorkRef& work) {
  if (!work->fault.ok()) return;
  const Current current(*device_.runtime);
  work->fault = attempt([&]() -> Status {
    TENON_TRY(current.status());
    TENON_TRY(issue(*work));
    return submit(work);
  });
}

// Marks the end of the work's commands, and hands it to the thread.
Status Line::submit(const WorkRef& work) {
  TENON_TRY(device_.event(false, &work->end));
  TENON_TRY(device_.runtime->event_record(work->end->handle(), stream_));
  if (work->signal.fence != nullptr) {
    Fence& fence = *fence_of(work->signal.fence);
    if (fence.foreign != nullptr && fence.foreign->to_signal)
      TENON_TRY(fence.foreign->record(*device_.runtime, stream_, work->signal.value));
    fence.will_signal(work->signal.value, &device_, work->end);
  }
  const std::lock_guard lock(mutex_);
  submitted_.push_back(work);
  changed_.notify_all();
  return {};
}

// Notifies under the lock: a waiter may destroy this object as soon as it can take the lock. Who
// waits for the signal may unload the code of the graphs.
void Line::settle(Work& work, const Fault& fault) {
  work.graphs.clear();
  if (work.signal.fence != nullptr) fence_of(work.signal.fence)->done(work.signal.value, fault);
  const std::lock_guard lock(mutex_);
  if (--in_flight_ == 0) changed_.notify_all();
}

namespace {

Status times_of(Runtime& runtime, const Work& work, std::vector<kernelgen::KernelTime>* out) {
  for (const auto& [begin, end] : work.timed) {
    float from = 0, to = 0;
    const EventHandle first = work.timed.front().first->handle();
    TENON_TRY(runtime.event_elapsed(first, begin->handle(), &from));
    TENON_TRY(runtime.event_elapsed(first, end->handle(), &to));
    constexpr double kNs = 1e6;
    out->push_back({static_cast<uint64_t>(from * kNs), static_cast<uint64_t>(to * kNs)});
  }
  return {};
}

// The first fault of work that the stream has waited for. That work has ended, and its own thread
// is about to signal it. Where it signals a later value than the one that was wanted, and fails,
// the wanted value may have been reached all the same; if not, it may never be reached.
Fault fault_of_waits(const Work& work) {
  for (const NativeWait& wait : work.native) {
    if (wait.foreign != nullptr) wait.foreign->happened();
    const Status status = wait.timeline->wait(wait.signalled, UINT64_MAX);
    if (!status.ok() && !wait.timeline->reached(wait.wanted)) return fault_of(status.code());
  }
  return {};
}

}  // namespace

void Line::complete(const WorkRef& work) {
  Runtime& runtime = *device_.runtime;
  Fault fault;
  try {
    const Current current(runtime);
    std::vector<kernelgen::KernelTime> times;
    Status status = current.status();
    if (status.ok()) status = runtime.event_synchronize(work->end->handle());
    if (status.ok()) status = times_of(runtime, *work, &times);
    fault = status.ok() ? fault_of_waits(*work) : fault_of(status.code());
    if (!status.ok()) (void)wait_out(runtime, stream_);
    if (fault.ok() && work->done) fault.code = work->done(times, &fault.text);
  } catch (const std::bad_alloc&) {
    fault = shortage();
  }
  settle(*work, fault);
}

void Line::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !submitted_.empty(); });
    if (submitted_.empty()) return;
    WorkRef work = std::move(submitted_.front());
    submitted_.pop_front();
    lock.unlock();
    complete(work);
    lock.lock();
  }
}

// ---- Work ----

// One wait of held work, which its fence ends. The line, of which the queue has the last reference,
// is not stopped before the gate is gone, and the device not closed before the line is stopped: the
// end of work needs both, also of work whose submission failed after its waits. No caller waits for
// that.
class Gate {
 public:
  explicit Gate(WorkRef work) : line_(*work->line), work_(std::move(work)) { line_.add_gate(); }
  Gate(const Gate&) = delete;
  ~Gate() { go(); }  // if the fence was destroyed, it has not called

  static void open(void* self, const Fault& fault) {
    Gate& gate = *static_cast<Gate*>(self);
    Work& work = *gate.work_;
    if (!fault.ok()) {
      const std::lock_guard lock(work.mutex);
      if (work.fault.ok()) work.fault = fault;
    }
    if (--work.waits == 0) gate.line_.advance();
    gate.go();
  }

 private:
  void go() {
    if (work_ == nullptr) return;
    work_.reset();
    line_.drop_gate();
  }

  Line& line_;
  WorkRef work_;
};

void wait_for(std::span<const tenon_fence_point_t> points, const WorkRef& work) {
  Device& device = work->line->device();
  work->held = work->line->holds();
  std::vector<tenon_fence_point_t> open;
  for (const tenon_fence_point_t& point : points) {
    if (point.fence == nullptr || fence_of(point.fence)->timeline.reached(point.value)) continue;
    Fence& fence = *fence_of(point.fence);
    if (fence.foreign != nullptr && fence.foreign->stands_for(point.value)) {
      work->native.push_back({fence.kept, point.value, point.value, nullptr, fence.foreign});
      work->commands.push_back([line = work->line.get(), foreign = fence.foreign] {
        return foreign->wait_on(*line->device().runtime, line->stream());
      });
      continue;
    }
    const Fence::Point submitted = fence.point_for(point.value, &device);
    if (submitted.event == nullptr) {
      open.push_back(point);
      continue;
    }
    work->native.push_back({fence.kept, point.value, submitted.value, submitted.event});
    work->commands.push_back([line = work->line.get(), event = submitted.event->handle()] {
      return line->device().runtime->stream_wait(line->stream(), event);
    });
  }
  if (open.empty()) return;
  work->held = true;
  work->waits = static_cast<uint32_t>(open.size());
  for (const tenon_fence_point_t& point : open) {
    auto gate = std::make_shared<Gate>(work);
    Gate* const self = gate.get();
    fence_of(point.fence)->timeline.when(point.value, Gate::open, self, std::move(gate));
  }
}

Status put(Work& work, Command command) {
  work.commands.push_back(std::move(command));
  if (work.held) return {};
  return work.line->attempt([&] { return work.line->issue(work); }).tell();
}

Status finish(const WorkRef& work) {
  Line& line = *work->line;
  if (work->held) {
    line.hold(work);
    return {};
  }
  {
    const std::lock_guard lock(line.mutex_);
    ++line.in_flight_;
  }
  const Fault fault = line.attempt([&]() -> Status {
    TENON_TRY(line.issue(*work));
    return line.submit(work);
  });
  if (fault.ok()) return {};
  const std::lock_guard lock(line.mutex_);
  if (--line.in_flight_ == 0) line.changed_.notify_all();
  return fault.tell();
}

// ---- The table ----

namespace {

struct Queue {
  Device* device;
  std::shared_ptr<Line> line;
};
Queue* queue_of(tenon_queue_t* q) {
  return reinterpret_cast<Queue*>(q);
}

// Hands out a queue on a line that may have failed to start.
Status give_queue(Device& device, std::shared_ptr<Line> line, const Status& status,
                  tenon_queue_t** out) {
  auto queue = std::make_unique<Queue>(Queue{&device, std::move(line)});
  if (!status.ok()) {
    const Fault fault = fault_of(status.code());
    queue->line->stop();
    return fault.tell();
  }
  const std::lock_guard lock(device.mutex);
  device.lines.push_back(queue->line);
  *out = reinterpret_cast<tenon_queue_t*>(queue.release());
  return {};
}

Status queue_create(void*, tenon_device_t* d, tenon_queue_t** out) {
  Device& device = *device_of(d);
  const Current current(*device.runtime);
  TENON_TRY(current.status());
  Status status;
  auto line = std::make_shared<Line>(device, &status);
  return give_queue(device, std::move(line), status, out);
}

Status queue_destroy(void*, tenon_queue_t* q) {
  const std::unique_ptr<Queue> queue(queue_of(q));
  queue->line->stop();
  const std::lock_guard lock(queue->device->mutex);
  std::erase(queue->device->lines, queue->line);
  return {};
}

Status copy_async(void*, tenon_queue_t* q, const tenon_copy_t* copy,
                  const tenon_fence_point_t* waits, uint32_t wait_count,
                  tenon_fence_point_t signal) {
  Queue& queue = *queue_of(q);
  tenon_copy_t own;
  TENON_TRY(take_copy(copy, &own));
  TENON_TRY(check_copy(own));
  const Current current(*queue.device->runtime);
  TENON_TRY(current.status());
  auto work = std::make_shared<Work>(queue.line);
  work->signal = signal;
  wait_for({waits, wait_count}, work);
  TENON_TRY(put(*work, [line = queue.line.get(), own] {
    return enqueue_copy(*line->device().runtime, line->stream(), own);
  }));
  return finish(work);
}

Status reaches(void*, tenon_queue_t* q, tenon_device_t* from, uint32_t* out) {
  Runtime& runtime = *queue_of(q)->device->runtime;
  const Current current(runtime);
  TENON_TRY(current.status());
  bool yes = false;
  TENON_TRY(runtime.reaches(*device_of(from)->runtime, &yes));
  *out = yes;
  return {};
}

Status fence_create(void*, tenon_device_t* d, uint64_t initial, tenon_fence_t** out) {
  *out = reinterpret_cast<tenon_fence_t*>(new Fence(initial, device_of(d)));
  return {};
}

Status fence_destroy(void*, tenon_fence_t* fence) {
  delete fence_of(fence);
  return {};
}

Status fence_query(void*, tenon_fence_t* fence, uint64_t* out_value) {
  return fence_of(fence)->query(out_value);
}

Status fence_signal(void*, tenon_fence_t* fence, uint64_t value) {
  return fence_of(fence)->signal(value);
}

Status fence_wait(void*, tenon_fence_t* fence, uint64_t value, uint64_t timeout_ns) {
  return fence_of(fence)->wait(value, timeout_ns);
}

}  // namespace

std::shared_ptr<Line> line_of(tenon_queue_t* queue) {
  return queue_of(queue)->line;
}

Status queue_on_stream(Device& device, StreamHandle stream, tenon_queue_t** out) {
  Status status;
  auto line = std::make_shared<Line>(device, stream, &status);
  return give_queue(device, std::move(line), status, out);
}

const tenon_queue_api_t kQueueTable = {sizeof(tenon_queue_api_t),
                                       nullptr,
                                       entry<queue_create>,
                                       entry<queue_destroy>,
                                       entry<copy_async>,
                                       entry<fence_create>,
                                       entry<fence_destroy>,
                                       entry<fence_query>,
                                       entry<fence_signal>,
                                       entry<fence_wait>,
                                       entry<reaches>};

}  // namespace tenon::stream
