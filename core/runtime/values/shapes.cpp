#include "core/runtime/values/shapes.h"

#include <algorithm>

#include <tenon/cpp/size_rule.hpp>

#include "core/base/checked.h"
#include "core/base/errors/guard.h"
#include "core/base/intern.h"
#include "core/base/limits.h"
#include "core/base/process/log.h"
#include "core/base/str.h"
#include "core/ir/dtype.h"
#include "core/ir/graph.h"
#include "core/runtime/values/arrays.h"

namespace tenon::runtime {

using ir::dtype_bits;

namespace {

constexpr size_t kProblemsMax = 20;

// One status with the code of the first problem.
Status joined(const std::vector<Status>& wrong) {
  if (wrong.empty()) return {};
  std::string text(wrong[0].message());
  for (size_t i = 1; i < wrong.size() && i < kProblemsMax; ++i) {
    text += "; ";
    text += wrong[i].message();
  }
  if (wrong.size() > kProblemsMax)
    text += fmt::format("; and {} more", wrong.size() - kProblemsMax);
  return Status(TENON_INVALID_ARGUMENT, wrong[0].error_code(), std::move(text));
}

std::string dtype_text(tenon_dtype_t dtype) {
  return ir::dtype_valid(dtype) ? std::string(ir::dtype_name(dtype))
                                : fmt::format("of no known element type ({})", dtype);
}

std::string_view rel_text(uint32_t rel) {
  switch (rel) {
    case TENON_REL_EQ:
      return "equal to";
    case TENON_REL_LT:
      return "less than";
    case TENON_REL_LE:
      return "at most";
    default:
      return "a multiple of";
  }
}

// As .tir writes it: "2*n + 1".
std::string dim_text(tenon_graph_t* graph, tenon_dim_t dim) {
  return dim >= 0 ? std::to_string(dim) : ir::Graph::from(graph)->dims().text(dim);
}

}  // namespace

Result<Port> Shapes::read_port(tenon_value_t value, std::string name) const {
  const tenon_value_view_t view = reader().value(value);
  if (view.type.kind != TENON_KIND_TENSOR) {
    return error(TENON_UNIMPLEMENTED, "T0506",
                 "{} is not a tensor; only tensors cross the boundary of a program", quoted(name));
  }
  Port port{std::move(name),
            value,
            view.type.dtype,
            {view.type.dims, view.type.dims + view.type.rank},
            {}};
  for (tenon_dim_t dim : port.dims) port.dim_texts.push_back(dim_text(graph_, dim));
  return port;
}

Result<Shapes> Shapes::create(const tenon_host_graph_t& api, tenon_graph_t* graph,
                              std::vector<Assertion> assertions, std::vector<BoundPlaces> bounds) {
  Shapes s;
  s.api_ = &api;
  s.graph_ = graph;
  s.symbol_limit_ = s.reader().whole().symbol_limit;
  const tenon_region_view_t main = s.reader().main();
  for (uint32_t i = 0; i < main.argument_count; ++i) {
    const tenon_value_view_t value = s.reader().value(main.arguments[i]);
    std::string name(sym_text(value.name));
    TENON_ASSIGN_OR_RETURN(
        Port port, s.read_port(main.arguments[i], name.empty() ? fmt::format("input{}", i) : name));
    s.inputs_.push_back(std::move(port));
  }
  for (uint32_t i = 0; i < main.yield_count; ++i) {
    std::string name(main.output_names != nullptr ? sym_text(main.output_names[i]) : "");
    TENON_ASSIGN_OR_RETURN(
        Port port, s.read_port(main.yields[i], name.empty() ? fmt::format("output{}", i) : name));
    s.outputs_.push_back(std::move(port));
  }
  s.index_names();
  s.of_inputs_.resize(s.symbol_limit_);
  for (uint32_t i = 0; i < main.symbol_count; ++i) s.of_inputs_[main.symbols[i]] = true;
  s.assertions_ = std::move(assertions);
  s.bounds_ = std::move(bounds);
  return s;
}

Shapes Shapes::restore(const tenon_host_graph_t& api, tenon_graph_t* graph, Parts parts) {
  Shapes s;
  s.api_ = &api;
  s.graph_ = graph;
  s.symbol_limit_ = s.reader().whole().symbol_limit;
  s.inputs_ = std::move(parts.inputs);
  s.outputs_ = std::move(parts.outputs);
  for (std::vector<Port>* ports : {&s.inputs_, &s.outputs_}) {
    for (Port& port : *ports) {
      for (tenon_dim_t dim : port.dims) port.dim_texts.push_back(dim_text(graph, dim));
    }
  }
  s.index_names();
  s.of_inputs_.resize(s.symbol_limit_);
  for (tenon_symbol_t symbol : parts.of_inputs) s.of_inputs_[symbol] = true;
  s.assertions_ = std::move(parts.assertions);
  s.bounds_ = std::move(parts.bounds);
  s.blame_ = std::move(parts.blame);
  return s;
}

// The first port of a name counts.
void Shapes::index_names() {
  for (uint32_t i = 0; i < inputs_.size(); ++i) input_by_name_.try_emplace(inputs_[i].name, i);
  for (uint32_t i = 0; i < outputs_.size(); ++i) output_by_name_.try_emplace(outputs_[i].name, i);
}

std::optional<uint32_t> Shapes::input(std::string_view name) const {
  const auto found = input_by_name_.find(name);
  return found == input_by_name_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<uint32_t> Shapes::output(std::string_view name) const {
  const auto found = output_by_name_.find(name);
  return found == output_by_name_.end() ? std::nullopt : std::optional(found->second);
}

Status Shapes::check_type(uint32_t input, tenon_dtype_t dtype,
                          std::span<const int64_t> dims) const {
  const Port& port = inputs_[input];
  if (dtype != port.dtype) {
    return error(TENON_INVALID_ARGUMENT, "T0603", "input {} is {}, and {} was given",
                 quoted(port.name), ir::dtype_name(port.dtype), dtype_text(dtype));
  }
  if (dims.size() != port.dims.size() || (!dims.empty() && dims.data() == nullptr)) {
    return error(TENON_INVALID_ARGUMENT, "T0604",
                 "input {} has rank {} ([{}]), and an array of rank {} was given",
                 quoted(port.name), port.dims.size(), join_names(port.dim_texts), dims.size());
  }
  for (size_t i = 0; i < dims.size(); ++i) {
    const bool wrong = dims[i] < 0 || (port.dims[i] >= 0 && port.dims[i] != dims[i]);
    if (wrong) {
      return error(TENON_INVALID_ARGUMENT, "T0605", "dim {} of input {} is {}, expected {}", i,
                   quoted(port.name), dims[i], port.dim_texts[i]);
    }
  }
  return {};
}

Status Shapes::check_input(uint32_t input, const tenon_array_t& array) const {
  const Port& port = inputs_[input];
  TENON_RETURN_IF_ERROR(check_type(input, array.dtype, {array.dims, array.rank}));
  TENON_ASSIGN_OR_RETURN(const uint64_t count, element_count({array.dims, array.rank}));
  if (count > limit(Limit::kElements))
    return check_limit(Limit::kElements, count, fmt::format("input {}", quoted(port.name)));
  TENON_ASSIGN_OR_RETURN(const uint64_t bytes, packed_bytes(count, dtype_bits(array.dtype)));
  if (array.strides_bytes != nullptr && dtype_bits(array.dtype) < 8) {
    return error(TENON_INVALID_ARGUMENT, "T0613",
                 "input {} has strides, and elements of {} share bytes", quoted(port.name),
                 ir::dtype_name(port.dtype));
  }
  if (bytes != 0 && array.data == nullptr) {
    return error(TENON_INVALID_ARGUMENT, "T0613", "input {} needs {} bytes and has no data",
                 quoted(port.name), bytes);
  }
  if (!has_addresses(array)) {
    return error(TENON_INVALID_ARGUMENT, "T0613",
                 "the strides of input {} lead out of the address space", quoted(port.name));
  }
  return {};
}

bool Shapes::known(tenon_dim_t dim, const std::vector<bool>& bound) const {
  if (dim >= 0) return true;
  const tenon_dim_view_t v = reader().dim(dim);
  if (v.op == TENON_DIM_CONSTANT) return true;
  if (v.op == TENON_DIM_SYMBOL) return bound[v.symbol];
  return known(v.a, bound) && known(v.b, bound);
}

// Finds the one unknown symbol of sums and products; false when there is no or no whole solution.
bool Shapes::invert(tenon_dim_t dim, int64_t target, std::vector<bool>* bound,
                    std::vector<int64_t>* symbols) const {
  if (dim >= 0) return dim == target;
  const tenon_dim_view_t v = reader().dim(dim);
  if (v.op == TENON_DIM_SYMBOL && !(*bound)[v.symbol]) {
    (*symbols)[v.symbol] = target;
    (*bound)[v.symbol] = true;
    return true;
  }
  if (v.op != TENON_DIM_ADD && v.op != TENON_DIM_MUL) return false;
  const bool a_known = known(v.a, *bound), b_known = known(v.b, *bound);
  if (a_known == b_known) return false;
  int64_t other = 0, rest = 0;
  if (api_->dim_evaluate(api_->self, graph_, a_known ? v.a : v.b, symbols->data(), symbol_limit_,
                         &other) != TENON_OK) {
    clear_failure();
    return false;
  }
  if (v.op == TENON_DIM_ADD) {
    if (!checked_sub(target, other, &rest)) return false;
  } else {
    if (other <= 0 || target % other != 0) return false;
    rest = target / other;
  }
  return invert(a_known ? v.b : v.a, rest, bound, symbols);
}

Result<tenon_symbol_t> Shapes::size_symbol(std::string_view name) const {
  std::vector<std::string> names;
  for (tenon_symbol_t s = 0; s < symbol_limit_; ++s) {
    if (!of_inputs_[s]) continue;
    names.emplace_back(sym_text(reader().symbol(s).name));
    if (names.back() == name) return s;
  }
  return error(TENON_NOT_FOUND, "T0602", "there is no size {}{} (sizes: {})", quoted(name),
               did_you_mean(name, names), names.empty() ? "none" : join_names(names));
}

Status Shapes::solve(std::span<const std::span<const int64_t>> dims, std::span<const Given> given,
                     std::span<const tenon_symbol_t> needed,
                     std::vector<int64_t>* out_symbols) const {
  std::vector<int64_t> symbols(symbol_limit_, 0);
  std::vector<bool> bound(symbol_limit_, false);
  for (const Given& g : given) {
    symbols[g.symbol] = g.value;
    bound[g.symbol] = true;
  }
  // Plain symbols first, whichever input brings them; then expressions with one unknown left.
  for (int pass = 0; pass < 2; ++pass) {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      for (size_t j = 0; j < inputs_[i].dims.size(); ++j) {
        const tenon_dim_t dim = inputs_[i].dims[j];
        if (dim >= 0 || known(dim, bound)) continue;
        const bool plain = reader().dim(dim).op == TENON_DIM_SYMBOL;
        if (plain == (pass == 0)) (void)invert(dim, dims[i][j], &bound, &symbols);
      }
    }
  }
  std::vector<Status> wrong;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Port& port = inputs_[i];
    for (size_t j = 0; j < port.dims.size(); ++j) {
      int64_t expected = port.dims[j];
      if (expected < 0) {
        const bool fits = known(expected, bound) &&
                          api_->dim_evaluate(api_->self, graph_, port.dims[j], symbols.data(),
                                             symbol_limit_, &expected) == TENON_OK;
        if (!fits) {
          clear_failure();
          wrong.push_back(error(TENON_INVALID_ARGUMENT, "T0606",
                                "dim {} of input {} is {}, which no value of {} gives", j,
                                quoted(port.name), dims[i][j], port.dim_texts[j]));
          continue;
        }
      }
      if (expected == dims[i][j]) continue;
      wrong.push_back(port.dims[j] >= 0
                          ? error(TENON_INVALID_ARGUMENT, "T0605",
                                  "dim {} of input {} is {}, expected {}", j, quoted(port.name),
                                  dims[i][j], expected)
                          : error(TENON_INVALID_ARGUMENT, "T0606",
                                  "dim {} of input {} is {}, expected {} since {} is "
                                  "bound by the other dims",
                                  j, quoted(port.name), dims[i][j], expected, port.dim_texts[j]));
    }
  }
  for (const tenon_symbol_t s : needed) {
    if (bound[s] || !of_inputs_[s] || !wrong.empty()) continue;
    wrong.push_back(error(TENON_INVALID_ARGUMENT, "T0623",
                          "the size {} follows from no input, so that its value must be given",
                          quoted(sym_text(reader().symbol(s).name))));
    break;
  }
  check_symbols(bound, symbols, &wrong);
  if (wrong.empty()) {
    std::vector<bool> reported(symbol_limit_);
    for (const Assertion& fact : assertions_) {
      if (known(fact.a, bound) && known(fact.b, bound))
        check_assertion(fact, symbols, &reported, &wrong);
    }
  }
  TENON_RETURN_IF_ERROR(joined(wrong));
  *out_symbols = std::move(symbols);
  return {};
}

