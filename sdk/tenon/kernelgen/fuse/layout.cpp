#include "tenon/kernelgen/fuse/layout.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "tenon/kernelgen/fuse/layout_internal.h"
#include "tenon/kernelgen/ir/stages.h"
#include "tenon/kernelgen/schedule/contraction.h"
#include "tenon/kernelgen/schedule/convolution.h"

namespace tenon::kernelgen {
bool Edges::same_order(uint32_t buffer) const {
  const Buffer& b = k_.buffers[buffer];
  const size_t c = static_cast<size_t>(channels[buffer]);
  if (p_.is_const(b.dims[c], 1)) return true;
  for (size_t d = c + 1; d < b.dims.size(); ++d) {
    if (!p_.is_const(b.dims[d], 1)) return false;
  }
  return true;
}

void Edges::order(uint32_t buffer) {
  Buffer& b = k_.buffers[buffer];
  ExprId stride = p_.integer(1);
  auto lay = [&](size_t d) {
    b.strides[d] = stride;
    stride = p_.mul(stride, b.dims[d]);
  };
  const size_t c = static_cast<size_t>(channels[buffer]);
  lay(c);
  for (size_t d = b.dims.size(); d-- > 0;) {
    if (d != c) lay(d);
  }
}

uint32_t Edges::temp(DType type, std::vector<ExprId> dims, int32_t channel) {
  const uint32_t id = static_cast<uint32_t>(k_.buffers.size());
  Buffer b{type, std::move(dims), {}, kNone, Role::kTemp, -1, 0, true};
  b.strides.resize(b.dims.size());
  k_.buffers.push_back(std::move(b));
  channels.push_back(channel < 0 ? static_cast<int32_t>(k_.buffers[id].dims.size()) - 1 : channel);
  if (!k_.buffers[id].dims.empty()) order(id);
  return id;
}
uint32_t Edges::like(uint32_t buffer, int32_t channel) {
  return temp(k_.buffers[buffer].type, k_.buffers[buffer].dims, channel);
}

std::vector<ExprId> Edges::fresh_axes(const std::vector<ExprId>& dims, std::vector<uint32_t>* ids) {
  std::vector<ExprId> axes;
  for (ExprId d : dims) {
    if (p_.is_const(d, 1)) {
      axes.push_back(p_.integer(0));
      continue;
    }
    ids->push_back(p_.add_axis(d));
    axes.push_back(p_.axis(ids->back()));
  }
  return axes;
}

void Edges::copy(uint32_t from, uint32_t to, const std::vector<uint32_t>& origins) {
  Stage s;
  const std::vector<ExprId> axes = fresh_axes(k_.buffers[to].dims, &s.space);
  s.value = {p_.convert(p_.load(from, k_.buffers[from].type, axes), k_.buffers[to].type)};
  s.store = {{to, axes, kNone}};
  s.origins = origins;
  k_.stages.push_back(std::move(s));
}

uint32_t Edges::reordered(uint32_t buffer, int32_t channel, DType type,
                          const std::vector<uint32_t>& origins) {
  auto [it, fresh] = copies_.try_emplace({buffer, channel, type}, 0);
  if (fresh) {
    it->second = temp(type, k_.buffers[buffer].dims, channel);
    copy(buffer, it->second, origins);
  }
  return it->second;
}

bool floats(const Pool& p, ExprId e) {
  return p.at(e).kind == X::kLoad && p.type(e) == TENON_F32;
}

ExprId operand(const Pool& p, ExprId e) {
  const Expr& x = p.at(e);
  if (p.type(e) == TENON_I32) {
    const ExprId narrow = narrow_of(p, e);
    return narrow != kNone && p.at(narrow).kind == X::kLoad ? narrow : kNone;
  }
  if (p.type(e) != TENON_F32) return kNone;
  if (x.kind == X::kOp && x.op == TENON_S_CONVERT) {
    const ExprId from = p.arg(e, 0);
    const bool half = p.type(from) == TENON_F16 || p.type(from) == TENON_BF16;
    return half && p.at(from).kind == X::kLoad ? from : kNone;
  }
  return x.kind == X::kLoad ? e : kNone;
}

uint32_t widest_column(Pool& p, const Stage& s, const std::vector<uint32_t>& axes) {
  uint32_t best = ~0u;
  for (uint32_t a : axes) {
    const std::vector<ExprId>& to = s.store[0].index;
    if (std::find(to.begin(), to.end(), p.axis(a)) == to.end()) continue;
    if (best == ~0u || likely_size(p, p.axes()[a].extent) > likely_size(p, p.axes()[best].extent))
      best = a;
  }
  return best;
}

bool divides(const Pool& p, ExprId e) {
  std::vector<ExprId> todo{e};
  std::unordered_set<ExprId> seen;
  while (!todo.empty()) {
    const ExprId at = todo.back();
    todo.pop_back();
    if (!seen.insert(at).second) continue;
    const Expr& x = p.at(at);
    if (x.kind == X::kOp && (x.op == kFloorDiv || x.op == kMod)) return true;
    todo.insert(todo.end(), p.args(at).begin(), p.args(at).end());
  }
  return false;
}

namespace {

class Layouts {
 public:
  Layouts(Kernel& k, const Target& t)
      : k_(k), p_(k.pool), t_(t), edges_(k), channel_(edges_.channels) {}

