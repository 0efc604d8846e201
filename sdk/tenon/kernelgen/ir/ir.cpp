#include "tenon/kernelgen/ir/ir.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "tenon/cpp/arithmetic.hpp"
#include "tenon/cpp/elements.hpp"
#include "tenon/cpp/instructions.hpp"
#include "tenon/cpp/likely_size.hpp"

namespace tenon::kernelgen {
namespace {

using arithmetic::floor_div;
using arithmetic::mix;

int64_t saturate(__int128 v) {
  if (v > INT64_MAX) return INT64_MAX;
  if (v < INT64_MIN) return INT64_MIN;
  return static_cast<int64_t>(v);
}

// As generated code computes an index: by 0 or less it gives 0.
int64_t index_div(int64_t a, int64_t b) {
  return b > 0 ? floor_div(a, b) : 0;
}

int64_t wrap_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t wrap_mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

bool commutes(uint16_t code) {
  switch (code) {
    case TENON_S_ADD:
    case TENON_S_MUL:
    case TENON_S_AND:
    case TENON_S_OR:
    case TENON_S_XOR:
      return true;
    default:
      return false;
  }
}

}  // namespace

bool is_float(DType t) {
  return elements::dtype_is_float(t);
}
bool is_integer(DType t) {
  return elements::dtype_is_integer(t);
}
bool is_signed(DType t) {
  return elements::dtype_is_signed(t) || is_float(t) || elements::dtype_is_complex(t);
}
int64_t Pool::likely(ExprId size) const {
  std::vector<int64_t> ext;
  for (const Extent& x : extents_) ext.push_back(sizes::likely_size(x.hint, x.lo, x.hi));
  return evaluate(size, ext);
}
bool Pool::is_guess(ExprId size) const {
  if (value(size)) return false;
  std::vector<int64_t> small, large;
  for (const Extent& x : extents_) {
    small.push_back(x.hint ? x.hint : std::max<int64_t>(x.lo, 1));
    large.push_back(x.hint ? x.hint : std::min<int64_t>(x.hi, 1 << 20));
  }
  return evaluate(size, small) != evaluate(size, large);
}

DType operand_type(DType acc, uint32_t steps, bool weights) {
  if (steps == 4) return weights ? DType{TENON_I8} : DType{TENON_U8};
  if (steps == 1) return acc;
  return acc == TENON_F32 ? DType{TENON_BF16} : DType{TENON_I16};
}

uint32_t size_of(DType t) {
  const uint32_t bytes = elements::dtype_bits(t) / 8;
  return elements::dtype_is_complex(t) || (is_float(t) && bytes == 1) ? 0 : bytes;
}
std::string_view name_of(DType t) {
  return elements::dtype_valid(t) ? elements::dtype_name(t) : "none";
}

std::string_view name_of_op(uint16_t op) {
  if (op == kFloorDiv) return "floordiv";
  if (op == kMod) return "mod";
  if (op == kRound) return "round";
  if (op == kMulPair) return "mul_pair";
  if (op == kMulAdd) return "mad";
  if (op == kExp2) return "exp2";
  const std::string_view name = instructions::name(op);
  return name.empty() ? "unknown" : name;
}

// ---- Polynomials: the normal form of i64 sums and products ----

namespace {

// Maps sorted atoms to their coefficient. The empty key is the constant term.
using Poly = std::map<std::vector<ExprId>, int64_t>;

bool is_index_op(const Pool& p, ExprId e, uint16_t code) {
  const Expr& x = p.at(e);
  return x.kind == X::kOp && x.op == code && x.type == TENON_I64;
}

void add_term(Poly* p, const std::vector<ExprId>& key, int64_t c) {
  int64_t& slot = (*p)[key];
  slot = wrap_add(slot, c);
  if (slot == 0) p->erase(key);
}

Poly poly_sum(const Poly& a, const Poly& b, int64_t scale) {
  Poly r = a;
  for (auto& [k, c] : b) add_term(&r, k, wrap_mul(c, scale));
  return r;
}

Poly poly_product(const Poly& a, const Poly& b) {
  Poly r;
  for (auto& [ka, ca] : a) {
    for (auto& [kb, cb] : b) {
      std::vector<ExprId> k = ka;
      k.insert(k.end(), kb.begin(), kb.end());
      std::sort(k.begin(), k.end());
      add_term(&r, k, wrap_mul(ca, cb));
    }
  }
  return r;
}

// Products of sums are multiplied out to at most this many terms with at most this many factors
// each; a larger product becomes an atom. A size has no more factors than a tensor has dims, but
// repeated squaring would double them each time.
constexpr size_t kMaxTerms = 24, kMaxFactors = 64;

size_t factors(const Poly& p) {
  size_t most = 0;
  for (const auto& [key, c] : p) most = std::max(most, key.size());
  return most;
}
bool multiplies_out(const Poly& a, const Poly& b) {
  return a.size() * b.size() <= kMaxTerms && factors(a) + factors(b) <= kMaxFactors;
}

Poly poly_of(const Pool& p, ExprId e) {
  if (auto v = p.value(e)) return *v == 0 ? Poly{} : Poly{{{}, *v}};
  if (is_index_op(p, e, TENON_S_ADD))
    return poly_sum(poly_of(p, p.arg(e, 0)), poly_of(p, p.arg(e, 1)), 1);
  if (is_index_op(p, e, TENON_S_SUB))
    return poly_sum(poly_of(p, p.arg(e, 0)), poly_of(p, p.arg(e, 1)), -1);
  if (is_index_op(p, e, TENON_S_NEG)) return poly_sum({}, poly_of(p, p.arg(e, 0)), -1);
  if (is_index_op(p, e, TENON_S_MUL) && !p.is_atom(e)) {
    Poly a = poly_of(p, p.arg(e, 0)), b = poly_of(p, p.arg(e, 1));
    if (multiplies_out(a, b)) return poly_product(a, b);
  }
  return Poly{{{e}, 1}};
}

// The single monomial of the divisor, or false.
bool monomial(const Poly& p, std::vector<ExprId>* atoms, int64_t* c) {
  if (p.size() != 1) return false;
  *atoms = p.begin()->first;
  *c = p.begin()->second;
  return *c > 0;
}

// a = q * divisor + r, term by term. The identity always holds; q takes the terms that divide
// exactly.
void divide_terms(const Poly& a, const std::vector<ExprId>& atoms, int64_t c, Poly* q, Poly* r) {
  for (auto& [k, v] : a) {
    if (std::includes(k.begin(), k.end(), atoms.begin(), atoms.end())) {
      std::vector<ExprId> rest;
      std::set_difference(k.begin(), k.end(), atoms.begin(), atoms.end(), std::back_inserter(rest));
      const int64_t quotient = floor_div(v, c);
      if (quotient != 0) add_term(q, rest, quotient);
      if (v - quotient * c != 0) add_term(r, k, v - quotient * c);
    } else {
      add_term(r, k, v);
    }
  }
}

}  // namespace

// ---- Pool ----

Pool::Pool() {
  exprs_.push_back(Expr{});
}

ExprId Pool::intern(Expr x, std::span<const ExprId> args) {
  uint64_t h = mix(static_cast<uint64_t>(x.kind) << 48 | uint64_t{x.type} << 32 | x.op, x.ref);
  h = mix(h, static_cast<uint64_t>(x.bits));
  for (ExprId a : args) h = mix(h, a);
  auto [it, last] = table_.equal_range(h);
  for (; it != last; ++it) {
    const Expr& y = exprs_[it->second];
    if (y.kind == x.kind && y.type == x.type && y.op == x.op && y.ref == x.ref &&
        y.bits == x.bits && y.args_count == args.size() &&
        std::equal(args.begin(), args.end(), args_.begin() + y.args_begin)) {
      return it->second;
    }
  }
  // `args` may lie inside args_, which grows here.
  std::vector<ExprId> copy(args.begin(), args.end());
  x.args_begin = static_cast<uint32_t>(args_.size());
  x.args_count = static_cast<uint32_t>(copy.size());
  args_.insert(args_.end(), copy.begin(), copy.end());
  const ExprId id = static_cast<ExprId>(exprs_.size());
  exprs_.push_back(x);
  table_.emplace(h, id);
  return id;
}

ExprId Pool::integer(int64_t v, DType type) {
  if (is_float(type)) return number(static_cast<double>(v), type);
  return intern({X::kConst, type, 0, 0, 0, 0, elements::wrap(type, v)}, {});
}

ExprId Pool::number(double v, DType type) {
  if (!is_float(type)) return integer(static_cast<int64_t>(v), type);
  if (type == TENON_F32) v = static_cast<float>(v);
  return intern({X::kConst, type, 0, 0, 0, 0, std::bit_cast<int64_t>(v)}, {});
}

uint32_t Pool::add_extent(Extent e) {
  extents_.push_back(e);
  return static_cast<uint32_t>(extents_.size() - 1);
}

ExprId Pool::extent(uint32_t ordinal) {
  return intern({X::kExtent, TENON_I64, 0, ordinal, 0, 0, 0}, {});
}

uint32_t Pool::add_axis(ExprId extent) {
  axes_.push_back({extent});
  return static_cast<uint32_t>(axes_.size() - 1);
}

ExprId Pool::axis(uint32_t id) {
  if (is_const(axes_[id].extent, 1)) return integer(0);
  return intern({X::kAxis, TENON_I64, 0, id, 0, 0, 0}, {});
}

ExprId Pool::state(uint32_t ordinal, DType type) {
  return intern({X::kState, type, 0, ordinal, 0, 0, 0}, {});
}

ExprId Pool::load(uint32_t buffer, DType type, std::span<const ExprId> index, ExprId guard,
                  ExprId other) {
  if (guard != kNone && is_const(guard, 1)) guard = kNone;
  if (guard != kNone && other == kNone) other = number(0, type);
  if (guard != kNone && is_const(guard, 0)) return other;
  if (guard == kNone) other = kNone;
  std::vector<ExprId> args{guard, other};
  args.insert(args.end(), index.begin(), index.end());
  return intern({X::kLoad, type, 0, buffer, 0, 0, 0}, args);
}

std::optional<int64_t> Pool::value(ExprId e) const {
  if (e == kNone || at(e).kind != X::kConst || is_float(at(e).type)) return std::nullopt;
  return at(e).bits;
}

double Pool::number_value(ExprId e) const {
  const Expr& x = at(e);
  if (is_float(x.type)) return std::bit_cast<double>(x.bits);
  return x.type == TENON_U64 ? static_cast<double>(static_cast<uint64_t>(x.bits))
                             : static_cast<double>(x.bits);
}

ExprId Pool::both(ExprId p, ExprId q) {
  if (p == kNone) return q;
  if (q == kNone) return p;
  return op(TENON_S_AND, {p, q});
}

// Whether an integer type holds all values of another one.
static bool holds(DType type, DType values) {
  if (!is_integer(type) || !is_integer(values)) return false;
  const bool is_signed = type == TENON_I16 || type == TENON_I32 || type == TENON_I64;
  const bool from_unsigned = values == TENON_U8 || values == TENON_U16 || values == TENON_U32;
  return size_of(type) > size_of(values) && (is_signed || from_unsigned);
}

ExprId Pool::convert(ExprId x, DType to, uint16_t code) {
  const DType from = type(x);
  if (from == to) return x;
  const Expr& e = at(x);
  if (e.kind == X::kConst && to != TENON_F16 && to != TENON_BF16) {
    if (is_float(to)) return number(number_value(x), to);
    if (!is_float(from) && to != TENON_PRED) return integer(e.bits, to);
  }
  // An integer that the type in between holds is converted once.
  if (e.kind == X::kOp && e.op == TENON_S_CONVERT && code == TENON_S_CONVERT &&
      holds(from, type(arg(x, 0))) && to != TENON_PRED)
    return convert(arg(x, 0), to);
  // Fused ops do not need an implicit rounding that is widened again (scalar.h: never less
  // precision).
  if (e.kind == X::kOp && e.op == kRound && type(arg(x, 0)) == to) return arg(x, 0);
  ExprId a[] = {x};
  return intern({X::kOp, to, code, 0, 0, 0, 0}, a);
}

ExprId Pool::op(uint16_t code, std::span<const ExprId> in, uint32_t ref) {
  std::vector<ExprId> args(in.begin(), in.end());
  // Printers cannot order predicates: in a vector mask true is all ones, which is less than false.
  if (code == TENON_S_CMP && type(args[0]) == TENON_PRED && ref >= TENON_CMP_LT) {
    const bool less = ref == TENON_CMP_LT || ref == TENON_CMP_LE;
    const size_t negated = less ? 0 : 1;
    ExprId flipped[] = {args[negated]};
    ExprId both[] = {op(TENON_S_NOT, flipped), args[1 - negated]};
    return op(ref == TENON_CMP_LT || ref == TENON_CMP_GT ? TENON_S_AND : TENON_S_OR, both);
  }
  if (commutes(code) && args[0] > args[1]) std::swap(args[0], args[1]);
  if (ExprId e = simplify(code, args, ref)) return e;
  DType t = type(args[0]);
  if (code == TENON_S_CMP || code == TENON_S_IS_NAN) t = TENON_PRED;
  if (code == TENON_S_SELECT) t = type(args[1]);
  const ExprId made = intern({X::kOp, t, code, ref, 0, 0, 0}, args);
  if (code == TENON_S_MUL && t == TENON_I64) atoms_.insert(made);
  return made;
}

static ExprId from_poly(Pool& pool, const Poly& p, ExprId (*raw)(Pool&, uint16_t, ExprId, ExprId)) {
  ExprId sum = kNone;
  int64_t constant = 0;
  for (auto& [k, c] : p) {
    if (k.empty()) {
      constant = c;
      continue;
    }
    ExprId product = k[0];
    for (size_t i = 1; i < k.size(); ++i) product = raw(pool, TENON_S_MUL, product, k[i]);
    if (c != 1) product = raw(pool, TENON_S_MUL, product, pool.integer(c));
    sum = sum == kNone ? product : raw(pool, TENON_S_ADD, sum, product);
  }
  if (sum == kNone) return pool.integer(constant);
  return constant == 0 ? sum : raw(pool, TENON_S_ADD, sum, pool.integer(constant));
}

namespace {

// A polynomial that is never below p: axes are replaced by their last point, and negative terms
// with non-negative atoms are dropped.
bool upper_poly(Pool& pool, const Poly& p, Poly* out) {
  for (auto& [k, c] : p) {
    Poly term{{{}, c}};
    if (k.empty()) {
      add_term(out, {}, c);
      continue;
    }
    for (ExprId a : k) {
      if (pool.range(a).lo < 0) return false;
    }
    bool has_axis = false;
    for (ExprId a : k) {
      const Expr& x = pool.at(a);
      has_axis |= x.kind == X::kAxis || (x.kind == X::kOp && x.op == kMod);
    }
    if (c < 0 && has_axis) continue;
    for (ExprId a : k) {
      const Expr x = pool.at(a);
      Poly f{{{a}, 1}};
      if (x.kind == X::kAxis)
        f = poly_sum(poly_of(pool, pool.axes()[x.ref].extent), Poly{{{}, 1}}, -1);
      if (x.kind == X::kOp && x.op == kMod)
        f = poly_sum(poly_of(pool, pool.arg(a, 1)), Poly{{{}, 1}}, -1);
      term = poly_product(term, f);
    }
    *out = poly_sum(*out, term, 1);
  }
  return true;
}

int64_t poly_low(const Pool& pool, const Poly& p) {
  __int128 sum = 0;
  for (auto& [k, c] : p) {
    __int128 lo = 1, hi = 1;
    for (ExprId a : k) {
      const Interval r = pool.range(a);
      if (r.lo < 0) return INT64_MIN;
      lo = saturate(lo * r.lo);
      hi = saturate(hi * r.hi);
      if (hi == INT64_MAX && c < 0) return INT64_MIN;
    }
    sum += c > 0 ? lo * c : hi * c;
  }
  return saturate(sum);
}

}  // namespace

static ExprId raw_op(Pool& pool, uint16_t code, ExprId a, ExprId b);

// Whether the polynomial of e equals its value: none of its sums wraps.
static bool never_wraps(const Pool& pool, ExprId e) {
  const long double limit = 0x1p61L;
  long double sum = 0;
  for (auto& [k, c] : poly_of(pool, e)) {
    long double term = std::fabs(static_cast<long double>(c));
    for (ExprId a : k) {
      const Interval r = pool.range(a);
      term *= std::max(std::fabs(static_cast<long double>(r.lo)),
                       std::fabs(static_cast<long double>(r.hi)));
    }
    sum += term;
  }
  return sum < limit || pool.is_symbolic_index(e);
}

// Whether e divides a size by a number. The dividend has only extents and constants, no axes, and
// never wraps.
static bool is_divided_size(const Pool& pool, ExprId e) {
  const Expr& x = pool.at(e);
  if (x.kind != X::kOp || x.op != kFloorDiv || !pool.is_const(pool.arg(e, 1))) return false;
  return pool.is_size(pool.arg(e, 0)) && never_wraps(pool, pool.arg(e, 0));
}

constexpr int kBoundDepth = 2;  // divisions that a bound replaces, one after another

// Whether sum > 0 everywhere. If its range does not decide, divided sizes are replaced by their
// bounds: d * (x / d) is in [x - d + 1, x], which shows that 2 * (n / 2) - 1 is less than n.
static bool surely_positive(Pool& pool, const Poly& sum, int depth) {
  constexpr int64_t kCoefficientMax = int64_t{1} << 40, kDivisorMax = int64_t{1} << 20;
  if (poly_low(pool, sum) >= 1) return true;
  if (depth == 0) return false;
  for (auto& [k, c] : sum) {
    for (size_t i = 0; i < k.size(); ++i) {
      if (!is_divided_size(pool, k[i])) continue;
      const int64_t d = *pool.value(pool.arg(k[i], 1));
      std::vector<ExprId> others = k;
      others.erase(others.begin() + static_cast<int64_t>(i));
      const bool keeps_sign = std::all_of(others.begin(), others.end(),
                                          [&](ExprId a) { return pool.range(a).lo >= 0; });
      Poly rest = sum, bound = poly_of(pool, pool.arg(k[i], 0));
      rest.erase(k);
      // Products of coefficients do not wrap.
      const auto below = [](const Poly& p, int64_t limit) {
        return std::all_of(p.begin(), p.end(), [limit](const auto& t) {
          return t.second > -limit && t.second < limit;
        });
      };
      if (!keeps_sign || !below(sum, kCoefficientMax) || !below(bound, kDivisorMax) || d <= 0 ||
          d > kDivisorMax)
        continue;
      if (c > 0) bound = poly_sum(bound, Poly{{{}, d - 1}}, -1);
      const Poly scaled =
          poly_sum(poly_product(rest, Poly{{{}, d}}), poly_product(bound, Poly{{others, c}}), 1);
      if (surely_positive(pool, scaled, depth - 1)) return true;
    }
  }
  return false;
}

// Whether a < b everywhere. May be false for a true fact.
static bool provably_less(Pool& pool, ExprId a, ExprId b) {
  if (pool.range(a).hi < pool.range(b).lo) return true;
  if (!never_wraps(pool, a) || !never_wraps(pool, b)) return false;
  Poly up;
  if (!upper_poly(pool, poly_of(pool, a), &up)) return false;
  return surely_positive(pool, poly_sum(poly_of(pool, b), up, -1), kBoundDepth);
}

// (x / c) * c + x mod c = x: undoes a split by one reshape and the join by another. False: nothing
// to do.
static bool rejoin(Pool& pool, Poly* sum) {
  for (const auto& [key, factor] : *sum) {
    for (size_t i = 0; i < key.size(); ++i) {
      if (!is_index_op(pool, key[i], kMod)) continue;
      const ExprId x = pool.arg(key[i], 0), divisor = pool.arg(key[i], 1);
      std::vector<ExprId> atoms;
      int64_t c = 0;
      if (!monomial(poly_of(pool, divisor), &atoms, &c) || c > INT32_MAX || factor > INT32_MAX ||
          factor < 0)
        continue;
      std::vector<ExprId> rest = key;
      rest.erase(rest.begin() + static_cast<int64_t>(i));
      const Poly whole =
          poly_product(poly_product(poly_of(pool, pool.floordiv(x, divisor)), Poly{{atoms, c}}),
                       Poly{{rest, factor}});
      bool present = !whole.empty();
      for (const auto& [k, v] : whole) {
        const auto at = sum->find(k);
        present = present && at != sum->end() && at->second == v;
      }
      if (!present) continue;
      const std::vector<ExprId> gone = key;
      const Poly joined = poly_product(poly_of(pool, x), Poly{{rest, factor}});
      *sum = poly_sum(*sum, whole, -1);
      sum->erase(gone);
      *sum = poly_sum(*sum, joined, 1);
      return true;
    }
  }
  return false;
}

ExprId Pool::fold(uint16_t code, std::span<const ExprId> args, uint32_t ref) {
  const DType t = type(args[0]);
  if (is_float(t)) {
    if (t != TENON_F32 && t != TENON_F64) return kNone;
    const double a = number_value(args[0]), b = args.size() > 1 ? number_value(args[1]) : 0;
    switch (code) {
      case TENON_S_NEG:
        return number(-a, t);
      case TENON_S_ADD:
        return number(a + b, t);
      case TENON_S_SUB:
        return number(a - b, t);
      case TENON_S_MUL:
        return number(a * b, t);
      default:
        return kNone;
    }
  }
  const int64_t a = at(args[0]).bits, b = args.size() > 1 ? at(args[1]).bits : 0;
  const bool is_unsigned = !is_signed(t);
  auto less = [&](int64_t x, int64_t y) {
    return is_unsigned ? static_cast<uint64_t>(x) < static_cast<uint64_t>(y) : x < y;
  };
  switch (code) {
    case TENON_S_NEG:
      return integer(wrap_mul(a, -1), t);
    case TENON_S_ADD:
      return integer(wrap_add(a, b), t);
    case TENON_S_SUB:
      return integer(wrap_add(a, wrap_mul(b, -1)), t);
    case TENON_S_MUL:
      return integer(wrap_mul(a, b), t);
    case TENON_S_MIN:
      return less(a, b) ? args[0] : args[1];
    case TENON_S_MAX:
      return less(a, b) ? args[1] : args[0];
    case TENON_S_AND:
      return integer(a & b, t);
    case TENON_S_OR:
      return integer(a | b, t);
    case TENON_S_XOR:
      return integer(a ^ b, t);
    case TENON_S_NOT:
      return integer(t == TENON_PRED ? !a : ~a, t);
    case kFloorDiv:
      return integer(index_div(a, b), t);
    case kMod:
      return b > 0 ? integer(a - floor_div(a, b) * b, t) : kNone;
    case TENON_S_CMP: {
      const bool lt = less(a, b), eq = a == b;
      const bool r[] = {eq, !eq, lt, lt || eq, !lt && !eq, !lt};
      return boolean(r[ref % 6]);
    }
    default:
      return kNone;
  }
}

ExprId Pool::simplify_float(uint16_t code, std::span<const ExprId> args) {
  if (args.size() != 2) return kNone;
  auto is = [&](ExprId e, double v) {
    return is_const(e) && is_float(type(e)) && number_value(e) == v;
  };
  if (code == TENON_S_MUL && is(args[0], 1)) return args[1];
  if ((code == TENON_S_MUL || code == TENON_S_DIV) && is(args[1], 1)) return args[0];
  if (code == TENON_S_POW && (type(args[0]) == TENON_F32 || type(args[0]) == TENON_F64)) {
    // Products round at most once more than the power itself.
    const ExprId x = args[0];
    if (is(args[1], 1)) return x;
    if (is(args[1], 2)) return mul(x, x);
    if (is(args[1], 3)) return mul(mul(x, x), x);
    if (is(args[1], 4)) return mul(mul(x, x), mul(x, x));
    if (is(x, 2) && type(x) == TENON_F32) return op(kExp2, {args[1]});
  }
  return kNone;
}

ExprId Pool::simplify(uint16_t code, std::span<const ExprId> args, uint32_t ref) {
  if (code == TENON_S_SELECT) {
    if (auto c = value(args[0])) return *c ? args[1] : args[2];
    return args[1] == args[2] ? args[1] : kNone;
  }
  bool all_const = true;
  for (ExprId a : args) all_const &= is_const(a);
  if (all_const) {
    if (ExprId e = fold(code, args, ref)) return e;
  }
  const DType t = type(args[0]);
  if (is_float(t)) return simplify_float(code, args);
  if (t == TENON_PRED && (code == TENON_S_AND || code == TENON_S_OR)) {
    if (args[0] == args[1]) return args[0];
    for (int i = 0; i < 2; ++i) {
      if (auto c = value(args[i]))
        return (*c != 0) == (code == TENON_S_AND) ? args[1 - i] : args[i];
    }
    return kNone;
  }
  if (t != TENON_I64) return kNone;
  auto raw = [](Pool& p, uint16_t c, ExprId a, ExprId b) { return raw_op(p, c, a, b); };
  switch (code) {
    case TENON_S_ADD:
    case TENON_S_SUB: {
      Poly sum =
          poly_sum(poly_of(*this, args[0]), poly_of(*this, args[1]), code == TENON_S_ADD ? 1 : -1);
      while (rejoin(*this, &sum)) {
      }
      return from_poly(*this, sum, raw);
    }
    case TENON_S_NEG:
      return from_poly(*this, poly_sum({}, poly_of(*this, args[0]), -1), raw);
    case TENON_S_MUL: {
      const Poly a = poly_of(*this, args[0]), b = poly_of(*this, args[1]);
      if (!multiplies_out(a, b)) return kNone;
      return from_poly(*this, poly_product(a, b), raw);
    }
    case kFloorDiv:
    case kMod: {
      if (is_const(args[1], 1)) return code == kFloorDiv ? args[0] : integer(0);
      std::vector<ExprId> atoms;
      int64_t c = 0;
      if (!monomial(poly_of(*this, args[1]), &atoms, &c)) return kNone;
      Poly q, r;
      divide_terms(poly_of(*this, args[0]), atoms, c, &q, &r);
      const ExprId rest = from_poly(*this, r, raw);
      const bool small = range(rest).lo >= 0 && provably_less(*this, rest, args[1]);
      if (code == kMod) return small ? rest : raw_op(*this, kMod, rest, args[1]);
      const ExprId quotient = from_poly(*this, q, raw);
      if (small) return quotient;
      if (q.empty()) {
        // (x / c1) / c2 = x / (c1 * c2)
        if (is_index_op(*this, rest, kFloorDiv))
          return floordiv(arg(rest, 0), mul(arg(rest, 1), args[1]));
        return raw_op(*this, kFloorDiv, rest, args[1]);
      }
      return add(quotient, floordiv(rest, args[1]));
    }
    case TENON_S_MIN:
    case TENON_S_MAX: {
      if (args[0] == args[1]) return args[0];
      const Interval a = range(args[0]), b = range(args[1]);
      if (a.hi <= b.lo || provably_less(*this, args[0], args[1]))
        return code == TENON_S_MIN ? args[0] : args[1];
      if (b.hi <= a.lo || provably_less(*this, args[1], args[0]))
        return code == TENON_S_MIN ? args[1] : args[0];
      return kNone;
    }
    case TENON_S_CMP: {
      if (ref == TENON_CMP_GT) return cmp(TENON_CMP_LT, args[1], args[0]);
      if (ref == TENON_CMP_GE) return cmp(TENON_CMP_LE, args[1], args[0]);
      if (args[0] == args[1]) return boolean(ref == TENON_CMP_EQ || ref == TENON_CMP_LE);
      const ExprId one = integer(1);
      if (ref == TENON_CMP_LT) {
        if (provably_less(*this, args[0], args[1])) return boolean(true);
        if (provably_less(*this, args[1], add(args[0], one))) return boolean(false);
      } else if (ref == TENON_CMP_LE) {
        if (provably_less(*this, args[0], add(args[1], one))) return boolean(true);
        if (provably_less(*this, args[1], args[0])) return boolean(false);
      }
      return kNone;
    }
    default:
      return kNone;
  }
}

static ExprId raw_op(Pool& pool, uint16_t code, ExprId a, ExprId b) {
  return pool.raw_index_op(code, a, b);
}

ExprId Pool::raw_index_op(uint16_t code, ExprId a, ExprId b) {
  ExprId args[] = {a, b};
  return intern({X::kOp, TENON_I64, code, 0, 0, 0, 0}, args);
}

// Integers wrap, so nothing is known beyond 64 bits. The exception is an index into a tensor of
// symbolic size, which fits memory.
Interval Pool::bounded(ExprId e, __int128 lo, __int128 hi) const {
  const bool fits = lo >= INT64_MIN && hi <= INT64_MAX;
  return fits || is_symbolic_index(e) ? Interval{saturate(lo), saturate(hi)} : Interval{};
}

// Axes, extents and constants that could be strides, with at least one symbolic extent.
bool Pool::is_symbolic_index(ExprId e) const {
  bool symbolic = false;
  begin_walk();
  return is_index_unseen(e, &symbolic) && symbolic;
}

bool Pool::is_size(ExprId e) const {
  begin_walk();
  return is_size_unseen(e);
}

bool Pool::is_size_unseen(ExprId e) const {
  if (!first_visit(e)) return true;
  const Expr& x = at(e);
  if (x.type != TENON_I64) return false;
  if (x.kind == X::kConst || x.kind == X::kExtent) return true;
  return x.kind == X::kOp && std::all_of(args(e).begin(), args(e).end(),
                                         [this](ExprId a) { return is_size_unseen(a); });
}

bool Pool::is_index_unseen(ExprId e, bool* symbolic) const {
  if (e == kNone || !first_visit(e)) return true;
  constexpr int64_t kMemory = int64_t{1} << 47;
  const Expr& x = at(e);
  switch (x.kind) {
    case X::kConst:
      return x.type == TENON_I64 && x.bits > -kMemory && x.bits < kMemory;
    case X::kExtent:
      return *symbolic = true;
    case X::kAxis:
      return is_index_unseen(axes_[x.ref].extent, symbolic);
    case X::kOp:
      break;
    default:
      return false;
  }
  for (ExprId a : args(e)) {
    if (!is_index_unseen(a, symbolic)) return false;
  }
  return true;
}

// Ranges of operations are cached, so that a shared expression is computed once, not once per path
// to it.
Interval Pool::range(ExprId e) const {
  if (e == kNone || at(e).kind != X::kOp) return range_unseen(e);
  if (const auto known = ranges_.find(e); known != ranges_.end()) return known->second;
  const Interval made = range_unseen(e);
  ranges_.emplace(e, made);
  return made;
}

Interval Pool::range_unseen(ExprId e) const {
  if (e == kNone) return {};
  const Expr& x = at(e);
  switch (x.kind) {
    case X::kConst:
      return is_float(x.type) ? Interval{} : Interval{x.bits, x.bits};
    case X::kExtent:
      return {extents_[x.ref].lo, extents_[x.ref].hi};
    case X::kAxis:
      return {0, std::max<int64_t>(0, saturate(__int128{range(axes_[x.ref].extent).hi} - 1))};
    case X::kOp:
      break;
    default:
      return {};
  }
  if (x.type != TENON_I64 || x.args_count != 2) {
    if (x.type == TENON_I64 && x.op == TENON_S_SELECT) {
      const Interval a = range(arg(e, 1)), b = range(arg(e, 2));
      return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)};
    }
    return {};
  }
  const Interval a = range(arg(e, 0)), b = range(arg(e, 1));
  switch (x.op) {
    case TENON_S_ADD:
      return bounded(e, __int128{a.lo} + b.lo, __int128{a.hi} + b.hi);
    case TENON_S_SUB:
      return bounded(e, __int128{a.lo} - b.hi, __int128{a.hi} - b.lo);
    case TENON_S_MUL: {
      const __int128 c[] = {__int128{a.lo} * b.lo, __int128{a.lo} * b.hi, __int128{a.hi} * b.lo,
                            __int128{a.hi} * b.hi};
      return bounded(e, *std::min_element(c, c + 4), *std::max_element(c, c + 4));
    }
    case TENON_S_MIN:
      return {std::min(a.lo, b.lo), std::min(a.hi, b.hi)};
    case TENON_S_MAX:
      return {std::max(a.lo, b.lo), std::max(a.hi, b.hi)};
    case kFloorDiv: {
      const int64_t lo = std::max<int64_t>(1, b.lo), hi = std::max<int64_t>(1, b.hi);
      return {std::min(floor_div(a.lo, lo), floor_div(a.lo, hi)),
              std::max(floor_div(a.hi, lo), floor_div(a.hi, hi))};
    }
    case kMod:
      return {0, std::max<int64_t>(0, saturate(__int128{b.hi} - 1))};
    default:
      return {};
  }
}

