#include "core/op/as_of.h"

#include <utility>

#include "core/base/errors/guard.h"
#include "core/ir/graph.h"

namespace tenon::op {
namespace {

thread_local uint64_t t_as_of = 0;

// The definition of a node. Registered definitions stay, so there is always one.
const OpRecord* record_of(const tenon_builder_t* builder, tenon_node_t node) {
  const ir::Graph& graph = *ir::Graph::from(builder->graph);
  return Registry::instance().record(graph.node(node).op, graph.node(node).op_version);
}

// The functions get `self` as the plugin gave it, so the record is found through the node.
tenon_code_t decompose_as_of(void* self, const tenon_builder_t* builder, tenon_node_t node,
                             tenon_value_t* out_results) {
  const OpRecord* record = record_of(builder, node);
  if (record == nullptr || record->decompose == nullptr)
    return guarded([] { return internal_error("a decomposition is asked about another op"); });
  const AsOf scope(record->first);
  return record->decompose(self, builder, node, out_results);
}

tenon_code_t decompose_complex_as_of(void* self, const tenon_builder_t* builder, tenon_node_t node,
                                     tenon_value_t* out_results) {
  const OpRecord* record = record_of(builder, node);
  if (record == nullptr || record->decompose_complex == nullptr)
    return guarded([] { return internal_error("a decomposition is asked about another op"); });
  const AsOf scope(record->first);
  return record->decompose_complex(self, builder, node, out_results);
}

tenon_code_t stack_as_of(void* self, const tenon_builder_t* builder, tenon_node_t node,
                         const tenon_value_t* operands, tenon_value_t* out_results) {
  const OpRecord* record = record_of(builder, node);
  if (record == nullptr || record->stack == nullptr)
    return guarded([] { return internal_error("a stacked form is asked about another op"); });
  const AsOf scope(record->first);
  return record->stack(self, builder, node, operands, out_results);
}

tenon_code_t fold_as_of(void* self, const tenon_builder_t* builder, tenon_node_t node,
                        tenon_value_t* out_results, uint32_t* out_matched) {
  const OpRecord* record = record_of(builder, node);
  if (record == nullptr || record->fold == nullptr)
    return guarded([] { return internal_error("a fold is asked about another op"); });
  const AsOf scope(record->first);
  return record->fold(self, builder, node, out_results, out_matched);
}

// The root of a rewrite may be any op, so `self` says which definition it belongs to.
tenon_code_t rewrite_as_of(void* self, const tenon_builder_t* builder, tenon_node_t node,
                           tenon_value_t* out_results, uint32_t* out_matched) {
  const auto& rewrite = *static_cast<const BoundRewrite*>(self);
  const AsOf scope(rewrite.registration);
  return rewrite.match_and_build(rewrite.self, builder, node, out_results, out_matched);
}

}  // namespace

AsOf::AsOf(uint64_t registration) : before_(std::exchange(t_as_of, registration)) {}
AsOf::~AsOf() {
  t_as_of = before_;
}
uint64_t AsOf::now() {
  return t_as_of;
}

bool builds_nodes(const tenon_op_def_t& def) {
  return def.decompose != nullptr || def.decompose_complex != nullptr || def.fold != nullptr ||
         def.stack != nullptr || def.rewrite_count != 0;
}

void build_as_of(OpRecord* record) {
  tenon_op_def_t& def = record->def;
  record->decompose = def.decompose;
  record->decompose_complex = def.decompose_complex;
  record->fold = def.fold;
  record->stack = def.stack;
  if (def.decompose != nullptr) def.decompose = decompose_as_of;
  if (def.decompose_complex != nullptr) def.decompose_complex = decompose_complex_as_of;
  if (def.fold != nullptr) def.fold = fold_as_of;
  if (def.stack != nullptr) def.stack = stack_as_of;
  if (def.rewrite_count == 0) return;
  if (record->rewrites.empty())
    record->rewrites.assign(def.rewrites, def.rewrites + def.rewrite_count);
  record->bound.reserve(record->rewrites.size());
  for (tenon_rewrite_t& rewrite : record->rewrites) {
    record->bound.push_back({record->first, rewrite.self, rewrite.match_and_build});
    rewrite.self = &record->bound.back();
    rewrite.match_and_build = rewrite_as_of;
  }
  def.rewrites = record->rewrites.data();
}

}  // namespace tenon::op
