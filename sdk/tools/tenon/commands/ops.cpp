// tenon ops: the registered operators, their pages, and which devices take them.
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <set>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <tenon/cpp/dtype.hpp>

#include "sdk/tools/support/op_example.h"
#include "sdk/tools/tenon/cli/options.h"
#include "sdk/tools/tenon/commands/op_page.h"
#include "sdk/tools/tenon/console/console.h"
#include "sdk/tools/tenon/execution/execution.h"
#include "sdk/tools/tenon/host/host.h"

namespace tenon::tools {
namespace {

using Json = nlohmann::json;

struct Registered {
  const tenon_op_def_t* op;
  std::string plugin;
};

class Ops {
 public:
  Ops(const Host& host, const OpsOptions& options) : host_(host), options_(options) {}

  int all() {
    if (!options_.model.empty() && !options_.explain)
      return fail(kUsage, "T0004", "--model is for `tenon ops NAME --explain`.");
    if (int s = collect()) return s;
    if (!options_.name.empty()) return one();
    if (options_.explain)
      return fail(kUsage, "T0004", "`tenon ops --explain` needs the NAME of an operator.");
    if (options_.markdown) return pages();
    return options_.json ? json_list() : list();
  }

 private:
  int collect() {
    const tenon_code_t code = host_.registry->op_each(
        host_.registry->self, this, [](void* self, const tenon_op_def_t* op, tenon_str_t plugin) {
          static_cast<Ops*>(self)->ops_.push_back({op, std::string(view(plugin))});
        });
    return code == TENON_OK ? kOk : report(host_, code);
  }

  int one() {
    std::vector<std::string> names;
    for (const Registered& r : ops_) {
      if (view(r.op->name) == options_.name) return about(r);
      names.emplace_back(view(r.op->name));
    }
    const std::string meant = meant_by(options_.name);
    return fail(kUsage, "T0008",
                fmt::format("there is no operator {}{}", in_quotes(options_.name),
                            meant.empty() ? did_you_mean(options_.name, names)
                                          : "; did you mean " + in_quotes(meant) + "?"),
                names.empty() ? "No plugin offers operators: `tenon plugins explain` shows why."
                              : "`tenon ops` lists them.");
  }

  // The operator that has the name as an alias; empty if none has.
  std::string meant_by(const std::string& name) const {
    for (const Registered& r : ops_) {
      for (uint64_t i = 0; i < r.op->foreign_name_count; ++i) {
        const tenon_foreign_name_t& other = *tenon_op_foreign_name(r.op, i);
        if (view(other.format) == TENON_FOREIGN_ALIAS && view(other.name) == name)
          return std::string(view(r.op->name));
      }
    }
    return "";
  }

  int about(const Registered& r) {
    if (options_.explain) return who_takes(r);
    if (options_.json) {
      write_out(to_json(r).dump(2) + "\n");
      return kOk;
    }
    write_out(options_.markdown ? op_markdown(*r.op) : op_text(*r.op, r.plugin));
    return kOk;
  }

  int list() {
    for (const Registered& r : ops_) out("{:<20} {}\n", view(r.op->name), view(r.op->summary));
    talk("{} operators\n", ops_.size());
    return kOk;
  }

