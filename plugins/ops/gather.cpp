// gather: windows of x at computed positions.
#include "gather_dims.h"

namespace tenon::ops::gather_op {

template <class Source>
GatherDims dims_of(const Source& q, size_t index_rank) {
  const auto list = [&](std::string_view name) {
    const auto s = q.i64s(name);
    return Axes(s.begin(), s.end());
  };
  GatherDims g = {list("offset_dims"), list("collapsed_dims"),   list("index_map"),
                  list("batch_dims"),  list("index_batch_dims"), q.i64("index_vector_dim")};
  if (g.index_vector_dim == -1) g.index_vector_dim = static_cast<int64_t>(index_rank);
  return g;
}

Status infer(const InferQuery& q) {
  const GatherDims g = dims_of(q, q.rank(1));
  const Axes index_axes = g.index_axes(q.rank(1));
  const size_t rank = index_axes.size() + g.offset_dims.size();
  TENON_TRY(check_gather_dims(q, g, rank));
  const Dims sizes = q.dims("sizes");
  TENON_TRY(require_length(q, "C5", "sizes", sizes.size(), q.rank(0)));
  for (uint32_t i = 0; i < sizes.size(); ++i) {
    TENON_TRY(
        q.require("C5", TENON_REL_LE, sizes[i], q.dim(0, i), cat("size and extent of dim ", i)));
  }
  for (const Axes* list : {&g.collapsed_dims, &g.batch_dims}) {
    for (int64_t d : *list) {
      TENON_TRY(q.require("C6", TENON_REL_LE, sizes[static_cast<size_t>(d)], q.constant(1),
                          cat("size of dim ", d, " and 1")));
    }
  }
  Dims dims(rank);
  const Axes window = g.window_axes(q.rank(0));
  for (size_t k = 0; k < window.size(); ++k) {
    dims[static_cast<size_t>(g.offset_dims[k])] = sizes[static_cast<size_t>(window[k])];
  }
  const Axes outer = others(static_cast<int64_t>(rank), g.offset_dims);
  for (size_t k = 0; k < outer.size(); ++k) {
    dims[static_cast<size_t>(outer[k])] = q.dim(1, static_cast<uint32_t>(index_axes[k]));
  }
  return q.result(q.dtype(0), dims);
}

// The number of elements that are adjacent in both the operand and the result, so that rows of
// embeddings are copied whole.
int64_t run_of(const GatherDims& g, const Array& x, const Array& y) {
  const Axes window = g.window_axes(x.rank());
  if (y.rank() == 0 || x.rank() == 0 || window.empty() ||
      g.offset_dims.back() != static_cast<int64_t>(y.rank()) - 1 ||
      window.back() != static_cast<int64_t>(x.rank()) - 1) {
    return 1;
  }
  const int64_t bytes = x.element_bytes();
  const bool dense = x.strides_bytes().back() == bytes && y.strides_bytes().back() == bytes;
  return dense ? y.dims().back() : 1;
}

Status reference(const Eval& e) {
  const Array x = e.input(0), indices = e.input(1), y = e.output();
  const GatherDims g = dims_of(e, indices.rank());
  const int64_t run = run_of(g, x, y);
  const size_t run_bytes = static_cast<size_t>(run) * y.element_bytes();
  Index runs(y.dims().begin(), y.dims().end());
  if (run > 1) runs.back() = 1;
  const std::string_view mode = e.text("mode");
  Status status;
  Index from(x.rank());
  each_gathered(
      g, x.dims(), indices.dims(), runs,
      [&](const Index& i) { return load_int(indices.dtype(), indices.at(i)); },
      [&](const Index& outer, Index& begin, const Index& window) {
        const bool inside = place_window(mode, x.dims(), e.i64s("sizes"), begin);
        if (!inside && mode == "in_bounds") {
          status = outside("gather", x.dims(), e.i64s("sizes"), begin);
        }
        if (!inside) {
          std::memset(y.at(outer), 0, run_bytes);
          return;
        }
        for (size_t k = 0; k < from.size(); ++k) from[k] = begin[k] + window[k];
        std::memcpy(y.at(outer), x.at(from), run_bytes);
      });
  return status;
}

Status value_of(const InferQuery& q, uint32_t, tenon_dim_t* out) {
  const auto x = known(q, 0);
  const auto indices = known(q, 1);
  if (!x || !indices) return TENON_NOT_FOUND;
  Axes numbers, sizes, dims;
  for (Dim d : indices->values) {
    const auto number = constant_of(d);
    if (!number) return TENON_NOT_FOUND;
    numbers.push_back(*number);
  }
  for (Dim d : q.dims("sizes")) {
    if (!d.is_constant()) return TENON_NOT_FOUND;
    sizes.push_back(d.constant());
  }
  const GatherDims g = dims_of(q, q.rank(1));
  const Axes index_axes = g.index_axes(q.rank(1)), window_axes = g.window_axes(q.rank(0));
  dims.resize(index_axes.size() + g.offset_dims.size());
  const Axes outer = others(static_cast<int64_t>(dims.size()), g.offset_dims);
  for (size_t k = 0; k < outer.size(); ++k) {
    dims[static_cast<size_t>(outer[k])] = indices->dims[static_cast<size_t>(index_axes[k])];
  }
  for (size_t k = 0; k < window_axes.size(); ++k) {
    dims[static_cast<size_t>(g.offset_dims[k])] = sizes[static_cast<size_t>(window_axes[k])];
  }
  const auto index_strides = strides_of(indices->dims);
  const auto strides = strides_of(x->dims);
  std::vector<Dim> values;
  each_gathered(
      g, x->dims, indices->dims, dims,
      [&](const Index& i) { return numbers[static_cast<size_t>(offset_of(i, index_strides))]; },
      [&](const Index&, Index& begin, const Index& window) {
        const bool inside = place_window(q.text("mode"), x->dims, sizes, begin);
        const int64_t offset = offset_of(begin, strides) + offset_of(window, strides);
        values.push_back(inside ? x->values[static_cast<size_t>(offset)] : q.constant(0));
      });
  return answer(values, out);
}

// Adds the elements up where they came from.
Value transpose(Builder& b, const Node& node, uint32_t, std::span<const Value> cotangents) {
  const Value indices = node.operand(1);
  return added_up(b, cotangents[0], indices, node.operand(0).dims(), dims_of(node, indices.rank()),
                  node.text("mode"));
}
std::vector<Value> batch(Builder& b, const Node& node, std::span<const Value> operands,
                         std::span<const uint8_t> is_batched, Dim size) {
  const bool of_x = is_batched[0] != 0, of_indices = is_batched[1] != 0;
  Dims sizes = node.dims("sizes");
  if (of_x) sizes.insert(sizes.begin(), of_indices ? min(size, b.dim(1)) : size);
  const GatherDims g = with_samples(dims_of(node, node.operand(1).rank()), of_x, of_indices);
  return {gathered(b, operands[0], operands[1], sizes, g, node.text("mode"))};
}

constexpr OpDraft declare() {
  OpDraft draft = op("gather", kPrimitive);
  draft.summary("Windows of x at computed places.")
      .doc(
          "The result's dims offset_dims run, in order, over a window of `sizes` without "
          "collapsed_dims and batch_dims. "
          "Its other dims run over the dims of indices without index_vector_dim. For each of "
          "these, component k of the "
          "vector along index_vector_dim is the window's first index in dim index_map[k] of x, and "
          "dim batch_dims[k] of x "
          "is where dim index_batch_dims[k] of indices is. mode: clip moves the window so that it "
          "fits, fill gives 0 for "
          "a window that does not, in_bounds promises that it does.")
      .operand("x", "what is taken from", kWhole)
      .operand("indices", "where windows begin", kInt)
      .result("y", "element type of x")
      .attr_dims("sizes", "extents of the window, per dim of x")
      .attr_i64s("offset_dims", "dims of the result that run over the window, increasing")
      .attr_i64s("collapsed_dims", "dims of x that the window has once and the result has not")
      .attr_i64s("index_map", "per component of an index, the dim of x that it addresses")
      .attr_i64s("batch_dims", "dims of x that move with those of indices")
      .attr_i64s("index_batch_dims", "dims of indices that move with those of x")
      .attr_i64("index_vector_dim",
                "the dim of indices that holds the components; -1: each index is one number", -1)
      .attr_string("mode", "what happens outside of x", "clip", "clip|fill|in_bounds")
      .constraint("C1", "index_map has one entry per component of an index",
                  "gather(f32[4], i64[2]) {sizes = [1], collapsed_dims = [0], index_map = []}")
      .constraint("C2", "collapsed_dims, batch_dims and index_map name distinct dims of x",
                  "gather(f32[4], i64[2]) {sizes = [1], collapsed_dims = [1], index_map = [0], "
                  "offset_dims = [0]}")
      .constraint("C3", "batch_dims and index_batch_dims pair equal dims",
                  "gather(f32[2, 4], i64[3]) {sizes = [1, 1], collapsed_dims = [1], index_map = "
                  "[1], batch_dims = [0], "
                  "index_batch_dims = [0]}")
      .constraint(
          "C4", "offset_dims increases and has one entry per dim of the window",
          "gather(f32[4, 3], i64[2]) {sizes = [1, 3], collapsed_dims = [0], index_map = [0]}")
      .constraint("C5", "sizes has one entry per dim of x and is no larger",
                  "gather(f32[4, 3], i64[2]) {sizes = [1, 5], collapsed_dims = [0], index_map = "
                  "[0], offset_dims = [1]}")
      .constraint(
          "C6",
          "the window is 1 along collapsed_dims and batch_dims, or 0 where there are no indices",
          "gather(f32[4], i64[2]) {sizes = [2], collapsed_dims = [0], index_map = [0]}")
      .example(
          "gather(f32[4] [10, 20, 30, 40], i64[3] [3, 0, 9]) {sizes = [1], collapsed_dims = [0], "
          "index_map = [0]} -> "
          "f32[3] [40, 10, 40]")
      .example(
          "gather(i32[3, 2] [[1, 2], [3, 4], [5, 6]], i64[2] [2, 7]) {sizes = [1, 2], "
          "collapsed_dims = [0], "
          "index_map = [0], offset_dims = [1], mode = \"fill\"} -> i32[2, 2] [[5, 6], [0, 0]]")
      .infer<infer>()
      .value_of<value_of>()
      .reference<reference>()
      .decompose_complex<by_parts>()
      .linear({0})
      .transposed<transpose>()
      .batch<batch>()
      .cost(TENON_COST_DATA_MOVEMENT);
  return draft;
}

TENON_OPS(gather, declare)

}  // namespace tenon::ops::gather_op
