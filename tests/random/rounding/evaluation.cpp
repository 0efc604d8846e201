#include "tests/random/rounding/evaluation.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <random>

#include <tenon/cpp/session.hpp>

#include "tests/random/rounding/rounding.h"

namespace tenon::random_tests {
namespace {

constexpr int64_t kElementsMax = 100000;
constexpr double kLargest = 1e4;  // well below the largest f16

tenon_array_t array_of(const Tensor& tensor) {
  tenon_array_t array = {};
  array.size_bytes = sizeof array;
  if (tensor.bytes == nullptr) return array;  // an absent operand
  array.dtype = tensor.dtype;
  array.rank = static_cast<uint32_t>(tensor.dims.size());
  array.dims = tensor.dims.data();
  array.data = const_cast<unsigned char*>(tensor.bytes->data());
  return array;
}

uint64_t bytes_of(const Tensor& tensor) {
  return static_cast<uint64_t>(tensor.count()) * dtype_bytes(tensor.dtype);
}

// Element types and dims of the results, with storage for their elements. Empty, or why not.
std::string shape_results(const Node& node, std::span<const int64_t> symbols,
                          std::vector<Tensor>* results) {
  if (node.view().symbol_count != 0) return "a dim depends on data";
  for (uint32_t i = 0; i < node.result_count(); ++i) {
    const TypeView type = node.result(i).type();
    Tensor& result = results->emplace_back();
    result.dtype = type.dtype();
    int64_t count = 1;
    for (const Dim dim : type.dims()) {
      int64_t size = 0;
      if (graph_api().dim_evaluate(graph_api().self, node.graph(), dim.raw(), symbols.data(),
                                   static_cast<uint32_t>(symbols.size()), &size) != TENON_OK) {
        return "a dim depends on data";
      }
      if (size < 0 || (count *= std::max<int64_t>(size, 1)) > kElementsMax)
        return "too many elements";
      result.dims.push_back(size);
    }
    if (dtype_bytes(result.dtype) == 0 || result.dtype == TENON_C64 || result.dtype == TENON_C128) {
      return "an element type that is not compared";
    }
    result.bytes = std::make_shared<std::vector<unsigned char>>(bytes_of(result) + 8);
  }
  return "";
}

bool compute(const Node& node, std::span<const int64_t> symbols, std::span<const Tensor> operands,
             std::vector<Tensor>* results) {
  std::vector<tenon_array_t> inputs, outputs;
  for (const Tensor& operand : operands) inputs.push_back(array_of(operand));
  for (const Tensor& result : *results) outputs.push_back(array_of(result));
  const tenon_host_registry_t& host = *registry();
  return host.evaluate(host.self, node.graph(), node.id(), symbols.data(),
                       static_cast<uint32_t>(symbols.size()), inputs.data(),
                       static_cast<uint32_t>(inputs.size()), outputs.data(),
                       static_cast<uint32_t>(outputs.size())) == TENON_OK;
}

bool ordinary(const Tensor& tensor) {
  if (!is_float(tensor.dtype)) return true;
  const uint32_t size = dtype_bytes(tensor.dtype);
  for (int64_t i = 0, n = tensor.count(); i < n; ++i) {
    if (!(std::fabs(load_double(tensor.dtype, tensor.bytes->data() + i * size)) <= kLargest))
      return false;
  }
  return true;
}

const tenon_op_def_t* definition(const Node& node) {
  const tenon_op_def_t* op = nullptr;
  const tenon_node_view_t view = node.view();
  return registry()->op_find(registry()->self, view.op, view.op_version, &op) == TENON_OK ? op
                                                                                          : nullptr;
}

std::string run_node(const Node& node, std::span<const int64_t> symbols, Values* values) {
  if (node.view().region_count != 0) return fmt::format("{} has regions", node.op());
  std::vector<Tensor> operands, results;
  for (const Value operand : node.operands()) {
    if (operand.valid() && operand.is_constant() && !values->contains(operand.id())) {
      (*values)[operand.id()] = constant_tensor(operand);
    }
    operands.push_back(operand.valid() ? values->at(operand.id()) : Tensor());
  }
  const std::string problem = evaluate(node, symbols, operands, &results);
  if (!problem.empty()) return fmt::format("{}: {}", node.op(), problem);
  for (uint32_t i = 0; i < node.result_count(); ++i)
    (*values)[node.result(i).id()] = std::move(results[i]);
  return "";
}

std::string run_graph(const Region& main, Binding* binding, Values* held) {
  Values& values = *held;
  const std::vector<Value> arguments = main.arguments();
  for (size_t i = 0; i < arguments.size(); ++i) values[arguments[i].id()] = binding->inputs[i];
  for (const Node& node : main.nodes()) {
    if (std::string problem = run_node(node, binding->symbols, &values); !problem.empty())
      return problem;
  }
  binding->outputs.clear();
  for (const Value yield : main.yields()) {
    binding->outputs.push_back(yield.is_constant() ? constant_tensor(yield)
                                                   : values.at(yield.id()));
  }
  return "";
}

}  // namespace

const tenon_host_registry_t* registry() {
  static const auto* found = context().query<tenon_host_registry_t>(TENON_HOST_REGISTRY_ID);
  return found;
}

std::string evaluate(const Node& node, std::span<const int64_t> symbols,
                     std::span<const Tensor> operands, std::vector<Tensor>* results) {
  std::vector<Tensor> shapes;
  if (std::string problem = shape_results(node, symbols, &shapes); !problem.empty()) return problem;
  const auto again = [&](std::span<const Tensor> others, std::vector<Tensor>* found) {
    *found = shapes;
    for (Tensor& tensor : *found)
      tensor.bytes = std::make_shared<std::vector<unsigned char>>(bytes_of(tensor) + 8);
    return compute(node, symbols, others, found);
  };
  const tenon_op_def_t* op = definition(node);
  if (op == nullptr || !again(operands, results)) return failure_text();
  if (!std::all_of(results->begin(), results->end(), ordinary))
    return "not a finite number of moderate size";
  return allow(*op, operands, again, results) ? "" : "too much depends on roundings";
}

Tensor random_tensor(tenon_dtype_t dtype, std::vector<int64_t> dims, uint64_t seed) {
  std::mt19937_64 random(seed);
  Tensor tensor{dtype, std::move(dims), nullptr, nullptr};
  auto bytes = std::make_shared<std::vector<unsigned char>>(bytes_of(tensor) + 8);
  const uint32_t size = dtype_bytes(dtype);
  const bool is_signed = is_in(dtype, kSigned);
  for (int64_t i = 0, n = tensor.count(); i < n; ++i) {
    unsigned char* at = bytes->data() + i * size;
    if (is_float(dtype)) {
      // The sum of three uniform numbers is nearly normal. Multiples of 1/16, so that equal
      // elements occur.
      double x = 0;
      for (int k = 0; k < 3; ++k) x += static_cast<double>(random() % 4096) / 2048 - 1;
      store_double(dtype, at, random() % 4 == 0 ? std::round(x * 16) / 16 : x);
    } else if (dtype == TENON_PRED) {
      store_int(dtype, at, static_cast<int64_t>(random() % 2));
    } else {
      store_int(dtype, at, static_cast<int64_t>(random() % 9) - (is_signed ? 3 : 0));
    }
  }
  tensor.bytes = std::move(bytes);
  return tensor;
}

Tensor constant_tensor(const Value& constant) {
  Tensor tensor;
  tensor.dtype = constant.dtype();
  for (const Dim dim : constant.dims()) tensor.dims.push_back(dim.constant());
  const auto data = blob_bytes(constant.blob());
  const auto* begin = reinterpret_cast<const unsigned char*>(data.data());
  auto bytes = std::make_shared<std::vector<unsigned char>>(begin, begin + data.size());
  bytes->resize(data.size() + 8);
  tensor.bytes = std::move(bytes);
  return tensor;
}

std::string evaluate(Generated* generated, std::vector<Values>* values) {
  const Region main = main_region(generated->graph.get());
  for (Binding& binding : generated->bindings) {
    Values held;
    if (std::string problem = run_graph(main, &binding, &held); !problem.empty()) return problem;
    if (values != nullptr) values->push_back(std::move(held));
  }
  return "";
}

}  // namespace tenon::random_tests
