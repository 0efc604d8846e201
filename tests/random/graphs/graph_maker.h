// A graph under construction: the values so far with their contents, inputs and constants created
// on demand, and nodes that stay only if their results can be compared.
#pragma once
#include <deque>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <tenon/cpp/graph.hpp>

#include "tests/random/runner.h"

namespace tenon::random_tests {

// A value with its contents in each binding.
struct Known {
  Value value;
  tenon_dtype_t dtype = TENON_DTYPE_NONE;
  Dims dims;
  std::vector<Tensor> held;  // by binding
  double lowest = 0, highest = 0;

  size_t rank() const { return dims.size(); }
  bool valid() const { return value.valid(); }
};

class GraphMaker {
 public:
  explicit GraphMaker(uint64_t seed);

  // Starts the graph. symbolic: with one or two symbols, each of which has a size per binding.
  Status begin(bool symbolic);
  // Yields all unused values, and each other result with a chance of one in `others` (0: none).
  Status end(int64_t others, Generated* out);

  // ---- Choices, all from the seed ----
  int64_t below(int64_t n) {
    return n <= 1 ? 0 : static_cast<int64_t>(random_() % static_cast<uint64_t>(n));
  }
  bool chance(int64_t one_in) { return below(one_in) == 0; }
  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[static_cast<size_t>(below(static_cast<int64_t>(from.size())))];
  }
  template <class T>
  void shuffle(std::vector<T>* items) {
    for (size_t i = items->size(); i-- > 1;) {
      std::swap((*items)[i], (*items)[static_cast<size_t>(below(static_cast<int64_t>(i) + 1))]);
    }
  }
  std::vector<int64_t> some_of(
      size_t rank);  // some of the dims below rank, in order; at least one if there is one
  tenon_dtype_t any_dtype(tenon_dtypes_t set);  // often the graph's own
  Dim any_extent();                             // one of the graph's few, often equal
  Dims any_shape(size_t rank_min = 0, size_t rank_max = 5);

  // ---- Values ----
  const std::vector<Known>& values() const { return values_; }
  // A value that fits: often the newest, else any other; sometimes, or if there is none, a new
  // input.
  Known take(tenon_dtypes_t dtypes, size_t rank_min = 0, size_t rank_max = 5);
  // A value of exactly this type.
  Known like(tenon_dtype_t dtype, const Dims& dims);
  Known input(tenon_dtype_t dtype, const Dims& dims);
  Known scalar(tenon_dtype_t dtype);  // a constant of rank 0
  Known constant(tenon_dtype_t dtype, std::vector<int64_t> sizes);

  // ---- Nodes ----
  // The first result. Invalid, and the node removed, if it does not fit or its results cannot be
  // compared.
  Known build(std::string_view op, const std::vector<Known>& operands,
              const std::vector<Attr>& attrs = {});
  // Stores lists for attributes, which borrow them.
  const std::vector<int64_t>& keep(std::vector<int64_t> numbers) {
    return kept_.emplace_back(std::move(numbers));
  }

  bool fits(const Dims& dims) const;  // few enough dims, and few enough elements in every binding
  Dim dim(int64_t constant) const { return Dim(graph_.get(), constant); }
  uint64_t nodes() const { return nodes_; }
  // Whether every fact that ops asserted of the symbols holds for the sizes of all bindings.
  bool bindings_hold() const;

 private:
  bool holds(uint32_t rel, tenon_dim_t a, tenon_dim_t b, const std::vector<int64_t>& sizes) const;
  Status define(std::string_view name, const std::vector<int64_t>& sizes);
  std::vector<int64_t> sizes_of(const Dims& dims, size_t binding) const;
  Known adopt(Value value, std::vector<Tensor> held);

  std::mt19937_64 random_;
  Graph graph_;
  tenon_region_t main_ = 0;
  std::vector<std::vector<int64_t>> symbols_;  // by binding
  std::vector<tenon_symbol_t> defined_;
  std::vector<Dim> extents_;
  tenon_dtype_t own_dtype_ = TENON_F32;
  std::vector<Known> values_;  // without constants
  std::vector<Known> inputs_;
  std::deque<std::vector<int64_t>> kept_;
  Status status_;
  uint64_t nodes_ = 0;
};

}  // namespace tenon::random_tests
