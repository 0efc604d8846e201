// Checks of a model before any node is built: opsets, known ops, no recursive functions, order.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <queue>

#include "frontends/onnx/graph/importer.h"
#include "frontends/onnx/graph/plugin_ops.h"

namespace tenon::onnx {
namespace {

std::string_view canonical(std::string_view domain) {
  return domain == "ai.onnx" ? "" : domain;
}
std::string_view shown(std::string_view domain) {
  return domain.empty() ? "ai.onnx" : domain;
}

// ---- Ops and functions ----

class OpCheck {
 public:
  OpCheck(const ModelProto& model, const OpsetVersions& versions, Problems* problems)
      : model_(model), versions_(versions), problems_(problems) {}

  bool run(const std::vector<NodeProto>& graph) {
    const uint64_t nodes = walk(graph, versions_, 0).nodes;
    report_unknown();
    if (failed_) return false;
    if (nodes > limits().nodes) {
      return problems_->add(
          "T0102",
          fmt::format("with its functions inlined the model has {} nodes, the limit is {}; "
                      "TENON_LIMIT_NODES raises it",
                      nodes, limits().nodes));
    }
    return true;
  }

 private:
  struct Unknown {
    std::string_view domain, op;
    int64_t version;
    std::vector<std::string> nodes;
    size_t count = 0;
  };

  // The size of nodes after functions are inlined. Each call counts as a node, because even a
  // function without nodes takes time.
  struct Size {
    uint64_t nodes = 0;   // saturating
    uint64_t levels = 0;  // of functions and of graphs in attributes
    void add(Size inner, uint64_t level) {
      nodes = std::min(nodes + inner.nodes, kMany);
      levels = std::max(levels, inner.levels + level);
    }
  };

  Size walk(const std::vector<NodeProto>& nodes, const OpsetVersions& versions, size_t depth) {
    Size total;
    for (const NodeProto& node : nodes) {
      total.add({1, 0}, 0);
      if (const FunctionProto* function = find_function(model_, node)) {
        total.add(inlined(*function, node, depth), 1);
      } else {
        const int64_t version = versions.of(node.domain);
        if (branches_ == 0 && !is_known(canonical(node.domain), node.op_type, version))
          note(node, version);
      }
      // A branch that is never imported may have ops of any kind.
      const bool branching = node.op_type == "If" && canonical(node.domain).empty();
      branches_ += branching;
      for (const AttributeProto& attribute : node.attributes) {
        for (const auto& graph : attribute.graphs)
          total.add(walk(graph->nodes, versions, depth + 1), 1);
      }
      branches_ -= branching;
    }
    return total;
  }

  Size inlined(const FunctionProto& function, const NodeProto& caller, size_t depth) {
    const auto key = std::pair(&function, branches_ > 0);
    const auto [at, fresh] = sizes_.try_emplace(key);
    if (!fresh && !at->second) {
      if (!failed_) {
        problems_->add("T0707", fmt::format("the function {} calls itself, by {}",
                                            quote(function.name), node_text(caller)));
      }
      failed_ = true;
      return {};
    }
    if (fresh && depth < limits().depth) {
      OpsetVersions versions;
      if (!read_opsets(function.opsets, &versions, problems_)) failed_ = true;
      const Size size = walk(function.nodes, versions, depth + 1);
      sizes_[key] = size;
    }
    // A function that was walked before may now be nested deeper.
    const Size size = sizes_[key].value_or(Size());
    if (depth + 1 + size.levels > limits().depth) {
      if (!failed_) {
        problems_->add(
            "T0102",
            fmt::format("functions are nested too deep: the levels are more than the limit of {}; "
                        "TENON_LIMIT_DEPTH raises it",
                        limits().depth));
      }
      failed_ = true;
    }
    return size;
  }

  static bool is_known(std::string_view domain, std::string_view op, int64_t version) {
    return version != 0 && (find_importer(domain, op, version) != nullptr ||
                            find_plugin_op(domain, op, version).found());
  }

