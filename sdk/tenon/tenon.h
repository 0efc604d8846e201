/* Tenon for C programs: load a model, compile it, call it. Start here; link libtenon.so.
 *
 *     tenon_model_t* model;
 *     tenon_program_t* program;
 *     const int64_t dims[] = {1, 1, 8, 8};
 *     tenon_dense_t image = tenon_dense(TENON_F32, pixels, 4, dims), scores = {0};
 *     if (tenon_load("digits.onnx", &model) || tenon_compile(model, NULL, &program) ||
 *         tenon_call(program, &image, 1, &scores, 1)) {
 *       fprintf(stderr, "%s\n", tenon_error());
 *       return 1;
 *     }
 *     print(scores.data, scores.rank, scores.dims);
 *     tenon_dense_release(&scores, 1);
 *     tenon_program_release(program);
 *     tenon_model_release(model);
 *
 * Five rules hold for every function of this header:
 *
 * 1. Errors. A function that can fail returns TENON_OK, which is 0, or another code of
 *    tenon/abi/base.h. tenon_error() then returns the reason. Outputs are untouched on failure.
 * 2. Ownership. An object that a function creates belongs to the caller, who releases it with the
 *    function of its type. Releasing null does nothing. Objects may be released in any order: one
 *    that needs another keeps it.
 * 3. Threads. Every function may be called from any thread, also at the same time with the same
 *    objects. An object is released once, when no other function is using it.
 * 4. Memory. Texts end with a zero byte and are UTF-8. Arrays and texts that the caller passes are
 *    read until the function returns, and not kept.
 * 5. Compatibility. These functions are stable: later versions add functions and change none.
 *
 * The first call opens the host of the process: it reads the environment (TENON_*) and finds the
 * plugins. To set options in the program instead, call tenon_host_open (tenon/abi/session.h) first.
 * The C tables offer everything that is missing here: strides, tensors that stay on a device,
 * streams, cancelling, profiles. They take the same objects: see tenon/abi/call.h. C++ programs
 * have tenon/cpp/session.hpp.
 */
#ifndef TENON_TENON_H_
#define TENON_TENON_H_

#include "tenon/abi/session.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the reason of this thread's last failure, "T0601: ...": what failed, where, and what to
 * do. Empty if nothing has failed. The text is valid until the thread's next call of this
 * function. */
TENON_EXPORT const char* tenon_error(void);

/* ---- Models and programs ---- */

/* Reads a model from a file: ONNX, .tir, or any format for which there is a frontend. Compiles
 * nothing. Fails as tenon_host_session_t::model_load. */
TENON_EXPORT tenon_code_t tenon_load(const char* path, tenon_model_t** out_model);
TENON_EXPORT void tenon_model_release(tenon_model_t* model);

/* Compiles a model and loads the code on its devices. device: "cpu", or several in order of
 * preference, "sim,cpu"; null: TENON_DEVICE, else the cheapest. A node that no named device
 * supports runs on another one. Fails as tenon_host_session_t::compile. */
TENON_EXPORT tenon_code_t tenon_compile(tenon_model_t* model, const char* device,
                                        tenon_program_t** out_program);
/* Compiles a model and writes the program to a package: one file that runs without the model and
 * without a compiler. The file appears complete or not at all. Fails as
 * tenon_host_package_t::save. */
TENON_EXPORT tenon_code_t tenon_save(tenon_model_t* model, const char* device, const char* path);
/* Loads the program of a package. The file must not change while the program exists. A package
 * holds native code: load only packages that you trust. Fails as tenon_host_package_t::load. */
TENON_EXPORT tenon_code_t tenon_open(const char* path, tenon_program_t** out_program);
/* Outputs of calls remain valid. */
TENON_EXPORT void tenon_program_release(tenon_program_t* program);

/* ---- Inputs and outputs ---- */

/* Describes the program's inputs and outputs: names, element types and dims, of which a symbolic
 * one is -1. The caller sets out_info->size_bytes. The records belong to the program. */
TENON_EXPORT tenon_code_t tenon_program_ports(tenon_program_t* program,
                                              tenon_model_info_t* out_info);
/* Return the position of the input or output of this name, or UINT32_MAX. */
TENON_EXPORT uint32_t tenon_input_index(tenon_program_t* program, const char* name);
TENON_EXPORT uint32_t tenon_output_index(tenon_program_t* program, const char* name);

/* An input or an output: an array in host memory, dense and row-major. */
typedef struct tenon_dense_t {
  tenon_dtype_t dtype;
  uint16_t reserved;
  uint32_t rank;
  const int64_t* dims;
  void* data;    /* of an input, only read */
  void* storage; /* owns dims and data if tenon_call allocated them; else null */
} tenon_dense_t;

/* Describes an array of the caller. Copies nothing. */
static inline tenon_dense_t tenon_dense(tenon_dtype_t dtype, const void* data, uint32_t rank,
                                        const int64_t* dims) {
  tenon_dense_t out = {dtype, 0, rank, dims, (void*)(uintptr_t)data, 0};
  return out;
}

/* Runs the program and returns when its outputs are ready. Inputs and outputs are in the program's
 * order. An output whose data is not null is memory of the caller: its dtype and dims must be those
 * of the result. Any other output is replaced by an array that Tenon allocates: release the array
 * of an earlier call before. On failure, memory of the caller may have been written. Calls of one
 * program run at the same time. Fails as tenon_host_call_t::call. */
TENON_EXPORT tenon_code_t tenon_call(tenon_program_t* program, const tenon_dense_t* inputs,
                                     uint32_t input_count, tenon_dense_t* outputs,
                                     uint32_t output_count);
/* Releases the arrays that tenon_call allocated, and zeroes their records. Arrays of the caller
 * stay as they are. */
TENON_EXPORT void tenon_dense_release(tenon_dense_t* arrays, uint32_t count);

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
