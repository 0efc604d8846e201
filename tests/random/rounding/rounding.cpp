#include "tests/random/rounding/rounding.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include <tenon/cpp/dtype.hpp>

namespace tenon::random_tests {
namespace {

// How an op affects distances.
enum class Rule {
  kExact,     // returns elements of its operands, or computes without rounding: max, neg, concat
  kJump,      // jumps; between jumps it is continuous or constant: floor, compare
  kConvert,   // one of the above, by element types
  kRounds,    // one rounding: add, mul
  kFunction,  // a few units in the last place: exp, tanh
  kFormula,   // a few units in the last place of its operand, because its terms cancel: gelu
  kSums,  // rounds each term and each partial result, grows with every operand: reduce_sum, mean,
          // cumsum
  kProducts,  // likewise, with factors of any sign: matmul, reduce_prod
  kSoftmax,   // exponentials of differences from the largest element
  kLogSoftmax,
  kLogSumExp,
  kOrder,   // positions of elements: argmax; only for exact operands
  kUnknown  // evaluated with slightly moved operands
};

const std::map<std::string_view, Rule>& rules() {
  static const auto* kRules = [] {
    auto* rules = new std::map<std::string_view, Rule>;
    const auto put = [&](Rule rule, std::initializer_list<std::string_view> names) {
      for (const std::string_view name : names) rules->emplace(name, rule);
    };
    put(Rule::kExact, {"reshape",
                       "transpose",
                       "slice",
                       "broadcast",
                       "reverse",
                       "roll",
                       "concat",
                       "pad",
                       "split",
                       "tile",
                       "take",
                       "gather",
                       "take_along",
                       "embedding",
                       "dynamic_slice",
                       "dynamic_update_slice",
                       "select",
                       "tril_triu",
                       "diagonal",
                       "reduce_max",
                       "reduce_min",
                       "cummax",
                       "cummin",
                       "max",
                       "min",
                       "fmax",
                       "fmin",
                       "relu",
                       "clamp",
                       "neg",
                       "abs",
                       "iota",
                       "one_hot",
                       "max_pool",
                       "global_max_pool",
                       "barrier",
                       "pixel_shuffle"});
    put(Rule::kJump,
        {"floor", "ceil", "trunc", "round_even", "sign", "compare", "is_nan", "is_inf", "is_finite",
         "floor_div", "floor_mod", "rem", "bitcast", "convert_wrap", "next_after", "threshold"});
    put(Rule::kConvert, {"convert"});
    put(Rule::kRounds, {"add", "sub", "mul", "square"});
    put(Rule::kFunction,
        {"div",   "reciprocal", "sqrt",  "rsqrt",      "exp",      "exp2",   "expm1", "log",
         "log1p", "log2",       "log10", "sin",        "cos",      "tan",    "tanh",  "logistic",
         "erf",   "erfc",       "silu",  "leaky_relu", "softsign", "swiglu", "sinh",  "cosh",
         "asinh", "atan",       "atan2", "pow",        "hypot",    "cbrt"});
    put(Rule::kFormula, {"gelu", "gelu_tanh", "elu", "softplus", "mish", "hard_sigmoid",
                         "hard_swish", "selu", "celu"});
    put(Rule::kSums,
        {"reduce_sum", "mean", "cumsum", "avg_pool", "global_avg_pool", "reduce_window"});
    put(Rule::kProducts, {"dot_general", "matmul", "conv", "fma", "reduce_prod", "cumprod",
                          "einsum", "depthwise_conv"});
    put(Rule::kSoftmax, {"softmax"});
    put(Rule::kLogSoftmax, {"log_softmax"});
    put(Rule::kLogSumExp, {"logsumexp"});
    put(Rule::kOrder, {"argmax", "argmin", "top_k", "sort", "searchsorted", "window_argmax",
                       "max_unpool", "nonzero", "unique"});
    return rules;
  }();
  return *kRules;
}

Rule rule_of(const tenon_op_def_t& op) {
  const auto known = rules().find(view(op.name));
  if (known != rules().end()) return known->second;
  return (op.traits & TENON_TRAIT_SHAPE_ONLY) != 0 ? Rule::kExact : Rule::kUnknown;
}

// ---- Elements ----

// The type that this type is computed in: narrow floats compute in f32 and round at the end.
tenon_dtype_t working(tenon_dtype_t dtype) {
  return dtype == TENON_F64 ? TENON_F64 : TENON_F32;
}

double element(const Tensor& t, int64_t i) {
  return load_double(t.dtype, t.bytes->data() + i * dtype_bytes(t.dtype));
}
double distance(const Tensor& t, int64_t i) {
  return t.allowed == nullptr ? 0 : (*t.allowed)[static_cast<size_t>(i)];
}
bool inexact(const Tensor& t) {
  return t.allowed != nullptr;
}

template <class Change>
Tensor changed(const Tensor& t, const Change& change) {
  Tensor out = t;
  if (!is_float(t.dtype)) return out;
  auto bytes = std::make_shared<std::vector<unsigned char>>(*t.bytes);
  for (int64_t i = 0, n = t.count(); i < n; ++i) {
    store_double(t.dtype, bytes->data() + i * dtype_bytes(t.dtype), change(element(t, i), i));
  }
  out.bytes = std::move(bytes);
  return out;
}
Tensor moved(const Tensor& t, double direction) {
  return changed(t, [&](double x, int64_t i) { return x + direction * distance(t, i); });
}

double largest(const Tensor& t) {
  double most = 0;
  for (int64_t i = 0, n = t.count(); i < n; ++i) most = std::max(most, std::fabs(element(t, i)));
  return most;
}
double largest_distance(const Tensor& t) {
  return t.allowed == nullptr || t.allowed->empty()
             ? 0
             : *std::max_element(t.allowed->begin(), t.allowed->end());
}

// ---- One node ----

class Allowance {
 public:
  Allowance(const tenon_op_def_t& op, std::span<const Tensor> operands, const Evaluate& evaluate,
            std::vector<Tensor>* results)
      : op_(op), operands_(operands), evaluate_(evaluate), results_(*results), rule_(rule_of(op)) {
    for (const Tensor& result : results_)
      sums_.emplace_back(static_cast<size_t>(result.count()), 0.0);
    for (const Tensor& operand : operands_) all_exact_ &= !inexact(operand);
    if (rule_ == Rule::kConvert) rule_ = rule_of_convert();
  }

