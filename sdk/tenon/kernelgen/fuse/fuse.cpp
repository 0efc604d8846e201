#include "tenon/kernelgen/fuse/fuse.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "tenon/kernelgen/fuse/fuse_internal.h"
#include "tenon/kernelgen/fuse/layout.h"
#include "tenon/kernelgen/fuse/quotients.h"
#include "tenon/kernelgen/ir/kernel_copy.h"

namespace tenon::kernelgen {
namespace {

// ---- Facts about stages ----

// Rough cycles per element, including loads beyond the first. 0: only moves data.
struct Cost {
  int ops = 0, loads = 0, nodes = 0;
  int narrow = 0;  // of the loads: those of narrow_loads
};

// Whether the index comes from memory, anew at every point.
bool gathers(const Pool& p, ExprId load) {
  for (ExprId at : p.args(load).subspan(2)) {
    if (p.at(at).kind == X::kAxis || p.is_const(at)) continue;
    std::vector<ExprId> todo{at};
    std::unordered_set<ExprId> seen;  // the pool's own walk may be in use
    while (!todo.empty()) {
      const ExprId e = todo.back();
      todo.pop_back();
      if (!seen.insert(e).second) continue;
      if (p.at(e).kind == X::kLoad) {
        for (ExprId a : p.args(e).subspan(2)) {
          if (!p.is_const(a)) return true;
        }
      }
      if (p.at(e).kind == X::kOp) todo.insert(todo.end(), p.args(e).begin(), p.args(e).end());
    }
  }
  return false;
}

void count(const Pool& p, ExprId e, Cost* c) {
  if (e == kNone || !p.first_visit(e)) return;
  const Expr& x = p.at(e);
  ++c->nodes;
  if (x.kind == X::kLoad) ++c->loads;
  if (x.kind == X::kLoad && gathers(p, e)) c->ops += 4;
  if (x.kind == X::kOp && x.type != TENON_I64) {
    switch (x.op) {
      case TENON_S_CONVERT:
      case kRound:
      case TENON_S_BITCAST_RESULT:
        break;
      case TENON_S_DIV:
      case TENON_S_SQRT:
      case TENON_S_RSQRT:
        c->ops += 5;
        break;
      case TENON_S_LGAMMA:
      case TENON_S_DIGAMMA:
      case TENON_S_ERF_INV:
      case TENON_S_POW:
        c->ops += 60;
        break;
      default:
        c->ops += (x.op >= TENON_S_EXP && x.op <= TENON_S_ERFC) || x.op == kExp2 ? 12 : 1;
    }
  }
  // Indices cost little unless they divide.
  if (x.kind == X::kOp && x.type == TENON_I64 && (x.op == kFloorDiv || x.op == kMod)) c->ops += 1;
  for (ExprId a : p.args(e)) count(p, a, c);
}

Cost cost_of(const Pool& p, const std::vector<ExprId>& values) {
  Cost c;
  p.begin_walk();
  for (ExprId v : values) count(p, v, &c);
  return c;
}

// Loads under a value that do not see one of the axes, such as that of a mean of rows. They are of
// little memory, and cost next to nothing.
int narrow_loads(const Pool& p, ExprId value, const std::vector<uint32_t>& axes) {
  std::vector<ExprId> loads;
  p.loads(value, &loads);
  const auto sees_all = [&](ExprId load) {
    return std::ranges::all_of(axes, [&](uint32_t a) {
      return p.is_const(p.axes()[a].extent, 1) || p.uses_axis(load, a);
    });
  };
  return static_cast<int>(
      std::ranges::count_if(loads, [&](ExprId load) { return !sees_all(load); }));
}

// ---- Inlining ----

class Inliner {
 public:
  explicit Inliner(Kernel& k) : k_(k), p_(k.pool) {}

  void run() {
    readers_.resize(k_.buffers.size());
    of_contraction_.assign(k_.buffers.size(), false);
    for (size_t i = 0; i < k_.stages.size(); ++i) note_reads(i);
    for (size_t i = 0; i < k_.stages.size(); ++i) {
      const Stage& s = k_.stages[i];
      if (s.kind == StageKind::kContract || in_epilogue(k_, s, of_contraction_)) {
        for (const View& v : s.store) of_contraction_[v.buffer] = true;
        if (!widens(s)) continue;
      }
      for (size_t r = 0; r < k_.stages[i].store.size(); ++r) consider(i, r);
    }
    drop_dead();
    for (Stage& s : k_.stages) factor_out(s);
    own_axes();
  }

  // Builders share axes among stages. From here on every stage has its own axes, which joining
  // renames.
  void own_axes() {
    std::unordered_set<uint32_t> taken;
    for (Stage& s : k_.stages) own_axes(s, &taken);
  }

 private:
  void note_reads(size_t stage) {
    for (ExprId l : loads_of(p_, k_.stages[stage])) {
      std::vector<size_t>& readers = readers_[p_.at(l).ref];
      const auto at = std::lower_bound(readers.begin(), readers.end(), stage);
      if (at == readers.end() || *at != stage) readers.insert(at, stage);
    }
  }

  // Whether its element is computed from one narrower element alone, as what dequantises bytes
  // does. In its readers it is computed sooner than its result is written and read.
  bool widens(const Stage& s) const {
    if (s.kind != StageKind::kMap || s.store.size() != 1) return false;
    const std::vector<ExprId> loads = loads_of(p_, s);
    return loads.size() == 1 &&
           size_of(p_.type(loads[0])) < size_of(k_.buffers[s.store[0].buffer].type);
  }

