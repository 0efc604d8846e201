// Convolutions over operands in panels. A strip of rows gets a table with one address per tap and
// row. Taps that are padding for the whole strip are left out. For a tap that is padding for only
// some rows, those rows get the address of a row of zeros. Around bytes with a zero point the row
// holds that instead, and no tap is left out, because the final values subtract what it adds. One
// call of the register tile sums all taps, and the final values are a loop over the tile while it
// is in L1. Zeros cannot change a sum, except that zero times an infinite or NaN weight is NaN: if
// a strip at a border holds a NaN, it is summed again row by row, without the taps that are
// padding.
#include <algorithm>
#include <iterator>

#include "tenon/kernelgen/loops/lower_internal.h"
#include "tenon/kernelgen/schedule/contraction.h"
#include "tenon/kernelgen/schedule/convolution.h"

namespace tenon::kernelgen {
namespace {

class Convolution {
 public:
  Convolution(Emitter& e, const Schedule& s)
      : e_(e), s_(s), p_(e.pool()), st_(e.prepared().kernel.stages[0]) {}

  bool run(std::string* why) {
    acc_ = p_.type(st_.a);
    a_ = s_.steps > 1 ? narrow_of(p_, st_.a) : st_.a;
    b_ = acc_ == TENON_I32 && narrow_of(p_, st_.b) != kNone ? narrow_of(p_, st_.b) : st_.b;
    read_ = p_.type(b_);
    w_ = s_.lanes;
    panel_ = st_.panel;
    e_.width = s_.lanes;
    column_ = s_.columns[0];
    n_ = p_.axes()[column_].extent;
    guard_ = p_.arg(b_, 0);
    outside_ = guard_ == kNone ? p_.number(0, read_) : p_.arg(b_, 1);
    skips_ = guard_ != kNone && p_.is_const(outside_) && p_.number_value(outside_) == 0;
    m_ = p_.integer(1);
    for (uint32_t a : s_.rows) m_ = p_.mul(m_, p_.axes()[a].extent);
    if (!find_inner(why)) return false;
    std::vector<uint32_t> outer;
    for (uint32_t a : st_.space) {
      const bool row = std::find(s_.rows.begin(), s_.rows.end(), a) != s_.rows.end();
      if (!row && a != column_) outer.push_back(a);
    }
    if (runs()) {
      line_ = p_.axes()[s_.rows.back()].extent;
      strips_ = p_.integer(1);
      for (size_t r = 0; r + 1 < s_.rows.size(); ++r)
        strips_ = p_.mul(strips_, p_.axes()[s_.rows[r]].extent);
      strips_ = p_.mul(strips_, p_.ceildiv(line_, s_.mr));
    }
    const ExprId panels = s_.panels == 0 ? p_.integer(1) : p_.ceildiv(n_, panel_ * s_.panels);
    const ExprId blocks =
        runs() ? p_.ceildiv(strips_, s_.row_block / s_.mr) : p_.ceildiv(m_, s_.row_block);
    reserve_tables();
    loop_over_tiles(e_, s_, blocks, panels, outer,
                    [&](Val block, Val panel) { one_item(block, panel); });
    return true;
  }

 private:
  // Whether strips are within one line of the image; the table then has one address for each place
  // that the rows of a strip read.
  bool runs() const { return s_.run_axis != ~0u; }

  // Whether zeros at a border could have changed a sum.
  bool repairs() const { return guard_ != kNone && is_float(acc_); }

