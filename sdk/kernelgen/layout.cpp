#include "tenon/kernelgen/layout.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <unordered_map>

#include "tenon/kernelgen/convolution.h"

namespace tenon::kernelgen {
namespace {

bool contains(const std::vector<uint32_t>& v, uint32_t x) { return std::find(v.begin(), v.end(), x) != v.end(); }

class Layouts {
 public:
  Layouts(Kernel& k, const Target& t) : k_(k), p_(k.pool), t_(t), channel_(k.buffers.size(), -1) {}

  void run() {
    for (Stage& s : k_.stages) {
      find_channels(s);
      mark(s);
    }
    if (std::none_of(k_.stages.begin(), k_.stages.end(), [](const Stage& s) { return s.x_channel >= 0; })) return;
    while (propagate()) {
    }
    for (uint32_t b = 0; b < k_.buffers.size(); ++b) {
      if (channel_[b] >= 0 && k_.buffers[b].role == Role::kTemp) order(b);
    }
    std::vector<Stage> stages = std::move(k_.stages);
    k_.stages.clear();
    for (Stage& s : stages) {
      if (s.x_channel >= 0) {
        convolution(s);
      } else if (s.kind != StageKind::kMap) {
        linear_operands(s);
      }
      std::vector<std::pair<uint32_t, uint32_t>> turned;  // temp, output
      for (View& v : s.store) {
        if (k_.buffers[v.buffer].role != Role::kOut || channel_[v.buffer] < 0 || same_order(v.buffer)) continue;
        const uint32_t temp = like(v.buffer, channel_[v.buffer]);
        turned.push_back({temp, v.buffer});
        v.buffer = temp;
      }
      const std::vector<uint32_t> origins = s.origins;
      k_.stages.push_back(std::move(s));
      for (auto [temp, out] : turned) copy(temp, out, origins);
    }
  }

 private:
  // ---- Which buffers ----

  bool floats(E e) const { return p_.at(e).kind == X::kLoad && p_.type(e) == TENON_F32; }

  // The load of an operand that is f32, or 16 bits widened to f32; kNone: another operand.
  E operand(E e) const {
    if (p_.type(e) != TENON_F32) return kNone;
    const Expr& x = p_.at(e);
    if (x.kind == X::kOp && x.op == TENON_S_CONVERT) {
      const E from = p_.arg(e, 0);
      const bool half = p_.type(from) == TENON_F16 || p_.type(from) == TENON_BF16;
      return half && p_.at(from).kind == X::kLoad ? from : kNone;
    }
    return x.kind == X::kLoad ? e : kNone;
  }

  // Movements around a convolution may have renamed dims since it was built; -1: no dim holds channels alone any more.
  void find_channels(Stage& s) {
    if (s.x_channel < 0) return;
    const bool plain = s.kind == StageKind::kContract && s.panel == 0 && operand(s.a) != kNone && operand(s.b) != kNone &&
                       p_.arg(operand(s.a), 0) == kNone;
    const E x = plain ? operand(s.b) : kNone;
    const ContractAxes axes = plain ? contract_axes(p_, s) : ContractAxes{};
    auto uses = [&](E e, const std::vector<uint32_t>& list) {
      return std::any_of(list.begin(), list.end(), [&](uint32_t a) { return p_.uses_axis(e, a); });
    };
    auto holds_channels = [&](E e) {
      if (uses(e, axes.only_b) || p_.range(e).lo < 0) return false;
      const E guard = p_.arg(x, 0);
      return guard == kNone || std::none_of(s.reduce.begin(), s.reduce.end(), [&](uint32_t a) { return p_.uses_axis(e, a) && p_.uses_axis(guard, a); });
    };
    const std::vector<E> at = plain ? std::vector<E>(p_.args(x).begin() + 2, p_.args(x).end()) : std::vector<E>{};
    const auto hinted = static_cast<size_t>(s.x_channel);
    s.x_channel = hinted < at.size() && holds_channels(at[hinted]) ? s.x_channel : -1;
    for (size_t d = 0; plain && s.x_channel < 0 && d < at.size(); ++d) {
      if (!p_.is_const(at[d]) && holds_channels(at[d])) s.x_channel = static_cast<int32_t>(d);
    }
    // Of the result: the one dim that the columns run along.
    s.out_channel = -1;
    for (size_t d = 0; plain && d < s.store[0].index.size(); ++d) {
      const E e = s.store[0].index[d];
      if (!uses(e, axes.only_a) && !uses(e, axes.both)) continue;
      const bool alone = s.out_channel == -1 && !uses(e, axes.only_b) && !divides(e);
      s.out_channel = alone ? static_cast<int32_t>(d) : -2;
    }
  }

