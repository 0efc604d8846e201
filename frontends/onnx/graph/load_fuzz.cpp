// libFuzzer target: reads and imports any bytes with the real host. An accepted model must verify;
// a refusal must have an error.
#include <cstdlib>

#include <tenon/abi/host.h>
#include <tenon/cpp/session.hpp>

#include "frontends/onnx/graph/importer.h"

// Without ops, the first node of every model would be refused, and later code never reached.
static bool knows_ops() {
  const auto* registry = tenon::context().query<tenon_host_registry_t>(TENON_HOST_REGISTRY_ID);
  const tenon_op_def_t* add = nullptr;
  return registry != nullptr &&
         registry->op_find(registry->self, tenon::intern("add"), 0, &add) == TENON_OK;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tenon;
  using namespace tenon::onnx;
  static const bool kReady = [] {
    // A few bytes can make functions that take seconds at the usual limit, without reaching more
    // code.
    setenv("TENON_LIMIT_NODES", "2000", 1);
    static Session session;
    return session.open().ok() && knows_ops();
  }();
  if (!kReady) std::abort();
  const Blob file = Blob::bytes(data, size);
  const std::span<const std::byte> bytes = blob_bytes(file.get());
  Source source;
  source.name = "fuzz.onnx";
  source.file = file.get();
  source.bytes = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  ModelProto model;
  Problems problems;
  Graph graph;
  if (parse_model(source.bytes, &model, &problems) &&
      import_model(model, source, &problems, &graph)) {
    if (graph_api().verify(graph_api().self, graph.get()) != TENON_OK) std::abort();
  } else if (problems.empty()) {
    std::abort();
  }
  return 0;
}
