// The host that a plugin under test sees: the installed one, seen through a table of our own that
// can be made to look newer, older, or without an interface. One per process.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include <tenon/abi/plugin.h>

#include "sdk/tools/conform/subject/abi_history.h"

namespace tenon::conform {

struct HostShape {
  uint32_t abi = TENON_ABI_VERSION;
  bool longer = false;  // tables have slots that nobody knows yet
  std::string missing;  // an interface that this host does not have
  const AbiLayout* layout =
      nullptr;  // a host of then: its interfaces, and tables that end where its did
};

// The installed host; null with `out_why` when it cannot be started.
const tenon_host_t* installed_host(std::string* out_why);

// A table in front of `installed`, which ends where its page ends: reading past it is a crash.
// Lives as long as the process.
const tenon_host_t* fake_host(const tenon_host_t* installed, HostShape shape);

// What the stand-in heard.
struct Heard {
  std::vector<std::string> asked;     // interface ids, each once, in order
  std::vector<std::string> settings;  // names, each once, in order
};
const Heard& heard();

// What a plugin's polls of `cancelled` were. Nothing here depends on how busy the machine is:
// seconds are those of the processor, of all threads of this process.
struct Polls {
  uint64_t count = 0;
  bool told = false;           // one of them was answered with yes
  double seconds_told = 0;     // since the first that was
  double seconds_longest = 0;  // between two of them, or one and the begin or the end
};
// Watches them from now on. `cancel` is called in the cancel_at-th, which is answered with yes as
// all behind it are; 0: in none.
void watch_polls(uint64_t cancel_at, std::function<void()> cancel);
Polls end_of_watch();

// The host's last failure of the calling thread since forget_failure(), whether the plugin reported
// it or passed on a host's.
struct HeardFailure {
  bool any = false;
  tenon_code_t code = TENON_OK;
  std::string text;
};
const HeardFailure& heard_failure();
void forget_failure();

}  // namespace tenon::conform
