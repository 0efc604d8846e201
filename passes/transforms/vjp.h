// Reverse mode over the main region: what `grad` and `vjp` share.
#pragma once
#include "transform.h"

namespace tenon::passes {

// Adds the output "d_<input>" for each input in `wrt`: its cotangent, from those of some outputs.
// seeds: (place of an output, its cotangent).
Status add_cotangents(Ports& ports, const std::vector<Value>& wrt,
                      const std::vector<std::pair<size_t, Value>>& seeds);

}  // namespace tenon::passes
