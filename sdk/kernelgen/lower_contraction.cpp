#include "tenon/kernelgen/lower_internal.h"

namespace tenon::kernelgen {
bool schedule_contraction(Kernel&, const Target&, Schedule*, std::string* why) { *why = "contractions have no schedule"; return false; }
bool lower_contraction(Emitter&, const Schedule&, const Target&, std::string* why) { *why = "contractions have no schedule"; return false; }
}  // namespace tenon::kernelgen
