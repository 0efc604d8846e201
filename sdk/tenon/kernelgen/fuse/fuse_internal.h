// The single steps of fusion, and what they share. Internal to kernelgen; tests take the steps one
// by one.
#ifndef TENON_KERNELGEN_FUSE_FUSE_INTERNAL_H_
#define TENON_KERNELGEN_FUSE_FUSE_INTERNAL_H_

#include <vector>

#include "tenon/kernelgen/ir/stages.h"
#include "tenon/kernelgen/ir/target.h"

namespace tenon::kernelgen {

// Whether a stage computes element by element on what a contraction wrote, directly or through such
// stages: by buffer of_contraction. It belongs to the contraction's epilogue.
bool in_epilogue(const Kernel& k, const Stage& s, const std::vector<bool>& of_contraction);

// Producers write where their consumers want to read (fuse_views.cpp): first step of inline_maps.
void place_stores(Kernel& program);
// Operands of concats, pads and updates are written into their part of the result (fuse_parts.cpp):
// last step of lay_out. A buffer may have several writers from here on, each of its own elements
// but for overlays.
void place_parts(Kernel& program, const Target& target);
// Few huge rows are reduced in chunks (split_reduce.cpp): in lay_out, before place_parts.
void split_reductions(Kernel& program, const Target& target);

}  // namespace tenon::kernelgen
#endif
