// Lowerings of ops that run in order: running folds, scatters, sorts, and the largest element of a
// window.
#include <algorithm>

#include "tenon/kernelgen/lower/op_lowering.h"

namespace tenon::kernelgen {
namespace {

template <Fold fold>
std::vector<Tensor> cumulative(LoweringSite& s) {
  return {s.b.scan(s.in[0], static_cast<uint32_t>(s.integer("dim")), fold,
                   s.integer("reverse") != 0, s.integer("exclusive") != 0, s.acc(),
                   s.result_types[0].dtype)};
}

bool among(const std::vector<int64_t>& list, size_t v, size_t* at) {
  const auto it = std::find(list.begin(), list.end(), static_cast<int64_t>(v));
  *at = static_cast<size_t>(it - list.begin());
  return it != list.end();
}

std::vector<Tensor> scatter(LoweringSite& s) {
  const Tensor x = s.in[0], indices = s.in[1], updates = s.in[2];
  const std::vector<int64_t> window_dims = s.integers("window_dims"),
                             inserted = s.integers("inserted_dims"),
                             index_map = s.integers("index_map"), batch = s.integers("batch_dims"),
                             index_batch = s.integers("index_batch_dims");
  const int64_t given = s.integer("index_vector_dim", -1);
  const size_t vector_dim = given < 0 ? indices.rank() : static_cast<size_t>(given);
  const std::string_view kind = s.text("kind");
  const bool clip = s.text("mode") == "clip";
  Pool& p = s.b.pool();
  if (s.text("mode") == "in_bounds") {
    std::vector<ExprId> sizes(x.rank(), p.integer(1));
    size_t next = 0, at = 0;
    for (size_t d = 0; d < x.rank(); ++d) {
      if (!among(inserted, d, &at) && !among(batch, d, &at))
        sizes[d] = updates.dims[static_cast<size_t>(window_dims[next++])];
    }
    const int64_t components = vector_dim == indices.rank() ? -1 : static_cast<int64_t>(vector_dim);
    if (!check_indices(s, x, indices, index_map, sizes, components)) return s.refuse(s.b.why());
  }
  auto place = [&](std::span<const ExprId> axes) {
    std::vector<ExprId> window, positions;
    size_t at = 0;
    for (size_t i = 0; i < axes.size(); ++i)
      (among(window_dims, i, &at) ? window : positions).push_back(axes[i]);
    auto position_of = [&](size_t dim) { return positions[dim - (dim > vector_dim ? 1 : 0)]; };
    auto component = [&](size_t j) {
      std::vector<ExprId> where = positions;
      if (vector_dim < indices.rank())
        where.insert(where.begin() + static_cast<int64_t>(vector_dim),
                     p.integer(static_cast<int64_t>(j)));
      return p.convert(s.b.load(indices, where), TENON_I64);
    };
    Place out;
    size_t next = 0;
    for (size_t d = 0; d < x.rank(); ++d) {
      if (among(batch, d, &at)) {
        out.index.push_back(position_of(static_cast<size_t>(index_batch[at])));
        continue;
      }
      const bool whole = !among(inserted, d, &at);
      const ExprId size =
          whole ? updates.dims[static_cast<size_t>(window_dims[next])] : p.integer(1);
      ExprId start = p.integer(0);
      if (among(index_map, d, &at)) {
        const ExprId last = p.sub(x.dims[d], size);
        start = component(at);
        if (clip) {
          start = p.max(p.integer(0), p.min(start, last));
        } else {
          out.guard = p.both(out.guard, p.both(p.cmp(TENON_CMP_GE, start, p.integer(0)),
                                               p.cmp(TENON_CMP_LE, start, last)));
        }
      }
      out.index.push_back(whole ? p.add(start, window[next++]) : start);
    }
    return out;
  };
  auto combine = [&](std::span<const ExprId> axes, ExprId old) {
    const ExprId update = s.b.load(updates, axes);
    uint16_t code = 0;
    if (kind == "add") code = TENON_S_ADD;
    if (kind == "mul") code = TENON_S_MUL;
    if (kind == "min") code = TENON_S_MIN;
    if (kind == "max") code = TENON_S_MAX;
    if (code == 0) return update;
    const bool half = x.type == TENON_F16 || x.type == TENON_BF16;
    if (!half) return p.op(code, {old, update});
    return p.convert(p.op(code, {p.convert(old, TENON_F32), p.convert(update, TENON_F32)}), x.type,
                     TENON_S_CONVERT);
  };
  return {s.b.scatter(x, updates.dims, place, combine)};
}

std::vector<Tensor> sort(LoweringSite& s) {
  const uint32_t dim = static_cast<uint32_t>(s.integer("dim"));
  return s.b.sort(s.in, dim, static_cast<size_t>(s.integer("keys", 1)), s.integers("descending"),
                  s.in[0].dims[dim]);
}

std::vector<Tensor> top_k(LoweringSite& s) {
  const uint32_t dim = static_cast<uint32_t>(s.integer("dim"));
  std::vector<ExprId> dims;
  if (!s.result_dims(0, &dims)) return s.refuse("its size depends on data");
  const int64_t descending = s.integer("largest", 1);
  return s.b.sort({s.in.data(), 1}, dim, 1, {&descending, 1}, dims[dim], s.result_types[1].dtype);
}

std::vector<Tensor> window_argmax(LoweringSite& s) {
  const size_t rank = s.in[0].rank();
  auto list = [&](std::string_view name, int64_t otherwise) {
    std::vector<int64_t> v = s.integers(name);
    v.resize(rank, otherwise);
    return v;
  };
  const std::vector<int64_t> sizes = list("window", 1), strides = list("strides", 1),
                             low = list("pad_low", 0), high = list("pad_high", 0),
                             dilation = list("dilation", 1);
  std::vector<WindowDim> window;
  for (size_t i = 0; i < rank; ++i)
    window.push_back({sizes[i], strides[i], low[i], high[i], dilation[i], 1});
  std::vector<ExprId> dims;
  if (!s.result_dims(0, &dims)) return s.refuse("its size depends on data");
  return s.b.window_argmax(s.in[0], window, dims, s.result_types[1].dtype);
}

constexpr Lowering kTable[] = {
    {"cumsum", cumulative<Fold::kSum>},
    {"cumprod", cumulative<Fold::kProd>},
    {"cummax", cumulative<Fold::kMax>},
    {"cummin", cumulative<Fold::kMin>},
    {"scatter", scatter},
    {"sort", sort},
    {"top_k", top_k},
    {"window_argmax", window_argmax},
};

}  // namespace

std::span<const Lowering> order_lowerings() {
  return kTable;
}

}  // namespace tenon::kernelgen
