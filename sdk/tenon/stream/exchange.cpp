// tenon.exchange/1 for devices whose memory has addresses.
#include <memory>

#include "tenon/cpp/plugin.hpp"
#include "tenon/stream/device.h"

namespace tenon::stream {
namespace {

std::string_view kind_of(void* self) {
  return *static_cast<const std::string_view*>(self);
}

Status check_kind(void* self, const Device& device, tenon_str_t kind) {
  if (view(kind) == kind_of(self)) return {};
  return fail(TENON_UNIMPLEMENTED, cat(device.name, ": there are no handles of the kind \"",
                                       view(kind), "\", only \"", kind_of(self), "\""));
}

tenon_code_t kinds(void* self, tenon_device_t*, tenon_str_t* out) {
  *out = str(kind_of(self));
  return TENON_OK;
}

// Kernels read and write whole elements, and an access that is not aligned ends the context, which
// other libraries use too. Vectors of 16 bytes are the widest.
constexpr uint64_t kAdoptedAlignmentBytes = 16;

Status check_range(Device& device, Address begin, const tenon_native_memory_t& memory) {
  if (memory.length_bytes == 0) return {};  // other libraries give 0 for the address of nothing
  if (memory.handle == 0)
    return fail(TENON_INVALID_ARGUMENT, cat(device.name, ": the address 0 is none"));
  if (begin < memory.handle || begin + memory.length_bytes < begin)
    return fail(TENON_OUT_OF_RANGE, cat(device.name, ": the range wraps around"));
  const Current current(*device.runtime);
  TENON_TRY(current.status());
  TENON_TRY(device.runtime->check_memory(begin, memory.length_bytes));
  if (begin % kAdoptedAlignmentBytes == 0) return {};
  return fail(TENON_UNIMPLEMENTED,
              cat(device.name, ": memory that begins ", begin % kAdoptedAlignmentBytes,
                  " bytes after a multiple of ", kAdoptedAlignmentBytes, " must be copied"));
}

Status import(void* self, Device& device, const tenon_native_memory_t& memory,
              tenon_buffer_t** out) {
  TENON_TRY(check_kind(self, device, memory.kind));
  const Address begin = memory.handle + memory.offset_bytes;
  TENON_TRY(check_range(device, begin, memory));
  *out = reinterpret_cast<tenon_buffer_t*>(new Buffer{begin, memory.length_bytes, true});
  return {};
}

tenon_code_t import_memory(void* self, tenon_device_t* d, const tenon_native_memory_t* memory,
                           tenon_buffer_t** out) {
  return detail::guarded(context().host, [&] { return import(self, *device_of(d), *memory, out); });
}

tenon_code_t export_memory(void* self, tenon_device_t* d, tenon_buffer_t* b, tenon_str_t kind,
                           tenon_native_memory_t* out) {
  return detail::guarded(context().host, [&]() -> Status {
    TENON_TRY(check_kind(self, *device_of(d), kind));
    tenon_native_memory_t made = {};
    made.kind = str(kind_of(self));
    made.handle = buffer_of(b)->address;
    made.length_bytes = buffer_of(b)->size_bytes;
    return give_record(out, made);
  });
}

}  // namespace

tenon_exchange_api_t exchange_table(const std::string_view* kind) {
  return {sizeof(tenon_exchange_api_t), const_cast<std::string_view*>(kind), &kinds, &import_memory,
          &export_memory};
}

}  // namespace tenon::stream
