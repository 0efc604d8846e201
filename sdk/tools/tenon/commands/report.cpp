// tenon report: one page about a model. It only collects; the page's script computes the views.
#include "sdk/tools/tenon/commands/report.h"

#include <time.h>

#include <fmt/format.h>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "sdk/tools/tenon/console/console.h"
#include "sdk/tools/tenon/execution/execution.h"
#include "sdk/tools/tenon/host/helpers.h"

namespace tenon::tools {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kPlaceholder = "__TENON_REPORT_DATA__";
constexpr std::string_view kDataBegin = "<script type=\"application/json\" id=\"data\">";
constexpr int kTimedRuns = 5;

class Collector {
 public:
  Collector(const Host& host, const RunOptions& options, bool measure)
      : host_(host),
        options_(options),
        measure_(measure),
        model_(host),
        signature_(host),
        program_(host),
        binding_(host) {}

  std::string run(int& status) {
    add("model", json_string(options_.model));
    add("options", json_string(options_text()));
    status = stages();
    if (status != kOk) add_failure();
    const std::string device = status == kOk ? devices_of(placement_) : options_.device;
    add("device", json_string(device));
    add("label", json_string(options_.model + (device.empty() ? "" : " on " + device) +
                             (options_.pipeline.empty() ? "" : ", passes " + options_.pipeline)));
    return "{" + json_ + "}";
  }

 private:
  int stages() {
    stage_ = "it cannot be loaded";
    if (int s = load(host_, options_, model_, &signature_.fixed_dims)) return s;
    loaded_ = true;
    if (int s = signature_of(host_, model_, signature_)) return s;
    if (int s = check_dims(host_, signature_, options_)) return s;
    stage_ = "it cannot be compiled";
    if (int s = compile(host_, model_, options_, options_.device, program_)) return s;
    stage_ = "it cannot be run";
    if (int s = measure_ ? measure() : kOk) return s;
    stage_ = "it cannot be described";
    return describe();
  }

  void add(std::string_view key, std::string_view json) {
    json_ += fmt::format("{}\"{}\":{}", json_.empty() ? "" : ",\n", key, json);
  }

  std::string options_text() const {
    std::vector<std::string> all;
    for (const auto* list :
         {&options_.dims, &options_.values, &options_.overrides, &options_.device_options})
      all.insert(all.end(), list->begin(), list->end());
    if (!options_.pipeline.empty()) all.push_back("passes " + options_.pipeline);
    return fmt::format("{}", fmt::join(all, ", "));
  }

  // The program's name of a device is as `dump` takes it.
  int describe() {
    if (int s = placement(host_, program_, placement_)) return s;
    add("placement", placement_);
    std::string text;
    if (int s = dump("report", text)) return s;
    add("program", text);
    std::string sources;
    const Json json = Json::parse(placement_, nullptr, false);
    for (const Json& row : json.value("devices", Json::array())) {
      const std::string device = row.value("device", "");
      std::string source;
      // A device may show no code; the page says so.
      if (!dumped(device + "/source", source)) continue;
      sources += fmt::format("{}{}:{}", sources.empty() ? "" : ",", json_string(device),
                             json_string(source));
    }
    add("source", "{" + sources + "}");
    return kOk;
  }

  bool dumped(const std::string& what, std::string& out) {
    Text text;
    const tenon_sink_t sink = text.sink();
    if (host_.session->dump(host_.session->self, program_.get(), str(what), &sink) != TENON_OK)
      return false;
    out = std::move(text.text);
    return true;
  }
  int dump(const std::string& what, std::string& out) {
    return dumped(what, out) ? kOk : report(host_, TENON_NOT_FOUND);
  }

  int measure() {
    if (int s = gather_inputs(host_, signature_, options_, true, inputs_)) return s;
    if (int s = bind_inputs(host_, program_, inputs_, binding_)) return s;
    std::vector<double> times;
    if (int s = run_once(times)) return s;
    // A model whose run takes seconds is measured once; it is not the start that counts there.
    const int runs = times[0] > 2000 ? 1 : kTimedRuns;
    for (int i = 0; i < runs; ++i) {
      if (int s = run_once(times)) return s;
    }
    if (int s = profile(runs)) return s;
    std::sort(times.begin(), times.end());
    return inform(times[times.size() / 2]);
  }

