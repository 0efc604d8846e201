// Schedules of convolutions whose operands layout.h laid out: rows are output pixels, columns are
// output channels.
#include <algorithm>
#include <unordered_map>

#include "tenon/kernelgen/schedule/contraction.h"
#include "tenon/kernelgen/schedule/convolution.h"
#include "tenon/kernelgen/schedule/schedule.h"

namespace tenon::kernelgen {

ContractAxes contract_axes(const Pool& p, const Stage& s) {
  ContractAxes out;
  for (uint32_t axis : s.space) {
    const bool a = p.uses_axis(s.a, axis), b = p.uses_axis(s.b, axis);
    (a && b ? out.both : a ? out.only_a : out.only_b).push_back(axis);
  }
  return out;
}

int64_t likely_size(const Pool& p, ExprId e) {
  return std::max<int64_t>(1, p.likely(e));
}

TileShape convolution_tile(const Target& t, uint32_t lanes, int64_t m, int64_t n, uint32_t nr) {
  // Tiles that fit the registers: rows x vectors accumulators, the vectors of b and one broadcast,
  // and no more row pointers than a core has registers for.
  static constexpr TileShape kMany[] = {{6, 4}, {8, 3}, {7, 3},  {10, 2}, {9, 2},
                                        {8, 2}, {7, 2}, {10, 1}, {9, 1},  {8, 1}};
  static constexpr TileShape kFew[] = {{6, 2}, {5, 2}, {4, 2}, {8, 1}, {7, 1}, {6, 1}};
  static constexpr TileShape kNoFma[] = {{4, 2}, {3, 2}, {6, 1}, {4, 1}};
  const std::span<const TileShape> shapes = t.registers >= 32 ? std::span<const TileShape>(kMany)
                                            : t.fma           ? std::span<const TileShape>(kFew)
                                                              : std::span<const TileShape>(kNoFma);
  TileShape best;
  double least = 0;
  for (const TileShape& s : shapes) {
    if (nr != 0 && s.nr != nr) continue;
    const int64_t columns = int64_t{s.nr} * lanes;
    const double tiles = static_cast<double>((m + s.mr - 1) / s.mr) *
                         static_cast<double>((n + columns - 1) / columns);
    // Besides its products a step loads nr vectors and broadcasts mr numbers, mostly hidden behind
    // the products.
    const double cost = tiles * (s.mr * s.nr + 0.15 * s.mr + 0.4 * s.nr);
    if (least == 0 || cost < least) {
      least = cost;
      best = s;
    }
  }
  return best;
}

// Finds the axis of the filter along which a row reads what its neighbour read `step` points
// before.
static void find_run(Pool& p, const Stage& st, Schedule* s) {
  if (s->rows.empty()) return;
  const uint32_t row = s->rows.back();
  const ExprId offset = p.arg(st.b, 2), guard = p.arg(st.b, 0);
  for (uint32_t tap : st.reduce) {
    const auto points = p.value(p.axes()[tap].extent);
    const uint32_t axes[] = {row, tap};
    std::vector<ExprId> x, w;
    ExprId rest;
    if (!points || *points < 2 || !p.affine(offset, axes, &x, &rest) ||
        !p.affine(p.arg(st.a, 2), axes, &w, &rest))
      continue;
    const auto of_row = p.value(x[0]), of_tap = p.value(x[1]);
    if (!of_row || !of_tap || *of_row <= 0 || *of_tap <= 0 || *of_row % *of_tap != 0 ||
        *of_row / *of_tap > *points)
      continue;
    const int64_t step = *of_row / *of_tap;
    const std::unordered_map<ExprId, ExprId> next = {
        {p.axis(row), p.add(p.axis(row), p.integer(1))}};
    const std::unordered_map<ExprId, ExprId> along = {
        {p.axis(tap), p.add(p.axis(tap), p.integer(step))}};
    if (p.substitute(offset, next) != p.substitute(offset, along)) continue;
    if (guard != kNone && p.substitute(guard, next) != p.substitute(guard, along)) continue;
    s->run_axis = tap;
    s->run_step = step;
    // Lines are cut into strips of about equal length.
    const int64_t line = likely_size(p, p.axes()[row].extent), strips = (line + s->mr - 1) / s->mr;
    s->mr = static_cast<uint32_t>((line + strips - 1) / strips);
    return;
  }
}

bool schedule_convolution(Kernel& k, const Target& t, Schedule* out, std::string* why) {
  Pool& p = k.pool;
  Stage st = k.stages[0];
  const DType acc = p.type(st.a);
  const ExprId a = narrow_of(p, st.a), b = narrow_of(p, st.b);
  Schedule s;
  if (acc == TENON_I32 && b != kNone) {
    if (a != kNone) s.steps = p.type(a) == TENON_I8 ? 4 : 2;
    st.a = a != kNone ? a : st.a;
    st.b = b;
  }
  if (k.stages.size() != 1 || t.vector_bytes == 0 || p.at(st.a).kind != X::kLoad ||
      p.at(st.b).kind != X::kLoad) {
    *why = "a convolution in panels runs on vectors and with its epilogue only";
    return false;
  }
  const ContractAxes axes = contract_axes(p, st);
  s.shape = Shape::kConvolution;
  s.lanes = t.vector_bytes / size_of(acc);
  s.depthwise = axes.only_a.empty();
  for (uint32_t a : s.depthwise ? axes.both : axes.only_a) {
    // The axis that is split into panel and column; the others are outer.
    std::vector<ExprId> c;
    ExprId rest;
    const uint32_t one[] = {a};
    if (s.depthwise || !p.affine(p.arg(st.a, 2), one, &c, &rest) || p.is_const(c[0], s.steps))
      s.columns.push_back(a);
  }
  s.rows = axes.only_b;
  if (s.columns.size() != 1) {
    *why = "a convolution in panels has one axis of columns";
    return false;
  }
  s.nr = st.panel / s.lanes;
  int64_t m = 1, points = 1;
  for (uint32_t a : s.rows) m *= likely_size(p, p.axes()[a].extent);
  for (uint32_t a : st.reduce) points *= likely_size(p, p.axes()[a].extent);
  const int64_t n = likely_size(p, p.axes()[s.columns[0]].extent);
  const int64_t panels = (n + st.panel - 1) / st.panel;
  s.mr = s.depthwise ? (t.registers >= 32 ? 8 : 4) : convolution_tile(t, s.lanes, m, n, s.nr).mr;
  if (s.depthwise) find_run(p, st, &s);
  int64_t outer = 1;
  for (uint32_t a : st.space) {
    const bool row = std::find(s.rows.begin(), s.rows.end(), a) != s.rows.end();
    if (!row && a != s.columns[0]) outer *= likely_size(p, p.axes()[a].extent);
  }
  // If all weights stay in L2, run all panels for one block of rows; else run one panel for block
  // after block.
  const int64_t weights = points * panels * int64_t{st.panel} * size_of(p.type(st.a));
  // Items that share the work of one small image among threads.
  constexpr int64_t kItems = 16;
  s.panels = s.depthwise || weights <= t.l2_bytes / 2 ? 0 : 1;
  if (s.panels != 0) {
    // Neighbouring panels of a strip share one table of addresses and write longer runs of the
    // result.
    const int64_t fit = t.l2_bytes / 2 / std::max<int64_t>(1, weights / panels);
    s.panels = std::clamp<int64_t>(panels / kItems, 1, std::max<int64_t>(fit, 1));
  }
  const int64_t together = s.panels == 0 ? panels : s.panels;
  const int64_t split =
      std::max<int64_t>(1, kItems / (outer * ((panels + together - 1) / together)));
  const int64_t work = points * (s.depthwise ? n : together * st.panel);  // of one row
  constexpr int64_t kWorthAnItem = 100000;
  int64_t rows = std::max((m + split - 1) / split, kWorthAnItem / work);
  rows =
      std::min<int64_t>(rows, s.depthwise ? std::max<int64_t>(s.mr, 65536 * points / work) : 192);
  s.row_block = (std::max<int64_t>(rows, 1) + s.mr - 1) / s.mr * s.mr;
  s.grain = std::max<int64_t>(1, kWorthAnItem / 4 / std::max<int64_t>(1, work * s.row_block));
  *out = s;
  return true;
}

}  // namespace tenon::kernelgen
