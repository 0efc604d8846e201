// The device `@NAME@`: memory, copies and one kernel. Ops that it refuses run on the cpu, with
// copies that the host inserts. Replace the bodies of alloc, copy and add_f32 with code for your
// hardware, and add kernels to the table at the end.
#include <memory>
#include <new>
#include <vector>

#include <tenon/abi/device.h>
#include <tenon/abi/simple_kernels.h>
#include <tenon/cpp/copy.hpp>
#include <tenon/cpp/plugin.hpp>

namespace {

using tenon::fail;
using tenon::Status;
using tenon::str;

constexpr uint64_t kAlignmentBytes = 64;

struct Buffer {
  std::unique_ptr<unsigned char[]> memory;
  unsigned char* data;  // aligned, inside memory
  uint64_t size_bytes;
};
Buffer* buffer_of(const tenon_buffer_t* b) {
  return reinterpret_cast<Buffer*>(const_cast<tenon_buffer_t*>(b));
}

Status count(void*, uint32_t* out) {
  *out = 1;
  return {};
}

Status check_ordinal(uint32_t ordinal) {
  return ordinal == 0 ? Status()
                      : fail(TENON_NOT_FOUND,
                             tenon::cat("there is one @NAME@ device, and no number ", ordinal));
}

Status info(void*, uint32_t ordinal, tenon_device_info_t* out) {
  TENON_TRY(check_ordinal(ordinal));
  const tenon_device_info_t made = {.size_bytes = sizeof made,
                                    .threading = TENON_THREADING_FREE,
                                    .kind = str("@NAME@"),
                                    .description = str("host memory and one kernel"),
                                    .target = str("@NAME@"),
                                    .alignment_bytes = kAlignmentBytes};
  return tenon::give_record(out, made);
}

Status open(void*, uint32_t ordinal, tenon_device_t** out) {
  static char device;  // no state: any address will do
  TENON_TRY(check_ordinal(ordinal));
  *out = reinterpret_cast<tenon_device_t*>(&device);
  return {};
}
Status close(void*, tenon_device_t*) {
  return {};
}

Status alloc(void*, tenon_device_t*, uint64_t size_bytes, tenon_buffer_t** out) {
  if (size_bytes > UINT64_MAX / 4)
    return fail(TENON_RESOURCE_EXHAUSTED, tenon::cat("no machine has ", size_bytes, " bytes"));
  auto buffer = std::make_unique<Buffer>();
  buffer->memory.reset(new (std::nothrow) unsigned char[size_bytes + kAlignmentBytes]);
  unsigned char* memory = buffer->memory.get();
  if (memory == nullptr)
    return fail(TENON_RESOURCE_EXHAUSTED, tenon::cat("cannot allocate ", size_bytes, " bytes"));
  const uint64_t misaligned = reinterpret_cast<uintptr_t>(memory) % kAlignmentBytes;
  buffer->data = memory + (kAlignmentBytes - misaligned);
  buffer->size_bytes = size_bytes;
  *out = reinterpret_cast<tenon_buffer_t*>(buffer.release());
  return {};
}
Status free_buffer(void*, tenon_device_t*, tenon_buffer_t* buffer) {
  delete buffer_of(buffer);
  return {};
}

Status copy(void*, tenon_device_t*, const tenon_copy_t* c) {
  const Buffer *from = buffer_of(c->from), *to = buffer_of(c->to);
  TENON_TRY(tenon::check_copy(*c, from ? from->size_bytes : 0, to ? to->size_bytes : 0));
  tenon_copy_perform(c, from ? from->data : nullptr, to ? to->data : nullptr);
  return {};
}

Status map(void*, tenon_device_t*, tenon_buffer_t* buffer, void** out) {
  *out = buffer_of(buffer)->data;
  return {};
}

tenon_code_t add_f32(const tenon_simple_run_t* run) {
  const auto* a = static_cast<const float*>(run->inputs[0].data);
  const auto* b = static_cast<const float*>(run->inputs[1].data);
  auto* out = static_cast<float*>(run->outputs[0].data);
  for (uint64_t i = 0; i < run->outputs[0].elements; ++i) out[i] = a[i] + b[i];
  return TENON_OK;
}

constexpr tenon_device_api_t kDevice = {.size_bytes = sizeof(tenon_device_api_t),
                                        .self = nullptr,
                                        .count = tenon::entry<count>,
                                        .info = tenon::entry<info>,
                                        .open = tenon::entry<open>,
                                        .close = tenon::entry<close>,
                                        .alloc = tenon::entry<alloc>,
                                        .free = tenon::entry<free_buffer>,
                                        .copy = tenon::entry<copy>,
                                        .map = tenon::entry<map>,
                                        .import = nullptr,
                                        .memory = nullptr};
constexpr tenon_simple_kernel_t kKernelList[] = {
    {"add", TENON_DTYPE_BIT(TENON_F32), nullptr, add_f32}};
tenon_kernels_api_t g_kernels;
constexpr tenon_interface_t g_interfaces[] = {tenon::offer(TENON_DEVICE_ID, kDevice),
                                              tenon::offer(TENON_KERNELS_ID, g_kernels)};

// Runs in the entry, which is called once.
Status start() {
  return tenon_simple_kernels(tenon::context().host, "@NAME@", &kDevice, kKernelList,
                              std::size(kKernelList), &g_kernels);
}

}  // namespace

TENON_PLUGIN("@NAME@", "0.1.0", g_interfaces, start)