  void mark(const Stage& s) {
    if (s.x_channel < 0) return;
    want(p_.at(operand(s.b)).ref, s.x_channel);
    if (s.out_channel >= 0) want(s.store[0].buffer, s.out_channel);
  }

  bool want(uint32_t buffer, int32_t channel) {
    const Buffer& b = k_.buffers[buffer];
    if ((b.role != Role::kTemp && b.role != Role::kOut) || b.dims.size() < 3 || channel_[buffer] >= 0 || b.keep) return false;
    channel_[buffer] = channel;
    return true;
  }

  std::vector<uint32_t> axes_in(const Stage& s, E e) const {
    std::vector<uint32_t> out;
    for (uint32_t a : s.space) {
      if (p_.uses_axis(e, a)) out.push_back(a);
    }
    return out;
  }

  // Dim by dim the load runs along what the store runs along, if it runs at all.
  bool element_wise(const Stage& s, E load, const View& store) const {
    const auto at = p_.args(load).subspan(2);
    if (at.size() != store.index.size()) return false;
    for (size_t d = 0; d < at.size(); ++d) {
      if (!p_.is_const(at[d]) && axes_in(s, at[d]) != axes_in(s, store.index[d])) return false;
    }
    return true;
  }

  bool plain_axis(E e) const { return p_.at(e).kind == X::kAxis; }

  // The dim of `to` that runs along what dim `channel` of `from` runs along, alone; -1: none.
  int32_t counterpart(const Stage& s, E load, const View& store, bool to_store) const {
    const std::vector<E> at(p_.args(load).begin() + 2, p_.args(load).end());
    const std::vector<E>&from = to_store ? at : store.index, &to = to_store ? store.index : at;
    const auto channel = static_cast<size_t>(channel_[to_store ? p_.at(load).ref : store.buffer]);
    if (element_wise(s, load, store)) return static_cast<int32_t>(channel);
    const auto found = std::find(to.begin(), to.end(), from[channel]);
    return plain_axis(from[channel]) && found != to.end() ? static_cast<int32_t>(found - to.begin()) : -1;
  }

  // A product of pixels with weights that have several dims of their own (a transposed convolution whose windows do
  // not meet) is a convolution of one tap, once for each of the other dims.
  bool adopt(Stage& s) {
    if (s.kind != StageKind::kContract || s.x_channel >= 0 || s.panel != 0 || s.reduce.size() != 1) return false;
    for (const auto& [w, x] : {std::pair{s.a, s.b}, std::pair{s.b, s.a}}) {
      if (!floats(w) || !floats(x) || p_.arg(w, 0) != kNone || p_.arg(x, 0) != kNone) return false;
      const int32_t channel = channel_[p_.at(x).ref];
      if (channel < 0 || p_.arg(x, 2 + static_cast<uint32_t>(channel)) != p_.axis(s.reduce[0])) continue;
      Stage turned = s;
      turned.a = w;
      turned.b = x;
      const ContractAxes axes = contract_axes(p_, turned);
      if (!axes.both.empty() || axes.only_a.size() < 2 || axes.only_b.empty()) continue;
      const uint32_t column = widest_column(turned, axes.only_a);
      if (column == ~0u) continue;
      s.a = w;
      s.b = x;
      s.x_channel = channel;
      const std::vector<E>& to = s.store[0].index;
      s.out_channel = static_cast<int32_t>(std::find(to.begin(), to.end(), p_.axis(column)) - to.begin());
      want(s.store[0].buffer, s.out_channel);
      return true;
    }
    return false;
  }

