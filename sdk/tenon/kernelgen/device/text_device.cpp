#include "tenon/kernelgen/device/text_device.h"

#include <cstring>
#include <unordered_map>

#include "tenon/cpp/record.hpp"
#include "tenon/kernelgen/lower/node_form.h"

namespace tenon::kernelgen {
namespace {

tenon_code_t fail(const HostTables& host, tenon_code_t code, std::string_view device,
                  std::string_view reason) {
  const std::string text = std::string(device) + ": " + std::string(reason);
  return host.host->fail(host.host->self, code, {text.data(), text.size()}, nullptr, 0);
}

struct ArtifactHead {
  uint64_t program_bytes, code_bytes, digest;
};

// FNV-1a, including the lengths. Detects damage, not malice.
uint64_t digest_of(std::string_view program, std::string_view code) {
  uint64_t hash = 1469598103934665603u ^ program.size() * 31 ^ code.size();
  for (std::string_view part : {program, code}) {
    for (char c : part) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  }
  return hash;
}

// The answer to one node.
struct Answer {
  bool claimed = false;
  double cost_ns = 0;
  std::string why;
};

Answer answer_to(const HostTables& host, tenon_graph_t* graph, tenon_node_t node,
                 const LoweringLimits& limits, const DeviceRates& rates,
                 const std::vector<int64_t>& symbols) {
  Answer a;
  a.claimed = can_lower(host, graph, node, limits, &a.why);
  if (!a.claimed) return a;
  a.cost_ns = node_cost_ns(host, graph, node, symbols, rates);
  return a;
}

bool is_barrier(const HostTables& host, tenon_graph_t* graph, tenon_node_t node) {
  auto n = sized<tenon_node_view_t>();
  if (host.graph->node_view(host.graph->self, graph, node, &n) != TENON_OK) return false;
  const tenon_str_t op = host.host->sym_text(host.host->self, n.op);
  return std::string_view(op.data, op.size) == "barrier";
}

tenon_code_t stopped(const HostTables& host, std::string_view device) {
  if (host.host->cancelled(host.host->self) == 0) return TENON_OK;
  return fail(host, TENON_CANCELLED, device, "the compilation was cancelled");
}

}  // namespace

tenon_code_t claim_nodes(const HostTables& host, tenon_graph_t* graph, const LoweringLimits& limits,
                         const DeviceRates& rates, const tenon_claim_sink_t* sink) {
  auto g = sized<tenon_graph_view_t>();
  auto main = sized<tenon_region_view_t>();
  tenon_code_t code = host.graph->graph_view(host.graph->self, graph, &g);
  if (code == TENON_OK) code = host.graph->region_view(host.graph->self, graph, g.main, &main);
  const std::vector<int64_t> symbols = likely_symbols(host, graph);
  std::unordered_map<std::string, Answer> known;  // by form
  for (uint32_t i = 0; code == TENON_OK && i < main.node_count; ++i) {
    const tenon_node_t node = main.nodes[i];
    std::string form = node_form(host, graph, node);
    Answer own;
    const Answer* answer = &own;
    if (form.empty()) {
      own = answer_to(host, graph, node, limits, rates, symbols);
    } else {
      const auto [it, fresh] = known.try_emplace(std::move(form));
      if (fresh) it->second = answer_to(host, graph, node, limits, rates, symbols);
      answer = &it->second;
    }
    if (answer->claimed) {
      // A segment of its own, which orders those before and after it.
      const uint32_t flags = is_barrier(host, graph, node) ? TENON_CLAIM_ATOMIC : 0;
      const tenon_claim_t claim = {sizeof claim, flags, &node, 1, 0, answer->cost_ns};
      code = sink->claim(sink->self, &claim);
    } else {
      code = sink->refuse(sink->self, node, TENON_UNIMPLEMENTED,
                          {answer->why.data(), answer->why.size()});
    }
  }
  return code;
}

tenon_code_t refuse_options(const HostTables& host, std::string_view device,
                            const tenon_compile_options_t* options) {
  for (uint32_t i = 0; options != nullptr && i < options->option_count; ++i) {
    const tenon_str_t text = options->options[i].key;
    const std::string_view key(text.data, text.size);
    if (key.ends_with(".ops")) continue;  // the host's own option: which ops it offers the device
    const std::string told = "T0513: the device " + std::string(device) +
                             " has no options; it was given `" + std::string(key) + "`";
    return host.host->fail(host.host->self, TENON_INVALID_ARGUMENT, {told.data(), told.size()},
                           nullptr, 0);
  }
  return TENON_OK;
}

TextArtifact::~TextArtifact() {
  if (graph != nullptr) graphs->release(graphs->self, graph);
}

tenon_code_t build_text(const HostTables& host, std::string_view device, tenon_graph_t* graph,
                        const Target& target, TextArtifact* out, bool each_kernel) {
  BuiltProgram built;
  std::string why;
  if (const tenon_code_t code = stopped(host, device); code != TENON_OK) return code;
  if (!build_and_generate(host, graph, target, &built, &out->text, &why,
                          each_kernel ? &out->kernel_texts : nullptr)) {
    return fail(host, built.broken ? TENON_INTERNAL : TENON_UNIMPLEMENTED, device, why);
  }
  if (const tenon_code_t code = stopped(host, device); code != TENON_OK) return code;
  host.graph->retain(host.graph->self, graph);
  out->graphs = host.graph;
  out->graph = graph;
  out->target = target;
  out->program = built.program.bytes();
  out->kernel_count = static_cast<uint32_t>(built.kernels.size());
  return stopped(host, device);  // the next step, the device's compiler, cannot be interrupted
}

// Head, program, code.
tenon_code_t write_artifact(const TextArtifact& artifact, const tenon_sink_t* sink) {
  const ArtifactHead head = {artifact.program.size(), artifact.code.size(),
                             digest_of(artifact.program, artifact.code)};
  tenon_code_t code = sink->write(sink->self, &head, sizeof head);
  if (code == TENON_OK)
    code = sink->write(sink->self, artifact.program.data(), artifact.program.size());
  if (code == TENON_OK) code = sink->write(sink->self, artifact.code.data(), artifact.code.size());
  return code;
}

tenon_code_t read_artifact(const HostTables& host, std::string_view device, const void* bytes,
                           uint64_t size_bytes, DeviceProgram* program, std::string_view* code) {
  ArtifactHead head = {};
  if (size_bytes < sizeof head)
    return fail(host, TENON_FAILED_PRECONDITION, device, "the artifact is cut short");
  std::memcpy(&head, bytes, sizeof head);
  const std::string_view rest(static_cast<const char*>(bytes) + sizeof head,
                              size_bytes - sizeof head);
  if (head.program_bytes > rest.size() || head.code_bytes != rest.size() - head.program_bytes) {
    return fail(host, TENON_FAILED_PRECONDITION, device, "the artifact is cut short or too long");
  }
  const std::string_view text = rest.substr(0, head.program_bytes);
  *code = rest.substr(head.program_bytes);
  if (head.digest != digest_of(text, *code))
    return fail(host, TENON_FAILED_PRECONDITION, device, "the artifact is damaged");
  std::string why;
  if (!DeviceProgram::read(text.data(), text.size(), program, &why))
    return fail(host, TENON_FAILED_PRECONDITION, device, why);
  return TENON_OK;
}

tenon_code_t dump_artifact(const HostTables& host, std::string_view device,
                           const TextArtifact& artifact, tenon_str_t what,
                           const tenon_sink_t* sink) {
  const std::string_view name(what.data, what.size);
  if (name == "source") return sink->write(sink->self, artifact.text.data(), artifact.text.size());
  if (name != "stages" && name != "loops" && name != "kernels")
    return fail(host, TENON_NOT_FOUND, device,
                "there are the dumps stages, loops, source and kernels");
  BuiltProgram built;
  std::string why, text;
  std::string source;
  bool made = build_and_generate(host, artifact.graph, artifact.target, &built, &source, &why);
  if (name == "kernels") {
    text = made ? kernels_json(built.program) : "";
  } else {
    made = made && explain_program(&built, artifact.target, &text, &why);
  }
  if (!made) return fail(host, TENON_INTERNAL, device, why);
  return sink->write(sink->self, text.data(), text.size());
}

tenon_code_t constant_bytes(const HostTables& host, std::string_view device,
                            const DeviceProgram& program, tenon_blob_t* const* blobs,
                            uint32_t count, std::vector<std::string_view>* out) {
  if (count != program.constant_count) {
    return fail(host, TENON_INVALID_ARGUMENT, device,
                "the artifact belongs to another set of constants");
  }
  out->assign(count, {});
  for (const ProgramBuffer& b : program.buffers) {
    if (b.kind != BufferKind::kConstant || !(*out)[b.index].empty()) continue;
    const void* data = nullptr;
    uint64_t size = 0;
    const tenon_code_t code = host.graph->blob_data(host.graph->self, blobs[b.index], &data, &size);
    if (code != TENON_OK) return code;
    if (static_cast<int64_t>(size) != b.bytes.evaluate({})) {
      return fail(host, TENON_DATA_LOSS, device,
                  "a constant has another size than the code was compiled for");
    }
    (*out)[b.index] = {static_cast<const char*>(data), size};
  }
  return TENON_OK;
}

}  // namespace tenon::kernelgen
