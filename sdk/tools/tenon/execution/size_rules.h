// What a model needs of its symbolic sizes (tenon.host.facts/1): whether given ones satisfy it, and
// sizes for random inputs that do.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <tenon/abi/facts.h>

#include "sdk/tools/tenon/host/host.h"

namespace tenon::tools {

class SizeRules {
 public:
  // Reads the relations of a graph. The graph outlives this.
  SizeRules(const Host& host, tenon_graph_t* graph, uint32_t symbol_limit);

  using Sizes = std::map<tenon_symbol_t, int64_t>;
  // Chooses sizes for `free` symbols, from what they are now on, so that the relations among known
  // sizes hold. Where none of the tried ones does, they stay as they are.
  void choose(const std::vector<tenon_symbol_t>& free, Sizes* sizes) const;
  // The first size that breaks a rule that concerns it alone, with the rule in words: "a multiple
  // of 32". Nothing if all hold, or no words say it.
  struct Broken {
    tenon_symbol_t symbol;
    int64_t size;
    std::string rule, place;  // place: the node that needs it, or empty
  };
  std::optional<Broken> broken(const Sizes& sizes) const;

 private:
  struct Rule {
    uint32_t relation;
    tenon_loc_t place;
    tenon_dim_t a, b;
    std::vector<tenon_symbol_t> symbols;
  };
  void add_symbols(tenon_dim_t dim, std::vector<tenon_symbol_t>* out) const;
  bool holds(const Rule& rule, const Sizes& sizes) const;
  std::string place_of(const Rule& rule) const;
  bool allows(tenon_symbol_t symbol, int64_t size) const;
  bool alone(const Rule& rule, tenon_symbol_t symbol) const;
  size_t violations(tenon_symbol_t symbol, const Sizes& sizes) const;
  bool improve(tenon_symbol_t symbol, int64_t least, Sizes* sizes) const;

  const Host& host_;
  tenon_graph_t* graph_;
  uint32_t symbol_limit_;
  std::vector<Rule> rules_;
};

}  // namespace tenon::tools