bool Pool::uses_axis(ExprId e, uint32_t axis) const {
  begin_walk();
  return uses_axis_unseen(e, axis);
}

bool Pool::uses_axis_unseen(ExprId e, uint32_t axis) const {
  if (e == kNone || !first_visit(e)) return false;
  const Expr& x = at(e);
  if (x.kind == X::kAxis) return x.ref == axis;
  for (ExprId a : args(e)) {
    if (uses_axis_unseen(a, axis)) return true;
  }
  return false;
}

bool Pool::affine(ExprId x, std::span<const uint32_t> axes, std::vector<ExprId>* coefficients,
                  ExprId* rest) {
  std::vector<Poly> parts(axes.size());
  Poly left;
  auto listed = [&](ExprId a) -> int {
    for (size_t i = 0; i < axes.size(); ++i) {
      if (at(a).kind == X::kAxis && at(a).ref == axes[i]) return static_cast<int>(i);
    }
    return -1;
  };
  for (auto& [k, c] : poly_of(*this, x)) {
    int found = -1;
    std::vector<ExprId> others;
    for (ExprId a : k) {
      const int i = listed(a);
      if (i >= 0 && found >= 0) return false;
      if (i >= 0) {
        found = i;
        continue;
      }
      for (uint32_t axis : axes) {
        if (uses_axis(a, axis)) return false;
      }
      others.push_back(a);
    }
    add_term(found >= 0 ? &parts[found] : &left, found >= 0 ? others : k, c);
  }
  auto raw = [](Pool& p, uint16_t c, ExprId a, ExprId b) { return raw_op(p, c, a, b); };
  coefficients->clear();
  for (auto& p : parts) coefficients->push_back(from_poly(*this, p, raw));
  *rest = from_poly(*this, left, raw);
  return true;
}

