// Device memory that a list of kernels owns: constants, plain or packed. Counts against
// TENON_MEMORY_LIMIT and frees itself.
#pragma once
#include <string_view>
#include <utility>

#include <tenon/abi/device.h>

#include "core/base/errors/status.h"

namespace tenon::dispatch {

class OwnBuffer {
 public:
  OwnBuffer(const tenon_device_api_t* api, tenon_device_t* device) : api_(api), device_(device) {}
  OwnBuffer(OwnBuffer&& o) noexcept
      : api_(o.api_),
        device_(o.device_),
        counted_bytes_(std::exchange(o.counted_bytes_, 0)),
        handle_(std::exchange(o.handle_, nullptr)) {}
  OwnBuffer(const OwnBuffer&) = delete;
  ~OwnBuffer();
  // Allocates and fills. T0609 if TENON_MEMORY_LIMIT has no room: `what` names the buffer.
  Status fill(const void* data, uint64_t bytes, std::string_view what);
  tenon_buffer_t* handle() const { return handle_; }

 private:
  const tenon_device_api_t* api_;
  tenon_device_t* device_;
  uint64_t counted_bytes_ = 0;
  tenon_buffer_t* handle_ = nullptr;
};

}  // namespace tenon::dispatch
