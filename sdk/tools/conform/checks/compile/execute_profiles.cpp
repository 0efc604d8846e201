// Group E: the events that an execution reports.
#include <time.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "sdk/tools/conform/checks/tables.h"
#include "sdk/tools/conform/fixtures/compile/compile_graphs.h"
#include "sdk/tools/conform/fixtures/compile/loaded_graph.h"
#include "sdk/tools/conform/fixtures/device/open_queue.h"
#include "sdk/tools/conform/subject/names.h"
#include "sdk/tools/conform/subject/session.h"

namespace tenon::conform {
namespace {

// Leaked, since it may be called too late.
struct Events {
  std::mutex mutex;
  bool open = true;
  int count = 0, odd = 0, late = 0;
  uint64_t first = UINT64_MAX, last = 0;
  std::string why;
};

uint64_t monotonic_ns() {
  timespec now = {};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

void heard_event(void* self, const tenon_profile_event_t* event) {
  const auto [size, lane, name, origins, begin, end, flops, bytes] = *event;
  (void)size, (void)lane;
  auto* events = static_cast<Events*>(self);
  const std::lock_guard lock(events->mutex);
  if (!events->open) ++events->late;
  ++events->count;
  events->first = std::min(events->first, begin);
  events->last = std::max(events->last, end);
  std::string_view why;
  if (view(name).empty()) why = "an event has no name";
  if (!is_valid_utf8(view(name)) || !is_valid_utf8(view(origins)))
    why = "a text of an event is not UTF-8";
  if (begin > end) why = "an event ends before it begins";
  if (!(flops >= 0) || !(bytes >= 0)) why = "an event has a negative number of operations or bytes";
  if (why.empty()) return;
  ++events->odd;
  events->why = why;
}

// Allowed difference between a device's clock and the host's, in ns. A wrong clock or a wrong unit
// differs by more.
constexpr uint64_t kClockError = 100'000'000;

Outcome profiles(Session& s) {
  Loaded l(s);
  CONFORM_TRY(l.make(chain_graph()));
  const std::unique_ptr<Execution> execution = l.execution();
  CONFORM_TRY(execution->prepare(l.inputs, 0));
  tenon_call_t call = execution->call();
  auto* events = new Events;
  const auto* sink = new tenon_profile_sink_t{sizeof(tenon_profile_sink_t), 0, events, heard_event};
  call.profile = sink;
  s.step("execute with a profile");
  const tenon_compile_api_t& c = l.fixture.compiler();
  const uint64_t before = monotonic_ns();
  const tenon_code_t code = c.execute(c.self, l.compiled.executable, &call);
  const uint64_t after = monotonic_ns();
  int count = 0;
  {
    const std::lock_guard lock(events->mutex);
    events->open = false;
    count = events->count;
  }
  CONFORM_EXPECT(code == TENON_OK, "execute with a profile gives {}", code_text(code));
  pause_a_while(std::chrono::milliseconds(200));
  CONFORM_TRY(execution->run());
  const std::lock_guard lock(events->mutex);
  CONFORM_EXPECT(events->late == 0, "{} events are reported after execute returned", events->late);
  CONFORM_EXPECT(events->odd == 0, "{}", events->why);
  CONFORM_EXPECT(
      count == 0 || (events->first + kClockError >= before && events->last <= after + kClockError),
      "events are reported from {} to {}, and the call went from {} to {} ns of "
      "CLOCK_MONOTONIC",
      events->first, events->last, before, after);
  std::vector<Named> got;
  CONFORM_TRY(execution->outputs(&got));
  CONFORM_TRY(same_tensors(got, l.expected, "an execution with a profile"));
  return count == 0 ? skipped("it reports no event") : pass();
}

constexpr Check kChecks[] = {
    {"R-E27", "profile", profiles},
};

}  // namespace

std::span<const Check> execute_profile_checks() {
  return kChecks;
}

}  // namespace tenon::conform
