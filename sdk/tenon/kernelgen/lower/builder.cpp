#include "tenon/kernelgen/lower/builder.h"

#include <algorithm>
#include <limits>

namespace tenon::kernelgen {
namespace {

constexpr uint32_t kNoOrigin = ~0u;

DType default_acc(DType t) {
  if (t == TENON_F16 || t == TENON_BF16) return TENON_F32;
  return t;
}

double float_top() {
  return std::numeric_limits<double>::infinity();
}

ExprId least(Pool& p, DType t) {
  if (is_float(t)) return p.number(-float_top(), t);
  if (!is_signed(t)) return p.integer(0, t);
  return p.integer(size_of(t) == 8 ? INT64_MIN : -(int64_t{1} << (size_of(t) * 8 - 1)), t);
}

ExprId greatest(Pool& p, DType t) {
  if (is_float(t)) return p.number(float_top(), t);
  if (t == TENON_PRED) return p.boolean(true);
  const int bits = static_cast<int>(size_of(t)) * 8;
  if (!is_signed(t)) return p.integer(-1, t);
  return p.integer(bits == 64 ? INT64_MAX : (int64_t{1} << (bits - 1)) - 1, t);
}

ExprId identity(Pool& p, Fold fold, DType t) {
  switch (fold) {
    case Fold::kSum:
    case Fold::kOr:
      return p.number(0, t);
    case Fold::kProd:
      return p.number(1, t);
    case Fold::kAnd:
      return is_integer(t) ? p.integer(-1, t) : p.boolean(true);
    case Fold::kMax:
    case Fold::kArgMax:
      return least(p, t);
    default:
      return greatest(p, t);
  }
}

std::vector<ExprId> row_major(Pool& p, const std::vector<ExprId>& dims) {
  std::vector<ExprId> strides(dims.size());
  ExprId s = p.integer(1);
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = s;
    s = p.mul(s, dims[i]);
  }
  return strides;
}

}  // namespace

Tensor Builder::fail(std::string why) {
  if (why_.empty()) why_ = std::move(why);
  return {};
}

ExprId Builder::extent(Extent info) {
  return kernel_.pool.extent(kernel_.pool.add_extent(info));
}

Tensor Builder::add_buffer(DType type, std::vector<ExprId> dims, Role role) {
  if (size_of(type) == 0)
    return fail("kernelgen has no elements of type " + std::string(name_of(type)));
  Tensor t{static_cast<uint32_t>(kernel_.buffers.size()), type, dims};
  std::vector<ExprId> strides = row_major(kernel_.pool, dims);
  kernel_.buffers.push_back({type, std::move(dims), std::move(strides), kNone, role, -1});
  return t;
}

Tensor Builder::input(DType type, std::vector<ExprId> dims, std::vector<ExprId> strides,
                      ExprId offset) {
  Tensor t = add_buffer(type, std::move(dims), Role::kIn);
  if (t.valid() && !strides.empty()) kernel_.buffers.back().strides = std::move(strides);
  if (t.valid()) kernel_.buffers.back().offset = offset;
  return t;
}

Tensor Builder::constant(DType type, std::vector<ExprId> dims) {
  return add_buffer(type, std::move(dims), Role::kConstant);
}

void Builder::output(const Tensor& t) {
  if (!t.valid()) return;
  if (kernel_.buffers[t.buffer].role == Role::kTemp) kernel_.buffers[t.buffer].role = Role::kOut;
}

Stage& Builder::add_stage(StageKind kind) {
  Stage& s = kernel_.stages.emplace_back();
  s.kind = kind;
  if (origin_ != kNoOrigin) s.origins.push_back(origin_);
  return s;
}

void Builder::append(Stage s) {
  Stage& added = add_stage(s.kind);
  s.origins = added.origins;
  added = std::move(s);
}

// Axes of extent 1 are the constant 0 and never appear in a stage.
std::vector<ExprId> Builder::fresh_axes(const std::vector<ExprId>& dims,
                                        std::vector<uint32_t>* ids) {
  std::vector<ExprId> axes;
  for (ExprId d : dims) {
    if (pool().is_const(d, 1)) {
      axes.push_back(pool().integer(0));
      continue;
    }
    ids->push_back(pool().add_axis(d));
    axes.push_back(pool().axis(ids->back()));
  }
  return axes;
}

// Element-wise stages of one shape share their axes, so that a chain of them is inlined without
// renaming. inline_maps gives every remaining stage its own axes.
std::vector<ExprId> Builder::shared_axes(const std::vector<ExprId>& dims,
                                         std::vector<uint32_t>* ids) {
  auto [it, fresh] = shapes_.try_emplace(dims);
  if (fresh) it->second.axes = fresh_axes(dims, &it->second.ids);
  *ids = it->second.ids;
  return it->second.axes;
}

ExprId Builder::load(const Tensor& t, std::span<const ExprId> index, ExprId guard, ExprId other) {
  return pool().load(t.buffer, t.type, index, guard, other);
}

ExprId Builder::widened(ExprId x, DType acc) {
  return pool().convert(x, acc);
}

