// Stage IR to stage IR: which stages run together.
//
// inline_maps: a Map that only moves data, is cheap, or is used once disappears into its consumers;
// a guard of the load that is replaced goes with every load it brings. partition: stages in order
// join the kernel of their producers when they share lead axes (softmax is one kernel, layer norm
// is one kernel), and element-wise stages join the Contract they follow. A join never makes a row
// that exceeds half of L2, never more buffers than 24 per kernel, and never crosses a
// data-dependent extent. A stage that writes a persistent buffer is a kernel of its own.
#ifndef TENON_KERNELGEN_FUSE_FUSE_H_
#define TENON_KERNELGEN_FUSE_FUSE_H_

#include <vector>

#include "tenon/kernelgen/ir/ir.h"
#include "tenon/kernelgen/ir/target.h"
#include "tenon/kernelgen/verify/verify_memory.h"

namespace tenon::kernelgen {

// Below, a verifier (may be null) checks what each step made, and a step that broke a rule is taken
// back.

void inline_maps(Kernel& program, Verifier* verifier = nullptr);

// inline_maps, then the order in memory of temps and the packed operands (layout.h), chunks of huge
// rows, and operands of concats, pads and updates as views of their result. May add buffers and
// stages; a buffer may have several writers then.
void lay_out(Kernel& program, const Target& target, Verifier* verifier = nullptr);

// Splits what lay_out gave into kernels, in an order that respects their data. Temps that one
// kernel writes and another reads become Out and In there: the caller gives them memory (program
// buffer ids in Kernel::buffer_origin). Stages whose common kernel breaks a rule become kernels of
// their own; where a single stage does, `verifier->error` says it.
std::vector<Kernel> split(Kernel program, const Target& target, Verifier* verifier = nullptr);

// Both.
std::vector<Kernel> partition(Kernel program, const Target& target, Verifier* verifier = nullptr);

}  // namespace tenon::kernelgen
#endif
