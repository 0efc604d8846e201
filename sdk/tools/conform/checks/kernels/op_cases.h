// Cases for kernels, made from what ops declare: their examples, in every element type that they
// accept, and for element-wise ops in other shapes (op_variants.h has other attributes and ranks).
// A case is one node; several are put into one graph, so that a device that compiles builds few
// kernels.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tenon/abi/host.h>
#include <tenon/abi/ops.h>
#include <tenon/abi/plugin.h>

#include "sdk/tools/conform/fixtures/host_graph.h"
#include "sdk/tools/conform/subject/names.h"

namespace tenon::conform {

struct OpCase {
  std::string op;
  uint64_t traits = 0;
  double tolerance = 1;               // factor, as the op declares it
  std::vector<std::string> operands;  // types; "_" for one that is absent
  std::vector<std::string> results;
  std::string attributes;              // " {dims = [1]}" or empty
  bool same_operands = false;          // one value for all operands
  size_t special_operands = SIZE_MAX;  // how many of the first may get what a fill gives; others
                                       // usual values
  const tenon_op_def_t* declaration = nullptr;  // the host's; lives as long as that

  std::string name() const;  // "add(f32[3], f32[3])"
};

// A graph of these cases: inputs "a<case>_<operand>", outputs "r<case>_<result>".
std::string graph_of(std::span<const OpCase> cases);

// The examples of all ops but of those that have effects or regions, or results of which a dim is
// known at the run only. Those of one op are neighbours.
std::vector<OpCase> op_examples(const tenon_host_t* host);
HostTables host_tables(const tenon_host_t* host);  // null where it lacks one; without sessions
// Asks inference for the types of the results. False where it refuses the case, or where a dim of
// them is known at the run only.
bool infer_results(const HostTables& host, OpCase* c);

// Every case that inference accepts: `vary` makes variants of an op's example, whose results may be
// of any type.
using Vary = std::function<void(const OpCase& example, std::vector<OpCase>* out)>;
std::vector<OpCase> generate_cases(const tenon_host_t* host, const Vary& vary);

// Variants.
bool is_elementwise(
    const OpCase& example);  // one type for all operands, so that its shape may be changed
OpCase with_dtype(const OpCase& example, std::string_view from, std::string_view to);
OpCase with_shape(const OpCase& example, std::string_view dims);  // "3, 5"
// The element type of the first operand that may be of several: "f32".
std::string dtype_of(const OpCase& example);
bool is_float_case(const OpCase& c);  // where that is a float
// "f32[2, 3]", or a list of integers alone, taken apart, and put together again.
std::vector<int64_t> dims_of(std::string_view type);
std::string changed_dims(std::string_view type, std::string_view dims);
std::string dims_text(std::span<const int64_t> dims);  // "2, 3"

}  // namespace tenon::conform
