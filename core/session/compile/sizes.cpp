#include "core/session/compile/sizes.h"

#include <vector>

#include "core/base/intern.h"
#include "core/ir/clone.h"

namespace tenon::session {
namespace {

using ir::Graph;
using ir::Symbol;
using ir::Value;

// Which symbols the dims of inputs mention, alone or in an expression such as 2*n. Where these dims
// were solved, each of them has a value.
std::vector<bool> of_inputs(const Graph& graph) {
  std::vector<Symbol> mentioned;
  for (Value v : graph.region(graph.main()).arguments) {
    const tenon_type_t& type = graph.type(v);
    for (uint32_t d = 0; d < type.rank; ++d) {
      if (type.dims[d] < 0) graph.dims().symbols_of(type.dims[d], &mentioned);
    }
  }
  std::vector<bool> out(graph.dims().symbol_count(), false);
  for (Symbol s : mentioned) out[s] = true;
  return out;
}

// What each symbol of `from` is in `to`: its value, or a symbol of the same name.
Result<std::vector<tenon_dim_t>> sizes_in(const Graph& from, std::span<const int64_t> values,
                                          Graph& to) {
  const std::vector<bool> decided = of_inputs(from);
  std::vector<tenon_dim_t> out(from.dims().symbol_count(), ir::kUnmappedSymbol);
  for (Symbol s : from.region(from.main()).symbols) {
    if (decided[s]) {
      out[s] = values[s];
      continue;
    }
    const ir::SymbolData& data = from.dims().symbol(s);
    TENON_ASSIGN_OR_RETURN(const Symbol made, to.add_symbol(sym_text(data.name), data.lo, data.hi,
                                                            data.multiple_of, data.hint));
    TENON_RETURN_IF_ERROR(to.adopt_symbol(to.main(), made));
    out[s] = to.dims().symbol(made).dim;
  }
  return out;
}

}  // namespace

Result<ir::Ref<Graph>> at_sizes(const Graph& graph, const runtime::Shapes& shapes,
                                std::span<const tenon_array_t* const> arrays) {
  const ir::RegionData& from = graph.region(graph.main());
  std::vector<std::span<const int64_t>> dims;
  for (const tenon_array_t* array : arrays) dims.emplace_back(array->dims, array->rank);
  std::vector<int64_t> solved;
  TENON_RETURN_IF_ERROR(shapes.solve(dims, {}, {}, &solved));
  ir::Ref<Graph> to = Graph::create(graph.name());
  TENON_ASSIGN_OR_RETURN(const std::vector<tenon_dim_t> symbols, sizes_in(graph, solved, *to));
  std::vector<Value> values;
  for (size_t i = 0; i < from.arguments.size(); ++i) {
    tenon_type_t type = graph.type(from.arguments[i]);
    type.dims = arrays[i]->dims;
    TENON_ASSIGN_OR_RETURN(
        const Value made,
        to->add_argument(to->main(), type, sym_text(graph.value(from.arguments[i]).name)));
    values.push_back(made);
  }
  std::vector<Value> yields(from.yields.size());
  TENON_RETURN_IF_ERROR(ir::clone_region_with(*to, {to->main(), ir::kNone}, graph, graph.main(),
                                              values, symbols, yields));
  std::vector<std::string_view> names;
  for (tenon_sym_t name : from.output_names) names.push_back(sym_text(name));
  TENON_RETURN_IF_ERROR(to->set_yields(to->main(), yields, names));
  TENON_RETURN_IF_ERROR(to->verify());
  to->freeze();
  return to;
}

}  // namespace tenon::session
