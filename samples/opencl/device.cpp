// tenon.device/1: devices of the first platform, their memory, copies.
#include "device.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <vector>

#include "tenon/cpp/copy.hpp"
#include "tenon/cpp/plugin.hpp"
#include "tenon/cpp/process_guard.hpp"
#include "tenon/cpp/uuid.hpp"

namespace opencl_sample {

using tenon::cat;
using tenon::fail;
using tenon::Status;
using tenon::str;

Line::Line(const Functions* functions, cl_context in, cl_device_id id, cl_int* code)
    : cl(functions), context(in) {
  queue = cl->clCreateCommandQueue(context, id, CL_QUEUE_PROFILING_ENABLE, code);
}

Line::Line(const Functions* functions, cl_context in, cl_command_queue stream)
    : cl(functions), context(in) {
  if (cl->clRetainCommandQueue(stream) == CL_SUCCESS) queue = stream;
}

Line::~Line() {
  if (queue != nullptr) cl->clReleaseCommandQueue(queue);
}

void Line::begin() {
  const std::lock_guard lock(mutex_);
  ++in_flight_;
}

// Notifies under the lock: a waiter may destroy this object as soon as it can take the lock.
void Line::end() {
  const std::lock_guard lock(mutex_);
  if (--in_flight_ == 0) idle_.notify_all();
}

void Line::wait_idle() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return in_flight_ == 0; });
}

Device::~Device() {
  lines.clear();
  own.reset();
  if (context != nullptr) cl->clReleaseContext(context);
}

uint64_t alignment_of(const Found& f) {
  return std::max<uint64_t>(f.alignment_bits / 8, 64);
}

namespace {

std::string info_text(const Functions& cl, cl_device_id id, cl_device_info what) {
  size_t size = 0;
  cl.clGetDeviceInfo(id, what, 0, nullptr, &size);
  std::string text(size, '\0');
  cl.clGetDeviceInfo(id, what, size, text.data(), nullptr);
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

template <class T>
void info_number(const Functions& cl, cl_device_id id, cl_device_info what, T* out) {
  cl.clGetDeviceInfo(id, what, sizeof *out, out, nullptr);
}

std::string uuid_of(const Functions& cl, cl_device_id id, std::string_view extensions) {
  constexpr cl_device_info kUuid = 0x106A;  // CL_DEVICE_UUID_KHR
  unsigned char bytes[16] = {};
  if (extensions.find("cl_khr_device_uuid") == std::string_view::npos ||
      cl.clGetDeviceInfo(id, kUuid, sizeof bytes, bytes, nullptr) != CL_SUCCESS)
    return {};
  return tenon::uuid_text(bytes);
}

// The width of sub-groups of the text for Intel's GPUs, where that is asked for; else 0.
Status sub_groups_asked(uint32_t* out) {
  const std::string_view text = tenon::setting("TENON_OPENCL_SUB_GROUPS");
  *out = 0;
  for (const uint32_t width : {8u, 16u, 32u}) {
    if (text == std::to_string(width)) *out = width;
  }
  if (text.empty() || *out != 0) return {};
  return fail(TENON_INVALID_ARGUMENT,
              cat("opencl: TENON_OPENCL_SUB_GROUPS is 8, 16 or 32, not '", text, "'"));
}

bool has_sub_groups(const Functions& cl, cl_device_id id, std::string_view extensions,
                    uint32_t width) {
  constexpr cl_device_info kSizes = 0x4108;  // CL_DEVICE_SUB_GROUP_SIZES_INTEL
  size_t sizes[16] = {}, bytes = 0;
  return extensions.find("cl_intel_subgroups") != std::string_view::npos &&
         extensions.find("cl_intel_required_subgroup_size") != std::string_view::npos &&
         cl.clGetDeviceInfo(id, kSizes, sizeof sizes, sizes, &bytes) == CL_SUCCESS &&
         std::ranges::find(sizes, width) != std::end(sizes);
}

Found look_at(const Functions& cl, cl_device_id id) {
  Found f;
  f.id = id;
  f.name = info_text(cl, id, CL_DEVICE_NAME);
  info_number(cl, id, CL_DEVICE_GLOBAL_MEM_SIZE, &f.memory_bytes);
  info_number(cl, id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, &f.most_bytes);
  info_number(cl, id, CL_DEVICE_MEM_BASE_ADDR_ALIGN, &f.alignment_bits);
  size_t most = 1, group = 1;
  info_number(cl, id, CL_DEVICE_MAX_WORK_GROUP_SIZE, &most);
  while (group < 256 && group * 2 <= most) group *= 2;
  // No relaxed mathematics: results must agree with the reference.
  cl_device_fp_config floats = 0;
  info_number(cl, id, CL_DEVICE_SINGLE_FP_CONFIG, &floats);
  f.options = floats & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT
                  ? "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt"
                  : "-cl-std=CL1.2";
  const std::string extensions = info_text(cl, id, CL_DEVICE_EXTENSIONS);
  f.uuid = uuid_of(cl, id, extensions);
  const bool fp64 = extensions.find("cl_khr_fp64") != std::string::npos;
  uint32_t width = 0;
  (void)sub_groups_asked(&width);  // `at` reports what is wrong with it
  const std::string text =
      width == 0
          ? cat(fp64 ? 1 : 0, " group=", group)
          : cat("0 group=", group,
                has_sub_groups(cl, id, extensions, width) ? " sub_groups=" : " emulated=", width);
  f.target = cat("opencl fp64=", text, " device=", f.name,
                 " driver=", info_text(cl, id, CL_DRIVER_VERSION));
  return f;
}

std::deque<Found> find_devices() {
  const tenon::ProcessGuard guard;  // drivers start threads when they are first queried
  std::string why;
  const Functions* cl = functions(&why);
  cl_platform_id platform = nullptr;
  cl_uint count = 0, devices = 0;
  if (cl == nullptr || cl->clGetPlatformIDs(1, &platform, &count) != CL_SUCCESS || count == 0)
    return {};
  if (cl->clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &devices) != CL_SUCCESS)
    return {};
  std::vector<cl_device_id> ids(devices);
  cl->clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, devices, ids.data(), nullptr);
  std::deque<Found> out;
  for (cl_device_id id : ids) out.push_back(look_at(*cl, id));
  return out;
}