  // Moves a scalar factor out of the sum of products, so that the operand is a plain load again.
  void factor_out(Stage& s) {
    if (s.kind != StageKind::kContract || p_.type(s.a) != TENON_F32) return;
    for (ExprId* side : {&s.a, &s.b}) {
      const Expr x = p_.at(*side);
      if (x.kind != X::kOp || x.op != TENON_S_MUL) continue;
      for (uint32_t i = 0; i < 2; ++i) {
        const ExprId factor = p_.arg(*side, i), rest = p_.arg(*side, 1 - i);
        if (!p_.is_const(factor) || p_.at(rest).kind != X::kLoad) continue;
        const ExprId state = p_.state(0, x.type);
        const ExprId scaled = p_.op(TENON_S_MUL, {state, factor});
        for (ExprId& f : s.final) f = p_.substitute(f, {{state, scaled}});
        *side = rest;
        break;
      }
    }
  }

  void own_axes(Stage& s, std::unordered_set<uint32_t>* taken) {
    std::unordered_map<ExprId, ExprId> rename;
    for (uint32_t& a : s.space) {
      if (taken->insert(a).second) continue;
      const uint32_t own = p_.add_axis(p_.axes()[a].extent);
      rename[p_.axis(a)] = p_.axis(own);
      a = own;
    }
    if (!rename.empty()) rewrite(p_, s, rename);
  }

  void consider(size_t producer, size_t result) {
    const Stage& s = k_.stages[producer];
    const View& v = s.store[result];
    if (s.kind != StageKind::kMap || k_.buffers[v.buffer].role != Role::kTemp ||
        !plain_store(k_, s, v))
      return;
    if (k_.buffers[v.buffer].keep) return;
    std::vector<std::pair<size_t, ExprId>> uses;
    for (size_t i : readers_[v.buffer]) {
      for (ExprId l : loads_of(p_, k_.stages[i])) {
        if (p_.at(l).ref == v.buffer) uses.push_back({i, l});
      }
    }
    Cost c = cost_of(p_, {s.value[result]});
    c.narrow = std::min(c.loads, narrow_loads(p_, s.value[result], s.space));
    const bool as_it_lies = reads_as_it_lies(s.value[result]);
    for (auto& [i, l] : uses) {
      const Stage& to = k_.stages[i];
      if (as_it_lies && to.kind == StageKind::kContract && to.x_channel < 0) continue;
      const bool operand =
          to.kind == StageKind::kAttention && (l == to.a || l == to.b || l == to.value[0]);
      if (operand ? !in_strides(s.value[result]) : !wanted(c, uses.size(), to, l)) return;
      if (in_integer_window(to) &&
          (!widened_load(s.value[result]) || pads_channels(to, l, v, s.value[result])))
        return;
    }
    std::vector<size_t> consumers;
    for (auto& u : uses) {
      if (consumers.empty() || consumers.back() != u.first) consumers.push_back(u.first);
    }
    for (size_t i : consumers) {
      replace(k_.stages[i], s, result);
      note_reads(i);
    }
  }

  // Whether the consumer visits several points that read the same element.
  bool repeated(const Stage& consumer, ExprId load) const {
    for (const auto* list : {&consumer.space, &consumer.reduce}) {
      for (uint32_t a : *list) {
        bool used = false;
        for (ExprId e : p_.args(load).subspan(2)) used |= p_.uses_axis(e, a);
        if (!used) return true;
      }
    }
    return false;
  }

  // A convolution of integers, whose tiles read what is computed from its input for each tap.
  bool in_integer_window(const Stage& s) const {
    return s.kind == StageKind::kContract && s.x_channel >= 0 && p_.type(s.a) == TENON_I32;
  }
  bool widened_load(ExprId e) const {
    const bool converts = p_.at(e).kind == X::kOp && p_.at(e).op == TENON_S_CONVERT;
    return p_.at(converts ? p_.arg(e, 0) : e).kind == X::kLoad;
  }

  // Whether a padded value is one of the window's weights, or its padding is in the channels, which
  // tiles read in words.
  bool pads_channels(const Stage& to, ExprId load, const View& v, ExprId value) const {
    if (p_.at(value).kind == X::kOp) value = p_.arg(value, 0);
    const ExprId guard = p_.arg(value, 0);
    if (guard == kNone) return false;
    std::vector<ExprId> weights;
    p_.loads(to.a, &weights);
    if (std::ranges::find(weights, load) != weights.end()) return true;
    const auto channel = static_cast<size_t>(to.x_channel);
    return channel < v.index.size() && p_.at(v.index[channel]).kind == X::kAxis &&
           p_.uses_axis(guard, p_.at(v.index[channel]).ref);
  }

  // Whether the value is an unguarded load whose index is a sum of multiples of axes.
  bool in_strides(ExprId value) const {
    if (p_.at(value).kind != X::kLoad || p_.arg(value, 0) != kNone) return false;
    return sums_of_axes({p_.args(value).begin() + 2, p_.args(value).end()});
  }

  // The same of the place in memory, where that is known: a reshape of what others read, too.
  bool reads_as_it_lies(ExprId value) {
    if (p_.at(value).kind != X::kLoad || p_.arg(value, 0) != kNone) return false;
    const Buffer& b = k_.buffers[p_.at(value).ref];
    const std::vector<ExprId> args(p_.args(value).begin() + 2, p_.args(value).end());
    if (b.role == Role::kTemp || args.size() != b.dims.size()) return false;
    ExprId place = p_.integer(0);
    for (size_t d = 0; d < args.size(); ++d) place = p_.add(p_.mul(place, b.dims[d]), args[d]);
    return sums_of_axes({place});
  }

