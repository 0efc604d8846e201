#include "core/session/compile/ports.h"

#include <tenon/cpp/record.hpp>

#include "core/base/errors/failure.h"
#include "core/base/intern.h"

namespace tenon::session {

PortRecords::PortRecords(const runtime::Shapes& shapes, std::span<const std::string_view> symbols,
                         uint64_t node_count, uint64_t constant_bytes) {
  describe(shapes.inputs(), &inputs_);
  describe(shapes.outputs(), &outputs_);
  for (std::string_view name : symbols) symbol_names_.push_back(to_abi_str(name));
  info_ = sized<tenon_model_info_t>();
  info_.input_count = static_cast<uint32_t>(inputs_.size());
  info_.output_count = static_cast<uint32_t>(outputs_.size());
  info_.symbol_count = static_cast<uint32_t>(symbol_names_.size());
  info_.inputs = inputs_.data();
  info_.outputs = outputs_.data();
  info_.symbol_names = symbol_names_.data();
  info_.node_count = node_count;
  info_.constant_bytes = constant_bytes;
}

PortRecords PortRecords::of(const ir::Graph& graph, const runtime::Shapes& shapes) {
  std::vector<std::string_view> symbols;
  for (ir::Symbol s : graph.region(graph.main()).symbols)
    symbols.push_back(sym_text(graph.dims().symbol(s).name));
  uint64_t bytes = 0;
  for (ir::Value v = 0; v < graph.value_limit(); ++v) {
    if (graph.value(v).kind == TENON_VALUE_CONSTANT) bytes += graph.value(v).blob->size_bytes();
  }
  return {shapes, symbols, graph.live_node_count(), bytes};
}

void PortRecords::describe(std::span<const runtime::Port> ports, std::vector<tenon_port_t>* out) {
  for (const runtime::Port& port : ports) {
    std::vector<tenon_str_t>& texts = dim_texts_.emplace_back();
    std::vector<int64_t>& dims = dims_.emplace_back();
    for (size_t i = 0; i < port.dims.size(); ++i) {
      texts.push_back(to_abi_str(port.dim_texts[i]));
      dims.push_back(port.dims[i] >= 0 ? port.dims[i] : -1);
    }
    auto record = sized<tenon_port_t>();
    record.dtype = port.dtype;
    record.rank = static_cast<uint32_t>(port.dims.size());
    record.name = to_abi_str(port.name);
    record.dim_texts = texts.data();
    record.dims = dims.data();
    out->push_back(record);
  }
}

}  // namespace tenon::session
