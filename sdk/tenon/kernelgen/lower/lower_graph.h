// From a graph to a program of stages: what a compiling device does with the subgraph it was given.
// The only place of kernelgen that knows ops by name; element-wise ops need no entry here, their
// scalar program says it all.
//
// Users: every device plugin that generates code (cpu, sim, out-of-tree OpenCL).
#ifndef TENON_KERNELGEN_LIFT_LIFT_H_
#define TENON_KERNELGEN_LIFT_LIFT_H_

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
// Asks the host for them. The code of the first that is missing; the host has the reason.
tenon_code_t open_host_tables(const tenon_host_t* host, HostTables* out);

// Of a larger constant generated code depends on type and place only: nothing here reads its bytes,
// unless all elements are one. Keys of artifacts rely on it (graph_hash_form).
inline constexpr uint64_t kMostInlineConstantBytes = 4096;

// Dims of a graph as expressions over a pool. Dims share parts: each is converted once.
class DimExpressions {
 public:
  DimExpressions(const tenon_host_graph_t* api, tenon_graph_t* graph, Pool* pool)
      : api_(api), graph_(graph), pool_(pool) {}
  virtual ~DimExpressions() = default;
  void define(tenon_symbol_t symbol, ExprId e) { symbols_.emplace(symbol, e); }
  // kNone when the dim mentions a symbol that is not defined (data-dependent), or nests too deep.
  ExprId of(tenon_dim_t dim) { return of(dim, 0); }

 protected:
  // What a symbol is that nobody defined.
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

// What a device can compute in, and leave out.
struct LoweringLimits {
  uint32_t dtypes = 0xffffffffu;  // bit (1 << dtype)
  bool attention =
      false;  // sdpa of long rows in one pass: vectors and a scratch of some hundred KB
  bool data_dependent = false;  // symbols defined inside: not lowered by any device yet
};

// Whether lower_graph() would take this node. Safe on a frozen graph. False: `*why` names the op,
// its types and the reason; it is what a claim's refusal says.
bool can_lower(const HostTables& host, tenon_graph_t* graph, tenon_node_t node,
               const LoweringLimits& limits, std::string* why);

// What a run has to satisfy besides computing: the u64 in `buffer` is below `limit`, unless `count`
// is 0. Kernels write it once; who runs them reads it when they are done.
struct LoweredCheck {
  uint32_t buffer = 0;
  ExprId limit = kNone, count = kNone;
  uint32_t origin = 0;  // an ordinal of Lowered::nodes
  std::string text;     // empty: an index outside of [0, limit); else what does not hold
};

// The program of a whole subgraph. Extents are the symbols of the main region, in its order.
struct Lowered {
  Kernel program;
  std::vector<uint32_t> inputs;  // buffer of each argument; ~0u: not used
  std::vector<uint32_t>
      constants;                  // buffer of each constant in order of value index; ~0u: not used
  std::vector<uint32_t> outputs;  // buffer of each yield; all different
  std::vector<LoweredCheck> checks;
  std::vector<tenon_value_t> constant_values;
  std::vector<tenon_node_t> nodes;  // Stage::origins are ordinals here
};
bool lower_graph(const HostTables& host, tenon_graph_t* graph, Lowered* out, std::string* why);

// One value per symbol of the graph: its hint, or 1.
std::vector<int64_t> likely_symbols(const HostTables& host, tenon_graph_t* graph);

// A rough time of one node for claims: bytes moved and operations done against the given rates.
// symbols: likely_symbols of the graph, asked once for all its nodes.
double node_cost_ns(const HostTables& host, tenon_graph_t* graph, tenon_node_t node,
                    const std::vector<int64_t>& symbols, double gigabytes_per_second,
                    double gigaflops_per_second, double launch_ns);

}  // namespace tenon::kernelgen
#endif
