// Limits on what input may ask for. Each has a name, a documented default and a variable that sets
// it, and the error that it causes names it.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "core/base/errors/status.h"

namespace tenon {

enum class Limit : uint32_t {
#define TENON_LIMIT(name, variable, value, what) name,
#include "core/base/limits.def"
#undef TENON_LIMIT
  kCount
};

struct LimitInfo {
  std::string_view variable;  // "TENON_LIMIT_NODES"
  uint64_t default_value;
  std::string_view what;  // "nodes of one graph"
};

const LimitInfo& limit_info(Limit limit);

// The value in force: the default, the variable's, or the one given to set_limit. Threads: safe.
uint64_t limit(Limit limit);

// Overrides a limit for the process (a session setting, a test). Threads: safe.
void set_limit(Limit limit, uint64_t value);
// Reads the variables again, once the program's settings have changed. Threads: safe.
void read_limits();

// OK if `asked` is within the limit, else T0102 naming the limit, both numbers and the variable.
// `where` names what asked: "model `x.onnx`".
Status check_limit(Limit limit, uint64_t asked, std::string_view where);

}  // namespace tenon
