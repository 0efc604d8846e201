// The driver's own state; included by importer.cpp and node_context.cpp only.
#ifndef FRONTENDS_ONNX_GRAPH_IMPORTER_INTERNAL_H_
#define FRONTENDS_ONNX_GRAPH_IMPORTER_INTERNAL_H_

#include <deque>
#include <initializer_list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "frontends/onnx/graph/folding.h"
#include "frontends/onnx/graph/importer.h"
#include "frontends/onnx/reader/model_limits.h"

namespace tenon::onnx {

// What to do about numbers that are known only at run time, where sizes, axes or counts need them.
enum class Unknown {
  kSymbols,   // each becomes a symbol; what needs more than that is a problem
  kPostpone,  // what follows from inputs is left until their values are known
};

// The nodes around a node, outermost first, and the node itself.
using Path = std::vector<const NodeProto*>;

// What is known before an import of the model begins.
struct Plan {
  std::vector<int64_t> cases;  // answers to the questions about sizes, in their order
  bool may_ask = false;        // whether the host can answer more
  std::set<Path> forks;        // Ifs that are compiled per branch, and the ways to them
};

// Of an output of the model; -1 for a dim that is not constant.
struct OutputType {
  tenon_dtype_t dtype;
  std::vector<int64_t> dims;
};

// A condition on sizes whose truth is needed.
struct Question {
  Dim truth;
  std::string why;
};

// How an import ended.
struct Imported {
  bool done = false;
  bool by_value = false;  // it needs the values of inputs
  std::optional<Question> question;
  std::vector<OutputType> outputs;  // if it is done
};
Imported import_once(const ModelProto& model, const Source& source, Unknown unknown, Plan plan,
                     Problems* problems, Graph* out);
// The types of the model's outputs in all cases of its sizes; empty where values of inputs decide
// them.
bool types_of_cases(const ModelProto& model, const Source& source, const Plan& plan,
                    std::string_view why, std::vector<OutputType>* out, Problems* problems);

class Importer {
 public:
  Importer(const ModelProto& model, const Source& source, Unknown unknown, Plan plan,
           Problems* problems);
  bool run(Graph* out);
  // The model's inputs and outputs around a single node that represents the whole model. types: of
  // the outputs, where the declared ones are not to be taken.
  bool outline(Graph* out, const std::vector<OutputType>& types);
  // What it needs to know, once run() has failed without a problem.
  const std::optional<Question>& question() const { return question_; }
  // Problems from now on go there.
  void report_into(Problems* problems) { problems_ = problems; }
  // Whether it has to begin again, with this plan.
  bool restart() const { return restart_; }
  const Plan& plan() const { return plan_; }
  std::vector<OutputType> output_types() const;
  // Logs what is odd about the model without being an error. Loading the model again logs it again.
  void log_warnings() const;
  // Inputs whose values were needed, with what needed them, in the order in which they were met.
  const std::vector<std::pair<std::string, std::string>>& value_inputs() const {
    return value_inputs_;
  }

 private:
  friend class NodeContext;
  using Scope = std::unordered_map<std::string_view, Item*>;
  // Symbolic dims of inputs: the input and its axis.
  using InputDims = std::unordered_map<tenon_dim_t, std::pair<const ValueProto*, size_t>>;
  // A function being inlined: where its attribute references are looked up.
  struct Frame {
    const NodeProto* caller;
    const FunctionProto* function;
    const Frame* parent;
  };

  // Nodes that are still to be imported, and what follows outside of them.
  struct Rest {
    std::vector<const NodeProto*> order;
    size_t at = 0;
    const OpsetVersions* versions = nullptr;
    const Frame* frame = nullptr;
    Scope scope;
    std::vector<std::pair<Text, Text>> results;  // the name here, and outside
    Path path;
    std::unique_ptr<Rest> outer;  // null: the graph ends with these nodes
  };

  bool check_header();
  bool check_fixed_dims();
  bool check_overrides(const GraphProto& main);
  bool add_host_failure(std::string_view what);
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