  bool sums_of_axes(std::vector<ExprId> todo) const {
    while (!todo.empty()) {
      const Expr x = p_.at(todo.back());
      const std::span<const ExprId> args = p_.args(todo.back());
      todo.pop_back();
      if (x.kind == X::kLoad ||
          (x.kind == X::kOp && x.op != TENON_S_ADD && x.op != TENON_S_SUB && x.op != TENON_S_MUL))
        return false;
      todo.insert(todo.end(), args.begin(), args.end());
    }
    return true;
  }

  bool wanted(const Cost& c, size_t uses, const Stage& consumer, ExprId load) const {
    constexpr int kCheap = 3;
    const Cost there =
        cost_of(p_, consumer.kind == StageKind::kMap ? consumer.value : consumer.step);
    // The limits: more streams than a core prefetches, or text that nobody can read.
    if (there.loads + c.loads > 14 || there.nodes + c.nodes > 400)
      return c.ops == 0 && c.loads <= 1;
    if (consumer.kind == StageKind::kContract) return c.ops <= 1 && c.loads <= 2;
    if (c.ops == 0) return true;
    if (c.ops + c.loads - 1 <= kCheap && uses <= 3) return true;
    // Reading the result would cost as much memory as what it is computed from.
    if (c.ops <= kCheap && c.loads - c.narrow <= 1 && uses <= 4) return true;
    return uses == 1 && !repeated(consumer, load);
  }

  void replace(Stage& consumer, const Stage& producer, size_t result) {
    const View& v = producer.store[result];
    std::vector<ExprId> loads = loads_of(p_, consumer);
    // Inner loads first: arguments have smaller ExprIds than their users.
    std::sort(loads.begin(), loads.end());
    std::unordered_map<ExprId, ExprId> map;
    for (ExprId l : loads) {
      if (p_.at(l).ref != v.buffer) continue;
      const std::vector<ExprId> args(p_.args(l).begin(), p_.args(l).end());
      std::unordered_map<ExprId, ExprId> axes;
      for (size_t d = 0; d < v.index.size(); ++d) {
        const ExprId at = p_.substitute(args[d + 2], map);
        if (p_.at(v.index[d]).kind == X::kAxis && at != v.index[d]) axes[v.index[d]] = at;
      }
      const ExprId guard = p_.substitute(args[0], map);
      ExprId value = p_.substitute(producer.value[result], axes, guard);
      if (guard != kNone)
        value = p_.op(TENON_S_SELECT, {guard, value, p_.substitute(args[1], map)});
      map[l] = value;
    }
    rewrite(p_, consumer, map);
    consumer.origins.insert(consumer.origins.begin(), producer.origins.begin(),
                            producer.origins.end());
    std::sort(consumer.origins.begin(), consumer.origins.end());
    consumer.origins.erase(std::unique(consumer.origins.begin(), consumer.origins.end()),
                           consumer.origins.end());
  }

  void drop_dead() {
    std::vector<bool> read(k_.buffers.size(), false), dead(k_.stages.size(), false);
    for (size_t i = k_.stages.size(); i-- > 0;) {
      bool live = false;
      for (const View& v : k_.stages[i].store)
        live |= k_.buffers[v.buffer].role == Role::kOut || read[v.buffer];
      dead[i] = !live;
      if (!live) continue;
      for (ExprId l : loads_of(p_, k_.stages[i])) read[p_.at(l).ref] = true;
    }
    size_t kept = 0;
    for (size_t i = 0; i < k_.stages.size(); ++i) {
      if (!dead[i] && kept++ != i) k_.stages[kept - 1] = std::move(k_.stages[i]);
    }
    k_.stages.resize(kept);
  }

  Kernel& k_;
  Pool& p_;
  std::vector<std::vector<size_t>> readers_;  // by buffer: stages that read it, in order
  std::vector<bool> of_contraction_;          // by buffer: written by a contraction or its epilogue
};

// ---- Joining ----

struct Group {
  std::vector<size_t> stages;
  std::vector<uint32_t> lead;
  bool contract = false, reduces = false, alone = false;
};

class Partition {
 public:
  Partition(Kernel k, const Target& target, Verifier* verifier, std::span<const Hash128> apart)
      : k_(std::move(k)), p_(k_.pool), target_(target), verifier_(verifier), apart_(apart) {}

  std::vector<Split> run() {
    early_first();
    writers_.resize(k_.buffers.size());
    writer_count_.assign(k_.buffers.size(), 0);
    for (const Stage& s : k_.stages) {
      for (const View& v : s.store) ++writer_count_[v.buffer];
    }
    group_of_.assign(k_.stages.size(), SIZE_MAX);
    readers_.resize(k_.buffers.size());
    for (size_t i = 0; i < k_.stages.size(); ++i) {
      for (ExprId l : loads_of(p_, k_.stages[i])) readers_[p_.at(l).ref].push_back(i);
    }
    for (size_t i = 0; i < k_.stages.size(); ++i) place(i);
    if (verifier_ != nullptr && !verifier_->order(k_, group_of_)) each_alone();
    std::vector<Split> out;
    for (size_t g = 0; g < groups_.size();) {
      Kernel kernel = extract(groups_[g]);
      if (groups_[g].stages.size() > 1 && !apart_.empty() &&
          std::ranges::find(apart_, structural_hash(kernel)) != apart_.end()) {
        take_apart(g);
        continue;
      }
      if (verifier_ != nullptr && !verifier_->kernel(kernel, shared(groups_[g], kernel))) {
        if (groups_[g].stages.size() > 1) {
          take_apart(g);
          continue;
        }
        verifier_->error = verifier_->notes.back();
      }
      out.push_back({std::move(kernel), static_cast<uint32_t>(groups_[g].stages.size())});
      ++g;
    }
    return out;
  }