  // One list per operand.
  static Json element_types(const tenon_op_def_t& op) {
    Json all = Json::array();
    for (uint32_t i = 0; i < op.operand_count; ++i) {
      Json one = Json::array();
      for (tenon_dtype_t d = 1; d < elements::kDtypeEnd; ++d) {
        if (is_in(d, tenon_op_operand(&op, i)->dtypes)) one.push_back(dtype_name(d));
      }
      all.push_back(one);
    }
    return all;
  }
  // Null if none is stated.
  static Json accuracy(const tenon_op_def_t& op) {
    if (op.ulp_f32 == 0) return nullptr;
    constexpr const char* kOf[] = {"result", "operands", "one"};
    return {
        {"f32", op.ulp_f32}, {"f64", op.ulp_f64}, {"of", kOf[std::min<uint32_t>(op.ulp_of, 2)]}};
  }
  static Json to_json(const Registered& r) {
    const tenon_op_def_t& op = *r.op;
    Json operands = Json::array(), attrs = Json::array(), constraints = Json::array(),
         examples = Json::array();
    for (uint32_t i = 0; i < op.operand_count; ++i) operands.push_back(view(op.operands[i].name));
    for (uint32_t i = 0; i < op.attr_count; ++i) attrs.push_back(view(op.attrs[i].name));
    for (uint32_t i = 0; i < op.constraint_count; ++i) {
      constraints.push_back(
          {{"label", view(op.constraints[i].label)}, {"text", view(op.constraints[i].text)}});
    }
    for (uint32_t i = 0; i < op.example_count; ++i) examples.push_back(view(op.examples[i]));
    return {{"name", view(op.name)},
            {"version", op.version},
            {"summary", view(op.summary)},
            {"plugin", r.plugin},
            {"signature", op_signature(op)},
            {"operands", operands},
            {"element_types", element_types(op)},
            {"accuracy", accuracy(op)},
            {"attributes", attrs},
            {"constraints", constraints},
            {"examples", examples},
            {"scalar", op.scalar_words > 0},
            {"reference", op.reference != nullptr},
            {"decomposition", op.decompose != nullptr}};
  }
  int json_list() {
    Json list = Json::array();
    for (const Registered& r : ops_) list.push_back(to_json(r));
    write_out(Json({{"schema", 1}, {"ops", list}}).dump(2) + "\n");
    return kOk;
  }

  std::string coverage() const {
    std::string text = fmt::format(
        "# Operators\n\n{} operators. `tenon ops --markdown --output-dir FOLDER` writes this page "
        "and those of the operators.\n\n",
        ops_.size());
    text += coverage_head();
    for (const Registered& r : ops_) text += coverage_row(*r.op);
    return text;
  }
  int pages() {
    if (options_.output_dir.empty()) {
      write_out(coverage());
      return kOk;
    }
    if (mkdir(options_.output_dir.c_str(), 0777) != 0 && errno != EEXIST) {
      return fail(kUsage, "T0107",
                  fmt::format("the folder {} cannot be made: {}.", in_quotes(options_.output_dir),
                              strerror(errno)));
    }
    for (const Registered& r : ops_) {
      const std::string path = fmt::format("{}/{}.md", options_.output_dir, view(r.op->name));
      if (int s = write_file(host_, path, op_markdown(*r.op))) return s;
    }
    return write_file(host_, options_.output_dir + "/README.md", coverage());
  }

  // Compiles the model, or the op's first example, for each device in turn, and reads from the
  // placement which device took the op.
  int who_takes(const Registered& r) {
    if (options_.model.empty() && r.op->example_count == 0) {
      return fail(kUsage, "T0008",
                  fmt::format("the operator {} has no example to ask the devices about; name a "
                              "--model that has it.",
                              in_quotes(options_.name)));
    }
    std::string text;
    if (int s = explain(host_, "devices", "", text)) return s;
    const Json devices = Json::parse(text, nullptr, false);
    if (!devices.is_object() || !devices.contains("devices")) return kOk;
    Model model(host_);
    if (int s = options_.model.empty() ? example_model(*r.op, model)
                                       : load(host_, {.model = options_.model}, model))
      return s;
    const std::string subject =
        options_.model.empty() ? std::string(view(r.op->examples[0])) : options_.model;
    op_ = r.op;
    std::set<std::string> in_model;
    if (int s = ops_of(model, in_model)) return s;
    in_model_ = in_model.contains(options_.name);
    Json rows = Json::array();
    for (const Json& device : devices["devices"])
      rows.push_back(ask(model, device.value("name", "")));
    const bool unused = std::all_of(rows.begin(), rows.end(), [](const Json& row) {
      return row.value("answer", "") == "unused";
    });
    if (unused && !in_model_) return no_such_node(in_model);
    if (options_.json) {
      const char* what = options_.model.empty() ? "example" : "model";
      write_out(
          Json({{"schema", 1}, {"op", options_.name}, {what, subject}, {"devices", rows}}).dump(2) +
          "\n");
      return kOk;
    }
    out("{}\n", safe(subject, 400));
    for (const Json& row : rows) print_row(row);
    return kOk;
  }

