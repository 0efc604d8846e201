/* Tenon ABI: operators as data (tenon.ops/1). Standard and third-party ops are declared alike: as a
 * static array of tenon_op_def_t. The verifier, builders, documentation, manifest entries and the
 * derived tests are made from it.
 *
 * Literal text in this header (examples, negatives) is the expression form of .tir:
 *     add(f32[2] [1, 2], f32[2] [3, 4]) -> f32[2] [4, 6]
 *     slice(f32[5] [0, 1, 2, 3, 4]) {start = [1], limit = [4]} -> f32[3] [1, 2, 3]
 * Operands are `type literal`; in negatives, `type` alone is enough.
 *
 *
 * Stability: unstable.
 */
#ifndef TENON_ABI_OPS_H_
#define TENON_ABI_OPS_H_

#include "tenon/abi/graph.h"
#include "tenon/abi/record.h"
#include "tenon/abi/scalar.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_OPS_ID "tenon.ops/1"
#define TENON_OPS_MINOR 0u

/* ---- Schema ---- */

#define TENON_OPERAND_OPTIONAL 1u /* may be absent (TENON_NONE); only at the end */
#define TENON_OPERAND_VARIADIC 2u /* zero or more; only the last */

typedef struct tenon_operand_def_t {
  tenon_str_t name, doc;
  tenon_dtypes_t dtypes; /* accepted */
  uint32_t flags;
  uint32_t dtype_group; /* operands of one group (not 0) have equal element types */
  uint32_t rank_min, rank_max;
} tenon_operand_def_t;

#define TENON_ATTR_REQUIRED 1u

/* An attribute. Without REQUIRED, its default is the field of its kind; lists default to empty. */
typedef struct tenon_attr_def_t {
  tenon_str_t name, doc;
  uint32_t kind; /* TENON_ATTR_* */
  uint32_t flags;
  int64_t default_i;
  double default_f;
  tenon_str_t default_s;
  tenon_str_t choices; /* STRING: "clip|fill|in_bounds"; I64: "0|1"; empty: any */
} tenon_attr_def_t;

/* A rule that inference checks. Diagnostics, docs and tests refer to it by its label. */
typedef struct tenon_constraint_def_t {
  tenon_str_t label;    /* "C1" */
  tenon_str_t text;     /* "every start is in [0, dim]" */
  tenon_str_t negative; /* an expression that breaks this rule and no others */
} tenon_constraint_def_t;

typedef struct tenon_result_def_t {
  tenon_str_t name, doc;
} tenon_result_def_t;

/* The name of an op in a format that a frontend reads. A node of a file that has this name becomes
 * a node of the op: operands in the declared order, attributes by name, results inferred. Without
 * an entry, a node of domain D and type T reaches the op "D.T" of the plugins. */
#define TENON_FOREIGN_ALIAS "alias"
typedef struct tenon_foreign_name_t {
  /* The frontend's name: "onnx". TENON_FOREIGN_ALIAS: a name that people may look for ("sigmoid"),
   * which is suggested where it is not found and means nothing else. */
  tenon_str_t format;
  tenon_str_t domain; /* "com.acme" */
  tenon_str_t name;   /* "MovingAverage" */
  uint32_t since;     /* the first version of the domain that means this op; at least 1 */
  uint32_t reserved;
} tenon_foreign_name_t;

/* ---- Traits ---- */

#define TENON_TRAIT_PURE (1ull << 0)
#define TENON_TRAIT_ELEMENTWISE \
  (1ull << 1) /* equal shapes (a rank-0 predicate of select excepted), has a scalar program */
#define TENON_TRAIT_COMMUTATIVE (1ull << 2)
#define TENON_TRAIT_IDEMPOTENT (1ull << 3)
#define TENON_TRAIT_COMPOSITE \
  (1ull << 4) /* has a decomposition; legalize inlines it unless a planned device takes the op */