void Shapes::check_symbols(const std::vector<bool>& bound, std::span<const int64_t> symbols,
                           std::vector<Status>* wrong) const {
  for (uint32_t s = 0; s < symbol_limit_; ++s) {
    if (!bound[s]) continue;
    const tenon_symbol_view_t view = reader().symbol(s);
    const int64_t value = symbols[s];
    if (value >= view.lo && value <= view.hi &&
        (view.multiple_of <= 1 || value % view.multiple_of == 0))
      continue;
    std::string rule;
    const auto add = [&](std::string_view text, int64_t number) {
      rule += fmt::format("{}{}{}", rule.empty() ? "" : " and ", text, number);
    };
    if (view.lo > 0 || value < 0) add("at least ", view.lo);
    if (view.hi != INT64_MAX) add("at most ", view.hi);
    if (view.multiple_of > 1) add("a multiple of ", view.multiple_of);
    const Culprit culprit = culprit_for(symbols);
    const BoundPlaces by = s < bounds_.size() ? bounds_[s] : BoundPlaces{};
    std::string where = place_text(value < view.lo   ? by.lo
                                   : value > view.hi ? by.hi
                                                     : by.multiple_of);
    if (where.empty()) where = culprit.negative();
    if (where.empty()) where = culprit.resized();
    if (where.empty()) where = culprit.emptied();
    wrong->push_back(error(TENON_INVALID_ARGUMENT, "T0608",
                           "dim {} is {}, and the model wants it {}{}", quoted(sym_text(view.name)),
                           value, rule, where));
  }
}

