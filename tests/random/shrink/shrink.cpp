#include "tests/random/shrink/shrink.h"

#include <algorithm>

#include "tests/random/shrink/rebuild.h"

namespace tenon::random_tests {
namespace {

constexpr int kTriesMax = 600;

// The step that failed; empty for a wrong result.
std::string step_of(const std::string& problem) {
  if (problem.find(" instead of ") != std::string::npos) return "";
  return problem.substr(0, problem.find(':'));
}

class Shrinker {
 public:
  Shrinker(Generated generated, const Runner& runner, std::string* problem)
      : best_(std::move(generated)), runner_(runner), problem_(*problem), step_(step_of(*problem)) {
    refresh();
  }

  Generated run() {
    // Edits that remove most come first. After each success, all of them are tried again.
    while (bindings() || outputs() || inputs() || earlier() || shortcuts() || symbols() ||
           extents())
      continue;
    return std::move(best_);
  }

 private:
  // Keeps the edited graph if it still fails.
  bool keep_if_failing(const Edit& edit) {
    if (++tries_ > kTriesMax) return false;
    Generated smaller;
    if (!rebuild(best_, values_, edit, &smaller)) return false;
    const std::string found = runner_(smaller);
    if (found.empty() || step_of(found) != step_) return false;
    best_ = std::move(smaller);
    problem_ = found;
    refresh();
    return true;
  }
  void refresh() {
    values_.clear();
    known_ = evaluate(&best_, &values_).empty();
  }

  Edit edit() const { return unchanged(best_); }
  std::vector<Node> nodes() const { return main_region(best_.graph.get()).nodes(); }

  bool bindings() {
    if (!known_ || best_.bindings.size() == 1) return false;
    for (size_t b = 0; b < best_.bindings.size(); ++b) {
      Edit one = edit();
      one.bindings = {b};
      if (keep_if_failing(one)) return true;
    }
    return false;
  }

  bool outputs() {
    if (!known_ || best_.outputs.size() == 1) return false;
    for (size_t i = 0; i < best_.outputs.size(); ++i) {
      Edit one = edit();
      one.outputs = {i};
      if (keep_if_failing(one)) return true;
    }
    for (size_t i = 0; i < best_.outputs.size(); ++i) {
      Edit without = edit();
      without.outputs.erase(without.outputs.begin() + static_cast<std::ptrdiff_t>(i));
      if (keep_if_failing(without)) return true;
    }
    return false;
  }

  // Later results first: replacing them by inputs makes more nodes useless.
  bool inputs() {
    const std::vector<Node> all = nodes();
    for (size_t i = all.size(); i-- > 0 && known_;) {
      for (uint32_t r = 0; r < all[i].result_count(); ++r) {
        if (all[i].result(r).use_count() == 0) continue;
        Edit one = edit();
        one.inputs = {all[i].result(r).id()};
        if (keep_if_failing(one)) return true;
      }
    }
    return false;
  }

  // Replaces an output by an operand of its last node.
  bool earlier() {
    const std::vector<Value> yields = main_region(best_.graph.get()).yields();
    for (size_t i = 0; i < yields.size(); ++i) {
      if (!yields[i].node().valid()) continue;
      for (const Value operand : yields[i].node().operands()) {
        if (!known_ || !operand.valid() || !operand.node().valid()) continue;
        Edit one = edit();
        one.earlier = {{i, operand.id()}};
        if (keep_if_failing(one)) return true;
      }
    }
    return false;
  }

  // Replaces a result by an operand.
  bool shortcuts() {
    for (const Node& node : nodes()) {
      for (const Value operand : node.operands()) {
        if (!known_ || !operand.valid() || !(operand.type() == node.result().type())) continue;
        Edit one = edit();
        one.replaced = {{node.result().id(), operand.id()}};
        if (keep_if_failing(one)) return true;
      }
    }
    return false;
  }

  bool symbols() {
    const tenon_region_view_t main = main_region(best_.graph.get()).view();
    if (!known_ || best_.bindings.size() != 1) return false;
    for (uint32_t i = 0; i < main.symbol_count; ++i) {
      Edit one = edit();
      one.fixed = {main.symbols[i]};
      if (keep_if_failing(one)) return true;
    }
    return false;
  }

  bool extents() {
    std::set<int64_t, std::greater<>> found;
    for (const Value argument : main_region(best_.graph.get()).arguments()) {
      for (const Dim dim : argument.dims()) {
        if (dim.is_constant() && dim.constant() > 1) found.insert(dim.constant());
      }
    }
    for (const int64_t from : found) {
      for (const int64_t to : {int64_t{1}, int64_t{2}, int64_t{3}}) {
        for (const bool multiples : {false, true}) {
          Edit one = edit();
          one.from = from;
          one.to = to;
          one.multiples = multiples;
          if (known_ && to < from && keep_if_failing(one)) return true;
        }
      }
    }
    return false;
  }

  Generated best_;
  const Runner& runner_;
  std::string& problem_;
  const std::string step_;
  std::vector<Values> values_;
  bool known_ = false;  // contents of every value
  int tries_ = 0;
};

}  // namespace

Generated shrink(Generated generated, const Runner& runner, std::string* problem) {
  return Shrinker(std::move(generated), runner, problem).run();
}

}  // namespace tenon::random_tests
