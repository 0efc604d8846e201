/* What the asynchronous mutant claims. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "async_compile.h"

static const char* const kOps[] = {"add", "mul", "max", "sub", "dot_general", "convert"};

int op_of(const tenon_node_view_t* node) {
  const tenon_str_t name = host->sym_text(host->self, node->op);
  for (int i = 0; i <= CONVERT; ++i) {
    if (i >= TAKES_OPS && !(i == SUB && is("claims_what_it_cannot")) &&
        !(i == PRODUCT && TAKES_PRODUCTS) && !(i == CONVERT && CONVERTS))
      continue;
    if (strlen(kOps[i]) == name.size && memcmp(kOps[i], name.data, name.size) == 0) return i;
  }
  return -1;
}

int view_value(tenon_graph_t* graph, tenon_value_t value, tenon_value_view_t* out) {
  *out = (tenon_value_view_t){.size_bytes = sizeof *out};
  return graphs->value_view(graphs->self, graph, value, out) == TENON_OK;
}

static int takes_type(tenon_graph_t* graph, tenon_value_t value, tenon_dtype_t dtype) {
  tenon_value_view_t v;
  if (!view_value(graph, value, &v) || v.type.kind != TENON_KIND_TENSOR || v.type.dtype != dtype ||
      v.type.rank > MAX_RANK)
    return 0;
  for (uint32_t i = 0; i < v.type.rank; ++i) {
    tenon_dim_view_t dim = {.size_bytes = sizeof dim};
    if (v.type.dims[i] >= 0) continue;
    if (graphs->dim_view(graphs->self, graph, v.type.dims[i], &dim) != TENON_OK ||
        dim.op != TENON_DIM_SYMBOL)
      return 0;
  }
  return 1;
}

/* A product of two matrices of known sizes. */
static int is_plain_product(tenon_graph_t* graph, const tenon_node_view_t* node) {
  for (uint32_t i = 0; i < 2; ++i) {
    tenon_value_view_t v;
    if (!view_value(graph, node->operands[i], &v) || v.type.rank != 2 || v.type.dims[0] < 0 ||
        v.type.dims[1] < 0)
      return 0;
  }
  for (uint32_t i = 0; i < node->attr_count; ++i) {
    const tenon_attr_t* attr = &node->attrs[i];
    const tenon_str_t name = host->sym_text(host->self, attr->name);
    const int a = name.size == 10 && memcmp(name.data, "a_contract", 10) == 0;
    const int b = name.size == 10 && memcmp(name.data, "b_contract", 10) == 0;
    if (attr->kind != TENON_ATTR_I64S) continue;
    if (a || b ? attr->count != 1 || attr->u.is[0] != a : attr->count != 0) return 0;
  }
  return 1;
}

static const char* obstacle(tenon_graph_t* graph, const tenon_node_view_t* node) {
  const int op = op_of(node);
  if (op < 0) return REFUSAL;
  const tenon_value_t x = node->operands[0], z = node->results[0];
  if (op == CONVERT) {
    const int taken = (takes_type(graph, x, TENON_F32) && takes_type(graph, z, TENON_I32)) ||
                      (takes_type(graph, x, TENON_I32) && takes_type(graph, z, TENON_F32));
    return taken ? NULL : "async: between f32 and i32 alone";
  }
  if (!takes_type(graph, x, TENON_F32) || !takes_type(graph, node->operands[1], TENON_F32))
    return "async: f32 alone, of plain dims";
  if (op == PRODUCT && !is_plain_product(graph, node))
    return "async: dot_general of two matrices alone";
  return NULL;
}

/* The node of this op that alone reads the first result of another; 0 if there is none. */
static int only_reader(tenon_graph_t* graph, tenon_node_t of, int op, tenon_node_t* out) {
  tenon_node_view_t node = {.size_bytes = sizeof node};
  const tenon_use_t* uses = NULL;
  uint32_t count = 0;
  graphs->node_view(graphs->self, graph, of, &node);
  if (graphs->value_uses(graphs->self, graph, node.results[0], &uses, &count) != TENON_OK ||
      count != 1 || uses[0].node == TENON_NONE)
    return 0;
  *out = uses[0].node;
  node.size_bytes = sizeof node;
  graphs->node_view(graphs->self, graph, *out, &node);
  return op_of(&node) == op && obstacle(graph, &node) == NULL;
}

int is_pattern(tenon_graph_t* graph, tenon_node_t first, tenon_node_t nodes[3]) {
  tenon_node_view_t node = {.size_bytes = sizeof node};
  graphs->node_view(graphs->self, graph, first, &node);
  nodes[0] = first;
  return op_of(&node) == PRODUCT && obstacle(graph, &node) == NULL &&
         only_reader(graph, first, ADD, &nodes[1]) && only_reader(graph, nodes[1], MAX, &nodes[2]);
}

