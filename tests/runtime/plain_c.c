/* Every function of <tenon/tenon.h>, by a program as users write it: the SDK's header and libtenon.
 *
 *     plain_c DEVICE FOLDER        writes and reads files in FOLDER
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tenon/tenon.h>

#define REQUIRE(condition)                                                                        \
  do {                                                                                            \
    if (!(condition)) {                                                                           \
      fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #condition, tenon_error()); \
      exit(1);                                                                                    \
    }                                                                                             \
  } while (0)

static const char kModel[] =
    "tenon.tir 1\n"
    "graph @sum<n>(%x: f32[n, 2], %y: f32[n, 2]) -> (total: f32[n, 2], difference: f32[n, 2]) {\n"
    "  %t = add(%x, %y) : f32[n, 2]\n"
    "  %d = sub(%x, %y) : f32[n, 2]\n"
    "  yield %t, %d\n"
    "}\n";

static const float kX[] = {1, 2, 3, 4, 5, 6}, kY[] = {10, 20, 30, 40, 50, 60};
static const int64_t kDims[] = {3, 2};

static int starts_with(const char* text, const char* begin) {
  return strncmp(text, begin, strlen(begin)) == 0;
}

static void write_model(const char* path) {
  FILE* const file = fopen(path, "w");
  REQUIRE(file != NULL && fputs(kModel, file) >= 0 && fclose(file) == 0);
}

static void check_ports(tenon_program_t* program) {
  tenon_model_info_t ports = {sizeof ports, 0};
  REQUIRE(tenon_program_ports(program, &ports) == TENON_OK);
  REQUIRE(ports.input_count == 2 && ports.output_count == 2);
  REQUIRE(ports.inputs[0].dtype == TENON_F32 && ports.inputs[0].rank == 2);
  REQUIRE(ports.inputs[0].dims[0] == -1 && ports.inputs[0].dims[1] == 2);
  REQUIRE(tenon_input_index(program, "y") == 1);
  REQUIRE(tenon_output_index(program, "difference") == 1);
  REQUIRE(tenon_input_index(program, "total") == UINT32_MAX);
  REQUIRE(tenon_output_index(program, "") == UINT32_MAX);
}

static void check_calls(tenon_program_t* program) {
  float differences[6] = {0};
  tenon_dense_t in[2] = {tenon_dense(TENON_F32, kX, 2, kDims),
                         tenon_dense(TENON_F32, kY, 2, kDims)};
  tenon_dense_t out[2] = {{0}, tenon_dense(TENON_F32, differences, 2, kDims)};
  REQUIRE(tenon_call(program, in, 2, out, 2) == TENON_OK);
  REQUIRE(out[0].dtype == TENON_F32 && out[0].rank == 2 && out[0].dims[0] == 3 &&
          out[0].dims[1] == 2);
  REQUIRE(out[0].storage != NULL && out[1].storage == NULL && out[1].data == differences);
  for (int i = 0; i < 6; ++i) {
    REQUIRE(((const float*)out[0].data)[i] == kX[i] + kY[i]);
    REQUIRE(differences[i] == kX[i] - kY[i]);
  }
  tenon_dense_release(out, 2);
  REQUIRE(out[0].data == NULL && out[0].storage == NULL && out[1].data == differences);
  tenon_dense_release(out, 2);
}

static void check_wrong_calls(tenon_program_t* program) {
  const int64_t other[] = {4, 2};
  float eight[8] = {0};
  tenon_dense_t in[2] = {tenon_dense(TENON_F32, kX, 2, kDims),
                         tenon_dense(TENON_F32, kY, 2, kDims)};
  tenon_dense_t out[2] = {{0}, tenon_dense(TENON_F32, eight, 2, other)};
  REQUIRE(tenon_call(program, in, 2, out, 2) == TENON_INVALID_ARGUMENT);
  REQUIRE(starts_with(tenon_error(), "T0620: "));
  REQUIRE(out[0].storage == NULL && out[1].data == eight);
  REQUIRE(tenon_call(program, in, 1, out, 2) == TENON_INVALID_ARGUMENT);
  REQUIRE(starts_with(tenon_error(), "T0601: "));
  REQUIRE(tenon_call(program, NULL, 2, out, 2) == TENON_INVALID_ARGUMENT);
  REQUIRE(tenon_call(NULL, in, 2, out, 2) == TENON_INVALID_ARGUMENT);
}

/* More arguments than the records on the stack. */
static void check_many_arguments(const char* device, const char* path) {
  enum { kCount = 11 };
  tenon_model_t* model;
  tenon_program_t* program;
  tenon_dense_t in[kCount], out[kCount] = {{0}};
  float values[kCount];
  FILE* const file = fopen(path, "w");
  REQUIRE(file != NULL);
  fputs("tenon.tir 1\ngraph @many(", file);
  for (int i = 0; i < kCount; ++i) fprintf(file, "%s%%x%d: f32[]", i == 0 ? "" : ", ", i);
  fputs(") -> (", file);
  for (int i = 0; i < kCount; ++i) fprintf(file, "%sy%d: f32[]", i == 0 ? "" : ", ", i);
  fputs(") {\n", file);
  for (int i = 0; i < kCount; ++i) fprintf(file, "  %%y%d = neg(%%x%d) : f32[]\n", i, i);
  fputs("  yield ", file);
  for (int i = 0; i < kCount; ++i) fprintf(file, "%s%%y%d", i == 0 ? "" : ", ", i);
  fputs("\n}\n", file);
  REQUIRE(fclose(file) == 0);
  REQUIRE(tenon_load(path, &model) == TENON_OK);
  REQUIRE(tenon_compile(model, device, &program) == TENON_OK);
  for (int i = 0; i < kCount; ++i) {
    values[i] = (float)i;
    in[i] = tenon_dense(TENON_F32, &values[i], 0, NULL);
  }
  REQUIRE(tenon_call(program, in, kCount, out, kCount) == TENON_OK);
  for (int i = 0; i < kCount; ++i) REQUIRE(*(const float*)out[i].data == -(float)i);
  tenon_dense_release(out, kCount);
  tenon_program_release(program);
  tenon_model_release(model);
}

