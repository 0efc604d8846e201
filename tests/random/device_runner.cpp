#include "tests/random/device_runner.h"

#include <fmt/core.h>

#include <cstring>

namespace tenon::random_tests {
namespace {

std::string failed(std::string_view step) {
  return fmt::format("{}: {}", step, failure_text());
}

// Inputs in memory of their own, so that writes by a device are detected.
std::vector<std::vector<unsigned char>> copies(const Binding& run) {
  std::vector<std::vector<unsigned char>> out;
  for (const Tensor& input : run.inputs) out.push_back(*input.bytes);
  return out;
}

std::string bind(tenon::Binding& binding, const Generated& generated, const Binding& run,
                 const std::vector<std::vector<unsigned char>>& data) {
  for (size_t i = 0; i < run.inputs.size(); ++i) {
    const ArrayView array = {run.inputs[i].dtype, run.inputs[i].dims, data[i].data()};
    if (!binding.input(generated.inputs[i], array).ok())
      return failed("input " + generated.inputs[i]);
  }
  return "";
}

std::string compare(tenon::Binding& binding, const Generated& generated, const Binding& run) {
  for (size_t i = 0; i < run.outputs.size(); ++i) {
    const std::string& name = generated.outputs[i];
    ArrayView found;
    if (!binding.output(name, &found).ok()) return failed("output " + name);
    if (found.dims != run.outputs[i].dims || found.dtype != run.outputs[i].dtype)
      return name + ": another type";
    if (std::string problem = difference(name, run.outputs[i], found.data); !problem.empty())
      return problem;
  }
  return "";
}

std::string run_twice(tenon::Binding& binding, const Generated& generated, const Binding& run) {
  const auto data = copies(run);
  if (std::string problem = bind(binding, generated, run, data); !problem.empty()) return problem;
  for (const char* which : {"", "second run: "}) {
    if (!binding.run().ok()) return failed(fmt::format("{}run", which));
    if (std::string problem = compare(binding, generated, run); !problem.empty())
      return which + problem;
  }
  for (size_t i = 0; i < data.size(); ++i) {
    if (data[i] != *run.inputs[i].bytes)
      return fmt::format("the input {} was written to", generated.inputs[i]);
  }
  return "";
}

// A call that gives up all its inputs, whose memory outputs may then have.
std::string run_donated(const Program& program, const std::string& device,
                        const Generated& generated, const Binding& run) {
  std::vector<tenon::Tensor> tensors(run.inputs.size());
  std::vector<Input> inputs;
  for (size_t i = 0; i < run.inputs.size(); ++i) {
    const Tensor& input = run.inputs[i];
    if (!tenon::Tensor::copy({input.dtype, input.dims, input.bytes->data()}, &tensors[i], device)
             .ok())
      return failed("copy of " + generated.inputs[i]);
    inputs.push_back(Input::donate(tensors[i]));
  }
  std::vector<Output> outputs(run.outputs.size());
  for (size_t i = 0; i < outputs.size(); i += 2) outputs[i] = Output::left();
  if (!program.call(inputs, outputs).ok()) return failed("donated: call");
  for (size_t i = 0; i < outputs.size(); ++i) {
    ArrayView found;
    if (!outputs[i].tensor().array(&found).ok()) return failed("output " + generated.outputs[i]);
    if (std::string problem = difference(generated.outputs[i], run.outputs[i], found.data);
        !problem.empty())
      return "donated: " + problem;
  }
  return "";
}

std::string check(const Session& session, const std::string& device, const Generated& generated) {
  Model model;
  Program program;
  tenon::Binding binding;
  const auto& api = session.api();
  if (api.model_from_graph(api.self, generated.graph.get(), model.out()) != TENON_OK)
    return failed("model");
  if (!model.compile({.device = device}, &program).ok()) return failed("compile");
  if (!program.bind(&binding).ok()) return failed("bind");
  for (const Binding& run : generated.bindings) {
    if (std::string problem = run_twice(binding, generated, run); !problem.empty()) return problem;
    if (std::string problem = run_donated(program, device, generated, run); !problem.empty())
      return problem;
  }
  return "";
}

}  // namespace

Runner device_runner(const Session& session, std::string device) {
  return [&session, device = std::move(device)](const Generated& generated) {
    return check(session, device, generated);
  };
}

}  // namespace tenon::random_tests
