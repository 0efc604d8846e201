// Lays out operands of convolutions as register tiles read them: weights in panels, adjacent
// channels, padded copies.
#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "tenon/kernelgen/fuse/convolution_choice.h"
#include "tenon/kernelgen/fuse/layout_internal.h"
#include "tenon/kernelgen/schedule/contraction.h"
#include "tenon/kernelgen/schedule/convolution.h"

namespace tenon::kernelgen {
namespace {

class Operands {
 public:
  Operands(Edges& edges, Kernel& k, const Target& t) : edges_(edges), k_(k), p_(k.pool), t_(t) {}

  void convolution(Stage& s) {
    choice_ = choose_convolution(k_, t_, s);
    s.note = "convolution: " + choice_.reason;
    acc_ = p_.type(s.a);
    const bool depthwise = choice_.form == ConvolutionForm::kDepthwise;
    if (choice_.form == ConvolutionForm::kProduct) {
      // Without pixels around it, a channel is read where it is unless tiles load it with others.
      const bool pixels = k_.buffers[p_.at(operand(p_, s.b)).ref].dims.size() >= 3;
      if (pixels && floats(p_, s.b)) channels_last_input(s);
      return;
    }
    if (depthwise || acc_ == TENON_I32 || !few_channels() || !padded_input(s))
      channels_last_input(s);
    depthwise ? pack_channels(s) : pack_panels(s);
  }

 private:
  // The types that tiles read of the input and of the weights: f32, or narrow integers. Where lanes
  // run along channels, each is widened as it is read.
  DType read_type(DType from) const {
    return acc_ == TENON_I32 && choice_.steps == 1 ? from
                                                   : operand_type(acc_, choice_.steps, false);
  }
  DType weight_type() const { return operand_type(acc_, choice_.steps, true); }

  // Makes the input channels-last, as the type that tiles read.
  void channels_last_input(Stage& s) {
    const ExprId from = operand(p_, s.b);
    const uint32_t x = p_.at(from).ref;
    const Buffer& b = k_.buffers[x];
    const bool in_order = p_.is_const(b.strides[static_cast<size_t>(s.x_channel)], 1) ||
                          p_.is_const(b.dims[static_cast<size_t>(s.x_channel)], 1);
    const DType read = read_type(p_.type(from));
    if (p_.type(from) == read && in_order) return;
    const uint32_t turned = edges_.reordered(x, s.x_channel, read, s.origins);
    const std::vector<ExprId> args(p_.args(from).begin(), p_.args(from).end());
    const ExprId load = p_.load(turned, read, std::span<const ExprId>(args).subspan(2), args[0],
                                args[0] == kNone ? kNone : p_.convert(args[1], read));
    s.b = p_.convert(load, p_.type(s.b));
  }

  bool few_channels() const {
    constexpr int64_t kFew = 8;
    const int64_t in =
        choice_.in.empty() ? 1 : p_.value(p_.axes()[choice_.in[0]].extent).value_or(kFew);
    return in < kFew && !choice_.spatial.empty() && choice_.axes.both.empty();
  }

  bool bounds_only(ExprId guard) const {
    const Expr& x = p_.at(guard);
    if (x.kind != X::kOp) return false;
    if (x.op == TENON_S_AND) return bounds_only(p_.arg(guard, 0)) && bounds_only(p_.arg(guard, 1));
    return x.op == TENON_S_CMP && x.ref != TENON_CMP_EQ && x.ref != TENON_CMP_NE &&
           !divides(p_, guard);
  }

