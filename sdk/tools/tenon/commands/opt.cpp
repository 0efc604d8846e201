// tenon opt: runs passes over a graph in text form. What it prints parses back.
#include <nlohmann/json.hpp>

#include <string.h>
#include <unistd.h>

#include <tenon/abi/inspect.h>
#include <algorithm>
#include <vector>

#include "sdk/tools/tenon/cli/options.h"
#include "sdk/tools/tenon/commands/dot.h"
#include "sdk/tools/tenon/console/console.h"
#include "sdk/tools/tenon/execution/execution.h"
#include "sdk/tools/tenon/host/host.h"

namespace tenon::tools {
namespace {

using Json = nlohmann::json;

// All of stdin; bounded, since the size of a pipe is not known in advance.
constexpr size_t kStdinBytesMax = size_t{1} << 30;

constexpr std::string_view kSeparator = "// -----";

// One graph of a text that holds several, and the line of the text on which its part begins.
struct Part {
  std::string_view text;
  size_t first_line = 1;
};

// A part of blanks and comments alone: what stands before the first separator of a test, or after
// the last.
bool holds_no_graph(std::string_view text) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    const size_t begin = line.find_first_not_of(" \t\r");
    if (begin != std::string_view::npos && !line.substr(begin).starts_with("//")) return false;
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return true;
}

// The graphs between lines that are exactly the separator. A text without a graph is one part, for
// its reader to complain of.
std::vector<Part> split(std::string_view text) {
  std::vector<Part> parts;
  size_t begin = 0, first_line = 1, line_number = 1;
  const auto end_part = [&](size_t end) {
    const std::string_view part = text.substr(begin, end - begin);
    if (!holds_no_graph(part)) parts.push_back({part, first_line});
  };
  for (size_t at = 0; at < text.size(); ++line_number) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    if (line.substr(0, line.find_last_not_of(" \t\r") + 1) == kSeparator) {
      end_part(at);
      begin = end;  // the line end stays, so that the next part begins on the separator's line
      first_line = line_number;
    }
    at = end + 1;
  }
  end_part(text.size());
  if (parts.empty()) parts.push_back({text, 1});
  return parts;
}

class Opt {
 public:
  Opt(const Host& host, const OptOptions& options) : host_(host), options_(options) {}

  int all() {
    if (options_.list) return list_passes();
    if (options_.file.empty()) {
      return fail(kUsage, "T0004", "`tenon opt` needs a FILE, or - for standard input.");
    }
    if (int s = refuse_package(options_.file)) return s;
    const int status = options_.split_input || options_.file == "-" ? from_bytes() : from_file();
    if (status != kOk || options_.output.empty()) return status;
    if (!constants_.empty()) {
      if (int s = write_file(host_, options_.output + ".bin", constants_)) return s;
    }
    return write_file(host_, options_.output, written_);
  }

 private:
  int from_file() {
    Model model(host_);
    if (tenon_code_t code = host_.session->model_load(host_.session->self, str(options_.file),
                                                      nullptr, 0, model.out())) {
      return report(host_, code, advice_on(host_, options_.file));
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
    return options_.split_input ? each_graph(text, name) : one_text(text, name);
  }

  // A graph that fails is reported and the others go on, so that one file can hold many errors. The
  // worst status is that of all.
  int each_graph(std::string_view text, const std::string& name) {
    const std::vector<Part> parts = split(text);
    int worst = kOk;
    size_t failures = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      const Part& part = parts[i];
      if (i > 0) emit(fmt::format("{}\n", kSeparator));
      // The lines before it stay as empty ones: every message then has the line of the whole file.
      const int status =
          one_text(std::string(part.first_line - 1, '\n') + std::string(part.text), name);
      if (status == kInterrupted) return status;
      failures += status == kOk ? 0 : 1;
      worst = std::max(worst, status);
    }
    if (failures != 0) talk("tenon: {} of {} graphs failed\n", failures, parts.size());
    return worst;
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
      const void* table = nullptr;
      tenon_code_t code =
          host_.host->query(host_.host->self, str(TENON_HOST_INSPECT_ID), 0, &table);
      if (code != TENON_OK) return report(host_, code);
      const auto* inspect = static_cast<const tenon_host_inspect_t*>(table);
      auto record = sized<tenon_passes_options_t>();
      record.flags = (options_.verify_each ? TENON_PASSES_VERIFY_EACH : 0) |
                     (options_.print_changed ? TENON_PASSES_PRINT_CHANGED : 0) |
                     (options_.print_diff ? TENON_PASSES_PRINT_DIFF : 0);
      record.print_before = str(options_.print_before);
      record.print_after = str(options_.print_after);
      code = inspect->passes_run(inspect->self, graph.get(), str(options_.passes), &record,
                                 &print_sink, &stats_sink);
      write_err(prints.text);
      if (code != TENON_OK) return report(host_, code);
    }
    if (options_.timing) print_stats(stats.text);
    return options_.dot ? emit_dot(graph) : emit_graph(graph);
  }

  int emit_dot(const Graph& graph) {
    Text text;
    const tenon_sink_t sink = text.sink();
    if (tenon_code_t code =
            host_.graph->graph_write(host_.graph->self, graph.get(), TENON_FORMAT_JSON, &sink))
      return report(host_, code);
    emit(dot_text(Json::parse(text.text, nullptr, false)));
    return kOk;
  }

  int emit_graph(const Graph& graph) {
    Text text;
    const tenon_sink_t sink = text.sink();
    const uint32_t format = options_.binary ? TENON_FORMAT_BINARY : TENON_FORMAT_TEXT;
    if (tenon_code_t code =
            host_.graph->graph_write(host_.graph->self, graph.get(), format, &sink)) {
      return report(host_, code);
    }
    if (int s = options_.binary ? kOk : keep_constants(graph)) return s;
    emit(text.text);
    return kOk;
  }

  // What the text has by digests alone is written to a file next to it. Where there is no place for
  // that, a message says so: the text cannot be read back.
  int keep_constants(const Graph& graph) {
    Text bytes;
    const tenon_sink_t sink = bytes.sink();
    if (tenon_code_t code =
            host_.graph->graph_write(host_.graph->self, graph.get(), TENON_FORMAT_SIDECAR, &sink))
      return report(host_, code);
    if (bytes.text.empty()) return kOk;
    if (options_.output.empty()) {
      talk(
          "tenon: warning: the text lacks {} bytes of constants, and cannot be read back; -o FILE "
          "writes them to FILE.bin, and --binary writes one file\n",
          bytes.text.size());
      return kOk;
    }
    if (options_.split_input) {
      return fail(kUsage, "T0004",
                  fmt::format("a graph has {} bytes of constants, which text has no place for.",
                              bytes.text.size()),
                  "Several graphs in one file cannot have them: give this graph alone.");
    }
    constants_ = std::move(bytes.text);
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
  std::string constants_;  // of its text, for the file next to it
};

}  // namespace

int command_opt(const OptOptions& options) {
  Host host;
  if (int s = host_open(host)) return s;
  return Opt(host, options).all();
}

}  // namespace tenon::tools
