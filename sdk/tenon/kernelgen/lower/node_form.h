// A key for a node: all that decides whether the node can be lowered and what it costs, as bytes.
// Nodes of one graph with equal keys get equal answers, so the repeated layers of a network are
// examined once.
//
// Users: claim_nodes.
#ifndef TENON_KERNELGEN_LOWER_NODE_FORM_H_
#define TENON_KERNELGEN_LOWER_NODE_FORM_H_

#include <string>

#include "tenon/kernelgen/lower/lower_graph.h"

namespace tenon::kernelgen {

// Of constants larger than kMostInlineConstantBytes, the key has only the type, and the element of
// a splat (see lower_graph.h). Empty: the node has no key and must be examined itself, because it
// has regions, defines symbols, or holds something that is not compared. Safe on a frozen graph.
std::string node_form(const HostTables& host, tenon_graph_t* graph, tenon_node_t node);

}  // namespace tenon::kernelgen
#endif
