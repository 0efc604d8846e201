#include "core/tools/execution.h"

#include <stdlib.h>

#include <nlohmann/json.hpp>

#include "core/tools/console.h"

namespace tenon::tools {

using Json = nlohmann::json;

void apply_threads(const RunOptions& options) {
  if (options.threads > 0) setenv("TENON_NUM_THREADS", std::to_string(options.threads).c_str(), 1);
}

int load(const Host& host, const RunOptions& options, Model& model) {
  const tenon_code_t code = host.session->model_load(host.session->self, str(options.model), nullptr, 0, model.out());
  return code == TENON_OK ? kOk : report(host, code);
}

int compile(const Host& host, const Model& model, const RunOptions& options, std::string_view device,
            Program& program) {
  std::vector<tenon_key_value_t> pairs;
  for (const std::string& text : options.device_options) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      return fail(kUsage, "T0004", fmt::format("--option {} is not KEY=VALUE.", in_quotes(text)));
    }
    const std::string_view all = text;
    pairs.push_back({str(all.substr(0, equals)), str(all.substr(equals + 1))});
  }
  tenon_session_options_t session = {};
  session.size_bytes = sizeof session;
  session.no_fallback = options.no_fallback ? 1 : 0;
  session.claim_all = device.empty() ? 0 : 1;
  session.device = str(device);
  session.pipeline = str(options.pipeline);
  session.options = pairs.data();
  session.option_count = static_cast<uint32_t>(pairs.size());
  const tenon_code_t code = host.session->compile(host.session->self, model.get(), &session, program.out());
  return code == TENON_OK ? kOk : report(host, code);
}

int bind(const Host& host, const Program& program, const Inputs& inputs, Binding& binding) {
  tenon_code_t code = host.session->binding_create(host.session->self, program.get(), binding.out());
  for (size_t i = 0; code == TENON_OK && i < inputs.size(); ++i) {
    const Dense& tensor = inputs[i]->tensor;
    tenon_array_t array = {};
    array.size_bytes = sizeof array;
    array.dtype = tensor.dtype;
    array.rank = static_cast<uint32_t>(tensor.dims.size());
    array.data = const_cast<unsigned char*>(tensor.data);
    array.dims = tensor.dims.data();
    code = host.session->bind_input(host.session->self, binding.get(), str(inputs[i]->name), &array);
  }
  return code == TENON_OK ? kOk : report(host, code);
}

int output_names(const Host& host, const Model& model, std::vector<std::string>& names) {
  tenon_model_info_t info = {};
  info.size_bytes = sizeof info;
  if (tenon_code_t code = host.session->model_info(host.session->self, model.get(), &info)) return report(host, code);
  for (uint32_t i = 0; i < info.output_count; ++i) names.emplace_back(view(info.outputs[i].name));
  return kOk;
}

int output(const Host& host, const Binding& binding, const std::string& name, Dense& tensor) {
  tenon_array_t array = {};
  array.size_bytes = sizeof array;
  if (tenon_code_t code = host.session->output(host.session->self, binding.get(), str(name), &array)) {
    return report(host, code);
  }
  tensor = dense_of(array);
  return kOk;
}

int placement(const Host& host, const Program& program, std::string& json) {
  Text text;
  const tenon_sink_t sink = text.sink();
  if (tenon_code_t code = host.session->placement(host.session->self, program.get(), &sink)) return report(host, code);
  json = std::move(text.text);
  return kOk;
}

std::string devices_of(std::string_view placement_json) {
  const Json json = Json::parse(placement_json, nullptr, false);
  std::string names;
  if (!json.is_object() || !json.contains("devices")) return names;
  for (const Json& device : json["devices"]) {
    if (!device.is_object() || !device.contains("device") || !device["device"].is_string()) continue;
    names += (names.empty() ? "" : ",") + device["device"].get<std::string>();
  }
  return names;
}

uint64_t nodes_of(std::string_view placement_json) {
  const Json json = Json::parse(placement_json, nullptr, false);
  return json.is_object() && json.contains("nodes") ? json["nodes"].size() : 0;
}

namespace {
double number(const Json& row, const char* key) {
  return row.is_object() && row.contains(key) && row[key].is_number() ? row[key].get<double>() : 0;
}
std::string word(const Json& row, const char* key) {
  return row.is_object() && row.contains(key) && row[key].is_string() ? row[key].get<std::string>() : std::string();
}
}  // namespace

int kernel_table(const Host& host, const Binding& binding, int64_t n, std::string& text) {
  Text profile;
  const tenon_sink_t sink = profile.sink();
  if (tenon_code_t code =
          host.session->profile_write(host.session->self, binding.get(), TENON_PROFILE_TABLE, &sink)) {
    return report(host, code);
  }
  const Json json = Json::parse(profile.text, nullptr, false);
  if (!json.is_object() || !json.contains("kernels") || !json["kernels"].is_array()) return kOk;
  text = fmt::format("{:>6} {:>10} {:>8} {:>9} {:>9}  {}\n", "share", "time", "calls", "GFLOP/s", "GB/s", "kernel");
  for (const Json& row : json["kernels"]) {
    if (n-- == 0) break;
    const double us = number(row, "total_ns") / 1e3, calls = number(row, "count");
    const double per_second = us > 0 ? 1e-3 / us : 0;  // units per us to 1e9 units per second
    text += fmt::format("{:>5.1f}% {:>7.1f} us {:>8} {:>9.2f} {:>9.2f}  {}", number(row, "share") * 100, us,
                        static_cast<int64_t>(calls), number(row, "flops") * per_second,
                        number(row, "bytes") * per_second, safe(word(row, "name")));
    const std::string device = word(row, "device");
    text += device.empty() ? "\n" : fmt::format(" on {}\n", safe(device));
  }
  return kOk;
}

}  // namespace tenon::tools
