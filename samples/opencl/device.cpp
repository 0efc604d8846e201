#include "device.h"

#include <deque>
#include <memory>
#include <mutex>
#include <vector>

namespace opencl_sample {

using tenon::cat;
using tenon::fail;
using tenon::Status;
using tenon::str;

Status check(cl_int code, std::string_view doing) {
  if (code == CL_SUCCESS) return {};
  const bool memory = code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_RESOURCES ||
                      code == CL_OUT_OF_HOST_MEMORY || code == CL_INVALID_BUFFER_SIZE;
  return fail(memory ? TENON_RESOURCE_EXHAUSTED : TENON_INTERNAL, cat("opencl: ", doing, ": ", error_text(code)));
}

Device::~Device() {
  if (queue != nullptr) cl->clReleaseCommandQueue(queue);
  if (context != nullptr) cl->clReleaseContext(context);
}

namespace {

// What is looked up once per device of the machine.
struct Found {
  cl_device_id id;
  std::string name;
  cl_ulong memory_bytes = 0;
  cl_uint alignment_bits = 0;
  bool fp64 = false;
  std::string target;
};

std::string info_text(const Functions& cl, cl_device_id id, cl_device_info what) {
  size_t size = 0;
  cl.clGetDeviceInfo(id, what, 0, nullptr, &size);
  std::string text(size, '\0');
  cl.clGetDeviceInfo(id, what, size, text.data(), nullptr);
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

std::deque<Found> find_devices() {
  std::string why;
  const Functions* cl = functions(&why);
  cl_platform_id platform = nullptr;
  cl_uint count = 0;
  if (cl == nullptr || cl->clGetPlatformIDs(1, &platform, &count) != CL_SUCCESS || count == 0) return {};
  cl_uint devices = 0;
  if (cl->clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &devices) != CL_SUCCESS) return {};
  std::vector<cl_device_id> ids(devices);
  cl->clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, devices, ids.data(), nullptr);
  std::deque<Found> out;
  for (cl_device_id id : ids) {
    Found f{id, info_text(*cl, id, CL_DEVICE_NAME), 0, 0, false, {}};
    cl->clGetDeviceInfo(id, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof f.memory_bytes, &f.memory_bytes, nullptr);
    cl->clGetDeviceInfo(id, CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof f.alignment_bits, &f.alignment_bits, nullptr);
    f.fp64 = info_text(*cl, id, CL_DEVICE_EXTENSIONS).find("cl_khr_fp64") != std::string::npos;
    f.target = cat("opencl fp64=", f.fp64 ? 1 : 0);
    out.push_back(std::move(f));
  }
  return out;
}

const std::deque<Found>& found() {
  static const std::deque<Found> devices = find_devices();
  return devices;
}

Status at(uint32_t ordinal, const Found** out) {
  std::string why;
  if (functions(&why) == nullptr) return fail(TENON_UNAVAILABLE, cat("opencl: ", why));
  if (ordinal >= found().size()) return fail(TENON_OUT_OF_RANGE, cat("opencl: there are ", found().size(), " devices"));
  *out = &found()[ordinal];
  return {};
}

Status count(void*, uint32_t* out) {
  *out = static_cast<uint32_t>(found().size());
  return {};
}

uint64_t alignment_of(const Found& f) { return f.alignment_bits / 8 > 64 ? f.alignment_bits / 8 : 64; }

Status info(void*, uint32_t ordinal, tenon_device_info_t* out) {
  const Found* f = nullptr;
  TENON_TRY(at(ordinal, &f));
  *out = {};
  out->size_bytes = sizeof *out;
  out->threading = TENON_THREADING_SERIAL;
  out->kind = str("opencl");
  out->description = str(f->name);
  out->target = str(f->target);
  out->memory_bytes = f->memory_bytes;
  out->alignment_bytes = alignment_of(*f);
  out->copy_gigabytes_per_second = 10;
  out->copy_latency_ns = 20000;
  return {};
}

Status open(void*, uint32_t ordinal, tenon_device_t** out) {
  const Found* f = nullptr;
  TENON_TRY(at(ordinal, &f));
  std::string why;
  auto device = std::make_unique<Device>();
  device->cl = functions(&why);
  device->id = f->id;
  device->alignment_bytes = alignment_of(*f);
  device->fp64 = f->fp64;
  cl_int code = CL_SUCCESS;
  device->context = device->cl->clCreateContext(nullptr, 1, &f->id, nullptr, nullptr, &code);
  TENON_TRY(check(code, "making a context"));
  device->queue = device->cl->clCreateCommandQueue(device->context, f->id, 0, &code);
  TENON_TRY(check(code, "making a queue"));
  *out = reinterpret_cast<tenon_device_t*>(device.release());
  return {};
}

Status close(void*, tenon_device_t* device) {
  delete device_of(device);
  return {};
}

Status alloc(void*, tenon_device_t* d, uint64_t size_bytes, tenon_buffer_t** out) {
  Device& device = *device_of(d);
  cl_int code = CL_SUCCESS;
  auto buffer = std::make_unique<Buffer>();
  buffer->size_bytes = size_bytes;
  // OpenCL has no buffers of size 0.
  buffer->memory = device.cl->clCreateBuffer(device.context, CL_MEM_READ_WRITE, size_bytes == 0 ? 1 : size_bytes, nullptr, &code);
  TENON_TRY(check(code, cat("allocating ", size_bytes, " bytes")));
  *out = reinterpret_cast<tenon_buffer_t*>(buffer.release());
  return {};
}

Status free(void*, tenon_device_t* d, tenon_buffer_t* b) {
  const std::unique_ptr<Buffer> buffer(buffer_of(b));
  return check(device_of(d)->cl->clReleaseMemObject(buffer->memory), "freeing a buffer");
}

Status inside(tenon_buffer_t* buffer, uint64_t offset, uint64_t length) {
  const uint64_t size = buffer_of(buffer)->size_bytes;
  if (offset <= size && length <= size - offset) return {};
  return fail(TENON_OUT_OF_RANGE, cat("opencl: bytes [", offset, ", ", offset, " + ", length, ") lie outside a buffer of ", size, " bytes"));
}

Status copy(void*, tenon_device_t* d, const tenon_copy_t* c) {
  const Device& device = *device_of(d);
  if (c->from != nullptr) TENON_TRY(inside(c->from, c->from_offset_bytes, c->length_bytes));
  if (c->to != nullptr) TENON_TRY(inside(c->to, c->to_offset_bytes, c->length_bytes));
  const uint32_t width = c->pattern_bytes;
  if (c->direction == TENON_COPY_FILL && ((width != 1 && width != 2 && width != 4 && width != 8) || c->length_bytes % width != 0)) {
    return fail(TENON_INVALID_ARGUMENT, cat("opencl: a pattern of ", width, " bytes does not fill ", c->length_bytes, " bytes"));
  }
  if (c->length_bytes == 0) return {};
  cl_int code = CL_INVALID_VALUE;
  switch (c->direction) {
    case TENON_COPY_HOST_TO_DEVICE:
      code = device.cl->clEnqueueWriteBuffer(device.queue, buffer_of(c->to)->memory, CL_TRUE, c->to_offset_bytes, c->length_bytes,
                                             c->host_from, 0, nullptr, nullptr);
      break;
    case TENON_COPY_DEVICE_TO_HOST:
      code = device.cl->clEnqueueReadBuffer(device.queue, buffer_of(c->from)->memory, CL_TRUE, c->from_offset_bytes, c->length_bytes,
                                            c->host_to, 0, nullptr, nullptr);
      break;
    case TENON_COPY_DEVICE_TO_DEVICE:
      code = device.cl->clEnqueueCopyBuffer(device.queue, buffer_of(c->from)->memory, buffer_of(c->to)->memory, c->from_offset_bytes,
                                            c->to_offset_bytes, c->length_bytes, 0, nullptr, nullptr);
      break;
    case TENON_COPY_FILL:
      code = device.cl->clEnqueueFillBuffer(device.queue, buffer_of(c->to)->memory, &c->pattern, c->pattern_bytes, c->to_offset_bytes,
                                            c->length_bytes, 0, nullptr, nullptr);
      break;
    default: return fail(TENON_INVALID_ARGUMENT, cat("opencl: there is no copy direction ", c->direction));
  }
  TENON_TRY(check(code, "copying"));
  return check(device.cl->clFinish(device.queue), "waiting for a copy");
}

Status sync(void*, tenon_device_t* d) { return check(device_of(d)->cl->clFinish(device_of(d)->queue), "waiting"); }

}  // namespace

const tenon_device_api_t kDeviceTable = {
    sizeof(tenon_device_api_t), nullptr,          tenon::entry<count>, tenon::entry<info>, tenon::entry<open>, tenon::entry<close>,
    tenon::entry<alloc>,        tenon::entry<free>, tenon::entry<copy>,  tenon::entry<sync>, nullptr,            nullptr,
    nullptr};

}  // namespace opencl_sample
