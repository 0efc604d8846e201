/* Runs a package on zeros from C: one header, one library, no compiler in the process.
 *
 *     run_package MODEL.tpk
 */
#include <inttypes.h>
#include <stdio.h>

#include <tenon/abi/simple_run.h>

static int complain(const tenon_run_t* run, const char* what) {
  char reason[1024];
  tenon_run_reason(run, reason, sizeof reason);
  fprintf(stderr, "%s: %s\n", what, reason);
  return 1;
}

/* Zeros of the input's type; a symbolic dim becomes 1. */
static int zeros(const tenon_port_t* port, int64_t* dims, tenon_run_value_t* out) {
  size_t count = 1;
  for (uint32_t d = 0; d < port->rank; ++d) {
    dims[d] = port->dims[d] < 0 ? 1 : port->dims[d];
    count *= (size_t)dims[d];
  }
  void* const data = calloc(count + 1, 16); /* no element is larger */
  *out = tenon_run_value(port->dtype, data, port->rank, dims);
  return data == NULL;
}

static int call(const tenon_run_t* run, tenon_run_value_t* in, tenon_run_value_t* out) {
  const uint32_t inputs = run->ports.input_count, outputs = run->ports.output_count;
  if (tenon_run_call(run, in, inputs, out, outputs) != TENON_OK) return complain(run, "run");
  for (uint32_t i = 0; i < outputs; ++i) {
    const tenon_str_t name = run->ports.outputs[i].name;
    printf("%.*s: dims", (int)name.size, name.data);
    for (uint32_t d = 0; d < out[i].rank; ++d) printf(" %" PRId64, out[i].dims[d]);
    printf("\n");
  }
  tenon_run_drop(run, out, outputs);
  return 0;
}

int main(int argc, char** argv) {
  tenon_run_t run;
  int status = 1;
  if (argc != 2) return fprintf(stderr, "usage: run_package MODEL.tpk\n"), 2;
  if (tenon_run_load(&run, argv[1]) != TENON_OK) return complain(&run, "load");
  const uint32_t inputs = run.ports.input_count, outputs = run.ports.output_count;
  tenon_run_value_t* const in = calloc(inputs + 1, sizeof *in);
  tenon_run_value_t* const out = calloc(outputs + 1, sizeof *out);
  int64_t(*const dims)[TENON_RANK_MAX] = calloc(inputs + 1, sizeof *dims);
  int ready = in != NULL && out != NULL && dims != NULL;
  for (uint32_t i = 0; ready && i < inputs; ++i)
    ready = !zeros(&run.ports.inputs[i], dims[i], &in[i]);
  if (ready) status = call(&run, in, out);
  for (uint32_t i = 0; in != NULL && i < inputs; ++i) free(in[i].data);
  free(in);
  free(out);
  free(dims);
  tenon_run_unload(&run);
  return status;
}
