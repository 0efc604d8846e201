// tenon seed: compiles every operator by itself, with symbolic sizes, so that the cache holds what
// small graphs and first calls need. A build names the folder with TENON_CACHE_DIR and ships it
// next to the plugins (TENON_SEED_DIR).
#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "sdk/tools/support/op_example.h"

#include <nlohmann/json.hpp>

#include "sdk/tools/tenon/console/console.h"
#include "sdk/tools/tenon/execution/execution.h"

namespace tenon::tools {
namespace {

// Element types that replace an example's f32.
constexpr tenon_dtype_t kFloats[] = {TENON_F32, TENON_F64, TENON_F16, TENON_BF16};

// One graph: the op of an example, with a symbol for each distinct size of its arguments.
class Seed {
 public:
  Seed(const Host& host, const RunOptions& options) : host_(host), options_(options) {}

  // Adds the number of graphs that compiled to `made`. Graphs that the op or the device refuses are
  // left out.
  void op(const tenon_op_def_t& op, uint64_t& made) {
    for (uint32_t e = 0; e < op.example_count; ++e) {
      Model example(host_);
      if (!read_example(view(op.examples[e]), example)) continue;
      for (tenon_dtype_t dtype : kFloats) made += build(example, dtype) ? 1 : 0;
    }
  }

 private:
  const tenon_host_graph_t& api() const { return *host_.graph; }

  bool read_example(std::string_view expression, Model& model) {
    const std::string text = example_graph(expression, false);
    tenon_blob_t* blob = nullptr;
    if (text.empty() || api().blob_bytes(api().self, text.data(), text.size(), &blob) != TENON_OK)
      return false;
    const tenon_code_t code = host_.session->model_load_bytes(
        host_.session->self, blob, str("example.tir"), str(""), model.out());
    api().blob_release(api().self, blob);
    return code == TENON_OK;
  }

  // Rebuilds the example with other sizes and type.
  bool build(const Model& example, tenon_dtype_t dtype) {
    Graph from(host_), to(host_);
    symbols_.clear();
    if (host_.session->model_graph(host_.session->self, example.get(), from.out()) != TENON_OK)
      return false;
    if (api().create(api().self, str("seed"), to.out()) != TENON_OK) return false;
    if (!copy(from.get(), to.get(), dtype) || !seen_.insert(hash(to.get())).second) return false;
    Model model(host_);
    Program program(host_);
    if (host_.session->model_from_graph(host_.session->self, to.get(), model.out()) != TENON_OK)
      return false;
    auto session = sized<tenon_session_options_t>();
    session.no_fallback = 1;
    session.device = str(options_.device);
    return host_.session->compile(host_.session->self, model.get(), &session, program.out()) ==
           TENON_OK;
  }

  std::pair<uint64_t, uint64_t> hash(tenon_graph_t* graph) const {
    uint64_t h[2] = {};
    (void)api().graph_hash(api().self, graph, h);
    return {h[0], h[1]};
  }

  bool copy(tenon_graph_t* from, tenon_graph_t* to, tenon_dtype_t dtype) {
    tenon_graph_view_t all = {}, target = {};
    tenon_region_view_t main = {};
    tenon_node_view_t node = {};
    all.size_bytes = sizeof all;
    target.size_bytes = sizeof target;
    main.size_bytes = sizeof main;
    node.size_bytes = sizeof node;
    if (api().graph_view(api().self, from, &all) != TENON_OK ||
        api().region_view(api().self, from, all.main, &main) != TENON_OK ||
        api().graph_view(api().self, to, &target) != TENON_OK || main.node_count != 1 ||
        api().node_view(api().self, from, main.nodes[0], &node) != TENON_OK ||
        node.region_count != 0) {
      return false;
    }
    std::map<tenon_value_t, tenon_value_t> values = {{TENON_NONE, TENON_NONE}};
    for (uint32_t i = 0; i < main.argument_count; ++i) {
      auto value = sized<tenon_value_view_t>();
      if (api().value_view(api().self, from, main.arguments[i], &value) != TENON_OK) return false;
      if (!argument(to, target.main, value.type, dtype, i, values[main.arguments[i]])) return false;
    }
    std::vector<tenon_value_t> operands;
    for (uint32_t i = 0; i < node.operand_count; ++i) {
      const auto found = values.find(node.operands[i]);
      if (found == values.end()) return false;
      operands.push_back(found->second);
    }
    return finish(to, target.main, node, operands);
  }

