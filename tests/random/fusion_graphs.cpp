#include "tests/random/fusion_graphs.h"

#include "tests/random/fusion_moves.h"

namespace tenon::random_tests {
namespace {

struct Choice {
  void (*move)(GraphMaker&);
  int weight;
};
constexpr Choice kChoices[] = {{unary, 16},  {binary, 22}, {chain, 6},   {where, 7},     {cast, 10},    {reduce, 10},
                               {reduce_and_back, 14},      {softmax, 5}, {running, 3},   {norm, 3},     {order, 3},
                               {product, 4}, {window, 3},  {grow, 4},    {transpose, 6}, {reshape, 6},  {slice, 6},
                               {pad, 4},     {concat, 6},  {split, 2},   {repeat, 3},    {triangle, 2}, {indexed, 5},
                               {counted, 1}};

constexpr int total() {
  int sum = 0;
  for (const Choice& choice : kChoices) sum += choice.weight;
  return sum;
}

void move(GraphMaker& make) {
  auto left = make.below(total());
  for (const Choice& choice : kChoices) {
    if ((left -= choice.weight) < 0) return choice.move(make);
  }
}

Status make_graph(uint64_t seed, bool symbolic, Generated* out, bool* holds) {
  GraphMaker make(seed);
  TENON_TRY(make.begin(symbolic && make.chance(4)));
  const auto wanted = static_cast<uint64_t>(3 + make.below(8));
  for (int tries = 0; tries < 60 && make.nodes() < wanted; ++tries) move(make);
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
  // An op asserted what the sizes of the symbols break; such facts stay, so the graph is made without symbols.
  *out = Generated();
  return make_graph(seed, false, out, &holds);
}

}  // namespace tenon::random_tests
