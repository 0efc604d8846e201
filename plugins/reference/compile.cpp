#include "compile.h"

#include <tenon/cpp/builder.hpp>
#include <tenon/cpp/plugin.hpp>
#include <tenon/cpp/timeline.hpp>

#include "artifact.h"
#include "interpreter.h"

namespace tenon::reference {
namespace {

// The largest number of elements of a constant that inference may read (tenon_infer_t::value_of).
constexpr int64_t kKnownElements = 4096;

// A cost that every serious device undercuts.
constexpr double kNodeNs = 1e6;

struct Artifact {
  explicit Artifact(tenon_graph_t* of) : graph(of) { graph_api().retain(graph_api().self, graph); }
  ~Artifact() { graph_api().release(graph_api().self, graph); }
  Artifact(const Artifact&) = delete;
  tenon_graph_t* graph;
  std::string bytes;  // artifact_head, then the graph in binary form
};
Artifact* artifact_of(tenon_artifact_t* handle) {
  return reinterpret_cast<Artifact*>(handle);
}
Interpreter* interpreter_of(tenon_executable_t* handle) {
  return reinterpret_cast<Interpreter*>(handle);
}

// Empty when the node can be evaluated, else why not.
std::string obstacle(const tenon_node_view_t& node) {
  const tenon_op_def_t* op = nullptr;
  if (registry().op_find(registry().self, node.op, node.op_version, &op) != TENON_OK) {
    return cat("no plugin declares ", quoted(sym_text(node.op)));
  }
  if (op->reference != nullptr || op->scalar != nullptr || op->decompose != nullptr) return "";
  return cat(view(op->name), " has no reference, scalar program or decomposition");
}

// There are none. NAME.ops is the host's: which ops it offers the device.
Status refuse_options(const tenon_compile_options_t* options) {
  for (uint32_t i = 0; i < options->option_count; ++i) {
    const std::string_view key = view(options->options[i].key);
    if (key.ends_with(".ops")) continue;
    return fail(TENON_INVALID_ARGUMENT,
                cat("T0513: The reference device has no options; it was given ", quoted(key), "."));
  }
  return {};
}

Status claim(void*, tenon_str_t, tenon_graph_t* graph, const tenon_compile_options_t* options,
             const tenon_claim_sink_t* sink) {
  TENON_TRY(refuse_options(options));
  auto whole = sized<tenon_graph_view_t>();
  auto main = sized<tenon_region_view_t>();
  TENON_TRY(graph_api().graph_view(graph_api().self, graph, &whole));
  TENON_TRY(graph_api().region_view(graph_api().self, graph, whole.main, &main));
  for (uint32_t i = 0; i < main.node_count; ++i) {
    const std::string reason = obstacle(Node(graph, main.nodes[i]).view());
    if (reason.empty()) {
      TENON_TRY(tenon_claim_node(sink, main.nodes[i], kNodeNs));
    } else {
      TENON_TRY(sink->refuse(sink->self, main.nodes[i], TENON_UNIMPLEMENTED, str(reason)));
    }
  }
  return {};
}

// The same graph, with large constants as arguments after the others, because an artifact holds no
// large constants. Small ones stay, because inference may need their values.
Status without_constants(tenon_graph_t* graph, Graph* out, std::vector<uint32_t>* ordinals,
                         uint32_t* count) {
  const tenon_host_graph_t& api = graph_api();
  tenon_graph_t* copy = nullptr;
  TENON_TRY(api.clone(api.self, graph, &copy));
  *out = Graph(copy);
  auto whole = sized<tenon_graph_view_t>();
  TENON_TRY(api.graph_view(api.self, copy, &whole));
  *count = 0;
  for (tenon_value_t v = 0; v < whole.value_limit; ++v) {
    const tenon_value_view_t view = Value(copy, v).view();
    if (view.kind != TENON_VALUE_CONSTANT) continue;
    const uint32_t ordinal = (*count)++;
    int64_t elements = 1;
    for (uint32_t i = 0; i < view.type.rank; ++i) elements *= view.type.dims[i];
    if (elements <= kKnownElements) continue;
    const std::vector<tenon_dim_t> dims(view.type.dims, view.type.dims + view.type.rank);
    tenon_type_t type = view.type;
    type.dims = dims.data();
    tenon_value_t argument = 0;
    TENON_TRY(api.argument_add(api.self, copy, whole.main, &type, str(""), &argument));
    TENON_TRY(api.value_replace(api.self, copy, v, argument));
    ordinals->push_back(ordinal);
  }
  return {};
}

Status compile(void*, tenon_str_t, tenon_graph_t* graph, const tenon_compile_options_t* options,
               tenon_artifact_t** out) {
  TENON_TRY(refuse_options(options));
  auto artifact = std::make_unique<Artifact>(graph);
  Graph bare;
  std::vector<uint32_t> ordinals;
  uint32_t count = 0;
  TENON_TRY(without_constants(graph, &bare, &ordinals, &count));
  std::string body;
  const tenon_sink_t bytes = sink_to(&body);
  TENON_TRY(graph_api().graph_write(graph_api().self, bare.get(), TENON_FORMAT_BINARY, &bytes));
  artifact->bytes = artifact_head(ordinals, count, body) + body;
  *out = reinterpret_cast<tenon_artifact_t*>(artifact.release());
  return {};
}

void artifact_release(void*, tenon_artifact_t* artifact) {
  delete artifact_of(artifact);
}

Status artifact_info(void*, tenon_artifact_t*, tenon_artifact_info_t* out) {
  return give_record(out, tenon_artifact_info_t{});  // nothing is generated
}

Status artifact_bytes(void*, tenon_artifact_t* artifact, const tenon_sink_t* sink) {
  const std::string& bytes = artifact_of(artifact)->bytes;
  return sink->write(sink->self, bytes.data(), bytes.size());
}

Status fits(void*, tenon_str_t target, const void* bytes, uint64_t size) {
  if (view(target) != kTarget)
    return fail(TENON_FAILED_PRECONDITION,
                cat("This device is ", quoted(kTarget), ", and not ", quoted(view(target)), "."));
  std::unique_ptr<Interpreter> loaded;
  ArtifactView parts;
  TENON_TRY(read_head(bytes, size, &parts));
  const Fault fault = fault_of(Interpreter::load(parts, {}, &loaded).code());
  if (fault.ok() || fault.code == TENON_RESOURCE_EXHAUSTED) return fault.tell();
  return fail(TENON_FAILED_PRECONDITION,
              cat("These ", size, " bytes hold a graph that cannot be read here: ", fault.text));
}

Status load(void*, tenon_device_t*, const void* bytes, uint64_t size,
            tenon_blob_t* const* constants, uint32_t constant_count, tenon_executable_t** out) {
  std::unique_ptr<Interpreter> loaded;
  ArtifactView parts;
  TENON_TRY(read_head(bytes, size, &parts));
  if (constant_count != parts.constant_count) {
    return fail(TENON_INVALID_ARGUMENT,
                cat("The artifact belongs to a graph with ", parts.constant_count, " constants; ",
                    constant_count, " were given."));
  }
  TENON_TRY(Interpreter::load(parts, {constants, constant_count}, &loaded));
  *out = reinterpret_cast<tenon_executable_t*>(loaded.release());
  return {};
}

void executable_release(void*, tenon_executable_t* executable) {
  delete interpreter_of(executable);
}

Status executable_info(void*, tenon_executable_t* executable, tenon_executable_info_t* out) {
  tenon_executable_info_t made = {};
  made.kernel_count = interpreter_of(executable)->node_count();
  made.constant_bytes = interpreter_of(executable)->constant_bytes();
  return give_record(out, made);
}

Status needs(void*, tenon_executable_t* executable, tenon_symbols_t symbols, tenon_needs_t* out) {
  return fill_record(
      out, [&](tenon_needs_t* full) { return interpreter_of(executable)->needs(symbols, full); });
}

Status execute(void*, tenon_executable_t* executable, const tenon_call_t* call) {
  return interpreter_of(executable)->execute(*call);
}

Status dump(void*, tenon_artifact_t* artifact, tenon_str_t what, const tenon_sink_t* sink) {
  if (view(what) != "plan")
    return fail(TENON_NOT_FOUND, "The reference device can only show its plan.");
  return graph_api().graph_write(graph_api().self, artifact_of(artifact)->graph, TENON_FORMAT_TEXT,
                                 sink);
}

Status properties(void*, tenon_str_t, tenon_compile_properties_t* out) {
  tenon_compile_properties_t made = {};
  made.flags = TENON_COMPILE_SAME_BITS;  // one thread, one order
  return give_record(out, made);
}

}  // namespace

const tenon_compile_api_t kCompileApi = {sizeof(tenon_compile_api_t),
                                         nullptr,
                                         entry<claim>,
                                         entry<compile>,
                                         artifact_release,
                                         entry<artifact_info>,
                                         entry<artifact_bytes>,
                                         entry<fits>,
                                         entry<load>,
                                         executable_release,
                                         entry<executable_info>,
                                         entry<needs>,
                                         entry<execute>,
                                         entry<dump>,
                                         nullptr,
                                         nullptr,
                                         entry<properties>};

}  // namespace tenon::reference
