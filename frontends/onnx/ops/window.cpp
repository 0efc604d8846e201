#include "frontends/onnx/ops/window.h"

#include <algorithm>

namespace tenon::onnx {

std::optional<AutoPad> auto_pad(NodeContext& n) {
  const std::string_view kind = n.text("auto_pad", "NOTSET");
  if (kind == "NOTSET") return AutoPad::kExplicit;
  // Some exporters write zeros in addition to auto_pad.
  const std::vector<int64_t> pads = n.integers("pads");
  if (std::any_of(pads.begin(), pads.end(), [](int64_t p) { return p != 0; })) {
    n.fail("T0708", "attributes 'auto_pad' and 'pads' cannot be given both");
    return {};
  }
  if (kind == "VALID") return AutoPad::kValid;
  if (kind == "SAME_UPPER") return AutoPad::kSameUpper;
  if (kind == "SAME_LOWER") return AutoPad::kSameLower;
  n.fail("T0708", "attribute 'auto_pad' must be NOTSET, SAME_UPPER, SAME_LOWER or VALID");
  return {};
}

int64_t span(NodeContext& n, const Window& w, size_t i) {
  return n.within_limit(static_cast<__int128>(w.dilations[i]) * (w.size[i] - 1) + 1,
                        "what its window spans");
}

void explicit_pads(NodeContext& n, size_t spatial, Window* w) {
  const std::vector<int64_t> pads = n.per_dim("pads", 2 * spatial, 0, 0);
  const auto middle = pads.begin() + static_cast<int64_t>(spatial);
  w->low.assign(pads.begin(), middle);
  w->high.assign(middle, pads.end());
}

namespace {

// If a padding is odd, UPPER puts the extra element after the dim, LOWER before it.
void split_padding(int64_t total, bool upper, Window* w) {
  w->low.push_back(upper ? total / 2 : total - total / 2);
  w->high.push_back(total - w->low.back());
}

// The same for a symbolic dim. The total, max(0, span - stride + (-dim mod stride)), is at most
// span - 1.
bool data_dependent_same_pads(NodeContext& n, bool upper, Dim dim, int64_t span, size_t i,
                              Window* w) {
  const int64_t stride = w->strides[i];
  const Dim one = n.dim(1), lacking = (n.dim(0) - dim) % n.dim(stride);
  if (!n.require(TENON_REL_LE, one, dim, "1 and the dim that its window slides over")) return false;
  const Dim total = span >= stride ? lacking + n.dim(span - stride)
                                   : max(lacking, n.dim(stride - span)) - n.dim(stride - span);
  const Dim less = total / n.dim(2);
  split_padding(span - 1, upper, w);
  w->skip.resize(w->size.size(), Dim::invalid());
  w->count.resize(w->size.size(), Dim::invalid());
  w->skip[i] = n.dim(w->low.back()) - (upper ? less : total - less);
  w->count[i] = (dim + n.dim(stride - 1)) / n.dim(stride);
  return true;
}

// SAME: the number of outputs is the number of inputs divided by the stride, rounded up.
bool same_pads(NodeContext& n, bool upper, std::span<const Dim> dims, Window* w) {
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t spanned = span(n, *w, i), stride = w->strides[i];
    if (!n.ok()) return false;
    if (stride == 1) {
      split_padding(spanned - 1, upper, w);
    } else if (dims[i].is_constant()) {
      const int64_t rest = dims[i].constant() % stride;
      split_padding(std::max<int64_t>(0, spanned - (rest == 0 ? stride : rest)), upper, w);
    } else if (!data_dependent_same_pads(n, upper, dims[i], spanned, i, w)) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool pads(NodeContext& n, std::span<const Dim> dims, Window* w) {
  const auto kind = auto_pad(n);
  if (!kind) return false;
  if (*kind == AutoPad::kExplicit) {
    explicit_pads(n, dims.size(), w);
    return n.ok();
  }
  if (*kind != AutoPad::kValid) return same_pads(n, *kind == AutoPad::kSameUpper, dims, w);
  w->low.assign(dims.size(), 0);
  w->high.assign(dims.size(), 0);
  return true;
}

bool fits(NodeContext& n, std::span<const Dim> dims, const Window& w) {
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t need = span(n, w, i);
    if (!n.ok()) return false;
    const int64_t least = need - w.low[i] - w.high[i];
    if (dims[i].is_constant() && least > dims[i].constant()) {
      return n.fail("T0713", cat("its window spans ", need, " elements of a dim that has ",
                                 dims[i].constant(), " and ", w.low[i] + w.high[i], " of padding"));
    }
    if (!dims[i].is_constant() && least > 0 &&
        !n.require(TENON_REL_LE, n.dim(least), dims[i],
                   "what its window spans and the dim it slides over")) {
      return false;
    }
  }
  return true;
}

bool round_up(NodeContext& n, std::span<const Dim> dims, Window* w) {
  w->more.assign(dims.size(), 0);
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t stride = w->strides[i], need = span(n, *w, i);
    if (!n.ok()) return false;
    if (stride == 1 || (!w->count.empty() && w->count[i].valid())) continue;
    if (dims[i].is_constant()) {
      const int64_t in = dims[i].constant(), covered = in + w->low[i] + w->high[i];
      if (covered + stride <= need) continue;  // not even one window begins
      int64_t windows = (covered + stride - 1 - need) / stride + 1;
      if ((windows - 1) * stride >= in + w->low[i]) --windows;
      w->more[i] = std::max<int64_t>(0, (windows - 1) * stride + need - covered);
    } else {
      // With stride - 1 further elements, rounding down is rounding up. A window that begins before
      // the end needs at most its span minus one after it; with more, a window would begin beyond
      // the end.
      w->more[i] = std::max<int64_t>(0, std::min(stride - 1, need - 1 - w->high[i]));
    }
    w->high[i] += w->more[i];
  }
  return true;
}

Value bordered(NodeContext& n, Value x, Window* w, Value fill) {
  if (!n.ok() || !x.valid() || w->skip.empty()) return n.ok() ? x : Value();
  const Dims dims = x.dims();
  std::vector<int64_t> low(dims.size(), 0), high(dims.size(), 0);
  Dims start(dims.size(), n.dim(0)), limit = dims;
  for (size_t i = 0; i < w->skip.size(); ++i) {
    const size_t d = i + 2;
    if (!w->skip[i].valid()) continue;
    low[d] = std::exchange(w->low[i], 0);
    high[d] = std::exchange(w->high[i], 0);
    start[d] = w->skip[i];
    limit[d] = w->skip[i] + (w->count[i] - n.dim(1)) * n.dim(w->strides[i]) + n.dim(span(n, *w, i));
  }
  return n.build("slice", {n.build("pad", {x, fill}, {{"low", low}, {"high", high}})},
                 {{"start", start}, {"limit", limit}});
}

bool read_convolution(NodeContext& n, const Dims& x, const Dims& w_dims, Convolution* out) {
  if (x.size() < 3 || w_dims.size() != x.size()) {
    return n.fail("T0713", cat("its inputs have the ranks ", x.size(), " and ", w_dims.size(),
                               ", and need one rank of 3 or more"));
  }
  const size_t spatial = x.size() - 2;
  out->groups = n.integer("group", 1);
  if (out->groups < 1)
    return n.fail("T0708", cat("attribute 'group' is ", out->groups, ", and must be positive"));
  if (w_dims[0].is_constant() && w_dims[0].constant() % out->groups != 0) {
    return n.fail("T0713", cat("its ", w_dims[0].constant(), " filters cannot be divided into ",
                               out->groups, " groups"));
  }
  if (!n.require_equal(x[1], w_dims[1] * n.dim(out->groups),
                       "the channels of its input and of its filters"))
    return false;
  Window& w = out->window;
  for (size_t i = 0; i < spatial; ++i) {
    if (!w_dims[i + 2].is_constant())
      return n.fail("T0714", "filters of symbolic size are not supported");
    w.size.push_back(w_dims[i + 2].constant());
    if (w.size.back() < 1) return n.fail("T0713", "its filters have a dim of 0");
  }
  if (n.has_attribute("kernel_shape") && n.integers("kernel_shape") != w.size) {
    return n.fail("T0708", "attribute 'kernel_shape' differs from the shape of its filters");
  }
  w.strides = n.per_dim("strides", spatial, 1, 1);
  w.dilations = n.per_dim("dilations", spatial, 1, 1);
  const std::span<const Dim> dims = std::span(x).subspan(2);
  return n.ok() && pads(n, dims, &w) && fits(n, dims, w);
}

std::vector<int64_t> whole(const std::vector<int64_t>& list, int64_t neutral) {
  std::vector<int64_t> out(2, neutral);
  out.insert(out.end(), list.begin(), list.end());
  return out;
}

}  // namespace tenon::onnx
