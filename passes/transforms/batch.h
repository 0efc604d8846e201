// Makes a graph of one sample work on several at once.
#pragma once
#include <tenon/cpp/rules.hpp>

#include "rules.h"

namespace tenon::passes {

// A value of the new body, and whether it has a dim 0 with one entry for each sample.
struct Sampled {
  Value value;
  bool is_batched = false;
};

// Copies nodes into another region, where some values have a further dim 0. Values that all samples
// share stay as they are.
class Batching {
 public:
  Batching(Dim size, const PassContext& context) : size_(size), context_(context) {}
  // The samples are the processes of a mesh: ops that these compute together become what all of
  // them compute. Other ops treat processes like samples.
  void stack_ranks() { stacks_ranks_ = true; }

  void set(Value old, Sampled now) { now_[old.id()] = now; }
  // The same for sizes: a symbol, and those that nodes of the old body define.
  void set(tenon_symbol_t old, Dim now) { symbols_[old] = now; }
  void set_symbols(const Node& old, const Node& made);
  Dim now(Dim d) const;
  Dims now(Dims dims) const;
  // The value that replaces one of the old body; constants replace themselves.
  Sampled at(Value old) const;
  // The same with the dim of samples: a value that all share is broadcast.
  Value batched(Builder& b, Value old) const { return batched(b, at(old)); }
  Value batched(Builder& b, const Sampled& now) const;

  Status nodes(Builder& b, const std::vector<Node>& nodes);
  // Whether `nodes` failed because a size inside would differ from sample to sample.
  bool sizes_differ() const { return sizes_differ_; }

 private:
  Status refuse_sizes(const Node& node, std::string_view why) {
    sizes_differ_ = true;
    return refuse(node, "T0411", why);
  }
  Status node(Builder& b, const Node& node);
  Status copy(Builder& b, const Node& node);
  Status stack(Builder& b, const Node& node, const tenon_op_def_t& op);
  Status element_wise(Builder& b, const Node& node);
  Status by_roles(Builder& b, const Node& node, const tenon_op_def_t& op);
  // By the op's rule `batch`. is_done: false where the rule does not support these operands.
  Status by_rule(Builder& b, const Node& node, const tenon_op_def_t& op, bool* is_done);
  Status by_decomposition(Builder& b, const Node& node, const tenon_op_def_t& op);
  // One sample after another.
  Status by_loop(Builder& b, const Node& node);
  bool fits_roles(const Node& node, const tenon_op_def_t& op) const;
  bool depends(const Node& node) const;
  // ---- Symbols of nodes of the old body, in terms of those that the new body's nodes define ----
  bool mentions_old_symbols(const Node& node) const;
  std::vector<Attr> attributes(const Node& node) const;

  void set_results(const Node& old, const Node& made, bool is_batched);

  // ---- Control flow ----
  Status regions(Builder& b, const Node& node);
  Status scan(Builder& b, const Node& node);
  Status repeat(Builder& b, const Node& node);  // while
  Status branch(Builder& b, const Node& node);  // switch
  Status chosen(Builder& b, const Node& node);
  Status sample_by_sample(Builder& b, const Node& node);
  Status call(Builder& b, const Node& node);
  // The body of a region with these arguments batched, and what it yields.
  Status body(Builder& b, Region old, const std::vector<bool>& flags, Builder* inside,
              std::vector<Sampled>* yields);
  std::vector<bool> carried_flags(const Node& node, Region body, uint32_t carried) const;
  bool yields_batched(Region body, const std::vector<bool>& flags, uint32_t yield) const;
  ValueSet inside_batched(Region body, const std::vector<bool>& flags) const;

  const Dim size_;
  bool sizes_differ_ = false;
  bool stacks_ranks_ = false;
  const PassContext& context_;
  std::unordered_map<tenon_value_t, Sampled> now_;
  std::unordered_map<tenon_symbol_t, Dim> symbols_;
};

}  // namespace tenon::passes
