#include "tenon/kernelgen/schedule/neighbours.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "tenon/kernelgen/ir/stages.h"

namespace tenon::kernelgen {

int64_t access_score(Pool& p, const Stage& s, uint32_t axis);

namespace {

// Whether an offset is a multiple, by its terms: a product of sizes that are not known may be one.
bool is_multiple(Pool& p, ExprId offset, uint32_t of) {
  const auto divides = [&](ExprId x) { return p.is_const(p.mod(x, p.integer(of)), 0); };
  for (uint32_t a = 0; a < p.axes().size() && !divides(offset); ++a) {
    if (!p.uses_axis(offset, a)) continue;
    std::vector<ExprId> c;
    ExprId rest = kNone;
    const uint32_t axes[] = {a};
    if (!p.affine(offset, axes, &c, &rest)) continue;
    if (!divides(c[0])) return false;
    offset = rest;
  }
  return divides(offset);
}

// The divisions under an expression, inner ones first.
std::vector<ExprId> divisions(const Pool& p, ExprId e) {
  std::vector<ExprId> out, todo = {e};
  p.begin_walk();
  while (!todo.empty()) {
    const ExprId at = todo.back();
    todo.pop_back();
    if (at == kNone || !p.first_visit(at)) continue;
    const Expr& x = p.at(at);
    if (x.kind == X::kOp && (x.op == kFloorDiv || x.op == kMod)) out.push_back(at);
    for (ExprId a : p.args(at)) todo.push_back(a);
  }
  std::ranges::sort(out);
  return out;
}

// The offset with the axis as `count` times an axis of its own plus `place`, which is below
// `count`. A division by a multiple of `count` does not see the place: (4 y + place) / 32 = y / 8.
ExprId split(Pool& p, ExprId offset, uint32_t axis, uint32_t place, uint32_t count) {
  const ExprId n = p.integer(count), at = p.axis(place);
  const uint32_t first = p.add_axis(p.floordiv(p.axes()[axis].extent, n)), places[] = {place};
  std::unordered_map<ExprId, ExprId> map = {{p.axis(axis), p.add(p.mul(p.axis(first), n), at)}};
  for (ExprId e : divisions(p, offset)) {
    const Expr x = p.at(e);
    const auto by = p.value(p.arg(e, 1));
    std::vector<ExprId> c;
    ExprId rest = kNone;
    if (!by || *by <= 0 || *by % count != 0 ||
        !p.affine(p.substitute(p.arg(e, 0), map), places, &c, &rest) || !p.is_const(c[0], 1) ||
        !is_multiple(p, rest, count))
      continue;
    const ExprId groups = p.floordiv(rest, n), divisor = p.integer(*by / count);
    map[e] = x.op == kFloorDiv ? p.floordiv(groups, divisor)
                               : p.add(p.mul(p.mod(groups, divisor), n), at);
  }
  return p.substitute(offset, map);
}

}  // namespace

Apart neighbours(Pool& p, ExprId offset, uint32_t axis, uint32_t count) {
  if (!p.uses_axis(offset, axis)) return Apart::kSame;
  std::vector<ExprId> c;
  ExprId rest = kNone;
  const uint32_t whole[] = {axis};
  if (!p.affine(offset, whole, &c, &rest)) {
    const uint32_t place[] = {p.add_axis(p.integer(count))};
    offset = split(p, offset, axis, place[0], count);
    if (!p.uses_axis(offset, place[0])) return Apart::kSame;
    if (!p.affine(offset, place, &c, &rest)) return Apart::kOther;
  }
  return p.is_const(c[0], 1) && is_multiple(p, rest, count) ? Apart::kContiguous : Apart::kOther;
}

int64_t item_score(Pool& p, const Stage& s, uint32_t axis) {
  int64_t score = access_score(p, s, axis);
  std::vector<ExprId> loads;
  for (const auto* list : {&s.value, &s.step, &s.final}) {
    for (ExprId e : *list) p.loads(e, &loads);
  }
  for (ExprId l : loads) {
    std::vector<ExprId> c;
    ExprId rest = kNone;
    const ExprId offset = p.arg(l, 2);
    const uint32_t axes[] = {axis};
    if (!p.uses_axis(offset, axis) || p.affine(offset, axes, &c, &rest)) continue;
    // access_score takes every offset that divides for a gather.
    const Apart apart = neighbours(p, offset, axis, kNeighbours);
    score += apart == Apart::kSame ? 6 : apart == Apart::kContiguous ? 9 : 0;
  }
  return score;
}

}  // namespace tenon::kernelgen
