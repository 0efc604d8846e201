// tenon.frontend/1 for .npy files: one tensor per file, not copied if the file has our element
// order.
#include <cstring>
#include <new>
#include <string>
#include <string_view>

#include <tenon/abi/frontend.h>
#include <tenon/abi/plugin.h>

#include "format.h"

namespace {

using tenon::npy::Header;

struct State {
  const tenon_host_t* host = nullptr;
  const tenon_host_graph_t* graph = nullptr;
};
State state;

constexpr tenon_str_t str(std::string_view text) {
  return {text.data(), text.size()};
}
std::string_view view(tenon_str_t text) {
  return {text.data, text.size};
}

tenon_code_t fail(tenon_code_t code, const std::string& text) {
  return state.host->fail(state.host->self, code, str(text), nullptr, 0);
}

uint32_t accepts(void*, tenon_str_t name, const void* head, uint64_t head_bytes) {
  if (head_bytes >= 6 && std::memcmp(head, "\x93NUMPY", 6) == 0) return 100;
  return view(name).ends_with(".npy") ? 50 : 0;
}

tenon_code_t make_blob(const tenon_source_t& source, std::string_view file, const Header& header,
                       tenon_blob_t** out) {
  const std::string_view data = file.substr(header.data_offset, header.data_bytes);
  if (header.dtype == TENON_PRED) {
    for (const char c : data) {
      if (c != 0 && c != 1) {
        return fail(TENON_INVALID_ARGUMENT, "T0125: '" + std::string(view(source.name)) +
                                                "': a boolean is neither 0 nor 1");
      }
    }
  }
  if (header.fortran_order || header.big_endian) {
    const std::vector<char> rows = tenon::npy::to_row_major(data, header);
    return state.graph->blob_bytes(state.graph->self, rows.data(), rows.size(), out);
  }
  // A misaligned element would trap or be slow on some devices, so such files are copied.
  if (header.data_offset % header.element_bytes != 0 || data.empty()) {
    return state.graph->blob_bytes(state.graph->self, data.data(), data.size(), out);
  }
  return state.graph->blob_range(state.graph->self, source.bytes, header.data_offset,
                                 header.data_bytes, out);
}

tenon_code_t read(const tenon_source_t& source, const tenon_file_tensor_sink_t& sink) {
  const void* data = nullptr;
  uint64_t size = 0;
  if (const tenon_code_t code =
          state.graph->blob_data(state.graph->self, source.bytes, &data, &size);
      code != TENON_OK) {
    return code;
  }
  const std::string_view file(static_cast<const char*>(data), size);
  Header header;
  if (const std::string error = tenon::npy::parse_header(file, &header); !error.empty()) {
    // "T01nn: what" becomes "T01nn: 'file': what".
    return fail(TENON_INVALID_ARGUMENT, error.substr(0, 7) + "'" + std::string(view(source.name)) +
                                            "': " + error.substr(7));
  }
  tenon_blob_t* blob = nullptr;
  if (const tenon_code_t code = make_blob(source, file, header, &blob); code != TENON_OK)
    return code;
  tenon_file_tensor_t tensor = {};
  tensor.size_bytes = sizeof tensor;
  tensor.dtype = header.dtype;
  tensor.rank = static_cast<uint32_t>(header.dims.size());
  tensor.dims = header.dims.data();
  tensor.blob = blob;
  const tenon_code_t code = sink.tensor(sink.self, &tensor);
  state.graph->blob_release(state.graph->self, blob);
  return code;
}

tenon_code_t read_tensors(void*, const tenon_source_t* source,
                          const tenon_file_tensor_sink_t* sink) {
  try {
    return read(*source, *sink);
  } catch (const std::bad_alloc&) {
    return fail(TENON_RESOURCE_EXHAUSTED, "T0111: there is not enough memory to read '" +
                                              std::string(view(source->name)) + "'");
  }
}

tenon_code_t write_tensor(void*, const tenon_file_tensor_t* tensor, const tenon_sink_t* sink) {
  try {
    const std::string header = tenon::npy::make_header(tensor->dtype, tensor->dims, tensor->rank);
    if (header.empty()) {
      return fail(
          TENON_UNIMPLEMENTED,
          "T0124: .npy has no element type for 4-bit integers and 8-bit floats; convert the "
          "tensor to f32 or i8 first");
    }
    const void* data = nullptr;
    uint64_t size = 0;
    if (const tenon_code_t code =
            state.graph->blob_data(state.graph->self, tensor->blob, &data, &size);
        code != TENON_OK) {
      return code;
    }
    if (const tenon_code_t code = sink->write(sink->self, header.data(), header.size());
        code != TENON_OK)
      return code;
    return size == 0 ? TENON_OK : sink->write(sink->self, data, size);
  } catch (const std::bad_alloc&) {
    return fail(TENON_RESOURCE_EXHAUSTED, "T0111: there is not enough memory to write a tensor");
  }
}

constexpr tenon_frontend_api_t kFrontend = {
    .size_bytes = sizeof(tenon_frontend_api_t),
    .self = nullptr,
    .name = str("npy"),
    .extensions = str(".npy"),
    .accepts = accepts,
    .load = nullptr,
    .read_tensors = read_tensors,
    .write_tensor = write_tensor,
};

constexpr tenon_interface_t kInterfaces[] = {{str(TENON_FRONTEND_ID), 0, 0, &kFrontend}};

constexpr tenon_plugin_t kPlugin = {
    .size_bytes = sizeof(tenon_plugin_t),
    .abi = TENON_TARGET_ABI,
    .name = str("npy"),
    .version = str("0.1.0"),
    .build_id = str("clang " __clang_version__),
    .self = nullptr,
    .interfaces = kInterfaces,
    .interface_count = 1,
    .shutdown = nullptr,
    .interface_bytes = sizeof(tenon_interface_t),
    .reserved = 0,
};

}  // namespace

extern "C" tenon_code_t tenon_plugin_query(uint32_t, const tenon_host_t* host,
                                           const tenon_plugin_t** out) {
  const void* table = nullptr;
  if (const tenon_code_t code = host->query(host->self, str(TENON_HOST_GRAPH_ID), 0, &table);
      code != TENON_OK)
    return code;
  state = {host, static_cast<const tenon_host_graph_t*>(table)};
  *out = &kPlugin;
  return TENON_OK;
}
