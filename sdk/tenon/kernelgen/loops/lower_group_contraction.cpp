// Contractions and convolutions for groups of work items: a group computes a tile of rows x
// columns. It copies `depth` steps of both operands into shared memory at a time, whatever their
// guards and strides, and each item sums mr x nr products in registers. What lies contiguous is
// copied several elements at once.
#include <algorithm>

#include "tenon/kernelgen/loops/lower_internal.h"
#include "tenon/kernelgen/schedule/contraction.h"
#include "tenon/kernelgen/schedule/neighbours.h"

namespace tenon::kernelgen {
namespace {

class GroupContraction {
 public:
  GroupContraction(Emitter& e, const Schedule& s)
      : e_(e),
        s_(s),
        p_(e.pool()),
        st_(e.prepared().kernel.stages[0]),
        depth_(s.depth),
        group_rows_(s.group / s.group_columns) {}

  void run() {
    acc_ = p_.type(st_.a);
    a_ = {s_.swapped ? st_.b : st_.a, s_.rows, product(s_.rows), group_rows_ * s_.mr};
    b_ = {s_.swapped ? st_.a : st_.b, s_.columns, product(s_.columns),
          int64_t{s_.group_columns} * s_.nr};
    sum_ = product(st_.reduce);
    for (Side* side : {&a_, &b_}) {
      side->along_sum = along_sum(*side);
      side->wide = wide_of(*side);
      // Items that store at the same time use different banks: one element each along the sum, at
      // every step or at every fourth; or vectors along the free axes.
      const bool wide = side->wide > 1;
      side->line = side->width + (!wide ? 1 : side->along_sum ? 2 : 0);
      side->shared = e_.share(acc_, side->line * depth_, wide && !side->along_sum);
    }
    std::vector<uint32_t> outer;
    for (uint32_t axis : st_.space) {
      const bool tile = std::find(s_.rows.begin(), s_.rows.end(), axis) != s_.rows.end() ||
                        std::find(s_.columns.begin(), s_.columns.end(), axis) != s_.columns.end();
      if (!tile) outer.push_back(axis);
    }
    const Val lane = e_.lane_id();
    row_ = e_.div(lane, e_.integer(s_.group_columns));
    column_ = e_.mod(lane, e_.integer(s_.group_columns));
    loop_over_tiles(e_, s_, p_.ceildiv(a_.count, a_.width), p_.ceildiv(b_.count, b_.width), outer,
                    [&](Val block, Val panel) { tile(block, panel); });
  }

 private:
  // One operand: its free axes as one, and the part of it that the group holds.
  struct Side {
    ExprId value = kNone;
    std::vector<uint32_t> axes;
    ExprId count = kNone;
    int64_t width = 0;       // of the tile
    bool along_sum = false;  // neighbours along the sum, not the free axes, are adjacent in memory
    uint32_t wide = 1;       // neighbours that an item copies at once
    int64_t line = 0;        // elements of shared memory for one step
    uint32_t shared = 0;
    Val first;  // of the tile
  };

  ExprId product(const std::vector<uint32_t>& axes) {
    ExprId n = p_.integer(1);
    for (uint32_t a : axes) n = p_.mul(n, p_.axes()[a].extent);
    return n;
  }

  void tile(Val block, Val panel) {
    a_.first = e_.mul(block, e_.integer(a_.width));
    b_.first = e_.mul(panel, e_.integer(b_.width));
    e_.comment("stage 0 Init");
    std::vector<ValueId> acc;
    for (uint32_t x = 0; x < s_.mr * s_.nr; ++x)
      acc.push_back(e_.declare(e_.scalar(p_.number(0, acc_))));
    e_.loop(Bind::kSerial, e_.integer(0), e_.scalar(sum_), depth_, false, [&](Val step) {
      fill(a_, step);
      fill(b_, step);
      e_.barrier(false);
      e_.comment("stage 0 Step");
      e_.loop(Bind::kSerial, e_.integer(0), e_.integer(depth_), 1, false,
              [&](Val at) { multiply(at, acc); });
      // All steps at once would need more registers than there are.
      e_.unroll(4);
      e_.barrier(false);
    });
    epilogue(acc);
  }