int main(int argc, char** argv) {
  tenon_model_t* model = NULL;
  tenon_program_t* program = NULL;
  char path[1000], package[1000];
  REQUIRE(argc == 3);
  REQUIRE(tenon_error()[0] == 0);
  snprintf(path, sizeof path, "%s/plain_c.tir", argv[2]);
  snprintf(package, sizeof package, "%s/plain_c.tpk", argv[2]);
  write_model(path);

  REQUIRE(tenon_load("no/such.tir", &model) == TENON_NOT_FOUND && model == NULL);
  REQUIRE(strstr(tenon_error(), "no/such.tir") != NULL);
  REQUIRE(tenon_load(NULL, &model) != TENON_OK && model == NULL);
  REQUIRE(tenon_load(path, NULL) == TENON_INVALID_ARGUMENT);
  REQUIRE(tenon_load(path, &model) == TENON_OK);
  REQUIRE(tenon_compile(model, "no_such_device", &program) == TENON_NOT_FOUND && program == NULL);
  REQUIRE(tenon_compile(NULL, NULL, &program) == TENON_INVALID_ARGUMENT && program == NULL);
  REQUIRE(tenon_compile(model, argv[1], &program) == TENON_OK);
  REQUIRE(tenon_save(model, argv[1], "no/such.tpk") != TENON_OK);
  REQUIRE(tenon_save(model, argv[1], package) == TENON_OK);
  tenon_model_release(model);
  check_ports(program);
  check_calls(program);
  check_wrong_calls(program);
  tenon_program_release(program);

  REQUIRE(tenon_open(path, &program) == TENON_DATA_LOSS);
  REQUIRE(tenon_open(package, &program) == TENON_OK);
  check_ports(program);
  check_calls(program);
  tenon_program_release(program);
  tenon_program_release(NULL);
  tenon_model_release(NULL);
  tenon_dense_release(NULL, 0);
  check_many_arguments(argv[1], path);
  printf("every function of tenon.h\n");
  return 0;
}