  // Finds the reduction axis along which the input is contiguous and the weights advance by rows of
  // a panel: one call of the tile runs along it. The other axes are taps.
  bool find_inner(std::string* why) {
    taps_ = st_.reduce;
    if (s_.depthwise) {
      length_ = p_.integer(1);
    } else {
      for (uint32_t a : st_.reduce) {
        const uint32_t axes[] = {a};
        std::vector<ExprId> cx, cw;
        ExprId rest;
        if (guard_ != kNone && p_.uses_axis(guard_, a)) continue;
        if (!p_.affine(p_.arg(b_, 2), axes, &cx, &rest) || !p_.is_const(cx[0], 1)) continue;
        // Words are cut from the one axis of channels.
        const bool linear = p_.affine(p_.arg(a_, 2), axes, &cw, &rest);
        const bool one_word =
            linear && p_.is_const(p_.axes()[a].extent, s_.steps) && p_.is_const(cw[0], 1);
        const bool split = s_.steps > 1 && (!linear || one_word);
        if (!split && (!p_.affine(p_.arg(a_, 2), axes, &cw, &rest) || !p_.is_const(cw[0], panel_)))
          continue;
        inner_ = a;
        taps_.erase(std::find(taps_.begin(), taps_.end(), a));
        break;
      }
      length_ = inner_ == ~0u ? p_.integer(1) : p_.axes()[inner_].extent;
      if (s_.steps > 1 && inner_ == ~0u) *why = "words of several steps need a run of channels";
    }
    tap_count_ = p_.integer(1);
    for (uint32_t a : taps_) tap_count_ = p_.mul(tap_count_, p_.axes()[a].extent);
    if (p_.arg(a_, 0) != kNone) *why = "weights in panels have no guard";
    return why->empty();
  }

  Val scratch(ExprId bytes, DType t) {
    return e_.scalar(p_.floordiv(bytes, p_.integer(size_of(t))));
  }

  void reserve_tables() {
    table_at_ = e_.reserve(p_.mul(tap_count_, p_.integer(s_.mr)), TENON_I64, 1);
    offsets_at_ = e_.reserve(tap_count_, TENON_I64, 1);
    if (guard_ == kNone) return;
    row_table_at_ = e_.reserve(p_.mul(tap_count_, p_.integer(s_.mr)), TENON_I64, 1);
    row_offsets_at_ = e_.reserve(tap_count_, TENON_I64, 1);
    const ExprId length = s_.depthwise ? n_ : length_;
    zeros_at_ = e_.reserve(p_.add(length, p_.integer(w_)), read_, 1);
    e_.comment("stage 0 Pack zeros");
    const Val base = scratch(zeros_at_, read_), zero = e_.splat(e_.scalar(outside_), s_.lanes);
    e_.loop(Bind::kVector, e_.integer(0), e_.scalar(length), w_, false,
            [&](Val at) { e_.store_at(Space::kScratch, 0, read_, e_.add(base, at), zero); });
    zeros_ = address(Space::kScratch, 0, base);
  }

  Val address(Space space, uint32_t ref, Val at) {
    Node n;
    n.kind = NodeKind::kAddress;
    n.space = space;
    n.ref = ref;
    n.type = read_;
    n.args[0] = at.v;
    n.dst = e_.value(TENON_I64, 1);
    return {e_.emit(at.depth, n), at.depth, at.varies};
  }

  void one_item(Val block, Val panel) {
    const Val m = e_.scalar(m_);
    const Val i0 = e_.mul(block, e_.integer(s_.row_block));
    const Val in = e_.min(m, e_.add(i0, e_.integer(s_.row_block)));
    Node tile;
    tile.kind = NodeKind::kLocal;
    tile.type = acc_;
    tile.bits = int64_t{s_.mr} * panel_;
    e_.emit(e_.depth(), tile);
    if (repairs()) {
      tile.ref = 1;
      e_.emit(e_.depth(), tile);
    }
    if (runs()) return strips_of_lines(block, panel);
    e_.loop(Bind::kSerial, i0, in, s_.mr, false,
            [&](Val i) { all_panels(panel, i, in, table(i)); });
  }

  void all_panels(Val panel, Val i, Val in, Val taps) {
    const Val all = e_.scalar(p_.ceildiv(n_, panel_));
    if (s_.panels == 1) return one_panel(panel, i, in, taps);
    const Val from = s_.panels == 0 ? e_.integer(0) : e_.mul(panel, e_.integer(s_.panels));
    const Val to = s_.panels == 0 ? all : e_.min(all, e_.add(from, e_.integer(s_.panels)));
    e_.loop(Bind::kSerial, from, to, 1, false, [&](Val at) { one_panel(at, i, in, taps); });
  }

  void strips_of_lines(Val block, Val panel) {
    const int64_t together = s_.row_block / s_.mr;
    const Val line = e_.scalar(line_), in_line = e_.scalar(p_.ceildiv(line_, s_.mr)),
              first = e_.mul(block, e_.integer(together));
    const Val end = e_.min(e_.scalar(strips_), e_.add(first, e_.integer(together)));
    e_.loop(Bind::kSerial, first, end, 1, false, [&](Val strip) {
      const Val begin = e_.mul(e_.div(strip, in_line), line),
                at = e_.mul(e_.mod(strip, in_line), e_.integer(s_.mr));
      const Val i = e_.add(begin, at),
                in = e_.add(begin, e_.min(line, e_.add(at, e_.integer(s_.mr))));
      all_panels(panel, i, in, table_of_runs(i, in));
    });
  }

