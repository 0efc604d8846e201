#include "sdk/tools/tenon/execution/execution.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>

#include <nlohmann/json.hpp>

#include "sdk/tools/tenon/console/console.h"
#include "sdk/tools/tenon/console/progress.h"

namespace tenon::tools {

using Json = nlohmann::json;

namespace {
std::string base_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}
}  // namespace

void apply_threads(const RunOptions& options) {
  if (options.threads > 0) setenv("TENON_NUM_THREADS", std::to_string(options.threads).c_str(), 1);
}

int check_layers(const Host& host) {
  if (view(host.host->setting(host.host->self, str("TENON_LAYERS"))).empty()) return kOk;
  // A pattern that matches no plugin's name: the report covers only layers.
  std::string text;
  if (int s = explain(host, "plugins", "?", text)) return s;
  const Json json = Json::parse(text, nullptr, false);
  for (const Json& layer : json.is_object() ? json.value("layers", Json::array()) : Json::array()) {
    const std::string problem = layer.value("problem", "");
    if (problem.empty()) continue;
    const size_t colon = std::min(problem.find(": "), problem.size());
    std::string sentence = problem.substr(std::min(colon + 2, problem.size()));
    if (!sentence.starts_with("TENON_LAYERS")) sentence.insert(0, "TENON_LAYERS: ");
    return fail(kDevice, problem.substr(0, colon), sentence,
                "`tenon plugins list` shows the layers; `unset TENON_LAYERS` does without.");
  }
  return kOk;
}

namespace {
// An input that got its value is not an input of the model any more; one that still is was ignored
// by the frontend.
int values_taken(const Host& host, const RunOptions& options, const Model& model) {
  auto info = sized<tenon_model_info_t>();
  if (tenon_code_t code = host.session->model_info(host.session->self, model.get(), &info))
    return report(host, code);
  for (const std::string& text : options.values) {
    const std::string_view name = std::string_view(text).substr(0, text.find('='));
    for (uint32_t i = 0; i < info.input_count; ++i) {
      if (view(info.inputs[i].name) != name) continue;
      return fail(
          kUsage, "T0005",
          fmt::format("{}: the input {} was not replaced: this format does not support --value.",
                      safe(options.model), in_quotes(name)),
          fmt::format("Give it with --input {}=FILE.", safe(name)));
    }
  }
  return kOk;
}
}  // namespace

int check_writable(const std::string& path) {
  if (path.empty()) return kOk;
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  struct stat there = {};
  const bool exists = stat(path.c_str(), &there) == 0;
  const bool is_folder = exists && S_ISDIR(there.st_mode);
  if (!is_folder && access(exists ? path.c_str() : folder.c_str(), W_OK) == 0) return kOk;
  return fail(kUsage, "T0107",
              fmt::format("{} cannot be written: {}.", in_quotes(path),
                          strerror(is_folder ? EISDIR : errno)));
}

int check_made(const std::string& path, std::string_view extension, const std::string& source) {
  if (path.empty()) return kOk;
  struct stat made = {}, given = {};
  if (stat(path.c_str(), &made) == 0 && stat(source.c_str(), &given) == 0 &&
      made.st_dev == given.st_dev && made.st_ino == given.st_ino)
    return fail(kUsage, "T0004", fmt::format("{} is the model itself.", in_quotes(path)),
                "-o names another file.");
  if (int s = check_writable(path)) return s;
  if (path.ends_with(extension)) return kOk;
  return fail(kUsage, "T0004",
              fmt::format("the name {} does not end in {}.", in_quotes(path), extension),
              fmt::format("As in -o {}{}.", safe(path), extension));
}

bool is_package(std::string_view path) {
  constexpr std::string_view kExtension = ".tpk";
  if (path.size() < kExtension.size()) return false;
  return std::ranges::equal(path.substr(path.size() - kExtension.size()), kExtension, {},
                            [](unsigned char c) { return std::tolower(c); });
}

int refuse_package(std::string_view path) {
  if (!is_package(path)) return kOk;
  return fail(
      kUsage, "T0004",
      fmt::format("{} is a package, a compiled program; this needs the model.", in_quotes(path)),
      "`tenon run`, `tenon bench` and `tenon info` take packages.");
}

