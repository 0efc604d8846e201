// Programs and data files that are installed with the command.
#pragma once
#include <string>
#include <vector>

namespace tenon::tools {

// Execs libexec/tenon/NAME with these arguments. Returns only on failure, with an exit status,
// after printing why.
int become_helper(const std::string& name, const std::vector<std::string>& arguments);

// The folder share/tenon/NAME of this installation, or of the build tree; empty if absent.
std::string data_folder(const std::string& name);

}  // namespace tenon::tools
