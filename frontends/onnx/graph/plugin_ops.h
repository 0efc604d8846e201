// Nodes of domains that plugins provide: by an importer of the plugin, or by the declaration of an
// op (docs/adr/0035-foreign-nodes.md).
#ifndef FRONTENDS_ONNX_GRAPH_PLUGIN_OPS_H_
#define FRONTENDS_ONNX_GRAPH_PLUGIN_OPS_H_

#include <string>
#include <string_view>

#include <tenon/abi/importers.h>
#include <tenon/abi/ops.h>

#include "frontends/onnx/graph/importer.h"

namespace tenon::onnx {

// At most one is set. Both live as long as the process.
struct PluginOp {
  const tenon_importer_t* importer = nullptr;
  const tenon_op_def_t* op = nullptr;
  bool found() const { return importer != nullptr || op != nullptr; }
};

// What plugins have for a node; loads those that could. domain: "" is ai.onnx.
PluginOp find_plugin_op(std::string_view domain, std::string_view type, int64_t version);

// Imports a node by what find_plugin_op() found.
bool import_by_plugin(NodeContext& n, const PluginOp& found);

// What to do about an op that nothing knows: a sentence that begins with "; ", or nothing.
// version: of the domain in the model; 0: not imported.
std::string unknown_op_advice(std::string_view domain, std::string_view type, int64_t version);

}  // namespace tenon::onnx

#endif  // FRONTENDS_ONNX_GRAPH_PLUGIN_OPS_H_
