#include "compose.h"

namespace tenon::passes {
namespace {

constexpr tenon_str_t kStatistics[] = {str("divided"), str("multiplied"), str("scaled"),
                                       str("shifted"), str("regrouped")};

// The operand of a mean over the trailing dims from `lead` on; invalid for anything else.
Value mean_of(Value v, const Dims& full, size_t* lead) {
  const Node mean = v.node();
  if (!mean.is("mean")) return Value();
  const std::vector<int64_t> dims = mean.i64s("dims");
  if (dims.empty() || mean.operand(0).dims() != full) return Value();
  *lead = full.size() - dims.size();
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] != static_cast<int64_t>(*lead + i)) return Value();
  }
  return mean.operand(0);
}

// Finds the first mean below element-wise ops and broadcasts, and returns where its reduced dims
// begin.
std::optional<size_t> lead_below(Value v, const Dims& full) {
  for (int steps = 0; steps < 8; ++steps) {
    size_t lead = 0;
    if (mean_of(v, full, &lead).valid()) return lead;
    const Node n = v.node();
    const bool passes =
        n.is("broadcast") || n.is("reshape") || n.is("sqrt") || n.is("rsqrt") || n.is("reciprocal");
    if (passes) {
      v = n.operand(0);
    } else if (n.is("add")) {
      v = n.operand(splat_of(n.operand(0)) ? 1 : 0);
    } else if (n.is("div") && splat_of(n.operand(0))) {
      v = n.operand(1);
    } else {
      return {};
    }
  }
  return {};
}

struct Norm {
  Value x;
  double epsilon = 0;
  size_t lead = 0;
  bool centred = false;  // layer_norm, else rms_norm
};

// Matches distance / sqrt(mean(distance^2) + epsilon); `root` is the operand of the square root.
std::optional<Norm> read_norm(Value distance, Value root, size_t lead) {
  const Dims full = distance.dims();
  const Node add = below_spread(root, full, lead).node();
  if (!add.is("add")) return {};
  for (uint32_t i = 0; i < 2; ++i) {
    const auto epsilon = splat_of(add.operand(i));
    size_t at = 0;
    const Value squares = mean_of(below_spread(add.operand(1 - i), full, lead), full, &at);
    if (!epsilon || *epsilon < 0 || !squares.valid() || at != lead) continue;
    if (!product_of(squares).is(1, {distance, distance}, distance.dtype())) return {};
    Norm norm{distance, *epsilon, lead, false};
    const Node sub = distance.node();
    if (sub.is("sub") &&
        mean_of(below_spread(sub.operand(1), full, lead), full, &at) == sub.operand(0) &&
        at == lead) {
      norm.x = sub.operand(0);
      norm.centred = true;
    }
    return norm;
  }
  return {};
}

Status build(Builder& builder, const std::optional<Norm>& norm, std::vector<Value>* out) {
  if (!norm || !is_float(norm->x.dtype())) return {};
  *out = {builder.build(norm->centred ? "layer_norm" : "rms_norm", {norm->x},
                        {{"dim", norm->lead}, {"epsilon", norm->epsilon}})};
  return {};
}

// Ends: each application removes one quotient.
Status divided(Builder& builder, const Node& node, std::vector<Value>* out) {
  const Value distance = node.operand(0);
  const auto lead = lead_below(node.operand(1), distance.dims());
  if (!lead) return {};
  const Node sqrt = below_spread(node.operand(1), distance.dims(), *lead).node();
  return sqrt.is("sqrt") ? build(builder, read_norm(distance, sqrt.operand(0), *lead), out)
                         : Status();
}