 private:
  // By buffer of the kernel: whether stages of other groups write it too.
  std::vector<bool> shared(const Group& g, const Kernel& kernel) const {
    std::vector<bool> out;
    for (uint32_t origin : kernel.buffer_origin) {
      out.push_back(origin != ~0u && std::ranges::any_of(writers_[origin], [&](size_t w) {
                      return !in_group(g, w);
                    }));
    }
    return out;
  }

  static Group alone(size_t i, const Stage& s) {
    return {
        {i}, s.space, s.kind == StageKind::kContract, s.kind == StageKind::kReduce, s.ordered()};
  }

  // Makes every stage a group of its own, in program order.
  void each_alone() {
    groups_.clear();
    for (size_t i = 0; i < k_.stages.size(); ++i) {
      groups_.push_back(alone(i, k_.stages[i]));
      group_of_[i] = i;
    }
  }

  // Replaces a group by one group per stage, in its place. Kernels before and after see the same
  // memory.
  void take_apart(size_t group) {
    const std::vector<size_t> stages = std::move(groups_[group].stages);
    std::vector<Group> single;
    for (size_t i : stages) single.push_back(alone(i, k_.stages[i]));
    const auto at = groups_.erase(groups_.begin() + static_cast<std::ptrdiff_t>(group));
    groups_.insert(at, single.begin(), single.end());
    for (size_t g = group; g < groups_.size(); ++g) {
      for (size_t i : groups_[g].stages) group_of_[i] = g;
    }
  }

  // Runs stages that need no sum (masks, positions) before all sums, so that an epilogue can read
  // them.
  void early_first() {
    std::vector<bool> late(k_.buffers.size(), false);
    auto early = [&](const Stage& s) {
      bool wait = s.kind != StageKind::kMap;
      for (ExprId l : loads_of(p_, s)) wait = wait || late[p_.at(l).ref];
      wait = wait || s.overlay;
      for (const View& v : s.store) late[v.buffer] = late[v.buffer] || wait;
      return !wait;
    };
    std::vector<Stage> first, then;
    for (Stage& s : k_.stages) (early(s) ? first : then).push_back(std::move(s));
    k_.stages = std::move(first);
    for (Stage& s : then) k_.stages.push_back(std::move(s));
  }

  void place(size_t i) {
    Stage& s = k_.stages[i];
    int64_t last = -1;
    auto after = [&](uint32_t buffer) {
      for (size_t w : writers_[buffer]) last = std::max(last, static_cast<int64_t>(group_of_[w]));
    };
    for (ExprId l : loads_of(p_, s)) {
      if (!persistent(p_.at(l).ref)) after(p_.at(l).ref);
    }
    // An overlay runs after the writers of its buffer and after the readers of the old values.
    for (const View& v : s.store) {
      if (!s.overlay) continue;
      after(v.buffer);
      for (size_t r : readers_[v.buffer]) {
        if (r < i) last = std::max(last, static_cast<int64_t>(group_of_[r]));
      }
    }
    size_t home = groups_.size();
    const bool at_load = persistent(s.store[0].buffer);
    if (last >= 0 && s.kind != StageKind::kContract && !s.ordered() && !at_load &&
        join(groups_[last], s)) {
      home = static_cast<size_t>(last);
    } else if (const size_t sibling = at_load ? SIZE_MAX : find_sibling(last, s);
               sibling != SIZE_MAX) {
      home = sibling;
    } else {
      Group g;
      g.lead = s.space;
      g.contract = s.kind == StageKind::kContract;
      g.alone = s.ordered();
      groups_.push_back(g);
    }
    Group& g = groups_[home];
    g.stages.push_back(i);
    g.reduces |= s.kind == StageKind::kReduce;
    group_of_[i] = home;
    for (const View& v : s.store) writers_[v.buffer].push_back(i);
  }

  bool persistent(uint32_t buffer) const { return k_.buffers[buffer].role == Role::kPersistent; }

  bool in_group(const Group& g, size_t stage) const {
    return group_of_[stage] != SIZE_MAX && &groups_[group_of_[stage]] == &g;
  }

  // The stage of the group that writes the buffer; SIZE_MAX: none. join() ensures that there is at
  // most one.
  size_t own_writer(const Group& g, uint32_t buffer) const {
    for (size_t w : writers_[buffer]) {
      if (in_group(g, w)) return w;
    }
    return SIZE_MAX;
  }

  // Whether an index depends on data that the group itself computes.
  bool indexed_by_own(const Group& g, ExprId load) const {
    std::vector<ExprId> inner;
    for (ExprId a : p_.args(load).subspan(2)) p_.loads(a, &inner);
    return std::ranges::any_of(inner,
                               [&](ExprId l) { return own_writer(g, p_.at(l).ref) != SIZE_MAX; });
  }

