/* Runs a model on zeros from C: load, compile, one call, outputs, the host's log, and what went
 * wrong if something did.
 *
 *     run_model MODEL [DEVICE]
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <tenon/tenon.h>

#define COUNT_MAX 16 /* inputs, and outputs */

/* Receives the host's messages. Any thread may be here, so one call writes a whole line. */
static void log_line(void* self, uint32_t level, tenon_str_t component, tenon_str_t message) {
  static const char* const names[] = {"error", "warning", "info", "debug"};
  fprintf((FILE*)self, "[%s] %.*s: %.*s\n", names[level < 3 ? level : 3], (int)component.size,
          component.data, (int)message.size, message.data);
}

static int failed(const char* what) {
  fprintf(stderr, "%s: %s\n", what, tenon_error());
  return 1;
}

/* Zeros of the input's type; a symbolic dim becomes 1. */
static int zeros(const tenon_port_t* port, int64_t* dims, tenon_dense_t* out) {
  size_t count = 1;
  for (uint32_t d = 0; d < port->rank; ++d) {
    dims[d] = port->dims[d] < 0 ? 1 : port->dims[d];
    count *= (size_t)dims[d];
  }
  *out =
      tenon_dense(port->dtype, calloc(count + 1, 16), port->rank, dims); /* no element is larger */
  return out->data == NULL;
}

static void print(const tenon_port_t* port, const tenon_dense_t* output) {
  printf("%.*s: element type %u, dims", (int)port->name.size, port->name.data, output->dtype);
  for (uint32_t d = 0; d < output->rank; ++d) printf(" %" PRId64, output->dims[d]);
  printf("\n");
}

static int call(tenon_program_t* program, const tenon_model_info_t* ports) {
  static int64_t dims[COUNT_MAX][TENON_RANK_MAX];
  tenon_dense_t inputs[COUNT_MAX] = {{0}}, outputs[COUNT_MAX] = {{0}};
  int status = 0;
  for (uint32_t i = 0; i < ports->input_count; ++i)
    status |= zeros(&ports->inputs[i], dims[i], &inputs[i]);
  if (status == 0 &&
      tenon_call(program, inputs, ports->input_count, outputs, ports->output_count) != TENON_OK)
    status = failed("run");
  for (uint32_t i = 0; status == 0 && i < ports->output_count; ++i)
    print(&ports->outputs[i], &outputs[i]);
  tenon_dense_release(outputs, ports->output_count);
  for (uint32_t i = 0; i < ports->input_count; ++i) free(inputs[i].data);
  return status;
}

int main(int argc, char** argv) {
  tenon_model_t* model = NULL;
  tenon_program_t* program = NULL;
  tenon_model_info_t ports = {sizeof ports, 0};
  tenon_host_options_t options = {sizeof options, 0};
  const tenon_host_t* host;
  if (argc < 2) return fprintf(stderr, "usage: run_model MODEL [DEVICE]\n"), 2;
  /* Only a program with options needs this call. */
  options.log_self = stdout;
  options.log = log_line;
  if (tenon_host_open(TENON_ABI_VERSION, &options, &host) != TENON_OK) return failed("open");
  if (tenon_load(argv[1], &model) != TENON_OK) return failed("load");
  if (tenon_compile(model, argc > 2 ? argv[2] : NULL, &program) != TENON_OK)
    return failed("compile");
  if (tenon_program_ports(program, &ports) != TENON_OK) return failed("describe");
  if (ports.input_count > COUNT_MAX || ports.output_count > COUNT_MAX)
    return fprintf(stderr, "this sample takes %d inputs and outputs\n", COUNT_MAX), 2;
  const int status = call(program, &ports);
  tenon_program_release(program);
  tenon_model_release(model);
  return status;
}
