// Symbolic extents of a graph, with arithmetic like numbers. Threads: as the graph.
#ifndef TENON_CPP_DIM_HPP_
#define TENON_CPP_DIM_HPP_

#include <limits>
#include <vector>

#include "tenon/abi/graph.h"
#include "tenon/cpp/arithmetic.hpp"
#include "tenon/cpp/plugin.hpp"

namespace tenon::inline sdk {

inline const tenon_host_graph_t& graph_api() {
  return *context().graph;
}

// A symbolic or constant extent. Failing arithmetic (overflow, division by zero) gives an invalid
// dim, which every later use refuses; the host keeps the reason.
class Dim {
 public:
  constexpr Dim() = default;
  constexpr Dim(int64_t constant) : raw_(constant < 0 ? kInvalid : constant) {}
  constexpr Dim(tenon_graph_t* graph, tenon_dim_t raw) : graph_(graph), raw_(raw) {}

  constexpr tenon_dim_t raw() const { return raw_; }
  constexpr tenon_graph_t* graph() const { return graph_; }
  constexpr bool valid() const { return raw_ != kInvalid; }
  constexpr bool is_constant() const { return raw_ >= 0; }
  constexpr bool is(int64_t constant) const { return constant >= 0 && raw_ == constant; }
  constexpr int64_t constant() const { return raw_; }  // requires is_constant()

  // Identity of the expression. true: provably equal; false: not known from this alone.
  friend constexpr bool operator==(Dim a, Dim b) { return a.raw_ == b.raw_; }

  friend Dim operator+(Dim a, Dim b) { return make(TENON_DIM_ADD, a, b); }
  friend Dim operator-(Dim a, Dim b) { return make(TENON_DIM_SUB, a, b); }
  friend Dim operator*(Dim a, Dim b) { return make(TENON_DIM_MUL, a, b); }
  friend Dim operator/(Dim a, Dim b) { return make(TENON_DIM_FLOORDIV, a, b); }  // floor
  friend Dim operator%(Dim a, Dim b) { return make(TENON_DIM_MOD, a, b); }
  friend Dim min(Dim a, Dim b) { return make(TENON_DIM_MIN, a, b); }
  friend Dim max(Dim a, Dim b) { return make(TENON_DIM_MAX, a, b); }

  static Dim make(uint32_t op, Dim a, Dim b) {
    if (!a.valid() || !b.valid()) return invalid();
    tenon_graph_t* graph = a.graph_ != nullptr ? a.graph_ : b.graph_;
    if (graph == nullptr)
      return invalid();  // two constants without a graph: give one of them a graph
    tenon_dim_t out = 0;
    const tenon_code_t code =
        graph_api().dim_make(graph_api().self, graph, op, a.raw_, b.raw_, &out);
    return code == TENON_OK ? Dim(graph, out) : invalid();
  }
  static constexpr Dim invalid() { return Dim(nullptr, kInvalid); }

 private:
  static constexpr tenon_dim_t kInvalid = std::numeric_limits<int64_t>::min();
  tenon_graph_t* graph_ = nullptr;
  tenon_dim_t raw_ = kInvalid;
};

using Dims = std::vector<Dim>;

// TENON_NO, TENON_YES or TENON_MAYBE.
inline uint32_t compare(uint32_t rel, Dim a, Dim b) {
  if (!a.valid() || !b.valid()) return TENON_MAYBE;
  if (rel == TENON_REL_EQ && a == b) return TENON_YES;
  tenon_graph_t* graph = a.graph() != nullptr ? a.graph() : b.graph();
  if (graph == nullptr)
    return arithmetic::relation_holds(rel, a.constant(), b.constant()) ? TENON_YES : TENON_NO;
  uint32_t answer = TENON_MAYBE;
  graph_api().dim_compare(graph_api().self, graph, rel, a.raw(), b.raw(), &answer);
  return answer;
}
inline bool surely_equal(Dim a, Dim b) {
  return compare(TENON_REL_EQ, a, b) == TENON_YES;
}

}  // namespace tenon::inline sdk

#endif
