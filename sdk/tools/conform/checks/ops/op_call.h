// Calls of the plugin's ops: parses their examples and negatives, and builds calls from types.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tenon/abi/ops.h>

#include "sdk/tools/conform/fixtures/graphs/host_graph.h"

namespace tenon::conform {

class Session;

// The ops of the plugin under test, as the installed host registered them.
struct PluginOps {
  HostTables host;
  std::vector<const tenon_op_def_t*> ops;
};
// Not offered if the manifest provides no op; skipped if none of them was registered.
Outcome find_ops(Session& session, PluginOps* out);

// A graph with one node, whose results it yields.
struct Call {
  GraphRef graph;
  tenon_node_t node = TENON_NONE;
  std::vector<Array> inputs;  // for the graph's arguments
};

struct Example {
  std::string text;
  const tenon_op_def_t* op = nullptr;
  Call call;                    // operands are constants
  std::vector<Array> operands;  // dtype NONE for an absent one
  std::vector<Array> expected;
  bool has_regions = false;
};
bool read_example(const HostTables& host, const tenon_op_def_t* op, std::string_view text,
                  Example* out, std::string* why);
// Every example that can be parsed; G.op-examples reports the others.
std::vector<Example> examples_of(const HostTables& host, const tenon_op_def_t* op);

// Whether the host accepts a negative's expression; if not, `why` is its failure.
bool read_negative(const HostTables& host, std::string_view text, std::string* op, Failure* why);

// A call without regions. Operands are constants or arguments; attributes are borrowed.
bool build_call(const HostTables& host, const tenon_op_def_t* op,
                std::span<const tenon_attr_t> attributes, std::span<const Array> operands,
                bool constants, Call* out, Failure* why);
// The example's attributes, owned by its graph; false if they contain dims of that graph.
bool portable_attributes(const HostTables& host, const Example& example,
                         std::vector<tenon_attr_t>* out);
// The example's operands, with every operand of operand 0's type changed to `dtype`; false if the
// op does not take it.
bool with_dtype(const Example& example, tenon_dtype_t dtype, std::vector<Array>* operands);

// The types of the call's results, as text.
std::string type_of_results(const HostTables& host, const Call& call);
double tolerance_of(const tenon_op_def_t& op);
std::string name_of(const tenon_op_def_t& op);  // printable

// Fails unless `found`, computed by `means`, equals `expected` within the op's tolerance.
Outcome compare_all(const std::string& what, std::string_view means, const tenon_op_def_t& op,
                    const std::vector<Array>& found, const std::vector<Array>& expected);

}  // namespace tenon::conform
