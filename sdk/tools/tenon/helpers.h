// Programs and data files that are installed with the command.
#pragma once
#include <string>
#include <vector>

namespace tenon::tools {

// Becomes libexec/tenon/NAME with these arguments; returns only with an exit status, the message
// being out already.
int become_helper(const std::string& name, const std::vector<std::string>& arguments);

// The folder share/tenon/NAME of this installation, or of the build tree; empty when it is not
// there.
std::string data_folder(const std::string& name);

}  // namespace tenon::tools
