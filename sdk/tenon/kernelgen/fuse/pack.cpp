#include "tenon/kernelgen/fuse/pack.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "tenon/kernelgen/fuse/load_time.h"
#include "tenon/kernelgen/ir/stages.h"
#include "tenon/kernelgen/schedule/contraction.h"

namespace tenon::kernelgen {

int64_t panel_columns(const Target& t, DType acc, int64_t n) {
  if (t.dialect != Dialect::kCpp || size_of(acc) == 0) return 0;
  const int64_t lanes = t.vector_bytes / size_of(acc);
  if (lanes < 2) return 0;
  const int64_t widest = t.registers >= 32 ? 4 : 2;
  if (n <= 0) return widest * lanes;
  const int64_t need = (n + lanes - 1) / lanes;
  if (need <= widest) return need * lanes;
  // Panels of equal width: the fewest vectors in total, and of those the widest.
  int64_t best = widest;
  for (int64_t nr = widest - 1; nr >= 2; --nr) {
    const auto all = [&](int64_t w) { return (need + w - 1) / w * w; };
    // A narrower tile loads more per product, so it must save a tenth.
    if (all(nr) * 10 <= all(best) * 9) best = nr;
  }
  return best * lanes;
}

namespace {

bool has(const std::vector<uint32_t>& v, uint32_t x) {
  return std::find(v.begin(), v.end(), x) != v.end();
}

class Packer {
 public:
  Packer(Kernel& k, const Target& t) : k_(k), p_(k.pool), target_(t) {}

  void run() {
    for (size_t i = 0; i < k_.stages.size(); ++i) {
      if (k_.stages[i].kind == StageKind::kContract && k_.stages[i].panel == 0) i = pack(i);
    }
  }

 private:
  // The stage's column axis, along which its results are adjacent.
  uint32_t column_of(const Stage& s) const {
    uint32_t column = ~0u;
    for (const View& v : s.store) {
      if (v.index.empty() || p_.at(v.index.back()).kind != X::kAxis) return ~0u;
      const uint32_t axis = p_.at(v.index.back()).ref;
      if (column != ~0u && column != axis) return ~0u;
      column = axis;
    }
    return column;
  }

  // Where the stage is afterwards.
  size_t pack(size_t at) {
    const Stage& s = k_.stages[at];
    const uint32_t column = column_of(s);
    if (column == ~0u || !has(s.space, column)) return at;
    const bool is_b = p_.uses_axis(s.b, column), is_a = p_.uses_axis(s.a, column);
    if (is_a == is_b) return at;
    const ExprId operand = is_b ? s.b : s.a, other = is_b ? s.a : s.b;
    const auto n = p_.value(p_.axes()[column].extent);
    const int64_t panel = n && *n > 0 ? panel_columns(target_, p_.type(operand), *n) : 0;
    if (panel == 0 || !is_fixed(k_, operand)) return at;
    for (uint32_t axis : s.space) {
      // Another axis of the operand's own would be a second column.
      if (axis != column && p_.uses_axis(operand, axis) && !p_.uses_axis(other, axis)) return at;
    }
    for (uint32_t axis : s.reduce) {
      const auto extent = p_.value(p_.axes()[axis].extent);
      if (!extent || *extent <= 0 || !p_.uses_axis(operand, axis)) return at;
    }
    if (const auto weights = few_bits(at, operand)) {
      std::vector<Stage> packings;
      const ExprId read = keep_few_bits(s, *weights, column, *n, panel, &packings);
      (is_b ? k_.stages[at].b : k_.stages[at].a) = read;
      k_.stages.insert(k_.stages.begin() + static_cast<std::ptrdiff_t>(at), packings.begin(),
                       packings.end());
      at += packings.size();
      for (const uint32_t buffer : weights->computed) at = drop_unread(buffer, at);
      return at;
    }
    const ExprId narrow = narrow_of(p_, operand);
    const DType acc = p_.type(operand);
    const ExprId narrow_other = narrow_of(p_, other);
    const uint32_t steps = narrow == kNone || narrow_other == kNone
                               ? 1
                               : steps_of(target_, acc, p_.type(narrow), p_.type(narrow_other));
    // bf16 beside f32 is widened in registers, at half of the memory traffic.
    const bool widened =
        steps == 1 && acc == TENON_F32 && narrow != kNone && !many_rows(s, operand);
    const ExprId kept = steps > 1 ? p_.convert(narrow, operand_type(acc, steps, true))
                        : widened ? narrow
                                  : operand;
    const Stage packed = packing(s, kept, column, *n, panel, steps);
    const ExprId load =
        p_.convert(reading(s, kept, column, packed.store[0].buffer, panel, steps), acc);
    (is_b ? k_.stages[at].b : k_.stages[at].a) = load;
    k_.stages.insert(k_.stages.begin() + static_cast<std::ptrdiff_t>(at), packed);
    return at + 1;
  }

