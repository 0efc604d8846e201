// tenon run: runs a model once; shows and writes its outputs and, with --check, compares them with
// another device's.
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include <set>

#include "sdk/tools/tenon/console/console.h"

#include "sdk/tools/tenon/console/progress.h"
#include "sdk/tools/tenon/execution/execution.h"
#include "sdk/tools/tenon/execution/ranks.h"

namespace tenon::tools {
namespace {

struct CheckedOutput {
  std::string name;
  Comparison comparison;
  double tolerance = 0;
};

class Run {
 public:
  Run(const Host& host, const RunOptions& options)
      : host_(host),
        options_(options),
        model_(host),
        program_(host),
        signature_(host),
        binding_(host),
        checked_(host),
        check_(host) {}

  int all() {
    if (names_rank(options_)) {
      here_ = this_rank(host_);
      name_rank(here_, options_);
    }
    if (int s = load_all()) return s;
    names_ = output_names(signature_.info);
    if (!options_.dump.empty()) return dump();
    if (int s = gather_inputs(host_, signature_, options_, options_.seed_given, inputs_)) return s;
    if (int s = plan_files()) return s;
    if (int s = check_writable(options_.profile)) return s;
    // First, so that a wrong name is reported before the work begins.
    if (int s = options_.check.empty() ? kOk : compile_check()) return s;
    if (int s = run_model()) return s;
    for (const std::string& name : names_) {
      if (int s = output(host_, binding_, name, outputs_.emplace_back())) return s;
    }
    if (int s = placement(host_, program_, placement_)) return s;
    if (int s = write_files()) return s;
    if (int s = options_.json ? kOk : print_text()) return s;
    flush_out();  // the check may take long
    if (int s = options_.check.empty() ? kOk : run_check()) return s;
    if (int s = options_.json ? print_json() : print_checks()) return s;
    return verdict();
  }

 private:
  int load_all() {
    if (is_package(options_.model)) {
      if (int s = load_package(host_, options_, program_)) return s;
      if (int s = placement(host_, program_, placement_)) return s;
      find_rank(devices_of(placement_).find("mesh") != std::string::npos);
      return signature_of(host_, program_, signature_);
    }
    if (int s = load(host_, options_, model_, &signature_.fixed_dims)) return s;
    if (options_.simulate) {
      if (int s = simulate(host_, options_.mesh, model_)) return s;
    } else {
      Graph graph(host_);
      if (tenon_code_t code =
              host_.session->model_graph(host_.session->self, model_.get(), graph.out()))
        return report(host_, code);
      find_rank(has_collectives(host_, graph.get()));
    }
    return signature_of(host_, model_, signature_);
  }

  // ---- One of several processes ----

  // The processes of a model that they compute together have random inputs of their own, and the
  // first one prints. Other models are as many as there are processes.
  void find_rank(bool is_together) {
    if (!is_together) return;
    here_ = this_rank(host_);
    options_.seed += here_.rank;
    is_silent_ = here_.rank != 0;
  }

  int dump() {
    if (int s = compile(host_, model_, options_, options_.device, program_)) return s;
    Text text;
    const tenon_sink_t sink = text.sink();
    if (tenon_code_t code =
            host_.session->dump(host_.session->self, program_.get(), str(options_.dump), &sink)) {
      return report(host_, code);
    }
    write_out(text.text);
    return kOk;
  }

  int run_model() {
    if (!is_package(options_.model)) {
      if (int s = compile(host_, model_, options_, options_.device, program_)) return s;
    }
    if (int s = bind_inputs(host_, program_, inputs_, binding_)) return s;
    tenon_code_t code = TENON_OK;
    if (!options_.profile.empty())
      code = host_.session->profile_enable(host_.session->self, binding_.get(), 1);
    if (code == TENON_OK) code = host_.session->run(host_.session->self, binding_.get());
    return code == TENON_OK ? kOk : report(host_, code);
  }

  int compile_check() {
    RunOptions options = options_;
    options.no_fallback = false;  // the oracle may use fallbacks; only its values matter
    keep_options_of(options_.check, options);
    // A pass that changes what the model computes must not change the oracle as well. Compiling
    // needs only the pass that decomposes what no device takes whole.
    if (options.pipeline != "none") options.pipeline = "legalize";
    return compile(host_, model_, options, options_.check, checked_);
  }

