// scatter: writes windows into a copy of x at computed positions.
#include "gather_dims.h"

namespace tenon::ops::scatter_op {

template <class Source>
GatherDims dims_of(const Source& q, size_t index_rank) {
  const auto list = [&](std::string_view name) {
    const auto s = q.i64s(name);
    return Axes(s.begin(), s.end());
  };
  GatherDims g = {list("window_dims"), list("inserted_dims"),    list("index_map"),
                  list("batch_dims"),  list("index_batch_dims"), q.i64("index_vector_dim")};
  if (g.index_vector_dim == -1) g.index_vector_dim = static_cast<int64_t>(index_rank);
  return g;
}

Status infer(const InferQuery& q) {
  const std::string_view kind = q.text("kind");
  if (is_complex(q.dtype(0)) && kind != "set" && kind != "add")
    return q.fail("C7", cat("kind is ", kind, ", x has ", dtype_name(q.dtype(0))));
  const GatherDims g = dims_of(q, q.rank(1));
  TENON_TRY(check_gather_dims(q, g, q.rank(2)));
  const Axes index_axes = g.index_axes(q.rank(1)), window = g.window_axes(q.rank(0));
  const Axes outer = others(q.rank(2), g.offset_dims);
  TENON_TRY(require_length(q, "C5", "the rank of updates without window_dims", outer.size(),
                           index_axes.size()));
  for (size_t k = 0; k < outer.size(); ++k) {
    TENON_TRY(q.require_equal("C5", q.dim(2, static_cast<uint32_t>(outer[k])),
                              q.dim(1, static_cast<uint32_t>(index_axes[k])),
                              "dims of updates and indices"));
  }
  for (size_t k = 0; k < window.size(); ++k) {
    TENON_TRY(q.require("C6", TENON_REL_LE, q.dim(2, static_cast<uint32_t>(g.offset_dims[k])),
                        q.dim(0, static_cast<uint32_t>(window[k])),
                        "window of updates and dim of x"));
  }
  return q.result(q.dtype(0), q.dims(0));
}

template <class Number>
Number combine(std::string_view kind, Number old, Number update) {
  // Signed sums and products wrap, so they are computed as unsigned numbers.
  using Wrapping = std::conditional_t<std::is_same_v<Number, double>, double, uint64_t>;
  if (kind == "add")
    return static_cast<Number>(static_cast<Wrapping>(old) + static_cast<Wrapping>(update));
  if (kind == "mul")
    return static_cast<Number>(static_cast<Wrapping>(old) * static_cast<Wrapping>(update));
  if (kind == "min") return min_of(old, update);
  if (kind == "max") return max_of(old, update);
  return update;
}

Status reference(const Eval& e) {
  const Array x = e.input(0), indices = e.input(1), updates = e.input(2), y = e.output();
  const std::string_view mode = e.text("mode"), kind = e.text("kind");
  const GatherDims g = dims_of(e, indices.rank());
  Axes sizes(x.rank(), 1);
  const Axes window_axes = g.window_axes(x.rank());
  for (size_t k = 0; k < window_axes.size(); ++k) {
    sizes[static_cast<size_t>(window_axes[k])] = updates.dim(static_cast<size_t>(g.offset_dims[k]));
  }
  each_index(y.dims(), [&](const Index& i) { y.copy_from(i, x, i); });
  return with_number(x.dtype(), [&]<class Number>(Number) -> Status {
    Status status;
    Index to(x.rank());
    each_gathered(
        g, x.dims(), indices.dims(), updates.dims(),
        [&](const Index& i) { return load_int(indices.dtype(), indices.at(i)); },
        [&](const Index& outer, Index& begin, const Index& window) {
          if (!place_window(mode, x.dims(), sizes, begin)) {
            if (mode == "in_bounds") {
              status = outside("scatter", x.dims(), sizes, begin);
            }
            return;
          }
          for (size_t k = 0; k < to.size(); ++k) to[k] = begin[k] + window[k];
          if (kind == "set") return y.copy_from(to, updates, outer);
          if constexpr (std::is_same_v<Number, double>) {
            store_double(y.dtype(), y.at(to),
                         combine(kind, load_double(y.dtype(), y.at(to)),
                                 load_double(y.dtype(), updates.at(outer))));
          } else {
            store_int(y.dtype(), y.at(to),
                      static_cast<int64_t>(
                          combine(kind, static_cast<Number>(load_int(y.dtype(), y.at(to))),
                                  static_cast<Number>(load_int(y.dtype(), updates.at(outer))))));
          }
        });
    return status;
  });
}

// ---- Derivatives ----

// A scatter as its rules see it.
struct Scatter {
  Builder& b;
  Value x, indices, updates, y;
  GatherDims dims;
  std::string kind, mode;
  Scatter(Builder& builder, const Node& node)
      : b(builder),
        x(node.operand(0)),
        indices(node.operand(1)),
        updates(node.operand(2)),
        y(node.result()),
        dims(dims_of(node, indices.rank())),
        kind(node.text("kind")),
        mode(node.text("mode")) {}