  // ---- Weights of few bits ----

  // (q - zero) scale along one axis of the sum, where q is an integer of 4 or 8 bits. Scale and
  // zero are the same for each block of steps.
  struct Weights {
    ExprId q = kNone, zero = kNone, scale = kNone;  // zero may be kNone
    int64_t block = 0;
    bool nibbles = false;
    uint32_t axis = 0;
    std::vector<uint32_t> computed;  // buffers that would hold them in floats
  };

  // The steps along `axis` for which e is the same: 0 where it may change at each.
  int64_t block_of(ExprId e, uint32_t axis) const {
    int64_t block = INT64_MAX;
    std::vector<ExprId> todo = {e};
    while (!todo.empty()) {
      const ExprId at = todo.back();
      todo.pop_back();
      if (at == kNone || !p_.uses_axis(at, axis)) continue;
      const Expr& x = p_.at(at);
      if (x.kind == X::kAxis) return 0;
      const bool divides = x.kind == X::kOp && x.op == kFloorDiv && p_.arg(at, 0) == p_.axis(axis);
      const auto by = divides ? p_.value(p_.arg(at, 1)) : std::nullopt;
      if (divides && (!by || (block != INT64_MAX && block != *by))) return 0;
      if (divides) {
        block = *by;
        continue;
      }
      for (ExprId a : p_.args(at)) todo.push_back(a);
    }
    return block;
  }

  // Whether an unsigned value is below 16, by how it is computed.
  bool is_nibble(ExprId e) const {
    const Expr& x = p_.at(e);
    if (p_.is_const(e)) return p_.number_value(e) >= 0 && p_.number_value(e) < 16;
    if (x.kind != X::kOp || p_.type(e) != TENON_U8) return false;
    if (x.op == TENON_S_AND) return is_nibble(p_.arg(e, 0)) || is_nibble(p_.arg(e, 1));
    if (x.op == TENON_S_SHR_L)
      return p_.is_const(p_.arg(e, 1)) && p_.number_value(p_.arg(e, 1)) >= 4;
    return x.op == TENON_S_SELECT && is_nibble(p_.arg(e, 1)) && is_nibble(p_.arg(e, 2));
  }

  // The Map that computes what e loads, in terms of the load's index; kNone if there is none.
  ExprId computed(size_t before, ExprId e) {
    if (p_.at(e).kind != X::kLoad || p_.arg(e, 0) != kNone) return kNone;
    for (size_t i = 0; i < before; ++i) {
      const Stage& s = k_.stages[i];
      if (s.kind != StageKind::kMap || s.store.size() != 1 || s.store[0].buffer != p_.at(e).ref)
        continue;
      std::unordered_map<ExprId, ExprId> map;
      for (size_t d = 0; d < s.store[0].index.size(); ++d) {
        const ExprId axis = s.store[0].index[d];
        if (p_.at(axis).kind != X::kAxis || map.contains(axis)) return kNone;
        map[axis] = p_.arg(e, static_cast<uint32_t>(d) + 2);
      }
      return map.size() == s.space.size() ? p_.substitute(s.value[0], map) : kNone;
    }
    return kNone;
  }

  // Whether widening the weights for each block of rows costs more than reading them wide.
  bool many_rows(const Stage& s, ExprId operand) const {
    constexpr int64_t kMany = 16;
    int64_t rows = 1;
    for (uint32_t axis : s.space) {
      if (p_.uses_axis(operand, axis)) continue;
      const auto extent = p_.value(p_.axes()[axis].extent);
      if (!extent) return false;
      rows = std::min(kMany, rows * std::min(kMany, *extent));
    }
    return rows >= kMany;
  }

  std::optional<Weights> few_bits(size_t at, ExprId operand) {
    const Stage& s = k_.stages[at];
    // Narrower vectors widen bytes slowly.
    if (target_.vector_bytes < 32 || s.reduce.size() != 1 || p_.type(operand) != TENON_F32 ||
        many_rows(s, operand))
      return {};
    const ExprId e = computed(at, operand);
    if (e == kNone || p_.at(e).kind != X::kOp || p_.at(e).op != TENON_S_MUL) return {};
    const int64_t sum = *p_.value(p_.axes()[s.reduce[0]].extent);
    for (uint32_t i = 0; i < 2; ++i) {
      Weights w{.scale = p_.arg(e, i), .axis = s.reduce[0], .computed = {p_.at(operand).ref}};
      ExprId real = p_.arg(e, 1 - i);
      if (p_.at(real).kind == X::kOp && p_.at(real).op == TENON_S_SUB) {
        w.zero = p_.arg(real, 1);
        real = p_.arg(real, 0);
      }
      if (const ExprId from = computed(at, real); from != kNone) {
        w.computed.push_back(p_.at(real).ref);
        real = from;
      }
      if (p_.at(real).kind != X::kOp || p_.at(real).op != TENON_S_CONVERT) continue;
      w.q = p_.arg(real, 0);
      if (p_.type(w.q) != TENON_U8 && p_.type(w.q) != TENON_I8) continue;
      const int64_t of_scale = block_of(w.scale, w.axis),
                    of_zero = w.zero == kNone ? INT64_MAX : block_of(w.zero, w.axis);
      w.block = std::min({of_scale, of_zero, sum});
      const auto fits = [&](int64_t block) { return block == INT64_MAX || block == w.block; };
      if (w.block < 8 || sum % w.block != 0 || !fits(of_scale) || !fits(of_zero)) continue;
      w.nibbles = w.block % 2 == 0 && is_nibble(w.q);
      return w;
    }
    return {};
  }

