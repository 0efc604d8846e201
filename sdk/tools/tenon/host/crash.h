// What the command says when a plugin crashes, in place of a bare exit status 139.
#pragma once
#include "sdk/tools/tenon/host/host.h"

namespace tenon::tools {

// From now on a signal that would end the process names the plugin at work, leaves a reproducer if
// it can, and ends the process with kDevice. A handler that is there already, as a sanitizer's, is
// kept. Failures are no failure of the command: then the signal does what it did.
void on_crash(const Host& host);

}  // namespace tenon::tools
