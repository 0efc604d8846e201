// Data movement after work that cannot be inlined into its consumers: a contraction, a reduction,
// or an element-wise stage that will be in a contraction's epilogue. If no consumer could read the
// elements in place, such a stage stores directly to where the movement would put them.
#include <unordered_set>

#include "tenon/kernelgen/fuse/fuse_internal.h"
#include "tenon/kernelgen/lower/builder.h"

namespace tenon::kernelgen {

bool in_epilogue(const Kernel& k, const Stage& s, const std::vector<bool>& of_contraction) {
  if (s.kind != StageKind::kMap || s.store.size() != 1) return false;
  if (k.pool.at(s.value[0]).kind == X::kLoad) return false;
  for (ExprId l : loads_of(k.pool, s)) {
    if (of_contraction[k.pool.at(l).ref] && element_wise(k, s, l)) return true;
  }
  return false;
}

namespace {

class Placement {
 public:
  explicit Placement(Kernel& k) : k_(k), p_(k.pool) {}

  void run() {
    readers_.resize(k_.buffers.size());
    writer_.assign(k_.buffers.size(), SIZE_MAX);
    of_contraction_.assign(k_.buffers.size(), false);
    dead_.assign(k_.stages.size(), false);
    for (size_t i = 0; i < k_.stages.size(); ++i) {
      const Stage& s = k_.stages[i];
      for (ExprId l : loads_of(p_, s)) {
        std::vector<size_t>& r = readers_[p_.at(l).ref];
        if (r.empty() || r.back() != i) r.push_back(i);
      }
      const bool anchored = s.kind == StageKind::kContract || s.kind == StageKind::kAttention ||
                            in_epilogue(k_, s, of_contraction_);
      for (const View& v : s.store) {
        writer_[v.buffer] = i;
        of_contraction_[v.buffer] = anchored;
      }
    }
    for (size_t i = 0; i < k_.stages.size(); ++i) {
      if (!dead_[i] && moves(i) != ~0u) follow(i);
    }
    size_t kept = 0;
    for (size_t i = 0; i < k_.stages.size(); ++i) {
      if (!dead_[i] && kept++ != i) k_.stages[kept - 1] = std::move(k_.stages[i]);
    }
    k_.stages.resize(kept);
  }

 private:
  // The temp that stage i moves, if nothing else reads it; ~0u: stage i is not such a movement.
  uint32_t moves(size_t i) const {
    const Stage& s = k_.stages[i];
    if (s.kind != StageKind::kMap || s.store.size() != 1 || !plain_store(k_, s, s.store[0]))
      return ~0u;
    const Expr& x = p_.at(s.value[0]);
    if (x.kind != X::kLoad || p_.arg(s.value[0], 0) != kNone ||
        k_.buffers[x.ref].role != Role::kTemp)
      return ~0u;
    if (readers_[x.ref].size() != 1 || k_.buffers[x.ref].type != k_.buffers[s.store[0].buffer].type)
      return ~0u;
    return x.ref;
  }

  bool divides(ExprId e) const {
    std::vector<ExprId> todo{e};
    std::unordered_set<ExprId> seen;
    while (!todo.empty()) {
      const ExprId at = todo.back();
      todo.pop_back();
      if (at == kNone || !seen.insert(at).second) continue;
      const Expr& x = p_.at(at);
      if (x.kind == X::kLoad || (x.kind == X::kOp && (x.op == kFloorDiv || x.op == kMod)))
        return true;
      todo.insert(todo.end(), p_.args(at).begin(), p_.args(at).end());
    }
    return false;
  }

  void follow(size_t first) {
    const uint32_t source = moves(first);
    if (!of_contraction_[source]) return;
    // The chain of movements, and the source of its last element.
    std::vector<size_t> chain{first};
    std::vector<ExprId> from(p_.args(k_.stages[first].value[0]).begin() + 2,
                             p_.args(k_.stages[first].value[0]).end());
    for (;;) {
      const Stage& s = k_.stages[chain.back()];
      const uint32_t y = s.store[0].buffer;
      if (readers_[y].size() != 1 || moves(readers_[y][0]) != y) break;
      const Stage& next = k_.stages[readers_[y][0]];
      std::unordered_map<ExprId, ExprId> map;
      for (size_t d = 0; d < s.store[0].index.size(); ++d) {
        const ExprId axis = s.store[0].index[d],
                     at = p_.arg(next.value[0], static_cast<uint32_t>(d + 2));
        if (p_.at(axis).kind == X::kAxis) map[axis] = at;
      }
      for (ExprId& e : from) e = p_.substitute(e, map);
      chain.push_back(readers_[y][0]);
    }
    bool nameable = k_.buffers[k_.stages[chain.back()].store[0].buffer].role == Role::kTemp;
    for (ExprId e : from) nameable = nameable && !divides(e);
    if (nameable) return;
    for (size_t i : chain) {
      if (!absorb(i)) return;
    }
  }