  // Packs q, the scales and the zero points; the operand in terms of these. Two nibbles of
  // successive steps share a byte, the first in its low half.
  ExprId keep_few_bits(const Stage& s, const Weights& w, uint32_t column, int64_t n, int64_t panel,
                       std::vector<Stage>* packings) {
    const ExprId k = p_.axis(w.axis), two = p_.integer(2), four = p_.integer(4, TENON_U8);
    const auto keep = [&](ExprId e, int64_t each, const auto& value_at) {
      Stage along = s;
      along.reduce = {p_.add_axis(p_.floordiv(p_.axes()[w.axis].extent, p_.integer(each)))};
      const ExprId own = p_.axis(along.reduce[0]), value = value_at(e, own);
      packings->push_back(packing(along, value, column, n, panel, 1));
      const ExprId read = reading(along, value, column, packings->back().store[0].buffer, panel, 1);
      return p_.substitute(read, {{own, p_.floordiv(k, p_.integer(each))}});
    };
    const auto at_block = [&](ExprId e, ExprId block) {
      return p_.substitute(e, {{k, p_.mul(block, p_.integer(w.block))}});
    };
    const auto pair = [&](ExprId e, ExprId half) {
      const ExprId first = p_.mul(half, two);
      const ExprId low = p_.substitute(e, {{k, first}}),
                   high = p_.substitute(e, {{k, p_.add(first, p_.integer(1))}});
      return p_.op(TENON_S_OR, {low, p_.op(TENON_S_SHL, {high, four})});
    };
    const auto same = [&](ExprId e, ExprId own) { return p_.substitute(e, {{k, own}}); };
    ExprId q = w.nibbles ? keep(w.q, 2, pair) : keep(w.q, 1, same);
    if (w.nibbles) {
      const ExprId by = p_.convert(p_.mul(p_.mod(k, two), p_.integer(4)), TENON_U8);
      q = p_.op(TENON_S_AND, {p_.op(TENON_S_SHR_L, {q, by}), p_.integer(15, TENON_U8)});
    }
    ExprId real = p_.convert(q, TENON_F32);
    if (w.zero != kNone)
      real = p_.op(TENON_S_SUB,
                   {real, p_.is_const(w.zero) ? w.zero : keep(w.zero, w.block, at_block)});
    return p_.op(TENON_S_MUL, {real, keep(w.scale, w.block, at_block)});
  }

  // Removes the stage that wrote a buffer which nothing reads any more; where stage `at` is then.
  size_t drop_unread(uint32_t buffer, size_t at) {
    const Role role = k_.buffers[buffer].role;
    if (role != Role::kTemp && role != Role::kPersistent) return at;
    for (const Stage& s : k_.stages) {
      for (ExprId l : loads_of(p_, s)) {
        if (p_.at(l).ref == buffer) return at;
      }
    }
    for (size_t i = 0; i < at; ++i) {
      const Stage& s = k_.stages[i];
      if (s.store.size() != 1 || s.store[0].buffer != buffer) continue;
      k_.stages.erase(k_.stages.begin() + static_cast<std::ptrdiff_t>(i));
      return at - 1;
    }
    return at;
  }

  std::vector<uint32_t> batch_axes(const Stage& s, ExprId operand, uint32_t column) const {
    std::vector<uint32_t> out;
    for (uint32_t axis : s.space) {
      if (axis != column && p_.uses_axis(operand, axis)) out.push_back(axis);
    }
    return out;
  }

  // Splits a step number into the reduction axes, in the stage's order.
  void split(const std::vector<uint32_t>& reduce, ExprId step,
             std::unordered_map<ExprId, ExprId>* map) {
    for (size_t i = reduce.size(); i-- > 0;) {
      const ExprId extent = p_.axes()[reduce[i]].extent;
      (*map)[p_.axis(reduce[i])] = i == 0 ? step : p_.mod(step, extent);
      step = p_.floordiv(step, extent);
    }
  }