// Ends: each application removes one product.
Status multiplied(Builder& builder, const Node& node, std::vector<Value>* out) {
  for (uint32_t i = 0; i < 2; ++i) {
    const Value distance = node.operand(1 - i);
    const auto lead = lead_below(node.operand(i), distance.dims());
    if (!lead) continue;
    const Node factor = below_spread(node.operand(i), distance.dims(), *lead).node();
    Value root;
    if (factor.is("rsqrt")) {
      root = factor.operand(0);
    } else if (factor.is("reciprocal") ||
               (factor.is("div") && splat_of(factor.operand(0)) == 1.0)) {
      const Node sqrt =
          below_spread(factor.operand(factor.operand_count() - 1), distance.dims(), *lead).node();
      root = sqrt.is("sqrt") ? sqrt.operand(0) : Value();
    }
    if (root.valid()) return build(builder, read_norm(distance, root, *lead), out);
  }
  return {};
}

// ---- Norms over groups of channels, dim 1 ----

// The operand of a broadcast along all dims but the channels, as a vector; invalid if there is
// none.
Value channels_of(Builder& builder, Value v, const Dims& full) {
  const Value none(v.graph(), TENON_NONE);
  const Node spread = v.node();
  if (!spread.is("broadcast") || v.dims() != full || full.size() < 2) return none;
  const Value inner = spread.operand(0);
  const Dims dims = inner.dims();
  std::vector<int64_t> places = spread.i64s("dims");
  if (places.empty()) {
    for (size_t i = 0; i < dims.size(); ++i)
      places.push_back(static_cast<int64_t>(full.size() - dims.size() + i));
  }
  bool found = false;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (places[i] != 1 && !dims[i].is(1)) return none;
    found |= places[i] == 1 && dims[i] == full[1];
  }
  if (!found) return none;
  return dims.size() == 1 ? inner : builder.build("reshape", {inner}, {{"shape", Dims{full[1]}}});
}

// How many groups of whole channels of x are each one row of a norm over `rows`; 0: they are not.
int64_t groups_of(const Dims& x, const Dims& rows, size_t lead) {
  if (x.size() < 3 || !x[1].is_constant()) return 0;
  int64_t groups = 0;
  if (lead == 2 && rows[0] == x[0] && rows[1].is_constant()) groups = rows[1].constant();
  if (lead == 1 && x[0].is_constant() && rows[0].is_constant() && x[0].constant() > 0 &&
      rows[0].constant() % x[0].constant() == 0)
    groups = rows[0].constant() / x[0].constant();
  return groups > 0 && x[1].constant() % groups == 0 ? groups : 0;
}

// One number per group as one per channel; `number` for all if there is no value.
Value per_channel(Builder& builder, Value v, const Value& x, int64_t groups, double number) {
  const Dim channels = x.dims()[1];
  if (v.valid()) {
    const auto same = splat_of(v);
    if (!same) {
      const Dims wide = {builder.dim(groups), builder.dim(channels.constant() / groups)};
      const int64_t first[] = {0};
      return builder.build("reshape", {builder.broadcast(v, wide, first)},
                           {{"shape", Dims{channels}}});
    }
    number = *same;
  }
  return builder.full(x.dtype(), {channels}, number);
}

// A norm of every row of a reshape, shaped back, is a norm over groups of channels. Its formula
// keeps channels and points apart, so it can run in any memory order. Ends: each application
// removes one reshape of a norm.
Status regrouped(Builder& builder, const Node& node, std::vector<Value>* out) {
  const Node norm = node.operand(0).node();
  const bool layer = norm.is("layer_norm") && !norm.operand(1).valid() && !norm.operand(2).valid();
  const bool rows = layer || (norm.is("group_norm") && norm.i64("dim") == 1);
  if (!rows || node.operand(0).use_count() != 1) return {};
  const Node split = norm.operand(0).node();
  if (!split.is("reshape")) return {};
  const Value x = split.operand(0);
  const Dims dims = norm.operand(0).dims();
  const size_t lead = layer ? static_cast<size_t>(norm.i64("dim")) : 2;
  const int64_t groups = x.dims() == node.result().dims() ? groups_of(x.dims(), dims, lead) : 0;
  if (groups == 0 || (!layer && norm.i64("groups") != groups)) return {};
  const Value none(x.graph(), TENON_NONE);
  *out = {builder.build("group_norm",
                        {x, per_channel(builder, layer ? none : norm.operand(1), x, groups, 1),
                         per_channel(builder, layer ? none : norm.operand(2), x, groups, 0)},
                        {{"dim", 1}, {"epsilon", norm.f64("epsilon")}, {"groups", groups}})};
  return {};
}

