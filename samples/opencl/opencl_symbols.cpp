#include "opencl_symbols.h"

#include <dlfcn.h>

#include "tenon/cpp/plugin.hpp"

namespace opencl_sample {
namespace {

struct Loaded {
  Functions functions;
  std::string why;
};

Loaded load() {
  Loaded out;
  void* library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    out.why =
        "libOpenCL.so.1 is not installed (Debian: ocl-icd-libopencl1, and an implementation such "
        "as pocl-opencl-icd)";
    return out;
  }
#define OPENCL_SAMPLE_LOOK_UP(name)                                                \
  out.functions.name = reinterpret_cast<decltype(&::name)>(dlsym(library, #name)); \
  if (out.functions.name == nullptr) out.why = "libOpenCL.so.1 has no " #name;
  OPENCL_SAMPLE_FUNCTIONS(OPENCL_SAMPLE_LOOK_UP)
#undef OPENCL_SAMPLE_LOOK_UP
  return out;
}

}  // namespace

const Functions* functions(std::string* why) {
  static const Loaded loaded = load();
  *why = loaded.why;
  return loaded.why.empty() ? &loaded.functions : nullptr;
}

namespace {

// "CL_OUT_OF_RESOURCES (-5)"; the name of the common ones, else the number.
std::string error_text(cl_int code) {
  const char* name = "OpenCL error";
  switch (code) {
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
      name = "CL_MEM_OBJECT_ALLOCATION_FAILURE";
      break;
    case CL_OUT_OF_RESOURCES:
      name = "CL_OUT_OF_RESOURCES";
      break;
    case CL_OUT_OF_HOST_MEMORY:
      name = "CL_OUT_OF_HOST_MEMORY";
      break;
    case CL_BUILD_PROGRAM_FAILURE:
      name = "CL_BUILD_PROGRAM_FAILURE";
      break;
    case CL_INVALID_BUFFER_SIZE:
      name = "CL_INVALID_BUFFER_SIZE";
      break;
    case CL_INVALID_WORK_GROUP_SIZE:
      name = "CL_INVALID_WORK_GROUP_SIZE";
      break;
    case CL_MISALIGNED_SUB_BUFFER_OFFSET:
      name = "CL_MISALIGNED_SUB_BUFFER_OFFSET";
      break;
    case CL_INVALID_KERNEL_ARGS:
      name = "CL_INVALID_KERNEL_ARGS";
      break;
    default:
      break;
  }
  return tenon::cat(name, " (", code, ")");
}

}  // namespace

tenon::Status check(cl_int code, std::string_view doing) {
  if (code == CL_SUCCESS) return {};
  const bool memory = code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_RESOURCES ||
                      code == CL_OUT_OF_HOST_MEMORY || code == CL_INVALID_BUFFER_SIZE;
  return tenon::fail(memory ? TENON_RESOURCE_EXHAUSTED : TENON_INTERNAL,
                     tenon::cat("opencl: ", doing, ": ", error_text(code)));
}

}  // namespace opencl_sample