  // [batch...][panel][k][lane], where k numbers the points of the reduction axes in the stage's
  // order. With several steps per lane: [...][k / steps][lane][steps].
  Stage packing(const Stage& s, ExprId operand, uint32_t column, int64_t n, int64_t panel,
                uint32_t steps) {
    Stage out;
    out.kind = StageKind::kMap;
    out.origins = s.origins;
    Buffer buffer;
    buffer.type = p_.type(operand);
    buffer.role = Role::kPersistent;
    buffer.panel = static_cast<uint32_t>(panel);
    std::unordered_map<ExprId, ExprId> map;
    std::vector<ExprId> index;
    auto axis_of = [&](ExprId extent) {
      out.space.push_back(p_.add_axis(extent));
      return p_.axis(out.space.back());
    };
    for (uint32_t a : batch_axes(s, operand, column)) {
      buffer.dims.push_back(p_.axes()[a].extent);
      index.push_back(map[p_.axis(a)] = axis_of(p_.axes()[a].extent));
    }
    const ExprId panels = p_.integer((n + panel - 1) / panel), wide = p_.integer(panel);
    const ExprId q = axis_of(panels);
    ExprId k = p_.integer(0), sum = p_.integer(1);
    for (uint32_t a : s.reduce) sum = p_.mul(sum, p_.axes()[a].extent);
    if (steps > 1) {
      k = axis_of(p_.ceildiv(sum, steps));
    } else {
      for (uint32_t a : s.reduce) {
        const ExprId extent = p_.axes()[a].extent, own = axis_of(extent);
        map[p_.axis(a)] = own;
        k = p_.add(p_.mul(k, extent), own);
      }
    }
    const ExprId lane = axis_of(wide), at = p_.add(p_.mul(q, wide), lane);
    map[p_.axis(column)] = at;
    buffer.dims.insert(buffer.dims.end(), {panels, steps > 1 ? p_.ceildiv(sum, steps) : sum, wide});
    index.insert(index.end(), {q, k, lane});
    ExprId guard = n % panel == 0 ? kNone : p_.cmp(TENON_CMP_LT, at, p_.integer(n));
    if (steps > 1) {
      const ExprId each = p_.integer(steps), part = axis_of(each),
                   step = p_.add(p_.mul(k, each), part);
      buffer.dims.push_back(each);
      index.push_back(part);
      split(s.reduce, step, &map);
      if (*p_.value(sum) % steps != 0) guard = p_.both(guard, p_.cmp(TENON_CMP_LT, step, sum));
    }
    ExprId stride = p_.integer(1);
    buffer.strides.resize(buffer.dims.size());
    for (size_t d = buffer.dims.size(); d-- > 0;) {
      buffer.strides[d] = stride;
      stride = p_.mul(stride, buffer.dims[d]);
    }
    ExprId value = p_.substitute(operand, map, guard);
    if (guard != kNone) value = padded(value, guard);
    out.value = {value};
    out.store = {{static_cast<uint32_t>(k_.buffers.size()), index, kNone}};
    k_.buffers.push_back(std::move(buffer));
    return out;
  }

  // Zero where the guard is false. For a load with this guard, `other` is set instead.
  ExprId padded(ExprId value, ExprId guard) {
    const ExprId zero = p_.number(0, p_.type(value));
    if (p_.at(value).kind == X::kLoad && p_.arg(value, 0) == guard) {
      const std::vector<ExprId> args(p_.args(value).begin(), p_.args(value).end());
      return p_.load(p_.at(value).ref, p_.type(value), std::span<const ExprId>(args).subspan(2),
                     guard, zero);
    }
    return p_.op(TENON_S_SELECT, {guard, value, zero});
  }

  ExprId reading(const Stage& s, ExprId operand, uint32_t column, uint32_t buffer, int64_t panel,
                 uint32_t steps) {
    std::vector<ExprId> index;
    for (uint32_t a : batch_axes(s, operand, column)) index.push_back(p_.axis(a));
    ExprId k = p_.integer(0);
    for (uint32_t a : s.reduce) k = p_.add(p_.mul(k, p_.axes()[a].extent), p_.axis(a));
    const ExprId j = p_.axis(column), wide = p_.integer(panel);
    if (steps > 1) {
      const ExprId each = p_.integer(steps);
      index.insert(index.end(),
                   {p_.floordiv(j, wide), p_.floordiv(k, each), p_.mod(j, wide), p_.mod(k, each)});
    } else {
      index.insert(index.end(), {p_.floordiv(j, wide), k, p_.mod(j, wide)});
    }
    return p_.load(buffer, p_.type(operand), index);
  }

  Kernel& k_;
  Pool& p_;
  const Target& target_;
};

}  // namespace

void pack_constants(Kernel& program, const Target& target) {
  Packer(program, target).run();
}

}  // namespace tenon::kernelgen
