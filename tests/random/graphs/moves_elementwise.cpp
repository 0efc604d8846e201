#include <algorithm>
#include <cmath>

#include "tests/random/graphs/fusion_moves.h"

namespace tenon::random_tests {
namespace {

using Names = std::vector<const char*>;

// Functions whose domain and slopes suit the values of x.
const Names& functions_of(GraphMaker& make, const Known& x) {
  static const Names kAny = {"neg",  "abs",    "relu", "tanh",  "logistic",   "sin",
                             "cos",  "square", "erf",  "silu",  "gelu",       "softplus",
                             "sign", "floor",  "ceil", "trunc", "round_even", "elu"};
  static const Names kSmall = {"exp",    "expm1", "neg",      "tanh",
                               "square", "sinh",  "softsign", "leaky_relu"};
  static const Names kPositive = {"sqrt", "log", "rsqrt", "reciprocal", "log1p"};
  static const Names kIntegers = {"neg", "abs", "not", "sign", "square", "popcount", "clz"};
  static const Names kPredicates = {"not"};
  if (x.dtype == TENON_PRED) return kPredicates;
  if (is_int(x.dtype)) return kIntegers;
  if (x.lowest > 0.01 && make.chance(2)) return kPositive;
  return std::max(-x.lowest, x.highest) < 8 && make.chance(3) ? kSmall : kAny;
}

const Names& combinations_of(GraphMaker& make, const Known& a, const Known& b) {
  static const Names kFloats = {"add", "add", "sub", "sub", "mul", "mul", "max", "min"};
  static const Names kMore = {"atan2", "rem", "hypot", "swiglu"};
  static const Names kIntegers = {"add", "sub", "mul", "max",       "min",
                                  "and", "or",  "xor", "floor_div", "floor_mod",
                                  "div", "rem", "shl", "shr_arith", "shr_logical"};
  static const Names kPredicates = {"and", "or", "xor"};
  static const Names kDivide = {"div"};
  if (a.dtype == TENON_PRED) return kPredicates;
  if (is_int(a.dtype)) return kIntegers;
  if ((b.lowest > 0.05 || b.highest < -0.05) && make.chance(3)) return kDivide;
  return make.chance(10) ? kMore : kFloats;
}

// A joint walk through two lists of dims: matching dims are joined or kept apart, so that sums end
// up along axes other than their own.
struct Meeting {
  Dims shape;
  std::vector<int64_t> a, b;  // places of the dims of each
};
Meeting meet(GraphMaker& make, const Dims& a, const Dims& b) {
  Meeting out;
  size_t i = 0, j = 0;
  while (i < a.size() || j < b.size()) {
    const auto place = static_cast<int64_t>(out.shape.size());
    const bool both = i < a.size() && j < b.size();
    const bool match = both && (a[i] == b[j] || a[i].is(1) || b[j].is(1));
    const bool together = match && !make.chance(5);
    const bool from_a = together || j == b.size() || (i < a.size() && make.chance(2));
    out.shape.push_back(together && a[i].is(1) ? b[j] : from_a ? a[i] : b[j]);
    if (from_a) out.a.push_back(place), ++i;
    if (together || !from_a) out.b.push_back(place), ++j;
  }
  return out;
}

// As in ONNX and NumPy, the last dims are joined. Empty if they do not match.
Meeting meet_at_end(const Dims& a, const Dims& b) {
  Meeting out;
  const size_t rank = std::max(a.size(), b.size());
  for (size_t d = 0; d < rank; ++d) {
    const bool in_a = d + a.size() >= rank, in_b = d + b.size() >= rank;
    const Dim from_a = in_a ? a[d + a.size() - rank] : Dim(1),
              from_b = in_b ? b[d + b.size() - rank] : Dim(1);
    if (!(from_a == from_b) && !from_a.is(1) && !from_b.is(1)) return {};
    out.shape.push_back(from_a.is(1) ? from_b : from_a);
    if (in_a) out.a.push_back(static_cast<int64_t>(d));
    if (in_b) out.b.push_back(static_cast<int64_t>(d));
  }
  return out;
}

}  // namespace

Known spread(GraphMaker& make, const Known& x, const Dims& shape, std::vector<int64_t> places) {
  if (x.rank() == shape.size() && std::equal(shape.begin(), shape.end(), x.dims.begin())) return x;
  bool last = true;
  for (size_t i = 0; i < places.size(); ++i) {
    last &= static_cast<size_t>(places[i]) == shape.size() - places.size() + i;
  }
  if (last) return make.build("broadcast", {x}, {{"shape", shape}});
  return make.build("broadcast", {x}, {{"shape", shape}, {"dims", make.keep(std::move(places))}});
}

std::pair<Known, Known> join(GraphMaker& make, const Known& a, const Known& b) {
  const bool scalars = a.rank() == 0 || b.rank() == 0;
  for (int tries = 0; tries < 4; ++tries) {
    Meeting both = tries < 2 || scalars ? meet_at_end(a.dims, b.dims) : Meeting();
    if (both.a.size() != a.rank() || both.b.size() != b.rank() || (!scalars && make.chance(3))) {
      both = meet(make, a.dims, b.dims);
    }
    if (both.shape.size() > 5 || !make.fits(both.shape)) continue;
    const Known wide = spread(make, a, both.shape, both.a);
    if (!wide.valid()) return {};
    return {wide, spread(make, b, both.shape, both.b)};
  }
  return {};
}

Known unary_of(GraphMaker& make, const Known& x) {
  if (is_float(x.dtype) && make.chance(16))
    return make.build("clamp", {x}, {{"min", -0.5}, {"max", 0.75}});
  const std::string_view op = make.pick(functions_of(make, x));
  return make.build(op, {x});
}

Known binary_of(GraphMaker& make, const Known& a, const Known& b) {
  if (!a.valid() || !b.valid()) return {};
  return make.build(make.pick(combinations_of(make, a, b)), {a, b});
}

namespace {

// A constant that can be combined with x: of rank 0, or with some of its last dims, as far as they
// are numbers.
Known constant_for(GraphMaker& make, const Known& x) {
  std::vector<int64_t> sizes;
  for (size_t d = x.rank(); d-- > 0 && x.dims[d].is_constant() && make.chance(2);) {
    sizes.insert(sizes.begin(), make.chance(4) ? 1 : x.dims[d].constant());
  }
  return make.constant(x.dtype, std::move(sizes));
}

}  // namespace

void unary(GraphMaker& make) {
  unary_of(make, make.take(kNumber | kPred));
}

void binary(GraphMaker& make) {
  const Known a = make.take(kNumber | kPred);
  const Known b = make.chance(6)   ? constant_for(make, a)
                  : make.chance(3) ? make.like(a.dtype, a.dims)
                                   : make.take(dtype_bit(a.dtype));
  const auto [left, right] = make.chance(2) ? join(make, a, b) : join(make, b, a);
  binary_of(make, left, right);
}

void chain(GraphMaker& make) {
  Known x = make.take(kFloat);
  for (int64_t i = 0, count = 2 + make.below(3); i < count && x.valid(); ++i) {
    x = make.chance(2) ? unary_of(make, x) : binary_of(make, x, make.like(x.dtype, x.dims));
  }
}

void where(GraphMaker& make) {
  const Known a = make.take(kNumber),
              b = make.chance(4) ? make.scalar(a.dtype) : make.take(dtype_bit(a.dtype));
  const auto [x, y] = join(make, a, b);
  if (!x.valid() || !y.valid()) return;
  const Known other = make.like(x.dtype, x.dims);
  Known condition =
      make.build("compare", {make.chance(2) ? x : y, other}, {{"direction", make.below(6)}});
  if (make.chance(4) || !condition.valid())
    condition = make.like(TENON_PRED, make.chance(3) ? Dims() : x.dims);
  make.build("select", {condition, x, y});
}

void cast(GraphMaker& make) {
  static const std::vector<tenon_dtype_t> kTo = {
      TENON_F32, TENON_F32, TENON_F16, TENON_F16, TENON_BF16, TENON_F64, TENON_I8,  TENON_I16,
      TENON_I32, TENON_I64, TENON_U8,  TENON_U16, TENON_U32,  TENON_U64, TENON_PRED};
  const Known x = make.take(kNumber | kPred);
  const tenon_dtype_t to = make.pick(kTo);
  if (to != x.dtype) make.build("convert", {x}, {{"dtype", DType{to}}});
}

}  // namespace tenon::random_tests