const std::deque<Found>& found() {
  static const std::deque<Found> devices = find_devices();
  return devices;
}

Status at(uint32_t ordinal, const Found** out) {
  std::string why;
  if (functions(&why) == nullptr) return fail(TENON_UNAVAILABLE, cat("opencl: ", why));
  uint32_t width = 0;
  TENON_TRY(sub_groups_asked(&width));
  if (ordinal >= found().size())
    return fail(TENON_OUT_OF_RANGE, cat("opencl: there are ", found().size(), " devices"));
  *out = &found()[ordinal];
  return {};
}

Status count(void*, uint32_t* out) {
  *out = static_cast<uint32_t>(std::min<size_t>(found().size(), 64));
  return {};
}

Status info(void*, uint32_t ordinal, tenon_device_info_t* out) {
  const Found* f = nullptr;
  TENON_TRY(at(ordinal, &f));
  tenon_device_info_t made = {};
  made.threading = TENON_THREADING_FREE;
  made.kind = str("opencl");
  made.description = str(f->name);
  made.target = str(f->target);
  made.memory_bytes = f->memory_bytes;
  made.alignment_bytes = alignment_of(*f);
  made.copy_gigabytes_per_second = 10;
  made.copy_latency_ns = 20000;
  made.uuid = str(f->uuid);
  made.flags = TENON_DEVICE_NUMBERED;
  made.native_ordinal = ordinal;
  return tenon::give_record(out, made);
}

Status open(void*, uint32_t ordinal, tenon_device_t** out) {
  const Found* f = nullptr;
  TENON_TRY(at(ordinal, &f));
  std::string why;
  const tenon::ProcessGuard guard;
  auto device = std::make_unique<Device>();
  device->cl = functions(&why);
  device->found = f;
  cl_int code = CL_SUCCESS;
  device->context = device->cl->clCreateContext(nullptr, 1, &f->id, nullptr, nullptr, &code);
  TENON_TRY(check(code, "making a context"));
  device->own = std::make_shared<Line>(device->cl, device->context, f->id, &code);
  TENON_TRY(check(code, "making a queue"));
  device->lines.push_back(device->own);
  *out = reinterpret_cast<tenon_device_t*>(device.release());
  return {};
}