  int run_check() {
    const Progress progress("checking on " + options_.check);
    if (int s = bind_inputs(host_, checked_, inputs_, check_)) return s;
    if (tenon_code_t code = host_.session->run(host_.session->self, check_.get()))
      return report(host_, code);
    for (size_t i = 0; i < names_.size(); ++i) {
      if (int s = compare_output(i)) return s;
    }
    return kOk;
  }

  int compare_output(size_t i) {
    Dense expected;
    if (int s = output(host_, check_, names_[i], expected)) return s;
    const Dense& found = outputs_[i];
    if (found.dtype != expected.dtype || found.dims != expected.dims) {
      return fail(kWrongResult, "T0007",
                  fmt::format("output {} is {} here and {} on {}.", in_quotes(names_[i]),
                              type_text(found), type_text(expected), in_quotes(options_.check)));
    }
    CheckedOutput checked;
    checked.name = names_[i];
    checked.tolerance =
        options_.tolerance_given ? options_.tolerance : default_tolerance(found.dtype);
    checked.comparison = compare(found, expected, checked.tolerance);
    if (!checked.comparison.ok) {
      const int64_t worst = checked.comparison.worst;
      failures_.push_back(fmt::format(
          "output {} differs from {}: max|a-b| = {:.3g}, max|b| = {:.3g}, tolerance {:g}; worst at "
          "{}: {} instead of "
          "{}.",
          in_quotes(names_[i]), in_quotes(options_.check), checked.comparison.difference,
          checked.comparison.scale, checked.tolerance, index_text(expected.dims, worst),
          element_text(found, worst), element_text(expected, worst)));
    }
    checks_.push_back(std::move(checked));
    return kOk;
  }

  // ---- Files ----

