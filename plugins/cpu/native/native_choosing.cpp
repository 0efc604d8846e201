// dim_from_scalar, nonzero, compress: data-dependent sizes and positions.
#include <algorithm>

#include "native/native_ops.h"
#include "tenon/cpp/plugin.hpp"

namespace tenon::cpu {
namespace {

// ---- dim_from_scalar ----

std::vector<int64_t> dim_parameters(const Node& node) {
  return {node.i64("lo"), node.i64("hi")};
}

bool takes_dim(const NativeSignature& s) {
  return s.inputs.size() == 1 && s.outputs.size() == 1 && s.parameters.size() == 2 &&
         s.inputs[0].rank == 0 && s.outputs[0].rank == 2 && is_int(s.inputs[0].dtype);
}

Status run_dim(NativeCall& call) {
  const NativeArray& x = call.inputs[0];
  const int64_t value = load_int(x.dtype, x.data), lo = call.parameters[0], hi = call.parameters[1];
  const bool wraps = x.dtype == TENON_U64 && value < 0;
  if (wraps || value < lo || value > hi) {
    return fail(TENON_OUT_OF_RANGE,
                cat(call.place, ": the extent ", value, " is not in [", lo, ", ", hi, "]."));
  }
  const int64_t dims[] = {value, 0};
  char* none = nullptr;
  return call.make(0, dims, &none);
}

// ---- Elements that are not zero ----

template <class T>
bool holds(T v) {
  return !(number(v) == 0);
}

constexpr int64_t kChunk = int64_t{1} << 16;

// The nonzero elements among the first n, in order. They are counted in chunks first, so that each
// chunk knows where its output begins.
class Found {
 public:
  Found(const NativeArray& x, int64_t n)
      : x_(x), n_(n), counts_(static_cast<size_t>((n + kChunk - 1) / kChunk) + 1) {}

  Status count() {
    TENON_TRY(native_parallel(static_cast<int64_t>(counts_.size()) - 1, 4,
                              [&](int64_t begin, int64_t end) -> Status {
                                for (int64_t c = begin; c < end; ++c) {
                                  int64_t found = 0;
                                  (void)with_native_type(x_.dtype, [&](auto type) {
                                    const auto* at = x_.as<decltype(type)>();
                                    const int64_t stop = std::min(n_, (c + 1) * kChunk);
                                    for (int64_t i = c * kChunk; i < stop; ++i)
                                      found += holds(at[i]) ? 1 : 0;
                                  });
                                  counts_[static_cast<size_t>(c) + 1] = found;
                                }
                                return {};
                              }));
    for (size_t c = 1; c < counts_.size(); ++c) counts_[c] += counts_[c - 1];
    return {};
  }
  int64_t total() const { return counts_.back(); }

  // visit(element, number of nonzero elements before it), for each nonzero element, chunk by chunk
  // on all threads.
  template <class Visit>
  Status each(Visit&& visit) const {
    return native_parallel(static_cast<int64_t>(counts_.size()) - 1, 4,
                           [&](int64_t begin, int64_t end) -> Status {
                             for (int64_t c = begin; c < end; ++c) {
                               int64_t next = counts_[static_cast<size_t>(c)];
                               (void)with_native_type(x_.dtype, [&](auto type) {
                                 const auto* at = x_.as<decltype(type)>();
                                 const int64_t stop = std::min(n_, (c + 1) * kChunk);
                                 for (int64_t i = c * kChunk; i < stop; ++i) {
                                   if (holds(at[i])) visit(i, next++);
                                 }
                               });
                             }
                             return {};
                           });
  }

 private:
  const NativeArray& x_;
  int64_t n_;
  std::vector<int64_t> counts_;  // Before each chunk; the last is the total.
};

// ---- nonzero ----

std::vector<int64_t> nonzero_parameters(const Node& node) {
  return {node.dtype("index_dtype")};
}

bool takes_nonzero(const NativeSignature& s) {
  return s.inputs.size() == 1 && s.outputs.size() == 1 && s.parameters.size() == 1 &&
         s.outputs[0].rank == 2 && is_in(s.outputs[0].dtype, kIndex) &&
         s.parameters[0] == s.outputs[0].dtype && with_native_type(s.inputs[0].dtype, [](auto) {});
}

template <class T>
Status write_places(const Found& found, std::span<const int64_t> dims, T* out) {
  const int64_t total = found.total();
  return found.each([&](int64_t element, int64_t at) {
    for (size_t d = dims.size(); d-- > 0;) {
      out[static_cast<int64_t>(d) * total + at] = static_cast<T>(element % dims[d]);
      element /= dims[d];
    }
  });
}

Status run_nonzero(NativeCall& call) {
  const NativeArray& x = call.inputs[0];
  Found found(x, x.count());
  TENON_TRY(found.count());
  const int64_t dims[] = {static_cast<int64_t>(x.dims.size()), found.total()};
  char* out = nullptr;
  TENON_TRY(call.make(0, dims, &out));
  return call.parameters[0] == TENON_I32
             ? write_places(found, x.dims, reinterpret_cast<int32_t*>(out))
             : write_places(found, x.dims, reinterpret_cast<int64_t*>(out));
}

// ---- compress ----

std::vector<int64_t> compress_parameters(const Node& node) {
  return {node.i64("dim")};
}

bool takes_compress(const NativeSignature& s) {
  return s.inputs.size() == 2 && s.outputs.size() == 1 && s.parameters.size() == 1 &&
         s.inputs[0].rank == s.outputs[0].rank && s.inputs[0].dtype == s.outputs[0].dtype &&
         dtype_bytes(s.inputs[0].dtype) != 0 && s.inputs[1].dtype == TENON_PRED &&
         s.inputs[1].rank == 1 && s.parameters[0] >= 0 && s.parameters[0] < s.inputs[0].rank;
}

Status run_compress(NativeCall& call) {
  const NativeArray &x = call.inputs[0], &condition = call.inputs[1];
  const auto dim = static_cast<size_t>(call.parameters[0]);
  Found found(condition, std::min(condition.dims[0], x.dims[dim]));
  TENON_TRY(found.count());
  std::vector<int64_t> chosen(static_cast<size_t>(found.total()));
  TENON_TRY(
      found.each([&](int64_t element, int64_t at) { chosen[static_cast<size_t>(at)] = element; }));
  std::vector<int64_t> dims(x.dims.begin(), x.dims.end());
  dims[dim] = found.total();
  char* out = nullptr;
  TENON_TRY(call.make(0, dims, &out));
  return native_take(x, dim, chosen, out);
}

}  // namespace

std::span<const NativeOp> native_choosing() {
  static constexpr NativeOp kTable[] = {
      {"dim_from_scalar", dim_parameters, takes_dim, run_dim},
      {"nonzero", nonzero_parameters, takes_nonzero, run_nonzero},
      {"compress", compress_parameters, takes_compress, run_compress},
  };
  return kTable;
}

}  // namespace tenon::cpu
