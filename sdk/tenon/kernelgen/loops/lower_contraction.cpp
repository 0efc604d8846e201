// Contractions: a register tile of rows x vectors, operands packed into panels where that pays, and
// the final values as loops over the tile while it is in L1. A convolution has a guarded affine
// operand, which packing evaluates.
#include <algorithm>
#include <span>

#include "tenon/kernelgen/loops/lower_internal.h"
#include "tenon/kernelgen/schedule/contraction.h"

namespace tenon::kernelgen {
namespace {

class Contraction {
 public:
  Contraction(Emitter& e, const Schedule& s)
      : e_(e), s_(s), p_(e.pool()), st_(e.prepared().kernel.stages[0]) {}

  bool run() {
    a_ = s_.swapped ? st_.b : st_.a;
    b_ = s_.swapped ? st_.a : st_.b;
    acc_ = read_ = p_.type(a_);
    if (s_.steps > 1) {
      read_ = operand_type(acc_, s_.steps, false);
      const ExprId narrow = narrow_of(p_, a_);
      a_ = p_.convert(narrow != kNone ? narrow : a_, read_);
    }
    if (s_.steps > 1 || s_.widened) b_ = narrow_of(p_, b_);
    if (s_.few_bits != 0) {
      few_ = *few_bits_of(e_.prepared().kernel, b_);
      b_ = few_.q;
    }
    w_ = s_.lanes;
    panel_ = int64_t{s_.nr} * w_;
    e_.width = s_.lanes;
    order_ = st_.reduce;
    if (tiled() && !s_.pack_a) chain(p_, p_.arg(a_, 2), &order_, &a_step_, &a_rest_);
    row_ = s_.rows[0];
    m_ = p_.axes()[row_].extent;
    n_ = p_.integer(1);
    for (uint32_t c : s_.columns) n_ = p_.mul(n_, p_.axes()[c].extent);
    k_ = p_.integer(1);
    for (uint32_t r : st_.reduce) k_ = p_.mul(k_, p_.axes()[r].extent);
    std::vector<uint32_t> outer;
    for (uint32_t axis : st_.space) {
      if (axis != row_ && std::find(s_.columns.begin(), s_.columns.end(), axis) == s_.columns.end())
        outer.push_back(axis);
    }
    const ExprId panels = p_.ceildiv(n_, panel_), blocks = p_.ceildiv(m_, s_.row_block);
    loop_over_tiles(e_, s_, blocks, panels, outer,
                    [&](Val block, Val panel) { one_item(block, panel); });
    return true;
  }

 private:
  void one_item(Val block, Val panel) {
    const Val n = e_.scalar(n_), m = e_.scalar(m_);
    j0_ = e_.mul(panel, e_.integer(panel_));
    jn_ = e_.min(n, e_.add(j0_, e_.integer(panel_)));
    const Val i0 = e_.mul(block, e_.integer(s_.row_block));
    const Val in = e_.min(m, e_.add(i0, e_.integer(s_.row_block)));
    if (s_.pack_b) pack_b();
    if (s_.packed) find_panel();
    Node tile;
    tile.kind = NodeKind::kLocal;
    tile.type = acc_;
    tile.bits = int64_t{s_.mr} * panel_;
    e_.emit(e_.depth(), tile);
    e_.loop(Bind::kSerial, i0, in, s_.mr, false, [&](Val i) { strip(i, in); });
  }

  // Whether the tile is a function over rows and a panel; else it is loops of this kernel over
  // loads of any kind.
  bool tiled() const { return s_.pack_b || s_.packed; }

  // Where the panel of this item begins, and the distance between its steps.
  void find_panel() {
    const uint32_t first = p_.add_axis(n_);
    e_.bind(first, j0_);
    std::unordered_map<ExprId, ExprId> map = {{p_.axis(s_.columns[0]), p_.axis(first)}};
    for (uint32_t r : st_.reduce) map[p_.axis(r)] = p_.integer(0);
    panel_at_ = e_.scalar(p_.substitute(p_.arg(b_, 2), map));
    if (s_.few_bits != 0) {
      scales_at_ = e_.scalar(p_.substitute(p_.arg(few_.scale, 2), map));
      if (few_.zero != kNone)
        zeros_at_ = p_.is_const(few_.zero) ? e_.scalar(few_.zero)
                                           : e_.scalar(p_.substitute(p_.arg(few_.zero, 2), map));
    }
    stride_ = int64_t{panel_of(e_.prepared().kernel, b_)} * s_.steps;
  }

