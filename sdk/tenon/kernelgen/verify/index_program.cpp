#include "tenon/kernelgen/verify/index_program.h"

#include <algorithm>

#include "tenon/cpp/arithmetic.hpp"

namespace tenon::kernelgen {
namespace {

using arithmetic::comparison_holds;
using arithmetic::floor_div;
using arithmetic::floor_mod;

int64_t wrapped(uint16_t op, int64_t a, int64_t b) {
  const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  return static_cast<int64_t>(op == TENON_S_ADD ? x + y : op == TENON_S_SUB ? x - y : x * y);
}

// Whether code of 64-bit integers and predicates says what this operation means.
bool is_index_op(const Pool& pool, ExprId e) {
  const Expr& x = pool.at(e);
  if (x.type != TENON_I64 && x.type != TENON_PRED) return false;
  for (ExprId a : pool.args(e)) {
    if (pool.type(a) != TENON_I64 && pool.type(a) != TENON_PRED) return false;
  }
  switch (x.op) {
    case TENON_S_ADD:
    case TENON_S_SUB:
    case TENON_S_MUL:
    case TENON_S_MIN:
    case TENON_S_MAX:
    case kFloorDiv:
    case kMod:
    case TENON_S_CMP:
    case TENON_S_SELECT:
    case TENON_S_NEG:
      return true;
    default:
      return x.type == TENON_PRED &&
             (x.op == TENON_S_AND || x.op == TENON_S_OR || x.op == TENON_S_NOT);
  }
}

}  // namespace

uint32_t IndexProgram::constant(int64_t number) {
  values_.push_back({number, true});
  return static_cast<uint32_t>(values_.size() - 1);
}

uint32_t IndexProgram::slot(ExprId e) {
  if (const auto known = slots_.find(e); known != slots_.end()) return known->second;
  const Expr x = pool_->at(e);
  uint32_t at = 0;
  if (x.kind == X::kConst) {
    at = constant(x.bits);
  } else if (x.kind == X::kExtent) {
    at = constant(sizes_[x.ref]);
  } else if (x.kind == X::kOp && is_index_op(*pool_, e)) {
    Step step{x.op, x.ref, 0, x.args_count, {}};
    for (uint32_t i = 0; i < x.args_count; ++i) step.args[i] = slot(pool_->arg(e, i));
    at = step.out = constant(0);
    steps_.push_back(step);
  } else {
    values_.emplace_back();
    at = static_cast<uint32_t>(values_.size() - 1);
    if (x.kind == X::kAxis) axes_[x.ref] = at;
  }
  slots_.emplace(e, at);
  return at;
}

void IndexProgram::bind(uint32_t axis, int64_t value) {
  if (const auto at = axes_.find(axis); at != axes_.end()) values_[at->second] = {value, true};
}
void IndexProgram::bind_unknown(uint32_t axis) {
  if (const auto at = axes_.find(axis); at != axes_.end()) values_[at->second] = {};
}

IndexProgram::Value IndexProgram::apply(const Step& step, const Value* a, const Value* b,
                                        const Value* c) {
  if (step.op == TENON_S_SELECT) return a->known ? (a->number != 0 ? *b : *c) : Value{};
  // One operand may decide: false and anything, true or anything.
  if (step.op == TENON_S_AND && ((a->known && a->number == 0) || (b->known && b->number == 0)))
    return {0, true};
  if (step.op == TENON_S_OR && ((a->known && a->number == 1) || (b->known && b->number == 1)))
    return {1, true};
  if (!a->known || (step.count > 1 && !b->known)) return {};
  switch (step.op) {
    case TENON_S_NOT:
      return {a->number == 0 ? 1 : 0, true};
    case TENON_S_NEG:
      return {wrapped(TENON_S_SUB, 0, a->number), true};
    case TENON_S_AND:
      return {a->number & b->number, true};
    case TENON_S_OR:
      return {a->number | b->number, true};
    case TENON_S_MIN:
      return {std::min(a->number, b->number), true};
    case TENON_S_MAX:
      return {std::max(a->number, b->number), true};
    case TENON_S_CMP:
      return {comparison_holds(step.relation, a->number, b->number) ? 1 : 0, true};
    case kFloorDiv:
      return b->number > 0 ? Value{floor_div(a->number, b->number), true} : Value{};
    case kMod:
      if (b->number <= 0) return {};
      return {floor_mod(a->number, b->number), true};
    default:
      return {wrapped(step.op, a->number, b->number), true};
  }
}

void IndexProgram::run() {
  for (const Step& s : steps_)
    values_[s.out] = apply(s, &values_[s.args[0]], &values_[s.args[1]], &values_[s.args[2]]);
}

}  // namespace tenon::kernelgen
