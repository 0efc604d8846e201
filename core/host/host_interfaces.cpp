#include "core/host/host_interfaces.h"

#include <tenon/abi/layer.h>

#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include <tenon/abi/record.h>
#include <tenon/cpp/record.hpp>

#include "core/base/errors/guard.h"
#include "core/base/intern.h"
#include "core/base/process/environment.h"
#include "core/base/process/log.h"
#include "core/base/process/operation.h"
#include "core/base/process/thread_kept.h"
#include "core/base/str.h"

namespace tenon::host {
namespace {

struct Registered {
  uint32_t minor;
  const void* table;
};

struct Registry {
  std::shared_mutex mutex;
  std::map<std::string, Registered, std::less<>> interfaces;
};

Registry& registry() {
  static Registry* instance = new Registry;
  return *instance;
}

tenon_code_t query(void*, tenon_str_t id, uint32_t minor, const void** out_table) {
  return guarded([&]() -> Status {
    const void* table = find_host_interface(from_abi_str(id), minor);
    if (table == nullptr) {
      return error(TENON_NOT_FOUND, "P0906", "this host has no interface {} of minor {} or later",
                   quoted(from_abi_str(id)), minor);
    }
    *out_table = table;
    return {};
  });
}

tenon_code_t fail(void*, tenon_code_t code, tenon_str_t message, const tenon_key_value_t* details,
                  uint32_t count) {
  record_failure(code, from_abi_str(message), {details, details == nullptr ? 0 : count});
  return code == TENON_OK ? TENON_UNKNOWN : code;
}

// Owns what the views of the last answer point to. It must outlive the call; the record may not.
struct ReportedFailure {
  Status kept;
  std::vector<tenon_key_value_t> details;
  std::string message;
};

tenon_code_t give_last_failure(tenon_failure_t* out) {
  thread_local ThreadKept<ReportedFailure> reported;
  free_at_thread_end(reported);
  auto& [kept, details, message] = reported.value;
  kept = last_failure();
  details.clear();
  for (const KeyValue& pair : kept.evidence())
    details.push_back({to_abi_str(pair.key), to_abi_str(pair.value)});
  message.clear();
  if (!kept.ok()) {
    std::string text = kept.text();
    message = kept.error_code().empty() ? text : text.substr(kept.error_code().size() + 2);
  }
  auto full = sized<tenon_failure_t>();
  full.code = kept.code();
  full.id = to_abi_str(kept.error_code());
  full.message = to_abi_str(message);
  full.details = details.data();
  full.detail_count = static_cast<uint32_t>(details.size());
  return tenon_record_give(
      out, &full,
      sizeof(full));  // records no failure of its own, which would hide the one asked for
}
tenon_code_t read_last_failure(void*, tenon_failure_t* out) {
  return guarded([&] { return give_last_failure(out); });
}

// The level as which a message is written.
LogLevel level_of(uint32_t level) {
  if (level == TENON_LOG_RESULT) return LogLevel::kInfo;
  return level > TENON_LOG_DEBUG ? LogLevel::kDetail : static_cast<LogLevel>(level);
}

// Whether it is shown: results are where warnings are.
bool level_shown(tenon_str_t component, uint32_t level) {
  return log_enabled(from_abi_str(component),
                     level == TENON_LOG_RESULT ? LogLevel::kWarning : level_of(level));
}

uint32_t log_is_enabled(void*, tenon_str_t component, uint32_t level) {
  return guarded_or(0u, [&] { return level_shown(component, level) ? 1u : 0u; });
}
void log_text(void*, tenon_str_t component, uint32_t level, tenon_str_t text) {
  guarded_void([&] {
    if (level_shown(component, level)) {
      log_write(from_abi_str(component), level_of(level), from_abi_str(text));
    }
  });
}
// Zero, which no name has, if there is no memory for a new one.
tenon_sym_t intern_text(void*, tenon_str_t text) {
  return guarded_or(tenon_sym_t{0}, [&] { return intern(from_abi_str(text)); });
}
tenon_str_t text_of_sym(void*, tenon_sym_t sym) {
  return to_abi_str(sym_text(sym));
}
uint32_t is_cancelled(void*) {
  return cancelled() ? 1 : 0;
}
void progress(void*, tenon_str_t phase, uint64_t done, uint64_t total) {
  guarded_void([&] { report_progress(from_abi_str(phase), done, total); });
}
tenon_str_t read_setting(void*, tenon_str_t name) {
  return guarded_or(tenon_str_t{}, [&] { return to_abi_str(setting(from_abi_str(name))); });
}

constexpr tenon_host_t kHost = {
    sizeof(tenon_host_t), TENON_ABI_VERSION, nullptr,     query,       fail,
    read_last_failure,    log_is_enabled,    log_text,    intern_text, text_of_sym,
    is_cancelled,         progress,          read_setting};

}  // namespace

void register_host_interface(std::string_view id, uint32_t minor, const void* table) {
  std::unique_lock lock(registry().mutex);
  registry().interfaces[std::string(id)] = {minor, table};
}

const void* find_host_interface(std::string_view id, uint32_t minor) {
  std::shared_lock lock(registry().mutex);
  auto found = registry().interfaces.find(id);
  return found == registry().interfaces.end() || found->second.minor < minor ? nullptr
                                                                             : found->second.table;
}

const tenon_host_t* host_table() {
  static const bool registered =
      (register_host_interface(TENON_HOST_ID, TENON_HOST_MINOR, &kHost), true);
  (void)registered;
  return &kHost;
}

std::string_view setting(std::string_view name) {
  auto value = env(name);
  return value ? sym_text(intern(*value)) : std::string_view();
}

}  // namespace tenon::host
