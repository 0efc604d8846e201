#include "sdk/tools/support/random_graphs.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "sdk/tools/support/tensors.h"

namespace tenon::random_graphs {
namespace {

using tools::Dense;

constexpr double kLargest = 1e4;  // larger magnitudes are left out
constexpr int64_t kElementsMax = 20000;

// Ops whose result can change much with a small change of an operand: a jump, a pole, a steep
// slope.
const std::set<std::string_view> kNeedExact = {"floor",
                                               "ceil",
                                               "trunc",
                                               "round_even",
                                               "sign",
                                               "compare",
                                               "argmax",
                                               "argmin",
                                               "rem",
                                               "floor_div",
                                               "floor_mod",
                                               "is_nan",
                                               "is_inf",
                                               "is_finite",
                                               "convert",
                                               "convert_wrap",
                                               "bitcast",
                                               "div",
                                               "reciprocal",
                                               "rsqrt",
                                               "pow",
                                               "atan2",
                                               "tan",
                                               "log",
                                               "log2",
                                               "log10",
                                               "lgamma",
                                               "digamma",
                                               "erf_inv",
                                               "acosh",
                                               "atanh",
                                               "asin",
                                               "acos",
                                               "expm1",
                                               "exp",
                                               "exp2",
                                               "sinh",
                                               "cosh",
                                               "log1p",
                                               "sqrt",
                                               "cumprod",
                                               "reduce_prod",
                                               "batch_norm",
                                               "layer_norm",
                                               "rms_norm",
                                               "group_norm",
                                               "var",
                                               "softsign",
                                               "logsumexp",
                                               "log_softmax",
                                               "select",
                                               "clamp",
                                               "prelu",
                                               "gather",
                                               "scatter",
                                               "take",
                                               "take_along",
                                               "embedding",
                                               "one_hot",
                                               "dynamic_slice",
                                               "dynamic_update_slice"};
// Left to the ops' own tests: they need regions, or contain something that is not a tensor.
const std::set<std::string_view> kLeftOut = {"if",   "while",           "scan",   "map",
                                             "sort", "dim_from_scalar", "nonzero"};

class Generator {
 public:
  Generator(uint64_t seed, const tenon_host_registry_t& registry, Generated* out)
      : random_(seed), registry_(registry), out_(out) {}

  Status begin(bool symbolic) {
    TENON_TRY(Graph::create("random", &out_->graph));
    graph_ = out_->graph.get();
    main_ = main_region(graph_).id();
    if (symbolic && chance(3)) TENON_TRY(define_symbol());
    for (int i = 0, count = 1 + below(3); i < count; ++i) new_input(pick_dtype(), pick_shape());
    return status_;
  }

  // Tries to add one node of this op; does nothing if it does not fit.
  bool add(const tenon_op_def_t& op) {
    const auto recipe = recipes().find(view(op.name));
    const size_t before = values_.size();
    if (recipe != recipes().end()) {
      (this->*recipe->second)(op);
    } else {
      generic(op);
    }
    return values_.size() > before;
  }

  Status end() {
    std::vector<Value> yields;
    std::vector<std::string> names;
    for (const Known& known : values_) {
      if (known.value.use_count() > 0 || known.value.view().kind != TENON_VALUE_RESULT) continue;
      names.push_back("out" + std::to_string(names.size()));
      yields.push_back(known.value);
      out_->outputs.emplace_back(names.back(), known);
    }
    if (yields.empty()) {  // no op fitted: the identity is a graph too
      names.push_back("out0");
      yields.push_back(values_[0].value);
      out_->outputs.emplace_back(names.back(), values_[0]);
    }
    out_->symbols = symbols();
    TENON_TRY(yield(Region(graph_, main_), yields, names));
    return graph_api().verify(graph_api().self, graph_);
  }
  uint64_t nodes() const { return nodes_; }
  // An op that was tried may have asserted a fact that this graph's symbol sizes violate; such
  // facts stay.
  bool symbol_holds() const {
    if (symbol_size_ == 0) return true;
    auto seen = sized<tenon_symbol_view_t>();
    if (graph_api().symbol_view(graph_api().self, graph_, symbol_, &seen) != TENON_OK) return false;
    return seen.lo <= symbol_size_ && symbol_size_ <= seen.hi &&
           symbol_size_ % seen.multiple_of == 0;
  }

