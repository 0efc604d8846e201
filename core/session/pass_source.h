// Where passes come from in a process: the plugins that manifests say provide them.
#pragma once
#include "core/pass/registry.h"

namespace tenon::session {

pass::Source& pass_source();

}  // namespace tenon::session