  void run() {
    for (Stage& s : k_.stages) {
      find_channels(s);
      mark(s);
    }
    if (std::none_of(k_.stages.begin(), k_.stages.end(),
                     [](const Stage& s) { return s.x_channel >= 0; }))
      return;
    while (propagate()) {
    }
    for (uint32_t b = 0; b < k_.buffers.size(); ++b) {
      if (channel_[b] >= 0 && k_.buffers[b].role == Role::kTemp) edges_.order(b);
    }
    std::unordered_map<uint32_t, uint32_t> writers = count_writers();
    std::vector<Stage> stages = std::move(k_.stages);
    k_.stages.clear();
    for (Stage& s : stages) {
      read_turned(s);
      if (s.x_channel >= 0) {
        convolution_operands(edges_, t_, s);
      } else if (s.kind != StageKind::kMap) {
        linear_operands(s);
      }
      std::vector<std::pair<uint32_t, uint32_t>> turned;  // temp, output
      for (View& v : s.store) {
        if (k_.buffers[v.buffer].role != Role::kOut || channel_[v.buffer] < 0 ||
            edges_.same_order(v.buffer))
          continue;
        // A scatter has two stores to the same buffer.
        auto known = std::ranges::find(turned, v.buffer, &std::pair<uint32_t, uint32_t>::second);
        if (known == turned.end())
          known = turned.insert(known, {edges_.like(v.buffer, channel_[v.buffer]), v.buffer});
        v.buffer = known->first;
      }
      const std::vector<uint32_t> origins = s.origins;
      k_.stages.push_back(std::move(s));
      for (auto [temp, out] : turned) {
        edges_.copy(temp, out, origins);
        if (writers[out] == 1) turned_[out] = temp;
      }
    }
  }

 private:
  // ---- Which buffers ----

  // Movements around a convolution may have renamed dims since it was built. -1: no dim holds only
  // channels any more.
  void find_channels(Stage& s) {
    if (s.x_channel < 0) return;
    const bool plain = s.kind == StageKind::kContract && s.panel == 0 &&
                       operand(p_, s.a) != kNone && operand(p_, s.b) != kNone &&
                       p_.arg(operand(p_, s.a), 0) == kNone && zero_outside(s, operand(p_, s.b));
    const ExprId x = plain ? operand(p_, s.b) : kNone;
    const ContractAxes axes = plain ? contract_axes(p_, s) : ContractAxes{};
    auto uses = [&](ExprId e, const std::vector<uint32_t>& list) {
      return std::any_of(list.begin(), list.end(), [&](uint32_t a) { return p_.uses_axis(e, a); });
    };
    const std::vector<ExprId> at =
        plain ? std::vector<ExprId>(p_.args(x).begin() + 2, p_.args(x).end())
              : std::vector<ExprId>{};
    // Channels are adjacent: a step along them changes no other dim and no bound.
    auto holds_channels = [&](ExprId e) {
      if (uses(e, axes.only_b) || p_.range(e).lo < 0) return false;
      return std::ranges::none_of(s.reduce, [&](uint32_t a) {
        const bool elsewhere =
            std::ranges::count_if(at, [&](ExprId other) { return p_.uses_axis(other, a); }) > 1;
        const ExprId guard = p_.arg(x, 0);
        return p_.uses_axis(e, a) && (elsewhere || (guard != kNone && p_.uses_axis(guard, a)));
      });
    };
    const auto hinted = static_cast<size_t>(s.x_channel);
    s.x_channel = hinted < at.size() && holds_channels(at[hinted]) ? s.x_channel : -1;
    for (size_t d = 0; plain && s.x_channel < 0 && d < at.size(); ++d) {
      if (!p_.is_const(at[d]) && holds_channels(at[d])) s.x_channel = static_cast<int32_t>(d);
    }
    // For the result: the one dim that the columns run along.
    s.out_channel = -1;
    for (size_t d = 0; plain && d < s.store[0].index.size(); ++d) {
      const ExprId e = s.store[0].index[d];
      if (!uses(e, axes.only_a) && !uses(e, axes.both)) continue;
      const bool alone = s.out_channel == -1 && !uses(e, axes.only_b) && !divides(p_, e);
      s.out_channel = alone ? static_cast<int32_t>(d) : -2;
    }
  }

