#include "tests/random/replay.h"

#include <fmt/core.h>

#include <filesystem>
#include <system_error>

#include <tenon/cpp/session.hpp>

namespace tenon::random_tests {
namespace {

std::string written(const Generated& generated, uint32_t format) {
  std::string bytes;
  const tenon_sink_t sink = sink_to(&bytes);
  (void)graph_api().graph_write(graph_api().self, generated.graph.get(), format, &sink);
  return bytes;
}

// The text form has only small constants.
bool has_large_constants(const Generated& generated) {
  tenon_graph_t* graph = generated.graph.get();
  for (tenon_value_t v = 0; v < graph_view(graph).value_limit; ++v) {
    const Value value(graph, v);
    if (value.is_constant() && blob_bytes(value.blob()).size() > TENON_TEXT_INLINE_BYTES_MAX)
      return true;
  }
  return false;
}

std::string write_tensor(const std::string& path, const Tensor& tensor) {
  const auto* session = context().query<tenon_host_session_t>(TENON_HOST_SESSION_ID);
  const Blob blob =
      Blob::bytes(tensor.data(), static_cast<uint64_t>(tensor.count()) * dtype_bytes(tensor.dtype));
  tenon_file_tensor_t raw = {};
  raw.size_bytes = sizeof raw;
  raw.dtype = tensor.dtype;
  raw.rank = static_cast<uint32_t>(tensor.dims.size());
  raw.dims = tensor.dims.data();
  raw.blob = blob.get();
  return session->tensor_write(session->self, str(path), &raw) == TENON_OK ? "" : failure_text();
}

}  // namespace

std::string text_of(const Generated& generated) {
  return written(generated, TENON_FORMAT_TEXT);
}

std::string save(const Generated& generated, const std::string& folder, const std::string& name,
                 std::string* command) {
  std::error_code ignored;  // a missing folder shows when writing into it fails
  std::filesystem::create_directories(folder, ignored);
  const bool binary = has_large_constants(generated);
  const std::string graph = fmt::format("{}/{}.{}", folder, name, binary ? "tirb" : "tir");
  const std::string bytes = written(generated, binary ? TENON_FORMAT_BINARY : TENON_FORMAT_TEXT);
  const auto* files = context().query<tenon_host_files_t>(TENON_HOST_FILES_ID);
  if (files->write(files->self, str(graph), bytes.data(), bytes.size()) != TENON_OK)
    return failure_text();
  *command = "tenon run " + graph;
  for (size_t i = 0; i < generated.inputs.size(); ++i) {
    const std::string path = fmt::format("{}/{}.{}.npy", folder, name, generated.inputs[i]);
    if (std::string problem = write_tensor(path, generated.bindings[0].inputs[i]); !problem.empty())
      return problem;
    *command += fmt::format(" --input {}={}", generated.inputs[i], path);
  }
  *command += " --check reference";
  return "";
}

}  // namespace tenon::random_tests
