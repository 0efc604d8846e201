// Finds passes in the plugins whose manifests provide them.
#pragma once
#include "core/pass/registry.h"

namespace tenon::session {

pass::Source& pass_source();

}  // namespace tenon::session