  void note(const NodeProto& node, int64_t version) {
    const std::string_view domain = canonical(node.domain);
    auto same = [&](const Unknown& u) {
      return u.domain == domain && u.op == node.op_type && u.version == version;
    };
    auto at = std::find_if(unknown_.begin(), unknown_.end(), same);
    if (at == unknown_.end()) {
      if (unknown_.size() == kMaxProblems * 4) return;
      at = unknown_.insert(at, Unknown{domain, node.op_type, version, {}, 0});
    }
    if (at->count++ < kMaxListed) {
      at->nodes.push_back(node.name.empty() ? fmt::format("#{}", node.index) : quote(node.name));
    }
  }

  void report_unknown() {
    if (unknown_.empty()) return;
    failed_ = true;
    std::string text = unknown_.size() == 1 ? "one op is not known:"
                                            : fmt::format("{} ops are not known:", unknown_.size());
    for (const Unknown& u : unknown_) {
      const std::string opset =
          u.version == 0 ? "which the model does not import" : fmt::format("opset {}", u.version);
      text += fmt::format(
          "\n  {} of domain {}, {}: {} {}{}", quote(u.op), quote(shown(u.domain)), opset,
          u.count == 1 ? "node" : "nodes", fmt::join(u.nodes, ", "),
          u.count > u.nodes.size() ? fmt::format(" and {} more", u.count - u.nodes.size()) : "");
      text += unknown_op_advice(u.domain, u.op, u.version);
    }
    problems_->add("T0704", text);
  }

  static constexpr uint64_t kMany = UINT64_MAX / 2;
  const ModelProto& model_;
  const OpsetVersions& versions_;
  Problems* problems_;
  // Of functions. Calls in branches, whose unknown ops are not reported here, have entries of their
  // own. Empty: being walked.
  std::map<std::pair<const FunctionProto*, bool>, std::optional<Size>> sizes_;
  std::vector<Unknown> unknown_;
  size_t branches_ = 0;  // of Ifs, around the nodes that are walked
  bool failed_ = false;
};

// ---- Order ----

class Order {
 public:
  Order(std::span<const NodeProto> nodes,
        const std::unordered_map<std::string_view, Item*>& defined, Problems* problems)
      : nodes_(nodes), defined_(defined), problems_(problems) {}

  bool run(std::vector<const NodeProto*>* out) {
    if (!find_producers() || !find_waits()) return false;
    sort(out);
    return out->size() == nodes_.size() || report_cycle();
  }

 private:
  bool find_producers() {
    bool ok = true;
    producer_.reserve(nodes_.size());
    for (uint32_t i = 0; i < nodes_.size(); ++i) {
      for (const Text output : nodes_[i].outputs) {
        if (output.empty()) continue;
        if (defined_.contains(output)) {
          ok = problems_->add(
              "T0705", fmt::format("{} defines {}, which is already an input or an initializer",
                                   node_text(nodes_[i]), quote(output)));
        } else if (const auto [at, fresh] = producer_.try_emplace(output, i); !fresh) {
          ok = problems_->add(
              "T0705", fmt::format("{} defines {}, which {} defines too", node_text(nodes_[i]),
                                   quote(output), node_text(nodes_[at->second])));
        }
      }
    }
    return ok;
  }

  bool find_waits() {
    bool ok = true;
    waits_.resize(nodes_.size());
    for (uint32_t i = 0; i < nodes_.size(); ++i) {
      for (const Text input : nodes_[i].inputs) {
        if (input.empty() || defined_.contains(input)) continue;
        const auto at = producer_.find(input);
        if (at == producer_.end()) {
          ok = problems_->add("T0706", fmt::format("{} uses {}, which nothing defines",
                                                   node_text(nodes_[i]), quote(input)));
        } else {
          ++waits_[i];
        }
      }
    }
    return ok;
  }

  // Takes the smallest ready index first, which keeps the file's order if that is valid.
  void sort(std::vector<const NodeProto*>* out) {
    std::vector<std::vector<uint32_t>> users;
    const bool sorted = already_sorted();
    if (sorted) {
      for (const NodeProto& node : nodes_) out->push_back(&node);
      return;
    }
    users.resize(nodes_.size());
    std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ready;
    for (uint32_t i = 0; i < nodes_.size(); ++i) {
      if (waits_[i] == 0) ready.push(i);
      for (const Text input : nodes_[i].inputs) {
        if (const auto at = producer_.find(input); at != producer_.end() && !input.empty())
          users[at->second].push_back(i);
      }
    }
    while (!ready.empty()) {
      const uint32_t i = ready.top();
      ready.pop();
      out->push_back(&nodes_[i]);
      for (const uint32_t user : users[i]) {
        if (--waits_[user] == 0) ready.push(user);
      }
    }
  }