  static std::string file_name(const std::string& name) {
    std::string result;
    for (const char c : name) {
      const bool kept = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                        (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
      result += kept ? c : '_';
    }
    return result + TENON_OUTPUT_EXTENSION;
  }

  // Before any work: the folder exists, and no two outputs have the same file.
  int plan_files() {
    if (options_.output_dir.empty()) return kOk;
    std::set<std::string> taken;
    for (const std::string& name : names_) {
      if (taken.insert(file_name(name)).second) continue;
      return fail(
          kUsage, "T0107",
          fmt::format("two outputs would be written to the file {}.", in_quotes(file_name(name))),
          "Rename an output of the model.");
    }
    if (mkdir(options_.output_dir.c_str(), 0777) != 0 && errno != EEXIST) {
      return fail(kUsage, "T0107",
                  fmt::format("the folder {} cannot be made: {}.", in_quotes(options_.output_dir),
                              strerror(errno)));
    }
    return kOk;
  }

  int write_files() {
    for (size_t i = 0; !options_.output_dir.empty() && i < names_.size(); ++i) {
      const Dense& tensor = outputs_[i];
      tenon_blob_t* blob = nullptr;
      tenon_code_t code =
          host_.graph->blob_bytes(host_.graph->self, tensor.data, tensor.size_bytes(), &blob);
      if (code != TENON_OK) return report(host_, code);
      auto record = sized<tenon_file_tensor_t>();
      record.dtype = tensor.dtype;
      record.rank = static_cast<uint32_t>(tensor.dims.size());
      record.dims = tensor.dims.data();
      record.name = str(names_[i]);
      record.blob = blob;
      const std::string path = options_.output_dir + "/" + file_name(names_[i]);
      code = host_.session->tensor_write(host_.session->self, str(path), &record);
      const int status = code == TENON_OK ? kOk : report(host_, code);
      host_.graph->blob_release(host_.graph->self, blob);
      if (status != kOk) return status;
    }
    if (options_.profile.empty()) return kOk;
    Text text;
    const tenon_sink_t sink = text.sink();
    if (tenon_code_t code = host_.session->profile_write(host_.session->self, binding_.get(),
                                                         TENON_PROFILE_PERFETTO, &sink)) {
      return report(host_, code);
    }
    return write_file(host_, options_.profile, text.text);
  }

  // ---- Printing ----

  int print_text() {
    if (is_silent_) return kOk;
    for (size_t i = 0; i < names_.size(); ++i) {
      out("{}: {} = {}\n", safe(names_[i]), type_text(outputs_[i]), preview(outputs_[i]));
      write_out(options_.top > 0 ? top_entries(outputs_[i], options_.top)
                                 : argmax_line(outputs_[i]));
    }
    Text summary;
    const tenon_sink_t sink = summary.sink();
    if (tenon_code_t code =
            host_.session->placement_summary(host_.session->self, program_.get(), &sink)) {
      return report(host_, code);
    }
    if (summary.text.empty()) summary.text = restricted_summary();
    if (!summary.text.empty()) {
      if (summary.text.back() == '\n') summary.text.pop_back();
      out("placement: {}\n", safe(summary.text, 1000));
    }
    if (const std::string variants = variants_of(placement_); !variants.empty())
      out("variants: {}\n", safe(variants, 2000));
    if (!options_.profile.empty()) {
      std::vector<KernelRow> rows;
      if (int s = kernel_rows(host_, binding_, options_.top > 0 ? options_.top : 10, rows))
        return s;
      write_err(kernel_table(rows, {}, 1, options_.model));
    }
    return kOk;
  }

  int print_checks() const {
    for (const CheckedOutput& checked : checks_) {
      if (!checked.comparison.ok) continue;
      out("check: {} agrees with {}: max|a-b| = {:.3g}, max|b| = {:.3g}, tolerance {:g}\n",
          safe(checked.name), options_.check, checked.comparison.difference,
          checked.comparison.scale, checked.tolerance);
    }
    return kOk;
  }

  // One device took all nodes, but variables restricted the choice: say which device it was.
  std::string restricted_summary() const {
    if (!options_.device.empty()) return "";
    for (const char* name :
         {"TENON_PLUGINS_DISABLE", "TENON_PLUGINS_SELECT", "TENON_PLUGIN_AUTOLOAD"}) {
      const std::string_view value = view(host_.host->setting(host_.host->self, str(name)));
      if (value.empty()) continue;
      return fmt::format("all {} nodes on {} ({}={})", nodes_of(placement_), devices_of(placement_),
                         name, value);
    }
    return "";
  }

  int print_json() {
    if (is_silent_) return kOk;
    auto info = sized<tenon_run_info_t>();
    if (tenon_code_t code = host_.session->run_info(host_.session->self, binding_.get(), &info)) {
      return report(host_, code);
    }
    std::string json = fmt::format(
        "{{\"schema\": 1, \"model\": {}, \"device\": {}, \"run_ms\": {}, \"outputs\": [",
        json_string(options_.model), json_string(devices_of(placement_)), json_number(info.run_ms));
    for (size_t i = 0; i < names_.size(); ++i) {
      json += fmt::format("{}{{\"name\": {}, \"type\": {}, \"preview\": [", i == 0 ? "" : ", ",
                          json_string(names_[i]), json_string(type_text(outputs_[i])));
      const int64_t shown = std::min<int64_t>(outputs_[i].count(), 16);
      for (int64_t e = 0; e < shown; ++e) {
        json += (e == 0 ? "" : ", ") + json_number(element(outputs_[i], e));
      }
      json += "]}";
    }
    json += "], \"checks\": [";
    for (size_t i = 0; i < checks_.size(); ++i) {
      json += fmt::format(
          "{}{{\"output\": {}, \"ok\": {}, \"difference\": {}, \"scale\": {}, \"tolerance\": {}}}",
          i == 0 ? "" : ", ", json_string(checks_[i].name), checks_[i].comparison.ok,
          json_number(checks_[i].comparison.difference), json_number(checks_[i].comparison.scale),
          json_number(checks_[i].tolerance));
    }
    out("{}], \"transferred_bytes\": {}, \"direct_bytes\": {}, \"filled_bytes\": {}, "
        "\"placement\": {}}}\n",
        json, info.transferred_bytes, info.direct_bytes, info.filled_bytes, placement_);
    return kOk;
  }

  int verdict() {
    for (const std::string& failure : failures_) fail(kWrongResult, "T0007", failure);
    return failures_.empty() ? kOk : kWrongResult;
  }

  const Host& host_;
  ThisRank here_;
  RunOptions options_;
  bool is_silent_ = false;
  Model model_;
  Inputs inputs_;
  Program program_;
  Signature signature_;
  Binding binding_;
  Program checked_;
  Binding check_;
  std::vector<std::string> names_;
  std::vector<Dense> outputs_;
  std::vector<CheckedOutput> checks_;
  std::vector<std::string> failures_;
  std::string placement_;
};

}  // namespace

int command_run(const RunOptions& options) {
  apply_threads(options);
  Host host;
  if (int s = host_open(host)) return s;
  if (int s = check_layers(host)) return s;
  return Run(host, options).all();
}

}  // namespace tenon::tools
