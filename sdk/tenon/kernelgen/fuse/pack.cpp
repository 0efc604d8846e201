#include "tenon/kernelgen/fuse/pack.h"

#include <algorithm>
#include <cmath>
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
      if (k_.stages[i].kind != StageKind::kContract || k_.stages[i].panel != 0) continue;
      i = target_.items() ? pack_for_items(i) : pack(i);
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

  // (q - zero) scale along one axis of the sum, where q is an integer of 4 or 8 bits. Scale and
  // zero are the same for each block of steps.
  struct Weights {
    ExprId q = kNone, zero = kNone, scale = kNone;  // zero may be kNone
    int64_t block = 0;
    bool nibbles = false;
    bool quads = false;  // laid out for products of bytes
    uint32_t axis = 0;
    std::vector<uint32_t> computed;  // buffers that would hold them in floats
  };

  // An operand that is known at load and alone has the columns of the result.
  struct Operand {
    bool is_b = false;
    uint32_t column = 0;
    int64_t columns = 0;
    ExprId value = kNone, other = kNone;
  };
  std::optional<Operand> operand_of(const Stage& s) const {
    Operand o{.column = column_of(s)};
    if (o.column == ~0u || !has(s.space, o.column)) return {};
    o.is_b = p_.uses_axis(s.b, o.column);
    if (p_.uses_axis(s.a, o.column) == o.is_b) return {};
    o.value = o.is_b ? s.b : s.a;
    o.other = o.is_b ? s.a : s.b;
    o.columns = p_.value(p_.axes()[o.column].extent).value_or(0);
    if (o.columns <= 0 || !is_fixed(k_, o.value)) return {};
    for (uint32_t axis : s.space) {
      // Another axis of the operand's own would be a second column.
      if (axis != o.column && p_.uses_axis(o.value, axis) && !p_.uses_axis(o.other, axis))
        return {};
    }
    for (uint32_t axis : s.reduce) {
      const auto extent = p_.value(p_.axes()[axis].extent);
      if (!extent || *extent <= 0 || !p_.uses_axis(o.value, axis)) return {};
    }
    return o;
  }

  // Stage `at` reads what the packings write instead of its operand. Where it is afterwards.
  size_t replace(size_t at, const Operand& o, ExprId by, const std::vector<Stage>& packings) {
    (o.is_b ? k_.stages[at].b : k_.stages[at].a) = by;
    k_.stages.insert(k_.stages.begin() + static_cast<std::ptrdiff_t>(at), packings.begin(),
                     packings.end());
    return at + packings.size();
  }

  size_t pack_few_bits(size_t at, const Operand& o, const Weights& weights, int64_t panel) {
    std::vector<Stage> packings;
    const ExprId read =
        keep_few_bits(k_.stages[at], weights, o.column, o.columns, panel, &packings);
    at = replace(at, o, read, packings);
    for (const uint32_t buffer : weights.computed) at = drop_unread(buffer, at);
    return at;
  }

  // ---- Work items ----

  // Whether neighbours along an axis are adjacent in what the operand reads.
  bool adjacent(ExprId operand, uint32_t axis) {
    std::vector<ExprId> loads;
    p_.loads(operand, &loads);
    return std::ranges::all_of(loads, [&](ExprId l) {
      const std::vector<ExprId>& strides = k_.buffers[p_.at(l).ref].strides;
      ExprId offset = p_.integer(0), rest = kNone;
      for (uint32_t d = 0; d < strides.size(); ++d)
        offset = p_.add(offset, p_.mul(p_.arg(l, d + 2), strides[d]));
      std::vector<ExprId> c;
      const uint32_t axes[] = {axis};
      return p_.affine(offset, axes, &c, &rest) && p_.is_const(c[0], 1);
    });
  }

  // Whether a group shares a sum. Many short ones belong to one item each, which reads what its
  // neighbours do beside it (share_rows in schedule.cpp).
  bool worth_a_group(const Stage& s) const {
    constexpr int64_t kLong = 128, kShort = 32;
    const auto points = [&](const std::vector<uint32_t>& axes) {
      int64_t n = 1;
      for (uint32_t a : axes)
        n = std::min<int64_t>(INT32_MAX, n * std::max<int64_t>(1, p_.likely(p_.axes()[a].extent)));
      return n;
    };
    const int64_t sum = points(s.reduce);
    return sum >= kLong || (sum >= kShort && points(s.space) < sum);
  }

  // The items of a group run along the sum of a vector times a matrix, and along either axis in
  // tiles. So the matrix is kept as [batch...][columns][sum] where it is not adjacent along the
  // sum, or along neither.
  size_t pack_for_items(size_t at) {
    const Stage& s = k_.stages[at];
    const auto o = target_.group > 1 && !s.reduce.empty() ? operand_of(s) : std::nullopt;
    if (!o) return at;
    if (const auto weights = few_bits(at, o->value)) return pack_few_bits(at, *o, *weights, 1);
    const bool rows = std::ranges::any_of(s.space, [&](uint32_t axis) {
      return p_.uses_axis(o->other, axis) && !p_.uses_axis(o->value, axis);
    });
    if (!worth_a_group(s) || adjacent(o->value, s.reduce.back()) ||
        (rows && adjacent(o->value, o->column)))
      return at;
    const Expr x = p_.at(o->value);
    const bool widens = x.kind == X::kOp && x.op == TENON_S_CONVERT &&
                        size_of(p_.type(p_.arg(o->value, 0))) < size_of(x.type);
    const ExprId kept = widens ? p_.arg(o->value, 0) : o->value;
    const Stage packed = packing(s, kept, o->column, o->columns, 1, 1);
    const ExprId read =
        p_.convert(reading(s, kept, o->column, packed.store[0].buffer, 1, 1), p_.type(o->value));
    return replace(at, *o, read, {packed});
  }

  // ---- Panels ----

  // Where the stage is afterwards.
  size_t pack(size_t at) {
    const Stage& s = k_.stages[at];
    const auto o = operand_of(s);
    const int64_t panel = o ? panel_columns(target_, p_.type(o->value), o->columns) : 0;
    if (panel == 0) return at;
    const uint32_t column = o->column;
    const int64_t n = o->columns;
    const ExprId operand = o->value, other = o->other;
    if (const auto weights = few_bits(at, operand)) return pack_few_bits(at, *o, *weights, panel);
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
    const Stage packed = packing(s, kept, column, n, panel, steps);
    const ExprId load =
        p_.convert(reading(s, kept, column, packed.store[0].buffer, panel, steps), acc);
    return replace(at, *o, load, {packed});
  }

  // ---- Weights of few bits ----

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

  // Whether a zero point is an integer of no more than 8 bits, so that its products with sums of
  // digits are exact.
  bool is_whole(size_t before, ExprId zero) {
    if (zero == kNone) return true;
    if (p_.is_const(zero)) {
      const double value = p_.number_value(zero);
      return std::fabs(value) <= 255 && value == std::trunc(value);
    }
    if (const ExprId from = computed(before, zero); from != kNone) zero = from;
    if (p_.at(zero).kind != X::kOp || p_.at(zero).op != TENON_S_CONVERT) return false;
    const DType from = p_.type(p_.arg(zero, 0));
    return from == TENON_U8 || from == TENON_I8;
  }

  // q + 128 with 128 more to subtract.
  void make_unsigned(Weights* w) {
    w->q = p_.op(TENON_S_XOR, {p_.bitcast(w->q, TENON_U8), p_.integer(128, TENON_U8)});
    const ExprId more = p_.number(128, TENON_F32);
    w->zero = w->zero == kNone ? more : p_.op(TENON_S_ADD, {w->zero, more});
  }

  // Whether 16 rows or more are known. Each block of rows widens the weights again, so bf16 is not
  // kept, and digits of floats cost more than the widening that the rows share.
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
    const bool slow = !target_.items() && target_.vector_bytes < 32;
    if (slow || s.reduce.size() != 1 || p_.type(operand) != TENON_F32) return {};
    const ExprId stored = computed(at, operand), e = stored == kNone ? operand : stored;
    if (p_.at(e).kind != X::kOp) return {};
    Weights w{.axis = s.reduce[0]};
    if (stored != kNone) w.computed.push_back(p_.at(operand).ref);
    if (p_.at(e).op != TENON_S_MUL) {
      w.scale = p_.number(1, TENON_F32);
      return read_few_bits(at, w, e, operand);
    }
    for (uint32_t i = 0; i < 2; ++i) {
      w.scale = p_.arg(e, i);
      if (auto found = read_few_bits(at, w, p_.arg(e, 1 - i), operand)) return found;
    }
    return {};
  }

  // With the scale known: `real` as q - zero.
  std::optional<Weights> read_few_bits(size_t at, Weights w, ExprId real, ExprId operand) {
    const Stage& s = k_.stages[at];
    const int64_t sum = *p_.value(p_.axes()[w.axis].extent);
    if (p_.at(real).kind == X::kOp && p_.at(real).op == TENON_S_SUB) {
      w.zero = p_.arg(real, 1);
      real = p_.arg(real, 0);
    }
    if (const ExprId from = computed(at, real); from != kNone) {
      w.computed.push_back(p_.at(real).ref);
      real = from;
    }
    if (p_.at(real).kind != X::kOp || p_.at(real).op != TENON_S_CONVERT) return {};
    w.q = p_.arg(real, 0);
    if (p_.type(w.q) != TENON_U8 && p_.type(w.q) != TENON_I8) return {};
    const int64_t of_scale = block_of(w.scale, w.axis),
                  of_zero = w.zero == kNone ? INT64_MAX : block_of(w.zero, w.axis);
    w.block = std::min({of_scale, of_zero, sum});
    const auto fits = [&](int64_t block) { return block == INT64_MAX || block == w.block; };
    if (w.block < 8 || sum % w.block != 0 || !fits(of_scale) || !fits(of_zero)) return {};
    w.nibbles = w.block % 2 == 0 && is_nibble(w.q);
    if (target_.items()) {
      // Four bytes have what neighbours take at once, in their low or in their high halves.
      w.quads = w.nibbles && w.block % 8 == 0;
      return w;
    }
    w.quads = target_.byte_quads && digit_block(w.block) != 0 && is_whole(at, w.zero) &&
              !many_rows(s, operand);
    if (w.quads && p_.type(w.q) == TENON_I8) make_unsigned(&w);
    return w;
  }

  // Packs q, the scales and the zero points; the operand in terms of these. Two nibbles share a
  // byte, the first in its low half: of successive steps or, in quads, of steps 4 apart.
  ExprId keep_few_bits(const Stage& s, const Weights& w, uint32_t column, int64_t n, int64_t panel,
                       std::vector<Stage>* packings) {
    const ExprId k = p_.axis(w.axis), two = p_.integer(2), four = p_.integer(4, TENON_U8);
    // value_at(e, place) for each place of `each` steps; step k is at place_of_k.
    const auto keep_at = [&](ExprId e, int64_t each, const auto& value_at, ExprId place_of_k,
                             uint32_t steps) {
      Stage along = s;
      along.reduce = {p_.add_axis(p_.floordiv(p_.axes()[w.axis].extent, p_.integer(each)))};
      const ExprId own = p_.axis(along.reduce[0]), value = value_at(e, own);
      packings->push_back(packing(along, value, column, n, panel, steps));
      const ExprId read =
          reading(along, value, column, packings->back().store[0].buffer, panel, steps);
      return p_.substitute(read, {{own, place_of_k}});
    };
    const auto keep = [&](ExprId e, int64_t each, const auto& value_at) {
      return keep_at(e, each, value_at, p_.floordiv(k, p_.integer(each)), 1);
    };
    const auto at_block = [&](ExprId e, ExprId block) {
      return p_.substitute(e, {{k, p_.mul(block, p_.integer(w.block))}});
    };
    const ExprId quad = p_.integer(4), eight = p_.integer(8);
    const auto pair = [&](ExprId e, ExprId half) {
      const ExprId first = w.quads
                               ? p_.add(p_.mul(p_.floordiv(half, quad), eight), p_.mod(half, quad))
                               : p_.mul(half, two);
      const ExprId low = p_.substitute(e, {{k, first}}),
                   high = p_.substitute(e, {{k, p_.add(first, w.quads ? quad : p_.integer(1))}});
      return p_.op(TENON_S_OR, {low, p_.op(TENON_S_SHL, {high, four})});
    };
    const auto same = [&](ExprId e, ExprId own) { return p_.substitute(e, {{k, own}}); };
    const ExprId in_quad = p_.add(p_.mul(p_.floordiv(k, eight), quad), p_.mod(k, quad));
    ExprId q = !w.quads    ? (w.nibbles ? keep(w.q, 2, pair) : keep(w.q, 1, same))
               : w.nibbles ? keep_at(w.q, 2, pair, in_quad, 4)
                           : keep_at(w.q, 1, same, k, 4);
    if (w.nibbles) {
      const ExprId half = w.quads ? p_.mod(p_.floordiv(k, quad), two) : p_.mod(k, two);
      const ExprId by = p_.convert(p_.mul(half, p_.integer(4)), TENON_U8);
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
    buffer.panel = target_.items() ? 0 : static_cast<uint32_t>(panel);
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
