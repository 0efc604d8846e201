/* Runs a model on zeros from C: load, compile, one call, outputs, the host's log, and what went
 * wrong if something did.
 *
 *     run_model MODEL [DEVICE]
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tenon/abi/call.h>

#define COUNT_MAX 16 /* inputs, and outputs */

static const tenon_host_t* host;
static const tenon_host_session_t* session;
static const tenon_host_call_t* calls;

static tenon_str_t text(const char* s) {
  const tenon_str_t out = {s, strlen(s)};
  return out;
}

/* Where the host's messages go. Any thread may be here, so one call writes a whole line. */
static void log_line(void* self, uint32_t level, tenon_str_t component, tenon_str_t message) {
  static const char* const names[] = {"error", "warning", "info", "debug"};
  fprintf((FILE*)self, "[%s] %.*s: %.*s\n", names[level < 3 ? level : 3], (int)component.size,
          component.data, (int)message.size, message.data);
}

static int failed(const char* what) {
  tenon_failure_t f = {sizeof f, 0};
  host->last_failure(host->self, &f);
  fprintf(stderr, "%s: %.*s: %.*s\n", what, (int)f.id.size, f.id.data, (int)f.message.size,
          f.message.data);
  return 1;
}

/* Zeros of the input's type; a symbolic dim becomes 1. */
static int zeros(const tenon_port_t* port, int64_t* dims, tenon_array_t* out) {
  uint64_t count = 1;
  for (uint32_t d = 0; d < port->rank; ++d) {
    dims[d] = port->dims[d] < 0 ? 1 : port->dims[d];
    count *= (uint64_t)dims[d];
  }
  const tenon_array_t array = {sizeof array, port->dtype, 0, port->rank, 0, NULL, dims, NULL};
  *out = array;
  out->data = calloc(count, 16); /* no element is larger */
  return out->data == NULL;
}

static void print(const tenon_port_t* port, const tenon_array_t* array) {
  printf("%.*s: element type %u, dims", (int)port->name.size, port->name.data, array->dtype);
  for (uint32_t d = 0; d < array->rank; ++d) printf(" %" PRId64, array->dims[d]);
  printf("\n");
}

static int call(tenon_program_t* program, const tenon_model_info_t* model) {
  static int64_t dims[COUNT_MAX][TENON_RANK_MAX];
  tenon_array_t in_arrays[COUNT_MAX], out_arrays[COUNT_MAX];
  tenon_input_t inputs[COUNT_MAX];
  tenon_output_t outputs[COUNT_MAX];
  for (uint32_t i = 0; i < model->input_count; ++i) {
    const tenon_input_t input = {sizeof input, 0, &in_arrays[i], NULL};
    if (zeros(&model->inputs[i], dims[i], &in_arrays[i])) return 1;
    inputs[i] = input;
  }
  for (uint32_t i = 0; i < model->output_count; ++i) {
    const tenon_output_t output = {sizeof output, TENON_OUTPUT_OWNED, &out_arrays[i], NULL};
    out_arrays[i].size_bytes = sizeof out_arrays[i];
    outputs[i] = output;
  }
  tenon_program_call_t c = {sizeof c, model->input_count, model->output_count, 0, inputs, outputs};
  if (calls->call(calls->self, program, &c) != TENON_OK) return failed("run");
  for (uint32_t i = 0; i < model->output_count; ++i) {
    print(&model->outputs[i], &out_arrays[i]);
    calls->tensor_release(calls->self, outputs[i].tensor);
  }
  for (uint32_t i = 0; i < model->input_count; ++i) free(in_arrays[i].data);
  return 0;
}

int main(int argc, char** argv) {
  tenon_model_t* model = NULL;
  tenon_program_t* program = NULL;
  tenon_model_info_t info = {sizeof info, 0};
  tenon_session_options_t options = {sizeof options, 0};
  tenon_host_options_t start = {sizeof start, 0};
  start.log_self = stdout;
  start.log = log_line;
  if (argc < 2) return fprintf(stderr, "usage: run_model MODEL [DEVICE]\n"), 2;
  if (tenon_host_open(TENON_ABI_VERSION, &start, &host) != TENON_OK ||
      host->query(host->self, text(TENON_HOST_SESSION_ID), 0, (const void**)&session) != TENON_OK ||
      host->query(host->self, text(TENON_HOST_CALL_ID), 0, (const void**)&calls) != TENON_OK)
    return failed("open");
  if (argc > 2) options.device = text(argv[2]);
  if (session->model_load(session->self, text(argv[1]), NULL, 0, &model) != TENON_OK)
    return failed("load");
  if (session->compile(session->self, model, &options, &program) != TENON_OK)
    return failed("compile");
  if (session->model_info(session->self, model, &info) != TENON_OK) return failed("describe");
  if (info.input_count > COUNT_MAX || info.output_count > COUNT_MAX)
    return fprintf(stderr, "this sample takes %d inputs and outputs\n", COUNT_MAX), 2;
  const int status = call(program, &info);
  session->program_release(session->self, program);
  session->model_release(session->self, model);
  return status;
}