Status close(void*, tenon_device_t* device) {
  delete device_of(device);
  return {};
}

Status alloc(void*, tenon_device_t* d, uint64_t size_bytes, tenon_buffer_t** out) {
  Device& device = *device_of(d);
  // Drivers that allocate on first use would detect this too late.
  if (size_bytes > device.found->most_bytes) {
    return fail(TENON_RESOURCE_EXHAUSTED, cat("opencl: ", size_bytes, " bytes are more than the ",
                                              device.found->most_bytes, " of the largest buffer"));
  }
  cl_int code = CL_SUCCESS;
  auto buffer = std::make_unique<Buffer>();
  buffer->size_bytes = size_bytes;
  // OpenCL has no buffers of size 0.
  buffer->memory = device.cl->clCreateBuffer(device.context, CL_MEM_READ_WRITE,
                                             size_bytes == 0 ? 1 : size_bytes, nullptr, &code);
  TENON_TRY(check(code, cat("allocating ", size_bytes, " bytes")));
  const std::lock_guard lock(device.mutex);
  device.used_bytes += size_bytes;
  device.peak_bytes = std::max(device.peak_bytes, device.used_bytes);
  *out = reinterpret_cast<tenon_buffer_t*>(buffer.release());
  return {};
}

Status free(void*, tenon_device_t* d, tenon_buffer_t* b) {
  const std::unique_ptr<Buffer> buffer(buffer_of(b));
  {
    const std::lock_guard lock(device_of(d)->mutex);
    if (!buffer->imported) device_of(d)->used_bytes -= buffer->size_bytes;
  }
  return check(device_of(d)->cl->clReleaseMemObject(buffer->memory), "freeing a buffer");
}

Status memory(void*, tenon_device_t* d, uint64_t* out_used, uint64_t* out_peak) {
  const std::lock_guard lock(device_of(d)->mutex);
  *out_used = device_of(d)->used_bytes;
  *out_peak = device_of(d)->peak_bytes;
  return {};
}

// Memory that the driver has made for the host stays mapped until it is freed.
Status alloc_pinned(void*, tenon_device_t* d, uint64_t size_bytes, void** out) {
  Device& device = *device_of(d);
  const Functions& cl = *device.cl;
  cl_int code = CL_SUCCESS;
  // Runtimes align memory of their own as they like, Oclgrind to less than it asks of buffers.
  const uint64_t alignment = alignment_of(*device.found);
  if (size_bytes > SIZE_MAX / 2)
    return fail(TENON_RESOURCE_EXHAUSTED,
                cat("opencl: no ", size_bytes, " bytes of pinned memory"));
  const size_t bytes = size_bytes + alignment;
  const cl_mem memory = cl.clCreateBuffer(device.context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR,
                                          bytes, nullptr, &code);
  TENON_TRY(check(code, cat("allocating ", size_bytes, " bytes of pinned memory")));
  void* const mapped =
      cl.clEnqueueMapBuffer(device.own->queue, memory, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
                            bytes, 0, nullptr, nullptr, &code);
  if (code != CL_SUCCESS) {
    cl.clReleaseMemObject(memory);
    return check(code, "mapping pinned memory");
  }
  const std::lock_guard lock(device.mutex);
  *out = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(mapped) + alignment - 1) / alignment *
                                 alignment);
  device.pinned[*out] = {memory, mapped};
  return {};
}

Status free_pinned(void*, tenon_device_t* d, void* data) {
  Device& device = *device_of(d);
  Device::Pinned pinned;
  {
    const std::lock_guard lock(device.mutex);
    const auto at = device.pinned.find(data);
    if (at == device.pinned.end())
      return fail(TENON_INVALID_ARGUMENT, "opencl: this address is not one of pinned memory");
    pinned = at->second;
    device.pinned.erase(at);
  }
  const Functions& cl = *device.cl;
  const cl_int code = cl.clEnqueueUnmapMemObject(device.own->queue, pinned.memory, pinned.mapped, 0,
                                                 nullptr, nullptr);
  cl.clFinish(device.own->queue);
  cl.clReleaseMemObject(pinned.memory);
  return check(code, "unmapping pinned memory");
}

