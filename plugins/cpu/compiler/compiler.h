/* The boundary between the cpu plugin and libtenon-clang.so.
 *
 * libtenon-clang.so holds clang 19 and lld, linked statically and hidden, and exports one function,
 * tenon_clang_query. It is opened only on a miss of the object cache, so a warm process never maps
 * it. This header is internal to the cpu plugin. It is plain C, so that the library is built once
 * and serves every configuration, sanitizer builds included. Other plugins use tenon.toolchain/1.
 *
 * Threads: `build` is safe from any number of threads at once. `link` may be called from any
 * thread; calls are serialised, because lld keeps its state in globals.
 * Safety: text that clang accepts can still abort its code generator, which ends the process. Text
 * written by users is therefore compiled by the program tenon-cc (compiler_process.h).
 */
#ifndef TENON_PLUGINS_CPU_COMPILER_COMPILER_H_
#define TENON_PLUGINS_CPU_COMPILER_COMPILER_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_CLANG_ABI 3u
#define TENON_CLANG_QUERY_NAME "tenon_clang_query"

/* Not null-terminated; borrowed for the call. */
typedef struct {
  const char* data;
  uint64_t size;
} tenon_clang_str_t;

/* Receives bytes, possibly in several pieces, during the call that it is passed to. */
typedef void (*tenon_clang_sink_fn)(void* context, const char* data, uint64_t size);

/* A library that lacks a dialect returns TENON_CLANG_BAD_ARGUMENT. */
enum {
  TENON_CLANG_CXX = 0,
  TENON_CLANG_OPENCL_C = 1,
  TENON_CLANG_OPENCL_C_WATCHED = 2,
  TENON_CLANG_CUDA = 3, /* the device's side of CUDA C++20, without CUDA's headers */
  TENON_CLANG_HIP = 4,  /* the device's side of HIP C++20, without HIP's headers and libraries */
  TENON_CLANG_ITEMS_CXX = 5, /* C++20 with kernels for work items, run on this machine */
  TENON_CLANG_ITEMS_CXX_WATCHED = 6
};
/* The machine that C++ is compiled for. OpenCL C is for the machine that the library was built for.
 */
enum { TENON_CLANG_X86_64 = 0, TENON_CLANG_AARCH64 = 1 };
enum { TENON_CLANG_OBJECT = 0, TENON_CLANG_ASSEMBLY = 1, TENON_CLANG_LLVM_IR = 2 };
enum {
  TENON_CLANG_OK = 0,
  TENON_CLANG_BAD_ARGUMENT = 1, /* an option that this library lacks */
  TENON_CLANG_BAD_TEXT = 2,     /* the text has errors; see diagnostics */
  TENON_CLANG_BROKEN = 3        /* lld failed in a way that forbids another link in this process */
};

typedef struct {
  uint32_t size_bytes;
  uint32_t dialect;           /* TENON_CLANG_CXX (C++20), TENON_CLANG_OPENCL_C (2.0), ... */
  uint32_t opt_level;         /* 0 to 3; 1 is the first tier: the emitter shapes the hot loops */
  uint32_t output;            /* TENON_CLANG_OBJECT, ... */
  tenon_clang_str_t cpu;      /* "x86-64-v4", "generic"; CUDA: "sm_90"; HIP: "gfx942" */
  tenon_clang_str_t features; /* comma separated: "+avx512bf16,-fma", "+ptx78"; may be empty */
  tenon_clang_str_t name;     /* file name in diagnostics; empty: "kernel" */
  uint32_t machine;           /* TENON_CLANG_X86_64, ...; CUDA: of the host */
  uint32_t reserved;
} tenon_clang_options_t;

typedef struct {
  uint32_t size_bytes;
  uint32_t abi; /* TENON_CLANG_ABI of the library */
  /* Identifies compiler and build, for cache keys. */
  tenon_clang_str_t version;

  /* Compiles one unit of text to a freestanding, position-independent object (or to text, see
   * options.output). Does not read or write files. Warnings and errors go to `diagnostics` as clang
   * prints them.
   *
   * OpenCL C: the unit also gets, for every kernel NAME(args...),
   *   void NAME__run(void* const* args, const uint64_t* global_size, const uint64_t* begin,
   *                  const uint64_t* end)
   * which runs the work items of the box begin..end (three dims each) one after another on the
   * calling thread, each as a group of its own. args[i] is the buffer itself for a pointer
   * parameter (also for __local ones: the caller provides the memory) and the address of the value
   * otherwise. The function is reentrant and safe from several threads. barrier() is refused,
   * because items do not run together. A kernel's variables in local memory belong to the calling
   * thread.
   *
   * Items C++: the same with C++20. A kernel is a function annotated [[clang::annotate("kernel")]];
   * a parameter of it annotated "= TEXT" has the value of that expression and no args[i]; variables
   * in the section "tenon.local" are in local memory.
   *
   * CUDA: the output is TENON_CLANG_ASSEMBLY, which is PTX, or TENON_CLANG_LLVM_IR.
   *
   * HIP: TENON_CLANG_OBJECT is a relocatable object of AMDGPU's ELF, which `link_code_object` turns
   * into what HIP's runtime loads. TENON_CLANG_ASSEMBLY says what registers each kernel needs.
   *
   * Watched: before every access to memory other than the work item's own variables, the
   * kernel calls the function that this variable of the module points to, null at first (kind: 0
   * read, 1 write, + 2 atomic):
   *   void (*tenon_opencl_access)(const void* address, uint64_t size, uint32_t kind);
   * The module also lists its own variables, those in local memory as the calling thread sees them:
   *   void tenon_opencl_variables(void (*visit)(void* context, const char* name, void* address,
   *                               uint64_t size, uint32_t local), void* context);
   */
  int32_t (*build)(tenon_clang_str_t text, const tenon_clang_options_t* options,
                   tenon_clang_sink_fn output, void* output_context,
                   tenon_clang_sink_fn diagnostics, void* diagnostics_context);

  /* Links objects, all of one machine, into the bytes of a small shared object. Writes nothing to
   * disk. Undefined symbols are left to the loader (memcpy and the mathematics library). */
  int32_t (*link)(const tenon_clang_str_t* objects, uint64_t object_count,
                  tenon_clang_sink_fn output, void* output_context, tenon_clang_sink_fn diagnostics,
                  void* diagnostics_context);

  /* Links one object of dialect HIP into a code object. Nothing may be undefined. Null in libraries
   * that lack the dialect: see size_bytes. */
  int32_t (*link_code_object)(tenon_clang_str_t object, tenon_clang_sink_fn output,
                              void* output_context, tenon_clang_sink_fn diagnostics,
                              void* diagnostics_context);
} tenon_clang_t;

/* The one exported symbol. Returns null when the library does not support `abi`. Thread safe. */
typedef const tenon_clang_t* (*tenon_clang_query_fn)(uint32_t abi);

#ifdef __cplusplus
}
#endif
#endif /* TENON_PLUGINS_CPU_COMPILER_COMPILER_H_ */
