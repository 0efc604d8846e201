#include "tenon/kernelgen/fuse/load_time.h"

#include <algorithm>

#include "tenon/kernelgen/fuse/bytes.h"
#include "tenon/kernelgen/fuse/fuse.h"
#include "tenon/kernelgen/fuse/pack.h"
#include "tenon/kernelgen/ir/stages.h"

namespace tenon::kernelgen {
namespace {

// Whether an expression mentions a size of a run, directly or as the extent of an axis.
bool varies(const Pool& p, std::vector<ExprId> todo) {
  p.begin_walk();
  while (!todo.empty()) {
    const ExprId e = todo.back();
    todo.pop_back();
    if (e == kNone || !p.first_visit(e)) continue;
    const Expr& x = p.at(e);
    if (x.kind == X::kExtent) return true;
    if (x.kind == X::kAxis) todo.push_back(p.axes()[x.ref].extent);
    for (ExprId a : p.args(e)) todo.push_back(a);
  }
  return false;
}

bool varies(const Pool& p, const Stage& s) {
  std::vector<ExprId> all;
  for (const ExprId* e : slots(const_cast<Stage&>(s))) all.push_back(*e);
  for (const auto* list : {&s.space, &s.reduce, &s.fill}) {
    for (uint32_t a : *list) all.push_back(p.axes()[a].extent);
  }
  return varies(p, std::move(all));
}

int64_t known_elements(const Pool& p, const std::vector<ExprId>& dims) {
  __int128 n = 1;
  for (ExprId d : dims) n = std::min<__int128>(n * p.value(d).value_or(0), INT64_MAX / 2);
  return static_cast<int64_t>(n);
}

// A load whose index depends on data.
bool gathers(const Pool& p, ExprId load) {
  std::vector<ExprId> inner;
  for (ExprId a : p.args(load).subspan(2)) p.loads(a, &inner);
  return !inner.empty();
}

bool computes(const Pool& p, const std::vector<ExprId>& values) {
  std::vector<ExprId> todo = values;
  p.begin_walk();
  while (!todo.empty()) {
    const ExprId e = todo.back();
    todo.pop_back();
    if (e == kNone || !p.first_visit(e)) continue;
    if (p.at(e).kind == X::kOp && p.type(e) != TENON_I64) return true;
    for (ExprId a : p.args(e)) todo.push_back(a);
  }
  return false;
}

// Whether the stage makes elements adjacent that were not.
bool turns_over(const Pool& p, const Stage& s, size_t result) {
  const ExprId v = s.value[result];
  if (p.at(v).kind != X::kLoad || s.store[result].index.empty() || p.args(v).size() < 3)
    return false;
  const ExprId last = s.store[result].index.back();
  return p.at(last).kind == X::kAxis && p.args(v).back() != last &&
         !p.is_const(p.axes()[p.at(last).ref].extent, 1) && [&] {
           for (ExprId i : p.args(v).subspan(2)) {
             if (p.uses_axis(i, p.at(last).ref)) return true;
           }
           return false;
         }();
}

class Mover {
 public:
  explicit Mover(Kernel& k)
      : k_(k),
        p_(k.pool),
        fixed_(fixed_stages(k)),
        at_run_(k.buffers.size()),
        readers_(k.buffers.size()) {
    for (size_t i = 0; i < k_.stages.size(); ++i) {
      for (const View& v : k_.stages[i].store) at_run_[v.buffer] = at_run_[v.buffer] || !fixed_[i];
      for (ExprId l : loads_of(p_, k_.stages[i])) readers_[p_.at(l).ref].push_back({i, l});
    }
  }

  // Runs before maps are inlined: keeps what pays, although it could be inlined.
  void keep_what_pays() {
    for (size_t i = 0; i < k_.stages.size(); ++i) {
      Stage& s = k_.stages[i];
      for (size_t r = 0; fixed_[i] && s.kind == StageKind::kMap && r < s.store.size(); ++r) {
        if (pays(s, r)) mark(s, r);
      }
    }
  }

  // Runs afterwards: what is left was not worth inlining.
  void keep_the_rest() {
    for (size_t i = 0; i < k_.stages.size(); ++i) {
      for (size_t r = 0; fixed_[i] && r < k_.stages[i].store.size(); ++r) mark(k_.stages[i], r);
    }
  }

