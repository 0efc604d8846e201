#include "core/pass/manager.h"

#include <tenon/abi/inspect.h>
#include <tenon/cpp/record.hpp>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <set>

#include "core/base/errors/guard.h"
#include "core/base/process/activity.h"
#include "core/base/process/log.h"
#include "core/base/process/operation.h"
#include "core/base/str.h"
#include "core/pass/diff.h"
#include "core/pass/pipeline.h"

namespace tenon::pass {
namespace {

using Properties = std::set<std::string, std::less<>>;

struct Step {
  const Pass* pass = nullptr;
  std::string name, text;  // text: the call as written in a pipeline
  std::vector<tenon_attr_t> options;
  Applications applications;  // of a pass of rewrites
};

Properties properties_of(tenon_str_t list) {
  Properties properties;
  for (const std::string_view name : split(from_abi_str(list), ',')) properties.emplace(name);
  return properties;
}

std::string call_text(const PassCall& call) {
  std::string text = call.name;
  for (size_t i = 0; i < call.options.size(); ++i) {
    text +=
        fmt::format("{}{}=\"{}\"", i == 0 ? "{" : ",", call.options[i].name, call.options[i].value);
  }
  return text + (call.options.empty() ? "" : "}");
}

class Run {
 public:
  Run(const HostTables& tables, Registry& registry, tenon_graph_t* graph, const Settings& settings)
      : tables_(tables), registry_(registry), graph_(graph), settings_(settings) {}
  ~Run() {
    if (start_ != nullptr) tables_.graph->release(tables_.graph->self, start_);
  }

  Status all(std::string_view pipeline) {
    TENON_RETURN_IF_ERROR(prepare(pipeline));
    TENON_RETURN_IF_ERROR(find_prints("print-before", settings_.print_before, &before_));
    TENON_RETURN_IF_ERROR(find_prints("print-after", settings_.print_after, &after_));
    if (steps_.empty()) return {};
    // The unchanged graph, for a reproducer: passes change the graph in place.
    TENON_RETURN_IF_ERROR(
        from_abi(tables_.graph->clone(tables_.graph->self, graph_, &start_), "clone"));
    for (size_t i = 0; i < steps_.size(); ++i) {
      TENON_RETURN_IF_ERROR(check_cancelled());
      Status status = step(i);
      if (!status.ok()) return with_reproducer(std::move(status), i);
    }
    return {};
  }
  std::vector<Report> take_reports() { return std::move(reports_); }

 private:
  Status prepare(std::string_view pipeline) {
    TENON_ASSIGN_OR_RETURN(const std::vector<PassCall> calls, parse_pipeline(pipeline));
    for (PassCall call : calls) {
      Step& step = steps_.emplace_back();
      step.name = call.name;
      step.text = call_text(call);
      TENON_ASSIGN_OR_RETURN(step.pass, registry_.find(call.name));
      if (step.pass->def.run == nullptr) {
        TENON_ASSIGN_OR_RETURN(const auto range, take_apply(call));
        if (range) step.applications = {range->first, range->second};
      }
      TENON_ASSIGN_OR_RETURN(step.options, resolve_options(step.pass->def, call, texts_));
    }
    return check_properties();
  }

  // Refuses, before anything runs, a pass whose requirements no earlier pass establishes.
  Status check_properties() const {
    Properties held;
    for (const Step& step : steps_) {
      for (const std::string& required : properties_of(step.pass->def.requires_)) {
        if (held.contains(required)) continue;
        return error(TENON_FAILED_PRECONDITION, "T0408",
                     "the pass {} requires the property {}, which no pass before it establishes",
                     quoted(step.name), quoted(required));
      }
      const Properties preserved = properties_of(step.pass->def.preserves);
      std::erase_if(held, [&](const std::string& name) { return !preserved.contains(name); });
      held.merge(properties_of(step.pass->def.establishes));
    }
    return {};
  }

  // Passes of the pipeline at which a graph is printed.
  struct Prints {
    bool all = false;
    Properties names;
    bool contain(std::string_view name) const { return all || names.contains(name); }
  };

