// The single steps of fusion, for tests, and what the steps share. Internal to kernelgen.
#ifndef TENON_KERNELGEN_FUSE_FUSE_INTERNAL_H_
#define TENON_KERNELGEN_FUSE_FUSE_INTERNAL_H_

#include <vector>

#include "tenon/kernelgen/ir/stages.h"
#include "tenon/kernelgen/ir/target.h"

namespace tenon::kernelgen {

// Whether a stage computes element by element on the result of a contraction, directly or through
// other such stages (of_contraction, by buffer). It then belongs to the contraction's epilogue.
bool in_epilogue(const Kernel& k, const Stage& s, const std::vector<bool>& of_contraction);

// Producers store in the place and order that their consumers read (fuse_views.cpp). First step of
// inline_maps.
void place_stores(Kernel& program);
// Operands of concats, pads and updates are written into their part of the result (fuse_parts.cpp).
// Last step of lay_out. From here on a buffer may have several writers; except for overlays, each
// writes elements of its own.
void place_parts(Kernel& program, const Target& target);
// Sums over short groups of a contiguous axis, and over axes outside it, run in vectors along that
// axis (strided_reduce.cpp). Runs in lay_out once the memory order is known.
void vectorise_strided_reductions(Kernel& program, const Target& target);
// Few huge rows are reduced in chunks (split_reduce.cpp). Runs in lay_out before place_parts.
void split_reductions(Kernel& program, const Target& target);

}  // namespace tenon::kernelgen
#endif
