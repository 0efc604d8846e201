// Checks that a scalar program is well-formed: operands and attributes exist, the stack never
// underflows, types agree, and one value per result is left. Types are tracked for each element
// type of the first operand.
#include <fmt/format.h>

#include <span>

#include "core/base/errors/failure.h"
#include "core/base/str.h"
#include "core/ir/dtype.h"
#include "core/op/registry.h"

namespace tenon::op {
namespace {

constexpr uint16_t kUnknown = 0xffff;  // the element type of a result
constexpr size_t kStackMax = 64;

// Narrow storage types are computed in a wider type.
uint16_t working(uint16_t dtype) {
  switch (dtype) {
    case TENON_F16:
    case TENON_BF16:
    case TENON_F8E4M3FN:
    case TENON_F8E5M2:
      return TENON_F32;
    case TENON_I4:
      return TENON_I8;
    case TENON_U4:
      return TENON_U8;
    default:
      return dtype;
  }
}

class Checker {
 public:
  // partial: the program of a derivative, which leaves one value and may read results.
  Checker(const tenon_op_def_t& def, uint16_t first, const tenon_partial_t* partial)
      : def_(def),
        words_(partial != nullptr ? std::span(partial->scalar, partial->scalar_words)
                                  : std::span(def.scalar, def.scalar_words)),
        is_partial_(partial != nullptr) {
    for (uint32_t i = 0; i < def.operand_count; ++i) {
      const tenon_operand_def_t& o = def.operands[i];
      const bool follows =
          i == 0 || (o.dtype_group != 0 && o.dtype_group == def.operands[0].dtype_group);
      uint16_t d = first;
      if (!follows) {
        d = 1;
        while (d + 1u < elements::kDtypeEnd && !(o.dtypes >> d & 1)) ++d;
      }
      types_.push_back(working(d));
    }
    work_ = types_.empty() ? kUnknown : types_[0];
  }

  Status run() {
    for (uint32_t at = 0; at < words_.size();) {
      const uint32_t word = words_[at];
      const bool wide = (word & 255) == TENON_S_CONST_F || (word & 255) == TENON_S_CONST_I;
      if (wide && words_.size() - at < 3) return bad(at, "a constant is cut");
      if (const char* why = step(word & 255, word >> 8)) return bad(at, why);
      if (stack_.size() > kStackMax) return bad(at, "the stack is deeper than 64");
      at += wide ? 3 : 1;
    }
    const size_t wanted = is_partial_ ? 1 : results();
    if (stack_.size() != wanted) {
      return bad(static_cast<uint32_t>(words_.size()),
                 is_partial_ ? fmt::format("it leaves {} values and not one", stack_.size())
                             : fmt::format("it leaves {} values; the op has {} results",
                                           stack_.size(), wanted));
    }
    return {};
  }

 private:
  Status bad(uint32_t at, std::string_view why) {
    return error(TENON_INVALID_ARGUMENT, "T0320", "op {}: word {} of {}: {}",
                 quoted(from_abi_str(def_.name)), at,
                 is_partial_ ? "a partial derivative" : "the scalar program", why);
  }
  uint32_t results() const { return std::max<uint32_t>(def_.result_count, 1); }
  bool pop(uint16_t* out) {
    if (stack_.empty()) return false;
    *out = stack_.back();
    stack_.pop_back();
    return true;
  }
  static bool same(uint16_t a, uint16_t b) { return a == b || a == kUnknown || b == kUnknown; }
  bool number_attr(uint32_t a) const {
    return a < def_.attr_count &&
           (def_.attrs[a].kind == TENON_ATTR_I64 || def_.attrs[a].kind == TENON_ATTR_F64);
  }

  // Null if all is well, else what is wrong.
  const char* step(uint32_t op, uint32_t a) {
    uint16_t x, y, z;
    if (op == TENON_S_ARG || op == TENON_S_WORK) {
      if (a >= types_.size()) return "no such operand";
      if (op == TENON_S_ARG)
        stack_.push_back(types_[a]);
      else
        work_ = types_[a];
      return nullptr;
    }
    if (op == TENON_S_RESULT && is_partial_) {
      if (a >= results()) return "no such result";
      stack_.push_back(kUnknown);
      return nullptr;
    }
    if (op >= TENON_S_CONST_F && op <= TENON_S_CONST_MAX) {
      if (op == TENON_S_ATTR && !number_attr(a))
        return "the attribute does not exist or is not a number";
      if (op == TENON_S_PICK) {
        if (a >= stack_.size()) return "the stack is too short";
        stack_.push_back(stack_[stack_.size() - 1 - a]);
      } else {
        stack_.push_back(work_);
      }
      return nullptr;
    }
    if (op >= TENON_S_NEG && op <= TENON_S_CONVERT_WRAP) {
      if (!pop(&x)) return "the stack is too short";
      if (op == TENON_S_CONVERT && !ir::dtype_valid(static_cast<tenon_dtype_t>(a)))
        return "no such element type";
      if (op > TENON_S_CONVERT && a >= std::max<uint32_t>(def_.result_count, 1))
        return "no such result";
      if (op == TENON_S_IS_NAN)
        x = TENON_PRED;
      else if (op == TENON_S_CONVERT)
        x = static_cast<uint16_t>(a);
      else if (op > TENON_S_CONVERT)
        x = kUnknown;
      else if (op == TENON_S_ABS && ir::dtype_is_complex(x))
        x = x == TENON_C64 ? TENON_F32 : TENON_F64;
      stack_.push_back(x);
      return nullptr;
    }
    if (op >= TENON_S_ADD && op <= TENON_S_CMP_ATTR) {
      if (!pop(&y) || !pop(&x)) return "the stack is too short";
      if (!same(x, y)) return "the two sides have different element types";
      if (op == TENON_S_CMP && a > TENON_CMP_GE) return "no such comparison";
      if (op == TENON_S_CMP_ATTR &&
          (a >= def_.attr_count || def_.attrs[a].kind != TENON_ATTR_I64)) {
        return "the attribute does not exist or is not an integer";
      }
      stack_.push_back(op >= TENON_S_CMP ? static_cast<uint16_t>(TENON_PRED)
                       : x == kUnknown   ? y
                                         : x);
      return nullptr;
    }
    if (op == TENON_S_SELECT) {
      if (!pop(&y) || !pop(&x) || !pop(&z)) return "the stack is too short";
      if (!same(x, y) || !same(z, TENON_PRED))
        return "select takes a predicate and two values of one element type";
      stack_.push_back(x == kUnknown ? y : x);
      return nullptr;
    }
    return "no such instruction";
  }

  const tenon_op_def_t& def_;
  const std::span<const uint32_t> words_;
  const bool is_partial_;
  std::vector<uint16_t> types_, stack_;
  uint16_t work_;
};

}  // namespace

Status check_scalar(const tenon_op_def_t& def, const tenon_partial_t* partial) {
  for (uint16_t d = 1; d < elements::kDtypeEnd; ++d) {
    const bool taken =
        def.operand_count == 0 ? d == TENON_F32 : (def.operands[0].dtypes >> d & 1) != 0;
    // Complex numbers have a meaning of their own.
    if (def.decompose_complex != nullptr && ir::dtype_is_complex(d)) continue;
    if (taken) TENON_RETURN_IF_ERROR(Checker(def, d, partial).run());
  }
  return {};
}

}  // namespace tenon::op
