/* Tenon ABI: reading and building graphs (tenon.host.graph/1). Passes, inference, decomposition,
 * derivative rules, frontends, backends and Python all use this table.
 *
 * A graph is one main region. A region has arguments, nodes in order and yields. A node has
 * operands, results, attributes and, for control flow, regions. Values are region arguments, node
 * results or constants; they are never aliased and never change. Dims are symbolic: a symbol is
 * defined once, by a region (for its arguments) or by a node with DEFINES_SYMBOL, and every type
 * that mentions it is a use.
 *
 * Indices (values, nodes, regions, symbols, locations) are dense numbers within one graph and are
 * never reused, so arrays indexed by them are the natural side tables.
 *
 * Threads: one thread at a time per graph; all threads may read a frozen graph. Views: pointers
 * inside a view are borrowed until the graph's next mutation; for a frozen graph, as long as the
 * graph lives.
 *
 *
 * Stability: stable.
 */
#ifndef TENON_ABI_GRAPH_H_
#define TENON_ABI_GRAPH_H_

#include "tenon/abi/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_HOST_GRAPH_ID "tenon.host.graph/1"
#define TENON_HOST_GRAPH_MINOR 2u /* 1: blob_foreign; 2: main_set, node_replace */

typedef struct tenon_graph_t tenon_graph_t; /* reference counted */
typedef uint32_t tenon_value_t;
typedef uint32_t tenon_node_t;
typedef uint32_t tenon_region_t;
typedef uint32_t tenon_symbol_t;
typedef uint32_t tenon_loc_t; /* 0: unknown */
#define TENON_NONE 0xffffffffu

/* ---- Views ---- */

typedef struct tenon_node_view_t {
  uint32_t size_bytes;
  tenon_sym_t op;
  uint32_t op_version;
  tenon_loc_t loc;
  uint32_t operand_count, result_count, attr_count, region_count;
  const tenon_value_t* operands; /* TENON_NONE: an optional operand that is absent */
  const tenon_value_t* results;
  const tenon_attr_t* attrs; /* sorted by name */
  const tenon_region_t* regions;
  tenon_region_t parent; /* the region that contains it; TENON_NONE once erased */
  uint32_t symbol_count; /* symbols that this node defines */
  const tenon_symbol_t* symbols;
} tenon_node_view_t;

#define TENON_VALUE_ARGUMENT 1u
#define TENON_VALUE_RESULT 2u
#define TENON_VALUE_CONSTANT 3u /* in no region; usable everywhere in its graph */

typedef struct tenon_value_view_t {
  uint32_t size_bytes;
  uint32_t kind;
  tenon_type_t type;
  /* The user's name, or 0; unique among arguments, and among outputs of the main region. */
  tenon_sym_t name;
  tenon_loc_t loc;
  tenon_node_t node;     /* RESULT: the node that defines it */
  tenon_region_t region; /* ARGUMENT: its region; RESULT: the region of its node */
  uint32_t index;        /* its index among the arguments or results */
  uint32_t use_count;    /* operand uses and yields, not uses of symbols in types */
  tenon_blob_t* blob;    /* CONSTANT; borrowed from the graph */
} tenon_value_view_t;

typedef struct tenon_region_view_t {
  uint32_t size_bytes;
  tenon_node_t owner; /* TENON_NONE: the main region, or not attached yet */
  uint32_t argument_count, node_count, yield_count, symbol_count, capture_count;
  uint32_t reserved;
  const tenon_value_t* arguments;
  const tenon_node_t* nodes; /* in order */
  const tenon_value_t* yields;
  const tenon_symbol_t* symbols; /* defined by this region, in order of definition */
  /* Values of enclosing regions that are used inside, without constants; sorted. */
  const tenon_value_t* captures;
  const tenon_sym_t* output_names; /* main region: yield_count names */
} tenon_region_view_t;

