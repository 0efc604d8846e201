// Toy operators for the unit tests of core/ir and core/op: enough to build every kind of graph.
// Registered once per process by use_test_ops().
#pragma once
#include <tenon/abi/ops.h>
#include <tenon/cpp/record.hpp>

#include <cstring>
#include <string_view>

#include "core/base/errors/failure.h"
#include "core/base/intern.h"
#include "core/base/process/log.h"
#include "core/ir/host_graph.h"
#include "core/op/registry.h"

namespace tenon::test {

constexpr tenon_str_t str(std::string_view s) {
  return {s.data(), s.size()};
}

inline tenon_code_t same_as_first(void*, const tenon_infer_t* q) {
  const tenon_type_t& t = q->operands[0];
  for (uint32_t i = 1; i < q->operand_count; ++i) {
    if (q->operands[i].rank != t.rank) return q->fail(q->host, str("C1"), str("the ranks differ"));
    for (uint32_t d = 0; d < t.rank; ++d) {
      const tenon_code_t code = q->require(q->host, str("C1"), TENON_REL_EQ, t.dims[d],
                                           q->operands[i].dims[d], str("dim"));
      if (code != TENON_OK) return code;
    }
  }
  return q->result(q->host, t.dtype, t.dims, t.rank);
}

inline tenon_code_t infer_reshape(void*, const tenon_infer_t* q) {
  return q->result(q->host, q->operands[0].dtype, q->attrs[0].u.dims,
                   static_cast<uint32_t>(q->attrs[0].count));
}

// The size of dim `axis`, as an i64 scalar.
inline tenon_code_t infer_size(void*, const tenon_infer_t* q) {
  if (q->attrs[0].u.i < 0 || q->attrs[0].u.i >= q->operands[0].rank)
    return q->fail(q->host, str("C1"), str("axis is not a dim"));
  return q->result(q->host, TENON_I64, nullptr, 0);
}
inline tenon_code_t value_of_size(void*, const tenon_infer_t* q, uint32_t, tenon_dim_t* out) {
  out[0] = q->operands[0].dims[q->attrs[0].u.i];
  return TENON_OK;
}

// A tensor with as many elements as the operand's value, which is known or defines a symbol.
inline tenon_code_t infer_filled(void*, const tenon_infer_t* q) {
  const tenon_dim_t* dims;
  uint64_t count;
  if (q->value_of(q->host, 0, &dims, &count) == TENON_OK)
    return q->result(q->host, TENON_F32, dims, static_cast<uint32_t>(count));
  return q->fail(q->host, str("C1"), str("the size is not known"));
}

inline tenon_code_t infer_nonzero(void*, const tenon_infer_t* q) {
  const tenon_host_graph_t* api = ir::host_graph_table();
  tenon_symbol_t s;
  tenon_code_t code = api->symbol_fresh(api->self, q->graph, 0, INT64_MAX, 1, &s);
  if (code != TENON_OK) return code;
  tenon_symbol_view_t view = {sizeof view};
  if ((code = api->symbol_view(api->self, q->graph, s, &view)) != TENON_OK) return code;
  const tenon_dim_t dims[2] = {static_cast<tenon_dim_t>(q->operands[0].rank), view.dim};
  return q->result(q->host, TENON_I64, dims, 2);
}

inline tenon_code_t infer_branch(void*, const tenon_infer_t* q) {
  const tenon_host_graph_t* api = ir::host_graph_table();
  tenon_region_view_t region = {sizeof region};
  if (q->region_count == 0) return q->fail(q->host, str("C1"), str("there is no branch"));
  tenon_code_t code = api->region_view(api->self, q->graph, q->regions[0], &region);
  if (code != TENON_OK) return code;
  for (uint32_t i = 0; i < region.yield_count; ++i) {
    tenon_value_view_t v = {sizeof v};
    if ((code = api->value_view(api->self, q->graph, region.yields[i], &v)) != TENON_OK)
      return code;
    if ((code = q->result(q->host, v.type.dtype, v.type.dims, v.type.rank)) != TENON_OK)
      return code;
  }
  return TENON_OK;
}

inline tenon_code_t infer_print(void*, const tenon_infer_t* q) {
  return q->result(q->host, TENON_DTYPE_NONE, nullptr, 0);
}

inline tenon_code_t no_reference(void*, const tenon_eval_t*) {
  return TENON_UNIMPLEMENTED;
}

inline tenon_code_t reference_size(void*, const tenon_eval_t* e) {
  std::memcpy(e->outputs[0].data, &e->inputs[0].dims[e->attrs[0].u.i], sizeof(int64_t));
  return TENON_OK;
}

// Indices of elements that are not zero; rank 1 only.
inline tenon_code_t reference_nonzero(void*, const tenon_eval_t* e) {
  const float* in = static_cast<const float*>(e->inputs[0].data);
  int64_t count = 0;
  for (int64_t i = 0; i < e->inputs[0].dims[0]; ++i) count += in[i] != 0;
  const int64_t dims[2] = {1, count};
  const tenon_code_t code = e->alloc_output(e->host, 0, dims, 2);
  if (code != TENON_OK) return code;
  int64_t* out = static_cast<int64_t*>(e->outputs[0].data);
  for (int64_t i = 0; i < e->inputs[0].dims[0]; ++i) {
    if (in[i] != 0) *out++ = i;
  }
  return TENON_OK;
}

// Runs the region that operand 0 selects on the other operands; one result of rank 1.
inline tenon_code_t reference_branch(void*, const tenon_eval_t* e) {
  int64_t which;
  std::memcpy(&which, e->inputs[0].data, sizeof which);
  auto out = sized<tenon_array_t>();
  const tenon_code_t code =
      e->run_region(e->host, which != 0, e->inputs + 1, e->input_count - 1, &out, 1);
  if (code != TENON_OK) return code;
  std::memcpy(e->outputs[0].data, out.data,
              static_cast<size_t>(out.dims[0] * out.strides_bytes[0]));
  return TENON_OK;
}

// double(x) is plus(x, x).
inline tenon_code_t decompose_double(void*, const tenon_builder_t* b, tenon_node_t node,
                                     tenon_value_t* out) {
  const tenon_host_graph_t* api = ir::host_graph_table();
  tenon_node_view_t view = {sizeof view};
  tenon_code_t code = api->node_view(api->self, b->graph, node, &view);
  if (code != TENON_OK) return code;
  const tenon_value_t operands[2] = {view.operands[0], view.operands[0]};
  tenon_node_spec_t spec = {sizeof spec};
  spec.op = intern("plus");
  spec.operands = operands;
  spec.operand_count = 2;
  tenon_node_t made;
  if ((code = api->node_build(api->self, b, &spec, &made)) != TENON_OK) return code;
  if ((code = api->node_view(api->self, b->graph, made, &view)) != TENON_OK) return code;
  out[0] = view.results[0];
  return TENON_OK;
}

inline constexpr tenon_operand_def_t kTwo[] = {{str("a"), {}, TENON_DTYPES_ANY & ~1u, 0, 1, 0, 8},
                                               {str("b"), {}, TENON_DTYPES_ANY & ~1u, 0, 1, 0, 8}};
inline constexpr tenon_operand_def_t kAny[] = {
    {str("x"), {}, TENON_DTYPES_ANY, TENON_OPERAND_VARIADIC, 0, 0, 32}};
inline constexpr tenon_operand_def_t kOptional[] = {
    {str("x"), {}, TENON_DTYPE_BIT(TENON_F32), 0, 0, 0, 8},
    {str("y"), {}, TENON_DTYPE_BIT(TENON_F32), TENON_OPERAND_OPTIONAL, 0, 0, 8}};
inline constexpr tenon_operand_def_t kToken[] = {
    {str("token"), {}, 1u, 0, 0, 0, 0},
    {str("x"), {}, TENON_DTYPES_ANY, TENON_OPERAND_VARIADIC, 0, 0, 32}};
inline constexpr tenon_attr_def_t kShape[] = {
    {str("shape"), {}, TENON_ATTR_DIMS, TENON_ATTR_REQUIRED}};
inline constexpr tenon_attr_def_t kAxis[] = {{str("axis"), {}, TENON_ATTR_I64, 0}};
inline constexpr tenon_attr_def_t kEvery[] = {
    {str("b"), {}, TENON_ATTR_BLOB, 0},
    {str("d"), {}, TENON_ATTR_DIMS, 0},
    {str("f"), {}, TENON_ATTR_F64, 0, 0, 0.5},
    {str("fs"), {}, TENON_ATTR_F64S, 0},
    {str("i"), {}, TENON_ATTR_I64, 0, 7},
    {str("is"), {}, TENON_ATTR_I64S, 0},
    {str("mode"), {}, TENON_ATTR_STRING, 0, 0, 0, str("clip"), str("clip|fill")},
    {str("s"), {}, TENON_ATTR_STRING, 0},
    {str("ss"), {}, TENON_ATTR_STRINGS, 0},
    {str("ts"), {}, TENON_ATTR_TYPES, 0},
    {str("type"), {}, TENON_ATTR_DTYPE, 0},
};
inline constexpr tenon_constraint_def_t kSameShape[] = {
    {str("C1"), str("all operands have one shape"), {}}};
inline constexpr uint32_t kPlusProgram[] = {TENON_SCALAR_WORD(TENON_S_ARG, 0),
                                            TENON_SCALAR_WORD(TENON_S_ARG, 1),
                                            TENON_SCALAR_WORD(TENON_S_ADD, 0)};

inline tenon_op_def_t make_op(std::string_view name, uint64_t traits,
                              std::span<const tenon_operand_def_t> operands,
                              decltype(tenon_op_def_t::infer) infer) {
  auto d = sized<tenon_op_def_t>();
  d.version = 1;
  d.name = str(name);
  d.traits = traits;
  d.operands = operands.data();
  d.operand_count = static_cast<uint32_t>(operands.size());
  d.operand_bytes = sizeof(tenon_operand_def_t);
  d.attr_bytes = sizeof(tenon_attr_def_t);
  d.constraint_bytes = sizeof(tenon_constraint_def_t);
  d.infer = infer;
  d.reference = no_reference;
  return d;
}

inline void use_test_ops() {
  static const bool once = [] {
    static tenon_op_def_t plus =
        make_op("plus", TENON_TRAIT_PURE | TENON_TRAIT_ELEMENTWISE, kTwo, same_as_first);
    plus.constraints = kSameShape;
    plus.constraint_count = 1;
    plus.scalar = kPlusProgram;
    plus.scalar_words = 3;
    plus.reference = nullptr;
    static tenon_op_def_t reshape =
        make_op("reshape_to", TENON_TRAIT_PURE, {kTwo, 1}, infer_reshape);
    reshape.attrs = kShape;
    reshape.attr_count = 1;
    static tenon_op_def_t size = make_op("size", TENON_TRAIT_PURE, {kTwo, 1}, infer_size);
    size.attrs = kAxis;
    size.attr_count = 1;
    size.value_of = value_of_size;
    size.reference = reference_size;
    static tenon_op_def_t filled = make_op("filled", TENON_TRAIT_PURE, kAny, infer_filled);
    static tenon_op_def_t nonzero =
        make_op("find", TENON_TRAIT_PURE | TENON_TRAIT_DEFINES_SYMBOL, {kTwo, 1}, infer_nonzero);
    nonzero.reference = reference_nonzero;
    static tenon_op_def_t branch = make_op("branch", TENON_TRAIT_PURE, kAny, infer_branch);
    branch.reference = reference_branch;
    static tenon_op_def_t print = make_op("print", TENON_TRAIT_ORDERED, kToken, infer_print);
    static tenon_op_def_t maybe = make_op("maybe", TENON_TRAIT_PURE, kOptional, same_as_first);
    maybe.infer = [](void*, const tenon_infer_t* q) {
      return q->result(q->host, TENON_F32, q->operands[0].dims, q->operands[0].rank);
    };
    static tenon_op_def_t every = make_op("every", TENON_TRAIT_PURE, {kTwo, 1}, same_as_first);
    every.attrs = kEvery;
    every.attr_count = std::size(kEvery);
    static tenon_op_def_t old_every = every;
    every.version = 2;
    static tenon_op_def_t twice =
        make_op("double", TENON_TRAIT_PURE | TENON_TRAIT_COMPOSITE, {kTwo, 1}, same_as_first);
    twice.reference = nullptr;
    twice.decompose = decompose_double;
    static const tenon_op_def_t* const all[] = {&plus,    &reshape,   &size,  &filled,
                                                &nonzero, &branch,    &print, &maybe,
                                                &every,   &old_every, &twice};
    static const tenon_ops_t ops = {sizeof ops, nullptr, all, std::size(all)};
    const Status s = op::Registry::instance().register_ops(ops, "test");
    TENON_CHECK(s.ok(), "{}", s.text());
    return true;
  }();
  (void)once;
}

}  // namespace tenon::test