  int run_once(std::vector<double>& times) {
    auto info = sized<tenon_run_info_t>();
    tenon_code_t code = host_.session->run(host_.session->self, binding_.get());
    if (code == TENON_OK)
      code = host_.session->run_info(host_.session->self, binding_.get(), &info);
    times.push_back(info.run_ms);
    return code == TENON_OK ? kOk : report(host_, code);
  }

  int profile(int runs) {
    Text events;
    const tenon_sink_t sink = events.sink();
    tenon_code_t code = host_.session->profile_enable(host_.session->self, binding_.get(), 1);
    for (int i = 0; code == TENON_OK && i < runs; ++i)
      code = host_.session->run(host_.session->self, binding_.get());
    if (code == TENON_OK)
      code = host_.session->profile_write(host_.session->self, binding_.get(),
                                          TENON_PROFILE_PERFETTO, &sink);
    if (code != TENON_OK) return report(host_, code);
    add("runs", std::to_string(runs));
    add("events", events.text);
    add_peaks();
    return kOk;
  }

  void add_peaks() {
    std::string why;
    Peaks peaks;
    if (options_.peaks.empty() || !parse_peaks(options_.peaks, peaks))
      peaks = measure_peaks(host_, why);
    if (!peaks.known()) return;
    add("peaks", peaks.json());
  }

  int inform(double run_ms) {
    auto program = sized<tenon_program_info_t>();
    auto run = sized<tenon_run_info_t>();
    tenon_code_t code = host_.session->program_info(host_.session->self, program_.get(), &program);
    if (code == TENON_OK) code = host_.session->run_info(host_.session->self, binding_.get(), &run);
    if (code != TENON_OK) return report(host_, code);
    add("info",
        fmt::format("{{\"run_ms\":{},\"compile_ms\":{},\"kernels_compiled\":{},"
                    "\"kernels_from_cache\":{},\"arena_bytes\":{},\"constant_bytes\":{}}}",
                    json_number(run_ms), json_number(program.compile_ms), program.kernels_compiled,
                    program.kernels_from_cache, run.arena_bytes, signature_.info.constant_bytes));
    return kOk;
  }

  void add_failure() {
    auto failure = sized<tenon_failure_t>();
    const bool known = host_.host->last_failure(host_.host->self, &failure) == TENON_OK &&
                       failure.message.size > 0;
    std::string details;
    for (uint32_t i = 0; known && i < failure.detail_count; ++i) {
      details += fmt::format("{}{}: {}", details.empty() ? "" : "\n", view(failure.details[i].key),
                             view(failure.details[i].value));
    }
    add("failure",
        fmt::format("{{\"stage\":{},\"code\":{},\"message\":{},\"details\":{}}}",
                    json_string(stage_), json_string(known ? view(failure.id) : ""),
                    json_string(known ? view(failure.message)
                                      : "The message is on the terminal of the command."),
                    json_string(details)));
    if (!loaded_) return;
    Text graph;
    const tenon_sink_t sink = graph.sink();
    if (signature_.graph.get() == nullptr ||
        host_.graph->graph_write(host_.graph->self, signature_.graph.get(), TENON_FORMAT_JSON,
                                 &sink) != TENON_OK)
      return;
    add("program", "{\"graph\":" + graph.text + "}");
  }

