// The stage IR of kernelgen, run: a program before fusion or one kernel after it, on memory with
// shadow state, exactly as ir.h says what its stages mean. Each expression is computed in its own
// type with the reference's own arithmetic.
//
// It reports, with the stage and the buffer: elements that are loaded although nobody stored them,
// or although another value lies there by now (a temp in the memory of an output, an operand that a
// result took the place of); loads and stores outside of a buffer; elements that are stored twice;
// what one point of the lead axes loads or stores of another's; axes that no loop or two loops run
// along.
//
// A kernel runs as devices run it: the points of its lead axes in any order, all stages at each,
// temps private to the point. Sums are split into tuples that meet by `merge`.
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
  uint64_t order = 0;         // of the lead points: 0 as they come, else shuffled by this number
  uint32_t partials = 1;      // tuples of states that meet in one sum
  uint32_t* clock = nullptr;  // numbers lead points; one for all kernels that share memory
};

// What a buffer of the kernel is during one run.
struct Place {
  Memory* memory = nullptr;  // null: a temp of its own, which the interpreter makes
  Name name = kNobody;
  bool rewritten = false;  // its elements may be stored again (an overlay, a scatter)
};

// Places of a program's buffers in `memory`, by buffer; temps are the interpreter's own.
std::vector<Place> places_of_program(const kernelgen::Kernel& program, std::vector<Memory>* memory);
// Memory for each buffer that is no temp: unwritten.
std::vector<Memory> memory_of_program(const kernelgen::Kernel& program,
                                      std::span<const int64_t> extents);
int64_t element_count(const kernelgen::Kernel& kernel, uint32_t buffer,
                      std::span<const int64_t> extents);

// Runs all stages in order at each point of the lead axes.
void run_stages(const kernelgen::Kernel& kernel, std::span<const int64_t> extents,
                std::span<const Place> places, const RunOptions& options, Report* report);
// The same kernel as prepare() gives it: stages of a pass share loops, point by point. Reports too
// what a point of such loops loads or overwrites of another's, since the loops' order is free.
void run_prepared(const kernelgen::Prepared& prepared, std::span<const int64_t> extents,
                  std::span<const Place> places, const RunOptions& options, Report* report);

}  // namespace tenon::interpreter
