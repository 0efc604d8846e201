// tenon.exchange/1: handles of buffers, as other users of a simulated device would pass them on.
#include "device.h"
#include "tenon/cpp/plugin.hpp"

namespace tenon::sim {
namespace {

constexpr std::string_view kKind = "sim.handle";
// A handle names its device in the upper bits, because both devices number their buffers.
constexpr int kDeviceShift = 56;
constexpr uint64_t kElementBytes = 16;  // the largest element: kernels want it aligned

Status check_kind(tenon_str_t kind) {
  if (view(kind) == kKind) return {};
  return fail(TENON_UNIMPLEMENTED, cat("sim: there are no handles of the kind \"", view(kind),
                                       "\", only \"", kKind, "\""));
}

Status kinds(void*, tenon_device_t*, tenon_str_t* out) {
  *out = str(kKind);
  return {};
}

Status import_memory(void*, tenon_device_t* d, const tenon_native_memory_t* memory,
                     tenon_buffer_t** out) {
  Device& device = *device_of(d);
  TENON_TRY(device.alive());
  TENON_TRY(check_kind(memory->kind));
  if (memory->handle >> kDeviceShift != device.ordinal) {
    return fail(TENON_INVALID_ARGUMENT,
                cat("sim: the handle is of device ", memory->handle >> kDeviceShift,
                    ", and this is device ", device.ordinal));
  }
  if (memory->offset_bytes % kElementBytes != 0) {
    return fail(TENON_UNIMPLEMENTED, cat("sim: the offset ", memory->offset_bytes,
                                         " is not a multiple of ", kElementBytes));
  }
  const uint64_t handle = memory->handle & ((uint64_t{1} << kDeviceShift) - 1);
  uint64_t alias = 0;
  TENON_TRY(device.memory.alias(handle, memory->offset_bytes, memory->length_bytes, &alias));
  *out = buffer_of(alias);
  return {};
}

Status export_memory(void*, tenon_device_t* d, tenon_buffer_t* buffer, tenon_str_t kind,
                     tenon_native_memory_t* out) {
  Device& device = *device_of(d);
  TENON_TRY(device.alive());
  TENON_TRY(check_kind(kind));
  auto made = sized<tenon_native_memory_t>();
  TENON_TRY(device.memory.size(handle_of(buffer), &made.length_bytes));
  made.kind = str(kKind);
  made.handle = uint64_t{device.ordinal} << kDeviceShift | handle_of(buffer);
  return give_record(out, made);
}

}  // namespace

const tenon_exchange_api_t kExchangeTable = {sizeof(tenon_exchange_api_t), nullptr, entry<kinds>,
                                             entry<import_memory>, entry<export_memory>};

}  // namespace tenon::sim
