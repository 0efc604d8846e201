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
 * Users: sdk/tenon/cpp/session.hpp, samples/embed. Unstable until the second edition is closed.
 */
#ifndef TENON_ABI_CALL_H_
#define TENON_ABI_CALL_H_

#include "tenon/abi/session.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_HOST_CALL_ID "tenon.host.call/1"

/* Memory of one output that belongs to the caller. It outlives its program. */
typedef struct tenon_result_t tenon_result_t;

#define TENON_OUTPUT_OWNED 0u /* the host gives dense memory, which the caller releases */
#define TENON_OUTPUT_GIVEN 1u /* the caller gives memory, dense or strided */

typedef struct tenon_output_t {
  uint32_t size_bytes;
  uint32_t kind; /* TENON_OUTPUT_* */
  /* GIVEN: read. Element type and dims must be those of the result; strides must not let two
   * elements share bytes. The memory may be that of an input: inputs are read before any output is
   * written. OWNED: filled; data and dims live as long as `result`. */
  tenon_array_t* array;
  tenon_result_t* result; /* OWNED: filled on success; no other result shares its memory */
} tenon_output_t;

typedef struct tenon_program_call_t {
  uint32_t size_bytes;
  uint32_t input_count, output_count; /* those of the model */
  uint32_t reserved;
  /* In the model's order; records are as far apart as the first one's size_bytes says. Borrowed. */
  const tenon_array_t* inputs;
  tenon_output_t* outputs;
  /* Filled on success. Strided inputs that were made dense; what went between host and device
   * memory; results that were copied into GIVEN memory or away from memory that is not theirs. */
  uint64_t repacked_bytes, transferred_bytes, copied_out_bytes;
} tenon_program_call_t;

typedef struct tenon_host_call_t {
  uint32_t size_bytes;
  void* self;

  /* Runs the program to its end. Calls of one program run at the same time, each with working
   * memory of its own, which is kept for later calls. The program is compiled first where its
   * shapes follow from values of inputs. Fails as tenon_host_session_t::run does, with T0620 for an
   * output that does not fit, and cancelled as that is; then no output is written or given. Safe.
   */
  tenon_code_t (*call)(void* self, tenon_program_t* program, tenon_program_call_t* call);
  /* Null is fine. Safe. */
  void (*result_release)(void* self, tenon_result_t* result);
} tenon_host_call_t;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
