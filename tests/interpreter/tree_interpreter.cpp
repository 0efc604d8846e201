#include "tests/interpreter/tree_interpreter.h"

#include <algorithm>
#include <numeric>

#include "tests/interpreter/tree_run.h"

namespace tenon::interpreter {
namespace {

// One buffer for each distinct memory; buffer_of: by argument.
std::vector<TreeBuffer> buffers_of(const kernelgen::LoopTree& tree, std::span<Memory* const> memory,
                                   const TreeOptions& options, std::vector<uint32_t>* buffer_of) {
  std::vector<TreeBuffer> out;
  std::vector<const Memory*> known;
  for (const kernelgen::LoopTree::Argument& a : tree.buffers) {
    const Memory& m = *memory[a.buffer];
    const auto at = static_cast<uint32_t>(std::ranges::find(known, &m) - known.begin());
    buffer_of->push_back(at);
    if (at == known.size()) {
      known.push_back(&m);
      TreeBuffer& b = out.emplace_back();
      b.type = a.type;
      for (const Cell& c : m.cells) b.elements.push_back({c.value, c.name != kNotStored});
      b.stored.resize(b.elements.size());
    }
    TreeBuffer& b = out[at];
    b.written = b.written || a.written;
    b.rewritten =
        b.rewritten || (a.buffer < options.rewritten.size() && options.rewritten[a.buffer]);
    if (b.written && b.touches.empty()) b.touches.reset(b.elements.size());
  }
  return out;
}

std::vector<int64_t> shuffled(int64_t n, uint64_t seed) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  uint64_t x = seed * 0x9e3779b97f4a7c15ull + 1;
  for (size_t i = order.size(); i > 1; --i) {
    x = x * 6364136223846793005ull + 1442695040888963407ull;
    std::swap(order[i - 1], order[(x >> 33) % i]);
  }
  return order;
}

}  // namespace

void run_tree(const kernelgen::LoopTree& tree, std::span<const int64_t> extents,
              std::span<Memory* const> memory, std::span<const Name> names, uint32_t point,
              const TreeOptions& options, Report* report) {
  std::vector<TreeStep> steps;
  std::string why;
  if (!make_steps(tree, tree.body, &steps, &why)) return report->add(why);
  std::vector<uint32_t> buffer_of;
  std::vector<TreeBuffer> buffers = buffers_of(tree, memory, options, &buffer_of);
  TreeRun run(tree, steps, extents, options, &buffers, buffer_of, report);
  const int64_t range = tree.range.evaluate(extents);
  const int64_t pieces =
      options.opencl ? range : std::min(range, std::max<int64_t>(1, options.pieces));
  for (int64_t p : shuffled(pieces, options.order)) {
    if (report->full()) break;
    run.call(range * p / pieces, range * (p + 1) / pieces);
  }
  for (size_t i = 0; i < tree.buffers.size(); ++i) {
    const uint32_t b = tree.buffers[i].buffer;
    const TreeBuffer& from = buffers[buffer_of[i]];
    for (size_t e = 0; tree.buffers[i].written && e < from.stored.size(); ++e) {
      if (from.stored[e]) memory[b]->cells[e] = {from.elements[e].value, point, names[b]};
    }
  }
}

}  // namespace tenon::interpreter
