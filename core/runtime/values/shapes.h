// Concrete sizes from the caller's arrays: checks inputs against a graph's arguments, solves the
// symbols of its main region, and evaluates dims. All errors in the inputs are reported at once.
//
// Threads: const after create; safe.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tenon/abi/graph.h>

#include "core/base/errors/status.h"
#include "core/runtime/values/culprit.h"
#include "core/runtime/values/views.h"

namespace tenon::runtime {

// A relation that holds at every run (symbol_assert).
struct Assertion {
  uint32_t rel = TENON_REL_EQ;
  tenon_dim_t a = 0, b = 0;
  tenon_loc_t loc = 0;  // the location that needs it; 0: looked up when it does not hold
};

// The locations that need the least value, the largest value and the divisor of a symbol; 0 as
// above.
struct BoundPlaces {
  tenon_loc_t lo = 0, hi = 0, multiple_of = 0;
};

struct Port {
  std::string name;
  tenon_value_t value = TENON_NONE;
  tenon_dtype_t dtype = TENON_DTYPE_NONE;
  std::vector<tenon_dim_t> dims;
  std::vector<std::string> dim_texts;
};

class Shapes {
 public:
  // Reads the ports of a frozen graph, which must outlive this. assertions: all of the graph's.
  // bounds: by symbol, or none.
  static Result<Shapes> create(const tenon_host_graph_t& api, tenon_graph_t* graph,
                               std::vector<Assertion> assertions,
                               std::vector<BoundPlaces> bounds = {});

  // The same from records. `graph` has the symbols and dims, which it keeps, and need have no
  // nodes.
  struct Parts {
    std::vector<Port> inputs, outputs;      // without values and texts of dims
    std::vector<tenon_symbol_t> of_inputs;  // those that the caller's arrays bring
    std::vector<Assertion> assertions;
    std::vector<BoundPlaces> bounds;
    std::shared_ptr<const Blame> blame;  // in place of the graph's nodes and locations
  };
  static Shapes restore(const tenon_host_graph_t& api, tenon_graph_t* graph, Parts parts);

  const std::vector<Assertion>& assertions() const { return assertions_; }
  const std::vector<BoundPlaces>& bounds() const { return bounds_; }
  const std::vector<Port>& inputs() const { return inputs_; }
  const std::vector<Port>& outputs() const { return outputs_; }
  // The index of the first port of that name.
  std::optional<uint32_t> input(std::string_view name) const;
  std::optional<uint32_t> output(std::string_view name) const;
  uint32_t symbol_limit() const { return symbol_limit_; }

  // Checks the type of one input by itself: dtype, rank, constant dims. T0603, T0604, T0605.
  Status check_type(uint32_t input, tenon_dtype_t dtype, std::span<const int64_t> dims) const;
  // The same and data and strides. T0603, T0604, T0605, T0613.
  Status check_input(uint32_t input, const tenon_array_t& array) const;
  // A symbol of the main region. T0602 if there is none of that name.
  Result<tenon_symbol_t> size_symbol(std::string_view name) const;
  struct Given {
    tenon_symbol_t symbol;
    int64_t value;
  };
  // Values of all symbols that inputs determine or that are given (others 0), one per symbol index.
  // `dims[i]` are the dims of input i. needed: symbols without which nothing can be run. T0605,
  // T0606, T0607, T0608, T0623: one status naming every disagreement.
  Status solve(std::span<const std::span<const int64_t>> dims, std::span<const Given> given,
               std::span<const tenon_symbol_t> needed, std::vector<int64_t>* out_symbols) const;
  // Checks assertions about the symbols `now` that a step has set, as far as inputs and steps have
  // set the other symbols. T0607, T0608.
  Status check_set(std::span<const tenon_symbol_t> now, const std::vector<bool>& set,
                   std::span<const int64_t> symbols) const;
  // Concrete dims; T0110 or T0608 if the arithmetic fails or a dim is negative.
  Status evaluate(std::span<const tenon_dim_t> dims, std::span<const int64_t> symbols,
                  std::vector<int64_t>* out) const;

 private:
  GraphReader reader() const { return {api_, graph_}; }
  Culprit culprit_for(std::span<const int64_t> symbols) const {
    return {reader(), blame_.get(), symbols};
  }
  std::string place_text(tenon_loc_t loc) const { return at_place(reader(), blame_.get(), loc); }
  void index_names();
  Result<Port> read_port(tenon_value_t value, std::string name) const;
  bool known(tenon_dim_t dim, const std::vector<bool>& bound) const;
  bool invert(tenon_dim_t dim, int64_t target, std::vector<bool>* bound,
              std::vector<int64_t>* symbols) const;
  void check_symbols(const std::vector<bool>& bound, std::span<const int64_t> symbols,
                     std::vector<Status>* wrong) const;
  std::optional<tenon_symbol_t> only_symbol(const Assertion& fact) const;
  bool holds_for(const Assertion& fact, std::span<const int64_t> symbols) const;
  std::string rule_of(tenon_symbol_t symbol) const;
  bool report_rule(const Assertion& fact, std::span<const int64_t> symbols,
                   const std::string& where, std::vector<bool>* reported,
                   std::vector<Status>* wrong) const;
  // reported: symbols whose rules were reported already.
  void check_assertion(const Assertion& fact, std::span<const int64_t> symbols,
                       std::vector<bool>* reported, std::vector<Status>* wrong) const;

  const tenon_host_graph_t* api_ = nullptr;
  tenon_graph_t* graph_ = nullptr;
  uint32_t symbol_limit_ = 0;
  std::vector<Port> inputs_, outputs_;
  using PlaceByName =
      std::map<std::string, uint32_t, std::less<>>;  // graphs have tens of thousands of outputs
  PlaceByName input_by_name_, output_by_name_;
  std::vector<bool> of_inputs_;  // by symbol: belongs to the main region
  std::vector<Assertion> assertions_;
  std::vector<BoundPlaces> bounds_;
  std::shared_ptr<const Blame> blame_;  // null: the graph has nodes and locations
};

}  // namespace tenon::runtime
