// tenon.device/1 over host memory: one device, every call from any thread.
#ifndef TENON_PLUGINS_REFERENCE_DEVICE_H_
#define TENON_PLUGINS_REFERENCE_DEVICE_H_

#include <tenon/abi/device.h>

namespace tenon::reference {

inline constexpr uint64_t kAlignmentBytes = 64;

struct Buffer {
  std::byte* data = nullptr;
  uint64_t size_bytes = 0;
  bool owned = true;
};
inline Buffer* buffer_of(const tenon_buffer_t* handle) {
  return reinterpret_cast<Buffer*>(const_cast<tenon_buffer_t*>(handle));
}

extern const tenon_device_api_t kDeviceApi;

}  // namespace tenon::reference

#endif