int check_peaks(const std::string& text) {
  Peaks peaks;
  if (text.empty() || parse_peaks(text, peaks)) return kOk;
  return fail(kUsage, "T0004", fmt::format("--peaks {} is not GFLOPS,GB/S.", in_quotes(text)),
              "Two positive numbers, as in --peaks 230,38.");
}

int load_package(const Host& host, const RunOptions& options, Program& program) {
  const std::pair<const char*, bool> decided[] = {
      {"--device", !options.device.empty()},      {"--value", !options.values.empty()},
      {"--override", !options.overrides.empty()}, {"--option", !options.device_options.empty()},
      {"--passes", !options.pipeline.empty()},    {"--autotune", options.autotune},
      {"--no-fallback", options.no_fallback}};
  for (const auto& [name, given] : decided) {
    if (!given) continue;
    return fail(kUsage, "T0004",
                fmt::format("{} is a package, for which {} was decided when it was compiled.",
                            in_quotes(options.model), name),
                "`tenon compile --help` shows what can be chosen there.");
  }
  if (!options.check.empty() || !options.dump.empty()) {
    return fail(kUsage, "T0004",
                fmt::format("{} is a package, which has no model to {}.", in_quotes(options.model),
                            options.check.empty() ? "dump" : "check"),
                "Give the model itself.");
  }
  const tenon_code_t code =
      host.packages->load(host.packages->self, str(options.model), nullptr, program.out());
  return code == TENON_OK ? kOk : report(host, code);
}

namespace {
// Options of a load, with their texts.
class LoadOptions {
 public:
  int add_values(const std::vector<std::string>& values) {
    for (const std::string& text : values) {
      const size_t equals = text.find('=');
      if (equals == std::string::npos || equals == 0) {
        return fail(kUsage, "T0004", fmt::format("--value {} is not NAME=N,...", in_quotes(text)));
      }
      if (int s = add("--value", "value." + text.substr(0, equals), text.substr(equals + 1)))
        return s;
    }
    return kOk;
  }
  int add_overrides(const std::vector<std::string>& names) {
    for (const std::string& name : names)
      if (int s = add("--override", "override." + name, "")) return s;
    return kOk;
  }
  int add_dims(const std::vector<std::string>& dims) {
    for (const std::string& text : dims) {
      std::string name;
      int64_t size = 0;
      if (int s = parse_dim(text, name, size)) return s;
      if (int s = add("--dim", "dim." + name, std::to_string(size))) return s;
    }
    return kOk;
  }
  tenon_code_t load(const Host& host, const RunOptions& options, Model& model) const {
    std::vector<tenon_key_value_t> pairs;
    for (const auto& [key, value] : texts_) pairs.push_back({str(key), str(value)});
    return host.session->model_load(host.session->self, str(options.model), pairs.data(),
                                    static_cast<uint32_t>(pairs.size()), model.out());
  }

