// Shared by the passes: the declaration of a node's op, and the entry that every pass ends with.
#pragma once
#include <tenon/abi/host.h>
#include <tenon/cpp/pass.hpp>

namespace tenon::passes {

inline const tenon_host_registry_t& registry() {
  static const auto* table = context().query<tenon_host_registry_t>(TENON_HOST_REGISTRY_ID);
  return *table;
}

// The op of a node. Null only for an op whose plugin is missing; such nodes are left alone.
inline const tenon_op_def_t* op_of(const Node& node) {
  const tenon_op_def_t* op = nullptr;
  const tenon_node_view_t& view = node.view();
  return registry().op_find(registry().self, view.op, view.op_version, &op) == TENON_OK ? op
                                                                                        : nullptr;
}
inline bool has_trait(const tenon_op_def_t* op, uint64_t trait) {
  return op != nullptr && (op->traits & trait) != 0;
}
// Whether an operand or a result has complex numbers, so that decompose_complex is its meaning.
inline bool is_complex_node(const Node& node) {
  const auto is_one = [](Value v) { return v.valid() && is_complex(v.dtype()); };
  for (uint32_t i = 0; i < node.operand_count(); ++i) {
    if (is_one(node.operand(i))) return true;
  }
  for (uint32_t i = 0; i < node.result_count(); ++i) {
    if (is_one(node.result(i))) return true;
  }
  return false;
}
// Whether a node may be removed when its results are unused: it has no effect and orders nothing.
inline bool is_removable(const tenon_op_def_t* op) {
  return has_trait(op, TENON_TRAIT_PURE) && !has_trait(op, TENON_TRAIT_ORDERED);
}

}  // namespace tenon::passes

// Ends the file of a pass: TENON_PASS(dce, kPass) for a PassRecord. The build collects passes by
// file name.
#define TENON_PASS(file, record)                   \
  extern const tenon_pass_def_t tenon_pass_##file; \
  constinit const tenon_pass_def_t tenon_pass_##file = (record).def;