ExprId Pool::substitute(ExprId e, const std::unordered_map<ExprId, ExprId>& map, ExprId guard) {
  if (map.empty() && guard == kNone) return e;
  std::unordered_map<ExprId, ExprId> done(map);
  return substitute_known(e, &done, guard);
}

// `done` grows: a shared expression is visited once. Otherwise the time would be exponential in the
// length of a chain of squares.
ExprId Pool::substitute_known(ExprId e, std::unordered_map<ExprId, ExprId>* done, ExprId guard) {
  if (e == kNone) return kNone;
  if (auto it = done->find(e); it != done->end()) return it->second;
  if (at(e).args_count == 0) return e;
  const ExprId result = substitute_args(e, done, guard);
  done->emplace(e, result);
  return result;
}

ExprId Pool::substitute_args(ExprId e, std::unordered_map<ExprId, ExprId>* done, ExprId guard) {
  const Expr x = at(e);
  std::vector<ExprId> in(args(e).begin(), args(e).end());
  if (x.kind == X::kLoad) {
    std::vector<ExprId> index;
    for (size_t i = 2; i < in.size(); ++i) index.push_back(substitute_known(in[i], done, guard));
    const ExprId inner = both(substitute_known(in[0], done, guard), guard);
    return load(x.ref, x.type, index, inner, substitute_known(in[1], done, guard));
  }
  bool changed = false;
  for (ExprId& a : in) {
    const ExprId b = substitute_known(a, done, guard);
    changed |= a != b;
    a = b;
  }
  if (!changed) return e;
  if (x.op == TENON_S_CONVERT || x.op == TENON_S_CONVERT_WRAP || x.op == kRound)
    return convert(in[0], x.type, x.op);
  if (x.op == TENON_S_BITCAST_RESULT) return intern({X::kOp, x.type, x.op, x.ref, 0, 0, 0}, in);
  return op(x.op, in, x.ref);
}

