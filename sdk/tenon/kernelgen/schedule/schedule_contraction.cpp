#include <algorithm>

#include "tenon/kernelgen/schedule/contraction.h"
#include "tenon/kernelgen/schedule/neighbours.h"
#include "tenon/kernelgen/schedule/schedule.h"

namespace tenon::kernelgen {

uint32_t lanes_of(const Kernel& k, const Target& t);

uint32_t panel_of(const Kernel& k, ExprId e) {
  if (const ExprId narrow = narrow_of(k.pool, e); narrow != kNone) e = narrow;
  if (const auto few = few_bits_of(k, e)) e = few->q;
  const Expr& x = k.pool.at(e);
  return x.kind == X::kLoad && k.pool.arg(e, 0) == kNone ? k.buffers[x.ref].panel : 0;
}

static bool is_panel(const Kernel& k, ExprId e) {
  return k.pool.at(e).kind == X::kLoad && k.pool.arg(e, 0) == kNone &&
         k.buffers[k.pool.at(e).ref].panel != 0;
}

std::optional<FewBits> few_bits_of(const Kernel& k, ExprId e) {
  const Pool& p = k.pool;
  const auto is = [&](ExprId x, uint16_t op) { return p.at(x).kind == X::kOp && p.at(x).op == op; };
  if (!is(e, TENON_S_MUL) || p.type(e) != TENON_F32) return {};
  for (uint32_t i = 0; i < 2; ++i) {
    FewBits out{.scale = p.arg(e, i)};
    ExprId real = p.arg(e, 1 - i);
    if (!is_panel(k, out.scale)) continue;
    if (is(real, TENON_S_SUB)) {
      out.zero = p.arg(real, 1);
      real = p.arg(real, 0);
      if (!p.is_const(out.zero) && !is_panel(k, out.zero)) continue;
    }
    if (!is(real, TENON_S_CONVERT)) continue;
    std::vector<ExprId> loads;
    p.loads(p.arg(real, 0), &loads);
    if (loads.size() != 1 || !is_panel(k, loads[0])) continue;
    out.q = loads[0];
    out.bits = p.arg(real, 0) == out.q ? 8 : 4;
    const Buffer& panels = k.buffers[p.at(out.q).ref];
    out.quads = !p.is_const(panels.dims.back(), panels.panel);
    return out;
  }
  return {};
}

uint32_t digit_block(int64_t weights) {
  for (const uint32_t block : {64u, 32u, 16u}) {
    if (weights % block == 0) return block;
  }
  return 0;
}

ExprId narrow_of(const Pool& p, ExprId e) {
  const Expr& x = p.at(e);
  if (x.kind != X::kOp || (x.op != TENON_S_CONVERT && x.op != kRound)) return kNone;
  const ExprId from = p.arg(e, 0);
  const DType t = p.type(from);
  const bool pairs = x.type == TENON_F32   ? t == TENON_BF16
                     : x.type == TENON_I32 ? t == TENON_I16 || t == TENON_I8 || t == TENON_U8
                                           : false;
  return pairs ? from : kNone;
}

uint32_t steps_of(const Kernel& k, ExprId e) {
  const ExprId narrow = narrow_of(k.pool, e);
  if (narrow == kNone || panel_of(k, e) == 0) return 1;
  // Beside operands of f32, bf16 lies as f32 would.
  const Buffer& panels = k.buffers[k.pool.at(narrow).ref];
  if (panels.type == TENON_BF16 && k.pool.is_const(panels.dims.back(), panels.panel)) return 1;
  return k.pool.type(narrow) == TENON_I8 ? 4 : 2;
}

uint32_t steps_of(const Target& t, DType acc, DType weights, DType other) {
  if (acc == TENON_F32) return t.bf16 ? 2 : 1;
  if (t.byte_quads && weights == TENON_I8 && other == TENON_U8) return 4;
  return t.i16_pairs ? 2 : 1;
}

bool plain_load(const Pool& p, ExprId e, DType acc) {
  return p.at(e).kind == X::kLoad && p.arg(e, 0) == kNone && p.type(e) == acc;
}

bool chain(Pool& p, ExprId offset, std::vector<uint32_t>* axes, ExprId* step, ExprId* rest) {
  std::vector<ExprId> c;
  if (!p.affine(offset, *axes, &c, rest)) return false;
  // Innermost first: the axis whose coefficient is the step, then each axis that continues the last
  // one.
  std::vector<uint32_t> order;
  std::vector<bool> used(axes->size());
  for (size_t first = 0; first < axes->size(); ++first) {
    order = {static_cast<uint32_t>(first)};
    std::fill(used.begin(), used.end(), false);
    used[first] = true;
    ExprId next = p.mul(c[first], p.axes()[(*axes)[first]].extent);
    for (bool found = true; found && order.size() < axes->size();) {
      found = false;
      for (size_t i = 0; i < axes->size() && !found; ++i) {
        if (used[i] || c[i] != next) continue;
        found = used[i] = true;
        order.push_back(static_cast<uint32_t>(i));
        next = p.mul(next, p.axes()[(*axes)[i]].extent);
      }
    }
    if (order.size() == axes->size()) {
      *step = c[first];
      std::vector<uint32_t> sorted;
      for (size_t i = order.size(); i-- > 0;) sorted.push_back((*axes)[order[i]]);
      *axes = sorted;
      return true;
    }
  }
  return false;
}

namespace {

int64_t likely(const Pool& p, ExprId e) {
  return std::max<int64_t>(1, p.likely(e));
}

ExprId coefficient(Pool& p, ExprId offset, uint32_t axis) {
  std::vector<ExprId> c;
  ExprId rest;
  const uint32_t axes[] = {axis};
  return p.affine(offset, axes, &c, &rest) ? c[0] : kNone;
}

// Whether all accesses of the epilogue traverse (outer, inner) as one axis, or use neither.
bool epilogue_walks_as_one(Pool& p, const Stage& s, uint32_t outer, uint32_t inner) {
  std::vector<ExprId> offsets, loads;
  for (ExprId e : s.final) p.loads(e, &loads);
  for (ExprId l : loads) {
    if (p.arg(l, 0) != kNone) return false;
    offsets.push_back(p.arg(l, 2));
  }
  for (const View& v : s.store) offsets.push_back(v.index[0]);
  for (ExprId off : offsets) {
    const ExprId o = coefficient(p, off, outer), i = coefficient(p, off, inner);
    if (o == kNone || i == kNone || o != p.mul(i, p.axes()[inner].extent)) return false;
  }
  // Values must not use the axes themselves.
  std::vector<ExprId> todo = s.final;
  p.begin_walk();
  while (!todo.empty()) {
    const ExprId e = todo.back();
    todo.pop_back();
    if (e == kNone || !p.first_visit(e) || p.at(e).kind == X::kLoad) continue;
    if (p.at(e).kind == X::kAxis && (p.at(e).ref == outer || p.at(e).ref == inner)) return false;
    for (ExprId a : p.args(e)) todo.push_back(a);
  }
  return true;
}

// Rows per range item: `wanted` items for threads to share, decided by shape alone, and enough rows
// to pay for fetching or packing a panel once more. others: items per block of rows.
int64_t rows_per_item(Pool& p, int64_t mr, ExprId rows, int64_t others, int64_t wanted) {
  const int64_t m = likely(p, rows), most = std::max<int64_t>(mr, 192 / mr * mr),
                least = std::max<int64_t>(mr, 48 / mr * mr);
  int64_t block = most;
  while (block / 2 >= least && others * ((m + block - 1) / block) < wanted)
    block = (block / 2 + mr - 1) / mr * mr;
  return block;
}

// Steps of the reduction; 1 (odd) if unknown.
int64_t sum_of(Pool& p, const std::vector<uint32_t>& axes) {
  int64_t n = 1;
  for (uint32_t axis : axes) n *= p.value(p.axes()[axis].extent).value_or(1);
  return n;
}

int64_t likely_points(const Pool& p, const std::vector<uint32_t>& axes) {
  int64_t n = 1;
  for (uint32_t axis : axes) n = std::min<int64_t>(INT32_MAX, n * likely(p, p.axes()[axis].extent));
  return n;
}

// The longest axis. Of two guessed sizes the inner one wins: batches come first and are mostly
// small, and a size computed from another (such as the positions that remain of an image's width)
// is not necessarily shorter.
uint32_t longest(Pool& p, const std::vector<uint32_t>& axes) {
  uint32_t best = axes[0];
  for (uint32_t axis : axes) {
    const ExprId size = p.axes()[axis].extent, other = p.axes()[best].extent;
    if (p.is_guess(size) && p.is_guess(other) ? axis != best : likely(p, size) > likely(p, other))
      best = axis;
  }
  return best;
}

// The block of digits, or 0 where more rows are known than are worth making digits of.
uint32_t digits_of(Kernel& k, ExprId a, const FewBits& few, uint32_t column) {
  Pool& p = k.pool;
  const Stage& st = k.stages[0];
  int64_t rows = 1;  // at least, if there are any: those of unknown number count as one
  for (uint32_t axis : st.space) {
    if (axis == column || !p.uses_axis(a, axis)) continue;
    rows = std::min(kDigitRows + 1, rows * p.value(p.axes()[axis].extent).value_or(1));
  }
  if (rows > kDigitRows) return 0;
  const Buffer& scales = k.buffers[p.at(few.scale).ref];
  const ExprId blocks = scales.dims[scales.dims.size() - 2];
  return digit_block(sum_of(p, st.reduce) / *p.value(blocks));
}

// A thread that is woken for fewer points comes too late.
int64_t items_worth_a_thread(const Pool& p, const Stage& st, const Schedule& s) {
  constexpr int64_t kPoints = 25000;
  const int64_t rows = std::min(likely(p, p.axes()[s.rows[0]].extent), s.row_block);
  const int64_t columns = std::min(likely_points(p, s.columns), int64_t{s.nr} * s.lanes);
  return std::max<int64_t>(
      1, kPoints / std::max<int64_t>(1, rows * columns * likely_points(p, st.reduce)));
}

// pack.h decides the panel; the tile is as wide as a panel, or divides it.
bool schedule_packed(Kernel& k, const Target& t, bool swapped,
                     const std::vector<uint32_t>& row_axes, uint32_t column, Schedule s,
                     Schedule* out) {
  Pool& p = k.pool;
  const Stage& st = k.stages[0];
  const ExprId a = swapped ? st.b : st.a, b = swapped ? st.a : st.b;
  s.swapped = swapped;
  s.packed = true;
  s.columns = {column};
  const uint32_t row = row_axes.empty() ? p.add_axis(p.integer(1)) : longest(p, row_axes);
  s.rows = {row};
  const int64_t panel = panel_of(k, b);
  s.nr = static_cast<uint32_t>(std::min<int64_t>(t.registers >= 32 ? 4 : 2, panel / s.lanes));
  while (panel % (int64_t{s.nr} * s.lanes) != 0) --s.nr;
  s.mr = t.registers >= 32 || t.isa == "avx2" ? 6 : 4;
  const auto m = p.value(p.axes()[row].extent);
  if (m && *m < s.mr) s.mr = static_cast<uint32_t>(std::max<int64_t>(1, *m));
  std::vector<uint32_t> order = st.reduce;
  ExprId step, rest;
  s.steps = steps_of(k, b);
  s.widened = s.steps == 1 && narrow_of(p, b) != kNone;
  const auto few = few_bits_of(k, b);
  if (few) s.few_bits = few->bits;
  if (few && few->quads) s.digits = digits_of(k, a, *few, column);
  const ExprId read = s.steps > 1 && narrow_of(p, a) != kNone ? narrow_of(p, a) : a;
  bool walks = plain_load(p, read, operand_type(p.type(a), s.steps, false)) &&
               chain(p, p.arg(read, 2), &order, &step, &rest) && order == st.reduce;
  // The steps of a lane are read as one word, so they must be adjacent and fill the row.
  if (walks && s.steps > 1) walks = p.is_const(step, 1) && sum_of(p, order) % s.steps == 0;
  // Digits are made of adjacent floats.
  if (walks && s.digits != 0) walks = p.is_const(step, 1);
  s.pack_a = !walks;
  int64_t others = likely(p, p.ceildiv(p.axes()[column].extent, int64_t{s.nr} * s.lanes));
  for (uint32_t axis : st.space) {
    if (axis != row && axis != column) others *= likely(p, p.axes()[axis].extent);
  }
  s.row_block = rows_per_item(p, s.mr, p.axes()[row].extent, others, 32);
  s.grain = items_worth_a_thread(p, st, s);
  *out = s;
  return true;
}

// A tile of 64 x 64 for a group of 256; smaller if the result is.
void schedule_group(Kernel& k, const Target& t, const std::vector<uint32_t>& rows,
                    const std::vector<uint32_t>& columns, Schedule* s) {
  Pool& p = k.pool;
  const int64_t m = likely_points(p, rows), n = likely_points(p, columns);
  s->rows = rows;
  s->columns = columns;
  s->together = true;
  uint32_t high = 1, wide = 1;
  while (high * wide < t.group) wide <= high ? wide *= 2 : high *= 2;
  for (; high > 1 && high / 2 >= m; high /= 2) wide *= 2;
  for (; wide > 1 && wide / 2 >= n; wide /= 2) high = high < m ? high * 2 : high;
  auto each = [](int64_t size, uint32_t items) {
    return size > 2 * int64_t{items} ? 4u : size > int64_t{items} ? 2u : 1u;
  };
  s->mr = each(m, high);
  s->nr = each(n, wide);
  s->group = high * wide;
  s->group_columns = wide;
  s->depth = 16;
  if (t.wide_bytes != 0) s->wide = kNeighbours;
}

// Whether `a` is contiguous along the rows and not along the steps.
bool lies_across(Pool& p, ExprId a, uint32_t row, ExprId step) {
  return p.is_const(coefficient(p, p.arg(a, 2), row), 1) && !p.is_const(step, 1);
}

// A block of rows and the panels that share what was gathered of them: near a square, so that
// neither side is gathered or packed often, and enough items for threads to share.
void square_items(Pool& p, ExprId rows, int64_t panels, int64_t others, Schedule* s) {
  constexpr int64_t kWanted = 8, kMostRows = 384, kLeastRows = 48, kMostPanels = 8;
  const int64_t m = likely(p, rows), panel = int64_t{s->nr} * s->lanes;
  const auto up = [&](int64_t n) { return (n + s->mr - 1) / s->mr * s->mr; };
  s->row_block = std::min(up(m), kMostRows / s->mr * s->mr);
  s->panels = std::min(panels, kMostPanels);
  const auto items = [&] {
    return others * ((m + s->row_block - 1) / s->row_block) *
           ((panels + s->panels - 1) / s->panels);
  };
  while (items() < kWanted && (s->panels > 1 || up(s->row_block / 2) >= kLeastRows)) {
    if (s->panels > 1 && (s->panels * panel >= s->row_block || up(s->row_block / 2) < kLeastRows))
      s->panels = (s->panels + 1) / 2;
    else
      s->row_block = up(s->row_block / 2);
  }
}

// Steps from which on rows that lie across memory are gathered, and sums are cut into blocks: what
// is gathered and packed of a block stays in the L2 cache.
constexpr int64_t kGatheredSteps = 64, kGatheredBlock = 256, kManySteps = 2048, kBlock = 512;

}  // namespace

bool schedule_contraction(Kernel& k, const Target& t, Schedule* out, std::string* why) {
  Pool& p = k.pool;
  if (k.stages.size() != 1 || k.stages[0].kind != StageKind::kContract) {
    *why = "a contraction runs with its epilogue only";
    return false;
  }
  const Stage& st = k.stages[0];
  Schedule s;
  s.shape = Shape::kContraction;
  s.lanes = lanes_of(k, t);
  std::vector<uint32_t> only_a, only_b;
  for (uint32_t axis : st.space) {
    const bool a = p.uses_axis(st.a, axis), b = p.uses_axis(st.b, axis);
    if (a && !b) only_a.push_back(axis);
    if (b && !a) only_b.push_back(axis);
  }
  // Packed weights own the columns. Rows may then be missing (a vector times a matrix).
  const bool packed_a = panel_of(k, st.a) != 0, packed = packed_a || panel_of(k, st.b) != 0;
  if (!packed && (only_a.empty() || only_b.empty())) {
    *why = "a contraction with one free side is a reduction";
    return false;
  }
  if (packed)
    return schedule_packed(k, t, packed_a, packed_a ? only_b : only_a,
                           packed_a ? only_a[0] : only_b[0], s, out);
  const ExprId store = st.store[0].index[0];
  auto unit = [&](const std::vector<uint32_t>& list) {
    for (uint32_t axis : list) {
      if (p.is_const(coefficient(p, store, axis), 1)) return axis;
    }
    return ~0u;
  };
  uint32_t column = unit(only_b);
  if (column == ~0u && unit(only_a) != ~0u) {
    s.swapped = true;
    std::swap(only_a, only_b);
    column = unit(only_b);
  }
  if (t.group > 1) {
    schedule_group(k, t, only_a, only_b, &s);
    *out = s;
    return true;
  }
  s.group = t.group;
  if (column == ~0u) column = only_b.back();
  s.columns = {column};
  const ExprId a = s.swapped ? st.b : st.a, b = s.swapped ? st.a : st.b;
  const DType acc = p.type(a);

  const bool plain_b = plain_load(p, b, acc);
  ExprId step = kNone, rest = kNone;
  const bool unit_b = plain_b && p.is_const(coefficient(p, p.arg(b, 2), column), 1);
  for (uint32_t outer : only_b) {
    if (outer != column && s.columns.size() == 1 && !unit_b &&
        epilogue_walks_as_one(p, st, outer, column)) {
      s.columns = {outer, column};
    }
    // A guarded or strided operand is packed anyway. A plain one is packed too if there are two
    // column axes of which one alone is short.
    if (outer != column && s.columns.size() == 1 && unit_b &&
        likely(p, p.axes()[column].extent) < 4 * int64_t{s.lanes} &&
        epilogue_walks_as_one(p, st, outer, column)) {
      s.columns = {outer, column};
    }
  }
  uint32_t row = only_a[0];
  for (uint32_t axis : only_a) {
    if (likely(p, p.axes()[axis].extent) > likely(p, p.axes()[row].extent)) row = axis;
  }
  s.rows = {row};

  ExprId columns = p.integer(1);
  for (uint32_t c : s.columns) columns = p.mul(columns, p.axes()[c].extent);
  const ExprId rows = p.axes()[row].extent;
  const auto n = p.value(columns);
  const bool vectors = s.lanes > 1;
  s.mr = vectors ? (t.registers >= 32 ? 6 : 4) : 4;
  s.nr = vectors ? (t.registers >= 32 ? 4 : 2) : 4;
  if (t.isa == "avx2") s.mr = 6;
  // Narrow results need fewer vectors; panels of equal width waste least.
  const int64_t wide = n ? *n : likely(p, columns);
  const int64_t need = (wide + s.lanes - 1) / s.lanes;
  if (need < s.nr) s.nr = static_cast<uint32_t>(std::max<int64_t>(1, need));
  if (n && need > s.nr) {
    for (uint32_t nr = s.nr; nr >= 2 && nr + 1 >= s.nr; --nr) {
      if (need % nr == 0) {
        s.nr = nr;
        break;
      }
    }
  }
  if (const auto m = p.value(rows); m && *m < s.mr)
    s.mr = static_cast<uint32_t>(std::max<int64_t>(1, *m));

  std::vector<uint32_t> order = st.reduce;
  const bool chain_a = plain_load(p, a, acc) && chain(p, p.arg(a, 2), &order, &step, &rest);
  if (!vectors) {
    s.row_block = s.mr;
    s.grain = 16;
    *out = s;
    return true;
  }
  const bool aligned = n && *n % (int64_t{s.nr} * s.lanes) == 0;
  const bool direct = unit_b && s.columns.size() == 1 && (aligned || t.isa == "avx512");
  s.pack_b = !direct || (likely(p, rows) >= 64 && (p.value(rows) || direct));
  if (direct && !p.value(rows)) s.pack_b = likely(p, rows) >= 64;
  if (s.pack_b) {
    s.pack_a = !chain_a;
    const int64_t panels = likely(p, p.ceildiv(columns, int64_t{s.nr} * s.lanes)),
                  sum = likely_points(p, st.reduce);
    int64_t others = 1;
    for (uint32_t axis : st.space) {
      if (axis != row && std::find(s.columns.begin(), s.columns.end(), axis) == s.columns.end())
        others *= likely(p, p.axes()[axis].extent);
    }
    s.gather_a = chain_a && acc == TENON_F32 && lies_across(p, a, row, step) &&
                 likely(p, rows) >= s.lanes && sum >= kGatheredSteps;
    if (s.gather_a) {
      square_items(p, rows, panels, others, &s);
    } else {
      s.row_block = rows_per_item(p, s.mr, rows, others * panels, 8);
    }
    if (chain_a && acc == TENON_F32 && st.reduce.size() == 1) {
      if (s.gather_a && sum > kGatheredBlock) s.sum_block = kGatheredBlock;
      if (!s.gather_a && sum >= kManySteps) s.sum_block = kBlock;
    }
    // Contiguous along the reduction instead of the columns: whole square tiles are transposed in
    // registers.
    if (plain_b && s.columns.size() == 1 && !unit_b && acc == TENON_F32 && !st.reduce.empty()) {
      std::vector<uint32_t> k_order = s.pack_a ? st.reduce : order;
      s.transpose_b = p.is_const(coefficient(p, p.arg(b, 2), k_order.back()), 1) &&
                      coefficient(p, p.arg(b, 2), column) != kNone;
    }
  } else {
    s.row_block = int64_t{s.mr} * 8;
  }
  s.grain = items_worth_a_thread(p, st, s);
  *out = s;
  return true;
}

}  // namespace tenon::kernelgen