std::vector<Tensor> Builder::map(std::span<const uint32_t> program,
                                 std::span<const Tensor> operands,
                                 std::span<const ScalarAttr> attrs,
                                 std::span<const DType> results) {
  std::vector<Tensor> out(results.size());
  if (operands.empty()) {
    fail("an element-wise op without operands has no shape");
    return out;
  }
  for (const Tensor& t : operands) {
    if (!t.valid()) return out;
    if (t.rank() != operands[0].rank()) {
      fail("operands of an element-wise op differ in rank");
      return out;
    }
  }
  std::vector<uint32_t> ids;
  const std::vector<ExprId> axes = shared_axes(operands[0].dims, &ids);
  std::vector<ExprId> args, values;
  for (const Tensor& t : operands) args.push_back(load(t, axes));
  std::string why;
  if (!append_scalar_program(pool(), program, args, attrs, results, &values, &why)) {
    fail(why);
    return out;
  }
  for (size_t i = 0; i < results.size(); ++i)
    out[i] = add_buffer(results[i], operands[0].dims, Role::kTemp);
  if (!ok()) return std::vector<Tensor>(results.size());
  Stage& s = add_stage(StageKind::kMap);
  s.space = ids;
  s.value = values;
  for (const Tensor& t : out) s.store.push_back({t.buffer, axes, kNone});
  return out;
}

Tensor Builder::map(DType type, std::vector<ExprId> dims, const Body& body) {
  if (!ok()) return {};
  std::vector<uint32_t> ids;
  const std::vector<ExprId> axes = fresh_axes(dims, &ids);
  const ExprId value = body(axes);
  if (!ok()) return {};
  if (pool().type(value) != type) return fail("a body has another type than its tensor");
  Tensor t = add_buffer(type, std::move(dims), Role::kTemp);
  if (!t.valid()) return t;
  Stage& s = add_stage(StageKind::kMap);
  s.space = ids;
  s.value = {value};
  s.store = {{t.buffer, axes, kNone}};
  return t;
}

// ---- Data movement ----

Tensor Builder::broadcast(const Tensor& t, std::vector<ExprId> dims,
                          std::span<const uint32_t> dim_of_operand) {
  if (!t.valid()) return {};
  if (dim_of_operand.size() != t.rank())
    return fail("broadcast maps another number of dims than its operand has");
  return map(t.type, std::move(dims), [&](std::span<const ExprId> axes) {
    std::vector<ExprId> index;
    for (size_t i = 0; i < t.rank(); ++i) {
      index.push_back(pool().is_const(t.dims[i], 1) ? pool().integer(0) : axes[dim_of_operand[i]]);
    }
    return load(t, index);
  });
}

Tensor Builder::transpose(const Tensor& t, std::span<const uint32_t> permutation) {
  if (!t.valid()) return {};
  if (permutation.size() != t.rank())
    return fail("transpose permutes another number of dims than its operand has");
  std::vector<ExprId> dims;
  for (uint32_t p : permutation) dims.push_back(t.dims[p]);
  return map(t.type, dims, [&](std::span<const ExprId> axes) {
    std::vector<ExprId> index(t.rank());
    for (size_t i = 0; i < permutation.size(); ++i) index[permutation[i]] = axes[i];
    return load(t, index);
  });
}

// Dims are matched from the right in groups of equal products, so that most reshapes keep plain
// axes. Within a group the index is computed from one linear number.
std::vector<ExprId> relabel(Pool& p, std::span<const ExprId> from, std::span<const ExprId> at,
                            std::span<const ExprId> to) {
  std::vector<ExprId> index(to.size(), p.integer(0));
  size_t i = to.size(), j = from.size();
  while (i > 0 || j > 0) {
    const size_t i1 = i, j1 = j;
    ExprId a = p.integer(1), b = p.integer(1);
    do {
      // Extend the side whose product is smaller; if the sizes are not comparable, extend both.
      const bool behind_a = p.range(a).hi < p.range(b).lo, behind_b = p.range(b).hi < p.range(a).lo;
      const bool take_a = i > 0 && (!behind_b || j == 0);
      const bool take_b = j > 0 && (!behind_a || i == 0);
      if (take_a) a = p.mul(a, to[--i]);
      if (take_b && (!take_a || a != b)) b = p.mul(b, from[--j]);
      if (!take_a && !take_b) break;
    } while (a != b && (i > 0 || j > 0));
    ExprId linear = p.integer(0);
    for (size_t d = j; d < j1; ++d) linear = p.add(p.mul(linear, from[d]), at[d]);
    ExprId inner = p.integer(1);
    for (size_t d = i1; d-- > i;) {
      ExprId x = p.floordiv(linear, inner);
      if (d > i) x = p.mod(x, to[d]);
      index[d] = x;
      inner = p.mul(inner, to[d]);
    }
  }
  return index;
}

Tensor Builder::reshape(const Tensor& t, std::vector<ExprId> dims) {
  if (!t.valid()) return {};
  const std::vector<ExprId> to = dims;
  Tensor r = map(t.type, std::move(dims), [&](std::span<const ExprId> axes) {
    return load(t, relabel(pool(), to, axes, t.dims));
  });
  if (r.valid()) kernel_.stages.back().relabels = true;
  return r;
}

