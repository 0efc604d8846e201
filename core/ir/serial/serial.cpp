// Recognising the serial forms.
#include "core/ir/serial/serial.h"

#include <cstring>

#include "core/base/limits.h"
#include "core/base/str.h"

namespace tenon::ir {

Result<Ref<Graph>> read_graph(Ref<Blob> bytes, std::string_view name, Ref<Blob> sidecar) {
  if (!bytes)
    return error(TENON_INVALID_ARGUMENT, "T0209", "no bytes were given to read a graph from");
  TENON_ASSIGN_OR_RETURN(const void* data, bytes->data());
  const std::string_view text(static_cast<const char*>(data), bytes->size_bytes());
  if (text.substr(0, kBinaryMagic.size()) == kBinaryMagic)
    return read_binary(std::move(bytes), name);
  return read_text(text, name, std::move(sidecar));
}

}  // namespace tenon::ir