 private:
  // ---- Choices ----
  int64_t below(int64_t n) {
    return n <= 1 ? 0 : static_cast<int64_t>(random_() % static_cast<uint64_t>(n));
  }
  bool chance(int64_t one_in) { return below(one_in) == 0; }
  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[static_cast<size_t>(below(static_cast<int64_t>(from.size())))];
  }
  tenon_dtype_t pick_dtype() {
    static const std::vector<tenon_dtype_t> kDtypes = {TENON_F32,  TENON_F32, TENON_F32, TENON_F32,
                                                       TENON_F64,  TENON_I32, TENON_I64, TENON_U8,
                                                       TENON_PRED, TENON_F16, TENON_BF16};
    return pick(kDtypes);
  }
  struct Shape {
    Dims dims;
    std::vector<int64_t> sizes;
  };
  Shape pick_shape() {
    static const std::vector<int64_t> kSizes = {1, 2, 3, 4, 5, 7, 8, 16, 17, 33};
    Shape shape;
    for (int64_t i = 0, rank = below(5); i < rank; ++i) {
      const bool symbolic = symbol_size_ > 0 && i == 0 && chance(2);
      shape.sizes.push_back(symbolic ? symbol_size_ : pick(kSizes));
      shape.dims.push_back(symbolic ? Dim(graph_, symbol_dim_) : Dim(graph_, shape.sizes.back()));
    }
    return shape;
  }

  Status define_symbol() {
    symbol_size_ = pick(std::vector<int64_t>{1, 2, 3, 7, 16});
    TENON_TRY(graph_api().symbol_define(graph_api().self, graph_, main_, str("n"), 1, INT64_MAX, 1,
                                        -1, &symbol_));
    auto seen = sized<tenon_symbol_view_t>();
    TENON_TRY(graph_api().symbol_view(graph_api().self, graph_, symbol_, &seen));
    symbol_dim_ = seen.dim;
    return {};
  }
  std::vector<int64_t> symbols() const {
    return std::vector<int64_t>(graph_view(graph_).symbol_limit,
                                std::max<int64_t>(symbol_size_, 1));
  }

  // ---- Values ----
  Known new_input(tenon_dtype_t dtype, const Shape& shape) {
    Known known;
    Value value;
    const std::string name = "in" + std::to_string(out_->inputs.size());
    status_ = argument(Region(graph_, main_), {dtype, shape.dims}, name, &value);
    known.value = value;
    known.dtype = dtype;
    known.dims = shape.sizes;
    known.exact = true;
    Dense dense{dtype, shape.sizes, nullptr};
    known.bytes = std::make_shared<std::vector<unsigned char>>(dense.size_bytes() + 8);
    tools::fill_random(dtype, random_(), 0, dense.count(), known.bytes->data());
    measure(&known);
    out_->inputs.emplace_back(name, known);
    values_.push_back(known);
    return known;
  }
  Shape shape_of(const Known& known) const { return {known.value.dims(), known.dims}; }

  // False if it holds what no output should: a non-finite or huge number.
  bool measure(Known* known) const {
    const Dense dense{known->dtype, known->dims, known->bytes->data()};
    for (int64_t i = 0, n = dense.count(); i < n; ++i) {
      const double x = tools::element(dense, i);
      if (!std::isfinite(x)) return false;
      known->largest = std::max(known->largest, std::fabs(x));
    }
    return is_int(known->dtype) || known->dtype == TENON_PRED || known->largest <= kLargest;
  }

