#include "tests/random/graphs/graph_maker.h"

#include <algorithm>
#include <cmath>

#include <tenon/abi/facts.h>

#include "tests/random/rounding/evaluation.h"

namespace tenon::random_tests {
namespace {

constexpr int64_t kElementsMax = 2500;  // of one tensor, so that reading and evaluating stay quick
constexpr size_t kInputsMax = 5, kRankMax = 5;

// Whether dims are equal in every binding.
bool same_dims(const Dims& a, const Dims& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

}  // namespace

GraphMaker::GraphMaker(uint64_t seed) : random_(seed * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u) {}

// ---- Begin and end ----

Status GraphMaker::begin(bool symbolic) {
  TENON_TRY(Graph::create("random", &graph_));
  main_ = main_region(graph_.get()).id();
  symbols_.resize(symbolic ? 2 + static_cast<size_t>(below(2)) : 1);
  if (symbolic) {
    const int64_t count = 1 + below(2);
    for (int64_t i = 0; i < count; ++i) {
      std::vector<int64_t> sizes = {1, 2, 3, 4, 17};
      shuffle(&sizes);
      TENON_TRY(define(i == 0 ? "n" : "m", sizes));
    }
  }
  static const std::vector<int64_t> kSizes = {1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 17};
  for (int64_t i = 0, count = 1 + below(3); i < count; ++i) extents_.push_back(dim(pick(kSizes)));
  static const std::vector<tenon_dtype_t> kOwn = {TENON_F32, TENON_F32, TENON_F32, TENON_F32,
                                                  TENON_F32, TENON_F16, TENON_F16, TENON_BF16,
                                                  TENON_F64, TENON_I32, TENON_I64, TENON_U8};
  own_dtype_ = pick(kOwn);
  for (int64_t i = 0, count = 1 + below(2); i < count; ++i) input(any_dtype(kNumber), any_shape());
  // A run learns the size of a symbol from an input that has it as a dim.
  for (size_t i = 0; i < defined_.size(); ++i) {
    Dims dims = any_shape(0, 2);
    dims.insert(dims.begin() + below(static_cast<int64_t>(dims.size()) + 1), extents_[i]);
    input(any_dtype(kNumber), dims);
  }
  return status_;
}

Status GraphMaker::define(std::string_view name, const std::vector<int64_t>& sizes) {
  // Code for large sizes must be right for small ones too. A hint, which only affects speed,
  // selects it.
  constexpr int64_t kHints[] = {-1, -1, -1, 1, 1, 40, 40, 600, 600, 3000, 20000, 100000};
  auto choice = random_;  // a copy, so that other choices do not depend on it
  const int64_t hint = kHints[choice() % std::size(kHints)];
  tenon_symbol_t symbol = 0;
  const tenon_host_graph_t& api = graph_api();
  TENON_TRY(
      api.symbol_define(api.self, graph_.get(), main_, str(name), 1, INT64_MAX, 1, hint, &symbol));
  tenon_symbol_view_t seen = {};
  seen.size_bytes = sizeof seen;
  TENON_TRY(api.symbol_view(api.self, graph_.get(), symbol, &seen));
  for (size_t b = 0; b < symbols_.size(); ++b) {
    symbols_[b].resize(graph_view(graph_.get()).symbol_limit, 1);
    symbols_[b][symbol] = sizes[b];
  }
  defined_.push_back(symbol);
  extents_.emplace_back(graph_.get(), seen.dim);
  return {};
}

bool GraphMaker::bindings_hold() const {
  for (const tenon_symbol_t symbol : defined_) {
    tenon_symbol_view_t seen = {};
    seen.size_bytes = sizeof seen;
    if (graph_api().symbol_view(graph_api().self, graph_.get(), symbol, &seen) != TENON_OK)
      return false;
    for (const auto& sizes : symbols_) {
      const int64_t size = sizes[symbol];
      if (size < seen.lo || size > seen.hi || size % seen.multiple_of != 0) return false;
    }
  }
  const auto* facts = context().query<tenon_host_facts_t>(TENON_HOST_FACTS_ID);
  const uint32_t count = facts == nullptr ? 0 : facts->count(facts->self, graph_.get());
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t rel = 0;
    tenon_dim_t a = {}, b = {};
    if (facts->fact(facts->self, graph_.get(), i, &rel, &a, &b) != TENON_OK) return false;
    for (const auto& sizes : symbols_) {
      if (!holds(rel, a, b, sizes)) return false;
    }
  }
  return true;
}

// True for sizes for which one side has no value.
bool GraphMaker::holds(uint32_t rel, tenon_dim_t a, tenon_dim_t b,
                       const std::vector<int64_t>& sizes) const {
  int64_t left = 0, right = 0;
  const auto evaluate = [&](tenon_dim_t dim, int64_t* out) {
    return graph_api().dim_evaluate(graph_api().self, graph_.get(), dim, sizes.data(),
                                    static_cast<uint32_t>(sizes.size()), out) == TENON_OK;
  };
  if (!evaluate(a, &left) || !evaluate(b, &right)) return true;
  switch (rel) {
    case TENON_REL_EQ:
      return left == right;
    case TENON_REL_LT:
      return left < right;
    case TENON_REL_LE:
      return left <= right;
    default:
      return right != 0 && left % right == 0;
  }
}

Status GraphMaker::end(int64_t others, Generated* out) {
  TENON_TRY(status_);
  std::vector<const Known*> outputs;
  for (const Known& known : values_) {
    const bool result = known.value.view().kind == TENON_VALUE_RESULT;
    const bool unused = known.value.use_count() == 0;
    if (result && (unused || (others != 0 && chance(others)))) outputs.push_back(&known);
  }
  if (outputs.empty())
    outputs.push_back(&values_[0]);                  // no node fitted; the identity is a graph too
  if (chance(40)) outputs.push_back(pick(outputs));  // the same output twice
  if (chance(2)) shuffle(&outputs);
  out->bindings.resize(symbols_.size());
  std::vector<Value> yields;
  for (const Known* known : outputs) {
    yields.push_back(known->value);
    out->outputs.push_back("y" + std::to_string(out->outputs.size()));
    for (size_t b = 0; b < symbols_.size(); ++b) out->bindings[b].outputs.push_back(known->held[b]);
  }
  for (const Known& known : inputs_) {
    out->inputs.push_back("x" + std::to_string(out->inputs.size()));
    for (size_t b = 0; b < symbols_.size(); ++b) out->bindings[b].inputs.push_back(known.held[b]);
  }
  for (size_t b = 0; b < symbols_.size(); ++b) out->bindings[b].symbols = symbols_[b];
  out->nodes = nodes_;
  TENON_TRY(yield(Region(graph_.get(), main_), yields, out->outputs));
  out->graph = std::move(graph_);
  return graph_api().verify(graph_api().self, out->graph.get());
}

// ---- Choices ----

std::vector<int64_t> GraphMaker::some_of(size_t rank) {
  std::vector<int64_t> dims;
  for (size_t d = 0; d < rank; ++d) {
    if (chance(2)) dims.push_back(static_cast<int64_t>(d));
  }
  if (dims.empty() && rank > 0) dims.push_back(below(static_cast<int64_t>(rank)));
  return dims;
}

tenon_dtype_t GraphMaker::any_dtype(tenon_dtypes_t set) {
  static const std::vector<tenon_dtype_t> kAll = {
      TENON_F32, TENON_F32, TENON_F16, TENON_BF16, TENON_F64, TENON_I32, TENON_I64,
      TENON_I8,  TENON_I16, TENON_U8,  TENON_U16,  TENON_U32, TENON_U64, TENON_PRED};
  if (is_in(own_dtype_, set) && !chance(6)) return own_dtype_;
  for (int tries = 0; tries < 64; ++tries) {
    if (const tenon_dtype_t dtype = pick(kAll); is_in(dtype, set)) return dtype;
  }
  return TENON_F32;
}

Dim GraphMaker::any_extent() {
  static const std::vector<int64_t> kOthers = {1, 1, 2, 3, 4, 17};
  return chance(6) ? dim(pick(kOthers)) : pick(extents_);
}

Dims GraphMaker::any_shape(size_t rank_min, size_t rank_max) {
  static const std::vector<size_t> kRanks = {0, 1, 1, 2, 2, 2, 3, 3, 3, 3, 4, 4, 5};
  for (;;) {
    Dims dims;
    const size_t rank = std::clamp(pick(kRanks), rank_min, rank_max);
    for (size_t d = 0; d < rank; ++d) dims.push_back(any_extent());
    if (fits(dims)) return dims;
  }
}

std::vector<int64_t> GraphMaker::sizes_of(const Dims& dims, size_t binding) const {
  std::vector<int64_t> sizes;
  for (const Dim d : dims) {
    int64_t& size = sizes.emplace_back(d.raw());
    if (d.is_constant()) continue;
    const auto& symbols = symbols_[binding];
    if (graph_api().dim_evaluate(graph_api().self, graph_.get(), d.raw(), symbols.data(),
                                 static_cast<uint32_t>(symbols.size()), &size) != TENON_OK) {
      size = kElementsMax + 1;
    }
  }
  return sizes;
}

bool GraphMaker::fits(const Dims& dims) const {
  if (dims.size() > kRankMax) return false;
  for (size_t b = 0; b < symbols_.size(); ++b) {
    int64_t count = 1;
    for (const int64_t size : sizes_of(dims, b)) {
      if (size < 1 || size > kElementsMax || (count *= size) > kElementsMax) return false;
    }
  }
  return true;
}

// ---- Values ----

Known GraphMaker::adopt(Value value, std::vector<Tensor> held) {
  Known known{value, value.dtype(), value.dims(), std::move(held), INFINITY, -INFINITY};
  for (const Tensor& tensor : known.held) {
    for (int64_t i = 0, n = tensor.count(); i < n; ++i) {
      const double x =
          load_double(tensor.dtype, tensor.bytes->data() + i * dtype_bytes(tensor.dtype));
      known.lowest = std::min(known.lowest, x);
      known.highest = std::max(known.highest, x);
    }
  }
  return known;
}

Known GraphMaker::input(tenon_dtype_t dtype, const Dims& dims) {
  Value value;
  status_ = argument(Region(graph_.get(), main_), {dtype, dims},
                     "x" + std::to_string(inputs_.size()), &value);
  if (!status_.ok()) return {};
  std::vector<Tensor> held;
  for (size_t b = 0; b < symbols_.size(); ++b)
    held.push_back(random_tensor(dtype, sizes_of(dims, b), random_()));
  values_.push_back(adopt(value, std::move(held)));
  inputs_.push_back(values_.back());
  return values_.back();
}

Known GraphMaker::constant(tenon_dtype_t dtype, std::vector<int64_t> sizes) {
  const Tensor tensor = random_tensor(dtype, std::move(sizes), random_());
  Builder builder(graph_.get(), main_);
  const uint64_t bytes = static_cast<uint64_t>(tensor.count()) * dtype_bytes(dtype);
  const Value value = builder.constant(dtype, tensor.dims, tensor.bytes->data(), bytes);
  status_ = builder.status();
  return value.valid() ? adopt(value, std::vector<Tensor>(symbols_.size(), tensor)) : Known();
}
Known GraphMaker::scalar(tenon_dtype_t dtype) {
  return constant(dtype, {});
}

Known GraphMaker::take(tenon_dtypes_t dtypes, size_t rank_min, size_t rank_max) {
  std::vector<size_t> fit;
  for (size_t i = 0; i < values_.size(); ++i) {
    const Known& known = values_[i];
    if (is_in(known.dtype, dtypes) && known.rank() >= rank_min && known.rank() <= rank_max)
      fit.push_back(i);
  }
  if (fit.empty() || (inputs_.size() < kInputsMax && chance(12))) {
    return input(any_dtype(dtypes), any_shape(rank_min, rank_max));
  }
  return values_[chance(3) ? fit.back() : pick(fit)];
}

Known GraphMaker::like(tenon_dtype_t dtype, const Dims& dims) {
  std::vector<size_t> fit;
  for (size_t i = 0; i < values_.size(); ++i) {
    if (values_[i].dtype == dtype && same_dims(values_[i].dims, dims)) fit.push_back(i);
  }
  if (fit.empty() || (inputs_.size() < kInputsMax && chance(8))) return input(dtype, dims);
  return values_[pick(fit)];
}

// ---- Nodes ----

Known GraphMaker::build(std::string_view op, const std::vector<Known>& operands,
                        const std::vector<Attr>& attrs) {
  if (!status_.ok()) return {};
  std::vector<Value> values;
  for (const Known& operand : operands) {
    if (!operand.valid()) return {};
    values.push_back(operand.value);
  }
  const Node node = Builder(graph_.get(), main_).build_node(op, values, attrs);
  if (!node) return {};  // does not fit: the declaration refuses it
  std::vector<std::vector<Tensor>> results(symbols_.size());
  bool fine = true;
  for (uint32_t r = 0; r < node.result_count() && fine; ++r) fine = fits(node.result(r).dims());
  for (size_t b = 0; b < symbols_.size() && fine; ++b) {
    std::vector<Tensor> inputs;
    for (const Known& operand : operands) inputs.push_back(operand.held[b]);
    fine = evaluate(node, symbols_[b], inputs, &results[b]).empty();
  }
  if (!fine) {
    (void)erase(node);
    return {};
  }
  ++nodes_;
  const size_t first = values_.size();
  for (uint32_t r = 0; r < node.result_count(); ++r) {
    std::vector<Tensor> held;
    for (auto& of_binding : results) held.push_back(std::move(of_binding[r]));
    values_.push_back(adopt(node.result(r), std::move(held)));
  }
  return values_[first];
}

}  // namespace tenon::random_tests