  // whole: the graph whose nodes these are, where what follows a fork can be imported twice.
  void run_nodes(std::span<const NodeProto> nodes, const OpsetVersions& versions, Scope* scope,
                 const Frame* frame, const GraphProto* whole = nullptr);
  bool operands_of(const NodeProto& node, const Scope& scope, std::vector<Item*>* out);
  void run_node(const NodeProto& node, const OpsetVersions& versions, Scope* scope,
                const Frame* frame);
  // Ifs that are compiled per branch (forks.cpp).
  bool is_open(const NodeProto& node);
  bool fork_again(const Path& path, size_t root);
  void run_forked(std::vector<const NodeProto*> order, size_t from, const OpsetVersions& versions,
                  Scope* scope, const Frame* frame, const GraphProto& whole);
  bool run_rest(Rest* rest, std::vector<Value>* out);
  bool give_outputs(const Scope& scope, std::vector<Value>* out);
  bool run_open(const NodeProto& node, Rest* rest, std::vector<Value>* out);
  bool run_open_if(NodeContext& n, const NodeProto& node, Rest* rest, std::vector<Value>* out);
  bool run_branch(NodeContext& n, const NodeProto& node, const GraphProto& branch, Rest* rest,
                  std::vector<Value>* out);
  bool run_side(NodeContext& n, const NodeProto& node, const GraphProto& branch, const Rest& rest,
                Region* region, std::vector<Value>* yields);
  static void go_inside(const NodeProto& node, Rest* rest, Rest* inner);
  Rest copy_of(const Rest& rest, std::unordered_map<const Item*, Item*>* copies);
  Item* copy_of(Item* item, std::unordered_map<const Item*, Item*>* copies);
  void materialise_rest(const Rest& rest, std::initializer_list<const GraphProto*> inner);
  bool same_outputs(NodeContext& n, const std::vector<Value>& a, const std::vector<Value>& b);
  // Conditions that follow from sizes (cases.cpp).
  bool is_of_inputs(Dim dim, size_t depth) const;
  std::optional<bool> decide(Dim truth, std::string why);
  Dim question_in(const Scope& scope, const InputDims& from) const;
  // Whether what the import is about has to be known first.
  bool halted() const { return restart_ || (question_ && unknown_ == Unknown::kSymbols); }
  // Bodies of control flow (ops/control.cpp).
  void materialise(const GraphProto& graph, const Scope& scope);
  void materialise(Text name, const Scope& scope);
  // root: its outputs end the region, so that forks in it reach to them.
  bool run_body(const GraphProto& graph, const std::vector<Item>& inputs, bool root,
                std::vector<Item*>* outputs);
  bool body(const GraphProto& graph, std::string_view what, const BindBody& bind,
            const FinishBody& finish, Region* out);
  bool fill_body(const GraphProto& graph, std::string_view what, const BindBody& bind,
                 const FinishBody& finish);
  bool check_attributes(const NodeProto& node);
  void locate(const NodeProto& node);
  bool check_call(const FunctionProto& function, const NodeProto& node);
  bool bind_call(const FunctionProto& function, const NodeProto& node,
                 const std::vector<Item*>& inputs, Scope* inner);
  bool call(const FunctionProto& function, const NodeProto& node, const std::vector<Item*>& inputs,
            Scope* scope, const Frame* frame);
  const AttributeProto* attribute(const NodeProto& node, std::string_view name,
                                  const Frame* frame) const;

  // Numbers that are known only at run time (by_value.cpp).
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
  bool outline_type(const ValueProto& output, const OutputType* known, Type* out);

  int64_t channel_block();
  bool resolve(Item* item);
  const Extents* known(Item* item);
  Value value_of(Item* item);
  Value build_elements(const Item& item);
  Value dim_value(Dim dim, size_t depth, std::unordered_map<tenon_dim_t, Value>* made);

  const ModelProto& model_;
  const Source& source_;
  const Unknown unknown_;
  Plan plan_;
  Problems* problems_;
  Graph graph_;
  Region region_;
  std::optional<Builder> builder_;
  std::deque<Item> items_;  // stable addresses
  std::unordered_map<std::string, Dim> symbols_;
  std::unordered_set<std::string> fixed_dims_;  // names of Source::dims that were met
  std::vector<std::string> warnings_;           // logged once the model is imported
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
  InputDims input_dims_;
  std::unordered_map<tenon_dim_t, bool> decided_;  // conditions on sizes
  size_t asked_ = 0;                               // of plan_.cases
  std::optional<Question> question_;
  bool restart_ = false;
  Path path_;                          // to the node that is being imported
  std::vector<size_t> roots_ = {0};    // how long the paths to the model and to bodies are
  const GraphProto* whole_ = nullptr;  // whose outputs a fork gives
  size_t paths_ = 0;                   // through the forks of that graph
  int64_t channel_block_ = 0;          // 0: not asked yet
  Folding folding_;
  const Frame* frame_ = nullptr;
  // Of the node that is being imported.
  const Scope* scope_ = nullptr;
  const OpsetVersions* versions_ = nullptr;
};

}  // namespace tenon::onnx

#endif  // FRONTENDS_ONNX_GRAPH_IMPORTER_INTERNAL_H_
