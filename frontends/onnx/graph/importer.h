// The importers' view of one node, and the table that finds an importer.
//
// An importer is a function for one op from one opset version on; the table of each file of ops/
// names them. It reads operands and attributes through its NodeContext, builds nodes of ours, and
// sets the results:
//
//     bool relu(NodeContext& n) { return n.set(0, n.build("relu", {n.value(0)})); }
//
// Failures are reported through fail() and are sticky: every later question gets an empty answer,
// so an importer need not check each step. Nothing is read or built for a node whose operands
// failed before.
#ifndef FRONTENDS_ONNX_GRAPH_IMPORTER_H_
#define FRONTENDS_ONNX_GRAPH_IMPORTER_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <tenon/cpp/graph.hpp>

#include "frontends/onnx/graph/extent.h"
#include "frontends/onnx/graph/item.h"
#include "frontends/onnx/graph/weights.h"
#include "frontends/onnx/reader/model.h"
#include "frontends/onnx/reader/problems.h"

namespace tenon::onnx {

using BindBody = std::function<bool(std::vector<Item>* inputs)>;
using FinishBody = std::function<bool(std::vector<Value>* yields)>;

class NodeContext;
using ImportFunction = bool (*)(NodeContext&);

struct OpImporter {
  std::string_view op;
  int64_t since;  // opset version; the newest that is not newer than the model's opset is taken
  ImportFunction import;
  std::string_view domain = "";  // "" is ai.onnx
};

// The tables of all files of ops/.
std::span<const OpImporter> elementwise_importers();
std::span<const OpImporter> shape_importers();
std::span<const OpImporter> pad_importers();
std::span<const OpImporter> range_importers();
std::span<const OpImporter> index_importers();
std::span<const OpImporter> reduce_importers();
std::span<const OpImporter> nn_importers();
std::span<const OpImporter> vision_importers();
std::span<const OpImporter> order_importers();
std::span<const OpImporter> signal_importers();
std::span<const OpImporter> attention_importers();
std::span<const OpImporter> loss_importers();
std::span<const OpImporter> control_importers();
std::span<const OpImporter> recurrent_importers();
std::span<const OpImporter> quantise_importers();
std::span<const OpImporter> quantised_product_importers();
std::span<const OpImporter> quantised_linear_importers();
std::span<const OpImporter> quantised_attention_importers();
std::span<const OpImporter> narrow_weight_importers();
std::span<const OpImporter> expert_importers();
std::span<const OpImporter> fused_importers();
std::span<const OpImporter> fused_attention_importers();
std::span<const OpImporter> random_importers();
std::span<const OpImporter> nchwc_importers();

// All of these tables.
std::span<const OpImporter> all_importers();

// Null when no importer of this frontend knows the op at this version.
const OpImporter* find_importer(std::string_view domain, std::string_view op, int64_t version);

// "node 'x' (Op)", or "node #3 (Op)" when it has no name.
std::string node_text(const NodeProto& node);

// Checks of a whole model, or of a branch of an If that is to be imported, before any of its nodes
// is built: every op is known (all unknown ones are reported at once; those in branches are left to
// the branch's own check), functions do not call each other in a circle, and inlining them stays
// within the limits.
struct OpsetVersions {
  std::unordered_map<std::string_view, int64_t> by_domain;  // "ai.onnx" is kept as ""
  int64_t of(std::string_view domain) const;                // 0: not imported
};
bool read_opsets(std::span<const OpsetProto> opsets, OpsetVersions* out, Problems* problems);
const FunctionProto* find_function(const ModelProto& model, const NodeProto& node);
bool check_ops(const ModelProto& model, const std::vector<NodeProto>& nodes,
               const OpsetVersions& versions, Problems* problems);

// The nodes in an order in which every value is defined before it is used; the file's own where
// that is one. `defined` holds what is visible at the start. False after duplicate definitions,
// undefined inputs or cycles, which are added to the problems.
bool order_nodes(std::span<const NodeProto> nodes,
                 const std::unordered_map<std::string_view, Item*>& defined, Problems* problems,
                 std::vector<const NodeProto*>* out);

// The host's last failure as text without its code; the code goes to *id when that is not null.
std::string host_failure(std::string* id);

class Importer;

class NodeContext {
 public:
  NodeContext(Importer* importer, const NodeProto& node, int64_t version, std::vector<Item*> inputs)
      : importer_(importer),
        node_(node),
        op_(node.op_type),
        version_(version),
        inputs_(std::move(inputs)),
        outputs_(node.outputs.size()) {}

  int64_t version() const { return version_; }
  std::string_view op() const { return op_; }
  // What distinguishes the node from the others: its name and its results.
  std::string place() const;
  Builder& builder();
  tenon_graph_t* graph();
  bool ok() const { return ok_; }
  // Records a problem of this node; false. The text follows "node 'x' (Op): ".
  bool fail(std::string_view code, std::string_view text);
  // A size that was computed in more bits than it may have; 0 and a failure when there are not so
  // many elements in a tensor.
  int64_t within_limit(__int128 value, std::string_view what);

