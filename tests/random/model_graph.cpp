#include "tests/random/model_graph.h"

#include <algorithm>

#include "tests/random/evaluation.h"

namespace tenon::random_tests {
namespace {

tenon_code_t keep_tensor(void* self, const tenon_tensor_t* tensor) {
  auto* out = static_cast<Tensor*>(self);
  const void* data = nullptr;
  uint64_t size = 0;
  const tenon_host_graph_t& api = graph_api();
  if (const tenon_code_t code = api.blob_data(api.self, tensor->blob, &data, &size); code != TENON_OK) return code;
  const auto* bytes = static_cast<const unsigned char*>(data);
  *out = {tensor->dtype, {tensor->dims, tensor->dims + tensor->rank},
          std::make_shared<const std::vector<unsigned char>>(bytes, bytes + size), nullptr};
  return TENON_OK;
}

std::vector<int64_t> sizes_of_symbols(tenon_graph_t* graph, const std::map<std::string, int64_t>& named) {
  const tenon_host_graph_t& api = graph_api();
  std::vector<int64_t> out(graph_view(graph).symbol_limit, 1);
  for (tenon_symbol_t s = 0; s < out.size(); ++s) {
    tenon_symbol_view_t v = {};
    v.size_bytes = sizeof v;
    if (api.symbol_view(api.self, graph, s, &v) != TENON_OK) continue;
    const auto it = named.find(std::string(sym_text(v.name)));
    out[s] = it != named.end() ? it->second : std::clamp<int64_t>(v.hint > 0 ? v.hint : 3 * v.multiple_of, v.lo, v.hi);
  }
  return out;
}

std::vector<int64_t> dims_of(const Value& value, tenon_graph_t* graph, const std::vector<int64_t>& symbols) {
  const tenon_host_graph_t& api = graph_api();
  std::vector<int64_t> out;
  for (Dim d : value.dims()) {
    int64_t n = 0;
    (void)api.dim_evaluate(api.self, graph, d.raw(), symbols.data(), static_cast<uint32_t>(symbols.size()), &n);
    out.push_back(n);
  }
  return out;
}

}  // namespace

std::string model_graph(const Session& session, const std::string& path, const std::map<std::string, std::string>& inputs,
                        const std::map<std::string, int64_t>& symbols, uint64_t seed, Generated* out) {
  Model model;
  tenon_graph_t *frozen = nullptr, *graph = nullptr;
  if (!session.load(path, &model).ok()) return failure_text();
  if (session.api().model_graph(session.api().self, model.get(), &frozen) != TENON_OK) return failure_text();
  const Graph keep(frozen);
  if (graph_api().clone(graph_api().self, frozen, &graph) != TENON_OK) return failure_text();
  out->graph = Graph(graph);
  out->seed = seed;
  tenon_model_info_t info;
  if (!model.info(&info).ok()) return failure_text();
  Binding& binding = out->bindings.emplace_back();
  binding.symbols = sizes_of_symbols(graph, symbols);
  const Region main = main_region(graph);
  for (uint32_t i = 0; i < info.input_count; ++i) {
    const std::string name(view(info.inputs[i].name));
    out->inputs.push_back(name);
    const Value argument = main.arguments()[i];
    binding.inputs.push_back(random_tensor(info.inputs[i].dtype, dims_of(argument, graph, binding.symbols), seed + i));
    const auto file = inputs.find(name);
    const tenon_tensor_sink_t sink{&binding.inputs.back(), keep_tensor};
    if (file != inputs.end() && session.api().tensors_read(session.api().self, str(file->second), &sink) != TENON_OK) return failure_text();
  }
  for (uint32_t i = 0; i < info.output_count; ++i) out->outputs.push_back(std::string(view(info.outputs[i].name)));
  out->nodes = main.nodes().size();
  return evaluate(out);
}

}  // namespace tenon::random_tests
