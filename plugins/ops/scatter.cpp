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
      .cost(TENON_COST_DATA_MOVEMENT)
      .traits(TENON_TRAIT_NO_RECOMPUTE);
  return draft;
}

TENON_OPS(scatter, declare)

}  // namespace tenon::ops::scatter_op
