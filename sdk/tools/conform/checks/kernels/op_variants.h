// Cases that differ from an op's example in what its declaration leaves open: in its attributes, in
// the ranks of its operands, in what stands before their dims, and in the pair of element types of
// an op that converts. What a variant means is inference's to say: one that it refuses is dropped,
// and of the others those are kept in which something is new. The same for the same declarations.
#pragma once
#include <vector>

#include "sdk/tools/conform/checks/kernels/op_cases.h"

namespace tenon::conform {

// Of every op some dozens at most:
// - each list of integers with each dim, each pair and each order of three dims, empty, and with
//   equal counts for every dim; lists of several attributes together;
// - each choice of words, each small integer, each element type of a result;
// - operands of one, two and three dims, alone and together, with one and two dims before those of
//   the example, and each operand of rank 0.
// In f32 where the op takes that, else as in the example.
std::vector<OpCase> argument_cases(const tenon_host_t* host);

// Of element-wise ops whose result has the element type that an attribute says: every pair.
std::vector<OpCase> conversion_cases(const tenon_host_t* host);

}  // namespace tenon::conform
