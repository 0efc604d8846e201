// All that tells whether a node can be lowered and what it costs, as bytes: equal nodes of one
// graph get equal answers, so that the layers of a network are asked about once.
//
// Users: claim_nodes.
#ifndef TENON_KERNELGEN_LIFT_NODE_FORM_H_
#define TENON_KERNELGEN_LIFT_NODE_FORM_H_

#include <string>

#include "tenon/kernelgen/lower/lower_graph.h"

namespace tenon::kernelgen {

// Of constants with more than kMostInlineConstantBytes only the type counts, and the element if all
// are equal (see lower_graph.h). Empty: the node has to be looked at by itself (it has regions,
// defines symbols, or holds what is not compared). Safe on a frozen graph.
std::string node_form(const HostTables& host, tenon_graph_t* graph, tenon_node_t node);

}  // namespace tenon::kernelgen
#endif