  // ---- Packing: Maps into scratch ----

  template <class F>
  void nest(const std::vector<uint32_t>& axes, size_t count, F body, size_t at = 0) {
    if (at == count) return body();
    e_.loop(Bind::kSerial, e_.integer(0), e_.scalar(p_.axes()[axes[at]].extent), 1, false,
            [&](Val v) {
              e_.bind(axes[at], v);
              nest(axes, count, body, at + 1);
            });
  }

  // A loop over the lanes of `axis` in [lo, hi): full vectors, then one masked vector.
  template <class F>
  void lanes(uint32_t axis, Val lo, Val hi, std::optional<int64_t> extent, F body) {
    e_.vector_axis = axis;
    auto run = [&](Val at, bool masked) {
      at.varies = true;
      e_.bind(axis, at);
      if (masked) mask_below(e_, axis, hi);
      body(at);
      e_.mask = kNoValue;
    };
    Val rest = lo;
    if (!extent || *extent >= w_) {
      e_.loop(Bind::kVector, lo, hi, w_, true, [&](Val at) { run(at, false); });
      if (!(extent && *extent % w_ == 0)) {
        const Val n = e_.sub(hi, lo);
        rest = e_.add(lo, e_.sub(n, e_.mod(n, e_.integer(w_))));
      }
    }
    if (!(extent && *extent % w_ == 0))
      e_.loop(Bind::kVector, rest, hi, w_, false, [&](Val at) { run(at, w_ > 1); });
    e_.vector_axis = ~0u;
  }

  ExprId linear_k() {
    ExprId k = p_.integer(0);
    for (uint32_t r : order_) k = p_.add(p_.mul(k, p_.axes()[r].extent), p_.axis(r));
    return k;
  }

  Val scratch(ExprId base_bytes, DType t) {
    return e_.scalar(p_.floordiv(base_bytes, p_.integer(size_of(t))));
  }

  void pack_b() {
    e_.comment("stage 0 Pack b");
    // Whole vectors are stored; what exceeds the end of a panel falls into a gap.
    stride_ = s_.columns.size() == 1 ? panel_ : panel_ + w_;
    b_at_ = e_.reserve(p_.add(p_.mul(k_, p_.integer(stride_)), p_.integer(w_)), acc_, 1);
    const Val base = scratch(b_at_, acc_);
    if (s_.transpose_b) return pack_b_transposed(base);
    pack_b_rows(base, order_.size());
  }

  void pack_b_rows(Val base, size_t depth) {
    if (s_.columns.size() == 1) {
      nest(order_, depth, [&] {
        const Val row = e_.add(base, e_.mul(e_.scalar(linear_k()), e_.integer(stride_)));
        const auto whole = p_.value(n_) && *p_.value(n_) % panel_ == 0
                               ? std::optional<int64_t>(panel_)
                               : std::nullopt;
        lanes(s_.columns[0], j0_, jn_, whole, [&](Val at) {
          e_.store_at(Space::kScratch, 0, acc_, e_.add(row, e_.sub(at, j0_)),
                      e_.splat(e_.vector(b_), s_.lanes));
        });
      });
      return;
    }
    // Two column axes: the panel is cut into runs of the inner one, so that the lanes never cross a
    // row of the image.
    const uint32_t outer = s_.columns[0], inner = s_.columns[1];
    const Val c = e_.scalar(p_.axes()[inner].extent);
    const Val first = e_.div(j0_, c),
              last = e_.add(e_.div(e_.sub(jn_, e_.integer(1)), c), e_.integer(1));
    e_.loop(Bind::kSerial, first, last, 1, false, [&](Val d) {
      e_.bind(outer, d);
      const Val start = e_.mul(d, c);
      const Val lo = e_.max(e_.integer(0), e_.sub(j0_, start)), hi = e_.min(c, e_.sub(jn_, start));
      const Val to = e_.add(base, e_.sub(start, j0_));
      nest(order_, depth, [&] {
        const Val row = e_.add(to, e_.mul(e_.scalar(linear_k()), e_.integer(stride_)));
        lanes(inner, lo, hi, std::nullopt, [&](Val at) {
          e_.store_at(Space::kScratch, 0, acc_, e_.add(row, at), e_.splat(e_.vector(b_), s_.lanes));
        });
      });
    });
  }

