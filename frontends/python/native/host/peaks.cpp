// The measured peak rates of the processor, by which the page of a report judges kernels.
#include <string>
#include <string_view>

#include <tenon/cpp/peaks.hpp>

#include "frontends/python/native/host/host.h"

namespace tenon::python {
namespace {

constexpr std::string_view kRegistry = TENON_HOST_REGISTRY_ID;

}  // namespace

std::string measure_peaks() {
  peaks::Tables tables{g_tables.host, nullptr, g_tables.threads};
  const void* registry = nullptr;
  ask([&] {
    return tables.host->query(tables.host->self, {kRegistry.data(), kRegistry.size()}, 0,
                              &registry);
  });
  tables.registry = static_cast<const tenon_host_registry_t*>(registry);
  peaks::Peaks found;
  std::string why;
  away([&] { found = peaks::measure(tables, why); });
  return found.known() ? found.json() : "";
}

}  // namespace tenon::python
