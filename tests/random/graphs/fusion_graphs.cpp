#include "tests/random/graphs/fusion_graphs.h"

#include "tests/random/graphs/fusion_moves.h"

namespace tenon::random_tests {
namespace {

struct Choice {
  void (*move)(GraphMaker&);
  int weight;
};
constexpr Choice kChoices[] = {
    {unary, 16},    {binary, 22},          {chain, 6},    {where, 7},   {cast, 10},
    {reduce, 10},   {reduce_and_back, 14}, {softmax, 5},  {running, 3}, {norm, 3},
    {order, 3},     {product, 4},          {few_bits, 3}, {window, 3},  {grow, 4},
    {transpose, 6}, {reshape, 6},          {slice, 6},    {pad, 4},     {concat, 6},
    {split, 2},     {repeat, 3},           {triangle, 2}, {indexed, 5}, {counted, 1},
    {parts, 4}};

// Each graph favours some moves and excludes others: failures of combinations are more likely than
// if all graphs were alike.
class Moves {
 public:
  explicit Moves(GraphMaker& make) : make_(make) {
    static const std::vector<int> kFavour = {0, 0, 1, 1, 1, 4};
    for (const Choice& choice : kChoices) {
      weights_.push_back(choice.weight * make.pick(kFavour));
      total_ += weights_.back();
    }
  }
  void next() {
    if (total_ == 0) return unary(make_);
    int64_t left = make_.below(total_);
    for (size_t i = 0; i < weights_.size(); ++i) {
      if ((left -= weights_[i]) < 0) return kChoices[i].move(make_);
    }
  }

 private:
  GraphMaker& make_;
  std::vector<int> weights_;
  int total_ = 0;
};

Status make_graph(uint64_t seed, bool symbolic, Generated* out, bool* holds) {
  GraphMaker make(seed);
  TENON_TRY(make.begin(symbolic && make.chance(4)));
  const auto wanted = static_cast<uint64_t>(3 + make.below(8));
  Moves moves(make);
  for (int tries = 0; tries < 60 && make.nodes() < wanted; ++tries) moves.next();
  static const std::vector<int64_t> kOthers = {0, 4, 2, 2, 1};
  *holds = make.bindings_hold();
  out->seed = seed;
  return make.end(make.pick(kOthers), out);
}

}  // namespace

Status fusion_graph(uint64_t seed, Generated* out) {
  bool holds = true;
  TENON_TRY(make_graph(seed, true, out, &holds));
  if (holds) return {};
  // An op asserted something that the sizes of the symbols contradict. Such facts stay, so the
  // graph is made without symbols.
  *out = Generated();
  return make_graph(seed, false, out, &holds);
}

}  // namespace tenon::random_tests
