// What a call asks for, in the terms of oneDNN: a product or a convolution of strided arrays, and
// the steps of its epilogue.
#ifndef TENON_PLUGINS_ONEDNN_PROBLEM_H_
#define TENON_PLUGINS_ONEDNN_PROBLEM_H_

#include <oneapi/dnnl/dnnl_types.h>
#include <tenon/abi/kernels.h>

#include <string>
#include <vector>

#include <tenon/cpp/kernel_call.hpp>

namespace tenon::onednn {

using Sizes = std::vector<int64_t>;

// Part of a dense array: dims in oneDNN's order, strides in elements.
struct View {
  tenon_dtype_t dtype = TENON_DTYPE_NONE;
  Sizes dims, strides;
};

// Of an element; f32 and bf16 are all that there is here.
inline uint64_t bytes_of(tenon_dtype_t dtype) {
  return dtype == TENON_BF16 ? 2 : 4;
}

struct Step {
  enum Kind {
    kBias,   // plus a vector, one entry per out feature
    kAdd,    // plus an array of the result's shape
    kCurve,  // a function of each element that the library computes
    kRelu,   // max(x, 0) that keeps NaN: computed here, since the library's gives 0. Always last
  } kind;
  uint32_t operand = 0;                         // of kBias and kAdd
  dnnl_alg_kind_t curve = dnnl_alg_kind_undef;  // of kCurve
};

struct Problem {
  bool convolution = false;
  // Product: batch, rows, columns; without the batch if there is none. Convolution: batch, feature,
  // spatial; weights: out feature, in feature, spatial, with groups before them if there are any.
  View src, weights, dst;
  Sizes window_strides, dilations, pad_low, pad_high;  // of the convolution's spatial dims
  int64_t groups = 1;
  int64_t feature_dim = -1;  // of the call's result; -1: the out features are several dims of it
  bool weights_constant = false;
  std::vector<Step> steps;
  uint32_t epilogue_taken = 0;  // nodes that `steps` stands for
  double flops = 0;

  int64_t features() const { return convolution ? dst.dims[1] : dst.dims.back(); }
  bool ends_in_relu() const { return !steps.empty() && steps.back().kind == Step::kRelu; }
};

inline constexpr uint32_t kSource = 0, kWeights = 1;  // operands of every call here

// Reads a call. UNIMPLEMENTED with a reason where the set has no kernel for it.
Status read_problem(const tenon_kernel_call_t& call, Problem* out);

// The steps of the epilogue, from the front, as far as they are known here.
void read_epilogue(const tenon_kernel_call_t& call, Problem* problem);

Status refuse(std::string_view reason);

}  // namespace tenon::onednn

#endif