  bool along_sum(const Side& side) {
    if (st_.reduce.empty()) return false;
    const uint32_t axes[] = {st_.reduce.back(), side.axes.back()};
    std::vector<ExprId> loads;
    p_.loads(side.value, &loads);
    for (ExprId l : loads) {
      std::vector<ExprId> c;
      ExprId rest;
      if (p_.affine(p_.arg(l, 2), axes, &c, &rest))
        return p_.is_const(c[0], 1) && !p_.is_const(c[1], 1);
    }
    return std::ranges::any_of(loads, [&](ExprId l) {
      return neighbours(p_, p_.arg(l, 2), axes[0], kNeighbours) == Apart::kContiguous;
    });
  }

  // The axis along which memory is contiguous.
  uint32_t axis_of(const Side& side) const {
    return side.along_sum ? st_.reduce.back() : side.axes.back();
  }

  // More than 1 where every load of the operand is then one load, and no group of neighbours is cut
  // by a tile's end or an axis'.
  uint32_t wide_of(const Side& side) {
    const uint32_t wide = s_.wide;
    if (wide == 1 || !fits_at_once(acc_) || (side.along_sum ? depth_ : side.width) % wide != 0 ||
        !p_.is_const(p_.mod(p_.axes()[axis_of(side)].extent, p_.integer(wide)), 0))
      return 1;
    std::vector<ExprId> loads;
    p_.loads(side.value, &loads);
    bool any = false;
    for (ExprId l : loads) {
      const Apart apart = neighbours(p_, p_.arg(l, 2), axis_of(side), wide);
      if (p_.arg(l, 0) != kNone || apart == Apart::kOther ||
          (apart == Apart::kContiguous && !fits_at_once(p_.type(l))))
        return 1;
      any |= apart == Apart::kContiguous;
    }
    return any ? wide : 1;
  }

  // shared[step * line + place] = the element, or zero after the end of the sum. Places after the
  // last row repeat the last row, or the last ones that are copied at once.
  void fill(const Side& side, Val begin) {
    e_.comment(&side == &a_ ? "stage 0 Fill a" : "stage 0 Fill b");
    const auto last = [&](ExprId count, bool along) {
      return e_.sub(e_.scalar(count), e_.integer(along ? side.wide : 1));
    };
    e_.loop(
        Bind::kLanes, e_.integer(0), e_.integer(side.width * depth_), side.wide, false, [&](Val x) {
          const Val run = e_.integer(side.along_sum ? depth_ : side.width);
          const Val inner = e_.mod(x, run), outer = e_.div(x, run);
          const Val place = side.along_sum ? outer : inner, step = side.along_sum ? inner : outer,
                    at = e_.add(begin, step);
          const Val point = e_.min(e_.add(side.first, place), last(side.count, !side.along_sum)),
                    in_sum = e_.min(at, last(sum_, side.along_sum));
          const Val to = e_.add(e_.mul(step, e_.integer(side.line)), place);
          if (side.wide > 1) return fill_at_once(side, point, in_sum, at, to);
          decode(e_, point, side.axes);
          if (!st_.reduce.empty()) decode(e_, in_sum, st_.reduce);
          e_.store_at(Space::kShared, side.shared, acc_, to, element(side, at));
        });
  }

  Val element(const Side& side, Val at) {
    const Val v = e_.as_type(e_.scalar(side.value), acc_);
    const auto steps = p_.value(sum_);
    if (steps && *steps % depth_ == 0) return v;
    return e_.apply(TENON_S_SELECT, acc_,
                    {e_.less(at, e_.scalar(sum_)), v, e_.scalar(p_.number(0, acc_))});
  }