// Whether v is made of constants, none of which is further from 0 than `limit`.
bool is_within(Value v, double limit) {
  for (Node n = v.node(); n && (n.is("broadcast") || n.is("reshape")); n = v.node())
    v = n.operand(0);
  const tenon_value_view_t view = v.view();
  if (view.kind != TENON_VALUE_CONSTANT || !is_float(view.type.dtype)) return false;
  const auto bytes = blob_bytes(view.blob);
  const size_t width = dtype_bytes(view.type.dtype);
  for (size_t at = 0; at + width <= bytes.size(); at += width) {
    if (!(std::abs(load_double(view.type.dtype, &bytes[at])) <= limit)) return false;
  }
  return true;
}

// Whether a factor may join those of the norm: their product is then no larger than the factor, so
// it does not overflow where the norm is 0.
bool takes_factor(const Node& norm) {
  return is_within(norm.operand(1), 1) && is_within(norm.operand(2), 0);
}

// A factor or a term per channel joins the norm. Ends: one large node fewer.
Status attach_channels(Builder& builder, const Node& node, uint32_t place,
                       std::vector<Value>* out) {
  for (uint32_t i = 0; i < 2; ++i) {
    const Node norm = node.operand(i).node();
    if (!norm.is("group_norm") || norm.i64("dim") != 1 || node.operand(i).use_count() != 1)
      continue;
    if (place == 1 && !takes_factor(norm)) continue;
    const Value given = channels_of(builder, node.operand(1 - i), node.operand(i).dims());
    if (!given.valid() || given.dtype() != norm.operand(1).dtype()) continue;
    const Value scale =
        place == 1 ? builder.build("mul", {norm.operand(1), given}) : norm.operand(1);
    const Value bias =
        place == 1 ? norm.operand(2) : builder.build("add", {norm.operand(2), given});
    const std::vector<Attr> attrs = {
        {"dim", 1}, {"epsilon", norm.f64("epsilon")}, {"groups", norm.i64("groups")}};
    const std::vector<Value> operands = {norm.operand(0), scale, bias};
    *out = {builder.build_node(norm.op(), operands, attrs).result()};
    return {};
  }
  return {};
}

// Rebuilds the norm with one more operand. Ends: one node fewer.
Status attach(Builder& builder, const Node& node, uint32_t place, std::vector<Value>* out) {
  for (uint32_t i = 0; i < 2; ++i) {
    const Node norm = node.operand(i).node();
    const bool layer = norm.is("layer_norm"), rms = norm.is("rms_norm") && place == 1;
    if ((!layer && !rms) || node.operand(i).use_count() != 1) continue;
    if (norm.operand(place).valid() || norm.operand(2).valid()) continue;
    const Value given = trailing_of(builder, node.operand(1 - i), node.operand(i).dims(),
                                    static_cast<size_t>(norm.i64("dim")));
    if (!given.valid() || given.dtype() != norm.operand(0).dtype()) continue;
    std::vector<Value> operands = {norm.operand(0), place == 1 ? given : norm.operand(1)};
    if (place == 2) operands.push_back(given);
    const std::vector<Attr> attrs = {{"dim", norm.i64("dim")}, {"epsilon", norm.f64("epsilon")}};
    *out = {builder.build_node(norm.op(), operands, attrs).result()};
    return {};
  }
  return attach_channels(builder, node, place, out);
}
Status scaled(Builder& builder, const Node& node, std::vector<Value>* out) {
  return attach(builder, node, 1, out);
}
Status shifted(Builder& builder, const Node& node, std::vector<Value>* out) {
  return attach(builder, node, 2, out);
}

