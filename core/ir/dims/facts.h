// tenon.host.facts/1: what a graph assumes about its sizes.
#pragma once
#include "tenon/abi/facts.h"

namespace tenon::ir {

const tenon_host_facts_t* host_facts_table();

}  // namespace tenon::ir
