// Patterns over graphs: small objects that inspect a value and may capture it.
#ifndef TENON_CPP_MATCH_HPP_
#define TENON_CPP_MATCH_HPP_

#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "tenon/cpp/value.hpp"

namespace tenon::inline sdk {

// ---- Reading constants ----
// The number that all elements equal, for a splat constant, a one-element constant, or a broadcast
// of either.
inline std::optional<double> splat_of(Value value) {
  for (Node n = value.node(); n && n.is("broadcast"); n = value.node()) value = n.operand(0);
  const tenon_value_view_t v = value.view();
  if (v.kind != TENON_VALUE_CONSTANT || dtype_bytes(v.type.dtype) == 0) return {};
  if (!is_in(v.type.dtype, kNumber | kPred)) return {};
  const void* element = nullptr;
  uint32_t size = 0;
  if (graph_api().blob_is_splat(graph_api().self, v.blob, &element, &size) == 1 &&
      size == dtype_bytes(v.type.dtype)) {
    return load_double(v.type.dtype, element);
  }
  for (uint32_t i = 0; i < v.type.rank; ++i) {
    if (v.type.dims[i] != 1) return {};
  }
  const auto bytes = blob_bytes(v.blob);
  if (bytes.size() != dtype_bytes(v.type.dtype)) return {};
  return load_double(v.type.dtype, bytes.data());
}

// ---- Patterns ----
// Small objects that inspect a value and may capture it. Nested, they match a tree:
//
//     Value x, y;
//     if (match(node, match_op("add", bind(&x), match_op("neg", bind(&y))))) ...
namespace pattern {
struct Bind {
  Value* out;
  bool operator()(Value v) const {
    *out = v;
    return v.valid();
  }
};
struct Any {
  bool operator()(Value v) const { return v.valid(); }
};
struct Same {
  const Value* to;
  bool operator()(Value v) const { return v == *to; }
};
struct Splat {
  double number;
  bool operator()(Value v) const {
    const auto found = splat_of(v);
    return found.has_value() && *found == number;
  }
};
struct SplatAny {
  double* out;
  bool operator()(Value v) const {
    const auto found = splat_of(v);
    if (found) *out = *found;
    return found.has_value();
  }
};
struct Constant {
  Value* out;
  bool operator()(Value v) const {
    *out = v;
    return v.is_constant();
  }
};
template <class Inner>
struct OneUse {
  Inner inner;
  bool operator()(Value v) const { return v.use_count() == 1 && inner(v); }
};
template <bool kEitherOrder, class... Operands>
struct Op {
  std::string_view name;
  Node* out;
  std::tuple<Operands...> operands;
  bool node(const Node& n) const {
    if (!n || !n.is(name) || n.operand_count() != sizeof...(Operands)) return false;
    if (out != nullptr) *out = n;
    if (try_order(n, std::index_sequence_for<Operands...>{})) return true;
    if constexpr (kEitherOrder) {
      return std::get<0>(operands)(n.operand(1)) && std::get<1>(operands)(n.operand(0));
    }
    return false;
  }
  bool operator()(Value v) const { return node(v.node()); }

 private:
  template <size_t... I>
  bool try_order(const Node& n, std::index_sequence<I...>) const {
    return (std::get<I>(operands)(n.operand(I)) && ...);
  }
};
}  // namespace pattern

inline pattern::Bind bind(Value* out) {
  return {out};
}
inline pattern::Any any() {
  return {};
}
inline pattern::Same same(const Value* as) {
  return {as};
}  // equals what was bound before
inline pattern::Splat splat(double number) {
  return {number};
}  // every element is `number`
inline pattern::SplatAny splat(double* out) {
  return {out};
}  // every element is equal
inline pattern::Constant constant(Value* out) {
  return {out};
}
template <class Inner>
pattern::OneUse<Inner> one_use(Inner inner) {
  return {inner};
}
// A value that op `name` computes, whose operands match in order.
template <class... Operands>
pattern::Op<false, Operands...> match_op(std::string_view name, Operands... operands) {
  return {name, nullptr, {operands...}};
}
// The same; also captures the node, for its attributes.
template <class... Operands>
pattern::Op<false, Operands...> match_op(Node* out, std::string_view name, Operands... operands) {
  return {name, out, {operands...}};
}
// Two operands in either order.
template <class A, class B>
pattern::Op<true, A, B> match_commutative(std::string_view name, A a, B b) {
  return {name, nullptr, {a, b}};
}
template <class Pattern>
bool match(const Node& node, const Pattern& pattern) {
  return pattern.node(node);
}

}  // namespace tenon::inline sdk

#endif