  // Names of the ops of a model, before any pass.
  int ops_of(const Model& model, std::set<std::string>& names) {
    Graph graph(host_);
    tenon_code_t code = host_.session->model_graph(host_.session->self, model.get(), graph.out());
    auto all = sized<tenon_graph_view_t>();
    if (code == TENON_OK) code = host_.graph->graph_view(host_.graph->self, graph.get(), &all);
    for (tenon_node_t n = 0; code == TENON_OK && n < all.node_limit; ++n) {
      auto node = sized<tenon_node_view_t>();
      if (host_.graph->node_view(host_.graph->self, graph.get(), n, &node) != TENON_OK ||
          node.parent == TENON_NONE)
        continue;
      names.emplace(view(host_.host->sym_text(host_.host->self, node.op)));
    }
    return code == TENON_OK ? kOk : report(host_, code);
  }

  int no_such_node(const std::set<std::string>& in_model) const {
    return fail(kUsage, "T0008",
                fmt::format("{} has no node {}{}", in_quotes(options_.model),
                            in_quotes(options_.name), did_you_mean(options_.name, in_model)),
                in_model.empty() ? "It has no nodes." : "Its nodes are: " + list_names(in_model));
  }

  static std::string time_text(double ns) {
    if (ns < 1e3) return fmt::format("{:.0f} ns", ns);
    return ns < 1e6 ? fmt::format("{:.3g} us", ns / 1e3) : fmt::format("{:.4g} ms", ns / 1e6);
  }

  // "about 12 us with broadcast and relu, for which the device itself takes 20 us".
  static std::string cost_text(const Json& c) {
    std::string text =
        (c.value("measured", false) ? "" : "about ") + time_text(c.value("cost_ns", 0.0));
    if (c.contains("with")) text += " with " + c.value("with", "");
    if (c.contains("own_cost_ns"))
      text += ", together " + time_text(c.value("own_cost_ns", 0.0)) + " on the device itself";
    return text;
  }

  // A device and, beneath it, the kernel sets for it, if there are any.
  static void print_row(const Json& row) {
    out("  {:<12} {:<10} {}\n", safe(row.value("device", "")), row.value("answer", ""),
        safe(row.value("reason", ""), 400));
    for (const Json& c : row.value("candidates", Json::array())) {
      out("    {:<16} {:<8} {}\n", safe(c.value("plugin", "")), c.value("answer", ""),
          safe(c.contains("cost_ns") ? cost_text(c) : c.value("reason", ""), 400));
    }
  }

  // With operands as inputs, or as constants for ops that need their values.
  int example_model(const tenon_op_def_t& op, Model& model) {
    tenon_code_t code = TENON_OK;
    for (const bool constants : {false, true}) {
      const std::string text = example_graph(view(op.examples[0]), constants);
      tenon_blob_t* blob = nullptr;
      code = host_.graph->blob_bytes(host_.graph->self, text.data(), text.size(), &blob);
      if (code != TENON_OK) break;
      code = host_.session->model_load_bytes(host_.session->self, blob, str("example.tir"), str(""),
                                             model.out());
      host_.graph->blob_release(host_.graph->self, blob);
      if (code == TENON_OK) return kOk;
    }
    return report(host_, code);
  }

  // If a decomposable op is not taken whole, whether it runs depends on the nodes that replace it.
  Json ask(const Model& model, const std::string& device) {
    Json placed;
    Json row = options_.model.empty() ? place(model, device, "none", placed)
                                      : place(model, device, "", placed);
    const std::string given = row.value("answer", "");
    if (op_->decompose == nullptr || !in_model_ || (given != "refused" && given != "unused"))
      return row;
    Json parts;
    const Json inlined = place(model, device, "legalize", parts);
    if (inlined.value("answer", "") != "unused") return row;
    if (!options_.model.empty())
      return {
          {"device", device}, {"answer", "decomposed"}, {"reason", "its parts stand in its place"}};
    const std::string text = parts_text(parts, device);
    return text.empty()
               ? row
               : Json(
                     {{"device", device}, {"answer", "decomposed"}, {"reason", "runs as " + text}});
  }

