// How far the result of an op may be from the reference's when both are right.
//
// A backend may round otherwise than the reference: it keeps f32 between fused ops of f16, sums in
// another order, has an exp of its own. Each known tensor therefore has, by element, the distance
// that its history allows; rules of the ops carry these distances from operands to results. What
// has no distance is exact: inputs, integers, elements that were only moved. A jump (floor,
// compare, a conversion to an integer) is fine as long as no allowed operand reaches it, and its
// result is exact again.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include <tenon/abi/ops.h>

#include "tests/random/runner.h"

namespace tenon::random_tests {

// Distance of neighbouring numbers of a float type around x; never below its smallest normal
// number's, since a device may flush subnormals.
double ulp(tenon_dtype_t dtype, double x);

// Computes the results of the node in question for other operands. False when that fails.
using Evaluate = std::function<bool(std::span<const Tensor>, std::vector<Tensor>*)>;

// Fills `allowed` of float results. False when results cannot be compared: a jump within reach of
// what operands may be, or a distance that is no small part of the result.
bool allow(const tenon_op_def_t& op, std::span<const Tensor> operands, const Evaluate& evaluate,
           std::vector<Tensor>* results);

}  // namespace tenon::random_tests