  bool run() {
    if (!carry() || !integers_hold()) return false;
    for (size_t r = 0; r < results_.size(); ++r) {
      if (!is_float(results_[r].dtype)) continue;
      add_own(r);
      if (!keep(r)) return false;
    }
    return true;
  }

 private:
  Rule rule_of_convert() const {
    const tenon_dtype_t from = operands_[0].dtype, to = results_[0].dtype;
    if (is_float(from) && !is_float(to)) return Rule::kJump;
    if (!is_float(from) || !is_float(to) || dtype_bits(from) > dtype_bits(to) ||
        dtype_bits(to) == 16) {
      return same_numbers() ? Rule::kExact : Rule::kRounds;
    }
    return Rule::kExact;
  }
  bool same_numbers() const {
    for (int64_t i = 0, n = results_[0].count(); i < n && is_float(results_[0].dtype); ++i) {
      if (element(operands_[0], i) != element(results_[0], i)) return false;
    }
    return all_exact_;
  }

  // Carries distances of operands over to the results.
  bool carry() {
    switch (rule_) {
      case Rule::kJump:
        return all_exact_ || stays_between_jumps();
      case Rule::kOrder:
        return all_exact_;
      case Rule::kSoftmax:
      case Rule::kLogSoftmax:
      case Rule::kLogSumExp:
        return true;
      case Rule::kProducts:
        return carry_magnitudes();
      case Rule::kUnknown:
        return carry_tried();
      default:
        return all_exact_ || carry_each();
    }
  }

  // Moves each operand up and down, then all together: exact for ops that are monotone in each
  // operand, a good estimate for smooth ones.
  bool carry_each() {
    for (size_t k = 0; k < operands_.size(); ++k) {
      if (!inexact(operands_[k])) continue;
      std::vector<std::vector<double>> most(results_.size());
      for (size_t r = 0; r < results_.size(); ++r) most[r].resize(sums_[r].size());
      for (const double direction : {-1.0, 1.0}) {
        std::vector<Tensor> found;
        if (!with(k, moved(operands_[k], direction), &found)) return false;
        for (size_t r = 0; r < results_.size(); ++r) take_most(found[r], results_[r], &most[r]);
      }
      for (size_t r = 0; r < results_.size(); ++r) {
        for (size_t i = 0; i < most[r].size(); ++i) sums_[r][i] += most[r][i];
      }
    }
    return std::count_if(operands_.begin(), operands_.end(), inexact) < 2 || carry_together();
  }

