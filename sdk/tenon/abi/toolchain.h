/* Tenon ABI: toolchains (tenon.toolchain/1): C-family text to object bytes, object bytes to
 * callables. The cpu plugin provides one with clang; sim, kernels written in Python and packages
 * use it.
 *
 *
 * Stability: stable.
 */
#ifndef TENON_ABI_TOOLCHAIN_H_
#define TENON_ABI_TOOLCHAIN_H_

#include "tenon/abi/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_TOOLCHAIN_ID "tenon.toolchain/1"
#define TENON_TOOLCHAIN_MINOR 0u

typedef struct tenon_module_t tenon_module_t;

/* Dialects. In all of them floats are rounded as the text says: a product and a sum are one
 * instruction where the text asks for it, by fma or by a pragma, and nowhere else. "opencl-c": for
 * every kernel NAME the module has NAME__run with the signature tenon_opencl_run_t, which runs the
 * work items of [begin, end) one after another. Barriers are refused. A kernel's variables in local
 * memory belong to the calling thread. "c++": freestanding, without headers. */
#define TENON_DIALECT_CPP "c++"
#define TENON_DIALECT_OPENCL_C "opencl-c"
/* The device's side of CUDA C++20, without CUDA's headers and libraries; the result is PTX, for the
 * driver and not for load. Targets are "cuda ARCHITECTURE": "cuda sm_90". isolated is refused. */
#define TENON_DIALECT_CUDA_CPP "cuda-c++"
/* The same of HIP C++20; the result is a code object of AMDGPU's ELF, for HIP's runtime. Targets
 * are "rocm ARCHITECTURE": "rocm gfx942". */
#define TENON_DIALECT_HIP_CPP "hip-c++"

/* C++20 for work items, run on this machine as "opencl-c" is, so that text for GPUs can be tried
 * without one. A kernel is a function annotated [[clang::annotate("kernel")]]; a parameter of it
 * annotated "= TEXT" has the value of that expression and takes no argument; variables in the
 * section "tenon.local" are in local memory. Takes TENON_TOOLCHAIN_WATCH. */
#define TENON_DIALECT_ITEMS_CPP "items-c++"

typedef void (*tenon_opencl_run_t)(void* const* args, const uint64_t global_size[3],
                                   const uint64_t begin[3], const uint64_t end[3]);

/* An option of "opencl-c" and "items-c++", value "1": the module reports its memory accesses. Set
 * its variable "tenon_opencl_access", of type tenon_opencl_access_t and initially null, before a
 * kernel runs. Kernels call it before each access to memory other than the work item's variables,
 * and it need not return. The module's function "tenon_opencl_variables", of type
 * tenon_opencl_variables_t, lists its own variables; those in local memory (local 1) belong to the
 * calling thread. */
#define TENON_TOOLCHAIN_WATCH "watch"

typedef void (*tenon_opencl_access_t)(const void* address, uint64_t size_bytes, uint32_t kind);
#define TENON_OPENCL_WRITE 1u /* in kind: not a read */
#define TENON_OPENCL_ATOMIC 2u
typedef void (*tenon_opencl_variables_t)(void (*visit)(void* context, const char* name,
                                                       void* address, uint64_t size_bytes,
                                                       uint32_t local),
                                         void* context);

typedef struct tenon_toolchain_options_t {
  uint32_t size_bytes;
  uint32_t optimise; /* 0..3; the first tier is 1 */
  uint32_t isolated; /* 1: in a helper process, for text that users wrote */
  uint32_t reserved;
  const tenon_key_value_t* options;
  uint32_t option_count;
  uint32_t reserved2;
} tenon_toolchain_options_t;

typedef struct tenon_toolchain_api_t {
  uint32_t size_bytes;
  void* self;
  tenon_str_t name;     /* "clang" */
  tenon_str_t dialects; /* comma-separated */
  /* Of the compiler and of all that it is asked with; part of the key wherever others keep what
   * build made. */
  tenon_str_t version;
  /* target: tenon_device_info_t::target of the device that will run the code; empty: this machine.
   * INVALID_ARGUMENT with diagnostics for text that does not compile. A cached result needs no
   * compiler. Safe. */
  tenon_code_t (*build)(void* self, tenon_str_t target, tenon_str_t dialect, tenon_str_t text,
                        const tenon_toolchain_options_t* options, const tenon_sink_t* object,
                        const tenon_sink_t* diagnostics);
  tenon_code_t (*load)(void* self, const void* bytes, uint64_t size_bytes,
                       tenon_module_t** out_module);
  /* Lives as long as the module. NOT_FOUND. */
  tenon_code_t (*symbol)(void* self, tenon_module_t* module, tenon_str_t name, void** out_address);
  void (*release)(void* self, tenon_module_t* module); /* none of its code is running */
} tenon_toolchain_api_t;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
