// tenon.queue/1: command queues in order, fences as timelines in host memory. A wait for a value that is not reached yet becomes a user
// event, which the timeline sets; the end of work becomes a marker, whose callback signals the timeline. No thread of ours, and the host
// does not wait for anything.
#include "submission.h"

namespace opencl_sample {

using tenon::cat;
using tenon::Fault;
using tenon::Status;

Work::~Work() {
  for (cl_event event : timed) line->cl->clReleaseEvent(event);
}

namespace {

// One wait of one piece of work.
struct Gate {
  const Functions* cl;
  cl_event event;
  std::shared_ptr<Work> work;
};

void open_gate(void* self, const Fault& fault) {
  const std::unique_ptr<Gate> gate(static_cast<Gate*>(self));
  if (!fault.ok()) {
    const std::lock_guard lock(gate->work->mutex);
    if (gate->work->fault.ok()) gate->work->fault = fault;
  }
  gate->cl->clSetUserEventStatus(gate->event, fault.ok() ? CL_COMPLETE : -1);
  gate->cl->clReleaseEvent(gate->event);
}

Fault outcome_of(Work& work, cl_int status) {
  {
    const std::lock_guard lock(work.mutex);
    if (!work.fault.ok()) return work.fault;
  }
  if (status < 0) return {TENON_ABORTED, cat("opencl: work on the queue was given up (", status, ")")};
  Fault fault;
  fault.code = work.done ? work.done(work.timed, &fault.text) : TENON_OK;
  return fault;
}

void CL_CALLBACK finished(cl_event event, cl_int status, void* self) {
  const std::unique_ptr<std::shared_ptr<Work>> held(static_cast<std::shared_ptr<Work>*>(self));
  Work& work = **held;
  const Fault fault = outcome_of(work, status);
  work.line->cl->clReleaseEvent(event);
  // Who waits for the signal may destroy the fence, who waits for the line may destroy the line: neither is touched afterwards.
  if (work.signal.fence != nullptr) {
    fault.ok() ? fence_of(work.signal.fence)->signal(work.signal.value) : fence_of(work.signal.fence)->fail(work.signal.value, fault);
  }
  for (cl_event e : std::exchange(work.timed, {})) work.line->cl->clReleaseEvent(e);
  work.line->end(work.waited_for ? Fault() : fault);
}

}  // namespace

Status wait_for(Device& device, Line& line, std::span<const tenon_fence_point_t> points, const std::shared_ptr<Work>& work) {
  const Functions& cl = *line.cl;
  std::vector<cl_event> events;
  std::vector<std::pair<tenon_fence_point_t, Gate*>> gates;
  cl_int code = CL_SUCCESS;
  for (const tenon_fence_point_t& point : points) {
    if (point.fence == nullptr || fence_of(point.fence)->reached(point.value)) continue;
    const cl_event event = cl.clCreateUserEvent(device.context, &code);
    if (code != CL_SUCCESS) break;
    events.push_back(event);
    gates.push_back({point, new Gate{&cl, event, work}});
  }
  if (code == CL_SUCCESS && !events.empty()) {
    code = cl.clEnqueueBarrierWithWaitList(line.queue, static_cast<cl_uint>(events.size()), events.data(), nullptr);
  }
  for (const auto& [point, gate] : gates) {
    code == CL_SUCCESS ? fence_of(point.fence)->when(point.value, open_gate, gate) : open_gate(gate, {});
  }
  return check(code, "waiting for fences");
}

Status signal_after(const std::shared_ptr<Work>& work) {
  Line& line = *work->line;
  const Functions& cl = *line.cl;
  cl_event event = nullptr;
  TENON_TRY(check(cl.clEnqueueMarkerWithWaitList(line.queue, 0, nullptr, &event), "marking the end of work"));
  line.begin();
  auto held = std::make_unique<std::shared_ptr<Work>>(work);
  const cl_int code = cl.clSetEventCallback(event, CL_COMPLETE, finished, held.get());
  if (code != CL_SUCCESS) {
    cl.clFinish(line.queue);
    cl.clReleaseEvent(event);
    line.end({});
    return check(code, "asking for the end of work");
  }
  (void)held.release();
  cl.clFlush(line.queue);  // the callback tells how it went
  return {};
}

namespace {

Status queue_create(void*, tenon_device_t* d, tenon_queue_t** out) {
  Device& device = *device_of(d);
  cl_int code = CL_SUCCESS;
  auto queue = std::make_unique<Queue>(&device, std::make_shared<Line>(device.cl, device.context, device.found->id, &code));
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

Status copy_async(void*, tenon_queue_t* q, const tenon_copy_t* copy, const tenon_fence_point_t* waits, uint32_t wait_count,
                  tenon_fence_point_t signal) {
  Queue& queue = *queue_of(q);
  TENON_TRY(check_copy(*copy));
  auto work = std::make_shared<Work>();
  work->line = queue.line.get();
  work->signal = signal;
  TENON_TRY(wait_for(*queue.device, *queue.line, {waits, wait_count}, work));
  TENON_TRY(enqueue_copy(*queue.line, *copy, false));
  return signal_after(work);
}

Status fence_create(void*, tenon_device_t*, uint64_t initial, tenon_fence_t** out) {
  *out = reinterpret_cast<tenon_fence_t*>(new tenon::Timeline(initial));
  return {};
}

Status fence_destroy(void*, tenon_fence_t* fence) {
  delete fence_of(fence);
  return {};
}

Status fence_query(void*, tenon_fence_t* fence, uint64_t* out_value) { return fence_of(fence)->query(out_value); }

Status fence_signal(void*, tenon_fence_t* fence, uint64_t value) {
  fence_of(fence)->signal(value);
  return {};
}

Status fence_wait(void*, tenon_fence_t* fence, uint64_t value, uint64_t timeout_ns) { return fence_of(fence)->wait(value, timeout_ns); }

}  // namespace

const tenon_queue_api_t kQueueTable = {
    sizeof(tenon_queue_api_t),   nullptr,
    tenon::entry<queue_create>,  tenon::entry<queue_destroy>, tenon::entry<copy_async>,   tenon::entry<fence_create>,
    tenon::entry<fence_destroy>, tenon::entry<fence_query>,   tenon::entry<fence_signal>, tenon::entry<fence_wait>};

}  // namespace opencl_sample
