#include "tenon/kernelgen/fuse/pack.h"

#include <algorithm>
#include <unordered_map>

#include "tenon/kernelgen/fuse/load_time.h"
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
      if (k_.stages[i].kind == StageKind::kContract && k_.stages[i].panel == 0 && pack(i)) ++i;
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

  bool pack(size_t at) {
    const Stage& s = k_.stages[at];
    const uint32_t column = column_of(s);
    if (column == ~0u || !has(s.space, column)) return false;
    const bool is_b = p_.uses_axis(s.b, column), is_a = p_.uses_axis(s.a, column);
    if (is_a == is_b) return false;
    const ExprId operand = is_b ? s.b : s.a, other = is_b ? s.a : s.b;
    const auto n = p_.value(p_.axes()[column].extent);
    const int64_t panel = n && *n > 0 ? panel_columns(target_, p_.type(operand), *n) : 0;
    if (panel == 0 || !is_fixed(k_, operand)) return false;
    for (uint32_t axis : s.space) {
      // Another axis of the operand's own would be a second column.
      if (axis != column && p_.uses_axis(operand, axis) && !p_.uses_axis(other, axis)) return false;
    }
    for (uint32_t axis : s.reduce) {
      const auto extent = p_.value(p_.axes()[axis].extent);
      if (!extent || *extent <= 0 || !p_.uses_axis(operand, axis)) return false;
    }
    const ExprId narrow = narrow_of(p_, operand);
    const DType acc = p_.type(operand);
    const bool pairs = (is_float(acc) ? target_.bf16 : target_.i16_pairs) && narrow != kNone &&
                       narrow_of(p_, other) != kNone;
    const ExprId kept = pairs ? p_.convert(narrow, pair_type(acc)) : operand;
    const Stage packed = packing(s, kept, column, *n, panel, pairs);
    const ExprId load =
        p_.convert(reading(s, kept, column, packed.store[0].buffer, panel, pairs), acc);
    (is_b ? k_.stages[at].b : k_.stages[at].a) = load;
    k_.stages.insert(k_.stages.begin() + static_cast<std::ptrdiff_t>(at), packed);
    return true;
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
  // order. In pairs: [...][k / 2][lane][2].
  Stage packing(const Stage& s, ExprId operand, uint32_t column, int64_t n, int64_t panel,
                bool pairs) {
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
    if (pairs) {
      k = axis_of(p_.ceildiv(sum, 2));
    } else {
      for (uint32_t a : s.reduce) {
        const ExprId extent = p_.axes()[a].extent, own = axis_of(extent);
        map[p_.axis(a)] = own;
        k = p_.add(p_.mul(k, extent), own);
      }
    }
    const ExprId lane = axis_of(wide), at = p_.add(p_.mul(q, wide), lane);
    map[p_.axis(column)] = at;
    buffer.dims.insert(buffer.dims.end(), {panels, pairs ? p_.ceildiv(sum, 2) : sum, wide});
    index.insert(index.end(), {q, k, lane});
    ExprId guard = n % panel == 0 ? kNone : p_.cmp(TENON_CMP_LT, at, p_.integer(n));
    if (pairs) {
      const ExprId two = p_.integer(2), half = axis_of(two), step = p_.add(p_.mul(k, two), half);
      buffer.dims.push_back(two);
      index.push_back(half);
      split(s.reduce, step, &map);
      if (*p_.value(sum) % 2 != 0) guard = p_.both(guard, p_.cmp(TENON_CMP_LT, step, sum));
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
                 bool pairs) {
    std::vector<ExprId> index;
    for (uint32_t a : batch_axes(s, operand, column)) index.push_back(p_.axis(a));
    ExprId k = p_.integer(0);
    for (uint32_t a : s.reduce) k = p_.add(p_.mul(k, p_.axes()[a].extent), p_.axis(a));
    const ExprId j = p_.axis(column), wide = p_.integer(panel);
    if (pairs) {
      const ExprId two = p_.integer(2);
      index.insert(index.end(),
                   {p_.floordiv(j, wide), p_.floordiv(k, two), p_.mod(j, wide), p_.mod(k, two)});
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
