// An If whose branches give values of different ranks or element types, and whose condition is
// known only at run time: the nodes after it are imported once in each branch, up to the end of the
// graph or of the body that it is in. Then no value has two types, and the results of the graph are
// those of the branches.
//
// Which Ifs are forks is known once both branches were imported. The import then begins again, with
// the way to the If noted: the nodes from the beginning of the graph or body down to it, which may
// be calls of functions and Ifs whose condition is known.
#include <fmt/format.h>

#include <algorithm>

#include "frontends/onnx/graph/importer_internal.h"

namespace tenon::onnx {
namespace {

constexpr size_t kMostPaths = 8;

}  // namespace

bool Importer::is_open(const NodeProto& node) {
  if (plan_.forks.empty()) return false;
  path_.push_back(&node);
  const bool open = plan_.forks.contains(path_);
  path_.pop_back();
  return open;
}

// Begins the import again with the If at the end of `path` as a fork. roots: where the graph or
// body begins that it is in.
bool Importer::fork_again(const Path& path, size_t root) {
  bool fresh = false;
  for (size_t length = root + 1; length <= path.size(); ++length)
    fresh |= plan_.forks.emplace(path.begin(), path.begin() + static_cast<int64_t>(length)).second;
  if (!fresh)
    return problems_->add("T0715", "an If could not be imported for each of its branches");
  restart_ = true;
  return false;
}

// Imports nodes of which one leads to a fork; `from` is the first that does. Their scope gets the
// outputs of the graph.
void Importer::run_forked(std::vector<const NodeProto*> order, size_t from,
                          const OpsetVersions& versions, Scope* scope, const Frame* frame,
                          const GraphProto& whole) {
  Rest rest;
  rest.order = std::move(order);
  rest.at = from;
  rest.versions = &versions;
  rest.frame = frame;
  rest.scope = *scope;
  rest.path = path_;
  const GraphProto* const outer_whole = whole_;
  const size_t outer_paths = paths_;
  const Path path = path_;
  whole_ = &whole;
  paths_ = 1;
  std::vector<Value> values;
  const bool done = run_rest(&rest, &values);
  whole_ = outer_whole;
  paths_ = outer_paths;
  path_ = path;
  for (size_t i = 0; i < whole.outputs.size(); ++i) {
    Item* item = new_item();
    if (done) *item = Item::of(values[i]);
    scope->insert_or_assign(whole.outputs[i].name, item);
  }
}

// Imports the nodes and those that follow outside of them, up to the end of the graph. `out` gets
// the graph's outputs.
bool Importer::run_rest(Rest* rest, std::vector<Value>* out) {
  for (;;) {
    path_ = rest->path;
    while (rest->at < rest->order.size()) {
      if (halted()) return false;
      if (cancelled()) return problems_->add("T0001", "the operation was cancelled");
      const NodeProto& node = *rest->order[rest->at++];
      if (is_open(node)) return run_open(node, rest, out);
      run_node(node, *rest->versions, &rest->scope, rest->frame);
    }
    if (halted() || !problems_->empty()) return false;
    if (rest->outer == nullptr) return give_outputs(rest->scope, out);
    for (const auto& [inside, outside] : rest->results) {
      const auto at = rest->scope.find(inside);
      if (at == rest->scope.end() || at->second == nullptr)
        return problems_->add("T0706", fmt::format("nothing defines {}, which a function or a "
                                                   "branch gives",
                                                   quote(inside)));
      rest->outer->scope.try_emplace(outside, at->second);
    }
    Rest outer = std::move(*rest->outer);
    *rest = std::move(outer);
  }
}

bool Importer::give_outputs(const Scope& scope, std::vector<Value>* out) {
  for (const ValueProto& output : whole_->outputs) {
    const auto at = scope.find(output.name);
    if (at == scope.end() || at->second == nullptr)
      return problems_->add("T0706",
                            fmt::format("the output {} is defined by nothing", quote(output.name)));
    if (!resolve(at->second)) return false;
    out->push_back(value_of(at->second));
    if (!builder_->status().ok())
      return add_host_failure(fmt::format("output {}", quote(output.name)));
  }
  return true;
}

// A node that leads to a fork, or is one: its nodes are followed by the rest.
bool Importer::run_open(const NodeProto& node, Rest* rest, std::vector<Value>* out) {
  std::vector<Item*> inputs;
  if (!operands_of(node, rest->scope, &inputs)) return false;
  if (const FunctionProto* function = find_function(model_, node)) {
    Rest inner;
    OpsetVersions versions;
    const Frame callee{&node, function, rest->frame};
    if (!bind_call(*function, node, inputs, &inner.scope) ||
        !read_opsets(function->opsets, &versions, problems_) ||
        !order_nodes(function->nodes, inner.scope, problems_, &inner.order))
      return false;
    inner.versions = &versions;
    inner.frame = &callee;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (!node.outputs[i].empty())
        inner.results.emplace_back(function->outputs[i], node.outputs[i]);
    }
    go_inside(node, rest, &inner);
    return run_rest(&inner, out);
  }
  frame_ = rest->frame;
  scope_ = &rest->scope;
  versions_ = rest->versions;
  locate(node);
  NodeContext n(this, node, rest->versions->of(node.domain), std::move(inputs));
  return run_open_if(n, node, rest, out);
}

