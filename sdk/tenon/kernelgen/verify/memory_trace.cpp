#include "tenon/kernelgen/verify/memory_trace.h"

#include <algorithm>

#include "tenon/kernelgen/ir/stages.h"
#include "tenon/kernelgen/verify/index_program.h"

namespace tenon::kernelgen {
namespace {

constexpr int64_t kMostCells = 1 << 22;

std::string buffer_name(uint32_t b) {
  return "b" + std::to_string(b);
}

// Elements of one memory and whose values they hold.
struct Cells {
  struct Cell {
    uint32_t owner = 0;  // 1 + the buffer whose element lies here; 0: nobody's
    uint32_t row = 0;
    uint64_t point = 0;  // of a pass, when the owner's value has no memory and is handed on by name
    bool read = false;   // what others stored was read here
  };
  std::vector<Cell> cells;
  bool by_row = false;  // every row has memory of its own
};

// One load or store: where, and under which condition.
struct Access {
  uint32_t buffer = 0;
  std::vector<uint32_t> index;  // slots
  uint32_t guard = ~0u;
  bool store = false, replaces = false;
};

// What a stage does at one point of some axes, in order.
struct Point {
  IndexProgram program;
  std::vector<Access> accesses;
};

class Trace {
 public:
  Trace(const Kernel& k, const Prepared* prepared, const TraceOptions& options, std::string* why)
      : k_(k),
        p_(k.pool),
        prepared_(prepared),
        options_(options),
        why_(*why),
        extents_(p_.axes().size(), 0) {
    for (const Stage& s : k_.stages) {
      for (const auto* list : {&s.space, &s.reduce, &s.fill}) {
        for (uint32_t a : *list) extents_[a] = std::max<int64_t>(0, size(p_.axes()[a].extent));
      }
    }
  }

  bool prepare_memory();
  Traced run_kernel();
  Traced run_passes(bool by_stage);

 private:
  struct StageTrace {
    std::vector<Point> points;  // of a kind's parts: see collect()
  };

  // ---- Sizes ----
  int64_t size(ExprId e) const { return p_.evaluate(e, options_.sizes); }
  int64_t extent(uint32_t axis) const { return extents_[axis]; }
  int64_t count(const std::vector<uint32_t>& axes) const {
    __int128 n = 1;
    for (uint32_t a : axes) n = std::min<__int128>(n * extent(a), INT64_MAX / 4);
    return static_cast<int64_t>(n);
  }

  // ---- What is visited ----
  Point point(const std::vector<ExprId>& values, const std::vector<View>& stores, bool replaces);
  void note_load(ExprId load, Point* to);
  void note_store(const View& view, bool replaces, Point* to);
  bool is_tracked(uint32_t buffer) const { return !memory_[memory_of(k_, buffer)].cells.empty(); }
  bool is_shared(uint32_t buffer) const {
    return buffer < options_.shared.size() && options_.shared[buffer];
  }
  bool may_leave(uint32_t buffer, std::span<const ExprId> index) const;
  StageTrace collect(const Stage& s);
  bool affordable(const std::vector<StageTrace>& all);

  // ---- Visiting ----
  template <class F>
  bool each(const std::vector<uint32_t>& axes, size_t at, Point* to, F f);
  bool visit(Point& point);
  bool touch(const Access& a, const IndexProgram& program);
  std::optional<int64_t> cell_of(const Access& a, const IndexProgram& program, bool* outside) const;
  bool load(const Access& a, Cells::Cell& cell);
  bool store(const Access& a, Cells& memory, Cells::Cell& cell);
  bool stage_rows(const Stage& s, StageTrace& trace, const std::vector<uint32_t>& inner);
  bool all_stored();
  bool run_pass(const Pass& pass, std::vector<StageTrace>& all, bool by_stage);
  // What is found may follow from sizes that do not fit each other. The trace is good for nothing
  // then, and goes on.
  bool misfit() {
    misfit_ = misfit_ || options_.kind == Sizes::kUnrelated;
    return misfit_;
  }
  bool bad(const std::string& fact) {
    if (misfit_) return true;
    why_ = "stage " + std::to_string(stage_) + ": " + fact;
    return false;
  }

