// A program for the printers: a graph with symbolic dims, handles of the SDK on it, and a kernel.
// The debugger stops in stop_here, and in stop_with of handles.cpp.
#include <tenon/kernelgen/lower/builder.h>

#include <cstdio>

#include "core/ir/serial/serial.h"
#include "core/ir/test_ops.h"

void stop_at_handles(tenon_graph_t* graph, tenon_dim_t dim, tenon_value_t value, tenon_node_t node);

namespace {

constexpr std::string_view kText = R"(tenon.tir 1
graph @pairs<n, m>(%x: f32[n, 2*m]) -> (y: f32[2*m, n]) {
  %sum = plus(%x, %x) : f32[n, 2*m]
  %1 = reshape_to(%sum) {shape = dims [2*m, n]} : f32[2*m, n]
  yield %1
}
)";

// Sums of rows, for an unknown number of rows.
tenon::kernelgen::Kernel row_sums() {
  tenon::kernelgen::Builder b;
  const uint32_t last[] = {1};
  const auto x = b.input(TENON_F32, {b.extent(), b.dim(4)});
  b.output(b.reduce(x, last, tenon::kernelgen::Fold::kSum));
  return b.take_program();
}

void stop_here(const tenon::ir::Graph& graph, tenon_dim_t dim,
               const tenon::kernelgen::Kernel& kernel) {
  std::string why;
  std::printf("%zu bytes of text, a dim of %s, %s\n", tenon::ir::write_text(graph)->text.size(),
              graph.dims().text(dim).c_str(),
              tenon::kernelgen::verify(kernel, &why) ? "a kernel" : why.c_str());
}

}  // namespace

int main() {
  tenon::test::use_test_ops();
  const auto graph = tenon::ir::read_text(kText, "pairs.tir", {});
  if (!graph.ok()) return 1;
  const tenon::ir::Value x = (*graph)->region(0).arguments[0];
  const tenon_dim_t dim = (*graph)->type(x).dims[1];
  stop_here(**graph, dim, row_sums());
  stop_at_handles((*graph)->abi(), dim, x, (*graph)->nodes(0)[1]);
}