Tensor Builder::slice(const Tensor& t, std::span<const ExprId> start, std::span<const int64_t> step,
                      std::vector<ExprId> dims) {
  if (!t.valid()) return {};
  if (start.size() != t.rank() || step.size() != t.rank() || dims.size() != t.rank()) {
    return fail("slice has bounds for another number of dims than its operand has");
  }
  return map(t.type, std::move(dims), [&](std::span<const ExprId> axes) {
    std::vector<ExprId> index;
    for (size_t i = 0; i < axes.size(); ++i) {
      index.push_back(pool().add(start[i], pool().mul(axes[i], pool().integer(step[i]))));
    }
    return load(t, index);
  });
}

Tensor Builder::pad(const Tensor& t, const Tensor& value, std::span<const int64_t> low,
                    std::span<const int64_t> interior, std::vector<ExprId> dims) {
  if (!t.valid() || !value.valid()) return {};
  if (value.rank() != 0 || value.type != t.type)
    return fail("pad needs one element of its operand's type");
  Pool& p = pool();
  return map(t.type, std::move(dims), [&](std::span<const ExprId> axes) {
    std::vector<ExprId> index;
    ExprId guard = kNone;
    for (size_t i = 0; i < axes.size(); ++i) {
      const int64_t gap = interior.empty() ? 1 : interior[i] + 1;
      ExprId x = p.sub(axes[i], p.integer(low[i]));
      guard = p.both(guard, p.cmp(TENON_CMP_GE, x, p.integer(0)));
      if (gap > 1)
        guard = p.both(guard, p.cmp(TENON_CMP_EQ, p.mod(x, p.integer(gap)), p.integer(0)));
      x = p.floordiv(x, p.integer(gap));
      guard = p.both(guard, p.cmp(TENON_CMP_LT, x, t.dims[i]));
      index.push_back(x);
    }
    return load(t, index, guard, load(value, {}));
  });
}

Tensor Builder::concat(std::span<const Tensor> parts, uint32_t axis) {
  if (parts.empty()) return fail("concat needs an operand");
  for (const Tensor& t : parts) {
    if (!t.valid()) return {};
    if (t.rank() != parts[0].rank() || t.type != parts[0].type)
      return fail("concat of tensors of different rank or type");
  }
  // Joined as a tree: one expression that nests every part would be too deep for recursive walks.
  constexpr size_t kWidth = 32;
  if (parts.size() > kWidth) {
    std::vector<Tensor> joined;
    for (size_t i = 0; i < parts.size(); i += kWidth) {
      const auto chunk = parts.subspan(i, std::min(kWidth, parts.size() - i));
      joined.push_back(chunk.size() == 1 ? chunk[0] : concat(chunk, axis));
    }
    return concat(joined, axis);
  }
  Pool& p = pool();
  std::vector<ExprId> dims = parts[0].dims;
  std::vector<ExprId> begin;
  ExprId total = p.integer(0);
  for (const Tensor& t : parts) {
    begin.push_back(total);
    total = p.add(total, t.dims[axis]);
  }
  dims[axis] = total;
  return map(parts[0].type, std::move(dims), [&](std::span<const ExprId> axes) {
    ExprId value = kNone;
    for (size_t i = parts.size(); i-- > 0;) {
      std::vector<ExprId> index(axes.begin(), axes.end());
      index[axis] = p.sub(axes[axis], begin[i]);
      const ExprId end = p.add(begin[i], parts[i].dims[axis]);
      const ExprId guard =
          p.both(p.cmp(TENON_CMP_LE, begin[i], axes[axis]), p.cmp(TENON_CMP_LT, axes[axis], end));
      value = load(parts[i], index, guard, value);
    }
    return value;
  });
}

Tensor Builder::reverse(const Tensor& t, std::span<const uint32_t> dims) {
  if (!t.valid()) return {};
  return map(t.type, t.dims, [&](std::span<const ExprId> axes) {
    std::vector<ExprId> index(axes.begin(), axes.end());
    for (uint32_t d : dims)
      index[d] = pool().sub(pool().sub(t.dims[d], pool().integer(1)), axes[d]);
    return load(t, index);
  });
}

Tensor Builder::iota(DType type, std::vector<ExprId> dims, uint32_t axis) {
  return map(type, std::move(dims), [&](std::span<const ExprId> axes) {
    if (type != TENON_F16 && type != TENON_BF16) return pool().convert(axes[axis], type);
    return pool().convert(pool().convert(axes[axis], TENON_F32), type, kRound);
  });
}

Tensor Builder::fill(DType type, std::vector<ExprId> dims, double value) {
  return map(type, std::move(dims),
             [&](std::span<const ExprId>) { return pool().number(value, type); });
}

Tensor Builder::convert(const Tensor& t, DType to) {
  if (!t.valid()) return {};
  return map(to, t.dims, [&](std::span<const ExprId> axes) {
    const ExprId x = load(t, axes);
    const bool via = (t.type == TENON_F16 || t.type == TENON_BF16) && to != TENON_F32;
    return pool().convert(via ? pool().convert(x, TENON_F32) : x, to);
  });
}

