// The host that a plugin under test sees: the installed one, with a table of our own that can
// look newer, older, or without an interface. One per process.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include <tenon/abi/plugin.h>

#include "sdk/tools/conform/subject/abi_history.h"

namespace tenon::conform {

struct HostShape {
  uint32_t abi = TENON_ABI_VERSION;
  bool longer = false;              // tables have slots that no plugin knows yet
  uint32_t grown_record_bytes = 0;  // by how much records in arrays are longer than today's
  std::string missing;              // an interface that this host lacks
  const AbiLayout* layout =
      nullptr;  // an old host: its interfaces, and tables that end where its tables did
};

// The installed host; null, with `out_why`, if it cannot be started.
const tenon_host_t* installed_host(std::string* out_why);

// A table in front of `installed` that ends at the end of a page: reading beyond it crashes. Lives
// as long as the process.
const tenon_host_t* fake_host(const tenon_host_t* installed, HostShape shape);

// HostShape::grown_record_bytes of the host that this process shows: a multiple of 8.
uint32_t grown_record_bytes();

// What the fake host recorded.
struct Heard {
  std::vector<std::string> asked;     // interface ids, each once, in order
  std::vector<std::string> settings;  // names, each once, in order
};
const Heard& heard();

// A plugin's polls of `cancelled`. Nothing here depends on the load of the machine: seconds are
// processor time of all threads of this process.
struct Polls {
  uint64_t count = 0;
  bool cancelled = false;    // a poll was answered with yes
  double seconds_after = 0;  // since the first such poll
  // Between two polls, or between one and the beginning or the end: the longest time, and the
  // second longest.
  double seconds_longest = 0, seconds_second = 0;
  void spent(double seconds) {
    seconds_second = std::max(seconds_second, std::min(seconds, seconds_longest));
    seconds_longest = std::max(seconds_longest, seconds);
  }
};
// Records polls from now on. `cancel` is called in poll number cancel_at, which is answered with
// yes, as are all later ones; 0: in none.
void watch_polls(uint64_t cancel_at, std::function<void()> cancel);
Polls end_of_watch();

// While it is on, the host has no bytes of constants that are larger than
// TENON_COMPILE_EARLY_BYTES: their values come at load. Only the plugin under test sees that.
void constants_come_late(bool on);

// The host's last failure on the calling thread since forget_failure(), whether the plugin reported
// it or passed on a failure of the host.
struct HeardFailure {
  bool any = false;
  tenon_code_t code = TENON_OK;
  std::string text;
};
const HeardFailure& heard_failure();
void forget_failure();

}  // namespace tenon::conform
