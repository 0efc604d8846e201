// Evaluates graphs node by node, by the meanings of their ops, with the allowed error of each
// element.
#pragma once
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include <tenon/abi/host.h>

#include "tests/random/runner.h"

namespace tenon::random_tests {

// The host's registry; null if the host has none. Lives as long as the process.
const tenon_host_registry_t* registry();

// The results of one node. Empty if they can be compared with another backend's, else why not: a
// number that is not finite or is very large, a jump or slope that amplifies rounding, more
// elements than a small graph has.
std::string evaluate(const Node& node, std::span<const int64_t> symbols,
                     std::span<const Tensor> operands, std::vector<Tensor>* results);

// Random elements for an input: floats around 0 of several magnitudes, small integers of both
// signs.
Tensor random_tensor(tenon_dtype_t dtype, std::vector<int64_t> dims, uint64_t seed);
// The elements of a constant of static dims.
Tensor constant_tensor(const Value& constant);

// The contents of a graph's values, by index.
using Values = std::unordered_map<tenon_value_t, Tensor>;

// Fills the outputs of each binding from its inputs. Empty, or why the graph's results cannot be
// compared. `values`: null, or receives the contents of all values, by binding.
std::string evaluate(Generated* generated, std::vector<Values>* values = nullptr);

}  // namespace tenon::random_tests