  // ---- Operands ----
  size_t input_count() const { return inputs_.size(); }
  size_t output_count() const { return node_.outputs.size(); }
  bool has(size_t i) const { return i < inputs_.size() && inputs_[i] != nullptr; }
  bool wants(size_t i) const { return i < node_.outputs.size() && !node_.outputs[i].empty(); }
  // The channels in a block of ONNX Runtime's blocked layouts, which its files do not say: 8 where
  // a filter of the model shows it, else those of this machine, on which alone such a file is
  // right in ONNX Runtime, too.
  int64_t channel_block();
  // Fails unless the number of operands lies in the range and those before `least` are there.
  bool arity(size_t least, size_t most, size_t most_outputs = 1);
  const Item& item(size_t i);  // of an operand that is there
  Value value(size_t i);       // as a tensor; invalid for an absent one
  tenon_dtype_t dtype(size_t i) {
    return has(i) ? inputs_[i]->dtype() : tenon_dtype_t{TENON_DTYPE_NONE};
  }
  const Dims& dims(size_t i) { return item(i).dims(); }
  int64_t rank(size_t i) { return static_cast<int64_t>(dims(i).size()); }
  // Integers known at import, or nothing.
  const Extents* known(size_t i);
  // The same where they are needed. Those that are only known when the model runs become symbols,
  // each at least `least`, or decide that the graph is loaded again by value; else this fails.
  const Extents* need(size_t i, std::string_view what, int64_t least = 0);
  std::optional<std::vector<int64_t>> need_numbers(size_t i, std::string_view what);
  // How many problems were reported so far.
  size_t problem_count() const;
  // For a failure that known values of operand i would have avoided. If inputs determine the
  // operand, the node waits for their values, and all but the first `known_problems` problems are
  // forgotten. Else the last of them says how to fix symbolic dims, if the model has any.
  void wait_instead(size_t i, std::string_view what, size_t known_problems);
  // The numbers of a constant of any element type, where no symbol can stand for them.
  std::optional<std::vector<double>> need_constants(size_t i, std::string_view what);
  // Whether the operand's numbers are known only at run time: it is not constant, and loading again
  // by value would not settle it.
  bool only_at_run(size_t i, std::string_view what);
  // The one number of a constant of any element type; nothing unless it is a constant of one
  // element.
  std::optional<double> constant(size_t i);
  // The same of one that follows from constants through any nodes.
  std::optional<double> computed(size_t i);
  // Constant operand i as numbers, at most kMaxKnownElements.
  std::optional<std::vector<double>> constants(size_t i);

  // ---- Attributes; a wrong kind fails ----
  bool has_attribute(std::string_view name) { return find(name) != nullptr; }
  int64_t integer(std::string_view name, int64_t otherwise);
  double number(std::string_view name, double otherwise);
  std::string_view text(std::string_view name, std::string_view otherwise);
  std::vector<int64_t> integers(std::string_view name);
  // Of an attribute with `count` entries, each at least `least` and no more than a tensor may have
  // elements, so that sums and, in 128 bits, products of two of them are exact. `otherwise` where
  // it is not given. Always of that size.
  std::vector<int64_t> per_dim(std::string_view name, size_t count, int64_t least,
                               int64_t otherwise);
  std::vector<double> numbers(std::string_view name);
  std::vector<std::string> texts(std::string_view name);
  const TensorProto* tensor(std::string_view name);
  // All that the node has, references of functions resolved.
  std::vector<const AttributeProto*> all_attributes();
  bool read(const TensorProto& tensor, Constant* out);

  // An axis, negative ones counted from the end, checked against [0, rank) or [0, rank] when `end`
  // is 1. -1 on failure.
  int64_t axis(int64_t given, int64_t rank, int64_t end = 0);
  std::vector<int64_t> axes(std::vector<int64_t> given, int64_t rank);

