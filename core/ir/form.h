// tenon.host.form/1: the hash of a graph without the values of its large constants.
#pragma once
#include "core/ir/graph.h"
#include "tenon/abi/form.h"

namespace tenon::ir {

// 128 bits as of Graph::structural_hash, except that constants with more bytes than
// `max_constant_bytes` count by type and place unless all elements are one. Reads no other
// constant.
Result<Digest> form_hash(const Graph& graph, uint64_t max_constant_bytes);

const tenon_host_form_t* host_form_table();

}  // namespace tenon::ir
