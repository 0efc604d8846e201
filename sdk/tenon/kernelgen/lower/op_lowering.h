// Shared by lower_graph.cpp and the lowerings of op families. Not installed: included only within
// this folder.
#ifndef TENON_KERNELGEN_LOWER_OP_LOWERING_H_
#define TENON_KERNELGEN_LOWER_OP_LOWERING_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tenon/kernelgen/lower/builder.h"
#include "tenon/kernelgen/lower/lower_graph.h"

namespace tenon::kernelgen {

// Dims over the extents that represent the symbols.
class DimMap : public DimExpressions {
 public:
  DimMap(const HostTables& host, tenon_graph_t* graph, Builder* builder)
      : DimExpressions(host.graph, graph, &builder->pool()), builder_(builder) {}
  // Declares the symbols of `region` as extents, in order.
  bool add_symbols(tenon_region_t region, std::string* why);
  bool expressions(const tenon_dim_t* dims, uint64_t count, std::vector<ExprId>* out);
  // If open, declares unknown symbols instead of failing; for trying single nodes.
  void set_open(bool open) { open_ = open; }

 private:
  ExprId undefined(tenon_symbol_t s) override { return open_ ? declare(s) : kNone; }
  ExprId declare(tenon_symbol_t s);

  Builder* builder_;
  bool open_ = false;
};

// One node being lowered: its operands as tensors, attributes by name, result types.
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

  // Adds a check that every element of `numbers` (integers; negative ones count as large) is below
  // `limit`.
  bool check_below(const Tensor& numbers, ExprId limit, std::string text);
  // The constant that is operand i; null if it is not a constant.
  tenon_blob_t* constant_operand(uint32_t i) const;

  const tenon_attr_t* attr(std::string_view name) const;
  int64_t integer(std::string_view name, int64_t otherwise = 0) const;
  // The accumulation type, or NONE. Narrow floats are storage types only: f16 and bf16 become f32,
  // which is as accurate.
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

// The gradient of a depthwise filter: a convolution whose batch groups have one image of x each,
// with at most 64 elements per channel in a result of dims `dims`. Empty for others, for which
// Builder::conv() is right. The filter is not turned.
std::optional<Tensor> depthwise_gradient(LoweringSite& s, const ConvDims& n,
                                         std::span<const WindowDim> window,
                                         std::span<const ExprId> dims);

// Adds a check that every start of a gather or scatter is in [0, dim - size]. vector_dim < 0: an
// index is one number.
bool check_indices(LoweringSite& s, const Tensor& x, const Tensor& indices,
                   const std::vector<int64_t>& index_map, const std::vector<ExprId>& sizes,
                   int64_t vector_dim);

// Returns one tensor per result; empty: refused, with the reason in `*site.why`.
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
