// A scalar program as nodes: the decomposition of element-wise composites, and what derivatives of
// element-wise ops are built from.
#ifndef TENON_CPP_DECOMPOSE_HPP_
#define TENON_CPP_DECOMPOSE_HPP_

#include <bit>
#include <limits>
#include <vector>

#include "tenon/abi/ops.h"
#include "tenon/cpp/graph.hpp"
#include "tenon/cpp/instructions.hpp"

namespace tenon::inline sdk {

namespace detail {

// The op whose scalar instruction is `opcode`; empty for leaves and conversions.
constexpr std::string_view op_of_instruction(uint32_t opcode) {
  if (opcode == TENON_S_SHR_A) return "shr_arith";
  if (opcode == TENON_S_SHR_L) return "shr_logical";
  const bool converts = opcode >= TENON_S_CONVERT && opcode <= TENON_S_CONVERT_WRAP;
  return converts || opcode > TENON_S_SHR_L ? "" : instructions::name(opcode);
}

// The type in which a scalar program computes: f16 and bf16 are computed in f32, as abi/scalar.h
// requires.
constexpr tenon_dtype_t compute_type(tenon_dtype_t d) {
  return d == TENON_F16 || d == TENON_BF16 ? static_cast<tenon_dtype_t>(TENON_F32) : d;
}

}  // namespace detail

// A scalar program on the operands of a node: its distinct instructions as steps, each of which
// becomes a node when its value is asked for.
class ScalarNodes {
 public:
  struct Step {
    uint32_t opcode, a;
    uint64_t immediate;
    int x, y, z;         // operands: steps before this one, or -1
    tenon_dtype_t work;  // the working type
    Value value;         // of a step that was built
    bool same_as(const Step& other) const {
      return opcode == other.opcode && a == other.a && immediate == other.immediate &&
             x == other.x && y == other.y && z == other.z && work == other.work;
    }
  };

  // `op` declares the node. `words` is its program, or one with the same operands and attributes.
  ScalarNodes(Builder& builder, const Node& node, const tenon_op_def_t& op,
              std::span<const uint32_t> words)
      : b_(builder), node_(node), op_(op), dims_(node.result().dims()) {
    read(words);
  }

  const std::vector<Step>& steps() const { return steps_; }
  // The steps that the program leaves, one per result.
  const std::vector<int>& results() const { return results_; }
  const Dims& dims() const { return dims_; }
  // Uses a value for a step in place of its node.
  void set(int step, Value value) { steps_[static_cast<size_t>(step)].value = value; }
  // The value of a step, in its own element type.
  Value value(int step) {
    if (step < 0) return {};
    Step& s = steps_[static_cast<size_t>(step)];
    if (!s.value.valid()) {
      const Value made = build(s);
      steps_[static_cast<size_t>(step)].value = made;
      return made;
    }
    return s.value;
  }

