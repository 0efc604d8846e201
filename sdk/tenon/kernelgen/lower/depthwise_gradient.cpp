// The gradient of a depthwise filter. It has few elements per channel. Each is a sum, over images,
// of the products of the result's gradient with x moved by that element. These sums share one pass
// over both and run along memory.
#include <algorithm>

#include "tenon/kernelgen/lower/op_lowering.h"

namespace tenon::kernelgen {
namespace {

class DepthwiseGradient {
 public:
  DepthwiseGradient(LoweringSite& s, const ConvDims& n, std::span<const WindowDim> window)
      : s_(s), b_(s.b), p_(s.b.pool()), n_(n), window_(window), w_(s.in[1]) {}

  // Reads the extents of the result; false: this form does not fit.
  bool fits(std::span<const ExprId> dims) {
    constexpr int64_t kFew = 64;
    const int64_t groups = s_.integer("batch_groups", 1);
    if (groups == 1 || p_.value(s_.in[0].dims[n_.x_batch]) != groups) return false;
    for (size_t i = 0; i < window_.size(); ++i) {
      const auto size = p_.value(dims[n_.out_spatial[i]]);
      if (!size || *size == 0 || *size > kFew || window_[i].base_dilation != 1) return false;
      sizes_.push_back(*size);
      count_ *= *size;
    }
    return !window_.empty() && count_ <= kFew;
  }

  Tensor run() {
    acc_ = accumulator();
    x_ = padded_in_steps();
    const ExprId channels = s_.in[0].dims[n_.x_batch];
    products_ = {channels, p_.floordiv(w_.dims[n_.w_out], channels), w_.dims[n_.w_in]};
    for (const uint32_t d : n_.w_spatial) products_.push_back(w_.dims[d]);
    std::vector<Tensor> sums;
    for (int64_t k = 0; k < count_; ++k)
      sums.push_back(b_.reshape(sum_at(place(k)), {w_.dims[n_.w_out], p_.integer(1)}));
    return in_result_order(b_.concat(sums, 1));
  }

 private:
  DType accumulator() const {
    const DType own = s_.in[0].type, given = s_.acc();
    if (given != TENON_DTYPE_NONE) return given;
    return own == TENON_F16 || own == TENON_BF16 ? DType{TENON_F32} : own;
  }

  // x with its padding, and its last spatial dim as [step, extent / step]: a gradient that meets
  // every `step`-th element then meets neighbours.
  Tensor padded_in_steps() {
    const Tensor x = s_.in[0];
    std::vector<ExprId> dims = x.dims;
    for (size_t i = 0; i < window_.size(); ++i) {
      ExprId& extent = dims[n_.x_spatial[i]];
      extent = p_.add(extent, p_.integer(window_[i].pad_low + window_[i].pad_high));
    }
    const uint32_t last = n_.x_spatial.back();
    const ExprId step = p_.integer(window_.back().dilation);
    dims[last] = p_.ceildiv(dims[last], window_.back().dilation);
    dims.insert(dims.begin() + last, step);
    return b_.map(x.type, dims, [&](std::span<const ExprId> axes) {
      std::vector<ExprId> at(axes.begin(), axes.end());
      at[last + 1] = p_.add(p_.mul(axes[last + 1], step), axes[last]);
      at.erase(at.begin() + last);
      ExprId guard = kNone;
      for (size_t i = 0; i < window_.size(); ++i) {
        ExprId& from = at[n_.x_spatial[i]];
        from = p_.sub(from, p_.integer(window_[i].pad_low));
        guard = p_.both(guard, p_.both(p_.cmp(TENON_CMP_GE, from, p_.integer(0)),
                                       p_.cmp(TENON_CMP_LT, from, x.dims[n_.x_spatial[i]])));
      }
      return b_.load(x, at, guard);
    });
  }

  // The place of an element of the filter in its spatial dims.
  std::vector<int64_t> place(int64_t k) const {
    std::vector<int64_t> at(sizes_.size());
    for (size_t i = sizes_.size(); i-- > 0; k /= sizes_[i]) at[i] = k % sizes_[i];
    return at;
  }

  // [channels, filters of one]
  Tensor sum_at(const std::vector<int64_t>& at) {
    std::vector<uint32_t> summed;
    for (uint32_t d = 2; d < products_.size(); ++d) summed.push_back(d);
    const Tensor each =
        b_.map(acc_, products_, [&](std::span<const ExprId> axes) { return product(at, axes); });
    return b_.reduce(each, summed, Fold::kSum, acc_, acc_);
  }

  ExprId product(const std::vector<int64_t>& at, std::span<const ExprId> axes) {
    const size_t spatial = window_.size();
    std::vector<ExprId> ix(spatial + 3), iw(spatial + 2);
    ix[n_.x_batch] = axes[0];
    iw[n_.w_out] = p_.add(p_.mul(axes[0], products_[1]), axes[1]);
    ix[n_.x_feature] = iw[n_.w_in] = axes[2];
    for (size_t i = 0; i < spatial; ++i) {
      const int64_t first = at[i] * window_[i].stride, step = window_[i].dilation;
      const bool last = i + 1 == spatial;
      iw[n_.w_spatial[i]] = axes[3 + i];
      ix[n_.x_spatial[i]] = last ? p_.add(axes[3 + i], p_.integer(first / step))
                                 : p_.add(p_.mul(axes[3 + i], p_.integer(step)), p_.integer(first));
      if (last) ix.back() = p_.integer(first % step);
    }
    std::rotate(ix.begin() + n_.x_spatial.back(), ix.end() - 1, ix.end());
    return p_.op(TENON_S_MUL,
                 {p_.convert(b_.load(w_, iw), acc_), p_.convert(b_.load(x_, ix), acc_)});
  }

  Tensor in_result_order(const Tensor& sums) {
    std::vector<ExprId> dims = {p_.integer(1), w_.dims[n_.w_out]};
    std::vector<uint32_t> from(sizes_.size() + 2);
    from[n_.out_batch] = 0;
    from[n_.out_feature] = 1;
    for (size_t i = 0; i < sizes_.size(); ++i) {
      dims.push_back(p_.integer(sizes_[i]));
      from[n_.out_spatial[i]] = static_cast<uint32_t>(2 + i);
    }
    return b_.convert(b_.transpose(b_.reshape(sums, dims), from), s_.result_types[0].dtype);
  }

  LoweringSite& s_;
  Builder& b_;
  Pool& p_;
  const ConvDims& n_;
  std::span<const WindowDim> window_;
  Tensor w_, x_;
  DType acc_ = TENON_DTYPE_NONE;
  std::vector<int64_t> sizes_;
  int64_t count_ = 1;
  std::vector<ExprId> products_;  // dims of the products: channels, filters of one, what is summed
};

}  // namespace

std::optional<Tensor> depthwise_gradient(LoweringSite& s, const ConvDims& n,
                                         std::span<const WindowDim> window,
                                         std::span<const ExprId> dims) {
  DepthwiseGradient gradient(s, n, window);
  if (!gradient.fits(dims)) return {};
  return gradient.run();
}

}  // namespace tenon::kernelgen
