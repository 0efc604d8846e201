// Checking of random graphs. A runner takes one generated graph, runs it in its own way for each
// binding of the graph's symbols, and reports differences. It may be a device through a session
// (device_runner.h), an interpreter of a backend's programs, or anything else that computes outputs
// from inputs.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <tenon/cpp/graph.hpp>

namespace tenon::random_tests {

// A dense row-major tensor, and the allowed error of another correct evaluation.
struct Tensor {
  tenon_dtype_t dtype = TENON_DTYPE_NONE;
  std::vector<int64_t> dims;
  std::shared_ptr<const std::vector<unsigned char>> bytes;
  std::shared_ptr<const std::vector<double>>
      allowed;  // |a - b| by element; null: every bit counts (integers, inputs)

  int64_t count() const;
  const void* data() const { return bytes->data(); }
};

// One run of the graph.
struct Binding {
  std::vector<int64_t> symbols;  // by symbol index of the graph; unused indices hold 1
  std::vector<Tensor> inputs;    // by argument of the main region
  std::vector<Tensor> outputs;   // by yield
};

struct Generated {
  uint64_t seed = 0;
  Graph graph;                               // verified, and not frozen
  std::vector<std::string> inputs, outputs;  // names of arguments and yields
  std::vector<Binding> bindings;  // one for a graph without symbols, else 2 or 3 different ones
  uint64_t nodes = 0;
};

// Empty if all outputs of all bindings agree; else one line with the first difference.
using Runner = std::function<std::string(const Generated&)>;

// Compares a dense row-major result with the expected one, element by element. Empty if it agrees;
// else a line with the worst element: "out0 f32[2, 3]: -113 instead of 0.41 at [1, 2], 0.0004 is
// allowed (2 of 6 differ)". A NaN never agrees: expected values are finite.
std::string difference(const std::string& name, const Tensor& expected, const void* found);

}  // namespace tenon::random_tests