  // Of these axes the longest that a dim of the result runs along alone.
  uint32_t widest_column(const Stage& s, const std::vector<uint32_t>& axes) const {
    uint32_t best = ~0u;
    for (uint32_t a : axes) {
      const std::vector<E>& to = s.store[0].index;
      if (std::find(to.begin(), to.end(), p_.axis(a)) == to.end()) continue;
      if (best == ~0u || likely_size(p_, p_.axes()[a].extent) > likely_size(p_, p_.axes()[best].extent)) best = a;
    }
    return best;
  }

  bool propagate() {
    bool changed = false;
    for (Stage& s : k_.stages) {
      if (s.kind == StageKind::kContract) {
        changed |= adopt(s);
        continue;
      }
      std::vector<E> loads;
      for (const auto* list : {&s.value, &s.step, &s.final}) {
        for (E e : *list) p_.loads(e, &loads);
      }
      for (E l : loads) {
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

  // Channels are innermost in row-major order too.
  bool same_order(uint32_t buffer) const {
    const Buffer& b = k_.buffers[buffer];
    const size_t c = static_cast<size_t>(channel_[buffer]);
    if (p_.is_const(b.dims[c], 1)) return true;
    for (size_t d = c + 1; d < b.dims.size(); ++d) {
      if (!p_.is_const(b.dims[d], 1)) return false;
    }
    return true;
  }

  void order(uint32_t buffer) {
    Buffer& b = k_.buffers[buffer];
    E stride = p_.integer(1);
    auto lay = [&](size_t d) {
      b.strides[d] = stride;
      stride = p_.mul(stride, b.dims[d]);
    };
    const size_t c = static_cast<size_t>(channel_[buffer]);
    lay(c);
    for (size_t d = b.dims.size(); d-- > 0;) {
      if (d != c) lay(d);
    }
  }

  // ---- Stages at the edges ----

  // A new temp; channel < 0: row-major.
  uint32_t temp(DType type, std::vector<E> dims, int32_t channel) {
    const uint32_t id = static_cast<uint32_t>(k_.buffers.size());
    Buffer b{type, std::move(dims), {}, kNone, Role::kTemp, -1, 0, true};
    b.strides.resize(b.dims.size());
    k_.buffers.push_back(std::move(b));
    channel_.push_back(channel < 0 ? static_cast<int32_t>(k_.buffers[id].dims.size()) - 1 : channel);
    if (!k_.buffers[id].dims.empty()) order(id);
    return id;
  }
  uint32_t like(uint32_t buffer, int32_t channel) { return temp(k_.buffers[buffer].type, k_.buffers[buffer].dims, channel); }

  std::vector<E> fresh_axes(const std::vector<E>& dims, std::vector<uint32_t>* ids) {
    std::vector<E> axes;
    for (E d : dims) {
      if (p_.is_const(d, 1)) {
        axes.push_back(p_.integer(0));
        continue;
      }
      ids->push_back(p_.add_axis(d));
      axes.push_back(p_.axis(ids->back()));
    }
    return axes;
  }

  void copy(uint32_t from, uint32_t to, const std::vector<uint32_t>& origins) {
    Stage s;
    const std::vector<E> axes = fresh_axes(k_.buffers[to].dims, &s.space);
    s.value = {p_.convert(p_.load(from, k_.buffers[from].type, axes), k_.buffers[to].type)};
    s.store = {{to, axes, kNone}};
    s.origins = origins;
    k_.stages.push_back(std::move(s));
  }

  uint32_t reordered(uint32_t buffer, int32_t channel, DType type, const std::vector<uint32_t>& origins) {
    auto [it, fresh] = copies_.try_emplace({buffer, channel, type}, 0);
    if (fresh) {
      it->second = temp(type, k_.buffers[buffer].dims, channel);
      copy(buffer, it->second, origins);
    }
    return it->second;
  }

  bool divides(E e) const {
    const Expr& x = p_.at(e);
    if (x.kind == X::kOp && (x.op == kFloorDiv || x.op == kMod)) return true;
    return std::any_of(p_.args(e).begin(), p_.args(e).end(), [&](E a) { return divides(a); });
  }

  // Sums and products that read a channels-last temp through a reshape get it in the order of the reshape.
  void linear_operands(Stage& s) {
    std::vector<E> loads;
    for (const auto* list : {&s.step}) {
      for (E e : *list) p_.loads(e, &loads);
    }
    for (E e : {s.a, s.b}) {
      if (e != kNone) p_.loads(e, &loads);
    }
    std::sort(loads.begin(), loads.end());
    std::unordered_map<E, E> map;
    for (E l : loads) {
      const uint32_t b = p_.at(l).ref;
      const std::vector<E> args(p_.args(l).begin(), p_.args(l).end());
      if (channel_[b] < 0 || k_.buffers[b].role != Role::kTemp || same_order(b)) continue;
      if (std::none_of(args.begin() + 2, args.end(), [&](E e) { return divides(e); })) continue;
      bool apart = true;
      for (const View& v : s.store) apart = apart && !element_wise(s, l, v);
      if (!apart) continue;
      map[l] = p_.load(reordered(b, -1, p_.type(l), s.origins), p_.type(l), std::span<const E>(args).subspan(2), args[0], args[1]);
    }
    if (map.empty()) return;
    for (auto* list : {&s.step, &s.final}) {
      for (E& e : *list) e = p_.substitute(e, map);
    }
    s.a = p_.substitute(s.a, map);
    s.b = p_.substitute(s.b, map);
  }

  // ---- Convolutions ----

  struct Window {
    ContractAxes axes;
    std::vector<uint32_t> spatial, in;  // of the reduction: positions of the filter; features
  };

  void convolution(Stage& s) {
    Window w{contract_axes(p_, s), {}, {}};
    const E channels = p_.args(operand(s.b))[2 + static_cast<size_t>(s.x_channel)];
    for (uint32_t a : s.reduce) (p_.uses_axis(channels, a) ? w.in : w.spatial).push_back(a);
    const bool depthwise = w.axes.only_a.empty() && w.axes.both.size() == 1 && w.in.empty();
    // One pixel is a matrix times a vector, which is best read along its rows.
    const bool tiled = (depthwise || widest_column(s, w.axes.only_a) != ~0u) && w.in.size() <= 1 && !w.axes.only_b.empty() && known(s);
    if (!tiled) return floats(s.b) ? channels_last_input(s) : void();
    if (depthwise || !few_channels(w) || !padded_input(s, w)) channels_last_input(s);
    depthwise ? pack_channels(s, w) : pack_panels(s, w);
  }

  // The filter has a known size that is worth a table of its taps.
  bool known(const Stage& s) const {
    constexpr double kTaps = 2048;
    double taps = 1;
    for (uint32_t a : s.reduce) taps *= static_cast<double>(likely_size(p_, p_.axes()[a].extent));
    const E channels = p_.args(operand(s.b))[2 + static_cast<size_t>(s.x_channel)];
    for (uint32_t a : s.reduce) {
      if (p_.uses_axis(channels, a)) taps /= static_cast<double>(likely_size(p_, p_.axes()[a].extent));
    }
    return taps <= kTaps && std::all_of(s.reduce.begin(), s.reduce.end(), [&](uint32_t a) { return p_.value(p_.axes()[a].extent).has_value(); });
  }

  // The input with its channels side by side, as f32.
  void channels_last_input(Stage& s) {
    const E from = operand(s.b);
    const uint32_t x = p_.at(from).ref;
    const Buffer& b = k_.buffers[x];
    const bool in_order = b.dims.size() < 3 || p_.is_const(b.strides[static_cast<size_t>(s.x_channel)], 1) || p_.is_const(b.dims[static_cast<size_t>(s.x_channel)], 1);
    if (from == s.b && in_order) return;
    const uint32_t turned = reordered(x, s.x_channel, TENON_F32, s.origins);
    const std::vector<E> args(p_.args(from).begin(), p_.args(from).end());
    s.b = p_.load(turned, TENON_F32, std::span<const E>(args).subspan(2), args[0], args[0] == kNone ? kNone : p_.number(0, TENON_F32));
  }

  bool few_channels(const Window& w) const {
    constexpr int64_t kFew = 8;
    const int64_t in = w.in.empty() ? 1 : p_.value(p_.axes()[w.in[0]].extent).value_or(kFew);
    return in < kFew && !w.spatial.empty() && w.axes.both.empty();
  }

  bool bounds_only(E guard) const {
    const Expr& x = p_.at(guard);
    if (x.kind != X::kOp) return false;
    if (x.op == TENON_S_AND) return bounds_only(p_.arg(guard, 0)) && bounds_only(p_.arg(guard, 1));
    return x.op == TENON_S_CMP && x.ref != TENON_CMP_EQ && x.ref != TENON_CMP_NE && !divides(guard);
  }

  // A copy of the input that has its padding around it: then no tap is outside, and the taps of a row lie in one run.
  bool padded_input(Stage& s, const Window& w) {
    const E load = operand(s.b);
    const uint32_t x = p_.at(load).ref;
    const std::vector<E> args(p_.args(load).begin(), p_.args(load).end());
    // Gaps between the elements of a spread input are no padding.
    if (args[0] != kNone && !bounds_only(args[0])) return false;
    std::vector<E> dims, low, index;
    std::vector<uint32_t> moving = w.axes.only_b;
    moving.insert(moving.end(), w.spatial.begin(), w.spatial.end());
    for (size_t d = 0; d < k_.buffers[x].dims.size(); ++d) {
      const E at = args[d + 2];
      std::vector<E> c;
      E rest;
      if (static_cast<int32_t>(d) == s.x_channel) {
        dims.push_back(k_.buffers[x].dims[d]);
        low.push_back(p_.integer(0));
        index.push_back(at);
        continue;
      }
      if (!p_.affine(at, moving, &c, &rest)) return false;
      E size = p_.integer(1);
      for (size_t i = 0; i < moving.size(); ++i) {
        if (p_.range(c[i]).lo < 0) return false;
        size = p_.add(size, p_.mul(c[i], p_.sub(p_.axes()[moving[i]].extent, p_.integer(1))));
      }
      dims.push_back(size);
      low.push_back(rest);
      index.push_back(p_.sub(at, rest));
    }
    if (load == s.b && args[0] == kNone && p_.is_const(k_.buffers[x].strides[static_cast<size_t>(s.x_channel)], 1)) return false;
    const uint32_t padded = temp(TENON_F32, dims, s.x_channel);
    Stage fill;
    const std::vector<E> axes = fresh_axes(dims, &fill.space);
    std::vector<E> from;
    E guard = kNone;
    for (size_t d = 0; d < dims.size(); ++d) {
      from.push_back(p_.add(axes[d], low[d]));
      guard = p_.both(guard, p_.cmp(TENON_CMP_GE, from[d], p_.integer(0)));
      guard = p_.both(guard, p_.cmp(TENON_CMP_LT, from[d], k_.buffers[x].dims[d]));
    }
    fill.value = {p_.convert(p_.load(x, p_.type(load), from, guard), TENON_F32)};
    fill.store = {{padded, axes, kNone}};
    fill.origins = s.origins;
    k_.stages.push_back(std::move(fill));
    s.b = p_.load(padded, TENON_F32, index);
    return true;
  }

  uint32_t lanes() const { return t_.vector_bytes / size_of(TENON_F32); }

  // Runs `fill` for new axes in place of those of the weights; returns the buffer.
  uint32_t packed(const Stage& s, const std::vector<uint32_t>& kept, E columns, uint32_t column, int64_t panel, bool channels) {
    std::vector<E> dims;
    for (uint32_t a : kept) dims.push_back(p_.axes()[a].extent);
    const E panels = p_.ceildiv(columns, panel);
    Stage fill;
    std::unordered_map<E, E> map;
    std::vector<E> index = fresh_axes(dims, &fill.space);
    for (size_t i = 0; i < kept.size(); ++i) map[p_.axis(kept[i])] = index[i];
    dims.push_back(panels);
    dims.push_back(p_.integer(panel));
    std::vector<uint32_t> last;
    const std::vector<E> split = fresh_axes({panels, p_.integer(panel)}, &last);
    fill.space.insert(fill.space.end(), last.begin(), last.end());
    index.insert(index.end(), split.begin(), split.end());
    const E col = p_.add(p_.mul(split[0], p_.integer(panel)), split[1]);
    const bool exact = p_.value(columns) && *p_.value(columns) % panel == 0;
    map[p_.axis(column)] = col;
    fill.value = {p_.substitute(s.a, map, exact ? kNone : p_.cmp(TENON_CMP_LT, col, columns))};
    const uint32_t id = temp(p_.type(s.a), dims, -1);
    Buffer& b = k_.buffers[id];
    // Depthwise: [taps, channels]. Else [outer, panels, taps, panel]: what is left of the taps comes after the panels.
    const size_t n = kept.size();
    if (!channels) {
      E stride = p_.integer(1);
      auto lay = [&](size_t d) {
        b.strides[d] = stride;
        stride = p_.mul(stride, b.dims[d]);
      };
      lay(n + 1);
      size_t outer = 0;
      while (outer < n && contains(s.space, kept[outer])) ++outer;
      for (size_t d = n; d-- > outer;) lay(d);
      lay(n);
      for (size_t d = outer; d-- > 0;) lay(d);
    }
    fill.store = {{id, index, kNone}};
    fill.origins = s.origins;
    k_.stages.push_back(std::move(fill));
    return id;
  }

  void use_packed(Stage& s, uint32_t id, const std::vector<uint32_t>& kept, uint32_t column, int64_t panel) {
    std::vector<E> index;
    for (uint32_t a : kept) index.push_back(p_.axis(a));
    const E c = p_.axis(column);
    index.push_back(p_.floordiv(c, p_.integer(panel)));
    index.push_back(p_.mod(c, p_.integer(panel)));
    s.a = p_.load(id, p_.type(s.a), index);
    s.panel = static_cast<uint32_t>(panel);
  }

  void pack_panels(Stage& s, const Window& w) {
    int64_t m = 1;
    for (uint32_t a : w.axes.only_b) m *= likely_size(p_, p_.axes()[a].extent);
    const uint32_t column = widest_column(s, w.axes.only_a);
    const E columns = p_.axes()[column].extent;
    const TileShape tile = convolution_tile(t_, lanes(), m, likely_size(p_, columns), 0);
    const int64_t panel = int64_t{tile.nr} * lanes();
    std::vector<uint32_t> kept = w.axes.both;
    std::copy_if(w.axes.only_a.begin(), w.axes.only_a.end(), std::back_inserter(kept), [&](uint32_t a) { return a != column; });
    kept.insert(kept.end(), w.spatial.begin(), w.spatial.end());
    kept.insert(kept.end(), w.in.begin(), w.in.end());
    use_packed(s, packed(s, kept, columns, column, panel, false), kept, column, panel);
  }

  // [taps, channels], the channels rounded up to whole vectors.
  void pack_channels(Stage& s, const Window& w) {
    const uint32_t column = w.axes.both[0];
    const E columns = p_.axes()[column].extent;
    const uint32_t id = packed(s, w.spatial, columns, column, lanes(), true);
    use_packed(s, id, w.spatial, column, lanes());
    const int64_t vectors = std::min<int64_t>(kDepthwiseVectors, (likely_size(p_, columns) + lanes() - 1) / lanes());
    s.panel = static_cast<uint32_t>(vectors * lanes());
  }

  Kernel& k_;
  Pool& p_;
  const Target& t_;
  std::vector<int32_t> channel_;  // by buffer: the dim of its channels, wanted innermost; -1: no wish
  std::map<std::tuple<uint32_t, int32_t, DType>, uint32_t> copies_;
};

}  // namespace

void choose_layouts(Kernel& program, const Target& target) {
  if (target.dialect != Dialect::kCpp || target.vector_bytes == 0) return;
  Layouts(program, target).run();
}

}  // namespace tenon::kernelgen