  const Host& host_;
  const RunOptions& options_;
  const bool measure_;
  Model model_;
  Signature signature_;
  Program program_;
  Inputs inputs_;
  Binding binding_;
  std::string json_, placement_;
  std::string_view stage_;
  bool loaded_ = false;
};

// The data inside of a script element: no `<` may remain, and JSON has it only inside of strings.
std::string for_script(std::string_view json) {
  std::string text;
  text.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

int read_text(const Host& host, const std::string& path, std::string& out) {
  tenon_blob_t* blob = nullptr;
  if (tenon_code_t code = host.files->map(host.files->self, str(path), &blob))
    return report(host, code);
  const void* data = nullptr;
  uint64_t size = 0;
  const tenon_code_t code = host.graph->blob_data(host.graph->self, blob, &data, &size);
  if (code == TENON_OK && size > 0) out.assign(static_cast<const char*>(data), size);
  const int status = code == TENON_OK ? kOk : report(host, code);
  host.graph->blob_release(host.graph->self, blob);
  return status;
}

int page_frame(const Host& host, std::string& out) {
  const std::string folder = data_folder("report");
  if (folder.empty())
    return fail(kDevice, "P0603", "the page of reports is not in share/tenon/report.",
                "Install all of Tenon.");
  if (int s = read_text(host, folder + "/page.html", out)) return s;
  if (out.find(kPlaceholder) != std::string::npos) return kOk;
  return fail(kDevice, "P0603", "share/tenon/report/page.html is not the page of reports.",
              "Install all of Tenon.");
}

std::string today() {
  const time_t now = time(nullptr);
  struct tm parts = {};
  char text[32] = "";
  gmtime_r(&now, &parts);
  (void)strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts);
  return text;
}

bool is_page(std::string_view path) {
  return path.ends_with(".html");
}

// The second run: a page of before, another model, or the same one otherwise. `json` is empty if
// there is nothing to show; a run that failed is shown.
int other_run(const Host& host, const ReportOptions& options, std::string& json) {
  if (is_page(options.against)) return read_report(host, options.against, json);
  RunOptions other = options.model;
  if (!options.against.empty()) {
    other.model = options.against;
    other.inputs.clear();  // they are those of the first model
  }
  if (!options.against_device.empty()) other.device = options.against_device;
  if (!options.against_passes.empty()) other.pipeline = options.against_passes;
  int status = kOk;
  json = report_run(host, other, !options.no_run, status);
  return status;
}

}  // namespace

std::string report_run(const Host& host, const RunOptions& options, bool measure, int& status) {
  return Collector(host, options, measure).run(status);
}

int read_report(const Host& host, const std::string& path, std::string& run_json) {
  std::string text;
  if (int s = read_text(host, path, text)) return s;
  const size_t begin = text.find(kDataBegin);
  const size_t end = begin == std::string::npos ? begin : text.find("</script>", begin);
  Json json;
  if (end != std::string::npos) {
    const size_t from = begin + kDataBegin.size();
    json = Json::parse(text.begin() + static_cast<std::ptrdiff_t>(from),
                       text.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
  }
  if (!json.is_object() || json.value("schema", 0) != 1 || !json.contains("runs") ||
      !json["runs"].is_array() || json["runs"].empty() || !json["runs"][0].is_object()) {
    return fail(kUsage, "T0651",
                fmt::format("{} is not a page of `tenon report`.", in_quotes(path)),
                "Give a page that this version wrote, or a model.");
  }
  run_json = json["runs"][0].dump(-1, ' ', false, Json::error_handler_t::replace);
  return kOk;
}

int command_report(const ReportOptions& options) {
  apply_threads(options.model);
  Host host;
  if (int s = host_open(host)) return s;
  if (int s = check_layers(host)) return s;
  if (int s = refuse_package(options.model.model)) return s;
  if (int s = check_made(options.output, ".html", options.model.model)) return s;
  if (int s = check_peaks(options.model.peaks)) return s;
  std::string page, runs;
  if (int s = page_frame(host, page)) return s;
  int status = kOk;
  runs = report_run(host, options.model, !options.no_run, status);
  if (status == kInterrupted || interrupted()) return kInterrupted;
  if (!options.against.empty() || !options.against_device.empty() ||
      !options.against_passes.empty()) {
    std::string other;
    const int second = other_run(host, options, other);
    if (second == kInterrupted || interrupted()) return kInterrupted;
    if (other.empty()) return second;
    status = std::max(status, second);
    runs += ",\n" + other;
  }
  const std::string data = fmt::format("{{\"schema\":1,\"tenon\":{},\"made\":{},\"runs\":[\n{}]}}",
                                       json_string(TENON_VERSION), json_string(today()), runs);
  page.replace(page.find(kPlaceholder), kPlaceholder.size(), for_script(data));
  if (int s = write_file(host, options.output, page)) return s;
  talk("tenon: wrote {}\n", safe(options.output));
  return status;
}

}  // namespace tenon::tools
