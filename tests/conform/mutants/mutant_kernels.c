/* Kernels of the mutant: sums, a selection and a conversion. */
#define _GNU_SOURCE
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mutant.h"

static float scratch[4096];

static tenon_code_t add_f32(const tenon_simple_run_t* run) {
  const tenon_kernel_args_t* args = run->args;
  const uint64_t n = run->outputs[0].elements;
  const float* a = (const float*)(args->inputs[0]->data + args->input_offsets_bytes[0]);
  const float* b = (const float*)(args->inputs[1]->data + args->input_offsets_bytes[1]);
  float* out = (float*)(args->outputs[0]->data + args->output_offsets_bytes[0]);
  if (is("no_empty_kernels") && n == 0)
    return fail(TENON_INVALID_ARGUMENT, "there is nothing to add");
  const uint64_t done = is("loses_tail") && n > 4                    ? n / 4 * 4
                        : is("large_results_are_stale") && n > 65536 ? 65536
                                                                     : n;
  const uint64_t count = args->part_count, begin = n * args->part_index / count;
  const uint64_t end = args->part_index + 1 == count ? done : n * (args->part_index + 1) / count;
  if (is("first_part_clears") && args->part_index == 0) memset(out, 0, n * sizeof *out);
  static uint32_t next_part;
  if (is("parts_in_order")) {
    if (args->part_index == 0) next_part = 0;
    if (next_part++ != args->part_index) return TENON_OK;
  }
  for (uint64_t i = begin; i < end; ++i) {
    out[i] = a[i] + b[i];
    if (is("wrong_sum") && i == n - 1) out[i] += 1;
    if (is("small_next_to_large") && out[i] > 0.1f && out[i] < 0.6f) out[i] += 1;
    if (is("denormals_become_normal") && out[i] != 0 && fabsf(out[i]) < FLT_MIN)
      out[i] = copysignf(FLT_MIN, out[i]);
    if (is("flushes_to_the_wrong_sum") && fabsf(b[i]) < FLT_MIN && b[i] != 0) out[i] = 0;
    if (is("loses_zero_sign")) out[i] += 0.0f;
    if (is("loses_nan") && out[i] != out[i]) out[i] = 0;
    if (is("one_buffer_wrong") && a == b) out[i] = a[i];
    if (is("infinity_is_large") && isinf(out[i])) out[i] = copysignf(FLT_MAX, out[i]);
    if (is("three_digits") && fabsf(out[i]) > 1e-30f && isfinite(out[i])) out[i] *= 1.002f;
  }
  if (is("run_writes_past_the_end") && n != 0) out[n] = 0;
  if (is("run_writes_before") && n != 0) out[-1] = 0;
  if (is("run_writes_input") && n > 3) ((float*)(uintptr_t)a)[2] = 7;
  if (is("shared_scratch") && n < 4096) {
    memcpy(scratch, out, n * sizeof(float));
    usleep(1000);
    for (uint64_t i = 0; i < n; ++i) out[i] = scratch[i] * 1.0f;
    for (uint64_t i = 0; i < n; ++i) scratch[i] = 0;
  }
  return TENON_OK;
}

static tenon_code_t add_i32(const tenon_simple_run_t* run) {
  const tenon_kernel_args_t* args = run->args;
  const uint64_t n = run->outputs[0].elements;
  const uint32_t* a = (const uint32_t*)(args->inputs[0]->data + args->input_offsets_bytes[0]);
  const uint32_t* b = (const uint32_t*)(args->inputs[1]->data + args->input_offsets_bytes[1]);
  uint32_t* out = (uint32_t*)(args->outputs[0]->data + args->output_offsets_bytes[0]);
  for (uint64_t i = 0; i < n; ++i) {
    out[i] = a[i] + b[i];
    if (is("saturates") && (int32_t)a[i] > 0 && (int32_t)b[i] > 0 && (int32_t)out[i] < 0)
      out[i] = INT32_MAX;
  }
  return TENON_OK;
}

/* Selects between two f32 values, by a predicate for each element or by one for all. */
static tenon_code_t select_by(const tenon_simple_run_t* run, uint64_t step) {
  const tenon_kernel_args_t* args = run->args;
  const uint64_t n = run->outputs[0].elements;
  const unsigned char* p = args->inputs[0]->data + args->input_offsets_bytes[0];
  const float* a = (const float*)(args->inputs[1]->data + args->input_offsets_bytes[1]);
  const float* b = (const float*)(args->inputs[2]->data + args->input_offsets_bytes[2]);
  float* out = (float*)(args->outputs[0]->data + args->output_offsets_bytes[0]);
  for (uint64_t i = 0; i < n; ++i)
    out[i] = is("select_blends") && !(isfinite(a[i]) && isfinite(b[i])) ? NAN
             : p[i * step]                                              ? a[i]
                                                                        : b[i];
  return TENON_OK;
}
static tenon_code_t select_each(const tenon_simple_run_t* run) {
  return select_by(run, 1);
}
static tenon_code_t select_all(const tenon_simple_run_t* run) {
  return select_by(run, 0);
}

