// The printers: loop trees to text. They decide nothing. Internal to kernelgen.
#ifndef TENON_KERNELGEN_PRINT_PRINT_H_
#define TENON_KERNELGEN_PRINT_PRINT_H_

#include <string>

#include "tenon/kernelgen/loops/loop_ir.h"
#include "tenon/kernelgen/print/prelude.h"

namespace tenon::kernelgen {

std::string print(const LoopTree& tree, Dialect dialect, Prelude& prelude);

// Why the text of some expression needs f64, where the target has none; empty if no text does. The
// functions of some ops on narrower types compute in f64.
std::string needs_f64(const Pool& pool, const Target& target);

}  // namespace tenon::kernelgen
#endif
