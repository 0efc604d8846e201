#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>

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
  if (ordinal != 0) return fail(TENON_NOT_FOUND, cat("There is one reference device, and number ", ordinal, " was asked for."));
  tenon_device_info_t made = {};
  made.threading = TENON_THREADING_FREE;
  made.kind = str("reference");
  made.description = str("every op by its declared meaning, in host memory");
  made.target = str(kTarget);
  made.alignment_bytes = kAlignmentBytes;
  return give_record(out, made);
}

Status open(void*, uint32_t ordinal, tenon_device_t** out) {
  if (ordinal != 0) return fail(TENON_NOT_FOUND, cat("There is one reference device, and number ", ordinal, " was asked for."));
  static char device;  // nothing to hold: any address will do
  *out = reinterpret_cast<tenon_device_t*>(&device);
  return {};
}
Status close(void*, tenon_device_t*) { return {}; }

Status alloc(void*, tenon_device_t*, uint64_t size, tenon_buffer_t** out) {
  if (size > UINT64_MAX - kAlignmentBytes) return fail(TENON_RESOURCE_EXHAUSTED, cat("Nobody has ", size, " bytes."));
  const uint64_t rounded = (size + kAlignmentBytes) / kAlignmentBytes * kAlignmentBytes;
  auto* data = static_cast<std::byte*>(std::aligned_alloc(kAlignmentBytes, rounded));
  if (data == nullptr) return fail(TENON_RESOURCE_EXHAUSTED, cat("The system gave no ", size, " bytes."));
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

// The address of a range of a buffer, or a failure.
Status range(tenon_buffer_t* handle, uint64_t offset, uint64_t length, std::byte** out) {
  if (handle == nullptr) return fail(TENON_INVALID_ARGUMENT, "A copy names no buffer.");
  const Buffer& buffer = *buffer_of(handle);
  if (offset > buffer.size_bytes || length > buffer.size_bytes - offset) {
    return fail(TENON_OUT_OF_RANGE,
                cat("A copy of ", length, " bytes at ", offset, " leaves a buffer of ", buffer.size_bytes, " bytes."));
  }
  *out = buffer.data + offset;
  return {};
}

Status fill(const tenon_copy_t& c, std::byte* to) {
  const uint32_t width = c.pattern_bytes;
  if ((width != 1 && width != 2 && width != 4 && width != 8) || c.length_bytes % width != 0) {
    return fail(TENON_INVALID_ARGUMENT, cat("A pattern of ", width, " bytes does not fill ", c.length_bytes, " bytes."));
  }
  for (uint64_t i = 0; i < c.length_bytes; i += width) std::memcpy(to + i, &c.pattern, width);
  return {};
}

Status copy(void*, tenon_device_t*, const tenon_copy_t* c) {
  std::byte *from = nullptr, *to = nullptr;
  const bool reads = c->direction == TENON_COPY_DEVICE_TO_HOST || c->direction == TENON_COPY_DEVICE_TO_DEVICE;
  if (c->direction < TENON_COPY_HOST_TO_DEVICE || c->direction > TENON_COPY_FILL) {
    return fail(TENON_INVALID_ARGUMENT, cat("There is no copy direction ", c->direction, "."));
  }
  if (reads) TENON_TRY(range(c->from, c->from_offset_bytes, c->length_bytes, &from));
  if (c->direction != TENON_COPY_DEVICE_TO_HOST) TENON_TRY(range(c->to, c->to_offset_bytes, c->length_bytes, &to));
  if (c->direction == TENON_COPY_FILL) return fill(*c, to);
  if (c->length_bytes == 0) return {};
  std::memcpy(to != nullptr ? to : c->host_to, reads ? from : c->host_from, c->length_bytes);
  return {};
}

Status sync(void*, tenon_device_t*) { return {}; }

Status map(void*, tenon_device_t*, tenon_buffer_t* buffer, void** out) {
  *out = buffer_of(buffer)->data;
  return {};
}

Status import(void*, tenon_device_t*, void* data, uint64_t size, tenon_buffer_t** out) {
  *out = reinterpret_cast<tenon_buffer_t*>(new Buffer{static_cast<std::byte*>(data), size, false});
  return {};
}

Status memory(void*, tenon_device_t*, uint64_t* used, uint64_t* peak) {
  *used = g_used;
  *peak = g_peak;
  return {};
}

}  // namespace

const tenon_device_api_t kDeviceApi = {
    sizeof(tenon_device_api_t), nullptr,     entry<count>, entry<info>, entry<open>,   entry<close>, entry<alloc>,
    entry<free_buffer>,         entry<copy>, entry<sync>,  entry<map>,  entry<import>, entry<memory>};

}  // namespace tenon::reference
