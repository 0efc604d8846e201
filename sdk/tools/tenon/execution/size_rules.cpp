#include "sdk/tools/tenon/execution/size_rules.h"

#include <algorithm>

#include <tenon/cpp/size_rule.hpp>

namespace tenon::tools {

SizeRules::SizeRules(const Host& host, tenon_graph_t* graph, uint32_t symbol_limit)
    : host_(host), graph_(graph), symbol_limit_(symbol_limit) {
  const void* found = nullptr;
  const tenon_str_t id = str(TENON_HOST_FACTS_ID);
  if (host.host->query(host.host->self, id, 0, &found) != TENON_OK) return;
  const auto* facts = static_cast<const tenon_host_facts_t*>(found);
  const uint32_t count = facts->count(facts->self, graph);
  for (uint32_t i = 0; i < count; ++i) {
    Rule rule = {};
    if (facts->fact(facts->self, graph, i, &rule.relation, &rule.a, &rule.b) != TENON_OK) continue;
    rule.place = facts->place(facts->self, graph, i);
    add_symbols(rule.a, &rule.symbols);
    add_symbols(rule.b, &rule.symbols);
    rules_.push_back(std::move(rule));
  }
}

void SizeRules::add_symbols(tenon_dim_t dim, std::vector<tenon_symbol_t>* out) const {
  auto view = sized<tenon_dim_view_t>();
  if (host_.graph->dim_view(host_.graph->self, graph_, dim, &view) != TENON_OK ||
      view.op == TENON_DIM_CONSTANT)
    return;
  if (view.op != TENON_DIM_SYMBOL) {
    add_symbols(view.a, out);
    add_symbols(view.b, out);
  } else if (std::find(out->begin(), out->end(), view.symbol) == out->end()) {
    out->push_back(view.symbol);
  }
}

// Also if a size of it is not known, as the run decides it.
bool SizeRules::holds(const Rule& rule, const Sizes& sizes) const {
  std::vector<int64_t> values(symbol_limit_, 0);
  for (const tenon_symbol_t s : rule.symbols) {
    const auto at = sizes.find(s);
    if (at == sizes.end() || s >= symbol_limit_) return true;
    values[s] = at->second;
  }
  int64_t a = 0, b = 0;
  const auto value = [&](tenon_dim_t dim, int64_t* out) {
    return host_.graph->dim_evaluate(host_.graph->self, graph_, dim, values.data(), symbol_limit_,
                                     out) == TENON_OK;
  };
  if (!value(rule.a, &a) || !value(rule.b, &b)) return false;
  switch (rule.relation) {
    case TENON_REL_EQ:
      return a == b;
    case TENON_REL_LT:
      return a < b;
    case TENON_REL_LE:
      return a <= b;
    default:
      return b != 0 && a % b == 0;
  }
}

bool SizeRules::alone(const Rule& rule, tenon_symbol_t symbol) const {
  return rule.symbols.size() == 1 && rule.symbols[0] == symbol;
}

size_t SizeRules::violations(tenon_symbol_t symbol, const Sizes& sizes) const {
  size_t count = 0;
  for (const Rule& rule : rules_) {
    const bool concerned =
        std::find(rule.symbols.begin(), rule.symbols.end(), symbol) != rule.symbols.end();
    count += concerned && !holds(rule, sizes) ? 1 : 0;
  }
  return count;
}

// Takes the smallest size with the fewest broken rules. True if that changed it.
bool SizeRules::improve(tenon_symbol_t symbol, int64_t least, Sizes* sizes) const {
  auto view = sized<tenon_symbol_view_t>();
  if (host_.graph->symbol_view(host_.graph->self, graph_, symbol, &view) != TENON_OK) return false;
  int64_t& size = (*sizes)[symbol];
  const int64_t before = size, step = std::max<int64_t>(view.multiple_of, 1);
  size_t fewest = violations(symbol, *sizes);
  int64_t best = before;
  for (int64_t at = least; fewest > 0 && at <= std::min(view.hi, size_rule::kMost); at += step) {
    size = at;
    const size_t broken = violations(symbol, *sizes);
    if (broken < fewest) {
      fewest = broken;
      best = at;
    }
  }
  size = best;
  return best != before;
}

void SizeRules::choose(const std::vector<tenon_symbol_t>& free, Sizes* sizes) const {
  constexpr int kRounds = 4;  // sizes that depend on each other settle in fewer
  const Sizes likely = *sizes;
  bool changed = true;
  for (int round = 0; round < kRounds && changed; ++round) {
    changed = false;
    for (const tenon_symbol_t s : free) changed |= improve(s, likely.at(s), sizes);
  }
}

// By the rules that concern it alone.
bool SizeRules::allows(tenon_symbol_t symbol, int64_t size) const {
  const Sizes one = {{symbol, size}};
  return std::all_of(rules_.begin(), rules_.end(),
                     [&](const Rule& r) { return !alone(r, symbol) || holds(r, one); });
}

std::string SizeRules::place_of(const Rule& rule) const {
  Text text;
  const tenon_sink_t sink = text.sink();
  if (rule.place == 0 ||
      host_.graph->loc_text(host_.graph->self, graph_, rule.place, &sink) != TENON_OK)
    return {};
  return text.text;
}

std::optional<SizeRules::Broken> SizeRules::broken(const Sizes& sizes) const {
  for (const Rule& rule : rules_) {
    if (rule.symbols.size() != 1 || holds(rule, sizes)) continue;
    const tenon_symbol_t symbol = rule.symbols[0];
    const std::string words =
        size_rule::words(size_rule::sizes([&](int64_t at) { return allows(symbol, at); }));
    if (!words.empty()) return Broken{symbol, sizes.at(symbol), words, place_of(rule)};
  }
  return std::nullopt;
}

}  // namespace tenon::tools