  // "mean, sub; on cpu: norm"; empty if the device runs no part.
  static std::string parts_text(const Json& placed, const std::string& device) {
    std::vector<std::string> here;
    std::map<std::string, std::vector<std::string>> elsewhere;
    for (const Json& node :
         placed.is_object() ? placed.value("nodes", Json::array()) : Json::array()) {
      const std::string on = node.value("device", ""), name = node.value("op", "");
      std::vector<std::string>& names = on == device || on == device + ":0" ? here : elsewhere[on];
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
    if (here.empty()) return "";
    std::string text = fmt::format("{}", fmt::join(here, ", "));
    for (const auto& [on, names] : elsewhere)
      text += fmt::format("; on {}: {}", on, fmt::join(names, ", "));
    return text;
  }

  Json place(const Model& model, const std::string& device, std::string_view passes, Json& placed) {
    Program program(host_);
    auto options = sized<tenon_session_options_t>();
    options.device = str(device);
    options.pipeline = str(passes);
    options.autotune = options_.autotune ? 1 : 0;
    tenon_code_t code =
        host_.session->compile(host_.session->self, model.get(), &options, program.out());
    Text text;
    const tenon_sink_t sink = text.sink();
    if (code == TENON_OK)
      code = host_.session->placement(host_.session->self, program.get(), &sink);
    if (code != TENON_OK) {
      auto failure = sized<tenon_failure_t>();
      host_.host->last_failure(host_.host->self, &failure);
      return {{"device", device}, {"answer", "failed"}, {"reason", view(failure.message)}};
    }
    placed = Json::parse(text.text, nullptr, false);
    return answer(device, placed);
  }

  // Taken if every node of that op is on the device; otherwise the first refusal with its reason.
  // Candidates are those of the first node.
  Json answer(const std::string& device, const Json& placement) const {
    bool seen = false;
    Json candidates = Json::array();
    for (const Json& node :
         placement.is_object() ? placement.value("nodes", Json::array()) : Json::array()) {
      if (node.value("op", "") != options_.name) continue;
      const std::string on = node.value("device", "");
      if (on == device || on == device + ":0") {
        if (!seen) candidates = candidates_of(node);
        seen = true;
        continue;
      }
      seen = true;
      for (const Json& refusal : node.value("refusals", Json::array())) {
        const std::string by = refusal.value("device", "");
        if (by != device && by != device + ":0") continue;
        return {{"device", device}, {"answer", "refused"}, {"reason", refusal.value("reason", "")}};
      }
      return {{"device", device},
              {"answer", "refused"},
              {"reason", "no reason given; it ran on " + on}};
    }
    const char* unused = seen ? "" : "the passes replaced every node of that name";
    Json row = {{"device", device}, {"answer", seen ? "taken" : "unused"}, {"reason", unused}};
    if (!candidates.empty()) row["candidates"] = std::move(candidates);
    return row;
  }

  // The device's own plugin and the kernel sets for it: which one runs the node, which would at a
  // higher cost, and which refuse.
  static Json candidates_of(const Json& node) {
    Json rows = node.value("candidates", Json::array());
    for (Json& row : rows) {
      row["measured"] = node.value("measured", false);
      row["answer"] = row.value("taken", false) ? "taken"
                      : row.contains("cost_ns") ? "dearer"
                                                : "refused";
    }
    return rows;
  }

  const Host& host_;
  const OpsOptions& options_;
  std::vector<Registered> ops_;
  const tenon_op_def_t* op_ = nullptr;  // the op in question
  bool in_model_ = false;               // before all passes
};

}  // namespace

int command_ops(const OpsOptions& options) {
  Host host;
  if (int s = host_open(host)) return s;
  return Ops(host, options).all();
}

}  // namespace tenon::tools
