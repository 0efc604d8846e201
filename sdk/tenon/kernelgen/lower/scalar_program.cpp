#include "tenon/kernelgen/lower/scalar_program.h"

#include <bit>
#include <limits>

namespace tenon::kernelgen {
namespace {

bool is_half(DType t) {
  return t == TENON_F16 || t == TENON_BF16;
}

double lowest(DType t) {
  return t == TENON_F64 ? std::numeric_limits<double>::lowest()
                        : std::numeric_limits<float>::lowest();
}

int64_t extreme(DType t, bool max) {
  if (t == TENON_PRED) return max;
  const int bits = static_cast<int>(size_of(t)) * 8;
  if (is_signed(t)) {
    const int64_t top = bits == 64 ? INT64_MAX : (int64_t{1} << (bits - 1)) - 1;
    return max ? top : -top - 1;
  }
  return max ? (bits == 64 ? -1 : (int64_t{1} << bits) - 1) : 0;
}

// A number in the working type, converted as CONVERT does: truncated and saturated, NaN gives 0.
ExprId converted(Pool& pool, double v, DType type) {
  if (is_float(type)) return pool.number(v, type);
  if (v != v) return pool.integer(0, type);
  for (const bool max : {false, true}) {
    const int64_t end = extreme(type, max);
    // The upper end of u64 is stored as -1; as a number it is 2^64.
    const double at = end == -1 && max ? 0x1p64 : static_cast<double>(end);
    if (max ? v >= at : v <= at) return pool.integer(end, type);
  }
  return pool.integer(
      v >= 0x1p63 ? static_cast<int64_t>(static_cast<uint64_t>(v)) : static_cast<int64_t>(v), type);
}

class Reader {
 public:
  Reader(Pool& pool, std::span<const uint32_t> words, std::span<const ExprId> args,
         std::span<const ScalarAttr> attrs, std::span<const DType> results, std::string* why)
      : pool_(pool), words_(words), args_(args), attrs_(attrs), results_(results), why_(why) {}

  bool run(std::vector<ExprId>* values) {
    if (!args_.empty()) work_ = computed(pool_.type(args_[0]));
    // An op without operands works in its result's type.
    if (args_.empty() && !results_.empty()) work_ = computed(results_[0]);
    for (DType t : results_) {
      if (size_of(t) == 0) return bad("kernelgen does not compute " + std::string(name_of(t)));
    }
    for (at_ = 0; at_ < words_.size(); ++at_) {
      if (!step(words_[at_] & 0xff, words_[at_] >> 8)) return false;
    }
    if (stack_.size() != results_.size()) {
      return bad("leaves " + std::to_string(stack_.size()) + " values for " +
                 std::to_string(results_.size()) + " results");
    }
    for (size_t i = 0; i < stack_.size(); ++i) values->push_back(to_result(stack_[i], results_[i]));
    return true;
  }

 private:
  static DType computed(DType t) { return is_half(t) ? TENON_F32 : t; }

  ExprId to_result(ExprId x, DType t) {
    const DType from = pool_.type(x);
    if (from == t) return x;
    return pool_.convert(x, t, is_half(t) && from == TENON_F32 ? kRound : TENON_S_CONVERT);
  }

  bool bad(const std::string& text) {
    *why_ = "scalar program: " + text;
    return false;
  }
  bool push(ExprId e) {
    stack_.push_back(e);
    return true;
  }
  bool need(size_t n) {
    return stack_.size() >= n ||
           bad("word " + std::to_string(at_) + " needs " + std::to_string(n) + " entries");
  }
  ExprId pop() {
    const ExprId e = stack_.back();
    stack_.pop_back();
    return e;
  }
  bool immediate(int64_t* v) {
    if (at_ + 2 >= words_.size()) return bad("ends inside a constant");
    *v = static_cast<int64_t>(uint64_t{words_[at_ + 1]} | uint64_t{words_[at_ + 2]} << 32);
    at_ += 2;
    return true;
  }

  bool leaf(uint32_t op, uint32_t a) {
    int64_t v = 0;
    switch (op) {
      case TENON_S_ARG: {
        if (a >= args_.size()) return bad("names operand " + std::to_string(a));
        const DType t = pool_.type(args_[a]);
        if (size_of(t) == 0) return bad("kernelgen does not compute " + std::string(name_of(t)));
        return push(is_half(t) ? pool_.convert(args_[a], TENON_F32) : args_[a]);
      }
      case TENON_S_CONST_F:
        return immediate(&v) && push(converted(pool_, std::bit_cast<double>(v), work_));
      case TENON_S_CONST_I:
        return immediate(&v) && push(pool_.integer(v, work_));
      case TENON_S_ATTR: {
        if (a >= attrs_.size()) return bad("names attribute " + std::to_string(a));
        const ScalarAttr& at = attrs_[a];
        return push(at.is_float ? converted(pool_, at.f, work_) : pool_.integer(at.i, work_));
      }
      case TENON_S_PICK:
        return need(a + 1) && push(stack_[stack_.size() - 1 - a]);
      case TENON_S_WORK:
        if (a >= args_.size()) return bad("names operand " + std::to_string(a));
        work_ = computed(pool_.type(args_[a]));
        return true;
      case TENON_S_CONST_MIN:
      case TENON_S_CONST_MAX: {
        const bool max = op == TENON_S_CONST_MAX;
        if (is_float(work_)) return push(pool_.number(max ? -lowest(work_) : lowest(work_), work_));
        return push(pool_.integer(extreme(work_, max), work_));
      }
      default:
        return bad("unknown opcode " + std::to_string(op));
    }
  }

