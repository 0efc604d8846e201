// OpenCL devices of the first platform as tenon.device/1.
#ifndef OPENCL_SAMPLE_DEVICE_H_
#define OPENCL_SAMPLE_DEVICE_H_

#include <cstdint>
#include <string>

#include "opencl_symbols.h"
#include "tenon/abi/device.h"
#include "tenon/cpp/plugin.hpp"

namespace opencl_sample {

struct Device {
  const Functions* cl = nullptr;
  cl_device_id id = nullptr;
  cl_context context = nullptr;
  cl_command_queue queue = nullptr;
  uint64_t alignment_bytes = 0;
  bool fp64 = false;
  ~Device();
};

struct Buffer {
  cl_mem memory = nullptr;
  uint64_t size_bytes = 0;
};

inline Device* device_of(tenon_device_t* d) { return reinterpret_cast<Device*>(d); }
inline Buffer* buffer_of(tenon_buffer_t* b) { return reinterpret_cast<Buffer*>(b); }

// OK, or a failure that says what was tried and what OpenCL answered.
tenon::Status check(cl_int code, std::string_view doing);

extern const tenon_device_api_t kDeviceTable;

}  // namespace opencl_sample
#endif