  const Kernel& k_;
  const Pool& p_;
  const Prepared* prepared_;
  const TraceOptions& options_;
  std::string& why_;
  std::vector<int64_t> extents_;            // by axis
  std::vector<Cells> memory_;               // by buffer; empty: nobody in here writes it
  std::vector<std::vector<int64_t>> dims_;  // by buffer, of the kernel before it is prepared
  std::vector<bool> named_;  // by buffer: its values are handed on by name, not by memory
  size_t stage_ = 0;
  uint32_t row_ = 0;
  uint64_t point_ = 0;   // of a pass; 0: outside of its loops
  uint64_t serial_ = 0;  // point numbers below are taken
  bool backwards_ = false;
  bool misfit_ = false;
};

// ---- Memory ----

bool Trace::prepare_memory() {
  memory_.resize(k_.buffers.size());
  dims_.resize(k_.buffers.size());
  named_.assign(k_.buffers.size(), false);
  std::vector<bool> written(k_.buffers.size());
  for (const Stage& s : k_.stages) {
    for (const View& v : s.store) written[memory_of(k_, v.buffer)] = true;
  }
  int64_t all = 0;
  for (uint32_t b = 0; b < k_.buffers.size(); ++b) {
    const Buffer& x = k_.buffers[b];
    __int128 elements = 1, last = x.offset == kNone ? 0 : size(x.offset);
    for (size_t d = 0; d < x.dims.size(); ++d) {
      dims_[b].push_back(std::max<int64_t>(0, size(x.dims[d])));
      elements = std::min<__int128>(elements * dims_[b].back(), INT64_MAX);
      if (prepared_ != nullptr)
        last +=
            static_cast<__int128>(std::max<int64_t>(0, dims_[b].back() - 1)) * size(x.strides[d]);
    }
    const bool scratch = prepared_ != nullptr && prepared_->temp_elements[b] != kNone;
    if (scratch) {
      elements = size(prepared_->temp_elements[b]);
      named_[b] = !prepared_->temp_memory[b];
      memory_[b].by_row = true;
    } else if (prepared_ != nullptr) {
      elements = last + 1;
    }
    elements = std::max<__int128>(elements, 0);
    if (!written[b]) continue;
    // Each element is stored in a step, except where others store the rest: more than there are
    // steps need no memory.
    const int64_t most =
        is_shared(b) || named_[b] ? kMostCells : std::min(kMostCells, options_.most_steps);
    if (elements > most || (all += static_cast<int64_t>(elements)) > kMostCells) return false;
    // One cell where there are no elements, so that the memory counts as tracked.
    memory_[b].cells.resize(std::max<size_t>(1, static_cast<size_t>(elements)));
  }
  return true;
}

// ---- What is visited ----

// Bounds that the pool knows need no visit.
bool Trace::may_leave(uint32_t buffer, std::span<const ExprId> index) const {
  if (prepared_ != nullptr) return false;
  for (size_t d = 0; d < index.size(); ++d) {
    const Expr& x = p_.at(index[d]);
    if (x.kind == X::kAxis && p_.axes()[x.ref].extent == k_.buffers[buffer].dims[d]) continue;
    const Interval r = p_.range(index[d]);
    if (r.lo < 0 || r.hi >= dims_[buffer][d]) return true;
  }
  return false;
}

void Trace::note_load(ExprId load, Point* to) {
  const uint32_t buffer = p_.at(load).ref;
  const std::span<const ExprId> args = p_.args(load), index = args.subspan(2);
  if (!is_tracked(buffer) && (options_.kind != Sizes::kReal || !may_leave(buffer, index))) return;
  Access a{buffer, {}, args[0] == kNone ? ~0u : to->program.slot(args[0]), false, false};
  for (ExprId e : index) a.index.push_back(to->program.slot(e));
  to->accesses.push_back(std::move(a));
}

void Trace::note_store(const View& view, bool replaces, Point* to) {
  Access a{
      view.buffer, {}, view.guard == kNone ? ~0u : to->program.slot(view.guard), true, replaces};
  for (ExprId e : view.index) a.index.push_back(to->program.slot(e));
  to->accesses.push_back(std::move(a));
}

// Results are stored one after the other, each after what it is computed from.
Point Trace::point(const std::vector<ExprId>& values, const std::vector<View>& stores,
                   bool replaces) {
  Point out{IndexProgram(p_, options_.sizes), {}};
  for (size_t i = 0; i < std::max(values.size(), stores.size()); ++i) {
    std::vector<ExprId> loads;
    if (i < values.size() && values[i] != kNone) p_.loads(values[i], &loads);
    if (i < stores.size()) {
      for (ExprId e : stores[i].index) p_.loads(e, &loads);
      if (stores[i].guard != kNone) p_.loads(stores[i].guard, &loads);
    }
    for (ExprId l : loads) note_load(l, &out);
    if (i < stores.size()) note_store(stores[i], replaces, &out);
  }
  return out;
}

// By kind: Map: value. Reduce, Contract: step, final. Scan: step with store. Scatter: fill, update.
// Sort: keys, result. Attention: scores, values, final.
Trace::StageTrace Trace::collect(const Stage& s) {
  StageTrace t;
  const std::vector<View> none;
  const std::vector<View>& stores = s.store;
  switch (s.kind) {
    case StageKind::kMap:
      t.points = {point(s.value, stores, s.overlay)};
      break;
    case StageKind::kReduce:
    case StageKind::kScan:
      t.points = {point(s.step, none, false), point(s.final, stores, false)};
      break;
    case StageKind::kContract:
      t.points = {point({s.a, s.b}, none, false), point(s.final, stores, false)};
      break;
    case StageKind::kScatter:
      t.points = {point(s.init, {stores[0]}, false), point(s.step, {stores[1]}, true)};
      break;
    case StageKind::kSort:
      t.points = {point(s.step, none, false), point(s.value, stores, false)};
      break;
    case StageKind::kAttention:
      t.points = {point({s.a, s.b}, none, false), point(s.value, none, false),
                  point(s.final, stores, false)};
      break;
  }
  return t;
}

bool Trace::affordable(const std::vector<StageTrace>& all) {
  __int128 steps = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const Stage& s = k_.stages[i];
    const __int128 space = count(s.space), sum = count(s.reduce), fill = count(s.fill);
    for (size_t n = 0; n < all[i].points.size(); ++n) {
      if (all[i].points[n].accesses.empty()) continue;
      const __int128 points = space * sum * (s.fill.empty() ? 1 : std::max<__int128>(1, fill));
      steps += points * static_cast<__int128>(all[i].points[n].accesses.size());
    }
  }
  return steps <= options_.most_steps;
}

// ---- Visiting ----

template <class F>
bool Trace::each(const std::vector<uint32_t>& axes, size_t at, Point* to, F f) {
  if (at == axes.size()) return f();
  const int64_t n = extent(axes[at]);
  for (int64_t i = 0; i < n; ++i) {
    to->program.bind(axes[at], backwards_ ? n - 1 - i : i);
    if (!each(axes, at + 1, to, f)) return false;
  }
  return true;
}

std::optional<int64_t> Trace::cell_of(const Access& a, const IndexProgram& program,
                                      bool* outside) const {
  *outside = false;
  int64_t cell = 0;
  for (size_t d = 0; d < a.index.size(); ++d) {
    if (!program.is_known(a.index[d])) return std::nullopt;
    const int64_t at = program.value(a.index[d]);
    const int64_t limit = prepared_ != nullptr
                              ? static_cast<int64_t>(memory_[memory_of(k_, a.buffer)].cells.size())
                              : dims_[a.buffer][d];
    if (at < 0 || at >= limit) *outside = true;
    cell = prepared_ != nullptr ? at : cell * dims_[a.buffer][d] + at;
  }
  return cell;
}

bool Trace::touch(const Access& a, const IndexProgram& program) {
  bool sure = true;
  if (a.guard != ~0u) {
    sure = program.is_known(a.guard);
    if (sure && program.value(a.guard) == 0) return true;
  }
  bool outside = false;
  const std::optional<int64_t> at = cell_of(a, program, &outside);
  if (!at || !sure) return true;
  if (outside && options_.kind != Sizes::kReal) return true;
  if (outside)
    return bad((a.store ? "stores beyond the end of " : "reads beyond the end of ") +
               buffer_name(a.buffer));
  if (!is_tracked(a.buffer)) return true;
  Cells& memory = memory_[memory_of(k_, a.buffer)];
  Cells::Cell& cell = memory.cells[static_cast<size_t>(*at)];
  return a.store ? store(a, memory, cell) : load(a, cell);
}

bool Trace::load(const Access& a, Cells::Cell& cell) {
  const std::string what = "element of " + buffer_name(a.buffer);
  if (cell.owner == 0 && is_shared(a.buffer)) return cell.read = true;
  if (cell.owner == 0) return misfit() || bad("reads an " + what + " that nobody has stored yet");
  if (cell.row != row_) return bad("reads an " + what + " that another row stores");
  if (cell.owner != a.buffer + 1)
    return bad("reads an " + what + " where " + buffer_name(cell.owner - 1) + " lies now");
  if (named_[a.buffer] && cell.point != 0 && cell.point != point_)
    return bad("reads an " + what + " that was kept for its own point only");
  return true;
}

bool Trace::store(const Access& a, Cells& memory, Cells::Cell& cell) {
  if (cell.read)
    return bad("stores an element of " + buffer_name(a.buffer) +
               " that it read before others stored it");
  if (memory_of(k_, a.buffer) != a.buffer && is_shared(memory_of(k_, a.buffer))) {
    return bad("stores " + buffer_name(a.buffer) + " where other kernels store parts of " +
               buffer_name(memory_of(k_, a.buffer)));
  }
  const bool own_row = cell.owner == 0 || cell.row == row_;
  if (!own_row && !memory.by_row)
    return misfit() ||
           bad("stores an element of " + buffer_name(a.buffer) + " that another row stores too");
  const bool again = own_row && cell.owner == a.buffer + 1;
  if (again && !a.replaces)
    return misfit() || bad("stores an element of " + buffer_name(a.buffer) + " a second time");
  if (own_row && cell.owner != 0 && memory_of(k_, a.buffer) + 1 == cell.owner && !again) {
    return bad("stores an element of " + buffer_name(a.buffer) + " where " +
               buffer_name(cell.owner - 1) + " lies");
  }
  cell = {a.buffer + 1, row_, point_, false};
  return true;
}

bool Trace::visit(Point& point) {
  point.program.run();
  for (const Access& a : point.accesses) {
    if (!touch(a, point.program)) return false;
  }
  return true;
}

// The stage over all of its inner points, in the row whose axes are bound already.
bool Trace::stage_rows(const Stage& s, StageTrace& t, const std::vector<uint32_t>& inner) {
  std::vector<Point>& p = t.points;
  // Visits points[n] for all of `axes`, at every point of the inner space.
  auto over = [&](size_t n, const std::vector<uint32_t>& axes) {
    if (p[n].accesses.empty()) return true;
    std::vector<uint32_t> all = inner;
    all.insert(all.end(), axes.begin(), axes.end());
    return each(all, 0, &p[n], [&] { return visit(p[n]); });
  };
  switch (s.kind) {
    case StageKind::kMap:
      return over(0, {});
    case StageKind::kReduce:
    case StageKind::kContract:
      return over(0, s.reduce) && over(1, {});
    case StageKind::kScan:
      return over(0, s.reduce) && over(1, s.reduce);
    case StageKind::kScatter:
      return over(0, s.fill) && over(1, s.reduce);
    case StageKind::kSort:
      if (!over(0, s.reduce)) return false;
      p[1].program.bind_unknown(s.reduce[0]);
      return over(1, s.fill);
    case StageKind::kAttention: {
      std::vector<uint32_t> products = s.reduce;
      products.insert(products.end(), s.fill.begin(), s.fill.end());
      return over(0, products) && over(1, s.reduce) && over(2, {});
    }
  }
  return true;
}

bool Trace::all_stored() {
  for (uint32_t b = 0; b < k_.buffers.size(); ++b) {
    const Buffer& x = k_.buffers[b];
    if (x.role != Role::kOut || !is_tracked(b) || is_shared(b)) continue;
    __int128 elements = 1, stored = 0;
    for (int64_t d : dims_[b]) elements *= d;
    for (const Cells::Cell& c : memory_[b].cells) {
      stored += c.owner == b + 1;
      if (c.owner != 0 && c.owner != b + 1)
        return bad("leaves " + buffer_name(c.owner - 1) + " where " + buffer_name(b) + " is to be");
    }
    if (stored != elements && !misfit())
      return bad("an element of " + buffer_name(b) + " is never stored");
  }
  return true;
}

Traced Trace::run_kernel() {
  std::vector<StageTrace> all;
  for (const Stage& s : k_.stages) all.push_back(collect(s));
  if (!affordable(all)) return Traced::kUndecided;
  std::vector<int64_t> at(k_.lead.size(), 0);
  const int64_t rows = count(k_.lead);
  for (row_ = 0; static_cast<int64_t>(row_) < rows; ++row_) {
    int64_t rest = row_;
    for (size_t d = k_.lead.size(); d-- > 0; rest /= extent(k_.lead[d]))
      at[d] = rest % extent(k_.lead[d]);
    for (stage_ = 0; stage_ < k_.stages.size(); ++stage_) {
      for (Point& p : all[stage_].points) {
        for (size_t d = 0; d < at.size(); ++d) p.program.bind(k_.lead[d], at[d]);
      }
      if (!stage_rows(k_.stages[stage_], all[stage_], inner_axes(k_, k_.stages[stage_].space)))
        return Traced::kWrong;
    }
  }
  stage_ = k_.stages.size() - 1;
  return !all_stored() ? Traced::kWrong : misfit_ ? Traced::kUndecided : Traced::kRight;
}

// ---- Loops of a prepared kernel ----

bool Trace::run_pass(const Pass& pass, std::vector<StageTrace>& all, bool by_stage) {
  bool nested = false;
  for (size_t i : pass.stages)
    nested |= k_.stages[i].kind == StageKind::kReduce && !pass.space.empty();
  std::vector<uint32_t> outer = nested ? pass.space : std::vector<uint32_t>{};
  std::vector<uint32_t> loops = nested ? std::vector<uint32_t>{} : pass.space;
  loops.insert(loops.end(), pass.reduce.begin(), pass.reduce.end());
  // One program of all stages' axes would be simpler, but each stage has its own: all of them are
  // bound.
  auto bind = [&](uint32_t axis, int64_t value) {
    for (size_t i : pass.stages) {
      for (Point& p : all[i].points) p.program.bind(axis, value);
    }
  };
  auto walk = [&](auto&& self, const std::vector<uint32_t>& axes, size_t at, auto&& f) -> bool {
    if (at == axes.size()) return f();
    const int64_t n = extent(axes[at]);
    for (int64_t i = 0; i < n; ++i) {
      bind(axes[at], backwards_ ? n - 1 - i : i);
      if (!self(self, axes, at + 1, f)) return false;
    }
    return true;
  };
  const bool looped = !loops.empty() || !outer.empty();
  uint64_t number = 0;
  auto body = [&](size_t i) {
    stage_ = i;
    return visit(all[i].points[0]);
  };
  // The stages from..to at every point of the loops; point numbers of one turn of the outer loops
  // are the same for all.
  auto turn = [&](size_t from, size_t to) {
    number = serial_;
    return walk(walk, loops, 0, [&] {
      point_ = looped ? ++number : 0;
      return std::all_of(pass.stages.begin() + static_cast<std::ptrdiff_t>(from),
                         pass.stages.begin() + static_cast<std::ptrdiff_t>(to), body);
    });
  };
  return walk(walk, outer, 0, [&] {
    bool good = true;
    for (size_t i = 0; by_stage && good && i < pass.stages.size(); ++i) good = turn(i, i + 1);
    if (!by_stage) good = turn(0, pass.stages.size());
    serial_ += static_cast<uint64_t>(count(loops)) + 2;
    point_ = outer.empty() ? 0 : serial_ - 1;
    for (size_t i : pass.stages) {
      stage_ = i;
      good = good && (k_.stages[i].kind != StageKind::kReduce || visit(all[i].points[1]));
    }
    return good;
  });
}

Traced Trace::run_passes(bool by_stage) {
  std::vector<StageTrace> all;
  for (const Stage& s : k_.stages) all.push_back(collect(s));
  if (!affordable(all)) return Traced::kUndecided;
  backwards_ = by_stage;
  std::vector<int64_t> at(k_.lead.size(), 0);
  const int64_t rows = count(k_.lead);
  for (row_ = 0; static_cast<int64_t>(row_) < rows; ++row_) {
    int64_t rest = row_;
    for (size_t d = k_.lead.size(); d-- > 0; rest /= extent(k_.lead[d]))
      at[d] = rest % extent(k_.lead[d]);
    for (StageTrace& t : all) {
      for (Point& p : t.points) {
        for (size_t d = 0; d < at.size(); ++d) p.program.bind(k_.lead[d], at[d]);
      }
    }
    for (const Pass& pass : prepared_->passes) {
      if (!run_pass(pass, all, by_stage)) return Traced::kWrong;
    }
  }
  stage_ = k_.stages.size() - 1;
  return !all_stored() ? Traced::kWrong : misfit_ ? Traced::kUndecided : Traced::kRight;
}

}  // namespace

Traced trace_kernel(const Kernel& kernel, const TraceOptions& options, std::string* why) {
  Trace trace(kernel, nullptr, options, why);
  return trace.prepare_memory() ? trace.run_kernel() : Traced::kUndecided;
}

Traced trace_prepared(const Prepared& prepared, const TraceOptions& options, bool by_stage,
                      std::string* why) {
  // Ordered stages and contractions have loops of their own, which are checked where they run.
  const Kernel& k = prepared.kernel;
  const bool rows = std::ranges::all_of(k.stages, [](const Stage& s) {
    return s.kind == StageKind::kMap || s.kind == StageKind::kReduce;
  });
  Trace trace(k, &prepared, options, why);
  return rows && trace.prepare_memory() ? trace.run_passes(by_stage) : Traced::kUndecided;
}

}  // namespace tenon::kernelgen