void Importer::go_inside(const NodeProto& node, Rest* rest, Rest* inner) {
  inner->path = rest->path;
  inner->path.push_back(&node);
  inner->outer = std::make_unique<Rest>(std::move(*rest));
}

bool Importer::run_open_if(NodeContext& n, const NodeProto& node, Rest* rest,
                           std::vector<Value>* out) {
  const GraphProto *then_branch = n.body_of("then_branch"), *else_branch = n.body_of("else_branch");
  if (!n.ok()) return false;
  const std::optional<bool> known = n.condition(0);
  if (!n.ok()) return false;
  if (known) return run_branch(n, node, *known ? *then_branch : *else_branch, rest, out);
  if (++paths_ > kMostPaths)
    return n.fail("T0714", fmt::format("its branches give values of other types, and what follows "
                                       "it would be compiled more than {} times, once for each way "
                                       "through it and the Ifs before it",
                                       kMostPaths));
  const Value predicate = n.reshape(n.value(0), {});
  materialise_rest(*rest, {then_branch, else_branch});
  if (!n.ok() || !builder_->status().ok()) return n.finish(false);
  const GraphProto* const branches[] = {else_branch, then_branch};
  std::vector<Region> regions(2);
  std::vector<Value> yields[2];
  for (size_t side = 0; side < 2; ++side) {
    if (!run_side(n, node, *branches[side], *rest, &regions[side], &yields[side])) return false;
  }
  if (!same_outputs(n, yields[0], yields[1])) return false;
  const Value operands[] = {predicate};
  const Node made = builder_->build_node("switch", operands, {}, regions);
  if (!builder_->status().ok()) return add_host_failure(node_text(node));
  for (uint32_t i = 0; i < yields[0].size(); ++i) out->push_back(made.result(i));
  return true;
}

// One branch and then the rest.
bool Importer::run_branch(NodeContext& n, const NodeProto& node, const GraphProto& branch,
                          Rest* rest, std::vector<Value>* out) {
  Rest inner;
  if (branch.outputs.size() != node.outputs.size())
    return n.fail("T0709", fmt::format("its branch has {} outputs for its {}",
                                       branch.outputs.size(), node.outputs.size()));
  if (!n.ops_known(branch)) return false;
  Scope own;
  if (!add_initializers(branch, &own)) return false;
  inner.scope = rest->scope;
  for (const auto& [name, item] : own) inner.scope.insert_or_assign(name, item);
  if (!order_nodes(branch.nodes, inner.scope, problems_, &inner.order)) return false;
  inner.versions = rest->versions;
  inner.frame = rest->frame;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (!node.outputs[i].empty())
      inner.results.emplace_back(branch.outputs[i].name, node.outputs[i]);
  }
  go_inside(node, rest, &inner);
  return run_rest(&inner, out);
}

// The same in a region of its own. What is learnt of a value there is not known outside.
bool Importer::run_side(NodeContext& n, const NodeProto& node, const GraphProto& branch,
                        const Rest& rest, Region* region, std::vector<Value>* yields) {
  tenon_region_t id = TENON_NONE;
  if (graph_api().region_begin(graph_api().self, &builder_->raw(), &id) != TENON_OK)
    return add_host_failure(node_text(node));
  const Region outer_region = region_;
  const Builder outer = *builder_;
  const Path path = path_;
  region_ = Region(graph_.get(), id);
  builder_.emplace(graph_.get(), id);
  builder_->set_loc(outer.raw().loc);
  *region = region_;
  std::unordered_map<const Item*, Item*> copies;
  Rest own = copy_of(rest, &copies);
  scope_ = &own.scope;
  versions_ = own.versions;
  frame_ = own.frame;
  bool ok = run_branch(n, node, branch, &own, yields);
  if (ok && (!builder_->status().ok() || !yield(region_, *yields).ok()))
    ok = add_host_failure(node_text(node));
  region_ = outer_region;
  builder_.emplace(outer);
  path_ = path;
  scope_ = &rest.scope;
  versions_ = rest.versions;
  frame_ = rest.frame;
  return ok;
}