  // The elements that updates meet; 0 for those outside.
  Value met(Value from) const {
    Dims sizes;
    for (uint32_t i = 0; i < x.rank(); ++i) sizes.push_back(one_each(b, x.dim(i), indices));
    const Axes window = dims.window_axes(x.rank());
    for (size_t k = 0; k < window.size(); ++k) {
      sizes[static_cast<size_t>(window[k])] =
          updates.dim(static_cast<uint32_t>(dims.offset_dims[k]));
    }
    return gathered(b, from, indices, sizes, dims, mode);
  }
  Value sums(Value g) const { return added_up(b, g, indices, x.dims(), dims, mode); }
  // The numbers from 1 on.
  Value numbered(const Dims& shape) const {
    const Dims count = {count_of_elements(b, shape)};
    const Value all = b.build("iota", {}, {{"shape", count}});
    return reshape(b, plus(b, all, b.splat(b.scalar_int(TENON_I64, 1), count)), shape);
  }
};

// Which updates stay: of several for one element the last one.
Value is_last(const Scatter& s) {
  const Value own = s.numbered(s.updates.dims());
  const Value none = s.b.splat(s.b.scalar_int(TENON_I64, 0), s.x.dims());
  const Value stays = scattered(s.b, "set", none, s.indices, own, s.dims, s.mode);
  return equal(s.b, s.met(stays), own);
}

// The product, for each entry, of those before it in its run of equal `ids`.
Value products_before(Builder& b, Value ids, Value x) {
  const auto where_same = [&](Value v, int64_t distance) {
    const Value same = equal(b, ids, moved(b, ids, 0, distance, -1));
    return b.build("select", {same, moved(b, v, 0, distance, 1), b.full_like(v, 1)});
  };
  Value out = where_same(x, 1);
  for (const int64_t distance : doublings(x.dim(0))) out = times(b, out, where_same(out, distance));
  return out;
}
// The product of all other updates of the same element; without division, because of zeros.
Value products_of_others(const Scatter& s) {
  Builder& b = s.b;
  const Dims flat = {count_of_elements(b, s.updates.dims())};
  const Value ids = reshape(b, s.met(s.numbered(s.x.dims())), flat);
  const Node sorted =
      b.build_node("sort", std::vector<Value>{ids, b.build("iota", {}, {{"shape", flat}})});
  const Value order = sorted.result(1), places = b.build("iota", {}, {{"shape", flat}});
  const Value back = b.build_node("sort", std::vector<Value>{order, places}).result(1);
  const auto take = [&](Value v, Value at) { return b.build("take", {v, at}, {{"dim", 0}}); };
  const Value x = take(reshape(b, s.updates, flat), order);
  const Value before = products_before(b, sorted.result(0), x);
  const Value after = products_before(b, backwards(b, sorted.result(0), 0), backwards(b, x, 0));
  return reshape(b, take(times(b, before, backwards(b, after, 0)), back), s.updates.dims());
}

// y' = of_x x' + outer sum(of_updates updates'), element by element; sum adds up what meets.
struct Slopes {
  Value of_x, of_updates, outer;
};
// mul: the products of all others. min, max: those that are equal to y share the derivative.
Slopes slopes_of(const Scatter& s) {
  Builder& b = s.b;
  const Value ones = b.full_like(s.x, 1);
  if (s.kind == "mul") {
    return {scattered(b, "mul", ones, s.indices, s.updates, s.dims, s.mode), products_of_others(s),
            s.x};
  }
  const Value from_x = kept(b, equal(b, s.x, s.y), ones);
  const Value from_updates = kept(b, equal(b, s.updates, s.met(s.y)), b.full_like(s.updates, 1));
  const Value share = b.build("div", {ones, plus(b, from_x, s.sums(from_updates))});
  return {times(b, from_x, share), from_updates, share};
}

std::vector<Value> jvp(Builder& b, const Node& node, std::span<const Value> tangents) {
  const Scatter s(b, node);
  const Value dx = tangents[0], du = tangents[2];
  if (s.kind == "set" || s.kind == "add") {
    return {scattered(b, s.kind, dx.valid() ? dx : b.full_like(s.x, 0), s.indices,
                      du.valid() ? du : b.full_like(s.updates, 0), s.dims, s.mode)};
  }
  const Slopes slopes = slopes_of(s);
  Value out;
  if (dx.valid()) out = times(b, slopes.of_x, dx);
  if (du.valid())
    out = plus(b, out, times(b, slopes.outer, s.sums(times(b, slopes.of_updates, du))));
  return {out};
}
std::vector<Value> pull(Builder& b, const Node& node, std::span<const uint8_t> wanted,
                        std::span<const Value> cotangents) {
  const Scatter s(b, node);
  const Value g = cotangents[0];
  if (s.kind == "add") return {g, Value(), wanted[2] != 0 ? s.met(g) : Value()};
  if (s.kind == "set") {
    const Value none = b.full_like(s.updates, 0);
    return {scattered(b, "set", g, s.indices, none, s.dims, s.mode), Value(),
            wanted[2] != 0 ? kept(b, is_last(s), s.met(g)) : Value()};
  }
  const Slopes slopes = slopes_of(s);
  return {times(b, slopes.of_x, g), Value(),
          times(b, slopes.of_updates, s.met(times(b, slopes.outer, g)))};
}

std::vector<Value> batch(Builder& b, const Node& node, std::span<const Value> operands,
                         std::span<const uint8_t> is_batched, Dim size) {
  const Scatter s(b, node);
  return {scattered(b, s.kind, repeated(b, operands[0], is_batched[0] != 0, size), operands[1],
                    repeated(b, operands[2], is_batched[2] != 0, size),
                    with_samples(s.dims, true, is_batched[1] != 0), s.mode)};
}

constexpr OpDraft declare() {
  OpDraft draft = op("scatter", kPrimitive);
  draft.summary("x with windows at computed places set, or combined with updates.")
      .doc(
          "Dim numbers as for gather, with the updates in the place of its result: window_dims of "
          "updates run over the "
          "window, which has not the inserted_dims. Several updates of one element are applied in "
          "the order of the updates. "
          "mode: fill drops windows that do not fit, clip moves them, in_bounds promises that "
          "there are none.")
      .operand("x", "what is written into", kWhole, 1)
      .operand("indices", "where windows begin", kInt)
      .operand("updates", "what is written", kWhole, 1)
      .result("y", "same type as x")
      .attr_string("kind", "how an update meets the old element", "set", "set|add|mul|min|max")
      .attr_i64s("window_dims", "dims of updates that run over the window, increasing")
      .attr_i64s("inserted_dims", "dims of x that the window has once and updates have not")
      .attr_i64s("index_map", "per component of an index, the dim of x that it addresses")
      .attr_i64s("batch_dims", "dims of x that move with those of indices")
      .attr_i64s("index_batch_dims", "dims of indices that move with those of x")
      .attr_i64("index_vector_dim",
                "the dim of indices that holds the components; -1: each index is one number", -1)
      .attr_string("mode", "what happens outside of x", "fill", "clip|fill|in_bounds")
      .constraint("C1", "index_map has one entry per component of an index",
                  "scatter(f32[4], i64[2], f32[2]) {inserted_dims = [0], index_map = []}")
      .constraint("C2", "inserted_dims, batch_dims and index_map name distinct dims of x",
                  "scatter(f32[4], i64[2], f32[2]) {inserted_dims = [0], index_map = [1]}")
      .constraint("C3", "batch_dims and index_batch_dims pair equal dims",
                  "scatter(f32[2, 4], i64[3], f32[3]) {inserted_dims = [1], index_map = [1], "
                  "batch_dims = [0], "
                  "index_batch_dims = [0]}")
      .constraint("C4", "window_dims increases and has one entry per dim of the window",
                  "scatter(f32[4, 3], i64[2], f32[2, 3]) {inserted_dims = [0], index_map = [0]}")
      .constraint("C5", "the other dims of updates are those of indices",
                  "scatter(f32[4], i64[2], f32[3]) {inserted_dims = [0], index_map = [0]}")
      .constraint("C6", "the window is no larger than x",
                  "scatter(f32[4, 3], i64[2], f32[2, 5]) {inserted_dims = [0], index_map = [0], "
                  "window_dims = [1]}")
      .constraint("C7", "complex numbers are set or added",
                  "scatter(c64[4], i64[2], c64[2]) {kind = \"max\", inserted_dims = [0], "
                  "index_map = [0]}")
      .example(
          "scatter(f32[4] [1, 2, 3, 4], i64[2] [3, 0], f32[2] [8, 9]) {inserted_dims = [0], "
          "index_map = [0]} -> "
          "f32[4] [9, 2, 3, 8]")
      .example(
          "scatter(i32[3] [1, 2, 3], i64[3] [1, 1, 7], i32[3] [10, 20, 30]) {kind = \"add\", "
          "inserted_dims = [0], "
          "index_map = [0]} -> i32[3] [1, 32, 3]")
      .infer<infer>()
      .reference<reference>()
      .decompose_complex<by_parts>()
      .jvp<jvp>()
      .pull<pull>()
      .batch<batch>()
      .cost(TENON_COST_DATA_MOVEMENT)
      .traits(TENON_TRAIT_NO_RECOMPUTE);
  return draft;
}

TENON_OPS(scatter, declare)

}  // namespace tenon::ops::scatter_op
