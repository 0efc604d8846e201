// The data of a report page, and the page.
#pragma once
#include <string>

#include "sdk/tools/tenon/cli/options.h"
#include "sdk/tools/tenon/host/host.h"

namespace tenon::tools {

// One run for the page as JSON. A failure of the model is in the text, and `status` is what the
// command ends with; it has been printed.
std::string report_run(const Host& host, const RunOptions& options, bool measure, int& status);

// The first run of a page that was written before. Returns an exit status.
int read_report(const Host& host, const std::string& path, std::string& run_json);

}  // namespace tenon::tools
