#include "tenon/kernelgen/fuse/quotients.h"

#include <cmath>
#include <limits>
#include <unordered_map>

#include "tenon/kernelgen/ir/stages.h"

namespace tenon::kernelgen {
namespace {

// What bytes and most 16-bit integers do not need.
constexpr double kStepsMost = 4096;
// Beyond these a product of the reciprocal could lose digits.
constexpr float kLeast = 0x1p-60f, kMost = 0x1p60f;

float quotient(float x, float c) {
  return std::nearbyintf(x / c);
}
float product(float x, Reciprocal r) {
  return std::nearbyintf(std::fma(x, r.hi, x * r.lo));
}

// hi is rounded down, so that lo has the sign of hi: infinities stay what they are.
Reciprocal reciprocal_of(float c) {
  const double wide = c;
  float hi = static_cast<float>(1 / wide);
  if (wide * hi > 1) hi = std::nextafterf(hi, 0);  // the product is exact
  return {hi, static_cast<float>((1 - wide * hi) / wide)};
}

// Whether both reach `step` at the same x.
bool agree_at(float c, Reciprocal r, double step) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto goal = static_cast<float>(step);
  auto x = static_cast<float>(c * (step - 0.5));
  while (quotient(x, c) >= goal) x = std::nextafterf(x, -kInfinity);
  while (quotient(x, c) < goal) x = std::nextafterf(x, kInfinity);
  return product(x, r) >= goal && product(std::nextafterf(x, -kInfinity), r) < goal;
}

class Quotients {
 public:
  explicit Quotients(Kernel& k) : p_(k.pool) {}

  void rewrite_in(Stage& s) {
    std::unordered_map<ExprId, ExprId> map;
    p_.begin_walk();
    for (const ExprId* e : slots(s)) find(*e, &map);
    if (!map.empty()) rewrite(p_, s, map);
  }

 private:
  bool is(ExprId e, uint16_t op) const { return p_.at(e).kind == X::kOp && p_.at(e).op == op; }

  // The argument that is no number, of an op with one that is; kNone.
  ExprId beside_number(ExprId e, uint16_t op, double* number) const {
    if (!is(e, op) || p_.type(e) != TENON_F32) return kNone;
    for (uint32_t i = 0; i < 2; ++i) {
      if (!p_.is_const(p_.arg(e, i))) continue;
      *number = p_.number_value(p_.arg(e, i));
      return p_.arg(e, 1 - i);
    }
    return kNone;
  }

  void find(ExprId e, std::unordered_map<ExprId, ExprId>* map) {
    if (!p_.first_visit(e)) return;
    double high = 0, low = 0, zero = 0;
    ExprId inner = beside_number(e, TENON_S_MIN, &high);
    if (inner != kNone) inner = beside_number(inner, TENON_S_MAX, &low);
    if (inner != kNone) {
      const ExprId moved = beside_number(inner, TENON_S_ADD, &zero);
      const ExprId rounded = moved == kNone ? inner : moved;
      if (is(rounded, TENON_S_ROUND_EVEN)) take(p_.arg(rounded, 0), low - zero, high - zero, map);
    }
    for (ExprId a : p_.args(e)) find(a, map);
  }

  void take(ExprId divided, double low, double high, std::unordered_map<ExprId, ExprId>* map) {
    if (!is(divided, TENON_S_DIV) || p_.type(divided) != TENON_F32) return;
    const ExprId by = p_.arg(divided, 1), x = p_.arg(divided, 0);
    if (!p_.is_const(by) || p_.is_const(x)) return;
    const auto pair = reciprocal_for(static_cast<float>(p_.number_value(by)), low, high);
    if (!pair) return;
    const ExprId args[] = {x, p_.number(pair->hi, TENON_F32), p_.number(pair->lo, TENON_F32)};
    (*map)[divided] = p_.op(kMulPair, args);
  }

  Pool& p_;
};

}  // namespace

std::optional<Reciprocal> reciprocal_for(float c, double low, double high) {
  if (!(c >= kLeast && c <= kMost) || !(high - low <= kStepsMost)) return std::nullopt;
  if (low != std::floor(low) || high != std::floor(high) || std::abs(low) > 0x1p20)
    return std::nullopt;
  const Reciprocal r = reciprocal_of(c);
  if (!(r.lo > 0)) return std::nullopt;  // a power of two
  for (double step = low; step <= high + 1; ++step) {
    if (!agree_at(c, r, step)) return std::nullopt;
  }
  return r;
}

void multiply_quotients(Kernel& program, const Target& target) {
  if (target.dialect != Dialect::kCpp || !target.fma) return;
  Quotients quotients(program);
  for (Stage& s : program.stages) quotients.rewrite_in(s);
}

}  // namespace tenon::kernelgen
