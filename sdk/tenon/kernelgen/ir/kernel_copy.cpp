#include "tenon/kernelgen/ir/kernel_copy.h"

namespace tenon::kernelgen {

void KernelCopy::lead(const std::vector<uint32_t>& list) {
  to_.lead = axes(list);
}

uint32_t KernelCopy::axis(uint32_t a) {
  if (auto it = axes_.find(a); it != axes_.end()) return it->second;
  const uint32_t id = to_.pool.add_axis(axis_extent(a));
  return axes_[a] = id;
}

std::vector<uint32_t> KernelCopy::axes(const std::vector<uint32_t>& list) {
  std::vector<uint32_t> out;
  for (uint32_t a : list) out.push_back(axis(a));
  return out;
}

void KernelCopy::form(uint32_t b, Buffer* out) {
  const Buffer& src = from_.buffers[b];
  out->offset = expr(src.offset);
  for (ExprId e : src.dims) out->dims.push_back(expr(e));
  for (ExprId e : src.strides) out->strides.push_back(expr(e));
}

uint32_t KernelCopy::buffer(uint32_t b) {
  if (auto it = buffers_.find(b); it != buffers_.end()) return it->second;
  const Buffer& src = from_.buffers[b];
  Buffer dst{src.type, {}, {}, kNone, src.role, -1, src.panel};
  form(b, &dst);
  const uint32_t id = static_cast<uint32_t>(to_.buffers.size());
  to_.buffers.push_back(dst);
  to_.buffer_origin.push_back(b);
  return buffers_[b] = id;
}

ExprId KernelCopy::new_extent(Extent info, uint32_t origin) {
  to_.extent_origin.push_back(origin);
  return to_.pool.extent(to_.pool.add_extent(info));
}

ExprId KernelCopy::extent(uint32_t ordinal) {
  if (!extents_.count(ordinal)) {
    extents_[ordinal] = static_cast<uint32_t>(to_.pool.extents().size());
    new_extent(from_.pool.extents()[ordinal], ordinal);
  }
  return to_.pool.extent(extents_[ordinal]);
}

std::vector<ExprId> KernelCopy::index(uint32_t, std::span<const ExprId> index) {
  std::vector<ExprId> out;
  for (ExprId e : index) out.push_back(expr(e));
  return out;
}

ExprId KernelCopy::expr(ExprId e) {
  if (e == kNone) return kNone;
  if (auto it = memo_.find(e); it != memo_.end()) return it->second;
  const Expr& x = from_.pool.at(e);
  const std::span<const ExprId> args = from_.pool.args(e);
  ExprId r = kNone;
  switch (x.kind) {
    case X::kConst:
      r = is_float(x.type) ? to_.pool.number(from_.pool.number_value(e), x.type)
                           : to_.pool.integer(x.bits, x.type);
      break;
    case X::kExtent:
      r = extent(x.ref);
      break;
    case X::kAxis:
      r = to_.pool.axis(axis(x.ref));
      break;
    case X::kState:
      r = to_.pool.state(x.ref, x.type);
      break;
    case X::kLoad: {
      const ExprId guard = expr(args[0]), other = expr(args[1]);
      const std::vector<ExprId> at = index(x.ref, args.subspan(2));
      r = to_.pool.load(buffer(x.ref), x.type, at, guard, other);
      break;
    }
    case X::kOp:
      r = operation(x, args);
  }
  return memo_[e] = r;
}

ExprId KernelCopy::operation(const Expr& x, std::span<const ExprId> args) {
  std::vector<ExprId> copied;
  for (ExprId a : args) copied.push_back(expr(a));
  if (x.op == TENON_S_CONVERT || x.op == kRound || x.op == TENON_S_CONVERT_WRAP)
    return to_.pool.convert(copied[0], x.type, x.op);
  if (x.op == TENON_S_BITCAST_RESULT) return to_.pool.bitcast(copied[0], x.type);
  return to_.pool.op(x.op, copied, x.ref);
}

void KernelCopy::stage(const Stage& s) {
  Stage d;
  d.kind = s.kind;
  d.from_end = s.from_end;
  d.panel = s.panel;
  d.origins = s.origins;
  d.note = s.note;
  d.space = axes(s.space);
  d.reduce = axes(s.reduce);
  d.fill = axes(s.fill);
  d.a = expr(s.a);
  d.b = expr(s.b);
  const auto copy = [&](const std::vector<ExprId>& from, std::vector<ExprId>* to) {
    for (ExprId e : from) to->push_back(expr(e));
  };
  copy(s.value, &d.value);
  copy(s.init, &d.init);
  copy(s.step, &d.step);
  copy(s.merge, &d.merge);
  copy(s.final, &d.final);
  for (const View& v : s.store) {
    View w{buffer(v.buffer), {}, expr(v.guard)};
    w.index = index(v.buffer, v.index);
    d.store.push_back(w);
  }
  to_.stages.push_back(std::move(d));
}

}  // namespace tenon::kernelgen
