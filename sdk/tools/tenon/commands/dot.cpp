#include "sdk/tools/tenon/commands/dot.h"

#include <fmt/format.h>

#include <map>

namespace tenon::tools {
namespace {

using Json = nlohmann::json;

// A text within quotes, as Graphviz has it. "\n" stays: it ends a line of a label.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= ' ') out += c;
  }
  return out;
}

std::string text_of(const Json& object, const char* key) {
  return object.contains(key) && object[key].is_string() ? object[key].get<std::string>() : "";
}

class Dot {
 public:
  explicit Dot(const Json& graph) : graph_(graph) {}

  std::string text() {
    out_ = fmt::format("digraph \"{}\" {{\n  node [shape=box, fontname=\"monospace\"];\n",
                       escaped(text_of(graph_, "name")));
    for (const Json& value : list("values")) values_[value.value("value", 0u)] = &value;
    for (const Json& input : list("inputs")) add_input(input.get<uint32_t>());
    for (const Json& node : list("nodes")) {
      for (const Json& result : node["results"])
        made_by_[result.get<uint32_t>()] = fmt::format("n{}", node.value("node", 0u));
    }
    for (const Json& node : list("nodes")) add_node(node);
    for (const Json& output : list("outputs")) add_output(output);
    return out_ + "}\n";
  }

 private:
  static const Json& none() {
    static const Json empty = Json::array();
    return empty;
  }
  const Json& list(const char* key) const { return graph_.contains(key) ? graph_[key] : none(); }

  std::string of_value(uint32_t value, const char* key) const {
    const auto found = values_.find(value);
    return found == values_.end() ? "" : text_of(*found->second, key);
  }

  void add_input(uint32_t value) {
    made_by_[value] = fmt::format("v{}", value);
    out_ += fmt::format("  v{} [label=\"{}\\n{}\", shape=ellipse];\n", value,
                        escaped(of_value(value, "name")), escaped(of_value(value, "type")));
  }

  void add_node(const Json& node) {
    const uint32_t id = node.value("node", 0u), body = node.value("body", 0u);
    std::string label = escaped(text_of(node, "op"));
    if (const std::string attributes = text_of(node, "attributes"); !attributes.empty())
      label += "\\n" + escaped(attributes);
    if (body != 0) label += fmt::format("\\n{} nodes inside", body);
    out_ += fmt::format("  n{} [label=\"{}\"];\n", id, label);
    for (const Json& operand : node["operands"]) {
      if (operand.is_number_unsigned()) add_edge(operand.get<uint32_t>(), fmt::format("n{}", id));
    }
  }

  void add_output(const Json& output) {
    const uint32_t value = output.value("value", 0u);
    const std::string id = fmt::format("o{}", outputs_++);
    out_ +=
        fmt::format("  {} [label=\"{}\", shape=ellipse];\n", id, escaped(text_of(output, "name")));
    add_edge(value, id);
  }

  // A constant has a box of its own at each use, so that it joins no distant parts.
  void add_edge(uint32_t value, const std::string& to) {
    std::string from;
    if (const auto found = made_by_.find(value); found != made_by_.end()) {
      from = found->second;
    } else {
      from = fmt::format("c{}", constants_++);
      out_ += fmt::format("  {} [label=\"{}\", shape=plaintext];\n", from,
                          escaped(of_value(value, "type")));
    }
    out_ += fmt::format("  {} -> {} [label=\"{}\"];\n", from, to, escaped(of_value(value, "type")));
  }

  const Json& graph_;
  std::string out_;
  std::map<uint32_t, const Json*> values_;
  std::map<uint32_t, std::string> made_by_;
  size_t constants_ = 0, outputs_ = 0;
};

}  // namespace

std::string dot_text(const Json& graph) {
  return Dot(graph).text();
}

}  // namespace tenon::tools