  // Tiles of pixels omit what is outside the input, so it must be zero; a pad of another value does
  // not qualify. Bytes may have a zero point there, which is the same for all.
  bool zero_outside(const Stage& s, ExprId load) const {
    const ExprId other = p_.arg(load, 1);
    if (p_.arg(load, 0) == kNone || (p_.is_const(other) && p_.number_value(other) == 0))
      return true;
    const auto varies = [&](uint32_t axis) { return p_.uses_axis(other, axis); };
    return p_.type(load) == TENON_U8 && std::ranges::none_of(s.space, varies) &&
           std::ranges::none_of(s.reduce, varies);
  }

  void mark(const Stage& s) {
    if (s.x_channel < 0) return;
    want(p_.at(operand(p_, s.b)).ref, s.x_channel);
    if (s.out_channel >= 0) want(s.store[0].buffer, s.out_channel);
  }

  bool want(uint32_t buffer, int32_t channel) {
    const Buffer& b = k_.buffers[buffer];
    if ((b.role != Role::kTemp && b.role != Role::kOut) || b.dims.size() < 3 ||
        channel_[buffer] >= 0 || b.keep)
      return false;
    channel_[buffer] = channel;
    return true;
  }

  std::vector<uint32_t> axes_in(const Stage& s, ExprId e) const {
    std::vector<uint32_t> out;
    for (uint32_t a : s.space) {
      if (p_.uses_axis(e, a)) out.push_back(a);
    }
    return out;
  }

  // Whether each dim of the load runs along the same axes as the store, or along none.
  bool element_wise(const Stage& s, ExprId load, const View& store) const {
    const auto at = p_.args(load).subspan(2);
    if (at.size() != store.index.size()) return false;
    for (size_t d = 0; d < at.size(); ++d) {
      if (!p_.is_const(at[d]) && axes_in(s, at[d]) != axes_in(s, store.index[d])) return false;
    }
    return true;
  }

  bool plain_axis(ExprId e) const { return p_.at(e).kind == X::kAxis; }

  // The dim of `to` that alone has the axis of dim `channel` of `from`; -1: none.
  int32_t counterpart(const Stage& s, ExprId load, const View& store, bool to_store) const {
    const std::vector<ExprId> at(p_.args(load).begin() + 2, p_.args(load).end());
    const std::vector<ExprId>&from = to_store ? at : store.index, &to = to_store ? store.index : at;
    const auto channel = static_cast<size_t>(channel_[to_store ? p_.at(load).ref : store.buffer]);
    if (element_wise(s, load, store)) return static_cast<int32_t>(channel);
    const auto found = std::find(to.begin(), to.end(), from[channel]);
    return plain_axis(from[channel]) && found != to.end() ? static_cast<int32_t>(found - to.begin())
                                                          : -1;
  }

  // A product of pixels with weights that have several dims of their own (a transposed convolution
  // with disjoint windows) is a convolution of one tap, once for each of the other dims.
  bool adopt(Stage& s) {
    if (s.kind != StageKind::kContract || s.x_channel >= 0 || s.panel != 0 || s.reduce.size() != 1)
      return false;
    for (const auto& [w, x] : {std::pair{s.a, s.b}, std::pair{s.b, s.a}}) {
      if (!floats(p_, w) || !floats(p_, x) || p_.arg(w, 0) != kNone || p_.arg(x, 0) != kNone)
        return false;
      const int32_t channel = channel_[p_.at(x).ref];
      if (channel < 0 || p_.arg(x, 2 + static_cast<uint32_t>(channel)) != p_.axis(s.reduce[0]))
        continue;
      Stage turned = s;
      turned.a = w;
      turned.b = x;
      const ContractAxes axes = contract_axes(p_, turned);
      if (!axes.both.empty() || axes.only_a.size() < 2 || axes.only_b.empty()) continue;
      const uint32_t column = widest_column(p_, turned, axes.only_a);
      if (column == ~0u) continue;
      s.a = w;
      s.b = x;
      s.x_channel = channel;
      const std::vector<ExprId>& to = s.store[0].index;
      s.out_channel =
          static_cast<int32_t>(std::find(to.begin(), to.end(), p_.axis(column)) - to.begin());
      want(s.store[0].buffer, s.out_channel);
      return true;
    }
    return false;
  }

