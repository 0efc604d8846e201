// From a graph to a level 1 program: what a compiling device does with the subgraph it was given.
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

// The host's tables that lifting reads. Borrowed; they live as long as the process.
struct LiftHost {
  const tenon_host_t* host = nullptr;
  const tenon_host_graph_t* graph = nullptr;
  const tenon_host_registry_t* registry = nullptr;
};
// Asks the host for them. The code of the first that is missing; the host has the reason.
tenon_code_t lift_host(const tenon_host_t* host, LiftHost* out);

// Of a larger constant generated code depends on type and place only: nothing here reads its bytes,
// unless all elements are one. Keys of artifacts rely on it (graph_hash_form).
inline constexpr uint64_t kMostInlineConstantBytes = 4096;

// Dims of a graph as expressions over a pool. Dims share parts: each is converted once.
class DimExpressions {
 public:
  DimExpressions(const tenon_host_graph_t* api, tenon_graph_t* graph, Pool* pool)
      : api_(api), graph_(graph), pool_(pool) {}
  virtual ~DimExpressions() = default;
  void define(tenon_symbol_t symbol, E e) { symbols_.emplace(symbol, e); }
  // kNone when the dim mentions a symbol that is not defined (data-dependent), or nests too deep.
  E of(tenon_dim_t dim) { return of(dim, 0); }

 protected:
  // What a symbol is that nobody defined.
  virtual E undefined(tenon_symbol_t) { return kNone; }

  const tenon_host_graph_t* api_;
  tenon_graph_t* graph_;

 private:
  E of(tenon_dim_t dim, int depth);
  E compute(tenon_dim_t dim, int depth);

  Pool* pool_;
  std::unordered_map<tenon_symbol_t, E> symbols_;
  std::unordered_map<tenon_dim_t, E> known_;
};

// What a device can compute in, and leave out.
struct LiftLimits {
  uint32_t dtypes = 0xffffffffu;  // bit (1 << dtype)
  bool attention =
      false;  // sdpa of long rows in one pass: vectors and a scratch of some hundred KB
  bool data_dependent = false;  // symbols defined inside: not lifted by any device yet
};

// Whether lift() would take this node. Safe on a frozen graph. False: `*why` names the op, its
// types and the reason; it is what a claim's refusal says.
bool can_lift(const LiftHost& host, tenon_graph_t* graph, tenon_node_t node,
              const LiftLimits& limits, std::string* why);

// What a run has to satisfy besides computing: the u64 in `buffer` is below `limit`, unless `count`
// is 0. Kernels write it once; who runs them reads it when they are done.
struct LiftedCheck {
  uint32_t buffer = 0;
  E limit = kNone, count = kNone;
  uint32_t origin = 0;  // an ordinal of Lifted::nodes
  std::string text;     // empty: an index outside of [0, limit); else what does not hold
};

// The program of a whole subgraph. Extents are the symbols of the main region, in its order.
struct Lifted {
  Kernel program;
  std::vector<uint32_t> inputs;  // buffer of each argument; ~0u: not used
  std::vector<uint32_t>
      constants;                  // buffer of each constant in order of value index; ~0u: not used
  std::vector<uint32_t> outputs;  // buffer of each yield; all different
  std::vector<LiftedCheck> checks;
  std::vector<tenon_value_t> constant_values;
  std::vector<tenon_node_t> nodes;  // Stage::origins are ordinals here
};
bool lift(const LiftHost& host, tenon_graph_t* graph, Lifted* out, std::string* why);

// One value per symbol of the graph: its hint, or 1.
std::vector<int64_t> likely_symbols(const LiftHost& host, tenon_graph_t* graph);

// A rough time of one node for claims: bytes moved and operations done against the given rates.
// symbols: likely_symbols of the graph, asked once for all its nodes.
double node_cost_ns(const LiftHost& host, tenon_graph_t* graph, tenon_node_t node,
                    const std::vector<int64_t>& symbols, double gigabytes_per_second,
                    double gigaflops_per_second, double launch_ns);

}  // namespace tenon::kernelgen
#endif
