/* The server of decoder.cpp in C, on the tables themselves: eight threads decode with one program.
 * Weights are wrapped once, each sequence's keys and values stay on the device and are donated from
 * step to step, the next token goes to memory of the thread; then a call in the background and one
 * that is cancelled.
 *
 *     decode MODEL [DEVICE]
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tenon/abi/operation.h>

enum { kWords = 32, kWidth = 16, kLengthMax = 64, kSteps = 40, kThreads = 8, kWeights = 5 };
enum { kInputs = 2 + kWeights + 2, kOutputs = 3 };

static const tenon_host_t* host;
static const tenon_host_session_t* session;
static const tenon_host_call_t* calls;
static const tenon_host_operation_t* operations;

static tenon_str_t text(const char* s) {
  const tenon_str_t out = {s, strlen(s)};
  return out;
}

/* Where the host's messages go. Any thread may be here, so one call writes a whole line. */
static void log_line(void* self, uint32_t level, tenon_str_t component, tenon_str_t message) {
  fprintf((FILE*)self, "server: %s%.*s: %.*s\n", level <= TENON_LOG_WARN ? "! " : "",
          (int)component.size, component.data, (int)message.size, message.data);
}

static void print_failure(FILE* to, const char* what) {
  tenon_failure_t f = {sizeof f, 0};
  host->last_failure(host->self, &f);
  fprintf(to, "%s: %.*s: %.*s\n", what, (int)f.id.size, f.id.data, (int)f.message.size,
          f.message.data);
}

static void stop_if(tenon_code_t code, const char* what) {
  if (code == TENON_OK) return;
  print_failure(stderr, what);
  exit(1);
}

static tenon_array_t array_of(tenon_dtype_t dtype, uint32_t rank, const int64_t* dims, void* data) {
  const tenon_array_t array = {sizeof array, dtype, 0, rank, 0, data, dims, NULL};
  return array;
}

/* ---- Weights: in memory that outlives every call. As tensors they go to a device once. ---- */

static float table[kWords * kWidth], squares[kWeights - 1][kWidth * kWidth];
static tenon_tensor_t* weights[kWeights];

/* Numbers that look random and are the same everywhere. */
static void fill(float* out, int count, uint32_t seed, float scale) {
  for (int i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    out[i] = ((float)(seed >> 8) / 8388608.0f - 1) * scale;
  }
}

static void wrap_weights(void) {
  const int64_t tall[2] = {kWords, kWidth}, square[2] = {kWidth, kWidth};
  fill(table, kWords * kWidth, 1, 1);
  tenon_array_t array = array_of(TENON_F32, 2, tall, table);
  stop_if(calls->tensor_wrap(calls->self, &array, NULL, NULL, &weights[0]), "wrap");
  for (uint32_t i = 1; i < kWeights; ++i) {
    fill(squares[i - 1], kWidth * kWidth, i + 1, 0.9f);
    array = array_of(TENON_F32, 2, square, squares[i - 1]);
    stop_if(calls->tensor_wrap(calls->self, &array, NULL, NULL, &weights[i]), "wrap");
  }
}

/* ---- One step of a sequence, which owns its state ---- */

static tenon_program_t* program;
static const int64_t kStateDims[2] = {kLengthMax, kWidth};
static float no_state[kLengthMax * kWidth];

/* A call by position, and all that its records name. It stays where it is: they point into it. */
typedef struct step_t {
  int64_t token, place[2], next;
  tenon_array_t token_array, place_array, next_array, state_arrays[2];
  tenon_input_t inputs[kInputs];
  tenon_output_t outputs[kOutputs];
  tenon_program_call_t call;
} step_t;

static void prepare(step_t* step, int64_t token, int64_t at) {
  static const int64_t one[1] = {1}, two[1] = {2};
  const step_t empty = {.token = token, .place = {at, 0}};
  *step = empty;
  step->token_array = array_of(TENON_I64, 1, one, &step->token);
  step->place_array = array_of(TENON_I64, 1, two, step->place);
  step->next_array = array_of(TENON_I64, 1, one, &step->next);
  for (int i = 0; i < kInputs; ++i) step->inputs[i].size_bytes = sizeof step->inputs[i];
  step->inputs[0].array = &step->token_array;
  step->inputs[1].array = &step->place_array;
  for (int i = 0; i < kWeights; ++i) step->inputs[2 + i].tensor = weights[i];
  const tenon_output_t given = {sizeof given, TENON_OUTPUT_GIVEN, &step->next_array, NULL};
  step->outputs[0] = given;
  for (int i = 0; i < 2; ++i) {
    step->state_arrays[i].size_bytes = sizeof step->state_arrays[i];
    const tenon_output_t left = {sizeof left, TENON_OUTPUT_LEFT, &step->state_arrays[i], NULL};
    step->outputs[1 + i] = left;
  }
  const tenon_program_call_t call = {sizeof call, kInputs,      kOutputs,
                                     0,           step->inputs, step->outputs};
  step->call = call;
}

/* What one thread decodes: `tokens`, of which the first is given. */
typedef struct sequence_t {
  const char* device;
  int64_t tokens[kSteps + 1];
  uint64_t moved_bytes; /* between host and device, by the last step */
} sequence_t;