// The symbol of a relation that mentions no other.
std::optional<tenon_symbol_t> Shapes::only_symbol(const Assertion& fact) const {
  std::vector<bool> mentioned(symbol_limit_);
  add_symbols(reader(), fact.a, &mentioned);
  add_symbols(reader(), fact.b, &mentioned);
  const auto first = std::find(mentioned.begin(), mentioned.end(), true);
  if (first == mentioned.end() || std::find(first + 1, mentioned.end(), true) != mentioned.end())
    return std::nullopt;
  return static_cast<tenon_symbol_t>(first - mentioned.begin());
}

bool Shapes::holds_for(const Assertion& fact, std::span<const int64_t> symbols) const {
  int64_t a = 0, b = 0;
  const bool computed =
      api_->dim_evaluate(api_->self, graph_, fact.a, symbols.data(), symbol_limit_, &a) ==
          TENON_OK &&
      api_->dim_evaluate(api_->self, graph_, fact.b, symbols.data(), symbol_limit_, &b) == TENON_OK;
  if (!computed) clear_failure();
  return computed && ir::relation_holds(fact.rel, a, b);
}

// What the relations that mention only this symbol need of it, in words; empty if none say it.
std::string Shapes::rule_of(tenon_symbol_t symbol) const {
  std::vector<const Assertion*> rules;
  for (const Assertion& fact : assertions_) {
    if (only_symbol(fact) == symbol) rules.push_back(&fact);
  }
  std::vector<int64_t> values(symbol_limit_, 0);
  return size_rule::words(size_rule::sizes([&](int64_t size) {
    values[symbol] = size;
    return std::all_of(rules.begin(), rules.end(),
                       [&](const Assertion* rule) { return holds_for(*rule, values); });
  }));
}