ExprId Pool::bitcast(ExprId x, DType to) {
  ExprId a[] = {x};
  return type(x) == to ? x : intern({X::kOp, to, TENON_S_BITCAST_RESULT, 0, 0, 0, 0}, a);
}

void Pool::begin_walk() const {
  if (visited_.size() < exprs_.size()) visited_.resize(exprs_.size(), 0);
  if (++walk_ == 0) {
    std::fill(visited_.begin(), visited_.end(), 0);
    walk_ = 1;
  }
}

bool Pool::first_visit(ExprId e) const {
  const bool first = visited_[e] != walk_;
  visited_[e] = walk_;
  return first;
}

void Pool::loads(ExprId e, std::vector<ExprId>* out) const {
  begin_walk();
  for (ExprId known : *out) first_visit(known);
  loads_unseen(e, out);
}

// Arguments first, every shared expression once; otherwise the time would be exponential in the
// length of a chain of squares.
void Pool::loads_unseen(ExprId e, std::vector<ExprId>* out) const {
  if (e == kNone || !first_visit(e)) return;
  for (ExprId a : args(e)) loads_unseen(a, out);
  if (at(e).kind == X::kLoad) out->push_back(e);
}

int64_t Pool::evaluate(ExprId e, std::span<const int64_t> ext) const {
  return size_program(*this, e).evaluate(ext);
}