  // A value of one of the dtypes, optionally with a rank in the given range; made as a new input if
  // there is none, and now and then anyway.
  Known operand(tenon_dtypes_t dtypes, bool exact, int64_t rank_min = 0, int64_t rank_max = 4) {
    std::vector<const Known*> fit;
    for (const Known& known : values_) {
      const auto rank = static_cast<int64_t>(known.dims.size());
      if (is_in(known.dtype, dtypes) && (known.exact || !exact) && rank >= rank_min &&
          rank <= rank_max) {
        fit.push_back(&known);
      }
    }
    if (!fit.empty() && !chance(5)) return *pick(fit);
    tenon_dtype_t dtype = pick_dtype();
    for (int tries = 0; !is_in(dtype, dtypes) && tries < 64; ++tries) dtype = pick_dtype();
    Shape shape = pick_shape();
    while (static_cast<int64_t>(shape.sizes.size()) < rank_min) {
      shape.sizes.push_back(1 + below(6));
      shape.dims.push_back(Dim(graph_, shape.sizes.back()));
    }
    while (static_cast<int64_t>(shape.sizes.size()) > rank_max) {
      shape.sizes.pop_back();
      shape.dims.pop_back();
    }
    return new_input(dtype, shape);
  }
  // A value of exactly this type.
  Known like(tenon_dtype_t dtype, const Shape& shape, bool exact) {
    std::vector<const Known*> fit;
    for (const Known& known : values_) {
      const Dims dims = known.value.dims();
      if (known.dtype == dtype && known.dims == shape.sizes && (known.exact || !exact) &&
          std::equal(dims.begin(), dims.end(), shape.dims.begin(), shape.dims.end())) {
        fit.push_back(&known);
      }
    }
    return !fit.empty() && !chance(4) ? *pick(fit) : new_input(dtype, shape);
  }
  Known vector_of(tenon_dtype_t dtype, const Known& of, size_t axis) {
    return like(dtype, {{of.value.dim(static_cast<uint32_t>(axis))}, {of.dims[axis]}}, false);
  }
  Shape fixed(std::vector<int64_t> sizes) const {
    Shape shape{{}, std::move(sizes)};
    for (const int64_t size : shape.sizes) shape.dims.push_back(Dim(graph_, size));
    return shape;
  }

  // ---- Building ----
  static bool needs_exact(const tenon_op_def_t& op) { return kNeedExact.contains(view(op.name)); }

  void build(const tenon_op_def_t& op, const std::vector<Known>& operands,
             const std::vector<Attr>& attrs) {
    if (!status_.ok()) return;
    std::vector<Value> values;
    bool exact = true;
    for (const Known& known : operands) {
      values.push_back(known.value);
      exact &= known.exact;
    }
    Builder builder(graph_, main_);
    const Node node = builder.build_node(view(op.name), values, attrs);
    if (!node) return;  // refused by the declaration: it does not fit
    if (!evaluate(op, node, operands, exact)) (void)erase(node);
  }

  bool evaluate(const tenon_op_def_t& op, const Node& node, const std::vector<Known>& operands,
                bool exact) {
    std::vector<tenon_array_t> inputs, outputs(node.result_count());
    for (const Known& known : operands) inputs.push_back(array_of(known));
    for (tenon_array_t& output : outputs) output.size_bytes = sizeof output;
    const std::vector<int64_t> sizes = symbols();
    if (!small_results(node, sizes)) return false;
    if (registry_.evaluate(registry_.self, graph_, node.id(), sizes.data(),
                           static_cast<uint32_t>(sizes.size()), inputs.data(),
                           static_cast<uint32_t>(inputs.size()), outputs.data(),
                           static_cast<uint32_t>(outputs.size())) != TENON_OK) {
      return false;
    }
    std::vector<Known> results;
    bool fine = true;
    for (uint32_t i = 0; i < node.result_count(); ++i) {
      Known known;
      known.value = node.result(i);
      known.dtype = outputs[i].dtype;
      known.dims.assign(outputs[i].dims, outputs[i].dims + outputs[i].rank);
      const Dense dense = tools::dense_of(outputs[i]);
      known.bytes =
          std::make_shared<std::vector<unsigned char>>(dense.data, dense.data + dense.size_bytes());
      known.bytes->resize(dense.size_bytes() + 8);
      known.exact = exact && stays_exact(op, known.dtype);
      fine &= measure(&known);
      results.push_back(std::move(known));
      registry_.array_free(registry_.self, &outputs[i]);
    }
    if (!fine) return false;
    ++nodes_;
    values_.insert(values_.end(), results.begin(), results.end());
    return true;
  }
  // Results that are exact: integers and predicates of exact operands, and elements that were only
  // moved.
  static bool stays_exact(const tenon_op_def_t& op, tenon_dtype_t dtype) {
    return !is_float(dtype) || (op.traits & TENON_TRAIT_SHAPE_ONLY) != 0;
  }
  bool small_results(const Node& node, const std::vector<int64_t>& sizes) const {
    for (uint32_t i = 0; i < node.result_count(); ++i) {
      int64_t count = 1;
      for (const Dim dim : node.result(i).dims()) {
        int64_t size = 0;
        if (graph_api().dim_evaluate(graph_api().self, graph_, dim.raw(), sizes.data(),
                                     static_cast<uint32_t>(sizes.size()), &size) != TENON_OK) {
          return false;
        }
        if (size < 0 || size > kElementsMax || (count *= std::max<int64_t>(size, 1)) > kElementsMax)
          return false;
      }
    }
    return true;
  }
  static tenon_array_t array_of(const Known& known) {
    auto array = sized<tenon_array_t>();
    array.dtype = known.dtype;
    array.rank = static_cast<uint32_t>(known.dims.size());
    array.dims = known.dims.data();
    array.data = known.bytes->data();
    return array;
  }

