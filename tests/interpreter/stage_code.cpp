#include "tests/interpreter/stage_code.h"

#include <algorithm>

namespace tenon::interpreter {
namespace {

using kernelgen::Expr;
using kernelgen::Kernel;
using kernelgen::Pool;
using kernelgen::X;

class Maker {
 public:
  Maker(const Kernel& kernel, const CodeRequest& request, StageCode* out, std::string* why)
      : p_(kernel.pool),
        request_(request),
        out_(*out),
        why_(*why),
        known_(p_.size(), kNoReg),
        axis_(p_.axes().size(), kNoReg) {}

  bool run() {
    for (uint32_t a : request_.lead) out_.lead.push_back(new_axis(a, kPerPoint));
    for (size_t d = 0; d < request_.loops.size(); ++d)
      out_.loops.push_back(new_axis(request_.loops[d], level_of_loop(d)));
    innermost_ = level_of_loop(request_.loops.size()) - 1;
    for (ExprId e : request_.results) out_.results.push_back(reg(e));
    for (const kernelgen::View* v : request_.views) {
      CodeView view{v->buffer, v->guard == kNone ? kNoReg : reg(v->guard), {}};
      for (ExprId e : v->index) view.index.push_back(reg(e));
      out_.views.push_back(std::move(view));
    }
    sort_by_level();
    return why_.empty();
  }

 private:
  R new_register(uint32_t level) {
    out_.registers.push_back(Reg{.i = 0});
    level_.push_back(level);
    return static_cast<R>(out_.registers.size() - 1);
  }
  R new_axis(uint32_t axis, uint32_t level) { return axis_[axis] = new_register(level); }

  R reg(ExprId e) {
    if (known_[e] == kNoReg) known_[e] = make(e);
    return known_[e];
  }

  R make(ExprId e) {
    const Expr& x = p_.at(e);
    switch (x.kind) {
      case X::kConst: {
        const R r = new_register(kOnce);
        out_.registers[r] = constant(x.type, x.bits);
        return r;
      }
      case X::kExtent: {
        const R r = new_register(kOnce);
        out_.extents.push_back({x.ref, r});
        return r;
      }
      case X::kAxis:
        if (axis_[x.ref] == kNoReg) refuse("no loop runs along axis i" + std::to_string(x.ref));
        return axis_[x.ref] == kNoReg ? new_axis(x.ref, kOnce) : axis_[x.ref];
      case X::kState: {
        const R r = new_register(innermost_);
        out_.states.push_back({x.ref, r});
        return r;
      }
      case X::kLoad:
        return make_load(e);
      case X::kOp:
        return make_operation_of(e);
    }
    return kNoReg;
  }

  R make_load(ExprId e) {
    Load load;
    const Expr x = p_.at(e);
    const std::span<const ExprId> args = p_.args(e);
    load.buffer = x.ref;
    // A value stored at this lead point, or before it, is available before the loops; a value that
    // the loops store is not.
    uint32_t level =
        request_.stored != nullptr && (*request_.stored)[x.ref] ? innermost_ : kPerPoint;
    auto use = [&](ExprId a) {
      const R r = reg(a);
      level = std::max(level, level_[r]);
      return r;
    };
    if (args[0] != kNone) {
      load.guard = use(args[0]);
      load.other = use(args[1]);
    }
    for (ExprId a : args.subspan(2)) load.index.push_back(use(a));
    out_.loads.push_back(std::move(load));
    Instruction i;
    i.load = true;
    i.a = static_cast<R>(out_.loads.size() - 1);
    return emit(i, level);
  }

  R make_operation_of(ExprId e) {
    const Expr x = p_.at(e);
    const std::span<const ExprId> args = p_.args(e);
    Instruction i;
    uint32_t level = kOnce;
    R* slots[] = {&i.a, &i.b, &i.c};
    for (size_t n = 0; n < args.size() && n < 3; ++n) {
      *slots[n] = reg(args[n]);
      level = std::max(level, level_[*slots[n]]);
    }
    if (!make_operation(x.op, x.ref, x.type, p_.type(args[0]), &i.operation)) {
      refuse("there is no " + std::string(kernelgen::name_of_op(x.op)) + " of " +
             std::string(kernelgen::name_of(x.type)));
    }
    return emit(i, level);
  }

  R emit(Instruction i, uint32_t level) {
    i.dst = new_register(level);
    out_.instructions.push_back(i);
    return i.dst;
  }

  void refuse(std::string reason) {
    if (why_.empty()) why_ = std::move(reason);
  }

  // Sorting is stable, and arguments are never in a deeper loop than their uses, so the order
  // within a level stays valid.
  void sort_by_level() {
    std::vector<Instruction> sorted;
    sorted.reserve(out_.instructions.size());
    for (uint32_t level = 0; level <= innermost_; ++level) {
      out_.levels.push_back(static_cast<uint32_t>(sorted.size()));
      for (const Instruction& i : out_.instructions) {
        if (level_[i.dst] == level) sorted.push_back(i);
      }
    }
    out_.levels.push_back(static_cast<uint32_t>(sorted.size()));
    out_.instructions = std::move(sorted);
  }

  const Pool& p_;
  const CodeRequest& request_;
  StageCode& out_;
  std::string& why_;
  std::vector<R> known_;         // by expression
  std::vector<R> axis_;          // by axis
  std::vector<uint32_t> level_;  // by register
  uint32_t innermost_ = kPerPoint;
};

}  // namespace

bool make_code(const Kernel& kernel, const CodeRequest& request, StageCode* out, std::string* why) {
  *out = {};
  return Maker(kernel, request, out, why).run();
}

}  // namespace tenon::interpreter
