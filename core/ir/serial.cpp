// Recognising the serial forms.
#include "core/ir/serial.h"

#include <cstring>

#include "core/base/str.h"

namespace tenon::ir {

Result<TextForm> write_text(const Graph&) {
  return error(TENON_UNIMPLEMENTED, "T0201", "the text form is not built into this revision");
}
Result<std::string> write_binary(const Graph&) {
  return error(TENON_UNIMPLEMENTED, "T0201", "the binary form is not built into this revision");
}
Result<Ref<Graph>> read_graph(Ref<Blob>, std::string_view, Ref<Blob>) {
  return error(TENON_UNIMPLEMENTED, "T0201", "the text form is not built into this revision");
}

}  // namespace tenon::ir
