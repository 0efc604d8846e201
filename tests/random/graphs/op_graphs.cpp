#include "tests/random/graphs/op_graphs.h"

#include <tenon/cpp/session.hpp>

#include "sdk/tools/support/tensors.h"
#include "tests/random/rounding/evaluation.h"

namespace tenon::random_tests {
namespace {

Tensor tensor_of(const random_graphs::Known& known) {
  return {known.dtype, known.dims, known.bytes, nullptr};
}

// The tolerance of `tenon run --check`, multiplied by the number of nodes.
Tensor bluntly(Tensor tensor, uint64_t nodes) {
  const double part = tools::default_tolerance(tensor.dtype) * static_cast<double>(1 + nodes);
  if (part == 0) return tensor;
  double largest = 0;
  const tools::Dense dense{tensor.dtype, tensor.dims, tensor.bytes->data()};
  for (int64_t i = 0, n = dense.count(); i < n; ++i)
    largest = std::max(largest, std::fabs(tools::element(dense, i)));
  tensor.allowed = std::make_shared<const std::vector<double>>(static_cast<size_t>(dense.count()),
                                                               part * largest);
  return tensor;
}

std::vector<int64_t> sizes_of(const Value& value, const std::vector<int64_t>& symbols) {
  std::vector<int64_t> sizes;
  for (const Dim dim : value.dims()) {
    sizes.push_back(-1);
    (void)graph_api().dim_evaluate(graph_api().self, value.graph(), dim.raw(), symbols.data(),
                                   static_cast<uint32_t>(symbols.size()), &sizes.back());
  }
  return sizes;
}

std::string argument_name(const Value& value) {
  return std::string(sym_text(value.view().name));
}

}  // namespace

OpGraphs::OpGraphs() {
  if (registry() != nullptr) ops_ = random_graphs::usable_ops(*registry());
  used_.resize(ops_.size());
}

Status OpGraphs::make(uint64_t seed, Generated* out) {
  random_graphs::Generated made;
  TENON_TRY(random_graphs::generate(seed, *registry(), ops_, &used_, &made));
  out->seed = seed;
  out->nodes = made.nodes;
  out->graph = std::move(made.graph);
  Binding& binding = out->bindings.emplace_back();
  binding.symbols = std::move(made.symbols);
  for (const auto& [name, known] : made.inputs) {
    out->inputs.push_back(name);
    binding.inputs.push_back(tensor_of(known));
  }
  for (const auto& [name, known] : made.outputs) out->outputs.push_back(name);
  if (evaluate(out).empty()) return {};
  binding.outputs.clear();
  for (const auto& [name, known] : made.outputs)
    binding.outputs.push_back(bluntly(tensor_of(known), made.nodes));
  return {};
}

std::string OpGraphs::unused() const {
  std::string text;
  for (size_t i = 0; i < ops_.size(); ++i) {
    if (used_[i] == 0) text += " " + std::string(view(ops_[i]->name));
  }
  return text.empty() ? " none" : text;
}

std::string model_graph(const std::string& path, uint64_t seed, Generated* out) {
  Session session;
  Model model;
  tenon_graph_t* graph = nullptr;
  if (!session.open().ok() || !session.load(path, &model).ok()) return failure_text();
  const auto& api = session.api();
  if (api.model_graph(api.self, model.get(), &graph) != TENON_OK) return failure_text();
  out->seed = seed;
  out->graph = Graph(graph);
  const Region main = main_region(graph);
  out->nodes = main.view().node_count;
  Binding& binding = out->bindings.emplace_back();
  binding.symbols.resize(graph_view(graph).symbol_limit, 1);
  for (uint32_t i = 0; i < main.view().symbol_count; ++i)
    binding.symbols[main.view().symbols[i]] = 2 + i;
  for (const Value argument : main.arguments()) {
    out->inputs.push_back(argument_name(argument));
    binding.inputs.push_back(
        random_tensor(argument.dtype(), sizes_of(argument, binding.symbols), seed + argument.id()));
  }
  for (uint32_t i = 0; i < main.view().yield_count; ++i)
    out->outputs.emplace_back(sym_text(main.view().output_names[i]));
  return evaluate(out);
}

}  // namespace tenon::random_tests