Tensor Builder::take(const Tensor& t, const Tensor& indices, uint32_t axis, Outside outside) {
  if (!t.valid() || !indices.valid()) return {};
  if (!is_integer(indices.type)) return fail("take needs integer indices");
  Pool& p = pool();
  std::vector<ExprId> dims(t.dims.begin(), t.dims.begin() + axis);
  dims.insert(dims.end(), indices.dims.begin(), indices.dims.end());
  dims.insert(dims.end(), t.dims.begin() + axis + 1, t.dims.end());
  return map(t.type, std::move(dims), [&](std::span<const ExprId> axes) {
    const size_t n = indices.rank();
    ExprId at = p.convert(load(indices, axes.subspan(axis, n)), TENON_I64);
    std::vector<ExprId> index(axes.begin(), axes.begin() + axis);
    ExprId guard = kNone;
    if (outside == Outside::kClip) {
      at = p.max(p.integer(0), p.min(at, p.sub(t.dims[axis], p.integer(1))));
    } else if (outside == Outside::kFill) {
      guard = p.both(p.cmp(TENON_CMP_GE, at, p.integer(0)), p.cmp(TENON_CMP_LT, at, t.dims[axis]));
    }
    index.push_back(at);
    index.insert(index.end(), axes.begin() + axis + n, axes.end());
    return load(t, index, guard);
  });
}

// ---- Reductions ----

bool Builder::fold_parts(Fold fold, DType acc, DType out, ExprId x, ExprId position, Stage* s) {
  Pool& p = pool();
  const ExprId a = p.state(0, acc);
  if (fold != Fold::kArgMax && fold != Fold::kArgMin) {
    static constexpr uint16_t kCodes[] = {TENON_S_ADD, TENON_S_MUL, TENON_S_MAX,
                                          TENON_S_MIN, TENON_S_AND, TENON_S_OR};
    const uint16_t code = kCodes[static_cast<int>(fold)];
    s->init = {identity(p, fold, acc)};
    s->step = {p.op(code, {a, x})};
    s->merge = {p.op(code, {a, p.state(1, acc)})};
    const bool half = out == TENON_F16 || out == TENON_BF16;
    s->final = {p.convert(a, out, half ? kRound : TENON_S_CONVERT)};
    return true;
  }
  if (!is_integer(out)) return false;
  const bool max = fold == Fold::kArgMax;
  // Whether the second is better than the first: greater, or NaN against a number, or equal and
  // earlier.
  auto better = [&](ExprId v0, ExprId i0, ExprId v1, ExprId i1) {
    ExprId yes = p.cmp(max ? TENON_CMP_GT : TENON_CMP_LT, v1, v0);
    ExprId same = p.cmp(TENON_CMP_EQ, v1, v0);
    if (is_float(acc)) {
      const ExprId n0 = p.op(TENON_S_IS_NAN, {v0}), n1 = p.op(TENON_S_IS_NAN, {v1});
      yes = p.op(TENON_S_OR, {yes, p.op(TENON_S_AND, {n1, p.op(TENON_S_NOT, {n0})})});
      same = p.op(TENON_S_OR, {same, p.op(TENON_S_AND, {n0, n1})});
    }
    return p.op(TENON_S_OR, {yes, p.op(TENON_S_AND, {same, p.cmp(TENON_CMP_LT, i1, i0)})});
  };
  const ExprId i = p.state(1, out);
  const ExprId at = p.convert(position, out);
  s->init = {identity(p, fold, acc), greatest(p, out)};
  const ExprId b = better(a, i, x, at);
  s->step = {p.op(TENON_S_SELECT, {b, x, a}), p.op(TENON_S_SELECT, {b, at, i})};
  const ExprId a1 = p.state(2, acc), i1 = p.state(3, out);
  const ExprId m = better(a, i, a1, i1);
  s->merge = {p.op(TENON_S_SELECT, {m, a1, a}), p.op(TENON_S_SELECT, {m, i1, i})};
  s->final = {i};
  return true;
}

Tensor Builder::reduce(const Tensor& t, std::span<const uint32_t> dims, Fold fold, DType acc,
                       DType out) {
  if (!t.valid()) return {};
  Pool& p = pool();
  if (acc == TENON_DTYPE_NONE) acc = default_acc(t.type);
  if (out == TENON_DTYPE_NONE) out = t.type;
  Stage s;
  s.kind = StageKind::kReduce;
  std::vector<ExprId> index(t.rank()), store, out_dims;
  ExprId position = p.integer(0);
  for (uint32_t d = 0; d < t.rank(); ++d) {
    const bool reduced = std::find(dims.begin(), dims.end(), d) != dims.end();
    index[d] = fresh_axes({t.dims[d]}, reduced ? &s.reduce : &s.space)[0];
    if (reduced) {
      position = p.add(p.mul(position, t.dims[d]), index[d]);
    } else {
      store.push_back(index[d]);
      out_dims.push_back(t.dims[d]);
    }
  }
  if (!fold_parts(fold, acc, out, widened(load(t, index), acc), position, &s)) {
    return fail("an arg reduction needs an integer result type");
  }
  Tensor r = add_buffer(out, out_dims, Role::kTemp);
  if (!r.valid()) return r;
  s.store = {{r.buffer, store, kNone}};
  Stage& added = add_stage(s.kind);
  s.origins = added.origins;
  added = std::move(s);
  return r;
}

