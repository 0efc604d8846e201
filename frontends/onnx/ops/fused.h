// What the fused ops of ONNX Runtime's optimiser (domain com.microsoft) share with ONNX's own.
#ifndef FRONTENDS_ONNX_OPS_FUSED_H_
#define FRONTENDS_ONNX_OPS_FUSED_H_

#include "frontends/onnx/graph/importer.h"

namespace tenon::onnx {

inline constexpr std::string_view kMicrosoft = "com.microsoft";

// Records the failure; an invalid value.
inline Value refuse(NodeContext& n, std::string_view text, std::string_view code = "T0713") {
  n.fail(code, text);
  return Value();
}

// x * factor.
inline Value scaled(NodeContext& n, Value x, double factor) {
  return factor == 1.0 || !x.valid() ? x : n.build("mul", {x, n.full_like(x, factor)});
}

// a + b, broadcast against each other.
Value sum_of(NodeContext& n, Value a, Value b);

// Conv of [batch, channels, spatial...] with the node's attributes, and its bias if operand 2 is
// there (nn.cpp).
Value convolution(NodeContext& n, Value x, Value w);
// The same, then what operand 3 adds and the node's activation, as the node's result
// (fused.cpp).
bool fused_convolution(NodeContext& n, Value x, Value w);
// Gemm of operands 0 to 2 with the node's attributes (nn.cpp).
Value general_product(NodeContext& n);

// [batch, length, heads * size] as [batch, heads, length, size]; rank 4 stays as it is
// (attention.cpp).
Value split_heads(NodeContext& n, Value x, int64_t heads);
// [batch, heads, length, size] as [batch, length, heads * size].
Value join_heads(NodeContext& n, Value x);

// Rotates the first `turned` features of each head of x, [batch, heads, length, size], by angles
// given as [batch, heads, length, turned / 2] (attention.cpp).
Value rotated(NodeContext& n, Value x, Value cos, Value sin, int64_t turned, bool interleaved);

}  // namespace tenon::onnx

#endif  // FRONTENDS_ONNX_OPS_FUSED_H_
