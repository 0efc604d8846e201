/* The ops `row_energy` and `row_median`, in plain C. Both are opaque: Tenon knows their meaning
 * only from their functions, as it would with a call into a library. row_energy has one rule for
 * derivatives, `pull`. row_median has none, so derivatives through it are refused. */
#include <stdlib.h>
#include <string.h>

#include "tenon/abi/host.h"
#include "tenon/abi/note.h"
#include "tenon/abi/plugin.h"

#define STR(text) {text, sizeof(text) - 1}
#define FLOATS (TENON_DTYPE_BIT(TENON_F32) | TENON_DTYPE_BIT(TENON_F64))
static const tenon_host_t* host;
static const tenon_host_graph_t* graphs;

/* One number for each row, also where the number of rows is a symbol. */
static tenon_code_t infer(void* self, const tenon_infer_t* query) {
  const tenon_type_t* x = &query->operands[0];
  return (void)self, query->result(query->host, x->dtype, x->dims, 1);
}

/* ---- Meanings ---- */

static double load(const tenon_array_t* a, const char* at) {
  return a->dtype == TENON_F64 ? *(const double*)at : (double)*(const float*)at;
}

static double energy(double* row, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += row[i] * row[i];
  return sum / 2;
}

static int by_size(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

/* The middle number, or the lower one of two; 0 for an empty row. */
static double median(double* row, int64_t count) {
  if (count == 0) return 0;
  qsort(row, (size_t)count, sizeof *row, by_size);
  return row[(count - 1) / 2];
}

/* `self` of an op: the function that it computes for each row. */
typedef struct {
  double (*of)(double* row, int64_t count);
} meaning_t;

static tenon_code_t reference(void* self, const tenon_eval_t* eval) {
  const tenon_array_t* x = eval->inputs;
  const tenon_array_t* y = eval->outputs;
  const int64_t columns = x->dims[1];
  double* row = malloc((size_t)columns * sizeof *row + 1);
  if (row == NULL) {
    static const tenon_str_t text = STR("there is not enough memory for a row");
    return host->fail(host->self, TENON_RESOURCE_EXHAUSTED, text, NULL, 0);
  }
  for (int64_t i = 0; i < x->dims[0]; ++i) {
    const char* at = (const char*)x->data + i * x->strides_bytes[0];
    for (int64_t k = 0; k < columns; ++k) row[k] = load(x, at + k * x->strides_bytes[1]);
    const double made = ((const meaning_t*)self)->of(row, columns);
    if (y->dtype == TENON_F64)
      ((double*)y->data)[i] = made;
    else
      ((float*)y->data)[i] = (float)made;
  }
  free(row);
  return TENON_OK;
}

/* ---- The derivative ---- */

static tenon_sym_t name(const char* text) {
  const tenon_str_t str = {text, strlen(text)};
  return host->intern(host->self, str);
}

/* Builds a node with one result. */
static tenon_code_t build(const tenon_builder_t* builder, const char* op,
                          const tenon_value_t* operands, uint32_t operand_count,
                          const tenon_attr_t* attrs, uint32_t attr_count, tenon_value_t* out) {
  const tenon_node_spec_t spec = {.size_bytes = sizeof spec,
                                  .op = name(op),
                                  .operands = operands,
                                  .attrs = attrs,
                                  .operand_count = operand_count,
                                  .attr_count = attr_count};
  tenon_node_t node = TENON_NONE;
  tenon_node_view_t view = {.size_bytes = sizeof view};
  tenon_code_t code = graphs->node_build(graphs->self, builder, &spec, &node);
  if (code == TENON_OK) code = graphs->node_view(graphs->self, builder->graph, node, &view);
  if (code == TENON_OK) *out = view.results[0];
  return code;
}

/* The derivative of half a sum of squares with respect to x is x, so the cotangent of x is each row
 * times the cotangent of its energy. */
static tenon_code_t pull_energy(void* self, const tenon_builder_t* builder, tenon_node_t node,
                                const uint8_t* wanted, const tenon_value_t* cotangents,
                                tenon_value_t* out_cotangents) {
  tenon_node_view_t view = {.size_bytes = sizeof view};
  tenon_value_view_t x = {.size_bytes = sizeof x};
  (void)self;
  if (wanted[0] == 0) return TENON_OK;
  tenon_code_t code = graphs->node_view(graphs->self, builder->graph, node, &view);
  if (code != TENON_OK) return code;
  const tenon_value_t operand = view.operands[0]; /* a view is valid until the graph changes */
  code = graphs->value_view(graphs->self, builder->graph, operand, &x);
  if (code != TENON_OK) return code;
  const int64_t rows = 0;
  const tenon_dim_t shape[] = {x.type.dims[0], x.type.dims[1]};
  const tenon_attr_t attrs[] = {{name("dims"), TENON_ATTR_I64S, 1, {.is = &rows}},
                                {name("shape"), TENON_ATTR_DIMS, 2, {.dims = shape}}};
  tenon_value_t factors[2] = {TENON_NONE, operand};
  code = build(builder, "broadcast", cotangents, 1, attrs, 2, &factors[0]);
  return code == TENON_OK ? build(builder, "mul", factors, 2, NULL, 0, out_cotangents) : code;
}

/* ---- Declarations ---- */

static const tenon_op_rules_t energy_rules = {.size_bytes = sizeof energy_rules,
                                              .pull = pull_energy};
static const tenon_operand_def_t operands[] = {{.name = STR("x"),
                                                .doc = STR("rows of numbers"),
                                                .dtypes = FLOATS,
                                                .rank_min = 2,
                                                .rank_max = 2}};
static const tenon_result_def_t results[] = {{STR("y"), STR("one number for each row")}};
static const tenon_str_t energy_examples[] = {
    STR("row_energy(f32[2, 2] [[1, 2], [3, 4]]) -> f32[2] [2.5, 12.5]")};
static const tenon_str_t median_examples[] = {
    STR("row_median(f32[2, 3] [[1, 9, 2], [3, 3, 4]]) -> f32[2] [2, 3]")};
static meaning_t energy_of = {energy}, median_of = {median};

/* What both have in common. */
#define ROW_OP                                                                           \
  .size_bytes = sizeof(tenon_op_def_t), .version = 1, .since = TENON_ABI_MINOR,          \
  .traits = TENON_TRAIT_PURE, .operands = operands, .operand_count = 1,                  \
  .operand_bytes = sizeof operands[0], .results = results, .result_count = 1,            \
  .result_bytes = sizeof results[0], .example_count = 1, .tolerance = 4, .infer = infer, \
  .reference = reference

static const tenon_op_def_t row_energy = {ROW_OP,
                                          .name = STR("row_energy"),
                                          .summary = STR("Half the sum of the squares of a row."),
                                          .cost_class = TENON_COST_REDUCTION,
                                          .self = &energy_of,
                                          .examples = energy_examples,
                                          .rules = &energy_rules};
static const tenon_op_def_t row_median = {
    ROW_OP,
    .name = STR("row_median"),
    .summary = STR("The number in the middle of a sorted row; the lower of two."),
    .cost_class = TENON_COST_SORT,
    .self = &median_of,
    .examples = median_examples};
static const tenon_op_def_t* const ops[] = {&row_energy, &row_median};
static const tenon_ops_t table = {sizeof table, NULL, ops, 2};
static const tenon_interface_t interfaces[] = {{STR(TENON_OPS_ID), 0, 0, &table}};
TENON_PLUGIN_NOTE("row_energy", "0.1.0", TENON_NOTE_OFFERS(TENON_OPS_ID, 0))

tenon_code_t tenon_plugin_query(uint32_t max_abi, const tenon_host_t* the_host,
                                const tenon_plugin_t** out) {
  static const tenon_plugin_t plugin = {.size_bytes = sizeof plugin,
                                        .abi = TENON_TARGET_ABI,
                                        .name = STR("row_energy"),
                                        .version = STR("0.1.0"),
                                        .build_id = STR(__VERSION__),
                                        .interfaces = interfaces,
                                        .interface_count = 1,
                                        .interface_bytes = sizeof interfaces[0]};
  static const tenon_str_t id = STR(TENON_HOST_GRAPH_ID);
  host = the_host;
  const void* found = NULL;
  const tenon_code_t code = host->query(host->self, id, 0, &found);
  if (code != TENON_OK) return code;
  graphs = found;
  *out = &plugin;
  return (void)max_abi, TENON_OK;
}
