// Tensors for the tools: random values, previews, the largest entries, comparison of two results.
#pragma once
#include <stdint.h>

#include <string>
#include <vector>

#include <tenon/abi/base.h>

namespace tenon::tools {

// A dense row-major view. i4 and u4 hold two elements per byte, low nibble first.
struct Dense {
  tenon_dtype_t dtype = TENON_DTYPE_NONE;
  std::vector<int64_t> dims;
  const unsigned char* data = nullptr;

  int64_t count() const;
  uint64_t size_bytes() const;
};
Dense dense_of(const tenon_array_t& array);

// "f32[1, 10]".
std::string type_text(const Dense& tensor);
// An element as readable text ("0.98", "-3", "true").
std::string element_text(const Dense& tensor, int64_t index);
double element(const Dense& tensor, int64_t index);  // the real part of complex ones
// "[1, 2, ..., 9]": at most `most` elements, in row-major order.
std::string preview(const Dense& tensor, int64_t most = 10);
// For a tensor of rank 2 or 1: one line for each of the first rows with its `n` largest entries,
// largest first: "  row 0: 7 (0.981), 3 (0.012)". Empty for other ranks.
std::string top_entries(const Dense& tensor, int64_t n);
// "  largest: 7" or "  largest of each row: 7, 1, 3, ..."; empty if that says nothing.
std::string argmax_line(const Dense& tensor);

// Fills `bytes` with random values: floats standard normal, integers in [0, 8), predicates true or
// false with equal chance. The same seed, stream and shape give the same values on every machine.
void fill_random(tenon_dtype_t dtype, uint64_t seed, uint64_t stream, int64_t count,
                 unsigned char* bytes);

// max|a-b| against tolerance * max|b|; a NaN must match a NaN, an infinity the same infinity.
struct Comparison {
  bool ok = true;
  double difference = 0;  // max|a-b|; infinite for an unmatched NaN or infinity
  double scale = 0;       // max|b| over finite elements
  int64_t worst = -1;     // element with the largest difference
};
Comparison compare(const Dense& a, const Dense& b, double tolerance);
// 1e-4 for f32 and f64 (complex too), 2e-2 for the narrower floats, 0 for integers and predicates.
double default_tolerance(tenon_dtype_t dtype);
// "[2, 0, 7]" for a flat index.
std::string index_text(const std::vector<int64_t>& dims, int64_t flat);

}  // namespace tenon::tools
