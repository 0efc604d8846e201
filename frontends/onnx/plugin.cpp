// tenon.frontend/1 for ONNX models.
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <new>

#include <tenon/abi/frontend.h>
#include <tenon/abi/host.h>
#include <tenon/cpp/plugin.hpp>

#include "frontends/onnx/graph/importer.h"
#include "frontends/onnx/reader/model.h"
#include "frontends/onnx/reader/model_limits.h"

namespace tenon::onnx {
namespace {

uint32_t accepts(void*, tenon_str_t name, const void* head, uint64_t head_bytes) {
  if (view(name).ends_with(".onnx")) return 80;
  // A model begins with its small IR version, followed by another of its fields: producer, domain,
  // version, text, graph or opset.
  const auto* bytes = static_cast<const unsigned char*>(head);
  const bool alike =
      head_bytes >= 3 && bytes[0] == 0x08 && bytes[1] >= 3 && bytes[1] < 32 &&
      std::string_view("\x12\x1a\x22\x28\x32\x3a\x42").find(static_cast<char>(bytes[2])) !=
          std::string_view::npos;
  return alike ? 20 : 0;
}

// "value.NAME" = "1,2,3": the integers of an input, which becomes a constant of the model.
// Exporters compute shapes, axes and counts from such inputs. Specialising a model in this way
// allows what a symbolic size cannot express, such as -1 in a shape.
Status read_values(const tenon_source_t& given, Source* source) {
  constexpr std::string_view kPrefix = "value.";
  for (uint32_t i = 0; i < given.option_count; ++i) {
    const std::string_view key = view(given.options[i].key);
    std::string_view text = view(given.options[i].value);
    if (!key.starts_with(kPrefix)) continue;
    std::vector<int64_t>& values = source->values[std::string(key.substr(kPrefix.size()))];
    while (!text.empty()) {
      const size_t end = std::min(text.find(','), text.size());
      int64_t value = 0;
      const auto [stop, error] = std::from_chars(text.data(), text.data() + end, value);
      if (error != std::errc() || stop != text.data() + end || values.size() == kMaxKnownElements) {
        return fail(
            TENON_INVALID_ARGUMENT,
            cat("T0714: option ", quote(key), " is ", quote(view(given.options[i].value)),
                ", and must be at most ", kMaxKnownElements, " integers with commas between them"));
      }
      values.push_back(value);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }
  return {};
}

// "dim.NAME" = "8": a symbolic dim of the inputs, which becomes a constant of the model.
Status read_dims(const tenon_source_t& given, Source* source) {
  constexpr std::string_view kPrefix = "dim.";
  for (uint32_t i = 0; i < given.option_count; ++i) {
    const std::string_view key = view(given.options[i].key), text = view(given.options[i].value);
    if (!key.starts_with(kPrefix)) continue;
    int64_t size = -1;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (error != std::errc() || stop != text.data() + text.size() || size < 0) {
      return fail(TENON_INVALID_ARGUMENT, cat("T0714: option ", quote(key), " is ", quote(text),
                                              ", and must be a whole number of at least 0"));
    }
    source->dims[std::string(key.substr(kPrefix.size()))] = size;
  }
  return {};
}

// "override.NAME" = "": an initializer that is an input, too, is given by the caller.
void read_overrides(const tenon_source_t& given, Source* source) {
  constexpr std::string_view kPrefix = "override.";
  for (uint32_t i = 0; i < given.option_count; ++i) {
    const std::string_view key = view(given.options[i].key);
    if (key.starts_with(kPrefix)) source->overrides.emplace(key.substr(kPrefix.size()));
  }
}

// Values of inputs, with which the host loads again.
void read_guarded(const tenon_source_t& given, Source* source) {
  for (uint32_t i = 0; i < given.value_count; ++i) {
    const tenon_file_tensor_t& tensor = *tenon_source_value(&given, i);
    Constant& value = source->guarded[std::string(view(tensor.name))];
    value.dtype = tensor.dtype;
    value.dims.assign(tensor.dims, tensor.dims + tensor.rank);
    value.blob = Blob::retain(tensor.blob);
  }
}

Status report(const ByValue& by_value, const tenon_value_sink_t& sink) {
  if (by_value.truth.valid())
    TENON_TRY(Status(sink.size_case(sink.self, by_value.truth.raw(), str(by_value.why_truth))));
  for (const auto& [input, why] : by_value.inputs)
    TENON_TRY(Status(sink.input(sink.self, str(input), str(why))));
  return by_value.only.empty() ? Status()
                               : Status(sink.only_by_value(sink.self, str(by_value.only)));
}

Status load(void*, const tenon_source_t* given, tenon_graph_t** out_graph) {
  const std::span<const std::byte> bytes = blob_bytes(given->bytes);
  Source source;
  source.name = view(given->name);
  source.folder = given->folder;
  source.file = given->bytes;
  source.bytes = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  source.files = context().query<tenon_host_files_t>(TENON_HOST_FILES_ID);
  TENON_TRY(read_values(*given, &source));
  TENON_TRY(read_dims(*given, &source));
  read_overrides(*given, &source);
  const bool again =
      given->size_bytes >= offsetof(tenon_source_t, cases) && given->value_sink != nullptr;
  const bool asks = again && given->size_bytes >= sizeof(tenon_source_t) &&
                    given->value_sink->size_bytes >= sizeof(tenon_value_sink_t);
  if (again) read_guarded(*given, &source);
  if (asks) source.cases.assign(given->cases, given->cases + given->case_count);
  Problems problems;
  try {
    ModelProto model;
    Graph graph;
    ByValue by_value = {.may_ask = asks};
    if (parse_model(source.bytes, &model, &problems) &&
        import_model(model, source, &problems, &graph, again ? &by_value : nullptr)) {
      if (again) TENON_TRY(report(by_value, *given->value_sink));
      *out_graph = graph.release();
      return {};
    }
  } catch (const std::bad_alloc&) {
    return fail(TENON_RESOURCE_EXHAUSTED, cat("T0111: ", quote(source.name),
                                              ": there is not enough memory to read the model"));
  }
  if (cancelled()) return fail(TENON_CANCELLED, "T0001: the operation was cancelled");
  return fail(TENON_INVALID_ARGUMENT, problems.text(source.name));
}

constexpr tenon_frontend_api_t kFrontend = {
    .size_bytes = sizeof(tenon_frontend_api_t),
    .self = nullptr,
    .name = str("onnx"),
    .extensions = str(".onnx"),
    .accepts = accepts,
    .load = entry<load>,
    .read_tensors = nullptr,
    .write_tensor = nullptr,
};

constexpr tenon_interface_t kInterfaces[] = {offer(TENON_FRONTEND_ID, kFrontend)};

}  // namespace
}  // namespace tenon::onnx

TENON_PLUGIN("onnx", "0.1.0", tenon::onnx::kInterfaces)