  // Maps each lead axis of the group to the axis of `s` that runs along it, from how s reads what
  // the group wrote.
  bool lead_map(const Group& g, const Stage& s, std::unordered_map<uint32_t, uint32_t>* out) {
    std::unordered_map<uint32_t, uint32_t> map;
    std::vector<uint32_t> lost;
    for (ExprId l : loads_of(p_, s)) {
      if (indexed_by_own(g, l)) return false;
      const size_t w = own_writer(g, p_.at(l).ref);
      if (w == SIZE_MAX) continue;
      if (p_.arg(l, 0) != kNone) return false;
      const View* store = nullptr;
      for (const View& v : k_.stages[w].store) {
        if (v.buffer == p_.at(l).ref) store = &v;
      }
      for (uint32_t lead : g.lead) {
        const ExprId axis = p_.axis(lead);
        uint32_t found = ~0u;
        for (size_t d = 0; d < store->index.size(); ++d) {
          const Expr& x = p_.at(p_.arg(l, static_cast<uint32_t>(d + 2)));
          if (store->index[d] == axis && x.kind == X::kAxis) found = x.ref;
        }
        const bool space = std::find(s.space.begin(), s.space.end(), found) != s.space.end();
        if (!space || p_.axes()[found].extent != p_.axes()[lead].extent) {
          lost.push_back(lead);
          continue;
        }
        auto [it, fresh] = map.try_emplace(lead, found);
        if (!fresh && it->second != found) lost.push_back(lead);
      }
    }
    for (uint32_t l : lost) map.erase(l);
    // If two lead axes mapped to one axis of s, it would read a diagonal.
    std::vector<uint32_t> images;
    for (auto& [l, a] : map) images.push_back(a);
    std::sort(images.begin(), images.end());
    if (std::adjacent_find(images.begin(), images.end()) != images.end()) return false;
    *out = map;
    return true;
  }

  int64_t points(const std::vector<uint32_t>& axes, const std::vector<uint32_t>& except) const {
    int64_t n = 1;
    for (uint32_t a : axes) {
      if (std::find(except.begin(), except.end(), a) != except.end()) continue;
      const int64_t d = std::max<int64_t>(1, p_.likely(p_.axes()[a].extent));
      n = n > INT64_MAX / d ? INT64_MAX / 2 : n * d;
    }
    return n;
  }

  // Joins an element-wise stage over exactly the result of a contraction, whatever its index
  // expressions are.
  bool join_epilogue(Group& g, Stage& s) {
    if (s.kind != StageKind::kMap) return false;
    std::unordered_map<ExprId, ExprId> rename;
    for (ExprId l : loads_of(p_, s)) {
      if (indexed_by_own(g, l)) return false;
      const size_t w = own_writer(g, p_.at(l).ref);
      if (w == SIZE_MAX) continue;
      if (p_.arg(l, 0) != kNone) return false;
      for (const View& v : k_.stages[w].store) {
        if (v.buffer != p_.at(l).ref) continue;
        for (size_t d = 0; d < v.index.size(); ++d) {
          const ExprId at = p_.arg(l, static_cast<uint32_t>(d + 2));
          if (p_.is_const(at, 0) && p_.is_const(v.index[d], 0)) continue;
          if (p_.at(at).kind != X::kAxis ||
              p_.axes()[p_.at(at).ref].extent != k_.buffers[v.buffer].dims[d])
            return false;
          auto [it, fresh] = rename.try_emplace(at, v.index[d]);
          if (!fresh && it->second != v.index[d]) return false;
        }
      }
    }
    for (uint32_t a : s.space) {
      if (!rename.count(p_.axis(a))) return false;
    }
    // If two axes of s mapped to one of the contraction, s would write a diagonal.
    for (uint32_t lead : g.lead) {
      if (std::ranges::count_if(
              rename, [&](const auto& each) { return p_.uses_axis(each.second, lead); }) > 1)
        return false;
    }
    if (buffers_of(g, s) > 24) return false;
    rewrite(p_, s, rename);
    s.space = g.lead;
    return true;
  }

  // Whether s reads a `keep` buffer that the group writes: such a buffer is read in its own order.
  bool reads_kept(const Group& g, const Stage& s) const {
    for (ExprId l : loads_of(p_, s)) {
      const uint32_t b = p_.at(l).ref;
      if (k_.buffers[b].keep && own_writer(g, b) != SIZE_MAX) return true;
    }
    return false;
  }

  // Whether s reads or writes a buffer of which the group writes only a part: others write the
  // rest, before or after. Also whether s overlays what the group reads, which other rows may not
  // have read yet.
  bool meets_part(const Group& g, const Stage& s) const {
    auto meets = [&](uint32_t b) { return writer_count_[b] > 1 && own_writer(g, b) != SIZE_MAX; };
    if (s.overlay &&
        std::ranges::any_of(readers_[s.store[0].buffer], [&](size_t r) { return in_group(g, r); }))
      return true;
    return std::ranges::any_of(s.store, [&](const View& v) { return meets(v.buffer); }) ||
           std::ranges::any_of(loads_of(p_, s), [&](ExprId l) { return meets(p_.at(l).ref); });
  }

  bool join(Group& g, Stage& s) {
    if (g.alone || reads_kept(g, s) || meets_part(g, s)) return false;
    if (g.contract) return join_epilogue(g, s);
    std::unordered_map<uint32_t, uint32_t> map;
    if (!lead_map(g, s, &map)) return false;
    std::vector<uint32_t> lead;
    for (uint32_t l : g.lead) {
      if (map.count(l)) lead.push_back(l);
    }
    if (lead.size() != g.lead.size() && !worth_shrinking(g, s, lead)) {
      return false;
    } else if (s.kind == StageKind::kMap && !g.reduces && s.space.size() != lead.size()) {
      // A costly value is broadcast: separate kernels keep both simple.
      return false;
    }
    if (buffers_of(g, s) > 24 || row_bytes(g, lead) > target_.l2_bytes / 2) return false;
    // There is only one row. In a kernel of its own, a long stage is shared by threads.
    constexpr int64_t kLongRow = 1 << 16;
    if (points(lead, {}) <= 1 && std::max(points(s.space, lead), points(s.reduce, {})) > kLongRow)
      return false;
    std::unordered_map<ExprId, ExprId> rename;
    for (uint32_t l : lead) rename[p_.axis(map[l])] = p_.axis(l);
    rewrite(p_, s, rename);
    for (uint32_t l : lead) std::replace(s.space.begin(), s.space.end(), map[l], l);
    g.lead = lead;
    return true;
  }

