// A scalar program as nodes: the decomposition of element-wise composites.
#ifndef TENON_CPP_DECOMPOSE_HPP_
#define TENON_CPP_DECOMPOSE_HPP_

#include <bit>

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

// Writes a scalar program as nodes, one per distinct instruction. f16 and bf16 are computed in f32,
// as abi/scalar.h requires.
inline Status decompose_program(Builder& b, const Node& node, std::span<const uint32_t> words,
                                std::span<const tenon_attr_def_t> attrs,
                                tenon_value_t* out_results) {
  struct Made {
    uint32_t word;
    uint64_t immediate;
    Value x, y, z;
    Value value;
  };
  std::vector<Made> made;
  std::vector<Value> stack;
  const Value like = node.operand(0);
  const auto compute_type = [](tenon_dtype_t d) {
    return d == TENON_F16 || d == TENON_BF16 ? static_cast<tenon_dtype_t>(TENON_F32) : d;
  };
  tenon_dtype_t work = compute_type(like.dtype());
  const auto pop = [&] {
    const Value v = stack.back();
    stack.pop_back();
    return v;
  };
  for (size_t i = 0; i < words.size() && b.status().ok(); ++i) {
    const uint32_t opcode = words[i] & 0xff, a = words[i] >> 8;
    Made one = {words[i], 0, {}, {}, {}, {}};
    if (opcode == TENON_S_WORK) {
      work = compute_type(node.operand(a).dtype());
      continue;
    }
    if (opcode == TENON_S_PICK) {
      stack.push_back(stack[stack.size() - 1 - a]);
      continue;
    }
    if (opcode == TENON_S_CONST_F || opcode == TENON_S_CONST_I) {
      one.immediate = words[i + 1] | static_cast<uint64_t>(words[i + 2]) << 32;
      i += 2;
    }
    if (opcode >= TENON_S_SELECT) one.z = pop();
    if (opcode >= TENON_S_ADD) one.y = pop();
    if (opcode >= TENON_S_NEG) one.x = pop();
    for (const Made& m : made) {
      if (m.word == one.word && m.immediate == one.immediate && m.x == one.x && m.y == one.y &&
          m.z == one.z) {
        one.value = m.value;
      }
    }
    if (one.value.valid()) {
      stack.push_back(one.value);
      continue;
    }
    switch (opcode) {
      case TENON_S_ARG:
        one.value = b.convert(node.operand(a), compute_type(node.operand(a).dtype()));
        break;
      case TENON_S_CONST_F:
        one.value = b.full(work, like.dims(), std::bit_cast<double>(one.immediate));
        break;
      case TENON_S_CONST_I:
        one.value = b.splat(b.scalar_int(work, static_cast<int64_t>(one.immediate)), like.dims());
        break;
      case TENON_S_ATTR: {
        const tenon_attr_t* attr = node.attr(view(attrs[a].name));
        if (attr == nullptr) return TENON_INTERNAL;
        one.value = attr->kind == TENON_ATTR_F64
                        ? b.full(work, like.dims(), attr->u.f)
                        : b.splat(b.scalar_int(work, attr->u.i), like.dims());
        break;
      }
      case TENON_S_CMP:
        one.value = b.build("compare", {one.x, one.y}, {{"direction", a}});
        break;
      case TENON_S_CONVERT:
        one.value = b.convert(one.x, static_cast<tenon_dtype_t>(a));
        break;
      case TENON_S_CONVERT_RESULT:
        one.value = b.convert(one.x, node.result(a).dtype());
        break;
      case TENON_S_SELECT:
        one.value = b.build("select", {one.x, one.y, one.z});
        break;
      default: {
        const std::string_view name = op_of_instruction(opcode);
        if (name.empty()) {
          return fail(TENON_INTERNAL, cat("Scalar instruction ", opcode, " of ", node.op(),
                                          " has no op of its own."));
        }
        // Integers need no rounding: `floor` and similar ops are for floats only.
        const bool rounds = opcode >= TENON_S_FLOOR && opcode <= TENON_S_ROUND_EVEN;
        one.value = opcode >= TENON_S_ADD                ? b.build(name, {one.x, one.y})
                    : rounds && !is_float(one.x.dtype()) ? one.x
                                                         : b.build(name, {one.x});
      }
    }
    made.push_back(one);
    stack.push_back(one.value);
  }
  for (uint32_t i = 0; i < stack.size() && b.status().ok(); ++i) {
    stack[i] = b.convert(stack[i], node.result(i).dtype());
  }
  return b.finish(out_results, stack);
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
    // Read only now: building a node ends the life of views.
    const tenon_node_view_t view = node.view();
    std::vector<Attr> attrs;
    for (uint32_t i = 0; i < view.attr_count; ++i) attrs.push_back(Attr(view.attrs[i]));
    return b.build_node(node.op(), parts, attrs);
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