 private:
  struct Reader {
    size_t stage;
    ExprId load;
  };

  // All results of a stage move, or none: it runs once.
  void mark(Stage& s, size_t) {
    for (const View& v : s.store) {
      if (k_.buffers[v.buffer].role == Role::kOut || at_run_[v.buffer]) return;
    }
    for (const View& v : s.store) k_.buffers[v.buffer].role = Role::kPersistent;
  }

  bool pays(const Stage& s, size_t result) {
    if (!computes(p_, {s.value[result]}) && !turns_over(p_, s, result)) return false;
    int64_t read = 0;
    for (ExprId l : loads_of(p_, s)) read += known_elements(p_, k_.buffers[p_.at(l).ref].dims);
    if (known_elements(p_, k_.buffers[s.store[result].buffer].dims) > 2 * read) return false;
    bool at_run = false;
    for (const Reader& r : readers_[s.store[result].buffer]) {
      if (fixed_[r.stage]) continue;
      if (gathers(p_, r.load)) return false;
      // A contraction's operand is packed after everything done to it.
      at_run |= k_.stages[r.stage].kind != StageKind::kContract;
    }
    return at_run;
  }

  Kernel& k_;
  Pool& p_;
  std::vector<bool> fixed_;
  std::vector<bool> at_run_;                  // by buffer: a run writes some of it
  std::vector<std::vector<Reader>> readers_;  // by buffer
};

}  // namespace

bool is_fixed(const Kernel& k, ExprId e) {
  std::vector<ExprId> loads;
  k.pool.loads(e, &loads);
  if (loads.empty() || varies(k.pool, std::vector<ExprId>{e})) return false;
  return std::ranges::all_of(loads, [&](ExprId l) {
    const Role role = k.buffers[k.pool.at(l).ref].role;
    return role == Role::kConstant || role == Role::kPersistent;
  });
}

std::vector<bool> fixed_stages(const Kernel& k) {
  const size_t n = k.stages.size();
  std::vector<std::vector<uint32_t>> reads(n);
  std::vector<bool> fixed(n), written(k.buffers.size()), at_run(k.buffers.size());
  for (size_t i = 0; i < n; ++i) {
    for (ExprId l : loads_of(k.pool, k.stages[i])) reads[i].push_back(k.pool.at(l).ref);
    for (const View& v : k.stages[i].store) written[v.buffer] = true;
    fixed[i] = !reads[i].empty() && !varies(k.pool, k.stages[i]);
  }
  const auto of_load = [&](uint32_t b) {
    return k.buffers[b].role == Role::kConstant || k.buffers[b].role == Role::kPersistent ||
           (written[b] && !at_run[b]);
  };
  // Results are computed anew in each run, and all results of one stage at the same time.
  const auto runs = [&](size_t i) {
    const auto late = [&](const View& v) {
      return at_run[v.buffer] || k.buffers[v.buffer].role == Role::kOut;
    };
    return !fixed[i] || std::ranges::any_of(k.stages[i].store, late);
  };
  // A buffer is available at load only if all of it is: a stage that writes one part in a run may
  // come after a stage that reads another part.
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < n; ++i) {
      fixed[i] = fixed[i] && std::ranges::all_of(reads[i], of_load);
      if (!runs(i)) continue;
      for (const View& v : k.stages[i].store) {
        changed = changed || !at_run[v.buffer];
        at_run[v.buffer] = true;
      }
    }
  }
  return fixed;
}

void keep_what_pays(Kernel& program) {
  Mover(program).keep_what_pays();
}
void keep_the_rest(Kernel& program) {
  Mover(program).keep_the_rest();
}

void move_to_load(Kernel& program, const Target& target, Verifier* verifier) {
  const auto step = [&](std::string_view name, auto change) {
    const Kernel before = verifier == nullptr ? Kernel{} : program;
    change(program, target);
    if (verifier != nullptr && !verifier->program(program, name)) program = before;
  };
  step("multiplying bytes", multiply_bytes);
  keep_what_pays(program);
  lay_out(program, target, verifier);
  keep_the_rest(program);
  step("packing constants", pack_constants);
}

}  // namespace tenon::kernelgen
