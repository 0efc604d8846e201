// Paddings around a value, given by numbers or by data-dependent sizes. Used by Pad, CenterCropPad
// and MaxUnpool.
#ifndef FRONTENDS_ONNX_OPS_BORDERS_H_
#define FRONTENDS_ONNX_OPS_BORDERS_H_

#include "frontends/onnx/graph/importer.h"

namespace tenon::onnx {

// x with `low` elements of `fill` before and `high` after each dim; negative numbers cut. One entry
// for each dim of x.
Value padded(NodeContext& n, Value x, const Extents& low, const Extents& high, Value fill);

}  // namespace tenon::onnx

#endif  // FRONTENDS_ONNX_OPS_BORDERS_H_
