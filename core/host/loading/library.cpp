#include "core/host/loading/library.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <boost/dll/shared_library.hpp>

#include "core/base/errors/failure.h"
#include "core/base/str.h"

namespace tenon::host {
namespace {

constexpr const char* kSymbol = "tenon_plugin_query";

// The dynamic linker returns data and functions alike; only the symbol's own record tells them
// apart.
bool is_function(void* address) {
  Dl_info info = {};
  const ElfW(Sym)* symbol = nullptr;
  if (::dladdr1(address, &info, reinterpret_cast<void**>(const_cast<ElfW(Sym)**>(&symbol)),
                RTLD_DL_SYMENT) == 0) {
    return false;
  }
  const unsigned type = symbol == nullptr ? STT_NOTYPE : symbol->st_info & 0xfu;
  return type == STT_FUNC || type == STT_GNU_IFUNC;
}

}  // namespace

Result<tenon_plugin_query_t> open_library(const std::string& path) {
  // boost::dll's load_mode has the values of the system's flags, and no name for RTLD_NODELETE.
  const auto mode = static_cast<boost::dll::load_mode::type>(RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  try {
    boost::dll::shared_library library(boost::dll::fs::path(path), mode);
    if (!library.has(kSymbol)) {
      return error(TENON_NOT_FOUND, "P0702", "the library {} exports no {}", quoted(path), kSymbol);
    }
    void* address = reinterpret_cast<void*>(&library.get<char>(kSymbol));
    if (!is_function(address)) {
      return error(TENON_INVALID_ARGUMENT, "P0703", "the symbol {} of {} is data and no function",
                   kSymbol, quoted(path));
    }
    return reinterpret_cast<tenon_plugin_query_t>(address);  // stays valid: RTLD_NODELETE
  } catch (const std::exception& problem) {
    std::string_view what = problem.what();
    constexpr std::string_view kPrefix =
        "boost::dll::shared_library::load() failed (dlerror system message: ";
    if (what.starts_with(kPrefix)) {
      what.remove_prefix(kPrefix.size());
      what = what.substr(0, what.rfind("): "));
    }
    return error(TENON_UNAVAILABLE, "P0701", "the library {} cannot be opened: {}", quoted(path),
                 printable(what, 1024));
  }
}

Result<const tenon_plugin_t*> ask_plugin(tenon_plugin_query_t query, const tenon_host_t* host,
                                         std::string_view name) {
  const tenon_plugin_t* record = nullptr;
  tenon_code_t code = TENON_OK;
  clear_failure();
  try {
    code = query(TENON_ABI_VERSION, host, &record);
  } catch (const std::exception& problem) {
    return error(TENON_INTERNAL, "P0807", "the plugin {} threw an exception through its query: {}",
                 quoted(name), quoted(problem.what()));
  } catch (...) {
    return error(TENON_INTERNAL, "P0807", "the plugin {} threw an exception through its query",
                 quoted(name));
  }
  if (code == TENON_OK) return record;
  Status status = from_abi(code, "its query");
  std::string reason =
      status.error_code() == "T0002" ? std::string(status.message()) : status.text();
  Status refusal = error(code, "P0801", "it refused: {}", reason);
  for (const KeyValue& pair : status.evidence()) refusal.add(pair.key, pair.value);
  return refusal;
}

}  // namespace tenon::host
