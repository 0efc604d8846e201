#include "quantised_factor.h"

namespace tenon::passes {
namespace {

constexpr tenon_str_t kStatistics[] = {str("products"), str("convolutions")};

// Sums of products of two differences of bytes stay in i32 up to this many terms.
constexpr int64_t kTermsMax = INT32_MAX / (255 * 255);

// Adds a feature of zeros if the number of features is odd, because devices multiply integers in
// pairs. A single feature is not padded.
Value with_even(Builder& b, Value v, int64_t feature) {
  const Dims dims = v.dims();
  const Dim count = dims[static_cast<size_t>(feature)];
  if (!count.is_constant() || count.constant() % 2 == 0 || count.constant() == 1) return v;
  std::vector<int64_t> low(dims.size(), 0), high(dims.size(), 0);
  high[static_cast<size_t>(feature)] = 1;
  return b.build("pad", {v, b.scalar_int(v.dtype(), 0)}, {{"low", low}, {"high", high}});
}

// For each dim of the two factors of a product, the dim of the result; -1: none.
struct Roles {
  std::vector<int64_t> of_a, of_b;
  int64_t terms = 0;  // of each sum; above kTermsMax: unknown or too many; 0: not supported
  int64_t a_feature = -1, b_feature = -1;  // of a convolution
};

bool read_dims(std::vector<int64_t>* dims, const std::vector<int64_t>& places) {
  for (int64_t& d : *dims) d = places[static_cast<size_t>(d)];
  return std::find(dims->begin(), dims->end(), -1) == dims->end() &&
         std::is_sorted(dims->begin(), dims->end());
}

// One number, or numbers that differ along some dims of `shape`, broadcast to it.
Value spread(Builder& b, Value numbers, const Dims& shape, const std::vector<int64_t>& dims) {
  return dims.empty() ? b.splat(numbers, shape) : b.broadcast(numbers, shape, dims);
}

// The product of both scales, broadcast to `shape`. It is multiplied before the broadcast where one
// of them is a single number.
Value factor_of(Builder& b, const Scale& x, const Scale& y, const Dims& shape) {
  Value left = narrow(b, x), right = narrow(b, y);
  if (!x.dims.empty() && !y.dims.empty()) {
    left = b.broadcast(left, shape, x.dims);
    right = b.broadcast(right, shape, y.dims);
    return b.build("mul", {left, right});
  }
  const Scale& wide = x.dims.empty() ? y : x;
  const Dims inner = (x.dims.empty() ? right : left).dims();
  if (x.dims.empty()) left = b.splat(left, inner);
  if (y.dims.empty()) right = b.splat(right, inner);
  const Value both = b.build("mul", {left, right});
  return spread(b, both, shape, wide.dims);
}

int64_t role(const Node& node, std::string_view attr, size_t i) {
  const std::vector<int64_t> dims = node.i64s(attr);
  return dims.empty() ? static_cast<int64_t>(i) : dims[i];
}

std::vector<Attr> attrs_of(const Node& node, tenon_dtype_t result) {
  std::vector<Attr> out = attributes_of(node, {"acc", "dtype"});
  out.push_back({"dtype", dtype(result)});
  return out;
}

// The dims of the result that a factor keeps, in the order of the factor.
std::vector<int64_t> kept(std::vector<int64_t> places) {
  std::erase_if(places, [](int64_t place) { return place < 0; });
  return places;
}

// The sums of one factor over the contracted dims, broadcast to the shape of the result.
Value sums_of_dot(Builder& b, const Node& node, const Roles& roles, Value factor, bool is_a) {
  const std::string_view contract = is_a ? "a_contract" : "b_contract";
  const Value sums =
      b.build("reduce_sum", {b.convert(factor, TENON_I32)}, {{"dims", node.i64s(contract)}});
  return b.broadcast(b.convert(sums, TENON_F32), node.result().dims(),
                     kept(is_a ? roles.of_a : roles.of_b));
}

// The same for a convolution: sums over the features, then over the windows.
Value sums_of_windows(Builder& b, const Node& node, const Roles& roles, Value x) {
  const std::vector<int64_t> features = {roles.a_feature};
  const Value sums = b.build("reduce_sum", {b.convert(x, TENON_I32)}, {{"dims", features}});
  Dims one = x.dims(), window = node.operand(1).dims();
  one[static_cast<size_t>(roles.a_feature)] = b.dim(1);
  for (const size_t i : {size_t{0}, size_t{1}})
    window[static_cast<size_t>(role(node, "w_dims", i))] = b.dim(1);
  const std::vector<Value> operands = {
      b.build("reshape", {b.convert(sums, TENON_F32)}, {{"shape", one}}),
      b.full(TENON_F32, window, 1)};
  const Value added = b.build_node("conv", operands, attrs_of(node, TENON_F32)).result();
  return b.broadcast(added, node.result().dims(), count_up(one.size()));
}

// Subtracts from the sums a zero point that q's type may not hold:
// sum x (q - zero) = sum x q - zero sum x. `sums`: the sums of x.
Value without_offset(Builder& b, Value real, Value sums, const Scale& offset) {
  const Value zero = spread(b, narrow(b, offset), real.dims(), offset.dims);
  return b.build("sub", {real, b.build("mul", {zero, sums})});
}

// Whether a factor keeps its dims in the order of the result.
bool in_order(const std::vector<int64_t>& places) {
  const std::vector<int64_t> dims = kept(places);
  return std::is_sorted(dims.begin(), dims.end());
}

// Maps the dims of scales to those of the result. False where the product has to stay in f32: the
// sums could overflow i32, a scale differs along a dim that is summed over, or both zero points are
// unknown. Also where both factors are computed: devices multiply bytes fast only if one factor,
// such as weights, is known early and laid out once.
bool fit(const Node& node, const Roles& roles, Factor* x, Factor* y) {
  const bool conv = node.is("conv");
  if (roles.terms < 1 || roles.terms > kTermsMax || (x->q.node() && y->q.node())) return false;
  if (x->offset.inner.valid() && (y->offset.inner.valid() || conv || !in_order(roles.of_b)))
    return false;
  if (y->offset.inner.valid() && !conv && !in_order(roles.of_a)) return false;
  return read_dims(&x->scale.dims, roles.of_a) && read_dims(&y->scale.dims, roles.of_b) &&
         read_dims(&x->offset.dims, roles.of_a) && read_dims(&y->offset.dims, roles.of_b);
}

// The sum of products as real numbers, without the scales.
Value product(Builder& b, const Node& node, const Roles& roles, const Factor& x, const Factor& y,
              Node* sum) {
  const bool conv = node.is("conv");
  const bool as_bytes = !x.zero.valid() && !y.zero.valid() && x.q.dtype() == y.q.dtype();
  std::vector<Value> sides = {as_bytes ? moved(b, x.q, x) : difference(b, x),
                              as_bytes ? moved(b, y.q, y) : difference(b, y)};
  const std::vector<Value> plain = sides;
  if (conv) {
    sides[0] = with_even(b, sides[0], roles.a_feature);
    sides[1] = with_even(b, sides[1], roles.b_feature);
  }
  *sum = b.build_node(node.op(), sides, attrs_of(node, TENON_I32));
  Value real = b.convert(sum->result(), TENON_F32);
  if (x.offset.inner.valid())
    real = without_offset(b, real, sums_of_dot(b, node, roles, plain[1], false), x.offset);
  if (y.offset.inner.valid()) {
    const Value sums = conv ? sums_of_windows(b, node, roles, plain[0])
                            : sums_of_dot(b, node, roles, plain[0], true);
    real = without_offset(b, real, sums, y.offset);
  }
  return real;
}

// ---- Products and convolutions ----

int64_t times(int64_t terms, Dim size) {
  if (!size.is_constant() || terms > kTermsMax || size.constant() > kTermsMax) return kTermsMax + 1;
  return terms * size.constant();
}

Roles roles_of_dot(const Node& node) {
  Roles out;
  int64_t next = 0;
  for (int side = 0; side < 2; ++side) {
    std::vector<int64_t>& places = side == 0 ? out.of_a : out.of_b;
    const std::vector<int64_t> batch = node.i64s(side == 0 ? "a_batch" : "b_batch"),
                               contracted = node.i64s(side == 0 ? "a_contract" : "b_contract");
    const Dims dims = node.operand(static_cast<uint32_t>(side)).dims();
    places.assign(dims.size(), -2);
    for (const int64_t d : contracted) places[static_cast<size_t>(d)] = -1;
    for (size_t i = 0; i < batch.size(); ++i)
      places[static_cast<size_t>(batch[i])] = static_cast<int64_t>(i);
    if (side == 0) next = static_cast<int64_t>(batch.size());
    for (int64_t& p : places) {
      if (p == -2) p = next++;
    }
    out.terms = 1;
    for (const int64_t d : contracted) out.terms = times(out.terms, dims[static_cast<size_t>(d)]);
  }
  return out;
}

// Only the batch and the out features may have scales of their own.
Roles roles_of_conv(const Node& node) {
  Roles out;
  if (node.i64("groups") != 1 || node.i64("batch_groups") != 1) return out;
  const Dims window = node.operand(1).dims();
  out.of_a.assign(window.size(), -1);
  out.of_b.assign(window.size(), -1);
  out.of_a[static_cast<size_t>(role(node, "x_dims", 0))] = role(node, "out_dims", 0);
  out.of_b[static_cast<size_t>(role(node, "w_dims", 0))] = role(node, "out_dims", 1);
  out.a_feature = role(node, "x_dims", 1);
  out.b_feature = role(node, "w_dims", 1);
  out.terms = 1;
  for (size_t i = 1; i < window.size(); ++i)
    out.terms = times(out.terms, window[static_cast<size_t>(role(node, "w_dims", i))]);
  return out;
}

struct Candidate {
  Node node;
  Factor x, y;
  bool was_claimed = false;
  Node sum;    // the product of integers, once it is built
  Value made;  // the replacement of the result
};

void candidates(Region region, const PassContext& context, std::vector<Candidate>* out) {
  for (const tenon_node_t id : region.node_ids()) {
    const Node node(region.graph(), id);
    const tenon_node_view_t view = node.view();
    const std::vector<tenon_region_t> inner(view.regions, view.regions + view.region_count);
    for (const tenon_region_t r : inner) candidates(Region(region.graph(), r), context, out);
    if (!node.is("dot_general") && !node.is("conv")) continue;
    if (node.result().dtype() != TENON_F32) continue;
    const auto x = read_factor(node.operand(0));
    const auto y = x ? read_factor(node.operand(1)) : std::nullopt;
    if (y) out->push_back({.node = node, .x = *x, .y = *y, .was_claimed = context.claimed(node)});
  }
}

Status make(Candidate* c) {
  const Roles roles = c->node.is("conv") ? roles_of_conv(c->node) : roles_of_dot(c->node);
  if (!fit(c->node, roles, &c->x, &c->y)) return {};
  Builder b = Builder::before(c->node);
  const Value real = product(b, c->node, roles, c->x, c->y, &c->sum);
  if (b.status().ok())
    c->made = b.build("mul", {real, factor_of(b, c->x.scale, c->y.scale, real.dims())});
  return b.status();
}

// Erases the nodes that computed the factor of a product, unless something else uses them.
Status erase_unused(Value factor) {
  const Node node = factor.node();
  if (!node || factor.use_count() > 0 || node.result_count() > 1 || !is_removable(op_of(node)))
    return {};
  const std::vector<Value> operands = node.operands();
  TENON_TRY(erase(node));
  for (const Value operand : operands) TENON_TRY(erase_unused(operand));
  return {};
}

// Asks the devices which nodes they take twice, before all products of integers are built and after
// that, because asking for each product would be slow. If a device takes a product only in floats,
// it stays in floats, and dce removes the product of integers.
Status run(tenon_graph_t* graph, const PassContext& context) {
  std::vector<Candidate> found;
  candidates(main_region(graph), context, &found);
  for (Candidate& c : found) {
    TENON_TRY(make(&c));
  }
  for (Candidate& c : found) {
    if (c.made.valid() && c.was_claimed && !context.claimed(c.sum)) c.made = Value();
  }
  for (const Candidate& c : found) {
    if (!c.made.valid()) continue;
    context.count(c.node.is("conv") ? "convolutions" : "products");
    TENON_TRY(replace(c.node.result(), c.made));
    const std::vector<Value> factors = c.node.operands();
    TENON_TRY(erase(c.node));
    for (const Value factor : factors) TENON_TRY(erase_unused(factor));
  }
  return {};
}

constexpr std::string_view kBefore = R"(tenon.tir 1
graph @g(%x: u8[4, 8], %w: i8[2, 8]) -> (y: f32[4, 2]) {
  %0 = const f32[4, 8] splat 128
  %1 = const f32[4, 8] splat 0.5
  %2 = const f32[2] [0.25, 0.125]
  %3 = convert(%x) {dtype = f32} : f32[4, 8]
  %4 = sub(%3, %0) : f32[4, 8]
  %5 = mul(%4, %1) : f32[4, 8]
  %6 = convert(%w) {dtype = f32} : f32[2, 8]
  %7 = broadcast(%2) {dims = [0], shape = dims [2, 8]} : f32[2, 8]
  %8 = mul(%6, %7) : f32[2, 8]
  %9 = dot_general(%5, %8) {a_contract = [1], b_contract = [1]} : f32[4, 2]
  yield %9
}
)";
constexpr std::string_view kAfter = R"(tenon.tir 1
graph @g(%x: u8[4, 8], %w: i8[2, 8]) -> (y: f32[4, 2]) {
  %0 = const f32[2] [0.25, 0.125]
  %1 = const i16[] [128]
  %2 = const f32[] [0.5]
  %3 = convert(%x) {dtype = i16} : i16[4, 8]
  %4 = broadcast(%1) {shape = dims [4, 8]} : i16[4, 8]
  %5 = sub(%3, %4) : i16[4, 8]
  %6 = convert(%w) {dtype = i16} : i16[2, 8]
  %7 = dot_general(%5, %6) {a_contract = [1], b_contract = [1], dtype = i32} : i32[4, 2]
  %8 = convert(%7) {dtype = f32} : f32[4, 2]
  %9 = broadcast(%2) {shape = dims [2]} : f32[2]
  %10 = mul(%9, %0) : f32[2]
  %11 = broadcast(%10) {dims = [1], shape = dims [4, 2]} : f32[4, 2]
  %12 = mul(%8, %11) : f32[4, 2]
  yield %12
}
)";

constexpr auto kPass =
    pass("compose-quantised", "Multiplies quantised numbers as integers.")
        .describe(
            "A product or a convolution of two values (q - zero) scale, where q has 8 bits, "
            "becomes a product of integers, which is exact, and one multiplication by both scales. "
            "Scales may differ along dims that are not summed over. Nothing changes where a scale "
            "differs along a dim that is summed over, where a sum could overflow i32, or where "
            "both values are computed.")
        .example(kBefore, kAfter)
        .statistics(kStatistics)
        .run<run>();

}  // namespace
}  // namespace tenon::passes

TENON_PASS(compose_quantised, tenon::passes::kPass)