  // Copies the input with its padding. Then no tap is outside, and the taps of a row are one run of
  // memory.
  bool padded_input(Stage& s) {
    const ExprId load = operand(p_, s.b);
    const uint32_t x = p_.at(load).ref;
    const std::vector<ExprId> args(p_.args(load).begin(), p_.args(load).end());
    // Gaps between the elements of a dilated input are not padding.
    if (args[0] != kNone && !bounds_only(args[0])) return false;
    std::vector<ExprId> dims, low, index;
    std::vector<uint32_t> moving = choice_.axes.only_b;
    moving.insert(moving.end(), choice_.spatial.begin(), choice_.spatial.end());
    for (size_t d = 0; d < k_.buffers[x].dims.size(); ++d) {
      const ExprId at = args[d + 2];
      std::vector<ExprId> c;
      ExprId rest;
      if (static_cast<int32_t>(d) == s.x_channel) {
        dims.push_back(k_.buffers[x].dims[d]);
        low.push_back(p_.integer(0));
        index.push_back(at);
        continue;
      }
      if (!p_.affine(at, moving, &c, &rest)) return false;
      ExprId size = p_.integer(1);
      for (size_t i = 0; i < moving.size(); ++i) {
        if (p_.range(c[i]).lo < 0) return false;
        size = p_.add(size, p_.mul(c[i], p_.sub(p_.axes()[moving[i]].extent, p_.integer(1))));
      }
      dims.push_back(size);
      low.push_back(rest);
      index.push_back(p_.sub(at, rest));
    }
    if (load == s.b && args[0] == kNone &&
        p_.is_const(k_.buffers[x].strides[static_cast<size_t>(s.x_channel)], 1))
      return false;
    const uint32_t padded = edges_.temp(TENON_F32, dims, s.x_channel);
    Stage fill;
    const std::vector<ExprId> axes = edges_.fresh_axes(dims, &fill.space);
    std::vector<ExprId> from;
    ExprId guard = kNone;
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

  // Runs `fill` over new axes in place of those of the weights; returns the buffer. With several
  // steps per lane, the last kept axis is cut into words, and their steps are the last dim.
  uint32_t packed(const Stage& s, const std::vector<uint32_t>& kept, ExprId columns,
                  uint32_t column, int64_t panel, bool channels) {
    std::vector<ExprId> dims;
    for (uint32_t a : kept) dims.push_back(p_.axes()[a].extent);
    const ExprId each = p_.integer(choice_.steps);
    if (choice_.steps > 1) dims.back() = p_.floordiv(dims.back(), each);
    const ExprId panels = p_.ceildiv(columns, panel);
    Stage fill;
    std::unordered_map<ExprId, ExprId> map;
    std::vector<ExprId> index = edges_.fresh_axes(dims, &fill.space);
    for (size_t i = 0; i < kept.size(); ++i) map[p_.axis(kept[i])] = index[i];
    std::vector<ExprId> ends = {panels, p_.integer(panel)};
    if (choice_.steps > 1) ends.push_back(each);
    dims.insert(dims.end(), ends.begin(), ends.end());
    std::vector<uint32_t> last;
    const std::vector<ExprId> split = edges_.fresh_axes(ends, &last);
    if (choice_.steps > 1)
      map[p_.axis(kept.back())] = p_.add(p_.mul(index.back(), each), split.back());
    fill.space.insert(fill.space.end(), last.begin(), last.end());
    index.insert(index.end(), split.begin(), split.end());
    const ExprId col = p_.add(p_.mul(split[0], p_.integer(panel)), split[1]);
    const bool exact = p_.value(columns) && *p_.value(columns) % panel == 0;
    map[p_.axis(column)] = col;
    const ExprId weights = choice_.steps > 1 ? p_.convert(operand(p_, s.a), weight_type()) : s.a;
    fill.value = {p_.substitute(weights, map, exact ? kNone : p_.cmp(TENON_CMP_LT, col, columns))};
    const uint32_t id = edges_.temp(p_.type(weights), dims, -1);
    Buffer& b = k_.buffers[id];
    // Depthwise: [taps, channels]. Else [outer, panels, taps, panel]: the remaining taps come after
    // the panels.
    const size_t n = kept.size();
    if (!channels) {
      ExprId stride = p_.integer(1);
      auto lay = [&](size_t d) {
        b.strides[d] = stride;
        stride = p_.mul(stride, b.dims[d]);
      };
      if (choice_.steps > 1) lay(n + 2);
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

  void use_packed(Stage& s, uint32_t id, const std::vector<uint32_t>& kept, uint32_t column,
                  int64_t panel) {
    std::vector<ExprId> index;
    for (uint32_t a : kept) index.push_back(p_.axis(a));
    const ExprId c = p_.axis(column), each = p_.integer(choice_.steps);
    index.push_back(p_.floordiv(c, p_.integer(panel)));
    index.push_back(p_.mod(c, p_.integer(panel)));
    if (choice_.steps > 1) {
      index[kept.size() - 1] = p_.floordiv(p_.axis(kept.back()), each);
      index.push_back(p_.mod(p_.axis(kept.back()), each));
    }
    s.a = p_.convert(p_.load(id, k_.buffers[id].type, index), p_.type(s.a));
    s.panel = static_cast<uint32_t>(panel);
  }

  void pack_panels(Stage& s) {
    int64_t m = 1;
    for (uint32_t a : choice_.axes.only_b) m *= likely_size(p_, p_.axes()[a].extent);
    const uint32_t column = widest_column(p_, s, choice_.axes.only_a);
    const ExprId columns = p_.axes()[column].extent;
    const TileShape tile = convolution_tile(t_, lanes(), m, likely_size(p_, columns), 0);
    const int64_t panel = int64_t{tile.nr} * lanes();
    std::vector<uint32_t> kept = choice_.axes.both;
    std::copy_if(choice_.axes.only_a.begin(), choice_.axes.only_a.end(), std::back_inserter(kept),
                 [&](uint32_t a) { return a != column; });
    kept.insert(kept.end(), choice_.spatial.begin(), choice_.spatial.end());
    kept.insert(kept.end(), choice_.in.begin(), choice_.in.end());
    use_packed(s, packed(s, kept, columns, column, panel, false), kept, column, panel);
  }

  // Packs as [taps, channels], with the channels rounded up to whole vectors.
  void pack_channels(Stage& s) {
    const uint32_t column = choice_.axes.both[0];
    const ExprId columns = p_.axes()[column].extent;
    const uint32_t id = packed(s, choice_.spatial, columns, column, lanes(), true);
    use_packed(s, id, choice_.spatial, column, lanes());
    const int64_t vectors =
        std::min<int64_t>(kDepthwiseVectors, (likely_size(p_, columns) + lanes() - 1) / lanes());
    s.panel = static_cast<uint32_t>(vectors * lanes());
  }

  Edges& edges_;
  Kernel& k_;
  Pool& p_;
  const Target& t_;
  DType acc_ = TENON_DTYPE_NONE;
  ConvolutionChoice choice_;
};

}  // namespace

void convolution_operands(Edges& edges, const Target& target, Stage& s) {
  Operands(edges, edges.kernel(), target).convolution(s);
}

}  // namespace tenon::kernelgen
