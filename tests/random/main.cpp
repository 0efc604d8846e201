// Runs random graphs on a device and compares with the operators' own meaning and with the reference device.
//   random_graphs [--device NAME] [--seed FIRST] [--count N] [--keep FOLDER]
// A failure prints the seed and the graph, and the run goes on; the exit status is 1 when any failed.
#include <fmt/core.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <tenon/cpp/session.hpp>

#include "core/tools/tensors.h"
#include "core/tools/random_graphs.h"

namespace {

using tenon::random_graphs::Generated;
using tenon::random_graphs::Known;
using tenon::tools::Dense;

struct Options {
  std::string device = "cpu";
  uint64_t seed = 1, count = 200;
};

std::string text_of(const Generated& generated) {
  std::string text;
  const tenon_sink_t sink = tenon::sink_to(&text);
  (void)tenon::graph_api().graph_write(tenon::graph_api().self, generated.graph.get(), TENON_FORMAT_TEXT, &sink);
  return text;
}

tenon::ArrayView array_of(const Known& known) { return {known.dtype, known.dims, known.bytes->data()}; }

// Empty when every output agrees.
std::string compare(const tenon::Session& session, const Generated& generated, const std::string& device) {
  tenon::Model model;
  tenon::Program program;
  tenon::Binding binding;
  const auto& api = session.api();
  if (api.model_from_graph(api.self, generated.graph.get(), model.out()) != TENON_OK) return tenon::failure_text();
  if (!model.compile({.device = device}, &program).ok()) return "compile: " + tenon::failure_text();
  if (!program.bind(&binding).ok()) return "bind: " + tenon::failure_text();
  for (const auto& [name, known] : generated.inputs) {
    if (!binding.input(name, array_of(known)).ok()) return "input: " + tenon::failure_text();
  }
  if (!binding.run().ok()) return "run: " + tenon::failure_text();
  for (const auto& [name, known] : generated.outputs) {
    tenon::ArrayView found;
    if (!binding.output(name, &found).ok()) return "output: " + tenon::failure_text();
    if (found.dims != known.dims || found.dtype != known.dtype) return fmt::format("{}: another type", name);
    const Dense a{found.dtype, found.dims, static_cast<const unsigned char*>(found.data)};
    const Dense b{known.dtype, known.dims, known.bytes->data()};
    const double tolerance = tenon::tools::default_tolerance(known.dtype) * static_cast<double>(1 + generated.nodes);
    const auto result = tenon::tools::compare(a, b, tolerance);
    if (!result.ok) {
      return fmt::format("{} {}: max|a-b| = {:.3g}, max|b| = {:.3g}; at {}: {} instead of {}", name,
                         tenon::tools::type_text(b), result.difference, result.scale,
                         tenon::tools::index_text(b.dims, result.worst), tenon::tools::element_text(a, result.worst),
                         tenon::tools::element_text(b, result.worst));
    }
  }
  return "";
}

bool parse(int argc, char** argv, Options* options) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--device") {
      options->device = argv[i + 1];
    } else if (name == "--seed") {
      options->seed = std::strtoull(argv[i + 1], nullptr, 10);
    } else if (name == "--count") {
      options->count = std::strtoull(argv[i + 1], nullptr, 10);
    } else {
      return false;
    }
  }
  return argc % 2 == 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, &options)) {
    fmt::print(stderr, "usage: random_graphs [--device NAME] [--seed FIRST] [--count N]\n");
    return 2;
  }
  const char* full = std::getenv("CHECK_FULL");
  if (full != nullptr && std::strcmp(full, "1") == 0) options.count *= 15;
  tenon::Session session;
  if (!session.open().ok()) {
    fmt::print(stderr, "{}\n", tenon::failure_text());
    return 3;
  }
  const auto* registry = tenon::context().query<tenon_host_registry_t>(TENON_HOST_REGISTRY_ID);
  const auto ops = tenon::random_graphs::usable_ops(*registry);
  std::vector<uint64_t> used(ops.size());
  uint64_t failed = 0, nodes = 0;
  for (uint64_t seed = options.seed; seed < options.seed + options.count; ++seed) {
    Generated generated;
    std::string problem;
    if (!tenon::random_graphs::generate(seed, *registry, ops, &used, &generated).ok()) {
      problem = "generate: " + tenon::failure_text();
    } else {
      problem = compare(session, generated, options.device);
    }
    nodes += generated.nodes;
    if (problem.empty()) continue;
    ++failed;
    fmt::print("seed {}: {}\n{}\n", seed, problem, failed <= 10 ? text_of(generated) : "");
  }
  std::string unused;
  for (size_t i = 0; i < ops.size(); ++i) {
    if (used[i] == 0) unused += " " + std::string(tenon::view(ops[i]->name));
  }
  fmt::print("{} graphs with {} nodes on {}: {} failed; ops never used:{}\n", options.count, nodes, options.device,
             failed, unused.empty() ? " none" : unused);
  return failed == 0 ? 0 : 1;
}
