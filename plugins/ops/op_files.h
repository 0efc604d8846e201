// The lists of ops that the files of this folder publish with TENON_OPS.
#ifndef TENON_PLUGINS_OPS_OP_FILES_H_
#define TENON_PLUGINS_OPS_OP_FILES_H_

#include "tenon/cpp/op.hpp"

namespace tenon::ops {
extern const OpList* const kOpFiles[];
extern const unsigned long kOpFileCount;
}  // namespace tenon::ops

#endif
