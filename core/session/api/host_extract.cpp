#include "core/session/api/host_extract.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>

#include "core/base/errors/guard.h"
#include "core/base/record.h"
#include "core/base/str.h"
#include "core/dispatch/placement/extract.h"

namespace tenon::session {
namespace {

Status check_spec(const ir::Graph& graph, const tenon_extract_spec_t& spec) {
  for (uint32_t i = 0; i < spec.node_count; ++i) {
    if (!graph.node_live(spec.nodes[i]) ||
        graph.node(spec.nodes[i]).parent != graph.node(spec.nodes[0]).parent) {
      return error(TENON_INVALID_ARGUMENT, "T0301", "there is no node {} in the region that is cut",
                   spec.nodes[i]);
    }
  }
  for (auto [values, count] :
       {std::pair(spec.arguments, spec.argument_count), std::pair(spec.yields, spec.yield_count)}) {
    for (uint32_t i = 0; i < count; ++i) {
      if (!graph.value_live(values[i]))
        return error(TENON_INVALID_ARGUMENT, "T0301", "there is no value {}", values[i]);
    }
  }
  if (graph.frozen()) return {};
  return error(TENON_FAILED_PRECONDITION, "T0301", "parts are cut out of frozen graphs only");
}

// Up to the field that releases a part, which the first layout had.
constexpr uint32_t kExtractedBytesMin =
    offsetof(tenon_extracted_t, storage) + sizeof(tenon_extracted_t::storage);

Status extract_into(tenon_graph_t* graph, const tenon_extract_spec_t* spec,
                    tenon_extracted_t* out) {
  const ir::Graph& from = *ir::Graph::from(graph);
  TENON_RETURN_IF_ERROR(check_spec(from, *spec));
  if (out->size_bytes < kExtractedBytesMin) {
    return error(TENON_INVALID_ARGUMENT, "T0616",
                 "the record of a part claims {} bytes; it needs at least {}", out->size_bytes,
                 kExtractedBytesMin);
  }
  TENON_ASSIGN_OR_RETURN(
      dispatch::Subgraph made,
      dispatch::extract_part(from, {spec->nodes, spec->node_count},
                             {spec->arguments, spec->argument_count},
                             {spec->yields, spec->yield_count}, from_abi_str(spec->name)));
  auto kept = std::make_unique<dispatch::Subgraph>(std::move(made));
  tenon_extracted_t full = {};
  full.argument_count = static_cast<uint32_t>(kept->inputs.size());
  full.symbol_count = static_cast<uint32_t>(kept->symbols.size());
  full.graph = kept->graph->abi();
  full.arguments = kept->inputs.data();
  full.symbols = kept->symbols.data();
  full.storage = kept.get();
  TENON_RETURN_IF_ERROR(give_record(out, full));
  (void)kept.release();  // the caller owns it now
  return {};
}

tenon_code_t extract(void*, tenon_graph_t* graph, const tenon_extract_spec_t* spec,
                     tenon_extracted_t* out) {
  clear_failure();
  return guarded([&] { return extract_into(graph, spec, out); });
}

void release(void*, tenon_extracted_t* extracted) {
  delete static_cast<dispatch::Subgraph*>(extracted->storage);
  // All but size_bytes, and no more than fits the caller's record.
  constexpr size_t kHead = sizeof(extracted->size_bytes);
  const size_t size = std::clamp<size_t>(extracted->size_bytes, kHead, sizeof(tenon_extracted_t));
  std::memset(reinterpret_cast<char*>(extracted) + kHead, 0, size - kHead);
}

}  // namespace

const tenon_host_extract_t* host_extract_table() {
  static const tenon_host_extract_t table = {sizeof(tenon_host_extract_t), nullptr, extract,
                                             release};
  return &table;
}

}  // namespace tenon::session
