/* Runs a package on arrays from files, with one header and libtenon.so: what a program on another
 * processor does.
 *
 *     run_arrays MODEL.tpk INPUT=FILE.npy... > outputs
 *
 * Prints each output as "NAME: VALUE VALUE ...". Inputs and outputs are f32; files are of NumPy's
 * format 1.0 in C order.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tenon/tenon.h>

static int failed(const char* what) {
  fprintf(stderr, "run_arrays: %s: %s\n", what, tenon_error());
  return 1;
}

/* "(2, 3, )" as dims; 0 if it is not a shape. */
static int read_shape(const char* text, uint32_t* rank, int64_t* dims, size_t* count) {
  *rank = 0;
  *count = 1;
  for (++text; *text != ')'; text += strspn(text, ", ")) {
    char* end;
    if (*rank == TENON_RANK_MAX) return 0;
    dims[*rank] = strtoll(text, &end, 10);
    if (end == text || dims[*rank] < 0 || dims[*rank] > 1 << 20) return 0;
    *count *= (size_t)dims[(*rank)++];
    if (*count > 1 << 24) return 0;
    text = end;
  }
  return 1;
}

/* The elements, to be freed; null if this is not such a file. */
static float* read_array(const char* path, uint32_t* rank, int64_t* dims) {
  char head[65546] = {0};
  float* data = NULL;
  size_t count = 0;
  FILE* const file = fopen(path, "rb");
  if (file == NULL) return NULL;
  if (fread(head, 1, 10, file) == 10 && memcmp(head, "\x93NUMPY\x01", 7) == 0) {
    const size_t size = (unsigned char)head[8] | (size_t)(unsigned char)head[9] << 8;
    const int whole = fread(head, 1, size, file) == size;
    head[size] = 0;
    const char* const shape = strstr(head, "'shape': (");
    if (whole && shape != NULL && strstr(head, "'<f4'") != NULL &&
        strstr(head, "'fortran_order': False") != NULL && strchr(shape, ')') != NULL &&
        read_shape(shape + 9, rank, dims, &count)) {
      data = malloc(count * sizeof *data + 1);
      if (data != NULL && fread(data, sizeof *data, count, file) != count) {
        free(data);
        data = NULL;
      }
    }
  }
  fclose(file);
  return data;
}

/* "NAME=FILE" into the input of that name; 0 on success. */
static int set_input(tenon_program_t* program, char* argument, int64_t (*dims)[TENON_RANK_MAX],
                     tenon_dense_t* in) {
  char* const path = strchr(argument, '=');
  if (path == NULL) return fprintf(stderr, "run_arrays: %s is not NAME=FILE\n", argument), 1;
  *path = 0;
  const uint32_t index = tenon_input_index(program, argument);
  if (index == UINT32_MAX)
    return fprintf(stderr, "run_arrays: the model has no input %s\n", argument), 1;
  uint32_t rank = 0;
  float* const data = read_array(path + 1, &rank, dims[index]);
  if (data == NULL) return fprintf(stderr, "run_arrays: %s: no array of f32\n", path + 1), 1;
  free(in[index].data);
  in[index] = tenon_dense(TENON_F32, data, rank, dims[index]);
  return 0;
}

static int print(const tenon_model_info_t* ports, const tenon_dense_t* out) {
  for (uint32_t i = 0; i < ports->output_count; ++i) {
    const tenon_str_t name = ports->outputs[i].name;
    size_t count = 1;
    if (out[i].dtype != TENON_F32) return fprintf(stderr, "run_arrays: an output is not f32\n"), 1;
    for (uint32_t d = 0; d < out[i].rank; ++d) count *= (size_t)out[i].dims[d];
    printf("%.*s:", (int)name.size, name.data);
    for (size_t k = 0; k < count; ++k) printf(" %.9g", (double)((const float*)out[i].data)[k]);
    printf("\n");
  }
  return 0;
}

int main(int argc, char** argv) {
  tenon_program_t* program;
  tenon_model_info_t ports = {sizeof ports, 0};
  if (argc < 2) return fprintf(stderr, "usage: run_arrays MODEL.tpk INPUT=FILE.npy...\n"), 2;
  if (tenon_open(argv[1], &program) != TENON_OK) return failed("load");
  if (tenon_program_ports(program, &ports) != TENON_OK) return failed("describe");
  const uint32_t inputs = ports.input_count, outputs = ports.output_count;
  tenon_dense_t* const in = calloc(inputs + 1, sizeof *in);
  tenon_dense_t* const out = calloc(outputs + 1, sizeof *out);
  int64_t(*const dims)[TENON_RANK_MAX] = calloc(inputs + 1, sizeof *dims);
  int status = in == NULL || out == NULL || dims == NULL;
  for (int i = 2; status == 0 && i < argc; ++i) status = set_input(program, argv[i], dims, in);
  if (status == 0 && tenon_call(program, in, inputs, out, outputs) != TENON_OK)
    status = failed("run");
  if (status == 0) status = print(&ports, out);
  if (out != NULL) tenon_dense_release(out, outputs);
  for (uint32_t i = 0; in != NULL && i < inputs; ++i) free(in[i].data);
  free(in);
  free(out);
  free(dims);
  tenon_program_release(program);
  return status;
}