  // b is contiguous along the last reduction axis: square tiles are transposed in registers. The
  // remainder of the reduction, and the last panel, are copied element by element.
  void pack_b_transposed(Val base) {
    const uint32_t k = order_.back();
    const Val extent = e_.scalar(p_.axes()[k].extent);
    Node branch;
    branch.kind = NodeKind::kIf;
    const Val whole =
        e_.apply(TENON_S_CMP, TENON_I64, {e_.sub(jn_, j0_), e_.integer(panel_)}, TENON_CMP_EQ);
    branch.args[0] = whole.v;
    e_.open();
    nest(order_, order_.size() - 1, [&] {
      e_.loop(Bind::kSerial, e_.integer(0), extent, w_, true, [&](Val at) {
        e_.bind(k, at);
        const Val row = e_.add(base, e_.mul(e_.scalar(linear_k()), e_.integer(panel_)));
        for (uint32_t v = 0; v < s_.nr; ++v) {
          const uint32_t column = p_.add_axis(n_);
          e_.bind(column, e_.add(j0_, e_.integer(int64_t{v} * w_)));
          const ExprId off =
              p_.substitute(p_.arg(b_, 2), {{p_.axis(s_.columns[0]), p_.axis(column)}});
          std::vector<ExprId> c;
          ExprId rest;
          const uint32_t axes[] = {column};
          p_.affine(off, axes, &c, &rest);
          Node n;
          n.kind = NodeKind::kTranspose;
          n.ref = e_.argument(p_.at(b_).ref, false);
          n.type = acc_;
          n.args[0] = e_.scalar(off).v;
          n.stride = e_.scalar(c[0]).v;
          n.args[1] = e_.add(row, e_.integer(int64_t{v} * w_)).v;
          n.args[2] = e_.integer(panel_).v;
          n.bits = w_;
          e_.emit(e_.depth(), n);
        }
      });
    });
    // The remainder of the reduction.
    nest(order_, order_.size() - 1, [&] {
      const Val start = e_.sub(extent, e_.mod(extent, e_.integer(w_)));
      e_.loop(Bind::kSerial, start, extent, 1, false, [&](Val at) {
        e_.bind(k, at);
        pack_b_rows(base, 0);
      });
    });
    branch.body = e_.close();
    e_.open();
    pack_b_rows(base, order_.size());
    branch.other = e_.close();
    e_.emit(e_.depth(), branch);
  }

  // Elements of one packed row of a.
  ExprId a_row() {
    return s_.steps == 1 ? k_ : p_.mul(p_.ceildiv(k_, s_.steps), p_.integer(s_.steps));
  }

  void pack_a(Val i, Val m) {
    e_.comment("stage 0 Pack a");
    if (a_at_ == kNone)
      a_at_ = e_.reserve(p_.add(p_.mul(a_row(), p_.integer(s_.mr)), p_.integer(w_)), read_, 1);
    const Val base = scratch(a_at_, read_), k = e_.scalar(a_row());
    const uint32_t last = order_.back();
    const Val last_row = e_.sub(m, e_.integer(1));
    e_.loop(Bind::kSerial, e_.integer(0), e_.integer(s_.mr), 1, false, [&](Val r) {
      e_.bind(row_, e_.min(last_row, e_.add(i, r)));
      const Val to = e_.add(base, e_.mul(r, k));
      nest(order_, order_.size() - 1, [&] {
        const auto extent = p_.value(p_.axes()[last].extent);
        lanes(last, e_.integer(0), e_.scalar(p_.axes()[last].extent), extent, [&](Val) {
          e_.store_at(Space::kScratch, 0, read_, e_.add(to, e_.scalar(linear_k())),
                      e_.splat(e_.vector(a_), s_.lanes));
        });
      });
      // The rest of the last word: b has zeros there, and zero times NaN or infinity would not be
      // zero.
      const int64_t missing = p_.value(p_.sub(a_row(), k_)).value_or(s_.steps - 1);
      for (int64_t at = 0; at < missing; ++at) {
        e_.store_at(Space::kScratch, 0, read_, e_.add(to, e_.scalar(p_.add(k_, p_.integer(at)))),
                    e_.scalar(p_.number(0, read_)));
      }
    });
  }