 private:
  void read(std::span<const uint32_t> words) {
    std::vector<int> stack;
    tenon_dtype_t work = detail::compute_type(node_.operand(0).dtype());
    const auto pop = [&] {
      const int top = stack.back();
      stack.pop_back();
      return top;
    };
    for (size_t i = 0; i < words.size(); ++i) {
      const uint32_t opcode = words[i] & 0xff, a = words[i] >> 8;
      if (opcode == TENON_S_WORK) {
        work = detail::compute_type(node_.operand(a).dtype());
        continue;
      }
      if (opcode == TENON_S_PICK) {
        stack.push_back(stack[stack.size() - 1 - a]);
        continue;
      }
      Step one = {opcode, a, 0, -1, -1, -1, work, {}};
      if (opcode == TENON_S_CONST_F || opcode == TENON_S_CONST_I) {
        one.immediate = words[i + 1] | static_cast<uint64_t>(words[i + 2]) << 32;
        i += 2;
      }
      if (opcode >= TENON_S_SELECT) one.z = pop();
      if (opcode >= TENON_S_ADD) one.y = pop();
      if (opcode >= TENON_S_NEG) one.x = pop();
      stack.push_back(place_of(one));
    }
    results_ = stack;
  }
  int place_of(const Step& one) {
    for (size_t i = 0; i < steps_.size(); ++i) {
      if (steps_[i].same_as(one)) return static_cast<int>(i);
    }
    steps_.push_back(one);
    return static_cast<int>(steps_.size() - 1);
  }
  const tenon_attr_t* attr_of(uint32_t ordinal) const {
    return node_.attr(view(tenon_op_attr(&op_, ordinal)->name));
  }
  Value number(const Step& s) {
    if (s.opcode == TENON_S_CONST_F)
      return b_.full(s.work, dims_, std::bit_cast<double>(s.immediate));
    if (s.opcode == TENON_S_CONST_I)
      return b_.splat(b_.scalar_int(s.work, static_cast<int64_t>(s.immediate)), dims_);
    if (s.opcode == TENON_S_CONST_MIN || s.opcode == TENON_S_CONST_MAX) {
      if (!is_float(s.work)) return unknown(s);
      const double most = s.work == TENON_F64 ? std::numeric_limits<double>::max()
                                              : std::numeric_limits<float>::max();
      return b_.full(s.work, dims_, s.opcode == TENON_S_CONST_MAX ? most : -most);
    }
    const tenon_attr_t* attr = attr_of(s.a);
    if (attr == nullptr) return unknown(s);
    return attr->kind == TENON_ATTR_F64 ? b_.full(s.work, dims_, attr->u.f)
                                        : b_.splat(b_.scalar_int(s.work, attr->u.i), dims_);
  }
  Value unknown(const Step& s) {
    b_.note(fail(TENON_INTERNAL, cat("Scalar instruction ", s.opcode, " of ", node_.op(),
                                     " has no op of its own.")));
    return {};
  }
  Value build(const Step& s) {
    const Value x = value(s.x), y = value(s.y), z = value(s.z);
    switch (s.opcode) {
      case TENON_S_ARG:
        return b_.convert(node_.operand(s.a), detail::compute_type(node_.operand(s.a).dtype()));
      case TENON_S_RESULT:
        return b_.convert(node_.result(s.a), detail::compute_type(node_.result(s.a).dtype()));
      case TENON_S_CONST_F:
      case TENON_S_CONST_I:
      case TENON_S_CONST_MIN:
      case TENON_S_CONST_MAX:
      case TENON_S_ATTR:
        return number(s);
      case TENON_S_CMP:
        return b_.build("compare", {x, y}, {{"direction", s.a}});
      case TENON_S_CMP_ATTR:
        return b_.build("compare", {x, y}, {{"direction", attr_of(s.a)->u.i}});
      case TENON_S_CONVERT:
        return b_.convert(x, static_cast<tenon_dtype_t>(s.a));
      case TENON_S_CONVERT_RESULT:
        return b_.convert(x, node_.result(s.a).dtype());
      case TENON_S_SELECT:
        return b_.build("select", {x, y, z});
      default:
        return build_by_name(s, x, y);
    }
  }
  Value build_by_name(const Step& s, Value x, Value y) {
    const std::string_view name = detail::op_of_instruction(s.opcode);
    if (name.empty()) return unknown(s);
    if (s.opcode >= TENON_S_ADD) return b_.build(name, {x, y});
    // Integers need no rounding: `floor` and similar ops are for floats only.
    const bool rounds = s.opcode >= TENON_S_FLOOR && s.opcode <= TENON_S_ROUND_EVEN;
    return rounds && !is_float(x.dtype()) ? x : b_.build(name, {x});
  }

  Builder& b_;
  const Node node_;
  const tenon_op_def_t& op_;
  const Dims dims_;
  std::vector<Step> steps_;
  std::vector<int> results_;
};

namespace detail {

// Writes a scalar program as nodes, one per distinct instruction.
inline Status decompose_program(Builder& b, const Node& node, const tenon_op_def_t& op,
                                std::span<const uint32_t> words, tenon_value_t* out_results) {
  ScalarNodes nodes(b, node, op, words);
  // In the order of the program: text forms of decompositions depend on it.
  for (size_t i = 0; i < nodes.steps().size(); ++i) (void)nodes.value(static_cast<int>(i));
  std::vector<Value> results;
  for (const int step : nodes.results()) {
    const auto at = static_cast<uint32_t>(results.size());
    results.push_back(b.convert(nodes.value(step), node.result(at).dtype()));
  }
  return b.finish(out_results, results);
}

}  // namespace detail

// `decompose_complex` of an op that treats the parts of complex numbers alike, as all do that move
// elements, and sums: complex(op(real parts), op(imaginary parts)). Operands that are not complex
// go into both.
inline Status by_parts(Builder& b, const Node& node, tenon_value_t* out_results) {
  const std::vector<Value> operands = node.operands();
  const auto on = [&](std::string_view part) {
    std::vector<Value> parts;
    for (Value v : operands) parts.push_back(v && is_complex(v.dtype()) ? b.build(part, {v}) : v);
    return b.build_node(node.op(), parts, attributes_of(node));
  };
  const Node re = on("real"), im = on("imag");
  std::vector<Value> results;
  for (uint32_t i = 0; i < node.result_count() && b.status().ok(); ++i) {
    results.push_back(is_complex(node.result(i).dtype())
                          ? b.build("complex", {re.result(i), im.result(i)})
                          : re.result(i));
  }
  return b.finish(out_results, results);
}

}  // namespace tenon::inline sdk

#endif
