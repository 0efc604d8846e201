/* Tenon ABI: programs that only run packages, in C. A helper, not an interface, compiled into the
 * program, which links libtenon.so and includes nothing else.
 *
 *     tenon_run_t model;
 *     if (tenon_run_load(&model, "model.tpk") != TENON_OK) return complain();
 *     tenon_run_value_t in[1] = {tenon_run_value(TENON_F32, x, 2, dims)}, out[1] = {{0}};
 *     if (tenon_run_call(&model, in, 1, out, 1) != TENON_OK) return complain();
 *     use(out[0].data, out[0].dims);
 *     tenon_run_drop(&model, out, 1);
 *     tenon_run_unload(&model);
 *
 * complain() prints what tenon_run_reason() writes. Packages are made by `tenon compile MODEL -o
 * MODEL.tpk`. What is not here, such as values that stay on a device, streams and cancelling, is in
 * call.h and operation.h, and works with `program` of the same record.
 *
 * Users: samples/embed/run_package.c, tests/cross/run_arrays.c.
 */
#ifndef TENON_ABI_SIMPLE_RUN_H_
#define TENON_ABI_SIMPLE_RUN_H_

#include <stdlib.h>
#include <string.h>

#include "tenon/abi/call.h"
#include "tenon/abi/package.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A loaded package. Filled by tenon_run_load, and not changed afterwards. */
typedef struct tenon_run_t {
  const tenon_host_t* host; /* null: the host could not be opened */
  const tenon_host_call_t* calls;
  const tenon_host_package_t* packages;
  const tenon_host_session_t* session;
  tenon_program_t* program;
  tenon_model_info_t ports; /* names, types and dims of inputs and outputs */
} tenon_run_t;

/* An input or an output: dense, row-major. */
typedef struct tenon_run_value_t {
  tenon_dtype_t dtype;
  uint32_t rank;
  const int64_t* dims;
  void* data;
  tenon_tensor_t* tensor; /* owns dims and data of an output that tenon_run_call made; else null */
} tenon_run_value_t;

/* The caller's memory as a value; borrowed. data: of an input it is only read. */
static inline tenon_run_value_t tenon_run_value(tenon_dtype_t dtype, const void* data,
                                                uint32_t rank, const int64_t* dims) {
  tenon_run_value_t value;
  memset(&value, 0, sizeof value);
  value.dtype = dtype;
  value.rank = rank;
  value.dims = dims;
  value.data = (void*)(uintptr_t)data;
  return value;
}

static inline tenon_str_t tenon_run_text_(const char* text) {
  tenon_str_t out;
  out.data = text;
  out.size = strlen(text);
  return out;
}

/* Why the last call on this thread failed, "T0521: ...", terminated and cut to `size` bytes. Empty
 * text if there is no reason. `run` may be one whose load failed. Safe. */
static inline void tenon_run_reason(const tenon_run_t* run, char* text, size_t size) {
  size_t length = 0;
  tenon_failure_t failure;
  if (size == 0) return;
  text[0] = 0;
  if (run->host == NULL) return;
  memset(&failure, 0, sizeof failure);
  failure.size_bytes = sizeof failure;
  if (run->host->last_failure(run->host->self, &failure) != TENON_OK) return;
  for (int part = 0; part < 3; ++part) {
    const tenon_str_t separator = {": ", failure.id.size == 0 ? 0u : 2u};
    const tenon_str_t piece = part == 0 ? failure.id : part == 1 ? separator : failure.message;
    const size_t room = size - 1 - length;
    const size_t taken = piece.size < room ? (size_t)piece.size : room;
    if (taken != 0) memcpy(text + length, piece.data, taken);
    length += taken;
  }
  text[length] = 0;
}

static inline tenon_code_t tenon_run_find_(const tenon_run_t* run, const char* id,
                                           const void** out) {
  return run->host->query(run->host->self, tenon_run_text_(id), 0, out);
}

/* Loads a package. On failure there is nothing to unload. Fails as tenon_host_open and
 * tenon_host_package_t::load do. Safe. */
static inline tenon_code_t tenon_run_load(tenon_run_t* run, const char* path) {
  const void* table = NULL;
  tenon_code_t code;
  memset(run, 0, sizeof *run);
  code = tenon_host_open(TENON_ABI_VERSION, NULL, &run->host);
  if (code != TENON_OK) return code;
  if ((code = tenon_run_find_(run, TENON_HOST_SESSION_ID, &table)) != TENON_OK) return code;
  run->session = (const tenon_host_session_t*)table;
  if ((code = tenon_run_find_(run, TENON_HOST_CALL_ID, &table)) != TENON_OK) return code;
  run->calls = (const tenon_host_call_t*)table;
  if ((code = tenon_run_find_(run, TENON_HOST_PACKAGE_ID, &table)) != TENON_OK) return code;
  run->packages = (const tenon_host_package_t*)table;
  code = run->packages->load(run->packages->self, tenon_run_text_(path), NULL, &run->program);
  if (code != TENON_OK) return code;
  run->ports.size_bytes = sizeof run->ports;
  code = run->packages->ports(run->packages->self, run->program, &run->ports);
  if (code != TENON_OK) run->session->program_release(run->session->self, run->program);
  return code;
}

