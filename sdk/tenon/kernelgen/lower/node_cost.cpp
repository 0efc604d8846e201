#include "tenon/kernelgen/lower/node_cost.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>

#include "tenon/cpp/likely_size.hpp"
#include "tenon/cpp/record.hpp"

namespace tenon::kernelgen {
namespace {

std::string_view view(tenon_str_t s) {
  return {s.data, static_cast<size_t>(s.size)};
}

// Vectors do not help: each comparison decides about the next one. Measured at 2 to 11 ns.
constexpr double kCompareNs = 2;

class NodeCost {
 public:
  NodeCost(const HostTables& host, tenon_graph_t* graph, const std::vector<int64_t>& symbols,
           const tenon_node_view_t& node)
      : host_(host), graph_(graph), symbols_(symbols), n_(node) {
    for (uint32_t i = 0; i < n_.operand_count; ++i) add(n_.operands[i], &operands_);
    for (uint32_t i = 0; i < n_.result_count; ++i) add(n_.results[i], &results_);
  }

  double ns(const DeviceRates& rates) const {
    return rates.launch_ns +
           std::max({bytes_ / rates.gigabytes_per_second, flops() / rates.gigaflops_per_second,
                     compares() * kCompareNs});
  }

 private:
  struct Elements {
    double product = 1, sum = 0;
  };

  bool view_of(tenon_value_t value, tenon_value_view_t* out) const {
    *out = sized<tenon_value_view_t>();
    return value != TENON_NONE &&
           host_.graph->value_view(host_.graph->self, graph_, value, out) == TENON_OK;
  }

  double size(tenon_dim_t dim) const {
    int64_t d = 1;
    host_.graph->dim_evaluate(host_.graph->self, graph_, dim, symbols_.data(),
                              static_cast<uint32_t>(symbols_.size()), &d);
    return static_cast<double>(std::max<int64_t>(d, 0));
  }

  double count(const tenon_type_t& type) const {
    double all = 1;
    for (uint32_t i = 0; i < type.rank; ++i) all *= size(type.dims[i]);
    return all;
  }

  void add(tenon_value_t value, Elements* to) {
    tenon_value_view_t v;
    const double e = view_of(value, &v) ? count(v.type) : 0;
    bytes_ += e * std::max(1u, size_of(v.type.dtype));
    to->product *= std::max(e, 1.0);
    to->sum += e;
    largest_ = std::max(largest_, e);
  }

  const tenon_op_def_t* op() const {
    const tenon_op_def_t* found = nullptr;
    const tenon_code_t code =
        host_.registry->op_find(host_.registry->self, n_.op, n_.op_version, &found);
    return code == TENON_OK ? found : nullptr;
  }

  double flops() const {
    const tenon_op_def_t* o = op();
    if (o == nullptr || o->cost_class != TENON_COST_CONTRACTION || n_.operand_count < 2)
      return largest_;
    if (view(o->name) == "conv" || view(o->name) == "conv_bias") return 2 * results_.sum * filter();
    if (view(o->name) == "dot_general") return 2 * results_.sum * depth();
    // rows x columns x depth: |a| * |b| * |out| = (m k)(k n)(m n), whose square root is m n k.
    return 2 * std::sqrt(operands_.product * std::max(results_.sum, 1.0));
  }

  // What one filter of a convolution holds, which each result takes: the window meets elements of
  // the input again, or passes over them.
  double filter() const {
    tenon_value_view_t w;
    if (!view_of(n_.operands[1], &w) || w.type.rank == 0) return 1;
    return count(w.type) / std::max(1.0, size(w.type.dims[filters_dim(w.type.rank)]));
  }

  uint32_t filters_dim(uint32_t rank) const {
    const std::span<const int64_t> dims = list("w_dims");
    return !dims.empty() && dims[0] >= 0 && dims[0] < rank ? static_cast<uint32_t>(dims[0]) : 0;
  }

  // How many products a result of dot_general is the sum of.
  double depth() const {
    tenon_value_view_t a;
    double all = 1;
    if (!view_of(n_.operands[0], &a)) return all;
    for (const int64_t dim : list("a_contract")) {
      if (dim >= 0 && dim < a.type.rank) all *= size(a.type.dims[dim]);
    }
    return all;
  }

  std::span<const int64_t> list(std::string_view name) const {
    for (uint32_t i = 0; i < n_.attr_count; ++i) {
      const tenon_attr_t& a = n_.attrs[i];
      if (a.kind == TENON_ATTR_I64S && view(host_.host->sym_text(host_.host->self, a.name)) == name)
        return {a.u.is, static_cast<size_t>(a.count)};
    }
    return {};
  }

  double compares() const {
    const tenon_op_def_t* o = op();
    return o != nullptr && o->cost_class == TENON_COST_SORT ? largest_ * std::log2(largest_) : 0;
  }

  const HostTables& host_;
  tenon_graph_t* graph_;
  const std::vector<int64_t>& symbols_;
  const tenon_node_view_t& n_;
  Elements operands_, results_;
  double bytes_ = 0, largest_ = 1;
};

}  // namespace

std::vector<int64_t> likely_symbols(const HostTables& host, tenon_graph_t* graph) {
  tenon_graph_view_t g = sized<tenon_graph_view_t>();
  host.graph->graph_view(host.graph->self, graph, &g);
  std::vector<int64_t> symbols(g.symbol_limit, 1);
  for (uint32_t s = 0; s < g.symbol_limit; ++s) {
    tenon_symbol_view_t v = sized<tenon_symbol_view_t>();
    if (host.graph->symbol_view(host.graph->self, graph, s, &v) == TENON_OK)
      symbols[s] = sizes::likely_size(v.hint, v.lo, v.hi);
  }
  return symbols;
}

double node_cost_ns(const HostTables& host, tenon_graph_t* graph, tenon_node_t node,
                    const std::vector<int64_t>& symbols, const DeviceRates& rates) {
  tenon_node_view_t n = sized<tenon_node_view_t>();
  if (host.graph->node_view(host.graph->self, graph, node, &n) != TENON_OK) return rates.launch_ns;
  return NodeCost(host, graph, symbols, n).ns(rates);
}

}  // namespace tenon::kernelgen