  void fill_at_once(const Side& side, Val point, Val in_sum, Val at, Val to) {
    const std::vector<uint32_t>& along = side.along_sum ? st_.reduce : side.axes;
    const std::vector<uint32_t>& other = side.along_sum ? side.axes : st_.reduce;
    if (!other.empty()) decode(e_, side.along_sum ? point : in_sum, other);
    const Val first = decode_outer(e_, side.along_sum ? in_sum : point, along);
    with_copies(e_, along.back(), side.wide, first, [&] {
      std::vector<Val> values;
      for (e_.copy = 0; e_.copy < side.wide; ++e_.copy) values.push_back(element(side, at));
      e_.copy = 0;
      if (!side.along_sum)
        return e_.store_at(Space::kShared, side.shared, acc_, to, e_.join_copies(acc_, values));
      for (uint32_t c = 0; c < side.wide; ++c)
        e_.store_at(Space::kShared, side.shared, acc_, e_.add(to, e_.integer(c * side.line)),
                    values[c]);
    });
  }

  void multiply(Val at, const std::vector<ValueId>& acc) {
    auto column = [&](const Side& side, Val mine, uint32_t count, int64_t apart) {
      std::vector<Val> out;
      const Val line = e_.add(e_.mul(at, e_.integer(side.line)), mine);
      for (uint32_t i = 0; i < count; ++i) {
        out.push_back(e_.load_at(Space::kShared, side.shared, acc_,
                                 here(e_.add(line, e_.integer(i * apart))), 1));
      }
      return out;
    };
    const std::vector<Val> a = column(a_, row_, s_.mr, group_rows_),
                           b = column(b_, column_, s_.nr, s_.group_columns);
    for (uint32_t r = 0; r < s_.mr; ++r) {
      for (uint32_t c = 0; c < s_.nr; ++c) {
        const ValueId into = acc[r * s_.nr + c];
        e_.set(into, e_.mul_add(acc_, a[r], b[c], Val{into, e_.depth(), false}));
      }
    }
  }

  Val here(Val v) {
    v.depth = e_.depth();
    return v;
  }

  void epilogue(const std::vector<ValueId>& acc) {
    e_.comment("stage 0 Final");
    Node tile;
    tile.kind = NodeKind::kLocal;
    tile.type = acc_;
    tile.bits = int64_t{s_.mr} * s_.nr;
    e_.emit(e_.depth(), tile);
    for (size_t i = 0; i < acc.size(); ++i) {
      e_.store_at(Space::kLocal, 0, acc_, e_.integer(static_cast<int64_t>(i)),
                  Val{acc[i], e_.depth(), false});
    }
    each(a_, row_, s_.mr, group_rows_, [&](Val r) {
      each(b_, column_, s_.nr, s_.group_columns, [&](Val c) {
        const Val x =
            e_.load_at(Space::kLocal, 0, acc_, here(e_.add(e_.mul(r, e_.integer(s_.nr)), c)), 1);
        e_.open_alias();
        e_.states = {x};
        std::vector<Val> values;
        for (ExprId f : st_.final) values.push_back(e_.scalar(f));
        e_.states.clear();
        e_.close_alias();
        for (size_t f = 0; f < st_.store.size(); ++f) e_.store(st_.store[f], values[f], false);
      });
    });
  }

  // Loops over the item's own rows or columns that exist.
  template <class F>
  void each(const Side& side, Val mine, uint32_t count, int64_t apart, F body) {
    e_.loop(Bind::kSerial, e_.integer(0), e_.integer(count), 1, false, [&](Val i) {
      const Val at = e_.add(e_.add(side.first, mine), e_.mul(i, e_.integer(apart)));
      e_.only_if(e_.less(at, e_.scalar(side.count)), [&] {
        // Expressions that depend on the place are computed inside the condition, because they may
        // be loads.
        decode(e_, here(at), side.axes);
        body(i);
      });
    });
  }

  Emitter& e_;
  const Schedule& s_;
  Pool& p_;
  const Stage& st_;
  const int64_t depth_, group_rows_;
  DType acc_ = TENON_DTYPE_NONE;
  Side a_, b_;
  ExprId sum_ = kNone;
  Val row_, column_;
};

}  // namespace

bool lower_group_contraction(Emitter& e, const Schedule& s, std::string*) {
  GroupContraction(e, s).run();
  return true;
}

}  // namespace tenon::kernelgen