// If a window has more places than the input has elements, the loop runs over the elements instead:
// most of the window's places see only padding.
Builder::Tap Builder::add_tap(const WindowDim& w, ExprId out, ExprId extent,
                              std::vector<uint32_t>* reduce) {
  Pool& p = pool();
  const ExprId begin = p.sub(p.mul(out, p.integer(w.stride)), p.integer(w.pad_low));
  const std::optional<int64_t> elements = p.value(extent);
  if (elements && *elements < w.size && w.dilation == 1 && w.base_dilation <= 1) {
    const ExprId at = fresh_axes({extent}, reduce)[0], place = p.sub(at, begin);
    return {at, p.both(p.cmp(TENON_CMP_GE, place, p.integer(0)),
                       p.cmp(TENON_CMP_LT, place, p.integer(w.size)))};
  }
  const ExprId place = fresh_axes({p.integer(w.size)}, reduce)[0];
  ExprId at = p.add(begin, p.mul(place, p.integer(w.dilation)));
  ExprId guard = p.cmp(TENON_CMP_GE, at, p.integer(0));
  if (w.base_dilation > 1) {
    guard = p.both(guard, p.cmp(TENON_CMP_EQ, p.mod(at, p.integer(w.base_dilation)), p.integer(0)));
    at = p.floordiv(at, p.integer(w.base_dilation));
  }
  return {at, p.both(guard, p.cmp(TENON_CMP_LT, at, extent))};
}

Tensor Builder::reduce_window(const Tensor& t, std::span<const WindowDim> window, Fold fold,
                              std::vector<ExprId> dims, DType acc, DType out) {
  if (!t.valid()) return {};
  if (window.size() != t.rank() || dims.size() != t.rank())
    return fail("reduce_window needs one window per dim");
  if (fold == Fold::kArgMax || fold == Fold::kArgMin)
    return fail("reduce_window computes no positions");
  Pool& p = pool();
  if (acc == TENON_DTYPE_NONE) acc = default_acc(t.type);
  if (out == TENON_DTYPE_NONE) out = t.type;
  Stage s;
  s.kind = StageKind::kReduce;
  const std::vector<ExprId> axes = fresh_axes(dims, &s.space);
  std::vector<ExprId> index;
  ExprId guard = kNone;
  for (size_t d = 0; d < t.rank(); ++d) {
    const Tap tap = add_tap(window[d], axes[d], t.dims[d], &s.reduce);
    guard = p.both(guard, tap.guard);
    index.push_back(tap.at);
  }
  const ExprId x = widened(load(t, index, guard, identity(p, fold, t.type)), acc);
  if (!fold_parts(fold, acc, out, x, kNone, &s))
    return fail("an arg reduction needs an integer result type");
  Tensor r = add_buffer(out, dims, Role::kTemp);
  if (!r.valid()) return r;
  s.store = {{r.buffer, axes, kNone}};
  Stage& added = add_stage(s.kind);
  s.origins = added.origins;
  added = std::move(s);
  return r;
}

std::vector<Tensor> Builder::window_argmax(const Tensor& t, std::span<const WindowDim> window,
                                           std::vector<ExprId> dims, DType index) {
  if (!t.valid()) return {Tensor{}, Tensor{}};
  Pool& p = pool();
  const DType acc = default_acc(t.type);
  Stage s;
  s.kind = StageKind::kReduce;
  const std::vector<ExprId> axes = fresh_axes(dims, &s.space);
  std::vector<ExprId> at;
  ExprId guard = kNone, place = p.integer(0);
  for (size_t d = 0; d < window.size(); ++d) {
    const Tap tap = add_tap(window[d], axes[d], t.dims[d], &s.reduce);
    guard = p.both(guard, tap.guard);
    at.push_back(tap.at);
    place = p.add(p.mul(place, t.dims[d]), tap.at);
  }
  // A position beyond all others loses to every element, like the initial state.
  const ExprId nowhere = p.integer(size_of(index) == 8 ? INT64_MAX : INT32_MAX);
  if (guard != kNone && !p.is_const(guard)) place = p.op(TENON_S_SELECT, {guard, place, nowhere});
  const ExprId x = widened(load(t, at, guard, identity(p, Fold::kMax, t.type)), acc);
  if (!fold_parts(Fold::kArgMax, acc, index, x, place, &s)) {
    fail("positions need an integer type");
    return {Tensor{}, Tensor{}};
  }
  const ExprId none = p.convert(nowhere, index), found = p.state(1, index);
  const bool half = t.type == TENON_F16 || t.type == TENON_BF16;
  s.final = {p.convert(p.state(0, acc), t.type, half ? kRound : TENON_S_CONVERT),
             p.op(TENON_S_SELECT, {p.cmp(TENON_CMP_EQ, found, none), p.integer(-1, index), found})};
  std::vector<Tensor> out{add_buffer(t.type, dims, Role::kTemp),
                          add_buffer(index, dims, Role::kTemp)};
  if (!ok()) return {Tensor{}, Tensor{}};
  for (const Tensor& r : out) s.store.push_back({r.buffer, axes, kNone});
  append(std::move(s));
  return out;
}

// ---- In order ----

