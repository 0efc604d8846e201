// Shared by the passes that recognise composites: factoring of products, reductions traced through
// the reshapes and broadcasts that restore their shape, comparison of numbers up to an element
// type's precision.
#pragma once
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <vector>

#include "common.h"

namespace tenon::passes {

// Equal up to the element type's precision: exporters round numbers like 1/sqrt(2) to it.
inline bool is_about(double value, double wanted, tenon_dtype_t type) {
  const double unit = type == TENON_F64   ? 0x1p-52
                      : type == TENON_F32 ? 0x1p-23
                      : type == TENON_F16 ? 0x1p-10
                                          : 0x1p-7;
  return std::abs(value - wanted) <= 4 * unit * std::abs(wanted);
}

// A number times values, from mul, div by a number, and whole powers up to 3.
struct Product {
  double number = 1;
  std::vector<Value> values;  // sorted

  bool is(double wanted, std::vector<Value> others, tenon_dtype_t type) const {
    std::sort(others.begin(), others.end(), [](Value a, Value b) { return a.id() < b.id(); });
    return is_about(number, wanted, type) && values == others;
  }
};

inline void collect_product(Value v, int depth, Product* out) {
  const Node node = v.node();
  const auto keep = [&](int times) {
    out->values.insert(out->values.end(), static_cast<size_t>(times), node.operand(0));
  };
  if (const auto number = splat_of(v)) {
    out->number *= *number;
  } else if (depth > 0 && node.is("mul")) {
    collect_product(node.operand(0), depth - 1, out);
    collect_product(node.operand(1), depth - 1, out);
  } else if (const auto by = node.is("div") ? splat_of(node.operand(1)) : std::nullopt;
             depth > 0 && by && *by != 0) {
    collect_product(node.operand(0), depth - 1, out);
    out->number /= *by;
  } else if (node.is("square")) {
    keep(2);
  } else if (const auto power = node.is("pow") ? splat_of(node.operand(1)) : std::nullopt;
             power && (*power == 2 || *power == 3)) {
    keep(static_cast<int>(*power));
  } else {
    out->values.push_back(v);
  }
}
inline Product product_of(Value v) {
  Product out;
  collect_product(v, 4, &out);
  std::sort(out.values.begin(), out.values.end(), [](Value a, Value b) { return a.id() < b.id(); });
  return out;
}

// The other operand of a node with two operands, one of which is about `number` everywhere; invalid
// otherwise.
inline Value other_than(const Node& node, double number) {
  for (uint32_t i = 0; i < 2 && node.operand_count() == 2; ++i) {
    const auto found = splat_of(node.operand(i));
    if (found && is_about(*found, number, node.operand(i).dtype())) return node.operand(1 - i);
  }
  return Value(node.graph(), TENON_NONE);
}

// 0, 1, ... count - 1.
inline std::vector<int64_t> count_up(size_t count) {
  std::vector<int64_t> out(count);
  std::iota(out.begin(), out.end(), int64_t{0});
  return out;
}

// The value before the ops that restore its reduced dims, where the trailing dims of `full` from
// `lead` on were reduced: directly, or through dims of 1.
inline Value below_spread(Value v, const Dims& full, size_t lead) {
  const Dims reduced(full.begin(), full.begin() + static_cast<std::ptrdiff_t>(lead));
  Dims kept = reduced;
  while (kept.size() < full.size()) kept.push_back(Dim(v.graph(), 1));
  for (Node n = v.node(); n; n = v.node()) {
    const Value inner = n.operand(0);
    const bool reshapes = n.is("reshape") && v.dims() == kept && inner.dims() == reduced;
    const std::vector<int64_t> places = n.is("broadcast") ? n.i64s("dims") : std::vector<int64_t>();
    const bool widens = n.is("broadcast") && v.dims() == full && inner.dims() == kept &&
                        (places.empty() || places == count_up(full.size()));
    const bool places_back = n.is("broadcast") && inner.dims() == reduced &&
                             (v.dims() == full || v.dims() == kept) && !places.empty() &&
                             places == count_up(lead);
    if (!reshapes && !widens && !places_back) break;
    v = inner;
  }
  return v;
}

// The operand of a broadcast along leading dims, with exactly the dims of `full` from `lead` on;
// reshaped when it has leading dims of 1. Invalid if there is none.
inline Value trailing_of(Builder& builder, Value v, const Dims& full, size_t lead) {
  const Dims wanted(full.begin() + static_cast<std::ptrdiff_t>(lead), full.end());
  const Value none(v.graph(), TENON_NONE);
  if (lead == 0) return v.dims() == wanted ? v : none;
  const Node n = v.node();
  if (!n.is("broadcast") || !n.i64s("dims").empty()) return none;
  const Value inner = n.operand(0);
  const Dims dims = inner.dims();
  if (dims == wanted) return inner;
  if (dims.size() < wanted.size() || !std::equal(wanted.rbegin(), wanted.rend(), dims.rbegin()))
    return none;
  for (size_t i = 0; i + wanted.size() < dims.size(); ++i) {
    if (!dims[i].is(1)) return none;
  }
  return builder.build("reshape", {inner}, {{"shape", wanted}});
}

}  // namespace tenon::passes
