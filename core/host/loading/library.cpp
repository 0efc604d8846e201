#include "core/host/loading/library.h"

#include "core/base/errors/failure.h"
#include "core/base/file.h"
#include "core/base/str.h"
#include "core/host/binary/binary.h"
#include "core/host/platform/platform.h"

namespace tenon::host {
namespace {

constexpr const char* kSymbol = "tenon_plugin_query";

// "it is for macos on aarch64": a reason that the system's loader does not give, since it only says
// that some bytes are wrong. Empty if the file is for this machine, or cannot be read.
std::string other_platform(const std::string& path) {
  const Result<File> file = open_user_file(path);
  if (!file.ok()) return {};
  const auto region = map_file(*file);
  if (!region.ok()) return {};
  const Result<Binary> binary = read_binary((*region)->bytes(), platform::arch_name());
  if (!binary.ok() || (binary->os == platform::os_name() && binary->arch == platform::arch_name()))
    return {};
  return fmt::format("; it is for {} on {}", binary->os, binary->arch);
}

}  // namespace

Result<tenon_plugin_query_t> open_library(const std::string& path) {
  const platform::Opened opened = platform::open_plugin_library(path);
  if (opened.library == nullptr) {
    return error(TENON_UNAVAILABLE, "P0701", "the library {} cannot be opened: {}{}", quoted(path),
                 printable(opened.why, 1024), other_platform(path));
  }
  void* address = platform::find_symbol(opened.library, kSymbol);
  if (address == nullptr)
    return error(TENON_NOT_FOUND, "P0702", "the library {} exports no {}", quoted(path), kSymbol);
  if (!platform::is_function(path, kSymbol, address)) {
    return error(TENON_INVALID_ARGUMENT, "P0703", "the symbol {} of {} is data and no function",
                 kSymbol, quoted(path));
  }
  return reinterpret_cast<tenon_plugin_query_t>(address);
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