  template <class F>
  void nest(const std::vector<uint32_t>& axes, F body, size_t at = 0) {
    if (at == axes.size()) return body();
    e_.loop(Bind::kSerial, e_.integer(0), e_.scalar(p_.axes()[axes[at]].extent), 1, false,
            [&](Val v) {
              e_.bind(axes[at], v);
              nest(axes, body, at + 1);
            });
  }

  // Fills the table for the strip at row i; returns its number of taps.
  Val table(Val i) {
    e_.comment("stage 0 Pack addresses");
    const Val m = e_.scalar(m_), last = e_.sub(m, e_.integer(1));
    std::vector<std::unordered_map<ExprId, ExprId>> rename(s_.mr);
    for (uint32_t r = 0; r < s_.mr; ++r) {
      // Rows beyond the last repeat it; they are not stored.
      std::vector<uint32_t> own;
      for (uint32_t a : s_.rows) {
        own.push_back(p_.add_axis(p_.axes()[a].extent));
        rename[r][p_.axis(a)] = p_.axis(own.back());
      }
      if (inner_ != ~0u) rename[r][p_.axis(inner_)] = p_.integer(0);
      if (s_.depthwise) rename[r][p_.axis(column_)] = p_.integer(0);
      if (!own.empty()) decode(e_, r == 0 ? i : e_.min(last, e_.add(i, e_.integer(r))), own);
    }
    const ValueId count = e_.declare(e_.integer(0));
    if (guard_ != kNone) border_ = e_.declare(e_.integer(0));
    const Val base = scratch(table_at_, TENON_I64), offsets = scratch(offsets_at_, TENON_I64);
    const uint32_t x = e_.argument(p_.at(b_).ref, false);
    const ExprId tap_offset = weights_at(p_.integer(0));
    const ExprId first = weight_base(p_.integer(0));
    nest(taps_, [&] {
      const Val at{count, e_.depth(), false};
      const Val slot = e_.add(base, e_.mul(at, e_.integer(s_.mr)));
      Val any, all;
      for (uint32_t r = 0; r < s_.mr; ++r) {
        Val to = address(Space::kBuffer, x, e_.scalar(p_.substitute(p_.arg(b_, 2), rename[r])));
        if (guard_ != kNone) {
          const Val inside = e_.scalar(p_.substitute(guard_, rename[r]));
          to = e_.apply(TENON_S_SELECT, TENON_I64, {inside, to, zeros_});
          any = r == 0 ? inside : e_.apply(TENON_S_OR, TENON_PRED, {any, inside});
          all = r == 0 ? inside : e_.apply(TENON_S_AND, TENON_PRED, {all, inside});
        }
        e_.store_at(Space::kScratch, 0, TENON_I64, e_.add(slot, e_.integer(r)), to);
      }
      e_.store_at(Space::kScratch, 0, TENON_I64, e_.add(offsets, at),
                  e_.scalar(p_.sub(tap_offset, first)));
      const Val one = e_.integer(1);
      if (guard_ != kNone) {
        const Val some =
            e_.apply(TENON_S_AND, TENON_PRED, {any, e_.apply(TENON_S_NOT, TENON_PRED, {all})});
        e_.set(border_,
               e_.apply(TENON_S_SELECT, TENON_I64, {some, one, Val{border_, e_.depth(), false}}));
      }
      e_.set(count,
             e_.add(at,
                    skips_ ? e_.apply(TENON_S_SELECT, TENON_I64, {any, one, e_.integer(0)}) : one));
    });
    return {count, e_.depth(), false};
  }

  int64_t run_taps() { return p_.value(p_.axes()[s_.run_axis].extent).value_or(1); }