  // Makes the writer of stage i's input write stage i's output.
  bool absorb(size_t i) {
    Stage& s = k_.stages[i];
    const uint32_t x = p_.at(s.value[0]).ref;
    Stage& w = k_.stages[writer_[x]];
    View* store = nullptr;
    for (View& v : w.store) {
      if (v.buffer == x) store = &v;
    }
    if (store == nullptr || store->guard != kNone) return false;
    std::vector<ExprId> index;
    if (!permuted(s, *store, &index) && !relabelled(s, *store, &index)) return false;
    if (!rows_stay(*store, s.store[0], index)) return false;
    const uint32_t y = s.store[0].buffer;
    store->buffer = y;
    store->index = std::move(index);
    writer_[y] = writer_[x];
    of_contraction_[y] = of_contraction_[x];
    w.origins.insert(w.origins.end(), s.origins.begin(), s.origins.end());
    std::sort(w.origins.begin(), w.origins.end());
    w.origins.erase(std::unique(w.origins.begin(), w.origins.end()), w.origins.end());
    dead_[i] = true;
    return true;
  }

  // y[.. a ..] = x[.. a ..] with permuted axes.
  bool permuted(const Stage& s, const View& store, std::vector<ExprId>* out) const {
    if (!element_wise(k_, s, s.value[0])) return false;
    std::unordered_map<ExprId, ExprId> place;
    for (size_t d = 0; d < store.index.size(); ++d)
      place[p_.arg(s.value[0], static_cast<uint32_t>(d + 2))] = store.index[d];
    for (ExprId e : s.store[0].index) {
      const auto it = place.find(e);
      out->push_back(p_.at(e).kind != X::kAxis || it == place.end() ? p_.integer(0) : it->second);
    }
    return true;
  }

  // The same elements in the same order, under other dims.
  bool relabelled(const Stage& s, const View& store, std::vector<ExprId>* out) {
    out->clear();
    if (!s.relabels) return false;
    const std::vector<ExprId>&from = k_.buffers[store.buffer].dims,
          &to = k_.buffers[s.store[0].buffer].dims;
    *out = relabel(p_, from, store.index, to);
    return true;
  }

  ExprId offset(const View& v, const std::vector<ExprId>& index) {
    ExprId sum = p_.integer(0);
    const Buffer& b = k_.buffers[v.buffer];
    for (size_t d = 0; d < index.size(); ++d) sum = p_.add(sum, p_.mul(index[d], b.strides[d]));
    return sum;
  }

  // Whether neighbours in memory stay neighbours. Otherwise a separate movement in tiles is faster
  // than scattered stores.
  bool rows_stay(const View& before, const View& after, const std::vector<ExprId>& index) {
    const ExprId a = offset(before, before.index), b = offset(after, index);
    for (uint32_t axis = 0; axis < p_.axes().size(); ++axis) {
      if (!p_.uses_axis(a, axis)) continue;
      const uint32_t one[] = {axis};
      std::vector<ExprId> c0, c1;
      ExprId rest = kNone;
      if (!p_.affine(a, one, &c0, &rest) || !p_.is_const(c0[0], 1)) continue;
      return p_.affine(b, one, &c1, &rest) && p_.is_const(c1[0], 1);
    }
    return false;
  }

  Kernel& k_;
  Pool& p_;
  std::vector<std::vector<size_t>> readers_;  // by buffer: stages, in order
  std::vector<size_t> writer_;                // by buffer
  std::vector<bool> of_contraction_;  // by buffer: a contraction writes it, maybe in its epilogue
  std::vector<bool> dead_;
};

}  // namespace

void place_stores(Kernel& program) {
  Placement(program).run();
}

}  // namespace tenon::kernelgen