Tensor Builder::attention(
    const Tensor& q, const Tensor& k, const Tensor& v, int64_t group,
    const std::function<ExprId(ExprId product, std::span<const ExprId> place)>& score,
    const std::function<ExprId(ExprId mean, ExprId sum)>& final) {
  if (!q.valid() || !k.valid() || !v.valid()) return {};
  if (q.type != TENON_F32 || k.type != TENON_F32 || v.type != TENON_F32)
    return fail("attention in one pass is computed in f32");
  Pool& p = pool();
  Stage s;
  s.kind = StageKind::kAttention;
  const std::vector<ExprId> outer = fresh_axes({q.dims[0], q.dims[1]}, &s.space);
  // These axes have a loop whatever their extent.
  auto own = [&](ExprId extent, std::vector<uint32_t>* list) {
    list->push_back(p.add_axis(extent));
    return p.axis(list->back());
  };
  const ExprId i = own(q.dims[2], &s.space), e = own(v.dims[3], &s.space);
  const ExprId j = own(k.dims[2], &s.reduce), d = own(q.dims[3], &s.fill);
  const ExprId head = group == 1 ? outer[1] : p.floordiv(outer[1], p.integer(group));
  const ExprId at_q[] = {outer[0], outer[1], i, d}, at_k[] = {outer[0], head, j, d},
               at_v[] = {outer[0], head, j, e};
  const ExprId place[] = {outer[0], outer[1], i, j}, to[] = {outer[0], outer[1], i, e};
  s.a = load(q, at_q);
  s.b = load(k, at_k);
  s.value = {load(v, at_v)};
  s.step = {score(p.state(0, TENON_F32), place)};
  s.final = {p.state(0, TENON_F32)};
  if (final) s.final = {final(s.final[0], p.state(1, TENON_F32))};
  Tensor r = add_buffer(TENON_F32, {q.dims[0], q.dims[1], q.dims[2], v.dims[3]}, Role::kTemp);
  if (!ok()) return {};
  s.store = {{r.buffer, {to, to + 4}, kNone}};
  append(std::move(s));
  return r;
}

Tensor Builder::scan(const Tensor& t, uint32_t dim, Fold fold, bool reverse, bool exclusive,
                     DType acc, DType out) {
  if (!t.valid()) return {};
  Pool& p = pool();
  if (acc == TENON_DTYPE_NONE) acc = default_acc(t.type);
  if (p.is_const(t.dims[dim], 1)) {
    // One step: the element, or for exclusive the identity.
    return map(out, t.dims, [&](std::span<const ExprId> axes) {
      return exclusive ? identity(p, fold, out) : p.convert(widened(load(t, axes), acc), out);
    });
  }
  Stage s;
  s.kind = StageKind::kScan;
  std::vector<ExprId> index(t.rank());
  for (uint32_t d = 0; d < t.rank(); ++d)
    index[d] = fresh_axes({t.dims[d]}, d == dim ? &s.reduce : &s.space)[0];
  if (reverse) index[dim] = p.sub(p.sub(t.dims[dim], p.integer(1)), index[dim]);
  static constexpr uint16_t kCodes[] = {TENON_S_ADD, TENON_S_MUL, TENON_S_MAX,
                                        TENON_S_MIN, TENON_S_AND, TENON_S_OR};
  const uint16_t code = kCodes[static_cast<int>(fold)];
  s.init = {identity(p, fold, acc)};
  s.step = {p.op(code, {p.state(0, acc), widened(load(t, index), acc)})};
  const bool half = out == TENON_F16 || out == TENON_BF16;
  s.final = {p.convert(p.state(exclusive ? 0 : 1, acc), out, half ? kRound : TENON_S_CONVERT)};
  Tensor r = add_buffer(out, t.dims, Role::kTemp);
  if (!r.valid()) return r;
  s.store = {{r.buffer, index, kNone}};
  append(std::move(s));
  return r;
}

Tensor Builder::scatter(const Tensor& x, std::vector<ExprId> updates,
                        const std::function<Place(std::span<const ExprId>)>& place,
                        const std::function<ExprId(std::span<const ExprId>, ExprId old)>& combine) {
  if (!x.valid()) return {};
  Pool& p = pool();
  Stage s;
  s.kind = StageKind::kScatter;
  std::vector<uint32_t> ids;
  const std::vector<ExprId> axes = fresh_axes(updates, &ids);
  const Place to = place(axes);
  if (!ok()) return {};
  Tensor r = add_buffer(x.type, x.dims, Role::kTemp);
  if (!r.valid()) return r;
  // A dim of x that an axis of the updates covers completely: its points are independent.
  std::vector<ExprId> from(x.rank(), kNone);
  for (size_t d = 0; d < x.rank(); ++d) {
    const Expr& e = p.at(to.index[d]);
    const bool whole = e.kind == X::kAxis && p.axes()[e.ref].extent == x.dims[d] &&
                       std::find(s.space.begin(), s.space.end(), e.ref) == s.space.end();
    if (whole) s.space.push_back(e.ref);
    from[d] = whole ? to.index[d] : fresh_axes({x.dims[d]}, &s.fill)[0];
  }
  for (uint32_t a : ids) {
    if (std::find(s.space.begin(), s.space.end(), a) == s.space.end()) s.reduce.push_back(a);
  }
  s.init = {load(x, from)};
  s.step = {combine(axes, p.state(0, x.type))};
  s.store = {{r.buffer, from, kNone}, {r.buffer, to.index, to.guard}};
  append(std::move(s));
  return r;
}