  // The group after `last` whose stages read what s reads at the same points: a kernel of both
  // reads it once. SIZE_MAX: there is none. Results that nothing here reads may be written sooner,
  // and so may sums; others would occupy memory for longer, so that only the last group takes them.
  size_t find_sibling(int64_t last, Stage& s) {
    const bool sums = s.kind == StageKind::kReduce;
    if ((s.kind != StageKind::kMap && !sums) || s.overlay || s.space.empty()) return SIZE_MAX;
    const bool free = sums || std::ranges::all_of(s.store, [&](const View& v) {
                        return k_.buffers[v.buffer].role == Role::kOut;
                      });
    const auto after = static_cast<size_t>(last + 1);
    const size_t first = free || groups_.empty() ? after : std::max(after, groups_.size() - 1);
    for (size_t g = first; g < groups_.size(); ++g) {
      if (join_sibling(groups_[g], s)) return g;
    }
    return SIZE_MAX;
  }

  bool join_sibling(const Group& g, Stage& s) {
    constexpr size_t kStreams = 12;  // as many as a core prefetches, with some room
    if (g.contract || g.alone || g.stages.empty() || g.lead.size() != s.space.size() ||
        meets_part(g, s) || reads_kept(g, s) || buffers_of(g, s) > kStreams)
      return false;
    if (persistent(k_.stages[g.stages[0]].store[0].buffer)) return false;
    // Sums share a loop with sums only, as maps with maps.
    if (!std::ranges::all_of(g.stages, [&](size_t i) { return k_.stages[i].kind == s.kind; }))
      return false;
    std::unordered_map<ExprId, ExprId> rename;
    for (ExprId mine : loads_of(p_, s)) {
      for (size_t i : g.stages) {
        for (ExprId theirs : loads_of(p_, k_.stages[i])) {
          if (!same_points(k_.stages[i], s, mine, theirs, &rename)) continue;
          std::erase_if(
              rename, [&](const auto& each) { return !contains(s.space, p_.at(each.first).ref); });
          rewrite(p_, s, rename);
          for (uint32_t& a : s.space) a = p_.at(rename[p_.axis(a)]).ref;
          return true;
        }
      }
    }
    return false;
  }

  // Whether two loads read one buffer at all points of stages `of` and s. `rename`: the axes of s
  // as those of the other stage.
  bool same_points(const Stage& of, const Stage& s, ExprId mine, ExprId theirs,
                   std::unordered_map<ExprId, ExprId>* rename) const {
    rename->clear();
    const ExprId guard = p_.arg(mine, 0), other = p_.arg(theirs, 0);
    if (p_.at(mine).ref != p_.at(theirs).ref || (guard == kNone) != (other == kNone) ||
        of.reduce.size() != s.reduce.size())
      return false;
    if (guard != kNone && !same_index(of, s, guard, other, rename)) return false;
    const std::span<const ExprId> a = p_.args(mine).subspan(2), b = p_.args(theirs).subspan(2);
    for (size_t d = 0; d < a.size(); ++d) {
      if (!same_index(of, s, a[d], b[d], rename)) return false;
    }
    std::vector<ExprId> images;
    for (const auto& each : *rename) images.push_back(each.second);
    std::ranges::sort(images);
    return rename->size() == s.space.size() + s.reduce.size() &&
           std::ranges::adjacent_find(images) == images.end();
  }

  // Whether an index of s is one of stage `of` with its axes renamed.
  bool same_index(const Stage& of, const Stage& s, ExprId mine, ExprId theirs,
                  std::unordered_map<ExprId, ExprId>* rename) const {
    const Expr &x = p_.at(mine), &y = p_.at(theirs);
    if (x.kind == X::kAxis && y.kind == X::kAxis) {
      return contains(s.space, x.ref) == contains(of.space, y.ref) &&
             p_.axes()[x.ref].extent == p_.axes()[y.ref].extent &&
             rename->try_emplace(mine, theirs).first->second == theirs;
    }
    if (x.kind != X::kOp || y.kind != X::kOp) return mine == theirs;
    const std::span<const ExprId> a = p_.args(mine), b = p_.args(theirs);
    if (x.op != y.op || x.ref != y.ref || x.type != y.type || a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i) {
      if (!same_index(of, s, a[i], b[i], rename)) return false;
    }
    return true;
  }

  bool worth_shrinking(const Group& g, const Stage& s, const std::vector<uint32_t>& lead) const {
    if (!g.reduces && s.kind != StageKind::kReduce) return false;
    const int64_t rows = points(lead, {});
    const int64_t row = points(g.lead, lead);
    // Too few rows would leave threads idle; small work does not need them.
    return (rows >= 8 || row <= 16384) && (!lead.empty() || row <= 16384);
  }