// OpenCL fills only from multiples of the pattern. A fill that begins elsewhere writes bytes of a
// rotated pattern at its ends.
cl_int fill(const Line& line, const tenon_copy_t& c) {
  const uint64_t width = c.pattern_bytes, skew = c.to_offset_bytes % width,
                 begin = c.to_offset_bytes, end = begin + c.length_bytes;
  const cl_mem to = buffer_of(c.to)->memory;
  const auto* bytes = reinterpret_cast<const unsigned char*>(&c.pattern);
  unsigned char turned[8];
  for (uint64_t i = 0; i < width; ++i) turned[(i + skew) % width] = bytes[i];
  const uint64_t first = std::min(end, (begin + width - 1) / width * width),
                 last = std::max(first, end / width * width);
  cl_int code = CL_SUCCESS;
  auto run = [&](const unsigned char* pattern, uint64_t size, uint64_t from, uint64_t bytes) {
    if (code == CL_SUCCESS && bytes != 0)
      code = line.cl->clEnqueueFillBuffer(line.queue, to, pattern, size, from, bytes, 0, nullptr,
                                          nullptr);
  };
  for (uint64_t i = begin; i < first; ++i) run(turned + i % width, 1, i, 1);
  run(turned, width, first, last - first);
  for (uint64_t i = last; i < end; ++i) run(turned + i % width, 1, i, 1);
  return code;
}

Status copy(void*, tenon_device_t* d, const tenon_copy_t* c) {
  TENON_TRY(check_copy(*c));
  return enqueue_copy(*device_of(d)->own, *c, true);
}

}  // namespace

const Found* find_target(std::string_view target) {
  const auto at = std::find_if(found().begin(), found().end(),
                               [&](const Found& f) { return f.target == target; });
  return at == found().end() ? nullptr : &*at;
}

Status check_copy(const tenon_copy_t& c) {
  return tenon::check_copy(c, c.from != nullptr ? buffer_of(c.from)->size_bytes : 0,
                           c.to != nullptr ? buffer_of(c.to)->size_bytes : 0);
}

Status enqueue_copy(const Line& line, const tenon_copy_t& c, bool to_end) {
  if (c.length_bytes == 0) return {};
  const Functions& cl = *line.cl;
  const cl_mem from = c.from != nullptr ? buffer_of(c.from)->memory : nullptr,
               to = c.to != nullptr ? buffer_of(c.to)->memory : nullptr;
  cl_int code = CL_INVALID_VALUE;
  switch (c.direction) {
    case TENON_COPY_HOST_TO_DEVICE:
      code = cl.clEnqueueWriteBuffer(line.queue, to, to_end, c.to_offset_bytes, c.length_bytes,
                                     c.host_from, 0, nullptr, nullptr);
      break;
    case TENON_COPY_DEVICE_TO_HOST:
      code = cl.clEnqueueReadBuffer(line.queue, from, to_end, c.from_offset_bytes, c.length_bytes,
                                    c.host_to, 0, nullptr, nullptr);
      break;
    case TENON_COPY_DEVICE_TO_DEVICE:
      code = cl.clEnqueueCopyBuffer(line.queue, from, to, c.from_offset_bytes, c.to_offset_bytes,
                                    c.length_bytes, 0, nullptr, nullptr);
      break;
    default:
      code = fill(line, c);
  }
  TENON_TRY(check(code, "copying"));
  return to_end ? check(cl.clFinish(line.queue), "waiting for a copy") : Status();
}

const tenon_device_api_t kDeviceTable = {sizeof(tenon_device_api_t),
                                         nullptr,
                                         tenon::entry<count>,
                                         tenon::entry<info>,
                                         tenon::entry<open>,
                                         tenon::entry<close>,
                                         tenon::entry<alloc>,
                                         tenon::entry<free>,
                                         tenon::entry<copy>,
                                         nullptr,
                                         nullptr,
                                         tenon::entry<memory>,
                                         tenon::entry<alloc_pinned>,
                                         tenon::entry<free_pinned>};

}  // namespace opencl_sample
