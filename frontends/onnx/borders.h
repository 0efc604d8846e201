// Borders around a value, by numbers or by sizes that a run decides. Pad, CenterCropPad and
// MaxUnpool are made of them.
#ifndef FRONTENDS_ONNX_BORDERS_H_
#define FRONTENDS_ONNX_BORDERS_H_

#include "importer.h"

namespace tenon::onnx {

// x with so many elements of `fill` before and behind each dim; negative ones are cut off. One
// entry for each dim of x.
Value padded(NodeContext& n, Value x, const Extents& low, const Extents& high, Value fill);

}  // namespace tenon::onnx

#endif  // FRONTENDS_ONNX_BORDERS_H_
