/* tenon.compile/1 of the asynchronous mutant: add, mul and max of f32, whose dims are numbers or
 * single symbols. An artifact is a list of values: arguments, then constants, then nodes in order.
 *
 * async_packed.h has the form of its constants in files.
 *
 * Two variants are other kinds of devices. FEW takes add and products of matrices alone. GRAPHS
 * takes no node by itself: a product, a sum and a maximum, one behind the other, together. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "async.h"

#define MAX_RANK 4
enum { ADD, MUL, MAX, SUB, PRODUCT };
static const char* const kOps[] = {"add", "mul", "max", "sub", "dot_general"};
#if defined(FEW)
enum { TAKES_PRODUCTS = 1, TAKES_PATTERNS = 0, TAKES_OPS = 1 };
#define REFUSAL "async: add and dot_general alone"
#elif defined(GRAPHS)
enum { TAKES_PRODUCTS = 1, TAKES_PATTERNS = 1, TAKES_OPS = 3 };
#define REFUSAL "async: dot_general, add and max together, and nothing else"
#else
enum { TAKES_PRODUCTS = 0, TAKES_PATTERNS = 0, TAKES_OPS = 3 };
#define REFUSAL "async: add, mul and max alone"
#endif

typedef struct value_t {
  int32_t op, a, b;
  uint32_t rank;
  int64_t dims[MAX_RANK]; /* ~i for symbol i of the main region */
} value_t;
typedef struct head_t {
  char magic[8];
  uint32_t arguments, constants, nodes, yields, symbols, reserved;
  uint64_t address, digest; /* of what follows */
} head_t;

struct tenon_artifact_t {
  uint64_t size;
  int calls;
  char bytes[];
};
struct tenon_executable_t {
  tenon_device_t* device;
  tenon_artifact_t* copy;
  const head_t* head;
  const value_t* values;
  const uint32_t* yields;
  tenon_blob_t** blobs;
  const float** constants;
  int64_t first_symbols[8];
  int runs, started, sulks;
  tenon_blob_t* const* packed; /* packed_keeps_array */
  int short_packed;            /* packed_short_later */
};

static const tenon_host_graph_t* graphs;
static const tenon_host_registry_t* registry;
static const tenon_host_threads_t* threads;

/* ---- Claims ---- */

static int op_of(const tenon_node_view_t* node) {
  const tenon_str_t name = host->sym_text(host->self, node->op);
  for (int i = 0; i <= PRODUCT; ++i) {
    if (i >= TAKES_OPS && !(i == SUB && is("claims_what_it_cannot")) &&
        !(i == PRODUCT && TAKES_PRODUCTS))
      continue;
    if (strlen(kOps[i]) == name.size && memcmp(kOps[i], name.data, name.size) == 0) return i;
  }
  return -1;
}

static int view_value(tenon_graph_t* graph, tenon_value_t value, tenon_value_view_t* out) {
  *out = (tenon_value_view_t){.size_bytes = sizeof *out};
  return graphs->value_view(graphs->self, graph, value, out) == TENON_OK;
}