typedef struct tenon_graph_view_t {
  uint32_t size_bytes;
  uint32_t frozen;
  tenon_str_t name;
  tenon_region_t main;
  /* One past the highest index in use: sizes for side tables. */
  uint32_t node_limit, value_limit, region_limit, symbol_limit;
  uint32_t reserved;
} tenon_graph_view_t;

/* A value: a use of a value of the graph. Operand `index` of `node`, or yield `index` of `region`
 * when node is TENON_NONE. */
typedef struct tenon_use_t {
  tenon_node_t node;
  tenon_region_t region;
  uint32_t index;
} tenon_use_t;

/* ---- Dims ---- */

#define TENON_DIM_CONSTANT 0u
#define TENON_DIM_SYMBOL 1u
#define TENON_DIM_ADD 2u
#define TENON_DIM_SUB 3u
#define TENON_DIM_MUL 4u
#define TENON_DIM_FLOORDIV 5u /* divisor > 0 */
#define TENON_DIM_MOD 6u      /* result in [0, divisor) */
#define TENON_DIM_MIN 7u
#define TENON_DIM_MAX 8u

/* A dim as a tree. Dims are stored as canonical polynomials, and this is one way to write them. */
typedef struct tenon_dim_view_t {
  uint32_t size_bytes;
  uint32_t op;           /* TENON_DIM_* ; SUB never appears here */
  tenon_dim_t a, b;      /* arguments of the binary kinds */
  int64_t constant;      /* CONSTANT */
  tenon_symbol_t symbol; /* SYMBOL */
  uint32_t reserved;
  int64_t lo, hi;      /* known range, INT64_MIN and INT64_MAX when unbounded */
  int64_t multiple_of; /* at least 1 */
} tenon_dim_view_t;

typedef struct tenon_symbol_view_t {
  uint32_t size_bytes;
  tenon_sym_t name;
  int64_t lo, hi, multiple_of;
  int64_t hint;          /* a likely value, for speed only; -1 when unknown */
  tenon_node_t node;     /* the defining node, or TENON_NONE */
  tenon_region_t region; /* the defining region when node is TENON_NONE */
  tenon_dim_t dim;       /* the dim that is this symbol */
} tenon_symbol_view_t;

#define TENON_NO 0u
#define TENON_YES 1u
#define TENON_MAYBE \
  2u /* the optimiser takes the general path; a frontend specialises the model or asserts */

#define TENON_REL_EQ 0u
#define TENON_REL_LT 1u
#define TENON_REL_LE 2u
#define TENON_REL_DIVISIBLE 3u /* a is a multiple of b */

/* ---- Building ---- */

/* A value: where new nodes go. Before the node `before`; if it is TENON_NONE, at the end of
 * `region`. */
typedef struct tenon_builder_t {
  tenon_graph_t* graph;
  tenon_region_t region;
  tenon_node_t before;
  tenon_loc_t loc; /* for nodes whose spec has none */
} tenon_builder_t;

typedef struct tenon_node_spec_t {
  uint32_t size_bytes;
  tenon_sym_t op;
  uint32_t op_version; /* 0: the newest registered */
  tenon_loc_t loc;
  const tenon_value_t* operands;
  /* In any order; copied, blobs retained. Absent ones get their declared default. */
  const tenon_attr_t* attrs;
  const tenon_region_t* regions; /* made by region_begin and not attached to another node */
  uint32_t operand_count, attr_count, region_count;
  uint32_t result_type_count; /* 0, or the types to check inference against */
  const tenon_type_t* result_types;
} tenon_node_spec_t;

#define TENON_FORMAT_TEXT 1u /* .tir */
#define TENON_FORMAT_BINARY 2u
#define TENON_FORMAT_ELIDED 3u /* text for people, without the elements of larger constants */
/* For viewers: {"schema":1,"name","inputs":[value],"outputs":[{"name","value"}],
 * "values":[{"value","name","type","bytes"}],
 * "nodes":[{"node","op","operands":[value],"results":[value],"attributes","source","name","line",
 * "body"}]} of the main region, in order. "bytes": where sizes are constants; "constant": true for
 * constants, whose elements are left out; "body": the number of nodes in regions inside. */