Importer::Rest Importer::copy_of(const Rest& rest, std::unordered_map<const Item*, Item*>* copies) {
  Rest out;
  out.order = rest.order;
  out.at = rest.at;
  out.versions = rest.versions;
  out.frame = rest.frame;
  out.results = rest.results;
  out.path = rest.path;
  for (const auto& [name, item] : rest.scope) out.scope.emplace(name, copy_of(item, copies));
  if (rest.outer != nullptr) out.outer = std::make_unique<Rest>(copy_of(*rest.outer, copies));
  return out;
}

Item* Importer::copy_of(Item* item, std::unordered_map<const Item*, Item*>* copies) {
  if (item == nullptr) return nullptr;
  const auto [at, fresh] = copies->try_emplace(item);
  if (!fresh) return at->second;
  Item* const copy = new_item();
  at->second = copy;
  *copy = *item;
  if (symbolic_.contains(item)) symbolic_.insert(copy);
  if (const auto origin = origins_.find(item); origin != origins_.end()) {
    const std::vector<Item*> origins = origin->second;  // of the outer items, which stay
    origins_.emplace(copy, origins);
  }
  return copy;
}

// Builds what the branches and the rest read before the fork, and not in one of its regions.
void Importer::materialise_rest(const Rest& rest, std::initializer_list<const GraphProto*> inner) {
  for (const GraphProto* graph : inner) materialise(*graph, rest.scope);
  for (const Rest* at = &rest; at != nullptr; at = at->outer.get()) {
    for (size_t i = at->at; i < at->order.size(); ++i) {
      for (const Text name : at->order[i]->inputs) materialise(name, at->scope);
      for (const AttributeProto& attribute : at->order[i]->attributes) {
        for (const auto& graph : attribute.graphs) materialise(*graph, at->scope);
      }
    }
    for (const auto& [inside, outside] : at->results) materialise(inside, at->scope);
    if (at->outer == nullptr) {
      for (const ValueProto& output : whole_->outputs) materialise(output.name, at->scope);
    }
  }
}

// The branches of a fork give the outputs of the graph, in one rank and element type each. Where
// the graph is itself a branch, the If that it belongs to becomes a fork, too.
bool Importer::same_outputs(NodeContext& n, const std::vector<Value>& a,
                            const std::vector<Value>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].dtype() == b[i].dtype() && a[i].rank() == b[i].rank()) continue;
    if (roots_.size() > 1 && path_.size() >= roots_.back() &&
        path_[roots_.back() - 1]->op_type == "If") {
      const Path enclosing(path_.begin(), path_.begin() + static_cast<int64_t>(roots_.back()));
      return fork_again(enclosing, roots_[roots_.size() - 2]);
    }
    return n.fail("T0714",
                  fmt::format("with its branches the output {} is {} of rank {} or {} of rank {}, "
                              "and an output has one type",
                              quote(whole_->outputs[i].name), dtype_name(b[i].dtype()), b[i].rank(),
                              dtype_name(a[i].dtype()), a[i].rank()));
  }
  return true;
}

// ---- As importers use them ----

std::optional<bool> NodeContext::condition(size_t i) {
  if (const auto known = computed(i)) return *known != 0;
  const Extents* truth = ok_ ? known_now(i) : nullptr;
  if (truth == nullptr || truth->size() != 1 || !(*truth)[0].symbolic) return {};
  const auto decided = importer_->decide(*(*truth)[0].symbolic,
                                         fmt::format("the condition of {}", node_text(node_)));
  if (!decided && importer_->question_) {
    ok_ = false;  // not an error: the node is imported once the sizes are known
    waits_ = true;
  }
  return decided;
}

bool NodeContext::follows_from_inputs(size_t i, std::string_view what) {
  return has(i) &&
         importer_->note_inputs(inputs_[i], fmt::format("{} of {}", what, node_text(node_)));
}

bool NodeContext::fork() {
  ok_ = false;
  waits_ = true;
  return importer_->fork_again(importer_->path_, importer_->roots_.back());
}

}  // namespace tenon::onnx
