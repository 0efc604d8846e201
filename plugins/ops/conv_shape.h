// Shared by conv and conv_bias: attributes, dim numbers and inference of the result.
#ifndef TENON_PLUGINS_OPS_CONV_SHAPE_H_
#define TENON_PLUGINS_OPS_CONV_SHAPE_H_

#include "common.h"

namespace tenon::ops {

// All attributes except acc and dtype, in this order.
constexpr OpDraft& conv_attrs(OpDraft& draft) {
  return draft.attr_i64s("strides", "step of the window per spatial dim; empty: 1")
      .attr_i64s("pad_low", "zeros before x per spatial dim, may be negative; empty: 0")
      .attr_i64s("pad_high", "zeros after x per spatial dim, may be negative; empty: 0")
      .attr_i64s("x_dilation", "distance of the elements of x per spatial dim; empty: 1")
      .attr_i64s("w_dilation", "distance of the elements of w per spatial dim; empty: 1")
      .attr_i64s("reversal", "1: w is flipped along that spatial dim; empty: 0")
      .attr_i64("groups", "features are split into that many groups that do not mix", 1)
      .attr_i64("batch_groups", "the batch is split into that many groups, each with its part of w",
                1)
      .attr_i64s("x_dims", "dims of x: batch, feature, spatial...; empty: 0, 1, 2...")
      .attr_i64s("w_dims",
                 "dims of w: out feature, in feature of a group, spatial...; empty: 0, 1, 2...")
      .attr_i64s("out_dims", "dims of the result: batch, feature, spatial...; empty: 0, 1, 2...");
}

struct ConvShape {
  Axes strides, pad_low, pad_high, x_dilation, w_dilation, reversal, x_dims, w_dims, out_dims;
  int64_t groups = 1, batch_groups = 1;
};
template <class Source>
ConvShape conv_shape(const Source& q, size_t rank) {
  const size_t spatial = rank - 2;
  const auto numbers = [&](std::string_view name) {
    const auto list = q.i64s(name);
    return list.empty() ? range(0, static_cast<int64_t>(rank)) : Axes(list.begin(), list.end());
  };
  return {list_or(q.i64s("strides"), spatial, 1),
          list_or(q.i64s("pad_low"), spatial, 0),
          list_or(q.i64s("pad_high"), spatial, 0),
          list_or(q.i64s("x_dilation"), spatial, 1),
          list_or(q.i64s("w_dilation"), spatial, 1),
          list_or(q.i64s("reversal"), spatial, 0),
          numbers("x_dims"),
          numbers("w_dims"),
          numbers("out_dims"),
          q.i64("groups"),
          q.i64("batch_groups")};
}

// Checks C1 to C6 and computes the dims of the result.
inline Status infer_conv(const InferQuery& q, Dims* out) {
  const size_t rank = q.rank(0);
  if (q.rank(1) != rank) return q.fail("C1", cat("x has rank ", rank, ", w has rank ", q.rank(1)));
  const ConvShape c = conv_shape(q, rank);
  for (const Axes* list : {&c.x_dims, &c.w_dims, &c.out_dims}) {
    TENON_TRY(require_length(q, "C2", "a list of dims", list->size(), rank));
    TENON_TRY(q.require_axes("C2", *list, rank));
  }
  for (const Axes* list :
       {&c.strides, &c.pad_low, &c.pad_high, &c.x_dilation, &c.w_dilation, &c.reversal}) {
    TENON_TRY(require_length(q, "C3", "a window attribute", list->size(), rank - 2));
  }
  for (size_t i = 0; i + 2 < rank; ++i) {
    if (c.strides[i] < 1 || c.x_dilation[i] < 1 || c.w_dilation[i] < 1 || c.strides[i] > kBound ||
        c.x_dilation[i] > kBound || c.w_dilation[i] > kBound || std::abs(c.pad_low[i]) > kBound ||
        std::abs(c.pad_high[i]) > kBound) {
      return q.fail("C4", cat("spatial dim ", i, " has stride ", c.strides[i], ", dilations ",
                              c.x_dilation[i], " and ", c.w_dilation[i], ", paddings ",
                              c.pad_low[i], " and ", c.pad_high[i]));
    }
  }
  if (c.groups < 1 || c.batch_groups < 1 || (c.groups > 1 && c.batch_groups > 1)) {
    return q.fail("C5", cat("groups is ", c.groups, ", batch_groups is ", c.batch_groups));
  }
  const auto x = [&](size_t i) { return q.dim(0, static_cast<uint32_t>(c.x_dims[i])); };
  const auto w = [&](size_t i) { return q.dim(1, static_cast<uint32_t>(c.w_dims[i])); };
  TENON_TRY(q.require_equal("C6", x(1), w(1) * q.constant(c.groups),
                            "features of x and in features of w times groups"));
  TENON_TRY(q.require("C6", TENON_REL_DIVISIBLE, w(0), q.constant(c.groups * c.batch_groups),
                      "out features and groups"));
  TENON_TRY(q.require("C6", TENON_REL_DIVISIBLE, x(0), q.constant(c.batch_groups),
                      "batch and batch_groups"));
  Dims dims(rank);
  dims[static_cast<size_t>(c.out_dims[0])] =
      c.batch_groups == 1 ? x(0) : x(0) / q.constant(c.batch_groups);
  dims[static_cast<size_t>(c.out_dims[1])] = w(0);
  for (size_t i = 2; i < rank; ++i) {
    const auto window = constant_of(w(i));
    if (!window || *window > kBound)
      return q.fail("C4", cat("spatial dim ", i - 2, " of w is not a usable constant"));
    TENON_TRY(fitting_window(q, "C4", x(i), c.x_dilation[i - 2], c.pad_low[i - 2],
                             c.pad_high[i - 2], *window, c.w_dilation[i - 2], c.strides[i - 2],
                             &dims[static_cast<size_t>(c.out_dims[i])]));
  }
  *out = dims;
  return {};
}

// The constraints that infer_conv checks, with negative examples for one op.
constexpr OpDraft& conv_constraints(OpDraft& draft, const std::string_view (&negatives)[6]) {
  return draft.constraint("C1", "x and w have equal rank of at least 2", negatives[0])
      .constraint("C2", "x_dims, w_dims and out_dims are permutations of the dims", negatives[1])
      .constraint("C3", "window attributes have one entry per spatial dim", negatives[2])
      .constraint("C4",
                  "strides and dilations are at least 1, the spatial dims of w constant and, if "
                  "more than 1, "
                  "no larger than what they slide over, all below 2^31",
                  negatives[3])
      .constraint("C5", "groups and batch_groups are at least 1, one of them 1", negatives[4])
      .constraint("C6", "features of x are those of w times groups; groups divide what they split",
                  negatives[5]);
}

}  // namespace tenon::ops

#endif
