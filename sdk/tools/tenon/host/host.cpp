#include "sdk/tools/tenon/host/host.h"

#include "sdk/tools/tenon/console/console.h"
#include "sdk/tools/tenon/host/crash.h"

namespace tenon::tools {
namespace {

template <typename Table>
int ask(Host& host, std::string_view id, const Table** table) {
  const void* found = nullptr;
  const tenon_code_t code = host.host->query(host.host->self, str(id), 0, &found);
  if (code != TENON_OK) return report(host, code);
  *table = static_cast<const Table*>(found);
  return kOk;
}

// Failures of plugins at shutdown, which the host leaves in this thread's record and has already
// printed.
const tenon_host_t* g_host = nullptr;
int look_at_shutdown() {
  auto failure = sized<tenon_failure_t>();
  const bool recorded = g_host->last_failure(g_host->self, &failure) == TENON_OK;
  return recorded && failure.code != TENON_OK ? kWrongResult : kOk;
}

}  // namespace

int host_open(Host& host) {
  const tenon_code_t code = tenon_host_open(TENON_ABI_VERSION, nullptr, &host.host);
  if (code != TENON_OK) {
    if (host.host != nullptr) return report(host, code);
    return fail(kDevice, "T0003",
                fmt::format("libtenon.so does not speak ABI {}.{} (code {}).", TENON_ABI_MAJOR,
                            TENON_ABI_MINOR, code),
                "Install the tenon command and libtenon.so from one build.");
  }
  if (int s = ask(host, TENON_HOST_SESSION_ID, &host.session)) return s;
  if (int s = ask(host, TENON_HOST_GRAPH_ID, &host.graph)) return s;
  if (int s = ask(host, TENON_HOST_REGISTRY_ID, &host.registry)) return s;
  if (int s = ask(host, TENON_HOST_THREADS_ID, &host.threads)) return s;
  if (int s = ask(host, TENON_HOST_FILES_ID, &host.files)) return s;
  if (int s = ask(host, TENON_HOST_PACKAGE_ID, &host.packages)) return s;
  g_host = host.host;
  console_at_end(look_at_shutdown);
  on_interrupt(host.session->cancel, host.session->self);
  on_crash(host);
  return kOk;
}

int status_of(tenon_code_t code) {
  switch (code) {
    case TENON_OK:
      return kOk;
    case TENON_CANCELLED:
      return kInterrupted;
    case TENON_UNKNOWN:
    case TENON_DEADLINE_EXCEEDED:
    case TENON_ABORTED:
    case TENON_INTERNAL:
    case TENON_UNAVAILABLE:
    case TENON_DATA_LOSS:
    case TENON_DEVICE_LOST:
      return kDevice;
    default:
      return kUsage;
  }
}

int report(const Host& host, tenon_code_t code, std::string_view advice) {
  if (interrupted()) {
    fail(kInterrupted, "T0001", "interrupted.");
    return kInterrupted;
  }
  auto failure = sized<tenon_failure_t>();
  if (host.host->last_failure(host.host->self, &failure) != TENON_OK || failure.message.size == 0) {
    return fail(status_of(code), "T0002",
                fmt::format("an operation failed with code {} and gave no reason.", code));
  }
  std::string details(advice);
  for (uint32_t i = 0; i < failure.detail_count; ++i) {
    const std::string_view value = view(failure.details[i].value);
    if (view(failure.message).find(value) != std::string_view::npos)
      continue;  // the message contains it already
    details += fmt::format("{}{}: {}", details.empty() ? "" : "\n  ", view(failure.details[i].key),
                           safe(value, 1024));
  }
  return fail(status_of(code), view(failure.id), view(failure.message), details);
}

int explain(const Host& host, std::string_view what, std::string_view filter, std::string& json) {
  Text text;
  const tenon_sink_t sink = text.sink();
  const tenon_code_t code =
      host.session->explain(host.session->self, str(what), str(filter), &sink);
  if (code != TENON_OK) return report(host, code);
  json = std::move(text.text);
  return kOk;
}

int write_file(const Host& host, std::string_view path, std::string_view bytes) {
  const tenon_code_t code =
      host.files->write(host.files->self, str(path), bytes.data(), bytes.size());
  return code == TENON_OK ? kOk : report(host, code);
}

}  // namespace tenon::tools
