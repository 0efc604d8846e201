// Lowerings of ops that move elements without computing.
#include <algorithm>

#include "tenon/kernelgen/lift_internal.h"

namespace tenon::kernelgen {
namespace {

std::vector<Tensor> broadcast(LoweringSite& s) {
  std::vector<E> dims;
  if (!s.result_dims(0, &dims)) return s.refuse("its size depends on data");
  const Tensor x = s.in[0];
  std::vector<uint32_t> map = s.ordinals("dims");
  if (map.empty()) {
    for (size_t i = 0; i < x.rank(); ++i) map.push_back(static_cast<uint32_t>(dims.size() - x.rank() + i));
  }
  Builder& b = s.b;
  return {b.map(x.type, dims, [&](std::span<const E> axes) {
    std::vector<E> index;
    for (size_t i = 0; i < x.rank(); ++i) {
      index.push_back(b.pool().is_const(x.dims[i], 1) ? b.pool().integer(0) : axes[map[i]]);
    }
    return b.load(x, index);
  })};
}

std::vector<Tensor> reshape(LoweringSite& s) {
  std::vector<E> dims;
  if (!s.result_dims(0, &dims)) return s.refuse("its size depends on data");
  return {s.b.reshape(s.in[0], dims)};
}

std::vector<Tensor> transpose(LoweringSite& s) { return {s.b.transpose(s.in[0], s.ordinals("perm"))}; }

std::vector<Tensor> slice(LoweringSite& s) {
  std::vector<E> start, dims;
  if (!s.sizes("start", &start) || !s.result_dims(0, &dims)) return s.refuse("its size depends on data");
  std::vector<int64_t> stride = s.integers("stride");
  if (stride.empty()) stride.assign(s.in[0].rank(), 1);
  return {s.b.slice(s.in[0], start, stride, dims)};
}

std::vector<Tensor> pad(LoweringSite& s) {
  std::vector<E> dims;
  if (!s.result_dims(0, &dims)) return s.refuse("its size depends on data");
  std::vector<int64_t> low = s.integers("low"), interior = s.integers("interior");
  low.resize(s.in[0].rank(), 0);
  interior.resize(s.in[0].rank(), 0);
  return {s.b.pad(s.in[0], s.in[1], low, interior, dims)};
}

std::vector<Tensor> concat(LoweringSite& s) {
  return {s.b.concat(s.in, static_cast<uint32_t>(s.integer("dim")))};
}

std::vector<Tensor> reverse(LoweringSite& s) { return {s.b.reverse(s.in[0], s.ordinals("dims"))}; }

std::vector<Tensor> iota(LoweringSite& s) {
  std::vector<E> dims;
  if (!s.result_dims(0, &dims)) return s.refuse("its size depends on data");
  return {s.b.iota(s.result_types[0].dtype, dims, static_cast<uint32_t>(s.integer("dim")))};
}

std::vector<Tensor> dim_size(LoweringSite& s) {
  const E size = s.in[0].dims[static_cast<size_t>(s.integer("dim"))];
  return {s.b.map(TENON_I64, {}, [size](std::span<const E>) { return size; })};
}

E as_index(Builder& b, E x) { return b.pool().type(x) == TENON_I64 ? x : b.pool().convert(x, TENON_I64); }

// Keeps a start inside [0, extent - size], so that no value of an input can reach outside a buffer.
E clamped(Pool& pool, E start, E extent, E size) {
  return pool.max(pool.integer(0), pool.min(start, pool.sub(extent, size)));
}

std::vector<E> clamped_starts(LoweringSite& s, const Tensor& starts, const Tensor& x, const std::vector<E>& sizes) {
  std::vector<E> out;
  for (size_t d = 0; d < x.rank(); ++d) {
    const E at = s.b.pool().integer(static_cast<int64_t>(d));
    out.push_back(clamped(s.b.pool(), as_index(s.b, s.b.load(starts, {&at, 1})), x.dims[d], sizes[d]));
  }
  return out;
}

std::vector<Tensor> dynamic_slice(LoweringSite& s) {
  std::vector<E> sizes;
  if (!s.sizes("sizes", &sizes)) return s.refuse("its size depends on data");
  const Tensor x = s.in[0];
  return {s.b.map(x.type, sizes, [&](std::span<const E> axes) {
    std::vector<E> index = clamped_starts(s, s.in[1], x, sizes);
    for (size_t d = 0; d < index.size(); ++d) index[d] = s.b.pool().add(index[d], axes[d]);
    return s.b.load(x, index);
  })};
}

std::vector<Tensor> dynamic_update_slice(LoweringSite& s) {
  const Tensor x = s.in[0], update = s.in[1];
  Pool& pool = s.b.pool();
  return {s.b.map(x.type, x.dims, [&](std::span<const E> axes) {
    std::vector<E> index = clamped_starts(s, s.in[2], x, update.dims);
    E inside = kNone;
    for (size_t d = 0; d < index.size(); ++d) {
      index[d] = pool.sub(axes[d], index[d]);
      inside = pool.both(inside, pool.both(pool.cmp(TENON_CMP_GE, index[d], pool.integer(0)),
                                           pool.cmp(TENON_CMP_LT, index[d], update.dims[d])));
    }
    const E old = s.b.load(x, axes);
    if (inside == kNone) return s.b.load(update, index);
    return pool.op(TENON_S_SELECT, {inside, s.b.load(update, index, inside, pool.number(0, x.type)), old});
  })};
}

// Which axes of the result run over what: the dims of a slice, or the positions of the indices.
struct GatherAxes {
  std::vector<E> offsets, positions;
};

GatherAxes split_axes(std::span<const E> axes, const std::vector<int64_t>& offset_dims) {
  GatherAxes out;
  for (size_t i = 0; i < axes.size(); ++i) {
    const bool offset = std::find(offset_dims.begin(), offset_dims.end(), static_cast<int64_t>(i)) != offset_dims.end();
    (offset ? out.offsets : out.positions).push_back(axes[i]);
  }
  return out;
}

bool contains(const std::vector<int64_t>& list, int64_t v, size_t* at = nullptr) {
  auto it = std::find(list.begin(), list.end(), v);
  if (it == list.end()) return false;
  if (at != nullptr) *at = static_cast<size_t>(it - list.begin());
  return true;
}

std::vector<Tensor> gather(LoweringSite& s) {
  std::vector<E> dims, sizes;
  if (!s.result_dims(0, &dims) || !s.sizes("sizes", &sizes)) return s.refuse("its size depends on data");
  const Tensor x = s.in[0], indices = s.in[1];
  const std::vector<int64_t> offset_dims = s.integers("offset_dims"), collapsed = s.integers("collapsed_dims"),
                             index_map = s.integers("index_map"), batch = s.integers("batch_dims"),
                             index_batch = s.integers("index_batch_dims");
  int64_t vector_dim = s.integer("index_vector_dim", -1);
  const bool scalar_indices = vector_dim < 0 || vector_dim == static_cast<int64_t>(indices.rank());
  const bool fill = s.text("mode") == "fill";
  Pool& pool = s.b.pool();
  return {s.b.map(x.type, dims, [&](std::span<const E> axes) {
    const GatherAxes at = split_axes(axes, offset_dims);
    // The position axes follow the dims of `indices` without its vector dim.
    auto index_number = [&](size_t j) {
      std::vector<E> where = at.positions;
      if (!scalar_indices) where.insert(where.begin() + vector_dim, pool.integer(static_cast<int64_t>(j)));
      return as_index(s.b, s.b.load(indices, where));
    };
    std::vector<E> index;
    E inside = kNone;
    size_t offset = 0;
    for (size_t d = 0; d < x.rank(); ++d) {
      size_t k = 0;
      if (contains(batch, static_cast<int64_t>(d), &k)) {
        const size_t dim = static_cast<size_t>(index_batch[k]);
        index.push_back(at.positions[dim - (!scalar_indices && static_cast<int64_t>(dim) > vector_dim ? 1 : 0)]);
        continue;
      }
      E start = pool.integer(0);
      if (contains(index_map, static_cast<int64_t>(d), &k)) {
        start = index_number(k);
        if (fill) {
          inside = pool.both(inside, pool.both(pool.cmp(TENON_CMP_GE, start, pool.integer(0)),
                                               pool.cmp(TENON_CMP_LE, start, pool.sub(x.dims[d], sizes[d]))));
        } else {
          start = clamped(pool, start, x.dims[d], sizes[d]);
        }
      }
      if (!contains(collapsed, static_cast<int64_t>(d))) start = pool.add(start, at.offsets[offset++]);
      index.push_back(start);
    }
    return s.b.load(x, index, inside, inside == kNone ? kNone : pool.number(0, x.type));
  })};
}

constexpr Lowering kTable[] = {
    {"broadcast", broadcast},         {"reshape", reshape},
    {"transpose", transpose},         {"slice", slice},
    {"pad", pad},                     {"concat", concat},
    {"reverse", reverse},             {"iota", iota},
    {"dim_size", dim_size},           {"dynamic_slice", dynamic_slice},
    {"dynamic_update_slice", dynamic_update_slice}, {"gather", gather},
};

}  // namespace

std::span<const Lowering> movement_lowerings() { return kTable; }

}  // namespace tenon::kernelgen
