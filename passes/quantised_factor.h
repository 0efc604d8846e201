// Quantised numbers (q - zero) scale in f32, where q has 8 bits: what compose-quantised multiplies
// as integers.
#pragma once
#include "compose.h"

namespace tenon::passes {

// Scales: one for all, or numbers that differ along some dims.
struct Scale {
  Value inner;
  std::vector<int64_t> dims;  // of what it applies to, one for each dim of `inner` that is not 1
};

// (q - zero) scale, then moved. Dims of scales are those of the moved value.
struct Factor {
  Value q;       // bytes
  Value zero;    // whole numbers that q's type holds, of q's shape, in any type; or invalid
  Scale offset;  // a zero point of which that is unknown, in f32; or `inner` is invalid
  Scale scale;
  std::vector<Node> moves;  // transposes and reshapes, the last one first
};

// None where v is nothing of that kind.
std::optional<Factor> read_factor(Value v);

// v, which has q's shape, moved.
Value moved(Builder& b, Value v, const Factor& f);
// q - zero, moved, in i16, where every difference of bytes fits.
Value difference(Builder& b, const Factor& f);
// One number, or numbers with the dims that they differ along.
Value narrow(Builder& b, const Scale& s);

}  // namespace tenon::passes
