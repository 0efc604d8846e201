// The entry of the plugin: gathers the lists of all files into one table.
#include "op_files.h"

namespace tenon::ops {
namespace {

constexpr size_t kOpsMax = 512;
const tenon_op_def_t* g_ops[kOpsMax];
tenon_ops_t g_table = {sizeof(tenon_ops_t), nullptr, g_ops, 0};
constexpr tenon_interface_t g_interfaces[] = {offer(TENON_OPS_ID, g_table)};

// Runs in the entry, which is called once.
Status gather() {
  size_t count = 0;
  for (unsigned long f = 0; f < kOpFileCount; ++f) {
    for (size_t i = 0; i < kOpFiles[f]->count; ++i) {
      if (count == kOpsMax)
        return fail(TENON_INTERNAL, "The ops plugin has more ops than its table holds.");
      g_ops[count++] = kOpFiles[f]->ops[i];
    }
  }
  g_table.op_count = count;
  return {};
}

}  // namespace
}  // namespace tenon::ops

TENON_PLUGIN("ops", "0.1.0", tenon::ops::g_interfaces, tenon::ops::gather)
