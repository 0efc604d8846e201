#include <atomic>
#include <cstdlib>
#include <memory>

#include <tenon/cpp/copy.hpp>
#include <tenon/cpp/plugin.hpp>

#include "compile.h"
#include "device.h"

namespace tenon::reference {
namespace {

std::atomic<uint64_t> g_used{0}, g_peak{0};

Status count(void*, uint32_t* out) {
  *out = 1;
  return {};
}

Status info(void*, uint32_t ordinal, tenon_device_info_t* out) {
  if (ordinal != 0)
    return fail(TENON_NOT_FOUND,
                cat("There is one reference device, and number ", ordinal, " was asked for."));
  tenon_device_info_t made = {};
  made.threading = TENON_THREADING_FREE;
  made.kind = str("reference");
  made.description = str("every op by its declared meaning, in host memory");
  made.target = str(kTarget);
  made.alignment_bytes = kAlignmentBytes;
  return give_record(out, made);
}

Status open(void*, uint32_t ordinal, tenon_device_t** out) {
  if (ordinal != 0)
    return fail(TENON_NOT_FOUND,
                cat("There is one reference device, and number ", ordinal, " was asked for."));
  static char device;  // no state: any address will do
  *out = reinterpret_cast<tenon_device_t*>(&device);
  return {};
}
Status close(void*, tenon_device_t*) {
  return {};
}

Status alloc(void*, tenon_device_t*, uint64_t size, tenon_buffer_t** out) {
  if (size > UINT64_MAX - kAlignmentBytes)
    return fail(TENON_RESOURCE_EXHAUSTED, cat("No machine has ", size, " bytes."));
  const uint64_t rounded = (size + kAlignmentBytes) / kAlignmentBytes * kAlignmentBytes;
  auto* data = static_cast<std::byte*>(std::aligned_alloc(kAlignmentBytes, rounded));
  if (data == nullptr)
    return fail(TENON_RESOURCE_EXHAUSTED, cat("The system gave no ", size, " bytes."));
  const uint64_t used = g_used += size;
  uint64_t peak = g_peak;
  while (peak < used && !g_peak.compare_exchange_weak(peak, used)) {
  }
  *out = reinterpret_cast<tenon_buffer_t*>(new Buffer{data, size, true});
  return {};
}

Status free_buffer(void*, tenon_device_t*, tenon_buffer_t* handle) {
  const std::unique_ptr<Buffer> buffer(buffer_of(handle));
  if (buffer->owned) {
    g_used -= buffer->size_bytes;
    std::free(buffer->data);
  }
  return {};
}

Status copy(void*, tenon_device_t*, const tenon_copy_t* c) {
  const Buffer *from = buffer_of(c->from), *to = buffer_of(c->to);
  TENON_TRY(
      check_copy(*c, from != nullptr ? from->size_bytes : 0, to != nullptr ? to->size_bytes : 0));
  tenon_copy_perform(c, from != nullptr ? from->data : nullptr, to != nullptr ? to->data : nullptr);
  return {};
}

Status map(void*, tenon_device_t*, tenon_buffer_t* buffer, void** out) {
  *out = buffer_of(buffer)->data;
  return {};
}

Status import(void*, tenon_device_t*, const tenon_memory_import_t* import, tenon_buffer_t** out) {
  *out = reinterpret_cast<tenon_buffer_t*>(
      new Buffer{static_cast<std::byte*>(import->data), import->length_bytes, false});
  return {};
}

Status memory(void*, tenon_device_t*, uint64_t* used, uint64_t* peak) {
  *used = g_used;
  *peak = g_peak;
  return {};
}

}  // namespace

const tenon_device_api_t kDeviceApi = {sizeof(tenon_device_api_t),
                                       nullptr,
                                       entry<count>,
                                       entry<info>,
                                       entry<open>,
                                       entry<close>,
                                       entry<alloc>,
                                       entry<free_buffer>,
                                       entry<copy>,
                                       entry<map>,
                                       entry<import>,
                                       entry<memory>};

}  // namespace tenon::reference
