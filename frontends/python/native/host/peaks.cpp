// The measured peak rates of the processor, by which the page of a report judges kernels.
#include <string>

#include <tenon/cpp/peaks.hpp>

#include "frontends/python/native/host/host.h"

namespace tenon::python {

std::string measure_peaks() {
  const peaks::Tables tables{g_tables.host, &registry(), g_tables.threads};
  peaks::Peaks found;
  std::string why;
  away([&] { found = peaks::measure(tables, why); });
  return found.known() ? found.json() : "";
}

}  // namespace tenon::python