  bool already_sorted() const {
    for (uint32_t i = 0; i < nodes_.size(); ++i) {
      for (const Text input : nodes_[i].inputs) {
        const auto at = input.empty() ? producer_.end() : producer_.find(input);
        if (at != producer_.end() && at->second >= i) return false;
      }
    }
    return true;
  }

  // Follows waiting nodes until one repeats, and reports the cycle.
  bool report_cycle() {
    uint32_t at = 0;
    while (waits_[at] == 0) ++at;
    std::vector<uint32_t> path;
    std::vector<bool> seen(nodes_.size());
    while (!seen[at]) {
      seen[at] = true;
      path.push_back(at);
      for (const Text input : nodes_[at].inputs) {
        const auto from = input.empty() ? producer_.end() : producer_.find(input);
        if (from != producer_.end() && waits_[from->second] != 0) {
          at = from->second;
          break;
        }
      }
    }
    path.erase(path.begin(), std::find(path.begin(), path.end(), at));
    std::string names;
    for (size_t i = 0; i < path.size() && i < kMaxListed; ++i) {
      names += (i == 0 ? "" : ", which needs ") + node_text(nodes_[path[i]]);
    }
    return problems_->add("T0707", fmt::format("{} nodes form a cycle: {}{}", path.size(), names,
                                               path.size() > kMaxListed ? ", and so on" : ""));
  }

  std::span<const NodeProto> nodes_;
  const std::unordered_map<std::string_view, Item*>& defined_;
  Problems* problems_;
  std::unordered_map<std::string_view, uint32_t> producer_;
  std::vector<uint32_t> waits_;
};

}  // namespace

std::string node_text(const NodeProto& node) {
  return node.name.empty()
             ? fmt::format("node #{} ({})", node.index, quote(node.op_type))
             : fmt::format("node {} (#{}, {})", quote(node.name), node.index, quote(node.op_type));
}

int64_t OpsetVersions::of(std::string_view domain) const {
  const auto at = by_domain.find(canonical(domain));
  return at == by_domain.end() ? 0 : at->second;
}

bool read_opsets(std::span<const OpsetProto> opsets, OpsetVersions* out, Problems* problems) {
  for (const OpsetProto& opset : opsets) {
    const std::string_view domain = canonical(opset.domain);
    if (!out->by_domain.try_emplace(domain, opset.version).second) {
      return problems->add(
          "T0703", fmt::format("the opset of domain {} is named twice", quote(shown(domain))));
    }
    if (opset.version < 1) {
      return problems->add("T0703", fmt::format("opset {} of domain {} is not a valid version",
                                                opset.version, quote(shown(domain))));
    }
    if (domain.empty() && (opset.version < kOldestOpset || opset.version > kNewestOpset)) {
      return problems->add(
          "T0703",
          fmt::format(
              "opset {} of domain 'ai.onnx' is not known; {} to {} are. Convert the model with "
              "onnx.version_converter, or export it for opset 17",
              opset.version, kOldestOpset, kNewestOpset));
    }
  }
  return true;
}

const FunctionProto* find_function(const ModelProto& model, const NodeProto& node) {
  if (model.functions.empty()) return nullptr;
  const auto at = model.function_of.find(function_key(node.domain, node.op_type, node.overload));
  return at == model.function_of.end() ? nullptr : at->second;
}

bool check_ops(const ModelProto& model, const std::vector<NodeProto>& nodes,
               const OpsetVersions& versions, Problems* problems) {
  return OpCheck(model, versions, problems).run(nodes);
}

bool order_nodes(std::span<const NodeProto> nodes,
                 const std::unordered_map<std::string_view, Item*>& defined, Problems* problems,
                 std::vector<const NodeProto*>* out) {
  return Order(nodes, defined, problems).run(out);
}

}  // namespace tenon::onnx