  const std::vector<int64_t>& keep(std::vector<int64_t> numbers) {
    return storage_.emplace_back(std::move(numbers));
  }

  // ---- Recipes: what the declaration alone does not say ----
  using Recipe = void (Generator::*)(const tenon_op_def_t&);
  static const std::map<std::string_view, Recipe>& recipes() {
    static const std::map<std::string_view, Recipe> kRecipes = {
        {"broadcast", &Generator::broadcast},
        {"reshape", &Generator::reshape},
        {"transpose", &Generator::transpose},
        {"slice", &Generator::slice},
        {"pad", &Generator::pad},
        {"concat", &Generator::concat},
        {"dot_general", &Generator::dot},
        {"matmul", &Generator::matmul},
        {"linear", &Generator::linear},
        {"conv", &Generator::conv},
        {"conv_bias", &Generator::conv},
        {"reduce_window", &Generator::reduce_window},
        {"max_pool", &Generator::pool},
        {"avg_pool", &Generator::pool},
        {"select", &Generator::select},
        {"iota", &Generator::iota},
        {"layer_norm", &Generator::norm},
        {"rms_norm", &Generator::norm},
        {"batch_norm", &Generator::batch_norm},
        {"group_norm", &Generator::batch_norm},
        {"take", &Generator::take},
        {"embedding", &Generator::take},
        {"one_hot", &Generator::one_hot},
        {"split", &Generator::split},
        {"tile", &Generator::tile},
        {"global_avg_pool", &Generator::pool},
        {"global_max_pool", &Generator::pool}};
    return kRecipes;
  }