/* After all calls have returned; outputs outlive it. */
static inline void tenon_run_unload(tenon_run_t* run) {
  run->session->program_release(run->session->self, run->program);
  run->program = NULL;
}

static inline uint32_t tenon_run_index_(const tenon_port_t* ports, uint32_t count,
                                        const char* name) {
  const size_t size = strlen(name);
  for (uint32_t i = 0; i < count; ++i) {
    if (ports[i].name.size == size && memcmp(ports[i].name.data, name, size) == 0) return i;
  }
  return UINT32_MAX;
}

/* The position of an input, or of an output; UINT32_MAX if there is none of that name. Safe. */
static inline uint32_t tenon_run_input(const tenon_run_t* run, const char* name) {
  return tenon_run_index_(run->ports.inputs, run->ports.input_count, name);
}
static inline uint32_t tenon_run_output(const tenon_run_t* run, const char* name) {
  return tenon_run_index_(run->ports.outputs, run->ports.output_count, name);
}

/* Gives back what tenon_run_call made. Values with memory of the caller stay as they are. Safe. */
static inline void tenon_run_drop(const tenon_run_t* run, tenon_run_value_t* values,
                                  uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    if (values[i].tensor == NULL) continue;
    run->calls->tensor_release(run->calls->self, values[i].tensor);
    memset(&values[i], 0, sizeof values[i]);
  }
}

/* The records of one call. */
typedef struct tenon_run_records_ {
  tenon_array_t* arrays; /* of inputs, then of outputs */
  tenon_input_t* inputs;
  tenon_output_t* outputs;
} tenon_run_records_;

static inline void tenon_run_array_(const tenon_run_value_t* value, tenon_array_t* out) {
  memset(out, 0, sizeof *out);
  out->size_bytes = sizeof *out;
  out->dtype = value->dtype;
  out->rank = value->rank;
  out->data = value->data;
  out->dims = value->dims;
}

static inline void tenon_run_fill_(tenon_run_records_* r, const tenon_run_value_t* inputs,
                                   uint32_t input_count, const tenon_run_value_t* outputs,
                                   uint32_t output_count) {
  for (uint32_t i = 0; i < input_count; ++i) {
    tenon_run_array_(&inputs[i], &r->arrays[i]);
    r->inputs[i].size_bytes = sizeof r->inputs[i];
    r->inputs[i].array = &r->arrays[i];
  }
  for (uint32_t i = 0; i < output_count; ++i) {
    tenon_array_t* const array = &r->arrays[input_count + i];
    tenon_run_array_(&outputs[i], array);
    r->outputs[i].size_bytes = sizeof r->outputs[i];
    r->outputs[i].kind = outputs[i].data != NULL ? TENON_OUTPUT_GIVEN : TENON_OUTPUT_OWNED;
    r->outputs[i].array = array;
  }
}

static inline tenon_code_t tenon_run_with_(const tenon_run_t* run, tenon_run_records_* r,
                                           uint32_t input_count, tenon_run_value_t* outputs,
                                           uint32_t output_count) {
  tenon_program_call_t call;
  tenon_code_t code;
  memset(&call, 0, sizeof call);
  call.size_bytes = sizeof call;
  call.input_count = input_count;
  call.output_count = output_count;
  call.inputs = r->inputs;
  call.outputs = r->outputs;
  code = run->calls->call(run->calls->self, run->program, &call);
  for (uint32_t i = 0; code == TENON_OK && i < output_count; ++i) {
    const tenon_array_t* const array = &r->arrays[input_count + i];
    if (r->outputs[i].kind == TENON_OUTPUT_GIVEN) continue;
    outputs[i].dtype = array->dtype;
    outputs[i].rank = array->rank;
    outputs[i].dims = array->dims;
    outputs[i].data = array->data;
    outputs[i].tensor = r->outputs[i].tensor;
  }
  return code;
}

/* Runs the program. An output with data is memory of the caller for a result of its type and dims;
 * of any other, everything is replaced: first drop what an earlier call made. On failure outputs
 * are as before, but memory of the caller may have been written. Fails as tenon_host_call_t::call,
 * and with RESOURCE_EXHAUSTED, without a reason, if there is no memory for its records. Safe, also
 * for one program at the same time. */
static inline tenon_code_t tenon_run_call(const tenon_run_t* run, const tenon_run_value_t* inputs,
                                          uint32_t input_count, tenon_run_value_t* outputs,
                                          uint32_t output_count) {
  tenon_run_records_ r;
  tenon_code_t code = TENON_RESOURCE_EXHAUSTED;
  /* One more of each: an allocation of nothing may be null. */
  r.arrays = (tenon_array_t*)calloc((size_t)input_count + output_count + 1, sizeof *r.arrays);
  r.inputs = (tenon_input_t*)calloc((size_t)input_count + 1, sizeof *r.inputs);
  r.outputs = (tenon_output_t*)calloc((size_t)output_count + 1, sizeof *r.outputs);
  if (r.arrays != NULL && r.inputs != NULL && r.outputs != NULL) {
    tenon_run_fill_(&r, inputs, input_count, outputs, output_count);
    code = tenon_run_with_(run, &r, input_count, outputs, output_count);
  }
  free(r.arrays);
  free(r.inputs);
  free(r.outputs);
  return code;
}

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
