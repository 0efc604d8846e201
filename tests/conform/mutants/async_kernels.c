/* Kernels of the asynchronous mutant: `add` of f32, on a queue where the call names one. */
#include <stdlib.h>
#include <string.h>

#include "async.h"
#include "tenon/abi/simple_kernels.h"

tenon_kernels_api_t kernels_api;

typedef struct sum_t {
  const float *a, *b;
  float* out;
  uint64_t count;
} sum_t;

static tenon_code_t perform(void* job) {
  const sum_t* sum = job;
  for (uint64_t i = 0; i < sum->count; ++i) sum->out[i] = sum->a[i] + sum->b[i];
  return TENON_OK;
}

static tenon_code_t at_once(const sum_t* sum) {
  sum_t copy = *sum;
  return perform(&copy);
}

static tenon_code_t nothing(void* job) {
  return (void)job, TENON_OK;
}

static float* address(const tenon_simple_tensor_t* tensor) {
  return (float*)(tensor->buffer->data + tensor->offset_bytes);
}

static tenon_code_t add_f32(const tenon_simple_run_t* run) {
  const tenon_kernel_args_t* args = run->args;
  const sum_t sum = {address(&run->inputs[0]), address(&run->inputs[1]), address(&run->outputs[0]),
                     run->outputs[0].elements};
  if (args->queue == NULL) return at_once(&sum);
  sum_t* job = malloc(sizeof *job);
  if (job == NULL) return fail(TENON_RESOURCE_EXHAUSTED, "no memory for a job");
  *job = sum;
  if (is("queued_computes_at_submission")) at_once(&sum);
  tenon_fence_point_t signal = args->signal;
  if (is("queued_signals_at_submission")) fence_set(&signal), signal.fence = NULL;
  return queue_submit(args->queue, args->waits, is("queued_ignores_waits") ? 0 : args->wait_count,
                      signal, is("queued_computes_at_submission") ? nothing : perform, job);
}

tenon_code_t kernels_start(void) {
  static const tenon_simple_kernel_t kernels[] = {
      {"add", TENON_DTYPE_BIT(TENON_F32), NULL, add_f32}};
  static const tenon_device_api_t unmapped = {sizeof unmapped, 0};
  const tenon_code_t code =
      tenon_simple_kernels(host, "async", &unmapped, kernels, 1, &kernels_api);
  kernels_api.flags = TENON_KERNELS_ON_QUEUE;
  return code;
}
