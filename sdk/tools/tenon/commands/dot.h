// A graph as text for Graphviz (`dot -Tsvg`).
#pragma once
#include <nlohmann/json.hpp>

#include <string>

namespace tenon::tools {

// graph: as TENON_FORMAT_JSON. Nodes of bodies are a number in the node that has them.
std::string dot_text(const nlohmann::json& graph);

}  // namespace tenon::tools
