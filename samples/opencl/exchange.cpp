// tenon.exchange/1: memory objects of other users of OpenCL. They are of one context, which
// CL_MEM_CONTEXT tells of any object that was exported.
#include <memory>

#include "device.h"

namespace opencl_sample {
namespace {

using tenon::cat;
using tenon::fail;
using tenon::Status;

constexpr std::string_view kKind = "opencl.mem";

Status check_kind(tenon_str_t kind) {
  if (tenon::view(kind) == kKind) return {};
  return fail(TENON_UNIMPLEMENTED, cat("opencl: there are no handles of the kind \"",
                                       tenon::view(kind), "\", only \"", kKind, "\""));
}

Status kinds(void*, tenon_device_t*, tenon_str_t* out) {
  *out = tenon::str(kKind);
  return {};
}

Status check_object(const Device& device, cl_mem object, const tenon_native_memory_t& wanted) {
  cl_context context = nullptr;
  size_t bytes = 0;
  TENON_TRY(check(
      device.cl->clGetMemObjectInfo(object, CL_MEM_CONTEXT, sizeof context, &context, nullptr),
      "asking for a memory object's context"));
  if (context != device.context)
    return fail(TENON_INVALID_ARGUMENT, "opencl: the memory object is of another context");
  TENON_TRY(check(device.cl->clGetMemObjectInfo(object, CL_MEM_SIZE, sizeof bytes, &bytes, nullptr),
                  "asking for a memory object's size"));
  if (wanted.offset_bytes > bytes || wanted.length_bytes > bytes - wanted.offset_bytes) {
    return fail(TENON_OUT_OF_RANGE,
                cat("opencl: bytes [", wanted.offset_bytes, ", ", wanted.offset_bytes, " + ",
                    wanted.length_bytes, ") of a memory object of ", bytes, " bytes"));
  }
  return {};
}

Status import_memory(void*, tenon_device_t* d, const tenon_native_memory_t* memory,
                     tenon_buffer_t** out) {
  Device& device = *device_of(d);
  const Functions& cl = *device.cl;
  TENON_TRY(check_kind(memory->kind));
  auto object = reinterpret_cast<cl_mem>(static_cast<uintptr_t>(memory->handle));
  if (object == nullptr) return fail(TENON_INVALID_ARGUMENT, "opencl: a handle of 0 is none");
  TENON_TRY(check_object(device, object, *memory));
  auto buffer = std::make_unique<Buffer>();
  buffer->size_bytes = memory->length_bytes;
  buffer->imported = true;
  if (memory->offset_bytes == 0) {
    TENON_TRY(check(cl.clRetainMemObject(object), "keeping a memory object"));
    buffer->memory = object;
  } else {
    const cl_buffer_region region = {memory->offset_bytes,
                                     memory->length_bytes == 0 ? 1 : memory->length_bytes};
    cl_int code = CL_SUCCESS;
    buffer->memory = cl.clCreateSubBuffer(object, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION,
                                          &region, &code);
    if (code == CL_MISALIGNED_SUB_BUFFER_OFFSET) {
      return fail(TENON_UNIMPLEMENTED, cat("opencl: the offset ", memory->offset_bytes,
                                           " is not a multiple of ", alignment_of(*device.found)));
    }
    TENON_TRY(check(code, "making a part of a memory object"));
  }
  *out = reinterpret_cast<tenon_buffer_t*>(buffer.release());
  return {};
}

Status export_memory(void*, tenon_device_t*, tenon_buffer_t* b, tenon_str_t kind,
                     tenon_native_memory_t* out) {
  TENON_TRY(check_kind(kind));
  tenon_native_memory_t made = {};
  made.kind = tenon::str(kKind);
  made.handle = reinterpret_cast<uintptr_t>(buffer_of(b)->memory);
  made.length_bytes = buffer_of(b)->size_bytes;
  return tenon::give_record(out, made);
}

}  // namespace

const tenon_exchange_api_t kExchangeTable = {sizeof(tenon_exchange_api_t), nullptr,
                                             tenon::entry<kinds>, tenon::entry<import_memory>,
                                             tenon::entry<export_memory>};

}  // namespace opencl_sample
