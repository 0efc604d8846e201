#include "core/conform/program.h"

#include <nlohmann/json.hpp>

#include <algorithm>

#include "core/base/str.h"
#include "core/conform/session.h"

namespace tenon::conform {
namespace {

tenon_code_t append(void* self, const void* data, uint64_t size) {
  static_cast<std::string*>(self)->append(static_cast<const char*>(data), size);
  return TENON_OK;
}

int64_t count_of(const tenon_port_t& port) {
  int64_t count = 1;
  for (uint32_t i = 0; i < port.rank; ++i) count *= port.dims[i];
  return count;
}

tenon_code_t bind_one(const Api& api, tenon_binding_t* binding, const Named& input) {
  std::vector<int64_t> strides(input.tensor.dims.size() + 1);
  int64_t stride = input.tensor.count() == 0
                       ? 0
                       : static_cast<int64_t>(input.tensor.size_bytes()) / input.tensor.count();
  for (size_t d = input.tensor.dims.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= input.tensor.dims[d];
  }
  tenon_array_t array = {};
  array.size_bytes = sizeof(array);
  array.dtype = input.tensor.dtype;
  array.rank = static_cast<uint32_t>(input.tensor.dims.size());
  array.data = const_cast<unsigned char*>(input.bytes.data());
  array.dims = input.tensor.dims.data();
  array.strides_bytes = strides.data();
  return api.session->bind_input(api.session->self, binding, {input.name.data(), input.name.size()},
                                 &array);
}

}  // namespace

Outcome find_api(Api* out) {
  std::string why;
  out->host = installed_host(&why);
  if (out->host == nullptr) return skipped("the installed host does not start: " + why);
  const void *graph = nullptr, *session = nullptr;
  constexpr std::string_view kGraph = TENON_HOST_GRAPH_ID, kSession = TENON_HOST_SESSION_ID;
  if (out->host->query(out->host->self, {kGraph.data(), kGraph.size()}, 0, &graph) != TENON_OK ||
      out->host->query(out->host->self, {kSession.data(), kSession.size()}, 0, &session) !=
          TENON_OK) {
    return skipped("the installed host has no sessions");
  }
  out->graph = static_cast<const tenon_host_graph_t*>(graph);
  out->session = static_cast<const tenon_host_session_t*>(session);
  return pass();
}

std::string last_failure(const Api& api) {
  tenon_failure_t failure = {};
  failure.size_bytes = sizeof(failure);
  if (api.host->last_failure(api.host->self, &failure) != TENON_OK) return "no reason given";
  return printable(view(failure.message), 600);
}

std::string failure_id(const Api& api) {
  tenon_failure_t failure = {};
  failure.size_bytes = sizeof(failure);
  return api.host->last_failure(api.host->self, &failure) == TENON_OK
             ? std::string(view(failure.id))
             : "";
}

Program::~Program() {
  if (program_ != nullptr) api_.session->program_release(api_.session->self, program_);
  if (model_ != nullptr) api_.session->model_release(api_.session->self, model_);
}

tenon_code_t Program::compile(const std::string& text, std::string_view kind, bool whole) {
  tenon_blob_t* blob = nullptr;
  if (tenon_code_t code = api_.graph->blob_bytes(api_.graph->self, text.data(), text.size(), &blob);
      code != TENON_OK)
    return code;
  constexpr std::string_view kName = "cases.tir";
  const tenon_code_t code = api_.session->model_load_bytes(
      api_.session->self, blob, {kName.data(), kName.size()}, {nullptr, 0}, &model_);
  api_.graph->blob_release(api_.graph->self, blob);
  return code == TENON_OK ? compile_model(kind, whole) : code;
}

tenon_code_t Program::compile(tenon_graph_t* graph, std::string_view kind) {
  const tenon_code_t code = api_.session->model_from_graph(api_.session->self, graph, &model_);
  return code == TENON_OK ? compile_model(kind, false) : code;
}

tenon_code_t Program::compile_model(std::string_view kind, bool whole) {
  const std::string device =
      whole || kind == kReference ? std::string(kind) : fmt::format("{},{}", kind, kReference);
  const std::string_view pipeline = whole ? "" : "none";
  tenon_session_options_t options = {};
  options.size_bytes = sizeof(options);
  options.claim_all = 1;
  options.no_fallback = whole ? 1 : 0;
  options.device = {device.data(), device.size()};
  options.pipeline = {pipeline.data(), pipeline.size()};
  return api_.session->compile(api_.session->self, model_, &options, &program_);
}

std::vector<std::string> Program::devices() const {
  return of_nodes("device");
}
std::vector<std::string> Program::makers() const {
  return of_nodes("by");
}

std::vector<std::string> Program::of_nodes(const char* key) const {
  std::string text;
  const tenon_sink_t sink = {&text, append};
  std::vector<std::string> out;
  if (api_.session->placement(api_.session->self, program_, &sink) != TENON_OK) return out;
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("nodes")) return out;
  for (const auto& node : json["nodes"]) out.push_back(node.value(key, ""));
  return out;
}

tenon_model_info_t Program::info() const {
  tenon_model_info_t info = {};
  info.size_bytes = sizeof(info);
  (void)api_.session->model_info(api_.session->self, model_, &info);
  return info;
}

std::vector<Named> make_inputs(const tenon_model_info_t& info, const Fill& fill) {
  std::vector<Named> inputs(info.input_count);
  for (uint32_t i = 0; i < info.input_count; ++i) {
    const tenon_port_t& port = info.inputs[i];
    Named& input = inputs[i];
    input.name = std::string(view(port.name));
    input.tensor.dtype = port.dtype;
    input.tensor.dims.assign(port.dims, port.dims + port.rank);
    input.bytes.resize(std::max<uint64_t>(input.tensor.size_bytes(), 1));
    fill(port.dtype, i, count_of(port), input.bytes.data());
    input.tensor.data = input.bytes.data();
  }
  return inputs;
}

bool run_program(const Program& program, const std::vector<Named>& inputs,
                 std::vector<Named>* outputs, std::string* why) {
  const Api& api = program.api();
  tenon_binding_t* binding = nullptr;
  tenon_code_t code = api.session->binding_create(api.session->self, program.get(), &binding);
  if (code != TENON_OK) return *why = last_failure(api), false;
  for (const Named& input : inputs) {
    if (code == TENON_OK) code = bind_one(api, binding, input);
  }
  if (code == TENON_OK) code = api.session->run(api.session->self, binding);
  if (code != TENON_OK) *why = last_failure(api);  // before another call into the host
  const tenon_model_info_t info = program.info();
  for (uint32_t i = 0; code == TENON_OK && i < info.output_count; ++i) {
    tenon_array_t array = {};
    array.size_bytes = sizeof(array);
    code = api.session->output(api.session->self, binding, info.outputs[i].name, &array);
    if (code != TENON_OK) {
      *why = last_failure(api);
      break;
    }
    Named output;
    output.name = std::string(view(info.outputs[i].name));
    output.tensor = tools::dense_of(array);
    const uint64_t size = output.tensor.size_bytes();
    if (size != 0) output.bytes.assign(output.tensor.data, output.tensor.data + size);
    outputs->push_back(std::move(output));
    outputs->back().tensor.data = outputs->back().bytes.data();
  }
  api.session->binding_release(api.session->self, binding);
  return code == TENON_OK;
}

}  // namespace tenon::conform
