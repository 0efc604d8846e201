// Runs the loop IR of kernelgen, a loop tree, on typed memory, without a printer or a compiler.
// Each lane has a value and whether it is known; memory has a shadow that records who stored and
// who loaded each element.
//
// It reports, with the operation of the tree: loads and stores outside a buffer, scratch, a local
// or a shared array; branches, addresses, masks and results that depend on memory that was never
// stored (padding may be loaded, not used); elements that one item of the range stores and another
// stores or loads; in groups of work items, conflicting accesses of two items without a barrier
// between them, and barriers that not all items reach; elements of results that one item stores
// twice, unless the kernel keeps other values there for a while.
//
// The range is split into pieces that run in any order, each with poisoned scratch of its own.
// Scratch that one item of the range leaves is unknown to the next.
//
// Threads: one run, one thread.
#pragma once
#include <span>
#include <string>
#include <vector>

#include <tenon/kernelgen/loops/loop_ir.h>

#include "tests/interpreter/memory.h"

namespace tenon::interpreter {

struct TreeOptions {
  uint64_t order = 0;  // of the pieces
  int64_t pieces = 3;
  bool opencl = false;  // a work item, or a group, for each item of the range (LoopTree::together)
  std::vector<bool> rewritten;  // by buffer of the kernel: one item may store an element again
};

// `memory`: by buffer of the kernel, those that the tree uses; two may be the same (a result in
// place of an operand). Stored elements get `names` and `point`.
void run_tree(const kernelgen::LoopTree& tree, std::span<const int64_t> extents,
              std::span<Memory* const> memory, std::span<const Name> names, uint32_t point,
              const TreeOptions& options, Report* report);

}  // namespace tenon::interpreter