  // ---- Building ----
  Value build(std::string_view op, std::initializer_list<Value> operands,
              std::initializer_list<Attr> attrs = {});
  Value build(std::string_view op, const std::vector<Value>& operands,
              std::initializer_list<Attr> attrs = {});
  Value scalar(tenon_dtype_t dtype, double value) { return builder().scalar(dtype, value); }
  Value full_like(Value x, double value) { return builder().full_like(x, value); }
  Value reshape(Value x, const Dims& shape);
  Value transpose(Value x, const std::vector<int64_t>& perm);
  Value convert(Value x, tenon_dtype_t to) { return x.valid() ? builder().convert(x, to) : x; }
  // The number in f32 where it is f16 or bf16. Sums, squares and what is divided by them are taken
  // in it, because they leave the range or the digits of the narrow types. The result of the node
  // is converted back.
  Value wide(Value x);
  // A value, in a run that fails with the message where a condition of some shape does not hold.
  Value checked(Value x, Value holds, std::string_view message);
  Dim dim(int64_t n) { return Dim(graph(), n); }
  Dim product(std::span<const Dim> dims);
  // The product of dims over that of others, equal factors cancelled first, so that symbols that
  // stay as they are need no division. Fails where it leaves a rest. Where that is known only at
  // run time and the divisor is a constant, every run checks it.
  Dim quotient(Dims over, Dims under);
  // A known number as a scalar of the graph, and a computed i64 scalar as a size: a symbol that the
  // run defines, where a negative one is an error.
  Value number_of(const Extent& e);
  Dim size_from(Value number);
  // NumPy's rule for shapes; fails when they cannot agree. Symbolic dims that might disagree
  // are checked at every run.
  std::optional<Dims> broadcast_dims(const Dims& a, const Dims& b);
  Value broadcast_to(Value x, const Dims& shape);
  // All brought to one shape.
  std::vector<Value> broadcast(std::vector<Value> values);
  // Fails unless operands i.. have one element type (absent ones apart).
  bool same_types(size_t first = 0);
  // Fails where dims cannot be equal. Where that is not known, the inference of the node that is
  // built from them asserts it, with this node's location, and every run checks it.
  bool require_equal(Dim a, Dim b, std::string_view what);
  // Fails where the relation cannot hold. Where that is not known it is asserted, and every run
  // checks it.
  bool require(uint32_t rel, Dim a, Dim b, std::string_view what);

  // ---- Graphs in attributes (ops/control.cpp) ----
  const GraphProto* body_of(std::string_view name);
  // Imports a graph as a region of a node to be built. bind makes an item for each input, finish
  // may add to the yields; both build inside of the region.
  bool region(const GraphProto& graph, const BindBody& bind, const FinishBody& finish, Region* out);
  // Whether all ops of a branch are known. Unknown ones are reported.
  bool ops_known(const GraphProto& branch);
  // Whether operand i holds. Nothing if that is known only at run time. If it follows from sizes of
  // inputs, the host is asked for the case, and the node waits for it.
  std::optional<bool> condition(size_t i);
  // Whether values of inputs determine operand i; they are then noted as needed.
  bool follows_from_inputs(size_t i, std::string_view what);
  // Begins the import again; this If and what follows it are then compiled for each branch.
  bool fork();
  // Imports a graph without inputs here; its outputs are the node's.
  bool in_place(const GraphProto& graph);
  Value new_argument(Region region, tenon_dtype_t dtype, const Dims& dims);
  Region current_region();

  // The results of this node as if it were another op, with other operands (an Item() is an absent
  // one) and the same attributes: `import` builds them here, or the importer of that op of ONNX.
  // Empty after a failure. For ops that are another one between conversions.
  std::vector<Item> as(std::string_view op, int64_t version, std::vector<Item> operands,
                       ImportFunction import = nullptr);

  bool set(size_t i, Value value);
  bool set(size_t i, Item item);
  // Integers without a value: i64 of rank 0 or 1, or with dims.
  bool set_known(size_t i, Extents elements, Dims dims, tenon_dtype_t dtype = TENON_I64);

  // Called by the driver after the importer: unknown attributes, refused nodes, missing results.
  bool finish(bool result);
  std::vector<Item>& outputs() { return outputs_; }

 private:
  void fail_unknown(size_t i, std::string_view what);
  const Extents* known_now(size_t i);
  bool stopped(size_t i, std::string_view what);
  const AttributeProto* find(std::string_view name);
  const AttributeProto* typed(std::string_view name, int32_t type, std::string_view kind);

  Importer* importer_;
  const NodeProto& node_;
  std::string_view op_;
  int64_t version_;
  std::vector<Item*> inputs_;
  std::vector<Item> outputs_;
  std::vector<std::string_view> read_attributes_;
  bool ok_ = true;
  bool waits_ = false;  // for values; what else it needs is noted at once
};

// Inputs whose values decide sizes, axes or counts.
struct ByValue {
  bool may_ask = false;  // given: whether the host answers what is asked about sizes
  std::vector<std::pair<std::string, std::string>> inputs;  // name, what needs it and where
  std::string only;  // why no one graph serves all values; empty where one does
  // A condition on sizes that decides the graph, as a dim of the loaded one that is 1 or 0; invalid
  // where there is none.
  Dim truth = Dim::invalid();
  std::string why_truth;
};

// Imports a whole model into a new graph. On failure returns false and adds to `problems`.
// by_value: null if the caller cannot load again; with by_value->only the graph has the inputs and
// the outputs of the model and nothing that could run.
bool import_model(const ModelProto& model, const Source& source, Problems* problems, Graph* out,
                  ByValue* by_value = nullptr);

}  // namespace tenon::onnx

#endif  // FRONTENDS_ONNX_GRAPH_IMPORTER_H_
