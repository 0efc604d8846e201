// An attribute that is 1 or 0. Another number is refused: ops would not agree on what 2 means.
#ifndef PLUGINS_OPS_FLAG_H_
#define PLUGINS_OPS_FLAG_H_

#include "common.h"

namespace tenon::ops {

// `doc` says what 1 means.
constexpr tenon_attr_def_t flag(std::string_view name, std::string_view doc, int64_t otherwise) {
  return {str(name), str(doc), TENON_ATTR_I64, 0, otherwise, 0, {}, str("0|1")};
}

}  // namespace tenon::ops

#endif
