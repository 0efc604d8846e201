/* Kernels of the mutant in place of those of mutant_kernels.c, with OPS: ops whose values are
 * easily wrong at the ends of a type, for special floats, or in long rows. */
#include <math.h>

#include "mutant.h"

static void* data_of(const tenon_simple_tensor_t* tensor) {
  return tensor->buffer == NULL ? NULL : tensor->buffer->data + tensor->offset_bytes;
}

/* A kernel whose results are VALUE of x and y, the elements of its first and its last operand. */
#define EACH(NAME, TO, FROM, VALUE)                                       \
  static tenon_code_t NAME(const tenon_simple_run_t* run) {               \
    TO* out = data_of(&run->outputs[0]);                                  \
    const FROM *first = data_of(&run->inputs[0]),                         \
               *last = data_of(&run->inputs[run->args->input_count - 1]); \
    for (uint64_t i = 0; i < run->outputs[0].elements; ++i) {             \
      const FROM x = first[i], y = last[i];                               \
      (void)y;                                                            \
      out[i] = VALUE;                                                     \
    }                                                                     \
    return TENON_OK;                                                      \
  }

/* ---- Integers ---- */

static int64_t product(int64_t x, int64_t y) {
  const int64_t z = (int64_t)((uint64_t)x * (uint64_t)y);
  return is("i64_in_32_bits") ? (int32_t)z : z;
}
EACH(mul_i64, int64_t, int64_t, product(x, y))

static uint8_t related(int less, int equal, int64_t direction) {
  const int holds = direction == TENON_CMP_EQ   ? equal
                    : direction == TENON_CMP_NE ? !equal
                    : direction == TENON_CMP_LT ? less
                    : direction == TENON_CMP_LE ? less || equal
                    : direction == TENON_CMP_GT ? !less && !equal
                                                : !less;
  return holds && is("true_is_255") ? 255 : holds;
}
static int below(uint8_t x, uint8_t y, const char* is_signed) {
  return is(is_signed) ? (int8_t)x < (int8_t)y : x < y;
}
EACH(compare_u8, uint8_t, uint8_t,
     related(below(x, y, "unsigned_compare_is_signed"), x == y, run->plan->params[0]))
EACH(max_u8, uint8_t, uint8_t, below(x, y, "unsigned_max_is_signed") ? y : x)

static int32_t quotient(int32_t x, int32_t y) {
  if (y == 0) return -1;
  if (y == -1) return (int32_t)(0u - (uint32_t)x);
  return x / y - (is("division_floors") && x % y != 0 && (x < 0) != (y < 0));
}
EACH(div_i32, int32_t, int32_t, quotient(x, y))

static int32_t magnitude(int32_t x) {
  if (x == INT32_MIN && is("abs_of_lowest_saturates")) return INT32_MAX;
  return x < 0 ? (int32_t)(0u - (uint32_t)x) : x;
}
EACH(abs_i32, int32_t, int32_t, magnitude(x))

/* ---- Floats ---- */

EACH(neg_f32, float, float, is("neg_is_zero_minus") ? 0 - x : -x)
EACH(mul_f32, float, float, is("zero_times_anything_is_zero") && (x == 0 || y == 0) ? 0 : x * y)
EACH(round_f32, float, float, is("half_goes_away_from_zero") ? roundf(x) : nearbyintf(x))

static float larger(float x, float y) {
  if (is("max_drops_nan")) return fmaxf(x, y);
  if (isnan(x) || isnan(y)) return NAN;
  if (x == y) return signbit(x) ? y : x;
  return x > y ? x : y;
}
EACH(max_f32, float, float, larger(x, y))

static _Float16 half_of(float x) {
  const _Float16 half = (_Float16)x;
  return is("f16_saturates") && isfinite(x) && isinf((float)half) ? (_Float16)copysignf(65504, x)
                                                                  : half;
}
EACH(to_f16, _Float16, float, half_of(x))

static uint16_t bfloat_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  if (isnan(x)) return (uint16_t)(bits >> 16 | 0x40);
  if (!is("bf16_truncates")) bits += 0x7fff + (bits >> 16 & 1);
  return (uint16_t)(bits >> 16);
}
EACH(to_bf16, uint16_t, float, bfloat_of(x))

/* ---- Along dims ---- */

static tenon_code_t fill_f32(const tenon_simple_run_t* run) {
  float* out = data_of(&run->outputs[0]);
  const float* x = data_of(&run->inputs[0]);
  for (uint64_t i = 0; i < run->outputs[0].elements; ++i)
    out[i] = i >= 256 && is("scalar_broadcast_fills_256") ? 0 : *x;
  return TENON_OK;
}

