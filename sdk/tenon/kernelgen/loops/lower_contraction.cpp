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
    if (tiled() && !s_.pack_a && !s_.gather_a)
      chain(p_, p_.arg(a_, 2), &order_, &a_step_, &a_rest_);
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
    if (s_.digits != 0) digits_of_rows(outer);
    const ExprId panels = p_.ceildiv(n_, panel_ * s_.panels), blocks = p_.ceildiv(m_, s_.row_block);
    loop_over_tiles(e_, s_, blocks, panels, outer,
                    [&](Val block, Val panel) { one_item(block, panel); });
    return true;
  }

 private:
  void one_item(Val block, Val panel) {
    const Val i0 = e_.mul(block, e_.integer(s_.row_block));
    const Val in = e_.min(e_.scalar(m_), e_.add(i0, e_.integer(s_.row_block)));
    const Val j = e_.mul(panel, e_.integer(panel_ * s_.panels));
    if (s_.sum_block == 0) return some_steps(i0, in, j);
    // Without steps, a block of none gives zeros.
    const Val end = e_.scalar(p_.max(k_, p_.integer(1)));
    e_.loop(Bind::kSerial, e_.integer(0), end, s_.sum_block, false, [&](Val k) {
      k0_ = k;
      kn_ = e_.min(e_.scalar(k_), e_.add(k, e_.integer(s_.sum_block)));
      some_steps(i0, in, j);
    });
  }

  // The steps of a block, or all: for the panels of an item.
  void some_steps(Val i0, Val in, Val j) {
    if (s_.gather_a) gather_a(i0, in);
    if (s_.panels == 1) return some_steps_of_panel(i0, in, j, j);
    const Val end = e_.min(e_.scalar(n_), e_.add(j, e_.integer(panel_ * s_.panels)));
    e_.loop(Bind::kSerial, j, end, panel_, false,
            [&](Val at) { some_steps_of_panel(i0, in, j, at); });
  }

  void some_steps_of_panel(Val i0, Val in, Val j, Val at) {
    j0_ = at;
    jn_ = e_.min(e_.scalar(n_), e_.add(j0_, e_.integer(panel_)));
    if (s_.sum_block != 0)  // [panel][strip][row][column]
      partial_ =
          e_.sub(e_.mul(e_.sub(at, j), e_.integer(s_.row_block)), e_.mul(i0, e_.integer(panel_)));
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
    stride_ = int64_t{panel_of(e_.prepared().kernel, b_)} * (few_.quads ? 4 : s_.steps);
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

  // The first step of those at hand, and the end.
  Val steps_begin() { return s_.sum_block == 0 ? e_.integer(0) : k0_; }
  Val steps_end() { return s_.sum_block == 0 ? e_.scalar(p_.axes()[order_.back()].extent) : kn_; }
  // The number of steps at hand, at most.
  ExprId most_steps() { return s_.sum_block == 0 ? k_ : p_.min(k_, p_.integer(s_.sum_block)); }

  // A loop over the steps at hand.
  template <class F>
  void each_step(F body) {
    nest(order_, order_.size() - 1, [&] {
      e_.loop(Bind::kSerial, steps_begin(), steps_end(), 1, false, [&](Val at) {
        e_.bind(order_.back(), at);
        body();
      });
    });
  }

  // The place of a step among those at hand.
  Val place_of_step() {
    const Val k = e_.scalar(linear_k());
    return s_.sum_block == 0 ? k : e_.sub(k, k0_);
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
    b_at_ = e_.reserve(p_.add(p_.mul(most_steps(), p_.integer(stride_)), p_.integer(w_)), acc_, 1);
    const Val base = scratch(b_at_, acc_);
    if (s_.transpose_b) return pack_b_transposed(base);
    pack_b_rows(base);
  }

  void pack_b_row(Val base) {
    const Val row = e_.add(base, e_.mul(place_of_step(), e_.integer(stride_)));
    const auto whole =
        p_.value(n_) && *p_.value(n_) % panel_ == 0 ? std::optional<int64_t>(panel_) : std::nullopt;
    lanes(s_.columns[0], j0_, jn_, whole, [&](Val at) {
      e_.store_at(Space::kScratch, 0, acc_, e_.add(row, e_.sub(at, j0_)),
                  e_.splat(e_.vector(b_), s_.lanes));
    });
  }

  void pack_b_rows(Val base) {
    if (s_.columns.size() == 1) return each_step([&] { pack_b_row(base); });
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
      each_step([&] {
        const Val row = e_.add(to, e_.mul(place_of_step(), e_.integer(stride_)));
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
    const Val begin = steps_begin(), end = steps_end();
    Node branch;
    branch.kind = NodeKind::kIf;
    const Val whole =
        e_.apply(TENON_S_CMP, TENON_I64, {e_.sub(jn_, j0_), e_.integer(panel_)}, TENON_CMP_EQ);
    branch.args[0] = whole.v;
    e_.open();
    nest(order_, order_.size() - 1, [&] {
      e_.loop(Bind::kSerial, begin, end, w_, true, [&](Val at) {
        e_.bind(k, at);
        const Val row = e_.add(base, e_.mul(place_of_step(), e_.integer(panel_)));
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
      const Val start = e_.sub(end, e_.mod(e_.sub(end, begin), e_.integer(w_)));
      e_.loop(Bind::kSerial, start, end, 1, false, [&](Val at) {
        e_.bind(k, at);
        pack_b_row(base);
      });
    });
    branch.body = e_.close();
    e_.open();
    pack_b_rows(base);
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
    const Val last_row = e_.sub(m, e_.integer(1));
    e_.loop(Bind::kSerial, e_.integer(0), e_.integer(s_.mr), 1, false, [&](Val r) {
      e_.bind(row_, e_.min(last_row, e_.add(i, r)));
      const Val to = e_.add(base, e_.mul(r, k));
      pack_row(to);
      // The rest of the last word: b has zeros there, and zero times NaN or infinity would not be
      // zero.
      const int64_t missing = p_.value(p_.sub(a_row(), k_)).value_or(s_.steps - 1);
      for (int64_t at = 0; at < missing; ++at) {
        e_.store_at(Space::kScratch, 0, read_, e_.add(to, e_.scalar(p_.add(k_, p_.integer(at)))),
                    e_.scalar(p_.number(0, read_)));
      }
    });
  }

  // The steps at hand of a block's rows, where a is contiguous along the rows and a step is a line
  // of memory away. Side by side they stay in the cache, also where the steps of a would not,
  // because they are a power of two apart.
  void gather_a(Val i0, Val in) {
    e_.comment("stage 0 Gather a");
    const int64_t line = (s_.row_block + w_ - 1) / w_ * w_ + w_;
    a_at_ = e_.reserve(p_.mul(most_steps(), p_.integer(line)), acc_, 1);
    gathered_line_ = e_.integer(line);
    gathered_first_ = e_.sub(scratch(a_at_, acc_), i0);
    each_step([&] {
      const Val to = e_.add(gathered_first_, e_.mul(place_of_step(), gathered_line_));
      lanes(row_, i0, in, std::nullopt, [&](Val at) {
        e_.store_at(Space::kScratch, 0, acc_, e_.add(to, at), e_.splat(e_.vector(a_), s_.lanes));
      });
    });
  }

  // ---- Digits of rows of floats, made once for a call ----

  // Facts about each block of digits.
  static constexpr int64_t kFacts = 8;

  void digits_of_rows(const std::vector<uint32_t>& outer) {
    std::vector<uint32_t> axes;
    for (uint32_t axis : outer) {
      if (p_.uses_axis(a_, axis)) axes.push_back(axis);
    }
    axes.push_back(row_);
    number_of_row_ = p_.integer(0);
    ExprId rows = p_.integer(1);
    for (uint32_t axis : axes) {
      number_of_row_ = p_.add(p_.mul(number_of_row_, p_.axes()[axis].extent), p_.axis(axis));
      rows = p_.mul(rows, p_.axes()[axis].extent);
    }
    const ExprId most = p_.min(rows, p_.integer(kDigitRows)), all = p_.mul(most, k_);
    facts_of_row_ = p_.integer(*p_.value(k_) / s_.digits * kFacts);
    digits_at_ = e_.reserve(all, TENON_I32, 1);
    facts_at_ = e_.reserve(p_.mul(most, facts_of_row_), TENON_F32, 1);
    if (s_.pack_a) floats_at_ = e_.reserve(p_.add(all, p_.integer(w_)), TENON_F32, 1);
    const auto make = [&] { nest(axes, axes.size(), [&] { digits_of_row(); }); };
    if (p_.value(rows)) return make();
    Node branch;
    branch.kind = NodeKind::kIf;
    few_rows_ = e_.less(e_.scalar(rows), e_.integer(kDigitRows + 1));
    branch.args[0] = few_rows_.v;
    e_.open();
    make();
    branch.body = e_.close();
    e_.emit(e_.depth(), branch);
  }

  // Where a row's part of an array in scratch begins.
  Val of_row(ExprId array, ExprId row, ExprId each) {
    return e_.scalar(p_.add(p_.floordiv(array, p_.integer(4)), p_.mul(row, each)));
  }

  void digits_of_row() {
    e_.comment("stage 0 Digits");
    Node n;
    n.kind = NodeKind::kDigits;
    n.lanes = s_.lanes;
    n.bits = s_.digits;
    if (s_.pack_a) {
      const Val to = of_row(floats_at_, number_of_row_, k_);
      pack_row(to);
      n.space = Space::kScratch;
      n.args[0] = to.v;
    } else {
      n.ref = e_.argument(p_.at(a_).ref, false);
      n.args[0] = e_.scalar(a_rest_).v;
    }
    n.args[1] = of_row(digits_at_, number_of_row_, k_).v;
    n.args[2] = e_.scalar(k_).v;
    n.args[3] = of_row(facts_at_, number_of_row_, facts_of_row_).v;
    e_.emit(e_.depth(), n);
  }

  // The numbers of the row that is bound, one after another.
  void pack_row(Val to) {
    const uint32_t last = order_.back();
    nest(order_, order_.size() - 1, [&] {
      const auto extent = p_.value(p_.axes()[last].extent);
      lanes(last, e_.integer(0), e_.scalar(p_.axes()[last].extent), extent, [&](Val) {
        e_.store_at(Space::kScratch, 0, read_, e_.add(to, e_.scalar(linear_k())),
                    e_.splat(e_.vector(a_), s_.lanes));
      });
    });
  }

  // The tile with digits; where the number of rows is not known, if there are few.
  void digits_or_floats(Val i, Val in, const std::vector<uint32_t>& row) {
    std::vector<uint32_t> low = heights();
    std::erase_if(low, [](uint32_t height) { return height > kDigitRows; });
    if (few_rows_.v == kNoValue) return mma_of_height(e_.sub(in, i), row, low, true);
    Node branch;
    branch.kind = NodeKind::kIf;
    branch.args[0] = few_rows_.v;
    e_.open();
    mma_of_height(e_.sub(in, i), row, low, true);
    branch.body = e_.close();
    e_.open();
    if (s_.pack_a) pack_a(i, e_.scalar(m_));
    mma_of_height(e_.sub(in, i), row, heights(), false);
    branch.other = e_.close();
    e_.emit(e_.depth(), branch);
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
    if (s_.digits != 0) {
      digits_or_floats(i, in, row);
      epilogue(i, in);
      return;
    }
    if (s_.pack_a) pack_a(i, m);
    if (tiled()) {
      fetch_for_epilogue(i, in);
      mma_of_height(e_.sub(in, i), row, heights(), false);
      if (s_.sum_block == 0) return epilogue(i, in);
      return add_or_finish(i, in);
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

  // What the final values read of each row is fetched while the tile is computed: these are short
  // pieces of many lines, which the processor does not foresee.
  void fetch_for_epilogue(Val i, Val in) {
    constexpr int64_t kEnoughSteps = 128;  // to be worth it
    if (s_.columns.size() != 1 || p_.likely(k_) < kEnoughSteps) return;
    const uint32_t row = p_.add_axis(m_), column = p_.add_axis(n_);
    std::vector<ExprId> loads;
    for (ExprId f : st_.final) p_.loads(f, &loads);
    for (ExprId l : loads) {
      const ExprId off = p_.substitute(
          p_.arg(l, 2), {{p_.axis(row_), p_.axis(row)}, {p_.axis(s_.columns[0]), p_.axis(column)}});
      std::vector<ExprId> c;
      ExprId rest;
      const uint32_t axes[] = {column};
      if (p_.arg(l, 0) != kNone || !p_.uses_axis(off, row) || !p_.affine(off, axes, &c, &rest) ||
          !p_.is_const(c[0], 1) || e_.prepared().kernel.buffers[p_.at(l).ref].role == Role::kTemp)
        continue;
      e_.loop(Bind::kSerial, i, e_.min(in, e_.add(i, e_.integer(s_.mr))), 1, false, [&](Val r) {
        e_.bind(row, r);
        e_.bind(column, j0_);
        Node n;
        n.kind = NodeKind::kPrefetch;
        n.ref = e_.argument(p_.at(l).ref, false);
        n.type = p_.type(l);
        n.args[0] = e_.scalar(off).v;
        n.bits = panel_;
        e_.emit(e_.depth(), n);
      });
    }
  }

  // The tile has the sum of a block: it is added to that of the blocks before, and the last one
  // finishes.
  void add_or_finish(Val i, Val in) {
    if (partial_at_ == kNone)
      partial_at_ = e_.reserve(p_.integer(s_.row_block * panel_ * s_.panels), acc_, 1);
    const Val at =
        e_.add(e_.add(scratch(partial_at_, acc_), partial_), e_.mul(i, e_.integer(panel_)));
    const auto each = [&](auto body) {
      e_.loop(Bind::kSerial, e_.integer(0), e_.integer(s_.mr * panel_), w_, false, [&](Val x) {
        body(e_.add(at, x), x, e_.load_at(Space::kLocal, 0, acc_, x, s_.lanes));
      });
    };
    when(e_, e_.less(e_.integer(0), k0_), [&] {
      each([&](Val place, Val x, Val sum) {
        const Val before = e_.load_at(Space::kScratch, 0, acc_, place, s_.lanes);
        e_.store_at(Space::kLocal, 0, acc_, x, e_.apply(TENON_S_ADD, acc_, {before, sum}));
      });
    });
    when(
        e_, e_.less(kn_, e_.scalar(k_)),
        [&] {
          each([&](Val place, Val, Val sum) { e_.store_at(Space::kScratch, 0, acc_, place, sum); });
        },
        [&] { epilogue(i, in); });
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

  void mma_of_height(Val left, const std::vector<uint32_t>& row, std::span<const uint32_t> choices,
                     bool digits) {
    if (choices.size() == 1) return mma(row, choices[0], digits);
    when(
        e_, e_.apply(TENON_S_CMP, TENON_I64, {left, e_.integer(choices[1])}, TENON_CMP_GT),
        [&] { mma(row, choices[0], digits); },
        [&] { mma_of_height(left, row, choices.subspan(1), digits); });
  }

  // The tile as a function, shared by all kernels of a text.
  void mma(const std::vector<uint32_t>& row, uint32_t height, bool digits) {
    e_.comment("stage 0 Step");
    Node n;
    n.kind = NodeKind::kMma;
    n.type = acc_;
    n.lanes = s_.lanes;
    n.bits = s_.nr;
    n.steps = s_.steps;
    n.args[2] = s_.sum_block != 0 ? e_.sub(kn_, k0_).v
                                  : e_.scalar(s_.steps > 1 ? p_.ceildiv(k_, s_.steps) : k_).v;
    if (s_.packed) {
      n.args[0] = panel_at_.v;
      n.b_buffer = static_cast<int32_t>(e_.argument(p_.at(b_).ref, false));
    } else {
      n.args[0] = scratch(b_at_, acc_).v;
    }
    n.stride = e_.integer(stride_).v;
    if (s_.few_bits != 0) few_bits(&n);
    if (s_.widened) n.read = p_.type(b_);
    n.space = s_.pack_a || s_.gather_a ? Space::kScratch : Space::kBuffer;
    const auto number_of = [&](uint32_t r) {
      return p_.substitute(number_of_row_, {{p_.axis(row_), p_.axis(row[r])}});
    };
    for (uint32_t r = 0; digits && r < height; ++r) {
      n.list_d.push_back(of_row(digits_at_, number_of(r), k_).v);
      n.list_d.push_back(of_row(facts_at_, number_of(r), facts_of_row_).v);
    }
    n.digits = digits ? s_.digits : 0;
    if (s_.pack_a) {
      n.args[1] = e_.integer(s_.steps).v;
      if (!digits) {
        const Val base = scratch(a_at_, read_), row_steps = e_.scalar(a_row());
        for (uint32_t r = 0; r < height; ++r)
          n.list.push_back(e_.add(base, e_.mul(row_steps, e_.integer(r))).v);
      }
      for (uint32_t r = 0; digits && r < height; ++r)
        n.list.push_back(of_row(floats_at_, number_of(r), k_).v);
    } else if (s_.gather_a) {
      n.args[1] = gathered_line_.v;
      for (uint32_t r = 0; r < height; ++r)
        n.list.push_back(e_.add(gathered_first_, e_.scalar(p_.axis(row[r]))).v);
    } else {
      n.ref = e_.argument(p_.at(a_).ref, false);
      n.args[1] = s_.steps > 1 ? e_.integer(s_.steps).v : e_.scalar(a_step_).v;
      for (uint32_t r = 0; r < height; ++r) {
        Val first = e_.scalar(p_.substitute(a_rest_, {{p_.axis(row_), p_.axis(row[r])}}));
        if (s_.sum_block != 0) first = e_.add(first, e_.mul(k0_, e_.scalar(a_step_)));
        n.list.push_back(first.v);
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
    n->quads = few_.quads;
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
        e_.set(into, e_.mul_add(acc_, x, b[v], Val{into, e_.depth(), true}));
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
  // Of rows as digits: a row's number among them, and where they are in scratch.
  ExprId number_of_row_ = kNone, facts_of_row_ = kNone;
  ExprId digits_at_ = kNone, facts_at_ = kNone, floats_at_ = kNone;
  Val few_rows_;  // whether there are few enough; none: it is known
  DType acc_ = TENON_DTYPE_NONE,
        read_ = TENON_DTYPE_NONE;  // type of the sums, and of what the tile reads
  int64_t w_ = 1, panel_ = 1, stride_ = 1;
  std::vector<uint32_t> order_;
  uint32_t row_ = 0;
  FewBits few_;
  Val j0_, jn_, panel_at_, scales_at_, zeros_at_;
  Val k0_, kn_;                         // the block of steps at hand
  Val gathered_first_, gathered_line_;  // the place of row 0 after gather_a, and between steps
  ExprId partial_at_ = kNone;           // sums of the blocks before
  Val partial_;                         // the place of row 0 in them
};

}  // namespace

bool lower_contraction(Emitter& e, const Schedule& s, std::string*) {
  return Contraction(e, s).run();
}

}  // namespace tenon::kernelgen
