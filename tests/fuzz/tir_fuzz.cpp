// libFuzzer target: any bytes as a graph, in text or binary form. An accepted graph must print, and
// the printed form must read back unchanged.
#include <cstdint>
#include <cstdlib>

#include "core/base/limits.h"
#include "core/base/process/log.h"
#include "core/ir/dims/expression.h"
#include "core/ir/serial/serial.h"
#include "core/ir/test_ops.h"

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  tenon::test::use_test_ops();
  // Splats may request far more elements than the text contains.
  tenon::set_limit(tenon::Limit::kElements, 1 << 20);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tenon::ir;
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  (void)parse_expression({reinterpret_cast<const char*>(data), size}, "fuzz");
  tenon::Result<Ref<Graph>> graph = read_graph(*blob_bytes(bytes), "fuzz", *blob_bytes(bytes));
  if (!graph.ok()) return 0;
  const tenon::Result<TextForm> form = write_text(**graph);
  TENON_CHECK(form.ok(), "{}", form.status().text());
  const tenon::Result<std::string> side = sidecar_bytes(*form);
  TENON_CHECK(side.ok(), "{}", side.status().text());
  const tenon::Result<Ref<Graph>> again =
      read_text(form->text, "again", *blob_bytes(std::as_bytes(std::span(*side))));
  TENON_CHECK(again.ok(), "{}\n{}", again.status().text(), form->text);
  const tenon::Result<TextForm> twice = write_text(**again);
  TENON_CHECK(twice.ok() && twice->text == form->text, "{}\n{}", form->text, twice->text);
  return 0;
}
