// nll_loss and softmax_cross_entropy: losses of predictions against classes.
#include "compose.h"
#include "derivative.h"

namespace tenon::ops::loss {

// x [batch, classes, ...], target [batch, ...], weight [classes]
Status check(const InferQuery& q) {
  if (q.rank(1) + 1 != q.rank(0))
    return q.fail("C1", cat("target has rank ", q.rank(1), ", x has rank ", q.rank(0)));
  for (uint32_t i = 0; i < q.rank(1); ++i) {
    TENON_TRY(q.require_equal("C1", q.dim(1, i), q.dim(0, i == 0 ? 0 : i + 1),
                              cat("dim ", i, " of target and of x")));
  }
  if (q.has(2)) TENON_TRY(q.require_equal("C2", q.dim(2, 0), q.dim(0, 1), "weights and classes"));
  return {};
}
Dims loss_dims(const InferQuery& q) {
  return q.text("reduction") == "none" ? q.dims(1) : Dims{};
}
Status infer_nll(const InferQuery& q) {
  TENON_TRY(check(q));
  return q.result(q.dtype(0), loss_dims(q));
}
Status infer_entropy(const InferQuery& q) {
  TENON_TRY(check(q));
  TENON_TRY(q.result(q.dtype(0), loss_dims(q)));
  return q.result(q.dtype(0), q.dims(0));
}

Term loss_of(Builder& b, const Node& node, Term x) {
  const Term target = as({b, node.operand(1)}, TENON_I64);
  const Value given = node.operand(2);
  const std::string reduction = node.text("reduction");
  const Term ignored =
      compare(target, TENON_CMP_EQ,
              Term{b, b.splat(b.scalar_int(TENON_I64, node.i64("ignore")), target.dims())});
  const Term safe = where(ignored, 0, target);
  const Term picked = {
      b, b.build("take_along", {x.v, insert_dim(safe, 1).v}, {{"dim", 1}, {"mode", "in_bounds"}})};
  const Term one = constant(b, x.dtype(), 1);
  Term weight = given ? take({b, b.convert(given, x.dtype())}, safe, 0, "in_bounds")
                      : Term{b, b.splat(one, target.dims())};
  weight = where(ignored, 0, weight);
  const Term loss = where(ignored, 0, -(reshape(picked, target.dims()) * weight));
  if (reduction == "none") return loss;
  const Axes all = range(0, loss.rank());
  const Term sum = reduced("reduce_sum", loss, all);
  return reduction == "sum" ? sum : sum / reduced("reduce_sum", weight, all);
}
Status decompose_nll(Builder& b, const Node& node, tenon_value_t* out) {
  const tenon_dtype_t type = node.result().dtype();
  return b.finish(out, {as(loss_of(b, node, {b, widen(b, node.operand(0))}), type)});
}
Status decompose_entropy(Builder& b, const Node& node, tenon_value_t* out) {
  const tenon_dtype_t type = node.result().dtype();
  const Term x = {b, widen(b, node.operand(0))};
  const Term logs = {b, b.build("log_softmax", {x.v}, {{"dim", 1}})};
  return b.finish(out, {as(loss_of(b, node, logs), type), as(logs, type)});
}

// ---- Derivatives ----

// The losses as a sum over classes, which needs neither gather nor scatter: with m = 1 at the class
// of a target that counts, loss = -sum of m * x * weight, divided by the sum of m * weight if it is
// the mean.
struct Losses {
  Builder& b;
  const Node& node;
  Term x, chosen;  // chosen: m, as pred
  Axes all;
  std::string reduction;
  Losses(Builder& builder, const Node& node, Term x)
      : b(builder), node(node), x(x), reduction(node.text("reduction")) {
    const Term target = as({b, node.operand(1)}, TENON_I64);
    const Axes places = others(x.rank(), Axes{1});
    const Term named = broadcast(target, x.dims(), places);
    const Term ignored = {b, b.splat(b.scalar_int(TENON_I64, node.i64("ignore")), x.dims())};
    chosen =
        compare(iota(b, x.dims(), 1), TENON_CMP_EQ, named) & compare(named, TENON_CMP_NE, ignored);
    all = range(0, x.rank());
  }
  Term picked(Term v) const { return where(chosen, v, 0); }
  // A vector with an entry per class, at all targets.
  Term per_class(Value v) const {
    return picked(v ? broadcast(as({b, v}, x.dtype()), x.dims(), {1}) : x.same(1));
  }
  Term summed(Term v) const {
    return reduced("reduce_sum", v, reduction == "none" ? Axes{1} : all);
  }
  // From the tangents of x and of the weights. The loss has no tangent if both are invalid.
  Value jvp(Term tangent, Value weight_tangent) const {
    const Term weight = per_class(node.operand(2));
    Term sum;
    if (tangent.v) sum = -summed(weight * tangent);
    if (weight_tangent) {
      const Term own = per_class(weight_tangent), more = -summed(picked(x) * own);
      sum = sum.v ? sum + more : more;
      // The quotient s / w: (s' - loss * w') / w.
      if (reduction == "mean") sum = sum - as({b, node.result()}, x.dtype()) * summed(own);
    }
    if (!sum.v) return {};
    if (reduction == "mean") sum = sum / summed(weight);
    return b.convert(sum, node.result().dtype());
  }
};
std::vector<Value> jvp_nll(Builder& b, const Node& node, std::span<const Value> tangents) {
  const Losses losses(b, node, {b, widen(b, node.operand(0))});
  const Term t = tangents[0] ? Term{b, widen(b, tangents[0])} : Term{};
  return {losses.jvp(t, tangents.size() > 2 ? tangents[2] : Value())};
}
// That of the logarithms, t - sum of t * exp(logs), then as nll_loss.
std::vector<Value> jvp_entropy(Builder& b, const Node& node, std::span<const Value> tangents) {
  const Term logs = {b, widen(b, node.result(1))};
  Term t;
  if (tangents[0]) {
    const Term given = {b, widen(b, tangents[0])};
    t = given - spread(reduced("reduce_sum", given * exp(logs), {1}), logs, {1});
  }
  return {Losses(b, node, logs).jvp(t, tangents.size() > 2 ? tangents[2] : Value()),
          t.v ? b.convert(t, node.result(1).dtype()) : Value()};
}

// Loops over the targets; `log_sum` per target when x is not yet normalised.
Status evaluate(const Eval& e, bool normalise) {
  const Array x = e.input(0), target = e.input(1), y = e.output();
  const std::string_view reduction = e.text("reduction");
  std::vector<double> losses;
  double sum = 0, total = 0;
  Status status;
  each_index(target.dims(), [&](const Index& i) {
    const int64_t t = load_int(target.dtype(), target.at(i));
    Index at = i;
    at.insert(at.begin() + 1, 0);
    const auto value = [&](int64_t c) {
      at[1] = c;
      return load_double(x.dtype(), x.at(at));
    };
    double log_sum = 0;
    if (normalise) {
      double top = -std::numeric_limits<double>::infinity();
      for (int64_t c = 0; c < x.dim(1); ++c) top = max_of(top, value(c));
      for (int64_t c = 0; c < x.dim(1); ++c) log_sum += std::exp(value(c) - top);
      log_sum = std::log(log_sum) + top;
      for (int64_t c = 0; c < x.dim(1); ++c) {
        const double log_p = value(c) - log_sum;
        store_double(x.dtype(), e.output(1).at(at), log_p);
      }
    }
    if (t == e.i64("ignore")) return losses.push_back(0);
    if (t < 0 || t >= x.dim(1)) {
      status = fail(TENON_OUT_OF_RANGE, cat("The class ", t, " is not one of ", x.dim(1), "."));
      return;
    }
    const double weight = e.has(2) ? load_double(e.input(2).dtype(), e.input(2).at({&t, 1})) : 1;
    losses.push_back(-(value(t) - log_sum) * weight);
    sum += losses.back();
    total += weight;
  });
  TENON_TRY(status);
  if (reduction == "none") {
    y.write(losses);
  } else {
    store_double(y.dtype(), y.at({}), reduction == "sum" ? sum : sum / total);
  }
  return {};
}
Status reference_nll(const Eval& e) {
  return evaluate(e, false);
}
Status reference_entropy(const Eval& e) {
  return evaluate(e, true);
}

constexpr OpDraft base(std::string_view name, std::string_view summary, std::string_view x) {
  OpDraft draft = op(name, kComposite);
  draft.summary(summary)
      .doc(
          "With reduction mean, the sum of the losses is divided by the sum of their weights. A "
          "class that x has not is an error when it runs.")
      .operand("x", x, kFloat, 1, 2)
      .operand("target", "[batch, ...]: the class of each", kIndex, 0, 1)
      .optional("weight", "[classes]: the weight of each class; absent: 1", kFloat, 1, 1, 1)
      .result("loss", "the dims of target, or rank 0 when reduced")
      .attr_string("reduction", "how losses are put together", "mean", "none|sum|mean")
      .attr_i64("ignore", "a class without loss and weight", INT64_MIN)
      .cost(TENON_COST_REDUCTION)
      .tolerance(8);
  return draft;
}
constexpr OpDraft nll_loss() {
  return base("nll_loss", "The negative logarithm of the probability of each class.",
              "[batch, classes, ...]: logarithms of probabilities")
      .constraint("C1", "target has the dims of x without the classes",
                  "nll_loss(f32[2, 3], i64[3])")
      .constraint("C2", "there is one weight per class", "nll_loss(f32[2, 3], i64[2], f32[2])")
      .example("nll_loss(f32[2, 2] [[-1, -2], [-3, -4]], i64[2] [1, 0]) -> f32[] 2.5")
      .example(
          "nll_loss(f32[2, 2] [[-1, -2], [-3, -4]], i64[2] [1, 0], f32[2] [1, 10]) {ignore = 0, "
          "reduction = \"none\"} -> f32[2] [20, 0]")
      .infer<infer_nll>()
      .reference<reference_nll>()
      .decompose<decompose_nll>()
      .jvp<jvp_nll>();
}
constexpr OpDraft softmax_cross_entropy() {
  return base("softmax_cross_entropy",
              "nll_loss of log_softmax over the classes, and that log_softmax.",
              "[batch, classes, ...]: scores")
      .result("logs", "log_softmax of x over dim 1")
      .constraint("C1", "target has the dims of x without the classes",
                  "softmax_cross_entropy(f32[2, 3], i64[3])")
      .constraint("C2", "there is one weight per class",
                  "softmax_cross_entropy(f32[2, 3], i64[2], f32[2])")
      .example(
          "softmax_cross_entropy(f32[1, 2] [[3, 3]], i64[1] [1]) {reduction = \"sum\"} -> f32[] "
          "0.6931472, f32[1, 2] [[-0.6931472, -0.6931472]]")
      .infer<infer_entropy>()
      .reference<reference_entropy>()
      .decompose<decompose_entropy>()
      .jvp<jvp_entropy>();
}

TENON_OPS(loss, nll_loss, softmax_cross_entropy)

}  // namespace tenon::ops::loss