  // For a product of two numbers near 0, moving both changes more than moving either one.
  bool carry_together() {
    std::vector<std::vector<double>> most(results_.size());
    for (size_t r = 0; r < results_.size(); ++r) most[r].resize(sums_[r].size());
    for (const auto& [first, others] :
         {std::pair(-1.0, -1.0), {-1.0, 1.0}, {1.0, -1.0}, {1.0, 1.0}}) {
      std::vector<Tensor> aside, found;
      for (const Tensor& operand : operands_)
        aside.push_back(moved(operand, aside.empty() ? first : others));
      if (!evaluate_(aside, &found)) return false;
      for (size_t r = 0; r < results_.size(); ++r) take_most(found[r], results_[r], &most[r]);
    }
    for (size_t r = 0; r < results_.size(); ++r) {
      for (size_t i = 0; i < most[r].size(); ++i) sums_[r][i] = std::max(sums_[r][i], most[r][i]);
    }
    return true;
  }

  // Factors in another order must not overflow or underflow on the way.
  bool products_stay() const {
    if (view(op_.name) != "reduce_prod" && view(op_.name) != "cumprod") return true;
    constexpr double kBitsMax = 100;  // f32 has exponents to 127
    double bits = 0;
    for (int64_t i = 0, n = operands_[0].count(); i < n && is_float(operands_[0].dtype); ++i) {
      const double x = std::fabs(element(operands_[0], i));
      if (x != 0) bits += std::fabs(std::log2(x));
    }
    return bits <= kBitsMax;
  }

  // For terms of any sign, bounds the difference by their magnitudes; exact for products.
  bool carry_magnitudes() {
    if (!products_stay()) return false;
    std::vector<Tensor> magnitudes, more, base, grown;
    for (const Tensor& operand : operands_) {
      magnitudes.push_back(changed(operand, [](double x, int64_t) { return std::fabs(x); }));
      more.push_back(changed(
          operand, [&](double x, int64_t i) { return std::fabs(x) + distance(operand, i); }));
    }
    if (!evaluate_(magnitudes, &base)) return false;
    if (!all_exact_ && !evaluate_(more, &grown)) return false;
    for (size_t r = 0; r < results_.size(); ++r) {
      for (int64_t i = 0, n = base[r].count(); i < n && is_float(base[r].dtype); ++i) {
        const double size = element(base[r], i);
        double& sum = sums_[r][static_cast<size_t>(i)];
        if (!all_exact_) sum += element(grown[r], i) - size + ulp(base[r].dtype, size);
        sum += kTerms * ulp(working(base[r].dtype), size);
      }
    }
    return true;
  }

  // For an unknown op: evaluates a few nearby operands, and adds a margin.
  bool carry_tried() {
    std::mt19937_64 random(operands_.size() * 977 + results_.size());
    std::vector<double> most(results_.size());
    for (int tries = 0; tries < 3; ++tries) {
      std::vector<Tensor> aside, found;
      for (const Tensor& operand : operands_) {
        aside.push_back(changed(operand, [&](double x, int64_t i) {
          const double by = static_cast<double>(random() >> 11) * 0x1p-52 - 1;  // in [-1, 1)
          return x + by * std::max(distance(operand, i), 2 * ulp(operand.dtype, x));
        }));
      }
      if (!evaluate_(aside, &found)) return false;
      for (size_t r = 0; r < results_.size(); ++r) {
        if (!is_float(results_[r].dtype)) continue;
        for (int64_t i = 0, n = results_[r].count(); i < n; ++i) {
          most[r] = std::max(most[r], std::fabs(element(found[r], i) - element(results_[r], i)));
        }
      }
    }
    for (size_t r = 0; r < results_.size(); ++r) {
      for (double& sum : sums_[r]) sum += 4 * most[r];
    }
    return true;
  }

  // Whether every combination of operands moved down and up gives the same result.
  bool stays_between_jumps() const {
    if (operands_.size() > 2) return false;
    if (operands_.size() == 2 && is_float(results_[0].dtype))
      return false;  // rem is continuous and also jumps
    for (int signs = 0; signs < 1 << operands_.size(); ++signs) {
      std::vector<Tensor> aside, found;
      for (size_t k = 0; k < operands_.size(); ++k)
        aside.push_back(moved(operands_[k], (signs >> k & 1) != 0 ? 1 : -1));
      if (!evaluate_(aside, &found)) return false;
      for (size_t r = 0; r < results_.size(); ++r) {
        if (*found[r].bytes != *results_[r].bytes) return false;
      }
    }
    return true;
  }

  // Integers are compared exactly, so they must not depend on rounding.
  bool integers_hold() const {
    const bool any = std::any_of(results_.begin(), results_.end(),
                                 [](const Tensor& t) { return !is_float(t.dtype); });
    return !any || all_exact_ || rule_ == Rule::kJump ||
           std::all_of(operands_.begin(), operands_.end(),
                       [](const Tensor& t) { return !is_float(t.dtype); });
  }

