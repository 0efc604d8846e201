// unique: slices along a dim become keys that compare as their elements do; threads sort them.
#include <algorithm>
#include <bit>
#include <cstring>

#include "native/native_ops.h"
#include "tenon/cpp/plugin.hpp"

namespace tenon::cpu {
namespace {

std::vector<int64_t> parameters(const Node& node) {
  return {node.i64("dim"), node.i64("sorted")};
}

bool takes(const NativeSignature& s) {
  if (s.inputs.size() != 1 || s.outputs.size() != 4 || s.parameters.size() != 2) return false;
  for (size_t i = 1; i < 4; ++i) {
    if (s.outputs[i].dtype != TENON_I64 || s.outputs[i].rank != 1) return false;
  }
  const NativeType& x = s.inputs[0];
  return x.rank == s.outputs[0].rank && x.dtype == s.outputs[0].dtype && s.parameters[0] >= 0 &&
         s.parameters[0] < x.rank && with_native_type(x.dtype, [](auto) {});
}

// Maps smaller elements to smaller keys. Both zeros are equal; NaN equals itself and is the
// largest.
template <class T>
uint64_t key_of(T element) {
  const auto x = number(element);
  using N = decltype(x);
  if constexpr (std::is_floating_point_v<std::remove_const_t<N>>) {
    const double v = x;
    if (v != v) return UINT64_MAX;
    const uint64_t bits = v == 0 ? 0 : std::bit_cast<uint64_t>(v);
    return (bits >> 63) != 0 ? ~bits : bits | uint64_t{1} << 63;
  } else if constexpr (std::is_signed_v<std::remove_const_t<N>>) {
    return static_cast<uint64_t>(static_cast<int64_t>(x)) ^ uint64_t { 1 } << 63;
  } else {
    return x;
  }
}

struct Slices {
  int64_t length = 0, width = 0;
  std::vector<uint64_t> keys;  // Slice after slice.

  // Among equal slices the first comes first.
  bool less(int64_t a, int64_t b) const {
    const int order = compare(a, b);
    return order != 0 ? order < 0 : a < b;
  }
  int compare(int64_t a, int64_t b) const {
    const uint64_t *p = keys.data() + a * width, *q = keys.data() + b * width;
    for (int64_t i = 0; i < width; ++i) {
      if (p[i] != q[i]) return p[i] < q[i] ? -1 : 1;
    }
    return 0;
  }
};

Status read_slices(const NativeArray& x, size_t dim, Slices* out) {
  int64_t outer = 1, inner = 1;
  for (size_t d = 0; d < dim; ++d) outer *= x.dims[d];
  for (size_t d = dim + 1; d < x.dims.size(); ++d) inner *= x.dims[d];
  out->length = x.dims[dim];
  out->width = outer * inner;
  out->keys.resize(static_cast<size_t>(out->length * out->width));
  const int64_t grain = std::max<int64_t>(1, (int64_t{1} << 14) / std::max<int64_t>(out->width, 1));
  return native_parallel(out->length, grain, [&](int64_t begin, int64_t end) -> Status {
    (void)with_native_type(x.dtype, [&](auto type) {
      const auto* data = x.as<decltype(type)>();
      for (int64_t s = begin; s < end; ++s) {
        uint64_t* to = out->keys.data() + s * out->width;
        for (int64_t o = 0; o < outer; ++o) {
          const auto* from = data + (o * out->length + s) * inner;
          for (int64_t i = 0; i < inner; ++i) *to++ = key_of(from[i]);
        }
      }
    });
    return {};
  });
}

// Sorts runs of equal length on all threads, then merges them two by two.
Status sort_places(const Slices& slices, std::vector<int64_t>* places) {
  constexpr int64_t kRun = int64_t{1} << 13;
  const int64_t n = slices.length;
  const auto less = [&](int64_t a, int64_t b) { return slices.less(a, b); };
  std::vector<int64_t> now(static_cast<size_t>(n)), next(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) now[static_cast<size_t>(i)] = i;
  TENON_TRY(native_parallel((n + kRun - 1) / kRun, 1, [&](int64_t begin, int64_t end) -> Status {
    for (int64_t r = begin; r < end; ++r)
      std::sort(now.begin() + r * kRun, now.begin() + std::min(n, (r + 1) * kRun), less);
    return {};
  }));
  for (int64_t run = kRun; run < n; run *= 2) {
    TENON_TRY(native_parallel(
        (n + 2 * run - 1) / (2 * run), 1, [&](int64_t begin, int64_t end) -> Status {
          for (int64_t p = begin; p < end; ++p) {
            const int64_t from = p * 2 * run, middle = std::min(n, from + run),
                          to = std::min(n, middle + run);
            std::merge(now.begin() + from, now.begin() + middle, now.begin() + middle,
                       now.begin() + to, next.begin() + from, less);
          }
          return {};
        }));
    now.swap(next);
  }
  *places = std::move(now);
  return {};
}

Status run(NativeCall& call) {
  const NativeArray& x = call.inputs[0];
  const auto dim = static_cast<size_t>(call.parameters[0]);
  Slices slices;
  TENON_TRY(read_slices(x, dim, &slices));
  std::vector<int64_t> places;
  TENON_TRY(sort_places(slices, &places));
  // Groups of equal slices, each by its first position in the sorted order.
  std::vector<int64_t> begins;
  for (int64_t i = 0; i < slices.length; ++i) {
    const auto at = static_cast<size_t>(i);
    if (i == 0 || slices.compare(places[at - 1], places[at]) != 0) begins.push_back(i);
  }
  const auto found = static_cast<int64_t>(begins.size());
  std::vector<int64_t> order(begins.size());  // By result: which group.
  for (size_t g = 0; g < order.size(); ++g) order[g] = static_cast<int64_t>(g);
  const auto first_of = [&](int64_t g) {
    return places[static_cast<size_t>(begins[static_cast<size_t>(g)])];
  };
  if (call.parameters[1] == 0) {
    std::sort(order.begin(), order.end(),
              [&](int64_t a, int64_t b) { return first_of(a) < first_of(b); });
  }
  std::vector<int64_t> chosen;
  for (int64_t g : order) chosen.push_back(first_of(g));
  std::vector<int64_t> dims(x.dims.begin(), x.dims.end());
  dims[dim] = found;
  char* y = nullptr;
  int64_t *indices = nullptr, *inverse = nullptr, *counts = nullptr;
  TENON_TRY(call.make(0, std::span<const int64_t>(dims), &y));
  TENON_TRY(call.make(1, {found}, &indices));
  TENON_TRY(call.make(2, {slices.length}, &inverse));
  TENON_TRY(call.make(3, {found}, &counts));
  for (int64_t r = 0; r < found; ++r) {
    const auto g = static_cast<size_t>(order[static_cast<size_t>(r)]);
    const int64_t end = g + 1 < begins.size() ? begins[g + 1] : slices.length;
    indices[r] = chosen[static_cast<size_t>(r)];
    counts[r] = end - begins[g];
    for (int64_t i = begins[g]; i < end; ++i) inverse[places[static_cast<size_t>(i)]] = r;
  }
  return native_take(x, dim, chosen, y);
}

}  // namespace

std::span<const NativeOp> native_unique() {
  static constexpr NativeOp kTable[] = {{"unique", parameters, takes, run}};
  return kTable;
}

}  // namespace tenon::cpu