  // Fills the table for the strip [i, in) of one line: for each line of the filter, the places that
  // the rows read. Returns the number of lines; those that are padding for the whole strip are left
  // out. Rows beyond `in` repeat the last one.
  Val table_of_runs(Val i, Val in) {
    e_.comment("stage 0 Pack addresses");
    const int64_t places = (int64_t{s_.mr} - 1) * s_.run_step + run_taps();
    const uint32_t place = p_.add_axis(p_.integer(places));
    std::unordered_map<ExprId, ExprId> rename = {{p_.axis(column_), p_.integer(0)},
                                                 {p_.axis(s_.run_axis), p_.axis(place)}};
    std::vector<uint32_t> own, lines;
    for (uint32_t a : s_.rows) {
      own.push_back(p_.add_axis(p_.axes()[a].extent));
      rename[p_.axis(a)] = p_.axis(own.back());
    }
    decode(e_, i, own);
    std::copy_if(taps_.begin(), taps_.end(), std::back_inserter(lines),
                 [&](uint32_t a) { return a != s_.run_axis; });
    const Val rows = e_.sub(e_.sub(in, i), e_.integer(1)),
              last = e_.add(e_.mul(rows, e_.integer(s_.run_step)), e_.integer(run_taps() - 1));
    const ValueId count = e_.declare(e_.integer(0));
    if (guard_ != kNone) border_ = e_.declare(e_.integer(0));
    const Val base = scratch(table_at_, TENON_I64), offsets = scratch(offsets_at_, TENON_I64),
              one = e_.integer(1);
    const uint32_t x = e_.argument(p_.at(b_).ref, false);
    const ExprId weights =
        p_.substitute(p_.sub(weights_at(p_.integer(0)), weight_base(p_.integer(0))),
                      {{p_.axis(s_.run_axis), p_.integer(0)}});
    nest(lines, [&] {
      const Val at{count, e_.depth(), false}, slot = e_.add(base, e_.mul(at, e_.integer(places)));
      const ValueId inside = guard_ == kNone ? kNoValue : e_.declare(e_.integer(0)),
                    outside = guard_ == kNone ? kNoValue : e_.declare(e_.integer(0));
      e_.loop(Bind::kSerial, e_.integer(0), e_.integer(places), 1, false, [&](Val number) {
        e_.bind(place, e_.min(number, last));
        Val to = address(Space::kBuffer, x, e_.scalar(p_.substitute(p_.arg(b_, 2), rename)));
        if (guard_ != kNone) {
          const Val in_image = e_.scalar(p_.substitute(guard_, rename));
          to = e_.apply(TENON_S_SELECT, TENON_I64, {in_image, to, zeros_});
          e_.set(inside, e_.apply(TENON_S_SELECT, TENON_I64,
                                  {in_image, one, Val{inside, e_.depth(), false}}));
          e_.set(outside, e_.apply(TENON_S_SELECT, TENON_I64,
                                   {in_image, Val{outside, e_.depth(), false}, one}));
        }
        e_.store_at(Space::kScratch, 0, TENON_I64, e_.add(slot, number), to);
      });
      e_.store_at(Space::kScratch, 0, TENON_I64, e_.add(offsets, at), e_.scalar(weights));
      if (guard_ == kNone) {
        e_.set(count, e_.add(at, one));
        return;
      }
      const Val any{inside, e_.depth(), false}, some = e_.mul(any, Val{outside, e_.depth(), false});
      e_.set(border_, e_.add(Val{border_, e_.depth(), false}, some));
      e_.set(count, e_.add(at, skips_ ? any : one));
    });
    return {count, e_.depth(), false};
  }

  // The offset in the weights of the column at `column`, with the inner axis at 0.
  ExprId weights_at(ExprId column) {
    std::unordered_map<ExprId, ExprId> map = {{p_.axis(column_), column}};
    if (inner_ != ~0u) map[p_.axis(inner_)] = p_.integer(0);
    return p_.substitute(p_.arg(a_, 2), map);
  }
  ExprId weight_base(ExprId column) {
    std::unordered_map<ExprId, ExprId> map;
    for (uint32_t a : taps_) map[p_.axis(a)] = p_.integer(0);
    return p_.substitute(weights_at(column), map);
  }

  void one_panel(Val panel, Val i, Val in, Val taps) {
    e_.comment("stage 0 Step");
    const Val n = e_.scalar(n_);
    j0_ = e_.mul(panel, e_.integer(panel_));
    jn_ = e_.min(n, e_.add(j0_, e_.integer(panel_)));
    const uint32_t column = p_.add_axis(n_);
    e_.bind(column, j0_);
    const Val weights = e_.scalar(weight_base(p_.axis(column)));
    sum_taps(table_at_, offsets_at_, taps, weights, 0, runs());
    if (repairs()) repair(i, in, weights);
    epilogue(i, in);
  }

