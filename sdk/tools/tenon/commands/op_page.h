// The page of an op, generated from its declaration: an op's meaning is kept nowhere else.
#pragma once
#include <string>

#include <tenon/abi/ops.h>

namespace tenon::tools {

std::string op_markdown(const tenon_op_def_t& op);
// The same facts as plain text for a terminal.
std::string op_text(const tenon_op_def_t& op, std::string_view plugin);
// "add(x, y, {axis}) -> result".
std::string op_signature(const tenon_op_def_t& op);
// One row of the coverage table, and its head.
std::string coverage_head();
std::string coverage_row(const tenon_op_def_t& op);

}  // namespace tenon::tools