  bool argument(tenon_graph_t* to, tenon_region_t region, const tenon_type_t& like,
                tenon_dtype_t dtype, uint32_t index, tenon_value_t& out) {
    std::vector<tenon_dim_t> dims;
    for (uint32_t d = 0; d < like.rank; ++d) {
      if (!dim(to, region, like.dims[d], dims.emplace_back())) return false;
    }
    tenon_type_t type = like;
    if (type.dtype == TENON_F32) type.dtype = dtype;
    type.dims = dims.data();
    return api().argument_add(api().self, to, region, &type, str(fmt::format("x{}", index)),
                              &out) == TENON_OK;
  }

  // Equal sizes of the example become one symbol; 0 and 1 stay constants.
  bool dim(tenon_graph_t* to, tenon_region_t region, tenon_dim_t size, tenon_dim_t& out) {
    out = size;
    if (size < 2) return size >= 0;
    if (const auto found = symbols_.find(size); found != symbols_.end()) {
      out = found->second;
      return true;
    }
    tenon_symbol_t symbol = 0;
    auto view = sized<tenon_symbol_view_t>();
    const std::string name = fmt::format("n{}", symbols_.size());
    if (api().symbol_define(api().self, to, region, str(name), 0,
                            std::numeric_limits<int64_t>::max(), 1, -1, &symbol) != TENON_OK ||
        api().symbol_view(api().self, to, symbol, &view) != TENON_OK) {
      return false;
    }
    out = symbols_[size] = view.dim;
    return true;
  }

  bool finish(tenon_graph_t* to, tenon_region_t region, const tenon_node_view_t& like,
              const std::vector<tenon_value_t>& operands) {
    const tenon_builder_t builder = {to, region, TENON_NONE, 0};
    auto spec = sized<tenon_node_spec_t>();
    spec.op = like.op;
    spec.op_version = like.op_version;
    spec.operands = operands.data();
    spec.operand_count = static_cast<uint32_t>(operands.size());
    spec.attrs = like.attrs;
    spec.attr_count = like.attr_count;
    tenon_node_t node = 0;
    auto made = sized<tenon_node_view_t>();
    return api().node_build(api().self, &builder, &spec, &node) == TENON_OK &&
           api().node_view(api().self, to, node, &made) == TENON_OK && made.result_count != 0 &&
           api().region_yield(api().self, to, region, made.results, made.result_count, nullptr) ==
               TENON_OK;
  }

  const Host& host_;
  const RunOptions& options_;
  std::map<tenon_dim_t, tenon_dim_t> symbols_;
  std::set<std::pair<uint64_t, uint64_t>> seen_;
};

// An unknown device would refuse every operator, one by one.
int check_device(const Host& host, const std::string& device) {
  std::string text;
  if (int s = explain(host, "devices", "", text)) return s;
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  const std::string kind = device.substr(0, device.find(':'));
  std::vector<std::string> names;
  for (const auto& row : json.is_object() ? json.value("devices", nlohmann::json::array())
                                          : nlohmann::json::array()) {
    const std::string name = row.value("name", "");
    if (name == device || name.substr(0, name.find(':')) == kind) return kOk;
    names.push_back(name);
  }
  return fail(
      kUsage, "T0008",
      fmt::format("there is no device {}{}", in_quotes(device), did_you_mean(device, names)),
      "Devices here: " + list_names(names) + ".");
}

}  // namespace

int command_seed(const RunOptions& options) {
  apply_threads(options);
  Host host;
  if (int s = host_open(host)) return s;
  std::vector<const tenon_op_def_t*> ops;
  const tenon_code_t code = host.registry->op_each(
      host.registry->self, &ops, [](void* self, const tenon_op_def_t* op, tenon_str_t) {
        static_cast<std::vector<const tenon_op_def_t*>*>(self)->push_back(op);
      });
  if (code != TENON_OK) return report(host, code);
  if (int s = check_device(host, options.device)) return s;
  Seed seed(host, options);
  uint64_t made = 0;
  for (const tenon_op_def_t* op : ops) {
    const bool wanted = options.inputs.empty() ||
                        std::find(options.inputs.begin(), options.inputs.end(), view(op->name)) !=
                            options.inputs.end();
    if (wanted) seed.op(*op, made);
  }
  out("{} graphs of one operator are in the cache\n", made);
  return made == 0 ? fail(kUsage, "T0008", "no operator could be compiled by itself.",
                          "`tenon ops` lists them.")
                   : kOk;
}

}  // namespace tenon::tools
