// Fusion, from stage IR to stage IR: which stages run together.
//
// inline_maps: a Map that only moves data, is cheap, or is used once is inlined into its consumers.
// If the replaced load has a guard, every load in the inlined value gets it too. partition: stages,
// in order, join the kernel of their producers if they share lead axes (softmax is one kernel, and
// so is layer norm), and element-wise stages join the Contract that they follow. A join never makes
// a row larger than half of L2 or a kernel of more than 24 buffers, and never crosses a
// data-dependent extent. A stage that writes a persistent buffer is a kernel of its own.
#ifndef TENON_KERNELGEN_FUSE_FUSE_H_
#define TENON_KERNELGEN_FUSE_FUSE_H_

#include <span>
#include <vector>

#include "tenon/kernelgen/ir/ir.h"
#include "tenon/kernelgen/ir/target.h"
#include "tenon/kernelgen/verify/verify_memory.h"

namespace tenon::kernelgen {

// In these functions the verifier (may be null) checks the result of each step. A step that breaks
// a rule is undone.

void inline_maps(Kernel& program, Verifier* verifier = nullptr);

// Runs inline_maps, then chooses the memory order of temps and of packed operands (layout.h), cuts
// huge rows into chunks, and makes operands of concats, pads and updates views of their result. May
// add buffers and stages; afterwards a buffer may have several writers.
void lay_out(Kernel& program, const Target& target, Verifier* verifier = nullptr);

// Splits the result of lay_out into kernels, in an order that respects data dependences. Temps that
// one kernel writes and another reads become Out and In of these kernels: the caller gives them
// memory (Kernel::buffer_origin has their ids in the program). If the joint kernel of some stages
// breaks a rule, they become kernels of their own; if a single stage breaks one, `verifier->error`
// is set.
std::vector<Kernel> split(Kernel program, const Target& target, Verifier* verifier = nullptr);

// A kernel, and how many stages split() joined in it. A contraction has its epilogue in one stage.
struct Split {
  Kernel kernel;
  uint32_t joined = 1;
};

// As split(). Kernels whose hash is in `apart` become kernels of single stages: no code could be
// generated for them.
std::vector<Split> split_kernels(Kernel program, const Target& target, Verifier* verifier,
                                 std::span<const Hash128> apart);

// lay_out and split.
std::vector<Kernel> partition(Kernel program, const Target& target, Verifier* verifier = nullptr);

}  // namespace tenon::kernelgen
#endif