  // Adds the op's own rounding.
  void add_own(size_t r) {
    const Tensor& y = results_[r];
    if (is_exact()) return;
    const tenon_dtype_t narrow = y.dtype, wide = working(y.dtype);
    const double reach = operands_.empty() ? 0 : largest(operands_[0]);
    const double reach_off = operands_.empty() ? 0 : largest_distance(operands_[0]);
    const double scale = largest(y), tolerance = std::max(op_.tolerance, 1.0);
    const double ulps = wide == TENON_F64 ? 16 : 8;
    // A long sum rounds once per added term; errors of both signs cancel in part.
    const bool sums = rule_ == Rule::kSums || rule_ == Rule::kLogSumExp || rule_ == Rule::kUnknown;
    const double summed = sums && !operands_.empty()
                              ? static_cast<double>(operands_[0].count()) /
                                    std::max<double>(1, static_cast<double>(y.count()))
                              : 0;
    const double terms = std::max(kTerms, summed / 8);
    for (size_t i = 0; i < sums_[r].size(); ++i) {
      const double size = std::fabs(element(y, static_cast<int64_t>(i)));
      double own = ulp(narrow, size);
      if (rule_ == Rule::kFunction) own += ulps * tolerance * ulp(wide, size);
      if (rule_ == Rule::kFormula) {
        const double x = std::fabs(element(operands_[0], static_cast<int64_t>(i)));
        own += ulps * tolerance * ulp(wide, std::max(size, x));
      }
      if (rule_ == Rule::kSums) own += terms * ulp(wide, std::max(size, 4 * reach));
      if (rule_ == Rule::kSoftmax) own += size * (2 * reach_off + 16 * ulp(wide, 2 + 2 * reach));
      if (rule_ == Rule::kLogSoftmax) own += 2 * reach_off + 16 * ulp(wide, 2 + 2 * reach);
      if (rule_ == Rule::kLogSumExp)
        own += reach_off + 16 * ulp(wide, 2 + reach) + terms * ulp(wide, 1);
      if (rule_ == Rule::kUnknown) own += terms * tolerance * ulp(wide, scale);
      sums_[r][i] += own;
    }
  }
  bool is_exact() const {
    return rule_ == Rule::kExact || rule_ == Rule::kJump || rule_ == Rule::kOrder;
  }

  // Stores the distances. False if they would hide too much.
  bool keep(size_t r) {
    if (is_exact() && (all_exact_ || rule_ != Rule::kExact)) return true;
    const double scale = largest(results_[r]);
    const double part = dtype_bits(results_[r].dtype) == 16 ? 0.1 : 0.01;
    for (const double sum : sums_[r]) {
      if (!(sum <= part * std::max(scale, 1e-3))) return false;
    }
    results_[r].allowed = std::make_shared<const std::vector<double>>(std::move(sums_[r]));
    return true;
  }

  bool with(size_t k, Tensor operand, std::vector<Tensor>* found) const {
    std::vector<Tensor> operands(operands_.begin(), operands_.end());
    operands[k] = std::move(operand);
    return evaluate_(operands, found);
  }
  static void take_most(const Tensor& found, const Tensor& expected, std::vector<double>* most) {
    if (!is_float(expected.dtype)) return;
    for (size_t i = 0; i < most->size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      (*most)[i] = std::max((*most)[i], std::fabs(element(found, at) - element(expected, at)));
    }
  }

  static constexpr double kTerms = 32;  // roundings of a sum that add up

  const tenon_op_def_t& op_;
  const std::span<const Tensor> operands_;
  const Evaluate& evaluate_;
  std::vector<Tensor>& results_;
  Rule rule_;
  bool all_exact_ = true;
  std::vector<std::vector<double>> sums_;  // by result and element
};

}  // namespace

double ulp(tenon_dtype_t dtype, double x) {
  const int digits = dtype == TENON_F16    ? 10
                     : dtype == TENON_BF16 ? 7
                     : dtype == TENON_F32  ? 23
                                           : 52;
  const int lowest = dtype == TENON_F16 ? -14 : dtype == TENON_F64 ? -1022 : -126;
  int exponent = lowest;
  if (x != 0) std::frexp(x, &exponent);
  const double step = std::ldexp(1.0, std::max(exponent - 1, lowest) - digits);
  return dtype == TENON_F16 ? step : std::max(step, std::ldexp(1.0, lowest));
}

bool allow(const tenon_op_def_t& op, std::span<const Tensor> operands, const Evaluate& evaluate,
           std::vector<Tensor>* results) {
  return Allowance(op, operands, evaluate, results).run();
}

}  // namespace tenon::random_tests
