// One integer tracked by shape arithmetic: a number, which may be negative, or a symbolic dim.
// Exporters compute the arguments of Reshape, Slice or Expand with ordinary nodes (Shape, Gather,
// Mul, Concat ...). Tracking these values turns such chains into dims, so that no shapes are
// computed when the model runs.
#ifndef FRONTENDS_ONNX_GRAPH_EXTENT_H_
#define FRONTENDS_ONNX_GRAPH_EXTENT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <tenon/cpp/graph.hpp>

namespace tenon::onnx {

struct Extent {
  int64_t number = 0;
  std::optional<Dim> symbolic;  // if set, `number` has no meaning

  static Extent of(int64_t number) { return {number, {}}; }
  static Extent of(Dim dim) {
    return dim.is_constant() ? Extent{dim.constant(), {}} : Extent{0, dim};
  }
  bool is_number() const { return !symbolic.has_value(); }
  bool is(int64_t n) const { return is_number() && number == n; }
  // As a size: invalid if negative.
  Dim dim(tenon_graph_t* graph) const {
    return symbolic ? *symbolic : number < 0 ? Dim::invalid() : Dim(graph, number);
  }
  // As a number, which may be negative: for arithmetic and comparisons.
  Dim signed_dim(tenon_graph_t* graph) const {
    return symbolic || number >= 0 ? dim(graph)
                                   : Dim(graph, 0) - Dim(graph, -(number + 1)) - Dim(graph, 1);
  }
};

using Extents = std::vector<Extent>;

enum class Arithmetic { kAdd, kSub, kMul, kDiv, kMod, kMin, kMax };

// As in a run, 64-bit integers wrap and division truncates. Dims do not wrap: a result beyond 64
// bits is an error of the run. Nothing where a number is divided by 0, or if symbols make the
// result unknown.
std::optional<Extent> compute(tenon_graph_t* graph, Arithmetic op, const Extent& a,
                              const Extent& b);

// Truths as integers, 1 or 0, so that a condition on sizes is a dim: whether a equals b, or is
// less, and logic over two of them. Nothing if a dim cannot be made.
std::optional<Extent> is_equal(tenon_graph_t* graph, const Extent& a, const Extent& b);
std::optional<Extent> is_less(tenon_graph_t* graph, const Extent& a, const Extent& b);
std::optional<Extent> opposite(tenon_graph_t* graph, const Extent& truth);

// Whether it is known not to be negative.
bool is_natural(tenon_graph_t* graph, const Extent& e);

// max(d, 0), simplified by what is known of d.
Dim at_least_zero(tenon_graph_t* graph, Dim d);

}  // namespace tenon::onnx

#endif  // FRONTENDS_ONNX_GRAPH_EXTENT_H_
