// How a convolution is computed: the one place of this choice. To add a way (Winograd, transforms),
// add its form here, choose it in choose_convolution, lay out its operands in
// layout_convolution.cpp, and schedule it in schedule/schedule_convolution.cpp. Internal to
// kernelgen.
#ifndef TENON_KERNELGEN_FUSE_CONVOLUTION_CHOICE_H_
#define TENON_KERNELGEN_FUSE_CONVOLUTION_CHOICE_H_

#include <string>
#include <vector>

#include "tenon/kernelgen/ir/ir.h"
#include "tenon/kernelgen/ir/target.h"
#include "tenon/kernelgen/schedule/convolution.h"

namespace tenon::kernelgen {

enum class ConvolutionForm : uint8_t {
  kProduct,    // as any product: of matrices, or row by row
  kTiles,      // register tiles of pixels x columns; weights in panels of columns
  kDepthwise,  // tiles whose lanes run along channels
};

struct ConvolutionChoice {
  ConvolutionForm form = ConvolutionForm::kProduct;
  // Integers are multiplied in words of this many neighbouring channels; 1: element by element.
  uint32_t steps = 1;
  ContractAxes axes;
  // Axes of the reduction: positions of the filter; input features.
  std::vector<uint32_t> spatial, in;
  std::string reason;  // a phrase, for dumps (Stage::note)
};

// Chooses the form of a Contract that is a convolution: `stage.x_channel` is set, and both operands
// are loads. Adds expressions to the kernel's pool, nothing else.
ConvolutionChoice choose_convolution(Kernel& kernel, const Target& target, const Stage& stage);

}  // namespace tenon::kernelgen
#endif
