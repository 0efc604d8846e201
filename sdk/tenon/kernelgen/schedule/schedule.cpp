#include "tenon/kernelgen/schedule/schedule.h"

#include <algorithm>
#include <unordered_map>

#include "tenon/kernelgen/ir/stages.h"
#include "tenon/kernelgen/schedule/neighbours.h"
#include "tenon/kernelgen/schedule/prepare.h"
#include "tenon/kernelgen/schedule/repeats.h"

namespace tenon::kernelgen {

int64_t access_score(Pool& p, const Stage& s, uint32_t axis);
int64_t offset_score(Pool& p, ExprId offset, uint32_t axis);

namespace {

// The widest element that vectors of this kernel hold. Index arithmetic does not count: it is
// narrowed.
uint32_t widest_element(const Kernel& k, uint32_t least = 4) {
  uint32_t bytes = least;
  std::vector<ExprId> todo;
  for (const Stage& s : k.stages) {
    for (const auto* list : {&s.value, &s.init, &s.step, &s.merge, &s.final})
      todo.insert(todo.end(), list->begin(), list->end());
    if (s.a != kNone) todo.insert(todo.end(), {s.a, s.b});
    for (const View& v : s.store) bytes = std::max(bytes, size_of(k.buffers[v.buffer].type));
  }
  std::vector<bool> seen(k.pool.size());
  while (!todo.empty()) {
    const ExprId e = todo.back();
    todo.pop_back();
    if (e == kNone || seen[e]) continue;
    seen[e] = true;
    const Expr& x = k.pool.at(e);
    if (x.kind == X::kLoad || x.kind == X::kState || (x.kind == X::kOp && x.type != TENON_I64))
      bytes = std::max(bytes, size_of(x.type));
    for (ExprId a : k.pool.args(e)) todo.push_back(a);
  }
  return bytes;
}

int64_t likely(const Pool& p, ExprId e) {
  return std::max<int64_t>(1, p.likely(e));
}

// Rough operations per step or element; decides how far to unroll.
int64_t weight(const Pool& p, const Stage& s) {
  std::vector<ExprId> todo = s.kind == StageKind::kMap ? s.value : s.step;
  std::vector<bool> seen(p.size());
  int64_t n = 0;
  while (!todo.empty()) {
    const ExprId e = todo.back();
    todo.pop_back();
    if (e == kNone || seen[e]) continue;
    seen[e] = true;
    const Expr& x = p.at(e);
    if (x.kind == X::kOp && x.type != TENON_I64)
      n += (x.op >= TENON_S_EXP && x.op <= TENON_S_DIGAMMA) || x.op == kExp2 ? 12 : 1;
    for (ExprId a : p.args(e)) todo.push_back(a);
  }
  return n;
}

ExprId coefficient(Pool& p, ExprId offset, uint32_t axis) {
  std::vector<ExprId> c;
  ExprId rest;
  const uint32_t axes[] = {axis};
  return p.affine(offset, axes, &c, &rest) ? c[0] : kNone;
}

// Lead axes that traverse `offset` contiguously one after another (a filter's columns, rows and
// channels), in that order, until they have `enough` points.
std::vector<uint32_t> contiguous_axes(Kernel& k, ExprId offset, uint32_t without, int64_t enough,
                                      int64_t* points) {
  Pool& p = k.pool;
  std::vector<uint32_t> chain;
  *points = 1;
  for (bool found = true; found && *points < enough;) {
    found = false;
    for (uint32_t a : k.lead) {
      const auto extent = p.value(p.axes()[a].extent);
      if (a == without || contains(chain, a) || !extent || *extent <= 1 ||
          *points > INT32_MAX / *extent)
        continue;
      const ExprId step = coefficient(p, offset, a);
      if (step == kNone || !p.is_const(step, *points)) continue;
      chain.push_back(a);
      *points *= *extent;
      found = true;
      break;
    }
  }
  return chain;
}

// Replaces `chain` by the lead axis `joined`. map: the replacement of each of these axes, and
// further replacements.
uint32_t join_axes(Kernel& k, const std::vector<uint32_t>& chain, uint32_t joined,
                   const std::unordered_map<ExprId, ExprId>& map) {
  Pool& p = k.pool;
  Stage& stage = k.stages[0];
  for (ExprId& v : stage.value) v = p.substitute(v, map);
  for (View& v : stage.store) {
    for (ExprId& i : v.index) i = p.substitute(i, map);
    v.guard = p.substitute(v.guard, map);
  }
  for (auto* list : {&k.lead, &stage.space}) {
    std::erase_if(*list, [&](uint32_t a) { return contains(chain, a); });
    list->push_back(joined);
  }
  return joined;
}

// Each of the axes in terms of the axis that replaces them.
std::unordered_map<ExprId, ExprId> parts_of(Pool& p, const std::vector<uint32_t>& chain,
                                            uint32_t joined) {
  std::unordered_map<ExprId, ExprId> map;
  ExprId left = p.axis(joined);
  for (uint32_t a : chain) {
    const ExprId extent = p.axes()[a].extent;
    map[p.axis(a)] = a == chain.back() ? left : p.mod(left, extent);
    left = p.floordiv(left, extent);
  }
  return map;
}

// Joins the axes along which an operand is contiguous, so that squares of it can be transposed.
// ~0u: they are shorter than a vector.
uint32_t join_reads(Kernel& k, const Schedule& s, ExprId load) {
  Pool& p = k.pool;
  int64_t points = 1;
  const std::vector<uint32_t> chain =
      contiguous_axes(k, p.arg(load, 2), s.vector_axis, INT32_MAX, &points);
  const ExprId guard = p.arg(load, 0);
  if (guard != kNone &&
      std::ranges::any_of(chain, [&](uint32_t a) { return p.uses_axis(guard, a); }))
    return ~0u;
  std::vector<ExprId> c;
  ExprId rest;
  if (chain.size() < 2 || points < s.lanes || !p.affine(p.arg(load, 2), chain, &c, &rest))
    return ~0u;
  const uint32_t joined = p.add_axis(p.integer(points));
  std::unordered_map<ExprId, ExprId> map = parts_of(p, chain, joined);
  const ExprId offset[] = {p.add(rest, p.axis(joined))};
  map[load] = p.load(p.at(load).ref, p.type(load), offset, p.substitute(guard, map),
                     p.substitute(p.arg(load, 1), map));
  return join_axes(k, chain, joined, map);
}

// Of 16 bytes or more.
bool whole_register(const Target& t, uint32_t bytes) {
  return bytes == t.vector_bytes ||
         (t.dialect == Dialect::kCpp && (bytes == 16 || bytes == 32 || bytes == 64));
}

// A few channels become innermost in the result (a photograph's). The vectors of all channels are
// interleaved into the result; otherwise each would need a scattered store, and several threads
// would write the same cache lines.
void interleave(Kernel& k, const Target& t, Schedule* s) {
  constexpr int64_t kMost = 8;
  if (k.stages.size() != 1 || k.stages[0].store.size() != 1 || s->lanes < 4) return;
  Pool& p = k.pool;
  const View& store = k.stages[0].store[0];
  const DType type = k.buffers[store.buffer].type;
  const auto step = [&](uint32_t a) {
    const ExprId c = coefficient(p, store.index[0], a);
    return c == kNone ? std::nullopt : p.value(c);
  };
  const int64_t channels = step(s->vector_axis).value_or(0);
  const bool whole = whole_register(t, size_of(type) * s->lanes) && type != TENON_PRED &&
                     p.type(k.stages[0].value[0]) == type;
  if (store.guard != kNone || !whole || channels < 2 || channels > kMost) return;
  for (uint32_t a : k.lead) {
    if (a == s->vector_axis || step(a) != 1 || !p.is_const(p.axes()[a].extent, channels)) continue;
    s->interleaved_axis = a;
    s->block = 4096;
    const int64_t line = std::min(s->block, likely(p, p.axes()[s->vector_axis].extent));
    s->grain = std::max<int64_t>(1, 16384 / (line * channels));
  }
}

// One element-wise stage that repeats what it reads: the repeated vectors are interleaved.
bool repeats(Kernel& k, const Target& t, Schedule* s) {
  if (k.stages.size() != 1 || k.stages[0].store.size() != 1 || k.stages[0].store[0].guard != kNone)
    return false;
  Kernel split = k;
  if (!split_repeats(split, &s->vector_axis) ||
      likely(split.pool, split.pool.axes()[s->vector_axis].extent) < s->lanes)
    return false;
  interleave(split, t, s);
  if (s->interleaved_axis == ~0u) return false;
  k = std::move(split);
  return true;
}

// Lanes for squares of elements of so many bytes: at least as many as fill 16 bytes, unless wider
// elements of the kernel would then take more than two registers, or rows of wider squares more
// than one. A line of 8 bytes is no register.
uint32_t square_lanes(Kernel& k, const Target& t, const Schedule& s, std::span<const ExprId> loads,
                      uint32_t bytes) {
  Pool& p = k.pool;
  const uint32_t filled = 16 / bytes, lanes = s.lanes;
  const auto too_wide = [&](ExprId load) {
    const ExprId along = coefficient(p, p.arg(load, 2), s.vector_axis);
    const bool turned = along != kNone && !p.is_const(along, 0) && !p.is_const(along, 1);
    return turned && size_of(p.type(load)) * filled > t.vector_bytes;
  };
  const bool fits =
      widest_element(k, 1) * filled <= 2 * t.vector_bytes && std::ranges::none_of(loads, too_wide);
  return t.dialect == Dialect::kCpp && bytes * lanes < 16 && fits ? filled : lanes;
}

// One element-wise stage that reads an operand with a stride along the lanes, while the operand is
// contiguous along another lead axis: squares of it are transposed in registers.
bool transposes(Kernel& k, const Target& t, Schedule* s) {
  if (k.stages.size() != 1 || s->lanes < 4 || t.vector_bytes == 0) return false;
  Pool& p = k.pool;
  std::vector<ExprId> loads;
  for (ExprId v : k.stages[0].value) p.loads(v, &loads);
  for (ExprId l : loads) {
    // Rows of a tile are whole registers.
    const uint32_t bytes = size_of(p.type(l));
    Schedule squares = *s;
    squares.lanes = square_lanes(k, t, *s, loads, bytes);
    if (!whole_register(t, bytes * squares.lanes) || p.type(l) == TENON_PRED) continue;
    const ExprId along = coefficient(p, p.arg(l, 2), s->vector_axis);
    if (along == kNone || p.is_const(along, 0) || p.is_const(along, 1)) continue;
    if (likely(p, p.axes()[s->vector_axis].extent) < squares.lanes) continue;
    if (p.arg(l, 0) != kNone && !holds_between(p, p.arg(l, 0), s->vector_axis)) continue;
    const auto turn = [&](uint32_t a) {
      *s = squares;
      s->shape = Shape::kTranspose;
      s->tile_axis = a;
      s->block = s->lanes;
      s->grain = std::max<int64_t>(1, 16384 / (likely(p, p.axes()[a].extent) * s->block));
      return true;
    };
    const auto depends = [&](uint32_t a) {
      return p.arg(l, 0) != kNone && p.uses_axis(p.arg(l, 0), a);
    };
    for (uint32_t a : k.lead) {
      if (a == s->vector_axis || depends(a) || !p.is_const(coefficient(p, p.arg(l, 2), a), 1))
        continue;
      if (likely(p, p.axes()[a].extent) >= squares.lanes) return turn(a);
    }
    if (const uint32_t a = loads.size() == 1 ? join_reads(k, squares, l) : ~0u; a != ~0u)
      return turn(a);
  }
  return false;
}

// The group size of kernels whose work items are independent.
uint32_t alone(const Target& t) {
  return std::min<uint32_t>(t.group, 64);
}

// Neighbours along an axis on which all results are contiguous are for one work item, which then
// loads and stores them at once. Small kernels need the items more.
void widen(Kernel& k, const Target& t, Schedule* s) {
  constexpr int64_t kEnough = 1 << 12;
  Pool& p = k.pool;
  int64_t points = 1;
  for (uint32_t a : k.lead)
    points = std::min<int64_t>(INT32_MAX, points * likely(p, p.axes()[a].extent));
  if (t.wide_bytes == 0 || points < kEnough) return;
  const auto contiguous = [&](uint32_t a, const Stage& stage) {
    return item_score(p, stage, a) > 0 && std::ranges::all_of(stage.store, [&](const View& v) {
             return k.buffers[memory_of(k, v.buffer)].role == Role::kOut &&
                    p.is_const(coefficient(p, v.index[0], a), 1);
           });
  };
  for (uint32_t a : k.lead) {
    if (!p.is_const(p.mod(p.axes()[a].extent, p.integer(kNeighbours)), 0)) continue;
    if (!std::ranges::all_of(k.stages, [&](const Stage& st) { return contiguous(a, st); }))
      continue;
    s->vector_axis = a;
    s->wide = kNeighbours;
    return;
  }
}

std::vector<uint32_t> inner_axes(const Kernel& k, const Stage& s) {
  std::vector<uint32_t> out;
  for (const auto* list : {&s.space, &s.reduce}) {
    for (uint32_t a : *list) {
      if (!contains(k.lead, a)) out.push_back(a);
    }
  }
  return out;
}

}  // namespace

bool holds_between(Pool& p, ExprId guard, uint32_t axis) {
  const Expr x = p.at(guard);
  if (x.kind != X::kOp) return false;
  const ExprId a = p.arg(guard, 0), b = p.args(guard).size() > 1 ? p.arg(guard, 1) : kNone;
  if (x.op == TENON_S_AND) return holds_between(p, a, axis) && holds_between(p, b, axis);
  std::vector<ExprId> data;
  p.loads(guard, &data);
  if (x.op != TENON_S_CMP || x.ref == TENON_CMP_EQ || x.ref == TENON_CMP_NE || !data.empty())
    return false;
  return p.type(a) == TENON_I64 && coefficient(p, p.sub(a, b), axis) != kNone;
}

std::string_view name_of(Shape shape) {
  static constexpr std::string_view kNames[] = {"pointwise", "row reduction", "column reduction",
                                                "transpose", "contraction",   "convolution",
                                                "ordered",   "attention"};
  return kNames[static_cast<int>(shape)];
}

std::string to_text(const Schedule& s) {
  std::string out =
      "schedule " + std::string(name_of(s.shape)) + " {\n  lanes " + std::to_string(s.lanes);
  if (s.shape != Shape::kContraction && s.shape != Shape::kConvolution) {
    out += s.vector_axis == ~0u ? " along each stage's innermost axis"
                                : " along i" + std::to_string(s.vector_axis);
  }
  out += ", unroll " + std::to_string(s.unroll) + "\n  block " + std::to_string(s.block) +
         ", grain " + std::to_string(s.grain) + "\n";
  if (s.together) {
    out += "  groups of " + std::to_string(s.group) + " work together";
    out += s.warp != 0 ? ", in warps of " + std::to_string(s.warp) + "\n" : "\n";
  }
  if (s.wide > 1)
    out += "  " + std::to_string(s.wide) + " neighbours" +
           (s.together ? "" : " along i" + std::to_string(s.vector_axis)) + " at once\n";
  if (s.shape == Shape::kContraction) {
    auto list = [](const std::vector<uint32_t>& axes) {
      std::string t;
      for (uint32_t a : axes) t += (t.empty() ? "i" : ", i") + std::to_string(a);
      return t;
    };
    out += "  tile " + std::to_string(s.mr) + " rows of [" + list(s.rows) + "] x " +
           std::to_string(s.nr) + " vectors of [" + list(s.columns) + "]" +
           (s.together ? ", " + std::to_string(s.group_columns) + " items wide, " +
                             std::to_string(s.depth) + " steps deep"
                       : "") +
           (s.swapped ? ", operands swapped" : "") + "\n  row block " +
           std::to_string(s.row_block) +
           (s.panels > 1 ? ", panels " + std::to_string(s.panels) : "") +
           (s.sum_block != 0 ? ", steps " + std::to_string(s.sum_block) : "") + "\n  a " +
           (s.pack_a     ? "packed"
            : s.gather_a ? "gathered"
                         : "direct") +
           ", b " +
           (s.packed ? std::string("in panels ") +
                           (s.steps == 4   ? "of quads "
                            : s.steps == 2 ? "of pairs "
                                           : "") +
                           (s.widened ? "of bf16 " : "") +
                           (s.few_bits ? "of " + std::to_string(s.few_bits) + " bits " : "") +
                           "since load" +
                           (s.digits ? ", rows as digits in blocks of " + std::to_string(s.digits)
                                     : std::string())
            : s.pack_b ? (s.transpose_b ? "packed through transposed tiles" : "packed")
                       : "direct") +
           "\n";
  }
  if (s.shape == Shape::kConvolution) {
    out += "  " + std::string(s.depthwise ? "depthwise " : "") + "tile " + std::to_string(s.mr) +
           " rows x " + std::to_string(s.nr) + " vectors of i" + std::to_string(s.columns[0]) +
           (s.run_axis == ~0u ? "" : ", runs of i" + std::to_string(s.run_axis)) +
           "\n  row block " + std::to_string(s.row_block) + ", panels " +
           (s.panels == 0 ? "all" : std::to_string(s.panels)) + "\n";
  }
  if (s.shape == Shape::kAttention) {
    out += s.vector_axis == s.rows[0]
               ? "  tile " + std::to_string(s.mr) + " keys x " + std::to_string(s.nr) +
                     " vectors of queries, " + std::to_string(s.value_nr) + " columns of values\n"
               : "  tile " + std::to_string(s.mr) + " queries x " + std::to_string(s.nr) +
                     " vectors of keys, " + std::to_string(s.value_nr) + " of values\n";
  }
  if (s.nontemporal != 0)
    out += "  results past the caches from " + std::to_string(s.nontemporal) + " bytes on\n";
  if (s.lines) out += "  lines of states in scratch\n";
  if (s.interleaved_axis != ~0u)
    out += "  interleaved with i" + std::to_string(s.interleaved_axis) + "\n";
  if (s.tile_axis != ~0u) out += "  tiles along i" + std::to_string(s.tile_axis) + "\n";
  return out + "}\n";
}

ExprId result_bytes(Kernel& k) {
  ExprId bytes = k.pool.integer(0);
  for (const Buffer& b : k.buffers) {
    if (b.role != Role::kOut) continue;
    ExprId n = k.pool.integer(size_of(b.type));
    for (ExprId d : b.dims) n = k.pool.mul(n, d);
    bytes = k.pool.add(bytes, n);
  }
  return bytes;
}

uint32_t lanes_of(const Kernel& k, const Target& t) {
  return t.vector_bytes == 0 ? 1 : std::max<uint32_t>(1, t.vector_bytes / widest_element(k));
}

// 0: the results are known to be smaller.
int64_t nontemporal_from(Kernel& k, const Target& t) {
  if (t.stream_bytes == 0 || k.pool.range(result_bytes(k)).hi < t.stream_bytes) return 0;
  return t.stream_bytes;
}

bool schedule_pointwise(Kernel& k, const Target& t, Schedule* out, std::string*) {
  Pool& p = k.pool;
  Schedule s;
  s.shape = Shape::kPointwise;
  s.lanes = lanes_of(k, t);
  if (t.items() || k.lead.empty()) {
    s.lanes = 1;
    s.grain = 256;
    s.group = alone(t);
    widen(k, t, &s);
    *out = s;
    return true;
  }
  if (repeats(k, t, &s)) {
    *out = s;
    return true;
  }
  int64_t best = INT64_MIN;
  for (uint32_t a : k.lead) {
    int64_t score = 0;
    for (const Stage& st : k.stages) score += access_score(p, st, a);
    if (likely(p, p.axes()[a].extent) < s.lanes) score -= 2;
    if (score >= best) {
      best = score;
      s.vector_axis = a;
    }
  }
  const uint32_t chosen = s.vector_axis;
  if (transposes(k, t, &s)) {
    *out = s;
    return true;
  }
  // Loads that are transposed in registers cost less than strided stores.
  for (uint32_t a : k.lead) {
    if (a == chosen || k.stages.size() != 1 ||
        !p.is_const(coefficient(p, k.stages[0].store[0].index[0], a), 1))
      continue;
    s.vector_axis = a;
    if (transposes(k, t, &s)) {
      *out = s;
      return true;
    }
  }
  s.vector_axis = chosen;
  interleave(k, t, &s);
  if (s.interleaved_axis != ~0u) {
    *out = s;
    return true;
  }
  // A block is about the work of one item; the grain makes up for small rows.
  const int64_t extent = likely(p, p.axes()[s.vector_axis].extent);
  s.block = 1024;
  s.grain = std::max<int64_t>(1, 16384 / std::min<int64_t>(extent, s.block));
  s.nontemporal = nontemporal_from(k, t);
  *out = s;
  return true;
}

// The work items of a group share rows that are long enough, unless there are many rows and
// neighbours along a lead axis read adjacent memory.
static void share_rows(Kernel& k, const Target& t, int64_t row, Schedule* s) {
  Pool& p = k.pool;
  constexpr int64_t kShortRow = 32;
  if (row < kShortRow) return;
  int64_t rows = 1, inner = 0, lead = INT64_MIN;
  for (uint32_t a : k.lead) {
    rows = std::min<int64_t>(INT32_MAX, rows * likely(p, p.axes()[a].extent));
    int64_t score = 0;
    for (const Stage& st : k.stages) score += item_score(p, st, a);
    lead = std::max(lead, score);
  }
  for (const Stage& st : k.stages) {
    int64_t best = INT64_MIN;
    for (uint32_t a : inner_axes(k, st)) best = std::max(best, item_score(p, st, a));
    if (best != INT64_MIN) inner += best;
  }
  if (lead > inner && rows >= row) return;
  s->together = true;
  s->group = kShortRow;
  while (s->group < t.group && s->group * 2 < row) s->group *= 2;
  s->group = std::min(s->group, t.group);
  if (t.warp > 1 && s->group % t.warp == 0) s->warp = t.warp;
  // At least half of the items have neighbours to load.
  if (t.wide_bytes != 0 && 2 * row >= int64_t{s->group} * kNeighbours) s->wide = kNeighbours;
}

// Whether results do not depend on the kernel's own reductions. Results that do are written while
// their rows are in the cache, and storing them past it gained nothing.
bool one_visit(const Kernel& k) {
  for (const Stage& s : k.stages) {
    std::vector<ExprId> loads;
    for (ExprId e : s.value) k.pool.loads(e, &loads);
    if (std::ranges::any_of(loads, [&](ExprId l) {
          return k.buffers[memory_of(k, k.pool.at(l).ref)].role == Role::kTemp;
        }))
      return false;
  }
  return true;
}

// Points of those axes that are not the kernel's lead axes.
static int64_t inner_points(const Kernel& k, const std::vector<uint32_t>& axes) {
  int64_t n = 1;
  for (uint32_t a : axes) {
    if (contains(k.lead, a)) continue;
    n = std::min<int64_t>(INT32_MAX, n * likely(k.pool, k.pool.axes()[a].extent));
  }
  return n;
}

// access_score without what is rare in a long row: the mean that is stored after a sum, or the
// factor of a row, do not decide how the sum is computed.
static int64_t row_score(Kernel& k, const Stage& st, uint32_t axis, int64_t row) {
  constexpr int64_t kRare = 16;
  Pool& p = k.pool;
  const std::vector<uint32_t> inner = inner_axes(k, st);
  int64_t score = 0;
  for (ExprId off : offsets_of(p, st)) {
    std::vector<uint32_t> used;
    for (uint32_t a : inner) {
      if (p.uses_axis(off, a)) used.push_back(a);
    }
    if (inner_points(k, used) * kRare > row) score += offset_score(p, off, axis);
  }
  return score;
}

// How well lanes fit along the best inner axis of each stage.
static int64_t inner_score(Kernel& k, uint32_t lanes, int64_t row) {
  int64_t score = 0;
  for (const Stage& st : k.stages) {
    int64_t best = INT64_MIN;
    for (uint32_t a : inner_axes(k, st)) {
      const bool few = likely(k.pool, k.pool.axes()[a].extent) < lanes;
      best = std::max(best, row_score(k, st, a, row) - (few ? 8 : 0));
    }
    if (best != INT64_MIN) score += best;
  }
  return score;
}

static int64_t other_lead_points(const Kernel& k, uint32_t without) {
  int64_t n = 1;
  for (uint32_t a : k.lead) {
    if (a != without) n = std::min<int64_t>(INT32_MAX, n * likely(k.pool, k.pool.axes()[a].extent));
  }
  return n;
}

// Whether one pass over rows reduces the columns, so that rows may be read in the order of memory
// while the states of all columns wait in scratch.
static bool sums_lines(Kernel& k, uint32_t columns) {
  Pool& p = k.pool;
  bool reads = false, mapped = false;
  const std::vector<uint32_t>* rows = nullptr;
  std::vector<bool> written(k.buffers.size());
  for (const Stage& st : k.stages) {
    for (const View& v : st.store) written[v.buffer] = true;
  }
  for (const Stage& st : k.stages) {
    if (st.kind == StageKind::kMap) {
      if (!inner_axes(k, st).empty()) return false;
      mapped = true;
      continue;
    }
    if (mapped || st.kind != StageKind::kReduce || inner_points(k, st.space) != 1) return false;
    if (rows != nullptr && *rows != st.reduce) return false;
    rows = &st.reduce;
    std::vector<ExprId> loads;
    for (ExprId e : st.step) p.loads(e, &loads);
    for (ExprId l : loads) {
      reads |= p.is_const(coefficient(p, p.arg(l, 2), columns), 1);
      if (written[p.at(l).ref]) return false;  // by another pass
    }
  }
  return reads;
}

// Rows are read whole if more than one block of columns would otherwise walk down their own part.
// That part is then a short piece of each row, which no prefetcher sees coming.
static void in_lines(Kernel& k, const Target& t, int64_t row, Schedule* s) {
  constexpr int64_t kStates = 16 << 10;  // bytes of states, half of L1
  constexpr int64_t kFewRows = 8;
  const int64_t extent = likely(k.pool, k.pool.axes()[s->vector_axis].extent);
  // What is in L2 may be walked in any order.
  const bool large = row * std::min<int64_t>(extent, INT32_MAX) * 8 > t.l2_bytes;
  if (s->lanes < 2 || extent <= s->block || row < kFewRows || !large ||
      !sums_lines(k, s->vector_axis))
    return;
  int64_t bytes = 0;
  for (const Stage& st : k.stages) {
    for (ExprId e : st.init) bytes += size_of(k.pool.type(e));
  }
  s->lines = true;
  s->unroll = 1;
  s->block = kStates / std::max<int64_t>(bytes, 1) / s->lanes * s->lanes;
  // Threads share the columns, unless they have other lead axes to share.
  const int64_t least = 16 * int64_t{s->lanes};
  if (other_lead_points(k, s->vector_axis) < kFewRows)
    s->block = std::clamp((extent / 4 + least - 1) / least * least, least, s->block);
  s->grain = std::max<int64_t>(1, 8192 / (row * std::min(extent, s->block)));
}

bool schedule_reduction(Kernel& k, const Target& t, Schedule* out, std::string*) {
  Pool& p = k.pool;
  Schedule s;
  s.shape = Shape::kRowReduction;
  s.lanes = lanes_of(k, t);
  int64_t row = 1, steps = 0;
  for (const Stage& st : k.stages) {
    steps = std::max(steps, weight(p, st));
    row = std::max(row, inner_points(k, inner_axes(k, st)));
  }
  s.grain = std::max<int64_t>(1, 8192 / row);
  if (t.items()) {
    s.lanes = 1;
    s.grain = 64;
    s.group = alone(t);
    if (t.group > 1) share_rows(k, t, row, &s);
    *out = s;
    return true;
  }
  const int64_t along_inner = inner_score(k, s.lanes, row);
  int64_t along_lead = INT64_MIN;
  uint32_t lead = ~0u;
  for (uint32_t a : k.lead) {
    int64_t score = 0;
    for (const Stage& st : k.stages) score += row_score(k, st, a, row);
    if (likely(p, p.axes()[a].extent) < s.lanes) score -= 8;
    if (score >= along_lead) {
      along_lead = score;
      lead = a;
    }
  }
  // Enough chains to hide a reduction's latency; heavy steps need the registers themselves.
  s.unroll = s.lanes == 1 ? 1 : steps <= 8 || t.registers >= 32 ? 4 : 2;
  if (lead != ~0u && along_lead > along_inner) {
    s.shape = Shape::kColumnReduction;
    s.vector_axis = lead;
    const int64_t extent = likely(p, p.axes()[lead].extent);
    while (s.unroll > 1 && extent < int64_t{s.lanes} * s.unroll) s.unroll /= 2;
    s.block = int64_t{s.lanes} * s.unroll;
    s.grain = std::max<int64_t>(1, 8192 / (row * s.block));
    in_lines(k, t, row, &s);
  }
  if (s.shape == Shape::kRowReduction && one_visit(k)) s.nontemporal = nontemporal_from(k, t);
  *out = s;
  return true;
}

// Whether lanes may run along the axis of a scan: one state, to which each step applies one
// operation that may be reordered, along contiguous memory.
static bool scans_in_lanes(Kernel& k, const Stage& st, uint32_t lanes) {
  Pool& p = k.pool;
  if (st.kind != StageKind::kScan || st.reduce.size() != 1 || st.step.size() != 1) return false;
  return lanes > 1 && scanned_value(p, st) != kNone && access_score(p, st, st.reduce[0]) > 0 &&
         likely(p, p.axes()[st.reduce[0]].extent) >= lanes;
}

ExprId scanned_value(const Pool& p, const Stage& st) {
  const Expr& x = p.at(st.step[0]);
  static constexpr uint16_t kFree[] = {TENON_S_ADD, TENON_S_MUL, TENON_S_MAX,
                                       TENON_S_MIN, TENON_S_AND, TENON_S_OR};
  if (x.kind != X::kOp || std::ranges::find(kFree, x.op) == std::end(kFree)) return kNone;
  // A product of later factors may overflow, or be 0, where the whole product is neither.
  if (x.op == TENON_S_MUL && is_float(p.type(st.step[0]))) return kNone;
  const ExprId state = p.arg(st.step[0], 0), value = p.arg(st.step[0], 1);
  if (p.at(state).kind != X::kState) return p.at(value).kind == X::kState ? state : kNone;
  return p.at(value).kind != X::kState ? value : kNone;
}

// A scan that reads and writes memory backwards is turned: its axis then follows memory, and runs
// from its end.
static bool turn_scan(Kernel& k, uint32_t axis) {
  Pool& p = k.pool;
  Stage& st = k.stages[0];
  std::vector<ExprId> offsets, loads;
  for (const auto* list : {&st.step, &st.final}) {
    for (ExprId e : *list) p.loads(e, &loads);
  }
  for (ExprId l : loads) offsets.push_back(p.arg(l, 2));
  for (const View& v : st.store) offsets.push_back(v.index[0]);
  int64_t backwards = 0;
  for (ExprId off : offsets) {
    const ExprId step = coefficient(p, off, axis);
    if (step == kNone) continue;
    backwards += p.is_const(step, -1) ? 1 : p.is_const(step, 1) ? -1 : 0;
  }
  if (backwards <= 0) return false;
  const std::unordered_map<ExprId, ExprId> map = {
      {p.axis(axis), p.sub(p.sub(p.axes()[axis].extent, p.integer(1)), p.axis(axis))}};
  for (auto* list : {&st.step, &st.final}) {
    for (ExprId& e : *list) e = p.substitute(e, map);
  }
  for (View& v : st.store) {
    for (ExprId& i : v.index) i = p.substitute(i, map);
    v.guard = p.substitute(v.guard, map);
  }
  return true;
}

bool schedule_ordered(Kernel& k, const Target& t, Schedule* out, std::string*) {
  Pool& p = k.pool;
  const Stage& st = k.stages[0];
  Schedule s;
  s.shape = Shape::kOrdered;
  s.lanes = st.kind == StageKind::kSort || t.items() ? 1 : lanes_of(k, t);
  s.group = alone(t);
  int64_t best = 0, line = 1;
  for (uint32_t a : k.lead) {
    const int64_t score = access_score(p, st, a);
    if (s.lanes == 1 || score <= best || likely(p, p.axes()[a].extent) < s.lanes) continue;
    best = score;
    s.vector_axis = a;
    s.block = s.lanes * 4;
  }
  if (s.vector_axis == ~0u && scans_in_lanes(k, st, s.lanes)) {
    s.vector_axis = st.reduce[0];
    k.stages[0].from_end = turn_scan(k, s.vector_axis);
  }
  for (const auto* list : {&st.reduce, &st.fill}) {
    int64_t points = 1;
    for (uint32_t a : *list)
      points = std::min<int64_t>(INT32_MAX, points * likely(p, p.axes()[a].extent));
    line = std::max(line, points);
  }
  s.grain = std::max<int64_t>(1, 8192 / (line * std::max<int64_t>(1, s.block)));
  if (s.vector_axis == ~0u && st.kind == StageKind::kScan) s.lanes = 1;
  *out = s;
  return true;
}

// How many units of columns, from `least` to `most` (at least 1), a panel or tile has that leaves
// the fewest places empty; the most of several.
static uint32_t least_padded(std::optional<int64_t> columns, int64_t unit, uint32_t least,
                             uint32_t most) {
  uint32_t best = most;
  const auto padded = [&](uint32_t n) {
    const int64_t panel = n * unit;
    return (*columns + panel - 1) / panel * panel;
  };
  for (uint32_t n = most - 1; columns && n >= least; --n) {
    if (padded(n) < padded(best)) best = n;
  }
  return best;
}

// Lanes along queries: there are enough of them, and scores read nothing from memory, which lies
// along the keys.
static bool lanes_along_queries(Pool& p, const Stage& st, uint32_t queries, int64_t panel) {
  std::vector<ExprId> loads;
  p.loads(st.step[0], &loads);
  return loads.empty() && likely(p, p.axes()[queries].extent) >= panel;
}

static void along_queries(Pool& p, const Target& t, Schedule* s) {
  s->vector_axis = s->rows[0];
  s->nr = 2;
  const uint32_t most = t.registers >= 32 ? 12 : 6;
  s->mr = most;
  s->value_nr = least_padded(p.value(p.axes()[s->columns[0]].extent), 1, most / 2, most);
  // The scores of a panel of queries, and the keys and values of a block, stay in L1; the panels of
  // some more queries use what was packed of keys and values.
  s->block = 128;
  const int64_t panel = int64_t{s->nr} * s->lanes;
  const int64_t panels = (likely(p, p.axes()[s->rows[0]].extent) + panel - 1) / panel;
  s->row_block = std::min<int64_t>(4, panels) * panel;
}

static void along_keys(Pool& p, const Target& t, Schedule* s) {
  s->mr = t.registers >= 32 || t.isa == "avx2" ? 6 : 4;
  s->nr = t.registers >= 32 ? 4 : 2;
  // One vector alone would wait for its own products.
  s->value_nr = least_padded(p.value(p.axes()[s->columns[0]].extent), s->lanes, 2, s->nr);
  // Few queries are one short tile.
  if (const auto queries = p.value(p.axes()[s->rows[0]].extent); queries && *queries < s->mr)
    s->mr = static_cast<uint32_t>(std::max<int64_t>(1, *queries));
  // The scores of a block of queries and keys, and the keys and values they use, stay in L2.
  s->row_block = s->mr < 4 ? s->mr : s->mr * 16;
  s->block = 256;
}

bool schedule_attention(Kernel& k, const Target& t, Schedule* out, std::string* why) {
  Pool& p = k.pool;
  const Stage& st = k.stages[0];
  if (t.items() || t.vector_bytes < 16) {
    *why = "attention in one pass is generated for processors with vectors";
    return false;
  }
  Schedule s;
  s.shape = Shape::kAttention;
  s.lanes = t.vector_bytes / 4;
  s.columns = {st.space.back()};
  s.rows = {st.space[st.space.size() - 2]};
  if (lanes_along_queries(p, st, s.rows[0], 2 * s.lanes)) {
    along_queries(p, t, &s);
  } else {
    along_keys(p, t, &s);
  }
  const int64_t work = likely(p, p.axes()[st.reduce[0]].extent) * s.row_block;
  s.grain = std::max<int64_t>(1, 4096 / work);
  *out = s;
  return true;
}

bool schedule_kernel(Kernel& k, const Target& t, Schedule* out, std::string* why) {
  if (k.stages[0].kind == StageKind::kAttention) return schedule_attention(k, t, out, why);
  if (k.stages[0].ordered()) return schedule_ordered(k, t, out, why);
  bool inner = false;
  for (const Stage& s : k.stages) {
    if (s.panel != 0) return schedule_convolution(k, t, out, why);
    if (s.kind == StageKind::kContract) return schedule_contraction(k, t, out, why);
    inner |= s.kind == StageKind::kReduce || !inner_axes(k, s).empty();
  }
  return inner ? schedule_reduction(k, t, out, why) : schedule_pointwise(k, t, out, why);
}

}  // namespace tenon::kernelgen