// True if the rule of the only symbol of a relation was reported instead, once for each.
bool Shapes::report_rule(const Assertion& fact, std::span<const int64_t> symbols,
                         const std::string& where, std::vector<bool>* reported,
                         std::vector<Status>* wrong) const {
  const auto symbol = only_symbol(fact);
  if (!symbol) return false;
  if ((*reported)[*symbol]) return true;
  const std::string rule = rule_of(*symbol);
  if (rule.empty()) return false;
  (*reported)[*symbol] = true;
  wrong->push_back(error(TENON_INVALID_ARGUMENT, "T0607", "the dim {} must be {}, and is {}{}",
                         quoted(sym_text(reader().symbol(*symbol).name)), rule, symbols[*symbol],
                         where));
  return true;
}

void Shapes::check_assertion(const Assertion& fact, std::span<const int64_t> symbols,
                             std::vector<bool>* reported, std::vector<Status>* wrong) const {
  int64_t a = 0, b = 0;
  const auto where = [&] {
    const std::string text = place_text(fact.loc);
    return text.empty() ? culprit_for(symbols).relating(fact.a, fact.b) : text;
  };
  if (api_->dim_evaluate(api_->self, graph_, fact.a, symbols.data(), symbol_limit_, &a) !=
          TENON_OK ||
      api_->dim_evaluate(api_->self, graph_, fact.b, symbols.data(), symbol_limit_, &b) !=
          TENON_OK) {
    clear_failure();
    wrong->push_back(error(TENON_INVALID_ARGUMENT, "T0608",
                           "{} or {} cannot be computed for these inputs{}",
                           dim_text(graph_, fact.a), dim_text(graph_, fact.b), where()));
  } else if (!ir::relation_holds(fact.rel, a, b) &&
             !report_rule(fact, symbols, where(), reported, wrong)) {
    wrong->push_back(error(TENON_INVALID_ARGUMENT, "T0607",
                           "the model needs {} {} {}, and these inputs give {} and {}{}",
                           dim_text(graph_, fact.a), rel_text(fact.rel), dim_text(graph_, fact.b),
                           a, b, where()));
  }
}