#define TENON_FORMAT_JSON 4u
/* What graph_read takes as the sidecar of the graph's text: FILE.tir.bin; no bytes if the text
 * needs none. */
#define TENON_FORMAT_SIDECAR 5u

/* In text, larger constants are written as a digest; their bytes go to the sidecar. */
#define TENON_TEXT_INLINE_BYTES_MAX 256u

typedef struct tenon_host_graph_t {
  uint32_t size_bytes;
  void* self;

  /* ---- Lifetime ---- */
  /* Creates an empty graph whose main region has no arguments. The caller owns one reference. */
  tenon_code_t (*create)(void* self, tenon_str_t name, tenon_graph_t** out_graph);
  void (*retain)(void* self, tenon_graph_t* graph);  /* safe */
  void (*release)(void* self, tenon_graph_t* graph); /* safe; null is allowed */
  /* The clone is not frozen and has the same indices. */
  tenon_code_t (*clone)(void* self, tenon_graph_t* graph, tenon_graph_t** out_graph);
  /* Permanent: mutation fails with FAILED_PRECONDITION. */
  void (*freeze)(void* self, tenon_graph_t* graph);
  /* Checks every rule of the graph and of its ops. INVALID_ARGUMENT with all diagnostics and their
   * locations. */
  tenon_code_t (*verify)(void* self, tenon_graph_t* graph);

  /* ---- Views; INVALID_ARGUMENT for an index out of range ---- */
  tenon_code_t (*graph_view)(void* self, tenon_graph_t* graph, tenon_graph_view_t* out);
  tenon_code_t (*node_view)(void* self, tenon_graph_t* graph, tenon_node_t node,
                            tenon_node_view_t* out);
  tenon_code_t (*value_view)(void* self, tenon_graph_t* graph, tenon_value_t value,
                             tenon_value_view_t* out);
  tenon_code_t (*region_view)(void* self, tenon_graph_t* graph, tenon_region_t region,
                              tenon_region_view_t* out);
  tenon_code_t (*value_uses)(void* self, tenon_graph_t* graph, tenon_value_t value,
                             const tenon_use_t** out_uses, uint32_t* out_count);

  /* ---- Building: structure ---- */
  /* Appends an argument to a region. name: the user's; may be empty. */
  tenon_code_t (*argument_add)(void* self, tenon_graph_t* graph, tenon_region_t region,
                               const tenon_type_t* type, tenon_str_t name,
                               tenon_value_t* out_value);
  /* Sets the yields of a region, replacing earlier ones. names: null, or count names (main region's
   * outputs). */
  tenon_code_t (*region_yield)(void* self, tenon_graph_t* graph, tenon_region_t region,
                               const tenon_value_t* values, uint32_t count,
                               const tenon_str_t* names);
  /* Creates a region that node_build will attach to a node; arguments are added to it. Its body may
   * capture values that are visible at `builder`. */
  tenon_code_t (*region_begin)(void* self, const tenon_builder_t* builder,
                               tenon_region_t* out_region);
  /* Copies a region's body (of `from`, which may be another graph) to `builder`, with arguments and
   * captures mapped to `values` (arguments first, then captures in order). Symbols that the body
   * defines become fresh ones; symbols that argument types determine are substituted. out_yields:
   * caller's array of yield_count. */
  tenon_code_t (*region_clone)(void* self, const tenon_builder_t* builder, tenon_graph_t* from,
                               tenon_region_t region, const tenon_value_t* values,
                               uint32_t value_count, tenon_value_t* out_yields);
  /* Builds one node: checks operands and attributes against the op's declaration, runs its
   * inference, checks its constraints. INVALID_ARGUMENT with a diagnostic that names op,
   * constraint, both values and the location. NOT_FOUND for an unknown op. */
  tenon_code_t (*node_build)(void* self, const tenon_builder_t* builder,
                             const tenon_node_spec_t* spec, tenon_node_t* out_node);
  /* Creates a constant; retains the blob. The blob is a splat, or its size equals that of the type
   * (static dims only). */
  tenon_code_t (*constant)(void* self, tenon_graph_t* graph, const tenon_type_t* type,
                           tenon_blob_t* blob, tenon_value_t* out_value);
  tenon_code_t (*value_name)(void* self, tenon_graph_t* graph, tenon_value_t value,
                             tenon_str_t name);
  /* All uses of `from` become uses of `to`. Types must agree (dims provably equal). */
  tenon_code_t (*value_replace)(void* self, tenon_graph_t* graph, tenon_value_t from,
                                tenon_value_t to);
  tenon_code_t (*operand_set)(void* self, tenon_graph_t* graph, tenon_node_t node, uint32_t index,
                              tenon_value_t value);
  /* Its results and the symbols it defines must be unused. */
  tenon_code_t (*node_erase)(void* self, tenon_graph_t* graph, tenon_node_t node);
  tenon_code_t (*node_move)(void* self, tenon_graph_t* graph, tenon_node_t node,
                            tenon_node_t before);

  /* ---- Dims and symbols ---- */
  /* OUT_OF_RANGE on overflow, INVALID_ARGUMENT on division by <= 0. */
  tenon_code_t (*dim_make)(void* self, tenon_graph_t* graph, uint32_t op, tenon_dim_t a,
                           tenon_dim_t b, tenon_dim_t* out_dim);
  tenon_code_t (*dim_view)(void* self, tenon_graph_t* graph, tenon_dim_t dim,
                           tenon_dim_view_t* out);
  /* out_answer: TENON_NO, YES or MAYBE; never fails on valid dims. */
  tenon_code_t (*dim_compare)(void* self, tenon_graph_t* graph, uint32_t rel, tenon_dim_t a,
                              tenon_dim_t b, uint32_t* out_answer);
  /* values: one per symbol index up to symbol_limit. Values of symbols that the dim does not
   * mention are not read. */
  tenon_code_t (*dim_evaluate)(void* self, tenon_graph_t* graph, tenon_dim_t dim,
                               const int64_t* values, uint32_t value_count, int64_t* out_value);
  /* Defines a symbol of a region, for types of its arguments. `hi` may be INT64_MAX. If the name is
   * taken, a number is appended. */
  tenon_code_t (*symbol_define)(void* self, tenon_graph_t* graph, tenon_region_t region,
                                tenon_str_t name, int64_t lo, int64_t hi, int64_t multiple_of,
                                int64_t hint, tenon_symbol_t* out_symbol);
  /* Defines a symbol for the node being inferred (DEFINES_SYMBOL). Only inside
   * tenon_op_def_t::infer. */
  tenon_code_t (*symbol_fresh)(void* self, tenon_graph_t* graph, int64_t lo, int64_t hi,
                               int64_t multiple_of, tenon_symbol_t* out_symbol);
  /* Records that `rel` holds. INVALID_ARGUMENT if it contradicts what is known. If it involves only
   * symbols of the main region, every run checks it too. */
  tenon_code_t (*symbol_assert)(void* self, tenon_graph_t* graph, uint32_t rel, tenon_dim_t a,
                                tenon_dim_t b);
  tenon_code_t (*symbol_view)(void* self, tenon_graph_t* graph, tenon_symbol_t symbol,
                              tenon_symbol_view_t* out);

  /* ---- Locations: lists of origins that survive rewriting and fusion ---- */
  /* source: file or module; name: the user's node; line 0: unknown. */
  tenon_code_t (*loc_make)(void* self, tenon_graph_t* graph, tenon_str_t source, tenon_str_t name,
                           uint32_t line, tenon_loc_t* out_loc);
  tenon_code_t (*loc_fuse)(void* self, tenon_graph_t* graph, const tenon_loc_t* locs,
                           uint32_t count, tenon_loc_t* out_loc);
  tenon_code_t (*loc_text)(void* self, tenon_graph_t* graph, tenon_loc_t loc,
                           const tenon_sink_t* sink);

  /* ---- Blobs ---- */
  tenon_code_t (*blob_bytes)(void* self, const void* data, uint64_t size_bytes,
                             tenon_blob_t** out_blob); /* copies */
  /* Every element equals `element`, which is stored once. size_bytes: of the whole blob. */
  tenon_code_t (*blob_splat)(void* self, const void* element, uint32_t element_bytes,
                             uint64_t size_bytes, tenon_blob_t** out_blob);
  /* A view of part of another blob (a range of a mapped file); retains the parent. */
  tenon_code_t (*blob_range)(void* self, tenon_blob_t* parent, uint64_t offset, uint64_t size_bytes,
                             tenon_blob_t** out_blob);
  void (*blob_retain)(void* self, tenon_blob_t* blob);
  void (*blob_release)(void* self, tenon_blob_t* blob);
  /* The bytes, mapped or expanded on first use; valid while the blob is retained. Safe. */
  tenon_code_t (*blob_data)(void* self, tenon_blob_t* blob, const void** out_data,
                            uint64_t* out_size_bytes);
  /* 1 and the element when the blob is a splat. */
  uint32_t (*blob_is_splat)(void* self, tenon_blob_t* blob, const void** out_element,
                            uint32_t* out_element_bytes);
  /* XXH3-128 of the bytes; computed once. */
  tenon_code_t (*blob_digest)(void* self, tenon_blob_t* blob, uint64_t out_digest[2]);

  /* ---- Serial forms ---- */
  tenon_code_t (*graph_write)(void* self, tenon_graph_t* graph, uint32_t format,
                              const tenon_sink_t* sink);
  /* Recognises the format. name: for diagnostics. sidecar: the bytes of FILE.tir.bin, or null. The
   * result is verified. */
  tenon_code_t (*graph_read)(void* self, tenon_blob_t* bytes, tenon_str_t name,
                             tenon_blob_t* sidecar, tenon_graph_t** out_graph);
  /* A 128-bit hash of structure: equal for graphs that differ only in names, locations and symbol
   * names. Constants count by type and digest. */
  tenon_code_t (*graph_hash)(void* self, tenon_graph_t* graph, uint64_t out_hash[2]);

  /* ---- Minor 1 ---- */
  /* A blob over memory of the caller, which is not copied. Its bytes must stay as they are until
   * `release` is called with `context`: exactly once, also if this fails, then before it returns.
   * Else it is called when the last reference is gone, on any thread: graphs, programs and devices
   * that keep constants where they are hold references. It must not call the host. release may be
   * null for memory that lives as long as the process. T0301 for a null pointer with a size. Safe.
   */
  tenon_code_t (*blob_foreign)(void* self, const void* data, uint64_t size_bytes, void* context,
                               void (*release)(void* context), tenon_blob_t** out_blob);

  /* ---- Minor 2 ---- */
  /* Makes `region` the main region, whose nodes and arguments are erased: for passes that change
   * the graph's arguments. `region` comes from region_begin, belongs to no node, and uses no value
   * of the main region; symbols of the main region stay. Its arguments have names, and its yields
   * become outputs of these names (as in region_yield). INVALID_ARGUMENT otherwise; the graph may
   * then only be released. */
  tenon_code_t (*main_set)(void* self, tenon_graph_t* graph, tenon_region_t region,
                           const tenon_str_t* names);
  /* Uses of result i of node `from` become uses of result results[i] of node `to` (null: of its
   * result i; TENON_NONE: of none, for a result without uses). In types and attributes, the symbols
   * that `from` defines become the first ones of `to`; further ones must be unused. Then `from` is
   * erased. INVALID_ARGUMENT for results that do not agree, FAILED_PRECONDITION for a symbol in
   * use. */
  tenon_code_t (*node_replace)(void* self, tenon_graph_t* graph, tenon_node_t from, tenon_node_t to,
                               const uint32_t* results);
} tenon_host_graph_t;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
