// Makes a kernel independent of its sizes, so that one entry in a cache of single operators serves
// every shape and rank.
#ifndef TENON_KERNELGEN_IR_GENERAL_H_
#define TENON_KERNELGEN_IR_GENERAL_H_

#include <vector>

#include "tenon/kernelgen/ir/ir.h"

namespace tenon::kernelgen {

struct General {
  Kernel kernel;  // buffer_origin: numbers in the original kernel
  // By extent of `kernel`: that extent as a program over the extents of the original kernel.
  std::vector<SizeProgram> sizes;
  // The original knew nothing of its sizes either, so this kernel is no slower.
  bool was_open = false;
};

// Replaces every size of `kernel` by an extent of which nothing is known. Neighbouring axes that
// every access traverses as one are merged, and dims of 1 are dropped, so an element-wise kernel is
// the same for every rank. Sizes used in values (the divisor of a mean) stay as they are. False for
// kernels whose form follows from their sizes: operands in panels, attention.
bool generalise(const Kernel& kernel, General* out);

}  // namespace tenon::kernelgen
#endif
