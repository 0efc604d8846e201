// Runs the stage IR of kernelgen, a program before fusion or one kernel after it, on memory with
// shadow state, exactly as ir.h defines its stages. Each expression is computed in its own type
// with the reference's arithmetic.
//
// It reports, with the stage and the buffer: loads of elements that were never stored, or that hold
// another value by now (a temp in the memory of an output, an operand replaced by a result); loads
// and stores outside a buffer; elements that are stored twice; loads and stores of one lead point
// to elements of another; axes with no loop or with two.
//
// A kernel runs as on a device: its lead points in any order, all stages at each, temps private to
// the point. Sums are split into tuples that `merge` combines.
//
// Threads: one interpreter, one thread.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <tenon/kernelgen/schedule/prepare.h>

#include "tests/interpreter/memory.h"
#include "tests/interpreter/stage_code.h"

namespace tenon::interpreter {

struct RunOptions {
  uint64_t order = 0;         // of lead points: 0 for the natural order, else a seed for shuffling
  uint32_t partials = 1;      // number of tuples that are merged in one sum
  uint32_t* clock = nullptr;  // numbers lead points; shared by all kernels that share memory
};

// The role of a buffer of the kernel during one run.
struct Place {
  Memory* memory = nullptr;  // null: a temp, which the interpreter allocates
  Name name = kNotStored;
  bool rewritten = false;  // its elements may be stored again (an overlay, a scatter)
};

// Places of a program's buffers in `memory`, by buffer; the interpreter allocates temps.
std::vector<Place> places_of_program(const kernelgen::Kernel& program, std::vector<Memory>* memory);
// Unwritten memory for each buffer that is not a temp.
std::vector<Memory> memory_of_program(const kernelgen::Kernel& program,
                                      std::span<const int64_t> extents);
int64_t element_count(const kernelgen::Kernel& kernel, uint32_t buffer,
                      std::span<const int64_t> extents);

// Runs all stages in order at each lead point.
void run_stages(const kernelgen::Kernel& kernel, std::span<const int64_t> extents,
                std::span<const Place> places, const RunOptions& options, Report* report);
// Runs the kernel in the form that prepare() returns: stages of a pass share loops, point by point.
// Also reports loads and overwrites of another point's elements within such loops, because their
// order is free.
void run_prepared(const kernelgen::Prepared& prepared, std::span<const int64_t> extents,
                  std::span<const Place> places, const RunOptions& options, Report* report);

}  // namespace tenon::interpreter
