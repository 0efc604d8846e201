// tenon-probe LIBRARY NAME SONAME...: opens the libraries that a plugin requires and its own, calls
// its query, checks its tables, and writes "ok" or the failure to descriptor 3. The host starts it
// for changed libraries, so that a crash or a hang happens here and not in the host.
#include <sys/resource.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "core/host/discovery/probe.h"
#include "core/host/discovery/requirements.h"
#include "core/host/loading/library.h"
#include "core/host/loading/tables.h"

namespace {

tenon::Status probe(const std::string& library, const std::string& name,
                    const std::vector<std::string>& required) {
  TENON_RETURN_IF_ERROR(tenon::host::check_required_libraries(required));
  TENON_ASSIGN_OR_RETURN(tenon_plugin_query_t query, tenon::host::open_library(library));
  TENON_ASSIGN_OR_RETURN(const tenon_plugin_t* record,
                         tenon::host::ask_plugin(query, tenon::host::listing_host(), name));
  TENON_ASSIGN_OR_RETURN(tenon::host::AdoptedPlugin plugin,
                         tenon::host::adopt_plugin(record, name));
  return tenon::Status();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  alarm(10);  // in case the parent is gone
  tenon::Status status = probe(argv[1], argv[2], {argv + 3, argv + argc});
  std::string answer =
      status.ok() ? "ok"
                  : fmt::format("{}\n{}\n{}", status.error_code(), status.code(), status.message());
  ssize_t written = write(3, answer.data(), answer.size());
  _exit(written == static_cast<ssize_t>(answer.size()) ? 0
                                                       : 1);  // no destructor of the plugin runs
}