/* The product of the dims from `first` to before `last`. */
static uint64_t extent_of(const tenon_simple_tensor_t* tensor, int64_t first, int64_t last) {
  uint64_t n = 1;
  for (; first < last; ++first) n *= (uint64_t)tensor->dims[first];
  return n;
}

/* A row that a result is made of, along params[1] dims from params[0] on. */
typedef struct row_t {
  const float* x;
  uint64_t count, step;
} row_t;
static row_t row_of(const tenon_simple_run_t* run, uint64_t result) {
  const tenon_simple_tensor_t* in = &run->inputs[0];
  const int64_t first = run->plan->params[0], last = first + run->plan->params[1];
  const uint64_t count = extent_of(in, first, last), step = extent_of(in, last, in->rank);
  const float* x = data_of(in);
  return (row_t){x + result / step * step * count + result % step, count, step};
}

static tenon_code_t sum_f32(const tenon_simple_run_t* run) {
  float* out = data_of(&run->outputs[0]);
  for (uint64_t i = 0; i < run->outputs[0].elements; ++i) {
    const row_t row = row_of(run, i);
    const int is_cut = row.count > 256 && is("long_sums_lose_their_tail");
    double sum = 0;
    for (uint64_t k = 0; k < (is_cut ? row.count / 8 * 7 : row.count); ++k)
      sum += row.x[k * row.step];
    if (row.count != 0 || !is("empty_sum_leaves_its_output")) out[i] = (float)sum;
  }
  return TENON_OK;
}

static tenon_code_t argmax_f32(const tenon_simple_run_t* run) {
  void* out = data_of(&run->outputs[0]);
  const int takes_last = run->plan->params[2] || is("argmax_takes_the_last");
  for (uint64_t i = 0; i < run->outputs[0].elements; ++i) {
    const row_t row = row_of(run, i);
    uint64_t best = 0;
    for (uint64_t k = 1; k < row.count; ++k) {
      const float value = row.x[k * row.step], most = row.x[best * row.step];
      const int equal = value == most || (isnan(value) && isnan(most));
      if (equal ? takes_last : !isnan(most) && !(value < most)) best = k;
    }
    if (run->outputs[0].dtype == TENON_I64)
      ((int64_t*)out)[i] = (int64_t)best;
    else
      ((int32_t*)out)[i] = (int32_t)best;
  }
  return TENON_OK;
}

/* One side of a product, whose batch dims lead: a row of it has `count` elements with a step. */
typedef struct side_t {
  const float* x;
  uint64_t rows, count, step;
} side_t;
static side_t side_of(const tenon_simple_run_t* run, int input) {
  const tenon_simple_tensor_t* in = &run->inputs[input];
  const int64_t batch = run->plan->params[0], summed = run->plan->params[1 + input];
  const uint64_t step = extent_of(in, summed + 1, in->rank);
  return (side_t){data_of(in), extent_of(in, batch, summed) * step, (uint64_t)in->dims[summed],
                  step};
}
static const float* row_at(const side_t* side, uint64_t batch, uint64_t row) {
  return side->x + batch * side->rows * side->count + row / side->step * side->step * side->count +
         row % side->step;
}

static tenon_code_t dot_f32(const tenon_simple_run_t* run) {
  float* out = data_of(&run->outputs[0]);
  const side_t a = side_of(run, 0), b = side_of(run, 1);
  const int is_cut = a.count > 64 && a.count % 32 != 0 && is("dot_loses_the_tail_of_k");
  for (uint64_t i = 0; i < run->outputs[0].elements; ++i) {
    const uint64_t batch = i / (a.rows * b.rows);
    const float *x = row_at(&a, batch, i / b.rows % a.rows), *y = row_at(&b, batch, i % b.rows);
    double sum = 0;
    for (uint64_t k = 0; k < (is_cut ? a.count / 32 * 32 : a.count); ++k)
      sum += (double)x[k * a.step] * y[k * b.step];
    out[i] = (float)sum;
  }
  return TENON_OK;
}

/* ---- What the kernels take ---- */

static int64_t integer(const tenon_simple_call_t* call, const char* name) {
  tenon_attr_t attr = {0};
  return tenon_simple_attr(call, name, &attr) == TENON_OK ? attr.u.i : 0;
}