  // ---- The register tile ----

  void strip(Val i, Val in) {
    const Val m = e_.scalar(m_);
    const auto rows = p_.value(m_);
    const bool exact = rows && *rows % s_.mr == 0 && s_.row_block % s_.mr == 0;
    std::vector<ExprId> a(s_.mr);
    std::vector<uint32_t> row(s_.mr);
    for (uint32_t r = 0; r < s_.mr; ++r) {
      // Rows beyond the last repeat it; they are not stored.
      Val at = r == 0 ? i : e_.add(i, e_.integer(r));
      if (!exact && r > 0) at = e_.min(at, e_.sub(m, e_.integer(1)));
      row[r] = p_.add_axis(m_);
      e_.bind(row[r], at);
    }
    if (s_.pack_a) pack_a(i, m);
    if (tiled()) {
      mma_of_height(e_.sub(in, i), row, heights());
      epilogue(i, in);
      return;
    }
    e_.comment("stage 0 Init");
    std::vector<ValueId> acc;
    const Val zero = e_.splat(e_.scalar(p_.number(0, acc_)), s_.lanes);
    for (uint32_t x = 0; x < s_.mr * s_.nr; ++x) acc.push_back(e_.declare(zero));
    direct_loop(row, acc);
    e_.comment("stage 0 Step done, tile to L1");
    for (uint32_t r = 0; r < s_.mr; ++r) {
      for (uint32_t v = 0; v < s_.nr; ++v) {
        const Val to = e_.integer(r * panel_ + int64_t{v} * w_);
        e_.store_at(Space::kLocal, 0, acc_, to, Val{acc[r * s_.nr + v], e_.depth(), true});
      }
    }
    epilogue(i, in);
  }

  // Heights of the tiles that a strip can choose, tallest first. The last strip may have fewer rows
  // than the others, and a matrix of few rows is limited by memory, not by arithmetic.
  std::vector<uint32_t> heights() const {
    const auto m = p_.value(m_);
    const uint32_t rest = m ? static_cast<uint32_t>(*m % s_.mr) : 0;
    std::vector<uint32_t> out = {s_.mr};
    if (m && rest == 0) return out;
    uint32_t fits = 0;
    for (uint32_t h : {4u, 2u, 1u}) {
      if (h >= s_.mr) continue;
      if (!m) out.push_back(h);
      if (h >= rest) fits = h;
    }
    if (m && fits != 0) out.push_back(fits);
    return out;
  }

  void mma_of_height(Val left, const std::vector<uint32_t>& row,
                     std::span<const uint32_t> choices) {
    if (choices.size() == 1) return mma(row, choices[0]);
    Node branch;
    branch.kind = NodeKind::kIf;
    branch.args[0] =
        e_.apply(TENON_S_CMP, TENON_I64, {left, e_.integer(choices[1])}, TENON_CMP_GT).v;
    e_.open();
    mma(row, choices[0]);
    branch.body = e_.close();
    e_.open();
    mma_of_height(left, row, choices.subspan(1));
    branch.other = e_.close();
    e_.emit(e_.depth(), branch);
  }

