// How far the result of an op may be from the reference's while both are right.
//
// A backend may round differently from the reference: it keeps f32 between fused ops of f16, sums
// in another order, or has an exp of its own. Each known tensor therefore has, by element, the
// distance that its history allows; rules of the ops carry distances from operands to results.
// Elements without a distance are exact: inputs, integers, elements that were only moved. A jump
// (floor, compare, a conversion to an integer) is fine as long as no allowed operand reaches it;
// its result is exact again.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include <tenon/abi/ops.h>

#include "tests/random/runner.h"

namespace tenon::random_tests {

// Distance of neighbouring numbers of a float type around x; at least that of its smallest normal
// number, because a device may flush subnormals.
double ulp(tenon_dtype_t dtype, double x);

// Computes the results of a node for other operands. False if that fails.
using Evaluate = std::function<bool(std::span<const Tensor>, std::vector<Tensor>*)>;

// Fills `allowed` of float results. False if results cannot be compared: a jump lies within reach
// of the allowed operands, or a distance is a large part of the result.
bool allow(const tenon_op_def_t& op, std::span<const Tensor> operands, const Evaluate& evaluate,
           std::vector<Tensor>* results);

}  // namespace tenon::random_tests
