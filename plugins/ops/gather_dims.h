// Shared by gather and scatter: dim numbers, which map an index into the indices and an index into
// a window to an index into the operand.
#ifndef TENON_PLUGINS_OPS_GATHER_DIMS_H_
#define TENON_PLUGINS_OPS_GATHER_DIMS_H_

#include "derivative.h"

namespace tenon::ops {

struct GatherDims {
  Axes offset_dims;       // of the result (gather) or the updates (scatter): dims of the window
  Axes collapsed_dims;    // of the operand: window extent 1, not in the result
  Axes index_map;         // of the operand: what each component of an index vector addresses
  Axes batch_dims;        // of the operand, paired with...
  Axes index_batch_dims;  // ...these of the indices
  int64_t index_vector_dim = 0;  // of the indices; if it is their rank, every index is one number

  // Dims of the operand that appear in the window, in order.
  Axes window_axes(size_t rank) const {
    Axes dropped = collapsed_dims;
    dropped.insert(dropped.end(), batch_dims.begin(), batch_dims.end());
    return others(static_cast<int64_t>(rank), dropped);
  }
  // Dims of the indices without index_vector_dim.
  Axes index_axes(size_t index_rank) const {
    return others(static_cast<int64_t>(index_rank), Axes{index_vector_dim});
  }
};

// Calls visit(outer, window, begin, fits) for every element of the result or the updates:
//   outer   its index,
//   begin   the operand's index of the window's first element, before any clamping,
//   window  the offset of the element in the operand's dims.
// index_at(index) reads one number of the indices.
template <class IndexAt, class Visit>
void each_gathered(const GatherDims& g, std::span<const int64_t> operand,
                   std::span<const int64_t> indices, std::span<const int64_t> outer_dims,
                   IndexAt&& index_at, Visit&& visit) {
  const Axes window_axes = g.window_axes(operand.size());
  const Axes batch_axes = others(static_cast<int64_t>(outer_dims.size()), g.offset_dims);
  const Axes index_axes = g.index_axes(indices.size());
  Index at(indices.size()), begin(operand.size()), window(operand.size());
  each_index(outer_dims, [&](const Index& outer) {
    for (size_t k = 0; k < batch_axes.size(); ++k) {
      at[static_cast<size_t>(index_axes[k])] = outer[static_cast<size_t>(batch_axes[k])];
    }
    std::fill(begin.begin(), begin.end(), 0);
    std::fill(window.begin(), window.end(), 0);
    for (size_t k = 0; k < g.index_map.size(); ++k) {
      if (g.index_vector_dim < static_cast<int64_t>(indices.size())) {
        at[static_cast<size_t>(g.index_vector_dim)] = static_cast<int64_t>(k);
      }
      begin[static_cast<size_t>(g.index_map[k])] = index_at(at);
    }
    for (size_t k = 0; k < g.batch_dims.size(); ++k) {
      begin[static_cast<size_t>(g.batch_dims[k])] = at[static_cast<size_t>(g.index_batch_dims[k])];
    }
    for (size_t k = 0; k < window_axes.size(); ++k) {
      window[static_cast<size_t>(window_axes[k])] = outer[static_cast<size_t>(g.offset_dims[k])];
    }
    visit(outer, begin, window);
  });
}

// The error of mode in_bounds for a window that does not fit.
inline Status outside(std::string_view op, std::span<const int64_t> operand,
                      std::span<const int64_t> sizes, const Index& begin) {
  for (size_t k = 0; k < begin.size(); ++k) {
    const int64_t limit = std::max<int64_t>(operand[k] - sizes[k] + 1, 0);
    if (begin[k] >= 0 && begin[k] < limit) continue;
    return fail(TENON_OUT_OF_RANGE,
                cat("T0325: ", op, ": index ", begin[k], " is outside of [0, ", limit, ")"));
  }
  return fail(TENON_OUT_OF_RANGE, cat("T0325: ", op, ": an index is outside"));
}

// Applies the mode to the window's position. False: the element is outside (fill) and is skipped.
inline bool place_window(std::string_view mode, std::span<const int64_t> operand,
                         std::span<const int64_t> sizes, Index& begin) {
  bool fits = true;
  for (size_t k = 0; k < begin.size(); ++k) {
    const int64_t last = operand[k] - sizes[k];
    fits &= begin[k] >= 0 && begin[k] <= last;
    if (mode == "clip") begin[k] = std::max<int64_t>(0, std::min(begin[k], last));
  }
  return fits || mode == "clip";
}

// Checks C1 to C4 of both ops. `outer_rank`: rank of the result or the updates.
inline Status check_gather_dims(const InferQuery& q, const GatherDims& g, size_t outer_rank) {
  const size_t rank = q.rank(0), index_rank = q.rank(1);
  if (g.index_vector_dim < 0 || g.index_vector_dim > static_cast<int64_t>(index_rank)) {
    return q.fail("C1", cat("index_vector_dim is ", g.index_vector_dim, ", the indices have rank ",
                            index_rank));
  }
  const bool single = g.index_vector_dim == static_cast<int64_t>(index_rank);
  const Dim components =
      single ? q.constant(1) : q.dim(1, static_cast<uint32_t>(g.index_vector_dim));
  if (!components.is(static_cast<int64_t>(g.index_map.size()))) {
    return q.fail("C1", cat("index_map has ", g.index_map.size(),
                            " entries, which is not the extent of index_vector_dim"));
  }
  Axes named = g.collapsed_dims;
  named.insert(named.end(), g.batch_dims.begin(), g.batch_dims.end());
  TENON_TRY(q.require_axes("C2", named, rank));
  Axes addressed = g.index_map;
  addressed.insert(addressed.end(), g.batch_dims.begin(), g.batch_dims.end());
  TENON_TRY(q.require_axes("C2", addressed, rank));
  TENON_TRY(q.require_axes("C3", g.index_batch_dims, index_rank));
  TENON_TRY(
      require_length(q, "C3", "index_batch_dims", g.index_batch_dims.size(), g.batch_dims.size()));
  for (size_t k = 0; k < g.batch_dims.size(); ++k) {
    if (g.index_batch_dims[k] == g.index_vector_dim)
      return q.fail("C3", "index_batch_dims names index_vector_dim");
    TENON_TRY(q.require_equal("C3", q.dim(0, static_cast<uint32_t>(g.batch_dims[k])),
                              q.dim(1, static_cast<uint32_t>(g.index_batch_dims[k])),
                              "batch dims of x and indices"));
  }
  TENON_TRY(q.require_axes("C4", g.offset_dims, outer_rank));
  for (size_t k = 1; k < g.offset_dims.size(); ++k) {
    if (g.offset_dims[k] <= g.offset_dims[k - 1])
      return q.fail("C4", "the window dims do not increase");
  }
  return require_length(q, "C4", "the list of window dims", g.offset_dims.size(),
                        rank - named.size());
}

// ---- Nodes of them, for rules ----

// The extent of a window along a dim of x: 1, or 0 where that dim may be empty and there are no
// indices.
inline Dim one_each(const Builder& b, Dim dim, Value indices) {
  Dim size = b.dim(1);
  if (compare(TENON_REL_LE, size, dim) == TENON_YES) return size;
  for (const Dim count : indices.dims()) size = min(size, count);
  return size;
}
inline Value gathered(Builder& b, Value x, Value indices, const Dims& sizes, const GatherDims& g,
                      std::string_view mode) {
  return b.build("gather", {x, indices},
                 {{"sizes", sizes},
                  {"offset_dims", g.offset_dims},
                  {"collapsed_dims", g.collapsed_dims},
                  {"index_map", g.index_map},
                  {"batch_dims", g.batch_dims},
                  {"index_batch_dims", g.index_batch_dims},
                  {"index_vector_dim", g.index_vector_dim},
                  {"mode", mode}});
}
inline Value scattered(Builder& b, std::string_view kind, Value x, Value indices, Value updates,
                       const GatherDims& g, std::string_view mode) {
  return b.build("scatter", {x, indices, updates},
                 {{"kind", kind},
                  {"window_dims", g.offset_dims},
                  {"inserted_dims", g.collapsed_dims},
                  {"index_map", g.index_map},
                  {"batch_dims", g.batch_dims},
                  {"index_batch_dims", g.index_batch_dims},
                  {"index_vector_dim", g.index_vector_dim},
                  {"mode", mode}});
}
// Zeros of extents `shape` to which g is added: what gathers from there, transposed. Narrow floats
// are added in f32 and rounded once.
inline Value added_up(Builder& b, Value g, Value indices, const Dims& shape, const GatherDims& dims,
                      std::string_view mode) {
  const Value wide = widen(b, g);
  const Value zero = b.full(wide.dtype(), shape, 0);
  return b.convert(scattered(b, "add", zero, indices, wide, dims, mode), g.dtype());
}
// The dim numbers where the operand or the indices, or both, have a new dim 0, as the result then
// has: a dim of the window, of the indices, or a pair of both.
inline GatherDims with_samples(GatherDims g, bool of_operand, bool of_indices) {
  g.offset_dims = shifted(g.offset_dims);
  if (of_operand) {
    for (Axes* list : {&g.collapsed_dims, &g.index_map, &g.batch_dims}) *list = shifted(*list);
    if (!of_indices) g.offset_dims.insert(g.offset_dims.begin(), 0);
  }
  if (of_indices) {
    g.index_batch_dims = shifted(g.index_batch_dims);
    ++g.index_vector_dim;
  }
  if (of_operand && of_indices) {
    g.batch_dims.insert(g.batch_dims.begin(), 0);
    g.index_batch_dims.insert(g.index_batch_dims.begin(), 0);
  }
  return g;
}
// Whether x and indices have the same extents along these dims.
inline bool goes_along(Value x, Value indices, std::span<const int64_t> dims) {
  return std::all_of(dims.begin(), dims.end(), [&](int64_t d) {
    return surely_equal(x.dim(static_cast<uint32_t>(d)), indices.dim(static_cast<uint32_t>(d)));
  });
}

// Indices of the rank of x that address its dim `dim` and are repeated along other dims: once, with
// windows along these dims. Rules that use it end: the new node has not the repetition.
struct OnceEach {
  Value indices;
  GatherDims dims;
};
inline std::optional<OnceEach> repeated_indices(Builder& b, Value x, Value indices, int64_t dim) {
  const Node made = indices.node();
  if (!made || !made.is("broadcast")) return {};
  const Value source = made.operand(0);
  const int64_t rank = indices.rank(), given = source.rank();
  Axes to = made.i64s("dims");
  if (to.empty()) to = range(rank - given, rank);
  Axes kept;
  for (int64_t d = 0; d < rank; ++d) {
    const auto at = std::find(to.begin(), to.end(), d);
    const bool varies =
        at != to.end() && (indices.dim(static_cast<uint32_t>(d)).is(1) ||
                           !source.dim(static_cast<uint32_t>(at - to.begin())).is(1));
    if (d == dim && !varies) return {};
    if (varies) kept.push_back(d);
  }
  const Axes window = others(rank, kept);
  Axes lines = kept, places;
  lines.erase(std::find(lines.begin(), lines.end(), dim));
  if (window.empty() || !goes_along(x, indices, lines)) return {};
  Dims once;
  for (size_t i = 0; i < kept.size(); ++i) {
    once.push_back(indices.dim(static_cast<uint32_t>(kept[i])));
    if (kept[i] != dim) places.push_back(static_cast<int64_t>(i));
  }
  return OnceEach{reshape(b, source, once),
                  {window, {dim}, {dim}, lines, places, static_cast<int64_t>(kept.size())}};
}

// Single elements of a value of rank 1.
inline GatherDims single_elements(Value indices) {
  return {{}, {0}, {0}, {}, {}, static_cast<int64_t>(indices.rank())};
}

}  // namespace tenon::ops

#endif
