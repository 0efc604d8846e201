// The texts that the simulated accelerator runs: its own OpenCL C, and those of the vendors' GPUs,
// as their plugins print them, at the widths of their warps.
#ifndef TENON_PLUGINS_SIM_DIALECTS_H_
#define TENON_PLUGINS_SIM_DIALECTS_H_

#include <string>
#include <string_view>

#include "tenon/cpp/status.hpp"
#include "tenon/kernelgen/ir/target.h"

namespace tenon::sim {

struct Text {
  std::string_view name;       // of TENON_SIM_DIALECT
  std::string_view toolchain;  // the dialect that the toolchain compiles it as
  kernelgen::Target target;

  // The unit for the toolchain: the vendor's builtins, by those of `group.h`, and then the text.
  std::string unit(std::string_view text) const;
};

// As TENON_SIM_DIALECT and TENON_SIM_WARP say, or INVALID_ARGUMENT.
Status text_of_settings(Text* out);

}  // namespace tenon::sim
#endif