#define TENON_TRAIT_DEFINES_SYMBOL (1ull << 5)
#define TENON_TRAIT_ORDERED (1ull << 6) /* effects through tokens; never removed or reordered */
#define TENON_TRAIT_NO_RECOMPUTE (1ull << 7)
#define TENON_TRAIT_SHAPE_ONLY (1ull << 8) /* moves elements, computes none: reshape, slice */
#define TENON_TRAIT_PRIMITIVE (1ull << 9)  /* member of the closed set */
/* Several results are right, such as eigenvectors, whose sign is free. `doc` says what holds of all
 * of them. Implementations are not compared element by element. */
#define TENON_TRAIT_AMBIGUOUS (1ull << 10)
#define TENON_TRAIT_HOLOMORPHIC (1ull << 11) /* its partial derivatives hold in complex numbers */

#define TENON_COST_FREE 0u
#define TENON_COST_ELEMENTWISE 1u
#define TENON_COST_TRANSCENDENTAL 2u
#define TENON_COST_REDUCTION 3u
#define TENON_COST_CONTRACTION 4u
#define TENON_COST_DATA_MOVEMENT 5u
#define TENON_COST_SORT 6u /* comparisons that depend on each other: n log n */

/* The quantity whose unit in the last place (ulp) measures an op's accuracy. */
#define TENON_ULP_OF_RESULT 0u
#define TENON_ULP_OF_OPERANDS \
  1u /* of the largest of the result and the operands, for ops whose operands may cancel */
#define TENON_ULP_OF_ONE \
  2u /* of the larger of the result and 1, for functions whose zeros are not simple numbers */

/* ---- Inference ---- */

typedef struct tenon_op_def_t tenon_op_def_t;

/* Input of infer and value_of: types and attributes of a node that may not exist yet. Borrowed. */
typedef struct tenon_infer_t {
  uint32_t size_bytes;
  uint32_t operand_count, attr_count, region_count;
  const tenon_op_def_t* op;
  tenon_graph_t* graph;         /* owns the dims; tenon.host.graph/1 makes and compares them */
  const tenon_type_t* operands; /* kind TENSOR with dtype NONE: an absent optional operand */
  const tenon_attr_t* attrs; /* one per declared attribute, in declared order, defaults filled in */
  const tenon_region_t* regions;
  void* host;
  /* Elements of an operand as dims, if they are known at compile time (constants and shape
   * arithmetic): at most 4096. NOT_FOUND if not; that alone is not a failure. Borrowed until infer
   * returns. */
  tenon_code_t (*value_of)(void* host, uint32_t operand, const tenon_dim_t** out_dims,
                           uint64_t* out_count);
  /* Appends a result type; dims are copied. */
  tenon_code_t (*result)(void* host, tenon_dtype_t dtype, const tenon_dim_t* dims, uint32_t rank);
  /* Records that constraint `label` is broken; `text` explains it with both values. Returns
   * INVALID_ARGUMENT. */
  tenon_code_t (*fail)(void* host, tenon_str_t label, tenon_str_t text);
  /* Requires that dims are in a relation. YES passes; NO fails with `label`; MAYBE records
   * symbol_assert and passes. */
  tenon_code_t (*require)(void* host, tenon_str_t label, uint32_t rel, tenon_dim_t a, tenon_dim_t b,
                          tenon_str_t what);
} tenon_infer_t;

/* ---- Reference evaluation ---- */

typedef struct tenon_eval_t {
  uint32_t size_bytes;
  uint32_t input_count, output_count, attr_count;
  const tenon_op_def_t* op;
  /* Records of arrays are as far apart as the first one's size_bytes says: tenon_array_at. data
   * null and dtype NONE: absent. */
  const tenon_array_t* inputs;
  /* Contiguous, allocated from the inferred types. If a dim is data-dependent, that dim is -1 and
   * data is null. */
  tenon_array_t* outputs;
  const tenon_attr_t* attrs; /* as in tenon_infer_t, with DIMS evaluated: every dim is constant */
  void* host;
  /* Allocates a data-dependent output and updates outputs[i]. */
  tenon_code_t (*alloc_output)(void* host, uint32_t i, const int64_t* dims, uint32_t rank);
  /* Runs region i of the node on arrays. The host allocates the outputs, which live until the
   * region has run twice more or the eval returns. The host provides the region's captures. */
  tenon_code_t (*run_region)(void* host, uint32_t region, const tenon_array_t* inputs,
                             uint32_t input_count, tenon_array_t* outputs, uint32_t output_count);
  uint32_t (*cancelled)(void* host);
  uint32_t region_count;
  uint32_t reserved;
} tenon_eval_t;

