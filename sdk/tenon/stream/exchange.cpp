// tenon.exchange/1 for devices on streams.
#include <memory>

#include "tenon/cpp/plugin.hpp"
#include "tenon/stream/device.h"

namespace tenon::stream {
namespace {

const ExchangeKinds& kinds_of(void* self) {
  return *static_cast<const ExchangeKinds*>(self);
}
std::string_view kind_of(void* self) {
  return kinds_of(self).memory;
}

Status check_kind(std::string_view known, const Device& device, tenon_str_t kind) {
  if (view(kind) == known) return {};
  return fail(TENON_UNIMPLEMENTED,
              cat(device.name, ": there are no such handles of the kind \"", view(kind), "\""));
}

tenon_code_t kinds(void* self, uint32_t, tenon_str_t* out) {
  *out = str(kind_of(self));
  return TENON_OK;
}

// Kernels read and write whole elements, and an access that is not aligned ends the context, which
// other libraries use too. Vectors of 16 bytes are the widest.
constexpr uint64_t kAdoptedAlignmentBytes = 16;

Status check_range(Device& device, Address base, const tenon_native_memory_t& memory) {
  const Address begin = base + memory.offset_bytes;
  if (begin < base || begin + memory.length_bytes < begin)
    return fail(TENON_OUT_OF_RANGE, cat(device.name, ": the range wraps around"));
  TENON_TRY(device.runtime->check_memory(begin, memory.length_bytes));
  if (begin % kAdoptedAlignmentBytes == 0) return {};
  return fail(TENON_UNIMPLEMENTED,
              cat(device.name, ": memory that begins ", begin % kAdoptedAlignmentBytes,
                  " bytes after a multiple of ", kAdoptedAlignmentBytes, " must be copied"));
}

Status import(void* self, Device& device, const tenon_native_memory_t& memory,
              tenon_buffer_t** out) {
  TENON_TRY(check_kind(kind_of(self), device, memory.kind));
  auto made = std::make_unique<Buffer>(0, memory.length_bytes, true);
  // Other libraries give 0 for the address of nothing.
  if (memory.length_bytes != 0) {
    if (memory.handle == 0)
      return fail(TENON_INVALID_ARGUMENT, cat(device.name, ": the address 0 is none"));
    const Current current(*device.runtime);
    TENON_TRY(current.status());
    Address base = 0;
    TENON_TRY(device.runtime->memory_of(memory.handle, &base));
    if (Status status = check_range(device, base, memory); !status.ok()) {
      device.runtime->memory_leave(base);
      return status;
    }
    made->address = base + memory.offset_bytes;
  }
  *out = reinterpret_cast<tenon_buffer_t*>(made.release());
  return {};
}

tenon_code_t import_memory(void* self, tenon_device_t* d, const tenon_native_memory_t* memory,
                           tenon_buffer_t** out) {
  return detail::guarded(context().host, [&] { return import(self, *device_of(d), *memory, out); });
}

tenon_code_t export_memory(void* self, tenon_device_t* d, tenon_buffer_t* b, tenon_str_t kind,
                           tenon_native_memory_t* out) {
  return detail::guarded(context().host, [&]() -> Status {
    TENON_TRY(check_kind(kind_of(self), *device_of(d), kind));
    tenon_native_memory_t made = {};
    made.kind = str(kind_of(self));
    made.length_bytes = buffer_of(b)->size_bytes;
    if (const Address address = buffer_of(b)->address; address != 0) {
      TENON_TRY(device_of(d)->runtime->memory_handle(address, &made.handle, &made.offset_bytes));
    }
    return give_record(out, made);
  });
}

// ---- Streams ----

tenon_code_t queue_kinds(void* self, uint32_t, tenon_str_t* out_streams, tenon_str_t* out_fences) {
  *out_streams = str(kinds_of(self).stream);
  *out_fences = str(kinds_of(self).event);
  return TENON_OK;
}

// Work that is put on the stream by its owner comes after what the queue has put there.
tenon_code_t import_queue(void* self, tenon_device_t* d, const tenon_native_handle_t* stream,
                          tenon_queue_t** out) {
  return detail::guarded(context().host, [&]() -> Status {
    Device& device = *device_of(d);
    TENON_TRY(check_kind(kinds_of(self).stream, device, stream->kind));
    const auto native = reinterpret_cast<StreamHandle>(stream->handle);
    const Current current(*device.runtime);
    TENON_TRY(current.status());
    TENON_TRY(device.runtime->check_stream(native));
    return queue_on_stream(device, native, out);
  });
}

tenon_code_t export_queue(void* self, tenon_queue_t* queue, tenon_str_t kind,
                          tenon_native_handle_t* out) {
  return detail::guarded(context().host, [&]() -> Status {
    Line& line = *line_of(queue);
    TENON_TRY(check_kind(kinds_of(self).stream, line.device(), kind));
    auto made = sized<tenon_native_handle_t>();
    made.kind = str(kinds_of(self).stream);
    made.flags = line.holds() ? 0 : TENON_NATIVE_ALL_THERE;
    made.handle = reinterpret_cast<uint64_t>(line.stream());
    return give_record(out, made);
  });
}

// ---- Events ----

Status check_event_kind(void* self, const Device& device, tenon_str_t kind) {
  if (!kinds_of(self).event.empty()) return check_kind(kinds_of(self).event, device, kind);
  return fail(TENON_UNIMPLEMENTED,
              cat("there are no fences of the kind \"", view(kind), "\"; give a stream instead"));
}

Status check_event(Device& device, EventHandle event) {
  if (event == nullptr)
    return fail(TENON_INVALID_ARGUMENT, cat(device.name, ": the handle 0 is none of an event"));
  const Current current(*device.runtime);
  TENON_TRY(current.status());
  bool done = false;
  const Status status = device.runtime->event_query(event, &done);
  if (status.ok() || status.code() == TENON_DEVICE_LOST) return status;
  if (status.code() == TENON_UNAVAILABLE)
    return fail(TENON_INVALID_ARGUMENT, fault_of(status.code()).text);
  return fail(
      TENON_INVALID_ARGUMENT,
      cat(device.name, ": the handle is not one of an event: ", fault_of(status.code()).text));
}

tenon_code_t import_fence(void* self, tenon_device_t* d, const tenon_native_handle_t* native,
                          tenon_fence_point_t* out) {
  return detail::guarded(context().host, [&]() -> Status {
    Device& device = *device_of(d);
    TENON_TRY(check_event_kind(self, device, native->kind));
    const auto event = reinterpret_cast<EventHandle>(native->handle);
    TENON_TRY(check_event(device, event));
    auto fence = std::make_unique<Fence>(0, &device);
    fence->follow(event, (native->flags & TENON_NATIVE_TO_SIGNAL) != 0);
    *out = {reinterpret_cast<tenon_fence_t*>(fence.release()), ForeignEvent::kForeignValue};
    return {};
  });
}

}  // namespace

tenon_exchange_api_t exchange_table(const ExchangeKinds* known) {
  tenon_exchange_api_t out = {sizeof(tenon_exchange_api_t),
                              const_cast<ExchangeKinds*>(known),
                              &kinds,
                              &import_memory,
                              &export_memory,
                              nullptr,
                              nullptr,
                              nullptr,
                              nullptr};
  if (known->stream.empty()) return out;
  out.queue_kinds = &queue_kinds;
  out.import_queue = &import_queue;
  out.export_queue = &export_queue;
  out.import_fence = &import_fence;
  return out;
}

}  // namespace tenon::stream
