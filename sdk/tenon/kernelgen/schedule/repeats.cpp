#include "tenon/kernelgen/schedule/repeats.h"

#include <algorithm>
#include <unordered_set>

namespace tenon::kernelgen {
namespace {

constexpr int64_t kMostRepeats = 8;  // as many vectors are interleaved at once

// The smallest divisor of the axis in an expression; 0: nothing divides it.
int64_t divisor_of(const Pool& p, ExprId e, uint32_t axis) {
  std::vector<ExprId> todo{e};
  std::unordered_set<ExprId> seen;
  int64_t found = 0;
  while (!todo.empty()) {
    const ExprId at = todo.back();
    todo.pop_back();
    if (at == kNone || !seen.insert(at).second) continue;
    const Expr& x = p.at(at);
    const bool divides = x.kind == X::kOp && x.op == kFloorDiv &&
                         p.at(p.arg(at, 0)).kind == X::kAxis && p.at(p.arg(at, 0)).ref == axis;
    const int64_t by = divides ? p.value(p.arg(at, 1)).value_or(0) : 0;
    if (by > 1 && (found == 0 || by < found)) found = by;
    todo.insert(todo.end(), p.args(at).begin(), p.args(at).end());
  }
  return found;
}

// Whether all loads are contiguous along `line` or do not move, and their guards do not depend on
// it.
bool reads_lines(Pool& p, const std::vector<ExprId>& values, uint32_t line, uint32_t repeat) {
  std::vector<ExprId> loads;
  for (ExprId v : values) p.loads(v, &loads);
  return std::ranges::all_of(loads, [&](ExprId l) {
    const uint32_t axes[] = {line, repeat};
    std::vector<ExprId> c;
    ExprId rest = kNone;
    // A guard that depends on the place among the repeats alone is known for each of them.
    const bool guarded = p.arg(l, 0) != kNone && p.uses_axis(p.arg(l, 0), line);
    return !guarded && p.affine(p.arg(l, 2), axes, &c, &rest) &&
           (p.is_const(c[0], 1) || p.is_const(c[0], 0));
  });
}

}  // namespace

bool split_repeats(Kernel& k, uint32_t* line) {
  Pool& p = k.pool;
  Stage& s = k.stages[0];
  for (const uint32_t a : k.lead) {
    std::vector<ExprId> c;
    ExprId rest = kNone;
    const uint32_t axes[] = {a};
    const auto extent = p.value(p.axes()[a].extent);
    if (!extent || !p.affine(s.store[0].index[0], axes, &c, &rest) || !p.is_const(c[0], 1))
      continue;
    int64_t repeats = 0;
    for (ExprId v : s.value) repeats = std::max(repeats, divisor_of(p, v, a));
    if (repeats < 2 || repeats > kMostRepeats || *extent % repeats != 0) continue;
    const uint32_t outer = p.add_axis(p.integer(*extent / repeats)),
                   inner = p.add_axis(p.integer(repeats));
    const std::unordered_map<ExprId, ExprId> map = {
        {p.axis(a), p.add(p.mul(p.axis(outer), p.integer(repeats)), p.axis(inner))}};
    std::vector<ExprId> values;
    for (ExprId v : s.value) values.push_back(p.substitute(v, map));
    if (!reads_lines(p, values, outer, inner)) continue;
    s.value = std::move(values);
    for (ExprId& i : s.store[0].index) i = p.substitute(i, map);
    for (auto* list : {&k.lead, &s.space}) {
      std::erase(*list, a);
      list->insert(list->end(), {outer, inner});
    }
    *line = outer;
    return true;
  }
  return false;
}

}  // namespace tenon::kernelgen