/* ---- Derivatives and batches ---- */

/* How an attribute changes where the operands get a new dim 0 (tenon_op_rules_t::batched). */
#define TENON_ROLE_OTHER 0u   /* it stays */
#define TENON_ROLE_AXIS 1u    /* I64: a dim of the operands; one more */
#define TENON_ROLE_AXES 2u    /* I64S: dims of the operands; each one more */
#define TENON_ROLE_PER_DIM 3u /* I64S, DIMS: one entry per dim, or none; default_i comes first */
#define TENON_ROLE_SHAPE 4u   /* DIMS: sizes; the size of the new dim comes first */

/* A partial derivative of an element-wise op, where the one that follows from the scalar program
 * is wrong at a point or loses digits. */
typedef struct tenon_partial_t {
  uint32_t operand;
  uint32_t scalar_words;
  /* A scalar program (scalar.h) of operands, attributes and, by TENON_S_RESULT, of the op's
   * results; it leaves the derivative of result 0 by the operand. */
  const uint32_t* scalar;
} tenon_partial_t;

/* How an op differentiates, and how it works on several samples at once. All rules build nodes at
 * `builder`, where the operands and results of `node` are visible, as `decompose` does. Cotangents
 * and tangents have the type of their value; TENON_NONE stands for zero. Rules are linear in them,
 * and cotangents are adjoints under the real part of conj(a) b.
 * An element-wise op needs no record: its partial derivatives follow from its scalar program, for
 * complex numbers only with TENON_TRAIT_HOLOMORPHIC. A composite has those of its decomposition.
 * Cotangents of a node's operands come from the first of these: `pull`; `transpose`; partial
 * derivatives; `jvp`, whose linear part is transposed; the decomposition. Tangents of its results:
 * the op itself, where it is linear; partial derivatives; `jvp`; the decomposition; `pull`,
 * transposed. */
typedef struct tenon_op_rules_t {
  uint32_t size_bytes;
  /* Bit i: operand i. The results are linear in these operands together, so that tangents go
   * through the op itself; and in each of `bilinear` alone. The bit of the last, variadic operand
   * stands for all that it takes. Both need `transpose`. */
  uint32_t linear, bilinear;
  /* Bit i: operand i may get a new dim 0, one entry for each sample; the results then have it too,
   * and attributes change by their roles. Operands of these bits get it together. 0: by `batch`. */
  uint32_t batched;
  tenon_str_t no_derivative; /* why it has none, for users: "its result is an index" */
  const tenon_partial_t* partials;
  uint32_t partial_count, partial_bytes; /* sizeof(tenon_partial_t) when the plugin was compiled */
  const uint32_t* roles;                 /* TENON_ROLE_* of each declared attribute; null: OTHER */
  /* Tangents of the results. out_tangents: one per result. */
  tenon_code_t (*jvp)(void* self, const tenon_builder_t* builder, tenon_node_t node,
                      const tenon_value_t* tangents, tenon_value_t* out_tangents);
  /* The cotangent of one operand in which the op is linear, from those of the results. It must not
   * read the values of operands in which the op is linear. */
  tenon_code_t (*transpose)(void* self, const tenon_builder_t* builder, tenon_node_t node,
                            uint32_t operand, const tenon_value_t* cotangents,
                            tenon_value_t* out_cotangent);
  /* The cotangents of operands, from those of the results. wanted: one flag per operand. */
  tenon_code_t (*pull)(void* self, const tenon_builder_t* builder, tenon_node_t node,
                       const uint8_t* wanted, const tenon_value_t* cotangents,
                       tenon_value_t* out_cotangents);
  /* The node on operands of which some have a new dim 0 of extent `size`; NONE: as decomposed.
   * is_batched: one flag per operand; out_batched: one per result, whether it has the dim. */
  tenon_code_t (*batch)(void* self, const tenon_builder_t* builder, tenon_node_t node,
                        const tenon_value_t* operands, const uint8_t* is_batched, tenon_dim_t size,
                        tenon_value_t* out_results, uint8_t* out_batched);
} tenon_op_rules_t;