// ---- Sizes as data ----

namespace {
enum : int64_t { kPush = 0, kPushExtent = 1, kApply = 2 };

void emit_size(const Pool& pool, ExprId e, std::vector<int64_t>* out) {
  const Expr& x = pool.at(e);
  if (x.kind == X::kConst) {
    out->insert(out->end(), {kPush, x.bits});
  } else if (x.kind == X::kExtent) {
    out->insert(out->end(), {kPushExtent, int64_t{x.ref}});
  } else if (x.kind == X::kOp && x.args_count == 2) {
    emit_size(pool, pool.arg(e, 0), out);
    emit_size(pool, pool.arg(e, 1), out);
    out->insert(out->end(), {kApply, int64_t{x.op}});
  } else {
    out->insert(out->end(), {kPush, 0});
  }
}
}  // namespace

SizeProgram size_program(const Pool& pool, ExprId e) {
  SizeProgram p;
  if (e != kNone) emit_size(pool, e, &p.words);
  return p;
}

SizeProgram SizeProgram::extent(uint32_t ordinal) {
  return {{kPushExtent, int64_t{ordinal}}};
}

uint64_t SizeProgram::extent_limit() const {
  uint64_t limit = 0;
  for (size_t i = 0; i + 1 < words.size(); i += 2) {
    if (words[i] == kPushExtent) limit = std::max(limit, static_cast<uint64_t>(words[i + 1]) + 1);
    if (words[i] == kPushExtent && words[i + 1] < 0) return UINT64_MAX;
  }
  return limit;
}