  Status find_prints(std::string_view option, std::string_view list, Prints* out) const {
    for (const std::string_view name : split(list, ',')) {
      if (name == "all") {
        out->all = true;
        continue;
      }
      std::vector<std::string> names;
      for (const Step& step : steps_) names.push_back(step.name);
      if (std::find(names.begin(), names.end(), name) == names.end()) {
        return error(TENON_INVALID_ARGUMENT, "T0401",
                     "{} names the pass {}, which is not in the pipeline{}", option, quoted(name),
                     did_you_mean(name, names));
      }
      out->names.emplace(name);
    }
    return {};
  }

  Status step(size_t i) {
    const Step& step = steps_[i];
    Report& report = reports_.emplace_back();
    report.pass = step.name;
    if (before_.contain(step.name)) TENON_RETURN_IF_ERROR(print("before", step));
    std::string old_text, old_lines;
    if (settings_.print_diff)
      TENON_RETURN_IF_ERROR(write(TENON_FORMAT_NUMBERED, graph_, &old_lines));
    if (settings_.print_changed) TENON_RETURN_IF_ERROR(write(TENON_FORMAT_TEXT, graph_, &old_text));
    const auto start = std::chrono::steady_clock::now();
    std::map<std::string, int64_t> counts;
    {
      doing_ = i;
      const Activity activity("the pass", step.name, code_of(step), &Run::save_crash, this);
      TENON_RETURN_IF_ERROR(run(step, graph_, counts, &report));
    }
    report.ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    report.statistics.assign(counts.begin(), counts.end());
    if (log_enabled("pass", LogLevel::kDetail)) log_report(report);
    if (settings_.verify_each) {
      Status status = from_abi(tables_.graph->verify(tables_.graph->self, graph_), "verify");
      if (!status.ok()) {
        return error(TENON_INTERNAL, "T0409", "the graph is broken after the pass {}: {}",
                     quoted(step.name), status.text());
      }
    }
    if (settings_.print_diff) TENON_RETURN_IF_ERROR(print_diff(step, old_lines));
    if (after_.contain(step.name)) return print("after", step);
    if (!settings_.print_changed) return {};
    std::string text;
    TENON_RETURN_IF_ERROR(write(TENON_FORMAT_TEXT, graph_, &text));
    return text == old_text ? write_text(fmt::format("// {} changed nothing\n", step.text))
                            : print("changed by", step);
  }

  static void log_report(const Report& report) {
    std::string text = fmt::format("{}: {:.3f} ms", report.pass, report.ms);
    for (const auto& [name, count] : report.statistics) text += fmt::format(", {} {}", count, name);
    log_write("pass", LogLevel::kDetail, text);
  }

  struct Context {
    std::map<std::string, int64_t>* counts;
    const Settings* settings;
  };

  Status rewrite(const Step& step, tenon_graph_t* graph, std::map<std::string, int64_t>& counts,
                 Report* report) const {
    Rewritten done;
    Status status =
        named(step, drive_rewrites(tables_, graph, step.pass->rewrites, step.applications, &done));
    counts = std::move(done.by_name);
    report->of_rewrites = true;
    report->rewrites = done.count;
    report->last_rewrite = std::move(done.last);
    return status;
  }

  Status run(const Step& step, tenon_graph_t* graph, std::map<std::string, int64_t>& counts,
             Report* report) const {
    const tenon_pass_def_t& def = step.pass->def;
    if (def.run == nullptr) return rewrite(step, graph, counts, report);
    Context mine = {&counts, &settings_};
    auto context = sized<tenon_pass_context_t>();
    context.option_count = def.option_count;
    context.options = step.options.data();
    context.host = &mine;
    context.count = [](void* host, tenon_str_t name, int64_t amount) {
      guarded_void([&] {
        (*static_cast<Context*>(host)->counts)[std::string(from_abi_str(name))] += amount;
      });
    };
    context.claimed = [](void* host, tenon_node_t node) -> uint32_t {
      const auto& claimed = static_cast<Context*>(host)->settings->claimed;
      return guarded_or(uint32_t{TENON_NO}, [&]() -> uint32_t {
        return claimed && claimed(node) ? TENON_YES : TENON_NO;
      });
    };
    clear_failure();
    const tenon_code_t code = def.run(def.self, graph, &context);
    return code == TENON_OK ? Status() : named(step, from_abi(code, "run"));
  }

  static Status named(const Step& step, Status status) {
    return std::move(status).with_context(fmt::format("the pass {}", quoted(step.name)));
  }

