/* Tenon ABI: calls of a program (tenon.host.call/1). Inputs and outputs go by position, any thread
 * may call at any time, and outputs land in the caller's memory or in memory that the caller then
 * owns. This is the path for servers and for the bindings of other languages; tenon_binding_t
 * (session.h) does the same by name, one run after another, and profiles.
 *
 *     tenon_array_t x = {sizeof x, TENON_F32, 0, 2, 0, data, dims, NULL}, y = {sizeof y};
 *     tenon_output_t out = {sizeof out, TENON_OUTPUT_OWNED, &y, NULL};
 *     tenon_program_call_t c = {sizeof c, 1, 1, 0, &x, &out, 0, 0, 0};
 *     calls->call(calls->self, program, &c);     then y, until result_release(out.result)
 *
 * Users: sdk/tenon/cpp/session.hpp; the other one will be Python. Unstable until the second edition
 * is closed.
 */
#ifndef TENON_ABI_CALL_H_
#define TENON_ABI_CALL_H_

#include "tenon/abi/session.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_HOST_CALL_ID "tenon.host.call/1"

/* Memory of one output that belongs to the caller, who may write it. It outlives its program,
 * counts against TENON_MEMORY_LIMIT until it is released, and must not be touched once the process
 * runs its exit functions. */
typedef struct tenon_result_t tenon_result_t;

#define TENON_OUTPUT_OWNED 0u /* the host gives dense memory, which the caller releases */
#define TENON_OUTPUT_GIVEN 1u /* the caller gives memory, dense or strided */

typedef struct tenon_output_t {
  uint32_t size_bytes;
  uint32_t kind; /* TENON_OUTPUT_* */
  /* GIVEN: read. Element type and dims must be those of the result, which is known after the run.
   * Strides must not let elements share bytes, nor interleave axes in other ways than slices and
   * transposes do; elements of less than a byte take none. From its first to its last byte it must
   * not overlap another GIVEN output. It may be the memory of an input of this call: inputs are
   * read before outputs are written.
   * OWNED: filled. data and dims live as long as `result`; data is aligned as the device allocates,
   * and may be null when there are no elements, as dims when there are none. */
  tenon_array_t* array;
  tenon_result_t* result; /* OWNED: set on success, else untouched; shares no memory with others */
} tenon_output_t;

typedef struct tenon_program_call_t {
  uint32_t size_bytes;
  uint32_t input_count, output_count; /* those of the model */
  uint32_t reserved;
  /* In the model's order; records are as far apart as the first one's size_bytes says. Borrowed for
   * the call, and not for another one at the same time. */
  const tenon_array_t* inputs;
  tenon_output_t* outputs;
  /* Filled on success. Strided inputs that were made dense; what went between host and device
   * memory; results that were copied into GIVEN memory or away from memory that is not theirs. */
  uint64_t repacked_bytes, transferred_bytes, copied_out_bytes;
} tenon_program_call_t;

typedef struct tenon_host_call_t {
  uint32_t size_bytes;
  void* self;

  /* Runs the program to its end; it must not be released before. Calls of one program run at the
   * same time, each with working memory of its own, which is kept for later calls until memory is
   * short. Where shapes follow from values of inputs, the program is compiled first. Fails as
   * tenon_host_session_t::bind_input and run do, with T0601 for another number of arrays, and with
   * T0620 for an output that does not fit; then no output is written or given. Cancelled by
   * tenon_host_session_t::cancel, with all other operations of the process. Not after fork. Safe.
   */
  tenon_code_t (*call)(void* self, tenon_program_t* program, tenon_program_call_t* call);
  /* Null is fine. May call the device's plugin, and so replace this thread's last failure. Safe. */
  void (*result_release)(void* self, tenon_result_t* result);
} tenon_host_call_t;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
