// Windows that slide over the spatial dims of [batch, channels, spatial...]: what Conv, the pools
// and their transposes read of their attributes, and the paddings that follow from a size that may
// be symbolic.
#ifndef FRONTENDS_ONNX_WINDOW_H_
#define FRONTENDS_ONNX_WINDOW_H_

#include <optional>
#include <span>
#include <vector>

#include "importer.h"

namespace tenon::onnx {

// One entry per spatial dim.
struct Window {
  std::vector<int64_t> size, strides, dilations;
  std::vector<int64_t> low, high;  // paddings
  std::vector<int64_t> more;       // of `high`: what rounding up added; empty: nothing
  // Where paddings follow from a symbolic size (SAME with a stride), `low` and `high` are as much
  // as any size needs, the first window begins `skip` elements later, and there are `count`.
  // Invalid for other dims; empty: there are none.
  Dims skip, count;
};

enum class AutoPad { kExplicit, kValid, kSameUpper, kSameLower };

// The attribute auto_pad; nothing and a failure when it has an unknown value.
std::optional<AutoPad> auto_pad(NodeContext& n);

// Elements that the window spans along spatial dim i, (size - 1) * dilation + 1; 0 and a failure
// beyond the limit.
int64_t span(NodeContext& n, const Window& w, size_t i);

// The attribute pads, split: first all that stand before the dims, then all behind.
void explicit_pads(NodeContext& n, size_t spatial, Window* w);

// Paddings by pads or auto_pad over `dims`, the spatial ones.
bool pads(NodeContext& n, std::span<const Dim> dims, Window* w);

// Fails where the window is larger than what it slides over, which ONNX has no result for. Of
// symbolic sizes the runs check it.
bool fits(NodeContext& n, std::span<const Dim> dims, const Window& w);

// ceil_mode: a last window may hang over the end, unless it would begin beyond the data and the
// leading padding.
bool round_up(NodeContext& n, std::span<const Dim> dims, Window* w);

// x where each window that is left to slide needs no padding along the dims with `skip`: padded
// with `fill` and cut. Other dims keep their paddings in w.
Value bordered(NodeContext& n, Value x, Window* w, Value fill);

// A list for all dims of x: batch and channels take no part.
std::vector<int64_t> whole(const std::vector<int64_t>& list, int64_t neutral);

}  // namespace tenon::onnx

#endif  // FRONTENDS_ONNX_WINDOW_H_
