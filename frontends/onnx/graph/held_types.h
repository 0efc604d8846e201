// Constants of element types without arithmetic, as values of the types that hold them (ADR 0034).
#ifndef FRONTENDS_ONNX_GRAPH_HELD_TYPES_H_
#define FRONTENDS_ONNX_GRAPH_HELD_TYPES_H_

#include "frontends/onnx/graph/importer.h"

namespace tenon::onnx {

// The element type in which numbers of this type are held (ADR 0034): u8 for u4, i8 for i4, f32 for
// 8-bit floats, any other itself.
tenon_dtype_t held_type(tenon_dtype_t type);
// A constant of any type as a value of its held type.
Value held_constant(Builder& b, const Constant& constant);

}  // namespace tenon::onnx

#endif  // FRONTENDS_ONNX_GRAPH_HELD_TYPES_H_