  bool propagate() {
    bool changed = false;
    for (Stage& s : k_.stages) {
      if (s.kind == StageKind::kContract) {
        changed |= adopt(s);
        continue;
      }
      std::vector<ExprId> loads;
      for (const auto* list : {&s.value, &s.step, &s.final}) {
        for (ExprId e : *list) p_.loads(e, &loads);
      }
      for (ExprId l : loads) {
        for (const View& v : s.store) {
          const uint32_t from = p_.at(l).ref;
          const bool forward = channel_[from] >= 0;
          if (forward == (channel_[v.buffer] >= 0)) continue;
          const int32_t channel = counterpart(s, l, v, forward);
          if (channel >= 0) changed |= want(forward ? v.buffer : from, channel);
        }
      }
    }
    return changed;
  }

  // Whether a load walks the buffer's memory in strides: a reshape of neighbours in the new order
  // (all pixels as one dim) divides, and yet its offset does not.
  bool in_strides(const Stage& s, ExprId load) {
    std::vector<uint32_t> axes = s.space;
    axes.insert(axes.end(), s.reduce.begin(), s.reduce.end());
    const std::vector<ExprId>& strides = k_.buffers[p_.at(load).ref].strides;
    ExprId offset = p_.integer(0), rest = kNone;
    for (uint32_t d = 0; d < strides.size(); ++d)
      offset = p_.add(offset, p_.mul(p_.arg(load, d + 2), strides[d]));
    std::vector<ExprId> c;
    return p_.affine(offset, axes, &c, &rest);
  }

  // Sums and products that read a channels-last temp through a reshape get a copy in the order of
  // the reshape.
  void linear_operands(Stage& s) {
    std::vector<ExprId> loads;
    for (const auto* list : {&s.step}) {
      for (ExprId e : *list) p_.loads(e, &loads);
    }
    for (ExprId e : {s.a, s.b}) {
      if (e != kNone) p_.loads(e, &loads);
    }
    std::sort(loads.begin(), loads.end());
    std::unordered_map<ExprId, ExprId> map;
    for (ExprId l : loads) {
      const uint32_t b = p_.at(l).ref;
      const std::vector<ExprId> args(p_.args(l).begin(), p_.args(l).end());
      if (channel_[b] < 0 || k_.buffers[b].role != Role::kTemp || edges_.same_order(b)) continue;
      if (std::none_of(args.begin() + 2, args.end(), [&](ExprId e) { return divides(p_, e); }))
        continue;
      if (in_strides(s, l)) continue;
      bool apart = true;
      for (const View& v : s.store) apart = apart && !element_wise(s, l, v);
      if (!apart) continue;
      map[l] = p_.load(edges_.reordered(b, -1, p_.type(l), s.origins), p_.type(l),
                       std::span<const ExprId>(args).subspan(2), args[0], args[1]);
    }
    if (map.empty()) return;
    for (auto* list : {&s.step, &s.final}) {
      for (ExprId& e : *list) e = p_.substitute(e, map);
    }
    s.a = p_.substitute(s.a, map);
    s.b = p_.substitute(s.b, map);
  }

  std::unordered_map<uint32_t, uint32_t> count_writers() const {
    std::unordered_map<uint32_t, uint32_t> writers;
    for (const Stage& s : k_.stages) {
      std::unordered_set<uint32_t> written;
      for (const View& v : s.store) written.insert(v.buffer);
      for (const uint32_t b : written) ++writers[b];
    }
    return writers;
  }

  // Convolutions, and stages whose results are in their order, read an output in the order in which
  // it was made: turned back from the caller's order it would be copied a second time.
  void read_turned(Stage& s) {
    const auto turns = [&](const View& v) { return channel_[v.buffer] >= 0; };
    if (s.x_channel < 0 && std::ranges::none_of(s.store, turns)) return;
    std::unordered_map<ExprId, ExprId> map;
    for (ExprId l : loads_of(p_, s)) {
      const auto turned = turned_.find(p_.at(l).ref);
      if (turned == turned_.end()) continue;
      const std::vector<ExprId> args(p_.args(l).begin(), p_.args(l).end());
      map[l] = p_.load(turned->second, p_.type(l), std::span<const ExprId>(args).subspan(2),
                       args[0], args[1]);
    }
    if (!map.empty()) rewrite(p_, s, map);
  }

  Kernel& k_;
  Pool& p_;
  const Target& t_;
  Edges edges_;
  std::vector<int32_t>& channel_;                  // by buffer: Edges::channels
  std::unordered_map<uint32_t, uint32_t> turned_;  // outputs that one stage made: the temp
};

}  // namespace

void choose_layouts(Kernel& program, const Target& target) {
  if (target.dialect != Dialect::kCpp || target.vector_bytes == 0) return;
  Layouts(program, target).run();
}

}  // namespace tenon::kernelgen