 private:
  int add(const char* option, std::string key, std::string value) {
    for (const auto& [known, given] : texts_) {
      if (known != key) continue;
      return fail(kUsage, "T0004",
                  fmt::format("{} gives {} twice.", option,
                              in_quotes(std::string_view(key).substr(key.find('.') + 1))));
    }
    texts_.emplace_back(std::move(key), std::move(value));
    return kOk;
  }
  std::vector<std::pair<std::string, std::string>> texts_;
};

bool failed_with(const Host& host, std::string_view id) {
  auto failure = sized<tenon_failure_t>();
  return host.host->last_failure(host.host->self, &failure) == TENON_OK && view(failure.id) == id;
}

// The given dims that are no symbols of the model any more.
int dims_taken(const Host& host, const RunOptions& options, const Model& model,
               std::vector<std::string>* fixed) {
  Graph graph(host);
  auto view_of_graph = sized<tenon_graph_view_t>();
  auto main = sized<tenon_region_view_t>();
  const tenon_host_graph_t& api = *host.graph;
  tenon_code_t code = host.session->model_graph(host.session->self, model.get(), graph.out());
  if (code == TENON_OK) code = api.graph_view(api.self, graph.get(), &view_of_graph);
  if (code == TENON_OK) code = api.region_view(api.self, graph.get(), view_of_graph.main, &main);
  if (code != TENON_OK) return report(host, code);
  std::string listed;
  for (const std::string& text : options.dims) {
    const std::string name = text.substr(0, text.find('='));
    bool symbolic = false;
    for (uint32_t i = 0; i < main.symbol_count; ++i) {
      auto symbol = sized<tenon_symbol_view_t>();
      code = api.symbol_view(api.self, graph.get(), main.symbols[i], &symbol);
      if (code != TENON_OK) return report(host, code);
      symbolic |= view(host.host->sym_text(host.host->self, symbol.name)) == name;
    }
    if (symbolic) continue;
    fixed->push_back(name);
    listed += fmt::format("{}{}", listed.empty() ? "" : ", ", safe(text));
  }
  if (!listed.empty()) talk("tenon: the model is compiled for {} alone\n", listed);
  return kOk;
}

// A model that cannot be loaded with these dims may say why without them, by a rule about a dim.
int report_broken_dim(const Host& host, const RunOptions& options, const LoadOptions& plain) {
  Model model(host);
  Signature signature(host);
  if (plain.load(host, options, model) != TENON_OK || signature_of(host, model, signature) != kOk)
    return kOk;
  return check_dims(host, signature, options);
}
}  // namespace

std::string advice_on(const Host& host, std::string_view path) {
  if (!path.ends_with(".pt2") || !failed_with(host, "T0791")) return "";
  return "PyTorch reads such files: in Python, with PyTorch, tenon.load(\"" +
         safe(base_name(std::string(path))) +
         "\").save(\"model.tpk\") writes a package, which `tenon run` and `tenon bench` take.";
}

int load(const Host& host, const RunOptions& options, Model& model,
         std::vector<std::string>* fixed) {
  if (int s = refuse_package(options.model)) return s;
  const Progress progress("loading " + base_name(options.model));
  LoadOptions plain;
  if (int s = plain.add_values(options.values)) return s;
  if (int s = plain.add_overrides(options.overrides)) return s;
  LoadOptions full = plain;
  if (int s = full.add_dims(options.dims)) return s;
  tenon_code_t code = full.load(host, options, model);
  // Where the format fixes no dims, or has none of that name, they may be sizes of random inputs.
  const bool again =
      code != TENON_OK && fixed != nullptr && !options.dims.empty() && failed_with(host, "T0793");
  if (again) {
    code = plain.load(host, options, model);
  } else if (code != TENON_OK && !options.dims.empty() && status_of(code) == kUsage) {
    if (int s = report_broken_dim(host, options, plain)) return s;
    code = full.load(host, options, model);  // for its failure
  }
  if (code != TENON_OK) return report(host, code, advice_on(host, options.model));
  std::vector<std::string> all;
  if (!again && !options.dims.empty()) {
    if (int s = dims_taken(host, options, model, fixed != nullptr ? fixed : &all)) return s;
  }
  return options.values.empty() ? kOk : values_taken(host, options, model);
}

