// tenon opt: runs passes over a graph in text form. What it prints parses back.
#include <nlohmann/json.hpp>

#include <string.h>
#include <unistd.h>

#include "sdk/tools/tenon/console.h"
#include "sdk/tools/tenon/host.h"
#include "sdk/tools/tenon/options.h"

namespace tenon::tools {
namespace {

using Json = nlohmann::json;

// All of stdin; bounded, since the size of a pipe is not known in advance.
constexpr size_t kStdinBytesMax = size_t{1} << 30;

class Opt {
 public:
  Opt(const Host& host, const OptOptions& options) : host_(host), options_(options) {}

  int all() {
    if (options_.list) return list_passes();
    if (options_.file.empty()) {
      return fail(kUsage, "T0004", "`tenon opt` needs a FILE, or - for standard input.");
    }
    const int status = options_.split_input || options_.file == "-" ? from_bytes() : from_file();
    if (status != kOk || options_.output.empty()) return status;
    return write_file(host_, options_.output, written_);
  }

 private:
  int from_file() {
    Model model(host_);
    if (tenon_code_t code = host_.session->model_load(host_.session->self, str(options_.file),
                                                      nullptr, 0, model.out())) {
      return report(host_, code);
    }
    Graph frozen(host_);
    if (tenon_code_t code =
            host_.session->model_graph(host_.session->self, model.get(), frozen.out())) {
      return report(host_, code);
    }
    return work_on(frozen);
  }

  int from_bytes() {
    std::string text;
    if (int s = options_.file == "-" ? read_stdin(text) : read_file(text)) return s;
    const std::string name = options_.file == "-" ? "stdin.tir" : options_.file;
    if (!options_.split_input) return one_text(text, name);
    int worst = kOk;
    size_t part = 0;
    for (size_t begin = 0; begin <= text.size(); ++part) {
      const size_t end = std::min(text.find("\n// -----", begin), text.size());
      const size_t line_end =
          end == text.size() ? end : std::min(text.find('\n', end + 1), text.size());
      // Every part is tried, so that one file can test many errors.
      const int status =
          one_text(std::string_view(text).substr(begin, end - begin), part_name(name, part + 1));
      worst = std::max(worst, status);
      emit("// -----\n");
      begin = line_end + 1;
    }
    return worst;
  }

  // "graphs.2.tir": the extension gives the format.
  static std::string part_name(const std::string& name, size_t part) {
    const size_t dot = std::min(name.rfind('.'), name.size());
    return fmt::format("{}.{}{}", name.substr(0, dot), part, name.substr(dot));
  }

  int read_stdin(std::string& text) {
    char buffer[65536];
    while (true) {
      const ssize_t n = read(STDIN_FILENO, buffer, sizeof buffer);
      if (n == 0) return kOk;
      if (n < 0 && errno == EINTR) continue;
      if (n < 0)
        return fail(kUsage, "T0101",
                    fmt::format("standard input cannot be read: {}.", strerror(errno)));
      text.append(buffer, static_cast<size_t>(n));
      if (text.size() > kStdinBytesMax) {
        return fail(kUsage, "T0102", "standard input exceeds the limit of 1 GiB.",
                    "Name a file instead.");
      }
    }
  }

  int read_file(std::string& text) {
    tenon_blob_t* blob = nullptr;
    tenon_code_t code = host_.files->map(host_.files->self, str(options_.file), &blob);
    if (code != TENON_OK) return report(host_, code);
    const void* data = nullptr;
    uint64_t size = 0;
    code = host_.graph->blob_data(host_.graph->self, blob, &data, &size);
    if (code == TENON_OK && size > 0) text.assign(static_cast<const char*>(data), size);
    const int status = code == TENON_OK ? kOk : report(host_, code);
    host_.graph->blob_release(host_.graph->self, blob);
    return status;
  }

  int one_text(std::string_view text, const std::string& name) {
    tenon_blob_t* blob = nullptr;
    if (tenon_code_t code =
            host_.graph->blob_bytes(host_.graph->self, text.data(), text.size(), &blob)) {
      return report(host_, code);
    }
    Model model(host_);
    const tenon_code_t code =
        host_.session->model_load_bytes(host_.session->self, blob, str(name), str(""), model.out());
    const int status = code == TENON_OK ? kOk : report(host_, code);
    host_.graph->blob_release(host_.graph->self, blob);
    if (status != kOk) return status;
    Graph frozen(host_);
    if (tenon_code_t c =
            host_.session->model_graph(host_.session->self, model.get(), frozen.out())) {
      return report(host_, c);
    }
    return work_on(frozen);
  }

  int work_on(const Graph& frozen) {
    Graph graph(host_);
    if (tenon_code_t code = host_.graph->clone(host_.graph->self, frozen.get(), graph.out()))
      return report(host_, code);
    Text prints, stats;
    const tenon_sink_t print_sink = prints.sink(), stats_sink = stats.sink();
    if (!options_.passes.empty()) {
      const tenon_code_t code = host_.session->passes_run(
          host_.session->self, graph.get(), str(options_.passes), str(options_.print_after),
          options_.verify_each ? TENON_PASSES_VERIFY_EACH : 0, &print_sink, &stats_sink);
      write_err(prints.text);
      if (code != TENON_OK) return report(host_, code);
    }
    if (options_.timing) print_stats(stats.text);
    Text text;
    const tenon_sink_t sink = text.sink();
    const uint32_t format = options_.binary ? TENON_FORMAT_BINARY : TENON_FORMAT_TEXT;
    if (tenon_code_t code =
            host_.graph->graph_write(host_.graph->self, graph.get(), format, &sink)) {
      return report(host_, code);
    }
    emit(text.text);
    return kOk;
  }

  void emit(std::string_view text) {
    if (options_.output.empty()) {
      write_out(text);
    } else {
      written_ += text;
    }
  }

  static void print_stats(const std::string& text) {
    const Json json = Json::parse(text, nullptr, false);
    if (!json.is_object() || !json.contains("passes")) return;
    for (const Json& pass : json["passes"]) {
      std::string line =
          fmt::format("{:>10.3f} ms  {:<16}", pass.value("ms", 0.0), pass.value("pass", ""));
      const Json statistics = pass.value("statistics", Json::object());
      for (const auto& [name, count] : statistics.items()) {
        line += fmt::format("  {} {}", count.dump(), name);
      }
      talk("{}\n", line);
    }
  }

  int list_passes() {
    std::string text;
    if (int s = explain(host_, "passes", "", text)) return s;
    if (options_.json) {
      write_out(text + "\n");
      return kOk;
    }
    const Json json = Json::parse(text, nullptr, false);
    if (!json.is_object() || !json.contains("passes")) return kOk;
    for (const Json& pass : json["passes"]) {
      out("{:<16} {}\n", safe(pass.value("name", "")), safe(pass.value("summary", "")));
      for (const Json& option : pass.value("options", Json::array())) {
        out("  {:<14} {} (default {})\n", safe(option.value("name", "")),
            safe(option.value("doc", "")), safe(option.value("default", "")));
      }
    }
    if (json.contains("standard")) out("\nbefore placement: {}\n", json.value("standard", ""));
    return kOk;
  }

  const Host& host_;
  const OptOptions& options_;
  std::string written_;
};

}  // namespace

int command_opt(const OptOptions& options) {
  Host host;
  if (int s = host_open(host)) return s;
  return Opt(host, options).all();
}

}  // namespace tenon::tools