  bool conversion(uint32_t op, uint32_t a) {
    if (!need(1)) return false;
    DType to = static_cast<DType>(a);
    if (op != TENON_S_CONVERT) {
      if (a >= results_.size()) return bad("names result " + std::to_string(a));
      to = results_[a];
    }
    if (size_of(to) == 0) return bad("kernelgen does not compute " + std::string(name_of(to)));
    ExprId x = pop();
    if (op == TENON_S_BITCAST_RESULT) {
      // The bits of a half operand are the stored ones, not those of its widened value.
      if (is_half(to) || size_of(pool_.type(x)) != size_of(to)) x = narrow_for_bits(x, to);
      if (size_of(pool_.type(x)) != size_of(to)) return bad("bit cast between widths");
      return push(pool_.bitcast(x, to));
    }
    const DType from = pool_.type(x);
    if (from == to) return push(x);
    const bool wrap = op == TENON_S_CONVERT_WRAP && is_float(from) && is_integer(to);
    return push(pool_.convert(x, to, wrap ? TENON_S_CONVERT_WRAP : TENON_S_CONVERT));
  }

  // x was widened on ARG: return the operand itself.
  ExprId narrow_for_bits(ExprId x, DType to) {
    const Expr& e = pool_.at(x);
    if (e.kind == X::kOp && e.op == TENON_S_CONVERT &&
        size_of(pool_.type(pool_.arg(x, 0))) == size_of(to)) {
      return pool_.arg(x, 0);
    }
    return x;
  }

  bool binary(uint32_t op, uint32_t a) {
    if (!need(2)) return false;
    const ExprId y = pop(), x = pop();
    if (pool_.type(x) != pool_.type(y)) {
      return bad(std::string(name_of_op(static_cast<uint16_t>(op))) + " of " +
                 std::string(name_of(pool_.type(x))) + " and " +
                 std::string(name_of(pool_.type(y))));
    }
    uint32_t relation = 0;
    if (op == TENON_S_CMP) relation = a;
    if (op == TENON_S_CMP_ATTR) {
      if (a >= attrs_.size()) return bad("names attribute " + std::to_string(a));
      relation = static_cast<uint32_t>(attrs_[a].i);
      op = TENON_S_CMP;
    }
    if (relation > TENON_CMP_GE) return bad("unknown comparison " + std::to_string(relation));
    return push(pool_.op(static_cast<uint16_t>(op), {x, y}, relation));
  }

  bool step(uint32_t op, uint32_t a) {
    if (op < TENON_S_NEG) return leaf(op, a);
    if (op >= TENON_S_CONVERT && op <= TENON_S_CONVERT_WRAP) return conversion(op, a);
    if (op <= TENON_S_IS_NAN) {
      if (!need(1)) return false;
      const ExprId x = pop();
      if (op == TENON_S_IS_NAN && !is_float(pool_.type(x))) return push(pool_.boolean(false));
      return push(pool_.op(static_cast<uint16_t>(op), {x}));
    }
    if (op >= TENON_S_ADD && op <= TENON_S_CMP_ATTR) return binary(op, a);
    if (op != TENON_S_SELECT) return bad("unknown opcode " + std::to_string(op));
    if (!need(3)) return false;
    const ExprId y = pop(), x = pop(), p = pop();
    if (pool_.type(p) != TENON_PRED || pool_.type(x) != pool_.type(y))
      return bad("select of unequal types");
    return push(pool_.op(TENON_S_SELECT, {p, x, y}));
  }

  Pool& pool_;
  std::span<const uint32_t> words_;
  std::span<const ExprId> args_;
  std::span<const ScalarAttr> attrs_;
  std::span<const DType> results_;
  std::string* why_;
  std::vector<ExprId> stack_;
  size_t at_ = 0;
  DType work_ = TENON_DTYPE_NONE;
};

}  // namespace

bool append_scalar_program(Pool& pool, std::span<const uint32_t> program,
                           std::span<const ExprId> args, std::span<const ScalarAttr> attrs,
                           std::span<const DType> results, std::vector<ExprId>* values,
                           std::string* why) {
  return Reader(pool, program, args, attrs, results, why).run(values);
}

}  // namespace tenon::kernelgen
