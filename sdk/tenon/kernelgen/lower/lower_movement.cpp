// Lowerings of ops that move elements without computing.
#include <algorithm>
#include <cstring>
#include <optional>

#include "tenon/kernelgen/lower/op_lowering.h"

namespace tenon::kernelgen {
namespace {

std::vector<Tensor> broadcast(LoweringSite& s) {
  std::vector<ExprId> dims;
  if (!s.result_dims(0, &dims)) return s.refuse("its size depends on data");
  const Tensor x = s.in[0];
  std::vector<uint32_t> map = s.ordinals("dims");
  if (map.empty()) {
    for (size_t i = 0; i < x.rank(); ++i)
      map.push_back(static_cast<uint32_t>(dims.size() - x.rank() + i));
  }
  Builder& b = s.b;
  return {b.map(x.type, dims, [&](std::span<const ExprId> axes) {
    std::vector<ExprId> index;
    for (size_t i = 0; i < x.rank(); ++i) {
      index.push_back(b.pool().is_const(x.dims[i], 1) ? b.pool().integer(0) : axes[map[i]]);
    }
    return b.load(x, index);
  })};
}

std::vector<Tensor> reshape(LoweringSite& s) {
  std::vector<ExprId> dims;
  if (!s.result_dims(0, &dims)) return s.refuse("its size depends on data");
  return {s.b.reshape(s.in[0], dims)};
}

std::vector<Tensor> transpose(LoweringSite& s) {
  return {s.b.transpose(s.in[0], s.ordinals("perm"))};
}

std::vector<Tensor> slice(LoweringSite& s) {
  std::vector<ExprId> start, dims;
  if (!s.sizes("start", &start) || !s.result_dims(0, &dims))
    return s.refuse("its size depends on data");
  std::vector<int64_t> stride = s.integers("stride");
  if (stride.empty()) stride.assign(s.in[0].rank(), 1);
  return {s.b.slice(s.in[0], start, stride, dims)};
}

std::vector<Tensor> pad(LoweringSite& s) {
  std::vector<ExprId> dims;
  if (!s.result_dims(0, &dims)) return s.refuse("its size depends on data");
  std::vector<int64_t> low = s.integers("low"), interior = s.integers("interior");
  low.resize(s.in[0].rank(), 0);
  interior.resize(s.in[0].rank(), 0);
  return {s.b.pad(s.in[0], s.in[1], low, interior, dims)};
}

std::vector<Tensor> concat(LoweringSite& s) {
  return {s.b.concat(s.in, static_cast<uint32_t>(s.integer("dim")))};
}

std::vector<Tensor> reverse(LoweringSite& s) {
  return {s.b.reverse(s.in[0], s.ordinals("dims"))};
}

std::vector<Tensor> iota(LoweringSite& s) {
  std::vector<ExprId> dims;
  if (!s.result_dims(0, &dims)) return s.refuse("its size depends on data");
  return {s.b.iota(s.result_types[0].dtype, dims, static_cast<uint32_t>(s.integer("dim")))};
}

std::vector<Tensor> dim_size(LoweringSite& s) {
  const ExprId size = s.in[0].dims[static_cast<size_t>(s.integer("dim"))];
  return {s.b.map(TENON_I64, {}, [size](std::span<const ExprId>) { return size; })};
}

ExprId as_index(Builder& b, ExprId x) {
  return b.pool().type(x) == TENON_I64 ? x : b.pool().convert(x, TENON_I64);
}

// Clamps a start to [0, extent - size], so that no input value can reach outside a buffer.
ExprId clamped(Pool& pool, ExprId start, ExprId extent, ExprId size) {
  return pool.max(pool.integer(0), pool.min(start, pool.sub(extent, size)));
}

std::vector<ExprId> clamped_starts(LoweringSite& s, const Tensor& starts, const Tensor& x,
                                   const std::vector<ExprId>& sizes) {
  std::vector<ExprId> out;
  for (size_t d = 0; d < x.rank(); ++d) {
    const ExprId at = s.b.pool().integer(static_cast<int64_t>(d));
    out.push_back(
        clamped(s.b.pool(), as_index(s.b, s.b.load(starts, {&at, 1})), x.dims[d], sizes[d]));
  }
  return out;
}

std::vector<Tensor> dynamic_slice(LoweringSite& s) {
  std::vector<ExprId> sizes;
  if (!s.sizes("sizes", &sizes)) return s.refuse("its size depends on data");
  const Tensor x = s.in[0];
  return {s.b.map(x.type, sizes, [&](std::span<const ExprId> axes) {
    std::vector<ExprId> index = clamped_starts(s, s.in[1], x, sizes);
    for (size_t d = 0; d < index.size(); ++d) index[d] = s.b.pool().add(index[d], axes[d]);
    return s.b.load(x, index);
  })};
}

std::vector<Tensor> dynamic_update_slice(LoweringSite& s) {
  const Tensor x = s.in[0], update = s.in[1];
  Pool& pool = s.b.pool();
  return {s.b.map(x.type, x.dims, [&](std::span<const ExprId> axes) {
    std::vector<ExprId> index = clamped_starts(s, s.in[2], x, update.dims);
    ExprId inside = kNone;
    for (size_t d = 0; d < index.size(); ++d) {
      index[d] = pool.sub(axes[d], index[d]);
      inside = pool.both(inside, pool.both(pool.cmp(TENON_CMP_GE, index[d], pool.integer(0)),
                                           pool.cmp(TENON_CMP_LT, index[d], update.dims[d])));
    }
    const ExprId old = s.b.load(x, axes);
    if (inside == kNone) return s.b.load(update, index);
    return pool.op(TENON_S_SELECT,
                   {inside, s.b.load(update, index, inside, pool.number(0, x.type)), old});
  })};
}

// The axes of a gather's result: those along dims of a slice, and those along positions of the
// indices.
struct GatherAxes {
  std::vector<ExprId> offsets, positions;
};

GatherAxes split_axes(std::span<const ExprId> axes, const std::vector<int64_t>& offset_dims) {
  GatherAxes out;
  for (size_t i = 0; i < axes.size(); ++i) {
    const bool offset = std::find(offset_dims.begin(), offset_dims.end(),
                                  static_cast<int64_t>(i)) != offset_dims.end();
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

// The values pass through; the condition is checked after the run.
std::vector<Tensor> lower_assert(LoweringSite& s) {
  Pool& pool = s.b.pool();
  const Tensor holds = s.in[0];
  const Tensor broken = s.b.map(TENON_PRED, holds.dims, [&](std::span<const ExprId> axes) {
    return pool.cmp(TENON_CMP_EQ, s.b.load(holds, axes), pool.number(0, TENON_PRED));
  });
  const std::string_view message = s.text("message");
  if (!broken.valid() ||
      !s.check_below(broken, pool.integer(1),
                     message.empty() ? "an assertion does not hold" : std::string(message))) {
    return s.refuse(s.b.why());
  }
  std::vector<Tensor> out;
  for (size_t i = 1; i < s.in.size(); ++i) {
    const Tensor t = s.in[i];
    out.push_back(
        s.b.map(t.type, t.dims, [&](std::span<const ExprId> axes) { return s.b.load(t, axes); }));
  }
  return out;
}

// Checks constant indices at compile time, so that a table of positions costs nothing in a run.
bool surely_inside(const LoweringSite& s, const Tensor& indices, std::optional<int64_t> limit) {
  tenon_blob_t* blob = s.constant_operand(1);
  const void* data = nullptr;
  uint64_t bytes = 0;
  const uint32_t width = size_of(indices.type);
  if (blob == nullptr || !limit || (indices.type != TENON_I32 && indices.type != TENON_I64))
    return false;
  if (s.host.graph->blob_data(s.host.graph->self, blob, &data, &bytes) != TENON_OK) return false;
  if (bytes > kMostInlineConstantBytes) return false;
  for (uint64_t at = 0; at < bytes; at += width) {
    int64_t index = 0;
    int32_t narrow = 0;
    if (width == 4) {
      std::memcpy(&narrow, static_cast<const char*>(data) + at, 4);
      index = narrow;
    } else {
      std::memcpy(&index, static_cast<const char*>(data) + at, 8);
    }
    if (index < 0 || index >= *limit) return false;
  }
  return true;
}

}  // namespace

bool check_indices(LoweringSite& s, const Tensor& x, const Tensor& indices,
                   const std::vector<int64_t>& index_map, const std::vector<ExprId>& sizes,
                   int64_t vector_dim) {
  Pool& pool = s.b.pool();
  for (size_t j = 0; j < index_map.size(); ++j) {
    const auto d = static_cast<size_t>(index_map[j]);
    const ExprId limit = pool.add(pool.sub(x.dims[d], sizes[d]), pool.integer(1));
    if (index_map.size() == 1 && surely_inside(s, indices, pool.value(limit))) continue;
    Tensor one = indices;
    if (vector_dim >= 0) {
      std::vector<ExprId> dims = indices.dims;
      dims.erase(dims.begin() + vector_dim);
      one = s.b.map(indices.type, dims, [&](std::span<const ExprId> axes) {
        std::vector<ExprId> where(axes.begin(), axes.end());
        where.insert(where.begin() + vector_dim, pool.integer(static_cast<int64_t>(j)));
        return s.b.load(indices, where);
      });
    }
    if (!one.valid() || !s.check_below(one, limit, "")) return false;
  }
  return true;
}

namespace {

std::vector<Tensor> gather(LoweringSite& s) {
  std::vector<ExprId> dims, sizes;
  if (!s.result_dims(0, &dims) || !s.sizes("sizes", &sizes))
    return s.refuse("its size depends on data");
  const Tensor x = s.in[0], indices = s.in[1];
  const std::vector<int64_t> offset_dims = s.integers("offset_dims"),
                             collapsed = s.integers("collapsed_dims"),
                             index_map = s.integers("index_map"), batch = s.integers("batch_dims"),
                             index_batch = s.integers("index_batch_dims");
  int64_t vector_dim = s.integer("index_vector_dim", -1);
  const bool scalar_indices = vector_dim < 0 || vector_dim == static_cast<int64_t>(indices.rank());
  const bool fill = s.text("mode") == "fill";
  Pool& pool = s.b.pool();
  if (s.text("mode") == "in_bounds" &&
      !check_indices(s, x, indices, index_map, sizes, scalar_indices ? -1 : vector_dim)) {
    return s.refuse(s.b.why());
  }
  return {s.b.map(x.type, dims, [&](std::span<const ExprId> axes) {
    const GatherAxes at = split_axes(axes, offset_dims);
    // The position axes follow the dims of `indices`, without its vector dim.
    auto index_number = [&](size_t j) {
      std::vector<ExprId> where = at.positions;
      if (!scalar_indices)
        where.insert(where.begin() + vector_dim, pool.integer(static_cast<int64_t>(j)));
      return as_index(s.b, s.b.load(indices, where));
    };
    std::vector<ExprId> index;
    ExprId inside = kNone;
    size_t offset = 0;
    for (size_t d = 0; d < x.rank(); ++d) {
      size_t k = 0;
      if (contains(batch, static_cast<int64_t>(d), &k)) {
        const size_t dim = static_cast<size_t>(index_batch[k]);
        index.push_back(
            at.positions[dim -
                         (!scalar_indices && static_cast<int64_t>(dim) > vector_dim ? 1 : 0)]);
        continue;
      }
      ExprId start = pool.integer(0);
      if (contains(index_map, static_cast<int64_t>(d), &k)) {
        start = index_number(k);
        if (fill) {
          inside = pool.both(
              inside, pool.both(pool.cmp(TENON_CMP_GE, start, pool.integer(0)),
                                pool.cmp(TENON_CMP_LE, start, pool.sub(x.dims[d], sizes[d]))));
        } else {
          start = clamped(pool, start, x.dims[d], sizes[d]);
        }
      }
      if (!contains(collapsed, static_cast<int64_t>(d)))
        start = pool.add(start, at.offsets[offset++]);
      index.push_back(start);
    }
    return s.b.load(x, index, inside, inside == kNone ? kNone : pool.number(0, x.type));
  })};
}

// Each operand as it is. Devices claim it as a program of its own, so that nothing is fused with
// it.
std::vector<Tensor> barrier(LoweringSite& s) {
  std::vector<Tensor> out;
  for (const Tensor& x : s.in) {
    out.push_back(
        s.b.map(x.type, x.dims, [&](std::span<const ExprId> axes) { return s.b.load(x, axes); }));
  }
  return out;
}

constexpr Lowering kTable[] = {
    {"broadcast", broadcast},
    {"reshape", reshape},
    {"transpose", transpose},
    {"slice", slice},
    {"pad", pad},
    {"concat", concat},
    {"reverse", reverse},
    {"iota", iota},
    {"dim_size", dim_size},
    {"dynamic_slice", dynamic_slice},
    {"dynamic_update_slice", dynamic_update_slice},
    {"gather", gather},
    {"assert", lower_assert},
    {"barrier", barrier},
};

}  // namespace

std::span<const Lowering> movement_lowerings() {
  return kTable;
}

}  // namespace tenon::kernelgen
