#include "core/dispatch/kernels/kernel_device.h"

#include <fmt/format.h>

#include <tenon/cpp/record.hpp>

#include "core/base/errors/failure.h"
#include "core/base/record.h"
#include "core/base/str.h"
#include "core/dispatch/kernels/kernel_program.h"
#include "core/ir/serial/serial.h"

namespace tenon::dispatch {
namespace {

using ir::Graph;
using ir::Node;

struct Adapter {
  KernelsOfPlugin set;
  tenon_compile_api_t table;
};

struct Artifact {
  std::string bytes;
};

const KernelsOfPlugin& of(void* self) {
  return static_cast<const Adapter*>(self)->set;
}
KernelProgram& program(tenon_executable_t* e) {
  return *reinterpret_cast<KernelProgram*>(e);
}

tenon_code_t refuse(const tenon_claim_sink_t* sink, Node n, tenon_code_t code,
                    std::string_view reason) {
  return sink->refuse(sink->self, n, code, to_abi_str(reason));
}

// Claims a node alone, or refuses it.
tenon_code_t claim_alone(const KernelsOfPlugin& set, tenon_str_t target, const Graph& graph, Node n,
                         bool deterministic, const tenon_claim_sink_t* sink) {
  const auto candidate = query(set, target, KernelCall(graph, {n}, deterministic));
  return candidate.ok() ? tenon_claim_node(sink, n, candidate->cost_ns)
                        : refuse(sink, n, candidate.status().code(), candidate.status().message());
}

// Claims a node with the chain after it. A refusal of the chain is not reported: the node was asked
// about alone, too.
tenon_code_t claim_chain(const KernelsOfPlugin& set, tenon_str_t target, const Graph& graph, Node n,
                         const std::vector<Node>& chain, bool deterministic,
                         const tenon_claim_sink_t* sink) {
  const auto taken = query_longest(set, target, graph, n, chain, deterministic);
  if (!taken.ok() || taken->nodes.size() == 1) return TENON_OK;
  auto claim = sized<tenon_claim_t>();
  claim.flags = TENON_CLAIM_ATOMIC;
  claim.nodes = taken->nodes.data();
  claim.node_count = static_cast<uint32_t>(taken->nodes.size());
  claim.cost_ns = taken->candidate.cost_ns;
  return sink->claim(sink->self, &claim);
}

// Single kernels have no options. Those of a device with code of its own are not for them.
Status refuse_options(const KernelsOfPlugin& set, const tenon_compile_options_t* options) {
  if (options == nullptr || set.has_options) return {};
  for (uint32_t i = 0; i < options->option_count; ++i) {
    const std::string_view key = from_abi_str(options->options[i].key);
    if (key.ends_with(".ops")) continue;  // handled by the host: which ops the device is offered
    return error(TENON_INVALID_ARGUMENT, "T0513",
                 "a device of single kernels has no options; it was given {}", quoted(key));
  }
  return {};
}

tenon_code_t claim(void* self, tenon_str_t target, tenon_graph_t* handle,
                   const tenon_compile_options_t* options, const tenon_claim_sink_t* sink) {
  if (Status status = refuse_options(of(self), options); !status.ok())
    return to_abi(std::move(status));
  const Graph& graph = *Graph::from(handle);
  const Chains chains(graph);
  const bool deterministic = options->deterministic != 0;
  tenon_code_t code = TENON_OK;
  for (Node n : graph.nodes(graph.main())) {
    if (!graph.regions(n).empty() || !graph.symbols(n).empty()) {
      code = refuse(sink, n, TENON_UNIMPLEMENTED,
                    fmt::format("{} has regions or data-dependent dims, which single kernels do "
                                "not take",
                                printable(graph.op_name(n))));
    } else {
      code = claim_alone(of(self), target, graph, n, deterministic, sink);
      const std::vector<Node> chain = chains.chain_after(n);
      if (code == TENON_OK && !chain.empty())
        code = claim_chain(of(self), target, graph, n, chain, deterministic, sink);
    }
    if (code != TENON_OK) break;
  }
  return code;
}

tenon_code_t compile(void* self, tenon_str_t target, tenon_graph_t* graph,
                     const tenon_compile_options_t* options, tenon_artifact_t** out) {
  if (Status status = refuse_options(of(self), options); !status.ok())
    return to_abi(std::move(status));
  Result<std::string> bytes = ir::write_binary(*Graph::from(graph));
  if (bytes.ok())
    bytes = KernelArtifact::pack(std::move(*bytes), from_abi_str(target),
                                 options != nullptr && options->deterministic != 0);
  if (!bytes.ok()) return to_abi(bytes.status());
  *out = reinterpret_cast<tenon_artifact_t*>(new Artifact{std::move(*bytes)});
  return TENON_OK;
}
void artifact_release(void*, tenon_artifact_t* artifact) {
  delete reinterpret_cast<Artifact*>(artifact);
}
tenon_code_t artifact_info(void*, tenon_artifact_t*, tenon_artifact_info_t*) {
  return TENON_OK;
}  // compiles nothing
tenon_code_t artifact_bytes(void*, tenon_artifact_t* artifact, const tenon_sink_t* sink) {
  const std::string& bytes = reinterpret_cast<Artifact*>(artifact)->bytes;
  return sink->write(sink->self, bytes.data(), bytes.size());
}
tenon_code_t fits(void*, tenon_str_t target, const void* data, uint64_t size) {
  const Result<KernelArtifact> artifact =
      KernelArtifact::unpack({static_cast<const char*>(data), size});
  if (!artifact.ok()) return to_abi(artifact.status());
  if (artifact->target != from_abi_str(target)) {
    return to_abi(error(TENON_FAILED_PRECONDITION, "T0210",
                        "it is for the target {}, and this is {}", quoted(artifact->target),
                        quoted(from_abi_str(target))));
  }
  const Result<ir::Ref<Graph>> graph = artifact->read_graph();
  return graph.ok()
             ? TENON_OK
             : to_abi(error(TENON_FAILED_PRECONDITION, "T0210", "{}", graph.status().message()));
}
tenon_code_t load(void* self, tenon_device_t* device, const void* bytes, uint64_t size,
                  tenon_blob_t* const*, uint32_t, tenon_executable_t** out) {
  auto loaded = KernelProgram::load(of(self), device, {static_cast<const char*>(bytes), size});
  if (!loaded.ok()) return to_abi(loaded.status());
  *out = reinterpret_cast<tenon_executable_t*>(loaded->release());
  return TENON_OK;
}
void executable_release(void*, tenon_executable_t* e) {
  delete &program(e);
}
tenon_code_t executable_info(void*, tenon_executable_t* e, tenon_executable_info_t* out) {
  tenon_executable_info_t full{};
  program(e).info(&full);
  return to_abi(give_record(out, full));
}
tenon_code_t needs(void*, tenon_executable_t* e, tenon_symbols_t symbols, tenon_needs_t* out) {
  return to_abi(fill_record(out, [&](tenon_needs_t* full) {
    return program(e).needs({symbols.values, symbols.count}, full);
  }));
}
tenon_code_t execute(void*, tenon_executable_t* e, const tenon_call_t* call) {
  return to_abi(program(e).execute(*call));
}

}  // namespace

const tenon_compile_api_t* compile_from_kernels(KernelsOfPlugin set) {
  // One per kernel set, never freed: tables live as long as the process.
  auto* adapter = new Adapter{std::move(set), {}};
  adapter->table = tenon_compile_api_t{sizeof(tenon_compile_api_t),
                                       adapter,
                                       claim,
                                       compile,
                                       artifact_release,
                                       artifact_info,
                                       artifact_bytes,
                                       fits,
                                       load,
                                       executable_release,
                                       executable_info,
                                       needs,
                                       execute,
                                       nullptr,
                                       nullptr,
                                       nullptr};
  return &adapter->table;
}

}  // namespace tenon::dispatch
