// tenon.queue/1: in-order command queues, and fences as timelines in host memory that know the ends
// of work that is with the driver. Work that waits for such an end goes to the driver at once,
// after a barrier with the events; work that waits for anything else is held until its fences call
// back. The callback of a marker after the work signals. No thread of our own; the host waits for
// nothing.
#include <algorithm>
#include <iterator>

#include <tenon/cpp/copy.hpp>

#include "submission.h"

namespace opencl_sample {

using tenon::cat;
using tenon::Fault;
using tenon::Status;

Work::~Work() {
  for (cl_event event : timed) line.cl->clReleaseEvent(event);
}

namespace {

Fault fault_of_waits(Work& work) {
  const std::lock_guard lock(work.mutex);
  return work.fault;
}

// The waiter may destroy the fence, so it is not touched after the signal.
void report(Work& work, const Fault& fault) {
  for (cl_event e : std::exchange(work.timed, {})) work.line.cl->clReleaseEvent(e);
  if (work.signal.fence != nullptr) fence_of(work.signal.fence)->done(work.signal.value, fault);
  work.line.end();
}

void report_if_ready(Work& work) {
  if (--work.waits != 0) return;
  work.ready = true;
  work.line.report_ended();
}

// Called when the end of work that the driver waited for has been reported.
struct WaitEnd {
  std::shared_ptr<Work> work;
  size_t wait;
};
void wait_ended(void* self, const Fault& fault) {
  const std::unique_ptr<WaitEnd> end(static_cast<WaitEnd*>(self));
  Work& work = *end->work;
  const NativeWait& wait = work.native[end->wait];
  if (!fault.ok() && !wait.fence->reached(wait.wanted)) {
    const std::lock_guard lock(work.mutex);
    if (work.fault.ok()) work.fault = fault;
  }
  report_if_ready(work);
}

// A fault of what it waited for says more than that the driver gave it up. Ends of other queues may
// call back later than this one, which waits for them without a thread.
void CL_CALLBACK finished(cl_event event, cl_int status, void* self) {
  const std::unique_ptr<std::shared_ptr<Work>> held(static_cast<std::shared_ptr<Work>*>(self));
  Work& work = **held;
  work.line.cl->clReleaseEvent(event);
  work.status = status;
  work.ended = true;
  work.waits = static_cast<uint32_t>(work.native.size()) + 1;
  for (size_t i = 0; i < work.native.size(); ++i)
    work.native[i].fence->when(work.native[i].signalled, wait_ended, new WaitEnd{*held, i});
  report_if_ready(work);
}

Fault fault_of_run(Work& work) {
  Fault fault = fault_of_waits(work);
  if (!fault.ok()) return fault;
  if (work.status < 0)
    return {TENON_ABORTED, cat("opencl: work on the queue was given up (", work.status, ")")};
  if (work.done) fault.code = work.done(work.timed, &fault.text);
  return fault;
}

Status issue(Work& work) {
  for (const Command& command : std::exchange(work.commands, {})) TENON_TRY(command());
  return {};
}

// Puts the marker after submitted commands, which are already in flight.
Status mark_end(const std::shared_ptr<Work>& work) {
  Line& line = work->line;
  const Functions& cl = *line.cl;
  cl_event event = nullptr;
  TENON_TRY(check(cl.clEnqueueMarkerWithWaitList(line.queue, 0, nullptr, &event),
                  "marking the end of work"));
  // Both may be gone as soon as the callback can come.
  const EventRef end(&cl, event);
  const std::shared_ptr<Fence> fence =
      work->signal.fence != nullptr ? *shared_fence_of(work->signal.fence) : nullptr;
  auto held = std::make_unique<std::shared_ptr<Work>>(work);
  line.marked(work);
  const cl_int code = cl.clSetEventCallback(event, CL_COMPLETE, finished, held.get());
  if (code != CL_SUCCESS) {
    cl.clFinish(line.queue);
    cl.clReleaseEvent(event);
    line.unmarked(work);
    return check(code, "asking for the end of work");
  }
  (void)held.release();
  if (fence != nullptr) fence->will_signal(*work, end.get());
  cl.clFlush(line.queue);  // the callback reports the result
  return {};
}

void open_gate(void* self, const Fault& fault) {
  const std::unique_ptr<std::shared_ptr<Work>> held(static_cast<std::shared_ptr<Work>*>(self));
  Work& work = **held;
  if (!fault.ok()) {
    const std::lock_guard lock(work.mutex);
    if (work.fault.ok()) work.fault = fault;
  }
  if (--work.waits == 0) work.line.advance();
}

}  // namespace

// ---- Fences ----

Fence::Point Fence::point_for(uint64_t value, cl_context context) {
  const std::lock_guard lock(mutex);
  const Point* best = nullptr;
  for (const Point& p : points) {
    if (p.context == context && p.value >= value && (best == nullptr || p.value < best->value))
      best = &p;
  }
  return best == nullptr ? Point() : *best;
}

// `done` comes after `ended`, and takes the lock: it finds what is added here.
void Fence::will_signal(const Work& work, cl_event end) {
  const std::lock_guard lock(mutex);
  if (!work.ended)
    points.push_back({work.signal.value, work.line.context, EventRef(work.line.cl, end)});
}

void Fence::done(uint64_t value, const Fault& fault) {
  std::vector<Point> forgotten;  // events are released without the lock
  {
    const std::lock_guard lock(mutex);
    const auto keep = std::partition(points.begin(), points.end(),
                                     [&](const Point& p) { return p.value != value; });
    std::move(keep, points.end(), std::back_inserter(forgotten));
    points.erase(keep, points.end());
  }
  fault.ok() ? signal(value) : fail(value, fault);
}

// ---- Lines ----

void Line::marked(const std::shared_ptr<Work>& work) {
  const std::lock_guard lock(mutex_);
  marked_.push_back(work);
}

void Line::unmarked(const std::shared_ptr<Work>& work) {
  {
    const std::lock_guard lock(mutex_);
    std::erase(marked_, work);
  }
  report_ended();
}

// One thread at a time, without holding a lock, and in the order of the queue: a driver may call
// back in another one, and whatever waits for a later value of a fence must get an earlier failure.
void Line::report_ended() {
  const std::shared_ptr<Line> alive = shared_from_this();  // a waiter may destroy the queue
  std::unique_lock lock(mutex_);
  if (std::exchange(reporting_, true)) return;
  while (!marked_.empty() && marked_.front()->ready) {
    const std::shared_ptr<Work> work = std::move(marked_.front());
    marked_.pop_front();
    lock.unlock();
    report(*work, fault_of_run(*work));
    lock.lock();
  }
  reporting_ = false;
}

bool Line::holds() {
  const std::lock_guard lock(mutex_);
  return !held_.empty();
}

void Line::hold(std::shared_ptr<Work> work) {
  {
    const std::lock_guard lock(mutex_);
    held_.push_back(std::move(work));
  }
  advance();
}

// One thread at a time submits held work, without holding a lock: a driver may call back from
// within, for work that is already done. A thread that finds another one submitting leaves its own
// work, which is ready, to that one.
void Line::advance() {
  std::vector<std::pair<std::shared_ptr<Work>, Fault>> failed;
  std::unique_lock lock(mutex_);
  if (std::exchange(advancing_, true)) return;
  while (!held_.empty() && held_.front()->waits == 0) {
    const std::shared_ptr<Work> work = held_.front();
    lock.unlock();
    Fault fault = fault_of_waits(*work);
    Status status;
    if (fault.ok()) status = issue(*work);
    if (status.ok() && fault.ok()) status = mark_end(work);
    if (!status.ok()) fault = tenon::fault_of(status.code());
    if (!fault.ok()) failed.push_back({work, fault});
    lock.lock();
    held_.pop_front();
  }
  advancing_ = false;
  lock.unlock();
  for (const auto& [work, fault] : failed) report(*work, fault);
}

namespace {

// The driver copies the list.
Status wait_natively(const Work& work) {
  std::vector<cl_event> events;
  for (const NativeWait& wait : work.native) events.push_back(wait.end.get());
  return check(work.line.cl->clEnqueueBarrierWithWaitList(
                   work.line.queue, static_cast<cl_uint>(events.size()), events.data(), nullptr),
               "waiting for other work");
}

}  // namespace

void wait_for(std::span<const tenon_fence_point_t> points, const std::shared_ptr<Work>& work) {
  work->held = work->line.holds();
  std::vector<tenon_fence_point_t> open;
  for (const tenon_fence_point_t& point : points) {
    if (point.fence == nullptr || fence_of(point.fence)->reached(point.value)) continue;
    const Fence::Point submitted =
        fence_of(point.fence)->point_for(point.value, work->line.context);
    if (submitted.end.get() == nullptr) {
      open.push_back(point);
    } else {
      work->native.push_back(
          {*shared_fence_of(point.fence), point.value, submitted.value, submitted.end});
    }
  }
  if (!work->native.empty())
    work->commands.push_back([of = work.get()] { return wait_natively(*of); });
  if (open.empty()) return;
  work->held = true;
  work->waits = static_cast<uint32_t>(open.size());
  for (const tenon_fence_point_t& point : open)
    fence_of(point.fence)->when(point.value, open_gate, new std::shared_ptr<Work>(work));
}

Status put(Work& work, Command command) {
  work.commands.push_back(std::move(command));
  return work.held ? Status() : issue(work);
}

Status signal_after(const std::shared_ptr<Work>& work) {
  work->line.begin();
  if (work->held) {
    work->line.hold(work);
    return {};
  }
  Status status = issue(*work);
  if (status.ok()) status = mark_end(work);
  if (!status.ok()) work->line.end();
  return status;
}

namespace {

Status queue_create(void*, tenon_device_t* d, tenon_queue_t** out) {
  Device& device = *device_of(d);
  cl_int code = CL_SUCCESS;
  auto queue = std::make_unique<Queue>(
      &device, std::make_shared<Line>(device.cl, device.context, device.found->id, &code));
  TENON_TRY(check(code, "making a queue"));
  const std::lock_guard lock(device.mutex);
  device.lines.push_back(queue->line);
  *out = reinterpret_cast<tenon_queue_t*>(queue.release());
  return {};
}

Status queue_destroy(void*, tenon_queue_t* q) {
  const std::unique_ptr<Queue> queue(queue_of(q));
  queue->line->wait_idle();
  const std::lock_guard lock(queue->device->mutex);
  std::erase(queue->device->lines, queue->line);
  return {};
}

Status copy_async(void*, tenon_queue_t* q, const tenon_copy_t* copy,
                  const tenon_fence_point_t* waits, uint32_t wait_count,
                  tenon_fence_point_t signal) {
  Queue& queue = *queue_of(q);
  tenon_copy_t own{};
  TENON_TRY(tenon::take_copy(copy, &own));
  TENON_TRY(check_copy(own));
  auto work = std::make_shared<Work>(queue.line);
  work->signal = signal;
  wait_for({waits, wait_count}, work);
  TENON_TRY(put(*work, [&line = *queue.line, own] { return enqueue_copy(line, own, false); }));
  return signal_after(work);
}

Status fence_create(void*, tenon_device_t* d, uint64_t initial, tenon_fence_t** out) {
  auto fence = std::make_shared<Fence>(device_of(d), initial);
  *out = reinterpret_cast<tenon_fence_t*>(new std::shared_ptr<Fence>(std::move(fence)));
  return {};
}

Status fence_destroy(void*, tenon_fence_t* fence) {
  delete shared_fence_of(fence);
  return {};
}

Status fence_query(void*, tenon_fence_t* fence, uint64_t* out_value) {
  return fence_of(fence)->query(out_value);
}

Status fence_signal(void*, tenon_fence_t* fence, uint64_t value) {
  fence_of(fence)->signal(value);
  return {};
}

Status fence_wait(void*, tenon_fence_t* fence, uint64_t value, uint64_t timeout_ns) {
  return fence_of(fence)->wait(value, timeout_ns);
}

}  // namespace

const tenon_queue_api_t kQueueTable = {sizeof(tenon_queue_api_t),   nullptr,
                                       tenon::entry<queue_create>,  tenon::entry<queue_destroy>,
                                       tenon::entry<copy_async>,    tenon::entry<fence_create>,
                                       tenon::entry<fence_destroy>, tenon::entry<fence_query>,
                                       tenon::entry<fence_signal>,  tenon::entry<fence_wait>};

}  // namespace opencl_sample