static int takes_type(tenon_graph_t* graph, tenon_value_t value) {
  tenon_value_view_t v;
  if (!view_value(graph, value, &v) || v.type.kind != TENON_KIND_TENSOR ||
      v.type.dtype != TENON_F32 || v.type.rank > MAX_RANK)
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
  if (!takes_type(graph, node->operands[0]) || !takes_type(graph, node->operands[1]))
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

/* A product, a sum and a maximum, one behind the other, from this node on. */
static int is_pattern(tenon_graph_t* graph, tenon_node_t first, tenon_node_t nodes[3]) {
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
  double cost = is("claims_nan") ? NAN : is("claims_negative") ? -1 : 1000;
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

static tenon_code_t claim(void* self, tenon_str_t target, tenon_graph_t* graph,
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

/* ---- Artifacts ---- */

/* Digest of head and body, without the digest itself. */
static uint64_t digest_of(head_t head, const char* body, uint64_t size) {
  uint64_t hash = 1469598103934665603u;
  head.digest = 0;
  for (uint64_t i = 0; i < sizeof head; ++i)
    hash = (hash ^ ((const unsigned char*)&head)[i]) * 1099511628211u;
  for (uint64_t i = 0; i < size; ++i) hash = (hash ^ (unsigned char)body[i]) * 1099511628211u;
  return hash;
}

static int64_t dim_code(tenon_graph_t* graph, const tenon_region_view_t* region, tenon_dim_t dim) {
  tenon_dim_view_t view = {.size_bytes = sizeof view};
  if (dim >= 0) return dim;
  graphs->dim_view(graphs->self, graph, dim, &view);
  for (uint32_t i = 0; i < region->symbol_count; ++i)
    if (region->symbols[i] == view.symbol)
      return ~(int64_t)(is("symbols_reversed") ? region->symbol_count - 1 - i : i);
  return 0;
}

static void set_type(tenon_graph_t* graph, const tenon_region_view_t* region, tenon_value_t value,
                     value_t* out) {
  tenon_value_view_t v;
  view_value(graph, value, &v);
  out->rank = v.type.rank;
  for (uint32_t i = 0; i < v.type.rank; ++i) out->dims[i] = dim_code(graph, region, v.type.dims[i]);
}

/* Uses this many milliseconds of processor time. */
static void burn(int ms) {
  struct timespec begin, now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
  do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < ms);
}

static value_t shared_values[4096];
static void* volatile lost;

static tenon_code_t compile(void* self, tenon_str_t target, tenon_graph_t* graph,
                            const tenon_compile_options_t* options, tenon_artifact_t** out) {
  tenon_graph_view_t whole = {.size_bytes = sizeof whole};
  tenon_region_view_t region = {.size_bytes = sizeof region};
  (void)self, (void)target, (void)options;
  graphs->graph_view(graphs->self, graph, &whole);
  graphs->region_view(graphs->self, graph, whole.main, &region);
  if (is("concrete_sizes") && region.symbol_count != 0)
    return fail(TENON_UNIMPLEMENTED, "concrete sizes alone");
  if (is("compiles_two_at_most") && region.node_count > 2)
    return fail(TENON_UNIMPLEMENTED, "two nodes at most");
  tenon_node_t pattern[3];
  if (TAKES_PATTERNS && (region.node_count != 3 || !is_pattern(graph, region.nodes[0], pattern) ||
                         is("claims_together_what_it_cannot")))
    return fail(TENON_UNIMPLEMENTED, REFUSAL);
  if (is("one_long_call")) {
    if (host->cancelled(host->self)) return fail(TENON_CANCELLED, "stopped");
    burn(2500);
    if (host->cancelled(host->self)) return fail(TENON_CANCELLED, "stopped");
  }
  if (is("compiles_no_single") && region.node_count == 1)
    return fail(TENON_UNIMPLEMENTED, "one node is not worth it");
  head_t head = {.magic = "ASYNC001",
                 .arguments = region.argument_count,
                 .nodes = region.node_count,
                 .yields = region.yield_count,
                 .symbols = region.symbol_count};
  int32_t* number = calloc(whole.value_limit + 1, sizeof *number);
  value_t* values = calloc(whole.value_limit + 1, sizeof *values);
  if (is("shared_compile_state")) values = memset(shared_values, 0, sizeof shared_values);
  int32_t n = 0, is_late = 0;
  for (uint32_t i = 0; i < region.argument_count; ++i) {
    number[region.arguments[i]] = n;
    set_type(graph, &region, region.arguments[i], &values[n++]);
  }
  const float* constant_data = NULL;
  for (tenon_value_t v = 0; v < whole.value_limit; ++v) {
    tenon_value_view_t view;
    if (!view_value(graph, v, &view) || view.kind != TENON_VALUE_CONSTANT) continue;
    uint64_t size = 0;
    const void* data = NULL;
    if (graphs->blob_data(graphs->self, view.blob, &data, &size) == TENON_OK)
      constant_data = data;
    else if (is("late_needs_bytes")) {
      free(number), free(values);
      return TENON_FAILED_PRECONDITION;
    }
    number[v] = n;
    set_type(graph, &region, v, &values[n++]);
    ++head.constants;
  }
  for (uint32_t i = 0; i < region.node_count; ++i) {
    tenon_node_view_t node = {.size_bytes = sizeof node};
    graphs->node_view(graphs->self, graph, region.nodes[i], &node);
    if (is("never_polls"))
      burn(50); /* of 62 nodes */
    else if (host->cancelled(host->self) && is("stops_late"))
      burn(2500), is_late = 1;
    else if (is_late ||
             (host->cancelled(host->self) && !is("ignores_cancel") && !is("cancelled_oddly"))) {
      free(number), free(values);
      return fail(TENON_CANCELLED, "stopped");
    }
    if (is("cancelled_oddly") && host->cancelled(host->self))
      return fail(TENON_INTERNAL, "stopped");
    if (is("shared_compile_state")) usleep(2000);
    const int op = op_of(&node);
    if (op < 0 || op == SUB) {
      free(number), free(values);
      return fail(TENON_UNIMPLEMENTED, "an op that async does not take");
    }
    values[n].op = op;
    values[n].a = number[node.operands[0]];
    values[n].b = number[node.operands[1]];
    number[node.results[0]] = n;
    set_type(graph, &region, node.results[0], &values[n++]);
  }
  const uint64_t body = (uint64_t)n * sizeof *values + head.yields * sizeof(uint32_t),
                 extra = is("holds_constants") && head.constants != 0 ? 256 : 0;
  tenon_artifact_t* artifact = malloc(sizeof *artifact + sizeof head + body + extra);
  if (is("artifact_stays")) memset(lost = malloc(300000), 1, 300000);
  artifact->size = sizeof head + body + extra;
  artifact->calls = 0;
  char* at = artifact->bytes + sizeof head;
  memcpy(at, values, (uint64_t)n * sizeof *values);
  for (uint32_t i = 0; i < head.yields; ++i)
    memcpy(at + (uint64_t)n * sizeof *values + i * sizeof(uint32_t), &number[region.yields[i]],
           sizeof(uint32_t));
  if (extra != 0) memcpy(at + body, constant_data, extra);
  if (is("holds_addresses")) head.address = (uint64_t)(uintptr_t)artifact;
  head.digest = digest_of(head, at, body + extra);
  memcpy(artifact->bytes, &head, sizeof head);
  free(number);
  if (!is("shared_compile_state")) free(values);
  *out = artifact;
  return TENON_OK;
}

static tenon_artifact_t* last_artifact;

static void artifact_release(void* self, tenon_artifact_t* artifact) {
  (void)self;
  memset(artifact->bytes, 0xee, artifact->size);
  if (!is("needs_artifact") && !is("artifact_stays")) free(artifact);
}

static tenon_code_t artifact_info(void* self, tenon_artifact_t* artifact,
                                  tenon_artifact_info_t* out) {
  if (is("info_fails")) return fail(TENON_UNIMPLEMENTED, "it knows nothing of it");
  const tenon_artifact_info_t made = {
      .size_bytes = sizeof made, .kernels_compiled = 1, .code_bytes = artifact->size};
  return (void)self, tenon_record_give(out, &made, sizeof made);
}

static tenon_code_t artifact_bytes(void* self, tenon_artifact_t* artifact,
                                   const tenon_sink_t* sink) {
  (void)self;
  last_artifact = artifact;
  if (is("bytes_change")) ((head_t*)artifact->bytes)->reserved = (uint32_t)++artifact->calls;
  const uint64_t half = artifact->size / 2;
  const tenon_code_t code = sink->write(sink->self, artifact->bytes, half);
  if (code != TENON_OK) return is("sink_error_lost") ? TENON_OK : code;
  const tenon_code_t rest = sink->write(sink->self, artifact->bytes + half, artifact->size - half);
  return is("sink_error_lost") ? TENON_OK : rest;
}

/* Null if the bytes are good, else what is wrong with them. */
static const char* fault_of(const void* bytes, uint64_t size) {
  head_t head;
  if (is("trusts_bytes") && size >= sizeof head) {
    if (memcmp(bytes, "ASYNC001", 8) == 0) return NULL;
  }
  if (size < sizeof head || memcmp(bytes, "ASYNC001", 8) != 0)
    return "these bytes are no artifact of async";
  memcpy(&head, bytes, sizeof head);
  const uint64_t values = (uint64_t)head.arguments + head.constants + head.nodes,
                 body = size - sizeof head;
  if (head.digest != digest_of(head, (const char*)bytes + sizeof head, body) && !is("bytes_change"))
    return "the artifact is damaged";
  if (head.symbols > 8) return "too many symbols";
  if (values * sizeof(value_t) + head.yields * sizeof(uint32_t) != body && !is("holds_constants"))
    return "the artifact is damaged";
  return NULL;
}

static tenon_code_t fits(void* self, tenon_str_t target, const void* bytes, uint64_t size) {
  (void)self;
  if (is("fits_anything")) return TENON_OK;
  if ((target.size != 5 || memcmp(target.data, "async", 5) != 0) && !is("fits_any_target"))
    return fail(TENON_FAILED_PRECONDITION, "there is no such target");
  if (is("fits_nothing")) return fail(TENON_FAILED_PRECONDITION, "compile it again");
  if (is("fits_reads_far") && size >= 8 && memcmp(bytes, "ASYNC001", 8) == 0) {
    volatile uint64_t sum = 0;
    for (uint64_t i = 0; i < ((const head_t*)bytes)->yields * 4096u; ++i)
      sum += ((const unsigned char*)bytes)[i];
  }
  const char* fault = fault_of(bytes, size);
  if (fault == NULL) return TENON_OK;
  if (is("fits_oddly")) return fail(TENON_INTERNAL, fault);
  return is("fits_silently") ? TENON_FAILED_PRECONDITION : fail(TENON_FAILED_PRECONDITION, fault);
}

/* The constant that the first load of this artifact got. */
static tenon_blob_t* first_of_artifact(const head_t* head, uint32_t i, tenon_blob_t* now) {
  static tenon_blob_t* kept[8];
  static uint64_t digests[8];
  if (digests[i] == head->digest) return kept[i];
  graphs->blob_retain(graphs->self, now);
  digests[i] = head->digest;
  return kept[i] = now;
}

/* An executable without its constants. */
static tenon_executable_t* new_executable(tenon_device_t* device, const void* bytes, uint64_t size,
                                          uint32_t constant_count) {
  const head_t* head = bytes;
  tenon_executable_t* exe = calloc(1, sizeof *exe);
  exe->device = device;
  if (is("executable_stays")) memset(lost = malloc(300000), 1, 300000);
  exe->copy = malloc(sizeof *exe->copy + size);
  exe->copy->size = size;
  memcpy(exe->copy->bytes, bytes, size);
  const char* kept = is("keeps_bytes")                               ? bytes
                     : is("needs_artifact") && last_artifact != NULL ? last_artifact->bytes
                                                                     : exe->copy->bytes;
  exe->head = (const head_t*)kept;
  exe->values = (const value_t*)(kept + sizeof *head);
  exe->yields = (const uint32_t*)(exe->values + head->arguments + head->constants + head->nodes);
  exe->blobs = calloc(constant_count + 1, sizeof *exe->blobs);
  exe->constants = calloc(head->constants + 1, sizeof *exe->constants);
  for (int i = 0; i < 8; ++i) exe->first_symbols[i] = -1;
  return exe;
}

static tenon_code_t load(void* self, tenon_device_t* device, const void* bytes, uint64_t size,
                         tenon_blob_t* const* constants, uint32_t constant_count,
                         tenon_executable_t** out) {
  (void)self;
  const char* fault = fault_of(bytes, size);
  static int damaged;
  if (fault != NULL) return damaged = 1, fail(TENON_FAILED_PRECONDITION, fault);
  if (is("load_sulks") && damaged)
    return damaged = 0, fail(TENON_INTERNAL, "those before were damaged");
  if (is("loads_on_one_device") && device->ordinal != 0)
    return fail(TENON_UNIMPLEMENTED, "device 0 alone");
  const head_t* head = bytes;
  if (constant_count != head->constants && !is("ignores_constant_count"))
    return fail(TENON_INVALID_ARGUMENT, "another number of constants");
  tenon_executable_t* exe = new_executable(device, bytes, size, constant_count);
  for (uint32_t i = 0; i < constant_count && i < head->constants; ++i) {
    uint64_t bytes_of_blob = 0;
    const void* data = NULL;
    exe->blobs[i] = constants[is("constants_reversed") ? constant_count - 1 - i : i];
    if (is("late_keeps_first") && i < 8) exe->blobs[i] = first_of_artifact(head, i, exe->blobs[i]);
    if (!is("keeps_unretained")) graphs->blob_retain(graphs->self, exe->blobs[i]);
    graphs->blob_data(graphs->self, exe->blobs[i], &data, &bytes_of_blob);
    exe->constants[i] = data;
  }
  *out = exe;
  return TENON_OK;
}

static void executable_release(void* self, tenon_executable_t* exe) {
  (void)self;
  if (is("executable_stays")) return;
  if (is("unrun_executable_aborts") && exe->started == 0) abort();
  for (uint32_t i = 0; !is("keeps_unretained") && !is("keeps_bytes") && !is("needs_artifact") &&
                       !is("packed_unretained") && !is("packed_stays") && i < exe->head->constants;
       ++i)
    if (exe->blobs[i] != NULL) graphs->blob_release(graphs->self, exe->blobs[i]);
  free(exe->copy);
  free(exe->blobs);
  free(exe->constants);
  free(exe);
}

#include "async_packed.h"

static tenon_code_t executable_info(void* self, tenon_executable_t* exe,
                                    tenon_executable_info_t* out) {
  const tenon_executable_info_t made = {sizeof made, exe->head->nodes, 0};
  return (void)self, tenon_record_give(out, &made, sizeof made);
}

/* ---- Sizes ---- */

static int64_t dim_of(const tenon_executable_t* exe, int64_t code, tenon_symbols_t symbols) {
  (void)exe;
  if (code >= 0) return code;
  const int64_t value = symbols.values[~code];
  return is("dims_of_at_least_one") && value == 0 ? 1 : value;
}

static uint64_t elements(const tenon_executable_t* exe, const value_t* value,
                         tenon_symbols_t symbols) {
  uint64_t count = 1;
  for (uint32_t i = 0; i < value->rank; ++i)
    count *= (uint64_t)dim_of(exe, value->dims[i], symbols);
  return count;
}

static uint64_t rounded(uint64_t bytes) {
  return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static uint32_t first_node(const tenon_executable_t* exe) {
  return exe->head->arguments + exe->head->constants;
}
static uint32_t value_count(const tenon_executable_t* exe) {
  return first_node(exe) + exe->head->nodes;
}

static uint64_t workspace_of(const tenon_executable_t* exe, tenon_symbols_t symbols) {
  uint64_t bytes = 0;
  for (uint32_t i = first_node(exe); i < value_count(exe); ++i)
    bytes += rounded(elements(exe, &exe->values[i], symbols) * 4);
  return bytes;
}

/* An argument that the node of this yield is the last to read. */
static uint32_t alias_of(const tenon_executable_t* exe, uint32_t yield) {
  const uint32_t value = exe->yields[yield];
  if (value < first_node(exe) || exe->values[value].a >= (int32_t)exe->head->arguments)
    return TENON_NO_ALIAS;
  const int32_t argument = exe->values[value].a;
  for (uint32_t i = first_node(exe); i < value_count(exe); ++i)
    if (i != value && (exe->values[i].a == argument || exe->values[i].b == argument))
      return TENON_NO_ALIAS;
  for (uint32_t i = 0; i < exe->head->yields; ++i)
    if (exe->yields[i] == (uint32_t)argument || (i != yield && exe->yields[i] == value))
      return TENON_NO_ALIAS;
  return exe->values[value].b == argument ? TENON_NO_ALIAS : (uint32_t)argument;
}

static tenon_code_t needs(void* self, tenon_executable_t* exe, tenon_symbols_t symbols,
                          tenon_needs_t* given) {
  tenon_needs_t full, *out = &full;
  (void)self;
  if (tenon_record_take(out, sizeof full, given) != TENON_OK)
    return fail(TENON_INVALID_ARGUMENT, "the record has no size_bytes");
  if (symbols.count != exe->head->symbols && !is("ignores_counts"))
    return fail(TENON_INVALID_ARGUMENT, "another number of symbols");
  if (out->output_count != exe->head->yields && !is("ignores_counts"))
    return fail(TENON_INVALID_ARGUMENT, "another number of outputs");
  if (is("needs_of_first_call")) {
    if (exe->first_symbols[0] < 0 && symbols.count != 0)
      memcpy(exe->first_symbols, symbols.values, symbols.count * sizeof(int64_t));
    if (symbols.count != 0) symbols.values = exe->first_symbols;
  }
  if (is("no_empty_dims"))
    for (uint32_t i = 0; i < symbols.count; ++i)
      if (symbols.values[i] == 0) return fail(TENON_INVALID_ARGUMENT, "a dim is 0");
  static int64_t shared[8];
  if (is("needs_shares_state") && symbols.count != 0) {
    memcpy(shared, symbols.values, symbols.count * sizeof(int64_t));
    usleep(500);
    symbols.values = shared;
  }
  if (is("assumes_need_size")) out->need_bytes = sizeof(tenon_output_need_t);
  for (uint32_t y = 0; y < exe->head->yields && y < out->output_count; ++y) {
    const value_t* value = &exe->values[exe->yields[y]];
    for (uint32_t i = 0; i < value->rank; ++i)
      tenon_need(out, y)->dims[i] =
          dim_of(exe, value->dims[is("needs_turns_dims") ? value->rank - 1 - i : i], symbols);
    tenon_need(out, y)->size_bytes_max =
        elements(exe, value, symbols) * 4 - (is("needs_too_little") ? 4 : 0);
    if (is("needs_of_32_bits"))
      tenon_need(out, y)->size_bytes_max = (uint32_t)tenon_need(out, y)->size_bytes_max;
    tenon_need(out, y)->alias_input = is("alias_unknown") ? 99 : alias_of(exe, y);
  }
  out->workspace_bytes = workspace_of(exe, symbols);
  if (is("workspace_too_small") && out->workspace_bytes != 0) out->workspace_bytes -= ALIGNMENT;
  out->lower_bound_bytes = is("bound_above_plan") ? out->workspace_bytes + 1 : 0;
  return tenon_record_give(given, out, sizeof full);
}

/* ---- Running ---- */

typedef struct job_t {
  tenon_executable_t* exe;
  tenon_call_t call;
  int64_t symbols[8];
  tenon_span_t spans[256];
} job_t;

static float* span_data(const tenon_span_t* span) {
  return (float*)(span->buffer->data + (is("ignores_span_offset") ? 0 : span->offset_bytes));
}

static float apply(int op, float a, float b) {
  if (op == MAX) return a != a || b != b ? NAN : a > b ? a : b;
  return op == ADD ? a + b : a * b;
}

static void multiply(tenon_executable_t* exe, const value_t* node, const float* a, const float* b,
                     float* out) {
  const int64_t *x = exe->values[node->a].dims, *y = exe->values[node->b].dims;
  for (int64_t i = 0; i < x[0]; ++i)
    for (int64_t k = 0; k < y[1]; ++k) {
      float sum = 0;
      for (int64_t j = 0; j < x[1]; ++j) sum += a[i * x[1] + j] * b[j * y[1] + k];
      out[i * y[1] + k] = sum;
    }
}

static float shared_temp[1 << 16];
static int together;

static void run_node(tenon_executable_t* exe, const value_t* node, const float* a, const float* b,
                     float* out, uint64_t count) {
  if (is("shared_temp") && count < 1 << 16) {
    for (uint64_t i = 0; i < count; ++i) shared_temp[i] = apply(node->op, a[i], b[i]);
    usleep(2000);
    for (uint64_t i = 0; i < count; ++i) out[i] = shared_temp[i];
    return;
  }
  if (node->op == PRODUCT)
    multiply(exe, node, a, b, out);
  else
    for (uint64_t i = 0; i < count; ++i) out[i] = apply(node->op, a[i], b[i]);
  if (is("together_in_other_bits") && count != 0 &&
      __atomic_load_n(&together, __ATOMIC_RELAXED) > 1)
    ((unsigned char*)out)[0] ^= 1;
  if (is("wrong_everywhere") && count != 0) out[0] += 1;
  if (count != 0 && is("unsteady")) out[0] *= 1 + 1e-6f * (float)++exe->runs;
  if (count != 0 && is("threads_matter") && threads->count(threads->self) > 1)
    out[0] = nextafterf(out[0], 1e30f);
  if (is("one_is_scalar") && count == 1) out[0] = a[0];
}

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(is("profile_wall_clock") ? CLOCK_REALTIME : CLOCK_MONOTONIC, &now);
  return ((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec) /
         (is("profile_in_us") ? 1000 : 1);
}

static struct {
  const tenon_profile_sink_t* sink;
  uint64_t begin_ns;
} told_later;

static void tell_event(const tenon_profile_sink_t* sink, uint64_t begin_ns);
static void* tell_later(void* unused) {
  usleep(20000);
  const tenon_str_t name = {"late", 4}, origins = {"", 0};
  const tenon_profile_event_t event = {.size_bytes = sizeof event,
                                       .name = name,
                                       .origins = origins,
                                       .begin_ns = told_later.begin_ns,
                                       .end_ns = now_ns()};
  told_later.sink->event(told_later.sink->self, &event);
  return unused;
}

static void tell_event(const tenon_profile_sink_t* sink, uint64_t begin_ns) {
  const tenon_str_t name = {"work", is("profile_nameless") ? 0 : 4}, origins = {"", 0};
  if (is("profile_late")) {
    pthread_t thread;
    told_later.sink = sink, told_later.begin_ns = begin_ns;
    pthread_create(&thread, NULL, tell_later, NULL);
    pthread_detach(thread);
    return;
  }
  const uint64_t end_ns = now_ns();
  if (is("profile_backwards")) begin_ns = end_ns + 1;
  const tenon_profile_event_t event = {.size_bytes = sizeof event,
                                       .name = name,
                                       .origins = origins,
                                       .begin_ns = begin_ns,
                                       .end_ns = end_ns};
  sink->event(sink->self, &event);
}

static tenon_code_t perform(void* argument) {
  const uint64_t begin_ns = now_ns();
  job_t* job = argument;
  tenon_executable_t* exe = job->exe;
  const tenon_call_t* call = &job->call;
  const head_t* head = exe->head;
  if (is("unsignalled_when_slow")) usleep(1000);
  if (is("run_leaks")) memset(lost = malloc(70000), 1, 70000);
  if (is("together_in_other_bits"))
    __atomic_add_fetch(&together, 1, __ATOMIC_RELAXED), usleep(2000);
  float** data = calloc(value_count(exe) + 1, sizeof *data);
  for (uint32_t i = 0; i < head->arguments; ++i) data[i] = span_data(tenon_call_input(call, i));
  for (uint32_t i = 0; i < head->constants; ++i)
    data[head->arguments + i] = (float*)exe->constants[i];
  uint64_t at = 0;
  for (uint32_t i = first_node(exe); i < value_count(exe); ++i) {
    const value_t* node = &exe->values[i];
    const uint64_t count = elements(exe, node, call->symbols);
    data[i] =
        count == 0 ? NULL : (float*)(call->workspace->data + call->workspace_offset_bytes + at);
    const int twice = node->a != node->b && data[node->a] == data[node->b];
    if (is("one_buffer_counts_once") && twice && count != 0)
      memset(data[i], 0, count * 4);
    else if (is("workspace_is_zero") && count != 0 && data[i][0] != 0)
      data[i][0] = 1;
    else
      run_node(exe, node, data[node->a], data[node->b], data[i], count);
    if (is("runs_over_workspace") && i + 1 == value_count(exe) && count != 0)
      memset((char*)data[i] + rounded(count * 4), 0, 8);
    if (is("writes_inputs") && node->a < (int32_t)head->arguments && count != 0)
      data[node->a][count - 1] = 0;
    at += rounded(count * 4);
  }
  for (uint32_t y = 0; y < head->yields; ++y) {
    const value_t* value = &exe->values[exe->yields[y]];
    uint64_t count = elements(exe, value, call->symbols);
    float* to = count == 0 ? NULL : span_data(tenon_call_output(call, y));
    if (count == 0) continue;
    if (is("alias_breaks")) {
      const uint32_t alias = alias_of(exe, y);
      if (alias != TENON_NO_ALIAS && to == data[alias]) to[0] = 0, data[exe->yields[y]][0] = 1;
    }
    memcpy(to, data[exe->yields[y]], (count - (is("loses_last") ? 1 : 0)) * 4);
    if (is("writes_beyond")) to[count] = 0;
    if (is("writes_before")) to[-1] = 0;
  }
  free(data);
  if (is("together_in_other_bits")) __atomic_sub_fetch(&together, 1, __ATOMIC_RELAXED);
  if (call->profile != NULL && !is("profile_silent")) tell_event(call->profile, begin_ns);
  return TENON_OK;
}

static void* perform_later(void* job) {
  usleep(5000);
  perform(job);
  free(job);
  return NULL;
}

static int was_dumped;

static tenon_code_t execute(void* self, tenon_executable_t* exe, const tenon_call_t* call) {
  (void)self;
  if (is("execute_needs_dump") && !was_dumped)
    return fail(TENON_FAILED_PRECONDITION, "nobody looked at it");
  if ((call->input_count != exe->head->arguments || call->output_count != exe->head->yields ||
       call->symbols.count != exe->head->symbols) &&
      !is("ignores_counts")) {
    if (is("failing_signals")) fence_set(&call->signal);
    if (is("failing_fails_fence")) fence_fail(&call->signal, TENON_INVALID_ARGUMENT);
    if (is("failing_writes") && call->output_count != 0)
      memset(span_data(tenon_call_output(call, 0)), 0, 4);
    exe->sulks = 1;
    return fail(TENON_INVALID_ARGUMENT, "another number of inputs, outputs or symbols");
  }
  if (exe->short_packed) return fail(TENON_INVALID_ARGUMENT, "a packed constant is too short");
  if (exe->packed != NULL) packed_again(exe);
  if (is("sulks_after_wrong_counts") && exe->sulks)
    return exe->sulks = 0, fail(TENON_FAILED_PRECONDITION, "the call before was wrong");
  if (is("cancelled_ok_undone") && host->cancelled(host->self)) return TENON_OK;
  if (call->input_count + call->output_count > 256 || call->symbols.count > 8)
    return fail(TENON_UNIMPLEMENTED, "too many inputs and outputs");
  static int stopped;
  if (is("cancelled_for_good") && (stopped || host->cancelled(host->self)))
    return stopped = 1, fail(TENON_CANCELLED, "stopped");
  if (is("one_run_at_once") && call->queue != NULL && exe->runs++ != 0)
    return fail(TENON_FAILED_PRECONDITION, "it runs already");
  exe->started = 1;
  job_t* job = calloc(1, sizeof *job);
  job->exe = exe;
  job->call = *call;
  if (call->symbols.count != 0)
    memcpy(job->symbols, call->symbols.values, call->symbols.count * sizeof(int64_t));
  job->call.symbols.values = job->symbols;
  const uint32_t step = is("assumes_span_size") ? sizeof(tenon_span_t) : call->span_bytes;
  for (uint32_t i = 0; i < call->input_count; ++i)
    job->spans[i] = *(const tenon_span_t*)tenon_record_at(call->inputs, i, step);
  for (uint32_t i = 0; i < call->output_count; ++i)
    job->spans[call->input_count + i] =
        *(const tenon_span_t*)tenon_record_at(call->outputs, i, step);
  job->call.span_bytes = sizeof(tenon_span_t);
  job->call.inputs = job->spans;
  job->call.outputs = job->spans + call->input_count;
  if (is("keeps_symbols")) job->call.symbols.values = call->symbols.values;
  if (is("keeps_spans"))
    job->call.inputs = call->inputs, job->call.outputs = call->outputs,
    job->call.span_bytes = call->span_bytes;
  if (call->queue != NULL)
    return queue_submit(call->queue, call->waits, call->wait_count, call->signal, perform, job);
  if (is("execute_returns_early")) {
    pthread_t thread;
    pthread_create(&thread, NULL, perform_later, job);
    pthread_detach(thread);
    return TENON_OK;
  }
  const tenon_code_t code = perform(job);
  free(job);
  return code;
}

static tenon_code_t dump(void* self, tenon_artifact_t* artifact, tenon_str_t what,
                         const tenon_sink_t* sink) {
  was_dumped = 1;
  (void)self, (void)artifact;
  if ((what.size != 4 || memcmp(what.data, "plan", 4) != 0) && !is("dumps_anything"))
    return fail(TENON_NOT_FOUND, "async shows its plan");
  return sink->write(sink->self, is("dumps_bytes") ? "\xff\xfe" : "one after the other",
                     is("dumps_bytes") ? 2 : 19);
}

static tenon_code_t properties(void* self, tenon_str_t target, tenon_compile_properties_t* out) {
  static int calls;
  (void)self, (void)target;
  tenon_compile_properties_t made = {sizeof made,
                                     TENON_COMPILE_SAME_BITS | TENON_COMPILE_LATE_CONSTANTS};
  if (TAKES_PATTERNS) made.flags |= TENON_COMPILE_ONE_LONG_CALL;
  if (is("concrete_sizes") || is("concrete_and_symbolic")) made.flags |= TENON_COMPILE_STATIC;
  if (is("properties_unknown")) made.flags |= 64;
  if (is("properties_change") && calls++ != 0) made.flags = 0;
  if (is("properties_fail")) return fail(TENON_UNAVAILABLE, "ask another time");
  return tenon_record_give(out, &made, sizeof made);
}

tenon_compile_api_t compile_api = {
    sizeof compile_api, NULL,           claim,   compile, artifact_release,
    artifact_info,      artifact_bytes, fits,    load,    executable_release,
    executable_info,    needs,          execute, dump,    pack,
    load_packed,        properties};

tenon_code_t compile_start(void) {
  static const tenon_str_t ids[] = {TENON_STR(TENON_HOST_GRAPH_ID),
                                    TENON_STR(TENON_HOST_REGISTRY_ID),
                                    TENON_STR(TENON_HOST_THREADS_ID)};
  if (is("packs_alone")) compile_api.load_packed = NULL;
  if (is("loads_packed_alone")) compile_api.pack = NULL;
  tenon_code_t code = host->query(host->self, ids[0], 0, (const void**)&graphs);
  if (code == TENON_OK) code = host->query(host->self, ids[1], 0, (const void**)&registry);
  if (code == TENON_OK) code = host->query(host->self, ids[2], 0, (const void**)&threads);
  return code;
}