// An unsigned number that sorts like x.
ExprId Builder::sort_key(ExprId x, bool descending) {
  Pool& p = pool();
  DType t = p.type(x);
  if (t == TENON_F16 || t == TENON_BF16) x = p.convert(x, t = TENON_F32);
  if (t == TENON_I8 || t == TENON_I16 || t == TENON_PRED) x = p.convert(x, t = TENON_I32);
  if (t == TENON_U8 || t == TENON_U16) x = p.convert(x, t = TENON_U32);
  const DType key = size_of(t) == 8 ? TENON_U64 : TENON_U32;
  const ExprId top =
      p.integer(static_cast<int64_t>(size_of(t) == 8 ? 1ull << 63 : 1ull << 31), key);
  ExprId k = t == key ? x : p.bitcast(x, key);
  if (is_float(t)) {
    const ExprId negative = p.cmp(TENON_CMP_LT, x, p.number(0, t));
    k = p.op(TENON_S_SELECT, {negative, p.op(TENON_S_NOT, {k}), p.op(TENON_S_OR, {k, top})});
    k = p.op(TENON_S_SELECT, {p.cmp(TENON_CMP_EQ, x, p.number(0, t)), top, k});
    k = p.op(TENON_S_SELECT,
             {p.op(TENON_S_IS_NAN, {x}), p.op(TENON_S_NOT, {p.integer(0, key)}), k});
  } else if (is_signed(t)) {
    k = p.op(TENON_S_XOR, {k, top});
  }
  return descending ? p.op(TENON_S_NOT, {k}) : k;
}

std::vector<Tensor> Builder::sort(std::span<const Tensor> operands, uint32_t dim, size_t keys,
                                  std::span<const int64_t> descending, ExprId length, DType index) {
  Pool& p = pool();
  std::vector<Tensor> out;
  for (const Tensor& t : operands) {
    if (!t.valid()) return {};
  }
  const Tensor& first = operands[0];
  Stage s;
  s.kind = StageKind::kSort;
  std::vector<ExprId> from(first.rank()), to(first.rank()), dims = first.dims;
  dims[dim] = length;
  for (uint32_t d = 0; d < first.rank(); ++d) {
    if (d != dim) {
      from[d] = to[d] = fresh_axes({first.dims[d]}, &s.space)[0];
      continue;
    }
    // Elsewhere axes of extent 1 are constants; here one element is already sorted.
    if (p.is_const(first.dims[d], 1) || p.is_const(length, 1)) {
      s.reduce.push_back(p.add_axis(first.dims[d]));
      s.fill.push_back(p.add_axis(length));
      from[d] = p.axis(s.reduce[0]);
      to[d] = p.axis(s.fill[0]);
      continue;
    }
    from[d] = fresh_axes({first.dims[d]}, &s.reduce)[0];
    to[d] = fresh_axes({length}, &s.fill)[0];
  }
  for (size_t k = 0; k < keys; ++k)
    s.step.push_back(
        sort_key(load(operands[k], from), k < descending.size() && descending[k] != 0));
  for (const Tensor& t : operands) {
    s.value.push_back(load(t, from));
    out.push_back(add_buffer(t.type, dims, Role::kTemp));
  }
  if (index != TENON_DTYPE_NONE) {
    s.value.push_back(p.convert(from[dim], index));
    out.push_back(add_buffer(index, dims, Role::kTemp));
  }
  if (!ok()) return {};
  for (const Tensor& r : out) s.store.push_back({r.buffer, to, kNone});
  append(std::move(s));
  return out;
}

// ---- Contractions ----

// The type in which sums of products are kept: the asked one, or one that holds more.
static DType contract_acc(DType asked, DType operand) {
  const DType t = asked == TENON_DTYPE_NONE ? operand : asked;
  if (t == TENON_F16 || t == TENON_BF16) return TENON_F32;
  return is_integer(t) && size_of(t) < 4 ? DType{TENON_I32} : t;
}

Tensor Builder::finish_contract(Stage s, DType out, std::vector<ExprId> dims,
                                std::vector<ExprId> store) {
  Pool& p = pool();
  const DType acc = p.type(s.a);
  Tensor r = add_buffer(out, std::move(dims), Role::kTemp);
  if (!r.valid()) return r;
  const bool half = out == TENON_F16 || out == TENON_BF16;
  auto result = [&](ExprId x) { return p.convert(x, out, half ? kRound : TENON_S_CONVERT); };
  const bool nothing = std::any_of(s.reduce.begin(), s.reduce.end(), [&](uint32_t axis) {
    return p.is_const(p.axes()[axis].extent, 0);
  });
  if (nothing) {
    // A sum of no products. Its operands have no elements, so no strides that could tell their
    // sides apart.
    s.kind = StageKind::kMap;
    s.reduce.clear();
    s.value = {result(p.number(0, acc))};
    s.a = s.b = kNone;
  } else if (s.reduce.empty()) {
    s.kind = StageKind::kMap;
    s.value = {result(p.op(TENON_S_MUL, {s.a, s.b}))};
    s.a = s.b = kNone;
  } else {
    s.final = {result(p.state(0, acc))};
  }
  s.store = {{r.buffer, std::move(store), kNone}};
  Stage& added = add_stage(s.kind);
  s.origins = added.origins;
  added = std::move(s);
  return r;
}