  void sum_taps(ExprId table, ExprId offsets, Val taps, Val weights, uint16_t tile, bool of_runs) {
    taps.depth = e_.depth();
    Node node;
    node.op = tile;
    node.kind = NodeKind::kTaps;
    node.type = acc_;
    node.lanes = s_.lanes;
    node.ref = s_.mr;
    node.bits = s_.nr;
    node.full = s_.depthwise;
    node.read = read_;
    node.args[0] = scratch(table, TENON_I64).v;
    node.args[1] = scratch(offsets, TENON_I64).v;
    node.args[2] = taps.v;
    node.args[3] = weights.v;
    node.b_buffer = static_cast<int32_t>(e_.argument(p_.at(a_).ref, false));
    const ExprId steps = p_.floordiv(length_, p_.integer(s_.steps));
    node.steps = s_.steps;
    node.list = {s_.depthwise ? e_.sub(jn_, j0_).v : e_.scalar(steps).v};
    node.stride = s_.depthwise ? j0_.v : e_.integer(panel_ * s_.steps).v;
    if (of_runs) {
      node.run = static_cast<uint32_t>(run_taps());
      node.run_step = static_cast<uint32_t>(s_.run_step);
      node.list.push_back(e_.scalar(run_stride()).v);
    }
    e_.emit(e_.depth(), node);
  }

  // Distance in elements between the weights of neighbours in a run.
  ExprId run_stride() {
    const uint32_t axes[] = {s_.run_axis};
    std::vector<ExprId> c;
    ExprId rest;
    p_.affine(p_.arg(a_, 2), axes, &c, &rest);
    return c[0];
  }

  void repair(Val i, Val in, Val weights) {
    const Val border{border_, e_.depth(), false};
    when(e_, e_.apply(TENON_S_CMP, TENON_I64, {border, e_.integer(0)}, TENON_CMP_NE), [&] {
      Node nan;
      nan.kind = NodeKind::kAnyNan;
      nan.type = acc_;
      nan.lanes = s_.lanes;
      nan.ref = s_.mr;
      nan.bits = panel_;
      nan.args[0] = e_.sub(jn_, j0_).v;
      nan.dst = e_.value(TENON_PRED, 1);
      const Val found{e_.emit(e_.depth(), nan), e_.depth(), false};
      when(e_, found, [&] {
        e_.comment("stage 0 Step without padding");
        const Val end = e_.min(in, e_.add(i, e_.integer(s_.mr)));
        e_.loop(Bind::kSerial, i, end, 1, false, [&](Val r) { one_row(r, e_.sub(r, i), weights); });
      });
    });
  }

  // Computes row r again, in every row of the second tile, from the taps inside.
  void one_row(Val r, Val place, Val weights) {
    std::unordered_map<ExprId, ExprId> rename;
    std::vector<uint32_t> own;
    for (uint32_t a : s_.rows) {
      own.push_back(p_.add_axis(p_.axes()[a].extent));
      rename[p_.axis(a)] = p_.axis(own.back());
    }
    if (inner_ != ~0u) rename[p_.axis(inner_)] = p_.integer(0);
    if (s_.depthwise) rename[p_.axis(column_)] = p_.integer(0);
    decode(e_, r, own);
    const ValueId count = e_.declare(e_.integer(0));
    const Val base = scratch(row_table_at_, TENON_I64),
              offsets = scratch(row_offsets_at_, TENON_I64);
    const ExprId tap = p_.sub(weights_at(p_.integer(0)), weight_base(p_.integer(0)));
    nest(taps_, [&] {
      const Val at{count, e_.depth(), false};
      const Val inside = e_.scalar(p_.substitute(guard_, rename));
      const Val to = address(Space::kBuffer, e_.argument(p_.at(b_).ref, false),
                             e_.scalar(p_.substitute(p_.arg(b_, 2), rename)));
      const Val slot = e_.add(base, e_.mul(at, e_.integer(s_.mr)));
      e_.loop(Bind::kSerial, e_.integer(0), e_.integer(s_.mr), 1, false, [&](Val copy) {
        Val where = e_.add(slot, copy);
        e_.store_at(Space::kScratch, 0, TENON_I64, where, to);
      });
      e_.store_at(Space::kScratch, 0, TENON_I64, e_.add(offsets, at), e_.scalar(tap));
      e_.set(count, e_.add(at, e_.apply(TENON_S_SELECT, TENON_I64,
                                        {inside, e_.integer(1), e_.integer(0)})));
    });
    sum_taps(row_table_at_, row_offsets_at_, {count, e_.depth(), false}, weights, 1, false);
    const Val line = e_.mul(place, e_.integer(panel_));
    e_.loop(Bind::kSerial, e_.integer(0), e_.integer(panel_), w_, false, [&](Val v) {
      e_.store_at(Space::kLocal, 0, acc_, e_.add(line, v),
                  e_.load_at(Space::kLocal, 1, acc_, v, s_.lanes));
    });
  }