  size_t buffers_of(const Group& g, const Stage& s) const {
    std::vector<uint32_t> ids;
    auto add = [&](const Stage& t) {
      for (ExprId l : loads_of(p_, t)) ids.push_back(p_.at(l).ref);
      for (const View& v : t.store) ids.push_back(v.buffer);
    };
    for (size_t i : g.stages) add(k_.stages[i]);
    add(s);
    std::sort(ids.begin(), ids.end());
    return static_cast<size_t>(std::unique(ids.begin(), ids.end()) - ids.begin());
  }

  int64_t row_bytes(const Group& g, const std::vector<uint32_t>& lead) const {
    if (g.contract) return 0;
    int64_t bytes = 0;
    auto add = [&](const Stage& t) {
      if (t.kind != StageKind::kMap) return;
      for (const View& v : t.store) {
        const int64_t n = points(t.space, lead);
        bytes += std::min<int64_t>(n, INT64_MAX / 64) * size_of(k_.buffers[v.buffer].type);
      }
    };
    for (size_t i : g.stages) add(k_.stages[i]);
    return bytes;
  }

  // ---- Cutting a group out into a kernel of its own ----

  Kernel extract(const Group& g) {
    Kernel out;
    KernelCopy copy(k_, &out);
    copy.lead(g.lead);
    if (g.contract) {
      copy.stage(with_epilogue(g));
    } else {
      for (size_t i : g.stages) copy.stage(k_.stages[i]);
    }
    for (size_t b = 0; b < out.buffers.size(); ++b) {
      const uint32_t origin = out.buffer_origin[b];
      const bool written = !writers_[origin].empty(), inside = own_writer(g, origin) != SIZE_MAX;
      if (written && !inside) out.buffers[b].role = Role::kIn;
      if (inside && out.buffers[b].role == Role::kTemp && read_outside(g, origin))
        out.buffers[b].role = Role::kOut;
      if (inside && out.buffers[b].role == Role::kPersistent) out.buffers[b].role = Role::kOut;
    }
    for (size_t b = 0; b < out.buffers.size(); ++b) {
      if (out.buffers[b].role == Role::kTemp) out.buffer_origin[b] = ~0u;
    }
    for (size_t b = 0; b < out.buffers.size(); ++b) {
      const uint32_t origin = out.buffer_origin[b];
      const bool reads = std::ranges::any_of(out.stages, [&](const Stage& s) {
        return std::ranges::any_of(loads_of(out.pool, s),
                                   [&](ExprId l) { return out.pool.at(l).ref == b; });
      });
      if (origin != ~0u && !reads && own_writer(g, origin) != SIZE_MAX && disjoint(origin))
        out.parts.push_back(origin);
    }
    share_memory(out);
    return out;
  }

  // Whether several stages write the buffer, each its own elements.
  bool disjoint(uint32_t buffer) const {
    return writers_[buffer].size() > 1 && std::ranges::none_of(writers_[buffer], [&](size_t w) {
             return k_.stages[w].overlay || k_.stages[w].ordered();
           });
  }

  // Merges the element-wise stages after a contraction into its final values: loads of what the
  // group wrote are replaced by the values themselves.
  Stage with_epilogue(const Group& g) {
    Stage out = k_.stages[g.stages[0]];
    std::unordered_map<ExprId, ExprId> known;
    std::vector<ExprId> values = out.final;
    std::vector<View> stores = out.store;
    auto remember = [&](const View& v, ExprId value) {
      known[p_.load(v.buffer, k_.buffers[v.buffer].type, v.index)] = value;
    };
    remember(stores[0], values[0]);
    for (size_t n = 1; n < g.stages.size(); ++n) {
      const Stage& s = k_.stages[g.stages[n]];
      for (size_t r = 0; r < s.store.size(); ++r) {
        values.push_back(p_.substitute(s.value[r], known));
        stores.push_back(s.store[r]);
        remember(stores.back(), values.back());
      }
      out.origins.insert(out.origins.end(), s.origins.begin(), s.origins.end());
    }
    out.final.clear();
    out.store.clear();
    for (size_t i = 0; i < stores.size(); ++i) {
      if (k_.buffers[stores[i].buffer].role != Role::kOut && !read_outside(g, stores[i].buffer))
        continue;
      out.final.push_back(values[i]);
      out.store.push_back(stores[i]);
    }
    return out;
  }

  bool read_outside(const Group& g, uint32_t buffer) const {
    return std::any_of(readers_[buffer].begin(), readers_[buffer].end(),
                       [&](size_t i) { return !in_group(g, i); });
  }

  // A temp row may use the memory of an output row of the same form that is written after the
  // temp's last use: softmax keeps exp(x - max) where the quotient will be.
  void share_memory(Kernel& k) const {
    for (size_t t = 0; t < k.buffers.size(); ++t) {
      Buffer& temp = k.buffers[t];
      if (temp.role != Role::kTemp) continue;
      for (size_t o = 0; o < k.buffers.size(); ++o) {
        const Buffer& out = k.buffers[o];
        if (out.role != Role::kOut || out.type != temp.type || out.dims != temp.dims) continue;
        // Other kernels write parts of it, earlier or concurrently.
        if (writer_count_[k.buffer_origin[o]] > 1) continue;
        if (!same_rows(k, static_cast<uint32_t>(t), static_cast<uint32_t>(o))) continue;
        if (!lives_before(k, static_cast<uint32_t>(t), static_cast<uint32_t>(o))) continue;
        if (!after_others(k, static_cast<uint32_t>(t), static_cast<uint32_t>(o))) continue;
        temp.alias_of = static_cast<int32_t>(o);
        break;
      }
    }
  }

