// Quantised numbers: real = (q - zero) scale. The formulas and checks that all quantised ops share
// (ADR 0034).
//
// Functions that take operand numbers read the operands of the node. `kNone` is an operand that the
// op does not have; one that is optional and absent is treated the same. Failures are the node's.
#ifndef FRONTENDS_ONNX_OPS_QUANTISE_QUANTISE_H_
#define FRONTENDS_ONNX_OPS_QUANTISE_QUANTISE_H_

#include <optional>

#include "frontends/onnx/graph/held_types.h"
#include "frontends/onnx/graph/importer.h"
#include "frontends/onnx/ops/window.h"

namespace tenon::onnx {

inline constexpr size_t kNone = SIZE_MAX;

// A quantised operand: its numbers, their scale and their zero point.
struct Quantised {
  size_t q = 0, scale = 1, zero = 2;
};

// Where scales and zero points of more than one element apply.
struct Along {
  int64_t axis = 0;   // of the quantised tensor, not negative
  int64_t block = 0;  // how many elements along the axis share a scale; 0: one
};

// Whether a scale divides or multiplies. It may have any sign; no number is divided by 0.
enum class ScaleUse { kQuantise, kDequantise };
// Fails for a constant scale that cannot be right (T0720). Those that runs compute are not checked.
bool check_scale(NodeContext& n, size_t operand, ScaleUse use);

// A scale or zero point as wide as `shape`: of one element everywhere, else along an axis.
Value spread(NodeContext& n, Value parameter, const Dims& shape, const Along& along);

// `real` divided by the scale and rounded, in f32, as numbers of `type` with a zero point of the
// shape of `real` or none: rounds to even and saturates.
Value saturate(NodeContext& n, Value real, Value zero, tenon_dtype_t type);
// The same with operands of the node. `type` is the declared type.
bool set_quantised(NodeContext& n, Value real, size_t scale, size_t zero, tenon_dtype_t type,
                   const Along& along = {});
// The type of quantised numbers with a zero point: the zero point's, else `otherwise`.
tenon_dtype_t zero_type(NodeContext& n, size_t zero, tenon_dtype_t otherwise = TENON_U8);

// The real numbers, f32, of a value with scale and zero point of its own shape. zero may be
// invalid.
Value dequantised(NodeContext& n, Value q, Value scale, Value zero);
// The same of operands of the node; checks the scale.
Value dequantised(NodeContext& n, const Quantised& x, const Along& along = {});

// Numbers of 2, 4 or 8 bits in bytes, the first in the low bits: u8 [rows, bytes] as u8
// [rows, 8 / bits bytes].
Value narrow_numbers(NodeContext& n, Value bytes, int64_t bits);
// The first columns of a matrix, without those that only fill its last byte.
Value first_columns(NodeContext& n, Value x, int64_t count);

bool matmul_integer_to_float(NodeContext& n);  // com.microsoft's MatMulIntegerToFloat

// The scale and zero point for numbers between low and high (scalars in f32, with 0 between them),
// and x quantised by them, in u8.
struct Dynamic {
  Value q, scale, zero;  // zero: u8
};
Dynamic quantise_dynamically(Builder& b, Value x);
// x quantised so, and real again.
Value through_dynamic(Builder& b, Value x);

}  // namespace tenon::onnx

#endif  // FRONTENDS_ONNX_OPS_QUANTISE_QUANTISE_H_