static tenon_code_t claim_patterns(tenon_graph_t* graph, const tenon_region_view_t* region,
                                   uint32_t node_limit, const tenon_claim_sink_t* sink) {
  for (uint32_t i = 0; i < region->node_count; ++i) {
    tenon_node_t nodes[4] = {0};
    if (!is_pattern(graph, region->nodes[i], nodes)) {
      const tenon_code_t code = sink->refuse(sink->self, region->nodes[i], TENON_UNIMPLEMENTED,
                                             (tenon_str_t)TENON_STR(REFUSAL));
      if (code != TENON_OK) return code;
      continue;
    }
    tenon_claim_t claim = {sizeof claim, TENON_CLAIM_ATOMIC, nodes, 3, 0, 1000};
    if (is("claims_together_twice")) nodes[3] = nodes[0], claim.node_count = 4;
    if (is("claims_together_unknown_node")) nodes[1] = node_limit + 3;
    const tenon_code_t code = sink->claim(sink->self, &claim);
    if (code != TENON_OK) return code;
  }
  return TENON_OK;
}

static struct {
  const tenon_claim_sink_t* sink;
  tenon_node_t node;
} later;
static void* claim_later(void* unused) {
  usleep(20000);
  tenon_claim_node(later.sink, later.node, 1);
  return unused;
}

static tenon_code_t claim_one(const tenon_claim_sink_t* sink, tenon_node_t node,
                              uint32_t node_limit) {
  tenon_node_t twice[2] = {node, node};
  static int claims;
  double cost = is("claims_nan")        ? NAN
                : is("claims_infinity") ? INFINITY
                : is("claims_negative") ? -1
                                        : 1000;
  if (is("claims_cost_more_each_time")) cost += ++claims;
  if (is("claims_unknown_node")) node = node_limit + 3;
  tenon_claim_t odd = {sizeof odd, 0, twice, 2, 0, cost};
  if (is("claims_twice")) return sink->claim(sink->self, &odd);
  odd.node_count = 0;
  if (is("claims_nothing")) sink->claim(sink->self, &odd);
  odd.node_count = 1, odd.flags = 6;
  if (is("claims_with_odd_flags")) return sink->claim(sink->self, &odd);
  if (is("refuses_claimed"))
    sink->refuse(sink->self, node, TENON_UNIMPLEMENTED, (tenon_str_t)TENON_STR("async: no"));
  if (is("claims_later")) {
    pthread_t thread;
    later.sink = sink;
    later.node = node;
    pthread_create(&thread, NULL, claim_later, NULL);
    pthread_detach(thread);
  }
  const tenon_code_t code = tenon_claim_node(sink, node, cost);
  return is("claim_sink_error_lost") ? TENON_OK : code;
}

tenon_code_t claim(void* self, tenon_str_t target, tenon_graph_t* graph,
                   const tenon_compile_options_t* options, const tenon_claim_sink_t* sink) {
  static int calls;
  tenon_graph_view_t whole = {.size_bytes = sizeof whole};
  tenon_region_view_t region = {.size_bytes = sizeof region};
  (void)self, (void)target, (void)options;
  if (is("claim_needs_device") && !device_was_opened())
    return fail(TENON_FAILED_PRECONDITION, "no device is open");
  graphs->graph_view(graphs->self, graph, &whole);
  graphs->region_view(graphs->self, graph, whole.main, &region);
  if (TAKES_PATTERNS) return claim_patterns(graph, &region, whole.node_limit, sink);
  const int call = __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
  for (uint32_t i = 0; i < region.node_count; ++i) {
    tenon_node_view_t node = {.size_bytes = sizeof node};
    graphs->node_view(graphs->self, graph, region.nodes[i], &node);
    const char* reason = obstacle(graph, &node);
    if (is("claim_edits_graph") && node.operand_count > 1)
      ((tenon_value_t*)(uintptr_t)node.operands)[0] = node.operands[1];
    if (is("claims_less_each_time") && call > 0) reason = "async: enough";
    tenon_code_t code = TENON_OK;
    if (reason == NULL)
      code = claim_one(sink, region.nodes[i], whole.node_limit);
    else if (is("refuses_without_reason"))
      code = sink->refuse(sink->self, region.nodes[i], TENON_UNIMPLEMENTED, (tenon_str_t){NULL, 0});
    else
      code = sink->refuse(sink->self, region.nodes[i],
                          is("refuses_oddly") ? TENON_INTERNAL : TENON_UNIMPLEMENTED,
                          (tenon_str_t){reason, strlen(reason)});
    if (code != TENON_OK) return code;
  }
  return TENON_OK;
}