  // A loop over the lanes of the column axis in [lo, hi): full vectors, then one masked vector.
  template <class F>
  void lanes(Val lo, Val hi, F body) {
    e_.vector_axis = column_;
    auto run = [&](Val at, bool masked) {
      at.varies = true;
      e_.bind(column_, at);
      if (masked) mask_below(e_, column_, hi);
      body(at);
      e_.mask = kNoValue;
    };
    const auto n = p_.value(n_);
    const bool whole = n && *n % w_ == 0;
    Val rest = lo;
    if (!n || *n >= w_) {
      e_.loop(Bind::kVector, lo, hi, w_, true, [&](Val at) { run(at, false); });
      const Val count = e_.sub(hi, lo);
      rest = e_.add(lo, e_.sub(count, e_.mod(count, e_.integer(w_))));
    }
    if (!whole) e_.loop(Bind::kVector, rest, hi, w_, false, [&](Val at) { run(at, true); });
    e_.vector_axis = ~0u;
  }

  void epilogue(Val i, Val in) {
    e_.comment("stage 0 Final");
    const Val end = e_.min(in, e_.add(i, e_.integer(s_.mr)));
    e_.loop(Bind::kSerial, i, end, 1, false, [&](Val r) {
      if (!s_.rows.empty()) decode(e_, r, s_.rows);
      const Val line = e_.mul(e_.sub(r, i), e_.integer(panel_));
      lanes(j0_, jn_, [&](Val at) {
        Val from = e_.add(line, e_.sub(at, j0_));
        from.depth = e_.depth();
        const Val x = e_.load_at(Space::kLocal, 0, acc_, from, s_.lanes);
        e_.open_alias();
        e_.states = {x};
        std::vector<Val> values;
        for (ExprId f : st_.final) values.push_back(e_.vector(f));
        e_.states.clear();
        e_.close_alias();
        for (size_t f = 0; f < st_.store.size(); ++f) e_.store(st_.store[f], values[f], true);
      });
    });
  }

  Emitter& e_;
  const Schedule& s_;
  Pool& p_;
  const Stage& st_;
  ExprId a_ = kNone, b_ = kNone;  // the loads
  DType acc_ = TENON_DTYPE_NONE,
        read_ = TENON_DTYPE_NONE;  // type of the sums, and of what the tile reads
  int64_t w_ = 1, panel_ = 1;
  uint32_t column_ = 0, inner_ = ~0u;
  std::vector<uint32_t> taps_;
  // If strips are within lines: the rows of a line, and all strips.
  ExprId line_ = kNone, strips_ = kNone;
  ExprId outside_ = kNone;  // what padding holds
  bool skips_ = false;      // leaves out taps that are padding for a whole strip
  ExprId n_ = kNone, m_ = kNone, guard_ = kNone, length_ = kNone, tap_count_ = kNone;
  ExprId table_at_ = kNone, offsets_at_ = kNone, zeros_at_ = kNone;
  ExprId row_table_at_ = kNone, row_offsets_at_ = kNone;
  // Set if a tap is padding for some rows of the strip and not for others.
  ValueId border_ = kNoValue;
  Val zeros_, j0_, jn_;
};

}  // namespace

bool lower_convolution(Emitter& e, const Schedule& s, std::string* why) {
  return Convolution(e, s).run(why);
}

}  // namespace tenon::kernelgen
