// tenon.device/1 of the cpu: one device, the host's own memory.
#ifndef TENON_PLUGINS_CPU_DEVICE_H_
#define TENON_PLUGINS_CPU_DEVICE_H_

#include "isa.h"
#include "tenon/abi/device.h"
#include "tenon/cpp/status.hpp"

// Host memory. block: what free() takes; null for imported memory.
struct tenon_buffer_t {
  char* data;
  uint64_t size_bytes;
  void* block;
};

namespace tenon::cpu {

inline constexpr uint64_t kAlignmentBytes = 64;  // A cache line, and the widest vector.

// Counts memory that the device allocates besides the host's buffers (tenon.host.memory/1). Must be
// returned with return_memory.
Status count_memory(uint64_t bytes, std::string_view what);
void return_memory(uint64_t bytes);

// The instruction set in use: cpuid and TENON_CPU_ISA. An invalid value of the variable is recorded
// as the failure. Cheap after the first call.
Status current_isa(Isa& out);

extern const tenon_device_api_t kDeviceTable;

}  // namespace tenon::cpu
#endif