SizeProgram SizeProgram::over(std::span<const SizeProgram> extents) const {
  SizeProgram out;
  for (size_t i = 0; i + 1 < words.size(); i += 2) {
    if (words[i] == kPushExtent) {
      const std::vector<int64_t>& inner = extents[static_cast<size_t>(words[i + 1])].words;
      out.words.insert(out.words.end(), inner.begin(), inner.end());
    } else {
      out.words.insert(out.words.end(), {words[i], words[i + 1]});
    }
  }
  return out;
}

int64_t SizeProgram::evaluate(std::span<const int64_t> ext) const {
  std::vector<int64_t> stack;
  for (size_t i = 0; i + 1 < words.size(); i += 2) {
    const int64_t w = words[i + 1];
    if (words[i] == kPush) {
      stack.push_back(w);
    } else if (words[i] == kPushExtent) {
      stack.push_back(static_cast<size_t>(w) < ext.size() ? ext[w] : 0);
    } else {
      if (stack.size() < 2) return 0;
      const int64_t b = stack.back();
      stack.pop_back();
      int64_t& a = stack.back();
      switch (w) {
        case TENON_S_ADD:
          a = saturate(__int128{a} + b);
          break;
        case TENON_S_SUB:
          a = saturate(__int128{a} - b);
          break;
        case TENON_S_MUL:
          a = saturate(__int128{a} * b);
          break;
        case TENON_S_MIN:
          a = std::min(a, b);
          break;
        case TENON_S_MAX:
          a = std::max(a, b);
          break;
        case kFloorDiv:
          a = index_div(a, b);
          break;
        case kMod:
          a = b > 0 ? a - floor_div(a, b) * b : 0;
          break;
        default:
          return 0;
      }
    }
  }
  return stack.empty() ? 0 : stack.back();
}

}  // namespace tenon::kernelgen
