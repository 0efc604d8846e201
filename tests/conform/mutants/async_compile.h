/* tenon.compile/1 of the asynchronous mutant: add, mul and max of f32, and conversions between
 * f32 and i32, whose dims are numbers or single symbols. An artifact is a list of values:
 * arguments, then constants, then nodes in order.
 *
 * async_claims.c says what is taken, async_compile.c makes artifacts and loads them,
 * async_execute.c runs them. async_packed.h has the form of its constants in files.
 *
 * Two variants are other kinds of devices. FEW takes add and products of matrices alone. GRAPHS
 * takes no node by itself: a product, a sum and a maximum, one after the other, together. */
#ifndef ASYNC_COMPILE_H_
#define ASYNC_COMPILE_H_

#include "async.h"

#define MAX_RANK 4
enum { ADD, MUL, MAX, SUB, PRODUCT, CONVERT };

#if defined(FEW)
enum { TAKES_PRODUCTS = 1, TAKES_PATTERNS = 0, TAKES_OPS = 1, CONVERTS = 0 };
#define REFUSAL "async: add and dot_general alone"
#elif defined(GRAPHS)
enum { TAKES_PRODUCTS = 1, TAKES_PATTERNS = 1, TAKES_OPS = 3, CONVERTS = 0 };
#define REFUSAL "async: dot_general, add and max together, and nothing else"
#else
enum { TAKES_PRODUCTS = 0, TAKES_PATTERNS = 0, TAKES_OPS = 3, CONVERTS = 1 };
#define REFUSAL "async: add, mul, max and convert alone"
#endif

typedef struct value_t {
  int32_t op, a, b, dtype;
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
  uint64_t last_count;         /* stale_after_other_sizes */
  tenon_blob_t* const* packed; /* packed_keeps_array */
  int short_packed;            /* packed_short_later */
};

extern const tenon_host_graph_t* graphs;
extern const tenon_host_threads_t* threads;

/* The op of a node that this device takes; -1 for others. */
int op_of(const tenon_node_view_t* node);
int view_value(tenon_graph_t* graph, tenon_value_t value, tenon_value_view_t* out);
/* A product, a sum and a maximum, one after the other, from this node on. */
int is_pattern(tenon_graph_t* graph, tenon_node_t first, tenon_node_t nodes[3]);
tenon_code_t claim(void* self, tenon_str_t target, tenon_graph_t* graph,
                   const tenon_compile_options_t* options, const tenon_claim_sink_t* sink);

void packed_again(tenon_executable_t* exe); /* from the array that load_packed got */
tenon_code_t needs(void* self, tenon_executable_t* exe, tenon_symbols_t symbols,
                   tenon_needs_t* given);
extern int was_dumped;
tenon_code_t execute(void* self, tenon_executable_t* exe, const tenon_call_t* call);

#endif
