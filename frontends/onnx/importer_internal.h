// The driver's own state; included by importer.cpp and node_context.cpp only.
#ifndef FRONTENDS_ONNX_IMPORTER_INTERNAL_H_
#define FRONTENDS_ONNX_IMPORTER_INTERNAL_H_

#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "folding.h"
#include "importer.h"
#include "model_limits.h"

namespace tenon::onnx {

// What to do about numbers that only a run tells, where sizes, axes or counts need them.
enum class Unknown {
  kSymbols,   // each becomes a symbol; what needs more than that is a problem
  kPostpone,  // what follows from inputs is left until their values are known
};

class Importer {
 public:
  Importer(const ModelProto& model, const Source& source, Unknown unknown, Problems* problems);
  bool run(Graph* out);
  // What is odd about the model, and no error. A model that is loaded again tells it again.
  void tell_warnings() const;
  // Inputs whose values were needed, with what needed them, in the order in which they were met.
  const std::vector<std::pair<std::string, std::string>>& value_inputs() const {
    return value_inputs_;
  }

 private:
  friend class NodeContext;
  using Scope = std::unordered_map<std::string_view, Item*>;
  // A function being inlined: where its attribute references are looked up.
  struct Frame {
    const NodeProto* caller;
    const Frame* parent;
  };

  bool check_header();
  bool check_fixed_dims();
  bool tell_host(std::string_view what);
  Item* new_item();
  bool add_initializers(const GraphProto& graph, Scope* scope);
  bool add_inputs(const GraphProto& graph, Scope* scope);
  bool add_input(const ValueProto& input, Item* item);
  bool fix_input(const ValueProto& input, const std::vector<int64_t>& values, Type type,
                 Item* item);
  bool guard_input(const ValueProto& input, const Constant& value, const Type& type, Item* item);
  void bind_guarded_dims(const GraphProto& graph);
  bool add_outputs(const GraphProto& graph, const Scope& scope);
  bool check_output(const ValueProto& output, const Item& item);
  static std::string shape_text(const ValueProto& declared);
  std::string shape_text(const Item& item) const;
  Dim symbol(const ValueProto& input, size_t axis);
  bool check_elements(const Dims& dims, std::string_view where);

  void run_nodes(std::span<const NodeProto> nodes, const OpsetVersions& versions, Scope* scope,
                 const Frame* frame);
  void run_node(const NodeProto& node, const OpsetVersions& versions, Scope* scope,
                const Frame* frame);
  // Bodies of control flow (ops_control.cpp).
  void materialise(const GraphProto& graph, const Scope& scope);
  bool run_body(const GraphProto& graph, const std::vector<Item>& inputs,
                std::vector<Item*>* outputs);
  bool body(const GraphProto& graph, std::string_view what, const BindBody& bind,
            const FinishBody& finish, Region* out);
  bool fill_body(const GraphProto& graph, std::string_view what, const BindBody& bind,
                 const FinishBody& finish);
  bool check_attributes(const NodeProto& node);
  void locate(const NodeProto& node);
  bool call(const FunctionProto& function, const NodeProto& node, const std::vector<Item*>& inputs,
            Scope* scope, const Frame* frame);
  const AttributeProto* attribute(const NodeProto& node, std::string_view name,
                                  const Frame* frame) const;

  // Numbers that a run tells (by_value.cpp).
  enum class Follows : uint8_t {
    kOpen,       // not known yet: from what its node reads
    kConstants,  // or nothing
    kInputs,     // small ones of integers, and maybe constants
    kUnknown,    // something else too
  };
  bool fold(Item* item);
  Follows follows(const Item* item);
  bool note_inputs(const Item* item, std::string_view why);
  const Extents* symbols_of(Item* item, std::string_view why, int64_t least);
  bool postpone(const Item* item, std::string_view why);
  bool outline(Graph* out);
  bool outline_type(const ValueProto& output, Type* out);

  int64_t channel_block();
  bool resolve(Item* item);
  const Extents* known(Item* item);
  Value value_of(Item* item);
  Value build_elements(const Item& item);
  Value dim_value(Dim dim, size_t depth, std::unordered_map<tenon_dim_t, Value>* made);

  const ModelProto& model_;
  const Source& source_;
  const Unknown unknown_;
  Problems* problems_;
  Graph graph_;
  Region region_;
  std::optional<Builder> builder_;
  std::deque<Item> items_;  // stable addresses
  std::unordered_map<std::string, Dim> symbols_;
  std::unordered_set<std::string> fixed_dims_;  // names of Source::dims that were met
  std::vector<std::string> warnings_;           // told once the model is imported
  std::unordered_map<tenon_dim_t, std::pair<Value, int64_t>>
      sources_;  // symbol -> an input and its axis
  // What a node's result is computed from; nothing is kept of nodes with graphs in their
  // attributes.
  std::unordered_map<const Item*, std::vector<Item*>> origins_;
  std::unordered_map<const Item*, Follows> follows_;
  std::unordered_set<const Item*> noted_;  // items whose inputs are in value_inputs_
  std::vector<std::pair<std::string, std::string>> value_inputs_;
  std::unordered_set<const Item*> symbolic_;  // items whose elements became symbols
  bool postponed_ = false;
  int64_t channel_block_ = 0;  // 0: not asked yet
  Folding folding_;
  const Frame* frame_ = nullptr;
  // Of the node that is being imported.
  const Scope* scope_ = nullptr;
  const OpsetVersions* versions_ = nullptr;
};

}  // namespace tenon::onnx

#endif  // FRONTENDS_ONNX_IMPORTER_INTERNAL_H_