  // Operands of one shape for element-wise ops; one operand and guessed attributes for the rest.
  void generic(const tenon_op_def_t& op) {
    const bool exact = needs_exact(op);
    std::vector<Known> operands;
    for (uint32_t i = 0; i < op.operand_count; ++i) {
      const tenon_operand_def_t& def = *tenon_op_operand(&op, i);
      if ((def.flags & (TENON_OPERAND_OPTIONAL | TENON_OPERAND_VARIADIC)) != 0) break;
      if (operands.empty()) {
        operands.push_back(
            operand(def.dtypes, exact, def.rank_min, std::min<int64_t>(def.rank_max, 4)));
      } else {
        const tenon_dtype_t dtype =
            is_in(operands[0].dtype, def.dtypes) ? operands[0].dtype : TENON_I32;
        operands.push_back(like(dtype, shape_of(operands[0]), exact));
      }
    }
    // Slopes of these grow with the argument.
    static const std::set<std::string_view> kPeriodic = {"sin", "cos"};
    if (kPeriodic.contains(view(op.name)) && !operands[0].exact && operands[0].largest > 30) return;
    std::vector<Attr> attrs;
    const int64_t rank = operands.empty() ? 0 : static_cast<int64_t>(operands[0].dims.size());
    for (uint32_t i = 0; i < op.attr_count; ++i) guess(*tenon_op_attr(&op, i), rank, &attrs);
    build(op, operands, attrs);
  }
  void guess(const tenon_attr_def_t& def, int64_t rank, std::vector<Attr>* attrs) {
    const std::string_view name = view(def.name);
    const bool required = (def.flags & TENON_ATTR_REQUIRED) != 0;
    if (def.kind == TENON_ATTR_I64 && (name == "dim" || name == "axis")) {
      attrs->emplace_back(name, below(std::max<int64_t>(rank, 1)));
    } else if (def.kind == TENON_ATTR_I64S && name == "dims") {
      std::vector<int64_t> dims;
      for (int64_t d = 0; d < rank; ++d) {
        if (chance(2)) dims.push_back(d);
      }
      attrs->emplace_back(name, keep(std::move(dims)));
    } else if (def.kind == TENON_ATTR_I64 && name == "direction") {
      attrs->emplace_back(name, below(6));
    } else if (def.kind == TENON_ATTR_I64 &&
               (name == "reverse" || name == "exclusive" || name == "last_index")) {
      attrs->emplace_back(name, below(2));
    } else if (def.kind == TENON_ATTR_DTYPE && required) {
      attrs->emplace_back(name, DType{pick_dtype()});
    } else if (def.kind == TENON_ATTR_F64 && (name == "min" || name == "max")) {
      attrs->emplace_back(name, name == "min" ? -0.5 : 0.75);
    }
  }

