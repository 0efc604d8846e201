// tenon.exchange/1: memory objects, queues and events of other users of OpenCL. They are of one
// context, which CL_MEM_CONTEXT gives for any exported object.
#include <memory>

#include "device.h"

namespace opencl_sample {
namespace {

using tenon::cat;
using tenon::fail;
using tenon::Status;

constexpr std::string_view kMemory = "opencl.mem", kStream = "opencl.queue",
                           kFence = "opencl.event";

Status check_kind(tenon_str_t kind, std::string_view known) {
  if (tenon::view(kind) == known) return {};
  return fail(TENON_UNIMPLEMENTED,
              cat("opencl: there are no such handles of the kind \"", tenon::view(kind), "\""));
}

// The object behind a handle, which is its address.
template <class Object>
Status object_of(uint64_t handle, Object* out) {
  *out = reinterpret_cast<Object>(static_cast<uintptr_t>(handle));
  return *out != nullptr ? Status() : fail(TENON_INVALID_ARGUMENT, "opencl: 0 is not a handle");
}

Status kinds(void*, uint32_t, tenon_str_t* out) {
  *out = tenon::str(kMemory);
  return {};
}

Status check_object(const Device& device, cl_mem object, const tenon_native_memory_t& wanted) {
  cl_context context = nullptr;
  size_t bytes = 0;
  TENON_TRY(check(
      device.cl->clGetMemObjectInfo(object, CL_MEM_CONTEXT, sizeof context, &context, nullptr),
      "asking for a memory object's context"));
  if (context != device.context)
    return fail(TENON_INVALID_ARGUMENT, "opencl: the memory object is of another context");
  TENON_TRY(check(device.cl->clGetMemObjectInfo(object, CL_MEM_SIZE, sizeof bytes, &bytes, nullptr),
                  "asking for a memory object's size"));
  if (wanted.offset_bytes > bytes || wanted.length_bytes > bytes - wanted.offset_bytes) {
    return fail(TENON_OUT_OF_RANGE,
                cat("opencl: bytes [", wanted.offset_bytes, ", ", wanted.offset_bytes, " + ",
                    wanted.length_bytes, ") of a memory object of ", bytes, " bytes"));
  }
  return {};
}

Status import_memory(void*, tenon_device_t* d, const tenon_native_memory_t* memory,
                     tenon_buffer_t** out) {
  Device& device = *device_of(d);
  const Functions& cl = *device.cl;
  TENON_TRY(check_kind(memory->kind, kMemory));
  cl_mem object = nullptr;
  TENON_TRY(object_of(memory->handle, &object));
  TENON_TRY(check_object(device, object, *memory));
  auto buffer = std::make_unique<Buffer>();
  buffer->size_bytes = memory->length_bytes;
  buffer->imported = true;
  if (memory->offset_bytes == 0) {
    TENON_TRY(check(cl.clRetainMemObject(object), "keeping a memory object"));
    buffer->memory = object;
  } else {
    const cl_buffer_region region = {memory->offset_bytes,
                                     memory->length_bytes == 0 ? 1 : memory->length_bytes};
    cl_int code = CL_SUCCESS;
    buffer->memory = cl.clCreateSubBuffer(object, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION,
                                          &region, &code);
    if (code == CL_MISALIGNED_SUB_BUFFER_OFFSET) {
      return fail(TENON_UNIMPLEMENTED, cat("opencl: the offset ", memory->offset_bytes,
                                           " is not a multiple of ", alignment_of(*device.found)));
    }
    TENON_TRY(check(code, "making a part of a memory object"));
  }
  *out = reinterpret_cast<tenon_buffer_t*>(buffer.release());
  return {};
}

Status export_memory(void*, tenon_device_t*, tenon_buffer_t* b, tenon_str_t kind,
                     tenon_native_memory_t* out) {
  TENON_TRY(check_kind(kind, kMemory));
  tenon_native_memory_t made = {};
  made.kind = tenon::str(kMemory);
  made.handle = reinterpret_cast<uintptr_t>(buffer_of(b)->memory);
  made.length_bytes = buffer_of(b)->size_bytes;
  return tenon::give_record(out, made);
}

Status queue_kinds(void*, uint32_t, tenon_str_t* out_streams, tenon_str_t* out_fences) {
  *out_streams = tenon::str(kStream);
  *out_fences = tenon::str(kFence);
  return {};
}

// In order, and of this device: what is put there then runs after what was there.
Status check_stream(const Device& device, cl_command_queue stream) {
  cl_context context = nullptr;
  cl_device_id id = nullptr;
  cl_command_queue_properties properties = 0;
  const auto ask = [&](cl_command_queue_info what, auto* out) {
    return check(device.cl->clGetCommandQueueInfo(stream, what, sizeof *out, out, nullptr),
                 "asking about a queue");
  };
  TENON_TRY(ask(CL_QUEUE_CONTEXT, &context));
  TENON_TRY(ask(CL_QUEUE_DEVICE, &id));
  TENON_TRY(ask(CL_QUEUE_PROPERTIES, &properties));
  if (context != device.context || id != device.found->id)
    return fail(TENON_INVALID_ARGUMENT, "opencl: the queue is of another context or device");
  if ((properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) != 0)
    return fail(TENON_UNIMPLEMENTED, "opencl: the queue runs out of order");
  return {};
}

Status import_queue(void*, tenon_device_t* d, const tenon_native_handle_t* native,
                    tenon_queue_t** out) {
  Device& device = *device_of(d);
  cl_command_queue stream = nullptr;
  TENON_TRY(check_kind(native->kind, kStream));
  TENON_TRY(object_of(native->handle, &stream));
  TENON_TRY(check_stream(device, stream));
  auto queue =
      std::make_unique<Queue>(&device, std::make_shared<Line>(device.cl, device.context, stream));
  if (queue->line->queue == nullptr)
    return fail(TENON_RESOURCE_EXHAUSTED, "opencl: the queue cannot be kept");
  const std::lock_guard lock(device.mutex);
  device.lines.push_back(queue->line);
  *out = reinterpret_cast<tenon_queue_t*>(queue.release());
  return {};
}

Status export_queue(void*, tenon_queue_t* queue, tenon_str_t kind, tenon_native_handle_t* out) {
  TENON_TRY(check_kind(kind, kStream));
  tenon_native_handle_t made = {};
  made.kind = tenon::str(kStream);
  made.flags = queue_of(queue)->line->holds() ? 0 : TENON_NATIVE_ALL_THERE;
  made.handle = reinterpret_cast<uintptr_t>(queue_of(queue)->line->queue);
  return tenon::give_record(out, made);
}

struct Awaited {
  const Functions* cl;
  std::weak_ptr<Fence> fence;
};

void CL_CALLBACK came(cl_event event, cl_int status, void* self) {
  const std::unique_ptr<Awaited> awaited(static_cast<Awaited*>(self));
  awaited->cl->clReleaseEvent(event);
  const std::shared_ptr<Fence> fence = awaited->fence.lock();
  if (fence == nullptr) return;
  status >= 0 ? fence->signal(1)
              : fence->fail(1, {TENON_ABORTED, cat("opencl: an event failed (", status, ")")});
}

Status wait_for_event(cl_event event, const std::shared_ptr<Fence>& fence) {
  const Functions& cl = *fence->device->cl;
  TENON_TRY(check(cl.clRetainEvent(event), "keeping an event"));
  auto awaited = std::make_unique<Awaited>(&cl, fence);
  const cl_int code = cl.clSetEventCallback(event, CL_COMPLETE, came, awaited.get());
  if (code == CL_SUCCESS) {
    (void)awaited.release();
  } else {
    cl.clReleaseEvent(event);
  }
  return check(code, "asking for an event's end");
}

// Only user events are signalled by others than the driver.
Status signal_event(cl_event event, Fence& fence) {
  const Functions& cl = *fence.device->cl;
  cl_command_type type = 0;
  TENON_TRY(check(cl.clGetEventInfo(event, CL_EVENT_COMMAND_TYPE, sizeof type, &type, nullptr),
                  "asking for an event's type"));
  if (type != CL_COMMAND_USER)
    return fail(TENON_INVALID_ARGUMENT, "opencl: only a user event can be signalled");
  TENON_TRY(check(cl.clRetainEvent(event), "keeping an event"));
  fence.set_event(event, 1);
  return {};
}

Status import_fence(void*, tenon_device_t* d, const tenon_native_handle_t* native,
                    tenon_fence_point_t* out) {
  Device& device = *device_of(d);
  cl_event event = nullptr;
  cl_context context = nullptr;
  TENON_TRY(check_kind(native->kind, kFence));
  TENON_TRY(object_of(native->handle, &event));
  TENON_TRY(
      check(device.cl->clGetEventInfo(event, CL_EVENT_CONTEXT, sizeof context, &context, nullptr),
            "asking for an event's context"));
  if (context != device.context)
    return fail(TENON_INVALID_ARGUMENT, "opencl: the event is of another context");
  auto fence = std::make_shared<Fence>(&device, 0);
  TENON_TRY((native->flags & TENON_NATIVE_TO_SIGNAL) != 0 ? signal_event(event, *fence)
                                                          : wait_for_event(event, fence));
  out->value = 1;
  out->fence = reinterpret_cast<tenon_fence_t*>(new std::shared_ptr<Fence>(std::move(fence)));
  return {};
}

}  // namespace

void FollowingEvent::settle(void* self, const tenon::Fault& fault) {
  auto& follower = *static_cast<FollowingEvent*>(self);
  constexpr cl_int kFailed = -1;
  follower.cl_->clSetUserEventStatus(follower.event_, fault.ok() ? CL_COMPLETE : kFailed);
}

void Fence::set_event(cl_event event, uint64_t value) {
  const auto follower = std::make_shared<FollowingEvent>(device->cl, event);
  when(value, FollowingEvent::settle, follower.get(), follower);
}

const tenon_exchange_api_t kExchangeTable = {
    sizeof(tenon_exchange_api_t), nullptr,
    tenon::entry<kinds>,          tenon::entry<import_memory>,
    tenon::entry<export_memory>,  tenon::entry<queue_kinds>,
    tenon::entry<import_queue>,   tenon::entry<export_queue>,
    tenon::entry<import_fence>};

}  // namespace opencl_sample