constexpr tenon_rewrite_t kRewrites[] = {
    rewrite<divided>("divided", "div"), rewrite<multiplied>("multiplied", "mul"),
    rewrite<scaled>("scaled", "mul"), rewrite<shifted>("shifted", "add"),
    rewrite<regrouped>("regrouped", "reshape")};

constexpr std::string_view kBefore = R"(tenon.tir 1
graph @g(%x: f32[2, 4], %s: f32[4], %b: f32[4], %c: f32[3, 4, 2], %p: f32[2]) -> (y: f32[2, 4], z: f32[2, 4], u: f32[3, 4, 2]) {
  %0 = const f32[2] splat 0.125
  %1 = mean(%x) {dims = [1]} : f32[2]
  %2 = broadcast(%1) {shape = dims [2, 4], dims = [0]} : f32[2, 4]
  %3 = sub(%x, %2) : f32[2, 4]
  %4 = mul(%3, %3) : f32[2, 4]
  %5 = mean(%4) {dims = [1]} : f32[2]
  %6 = add(%5, %0) : f32[2]
  %7 = sqrt(%6) : f32[2]
  %8 = broadcast(%7) {shape = dims [2, 4], dims = [0]} : f32[2, 4]
  %9 = div(%3, %8) : f32[2, 4]
  %10 = broadcast(%s) {shape = dims [2, 4]} : f32[2, 4]
  %11 = mul(%9, %10) : f32[2, 4]
  %12 = broadcast(%b) {shape = dims [2, 4]} : f32[2, 4]
  %13 = add(%11, %12) : f32[2, 4]
  %14 = mul(%x, %x) : f32[2, 4]
  %15 = mean(%14) {dims = [1]} : f32[2]
  %16 = add(%15, %0) : f32[2]
  %17 = rsqrt(%16) : f32[2]
  %18 = broadcast(%17) {shape = dims [2, 4], dims = [0]} : f32[2, 4]
  %19 = mul(%x, %18) : f32[2, 4]
  %20 = reshape(%c) {shape = dims [3, 2, 4]} : f32[3, 2, 4]
  %21 = group_norm(%20, %p, %p) {epsilon = 0.125, groups = 2} : f32[3, 2, 4]
  %22 = reshape(%21) {shape = dims [3, 4, 2]} : f32[3, 4, 2]
  yield %13, %19, %22
}
)";
constexpr std::string_view kAfter = R"(tenon.tir 1
graph @g(%x: f32[2, 4], %s: f32[4], %b: f32[4], %c: f32[3, 4, 2], %p: f32[2]) -> (y: f32[2, 4], z: f32[2, 4], u: f32[3, 4, 2]) {
  %0 = layer_norm(%x, %s, %b) {dim = 1, epsilon = 0.125} : f32[2, 4]
  %1 = rms_norm(%x) {dim = 1, epsilon = 0.125} : f32[2, 4]
  %2 = broadcast(%p) {dims = [0], shape = dims [2, 2]} : f32[2, 2]
  %3 = reshape(%2) {shape = dims [4]} : f32[4]
  %4 = broadcast(%p) {dims = [0], shape = dims [2, 2]} : f32[2, 2]
  %5 = reshape(%4) {shape = dims [4]} : f32[4]
  %6 = group_norm(%c, %3, %5) {epsilon = 0.125, groups = 2} : f32[3, 4, 2]
  yield %0, %1, %6
}
)";

constexpr auto kPass =
    pass("compose-norms",
         "Recognises layer_norm, rms_norm and group_norm that exporters decomposed.")
        .describe(
            "A difference from a mean over the last dims, divided by the root of the "
            "mean of its squares, becomes layer_norm; without the difference, "
            "rms_norm. A scale and a shift along the last dims become its operands. A norm of rows "
            "between two reshapes, where a row is some whole channels, becomes group_norm; a "
            "factor per channel joins a constant scale of at most 1, and a term the shift.")
        .example(kBefore, kAfter)
        .statistics(kStatistics)
        .rewrites(kRewrites);

}  // namespace
}  // namespace tenon::passes

TENON_PASS(compose_norms, tenon::passes::kPass)
