// Cases that vary what an op's declaration leaves open: attributes, the ranks of operands, leading
// dims and, for an op that converts, the pair of element types. Inference decides what is valid:
// variants that it refuses are dropped, and of the others only those that show something new are
// kept. Equal declarations give equal cases.
#pragma once
#include <vector>

#include "sdk/tools/conform/checks/kernels/op_cases.h"

namespace tenon::conform {

// At most some dozens per op:
//- each list of integers with each dim, each pair and each order of three dims, empty, and with
//  equal counts for every dim; lists of several attributes together;
//- each choice of words, each small integer, each element type of a result;
//- operands of one, two and three dims, alone and together, with one and two leading dims before
//  those of the example, and each operand of rank 0.
// In f32 if the op takes it, else as in the example.
std::vector<OpCase> argument_cases(const tenon_host_t* host);

// For element-wise ops whose result has the element type that an attribute names: every pair of
// types.
std::vector<OpCase> conversion_cases(const tenon_host_t* host);

}  // namespace tenon::conform
