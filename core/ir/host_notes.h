// tenon.host.notes/1: notes on a graph.
#pragma once
#include "tenon/abi/graph_notes.h"

namespace tenon::ir {

const tenon_host_notes_t* host_notes_table();

}  // namespace tenon::ir
