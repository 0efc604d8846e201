// tenon.host.form/1: the hash of a graph without the values of its large constants.
#pragma once
#include "core/ir/graph.h"
#include "tenon/abi/form.h"

namespace tenon::ir {

// 128 bits like Graph::structural_hash, but a constant of more than `max_constant_bytes`
// contributes only its type and place, unless all its elements are equal. The bytes of such
// constants are not read.
Result<Digest> form_hash(const Graph& graph, uint64_t max_constant_bytes);

const tenon_host_form_t* host_form_table();

}  // namespace tenon::ir
