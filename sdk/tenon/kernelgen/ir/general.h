// The same kernel for any sizes: what a cache of single operators holds, so that one entry serves
// every shape and rank.
#ifndef TENON_KERNELGEN_IR_GENERAL_H_
#define TENON_KERNELGEN_IR_GENERAL_H_

#include <vector>

#include "tenon/kernelgen/ir/ir.h"

namespace tenon::kernelgen {

struct General {
  Kernel kernel;  // buffer_origin: numbers in the kernel it was made from
  std::vector<SizeProgram>
      sizes;              // by extent of `kernel`: over the extents of the kernel it was made from
  bool was_open = false;  // that kernel knew nothing of its sizes either, so this one is no slower
};

// Every size of `kernel` becomes an extent of which nothing is known. Neighbouring axes that all
// memory runs through as if they were one become one, and dims of 1 go, so that an element-wise
// kernel is the same for every rank. Sizes that values are computed with (the divisor of a mean)
// stay as they are. False for kernels whose form follows from their sizes: operands in panels,
// attention.
bool generalise(const Kernel& kernel, General* out);

}  // namespace tenon::kernelgen
#endif
