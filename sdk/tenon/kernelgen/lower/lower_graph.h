// Lowers the subgraph of a compiling device to a program of stages. This folder is the only place
// in kernelgen that knows ops by name. Element-wise ops need no entry here: their scalar programs
// define them completely.
//
// Users: every device plugin that generates code (cpu, sim, out-of-tree OpenCL).
#ifndef TENON_KERNELGEN_LOWER_LOWER_GRAPH_H_
#define TENON_KERNELGEN_LOWER_LOWER_GRAPH_H_

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tenon/abi/graph.h"
#include "tenon/abi/host.h"
#include "tenon/abi/plugin.h"
#include "tenon/kernelgen/ir/ir.h"

namespace tenon::kernelgen {

// The host's tables that lowering reads. Borrowed; they live as long as the process.
struct HostTables {
  const tenon_host_t* host = nullptr;
  const tenon_host_graph_t* graph = nullptr;
  const tenon_host_registry_t* registry = nullptr;
};
// Gets them from the host. On failure, returns the code of the first missing table; the host has
// the reason.
tenon_code_t open_host_tables(const tenon_host_t* host, HostTables* out);

// Generated code must depend only on the type and place of a constant with more bytes than this,
// unless it is a splat, whose element may be written into the code. Artifact keys rely on it
// (tenon.host.form/1).
inline constexpr uint64_t kMostInlineConstantBytes = 4096;

// Dims of a graph as expressions over a pool. Dims share subexpressions; each is converted once.
class DimExpressions {
 public:
  DimExpressions(const tenon_host_graph_t* api, tenon_graph_t* graph, Pool* pool)
      : api_(api), graph_(graph), pool_(pool) {}
  virtual ~DimExpressions() = default;
  void define(tenon_symbol_t symbol, ExprId e) { symbols_.emplace(symbol, e); }
  // kNone if the dim mentions an undefined (data-dependent) symbol or nests too deeply.
  ExprId of(tenon_dim_t dim) { return of(dim, 0); }

 protected:
  // The expression for a symbol without define().
  virtual ExprId undefined(tenon_symbol_t) { return kNone; }

  const tenon_host_graph_t* api_;
  tenon_graph_t* graph_;

 private:
  ExprId of(tenon_dim_t dim, int depth);
  ExprId compute(tenon_dim_t dim, int depth);

  Pool* pool_;
  std::unordered_map<tenon_symbol_t, ExprId> symbols_;
  std::unordered_map<tenon_dim_t, ExprId> known_;
};

// What a device supports.
struct LoweringLimits {
  tenon_dtypes_t dtypes = TENON_DTYPES_ANY;  // that it computes in
  // Lower sdpa of long rows in one pass: needs vectors and some hundred KB of scratch.
  bool attention = false;
  bool data_dependent = false;  // accept symbols defined inside; no device lowers them yet
  // Why the device cannot compute what a node was lowered to; empty if it can, or if it is not set.
  std::function<std::string(const Pool&)> refuses;
};

// Whether lower_graph() would accept this node. Safe on a frozen graph. False: `*why` names the op,
// its types and the reason, as the refusal in a claim reports it.
bool can_lower(const HostTables& host, tenon_graph_t* graph, tenon_node_t node,
               const LoweringLimits& limits, std::string* why);

// A condition that each run must satisfy: the u64 in `buffer` is below `limit`, unless `count` is
// 0. Kernels write the buffer once; the device reads it after the last step.
struct LoweredCheck {
  uint32_t buffer = 0;
  ExprId limit = kNone, count = kNone;
  uint32_t origin = 0;  // ordinal in Lowered::nodes
  std::string text;     // the condition that failed; empty: an index outside of [0, limit)
};

// The program of a whole subgraph. Its extents are the symbols of the main region, in order.
struct Lowered {
  Kernel program;
  std::vector<uint32_t> inputs;  // buffer of each argument; ~0u: unused
  // Buffer of each constant, in order of value index; ~0u: unused.
  std::vector<uint32_t> constants;
  std::vector<uint32_t> outputs;  // buffer of each yield; all different
  // Dims of each yield: a buffer of complex numbers has one more, for their two parts.
  std::vector<uint32_t> output_ranks;
  std::vector<LoweredCheck> checks;
  std::vector<tenon_value_t> constant_values;
  std::vector<tenon_node_t> nodes;  // Stage::origins are ordinals here
};
bool lower_graph(const HostTables& host, tenon_graph_t* graph, Lowered* out, std::string* why);

}  // namespace tenon::kernelgen
#endif