  static const View* store_of(const Kernel& k, uint32_t b) {
    for (const Stage& s : k.stages) {
      for (const View& v : s.store) {
        if (v.buffer == b) return &v;
      }
    }
    return nullptr;
  }

  // Whether each point of the lead axes writes the same elements of both. Otherwise a row of t
  // would overlap memory where another row, perhaps on another thread, writes o (an output that is
  // stored transposed).
  static bool same_rows(const Kernel& k, uint32_t t, uint32_t o) {
    const View *a = store_of(k, t), *b = store_of(k, o);
    if (a == nullptr || b == nullptr || a->index.size() != b->index.size()) return false;
    for (size_t d = 0; d < a->index.size(); ++d) {
      for (uint32_t lead : k.lead) {
        const bool used =
            k.pool.uses_axis(a->index[d], lead) || k.pool.uses_axis(b->index[d], lead);
        if (used && a->index[d] != b->index[d]) return false;
      }
    }
    return true;
  }

  static size_t writer(const Kernel& k, uint32_t b) {
    size_t w = k.stages.size();
    for (size_t i = 0; i < k.stages.size(); ++i) {
      for (const View& v : k.stages[i].store) {
        if (v.buffer == b) w = i;
      }
    }
    return w;
  }

  // Whether temps that already use the memory of o are no longer read once t is written, except by
  // t's own stage at the element it writes.
  static bool after_others(const Kernel& k, uint32_t t, uint32_t o) {
    const size_t w = writer(k, t);
    for (uint32_t u = 0; u < k.buffers.size(); ++u) {
      if (k.buffers[u].alias_of != static_cast<int32_t>(o)) continue;
      if (k.stages[w].kind != StageKind::kMap || writer(k, u) >= w || k.stages[w].store.size() != 1)
        return false;
      for (size_t i = w; i < k.stages.size(); ++i) {
        for (ExprId l : loads_of(k.pool, k.stages[i])) {
          if (k.pool.at(l).ref != u) continue;
          const auto args = k.pool.args(l).subspan(2);
          if (i > w || !std::equal(args.begin(), args.end(), k.stages[w].store[0].index.begin()))
            return false;
        }
      }
    }
    return true;
  }

  // Whether every load of temp t is in a stage before out o is written, or in the writing stage at
  // the very element it writes.
  static bool lives_before(const Kernel& k, uint32_t t, uint32_t o) {
    size_t written = k.stages.size();
    for (size_t i = 0; i < k.stages.size(); ++i) {
      for (const View& v : k.stages[i].store) {
        if (v.buffer == o) written = i;
      }
    }
    if (written == k.stages.size() || k.stages[written].kind != StageKind::kMap) return false;
    if (k.stages[written].store.size() != 1) return false;
    for (size_t i = 0; i < k.stages.size(); ++i) {
      for (ExprId l : loads_of(k.pool, k.stages[i])) {
        if (k.pool.at(l).ref == o) return false;
        if (k.pool.at(l).ref != t || i < written) continue;
        if (i > written) return false;
        const auto args = k.pool.args(l).subspan(2);
        if (!std::equal(args.begin(), args.end(), k.stages[i].store[0].index.begin())) return false;
      }
    }
    return true;
  }

  Kernel k_;
  Pool& p_;
  const Target& target_;
  Verifier* verifier_;
  std::span<const Hash128> apart_;
  std::vector<std::vector<size_t>> writers_;  // by buffer: stages that write it, so far
  std::vector<uint32_t> writer_count_;        // by buffer: writers in the whole program
  std::vector<size_t> group_of_;              // by stage; SIZE_MAX: not placed yet
  std::vector<std::vector<size_t>> readers_;  // by buffer
  std::vector<Group> groups_;
};

// One step of fusion. It is undone if its result breaks a rule.
template <class F>
bool step(Kernel& program, Verifier* verifier, std::string_view name, F change) {
  if (verifier == nullptr) return change(), true;
  Kernel before = program;
  change();
  if (verifier->program(program, name)) return true;
  program = std::move(before);
  return false;
}

}  // namespace

void inline_maps(Kernel& program, Verifier* verifier) {
  step(program, verifier, "placing stores", [&] { place_stores(program); });
  if (!step(program, verifier, "inlining", [&] { Inliner(program).run(); }))
    Inliner(program).own_axes();
}

void lay_out(Kernel& program, const Target& target, Verifier* verifier) {
  inline_maps(program, verifier);
  step(program, verifier, "choosing layouts", [&] { choose_layouts(program, target); });
  step(program, verifier, "strided reductions",
       [&] { vectorise_strided_reductions(program, target); });
  step(program, verifier, "splitting reductions", [&] { split_reductions(program, target); });
  step(program, verifier, "placing parts", [&] { place_parts(program, target); });
}

std::vector<Kernel> split(Kernel program, const Target& target, Verifier* verifier) {
  std::vector<Kernel> out;
  for (Split& each : split_kernels(std::move(program), target, verifier, {}))
    out.push_back(std::move(each.kernel));
  return out;
}

std::vector<Split> split_kernels(Kernel program, const Target& target, Verifier* verifier,
                                 std::span<const Hash128> apart) {
  std::vector<Split> out = Partition(std::move(program), target, verifier, apart).run();
  // What a contraction's results go through is one expression only now.
  for (Split& each : out) multiply_quotients(each.kernel, target);
  return out;
}

std::vector<Kernel> partition(Kernel program, const Target& target, Verifier* verifier) {
  lay_out(program, target, verifier);
  return split(std::move(program), target, verifier);
}

}  // namespace tenon::kernelgen