void keep_options_of(std::string_view device, RunOptions& options) {
  const auto kind_of = [](std::string_view name) {
    return name.substr(0, name.find_first_of(":#."));
  };
  std::vector<std::string_view> kinds;
  for (std::string_view rest = device; !rest.empty();) {
    const size_t end = std::min(rest.find(','), rest.size());
    kinds.push_back(kind_of(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  std::erase_if(options.device_options, [&](const std::string& option) {
    return std::ranges::find(kinds, kind_of(option)) == kinds.end();
  });
}

int read_options(const RunOptions& options, std::string_view device, SessionOptions& out) {
  for (const std::string& text : options.device_options) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      return fail(kUsage, "T0004", fmt::format("--option {} is not KEY=VALUE.", in_quotes(text)));
    }
    const std::string_view all = text;
    out.pairs.push_back({str(all.substr(0, equals)), str(all.substr(equals + 1))});
  }
  out.record.no_fallback = options.no_fallback ? 1 : 0;
  out.record.autotune = options.autotune ? 1 : 0;
  out.record.device = str(device);
  out.record.pipeline = str(options.pipeline);
  out.record.options = out.pairs.data();
  out.record.option_count = static_cast<uint32_t>(out.pairs.size());
  return kOk;
}

int compile(const Host& host, const Model& model, const RunOptions& options,
            std::string_view device, Program& program) {
  SessionOptions session;
  if (int s = read_options(options, device, session)) return s;
  const Progress progress(fmt::format("compiling {}{}{}", base_name(options.model),
                                      device.empty() ? "" : " for ", device));
  const tenon_code_t code =
      host.session->compile(host.session->self, model.get(), &session.record, program.out());
  return code == TENON_OK ? kOk : report(host, code);
}

namespace {
// Advice about a file's input that the model does not take.
std::string where_from(const Input& input) {
  if (input.file.empty()) return "";
  return fmt::format(
      "{} holds {}: save it again with the type that the model expects; Tenon never converts "
      "silently.",
      in_quotes(input.file), type_text(input.tensor));
}
}  // namespace

int bind_inputs(const Host& host, const Program& program, const Inputs& inputs, Binding& binding) {
  if (tenon_code_t code =
          host.session->binding_create(host.session->self, program.get(), binding.out()))
    return report(host, code);
  for (const auto& input : inputs) {
    const Dense& tensor = input->tensor;
    auto array = sized<tenon_array_t>();
    array.dtype = tensor.dtype;
    array.rank = static_cast<uint32_t>(tensor.dims.size());
    array.data = const_cast<unsigned char*>(tensor.data);
    array.dims = tensor.dims.data();
    const tenon_code_t code =
        host.session->bind_input(host.session->self, binding.get(), str(input->name), &array);
    if (code != TENON_OK) return report(host, code, where_from(*input));
  }
  for (const auto& [name, size] : inputs.sizes) {
    if (tenon_code_t code =
            host.session->bind_size(host.session->self, binding.get(), str(name), size))
      return report(host, code);
  }
  return kOk;
}

std::vector<std::string> output_names(const tenon_model_info_t& info) {
  std::vector<std::string> names;
  for (uint32_t i = 0; i < info.output_count; ++i) names.emplace_back(view(info.outputs[i].name));
  return names;
}

int output(const Host& host, const Binding& binding, const std::string& name, Dense& tensor) {
  auto array = sized<tenon_array_t>();
  if (tenon_code_t code =
          host.session->output(host.session->self, binding.get(), str(name), &array)) {
    return report(host, code);
  }
  tensor = dense_of(array);
  return kOk;
}

int placement(const Host& host, const Program& program, std::string& json) {
  Text text;
  const tenon_sink_t sink = text.sink();
  if (tenon_code_t code = host.session->placement(host.session->self, program.get(), &sink))
    return report(host, code);
  json = std::move(text.text);
  return kOk;
}

std::string devices_of(std::string_view placement_json) {
  const Json json = Json::parse(placement_json, nullptr, false);
  std::string names;
  if (!json.is_object() || !json.contains("devices")) return names;
  for (const Json& device : json["devices"]) {
    if (!device.is_object() || !device.contains("device") || !device["device"].is_string())
      continue;
    names += (names.empty() ? "" : ",") + device["device"].get<std::string>();
  }
  return names;
}

std::string variants_of(std::string_view placement_json) {
  const Json json = Json::parse(placement_json, nullptr, false);
  if (!json.is_object() || !json.contains("by_value") || !json["by_value"].is_object()) return "";
  const Json& by_value = json["by_value"];
  std::string rows, inputs;
  for (const Json& row : by_value.value("variants", Json::array()))
    rows += (rows.empty() ? "" : "; ") + row.value("for", "");
  for (const Json& input : by_value.value("inputs", Json::array())) {
    inputs += fmt::format("{}{} ({})", inputs.empty() ? "" : ", ", input.value("input", ""),
                          input.value("why", ""));
  }
  std::string text =
      fmt::format("{} of at most {}: {}; by {}", by_value.value("variants", Json::array()).size(),
                  by_value.value("most", 0), rows,
                  inputs.empty() ? "the sizes of inputs" : "the values of " + inputs);
  if (!by_value.value("general", false))
    text += "; none for all values: " + by_value.value("why_not_general", "");
  return text;
}

uint64_t nodes_of(std::string_view placement_json) {
  const Json json = Json::parse(placement_json, nullptr, false);
  return json.is_object() && json.contains("nodes") ? json["nodes"].size() : 0;
}

namespace {
constexpr size_t kShownName = 60, kShownOrigins = 120;

double number(const Json& row, const char* key) {
  return row.is_object() && row.contains(key) && row[key].is_number() ? row[key].get<double>() : 0;
}
std::string word(const Json& row, const char* key) {
  return row.is_object() && row.contains(key) && row[key].is_string() ? row[key].get<std::string>()
                                                                      : std::string();
}
}  // namespace

int kernel_rows(const Host& host, const Binding& binding, int64_t n, std::vector<KernelRow>& rows) {
  Text profile;
  const tenon_sink_t sink = profile.sink();
  if (tenon_code_t code = host.session->profile_write(host.session->self, binding.get(),
                                                      TENON_PROFILE_TABLE, &sink)) {
    return report(host, code);
  }
  const Json json = Json::parse(profile.text, nullptr, false);
  if (!json.is_object() || !json.contains("kernels") || !json["kernels"].is_array()) return kOk;
  for (const Json& row : json["kernels"]) {
    if (n-- == 0) break;
    rows.push_back({word(row, "name"), word(row, "device"), word(row, "origins"),
                    number(row, "count"), number(row, "total_ns"), number(row, "share"),
                    number(row, "flops"), number(row, "bytes")});
  }
  return kOk;
}

namespace {
// Drops the model's own file name, which would repeat before each of its nodes.
std::string without(std::string text, std::string_view file) {
  const std::string prefix = std::string(file) + ": ";
  for (size_t at = text.find(prefix); !file.empty() && at != std::string::npos;
       at = text.find(prefix, at))
    text.erase(at, prefix.size());
  return text;
}
}  // namespace

std::string kernel_table(const std::vector<KernelRow>& rows, const Peaks& peaks, int64_t runs,
                         std::string_view file) {
  std::string text = fmt::format("{:>6} {:>11} {:>6} {:>9} {:>8} {:>6}  {}\n", "share", "time",
                                 "calls", "GFLOP/s", "GB/s", "bound", "kernel on device: nodes");
  for (const KernelRow& row : rows) {
    const std::string bound =
        peaks.known() ? fmt::format("{:.0f}%", 100 * row.of_bound(peaks)) : "";
    text += fmt::format("{:>5.1f}% {:>8.1f} us {:>6} {:>9.2f} {:>8.2f} {:>6}  {}", row.share * 100,
                        row.total_ns / 1e3 / static_cast<double>(runs),
                        static_cast<int64_t>(row.calls) / runs, row.per_ns(row.flops),
                        row.per_ns(row.bytes), bound, safe(row.name, kShownName));
    if (!row.device.empty()) text += " on " + safe(row.device);
    if (!row.origins.empty()) text += ": " + safe(without(row.origins, file), kShownOrigins);
    text += "\n";
  }
  return text;
}

std::string kernels_json(const std::vector<KernelRow>& rows, const Peaks& peaks, int64_t runs) {
  std::string text;
  for (const KernelRow& row : rows) {
    text += fmt::format(
        "{}{{\"name\": {}, \"device\": {}, \"nodes\": {}, \"calls\": {}, \"us\": {}, \"share\": "
        "{}, \"gflops\": {}, "
        "\"gigabytes_per_second\": {}, \"of_bound\": {}}}",
        text.empty() ? "" : ", ", json_string(row.name), json_string(row.device),
        json_string(row.origins), static_cast<int64_t>(row.calls) / runs,
        json_number(row.total_ns / 1e3 / static_cast<double>(runs)), json_number(row.share),
        json_number(row.per_ns(row.flops)), json_number(row.per_ns(row.bytes)),
        peaks.known() ? json_number(row.of_bound(peaks)) : "null");
  }
  return "[" + text + "]";
}

}  // namespace tenon::tools
