// tenon compile and tenon info: programs in files.
#include <nlohmann/json.hpp>

#include <tenon/cpp/dtype.hpp>

#include "sdk/tools/tenon/console/console.h"
#include "sdk/tools/tenon/execution/execution.h"
#include "sdk/tools/tenon/execution/inputs.h"

namespace tenon::tools {
namespace {

using Json = nlohmann::json;

std::string word(const Json& row, const char* key) {
  return row.contains(key) && row[key].is_string() ? row[key].get<std::string>() : "";
}
uint64_t number(const Json& row, const char* key) {
  return row.contains(key) && row[key].is_number() ? row[key].get<uint64_t>() : 0;
}

std::string port_text(const Json& port) {
  std::string dims;
  for (const Json& dim : port["dims"])
    dims += (dims.empty() ? "" : ", ") + safe(dim.get<std::string>());
  return fmt::format("{}: {}[{}]", safe(word(port, "name")), word(port, "type"), dims);
}

std::string symbol_text(const Json& symbol) {
  std::string text =
      fmt::format("{}: at least {}", safe(word(symbol, "name")), symbol["lo"].get<int64_t>());
  if (symbol.contains("hi")) text += fmt::format(", at most {}", symbol["hi"].get<int64_t>());
  if (const uint64_t multiple = number(symbol, "multiple_of"); multiple > 1)
    text += fmt::format(", a multiple of {}", multiple);
  return text;
}

void print_ports(const Json& json) {
  for (const Json& port : json["inputs"]) out("input   {}\n", port_text(port));
  for (const Json& port : json["outputs"]) out("output  {}\n", port_text(port));
}

void print(const Json& json) {
  out("format {}, ABI {}, {} bytes, {} nodes\n", number(json, "format"), word(json, "abi"),
      number(json, "size_bytes"), number(json, "nodes"));
  print_ports(json);
  for (const Json& symbol : json["symbols"]) out("symbol  {}\n", symbol_text(symbol));
  for (const Json& plugin : json["plugins"]) {
    const std::string digest = safe(word(plugin, "sha256"));
    out("plugin  {} {}, {}\n", safe(word(plugin, "name")), safe(word(plugin, "version")),
        digest.empty() ? "registered by a program" : "sha256 " + digest);
  }
  for (const Json& device : json["devices"])
    out("device  {}, for {}\n", safe(word(device, "device")), in_quotes(word(device, "target")));
  for (const Json& segment : json["segments"]) {
    out("segment on {}: {} bytes of code, {} bytes of {}constants\n", safe(word(segment, "device")),
        number(segment, "code_bytes"), number(segment, "constants_bytes"),
        segment["packed"].get<bool>() ? "packed " : "");
  }
  for (const Json& section : json["sections"]) {
    out("section {}: {} bytes at {}\n", word(section, "kind"), number(section, "size_bytes"),
        number(section, "offset"));
  }
}

// ---- Models, which are not compiled: what they take and give ----

Json port_json(const tenon_port_t& port) {
  Json dims = Json::array();
  for (uint32_t i = 0; i < port.rank; ++i) dims.push_back(view(port.dim_texts[i]));
  return {{"name", view(port.name)}, {"type", dtype_name(port.dtype)}, {"dims", dims}};
}

int info_of_model(const Host& host, const PackageOptions& options) {
  RunOptions source;
  source.model = options.file;
  Model model(host);
  Signature signature(host);
  if (int s = load(host, source, model)) return s;
  if (int s = signature_of(host, model, signature)) return s;
  const tenon_model_info_t& info = signature.info;
  Json json = {{"schema", 1},
               {"nodes", info.node_count},
               {"constant_bytes", info.constant_bytes},
               {"inputs", Json::array()},
               {"outputs", Json::array()}};
  for (uint32_t i = 0; i < info.input_count; ++i)
    json["inputs"].push_back(port_json(info.inputs[i]));
  for (uint32_t i = 0; i < info.output_count; ++i)
    json["outputs"].push_back(port_json(info.outputs[i]));
  if (options.json) {
    write_out(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
    return kOk;
  }
  out("model, not compiled: {} nodes, {} bytes of constants\n", info.node_count,
      info.constant_bytes);
  print_ports(json);
  return kOk;
}

}  // namespace

int command_compile(const PackageOptions& options) {
  // /dev/null takes anything, which scripts that only check use.
  if (!is_package(options.file) && options.file != "/dev/null") {
    return fail(kUsage, "T0004",
                fmt::format("{} does not end in .tpk, by which packages are known.",
                            in_quotes(options.file)));
  }
  Host host;
  apply_threads(options.model);
  if (int s = host_open(host)) return s;
  if (int s = check_layers(host)) return s;
  Model model(host);
  if (int s = load(host, options.model, model)) return s;
  SessionOptions session;
  if (int s = read_options(options.model, options.model.device, session)) return s;
  auto record = sized<tenon_package_options_t>();
  record.session = &session.record;
  record.target = str(options.target);
  const tenon_code_t code =
      host.packages->save(host.packages->self, model.get(), &record, str(options.file));
  return code == TENON_OK ? kOk : report(host, code);
}

int command_info(const PackageOptions& options) {
  Host host;
  if (int s = host_open(host)) return s;
  if (!is_package(options.file)) return info_of_model(host, options);
  Text text;
  const tenon_sink_t sink = text.sink();
  if (tenon_code_t code = host.packages->describe(host.packages->self, str(options.file), &sink)) {
    return report(host, code);
  }
  if (options.json) {
    write_out(text.text);
    return kOk;
  }
  const Json json = Json::parse(text.text, nullptr, false);
  if (json.is_discarded()) return fail(kDevice, "T0003", "the report on a package is not JSON.");
  print(json);
  return kOk;
}

}  // namespace tenon::tools
