// Shared by lower_graph.cpp and the files of op lowerings. Not installed API: included within this
// folder only.
#ifndef TENON_KERNELGEN_LIFT_LIFT_INTERNAL_H_
#define TENON_KERNELGEN_LIFT_LIFT_INTERNAL_H_

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tenon/kernelgen/lower/builder.h"
#include "tenon/kernelgen/lower/lower_graph.h"

namespace tenon::kernelgen {

// Dims over extents that stand for the symbols.
class DimMap : public DimExpressions {
 public:
  DimMap(const HostTables& host, tenon_graph_t* graph, Builder* builder)
      : DimExpressions(host.graph, graph, &builder->pool()), builder_(builder) {}
  // Declares the symbols of `region` as extents, in order.
  bool add_symbols(tenon_region_t region, std::string* why);
  bool expressions(const tenon_dim_t* dims, uint64_t count, std::vector<ExprId>* out);
  // Declares a symbol met outside the main region's list, for trying single nodes.
  void set_open(bool open) { open_ = open; }

 private:
  ExprId undefined(tenon_symbol_t s) override { return open_ ? declare(s) : kNone; }
  ExprId declare(tenon_symbol_t s);

  Builder* builder_;
  bool open_ = false;
};

// One node being lowered: its operands as tensors, its attributes by name, its result types.
struct LoweringSite {
  const HostTables& host;
  tenon_graph_t* graph;
  Builder& b;
  DimMap& dims;
  const tenon_op_def_t* op;
  tenon_node_view_t node;
  std::vector<Tensor> in;  // invalid: an absent optional operand
  std::vector<tenon_type_t> result_types;
  std::string* why;
  std::vector<LoweredCheck>* checks;
  uint32_t origin = 0;

  // Asks for an error unless every element of `numbers` (integers, negative ones are large) is
  // below `limit`.
  bool check_below(const Tensor& numbers, ExprId limit, std::string text);
  // The constant that operand i is, null when it is none.
  tenon_blob_t* constant_operand(uint32_t i) const;

  const tenon_attr_t* attr(std::string_view name) const;
  int64_t integer(std::string_view name, int64_t otherwise = 0) const;
  // What sums are kept in, or none. Narrow floats are stored in alone: what asks for one gets f32,
  // which is as good.
  DType acc() const;
  std::string_view text(std::string_view name) const;
  std::vector<int64_t> integers(std::string_view name) const;
  std::vector<uint32_t> ordinals(std::string_view name) const {
    return to_ordinals(integers(name));
  }
  static std::vector<uint32_t> to_ordinals(const std::vector<int64_t>& values);
  // A DIMS or I64S attribute as expressions; false when one is data-dependent.
  bool sizes(std::string_view name, std::vector<ExprId>* out) const;
  // A DIMS or I64S attribute whose entries must be constants.
  bool constants(std::string_view name, std::vector<int64_t>* out) const;
  bool result_dims(uint32_t i, std::vector<ExprId>* out) const;
  std::vector<Tensor> refuse(std::string reason) const;
};

// Every start of a gather or scatter lies in [0, dim - size]: a check of each run. vector_dim < 0:
// an index is one number.
bool check_indices(LoweringSite& s, const Tensor& x, const Tensor& indices,
                   const std::vector<int64_t>& index_map, const std::vector<ExprId>& sizes,
                   int64_t vector_dim);

// Gives one tensor per result; empty: refused, `*site.why` says why.
using LoweringFn = std::vector<Tensor> (*)(LoweringSite& site);
struct Lowering {
  std::string_view op;
  LoweringFn fn;
};
std::span<const Lowering> movement_lowerings();   // lower_movement.cpp
std::span<const Lowering> reduction_lowerings();  // lower_reductions.cpp
std::span<const Lowering> order_lowerings();      // lower_order.cpp

}  // namespace tenon::kernelgen
#endif