  // The tile as a function, shared by all kernels of a text.
  void mma(const std::vector<uint32_t>& row, uint32_t height) {
    e_.comment("stage 0 Step");
    Node n;
    n.kind = NodeKind::kMma;
    n.type = acc_;
    n.lanes = s_.lanes;
    n.bits = s_.nr;
    n.steps = s_.steps;
    n.args[2] = e_.scalar(s_.steps > 1 ? p_.ceildiv(k_, s_.steps) : k_).v;
    if (s_.packed) {
      n.args[0] = panel_at_.v;
      n.b_buffer = static_cast<int32_t>(e_.argument(p_.at(b_).ref, false));
    } else {
      n.args[0] = scratch(b_at_, acc_).v;
    }
    n.stride = e_.integer(stride_).v;
    if (s_.few_bits != 0) few_bits(&n);
    if (s_.widened) n.read = p_.type(b_);
    n.space = s_.pack_a ? Space::kScratch : Space::kBuffer;
    if (s_.pack_a) {
      n.args[1] = e_.integer(s_.steps).v;
      const Val base = scratch(a_at_, read_), row_steps = e_.scalar(a_row());
      for (uint32_t r = 0; r < height; ++r)
        n.list.push_back(e_.add(base, e_.mul(row_steps, e_.integer(r))).v);
    } else {
      n.ref = e_.argument(p_.at(a_).ref, false);
      n.args[1] = s_.steps > 1 ? e_.integer(s_.steps).v : e_.scalar(a_step_).v;
      for (uint32_t r = 0; r < height; ++r) {
        n.list.push_back(e_.scalar(p_.substitute(a_rest_, {{p_.axis(row_), p_.axis(row[r])}})).v);
      }
    }
    e_.emit(e_.depth(), n);
  }

  void few_bits(Node* n) {
    const auto buffer = [&](ExprId load) {
      return static_cast<int32_t>(e_.argument(p_.at(load).ref, false));
    };
    // Scales have one row for each block of steps.
    const Buffer& scales = e_.prepared().kernel.buffers[p_.at(few_.scale).ref];
    const ExprId rows = scales.dims[scales.dims.size() - 2];
    n->few_bits = s_.few_bits;
    n->args[3] = e_.scalar(p_.floordiv(k_, rows)).v;
    n->scale_buffer = buffer(few_.scale);
    n->list_b = {scales_at_.v};
    if (few_.zero == kNone) return;
    n->zero_buffer = p_.is_const(few_.zero) ? -1 : buffer(few_.zero);
    n->list_b.push_back(zeros_at_.v);
  }

  void accumulate(const std::vector<Val>& b, const std::vector<Val>& a,
                  const std::vector<ValueId>& acc) {
    for (uint32_t r = 0; r < s_.mr; ++r) {
      const Val x = e_.splat(a[r], s_.lanes);
      for (uint32_t v = 0; v < s_.nr; ++v) {
        const ValueId into = acc[r * s_.nr + v];
        const Val product = e_.apply(TENON_S_MUL, acc_, {x, b[v]});
        e_.set(into, e_.apply(TENON_S_ADD, acc_, {Val{into, e_.depth(), true}, product}));
      }
    }
  }

  void direct_loop(const std::vector<uint32_t>& row, const std::vector<ValueId>& acc) {
    const Val n = e_.scalar(n_);
    const auto columns = p_.value(n_);
    const bool exact = columns && *columns % panel_ == 0;
    std::vector<uint32_t> column(s_.nr);
    std::vector<ValueId> masks(s_.nr, kNoValue);
    for (uint32_t v = 0; v < s_.nr; ++v) {
      column[v] = p_.add_axis(n_);
      Val at = e_.add(j0_, e_.integer(int64_t{v} * w_));
      if (!exact && w_ == 1) at = e_.min(at, e_.sub(n, e_.integer(1)));
      e_.vector_axis = w_ > 1 ? column[v] : ~0u;
      e_.bind(column[v], at);
      if (!exact && w_ > 1) {
        const Val lane = e_.vector(p_.axis(column[v]));
        masks[v] = e_.less(lane, e_.as_type(n, e_.type(lane.v))).v;
      }
    }
    e_.vector_axis = ~0u;
    const uint32_t mask_depth = e_.depth();
    nest(order_, order_.size(), [&] {
      e_.comment("stage 0 Step");
      std::vector<Val> a, b;
      for (uint32_t v = 0; v < s_.nr; ++v) {
        const ExprId x = p_.substitute(b_, column_map(column[v]));
        e_.vector_axis = w_ > 1 ? column[v] : ~0u;
        e_.mask = masks[v];
        e_.mask_depth = mask_depth;
        b.push_back(e_.splat(e_.vector(x), s_.lanes));
        e_.mask = kNoValue;
      }
      e_.vector_axis = ~0u;
      for (uint32_t r = 0; r < s_.mr; ++r) {
        a.push_back(e_.scalar(p_.substitute(a_, {{p_.axis(row_), p_.axis(row[r])}})));
      }
      accumulate(b, a, acc);
    });
  }

