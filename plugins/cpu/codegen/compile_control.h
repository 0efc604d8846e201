// Compiles subgraphs with control flow, or with ops of native_ops.h: cuts them into parts for
// compile_graph, at every level of nesting.
#ifndef TENON_PLUGINS_CPU_CODEGEN_COMPILE_CONTROL_H_
#define TENON_PLUGINS_CPU_CODEGEN_COMPILE_CONTROL_H_

#include "codegen/compile_graph.h"
#include "tenon/cpp/graph.hpp"

namespace tenon::cpu {

// Whether a node of the main region has regions or is one of native_ops.h.
bool has_control(tenon_graph_t* graph);

// Whether a node runs as a function of native_ops.h.
bool is_native(const Node& node);
// Whether a node is a step without code.
bool is_barrier(const Node& node);

// Whether everything inside a node of control flow becomes kernels, calls or control flow. If not,
// `why` names the inner op.
bool can_compile_control(const kernelgen::HostTables& host, tenon_graph_t* graph, tenon_node_t node,
                         const kernelgen::LoweringLimits& limits, std::string* why);

// compile_graph for a graph with control flow.
Status compile_control(const kernelgen::HostTables& host, tenon_graph_t* graph,
                       const CompileSettings& settings, CompiledGraph& out);

// explain_graph for each part in turn; "plan" begins with the tree of regions and parts.
Status explain_control(const kernelgen::HostTables& host, tenon_graph_t* graph,
                       const CompileSettings& settings, std::string_view what, std::string& out);

}  // namespace tenon::cpu
#endif
