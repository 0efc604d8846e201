#include <algorithm>
#include <numeric>

#include "tests/random/graphs/fusion_moves.h"

namespace tenon::random_tests {
namespace {

constexpr tenon_dtypes_t kAny = kNumber | kPred;

std::vector<int64_t> up_to(size_t rank) {
  std::vector<int64_t> dims(rank);
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

// The dims of x regrouped: some merged, some constant extents split, dims of 1 inserted and
// removed.
Dims regrouped(GraphMaker& make, Dims shape) {
  for (int64_t steps = 1 + make.below(3); steps > 0; --steps) {
    const auto at = shape.empty() ? 0 : make.below(static_cast<int64_t>(shape.size()));
    const auto here = shape.begin() + at;
    if (!shape.empty() && here->is(1) && make.chance(2)) {
      shape.erase(here);
    } else if (at + 1 < static_cast<int64_t>(shape.size()) && make.chance(2)) {
      *here = *here * *(here + 1);
      shape.erase(here + 1);
    } else if (!shape.empty() && here->is_constant() && here->constant() % 2 == 0 &&
               make.chance(2)) {
      const int64_t half = here->constant() / 2;
      *here = make.dim(make.chance(2) ? 2 : half);
      shape.insert(shape.begin() + at + 1, make.dim(here->is(2) ? half : 2));
    } else if (shape.size() < 5) {
      shape.insert(here, make.dim(1));
    }
  }
  return shape;
}

// The same extents in another order, so elements move to other rows.
Dims reordered(GraphMaker& make, Dims shape) {
  make.shuffle(&shape);
  return shape;
}

Known reversed(GraphMaker& make, const Known& x) {
  return x.rank() == 0 ? x
                       : make.build("reverse", {x}, {{"dims", make.keep(make.some_of(x.rank()))}});
}

}  // namespace

void grow(GraphMaker& make) {
  const Known x = make.take(kAny, 0, 4);
  Dims shape;
  std::vector<int64_t> places;
  for (const Dim d : x.dims) {
    if (shape.size() + x.rank() - places.size() < 5 && make.chance(3))
      shape.push_back(make.any_extent());
    places.push_back(static_cast<int64_t>(shape.size()));
    shape.push_back(d.is(1) && make.chance(2) ? make.any_extent() : d);
  }
  if (shape.size() < 5 && make.chance(3)) shape.push_back(make.any_extent());
  if (make.fits(shape)) spread(make, x, shape, std::move(places));
}

void transpose(GraphMaker& make) {
  const Known x = make.take(kAny, 2);
  std::vector<int64_t> perm = up_to(x.rank());
  make.shuffle(&perm);
  make.build("transpose", {x}, {{"perm", make.keep(std::move(perm))}});
}

void reshape(GraphMaker& make) {
  const Known x = make.take(kAny);
  const Dims shape = make.chance(4) ? reordered(make, x.dims) : regrouped(make, x.dims);
  make.build("reshape", {x}, {{"shape", shape}});
}

void slice(GraphMaker& make) {
  Known x = make.take(kAny, 1);
  if (make.chance(4)) x = reversed(make, x);
  if (!x.valid()) return;
  Dims start, limit;
  std::vector<int64_t> stride;
  for (const Dim d : x.dims) {
    const bool whole = !d.is_constant() || make.chance(2);
    const int64_t begin = whole ? 0 : make.below(d.constant());
    start.push_back(make.dim(begin));
    limit.push_back(whole ? d : make.dim(begin + 1 + make.below(d.constant() - begin)));
    stride.push_back(make.chance(2) ? 1 : 1 + make.below(3));
  }
  const Known part =
      make.build("slice", {x}, {{"start", start}, {"limit", limit}, {"stride", make.keep(stride)}});
  if (part.valid() && make.chance(4)) reversed(make, part);
}

void pad(GraphMaker& make) {
  const Known x = make.take(kAny, 1);
  const Known value = make.chance(3) ? make.like(x.dtype, {}) : make.scalar(x.dtype);
  std::vector<int64_t> low, high, interior;
  for (size_t d = 0; d < x.rank(); ++d) {
    low.push_back(make.chance(2) ? 0 : make.below(4) - 1);
    high.push_back(make.chance(2) ? 0 : make.below(4) - 1);
    interior.push_back(make.chance(4) ? 1 + make.below(2) : 0);
  }
  make.build(
      "pad", {x, value},
      {{"low", make.keep(low)}, {"high", make.keep(high)}, {"interior", make.keep(interior)}});
}

void concat(GraphMaker& make) {
  const Known x = make.take(kAny, 1);
  const int64_t dim = make.below(static_cast<int64_t>(x.rank()));
  std::vector<Known> parts = {x};
  for (int64_t i = 0, count = 1 + make.below(2); i < count; ++i) {
    Dims dims = x.dims;
    if (make.chance(3)) dims[static_cast<size_t>(dim)] = make.any_extent();
    parts.push_back(make.like(x.dtype, dims));
  }
  make.shuffle(&parts);
  make.build("concat", parts, {{"dim", dim}});
}

void split(GraphMaker& make) {
  const Known x = make.take(kAny, 1);
  for (size_t d = 0; d < x.rank(); ++d) {
    if (!x.dims[d].is_constant() || x.dims[d].constant() < 2) continue;
    const int64_t first = 1 + make.below(x.dims[d].constant() - 1);
    const Dims sizes = {make.dim(first), make.dim(x.dims[d].constant() - first)};
    make.build("split", {x}, {{"dim", static_cast<int64_t>(d)}, {"sizes", sizes}});
    return;
  }
}

void repeat(GraphMaker& make) {
  const Known x = make.take(kAny, 1);
  if (make.chance(3)) {
    reversed(make, x);
  } else if (make.chance(2)) {
    Dims repeats;
    for (size_t d = 0; d < x.rank(); ++d) repeats.push_back(make.dim(1 + make.below(3)));
    make.build("tile", {x}, {{"repeats", repeats}});
  } else {
    std::vector<int64_t> dims = make.some_of(x.rank()), shifts;
    for (size_t i = 0; i < dims.size(); ++i) shifts.push_back(make.below(7) - 3);
    make.build("roll", {x},
               {{"dims", make.keep(std::move(dims))}, {"shifts", make.keep(std::move(shifts))}});
  }
}

void triangle(GraphMaker& make) {
  const Known x = make.take(kAny, 2);
  if (make.chance(3)) {
    const int64_t a = make.below(static_cast<int64_t>(x.rank()));
    const int64_t b =
        (a + 1 + make.below(static_cast<int64_t>(x.rank()) - 1)) % static_cast<int64_t>(x.rank());
    make.build("diagonal", {x}, {{"dim1", a}, {"dim2", b}, {"offset", make.below(3) - 1}});
  } else {
    make.build("tril_triu", {x}, {{"upper", make.below(2)}, {"diagonal", make.below(3) - 1}});
  }
}

void indexed(GraphMaker& make) {
  static const std::vector<const char*> kModes = {"clip", "fill"};
  const Known x = make.take(kAny, 1);
  const int64_t dim = make.below(static_cast<int64_t>(x.rank()));
  Dims along = x.dims;
  along[static_cast<size_t>(dim)] = make.any_extent();
  const tenon_dtype_t index = make.chance(2) ? TENON_I64 : TENON_I32;
  switch (make.below(6)) {
    case 0:
    case 1: {
      const Known where = make.take(kInt, 0, 2);
      make.build("take", {x, where}, {{"dim", dim}, {"mode", make.pick(kModes)}});
      return;
    }
    case 2:
      make.build("take_along", {x, make.like(index, along)},
                 {{"dim", dim}, {"mode", make.pick(kModes)}});
      return;
    case 3:
      make.build("one_hot", {make.take(kInt, 0, 3)},
                 {{"depth", Dims{make.dim(1 + make.below(4))}},
                  {"dtype", DType{make.any_dtype(kNumber)}}});
      return;
    case 4: {
      Dims sizes;
      for (const Dim d : x.dims)
        sizes.push_back(d.is_constant() ? make.dim(1 + make.below(d.constant())) : d);
      const Known starts = make.like(index, {make.dim(static_cast<int64_t>(x.rank()))});
      if (make.chance(2)) {
        make.build("dynamic_slice", {x, starts}, {{"sizes", sizes}});
      } else {
        make.build("dynamic_update_slice", {x, make.like(x.dtype, sizes), starts});
      }
      return;
    }
    default: {
      static const std::vector<const char*> kKinds = {"set", "max", "min"};
      make.build("scatter_elements", {x, make.like(index, along), make.like(x.dtype, along)},
                 {{"dim", dim}, {"kind", make.pick(kKinds)}, {"mode", make.pick(kModes)}});
    }
  }
}

}  // namespace tenon::random_tests
