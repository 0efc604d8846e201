// Cases for kernels, made from what ops declare: their examples, in every element type that they
// accept, and for element-wise ops in other shapes. A case is one node; several are put into one
// graph, so that a device that compiles builds few kernels.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tenon/abi/host.h>
#include <tenon/abi/plugin.h>

#include "core/base/status.h"

namespace tenon::conform {

struct OpCase {
  std::string op;
  uint64_t traits = 0;
  double tolerance = 1;               // factor, as the op declares it
  std::vector<std::string> operands;  // types; "_" for one that is absent
  std::vector<std::string> results;
  std::string attributes;      // " {dims = [1]}" or empty
  bool same_operands = false;  // one value for all operands

  std::string name() const;  // "add(f32[3], f32[3])"
};

// A graph of these cases: inputs "a<case>_<operand>", outputs "r<case>_<result>".
std::string graph_of(std::span<const OpCase> cases);

// Every case that inference accepts: `vary` makes variants of an op's example.
using Vary = std::function<void(const OpCase& example, std::vector<OpCase>* out)>;
std::vector<OpCase> generate_cases(const tenon_host_t* host, const Vary& vary);

// Variants.
bool is_elementwise(
    const OpCase& example);  // one type for all operands, so that its shape may be changed
OpCase with_dtype(const OpCase& example, std::string_view from, std::string_view to);
OpCase with_shape(const OpCase& example, std::string_view dims);  // "3, 5"
// The element type of the first operand: "f32".
std::string dtype_of(const OpCase& example);

}  // namespace tenon::conform