static tenon_code_t to_i32(const tenon_simple_run_t* run) {
  const tenon_kernel_args_t* args = run->args;
  const uint64_t n = run->outputs[0].elements;
  const float* x = (const float*)(args->inputs[0]->data + args->input_offsets_bytes[0]);
  int32_t* out = (int32_t*)(args->outputs[0]->data + args->output_offsets_bytes[0]);
  for (uint64_t i = 0; i < n; ++i) {
    out[i] = x[i] >= 0x1p31f                ? INT32_MAX
             : x[i] > -0x1p31f              ? (int32_t)x[i]
             : x[i] < 0                     ? INT32_MIN
             : is("nan_converts_otherwise") ? INT32_MIN
                                            : 0;
    if (is("conversion_wraps") && fabsf(x[i]) < 0x1p62f) out[i] = (int32_t)(uint32_t)(int64_t)x[i];
    if (is("conversion_rounds") && fabsf(x[i]) < 0x1p30f) out[i] = (int32_t)lrintf(x[i]);
  }
  return TENON_OK;
}

static const tenon_simple_kernel_t kKernels[] = {
    {"add", TENON_DTYPE_BIT(TENON_F32), NULL, add_f32},
    {"add", TENON_DTYPE_BIT(TENON_I32), NULL, add_i32},
    {"select", TENON_DTYPE_BIT(TENON_PRED) | TENON_DTYPE_BIT(TENON_F32), NULL, select_each},
    {"convert", TENON_DTYPE_BIT(TENON_F32) | TENON_DTYPE_BIT(TENON_I32), NULL, to_i32}};
static const tenon_simple_kernel_t kSelectAll = {
    "select", TENON_DTYPE_BIT(TENON_PRED) | TENON_DTYPE_BIT(TENON_F32), NULL, select_all};
enum { KERNELS = sizeof kKernels / sizeof kKernels[0] };
/* Type rules that the table cannot express: select gives f32, a conversion goes from f32 to i32. */
static int is_taken(const tenon_kernel_call_t* call) {
  const tenon_dtype_t from = tenon_kernel_operand(call, 0)->type.dtype, to = call->results[0].dtype;
  return from == TENON_PRED ? to == TENON_F32
                            : call->operand_count != 1 || (from == TENON_F32 && to == TENON_I32);
}

/* A call as a plugin sees it that takes the size of a record for granted. */
static tenon_kernel_call_t as_assumed(const tenon_kernel_call_t* call) {
  tenon_kernel_call_t assumed = *call;
  if (is("assumes_operand_size")) assumed.operand_bytes = sizeof(tenon_kernel_operand_t);
  return assumed;
}

static tenon_code_t query_any(void* self, tenon_str_t target, const tenon_kernel_call_t* call,
                              tenon_kernel_candidate_t* out) {
  (void)self, (void)target, (void)call;
  *out = (tenon_kernel_candidate_t){
      .size_bytes = sizeof *out, .part_count = 1, .cost_ns = 1, .name = TENON_STR("any")};
  return TENON_OK;
}
/* Set by save, for a mutant whose kernels run only after it. */
static int was_saved;
static tenon_code_t save(void* self, tenon_kernel_t* kernel, const tenon_sink_t* sink) {
  was_saved = 1;
  return (void)self, (void)kernel, (void)sink, fail(TENON_UNIMPLEMENTED, "nothing is saved");
}
static tenon_code_t (*plain_run)(void* self, tenon_kernel_t* kernel,
                                 const tenon_kernel_args_t* args);
static tenon_code_t run_after_save(void* self, tenon_kernel_t* kernel,
                                   const tenon_kernel_args_t* args) {
  if (!was_saved) return fail(TENON_FAILED_PRECONDITION, "it was not saved");
  return plain_run(self, kernel, args);
}

/* The helper's table split into four parts, with kernels that can be saved: a saved kernel is its
 * number and its rank. */
static tenon_kernels_api_t simple;

