// Queries on one stage: its expressions, what it loads, how it stores. Internal to kernelgen.
#ifndef TENON_KERNELGEN_IR_STAGES_H_
#define TENON_KERNELGEN_IR_STAGES_H_

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "tenon/kernelgen/ir/ir.h"

namespace tenon::kernelgen {

// Every expression of a stage, to read or replace.
inline std::vector<ExprId*> slots(Stage& s) {
  std::vector<ExprId*> out;
  for (auto* list : {&s.value, &s.init, &s.step, &s.merge, &s.final}) {
    for (ExprId& e : *list) out.push_back(&e);
  }
  if (s.a != kNone) out.push_back(&s.a);
  if (s.b != kNone) out.push_back(&s.b);
  for (View& v : s.store) {
    for (ExprId& e : v.index) out.push_back(&e);
    if (v.guard != kNone) out.push_back(&v.guard);
  }
  return out;
}

inline std::vector<ExprId> loads_of(const Pool& p, const Stage& s) {
  std::vector<ExprId> out;
  for (ExprId* e : slots(const_cast<Stage&>(s))) p.loads(*e, &out);
  return out;
}

inline void rewrite(Pool& p, Stage& s, const std::unordered_map<ExprId, ExprId>& map) {
  for (ExprId* e : slots(s)) *e = p.substitute(*e, map);
}

// A store indexed by all space axes of the stage, each once: each element has one point.
inline bool plain_store(const Kernel& k, const Stage& s, const View& v) {
  const Pool& p = k.pool;
  if (v.guard != kNone) return false;
  std::vector<uint32_t> seen;
  for (ExprId e : v.index) {
    const Expr& x = p.at(e);
    if (p.is_const(e, 0)) continue;
    if (x.kind != X::kAxis || std::find(seen.begin(), seen.end(), x.ref) != seen.end())
      return false;
    seen.push_back(x.ref);
  }
  return seen.size() == s.space.size();
}

// An unguarded load whose index is the axes of `s` in some order, each axis once: `s` visits every
// element of the buffer exactly once.
inline bool element_wise(const Kernel& k, const Stage& s, ExprId load) {
  const Pool& p = k.pool;
  if (p.arg(load, 0) != kNone) return false;
  const std::vector<ExprId>& dims = k.buffers[p.at(load).ref].dims;
  std::vector<uint32_t> seen;
  for (size_t d = 0; d < dims.size(); ++d) {
    const ExprId e = p.arg(load, static_cast<uint32_t>(d + 2));
    if (p.is_const(dims[d], 1) && p.is_const(e, 0)) continue;
    const Expr& x = p.at(e);
    if (x.kind != X::kAxis || p.axes()[x.ref].extent != dims[d]) return false;
    if (std::find(seen.begin(), seen.end(), x.ref) != seen.end()) return false;
    if (std::find(s.space.begin(), s.space.end(), x.ref) == s.space.end()) return false;
    seen.push_back(x.ref);
  }
  return seen.size() == s.space.size();
}

// Offsets of the loads and stores of a stage that prepare() made.
inline std::vector<ExprId> offsets_of(const Pool& p, const Stage& s) {
  std::vector<ExprId> out, loads;
  for (const auto* list : {&s.value, &s.step, &s.final}) {
    for (ExprId e : *list) p.loads(e, &loads);
  }
  for (ExprId l : loads) out.push_back(p.arg(l, 2));
  for (const View& v : s.store) out.push_back(v.index[0]);
  return out;
}

// Whether all results of an element-wise stage are computed at a point before the first is stored
// there, so that each may lie where an operand does: none of them reads what another one stores.
inline bool stores_last(const Kernel& k, const Stage& s) {
  if (s.kind != StageKind::kMap || !s.fill.empty()) return false;
  for (ExprId l : loads_of(k.pool, s)) {
    for (const View& v : s.store) {
      if (v.buffer == k.pool.at(l).ref) return false;
    }
  }
  return true;
}

}  // namespace tenon::kernelgen
#endif
