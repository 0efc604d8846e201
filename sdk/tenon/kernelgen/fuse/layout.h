// Layout, from stage IR to stage IR: chooses the memory order of every temp in the program.
//
// Index expressions are logical; the strides of a Buffer decide what is contiguous. Temps that
// convolutions write or read become channels-last, and so does everything connected to them element
// by element (activations, residual sums, pools, concats, resizes). Data that the caller provides
// or receives in another order is reordered once, at the boundary, by a stage that writes a `keep`
// buffer. Convolutions of f32, and of 16-bit floats widened to f32, then get operands laid out for
// register tiles (Stage::panel). Weights are read from panels of columns [.., columns / panel,
// taps.., in, panel], which a stage packs (at load if the weights are constants). An input with few
// channels is copied with its padding, so that a row of the filter is one run of memory.
//
// Only for C++ targets with vectors; other targets keep the program's order. Runs once, after
// inline_maps.
#ifndef TENON_KERNELGEN_FUSE_LAYOUT_H_
#define TENON_KERNELGEN_FUSE_LAYOUT_H_

#include "tenon/kernelgen/ir/ir.h"
#include "tenon/kernelgen/ir/target.h"

namespace tenon::kernelgen {

void choose_layouts(Kernel& program, const Target& target);

}  // namespace tenon::kernelgen
#endif
