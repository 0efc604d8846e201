// tenon.host.extract/1: parts of a graph as graphs of their own.
#pragma once
#include <tenon/abi/extract.h>

namespace tenon::session {

const tenon_host_extract_t* host_extract_table();

}  // namespace tenon::session
