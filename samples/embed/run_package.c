/* Runs a package on zeros from C, with no compiler in the process.
 *
 *     run_package MODEL.tpk
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <tenon/tenon.h>

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

static int call(tenon_program_t* program, const tenon_model_info_t* ports, tenon_dense_t* in,
                tenon_dense_t* out) {
  if (tenon_call(program, in, ports->input_count, out, ports->output_count) != TENON_OK)
    return failed("run");
  for (uint32_t i = 0; i < ports->output_count; ++i) {
    const tenon_str_t name = ports->outputs[i].name;
    printf("%.*s: dims", (int)name.size, name.data);
    for (uint32_t d = 0; d < out[i].rank; ++d) printf(" %" PRId64, out[i].dims[d]);
    printf("\n");
  }
  tenon_dense_release(out, ports->output_count);
  return 0;
}

int main(int argc, char** argv) {
  tenon_program_t* program;
  tenon_model_info_t ports = {sizeof ports, 0};
  int status = 1;
  if (argc != 2) return fprintf(stderr, "usage: run_package MODEL.tpk\n"), 2;
  if (tenon_open(argv[1], &program) != TENON_OK) return failed("load");
  if (tenon_program_ports(program, &ports) != TENON_OK) return failed("describe");
  tenon_dense_t* const in = calloc(ports.input_count + 1, sizeof *in);
  tenon_dense_t* const out = calloc(ports.output_count + 1, sizeof *out);
  int64_t(*const dims)[TENON_RANK_MAX] = calloc(ports.input_count + 1, sizeof *dims);
  int ready = in != NULL && out != NULL && dims != NULL;
  for (uint32_t i = 0; ready && i < ports.input_count; ++i)
    ready = !zeros(&ports.inputs[i], dims[i], &in[i]);
  if (ready) status = call(program, &ports, in, out);
  for (uint32_t i = 0; in != NULL && i < ports.input_count; ++i) free(in[i].data);
  free(in);
  free(out);
  free(dims);
  tenon_program_release(program);
  return status;
}
