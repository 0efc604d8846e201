// Level 2 of kernelgen, run: a loop tree on typed memory, without a printer or a compiler. Each
// lane has a value and whether it is known; memory has a shadow that tells who stored an element
// and who loaded it.
//
// It reports, with what the tree was doing: loads and stores outside of a buffer, of scratch, of a
// local or shared array; branches, addresses, masks and results that follow from what nobody stored
// (padding may be loaded, not used); elements that one item of the range stores and another stores
// or loads; in groups of work items, what two items do with one element without a barrier between
// them, and barriers that not all items reach; elements of results that are stored twice by one
// item, unless the kernel keeps other values there for a while.
//
// The range is cut into pieces that run in any order, each with poisoned scratch of its own.
// Scratch that one item of the range leaves behind is unknown to the next.
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
  bool opencl = false;  // a work item for each item of the range, or a group (LoopTree::together)
  std::vector<bool> rewritten;  // by buffer of the kernel: one item may store an element again
};

// `memory`: by buffer of the kernel, those that the tree names; two may be one (a result in the
// place of an operand). Elements that are stored get `names` and `point`.
void run_tree(const kernelgen::LoopTree& tree, std::span<const int64_t> extents,
              std::span<Memory* const> memory, std::span<const Name> names, uint32_t point,
              const TreeOptions& options, Report* report);

}  // namespace tenon::interpreter