/* ---- The declaration ---- */

/* A rewrite that the host drives: it is called for nodes of `root`, in no particular order, until
 * nothing changes or the bound is reached. match_and_build builds the replacement before `node` and
 * sets out_results (one value per result); out_matched 0: no match, nothing built. A comment must
 * say why the rewrite never loops. */
typedef struct tenon_rewrite_t {
  uint32_t size_bytes;
  uint32_t benefit; /* higher first */
  tenon_str_t name;
  tenon_str_t root; /* op name; empty: any */
  void* self;
  tenon_code_t (*match_and_build)(void* self, const tenon_builder_t* builder, tenon_node_t node,
                                  tenon_value_t* out_results, uint32_t* out_matched);
} tenon_rewrite_t;

#define TENON_OP_VERSION_BY_CONTENT 0x80000000u

struct tenon_op_def_t {
  uint32_t size_bytes;
  /* Version of the meaning; graphs record it. From 1.0 on a changed meaning gets a new number.
   * Before 1.0, CHANGELOG.md lists the changes, and a plugin that claims an op by name must check
   * its operands and attributes.
   *
   * 0 in plugins registered at run time (plugins.h), and only there: the host numbers the meaning
   * by its content, from TENON_OP_VERSION_BY_CONTENT up, in no order. An equal declaration gets the
   * number that it had, in every process if the scalar program is all its meaning; another one if
   * its functions build nodes and would find other definitions now. Documentation and `infer` are
   * not part of it: those of the last declaration hold. */
  uint32_t version;
  uint32_t since; /* first ABI minor with this version */
  uint32_t cost_class;
  tenon_str_t name, summary, doc;
  void* self;
  uint64_t traits;

  const tenon_operand_def_t* operands;
  const tenon_result_def_t* results; /* documentation only; inference determines the number */
  const tenon_attr_def_t* attrs;
  const tenon_constraint_def_t* constraints;
  const tenon_str_t* examples;
  uint32_t operand_count, result_count, attr_count, constraint_count, example_count;

  uint32_t scalar_words;
  const uint32_t* scalar; /* see scalar.h; the result has the shape of the operands */
  double tolerance;       /* factor on the tests' tolerance for this op; 0 means 1 */

  /* Required. Appends the result types, or fails with a constraint. Pure; safe. */
  tenon_code_t (*infer)(void* self, const tenon_infer_t* query);
  /* Optional: shape arithmetic. The elements of `result` as dims, if known; out_dims: caller's
   * array of the result's element count (at most 4096). NOT_FOUND if unknown. */
  tenon_code_t (*value_of)(void* self, const tenon_infer_t* query, uint32_t result,
                           tenon_dim_t* out_dims);
  /* Required without a scalar program or a decomposition. Obvious rather than fast. Safe. */
  tenon_code_t (*reference)(void* self, const tenon_eval_t* eval);
  /* Builds an equivalent from smaller ops before the node. out_results: one value per result. */
  tenon_code_t (*decompose)(void* self, const tenon_builder_t* builder, tenon_node_t node,
                            tenon_value_t* out_results);
  /* Simplifies one node like a rewrite (x+0, transpose of transpose); out_matched 0: nothing to do.
   * The host folds constants itself, through `reference`. */
  tenon_code_t (*fold)(void* self, const tenon_builder_t* builder, tenon_node_t node,
                       tenon_value_t* out_results, uint32_t* out_matched);
  const tenon_rewrite_t* rewrites;
  uint64_t rewrite_count;
  /* Optional: derivatives and batches; not part of the meaning. */
  const tenon_op_rules_t* rules;
  /* Optional: for an op that several processes compute together, with an attribute `mesh` that says
   * which ("data=2,model=2"). Builds what all of them compute, in one process: the operands have a
   * new dim 0 with one entry for each process of the mesh, in order of rank, and so do out_results.
   * It is what the op means; `reference` serves meshes of one process. */
  tenon_code_t (*stack)(void* self, const tenon_builder_t* builder, tenon_node_t node,
                        const tenon_value_t* operands, tenon_value_t* out_results);
  const void* reserved3[1];