  void broadcast(const tenon_op_def_t& op) {
    const Known x = operand(kNumber | kPred, false, 0, 3);
    Dims shape;
    std::vector<int64_t> dims;
    for (size_t i = 0; i < x.dims.size(); ++i) {
      if (shape.size() < 4 - (x.dims.size() - i) && chance(2))
        shape.push_back(Dim(graph_, 1 + below(5)));
      dims.push_back(static_cast<int64_t>(shape.size()));
      shape.push_back(x.dims[i] == 1 && chance(2) ? Dim(graph_, 1 + below(6))
                                                  : x.value.dim(static_cast<uint32_t>(i)));
    }
    if (shape.size() < 4 && chance(2)) shape.push_back(Dim(graph_, 1 + below(5)));
    build(op, {x}, {{"shape", shape}, {"dims", keep(std::move(dims))}});
  }
  void reshape(const tenon_op_def_t& op) {
    const Known x = operand(kNumber | kPred, false, 1);
    Dims shape = x.value.dims();
    const auto at = static_cast<size_t>(below(static_cast<int64_t>(shape.size())));
    if (shape.size() > 1 && at + 1 < shape.size() && chance(2)) {  // joins two dims
      shape[at] = shape[at] * shape[at + 1];
      shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    } else if (shape[at].is_constant() && shape[at].constant() % 2 == 0 &&
               shape[at].constant() > 0) {
      shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(at), Dim(graph_, 2));
      shape[at + 1] = Dim(graph_, shape[at + 1].constant() / 2);
    } else {
      shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(at), Dim(graph_, 1));
    }
    build(op, {x}, {{"shape", shape}});
  }
  void transpose(const tenon_op_def_t& op) {
    const Known x = operand(kNumber | kPred, false, 2);
    std::vector<int64_t> perm(x.dims.size());
    for (size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<int64_t>(i);
    for (size_t i = perm.size(); i-- > 1;)
      std::swap(perm[i], perm[static_cast<size_t>(below(static_cast<int64_t>(i) + 1))]);
    build(op, {x}, {{"perm", keep(std::move(perm))}});
  }
  void slice(const tenon_op_def_t& op) {
    const Known x = operand(kNumber | kPred, false, 1);
    Dims start, limit;
    std::vector<int64_t> stride;
    for (uint32_t d = 0; d < x.dims.size(); ++d) {
      const bool whole = !x.value.dim(d).is_constant() || chance(2);
      const int64_t size = x.dims[d], begin = whole ? 0 : below(size);
      start.push_back(Dim(graph_, begin));
      limit.push_back(whole ? x.value.dim(d) : Dim(graph_, begin + 1 + below(size - begin)));
      stride.push_back(x.value.dim(d).is_constant() ? 1 + below(2) : 1);
    }
    build(op, {x}, {{"start", start}, {"limit", limit}, {"stride", keep(std::move(stride))}});
  }
  void pad(const tenon_op_def_t& op) {
    const Known x = operand(kNumber | kPred, false, 1);
    const Known value = like(x.dtype, fixed({}), false);
    std::vector<int64_t> low, high, interior;
    for (size_t d = 0; d < x.dims.size(); ++d) {
      low.push_back(below(4) - 1);
      high.push_back(below(4) - 1);
      interior.push_back(chance(3) ? 1 : 0);
    }
    build(op, {x, value}, {{"low", keep(low)}, {"high", keep(high)}, {"interior", keep(interior)}});
  }
  void concat(const tenon_op_def_t& op) {
    const Known x = operand(kNumber | kPred, false, 1);
    const int64_t dim = below(static_cast<int64_t>(x.dims.size()));
    Shape other = shape_of(x);
    other.sizes[static_cast<size_t>(dim)] = 1 + below(5);
    other.dims[static_cast<size_t>(dim)] = Dim(graph_, other.sizes[static_cast<size_t>(dim)]);
    const Known y = like(x.dtype, other, false);
    build(op, chance(3) ? std::vector<Known>{x, y, x} : std::vector<Known>{x, y}, {{"dim", dim}});
  }
  void matmul(const tenon_op_def_t& op) {
    const Known a =
        operand(dtype_bit(TENON_F32) | dtype_bit(TENON_F64) | dtype_bit(TENON_I32), false, 2, 3);
    Shape b = shape_of(a);
    const size_t rank = b.sizes.size();
    b.sizes[rank - 2] = a.dims[rank - 1];
    b.dims[rank - 2] = a.value.dim(static_cast<uint32_t>(rank - 1));
    b.sizes[rank - 1] = 1 + below(20);
    b.dims[rank - 1] = Dim(graph_, b.sizes[rank - 1]);
    build(op, {a, like(a.dtype, b, false)}, {});
  }
  void dot(const tenon_op_def_t& op) {
    const Known a = operand(dtype_bit(TENON_F32) | dtype_bit(TENON_I32), false, 2, 3);
    const auto rank = static_cast<int64_t>(a.dims.size());
    const int64_t contract = below(rank),
                  batch = rank == 3 && chance(2) ? (contract + 1) % rank : -1;
    Shape b;
    std::vector<int64_t> a_batch, b_batch;
    if (batch >= 0) {
      a_batch = {batch};
      b_batch = {0};
      b.sizes.push_back(a.dims[static_cast<size_t>(batch)]);
      b.dims.push_back(a.value.dim(static_cast<uint32_t>(batch)));
    }
    const int64_t free_size = 1 + below(18);
    b.sizes.push_back(free_size);
    b.dims.push_back(Dim(graph_, free_size));
    b.sizes.push_back(a.dims[static_cast<size_t>(contract)]);
    b.dims.push_back(a.value.dim(static_cast<uint32_t>(contract)));
    const int64_t b_contract = static_cast<int64_t>(b.sizes.size()) - 1;
    build(op, {a, like(a.dtype, b, false)},
          {{"a_batch", keep(a_batch)},
           {"b_batch", keep(b_batch)},
           {"a_contract", keep({contract})},
           {"b_contract", keep({b_contract})}});
  }
  void linear(const tenon_op_def_t& op) {
    const Known x = operand(dtype_bit(TENON_F32), false, 2, 3);
    const auto last = static_cast<uint32_t>(x.dims.size() - 1);
    const int64_t out = 1 + below(20), transposed = below(2);
    Shape w = fixed({out, out});
    w.sizes[transposed == 1 ? 1 : 0] = x.dims[last];
    w.dims[transposed == 1 ? 1 : 0] = x.value.dim(last);
    std::vector<Known> operands = {x, like(TENON_F32, w, false)};
    if (chance(2)) operands.push_back(like(TENON_F32, fixed({out}), false));
    static const std::vector<const char*> kActivations = {"none", "relu", "gelu", "tanh"};
    build(op, operands, {{"transpose_w", transposed}, {"activation", pick(kActivations)}});
  }
  void conv(const tenon_op_def_t& op) {
    const int64_t in = 1 + below(4), out = 1 + below(5), size = 3 + below(6), kernel = 1 + below(3);
    const Known x = like(TENON_F32, fixed({1 + below(2), in, size, size + below(3)}), false);
    const Known w = like(TENON_F32, fixed({out, in, kernel, kernel}), false);
    const int64_t pad = below(2);
    build(op, {x, w},
          {{"strides", keep({1 + below(2), 1 + below(2)})},
           {"pad_low", keep({pad, pad})},
           {"pad_high", keep({pad, below(2)})}});
  }
  void reduce_window(const tenon_op_def_t& op) {
    const Known x = operand(dtype_bit(TENON_F32) | dtype_bit(TENON_I32), false, 1, 3);
    std::vector<int64_t> window, strides, low, high;
    for (size_t d = 0; d < x.dims.size(); ++d) {
      window.push_back(1 + below(std::min<int64_t>(x.dims[d], 3)));
      strides.push_back(1 + below(2));
      low.push_back(window.back() > 1 ? below(2) : 0);
      high.push_back(window.back() > 1 ? below(2) : 0);
    }
    static const std::vector<const char*> kKinds = {"sum", "max", "min"};
    build(op, {x},
          {{"kind", pick(kKinds)},
           {"window", keep(window)},
           {"strides", keep(strides)},
           {"pad_low", keep(low)},
           {"pad_high", keep(high)}});
  }
  void pool(const tenon_op_def_t& op) {
    const Known x = operand(dtype_bit(TENON_F32), false, 4, 4);
    std::vector<Attr> attrs;
    if (!view(op.name).starts_with("global")) {
      attrs.emplace_back("window",
                         keep({std::min<int64_t>(2, x.dims[2]), std::min<int64_t>(2, x.dims[3])}));
      attrs.emplace_back("strides", keep({1 + below(2), 1 + below(2)}));
    }
    build(op, {x}, attrs);
  }
  void select(const tenon_op_def_t& op) {
    const Known x = operand(kNumber, false);
    build(op, {like(TENON_PRED, shape_of(x), true), x, like(x.dtype, shape_of(x), false)}, {});
  }
  void iota(const tenon_op_def_t& op) {
    const Shape shape = fixed({1 + below(6), 1 + below(9)});
    static const std::vector<tenon_dtype_t> kDtypes = {TENON_I64, TENON_I32, TENON_F32};
    build(op, {}, {{"shape", shape.dims}, {"dim", below(2)}, {"dtype", DType{pick(kDtypes)}}});
  }
  void norm(const tenon_op_def_t& op) {
    const Known x = operand(dtype_bit(TENON_F32), true, 2, 3);
    const size_t last = x.dims.size() - 1;
    if (x.dims[last] < 2) return;  // one element has no spread, so the result would be all rounding
    std::vector<Known> operands = {x, vector_of(TENON_F32, x, last)};
    if (view(op.name) == "layer_norm" && chance(2))
      operands.push_back(vector_of(TENON_F32, x, last));
    build(op, operands, {{"dim", static_cast<int64_t>(last)}});
  }
  void batch_norm(const tenon_op_def_t& op) {
    const Known x = operand(dtype_bit(TENON_F32), true, 3, 4);
    const size_t wanted = view(op.name) == "batch_norm" ? 4 : 2;
    std::vector<Known> operands = {x};
    for (size_t i = 0; i < wanted; ++i) operands.push_back(vector_of(TENON_F32, x, 1));
    std::vector<Attr> attrs = {{"dim", 1}};
    if (wanted == 2) attrs.emplace_back("groups", 1);
    build(op, operands, attrs);
  }
  void take(const tenon_op_def_t& op) {
    const Known x = operand(dtype_bit(TENON_F32) | dtype_bit(TENON_I32), false, 1, 3);
    const Known indices = operand(kIndex, true, 0, 2);
    std::vector<Attr> attrs;
    if (view(op.name) == "take")
      attrs.emplace_back("dim", below(static_cast<int64_t>(x.dims.size())));
    build(op, {x, indices}, attrs);
  }
  void one_hot(const tenon_op_def_t& op) {
    build(op, {operand(kIndex, true, 0, 2)}, {{"depth", Dims{Dim(graph_, 2 + below(7))}}});
  }
  void split(const tenon_op_def_t& op) {
    const Known x = operand(kNumber, false, 1);
    for (uint32_t d = 0; d < x.dims.size(); ++d) {
      if (x.dims[d] < 2 || !x.value.dim(d).is_constant()) continue;
      const int64_t first = 1 + below(x.dims[d] - 1);
      return build(op, {x},
                   {{"dim", static_cast<int64_t>(d)},
                    {"sizes", Dims{Dim(graph_, first), Dim(graph_, x.dims[d] - first)}}});
    }
  }
  void tile(const tenon_op_def_t& op) {
    const Known x = operand(kNumber, false, 1, 3);
    Dims repeats;
    for (size_t d = 0; d < x.dims.size(); ++d) repeats.push_back(Dim(graph_, 1 + below(2)));
    build(op, {x}, {{"repeats", repeats}});
  }

  std::mt19937_64 random_;
  const tenon_host_registry_t& registry_;
  Generated* out_;
  tenon_graph_t* graph_ = nullptr;
  tenon_region_t main_ = 0;
  int64_t symbol_size_ = 0;
  tenon_symbol_t symbol_ = 0;
  tenon_dim_t symbol_dim_ = 0;
  std::vector<Known> values_;
  std::deque<std::vector<int64_t>> storage_;
  Status status_;
  uint64_t nodes_ = 0;
};

}  // namespace

