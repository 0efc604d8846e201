// Removal of what control flow computes and nothing uses.
#pragma once
#include "common.h"

namespace tenon::passes {

// Rebuilds a scan, while or switch without yields that are not used, carried values that only carry
// themselves on, and operands that no region uses. The node is then replaced by another one, which
// `node` becomes. out_removed: how many of them there were.
Status prune_regions(Node* node, int64_t* out_removed);

}  // namespace tenon::passes
