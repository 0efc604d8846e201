// Windows that slide over the spatial dims of [batch, channels, spatial...]: the attributes of
// Conv, the pools and their transposes, and paddings that depend on a size, which may be symbolic.
#ifndef FRONTENDS_ONNX_OPS_WINDOW_H_
#define FRONTENDS_ONNX_OPS_WINDOW_H_

#include <optional>
#include <span>
#include <vector>

#include "frontends/onnx/graph/importer.h"

namespace tenon::onnx {

// One entry per spatial dim.
struct Window {
  std::vector<int64_t> size, strides, dilations;
  std::vector<int64_t> low, high;  // paddings
  std::vector<int64_t> more;       // part of `high` that rounding up added; empty: none
  // If paddings depend on a symbolic size (SAME with a stride), `low` and `high` are enough for any
  // size, the first window begins `skip` elements later, and there are `count` windows. Invalid for
  // other dims; empty if there are no such dims.
  Dims skip, count;
};

enum class AutoPad { kExplicit, kValid, kSameUpper, kSameLower };

// The attribute auto_pad; nothing, and a failure, for an unknown value.
std::optional<AutoPad> auto_pad(NodeContext& n);

// Elements that the window spans along spatial dim i, (size - 1) * dilation + 1; 0, and a failure,
// beyond the limit.
int64_t span(NodeContext& n, const Window& w, size_t i);

// The attribute pads, split: first all paddings before the dims, then all after them.
void explicit_pads(NodeContext& n, size_t spatial, Window* w);

// Paddings from pads or auto_pad for `dims`, the spatial ones.
bool pads(NodeContext& n, std::span<const Dim> dims, Window* w);

// Fails if the window is larger than what it slides over, for which ONNX defines no result. Runs
// check symbolic sizes.
bool fits(NodeContext& n, std::span<const Dim> dims, const Window& w);

// ceil_mode: a last window may extend beyond the end, unless it would begin beyond the data and the
// leading padding.
bool round_up(NodeContext& n, std::span<const Dim> dims, Window* w);

// Pads x with `fill` and cuts it, so that its windows need no further padding along dims with
// `skip`. Other dims keep their paddings in w.
Value bordered(NodeContext& n, Value x, Window* w, Value fill);

// The window and groups of a convolution.
struct Convolution {
  Window window;
  int64_t groups = 1;
};
// Reads the attributes of a convolution of tensors with these dims. On failure reports the problem
// and returns false.
bool read_convolution(NodeContext& n, const Dims& x, const Dims& w, Convolution* out);

// A list for all dims of x, with `neutral` for batch and channels.
std::vector<int64_t> whole(const std::vector<int64_t>& list, int64_t neutral);

}  // namespace tenon::onnx

#endif  // FRONTENDS_ONNX_OPS_WINDOW_H_