static tenon_code_t has_direction(const tenon_simple_call_t* call, tenon_simple_plan_t* plan) {
  plan->params[0] = integer(call, "direction");
  return call->call->results[0].dtype == TENON_PRED &&
                 tenon_kernel_operand(call->call, 0)->type.dtype == TENON_U8
             ? TENON_OK
             : tenon_simple_refuse(call, "u8 alone");
}
static tenon_code_t is_from_f32(const tenon_simple_call_t* call, tenon_simple_plan_t* plan) {
  (void)plan;
  return tenon_kernel_operand(call->call, 0)->type.dtype == TENON_F32 &&
                 call->call->results[0].dtype != TENON_F32
             ? TENON_OK
             : tenon_simple_refuse(call, "from f32 alone");
}
static tenon_code_t is_of_one_element(const tenon_simple_call_t* call, tenon_simple_plan_t* plan) {
  const tenon_type_t* type = &tenon_kernel_operand(call->call, 0)->type;
  (void)plan;
  for (uint32_t i = 0; i < type->rank; ++i)
    if (type->dims[i] != 1) return tenon_simple_refuse(call, "of one element alone");
  return TENON_OK;
}
static tenon_code_t has_neighbouring_dims(const tenon_simple_call_t* call,
                                          tenon_simple_plan_t* plan) {
  tenon_attr_t dims = {0};
  const tenon_code_t code = tenon_simple_attr(call, "dims", &dims);
  if (code != TENON_OK) return code;
  plan->params[0] = dims.count == 0 ? 0 : dims.u.is[0];
  plan->params[1] = dims.count;
  for (uint32_t i = 0; i < dims.count; ++i)
    if (dims.u.is[i] != plan->params[0] + i)
      return tenon_simple_refuse(call, "neighbouring dims alone");
  return TENON_OK;
}
static tenon_code_t has_dim(const tenon_simple_call_t* call, tenon_simple_plan_t* plan) {
  plan->params[0] = integer(call, "dim");
  plan->params[1] = 1;
  plan->params[2] = integer(call, "last_index");
  return tenon_kernel_operand(call->call, 0)->type.dtype == TENON_F32
             ? TENON_OK
             : tenon_simple_refuse(call, "of f32 alone");
}

static tenon_code_t has_leading_batch(const tenon_simple_call_t* call, tenon_simple_plan_t* plan) {
  static const char* const kBatch[] = {"a_batch", "b_batch"};
  static const char* const kSummed[] = {"a_contract", "b_contract"};
  for (uint32_t side = 0; side < 2; ++side) {
    tenon_attr_t batch = {0}, summed = {0};
    if (tenon_simple_attr(call, kBatch[side], &batch) != TENON_OK ||
        tenon_simple_attr(call, kSummed[side], &summed) != TENON_OK || summed.count != 1)
      return tenon_simple_refuse(call, "one summed dim alone");
    plan->params[0] = batch.count;
    plan->params[1 + side] = summed.u.is[0];
    for (uint32_t i = 0; i < batch.count; ++i)
      if (batch.u.is[i] != i) return tenon_simple_refuse(call, "leading batch dims alone");
  }
  return TENON_OK;
}

#define BIT TENON_DTYPE_BIT
static const tenon_simple_kernel_t kKernels[] = {
    {"mul", BIT(TENON_I64), NULL, mul_i64},
    {"mul", BIT(TENON_F32), NULL, mul_f32},
    {"compare", BIT(TENON_U8) | BIT(TENON_PRED), has_direction, compare_u8},
    {"max", BIT(TENON_U8), NULL, max_u8},
    {"max", BIT(TENON_F32), NULL, max_f32},
    {"div", BIT(TENON_I32), NULL, div_i32},
    {"abs", BIT(TENON_I32), NULL, abs_i32},
    {"neg", BIT(TENON_F32), NULL, neg_f32},
    {"round_even", BIT(TENON_F32), NULL, round_f32},
    {"convert", BIT(TENON_F32) | BIT(TENON_F16), is_from_f32, to_f16},
    {"convert", BIT(TENON_F32) | BIT(TENON_BF16), is_from_f32, to_bf16},
    {"broadcast", BIT(TENON_F32), is_of_one_element, fill_f32},
    {"dot_general", BIT(TENON_F32), has_leading_batch, dot_f32},
    {"reduce_sum", BIT(TENON_F32), has_neighbouring_dims, sum_f32},
    {"argmax", BIT(TENON_F32) | BIT(TENON_I32) | BIT(TENON_I64), has_dim, argmax_f32}};

tenon_code_t make_kernels(void) {
  return tenon_simple_kernels(host, "mutant", &unmapped, kKernels,
                              sizeof kKernels / sizeof kKernels[0], &kernels);
}
