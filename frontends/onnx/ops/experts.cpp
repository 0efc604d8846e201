// Mixtures of experts: MoE with weights of floats, QMoE with weights of 2, 4 or 8 bits (ADR 0048).
#include <algorithm>
#include <array>
#include <optional>

#include "frontends/onnx/ops/fused.h"
#include "frontends/onnx/ops/quantise/quantise.h"

namespace tenon::onnx {
namespace {

// Each expert is some twenty nodes.
constexpr int64_t kMaxExperts = 4096;

// One of the products of an expert: x times weights [experts, rows, columns], and a bias.
struct Projection {
  size_t weights = kNone, scale = kNone, bias = kNone, zero = kNone;
  int64_t bits = 0;  // of a weight; 0: weights are floats
  int64_t rows = 0, columns = 0;
};

// What the node says, checked.
struct Experts {
  int64_t count = 0, chosen = 1, block = 0;  // block 0: one scale for each row of weights
  int64_t hidden = 0, inner = 0, fusion = 0;
  std::string_view activation;
  double alpha = 1, beta = 0;
  std::optional<double> limit;
  Projection first, second, third;  // third: of gates in their own weights, else without operand
};

// ---- One expert's part of an operand ----

// Elements e of the first dim of operand i, without it: a range of a constant's bytes if it is one.
Value part_of(NodeContext& n, size_t i, int64_t e) {
  const Item& all = n.item(i);
  const Constant* constant = all.constant();
  if (constant == nullptr || held_type(constant->dtype) != constant->dtype) {
    Dims start(all.dims().size(), n.dim(0)), limit = all.dims();
    start[0] = n.dim(e);
    limit[0] = n.dim(e + 1);
    const Dims rest(all.dims().begin() + 1, all.dims().end());
    const Value x = n.value(i);
    return x.valid() ? n.reshape(n.build("slice", {x}, {{"start", start}, {"limit", limit}}), rest)
                     : x;
  }
  const std::vector<int64_t> dims(constant->dims.begin() + 1, constant->dims.end());
  const uint64_t bytes =
      blob_bytes(constant->blob.get()).size() / static_cast<uint64_t>(constant->dims[0]);
  tenon_blob_t* raw = nullptr;
  const tenon_host_graph_t& api = graph_api();
  if (api.blob_range(api.self, constant->blob.get(), static_cast<uint64_t>(e) * bytes, bytes,
                     &raw) != TENON_OK)
    return refuse(n, host_failure(nullptr), "T0715");
  const Blob part(raw);
  return n.builder().constant(constant->dtype, dims, part.get());
}

// Zero points [rows, blocks] as bytes; invalid if there are none.
Value zeros_of(NodeContext& n, const Experts& x, const Projection& p, int64_t e) {
  if (!n.has(p.zero)) return Value();
  const Value packed = part_of(n, p.zero, e);
  if (x.block > 0) return first_columns(n, narrow_numbers(n, packed, p.bits), p.columns / x.block);
  const Value row = n.reshape(packed, {n.dim(1), n.product(packed.dims())});
  return n.reshape(first_columns(n, narrow_numbers(n, row, p.bits), p.rows),
                   {n.dim(p.rows), n.dim(1)});
}

// Narrow weights as real numbers [rows, columns], where matmul_nbits does not take them.
Value widened(NodeContext& n, const Projection& p, Value packed, Value scales, Value zeros,
              int64_t group) {
  const Value q =
      n.convert(first_columns(n, narrow_numbers(n, packed, p.bits), p.columns), scales.dtype());
  if (!q.valid()) return q;
  const Dims shape = q.dims();
  const Along blocks = {.axis = 1, .block = group};
  const Value zero = zeros.valid()
                         ? spread(n, n.convert(zeros, q.dtype()), shape, blocks)
                         : n.full_like(q, static_cast<double>(int64_t{1} << (p.bits - 1)));
  return n.build("mul", {n.build("sub", {q, zero}), spread(n, scales, shape, blocks)});
}

Value narrow_product(NodeContext& n, const Experts& x, const Projection& p, int64_t e, Value rows) {
  const int64_t group = x.block > 0 ? x.block : p.columns;
  const Value packed = part_of(n, p.weights, e);
  Value scales = n.convert(part_of(n, p.scale, e), rows.dtype());
  if (scales.valid()) scales = n.reshape(scales, {n.dim(p.rows), n.dim(p.columns / group)});
  const Value zeros = zeros_of(n, x, p, e);
  if (!n.ok() || !packed.valid() || !scales.valid()) return Value();
  if (p.bits == 2 || group % 2 != 0)
    return n.build("linear", {rows, widened(n, p, packed, scales, zeros, group)},
                   {{"transpose_w", 1}});
  std::vector<Value> operands = {rows, packed, scales};
  if (zeros.valid()) operands.push_back(zeros);
  return n.build("matmul_nbits", operands, {{"bits", p.bits}, {"group", group}});
}

Value projected(NodeContext& n, const Experts& x, const Projection& p, int64_t e, Value rows) {
  const Value y = p.bits > 0
                      ? narrow_product(n, x, p, e, rows)
                      : n.build("linear", {rows, part_of(n, p.weights, e)}, {{"transpose_w", 1}});
  if (!n.has(p.bias) || !y.valid()) return y;
  return n.build("add", {y, n.broadcast_to(n.convert(part_of(n, p.bias, e), y.dtype()), y.dims())});
}

// ---- An expert ----

// Half of the features of y: every second one, or those of one side.
Value half(NodeContext& n, const Experts& x, Value y, int64_t which) {
  if (!y.valid()) return y;
  const Dim rows = y.dims()[0], one = n.dim(1), inner = n.dim(x.inner);
  const Dims shape = x.fusion == 1 ? Dims{rows, inner, n.dim(2)} : Dims{rows, n.dim(2), inner};
  const size_t split = x.fusion == 1 ? 2 : 1;
  Dims start(3, n.dim(0)), limit = shape;
  start[split] = n.dim(which);
  limit[split] = start[split] + one;
  return n.reshape(n.build("slice", {n.reshape(y, shape)}, {{"start", start}, {"limit", limit}}),
                   {rows, inner});
}

// g sigmoid(alpha g) (l + beta), with g and l within the limit.
Value gated(NodeContext& n, const Experts& x, Value g, Value l) {
  if (!g.valid() || !l.valid()) return Value();
  if (x.limit) {
    g = n.build("min", {g, n.full_like(g, *x.limit)});
    l = n.build("clamp", {l}, {{"min", -*x.limit}, {"max", *x.limit}});
  }
  const Value gate = n.build("mul", {g, n.build("logistic", {scaled(n, g, x.alpha)})});
  return n.build("mul", {gate, x.beta == 0 ? l : n.build("add", {l, n.full_like(l, x.beta)})});
}

Value activated(NodeContext& n, const Experts& x, int64_t e, Value rows) {
  const Value y = projected(n, x, x.first, e, rows);
  if (x.activation == "swiglu" && x.fusion > 0)
    return gated(n, x, half(n, x, y, 0), half(n, x, y, 1));
  const Value other = n.has(x.third.weights) ? projected(n, x, x.third, e, rows) : Value();
  if (x.activation == "swiglu") return gated(n, x, y, other);
  const std::string_view op = x.activation == "gelu" ? "gelu_tanh" : x.activation;
  const Value out = op == "identity" ? y : n.build(op, {y});
  return other.valid() ? n.build("mul", {out, other}) : out;
}

// ---- Which tokens go where ----

struct Routing {
  Value weights;  // [tokens, experts], 0 where a token did not choose an expert
  Value chosen;   // pred [tokens, experts]
};

// Weights are the softmax over the chosen logits of QMoE, over all logits of MoE, or those given.
Value chosen_weights(NodeContext& n, bool of_all, size_t given, Value values, Value places) {
  if (n.has(given))
    return n.build("take_along", {n.value(given), places}, {{"dim", 1}, {"mode", "in_bounds"}});
  if (!of_all) return n.build("softmax", {values}, {{"dim", 1}});
  const Value all = n.build("softmax", {n.value(1)}, {{"dim", 1}});
  return n.build("take_along", {all, places}, {{"dim", 1}, {"mode", "in_bounds"}});
}

Routing route(NodeContext& n, const Experts& x, bool of_all, size_t given) {
  const std::vector<Value> logits = {n.value(1)};
  const Dims k = {n.dim(x.chosen)};
  const std::vector<Attr> attrs = {Attr("k", k), Attr("dim", int64_t{1})};
  const Node top = n.builder().build_node("top_k", logits, attrs);
  const Value places = top.result(1);
  Value w = chosen_weights(n, of_all, given, top.result(0), places);
  if (!n.ok() || !w.valid() || !places.valid()) return {};
  if (n.integer("normalize_routing_weights", 0) != 0) {
    const Value sum = n.build("reduce_sum", {w}, {{"dims", {1}}});
    w = n.build("div", {w, n.build("broadcast", {sum}, {{"shape", w.dims()}, {"dims", {0}}})});
  }
  const Dims cube = {places.dims()[0], n.dim(x.chosen), n.dim(x.count)};
  const auto cubed = [&](Value v) {
    return n.build("broadcast", {v}, {{"shape", cube}, {"dims", {0, 1}}});
  };
  const Value expert = n.build("iota", std::vector<Value>(),
                               {{"shape", cube}, {"dim", 2}, {"dtype", dtype(places.dtype())}});
  const Value here = n.build("compare", {cubed(places), expert}, {{"direction", 0}});
  const Value spread_w = cubed(w);
  if (!spread_w.valid()) return {};
  const Value kept = n.build("select", {here, spread_w, n.full_like(spread_w, 0)});
  return {n.build("reduce_sum", {kept}, {{"dims", {1}}}),
          n.build("reduce_or", {here}, {{"dims", {1}}})};
}

// Column e, [tokens].
Value column(NodeContext& n, Value x, int64_t e) {
  if (!x.valid()) return x;
  const Dim tokens = x.dims()[0];
  return n.reshape(
      n.build("slice", {x},
              {{"start", Dims{n.dim(0), n.dim(e)}}, {"limit", Dims{tokens, n.dim(e + 1)}}}),
      {tokens});
}

// What expert e adds to `sum` [tokens, hidden], in the region of the tokens that chose it.
Value with_expert(NodeContext& n, const Experts& x, int64_t e, Value tokens, Value weight,
                  Value chosen, Value sum) {
  const bool one = tokens.dims()[0].is(1);
  Value at, rows = tokens, factor = weight;
  if (!one) {
    const Value places = n.build("nonzero", {chosen});
    if (!places.valid()) return places;
    at = n.reshape(places, {places.dims()[1]});
    rows = n.build("take", {tokens, at}, {{"dim", 0}, {"mode", "in_bounds"}});
    factor = n.build("take", {weight, at}, {{"dim", 0}, {"mode", "in_bounds"}});
  }
  const Value y = projected(n, x, x.second, e, activated(n, x, e, rows));
  if (!y.valid() || !factor.valid()) return Value();
  const Value part =
      n.build("mul", {y, n.build("broadcast", {factor}, {{"shape", y.dims()}, {"dims", {0}}})});
  if (one) return n.build("add", {sum, part});
  return n.build("scatter", {sum, at, part},
                 {{"kind", "add"},
                  {"window_dims", {1}},
                  {"inserted_dims", {0}},
                  {"index_map", {0}},
                  {"mode", "in_bounds"}});
}

// `sum` with expert e, if a token chose it.
Value maybe_with_expert(NodeContext& n, const Experts& x, int64_t e, const Routing& to,
                        Value tokens, Value sum) {
  const Value weight = column(n, to.weights, e), chosen = column(n, to.chosen, e);
  const Value any = chosen.valid() ? n.build("reduce_or", {chosen}, {{"dims", {0}}}) : Value();
  if (!n.ok() || !any.valid() || !sum.valid()) return Value();
  const GraphProto empty;
  const auto no_inputs = [](std::vector<Item>*) { return true; };
  std::vector<Region> regions(2);
  const auto as_it_is = [&](std::vector<Value>* out) {
    out->push_back(sum);
    return n.ok();
  };
  const auto added = [&](std::vector<Value>* out) {
    out->push_back(with_expert(n, x, e, tokens, weight, chosen, sum));
    return n.ok();
  };
  if (!n.region(empty, no_inputs, as_it_is, &regions[0]) ||
      !n.region(empty, no_inputs, added, &regions[1]))
    return Value();
  const Value operands[] = {any};
  return n.builder().build_node("switch", operands, {}, regions).result(0);
}

bool import_experts(NodeContext& n, const Experts& x, bool of_all, size_t given) {
  const Dims shape = n.dims(0);
  const Dim count = n.product(std::span(shape).first(shape.size() - 1));
  const Value tokens = n.reshape(n.value(0), {count, shape.back()});
  const Routing to = route(n, x, of_all, given);
  if (!n.ok() || !tokens.valid()) return n.ok();
  Value sum = n.full_like(tokens, 0);
  for (int64_t e = 0; e < x.count && n.ok(); ++e) {
    sum = maybe_with_expert(n, x, e, to, tokens, sum);
    if (!sum.valid()) return n.ok();
  }
  return n.set(0, n.reshape(sum, shape));
}

// ---- Checks ----

bool known_dims(NodeContext& n, size_t i, size_t rank, std::string_view what) {
  if (n.rank(i) != static_cast<int64_t>(rank))
    return n.fail("T0713", cat(what, " need rank ", rank, ", and have ", n.rank(i)));
  for (const Dim d : n.dims(i)) {
    if (!d.is_constant()) return n.fail("T0713", cat(what, " need a known shape"));
  }
  return n.ok();
}

bool has_shape(NodeContext& n, size_t i, std::initializer_list<int64_t> shape,
               std::string_view what) {
  if (!n.has(i)) return n.ok();
  if (!known_dims(n, i, shape.size(), what)) return false;
  const Dims& dims = n.dims(i);
  size_t d = 0;
  for (const int64_t size : shape) {
    if (!dims[d++].is(size))
      return n.fail("T0713", cat(what, " have ", dims[d - 1].constant(), " along dim ", d - 1,
                                 ", and need ", size));
  }
  return n.ok();
}

// Operand i has the element type of the input, if it is there.
bool has_input_type(NodeContext& n, size_t i, std::string_view what) {
  if (!n.has(i) || n.dtype(i) == n.dtype(0)) return n.ok();
  return n.fail("T0710", cat(what, " have element type ", dtype_name(n.dtype(i)),
                             ", and need that of its input, ", dtype_name(n.dtype(0))));
}

// Its operands fit rows and columns, which are known.
bool check_projection(NodeContext& n, const Experts& x, const Projection& p, int64_t which) {
  const std::string name = cat("fc", which, "'s ");
  if (!n.has(p.weights)) return n.fail("T0709", cat(name, "weights are missing"));
  const int64_t bits = p.bits;
  if (bits > 0 && p.columns * bits % 8 != 0)
    return n.fail("T0713", cat(name, "weights do not fill whole bytes"));
  if (!has_shape(n, p.weights, {x.count, p.rows, bits > 0 ? p.columns * bits / 8 : p.columns},
                 name + "weights") ||
      !has_shape(n, p.bias, {x.count, p.rows}, name + "biases") ||
      !has_input_type(n, p.bias, name + "biases"))
    return false;
  if (bits == 0) return has_input_type(n, p.weights, name + "weights");
  if (n.dtype(p.weights) != TENON_U8)
    return n.fail("T0710", cat(name, "weights have element type ", dtype_name(n.dtype(p.weights)),
                               ", and need u8"));
  if (n.has(p.zero) && n.dtype(p.zero) != TENON_U8)
    return n.fail("T0710", cat(name, "zero points need element type u8"));
  if (!check_scale(n, p.scale, ScaleUse::kDequantise)) return false;
  const auto bytes = [&](int64_t numbers) { return (numbers * bits + 7) / 8; };
  if (x.block == 0)
    return has_shape(n, p.scale, {x.count, p.rows}, name + "scales") &&
           has_shape(n, p.zero, {x.count, bytes(p.rows)}, name + "zero points");
  if (p.columns % x.block != 0)
    return n.fail("T0713", cat("blocks of ", x.block, " do not divide the ", p.columns,
                               " columns of ", name, "weights"));
  const int64_t blocks = p.columns / x.block;
  return has_shape(n, p.scale, {x.count, p.rows, blocks}, name + "scales") &&
         has_shape(n, p.zero, {x.count, p.rows, bytes(blocks)}, name + "zero points");
}

bool read_activation(NodeContext& n, Experts* x) {
  static constexpr std::string_view kKnown[] = {"relu", "gelu", "silu", "swiglu", "identity"};
  x->activation = n.text("activation_type", "relu");
  x->alpha = n.number("activation_alpha", 1);
  x->beta = n.number("activation_beta", 0);
  x->fusion = n.integer("swiglu_fusion", 0);
  if (n.has_attribute("swiglu_limit")) x->limit = n.number("swiglu_limit", 0);
  if (std::ranges::find(kKnown, x->activation) == std::end(kKnown))
    return n.fail("T0714", cat("the activation ", quote(x->activation), " is not supported"));
  if (x->fusion < 0 || x->fusion > 2)
    return n.fail("T0708", cat("attribute 'swiglu_fusion' is ", x->fusion, ", and must be 0 to 2"));
  if (x->limit && !(*x->limit >= 0))
    return n.fail("T0708", "attribute 'swiglu_limit' must not be negative");
  if (x->activation != "swiglu") x->fusion = 0;
  if (x->activation == "swiglu" && (x->fusion == 0) != n.has(x->third.weights))
    return n.fail("T0709", "swiglu needs its second half once: in fc3, or fused into fc1");
  return n.ok();
}

// Sizes, from the shapes of the input, the router and the weights.
bool read_sizes(NodeContext& n, Experts* x) {
  if (!is_float(n.dtype(0)))
    return n.fail("T0710", cat("its input has element type ", dtype_name(n.dtype(0)),
                               ", and needs one of floats"));
  if (!has_input_type(n, 1, "its router's numbers")) return false;
  if (n.rank(0) != 2 && n.rank(0) != 3) return n.fail("T0713", "its input needs rank 2 or 3");
  if (n.rank(1) != 2 || !known_dims(n, x->first.weights, 3, "its weights"))
    return n.fail("T0713", "its router's numbers need rank 2");
  const Dims& w = n.dims(x->first.weights);
  x->count = w[0].constant();
  x->chosen = n.integer("k", 1);
  if (x->count < 1 || x->count > kMaxExperts)
    return n.fail("T0714",
                  cat("it has ", x->count, " experts; 1 to ", kMaxExperts, " are supported"));
  if (x->chosen < 1 || x->chosen > x->count)
    return n.fail("T0708",
                  cat("attribute 'k' is ", x->chosen, ", and there are ", x->count, " experts"));
  if (!n.dims(0).back().is_constant()) return n.fail("T0713", "its input needs known features");
  x->hidden = n.dims(0).back().constant();
  const int64_t fused = x->fusion > 0 ? 2 : 1;
  x->inner = w[1].constant() / fused;
  if (x->inner < 1 || x->hidden < 1 || w[1].constant() % fused != 0)
    return n.fail("T0713", "the rows of fc1's weights do not fit its activation");
  x->first.rows = w[1].constant();
  x->first.columns = x->third.columns = x->second.rows = x->hidden;
  x->third.rows = x->second.columns = x->inner;
  const Dims& input = n.dims(0);
  return n.require_equal(n.dims(1)[0], n.product(std::span(input).first(input.size() - 1)),
                         "the tokens of its input and of its router") &&
         n.require_equal(n.dims(1)[1], n.dim(x->count), "the numbers of its router and of experts");
}

bool read_experts(NodeContext& n, Experts* x) {
  if (n.integer("use_sparse_mixer", 0) != 0)
    return n.fail("T0714", "the sparse mixer is not supported");
  if (!read_activation(n, x) || !read_sizes(n, x)) return false;
  return check_projection(n, *x, x->first, 1) && check_projection(n, *x, x->second, 2) &&
         (!n.has(x->third.weights) || check_projection(n, *x, x->third, 3));
}

bool moe(NodeContext& n) {
  if (!n.arity(3, 8)) return false;
  Experts x;
  x.first = {.weights = 2, .bias = 3};
  x.second = {.weights = 4, .bias = 5};
  x.third = {.weights = 6, .bias = 7};
  return read_experts(n, &x) && import_experts(n, x, true, kNone);
}

bool read_bits(NodeContext& n, Experts* x) {
  const int64_t bits = n.integer("expert_weight_bits", 4);
  static constexpr std::string_view kNames[] = {"fc1_expert_weight_bits", "fc2_expert_weight_bits",
                                                "fc3_expert_weight_bits"};
  Projection* const all[] = {&x->first, &x->second, &x->third};
  for (size_t i = 0; i < std::size(all); ++i) {
    all[i]->bits = n.integer(kNames[i], bits);
    if (all[i]->bits != 2 && all[i]->bits != 4 && all[i]->bits != 8)
      return n.fail("T0714", cat("weights of ", all[i]->bits, " bits are not supported"));
  }
  x->block = n.integer("block_size", 0);
  if (n.has_attribute("block_size") && (x->block < 2 || x->block > 65536))
    return n.fail("T0708", cat("attribute 'block_size' is ", x->block, ", and must be 2 to 65536"));
  return n.ok();
}

bool qmoe(NodeContext& n) {
  if (!n.arity(3, 20)) return false;
  n.integer("accuracy_level", 0);  // products are exact in any case
  if (n.text("quant_type", "int") != "int")
    return n.fail("T0714", cat("weights of the kind ", quote(n.text("quant_type", "int")),
                               " are not supported; integers are"));
  if (n.integer("weights_prepacked", -1) == 1)
    return n.fail("T0714", "weights in an order of one device's own are not supported");
  for (size_t i = 15; i < 20; ++i) {
    if (n.has(i)) return n.fail("T0714", cat("its input ", i, " belongs to weights of floats"));
  }
  Experts x;
  x.first = {.weights = 2, .scale = 3, .bias = 4, .zero = 11};
  x.second = {.weights = 5, .scale = 6, .bias = 7, .zero = 12};
  x.third = {.weights = 8, .scale = 9, .bias = 10, .zero = 13};
  if (!read_bits(n, &x) || !read_experts(n, &x)) return false;
  if (n.has(14) &&
      (n.rank(14) != 2 ||
       !n.require_equal(n.dims(14)[0], n.dims(1)[0], "the tokens of its two routers") ||
       !n.require_equal(n.dims(14)[1], n.dim(x.count),
                        "the weights of its router and its experts")))
    return n.fail("T0713", "its router's weights need rank 2");
  if (!has_input_type(n, 14, "its router's weights")) return false;
  return import_experts(n, x, false, 14);
}

constexpr auto kTable = std::to_array<OpImporter>({
    {"MoE", 1, moe, kMicrosoft},
    {"QMoE", 1, qmoe, kMicrosoft},
});

}  // namespace

std::span<const OpImporter> expert_importers() {
  return kTable;
}

}  // namespace tenon::onnx