  Status write(uint32_t format, tenon_graph_t* graph, std::string* text) const {
    const tenon_sink_t sink = sink_into(*text);
    return from_abi(tables_.graph->graph_write(tables_.graph->self, graph, format, &sink),
                    "graph_write");
  }
  Status write_text(std::string_view text) const {
    if (settings_.prints == nullptr) return {};
    return from_abi(settings_.prints->write(settings_.prints->self, text.data(), text.size()),
                    "printing between passes");
  }
  Status print(std::string_view when, const Step& step) const {
    std::string text = fmt::format("// {} {}\n", when, step.text);
    TENON_RETURN_IF_ERROR(write(TENON_FORMAT_ELIDED, graph_, &text));
    return write_text(text);
  }

  Status print_diff(const Step& step, std::string_view before) const {
    std::string after;
    TENON_RETURN_IF_ERROR(write(TENON_FORMAT_NUMBERED, graph_, &after));
    const std::string diff = line_diff(before, after);
    return write_text(diff.empty() ? fmt::format("// {} changed nothing\n", step.text)
                                   : fmt::format("// {} changed\n{}", step.text, diff));
  }

  // ---- Reproducer ----

  static const void* code_of(const Step& step) {
    return step.pass->def.name.data;  // static in the plugin's library
  }

  static Result<std::string> save_crash(const void* self) {
    const Run& run = *static_cast<const Run*>(self);
    return run.reproducer("it ended the process", run.doing_);
  }

  // Reruns the passes before the failing one on the original graph, so that the reproducer runs
  // only the failing one.
  Result<std::string> reproducer(std::string_view why, size_t failing) const {
    std::map<std::string, int64_t> ignored;
    Report also_ignored;
    for (size_t i = 0; i < failing; ++i)
      TENON_RETURN_IF_ERROR(run(steps_[i], start_, ignored, &also_ignored));
    std::string text =
        fmt::format("// Reproduces: {}\n// tenon opt THIS --verify-each --passes '{}'\n",
                    printable(why, 1000), steps_[failing].text);
    std::replace(text.begin(),
                 text.begin() + static_cast<std::ptrdiff_t>(text.find("\n// tenon opt")), '\n',
                 ' ');
    TENON_RETURN_IF_ERROR(write(TENON_FORMAT_TEXT, start_, &text));
    std::string constants;
    TENON_RETURN_IF_ERROR(write(TENON_FORMAT_SIDECAR, start_, &constants));
    return save_reproducer(steps_[failing].name, text, constants);
  }

  Status with_reproducer(Status status, size_t failing) const {
    if (status.code() == TENON_CANCELLED) return status;
    const Result<std::string> path = reproducer(status.text(), failing);
    return path.ok() ? std::move(status).with("reproducer", *path) : status;
  }

  const HostTables& tables_;
  Registry& registry_;
  tenon_graph_t* graph_;
  const Settings& settings_;
  tenon_graph_t* start_ = nullptr;
  std::deque<std::string> texts_;
  std::vector<Step> steps_;
  std::vector<Report> reports_;
  Prints before_, after_;
  size_t doing_ = 0;  // the step that runs
};

}  // namespace

Result<std::vector<Report>> run_pipeline(const HostTables& tables, Registry& registry,
                                         tenon_graph_t* graph, std::string_view pipeline,
                                         const Settings& settings) {
  Run run(tables, registry, graph, settings);
  TENON_RETURN_IF_ERROR(run.all(pipeline));
  return run.take_reports();
}

std::string reports_json(const std::vector<Report>& reports) {
  std::string json = "{\"schema\": 1, \"passes\": [";
  for (size_t i = 0; i < reports.size(); ++i) {
    json += fmt::format("{}{{\"pass\": {}, \"ms\": {:.3f}, \"statistics\": {{", i == 0 ? "" : ", ",
                        json_quoted(reports[i].pass), reports[i].ms);
    for (size_t s = 0; s < reports[i].statistics.size(); ++s) {
      const auto& [name, count] = reports[i].statistics[s];
      json += fmt::format("{}{}: {}", s == 0 ? "" : ", ", json_quoted(name), count);
    }
    json += "}";
    if (reports[i].of_rewrites) json += fmt::format(", \"rewrites\": {}", reports[i].rewrites);
    if (!reports[i].last_rewrite.empty())
      json += ", \"last\": " + json_quoted(reports[i].last_rewrite);
    json += "}";
  }
  return json + "]}";
}

}  // namespace tenon::pass
