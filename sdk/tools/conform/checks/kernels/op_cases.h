// Cases for kernels, made from op declarations: their examples in every element type that they
// accept and, for element-wise ops, in other shapes (op_variants.h varies attributes and ranks). A
// case is one node. Several cases share one graph, so that a compiling device builds few kernels.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tenon/abi/host.h>
#include <tenon/abi/ops.h>
#include <tenon/abi/plugin.h>

#include "sdk/tools/conform/fixtures/graphs/host_graph.h"
#include "sdk/tools/conform/subject/names.h"

namespace tenon::conform {

struct OpCase {
  std::string op;
  uint64_t traits = 0;
  double tolerance = 1;               // factor that the op declares
  std::vector<std::string> operands;  // types; "_" for an absent one
  std::vector<std::string> results;
  std::string attributes;              // " {dims = [1]}" or empty
  bool same_operands = false;          // one value is used for all operands
  size_t special_operands = SIZE_MAX;  // this many first operands get a fill's values; others get
                                       // usual values
  const tenon_op_def_t* declaration = nullptr;  // the host's, and valid as long as the host

  std::string name() const;  // "add(f32[3], f32[3])"
};

// A graph of these cases: inputs "a<case>_<operand>", outputs "r<case>_<result>".
std::string graph_of(std::span<const OpCase> cases);

// The examples of all ops, except ops that have effects or regions and ops with a data-dependent
// result dim. Those of one op are adjacent.
std::vector<OpCase> op_examples(const tenon_host_t* host);
HostTables host_tables(const tenon_host_t* host);  // null if absent; without sessions
// Infers the types of the results. False if inference refuses the case or a result dim is
// data-dependent.
bool infer_results(const HostTables& host, OpCase* c);

// Every case that inference accepts: `vary` makes variants of an op's example, whose results may be
// of any type.
using Vary = std::function<void(const OpCase& example, std::vector<OpCase>* out)>;
std::vector<OpCase> generate_cases(const tenon_host_t* host, const Vary& vary);

// Variants.
bool is_elementwise(
    const OpCase& example);  // all operands have one type, so that its shape can be changed
OpCase with_dtype(const OpCase& example, std::string_view from, std::string_view to);
OpCase with_shape(const OpCase& example, std::string_view dims);  // "3, 5"
// The element type of the first operand that allows several: "f32".
std::string dtype_of(const OpCase& example);
bool is_float_case(const OpCase& c);  // whether that is a float
// Takes "f32[2, 3]", or a list of integers alone, apart, and puts it together again.
std::vector<int64_t> dims_of(std::string_view type);
std::string changed_dims(std::string_view type, std::string_view dims);
std::string dims_text(std::span<const int64_t> dims);  // "2, 3"

}  // namespace tenon::conform