std::vector<const tenon_op_def_t*> usable_ops(const tenon_host_registry_t& registry) {
  std::vector<const tenon_op_def_t*> ops;
  (void)registry.op_each(
      registry.self, &ops, [](void* self, const tenon_op_def_t* op, tenon_str_t) {
        constexpr uint64_t kNot =
            TENON_TRAIT_ORDERED | TENON_TRAIT_DEFINES_SYMBOL | TENON_TRAIT_AMBIGUOUS;
        if ((op->traits & kNot) == 0 && (op->traits & TENON_TRAIT_PURE) != 0 &&
            !kLeftOut.contains(view(op->name))) {
          static_cast<std::vector<const tenon_op_def_t*>*>(self)->push_back(op);
        }
      });
  return ops;
}

namespace {

Status fill(uint64_t seed, bool symbolic, const tenon_host_registry_t& registry,
            const std::vector<const tenon_op_def_t*>& ops, std::vector<uint64_t>* used,
            Generated* out, bool* holds) {
  Generator generator(seed, registry, out);
  TENON_TRY(generator.begin(symbolic));
  std::mt19937_64 random(seed ^ 0x5bd1e995u);
  const uint64_t wanted = 1 + random() % 14;
  for (int tries = 0; tries < 100 && generator.nodes() < wanted; ++tries) {
    // Every op gets its turn; the first op is chosen by the seed.
    const size_t i = (tries == 0 ? seed : random()) % ops.size();
    if (generator.add(*ops[i])) ++(*used)[i];
  }
  out->nodes = generator.nodes();
  *holds = generator.symbol_holds();
  return generator.end();
}

}  // namespace

Status generate(uint64_t seed, const tenon_host_registry_t& registry,
                const std::vector<const tenon_op_def_t*>& ops, std::vector<uint64_t>* used,
                Generated* out) {
  bool holds = true;
  TENON_TRY(fill(seed, true, registry, ops, used, out, &holds));
  if (holds) return {};
  *out = Generated();
  return fill(seed, false, registry, ops, used, out, &holds);
}

}  // namespace tenon::random_graphs
