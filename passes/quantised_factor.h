// Recognises quantised numbers, (q - zero) scale in f32 where q has 8 bits. The pass
// compose-quantised multiplies them as integers.
#pragma once
#include "compose.h"

namespace tenon::passes {

// One number for all elements, or numbers that differ along some dims.
struct Scale {
  Value inner;
  // The dims of the scaled value along which the numbers differ: one for each dim of `inner` that
  // is not 1.
  std::vector<int64_t> dims;
};

// (q - zero) scale, then transposed or reshaped. Dims of scales are those of the moved value.
struct Factor {
  Value q;       // bytes
  Value zero;    // whole numbers that q's type holds, of q's shape, in any type; or invalid
  Scale offset;  // a zero point in f32 of which this is not known; or `inner` is invalid
  Scale scale;
  std::vector<Node> moves;  // transposes and reshapes, the last one first
};

// Nothing where v does not have this form.
std::optional<Factor> read_factor(Value v);

// Applies the moves to v, which has q's shape.
Value moved(Builder& b, Value v, const Factor& f);
// q - zero, moved, in i16, which holds every difference of two bytes.
Value difference(Builder& b, const Factor& f);
// The numbers of a scale in f32: rank 0, or only the dims along which they differ.
Value narrow(Builder& b, const Scale& s);

}  // namespace tenon::passes