static void* decode(void* of_thread) {
  sequence_t* sequence = (sequence_t*)of_thread;
  const tenon_array_t none = array_of(TENON_F32, 2, kStateDims, no_state);
  tenon_tensor_t* state[2];
  for (int i = 0; i < 2; ++i)
    stop_if(calls->tensor_copy(calls->self, &none, text(sequence->device), &state[i]), "state");
  for (int at = 0; at < kSteps; ++at) {
    step_t step;
    prepare(&step, sequence->tokens[at], at);
    for (int i = 0; i < 2; ++i) {
      step.inputs[2 + kWeights + i].tensor = state[i];
      step.inputs[2 + kWeights + i].flags = TENON_INPUT_DONATED;
    }
    stop_if(calls->call(calls->self, program, &step.call), "step");
    for (int i = 0; i < 2; ++i) {
      calls->tensor_release(calls->self, state[i]); /* it has no value any more */
      state[i] = step.outputs[1 + i].tensor;
    }
    sequence->tokens[at + 1] = step.next;
    sequence->moved_bytes = step.call.transferred_bytes;
  }
  for (int i = 0; i < 2; ++i) calls->tensor_release(calls->self, state[i]);
  return NULL;
}

/* Whether eight threads at once decode what one after the other does. */
static int decode_together(const char* device) {
  static sequence_t alone[kThreads], together[kThreads];
  pthread_t threads[kThreads];
  int equal = 1;
  for (int t = 0; t < kThreads; ++t) {
    alone[t].device = together[t].device = device;
    alone[t].tokens[0] = together[t].tokens[0] = t;
    decode(&alone[t]);
  }
  for (int t = 0; t < kThreads; ++t)
    if (pthread_create(&threads[t], NULL, decode, &together[t]) != 0) exit(1);
  for (int t = 0; t < kThreads; ++t) {
    pthread_join(threads[t], NULL);
    equal &= memcmp(alone[t].tokens, together[t].tokens, sizeof alone[t].tokens) == 0;
  }
  printf("tokens:");
  for (int at = 0; at <= kSteps; ++at) printf(" %" PRId64, alone[1].tokens[at]);
  printf("\nmoved by a step: %" PRIu64 " bytes\n", alone[0].moved_bytes);
  printf("eight threads: %s\n", equal ? "the same tokens" : "OTHER TOKENS");
  return equal;
}

/* ---- A call in the background, and one that is cancelled before it begins ---- */

static void in_the_background(void) {
  tenon_array_t none = array_of(TENON_F32, 2, kStateDims, no_state);
  tenon_operation_t *operation, *stopped;
  step_t step;
  prepare(&step, 3, 0);
  for (int i = 0; i < 2; ++i) step.inputs[2 + kWeights + i].array = &none;
  stop_if(operations->create(operations->self, NULL, &operation), "operation");
  stop_if(operations->start_call(operations->self, program, &step.call, operation), "start");
  stop_if(operations->wait(operations->self, operation, UINT64_MAX), "finish");
  printf("in the background: %" PRId64 " after 3\n", step.next);
  for (int i = 1; i < kOutputs; ++i) calls->tensor_release(calls->self, step.outputs[i].tensor);
  operations->release(operations->self, operation);

  stop_if(operations->create(operations->self, NULL, &stopped), "operation");
  operations->cancel(operations->self, stopped);
  stop_if(operations->start_call(operations->self, program, &step.call, stopped), "start");
  if (operations->wait(operations->self, stopped, UINT64_MAX) != TENON_CANCELLED) exit(1);
  print_failure(stdout, "cancelled");
  operations->release(operations->self, stopped);
}

static void open_host(void) {
  tenon_host_options_t start = {sizeof start, 0};
  start.log_self = stdout;
  start.log = log_line;
  if (tenon_host_open(TENON_ABI_VERSION, &start, &host) != TENON_OK ||
      host->query(host->self, text(TENON_HOST_SESSION_ID), 0, (const void**)&session) != TENON_OK ||
      host->query(host->self, text(TENON_HOST_CALL_ID), 0, (const void**)&calls) != TENON_OK ||
      host->query(host->self, text(TENON_HOST_OPERATION_ID), 0, (const void**)&operations) !=
          TENON_OK)
    stop_if(TENON_UNAVAILABLE, "open");
}

int main(int argc, char** argv) {
  tenon_model_t* model = NULL;
  tenon_session_options_t options = {sizeof options, 0};
  if (argc < 2) return fprintf(stderr, "usage: decode MODEL [DEVICE]\n"), 2;
  const char* const device = argc > 2 ? argv[2] : "cpu";
  open_host();
  options.device = text(device);
  options.no_fallback = 1;
  stop_if(session->model_load(session->self, text(argv[1]), NULL, 0, &model), "load");
  stop_if(session->compile(session->self, model, &options, &program), "compile");
  wrap_weights();
  const int equal = decode_together(device);
  in_the_background();
  for (int i = 0; i < kWeights; ++i) calls->tensor_release(calls->self, weights[i]);
  session->program_release(session->self, program);
  session->model_release(session->self, model);
  return equal ? 0 : 1;
}
