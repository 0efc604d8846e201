// Threads of an OpenMP runtime that another package brought, as a team of the host.
#include "frontends/python/native/host/openmp.h"

#include <algorithm>
#include <cstdint>

#include "tenon/abi/host.h"
#include "tenon/cpp/record.hpp"

#include "frontends/python/native/host/host.h"

namespace tenon::python {
namespace {

OpenMp g_openmp;

struct Region {
  void (*work)(void* context, uint32_t worker);
  void* context;
  uint32_t count;
};

void run(void*, uint32_t count, void (*work)(void*, uint32_t), void* context) {
  Region region{work, context, count};
  const auto member = [](void* data) {
    const Region& r = *static_cast<const Region*>(data);
    const int worker = g_openmp.thread_num();
    if (static_cast<uint32_t>(worker) < r.count) r.work(r.context, static_cast<uint32_t>(worker));
  };
  // Always the number that the runtime's other regions have: it ends and starts threads where two
  // regions differ.
  g_openmp.parallel(member, &region, 0, 0);
}

uint32_t count(void*) {
  return static_cast<uint32_t>(std::max(1, g_openmp.max_threads()));
}

}  // namespace

void use_openmp(const OpenMp& openmp) {
  static const tenon_team_t team = [&] {
    auto made = sized<tenon_team_t>();
    g_openmp = openmp;
    made.run = run;
    made.count = count;
    return made;
  }();
  g_tables.threads->use_team(g_tables.threads->self, &team);
}

}  // namespace tenon::python