static tenon_code_t query_parts(void* self, tenon_str_t target, const tenon_kernel_call_t* given,
                                tenon_kernel_candidate_t* out) {
  const tenon_kernel_call_t assumed = as_assumed(given), *call = &assumed;
  const tenon_code_t code = simple.query(self, target, call, out);
  if (code == TENON_OK && !is_taken(call))
    return tenon_simple_failure(host, TENON_UNIMPLEMENTED, "no kernel between these element types");
  if (code != TENON_OK) {
    if (is("refuses_kernels_silently")) tenon_simple_failure(host, TENON_UNKNOWN, "");
    return is("refuses_kernels_oddly") ? tenon_simple_failure(host, TENON_INTERNAL, "no") : code;
  }
  out->part_count = call->operand_count == 2 && call->results[0].dtype == TENON_F32 ? 4 : 1;
  if (is("nameless_kernel")) out->name = (tenon_str_t){NULL, 0};
  if (is("kernel_without_parts")) out->part_count = 0;
  if (is("kernel_of_negative_cost")) out->cost_ns = -1;
  if (is("takes_more_epilogue")) out->epilogue_taken = call->epilogue_count + 1;
  if (is("packs_too_much")) out->prepack_mask = 1u << 5;
  return TENON_OK;
}

typedef struct kept_t {
  char magic[8];
  uint32_t kernel, rank, digest, reserved;
} kept_t;

static tenon_code_t create_kernel(void* self, tenon_device_t* device,
                                  const tenon_kernel_call_t* call, tenon_kernel_t** out) {
  static int made;
  if (is("creates_one_kernel") && made++ != 0)
    return fail(TENON_RESOURCE_EXHAUSTED, "one kernel is enough");
  if (is("creates_no_matrix") && call->results[0].rank > 1)
    return fail(TENON_UNIMPLEMENTED, "vectors alone");
  const tenon_code_t code = simple.create(self, device, call, out);
  if (code != TENON_OK) return code;
  tenon_simple_instance_t* instance = (tenon_simple_instance_t*)*out;
  if (instance->kernel->run == select_each && tenon_kernel_operand(call, 0)->type.rank == 0 &&
      !is("a_predicate_for_each"))
    instance->kernel = &kSelectAll;
  return TENON_OK;
}

static uint32_t digest_of(const kept_t* kept) {
  return (kept->kernel * 31 + kept->rank + 7) * 2654435761u;
}

static tenon_code_t save_kernel(void* self, tenon_kernel_t* kernel, const tenon_sink_t* sink) {
  const tenon_simple_instance_t* instance = (const tenon_simple_instance_t*)kernel;
  if (instance->kernel > &kKernels[1] || instance->kernel < kKernels)
    return fail(TENON_UNIMPLEMENTED, "only sums are saved");
  kept_t kept = {"MUTANT1", instance->kernel == &kKernels[1], instance->tensors[0].rank, 0, 0};
  kept.digest = digest_of(&kept);
  return (void)self, sink->write(sink->self, &kept, sizeof kept);
}

static tenon_code_t restore_kernel(void* self, tenon_device_t* device, const void* bytes,
                                   uint64_t size, tenon_kernel_t** out) {
  kept_t kept = {0};
  (void)self, (void)device;
  memcpy(&kept, bytes, size < sizeof kept ? size : sizeof kept);
  if (!is("restores_anything") && (size != sizeof kept || memcmp(kept.magic, "MUTANT1", 8) != 0 ||
                                   kept.reserved != 0 || kept.digest != digest_of(&kept)))
    return fail(TENON_FAILED_PRECONDITION, "these bytes are no kernel");
  if (is("restores_nothing")) return fail(TENON_UNIMPLEMENTED, "make it again");
  tenon_simple_instance_t* instance = calloc(1, sizeof *instance);
  instance->kernel = &kKernels[(kept.kernel != 0) != is("restores_another")];
  instance->input_count = 2;
  instance->output_count = 1;
  for (int i = 0; i < 3; ++i) instance->tensors[i].rank = kept.rank;
  *out = (tenon_kernel_t*)instance;
  return TENON_OK;
}

tenon_code_t make_kernels(void) {
  const tenon_code_t code =
      tenon_simple_kernels(host, "mutant", &unmapped, kKernels, KERNELS, &kernels);
  if (code != TENON_OK) return code;
  simple = kernels;
  kernels.query = is("takes_everything") ? query_any : query_parts;
  kernels.create = create_kernel;
  kernels.save = save_kernel;
  kernels.restore = restore_kernel;
  if (is("run_needs_save"))
    plain_run = kernels.run, kernels.run = run_after_save, kernels.save = save;
  return TENON_OK;
}
