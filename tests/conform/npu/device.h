// The device of the NPU: memory that the host cannot access, and copies.
#pragma once
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include <tenon/abi/compile.h>
#include <tenon/abi/device.h>
#include <tenon/abi/queue.h>
#include <tenon/cpp/copy.hpp>
#include <tenon/cpp/graph.hpp>
#include <tenon/cpp/plugin.hpp>
#include <tenon/cpp/sha256.hpp>
#include <tenon/cpp/thread.hpp>
#include <tenon/cpp/timeline.hpp>

namespace npu {

using tenon::Blob;
using tenon::cat;
using tenon::fail;
using tenon::Fault;
using tenon::Node;
using tenon::Status;
using tenon::str;
using tenon::Value;

// Whether this fault is planted.
inline bool bug(std::string_view name) {
  return tenon::setting("NPU_BUG") == name;
}
constexpr uint64_t kAlign = 256;
constexpr uint64_t kMemory = uint64_t{1} << 30;

struct Buffer {
  unsigned char* data;
  uint64_t size;
};
inline std::atomic<uint64_t> g_used{0}, g_peak{0};
inline Buffer* buffer_of(const tenon_buffer_t* b) {
  return reinterpret_cast<Buffer*>(const_cast<tenon_buffer_t*>(b));
}
struct Device {
  std::mutex m;
};
inline Device g_device;

inline Status count(void*, uint32_t* out) {
  *out = 1;
  return {};
}
inline Status check_ordinal(uint32_t o) {
  return o == 0 ? Status() : fail(TENON_NOT_FOUND, cat("npu: no device ", o));
}
inline Status info(void*, uint32_t o, tenon_device_info_t* out) {
  TENON_TRY(check_ordinal(o));
  const tenon_device_info_t made = {.size_bytes = sizeof made,
                                    .threading = TENON_THREADING_FREE,
                                    .kind = str("npu"),
                                    .description = str("Vendor NPU v1"),
                                    .target = str("npu v=1"),
                                    .memory_bytes = kMemory,
                                    .alignment_bytes = kAlign,
                                    .copy_gigabytes_per_second = 10,
                                    .copy_latency_ns = 5000};
  return tenon::give_record(out, made);
}
inline Status open(void*, uint32_t o, tenon_device_t** out) {
  TENON_TRY(check_ordinal(o));
  *out = reinterpret_cast<tenon_device_t*>(&g_device);
  return {};
}
inline Status close(void*, tenon_device_t*) {
  return {};
}
inline Status alloc(void*, tenon_device_t*, uint64_t n, tenon_buffer_t** out) {
  if (n > kMemory || g_used + n > kMemory)
    return fail(TENON_RESOURCE_EXHAUSTED,
                cat("npu: ", n, " bytes do not fit ", kMemory - g_used.load()));
  auto* b = new (std::nothrow) Buffer{nullptr, n};
  const uint64_t align = bug("align64") ? 64 : kAlign;
  void* p =
      b ? std::aligned_alloc(kAlign, (n + 2 * kAlign - 1) / kAlign * kAlign + kAlign) : nullptr;
  if (p == nullptr) {
    delete b;
    return fail(TENON_RESOURCE_EXHAUSTED, cat("npu: cannot allocate ", n));
  }
  b->data = static_cast<unsigned char*>(p) + (align == 64 ? 64 : 0);
  uint64_t now = g_used += n, peak = g_peak;
  while (now > peak && !g_peak.compare_exchange_weak(peak, now)) {
  }
  *out = reinterpret_cast<tenon_buffer_t*>(b);
  return {};
}
inline Status free_buffer(void*, tenon_device_t*, tenon_buffer_t* b) {
  g_used -= buffer_of(b)->size;
  if (bug("leakbuf") && buffer_of(b)->size == 0) {
    return {};
  }  // leaks the empty ones
  std::free(buffer_of(b)->data - (bug("align64") ? 64 : 0));
  delete buffer_of(b);
  return {};
}
inline Status do_copy(const tenon_copy_t& c) {
  const Buffer *f = buffer_of(c.from), *t = buffer_of(c.to);
  TENON_TRY(tenon::check_copy(c, f ? f->size : 0, t ? t->size : 0));
  tenon_copy_perform(&c, f ? f->data : nullptr, t ? t->data : nullptr);
  return {};
}
inline Status copy(void*, tenon_device_t*, const tenon_copy_t* c) {
  tenon_copy_t own;
  TENON_TRY(tenon::take_copy(c, &own));
  return do_copy(own);
}

}  // namespace npu
