// The printers: loop trees to text. They decide nothing. Internal to kernelgen.
#ifndef TENON_KERNELGEN_PRINT_PRINT_H_
#define TENON_KERNELGEN_PRINT_PRINT_H_

#include <string>

#include "tenon/kernelgen/loops/loop_ir.h"
#include "tenon/kernelgen/print/prelude.h"

namespace tenon::kernelgen {

std::string print(const LoopTree& tree, Dialect dialect, Prelude& prelude);

}  // namespace tenon::kernelgen
#endif