  std::unordered_map<ExprId, ExprId> column_map(uint32_t linear) {
    const ExprId j = p_.axis(linear);
    if (s_.columns.size() == 1) return {{p_.axis(s_.columns[0]), j}};
    const ExprId c = p_.axes()[s_.columns[1]].extent;
    return {{p_.axis(s_.columns[0]), p_.floordiv(j, c)}, {p_.axis(s_.columns[1]), p_.mod(j, c)}};
  }

  // ---- Final values over the tile ----

  // An offset over (outer, inner) columns, in terms of their linear number.
  ExprId linear_offset(ExprId off, uint32_t linear) {
    if (s_.columns.size() == 1) return p_.substitute(off, column_map(linear));
    std::vector<ExprId> c;
    ExprId rest;
    p_.affine(off, s_.columns, &c, &rest);
    return p_.add(rest, p_.mul(c[1], p_.axis(linear)));
  }

  void epilogue(Val i, Val in) {
    e_.comment("stage 0 Final");
    const uint32_t column = p_.add_axis(n_), row = p_.add_axis(m_);
    const Val end = e_.min(in, e_.add(i, e_.integer(s_.mr)));
    const auto n = p_.value(n_);
    const auto whole = n && *n % panel_ == 0 ? std::optional<int64_t>(panel_) : std::nullopt;
    std::vector<ExprId> loads;
    for (ExprId f : st_.final) p_.loads(f, &loads);
    std::sort(loads.begin(), loads.end());
    std::unordered_map<ExprId, ExprId> map;
    if (s_.columns.size() == 1) map = column_map(column);
    for (ExprId l : loads) {
      if (s_.columns.size() == 1) break;
      const ExprId off[] = {linear_offset(p_.arg(l, 2), column)};
      map[l] = p_.load(p_.at(l).ref, p_.type(l), off);
    }
    e_.loop(Bind::kSerial, i, end, 1, false, [&](Val r) {
      e_.bind(row, r);
      const std::unordered_map<ExprId, ExprId> rows = {{p_.axis(row_), p_.axis(row)}};
      const Val line = e_.mul(e_.sub(r, i), e_.integer(panel_));
      auto body = [&](Val at) {
        const Val x =
            e_.load_at(Space::kLocal, 0, acc_, in_body(e_.add(line, e_.sub(at, j0_))), s_.lanes);
        e_.open_alias();
        e_.states = {x};
        std::vector<Val> values;
        for (ExprId f : st_.final)
          values.push_back(e_.vector(p_.substitute(p_.substitute(f, map), rows)));
        e_.states.clear();
        e_.close_alias();
        for (size_t f = 0; f < st_.store.size(); ++f) {
          View v{st_.store[f].buffer,
                 {p_.substitute(linear_offset(st_.store[f].index[0], column), rows)},
                 kNone};
          e_.store(v, values[f], w_ > 1);
        }
      };
      if (w_ == 1) {
        e_.loop(Bind::kSerial, j0_, jn_, 1, false, [&](Val at) {
          e_.bind(column, at);
          body(at);
        });
      } else {
        lanes(column, j0_, jn_, whole, body);
      }
    });
  }

  Val in_body(Val v) {
    v.depth = e_.depth();
    return v;
  }

  Emitter& e_;
  const Schedule& s_;
  Pool& p_;
  const Stage& st_;
  ExprId a_ = kNone, b_ = kNone, m_ = kNone, n_ = kNone, k_ = kNone;
  ExprId a_step_ = kNone, a_rest_ = kNone, a_at_ = kNone, b_at_ = kNone;
  DType acc_ = TENON_DTYPE_NONE,
        read_ = TENON_DTYPE_NONE;  // type of the sums, and of what the tile reads
  int64_t w_ = 1, panel_ = 1, stride_ = 1;
  std::vector<uint32_t> order_;
  uint32_t row_ = 0;
  FewBits few_;
  Val j0_, jn_, panel_at_, scales_at_, zeros_at_;
};

}  // namespace

bool lower_contraction(Emitter& e, const Schedule& s, std::string*) {
  return Contraction(e, s).run();
}

}  // namespace tenon::kernelgen