Status Shapes::check_set(std::span<const tenon_symbol_t> now, const std::vector<bool>& set,
                         std::span<const int64_t> symbols) const {
  std::vector<bool> bound = of_inputs_, fresh(symbol_limit_);
  for (uint32_t s = 0; s < symbol_limit_; ++s) bound[s] = bound[s] || set[s];
  for (tenon_symbol_t s : now) fresh[s] = true;
  std::vector<Status> wrong;
  check_symbols(fresh, symbols, &wrong);
  std::vector<bool> in_words(symbol_limit_);
  for (const Assertion& fact : assertions_) {
    if (!known(fact.a, bound) || !known(fact.b, bound)) continue;
    std::vector<bool> mentioned(symbol_limit_);
    add_symbols(reader(), fact.a, &mentioned);
    add_symbols(reader(), fact.b, &mentioned);
    bool concerned = false;
    for (uint32_t s = 0; s < symbol_limit_; ++s)
      concerned = concerned || (mentioned[s] && fresh[s]);
    if (concerned) check_assertion(fact, symbols, &in_words, &wrong);
  }
  return joined(wrong);
}

Status Shapes::evaluate(std::span<const tenon_dim_t> dims, std::span<const int64_t> symbols,
                        std::vector<int64_t>* out) const {
  out->resize(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] >= 0) {
      (*out)[i] = dims[i];
      continue;
    }
    TENON_RETURN_IF_ERROR(
        from_abi(api_->dim_evaluate(api_->self, graph_, dims[i], symbols.data(),
                                    static_cast<uint32_t>(symbols.size()), &(*out)[i]),
                 "dim_evaluate"));
    if ((*out)[i] < 0) {
      return error(TENON_INVALID_ARGUMENT, "T0608", "dim {} comes out as {} for these inputs{}",
                   dim_text(graph_, dims[i]), (*out)[i], culprit_for(symbols).negative());
    }
  }
  return {};
}

}  // namespace tenon::runtime
