// A plugin at work: what it offers, used in ways that need nothing of the host but graphs. For
// checks that ask whether it works at all: under another host, with fewer slots.
#pragma once
#include <string_view>

#include "core/conform/session.h"

namespace tenon::conform {

// Only the first `slots` optional slots of one interface are there.
struct Cut {
  std::string_view id;
  size_t slots = SIZE_MAX;
  size_t of(std::string_view interface) const { return interface == id ? slots : SIZE_MAX; }
};

// Memory and queues of devices, kernels on them, a graph compiled for them, tensors through
// frontends. Not offered where nothing of that is there.
Outcome exercise(Session& session, const Cut& cut = {});

}  // namespace tenon::conform