Tensor Builder::dot(const Tensor& a, const Tensor& b, std::span<const uint32_t> batch_a,
                    std::span<const uint32_t> batch_b, std::span<const uint32_t> sum_a,
                    std::span<const uint32_t> sum_b, DType acc, DType out) {
  if (!a.valid() || !b.valid()) return {};
  if (a.type != b.type) return fail("dot of different types");
  if (batch_a.size() != batch_b.size() || sum_a.size() != sum_b.size())
    return fail("dot pairs different numbers of dims");
  acc = contract_acc(acc, a.type);
  if (out == TENON_DTYPE_NONE) out = a.type;
  Stage s;
  s.kind = StageKind::kContract;
  std::vector<ExprId> ia(a.rank(), kNone), ib(b.rank(), kNone), dims, store;
  for (size_t i = 0; i < batch_a.size(); ++i) {
    const ExprId d = a.dims[batch_a[i]];
    ia[batch_a[i]] = ib[batch_b[i]] = fresh_axes({d}, &s.space)[0];
    dims.push_back(d);
    store.push_back(ia[batch_a[i]]);
  }
  for (size_t i = 0; i < sum_a.size(); ++i) {
    ia[sum_a[i]] = ib[sum_b[i]] = fresh_axes({a.dims[sum_a[i]]}, &s.reduce)[0];
  }
  auto free_dims = [&](const Tensor& t, std::vector<ExprId>* index) {
    for (size_t i = 0; i < t.rank(); ++i) {
      if ((*index)[i] != kNone) continue;
      (*index)[i] = fresh_axes({t.dims[i]}, &s.space)[0];
      dims.push_back(t.dims[i]);
      store.push_back((*index)[i]);
    }
  };
  free_dims(a, &ia);
  free_dims(b, &ib);
  s.a = widened(load(a, ia), acc);
  s.b = widened(load(b, ib), acc);
  return finish_contract(std::move(s), out, std::move(dims), std::move(store));
}

Tensor Builder::conv(const Tensor& x, const Tensor& w, const ConvDims& n,
                     std::span<const WindowDim> window, int64_t groups, std::vector<ExprId> dims,
                     DType acc, DType out) {
  if (!x.valid() || !w.valid()) return {};
  if (x.type != w.type) return fail("convolution of different types");
  const size_t spatial = window.size();
  if (n.x_spatial.size() != spatial || n.w_spatial.size() != spatial ||
      n.out_spatial.size() != spatial || dims.size() != x.rank() || x.rank() != spatial + 2 ||
      w.rank() != spatial + 2) {
    return fail("convolution dims do not fit its window");
  }
  Pool& p = pool();
  acc = contract_acc(acc, x.type);
  if (out == TENON_DTYPE_NONE) out = x.type;
  Stage s;
  s.kind = StageKind::kContract;
  const ExprId g_count = p.integer(groups);
  const ExprId out_per_group = p.floordiv(dims[n.out_feature], g_count);
  const ExprId batch = fresh_axes({dims[n.out_batch]}, &s.space)[0];
  const ExprId group = fresh_axes({g_count}, &s.space)[0];
  const ExprId feature = fresh_axes({out_per_group}, &s.space)[0];
  const ExprId in = fresh_axes({w.dims[n.w_in]}, &s.reduce)[0];
  std::vector<ExprId> ix(x.rank()), iw(w.rank()), store(x.rank());
  ix[n.x_batch] = store[n.out_batch] = batch;
  ix[n.x_feature] = p.add(p.mul(group, w.dims[n.w_in]), in);
  iw[n.w_out] = store[n.out_feature] = p.add(p.mul(group, out_per_group), feature);
  iw[n.w_in] = in;
  ExprId guard = kNone;
  for (size_t i = 0; i < spatial; ++i) {
    const WindowDim& v = window[i];
    const ExprId o = fresh_axes({dims[n.out_spatial[i]]}, &s.space)[0];
    const ExprId k = fresh_axes({w.dims[n.w_spatial[i]]}, &s.reduce)[0];
    ExprId at = p.add(p.mul(o, p.integer(v.stride)),
                      p.sub(p.mul(k, p.integer(v.dilation)), p.integer(v.pad_low)));
    guard = p.both(guard, p.cmp(TENON_CMP_GE, at, p.integer(0)));
    if (v.base_dilation > 1) {
      guard =
          p.both(guard, p.cmp(TENON_CMP_EQ, p.mod(at, p.integer(v.base_dilation)), p.integer(0)));
      at = p.floordiv(at, p.integer(v.base_dilation));
    }
    guard = p.both(guard, p.cmp(TENON_CMP_LT, at, x.dims[n.x_spatial[i]]));
    ix[n.x_spatial[i]] = at;
    iw[n.w_spatial[i]] = k;
    store[n.out_spatial[i]] = o;
  }
  s.a = widened(load(w, iw), acc);
  s.b = widened(load(x, ix, guard), acc);
  s.x_channel = static_cast<int32_t>(n.x_feature);
  s.out_channel = static_cast<int32_t>(n.out_feature);
  return finish_contract(std::move(s), out, std::move(dims), std::move(store));
}

}  // namespace tenon::kernelgen