  /* Accuracy of floats in f32 and in f64: the largest distance, in units in the last place, between
   * the exact value at the operands and the result of code made from this declaration (its
   * reference, its scalar program). Tests of this tree hold its devices to it; conformance tests
   * use only `tolerance`. f16 and bf16 are computed in f32 and rounded once. 0.5: the nearest
   * number; 0 in both: not stated. For a composite the unit is never smaller than that of 256 times
   * the smallest normal number, because its steps may be in that range. */
  double ulp_f32, ulp_f64;
  uint32_t ulp_of; /* TENON_ULP_OF_* */
  uint32_t reserved;
  /* Names in formats of files; not part of the meaning. */
  const tenon_foreign_name_t* foreign_names;
  uint64_t foreign_name_count;
  /* Optional: `decompose` for nodes with a complex operand or result. It builds an equivalent over
   * real and imaginary parts. For such nodes it comes before every other meaning, and every op that
   * has it is decomposed where no device takes it whole, composite or not. */
  tenon_code_t (*decompose_complex)(void* self, const tenon_builder_t* builder, tenon_node_t node,
                                    tenon_value_t* out_results);
  /* The size of one record in each array, on the side that declares the op. */
  uint32_t operand_bytes, result_bytes, attr_bytes, constraint_bytes, foreign_name_bytes;
  uint32_t reserved2;
};

/* Record i of a declaration. Helpers. */
static inline const tenon_operand_def_t* tenon_op_operand(const tenon_op_def_t* op, uint64_t i) {
  return (const tenon_operand_def_t*)tenon_record_at(op->operands, i, op->operand_bytes);
}
static inline const tenon_result_def_t* tenon_op_result(const tenon_op_def_t* op, uint64_t i) {
  return (const tenon_result_def_t*)tenon_record_at(op->results, i, op->result_bytes);
}
static inline const tenon_attr_def_t* tenon_op_attr(const tenon_op_def_t* op, uint64_t i) {
  return (const tenon_attr_def_t*)tenon_record_at(op->attrs, i, op->attr_bytes);
}
static inline const tenon_constraint_def_t* tenon_op_constraint(const tenon_op_def_t* op,
                                                                uint64_t i) {
  return (const tenon_constraint_def_t*)tenon_record_at(op->constraints, i, op->constraint_bytes);
}
static inline const tenon_partial_t* tenon_op_partial(const tenon_op_rules_t* rules, uint64_t i) {
  return (const tenon_partial_t*)tenon_record_at(rules->partials, i, rules->partial_bytes);
}
static inline const tenon_foreign_name_t* tenon_op_foreign_name(const tenon_op_def_t* op,
                                                                uint64_t i) {
  return (const tenon_foreign_name_t*)tenon_record_at(op->foreign_names, i, op->foreign_name_bytes);
}

/* Array i of several, whose records have the size of the first. Helpers. */
static inline const tenon_array_t* tenon_array_at(const tenon_array_t* first, uint64_t i) {
  return (const tenon_array_t*)(i == 0 ? first : tenon_record_at(first, i, first->size_bytes));
}
static inline tenon_array_t* tenon_array_in(tenon_array_t* first, uint64_t i) {
  return (tenon_array_t*)(i == 0 ? first : tenon_record_in(first, i, first->size_bytes));
}

typedef struct tenon_ops_t {
  uint32_t size_bytes;
  void* self;
  const tenon_op_def_t* const* ops; /* static */
  uint64_t op_count;
} tenon_ops_t;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
